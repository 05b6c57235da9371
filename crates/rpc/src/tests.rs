//! What the answering end does for callers that stop reading or stop waiting, in a simulated network.

use crate::limits::{ANSWER_BYTES_MAX, CALLS_IN_FLIGHT_MAX, PING_PAUSE, SEND_STALL_MAX, SILENCE_MAX};
use crate::{Error, Frame, FrameKind, Handler, Incoming, Peer, decode_frame, encode_frame, serve};
use runtime::Group;
use runtime::net::{TcpListener, TcpStream};
use runtime::sim::{NodeId, SimConfig, World};
use std::cell::{Cell, RefCell};
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

fn address() -> SocketAddr {
    SocketAddr::new(IpAddr::from([10, 0, 0, 1]), 7000)
}

/// What the answering end has done.
#[derive(Default)]
struct Seen {
    begun: Cell<usize>,
    patience: RefCell<Vec<Duration>>,
    ended: Cell<bool>,
    expired: Cell<u64>,
}

/// A world with an answering node, whose answers have `bytes` bytes after `pause`, and a node for callers.
fn world(bytes: usize, pause: Duration) -> (World, NodeId, Rc<Seen>) {
    let mut world = World::new(7, SimConfig::calm());
    let answering = world.add_client(address().ip());
    let calling = world.add_client(IpAddr::from([10, 0, 0, 2]));
    let seen = Rc::new(Seen::default());
    let (told, counted) = (seen.clone(), seen.clone());
    let handler: Handler = Rc::new(move |incoming: Incoming| {
        told.begun.set(told.begun.get() + 1);
        told.patience.borrow_mut().push(incoming.patience);
        Box::pin(async move {
            runtime::sleep(pause).await;
            vec![7; bytes]
        })
    });
    drop(world.spawn(answering, async move {
        let listener = TcpListener::bind(address()).await.expect("the port is free");
        let (stream, _) = listener.accept().await.expect("somebody comes");
        let watched = counted.clone();
        drop(runtime::spawn(Group::RPC, async move {
            let expired = runtime::metrics::counter("messina_rpc_expired_calls_total", "", &[]);
            loop {
                watched.expired.set(expired.get());
                runtime::sleep(Duration::from_millis(1)).await;
            }
        }));
        serve(stream, handler).await.expect("frames are sound");
        counted.ended.set(true);
    }));
    world.run_for(Duration::from_millis(10));
    (world, calling, seen)
}

fn request(call: u64, time_left_ms: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    let frame = Frame { kind: FrameKind::Request, verb: 1, call, epoch: 1, time_left_ms, body: b"ask" };
    encode_frame(&frame, &mut bytes);
    bytes
}

/// Sends that many requests and never reads an answer.
fn ask_and_never_read(world: &mut World, calling: NodeId, count: u64, time_left_ms: u32) {
    drop(world.spawn(calling, async move {
        let stream = TcpStream::connect(address(), None).await.expect("it listens");
        for call in 0..count {
            if stream.send_all(request(call, time_left_ms)).await.is_err() {
                break;
            }
        }
        runtime::sleep(60 * SECOND).await;
    }));
}

#[test]
fn a_peer_that_never_reads_is_not_read_from_without_end() {
    let (mut world, calling, seen) = world(1024, Duration::ZERO);
    ask_and_never_read(&mut world, calling, 4 * CALLS_IN_FLIGHT_MAX as u64, 60_000);
    world.run_for(5 * SECOND);
    let begun = seen.begun.get();
    assert!(begun >= CALLS_IN_FLIGHT_MAX, "{begun} begun");
    assert!(begun < CALLS_IN_FLIGHT_MAX + 1024, "{begun} begun: more than in flight and what a window holds");
    assert!(!seen.ended.get(), "it may still begin to read");
    world.run_for(SEND_STALL_MAX);
    assert!(seen.ended.get(), "in the end the connection is closed");
}

#[test]
fn no_call_is_begun_while_answers_fill_the_bound() {
    const BYTES: usize = 64 << 10;
    let (mut world, calling, seen) = world(BYTES, Duration::ZERO);
    let kept = ANSWER_BYTES_MAX / BYTES;
    ask_and_never_read(&mut world, calling, 2 * kept as u64, 4000);
    world.run_for(3 * SECOND);
    let begun = seen.begun.get();
    // All requests that are received at once begin before the first of their answers is there.
    let at_once = (16 << 10) / request(0, 0).len();
    assert!((kept..kept + at_once).contains(&begun), "{begun} begun, {kept} kept");
    assert_eq!(seen.expired.get(), 0);
}

#[test]
fn answers_beyond_the_bound_wait_outside_until_nobody_waits_for_them() {
    const BYTES: usize = 64 << 10;
    let (mut world, calling, seen) = world(BYTES, SECOND);
    let count = 2 * (ANSWER_BYTES_MAX / BYTES) as u64;
    ask_and_never_read(&mut world, calling, count, 4000);
    world.run_for(3 * SECOND);
    assert_eq!(
        (seen.begun.get() as u64, seen.expired.get()),
        (count, 0),
        "all begun before the first answer"
    );
    world.run_for(2 * SECOND);
    let (kept, window) = (count / 2, 16);
    let expired = seen.expired.get();
    assert!((kept - window..=kept).contains(&expired), "{expired} of {count} expired");
}

fn ping(body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let frame = Frame { kind: FrameKind::Ping, verb: 0, call: 0, epoch: 0, time_left_ms: 0, body };
    encode_frame(&frame, &mut bytes);
    bytes
}

/// All frames that come within some time, each with its kind and its call.
async fn frames_within(stream: &TcpStream, time: Duration, pause: Duration) -> Vec<(FrameKind, u64)> {
    let end = runtime::now() + time;
    let (mut bytes, mut frames) = (Vec::new(), Vec::new());
    while let Ok(Ok(part)) = runtime::timeout_at(end, stream.recv()).await {
        if part.is_empty() {
            break;
        }
        bytes.extend_from_slice(&part);
        drop(part);
        let mut taken = 0;
        while let Some((frame, size)) = decode_frame(&bytes[taken..]).expect("sound") {
            taken += size;
            frames.push((frame.kind, frame.call));
        }
        bytes.drain(..taken);
        runtime::sleep(pause).await;
    }
    frames
}

#[test]
fn one_pong_is_on_its_way_however_many_pings_came_and_answers_do_not_hold_it_up() {
    let (mut world, calling, seen) = world(ANSWER_BYTES_MAX, Duration::from_millis(100));
    let mut heard = world.spawn(calling, async {
        let stream = TcpStream::connect(address(), None).await.expect("it listens");
        // One answer fills the bound, and another waits for room; the pings come behind it.
        stream.send_all([request(1, 60_000), request(2, 60_000)].concat()).await.expect("there is room");
        runtime::sleep(SECOND).await;
        stream.send_all(ping(b"").repeat(100)).await.expect("there is room");
        stream.send_all(request(3, 60_000)).await.expect("there is room");
        runtime::sleep(SECOND).await;
        frames_within(&stream, 30 * SECOND, Duration::ZERO).await
    });
    world.run_for(40 * SECOND);
    let heard: Vec<(FrameKind, u64)> = heard.take().expect("ended");
    let order = [(FrameKind::Response, 1), (FrameKind::Pong, 0), (FrameKind::Response, 2)];
    assert_eq!(heard[..3], order);
    assert_eq!(heard[3..], [(FrameKind::Response, 3)]);
    assert_eq!(seen.begun.get(), 3);
}

#[test]
fn a_ping_with_a_body_ends_the_connection() {
    let mut world = World::new(7, SimConfig::calm());
    let answering = world.add_client(address().ip());
    let calling = world.add_client(IpAddr::from([10, 0, 0, 2]));
    let mut served = world.spawn(answering, async {
        let listener = TcpListener::bind(address()).await.expect("the port is free");
        let (stream, _) = listener.accept().await.expect("somebody comes");
        serve(stream, Rc::new(|_| Box::pin(async { Vec::new() }))).await
    });
    world.run_for(Duration::from_millis(10));
    drop(world.spawn(calling, async {
        let stream = TcpStream::connect(address(), None).await.expect("it listens");
        stream.send_all(ping(b"large")).await.expect("there is room");
        runtime::sleep(SECOND).await;
    }));
    world.run_for(2 * SECOND);
    assert!(matches!(served.take(), Some(Err(Error::Malformed { .. }))));
}

#[test]
fn a_slow_link_is_no_stall() {
    const CALLS: u64 = 64;
    let (mut world, calling, _) = world(64 << 10, Duration::ZERO);
    let mut heard = world.spawn(calling, async {
        let stream = TcpStream::connect(address(), None).await.expect("it listens");
        let requests: Vec<Vec<u8>> = (0..CALLS).map(|call| request(call, 60_000)).collect();
        stream.send_all(requests.concat()).await.expect("there is room");
        let start = runtime::now();
        let frames = frames_within(&stream, 100 * SECOND, SEND_STALL_MAX / 100).await;
        (frames.len() as u64, runtime::now() - start)
    });
    world.run_for(110 * SECOND);
    let (count, took) = heard.take().expect("ended");
    assert_eq!(count, CALLS, "after {took:?}");
    assert!(took > 2 * SEND_STALL_MAX, "{took:?}");
}

#[test]
fn calls_to_a_silent_peer_fail_once_it_is_given_up() {
    let mut world = World::new(7, SimConfig::calm());
    let silent = world.add_client(address().ip());
    let calling = world.add_client(IpAddr::from([10, 0, 0, 2]));
    drop(world.spawn(silent, async {
        let listener = TcpListener::bind(address()).await.expect("the port is free");
        let _deaf = listener.accept().await.expect("somebody comes");
        runtime::sleep(60 * SECOND).await;
    }));
    world.run_for(Duration::from_millis(10));
    let mut outcome = world.spawn(calling, async {
        let (peer, start) = (Peer::new(address()), runtime::now());
        // More than the socket takes: the sending end waits, too.
        let answer = peer.call(1, 1, &vec![7; 8 << 20], 60 * SECOND).await;
        peer.close();
        (answer, runtime::now() - start)
    });
    world.run_for(60 * SECOND);
    let (answer, took) = outcome.take().expect("ended");
    assert_eq!(answer, Err(Error::Unreachable { peer: address() }));
    assert!(took < SILENCE_MAX + 2 * PING_PAUSE, "{took:?}");
}

#[test]
fn a_late_call_is_not_begun_and_a_late_answer_is_not_sent() {
    let (mut world, calling, seen) = world(10, Duration::from_millis(50));
    let mut answered = world.spawn(calling, async move {
        let stream = TcpStream::connect(address(), None).await.expect("it listens");
        let calls = [(1, 0), (2, 20), (3, 1000)].map(|(call, left)| request(call, left));
        stream.send_all(calls.concat()).await.expect("there is room");
        runtime::sleep(SECOND).await;
        let bytes = stream.recv().await.expect("an answer").to_vec();
        let (frame, size) = decode_frame(&bytes).expect("sound").expect("whole");
        assert_eq!(size, bytes.len(), "one answer");
        frame.call
    });
    world.run_for(2 * SECOND);
    assert_eq!(answered.take(), Some(3));
    assert_eq!((seen.begun.get(), seen.expired.get()), (2, 2));
    let patience = seen.patience.borrow();
    assert!(patience[0] <= Duration::from_millis(20) && patience[1] > Duration::from_millis(900));
}

#[test]
fn a_call_that_nobody_waits_for_is_forgotten() {
    let (mut world, calling, seen) = world(10, 5 * SECOND);
    let mut outcome = world.spawn(calling, async {
        let peer = Peer::new(address());
        let late = peer.call(1, 1, b"ask", Duration::from_micros(10_500)).await;
        assert_eq!(late, Err(Error::TimedOut { peer: address() }));
        let call = peer.call(1, 1, b"ask", 60 * SECOND);
        assert!(runtime::timeout(Duration::from_millis(10), call).await.is_err());
        let forgotten = peer.in_flight();
        peer.close();
        forgotten
    });
    world.run_for(SECOND);
    assert_eq!(outcome.take(), Some(0));
    assert_eq!(seen.begun.get(), 2);
}
