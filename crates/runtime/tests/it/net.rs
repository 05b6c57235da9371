//! Connections over loopback.

use crate::{everywhere, on_shard};
use runtime::net::{TcpListener, TcpStream};
use runtime::{Group, ShardId, now, shard, sleep, spawn, submit_to, timeout, yield_now};
use std::net::SocketAddr;
use std::time::Duration;

fn loopback() -> SocketAddr {
    "127.0.0.1:0".parse().expect("an address")
}

async fn echo(stream: TcpStream) {
    while let Ok(bytes) = stream.recv().await {
        if bytes.is_empty() {
            return;
        }
        let copy = bytes.to_vec();
        drop(bytes);
        if stream.send_all(copy).await.is_err() {
            return;
        }
    }
}

async fn echo_server() -> SocketAddr {
    let listener = TcpListener::bind(loopback()).await.expect("binds");
    let address = listener.local_addr().expect("has an address");
    spawn(Group::MAIN, async move {
        while let Ok((stream, _)) = listener.accept().await {
            spawn(Group::QUERY, echo(stream));
        }
    });
    address
}

/// So many connections of this shard with itself, both ends of each: who connected, who accepted.
async fn connected(count: usize) -> Vec<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind(loopback()).await.expect("binds");
    let address = listener.local_addr().expect("has an address");
    let mut pairs = Vec::new();
    for _ in 0..count {
        let client = TcpStream::connect(address, None).await.expect("connects");
        let (server, _) = listener.accept().await.expect("accepts");
        pairs.push((client, server));
    }
    pairs
}

async fn read_exactly(stream: &TcpStream, len: usize) -> Vec<u8> {
    let mut all = Vec::new();
    while all.len() < len {
        let bytes = stream.recv().await.expect("receives");
        assert!(!bytes.is_empty(), "ended after {} of {len}", all.len());
        all.extend_from_slice(&bytes);
    }
    all
}

#[test]
fn echo_of_small_and_large_messages() {
    everywhere(1, || async {
        let address = echo_server().await;
        let mut clients = Vec::new();
        for client in 0..100usize {
            clients.push(spawn(Group::MAIN, async move {
                let stream = TcpStream::connect(address, None).await.expect("connects");
                assert_eq!(stream.peer_addr().expect("peer"), address);
                for round in 0..20usize {
                    let len = if client == 7 { 300_000 } else { 1 + client * 31 + round };
                    let message: Vec<u8> = (0..len).map(|i| (i * 7 + round) as u8).collect();
                    let receiver = stream.clone();
                    let reader = spawn(Group::MAIN, async move { read_exactly(&receiver, len).await });
                    let back = stream.send_all(message).await.expect("sends");
                    assert!(reader.await == back);
                }
                stream.shutdown();
                assert!(stream.recv().await.map_or(true, |b| b.is_empty()));
            }));
        }
        for client in clients {
            client.await;
        }
    });
}

/// Connections that the kernel has made and nobody has accepted yet, on the listener of this port.
fn backlog(port: u16) -> usize {
    let table = std::fs::read_to_string("/proc/net/tcp").expect("a table of sockets");
    let listening = format!(":{port:04X} 00000000:0000 0A ");
    let line = table.lines().find(|line| line.contains(&listening)).expect("the listener is listed");
    let (_, queues) = line.split_once(" 0A ").expect("matched above");
    usize::from_str_radix(&queues[9..17], 16).expect("a number")
}

/// A burst would otherwise take descriptors that the node needs for files before it can refuse a single connection.
#[test]
fn a_connection_takes_a_descriptor_only_when_it_is_accepted() {
    const CLIENTS: usize = 40;
    on_shard(|| async {
        let listener = TcpListener::bind(loopback()).await.expect("binds");
        let address = listener.local_addr().expect("has an address");
        let mut clients = Vec::new();
        for _ in 0..CLIENTS {
            clients.push(TcpStream::connect(address, None).await.expect("connects"));
        }
        for accepted in 1..=CLIENTS {
            let (server, _) = listener.accept().await.expect("accepts");
            sleep(Duration::from_millis(1)).await;
            assert_eq!(backlog(address.port()), CLIENTS - accepted);
            drop(server);
        }
    });
}

#[test]
fn a_fast_client_does_not_take_every_buffer() {
    everywhere(1, || async {
        let (flood, slow) = connected(1).await.remove(0);
        let sender =
            spawn(Group::MAIN, async move { flood.send_all(vec![3; 8 << 20]).await.map(|v| v.len()) });
        // Its receive op is armed and fills, while nobody reads.
        let first = slow.recv().await.expect("receives").len();
        sleep(Duration::from_millis(50)).await;
        let echo = echo_server().await;
        for _ in 0..50 {
            let other = TcpStream::connect(echo, None).await.expect("connects");
            other.send_all(b"hello".to_vec()).await.expect("sends");
            assert_eq!(read_exactly(&other, 5).await, b"hello");
        }
        let mut count = first;
        while count < 8 << 20 {
            let bytes = slow.recv().await.expect("receives");
            assert!(bytes.iter().all(|b| *b == 3));
            count += bytes.len();
        }
        assert_eq!(sender.await.expect("sends"), 8 << 20);
        assert!(slow.recv().await.expect("ends").is_empty());
    });
}

#[test]
fn many_connections_outnumber_the_buffers() {
    everywhere(1, || async {
        let pairs = connected(300).await;
        // Armed first, then all send at once, and nobody reads until every message has arrived.
        let readers: Vec<_> = pairs
            .iter()
            .map(|(_, server)| {
                let server = server.clone();
                spawn(Group::QUERY, async move {
                    let first = server.recv().await.expect("receives");
                    sleep(Duration::from_millis(3)).await;
                    let mut len = first.len();
                    drop(first);
                    while len < 20_000 {
                        len += server.recv().await.expect("receives").len();
                    }
                    len
                })
            })
            .collect();
        yield_now().await;
        for (client, _) in &pairs {
            client.send_all(vec![1; 20_000]).await.expect("sends");
        }
        for reader in readers {
            assert_eq!(timeout(Duration::from_secs(20), reader).await, Ok(20_000));
        }
    });
}

/// Streams whose readers have stopped hold what they received; some hold it in their hands.
#[test]
fn streams_that_nobody_reads_keep_no_other_from_receiving() {
    const BYTES: usize = 300_000;
    everywhere(1, || async {
        let mut stalled = Vec::new();
        for (number, (client, server)) in connected(80).await.into_iter().enumerate() {
            // The first receive arms the stream; what comes afterwards is taken without anybody asking.
            client.send_all(vec![1]).await.expect("sends");
            let first = timeout(Duration::from_secs(10), server.recv()).await.expect("is heard");
            let sender = client.clone();
            drop(spawn(Group::MAIN, async move { sender.send_all(vec![2; BYTES]).await }));
            let in_hand = match number % 2 {
                0 => Some(timeout(Duration::from_secs(10), server.recv()).await.expect("is heard")),
                _ => None,
            };
            let in_hand = in_hand.map(|bytes| bytes.expect("receives"));
            stalled.push((client, server, first, in_hand));
        }
        sleep(Duration::from_millis(50)).await;
        let address = echo_server().await;
        for _ in 0..20 {
            let stream = TcpStream::connect(address, None).await.expect("connects");
            stream.send_all(vec![7; 100]).await.expect("sends");
            let answer = timeout(Duration::from_secs(10), read_exactly(&stream, 100)).await;
            assert_eq!(answer.expect("is heard"), vec![7; 100]);
        }
        // Nothing that was kept is lost.
        let (_client, server, _, in_hand) = &stalled[10];
        let read = in_hand.as_ref().map_or(0, |bytes| bytes.len());
        let rest = timeout(Duration::from_secs(10), read_exactly(server, BYTES - read)).await;
        assert!(rest.expect("arrives").iter().all(|byte| *byte == 2));
    });
}

#[test]
fn a_dropped_recv_loses_nothing() {
    everywhere(1, || async {
        let address = echo_server().await;
        let stream = TcpStream::connect(address, None).await.expect("connects");
        let mut back = Vec::new();
        for i in 0..200u8 {
            stream.send_all(vec![i]).await.expect("sends");
            while let Ok(bytes) = timeout(Duration::ZERO, stream.recv()).await {
                back.extend_from_slice(&bytes.expect("receives"));
            }
        }
        back.extend(read_exactly(&stream, 200 - back.len()).await);
        assert_eq!(back, (0..200).collect::<Vec<u8>>());
    });
}

#[test]
fn refused_dropped_and_cancelled_connects() {
    everywhere(1, || async {
        let address = {
            let listener = TcpListener::bind(loopback()).await.expect("binds");
            listener.local_addr().expect("address")
        };
        let refused = TcpStream::connect(address, None).await.err().expect("nobody listens");
        assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
        let listener = TcpListener::bind(loopback()).await.expect("binds");
        let address = listener.local_addr().expect("address");
        for _ in 0..50 {
            let _ = timeout(Duration::ZERO, TcpStream::connect(address, None)).await;
            let _ = timeout(Duration::ZERO, listener.accept()).await;
        }
        // A send that waits for a reader who never reads is dropped midway.
        let stream = TcpStream::connect(address, None).await.expect("connects");
        let sending = stream.send_all(vec![0; 16 << 20]);
        assert!(timeout(Duration::from_millis(20), sending).await.is_err());
        drop(stream);
        // A simulated node has one address.
        let local = if runtime::simulated() { "127.0.0.1:0" } else { "127.0.0.2:0" };
        let local: SocketAddr = local.parse().expect("an address");
        let named = TcpStream::connect(address, Some(local)).await.expect("connects");
        assert_eq!(named.local_addr().expect("local").ip(), local.ip());
    });
}

#[test]
fn a_connection_moves_to_another_shard() {
    everywhere(2, || async {
        if shard().0 != 0 {
            return;
        }
        let listener = TcpListener::bind(loopback()).await.expect("binds");
        let address = listener.local_addr().expect("address");
        let client = TcpStream::connect(address, None).await.expect("connects");
        let (server, _) = listener.accept().await.expect("accepts");
        client.send_all(b"early".to_vec()).await.expect("sends");
        let transfer = server.into_transfer().expect("nothing was received");
        let served = submit_to(ShardId(1), Group::QUERY, move || async move {
            let stream = TcpStream::from_transfer(transfer);
            let bytes = read_exactly(&stream, 5).await;
            stream.send_all(b"from one".to_vec()).await.expect("sends");
            bytes
        });
        assert_eq!(served.await, b"early");
        assert_eq!(read_exactly(&client, 8).await, b"from one");
        assert!(client.recv().await.expect("ends").is_empty());
        assert!(client.into_transfer().is_err());
    });
}

#[test]
fn a_quiet_shard_sleeps() {
    on_shard(|| async {
        let _address = echo_server().await;
        let cpu = || {
            // SAFETY: fills a local variable.
            let usage = unsafe {
                let mut time = std::mem::zeroed::<libc::timespec>();
                libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time);
                time
            };
            Duration::new(usage.tv_sec as u64, usage.tv_nsec as u32)
        };
        let (start, used) = (now(), cpu());
        sleep(Duration::from_millis(300)).await;
        let (wall, used) = (now() - start, cpu() - used);
        assert!(used < wall / 50, "{used:?} of {wall:?}");
    });
}
