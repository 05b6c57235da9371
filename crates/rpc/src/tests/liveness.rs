//! Who is up: silence, resets, restarts, goodbyes, new addresses, cuts of one direction.

use super::*;
use crate::greet::{Handed, Wire};
use runtime::net::{TcpListener, TcpStream};
use runtime::sync::Semaphore;

fn up(mut world: World, nodes: Vec<Node>) -> (World, Vec<Node>) {
    world.run_for(2 * SECOND);
    for (index, node) in nodes.iter().enumerate() {
        for other in (1..=nodes.len() as u8).filter(|other| usize::from(*other) != index + 1) {
            assert_eq!(node.rules.story(host(other)), ["up 1"], "at {}", index + 1);
        }
    }
    (world, nodes)
}

fn pair(seed: u64) -> (World, Vec<Node>) {
    let (world, nodes) = cluster(seed, &[2, 3]);
    up(world, nodes)
}

/// How long until a node's story of a peer has so many chapters.
fn until(world: &mut World, node: &Node, of: HostId, chapters: usize) -> Duration {
    let start = world.now();
    let rules = node.rules.clone();
    assert!(world.run_until(|_| chapters <= rules.story(of).len(), 30 * SECOND), "{:?}", rules.story(of));
    world.now() - start
}

#[test]
fn a_pause_of_two_seconds_downs_nobody() {
    for seed in 0..20 {
        let (mut world, nodes) = pair(seed);
        world.cut(nodes[0].id, nodes[1].id);
        world.run_for(2 * SECOND);
        world.heal_all();
        world.run_for(5 * SECOND);
        assert_eq!(nodes[0].rules.story(host(2)), ["up 1"], "seed {seed}");
        assert_eq!(nodes[1].rules.story(host(1)), ["up 1"], "seed {seed}");
    }
}

#[test]
fn a_process_that_is_stopped_for_two_seconds_is_not_down_nor_thinks_others_are() {
    for seed in 0..20 {
        let (mut world, nodes) = pair(seed);
        let phase = Duration::from_millis(world.rng().below(1000));
        world.run_for(phase);
        world.pause(nodes[1].id);
        world.run_for(2 * SECOND);
        world.resume(nodes[1].id);
        world.run_for(5 * SECOND);
        assert_eq!(nodes[0].rules.story(host(2)), ["up 1"], "seed {seed}");
        assert_eq!(nodes[1].rules.story(host(1)), ["up 1"], "seed {seed}");
    }
}

#[test]
fn a_process_that_is_stopped_for_long_is_down_and_comes_back() {
    for seed in 0..20 {
        let (mut world, nodes) = cluster(seed, &[2, 2, 1]);
        world.run_for(2 * SECOND);
        // Far apart: a new greeting takes a while.
        world.set_delay(SECOND / 16, SECOND / 12, 0.0);
        world.run_for(SECOND);
        world.pause(nodes[1].id);
        world.run_for(30 * SECOND);
        assert_eq!(nodes[0].rules.story(host(2))[1..], ["down: no answer for 2500 ms"], "seed {seed}");
        world.resume(nodes[1].id);
        world.run_for(3 * SECOND);
        assert_eq!(nodes[0].rules.story(host(2))[2..], ["up 1"], "seed {seed}");
        // What it slept through is no silence of the others, who have closed its connections and answer at once.
        for other in [1, 3] {
            assert_eq!(nodes[1].rules.story(host(other)), ["up 1"], "seed {seed}");
        }
    }
}

#[test]
fn silence_downs_and_an_answer_ups() {
    for seed in 0..20 {
        let (mut world, nodes) = pair(seed);
        world.cut(nodes[0].id, nodes[1].id);
        let took = until(&mut world, &nodes[0], host(2), 2).max(until(&mut world, &nodes[1], host(1), 2));
        assert!(2 * SECOND < took && took < 3 * SECOND + SECOND / 10, "{took:?}");
        assert_eq!(nodes[0].rules.story(host(2))[1], "down: no answer for 2500 ms");
        world.run_for(10 * SECOND);
        world.heal_all();
        let took = until(&mut world, &nodes[0], host(2), 3).max(until(&mut world, &nodes[1], host(1), 3));
        assert!(took < 2 * SECOND, "{took:?}");
        world.run_for(10 * SECOND);
        assert_eq!(nodes[0].rules.story(host(2)).len(), 3, "{:?}", nodes[0].rules.story(host(2)));
    }
}

#[test]
fn a_cut_of_either_direction_downs_both() {
    for seed in 0..10 {
        let (mut world, nodes) = pair(seed);
        world.cut_one_way(nodes[0].id, nodes[1].id);
        for (node, other) in [(&nodes[0], 2), (&nodes[1], 1)] {
            let took = until(&mut world, node, host(other), 2);
            assert!(took < 4 * SECOND, "{took:?}");
        }
    }
}

#[test]
fn a_killed_process_is_down_at_once() {
    for seed in 0..20 {
        let (mut world, nodes) = pair(seed);
        world.kill(nodes[1].id);
        let took = until(&mut world, &nodes[0], host(2), 2);
        // Half of the dead hosts refuse; of the others nothing is heard.
        assert!(took < 3 * SECOND, "{took:?}");
        if took < SECOND / 10 {
            return;
        }
    }
    panic!("none was refused");
}

#[test]
fn reset_connections_of_a_living_node_down_nobody() {
    let (mut world, nodes) = pair(1);
    for _ in 0..10 {
        world.reset_connections(nodes[0].id, nodes[1].id);
        world.run_for(SECOND);
    }
    assert_eq!(nodes[0].rules.story(host(2)), ["up 1"]);
    assert_eq!(nodes[1].rules.story(host(1)), ["up 1"]);
}

#[test]
fn one_connection_lasts_however_both_began() {
    for seed in 0..20 {
        let (mut world, nodes) = cluster(seed, &[1, 1]);
        world.run_for(5 * SECOND);
        let count = |world: &mut World, node: &Node| {
            let task = on_shard(world, node, 0, async || runtime::local::<Links>().connections());
            result(world, task, SECOND)
        };
        assert_eq!((count(&mut world, &nodes[0]), count(&mut world, &nodes[1])), (1, 1), "seed {seed}");
        assert_eq!(nodes[0].rules.story(host(2)), ["up 1"]);
    }
}

#[test]
fn a_goodbye_is_told_at_once_and_calls_under_way_end() {
    let (mut world, nodes) = pair(4);
    let slow = on_shard(&mut world, &nodes[0], 1, async || {
        let ask = |out: &mut Vec<u8>| out.extend_from_slice(&300u32.to_be_bytes());
        runtime::local::<Pool>().call(host(2), 1, asks(SLOW, 5 * SECOND), ask).await
    });
    world.run_for(SECOND / 10);
    world.stop(nodes[1].id);
    let took = until(&mut world, &nodes[0], host(2), 2);
    assert!(took < SECOND / 10, "{took:?}");
    assert_eq!(nodes[0].rules.story(host(2))[1], "down: it is about to stop");
    let late = on_shard(&mut world, &nodes[0], 1, async || {
        runtime::local::<Pool>().call(host(2), 1, asks(ECHO, SECOND), |_| ()).await
    });
    let late = result(&mut world, late, SECOND);
    assert!(matches!(late, Err(crate::CallError::Unreachable { .. })), "{late:?}");
    assert_eq!(result(&mut world, slow, SECOND), Ok(vec![7]));
    let rules = &nodes[1].rules;
    world.run_for(5 * SECOND);
    assert!(!world.alive(nodes[1].id), "it has stopped");
    rules.change(|node| node.starts = 2);
    boot(&mut world, nodes[1].id, rules, 3, 2, &[(1, 1)]);
    world.run_for(2 * SECOND);
    assert_eq!(nodes[0].rules.story(host(2))[2..], ["up 2"]);
}

#[test]
fn who_said_goodbye_and_returns_is_up_again_and_was_heard_all_the_while() {
    let (mut world, nodes) = pair(4);
    let heard = || async || runtime::local::<Links>().heard(host(2)).expect("it was met");
    let leaves = on_shard(&mut world, &nodes[1], 0, async || {
        let links = runtime::local::<Links>();
        links.say_goodbye().await;
        links.is_draining()
    });
    assert!(result(&mut world, leaves, SECOND));
    world.run_for(3 * SECOND);
    assert_eq!(nodes[0].rules.story(host(2))[1..], ["down: it is about to stop"]);
    assert_eq!(nodes[1].rules.story(host(1)), ["up 1"], "it goes on hearing the other");
    let task = on_shard(&mut world, &nodes[0], 0, heard());
    let left = result(&mut world, task, SECOND);
    assert!(left.has_left && left.facts.starts == 1);
    let returns = on_shard(&mut world, &nodes[1], 0, async || runtime::local::<Links>().return_to_peers());
    result(&mut world, returns, SECOND);
    until(&mut world, &nodes[0], host(2), 3);
    world.run_for(2 * SECOND);
    assert_eq!(nodes[0].rules.story(host(2))[2..], ["up 1"]);
    assert_eq!(nodes[1].rules.story(host(1)), ["up 1"]);
    let task = on_shard(&mut world, &nodes[0], 0, heard());
    let back = result(&mut world, task, SECOND);
    assert!(!back.has_left && left.at < back.at && back.round_trip.is_some());
    let called = on_shard(&mut world, &nodes[0], 1, async || {
        runtime::local::<Pool>().call(host(2), 1, asks(ECHO, SECOND), |out| out.push(1)).await
    });
    assert_eq!(result(&mut world, called, SECOND), Ok(vec![1, 1]));
}

#[test]
fn a_quick_restart_is_another_process() {
    let (mut world, nodes) = pair(4);
    let call =
        || async || runtime::local::<Pool>().call(host(2), 2, asks(ECHO, SECOND), |out| out.push(1)).await;
    let first = on_shard(&mut world, &nodes[0], 0, call());
    assert_eq!(result(&mut world, first, SECOND), Ok(vec![2, 1]));
    world.kill(nodes[1].id);
    nodes[1].rules.change(|node| node.starts = 2);
    boot(&mut world, nodes[1].id, &nodes[1].rules, 2, 2, &[(1, 1)]);
    world.run_for(3 * SECOND);
    let story = nodes[0].rules.story(host(2));
    assert_eq!(story.last().map(String::as_str), Some("up 2"), "{story:?}");
    let second = on_shard(&mut world, &nodes[0], 0, call());
    assert_eq!(result(&mut world, second, SECOND), Ok(vec![0, 1]), "it has two shards now");
}

#[test]
fn a_node_that_comes_back_elsewhere_is_known_at_once() {
    let (mut world, nodes) = pair(8);
    world.kill(nodes[1].id);
    world.run_for(5 * SECOND);
    let elsewhere = world.add_node(ip(7));
    let rules = Rules::new(2, 3);
    rules.change(|node| (node.starts, node.address) = (2, Some(address(7))));
    let moved = boot(&mut world, elsewhere, &rules, 3, 7, &[(1, 1)]);
    world.run_for(2 * SECOND);
    let story = nodes[0].rules.story(host(2));
    assert_eq!(story[2..], ["moved to 10.0.0.7:7000", "up 2"]);
    assert_eq!(moved.rules.story(host(1)), ["up 1"]);
    let called = on_shard(&mut world, &nodes[0], 1, async || {
        runtime::local::<Pool>().call(host(2), 1, asks(ECHO, SECOND), |out| out.push(1)).await
    });
    assert_eq!(result(&mut world, called, SECOND), Ok(vec![1, 1]));
}

#[test]
fn facts_travel() {
    let (mut world, nodes) = pair(8);
    let facts = Facts {
        starts: 1,
        applied_version: 44,
        native_open: true,
        load: 7,
        schema_version: 5,
        started_at_s: 6,
    };
    *nodes[1].rules.facts.lock().expect("as above") = facts;
    world.run_for(SECOND);
    assert_eq!(nodes[0].rules.facts_of(host(2)), [facts]);
    *nodes[1].rules.facts.lock().expect("as above") = Facts { load: 8, ..facts };
    world.run_for(SECOND);
    assert_eq!(nodes[0].rules.facts_of(host(2)), [facts], "a load is no news");
    let task = on_shard(&mut world, &nodes[0], 0, async || {
        let links = runtime::local::<Links>();
        (links.facts(host(2)), links.round_trip(host(2)))
    });
    let (newest, round_trip) = result(&mut world, task, SECOND);
    assert_eq!(newest, Some(Facts { load: 8, ..facts }));
    let round_trip = round_trip.expect("pings were answered");
    assert!(SECOND / 25_000 <= round_trip && round_trip < SECOND / 100, "{round_trip:?}");
}

#[test]
fn who_was_not_added_is_met_and_added_later() {
    let mut world = World::new(2, SimConfig::calm());
    let (a, b) = (world.add_node(ip(1)), world.add_node(ip(2)));
    let a = boot(&mut world, a, &Rules::new(1, 2), 2, 1, &[]);
    let b = boot(&mut world, b, &Rules::new(2, 1), 1, 2, &[(1, 1)]);
    world.run_for(SECOND);
    assert_eq!(a.rules.story(host(2)), ["met 1"]);
    assert_eq!(b.rules.story(host(1)), ["up 1"]);
    let call =
        || async || runtime::local::<Pool>().call(host(2), 0, asks(ECHO, SECOND), |out| out.push(1)).await;
    let early = on_shard(&mut world, &a, 1, call());
    assert!(result(&mut world, early, SECOND).is_err());
    let added = on_shard(&mut world, &a, 0, async || runtime::local::<Links>().add(host(2), target(2)).await);
    result(&mut world, added, SECOND);
    assert_eq!(a.rules.story(host(2)), ["met 1", "up 1"]);
    let late = on_shard(&mut world, &a, 1, call());
    assert_eq!(result(&mut world, late, SECOND), Ok(vec![0, 1]));
    let removed = on_shard(&mut world, &a, 0, async || runtime::local::<Links>().remove(host(2)));
    result(&mut world, removed, SECOND);
    let after = on_shard(&mut world, &a, 1, call());
    assert!(result(&mut world, after, SECOND).is_err());
}

#[test]
fn five_nodes_that_all_restart_in_any_order_find_each_other() {
    for seed in 0..3 {
        let (mut world, nodes) = cluster(seed, &[1, 2, 3, 4, 2]);
        world.run_for(2 * SECOND);
        nodes.iter().for_each(|node| world.power_cut(node.id));
        world.run_for(SECOND);
        let mut order = [4, 2, 0, 1, 3];
        world.rng().shuffle(&mut order);
        for index in order {
            let (last, shards) = (index as u8 + 1, [1, 2, 3, 4, 2][index]);
            nodes[index].rules.change(|node| node.starts = 2);
            nodes[index].rules.events.lock().expect("as above").clear();
            let peers: Vec<(u8, u8)> =
                (1..=5).filter(|peer| *peer != last).map(|peer| (peer, peer)).collect();
            boot(&mut world, nodes[index].id, &nodes[index].rules, shards, last, &peers);
            world.run_for(SECOND / 2);
        }
        world.run_for(5 * SECOND);
        for (index, node) in nodes.iter().enumerate() {
            for other in (1..=5u8).filter(|other| usize::from(*other) != index + 1) {
                let story = node.rules.story(host(other));
                assert_eq!(story.last().map(String::as_str), Some("up 2"), "seed {seed}: {story:?}");
            }
        }
    }
}

#[test]
fn twenty_nodes_have_one_connection_for_each_pair() {
    const NODES: usize = 20;
    let (mut world, nodes) = cluster(6, &[1; NODES]);
    world.run_for(6 * SECOND);
    for node in &nodes {
        let task = on_shard(&mut world, node, 0, async || runtime::local::<Links>().connections());
        assert_eq!(result(&mut world, task, SECOND), NODES - 1);
    }
    let events = |node: &Node| node.rules.events.lock().expect("as above").len();
    let counts: Vec<usize> = nodes.iter().map(events).collect();
    assert_eq!(counts, [NODES - 1; NODES], "each is up once");
}

/// Host 2 by hand: greets whoever connects, answers nothing, and reads data slowly.
async fn greet_and_read_slowly() {
    let listener = runtime::net::TcpListener::bind(address(2)).await.expect("the port is free");
    loop {
        let (stream, _) = listener.accept().await.expect("it listens");
        drop(runtime::spawn(Group::MAIN, async move {
            let mut received = Vec::new();
            let hello = loop {
                received.extend_from_slice(&stream.recv().await.expect("a hello"));
                if let Ok(crate::Cut::Whole(payload, _)) =
                    crate::split_greeting(crate::Greeting::Hello, &received)
                {
                    break Hello::decode(payload).expect("sound");
                }
            };
            let node = Rules::new(2, 1).identity.lock().expect("as above").clone();
            let (unix_micros, expected) = (runtime::unix_micros(), host(1));
            let ours = Hello { node, process: 9, unix_micros, expected, ..hello };
            let mut bytes = Vec::new();
            ours.encode(&mut bytes);
            crate::encode_verdict(&Ok(()), &mut bytes);
            stream.send_all(bytes).await.expect("the window is open");
            while stream.recv().await.is_ok_and(|part| !part.is_empty()) {
                runtime::sleep(SECOND / 800).await;
            }
        }));
    }
}

#[test]
fn a_large_transfer_that_goes_on_keeps_a_peer_up_that_answers_no_ping() {
    let mut world = World::new(5, SimConfig::calm());
    let (a, b) = (world.add_node(ip(1)), world.add_client(ip(2)));
    let a = boot(&mut world, a, &Rules::new(1, 1), 1, 1, &[(2, 2)]);
    drop(world.spawn(b, greet_and_read_slowly()));
    world.run_for(SECOND);
    assert_eq!(a.rules.story(host(2)), ["up 1"]);
    let task = on_shard(&mut world, &a, 0, async || {
        let encode = |out: &mut Vec<u8>| out.resize(out.len() + (60 << 20), 1);
        let call = runtime::local::<Pool>().call(host(2), 0, asks(ECHO, 60 * SECOND), encode).await;
        (call.is_err(), runtime::now())
    });
    let begun = world.now();
    let took = until(&mut world, &a, host(2), 2);
    assert!(8 * SECOND < took, "down after {took:?}, with data on its way");
    assert_eq!(a.rules.story(host(2))[1], "down: no answer for 2500 ms");
    let (failed, ended) = result(&mut world, task, SECOND);
    assert!(failed && ended - begun < took + SECOND);
}

/// A process at `10.0.0.2` that says hello to whoever calls, reads what comes and answers nothing; each connection lives so long.
fn boot_dumb(world: &mut World, id: NodeId, life: Duration) {
    let main = main_of(move || async move {
        let listener = TcpListener::bind(address(2)).await.expect("the port is free");
        drop(runtime::spawn(Group::CONTROL, async move {
            while let Ok((stream, _)) = listener.accept().await {
                drop(runtime::spawn(Group::CONTROL, greet_only(stream, life)));
            }
        }));
        runtime::shutdown_requested().await;
        0
    });
    world.boot(id, 1, main);
}

async fn greet_only(stream: TcpStream, life: Duration) {
    let wire = Wire::accept(stream, tls::Encryption::None, None, &Semaphore::new(1)).await;
    let Ok(wire) = wire else { return };
    let met = wire.be_greeted(|theirs| {
        let node = Rules::new(2, 1).identity.lock().expect("as above").clone();
        (Hello { node, process: 77, expected: theirs.node.host, ..theirs.clone() }, Ok(()))
    });
    let Ok(met) = met.await else { return };
    let Handed { transfer, .. } = met.into_handed().map_err(|_| ()).expect("a socket");
    let stream = TcpStream::from_transfer(transfer);
    let _late = runtime::timeout(life, async {
        while stream.recv_at_most(1 << 16).await.is_ok_and(|bytes| !bytes.is_empty()) {}
    })
    .await;
}

/// The stories of a peer of which only hellos are heard, after a minute.
fn dumb(life: Duration) -> (World, Node, NodeId) {
    let mut world = World::new(5, SimConfig::calm());
    let (a, b) = (world.add_node(ip(1)), world.add_node(ip(2)));
    boot_dumb(&mut world, b, life);
    let node = boot(&mut world, a, &Rules::new(1, 2), 2, 1, &[(2, 2)]);
    until(&mut world, &node, host(2), 1);
    let took = until(&mut world, &node, host(2), 2);
    assert!(took < 3 * SECOND, "{took:?}");
    world.run_for(60 * SECOND);
    (world, node, b)
}

#[test]
fn a_peer_that_says_hello_and_nothing_more_is_down_and_stays_so() {
    for life in [600 * SECOND, 2 * SECOND, SECOND / 2] {
        let (mut world, node, other) = dumb(life);
        let story = node.rules.story(host(2));
        assert_eq!(story, ["up 1", "down: no answer for 2500 ms"], "connections of {life:?}");
        // Another process of it is another matter.
        world.kill(other);
        boot(&mut world, other, &Rules::new(2, 1), 1, 2, &[(1, 1)]);
        world.run_for(5 * SECOND);
        assert_eq!(node.rules.story(host(2))[2..], ["up 1"]);
    }
}
