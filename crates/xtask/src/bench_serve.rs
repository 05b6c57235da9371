//! `cargo x bench serve`: what a request costs, beside a bare server that only echoes the same frames.
//!
//! Server on processor 0, loader on processor 1; echo and node are measured alternately in the same run, because the
//! ratio survives a noisy machine and the absolute numbers do not. Real files, `periodic` commitlog.
//! `--smoke` only checks that the bench works; `--seconds N` per measurement (default 3); `--part echo|counts|shards|tls` runs
//! one part and writes no result.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use base::Token;

use crate::callgrind::{self, Access};
use crate::loader::{self, Connection, Measured, Plan};
use crate::machine::{self, Running};
use crate::{Outcome, bench_tls, house};

const CONNECTIONS: usize = 64;
const DEPTHS: &[usize] = &[1, 16, 64];
const KEYS: u64 = 10_000;
const VALUE_BYTES: usize = 100;
const OPEN_RATE: f64 = 20_000.0;
/// Rounds of an open loop for each round of a closed one.
const OPEN_LOOP_ROUNDS: usize = 3;

/// The most that a point read and an insert of one row may cost, in process: what they did before the engine kept sstables and
/// a row cache, and three percent.
const READ_INSTRUCTIONS_BAR: f64 = 7_816.0;
const INSERT_INSTRUCTIONS_BAR: f64 = 8_522.0;
/// The same of a role that has logged in and was granted what it does: what they did before there were permissions, and three percent.
const READ_WITH_PERMISSION_BAR: f64 = 7_865.0;
const INSERT_WITH_PERMISSION_BAR: f64 = 8_505.0;
const ALLOCATIONS_BAR: f64 = 6.0;

const SELECT: &str = "SELECT v FROM bench.kv WHERE k = ?";
const INSERT: &str = "INSERT INTO bench.kv (k, v) VALUES (?, ?)";

/// What the words after `bench serve` asked for.
struct Options {
    smoke: bool,
    measure: Duration,
    rounds: usize,
}

/// One kind of request: its frames, the echo server of its answer size.
struct Kind {
    name: &'static str,
    frames: Vec<Vec<u8>>,
    echo: Running,
}

/// Runs the bench and writes its result.
pub fn serve(rest: &[String]) -> Outcome {
    let smoke = rest.iter().any(|word| word == "--smoke");
    let seconds: f64 = match house::option(rest, "--seconds") {
        Some(text) => text.parse().map_err(|_| "--seconds wants a number")?,
        None => {
            if smoke {
                0.3
            } else {
                3.0
            }
        }
    };
    let options =
        Options { smoke, measure: Duration::from_secs_f64(seconds), rounds: if smoke { 1 } else { 3 } };
    let binary = house::binary(rest, house::profile(rest))?;
    let echo = house::example(rest, "runtime", "echo")?;
    machine::pin_self(1);
    let mut text = format!(
        "# bench serve\n\n{}\ncommit {}; server on processor 0, loader on processor 1; {CONNECTIONS} connections; \
         {VALUE_BYTES}-byte values; {KEYS} keys; periodic commitlog.\nEach line is the median of {} rounds of {seconds} s, of an open loop of {}.\n\n",
        machine::shape(),
        machine::commit(),
        options.rounds,
        OPEN_LOOP_ROUNDS * options.rounds,
    );
    let part = house::option(rest, "--part");
    let wanted = |name: &str| part.is_none_or(|part| part == name);
    let best = if wanted("echo") { one_shard(&options, &binary, &echo, &mut text)? } else { 0.0 };
    if wanted("counts") && !options.smoke {
        in_process(&binary, &mut text)?;
    }
    if wanted("shards") {
        two_shards(&options, &binary, best, &mut text)?;
    }
    if wanted("tls") && !options.smoke {
        bench_tls::encrypted(&binary, (seconds as u64).max(1), options.rounds, &mut text)?;
    }
    println!("{text}");
    let recorded = if options.smoke || part.is_some() {
        "bench result: ok. serve works".into()
    } else {
        machine::record("serve", &text)?
    };
    if text.contains(machine::NOT_MET) { Err("a count is above its bar".into()) } else { Ok(recorded) }
}

/// Echo and node side by side; returns the node's best rate of reads.
fn one_shard(options: &Options, binary: &Path, program: &Path, text: &mut String) -> Result<f64, String> {
    let folder = machine::fresh("serve-1")?;
    let port = machine::free_port()?;
    let arguments = machine::node_arguments(&folder, port, "", &["--smp", "1", "--memory", "2G"])?;
    let mut node = Running::start(Some("0"), binary, &arguments, port, &folder.join("node.log"))?;
    node.wait_until_listening(Duration::from_secs(30))?;
    let mut first = Connection::open(node.address)?;
    let (select, insert) = tables(&mut first)?;
    let reads: Vec<Vec<u8>> = (0..KEYS).map(|key| read_frame(&select, key)).collect();
    let inserts: Vec<Vec<u8>> = (0..KEYS).map(|key| insert_frame(&insert, key)).collect();
    fill(node.address, &inserts)?;
    let answer_bytes = 9 + first.ask(&reads[0])?.len();
    let kinds = [
        Kind { name: "read", frames: reads, echo: echo(program, answer_bytes)? },
        Kind { name: "insert", frames: inserts, echo: echo(program, 13)? },
    ];
    writeln!(
        text,
        "| request | load | rate/s | p50 µs | p99 µs | CPU µs | echo CPU µs | above echo | × echo |"
    )
    .ok();
    writeln!(text, "|---|---|---:|---:|---:|---:|---:|---:|---:|").ok();
    let mut best = 0.0f64;
    for kind in &kinds {
        for &depth in DEPTHS {
            let (node, echo) = compare(options, kind, &node, depth, None)?;
            line(text, kind.name, &format!("{CONNECTIONS} × {depth}"), node, echo);
            if kind.name == "read" {
                best = best.max(node.rate());
            }
        }
        let (node, echo) = compare(options, kind, &node, 1, Some(OPEN_RATE))?;
        line(text, kind.name, "open loop 20,000/s", node, echo);
    }
    node.stop()?;
    Ok(best)
}

fn line(text: &mut String, name: &str, load: &str, node: Measured, echo: Measured) {
    writeln!(
        text,
        "| {name} | {load} | {:.0} | {:.0} | {:.0} | {:.2} | {:.2} | {:+.2} | {:.2} |",
        node.rate(),
        node.p50_us,
        node.p99_us,
        node.cpu_us,
        echo.cpu_us,
        node.cpu_us - echo.cpu_us,
        node.cpu_us / echo.cpu_us.max(0.001),
    )
    .ok();
}

/// Measures echo and node in turn, some rounds, and takes the median of each by processor time.
fn compare(
    options: &Options,
    kind: &Kind,
    node: &Running,
    depth: usize,
    rate: Option<f64>,
) -> Result<(Measured, Measured), String> {
    let mut of_node = Vec::new();
    let mut of_echo = Vec::new();
    // In an open loop nearly every request wakes a sleeping server, which costs more than the request and varies more.
    let rounds = if rate.is_some() { OPEN_LOOP_ROUNDS * options.rounds } else { options.rounds };
    for _ in 0..rounds {
        of_echo.push(measure(options, kind.echo.address, kind.echo.child.id(), &kind.frames, depth, rate)?);
        of_node.push(measure(options, node.address, node.child.id(), &kind.frames, depth, rate)?);
    }
    Ok((median(of_node), median(of_echo)))
}

fn median(all: Vec<Measured>) -> Measured {
    machine::median(all, |measured| measured.cpu_us)
}

fn measure(
    options: &Options,
    address: SocketAddr,
    process: u32,
    frames: &[Vec<u8>],
    depth: usize,
    rate: Option<f64>,
) -> Result<Measured, String> {
    let mut connections = open(address, CONNECTIONS)?;
    let share = frames.len() / connections.len();
    let plan = Plan {
        frames: (0..connections.len())
            .map(|index| frames[index * share..(index + 1) * share].to_vec())
            .collect(),
        depth,
        rate,
        warm: options.measure / 5,
        measure: options.measure,
        count: None,
    };
    let measured = loader::drive(&mut connections, &plan, process)?;
    if measured.errors > 0 || measured.requests == 0 {
        return Err(format!("{} of {} requests failed", measured.errors, measured.requests));
    }
    Ok(measured)
}

fn open(address: SocketAddr, count: usize) -> Result<Vec<Connection>, String> {
    (0..count).map(|_| Connection::open(address)).collect()
}

fn echo(program: &Path, answer_bytes: usize) -> Result<Running, String> {
    let port = machine::free_port()?;
    let words = format!("--port {port} --shards 1 --answer-bytes {answer_bytes} --pin");
    let arguments: Vec<String> = words.split(' ').map(str::to_owned).collect();
    let log = house::target().join("bench").join(format!("echo-{answer_bytes}.log"));
    let mut server = Running::start(Some("0"), program, &arguments, port, &log)?;
    server.wait_until_listening(Duration::from_secs(10))?;
    Ok(server)
}

/// Creates the table and prepares both statements.
fn tables(connection: &mut Connection) -> Result<(Vec<u8>, Vec<u8>), String> {
    for text in [
        "CREATE KEYSPACE IF NOT EXISTS bench WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE IF NOT EXISTS bench.kv (k bigint PRIMARY KEY, v blob)",
    ] {
        connection.ask(&loader::query(text))?;
    }
    let select = loader::statement_id(&connection.ask(&loader::prepare(SELECT))?)?;
    let insert = loader::statement_id(&connection.ask(&loader::prepare(INSERT))?)?;
    Ok((select, insert))
}

fn read_frame(id: &[u8], key: u64) -> Vec<u8> {
    loader::execute(id, &[&key.to_be_bytes()])
}

fn insert_frame(id: &[u8], key: u64) -> Vec<u8> {
    loader::execute(id, &[&key.to_be_bytes(), &[key as u8; VALUE_BYTES]])
}

/// Writes every key once.
fn fill(address: SocketAddr, frames: &[Vec<u8>]) -> Result<(), String> {
    let mut connections = open(address, 1)?;
    let plan = Plan {
        frames: vec![frames.to_vec()],
        depth: 64,
        rate: None,
        warm: Duration::ZERO,
        measure: Duration::ZERO,
        count: Some(frames.len() as u64),
    };
    let measured = loader::drive(&mut connections, &plan, 0)?;
    if measured.errors == 0 { Ok(()) } else { Err(format!("{} inserts failed", measured.errors)) }
}

/// Instructions and allocations per request.
fn in_process(binary: &Path, text: &mut String) -> Result<(), String> {
    let found = std::process::Command::new("valgrind").arg("--version").output();
    if !found.is_ok_and(|output| output.status.success()) {
        writeln!(text, "\nvalgrind is not installed: no instruction and allocation counts.").ok();
        return Ok(());
    }
    writeln!(text, "\n| request | user instructions | bar | heap allocations | bar |").ok();
    writeln!(text, "|---|---:|---|---:|---|").ok();
    let reads = |connection: &mut Connection| {
        let (select, insert) = tables(connection)?;
        for key in 0..100 {
            connection.ask(&insert_frame(&insert, key))?;
        }
        Ok((0..100).map(|key| read_frame(&select, key)).collect())
    };
    let inserts = |connection: &mut Connection| {
        let (_, insert) = tables(connection)?;
        // Keys that the warm-up has written: the flush at the stop costs the same however many requests there were.
        Ok((0..500).map(|key| insert_frame(&insert, key)).collect())
    };
    let kinds: [(&str, Access, callgrind::Setup<'_>, f64); 4] = [
        ("read", Access::Open, &reads, READ_INSTRUCTIONS_BAR),
        ("insert", Access::Open, &inserts, INSERT_INSTRUCTIONS_BAR),
        ("read, permission", Access::Granted, &reads, READ_WITH_PERMISSION_BAR),
        ("insert, permission", Access::Granted, &inserts, INSERT_WITH_PERMISSION_BAR),
    ];
    for (name, access, setup, bar) in kinds {
        let counted = callgrind::per_request(binary, &name.replace(", ", "-"), access, setup)?;
        count_line(text, name, counted, bar);
    }
    Ok(())
}

/// Counts beside the most that they should be.
fn count_line(text: &mut String, name: &str, (instructions, allocations): (f64, f64), instructions_bar: f64) {
    let judge =
        |count: f64, bar: f64| format!("{}: {bar}", if count <= bar { "met" } else { machine::NOT_MET });
    writeln!(
        text,
        "| {name} | {instructions:.0} | {} | {allocations:.1} | {} |",
        judge(instructions, instructions_bar),
        judge(allocations, ALLOCATIONS_BAR),
    )
    .ok();
}

/// Two shards: a client that knows them, and one that always asks the wrong one.
fn two_shards(options: &Options, binary: &Path, one_shard: f64, text: &mut String) -> Result<(), String> {
    let folder = machine::fresh("serve-2")?;
    let port = machine::free_port()?;
    let arguments = machine::node_arguments(&folder, port, "", &["--smp", "2", "--memory", "2G"])?;
    let mut node = Running::start(Some("0,1"), binary, &arguments, port, &folder.join("node.log"))?;
    node.wait_until_listening(Duration::from_secs(30))?;
    let mut first = Connection::open(node.address)?;
    let (select, insert) = tables(&mut first)?;
    let inserts: Vec<Vec<u8>> = (0..KEYS).map(|key| insert_frame(&insert, key)).collect();
    fill(node.address, &inserts)?;
    writeln!(text, "\nTwo shards on processors 0 and 1, which the loader shares with them.\n").ok();
    writeln!(
        text,
        "| reads | load | rate/s | p50 µs | p99 µs | CPU µs over both shards |\n|---|---|---:|---:|---:|---:|"
    )
    .ok();
    let mut costs = Vec::new();
    for (name, on_owner) in [("on the owning shard", true), ("on the other shard", false)] {
        for (load, depth, rate) in [("64 × 16", 16, None), ("open loop 20,000/s", 1, Some(OPEN_RATE))] {
            let mut rounds = Vec::new();
            for _ in 0..options.rounds {
                rounds.push(sharded(options, &node, &select, depth, rate, on_owner)?);
            }
            let measured = median(rounds);
            writeln!(
                text,
                "| {name} | {load} | {:.0} | {:.0} | {:.0} | {:.2} |",
                measured.rate(),
                measured.p50_us,
                measured.p99_us,
                measured.cpu_us
            )
            .ok();
            costs.push(measured);
        }
    }
    writeln!(
        text,
        "\nA forwarded request costs {:+.2} µs at 64 × 16 and {:+.2} µs in the open loop.",
        costs[2].cpu_us - costs[0].cpu_us,
        costs[3].cpu_us - costs[1].cpu_us,
    )
    .ok();
    if one_shard > 0.0 {
        let ratio = costs[0].rate() / one_shard;
        writeln!(text, "Two shards ÷ one shard: {ratio:.2}, with the loader on the same two processors.")
            .ok();
    }
    node.stop()
}

/// Reads of two shards, each connection asking only for keys of its own shard, or only for the other's.
fn sharded(
    options: &Options,
    node: &Running,
    select: &[u8],
    depth: usize,
    rate: Option<f64>,
    on_owner: bool,
) -> Result<Measured, String> {
    let mut connections = open(node.address, CONNECTIONS)?;
    let mut frames = Vec::new();
    for connection in &connections {
        let shard = connection.shard.ok_or("the node does not say which shard serves a connection")?;
        let wanted = if on_owner { shard } else { 1 - shard.min(1) };
        let keys = (0..KEYS).filter(|key| owner(*key, 2) == wanted);
        frames.push(keys.map(|key| read_frame(select, key)).collect());
    }
    let plan = Plan { frames, depth, rate, warm: options.measure / 5, measure: options.measure, count: None };
    let measured = loader::drive(&mut connections, &plan, node.child.id())?;
    if measured.errors == 0 { Ok(measured) } else { Err(format!("{} reads failed", measured.errors)) }
}

/// The shard that owns a key: the published formula with no ignored bits.
fn owner(key: u64, shards: u128) -> u16 {
    let Token(token) = Token::of_key(&key.to_be_bytes());
    let biased = (token as u64).wrapping_add(1 << 63);
    ((u128::from(biased) * shards) >> 64) as u16
}
