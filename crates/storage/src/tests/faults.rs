//! Damaged files are named with their offsets and never believed; a full disk and a failed sync refuse writes and leave reads
//! alone; planted bugs show as lost or wrong data.

use super::harness::*;
use super::obstacles::{log_bytes, obstruct};
use crate::{CommitlogSync, Durability, Error, Store, fixture, prepare};
use base::Prng;
use mutation::{Key, Mutation, Scope};
use runtime::Bug;
use runtime::sim::SimConfig;
use schema::Table;
use std::rc::Rc;
use std::time::Duration;

const MIB: u64 = 1024 * 1024;

fn insert(table: &Table, key: u8, timestamp: i64, bytes: usize) -> Mutation {
    fixture::insert(table, &[key], 1, timestamp, &vec![key; bytes])
}

/// A node in batch mode with keys 0 to `keys` written and not flushed.
fn written(seed: u64, keys: u8, bug: Option<Bug>) -> (Node, Table) {
    let table = table();
    let mut node = Node::new(seed, SimConfig::calm(), settings(CommitlogSync::Batch), &[&table]);
    if let Some(bug) = bug {
        node.world.plant(node.id, bug);
    }
    node.boot(1).expect("opens");
    for key in 0..keys {
        node.run(apply(vec![insert(&table, key, 5, 700)], Durability::Mode)).expect("accepted");
    }
    (node, table)
}

/// The keys that can be read, with values as they were written.
fn keys(node: &mut Node, table: &Table) -> Vec<u8> {
    let rows = node.run(read_ring(command(table, Scope::Keys(Vec::new().into())))).expect("readable");
    let sound = |key: &Key, body: &[u8]| value(body) == Some(vec![key.bytes[0]; 700]);
    let mut keys: Vec<u8> =
        rows.iter().filter(|(key, _, body)| sound(key, body)).map(|(key, ..)| key.bytes[0]).collect();
    keys.sort();
    keys
}

fn log_file(node: &Node) -> String {
    let files = node.world.files(node.id);
    files.into_iter().map(|(path, _)| path).find(|path| path.ends_with(".log")).expect("a segment")
}

#[test]
fn a_flipped_bit_in_the_log_refuses_the_start_and_names_the_place() {
    let mut prng = Prng::new(4);
    for seed in 0..12 {
        let (mut node, table) = written(seed, 10, None);
        node.world.kill(node.id);
        let path = log_file(&node);
        // The header block and ten entries in a block each.
        let offset = prng.below(11 * 4096);
        assert!(node.world.flip_bit(node.id, &path, offset, prng.below(8) as u8));
        match node.boot(2) {
            // The last block is set right.
            Ok(()) => {
                assert_eq!(offset / 4096, 10, "only the last block may be torn");
                assert_eq!(keys(&mut node, &table).len(), 10);
            }
            Err(Error::Corrupt { kind, file, offset: at, .. }) => {
                assert_eq!(kind, "commitlog segment");
                assert_eq!(file.to_str(), Some(path.as_str()));
                assert_eq!(at, offset / 4096 * 4096);
            }
            Err(other) => panic!("{other}"),
        }
    }
}

#[test]
fn a_damaged_log_is_skipped_when_the_operator_says_so() {
    let (mut node, table) = written(1, 10, None);
    node.world.kill(node.id);
    let path = log_file(&node);
    assert!(node.world.flip_bit(node.id, &path, 5 * 4096 + 100, 3));
    assert!(node.boot(1).is_err());
    node.settings.ignore_replay_errors = true;
    node.boot(1).expect("opens");
    assert_eq!(keys(&mut node, &table), [0, 1, 2, 3]);
}

#[test]
fn segments_are_written_again_and_replayed_up_to_their_end() {
    for seed in 0..6 {
        let sync =
            if seed % 2 == 0 { CommitlogSync::Batch } else { CommitlogSync::Periodic { period_ms: 5 } };
        let table = table();
        let mut node = Node::new(seed, SimConfig::drawn(seed), settings(sync), &[&table]);
        node.boot(1).expect("opens");
        let mut newest = 0;
        for round in 0..40u8 {
            for key in 0..30 {
                let row = insert(&table, key, i64::from(round) + 1, 700);
                node.run(apply(vec![row], Durability::Mode)).expect("accepted");
            }
            node.run(everywhere(|store| async move { store.flush(None).await })).expect("flushes");
            let logs: Vec<String> =
                node.world.files(node.id).into_iter().map(|f| f.0).filter(|f| f.ends_with(".log")).collect();
            assert!(logs.len() <= 6, "seed {seed}: {logs:?}");
            let number = |path: &String| path[..path.len() - 4].rsplit('-').next()?.parse::<u32>().ok();
            newest = logs.iter().filter_map(number).max().unwrap_or(0).max(newest);
        }
        assert!(newest > 3, "seed {seed}: {newest} segments");
        for key in 100..110 {
            node.run(apply(vec![insert(&table, key, 9, 700)], Durability::Mode)).expect("accepted");
        }
        node.world.run_for(Duration::from_millis(200));
        node.world.power_cut(node.id);
        node.boot(2).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert_eq!(keys(&mut node, &table), (0..30).chain(100..110).collect::<Vec<u8>>(), "seed {seed}");
    }
}

#[test]
fn a_flipped_bit_in_the_manifest_refuses_the_start_and_names_the_place() {
    let mut prng = Prng::new(5);
    let mut refused = 0;
    for seed in 0..12 {
        let (mut node, table) = written(seed, 3, None);
        node.run(everywhere(|store| async move { store.flush(None).await })).expect("flushes");
        node.world.kill(node.id);
        let path = "/node/data/manifest-1-0";
        let size = node.world.files(node.id).iter().find(|file| file.0 == path).expect("it is there").1;
        let offset = prng.below(size);
        assert!(node.world.flip_bit(node.id, path, offset, prng.below(8) as u8));
        match node.boot(1) {
            // The last record is set right.
            Ok(()) => assert_eq!(keys(&mut node, &table), [0, 1, 2]),
            Err(Error::Corrupt { file, offset: at, .. }) => {
                assert_eq!(file.to_str(), Some(path));
                assert!(at <= offset);
                refused += 1;
            }
            Err(other) => panic!("{other}"),
        }
    }
    assert!(refused > 0, "most of the file is not the last record");
}

#[test]
fn planted_bugs_show() {
    let (mut node, table) = written(1, 10, Some(Bug::ReplayStopsEarly));
    node.world.kill(node.id);
    node.boot(1).expect("opens");
    assert!(keys(&mut node, &table).len() < 10, "a replay that stops early loses something");

    let lost = (0..4).any(|seed| {
        let (mut node, table) = written(seed, 10, Some(Bug::SkipSync));
        node.world.power_cut(node.id);
        node.boot(1).is_err() || keys(&mut node, &table).len() < 10
    });
    assert!(lost, "a skipped sync loses something");

    let (mut node, table) = written(1, 10, Some(Bug::IgnoreCrc));
    node.world.kill(node.id);
    let path = log_file(&node);
    assert!(node.world.flip_bit(node.id, &path, 5 * 4096 + 500, 3));
    let believed = node.boot(1).is_ok() && keys(&mut node, &table).len() < 10;
    assert!(believed, "an ignored checksum lets damage in");
}

#[test]
fn a_full_disk_refuses_writes_and_recovers() {
    for sync in [CommitlogSync::Batch, CommitlogSync::Periodic { period_ms: 20 }] {
        let table = table();
        let mut node = Node::new(3, SimConfig::calm(), settings(sync), &[&table]);
        node.boot(1).expect("opens");
        let write = |node: &mut Node, key: u8| {
            node.run(apply(vec![insert(&table, key, i64::from(key) + 1, 700)], Durability::Mode))
        };
        write(&mut node, 0).expect("there is space");
        node.world.run_for(Duration::from_millis(100));
        let used: u64 = node.world.files(node.id).iter().map(|file| file.1).sum();
        node.world.set_capacity(node.id, used);
        let mut accepted = 0;
        let refused = (0..2000).find_map(|index| {
            let result = write(&mut node, (index % 200) as u8);
            accepted += u64::from(result.is_ok());
            node.world.run_for(Duration::from_millis(1));
            result.err()
        });
        let error = refused.expect("a segment is full some day");
        assert!(error.is_shortage(), "{error}");
        assert!(accepted > 10, "what fits the segment is accepted");
        let before = keys(&mut node, &table);
        assert!(!before.is_empty(), "reads go on");
        node.world.set_capacity(node.id, used + 64 * MIB);
        node.world.run_for(Duration::from_secs(2));
        write(&mut node, 250).expect("there is space again");
        node.world.run_for(Duration::from_millis(100));
        node.world.power_cut(node.id);
        node.boot(2).expect("opens");
        let after = keys(&mut node, &table);
        assert!(before.iter().all(|key| after.contains(key)) && after.contains(&250));
    }
}

#[test]
fn a_failed_sync_ends_writes_and_not_reads() {
    let (mut node, table) = written(2, 5, None);
    node.world.fail_next_syncs(node.id, 1);
    let mut write = |key: u8| node.run(apply(vec![insert(&table, key, 9, 700)], Durability::Mode));
    assert!(matches!(write(100), Err(Error::CommitlogFailed(_))));
    assert!(matches!(write(101), Err(Error::CommitlogFailed(_))), "it stays so");
    assert_eq!(keys(&mut node, &table), [0, 1, 2, 3, 4]);
    node.world.kill(node.id);
    node.boot(1).expect("opens");
    let after = keys(&mut node, &table);
    assert!((0..5).all(|key| after.contains(&key)) && !after.contains(&101));
}

#[test]
fn a_synced_write_survives_in_periodic_mode() {
    for seed in 0..5 {
        let table = table();
        let sync = CommitlogSync::Periodic { period_ms: 10_000 };
        let mut node = Node::new(seed, SimConfig::calm(), settings(sync), &[&table]);
        node.boot(1).expect("opens");
        node.run(apply(vec![insert(&table, 1, 9, 700)], Durability::Mode)).expect("accepted");
        node.run(apply(vec![insert(&table, 2, 9, 700)], Durability::Synced)).expect("accepted");
        node.world.power_cut(node.id);
        node.boot(1).expect("opens");
        assert_eq!(keys(&mut node, &table), [1, 2]);
    }
}

#[test]
fn a_second_process_is_refused() {
    let (mut node, _) = written(1, 1, None);
    let settings = node.settings.clone();
    let error = node.run(async move { prepare(&settings, 1).await }).expect_err("the folder is in use");
    assert!(matches!(error, Error::FolderInUse { .. }), "{error}");
    assert_eq!(error.to_string(), "data folder \"/node/data\" is used by another process");
}

#[test]
fn a_dropped_table_is_gone_and_its_files_too() {
    let (kept, dropped) = (table(), fixture::table_with_id(2, "d"));
    let sync = CommitlogSync::Batch;
    let mut node = Node::new(1, SimConfig::calm(), settings(sync), &[&kept, &dropped]);
    node.boot(2).expect("opens");
    for key in 0..20 {
        for table in [&kept, &dropped] {
            node.run(apply(vec![insert(table, key, 5, 700)], Durability::Mode)).expect("accepted");
        }
    }
    node.run(everywhere(|store| async move { store.flush(None).await })).expect("flushes");
    node.run(apply(vec![insert(&dropped, 99, 5, 700)], Durability::Mode)).expect("accepted");
    node.schema = std::sync::Arc::new(schema_of(&[&kept]));
    let schema = node.schema.clone();
    node.run(everywhere(move |store| {
        store.set_schema(&schema);
        async { Ok(()) }
    }))
    .expect("follows");
    let refused = node.run(apply(vec![insert(&dropped, 5, 5, 700)], Durability::Mode));
    assert!(matches!(refused, Err(Error::UnknownTable(_))));
    node.world.run_for(Duration::from_secs(3));
    let of_dropped =
        |node: &Node| node.world.files(node.id).iter().filter(|file| file.0.contains("/d-")).count();
    assert_eq!(of_dropped(&node), 0);
    node.world.kill(node.id);
    node.boot(3).expect("entries of the dropped table are passed over");
    assert_eq!(keys(&mut node, &kept).len(), 20);
}

#[test]
fn a_start_without_anything_to_do_touches_no_table() {
    let tables: Vec<Table> = (1..=200).map(|id| fixture::table_with_id(id, &format!("t{id}"))).collect();
    let all: Vec<&Table> = tables.iter().collect();
    let mut node = Node::new(1, SimConfig::calm(), settings(CommitlogSync::Batch), &all);
    for _ in 0..2 {
        node.boot(2).expect("opens");
        node.stop();
    }
    let files = node.world.files(node.id);
    assert!(files.len() <= 3, "node file and a manifest for each shard: {files:?}");
}

#[test]
fn a_write_whose_caller_gave_up_becomes_visible() {
    let (mut node, table) = written(1, 3, None);
    let mutation = insert(&table, 9, 5, 700);
    let gave_up = node.run(async move {
        let store = runtime::local::<crate::Store>();
        let write = store.apply(vec![mutation], Durability::Mode);
        runtime::timeout(Duration::from_micros(1), write).await.is_err()
    });
    assert!(gave_up, "a sync takes longer");
    node.world.run_for(Duration::from_millis(100));
    assert_eq!(keys(&mut node, &table), [0, 1, 2, 9]);
    node.stop();
    node.boot(1).expect("opens");
    assert_eq!(keys(&mut node, &table), [0, 1, 2, 9]);
}

fn data_files(node: &Node) -> usize {
    node.world.files(node.id).iter().filter(|file| file.0.ends_with("-Data.db")).count()
}

/// Runs something whose manifest edit fails to be synced; what it says.
fn with_failing_manifest<Fut>(
    node: &mut Node,
    work: impl FnOnce(Rc<Store>) -> Fut + 'static,
) -> Result<(), Error>
where
    Fut: Future<Output = Result<(), Error>> + 'static,
{
    let mut task = node.world.spawn(node.id, async move {
        let store = runtime::local::<Store>();
        let other = store.clone();
        let turn = store.manifest.lock().await;
        let work = runtime::spawn(runtime::Group::MAIN, work(other));
        runtime::sleep(Duration::from_secs(1)).await;
        drop(turn);
        work.await
    });
    node.world.run_for(Duration::from_millis(900));
    node.world.fail_next_syncs(node.id, 1);
    node.world.run_for(Duration::from_secs(1));
    task.take().expect("it is done")
}

/// A node of one table that is compacted only when asked, every write synced.
fn uncompacted(seed: u64) -> (Node, Table) {
    let table = table();
    let mut settings = settings(CommitlogSync::Batch);
    settings.auto_compaction = false;
    let mut node = Node::new(seed, SimConfig::calm(), settings, &[&table]);
    node.boot(1).expect("opens");
    (node, table)
}

/// The same with an sstable of key 0 and one of key 1.
fn two_sstables(seed: u64) -> (Node, Table) {
    let (mut node, table) = uncompacted(seed);
    for key in 0..2 {
        node.run(apply(vec![insert(&table, key, 5, 700)], Durability::Mode)).expect("accepted");
        node.run(everywhere(|store| async move { store.flush(None).await })).expect("flushes");
    }
    (node, table)
}

#[test]
fn an_sstable_whose_record_failed_is_used_by_the_next_attempt() {
    for seed in 0..4 {
        let (mut node, table) = uncompacted(seed);
        let id = table.id;
        for key in 0..2 {
            node.run(apply(vec![insert(&table, key, 5, 700)], Durability::Mode)).expect("accepted");
            let failed =
                with_failing_manifest(&mut node, move |store| async move { store.flush(Some(id)).await });
            failed.expect_err("the manifest was not synced");
            assert_eq!(data_files(&node), 1 + usize::from(key));
            node.run(everywhere(|store| async move { store.flush(None).await })).expect("flushes");
            assert_eq!(data_files(&node), 1 + usize::from(key));
        }
        let failed = with_failing_manifest(&mut node, move |store| async move { store.compact(id).await });
        failed.expect_err("the manifest was not synced");
        assert_eq!(data_files(&node), 3);
        if seed % 2 == 0 {
            node.run(everywhere(move |store| async move {
                store.compact(id).await?;
                store.reap().await;
                Ok(())
            }))
            .expect("compacts");
            assert_eq!(data_files(&node), 1);
        }
        node.world.power_cut(node.id);
        node.boot(1).expect("opens");
        assert_eq!(keys(&mut node, &table), [0, 1], "seed {seed}");
    }
}

/// The first attempt's record may be in the file when the second cannot even begin to replace it.
#[test]
fn a_record_that_fails_twice_takes_nothing_away() {
    for seed in 0..24 {
        let (mut node, table) = two_sstables(seed);
        let id = table.id;
        for _ in 0..2 {
            let failed =
                with_failing_manifest(&mut node, move |store| async move { store.compact(id).await });
            failed.expect_err("the manifest was not synced");
        }
        assert_eq!(data_files(&node), 3, "both the inputs and the output");
        node.world.power_cut(node.id);
        node.boot(1).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert_eq!(keys(&mut node, &table), [0, 1], "seed {seed}");
    }
}

/// Two compactions may begin at once: one that finds nothing to record does not end the rest of the other.
#[test]
fn a_record_that_keeps_failing_is_tried_less_and_less_often() {
    let (mut node, table) = two_sstables(3);
    let id = table.id;
    let failed = with_failing_manifest(&mut node, move |store| async move { store.compact(id).await });
    failed.expect_err("the manifest was not synced");
    node.world.fail_next_syncs(node.id, u32::MAX);
    node.run(async move {
        let store = runtime::local::<Store>();
        store.table(id).expect("there").auto_compaction.set(true);
        store.compaction_wanted.notify();
    });
    let mut longest = Duration::ZERO;
    for _ in 0..60 {
        node.world.run_for(Duration::from_secs(10));
        let rest = node.run(async move {
            let table = runtime::local::<Store>().table(id).expect("there");
            let until = table.compaction_backoff.rests_until();
            until.map_or(Duration::ZERO, |until| until.saturating_duration_since(runtime::now()))
        });
        longest = longest.max(rest);
    }
    assert!(longest > Duration::from_secs(120), "{longest:?}");
}

#[test]
fn frozen_memtables_are_few_while_flushes_fail() {
    let table = table();
    let mut node = Node::new(1, SimConfig::calm(), settings(CommitlogSync::Batch), &[&table]);
    let schema = without_durable_writes(&table);
    node.schema = schema.into();
    node.boot(1).expect("opens");
    node.world.fail_next_syncs(node.id, u32::MAX);
    let mut refused = 0;
    for index in 0..600 {
        let write = insert(&table, (index % 200) as u8, 5 + index, 700);
        refused += u32::from(node.run(apply(vec![write], Durability::Mode)).is_err());
        node.world.run_for(Duration::from_millis(100));
    }
    assert!(refused > 0, "memory ends");
    let id = table.id;
    let (frozen, dirty) = node.run(async move {
        let store = runtime::local::<Store>();
        for at in 0..20 {
            let _ = store.truncate(id, at).await;
            let _ = store.flush(None).await;
        }
        let table = store.table(id).expect("there");
        (table.version().frozen.len(), store.pressure.memory())
    });
    assert!(frozen <= crate::limits::FROZEN_MAX, "{frozen} frozen memtables");
    // The budget, and the segment of 128 KiB by which a memtable grows at most.
    assert!(dirty <= (200 + 128) * 1024, "{dirty} bytes");
    node.world.fail_next_syncs(node.id, 0);
    node.world.run_for(Duration::from_secs(5));
    node.run(apply(vec![insert(&table, 250, 5, 700)], Durability::Mode)).expect("accepted again");
    assert!(keys(&mut node, &table).contains(&250));
}

fn without_durable_writes(table: &Table) -> schema::Schema {
    let mut keyspace = schema::Keyspace::new("ks", schema::Replication::Simple { factor: 1 });
    keyspace.durable_writes = false;
    keyspace.tables.insert(table.name.clone(), std::sync::Arc::new(table.clone()));
    schema::Schema::new(1, [(keyspace.name.clone(), std::sync::Arc::new(keyspace))].into())
}

#[test]
fn what_a_failed_sync_left_in_the_page_cache_is_not_believed() {
    for seed in 0..24 {
        let (mut node, table) = two_sstables(seed);
        let id = table.id;
        let failed = with_failing_manifest(&mut node, move |store| async move { store.compact(id).await });
        failed.expect_err("the manifest was not synced");
        // The next process sees the record, removes what the compaction replaced, and loses power.
        node.world.kill(node.id);
        node.start(1);
        node.world.run_for(Duration::from_micros(500 + 300 * seed));
        node.world.power_cut(node.id);
        node.boot(1).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert_eq!(keys(&mut node, &table), [0, 1], "seed {seed}");
    }
}

/// Two tables with small values, one shard, and no compaction unless asked for.
fn two_tables(auto_compaction: bool) -> (Node, Table, Table) {
    let (a, b) = (fixture::table_with_id(1, "a"), fixture::table_with_id(2, "b"));
    let mut settings = settings(CommitlogSync::Periodic { period_ms: 20 });
    settings.auto_compaction = auto_compaction;
    let mut node = Node::new(1, SimConfig::calm(), settings, &[&a, &b]);
    node.boot(1).expect("opens");
    (node, a, b)
}

#[test]
fn a_table_that_cannot_be_flushed_does_not_hold_up_the_others() {
    let (mut node, a, b) = two_tables(false);
    obstruct(&mut node, &a);
    for key in 0..11 {
        node.run(apply(vec![insert(&a, key, 5, 10_000)], Durability::Mode)).expect("accepted");
    }
    // As many as the log takes.
    for key in 0..120 {
        node.world.run_for(Duration::from_millis(30));
        let written = node.run(apply(vec![insert(&b, key, 5, 10_000)], Durability::Mode));
        written.unwrap_or_else(|error| panic!("write {key} is refused: {error}"));
    }
    assert!(data_files(&node) > 5, "the other table is flushed again and again");
    let told = node.world.log_lines().iter().filter(|(_, line)| line.contains("flush of table")).count();
    assert_eq!(told, 1, "lines in four seconds");
    assert!(log_bytes(&node) <= 2 * MIB + 2 * node.settings.segment_bytes);
    let rows = node.run(read_ring(command(&a, Scope::Keys(Vec::new().into())))).expect("readable");
    assert_eq!(rows.len(), 11);
}

#[test]
fn a_damaged_sstable_does_not_hold_up_the_compaction_of_other_tables() {
    let (mut node, a, b) = two_tables(false);
    let write_and_flush = |node: &mut Node, table: &Table, key: u8| {
        node.run(apply(vec![insert(table, key, 5, 700)], Durability::Mode)).expect("accepted");
        node.run(everywhere(|store| async move { store.flush(None).await })).expect("flushes");
    };
    for key in 0..4 {
        write_and_flush(&mut node, &a, key);
    }
    node.stop();
    let damaged = node.world.files(node.id).into_iter().map(|(path, _)| path);
    let damaged = damaged.into_iter().find(|path| path.ends_with("-Data.db")).expect("an sstable");
    assert!(node.world.flip_bit(node.id, &damaged, 40, 3));
    node.settings.auto_compaction = true;
    node.boot(1).expect("opens");
    for key in 0..8 {
        write_and_flush(&mut node, &b, key);
    }
    node.world.run_for(Duration::from_secs(600));
    let of_b =
        node.world.files(node.id).iter().filter(|f| f.0.contains("/b-") && f.0.ends_with("-Data.db")).count();
    assert!(of_b < 4, "{of_b} sstables of the other table");
    let failed: Vec<String> =
        node.world.log_lines().into_iter().map(|(_, l)| l).filter(|l| l.contains("compaction")).collect();
    assert!((2..10).contains(&failed.len()), "{} attempts in ten minutes", failed.len());
    assert!(failed[0].contains(&damaged), "the file is named: {}", failed[0]);
}
