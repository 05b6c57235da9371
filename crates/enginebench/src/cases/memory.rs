//! M: writes into memory. R: reads from it.

use super::{Bench, Case, Running};
use crate::engine::{apply, insert, insert_row, kv, open, read, select, settings, wide};
use crate::meter::{Meter, median};
use base::Prng;
use base::counting::allocated_bytes;
use mutation::Mutation;
use schema::Table;
use std::rc::Rc;
use std::sync::Arc;
use storage::Store;

/// The cases of this module.
pub const CASES: &[Case] = &[
    Case { name: "M1", what: "insert new partitions: 16 B key, 1 × 100 B", run: |bench| boxed(m1(bench)) },
    Case { name: "M2", what: "overwrite single rows, uniform", run: |bench| boxed(m2(bench)) },
    Case { name: "M4", what: "append rows to 100 partitions", run: |bench| boxed(m4(bench)) },
    Case { name: "R1", what: "point read from memory: 100 k partitions", run: |bench| boxed(r1(bench)) },
];

/// Bytes of a value.
const VALUE: [u8; 100] = [7; 100];
/// Mutations made before a measured stretch, which then only applies them.
const PREPARED: u64 = 100_000;

fn boxed(future: impl Future<Output = Result<(), String>> + 'static) -> Running {
    Box::pin(future)
}

/// A key of 16 bytes.
fn key(number: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    key[8..].copy_from_slice(&number.to_be_bytes());
    key
}

async fn filled(bench: &Bench, partitions: u64) -> Result<(Rc<Store>, Arc<Table>), String> {
    let table = kv();
    let store = open(settings(&bench.folder), std::slice::from_ref(&table)).await?;
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
) -> Result<(), String> {
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
    bench.cost(what, median(costs));
    Ok(())
}

async fn m1(bench: Bench) -> Result<(), String> {
    let (store, table) = filled(&bench, 0).await?;
    let before = allocated_bytes();
    let mut number = 0;
    measure_writes(&bench, &store, "insert of a new partition, log copy included", || {
        number += 1;
        insert(&table, &key(number), number as i64, &VALUE)
    })
    .await?;
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

async fn m4(bench: Bench) -> Result<(), String> {
    let table = wide();
    let store = open(settings(&bench.folder), std::slice::from_ref(&table)).await?;
    let mut number = 0;
    measure_writes(&bench, &store, "append of a row to one of 100 partitions", || {
        number += 1;
        insert_row(&table, &key(number % 100), number as i64, 1, &VALUE)
    })
    .await?;
    store.drain().await.map_err(|error| error.to_string())
}

async fn r1(bench: Bench) -> Result<(), String> {
    for (size, what) in [(100_000, "100 k partitions"), (5_000_000, "5 M partitions")] {
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
        store.drain().await.map_err(|error| error.to_string())?;
        drop(store);
        crate::cases::empty(&bench.folder)?;
    }
    Ok(())
}
