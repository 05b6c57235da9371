//! What options of tables say of slow and of differing replicas.

use crate::many::{Many, at, connect_to, place};
use node::config::CommitlogSync;
use std::time::Duration;
use types::{Consistency, Value};

const KEYSPACE: &str =
    "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}";

fn table(name: &str, id: u8, options: &str) -> String {
    format!(
        "CREATE TABLE ks.{name} (k int PRIMARY KEY, v int) WITH ID = 00000000-0000-1000-8000-0000000000{id:02} AND {options}"
    )
}

/// Three nodes that keep no hints, so that what a replica missed stays missed.
fn three(seed: u64, tables: &[String]) -> Many {
    let mut many = Many::start(seed, &[place("dc", "r"); 3], |config| {
        config.hints.enabled = false;
        config.commitlog_sync = CommitlogSync::Batch;
        // What one read has met must not change what the next one does.
        config.dynamic_snitch.enabled = false;
    });
    let statements: Vec<&str> = std::iter::once(KEYSPACE).chain(tables.iter().map(String::as_str)).collect();
    many.define(&statements);
    many
}

async fn write(n: usize, text: &str, level: Consistency) {
    connect_to(n).await.query(text, at(level)).await.unwrap();
}

/// The value of a key as read from a node at a level; `None`: there is no row.
async fn value(n: usize, table: &str, k: i32, level: Consistency) -> Option<Value> {
    let text = format!("SELECT v FROM ks.{table} WHERE k = {k}");
    let read = connect_to(n).await.query(&text, at(level)).await.unwrap().rows();
    (!read.rows.is_empty()).then(|| read.value(0, 0).unwrap())
}

/// How long the slowest of twenty reads of a table at QUORUM takes, of different keys, and how many retries were made.
fn slowest(many: &mut Many, table: &'static str) -> (Duration, u64) {
    let retries = |many: &mut Many| {
        let id = many.ask(1, move |c| c.schema().keyspace("ks").unwrap().tables[table].id);
        let all = many.ask(1, |c| c.speculative_retries());
        all.iter().find(|(of, _)| *of == id).map_or(0, |(_, count)| *count)
    };
    let before = retries(many);
    let slowest = many.play(async move {
        let connection = connect_to(1).await;
        let reads = (0..20).map(|k| {
            let text = format!("SELECT v FROM ks.{table} WHERE k = {k}");
            let connection = connection.clone();
            runtime::spawn(runtime::Group::MAIN, async move {
                let start = runtime::now();
                connection.query(&text, at(Consistency::Quorum)).await.unwrap();
                runtime::now().since(start)
            })
        });
        let reads: Vec<_> = reads.collect();
        let mut slowest = Duration::ZERO;
        for read in reads {
            slowest = slowest.max(read.await);
        }
        slowest
    });
    (slowest, retries(many) - before)
}

#[test]
fn one_replica_more_is_asked_when_the_table_says_so() {
    let tables = [
        table("never", 1, "speculative_retry = 'NONE'"),
        table("fixed", 2, "speculative_retry = '30ms'"),
        table("always", 3, "speculative_retry = 'ALWAYS'"),
        table("share", 4, "speculative_retry = '99PERCENTILE'"),
        table("both", 5, "speculative_retry = 'MIN(99p,70ms)'"),
    ];
    let mut many = three(71, &tables);
    // One connection to each node is there, and what a healthy read takes is known.
    for _ in 0..3 {
        assert!(slowest(&mut many, "share").0 < Duration::from_millis(20));
    }
    assert_eq!(slowest(&mut many, "never").1, 0);
    let (took, retries) = slowest(&mut many, "always");
    assert_eq!((took < Duration::from_millis(20), retries), (true, 20));
    many.world.run_for(Duration::from_secs(2));
    many.world.pause(many.node(2));
    let (took, retries) = slowest(&mut many, "always");
    assert_eq!((took < Duration::from_millis(20), retries), (true, 20), "{took:?}");
    let (took, retries) = slowest(&mut many, "fixed");
    let range = |low, high| Duration::from_millis(low)..Duration::from_millis(high);
    assert!(range(30, 60).contains(&took) && 0 < retries && retries < 20, "{took:?} {retries}");
    let (took, retries) = slowest(&mut many, "share");
    assert!(range(1, 20).contains(&took) && 0 < retries && retries < 20, "{took:?} {retries}");
    let (took, _) = slowest(&mut many, "both");
    assert!(range(70, 100).contains(&took), "{took:?}");
    let (took, retries) = slowest(&mut many, "never");
    assert!(Duration::from_secs(1) < took && retries == 0, "{took:?} {retries}");
}

/// Writes key 1 at QUORUM so that node 3 misses it.
fn miss(many: &mut Many, table: &'static str) {
    many.world.kill(many.node(3));
    many.world.run_for(Duration::from_secs(3));
    many.play(async move {
        write(1, &format!("INSERT INTO ks.{table} (k, v) VALUES (1, 1)"), Consistency::Quorum).await;
    });
    many.restart(3);
    many.world.run_for(Duration::from_secs(3));
}

#[test]
fn differing_replicas_are_repaired_unless_the_table_says_no() {
    let mut many = three(
        72,
        &[table("blocking", 1, "read_repair = 'BLOCKING'"), table("none", 2, "read_repair = 'NONE'")],
    );
    for (table, after) in [("blocking", Some(Value::Int(1))), ("none", None)] {
        miss(&mut many, table);
        many.play(async move {
            assert_eq!(value(3, table, 1, Consistency::One).await, None);
            assert_eq!(
                value(1, table, 1, Consistency::All).await,
                Some(Value::Int(1)),
                "the answer is the merge"
            );
            assert_eq!(value(3, table, 1, Consistency::One).await, after, "{table}");
        });
    }
}

#[test]
fn a_slow_repair_is_sent_to_one_replica_more() {
    let repair =
        |policy: &str| format!("speculative_retry = 'NONE' AND additional_write_policy = '{policy}'");
    let mut many = three(73, &[table("fixed", 1, &repair("20ms")), table("never", 2, &repair("NEVER"))]);
    for (table, within) in [("fixed", 20..100), ("never", 300..2100)] {
        // Node 3 alone lacks the row; it confirms a write late, as its disk is slow.
        miss(&mut many, table);
        let three = many.node(3);
        many.world.slow_disk(three, (Duration::from_millis(400), Duration::from_millis(400)));
        let took = many.play(async move {
            let connection = connect_to(3).await;
            let text = format!("SELECT v FROM ks.{table} WHERE k = 1");
            let start = runtime::now();
            let read = connection.query(&text, at(Consistency::Quorum)).await.unwrap().rows();
            assert_eq!(read.value(0, 0).unwrap(), Value::Int(1));
            runtime::now().since(start).as_millis()
        });
        assert!(within.contains(&took), "{table} {took} ms");
        many.world.slow_disk(three, (Duration::from_micros(10), Duration::from_micros(100)));
        many.world.run_for(Duration::from_secs(5));
    }
}

/// Of two hundred reads at QUORUM, one after the other, while node 2 stands still: those that took 25 ms or more.
fn waits(dynamic_snitch: bool, level: Consistency) -> usize {
    let mut many =
        Many::start(74, &[place("dc", "r"), place("dc", "r"), place("dc", "other")], move |config| {
            config.dynamic_snitch.enabled = dynamic_snitch;
        });
    let fixed = table("fixed", 1, "speculative_retry = '30ms'");
    many.define(&[KEYSPACE, &fixed]);
    let read_all = move || async move {
        let connection = connect_to(1).await;
        let mut waits = 0;
        for k in 0..200 {
            let start = runtime::now();
            connection.query(&format!("SELECT v FROM ks.fixed WHERE k = {k}"), at(level)).await.unwrap();
            waits += usize::from(Duration::from_millis(25) <= runtime::now().since(start));
            runtime::sleep(Duration::from_millis(3)).await;
        }
        waits
    };
    assert_eq!(many.play(read_all()), 0);
    // Shorter than a silence that would make the node down.
    many.world.pause(many.node(2));
    many.play(read_all())
}

#[test]
fn a_replica_that_stands_still_costs_the_first_reads_only() {
    // The node of the same rack is asked first, until it is known to be slow.
    assert!(50 < waits(false, Consistency::Quorum));
    let waits = waits(true, Consistency::Quorum);
    assert!(0 < waits && waits < 8, "{waits}");
}
