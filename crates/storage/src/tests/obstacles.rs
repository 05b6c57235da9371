//! What one table or one sync that fails must not do to everything else.

use super::harness::*;
use crate::{CommitlogSync, Error, Store, fixture};
use runtime::sim::SimConfig;
use schema::Table;
use std::time::Duration;

const MIB: u64 = 1024 * 1024;

/// A node of one shard with two tables and room for `memtable_bytes` of them.
fn two_tables(sync: CommitlogSync, memtable_bytes: u64) -> (Node, Table, Table) {
    let (a, b) = (fixture::table_with_id(1, "a"), fixture::table_with_id(2, "b"));
    let mut settings = settings(sync);
    settings.memtable_bytes = memtable_bytes;
    settings.auto_compaction = false;
    let mut node = Node::new(1, SimConfig::calm(), settings, &[&a, &b]);
    node.boot(1).expect("opens");
    (node, a, b)
}

#[test]
fn a_compaction_that_found_no_space_is_tried_again_soon() {
    let (mut node, a, _) = two_tables(CommitlogSync::Batch, MIB);
    let rests = node.run(async move {
        let table = runtime::local::<Store>().table(a.id).expect("there");
        let rest_after = |error: fn() -> Error| {
            (0..10).for_each(|_| drop(table.compaction_backoff.failed(error())));
            table.compaction_backoff.rests_until().expect("it rests") - runtime::now()
        };
        [rest_after(|| Error::NoSpace("full".into())), rest_after(|| Error::Stopping)]
    });
    assert!(rests[0] <= Duration::from_secs(5), "{rests:?}");
    assert!(rests[1] >= Duration::from_secs(100), "what is damaged stays damaged: {rests:?}");
}

#[test]
fn a_compaction_that_did_not_have_its_turn_has_not_succeeded() {
    let (mut node, a, _) = two_tables(CommitlogSync::Batch, MIB);
    node.stop();
    node.settings.auto_compaction = true;
    node.boot(1).expect("opens");
    let error = node.run(async move {
        let store = runtime::local::<Store>();
        let table = store.table(a.id).expect("there");
        let _turn = table.compaction.lock().await;
        table.compaction_backoff.failed(Error::NoSpace("full".into()));
        for _ in 0..20 {
            runtime::sleep(Duration::from_secs(1)).await;
            store.compaction_wanted.notify();
        }
        table.compaction_backoff.error()
    });
    assert!(error.is_some(), "it still has to be tried");
}
