//! Files written by our writer, read by Apache Cassandra's own reader, `sstabledump` and `sstablemetadata`.
//!
//! `cargo run -p sstable --example write_samples -- FOLDER VERSION...` writes tables of every kind in every version and prints
//! for each data file its path, its partitions and its rows; Cassandra must find as many. One JVM reads all files whole, by
//! key, reversed and by slices (`cassandra/ReadSstables.java`); the tools read those of one table in the versions that nodes
//! write.

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

/// Versions that Cassandra 5.0 reads.
const VERSIONS: [&str; 6] = ["md", "me", "na", "nb", "oa", "da"];
/// What the tools read as well: they take a JVM each.
const FOR_TOOLS: &str = "/collections-";

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
    report.test("sstables::read_by_cassandra", || read_by_cassandra(options, &samples));
    let written = |sample: &&Sample| {
        let path = sample.data.display().to_string();
        path.contains(FOR_TOOLS) && (path.contains("/nb-") || path.contains("/da-"))
    };
    for sample in samples.iter().filter(written) {
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
        .args(VERSIONS)
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

/// All files by Cassandra's reader, in one JVM.
fn read_by_cassandra(options: &Options, samples: &[Sample]) -> Result<String, String> {
    // `<folder>/<keyspace>/<table>/<file>`.
    let data = samples.first().and_then(|sample| sample.data.ancestors().nth(3));
    let data = data.ok_or("there are no samples")?;
    let program = paths::resources().join("cassandra/ReadSstables.java");
    let folder = options.folder("sstables-read")?;
    let mut tool = cassandra::tool(&folder, &program.display().to_string(), &[data.display().to_string()])?;
    let text = command::run(&mut tool, &folder.join("read.log"), LIMIT)?;
    for sample in samples {
        let path = sample.data.display().to_string();
        let line = text.lines().find_map(|line| line.strip_prefix(&path)?.strip_prefix(' '));
        let line = line.ok_or_else(|| format!("{path} was not read:\n{}", command::tail(&text, 30)))?;
        let numbers: Vec<usize> = line.split(' ').filter_map(|number| number.parse().ok()).collect();
        let [partitions, rows, statics] = numbers[..] else { return Err(format!("{path} {line}")) };
        if partitions != sample.partitions || (rows != sample.rows && rows + statics != sample.rows) {
            return Err(format!("{path}: written {} and {}, read {line}", sample.partitions, sample.rows));
        }
    }
    Ok(format!("{} files of {} versions", samples.len(), VERSIONS.len()))
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
