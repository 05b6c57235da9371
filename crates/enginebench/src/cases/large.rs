//! X4: what a row of 100,000 elements does to everything else on its shard.

use super::{Bench, Case, boxed};
use crate::engine::{apply, columns, key, open, read, select, settings, told, update};
use crate::folders;
use crate::meter::{Meter, median};
use mutation::{Cell, Deletion, Mutation, ReadCommand};
use schema::Table;
use std::cell::Cell as Shared;
use std::rc::Rc;
use std::time::{Duration, Instant};
use storage::Store;
use types::CqlType;

/// The cases of this module.
pub const CASES: &[Case] = &[Case {
    name: "X4",
    what: "the longest pause of a shard while a row of 100 k elements is written, read, flushed, compacted",
    run: |bench| boxed(x4(bench)),
}];

/// Bytes of an element's value.
const VALUE: [u8; 20] = [7; 20];
/// Reads of a measured stretch.
const READS: u64 = 10;

/// A task that wants to run all the time, and how long it once had to wait.
#[derive(Default)]
struct Watch {
    longest: Shared<Duration>,
}

impl Watch {
    fn start() -> Rc<Watch> {
        let watch = Rc::new(Watch::default());
        let seen = Rc::downgrade(&watch);
        let watching = runtime::spawn(runtime::current_group(), async move {
            let mut before = Instant::now();
            loop {
                runtime::yield_now().await;
                // Nobody watches any more: it would take half of the shard from the cases that follow.
                let Some(seen) = seen.upgrade() else { break };
                let now = Instant::now();
                seen.longest.set(seen.longest.get().max(now - before));
                before = now;
            }
        });
        drop(watching);
        watch
    }

    /// The longest wait since the last call.
    fn take(&self) -> Duration {
        self.longest.take()
    }
}

/// A mutation of these elements, by number, of the map with this ordinal.
fn elements(table: &Table, timestamp: i64, numbers: impl Iterator<Item = u64>) -> Mutation {
    update(table, &key(1), |writer| {
        writer.complex_start(0, Deletion::LIVE);
        for number in numbers {
            writer.complex_cell(&number.to_be_bytes(), Cell::live(timestamp, &VALUE));
        }
        writer.complex_end();
    })
}

async fn measure_reads(bench: &Bench, store: &Store, asked: &ReadCommand, what: &str) -> Result<(), String> {
    let mut costs = Vec::new();
    for _ in 0..bench.options.rounds {
        let meter = Meter::start();
        for _ in 0..READS {
            read(store, asked).await?;
        }
        costs.push(meter.stop(READS));
    }
    bench.cost(what, median(costs));
    Ok(())
}

async fn x4(bench: Bench) -> Result<(), String> {
    let table = columns(1, &CqlType::map(CqlType::Bigint, CqlType::Blob));
    let count = bench.options.operations(100_000);
    let store = open(bench.settings(), std::slice::from_ref(&table)).await?;
    let watch = Watch::start();
    let told_of = |what: &str| {
        bench.fact(what, &format!("longest pause {:.2} ms", watch.take().as_secs_f64() * 1e3));
    };
    runtime::sleep(Duration::from_millis(50)).await;
    told_of("nothing");
    let asked = select(&table, &key(1));
    for round in 0..2_u64 {
        for first in (round..count).step_by(200) {
            let numbers = (first..count.min(first + 200)).step_by(2);
            apply(&store, elements(&table, 1, numbers)).await?;
            runtime::yield_if_needed().await;
        }
        told_of("elements written, 100 at a time");
        read(&store, &asked).await?;
        runtime::yield_now().await;
        told_of("read from memory");
        measure_reads(&bench, &store, &asked, "read from memory").await?;
        runtime::yield_now().await;
        watch.take();
        store.flush(None).await.map_err(told)?;
        told_of("flushed");
    }
    store.compact(table.id).await.map_err(told)?;
    told_of("compacted, of two halves");
    store.drain().await.map_err(told)?;
    let again = bench.folder.join("again");
    for part in ["data", "commitlog"] {
        folders::link_all(&bench.folder.join(part), &again.join(part)).map_err(told)?;
    }
    let store = open(settings(&again, bench.options.format), std::slice::from_ref(&table)).await?;
    told_of("opened");
    read(&store, &asked).await?;
    runtime::yield_now().await;
    told_of("read from disk");
    read(&store, &asked).await?;
    runtime::yield_now().await;
    told_of("read once more, too large for the row cache");
    measure_reads(&bench, &store, &asked, "read once more, too large for the row cache").await?;
    store.drain().await.map_err(told)
}
