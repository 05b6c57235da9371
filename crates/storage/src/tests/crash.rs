//! Power cuts and kills at any moment: while writers are busy, while the node starts, while it stops. What was acknowledged is
//! there afterwards (in periodic mode after a kill), what was never written is not, and a write to one partition is whole.

use super::harness::*;
use crate::{CommitlogSync, Durability, fixture};
use base::Prng;
use mutation::{Cell, Deletion, Liveness, Mutation, MutationBuilder, Scope};
use runtime::Bug;
use runtime::sim::SimConfig;
use schema::Table;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

const KEYS: u8 = 16;
const WRITERS: u8 = 8;

/// Versions of every key: handed to the store, and acknowledged by it.
#[derive(Default)]
struct Versions {
    tried: [i64; KEYS as usize],
    acknowledged: [i64; KEYS as usize],
}

/// Two rows and a filler of random size, all with one version.
fn mutation(table: &Table, key: u8, version: i64, filler: usize) -> Mutation {
    let bytes = [key];
    let mut builder = MutationBuilder::new(table.id, base::Token::of_key(&bytes), &bytes);
    let value = [&version.to_be_bytes()[..], &vec![key; filler]].concat();
    for c in 0..2 {
        builder.write_row(&fixture::clustering(c), Liveness::at(version), Deletion::LIVE, |row| {
            row.simple(0, Cell::live(version, &value));
        });
    }
    builder.finish()
}

struct Run {
    node: Node,
    table: Table,
    versions: Rc<RefCell<Versions>>,
    prng: Prng,
    seed: u64,
    sync: CommitlogSync,
    /// In periodic mode a power cut since the last check may have taken what was acknowledged.
    may_be_lost: bool,
}

impl Run {
    /// Boots; now and then the power fails before that is done.
    fn boot(&mut self) {
        while self.prng.chance(0.4) {
            let shards = 1 + self.prng.below(6) as u16;
            self.node.start(shards);
            self.node.world.run_for(Duration::from_micros(self.prng.below(8000)));
            self.fail();
        }
        let shards = 1 + self.prng.below(6) as u16;
        self.node.boot(shards).unwrap_or_else(|error| panic!("seed {}: {error}", self.seed));
    }

    fn fail(&mut self) {
        let periodic = matches!(self.sync, CommitlogSync::Periodic { .. });
        if self.prng.chance(if periodic { 0.2 } else { 0.7 }) {
            self.node.world.power_cut(self.node.id);
            self.may_be_lost |= periodic;
        } else {
            self.node.world.kill(self.node.id);
        }
    }

    fn write_for_a_while(&mut self) {
        for writer in 0..WRITERS {
            let (table, versions, mut prng) = (self.table.clone(), self.versions.clone(), self.prng.fork());
            let task = self.node.world.spawn(self.node.id, async move {
                loop {
                    let key = writer + WRITERS * prng.below(u64::from(KEYS / WRITERS)) as u8;
                    let version = {
                        let mut versions = versions.borrow_mut();
                        versions.tried[key as usize] += 1;
                        versions.tried[key as usize]
                    };
                    let most = if prng.chance(0.1) { 20_000 } else { 500 };
                    let filler = prng.below(most) as usize;
                    let written = mutation(&table, key, version, filler);
                    if apply(vec![written], Durability::Mode).await.is_err() {
                        return;
                    }
                    versions.borrow_mut().acknowledged[key as usize] = version;
                    if prng.chance(0.02) {
                        // The store may be stopping.
                        let _ = everywhere(|store| async move { store.flush(None).await }).await;
                    }
                    runtime::sleep(Duration::from_micros(prng.below(200))).await;
                }
            });
            drop(task);
        }
        self.node.world.run_for(Duration::from_micros(self.prng.below(60_000)));
    }

    fn check(&mut self) {
        let rows = rows_of(&mut self.node, &self.table);
        let mut found: [Vec<i64>; KEYS as usize] = Default::default();
        for (key, _, body) in rows {
            let value = value(&body).expect("a value");
            found[key.bytes[0] as usize].push(i64::from_be_bytes(value[..8].try_into().expect("a version")));
        }
        let may_be_lost = std::mem::take(&mut self.may_be_lost);
        let mut versions = self.versions.borrow_mut();
        for (key, found) in found.iter().enumerate() {
            let (tried, acknowledged) = (versions.tried[key], versions.acknowledged[key]);
            let version = match found[..] {
                [] => 0,
                [a, b] if a == b => a,
                ref torn => panic!("seed {}: key {key} is torn: {torn:?}", self.seed),
            };
            assert!(
                (acknowledged <= version || may_be_lost) && version <= tried,
                "seed {}: key {key} is at {version}, acknowledged {acknowledged}, tried {tried}",
                self.seed
            );
            // What survived once survives from now on.
            versions.acknowledged[key] = version;
        }
    }
}

fn run(seed: u64, sync: CommitlogSync) {
    let table = table();
    let node = Node::new(seed, SimConfig::drawn(seed), settings(sync), &[&table]);
    let (prng, versions) = (Prng::new(seed), Rc::default());
    let mut run = Run { node, table, versions, prng, seed, sync, may_be_lost: false };
    for _ in 0..5 {
        run.boot();
        run.check();
        run.write_for_a_while();
        if run.prng.chance(0.3) {
            run.node.world.stop(run.node.id);
            run.node.world.run_for(Duration::from_micros(run.prng.below(20_000)));
        }
        run.fail();
    }
    run.boot();
    run.check();
}

#[test]
fn acknowledged_writes_survive_power_cuts_at_any_moment() {
    for seed in seeds(0, 12) {
        let sync = if seed % 3 == 0 { CommitlogSync::Group { window_ms: 1 } } else { CommitlogSync::Batch };
        run(seed, sync);
    }
}

#[test]
fn acknowledged_writes_of_periodic_mode_survive_kills_at_any_moment() {
    for seed in seeds(100, 16) {
        let period_ms = if seed % 2 == 0 { 10_000 } else { 20 };
        run(seed, CommitlogSync::Periodic { period_ms });
    }
}

/// Writes entries of these sizes in periodic mode, each to a key of its own, and kills the node in the step after the last.
fn written_and_killed(sizes: &[usize], bug: Option<Bug>) -> (Node, Table) {
    let table = table();
    let mut settings = settings(CommitlogSync::Periodic { period_ms: 10_000 });
    (settings.memtable_bytes, settings.segment_bytes, settings.commitlog_bytes) =
        (64 << 20, 8 << 20, 64 << 20);
    let mut node = Node::new(1, SimConfig::calm(), settings, &[&table]);
    if let Some(bug) = bug {
        node.world.plant(node.id, bug);
    }
    node.boot(2).expect("opens");
    let changes: Vec<Mutation> =
        sizes.iter().zip(0..).map(|(size, key)| mutation(&table, key, 1, *size)).collect();
    node.run(async move {
        for change in changes {
            apply(vec![change], Durability::Mode).await.expect("written");
        }
    });
    node.world.kill(node.id);
    node.boot(3).expect("opens");
    (node, table)
}

#[test]
fn what_was_answered_just_before_a_kill_is_there() {
    // A new tail file has four mebibytes, of which one entry may take one.
    let many = [9000; 200];
    let large = [100, 1 << 20, 100, 400_000, 3 << 19, 100];
    for sizes in [&many[..], &large[..], &[100]] {
        let (mut node, table) = written_and_killed(sizes, None);
        assert_eq!(rows_of(&mut node, &table).len(), 2 * sizes.len());
    }
}

#[test]
fn what_is_answered_beside_an_entry_larger_than_the_tail_is_there() {
    for seed in seeds(0, 3) {
        let table = table();
        let mut settings = settings(CommitlogSync::Periodic { period_ms: 10_000 });
        (settings.memtable_bytes, settings.segment_bytes, settings.commitlog_bytes) =
            (64 << 20, 16 << 20, 64 << 20);
        let mut node = Node::new(seed, SimConfig::calm(), settings, &[&table]);
        node.boot(1).expect("opens");
        let acknowledged: Rc<RefCell<Vec<u8>>> = Rc::default();
        // Every fifth is larger than all of the tail, and the disk is slow, so that others are written behind it.
        node.world.set_disk_speed(node.id, 40 << 20, 0);
        let mut tasks = Vec::new();
        for key in 0..40u8 {
            let (table, acknowledged) = (table.clone(), acknowledged.clone());
            let size = if key % 5 == 1 { 5 << 19 } else { 20_000 };
            tasks.push(node.world.spawn(node.id, async move {
                runtime::sleep(Duration::from_millis(u64::from(key) * 7)).await;
                if apply(vec![mutation(&table, key, 1, size)], Durability::Mode).await.is_ok() {
                    acknowledged.borrow_mut().push(key);
                }
            }));
        }
        node.world.run_for(Duration::from_millis(200 + 170 * seed));
        node.world.kill(node.id);
        node.world.set_disk_speed(node.id, 0, 0);
        node.boot(2).expect("opens");
        let found = rows_of(&mut node, &table);
        let answered = acknowledged.take();
        assert!(answered.len() > 2, "seed {seed}: some were answered");
        for key in answered {
            let rows = found.iter().filter(|(found, ..)| found.bytes[0] == key).count();
            assert_eq!(rows, 2, "seed {seed}: key {key} was answered");
        }
    }
}

#[test]
fn a_replay_that_forgets_the_tail_is_found_out() {
    let (mut node, table) = written_and_killed(&[9000; 200], Some(Bug::ForgetTail));
    assert!(rows_of(&mut node, &table).len() < 2 * 200);
}

/// A node that wrote all of this with room for it in memory, was killed, and began again with two shards and this much of it.
fn killed_and_replayed(shards: u16, changes: Vec<Mutation>, memtable_bytes: u64, table: &Table) -> Node {
    let roomy = crate::Settings {
        segment_bytes: 16 << 20,
        commitlog_bytes: 256 << 20,
        memtable_bytes: 256 << 20,
        ..settings(CommitlogSync::Batch)
    };
    let mut node = Node::new(1, SimConfig::calm(), roomy, &[table]);
    node.boot(shards).expect("opens");
    node.run(async move {
        for change in changes {
            apply(vec![change], Durability::Mode).await.expect("written");
        }
    });
    node.world.kill(node.id);
    node.settings.memtable_bytes = memtable_bytes;
    node.boot(2).expect("opens");
    node
}

fn rows_of(node: &mut Node, table: &Table) -> Vec<FoundRow> {
    node.run(read_ring(command(table, Scope::Keys(Vec::new().into())))).expect("readable")
}

#[test]
fn a_long_log_of_large_entries_is_replayed_in_little_memory_and_leaves_none_of_it_behind() {
    const LARGE: usize = 3 << 19;
    let table = table();
    let filler = |key: u8| if key.is_multiple_of(3) { LARGE } else { usize::from(key) * 1000 };
    let changes = (0..24).map(|key| mutation(&table, key, 1, filler(key))).collect();
    let mut node = killed_and_replayed(2, changes, 2 << 20, &table);
    let rows = rows_of(&mut node, &table);
    assert_eq!(rows.len(), 2 * 24);
    for (key, _, body) in rows {
        assert_eq!(value(&body).map(|value| value.len()), Some(8 + filler(key.bytes[0])));
    }
    let little = |store: Rc<crate::Store>| async move {
        let (left, most) = (store.memory.retired_bytes(), store.memory.retired_most());
        assert_eq!(left, 0);
        assert!((LARGE..4 * LARGE).contains(&most), "what one flush frees is freed before the next: {most}");
        Ok(())
    };
    node.run(everywhere(little)).expect("open");
}

#[test]
fn a_log_of_many_small_entries_is_replayed_whole() {
    let table = table();
    let key = |number: u32| number.to_be_bytes();
    let shard_of_key = |number: &u32| base::shard_of(base::Token::of_key(&key(*number)), 2);
    // Each of two shards finds more in a row than it takes at once that are the other's.
    let (mine, others): (Vec<u32>, Vec<u32>) = (0..3000).partition(|number| shard_of_key(number) == 0);
    let changes = [mine, others].concat();
    let changes = changes.iter().map(|number| fixture::insert(&table, &key(*number), 1, 1, b"v")).collect();
    let mut node = killed_and_replayed(1, changes, 64 << 20, &table);
    assert_eq!(rows_of(&mut node, &table).len(), 3000);
}
