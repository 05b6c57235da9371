//! The cache against what it caches: whatever is read, flushed, compacted and evicted meanwhile, what it answers is what
//! sstables say. Sstables are one merged partition per key here; memtables are real.

use super::contents::Contents;
use super::entry::Rows;
use super::queue::Kind;
use super::*;
use crate::fixture;
use crate::limits::CACHE_BYTES_MIN;
use crate::memtable::Memtable;
use crate::merge::{Merged, Place, Wanted};
use base::Prng;
use mutation::{
    Bound, Budget, Cell as RowCell, Deletion, Emit, Liveness, Mutation, MutationBuilder, Partition, Purge,
    RangeTombstone, ReadCommand, Rewrite, Scope, Slice, emit_merged, rewrite_row,
};
use proptest::prelude::*;
use schema::BoundSide;
use std::rc::Rc;

const KEYS: u64 = 18;
const PLACES: u64 = 24;
const NOW_S: u32 = 1_000;

struct Read {
    key: usize,
    epoch: Epoch,
    partition: Partition,
    slices: Vec<Slice>,
    reversed: bool,
    complete_to: Option<Position>,
}

struct Run {
    table: Table,
    keys: Vec<Key>,
    cache: Cache,
    part: TableCache,
    disk: Vec<Partition>,
    memory: Rc<Memtable>,
    reads: Vec<Read>,
    clock: i64,
    answered: u64,
    /// Whether nothing is left to give back of a budget that was larger.
    settled: bool,
    /// Of these by partitions that are one block.
    by_singles: u64,
}

fn position(table: &Table, c: u64) -> Position {
    table.position(&fixture::clustering(c as i32)).expect("fits")
}

impl Run {
    fn new(budget: u64) -> Run {
        Run {
            table: fixture::table(),
            // Some have a token that is not their own.
            keys: (0..KEYS)
                .map(|key| match key % 5 {
                    0 => Key::with_token(base::Token(key as i64 / 6), &[key as u8, 7]),
                    _ => Key::new(&[key as u8, 7]),
                })
                .collect(),
            cache: Cache::new(budget, budget),
            part: TableCache::new(true),
            disk: vec![Partition::new(); KEYS as usize],
            memory: Rc::default(),
            reads: Vec::new(),
            clock: 1,
            answered: 0,
            settled: true,
            by_singles: 0,
        }
    }

    fn mutation(&mut self, prng: &mut Prng, key: usize) -> Mutation {
        self.clock += 1;
        let timestamp = self.clock - prng.below(6) as i64;
        let (number, key) = (key, &self.keys[key]);
        let mut builder = MutationBuilder::new(self.table.id, key.token, &key.bytes);
        let deletion = Deletion { timestamp, local_time: 5 };
        let (c, to) = (prng.below(PLACES) as i32, prng.below(PLACES) as i32);
        // Some partitions have one row all their life, but for what is rare.
        let (c, what) = match number % 3 {
            0 if prng.chance(0.97) => (7, 4 + prng.below(20)),
            _ => (c, prng.below(24)),
        };
        match what {
            0 => builder.deletion(deletion),
            1 | 2 => builder.range(&RangeTombstone {
                start: Bound::new(&fixture::clustering(c), BoundSide::Before),
                end: Bound::new(&fixture::clustering(to), BoundSide::After),
                deletion,
            }),
            3 => builder.static_row_with(|out| {
                let mut row = mutation::RowWriter::new(out, Liveness::NONE, Deletion::LIVE);
                row.simple(0, RowCell::live(timestamp, b"static"));
            }),
            4 | 5 => builder.write_row(&fixture::clustering(c), Liveness::NONE, deletion, |_| {}),
            6 => builder.write_row(&fixture::clustering(c), Liveness::NONE, Deletion::LIVE, |row| {
                row.simple(0, RowCell::expiring(timestamp, 9, NOW_S - 5 + prng.below(10) as u32, b"ttl"));
            }),
            _ => {
                let most = if prng.chance(0.5) { 9000 } else { 900 };
                let value = vec![timestamp as u8; 1 + prng.below(most) as usize];
                builder.write_row(&fixture::clustering(c), Liveness::at(timestamp), Deletion::LIVE, |row| {
                    row.simple(0, RowCell::live(timestamp, &value));
                });
            }
        }
        builder.finish()
    }

    fn slices(&self, prng: &mut Prng) -> Vec<Slice> {
        let at = |c: u64| position(&self.table, c);
        let (a, b) = (prng.below(PLACES), prng.below(PLACES));
        match prng.below(4) {
            0 => vec![Slice::all()],
            1 => vec![Slice { start: at(a), end: at(a).successor() }],
            2 => vec![Slice { start: at(a.min(b)), end: at(a.max(b) + 1) }],
            _ => vec![
                Slice { start: at(a.min(b)), end: at(a.min(b) + 2) },
                Slice { start: at(a.max(b) + 3), end: at(a.max(b) + 6) },
            ],
        }
    }

    /// What sstables would say now, in a piece of bounded size.
    fn begin_read(&mut self, prng: &mut Prng, key: usize) {
        let (slices, reversed) = (self.slices(prng), prng.chance(0.4));
        let from = &self.disk[key];
        let mut partition = Partition::new();
        partition.deletion = from.deletion;
        partition.static_row.clone_from(&from.static_row);
        for slice in &slices {
            for (_, _, range) in from.ranges.overlapping(&slice.start, &slice.end) {
                partition.ranges.add(&self.table, range).expect("fits");
            }
        }
        let most = 1 + prng.below(2 * PLACES) as usize;
        let (mut count, mut complete_to) = (0, None);
        'all: for index in 0..slices.len() {
            let slice = &slices[if reversed { slices.len() - 1 - index } else { index }];
            for row in PartitionView::rows_between(from, &slice.start, Some(&slice.end), reversed) {
                if count == most {
                    break 'all;
                }
                let body = row.body.whole(&mut Vec::new()).to_vec();
                partition.merge_row(&self.table, row.clustering, &body).expect("fits");
                count += 1;
                let at = Position::from_bytes(row.position);
                complete_to = Some(if reversed { at } else { at.successor() });
            }
        }
        let complete_to = complete_to.filter(|_| count == most);
        self.reads.push(Read { key, epoch: self.part.epoch(), partition, slices, reversed, complete_to });
    }

    fn end_read(&mut self, index: usize) {
        let read = self.reads.swap_remove(index);
        let found = Found {
            key: &self.keys[read.key],
            partition: &read.partition,
            slices: &read.slices,
            reversed: read.reversed,
            complete_to: read.complete_to.as_ref(),
        };
        self.cache.fill(&self.part, read.epoch, &found);
    }

    fn flush(&mut self, prng: &mut Prng) {
        let memory = self.memory.clone();
        let adopting = self.part.adopt(&memory);
        for key in 0..self.keys.len() {
            let at = self.keys[key].clone();
            let has = memory.contains(at.token, &at.bytes);
            if has && self.disk[key] == Partition::new() && !self.cache.knows(&self.part, at.token, &at.bytes)
            {
                // As one that was read while it was in memory.
                if prng.chance(0.5) {
                    self.cache.adopt(&self.part, &at);
                }
            }
            let mut from: Option<Position> = None;
            loop {
                let step = memory.with(at.token, &at.bytes, |partition| {
                    self.cache.absorb(&self.part, &self.table, &at, from.as_ref(), partition)
                });
                from = step.flatten();
                if from.is_none() {
                    break;
                }
            }
            if !self.reads.is_empty() && prng.chance(0.3) {
                // One that began at any time ends while the flush goes on.
                let index = prng.below(self.reads.len() as u64) as usize;
                let read = self.reads.swap_remove(index);
                let found = Found {
                    key: &self.keys[read.key],
                    partition: &read.partition,
                    slices: &read.slices,
                    reversed: read.reversed,
                    complete_to: read.complete_to.as_ref(),
                };
                self.cache.fill(&self.part, read.epoch, &found);
            }
        }
        self.part.flushed();
        drop(adopting);
        for (key, disk) in self.keys.iter().zip(&mut self.disk) {
            memory.with(key.token, &key.bytes, |partition| {
                let mut merged = Merged { partition: std::mem::take(disk), ..Merged::new() };
                let wanted = Wanted { slices: &[Slice::all()], reversed: false, bytes: usize::MAX };
                merged.add_memory(&self.table, partition, wanted).expect("fits");
                *disk = merged.partition;
            });
        }
        self.memory = Rc::default();
    }

    /// As a compaction of everything that may forget all tombstones.
    fn compact(&mut self) {
        self.part.compacted();
        for disk in &mut self.disk {
            let mut kept = Partition::new();
            let purge = Some(Purge { gc_before: u32::MAX, max_timestamp: i64::MAX });
            for (position, row) in disk.rows() {
                let shadow = disk.covering(position);
                let mut body = Vec::new();
                if rewrite_row(row.body(), &Rewrite { shadow, expire_at: Some(NOW_S), purge }, &mut body) {
                    kept.merge_row(&self.table, row.clustering(), &body).expect("fits");
                }
            }
            if let Some(row) = &disk.static_row {
                let mut body = Vec::new();
                if rewrite_row(
                    row,
                    &Rewrite { shadow: disk.deletion, expire_at: None, purge: None },
                    &mut body,
                ) {
                    kept.merge_static(&self.table, &body);
                }
            }
            *disk = kept;
        }
    }

    fn check(&mut self, prng: &mut Prng, key: usize) {
        let (slices, reversed) = (self.slices(prng), prng.chance(0.4));
        let key_bytes = &self.keys[key];
        let reading = self.cache.reading();
        let Some(view) = reading.get(&self.part, key_bytes) else { return };
        let complete_to = match view.coverage(&slices, reversed) {
            Coverage::Nothing => return,
            Coverage::All => None,
            Coverage::UpTo(position) => Some(position),
        };
        self.answered += 1;
        self.by_singles += u64::from(matches!(view, CachedView::Single(single) if single.row.is_some()));
        let command = ReadCommand {
            slices: slices.into(),
            reversed,
            ..ReadCommand::everything(self.table.id, Scope::Keys(vec![key_bytes.clone()].into()), NOW_S)
        };
        let what = Emit {
            table: self.table.id,
            key: key_bytes,
            command: &command,
            after: None,
            complete_to: complete_to.as_ref(),
        };
        let memory = self.memory.reading();
        let emitted = |first: Place<'_>| {
            let mut places = vec![first];
            places.extend(memory.get(key_bytes.token, &key_bytes.bytes).map(Place::Memory));
            let all =
                Budget { rows: u32::MAX, partition_rows: u32::MAX, bytes: usize::MAX, tombstones: u32::MAX };
            let emitted = emit_merged(&self.table, &places, &what, all);
            let rows: Vec<(Vec<u8>, Vec<u8>)> = emitted
                .mutation
                .iter()
                .flat_map(|m| {
                    m.view().rows().map(|(c, body)| (c.to_vec(), body.to_vec())).collect::<Vec<_>>()
                })
                .collect();
            let statics = emitted.mutation.as_ref().and_then(|m| m.view().static_row.map(<[u8]>::to_vec));
            (emitted.live_rows, emitted.cut_after, statics, rows)
        };
        let cached = emitted(Place::Cached(view));
        assert_eq!(cached, emitted(Place::Fetched(&self.disk[key])), "key {key}: {:?}", command.slices);
    }

    /// Memory is lent to the cache or taken back, all of it now and then, and not always to the end.
    fn resize(&mut self, prng: &mut Prng) {
        self.settled = false;
        self.cache.set_budget([0, CACHE_BYTES_MIN, 1 << 20, 8 << 20][prng.below(4) as usize]);
        for _ in 0..prng.below(40) {
            if !self.cache.shrink() {
                self.settled = true;
                break;
            }
        }
        let stats = self.cache.stats();
        assert!(!self.settled || stats.capacity > 0 || stats.partitions == 0, "{stats:?}");
    }

    fn operate(&mut self, op: u8, seed: u64) {
        let mut prng = Prng::new(seed);
        let key = prng.below(KEYS) as usize;
        match op {
            0..=3 => {
                let mutation = self.mutation(&mut prng, key);
                self.memory.apply(&self.table, &mutation.view()).expect("fits");
            }
            4 | 5 => self.begin_read(&mut prng, key),
            6 | 7 if !self.reads.is_empty() => {
                let index = prng.below(self.reads.len() as u64) as usize;
                self.end_read(index);
            }
            8 => {
                self.begin_read(&mut prng, key);
                self.end_read(self.reads.len() - 1);
            }
            9 if prng.chance(0.4) => self.flush(&mut prng),
            10 if prng.chance(0.15) => self.compact(),
            11 if prng.chance(0.05) => {
                self.part.forget();
                self.disk.iter_mut().for_each(|disk| *disk = Partition::new());
            }
            12 if prng.chance(0.2) => self.resize(&mut prng),
            _ => (0..KEYS as usize).for_each(|key| self.check(&mut prng, key)),
        }
        let contents = self.cache.contents.borrow();
        let stats = contents.stats();
        self.settled |= stats.bytes <= stats.capacity;
        // One that is off keeps its lists.
        assert!(!self.settled || stats.capacity == 0 || stats.bytes <= stats.capacity, "{stats:?}");
        contents.check();
    }
}

impl Contents {
    /// What must hold between any two steps.
    fn check(&self) {
        let mut outside = 0;
        for at in self.partitions.iter() {
            outside += at.outside_bytes();
            let units: Vec<u32> = match &at.rows {
                Rows::None => Vec::new(),
                Rows::One { unit, .. } => vec![*unit],
                Rows::Many(rows) => {
                    assert_eq!(rows.outside_bytes(), rows.counted_bytes());
                    rows.values().copied().collect()
                }
            };
            for unit in units.into_iter().filter(|_| !at.is_dead) {
                assert!(at.known.contains(self.position_of(unit)), "rows lie at known places");
            }
        }
        assert_eq!(outside, self.outside_bytes);
        assert_eq!(self.tables.iter().map(TokenDirectory::bytes).sum::<usize>(), self.index_bytes);
        assert_eq!(self.tables.iter().map(TokenDirectory::len).sum::<usize>(), self.partition_count);
        let singles = self.units.all().filter(|(_, unit)| unit.kind == Kind::Single);
        let with_row = singles.filter(|(at, unit)| {
            let single = self.single(*at);
            assert!(self.find_any(unit.partition, single.token(), single.key).is_some(), "it is found");
            single.row.is_some()
        });
        assert_eq!(with_row.count(), self.single_rows);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// Everything that the cache answers is what a cold read says.
    #[test]
    fn it_answers_what_sstables_say(
        operations in proptest::collection::vec((0u8..14, any::<u64>()), 1..200),
        small in any::<bool>(),
    ) {
        let mut run = Run::new(if small { CACHE_BYTES_MIN as u64 } else { 8 << 20 });
        operations.into_iter().for_each(|(op, seed)| run.operate(op, seed));
    }
}

/// The same over a long time, in which rows must be evicted, and with answers that must come from the cache.
#[test]
fn a_long_run_answers_from_the_cache_and_stays_within_its_budget() {
    let mut prng = Prng::new(42);
    let mut run = Run::new(CACHE_BYTES_MIN as u64);
    for _ in 0..12_000 {
        let op = prng.below(12) as u8;
        run.operate(op, prng.u64());
    }
    let stats = run.cache.stats();
    assert!(stats.evictions > 50, "{stats:?}");
    assert!(run.answered > 1_000, "{} answers", run.answered);
    assert!(run.by_singles > 300, "{} of {} by singles", run.by_singles, run.answered);
}

/// A row of 8 bytes of key and 100 of value, alone in its partition, and a partition that is known not to be there.
#[test]
fn a_small_partition_takes_little_more_than_its_bytes() {
    let table = fixture::table();
    for (rows, most) in [(1, 220), (0, 100)] {
        let cache = Cache::new(512 << 20, 512 << 20);
        let part = TableCache::new(true);
        let count = 200_000u64;
        for number in 0..count {
            let key = Key::new(&number.to_be_bytes());
            let mut partition = Partition::new();
            if rows == 1 {
                let mutation = fixture::insert(&table, &key.bytes, 5, 5, &[7; 100]);
                partition.apply(&table, &mutation.view()).expect("fits");
            }
            let slices = [Slice::all()];
            let (key, partition, slices) = (&key, &partition, &slices);
            cache.fill(
                &part,
                part.epoch(),
                &Found { key, partition, slices, reversed: false, complete_to: None },
            );
        }
        let stats = cache.stats();
        assert_eq!((stats.partitions, stats.rows), (count, rows * count));
        // The list of those that went is in proportion to the budget.
        let bytes = stats.bytes - (512 << 20) / 512 * 4;
        assert!(bytes / count <= most, "{} bytes each", bytes / count);
    }
}

/// Partitions that are much larger than the cache, and many of them: bounded memory, bounded steps.
#[test]
fn millions_of_bytes_pass_through_a_small_cache() {
    let table = fixture::table();
    let cache = Cache::new(1 << 20, 1 << 20);
    let part = TableCache::new(true);
    let value = [7u8; 300];
    for number in 0..400u32 {
        let key = Key::new(&number.to_be_bytes());
        let mut partition = Partition::new();
        for c in 0..(number as i32 % 90) {
            let mutation = fixture::insert(&table, &key.bytes, c, 5, &value[..(c as usize * 7) % 300]);
            partition.apply(&table, &mutation.view()).expect("fits");
        }
        let slices = [Slice::all()];
        let found =
            Found { key: &key, partition: &partition, slices: &slices, reversed: false, complete_to: None };
        cache.fill(&part, part.epoch(), &found);
        let stats = cache.stats();
        assert!(stats.bytes <= stats.capacity, "{number}: {stats:?}");
        cache.contents.borrow().check();
    }
    let stats = cache.stats();
    assert!(stats.rows > 500 && stats.evictions > 5_000, "{stats:?}");
    let key = Key::new(&5u32.to_be_bytes());
    part.forget();
    assert!(cache.reading().get(&part, &key).is_none(), "what is forgotten is not answered");
}

/// Memory that is taken back to the last byte is given back, whatever the queue has in front.
#[test]
fn what_is_taken_back_goes_to_the_last_partition() {
    for rows in [1, 40, 1_000] {
        let table = fixture::table();
        let cache = Cache::new(8 << 20, 8 << 20);
        let part = TableCache::new(true);
        for number in 0..20u32 {
            let key = Key::new(&number.to_be_bytes());
            let mut partition = Partition::new();
            for c in 0..rows {
                let mutation = fixture::insert(&table, &key.bytes, c, 5, &[7; 20]);
                partition.apply(&table, &mutation.view()).expect("fits");
            }
            let (key, partition, slices) = (&key, &partition, &[Slice::all()]);
            let found = Found { key, partition, slices, reversed: false, complete_to: None };
            cache.fill(&part, part.epoch(), &found);
            // Heads move to the main queue, rows do not.
            cache.reading().get(&part, key);
        }
        assert!(cache.stats().rows >= 20, "{:?}", cache.stats());
        cache.set_budget(0);
        let steps = (0..10_000).take_while(|_| cache.shrink()).count();
        assert!(steps < 10_000, "it comes to an end");
        assert_eq!((cache.stats().partitions, cache.stats().rows), (0, 0), "{:?}", cache.stats());
    }
}
