//! K: compactions, in bytes per second of processor. F: flushes. K5: data that expires.
//!
//! Bytes are those of the inputs before compression: the table is compressed as tables are. Values are half noise, so that
//! they shrink to about two thirds, as structured rows do.

use super::{Bar, Bench, Case, boxed};
use crate::engine::{apply, insert, key, kv, open};
use crate::meter::{Cost, Meter, median};
use base::{Prng, Token};
use mutation::{Cell, Deletion, Liveness, Mutation, MutationBuilder};
use schema::Table;
use std::rc::Rc;
use std::sync::Arc;
use storage::Store;

/// The cases of this module.
pub const CASES: &[Case] = &[
    Case { name: "F1", what: "flush single rows", run: |bench| boxed(f1(bench)) },
    Case {
        name: "K1",
        what: "compact four sstables: disjoint, overlapping, overwritten",
        run: |bench| boxed(k1(bench)),
    },
    Case { name: "K5", what: "compact sstables of which half has expired", run: |bench| boxed(k5(bench)) },
];

/// Sstables of one compaction.
const INPUTS: u64 = 4;

fn value(prng: &mut Prng, bytes: usize) -> Vec<u8> {
    let mut value = vec![b'v'; bytes];
    prng.fill(&mut value[..bytes / 2]);
    value
}

async fn flush(store: &Store) -> Result<(), String> {
    store.flush(None).await.map_err(|error| error.to_string())
}

/// Plain bytes of the table's sstables.
async fn plain_bytes(store: &Store, table: &Table) -> u64 {
    let all = store.table_stats().await;
    all.iter().find(|stats| stats.id == table.id).map_or(0, |stats| stats.plain_bytes)
}

/// The line of a rate: bytes as operations, and MB per second of processor and of clock.
fn rate(bench: &Bench, what: &str, bytes: u64, cost: Cost, at_least: f64) {
    let per_second = |ns: u64| bytes as f64 / 1e6 / (ns.max(1) as f64 / 1e9);
    let rates = (per_second(cost.processor_ns), per_second(cost.clock_ns));
    bench.fact(what, &format!("{:.0} MB/s of processor, {:.0} MB/s on the clock", rates.0, rates.1));
    bench.cost(&format!("{what}, per row"), cost);
    bench.bar(&format!("MB/s per core, {what}"), rates.0, Bar::AtLeast(at_least));
}

async fn f1(bench: Bench) -> Result<(), String> {
    let rows = bench.options.operations(400_000);
    for bytes in [100, 300, 1000] {
        let mut costs = Vec::new();
        let mut plain = 0;
        for round in 0..bench.options.rounds {
            let table = kv();
            super::empty(&bench.folder)?;
            let store = open(bench.settings(), std::slice::from_ref(&table)).await?;
            let mut prng = Prng::new(round as u64);
            let rows = rows * 100 / bytes as u64;
            for number in 0..rows {
                apply(&store, insert(&table, &key(number), 1, &value(&mut prng, bytes))).await?;
            }
            let meter = Meter::start();
            flush(&store).await?;
            costs.push(meter.stop(rows));
            plain = plain_bytes(&store, &table).await;
            store.drain().await.map_err(|error| error.to_string())?;
        }
        rate(&bench, &format!("flush, rows of {bytes} B"), plain, median(costs), 250.0);
    }
    Ok(())
}

/// Which keys the sstables of a compaction share.
#[derive(Clone, Copy, PartialEq)]
enum Shared {
    None,
    Half,
    All,
}

async fn k1(bench: Bench) -> Result<(), String> {
    for bytes in [100, 300, 1000] {
        for (what, shared) in
            [("disjoint", Shared::None), ("half shared", Shared::Half), ("overwritten", Shared::All)]
        {
            let mut costs = Vec::new();
            let mut plain = 0;
            for round in 0..bench.options.rounds {
                let (cost, in_all) = compact(&bench, round, bytes, shared).await?;
                costs.push(cost);
                plain = in_all;
            }
            rate(&bench, &format!("{what}, rows of {bytes} B"), plain, median(costs), 150.0);
        }
    }
    Ok(())
}

async fn compact(bench: &Bench, round: usize, bytes: usize, shared: Shared) -> Result<(Cost, u64), String> {
    let rows = bench.options.operations(250_000) * 100 / bytes as u64;
    fill_and_compact(
        bench,
        |prng, table, sstable, row| {
            let number = match shared {
                Shared::All => row,
                Shared::Half if row % 2 == 0 => row,
                Shared::Half | Shared::None => row + sstable * rows,
            };
            insert(table, &key(number), 1 + sstable as i64, &value(prng, bytes))
        },
        rows,
        round,
    )
    .await
}

async fn fill_and_compact(
    bench: &Bench,
    mut mutation: impl FnMut(&mut Prng, &Table, u64, u64) -> Mutation,
    rows: u64,
    round: usize,
) -> Result<(Cost, u64), String> {
    let table: Arc<Table> = kv();
    super::empty(&bench.folder)?;
    let store: Rc<Store> = open(bench.settings(), std::slice::from_ref(&table)).await?;
    let mut prng = Prng::new(round as u64);
    for sstable in 0..INPUTS {
        for row in 0..rows {
            apply(&store, mutation(&mut prng, &table, sstable, row)).await?;
        }
        flush(&store).await?;
    }
    let plain = plain_bytes(&store, &table).await;
    let meter = Meter::start();
    store.compact(table.id).await.map_err(|error| error.to_string())?;
    let cost = meter.stop(INPUTS * rows);
    store.drain().await.map_err(|error| error.to_string())?;
    Ok((cost, plain))
}

async fn k5(bench: Bench) -> Result<(), String> {
    let rows = bench.options.operations(250_000);
    let mut costs = Vec::new();
    let mut plain = 0;
    for round in 0..bench.options.rounds {
        let work = fill_and_compact(
            &bench,
            |prng, table, sstable, row| {
                let key = key(row + sstable * rows);
                let value = value(prng, 100);
                // A year ago, or in many.
                let expires_at = if row % 2 == 0 { 1_600_000_000 } else { 4_000_000_000 };
                let mut builder = MutationBuilder::new(table.id, Token::of_key(&key), &key);
                let liveness = Liveness::expiring(5, 100, expires_at);
                builder.write_row(&[], liveness, Deletion::LIVE, |row| {
                    row.simple(0, Cell::expiring(5, 100, expires_at, &value));
                });
                builder.finish()
            },
            rows,
            round,
        );
        let (cost, in_all) = work.await?;
        costs.push(cost);
        plain = in_all;
    }
    rate(&bench, "half has expired", plain, median(costs), 150.0);
    Ok(())
}
