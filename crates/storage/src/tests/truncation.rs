//! What was planned before a truncation does not come back behind it, whichever way the write goes.

use super::harness::*;
use crate::{CommitlogSync, Durability, Error, Planned, Point, Store, fixture};
use mutation::{Key, Scope};
use runtime::sim::SimConfig;
use std::time::Duration;

/// Shorter than a sync.
const STEP: Duration = Duration::from_micros(1);

fn node(sync: CommitlogSync) -> (Node, schema::Table, schema::Table) {
    let (table, other) = (fixture::table_with_id(1, "t"), fixture::table_with_id(2, "u"));
    let mut node = Node::new(1, SimConfig::calm(), settings(sync), &[&table, &other]);
    node.boot(1).expect("opens");
    (node, table, other)
}

#[test]
fn a_write_that_a_truncation_has_overtaken_is_refused_whole() {
    for sync in [CommitlogSync::Periodic { period_ms: 10_000 }, CommitlogSync::Batch] {
        let (mut node, table, other) = node(sync);
        let read = |table: &schema::Table| command(table, Scope::Keys(vec![Key::new(b"k")].into()));
        let (of_table, of_other) = (read(&table), read(&other));
        let write = fixture::insert(&table, b"k", 1, 5, b"v");
        let both = vec![fixture::insert(&other, b"k", 1, 5, b"v"), write.clone()];
        let id = table.id;
        node.run(async move {
            let store = runtime::local::<Store>();
            let apply = async |on, mutations| store.apply_planned(mutations, Durability::Mode, on).await;
            apply(Point(1, 6), vec![write.clone()]).await.expect("no floor yet");
            store.set_floors([(id, Point(1, 7))].into_iter());
            store.truncate(id, 100).await.expect("truncates");
            for mutations in [vec![write.clone()], both.clone()] {
                let refused = apply(Point(1, 6), mutations.clone()).await;
                assert!(matches!(refused, Err(Error::Overtaken { floor: Point(1, 7), .. })), "{refused:?}");
                if let Some((now, _)) = store.apply_planned_now(&mutations, Durability::Mode, Point(0, 9)) {
                    assert!(matches!(now, Err(Error::Overtaken { .. })), "{now:?}");
                }
            }
            assert_eq!(store.read(&of_table).await.expect("readable").live_rows, 0);
            assert_eq!(store.read(&of_other).await.expect("readable").live_rows, 0, "all or none");
            // Behind it any timestamp is as good as another.
            apply(Point(1, 7), both.clone()).await.expect("planned behind the truncation");
            assert_eq!(store.read(&of_table).await.expect("readable").live_rows, 1);
            assert_eq!(store.read(&of_other).await.expect("readable").live_rows, 1);
        });
    }
}

/// A write that waits for its turn is judged when it is logged, not when it came.
#[test]
fn a_write_that_waits_while_its_table_is_truncated_is_refused() {
    let (mut node, table, _) = node(CommitlogSync::Batch);
    let read = command(&table, Scope::Keys(vec![Key::new(b"k")].into()));
    let id = table.id;
    node.run(async move {
        let store = runtime::local::<Store>();
        let (first, second) =
            (fixture::insert(&table, b"k", 1, 5, b"v"), fixture::insert(&table, b"k", 1, 6, b"w"));
        let (writer, waiter, truncating) = (store.clone(), store.clone(), store.clone());
        let writing = runtime::spawn(runtime::Group::QUERY, async move {
            writer.apply_planned(vec![first], Durability::Mode, Point(1, 6)).await
        });
        runtime::sleep(STEP).await;
        // It waits for the write before it to be synced, and holds up new ones.
        let truncated =
            runtime::spawn(runtime::Group::QUERY, async move { truncating.truncate(id, 100).await });
        runtime::sleep(STEP).await;
        let waiting = runtime::spawn(runtime::Group::QUERY, async move {
            waiter.apply_planned(vec![second], Durability::Mode, Point(1, 6)).await
        });
        runtime::sleep(STEP).await;
        store.set_floors([(id, Point(1, 7))].into_iter());
        let (first, second) = (writing.await, waiting.await);
        truncated.await.expect("truncates");
        assert!(first.is_ok(), "it was logged before: {first:?}");
        assert!(matches!(second, Err(Error::Overtaken { .. })), "{second:?}");
        assert_eq!(store.read(&read).await.expect("readable").live_rows, 0);
    });
}

#[test]
fn what_was_kept_for_later_is_judged_by_history_and_of_a_lone_node_by_time() {
    let (mut node, table, other) = node(CommitlogSync::Batch);
    node.run(async move {
        let store = runtime::local::<Store>();
        let overtaken = async |id, on, at| store.is_overtaken(id, Planned { on, at }).await;
        assert!(!overtaken(table.id, Point::ALONE, 50).await, "nothing was truncated");
        store.truncate(table.id, 100).await.expect("truncates");
        assert!(overtaken(table.id, Point::ALONE, 100).await);
        assert!(!overtaken(table.id, Point::ALONE, 101).await);
        assert!(!overtaken(other.id, Point::ALONE, 50).await, "another table");
        // In a cluster clocks differ: what was planned behind the truncation by a clock that is late is behind it.
        store.set_floors([(table.id, Point(1, 7))].into_iter());
        assert!(!overtaken(table.id, Point(1, 7), 50).await);
        assert!(overtaken(table.id, Point(1, 6), i64::MAX).await);
        assert!(overtaken(table.id, Point(0, 9), i64::MAX).await, "of an earlier epoch");
        assert!(overtaken(table.id, Point::ALONE, 101).await, "planned before the node had a cluster");
    });
}
