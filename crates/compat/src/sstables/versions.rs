//! Files of every version that our writer knows, read by Apache Cassandra's own reader.
//!
//! Nodes write two versions; the others are written to test the readers of them. `cargo run -p sstable --example
//! write_samples -- FOLDER VERSION...` writes tables of every kind in every version and prints for each data file its path,
//! its partitions and its rows; Cassandra must find as many. One JVM reads all files whole, by key, reversed and by slices
//! (`cassandra/ReadSstables.java`).

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

/// Writes the samples and has Cassandra read them.
pub fn run(options: &Options, report: &mut Report) {
    let mut samples = Vec::new();
    report.test("sstables::write_samples", || {
        packages::cassandra()?;
        let folder = options.folder("sstables-versions")?;
        samples = write_samples(&folder)?;
        if samples.is_empty() {
            return Err("the example wrote no data files".into());
        }
        Ok(format!("{} files", samples.len()))
    });
    report.test("sstables::read_by_cassandra", || read_by_cassandra(options, &samples));
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
