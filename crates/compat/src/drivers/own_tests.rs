//! The drivers' own tests of conditional statements, counters, batches and passwords, as their authors wrote them.
//!
//! Only Go's drivers publish tests that take the address of a server: the packages of the Node.js, Python, Rust and Java drivers
//! contain none, and those in their repositories start Cassandra themselves, by ccm. `TestUnpreparedBatch`, which
//! counts in a batch, is skipped by its authors.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::command;
use crate::paths;
use crate::server::Server;
use crate::suite::{Options, Report};

/// Time for a driver's tests, with their compilation.
const LIMIT: Duration = Duration::from_secs(900);

/// A driver's module, and which of its tests are run.
struct Driver {
    name: &'static str,
    module: &'static str,
    protocol: u8,
    tests: &'static [&'static str],
}

/// What both versions of Go's driver test.
const SHARED: [&str; 13] = [
    "TestCAS",
    "TestMapScanCAS",
    "TestScanCASWithNilArguments",
    "TestBatch",
    "TestBatchLimit",
    "TestBatchQueryInfo",
    "TestBatchStats",
    "TestBatchObserve",
    "TestBatch_Errors",
    "TestBatch_WithTimestamp",
    "TestUnsetCol",
    "TestUnsetColBatch",
    "TestPrepare_ReprepareBatch",
];

const DRIVERS: [Driver; 2] = [
    Driver { name: "gocql1", module: "github.com/gocql/gocql", protocol: 4, tests: &[] },
    Driver {
        name: "gocql2",
        module: "github.com/apache/cassandra-gocql-driver/v2",
        protocol: 5,
        tests: &["TestSliceMapMapScanCounterTypes", "TestBatch_WithNowInSeconds", "TestBatch_SetKeyspace"],
    },
];

/// Runs them, each driver's against a node of its own, then its login against one that asks for passwords.
pub fn run(options: &Options, shards: u16, report: &mut Report) {
    for driver in &DRIVERS {
        let name = driver.name;
        let wanted: Vec<&str> = SHARED.iter().chain(driver.tests).copied().collect();
        report.test(&format!("own_tests::{name} --smp {shards}"), || {
            let mut server = options.server(&format!("{name}-own"), shards)?;
            let said = tests(options, driver, &server, &wanted, &[])?;
            server.stop()?;
            Ok(said)
        });
        report.test(&format!("own_tests::{name}_password --smp {shards}"), || {
            let yaml = "authenticator: PasswordAuthenticator\n".to_owned();
            let mut server = options.server_with(&format!("{name}-password"), shards, yaml)?;
            let said = tests(options, driver, &server, &["TestAuthentication"], &["-runauth"])?;
            server.stop()?;
            Ok(said)
        });
    }
}

fn tests(
    options: &Options,
    driver: &Driver,
    server: &Server,
    wanted: &[&str],
    more: &[&str],
) -> Result<String, String> {
    let folder = options.folder(&format!("{}-tests", driver.name))?;
    copy_tree(&source(driver)?, &folder)?;
    let mut go = Command::new("go");
    go.current_dir(&folder)
        .args(["test", "-tags", "all cassandra integration", "-count=1", "-v", "-run"])
        .arg(format!("^({})$", wanted.join("|")))
        .args([".", "-args", "-rf=1", "-clusterSize=1", "-gocql.cversion=5.0.0"])
        .arg(format!("-proto={}", driver.protocol))
        .arg(format!("-cluster={}", server.address))
        .args(more);
    let said = command::run(&mut go, &folder.join("go-test.log"), LIMIT)?;
    let passed = |test: &&&str| said.lines().any(|line| line.starts_with(&format!("--- PASS: {test} ")));
    let missing: Vec<&&str> = wanted.iter().filter(|test| !passed(test)).collect();
    if missing.is_empty() {
        return Ok(format!("{} of its own tests", wanted.len()));
    }
    Err(format!("{missing:?} were not passed:\n{}", command::tail(&said, 40)))
}

/// Where Go keeps the module in the version that the programs of `gocql/` use.
fn source(driver: &Driver) -> Result<PathBuf, String> {
    let log = paths::scratch().join(format!("{}-module.log", driver.name));
    let mut go = Command::new("go");
    go.args(["mod", "download", "-json", driver.module]);
    go.current_dir(paths::resources().join("gocql").join(driver.name));
    let said = command::run(&mut go, &log, LIMIT)?;
    let dir = said.lines().find_map(|line| line.trim().strip_prefix("\"Dir\": \""));
    let dir = dir.and_then(|rest| rest.split('"').next());
    dir.map(PathBuf::from).ok_or_else(|| format!("go mod download names no folder:\n{said}"))
}

/// Copies a folder of Go's cache, whose files may not be written, into one where Go may.
fn copy_tree(from: &Path, to: &Path) -> Result<(), String> {
    let told = |error: std::io::Error| format!("{}: {error}", to.display());
    fs::create_dir_all(to).map_err(told)?;
    for entry in fs::read_dir(from).map_err(told)? {
        let entry = entry.map_err(told)?;
        let copy = to.join(entry.file_name());
        if entry.file_type().map_err(told)?.is_dir() {
            copy_tree(&entry.path(), &copy)?;
        } else {
            // Contents without the mode that forbids writing.
            fs::write(&copy, fs::read(entry.path()).map_err(told)?).map_err(told)?;
        }
    }
    Ok(())
}
