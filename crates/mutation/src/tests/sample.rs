//! A table with every shape of column, and random mutations of one of its partitions.

use crate::{Bound, Cell, Deletion, Liveness, Mutation, MutationBuilder, RangeTombstone, RowWriter};
use base::{Prng, Token};
use schema::{BoundSide, Order, Table, TableBuilder, TableId, push_component};
use types::CqlType;

pub(crate) const KEY: &[u8] = b"key";

/// Ordinals: s0 static; v0 and w1 simple, m2 a map, c3 simple.
pub(crate) fn table() -> Table {
    TableBuilder::new("ks", "t", TableId(7))
        .partition_key("k", CqlType::Text)
        .clustering("a", CqlType::Int, Order::Ascending)
        .clustering("b", CqlType::Text, Order::Descending)
        .static_column("s", CqlType::Int)
        .regular("v", CqlType::Text)
        .regular("w", CqlType::Int)
        .regular("m", CqlType::map(CqlType::Int, CqlType::Text))
        .regular("c", CqlType::Bigint)
        .build()
        .expect("a sound table")
}

/// Values of the second clustering column, the last too long for a bound to keep in itself.
const B: [&str; 3] = ["x", "y", "z, and as much again as a bound holds"];

pub(crate) fn clustering(a: i32, b: Option<&str>) -> Vec<u8> {
    let mut wire = Vec::new();
    push_component(&mut wire, Some(&a.to_be_bytes()));
    if let Some(b) = b {
        push_component(&mut wire, Some(b.as_bytes()));
    }
    wire
}

fn timestamp(prng: &mut Prng) -> i64 {
    1000 + prng.below(6) as i64
}

fn cell<'a>(prng: &mut Prng, value: &'a [u8]) -> Cell<'a> {
    let timestamp = timestamp(prng);
    match prng.below(4) {
        0 => Cell::tombstone(timestamp, 10 + prng.below(3) as u32),
        1 => Cell::expiring(timestamp, 5 + prng.below(2) as u32, 40 + prng.below(40) as u32, value),
        _ => Cell::live(timestamp, value),
    }
}

fn deletion(prng: &mut Prng) -> Deletion {
    Deletion { timestamp: timestamp(prng), local_time: 10 + prng.below(3) as u32 }
}

fn row(prng: &mut Prng, out: &mut Vec<u8>, is_static: bool) {
    let liveness = match prng.below(3) {
        0 => Liveness::NONE,
        1 => Liveness::at(timestamp(prng)),
        _ => Liveness::expiring(timestamp(prng), 9, 50 + prng.below(20) as u32),
    };
    let removed = if prng.below(5) == 0 { deletion(prng) } else { Deletion::LIVE };
    let value = [b'a' + prng.below(3) as u8];
    if is_static {
        let mut writer = RowWriter::new(out, Liveness::NONE, Deletion::LIVE);
        return writer.simple(0, cell(prng, &value));
    }
    let mut writer = RowWriter::new(out, liveness, removed);
    for ordinal in [0, 1] {
        if prng.below(2) == 0 {
            writer.simple(ordinal, cell(prng, &value));
        }
    }
    if prng.below(2) == 0 {
        let covers = if prng.below(3) == 0 { deletion(prng) } else { Deletion::LIVE };
        writer.complex_start(2, covers);
        for path in 0..3i32 {
            if prng.below(2) == 0 {
                writer.complex_cell(&path.to_be_bytes(), cell(prng, &value));
            }
        }
        writer.complex_end();
    }
    if prng.below(2) == 0 {
        writer.simple(3, cell(prng, &value));
    }
}

pub(super) fn bound(prng: &mut Prng) -> Bound {
    let side = if prng.below(2) == 0 { BoundSide::Before } else { BoundSide::After };
    let b = B[prng.below(3) as usize];
    let prefix = match prng.below(5) {
        0 => Vec::new(),
        1 | 2 => clustering(prng.below(4) as i32, None),
        _ => clustering(prng.below(4) as i32, Some(b)),
    };
    Bound::new(&prefix, side)
}

pub(super) fn range(prng: &mut Prng) -> RangeTombstone {
    RangeTombstone { start: bound(prng), end: bound(prng), deletion: deletion(prng) }
}

/// A random mutation of the one partition.
pub(crate) fn mutation(prng: &mut Prng) -> Mutation {
    let mut builder = MutationBuilder::new(TableId(7), Token::of_key(KEY), KEY);
    if prng.below(8) == 0 {
        builder.deletion(deletion(prng));
    }
    if prng.below(3) == 0 {
        builder.static_row_with(|out| row(prng, out, true));
    }
    for _ in 0..prng.below(4) {
        let b = B[prng.below(3) as usize];
        let clustering = clustering(prng.below(4) as i32, Some(b));
        builder.row_with(&clustering, |out| row(prng, out, false));
    }
    for _ in 0..prng.below(3) {
        let tombstone = range(prng);
        builder.range(&tombstone);
    }
    builder.finish()
}
