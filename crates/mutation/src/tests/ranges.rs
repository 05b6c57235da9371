//! Range tombstones against a list that is walked for every question.

use super::sample::{clustering, range, table};
use crate::{Bound, Deletion, RangeTombstone, RangeTombstones, Sweep, SweepBack};
use base::Prng;
use schema::{BoundSide, Position, Table};

fn naive(table: &Table, list: &[RangeTombstone], position: &[u8]) -> Deletion {
    let covers = |t: &&RangeTombstone| {
        let start = t.start.position(table).expect("fits");
        let end = t.end.position(table).expect("fits");
        start.as_bytes() <= position && position < end.as_bytes()
    };
    list.iter().filter(covers).map(|t| t.deletion).fold(Deletion::LIVE, Deletion::max)
}

fn all_of(table: &Table, list: &[RangeTombstone]) -> RangeTombstones {
    let mut ranges = RangeTombstones::default();
    list.iter().for_each(|tombstone| ranges.add(table, tombstone.clone()).expect("fits"));
    ranges
}

#[test]
fn agree_with_a_naive_list() {
    let table = table();
    for seed in 0..2000 {
        let mut prng = Prng::new(seed);
        let mut ranges = RangeTombstones::default();
        let mut list = Vec::new();
        for _ in 0..1 + prng.below(12) {
            let tombstone = range(&mut prng);
            list.push(tombstone.clone());
            ranges.add(&table, tombstone).expect("fits");
        }
        for a in -1..5 {
            for b in ["w", "x", "y", "z"] {
                let position = table.position(&clustering(a, Some(b))).expect("fits");
                assert_eq!(
                    ranges.covering(&position),
                    naive(&table, &list, &position),
                    "seed {seed} at {a},{b}"
                );
            }
        }
        let mut end: Option<(Position, Deletion)> = None;
        for tombstone in ranges.iter() {
            let start = tombstone.start.position(&table).expect("fits");
            let apart = end.as_ref().is_none_or(|(end, deletion)| {
                *end < start || *end == start && *deletion != tombstone.deletion
            });
            assert!(apart, "seed {seed}: disjoint, ascending, joined");
            end = Some((tombstone.end.position(&table).expect("fits"), tombstone.deletion));
            assert!(end.as_ref().is_some_and(|(end, _)| *end > start), "seed {seed}: not empty");
        }
    }
}

/// Whatever the order, and however they are divided among partitions, what overlaps a slice has one form.
#[test]
fn a_slice_of_them_has_one_form_forward_and_backward() {
    let table = table();
    for seed in 0..3000 {
        let mut prng = Prng::new(seed);
        let mut list: Vec<RangeTombstone> = (0..1 + prng.below(12)).map(|_| range(&mut prng)).collect();
        let whole = all_of(&table, &list);
        prng.shuffle(&mut list);
        let cut = prng.below(1 + list.len() as u64) as usize;
        let parts = [all_of(&table, &list[..cut]), all_of(&table, &list[cut..])];
        let mut joined = parts[0].clone();
        joined.merge(&parts[1]);
        assert_eq!(joined, whole, "seed {seed}: two halves are the whole");
        assert_eq!(joined.memory_bytes(), joined.counted_bytes(), "seed {seed}");
        let ends: Vec<Position> =
            (0..4).map(|a| table.position(&clustering(a, Some("y"))).expect("fits")).collect();
        for (start, end) in [(0, 3), (1, 2), (2, 2), (0, 1)] {
            let (start, end) = (&ends[start], &ends[end]);
            let overlaps = |t: &RangeTombstone| {
                let (first, last) =
                    (t.start.position(&table).expect("fits"), t.end.position(&table).expect("fits"));
                start < end && first < *end && last > *start
            };
            let expected: Vec<RangeTombstone> = whole.iter().filter(overlaps).collect();
            let forward = Sweep::between(parts.iter(), start, end);
            let forward: Vec<RangeTombstone> = forward.map(|range| range.to_tombstone()).collect();
            assert_eq!(forward, expected, "seed {seed}: forward");
            let back = SweepBack::between(parts.iter(), start, end);
            let mut back: Vec<RangeTombstone> = back.map(|range| range.to_tombstone()).collect();
            back.reverse();
            assert_eq!(back, expected, "seed {seed}: backward");
        }
    }
}

/// In each of these orders one of the usual ways (keep a sorted list of disjoint pieces; keep a list of what is open) takes
/// time that grows with the square of their number: far longer here.
#[test]
fn many_overlapping_ones_are_added_and_read_in_little_time() {
    const COUNT: i32 = 6_000;
    let table = table();
    let tombstone = |from: i32, to: i32, timestamp: i64| RangeTombstone {
        start: Bound::new(&clustering(from, None), BoundSide::Before),
        end: Bound::new(&clustering(to, None), BoundSide::After),
        deletion: Deletion { timestamp, local_time: 1 },
    };
    type Order = fn(i32) -> (i32, i32, i64);
    let orders: [(&str, Order); 4] = [
        ("nested outward, older and older", |i| (-i, i, i64::from(COUNT - i))),
        ("nested inward, newer and newer", |i| (i - COUNT, COUNT - i, i64::from(i))),
        ("staggered, older and older", |i| (i, i + COUNT / 2, i64::from(COUNT - i))),
        ("staggered, by chance", |i| {
            let at = i.wrapping_mul(7919) % COUNT;
            (at, at + COUNT / 3, i64::from(i.wrapping_mul(104_729) % COUNT))
        }),
    ];
    for (name, order) in orders {
        let mut ranges = RangeTombstones::default();
        for i in 0..COUNT {
            let (from, to, timestamp) = order(i);
            ranges.add(&table, tombstone(from, to, 1 + timestamp.abs())).expect("fits");
        }
        assert!(ranges.len() <= 6 * COUNT as usize, "{name}: {} intervals", ranges.len());
        let newest = (0..COUNT).map(order).filter(|(from, to, _)| (*from..=*to).contains(&100));
        let newest = newest.map(|(_, _, timestamp)| 1 + timestamp.abs()).max().expect("some cover it");
        let position = table.position(&clustering(100, Some("x"))).expect("fits");
        assert_eq!(ranges.covering(&position).timestamp, newest, "{name}");
        let end = position.successor();
        let found: Vec<i64> = Sweep::between([&ranges].into_iter(), &position, &end)
            .map(|range| range.deletion.timestamp)
            .collect();
        assert_eq!(found, [newest], "{name}");
        assert!(ranges.iter().count() >= 1, "{name}");
    }
}
