//! `cargo x bench transactions`: lightweight transactions, reads at SERIAL and counters of Messina and of Apache Cassandra 5.0, on one node and
//! on three, by the processor time that all processes of each take for an operation.
//!
//! Every server keeps to processor 0, the loader to processor 1. The loader is Messina's cassandra-stress: a profile of its user mode for
//! transactions, `counter_write` for counters. Plain writes and reads of the same table at QUORUM stand beside them. Each kind is measured in
//! rounds, of which the median counts; every round of LWT inserts is of new keys. Cassandra is warmed with `--warm N` operations of each kind
//! (default 100,000) before. `--rounds N`, `--operations N`, `--keys N`, `--heap 1500M`, `--without-cassandra`, `--smoke`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::bench_node::{LOADER, SERVER};
use crate::bench_servers::{Servers, THREADS};
use crate::{Outcome, dist, house, machine};

/// How much less processor time per operation than Cassandra is asked for.
const BAR: f64 = 5.0;

/// What is measured.
#[derive(Clone, Copy)]
struct Kind {
    name: &'static str,
    /// Its command of cassandra-stress; `user` stands for the profile.
    command: &'static [&'static str],
    level: &'static str,
    /// Whether each round is of keys that were not there.
    on_new_keys: bool,
    /// The kind it is compared with, by its place; that kind itself has no bar beside Cassandra.
    plain: usize,
}

/// The first two fill both tables.
const KINDS: [Kind; 6] = [
    kind("plain insert", &["user", "ops(insert=1)"], "QUORUM", INSERT),
    kind("counter increment", &["counter_write"], "QUORUM", INSERT),
    kind("plain read", &["user", "ops(look=1)"], "QUORUM", READ),
    kind("read at SERIAL", &["user", "ops(look=1)"], "SERIAL", READ),
    Kind { on_new_keys: true, ..kind("LWT insert", &["user", "ops(create=1)"], "QUORUM", INSERT) },
    kind("LWT update", &["user", "ops(change=1)"], "QUORUM", INSERT),
];
/// Places of what is not conditional.
const INSERT: usize = 0;
const READ: usize = 2;

const fn kind(
    name: &'static str,
    command: &'static [&'static str],
    level: &'static str,
    plain: usize,
) -> Kind {
    Kind { name, command, level, on_new_keys: false, plain }
}

struct Options {
    rounds: usize,
    operations: u64,
    keys: u64,
    warm: u64,
    heap: String,
}

/// Servers, and what drives them.
struct Driven<'a> {
    servers: Servers,
    binary: &'a Path,
    options: &'a Options,
    profile: PathBuf,
}

impl<'a> Driven<'a> {
    fn new(servers: Servers, binary: &'a Path, options: &'a Options) -> Result<Driven<'a>, String> {
        let profile = servers.folder.join("transactions.yaml");
        std::fs::write(&profile, profile_of(servers.replicas))
            .map_err(|error| format!("{}: {error}", profile.display()))?;
        Ok(Driven { servers, binary, options, profile })
    }

    fn run(&self, kind: Kind, operations: u64, population: &str) -> Result<(), String> {
        if kind.command[0] != "user" {
            return self.servers.stress(self.binary, kind.command[0], kind.level, operations, population);
        }
        let profile = format!("profile={}", self.profile.display());
        let words = ["user", &profile, kind.command[1]];
        self.servers.tool(self.binary, &words, kind.level, operations, population, &[])
    }

    /// The keys of a run: those of the tables, drawn, or the next ones that are not there.
    fn population(&self, kind: Kind, operations: u64, next_new: &mut u64) -> String {
        if !kind.on_new_keys {
            return format!("dist=uniform(1..{})", self.options.keys);
        }
        let first = *next_new;
        *next_new += operations;
        format!("seq={first}..{}", *next_new - 1)
    }

    /// Microseconds of all servers' processor time per operation, by kind.
    fn measure(self, warm: u64) -> Result<Vec<f64>, String> {
        let keys = self.options.keys;
        let next_new = std::cell::Cell::new(keys + 1);
        let run = |kind: Kind, operations: u64| {
            let mut next = next_new.get();
            let population = self.population(kind, operations, &mut next);
            next_new.set(next);
            self.run(kind, operations, &population)
        };
        for kind in &KINDS[..2] {
            self.run(*kind, keys, &format!("seq=1..{keys}"))?;
        }
        if warm > 0 {
            KINDS.iter().try_for_each(|kind| run(*kind, warm))?;
        }
        let mut all = Vec::new();
        for kind in KINDS {
            let operations = self.options.operations;
            let median =
                self.servers.cpu_per_operation(self.options.rounds, operations, |_| run(kind, operations))?;
            println!("{}: {}: {median:.1} µs", self.servers.name, kind.name);
            all.push(median);
        }
        self.servers.end()?;
        Ok(all)
    }
}

/// The profile of cassandra-stress.
fn profile_of(replicas: u32) -> String {
    format!(
        "keyspace: transactions
keyspace_definition: |
  CREATE KEYSPACE transactions WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': {replicas}}};
table: cas
table_definition: |
  CREATE TABLE cas (key bigint PRIMARY KEY, v blob);
columnspec:
  - name: key
    population: uniform(1..100B)
  - name: v
    size: fixed(100)
insert:
  partitions: fixed(1)
  batchtype: UNLOGGED
queries:
  create:
    cql: INSERT INTO cas (key, v) VALUES (?, ?) IF NOT EXISTS
    fields: samerow
  change:
    cql: UPDATE cas SET v = ? WHERE key = ? IF EXISTS
    fields: samerow
  look:
    cql: SELECT v FROM cas WHERE key = ?
    fields: samerow
"
    )
}

/// Runs the bench and writes its result.
pub fn transactions(rest: &[String]) -> Outcome {
    let smoke = rest.iter().any(|word| word == "--smoke");
    let binary = dist::binary(rest, smoke)?;
    let number = |name, full, small| house::number(rest, name, if smoke { small } else { full });
    let options = Options {
        rounds: (number("--rounds", 3, 1)? as usize).max(1),
        operations: number("--operations", 50_000, 500)?,
        keys: number("--keys", 100_000, 1_000)?,
        warm: number("--warm", 100_000, 1_000)?,
        heap: house::option(rest, "--heap").unwrap_or("1500M").to_owned(),
    };
    let without = smoke || rest.iter().any(|word| word == "--without-cassandra");
    let mut text = header(&options, dist::compiled_how(rest));
    let mut short = Vec::new();
    for (nodes, name) in [(1, "one of Messina"), (3, "three of Messina")] {
        let ours = Servers::messina(&binary, name, nodes)?;
        let ours = Driven::new(ours, &binary, &options)?.measure(0)?;
        let theirs = match without {
            true => None,
            false => {
                let theirs = Servers::cassandra(nodes, &options.heap)?;
                Some(Driven::new(theirs, &binary, &options)?.measure(options.warm)?)
            }
        };
        for (at, kind) in KINDS.iter().enumerate() {
            let (mut shown, mut ratio_shown) = ("–".to_owned(), "–".to_owned());
            if let Some(all) = &theirs {
                let ratio = all[at] / ours[at].max(0.001);
                (shown, ratio_shown) = (format!("{:.1}", all[at]), format!("{ratio:.1}"));
                if at != kind.plain && ratio < BAR {
                    short.push(format!("{} on {nodes}: {ratio:.1}", kind.name));
                }
            }
            let plain = ours[at] / ours[kind.plain].max(0.001);
            writeln!(
                text,
                "| {} | {nodes} | {:.1} | {plain:.1} | {shown} | {ratio_shown} |",
                kind.name, ours[at]
            )
            .ok();
        }
    }
    if !short.is_empty() {
        let bar = format!("{BAR} times less than Cassandra");
        writeln!(text, "\n{}: {bar}: {}", machine::NOT_MET, short.join(", ")).ok();
    }
    println!("{text}");
    if smoke {
        Ok("bench result: ok. transactions works".into())
    } else {
        machine::record("transactions", &text)
    }
}

fn header(options: &Options, compiled_how: &str) -> String {
    format!(
        "# bench transactions\n\n{}\ncommit {}, {compiled_how}; all servers on processor {SERVER}, loader on processor {LOADER}; cassandra-stress with \
         {THREADS} threads, {} keys, median of {} rounds of {} operations; Cassandra with heaps of {}, after {} operations of each kind. \
         Processor time of all servers per operation in µs; as many replicas as nodes; levels QUORUM and SERIAL.\n\n\
         | load | nodes | Messina | × plain | Cassandra | Cassandra × Messina |\n\
         |---|---:|---:|---:|---:|---:|\n",
        machine::shape(),
        machine::commit(),
        options.keys,
        options.rounds,
        options.operations,
        options.heap,
        options.warm,
    )
}
