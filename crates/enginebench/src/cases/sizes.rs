//! K2: what compactions write and how much space they take, by strategy. X: many sstables, little memory.

use super::{Bar, Bench, Case, boxed};
use crate::engine::{apply, insert, key, kv, kv_compacted_by, open, read, select, settings, told};
use crate::folders;
use crate::meter::{COMPACTED, Cost, FLUSHED, Meter};
use base::Prng;
use base::counting::allocated_bytes;
use schema::Table;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};
use storage::{Settings, Store};

/// The cases of this module.
pub const CASES: &[Case] = &[
    Case {
        name: "K2",
        what: "bytes written and space taken by strategy, ten times the data written over",
        run: |bench| boxed(k2(bench)),
    },
    Case { name: "X1", what: "open 10 k sstables, read among them", run: |bench| boxed(x1(bench)) },
    Case {
        name: "X3",
        what: "a row cache of a hundredth of the data: 1 KB, 32 KB, 1 MB values",
        run: |bench| boxed(x3(bench)),
    },
];

/// The data of K2 is small: so are the sstables below which strategies make no difference.
const SMALLEST: (&str, &str) = ("min_sstable_size", "1MiB");
/// Strategies of K2 and their options.
const STRATEGIES: &[(&str, &[(&str, &str)])] = &[
    ("unified, T4", &[("class", "UnifiedCompactionStrategy"), ("scaling_parameters", "T4"), SMALLEST]),
    ("unified, N", &[("class", "UnifiedCompactionStrategy"), ("scaling_parameters", "N"), SMALLEST]),
    ("unified, L10", &[("class", "UnifiedCompactionStrategy"), ("scaling_parameters", "L10"), SMALLEST]),
    ("size-tiered", &[("class", "SizeTieredCompactionStrategy"), ("min_sstable_size", "1048576")]),
    ("leveled", &[("class", "LeveledCompactionStrategy"), ("sstable_size_in_mb", "8")]),
];
/// Bytes of memtables of K2: so much goes into a flush at most.
const K2_MEMTABLES: u64 = 8 << 20;
/// How often K2 writes each row on average.
const K2_TIMES: u64 = 10;
const K2_VALUE: usize = 300;
/// How often K2 looks at the folder.
const LOOK: Duration = Duration::from_millis(50);
/// For so long nothing may be written before K2 believes that compactions are done.
const QUIET: Duration = Duration::from_secs(2);

async fn k2(bench: Bench) -> Result<(), String> {
    let rows = bench.options.operations(500_000);
    for (name, options) in STRATEGIES {
        let table = kv_compacted_by(options);
        super::empty(&bench.folder)?;
        let settings = Settings {
            memtable_bytes: K2_MEMTABLES,
            row_cache_bytes: 0,
            auto_compaction: true,
            ..bench.settings()
        };
        let store = open(settings, std::slice::from_ref(&table)).await?;
        let (flushed, compacted) = (FLUSHED.now(), COMPACTED.now());
        let (mut prng, mut peak, mut looked) = (Prng::new(1), 0, Instant::now());
        for write in 0..rows * K2_TIMES {
            let number = prng.below(rows);
            let mut value = vec![7; K2_VALUE];
            prng.fill(&mut value[..K2_VALUE / 2]);
            apply(&store, insert(&table, &key(number), 1 + write as i64, &value)).await?;
            runtime::yield_if_needed().await;
            if looked.elapsed() >= LOOK {
                looked = Instant::now();
                peak = peak.max(folders::bytes(&bench.folder.join("data")));
                // Over a day compactions are done long before the next flush.
                while is_behind(&store).await {
                    runtime::sleep(LOOK / 10).await;
                    peak = peak.max(folders::bytes(&bench.folder.join("data")));
                }
            }
        }
        store.flush(None).await.map_err(told)?;
        let (mut last, mut since) = (COMPACTED.now(), Instant::now());
        while since.elapsed() < QUIET {
            runtime::sleep(LOOK).await;
            peak = peak.max(folders::bytes(&bench.folder.join("data")));
            if COMPACTED.now() != last || is_behind(&store).await {
                (last, since) = (COMPACTED.now(), Instant::now());
            }
        }
        let (flushed, compacted) = (FLUSHED.now() - flushed, COMPACTED.now() - compacted);
        let rest = folders::bytes(&bench.folder.join("data"));
        store.compact(table.id).await.map_err(told)?;
        let least = at_rest(&bench.folder.join("data")).await.max(1);
        store.drain().await.map_err(told)?;
        let mib = |bytes: u64| bytes >> 20;
        bench.fact(
            name,
            &format!(
                "{} MiB flushed, {} MiB compacted: {:.1} bytes written for one flushed; space of {:.1} times one copy at most, \
                 {:.1} at rest",
                mib(flushed),
                mib(compacted),
                (flushed + compacted) as f64 / flushed.max(1) as f64,
                peak as f64 / least as f64,
                rest as f64 / least as f64,
            ),
        );
    }
    Ok(())
}

/// Bytes of a folder when they have not changed for a second: files go with their last reader.
async fn at_rest(folder: &Path) -> u64 {
    let mut bytes = folders::bytes(folder);
    loop {
        runtime::sleep(Duration::from_secs(1)).await;
        let now = folders::bytes(folder);
        if now == bytes {
            return now;
        }
        bytes = now;
    }
}

/// Whether compactions are due.
async fn is_behind(store: &Store) -> bool {
    store.table_stats().await.iter().any(|stats| stats.pending_compactions > 0)
}

/// Sstables that the process may have open at once: each has its data and two files of its index open, where it was written and again.
fn openable() -> u64 {
    const FILES_EACH: u64 = 6;
    const OTHERS: u64 = 1_000;
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    let most = line.and_then(|line| line.split_whitespace().next()).and_then(|word| word.parse::<u64>().ok());
    most.map_or(u64::MAX, |most| most.saturating_sub(OTHERS) / FILES_EACH).max(1)
}

async fn x1(bench: Bench) -> Result<(), String> {
    const ROWS: u64 = 4;
    let sstables = bench.options.operations(10_000).min(openable());
    let table = kv();
    let settings = |folder: &Path| Settings { row_cache_bytes: 0, ..settings(folder, bench.options.format) };
    let store = open(bench.settings(), std::slice::from_ref(&table)).await?;
    let meter = Meter::start();
    for sstable in 0..sstables {
        for row in 0..ROWS {
            apply(&store, insert(&table, &key(sstable * ROWS + row), 1, &[7; 100])).await?;
        }
        store.flush(None).await.map_err(told)?;
    }
    bench.cost("flushes of four rows", meter.stop(sstables));
    bench.fact("sstables, as far as the process may open files", &sstables.to_string());
    store.drain().await.map_err(told)?;
    // The process holds the folder until it ends: what was written is opened under another name.
    let again = bench.folder.join("again");
    for part in ["data", "commitlog"] {
        folders::link_all(&bench.folder.join(part), &again.join(part)).map_err(told)?;
    }
    let before = allocated_bytes();
    let meter = Meter::start();
    let store = open(settings(&again), std::slice::from_ref(&table)).await?;
    let cost = meter.stop(sstables);
    bench.cost("opening, each sstable", cost);
    bench.fact("opening", &format!("{:.2} s", cost.clock_ns as f64 / 1e9));
    let memory = (allocated_bytes() - before) / sstables.max(1) as i64;
    bench.fact("memory of an open sstable", &format!("{memory} B"));
    let keys = sstables * ROWS;
    bench.cost("reads of a key in one of them", reads(&bench, &store, &table, 0..keys, 1).await?);
    bench.cost("reads of a key in none", reads(&bench, &store, &table, keys..2 * keys, 0).await?);
    store.drain().await.map_err(told)
}

/// Reads keys of these numbers at random; each must have so many rows.
async fn reads(
    bench: &Bench,
    store: &Store,
    table: &Table,
    numbers: std::ops::Range<u64>,
    rows: u32,
) -> Result<Cost, String> {
    let count = bench.options.operations(20_000);
    let mut prng = Prng::new(4);
    let meter = Meter::start();
    for _ in 0..count {
        let number = numbers.start + prng.below(numbers.end - numbers.start);
        let (_, answer) = read(store, &select(table, &key(number))).await?;
        if answer.live_rows != rows {
            return Err(format!("{} rows of key {number}", answer.live_rows));
        }
    }
    Ok(meter.stop(count))
}

async fn x3(bench: Bench) -> Result<(), String> {
    const DATA: u64 = 512 << 20;
    let data = bench.options.scaled(DATA);
    for bytes in [1 << 10, 32 << 10, 1 << 20] {
        let table = kv();
        super::empty(&bench.folder)?;
        let settings =
            Settings { row_cache_bytes: data / 100, block_cache_bytes: data / 100, ..bench.settings() };
        let store: Rc<Store> = open(settings, std::slice::from_ref(&table)).await?;
        let rows = (data / bytes).max(2);
        let mut prng = Prng::new(bytes);
        let mut value = vec![0; bytes as usize];
        for number in 0..rows {
            prng.fill(&mut value);
            apply(&store, insert(&table, &key(number), 1, &value)).await?;
        }
        store.flush(None).await.map_err(told)?;
        let reads = bench.options.operations((DATA / bytes).clamp(1_000, 100_000));
        let mut longest = 0;
        let meter = Meter::start();
        for _ in 0..reads {
            let since = Instant::now();
            let (_, answer) = read(&store, &select(&table, &key(prng.below(rows)))).await?;
            longest = longest.max(since.elapsed().as_micros());
            if answer.live_rows != 1 {
                return Err(format!("{} rows", answer.live_rows));
            }
        }
        let kib = bytes >> 10;
        bench.cost(&format!("reads of {kib} KiB"), meter.stop(reads));
        let stats = store.cache_stats();
        let seen = format!(
            "{} hits of {}, {} evictions, longest read {longest} µs",
            stats.hits, stats.requests, stats.evictions
        );
        bench.fact(&format!("cache of rows of {kib} KiB"), &seen);
        let part = stats.bytes as f64 / stats.capacity.max(1) as f64;
        bench.bar(&format!("memory of the cache of its budget, rows of {kib} KiB"), part, Bar::AtMost(1.0));
        store.drain().await.map_err(told)?;
    }
    Ok(())
}
