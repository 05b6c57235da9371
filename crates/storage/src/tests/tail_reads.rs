//! Reads that miss the cache of a slow disk, alone and beside the flushes and compactions of writes.
//!
//! ```text
//!   [ 35 %: reads ] [ 70 %: twice the reads ] [ warm ] [ 70 %: the reads of the first, log, flushes, compactions ]
//! ```
//! The disk is as busy in the last phase as in the second. Both are what "without" may mean: the same load made of reads only,
//! and, harder, the same reads and nothing else. Writes are of new keys, so a read asks as many sstables as before: what changes
//! is who else uses the disk. Reads and writes come at random times, whatever became of those before, and a read's time counts
//! from when it was to be sent.

use super::harness::*;
use crate::{CommitlogSync, Durability, Store, fixture};
use base::{Instant, Prng};
use mutation::{Key, Scope};
use runtime::sim::SimConfig;
use runtime::{Bug, Group};
use schema::Table;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

const MIB: u64 = 1024 * 1024;
/// What the disk reads and writes in a second, and how long a request takes besides.
const DISK: u64 = 50_000_000;
const DISK_LATENCY: Duration = Duration::from_micros(200);
const VALUE: usize = 4 * 1024;
/// Keys that are read: 32 MiB, of which the caches hold a twentieth.
const KEYS: u64 = 8 * 1024;
/// Reads a second that keep the disk busy to 35 %: a chunk each, now and then a page of the index.
const READS: f64 = 720.0;
/// Writes a second that make the rest of 70 %: what is written is logged, flushed, and merged with all that is there.
const WRITES: f64 = 500.0;
const SECONDS_ALONE: u64 = 4;
const SECONDS_WARM: u64 = 4;
const SECONDS_BESIDE: u64 = 12;

/// When the `n`th request comes, if they come at random, so many a second.
fn next(after: Instant, per_second: f64, prng: &mut Prng) -> Instant {
    after + Duration::from_secs_f64(-(1.0 - prng.unit()).ln() / per_second)
}

fn mutation(table: &Table, key: u64, prng: &mut Prng) -> mutation::Mutation {
    let mut value = vec![0; VALUE];
    prng.fill(&mut value);
    fixture::insert(table, &(key as u32).to_be_bytes(), 1, 5, &value)
}

/// Reads keys at random until then; how long each took, from when it was to be sent, in microseconds.
async fn read(table: Table, per_second: f64, until: Instant, seed: u64, took: Rc<RefCell<Vec<u64>>>) {
    let store = runtime::local::<Store>();
    let mut prng = Prng::new(seed);
    let mut intended = next(runtime::now(), per_second, &mut prng);
    while intended < until {
        runtime::sleep(intended.saturating_duration_since(runtime::now())).await;
        let key = (prng.below(KEYS) as u32).to_be_bytes();
        let command = command(&table, Scope::Keys(vec![Key::new(&key)].into()));
        let (store, took) = (store.clone(), took.clone());
        drop(runtime::spawn(Group::QUERY, async move {
            let answer = match store.read_now(&command) {
                Some((answer, _)) => answer,
                None => store.read(&command).await.expect("reads"),
            };
            assert_eq!(answer.live_rows, 1);
            let passed = runtime::now().saturating_duration_since(intended);
            took.borrow_mut().push(passed.as_micros() as u64);
        }));
        intended = next(intended, per_second, &mut prng);
    }
}

/// Writes new keys until then.
async fn write(table: Table, per_second: f64, until: Instant, seed: u64) {
    let store = runtime::local::<Store>();
    let mut prng = Prng::new(seed);
    let mut intended = next(runtime::now(), per_second, &mut prng);
    for key in KEYS.. {
        if intended >= until {
            return;
        }
        runtime::sleep(intended.saturating_duration_since(runtime::now())).await;
        let (store, write) = (store.clone(), mutation(&table, key, &mut prng));
        drop(runtime::spawn(Group::QUERY, async move {
            store.apply(vec![write], Durability::Mode).await.expect("applied");
        }));
        intended = next(intended, per_second, &mut prng);
    }
}

/// A node on a slow disk with all keys in one sstable.
fn loaded(seed: u64, table: &Table) -> Node {
    let settings = crate::Settings {
        segment_bytes: 4 * MIB,
        commitlog_bytes: 64 * MIB,
        memtable_bytes: 16 * MIB,
        block_cache_bytes: MIB,
        ..settings(CommitlogSync::Periodic { period_ms: 1_000 })
    };
    let latency = (DISK_LATENCY, DISK_LATENCY);
    let config = SimConfig {
        disk_bytes: 8 << 30,
        disk_read: latency,
        disk_write: latency,
        disk_sync: latency,
        ..SimConfig::calm()
    };
    let mut node = Node::new(seed, config, settings, &[table]);
    node.boot(1).expect("opens");
    let loaded = table.clone();
    node.run(async move {
        let store = runtime::local::<Store>();
        let mut prng = Prng::new(seed);
        for key in 0..KEYS {
            store.apply(vec![mutation(&loaded, key, &mut prng)], Durability::Mode).await.expect("applied");
        }
        store.flush(None).await.expect("flushes");
        store.compact(loaded.id).await.expect("compacts");
    });
    node.world.run_for(Duration::from_secs(5));
    node.world.set_disk_speed(node.id, DISK, 0);
    node
}

/// Reads for some seconds: the 99th percentile of their times in microseconds, and how busy the disk was.
fn measure(node: &mut Node, table: &Table, per_second: f64, seconds: u64, seed: u64) -> (u64, f64) {
    let moved = async || Group::ALL.into_iter().map(|group| runtime::io::started(group).1).sum::<u64>();
    let took: Rc<RefCell<Vec<u64>>> = Rc::default();
    let before = node.run(moved());
    let until = node.world.now() + Duration::from_secs(seconds);
    drop(node.world.spawn(node.id, read(table.clone(), per_second, until, seed, took.clone())));
    node.world.run_for(Duration::from_secs(seconds));
    let busy = (node.run(moved()) - before) as f64 / (DISK * seconds) as f64;
    // Those under way are over when nothing else is asked for.
    node.world.run_for(Duration::from_secs(1));
    let mut took = took.borrow_mut();
    assert!(took.len() as f64 > per_second * seconds as f64 * 0.9, "{} reads were answered", took.len());
    took.sort();
    (took[took.len() * 99 / 100], busy)
}

/// The 99th percentiles of the three phases in microseconds. `planted`: flushes and compactions use the disk as reads do.
fn phases(seed: u64, planted: bool) -> [u64; 3] {
    let table = fixture::table();
    let mut node = loaded(seed, &table);
    let (alone, busy_alone) = measure(&mut node, &table, READS, SECONDS_ALONE, seed ^ 1);
    let (twice, busy_twice) = measure(&mut node, &table, 2.0 * READS, SECONDS_ALONE, seed ^ 2);
    // One second more than is measured: the last reads are not to have the disk for themselves.
    let until = node.world.now() + Duration::from_secs(SECONDS_WARM + SECONDS_BESIDE + 1);
    drop(node.world.spawn(node.id, write(table.clone(), WRITES, until, seed ^ 3)));
    if planted {
        node.world.plant(node.id, Bug::BackgroundUnbounded);
    }
    node.world.run_for(Duration::from_secs(SECONDS_WARM));
    let work = |node: &mut Node| {
        node.run(async {
            let bytes = |group| runtime::io::started(group).1;
            [bytes(Group::FLUSH), bytes(Group::COMPACTION)]
        })
    };
    let before = work(&mut node);
    let (beside, busy) = measure(&mut node, &table, READS, SECONDS_BESIDE, seed ^ 4);
    let after = work(&mut node);
    eprintln!(
        "seed {seed}, planted {planted}: p99 {alone} us at {busy_alone:.2}, {twice} us at {busy_twice:.2}, \
         {beside} us beside flushes and compactions at {busy:.2}: {:.1} and {:.1} times as long",
        beside as f64 / alone as f64,
        beside as f64 / twice as f64
    );
    assert!((0.3..0.4).contains(&busy_alone) && (0.63..0.77).contains(&busy_twice));
    assert!((0.63..0.77).contains(&busy), "seed {seed}: the disk is used to {busy:.2}");
    let shares = [0, 1].map(|kind| (after[kind] - before[kind]) as f64 / (DISK * SECONDS_BESIDE) as f64);
    assert!(shares[0] > 0.02 && shares[1] > 0.1, "both are at work: {shares:.2?}");
    [alone, twice, beside]
}

#[test]
fn reads_beside_flushes_and_compactions_wait_no_more_than_twice_as_long() {
    for seed in seeds(1, 3) {
        let [_, twice, beside] = phases(seed, false);
        assert!(beside <= 2 * twice, "seed {seed}: {beside} us against {twice} us");
    }
}

#[test]
fn a_disk_full_of_what_nobody_waits_for_is_noticed() {
    let [_, twice, beside] = phases(1, true);
    assert!(beside > 4 * twice, "the planted bug goes unnoticed: {beside} us against {twice} us");
}
