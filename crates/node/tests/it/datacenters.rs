//! Two datacenters of three nodes, every row on all six: a write crosses the link between them once.

use crate::many::{Many, at, connect_to, place};
use node::config::CommitlogSync;
use runtime::metrics::SampleValue;
use std::collections::BTreeSet;
use std::time::Duration;
use types::{Consistency, Value};

const TABLES: [&str; 2] = [
    "CREATE KEYSPACE ks WITH replication = {'class': 'NetworkTopologyStrategy', 'a': 3, 'b': 3}",
    "CREATE TABLE ks.kv (k int PRIMARY KEY, v int) WITH ID = 00000000-0000-1000-8000-00000000abcd",
];

/// Nodes 1 to 3 in `a`, 4 to 6 in `b`.
fn two_dcs(seed: u64) -> Many {
    let places: Vec<_> = (1..=6).map(|n| place(if n <= 3 { "a" } else { "b" }, "r")).collect();
    let mut many = Many::start(seed, &places, |config| {
        config.commitlog_sync = CommitlogSync::Batch;
        config.hints.flush_period = Duration::from_millis(100);
    });
    many.define(&TABLES);
    many
}

/// Messages for data that a node has sent to each other node.
fn messages(many: &mut Many, from: usize) -> Vec<u64> {
    let samples = many.ask(from, |_| runtime::metrics::render_local());
    let to = |n: u128| {
        let of = |(name, value): &(String, String)| match &**name {
            "peer" => *value == base::HostId(n).to_string(),
            "class" => value == "data",
            _ => true,
        };
        let wanted = |sample: &&runtime::metrics::Sample| {
            sample.name == "messina_rpc_messages_total" && sample.labels.iter().all(of)
        };
        samples.iter().filter(wanted).fold(0, |sum, sample| match &sample.value {
            SampleValue::Counter(count) => sum + count,
            _ => sum,
        })
    };
    (1..=6).map(to).collect()
}

/// Writes keys at a level through node 1; those that were acknowledged.
async fn write(keys: std::ops::Range<i32>, level: Consistency) -> BTreeSet<i32> {
    let connection = connect_to(1).await;
    let mut acknowledged = BTreeSet::new();
    for k in keys {
        let text = format!("INSERT INTO ks.kv (k, v) VALUES ({k}, {k})");
        if connection.query(&text, at(level)).await.is_ok() {
            acknowledged.insert(k);
        }
    }
    acknowledged
}

/// The keys that a node has itself.
fn held(many: &mut Many, n: usize) -> BTreeSet<i32> {
    many.play(async move {
        let read =
            connect_to(n).await.query("SELECT k FROM ks.kv", at(Consistency::One)).await.unwrap().rows();
        let key = |row: usize| match read.value(row, 0).unwrap() {
            Value::Int(k) => k,
            other => panic!("{other:?}"),
        };
        (0..read.rows.len()).map(key).collect()
    })
}

#[test]
fn a_write_crosses_the_link_once_and_reaches_all() {
    let mut many = two_dcs(81);
    many.play(write(0..6, Consistency::All));
    let before: Vec<Vec<u64>> = (1..=6).map(|n| messages(&mut many, n)).collect();
    for (index, level) in
        [Consistency::LocalQuorum, Consistency::EachQuorum, Consistency::All].into_iter().enumerate()
    {
        let first = 100 * (1 + index as i32);
        let acknowledged = many.play(write(first..first + 20, level));
        assert_eq!(acknowledged.len(), 20);
    }
    many.world.run_for(Duration::from_millis(50));
    let sent: Vec<Vec<u64>> = (1..=6).map(|n| messages(&mut many, n)).collect();
    let grown = |from: usize, to: usize| sent[from - 1][to - 1] - before[from - 1][to - 1];
    // Sixty writes: one message over the link for each, by turns to each replica there, and one to each replica here.
    assert_eq!((4..=6).map(|to| grown(1, to)).sum::<u64>(), 60, "{sent:?}");
    assert!((4..=6).all(|to| 0 < grown(1, to)), "{sent:?}");
    assert_eq!((grown(1, 2), grown(1, 3)), (60, 60));
    // Back come the answers of three replicas; between them each write is handed on twice and answered twice.
    assert_eq!((4..=6).map(|from| grown(from, 1)).sum::<u64>(), 180);
    let inside = (4..=6).flat_map(|from| (4..=6).filter(move |to| *to != from).map(move |to| (from, to)));
    assert_eq!(inside.map(|(from, to)| grown(from, to)).sum::<u64>(), 240);
    assert_eq!(grown(2, 4) + grown(3, 4) + grown(2, 1) + grown(3, 1), 120, "only answers to node 1");
    for n in 1..=6 {
        assert_eq!(held(&mut many, n).len(), 66, "node {n}");
    }
}

/// Writes go on while node 4 is struck down by `fault`, and afterwards; then it is brought back. Each acknowledged write is on all nodes.
fn survive(seed: u64, level: Consistency, fault: fn(&mut Many), mend: fn(&mut Many)) -> usize {
    let mut many = two_dcs(seed);
    many.play(write(0..6, Consistency::All));
    let mut task = many.world.spawn(many.client, async move { write(10..400, level).await });
    many.world.run_for(Duration::from_millis(40));
    assert!(!task.done(), "writes are under way");
    fault(&mut many);
    assert!(many.world.run_until(|_| task.done(), Duration::from_secs(600)));
    let acknowledged = task.take().unwrap();
    mend(&mut many);
    many.world.run_for(Duration::from_secs(30));
    for n in 1..=6 {
        let held = held(&mut many, n);
        let missing: Vec<&i32> = acknowledged.difference(&held).collect();
        assert!(missing.is_empty(), "node {n} lacks {missing:?}");
    }
    acknowledged.len()
}

#[test]
fn a_forwarder_that_dies_loses_nothing() {
    let kill = |many: &mut Many| many.world.kill(many.node(4));
    let restart = |many: &mut Many| many.restart(4);
    // What was handed to it goes to the others at once: with two of three alive no write fails.
    assert_eq!(survive(82, Consistency::EachQuorum, kill, restart), 390);
    assert_eq!(survive(83, Consistency::LocalQuorum, kill, restart), 390);
}

#[test]
fn a_forwarder_that_stands_still_loses_nothing() {
    let pause = |many: &mut Many| many.world.pause(many.node(4));
    let resume = |many: &mut Many| many.world.resume(many.node(4));
    assert_eq!(survive(84, Consistency::LocalQuorum, pause, resume), 390);
    // Writes that were handed to it before it is known to stand still are late.
    let acknowledged = survive(85, Consistency::EachQuorum, pause, resume);
    assert!(380 < acknowledged, "{acknowledged}");
}
