//! Brings the client packages, at pinned versions, into the cache folder; what is there already is used as it is.
//!
//! A folder is complete when it holds the file `complete` with the pins it was made from, so that an interrupted
//! download is made again and a changed pin makes a new folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::suite::Options;
use crate::{command, paths};

/// Long enough for a slow mirror.
const LIMIT: Duration = Duration::from_secs(1200);

/// Brings everything the default suites use.
pub fn bring_all(options: &Options) -> Result<(), String> {
    python_cassandra()?;
    python_scylla()?;
    ycsb()?;
    if options.with_cassandra {
        cassandra()?;
    }
    println!("client packages are in {}", paths::clients().display());
    Ok(())
}

/// Python with the stock driver and cqlsh; returns the environment's `bin`.
pub fn python_cassandra() -> Result<PathBuf, String> {
    python("python-cassandra", "requirements-cassandra.txt")
}

/// Python with the shard-aware driver; returns the environment's `bin`.
pub fn python_scylla() -> Result<PathBuf, String> {
    python("python-scylla", "requirements-scylla.txt")
}

/// The jars of YCSB and of the Java driver, and our binding compiled; returns the class path.
pub fn ycsb() -> Result<String, String> {
    let project = paths::resources().join("ycsb");
    let source = project.join("src/main/java/messina/CqlBinding.java");
    let pom = project.join("pom.xml");
    let pins = command::read(&pom)? + &command::read(&source)?;
    let folder = bring("ycsb", &pins, |folder| {
        jars(&pom, &folder.join("jars"))?;
        let mut javac = Command::new("javac");
        javac
            .args(["-nowarn", "-proc:none", "-source", "11", "-target", "11", "-cp"])
            .arg(folder.join("jars/*"))
            .arg("-d")
            .arg(folder.join("classes"))
            .arg(&source);
        command::run(&mut javac, &folder.join("javac.log"), LIMIT).map(drop)
    })?;
    Ok(format!("{}:{}/jars/*", folder.join("classes").display(), folder.display()))
}

/// The jars of Apache Cassandra; returns their folder.
pub fn cassandra() -> Result<PathBuf, String> {
    let pom = paths::resources().join("cassandra/pom.xml");
    let pins = command::read(&pom)?;
    let folder = bring("cassandra", &pins, |folder| jars(&pom, &folder.join("jars")))?;
    Ok(folder.join("jars"))
}

fn python(name: &str, requirements: &str) -> Result<PathBuf, String> {
    let requirements = paths::resources().join("python").join(requirements);
    let pins = command::read(&requirements)?;
    let folder = bring(name, &pins, |folder| {
        let mut venv = Command::new("python3");
        venv.args(["-m", "venv"]).arg(folder.join("venv"));
        command::run(&mut venv, &folder.join("venv.log"), LIMIT)?;
        let mut pip = Command::new(folder.join("venv/bin/pip"));
        pip.args(["install", "--quiet", "--disable-pip-version-check", "--requirement"]).arg(&requirements);
        command::run(&mut pip, &folder.join("pip.log"), LIMIT).map(drop)
    })?;
    Ok(folder.join("venv/bin"))
}

fn jars(pom: &Path, into: &Path) -> Result<(), String> {
    let mut maven = Command::new("mvn");
    maven
        .args(["--batch-mode", "--quiet", "--file"])
        .arg(pom)
        .arg("dependency:copy-dependencies")
        .arg(format!("-DoutputDirectory={}", into.display()));
    command::run(&mut maven, &into.with_extension("log"), LIMIT).map(drop)
}

/// The folder `name`, made by `fill` unless an earlier run completed it from the same pins.
fn bring(name: &str, pins: &str, fill: impl FnOnce(&Path) -> Result<(), String>) -> Result<PathBuf, String> {
    let folder = paths::clients().join(name);
    let mark = folder.join("complete");
    if fs::read_to_string(&mark).is_ok_and(|text| text == pins) {
        return Ok(folder);
    }
    println!("bringing {name} into {}", folder.display());
    let told = |error: std::io::Error| format!("{}: {error}", folder.display());
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(told)?;
    }
    fs::create_dir_all(&folder).map_err(told)?;
    fill(&folder)?;
    fs::write(&mark, pins).map_err(told)?;
    Ok(folder)
}
