//! Tombstones over what only the log has: a restart must not bring back what they hid.

use super::harness::*;
use crate::{CommitFailurePolicy, CommitlogSync, Durability, Error, Settings, Store, fixture};
use base::Token;
use mutation::{Deletion, Mutation, MutationBuilder, Scope};
use runtime::sim::SimConfig;
use schema::{TOMBSTONE_GC, Table};
use std::time::Duration;

const GRACE: Duration = Duration::from_secs(10);

fn table_with_grace() -> Table {
    let mut builder = fixture::table().to_builder();
    builder.options_mut().gc_grace_seconds = GRACE.as_secs() as i32;
    builder.build().expect("a valid table")
}

fn node_of(sync: CommitlogSync, tables: &[&Table]) -> Node {
    node_with(1, sync, tables, |_| {})
}

/// A node of a seed, with other settings.
fn node_with(seed: u64, sync: CommitlogSync, tables: &[&Table], change: impl FnOnce(&mut Settings)) -> Node {
    let mut settings = settings(sync);
    settings.auto_compaction = false;
    settings.memtable_bytes = 64 << 20;
    settings.commitlog_bytes = 256 << 20;
    change(&mut settings);
    let mut node = Node::new(seed, SimConfig::calm(), settings, tables);
    node.boot(1).expect("opens");
    node
}

/// A node that begins a new log when its log fails.
fn node_that_ignores(table: &Table) -> Node {
    let ignore = |settings: &mut Settings| settings.commit_failure = CommitFailurePolicy::Ignore;
    node_with(1, CommitlogSync::Batch, &[table], ignore)
}

/// Fills the disk and writes batches over two tables until the log is refused room for one; its key.
fn refused_for_room(node: &mut Node, table: &Table, other: &Table) -> u8 {
    node.world.set_capacity(node.id, 1);
    let batch = |key: u8| {
        vec![
            fixture::insert(table, &[key], 1, 5, &[key; 20_000]),
            fixture::insert(other, &[key], 1, 5, &[key; 100]),
        ]
    };
    let refused = (0..60).find_map(|key| Some((key, node.run(apply(batch(key), Durability::Mode)).err()?)));
    let Some((refused, Error::NoSpace(_))) = refused else { panic!("the log was refused room: {refused:?}") };
    refused
}

fn insert(table: &Table, key: u8) -> Mutation {
    fixture::insert(table, &[key], 1, 5, &[key; 700])
}

fn write(node: &mut Node, mutation: Mutation) -> Result<(), Error> {
    node.run(apply(vec![mutation], Durability::Mode))
}

fn flush(node: &mut Node) {
    node.run(everywhere(|store| async move { store.flush(None).await })).expect("flushes");
}

fn compact(node: &mut Node, table: &Table) {
    let id = table.id;
    node.run(everywhere(move |store| async move { store.compact(id).await })).expect("compacts");
}

/// Deletes partitions, now, and has the tombstones in an sstable.
fn delete(node: &mut Node, table: &Table, keys: std::ops::Range<u8>) {
    let now_s = node.run(async { runtime::unix_seconds() });
    for key in keys {
        let mut builder = MutationBuilder::new(table.id, Token::of_key(&[key]), &[key]);
        builder.deletion(Deletion { timestamp: 9, local_time: now_s });
        write(node, builder.finish()).expect("accepted");
    }
    flush(node);
}

fn tombstones(node: &mut Node, table: &Table) -> u64 {
    let id = table.id;
    node.run(async move {
        let version = runtime::local::<Store>().table(id).expect("known").version();
        version.sstables.iter().map(|sstable| sstable.entry.meta.tombstones).sum()
    })
}

fn keys(node: &mut Node, table: &Table) -> Vec<u8> {
    let rows = node.run(read_ring(command(table, Scope::Keys(Vec::new().into())))).expect("readable");
    let mut keys: Vec<u8> = rows.iter().map(|(key, ..)| key.bytes[0]).collect();
    keys.sort_unstable();
    keys
}

/// Keys after a kill and another start.
fn keys_after_kill(node: &mut Node, table: &Table) -> Vec<u8> {
    node.world.kill(node.id);
    node.boot(1).expect("opens");
    keys(node, table)
}

#[test]
fn a_tombstone_stays_while_a_failed_log_may_bring_back_what_it_hides() {
    let table = table_with_grace();
    let mut node = node_of(CommitlogSync::Batch, &[&table]);
    delete(&mut node, &table, 1..2);
    node.world.fail_next_syncs(node.id, 1);
    assert!(matches!(write(&mut node, insert(&table, 1)), Err(Error::CommitlogFailed(_))));
    node.world.run_for(GRACE * 2);
    compact(&mut node, &table);
    assert_eq!(tombstones(&mut node, &table), 1);
    assert_eq!(keys_after_kill(&mut node, &table), [] as [u8; 0]);
}

#[test]
fn it_stays_as_well_where_tombstones_may_go_at_once() {
    let mut builder = fixture::table().to_builder();
    builder.options_mut().extensions.insert(TOMBSTONE_GC.into(), b"mode=immediate".to_vec());
    let table = builder.build().expect("a valid table");
    let mut node = node_of(CommitlogSync::Batch, &[&table]);
    delete(&mut node, &table, 1..2);
    node.world.fail_next_syncs(node.id, 1);
    assert!(matches!(write(&mut node, insert(&table, 1)), Err(Error::CommitlogFailed(_))));
    node.world.run_for(GRACE);
    compact(&mut node, &table);
    assert_eq!(tombstones(&mut node, &table), 1);
    assert_eq!(keys_after_kill(&mut node, &table), [] as [u8; 0]);
}

#[test]
fn a_new_log_lets_tombstones_go_again() {
    let table = table_with_grace();
    let mut node = node_that_ignores(&table);
    delete(&mut node, &table, 1..2);
    node.world.fail_next_syncs(node.id, 1);
    assert!(matches!(write(&mut node, insert(&table, 1)), Err(Error::CommitlogFailed(_))));
    node.world.run_for(GRACE * 2);
    write(&mut node, insert(&table, 2)).expect("a new log has begun");
    compact(&mut node, &table);
    assert_eq!(tombstones(&mut node, &table), 0);
    assert_eq!(keys_after_kill(&mut node, &table), [2]);
}

/// Whoever gave up waiting is not told, and must not keep the new log from beginning.
#[test]
fn a_new_log_begins_when_a_caller_of_the_old_one_went_away() {
    let table = table_with_grace();
    let mut node = node_that_ignores(&table);
    write(&mut node, insert(&table, 1)).expect("accepted");
    let second = Duration::from_secs(1);
    node.world.slow_disk(node.id, (second, second));
    node.world.fail_next_syncs(node.id, 1);
    let impatient = insert(&table, 2);
    let gone = node.run(async move {
        let store = runtime::local::<Store>();
        runtime::timeout(Duration::from_millis(10), store.apply(vec![impatient], Durability::Mode)).await
    });
    gone.expect_err("it takes longer");
    node.world.run_for(Duration::from_secs(60));
    write(&mut node, insert(&table, 3)).expect("a new log has begun");
    assert_eq!(keys_after_kill(&mut node, &table), [1, 3]);
}

/// A full disk refuses a batch whose entry is written all the same once there is room. It is whole or not there, before
/// a restart and after it, although one of its tables is flushed meanwhile.
#[test]
fn what_a_full_disk_refused_is_whole_when_its_entry_is_in_the_log() {
    let table = table_with_grace();
    let other = fixture::table_with_id(2, "other");
    let mut node = node_of(CommitlogSync::Batch, &[&table, &other]);
    delete(&mut node, &table, 200..201);
    write(&mut node, insert(&other, 100)).expect("accepted");
    let refused = refused_for_room(&mut node, &table, &other);
    assert!(!keys(&mut node, &table).contains(&refused), "it is not there while there is no room");
    node.world.set_capacity(node.id, 1 << 40);
    node.world.run_for(Duration::from_secs(20));
    let id = table.id;
    node.run(async move { runtime::local::<Store>().flush(Some(id)).await }).expect("flushes");
    for round in 0..2 {
        let there = keys(&mut node, &table).contains(&refused);
        assert!(there, "{round}: there was room");
        assert_eq!(keys(&mut node, &other).contains(&refused), there, "{round}: half of it");
        node.world.kill(node.id);
        node.boot(1).expect("opens");
    }
}

/// What was refused and stays with the store takes memory: a write that finds none left is refused, too, and does not wait for room.
#[test]
fn a_full_disk_refuses_writes_also_when_what_it_refused_fills_memory() {
    let table = table_with_grace();
    let small = |settings: &mut Settings| settings.memtable_bytes = 64 * 1024;
    let mut node = node_with(1, CommitlogSync::Batch, &[&table], small);
    node.world.set_capacity(node.id, 1);
    let large = |key: u8| fixture::insert(&table, &[key], 1, 5, &[key; 100_000]);
    for _ in 0..2 {
        let begun = node.world.now();
        for key in 0..10 {
            let refused = write(&mut node, large(key));
            assert!(matches!(refused, Err(ref error) if error.is_shortage()), "{refused:?}");
        }
        assert!(node.world.now() < begun + Duration::from_secs(10), "they do not wait");
    }
    node.world.set_capacity(node.id, 1 << 40);
    node.world.run_for(Duration::from_secs(20));
    for key in 20..30 {
        write(&mut node, large(key)).expect("there is room");
    }
}

/// What only a stop would flush, or a new log, must not tear a batch apart that a failed log may have.
#[test]
fn what_a_failed_sync_refused_comes_back_whole_or_not_at_all() {
    let table = table_with_grace();
    let other = fixture::table_with_id(2, "other");
    let mut whole = 0;
    for seed in 0..12 {
        let mut node = node_with(seed, CommitlogSync::Batch, &[&table, &other], |_| {});
        write(&mut node, insert(&table, 1)).expect("accepted");
        node.world.fail_next_syncs(node.id, 1);
        let batch = vec![insert(&table, 2), insert(&other, 2)];
        let refused = node.run(apply(batch, Durability::Mode));
        assert!(matches!(refused, Err(Error::CommitlogFailed(_))), "{refused:?}");
        node.world.stop(node.id);
        let id = node.id;
        assert!(node.world.run_until(|world| !world.alive(id), LIMIT), "the node stops");
        node.boot(1).expect("opens");
        let (here, there) = (keys(&mut node, &table), keys(&mut node, &other));
        assert_eq!(here.contains(&2), there.contains(&2), "seed {seed}: half of it");
        assert!(here.contains(&1));
        whole += usize::from(there.contains(&2));
    }
    assert!(0 < whole, "sometimes the disk has it");
}

/// A truncation forgets its table's part of what was refused, for good; one that fails forgets nothing.
#[test]
fn a_truncation_that_fails_keeps_what_was_refused_whole() {
    for fails in [false, true] {
        let table = table_with_grace();
        let other = fixture::table_with_id(2, "other");
        let mut node = node_of(CommitlogSync::Batch, &[&table, &other]);
        write(&mut node, insert(&table, 100)).expect("accepted");
        let refused = refused_for_room(&mut node, &table, &other);
        let id = table.id;
        if !fails {
            // Room for the manifest, and not for a segment.
            node.world.set_capacity(node.id, 1 << 40);
            let used = (1 << 40) - node.world.free_space(node.id);
            node.world.set_capacity(node.id, used + 64 * 1024);
        }
        let truncated = node.run(async move { runtime::local::<Store>().truncate(id, 1).await });
        assert_eq!(truncated.is_err(), fails, "{truncated:?}");
        node.world.set_capacity(node.id, 1 << 40);
        node.world.run_for(Duration::from_secs(20));
        for round in 0..2 {
            let here = keys(&mut node, &table);
            assert_eq!((here.contains(&100), here.contains(&refused)), (fails, fails), "{round}");
            assert!(keys(&mut node, &other).contains(&refused), "{round}");
            node.world.kill(node.id);
            node.boot(1).expect("opens");
        }
    }
}

/// A flush covers the log up to the first entry that waits for its sync; what it wrote of later ones is replayed.
#[test]
fn a_tombstone_stays_while_the_log_has_what_was_flushed_ahead_of_a_waiting_write() {
    for waits_in_same in [true, false] {
        let table = table_with_grace();
        let other = fixture::table_with_id(2, "other");
        let mut node = node_of(CommitlogSync::Periodic { period_ms: 10_000 }, &[&table, &other]);
        delete(&mut node, &table, 1..2);
        let slow = Duration::from_millis(300);
        node.world.slow_disk(node.id, (slow, slow));
        let waiting = insert(if waits_in_same { &table } else { &other }, 2);
        let waiting = node.world.spawn(node.id, apply(vec![waiting], Durability::Synced));
        write(&mut node, insert(&table, 1)).expect("accepted at once");
        assert!(!waiting.done());
        let id = table.id;
        node.run(async move { runtime::local::<Store>().flush(Some(id)).await }).expect("flushes");
        assert!(waiting.done());
        node.world.run_for(GRACE * 2);
        compact(&mut node, &table);
        assert_eq!(tombstones(&mut node, &table), u64::from(waits_in_same));
        let expected = if waits_in_same { &[2][..] } else { &[] };
        assert_eq!(keys_after_kill(&mut node, &table), expected);
    }
}
