//! `cargo x bench rpc`: what a call from one node to another costs, beside the same bytes over bare TCP in the same run.
//!
//! Two processes of one shard: the called one on processor 0, the caller on processor 1; one connection. Bare TCP and calls are measured
//! alternately, because the ratio survives a noisy machine and the absolute numbers do not. The bar is for a remote write: the echo of
//! `bench serve` and 2 µs, for both sides together at depth 16; what an echoed call costs is the part of it that is spent here.
//! `--smoke` only checks that the bench works; `--seconds N` per measurement (default 2).

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use crate::callgrind;
use crate::loader::{self, Connection, Plan};
use crate::machine::{self, Running};
use crate::{Outcome, house};

const DEPTHS: &[usize] = &[1, 16, 256];
/// Bytes of a request's body: about what a mutation of one row has.
const BODY_BYTES: usize = 120;
/// How the caller calls, and what that is.
const WAYS: &[(&str, &str)] = &[
    ("tcp", "bare TCP"),
    ("task", "a task waits, answered in the same step"),
    ("gather", "an object takes the answers, answered in the same step"),
    ("future", "a task waits, answered by a future"),
];
/// Connections and answer of the echo of `bench serve`.
const ECHO_CONNECTIONS: usize = 64;
const ECHO_ANSWER_BYTES: usize = 13;
/// What a remote write may cost above that echo, in microseconds.
const WRITE_ABOVE_ECHO_US: f64 = 2.0;

/// What runs.
struct Programs {
    node_calls: PathBuf,
    echo: PathBuf,
}

/// One measurement, per call.
#[derive(Clone, Copy)]
struct Measured {
    rate: f64,
    caller_us: f64,
    server_us: f64,
}

impl Measured {
    fn both_us(&self) -> f64 {
        self.caller_us + self.server_us
    }
}

/// Runs the bench and writes its result.
pub fn rpc(rest: &[String]) -> Outcome {
    let smoke = rest.iter().any(|word| word == "--smoke");
    let seconds = match house::option(rest, "--seconds") {
        Some(text) => text.parse().map_err(|_| "--seconds wants a number")?,
        None if smoke => 0.2,
        None => 2.0,
    };
    let programs = Programs {
        node_calls: house::example(rest, "rpc", "node_calls")?,
        echo: house::example(rest, "runtime", "echo")?,
    };
    machine::pin_self(1);
    let rounds = if smoke { 1 } else { 5 };
    let mut text = format!(
        "# bench rpc\n\n{}\ncommit {}; called node on processor 0, caller on processor 1, one shard each, one connection; \
         {BODY_BYTES}-byte bodies.\nEach line is the median of {rounds} rounds of {seconds} s.\n\n",
        machine::shape(),
        machine::commit(),
    );
    closed_loops(&programs, &mut text, rounds, seconds)?;
    bar(&programs, &mut text, seconds)?;
    if !smoke {
        counts(&programs, &mut text)?;
    }
    println!("{text}");
    if smoke { Ok("bench result: ok. rpc works".into()) } else { machine::record("rpc", &text) }
}

fn closed_loops(programs: &Programs, text: &mut String, rounds: usize, seconds: f64) -> Result<(), String> {
    writeln!(text, "| depth | way | calls/s | caller CPU µs | called CPU µs | both | above TCP |").ok();
    writeln!(text, "|---:|---|---:|---:|---:|---:|---:|").ok();
    for &depth in DEPTHS {
        let mut measured = vec![Vec::new(); WAYS.len()];
        for _ in 0..rounds {
            for (of_way, (way, _)) in measured.iter_mut().zip(WAYS) {
                of_way.push(measure(programs, way, depth, seconds)?);
            }
        }
        let medians: Vec<Measured> =
            measured.into_iter().map(|runs| machine::median(runs, Measured::both_us)).collect();
        for (one, (_, name)) in medians.iter().zip(WAYS) {
            let above = one.both_us() - medians[0].both_us();
            writeln!(
                text,
                "| {depth} | {name} | {:.0} | {:.2} | {:.2} | {:.2} | {above:+.2} |",
                one.rate,
                one.caller_us,
                one.server_us,
                one.both_us(),
            )
            .ok();
        }
    }
    Ok(())
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

/// Starts who is called: a node, or the bare server that only echoes.
fn called(programs: &Programs, way: &str, port: u16) -> Result<Running, String> {
    let log = house::target().join("bench").join(format!("rpc-{way}.log"));
    std::fs::create_dir_all(log.parent().unwrap_or(&log)).map_err(|error| error.to_string())?;
    let mut server = match way {
        // An answer of the size that a response has.
        "tcp" => {
            let arguments = words(&format!("--port {port} --shards 1 --answer-bytes 36 --pin"));
            Running::start(Some("0"), &programs.echo, &arguments, port, &log)?
        }
        _ => {
            let arguments = words(&format!("serve --port {port}"));
            Running::start(Some("0"), &programs.node_calls, &arguments, port, &log)?
        }
    };
    server.wait_until_listening(Duration::from_secs(10))?;
    Ok(server)
}

fn measure(programs: &Programs, way: &str, depth: usize, seconds: f64) -> Result<Measured, String> {
    let (port, own) = (machine::free_port()?, machine::free_port()?);
    let mut server = called(programs, way, port)?;
    let arguments = format!(
        "-c 1 {} call --peer {port} --port {own} --way {way} --depth {depth} --body {BODY_BYTES} --seconds {seconds} --server {}",
        programs.node_calls.display(),
        server.child.id(),
    );
    let line = house::output(house::command("taskset").args(words(&arguments)))?;
    server.stop()?;
    let numbers: Vec<f64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    match numbers[..] {
        [calls, wall_ns, caller_ns, server_ns] if 0.0 < calls => Ok(Measured {
            rate: calls / wall_ns * 1e9,
            caller_us: caller_ns / calls / 1000.0,
            server_us: server_ns / calls / 1000.0,
        }),
        _ => Err(format!("not four numbers: {line}")),
    }
}

/// What a remote write may cost, from the echo of `bench serve`.
fn bar(programs: &Programs, text: &mut String, seconds: f64) -> Result<(), String> {
    let port = machine::free_port()?;
    let log = house::target().join("bench/rpc-echo.log");
    let arguments = words(&format!("--port {port} --shards 1 --answer-bytes {ECHO_ANSWER_BYTES} --pin"));
    let mut server = Running::start(Some("0"), &programs.echo, &arguments, port, &log)?;
    server.wait_until_listening(Duration::from_secs(10))?;
    let mut connections =
        (0..ECHO_CONNECTIONS).map(|_| Connection::open(server.address)).collect::<Result<Vec<_>, _>>()?;
    let frame = loader::execute(&[7; 16], &[&[1; 8], &[2; 100]]);
    let plan = Plan {
        frames: vec![vec![frame]; ECHO_CONNECTIONS],
        depth: 16,
        rate: None,
        warm: Duration::from_secs_f64(seconds / 5.0),
        measure: Duration::from_secs_f64(seconds),
        count: None,
    };
    let echo = loader::drive(&mut connections, &plan, server.child.id())?;
    server.stop()?;
    writeln!(
        text,
        "\nEcho of `bench serve`, {ECHO_CONNECTIONS} × 16: {:.2} µs of the server; a remote write, applied, may cost {:.2} µs of both sides.",
        echo.cpu_us,
        echo.cpu_us + WRITE_ABOVE_ECHO_US,
    )
    .ok();
    Ok(())
}

/// Instructions and allocations of both sides, where callgrind is.
fn counts(programs: &Programs, text: &mut String) -> Result<(), String> {
    let found = std::process::Command::new("valgrind").arg("--version").output();
    if !found.is_ok_and(|output| output.status.success()) {
        writeln!(text, "\nvalgrind is not installed: no instruction and allocation counts.").ok();
        return Ok(());
    }
    writeln!(
        text,
        "\n| way, depth 16 | caller instructions | allocations | called instructions | allocations |"
    )
    .ok();
    writeln!(text, "|---|---:|---:|---:|---:|").ok();
    const CALLS: u64 = 16_000;
    for (way, name) in &WAYS[1..] {
        let (few, many) = (counted(programs, way, CALLS)?, counted(programs, way, 3 * CALLS)?);
        let per = |few: u64, many: u64| many.saturating_sub(few) as f64 / (2 * CALLS) as f64;
        let [caller, called] = [0, 1].map(|side: usize| {
            let (few, many) = (few[side], many[side]);
            (per(few.instructions, many.instructions), per(few.allocations, many.allocations))
        });
        writeln!(text, "| {name} | {:.0} | {:.2} | {:.0} | {:.2} |", caller.0, caller.1, called.0, called.1)
            .ok();
    }
    Ok(())
}

/// Counts of the caller and of who is called, from start to end.
fn counted(programs: &Programs, way: &str, calls: u64) -> Result<[callgrind::Counts; 2], String> {
    let folder = machine::fresh(&format!("callgrind-rpc-{way}"))?;
    let (port, own) = (machine::free_port()?, machine::free_port()?);
    let out = |side: &str| folder.join(format!("{side}.out"));
    let tool = |side: &str| format!("--tool=callgrind --callgrind-out-file={}", out(side).display());
    let binary = &programs.node_calls;
    // Valgrind lets no other thread run while one waits for io_uring.
    let arguments = format!("{} {} serve --port {port} --reactor epoll", tool("called"), binary.display());
    let log = folder.join("called.log");
    let valgrind = std::path::Path::new("valgrind");
    let mut server = Running::start(None, valgrind, &words(&arguments), port, &log)?;
    server.wait_until_listening(Duration::from_secs(60))?;
    let arguments = format!(
        "{} {} call --peer {port} --port {own} --way {way} --depth 16 --body {BODY_BYTES} --count {calls} --reactor epoll",
        tool("caller"),
        binary.display(),
    );
    house::output(house::command(valgrind).args(words(&arguments)))?;
    server.stop()?;
    let read = |side: &str| {
        let path = out(side);
        let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        callgrind::counts(&text)
    };
    Ok([read("caller")?, read("called")?])
}
