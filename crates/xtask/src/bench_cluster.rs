//! `cargo x bench cluster`: three nodes of Messina beside one alone and beside three of Apache Cassandra 5.0, by the processor time that all
//! processes of each take for an operation.
//!
//! Every server keeps to processor 0, the loader to processor 1. The loader is Messina's cassandra-stress with its stock table: it knows
//! tokens, so that a request goes to a node that holds its row. Three replicas, but for the node alone. Each kind is measured in rounds, of which
//! the median counts. Cassandra is warmed with `--warm N` operations of each kind (default 400,000) before. `--rounds N`, `--operations N`,
//! `--keys N`, `--heap 1500M`, `--without-cassandra`, `--smoke`.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Stdio};
use std::time::Duration;

use crate::bench_node::{LOADER, SERVER, process_cpu, remove_folder};
use crate::machine::{self, Running};
use crate::{Outcome, dist, house};

/// Requests in flight: the threads of cassandra-stress.
const THREADS: &str = "64";
/// How much less processor time per operation at QUORUM than three Cassandras is asked for.
const QUORUM_BAR: f64 = 8.0;
/// How much more at ONE than on one node is allowed.
const ALONE_BAR: f64 = 5.0;

/// What is measured: cassandra-stress's word, and the level.
const KINDS: [(&str, &str); 4] = [("write", "ONE"), ("write", "QUORUM"), ("read", "ONE"), ("read", "QUORUM")];

struct Options {
    rounds: usize,
    operations: u64,
    keys: u64,
    warm: u64,
    heap: String,
}

/// Servers of one kind, alive as long as this.
struct Servers {
    name: &'static str,
    addresses: Vec<String>,
    port: String,
    processes: Vec<u32>,
    folder: PathBuf,
    replicas: u32,
    _held: Held,
}

enum Held {
    Messina(Running),
    Cassandra { child: Child, input: Option<ChildStdin> },
}

impl Drop for Held {
    fn drop(&mut self) {
        match self {
            // In order, so that it takes its nodes along.
            Held::Messina(running) => drop(running.stop()),
            Held::Cassandra { child, input } => {
                drop(input.take());
                let _ = child.wait();
            }
        }
    }
}

impl Servers {
    fn messina(binary: &Path, name: &'static str, nodes: u32) -> Result<Servers, String> {
        let folder = machine::fresh(&format!("cluster-messina-{nodes}"))?;
        let port = machine::free_port()?;
        let first = if nodes == 1 { 21 } else { 11 };
        let addresses: Vec<String> = (0..nodes).map(|node| format!("127.0.8.{}", first + node)).collect();
        let mut command = house::command("taskset");
        command.args(["-c", SERVER]).arg(binary).args(["cluster", "--smp", "1", "--memory", "1500M"]);
        command.args(["--nodes", &nodes.to_string(), "--first-address", &addresses[0]]);
        command.args(["--native-transport-port", &port.to_string(), "--data"]).arg(folder.join("data"));
        let running = Running::spawn(&mut command, port, &folder.join("cluster.log"))?;
        let held = Held::Messina(running);
        let Held::Messina(running) = &held else { unreachable!("made just now") };
        let limit = Duration::from_secs(120);
        for address in &addresses {
            let socket = format!("{address}:{port}").parse().map_err(|_| format!("no address: {address}"))?;
            while std::net::TcpStream::connect_timeout(&socket, limit).is_err() {
                if running.spawned.elapsed() > limit {
                    return Err(format!("nothing listens on {socket}"));
                }
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        let processes = children_of(running.child.id())?;
        if processes.len() != nodes as usize {
            return Err(format!("{} processes of {nodes} nodes", processes.len()));
        }
        let replicas = nodes.min(3);
        Ok(Servers { name, addresses, port: port.to_string(), processes, folder, replicas, _held: held })
    }

    fn cassandra(heap: &str) -> Result<Servers, String> {
        let folder = machine::fresh("cluster-cassandra")?;
        let mut command = house::compat()?;
        command.args(["peer", "cluster"]).arg(&folder).args([heap, SERVER]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|error| format!("{}: {error}", house::shown(&command)))?;
        let output = child.stdout.take().ok_or("standard output was piped")?;
        let input = child.stdin.take();
        let held = Held::Cassandra { child, input };
        // Packages may have to be brought first, which is told before the line that counts.
        for line in BufReader::new(output).lines() {
            let line = line.map_err(|error| format!("compat peer: {error}"))?;
            let Some(rest) = line.strip_prefix("ready ") else { continue };
            let (addresses, processes) = rest.split_once(' ').ok_or("compat peer says no process")?;
            let sockets: Vec<(&str, &str)> =
                addresses.split(',').filter_map(|socket| socket.rsplit_once(':')).collect();
            let port = sockets.first().ok_or("compat peer says no address")?.1.to_owned();
            let addresses = sockets.iter().map(|(address, _)| (*address).to_owned()).collect();
            let processes = processes.split(',').filter_map(|word| word.parse().ok()).collect();
            let name = "three of Cassandra";
            return Ok(Servers { name, addresses, port, processes, folder, replicas: 3, _held: held });
        }
        Err(format!("Cassandra did not start; see {}", folder.display()))
    }

    fn cpu(&self) -> Result<Duration, String> {
        self.processes.iter().map(|process| process_cpu(*process)).sum()
    }

    /// One run of cassandra-stress. Errors: an operation failed.
    fn stress(
        &self,
        binary: &Path,
        kind: &str,
        level: &str,
        operations: u64,
        population: &str,
    ) -> Result<(), String> {
        let mut command = house::command("taskset");
        command.args(["-c", LOADER]).arg(binary).args(["cassandra-stress", kind, "no-warmup"]);
        command.args([&format!("n={operations}"), &format!("cl={level}"), "-pop", population]);
        command.args(["-schema", &format!("replication(factor={})", self.replicas)]);
        command.args(["-mode", "native", "cql3", "-port", &format!("native={}", self.port)]);
        command.args(["-rate", &format!("threads={THREADS}"), "-node", &self.addresses.join(",")]);
        let said = house::output(&mut command)?;
        let errors = said.lines().find_map(|line| line.strip_prefix("Total errors")?.split_once(':'));
        match errors.and_then(|(_, rest)| rest.split_whitespace().next()) {
            Some("0") => Ok(()),
            _ => Err(format!("{}: {kind} at {level}:\n{said}", self.name)),
        }
    }
}

/// The processes that threads of this one have started.
fn children_of(process: u32) -> Result<Vec<u32>, String> {
    let tasks = format!("/proc/{process}/task");
    let mut children = Vec::new();
    for task in std::fs::read_dir(&tasks).map_err(|error| format!("{tasks}: {error}"))? {
        let path = task.map_err(|error| format!("{tasks}: {error}"))?.path().join("children");
        // A thread may have ended just now.
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        children.extend(text.split_whitespace().filter_map(|word| word.parse::<u32>().ok()));
    }
    Ok(children)
}

/// Runs the bench and writes its result.
pub fn cluster(rest: &[String]) -> Outcome {
    let smoke = rest.iter().any(|word| word == "--smoke");
    let binary = dist::binary(rest, smoke)?;
    let number = |name, full, small| house::number(rest, name, if smoke { small } else { full });
    let options = Options {
        rounds: (number("--rounds", 5, 1)? as usize).max(1),
        operations: number("--operations", 200_000, 2_000)?,
        keys: number("--keys", 200_000, 1_000)?,
        warm: number("--warm", 400_000, 1_000)?,
        heap: house::option(rest, "--heap").unwrap_or("1500M").to_owned(),
    };
    let mut text = header(&options, dist::compiled_how(rest));
    let three = measure(Servers::messina(&binary, "three of Messina", 3)?, &binary, &options, 0)?;
    let alone = measure(Servers::messina(&binary, "one of Messina", 1)?, &binary, &options, 0)?;
    let without = smoke || rest.iter().any(|word| word == "--without-cassandra");
    let cassandra = match without {
        true => None,
        false => Some(measure(Servers::cassandra(&options.heap)?, &binary, &options, options.warm)?),
    };
    let mut short = Vec::new();
    for (at, (kind, level)) in KINDS.iter().enumerate() {
        let beside_alone = three[at] / alone[at].max(0.001);
        let beside_cassandra = cassandra.as_ref().map(|all| all[at] / three[at].max(0.001));
        let shown = |ratio: Option<f64>| ratio.map_or("–".to_owned(), |ratio| format!("{ratio:.1}"));
        let theirs = cassandra.as_ref().map_or("–".to_owned(), |all| format!("{:.1}", all[at]));
        writeln!(
            text,
            "| {kind} | {level} | {:.1} | {:.1} | {beside_alone:.1} | {theirs} | {} |",
            three[at],
            alone[at],
            shown(beside_cassandra)
        )
        .ok();
        if *level == "ONE" && beside_alone > ALONE_BAR {
            short.push(format!("{kind} at ONE: {beside_alone:.1} times one node"));
        }
        if *level == "QUORUM" && beside_cassandra.is_some_and(|ratio| ratio < QUORUM_BAR) {
            short.push(format!("{kind} at QUORUM: {} times less", shown(beside_cassandra)));
        }
    }
    if !short.is_empty() {
        let bars =
            format!("{QUORUM_BAR} times less than Cassandra at QUORUM, {ALONE_BAR} times one node at ONE");
        writeln!(text, "\n{}: {bars}: {}", machine::NOT_MET, short.join(", ")).ok();
    }
    println!("{text}");
    if smoke { Ok("bench result: ok. cluster works".into()) } else { machine::record("cluster", &text) }
}

fn header(options: &Options, compiled_how: &str) -> String {
    format!(
        "# bench cluster\n\n{}\ncommit {}, {compiled_how}; all servers on processor {SERVER}, loader on processor {LOADER}; cassandra-stress with \
         {THREADS} threads, {} keys, median of {} rounds of {} operations; Cassandra with heaps of {}, after {} operations of each kind. \
         Processor time of all servers per operation in µs.\n\n\
         | load | level | three of Messina | one of Messina | × one | three of Cassandra | Cassandra × Messina |\n\
         |---|---|---:|---:|---:|---:|---:|\n",
        machine::shape(),
        machine::commit(),
        options.keys,
        options.rounds,
        options.operations,
        options.heap,
        options.warm,
    )
}

/// Microseconds of all servers' processor time per operation, by kind.
fn measure(servers: Servers, binary: &Path, options: &Options, warm: u64) -> Result<Vec<f64>, String> {
    let keys = options.keys;
    let level = if servers.replicas == 1 { "ONE" } else { "ALL" };
    servers.stress(binary, "write", level, keys, &format!("seq=1..{keys}"))?;
    let population = format!("dist=gaussian(1..{keys})");
    let mut warmed = 0;
    while warmed < warm {
        for (kind, level) in [("write", "QUORUM"), ("read", "QUORUM")] {
            servers.stress(binary, kind, level, options.operations.min(warm), &population)?;
        }
        warmed += options.operations.min(warm);
    }
    let mut all = Vec::new();
    for (kind, level) in KINDS {
        let mut rounds = Vec::new();
        for _ in 0..options.rounds {
            // What the round before left to be done by itself is not this one's.
            std::thread::sleep(Duration::from_secs(1));
            let before = servers.cpu()?;
            servers.stress(binary, kind, level, options.operations, &population)?;
            let cpu = servers.cpu()? - before;
            rounds.push(cpu.as_secs_f64() * 1e6 / options.operations as f64);
        }
        let median = machine::median(rounds, |cpu| *cpu);
        println!("{}: {kind} at {level}: {median:.1} µs", servers.name);
        all.push(median);
    }
    let folder = servers.folder.clone();
    // They must not write any more.
    drop(servers);
    remove_folder(&folder)?;
    Ok(all)
}
