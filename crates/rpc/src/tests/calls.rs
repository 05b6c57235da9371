//! What becomes of calls: the right shard, deadlines, overload, peers that stop reading, connections that die.

use super::*;
use crate::limits::{
    ANSWER_BYTES_MAX, CALLS_IN_FLIGHT_MAX, DATA_SILENCE_MAX, PEER_BYTES_MAX, SEND_STALL_MAX,
    SERVED_BYTES_MAX, SHARD_BYTES_MAX,
};
use crate::{CallError, Gather};
use std::cell::{Cell, RefCell};

fn call(
    shard: u16,
    verb: u8,
    argument: u32,
    timeout: Duration,
) -> impl AsyncFnOnce() -> Result<Vec<u8>, CallError> + Send {
    async move || {
        let encode = |out: &mut Vec<u8>| out.extend_from_slice(&argument.to_be_bytes());
        runtime::local::<Pool>().call(host(2), shard, asks(verb, timeout), encode).await
    }
}

#[test]
fn a_call_runs_on_the_shard_it_is_for() {
    for (ours, theirs) in [(1, 1), (1, 4), (4, 1), (2, 3), (4, 4)] {
        let (mut world, nodes) = cluster(u64::from(ours * 10 + theirs), &[ours, theirs]);
        world.run_for(SECOND);
        for from in 0..ours {
            for to in 0..theirs {
                let task = on_shard(&mut world, &nodes[0], from, call(to, ECHO, 7, SECOND));
                let answer = result(&mut world, task, SECOND);
                assert_eq!(answer, Ok(vec![to as u8, 0, 0, 0, 7]), "{from} of {ours} to {to} of {theirs}");
            }
        }
        let beyond = on_shard(&mut world, &nodes[0], 0, call(theirs, ECHO, 7, SECOND));
        assert_eq!(result(&mut world, beyond, SECOND).map(|body| body[0]), Ok(0), "modulo");
    }
}

#[test]
fn what_a_peer_knows_is_known_from_its_hello() {
    let (mut world, nodes) = cluster(5, &[2, 1]);
    nodes[1].rules.identity.lock().unwrap().features = 0b101 << 40;
    world.run_for(SECOND);
    let task = on_shard(&mut world, &nodes[0], 1, async || {
        let pool = runtime::local::<Pool>();
        [(2, 1 << 40), (2, 0b101 << 40), (2, 0b11 << 40), (9, 1 << 40)]
            .map(|(n, bits)| pool.knows(host(n), bits))
    });
    assert_eq!(result(&mut world, task, SECOND), [true, true, false, false]);
}

#[test]
fn each_failure_has_its_name() {
    let (mut world, nodes) = cluster(1, &[1, 1]);
    world.run_for(SECOND);
    let mut ask = |verb, argument, timeout| {
        let task = on_shard(&mut world, &nodes[0], 0, call(0, verb, argument, timeout));
        result(&mut world, task, 10 * SECOND)
    };
    let peer = host(2);
    assert_eq!(ask(SLOW, 100, SECOND), Ok(vec![7]));
    assert_eq!(ask(SLOW, 2000, SECOND), Err(CallError::TimedOut { peer }));
    assert_eq!(ask(UNKNOWN, 0, SECOND), Err(CallError::Unsupported { peer }));
    assert_eq!(ask(GIVE_UP, 0, SECOND), Err(CallError::Failed { peer }));
    assert_eq!(ask(LARGE, 1 << 20, SECOND).map(|body| body.len()), Ok(1 << 20));
    assert_eq!(
        ask(LARGE, (64 << 20) + 1, SECOND),
        Err(CallError::Failed { peer }),
        "too large to be answered"
    );
    let large = on_shard(&mut world, &nodes[0], 0, async || {
        let encode = |out: &mut Vec<u8>| out.resize(out.len() + (64 << 20) + 1, 0);
        runtime::local::<Pool>().call(host(2), 0, asks(ECHO, SECOND), encode).await
    });
    let large = result(&mut world, large, SECOND);
    assert_eq!(large, Err(CallError::TooLarge { peer, bytes: (64 << 20) + 1 }));
    let nobody = on_shard(&mut world, &nodes[0], 0, async || {
        runtime::local::<Pool>().call(host(9), 0, asks(ECHO, SECOND), |_| ()).await
    });
    assert!(matches!(result(&mut world, nobody, SECOND), Err(CallError::Unreachable { .. })));
}

#[test]
fn the_control_class_is_answered_both_ways() {
    let (mut world, nodes) = cluster(1, &[2, 2]);
    world.run_for(SECOND);
    for (node, other) in [(&nodes[0], 2), (&nodes[1], 1)] {
        let task = on_shard(&mut world, node, 0, async move || {
            runtime::local::<Links>().call(host(other), asks(ECHO, SECOND), |out| out.push(3)).await
        });
        assert_eq!(result(&mut world, task, SECOND), Ok(vec![0, 3]));
    }
}

/// Counts the answers of gathered calls.
#[derive(Default)]
struct Counted {
    answers: Cell<usize>,
    late: Cell<usize>,
    failed: Cell<usize>,
    seen: RefCell<Vec<u16>>,
}

impl Gather for Counted {
    fn answered(&self, index: u16, answer: Result<&[u8], CallError>) {
        let count = match answer {
            Ok(_) => &self.answers,
            Err(CallError::TimedOut { .. }) => &self.late,
            Err(_) => &self.failed,
        };
        count.set(count.get() + 1);
        self.seen.borrow_mut().push(index);
    }
}

/// Waits for an answer and has the connections, as a coordinator's requests do.
struct Holder(Rc<Pool>);

impl Gather for Holder {
    fn answered(&self, _: u16, _: Result<&[u8], CallError>) {
        drop(self.0.clone());
    }
}

#[test]
fn a_node_that_dies_at_any_moment_of_a_call_leaves_nothing_behind() {
    for steps in 0..250 {
        let (mut world, nodes) = cluster(6, &[1, 1]);
        world.run_for(SECOND);
        drop(on_shard(&mut world, &nodes[0], 0, async || {
            let pool = runtime::local::<Pool>();
            let gather: Rc<dyn Gather> = Rc::new(Holder(pool.clone()));
            pool.send(host(2), 0, asks(SLOW, SECOND), (gather, 0), |out| out.extend_from_slice(&[0, 0, 0, 9]))
        }));
        for _ in 0..steps {
            world.step(u64::MAX);
        }
        world.kill(nodes[0].id);
    }
}

#[test]
fn gathered_calls_are_told_once_each() {
    let (mut world, nodes) = cluster(1, &[1, 2]);
    world.run_for(SECOND);
    let task = on_shard(&mut world, &nodes[0], 0, async || {
        let pool = runtime::local::<Pool>();
        let gather = Rc::new(Counted::default());
        for index in 0..30u16 {
            let verb = [ECHO, SLOW, UNKNOWN][usize::from(index % 3)];
            let encode = |out: &mut Vec<u8>| out.extend_from_slice(&60_000u32.to_be_bytes());
            let to = (gather.clone() as Rc<dyn Gather>, index);
            pool.send(host(2), index % 2, asks(verb, SECOND), to, encode).expect("it is up");
        }
        runtime::sleep(2 * SECOND).await;
        let seen = gather.seen.take().into_iter().collect::<std::collections::BTreeSet<u16>>();
        (gather.answers.get(), gather.late.get(), gather.failed.get(), seen.len())
    });
    assert_eq!(result(&mut world, task, 5 * SECOND), (10, 10, 10, 30));
}

#[test]
fn gathered_calls_fail_with_their_connection() {
    let (mut world, nodes) = cluster(1, &[1, 1]);
    world.run_for(SECOND);
    let task = on_shard(&mut world, &nodes[0], 0, async || {
        let gather = Rc::new(Counted::default());
        for index in 0..3 {
            let encode = |out: &mut Vec<u8>| out.extend_from_slice(&60_000u32.to_be_bytes());
            let to = (gather.clone() as Rc<dyn Gather>, index);
            runtime::local::<Pool>().send(host(2), 0, asks(SLOW, 60 * SECOND), to, encode).expect("it is up");
        }
        while gather.failed.get() < 3 {
            runtime::sleep(SECOND / 100).await;
        }
        gather.failed.get()
    });
    world.run_for(SECOND / 2);
    world.kill(nodes[1].id);
    assert_eq!(result(&mut world, task, 5 * SECOND), 3);
}

/// Asks once for four answers, of indexes 10 to 13.
fn ask_for_several(gather: &Rc<Counted>, verb: u8, timeout: Duration) {
    let to = gather.clone() as Rc<dyn Gather>;
    let encode = |calls: &[u64], out: &mut Vec<u8>| {
        calls.iter().for_each(|call| out.extend_from_slice(&call.to_be_bytes()));
    };
    let pool = runtime::local::<Pool>();
    pool.send_for_many(host(2), 0, asks(verb, timeout), (&to, 10, &[11, 12, 13]), encode).expect("it is up");
}

#[test]
fn one_request_has_several_answers_each_told_once() {
    let (mut world, nodes) = cluster(1, &[1, 2]);
    world.run_for(SECOND);
    let task = on_shard(&mut world, &nodes[0], 0, async || {
        let gather = Rc::new(Counted::default());
        ask_for_several(&gather, SEVERAL, SECOND);
        runtime::sleep(SECOND / 2).await;
        let soon =
            (gather.answers.get(), gather.late.get(), gather.failed.get(), gather.seen.borrow().clone());
        runtime::sleep(2 * SECOND).await;
        let pool = runtime::local::<Pool>();
        (soon, gather.seen.take(), gather.late.get(), pool.in_flight(), pool.traffic().in_flight)
    });
    let (soon, seen, late, in_flight, counted) = result(&mut world, task, 5 * SECOND);
    assert_eq!(soon, (2, 0, 1, vec![10, 11, 12]));
    assert_eq!((seen, late, in_flight, counted), (vec![10, 11, 12, 13], 1, (0, 0), 0));
}

#[test]
fn several_answers_fail_with_their_connection_and_are_late_when_none_began() {
    let (mut world, nodes) = cluster(1, &[1, 1]);
    world.run_for(SECOND);
    let task = on_shard(&mut world, &nodes[0], 0, async || {
        let gather = Rc::new(Counted::default());
        ask_for_several(&gather, UNKNOWN, SECOND);
        runtime::sleep(2 * SECOND).await;
        let unknown = (gather.failed.get(), gather.late.get(), gather.seen.take());
        ask_for_several(&gather, SEVERAL, 60 * SECOND);
        while gather.seen.borrow().len() < 4 {
            runtime::sleep(SECOND / 100).await;
        }
        (unknown, gather.answers.get(), gather.failed.get())
    });
    world.run_for(3 * SECOND);
    world.kill(nodes[1].id);
    assert_eq!(result(&mut world, task, 5 * SECOND), ((1, 3, vec![10, 11, 12, 13]), 2, 3));
}

#[test]
fn too_many_calls_and_bytes_are_refused_at_once() {
    let (mut world, nodes) = cluster(1, &[1, 1]);
    world.run_for(SECOND);
    let task = on_shard(&mut world, &nodes[0], 0, async || {
        let flood = async |body: usize| {
            let gather = Rc::new(Counted::default());
            let mut sent = 0;
            loop {
                let encode = |out: &mut Vec<u8>| {
                    out.extend_from_slice(&500u32.to_be_bytes());
                    out.resize(out.len() + body, 1);
                };
                let to = (gather.clone() as Rc<dyn Gather>, 0);
                match runtime::local::<Pool>().send(host(2), 0, asks(SLOW, 20 * SECOND), to, encode) {
                    Ok(()) => sent += 1,
                    Err(error) => {
                        assert_eq!(error, CallError::Overloaded { peer: host(2) });
                        break;
                    }
                }
            }
            runtime::sleep(15 * SECOND).await;
            (sent, gather.answers.get())
        };
        let (many, large) = (flood(0).await, flood(1 << 20).await);
        (many, large, flood(0).await)
    });
    let (many, large, again) = result(&mut world, task, 60 * SECOND);
    assert_eq!(many, (CALLS_IN_FLIGHT_MAX, CALLS_IN_FLIGHT_MAX));
    let most = PEER_BYTES_MAX >> 20;
    assert!(large == (most, most), "{large:?} of {most}");
    assert_eq!(again, many, "nothing is held for good");
    const { assert!(PEER_BYTES_MAX < SHARD_BYTES_MAX) };
}

#[test]
fn a_peer_that_reads_nothing_is_closed_in_time() {
    let (mut world, nodes) = cluster(3, &[1, 1]);
    world.run_for(SECOND);
    // A stranger that says hello, asks much and reads nothing.
    let client = world.add_client(ip(9));
    let task = world.spawn(client, async {
        let stream = greet_as_data().await;
        let mut bytes = vec![0; crate::FRAME_HEADER_BYTES];
        for call in 0..64 {
            let body = &(1u32 << 20).to_be_bytes();
            let message = crate::Message {
                kind: crate::Kind::Request,
                verb: LARGE,
                call,
                version: 0,
                time_left_ms: 60_000,
                body,
            };
            crate::encode_message(&message, &mut bytes);
        }
        crate::seal_frame(0, true, &mut bytes);
        let start = runtime::now();
        stream.send_all(bytes).await.expect("there is room");
        // What it sends from now on fails once the other side is gone.
        while stream.try_send(&[0]).is_ok() {
            runtime::sleep(SECOND / 10).await;
        }
        runtime::now() - start
    });
    world.run_for(SECOND);
    let begun = *nodes[0].rules.begun.lock().expect("as above");
    assert_eq!(begun, 64, "all of one frame");
    const { assert!(ANSWER_BYTES_MAX < 64 << 20) };
    let took = result(&mut world, task, 3 * SEND_STALL_MAX);
    assert!(SEND_STALL_MAX / 2 < took && took < SEND_STALL_MAX + 2 * SECOND, "{took:?}");
}

/// A data connection to the first node, by hand.
async fn greet_as_data() -> runtime::net::TcpStream {
    let stream = runtime::net::TcpStream::connect(address(1), None).await.expect("it listens");
    let hello = Hello {
        node: Rules::new(9, 1).identity.lock().expect("as above").clone(),
        protocol: (1, 1),
        class: crate::Class::Data,
        wanted_shard: 0,
        from_shard: 0,
        process: 3,
        unix_micros: runtime::unix_micros(),
        expected: host(1),
    };
    let mut bytes = Vec::new();
    hello.encode(&mut bytes);
    crate::encode_verdict(&Ok(()), &mut bytes);
    stream.send_all(bytes).await.expect("there is room");
    stream
}

#[test]
fn pings_do_not_wait_behind_data() {
    let (mut world, nodes) = cluster(3, &[1, 1]);
    world.run_for(SECOND);
    let task = on_shard(&mut world, &nodes[0], 0, async || {
        let mut answered = 0;
        for _ in 0..30 {
            let encode = |out: &mut Vec<u8>| out.extend_from_slice(&(16u32 << 20).to_be_bytes());
            let answer = runtime::local::<Pool>().call(host(2), 0, asks(LARGE, 10 * SECOND), encode).await;
            answered += usize::from(answer.is_ok());
        }
        answered
    });
    assert_eq!(result(&mut world, task, 300 * SECOND), 30);
    assert_eq!(nodes[0].rules.story(host(2)), ["up 1"]);
    assert_eq!(nodes[1].rules.story(host(1)), ["up 1"]);
}

#[test]
fn an_abandoned_call_is_forgotten() {
    let (mut world, nodes) = cluster(3, &[1, 1]);
    world.run_for(SECOND);
    let task = on_shard(&mut world, &nodes[0], 0, async || {
        let pool = runtime::local::<Pool>();
        let asked =
            pool.call(host(2), 0, asks(SLOW, 60 * SECOND), |out| out.extend_from_slice(&[0, 0, 16, 0]));
        let given_up = runtime::timeout(SECOND / 10, asked).await.is_err();
        (given_up, pool.in_flight())
    });
    assert_eq!(result(&mut world, task, SECOND), (true, (0, 0)));
}

#[test]
fn a_late_call_is_not_begun() {
    let (mut world, nodes) = cluster(3, &[1, 1]);
    world.run_for(SECOND);
    let first = on_shard(&mut world, &nodes[0], 0, call(0, ECHO, 1, SECOND));
    assert!(result(&mut world, first, SECOND).is_ok());
    world.cut(nodes[0].id, nodes[1].id);
    let late = on_shard(&mut world, &nodes[0], 0, call(0, SLOW, 1, SECOND));
    assert_eq!(result(&mut world, late, 2 * SECOND), Err(CallError::TimedOut { peer: host(2) }));
    let begun = *nodes[1].rules.begun.lock().expect("as above");
    world.heal_all();
    world.run_for(SECOND);
    // The time left is counted from the arrival: only what the sender had used up is known.
    assert!(*nodes[1].rules.begun.lock().expect("as above") <= begun + 1);
}

#[test]
fn calls_fail_when_their_peer_falls_silent_and_not_before() {
    let (mut world, nodes) = cluster(3, &[2, 2]);
    world.run_for(SECOND);
    let slow = on_shard(&mut world, &nodes[0], 1, call(1, SLOW, 60_000, 60 * SECOND));
    world.run_for(DATA_SILENCE_MAX * 2);
    assert!(!slow.done(), "a slow answer is no silence");
    world.cut(nodes[0].id, nodes[1].id);
    let start = world.now();
    let answer = result(&mut world, slow, 10 * SECOND);
    assert!(matches!(answer, Err(CallError::Unreachable { .. })), "{answer:?}");
    assert!(world.now() - start < 4 * SECOND);
}

#[test]
fn with_too_many_connections_each_shard_has_one_per_peer() {
    let (mut world, nodes) = cluster(3, &[4, 3]);
    world.run_for(SECOND);
    for from in 0..4 {
        let task = on_shard(&mut world, &nodes[0], from, async || {
            let pool = runtime::local::<Pool>();
            let ask = async |shard| {
                let answer = pool.call(host(2), shard, asks(ECHO, SECOND), |_| ()).await;
                answer.map(|body| body[0])
            };
            let before = ask(2).await;
            pool.pretend_open(crate::limits::DATA_CONNECTIONS_MAX);
            (before, ask(0).await, ask(1).await, ask(2).await)
        });
        let (before, zero, one, two) = result(&mut world, task, 5 * SECOND);
        let own = (from % 3) as u8;
        assert_eq!((before, zero, one, two), (Ok(2), Ok(own), Ok(own), Ok(2)), "what is open is used");
    }
}

#[test]
fn a_shard_works_on_so_many_bytes_and_no_more() {
    let (mut world, nodes) = cluster(3, &[5, 1]);
    world.run_for(SECOND);
    let mut tasks = Vec::new();
    for from in 0..5 {
        tasks.push(on_shard(&mut world, &nodes[0], from, async || {
            let pool = runtime::local::<Pool>();
            let gather = Rc::new(Counted::default());
            let encode = |out: &mut Vec<u8>| {
                out.extend_from_slice(&30_000u32.to_be_bytes());
                out.resize(out.len() + (4 << 20) - 4, 1);
            };
            for index in 0..(PEER_BYTES_MAX >> 22) as u16 {
                let to = (gather.clone() as Rc<dyn Gather>, index);
                pool.send(host(2), 0, asks(SLOW, 60 * SECOND), to, encode).expect("it fits");
            }
            runtime::sleep(50 * SECOND).await;
            (gather.answers.get(), gather.failed.get())
        }));
    }
    world.run_for(60 * SECOND);
    let sums = tasks.iter_mut().map(|task| task.take().expect("it ended"));
    let (answered, refused) = sums.fold((0, 0), |(a, b), (answers, failed)| (a + answers, b + failed));
    let most = SERVED_BYTES_MAX >> 22;
    assert_eq!((answered, refused), (most, 5 * (PEER_BYTES_MAX >> 22) - most));
    let left = on_shard(&mut world, &nodes[1], 0, async || runtime::local::<Pool>().served());
    assert_eq!(result(&mut world, left, SECOND), 0, "nothing is held for good");
}

#[test]
fn what_goes_to_and_from_a_peer_is_counted() {
    let (mut world, nodes) = cluster(3, &[1, 1]);
    world.run_for(SECOND);
    let counts = |world: &mut World, node: &Node| {
        let task = on_shard(world, node, 0, async || {
            (runtime::local::<Pool>().traffic(), runtime::local::<Links>().traffic())
        });
        result(world, task, SECOND)
    };
    for _ in 0..3 {
        let task = on_shard(&mut world, &nodes[0], 0, call(0, SLOW, 40, SECOND));
        assert_eq!(result(&mut world, task, SECOND), Ok(vec![7]));
    }
    let late = on_shard(&mut world, &nodes[0], 0, call(0, SLOW, 500, SECOND / 10));
    assert!(matches!(result(&mut world, late, SECOND), Err(CallError::TimedOut { .. })));
    let slow = on_shard(&mut world, &nodes[0], 0, call(0, SLOW, 700, SECOND));
    world.run_for(SECOND / 10);
    let (ours, control) = counts(&mut world, &nodes[0]);
    assert_eq!((ours.connections, ours.calls, ours.answered, ours.failed, ours.in_flight), (1, 5, 3, 1, 1));
    assert!((120_000..200_000).contains(&ours.call_us), "{ours:?}");
    assert!(control.connections == 1 && 2 <= control.messages && control.calls == 0, "{control:?}");
    let large = on_shard(&mut world, &nodes[0], 0, call(0, LARGE, 100_000, SECOND));
    assert_eq!(result(&mut world, large, SECOND).map(|body| body.len()), Ok(100_000));
    drop(result(&mut world, slow, SECOND));
    let ((ours, _), (theirs, _)) = (counts(&mut world, &nodes[0]), counts(&mut world, &nodes[1]));
    assert_eq!((ours.in_flight, ours.messages, ours.large_messages, theirs.large_messages), (0, 6, 0, 1));
    assert_eq!((ours.bytes_out, theirs.bytes_out), (theirs.bytes_in, ours.bytes_in));
    assert!(100_000 < ours.bytes_in && ours.bytes_out < 1000, "{ours:?}");
    let shown = on_shard(&mut world, &nodes[0], 0, async || {
        runtime::metrics::to_prometheus(&runtime::metrics::render_local())
    });
    let shown = result(&mut world, shown, SECOND);
    let labels = format!("peer=\"{}\"", host(2));
    for line in [
        format!("messina_rpc_calls_failed_total{{{labels},class=\"data\",shard=\"0\"}} 1"),
        format!("messina_rpc_peer_up{{{labels},address=\"{}\",shard=\"0\"}} 1", address(2)),
    ] {
        assert!(shown.contains(&line), "{line} is not in\n{shown}");
    }
    assert!(shown.contains(&format!("messina_rpc_ping_us{{{labels}")), "{shown}");
}
