//! Versions of sstables that no release since 4.0 writes, by the engines of earlier ones.
//!
//! ```text
//! random statements ─► query processor, memtables, flush, compaction of 3.11 and 4.0-beta ─► files of mc to na
//!                                 Cassandra 5.0 imports them ─► answers ◄─ the node has to answer the same
//! ```
//! Such a release does not start as a node on Java 17, but its engine does (`cassandra/WriteOlder.java`). The judge of a
//! file is Cassandra 5.0, which reads all of these versions: what both wrote at different times need not be compared.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::cassandra_reads::EXPIRED;
use super::fill;
use super::load;
use super::ours::check_versions;
use super::peer::Peer;
use super::schemas::Schema;
use super::table::{self, Table};
use super::{AllHanded, Exchange, Handed, data_files, link_files, selects};
use crate::suite::Report;
use crate::{cassandra, command};

const LIMIT: Duration = Duration::from_secs(1200);

/// A version of sstables and a release that writes it.
pub struct Older {
    /// Letters in the names of files.
    pub letters: &'static str,
    /// As Maven knows it.
    pub release: &'static str,
}

/// Oldest first. No final release wrote `na`.
pub const OLDER: [Older; 4] = [
    Older { letters: "mc", release: "3.11.3" },
    Older { letters: "md", release: "3.11.10" },
    Older { letters: "me", release: "3.11.19" },
    Older { letters: "na", release: "4.0-beta4" },
];
/// The one for every commit.
const QUICK: &str = "me";

/// Has each of them write tables and Cassandra 5.0 answer what is in the files, which go to `received`.
pub fn run(exchange: &Exchange<'_>, peer: &mut Peer, received: &mut AllHanded, report: &mut Report) {
    for older in OLDER.iter().filter(|older| !exchange.options.quick || older.letters == QUICK) {
        report.test(&format!("sstables::older_writes {}", older.letters), || {
            write(exchange, older, peer, received)
        });
    }
}

/// Does what lines say with a release's engine; returns the folders of tables, by keyspace and name.
pub fn engine(
    folder: &Path,
    older: &Older,
    lines: &[String],
) -> Result<BTreeMap<(String, String), PathBuf>, String> {
    let told = |error: std::io::Error| format!("{}: {error}", folder.display());
    fs::create_dir_all(folder).map_err(told)?;
    let list = folder.join("lines");
    fs::write(&list, lines.join("\n") + "\n").map_err(told)?;
    let mut tool = cassandra::older(folder, older.release, &list)?;
    let text = command::run(&mut tool, &folder.join("write.log"), LIMIT)?;
    let mut folders = BTreeMap::new();
    for line in text.lines().filter_map(|line| line.strip_prefix("folder ")) {
        let mut words = line.splitn(3, ' ');
        let (Some(keyspace), Some(table), Some(path)) = (words.next(), words.next(), words.next()) else {
            return Err(format!("the engine printed {line}"));
        };
        folders.insert((keyspace.to_owned(), table.to_owned()), PathBuf::from(path));
    }
    Ok(folders)
}

fn write(
    exchange: &Exchange<'_>,
    older: &Older,
    peer: &mut Peer,
    received: &mut AllHanded,
) -> Result<String, String> {
    let keyspace = format!("older_{}", older.letters);
    let mut session = peer.connect()?;
    let schemas: Vec<Schema> = exchange.schemas.iter().filter_map(|schema| older.known(schema)).collect();
    fill::create(&mut session, &keyspace, &schemas, false)?;
    // It answers from these files, and none that it made of them.
    peer.operate_one(&format!("rest {keyspace}"))?;
    let mut lines: Vec<String> =
        table::keyspace_statements(&keyspace).iter().map(|text| format!("run {text}")).collect();
    lines.extend(schemas.iter().map(|schema| format!("run {}", schema.create(&keyspace))));
    let mut statements = 0;
    for round in 0..fill::ROUNDS {
        for schema in &schemas {
            let table = Table::open(&mut session, &keyspace, schema, exchange.seed)?;
            let mut last = String::new();
            for statement in load::statements(&table, exchange.seed, round) {
                if statement.text != last {
                    lines.push(format!("write {}", statement.text));
                }
                lines.push(statement.row());
                last = statement.text;
                statements += 1;
            }
        }
        lines.push(format!("flush {keyspace}"));
        if round == 0 {
            lines.extend(fill::alter_statements(&keyspace, &schemas).map(|text| format!("run {text}")));
            fill::alter(&mut session, &keyspace, &schemas)?;
        }
        if round == 1 {
            lines.extend(
                fill::compacted(&schemas).map(|schema| format!("compact {keyspace} {}", schema.name)),
            );
        }
    }
    let folders = engine(&exchange.folder(&format!("engine-{}", older.letters)), older, &lines)?;
    std::thread::sleep(EXPIRED);
    let mut files = 0;
    for schema in &schemas {
        let place = (keyspace.clone(), schema.name.clone());
        let folder = exchange.folder("from-cassandra").join(&keyspace).join(&schema.name);
        let written = folders.get(&place).ok_or_else(|| format!("no folder of {}", schema.name))?;
        link_files(written, &folder)?;
        check_versions(&folder, older.letters)?;
        files += data_files(&folder).len();
        let imported = peer.operate_one(&format!("import {keyspace} {} {}", schema.name, folder.display()));
        let answers = imported.and_then(|()| {
            let table = Table::open(&mut session, &keyspace, schema, exchange.seed)?;
            selects::ask(&mut session, &table, exchange.seed)
        });
        received.insert(place, Handed { folder, answers });
    }
    Ok(format!("{statements} statements by {}, {files} files of {} tables", older.release, schemas.len()))
}

impl Older {
    /// A table as the release can have it: version 3 knows fewer compressors, and vectors came with version 5.
    fn known(&self, schema: &Schema) -> Option<Schema> {
        if schema.columns.iter().any(|column| column.ty.starts_with("vector")) {
            return None;
        }
        let mut schema = schema.clone();
        let newer = ["ZstdCompressor", "NoopCompressor"].iter().any(|name| schema.options.contains(name));
        if newer && self.letters < "na" {
            schema.options = "compression = {'class': 'DeflateCompressor', 'chunk_length_in_kb': 64}".into();
        }
        Some(schema)
    }
}
