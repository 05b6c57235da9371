//! Streams keep their order, cut links hold them, death is seen as a real stack would show it.

use super::*;

fn ip(n: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, n])
}

struct Pair {
    net: Net,
    now: u64,
    client: SockId,
    server: SockId,
    listener: SockId,
}

fn advance(net: &mut Net, now: &mut u64, until: u64) {
    while let Some(next) = net.next_at().filter(|next| *next <= until) {
        *now = (*now).max(next);
        net.advance(*now);
    }
    *now = until;
}

fn connected(seed: u64) -> Pair {
    let mut net = Net::new(seed);
    for n in [1, 2] {
        net.add_host(ip(n));
        net.set_alive(ip(n));
    }
    let mut now = 0;
    let (listener, addr) = net.listen(ip(2), SocketAddr::new(ip(2), 9042)).expect("free");
    let client = net.connect(now, ip(1), None, addr).expect("a port is free");
    assert!(net.connected(client).is_none());
    advance(&mut net, &mut now, SECOND);
    assert!(matches!(net.connected(client), Some(Ok(()))));
    let (server, from) = net.accept(listener).expect("listening").expect("one waits");
    assert_eq!(from.ip(), ip(1));
    Pair { net, now, client, server, listener }
}

fn drain(pair: &mut Pair) -> Vec<u8> {
    let mut out = Vec::new();
    while let Ok(Some(bytes)) = pair.net.recv(pair.server, 7) {
        if bytes.is_empty() {
            break;
        }
        out.extend(bytes);
    }
    out
}

#[test]
fn bytes_arrive_in_order_and_the_window_is_bounded() {
    for seed in 0..50 {
        let mut pair = connected(seed);
        pair.net.set_delay(Delay { min: 10, max: MILLI, spike: 0.1 });
        let mut sent = 0u32;
        let mut expected = Vec::new();
        let mut got = Vec::new();
        for _ in 0..200 {
            let bytes: Vec<u8> = (0..997).map(|i| (sent + i) as u8).collect();
            let n = pair.net.send(pair.now, pair.client, &bytes).expect("open");
            expected.extend(&bytes[..n]);
            sent += n as u32;
            let until = pair.now + MILLI;
            advance(&mut pair.net, &mut pair.now, until);
            got.extend(drain(&mut pair));
        }
        let until = pair.now + SECOND;
        advance(&mut pair.net, &mut pair.now, until);
        got.extend(drain(&mut pair));
        assert_eq!(got, expected, "seed {seed}");
        // Nobody reads any more: the window fills and then takes nothing.
        let mut taken = 0;
        loop {
            match pair.net.send(pair.now, pair.client, &[0; 4096]).expect("open") {
                0 => break,
                n => taken += n,
            }
        }
        assert!(taken <= 256 << 10);
    }
}

#[test]
fn a_cut_link_holds_one_direction_until_it_heals() {
    let mut pair = connected(1);
    pair.net.cut(ip(1), ip(2));
    pair.net.send(pair.now, pair.client, b"one").expect("open");
    pair.net.send(pair.now, pair.server, b"back").expect("open");
    let until = pair.now + 5 * SECOND;
    advance(&mut pair.net, &mut pair.now, until);
    assert_eq!(drain(&mut pair), b"");
    assert_eq!(pair.net.recv(pair.client, 99).expect("open").as_deref(), Some(&b"back"[..]));
    pair.net.send(pair.now, pair.client, b"two").expect("open");
    pair.net.heal_all(pair.now);
    let until = pair.now + SECOND;
    advance(&mut pair.net, &mut pair.now, until);
    assert_eq!(drain(&mut pair), b"onetwo");
}

#[test]
fn closing_ends_the_stream_after_its_last_byte() {
    let mut pair = connected(2);
    pair.net.send(pair.now, pair.client, b"bye").expect("open");
    pair.net.close(pair.now, pair.client);
    let until = pair.now + SECOND;
    advance(&mut pair.net, &mut pair.now, until);
    assert_eq!(pair.net.recv(pair.server, 99).expect("open").as_deref(), Some(&b"bye"[..]));
    assert_eq!(pair.net.recv(pair.server, 99).expect("open").as_deref(), Some(&b""[..]));
    pair.net.send(pair.now, pair.server, b"late").expect("half open");
    let until = pair.now + SECOND;
    advance(&mut pair.net, &mut pair.now, until);
    assert!(pair.net.send(pair.now, pair.server, b"dead").is_err());
    pair.net.close(pair.now, pair.server);
    assert!(pair.net.sockets.is_empty());
}

#[test]
fn a_killed_process_resets_its_peers() {
    let mut pair = connected(3);
    pair.net.host_down(pair.now, ip(2), true);
    let until = pair.now + SECOND;
    advance(&mut pair.net, &mut pair.now, until);
    let error = pair.net.recv(pair.client, 1).expect_err("reset");
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    assert!(pair.net.accept(pair.listener).is_err());
}

#[test]
fn a_machine_without_power_is_silent_until_it_is_back_or_the_sender_gives_up() {
    for back in [false, true] {
        let mut pair = connected(4);
        pair.net.host_down(pair.now, ip(2), false);
        pair.net.send(pair.now, pair.client, b"anyone?").expect("nobody knows yet");
        let until = pair.now + 2 * SECOND;
        advance(&mut pair.net, &mut pair.now, until);
        assert!(pair.net.recv(pair.client, 1).expect("still silent").is_none());
        if back {
            pair.net.set_alive(ip(2));
        }
        let until = pair.now + 60 * SECOND;
        advance(&mut pair.net, &mut pair.now, until);
        let error = pair.net.recv(pair.client, 1).expect_err("dead");
        let expected = if back { io::ErrorKind::ConnectionReset } else { io::ErrorKind::TimedOut };
        assert_eq!(error.kind(), expected);
    }
}

#[test]
fn nobody_listening_is_refused_and_a_dead_host_refused_or_timed_out() {
    let mut kinds = BTreeSet::new();
    for seed in 0..20 {
        let mut pair = connected(seed);
        let wrong = pair.net.connect(pair.now, ip(1), None, SocketAddr::new(ip(2), 1)).expect("free");
        pair.net.set_delay(Delay { min: 1, max: 2, spike: 0.0 });
        let until = pair.now + SECOND;
        advance(&mut pair.net, &mut pair.now, until);
        let refused = pair.net.connected(wrong).expect("decided").expect_err("nobody listens");
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        pair.net.host_down(pair.now, ip(2), false);
        let dead = pair.net.connect(pair.now, ip(1), None, SocketAddr::new(ip(2), 9042)).expect("free");
        let until = pair.now + 10 * SECOND;
        advance(&mut pair.net, &mut pair.now, until);
        kinds.insert(pair.net.connected(dead).expect("decided").expect_err("dead").kind());
    }
    assert_eq!(
        kinds.into_iter().collect::<Vec<_>>(),
        [io::ErrorKind::ConnectionRefused, io::ErrorKind::TimedOut]
    );
}

#[test]
fn the_seed_decides_every_delivery() {
    let trace = |seed| {
        let mut pair = connected(seed);
        for n in 0..20u8 {
            pair.net.send(pair.now, pair.client, &[n; 100]).expect("open");
            let until = pair.now + MILLI;
            advance(&mut pair.net, &mut pair.now, until);
        }
        pair.net.trace()
    };
    assert_eq!(trace(1), trace(1));
    assert_ne!(trace(1), trace(2));
}
