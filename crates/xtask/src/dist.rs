//! `cargo x dist`: the binary as it is released.
//!
//! Compiled whole at once, and with what a training run showed of it: which branches are taken, and which functions are
//! worth their room in others. The training is work of every kind that the binary itself can make: one shard whose data does
//! not fit its memory, then two shards with all published runs at their tiniest scale. A first build counts, the run
//! writes what it counted, a second build uses that. `--profile FILE` uses counts of an earlier run instead: functions
//! that changed since then are compiled without. Needs LLVM's `llvm-profdata`; `make dist` brings it.
//! What is shipped is a stripped copy ([`shipped`]); benches and the training run the program as Cargo built it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use crate::bench_node::{self, BenchNode};
use crate::{Outcome, house, shipped};

/// LLVM's tool for profiles, by the names that systems give it.
const TOOLS: &[&str] =
    &["llvm-profdata-22", "llvm-profdata-21", "llvm-profdata-20", "llvm-profdata-19", "llvm-profdata"];
/// The first release of LLVM whose tool reads what programs of this compiler write.
const LLVM: u32 = 19;
/// Memory of the one shard: a fifth of its data.
const MEMORY: &str = "256M";
/// Published runs that the two shards are trained with.
const RUNS: &[&str] =
    &["bare-metal-2017", "oci-2018", "catalogue-2018", "write-heavy-2dc", "cloudsuite", "file-catalogue"];
/// Loads of the one shard, in this order; inserts come often, because flushes and compactions come with them.
const LOADS: &[(&str, &[&str])] = &[
    ("stress", &["--workload", "insert", "--draw", "sequence", "--seconds", "86400"]),
    ("usertable", &["--workload", "insert", "--draw", "sequence", "--seconds", "86400"]),
    ("stress", &["--workload", "insert", "--draw", "gaussian", "--keep-data"]),
    ("stress", &["--workload", "read", "--draw", "gaussian", "--keep-data"]),
    ("stress", &["--workload", "mixed", "--reads", "0.9", "--draw", "gaussian", "--keep-data"]),
    ("usertable", &["--workload", "mixed", "--draw", "zipfian", "--keep-data"]),
    ("kv", &["--workload", "mixed", "--draw", "uniform"]),
    ("kv", &["--workload", "delete", "--keep-data"]),
    ("stress", &["--workload", "insert", "--draw", "uniform", "--keep-data"]),
    (
        "stress",
        &["--workload", "scan", "--keep-data", "--connections", "4", "--depth", "2", "--seconds", "86400"],
    ),
];

/// Builds it and makes the files that are shipped; says where they are. `--has-tool` only looks whether that could be done.
pub fn dist(rest: &[String]) -> Outcome {
    if rest.iter().any(|word| word == "--has-tool") {
        return tool().map(|tool| format!("counts are put together by {}", tool.display()));
    }
    shipped::has_tool()?;
    let profile = match house::option(rest, "--profile") {
        Some(file) => PathBuf::from(file),
        None => trained()?,
    };
    let program = with_profile("messina", &profile)?;
    let files = shipped::ship(&program)?;
    Ok(format!("built   {}\n{files}", program.display()))
}

/// The binary to compare with other systems: the one given by `--binary`, or one as it is released; for a smoke run one that is
/// built faster.
pub fn binary(words: &[String], smoke: bool) -> Result<PathBuf, String> {
    if smoke || house::option(words, "--binary").is_some() {
        return house::binary(words, house::profile(words));
    }
    program("messina")
}

/// How what [`binary`] names was compiled, for the head of a result.
pub fn compiled_how(words: &[String]) -> &'static str {
    match house::option(words, "--binary") {
        Some(_) => "by a binary that was given",
        None => "as `cargo x dist` compiles it",
    }
}

/// A program of the house, its crates compiled as they are released.
pub fn program(package: &str) -> Result<PathBuf, String> {
    with_profile(package, &trained()?)
}

fn with_profile(package: &str, profile: &Path) -> Result<PathBuf, String> {
    let profile = profile.canonicalize().map_err(|error| format!("{}: {error}", profile.display()))?;
    compiled(package, &format!("-Cprofile-use={}", profile.display()))
}

/// Compiles in a target folder of its own: all packages are compiled with the flags. For a named target, so that programs
/// that only run while compiling are not. Always with the same of Cargo's profiles: it is part of the names by which
/// counts are told apart.
fn compiled(package: &str, flags: &str) -> Result<PathBuf, String> {
    const PROFILE: &str = "dist";
    let target = house::target().join("trained");
    let triple = host()?;
    let mut cargo = house::cargo();
    cargo.args(["build", "--package", package, "--profile", PROFILE, "--target", &triple]);
    // Not RUSTFLAGS: these win over it, and a path may hold spaces.
    house::run(cargo.env("CARGO_TARGET_DIR", &target).env("CARGO_ENCODED_RUSTFLAGS", flags))?;
    Ok(target.join(triple).join(PROFILE).join(package))
}

fn host() -> Result<String, String> {
    let text = house::output(house::command("rustc").arg("-vV"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("host: "));
    line.map(str::to_owned).ok_or("rustc -vV names no host".into())
}

/// What is compiled: other files may change.
const SOURCE: &[&str] = &["crates", "Cargo.toml", "Cargo.lock", "rust-toolchain.toml"];

/// The names that git has for the source as it was committed; `None` when it is not what was committed.
fn source() -> Option<String> {
    let git = |words: &[&str], paths: Vec<String>| {
        house::output(house::command("git").args(words).args(paths)).ok()
    };
    let changed =
        git(&["status", "--porcelain", "--"], SOURCE.iter().map(|path| path.to_string()).collect())?;
    let names = git(&["rev-parse"], SOURCE.iter().map(|path| format!("HEAD:{path}")).collect())?;
    changed.trim().is_empty().then_some(names)
}

/// What a training run of this source counted, as one file. One that is there already is used again.
fn trained() -> Result<PathBuf, String> {
    let trained = house::target().join("trained");
    let (merged, of) = (trained.join("messina.profdata"), trained.join("messina.profdata.of"));
    let source = source();
    let known = std::fs::read_to_string(&of).ok();
    if source.is_some() && source == known && merged.exists() {
        return Ok(merged);
    }
    let folder = trained.join("counts");
    let told = |error: std::io::Error| format!("{}: {error}", folder.display());
    if folder.exists() {
        std::fs::remove_dir_all(&folder).map_err(told)?;
    }
    std::fs::create_dir_all(&folder).map_err(told)?;
    let tool = tool()?;
    println!("building the binary that counts");
    let counting = compiled("messina", &format!("-Cprofile-generate={}", folder.display()))?;
    println!("training it");
    one_shard(&counting, &folder)?;
    two_shards(&counting, &folder)?;
    house::run(house::command(&tool).arg("merge").arg(&folder).arg("-o").arg(&merged))?;
    std::fs::remove_dir_all(&folder).map_err(told)?;
    std::fs::write(&of, source.unwrap_or_default()).map_err(|error| format!("{}: {error}", of.display()))?;
    Ok(merged)
}

/// Data that does not fit into memory.
fn one_shard(binary: &Path, counts: &Path) -> Result<(), String> {
    let mut node = BenchNode::start(binary, "training", MEMORY, "")?;
    for (table, words) in LOADS {
        let seconds: &[&str] = if words.contains(&"--seconds") { &[] } else { &["--seconds", "8"] };
        let keys = if *table == "usertable" { "300000" } else { "1500000" };
        let common = ["--table", table, "--keys", keys, "--warm-up", "0"];
        let depth: &[&str] =
            if words.contains(&"--depth") { &[] } else { &["--connections", "8", "--depth", "16"] };
        bench_node::load(binary, &node.address(), &[words, &common[..], seconds, depth].concat())?;
    }
    node.nodetool(&["compact"])?;
    stop(&mut node, counts)?;
    node.restart()?;
    let load = |node: &BenchNode, workload, seconds| {
        let words = ["--table", "stress", "--keys", "1500000", "--workload", workload, "--keep-data"];
        bench_node::load(binary, &node.address(), &[&words[..], &["--seconds", seconds]].concat())
    };
    // What is replayed counts in the process that replays it; one that is killed writes nothing.
    load(&node, "insert", "3")?;
    node.kill();
    node.restart()?;
    load(&node, "read", "8")?;
    stop(&mut node, counts)?;
    bench_node::remove_folder(&node.folder)
}

/// What else is done with a node: batches, collections, pages of rows, moves, scans by token.
fn two_shards(binary: &Path, counts: &Path) -> Result<(), String> {
    let shards = ["--smp", "2", "--memory", "1G", "--overprovisioned"];
    let mut node = BenchNode::spread(binary, "training-runs", &shards, "", "0,1")?;
    let address = node.address();
    let (ip, port) = address.split_once(':').expect("an address names a port");
    for name in RUNS {
        let report = node.folder.join("report").join(name);
        let mut run = house::command(binary);
        run.args([
            "bench",
            "run",
            name,
            "--scale",
            "tiny",
            "--node",
            ip,
            "--port",
            port,
            "--metrics-port",
            "0",
        ]);
        house::output(run.arg("--folder").arg(report))?;
    }
    stop(&mut node, counts)?;
    bench_node::remove_folder(&node.folder)
}

/// Ends a node. Errors: its counts were not written.
fn stop(node: &mut BenchNode, counts: &Path) -> Result<(), String> {
    let before = SystemTime::now();
    node.stop()?;
    let told = |error: std::io::Error| format!("{}: {error}", counts.display());
    for entry in std::fs::read_dir(counts).map_err(told)? {
        // Processes add to one file.
        let meta = entry.and_then(|entry| entry.metadata()).map_err(told)?;
        if meta.len() > 0 && meta.modified().map_err(told)? >= before {
            return Ok(());
        }
    }
    Err(format!("a node ended and wrote no counts into {}", counts.display()))
}

/// The tool that puts the counts of processes together. Errors: there is none, or none that is new enough.
fn tool() -> Result<PathBuf, String> {
    let of_toolchain = house::output(house::command("rustc").args(["--print", "target-libdir"]))?;
    let of_toolchain = Path::new(of_toolchain.trim()).with_file_name("bin/llvm-profdata");
    let mut old = Vec::new();
    for name in std::iter::once(of_toolchain.as_path()).chain(TOOLS.iter().map(Path::new)) {
        let Ok(output) = Command::new(name).args(["merge", "--version"]).output() else { continue };
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let version = text.split("LLVM version ").nth(1).and_then(|rest| rest.split('.').next());
        match version.and_then(|version| version.trim().parse::<u32>().ok()) {
            Some(version) if version >= LLVM => return Ok(name.to_path_buf()),
            Some(version) => old.push(format!("{} is of LLVM {version}", name.display())),
            None => {}
        }
    }
    Err(format!(
        "llvm-profdata of LLVM {LLVM} or newer is missing: `rustup component add llvm-tools`, or a package of the system's, such \
         as llvm-{LLVM}, brings it. {}",
        old.join(", ")
    ))
}
