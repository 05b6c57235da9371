//! Compactions: what they keep, what they let go, and how much room and time they take. Strategies are tested where they are.

use super::harness::*;
use crate::{
    CommitlogSync, CompactionKind, CompactionRoom, Durability, Error, Granularity, ImportOptions,
    MajorCompaction, Store, Verify, fixture,
};
use base::{Prng, Token};
use mutation::{Cell, ColumnView, Deletion, Key, Liveness, Mutation, MutationBuilder, RowView, Scope, Slice};
use runtime::Bug;
use runtime::sim::SimConfig;
use schema::{TOMBSTONE_GC, Table};
use sstable::{CompressionChoice, EncodingStats, Format, Writer, WriterOptions};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Long enough ago for every grace.
const LONG_AGO: u32 = 1_500_000_000;

/// Options of a strategy, one after the other, that make many small sstables.
pub(super) fn strategy(seed: u64) -> BTreeMap<String, String> {
    let runs = [("base_shard_count", "4"), ("min_sstable_size", "0B"), ("scaling_parameters", "T2")];
    let (class, options) = match seed % 6 {
        0 => ("SizeTiered", &[("min_threshold", "2")][..]),
        1 => ("Leveled", &[("sstable_size_in_mb", "1")][..]),
        2 => ("TimeWindow", &[("compaction_window_unit", "MINUTES"), ("tombstone_threshold", "0.1")][..]),
        3 => ("Unified", &runs[..]),
        4 => ("Unified", &[("scaling_parameters", "L4"), ("min_sstable_size", "0B")][..]),
        _ => ("Incremental", &[("min_threshold", "2")][..]),
    };
    let class =
        ("class".to_string(), format!("org.apache.cassandra.db.compaction.{class}CompactionStrategy"));
    options.iter().map(|(k, v)| (k.to_string(), v.to_string())).chain([class]).collect()
}

/// The table of the tests with another strategy and no grace.
fn table_of(seed: u64) -> Table {
    let mut builder = table().to_builder();
    builder.options_mut().compaction = strategy(seed);
    builder.options_mut().gc_grace_seconds = 0;
    builder.build().expect("a valid table")
}

fn node(table: &Table) -> Node {
    node_of_seed(table, 1)
}

fn node_of_seed(table: &Table, seed: u64) -> Node {
    let mut settings = settings(CommitlogSync::Periodic { period_ms: 1000 });
    settings.auto_compaction = false;
    settings.memtable_bytes = 64 << 20;
    settings.commitlog_bytes = 256 << 20;
    let mut node = Node::new(seed, SimConfig::calm(), settings, &[table]);
    node.boot(1).expect("opens");
    node
}

fn put(node: &mut Node, mutation: Mutation) {
    node.run(apply(vec![mutation], Durability::Mode)).expect("accepted");
}

fn insert(table: &Table, key: u8, timestamp: i64) -> Mutation {
    fixture::insert(table, &[key], 1, timestamp, &[key; 100])
}

fn delete(table: &Table, key: u8, timestamp: i64) -> Mutation {
    let mut builder = MutationBuilder::new(table.id, Token::of_key(&[key]), &[key]);
    builder.deletion(Deletion { timestamp, local_time: LONG_AGO });
    builder.finish()
}

fn store<T: 'static, Fut: Future<Output = T> + 'static>(
    node: &mut Node,
    work: impl FnOnce(Rc<Store>) -> Fut,
) -> T {
    let future = work(node.run(async { runtime::local::<Store>() }));
    node.run(future)
}

fn flush(node: &mut Node) {
    store(node, |store| async move { store.flush(None).await }).expect("flushes");
}

fn compact(node: &mut Node, table: &Table) -> Result<(), Error> {
    let id = table.id;
    store(node, |store| async move { store.compact(id).await })
}

/// Data files of the table that are there, oldest first.
fn data_files(node: &Node) -> Vec<String> {
    let files = node.world.files(node.id).into_iter().map(|(path, _)| path);
    let mut files: Vec<String> = files.filter(|path| path.ends_with("-Data.db")).collect();
    files.sort_by_key(|path| (path.len(), path.clone()));
    files
}

fn sstables(node: &mut Node, table: &Table) -> usize {
    let id = table.id;
    store(node, |store| async move { store.sstables(id) }).expect("known")
}

/// Keys that have rows.
fn keys(node: &mut Node, table: &Table) -> Vec<u8> {
    let mut asked = command(table, Scope::Keys(Vec::new().into()));
    asked.now_s = node.run(async { runtime::unix_seconds() });
    let rows = node.run(read_ring(asked)).expect("readable");
    let mut keys: Vec<u8> = rows.iter().map(|(key, ..)| key.bytes[0]).collect();
    keys.sort_unstable();
    keys
}

/// Tombstones that the sstables of the table hold.
fn tombstones(node: &mut Node, table: &Table) -> u64 {
    let id = table.id;
    store(node, |store| async move {
        let version = store.table(id).expect("known").version();
        version.sstables.iter().map(|sstable| sstable.entry.meta.tombstones).sum()
    })
}

fn compact_file(node: &mut Node, file: &str) -> usize {
    let files = vec![file.to_string()];
    store(node, |store| async move { store.compact_files(&files).await }).expect("compacts")
}

#[test]
fn a_tombstone_stays_as_long_as_older_data_may_be_elsewhere() {
    let table = table_of(0);
    let mut node = node(&table);
    put(&mut node, insert(&table, 7, 5));
    flush(&mut node);
    put(&mut node, delete(&table, 7, 9));
    flush(&mut node);
    let [_, tombstone] = &data_files(&node)[..] else { panic!("two") };
    assert_eq!(compact_file(&mut node, &tombstone.clone()), 1);
    assert_eq!(
        (tombstones(&mut node, &table), keys(&mut node, &table)),
        (1, vec![]),
        "an sstable holds older data"
    );
    compact(&mut node, &table).expect("compacts");
    assert_eq!((sstables(&mut node, &table), keys(&mut node, &table)), (0, vec![]), "both are gone together");

    // Data in memory: older keeps the tombstone, newer does not.
    for (timestamp, stays) in [(8, 1), (10, 0)] {
        put(&mut node, delete(&table, 9, 9));
        flush(&mut node);
        put(&mut node, insert(&table, 9, timestamp));
        compact(&mut node, &table).expect("compacts");
        assert_eq!(tombstones(&mut node, &table), stays);
        assert_eq!(keys(&mut node, &table).contains(&9), stays == 0);
        store(&mut node, |store| async move { store.truncate(fixture::table().id, 1).await })
            .expect("truncates");
    }
}

#[test]
fn a_purge_without_proof_shows() {
    let table = table_of(0);
    let mut node = node(&table);
    node.world.plant(node.id, Bug::PurgeWithoutProof);
    put(&mut node, insert(&table, 7, 5));
    flush(&mut node);
    put(&mut node, delete(&table, 7, 9));
    flush(&mut node);
    let tombstone = data_files(&node)[1].clone();
    compact_file(&mut node, &tombstone);
    assert_eq!(keys(&mut node, &table), [7], "what was deleted is back");
}

#[test]
fn an_sstable_of_tombstones_is_not_rewritten_while_none_may_go() {
    for (incomplete, rewritten) in [(true, false), (false, true)] {
        let table = table_of(0);
        let mut node = node(&table);
        for key in 0..20 {
            put(&mut node, delete(&table, key, 9));
        }
        flush(&mut node);
        node.stop();
        node.boot(1).expect("opens");
        let before = data_files(&node);
        let id = table.id;
        node.run(async move {
            let store = runtime::local::<Store>();
            let table = store.table(id).expect("there");
            table.is_incomplete.set(incomplete);
            table.auto_compaction.set(true);
            store.compaction_wanted.notify();
        });
        node.world.run_for(Duration::from_secs(30));
        assert_eq!(data_files(&node) != before, rewritten);
    }
}

#[test]
fn tombstones_go_when_the_option_says_so() {
    for (mode, grace, stays) in [
        ("timeout", 0, false),
        ("timeout", 864_000, true),
        ("immediate", 864_000, false),
        ("repair", 0, true),
        ("disabled", 0, true),
    ] {
        let mut builder = table().to_builder();
        let options = builder.options_mut();
        options.gc_grace_seconds = grace;
        options.extensions.insert(TOMBSTONE_GC.into(), format!("mode={mode}").into_bytes());
        let table = builder.build().expect("a valid table");
        let mut node = node(&table);
        let now_s = node.run(async { runtime::unix_seconds() });
        let mut builder = MutationBuilder::new(table.id, Token::of_key(&[1]), &[1]);
        builder.deletion(Deletion { timestamp: 9, local_time: now_s - 60 });
        put(&mut node, builder.finish());
        flush(&mut node);
        compact(&mut node, &table).expect("compacts");
        assert_eq!(tombstones(&mut node, &table) > 0, stays, "{mode} {grace}");
    }
}

/// A row that lives for a minute.
fn fleeting(table: &Table, key: u8, timestamp: i64, now_s: u32) -> Mutation {
    let mut builder = MutationBuilder::new(table.id, Token::of_key(&[key]), &[key]);
    let liveness = Liveness::expiring(timestamp, 60, now_s + 60);
    builder.write_row(&fixture::clustering(1), liveness, Deletion::LIVE, |row| {
        row.simple(0, Cell::expiring(timestamp, 60, now_s + 60, b"soon gone"));
    });
    builder.finish()
}

#[test]
fn what_has_expired_is_dropped_whole_unless_it_hides_something() {
    for older_elsewhere in [false, true] {
        let table = table_of(2);
        let mut node = node(&table);
        node.stop();
        node.settings.auto_compaction = true;
        node.boot(1).expect("opens");
        let now_s = node.run(async { runtime::unix_seconds() });
        // Another window, so that no compaction takes both.
        let timestamp = i64::from(now_s) * 1_000_000;
        if older_elsewhere {
            put(&mut node, insert(&table, 3, timestamp - 600_000_000));
            put(&mut node, insert(&table, 200, timestamp - 600_000_000));
            flush(&mut node);
        }
        for key in 0..20 {
            put(&mut node, fleeting(&table, key, timestamp, now_s));
        }
        flush(&mut node);
        node.world.run_for(Duration::from_secs(1500));
        let left = sstables(&mut node, &table);
        if older_elsewhere {
            assert_eq!(keys(&mut node, &table), [200], "the row that was overwritten stays away");
            assert!(left >= 1);
        } else {
            assert_eq!((left, data_files(&node).len()), (0, 0));
        }
    }
}

#[test]
fn a_table_that_looks_for_the_expired_without_a_pause_leaves_the_shard_in_peace() {
    let mut builder = table_of(2).to_builder();
    let options = &mut builder.options_mut().compaction;
    options.insert("expired_sstable_check_frequency_seconds".into(), "0".into());
    let table = builder.build().expect("a valid table");
    let mut node = node(&table);
    node.stop();
    node.settings.auto_compaction = true;
    node.boot(1).expect("opens");
    let now_s = node.run(async { runtime::unix_seconds() });
    let timestamp = i64::from(now_s) * 1_000_000;
    // Older and alive, in another window: what expires in between stays.
    for key in [0, 200] {
        put(&mut node, insert(&table, key, timestamp - 600_000_000));
    }
    flush(&mut node);
    for key in 0..20 {
        put(&mut node, fleeting(&table, key, timestamp, now_s));
    }
    flush(&mut node);
    node.world.run_for(Duration::from_secs(120));
    let polls = |node: &mut Node| {
        let groups = node.run(async { runtime::metrics::groups() });
        groups.iter().map(|group| group.polls).sum::<u64>()
    };
    let before = polls(&mut node);
    node.world.run_for(Duration::from_secs(60));
    let after = polls(&mut node);
    assert!(after - before < 2000, "{} polls in a minute in which nothing is to be done", after - before);
    assert_eq!(keys(&mut node, &table), [200]);
}

#[test]
fn an_sstable_full_of_tombstones_is_compacted_alone() {
    let mut builder = table().to_builder();
    let options = builder.options_mut();
    options.gc_grace_seconds = 0;
    options.compaction.insert("tombstone_compaction_interval".into(), "3600".into());
    let table = builder.build().expect("a valid table");
    let mut node = node(&table);
    node.stop();
    node.settings.auto_compaction = true;
    node.boot(1).expect("opens");
    for key in 0..20 {
        let mutation = if key % 2 == 0 { insert(&table, key, 5) } else { delete(&table, key, 5) };
        put(&mut node, mutation);
    }
    flush(&mut node);
    assert_eq!(tombstones(&mut node, &table), 10);
    node.world.run_for(Duration::from_secs(3000));
    assert_eq!(tombstones(&mut node, &table), 10, "it is not old enough");
    node.world.run_for(Duration::from_secs(1000));
    assert_eq!((tombstones(&mut node, &table), keys(&mut node, &table).len()), (0, 10));
    let history = node.run(async { runtime::local::<Store>().compaction_history() });
    assert_eq!(history.iter().map(|record| record.kind).collect::<Vec<_>>(), [CompactionKind::Tombstones]);
}

/// The table of the first strategy, whose tombstones go when repaired or at once.
fn table_purging(only_repaired: bool) -> Table {
    let mut builder = table_of(0).to_builder();
    let option = ("only_purge_repaired_tombstones".to_string(), only_repaired.to_string());
    builder.options_mut().compaction.extend([option]);
    builder.build().expect("a valid table")
}

/// Takes in an sstable of another node, where it was repaired: it says that these partitions are deleted.
fn import_repaired(node: &mut Node, table: &Table, keys: &[u8]) {
    const DIR: &str = "/node/upload";
    let (id, table, mut keys) = (table.id, Arc::new(table.clone()), keys.to_vec());
    keys.sort_by_key(|key| Token::of_key(&[*key]));
    node.run(async move {
        runtime::file::create_dir_all(DIR).await.expect("made");
        let options = WriterOptions {
            dir: DIR.into(),
            version: Format::Bti.version(),
            generation: 1,
            table,
            estimated_keys: keys.len() as u64,
            compression: CompressionChoice::Table,
            base: EncodingStats::EPOCH,
            host_id: 8,
            level: 0,
            repaired_at: i64::from(LONG_AGO) * 1_000,
        };
        let mut writer = Writer::create(options).await.expect("made");
        for key in keys {
            let deletion = Deletion { timestamp: 9, local_time: LONG_AGO };
            writer.start_partition(&[key], Token::of_key(&[key]), deletion, None).expect("in order");
            writer.end_partition().expect("written");
        }
        writer.finish().await.expect("written");
        let options =
            ImportOptions { copy: false, verify: Verify::Full, keep_level: false, keep_repaired: true };
        let report = runtime::local::<Store>().import(id, DIR.as_ref(), options).await.expect("imports");
        assert_eq!(report.sstables, 1);
    });
}

#[test]
fn tombstones_that_no_repair_has_seen_stay_if_the_option_says_so() {
    for (only_repaired, left) in [(true, 3), (false, 0)] {
        let table = table_purging(only_repaired);
        let mut node = node(&table);
        import_repaired(&mut node, &table, &[1, 2, 3]);
        for key in [3, 4, 5] {
            put(&mut node, delete(&table, key, 9));
        }
        flush(&mut node);
        // Of partition 3 a repair has seen one of two.
        compact(&mut node, &table).expect("compacts");
        assert_eq!(tombstones(&mut node, &table), left, "only repaired ones: {only_repaired}");
    }
}

#[test]
fn an_sstable_that_no_repair_has_seen_is_not_dropped_or_rewritten_for_its_tombstones() {
    for (only_repaired, is_repaired, left) in [(true, false, 1), (true, true, 0), (false, false, 0)] {
        let table = table_purging(only_repaired);
        let mut node = node(&table);
        if is_repaired {
            import_repaired(&mut node, &table, &[1, 2]);
        } else {
            put(&mut node, delete(&table, 1, 9));
            put(&mut node, delete(&table, 2, 9));
            flush(&mut node);
        }
        node.stop();
        node.settings.auto_compaction = true;
        node.boot(1).expect("opens");
        let before = data_files(&node);
        node.world.run_for(Duration::from_secs(1500));
        assert_eq!(sstables(&mut node, &table), left, "{only_repaired}, {is_repaired}");
        assert!(left == 0 || data_files(&node) == before, "it was not looked at");
    }
}

#[test]
fn an_sstable_with_rows_that_no_repair_has_seen_is_not_compacted_alone() {
    for (only_repaired, left) in [(true, 10), (false, 0)] {
        let table = table_purging(only_repaired);
        let mut node = node(&table);
        for key in 0..20 {
            let mutation = if key % 2 == 0 { insert(&table, key, 5) } else { delete(&table, key, 5) };
            put(&mut node, mutation);
        }
        flush(&mut node);
        node.stop();
        node.settings.auto_compaction = true;
        node.boot(1).expect("opens");
        let before = data_files(&node);
        node.world.run_for(Duration::from_secs(1500));
        assert_eq!((tombstones(&mut node, &table), keys(&mut node, &table).len()), (left, 10));
        assert_eq!(data_files(&node) == before, only_repaired);
    }
}

/// Writes rows of a kibibyte for so many keys and flushes them.
fn write_large(node: &mut Node, table: &Table, keys: std::ops::Range<u32>, timestamp: i64) {
    let mut prng = Prng::new(timestamp as u64);
    for key in keys {
        let mut value = vec![0; 1000];
        prng.fill(&mut value);
        put(node, fixture::insert(table, &key.to_be_bytes(), 1, timestamp, &value));
    }
    flush(node);
}

fn used(node: &Node) -> u64 {
    let own = node.world.files(node.id).into_iter().filter(|(path, _)| path.contains("/ks/"));
    own.map(|(_, size)| size).sum()
}

/// Two runs of sixteen sstables each, which overlap.
fn two_runs(node: &mut Node, table: &Table) {
    for timestamp in [1, 2] {
        write_large(node, table, 0..600, timestamp);
        let newest = data_files(node).pop().expect("just flushed");
        compact_file(node, &newest);
    }
}

fn runs_table() -> Table {
    let mut builder = table().to_builder();
    let options =
        [("base_shard_count", "16"), ("min_sstable_size", "0B"), ("class", "UnifiedCompactionStrategy")];
    builder.options_mut().compaction = options.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
    builder.build().expect("a valid table")
}

#[test]
fn a_compaction_of_runs_needs_the_room_of_a_few_sstables() {
    let table = runs_table();
    let mut node = node(&table);
    two_runs(&mut node, &table);
    assert_eq!(sstables(&mut node, &table), 32);
    let before = used(&node);
    let id = table.id;
    let task = node.world.spawn(node.id, async move { runtime::local::<Store>().compact(id).await });
    let mut most = before;
    while !task.done() {
        node.world.run_for(Duration::from_micros(200));
        most = most.max(used(&node));
    }
    let extra = (most - before) as f64 / before as f64;
    assert!(extra < 0.2, "{extra} of what was there, for a while");
    assert_eq!(sstables(&mut node, &table), 16);
    assert!(used(&node) < before * 6 / 10);
    assert_eq!(keys(&mut node, &table).len(), 600);
}

#[test]
fn a_compaction_inside_one_large_partition_is_seen_to_go_on() {
    let table = table();
    let id = table.id;
    let mut node = node(&table);
    let mut prng = Prng::new(2);
    for timestamp in [5, 6] {
        for c in 0..1_500 {
            let mut value = [0; 700];
            prng.fill(&mut value);
            let mutation = fixture::insert(&table, b"large", c, timestamp, &value);
            put(&mut node, mutation);
        }
        flush(&mut node);
    }
    node.run(async { runtime::local::<Store>().set_compaction_throughput(1 << 20) });
    let compaction = node.world.spawn(node.id, async move { runtime::local::<Store>().compact(id).await });
    let mut quarters = Vec::new();
    while !compaction.done() {
        let running = node.run(async { runtime::local::<Store>().compactions() });
        quarters.extend(running.iter().map(|step| step.completed * 4 / step.total.max(1)));
        node.world.run_for(Duration::from_millis(5));
    }
    quarters.dedup();
    assert!(quarters.starts_with(&[0, 1, 2, 3]), "{quarters:?}");
}

#[test]
fn a_compaction_that_loses_power_keeps_what_it_recorded() {
    let table = runs_table();
    let mut counts = Vec::new();
    for step in 0..12u64 {
        let mut node = node(&table);
        two_runs(&mut node, &table);
        for key in (0..600u32).step_by(3) {
            let bytes = key.to_be_bytes();
            let mut builder = MutationBuilder::new(table.id, Token::of_key(&bytes), &bytes);
            builder.deletion(Deletion { timestamp: 9, local_time: LONG_AGO });
            put(&mut node, builder.finish());
        }
        flush(&mut node);
        let newest = data_files(&node).pop().expect("just flushed");
        compact_file(&mut node, &newest);
        let id = table.id;
        let task = node.world.spawn(node.id, async move { runtime::local::<Store>().compact(id).await });
        node.world.run_for(Duration::from_millis(10 + 25 * step));
        drop(task);
        node.world.power_cut(node.id);
        node.boot(1 + (step % 3) as u16).expect("opens");
        counts.push(data_files(&node).len());
        let rows = node.run(read_ring(command(&table, Scope::Keys(Vec::new().into())))).expect("readable");
        assert_eq!(rows.len(), 400, "step {step}");
        assert!(
            rows.iter().all(|(key, ..)| u32::from_be_bytes((*key.bytes).try_into().expect("four")) % 3 != 0)
        );
    }
    counts.sort_unstable();
    counts.dedup();
    assert!(counts.len() > 3, "some were cut at different points: {counts:?}");
}

#[test]
fn compactions_of_one_table_run_side_by_side_and_are_stopped() {
    let table = table_of(0);
    let mut node = node(&table);
    node.stop();
    node.settings.auto_compaction = true;
    node.settings.compaction_throughput = 40_000;
    node.boot(1).expect("opens");
    for timestamp in 1..=4 {
        write_large(&mut node, &table, 0..200, timestamp);
    }
    node.world.run_for(Duration::from_millis(200));
    let running = node.run(async { runtime::local::<Store>().compactions() });
    assert_eq!(running.len(), 2, "{running:?}");
    assert_eq!(running[0].table, running[1].table);
    let one = running[0].id;
    let stopped = node.run(async move {
        let store = runtime::local::<Store>();
        store.set_auto_compaction(fixture::table().id, false).expect("known");
        store.stop_compactions(Some(CompactionKind::Background), Some(one))
    });
    assert_eq!(stopped, 1);
    node.world.run_for(Duration::from_secs(1));
    assert_eq!(node.run(async { runtime::local::<Store>().compactions() }).len(), 1);
    // The other takes as long as its rate asks for.
    node.world.run_for(Duration::from_secs(4));
    assert_eq!(node.run(async { runtime::local::<Store>().compactions() }).len(), 1);
    node.world.run_for(Duration::from_secs(10));
    assert_eq!(node.run(async { runtime::local::<Store>().compactions() }).len(), 0);
    let totals = node.run(async { runtime::local::<Store>().compaction_totals() });
    assert_eq!((totals.completed, totals.stopped, totals.failed), (1, 1, 0));
    assert_eq!(keys(&mut node, &table).len(), 200);
    node.stop();
}

#[test]
fn an_operators_compaction_ends_those_that_run() {
    let table = table_of(0);
    let mut node = node(&table);
    node.stop();
    node.settings.auto_compaction = true;
    node.settings.compaction_throughput = 10_000;
    node.boot(1).expect("opens");
    for timestamp in 1..=2 {
        write_large(&mut node, &table, 0..200, timestamp);
    }
    node.world.run_for(Duration::from_millis(300));
    assert_eq!(node.run(async { runtime::local::<Store>().compactions() }).len(), 1);
    node.run(async { runtime::local::<Store>().set_compaction_throughput(0) });
    compact(&mut node, &table).expect("compacts");
    assert_eq!(sstables(&mut node, &table), 1);
    let totals = node.run(async { runtime::local::<Store>().compaction_totals() });
    assert_eq!((totals.completed, totals.stopped), (1, 1));
}

#[test]
fn cleanup_keeps_what_is_owned() {
    let table = table_of(3);
    let mut node = node(&table);
    for key in 0..100 {
        put(&mut node, insert(&table, key, 5));
    }
    flush(&mut node);
    let id = table.id;
    let middle = (Token(i64::MIN / 2), Token(i64::MAX / 2));
    store(&mut node, |store| async move { store.cleanup(id, &[middle]).await }).expect("cleans up");
    let owned: Vec<u8> =
        (0..100).filter(|key| (middle.0..=middle.1).contains(&Token::of_key(&[*key]))).collect();
    assert_eq!(keys(&mut node, &table), owned);
    let files = data_files(&node);
    store(&mut node, |store| async move { store.cleanup(id, &[middle]).await }).expect("cleans up");
    assert_eq!(data_files(&node), files, "nothing is left to clean up, so nothing is written");
    store(&mut node, |store| async move { store.cleanup(id, &[]).await }).expect("cleans up");
    assert_eq!(sstables(&mut node, &table), 0);
}

#[test]
fn scrub_keeps_what_can_be_read_and_names_the_rest() {
    let mut lost_any = 0;
    for seed in 0..6u64 {
        let table = table_of(seed);
        let mut node = node(&table);
        write_large(&mut node, &table, 0..300, 5);
        write_large(&mut node, &table, 300..310, 5);
        node.stop();
        let damaged = data_files(&node).remove(0);
        let size = node.world.files(node.id).iter().find(|file| file.0 == damaged).expect("there").1;
        assert!(node.world.flip_bit(node.id, &damaged, size * (seed + 1) / 8, 3));
        node.boot(1).expect("opens");
        let failed = compact(&mut node, &table).expect_err("a checksum is wrong");
        assert!(failed.to_string().contains(&damaged), "{failed}");
        let id = table.id;
        let scrubbed = store(&mut node, |store| async move { store.scrub(id).await }).expect("scrubs");
        assert_eq!(scrubbed.sstables, 2);
        assert!(scrubbed.lost_partitions > 0 && scrubbed.lost[0].contains(&damaged), "{scrubbed:?}");
        // A chunk of sixteen kibibytes holds some sixteen partitions.
        let left = keys(&mut node, &table).len() as u64;
        assert!(left >= 285 && left + scrubbed.lost_partitions >= 310, "{left} {scrubbed:?}");
        lost_any += scrubbed.lost_partitions;
        compact(&mut node, &table).expect("what is left is sound");
    }
    assert!(lost_any > 6);
}

#[test]
fn damage_of_a_neighbour_is_no_damage() {
    for seed in 0..8u64 {
        let table = table_of(seed);
        let mut node = node(&table);
        let mut prng = Prng::new(seed);
        // Some six chunks each, of many rows.
        for (key, row) in (0..8u8).flat_map(|key| (0..50).map(move |row| (key, row))) {
            let mut value = vec![0; 2_000];
            prng.fill(&mut value);
            put(&mut node, fixture::insert(&table, &[key], row, 5, &value));
        }
        flush(&mut node);
        node.stop();
        let damaged = data_files(&node).remove(0);
        let size = node.world.files(node.id).iter().find(|file| file.0 == damaged).expect("there").1;
        // Near the beginning of a partition: reading on behind the one before comes by.
        assert!(node.world.flip_bit(node.id, &damaged, size * (4 * seed + 1) / 32, 3));
        node.boot(1).expect("opens");
        let id = table.id;
        let scrubbed = store(&mut node, |store| async move { store.scrub(id).await }).expect("scrubs");
        // A chunk may hold the end of one and the beginning of the next.
        let mut left = keys(&mut node, &table);
        left.dedup();
        assert!((1..=2).contains(&scrubbed.lost_partitions), "seed {seed}: {scrubbed:?}");
        assert_eq!(left.len() as u64 + scrubbed.lost_partitions, 8, "seed {seed}: {scrubbed:?}");
    }
}

#[test]
fn a_partition_deleted_long_before_1970_takes_nothing_newer_with_it() {
    let table = table_of(3);
    let mut node = node(&table);
    let version = |node: &Node| {
        let files: Vec<String> = data_files(node);
        let letters =
            files.iter().map(|path| path.rsplit('/').next().map_or("", |name| &name[..2]).to_string());
        letters.collect::<Vec<_>>()
    };
    put(&mut node, insert(&table, 1, -5));
    flush(&mut node);
    assert_eq!(version(&node), ["da"], "nothing is deleted");
    put(&mut node, delete(&table, 1, -9));
    put(&mut node, delete(&table, 2, -9));
    put(&mut node, insert(&table, 2, -12));
    put(&mut node, insert(&table, 3, -3));
    flush(&mut node);
    assert_eq!(version(&node), ["da", "nb"]);
    assert_eq!(keys(&mut node, &table), [1, 3]);
    node.stop();
    node.boot(1).expect("opens");
    let id = table.id;
    store(&mut node, |store| async move { store.upgrade(id, false).await }).expect("upgrades");
    assert_eq!(version(&node), ["da", "nb"], "neither is of an earlier version than it can be");
    compact(&mut node, &table).expect("compacts");
    assert_eq!(version(&node), ["nb"], "the deletion may still be in it");
    assert_eq!(keys(&mut node, &table), [1, 3]);
}

#[test]
fn garbage_is_what_newer_sstables_delete() {
    for granularity in [Granularity::Row, Granularity::Cell] {
        let mut builder = table().to_builder();
        builder.options_mut().gc_grace_seconds = 864_000_000;
        let table = builder.build().expect("a valid table");
        let mut node = node(&table);
        for key in 0..30 {
            put(&mut node, insert(&table, key, 5));
        }
        flush(&mut node);
        for key in 0..10 {
            put(&mut node, delete(&table, key, 9));
        }
        for key in 10..20 {
            put(&mut node, insert(&table, key, 9));
        }
        flush(&mut node);
        let id = table.id;
        store(&mut node, |store| async move { store.garbage_collect(id, granularity).await })
            .expect("collects");
        let oldest = store(&mut node, |store| async move {
            let version = store.table(id).expect("known").version();
            let of = version.sstables.iter().find(|sstable| sstable.entry.meta.min_timestamp == 5);
            of.map(|sstable| sstable.entry.meta.partitions)
        });
        assert_eq!(oldest, Some(if granularity == Granularity::Row { 20 } else { 10 }), "{granularity:?}");
        assert_eq!(tombstones(&mut node, &table), 10, "tombstones stay for their grace");
        assert_eq!(keys(&mut node, &table), (10..30).collect::<Vec<u8>>());
    }
}

#[test]
fn an_operator_chooses_sstables_ranges_and_halves() {
    let table = table_of(0);
    let id = table.id;
    let mut node = node(&table);
    for timestamp in 1..=3 {
        write_large(&mut node, &table, 0..40, timestamp);
    }
    let files = data_files(&node)[..2].to_vec();
    let strange = vec!["/elsewhere/nb-1-big-Data.db".to_string(), "nonsense".to_string()];
    let asked: Vec<String> = files.iter().cloned().chain(strange).collect();
    let found = store(&mut node, |store| async move { store.compact_files(&asked).await }).expect("compacts");
    assert_eq!((found, sstables(&mut node, &table)), (2, 2));
    assert!(data_files(&node).iter().all(|file| !files.contains(file)));

    let empty = MajorCompaction { split_output: false, range: Some((Token(5), Token(5))) };
    let span = (Token(i64::MIN), Token(i64::MIN));
    let outside = MajorCompaction { range: Some(span), ..empty.clone() };
    store(&mut node, |store| async move { store.compact_as(id, &outside).await }).expect("compacts");
    assert_eq!(sstables(&mut node, &table), 2, "none holds that token");
    store(&mut node, |store| async move { store.compact_as(id, &empty).await }).expect("compacts");
    assert_eq!(sstables(&mut node, &table), 1, "all span that token");

    store(&mut node, |store| async move { store.upgrade(id, false).await }).expect("upgrades");
    let before = data_files(&node);
    store(&mut node, |store| async move { store.upgrade(id, true).await }).expect("upgrades");
    assert!(data_files(&node).iter().all(|file| !before.contains(file)), "each is written anew");
}

#[test]
fn halves_are_made_of_what_is_large() {
    let table = table_of(0);
    let id = table.id;
    let mut node = node(&table);
    write_large(&mut node, &table, 0..40, 1);
    let halves = MajorCompaction { split_output: true, range: None };
    store(&mut node, |store| async move { store.compact_as(id, &halves).await }).expect("compacts");
    let mut sizes: Vec<u64> = store(&mut node, |store| async move {
        let version = store.table(id).expect("known").version();
        version.sstables.iter().map(|sstable| sstable.entry.meta.partitions).collect()
    });
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    assert!((4..8).contains(&sizes.len()) && (18..=22).contains(&sizes[0]), "{sizes:?}");
    assert!((9..=11).contains(&sizes[1]) && sizes.iter().sum::<u64>() == 40, "{sizes:?}");
    assert_eq!(keys(&mut node, &table).len(), 40);
}

#[test]
fn a_large_partition_with_ranges_is_merged_in_windows() {
    let table = table_of(0);
    let id = table.id;
    let mut node = node(&table);
    for round in 0..4i64 {
        for c in 0..400 {
            put(&mut node, fixture::insert(&table, b"wide", c, round * 10, &[round as u8; 300]));
        }
        let mut builder = MutationBuilder::new(table.id, Token::of_key(b"wide"), b"wide");
        builder.range(&mutation::RangeTombstone {
            start: mutation::Bound::new(&fixture::clustering(round as i32 * 50), schema::BoundSide::Before),
            end: mutation::Bound::new(&fixture::clustering(round as i32 * 50 + 99), schema::BoundSide::After),
            deletion: Deletion { timestamp: round * 10 + 5, local_time: u32::MAX / 2 },
        });
        put(&mut node, builder.finish());
        flush(&mut node);
    }
    let asked = || {
        let mut asked = command(&table, Scope::Keys(vec![Key::new(b"wide")].into()));
        asked.slices = vec![Slice::all()].into();
        asked
    };
    let before = node.run(read_key(asked())).expect("readable");
    assert_eq!(before.len(), 300);
    store(&mut node, |store| async move { store.compact(id).await }).expect("compacts");
    assert_eq!(node.run(read_key(asked())).expect("readable"), before);
    // Again, as the only input.
    store(&mut node, |store| async move { store.compact(id).await }).expect("compacts");
    assert_eq!(node.run(read_key(asked())).expect("readable"), before);
    assert!(tombstones(&mut node, &table) > 0);
}

/// A node whose compactions may take so many bytes of what is free now.
fn with_room(node: &mut Node, bytes: u64) {
    node.stop();
    let tail = crate::limits::TAIL_BYTES_MIN as u64;
    let least_free_bytes = node.world.free_space(node.id) - tail - bytes;
    node.settings.compaction_room = CompactionRoom { usable_permille: 1000, least_free_bytes };
    node.boot(1).expect("opens");
}

#[test]
fn a_compaction_that_the_disk_has_no_room_for_is_made_smaller_or_left() {
    let table = table_of(0);
    let mut node = node(&table);
    let mut prng = Prng::new(5);
    for (number, rows) in [40u8, 4, 4, 4].into_iter().enumerate() {
        for row in 0..rows {
            let value: Vec<u8> = (0..1_000).map(|_| prng.u64() as u8).collect();
            put(&mut node, fixture::insert(&table, &[number as u8, row], 1, 10, &value));
        }
        flush(&mut node);
    }
    with_room(&mut node, 3_000);
    let error = compact(&mut node, &table).expect_err("three of 4 KB do not fit, nor do two");
    assert!(error.is_shortage(), "{error}");
    assert!(
        error.to_string().contains("cannot compact in") && error.to_string().contains("3000 may"),
        "{error}"
    );
    assert_eq!(sstables(&mut node, &table), 4);
    with_room(&mut node, 20_000);
    compact(&mut node, &table).expect("three of 4 KB fit");
    assert_eq!(sstables(&mut node, &table), 2, "the largest was left out");
    with_room(&mut node, 200_000);
    compact(&mut node, &table).expect("all fit");
    assert_eq!(sstables(&mut node, &table), 1);
}

/// Partitions of one row in several sstables, of which the latest says everything, or nearly: what is read stays what it was.
#[test]
fn who_says_everything_last_stands_for_the_others() {
    for seed in 0..12 {
        let table = table_of(seed);
        let (mut node, mut prng) = (node_of_seed(&table, seed), Prng::new(seed));
        let now_s = 1_700_000_000;
        for sstable in 0..4 {
            for key in 0..120u8 {
                // Most are overwritten as a whole; equal timestamps come as well.
                let timestamp = if prng.chance(0.9) { 10 + sstable } else { prng.below(14) as i64 };
                let (liveness, cell) = match prng.below(20) {
                    0 => (Some(Liveness::NONE), Some(Cell::live(timestamp, b"an update"))),
                    1 => (Some(Liveness::at(timestamp)), None),
                    2 | 3 => {
                        let expires_at = if prng.chance(0.5) { now_s - 10 } else { u32::MAX - 1_000_000 };
                        let cell = Cell::expiring(timestamp, 60, expires_at, b"for a while");
                        (Some(Liveness::expiring(timestamp, 60, expires_at)), Some(cell))
                    }
                    4 => (Some(Liveness::at(timestamp)), Some(Cell::tombstone(timestamp, LONG_AGO))),
                    5 => (None, None),
                    6 => {
                        put(&mut node, delete(&table, key, timestamp));
                        continue;
                    }
                    7 => continue,
                    8 | 9 => {
                        (Some(Liveness::at(timestamp + 3)), Some(Cell::live(timestamp, b"inserted later")))
                    }
                    _ => (Some(Liveness::at(timestamp)), Some(Cell::live(timestamp, b"whole"))),
                };
                let c = if prng.chance(0.05) { 2 } else { 1 };
                let mut builder = MutationBuilder::new(table.id, Token::of_key(&[key]), &[key]);
                let deletion = match liveness {
                    Some(_) => Deletion::LIVE,
                    None => Deletion { timestamp, local_time: LONG_AGO },
                };
                let liveness = liveness.unwrap_or(Liveness::NONE);
                builder.write_row(&fixture::clustering(c), liveness, deletion, |row| {
                    if let Some(cell) = cell {
                        row.simple(0, cell);
                    }
                });
                put(&mut node, builder.finish());
            }
            flush(&mut node);
        }
        // Purged tombstones, and what they stand in the place of, are no difference.
        let shown = |body: &[u8]| match RowView::new(body).column(0) {
            Some(ColumnView::Simple(cell)) if cell.is_live(now_s) => {
                Some((cell.timestamp, cell.value?.to_vec()))
            }
            _ => None,
        };
        let read = |node: &mut Node| {
            let asked = command(&table, Scope::Keys(Vec::new().into()));
            let rows = node.run(read_ring(asked)).expect("readable");
            rows.into_iter()
                .map(|(key, clustering, body)| (key, clustering, shown(&body)))
                .collect::<Vec<_>>()
        };
        let before = read(&mut node);
        assert!(before.len() > 60);
        compact(&mut node, &table).expect("compacts");
        assert!(read(&mut node) == before, "seed {seed}");
    }
}
