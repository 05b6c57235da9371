//! D: reads from disk. Each line says what one operation costs the core, all of the kernel's work in this thread
//! included; "device" is the same disk read at random without an engine, 4 KiB at a time, in the same run.

use super::{Bar, Bench, Case, boxed};
use crate::engine::{apply, insert, insert_row, key, kv, open, read, scan, select, wide};
use crate::meter::{Cost, Meter, median};
use base::Prng;
use mutation::{Bound, Mutation, Scope, Slice, TokenRange};
use runtime::Group;
use runtime::file::{File, OpenOptions};
use schema::{BoundSide, Table};
use sstable::Cache;
use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use storage::{Settings, Store};

/// The cases of this module.
pub const CASES: &[Case] = &[
    Case { name: "D1", what: "cold point read by depth, chunk and compressor", run: |b| boxed(d1(b)) },
    Case { name: "D2", what: "cold point read of 1, 4 and 16 sstables", run: |b| boxed(d2(b)) },
    Case { name: "D3", what: "keys that are not there", run: |b| boxed(d3(b)) },
    Case { name: "D4", what: "slices of one large partition", run: |b| boxed(d4(b)) },
    Case { name: "D5", what: "sequential scan", run: |b| boxed(d5(b)) },
    Case { name: "D6", what: "cold point read, index pages cold too", run: |b| boxed(d6(b)) },
    Case { name: "D7", what: "point read, all blocks cached", run: |b| boxed(d7(b)) },
    Case { name: "D8", what: "misses of the row cache, which they fill", run: |b| boxed(d8(b)) },
];

/// Partitions of a table at full scale: 300 B each on disk.
const PARTITIONS: u64 = 4_000_000;
/// Bytes of a value.
const VALUE_BYTES: usize = 250;
/// Reads of one measured stretch.
const READS: u64 = 100_000;
/// What 1 MiB of plain table needs of the cache for its index pages, with room to spare.
const INDEX_SHARE: u64 = 8;

/// Half of it compresses.
fn value(random: &mut Prng) -> [u8; VALUE_BYTES] {
    let mut value = [7; VALUE_BYTES];
    for bytes in value[..VALUE_BYTES / 2].chunks_mut(8) {
        let word = random.u64().to_le_bytes();
        bytes.copy_from_slice(&word[..bytes.len()]);
    }
    value
}

/// How a table is stored.
#[derive(Clone, Copy)]
struct Stored {
    class: &'static str,
    chunk_kib: u32,
    /// Sstables that each hold every key.
    sstables: u64,
}

const USUAL: Stored = Stored { class: "LZ4Compressor", chunk_kib: 4, sstables: 1 };

fn with_compression(table: Arc<Table>, stored: Stored) -> Arc<Table> {
    let mut table = (*table).clone();
    let compression = &mut table.options.compression;
    compression.insert("class".into(), stored.class.into());
    compression.insert("chunk_length_in_kb".into(), stored.chunk_kib.to_string());
    Arc::new(table)
}

/// Without a cache of rows: what is measured is the way below it.
fn cold(bench: &Bench) -> Settings {
    Settings { row_cache_bytes: 0, ..bench.settings() }
}

/// A store with a flushed table of so many partitions, opened anew: nothing of it is in memory.
async fn flushed(bench: &Bench, stored: Stored, partitions: u64) -> Result<(Rc<Store>, Arc<Table>), String> {
    let table = with_compression(kv(), stored);
    let one = |table: &Table, key: &[u8], version: i64, value: &[u8]| insert(table, key, version + 1, value);
    filled(bench, table, stored.sstables, partitions, one).await
}

/// As [`flushed`], with partitions that have a row in each of so many sstables.
async fn spread(bench: &Bench, partitions: u64, sstables: u64) -> Result<(Rc<Store>, Arc<Table>), String> {
    let table = with_compression(wide(), USUAL);
    let one = |table: &Table, key: &[u8], row: i64, value: &[u8]| insert_row(table, key, row, 1, value);
    filled(bench, table, sstables, partitions, one).await
}

/// A store with so many sstables, each with a write of `one` to every partition.
async fn filled(
    bench: &Bench,
    table: Arc<Table>,
    sstables: u64,
    partitions: u64,
    one: impl Fn(&Table, &[u8], i64, &[u8]) -> Mutation,
) -> Result<(Rc<Store>, Arc<Table>), String> {
    crate::cases::empty(&bench.folder)?;
    let store = open(cold(bench), std::slice::from_ref(&table)).await?;
    let mut random = Prng::new(1);
    for sstable in 0..sstables {
        for number in 0..partitions {
            apply(&store, one(&table, &key(number), sstable as i64, &value(&mut random))).await?;
        }
        store.flush(Some(table.id)).await.map_err(|error| error.to_string())?;
    }
    Ok((store, table))
}

/// So many reads, `depth` of them at a time, of keys that `next` draws.
async fn reads(
    store: &Rc<Store>,
    table: &Arc<Table>,
    count: u64,
    depth: u64,
    rows: u32,
    next: impl Fn(&mut Prng) -> u64 + Copy + 'static,
) -> Result<(), String> {
    let left = Rc::new(Cell::new(count));
    let stream = |number: u64| {
        let (store, table, left) = (store.clone(), table.clone(), left.clone());
        runtime::spawn(Group::QUERY, async move {
            let mut random = Prng::new(number ^ count << 8 ^ left.get() << 32);
            while left.get() > 0 {
                left.set(left.get() - 1);
                let command = select(&table, &key(next(&mut random)));
                let (_, answer) = read(&store, &command).await?;
                if answer.live_rows != rows {
                    return Err(format!("{} rows instead of {rows}", answer.live_rows));
                }
            }
            Ok(())
        })
    };
    let streams: Vec<_> = (0..depth).map(stream).collect();
    for stream in streams {
        stream.await?;
    }
    Ok(())
}

fn budget(bytes: u64) {
    Cache::of_shard().set_budget(usize::try_from(bytes).unwrap_or(usize::MAX));
}

/// Measures such reads in rounds; a first one warms up.
async fn measure(
    bench: &Bench,
    (store, table): (&Rc<Store>, &Arc<Table>),
    depth: u64,
    rows: u32,
    next: impl Fn(&mut Prng) -> u64 + Copy + 'static,
    what: &str,
) -> Result<Cost, String> {
    let count = bench.options.operations(READS);
    reads(store, table, bench.options.scaled(READS), depth.max(16), rows, next).await?;
    let before = Cache::of_shard().stats();
    let mut costs = Vec::new();
    for _ in 0..bench.options.rounds {
        let meter = Meter::start();
        reads(store, table, count, depth, rows, next).await?;
        costs.push(meter.stop(count));
    }
    let after = Cache::of_shard().stats();
    let all = (count * bench.options.rounds as u64) as f64;
    let misses = (after.misses - before.misses) as f64 / all;
    let read_kib = (after.read_bytes - before.read_bytes) as f64 / all / 1024.0;
    let cost = median(costs);
    bench.cost(&format!("{what}: {misses:.2} blocks, {read_kib:.1} KiB read each"), cost);
    Ok(cost)
}

/// The largest file of a folder and what is below it.
fn largest(folder: &Path) -> Option<(u64, PathBuf)> {
    let entries = std::fs::read_dir(folder).ok()?.flatten();
    let sized = entries.filter_map(|entry| {
        let about = entry.metadata().ok()?;
        if about.is_dir() { largest(&entry.path()) } else { Some((about.len(), entry.path())) }
    });
    sized.max()
}

/// Random 4 KiB reads of the largest data file, without an engine.
async fn device(bench: &Bench, depth: u64) -> Result<Cost, String> {
    let (size, path) = largest(&bench.folder.join("data")).ok_or("no data file")?;
    let file = File::open(&path, OpenOptions::READ.with_direct()).await.map_err(|error| error.to_string())?;
    let blocks = size / 4096;
    let count = bench.options.operations(READS);
    let mut costs = Vec::new();
    for round in 0..bench.options.rounds {
        let left = Rc::new(Cell::new(count));
        let meter = Meter::start();
        let stream = |number: u64| {
            let (file, left) = (file.clone(), left.clone());
            runtime::spawn(Group::QUERY, async move {
                let mut random = Prng::new(number << 8 | round as u64);
                while left.get() > 0 {
                    left.set(left.get() - 1);
                    let piece = file.read_piece(random.below(blocks) * 4096, 4096).await;
                    piece.map_err(|error| error.to_string())?;
                }
                Ok::<(), String>(())
            })
        };
        let streams: Vec<_> = (0..depth).map(stream).collect();
        for stream in streams {
            stream.await?;
        }
        costs.push(meter.stop(count));
    }
    let cost = median(costs);
    bench.cost(&format!("device: random 4 KiB, depth {depth}"), cost);
    Ok(cost)
}

/// What a cold point read may cost, and how much of the device it must use unless the core is busy.
fn cold_bars(bench: &Bench, raw: Cost, cost: Cost) {
    bench.bar("ns of processor per cold read, depth 64", cost.processor_ns_each(), Bar::AtMost(15_000.0));
    let of_device = raw.clock_ns as f64 / cost.clock_ns.max(1) as f64 * 100.0;
    let of_core = cost.processor_ns as f64 / cost.clock_ns.max(1) as f64 * 100.0;
    // Whichever comes first.
    if of_core >= 95.0 {
        bench.bar("% of the core, depth 64", of_core, Bar::AtLeast(95.0));
    } else {
        bench.bar("% of the device's rate, depth 64", of_device, Bar::AtLeast(60.0));
    }
}

async fn d1(bench: Bench) -> Result<(), String> {
    let partitions = bench.options.scaled(PARTITIONS);
    let index_bytes = partitions * VALUE_BYTES as u64 / INDEX_SHARE;
    let any = move |random: &mut Prng| random.below(partitions);
    let (store, table) = flushed(&bench, USUAL, partitions).await?;
    budget(index_bytes);
    for depth in [1, 16, 64, 256] {
        let raw = device(&bench, depth).await?;
        let what = format!("cold point read, LZ4, 4 KiB, depth {depth}");
        let cost = measure(&bench, (&store, &table), depth, 1, any, &what).await?;
        if depth == 64 {
            cold_bars(&bench, raw, cost);
        }
    }
    store.drain().await.map_err(|error| error.to_string())?;
    for (class, chunk_kib) in [
        ("LZ4Compressor", 16),
        ("LZ4Compressor", 64),
        ("ZstdCompressor", 16),
        ("NoopCompressor", 4),
        ("NoopCompressor", 16),
    ] {
        let stored = Stored { class, chunk_kib, sstables: 1 };
        let (store, table) = flushed(&bench, stored, partitions).await?;
        budget(index_bytes);
        let what = format!("cold point read, {class}, {chunk_kib} KiB, depth 64");
        measure(&bench, (&store, &table), 64, 1, any, &what).await?;
        store.drain().await.map_err(|error| error.to_string())?;
    }
    Ok(())
}

async fn d2(bench: Bench) -> Result<(), String> {
    for sstables in [1, 4, 16] {
        let partitions = bench.options.scaled(PARTITIONS) / 8;
        let (store, table) = flushed(&bench, Stored { sstables, ..USUAL }, partitions).await?;
        // The newest has all of a row, so only its index pages are read.
        budget(partitions * VALUE_BYTES as u64 / INDEX_SHARE);
        let any = move |random: &mut Prng| random.below(partitions);
        let what = format!("cold point read, every key in {sstables} sstables, depth 64");
        measure(&bench, (&store, &table), 64, 1, any, &what).await?;
        store.drain().await.map_err(|error| error.to_string())?;
    }
    // Here each has a row of every partition, and all are asked.
    for sstables in [4, 16] {
        let partitions = bench.options.scaled(PARTITIONS) / 8;
        let (store, table) = spread(&bench, partitions, sstables).await?;
        budget(partitions * VALUE_BYTES as u64 * sstables / INDEX_SHARE);
        let any = move |random: &mut Prng| random.below(partitions);
        let what =
            format!("cold read of a partition of {sstables} rows, each in an sstable of its own, depth 64");
        measure(&bench, (&store, &table), 64, sstables as u32, any, &what).await?;
        store.drain().await.map_err(|error| error.to_string())?;
    }
    Ok(())
}

async fn d3(bench: Bench) -> Result<(), String> {
    let partitions = bench.options.scaled(PARTITIONS) / 8;
    for sstables in [1, 16] {
        let (store, table) = flushed(&bench, Stored { sstables, ..USUAL }, partitions).await?;
        let absent = move |random: &mut Prng| partitions + random.below(partitions);
        let what = format!("absent key, {sstables} sstables, depth 64");
        measure(&bench, (&store, &table), 64, 0, absent, &what).await?;
        store.drain().await.map_err(|error| error.to_string())?;
    }
    Ok(())
}

async fn d4(bench: Bench) -> Result<(), String> {
    let rows = bench.options.scaled(PARTITIONS);
    let table = with_compression(wide(), USUAL);
    let store = open(cold(&bench), std::slice::from_ref(&table)).await?;
    let mut random = Prng::new(1);
    for number in 0..rows {
        apply(&store, insert_row(&table, &key(1), number as i64, 1, &value(&mut random))).await?;
    }
    store.flush(Some(table.id)).await.map_err(|error| error.to_string())?;
    budget(32 << 20);
    for reversed in [false, true] {
        let count = bench.options.operations(READS / 10);
        let mut costs = Vec::new();
        for _ in 0..bench.options.rounds {
            let meter = Meter::start();
            for _ in 0..count {
                let place = random.below(rows.saturating_sub(10).max(1)) as i64;
                let edge = if reversed { place + 10 } else { place };
                let mut wire = Vec::with_capacity(12);
                schema::push_component(&mut wire, Some(&edge.to_be_bytes()));
                let mut command = select(&table, &key(1));
                let edge = Bound::new(&wire, BoundSide::Before).position(&table);
                let edge = edge.map_err(|error| error.to_string())?;
                let Slice { start, end } = Slice::all();
                let slice = if reversed { Slice { start, end: edge } } else { Slice { start: edge, end } };
                command.slices = vec![slice].into();
                (command.reversed, command.row_limit) = (reversed, 10);
                let (_, answer) = read(&store, &command).await?;
                if answer.live_rows != 10.min(rows as u32) {
                    return Err(format!("{} rows instead of 10", answer.live_rows));
                }
            }
            costs.push(meter.stop(count));
        }
        let order = if reversed { "backward" } else { "forward" };
        bench.cost(&format!("10 rows anywhere in a partition of {rows}, {order}, depth 1"), median(costs));
    }
    store.drain().await.map_err(|error| error.to_string())
}

async fn d5(bench: Bench) -> Result<(), String> {
    let partitions = bench.options.scaled(PARTITIONS);
    let (store, table) = flushed(&bench, Stored { chunk_kib: 16, ..USUAL }, partitions).await?;
    budget(32 << 20);
    let mut costs = Vec::new();
    for _ in 0..bench.options.rounds {
        let mut command = scan(&table, Scope::Range(TokenRange::ALL));
        command.byte_limit = mutation::ByteLimit::near(1 << 20);
        let (mut rows, meter) = (0, Meter::start());
        loop {
            let (_, answer) = read(&store, &command).await?;
            rows += u64::from(answer.live_rows);
            match answer.stopped {
                Some(resume) => command.resume = Some(resume),
                None => break,
            }
        }
        if rows != partitions {
            return Err(format!("{rows} rows instead of {partitions}"));
        }
        costs.push(meter.stop(rows));
    }
    let cost = median(costs);
    let seconds = cost.clock_ns as f64 / 1e9;
    let mib = (partitions * VALUE_BYTES as u64) as f64 / 1_048_576.0;
    bench.cost("row of a full scan, LZ4, 16 KiB, pages of 1 MiB", cost);
    bench.fact("full scan", &format!("{:.0} MiB/s of values", mib / seconds));
    store.drain().await.map_err(|error| error.to_string())
}

async fn d6(bench: Bench) -> Result<(), String> {
    let partitions = bench.options.scaled(PARTITIONS);
    let any = move |random: &mut Prng| random.below(partitions);
    let (store, table) = flushed(&bench, USUAL, partitions).await?;
    budget(1 << 20);
    measure(&bench, (&store, &table), 64, 1, any, "cold point read, cold index, depth 64").await?;
    store.drain().await.map_err(|error| error.to_string())
}

async fn d7(bench: Bench) -> Result<(), String> {
    let partitions = bench.options.scaled(PARTITIONS) / 40;
    let any = move |random: &mut Prng| random.below(partitions);
    let (store, table) = flushed(&bench, USUAL, partitions).await?;
    budget(2 << 30);
    for _ in 0..4 {
        reads(&store, &table, partitions, 64, 1, any).await?;
    }
    measure(&bench, (&store, &table), 1, 1, any, "point read, all blocks cached").await?;
    store.drain().await.map_err(|error| error.to_string())
}

/// Each read misses the row cache, reads one block of one sstable and fills the cache: keys come by in turn, and far fewer
/// fit than there are.
async fn d8(bench: Bench) -> Result<(), String> {
    let partitions = bench.options.scaled(PARTITIONS).max(20_000);
    let table = with_compression(kv(), USUAL);
    let few = Settings { row_cache_bytes: 1 << 20, ..bench.settings() };
    let store = open(few, std::slice::from_ref(&table)).await?;
    let mut random = Prng::new(1);
    for number in 0..partitions {
        apply(&store, insert(&table, &key(number), 1, &value(&mut random))).await?;
    }
    store.flush(Some(table.id)).await.map_err(|error| error.to_string())?;
    // Pages of the index fit, chunks of the data do not: more of either would be hits.
    budget(partitions * VALUE_BYTES as u64 / INDEX_SHARE);
    let turn: &'static Cell<u64> = Box::leak(Box::default());
    let in_turn = move |_: &mut Prng| {
        turn.set((turn.get() + 7_919) % partitions);
        turn.get()
    };
    let before = store.cache_stats();
    measure(&bench, (&store, &table), 64, 1, in_turn, "miss of the row cache, depth 64").await?;
    let stats = store.cache_stats();
    let hits = (stats.hits - before.hits) as f64 / (stats.requests - before.requests).max(1) as f64;
    bench.fact("hits of the row cache", &format!("{:.1} %, {} evictions", hits * 100.0, stats.evictions));
    store.drain().await.map_err(|error| error.to_string())
}
