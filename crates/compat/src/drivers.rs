//! The stock drivers of every language, each by a program of its own that writes and reads the shared tables of
//! `cases/`: connect by every protocol version and compression, types, mistakes, paging, prepared statements across
//! schema changes, batches, events, metadata; on a second server, TLS and passwords; on a third, clients' certificates.
//!
//! The servers start once for all drivers. A program runs once, with everything it needs in its environment, and prints
//! `test NAME ... ok` or `test NAME ... FAILED` and why; its last line, `end COUNT`, is how a program that ended early
//! is told from one that is done.

pub mod own_tests;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::certificates::Certificates;
use crate::server::Server;
use crate::suite::{Options, Report};
use crate::{command, packages, paths, python, scylla};

/// Names of the programs, which are names of suites, too.
pub const NAMES: &[&str] =
    &["java4", "java3", "gocql1", "gocql2", "nodejs", "pycassandra", "pyscylla", scylla::NAME];

/// Time for a program to end after its last test.
const ENDING: Duration = Duration::from_secs(60);

/// What every program is run against.
struct Servers {
    open: Server,
    /// TLS and passwords.
    secure: Server,
    /// TLS with certificates of clients.
    mutual: Server,
    certificates: Certificates,
}

impl Servers {
    fn start(options: &Options, shards: u16) -> Result<Servers, String> {
        let certificates = Certificates::make(&options.folder("certificates")?)?;
        let open = options.server("drivers", shards)?;
        let secure = options.secure_server("drivers-secure", shards, &certificates)?;
        let yaml = certificates.asking_yaml("true") + "authenticator: AllowAllAuthenticator\n";
        let mutual = options.server_with("drivers-mutual", shards, yaml)?;
        Ok(Servers { open, secure, mutual, certificates })
    }

    fn stop(&mut self) -> Result<(), String> {
        self.mutual.stop()?;
        self.secure.stop()?;
        self.open.stop()
    }
}

/// Runs the chosen drivers against all of them.
pub fn run(options: &Options, shards: u16, drivers: &[&str], report: &mut Report) {
    let mut started = None;
    report.test(&format!("drivers::start --smp {shards}"), || {
        started = Some(Servers::start(options, shards)?);
        Ok(String::new())
    });
    let Some(mut servers) = started else { return };
    for driver in drivers {
        let ended = converse(options, shards, driver, &servers, report);
        report.test(&format!("{driver}::end --smp {shards}"), || ended);
        if *driver == scylla::NAME {
            let name = format!("{driver}::python_paging --smp {shards}");
            report.test(&name, || python::run_shard_aware(options, &servers.open));
        }
    }
    report.test(&format!("drivers::stop --smp {shards}"), || servers.stop().map(|()| String::new()));
}

/// Starts the servers and waits, as long as standard input is open, for somebody to try something on them.
pub fn serve(options: &Options, shards: u16) -> Result<(), String> {
    let mut servers = Servers::start(options, shards)?;
    let Servers { open, secure, mutual, certificates } = &servers;
    println!("open {} secure {} mutual {} {certificates:?}", open.address, secure.address, mutual.address);
    let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
    servers.stop()
}

/// Runs one program, turning its lines into outcomes.
fn converse(
    options: &Options,
    shards: u16,
    driver: &str,
    servers: &Servers,
    report: &mut Report,
) -> Result<String, String> {
    let mut program = program(driver)?;
    let Servers { open, secure, mutual, certificates } = servers;
    let log = open.folder.join(format!("{driver}.log"));
    let errors = std::fs::File::create(&log).map_err(|error| format!("{}: {error}", log.display()))?;
    program
        .env("NODE_HOST", open.address.ip().to_string())
        .env("NODE_PORT", open.address.port().to_string())
        .env("NODE_SECURE_PORT", secure.address.port().to_string())
        .env("NODE_MUTUAL_PORT", mutual.address.port().to_string())
        .env("NODE_SHARDS", if options.against_cassandra { "0".into() } else { shards.to_string() })
        .env("NODE_AUTHORITY", &certificates.authority)
        .env("NODE_STRANGER", &certificates.stranger)
        .env("NODE_CLIENT", &certificates.client)
        .env("NODE_IMPOSTOR", &certificates.impostor)
        .env("SUITE_DRIVER", driver)
        .env("SUITE_CASES", paths::resources().join("cases"))
        .env("SUITE_ROWS", options.rows.to_string())
        .env("SUITE_QUICK", if options.quick { "1" } else { "0" })
        .env("SUITE_ONLY", options.only.as_deref().unwrap_or(""))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(errors);
    let mut child = program.spawn().map_err(|error| format!("{driver}: {error}"))?;
    let output = BufReader::new(child.stdout.take().expect("standard output was piped"));
    let mut listener = Listener { prefix: driver, shards, open: None, told: 0, claimed: None };
    for line in output.lines() {
        listener.line(&line.map_err(|error| format!("{driver}: {error}"))?, report);
    }
    listener.close(report);
    let ended = command::wait(&mut child, ENDING);
    let _ = child.kill();
    let words = || command::tail(&command::read(&log).unwrap_or_default(), 40);
    match (ended, listener.claimed) {
        (Some(true), Some(claimed)) if claimed == listener.told && claimed > 0 => {
            Ok(format!("{claimed} tests"))
        }
        (ended, claimed) => Err(format!(
            "ended with {ended:?} after {} tests, {claimed:?} by its own count:\n{}",
            listener.told,
            words()
        )),
    }
}

/// Reads a program's lines.
struct Listener<'a> {
    prefix: &'a str,
    shards: u16,
    /// A failed test, and what was said of it so far.
    open: Option<(String, String)>,
    told: usize,
    claimed: Option<usize>,
}

impl Listener<'_> {
    fn line(&mut self, line: &str, report: &mut Report) {
        if let Some(count) = line.strip_prefix("end ").and_then(|count| count.parse().ok()) {
            self.close(report);
            self.claimed = Some(count);
            return;
        }
        let told = line.strip_prefix("test ").and_then(|rest| rest.split_once(" ... "));
        match (told, &mut self.open) {
            (Some((name, verdict)), _) => {
                self.close(report);
                self.told += 1;
                let name = format!("{}::{name} --smp {}", self.prefix, self.shards);
                match verdict.strip_prefix("ok") {
                    Some(note) => report.passed(name, note.trim()),
                    None => self.open = Some((name, String::new())),
                }
            }
            (None, Some((_, why))) => {
                why.push_str(line);
                why.push('\n');
            }
            (None, None) => println!("{line}"),
        }
    }

    fn close(&mut self, report: &mut Report) {
        if let Some((name, why)) = self.open.take() {
            report.failed(name, why);
        }
    }
}

/// Brings and builds the program of a driver.
fn program(driver: &str) -> Result<Command, String> {
    let sources = paths::resources();
    let python = |bin: &Path| {
        let mut command = Command::new(bin.join("python"));
        command.arg(sources.join("python/cases.py")).env("PYTHONDONTWRITEBYTECODE", "1");
        command
    };
    match driver {
        "java4" | "java3" => {
            let mut java = Command::new("java");
            java.args(["-Xmx512M", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp"])
                .arg(packages::java_driver(driver)?)
                .arg("messina.Cases");
            Ok(java)
        }
        "gocql1" | "gocql2" => Ok(Command::new(packages::gocql(driver)?)),
        "nodejs" => {
            let folder = packages::nodejs()?;
            let mut node = Command::new("node");
            node.arg(folder.join("cases.js"));
            Ok(node)
        }
        "pycassandra" => Ok(python(&packages::python_cassandra()?)),
        "pyscylla" => Ok(python(&packages::python_scylla()?)),
        scylla::NAME => scylla::program(),
        other => Err(format!("there is no driver {other}")),
    }
}
