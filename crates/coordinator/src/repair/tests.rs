//! Replicas that each saw some of the writes: what each lacks makes them equal, once; and what may be forgotten is not sent again.

use super::lacking::{Judge, lacking};
use base::{Prng, Token};
use mutation::{
    Bound, Cell, Deletion, Liveness, Mutation, MutationBuilder, Partition, Purge, RangeTombstone, Rewrite,
    RowWriter, rewrite_row,
};
use schema::{BoundSide, Order, Table, TableBuilder, TableId, push_component};
use types::CqlType;

/// Nothing made before this second is kept for its grace.
const GC_BEFORE: u32 = 50;
const NOW: u32 = 100;

fn table() -> Table {
    TableBuilder::new("ks", "t", TableId(3))
        .partition_key("k", CqlType::Text)
        .clustering("c", CqlType::Int, Order::Ascending)
        .static_column("s", CqlType::Int)
        .regular("v", CqlType::Int)
        .build()
        .expect("a sound table")
}

fn clustering(c: i32) -> Vec<u8> {
    let mut out = Vec::new();
    push_component(&mut out, Some(&c.to_be_bytes()));
    out
}

fn deletion(prng: &mut Prng) -> Deletion {
    // Half of them have had their grace.
    let timestamp = 100 + prng.below(30) as i64;
    Deletion { timestamp, local_time: if timestamp < 115 { 10 } else { 90 } }
}

/// A write of any kind to one partition.
fn drawn(prng: &mut Prng) -> Mutation {
    let mut builder = MutationBuilder::new(TableId(3), Token(7), b"k");
    let timestamp = 100 + prng.below(30) as i64;
    let value = (prng.below(100) as i32).to_be_bytes();
    let cell = match prng.below(4) {
        0 => Cell::tombstone(timestamp, if timestamp < 115 { 10 } else { 90 }),
        _ => Cell::live(timestamp, &value),
    };
    match prng.below(12) {
        0 => builder.deletion(deletion(prng)),
        1 => builder.static_row_with(|out| {
            RowWriter::new(out, Liveness::NONE, Deletion::LIVE).simple(0, cell);
        }),
        2 | 3 => {
            let from = prng.below(8) as i32;
            let to = from + 1 + prng.below(4) as i32;
            let bound = |c: i32| Bound::new(&clustering(c), BoundSide::Before);
            let deletion = deletion(prng);
            builder.range(&RangeTombstone { start: bound(from), end: bound(to), deletion });
        }
        4 => builder.write_row(&clustering(prng.below(8) as i32), Liveness::NONE, deletion(prng), |_| {}),
        _ => {
            let row = clustering(prng.below(8) as i32);
            builder.write_row(&row, Liveness::at(timestamp), Deletion::LIVE, |row| row.simple(0, cell));
        }
    }
    builder.finish()
}

fn encoded(partition: &Partition) -> Mutation {
    let mut builder = MutationBuilder::new(TableId(3), Token(7), b"k");
    builder.deletion(partition.deletion);
    if let Some(body) = &partition.static_row {
        builder.static_row(body);
    }
    partition.rows().for_each(|(_, row)| builder.row(row.clustering(), row.body()));
    partition.ranges.iter().for_each(|range| builder.range(&range));
    builder.finish()
}

/// What a reader sees of rows, position by position.
fn seen(partition: &Partition) -> Vec<(Vec<u8>, Vec<u8>)> {
    let purge = Purge { gc_before: u32::MAX, max_timestamp: i64::MAX };
    let live = |body: &[u8], shadow: Deletion| {
        let mut out = Vec::new();
        let rewrite = Rewrite { shadow, expire_at: Some(NOW), purge: Some(purge) };
        rewrite_row(body, &rewrite, &mut out).then_some(out)
    };
    let rows = partition.rows().filter_map(|(position, row)| {
        let covering = partition.covering(position.as_bytes());
        Some((row.clustering().to_vec(), live(row.body(), covering)?))
    });
    let fixed = partition.static_row.as_deref().and_then(|body| live(body, partition.deletion));
    fixed.map(|body| (Vec::new(), body)).into_iter().chain(rows).collect()
}

/// The answer of a replica: rows that its deletions hide are left out.
fn answer(table: &Table, partition: &Partition) -> Mutation {
    use mutation::{Budget, Emit, Key, ReadCommand, Scope, TokenRange, emit};
    let command = ReadCommand::everything(TableId(3), Scope::Range(TokenRange::ALL), NOW);
    let key = Key::with_token(Token(7), b"k");
    let request = Emit { table: table.id, key: &key, command: &command, after: None, complete_to: None };
    let budget = Budget { rows: u32::MAX, partition_rows: u32::MAX, bytes: usize::MAX, tombstones: u32::MAX };
    emit(partition, &request, budget).mutation.unwrap_or_else(|| encoded(&Partition::new()))
}

fn judge(gc_before: u32) -> Judge {
    Judge { now_s: NOW, gc_before, forgets: false }
}

/// What each of three lacks is written to it.
fn repair(table: &Table, replicas: &mut [Partition], gc_before: u32, bytes: usize) -> usize {
    let mut all = Partition::new();
    replicas
        .iter()
        .for_each(|replica| all.apply(table, &answer(table, replica).view()).map(drop).expect("fits"));
    let whole = answer(table, &all);
    let mut written = 0;
    for replica in replicas {
        let theirs = answer(table, replica);
        let lacks =
            lacking(table, Some(&theirs.view()), &whole.view(), judge(gc_before), bytes).expect("fits");
        for mutation in &lacks {
            replica.apply(table, &mutation.view()).expect("fits");
        }
        written += lacks.len();
    }
    written
}

#[test]
fn after_a_repair_all_are_equal_and_a_second_one_writes_nothing() {
    let (table, mut prng) = (table(), Prng::new(5));
    for round in 0..3_000 {
        let mut replicas = [Partition::new(), Partition::new(), Partition::new()];
        for _ in 0..prng.below(14) {
            let write = drawn(&mut prng);
            for replica in &mut replicas {
                if prng.chance(0.6) {
                    replica.apply(&table, &write.view()).expect("fits");
                }
            }
        }
        let gc_before = if prng.chance(0.5) { 0 } else { GC_BEFORE };
        let mut expected = Partition::new();
        replicas.iter().for_each(|replica| expected.merge(&table, replica).expect("fits"));
        let bytes = if prng.chance(0.5) { 1 } else { 1 << 20 };
        repair(&table, &mut replicas, gc_before, bytes);
        for replica in &replicas {
            assert_eq!(seen(replica), seen(&expected), "round {round}");
            if gc_before == 0 {
                assert_eq!(answer(&table, replica), answer(&table, &expected), "round {round}");
            }
        }
        assert_eq!(repair(&table, &mut replicas, gc_before, bytes), 0, "round {round}");
    }
}

/// ⚔ One has purged a tombstone, the other not yet: neither is sent it, or the row that it deletes.
#[test]
fn what_was_purged_is_not_sent_again_and_deletes_where_there_is_something_to_delete() {
    let table = table();
    let old = Deletion { timestamp: 110, local_time: 10 };
    let row = |timestamp| {
        let mut builder = MutationBuilder::new(TableId(3), Token(7), b"k");
        builder.write_row(&clustering(1), Liveness::at(timestamp), Deletion::LIVE, |_| {});
        builder.finish()
    };
    let all_rows = || {
        let mut builder = MutationBuilder::new(TableId(3), Token(7), b"k");
        builder.deletion(old);
        builder.finish()
    };
    let range = || {
        let mut builder = MutationBuilder::new(TableId(3), Token(7), b"k");
        let bound = |c: i32| Bound::new(&clustering(c), BoundSide::Before);
        builder.range(&RangeTombstone { start: bound(0), end: bound(5), deletion: old });
        builder.finish()
    };
    let one_row = || {
        let mut builder = MutationBuilder::new(TableId(3), Token(7), b"k");
        builder.write_row(&clustering(1), Liveness::NONE, old, |_| {});
        builder.finish()
    };
    for tombstone in [all_rows(), range(), one_row()] {
        let with = |writes: &[&Mutation]| {
            let mut partition = Partition::new();
            writes.iter().for_each(|write| partition.apply(&table, &write.view()).map(drop).expect("fits"));
            partition
        };
        let (older, newer) = (row(105), row(120));
        let mut replicas = [with(&[]), with(&[&tombstone]), with(&[&older])];
        assert_eq!(
            repair(&table, &mut replicas, GC_BEFORE, 1 << 20),
            1,
            "{tombstone:?}: only who has the row"
        );
        assert!(replicas.iter().all(|replica| seen(replica).is_empty()), "{tombstone:?}");
        assert_eq!(seen(&replicas[0]).len() + replicas[0].row_count(), 0);
        let mut replicas = [with(&[&newer]), with(&[&tombstone])];
        assert_eq!(repair(&table, &mut replicas, GC_BEFORE, 1 << 20), 1, "{tombstone:?}: the newer row");
        assert!(replicas.iter().all(|replica| seen(replica).len() == 1), "{tombstone:?}");
        let mut replicas = [with(&[]), with(&[&tombstone])];
        assert_eq!(repair(&table, &mut replicas, 0, 1 << 20), 1, "{tombstone:?}: its grace is not over");
    }
}
