//! `cargo x bench rows`: a node with many rows: load, restart, scan, delete half, compact, count.
//!
//! `--rows N` (default 50,000,000) of 300 bytes, half of which compress; `--memory SIZE` (default 8G); a node of one
//! shard on processor 0, the loader on processor 1. Each step says how long it took, what the node held in memory at
//! most until then, and bytes on disk. Every count is checked, so the smoke is a test as well. `--smoke`. What falls short
//! of a bar is recorded and an error.

use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::bench_node::{self, BenchNode, folder_bytes, load, of_process};
use crate::{Outcome, dist, house, machine};

/// Bytes of a value; fifteen more are the key.
const VALUE_BYTES: &str = "285";
/// The restart may take so long until it serves.
const RESTART_BAR: Duration = Duration::from_secs(10);
/// Half of the rows are deleted: what a compaction leaves has so much of the bytes at most.
const LEFT_MAX: f64 = 0.6;

/// Runs the bench and writes its result.
pub fn rows(rest: &[String]) -> Outcome {
    let smoke = rest.iter().any(|word| word == "--smoke");
    let rows = house::number(rest, "--rows", if smoke { 20_000 } else { 50_000_000 })?;
    let memory = house::option(rest, "--memory").unwrap_or(if smoke { "1G" } else { "8G" });
    let binary = dist::binary(rest, smoke)?;
    let setting = memory.strip_suffix('G').and_then(|gib| gib.parse::<u64>().ok());
    let memory_max = setting.ok_or("--memory wants a number of GiB, as in 8G")? << 30;
    // A smoke of a few megabytes flushes, too.
    let yaml = if smoke { "memtable_heap_space: 2MiB\nmemtable_offheap_space: 2MiB\n" } else { "" };
    let node = BenchNode::start(&binary, "rows", memory, yaml)?;
    let mut bench =
        Bench { node, binary: &binary, rows, memory_max, text: String::new(), failed: Vec::new() };
    writeln!(
        bench.text,
        "# bench rows\n\n{}\ncommit {}, as `cargo x dist` compiles it; {rows} rows of 300 B, half of each compresses; one shard with {memory} of memory.\n\n\
         | step | seconds | rows/s | peak memory MiB | on disk MiB |\n|---|---:|---:|---:|---:|",
        machine::shape(),
        machine::commit(),
    )
    .ok();
    // What was measured before a step that broke is worth keeping.
    if let Err(error) = bench.steps() {
        bench.failed.push(error);
    }
    let Bench { node, mut text, failed, .. } = bench;
    let folder = node.folder.clone();
    drop(node);
    for what in &failed {
        writeln!(text, "\n{}: {what}", machine::NOT_MET).ok();
    }
    println!("{text}");
    let recorded =
        if smoke { "bench result: ok. rows works".into() } else { machine::record("rows", &text)? };
    if failed.is_empty() {
        bench_node::remove_folder(&folder)?;
        return Ok(recorded);
    }
    Err(failed.join("; "))
}

struct Bench<'a> {
    node: BenchNode,
    binary: &'a Path,
    rows: u64,
    /// Bytes.
    memory_max: u64,
    text: String,
    failed: Vec<String>,
}

impl Bench<'_> {
    fn steps(&mut self) -> Result<(), String> {
        self.load(
            "load",
            &["--workload", "insert", "--draw", "sequence", "--depth", "32", "--no-fill"],
            self.rows,
        )?;
        // The log is periodic: a kill loses what was acknowledged some milliseconds before it.
        std::thread::sleep(Duration::from_secs(1));
        self.restart("restart after a kill", BenchNode::kill)?;
        self.scan("scan", self.rows)?;
        let before = Instant::now();
        self.node.stop()?;
        println!("stopped in {:.1} s", before.elapsed().as_secs_f64());
        self.restart("restart after a stop", |_| ())?;
        let deletes = ["--workload", "delete", "--draw", "sequence", "--stride", "2"];
        let deletes = [&deletes[..], &["--depth", "32", "--keep-data"]].concat();
        self.load("delete every second row", &deletes, self.rows.div_ceil(2))?;
        self.scan("scan over tombstones", self.rows / 2)?;
        self.node.query("ALTER TABLE load.kv WITH gc_grace_seconds = 0")?;
        // Tombstones written within this second are not yet older than it.
        std::thread::sleep(Duration::from_secs(2));
        self.node.nodetool(&["flush"])?;
        let before = self.table_bytes()?;
        let since = Instant::now();
        self.node.nodetool(&["compact", "load", "kv"])?;
        self.line("compact", since.elapsed(), self.rows)?;
        // Files go with their last reader.
        std::thread::sleep(Duration::from_secs(2));
        let left = self.table_bytes()? as f64 / before as f64;
        if left > LEFT_MAX {
            self.failed.push(format!("{left:.2} of the bytes are left after the compaction"));
        }
        self.scan("scan what is left", self.rows / 2)
    }

    /// Bytes of the table's files.
    fn table_bytes(&self) -> Result<u64, String> {
        folder_bytes(&self.node.folder.join("data/load"))
    }

    /// A load of so many operations.
    fn load(&mut self, name: &str, words: &[&str], expected: u64) -> Result<(), String> {
        let rows = self.rows.to_string();
        let common = ["--keys", &rows, "--value-bytes", VALUE_BYTES, "--fresh-values", "--connections", "8"];
        let until_its_end = ["--warm-up", "0", "--seconds", "86400"];
        let all = [&common[..], &until_its_end, words].concat();
        let since = Instant::now();
        let report = load(self.binary, &self.node.address(), &all)?;
        self.line(name, since.elapsed(), report.operations)?;
        if report.operations != expected {
            self.failed.push(format!("{name}: {} instead of {expected}", report.operations));
        }
        Ok(())
    }

    fn scan(&mut self, name: &str, expected: u64) -> Result<(), String> {
        self.load(name, &["--workload", "scan", "--keep-data", "--depth", "1"], expected)
    }

    fn restart(&mut self, name: &str, end: impl FnOnce(&mut BenchNode)) -> Result<(), String> {
        end(&mut self.node);
        let took = self.node.restart()?;
        self.line(name, took, 0)?;
        if took > RESTART_BAR {
            self.failed.push(format!("{name} took {:.1} s", took.as_secs_f64()));
        }
        Ok(())
    }

    fn line(&mut self, name: &str, took: Duration, rows: u64) -> Result<(), String> {
        let peak = of_process(self.node.process(), "status", "VmHWM:")? >> 10;
        if peak << 20 > self.memory_max {
            self.failed.push(format!("{name}: memory reached {peak} MiB"));
        }
        let disk = folder_bytes(&self.node.folder.join("data"))? >> 20;
        let seconds = took.as_secs_f64();
        let rate = rows as f64 / seconds.max(0.001);
        let line = format!("| {name} | {seconds:.1} | {rate:.0} | {peak} | {disk} |");
        println!("{line}");
        writeln!(self.text, "{line}").ok();
        Ok(())
    }
}
