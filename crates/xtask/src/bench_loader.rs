//! `cargo x bench loader`: what an operation costs the load tools, beside the Java tools they stand for.
//!
//! Every tool has processor 1 and speaks to a server on processor 0 that knows its answers by heart (`canned`, an example of
//! the crate `client`), so that a tool is measured and not a database: its processor time in two runs of different length, the
//! difference divided by the operations more. Starting, connecting and most of what a Java machine compiles is in both and
//! falls out. Rounds in turn, medians. `--rounds N`, `--smoke`.
//!
//! Then a rate that is fixed: how far the rate that came is from the one that was asked for.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::bench_node::{BenchNode, LOADER, SERVER, children_cpu};
use crate::machine::{self, Running};
use crate::{Outcome, house};

/// Connections of each of our tools and of the Java driver, and requests in flight on each.
const CONNECTIONS: u32 = 64;
const IN_FLIGHT: u32 = CONNECTIONS * 64;
/// Threads of the Java tools, each of which waits for its answer: more of them cost them more.
const JAVA_THREADS: u32 = 128;
/// Rows that reads find.
const ROWS: u64 = 1_000;
/// Microseconds of processor time of an operation of ours, and how many times that of ours a Java tool's is.
const COST_BAR: f64 = 3.0;
const RATIO_BAR: f64 = 10.0;
/// The fixed rate, and by how much of it the rate that came may differ.
const RATE: u32 = 20_000;
const RATE_BAR: f64 = 0.01;
/// What YCSB's core workload expects.
const USERTABLE: &str = "CREATE TABLE IF NOT EXISTS ycsb.usertable (y_id varchar PRIMARY KEY, field0 varchar, \
     field1 varchar, field2 varchar, field3 varchar, field4 varchar, field5 varchar, field6 varchar, field7 varchar, \
     field8 varchar, field9 varchar)";

/// A tool and what it does.
struct Tool {
    name: &'static str,
    /// Which of ours is held against it; none of ours.
    beside: Option<usize>,
    operations: (u64, u64),
    /// Its command line for so many operations.
    command: fn(&Stage, u64) -> Command,
}

/// Our cheapest way to insert, and our two tools, by their place in the list.
const LOAD: usize = 0;
const STRESS_WRITE: usize = 1;
const YCSB_A: usize = 3;

/// Where tools and servers are.
struct Stage {
    binary: PathBuf,
    /// Of the server with the answers, and of the node behind it.
    canned: String,
    node: String,
    /// Class paths of the Java driver's program, of YCSB and of cassandra-stress.
    driver: String,
    ycsb: String,
    stress: String,
    /// Tells the Java tools to log nothing but warnings, as their own scripts do.
    quiet: PathBuf,
}

/// Runs the bench and writes its result.
pub fn loader(rest: &[String]) -> Outcome {
    let smoke = rest.iter().any(|word| word == "--smoke");
    let rounds = house::number(rest, "--rounds", if smoke { 1 } else { 3 })?.max(1);
    let binary = house::binary(rest, "release")?;
    house::run(house::cargo().args(["build", "--release", "--package", "client", "--example", "canned"]))?;
    house::run(house::cargo().args(["build", "--quiet", "--package", "compat"]))?;
    let node = BenchNode::start(&binary, "loader", "1G", "")?;
    let canned = canned(&node)?;
    let quiet = node.folder.join("logback.xml");
    let told = |error: std::io::Error| format!("{}: {error}", quiet.display());
    std::fs::write(&quiet, "<configuration><root level=\"WARN\"/></configuration>").map_err(told)?;
    let stage = Stage {
        binary,
        canned: canned.address.to_string(),
        node: node.address(),
        driver: class_path("java4")?,
        ycsb: class_path("ycsb")?,
        stress: class_path("stress")?,
        quiet,
    };
    stage.fill(&node)?;
    let tools = tools(smoke);
    let mut costs = vec![Vec::new(); tools.len()];
    for _ in 0..rounds {
        for (tool, costs) in tools.iter().zip(&mut costs) {
            let cost = tool.cost(&stage)?;
            println!("{}: {cost:.2} µs", tool.name);
            costs.push(cost);
        }
    }
    let costs: Vec<f64> = costs.into_iter().map(|all| machine::median(all, |cost| *cost)).collect();
    let mut text = format!(
        "# bench loader\n\n{}\ncommit {}; tools on processor {LOADER}, a server with canned answers on processor {SERVER}; \
         ours and the Java driver with {CONNECTIONS} connections and {IN_FLIGHT} requests in flight, the Java tools with \
         {JAVA_THREADS} threads; median of {rounds} rounds in turn.\n\n\
         | tool | CPU µs per operation | × ours | bar |\n|---|---:|---:|---|\n",
        machine::shape(),
        machine::commit(),
    );
    for (tool, cost) in tools.iter().zip(&costs) {
        let (ratio, met, bar) = match tool.beside {
            None => (String::new(), *cost <= COST_BAR, format!("≤ {COST_BAR} µs")),
            Some(ours) => {
                let ratio = cost / costs[ours].max(0.001);
                (format!("{ratio:.1}"), RATIO_BAR <= ratio, format!("≥ {RATIO_BAR} ×"))
            }
        };
        let met = if met { "met" } else { "NOT MET" };
        writeln!(text, "| {} | {cost:.2} | {ratio} | {met}: {bar} |", tool.name).ok();
    }
    let came = stage.fixed_rate(if smoke { 2 } else { 10 })?;
    let off = (came - f64::from(RATE)).abs() / f64::from(RATE);
    let met = if off <= RATE_BAR { "met" } else { "NOT MET" };
    writeln!(text, "\n`fixed={RATE}/s`: {came:.0}/s came: {met}: within {:.0} %.", RATE_BAR * 100.0).ok();
    drop(canned);
    if smoke {
        // Runs this short measure how programs start.
        return Ok("bench result: ok. loader works".into());
    }
    println!("{text}");
    machine::record("loader", &text)
}

/// Starts the server with the answers before a node.
fn canned(node: &BenchNode) -> Result<Running, String> {
    let port = machine::free_port()?;
    let before = node.address().rsplit(':').next().unwrap_or_default().to_owned();
    let arguments = ["--port".to_owned(), port.to_string(), "--before".to_owned(), before];
    let program = house::target().join("release/examples/canned");
    let log = node.folder.join("canned.log");
    let mut server = Running::start(Some(SERVER), &program, &arguments, port, &log)?;
    server.wait_until_listening(Duration::from_secs(10))?;
    Ok(server)
}

/// Where the classes of a Java program are; what is missing is brought.
fn class_path(name: &str) -> Result<String, String> {
    let mut compat = house::command(house::target().join("debug/compat"));
    // It looks for its own files there; what Cargo told this program names another folder.
    compat.args(["class-path", name]).env("CARGO_MANIFEST_DIR", house::root().join("crates/compat"));
    let said = house::output(&mut compat)?;
    let path = said.lines().find_map(|line| line.strip_prefix("class-path "));
    path.map(str::to_owned).ok_or(format!("compat says no class path of {name}"))
}

fn on_loader(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = house::command("taskset");
    command.args(["-c", LOADER]).arg(program);
    command
}

/// `quiet`: the configuration of their logs.
fn java(class_path: &str, class: &str, quiet: &Path) -> Command {
    let mut java = on_loader("java");
    java.arg(format!("-Dlogback.configurationFile={}", quiet.display()));
    for package in ["java.io", "java.lang", "sun.nio.ch", "jdk.internal.ref"] {
        java.args(["--add-opens", &format!("java.base/{package}=ALL-UNNAMED")]);
    }
    java.args(["-Xms1G", "-Xmx1G", "-cp", class_path, class]);
    java
}

fn tools(smoke: bool) -> Vec<Tool> {
    let ours = if smoke { (10_000, 20_000) } else { (1_000_000, 4_000_000) };
    let javas = if smoke { (10_000, 20_000) } else { (500_000, 1_500_000) };
    let tool = |name, beside: Option<usize>, command| {
        let operations = if beside.is_some() { javas } else { ours };
        Tool { name, beside, operations, command }
    };
    vec![
        tool("messina load, inserts", None, Stage::load),
        tool("messina cassandra-stress write", None, |stage, operations| {
            stage.stress(&stage.canned, &format!("write n={operations} no-warmup"), &all_threads())
        }),
        tool("messina cassandra-stress read", None, |stage, operations| {
            let words = format!(
                "read n={operations} no-warmup -errors skip-read-validation -pop dist=uniform(1..{ROWS})"
            );
            stage.stress(&stage.canned, &words, &all_threads())
        }),
        tool("messina ycsb, workload a", None, |stage, operations| {
            stage.ycsb(&stage.canned, "run", operations, IN_FLIGHT)
        }),
        tool("Java driver 4.19, inserts", Some(LOAD), Stage::java_driver),
        tool("cassandra-stress 3.11 write", Some(STRESS_WRITE), Stage::java_stress),
        tool("YCSB 0.17.0, workload a", Some(YCSB_A), Stage::java_ycsb),
    ]
}

fn all_threads() -> String {
    format!("threads={IN_FLIGHT}")
}

impl Tool {
    /// Microseconds of processor time of one operation.
    fn cost(&self, stage: &Stage) -> Result<f64, String> {
        let (few, many) = self.operations;
        let (little, much) = (self.cpu(stage, few)?, self.cpu(stage, many)?);
        Ok(much.saturating_sub(little).as_secs_f64() * 1e6 / (many - few) as f64)
    }

    /// Processor time of a run.
    fn cpu(&self, stage: &Stage, operations: u64) -> Result<Duration, String> {
        let before = children_cpu()?;
        let said = house::output(&mut (self.command)(stage, operations))?;
        match said.lines().find(|line| tells_of_errors(line)) {
            None => Ok(children_cpu()? - before),
            Some(line) => Err(format!("{}: {line}", self.name)),
        }
    }
}

/// Whether a tool says here that operations failed.
fn tells_of_errors(line: &str) -> bool {
    let stress = line.strip_prefix("Total errors").and_then(|rest| rest.split(':').nth(1));
    stress.is_some_and(|rest| rest.split_whitespace().next() != Some("0"))
        || ["Return=ERROR", "Return=NOT_FOUND"].iter().any(|ycsb| line.contains(ycsb))
}

impl Stage {
    /// Makes the tables that the tools do not make, and the rows that reads find.
    fn fill(&self, node: &BenchNode) -> Result<(), String> {
        let keyspace = "CREATE KEYSPACE IF NOT EXISTS ycsb WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";
        node.query(keyspace)?;
        node.query(USERTABLE)?;
        let load = ["load", "--no-fill", "--workload", "insert", "--draw", "sequence", "--keys", "1"];
        house::output(on_loader(&self.binary).args(load).args(["--warm-up", "0", "--target", &self.node]))?;
        house::output(&mut self.stress(&self.node, &format!("write n={ROWS} no-warmup"), "threads=64"))?;
        house::output(&mut self.ycsb(&self.node, "load", ROWS, 64)).map(drop)
    }

    fn load(&self, operations: u64) -> Command {
        let mut load = on_loader(&self.binary);
        load.args(["load", "--keep-data", "--workload", "insert", "--draw", "sequence"]);
        load.args(["--warm-up", "0", "--seconds", "3600", "--keys", &operations.to_string()]);
        load.args(["--connections", &CONNECTIONS.to_string()]);
        load.args(["--depth", &(IN_FLIGHT / CONNECTIONS).to_string(), "--target", &self.canned]);
        load
    }

    fn stress(&self, address: &str, words: &str, rate: &str) -> Command {
        let mut stress = on_loader(&self.binary);
        stress.arg("cassandra-stress").args(words.split(' ')).arg("-rate").args(rate.split(' '));
        stress.args(["-mode", "native", "cql3", "protocolVersion=4"]);
        stress.args([&format!("connectionsPerHost={CONNECTIONS}"), "-schema", "replication(factor=1)"]);
        stress.args(node_words(address));
        stress
    }

    fn ycsb(&self, address: &str, phase: &str, operations: u64, threads: u32) -> Command {
        let mut ycsb = on_loader(&self.binary);
        ycsb.args(["ycsb", phase, "cassandra-cql", "-threads", &threads.to_string()]);
        for name in ["cassandra.coreconnections", "cassandra.maxconnections"] {
            ycsb.args(["-p", &format!("{name}={CONNECTIONS}")]);
        }
        ycsb.args(ycsb_properties(address, operations));
        ycsb
    }

    fn java_driver(&self, operations: u64) -> Command {
        let mut driver = java(&self.driver, "messina.Load", &self.quiet);
        driver.args(self.canned.split(':'));
        driver.args([CONNECTIONS.to_string(), IN_FLIGHT.to_string(), operations.to_string()]);
        driver
    }

    fn java_stress(&self, operations: u64) -> Command {
        let mut stress = java(&self.stress, "org.apache.cassandra.stress.Stress", &self.quiet);
        // Its `write` makes tables that no server knows since 4.0, even where they are there.
        stress.args(["mixed", "ratio(write=1)", &format!("n={operations}"), "no-warmup", "cl=ONE"]);
        stress.args(["-pop", &format!("seq=1..{operations}")]);
        stress.args(["-rate", &format!("threads={JAVA_THREADS}"), "-mode", "native", "cql3"]);
        stress.args(["protocolVersion=4", "-schema", "replication(factor=1)"]);
        stress.args(node_words(&self.canned));
        stress
    }

    fn java_ycsb(&self, operations: u64) -> Command {
        let mut ycsb = java(&self.ycsb, "site.ycsb.Client", &self.quiet);
        ycsb.args(["-t", "-db", "messina.CqlBinding", "-threads", &JAVA_THREADS.to_string()]);
        ycsb.args(ycsb_properties(&self.canned, operations));
        ycsb
    }

    /// Writes at a fixed rate; the rate that came.
    fn fixed_rate(&self, seconds: u32) -> Result<f64, String> {
        let words = format!("write duration={seconds}s no-warmup");
        let rate = format!("threads=256 fixed={RATE}/s");
        let said = house::output(&mut self.stress(&self.canned, &words, &rate))?;
        let line = said.lines().find(|line| line.starts_with("Op rate"));
        let number = line.and_then(|line| {
            line.split(':').nth(1)?.trim().split(' ').next().map(|word| word.replace(',', ""))
        });
        number.and_then(|word| word.parse().ok()).ok_or(format!("no rate is told:\n{said}"))
    }
}

/// A node as both tools are told it.
fn node_words(address: &str) -> Vec<String> {
    let (ip, port) = address.split_once(':').unwrap_or((address, "9042"));
    vec!["-node".to_owned(), ip.to_owned(), "-port".to_owned(), format!("native={port}")]
}

/// Workload A, as both tools are told it.
fn ycsb_properties(address: &str, operations: u64) -> Vec<String> {
    let (ip, port) = address.split_once(':').unwrap_or((address, "9042"));
    let properties = [
        "workload=site.ycsb.workloads.CoreWorkload".to_owned(),
        "readproportion=0.5".to_owned(),
        "updateproportion=0.5".to_owned(),
        "requestdistribution=zipfian".to_owned(),
        format!("recordcount={ROWS}"),
        format!("operationcount={operations}"),
        format!("hosts={ip}"),
        format!("port={port}"),
    ];
    properties.into_iter().flat_map(|property| ["-p".to_owned(), property]).collect()
}
