//! K3: reads beside a compaction that has much to do.

use super::{Bench, Case, boxed};
use crate::engine::{apply, insert, key, kv, open, read, select, told};
use base::Prng;
use runtime::Group;
use schema::Table;
use std::time::Instant;
use storage::{Settings, Store};

/// The cases of this module.
pub const CASES: &[Case] = &[Case {
    name: "K3",
    what: "reads from disk alone, and beside a compaction of all of it",
    run: |bench| boxed(k3(bench)),
}];

/// Sstables that are compacted.
const INPUTS: u64 = 8;
/// Bytes of a value: noise, so that chunks stay large.
const VALUE: usize = 300;
/// So little that most reads go to the disk.
const BLOCKS: u64 = 16 << 20;

/// Latencies of reads, one after the other.
#[derive(Default)]
struct Latencies(Vec<u64>);

impl Latencies {
    /// Reads one row at random.
    async fn read(&mut self, store: &Store, table: &Table, prng: &mut Prng, rows: u64) -> Result<(), String> {
        let asked = select(table, &key(prng.below(rows)));
        let since = Instant::now();
        let (_, answer) = read(store, &asked).await?;
        self.0.push(since.elapsed().as_nanos() as u64);
        if answer.live_rows == 1 { Ok(()) } else { Err(format!("{} rows", answer.live_rows)) }
    }

    /// The median and the last of a hundred, in microseconds.
    fn sorted(mut self) -> (f64, f64) {
        self.0.sort_unstable();
        let at = |part: usize| self.0.get(self.0.len() * part / 100).map_or(0.0, |ns| *ns as f64 / 1e3);
        (at(50), at(99))
    }
}

async fn k3(bench: Bench) -> Result<(), String> {
    let rows = bench.options.operations(1_000_000).max(INPUTS);
    let table = kv();
    let settings = Settings { row_cache_bytes: 0, block_cache_bytes: BLOCKS, ..bench.settings() };
    let store = open(settings, std::slice::from_ref(&table)).await?;
    let mut prng = Prng::new(3);
    let mut value = vec![0; VALUE];
    for sstable in 0..INPUTS {
        for number in (sstable..rows).step_by(INPUTS as usize) {
            prng.fill(&mut value);
            apply(&store, insert(&table, &key(number), 1, &value)).await?;
        }
        store.flush(None).await.map_err(told)?;
    }
    let mut alone = Latencies::default();
    for _ in 0..bench.options.operations(50_000) {
        alone.read(&store, &table, &mut prng, rows).await?;
    }
    let (compacting, id) = (store.clone(), table.id);
    let compaction = runtime::spawn(Group::COMPACTION, async move { compacting.compact(id).await });
    let (mut beside, since) = (Latencies::default(), Instant::now());
    while !compaction.is_finished() {
        beside.read(&store, &table, &mut prng, rows).await?;
    }
    let (took, reads) = (since.elapsed().as_secs_f64(), beside.0.len());
    compaction.await.map_err(told)?;
    let (alone, beside) = (alone.sorted(), beside.sorted());
    bench.fact("reads alone", &format!("p50 {:.0} µs, p99 {:.0} µs", alone.0, alone.1));
    bench.fact(
        "reads beside the compaction",
        &format!(
            "{reads} in {took:.1} s, p50 {:.0} µs, p99 {:.0} µs: {:.1} times",
            beside.0,
            beside.1,
            beside.1 / alone.1
        ),
    );
    store.drain().await.map_err(told)
}
