//! The machine's shape, as a result must carry it, and servers pinned to its processors.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::house;

/// One line: processors, memory, kernel.
pub fn shape() -> String {
    let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or(": unknown processor");
    let model = model.trim_start_matches(['\t', ' ', ':']);
    let count = cpu.lines().filter(|line| line.starts_with("processor")).count();
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib = memory.lines().find_map(|line| line.strip_prefix("MemTotal:")).unwrap_or("0 kB");
    let kib: u64 = kib.trim().trim_end_matches(" kB").trim().parse().unwrap_or(0);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("{count} × {model}, {:.0} GiB, Linux {}", kib as f64 / 1048576.0, kernel.trim())
}

/// The commit that was measured.
pub fn commit() -> String {
    let text = house::output(house::command("git").args(["describe", "--always", "--dirty"]));
    text.unwrap_or_default().trim().to_owned()
}

/// Today as the system says it.
pub fn today() -> String {
    house::output(Command::new("date").arg("+%Y-%m-%d")).unwrap_or_default().trim().to_owned()
}

/// The run in the middle by processor time per request; an uneven number of runs has one.
pub fn median<T: Copy>(mut runs: Vec<T>, cpu_us: impl Fn(&T) -> f64) -> T {
    runs.sort_by(|left, right| cpu_us(left).total_cmp(&cpu_us(right)));
    runs[runs.len() / 2]
}

/// A port nobody listens on, another one at every call: a node needs several, which must differ. Below those the kernel
/// gives to outgoing connections, so that none takes it before the server does, nor the one that waits for the server
/// meets itself. Not among those that `compat` gives out, nor a node's standard ones. Errors: all are taken.
pub fn free_port() -> Result<u16, String> {
    const FIRST: u32 = 12_000;
    const COUNT: u32 = 6_000;
    static CALLS: AtomicU32 = AtomicU32::new(0);
    // Two processes seldom begin at the same port.
    let begin = std::process::id().wrapping_mul(7919) % COUNT;
    (0..COUNT)
        .map(|_| FIRST + (begin + CALLS.fetch_add(1, Ordering::Relaxed)) % COUNT)
        .filter_map(|port| u16::try_from(port).ok())
        .find(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok())
        .ok_or_else(|| format!("no port from {FIRST} to {} is free", FIRST + COUNT - 1))
}

/// Keeps the calling thread, and what it starts, on one processor.
pub fn pin_self(cpu: usize) {
    let pid = std::process::id().to_string();
    let _ = Command::new("taskset")
        .args(["-a", "-c", "-p", &cpu.to_string(), &pid])
        .stdout(Stdio::null())
        .status();
}

/// A server under measurement; killed when dropped.
pub struct Running {
    /// The process.
    pub child: Child,
    /// Where it listens.
    pub address: SocketAddr,
    /// When it was spawned.
    pub spawned: Instant,
    log: PathBuf,
}

impl Running {
    /// Starts a program, on these processors if some are given, with its output in `log`.
    pub fn start(
        cpus: Option<&str>,
        program: &Path,
        arguments: &[String],
        port: u16,
        log: &Path,
    ) -> Result<Running, String> {
        let mut command = match cpus {
            Some(cpus) => {
                let mut command = house::command("taskset");
                command.args(["-c", cpus]).arg(program);
                command
            }
            None => house::command(program),
        };
        Running::spawn(command.args(arguments), port, log)
    }

    /// Starts a command that listens on a port of the loopback interface.
    pub fn spawn(command: &mut Command, port: u16, log: &Path) -> Result<Running, String> {
        let out = fs::File::create(log).map_err(|error| format!("{}: {error}", log.display()))?;
        let err = out.try_clone().map_err(|error| format!("{}: {error}", log.display()))?;
        command.stdin(Stdio::null()).stdout(out).stderr(err);
        let spawned = Instant::now();
        let child = command.spawn().map_err(|error| format!("{}: {error}", house::shown(command)))?;
        Ok(Running { child, address: (Ipv4Addr::LOCALHOST, port).into(), spawned, log: log.into() })
    }

    /// Waits until something listens.
    pub fn wait_until_listening(&mut self, limit: Duration) -> Result<(), String> {
        while self.spawned.elapsed() < limit {
            if TcpStream::connect(self.address).is_ok() {
                return Ok(());
            }
            self.still_runs()?;
            std::thread::sleep(Duration::from_millis(1));
        }
        Err(format!("nothing listens on {}:\n{}", self.address, self.last_words()))
    }

    /// Errors: it has ended, with its last words.
    pub fn still_runs(&mut self) -> Result<(), String> {
        match self.child.try_wait() {
            Ok(Some(status)) => Err(format!("the server ended with {status}:\n{}", self.last_words())),
            _ => Ok(()),
        }
    }

    /// Orderly stop, waited for.
    pub fn stop(&mut self) -> Result<(), String> {
        let _ = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status();
        let end = Instant::now() + Duration::from_secs(60);
        while Instant::now() < end {
            match self.child.try_wait() {
                Ok(Some(status)) if status.success() => return Ok(()),
                Ok(Some(status)) => {
                    return Err(format!("the server ended with {status}:\n{}", self.last_words()));
                }
                _ => std::thread::sleep(Duration::from_millis(5)),
            }
        }
        Err(format!("the server did not stop:\n{}", self.last_words()))
    }

    fn last_words(&self) -> String {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A fresh folder below the target folder.
pub fn fresh(name: &str) -> Result<PathBuf, String> {
    let folder = house::target().join("bench").join(name);
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    Ok(folder)
}

/// How far the kernel reads ahead on the disk below a folder, changed as long as this lives.
pub struct ReadAhead {
    file: PathBuf,
    before: String,
}

impl ReadAhead {
    /// Sets it, in KiB. Errors: no disk is below the folder, or it is not ours to set.
    pub fn set(folder: &Path, kib: u32) -> Result<ReadAhead, String> {
        let told = |path: &Path| {
            let path = path.display().to_string();
            move |error: std::io::Error| format!("{path}: {error}")
        };
        let device = fs::metadata(folder).map_err(told(folder))?.dev();
        // As the C library takes a device's number apart.
        let major = (device >> 8) & 0xfff | (device >> 32) & !0xfff;
        let minor = device & 0xff | (device >> 12) & !0xff;
        let block = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
        let block = block.canonicalize().map_err(told(&block))?;
        // A partition's is that of its disk.
        let disk =
            if block.join("queue").exists() { block.as_path() } else { block.parent().unwrap_or(&block) };
        let file = disk.join("queue/read_ahead_kb");
        let before = fs::read_to_string(&file).map_err(told(&file))?;
        fs::write(&file, kib.to_string()).map_err(told(&file))?;
        Ok(ReadAhead { file, before: before.trim().to_owned() })
    }
}

impl Drop for ReadAhead {
    fn drop(&mut self) {
        if let Err(error) = fs::write(&self.file, &self.before) {
            eprintln!("{}: it was {}: {error}", self.file.display(), self.before);
        }
    }
}

/// Arguments of a node with its own folder and ports; `yaml` is added to its configuration.
pub fn node_arguments(folder: &Path, port: u16, yaml: &str, more: &[&str]) -> Result<Vec<String>, String> {
    let config = folder.join("messina.yaml");
    let text = format!(
        "cluster_name: 'bench'\nlisten_address: 127.0.0.1\nrpc_address: 127.0.0.1\nnative_transport_port: {port}\n\
         native_shard_aware_transport_port: {}\nprometheus_port: {}\nstorage_port: {}\n\
         data_file_directories:\n  - {}\ncommitlog_sync: periodic\ncommitlog_sync_period: 10000ms\n{yaml}",
        free_port()?,
        free_port()?,
        free_port()?,
        folder.join("data").display()
    );
    fs::write(&config, text).map_err(|error| format!("{}: {error}", config.display()))?;
    let mut arguments = vec!["node".to_owned(), "--config".into(), config.display().to_string()];
    arguments.extend(more.iter().map(|word| (*word).to_owned()));
    Ok(arguments)
}

/// What stands in a result where it is short of its bar.
pub const NOT_MET: &str = "NOT MET";

/// Writes one result file, named after the bench and the day.
/// Errors: it cannot be written, or says that a bar is not met; then it is written all the same.
pub fn record(name: &str, text: &str) -> Result<String, String> {
    let folder = house::root().join("bench/results");
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let file = folder.join(format!("{}-{name}.md", today()));
    fs::write(&file, text).map_err(|error| format!("{}: {error}", file.display()))?;
    let written = format!("written to bench/results/{}-{name}.md", today());
    match text.matches(NOT_MET).count() {
        0 => Ok(written),
        count => Err(format!("{count} bars are not met; {written}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn no_port_is_given_twice() {
        let ports: HashSet<u16> = (0..2_000).map(|_| free_port().unwrap()).collect();
        assert_eq!(ports.len(), 2_000);
        assert!(ports.iter().all(|port| *port < 20_000), "compat's begin there");
    }
}
