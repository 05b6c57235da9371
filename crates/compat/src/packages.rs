//! Brings the client packages, at pinned versions, into the cache folder; what is there already is used as it is.
//!
//! A folder is complete when it holds the file `complete` with the pins it was made from, so that an interrupted
//! download is made again and a changed pin makes a new folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use crate::sstables::older;
use crate::suite::Options;
use crate::{command, paths, scylla};

/// Long enough for a slow mirror.
const LIMIT: Duration = Duration::from_secs(1200);

/// Brings everything the default suites use.
pub fn bring_all(options: &Options) -> Result<(), String> {
    python_cassandra()?;
    python_scylla()?;
    ycsb()?;
    stress()?;
    for driver in ["java4", "java3"] {
        java_driver(driver)?;
    }
    for driver in ["gocql1", "gocql2"] {
        gocql(driver)?;
    }
    porcupine()?;
    nodejs()?;
    scylla::program()?;
    if options.with_cassandra {
        cassandra()?;
        for older in &older::OLDER {
            older_cassandra(older.release)?;
        }
    }
    println!("client packages are in {}", paths::clients().display());
    Ok(())
}

/// The first argument that asks where the classes of a Java program are: for benches.
pub const WORD: &str = "class-path";

/// `compat class-path java4|ycsb|stress` brings the program and prints its class path, after the word `class-path`.
pub fn class_path(words: &[String]) -> ExitCode {
    let found = match words {
        [name] if name == "java4" => java_driver(name),
        [name] if name == "ycsb" => ycsb(),
        [name] if name == "stress" => stress(),
        _ => Err("class-path java4|ycsb|stress".to_owned()),
    };
    match found {
        Ok(path) => {
            println!("{WORD} {path}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("compat: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Python with the stock driver and cqlsh; returns the environment's `bin`.
pub fn python_cassandra() -> Result<PathBuf, String> {
    python("python-cassandra", "requirements-cassandra.txt")
}

/// Python with the shard-aware driver; returns the environment's `bin`.
pub fn python_scylla() -> Result<PathBuf, String> {
    python("python-scylla", "requirements-scylla.txt")
}

/// The jars of YCSB and of the Java driver, our binding and a program that prints reports compiled; returns the class path.
pub fn ycsb() -> Result<String, String> {
    let project = paths::resources().join("ycsb");
    let (pom, sources) = (project.join("pom.xml"), self::sources(&project.join("src/main/java/messina"))?);
    let pins = command::read(&pom)? + &contents(&sources)?;
    let folder = bring("ycsb", &pins, |folder| {
        jars(&pom, &folder.join("jars"))?;
        let mut javac = Command::new("javac");
        javac
            .args(["-nowarn", "-proc:none", "-source", "11", "-target", "11", "-cp"])
            .arg(folder.join("jars/*"))
            .arg("-d")
            .arg(folder.join("classes"))
            .args(&sources);
        command::run(&mut javac, &folder.join("javac.log"), LIMIT).map(drop)
    })?;
    Ok(format!("{}:{}/jars/*", folder.join("classes").display(), folder.display()))
}

/// The load generator of Cassandra 3.11, and our programs that ask it about command lines and files; returns the class path.
pub fn stress() -> Result<String, String> {
    let project = paths::resources().join("stress");
    let (pom, sources) = (project.join("pom.xml"), self::sources(&project.join("java"))?);
    let pins = command::read(&pom)? + &contents(&sources)?;
    let class_path =
        |folder: &Path| format!("{0}/tools/lib/*:{0}/lib/*:{0}/jars/*:{0}/classes", folder.display());
    let folder = bring("stress", &pins, |folder| {
        let jars = folder.join("jars");
        self::jars(&pom, &jars)?;
        let told = |error: std::io::Error| format!("{}: {error}", jars.display());
        for entry in fs::read_dir(&jars).map_err(told)? {
            let archive = entry.map_err(told)?.path();
            if archive.extension().is_some_and(|end| end == "gz") {
                let mut tar = Command::new("tar");
                tar.arg("--directory").arg(folder).arg("--extract").arg("--file").arg(&archive);
                tar.args(["--strip-components=1", "--wildcards", "*/lib/*.jar"]);
                command::run(&mut tar, &folder.join("tar.log"), LIMIT)?;
                fs::remove_file(&archive).map_err(told)?;
            }
        }
        let mut javac = Command::new("javac");
        javac
            .args(["-nowarn", "-proc:none", "-cp", &class_path(folder), "-d"])
            .arg(folder.join("classes"))
            .args(&sources);
        command::run(&mut javac, &folder.join("javac.log"), LIMIT).map(drop)
    })?;
    Ok(class_path(&folder))
}

const CHROMIUM: &str = "/usr/bin/chromium";

/// Whether a browser is there already.
pub fn has_chromium() -> bool {
    Path::new(CHROMIUM).exists()
}

/// A browser, from the distribution's packages; returns its program.
pub fn chromium() -> Result<PathBuf, String> {
    let program = PathBuf::from(CHROMIUM);
    if !program.exists() {
        println!("bringing chromium");
        let log = paths::cache().join("chromium.log");
        let mut apt = Command::new("apt-get");
        apt.args(["install", "--yes", "--no-install-recommends", "chromium"])
            .env("DEBIAN_FRONTEND", "noninteractive");
        command::run(&mut apt, &log, LIMIT)?;
    }
    Ok(program)
}

/// The jars of a Java driver and our program compiled; returns the class path.
pub fn java_driver(name: &str) -> Result<String, String> {
    let project = paths::resources().join("java").join(name);
    let mut sources = sources(&paths::resources().join("java/shared/messina"))?;
    sources.extend(self::sources(&project.join("messina"))?);
    let pom = project.join("pom.xml");
    let jar_folder = bring(name, &command::read(&pom)?, |folder| jars(&pom, &folder.join("jars")))?;
    let classes = bring(&format!("{name}-classes"), &contents(&sources)?, |folder| {
        let mut javac = Command::new("javac");
        javac
            .args(["-nowarn", "-proc:none", "-encoding", "UTF-8", "-source", "11", "-target", "11", "-cp"])
            .arg(jar_folder.join("jars/*"))
            .arg("-d")
            .arg(folder.join("classes"))
            .args(&sources);
        command::run(&mut javac, &folder.join("javac.log"), LIMIT).map(drop)
    })?;
    Ok(format!("{}:{}/jars/*", classes.join("classes").display(), jar_folder.display()))
}

/// Our program built with a version of gocql; returns its path.
///
/// The two versions differ in the path of the module and little else, so their programs share their sources: each is
/// built from a copy in which the path is its own.
pub fn gocql(name: &str) -> Result<PathBuf, String> {
    let project = paths::resources().join("gocql").join(name);
    let mut sources = sources(&paths::resources().join("gocql/shared"))?;
    sources.extend(self::sources(&project)?);
    let folder = bring(name, &contents(&sources)?, |folder| {
        for source in &sources {
            let text = command::read(source)?
                .replace("\"messina.invalid/gocql\"", GOCQL[usize::from(name == "gocql2")]);
            let copy = folder.join(source.file_name().unwrap_or_default());
            fs::write(&copy, text).map_err(|error| format!("{}: {error}", copy.display()))?;
        }
        let mut go = Command::new("go");
        go.args(["build", "-o", "cases", "."]).current_dir(folder);
        command::run(&mut go, &folder.join("build.log"), LIMIT).map(drop)
    })?;
    Ok(folder.join("cases"))
}

/// The import of the driver's version 1 and of its version 2.
const GOCQL: [&str; 2] =
    ["\"github.com/gocql/gocql\"", "gocql \"github.com/apache/cassandra-gocql-driver/v2\""];

/// Our program that asks the Go package of this name whether a history is linearizable; returns its path.
pub fn porcupine() -> Result<PathBuf, String> {
    let sources = sources(&paths::resources().join("porcupine"))?;
    let folder = bring("porcupine", &contents(&sources)?, |folder| {
        copy(&sources, folder)?;
        let mut go = Command::new("go");
        go.args(["build", "-o", "porcupine", "."]).current_dir(folder);
        command::run(&mut go, &folder.join("build.log"), LIMIT).map(drop)
    })?;
    Ok(folder.join("porcupine"))
}

/// The Node.js driver and our program; returns their folder.
pub fn nodejs() -> Result<PathBuf, String> {
    let sources = sources(&paths::resources().join("nodejs"))?;
    bring("nodejs", &contents(&sources)?, |folder| {
        copy(&sources, folder)?;
        let mut npm = Command::new("npm");
        npm.args(["ci", "--no-audit", "--no-fund", "--ignore-scripts"]).current_dir(folder);
        command::run(&mut npm, &folder.join("npm.log"), LIMIT).map(drop)
    })
}

/// Copies files into a folder.
fn copy(files: &[PathBuf], folder: &Path) -> Result<(), String> {
    for file in files {
        let copy = folder.join(file.file_name().unwrap_or_default());
        fs::copy(file, &copy).map_err(|error| format!("{}: {error}", copy.display()))?;
    }
    Ok(())
}

/// The files of a folder, in order.
fn sources(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let told = |error: std::io::Error| format!("{}: {error}", folder.display());
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(told)? {
        let path = entry.map_err(told)?.path();
        if path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// All of them, one behind the other: what a build depends on.
fn contents(files: &[PathBuf]) -> Result<String, String> {
    files.iter().map(|file| command::read(file)).collect()
}

/// The jars of Apache Cassandra; returns their folder.
pub fn cassandra() -> Result<PathBuf, String> {
    let pom = paths::resources().join("cassandra/pom.xml");
    let pins = command::read(&pom)?;
    let folder = bring("cassandra", &pins, |folder| jars(&pom, &folder.join("jars")))?;
    Ok(folder.join("jars"))
}

/// The jars of one of its releases before 4.0; returns their folder.
pub fn older_cassandra(release: &str) -> Result<PathBuf, String> {
    let pom = paths::resources().join("cassandra/older.xml");
    let pins = command::read(&pom)? + release;
    let folder = bring(&format!("cassandra-{release}"), &pins, |folder| {
        jars_of(&pom, &folder.join("jars"), &[format!("-Drelease={release}")])
    })?;
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
    jars_of(pom, into, &[])
}

/// With properties of the project.
fn jars_of(pom: &Path, into: &Path, properties: &[String]) -> Result<(), String> {
    let mut maven = Command::new("mvn");
    maven
        .args(["--batch-mode", "--quiet", "--file"])
        .arg(pom)
        .arg("dependency:copy-dependencies")
        .arg(format!("-DoutputDirectory={}", into.display()))
        .args(properties);
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
