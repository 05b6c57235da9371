//! `cargo x bench import`: how fast a file catalogue comes in from a dump of MySQL and from CSV.
//!
//! A node of one shard on processor 0, the importer on processor 1; a catalogue of `--files N` (default 1,000,000), made
//! from a seed, is imported into an empty keyspace, with its rows by path, by GUID and by place, and compared with the
//! file afterwards: one import that does not give back all that the file has ends the bench. Medians of `--rounds N`
//! (default 3), in turn. `--smoke`.

use std::fmt::Write as _;
use std::process::Command;

use crate::bench_node::{self, BenchNode, LOADER, process_cpu};
use crate::{Outcome, house, machine};

/// Rows in a second, at least.
const RATE_BAR: f64 = 200_000.0;
/// What the comparison says when the database has what the file has.
const SAME: &str = "all the same";

/// One import.
#[derive(Clone, Copy)]
struct Import {
    rows: f64,
    rate: f64,
    /// Microseconds of the importer's and of the node's processor for a row.
    ours_us: f64,
    node_us: f64,
}

/// Runs the bench and writes its result.
pub fn import(rest: &[String]) -> Outcome {
    let smoke = rest.iter().any(|word| word == "--smoke");
    let files = house::number(rest, "--files", if smoke { 2_000 } else { 1_000_000 })?;
    let rounds = house::number(rest, "--rounds", if smoke { 1 } else { 3 })?.max(1);
    let binary = house::binary(rest, house::profile(rest))?;
    let node = BenchNode::start(&binary, "import", "4G", "")?;
    let mut text = format!(
        "# bench import\n\n{}\ncommit {}; {files} files; one shard on processor {}, the importer on processor {LOADER}; medians of {rounds} \
         rounds; every import was compared with its file.\n\n\
         | file | rows | rows/s | importer, µs of a processor for a row | node, µs | bar |\n|---|---:|---:|---:|---:|---|\n",
        machine::shape(),
        machine::commit(),
        bench_node::SERVER,
    );
    let mut runs = [("a dump of MySQL", "sql", Vec::new()), ("CSV", "csv", Vec::new())];
    for (_, ending, _) in &runs {
        let file = node.folder.join(format!("files.{ending}"));
        let mut generate = house::command(&binary);
        generate.args(["catalogue", "generate", "--files", &files.to_string()]).arg(file);
        house::output(&mut generate)?;
    }
    for round in 0..rounds {
        for (name, ending, imports) in &mut runs {
            let import = one(&node, ending, &format!("{ending}{round}"))?;
            println!("{name}: {:.0} rows/s", import.rate);
            imports.push(import);
        }
    }
    for (name, _, imports) in runs {
        // The one in the middle by its rate.
        let import = machine::median(imports, |import| import.rate);
        let met = if import.rate >= RATE_BAR { "met" } else { machine::NOT_MET };
        writeln!(
            text,
            "| {name} | {:.0} | {:.0} | {:.2} | {:.2} | {met}: ≥ {RATE_BAR} rows/s |",
            import.rows, import.rate, import.ours_us, import.node_us
        )
        .ok();
    }
    println!("{text}");
    let folder = node.folder.clone();
    drop(node);
    bench_node::remove_folder(&folder)?;
    if smoke { Ok("bench result: ok. import works".into()) } else { machine::record("import", &text) }
}

/// Imports a file into a keyspace of its own.
fn one(node: &BenchNode, ending: &str, keyspace: &str) -> Result<Import, String> {
    let address = node.address();
    let (ip, port) = address.split_once(':').expect("an address names a port");
    let file = node.folder.join(format!("files.{ending}"));
    let catalogue = |program: &mut Command, word: &str, more: &[&str]| {
        program.args(["catalogue", word, "--node", ip, "--port", port, "--keyspace", keyspace]);
        house::output(program.args(more).arg(&file))
    };
    let before = process_cpu(node.process())?;
    let said = catalogue(
        house::command("taskset").args(["-c", LOADER]).arg(&node.binary),
        "import",
        &["--no-check"],
    )?;
    let node_s = (process_cpu(node.process())? - before).as_secs_f64();
    let compared = catalogue(&mut house::command(&node.binary), "check", &[])?;
    if !compared.contains(SAME) {
        return Err(format!("{keyspace} is not what the file is:\n{compared}"));
    }
    node.query(&format!("DROP KEYSPACE {keyspace}"))?;
    node.settle()?;
    let number = |unit: &str| {
        let before = said.split(unit).next()?;
        let word =
            before.rsplit(|letter: char| !(letter.is_ascii_digit() || ",.".contains(letter))).next()?;
        word.replace(',', "").parse::<f64>().ok()
    };
    let told = |unit: &str| number(unit).ok_or(format!("no number of \"{unit}\" in:\n{said}"));
    let rows = told(" rows in ")?;
    Ok(Import {
        rows,
        rate: told(" rows/s,")?,
        ours_us: told(" us of this process's")?,
        node_us: node_s * 1e6 / rows.max(1.0),
    })
}
