//! Child processes: run to the end with a time limit, output into a file, and a readable error when it fails.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Runs a command to its end, all output into `log`; an error carries the log's last lines.
pub fn run(command: &mut Command, log: &Path, limit: Duration) -> Result<String, String> {
    let out = File::create(log).map_err(|error| format!("{}: {error}", log.display()))?;
    let err = out.try_clone().map_err(|error| format!("{}: {error}", log.display()))?;
    let mut child = command
        .stdin(Stdio::null())
        .stdout(out)
        .stderr(err)
        .spawn()
        .map_err(|error| format!("{}: {error}", command.get_program().to_string_lossy()))?;
    let ended = wait(&mut child, limit);
    let text = read(log)?;
    match ended {
        Some(true) => Ok(text),
        Some(false) => Err(format!("{} failed:\n{}", shown(command), tail(&text, 40))),
        None => {
            let _ = child.kill();
            let _ = child.wait();
            Err(format!("{} did not end within {limit:?}:\n{}", shown(command), tail(&text, 40)))
        }
    }
}

/// Waits for the end: `Some(success)`, or `None` when the limit passes first.
pub fn wait(child: &mut Child, limit: Duration) -> Option<bool> {
    let end = Instant::now() + limit;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status.success()),
            Ok(None) if Instant::now() < end => std::thread::sleep(Duration::from_millis(10)),
            Ok(None) => return None,
            Err(_) => return Some(false),
        }
    }
}

/// A whole file as text, whatever its bytes.
pub fn read(path: &Path) -> Result<String, String> {
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|mut file| file.read_to_end(&mut bytes))
        .map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The last `count` lines.
pub fn tail(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

/// A file for what a program says of itself beside its conversation, emptied.
pub fn log_of(path: &Path) -> Result<File, String> {
    File::create(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Sends a signal by its name; the process may be gone already.
pub fn signal(pid: u32, name: &str) {
    let _ = Command::new("kill").arg(format!("-{name}")).arg(pid.to_string()).stderr(Stdio::null()).status();
}

fn shown(command: &Command) -> String {
    let mut text = command.get_program().to_string_lossy().into_owned();
    for argument in command.get_args() {
        text.push(' ');
        text.push_str(&argument.to_string_lossy());
    }
    text
}

/// A program that a hang-up ends as by default, also when this one runs under `nohup`, which children inherit.
pub fn hung_up_by_default(program: &Path) -> Command {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    if ignored & 1 == 0 {
        return Command::new(program);
    }
    let mut command = Command::new("env");
    command.arg("--default-signal=HUP").arg(program);
    command
}
