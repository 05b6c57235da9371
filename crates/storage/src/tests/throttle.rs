//! More is offered than the disk takes: writes are let in at the disk's rate, smoothly, and memory keeps to its budget.

use super::harness::*;
use crate::{CommitlogSync, Durability, Store, fixture};
use base::Prng;
use mutation::Mutation;
use runtime::sim::SimConfig;
use schema::Table;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

const MIB: u64 = 1024 * 1024;
/// What the disk writes in a second.
const DISK: u64 = 50_000_000;
const VALUE: usize = 16 * 1024;
/// Seconds before the windows that count, until segments are written again; those that do, and with compactions, which come and
/// go.
const WARM: u64 = 4;
const COUNTED: u64 = 8;
const COUNTED_COMPACTING: u64 = 16;

#[derive(Default)]
struct Seen {
    /// Microseconds since the start: when a write was to be sent, and when it was answered.
    answered: Vec<(u64, u64)>,
    /// Bytes the disk was given to do, when the windows that count began.
    moved_before: u64,
    memory_max: usize,
}

fn mutation(table: &Table, index: u64, prng: &mut Prng) -> Mutation {
    let mut value = vec![0; VALUE];
    prng.fill(&mut value);
    fixture::insert(table, &(index as u32).to_be_bytes(), 1, 5, &value)
}

/// Bytes that the disk was given to read or write so far.
fn moved() -> u64 {
    runtime::Group::ALL.into_iter().map(|group| runtime::io::started(group).1).sum()
}

/// Offers `share` of what the disk takes, each write at its time whatever became of those before.
async fn offer(table: Table, share: f64, (warm, counted): (u64, u64), seen: Rc<RefCell<Seen>>) {
    let store = runtime::local::<Store>();
    // Every byte goes to the log and to an sstable.
    let each = Duration::from_secs_f64(2.0 * VALUE as f64 / (DISK as f64 * share));
    let start = runtime::now();
    let mut prng = Prng::new(9);
    for index in 0..((warm + counted) as f64 / each.as_secs_f64()) as u64 {
        let intended = start + each * index as u32;
        runtime::sleep(intended.saturating_duration_since(runtime::now())).await;
        let moved_now = moved();
        let (store, seen) = (store.clone(), seen.clone());
        let write = mutation(&table, index, &mut prng);
        let since = move |at: base::Instant| at.saturating_duration_since(start).as_micros() as u64;
        if since(intended) < warm * 1_000_000 {
            seen.borrow_mut().moved_before = moved_now;
        }
        drop(runtime::spawn(runtime::Group::QUERY, async move {
            let now = store.apply_now(std::slice::from_ref(&write), Durability::Mode);
            let applied = match now {
                Some((applied, _)) => applied,
                None => store.apply(vec![write], Durability::Mode).await,
            };
            if applied.is_ok() {
                let mut seen = seen.borrow_mut();
                seen.answered.push((since(intended), since(runtime::now())));
                seen.memory_max = seen.memory_max.max(store.pressure.memory());
            }
        }));
    }
}

/// A disk of [`DISK`] whose syncs take so long.
fn disk(sync: Duration) -> SimConfig {
    SimConfig { disk_bytes: 8 << 30, disk_sync: (sync, sync), ..SimConfig::calm() }
}

/// What is offered one and a half times of what the disk takes.
#[derive(Clone)]
struct Overload {
    config: SimConfig,
    sync: CommitlogSync,
    tables: u128,
    compacting: bool,
    /// Seconds before the windows that count.
    warm: u64,
    /// The disk is used so much at least.
    disk_least: f64,
}

impl Overload {
    fn new(config: SimConfig) -> Overload {
        let sync = CommitlogSync::Periodic { period_ms: 10_000 };
        Overload { config, sync, tables: 1, compacting: false, warm: WARM, disk_least: 0.95 }
    }
}

fn overload(case: Overload) {
    let Overload { config, sync, tables, compacting, warm, disk_least } = case;
    let seconds = if compacting { COUNTED_COMPACTING } else { COUNTED };
    let made: Vec<Table> = (1..=tables).map(|id| fixture::table_with_id(id, &format!("t{id}"))).collect();
    let named: Vec<&Table> = made.iter().collect();
    let budget = 48 * MIB;
    let settings = crate::Settings {
        segment_bytes: 4 * MIB,
        commitlog_bytes: 256 * MIB,
        memtable_bytes: budget,
        auto_compaction: compacting,
        ..settings(sync)
    };
    let mut node = Node::new(1, config, settings, &named);
    node.world.set_disk_speed(node.id, DISK, 0);
    node.boot(1).expect("opens");
    let seen: Rc<RefCell<Seen>> = Rc::default();
    for table in &made {
        let offered = offer(table.clone(), 1.5 / tables as f64, (warm, seconds), seen.clone());
        drop(node.world.spawn(node.id, offered));
    }
    node.world.run_for(Duration::from_secs(warm + seconds));
    let moved_after = node.run(async { moved() });
    let seen = seen.borrow();
    let mut counted: Vec<_> = seen.answered.iter().filter(|(_, at)| *at >= warm * 1_000_000).collect();
    // The tables' clocks start some microseconds apart.
    counted.sort_by_key(|(_, at)| *at);
    let disk = (moved_after - seen.moved_before) as f64 / (DISK * seconds) as f64;
    assert!(disk >= disk_least, "{sync:?}: the disk was used to {disk:.3}");
    let mut windows = vec![0u64; seconds as usize];
    let last = windows.len() - 1;
    counted.iter().for_each(|(_, at)| windows[((at / 1_000_000 - warm) as usize).min(last)] += 1);
    let mean = counted.len() as f64 / seconds as f64;
    let worst = *windows.iter().min().expect("some") as f64 / mean;
    assert!(worst >= 0.8, "{sync:?}: the worst second has {worst:.2} of the mean: {windows:?}");
    let pause = counted.windows(2).map(|pair| pair[1].1 - pair[0].1).max().expect("some");
    assert!(pause <= 500_000, "{sync:?}: nothing was answered for {pause} us");
    let mut latencies: Vec<u64> = counted.iter().map(|(intended, at)| at - intended).collect();
    latencies.sort();
    let p99 = latencies[latencies.len() * 99 / 100] as f64;
    let average = latencies.iter().sum::<u64>() as f64 / latencies.len() as f64;
    assert!(p99 / average <= 4.6, "{sync:?}: p99 {p99} us, mean {average} us");
    assert!(seen.memory_max as u64 <= budget, "{sync:?}: {} bytes of memtables", seen.memory_max);
    eprintln!(
        "{sync:?}, {tables} tables: disk {disk:.3}, worst second {worst:.2}, longest pause {pause} us, p99/mean {:.2}, \
         memory {:.2} of its budget",
        p99 / average,
        seen.memory_max as f64 / budget as f64
    );
}

#[test]
fn a_load_of_one_and_a_half_disks_is_let_in_smoothly() {
    let one = Overload::new(disk(Duration::from_micros(500)));
    overload(one.clone());
    overload(Overload { tables: 3, ..one.clone() });
    overload(Overload { sync: CommitlogSync::Batch, ..one });
}

/// What a flush does when its data is written takes longer than the data, and the disk rests meanwhile: lately known, it is counted.
#[test]
fn it_is_let_in_smoothly_however_long_a_flush_takes_to_end() {
    // So slow a disk takes 20 s until the log has its full size and segments are written again.
    overload(Overload { warm: 24, disk_least: 0.4, ..Overload::new(disk(Duration::from_millis(120))) });
}

#[test]
fn it_is_let_in_smoothly_while_compactions_want_the_disk_too() {
    overload(Overload { compacting: true, ..Overload::new(disk(Duration::from_micros(500))) });
}

/// A load without end on a slow disk, for so long that every level of compactions has its turn. Second by second: rows, sstables,
/// and shares of compactions.
fn long_overload(limit_known: bool) -> Vec<(f64, usize, u32)> {
    const RATE: u64 = 25_000_000;
    const KEYS: u64 = 15_000;
    const SECONDS: usize = 150;
    let table = fixture::table();
    let settings = crate::Settings {
        segment_bytes: 4 * MIB,
        commitlog_bytes: 128 * MIB,
        memtable_bytes: 32 * MIB,
        ..settings(CommitlogSync::Periodic { period_ms: 10_000 })
    };
    let config = SimConfig { disk_bytes: 8 << 30, ..SimConfig::calm() };
    let mut node = Node::new(3, config, settings, &[&table]);
    node.world.set_disk_speed(node.id, if limit_known { 10 * RATE } else { RATE }, 0);
    node.boot(1).expect("opens");
    if limit_known {
        let limits = runtime::io::DeviceLimits { bytes_per_second: RATE, requests_per_second: 0 };
        node.run(async move { runtime::io::limit_devices(limits) });
    }
    let answered: Rc<Cell<u64>> = Rc::default();
    let count = answered.clone();
    drop(node.world.spawn(node.id, async move {
        let store = runtime::local::<Store>();
        let mut prng = Prng::new(9);
        for sent in 0u64.. {
            while sent > count.get() + 500 {
                runtime::sleep(Duration::from_millis(1)).await;
            }
            let write = mutation(&table, prng.below(KEYS), &mut prng);
            let (store, count) = (store.clone(), count.clone());
            drop(runtime::spawn(runtime::Group::QUERY, async move {
                store.apply(vec![write], Durability::Mode).await.expect("applied");
                count.set(count.get() + 1);
            }));
        }
    }));
    let second = |_| {
        let before = answered.get();
        node.world.run_for(Duration::from_secs(1));
        let rows = (answered.get() - before) as f64;
        let (sstables, shares) = node.run(async {
            let tables = runtime::local::<Store>().all_tables();
            let counts = tables.iter().map(|table| table.with_version(|version, _| version.sstables.len()));
            (counts.max().unwrap_or(0), runtime::shares(runtime::Group::COMPACTION))
        });
        (rows, sstables, shares)
    };
    (0..SECONDS).map(second).collect()
}

#[test]
fn a_load_without_end_settles_where_compactions_keep_up() {
    for limit_known in [false, true] {
        let seconds = long_overload(limit_known);
        let window = |window: &[(f64, usize, u32)]| {
            let mean = window.iter().map(|second| second.0).sum::<f64>() / window.len() as f64;
            let worst = window.iter().map(|second| second.0).fold(f64::MAX, f64::min);
            let sstables = window.iter().map(|second| second.1).max().unwrap_or(0);
            let shares = window.iter().map(|second| second.2).max().unwrap_or(0);
            (mean, worst / mean, sstables, shares)
        };
        let windows: Vec<_> = seconds[10..].chunks_exact(20).map(window).collect();
        eprintln!(
            "limit known: {limit_known}; windows: rows a second, worst second, sstables, shares {windows:.2?}"
        );
        let mut worst: Vec<f64> = windows.iter().map(|window| window.1).collect();
        worst.sort_by(f64::total_cmp);
        assert!(worst[worst.len() / 2] >= 0.8 && worst[0] >= 0.6, "{windows:.2?}");
        assert!(windows.iter().any(|window| window.3 > 1_000), "more than equals: {windows:.2?}");
        let (middle, last) = (windows[windows.len() / 2], windows[windows.len() - 1]);
        // Shares follow what waits to be merged; an sstable counts until the last of those merged with it has been read.
        assert!(last.3 <= middle.3 * 9 / 8 && last.2 < 120, "not more and more: {windows:.2?}");
    }
}

#[test]
fn below_what_the_disk_takes_no_write_waits_for_memory() {
    let table = fixture::table();
    let settings = crate::Settings {
        segment_bytes: 4 * MIB,
        commitlog_bytes: 256 * MIB,
        memtable_bytes: 48 * MIB,
        auto_compaction: false,
        ..settings(CommitlogSync::Periodic { period_ms: 1_000 })
    };
    let config = SimConfig { disk_bytes: 8 << 30, ..SimConfig::calm() };
    let mut node = Node::new(2, config, settings, &[&table]);
    node.world.set_disk_speed(node.id, DISK, 0);
    node.boot(1).expect("opens");
    let seen: Rc<RefCell<Seen>> = Rc::default();
    drop(node.world.spawn(node.id, offer(table, 0.7, (WARM, COUNTED), seen.clone())));
    node.world.run_for(Duration::from_secs(WARM + COUNTED));
    let slowed = node.run(async { runtime::local::<Store>().metrics.slowed_writes.get() });
    assert_eq!(slowed, 0, "at seven tenths of the disk's rate");
    assert!(seen.borrow().answered.len() > 5_000);
}
