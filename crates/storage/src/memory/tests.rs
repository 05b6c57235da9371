//! Partitions in memory say what [`mutation::Partition`] says, byte by byte, whatever was written in whatever order.

use super::{Contents, MemoryPool};
use base::Token;
use base::counting::{CountingAllocator, allocated_bytes, allocations};
use mutation::{
    Body, Bound, Cell, Deletion, Liveness, Mutation, MutationBuilder, Partition, PartitionView,
    RangeTombstone, RowWriter, TokenRange, row_timestamps,
};
use proptest::prelude::*;
use schema::{BoundSide, Order, Table, TableBuilder, TableId, push_component};
use std::collections::BTreeMap;
use types::CqlType;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Ordinals: s0 static, t1 a static map; v0 and w1 simple, m2 a map, c3 simple, l4 a list.
fn table() -> Table {
    TableBuilder::new("ks", "t", TableId(7))
        .partition_key("k", CqlType::Blob)
        .clustering("a", CqlType::Decimal, Order::Ascending)
        .static_column("s", CqlType::Blob)
        .static_column("t", CqlType::map(CqlType::Int, CqlType::Blob))
        .regular("v", CqlType::Blob)
        .regular("w", CqlType::Int)
        .regular("m", CqlType::map(CqlType::Int, CqlType::Blob))
        .regular("c", CqlType::Bigint)
        .regular("l", CqlType::map(CqlType::Text, CqlType::Blob))
        .build()
        .expect("a sound table")
}

/// One cell as a test says it: `kind` chooses between live, expiring and deleted.
#[derive(Clone, Debug)]
struct Wish {
    kind: u8,
    timestamp: i64,
    bytes: usize,
}

impl Wish {
    fn cell<'v>(&self, value: &'v [u8]) -> Cell<'v> {
        match self.kind {
            0 => Cell::tombstone(self.timestamp, 10),
            1 => Cell::expiring(self.timestamp, 5, 50, &value[..self.bytes]),
            _ => Cell::live(self.timestamp, &value[..self.bytes]),
        }
    }
}

#[derive(Clone, Debug)]
struct RowWish {
    liveness: Option<i64>,
    deletion: Option<i64>,
    simple: Vec<(u16, Wish)>,
    cover: Option<i64>,
    elements: Vec<(i32, Wish)>,
}

#[derive(Clone, Debug)]
enum Part {
    Deletion(i64),
    Static(RowWish),
    Row(i32, RowWish),
    Range(i32, i32, i64),
}

#[derive(Clone, Debug)]
struct Step {
    key: u8,
    parts: Vec<Part>,
}

static VALUE: [u8; 40_000] = [7; 40_000];

fn deletion(timestamp: i64) -> Deletion {
    Deletion { timestamp, local_time: 10 }
}

/// A number in wire form: every fourth with a zero more than it needs.
fn clustering(a: i32) -> Vec<u8> {
    let (scale, unscaled) = if a % 4 == 3 { (1i32, a / 4 * 10) } else { (0, a / 4) };
    let mut wire = Vec::new();
    push_component(&mut wire, Some(&[scale.to_be_bytes(), unscaled.to_be_bytes()].concat()));
    wire
}

fn write_row(out: &mut Vec<u8>, wish: &RowWish, is_static: bool) {
    let liveness = wish.liveness.filter(|_| !is_static).map_or(Liveness::NONE, Liveness::at);
    let removed = wish.deletion.filter(|_| !is_static).map_or(Deletion::LIVE, deletion);
    let mut writer = RowWriter::new(out, liveness, removed);
    let collections: &[u16] = if is_static { &[1] } else { &[2, 4] };
    let mut simple: BTreeMap<u16, &Wish> = BTreeMap::new();
    for (ordinal, cell) in &wish.simple {
        simple.insert(if is_static { 0 } else { *ordinal }, cell);
    }
    let elements: BTreeMap<i32, &Wish> = wish.elements.iter().map(|(path, cell)| (*path, cell)).collect();
    for ordinal in 0..5 {
        if let Some(cell) = simple.get(&ordinal) {
            writer.simple(ordinal, cell.cell(&VALUE));
        }
        if collections.contains(&ordinal) {
            writer.complex_start(ordinal, wish.cover.map_or(Deletion::LIVE, deletion));
            for (path, cell) in &elements {
                // The second collection is ordered as text.
                let text = format!("{path:08}");
                let path = path.to_be_bytes();
                let path = if ordinal == 4 { text.as_bytes() } else { &path };
                let hidden = wish.cover.is_some_and(|cover| cell.timestamp <= cover);
                if !hidden {
                    writer.complex_cell(path, cell.cell(&VALUE));
                }
            }
            writer.complex_end();
        }
    }
}

impl Step {
    fn key_bytes(&self) -> (Token, Vec<u8>) {
        // Two keys of one token, and others.
        let token = if self.key < 2 { Token(5) } else { Token(i64::from(self.key) << 58) };
        (token, vec![self.key; 1 + usize::from(self.key) * 100])
    }

    fn mutation(&self, table: &Table) -> Mutation {
        let (token, key) = self.key_bytes();
        let mut builder = MutationBuilder::new(table.id, token, &key);
        if let Some(timestamp) = self.parts.iter().find_map(|part| match part {
            Part::Deletion(timestamp) => Some(*timestamp),
            _ => None,
        }) {
            builder.deletion(deletion(timestamp));
        }
        if let Some(wish) = self.parts.iter().find_map(|part| match part {
            Part::Static(wish) => Some(wish),
            _ => None,
        }) {
            builder.static_row_with(|out| write_row(out, wish, true));
        }
        for part in &self.parts {
            match part {
                Part::Deletion(_) | Part::Static(_) => {}
                Part::Row(a, wish) => builder.row_with(&clustering(*a), |out| write_row(out, wish, false)),
                Part::Range(from, to, timestamp) => builder.range(&RangeTombstone {
                    start: Bound::new(&clustering(*from), BoundSide::Before),
                    end: Bound::new(&clustering(*to), BoundSide::After),
                    deletion: deletion(*timestamp),
                }),
            }
        }
        builder.finish()
    }
}

fn wish_of(bytes: impl Strategy<Value = usize>) -> impl Strategy<Value = Wish> {
    (0..5u8, 1000..1006i64, bytes).prop_map(|(kind, timestamp, bytes)| Wish { kind, timestamp, bytes })
}

fn wish() -> impl Strategy<Value = Wish> {
    wish_of(prop_oneof![60 => 0..60usize, 30 => 60..600usize, 8 => 3_000..9_000usize, 1 => Just(40_000)])
}

fn row_wish() -> impl Strategy<Value = RowWish> {
    let simple = prop::collection::vec((prop_oneof![Just(0u16), Just(1), Just(3)], wish()), 0..4);
    let few = prop::collection::vec((0..300i32, wish()), 0..4);
    let many = prop::collection::vec((0..300i32, wish_of(0..80usize)), 40..150);
    let elements = prop_oneof![5 => few, 1 => many];
    let rarely = || prop::option::weighted(0.2, 1000..1006i64);
    (prop::option::of(1000..1006i64), rarely(), simple, rarely(), elements).prop_map(
        |(liveness, deletion, simple, cover, elements)| RowWish {
            liveness,
            deletion,
            simple,
            cover,
            elements,
        },
    )
}

fn step(positions: i32) -> impl Strategy<Value = Step> {
    let part = prop_oneof![
        1 => (1000..1006i64).prop_map(Part::Deletion),
        2 => row_wish().prop_map(Part::Static),
        20 => (0..positions, row_wish()).prop_map(|(a, wish)| Part::Row(a, wish)),
        2 => (0..positions, 0..positions, 1000..1006i64).prop_map(|(a, b, at)| Part::Range(a, b, at)),
    ];
    let parts = prop_oneof![
        4 => prop::collection::vec(part.clone(), 1..2),
        1 => prop::collection::vec(part, 0..4),
    ];
    (0..4u8, parts).prop_map(|(key, parts)| Step { key, parts })
}

type Row = (Vec<u8>, Vec<u8>, Vec<u8>);

fn whole(body: Body<'_>) -> Vec<u8> {
    let mut scratch = Vec::new();
    body.whole(&mut scratch).to_vec()
}

fn rows(view: &impl PartitionView, start: &[u8], end: Option<&[u8]>, reversed: bool) -> Vec<Row> {
    view.rows_between(start, end, reversed)
        .map(|row| (row.position.to_vec(), row.clustering.to_vec(), whole(row.body)))
        .collect()
}

/// Everything a reader can ask gives the same of both.
fn same(packed: &impl PartitionView, model: &Partition) {
    assert_eq!(packed.deletion(), model.deletion);
    assert_eq!(packed.static_row().map(whole), PartitionView::static_row(model).map(whole));
    assert_eq!(packed.ranges(), PartitionView::ranges(model));
    let all = rows(model, &[], None, false);
    assert_eq!(rows(packed, &[], None, false), all);
    let places: Vec<&[u8]> = all.iter().map(|row| row.0.as_slice()).collect();
    let step = places.len() / 12 + 1;
    for start in places.iter().step_by(step).chain(&[&[0x20][..], &[0x60]]) {
        let mut behind = start.to_vec();
        behind.push(0);
        for start in [start, &behind[..]] {
            for reversed in [false, true] {
                assert_eq!(rows(packed, start, None, reversed), rows(model, start, None, reversed));
                for end in places.iter().step_by(step).chain(&[&behind[..]]) {
                    assert_eq!(
                        rows(packed, start, Some(end), reversed),
                        rows(model, start, Some(end), reversed)
                    );
                }
            }
        }
    }
}

fn check(steps: &[Step]) {
    let table = table();
    let pool = MemoryPool::default();
    let mut contents = Contents::new(TokenRange::ALL);
    let mut models: BTreeMap<(Token, Vec<u8>), Partition> = BTreeMap::new();
    let mut held = 0;
    for step in steps {
        let mutation = step.mutation(&table);
        let own = allocated_bytes();
        contents.apply(&pool, &table, &mutation.view()).expect("fits the table");
        held += allocated_bytes() - own;
        let model = models.entry(step.key_bytes()).or_default();
        model.apply(&table, &mutation.view()).expect("fits the table");
        let oldest = contents
            .find(mutation.token(), mutation.view().key)
            .map(|handle| contents.partition(handle).min_timestamp());
        for (_, row) in model.rows() {
            let row = row_timestamps(row.body()).map_or(i64::MAX, |(oldest, _)| oldest);
            assert!(oldest.expect("it was written") <= row);
        }
    }
    for ((token, key), model) in &models {
        let handle = contents.find(*token, key).expect("it was written");
        same(&contents.partition(handle), model);
    }
    assert_eq!(contents.partitions(), models.len());
    let scratch = pool.scratch_bytes() as i64;
    let (told, taken) = (contents.bytes() as i64, held - scratch);
    assert!((told - taken).abs() <= taken / 20 + 600, "says {told}, takes {taken}");
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 96,
        max_shrink_iters: 20_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn packed_partitions_are_what_objects_are(steps in prop::collection::vec(step(12), 1..40)) {
        check(&steps);
    }

    #[test]
    fn partitions_of_many_rows_are_what_objects_are(steps in prop::collection::vec(step(400), 60..160)) {
        check(&steps);
    }
}

fn upsert(table: &Table, clustering: &[u8], timestamp: i64, write: impl Fn(&mut RowWriter<'_>)) -> Mutation {
    let mut builder = MutationBuilder::new(table.id, Token::of_key(b"k"), b"k");
    builder.write_row(clustering, Liveness::at(timestamp), Deletion::LIVE, write);
    builder.finish()
}

#[test]
fn a_row_is_overwritten_where_it_lies_without_an_allocation() {
    let table = TableBuilder::new("ks", "t", TableId(7))
        .partition_key("k", CqlType::Blob)
        .clustering("a", CqlType::Bigint, Order::Ascending)
        .regular("v", CqlType::Blob)
        .build()
        .expect("a sound table");
    let (pool, mut contents) = (MemoryPool::default(), Contents::new(TokenRange::ALL));
    for a in 0..40 {
        let mutation = upsert(&table, &[&[0, 0, 0, 8], &i64::from(a).to_be_bytes()[..]].concat(), 1, |row| {
            row.simple(0, Cell::live(1, &[1; 100]))
        });
        contents.apply(&pool, &table, &mutation.view()).expect("applies");
    }
    let whole: Vec<Mutation> = (0..40)
        .map(|a| {
            upsert(&table, &[&[0, 0, 0, 8], &i64::from(a).to_be_bytes()[..]].concat(), 2, |row| {
                row.simple(0, Cell::live(2, &[2; 100]))
            })
        })
        .collect();
    let part: Vec<Mutation> = (0..40)
        .map(|a| {
            upsert(&table, &[&[0, 0, 0, 8], &i64::from(a).to_be_bytes()[..]].concat(), 2, |row| {
                row.simple(0, Cell::live(1, &[0; 100]))
            })
        })
        .collect();
    // The buffers grow once.
    contents.apply(&pool, &table, &whole[0].view()).expect("applies");
    contents.apply(&pool, &table, &part[0].view()).expect("applies");
    let (bytes, calls) = (contents.bytes(), allocations());
    for mutation in whole.iter().chain(&part) {
        contents.apply(&pool, &table, &mutation.view()).expect("applies");
    }
    assert_eq!(allocations(), calls);
    assert_eq!((contents.bytes(), contents.garbage() < 3_000), (bytes, true));
}

#[test]
fn a_collection_that_grows_costs_the_same_and_leaves_little_garbage() {
    let table = table();
    let (pool, mut contents) = (MemoryPool::default(), Contents::new(TokenRange::ALL));
    let element = |n: i32| {
        let mut builder = MutationBuilder::new(table.id, Token::of_key(b"k"), b"k");
        builder.row_with(&clustering(1), |out| {
            let mut row = RowWriter::new(out, Liveness::NONE, Deletion::LIVE);
            row.complex_start(2, Deletion::LIVE);
            row.complex_cell(&n.to_be_bytes(), Cell::live(i64::from(n), &[1; 20]));
            row.complex_end();
        });
        builder.finish()
    };
    let mut calls = 0;
    for n in 0..50_000i32 {
        // From both ends, so that most changes are in the middle.
        let mutation = element(if n % 2 == 0 { n } else { 100_000 - n });
        let before = allocations();
        contents.apply(&pool, &table, &mutation.view()).expect("applies");
        calls += allocations() - before;
    }
    // Some for each decimal of the clustering, one now and then for a fragment.
    assert!(calls < 50_000 * 5, "{calls} allocations");
    let handle = contents.find(Token::of_key(b"k"), b"k").expect("it is there");
    let partition = contents.partition(handle);
    let size = partition.rows_between(&[], None, false).map(|row| row.body.size()).sum::<usize>();
    assert!(size > 50_000 * 40, "{size}");
    let bytes = contents.bytes();
    assert!(bytes < size * 2, "{bytes} bytes for {size}");
}

#[test]
fn a_small_row_takes_less_than_two_hundred_bytes() {
    let table = TableBuilder::new("ks", "kv", TableId(8))
        .partition_key("k", CqlType::Blob)
        .regular("v", CqlType::Blob)
        .build()
        .expect("a sound table");
    let (pool, mut contents) = (MemoryPool::default(), Contents::new(TokenRange::ALL));
    let before = allocated_bytes();
    for n in 0..100_000u64 {
        let key = n.to_be_bytes();
        let mut builder = MutationBuilder::new(table.id, Token::of_key(&key), &key);
        builder
            .write_row(&[], Liveness::at(1), Deletion::LIVE, |row| row.simple(0, Cell::live(1, &[1; 100])));
        contents.apply(&pool, &table, &builder.finish().view()).expect("applies");
    }
    let (told, taken) = (contents.bytes(), (allocated_bytes() - before) as usize);
    assert!(told <= taken && taken - told < 10_000, "says {told}, takes {taken}");
    let each = taken / 100_000;
    assert!(each < 170, "{each} bytes");
}

#[test]
fn an_empty_memtable_takes_nothing_and_a_first_row_little() {
    let table = table();
    let (pool, mut contents) = (MemoryPool::default(), Contents::new(TokenRange::ALL));
    assert_eq!(contents.bytes(), 0);
    let mutation = upsert(&table, &clustering(1), 1, |row| row.simple(0, Cell::live(1, b"v")));
    contents.apply(&pool, &table, &mutation.view()).expect("applies");
    assert!(contents.bytes() < 8 * 1024, "{}", contents.bytes());
}
