//! The stock Python driver: the scripts in `python/`, each run with every protocol version and compression.

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use crate::server::Server;
use crate::suite::{Options, Report};
use crate::{command, packages, paths};

/// Scripts of one server's life, each with unittest's own summary.
const SCRIPTS: &[&str] = &["types_there_and_back", "statements", "mistakes", "schema_changes", "paging"];
/// Protocol version and compression.
const CONVERSATIONS: &[(u8, &str)] = &[(5, "lz4"), (4, "none"), (4, "lz4"), (5, "none")];

/// Long enough for 100,000 rows on a slow, shared machine.
const LIMIT: Duration = Duration::from_secs(1200);

/// Runs every script with every conversation against one server.
pub fn run(options: &Options, shards: u16, report: &mut Report) {
    let conversations = if options.quick { &CONVERSATIONS[..2] } else { CONVERSATIONS };
    let mut server = None;
    report.test(&format!("python::start --smp {shards}"), || {
        packages::python_cassandra()?;
        server = Some(options.server("python", shards)?);
        Ok(String::new())
    });
    let Some(mut server) = server else { return };
    for &(protocol, compression) in conversations {
        for script in SCRIPTS {
            report.test(&format!("python::{script} v{protocol} {compression} --smp {shards}"), || {
                let mut python = script_command(script, server.address, protocol, compression)?;
                python.env("SUITE_ROWS", options.rows.to_string());
                if let Some(word) = &options.only {
                    python.arg(word);
                }
                let log = server.folder.join(format!("{script}-v{protocol}-{compression}.log"));
                let text = command::run(&mut python, &log, LIMIT)?;
                Ok(text.lines().rev().find(|line| line.starts_with("Ran ")).unwrap_or("").to_owned())
            });
        }
    }
    report.test(&format!("python::stop --smp {shards}"), || server.stop().map(|()| String::new()));
}

/// One session across a graceful restart and a kill.
pub fn run_restart(options: &Options, shards: u16, report: &mut Report) {
    if options.against_cassandra {
        return;
    }
    for &(protocol, compression) in &CONVERSATIONS[..2] {
        report.test(&format!("restart::session v{protocol} {compression} --smp {shards}"), || {
            let folder = options.folder("restart")?;
            let mut start = options.start(folder, shards);
            start.commitlog_sync = "batch";
            let mut server = start.run()?;
            start.port = server.address.port();
            let mut script = Script::spawn("restart", server.address, protocol, compression, &[])?;
            let mut turn = 0;
            loop {
                let line = script.line()?;
                match line.as_str() {
                    "RESTART graceful" => server.stop()?,
                    "RESTART kill" => server.kill(),
                    "SESSION OK" => break,
                    other => {
                        return Err(format!("unexpected line {other}\n{}", server.last_words()));
                    }
                }
                // Another number of shards than before: the data must be found all the same.
                turn += 1;
                start.shards = 1 + (shards + turn - 1) % 4;
                server = start.run()?;
                script.say("READY")?;
            }
            server.stop().map(|()| String::new())
        });
    }
}

/// The command that runs one script of `python/` against a server.
pub fn script_command(
    script: &str,
    address: SocketAddr,
    protocol: u8,
    compression: &str,
) -> Result<Command, String> {
    Ok(script_in(&packages::python_cassandra()?, script, address, protocol, compression))
}

fn script_in(bin: &Path, script: &str, address: SocketAddr, protocol: u8, compression: &str) -> Command {
    let mut command = Command::new(bin.join("python"));
    command
        .arg(script_path(script))
        .env("NODE_HOST", address.ip().to_string())
        .env("NODE_PORT", address.port().to_string())
        .env("NODE_PROTOCOL", protocol.to_string())
        .env("NODE_COMPRESSION", compression)
        .env("PYTHONDONTWRITEBYTECODE", "1");
    command
}

fn script_path(script: &str) -> PathBuf {
    paths::resources().join("python").join(format!("{script}.py"))
}

/// How long a program that is spoken with may keep silent.
const SILENT_MAX: Duration = Duration::from_secs(300);

/// A program with which the Rust side holds a conversation by lines.
pub struct Script {
    child: Child,
    input: ChildStdin,
    output: Receiver<(Instant, String)>,
}

impl Script {
    /// Starts a script of `python/`; its standard error goes to ours.
    pub fn spawn(
        script: &str,
        address: SocketAddr,
        protocol: u8,
        compression: &str,
        arguments: &[(&str, String)],
    ) -> Result<Script, String> {
        let mut command = script_command(script, address, protocol, compression)?;
        for (name, value) in arguments {
            match name.strip_prefix('$') {
                Some(variable) => command.env(variable, value),
                None => command.arg(value),
            };
        }
        Script::of(command)
    }

    /// Starts any program.
    pub fn of(mut command: Command) -> Result<Script, String> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{}: {error}", command.get_program().to_string_lossy()))?;
        let input = child.stdin.take().expect("standard input was piped");
        let lines = BufReader::new(child.stdout.take().expect("standard output was piped")).lines();
        let (send, output) = mpsc::channel();
        std::thread::spawn(move || {
            lines.map_while(Result::ok).try_for_each(|line| send.send((Instant::now(), line)))
        });
        Ok(Script { child, input, output })
    }

    /// Its next line; an error when it ends instead.
    pub fn line(&mut self) -> Result<String, String> {
        self.line_at().map(|(_, line)| line)
    }

    /// The same, and when it came.
    pub fn line_at(&mut self) -> Result<(Instant, String), String> {
        match self.output.recv_timeout(SILENT_MAX) {
            Ok((at, line)) => Ok((at, line.trim_end().to_owned())),
            Err(RecvTimeoutError::Disconnected) => {
                Err("the script ended early; see its messages above".into())
            }
            Err(RecvTimeoutError::Timeout) => Err(format!("the script said nothing for {SILENT_MAX:?}")),
        }
    }

    /// Tells it one line.
    pub fn say(&mut self, line: &str) -> Result<(), String> {
        writeln!(self.input, "{line}").map_err(|error| format!("writing to the script: {error}"))
    }

    /// Waits for its end.
    pub fn finish(&mut self, limit: Duration) -> Result<(), String> {
        match command::wait(&mut self.child, limit) {
            Some(true) => Ok(()),
            _ => Err("the script failed; see its messages above".into()),
        }
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The same paging script through the shard-aware driver: it must find its way to every shard.
pub fn run_shard_aware(options: &Options, server: &Server) -> Result<String, String> {
    let bin = packages::python_scylla()?;
    let mut python = script_in(&bin, "paging", server.address, 4, "lz4");
    python.env("SUITE_ROWS", options.rows.min(20_000).to_string());
    let text = command::run(&mut python, &server.folder.join("paging-scylla.log"), LIMIT)?;
    Ok(text.lines().rev().find(|line| line.starts_with("Ran ")).unwrap_or("").to_owned())
}
