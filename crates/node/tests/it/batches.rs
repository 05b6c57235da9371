//! Logged batches whose coordinator dies, whose keepers restart, whose tables are truncated.

use crate::many::{Many, Place, at, connect_to, place};
use client::Error;
use coordinator::Coordinator;
use node::config::CommitlogSync;
use protocol::failure::{FailureKind, WriteType};
use std::time::Duration;
use types::Consistency;

const KEYSPACE: &str =
    "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";
const TABLES: [&str; 3] = [
    KEYSPACE,
    "CREATE TABLE ks.a (k int PRIMARY KEY, v int) WITH ID = 00000000-0000-1000-8000-000000000001",
    "CREATE TABLE ks.b (k int PRIMARY KEY, v int) WITH ID = 00000000-0000-1000-8000-000000000002",
];
/// Rows of one batch; with one replica each they are spread over all nodes.
const ROWS: i32 = 40;

/// Nodes of one shard or more, every write of which is on the disk when it is confirmed.
fn nodes(seed: u64, places: &[Place], tables: &[&str]) -> Many {
    let mut many = Many::start(seed, places, |config| {
        config.commitlog_sync = CommitlogSync::Batch;
        // Batches are written again after twice as much.
        config.write_timeout = Duration::from_secs(10);
        config.hints.flush_period = Duration::from_millis(100);
    });
    many.define(tables);
    many
}

fn racks(count: usize) -> Vec<Place> {
    (0..count).map(|n| Place { shards: 1 + n as u16 % 3, ..place("d", ["x", "y", "z"][n % 3]) }).collect()
}

fn batch(tables: &[&str]) -> String {
    let insert = |(k, table): (i32, &&str)| format!("INSERT INTO ks.{table} (k, v) VALUES ({k}, {k});");
    let all = (0..ROWS).flat_map(|k| tables.iter().map(move |table| (k, table)));
    format!("BEGIN BATCH {} APPLY BATCH", all.map(insert).collect::<String>())
}

/// How many rows of a table are there and how many are not, of those whose node answers.
fn rows(many: &mut Many, through: usize, table: &'static str) -> (usize, usize) {
    many.play(async move {
        let connection = connect_to(through).await;
        let (mut there, mut lacking) = (0, 0);
        for k in 0..ROWS {
            let text = format!("SELECT k FROM ks.{table} WHERE k = {k}");
            let Ok(outcome) = connection.query(&text, at(Consistency::One)).await else { continue };
            match outcome.rows().rows.is_empty() {
                true => lacking += 1,
                false => there += 1,
            }
        }
        (there, lacking)
    })
}

/// How many batches each node keeps, of those that are asked.
fn kept(many: &mut Many, nodes: std::ops::RangeInclusive<usize>) -> Vec<usize> {
    many.play(async move {
        let mut kept = Vec::new();
        for n in nodes {
            let read = connect_to(n).await.query("SELECT id FROM system.batches", at(Consistency::One)).await;
            kept.push(read.unwrap().rows().rows.len());
        }
        kept
    })
}

/// What all shards of a node say that they may keep.
fn counted(many: &mut Many, n: usize) -> usize {
    let count = async {
        let count = || async {
            let until = runtime::now() + Duration::from_secs(5);
            runtime::local::<Coordinator>().unfinished_batches(until).await
        };
        runtime::on_every_shard(runtime::Group::MAIN, count).await.into_iter().sum()
    };
    let mut task = many.world.spawn(many.node(n), count);
    assert!(many.world.run_until(|_| task.done(), Duration::from_secs(60)));
    task.take().unwrap()
}

/// Node 1 takes a batch and loses power when its keepers have it and all nodes but node 4 their parts.
fn die_between(many: &mut Many, tables: &'static [&'static str]) {
    let (one, four) = (many.node(1), many.node(4));
    // Every connection is there before.
    many.play(async {
        let text = "BEGIN BATCH INSERT INTO ks.a (k, v) VALUES (1000, 1); INSERT INTO ks.a (k, v) VALUES (1001, 1); APPLY BATCH";
        connect_to(1).await.query(text, at(Consistency::One)).await.unwrap();
    });
    many.world.run_for(Duration::from_secs(1));
    many.world.cut(one, four);
    let task = many.world.spawn(many.client, async move {
        connect_to(1).await.query(&batch(tables), at(Consistency::One)).await
    });
    many.world.run_for(Duration::from_millis(300));
    assert!(!task.done(), "a part is on its way");
    many.world.power_cut(one);
    many.world.heal(one, four);
    // The others know that it is gone.
    many.world.run_for(Duration::from_secs(4));
}

#[test]
fn what_is_acknowledged_is_kept_by_nobody() {
    let mut many = nodes(91, &racks(5), &TABLES);
    many.play(async { drop(connect_to(1).await.query(&batch(&["a"]), at(Consistency::All)).await.unwrap()) });
    many.world.run_for(Duration::from_secs(1));
    assert_eq!(rows(&mut many, 2, "a"), (ROWS as usize, 0));
    assert_eq!(kept(&mut many, 1..=5), [0; 5]);
    let counts: Vec<usize> = (1..=5).map(|n| counted(&mut many, n)).collect();
    assert_eq!(counts, [0; 5]);
}

#[test]
fn a_coordinator_that_dies_leaves_a_whole_batch() {
    let mut many = nodes(92, &racks(5), &TABLES);
    die_between(&mut many, &["a"]);
    let (there, lacking) = rows(&mut many, 2, "a");
    assert!(0 < there && 0 < lacking, "{there} {lacking}");
    // Node 4 is in the coordinator's rack, and of the others two have it, in two racks.
    let before = kept(&mut many, 2..=5);
    assert_eq!((before[1], before[0] + before[3], before[2]), (1, 1, 0), "{before:?}");
    many.world.run_for(Duration::from_secs(40));
    let (there, lacking) = rows(&mut many, 2, "a");
    assert_eq!(lacking, 0);
    many.restart(1);
    many.world.run_for(Duration::from_secs(20));
    let (there_with_all, lacking) = rows(&mut many, 2, "a");
    assert_eq!((there_with_all, lacking), (ROWS as usize, 0));
    assert!(there < there_with_all, "node 1 has some of it");
    assert_eq!(kept(&mut many, 1..=5), [0; 5]);
}

#[test]
fn keepers_that_restart_go_on() {
    let mut many = nodes(93, &racks(5), &TABLES);
    die_between(&mut many, &["a"]);
    for n in [2, 3, 5] {
        let node = many.node(n);
        many.world.power_cut(node);
    }
    many.world.run_for(Duration::from_millis(500));
    for n in [2, 3, 5] {
        many.restart(n);
    }
    let counts = [2, 3, 5].map(|n| counted(&mut many, n));
    assert_eq!(counts.iter().sum::<usize>(), 2, "{counts:?}");
    many.world.run_for(Duration::from_secs(60));
    assert_eq!(rows(&mut many, 2, "a").1, 0);
    assert_eq!(kept(&mut many, 2..=5), [0; 4]);
}

#[test]
fn what_is_truncated_meanwhile_stays_away() {
    let mut many = nodes(94, &racks(5), &TABLES);
    die_between(&mut many, &["a", "b"]);
    many.restart(1);
    many.play(async {
        runtime::sleep(Duration::from_secs(3)).await;
        connect_to(2).await.query("TRUNCATE ks.a", at(Consistency::All)).await.unwrap();
    });
    assert_ne!(kept(&mut many, 2..=5), [0; 4], "it is not written again yet");
    many.world.run_for(Duration::from_secs(40));
    assert_eq!(kept(&mut many, 1..=5), [0; 5]);
    assert_eq!(rows(&mut many, 2, "a"), (0, ROWS as usize));
    assert_eq!(rows(&mut many, 2, "b"), (ROWS as usize, 0));
}

#[test]
fn a_node_that_is_alone_in_its_datacenter_keeps_it_itself() {
    let places = [place("d", "x"), place("e", "x"), place("e", "y"), place("e", "z")];
    let mut many = nodes(95, &places, &TABLES);
    let (one, four) = (many.node(1), many.node(4));
    many.world.cut(one, four);
    let task = many.world.spawn(many.client, async move {
        connect_to(1).await.query(&batch(&["a"]), at(Consistency::One)).await
    });
    many.world.run_for(Duration::from_millis(500));
    assert!(!task.done());
    assert_eq!(kept(&mut many, 1..=4), [1, 0, 0, 0]);
    many.world.heal_all();
    assert!(many.world.run_until(|_| task.done(), Duration::from_secs(60)));
    many.world.run_for(Duration::from_secs(60));
    assert_eq!(rows(&mut many, 1, "a"), (ROWS as usize, 0));
    assert_eq!(kept(&mut many, 1..=4), [0; 4]);
}

#[test]
fn keepers_that_stand_still_are_a_timeout_of_the_batchlog() {
    let mut many = nodes(96, &racks(3), &TABLES);
    let stand_still = |many: &mut Many, on: bool| {
        for n in [2, 3] {
            let node = many.node(n);
            if on { many.world.pause(node) } else { many.world.resume(node) }
        }
    };
    stand_still(&mut many, true);
    let mut task = many.world.spawn(many.client, async move {
        connect_to(1).await.query(&batch(&["a"]), at(Consistency::One)).await
    });
    assert!(many.world.run_until(|_| task.done(), Duration::from_secs(60)));
    let Some(Err(Error::Failure(failure))) = task.take() else { panic!("a failure") };
    let FailureKind::WriteTimeout { consistency, received, block_for, write_type, .. } = failure.kind else {
        panic!("{failure}")
    };
    assert_eq!((consistency, received, block_for, write_type), (Consistency::Two, 0, 2, WriteType::BatchLog));
    stand_still(&mut many, false);
    many.world.run_for(Duration::from_secs(60));
    // It was known to nobody, or to those that stood still: all of it, or nothing.
    let (there, lacking) = rows(&mut many, 1, "a");
    assert!(there == 0 || lacking == 0, "{there} {lacking}");
    assert_eq!(kept(&mut many, 1..=3), [0; 3]);
}

#[test]
fn without_a_keeper_it_is_unavailable_but_at_any() {
    let far = [
        "CREATE KEYSPACE ks WITH replication = {'class': 'NetworkTopologyStrategy', 'e': 1}",
        TABLES[1],
        TABLES[2],
    ];
    let mut many = nodes(97, &[place("d", "x"), place("d", "y"), place("d", "y"), place("e", "x")], &far);
    for n in [2, 3] {
        let node = many.node(n);
        many.world.kill(node);
    }
    many.world.run_for(Duration::from_secs(10));
    many.play(async {
        let connection = connect_to(1).await;
        match connection.query(&batch(&["a"]), at(Consistency::One)).await {
            Err(Error::Failure(failure)) => match failure.kind {
                FailureKind::Unavailable { consistency, required, alive } => {
                    assert_eq!((consistency, required, alive), (Consistency::Two, 2, 0));
                }
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
        connection.query(&batch(&["b"]), at(Consistency::Any)).await.unwrap();
    });
    assert_eq!(rows(&mut many, 1, "a"), (0, ROWS as usize));
    assert_eq!(rows(&mut many, 1, "b"), (ROWS as usize, 0));
}
