//! Every kind of refusal reaches both logs, and nobody who is refused is up.

use super::*;
use runtime::net::TcpStream;

/// Two nodes of which the second is told to be something before it starts; what each says of the other after some seconds.
fn meet(change: impl FnOnce(&mut Identity)) -> (World, Node, Node) {
    let mut world = World::new(11, SimConfig::calm());
    let (a, b) = (world.add_node(ip(1)), world.add_node(ip(2)));
    let (first, second) = (Rules::new(1, 2), Rules::new(2, 2));
    second.change(change);
    let first = boot(&mut world, a, &first, 2, 1, &[(2, 2)]);
    let second = boot(&mut world, b, &second, 2, 2, &[(1, 1)]);
    (world, first, second)
}

fn lines(world: &World, text: &str) -> usize {
    world.log_lines().iter().filter(|(_, line)| line.contains(text)).count()
}

/// Neither comes up, and both log the reason as often as they may.
fn refused(world: &mut World, nodes: [&Node; 2], text: &str) {
    world.run_for(10 * SECOND);
    for node in nodes {
        let events = node.rules.events.lock().expect("as above");
        assert!(events.is_empty(), "{events:?}");
    }
    let told = lines(world, text);
    // Each may log it as the one that refuses and as the one that is refused.
    let least = if nodes[0].id == nodes[1].id { 1 } else { 2 };
    assert!((least..=4).contains(&told), "{told} lines say {text:?}: {:#?}", world.log_lines());
}

#[test]
fn nodes_of_one_cluster_meet() {
    let (mut world, a, b) = meet(|_| ());
    world.run_for(SECOND);
    assert_eq!(a.rules.story(host(2)), ["up 1"]);
    assert_eq!(b.rules.story(host(1)), ["up 1"]);
}

#[test]
fn a_foreign_cluster() {
    let (mut world, a, b) = meet(|node| node.cluster_name = "other".into());
    refused(&mut world, [&a, &b], "cluster names differ");
    let (mut world, a, b) = meet(|node| node.cluster_id = 2);
    refused(&mut world, [&a, &b], "another cluster of the same name");
}

#[test]
fn a_banned_host() {
    let (mut world, a, b) = meet(|_| ());
    a.rules.banned.lock().expect("as above").push(host(2));
    refused(&mut world, [&a, &b], "is banned");
    a.rules.banned.lock().expect("as above").clear();
    world.run_for(3 * SECOND);
    assert_eq!(a.rules.story(host(2)), ["up 1"], "tried again");
}

#[test]
fn a_clock_that_is_too_far_off() {
    let (mut world, a, b) = meet(|_| ());
    world.set_skew(b.id, 5_100_000);
    refused(&mut world, [&a, &b], "set the clocks");
    world.set_skew(b.id, 4_900_000);
    world.run_for(3 * SECOND);
    assert_eq!(a.rules.story(host(2)), ["up 1"]);
}

#[test]
fn an_older_epoch() {
    let (mut world, a, b) = meet(|_| ());
    a.rules.change(|node| node.epoch = 3);
    refused(&mut world, [&a, &b], "missed a recovery");
}

#[test]
fn a_copied_folder() {
    let (mut world, a, b) = meet(|_| ());
    let recorded = Recorded { starts: 2, ..Recorded::default() };
    a.rules.recorded.lock().expect("as above").insert(host(2), recorded);
    refused(&mut world, [&a, &b], "a copied or restored data folder");
}

#[test]
fn another_host_than_expected() {
    let mut world = World::new(11, SimConfig::calm());
    let (a, b) = (world.add_node(ip(1)), world.add_node(ip(2)));
    let a = boot(&mut world, a, &Rules::new(1, 1), 1, 1, &[(3, 2)]);
    let b = boot(&mut world, b, &Rules::new(2, 1), 1, 2, &[]);
    refused(
        &mut world,
        [&a, &b],
        "expected host 00000000-0000-0000-0000-000000000003, found 00000000-0000-0000-0000-000000000002",
    );
}

#[test]
fn a_node_that_calls_itself() {
    let mut world = World::new(11, SimConfig::calm());
    let a = world.add_node(ip(1));
    let a = boot(&mut world, a, &Rules::new(1, 1), 1, 1, &[(2, 1)]);
    refused(&mut world, [&a, &a], "has called itself");
}

#[test]
fn a_second_process_with_one_host_id() {
    let (mut world, nodes) = cluster(3, &[1, 1]);
    world.run_for(SECOND);
    let copy = world.add_node(ip(3));
    let rules = Rules::new(2, 1);
    rules.change(|node| node.starts = 2);
    let copy = boot(&mut world, copy, &rules, 1, 3, &[(1, 1)]);
    world.run_for(10 * SECOND);
    assert_eq!(nodes[0].rules.story(host(2)), ["up 1"], "the first stays");
    assert!(copy.rules.story(host(1)).is_empty());
    assert!(0 < lines(&world, "another process with host id"));
    world.power_cut(nodes[1].id);
    world.run_for(10 * SECOND);
    let story = nodes[0].rules.story(host(2));
    assert_eq!(story.last().map(String::as_str), Some("up 2"), "with the first gone it may come: {story:?}");
}

#[test]
fn two_nodes_with_the_same_host_id_meet() {
    let mut world = World::new(11, SimConfig::calm());
    let (a, b) = (world.add_node(ip(1)), world.add_node(ip(2)));
    let a = boot(&mut world, a, &Rules::new(1, 1), 1, 1, &[]);
    let same = Rules::new(1, 1);
    let b = boot(&mut world, b, &same, 1, 2, &[(1, 1)]);
    refused(&mut world, [&a, &b], "two nodes have host id");
}

#[test]
fn a_seed_is_asked_who_it_is() {
    let (mut world, nodes) = cluster(5, &[2, 3]);
    world.run_for(SECOND);
    let asked = on_shard(&mut world, &nodes[0], 0, async || {
        let links = runtime::local::<Links>();
        let contact = links.contact(target(2)).await.expect("it answers");
        let answer = contact.call(asks(ECHO, SECOND), |out| out.push(9)).await;
        let nobody = links.contact(target(9)).await.err().map(|error| error.refusal.is_some());
        let itself = links.contact(target(1)).await.err().and_then(|error| error.refusal);
        (
            contact.hello.node.host,
            contact.hello.node.shards,
            answer,
            nobody,
            itself.map(|refusal| refusal.kind),
        )
    });
    let (found, shards, answer, nobody, itself) = result(&mut world, asked, 10 * SECOND);
    assert_eq!((found, shards, answer), (host(2), 3, Ok(vec![0, 9])));
    assert_eq!((nobody, itself), (Some(false), Some(RefusalKind::Myself)));
    world.run_for(5 * SECOND);
    assert_eq!(nodes[1].rules.story(host(1)), ["up 1"], "its end is nothing that happened to the node");
}

#[test]
fn a_release_without_a_common_protocol() {
    let (mut world, nodes) = cluster(5, &[1]);
    let client = world.add_client(ip(9));
    world.run_for(SECOND / 10);
    let task = world.spawn(client, async {
        let stream = TcpStream::connect(address(1), None).await.expect("it listens");
        let mut node = Rules::new(9, 1).identity.lock().expect("as above").clone();
        node.release = "9.9".into();
        let hello = Hello {
            node,
            protocol: (2, 3),
            class: crate::Class::Control,
            wanted_shard: 0,
            from_shard: 0,
            process: 3,
            unix_micros: runtime::unix_micros(),
            expected: host(1),
        };
        let mut bytes = Vec::new();
        hello.encode(&mut bytes);
        stream.send_all(bytes).await.expect("the window is open");
        let mut received = Vec::new();
        while let Ok(part) = stream.recv().await {
            if part.is_empty() {
                break;
            }
            received.extend_from_slice(&part);
        }
        let Ok(crate::Cut::Whole(_, size)) = crate::split_greeting(crate::Greeting::Hello, &received) else {
            panic!("no hello");
        };
        let verdict = crate::split_greeting(crate::Greeting::Verdict, &received[size..]);
        let Ok(crate::Cut::Whole(payload, _)) = verdict else { panic!("no verdict") };
        crate::decode_verdict(payload).expect("sound")
    });
    let refusal = result(&mut world, task, 5 * SECOND).expect_err("refused");
    assert_eq!(refusal.kind, RefusalKind::Protocol);
    assert_eq!(refusal.text, "no common protocol: release 9.9 speaks 2 to 3, this one 1 to 1");
    assert_eq!(lines(&world, &refusal.text), 1);
    assert!(nodes[0].rules.story(host(9)).is_empty());
}

#[test]
fn a_node_that_is_about_to_stop() {
    let (mut world, nodes) = cluster(5, &[1, 1]);
    world.run_for(SECOND);
    world.stop(nodes[1].id);
    world.run_for(SECOND / 10);
    let task = on_shard(&mut world, &nodes[0], 0, async || {
        runtime::local::<Links>().contact(target(2)).await.err().and_then(|error| error.refusal)
    });
    let refusal = result(&mut world, task, SECOND).expect("refused");
    assert_eq!(refusal.kind, RefusalKind::Draining);
}

#[test]
fn a_vote_or_an_index_that_went_back() {
    for recorded in [
        Recorded { vote_term: 1, ..Recorded::default() },
        Recorded { applied_index: 1, ..Recorded::default() },
    ] {
        let (mut world, a, b) = meet(|_| ());
        b.rules.recorded.lock().expect("as above").insert(host(1), recorded);
        refused(&mut world, [&a, &b], "a copied or restored data folder");
    }
}

/// What a stranger that sends these bytes receives until the connection ends, and how long that takes.
fn stranger(bytes: Vec<u8>) -> (usize, Duration) {
    let (mut world, _) = cluster(5, &[1]);
    let client = world.add_client(ip(9));
    world.run_for(SECOND / 10);
    let task = world.spawn(client, async move {
        let stream = TcpStream::connect(address(1), None).await.expect("it listens");
        let start = runtime::now();
        stream.send_all(bytes).await.expect("there is room");
        let mut received = 0;
        while let Ok(part) = stream.recv().await {
            if part.is_empty() {
                break;
            }
            received += part.len();
        }
        (received, runtime::now() - start)
    });
    result(&mut world, task, 20 * SECOND)
}

#[test]
fn strangers_get_little_time_and_room() {
    let wait = crate::limits::HELLO_TIMEOUT - SECOND / 100;
    let (received, took) = stranger(b"GET / HTTP/1.1\r\n".to_vec());
    assert!(received == 0 && took < SECOND / 10, "{received} bytes after {took:?}");
    for silent in [b"".to_vec(), b"MSNH".to_vec(), [&b"MSNH"[..], &[0, 0, 16, 0, 1, 2, 3, 4, 5]].concat()] {
        let (received, took) = stranger(silent);
        assert!(
            received == 0 && wait <= took && took < wait + SECOND / 10,
            "{received} bytes after {took:?}"
        );
    }
    let (received, took) = stranger([&b"MSNH"[..], &[0xff; 8]].concat());
    assert!(received == 0 && took < SECOND / 10, "{received} bytes after {took:?}: a hello of 4 GiB");
}

#[test]
fn frames_that_make_no_sense_end_the_connection() {
    let (mut world, nodes) = cluster(5, &[1]);
    let client = world.add_client(ip(9));
    world.run_for(SECOND / 10);
    let task = world.spawn(client, async {
        let stream = TcpStream::connect(address(1), None).await.expect("it listens");
        let identity = Rules::new(9, 1).identity.lock().expect("as above").clone();
        let hello = Hello {
            node: identity,
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
        bytes.extend_from_slice(&[0xff; 64]);
        stream.send_all(bytes).await.expect("there is room");
        let mut received = 0;
        while let Ok(part) = stream.recv().await {
            if part.is_empty() {
                break;
            }
            received += part.len();
        }
        received
    });
    assert!(0 < result(&mut world, task, 5 * SECOND), "its hello and verdict");
    assert_eq!(lines(&world, "malformed frame: too long"), 1);
    assert!(nodes[0].rules.story(host(9)).is_empty());
}
