//! Reads beside work in the background: K3 a compaction that has much to do, F1R a flush.

use super::{Bench, Case, boxed};
use crate::engine::{apply, insert, key, kv, open, read, select, told};
use crate::meter::Latencies;
use base::Prng;
use runtime::{Group, JoinHandle};
use schema::Table;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;
use storage::{Settings, Store};

/// The cases of this module.
pub const CASES: &[Case] = &[
    Case {
        name: "K3",
        what: "reads from disk alone, and beside a compaction of all of it",
        run: |bench| boxed(k3(bench)),
    },
    Case {
        name: "F1R",
        what: "reads from disk and from memory alone, and beside a flush",
        run: |bench| boxed(f1r(bench)),
    },
];

/// Sstables that are compacted.
const INPUTS: u64 = 8;
/// Bytes of a value: noise, so that chunks stay large.
const VALUE: usize = 300;
/// Bytes of blocks in memory: so few that most reads go to the disk.
const BLOCKS: u64 = 16 << 20;
/// Fewer are never left of them.
const BLOCKS_MIN: u64 = 1 << 20;
/// Reads alone.
const READS: u64 = 50_000;

async fn cold_store(bench: &Bench, table: &Arc<Table>) -> Result<Rc<Store>, String> {
    let block_cache_bytes = bench.options.scaled(BLOCKS).max(BLOCKS_MIN);
    let settings = Settings { row_cache_bytes: 0, block_cache_bytes, ..bench.settings() };
    open(settings, std::slice::from_ref(table)).await
}

/// Writes rows of noise.
async fn write(
    store: &Store,
    table: &Table,
    prng: &mut Prng,
    numbers: impl Iterator<Item = u64>,
) -> Result<(), String> {
    let mut value = vec![0; VALUE];
    for number in numbers {
        prng.fill(&mut value);
        apply(store, insert(table, &key(number), 1, &value)).await?;
    }
    Ok(())
}

/// Reads one row of those at random.
async fn timed(
    latencies: &mut Latencies,
    (store, table): (&Store, &Table),
    prng: &mut Prng,
    numbers: &Range<u64>,
) -> Result<(), String> {
    let asked = select(table, &key(numbers.start + prng.below(numbers.end - numbers.start)));
    let since = Instant::now();
    let (_, answer) = read(store, &asked).await?;
    latencies.0.push(since.elapsed().as_nanos() as u64);
    if answer.live_rows == 1 { Ok(()) } else { Err(format!("{} rows", answer.live_rows)) }
}

/// Reads as many before what is measured: the blocks in memory are then those of such reads.
async fn warm(
    bench: &Bench,
    store: &Store,
    table: &Table,
    prng: &mut Prng,
    numbers: &Range<u64>,
) -> Result<(), String> {
    let mut nobody = Latencies::default();
    for _ in 0..bench.options.operations(READS) {
        timed(&mut nobody, (store, table), prng, numbers).await?;
    }
    Ok(())
}

/// The two lines of such a comparison.
fn compare(bench: &Bench, reads: &str, beside_what: &str, took: f64, lines: (Latencies, Latencies)) {
    let (mut alone, mut beside) = lines;
    let count = beside.0.len();
    bench.fact(&format!("{reads} alone"), &alone.told());
    let times = beside.within(99.0) / alone.within(99.0).max(0.001);
    let told = beside.told();
    bench.fact(
        &format!("{reads} beside the {beside_what}"),
        &format!("{count} in {took:.1} s, {told}: p99 is {times:.1} times that alone"),
    );
}

async fn k3(bench: Bench) -> Result<(), String> {
    let rows = bench.options.operations(1_000_000).max(INPUTS);
    let table = kv();
    let store = cold_store(&bench, &table).await?;
    let mut prng = Prng::new(3);
    for sstable in 0..INPUTS {
        write(&store, &table, &mut prng, (sstable..rows).step_by(INPUTS as usize)).await?;
        store.flush(None).await.map_err(told)?;
    }
    let mut alone = Latencies::default();
    warm(&bench, &store, &table, &mut prng, &(0..rows)).await?;
    for _ in 0..bench.options.operations(READS) {
        timed(&mut alone, (&store, &table), &mut prng, &(0..rows)).await?;
    }
    let (compacting, id) = (store.clone(), table.id);
    let compaction = runtime::spawn(Group::COMPACTION, async move { compacting.compact(id).await });
    let (mut beside, since) = (Latencies::default(), Instant::now());
    while !compaction.is_finished() {
        timed(&mut beside, (&store, &table), &mut prng, &(0..rows)).await?;
    }
    let took = since.elapsed().as_secs_f64();
    compaction.await.map_err(told)?;
    compare(&bench, "reads", "compaction", took, (alone, beside));
    store.drain().await.map_err(told)
}

/// Half of the rows are in an sstable, the others in the memtable that is flushed; both are asked for in turn. Without a
/// row cache, and with few blocks in memory, the first are reads of the disk that the flush writes to.
async fn f1r(bench: Bench) -> Result<(), String> {
    let rows = bench.options.operations(1_000_000).max(2);
    let (old, mut new) = (0..rows, rows..2 * rows);
    let table = kv();
    let store = cold_store(&bench, &table).await?;
    let mut prng = Prng::new(3);
    write(&store, &table, &mut prng, old.clone()).await?;
    store.flush(None).await.map_err(told)?;
    let (mut disk, mut memory): ([Latencies; 2], [Latencies; 2]) = Default::default();
    warm(&bench, &store, &table, &mut prng, &old).await?;
    let mut took = 0.0;
    for _ in 0..bench.options.rounds {
        write(&store, &table, &mut prng, new.clone()).await?;
        for _ in 0..bench.options.operations(READS) / bench.options.rounds as u64 {
            timed(&mut disk[0], (&store, &table), &mut prng, &old).await?;
            timed(&mut memory[0], (&store, &table), &mut prng, &new).await?;
        }
        let flushing = store.clone();
        // In the group of what a node flushes by itself.
        let flush: JoinHandle<_> = runtime::spawn(Group::FLUSH, async move { flushing.flush(None).await });
        let since = Instant::now();
        while !flush.is_finished() {
            timed(&mut disk[1], (&store, &table), &mut prng, &old).await?;
            timed(&mut memory[1], (&store, &table), &mut prng, &new).await?;
        }
        took += since.elapsed().as_secs_f64();
        flush.await.map_err(told)?;
        new = new.end..new.end + rows;
    }
    let ([disk_alone, disk_beside], [memory_alone, memory_beside]) = (disk, memory);
    compare(&bench, "reads of an sstable", "flush", took, (disk_alone, disk_beside));
    compare(&bench, "reads of the memtable", "flush", took, (memory_alone, memory_beside));
    store.drain().await.map_err(told)
}
