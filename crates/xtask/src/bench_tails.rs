//! `cargo x bench tails`: what clients wait when the disk is the limit.
//!
//! A node of one shard on processor 0, whose disk is held to 50 MB/s by its own scheduler; loaders on processor 1, in
//! open loops. A round has six windows of `--seconds N` (default 20): inserts as fast as they are taken, which says what
//! the disk takes; inserts at one and a half times that rate; reads of cached rows alone; the same reads beside inserts
//! at 70 % of what the disk takes, by one loader, for two would wait for each other's turns on their processor; the same once more on a
//! node with so much room for memtables that it neither flushes nor compacts, which tells what these two add; an echo server at the
//! reads' rate, which shows what the machine did to tails in that round. Medians of `--rounds N` (default 9). `--smoke`; `--binary FILE` measures another program.

use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::bench_node::{self, BenchNode, LoadReport, SERVER, load, of_process};
use crate::machine::{self, Running};
use crate::{Outcome, dist, house};

/// Bytes the disk moves in a second, and the same as configuration files write it.
const DISK: f64 = 50e6;
const DISK_YAML: &str = "48828KiB/s";
/// Keys of the table that is written: several times what memtables hold, so that compactions have work.
const WRITTEN_KEYS: &str = "2000000";
/// The first of them, which are read: all of them are in the row cache.
const READ_KEYS: &str = "100000";
/// Reads, and frames of the echo server, in a second: a fifth of what a processor answers.
const READ_RATE: f64 = 20_000.0;
/// Offered of what the disk takes, alone and beside the reads.
const OVERLOAD: f64 = 1.5;
const BUSY: f64 = 0.7;
/// Many more requests than are ever late: writes that wait must not keep the loader from sending reads.
const IN_FLIGHT: &[&str] = &["--connections", "8", "--depth", "256"];
/// Time of a load before its window: the writes' first second stays in memory.
const WARM_UP: Duration = Duration::from_secs(3);
/// Under overload the disk is used to so many percent at least.
const DISK_PERCENT_MIN: f64 = 95.0;
/// No second has fewer answers than so many percent of the mean.
const SECOND_PERCENT_MIN: f64 = 80.0;
/// From their intended start, the last in a hundred wait so many times the mean at most. Whoever is offered more than it takes
/// falls behind in a straight line, which alone makes this less than two: more would be a server that forgets some.
const P99_TO_MEAN_MAX: f64 = 4.6;
/// Never is there no answer for so many milliseconds.
const PAUSE_MS_MAX: f64 = 500.0;
/// Reads' p99 beside writes is so many times that without them at most, and that of the same load in memory.
const READS_RATIO_MAX: f64 = 2.0;

/// What a round saw.
#[derive(Clone, Copy)]
struct Round {
    /// Inserts in a second that the disk took in the moment before.
    taken: f64,
    overload: LoadReport,
    /// Bytes moved of what the disk was allowed, in percent.
    disk: f64,
    alone: LoadReport,
    /// Reads and inserts, where flushes and compactions follow.
    beside: LoadReport,
    /// The same, where inserts stay in memory.
    in_memory: LoadReport,
    echo: LoadReport,
}

impl Round {
    /// Percent of the inserts in a second that were taken in the moment before.
    fn accepted(&self) -> f64 {
        self.overload.rate / self.taken.max(1.0) * 100.0
    }

    fn p99_to_mean(&self) -> f64 {
        self.overload.p99_us / self.overload.mean_us.max(1.0)
    }

    fn reads_ratio(&self) -> f64 {
        self.beside.reads_p99_us / self.alone.p99_us.max(1.0)
    }

    fn ratio_to_memory(&self) -> f64 {
        self.beside.reads_p99_us / self.in_memory.reads_p99_us.max(1.0)
    }

    fn line(&self, name: &str) -> String {
        format!(
            "| {name} | {:.0} | {:.0} | {:.0} | {:.0} | {:.2} | {:.1} | {:.0} | {:.0} | {:.0} | {:.2} | {:.2} | {:.0} |\n",
            self.taken * OVERLOAD,
            self.overload.rate,
            self.disk,
            self.overload.slowest,
            self.p99_to_mean(),
            self.overload.pause_ms,
            self.alone.p99_us,
            self.in_memory.reads_p99_us,
            self.beside.reads_p99_us,
            self.reads_ratio(),
            self.ratio_to_memory(),
            self.echo.p99_us,
        )
    }
}

const TITLES: &str =
    "| round | offered/s | inserts/s | disk % | slowest second % | p99 ÷ mean | longest pause ms | reads p99 µs | in memory | beside writes | ÷ alone | ÷ in memory | echo p99 µs |
|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|
";

/// Runs the bench and writes its result.
pub fn tails(rest: &[String]) -> Outcome {
    let smoke = rest.iter().any(|word| word == "--smoke");
    let number = |name, full, small| house::number(rest, name, if smoke { small } else { full });
    let rounds = number("--rounds", 9, 1)?.max(1);
    let window = Duration::from_secs(number("--seconds", 20, 2)?.max(1));
    let binary = dist::binary(rest, smoke)?;
    let echo_program = house::example(rest, "runtime", "echo")?;
    let yaml = |half: &str| {
        format!(
            "io_throughput_limit: {DISK_YAML}\nmemtable_heap_space: {half}\nmemtable_offheap_space: {half}\n"
        )
    };
    let node = BenchNode::start(&binary, "tails", "2G", &yaml("32MiB"))?;
    let roomy = BenchNode::start(&binary, "tails-roomy", "8G", &yaml("2GiB"))?;
    let echo = echo_server(&echo_program)?;
    let bench = Bench { binary: &binary, node: &node, roomy: &roomy, echo: &echo, window };
    bench.write_every_key(&node)?;
    bench.write_every_key(&roomy)?;
    let mut text = format!(
        "# bench tails\n\n{}\ncommit {}; one shard on processor {SERVER}, its disk held to {:.0} MB/s, 64 MiB for memtables \
         (4 GiB where inserts stay in memory, on a second node there); rows of the cassandra-stress table, {WRITTEN_KEYS} keys, written again and again; latencies from the intended start.\n{rounds} rounds of windows of {} s.\n\n{TITLES}",
        machine::shape(),
        machine::commit(),
        DISK / 1e6,
        window.as_secs(),
    );
    let mut all = Vec::new();
    for number in 1..=rounds {
        let round = bench.round()?;
        let line = round.line(&number.to_string());
        print!("{line}");
        text.push_str(&line);
        all.push(round);
    }
    text.push_str(&bars(&all));
    println!("{text}");
    for node in [node, roomy] {
        let folder = node.folder.clone();
        drop(node);
        bench_node::remove_folder(&folder)?;
    }
    if smoke { Ok("bench result: ok. tails works".into()) } else { machine::record("tails", &text) }
}

/// The server under test, its yardsticks, and how long a window is.
struct Bench<'a> {
    binary: &'a Path,
    node: &'a BenchNode,
    /// Keeps in memory what one window writes, and more.
    roomy: &'a BenchNode,
    echo: &'a Running,
    window: Duration,
}

impl Bench<'_> {
    /// No faster than a log held to the disk's rate can follow: memtables of the roomy node hold nobody back.
    fn write_every_key(&self, node: &BenchNode) -> Result<LoadReport, String> {
        let words =
            ["--workload", "insert", "--keys", WRITTEN_KEYS, "--no-fill", "--depth", "16", "--rate", "60000"];
        self.once(node, &words)
    }

    fn round(&self) -> Result<Round, String> {
        // What the disk takes is seen in the moment before: compactions, and with them that rate, change with the data.
        let taken = self.inserts(None)?.rate;
        let (before, since) = (self.moved()?, Instant::now());
        let overload = self.inserts(Some(taken * OVERLOAD))?;
        let disk = (self.moved()? - before) as f64 / since.elapsed().as_secs_f64() / DISK * 100.0;
        self.node.settle()?;
        self.read_every_key(self.node)?;
        let reads = ["--workload", "read", "--keys", READ_KEYS];
        let reads = [&reads[..], IN_FLIGHT].concat();
        let alone = self.run(self.node, &reads, Some(READ_RATE))?;
        let rate = READ_RATE + overload.rate * BUSY;
        let share = format!("{:.4}", READ_RATE / rate);
        let mixed =
            ["--workload", "mixed", "--reads", &share, "--keys", WRITTEN_KEYS, "--read-keys", READ_KEYS];
        let mixed = [&mixed[..], IN_FLIGHT].concat();
        let beside = self.run(self.node, &mixed, Some(rate))?;
        self.node.settle()?;
        let in_memory = self.in_memory(&mixed, rate)?;
        let (address, seconds) = (self.echo.address.to_string(), self.window.as_secs().to_string());
        let rate = READ_RATE.to_string();
        let echo = ["--workload", "echo", "--rate", &rate, "--seconds", &seconds, "--warm-up", "1"];
        let echo = load(self.binary, &address, &echo)?;
        Ok(Round { taken, overload, disk, alone, beside, in_memory, echo })
    }

    /// A load on the roomy node. Errors: it flushed.
    fn in_memory(&self, words: &[&str], rate: f64) -> Result<LoadReport, String> {
        // What the rounds before left in memory goes first.
        self.roomy.nodetool(&["flush"])?;
        self.roomy.settle()?;
        self.read_every_key(self.roomy)?;
        let before = flushes(self.roomy)?;
        let report = self.run(self.roomy, words, Some(rate))?;
        let after = flushes(self.roomy)?;
        if before == after {
            Ok(report)
        } else {
            Err("what inserts of one window write does not fit into memory".into())
        }
    }

    /// All that is read is in the row cache before any counts.
    fn read_every_key(&self, node: &BenchNode) -> Result<LoadReport, String> {
        self.once(node, &["--workload", "read", "--keys", READ_KEYS, "--keep-data", "--depth", "4"])
    }

    /// Each key once, however long it takes.
    fn once(&self, node: &BenchNode, words: &[&str]) -> Result<LoadReport, String> {
        let all = ["--table", "stress", "--draw", "sequence", "--warm-up", "0", "--seconds", "86400"];
        load(self.binary, &node.address(), &[&all[..], words].concat())
    }

    /// Bytes the node has moved from and to its disk.
    fn moved(&self) -> Result<u64, String> {
        let bytes = |name| of_process(self.node.process(), "io", name);
        Ok(bytes("read_bytes:")? + bytes("write_bytes:")?)
    }

    /// Inserts at a rate, or as fast as they are taken.
    fn inserts(&self, rate: Option<f64>) -> Result<LoadReport, String> {
        let words = ["--workload", "insert", "--keys", WRITTEN_KEYS];
        self.run(self.node, &[&words[..], IN_FLIGHT].concat(), rate)
    }

    /// A load of one window on the table of cassandra-stress.
    fn run(&self, node: &BenchNode, words: &[&str], rate: Option<f64>) -> Result<LoadReport, String> {
        let (seconds, warm_up) = (self.window.as_secs().to_string(), WARM_UP.as_secs().to_string());
        let rate = rate.map(|rate| format!("{rate:.0}"));
        let mut all = vec!["--table", "stress", "--keep-data", "--seconds", &seconds, "--warm-up", &warm_up];
        all.extend(words);
        all.extend(rate.iter().flat_map(|rate| ["--rate", rate]));
        load(self.binary, &node.address(), &all)
    }
}

/// How many memtables of the table were closed so that they would be flushed, as `nodetool` tells.
fn flushes(node: &BenchNode) -> Result<String, String> {
    let text = node.nodetool(&["tablestats", "load.standard1"])?;
    let line = text.lines().find_map(|line| line.trim().strip_prefix("Memtable switch count:"));
    line.map(|count| count.trim().to_owned()).ok_or(format!("no count of memtables in {text:?}"))
}

fn echo_server(program: &Path) -> Result<Running, String> {
    let folder = machine::fresh("tails-echo")?;
    let port = machine::free_port()?;
    // It says back what it hears.
    let arguments = ["--port", &port.to_string(), "--answer-bytes", "0"].map(str::to_owned);
    let mut echo = Running::start(Some(SERVER), program, &arguments, port, &folder.join("echo.log"))?;
    echo.wait_until_listening(Duration::from_secs(10))?;
    Ok(echo)
}

/// Medians of all rounds against their bars.
fn bars(all: &[Round]) -> String {
    let mut text = String::from("\nMedians against their bars:\n\n");
    let median = |value: &dyn Fn(&Round) -> f64| value(&machine::median(all.to_vec(), value));
    let mut bar = |what: &str, value: f64, least: Option<f64>, most: Option<f64>| {
        let met = least.is_none_or(|least| value >= least) && most.is_none_or(|most| value <= most);
        let (sign, limit) = (if least.is_some() { '≥' } else { '≤' }, least.or(most).unwrap_or_default());
        let met = if met { "met" } else { machine::NOT_MET };
        writeln!(text, "- {what}: {value:.2}, bar {sign} {limit}: {met}").ok();
    };
    bar("% of the disk's rate used", median(&|round| round.disk), Some(DISK_PERCENT_MIN), None);
    bar(
        "slowest second, % of the mean",
        median(&|round| round.overload.slowest),
        Some(SECOND_PERCENT_MIN),
        None,
    );
    bar("p99 ÷ mean of writes", median(&Round::p99_to_mean), None, Some(P99_TO_MEAN_MAX));
    bar("longest pause, ms", median(&|round| round.overload.pause_ms), None, Some(PAUSE_MS_MAX));
    bar("reads' p99 beside writes ÷ alone", median(&Round::reads_ratio), None, Some(READS_RATIO_MAX));
    bar(
        "reads' p99 beside writes ÷ where these stay in memory",
        median(&Round::ratio_to_memory),
        None,
        Some(READS_RATIO_MAX),
    );
    // No bar: compactions have more to do in the second of the two windows, and it is the disk's bytes that are divided.
    let accepted = median(&Round::accepted);
    writeln!(text, "- inserts taken under overload: {accepted:.0} % of those in the window before").ok();
    text
}
