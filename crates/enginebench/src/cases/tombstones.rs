//! T: reads over tombstones, in memory and on disk.

use super::{Bar, Bench, Case, boxed};
use crate::engine::{apply, clustering, insert_row, key, kv, read, scan, select, told, wide};
use crate::meter::Meter;
use base::Token;
use mutation::{
    Bound, Cell, Deletion, Key, Liveness, Mutation, MutationBuilder, RangeTombstone, ReadCommand, Scope,
    Slice, TokenRange,
};
use schema::{BoundSide, Table};
use std::time::Instant;
use storage::Store;

/// The cases of this module.
pub const CASES: &[Case] = &[
    Case { name: "T1", what: "a million row tombstones, then LIMIT 1", run: |b| boxed(row_tombstones(b)) },
    Case {
        name: "T2",
        what: "100 k overlapping range tombstones, in memory and on disk",
        run: |b| boxed(range_tombstones(b)),
    },
    Case { name: "T3", what: "a queue: insert at the end, delete the head", run: |b| boxed(queue(b)) },
    Case { name: "T4", what: "scan over rows of which half have expired", run: |b| boxed(expired(b)) },
    Case {
        name: "T5",
        what: "a partition tombstone over a million rows",
        run: |b| boxed(partition_tombstone(b)),
    },
];

const VALUE: [u8; 100] = [7; 100];

/// Reads all pages; how many there were, live rows, and the longest page in microseconds.
async fn pages(store: &Store, mut command: ReadCommand) -> Result<(u64, u64, u128), String> {
    let (mut pages, mut rows, mut longest) = (0, 0, 0);
    loop {
        let start = Instant::now();
        let (_, answer) = read(store, &command).await?;
        longest = longest.max(start.elapsed().as_micros());
        pages += 1;
        rows += u64::from(answer.live_rows);
        if answer.live_rows >= command.row_limit {
            return Ok((pages, rows, longest));
        }
        let Some(stopped) = answer.stopped else { return Ok((pages, rows, longest)) };
        command.resume = Some(stopped);
    }
}

/// Reads all pages; milliseconds of the longest, and of all of them.
async fn measure_pages(
    bench: &Bench,
    store: &Store,
    what: &str,
    command: ReadCommand,
) -> Result<(f64, f64), String> {
    let (meter, start) = (Meter::start(), Instant::now());
    let (count, rows, longest) = pages(store, command).await?;
    let all = start.elapsed().as_secs_f64() * 1e3;
    bench.cost(what, meter.stop(1));
    bench.fact(what, &format!("{count} pages, {rows} live rows, longest page {longest} µs"));
    Ok((longest as f64 / 1e3, all))
}

fn in_partition(table: &Table, change: impl FnOnce(&mut MutationBuilder)) -> Mutation {
    let key = key(1);
    let mut builder = MutationBuilder::new(table.id, Token::of_key(&key), &key);
    change(&mut builder);
    builder.finish()
}

fn delete_row(table: &Table, c: i64, timestamp: i64) -> Mutation {
    let deletion = Deletion { timestamp, local_time: 1_700_000_000 };
    in_partition(table, |builder| builder.write_row(&clustering(c), Liveness::NONE, deletion, |_| {}))
}

async fn row_tombstones(bench: Bench) -> Result<(), String> {
    let table = wide();
    let store = bench.open(&table, 1 << 30).await?;
    let rows = bench.options.scaled(1_000_000) as i64;
    for c in 0..rows {
        apply(&store, delete_row(&table, c, 5)).await?;
    }
    apply(&store, insert_row(&table, &key(1), rows, 6, &VALUE)).await?;
    let first = ReadCommand {
        row_limit: 1,
        byte_limit: mutation::ByteLimit::near(1 << 20),
        ..select(&table, &key(1))
    };
    measure_pages(&bench, &store, "LIMIT 1 behind the tombstones, memtable", first.clone()).await?;
    store.flush(None).await.map_err(told)?;
    measure_pages(&bench, &store, "the same, sstable", first.clone()).await?;
    measure_pages(&bench, &store, "the same, once more", first).await?;
    bench.end(store).await
}

/// Bounds and timestamp of a range tombstone by its number, and how many there are.
type Order = fn(i64, i64) -> (i64, i64, i64);

const ORDERS: [(&str, Order); 3] = [
    ("older over newer", |i, count| (count - i, count + i, count - i)),
    ("newer over older", |i, count| (count - i, count + i, i)),
    ("by chance", |i, count| (i * 7919 % count, i * 7919 % count + count / 2, i * 104_729 % count)),
];

/// Milliseconds within which all of them are written, and a page of them is read.
const RANGES_MS: f64 = 500.0;
/// For all of them, wherever they lie.
const ALL_RANGES_MS: f64 = 1000.0;

/// In memory, in one sstable, and in four that each have a quarter of them. Nothing is cached but blocks.
async fn range_tombstones(bench: Bench) -> Result<(), String> {
    let table = wide();
    let count = bench.options.scaled(100_000) as i64;
    let store = bench.open(&table, 0).await?;
    for (index, (name, order)) in ORDERS.into_iter().enumerate() {
        let key = key(index as u64);
        let meter = Meter::start();
        insert_ranges(&store, &table, &key, 1..=count, |i| order(i, count)).await?;
        let cost = meter.stop(count as u64);
        bench.cost(&format!("overlapping range tombstone, {name}: insert"), cost);
        let what = format!("ms of processor for {count} inserts, {name}");
        bench.bar(&what, cost.processor_ns as f64 / 1e6, Bar::AtMost(RANGES_MS));
    }
    for (index, (name, _)) in ORDERS.into_iter().enumerate() {
        read_ranges(&bench, &store, &table, &key(index as u64), &format!("{name}, memtable")).await?;
    }
    store.flush(None).await.map_err(told)?;
    for (index, (name, _)) in ORDERS.into_iter().enumerate() {
        read_ranges(&bench, &store, &table, &key(index as u64), &format!("{name}, one sstable")).await?;
    }
    for quarter in 0..4 {
        let part = 1 + count * quarter / 4..=count * (quarter + 1) / 4;
        for (index, (_, order)) in ORDERS.into_iter().enumerate() {
            let key = key(10 + index as u64);
            insert_ranges(&store, &table, &key, part.clone(), |i| order(i, count)).await?;
        }
        store.flush(None).await.map_err(told)?;
    }
    for (index, (name, _)) in ORDERS.into_iter().enumerate() {
        let key = key(10 + index as u64);
        read_ranges(&bench, &store, &table, &key, &format!("{name}, four sstables")).await?;
    }
    bench.end(store).await
}

async fn insert_ranges(
    store: &Store,
    table: &Table,
    key: &[u8],
    numbers: std::ops::RangeInclusive<i64>,
    order: impl Fn(i64) -> (i64, i64, i64),
) -> Result<(), String> {
    for i in numbers {
        let (from, to, timestamp) = order(i);
        let mut builder = MutationBuilder::new(table.id, Token::of_key(key), key);
        builder.range(&RangeTombstone {
            start: Bound::new(&clustering(from), BoundSide::Before),
            end: Bound::new(&clustering(to), BoundSide::After),
            deletion: Deletion { timestamp: timestamp + 1, local_time: 1_700_000_000 },
        });
        apply(store, builder.finish()).await?;
    }
    Ok(())
}

async fn read_ranges(
    bench: &Bench,
    store: &Store,
    table: &Table,
    key: &[u8],
    what: &str,
) -> Result<(), String> {
    let count = bench.options.scaled(100_000) as i64;
    let at = |c| table.position(&clustering(c)).expect("fits");
    let slice = Slice { start: at(count), end: at(count + 10) };
    let command = ReadCommand { slices: vec![slice].into(), ..select(table, key) };
    let (took, _) =
        measure_pages(bench, store, &format!("{what}: slice of ten rows in the middle"), command).await?;
    bench.bar(&format!("ms for the slice, {what}"), took, Bar::AtMost(RANGES_MS));
    let whole = ReadCommand { byte_limit: mutation::ByteLimit::near(1 << 20), ..select(table, key) };
    let (took, all) = measure_pages(bench, store, &format!("{what}: all of them"), whole).await?;
    bench.bar(&format!("ms for the longest page, {what}"), took, Bar::AtMost(RANGES_MS));
    bench.bar(&format!("ms for all of them, {what}"), all, Bar::AtMost(ALL_RANGES_MS));
    Ok(())
}

async fn queue(bench: Bench) -> Result<(), String> {
    let table = wide();
    let store = bench.open(&table, 1 << 30).await?;
    let count = bench.options.scaled(50_000) as i64;
    let mut longest = 0;
    let meter = Meter::start();
    for c in 0..count {
        apply(&store, insert_row(&table, &key(1), c, c, &VALUE)).await?;
        apply(&store, delete_row(&table, c - 10, c)).await?;
        if c % 1_000 == 999 {
            let head = ReadCommand {
                row_limit: 1,
                byte_limit: mutation::ByteLimit::near(1 << 20),
                ..select(&table, &key(1))
            };
            longest = longest.max(pages(&store, head).await?.2);
        }
        if c % 20_000 == 19_999 {
            store.flush(None).await.map_err(told)?;
        }
    }
    bench.cost("insert at the end and delete of the head", meter.stop(count as u64));
    bench.fact("longest page of a read of the head", &format!("{longest} µs"));
    bench.end(store).await
}

async fn expired(bench: Bench) -> Result<(), String> {
    let table = kv();
    let store = bench.open(&table, 1 << 30).await?;
    let partitions = bench.options.scaled(200_000);
    for number in 0..partitions {
        let key = key(number);
        let mut builder = MutationBuilder::new(table.id, Token::of_key(&key), &key);
        let expires_at = if number % 2 == 0 { 1_600_000_000 } else { 1_900_000_000 };
        builder.write_row(&[], Liveness::expiring(1, 60, expires_at), Deletion::LIVE, |row| {
            row.simple(0, Cell::expiring(1, 60, expires_at, &VALUE));
        });
        apply(&store, builder.finish()).await?;
    }
    for place in ["memtable", "sstable"] {
        let command = ReadCommand {
            byte_limit: mutation::ByteLimit::near(1 << 20),
            ..scan(&table, Scope::Range(TokenRange::ALL))
        };
        let meter = Meter::start();
        let (count, rows, longest) = pages(&store, command).await?;
        bench.cost(&format!("row of a scan of which half have expired, {place}"), meter.stop(partitions));
        bench.fact("the scan", &format!("{count} pages, {rows} live rows, longest page {longest} µs"));
        store.flush(None).await.map_err(told)?;
    }
    bench.end(store).await
}

async fn partition_tombstone(bench: Bench) -> Result<(), String> {
    let table = wide();
    let store = bench.open(&table, 1 << 30).await?;
    let rows = bench.options.scaled(1_000_000) as i64;
    for c in 0..rows {
        apply(&store, insert_row(&table, &key(1), c, 5, &VALUE)).await?;
    }
    store.flush(None).await.map_err(told)?;
    let deletion = Deletion { timestamp: 9, local_time: 1_700_000_000 };
    apply(&store, in_partition(&table, |builder| builder.deletion(deletion))).await?;
    let all = ReadCommand { byte_limit: mutation::ByteLimit::near(1 << 20), ..select(&table, &key(1)) };
    measure_pages(&bench, &store, "a deleted partition, rows in an older sstable", all.clone()).await?;
    apply(&store, insert_row(&table, &key(1), rows, 10, &VALUE)).await?;
    store.flush(None).await.map_err(told)?;
    measure_pages(&bench, &store, "the same, tombstone and a row in a newer one", all.clone()).await?;
    for c in 0..rows {
        apply(&store, insert_row(&table, &key(2), c, 5, &VALUE)).await?;
    }
    let key = key(2);
    let mut builder = MutationBuilder::new(table.id, Token::of_key(&key), &key);
    builder.deletion(deletion);
    apply(&store, builder.finish()).await?;
    let all = ReadCommand { scope: Scope::Keys(vec![Key::new(&key)].into()), ..all };
    measure_pages(&bench, &store, "the same, rows and tombstone in a memtable", all).await?;
    bench.end(store).await
}
