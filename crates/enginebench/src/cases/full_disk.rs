//! K4: a major compaction of a table that fills nine tenths of the disk, beside the same one with room for all.
//!
//! The disk is the real one, of which compactions are told to leave so much free that a ninth of the table's size is there
//! for them: what another process writes meanwhile is missing to them, and is told. Half of the keys are in every
//! sstable, so each merge gives space back, for which the next one waits a little, since files are given back in pieces. A
//! compaction that has no room for two sstables is refused, and no more is asked for. Space is looked at in steps of
//! 10 ms, which counts as processor time of the compaction.

use super::{Bar, Bench, Case, boxed};
use crate::engine::{apply, insert, key, kv_compacted_by, open, told};
use crate::folders;
use crate::meter::{COMPACTED, Meter};
use base::Prng;
use runtime::Group;
use schema::Table;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use storage::{CompactionRoom, Settings, Store};

/// The cases of this module.
pub const CASES: &[Case] = &[Case {
    name: "K4",
    what: "major compactions with room for all, and on a disk that is 90 % full",
    run: |bench| boxed(k4(bench)),
}];

const SIZE_TIERED: &[(&str, &str)] = &[("class", "SizeTieredCompactionStrategy")];
const UNIFIED: &[(&str, &str)] = &[("class", "UnifiedCompactionStrategy"), ("min_sstable_size", "1MiB")];
/// Sstables at first, each with as many rows.
const SSTABLES: u64 = 24;
/// Rows of all of them.
const ROWS: u64 = 1_000_000;
const VALUE_BYTES: usize = 300;
/// The table to what it leaves free.
const FULL: u64 = 9;
const LOOK: Duration = Duration::from_millis(10);
/// Looks at most for space to come back.
const LOOKS: u64 = 300;

/// How a compaction goes.
#[derive(Clone, Copy, PartialEq)]
enum Disk {
    Empty,
    Full,
}

async fn k4(bench: Bench) -> Result<(), String> {
    for (strategy, options) in [("size-tiered", SIZE_TIERED), ("unified", UNIFIED)] {
        for (disk, state) in [("room for all", Disk::Empty), ("90 % full", Disk::Full)] {
            let table = kv_compacted_by(options);
            super::empty(&bench.folder)?;
            fill(&bench, &table).await?;
            // The process holds the folder until it ends. Links would hold the space of what is compacted.
            let again = bench.folder.join("again");
            for part in ["data", "commitlog"] {
                folders::move_all(&bench.folder.join(part), &again.join(part)).map_err(told)?;
            }
            compact(&bench, &table, &again, state, &format!("{strategy}, {disk}")).await?;
        }
    }
    Ok(())
}

async fn fill(bench: &Bench, table: &Arc<Table>) -> Result<(), String> {
    let settings = Settings { row_cache_bytes: 0, ..bench.settings() };
    let store = open(settings, std::slice::from_ref(table)).await?;
    let rows = (bench.options.operations(ROWS) / SSTABLES).max(2);
    let mut prng = Prng::new(1);
    for sstable in 0..SSTABLES {
        for row in 0..rows {
            let number = if row % 2 == 0 { row } else { row + sstable * rows };
            let mut value = vec![7; VALUE_BYTES];
            prng.fill(&mut value[..VALUE_BYTES / 2]);
            apply(&store, insert(table, &key(number), 1 + sstable as i64, &value)).await?;
        }
        store.flush(None).await.map_err(told)?;
    }
    store.drain().await.map_err(told)
}

async fn compact(
    bench: &Bench,
    table: &Arc<Table>,
    folder: &Path,
    disk: Disk,
    what: &str,
) -> Result<(), String> {
    let data = folder.join("data");
    let size = folders::bytes(&data);
    let free = runtime::file::free_space(&data).await.map_err(told)?;
    let room = match disk {
        Disk::Empty => CompactionRoom::ANY,
        Disk::Full => CompactionRoom {
            least_free_bytes: free.saturating_sub(size / FULL),
            usable_permille: CompactionRoom::CASSANDRA.usable_permille,
        },
    };
    let settings = Settings { row_cache_bytes: 0, compaction_room: room, ..bench.settings() };
    let settings = Settings { data_dir: data.clone(), commitlog_dir: folder.join("commitlog"), ..settings };
    let store = open(settings, std::slice::from_ref(table)).await?;
    let written = COMPACTED.now();
    let mut passes = Passes { peak: size, ..Passes::default() };
    let count = || store.sstables(table.id).map_err(told);
    while !passes.refused && count()? > 1 && passes.count < SSTABLES {
        let before = count()?;
        pass(&store, table, &data, &mut passes).await?;
        if count()? == before {
            break;
        }
        given_back(&data, free + size, size / 100).await?;
    }
    let rest = folders::bytes(&data);
    let end = if passes.refused { ", then refused for want of space" } else { "" };
    bench.fact(
        what,
        &format!(
            "{} MiB in {SSTABLES} sstables became {} MiB in {} by {} passes{end}",
            size >> 20,
            rest >> 20,
            count()?,
            passes.count
        ),
    );
    report(bench, &passes, COMPACTED.now() - written, size, what);
    if disk == Disk::Full {
        let now = runtime::file::free_space(&data).await.map_err(told)?;
        let missing = ((free + size) as f64 - (now + rest) as f64) * 100.0 / size.max(1) as f64;
        bench.fact(&format!("{what}: missing in the end"), &format!("{missing:.1} % of the table's size"));
        let of_free = (passes.peak - size) as f64 / (size / FULL).max(1) as f64;
        bench.bar(&format!("space taken meanwhile of what is free, {what}"), of_free, Bar::AtMost(1.0));
    }
    store.drain().await.map_err(told)
}

/// What compactions of one table took.
#[derive(Default)]
struct Passes {
    count: u64,
    /// The last one found no space.
    refused: bool,
    /// Most bytes of the folder.
    peak: u64,
    processor_ns: u64,
    clock_ns: u64,
}

fn report(bench: &Bench, passes: &Passes, written: u64, size: u64, what: &str) {
    let rate = |ns: u64| written as f64 * 1e3 / ns.max(1) as f64;
    let rates = (rate(passes.processor_ns), rate(passes.clock_ns));
    bench.fact(
        &format!("{what}: written"),
        &format!("{} MiB, {:.0} MB/s of processor, {:.0} MB/s on the clock", written >> 20, rates.0, rates.1),
    );
    let taken = (passes.peak - size) as f64 * 100.0 / size.max(1) as f64;
    bench.fact(&format!("{what}: space taken meanwhile"), &format!("{taken:.1} % of the table's size"));
}

/// Waits, not for ever, until the file system has the bytes of removed files again, but for so many: with those of the
/// folder there are then as many as there were.
async fn given_back(data: &Path, there_were: u64, but_for: u64) -> Result<(), String> {
    for _ in 0..LOOKS {
        let free = runtime::file::free_space(data).await.map_err(told)?;
        if there_were <= free + folders::bytes(data) + but_for {
            break;
        }
        runtime::sleep(LOOK).await;
    }
    Ok(())
}

/// One major compaction.
async fn pass(store: &Rc<Store>, table: &Table, data: &Path, passes: &mut Passes) -> Result<(), String> {
    let (compacting, id) = (store.clone(), table.id);
    let meter = Meter::start();
    let compaction = runtime::spawn(Group::COMPACTION, async move { compacting.compact(id).await });
    while !compaction.is_finished() {
        passes.peak = passes.peak.max(folders::bytes(data));
        runtime::sleep(LOOK).await;
    }
    let cost = meter.stop(1);
    passes.count += 1;
    passes.processor_ns += cost.processor_ns;
    passes.clock_ns += cost.clock_ns;
    match compaction.await {
        Ok(()) => Ok(()),
        Err(error) if error.is_shortage() => {
            passes.refused = true;
            Ok(())
        }
        Err(error) => Err(told(error)),
    }
}
