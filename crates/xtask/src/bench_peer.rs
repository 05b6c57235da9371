//! `cargo x bench peer`: Messina beside Apache Cassandra 5.0, both its shipped configurations, in one run.
//!
//! Every server keeps to processor 0, the loader to processor 1; the servers take turns, round by round, so that a
//! noisy minute falls on all of them, and stand still while another has its turn. The table is that of
//! cassandra-stress; 128 requests in flight; inserts, reads and ten reads to an insert by a normal distribution.
//! Cassandra is warmed with `--warm N` operations of each kind (default 3,000,000) before anything counts.
//! `--rounds N`, `--seconds N`, `--keys N`, `--heap 4G`, `--smoke`.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Lines, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use crate::loader::cpu_ns;
use crate::machine::{self, Running};
use crate::{Outcome, house};

/// The processors of the servers and of the loader.
const SERVER: &str = "0";
const LOADER: &str = "1";
/// Connections, and requests in flight on each.
const CONNECTIONS: &str = "8";
const DEPTH: &str = "16";
/// The kinds of requests, as `messina load` is told them.
const KINDS: &[(&str, &[&str])] = &[
    ("insert", &["--workload", "insert"]),
    ("read", &["--workload", "read"]),
    ("mixed 10:1", &["--workload", "mixed", "--reads", "0.909"]),
];
/// How much less processor time per operation than the better Cassandra is asked for.
const RATIO_BAR: f64 = 8.0;

/// What the words asked for.
struct Options {
    rounds: usize,
    seconds: u64,
    keys: u64,
    warm: u64,
    heap: String,
}

/// One server under measurement. It stands still but for its turns.
struct Peer {
    name: &'static str,
    address: String,
    process: u32,
    /// Where its tables lie.
    data: PathBuf,
    running: Life,
}

/// What keeps a server alive.
enum Life {
    Node { _node: Running, binary: PathBuf, api_port: u16 },
    Cassandra { child: Child, input: Option<ChildStdin>, said: Lines<BufReader<ChildStdout>> },
}

/// A server's turn: it runs as long as this lives.
struct Turn(u32);

impl Peer {
    fn turn(&self) -> Turn {
        signal(self.process, "-CONT");
        Turn(self.process)
    }

    /// Has everything written to sstables.
    fn flush(&mut self) -> Result<(), String> {
        match &mut self.running {
            Life::Node { binary, api_port, .. } => {
                let mut command = house::command(binary);
                house::output(command.args(["nodetool", "-p", &api_port.to_string(), "flush"])).map(drop)
            }
            Life::Cassandra { input, said, .. } => {
                let input = input.as_mut().ok_or("it was stopped")?;
                input.write_all(b"flush\n").map_err(|error| format!("compat peer: {error}"))?;
                match said.next() {
                    Some(Ok(line)) if line == "flushed" => Ok(()),
                    other => Err(format!("compat peer does not flush: {other:?}")),
                }
            }
        }
    }

    /// Bytes on disk of the table's sstables.
    fn table_bytes(&self) -> Result<u64, String> {
        let list = |folder: &Path| {
            let told = |error| format!("{}: {error}", folder.display());
            std::fs::read_dir(folder).map_err(told)?.collect::<Result<Vec<_>, _>>().map_err(told)
        };
        let mut bytes = 0;
        for table in list(&self.data.join("load"))? {
            for file in list(&table.path())? {
                // A compaction may just have removed it.
                let Ok(meta) = file.metadata() else { continue };
                let is_ready = meta.is_file() && file.path().extension().is_none_or(|end| end != "tmp");
                bytes += if is_ready { meta.len() } else { 0 };
            }
        }
        Ok(bytes)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        signal(self.0, "-STOP");
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        signal(self.process, "-CONT");
    }
}

fn signal(process: u32, name: &str) {
    let _ = Command::new("kill").args([name, &process.to_string()]).status();
}

impl Drop for Life {
    fn drop(&mut self) {
        if let Life::Cassandra { child, input, .. } = self {
            // The end of its standard input ends it.
            drop(input.take());
            let _ = child.wait();
        }
    }
}

/// What a round of one kind gave.
#[derive(Clone, Copy, Default)]
struct Measured {
    rate: f64,
    cpu_us: f64,
    busy: f64,
    p50_us: f64,
    p99_us: f64,
    p999_us: f64,
}

/// Runs the bench and writes its result.
pub fn peer(rest: &[String]) -> Outcome {
    let smoke = rest.iter().any(|word| word == "--smoke");
    let number = |name: &str, full: u64, small: u64| match house::option(rest, name) {
        Some(text) => text.parse::<u64>().map_err(|_| format!("{name} wants a number")),
        None => Ok(if smoke { small } else { full }),
    };
    let options = Options {
        rounds: (number("--rounds", 5, 1)? as usize).max(1),
        seconds: number("--seconds", 10, 1)?,
        keys: number("--keys", 1_000_000, 10_000)?,
        warm: number("--warm", 3_000_000, 10_000)?,
        heap: house::option(rest, "--heap").unwrap_or(if smoke { "1G" } else { "4G" }).to_owned(),
    };
    let binary = house::binary(rest, "release")?;
    house::run(house::cargo().args(["build", "--quiet", "--package", "compat"]))?;
    let mut peers = [node(&binary)?, cassandra("stock", &options)?, cassandra("latest", &options)?];
    let mut sizes = String::from("| server | bytes on disk per row |\n|---|---:|\n");
    for peer in &mut peers {
        let bytes = fill(&binary, peer, &options)?;
        writeln!(sizes, "| {} | {:.0} |", peer.name, bytes as f64 / options.keys as f64).ok();
    }
    for peer in &peers {
        warm(&binary, peer, &options)?;
    }
    let mut text = format!(
        "# bench peer\n\n{}\ncommit {}; servers on processor {SERVER}, loader on processor {LOADER}; \
         {CONNECTIONS} connections × {DEPTH} requests; {} keys of the cassandra-stress table, normally distributed; \
         median of {} rounds of {} s in turn; Cassandra with a heap of {}, after {} operations of each kind.\n\n",
        machine::shape(),
        machine::commit(),
        options.keys,
        options.rounds,
        options.seconds,
        options.heap,
        options.warm,
    );
    text.push_str(
        "| load | server | rate/s | CPU µs | busy % | p50 µs | p99 µs | p99.9 µs | CPU × Messina |\n",
    );
    text.push_str("|---|---|---:|---:|---:|---:|---:|---:|---:|\n");
    let mut short = Vec::new();
    for (name, words) in KINDS {
        let mut rounds: Vec<Vec<Measured>> = vec![Vec::new(); peers.len()];
        for round in 0..options.rounds {
            for (peer, measured) in peers.iter().zip(&mut rounds) {
                measured.push(measure(&binary, peer, words, &options, round as u64 + 2)?);
            }
        }
        let medians: Vec<Measured> = rounds.into_iter().map(median).collect();
        for (peer, measured) in peers.iter().zip(&medians) {
            let ratio = measured.cpu_us / medians[0].cpu_us.max(0.001);
            row(&mut text, name, peer.name, *measured, ratio);
        }
        let better = medians[1].cpu_us.min(medians[2].cpu_us) / medians[0].cpu_us.max(0.001);
        if better < RATIO_BAR {
            short.push(format!("{name}: {better:.1}"));
        }
    }
    writeln!(text, "\nEvery key written once, then flushed:\n\n{sizes}").ok();
    if !short.is_empty() {
        writeln!(text, "\nBelow the bar of {RATIO_BAR} times: {}", short.join(", ")).ok();
    }
    println!("{text}");
    if smoke { Ok("bench result: ok. peer works".into()) } else { machine::record("peer", &text) }
}

fn row(text: &mut String, load: &str, server: &str, measured: Measured, ratio: f64) {
    let Measured { rate, cpu_us, busy, p50_us, p99_us, p999_us } = measured;
    writeln!(
        text,
        "| {load} | {server} | {rate:.0} | {cpu_us:.2} | {busy:.0} | {p50_us:.0} | {p99_us:.0} | {p999_us:.0} | {ratio:.1} |"
    )
    .ok();
}

fn median(all: Vec<Measured>) -> Measured {
    machine::median(all, |measured| measured.cpu_us)
}

fn node(binary: &Path) -> Result<Peer, String> {
    let folder = machine::fresh("peer-messina")?;
    let (port, api_port) = (machine::free_port()?, machine::free_port()?);
    let arguments = machine::node_arguments(&folder, port, &["--smp", "1", "--memory", "4G"])?;
    let config = folder.join("messina.yaml");
    std::fs::OpenOptions::new()
        .append(true)
        .open(&config)
        .and_then(|mut file| writeln!(file, "api_port: {api_port}"))
        .map_err(|error| format!("{}: {error}", config.display()))?;
    let mut node = Running::start(Some(SERVER), binary, &arguments, port, &folder.join("node.log"))?;
    node.wait_until_listening(Duration::from_secs(30))?;
    let process = node.child.id();
    let address = format!("127.0.0.1:{port}");
    let running = Life::Node { _node: node, binary: binary.to_path_buf(), api_port };
    let peer = Peer { name: "Messina", address, process, data: folder.join("data"), running };
    drop(peer.turn());
    Ok(peer)
}

fn cassandra(profile: &'static str, options: &Options) -> Result<Peer, String> {
    let folder = machine::fresh(&format!("peer-{profile}"))?;
    let mut command = house::cargo();
    command
        .args(["run", "--quiet", "--package", "compat", "--", "peer", profile])
        .arg(&folder)
        .args([options.heap.as_str(), SERVER])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut child = command.spawn().map_err(|error| format!("{}: {error}", house::shown(&command)))?;
    let output = child.stdout.take().ok_or("standard output was piped")?;
    let input = child.stdin.take();
    let mut life = Life::Cassandra { child, input, said: BufReader::new(output).lines() };
    // Packages may have to be brought first, which is told before the line that counts.
    while let Life::Cassandra { said, .. } = &mut life
        && let Some(line) = said.next()
    {
        let line = line.map_err(|error| format!("compat peer: {error}"))?;
        let Some(rest) = line.strip_prefix("ready ") else { continue };
        let (address, process) = rest.split_once(' ').ok_or("compat peer says no process")?;
        let process = process.parse().map_err(|_| format!("no process: {process}"))?;
        let name = if profile == "stock" { "Cassandra, stock" } else { "Cassandra, latest" };
        let data = folder.join("data");
        let peer = Peer { name, address: address.to_owned(), process, data, running: life };
        drop(peer.turn());
        return Ok(peer);
    }
    Err(format!("Cassandra ({profile}) did not start; see {}", folder.display()))
}

/// Inserts every key; returns the bytes on disk that makes.
fn fill(binary: &Path, peer: &mut Peer, options: &Options) -> Result<u64, String> {
    let _turn = peer.turn();
    let words = ["--workload", "insert", "--draw", "sequence"];
    load(binary, peer, options, &words, 1, u64::from(u32::MAX), true)?;
    peer.flush()?;
    peer.table_bytes()
}

/// Warms with operations of each kind.
fn warm(binary: &Path, peer: &Peer, options: &Options) -> Result<(), String> {
    let since = Instant::now();
    let _turn = peer.turn();
    for (_, words) in KINDS {
        let mut done = 0;
        while done < options.warm {
            let words = [*words, &["--draw", "gaussian"]].concat();
            done += load(binary, peer, options, &words, done, options.seconds, false)?.0.max(1);
        }
    }
    println!("{} is warm after {:.0} s", peer.name, since.elapsed().as_secs_f64());
    Ok(())
}

fn measure(
    binary: &Path,
    peer: &Peer,
    words: &[&str],
    options: &Options,
    seed: u64,
) -> Result<Measured, String> {
    let words = [words, &["--draw", "gaussian"]].concat();
    let _turn = peer.turn();
    let before = (Instant::now(), cpu_ns(peer.process));
    let (operations, report) = load(binary, peer, options, &words, seed, options.seconds, false)?;
    let cpu = (cpu_ns(peer.process) - before.1) as f64;
    let value = |name: &str| {
        let at = report.iter().position(|word| word == name).unwrap_or(usize::MAX - 1);
        report.get(at + 1).and_then(|word| word.trim_end_matches("/s").parse::<f64>().ok()).unwrap_or(0.0)
    };
    Ok(Measured {
        rate: value("rate"),
        cpu_us: cpu / 1e3 / operations.max(1) as f64,
        busy: cpu / 10.0 / before.0.elapsed().as_micros() as f64,
        p50_us: value("p50"),
        p99_us: value("p99"),
        p999_us: value("p99.9"),
    })
}

/// One run of `messina load` without a time to warm up: what it measured is all that it asked.
fn load(
    binary: &Path,
    peer: &Peer,
    options: &Options,
    words: &[&str],
    seed: u64,
    seconds: u64,
    prepare: bool,
) -> Result<(u64, Vec<String>), String> {
    let mut command = Command::new("taskset");
    command.args(["-c", LOADER]).arg(binary).args(["load", "--target", &peer.address, "--table", "stress"]);
    command.args(["--connections", CONNECTIONS, "--depth", DEPTH, "--warm-up", "0"]);
    command.args(["--keys", &options.keys.to_string(), "--seed", &seed.to_string()]);
    command.args(["--seconds", &seconds.to_string(), if prepare { "--no-fill" } else { "--keep-data" }]);
    let text = house::output(command.args(words))?;
    let report: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
    let at = report.iter().position(|word| word == "operations").ok_or(format!("no report: {text}"))?;
    let operations = report.get(at + 1).and_then(|word| word.parse().ok()).ok_or("no operations")?;
    Ok((operations, report))
}
