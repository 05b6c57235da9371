//! Reads and writes of one step: when they are possible, and that they say `None` when something must be waited for.

use super::harness::*;
use crate::{CommitlogSync, Durability, Store, fixture};
use mutation::{Key, Scope};
use runtime::sim::SimConfig;

#[test]
fn memory_answers_until_an_sstable_may_know_more() {
    let table = fixture::table_with_id(1, "t");
    let sync = CommitlogSync::Periodic { period_ms: 10_000 };
    let mut node = Node::new(1, SimConfig::calm(), settings(sync), &[&table]);
    node.boot(1).expect("opens");
    let read = command(&table, Scope::Keys(vec![Key::new(b"k")].into()));
    let unknown = command(&table, Scope::Keys(vec![Key::new(b"other")].into()));
    let write = [fixture::insert(&table, b"k", 1, 5, b"v")];
    node.run(async move {
        let store = runtime::local::<Store>();
        assert_eq!(store.read_now(&read).expect("nothing is in files").0.live_rows, 0);
        store.apply_now(&write, Durability::Mode).expect("nothing to wait for").0.expect("accepted");
        assert_eq!(store.read_now(&read).expect("nothing is in files").0.live_rows, 1);
        assert!(store.apply_now(&write, Durability::Synced).is_none(), "a sync must be waited for");
        store.flush(None).await.expect("flushed");
        store.forget_cached(table.id).expect("it is there");
        assert_eq!(store.read_now(&read), None, "a file has to be read");
        assert_eq!(store.read(&read).await.expect("readable").live_rows, 1);
        assert_eq!(store.read_now(&unknown).expect("no file holds it").0.live_rows, 0);
    });
}

#[test]
fn a_write_that_is_synced_first_is_no_matter_of_one_step() {
    let table = fixture::table_with_id(1, "t");
    let mut node = Node::new(1, SimConfig::calm(), settings(CommitlogSync::Batch), &[&table]);
    node.boot(1).expect("opens");
    let read = command(&table, Scope::Keys(vec![Key::new(b"k")].into()));
    let write = [fixture::insert(&table, b"k", 1, 5, b"v")];
    node.run(async move {
        let store = runtime::local::<Store>();
        assert!(store.apply_now(&write, Durability::Mode).is_none());
        assert_eq!(
            store.read_now(&read).expect("nothing is in files").0.live_rows,
            0,
            "nothing has happened"
        );
    });
}
