//! A column is dropped and comes back: what was written before the drop stays unseen, wherever it lies, and what is newer is
//! seen again; over flushes, compactions and starts.

use super::harness::*;
use crate::{CommitlogSync, Durability, fixture};
use mutation::Scope;
use runtime::sim::SimConfig;
use schema::{ColumnKind, Table};
use std::collections::BTreeMap;
use std::sync::Arc;
use types::CqlType;

/// Where the data lies when the column is dropped, and what happens after it came back.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Step {
    Nothing,
    Flush,
    Compact,
    Restart,
    Kill,
}

fn set_table(node: &mut Node, table: &Table) {
    node.schema = Arc::new(schema_of(&[table]));
    let schema = node.schema.clone();
    node.run(everywhere(move |store| {
        store.set_schema(&schema);
        async { Ok(()) }
    }))
    .expect("follows");
}

fn take(node: &mut Node, table: &Table, step: Step) {
    let id = table.id;
    match step {
        Step::Nothing => {}
        Step::Flush => {
            node.run(everywhere(|store| async move { store.flush(None).await })).expect("flushes");
        }
        Step::Compact => {
            node.run(everywhere(|store| async move { store.flush(None).await })).expect("flushes");
            node.run(everywhere(move |store| async move { store.compact(id).await })).expect("compacts");
        }
        Step::Restart => {
            node.stop();
            node.boot(2).expect("opens");
        }
        Step::Kill => {
            node.world.kill(node.id);
            node.boot(1).expect("opens");
        }
    }
}

/// By clustering: the value of `v`, or `None` where the row has none.
fn seen(node: &mut Node, table: &Table) -> BTreeMap<u8, Option<Vec<u8>>> {
    let key = mutation::Key::new(b"k");
    let of_key = node.run(read_key(command(table, Scope::Keys(vec![key].into())))).expect("readable");
    let of_ring = node.run(read_ring(command(table, Scope::Keys(Vec::new().into())))).expect("readable");
    assert_eq!(of_key, of_ring, "a scan sees what a read of the key sees");
    // The clustering is one int behind its length.
    of_key.iter().map(|(_, c, body)| (c[c.len() - 1], value(body))).collect()
}

fn write(node: &mut Node, table: &Table, c: i32, timestamp: i64, value: &[u8]) {
    let row = fixture::insert(table, b"k", c, timestamp, value);
    node.run(apply(vec![row], Durability::Mode)).expect("accepted");
}

#[test]
fn a_column_that_comes_back_shows_nothing_from_before() {
    use Step::*;
    let steps = [Nothing, Flush, Compact, Restart, Kill];
    for number in 0..steps.len().pow(3) {
        let [before, between, after] = [1, 5, 25].map(|place| steps[number / place % steps.len()]);
        let what = format!("{before:?}, {between:?}, {after:?}");
        let whole = fixture::table();
        let mut node = Node::new(1, SimConfig::calm(), settings(CommitlogSync::Batch), &[&whole]);
        node.boot(2).expect("opens");
        write(&mut node, &whole, 1, 10, b"old");
        take(&mut node, &whole, before);

        let mut builder = whole.to_builder();
        assert!(builder.drop_column("v", 50));
        let without = builder.build().expect("sound");
        set_table(&mut node, &without);
        assert_eq!(seen(&mut node, &without), BTreeMap::from([(1, None)]), "{what}: dropped");
        take(&mut node, &without, between);
        assert_eq!(seen(&mut node, &without), BTreeMap::from([(1, None)]), "{what}: still dropped");

        let mut builder = without.to_builder();
        builder.add("v", ColumnKind::Regular, CqlType::Blob);
        let back = builder.build().expect("sound");
        set_table(&mut node, &back);
        assert_eq!(seen(&mut node, &back), BTreeMap::from([(1, None)]), "{what}: back");
        write(&mut node, &back, 2, 60, b"new");
        // As old as the drop by its own timestamp: hidden as what was written then.
        write(&mut node, &back, 3, 50, b"late");
        let want = BTreeMap::from([(1, None), (2, Some(b"new".to_vec())), (3, None)]);
        assert_eq!(seen(&mut node, &back), want, "{what}: written again");
        take(&mut node, &back, after);
        assert_eq!(seen(&mut node, &back), want, "{what}: at the end");
    }
}

#[test]
fn what_is_newer_than_the_drop_is_seen_again() {
    for before in [Step::Nothing, Step::Flush, Step::Kill] {
        let whole = fixture::table();
        let mut node = Node::new(1, SimConfig::calm(), settings(CommitlogSync::Batch), &[&whole]);
        node.boot(2).expect("opens");
        write(&mut node, &whole, 1, 10, b"old");
        write(&mut node, &whole, 2, 90, b"newer");
        take(&mut node, &whole, before);
        let mut builder = whole.to_builder();
        assert!(builder.drop_column("v", 50));
        let without = builder.build().expect("sound");
        set_table(&mut node, &without);
        assert_eq!(seen(&mut node, &without), BTreeMap::from([(1, None), (2, None)]), "{before:?}");
        let mut builder = without.to_builder();
        builder.add("v", ColumnKind::Regular, CqlType::Blob);
        let back = builder.build().expect("sound");
        set_table(&mut node, &back);
        let want = BTreeMap::from([(1, None), (2, Some(b"newer".to_vec()))]);
        assert_eq!(seen(&mut node, &back), want, "{before:?}");
        take(&mut node, &back, Step::Compact);
        assert_eq!(seen(&mut node, &back), want, "{before:?}: compacted");
    }
}
