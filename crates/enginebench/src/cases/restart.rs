//! X2: a restart after a crash: what a log that must be replayed and a manifest of many sstables add to it.
//!
//! The same store is opened twice under other names: with its sstables alone, then with the log of what was written behind
//! them. The second takes as long as the first, and what the log costs: it is read, checked, applied and flushed before the
//! store is open. The kernel has just written the files, so it is the processor and not the disk that is measured.

use super::{Bench, Case, boxed};
use crate::engine::{apply, insert, key, kv, open, read, select, settings, told};
use crate::folders;
use crate::meter::{Cost, Count, FLUSHED, Meter};
use base::Prng;
use base::counting::allocated_bytes;
use schema::Table;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use storage::{Durability, Settings, Store};

/// The cases of this module.
pub const CASES: &[Case] = &[Case {
    name: "X2",
    what: "restart with 2,000 sstables and half a GB of log",
    run: |bench| boxed(x2(bench)),
}];

/// Sstables of four rows each.
const SSTABLES: u64 = 2_000;
/// Bytes of rows in the log.
const LOGGED: u64 = 512 << 20;
const VALUE_BYTES: usize = 300;
const WRITTEN: Count = Count("messina_commitlog_written_bytes_total");

/// Memory and log so large that nothing is flushed before it is told to.
fn large(folder: &Path, bench: &Bench) -> Settings {
    Settings { row_cache_bytes: 0, memtable_bytes: 4 << 30, ..settings(folder, bench.options.format) }
}

async fn x2(bench: Bench) -> Result<(), String> {
    let sstables = bench.options.scaled(SSTABLES);
    let table = kv();
    let store = open(large(&bench.folder, &bench), std::slice::from_ref(&table)).await?;
    let mut prng = Prng::new(1);
    let mut value = [7; VALUE_BYTES];
    for sstable in 0..sstables {
        for row in 0..4 {
            apply(&store, insert(&table, &key(sstable * 4 + row), 1, &value)).await?;
        }
        store.flush(None).await.map_err(told)?;
    }
    let alone = restart(&bench, &table, "alone", sstables * 4 - 1).await?;
    let manifest = folders::bytes_named(&bench.folder.join("data"), "manifest");
    let each = |cost: Cost, of: f64| cost.clock_ns as f64 / 1e9 / of;
    bench.cost("opening, each sstable", Cost { operations: sstables, ..alone });
    bench.fact(
        &format!("opening {sstables} sstables, manifest of {} KiB", manifest >> 10),
        &format!("{:.3} s, {:.3} s for 1,000", each(alone, 1.0), each(alone, sstables as f64 / 1e3)),
    );
    let (flushed, before) = (FLUSHED.now(), WRITTEN.now());
    let rows = bench.options.scaled(LOGGED) / VALUE_BYTES as u64;
    for number in 0..rows {
        prng.fill(&mut value[..VALUE_BYTES / 2]);
        apply(&store, insert(&table, &key(number), 2, &value)).await?;
        runtime::yield_if_needed().await;
    }
    let last = vec![insert(&table, &key(rows), 2, &value)];
    store.apply(last, Durability::Synced).await.map_err(told)?;
    if FLUSHED.now() != flushed {
        return Err("a flush came between".into());
    }
    let logged = WRITTEN.now() - before;
    let both = restart(&bench, &table, "logged", rows).await?;
    let replay = Cost {
        operations: rows + 1,
        clock_ns: both.clock_ns.saturating_sub(alone.clock_ns),
        processor_ns: both.processor_ns.saturating_sub(alone.processor_ns),
        allocations: both.allocations.saturating_sub(alone.allocations),
    };
    bench.cost("replay, each row of 300 B", replay);
    bench.fact(
        &format!("opening with a log of {} MiB as well", logged >> 20),
        &format!("{:.3} s; {:.2} s more for a GB of log", each(both, 1.0), each(replay, logged as f64 / 1e9)),
    );
    store.drain().await.map_err(told)
}

/// Opens what is there now under another name; a key of that number must be found.
async fn restart(bench: &Bench, table: &Arc<Table>, name: &str, number: u64) -> Result<Cost, String> {
    let again = bench.folder.join(name);
    for part in ["data", "commitlog"] {
        folders::link_all(&bench.folder.join(part), &again.join(part)).map_err(told)?;
    }
    let before = allocated_bytes();
    let meter = Meter::start();
    let store: Rc<Store> = open(large(&again, bench), std::slice::from_ref(table)).await?;
    let cost = meter.stop(1);
    let memory = allocated_bytes() - before;
    bench.fact(&format!("memory of a store opened so, {name}"), &format!("{} KiB", memory >> 10));
    let (_, answer) = read(&store, &select(table, &key(number))).await?;
    if answer.live_rows != 1 {
        return Err(format!("{} rows of key {number} after the restart", answer.live_rows));
    }
    store.drain().await.map_err(told)?;
    Ok(cost)
}
