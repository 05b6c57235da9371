//! N1: increments of counters, the part of the replica that takes them: read the cell, count on its own shard of it, write.
//!
//! The statement is not run by a node yet, and neither is there a crate that counts: the engine keeps counter cells and
//! merges them, so reads, writes and merges are the engine's, and the 36 bytes of a cell with one shard are made here. What a
//! node adds is not measured: a lock on the cell while it counts, and the other replicas. Increments come one after the
//! other, so none waits for another. Cells have the shards of three replicas. Every sum is checked.

use super::{Bench, Case, boxed};
use crate::engine::{apply, key, open, read, select, told, update};
use crate::meter::{Cost, Meter, median};
use base::Prng;
use mutation::{Cell, ColumnView, Mutation, RowView, counter_total};
use schema::{Table, TableBuilder, TableId};
use std::rc::Rc;
use std::sync::Arc;
use storage::Store;
use types::CqlType;

/// The cases of this module.
pub const CASES: &[Case] =
    &[Case { name: "N1", what: "counter increments: 1 cell, 1 M cells", run: |bench| boxed(n1(bench)) }];

/// Identities of the replicas that count; the second is this one.
const REPLICAS: [[u8; 16]; 3] = [[1; 16], [2; 16], [3; 16]];
const OWN: [u8; 16] = REPLICAS[1];
/// Bytes of a shard: its identity, how often it counted, what it counted.
const SHARD: usize = 32;
/// What each replica has counted before.
const BEFORE: i64 = 5;

/// `CREATE TABLE bench.counts (k blob PRIMARY KEY, n counter)`.
fn counts() -> Arc<Table> {
    let table = TableBuilder::new("bench", "counts", TableId(4))
        .partition_key("k", CqlType::Blob)
        .regular("n", CqlType::Counter);
    Arc::new(table.build().expect("a valid table"))
}

async fn n1(bench: Bench) -> Result<(), String> {
    for cells in [1, 1_000_000] {
        let cells = if cells == 1 { 1 } else { bench.options.scaled(cells) };
        let table = counts();
        let store = open(bench.settings(), std::slice::from_ref(&table)).await?;
        let mut counting =
            Counting { store: store.clone(), table, cells, random: Prng::new(7), time: 1, sum: 0 };
        counting.fill().await?;
        let cost = counting.measure(&bench).await?;
        bench.cost(&format!("increment of one of {cells} cells, memtable"), cost);
        store.flush(None).await.map_err(told)?;
        let cost = counting.measure(&bench).await?;
        bench.cost(&format!("increment of one of {cells} cells that were flushed"), cost);
        counting.check().await?;
        store.drain().await.map_err(told)?;
        drop((counting, store));
        super::empty(&bench.folder)?;
    }
    Ok(())
}

struct Counting {
    store: Rc<Store>,
    table: Arc<Table>,
    cells: u64,
    random: Prng,
    time: i64,
    /// Of all increments.
    sum: i64,
}

impl Counting {
    /// Every cell with shards of all replicas, as replication brings them.
    async fn fill(&mut self) -> Result<(), String> {
        for number in 0..self.cells {
            for id in REPLICAS {
                let write = self.counted(&key(number), &id, 1, BEFORE);
                apply(&self.store, write).await?;
            }
        }
        Ok(())
    }

    async fn measure(&mut self, bench: &Bench) -> Result<Cost, String> {
        let count = bench.options.operations(200_000);
        let mut costs = Vec::new();
        for _ in 0..bench.options.rounds {
            let meter = Meter::start();
            for _ in 0..count {
                self.increment().await?;
            }
            costs.push(meter.stop(count));
            runtime::yield_now().await;
        }
        Ok(median(costs))
    }

    async fn increment(&mut self) -> Result<(), String> {
        let key = key(self.random.below(self.cells));
        let (_, answer) = read(&self.store, &select(&self.table, &key)).await?;
        let partition = answer.partitions.first().ok_or("no partition")?;
        let (clock, count) = own_shard(context(partition)?).ok_or("no shard of our own")?;
        self.sum += 3;
        let write = self.counted(&key, &OWN, clock + 1, count + 3);
        apply(&self.store, write).await
    }

    /// The cell of one shard that says so.
    fn counted(&mut self, key: &[u8], id: &[u8; 16], clock: i64, count: i64) -> Mutation {
        self.time += 1;
        let context = context_of(id, clock, count);
        update(&self.table, key, |row| row.simple(0, Cell::live(self.time, &context)))
    }

    /// Adds up all cells.
    async fn check(&self) -> Result<(), String> {
        let mut sum = 0;
        for number in 0..self.cells {
            let (_, answer) = read(&self.store, &select(&self.table, &key(number))).await?;
            let partition = answer.partitions.first().ok_or("no partition")?;
            sum += counter_total(context(partition)?).ok_or("a malformed counter")?;
        }
        let expected = self.sum + BEFORE * REPLICAS.len() as i64 * self.cells as i64;
        if sum == expected { Ok(()) } else { Err(format!("counted {sum} instead of {expected}")) }
    }
}

/// The bytes of the only counter of a partition of one row.
fn context(partition: &Mutation) -> Result<&[u8], String> {
    let (_, body) = partition.view().rows().next().ok_or("no row")?;
    match RowView::new(body).column(0) {
        Some(ColumnView::Simple(cell)) => cell.value.ok_or("a deleted counter".into()),
        _ => Err("no counter".into()),
    }
}

/// How often this replica counted, and what.
fn own_shard(context: &[u8]) -> Option<(i64, i64)> {
    let (listed, rest) = context.split_first_chunk::<2>()?;
    let shards = rest.get(2 * usize::from(u16::from_be_bytes(*listed))..)?;
    let own = shards.chunks_exact(SHARD).find(|shard| shard[..16] == OWN)?;
    let number = |at: usize| own[at..].first_chunk::<8>().map(|bytes| i64::from_be_bytes(*bytes));
    Some((number(16)?, number(24)?))
}

/// A counter of one global shard: one element in its header, which says so.
fn context_of(id: &[u8; 16], clock: i64, count: i64) -> Vec<u8> {
    let mut context = Vec::with_capacity(4 + SHARD);
    context.extend_from_slice(&1i16.to_be_bytes());
    context.extend_from_slice(&i16::MIN.to_be_bytes());
    context.extend_from_slice(id);
    context.extend_from_slice(&clock.to_be_bytes());
    context.extend_from_slice(&count.to_be_bytes());
    context
}
