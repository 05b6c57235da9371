//! C: the commitlog alone. C5: a log for each shard beside one for all. F: flushes, and writes that come faster than the disk takes them.

use super::{Bar, Bench, Case, boxed};
use crate::engine::{apply, insert, key, kv, open, told};
use crate::meter::{Cost, Count, Latencies, Meter, median};
use base::{Instant, Prng};
use mutation::Mutation;
use runtime::Group;
use runtime::file::{AlignedBuf, File, OpenOptions, SyncMethod};
use runtime::io::{DeviceLimits, limit_devices};
use schema::Table;
use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;
use storage::commitlog::replay::{LogReader, OldLog};
use storage::commitlog::{Commitlog, LogConfig};
use storage::{CommitlogSync, Settings, Store};

/// The cases of this module.
pub const CASES: &[Case] = &[
    Case { name: "C1", what: "append to the log, no sync", run: |bench| boxed(c1(bench)) },
    Case { name: "C2", what: "batch mode, 1 to 4096 writers of 512 B", run: |bench| boxed(c2(bench)) },
    Case { name: "C3", what: "a durable write: fdatasync or RWF_DSYNC", run: |bench| boxed(c3(bench)) },
    Case { name: "C4", what: "periodic mode, 512 B, as fast as it goes", run: |bench| boxed(c4(bench)) },
    Case {
        name: "C5",
        what: "batch mode: a log for each of 1 to 16 shards, and one for all",
        run: |bench| boxed(c5(bench)),
    },
    Case { name: "C6", what: "reading a log for its replay", run: |bench| boxed(c6(bench)) },
    Case { name: "F3", what: "flush of a memtable of 300 B rows", run: |bench| boxed(f1(bench)) },
    Case {
        name: "F2",
        what: "one and a half times what a disk of 50 MB/s takes",
        run: |bench| boxed(f2(bench)),
    },
];

const SEGMENT_BYTES: u64 = 32 << 20;
/// Bytes of a segment of C5: there are many at once.
const SMALL_SEGMENT_BYTES: u64 = 8 << 20;
/// Writers of a shard of C5.
const SHARD_WRITERS: u64 = 16;
const SYNCS: Count = Count("messina_commitlog_syncs_total");
const WRITTEN: Count = Count("messina_commitlog_written_bytes_total");
/// Bytes a second of the disk of F2.
const SLOW_DISK: u64 = 50_000_000;
/// Bytes of a value of F2.
const SLOW_VALUE: usize = 4096;

fn log(dir: &Path, sync: CommitlogSync) -> Commitlog {
    log_of((0, 1), dir, sync, SEGMENT_BYTES)
}

/// The log of one shard of so many.
fn log_of((shard, shards): (u16, u16), dir: &Path, sync: CommitlogSync, segment_bytes: u64) -> Commitlog {
    Commitlog::start(LogConfig {
        dir: dir.join("commitlog"),
        sync,
        sync_lag_max: sync.lag_max(),
        segment_bytes,
        incarnation: 1,
        shard,
        shards,
        spares_max: 4,
        method: SyncMethod::After,
        entry_bytes_max: None,
    })
}

async fn end(log: Commitlog) -> Result<(), String> {
    log.stop().await.map_err(told)?;
    log.remove_all().await.map_err(told)
}

async fn c1(bench: Bench) -> Result<(), String> {
    for size in [100, 1024, 16 * 1024] {
        let log = log(&bench.folder, CommitlogSync::Periodic { period_ms: 10_000 });
        let entry = vec![7; size];
        let stretch = (4 << 20) / size as u64;
        let mut left = bench.options.operations((512 << 20) / size as u64);
        let mut costs = Vec::new();
        while left > 0 {
            let some = left.min(stretch);
            let meter = Meter::start();
            for _ in 0..some {
                log.append(&[&entry]).map_err(told)?;
            }
            costs.push(meter.stop(some));
            left -= some;
            // What was appended is on disk before more is, and counts for nothing here.
            log.synced_so_far().await.map_err(told)?;
            log.release(log.open_segment());
        }
        bench.cost(&format!("append of {size} B"), median(costs));
        end(log).await?;
    }
    Ok(())
}

async fn c2(bench: Bench) -> Result<(), String> {
    for writers in [1u64, 16, 256, 4096] {
        let log = log(&bench.folder, CommitlogSync::Batch);
        let (cost, mut latencies) = written(&bench, std::slice::from_ref(&log), writers).await?;
        bench.cost(&format!("{writers} writers"), cost);
        bench.fact(&format!("{writers} writers, latency"), &latencies.told());
        end(log).await?;
    }
    Ok(())
}

/// So many writers of each log append 512 B, wait until it is synced, and begin again.
async fn written(bench: &Bench, logs: &[Commitlog], writers: u64) -> Result<(Cost, Latencies), String> {
    for log in logs {
        // The first segment is made with the first write.
        let first = log.append(&[&[7; 512]]).map_err(told)?;
        log.synced(first.number).await.map_err(told)?;
    }
    let until = runtime::now() + Duration::from_secs_f64(2.0 * bench.options.scale);
    let latencies: Rc<RefCell<Latencies>> = Rc::default();
    let meter = Meter::start();
    let writer = |log: &Commitlog| {
        let (log, latencies) = (log.clone(), latencies.clone());
        runtime::spawn(Group::QUERY, async move {
            while runtime::now() < until {
                let start = runtime::now();
                log.room().await.map_err(told)?;
                let appended = log.append(&[&[7; 512]]).map_err(told)?;
                log.synced(appended.number).await.map_err(told)?;
                let took = runtime::now().saturating_duration_since(start);
                latencies.borrow_mut().0.push(took.as_nanos() as u64);
                log.release(log.open_segment());
            }
            Ok::<(), String>(())
        })
    };
    let tasks: Vec<_> = logs.iter().flat_map(|log| (0..writers).map(|_| writer(log))).collect();
    for task in tasks {
        task.await?;
    }
    let latencies = latencies.take();
    Ok((meter.stop(latencies.0.len() as u64), latencies))
}

/// What decides between a log for each shard and one that all shards write to: as many writers either sync N files, each
/// its own few entries, or one file with the entries of all. One core does the work of all shards here, so the processor's
/// time is that of all of them together; and entries come to the shared log for nothing, where shards would have to send
/// them to its owner and wait for the answer. So the numbers of the shared log are the best it could have.
async fn c5(bench: Bench) -> Result<(), String> {
    for shards in [1u16, 2, 4, 8, 16] {
        for (what, count) in [("a log for each", shards), ("one log", 1)] {
            if shards == 1 && what == "one log" {
                continue;
            }
            let of = |shard| log_of((shard, count), &bench.folder, CommitlogSync::Batch, SMALL_SEGMENT_BYTES);
            let logs: Vec<Commitlog> = (0..count).map(of).collect();
            let writers = SHARD_WRITERS * u64::from(shards / count);
            let before = (SYNCS.now(), WRITTEN.now());
            let (cost, mut latencies) = written(&bench, &logs, writers).await?;
            let (syncs, bytes) = (SYNCS.now() - before.0, WRITTEN.now() - before.1);
            let what = format!("{shards} × {SHARD_WRITERS} writers, {what}");
            bench.cost(&what, cost);
            let each = |total: f64, of: u64| total / of.max(1) as f64;
            let second = each(1e9, cost.clock_ns);
            bench.fact(
                &what,
                &format!(
                    "{:.0} entries and {:.0} syncs a second, {:.1} entries a sync, {:.0} B written for one; {}",
                    cost.operations as f64 * second,
                    syncs as f64 * second,
                    each(cost.operations as f64, syncs),
                    each(bytes as f64, cost.operations),
                    latencies.told(),
                ),
            );
            for log in logs {
                end(log).await?;
            }
        }
    }
    Ok(())
}

async fn c3(bench: Bench) -> Result<(), String> {
    let path = bench.folder.join("commitlog").join("probe");
    let options = OpenOptions::CREATE_NEW.with_direct();
    let file = File::open(&path, OpenOptions { read: true, ..options }).await.map_err(told)?;
    let rounds = bench.options.scaled(400);
    for size in [4096usize, 65536] {
        let mut written = 0;
        while written < 2 * rounds * size as u64 {
            let piece = AlignedBuf::zeroed(1 << 20);
            file.write_at(written, piece).await.map_err(told)?;
            written += 1 << 20;
        }
        file.sync_data().await.map_err(told)?;
        for (name, method) in [
            ("write, then fdatasync", None),
            ("write linked with fdatasync", Some(SyncMethod::After)),
            ("write through, RWF_DSYNC", Some(SyncMethod::Through)),
        ] {
            let mut latencies = Latencies::default();
            let meter = Meter::start();
            for round in 0..rounds {
                let start = runtime::now();
                let buffer = AlignedBuf::zeroed(size);
                let offset = round * size as u64;
                match method {
                    None => {
                        file.write_at(offset, buffer).await.map_err(told)?;
                        file.sync_data().await.map_err(told)?;
                    }
                    Some(method) => {
                        let written = file.write_durable(offset, buffer, method).await;
                        written.and_then(|synced| synced).map_err(told)?;
                    }
                }
                latencies.0.push(runtime::now().saturating_duration_since(start).as_nanos() as u64);
            }
            bench.cost(&format!("{name}, {size} B"), meter.stop(rounds));
            bench.fact(&format!("{name}, {size} B, latency"), &latencies.told());
        }
    }
    Ok(())
}

async fn c4(bench: Bench) -> Result<(), String> {
    for period_ms in [10, 10_000] {
        let log = log(&bench.folder, CommitlogSync::Periodic { period_ms });
        let until = runtime::now() + Duration::from_secs_f64(2.0 * bench.options.scale);
        let entry = [7; 512];
        let (meter, mut appended) = (Meter::start(), 0);
        while runtime::now() < until {
            for _ in 0..100 {
                if !log.has_room() {
                    log.room().await.map_err(told)?;
                }
                log.append(&[&entry]).map_err(told)?;
                appended += 1;
            }
            log.release(log.open_segment());
            runtime::yield_if_needed().await;
        }
        log.synced_so_far().await.map_err(told)?;
        bench.cost(&format!("a sync each {period_ms} ms, all of the log's work"), meter.stop(appended));
        end(log).await?;
    }
    Ok(())
}

async fn c6(bench: Bench) -> Result<(), String> {
    let log = log(&bench.folder, CommitlogSync::Periodic { period_ms: 10_000 });
    let entry = [7; 300];
    let entries = bench.options.operations(2_000_000);
    for _ in 0..entries {
        if !log.has_room() {
            log.room().await.map_err(told)?;
        }
        log.append(&[&entry]).map_err(told)?;
        runtime::yield_if_needed().await;
    }
    log.stop().await.map_err(told)?;
    let segments: Vec<u32> = (1..=log.open_segment()).collect();
    let bytes = segments.len() as u64 * SEGMENT_BYTES;
    let old = OldLog { incarnation: 1, shard: 0, segments, floor: 1, has_tail: false };
    let mut reader = LogReader::new(&bench.folder.join("commitlog"), old, false);
    let (meter, mut found) = (Meter::start(), 0);
    while let Some(entries) = reader.next().await.map_err(told)? {
        found += entries.len() as u64;
    }
    let cost = meter.stop(found);
    if found != entries {
        return Err(format!("{found} of {entries} entries"));
    }
    bench.cost("entries of 300 B, read, checked, put together", cost);
    bench.fact("rate", &format!("{:.2} GB/s on the clock", bytes as f64 / cost.clock_ns as f64));
    log.remove_all().await.map_err(told)
}

async fn f1(bench: Bench) -> Result<(), String> {
    let table = kv();
    let settings = Settings { row_cache_bytes: 0, ..bench.settings() };
    let store = open(settings, std::slice::from_ref(&table)).await?;
    let rows = bench.options.operations(1_000_000);
    let mut random = Prng::new(3);
    let mut bytes = 0;
    let mut costs = Vec::new();
    for _ in 0..bench.options.rounds {
        bytes = 0;
        for number in 0..rows {
            let row = mutation(&table, number, 300, &mut random);
            bytes += row.as_bytes().len() as u64;
            apply(&store, row).await?;
        }
        let meter = Meter::start();
        store.flush(None).await.map_err(told)?;
        costs.push(meter.stop(rows));
    }
    let cost = median(costs);
    bench.cost("rows of 300 B, half of it compresses", cost);
    let rate = |ns: u64| bytes as f64 * 1000.0 / ns as f64;
    let rates =
        format!("{:.0} MB/s per core, {:.0} MB/s on the clock", rate(cost.processor_ns), rate(cost.clock_ns));
    bench.fact("bytes of mutations", &rates);
    bench.bar("MB/s per core, flush of rows of 300 B", rate(cost.processor_ns), Bar::AtLeast(250.0));
    store.drain().await.map_err(told)
}

/// A row whose value compresses to about half.
fn mutation(table: &Table, number: u64, size: usize, random: &mut Prng) -> Mutation {
    let mut value = vec![7; size];
    random.fill(&mut value[..size / 2]);
    insert(table, &key(number), 1, &value)
}

async fn f2(bench: Bench) -> Result<(), String> {
    limit_devices(DeviceLimits { bytes_per_second: SLOW_DISK, requests_per_second: 0 });
    let measured = offered(&bench).await;
    limit_devices(DeviceLimits::default());
    measured
}

/// What F2 saw: microseconds since the start at which writes were to be sent and were answered.
type Seen = Rc<RefCell<Vec<(u64, u64)>>>;

async fn offered(bench: &Bench) -> Result<(), String> {
    let table = kv();
    let memtable_bytes = 64 << 20;
    let settings = Settings { memtable_bytes, row_cache_bytes: 0, ..bench.settings() };
    let store = open(settings, std::slice::from_ref(&table)).await?;
    let seconds = bench.options.scaled(20).max(8);
    // Log and sstables, the latter of half the size.
    let rate = SLOW_DISK as f64 * 1.5 / (1.5 * SLOW_VALUE as f64);
    let (seen, start): (Seen, Instant) = (Rc::default(), runtime::now());
    let mut random = Prng::new(5);
    let mut sent = 0u64;
    while micros_since(start) < seconds * 1_000_000 {
        let due = (micros_since(start) as f64 * rate / 1e6) as u64;
        while sent < due {
            let intended = (sent as f64 * 1e6 / rate) as u64;
            let write = mutation(&table, sent, SLOW_VALUE, &mut random);
            let (store, seen) = (store.clone(), seen.clone());
            drop(runtime::spawn(Group::QUERY, async move {
                if apply(&store, write).await.is_ok() {
                    seen.borrow_mut().push((intended, micros_since(start)));
                }
            }));
            sent += 1;
        }
        runtime::sleep(Duration::from_millis(1)).await;
    }
    report(bench, &seen.borrow(), seconds, rate);
    limit_devices(DeviceLimits::default());
    finish(&store, &seen, sent).await
}

/// Lets everything that was sent come to its end.
async fn finish(store: &Rc<Store>, seen: &Seen, sent: u64) -> Result<(), String> {
    while (seen.borrow().len() as u64) < sent {
        runtime::sleep(Duration::from_millis(20)).await;
    }
    store.drain().await.map_err(told)
}

fn report(bench: &Bench, seen: &[(u64, u64)], seconds: u64, rate: f64) {
    // The first seconds fill memory.
    let warm = 4;
    let counted: Vec<_> = seen.iter().filter(|(_, at)| *at >= warm * 1_000_000).collect();
    let mut windows = vec![0u64; (seconds - warm) as usize];
    for (_, at) in &counted {
        if let Some(window) = windows.get_mut((at / 1_000_000 - warm) as usize) {
            *window += 1;
        }
    }
    let mean = counted.len() as f64 / windows.len() as f64;
    let worst = windows.iter().min().copied().unwrap_or(0) as f64 / mean.max(1.0);
    let pause = counted.windows(2).map(|pair| pair[1].1 - pair[0].1).max().unwrap_or(0);
    let mut latencies: Vec<u64> = counted.iter().map(|(intended, at)| at - intended).collect();
    latencies.sort();
    let average = latencies.iter().sum::<u64>() as f64 / latencies.len().max(1) as f64;
    let p99 = latencies.get(latencies.len() * 99 / 100).copied().unwrap_or(0) as f64;
    bench.fact("offered and accepted, writes a second", &format!("{rate:.0} and {mean:.0}"));
    bench.fact("worst second of the mean", &format!("{worst:.2}"));
    bench.fact("longest pause", &format!("{:.1} ms", pause as f64 / 1000.0));
    bench.fact("intended time, p99 / mean", &format!("{:.2}", p99 / average.max(1.0)));
}

fn micros_since(start: Instant) -> u64 {
    runtime::now().saturating_duration_since(start).as_micros() as u64
}
