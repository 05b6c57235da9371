//! A node that benches drive through `messina load` and `messina nodetool`.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::house;
use crate::loader::{self, Connection};
use crate::machine::{self, Running};

/// The processors of the server and of the loader.
pub const SERVER: &str = "0";
pub const LOADER: &str = "1";

/// A node; of one shard on the server's processor, unless told otherwise.
pub struct BenchNode {
    /// The program it runs.
    pub binary: PathBuf,
    /// Where it keeps its files.
    pub folder: PathBuf,
    processors: &'static str,
    arguments: Vec<String>,
    port: u16,
    api_port: u16,
    running: Option<Running>,
    group: Option<MemoryGroup>,
}

impl BenchNode {
    /// Starts one on an empty folder; `yaml` is added to its configuration.
    pub fn start(binary: &Path, name: &str, memory: &str, yaml: &str) -> Result<BenchNode, String> {
        BenchNode::spread(binary, name, &["--smp", "1", "--memory", memory], yaml, SERVER)
    }

    /// Starts one with these arguments on processors of its own.
    pub fn spread(
        binary: &Path,
        name: &str,
        arguments: &[&str],
        yaml: &str,
        processors: &'static str,
    ) -> Result<BenchNode, String> {
        let folder = machine::fresh(name)?;
        let (port, api_port) = (machine::free_port()?, machine::free_port()?);
        let yaml = format!("api_port: {api_port}\n{yaml}");
        let arguments = machine::node_arguments(&folder, port, &yaml, arguments)?;
        let binary = binary.to_path_buf();
        let mut node =
            BenchNode { binary, folder, processors, arguments, port, api_port, running: None, group: None };
        node.restart()?;
        Ok(node)
    }

    /// Starts it again after [stop](Self::stop) or [kill](Self::kill); returns how long it took until it served.
    pub fn restart(&mut self) -> Result<Duration, String> {
        let log = self.folder.join("node.log");
        let mut command = house::command("taskset");
        command.args(["-c", self.processors]).arg(&self.binary).args(&self.arguments);
        if let Some(group) = &self.group {
            command = group.command(&command);
        }
        let mut running = Running::spawn(&mut command, self.port, &log)?;
        running.wait_until_listening(Duration::from_secs(600))?;
        // An answer to a statement, not only an open port: that of a killed node lives until the kernel has taken its ring apart.
        let asks = |address| query(address, "SELECT key FROM system.local");
        while let Err(error) = asks(running.address) {
            if running.spawned.elapsed() > Duration::from_secs(600) {
                return Err(error);
            }
            std::thread::sleep(Duration::from_millis(1));
            running.wait_until_listening(Duration::from_secs(600))?;
        }
        let took = running.spawned.elapsed();
        self.running = Some(running);
        Ok(took)
    }

    /// The next start is in a group of processes, and told to use so much memory.
    pub fn hold(&mut self, group: MemoryGroup, memory: &str) {
        self.group = Some(group);
        if let Some(at) = self.arguments.iter().position(|word| word == "--memory") {
            memory.clone_into(&mut self.arguments[at + 1]);
        }
    }

    /// Ends it in good order.
    pub fn stop(&mut self) -> Result<(), String> {
        self.running.take().map_or(Ok(()), |mut running| running.stop())
    }

    /// Ends it as a power cut would, but for what the kernel holds.
    pub fn kill(&mut self) {
        drop(self.running.take());
    }

    /// Its process.
    pub fn process(&self) -> u32 {
        self.running.as_ref().map_or(0, |running| running.child.id())
    }

    /// Address and port of its clients.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Runs a statement.
    pub fn query(&self, text: &str) -> Result<(), String> {
        let running = self.running.as_ref().ok_or("the node was stopped")?;
        query(running.address, text)
    }

    /// Runs `nodetool`.
    pub fn nodetool(&self, words: &[&str]) -> Result<String, String> {
        let mut command = house::command(&self.binary);
        house::output(command.args(["nodetool", "-p", &self.api_port.to_string()]).args(words))
    }

    /// Waits until it has next to nothing to do. Errors: it still has after ten minutes.
    pub fn settle(&self) -> Result<(), String> {
        if comes_to_rest(self.process(), 600)? {
            Ok(())
        } else {
            Err("the node does not come to rest".into())
        }
    }
}

/// Runs a statement on the server at an address.
pub fn query(address: SocketAddr, text: &str) -> Result<(), String> {
    Connection::open(address)?.ask(&loader::query(text)).map(drop)
}

/// A control group of processes that together may use so much memory, what the kernel caches of their files included. Removed when
/// dropped, after its processes have ended.
pub struct MemoryGroup(PathBuf);

impl MemoryGroup {
    /// Makes one by the kernel's second or first interface of control groups.
    pub fn new(name: &str, bytes: u64) -> Result<MemoryGroup, String> {
        let root = Path::new("/sys/fs/cgroup");
        let (parent, limit) = if root.join("cgroup.controllers").exists() {
            (root.to_path_buf(), "memory.max")
        } else {
            (root.join("memory"), "memory.limit_in_bytes")
        };
        let folder = parent.join(format!("messina-bench-{}-{name}", std::process::id()));
        let told = |error: std::io::Error| format!("{}: {error}", folder.display());
        std::fs::create_dir(&folder).map_err(told)?;
        let group = MemoryGroup(folder.clone());
        std::fs::write(folder.join(limit), bytes.to_string()).map_err(told)?;
        // What is swapped out would not count. Without swap, or without its accounting, the file is not there.
        let swap = folder.join("memory.swap.max");
        if swap.exists() {
            std::fs::write(swap, "0").map_err(told)?;
        }
        Ok(group)
    }

    /// The same command with its variables, in this group.
    pub fn command(&self, command: &Command) -> Command {
        let mut inside = house::command("sh");
        inside.args(["-c", "echo $$ > \"$0\" && exec \"$@\""]).arg(self.0.join("cgroup.procs"));
        inside.arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => inside.env(name, value),
                None => inside.env_remove(name),
            };
        }
        inside
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        // A group may take a moment to see that its last process has ended.
        for _ in 0..50 {
            if std::fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        eprintln!("{} is left behind", self.0.display());
    }
}

/// Waits until a process has next to nothing to do, for so many seconds at most; whether it has.
pub fn comes_to_rest(process: u32, seconds_max: u32) -> Result<bool, String> {
    for _ in 0..seconds_max {
        let before = process_cpu(process)?;
        std::thread::sleep(Duration::from_secs(1));
        if process_cpu(process)? - before < Duration::from_millis(50) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// A number of a file in `/proc/PROCESS`, after its name.
pub fn of_process(process: u32, file: &str, name: &str) -> Result<u64, String> {
    let path = format!("/proc/{process}/{file}");
    let text = std::fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let word = line.and_then(|line| line.split_whitespace().next());
    word.and_then(|word| word.parse().ok()).ok_or(format!("{path} has no {name}"))
}

/// Time on a processor of all threads a process has or had, in steps of 10 ms.
pub fn process_cpu(process: u32) -> Result<Duration, String> {
    cpu_of(process, 11)
}

/// The same of all programs that this one has started and waited for.
pub fn children_cpu() -> Result<Duration, String> {
    cpu_of(std::process::id(), 13)
}

/// The user's and the kernel's time of a process, two words of its `stat`: the first of them by its place behind the name.
fn cpu_of(process: u32, first: usize) -> Result<Duration, String> {
    const TICKS_PER_SECOND: u64 = 100;
    let path = format!("/proc/{process}/stat");
    let text = std::fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
    // The name in brackets may hold spaces.
    let words: Vec<&str> = text.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |at: usize| words.get(at).and_then(|word| word.parse::<u64>().ok());
    let both = ticks(first).zip(ticks(first + 1)).ok_or(format!("{path} is not understood"))?;
    Ok(Duration::from_millis((both.0 + both.1) * 1000 / TICKS_PER_SECOND))
}

/// Bytes of the files in a folder and the folders below it; what a temporary name marks as unfinished does not count.
pub fn folder_bytes(folder: &Path) -> Result<u64, String> {
    let told = |error| format!("{}: {error}", folder.display());
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder).map_err(told)? {
        let path = entry.map_err(told)?.path();
        // A compaction may just have removed it.
        let Ok(meta) = path.metadata() else { continue };
        if meta.is_dir() {
            bytes += folder_bytes(&path)?;
        } else if path.extension().is_none_or(|end| end != "tmp") {
            bytes += meta.len();
        }
    }
    Ok(bytes)
}

/// Removes what a bench left on disk.
pub fn remove_folder(folder: &Path) -> Result<(), String> {
    std::fs::remove_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))
}

/// Runs `messina load` on the loader's processor. Requests that failed are an error.
pub fn load(binary: &Path, address: &str, words: &[&str]) -> Result<LoadReport, String> {
    let mut command = Command::new("taskset");
    command.args(["-c", LOADER]).arg(binary).args(["load", "--target", address]).args(words);
    LoadReport::parse(&house::output(&mut command)?)
}

/// What a `messina load` measured.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LoadReport {
    /// Good answers, or rows of a scan.
    pub operations: u64,
    /// Of them each second.
    pub rate: f64,
    /// Latencies in microseconds.
    pub mean_us: f64,
    pub p50_us: f64,
    pub p99_us: f64,
    pub p999_us: f64,
    /// The last of a hundred reads of the mixed workload in microseconds; 0 of others.
    pub reads_p99_us: f64,
    /// The slowest second in percent of the mean.
    pub slowest: f64,
    /// The longest time without an answer in milliseconds.
    pub pause_ms: f64,
}

impl LoadReport {
    fn parse(text: &str) -> Result<LoadReport, String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let value = |name: &str| value_after(&words, &[name]);
        Ok(LoadReport {
            operations: value("operations")? as u64,
            rate: value("rate")?,
            mean_us: value("mean")?,
            p50_us: value("p50")?,
            p99_us: value("p99")?,
            p999_us: value("p99.9")?,
            reads_p99_us: if words.contains(&"their") {
                value_after(&words, &["their", "p99"])?
            } else {
                0.0
            },
            slowest: value("second")?,
            pause_ms: value("pause")?,
        })
    }
}

/// The number after these words in a row.
fn value_after(words: &[&str], names: &[&str]) -> Result<f64, String> {
    let at = words.windows(names.len()).position(|some| some == names);
    let word = at.and_then(|at| words.get(at + names.len())).map(|word| word.trim_end_matches("/s"));
    word.and_then(|word| word.parse().ok()).ok_or(format!(
        "no number after {}: {}",
        names.join(" "),
        words.join(" ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read_by_its_names() {
        let text = "rate 4000/s  mean 20 us  p50 18 us  p99 40 us  p99.9 90 us  max 1200 us  slowest second 93 %  \
                    longest pause 1.5 ms  operations 8000  errors 0  \
                    reads 100  their p99 77 us\n";
        let report = LoadReport::parse(text).unwrap();
        assert_eq!(
            (report.operations, report.rate, report.slowest, report.pause_ms),
            (8000, 4000.0, 93.0, 1.5)
        );
        assert_eq!((report.p99_us, report.reads_p99_us), (40.0, 77.0));
        assert!(LoadReport::parse("rate 4000/s").is_err());
    }
}
