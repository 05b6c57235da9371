//! Counters of four nodes, each partition on three of them: who leads, who is away, and what clients are told.

use crate::many::{Many, at, connect_to, place};
use client::Error;
use protocol::failure::{FailureKind, WriteType};
use std::time::Duration;
use types::{Consistency, Value};

const TABLES: [&str; 2] = [
    "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}",
    "CREATE TABLE ks.n (k int PRIMARY KEY, n counter) WITH ID = 00000000-0000-1000-8000-00000000abcd",
];
const KEYS: i32 = 12;

fn four(seed: u64) -> Many {
    let mut many = Many::start(seed, &[place("a", "r"); 4], |config| {
        config.hints.flush_period = Duration::from_millis(100);
        config.counter_write_timeout = Duration::from_secs(2);
    });
    many.define(&TABLES);
    many
}

/// Adds to every key through a node.
async fn count(n: usize, by: i64, level: Consistency) -> Result<(), Error> {
    let connection = connect_to(n).await;
    for k in 0..KEYS {
        connection.query(&format!("UPDATE ks.n SET n = n + {by} WHERE k = {k}"), at(level)).await?;
    }
    Ok(())
}

/// The counters as one node sees them at a level.
async fn seen(n: usize, level: Consistency) -> Vec<i64> {
    let connection = connect_to(n).await;
    let mut values = Vec::new();
    for k in 0..KEYS {
        let text = format!("SELECT n FROM ks.n WHERE k = {k}");
        let rows = connection.query(&text, at(level)).await.unwrap().rows();
        values.push(match rows.rows.len() {
            0 => 0,
            _ => match rows.value(0, 0).unwrap() {
                Value::Counter(value) => value,
                other => panic!("{other:?}"),
            },
        });
    }
    values
}

#[test]
fn every_node_counts_and_all_see_the_sum() {
    let mut many = four(31);
    many.play(async {
        for level in [Consistency::One, Consistency::Quorum, Consistency::All] {
            for n in 1..=4 {
                count(n, n as i64, level).await.unwrap();
            }
        }
        for n in 1..=4 {
            assert_eq!(seen(n, Consistency::All).await, [30; KEYS as usize], "node {n}");
        }
    });
}

#[test]
fn one_that_is_away_gets_what_was_counted_and_too_few_count_nothing() {
    let mut many = four(32);
    many.play(async { count(1, 5, Consistency::All).await.unwrap() });
    let down = many.node(3);
    many.world.kill(down);
    many.world.run_for(Duration::from_secs(5));
    many.play(async {
        let failure = loop {
            if let Err(failure) = count(1, 1_000, Consistency::All).await {
                break failure;
            }
        };
        let told = failure.failure();
        assert!(matches!(told, Some(FailureKind::Unavailable { required: 3, alive: 2, .. })), "{told:?}");
        let before = seen(1, Consistency::Quorum).await;
        count(2, 7, Consistency::Quorum).await.unwrap();
        let after = seen(4, Consistency::Quorum).await;
        let grown = before.iter().zip(&after).map(|(before, after)| after - before);
        assert!(grown.clone().all(|by| by == 7), "{before:?} {after:?}");
    });
    many.restart(3);
    many.world.run_for(Duration::from_secs(20));
    many.play(async {
        let expected = seen(1, Consistency::Quorum).await;
        for n in 1..=4 {
            // Of what a node holds it reads its own.
            assert_eq!(seen(n, Consistency::One).await, expected, "node {n}");
        }
    });
}

#[test]
fn a_leader_that_does_not_answer_is_a_timeout_of_a_counter_and_counts_once_at_most() {
    let mut many = four(33);
    many.play(async { count(1, 1, Consistency::All).await.unwrap() });
    // Node 1 is cut off from everybody but its clients: where it leads it has nobody, and where it does not it reaches nobody.
    for other in 2..=4 {
        let (one, other) = (many.node(1), many.node(other));
        many.world.cut(one, other);
    }
    let told = many.play(async {
        let connection = connect_to(1).await;
        let mut told = Vec::new();
        for k in 0..KEYS {
            let text = format!("UPDATE ks.n SET n = n + 1 WHERE k = {k}");
            if let Err(error) = connection.query(&text, at(Consistency::Quorum)).await {
                told.extend(error.failure().cloned());
            }
        }
        told
    });
    let timeouts = |told: &&FailureKind| {
        matches!(told, FailureKind::WriteTimeout { write_type: WriteType::Counter, block_for: 2, .. })
    };
    assert!(0 < told.iter().filter(timeouts).count(), "{told:?}");
    many.world.heal_all();
    many.world.run_for(Duration::from_secs(20));
    let values = many.play(async { seen(1, Consistency::All).await });
    assert!(values.iter().all(|value| (1..=2).contains(value)), "{values:?}");
}
