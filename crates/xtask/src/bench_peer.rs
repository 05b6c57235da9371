//! `cargo x bench peer`: Messina beside Apache Cassandra 5.0, both its shipped configurations, in one run.
//!
//! Every server keeps to processor 0, the loader to processor 1; the servers take turns, round by round, so that a
//! noisy minute falls on all of them, and stand still while another has its turn. 128 requests in flight; inserts,
//! reads and ten reads to an insert by a normal distribution on the table of cassandra-stress, and YCSB's workload A
//! on rows of 1 KB. Cassandra is warmed with `--warm N` operations of each kind (default 3,000,000) before anything
//! counts. `--rounds N`, `--seconds N`, `--keys N`, `--heap 4G`, `--smoke`.
//!
//! `--large`: 8 GiB of data, and each server held to 2 GiB of memory, what the kernel caches for it included. Messina
//! writes the files of all three: `nb` for the stock Cassandra, `da` for the latest and for itself. Cassandra is warmed on few
//! keys that it forgets before it is given the files, so that its code is compiled and it need not wait for the disk that often;
//! then every server has some time of each kind but inserts over all keys. Inserts are measured last: who takes seven times as
//! many in the same time has as many more sstables, which reads would pay for. The kernel reads ahead as little as Cassandra
//! advises for such disks when it starts: it maps its indexes, and with the kernel's own setting a page of them brings megabytes
//! that push the others out.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Lines, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

use crate::bench_node::{
    self, BenchNode, LOADER, LoadReport, MemoryGroup, SERVER, folder_bytes, process_cpu,
};
use crate::machine::{self, ReadAhead};
use crate::{Outcome, dist, house};

/// Connections, and requests in flight on each.
const CONNECTIONS: &str = "8";
const DEPTH: &str = "16";
/// A kind of requests, as `messina load` is told it.
struct Kind {
    name: &'static str,
    table: &'static str,
    words: &'static [&'static str],
}

impl Kind {
    /// Whether it does nothing else.
    fn inserts(&self) -> bool {
        self.words.contains(&"insert")
    }
}

const KINDS: &[Kind] = &[
    Kind { name: "insert", table: STRESS, words: &["--workload", "insert", "--draw", "gaussian"] },
    Kind { name: "read", table: STRESS, words: &["--workload", "read", "--draw", "gaussian"] },
    Kind {
        name: "mixed 10:1",
        table: STRESS,
        words: &["--workload", "mixed", "--reads", "0.909", "--draw", "gaussian"],
    },
    Kind {
        name: "workload A",
        table: USERTABLE,
        words: &["--workload", "mixed", "--reads", "0.5", "--draw", "zipfian"],
    },
];
const STRESS: &str = "stress";
const USERTABLE: &str = "usertable";
/// Rows of the table of cassandra-stress to one of YCSB: as many bytes of each.
const STRESS_ROWS: u64 = 5;
/// How much less processor time per operation than the better Cassandra is asked for, in and out of cache.
const RATIO_BAR: f64 = 8.0;
const LARGE_RATIO_BAR: f64 = 5.0;
/// Of its processor, in percent, that every server uses where nothing waits for a disk.
const BUSY_BAR: f64 = 95.0;
/// Memory of each server of the large data, and what of it is told to Messina and to Java.
const LARGE_MEMORY: u64 = 2 << 30;
const LARGE_MEMORY_NODE: &str = "1700M";
const LARGE_HEAP: &str = "1G";
/// Keys of the table of cassandra-stress that a Cassandra is warmed on before it has the large data: so many that few of their rows
/// are in several sstables.
const WARM_KEYS: u64 = 200_000;
/// Then each kind has the time of so many rounds over all keys.
const WARM_ROUNDS: u64 = 3;
/// KiB that the kernel reads ahead: what Cassandra asks for where nothing turns.
const READ_AHEAD: u32 = 8;

/// What the words asked for.
struct Options {
    large: bool,
    rounds: usize,
    seconds: u64,
    keys: u64,
    warm: u64,
    heap: String,
}

impl Options {
    fn parse(rest: &[String], smoke: bool) -> Result<Options, String> {
        let large = rest.iter().any(|word| word == "--large");
        let number = |name, full, small| house::number(rest, name, if smoke { small } else { full });
        let heap = if large { LARGE_HEAP } else { "4G" };
        Ok(Options {
            large,
            rounds: (number("--rounds", 5, 1)? as usize).max(1),
            seconds: number("--seconds", 10, 1)?,
            keys: number("--keys", if large { 20_000_000 } else { 1_000_000 }, 10_000)?,
            warm: number("--warm", 3_000_000, 10_000)?,
            heap: house::option(rest, "--heap").unwrap_or(if smoke { "1G" } else { heap }).to_owned(),
        })
    }

    /// The kinds in the order in which they are measured.
    fn kinds(&self) -> Vec<&'static Kind> {
        let mut kinds: Vec<&Kind> = KINDS.iter().collect();
        if self.large {
            kinds.sort_by_key(|kind| kind.inserts());
        }
        kinds
    }

    /// Keys of a table.
    fn keys(&self, table: &str) -> u64 {
        rows_of(table, self.keys)
    }

    /// Of them, those that the large data's servers are warmed on first.
    fn warm_keys(&self, table: &str) -> u64 {
        rows_of(table, self.keys.min(WARM_KEYS))
    }
}

/// Rows of a table beside so many of the table of cassandra-stress.
fn rows_of(table: &str, stress_keys: u64) -> u64 {
    if table == USERTABLE { stress_keys.div_ceil(STRESS_ROWS) } else { stress_keys }
}

/// One server under measurement. It stands still but for its turns.
struct Peer {
    name: &'static str,
    address: String,
    process: u32,
    /// Where its tables lie.
    data: PathBuf,
    server: Server,
    _group: Option<MemoryGroup>,
}

/// What keeps a server alive.
enum Server {
    Node(BenchNode),
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
        match &mut self.server {
            Server::Node(node) => node.nodetool(&["flush"]).map(drop),
            Server::Cassandra { .. } => self.ask("flush", "flushed"),
        }
    }

    /// Waits until it has next to nothing to do; a Cassandra that never has is given a minute.
    fn settle(&self) -> Result<(), String> {
        let _turn = self.turn();
        bench_node::comes_to_rest(self.process, 60).map(drop)
    }

    /// Asks what holds a Cassandra for something, and waits for its answer.
    fn ask(&mut self, wish: &str, answer: &str) -> Result<(), String> {
        let Server::Cassandra { input, said, .. } = &mut self.server else {
            return Err(format!("{} is no Cassandra", self.name));
        };
        let input = input.as_mut().ok_or("it was stopped")?;
        writeln!(input, "{wish}").map_err(|error| format!("compat peer: {error}"))?;
        match said.next() {
            Some(Ok(line)) if line == answer => Ok(()),
            other => Err(format!("compat peer: {wish}: {other:?}")),
        }
    }

    /// Gives a Cassandra that has the tables the sstables of a node that was stopped, by links.
    fn import(&mut self, from: &BenchNode) -> Result<(), String> {
        let _turn = self.turn();
        let told = |error: std::io::Error| format!("handing over sstables: {error}");
        let staging = self.data.with_file_name("import");
        for entry in std::fs::read_dir(from.folder.join("data/load")).map_err(told)? {
            let entry = entry.map_err(told)?;
            let folder_name = entry.file_name().to_string_lossy().into_owned();
            let table = folder_name.split('-').next().unwrap_or_default().to_owned();
            let staged = staging.join("load").join(&table);
            std::fs::create_dir_all(&staged).map_err(told)?;
            for file in std::fs::read_dir(entry.path()).map_err(told)? {
                let file = file.map_err(told)?;
                if file.path().is_file() && file.path().extension().is_none_or(|end| end != "tmp") {
                    std::fs::hard_link(file.path(), staged.join(file.file_name())).map_err(told)?;
                }
            }
            self.ask(&format!("import load {table} {}", staged.display()), "imported")?;
        }
        Ok(())
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

impl Drop for Server {
    fn drop(&mut self) {
        if let Server::Cassandra { child, input, .. } = self {
            // The end of its standard input ends it.
            drop(input.take());
            let _ = child.wait();
        }
    }
}

/// What a round of one kind gave.
#[derive(Clone, Copy, Default)]
struct Measured {
    cpu_us: f64,
    busy: f64,
    report: LoadReport,
}

/// Runs the bench and writes its result.
pub fn peer(rest: &[String]) -> Outcome {
    let smoke = rest.iter().any(|word| word == "--smoke");
    let bench = Bench { binary: dist::binary(rest, smoke)?, options: Options::parse(rest, smoke)? };
    let options = &bench.options;
    // Of files that are opened after this.
    let read_ahead = options.large.then(|| ReadAhead::set(&house::target(), READ_AHEAD)).transpose();
    if let Err(error) = &read_ahead {
        println!("the kernel reads ahead as it did: {error}");
    }
    let (peers, sizes) = if options.large { bench.filled_by_files()? } else { bench.filled_by_requests()? };
    for peer in &peers {
        bench.count(peer)?;
        if options.large {
            bench.try_all(peer)?;
        } else {
            bench.warm(peer, |table| options.keys(table))?;
        }
    }
    peers.iter().try_for_each(Peer::settle)?;
    let mut text = bench.header(read_ahead.is_ok());
    let bar = if options.large { LARGE_RATIO_BAR } else { RATIO_BAR };
    let mut short = Vec::new();
    for kind in options.kinds() {
        let mut rounds: Vec<Vec<Measured>> = vec![Vec::new(); peers.len()];
        for round in 0..options.rounds {
            for (peer, measured) in peers.iter().zip(&mut rounds) {
                measured.push(bench.measure(peer, kind, round as u64 + 2)?);
            }
        }
        let medians: Vec<Measured> = rounds.into_iter().map(median).collect();
        for (peer, measured) in peers.iter().zip(&medians) {
            let ratio = measured.cpu_us / medians[0].cpu_us.max(0.001);
            row(&mut text, kind.name, peer.name, *measured, ratio);
        }
        let better = medians[1].cpu_us.min(medians[2].cpu_us) / medians[0].cpu_us.max(0.001);
        if better < bar {
            short.push(format!("{}: {better:.1} times", kind.name));
        }
        for (peer, measured) in peers.iter().zip(&medians) {
            if !options.large && measured.busy < BUSY_BAR {
                short.push(format!("{}: {} is busy for {:.0} %", kind.name, peer.name, measured.busy));
            }
        }
        // What one kind left to be compacted is not charged to the next.
        peers.iter().try_for_each(Peer::settle)?;
    }
    text.push_str(&sizes.text);
    if let [ours, others @ ..] = &sizes.per_row[..]
        && others.iter().any(|others| ours > others)
    {
        short.push(format!("{ours:.1} bytes a row"));
    }
    if !short.is_empty() {
        let in_cache = format!(", {BUSY_BAR} % busy, no more bytes a row than Cassandra");
        let bars = format!("{bar} times{}", if options.large { "" } else { &in_cache });
        writeln!(text, "\n{}: {bars}: {}", machine::NOT_MET, short.join(", ")).ok();
    }
    println!("{text}");
    let folders: Vec<PathBuf> =
        peers.iter().filter_map(|peer| peer.data.parent()).map(Path::to_path_buf).collect();
    drop(peers);
    folders.iter().try_for_each(|folder| bench_node::remove_folder(folder))?;
    let name = if options.large { "peer-large" } else { "peer" };
    if smoke { Ok("bench result: ok. peer works".into()) } else { machine::record(name, &text) }
}

/// What data takes on disk.
struct Sizes {
    text: String,
    /// Bytes of a row of the table of cassandra-stress, by server, where each wrote its own.
    per_row: Vec<f64>,
}

/// The loader's program and what the words asked for.
struct Bench {
    binary: PathBuf,
    options: Options,
}

impl Bench {
    fn header(&self, is_read_ahead_set: bool) -> String {
        let options = &self.options;
        let (limit, warm) = if options.large {
            let ahead = if is_read_ahead_set { format!("{READ_AHEAD} KiB") } else { "as it is set".into() };
            let limit = format!(
                "; every server has {} GiB with what the kernel caches for it, which reads ahead {ahead}",
                LARGE_MEMORY >> 30
            );
            let all = WARM_ROUNDS * options.seconds;
            (
                limit,
                format!(
                    " on {} keys, and every server after {all} s of each kind but inserts on all",
                    options.warm_keys(STRESS)
                ),
            )
        } else {
            (String::new(), String::new())
        };
        format!(
            "# bench peer\n\n{}\ncommit {}, as `cargo x dist` compiles it; servers on processor {SERVER}, loader on processor {LOADER}{limit}; \
             {CONNECTIONS} connections × {DEPTH} requests; {} keys of the cassandra-stress table, normally distributed, \
             and {} rows of 1 KB by Zipf; \
             median of {} rounds of {} s in turn; Cassandra with a heap of {}, after {} operations of each kind{warm}.\n\n\
             | load | server | rate/s | CPU µs | busy % | p50 µs | p99 µs | p99.9 µs | CPU × Messina |\n\
             |---|---|---:|---:|---:|---:|---:|---:|---:|\n",
            machine::shape(),
            machine::commit(),
            options.keys(STRESS),
            options.keys(USERTABLE),
            options.rounds,
            options.seconds,
            options.heap,
            options.warm,
        )
    }

    /// Three servers, each filled by requests; bytes on disk of a row of the table of cassandra-stress.
    fn filled_by_requests(&self) -> Result<([Peer; 3], Sizes), String> {
        let options = &self.options;
        let node = BenchNode::start(&self.binary, "peer-messina", "4G", "").map(peer_of)?;
        let mut peers = [node, cassandra("stock", options, None)?, cassandra("latest", options, None)?];
        let head =
            "\nEvery key written once, then flushed:\n\n| server | bytes on disk per row |\n|---|---:|\n";
        let mut sizes = Sizes { text: head.to_owned(), per_row: Vec::new() };
        for peer in &mut peers {
            let _turn = peer.turn();
            self.fill(&peer.address, STRESS, options.keys(STRESS))?;
            peer.flush()?;
            let bytes = folder_bytes(&peer.data.join("load"))? as f64 / options.keys(STRESS) as f64;
            writeln!(sizes.text, "| {} | {bytes:.1} |", peer.name).ok();
            sizes.per_row.push(bytes);
            self.fill(&peer.address, USERTABLE, options.keys(USERTABLE))?;
        }
        Ok((peers, sizes))
    }

    /// Three servers on files that Messina wrote, each in a group of processes that may use so much memory.
    fn filled_by_files(&self) -> Result<([Peer; 3], Sizes), String> {
        let group = |name: &str| MemoryGroup::new(name, LARGE_MEMORY);
        let other = self.written("peer-big", "big")?;
        let mut stock = self.warmed(cassandra("stock", &self.options, Some(group("stock")?))?)?;
        stock.import(&other)?;
        bench_node::remove_folder(&other.folder)?;
        let mut node = self.written("peer-messina", "bti")?;
        let mut latest = self.warmed(cassandra("latest", &self.options, Some(group("latest")?))?)?;
        latest.import(&node)?;
        let bytes = folder_bytes(&node.folder.join("data/load"))?;
        node.hold(group("messina")?, LARGE_MEMORY_NODE);
        node.restart()?;
        let text = format!("\n{:.1} GiB of data in sstables of `da`.\n", bytes as f64 / f64::from(1 << 30));
        Ok(([peer_of(node), stock, latest], Sizes { text, per_row: Vec::new() }))
    }

    /// A node that wrote all data in a format, and was stopped.
    fn written(&self, name: &str, format: &str) -> Result<BenchNode, String> {
        let yaml = format!("sstable:\n  selected_format: {format}\n");
        let mut node = BenchNode::start(&self.binary, name, "4G", &yaml)?;
        for table in [STRESS, USERTABLE] {
            self.fill(&node.address(), table, self.options.keys(table))?;
        }
        node.nodetool(&["flush"])?;
        node.nodetool(&["compact"])?;
        node.stop()?;
        Ok(node)
    }

    /// A Cassandra that is warm and has no rows.
    fn warmed(&self, peer: Peer) -> Result<Peer, String> {
        let turn = peer.turn();
        for table in [STRESS, USERTABLE] {
            self.fill(&peer.address, table, self.options.warm_keys(table))?;
        }
        drop(turn);
        self.warm(&peer, |table| self.options.warm_keys(table))?;
        let turn = peer.turn();
        let address = peer.address.parse().map_err(|_| format!("no address: {}", peer.address))?;
        for text in ["TRUNCATE load.standard1", "TRUNCATE load.usertable"] {
            bench_node::query(address, text)?;
        }
        drop(turn);
        Ok(peer)
    }

    /// Inserts so many keys of a table.
    fn fill(&self, address: &str, table: &str, keys: u64) -> Result<(), String> {
        let words = ["--workload", "insert", "--draw", "sequence", "--no-fill", "--seconds", "86400"];
        self.load_keys(address, table, keys, 1, &words).map(drop)
    }

    /// Every server must have every row: reading nothing is fast. Errors: one has not.
    fn count(&self, peer: &Peer) -> Result<(), String> {
        let _turn = peer.turn();
        for table in [STRESS, USERTABLE] {
            let words = ["--workload", "scan", "--connections", "4", "--depth", "2", "--seconds", "86400"];
            let words = [&words[..], &["--table", table, "--keep-data"]].concat();
            let rows = bench_node::load(&self.binary, &peer.address, &words)?.operations;
            if rows != self.options.keys(table) {
                return Err(format!("{} has {rows} rows of {table}", peer.name));
            }
        }
        Ok(())
    }

    /// Warms with operations of each kind on so many keys of each table.
    fn warm(&self, peer: &Peer, keys: impl Fn(&str) -> u64) -> Result<(), String> {
        let since = Instant::now();
        let _turn = peer.turn();
        let seconds = self.options.seconds.to_string();
        for kind in KINDS {
            let words = [kind.words, &["--keep-data", "--seconds", &seconds]].concat();
            let mut done = 0;
            while done < self.options.warm {
                let report = self.load_keys(&peer.address, kind.table, keys(kind.table), done, &words)?;
                done += report.operations.max(1);
            }
        }
        println!("{} is warm after {:.0} s", peer.name, since.elapsed().as_secs_f64());
        Ok(())
    }

    /// Some time of each kind but inserts over all keys.
    fn try_all(&self, peer: &Peer) -> Result<(), String> {
        let _turn = peer.turn();
        let seconds = (WARM_ROUNDS * self.options.seconds).to_string();
        for kind in KINDS.iter().filter(|kind| !kind.inserts()) {
            let words = [kind.words, &["--keep-data", "--seconds", &seconds]].concat();
            self.load(&peer.address, kind.table, 1, &words)?;
        }
        println!("{} has been asked for everything", peer.name);
        Ok(())
    }

    fn measure(&self, peer: &Peer, kind: &Kind, seed: u64) -> Result<Measured, String> {
        let seconds = self.options.seconds.to_string();
        let words = [kind.words, &["--keep-data", "--seconds", &seconds]].concat();
        let _turn = peer.turn();
        let before = (Instant::now(), process_cpu(peer.process)?);
        let report = self.load(&peer.address, kind.table, seed, &words)?;
        let cpu = (process_cpu(peer.process)? - before.1).as_secs_f64();
        Ok(Measured {
            cpu_us: cpu * 1e6 / report.operations.max(1) as f64,
            busy: cpu * 100.0 / before.0.elapsed().as_secs_f64(),
            report,
        })
    }

    /// One run of `messina load` over all keys of a table.
    fn load(&self, address: &str, table: &str, seed: u64, words: &[&str]) -> Result<LoadReport, String> {
        self.load_keys(address, table, self.options.keys(table), seed, words)
    }

    /// One run without a time to warm up: what it measured is all that it asked.
    fn load_keys(
        &self,
        address: &str,
        table: &str,
        keys: u64,
        seed: u64,
        words: &[&str],
    ) -> Result<LoadReport, String> {
        let (keys, seed) = (keys.max(1).to_string(), seed.to_string());
        let mut all =
            vec!["--table", table, "--connections", CONNECTIONS, "--depth", DEPTH, "--warm-up", "0"];
        all.extend(["--keys", &keys, "--seed", &seed]);
        all.extend(words);
        bench_node::load(&self.binary, address, &all)
    }
}

fn row(text: &mut String, load: &str, server: &str, measured: Measured, ratio: f64) {
    let Measured { cpu_us, busy, report } = measured;
    let LoadReport { rate, p50_us, p99_us, p999_us, .. } = report;
    writeln!(
        text,
        "| {load} | {server} | {rate:.0} | {cpu_us:.2} | {busy:.0} | {p50_us:.0} | {p99_us:.0} | {p999_us:.0} | {ratio:.1} |"
    )
    .ok();
}

fn median(all: Vec<Measured>) -> Measured {
    machine::median(all, |measured| measured.cpu_us)
}

fn peer_of(node: BenchNode) -> Peer {
    let (address, process, data) = (node.address(), node.process(), node.folder.join("data"));
    let peer = Peer { name: "Messina", address, process, data, server: Server::Node(node), _group: None };
    drop(peer.turn());
    peer
}

fn cassandra(profile: &'static str, options: &Options, group: Option<MemoryGroup>) -> Result<Peer, String> {
    let folder = machine::fresh(&format!("peer-{profile}"))?;
    let mut command = house::compat()?;
    command.args(["peer", profile]).arg(&folder).args([options.heap.as_str(), SERVER]);
    if let Some(group) = &group {
        command = group.command(&command);
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().map_err(|error| format!("{}: {error}", house::shown(&command)))?;
    let output = child.stdout.take().ok_or("standard output was piped")?;
    let input = child.stdin.take();
    let mut server = Server::Cassandra { child, input, said: BufReader::new(output).lines() };
    // Packages may have to be brought first, which is told before the line that counts.
    while let Server::Cassandra { said, .. } = &mut server
        && let Some(line) = said.next()
    {
        let line = line.map_err(|error| format!("compat peer: {error}"))?;
        let Some(rest) = line.strip_prefix("ready ") else { continue };
        let (address, process) = rest.split_once(' ').ok_or("compat peer says no process")?;
        let process = process.parse().map_err(|_| format!("no process: {process}"))?;
        let name = if profile == "stock" { "Cassandra, stock" } else { "Cassandra, latest" };
        let data = folder.join("data");
        let peer = Peer { name, address: address.to_owned(), process, data, server, _group: group };
        drop(peer.turn());
        return Ok(peer);
    }
    Err(format!("Cassandra ({profile}) did not start; see {}", folder.display()))
}
