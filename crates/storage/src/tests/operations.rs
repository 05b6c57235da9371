//! What operators ask: numbers that are what was done, snapshots that are whole or not there, a node that is drained.

use super::harness::*;
use super::obstacles::obstruct;
use crate::snapshot::{Snapshot, SnapshotOptions, clear_snapshot, expire_snapshots, list_snapshots};
use crate::{
    CommitlogSync, Durability, Error, ImportOptions, Store, TableStats, TombstoneLimits, Verify, fixture,
};
use base::{Prng, Token};
use mutation::{Deletion, Key, Liveness, Mutation, MutationBuilder, Scope};
use runtime::sim::SimConfig;
use schema::{Table, TableId};
use std::path::{Path, PathBuf};
use std::time::Duration;

const DATA: &str = "/node/data";

fn insert(table: &Table, key: u8, timestamp: i64) -> Mutation {
    fixture::insert(table, &[key], 1, timestamp, &[key; 700])
}

fn node(seed: u64, table: &Table) -> Node {
    let periodic = CommitlogSync::Periodic { period_ms: 1000 };
    let mut node = Node::new(seed, SimConfig::calm(), settings(periodic), &[table]);
    node.settings.auto_compaction = false;
    node.boot(1).expect("opens");
    node
}

fn write(node: &mut Node, table: &Table, keys: std::ops::Range<u8>, timestamp: i64) {
    for key in keys {
        node.run(apply(vec![insert(table, key, timestamp)], Durability::Mode)).expect("accepted");
    }
}

fn read(node: &mut Node, table: &Table, key: u8) -> usize {
    let asked = command(table, Scope::Keys(vec![Key::new(&[key])].into()));
    node.run(read_key(asked)).expect("readable").len()
}

fn flush(node: &mut Node) {
    node.run(everywhere(|store| async move { store.flush(None).await })).expect("flushes");
}

fn stats(node: &mut Node) -> TableStats {
    let mut all = node.run(async { runtime::local::<Store>().table_stats().await });
    assert_eq!(all.len(), 1);
    all.remove(0)
}

#[test]
fn numbers_are_what_was_done() {
    let table = table();
    let mut node = node(1, &table);
    write(&mut node, &table, 0..20, 5);
    let before = stats(&mut node);
    assert_eq!((before.writes.count, before.partitions, before.memtable_cells), (20, 20, 20));
    assert!(before.memtable_bytes > 20 * 700);
    assert_eq!((before.sstables, before.live_bytes, before.memtable_switches), (0, 0, 0));
    assert_eq!((before.compression_ratio(), before.percent_repaired()), (None, 100.0));
    assert_eq!(read(&mut node, &table, 3), 1);

    flush(&mut node);
    node.run(async move { runtime::local::<Store>().forget_cached(table.id) }).expect("it is there");
    write(&mut node, &table, 10..30, 6);
    flush(&mut node);
    for key in 0..60 {
        read(&mut node, &table, key);
    }
    let after = stats(&mut node);
    assert_eq!((after.sstables, after.memtable_switches, after.memtable_bytes), (2, 2, 0));
    assert_eq!(after.partitions, 30, "keys of both sstables count once");
    // Every key was looked for in memory alone first, where that was possible.
    let met = &after.sstables_per_read.ever;
    let held: Vec<(u64, u64)> = met.buckets().filter(|(sstables, _)| *sstables > 0).collect();
    assert_eq!(held, [(1, 20), (2, 10)]);
    // A read in small pieces, which the seed may ask for, comes back to an sstable.
    assert!(after.filter_hits >= 40, "{}", after.filter_hits);
    assert!(after.filter_negatives > 0);
    let on_disk = |node: &Node| {
        let files = node.world.files(node.id);
        let own = files.iter().filter(|(path, _)| path.contains("/ks/t-") && !path.ends_with("Digest.crc32"));
        own.filter(|(path, _)| !path.ends_with("TOC.txt")).map(|(_, size)| *size).sum::<u64>()
    };
    assert_eq!(after.live_bytes, on_disk(&node));
    assert!(after.compression_ratio().expect("compressed") < 1.0);
    assert_eq!((after.partition_sizes.count(), after.partition_cells.count()), (40, 40));
    assert!(after.partition_sizes.max() > 700 && after.partition_cells.max() == 1);
    assert_eq!((after.percent_repaired(), after.droppable_tombstones), (0.0, 0));

    let id = table.id;
    node.run(async move { runtime::local::<Store>().compact(id).await }).expect("compacts");
    let record = node.run(async { runtime::local::<Store>().compaction_history() }).remove(0);
    assert_eq!((&*record.keyspace, &*record.table), ("ks", "t"));
    assert_eq!(record.kind.name(), "Major compaction");
    assert_eq!(record.merged.into_iter().collect::<Vec<_>>(), [(1, 20), (2, 10)]);
    assert_eq!(record.bytes_in, after.stored_bytes);
    let merged = stats(&mut node);
    assert_eq!((after.longest_sstable_micros, merged.longest_sstable_micros), (0, 1));
    assert_eq!((merged.sstables, merged.partitions, merged.stored_bytes), (1, 30, record.bytes_out));
    assert!(node.run(async { runtime::local::<Store>().compactions() }).is_empty());
}

#[test]
fn a_running_compaction_is_seen_from_start_to_end() {
    let table = table();
    let id = table.id;
    let mut node = node(9, &table);
    for timestamp in [5, 6] {
        write(&mut node, &table, 0..120, timestamp);
        flush(&mut node);
    }
    let compaction = node.world.spawn(node.id, async move { runtime::local::<Store>().compact(id).await });
    let mut seen = Vec::new();
    while !compaction.done() {
        seen.extend(node.run(async { runtime::local::<Store>().compactions() }));
        node.world.run_for(Duration::from_micros(20));
    }
    let (first, last) = (&seen[0], &seen[seen.len() - 1]);
    assert_eq!((&*first.keyspace, &*first.table, first.id), ("ks", "t", last.id));
    assert!(first.completed < last.completed && last.completed <= last.total, "{first:?} {last:?}");
    assert!(
        seen.windows(2).all(|pair| pair[0].completed <= pair[1].completed && pair[0].total == pair[1].total)
    );
    assert!(last.total > 2 * 120 * 700);
    assert_eq!(node.run(async { runtime::local::<Store>().compaction_totals() }).completed, 1);
}

#[test]
fn what_is_recent_fades_while_totals_stay() {
    let table = table();
    let mut node = node(2, &table);
    write(&mut node, &table, 0..8, 5);
    assert_eq!(stats(&mut node).writes.recent.count(), 8);
    node.world.run_for(Duration::from_secs(61));
    let later = stats(&mut node);
    // Half of each bucket, rounded.
    assert_eq!(later.writes.count, 8);
    assert!((4..=5).contains(&later.writes.recent.count()), "{:?}", later.writes.recent);
    node.world.run_for(Duration::from_secs(600));
    let later = stats(&mut node);
    assert_eq!((later.writes.count, later.writes.recent.count()), (8, 0));
    node.stop();
}

/// Row tombstones at these clusterings.
fn delete_rows(table: &Table, key: &[u8], rows: std::ops::Range<i32>) -> Mutation {
    let mut builder = MutationBuilder::new(table.id, Token::of_key(key), key);
    for c in rows {
        let deletion = Deletion { timestamp: 9, local_time: 1_600_000_000 };
        builder.write_row(&fixture::clustering(c), Liveness::NONE, deletion, |_| {});
    }
    builder.finish()
}

#[test]
fn tombstones_are_counted_and_too_many_end_a_read() {
    let table = table();
    let periodic = CommitlogSync::Periodic { period_ms: 1000 };
    let mut node = Node::new(3, SimConfig::calm(), settings(periodic), &[&table]);
    node.settings.tombstones = TombstoneLimits { warn: 10, fail: 50 };
    node.boot(1).expect("opens");
    node.run(apply(vec![delete_rows(&table, b"few", 0..50)], Durability::Mode)).expect("accepted");
    node.run(apply(vec![delete_rows(&table, b"many", 0..51)], Durability::Mode)).expect("accepted");
    for flushed in [false, true] {
        if flushed {
            flush(&mut node);
        }
        let ask = |key: &[u8], met: u32| {
            let mut asked = command(&table, Scope::Keys(vec![Key::new(key)].into()));
            asked.tombstones = met;
            asked
        };
        let (few, later, many) = (ask(b"few", 0), ask(b"few", 1), ask(b"many", 0));
        let mut range = command(&table, Scope::Range(mutation::TokenRange::ALL));
        range.row_limit = 1;
        let answers = node.run(async move {
            let store = runtime::local::<Store>();
            [
                store.read(&few).await,
                store.read(&later).await,
                store.read(&many).await,
                store.read(&range).await,
            ]
        });
        let [few, later, many, range] = answers;
        assert_eq!(few.expect("as many as are allowed").tombstones, 50);
        for refused in [later, many, range] {
            match refused {
                Err(Error::TooManyTombstones { count, table, .. }) => {
                    assert!(count > 50 && table == "ks.t", "{count} {table}");
                }
                other => panic!("{other:?}"),
            }
        }
    }
    let met = stats(&mut node).tombstones;
    assert_eq!((met.ever.max(), met.count), (103, 8), "the reads that failed are counted, too");
    let told =
        node.world.log_lines().into_iter().filter(|(_, line)| line.contains("tombstone_failure_threshold"));
    assert_eq!(told.count(), 1, "reads of one moment are one line");
}

/// Makes a snapshot on all shards, as the whole node does.
async fn snapshot(id: TableId, tag: String, ttl_ms: Option<i64>) -> Result<(), Error> {
    let options = SnapshotOptions { tag, skip_flush: false, ttl_ms };
    runtime::local::<Store>().snapshot(id, "CREATE TABLE", &options).await
}

fn snapshots(node: &mut Node) -> Vec<Snapshot> {
    node.run(async { list_snapshots(Path::new(DATA)).await }).expect("listed")
}

#[test]
fn a_snapshot_keeps_what_the_table_lets_go() {
    let table = table();
    let id = table.id;
    let mut node = node(4, &table);
    write(&mut node, &table, 0..20, 5);
    node.run(snapshot(id, "before".into(), None)).expect("made");
    let [made] = &*snapshots(&mut node) else { panic!("one") };
    assert_eq!((&*made.tag, &*made.keyspace, &*made.table), ("before", "ks", "t"));
    assert!(made.created_ms.is_some() && made.expires_ms.is_none());
    let small = made.true_size;
    assert!(small < 1000 && made.size > 4000, "only its own two files are not the table's: {made:?}");
    match node.run(snapshot(id, "before".into(), None)) {
        Err(Error::Snapshot(text)) => assert_eq!(text, "Snapshot before already exists."),
        other => panic!("{other:?}"),
    }

    write(&mut node, &table, 0..20, 6);
    flush(&mut node);
    node.run(async move { runtime::local::<Store>().compact(id).await }).expect("compacts");
    node.world.run_for(Duration::from_secs(5));
    node.run(async { runtime::local::<Store>().reap().await });
    let [kept] = &*snapshots(&mut node) else { panic!("one") };
    assert_eq!(kept.true_size, kept.size, "nothing of it is the table's any more");
    node.stop();
    node.boot(3).expect("snapshots are no garbage");
    assert_eq!(snapshots(&mut node).len(), 1);
    let dir = node.run(async move { runtime::local::<Store>().table_dir(id) }).expect("known");
    node.run(async move { clear_snapshot(&dir, "before").await }).expect("removed");
    assert!(snapshots(&mut node).is_empty());
    assert!(!node.world.files(node.id).iter().any(|(path, _)| path.contains("/snapshots/")));
    assert_eq!(read(&mut node, &table, 7), 1);
}

const COPIED: ImportOptions =
    ImportOptions { copy: true, verify: Verify::Full, keep_level: false, keep_repaired: false };

fn compact_shard_0(node: &mut Node, id: TableId) {
    node.run(async move { runtime::local::<Store>().compact(id).await }).expect("compacts");
    node.run(async { runtime::local::<Store>().reap().await });
}

fn delete(node: &mut Node, table: &Table, key: u8) {
    let now_s = node.run(async { runtime::unix_seconds() });
    let mut builder = MutationBuilder::new(table.id, Token::of_key(&[key]), &[key]);
    builder.deletion(Deletion { timestamp: 9, local_time: now_s - 60 });
    node.run(apply(vec![builder.finish()], Durability::Mode)).expect("accepted");
}

/// Puts the sstables of a folder into the table's place.
fn restore(node: &mut Node, table: &Table, folder: PathBuf) {
    let id = table.id;
    node.run(everywhere(move |store| async move { store.truncate(id, 10).await })).expect("truncates");
    node.run(async move { runtime::local::<Store>().import(id, &folder, COPIED).await }).expect("imports");
}

/// Deletes a key whose data shard 0 has taken out of a file that shard 1 still holds, compacts shard 0, and puts a snapshot
/// in the table's place. Returns how many rows the key has.
fn deleted_and_restored(node: &mut Node, table: &Table, key: u8) -> usize {
    let id = table.id;
    delete(node, table, key);
    flush(node);
    compact_shard_0(node, id);
    assert_eq!(read(node, table, key), 0);
    node.run(snapshot(id, "restored".into(), None)).expect("made");
    let dir = node.run(async move { runtime::local::<Store>().table_dir(id) }).expect("known");
    restore(node, table, dir.join("snapshots/restored"));
    assert_eq!(keys_there(node, table, 0..20), 19 + read(node, table, key), "the others are there");
    read(node, table, key)
}

fn keys_there(node: &mut Node, table: &Table, keys: std::ops::Range<u8>) -> usize {
    keys.map(|key| read(node, table, key)).sum()
}

/// A table without grace, and a key of it that the first of two shards owns.
fn graceless() -> (Table, u8) {
    let mut builder = table().to_builder();
    builder.options_mut().gc_grace_seconds = 0;
    let table = builder.build().expect("a valid table");
    let key = (0..20).find(|key| base::shard_of(Token::of_key(&[*key]), 2) == 0).expect("half of them");
    (table, key)
}

#[test]
fn a_snapshot_brings_nothing_back_that_an_earlier_start_left_in_a_shared_file() {
    let (table, key) = graceless();
    let mut node = node(12, &table);
    write(&mut node, &table, 0..20, 5);
    flush(&mut node);
    node.stop();
    node.boot(2).expect("opens");
    compact_shard_0(&mut node, table.id);
    node.stop();
    node.boot(2).expect("opens");
    assert_eq!(deleted_and_restored(&mut node, &table, key), 0);
}

#[test]
fn a_snapshot_brings_nothing_back_that_an_import_left_in_a_shared_file() {
    let (table, key) = graceless();
    let id = table.id;
    let mut node = node(13, &table);
    write(&mut node, &table, 0..20, 5);
    flush(&mut node);
    node.run(snapshot(id, "first".into(), None)).expect("made");
    node.run(everywhere(move |store| async move { store.truncate(id, 6).await })).expect("truncates");
    node.stop();
    node.boot(2).expect("opens");
    // It has compacted before, so what it shares was looked at.
    node.run(apply(vec![insert(&table, key, 7)], Durability::Mode)).expect("accepted");
    flush(&mut node);
    compact_shard_0(&mut node, id);
    let dir = node.run(async move { runtime::local::<Store>().table_dir(id) }).expect("known");
    let folder = dir.join("snapshots/first");
    node.run(async move { runtime::local::<Store>().import(id, &folder, COPIED).await }).expect("imports");
    compact_shard_0(&mut node, id);
    assert_eq!(deleted_and_restored(&mut node, &table, key), 0);
}

/// What a snapshot will link keeps tombstones on every shard, whichever is held first.
#[test]
fn a_snapshot_that_is_being_made_keeps_what_it_needs() {
    let (table, key) = graceless();
    let id = table.id;
    for first in [0, 1] {
        let mut node = node(14, &table);
        write(&mut node, &table, 0..20, 5);
        flush(&mut node);
        node.stop();
        node.boot(2).expect("opens");
        compact_shard_0(&mut node, id);
        delete(&mut node, &table, key);
        flush(&mut node);
        let folder =
            node.run(async move { runtime::local::<Store>().table_dir(id) }).expect("known").join("snapshot");
        let made = folder.clone();
        node.run(async move { runtime::file::create_dir_all(&made).await }).expect("made");
        for shard in [first, 1 - first] {
            let held = folder.clone();
            node.run(on_shard(shard, move |store| async move { store.hold(id, &held, false).await }))
                .expect("held");
            for shard in [1, 0] {
                node.run(on_shard(shard, move |store| async move {
                    store.compact(id).await?;
                    store.reap().await;
                    Ok::<(), Error>(())
                }))
                .expect("compacts");
            }
        }
        let linked = folder.clone();
        node.run(everywhere(move |store| {
            let folder = linked.clone();
            async move { store.link_held(&folder).await }
        }))
        .expect("linked");
        let held = folder.clone();
        node.run(everywhere(move |store| {
            store.release(&held);
            async { Ok(()) }
        }))
        .expect("released");
        restore(&mut node, &table, folder);
        assert_eq!(keys_there(&mut node, &table, 0..20), 19);
        assert_eq!(read(&mut node, &table, key), 0, "shard {first} first");
    }
}

#[test]
fn a_snapshot_with_a_life_goes_by_itself() {
    let table = table();
    let id = table.id;
    let mut node = node(5, &table);
    write(&mut node, &table, 0..3, 5);
    node.run(snapshot(id, "short".into(), Some(90_000))).expect("made");
    node.run(snapshot(id, "long".into(), None)).expect("made");
    assert!(node.run(async { expire_snapshots(Path::new(DATA)).await }).expect("looked"), "one will");
    node.world.run_for(Duration::from_secs(200));
    let left = snapshots(&mut node);
    assert_eq!(left.iter().map(|snapshot| &*snapshot.tag).collect::<Vec<_>>(), ["long"]);
}

#[test]
fn after_a_crash_snapshots_are_whole_or_gone() {
    let (mut whole, mut swept) = (0, 0);
    for seed in seeds(0, 40) {
        let table = table();
        let id = table.id;
        let mut prng = Prng::new(seed);
        let mut node = Node::new(seed, SimConfig::drawn(seed), settings(CommitlogSync::Batch), &[&table]);
        node.boot(1 + prng.below(3) as u16).expect("opens");
        for key in 0..10 {
            node.run(apply(vec![insert(&table, key, 5)], Durability::Mode)).expect("accepted");
        }
        node.run(snapshot(id, "old".into(), None)).expect("made");
        drop(node.world.spawn(node.id, async move {
            let dir = runtime::local::<Store>().table_dir(id).expect("known");
            for round in 0..4 {
                let made = snapshot(id, format!("new{round}"), None).await;
                assert!(made.is_ok(), "{made:?}");
                let _ = clear_snapshot(&dir, if round == 1 { "old" } else { "none" }).await;
            }
        }));
        node.world.run_for(Duration::from_micros(prng.below(60_000)));
        node.world.power_cut(node.id);
        let partial =
            |node: &Node| node.world.files(node.id).iter().any(|(path, _)| path.contains(".partial/"));
        swept += u32::from(partial(&node));
        node.boot(1 + prng.below(3) as u16).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert!(!partial(&node), "seed {seed}");
        for found in snapshots(&mut node) {
            let files = node.world.files(node.id);
            let mark = format!("/snapshots/{}/", found.tag);
            let held: Vec<&str> =
                files.iter().filter_map(|(path, _)| path.split_once(&mark).map(|(_, name)| name)).collect();
            assert!(found.created_ms.is_some(), "seed {seed}: {} has its manifest", found.tag);
            for name in ["schema.cql", "manifest.json"] {
                assert!(held.contains(&name), "seed {seed}: {} lacks {name}", found.tag);
            }
            let data = held.iter().filter(|name| name.ends_with("Data.db")).count();
            assert!(data > 0, "seed {seed}: {} lacks its data", found.tag);
            for part in ["Partitions.db", "Rows.db", "Statistics.db", "TOC.txt"] {
                let parts = held.iter().filter(|name| name.ends_with(part)).count();
                assert_eq!(parts, data, "seed {seed}: {} lacks {part}", found.tag);
            }
            whole += 1;
        }
    }
    assert!(whole > 40 && swept > 3, "{whole} were whole, {swept} were swept");
}

#[test]
fn a_full_disk_makes_no_half_snapshot_and_harms_nothing() {
    let table = table();
    let id = table.id;
    let mut node = node(6, &table);
    write(&mut node, &table, 0..5, 5);
    flush(&mut node);
    let used: u64 = node.world.files(node.id).iter().map(|(_, size)| size).sum();
    node.world.set_capacity(node.id, used);
    node.run(snapshot(id, "full".into(), None)).expect_err("its own files need space");
    assert!(snapshots(&mut node).is_empty());
    assert!(!node.world.files(node.id).iter().any(|(path, _)| path.contains("/snapshots/")));
    assert_eq!(read(&mut node, &table, 2), 1);
    node.world.set_capacity(node.id, used + (1 << 20));
    node.run(snapshot(id, "full".into(), None)).expect("there is space again");
    assert_eq!(snapshots(&mut node).len(), 1);
}

#[test]
fn a_drained_node_refuses_writes_and_has_everything_in_files() {
    let table = table();
    let mut node = node(7, &table);
    write(&mut node, &table, 0..10, 5);
    node.run(everywhere(|store| async move { store.quiesce().await })).expect("drains");
    match node.run(apply(vec![insert(&table, 1, 9)], Durability::Mode)) {
        Err(Error::Drained) => {}
        other => panic!("{other:?}"),
    }
    assert!(matches!(node.run(apply(vec![insert(&table, 2, 9)], Durability::Mode)), Err(Error::Drained)));
    assert_eq!(read(&mut node, &table, 4), 1);
    assert_eq!((stats(&mut node).memtable_bytes, stats(&mut node).sstables), (0, 1));
    node.world.kill(node.id);
    node.boot(2).expect("opens");
    assert_eq!(read(&mut node, &table, 9), 1);
    node.run(apply(vec![insert(&table, 1, 9)], Durability::Mode)).expect("a restart ends it");
}

#[test]
fn one_table_that_cannot_be_flushed_keeps_no_other_in_memory() {
    let (first, second) = (fixture::table_with_id(1, "a"), fixture::table_with_id(2, "b"));
    let periodic = CommitlogSync::Periodic { period_ms: 1000 };
    let mut node = Node::new(8, SimConfig::calm(), settings(periodic), &[&first, &second]);
    node.boot(1).expect("opens");
    obstruct(&mut node, &first);
    for table in [&first, &second] {
        write(&mut node, table, 0..4, 5);
    }
    node.run(everywhere(|store| async move { store.flush(None).await })).expect_err("one fails");
    let all = node.run(async { runtime::local::<Store>().table_stats().await });
    let of = |name: &str| all.iter().find(|stats| stats.table == name).expect("known");
    assert_eq!((of("a").sstables, of("b").sstables, of("b").memtable_bytes), (0, 1, 0));
    assert_eq!(of("a").partitions, 4, "what could not be flushed is in memory");
}

#[test]
fn flushed_sstables_stay_among_the_backups_of_tables_that_want_them() {
    let wanted = table();
    let mut builder = fixture::table_with_id(2, "u").to_builder();
    builder.options_mut().incremental_backups = false;
    let unwanted = builder.build().expect("a valid table");
    let mut settings = settings(CommitlogSync::Batch);
    (settings.incremental_backups, settings.auto_compaction) = (true, false);
    let mut node = Node::new(3, SimConfig::calm(), settings, &[&wanted, &unwanted]);
    node.boot(1).expect("opens");
    let backups = |node: &Node| {
        let files = node.world.files(node.id).into_iter().map(|(path, _)| path);
        let of_backups = files.filter(|path| path.contains("/backups/") && path.ends_with("-Data.db"));
        of_backups.collect::<Vec<String>>()
    };
    for round in 1..=3 {
        for table in [&wanted, &unwanted] {
            let write = fixture::insert(table, b"k", 1, round, b"value");
            node.run(apply(vec![write], Durability::Mode)).expect("accepted");
        }
        node.run(everywhere(|store| async move { store.flush(None).await })).expect("flushed");
        if round == 2 {
            node.run(everywhere(|store| async move {
                store.set_incremental_backups(false);
                Ok(())
            }))
            .expect("switched");
        }
    }
    let id = wanted.id;
    node.run(everywhere(move |store| async move { store.compact(id).await })).expect("compacted");
    let before = backups(&node);
    assert_eq!(before.len(), 2, "{before:?}");
    assert!(before.iter().all(|path| path.contains("/t-")), "{before:?}");
    // They are nobody's garbage.
    node.stop();
    node.boot(2).expect("opens");
    assert_eq!(backups(&node), before);
}
