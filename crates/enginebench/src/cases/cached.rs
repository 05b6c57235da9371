//! R: reads from the row cache. T: reads over tombstones.

use super::{Bar, Bench, Case, boxed};
use crate::engine::{apply, insert, insert_row, key, kv, open, read, scan, select, told, wide};
use crate::meter::{Cost, Meter, median};
use base::{Prng, Token};
use mutation::{
    Bound, Cell, Deletion, Key, Liveness, Mutation, MutationBuilder, RangeTombstone, ReadCommand, Scope,
    Slice, TokenRange,
};
use schema::{BoundSide, Table, push_component};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;
use storage::{Settings, Store};

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
        name: "R8",
        what: "a tenth of the rows fits, skewed keys, eviction running",
        run: |b| boxed(skewed(b)),
    },
    Case {
        name: "R9",
        what: "longest step of a cache that grows, evicts and changes sizes",
        run: |b| boxed(pauses(b)),
    },
    Case { name: "T1", what: "a million row tombstones, then LIMIT 1", run: |b| boxed(row_tombstones(b)) },
    Case { name: "T2", what: "100 k overlapping range tombstones", run: |b| boxed(range_tombstones(b)) },
    Case { name: "T3", what: "a queue: insert at the end, delete the head", run: |b| boxed(queue(b)) },
    Case { name: "T4", what: "scan over rows of which half have expired", run: |b| boxed(expired(b)) },
    Case {
        name: "T5",
        what: "a partition tombstone over a million rows",
        run: |b| boxed(partition_tombstone(b)),
    },
];

const VALUE: [u8; 100] = [7; 100];

async fn store(bench: &Bench, table: &Arc<Table>, cache_bytes: u64) -> Result<Rc<Store>, String> {
    let settings = Settings { row_cache_bytes: cache_bytes, ..bench.settings() };
    open(settings, std::slice::from_ref(table)).await
}

async fn end(bench: &Bench, store: Rc<Store>) -> Result<(), String> {
    store.drain().await.map_err(told)?;
    drop(store);
    super::empty(&bench.folder)
}

/// Partitions of one row in sstables, all of them cached.
async fn cached(bench: &Bench, partitions: u64, value: &[u8]) -> Result<(Rc<Store>, Arc<Table>), String> {
    let table = kv();
    // The cache adds nothing to the last eighth of its budget.
    let budget = partitions * (1_000 + 2 * value.len() as u64);
    let store = store(bench, &table, budget.max(1 << 20)).await?;
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
        let stats = store.cache_stats();
        let each = stats.bytes as f64 / stats.rows.max(1) as f64;
        bench.fact(&format!("memory of a cached row, {what} partitions"), &format!("{each:.0} B"));
        let mut random = Prng::new(7);
        let next = || select(&table, &key(random.below(partitions)));
        let cost =
            measure(&bench, &store, &format!("point read, {what} partitions, row cache"), 1, next).await?;
        bench.bar("ns of processor per cached read", cost.processor_ns_each(), Bar::AtMost(1_200.0));
        bench.bar("allocations per cached read", cost.allocations_each(), Bar::AtMost(0.0));
        // Near the 200 of a row in a memtable: a place in the queue and the list of those that went come on top.
        bench.bar("bytes of memory per cached row", each, Bar::AtMost(240.0));
        end(&bench, store).await?;
    }
    Ok(())
}

async fn absent(bench: Bench) -> Result<(), String> {
    let table = wide();
    let store = store(&bench, &table, 1 << 30).await?;
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
    end(&bench, store).await
}

fn clustering(c: i64) -> Vec<u8> {
    let mut wire = Vec::with_capacity(12);
    push_component(&mut wire, Some(&c.to_be_bytes()));
    wire
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
    let cost = measure(&bench, &store, "point read, row in memtable and row cache", 1, next).await?;
    bench.bar("allocations per cached read", cost.allocations_each(), Bar::AtMost(0.0));
    end(&bench, store).await
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
        end(&bench, store).await?;
    }
    Ok(())
}

async fn skewed(bench: Bench) -> Result<(), String> {
    let partitions = bench.options.scaled(1_000_000);
    let table = kv();
    // A row takes some 250 bytes in the cache: about a tenth of them fits.
    let store = store(&bench, &table, (partitions * 25).max(1 << 20)).await?;
    for number in 0..partitions {
        apply(&store, insert(&table, &key(number), 1, &VALUE)).await?;
    }
    store.flush(None).await.map_err(told)?;
    let mut random = Prng::new(7);
    let count = bench.options.operations(400_000);
    // The fourth power of chance: half of the reads ask for a sixteenth of the keys.
    let mut next = || select(&table, &key((random.unit().powi(4) * partitions as f64) as u64));
    for _ in 0..count {
        read(&store, &next()).await?;
    }
    let (before, mut at_once) = (store.cache_stats(), 0u64);
    let meter = Meter::start();
    for _ in 0..count {
        at_once += u64::from(read(&store, &next()).await?.0);
    }
    bench.cost("read, skewed, a tenth fits, misses included", meter.stop(count));
    let stats = store.cache_stats();
    let share = at_once as f64 * 100.0 / count as f64;
    bench.fact("hits", &format!("{share:.1} %, {} evictions", stats.evictions - before.evictions));
    bench.fact("bytes of the cache, of its budget", &format!("{} of {}", stats.bytes, stats.capacity));
    end(&bench, store).await
}

async fn pauses(bench: Bench) -> Result<(), String> {
    let table = kv();
    let partitions = bench.options.scaled(400_000);
    let store = store(&bench, &table, (partitions * 100).max(4 << 20)).await?;
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
    end(&bench, store).await
}

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

async fn measure_pages(bench: &Bench, store: &Store, what: &str, command: ReadCommand) -> Result<(), String> {
    let meter = Meter::start();
    let (count, rows, longest) = pages(store, command).await?;
    bench.cost(what, meter.stop(1));
    bench.fact(what, &format!("{count} pages, {rows} live rows, longest page {longest} µs"));
    Ok(())
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
    let store = store(&bench, &table, 1 << 30).await?;
    let rows = bench.options.scaled(1_000_000) as i64;
    for c in 0..rows {
        apply(&store, delete_row(&table, c, 5)).await?;
    }
    apply(&store, insert_row(&table, &key(1), rows, 6, &VALUE)).await?;
    let first = ReadCommand { row_limit: 1, byte_limit: 1 << 20, ..select(&table, &key(1)) };
    measure_pages(&bench, &store, "LIMIT 1 behind the tombstones, memtable", first.clone()).await?;
    store.flush(None).await.map_err(told)?;
    measure_pages(&bench, &store, "the same, sstable", first.clone()).await?;
    measure_pages(&bench, &store, "the same, once more", first).await?;
    end(&bench, store).await
}

async fn range_tombstones(bench: Bench) -> Result<(), String> {
    let table = wide();
    let store = store(&bench, &table, 1 << 30).await?;
    let count = bench.options.scaled(100_000) as i64;
    type Order = fn(i64, i64) -> (i64, i64, i64);
    let orders: [(&str, Order); 3] = [
        ("older over newer", |i, count| (count - i, count + i, count - i)),
        ("newer over older", |i, count| (count - i, count + i, i)),
        ("by chance", |i, count| (i * 7919 % count, i * 7919 % count + count / 2, i * 104_729 % count)),
    ];
    for (index, (name, order)) in orders.into_iter().enumerate() {
        let key = key(index as u64);
        let meter = Meter::start();
        for i in 1..=count {
            let (from, to, timestamp) = order(i, count);
            let mut builder = MutationBuilder::new(table.id, Token::of_key(&key), &key);
            builder.range(&RangeTombstone {
                start: Bound::new(&clustering(from), BoundSide::Before),
                end: Bound::new(&clustering(to), BoundSide::After),
                deletion: Deletion { timestamp: timestamp + 1, local_time: 1_700_000_000 },
            });
            apply(&store, builder.finish()).await?;
        }
        bench.cost(&format!("overlapping range tombstone, {name}: insert"), meter.stop(count as u64));
        let at = |c| table.position(&clustering(c)).expect("fits");
        let slice = Slice { start: at(count), end: at(count + 10) };
        let command = ReadCommand { slices: vec![slice].into(), ..select(&table, &key) };
        measure_pages(&bench, &store, &format!("{name}: slice of ten rows in the middle"), command).await?;
        let whole = ReadCommand { byte_limit: 1 << 20, ..select(&table, &key) };
        measure_pages(&bench, &store, &format!("{name}: all of them"), whole).await?;
    }
    end(&bench, store).await
}

async fn queue(bench: Bench) -> Result<(), String> {
    let table = wide();
    let store = store(&bench, &table, 1 << 30).await?;
    let count = bench.options.scaled(50_000) as i64;
    let mut longest = 0;
    let meter = Meter::start();
    for c in 0..count {
        apply(&store, insert_row(&table, &key(1), c, c, &VALUE)).await?;
        apply(&store, delete_row(&table, c - 10, c)).await?;
        if c % 1_000 == 999 {
            let head = ReadCommand { row_limit: 1, byte_limit: 1 << 20, ..select(&table, &key(1)) };
            longest = longest.max(pages(&store, head).await?.2);
        }
        if c % 20_000 == 19_999 {
            store.flush(None).await.map_err(told)?;
        }
    }
    bench.cost("insert at the end and delete of the head", meter.stop(count as u64));
    bench.fact("longest page of a read of the head", &format!("{longest} µs"));
    end(&bench, store).await
}

async fn expired(bench: Bench) -> Result<(), String> {
    let table = kv();
    let store = store(&bench, &table, 1 << 30).await?;
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
        let command = ReadCommand { byte_limit: 1 << 20, ..scan(&table, Scope::Range(TokenRange::ALL)) };
        let meter = Meter::start();
        let (count, rows, longest) = pages(&store, command).await?;
        bench.cost(&format!("row of a scan of which half have expired, {place}"), meter.stop(partitions));
        bench.fact("the scan", &format!("{count} pages, {rows} live rows, longest page {longest} µs"));
        store.flush(None).await.map_err(told)?;
    }
    end(&bench, store).await
}

async fn partition_tombstone(bench: Bench) -> Result<(), String> {
    let table = wide();
    let store = store(&bench, &table, 1 << 30).await?;
    let rows = bench.options.scaled(1_000_000) as i64;
    for c in 0..rows {
        apply(&store, insert_row(&table, &key(1), c, 5, &VALUE)).await?;
    }
    store.flush(None).await.map_err(told)?;
    let deletion = Deletion { timestamp: 9, local_time: 1_700_000_000 };
    apply(&store, in_partition(&table, |builder| builder.deletion(deletion))).await?;
    let all = ReadCommand { byte_limit: 1 << 20, ..select(&table, &key(1)) };
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
    end(&bench, store).await
}
