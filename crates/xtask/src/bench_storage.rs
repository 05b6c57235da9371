//! `cargo x bench storage`: one shard's engine alone, without protocol and network.
//!
//! `bench storage [CASE…] [--scale F] [--rounds N] [--smoke]` runs `enginebench` on one processor; its cases are listed
//! by `enginebench --list`; those in which the formats of sstables differ run in both. Instructions per operation are
//! counted by callgrind: two runs of a case that differ in nothing but the number of measured operations. `--counts` does
//! nothing else and writes no result; `--binary PATH` is an `enginebench` of another build.

use std::fmt::Write as _;
use std::path::Path;

use crate::{Outcome, callgrind, dist, house, machine};

/// Cases whose instructions are counted: the operations of the shorter run, and the most instructions one may take. What
/// makes the requests is counted with them.
const COUNTED: &[(&str, u64, Option<f64>)] = &[
    ("M1", 20_000, Some(12_000.0)),
    ("M2", 20_000, Some(12_000.0)),
    ("R1", 20_000, Some(8_000.0)),
    ("R1C", 20_000, Some(8_000.0)),
    ("R3", 20_000, Some(8_000.0)),
    ("D8", 5_000, Some(50_000.0)),
    ("D6", 5_000, None),
    ("D7", 5_000, None),
];
/// Cases that depend on the format of sstables: these run again in the other one.
const OF_FORMAT: &[&str] = &["D4", "D6", "D7", "D8", "F1", "K1", "T2", "X2"];
/// The processor the shard runs on.
const PROCESSOR: usize = 1;

/// Runs the cases and writes the result.
pub fn storage(rest: &[String]) -> Outcome {
    let smoke = rest.iter().any(|word| word == "--smoke");
    let given = house::option(rest, "--binary").map(std::path::PathBuf::from);
    let binary = if let Some(path) = given {
        path
    } else if smoke {
        house::run(house::cargo().args(["build", "--release", "--package", "enginebench"]))?;
        house::target().join("release/enginebench")
    } else {
        dist::program("enginebench")?
    };
    let folder = machine::fresh("storage")?;
    let cases: Vec<&String> = rest.iter().take_while(|word| !word.starts_with("--")).collect();
    let mut text = format!(
        "# bench storage\n\n{}\ncommit {}, {}; one shard on one processor; medians of rounds.\n\n",
        machine::shape(),
        machine::commit(),
        dist::compiled_how(rest)
    );
    let run = |cases: &[&str], format: &str| {
        let mut command = house::command("taskset");
        command.args(["-c", &PROCESSOR.to_string()]).arg(&binary).args(cases).arg("--folder").arg(&folder);
        command.args(["--format", format]);
        for (name, default) in
            [("--scale", if smoke { "0.01" } else { "1" }), ("--rounds", if smoke { "1" } else { "5" })]
        {
            command.args([name, house::option(rest, name).unwrap_or(default)]);
        }
        house::teed(&mut command)
    };
    let cases: Vec<&str> = cases.iter().map(|case| case.as_str()).collect();
    if rest.iter().any(|word| word == "--counts") {
        count_all(&cases, &binary, &folder, &mut text)?;
        return Ok("bench result: ok. instructions counted".into());
    }
    text.push_str(&run(&cases, "bti")?);
    if cases.is_empty() {
        text.push_str("\nIn format big:\n\n");
        text.push_str(&run(OF_FORMAT, "big")?);
    }
    if smoke {
        return Ok("bench result: ok. storage works".into());
    }
    count_all(&cases, &binary, &folder, &mut text)?;
    machine::record("storage", &text)
}

/// Counts the instructions of these cases, or of all that have them counted.
fn count_all(cases: &[&str], binary: &Path, folder: &Path, text: &mut String) -> Result<(), String> {
    text.push_str("\n| case | instructions each | allocations each | bar |\n|---|---:|---:|---|\n");
    for (case, count, most) in COUNTED {
        if cases.is_empty() || cases.iter().any(|name| case.starts_with(name)) {
            let (instructions, allocations) = counted(binary, folder, case, *count)?;
            let bar = most.map_or(String::new(), |most| {
                let met = if instructions <= most { "met" } else { machine::NOT_MET };
                format!("bar: user instructions: {met}: {instructions:.0} ≤ {most}")
            });
            let line = format!("| {case} | {instructions:.0} | {allocations:.2} | {bar} |");
            println!("{line}");
            writeln!(text, "{line}").ok();
        }
    }
    Ok(())
}

/// Instructions and allocations per measured operation of a case.
fn counted(binary: &Path, folder: &Path, case: &str, count: u64) -> Result<(f64, f64), String> {
    let run = |count: u64| {
        let out = folder.join(format!("callgrind-{case}-{count}.out"));
        let mut valgrind = house::command("valgrind");
        valgrind
            .args(["--quiet", "--tool=callgrind"])
            .arg(format!("--callgrind-out-file={}", out.display()))
            .arg(binary)
            .args([case, "--epoll", "--rounds", "1", "--scale", "0.02", "--count", &count.to_string()])
            .arg("--folder")
            .arg(folder);
        house::output(&mut valgrind)?;
        let text = std::fs::read_to_string(&out).map_err(|error| format!("{}: {error}", out.display()))?;
        callgrind::counts(&text)
    };
    let (few, many) = (run(count)?, run(3 * count)?);
    let per = |few: u64, many: u64| many.saturating_sub(few) as f64 / (2 * count) as f64;
    Ok((per(few.instructions, many.instructions), per(few.allocations, many.allocations)))
}
