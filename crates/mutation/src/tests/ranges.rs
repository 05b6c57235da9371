//! Range tombstones against a list that is walked for every question.

use super::sample::{clustering, range, table};
use crate::{Deletion, RangeTombstone, RangeTombstones};
use base::Prng;

fn naive(table: &schema::Table, list: &[RangeTombstone], position: &[u8]) -> Deletion {
    let covers = |t: &&RangeTombstone| {
        let start = t.start.position(table).expect("fits");
        let end = t.end.position(table).expect("fits");
        start.as_bytes() <= position && position < end.as_bytes()
    };
    list.iter().filter(covers).map(|t| t.deletion).fold(Deletion::LIVE, Deletion::max)
}

#[test]
fn agree_with_a_naive_list() {
    let table = table();
    for seed in 0..2000 {
        let mut prng = Prng::new(seed);
        let mut ranges = RangeTombstones::default();
        let mut list = Vec::new();
        for _ in 0..1 + prng.below(8) {
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
        let mut end = None;
        for tombstone in ranges.iter() {
            let start = tombstone.start.position(&table).expect("fits");
            assert!(end.is_none_or(|e| e <= start), "seed {seed}: disjoint and ascending");
            end = Some(tombstone.end.position(&table).expect("fits"));
            assert!(end.as_ref().is_some_and(|e| *e > start), "seed {seed}: not empty");
        }
    }
}
