//! Drops, truncations and tables made again, at moments when writes wait for their sync or somebody still reads.

use super::harness::*;
use crate::{CommitlogSync, Durability, Store, fixture};
use mutation::{Key, Scope};
use runtime::Group;
use runtime::sim::SimConfig;
use schema::Table;

fn two() -> (Table, Table) {
    (fixture::table_with_id(1, "t"), fixture::table_with_id(2, "u"))
}

fn rows(node: &mut Node, table: &Table, key: &[u8]) -> usize {
    let command = command(table, Scope::Keys(vec![Key::new(key)]));
    node.run(read_key(command)).expect("readable").len()
}

#[test]
fn a_batch_over_a_table_dropped_meanwhile_is_applied_to_the_others() {
    let (t, u) = two();
    let mut node = Node::new(1, SimConfig::calm(), settings(CommitlogSync::Batch), &[&t, &u]);
    node.boot(1).expect("opens");
    let (a, b) = (fixture::insert(&t, b"k", 1, 5, b"v"), fixture::insert(&u, b"k", 1, 5, b"v"));
    let schema = schema_of(&[&u]);
    node.run(async move {
        let store = runtime::local::<Store>();
        let writer = store.clone();
        let write =
            runtime::spawn_now(Group::QUERY, async move { writer.apply(vec![a, b], Durability::Mode).await });
        assert!(!write.is_finished());
        store.set_schema(&schema);
        write.await.expect("acknowledged");
    });
    assert_eq!(rows(&mut node, &u, b"k"), 1);
}

#[test]
fn a_refused_write_does_not_refuse_the_next_start() {
    let (t, u) = two();
    let mut node = Node::new(1, SimConfig::calm(), settings(CommitlogSync::Batch), &[&t, &u]);
    node.boot(1).expect("opens");
    let key = Key::new(b"k");
    let mut builder = mutation::MutationBuilder::new(t.id, key.token, b"k");
    builder.write_row(b"junk", mutation::Liveness::at(1), mutation::Deletion::LIVE, |_| {});
    let m = builder.finish();
    assert!(node.run(apply(vec![m], Durability::Mode)).is_err());
    node.world.kill(node.id);
    node.boot(1).expect("opens");
}
