//! What the row cache answers, over flushes, compactions and truncations: always what a cold read says.

use super::harness::*;
use crate::{CommitlogSync, Durability, Store, fixture};
use base::Token;
use mutation::{
    Cell, Deletion, Liveness, Mutation, MutationBuilder, ReadAnswer, ReadCommand, RowWriter, Slice,
};
use runtime::Bug;
use runtime::sim::SimConfig;
use schema::Table;
use std::rc::Rc;
use std::time::Duration;

fn rows(answer: ReadAnswer) -> Vec<FoundRow> {
    live_rows(&[answer], 1_700_000_000)
}

/// What memory answers alone, which must be what a cold read says.
async fn cached(store: &Rc<Store>, command: &ReadCommand) -> Vec<FoundRow> {
    let (answer, _) = store.read_now(command).expect("memory answers");
    let found = rows(answer);
    assert_eq!(found, rows(store.read_cold(command).await.expect("readable")), "{command:?}");
    found
}

/// What stands in every page does not end it.
#[test]
fn a_large_static_row_leaves_room_for_a_page_of_rows() {
    let table = table();
    let mut settings = settings(CommitlogSync::Periodic { period_ms: 10_000 });
    settings.auto_compaction = false;
    (settings.segment_bytes, settings.commitlog_bytes, settings.memtable_bytes) =
        (4 << 20, 64 << 20, 16 << 20);
    let mut node = Node::new(1, SimConfig::calm(), settings, &[&table]);
    node.boot(1).expect("opens");
    node.run({
        let table = table.clone();
        async move {
            let store = runtime::local::<Store>();
            let mut builder = MutationBuilder::new(table.id, Token::of_key(b"k"), b"k");
            builder.static_row_with(|out| {
                RowWriter::new(out, Liveness::NONE, Deletion::LIVE)
                    .simple(0, Cell::live(5, &[7; 200 * 1024]));
            });
            put(&store, builder.finish());
            for c in 0..300 {
                put(&store, fixture::insert(&table, b"k", c, 5, &[7; 1024]));
            }
            store.flush(None).await.expect("flushes");
        }
    });
    let asked = ReadCommand { byte_limit: mutation::ByteLimit::near(128 * 1024), ..of_key(&table, b"k") };
    let page = node.run(async move { runtime::local::<Store>().read_cold(&asked).await }).expect("readable");
    assert!((115..130).contains(&page.live_rows), "{}", page.live_rows);
}

#[test]
fn what_was_read_is_answered_from_memory_until_it_is_gone() {
    let table = fixture::table();
    let mut node = node(&table);
    node.run(async move {
        let store = runtime::local::<Store>();
        let all = of_key(&table, b"k");
        (0..5).for_each(|c| put(&store, fixture::insert(&table, b"k", c * 2, 5, b"first")));
        store.flush(None).await.expect("flushed");
        assert_eq!(store.read_now(&all), None, "it was never read");
        assert_eq!(store.read(&all).await.expect("readable").live_rows, 5);
        assert_eq!(cached(&store, &all).await.len(), 5);
        assert_eq!(
            cached(&store, &of_row(&table, b"k", 3)).await.len(),
            0,
            "what is not there is known, too"
        );

        // A memtable beside it, then that one flushed.
        put(&store, fixture::insert(&table, b"k", 3, 6, b"new"));
        put(&store, fixture::insert(&table, b"k", 4, 6, b"newer"));
        assert_eq!(cached(&store, &all).await.len(), 6);
        store.flush(None).await.expect("flushed");
        let found = cached(&store, &all).await;
        assert_eq!((found.len(), value(&found[3].2)), (6, Some(b"newer".to_vec())));

        // A tombstone: cached with the rest, until a compaction may have forgotten it.
        let mut builder = MutationBuilder::new(table.id, base::Token::of_key(b"k"), b"k");
        builder.write_row(
            &fixture::clustering(2),
            Liveness::NONE,
            Deletion { timestamp: 9, local_time: 1 },
            |_| {},
        );
        put(&store, builder.finish());
        store.flush(None).await.expect("flushed");
        assert_eq!(cached(&store, &all).await.len(), 5);
        store.compact(table.id).await.expect("compacted");
        assert_eq!(store.read_now(&all), None, "its tombstones may be gone from sstables");
        assert_eq!(store.read(&all).await.expect("readable").live_rows, 5);
        assert_eq!(cached(&store, &all).await.len(), 5);

        store.truncate(table.id, 77).await.expect("truncated");
        assert_eq!(cached(&store, &all).await.len(), 0);
        let stats = store.cache_stats();
        assert!(stats.hits >= 6 && stats.requests > stats.hits, "{stats:?}");
        assert!(stats.bytes <= stats.capacity, "{stats:?}");
    });
}

#[test]
fn parts_of_a_large_partition_are_known_each_for_itself() {
    let table = fixture::table();
    let mut node = node(&table);
    node.run(async move {
        let store = runtime::local::<Store>();
        (0..400).for_each(|c| put(&store, fixture::insert(&table, b"k", c, 5, &[7; 200])));
        store.flush(None).await.expect("flushed");
        let slice = |from: i32, to: i32| {
            let at = |c| table.position(&fixture::clustering(c)).expect("fits");
            ReadCommand {
                slices: vec![Slice { start: at(from), end: at(to) }].into(),
                ..of_key(&table, b"k")
            }
        };
        assert_eq!(store.read(&slice(100, 150)).await.expect("readable").live_rows, 50);
        assert_eq!(cached(&store, &slice(110, 120)).await.len(), 10);
        let back = ReadCommand { reversed: true, ..slice(100, 140) };
        assert_eq!(cached(&store, &back).await.len(), 40);
        assert_eq!(store.read_now(&slice(90, 110)), None, "the first rows are not known");
        assert_eq!(store.read_now(&slice(140, 160)), None, "the last rows are not known");
        // A limit that what is known reaches.
        let few = ReadCommand { row_limit: 5, ..slice(140, 400) };
        assert_eq!(cached(&store, &few).await.len(), 5);
        let first = ReadCommand { row_limit: 5, ..slice(0, 400) };
        assert_eq!(store.read_now(&first), None);
        // Its next page is in memory, too.
        let (answer, _) = store.read_now(&few).expect("known");
        let next = ReadCommand { resume: answer.stopped, ..few };
        assert_eq!(rows(store.read_now(&next).expect("known").0)[0].1, fixture::clustering(145));
    });
}

/// `CREATE TABLE ks.kv (k blob PRIMARY KEY, v blob)`.
fn plain_table() -> Table {
    schema::TableBuilder::new("ks", "kv", schema::TableId(9))
        .partition_key("k", types::CqlType::Blob)
        .regular("v", types::CqlType::Blob)
        .build()
        .expect("a valid table")
}

fn plain(table: &Table, timestamp: i64, value: &[u8]) -> Mutation {
    let mut builder = MutationBuilder::new(table.id, base::Token::of_key(b"k"), b"k");
    builder.write_row(&[], Liveness::at(timestamp), Deletion::LIVE, |row| {
        row.simple(0, Cell::live(timestamp, value));
    });
    builder.finish()
}

#[test]
fn sstables_that_are_older_than_all_that_is_known_are_not_asked() {
    let table = plain_table();
    let mut node = node(&table);
    node.run(async move {
        let store = runtime::local::<Store>();
        let read = of_key(&table, b"k");
        for timestamp in [5, 6, 7] {
            put(&store, plain(&table, timestamp, b"old"));
            store.flush(None).await.expect("flushed");
        }
        // Newer in memory: no sstable can say anything that counts.
        put(&store, plain(&table, 8, b"new"));
        assert_eq!(
            value(&rows(store.read_now(&read).expect("memory is newer").0)[0].2),
            Some(b"new".to_vec())
        );
        // Newest in one sstable: the others are not asked.
        store.flush(None).await.expect("flushed");
        let answer = store.read_cold(&read).await.expect("readable");
        assert_eq!(value(&rows(answer)[0].2), Some(b"new".to_vec()));
        let of_table = store.table_stats().await;
        assert_eq!(of_table[0].skipped_sstables, 3, "one of four was asked");

        // A partition tombstone in memory hides them all.
        let mut builder = MutationBuilder::new(table.id, base::Token::of_key(b"k"), b"k");
        builder.deletion(Deletion { timestamp: 20, local_time: 1_800_000_000 });
        put(&store, builder.finish());
        assert_eq!(store.read_now(&read).expect("memory is newer").0.live_rows, 0);
        // An older write leaves the newer sstable in charge.
        let mut older = MutationBuilder::new(table.id, base::Token::of_key(b"z"), b"z");
        older.deletion(Deletion { timestamp: 1, local_time: 1 });
        put(&store, older.finish());
        assert_eq!(store.read_cold(&of_key(&table, b"z")).await.expect("readable").live_rows, 0);
    });
}

/// Reads that ask sstables while a memtable becomes one; returns how many later ones miss what that brought.
fn stale_answers(seed: u64, bug: Option<Bug>) -> u64 {
    let table = fixture::table();
    let mut settings = settings(CommitlogSync::Periodic { period_ms: 100 });
    settings.auto_compaction = false;
    let mut node = Node::new(seed, SimConfig::drawn(seed), settings, &[&table]);
    if let Some(bug) = bug {
        node.world.plant(node.id, bug);
    }
    node.boot(1).expect("opens");
    node.run(async move {
        let store = runtime::local::<Store>();
        let command = of_key(&table, b"k");
        let mut stale = 0;
        for version in 1..6u64 {
            put(&store, fixture::insert(&table, b"k", 1, version as i64, &version.to_be_bytes()));
            let done = Rc::new(std::cell::Cell::new(false));
            let (store, command, flushed) = (store.clone(), command.clone(), done.clone());
            let of_store = store.clone();
            let reader = runtime::spawn(runtime::Group::MAIN, async move {
                let (mut wrong, expected) = (0, Some(version.to_be_bytes().to_vec()));
                while !flushed.get() {
                    of_store.forget_cached(command.table).expect("it is there");
                    let read = of_store.read(&command).await.expect("readable");
                    assert_eq!(value(&rows(read)[0].2), expected, "seed {seed}");
                    // What that read has left in the cache.
                    let again = of_store.read_now(&command).map(|(answer, _)| value(&rows(answer)[0].2));
                    wrong += u64::from(again.is_some_and(|again| again != expected));
                    runtime::sleep(std::time::Duration::from_micros(20)).await;
                }
                wrong
            });
            store.flush(None).await.expect("flushed");
            done.set(true);
            stale += reader.await;
        }
        stale
    })
}

#[test]
fn a_read_that_a_flush_has_overtaken_leaves_nothing_stale_in_the_cache() {
    for seed in 0..3 {
        assert_eq!(stale_answers(seed, None), 0, "seed {seed}");
    }
    let caught = (0..6).any(|seed| stale_answers(seed, Some(Bug::PopulationRace)) > 0);
    assert!(caught, "the planted bug goes unnoticed");
}

/// `CREATE TABLE ks.wide (k blob, c int, v blob, PRIMARY KEY (k, c))`.
fn wide_table() -> Table {
    schema::TableBuilder::new("ks", "wide", schema::TableId(10))
        .partition_key("k", types::CqlType::Blob)
        .clustering("c", types::CqlType::Int, schema::Order::Ascending)
        .regular("v", types::CqlType::Blob)
        .build()
        .expect("a valid table")
}

#[test]
fn sstables_whose_rows_lie_elsewhere_are_not_asked() {
    let table = wide_table();
    let mut node = node(&table);
    node.run(async move {
        let store = runtime::local::<Store>();
        for part in 0..4 {
            (0..10).for_each(|c| put(&store, fixture::insert(&table, b"k", part * 100 + c, 5, b"v")));
            store.flush(None).await.expect("flushed");
        }
        let at = |c| table.position(&fixture::clustering(c)).expect("fits");
        let slice = |from, to| ReadCommand {
            slices: vec![Slice { start: at(from), end: at(to) }].into(),
            ..of_key(&table, b"k")
        };
        let skipped = async |store: &Store| store.table_stats().await[0].skipped_sstables;
        assert_eq!(store.read_cold(&slice(105, 205)).await.expect("readable").live_rows, 10);
        assert_eq!(skipped(&store).await, 2, "two of four have rows there");
        assert_eq!(store.read_cold(&slice(0, 400)).await.expect("readable").live_rows, 40);
        assert_eq!(skipped(&store).await, 2);
        assert_eq!(store.read_cold(&slice(309, 310)).await.expect("readable").live_rows, 1);
        assert_eq!(skipped(&store).await, 5);
    });
}

/// A row exists by the mark that its INSERT left in an old sstable, whatever newer cells come and go.
#[test]
fn an_old_mark_of_a_row_is_not_skipped_for_newer_cells() {
    let table = plain_table();
    let mut node = node(&table);
    node.run(async move {
        let store = runtime::local::<Store>();
        let read = of_key(&table, b"k");
        let update = |cell: Cell<'_>| {
            let mut builder = MutationBuilder::new(table.id, base::Token::of_key(b"k"), b"k");
            builder.write_row(&[], Liveness::NONE, Deletion::LIVE, |row| row.simple(0, cell));
            builder.finish()
        };
        put(&store, plain(&table, 5, b"inserted"));
        store.flush(None).await.expect("flushed");
        put(&store, update(Cell::live(8, b"updated")));
        store.flush(None).await.expect("flushed");
        assert_eq!(store.read(&read).await.expect("readable").live_rows, 1);
        put(&store, update(Cell::tombstone(10, 1_600_000_000)));
        assert_eq!(cached(&store, &read).await.len(), 1, "it was inserted, and its value is null");
    });
}

/// Of two deletions with one timestamp the later one by local time is kept, wherever it is found: an sstable with such a
/// tombstone is not skipped, or the answer of one replica, and its digest, would depend on what lies in which file.
#[test]
fn a_deletion_as_new_as_that_of_its_partition_is_found_in_an_older_sstable() {
    let table = fixture::table();
    let mut node = node(&table);
    node.run(async move {
        let store = runtime::local::<Store>();
        let read = of_key(&table, b"k");
        let deletion = |local_time| Deletion { timestamp: 5, local_time };
        let mut row = MutationBuilder::new(table.id, base::Token::of_key(b"k"), b"k");
        row.write_row(&fixture::clustering(1), Liveness::NONE, deletion(1_900_000_001), |_| {});
        put(&store, row.finish());
        store.flush(None).await.expect("flushed");
        let mut partition = MutationBuilder::new(table.id, base::Token::of_key(b"k"), b"k");
        partition.deletion(deletion(1_900_000_000));
        put(&store, partition.finish());
        let apart = store.read_cold(&read).await.expect("readable");
        store.flush(None).await.expect("flushed");
        assert_eq!(store.read_cold(&read).await.expect("readable").partitions, apart.partitions);
        store.compact(table.id).await.expect("compacted");
        assert_eq!(store.read_cold(&read).await.expect("readable").partitions, apart.partitions);
        assert!(!apart.partitions.is_empty());
    });
}

#[test]
fn a_row_that_was_written_anew_is_read_without_a_look_into_the_cache() {
    let table = plain_table();
    let mut node = node(&table);
    node.run(async move {
        let store = runtime::local::<Store>();
        put(&store, plain(&table, 5, b"v"));
        store.flush(None).await.expect("flushed");
        let command = of_key(&table, b"k");
        assert_eq!(store.read(&command).await.expect("readable").live_rows, 1);
        let before = store.cache_stats();
        // As old as what the sstable may have: the cache has a say.
        put(&store, plain(&table, 5, b"v"));
        assert_eq!(cached(&store, &command).await.len(), 1);
        assert_eq!(store.cache_stats().requests, before.requests + 1);
        put(&store, plain(&table, 6, b"w"));
        assert_eq!(cached(&store, &command).await.len(), 1);
        assert_eq!(store.cache_stats().requests, before.requests + 1);
    });
}

#[test]
fn what_was_read_before_a_flush_is_warm_behind_it() {
    let table = wide_table();
    let mut node = node(&table);
    node.run(async move {
        let store = runtime::local::<Store>();
        let read = of_key(&table, b"k");
        put(&store, fixture::insert(&table, b"k", 1, 5, b"v"));
        assert_eq!(cached(&store, &read).await.len(), 1);
        // Rows behind the read, more than a step's worth, come along.
        (2..2_000).for_each(|c| put(&store, fixture::insert(&table, b"k", c, 5, b"v")));
        put(&store, fixture::insert(&table, b"other", 1, 5, b"v"));
        store.flush(None).await.expect("flushed");
        assert_eq!(cached(&store, &read).await.len(), 1_999);
        assert_eq!(store.read_now(&of_key(&table, b"other")), None, "it was only written");

        // One row of a partition that an sstable has a part of was read: the rest stays unknown.
        store.forget_cached(table.id).expect("it is there");
        put(&store, fixture::insert(&table, b"k", 7_000, 6, b"v"));
        assert_eq!(cached(&store, &of_row(&table, b"k", 7_000)).await.len(), 1);
        store.flush(None).await.expect("flushed");
        assert_eq!(store.read_now(&read), None);
        assert_eq!(store.read(&read).await.expect("readable").live_rows, 2_000);
    });
}

#[test]
fn a_row_that_was_written_anew_and_read_is_warm_behind_a_flush() {
    let table = plain_table();
    let mut node = node(&table);
    node.run(async move {
        let store = runtime::local::<Store>();
        let read = of_key(&table, b"k");
        put(&store, plain(&table, 5, b"v"));
        store.flush(None).await.expect("flushed");
        put(&store, plain(&table, 6, b"w"));
        assert_eq!(cached(&store, &read).await.len(), 1);
        store.flush(None).await.expect("flushed");
        assert_eq!(value(&cached(&store, &read).await[0].2), Some(b"w".to_vec()));

        // As old as what the sstables may have: nobody knows without a look.
        store.forget_cached(table.id).expect("it is there");
        put(&store, plain(&table, 6, b"w"));
        store.read_now(&read);
        store.flush(None).await.expect("flushed");
        assert_eq!(store.read_now(&read), None);
        assert_eq!(store.read(&read).await.expect("readable").live_rows, 1);
    });
}

/// What memtables do not need, rows have; they give it back as memtables grow, and have it again after the flush.
#[test]
fn rows_have_the_memory_that_memtables_leave() {
    let table = fixture::table();
    const ROWS: u64 = 1 << 20;
    const MEMTABLES: u64 = 16 << 20;
    let mut node = node_of_sizes(&table, MEMTABLES, ROWS, true);
    node.run(async move {
        let store = runtime::local::<Store>();
        let write = async |from: u32, to: u32| {
            for key in from..to {
                let row = vec![fixture::insert(&table, &key.to_be_bytes(), 1, 5, &[7; 800])];
                // Once the tail of the log is full, it has to be waited for.
                if store.apply_now(&row, Durability::Mode).is_none() {
                    store.apply(row, Durability::Mode).await.expect("accepted");
                }
            }
        };
        let read = async |from: u32, to: u32| {
            for key in from..to {
                store.read(&of_key(&table, &key.to_be_bytes())).await.expect("readable");
            }
        };
        for part in 0..5 {
            write(part * 4_000, (part + 1) * 4_000).await;
            store.flush(None).await.expect("flushed");
        }
        read(0, 20_000).await;
        let alone = store.cache_stats();
        assert!(alone.bytes > ROWS + MEMTABLES / 4 && alone.capacity > ROWS + MEMTABLES * 2 / 5, "{alone:?}");
        // Just below what starts a flush.
        write(30_000, 35_000).await;
        runtime::sleep(Duration::from_millis(1)).await;
        let memtables = store.pressure.memory() as u64;
        assert!(memtables > MEMTABLES / 4, "{memtables}");
        let beside = store.cache_stats();
        assert!(beside.capacity < alone.capacity - MEMTABLES / 10, "{beside:?}");
        assert!(beside.bytes <= beside.capacity && memtables + beside.bytes <= ROWS + MEMTABLES);
        store.flush(None).await.expect("flushed");
        runtime::sleep(Duration::from_millis(1)).await;
        assert_eq!(store.pressure.memory(), 0);
        assert!(store.cache_stats().capacity > beside.capacity + MEMTABLES / 10);
    });
}
