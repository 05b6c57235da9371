//! What a flush writes: as little as Cassandra writes of data that is deleted in the same memtable, because Cassandra's
//! readers show what a deletion covers in one sstable.

use super::harness::*;
use crate::flush::{Cursor, write_some};
use crate::limits::WRITER_PENDING_BYTES;
use crate::memtable::Keys;
use crate::{CommitlogSync, Durability, Store, fixture};
use base::Token;
use mutation::{
    Bound, Cell, Deletion, Liveness, Mutation, MutationBuilder, RangeTombstone, RowView, Slice, TokenRange,
};
use runtime::sim::SimConfig;
use schema::{BoundSide, ColumnKind, Table};
use sstable::{EncodingStats, Version, Writer, WriterOptions};
use std::sync::Arc;
use types::CqlType;

/// As the fixture's, with a map.
fn table() -> Table {
    let mut builder = fixture::table().to_builder();
    builder.add("m", ColumnKind::Regular, CqlType::map(CqlType::Int, CqlType::Blob));
    builder.build().expect("sound")
}

fn ordinal(table: &Table, name: &str) -> u16 {
    table.regulars.iter().find(|column| &*column.name == name).expect("a column").ordinal
}

fn at(timestamp: i64) -> Deletion {
    Deletion { timestamp, local_time: 1_700_000_000 }
}

fn change(table: &Table, key: &[u8], write: impl FnOnce(&mut MutationBuilder)) -> Mutation {
    let mut builder = MutationBuilder::new(table.id, Token::of_key(key), key);
    write(&mut builder);
    builder.finish()
}

/// A row with a value and an element of the map.
fn row(table: &Table, key: &[u8], c: i32, timestamp: i64) -> Mutation {
    let [v, m] = ["v", "m"].map(|name| ordinal(table, name));
    change(table, key, |builder| {
        builder.write_row(&fixture::clustering(c), Liveness::at(timestamp), Deletion::LIVE, |row| {
            row.simple(v, Cell::live(timestamp, b"value"));
            row.complex_start(m, Deletion::LIVE);
            row.complex_cell(&[0, 0, 0, 1], Cell::live(timestamp, b"element"));
            row.complex_end();
        });
    })
}

fn range(table: &Table, key: &[u8], from: i32, to: i32, timestamp: i64) -> Mutation {
    let start = Bound::new(&fixture::clustering(from), BoundSide::Before);
    let end = Bound::new(&fixture::clustering(to), BoundSide::After);
    let tombstone = RangeTombstone { start, end, deletion: at(timestamp) };
    change(table, key, |builder| builder.range(&tombstone))
}

/// Of each row that the sstables of a table hold: its partition, its clustering, and how many cells it has.
async fn stored(store: &Store, table: &Table) -> Vec<(u8, i32, usize)> {
    let mut found = Vec::new();
    let version = store.table(table.id).expect("known").version();
    for sstable in &version.sstables {
        let mut scanner = sstable.reader.scan(TokenRange::ALL);
        while let Some(scanned) = scanner.next(&[Slice::all()], 1 << 20).await.expect("readable") {
            let view = scanned.slice.mutation.view();
            for (clustering, body) in view.rows() {
                let c = i32::from_be_bytes(clustering[clustering.len() - 4..].try_into().expect("an int"));
                let cells = RowView::new(body).columns().map(|(_, column)| match column {
                    mutation::ColumnView::Simple(_) => 1,
                    mutation::ColumnView::Complex(complex) => complex.cells().count(),
                });
                found.push((view.key[0], c, cells.sum()));
            }
        }
    }
    found.sort_unstable();
    found
}

#[test]
fn what_a_deletion_of_the_same_memtable_covers_is_not_written() {
    let table = table();
    for seed in seeds(0, 8) {
        let mut node = Node::new(seed, SimConfig::calm(), settings(CommitlogSync::Batch), &[&table]);
        node.settings.auto_compaction = false;
        node.boot(1).expect("opens");
        let of = table.clone();
        let found = node.run(async move {
            let store = runtime::local::<Store>();
            let mut all = Vec::new();
            for c in 0..9 {
                all.push(row(&of, b"p", c, 10));
                all.push(row(&of, b"r", c, if c == 4 { 30 } else { 10 }));
            }
            all.push(row(&of, b"p", 9, 30));
            all.push(change(&of, b"p", |builder| builder.deletion(at(20))));
            all.push(range(&of, b"r", 2, 6, 20));
            // Of a row, and of a collection.
            all.push(row(&of, b"s", 1, 10));
            all.push(change(&of, b"s", |builder| {
                builder.write_row(&fixture::clustering(1), Liveness::NONE, at(20), |_| ());
            }));
            all.push(row(&of, b"t", 1, 10));
            all.push(change(&of, b"t", |builder| {
                builder.write_row(&fixture::clustering(1), Liveness::NONE, Deletion::LIVE, |row| {
                    row.complex_start(ordinal(&of, "m"), at(20));
                    row.complex_end();
                });
            }));
            store.apply(all, Durability::Mode).await.expect("accepted");
            store.flush(None).await.expect("flushed");
            stored(&store, &of).await
        });
        let r = [0, 1, 4, 7, 8].map(|c| (b'r', c, 2));
        let expected = [&[(b'p', 9, 2)][..], &r, &[(b's', 1, 0), (b't', 1, 1)]].concat();
        assert_eq!(found, expected);
    }
}

/// However many range tombstones a partition has, one step writes no more than the writer may hold.
#[test]
fn range_tombstones_are_written_in_bounded_steps() {
    let table = table();
    let mut node = Node::new(1, SimConfig::calm(), settings(CommitlogSync::Batch), &[&table]);
    node.settings.auto_compaction = false;
    node.boot(1).expect("opens");
    let dir = node.settings.data_dir.join("steps");
    let compression = node.settings.flush_compression;
    let of = table.clone();
    node.run(async move {
        let store = runtime::local::<Store>();
        for c in 0..20_000 {
            let change = range(&of, b"r", c * 10, c * 10 + 5, 10 + i64::from(c % 7));
            store.apply(vec![change], Durability::Mode).await.expect("accepted");
        }
        let memtable = store.table(of.id).expect("known").version().active.clone();
        runtime::file::create_dir_all(&dir).await.expect("a folder");
        let options = WriterOptions {
            dir,
            version: Version::Da,
            generation: 1,
            table: Arc::new(of),
            estimated_keys: 1,
            compression,
            base: EncodingStats::EPOCH,
            host_id: 0,
            level: 0,
            repaired_at: 0,
        };
        let mut writer = Writer::create(options).await.expect("a writer");
        let (token, handle) = Keys::all().next(&memtable).expect("a partition");
        let (mut cursor, mut steps, mut most) = (Cursor::Start, 0, 0);
        while !matches!(cursor, Cursor::End) {
            let written =
                memtable.with_handle(handle, |of| write_some(&mut writer, true, token, of, &cursor));
            cursor = written.expect("written");
            most = most.max(writer.pending_bytes());
            writer.drain().await.expect("drained");
            steps += 1;
        }
        assert!(steps > 2 && most < 2 * WRITER_PENDING_BYTES, "{steps} steps, {most} bytes in one");
    });
}

#[test]
fn memtables_come_of_age_where_their_table_says_so() {
    let mut builder = table().to_builder();
    builder.options_mut().memtable_flush_period_in_ms = 2_000;
    let aging = builder.build().expect("a valid table");
    let patient = fixture::table_with_id(2, "u");
    let both = [&aging, &patient];
    let mut node = Node::new(1, SimConfig::calm(), settings(CommitlogSync::Batch), &both);
    node.settings.auto_compaction = false;
    node.boot(1).expect("opens");
    let sstables = |node: &mut Node, table: &Table| {
        let id = table.id;
        node.run(async move { runtime::local::<Store>().sstables(id).expect("known") })
    };
    let put = |node: &mut Node, table: &Table, c: i32| {
        node.run(apply(vec![fixture::insert(table, b"k", c, 1, b"value")], Durability::Mode))
            .expect("accepted");
    };
    // Periods pass in which there is nothing to flush.
    node.world.run_for(std::time::Duration::from_millis(7_000));
    put(&mut node, &aging, 1);
    put(&mut node, &patient, 1);
    node.world.run_for(std::time::Duration::from_millis(2_100));
    assert_eq!((sstables(&mut node, &aging), sstables(&mut node, &patient)), (1, 0));
    node.world.run_for(std::time::Duration::from_millis(10_000));
    assert_eq!((sstables(&mut node, &aging), sstables(&mut node, &patient)), (1, 0));
    // A table that is changed is looked at anew; one without a period waits.
    let mut builder = patient.to_builder();
    builder.options_mut().memtable_flush_period_in_ms = 500;
    let schema = schema_of(&[&table(), &builder.build().expect("a valid table")]);
    node.run(async move { runtime::local::<Store>().set_schema(&schema) });
    put(&mut node, &aging, 2);
    node.world.run_for(std::time::Duration::from_millis(5_000));
    assert_eq!((sstables(&mut node, &aging), sstables(&mut node, &patient)), (1, 1));
}
