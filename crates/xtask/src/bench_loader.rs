//! `cargo x bench loader`: what an operation costs the load tools, beside the Java tools they stand for.
//!
//! Every tool has processor 1 and speaks to a server on processor 0 that knows its answers by heart (`canned`, an example of
//! the crate `client`), so that a tool is measured and not a database: its processor time in two runs of different length, the
//! difference divided by the operations more. Starting, connecting and most of what a Java machine compiles is in both and
//! falls out. Rounds in turn, medians. `--rounds N`, `--smoke`.
//!
//! Then a rate that is fixed: how far the rate that came is from the one that was asked for.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::bench_node::{BenchNode, LOADER, SERVER, children_cpu, process_cpu};
use crate::machine::{self, Running};
use crate::{Outcome, dist, house};

/// Connections of each of our tools and of the Java driver, and requests in flight on all of them.
const CONNECTIONS: u32 = 64;
const IN_FLIGHT: u32 = CONNECTIONS * 64;
/// Threads of the Java tools, each of which waits for its answer, and requests in flight of ours beside them; the connections that each
/// of the Java tools makes unless it is told.
const THREADS: u32 = 128;
const STRESS_CONNECTIONS: u32 = 8;
const YCSB_CONNECTIONS: u32 = 1;
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
    /// Connections, and requests in flight on all of them.
    connections: u32,
    in_flight: u32,
    must: Must,
    operations: (u64, u64),
    /// Its command line for so many operations.
    command: fn(&Stage, &Tool, u64) -> Command,
}

/// What is asked of a tool.
#[derive(Clone, Copy)]
enum Must {
    /// To cost so little.
    BeCheap,
    /// Nothing: another is held against it.
    StandBeside,
    /// To cost so much more than the tool at this place of the list, which has the same connections and requests in flight.
    CostMoreThan(usize),
}

/// What an operation of a tool took.
#[derive(Clone, Copy, Default)]
struct Cost {
    cpu_us: f64,
    /// How busy the server was, percent: where it is full, requests wait for it, and are sent and answered many at a time.
    server: f64,
}

/// Where tools and servers are.
struct Stage {
    binary: PathBuf,
    /// Of the server with the answers, and of the node behind it.
    canned: SocketAddr,
    node: SocketAddr,
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
    let binary = dist::binary(rest, smoke)?;
    let canned_program = house::example(rest, "client", "canned")?;
    let node = BenchNode::start(&binary, "loader", "1G", "")?;
    let node_address = node.address().parse().map_err(|_| format!("no address: {}", node.address()))?;
    let canned = canned(&canned_program, node_address, &node.folder)?;
    let quiet = node.folder.join("logback.xml");
    let told = |error: std::io::Error| format!("{}: {error}", quiet.display());
    std::fs::write(&quiet, "<configuration><root level=\"WARN\"/></configuration>").map_err(told)?;
    let stage = Stage {
        binary,
        canned: canned.address,
        node: node_address,
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
            let cost = tool.cost(&stage, canned.child.id())?;
            println!("{}: {:.2} µs", tool.name, cost.cpu_us);
            costs.push(cost);
        }
    }
    let costs: Vec<Cost> = costs.into_iter().map(|all| machine::median(all, |cost| cost.cpu_us)).collect();
    let mut text = format!(
        "# bench loader\n\n{}\ncommit {}, ours as `cargo x dist` compiles them; tools on processor {LOADER}, a server with canned answers on processor {SERVER}; \
         median of {rounds} rounds in turn. Reads of ours compare nothing, as those of the Java tools.\n\n\
         | tool | connections | in flight | CPU µs per operation | server busy % | × ours | bar |\n|---|---:|---:|---:|---:|---:|---|\n",
        machine::shape(),
        machine::commit(),
    );
    for (tool, Cost { cpu_us, server }) in tools.iter().zip(&costs) {
        let judged =
            |met: bool, bar: String| format!("{}: {bar}", if met { "met" } else { machine::NOT_MET });
        let (ratio, bar) = match tool.must {
            Must::BeCheap => (String::new(), judged(*cpu_us <= COST_BAR, format!("≤ {COST_BAR} µs"))),
            Must::StandBeside => (String::new(), String::new()),
            Must::CostMoreThan(ours) => {
                let ratio = cpu_us / costs[ours].cpu_us.max(0.001);
                (format!("{ratio:.1}"), judged(RATIO_BAR <= ratio, format!("≥ {RATIO_BAR} ×")))
            }
        };
        let Tool { name, connections, in_flight, .. } = tool;
        writeln!(
            text,
            "| {name} | {connections} | {in_flight} | {cpu_us:.2} | {server:.0} | {ratio} | {bar} |"
        )
        .ok();
    }
    let came = stage.fixed_rate(if smoke { 2 } else { 10 })?;
    let off = (came - f64::from(RATE)).abs() / f64::from(RATE);
    let met = if off <= RATE_BAR { "met" } else { machine::NOT_MET };
    writeln!(text, "\n`fixed={RATE}/s`: {came:.0}/s came: {met}: within {:.0} %.", RATE_BAR * 100.0).ok();
    drop(canned);
    if smoke {
        // Runs this short measure how programs start.
        return Ok("bench result: ok. loader works".into());
    }
    println!("{text}");
    machine::record("loader", &text)
}

/// Starts the server with the answers before a node, its log in a folder.
fn canned(program: &Path, node: SocketAddr, folder: &Path) -> Result<Running, String> {
    let port = machine::free_port()?;
    let arguments = ["--port".to_owned(), port.to_string(), "--before".to_owned(), node.port().to_string()];
    let log = folder.join("canned.log");
    let mut server = Running::start(Some(SERVER), program, &arguments, port, &log)?;
    server.wait_until_listening(Duration::from_secs(10))?;
    Ok(server)
}

/// Where the classes of a Java program are; what is missing is brought.
fn class_path(name: &str) -> Result<String, String> {
    let said = house::output(house::compat()?.args(["class-path", name]))?;
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
    let tool = |name, (connections, in_flight), must, command| {
        let operations = match must {
            _ if smoke => (10_000, 20_000),
            // What a Java machine compiles takes seconds, more or less of them: much for those of which an operation is little.
            Must::CostMoreThan(0) => (1_000_000, 8_000_000),
            Must::CostMoreThan(_) => (500_000, 1_500_000),
            Must::BeCheap | Must::StandBeside => (1_000_000, 4_000_000),
        };
        Tool { name, connections, in_flight, must, operations, command }
    };
    let many = (CONNECTIONS, IN_FLIGHT);
    let of_stress = (STRESS_CONNECTIONS, THREADS);
    let of_ycsb = (YCSB_CONNECTIONS, THREADS);
    vec![
        tool("messina load, inserts", many, Must::BeCheap, Stage::load),
        tool("messina cassandra-stress write", many, Must::BeCheap, Stage::write),
        tool("messina cassandra-stress read", many, Must::BeCheap, Stage::read),
        tool("messina ycsb, workload a", many, Must::BeCheap, Stage::workload_a),
        tool("messina cassandra-stress write", of_stress, Must::StandBeside, Stage::write),
        tool("messina ycsb, workload a", of_ycsb, Must::StandBeside, Stage::workload_a),
        tool("Java driver 4.19, inserts", many, Must::CostMoreThan(0), Stage::java_driver),
        tool(
            "cassandra-stress 3.11.5, mixed ratio(write=1)",
            of_stress,
            Must::CostMoreThan(4),
            Stage::java_stress,
        ),
        tool("YCSB 0.17.0, our binding, workload a", of_ycsb, Must::CostMoreThan(5), Stage::java_ycsb),
    ]
}

impl Tool {
    /// What one operation takes.
    fn cost(&self, stage: &Stage, server: u32) -> Result<Cost, String> {
        let (few, many) = self.operations;
        let little = self.cpu(stage, few)?;
        let (since, before) = (Instant::now(), process_cpu(server)?);
        let much = self.cpu(stage, many)?;
        let busy = (process_cpu(server)? - before).as_secs_f64() / since.elapsed().as_secs_f64();
        let more = much.saturating_sub(little).as_secs_f64();
        Ok(Cost { cpu_us: more * 1e6 / (many - few) as f64, server: busy * 100.0 })
    }

    /// Processor time of a run, all of whose operations went well.
    fn cpu(&self, stage: &Stage, operations: u64) -> Result<Duration, String> {
        let before = children_cpu()?;
        let said = house::output(&mut (self.command)(stage, self, operations))?;
        match went_well(&said) {
            count if count == operations => Ok(children_cpu()? - before),
            count => Err(format!("{}: {count} of {operations} operations went well:\n{said}", self.name)),
        }
    }
}

/// How many operations went well, by what a tool says at its end.
fn went_well(said: &str) -> u64 {
    let number = |text: &str| -> u64 {
        let digits = text.trim_start().chars().filter(|letter| *letter != ',');
        digits.take_while(char::is_ascii_digit).collect::<String>().parse().unwrap_or(0)
    };
    let of_line = |line: &str| {
        if let Some(rest) = line.strip_prefix("Total partitions") {
            return number(rest.split(':').nth(1).unwrap_or_default());
        }
        if line.starts_with("[READ]") || line.starts_with("[UPDATE]") {
            return line.split_once("Return=OK,").map_or(0, |(_, count)| number(count));
        }
        // messina load, and our program on the Java driver.
        let load = line.split_once("  operations ").map(|(_, count)| number(count));
        load.or(line.ends_with(" operations, 0 failures").then(|| number(line))).unwrap_or(0)
    };
    said.lines().map(of_line).sum()
}

impl Stage {
    /// Makes the tables that the tools do not make, and the rows that reads find.
    fn fill(&self, node: &BenchNode) -> Result<(), String> {
        let keyspace = "CREATE KEYSPACE IF NOT EXISTS ycsb WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";
        node.query(keyspace)?;
        node.query(USERTABLE)?;
        let load = ["load", "--no-fill", "--workload", "insert", "--draw", "sequence", "--keys", "1"];
        house::output(on_loader(&self.binary).args(load).args([
            "--warm-up",
            "0",
            "--target",
            &self.node.to_string(),
        ]))?;
        house::output(&mut self.stress(self.node, &format!("write n={ROWS} no-warmup"), "threads=64", 1))?;
        house::output(&mut self.ycsb(self.node, "load", ROWS, 64, 1)).map(drop)
    }

    fn load(&self, tool: &Tool, operations: u64) -> Command {
        let mut load = on_loader(&self.binary);
        load.args(["load", "--keep-data", "--workload", "insert", "--draw", "sequence"]);
        load.args(["--warm-up", "0", "--seconds", "3600", "--keys", &operations.to_string()]);
        load.args(["--connections", &tool.connections.to_string()]);
        load.args(["--depth", &(tool.in_flight / tool.connections).to_string()]);
        load.args(["--target", &self.canned.to_string()]);
        load
    }

    fn write(&self, tool: &Tool, operations: u64) -> Command {
        let rate = format!("threads={}", tool.in_flight);
        self.stress(self.canned, &format!("write n={operations} no-warmup"), &rate, tool.connections)
    }

    fn read(&self, tool: &Tool, operations: u64) -> Command {
        let words = format!(
            "read n={operations} no-warmup -errors skip-read-validation -pop dist=uniform(1..{ROWS})"
        );
        self.stress(self.canned, &words, &format!("threads={}", tool.in_flight), tool.connections)
    }

    fn stress(&self, address: SocketAddr, words: &str, rate: &str, connections: u32) -> Command {
        let mut stress = on_loader(&self.binary);
        stress.arg("cassandra-stress").args(words.split(' ')).arg("-rate").args(rate.split(' '));
        stress.args(["-mode", "native", "cql3", "protocolVersion=4"]);
        stress.args([&format!("connectionsPerHost={connections}"), "-schema", "replication(factor=1)"]);
        stress.args(node_words(address));
        stress
    }

    fn workload_a(&self, tool: &Tool, operations: u64) -> Command {
        self.ycsb(self.canned, "run", operations, tool.in_flight, tool.connections)
    }

    fn ycsb(
        &self,
        address: SocketAddr,
        phase: &str,
        operations: u64,
        threads: u32,
        connections: u32,
    ) -> Command {
        let mut ycsb = on_loader(&self.binary);
        ycsb.args(["ycsb", phase, "cassandra-cql", "-threads", &threads.to_string()]);
        for name in ["cassandra.coreconnections", "cassandra.maxconnections"] {
            ycsb.args(["-p", &format!("{name}={connections}")]);
        }
        ycsb.args(ycsb_properties(address, operations));
        ycsb
    }

    fn java_driver(&self, tool: &Tool, operations: u64) -> Command {
        let mut driver = java(&self.driver, "messina.Load", &self.quiet);
        driver.args([self.canned.ip().to_string(), self.canned.port().to_string()]);
        driver.args([tool.connections.to_string(), tool.in_flight.to_string(), operations.to_string()]);
        driver
    }

    fn java_stress(&self, tool: &Tool, operations: u64) -> Command {
        let mut stress = java(&self.stress, "org.apache.cassandra.stress.Stress", &self.quiet);
        // Its `write` makes tables that no server knows since 4.0, even where they are there.
        stress.args(["mixed", "ratio(write=1)", &format!("n={operations}"), "no-warmup", "cl=ONE"]);
        stress.args(["-pop", &format!("seq=1..{operations}")]);
        stress.args(["-rate", &format!("threads={}", tool.in_flight), "-mode", "native", "cql3"]);
        stress.args(["protocolVersion=4", &format!("connectionsPerHost={}", tool.connections)]);
        stress.args(["-schema", "replication(factor=1)"]);
        stress.args(node_words(self.canned));
        stress
    }

    fn java_ycsb(&self, tool: &Tool, operations: u64) -> Command {
        let mut ycsb = java(&self.ycsb, "site.ycsb.Client", &self.quiet);
        ycsb.args(["-t", "-db", "messina.CqlBinding", "-threads", &tool.in_flight.to_string()]);
        ycsb.args(ycsb_properties(self.canned, operations));
        ycsb
    }

    /// Writes at a fixed rate; the rate that came.
    fn fixed_rate(&self, seconds: u32) -> Result<f64, String> {
        let words = format!("write duration={seconds}s no-warmup");
        let rate = format!("threads=256 fixed={RATE}/s");
        let said = house::output(&mut self.stress(self.canned, &words, &rate, STRESS_CONNECTIONS))?;
        let line = said.lines().find(|line| line.starts_with("Op rate"));
        let number = line.and_then(|line| {
            line.split(':').nth(1)?.trim().split(' ').next().map(|word| word.replace(',', ""))
        });
        number.and_then(|word| word.parse().ok()).ok_or(format!("no rate is told:\n{said}"))
    }
}

/// A node as both tools are told it.
fn node_words(address: SocketAddr) -> Vec<String> {
    let (ip, port) = (address.ip(), address.port());
    vec!["-node".to_owned(), ip.to_string(), "-port".to_owned(), format!("native={port}")]
}

/// Workload A, as both tools are told it.
fn ycsb_properties(address: SocketAddr, operations: u64) -> Vec<String> {
    let (ip, port) = (address.ip(), address.port());
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

#[cfg(test)]
mod tests {
    use super::went_well;

    #[test]
    fn every_tool_is_understood() {
        let stress = "Total partitions          :  4,000,000 [WRITE: 4,000,000]\nTotal errors              :          0";
        let ycsb = "[READ], Return=OK, 1998\n[READ], Return=ERROR, 3\n[UPDATE], Return=OK, 2002\n[CLEANUP], Operations, 64";
        let load = "rate 9/s  mean 20 us  slowest second 93 %  operations 8000  errors 0";
        for (said, count) in [
            (stress, 4_000_000),
            (ycsb, 4_000),
            (load, 8_000),
            ("70 operations, 0 failures", 70),
            ("70 operations, 1 failures", 0),
        ] {
            assert_eq!(went_well(said), count, "{said}");
        }
    }
}
