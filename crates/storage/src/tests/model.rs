//! Random operations against a plain map, over restarts of every kind.

use super::harness::*;
use crate::fixture::clustering;
use crate::{CommitlogSync, Durability, Error, Granularity, MajorCompaction};
use base::Prng;
use mutation::{
    Bound, Cell, Deletion, Key, Liveness, Mutation, MutationBuilder, RangeTombstone, ReadCommand, Scope,
    Slice,
};
use runtime::sim::SimConfig;
use schema::{BoundSide, Table};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

/// One write, as the model understands it.
#[derive(Debug, Clone)]
enum Write {
    Insert { key: u8, c: i32, value: Vec<u8> },
    DeleteRow { key: u8, c: i32 },
    DeleteRange { key: u8, from: i32, to: i32 },
    DeletePartition { key: u8 },
}

/// What is known of one partition: the newest insert of each row, and every deletion.
#[derive(Debug, Clone, Default)]
struct Known {
    rows: BTreeMap<i32, (i64, Vec<u8>)>,
    deletions: Vec<(i32, i32, i64)>,
}

#[derive(Debug, Clone, Default)]
struct Model {
    partitions: BTreeMap<u8, Known>,
}

impl Model {
    fn apply(&mut self, write: &Write, timestamp: i64) {
        match write {
            Write::Insert { key, c, value } => {
                let row =
                    self.partitions.entry(*key).or_default().rows.entry(*c).or_insert((i64::MIN, Vec::new()));
                if row.0 < timestamp {
                    *row = (timestamp, value.clone());
                }
            }
            Write::DeleteRow { key, c } => self.delete(*key, *c, *c, timestamp),
            Write::DeleteRange { key, from, to } => self.delete(*key, *from, *to, timestamp),
            Write::DeletePartition { key } => self.delete(*key, i32::MIN, i32::MAX, timestamp),
        }
    }

    fn delete(&mut self, key: u8, from: i32, to: i32, timestamp: i64) {
        self.partitions.entry(key).or_default().deletions.push((from, to, timestamp));
    }

    /// Live rows of one partition in order.
    fn partition(&self, key: u8) -> Vec<(i32, Vec<u8>)> {
        let Some(known) = self.partitions.get(&key) else { return Vec::new() };
        let alive = |c: i32, timestamp: i64| {
            known.deletions.iter().all(|(from, to, at)| c < *from || c > *to || timestamp > *at)
        };
        let rows = known.rows.iter().filter(|(c, (timestamp, _))| alive(**c, *timestamp));
        rows.map(|(c, (_, value))| (*c, value.clone())).collect()
    }
}

/// The int in a clustering.
fn number(clustering: &[u8]) -> i32 {
    i32::from_be_bytes(clustering[4..8].try_into().expect("an int"))
}

fn key_bytes(key: u8) -> Vec<u8> {
    vec![key, 0xee]
}

fn mutation_of(table: &Table, write: &Write, timestamp: i64, local_time: u32) -> Mutation {
    let (Write::Insert { key, .. }
    | Write::DeleteRow { key, .. }
    | Write::DeleteRange { key, .. }
    | Write::DeletePartition { key }) = write;
    let bytes = key_bytes(*key);
    let mut builder = MutationBuilder::new(table.id, base::Token::of_key(&bytes), &bytes);
    let deletion = Deletion { timestamp, local_time };
    match write {
        Write::Insert { c, value, .. } => {
            builder.write_row(&clustering(*c), Liveness::at(timestamp), Deletion::LIVE, |row| {
                row.simple(0, Cell::live(timestamp, value));
            });
        }
        Write::DeleteRow { c, .. } => builder.write_row(&clustering(*c), Liveness::NONE, deletion, |_| {}),
        Write::DeleteRange { from, to, .. } => builder.range(&RangeTombstone {
            start: Bound::new(&clustering(*from), BoundSide::Before),
            end: Bound::new(&clustering(*to), BoundSide::After),
            deletion,
        }),
        Write::DeletePartition { .. } => builder.deletion(deletion),
    }
    builder.finish()
}

struct Plan {
    seed: u64,
    sync: CommitlogSync,
    /// Whether tombstones may be purged at once; then timestamps only grow.
    purge: bool,
    crashes: bool,
    rounds: usize,
    operations: u64,
}

struct Run {
    node: Node,
    table: Table,
    model: Model,
    prng: Prng,
    clock: i64,
    purge: bool,
}

impl Run {
    fn write(&mut self) -> Write {
        let key = self.prng.below(12) as u8;
        let c = self.prng.below(60) as i32;
        match self.prng.below(20) {
            0 => Write::DeletePartition { key },
            1 => Write::DeleteRange { key, from: c, to: c + self.prng.below(20) as i32 },
            2..=4 => Write::DeleteRow { key, c },
            _ => {
                let most = if self.prng.chance(0.1) { 3000 } else { 40 };
                let mut value = vec![0; 1 + self.prng.below(most) as usize];
                self.prng.fill(&mut value);
                Write::Insert { key, c, value }
            }
        }
    }

    /// Unique; mostly growing.
    fn timestamp(&mut self) -> i64 {
        self.clock += 1;
        let back = if self.purge || self.prng.chance(0.7) { 0 } else { self.prng.below(300) as i64 };
        ((self.clock - back) << 32) | self.clock
    }

    fn operate(&mut self) {
        match self.prng.below(40) {
            0 => self.everywhere(|store| async move { store.flush(None).await }),
            1 => self.compact(),
            2..=8 => self.check_key(),
            9 => self.check_ring(),
            10 if self.prng.chance(0.1) => {
                let id = self.table.id;
                self.everywhere(move |store| async move { store.truncate(id, 5).await });
                self.model = Model::default();
            }
            _ => {
                let write = self.write();
                let timestamp = self.timestamp();
                // Long ago, or never to be purged.
                let local_time = if self.purge { 1_600_000_000 } else { 4_000_000_000 };
                let mutation = mutation_of(&self.table, &write, timestamp, local_time);
                self.node.run(apply(vec![mutation], Durability::Mode)).expect("the write is accepted");
                self.model.apply(&write, timestamp);
            }
        }
    }

    /// One of the things that an operator has done to all sstables.
    fn compact(&mut self) {
        let id = self.table.id;
        let split_output = self.prng.chance(0.5);
        match self.prng.below(7) {
            0 => {
                self.everywhere(move |store| async move { store.garbage_collect(id, Granularity::Row).await })
            }
            1 => self
                .everywhere(move |store| async move { store.garbage_collect(id, Granularity::Cell).await }),
            2 => self.everywhere(move |store| async move {
                assert_eq!(store.scrub(id).await?.lost, Vec::<String>::new());
                Ok(())
            }),
            3 => self.everywhere(move |store| async move { store.upgrade(id, true).await }),
            4 => self.everywhere(move |store| async move {
                store.cleanup(id, &[(base::Token::MIN, base::Token(i64::MAX))]).await
            }),
            _ => self.everywhere(move |store| async move {
                store.compact_as(id, &MajorCompaction { split_output, range: None }).await
            }),
        }
    }

    fn everywhere<F, Fut>(&mut self, work: F)
    where
        F: Fn(Rc<crate::Store>) -> Fut + Send + Clone + 'static,
        Fut: Future<Output = Result<(), Error>> + 'static,
    {
        self.node.run(everywhere(work)).expect("it works");
    }

    fn command(&mut self, scope: Scope) -> ReadCommand {
        let mut command = command(&self.table, scope);
        command.row_limit = *[1, 3, 10, u32::MAX].get(self.prng.below(4) as usize).expect("in range");
        command.byte_limit = mutation::ByteLimit::near([u64::MAX, 100, 5000][self.prng.below(3) as usize]);
        command.tombstone_limit = *[1, 5, u32::MAX].get(self.prng.below(3) as usize).expect("in range");
        command
    }

    fn check_key(&mut self) {
        let key = self.prng.below(12) as u8;
        let mut command = self.command(Scope::Keys(vec![Key::new(&key_bytes(key))].into()));
        command.reversed = self.prng.chance(0.4);
        let mut expected = self.model.partition(key);
        if self.prng.chance(0.6) {
            let from = self.prng.below(60) as i32;
            let to = from + self.prng.below(30) as i32;
            let at = |c: i32| self.table.position(&clustering(c)).expect("a position");
            command.slices = vec![Slice { start: at(from), end: at(to) }].into();
            if self.prng.chance(0.5) {
                command.slices.push(Slice { start: at(to + 3), end: at(to + 8) });
                expected.retain(|(c, _)| (from..to).contains(c) || (to + 3..to + 8).contains(c));
            } else {
                expected.retain(|(c, _)| (from..to).contains(c));
            }
        }
        if command.reversed {
            expected.reverse();
        }
        let asked = command.clone();
        let found = self.node.run(read_key(command)).expect("the read works");
        let found: Vec<_> =
            found.iter().map(|(_, c, body)| (c.clone(), value(body).expect("a value"))).collect();
        let expected: Vec<_> = expected.into_iter().map(|(c, value)| (clustering(c), value)).collect();
        let short = |rows: &[(Vec<u8>, Vec<u8>)]| -> Vec<(i32, usize)> {
            rows.iter().map(|(c, value)| (number(c), value.len())).collect()
        };
        assert_eq!(short(&found), short(&expected), "key {key}: {asked:?}");
        assert_eq!(found, expected);
    }

    fn check_ring(&mut self) {
        let command = self.command(Scope::Keys(Vec::new().into()));
        let mut keys: Vec<(Key, u8)> = (0..12).map(|key| (Key::new(&key_bytes(key)), key)).collect();
        keys.sort();
        let mut expected = Vec::new();
        for (key, number) in keys {
            for (c, value) in self.model.partition(number) {
                expected.push((key.clone(), clustering(c), value));
            }
        }
        let found = self.node.run(read_ring(command)).expect("the read works");
        let found: Vec<_> =
            found.into_iter().map(|(key, c, body)| (key, c, value(&body).expect("a value"))).collect();
        let short = |rows: &[(Key, Vec<u8>, Vec<u8>)]| -> Vec<(u8, i32, usize)> {
            rows.iter().map(|(key, c, value)| (key.bytes[0], number(c), value.len())).collect()
        };
        assert_eq!(short(&found), short(&expected), "rows of the ring");
        assert_eq!(found, expected);
    }
}

fn run(plan: &Plan) {
    let mut builder = table().to_builder();
    if plan.purge {
        builder.options_mut().gc_grace_seconds = 0;
    }
    builder.options_mut().compaction = super::compaction::strategy(plan.seed);
    let table = builder.build().expect("a valid table");
    let mut prng = Prng::new(plan.seed);
    let node = Node::new(plan.seed, SimConfig::drawn(plan.seed), settings(plan.sync), &[&table]);
    let mut run =
        Run { node, table, model: Model::default(), prng: prng.fork(), clock: 1, purge: plan.purge };
    for round in 0..plan.rounds {
        let shards = 1 + prng.below(5) as u16;
        run.node.boot(shards).unwrap_or_else(|error| panic!("seed {} round {round}: {error}", plan.seed));
        run.check_ring();
        for _ in 0..plan.operations {
            run.operate();
        }
        run.check_ring();
        match prng.below(3) {
            0 if plan.crashes => run.node.world.power_cut(run.node.id),
            1 if plan.crashes => run.node.world.kill(run.node.id),
            _ => run.node.stop(),
        }
        run.node.world.run_for(Duration::from_millis(prng.below(50)));
    }
}

#[test]
fn reads_agree_with_a_map_over_orderly_restarts_with_other_shard_counts() {
    for seed in seeds(0, 6) {
        let sync = CommitlogSync::Periodic { period_ms: 1000 };
        run(&Plan { seed, sync, purge: false, crashes: false, rounds: 3, operations: 250 });
    }
}

#[test]
fn nothing_acknowledged_is_lost_over_power_cuts_in_batch_mode() {
    for seed in seeds(100_000, 8) {
        run(&Plan {
            seed,
            sync: CommitlogSync::Batch,
            purge: false,
            crashes: true,
            rounds: 4,
            operations: 120,
        });
    }
}

#[test]
fn purged_tombstones_bring_nothing_back() {
    for seed in seeds(200_000, 6) {
        let sync = CommitlogSync::Group { window_ms: 1 };
        run(&Plan { seed, sync, purge: true, crashes: true, rounds: 4, operations: 150 });
    }
}
