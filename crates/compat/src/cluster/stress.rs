//! The stress tools, Cassandra's of Java and ours, on three replicas while one node is killed and returns: at QUORUM and at LOCAL_QUORUM they go
//! on, each operation that fails is tried again by the tool and done, and every row is there afterwards.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::UP_WITHIN;
use super::nodes::Nodes;
use crate::suite::Options;
use crate::{command, packages, stress};

/// Rows, written again and again as long as a run lasts.
const ROWS: u32 = 2_000;
/// When the node is killed, and when it returns.
const PHASE: Duration = Duration::from_secs(6);
const LIMIT: Duration = Duration::from_secs(180);

/// Each tool at each level.
pub fn run(options: &Options, shards: u16) -> Result<String, String> {
    let class_path = packages::stress()?;
    let mut nodes = Nodes::start(options, 3, shards)?;
    nodes.wait_until_all_up(UP_WITHIN)?;
    let mut told = Vec::new();
    for (nth, (tool, level)) in
        [("java", "QUORUM"), ("ours", "QUORUM"), ("java", "LOCAL_QUORUM"), ("ours", "LOCAL_QUORUM")]
            .into_iter()
            .enumerate()
    {
        let name = format!("{tool} at {level}");
        let command = |tool: &str, line: &str| {
            let mut command = match tool {
                "java" => stress::java(&class_path),
                _ => {
                    let mut ours = Command::new(&options.binary);
                    ours.arg("cassandra-stress");
                    ours
                }
            };
            command.args(line.split(' ')).args(["-node", "127.0.7.1,127.0.7.3", "-port"]);
            command.arg(format!("native={}", nodes.address(0).port())).current_dir(&nodes.folder);
            command
        };
        let shape =
            format!("-schema keyspace=stress{nth} replication(factor=3) -rate threads=12 -log no-settings");
        // Its own table, made before there is a node less.
        let mut table = command(tool, &format!("write n=1 no-warmup {shape}"));
        command::run(&mut table, &nodes.folder.join("stress-table.log"), LIMIT)?;
        let write =
            command(tool, &format!("write duration=20s no-warmup cl={level} -pop seq=1..{ROWS} {shape}"));
        let read = command(tool, &format!("read n={ROWS} no-warmup cl={level} -pop seq=1..{ROWS} {shape}"));
        let rate = through_a_kill(&mut nodes, write, read).map_err(|error| format!("{name}: {error}"))?;
        told.push(format!("{name}: {rate} op/s"));
    }
    nodes.stop()?;
    Ok(told.join("; "))
}

/// Writes while the second node goes and returns, then reads every row; the rate of the writes.
fn through_a_kill(nodes: &mut Nodes, mut write: Command, mut read: Command) -> Result<String, String> {
    let log = nodes.folder.join("stress.log");
    let out = command::log_of(&log)?;
    let errors = out.try_clone().map_err(|error| error.to_string())?;
    let spawned = write.stdin(Stdio::null()).stdout(out).stderr(errors).spawn();
    let mut running = Running(spawned.map_err(|error| error.to_string())?);
    std::thread::sleep(PHASE);
    nodes.kill(1);
    std::thread::sleep(PHASE);
    nodes.start_again(1)?;
    nodes.wait_until_all_up(UP_WITHIN)?;
    let ended = command::wait(&mut running.0, LIMIT);
    let text = command::read(&log)?;
    if ended != Some(true) {
        return Err(format!("writes ended with {ended:?}:\n{}", command::tail(&text, 40)));
    }
    let rate = without_errors(&text)?;
    without_errors(&command::run(&mut read, &nodes.folder.join("stress-read.log"), LIMIT)?)?;
    Ok(rate)
}

/// The rate of operations of a run that has ended well, none of them failed for good.
fn without_errors(text: &str) -> Result<String, String> {
    let value = |label: &str| {
        let line = text.lines().find(|line| line.starts_with(label));
        line.and_then(|line| line.split_once(": ")).map(|(_, value)| value.trim().to_owned())
    };
    let failed = value("Total errors");
    if !text.lines().any(|line| line == "END") || !failed.is_some_and(|count| count.starts_with("0 ")) {
        return Err(command::tail(text, 40));
    }
    let rate = value("Op rate").unwrap_or_default();
    Ok(rate.split(' ').next().unwrap_or_default().to_owned())
}

/// A tool that does not outlive its test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
