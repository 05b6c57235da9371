//! Sstables between this database and Apache Cassandra 5.0, in both directions.
//!
//! ```text
//! random statements ─► node, big and bti ─► snapshot ─► Cassandra imports it ─► the same SELECTs
//!                                              └──────► sstabledump, sstablemetadata, sstableverify
//! random statements ─► Cassandra, nb oa da ─► its files ─┐
//! random rows ─► CQLSSTableWriter, nb oa da ─► its files ─┤
//! random statements ─► older engines, mc to na ─► files ──┴► node imports them ─► the same SELECTs
//! ```
//! Forty-eight tables (`schemas`), eight of them with `--quick`, and three with names from all of Unicode (`names`), one of them quick. What is written follows from `--seed`, which is printed. Answers
//! are compared value by value in their bytes, times of expiry to a minute. Counters are added to where they were imported.

mod cassandra_reads;
mod counting;
mod fill;
pub mod golden;
mod json;
mod load;
mod names;
pub mod older;
mod ours;
mod peer;
mod schemas;
mod selects;
pub mod session;
mod table;
mod tools;
mod values;
mod versions;
mod we_read;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::suite::{Options, Report};
use schemas::Schema;
use selects::Answered;

/// Files of a table and what their writer answered about them.
pub struct Handed {
    /// Where they lie.
    pub folder: PathBuf,
    /// Answers to the table's questions, or why there are none.
    pub answers: Result<Vec<Answered>, String>,
}

/// By keyspace and table.
pub type AllHanded = BTreeMap<(String, String), Handed>;

/// What all parts know.
pub struct Exchange<'o> {
    options: &'o Options,
    schemas: Vec<Schema>,
    seed: u64,
    folder: PathBuf,
}

/// Everything, or with `--only WORD` the tables whose names hold it.
pub fn run(options: &Options, report: &mut Report) {
    let folder = match options.folder("sstables") {
        Ok(folder) => folder,
        Err(error) => return report.test("sstables::folder", || Err(error)),
    };
    let wanted = |schema: &Schema| match &options.only {
        Some(word) => schema.name.contains(word),
        None => schema.quick || !options.quick,
    };
    let all = schemas::all().into_iter().chain(names::tables(options.seed));
    let schemas: Vec<Schema> = all.filter(wanted).collect();
    println!("sstables of {} tables, --seed {}", schemas.len(), options.seed);
    if !options.quick {
        versions::run(options, report);
    }
    let exchange = Exchange { options, schemas, seed: options.seed, folder };
    let mut handed = AllHanded::new();
    report.test("sstables::messina_writes", || {
        handed = ours::write(&exchange)?;
        Ok(format!("{} tables", handed.len()))
    });
    let mut received = AllHanded::new();
    let judge = cassandra_reads::run(&exchange, &handed, &mut received, report);
    if let Some(folder) = judge {
        tools::run(&exchange, &handed, &folder, report);
    }
    we_read::run(&exchange, &received, report);
}

impl Exchange<'_> {
    fn folder(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

/// Gives every file of a folder a second name in another.
fn link_files(from: &Path, to: &Path) -> Result<usize, String> {
    let told = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
    fs::create_dir_all(to).map_err(|error| told(to, error))?;
    let mut count = 0;
    for entry in fs::read_dir(from).map_err(|error| told(from, error))? {
        let path = entry.map_err(|error| told(from, error))?.path();
        let target = to.join(path.file_name().unwrap_or_default());
        if path.is_file() {
            fs::hard_link(&path, &target).map_err(|error| told(&target, error))?;
            count += 1;
        }
    }
    Ok(count)
}

/// Data files of a folder, by name.
fn data_files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|path| path.to_string_lossy().ends_with("-Data.db"))
        .collect();
    files.sort();
    files
}
