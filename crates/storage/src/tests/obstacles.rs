//! What one table or one sync that fails must not do to everything else.

use super::harness::*;
use crate::{CommitlogSync, Durability, Error, Store, fixture};
use mutation::Mutation;
use runtime::Group;
use runtime::sim::SimConfig;
use schema::Table;
use std::cell::RefCell;
use std::rc::Rc;
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

fn insert(table: &Table, key: u8, bytes: usize) -> Mutation {
    fixture::insert(table, &[key], 1, 5, &vec![key; bytes])
}

fn write(node: &mut Node, table: &Table, key: u8, bytes: usize) -> Result<(), Error> {
    node.run(apply(vec![insert(table, key, bytes)], Durability::Mode))
}

/// Puts a file where the folder of a table should be.
pub(super) fn obstruct(node: &mut Node, table: &Table) {
    let dir = crate::table::table_dir("/node/data".as_ref(), table);
    node.run(async move {
        let keyspace = dir.parent().expect("a folder above");
        runtime::file::create_dir_all(keyspace).await.expect("made");
        runtime::file::write_new_synced(&dir, b"in the way").await.expect("written");
    });
}

pub(super) fn log_bytes(node: &Node) -> u64 {
    node.world.files(node.id).iter().filter(|file| file.0.ends_with(".log")).map(|file| file.1).sum()
}

fn data_files(node: &Node, of: &str) -> usize {
    let files = node.world.files(node.id);
    files.iter().filter(|file| file.0.contains(of) && file.0.ends_with("-Data.db")).count()
}

#[test]
fn the_log_of_a_table_that_cannot_be_flushed_has_a_bound() {
    for truncated in [false, true] {
        fill_the_log_and_free_it(truncated);
    }
}

/// `truncated`: the table in the way is truncated, instead of made whole.
fn fill_the_log_and_free_it(truncated: bool) {
    let (mut node, a, b) = two_tables(CommitlogSync::Periodic { period_ms: 20 }, 16 * MIB);
    obstruct(&mut node, &a);
    write(&mut node, &a, 1, 700).expect("accepted");
    let (mut accepted, mut refused) = (0, Vec::new());
    for key in 0..400 {
        node.world.run_for(Duration::from_millis(20));
        match write(&mut node, &b, (key % 250) as u8, 10_000) {
            Ok(()) => accepted += 1,
            Err(error) => refused.push(error.to_string()),
        }
    }
    assert!(accepted > 150, "{accepted} writes accepted before the log is full");
    assert!(refused.len() > 150, "{} writes refused", refused.len());
    assert!(refused.iter().all(|error| error.contains("/a-")), "the reason is told: {}", refused[0]);
    let bytes = log_bytes(&node);
    assert!(
        bytes <= 2 * node.settings.commitlog_bytes + 2 * node.settings.segment_bytes,
        "{bytes} bytes of log"
    );
    assert_eq!(data_files(&node, "/b-"), 0, "no flush of the other table makes the log shorter");

    if truncated {
        node.run(everywhere(move |store| async move { store.truncate(a.id, 9).await })).expect("truncated");
    } else {
        let dir = crate::table::table_dir("/node/data".as_ref(), &a);
        node.run(async move { runtime::file::remove(&dir).await }).expect("removed");
        node.world.run_for(Duration::from_secs(10));
    }
    for key in 0..60 {
        write(&mut node, &b, key, 10_000).expect("accepted again");
        node.world.run_for(Duration::from_millis(20));
    }
    assert!(log_bytes(&node) <= node.settings.commitlog_bytes + 2 * node.settings.segment_bytes);
}

/// A client that writes one entry after the other, and the milliseconds at which it was answered.
fn writer(node: &mut Node, table: &Table) -> Rc<RefCell<Vec<u64>>> {
    let answered: Rc<RefCell<Vec<u64>>> = Rc::default();
    let (table, told) = (table.clone(), answered.clone());
    let writing = async move {
        let start = runtime::now();
        for key in 0..=u8::MAX {
            apply(vec![insert(&table, key, 100)], Durability::Mode).await.expect("accepted");
            let after = runtime::now().saturating_duration_since(start);
            told.borrow_mut().push(after.as_millis() as u64);
            runtime::sleep(Duration::from_millis(10)).await;
        }
    };
    drop(node.world.spawn(node.id, writing));
    answered
}

#[test]
fn writes_wait_for_a_sync_that_is_late_and_no_more_is_lost_than_was_answered_before() {
    let sync = CommitlogSync::Periodic { period_ms: 100 };
    for (lag, most) in [(None, 150), (Some(Duration::from_millis(700)), 700)] {
        let table = fixture::table();
        let slow = Duration::from_secs(1);
        let config = SimConfig { disk_sync: (slow, slow), ..SimConfig::calm() };
        let settings = crate::Settings { sync_lag: lag, ..settings(sync) };
        let mut node = Node::new(1, config, settings, &[&table]);
        node.boot(1).expect("opens");
        let answered = writer(&mut node, &table);
        node.world.run_for(Duration::from_millis(900));
        let last = *answered.borrow().last().expect("some");
        assert!((most - 20..=most).contains(&last), "{lag:?}: answered until {last} ms");
        let durable = answered.borrow().len();
        let goes_on = node.world.run_until(|_| answered.borrow().len() > durable, LIMIT);
        assert!(goes_on, "{lag:?}: writes go on when the sync is done");
        node.world.power_cut(node.id);
        node.boot(1).expect("opens");
        let held = (0..=u8::MAX)
            .filter(|key| node.run(read_key(of_key(&table, &[*key]))).expect("readable").len() == 1);
        assert!(held.count() >= durable, "{lag:?}: what others waited for is there");
    }
}

#[test]
fn a_log_whose_entries_may_be_younger_than_a_period_is_synced_in_time() {
    let table = fixture::table();
    let sync_lag = Some(Duration::from_millis(50));
    let settings = crate::Settings { sync_lag, ..settings(CommitlogSync::Periodic { period_ms: 10_000 }) };
    let mut node = Node::new(1, SimConfig::calm(), settings, &[&table]);
    node.boot(1).expect("opens");
    // Nobody else writes: who would wait for a sync is not there.
    write(&mut node, &table, 1, 100).expect("accepted");
    node.world.run_for(Duration::from_millis(100));
    node.world.power_cut(node.id);
    node.boot(1).expect("opens");
    assert_eq!(node.run(read_key(of_key(&table, &[1]))).expect("readable").len(), 1);
}

#[test]
fn memory_is_flushed_again_after_an_operator_flushed_what_the_flusher_could_not() {
    let (mut node, a, b) = two_tables(CommitlogSync::Periodic { period_ms: 20 }, MIB);
    node.stop();
    // So that a long log is no reason for a flush.
    (node.settings.segment_bytes, node.settings.commitlog_bytes) = (MIB, 64 * MIB);
    node.boot(1).expect("opens");
    obstruct(&mut node, &a);
    let refused = (0..40).find_map(|key| write(&mut node, &a, key, 100_000).err());
    assert!(refused.is_some(), "memory is full of what cannot be flushed");
    // Once more with all of it, and a long rest.
    node.world.run_for(Duration::from_secs(20));
    let dir = crate::table::table_dir("/node/data".as_ref(), &a);
    let id = a.id;
    node.run(async move {
        runtime::file::remove(&dir).await.expect("removed");
        runtime::local::<Store>().flush(Some(id)).await.expect("flushed");
    });
    for key in 0..40 {
        write(&mut node, &b, key, 118_000).expect("accepted, and it ends");
    }
}

#[test]
fn a_sync_that_finds_no_space_ends_writes() {
    let (mut node, a, _) = two_tables(CommitlogSync::Batch, MIB);
    write(&mut node, &a, 1, 700).expect("accepted");
    node.world.fail_next_syncs_as_full(node.id, 1);
    let refused = write(&mut node, &a, 2, 700);
    assert!(matches!(refused, Err(Error::CommitlogFailed(_))), "{refused:?}");
    node.world.run_for(Duration::from_secs(1));
    let refused = write(&mut node, &a, 3, 700);
    assert!(matches!(refused, Err(Error::CommitlogFailed(_))), "it stays so: {refused:?}");
}

#[test]
fn a_segment_whose_making_was_not_synced_is_never_used() {
    // The first segment.
    let (mut node, a, _) = two_tables(CommitlogSync::Batch, MIB);
    node.world.fail_next_syncs_as_full(node.id, 1);
    let refused = write(&mut node, &a, 1, 700);
    assert!(matches!(refused, Err(Error::CommitlogFailed(_))), "{refused:?}");

    // One that is made ahead, when a quarter of the one before is written: the header and fifteen entries.
    let (mut node, a, _) = two_tables(CommitlogSync::Batch, MIB);
    for key in 0..15 {
        write(&mut node, &a, key, 700).expect("accepted");
    }
    node.world.fail_next_syncs(node.id, 1);
    node.world.run_for(Duration::from_millis(100));
    let mut writes = 0..100;
    let refused = writes.find_map(|key| write(&mut node, &a, key, 700).err());
    assert!(matches!(refused, Some(Error::CommitlogFailed(_))), "{refused:?}");
    assert!(writes.start > 40, "what fits the segment is accepted, not only {} entries", writes.start);
}

#[test]
fn a_stop_flushes_every_table_that_can_be_flushed() {
    let (mut node, a, b) = two_tables(CommitlogSync::Batch, MIB);
    obstruct(&mut node, &a);
    for table in [&a, &b] {
        write(&mut node, table, 1, 700).expect("accepted");
    }
    node.world.stop(node.id);
    let id = node.id;
    assert!(node.world.run_until(|world| !world.alive(id), LIMIT), "it stops");
    assert_eq!(node.world.exit_code(node.id), Some(3), "and says that not all was in order");
    assert_eq!(data_files(&node, "/b-"), 1);
    assert!(log_bytes(&node) > 0, "what was not flushed is in the log");
}

#[test]
fn a_drop_does_not_wait_for_the_flush_of_its_table() {
    let (mut node, a, b) = two_tables(CommitlogSync::Periodic { period_ms: 20 }, 64 * MIB);
    for key in 0..40 {
        write(&mut node, &a, key, 100_000).expect("accepted");
    }
    let without = schema_of(&[&b]);
    let (id, world) = (a.id, node.id);
    let flushed = node.run(async move {
        let store = runtime::local::<Store>();
        let flusher = store.clone();
        let flush = runtime::spawn_now(Group::FLUSH, async move { flusher.flush(Some(id)).await });
        let dir = store.table(id).expect("there").dir.clone();
        // The flush has begun to write.
        while runtime::file::read_dir(&dir).await.map_or(0, |names| names.len()) == 0 {
            assert!(!flush.is_finished(), "the flush takes a while");
            runtime::sleep(Duration::from_micros(50)).await;
        }
        store.set_schema(&without);
        store.drops_recorded(&[id]).await.expect("recorded");
        flush.await.expect("nothing of a table that is gone has to be flushed");
        store.metrics.flushes.get()
    });
    assert_eq!(flushed, 0, "the flush is given up");
    node.world.run_for(Duration::from_secs(2));
    let files = node.world.files(world);
    assert!(files.iter().all(|file| !file.0.contains("/a-")), "{files:?}");
}

#[test]
fn a_compaction_that_found_no_space_is_tried_again_soon() {
    let (mut node, a, _) = two_tables(CommitlogSync::Batch, MIB);
    let rests = node.run(async move {
        let table = runtime::local::<Store>().table(a.id).expect("there");
        let rest_after = |error: fn() -> Error| {
            for _ in 0..10 {
                table.compaction_backoff.failed(error());
            }
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
