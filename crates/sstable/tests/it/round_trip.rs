//! What was written is read back: whole, by slices, forward and reversed, in pieces, by key and by token range.

use base::{Prng, Token};
use mutation::{
    Bound, ColumnView, Deletion, Item, Key, Mutation, RangeTombstone, RangeTombstones, RowView, Slice,
    TokenRange,
};
use proptest::prelude::*;
use schema::{BoundSide, Position, Table};
use sstable::{Cache, Reader, SourceSlice, Version};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use crate::property;
use crate::samples::{self, Amount, SampleItem, SamplePartition};
use crate::{first, on_shard, table};

/// What nodes write.
const WRITTEN: [Version; 2] = [Version::Nb, Version::Da];

/// The model: what a read of slices must say.
struct Expected {
    rows: Vec<(Position, Vec<u8>, Vec<u8>)>,
    tombstones: RangeTombstones,
}

fn inside(slices: &[Slice], position: &Position) -> bool {
    slices.iter().any(|slice| slice.start <= *position && *position < slice.end)
}

fn expected(table: &Table, partition: &SamplePartition) -> Expected {
    let mut expected = Expected { rows: Vec::new(), tombstones: RangeTombstones::default() };
    for item in &partition.items {
        match item {
            SampleItem::Row { wire, body, position } => {
                expected.rows.push((position.clone(), wire.clone(), body.clone()));
            }
            SampleItem::Tombstone { tombstone, .. } => {
                expected.tombstones.add(table, tombstone.clone()).unwrap()
            }
        }
    }
    expected
}

/// Places worth asking about: every row and bound, and just behind them.
fn places(partition: &SamplePartition) -> Vec<Position> {
    let mut places = vec![Position::bottom()];
    for item in &partition.items {
        match item {
            SampleItem::Row { position, .. } => places.push(position.clone()),
            SampleItem::Tombstone { start, end, .. } => places.extend([start.clone(), end.clone()]),
        }
    }
    places.extend(places.clone().iter().map(Position::successor));
    places.sort();
    places.dedup();
    places
}

/// What was read of one partition, gathered over several pieces.
#[derive(Default)]
struct Got {
    rows: Vec<(Position, Vec<u8>, Vec<u8>)>,
    tombstones: RangeTombstones,
}

impl Got {
    fn add(&mut self, table: &Table, mutation: &Mutation) {
        let mut before: Option<Position> = None;
        for item in mutation.view().items() {
            let position = match item {
                Item::Row { clustering, body } => {
                    let position = table.position(clustering).unwrap();
                    self.rows.push((position.clone(), clustering.to_vec(), body.to_vec()));
                    position
                }
                Item::Range { start, end, deletion } => {
                    let start = start.to_bound();
                    let position = start.position(table).unwrap();
                    self.tombstones
                        .add(table, RangeTombstone { start, end: end.to_bound(), deletion })
                        .unwrap();
                    position
                }
            };
            assert!(before.as_ref().is_none_or(|before| *before <= position), "items are in order");
            before = Some(position);
        }
    }

    fn check(mut self, partition: &SamplePartition, expected: &Expected, slices: &[Slice]) {
        self.rows.sort();
        let wanted: Vec<_> = expected.rows.iter().filter(|row| inside(slices, &row.0)).cloned().collect();
        assert_eq!(self.rows.len(), wanted.len(), "rows of {slices:?}");
        for (got, wanted) in self.rows.iter().zip(&wanted) {
            assert_eq!((&got.0, &got.1), (&wanted.0, &wanted.1));
            assert_eq!(describe(&got.2), describe(&wanted.2));
            assert!(got.2 == wanted.2, "the packed form is the same");
        }
        for place in places(partition) {
            let truth = expected.tombstones.covering(&place);
            let got = self.tombstones.covering(&place);
            if inside(slices, &place) {
                assert_eq!(got, truth, "covering {place:?} in {slices:?}");
            } else {
                assert!(got.is_live() || got == truth, "a tombstone longer than the truth at {place:?}");
            }
        }
    }
}

/// A packed row in words.
fn describe(body: &[u8]) -> String {
    let row = RowView::new(body);
    let mut out = format!("{:?} {:?}", row.liveness(), row.deletion());
    for (ordinal, column) in row.columns() {
        out.push_str(&match column {
            ColumnView::Simple(cell) => format!(" {ordinal}: {cell:?}"),
            ColumnView::Complex(complex) => {
                let cells: Vec<_> = complex.cells().collect();
                format!(" {ordinal}: {:?} {cells:?}", complex.deletion)
            }
        });
    }
    out
}

fn check_head(partition: &SamplePartition, mutation: &Mutation) {
    let view = mutation.view();
    assert_eq!(view.key, &partition.key[..]);
    assert_eq!(view.token, partition.token);
    assert_eq!(view.deletion, partition.deletion);
    assert_eq!(view.static_row, partition.static_row.as_deref());
}

/// Whether the last row or tombstone ends at a position.
fn ends_at(table: &Table, mutation: &Mutation, position: &Position) -> bool {
    mutation.view().items().any(|item| {
        let end = match item {
            Item::Row { clustering, .. } => Bound::new(clustering, BoundSide::After),
            Item::Range { end, .. } => end.to_bound(),
        };
        end.position(table).unwrap() == *position
    })
}

/// What is left of slices from a position on, or before it.
fn crop(slices: &[Slice], position: &Position, reversed: bool) -> Vec<Slice> {
    let cropped = slices.iter().map(|slice| {
        let (mut start, mut end) = (slice.start.clone(), slice.end.clone());
        if reversed {
            end = end.min(position.clone());
        } else {
            start = start.max(position.clone());
        }
        Slice { start, end }
    });
    cropped.filter(|slice| slice.start < slice.end).collect()
}

async fn check_read(
    reader: &Reader,
    partition: &SamplePartition,
    slices: &[Slice],
    reversed: bool,
    budget: usize,
) {
    let expected = expected(reader.table(), partition);
    let mut got = Got::default();
    let mut left = slices.to_vec();
    for _ in 0..100_000 {
        let read =
            reader.read_partition(&partition.key, partition.token, &left, reversed, budget).await.unwrap();
        let SourceSlice { mutation, complete_to } = read.expect("the partition is there");
        check_head(partition, &mutation);
        got.add(reader.table(), &mutation);
        let Some(position) = complete_to else { return got.check(partition, &expected, slices) };
        assert!(
            reversed || ends_at(reader.table(), &mutation, &position),
            "a piece ends where one of its items does"
        );
        let rest = crop(&left, &position, reversed);
        assert!(rest != left, "every piece makes progress");
        left = rest;
        if left.is_empty() {
            return got.check(partition, &expected, slices);
        }
    }
    panic!("a read that does not end");
}

fn random_slices(partition: &SamplePartition, rng: &mut Prng) -> Vec<Slice> {
    let places = places(partition);
    let mut ends: Vec<Position> =
        (0..2 + 2 * rng.below(3)).map(|_| places[rng.below(places.len() as u64) as usize].clone()).collect();
    ends.sort();
    let slices = ends.chunks_exact(2).map(|pair| Slice { start: pair[0].clone(), end: pair[1].clone() });
    slices.filter(|slice| slice.start < slice.end).collect()
}

async fn check_scan(reader: &Rc<Reader>, partitions: &[SamplePartition], range: TokenRange, budget: usize) {
    let slices = [Slice::all()];
    let mut scanner = reader.scan(range);
    let wanted: Vec<&SamplePartition> =
        partitions.iter().filter(|partition| range.contains(partition.token)).collect();
    let mut next = wanted.into_iter();
    let mut open: Option<(&SamplePartition, Got)> = None;
    while let Some(scanned) = scanner.next(&slices, budget).await.unwrap() {
        if scanned.continuation {
            assert!(scanned.slice.mutation.view().deletion == Deletion::LIVE);
        } else {
            assert!(open.is_none(), "the partition before was complete");
            let partition = next.next().expect("no partition more than there are");
            check_head(partition, &scanned.slice.mutation);
            open = Some((partition, Got::default()));
        }
        let (_, got) = open.as_mut().expect("a continuation continues");
        got.add(reader.table(), &scanned.slice.mutation);
        if scanned.slice.complete_to.is_none() {
            let (partition, got) = open.take().expect("it is open");
            got.check(partition, &expected(reader.table(), partition), &slices);
        }
    }
    assert!(next.next().is_none() && open.is_none(), "all partitions were seen");
}

/// A scan that wants little: slices of partitions behind a key, and of some only the first piece.
async fn check_sparse_scan(reader: &Rc<Reader>, partitions: &[SamplePartition], rng: &mut Prng) {
    let some = |rng: &mut Prng| &partitions[rng.below(partitions.len() as u64) as usize];
    let slices = if rng.chance(0.3) { vec![Slice::all()] } else { random_slices(some(rng), rng) };
    let behind = match rng.below(3) {
        0 => None,
        1 => Some(Key::new(&some(rng).key)),
        _ => Some(Key::new(format!("absent {}", rng.below(20)).as_bytes())),
    };
    let budget = if rng.chance(0.5) { 2_000 } else { usize::MAX };
    let is_behind = |partition: &&SamplePartition| {
        behind.as_ref().is_none_or(|key| (key.token, &key.bytes[..]) < (partition.token, &partition.key[..]))
    };
    let mut next = partitions.iter().filter(is_behind);
    let mut scanner = reader.scan_sparsely(TokenRange::ALL, behind.clone());
    let says = |partition: &SamplePartition| {
        let expected = expected(reader.table(), partition);
        let rows = expected.rows.iter().any(|row| inside(&slices, &row.0));
        rows || !partition.deletion.is_live() || partition.static_row.is_some()
    };
    let mut open: Option<(&SamplePartition, Got)> = None;
    while let Some(scanned) = scanner.next(&slices, budget).await.unwrap() {
        if !scanned.continuation {
            assert!(open.is_none(), "the partition before was complete, or left");
            let key = scanned.slice.mutation.view().key;
            let partition = loop {
                let partition = next.next().expect("no partition more than there are");
                if partition.key == key {
                    break partition;
                }
                let missing =
                    (partition.token, partition.deletion, &partition.static_row, partition.items.len());
                assert!(
                    !says(partition),
                    "{missing:?} is missing between {behind:?} and {key:?}: {slices:?}, {budget}"
                );
            };
            open = Some((partition, Got::default()));
        }
        let (_, got) = open.as_mut().expect("a continuation continues");
        got.add(reader.table(), &scanned.slice.mutation);
        if scanned.slice.complete_to.is_none() {
            let (partition, got) = open.take().expect("it is open");
            got.check(partition, &expected(reader.table(), partition), &slices);
        } else if rng.chance(0.5) {
            scanner.skip_partition().await.unwrap();
            open = None;
        }
    }
    assert!(open.is_none() && !next.any(says), "all partitions were seen");
}

/// What the statistics say is true, and no wider than it must be.
async fn check_ranges(reader: &Reader, partitions: &[SamplePartition]) {
    let version = reader.descriptor().version;
    let stats = reader.statistics().await.unwrap().stats;
    let deleted = partitions.iter().any(|partition| !partition.deletion.is_live());
    assert_eq!(stats.has_partition_deletions, deleted || version < Version::Oa);
    let places = partitions.iter().flat_map(|partition| &partition.items).flat_map(|item| match item {
        SampleItem::Row { position, .. } => [position.clone(), position.clone()],
        SampleItem::Tombstone { start, end, .. } => [start.clone(), end.clone()],
    });
    let (least, largest) = (places.clone().min(), places.max());
    let (start, end) = reader.clustering_range().expect("they fit the table");
    let exact = version >= Version::Oa;
    match least.zip(largest) {
        Some((least, largest)) => {
            assert!(*start <= least && largest <= *end, "{start:?} {least:?} {largest:?} {end:?}")
        }
        None if exact => assert!(start > end),
        None => {}
    }
    if exact {
        let first = partitions.first().map(|partition| partition.key.clone());
        assert_eq!(stats.keys.map(|keys| keys.0), first);
    }
}

async fn check_table(dir: &Path, version: Version, table: &Arc<Table>, seed: u64, amount: Amount) {
    let partitions = samples::partitions(table, seed, amount);
    check_partitions(dir, version, table, seed, &partitions).await;
}

async fn check_partitions(
    dir: &Path,
    version: Version,
    table: &Arc<Table>,
    seed: u64,
    partitions: &[SamplePartition],
) {
    if partitions.is_empty() {
        return;
    }
    let written = samples::write(dir, version, 1, table, partitions).await.unwrap();
    let reader = Reader::open(dir, first(version), table.clone()).await.unwrap();
    let known = reader.meta();
    assert_eq!(known.partitions, partitions.len() as u64);
    assert_eq!((&known.first_key, known.max_timestamp), (&written.first_key, written.max_timestamp));
    assert_eq!(
        (known.min_local_time, known.max_local_time),
        (written.min_local_time, written.max_local_time)
    );
    assert_eq!(
        (known.rows, known.data_bytes, known.disk_bytes),
        (written.rows, written.data_bytes, written.disk_bytes)
    );

    let mut rng = Prng::new(seed ^ 77);
    let all = [Slice::all()];
    let stride = partitions.len() / 20 + 1;
    for partition in partitions.iter().step_by(stride) {
        for reversed in [false, true] {
            check_read(&reader, partition, &all, reversed, usize::MAX).await;
            check_read(&reader, partition, &all, reversed, 1 + rng.below(5000) as usize).await;
            for _ in 0..4 {
                let slices = random_slices(partition, &mut rng);
                check_read(&reader, partition, &slices, reversed, usize::MAX).await;
                check_read(&reader, partition, &slices, reversed, 1 + rng.below(20_000) as usize).await;
            }
        }
    }
    for absent in 0..20u32 {
        let key = format!("absent {absent}").into_bytes();
        let read = reader.read_partition(&key, Token::of_key(&key), &all, false, usize::MAX).await.unwrap();
        assert!(read.is_none());
    }
    let tokens: Vec<Token> = partitions.iter().map(|partition| partition.token).collect();
    for _ in 0..20 {
        let near = tokens[rng.below(tokens.len() as u64) as usize].0.wrapping_add(rng.below(3) as i64 - 1);
        for from in [Token(near), Token(rng.u64() as i64)] {
            let next = tokens.get(tokens.partition_point(|token| *token < from)).copied();
            assert_eq!(reader.next_readable(from).await.unwrap().token, next);
        }
    }
    check_ranges(&reader, partitions).await;
    check_scan(&reader, partitions, TokenRange::ALL, usize::MAX).await;
    check_scan(&reader, partitions, TokenRange::ALL, 3000).await;
    for _ in 0..3 {
        let (a, b) = (Token(rng.u64() as i64), Token(rng.u64() as i64));
        check_scan(&reader, partitions, TokenRange::new(a.min(b), a.max(b)), 10_000).await;
    }
    for _ in 0..8 {
        check_sparse_scan(&reader, partitions, &mut rng).await;
    }
    let middle = partitions[partitions.len() / 2].token;
    check_scan(&reader, partitions, TokenRange::new(middle, middle), usize::MAX).await;
    reader.remove_files().await.unwrap();
    assert!(runtime::file::read_dir(dir).await.unwrap().is_empty());
}

fn check_named(name: &'static str, seed: u64, amount: Amount) {
    on_shard(move |dir| {
        Box::pin(async move {
            for version in WRITTEN {
                check_table(&dir, version, &table(name), seed, amount).await;
            }
        })
    });
}

#[test]
fn every_table_with_small_partitions() {
    for table in samples::tables() {
        on_shard(move |dir| {
            let table = table.clone();
            Box::pin(async move {
                let amount = Amount { partitions: 300, rows: 8, value_bytes: 30 };
                for version in WRITTEN {
                    check_table(&dir, version, &table, 1, amount).await;
                }
            })
        });
    }
}

#[test]
fn every_version_is_read_back() {
    for name in ["reversed", "collections", "plain", "keys"] {
        on_shard(move |dir| {
            Box::pin(async move {
                for version in Version::ALL {
                    let small = Amount { partitions: 60, rows: 20, value_bytes: 30 };
                    check_table(&dir, version, &table(name), 3, small).await;
                    let wide = Amount { partitions: 2, rows: 200, value_bytes: 2000 };
                    check_table(&dir, version, &table(name), 4, wide).await;
                }
            })
        });
    }
}

#[test]
fn many_keys_make_tries_of_many_pages() {
    check_named("kv", 8, Amount { partitions: 30_000, rows: 1, value_bytes: 4 });
}

#[test]
fn wide_partitions_with_row_index() {
    let amount = Amount { partitions: 2, rows: 250, value_bytes: 4000 };
    for (seed, name) in
        ["reversed", "collections", "plain", "snappy", "seventy", "composite"].into_iter().enumerate()
    {
        let rows = if matches!(name, "reversed" | "composite") { 2500 } else { amount.rows };
        check_named(name, seed as u64, Amount { rows, ..amount });
    }
}

/// Of partitions of a megabyte a request wants the first row, or one from the middle: it does not read them whole.
#[test]
fn a_scan_passes_over_what_is_not_asked_for() {
    on_shard(move |dir| {
        Box::pin(async move {
            let table = table("plain");
            let amount = Amount { partitions: 8, rows: 30_000, value_bytes: 1000 };
            let partitions = samples::partitions(&table, 11, amount);
            for version in WRITTEN {
                samples::write(&dir, version, 1, &table, &partitions).await.unwrap();
                let reader = Reader::open(&dir, first(version), table.clone()).await.unwrap();
                let cache = Cache::of_shard();
                cache.set_budget(0);
                let size = reader.meta().data_bytes;
                let before = cache.stats().read_bytes;
                let mut scanner = reader.scan_sparsely(TokenRange::ALL, None);
                let mut seen = 0;
                while scanner.next(&[Slice::all()], 1).await.unwrap().is_some() {
                    scanner.skip_partition().await.unwrap();
                    seen += 1;
                }
                let heads = cache.stats().read_bytes - before;
                assert_eq!(seen, partitions.len());
                assert!(heads < size / 3, "{version:?}: {heads} of {size} bytes");
                // One row in the middle of each.
                let before = cache.stats().read_bytes;
                let mut rows = 0;
                for partition in &partitions {
                    let places = places(partition);
                    let start = places[places.len() / 2].clone();
                    let slices = [Slice { end: start.successor(), start }];
                    let range = TokenRange::new(partition.token, partition.token);
                    let mut scanner = reader.scan_sparsely(range, None);
                    while let Some(scanned) = scanner.next(&slices, usize::MAX).await.unwrap() {
                        rows += scanned.slice.mutation.view().rows().count();
                    }
                }
                let middles = cache.stats().read_bytes - before;
                assert!(rows > partitions.len() / 4, "{rows} rows");
                assert!(middles < size / 2, "{version:?}: {middles} of {size} bytes");
                reader.remove_files().await.unwrap();
            }
        })
    });
}

#[test]
fn row_indexes_larger_than_what_is_read_at_once() {
    for name in ["snappy", "plain"] {
        on_shard(move |dir| {
            Box::pin(async move {
                let table = table(name);
                let amount = Amount { partitions: 3, rows: 300, value_bytes: 100 };
                let partitions = samples::partitions(&table, 7, amount).into_iter();
                // Two clusterings to an entry, an entry to five rows: entries of half a megabyte.
                let partitions: Vec<_> =
                    partitions.map(|one| samples::with_long_clusterings(&table, one, 12_000)).collect();
                for version in WRITTEN {
                    check_partitions(&dir, version, &table, 7, &partitions).await;
                }
            })
        });
    }
}

#[test]
fn rows_larger_than_a_chunk_and_a_block() {
    check_named("wide", 5, Amount { partitions: 2, rows: 12, value_bytes: 300_000 });
    check_named("deflated", 5, Amount { partitions: 40, rows: 3, value_bytes: 50_000 });
}

proptest! {
    #![proptest_config(property::cases(16))]

    #[test]
    fn random_partitions_of_random_tables((seed, index, amount) in property::any_amount()) {
        on_shard(move |dir| {
            Box::pin(async move {
                let table = &samples::tables()[index];
                for version in WRITTEN {
                    check_table(&dir, version, table, seed, amount).await;
                }
            })
        });
    }
}
