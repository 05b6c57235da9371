//! Files written by our writer, read by Apache Cassandra's own `sstabledump` and `sstablemetadata`.
//!
//! `cargo run -p sstable --example write_samples -- FOLDER` writes tables of every kind and prints for each data file its
//! path, its partitions and its rows; the dump must hold as many.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::suite::{Options, Report};
use crate::{cassandra, command, packages, paths};

const LIMIT: Duration = Duration::from_secs(900);

/// One data file and what is in it.
struct Sample {
    data: PathBuf,
    partitions: usize,
    rows: usize,
}

/// Writes the samples and has Cassandra read them.
pub fn run(options: &Options, report: &mut Report) {
    let mut samples = Vec::new();
    report.test("sstables::write_samples", || {
        packages::cassandra()?;
        let folder = options.folder("sstables")?;
        samples = write_samples(&folder)?;
        if samples.is_empty() {
            return Err("the example wrote no data files".into());
        }
        Ok(format!("{} files", samples.len()))
    });
    for sample in &samples {
        let file = sample.data.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let folder = sample.data.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
        let table = folder.split('-').next().unwrap_or_default().to_owned();
        report.test(&format!("sstables::sstabledump {table}/{file}"), || dump(options, sample));
        report.test(&format!("sstables::sstablemetadata {table}/{file}"), || metadata(options, sample));
    }
}

fn write_samples(folder: &Path) -> Result<Vec<Sample>, String> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .args(["run", "--quiet", "--package", "sstable", "--example", "write_samples", "--"])
        .arg(folder.join("data"))
        .current_dir(paths::repository());
    let text = command::run(&mut cargo, &folder.join("write_samples.log"), LIMIT)?;
    let mut samples = Vec::new();
    for line in text.lines().filter(|line| line.contains("-Data.db ")) {
        let mut words = line.rsplit(' ');
        let mut number = || words.next().and_then(|word| word.parse().ok());
        let (rows, partitions) = (number(), number());
        let (Some(partitions), Some(rows), Some(data)) = (partitions, rows, words.next()) else {
            return Err(format!("the example printed {line}"));
        };
        samples.push(Sample { data: data.into(), partitions, rows });
    }
    Ok(samples)
}

/// The whole file as JSON: every partition and row is there.
fn dump(options: &Options, sample: &Sample) -> Result<String, String> {
    let text = run_tool(options, "org.apache.cassandra.tools.SSTableExport", &sample.data)?;
    let count = |mark: &str| text.matches(mark).count();
    let partitions = count("\"partition\" : {");
    let rows = count("\"type\" : \"row\"");
    let statics = count("\"type\" : \"static_block\"");
    // Our count of rows is that of the statistics, where a static row is a row.
    if partitions != sample.partitions || (rows != sample.rows && rows + statics != sample.rows) {
        return Err(format!(
            "dumped {partitions} partitions, {rows} rows, {statics} static rows; written {} and {}:\n{}",
            sample.partitions,
            sample.rows,
            command::tail(&text, 30)
        ));
    }
    Ok(format!("{partitions} partitions, {rows} rows"))
}

fn metadata(options: &Options, sample: &Sample) -> Result<String, String> {
    let text = run_tool(options, "org.apache.cassandra.tools.SSTableMetadataViewer", &sample.data)?;
    let rows = text.lines().find_map(|line| line.trim().strip_prefix("totalRows: "));
    match rows.and_then(|rows| rows.trim().parse::<usize>().ok()) {
        Some(rows) if rows == sample.rows => Ok(String::new()),
        _ => Err(format!("written {} rows, but the statistics say:\n{text}", sample.rows)),
    }
}

fn run_tool(options: &Options, class: &str, data: &Path) -> Result<String, String> {
    let folder = options.folder("sstables-tool")?;
    let mut tool = cassandra::tool(&folder, class, &[data.display().to_string()])?;
    command::run(&mut tool, &folder.join("tool.log"), LIMIT)
}
