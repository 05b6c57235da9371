//! Range scans over partitions that have little or nothing of what is asked for.

use super::harness::*;
use crate::limits::SCAN_PARTITIONS_PASSED_MAX;
use crate::{CommitlogSync, Store, fixture};
use mutation::{ReadAnswer, ReadCommand, Scope, Slice, TokenRange};
use runtime::sim::SimConfig;
use schema::Table;

/// A store that flushes when it is told to, and compacts nothing.
fn node(table: &Table) -> Node {
    let mut settings = settings(CommitlogSync::Periodic { period_ms: 1_000 });
    (settings.memtable_bytes, settings.commitlog_bytes) = (64 << 20, 64 << 20);
    settings.auto_compaction = false;
    let mut node = Node::new(1, SimConfig::calm(), settings, &[table]);
    node.boot(1).expect("opens");
    node
}

/// Sstables that have so many partitions each, with one row at `c`.
async fn flushed(store: &Store, table: &Table, sstables: u32, partitions: u32, c: i32) {
    for sstable in 0..sstables {
        for partition in 0..partitions {
            let key = [&c.to_be_bytes()[..], &sstable.to_be_bytes(), &partition.to_be_bytes()].concat();
            put(store, fixture::insert(table, &key, c, 5, b"v"));
        }
        store.flush(None).await.expect("flushed");
    }
}

/// A scan for the rows at 7.
fn wanted(table: &Table) -> ReadCommand {
    let at = |c| table.position(&fixture::clustering(c)).expect("a position");
    let slices = vec![Slice { start: at(7), end: at(8) }].into();
    ReadCommand { slices, ..command(table, Scope::Range(TokenRange::ALL)) }
}

/// Reads page by page; each as a client would see it.
async fn pages(store: &Store, mut command: ReadCommand) -> Vec<ReadAnswer> {
    let mut pages = Vec::new();
    loop {
        let answer = store.read(&command).await.expect("readable");
        command.resume = answer.stopped.clone();
        pages.push(answer);
        if command.resume.is_none() {
            return pages;
        }
        assert!(pages.len() < 1_000, "the scan ends");
    }
}

fn live_rows(pages: &[ReadAnswer]) -> u32 {
    pages.iter().map(|page| page.live_rows).sum()
}

#[test]
fn many_sstables_with_nothing_do_not_make_pages_of_one_partition() {
    let table = fixture::table();
    let mut node = node(&table);
    node.run(async move {
        let store = runtime::local::<Store>();
        let each = SCAN_PARTITIONS_PASSED_MAX as u32 + 200;
        flushed(&store, &table, 22, each, 1).await;
        flushed(&store, &table, 1, 2_000, 7).await;
        let pages = pages(&store, wanted(&table)).await;
        assert_eq!(live_rows(&pages), 2_000);
        assert!(pages[0].live_rows > 500, "{} rows", pages[0].live_rows);
        assert!(pages.len() <= 4, "{} pages", pages.len());
    });
}

#[test]
fn a_scan_that_finds_nothing_ends_its_pages() {
    let table = fixture::table();
    let mut node = node(&table);
    node.run(async move {
        let store = runtime::local::<Store>();
        flushed(&store, &table, 2, 25_000, 1).await;
        let pages = pages(&store, wanted(&table)).await;
        assert_eq!(live_rows(&pages), 0);
        assert!((2..=5).contains(&pages.len()), "{} pages", pages.len());
    });
}

/// A limit of none ends no page where it began.
#[test]
fn pages_get_on_whatever_their_limit_of_tombstones_is() {
    let table = fixture::table();
    let mut node = node(&table);
    node.run(async move {
        let store = runtime::local::<Store>();
        flushed(&store, &table, 1, 30, 7).await;
        for limit in [0, 1] {
            let found = pages(&store, ReadCommand { tombstone_limit: limit, ..wanted(&table) }).await;
            assert_eq!(live_rows(&found), 30);
        }
    });
}
