//! R: reads from the row cache.

use super::{Bar, Bench, Case, boxed};
use crate::engine::{
    apply, clustering, columns, insert, insert_row, key, kv, read, select, told, update, wide,
};
use crate::meter::{Cost, Meter, median};
use base::Prng;
use mutation::{Cell, ReadCommand, Slice};
use schema::{BoundSide, Table};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;
use storage::Store;
use types::CqlType;

/// The cases of this module.
pub const CASES: &[Case] = &[
    Case {
        name: "R1C",
        what: "point read from the row cache: 100 k, 2 M partitions",
        run: |b| boxed(hits(b)),
    },
    Case {
        name: "R2",
        what: "a row that is not there, answered by what is known",
        run: |b| boxed(absent(b)),
    },
    Case { name: "R3", what: "point read merged from memtable and row cache", run: |b| boxed(merged(b)) },
    Case { name: "R7", what: "point read by size of the row", run: |b| boxed(sizes(b)) },
    Case {
        name: "R9",
        what: "longest step of a cache that grows, evicts and changes sizes",
        run: |b| boxed(pauses(b)),
    },
];

const VALUE: [u8; 100] = [7; 100];
const COLUMNS: u16 = 10;
/// Rows whose memory is measured: bytes of key and value, and what one may take in all.
const SMALL: [(usize, usize, Option<f64>); 3] =
    [(16, 8, Some(200.0)), (8, 100, Some(200.0)), (16, 100, None)];
/// Budget of a cache for each row that is offered: less than one takes, so that it is full.
const FULL_BYTES: u64 = 120;

/// Partitions of one row in sstables, all of them cached.
async fn cached(bench: &Bench, partitions: u64, value: &[u8]) -> Result<(Rc<Store>, Arc<Table>), String> {
    let table = kv();
    // The cache adds nothing to the last eighth of its budget.
    let budget = partitions * (1_000 + 2 * value.len() as u64);
    let store = bench.open(&table, budget.max(1 << 20)).await?;
    for number in 0..partitions {
        apply(&store, insert(&table, &key(number), 1, value)).await?;
    }
    store.flush(None).await.map_err(told)?;
    for number in 0..partitions {
        read(&store, &select(&table, &key(number))).await?;
    }
    Ok((store, table))
}

/// Runs prepared commands that must be answered at once with so many rows; the median of the rounds.
async fn measure(
    bench: &Bench,
    store: &Store,
    what: &str,
    rows: u32,
    mut next: impl FnMut() -> ReadCommand,
) -> Result<Cost, String> {
    let count = bench.options.operations(1_000_000).min(100_000);
    let mut costs = Vec::new();
    for _ in 0..bench.options.rounds {
        let commands: Vec<ReadCommand> = (0..count).map(|_| next()).collect();
        let meter = Meter::start();
        for command in &commands {
            let (at_once, answer) = read(store, command).await?;
            if !at_once || answer.live_rows != rows {
                return Err(format!("{what}: {} rows, at once: {at_once}", answer.live_rows));
            }
        }
        costs.push(meter.stop(count));
        drop(commands);
        runtime::yield_now().await;
    }
    let cost = median(costs);
    bench.cost(what, cost);
    Ok(cost)
}

async fn hits(bench: Bench) -> Result<(), String> {
    let sizes = [(100_000, "100 k"), (2_000_000, "2 M")];
    // Counted operations are of one kind.
    let sizes = if bench.options.count.is_some() { &sizes[..1] } else { &sizes };
    for &(size, what) in sizes {
        let partitions = bench.options.scaled(size);
        let (store, table) = cached(&bench, partitions, &VALUE).await?;
        let mut random = Prng::new(7);
        let next = || select(&table, &key(random.below(partitions)));
        let cost =
            measure(&bench, &store, &format!("point read, {what} partitions, row cache"), 1, next).await?;
        bench.bar("ns of processor per cached read", cost.processor_ns_each(), Bar::AtMost(1_200.0));
        bench.bar("allocations per cached read", cost.allocations_each(), Bar::AtMost(0.0));
        bench.end(store).await?;
    }
    if bench.options.count.is_none() {
        for (key_bytes, value_bytes, bar) in SMALL {
            memory(&bench, key_bytes, value_bytes, bar).await?;
        }
    }
    Ok(())
}

/// What a cached row takes of everything that a full cache has: its block, its place in the queue and in the directory,
/// the list of those that went, and what of all that is not full.
async fn memory(bench: &Bench, key_bytes: usize, value_bytes: usize, bar: Option<f64>) -> Result<(), String> {
    let table = kv();
    let partitions = bench.options.scaled(600_000);
    let key = |number: u64| key(number)[16 - key_bytes..].to_vec();
    let store = bench.open(&table, (partitions * FULL_BYTES).max(1 << 20)).await?;
    for number in 0..partitions {
        apply(&store, insert(&table, &key(number), 1, &VALUE[..value_bytes])).await?;
    }
    store.flush(None).await.map_err(told)?;
    for number in 0..partitions {
        read(&store, &select(&table, &key(number))).await?;
    }
    let stats = store.cache_stats();
    let each = stats.bytes as f64 / stats.rows.max(1) as f64;
    let what = format!("{key_bytes} B key and {value_bytes} B value");
    match bar {
        Some(bar) => bench.bar(&format!("bytes of memory per cached row, {what}"), each, Bar::AtMost(bar)),
        None => bench.fact(&format!("memory per cached row, {what}"), &format!("{each:.0} B")),
    }
    bench.end(store).await
}

async fn absent(bench: Bench) -> Result<(), String> {
    let table = wide();
    let store = bench.open(&table, 1 << 30).await?;
    let partitions = bench.options.scaled(1_000);
    for number in 0..partitions {
        for c in 0..20 {
            apply(&store, insert_row(&table, &key(number), c * 10, 1, &VALUE)).await?;
        }
    }
    store.flush(None).await.map_err(told)?;
    for number in 0..partitions {
        read(&store, &select(&table, &key(number))).await?;
    }
    let mut random = Prng::new(7);
    let next = || row_of(&table, &key(random.below(partitions)), 1 + 10 * random.below(20) as i64);
    measure(&bench, &store, "row that is not there, row cache", 0, next).await?;
    let mut random = Prng::new(8);
    let next = || row_of(&table, &key(random.below(partitions)), 10 * random.below(20) as i64);
    let cost = measure(&bench, &store, "row of twenty, row cache", 1, next).await?;
    bench.bar("allocations per cached read", cost.allocations_each(), Bar::AtMost(0.0));
    bench.end(store).await
}

/// `SELECT * FROM wide WHERE k = ? AND c = ?`.
fn row_of(table: &Table, key: &[u8], c: i64) -> ReadCommand {
    let at = |side| table.bound_position(&clustering(c), side).expect("fits");
    let slice = Slice { start: at(BoundSide::Before), end: at(BoundSide::After) };
    ReadCommand { slices: vec![slice].into(), ..select(table, key) }
}

async fn merged(bench: Bench) -> Result<(), String> {
    let partitions = bench.options.scaled(100_000);
    let (store, table) = cached(&bench, partitions, &VALUE).await?;
    for number in 0..partitions {
        apply(&store, insert(&table, &key(number), 2, &VALUE)).await?;
    }
    let mut random = Prng::new(7);
    let next = || select(&table, &key(random.below(partitions)));
    let cost =
        measure(&bench, &store, "point read, whole row in memtable, older one in row cache", 1, next).await?;
    bench.bar("allocations per cached read", cost.allocations_each(), Bar::AtMost(0.0));
    bench.end(store).await?;
    // Counted operations are of one kind.
    if bench.options.count.is_none() { merged_columns(bench).await } else { Ok(()) }
}

/// As above, but the memtable knows one column of ten: only both together make the row.
async fn merged_columns(bench: Bench) -> Result<(), String> {
    let table = columns(usize::from(COLUMNS), &CqlType::Blob);
    let partitions = bench.options.scaled(100_000);
    let store = bench.open(&table, partitions * 2_000).await?;
    for number in 0..partitions {
        let all = update(&table, &key(number), |writer| {
            (0..COLUMNS).for_each(|ordinal| writer.simple(ordinal, Cell::live(1, &VALUE[..10])));
        });
        apply(&store, all).await?;
    }
    store.flush(None).await.map_err(told)?;
    for number in 0..partitions {
        read(&store, &select(&table, &key(number))).await?;
        let one = update(&table, &key(number), |writer| {
            writer.simple((number % u64::from(COLUMNS)) as u16, Cell::live(2, &VALUE[..10]));
        });
        apply(&store, one).await?;
    }
    let mut random = Prng::new(7);
    let next = || select(&table, &key(random.below(partitions)));
    let cost =
        measure(&bench, &store, "point read, column in memtable, the others in row cache", 1, next).await?;
    bench.bar("allocations per cached read", cost.allocations_each(), Bar::AtMost(0.0));
    bench.end(store).await
}

async fn sizes(bench: Bench) -> Result<(), String> {
    for (size, partitions) in [(100, 20_000), (1_000, 20_000), (100_000, 2_000)] {
        let partitions = bench.options.scaled(partitions);
        let (store, table) = cached(&bench, partitions, &vec![7; size]).await?;
        let mut random = Prng::new(7);
        let count = bench.options.operations(1_000_000).min(if size > 10_000 { 20_000 } else { 100_000 });
        let mut costs = Vec::new();
        for _ in 0..bench.options.rounds {
            let commands: Vec<_> =
                (0..1_000).map(|_| select(&table, &key(random.below(partitions)))).collect();
            let meter = Meter::start();
            for index in 0..count as usize {
                let (at_once, _) = read(&store, &commands[index % commands.len()]).await?;
                if !at_once {
                    return Err("a cached row was not found at once".into());
                }
            }
            costs.push(meter.stop(count));
        }
        let cost = median(costs);
        bench.cost(&format!("point read of a row of {size} B, row cache"), cost);
        bench.bar("allocations per cached read", cost.allocations_each(), Bar::AtMost(0.0));
        bench.end(store).await?;
    }
    Ok(())
}

async fn pauses(bench: Bench) -> Result<(), String> {
    let table = kv();
    let partitions = bench.options.scaled(400_000);
    let store = bench.open(&table, (partitions * 100).max(4 << 20)).await?;
    let mut random = Prng::new(7);
    for number in 0..partitions {
        // Sizes shift, so that segments of one size must become segments of another.
        let most = 40 + 600 * number / partitions;
        let value = vec![7; 1 + random.below(most) as usize];
        apply(&store, insert(&table, &key(number), 1, &value)).await?;
    }
    store.flush(None).await.map_err(told)?;
    let mut longest_hit = 0;
    for number in 0..partitions {
        read(&store, &select(&table, &key(number))).await?;
        let hit = select(&table, &key(number));
        let start = Instant::now();
        let found = store.read_now(&hit);
        longest_hit = longest_hit.max(start.elapsed().as_micros());
        drop(found);
    }
    // What filling takes is all but the file: measured as the longest step of the executor's own count.
    bench.fact("longest hit while the cache fills and evicts", &format!("{longest_hit} µs"));
    let stats = store.cache_stats();
    bench.fact("evictions", &stats.evictions.to_string());
    bench.end(store).await
}
