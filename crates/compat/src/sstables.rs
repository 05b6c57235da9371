//! Files written by our writer, read by Apache Cassandra's own `sstabledump`, `sstablemetadata` and `sstableverify`.
//!
//! `cargo run -p sstable --example write_samples FOLDER` writes one folder per table, `KEYSPACE/TABLE-ID/nb-N-big-*.db`,
//! and beside each data file what the dump must hold, one piece of text per line, as `nb-N-big-Data.db.expect`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::suite::{Options, Report};
use crate::{cassandra, command, packages, paths};

const LIMIT: Duration = Duration::from_secs(900);

/// Writes the samples and has Cassandra read them.
pub fn run(options: &Options, report: &mut Report) {
    let mut found = Vec::new();
    report.test("sstables::write_samples", || {
        packages::cassandra()?;
        let folder = options.folder("sstables")?;
        write_samples(&folder)?;
        collect(&folder, &mut found);
        if found.is_empty() {
            Err("the example wrote no data files".into())
        } else {
            Ok(format!("{} files", found.len()))
        }
    });
    for data in &found {
        let name = data.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let table =
            data.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy().into_owned();
        report.test(&format!("sstables::sstabledump {table}/{name}"), || dump(options, data));
        report.test(&format!("sstables::sstablemetadata {table}/{name}"), || {
            let text = run_tool(
                options,
                "org.apache.cassandra.tools.SSTableMetadataViewer",
                &[data.display().to_string()],
            )?;
            if text.contains("Minimum timestamp:") { Ok(String::new()) } else { Err(text) }
        });
    }
}

fn write_samples(folder: &Path) -> Result<(), String> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .args(["run", "--quiet", "--package", "sstable", "--example", "write_samples", "--"])
        .arg(folder)
        .current_dir(paths::repository());
    command::run(&mut cargo, &folder.join("write_samples.log"), LIMIT).map(drop)
}

fn dump(options: &Options, data: &Path) -> Result<String, String> {
    let text = run_tool(options, "org.apache.cassandra.tools.SSTableExport", &[data.display().to_string()])?;
    let expectations = data.with_extension("db.expect");
    if !expectations.exists() {
        return if text.contains("\"partition\"") { Ok(String::new()) } else { Err(text) };
    }
    let expectations = command::read(&expectations)?;
    match expectations.lines().find(|line| !line.is_empty() && !text.contains(*line)) {
        Some(line) => Err(format!("the dump lacks {line}:\n{text}")),
        None => Ok(format!("{} expectations", expectations.lines().count())),
    }
}

fn run_tool(options: &Options, class: &str, arguments: &[String]) -> Result<String, String> {
    let folder = options.folder("sstables-tool")?;
    let mut tool = cassandra::tool(&folder, class, arguments)?;
    command::run(&mut tool, &folder.join("tool.log"), LIMIT)
}

fn collect(folder: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries.filter_map(Result::ok) {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, found);
        } else if path.to_string_lossy().ends_with("-Data.db") {
            found.push(path);
        }
    }
    found.sort();
}
