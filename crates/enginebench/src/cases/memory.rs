//! M: writes into memory. R: reads from it.

use super::{Bar, Bench, Case, boxed};
use crate::engine::{apply, columns, insert, insert_row, key, kv, open, read, scan, select, update, wide};
use crate::meter::{Cost, Meter, median};
use crate::zipf::Zipf;
use base::Prng;
use base::counting::allocated_bytes;
use mutation::{Cell, Deletion, Mutation, ReadCommand, Scope, Slice, TokenRange};
use schema::Table;
use std::rc::Rc;
use std::sync::Arc;
use storage::Store;
use types::CqlType;

/// The cases of this module.
pub const CASES: &[Case] = &[
    Case { name: "M1", what: "insert new partitions: 16 B key, 1 × 100 B", run: |bench| boxed(m1(bench)) },
    Case { name: "M2", what: "overwrite single rows, uniform", run: |bench| boxed(m2(bench)) },
    Case { name: "M3", what: "overwrite single rows, zipf 0.99", run: |bench| boxed(m3(bench)) },
    Case { name: "M4", what: "append rows to 100 partitions", run: |bench| boxed(m4(bench)) },
    Case { name: "M5", what: "update one of 10 columns", run: |bench| boxed(m5(bench)) },
    Case { name: "M6", what: "collections of 10 k and 100 k elements", run: |bench| boxed(m6(bench)) },
    Case { name: "M8", what: "memory per row", run: |bench| boxed(m8(bench)) },
    Case { name: "R1", what: "point read from memory: 100 k partitions", run: |bench| boxed(r1(bench)) },
    Case { name: "R5", what: "slices of 100 rows in a partition, both ways", run: |bench| boxed(r5(bench)) },
    Case { name: "R6", what: "full scan from memory", run: |bench| boxed(r6(bench)) },
];

/// Bytes of a value.
const VALUE: [u8; 100] = [7; 100];
/// What a small row may take.
const SMALL_ROW_BYTES: f64 = 200.0;
/// Mutations made before a measured stretch, which then only applies them.
const PREPARED: u64 = 100_000;

async fn filled(bench: &Bench, partitions: u64) -> Result<(Rc<Store>, Arc<Table>), String> {
    let table = kv();
    let store = open(bench.settings(), std::slice::from_ref(&table)).await?;
    for number in 0..partitions {
        apply(&store, insert(&table, &key(number), 1, &VALUE)).await?;
    }
    Ok((store, table))
}

/// Applies prepared mutations in stretches; the median stretch.
async fn measure_writes(
    bench: &Bench,
    store: &Store,
    what: &str,
    mut next: impl FnMut() -> Mutation,
) -> Result<Cost, String> {
    let mut costs = Vec::new();
    for _ in 0..bench.options.rounds {
        let mut left = bench.options.operations(1_000_000);
        while left > 0 {
            let some = left.min(PREPARED);
            let prepared: Vec<Mutation> = (0..some).map(|_| next()).collect();
            let meter = Meter::start();
            for mutation in prepared {
                apply(store, mutation).await?;
            }
            costs.push(meter.stop(some));
            left -= some;
            runtime::yield_now().await;
        }
    }
    let cost = median(costs);
    bench.cost(what, cost);
    Ok(cost)
}

async fn m1(bench: Bench) -> Result<(), String> {
    let (store, table) = filled(&bench, 0).await?;
    let before = allocated_bytes();
    let mut number = 0;
    let cost = measure_writes(&bench, &store, "insert of a new partition, log copy included", || {
        number += 1;
        insert(&table, &key(number), number as i64, &VALUE)
    })
    .await?;
    bench.bar("ns of processor per write", cost.processor_ns_each(), Bar::AtMost(1_500.0));
    let each = (allocated_bytes() - before) as f64 / number as f64;
    bench.fact("memory of a partition of one row, 16 B key and 100 B value", &format!("{each:.0} B"));
    store.drain().await.map_err(|error| error.to_string())
}

async fn m2(bench: Bench) -> Result<(), String> {
    let partitions = bench.options.scaled(100_000);
    let (store, table) = filled(&bench, partitions).await?;
    let mut random = Prng::new(7);
    let mut timestamp = 1;
    measure_writes(&bench, &store, "overwrite of a row", || {
        timestamp += 1;
        insert(&table, &key(random.below(partitions)), timestamp, &VALUE)
    })
    .await?;
    store.drain().await.map_err(|error| error.to_string())
}

async fn m3(bench: Bench) -> Result<(), String> {
    let partitions = bench.options.scaled(100_000);
    let (store, table) = filled(&bench, partitions).await?;
    let (mut random, zipf) = (Prng::new(7), Zipf::new(partitions, 0.99));
    let mut timestamp = 1;
    measure_writes(&bench, &store, "overwrite of a row, zipf 0.99", || {
        timestamp += 1;
        insert(&table, &key(zipf.draw(&mut random)), timestamp, &VALUE)
    })
    .await?;
    store.drain().await.map_err(|error| error.to_string())
}

async fn m5(bench: Bench) -> Result<(), String> {
    let table = columns(10, &CqlType::Blob);
    let store = open(bench.settings(), std::slice::from_ref(&table)).await?;
    let partitions = bench.options.scaled(100_000);
    let mut random = Prng::new(7);
    let mut timestamp = 1;
    measure_writes(&bench, &store, "update of one of 10 columns of 10 B", || {
        timestamp += 1;
        let (row, ordinal) = (random.below(partitions), random.below(10) as u16);
        update(&table, &key(row), |writer| writer.simple(ordinal, Cell::live(timestamp, &VALUE[..10])))
    })
    .await?;
    store.drain().await.map_err(|error| error.to_string())
}

/// One column after the other is a map from number to blob: a list by time, a set by number, a map.
async fn m6(bench: Bench) -> Result<(), String> {
    let ty = CqlType::map(CqlType::Bigint, CqlType::Blob);
    for elements in [10_000, 100_000] {
        let table = columns(3, &ty);
        let store = open(bench.settings(), std::slice::from_ref(&table)).await?;
        let elements = bench.options.scaled(elements);
        let put = |ordinal: u16, path: u64, timestamp: i64, value: &[u8]| {
            update(&table, &key(1), |writer| {
                writer.complex_start(ordinal, Deletion::LIVE);
                writer.complex_cell(&path.to_be_bytes(), Cell::live(timestamp, value));
                writer.complex_end();
            })
        };
        for path in 0..elements {
            for ordinal in 0..3 {
                apply(&store, put(ordinal, path * 2, 1, &VALUE[..20])).await?;
            }
        }
        let (mut random, mut at) = (Prng::new(7), elements * 2);
        let mut small = Bench { options: bench.options.clone(), folder: bench.folder.clone(), ..bench };
        small.options.count = Some(bench.options.operations(50_000).min(PREPARED));
        let what = |action: &str| format!("{action} a collection of {elements} elements");
        measure_writes(&small, &store, &what("append to"), || {
            at += 2;
            put(0, at, at as i64, &VALUE[..20])
        })
        .await?;
        measure_writes(&small, &store, &what("add to"), || put(1, random.below(elements) * 2 + 1, 1, &[]))
            .await?;
        measure_writes(&small, &store, &what("overwrite an element of"), || {
            at += 2;
            put(2, random.below(elements) * 2, at as i64, &VALUE[..20])
        })
        .await?;
        bench.end(store).await?;
    }
    Ok(())
}

async fn m8(bench: Bench) -> Result<(), String> {
    let rows = bench.options.scaled(200_000);
    let tiny = columns(100, &CqlType::Blob);
    let ten = columns(10, &CqlType::Blob);
    let (kv, wide) = (kv(), wide());
    let write = |table: &Table, number: u64, count: u16, bytes: usize| {
        update(table, &key(number), |writer| {
            (0..count).for_each(|ordinal| writer.simple(ordinal, Cell::live(1, &VALUE[..bytes])));
        })
    };
    for (key_bytes, bytes) in [(16, 8), (8, 100), (16, 100)] {
        let small = |number: u64| insert(&kv, &key(number)[16 - key_bytes..], 1, &VALUE[..bytes]);
        let what = format!("{key_bytes} B key and {bytes} B value");
        let each = memory_of(&bench, &kv, rows, &what, small).await?;
        bench.bar(&format!("bytes of memory per small row, {what}"), each, Bar::AtMost(SMALL_ROW_BYTES));
    }
    memory_of(&bench, &ten, rows / 10, "10 columns of 100 B", |n| write(&ten, n, 10, 100)).await?;
    memory_of(&bench, &tiny, rows / 10, "100 columns of 4 B", |n| write(&tiny, n, 100, 4)).await?;
    let row = |number: u64| insert_row(&wide, &key(1), number as i64, 1, &VALUE);
    memory_of(&bench, &wide, rows * 5, "row of one partition, 8 B clustering and 100 B value", row).await?;
    Ok(())
}

async fn memory_of(
    bench: &Bench,
    table: &Arc<Table>,
    rows: u64,
    what: &str,
    row: impl Fn(u64) -> Mutation,
) -> Result<f64, String> {
    let store = open(bench.settings(), std::slice::from_ref(table)).await?;
    apply(&store, row(0)).await?;
    let before = allocated_bytes();
    for number in 1..rows {
        apply(&store, row(number)).await?;
    }
    let taken = allocated_bytes() - before;
    let stats = store.table_stats().await;
    let told: u64 = stats.iter().filter(|stats| stats.id == table.id).map(|stats| stats.memtable_bytes).sum();
    let size = row(1).as_bytes().len();
    let each = |bytes: i64| bytes as f64 / rows as f64;
    bench.fact(
        &format!("memory of {what}"),
        &format!("{:.0} B, told {:.0} B; as a mutation {size} B", each(taken), each(told as i64)),
    );
    store.drain().await.map_err(|error| error.to_string())?;
    drop(store);
    crate::cases::empty(&bench.folder)?;
    // What was allocated has the log's unwritten blocks in it.
    Ok(each(told as i64))
}

async fn m4(bench: Bench) -> Result<(), String> {
    let table = wide();
    let store = open(bench.settings(), std::slice::from_ref(&table)).await?;
    let mut number = 0;
    measure_writes(&bench, &store, "append of a row to one of 100 partitions", || {
        number += 1;
        insert_row(&table, &key(number % 100), number as i64, 1, &VALUE)
    })
    .await?;
    store.drain().await.map_err(|error| error.to_string())
}

async fn r1(bench: Bench) -> Result<(), String> {
    let sizes = [(100_000, "100 k partitions"), (5_000_000, "5 M partitions")];
    // Counted operations are of one kind.
    let sizes = if bench.options.count.is_some() { &sizes[..1] } else { &sizes };
    for &(size, what) in sizes {
        let partitions = bench.options.scaled(size);
        let (store, table) = filled(&bench, partitions).await?;
        let mut random = Prng::new(7);
        let count = bench.options.operations(1_000_000).min(PREPARED);
        let mut costs = Vec::new();
        for _ in 0..bench.options.rounds {
            let commands: Vec<_> =
                (0..count).map(|_| select(&table, &key(random.below(partitions)))).collect();
            let meter = Meter::start();
            for command in &commands {
                let (at_once, answer) = read(&store, command).await?;
                if !at_once || answer.live_rows != 1 {
                    return Err(format!("a cached row was not found at once: {}", answer.live_rows));
                }
            }
            costs.push(meter.stop(count));
            drop(commands);
            runtime::yield_now().await;
        }
        bench.cost(&format!("point read, {what}, memtable"), median(costs));
        bench.end(store).await?;
    }
    Ok(())
}

async fn r5(bench: Bench) -> Result<(), String> {
    let table = wide();
    let store = open(bench.settings(), std::slice::from_ref(&table)).await?;
    let rows = bench.options.scaled(1_000_000);
    for number in 0..rows {
        apply(&store, insert_row(&table, &key(1), number as i64, 1, &VALUE)).await?;
    }
    for (reversed, what) in [(false, "forward"), (true, "reverse")] {
        let mut random = Prng::new(7);
        let commands = || {
            let slice = |from: u64| {
                let at = |row: u64| {
                    let mut wire = Vec::new();
                    schema::push_component(&mut wire, Some(&(row as i64).to_be_bytes()));
                    table.bound_position(&wire, schema::BoundSide::Before).expect("a clustering of the table")
                };
                let slices = vec![Slice { start: at(from), end: at(from + 100) }].into();
                ReadCommand { slices, reversed, ..select(&table, &key(1)) }
            };
            (0..10_000).map(|_| slice(random.below(rows.saturating_sub(100).max(1)))).collect()
        };
        let expected = rows.min(100) as u32;
        measure_reads(
            &bench,
            &store,
            &format!("100 rows in the middle of {rows}, {what}"),
            expected,
            commands,
        )
        .await?;
    }
    store.drain().await.map_err(|error| error.to_string())
}

/// Reads in stretches; the median stretch. Each must be answered at once and find as many rows.
async fn measure_reads(
    bench: &Bench,
    store: &Store,
    what: &str,
    rows: u32,
    mut commands: impl FnMut() -> Vec<ReadCommand>,
) -> Result<(), String> {
    let mut costs = Vec::new();
    for _ in 0..bench.options.rounds {
        let mut commands = commands();
        commands.truncate(bench.options.operations(PREPARED) as usize);
        let meter = Meter::start();
        for command in &commands {
            let (at_once, answer) = read(store, command).await?;
            if !at_once || answer.live_rows != rows {
                return Err(format!("{} rows instead of {rows}", answer.live_rows));
            }
        }
        costs.push(meter.stop(commands.len() as u64));
        drop(commands);
        runtime::yield_now().await;
    }
    bench.cost(what, median(costs));
    Ok(())
}

async fn r6(bench: Bench) -> Result<(), String> {
    let partitions = bench.options.scaled(1_000_000);
    let (store, table) = filled(&bench, partitions).await?;
    let mut costs = Vec::new();
    for _ in 0..bench.options.rounds {
        let mut command = ReadCommand { row_limit: 5_000, ..scan(&table, Scope::Range(TokenRange::ALL)) };
        let mut rows = 0;
        let meter = Meter::start();
        loop {
            let answer = store.read(&command).await.map_err(|error| error.to_string())?;
            rows += u64::from(answer.live_rows);
            if answer.stopped.is_none() {
                break;
            }
            command.resume = answer.stopped;
        }
        costs.push(meter.stop(rows));
        if rows != partitions {
            return Err(format!("{rows} rows instead of {partitions}"));
        }
    }
    bench.cost("row of a full scan, one row per partition, pages of 5000", median(costs));
    store.drain().await.map_err(|error| error.to_string())
}
