//! Clusters that benches measure by the processor time of all their processes: of Messina, and of Apache Cassandra 5.0.
//!
//! Every server keeps to one processor, the loader to the other.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Stdio};
use std::time::Duration;

use crate::bench_node::{LOADER, SERVER, process_cpu, remove_folder};
use crate::house;
use crate::machine::{self, Running};

/// Requests in flight: the threads of cassandra-stress.
pub const THREADS: &str = "64";

/// Servers of one kind, alive as long as this.
pub struct Servers {
    /// What they are called in a report.
    pub name: &'static str,
    addresses: Vec<String>,
    port: String,
    processes: Vec<u32>,
    /// Where they keep their files.
    pub folder: PathBuf,
    /// Of each row.
    pub replicas: u32,
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
    /// Nodes of one shard, one or more.
    pub fn messina(binary: &Path, name: &'static str, nodes: u32) -> Result<Servers, String> {
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

    /// Nodes as they are shipped: one or three.
    pub fn cassandra(nodes: u32, heap: &str) -> Result<Servers, String> {
        let (profile, name) = match nodes {
            1 => ("stock", "one of Cassandra"),
            3 => ("cluster", "three of Cassandra"),
            other => return Err(format!("{other} nodes of Cassandra: one or three")),
        };
        let folder = machine::fresh(&format!("cluster-cassandra-{nodes}"))?;
        let mut command = house::compat()?;
        command.args(["peer", profile]).arg(&folder).args([heap, SERVER]);
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
            return Ok(Servers { name, addresses, port, processes, folder, replicas: nodes, _held: held });
        }
        Err(format!("Cassandra did not start; see {}", folder.display()))
    }

    /// Processor time of all of them until now.
    pub fn cpu(&self) -> Result<Duration, String> {
        self.processes.iter().map(|process| process_cpu(*process)).sum()
    }

    /// One run of cassandra-stress over its stock table. Errors: an operation failed.
    pub fn stress(
        &self,
        binary: &Path,
        kind: &str,
        level: &str,
        operations: u64,
        population: &str,
    ) -> Result<(), String> {
        let schema = format!("replication(factor={})", self.replicas);
        self.tool(binary, &[kind], level, operations, population, &["-schema", &schema])
    }

    /// One run of cassandra-stress with a command of several words. Errors: an operation failed.
    pub fn tool(
        &self,
        binary: &Path,
        command_words: &[&str],
        level: &str,
        operations: u64,
        population: &str,
        more: &[&str],
    ) -> Result<(), String> {
        let mut command = house::command("taskset");
        command.args(["-c", LOADER]).arg(binary).arg("cassandra-stress").args(command_words);
        command.args(["no-warmup", &format!("n={operations}"), &format!("cl={level}"), "-pop", population]);
        command.args(more).args(["-mode", "native", "cql3", "-port", &format!("native={}", self.port)]);
        command.args(["-rate", &format!("threads={THREADS}"), "-node", &self.addresses.join(",")]);
        let said = house::output(&mut command)?;
        let errors = said.lines().find_map(|line| line.strip_prefix("Total errors")?.split_once(':'));
        match errors.and_then(|(_, rest)| rest.split_whitespace().next()) {
            Some("0") => Ok(()),
            _ => Err(format!("{}: {} at {level}:\n{said}", self.name, command_words.join(" "))),
        }
    }

    /// Microseconds of all processors' time that an operation takes: the median of rounds, each of so many operations; `run` is told the
    /// round.
    pub fn cpu_per_operation(
        &self,
        rounds: usize,
        operations: u64,
        run: impl Fn(usize) -> Result<(), String>,
    ) -> Result<f64, String> {
        let mut measured = Vec::new();
        for round in 0..rounds {
            // What the round before left to be done by itself is not this one's.
            std::thread::sleep(Duration::from_secs(1));
            let before = self.cpu()?;
            run(round)?;
            let cpu = self.cpu()? - before;
            measured.push(cpu.as_secs_f64() * 1e6 / operations as f64);
        }
        Ok(machine::median(measured, |cpu| *cpu))
    }

    /// Stops them and removes their files.
    pub fn end(self) -> Result<(), String> {
        let folder = self.folder.clone();
        // They must not write any more.
        drop(self);
        remove_folder(&folder)
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
