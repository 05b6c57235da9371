//! `cargo x fuzz`: libFuzzer over every decoder of bytes, on the stable toolchain.
//!
//! The targets live in `fuzz/`, a workspace of its own. The crates under test are safe Rust, so no address sanitizer is
//! asked for: coverage counters, debug assertions and overflow checks find what there is to find. `cargo fuzz` works on
//! the same folder where a nightly toolchain is at hand.

use std::path::Path;

use crate::{Outcome, house};

/// Coverage instrumentation as libFuzzer reads it.
const FLAGS: &[&str] = &[
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Ccodegen-units=1",
    "-Cdebug-assertions",
    "-Coverflow-checks",
    "--cfg=fuzzing",
];

/// Builds the targets and runs one, or all in turn, for `--minutes N` each (default 10; `--seconds N` for CI).
pub fn fuzz(rest: &[String]) -> Outcome {
    let seconds = match (house::option(rest, "--minutes"), house::option(rest, "--seconds")) {
        (Some(minutes), _) => minutes.parse::<u64>().map_err(|_| "--minutes wants a number")? * 60,
        (None, Some(seconds)) => seconds.parse().map_err(|_| "--seconds wants a number")?,
        (None, None) => 600,
    };
    let all = targets()?;
    let chosen: Vec<&String> = match rest.first().filter(|word| !word.starts_with("--")) {
        Some(name) => {
            vec![all.iter().find(|target| *target == name).ok_or(format!("targets: {}", all.join(", ")))?]
        }
        None => all.iter().collect(),
    };
    let folder = build()?;
    for name in &chosen {
        run(&folder, name, seconds)?;
    }
    Ok(format!("fuzz result: ok. {} targets, {seconds} s each", chosen.len()))
}

/// The targets are the files in `fuzz/targets`.
fn targets() -> Result<Vec<String>, String> {
    let folder = house::root().join("fuzz/targets");
    let entries = std::fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut names: Vec<String> = entries
        .filter_map(Result::ok)
        .filter_map(|entry| Some(entry.path().file_stem()?.to_str()?.to_owned()))
        .collect();
    names.sort();
    Ok(names)
}

fn build() -> Result<std::path::PathBuf, String> {
    let target = house::target().join("fuzz");
    let triple = host()?;
    let mut cargo = house::cargo();
    cargo
        .args(["build", "--release", "--bins", "--manifest-path", "fuzz/Cargo.toml"])
        // A target named explicitly keeps the flags away from build scripts.
        .args(["--target", &triple, "--target-dir"])
        .arg(&target)
        .env("CARGO_ENCODED_RUSTFLAGS", FLAGS.join("\u{1f}"));
    house::run(&mut cargo)?;
    Ok(target.join(triple).join("release"))
}

fn host() -> Result<String, String> {
    let text = house::output(house::command("rustc").arg("-vV"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("host: "));
    line.map(str::to_owned).ok_or_else(|| "rustc names no host".into())
}

fn run(folder: &Path, name: &str, seconds: u64) -> Result<(), String> {
    println!("fuzzing {name} for {seconds} s");
    let found = house::target().join("fuzz-corpus").join(name);
    let kept = house::root().join("fuzz/corpus").join(name);
    let crashes = house::target().join("fuzz-crashes").join(name);
    for folder in [&found, &crashes] {
        std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    let mut command = house::command(folder.join(name));
    command.arg(&found);
    if kept.exists() {
        command.arg(&kept);
    }
    command
        .args([format!("-max_total_time={seconds}"), format!("-artifact_prefix={}/", crashes.display())])
        .args([
            "-max_len=65536",
            "-timeout=10",
            "-rss_limit_mb=2048",
            "-print_final_stats=1",
            "-verbosity=0",
        ]);
    house::run(&mut command)
        .map_err(|error| format!("{name}: {error}; the input is in {}", crashes.display()))
}
