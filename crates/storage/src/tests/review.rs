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
    let command = command(table, Scope::Keys(vec![Key::new(key)].into()));
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

#[test]
fn truncated_rows_stay_away_when_a_write_waits_below_them() {
    let (t, u) = two();
    let sync = CommitlogSync::Periodic { period_ms: 10_000 };
    let mut node = Node::new(1, SimConfig::calm(), settings(sync), &[&t, &u]);
    node.boot(1).expect("opens");
    let (a, b) = (fixture::insert(&t, b"k", 1, 5, b"v"), fixture::insert(&u, b"k", 1, 5, b"v"));
    let id = t.id;
    node.run(async move {
        let store = runtime::local::<Store>();
        let writer = store.clone();
        let write =
            runtime::spawn_now(Group::QUERY, async move { writer.apply(vec![b], Durability::Synced).await });
        store.apply(vec![a], Durability::Mode).await.expect("accepted");
        assert!(!write.is_finished());
        store.truncate(id, 9).await.expect("truncated");
        write.await.expect("acknowledged");
    });
    assert_eq!(rows(&mut node, &t, b"k"), 0);
    node.run(async { runtime::sleep(std::time::Duration::from_secs(30)).await });
    node.world.kill(node.id);
    node.boot(1).expect("opens");
    assert_eq!(rows(&mut node, &u, b"k"), 1);
    assert_eq!(rows(&mut node, &t, b"k"), 0, "truncated rows came back");
}

#[test]
fn a_table_made_again_with_its_id_is_empty() {
    let (t, u) = two();
    let sync = CommitlogSync::Batch;
    let mut node = Node::new(1, SimConfig::calm(), settings(sync), &[&t, &u]);
    node.boot(1).expect("opens");
    let a = fixture::insert(&t, b"k", 1, 5, b"v");
    let (without, with) = (schema_of(&[&u]), schema_of(&[&t, &u]));
    node.run(async move {
        let store = runtime::local::<Store>();
        store.apply(vec![a], Durability::Mode).await.expect("accepted");
        store.set_schema(&without);
        runtime::sleep(std::time::Duration::from_secs(5)).await;
        store.set_schema(&with);
    });
    assert_eq!(rows(&mut node, &t, b"k"), 0);
    node.world.kill(node.id);
    node.boot(1).expect("opens");
    assert_eq!(rows(&mut node, &t, b"k"), 0, "rows of the dropped table came back");
}

#[test]
fn a_table_made_again_with_its_id_while_the_old_one_is_read_keeps_its_files() {
    let (t, u) = two();
    let sync = CommitlogSync::Batch;
    let mut node = Node::new(1, SimConfig::calm(), settings(sync), &[&t, &u]);
    node.boot(1).expect("opens");
    let (a, b) = (fixture::insert(&t, b"k", 1, 5, b"v"), fixture::insert(&t, b"new", 1, 5, b"v"));
    let (without, with) = (schema_of(&[&u]), schema_of(&[&t, &u]));
    let id = t.id;
    node.run(async move {
        let store = runtime::local::<Store>();
        store.apply(vec![a], Durability::Mode).await.expect("accepted");
        store.flush(Some(id)).await.expect("flushed");
        let reader = store.table(id).expect("there").version();
        store.set_schema(&without);
        runtime::sleep(std::time::Duration::from_secs(1)).await;
        store.set_schema(&with);
        store.apply(vec![b], Durability::Mode).await.expect("accepted");
        store.flush(Some(id)).await.expect("flushed");
        drop(reader);
        runtime::sleep(std::time::Duration::from_secs(5)).await;
    });
    node.world.kill(node.id);
    node.boot(1).expect("opens");
    assert_eq!(rows(&mut node, &t, b"new"), 1);
}

#[test]
fn a_table_made_again_at_once_takes_writes_and_nothing_of_the_old_one() {
    let (t, u) = two();
    for sync in [CommitlogSync::Batch, CommitlogSync::Periodic { period_ms: 10_000 }] {
        let mut node = Node::new(1, SimConfig::calm(), settings(sync), &[&t, &u]);
        node.boot(1).expect("opens");
        let a = fixture::insert(&t, b"k", 1, 5, b"v");
        let b = fixture::insert(&t, b"new", 1, 5, b"v");
        let (without, with) = (schema_of(&[&u]), schema_of(&[&t, &u]));
        let id = t.id;
        node.run(async move {
            let store = runtime::local::<Store>();
            store.apply(vec![a.clone()], Durability::Mode).await.expect("accepted");
            store.flush(Some(id)).await.expect("flushed");
            store.apply(vec![a], Durability::Mode).await.expect("accepted");
            store.set_schema(&without);
            store.set_schema(&with);
            store.apply(vec![b], Durability::Synced).await.expect("accepted");
        });
        for _ in 0..2 {
            assert_eq!(rows(&mut node, &t, b"k"), 0);
            assert_eq!(rows(&mut node, &t, b"new"), 1);
            node.world.kill(node.id);
            node.boot(1).expect("opens");
        }
    }
}

#[test]
fn the_drop_of_the_table_that_fills_memory_stops_no_shard() {
    let (t, u) = two();
    let sync = CommitlogSync::Periodic { period_ms: 1000 };
    let mut node = Node::new(1, SimConfig::calm(), settings(sync), &[&t, &u]);
    node.boot(1).expect("opens");
    let a = fixture::insert(&t, b"k", 1, 5, &vec![1; 120 * 1024]);
    let schema = schema_of(&[&u]);
    node.run(async move {
        let store = runtime::local::<Store>();
        store.apply(vec![a], Durability::Mode).await.expect("accepted");
        store.set_schema(&schema);
    });
    node.run(async { runtime::sleep(std::time::Duration::from_secs(1)).await });
}

#[test]
fn a_batch_over_two_tables_is_not_torn_by_a_flush_after_the_log_failed() {
    let (t, u) = two();
    for seed in 0..12 {
        let sync = CommitlogSync::Periodic { period_ms: 50 };
        let mut node = Node::new(seed, SimConfig::calm(), settings(sync), &[&t, &u]);
        node.boot(1).expect("opens");
        let batch = vec![fixture::insert(&t, b"k", 1, 5, b"v"), fixture::insert(&u, b"k", 1, 5, b"v")];
        node.world.fail_next_syncs(node.id, 1);
        node.run(apply(batch, Durability::Mode)).expect("accepted");
        node.world.run_for(std::time::Duration::from_millis(200));
        let id = u.id;
        let flushed = node.run(async move { runtime::local::<Store>().flush(Some(id)).await });
        assert!(matches!(flushed, Err(crate::Error::CommitlogFailed(_))), "{flushed:?}");
        node.world.power_cut(node.id);
        node.boot(1).expect("opens");
        assert_eq!(rows(&mut node, &t, b"k"), rows(&mut node, &u, b"k"), "seed {seed}");
    }
}

#[test]
fn an_orderly_stop_after_the_log_failed_keeps_what_is_in_memory() {
    let (t, u) = two();
    let sync = CommitlogSync::Periodic { period_ms: 50 };
    let mut node = Node::new(1, SimConfig::calm(), settings(sync), &[&t, &u]);
    node.boot(1).expect("opens");
    node.world.fail_next_syncs(node.id, 1);
    node.run(apply(vec![fixture::insert(&t, b"k", 1, 5, b"v")], Durability::Mode)).expect("accepted");
    node.world.run_for(std::time::Duration::from_millis(200));
    node.world.stop(node.id);
    let id = node.id;
    assert!(node.world.run_until(|world| !world.alive(id), LIMIT), "it stops");
    assert_eq!(node.world.exit_code(node.id), Some(3), "and says that not all was in order");
    node.world.power_cut(node.id);
    node.boot(1).expect("opens");
    assert_eq!(rows(&mut node, &t, b"k"), 1);
}

#[test]
fn times_never_go_back_and_a_dropped_table_ends_at_one() {
    let (t, u) = two();
    let mut node = Node::new(1, SimConfig::calm(), settings(CommitlogSync::Batch), &[&t, &u]);
    node.boot(1).expect("opens");
    let (id, without, with) = (t.id, schema_of(&[&u]), schema_of(&[&t, &u]));
    // As of a clock that somebody sets back later.
    let future = 4_000_000_000_000_000;
    let (before, dropped) = node.run(async move {
        let store = runtime::local::<Store>();
        let at = store.next_time(future);
        store.truncate(id, at).await.expect("truncated");
        let before = store.next_time(0);
        store.set_schema(&without);
        runtime::sleep(std::time::Duration::from_secs(5)).await;
        store.set_schema(&with);
        let dropped = store.truncated_at(id).await;
        assert!(store.next_time(0) > dropped.expect("its end is known"));
        (before, dropped)
    });
    assert!(before > future && dropped.is_some_and(|dropped| dropped > before), "{before} {dropped:?}");
    node.stop();
    node.boot(2).expect("opens");
    node.run(async move {
        let store = runtime::local::<Store>();
        assert_eq!(store.truncated_at(id).await, dropped);
        assert!(Some(store.next_time(0)) > dropped, "nor over a restart");
    });
}
