//! What reads from memory ask of the allocator: nothing.

use super::harness::*;
use crate::{Store, fixture};
use mutation::{Deletion, Liveness, MutationBuilder, ReadCommand};

/// Allocations of the later of two reads of the same.
fn allocations_of(store: &Store, command: &ReadCommand) -> u64 {
    drop(store.read_now(command).expect("memory answers"));
    let before = base::counting::allocations();
    let (answer, _) = store.read_now(command).expect("memory answers");
    let taken = base::counting::allocations() - before;
    assert_eq!(answer.live_rows, 1);
    taken
}

#[test]
fn a_row_from_memory_costs_no_allocation() {
    let table = fixture::table();
    let mut node = node(&table);
    node.run(async move {
        let store = runtime::local::<Store>();
        for size in [10, 100, 1_000, 10_000, 100_000] {
            let key = format!("{size}");
            let (key, value) = (key.as_bytes(), vec![7; size]);
            let (all, one) = (of_key(&table, key), of_row(&table, key, 1));
            put(&store, fixture::insert(&table, key, 1, 5, &value));
            if size < 100_000 {
                // A larger one lies in fragments.
                assert_eq!(allocations_of(&store, &all), 0, "{size} bytes in a memtable");
            }
            store.flush(None).await.expect("flushed");
            store.read(&all).await.expect("readable");
            assert_eq!(allocations_of(&store, &all), 0, "{size} bytes in the row cache");
            assert_eq!(allocations_of(&store, &one), 0, "{size} bytes, by the whole key");
            let mut builder = MutationBuilder::new(table.id, base::Token::of_key(key), key);
            builder.write_row(&fixture::clustering(1), Liveness::at(6), Deletion::LIVE, |_| {});
            put(&store, builder.finish());
            assert_eq!(allocations_of(&store, &all), 0, "{size} bytes, merged from both");
            if size < 100_000 {
                put(&store, fixture::insert(&table, key, 1, 7, &value));
                assert_eq!(allocations_of(&store, &all), 0, "{size} bytes in both");
            }
        }
    });
}
