//! `cargo x bench cluster`: three nodes of Messina beside one alone and beside three of Apache Cassandra 5.0, by the processor time that all
//! processes of each take for an operation.
//!
//! Every server keeps to processor 0, the loader to processor 1. The loader is Messina's cassandra-stress with its stock table: it knows
//! tokens, so that a request goes to a node that holds its row. Three replicas, but for the node alone. Each kind is measured in rounds, of which
//! the median counts. Cassandra is warmed with `--warm N` operations of each kind (default 400,000) before. `--rounds N`, `--operations N`,
//! `--keys N`, `--heap 1500M`, `--without-cassandra`, `--smoke`.

use std::fmt::Write as _;
use std::path::Path;

use crate::bench_node::{LOADER, SERVER};
use crate::bench_servers::{Servers, THREADS};
use crate::{Outcome, dist, house, machine};

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
        false => Some(measure(Servers::cassandra(3, &options.heap)?, &binary, &options, options.warm)?),
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
        let run = |_| servers.stress(binary, kind, level, options.operations, &population);
        let median = servers.cpu_per_operation(options.rounds, options.operations, run)?;
        println!("{}: {kind} at {level}: {median:.1} µs", servers.name);
        all.push(median);
    }
    servers.end()?;
    Ok(all)
}
