//! A node that is filled, in both formats, and whose snapshot is handed on.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::fill::{self, Operator};
use super::peer::table_folder;
use super::schemas::Schema;
use super::session::Session;
use super::table::Table;
use super::{AllHanded, Exchange, Handed, selects};
use crate::command;
use crate::server::{Server, free_port};

const LIMIT: Duration = Duration::from_secs(300);
/// Keyspaces and the formats they are written in.
pub const FORMATS: [(&str, &str, &str); 2] = [("big", "big", "nb"), ("bti", "bti", "da")];
/// Longer than the shortest ttl.
const EXPIRED: Duration = Duration::from_millis(2100);
const SNAPSHOT: &str = "handed";

/// A node and the port of its REST interface.
pub struct Node {
    server: Server,
    binary: PathBuf,
    port: u16,
}

impl Node {
    /// Starts one that writes sstables of a format.
    pub fn start(exchange: &Exchange<'_>, folder: PathBuf, format: &str) -> Result<Node, String> {
        let port = free_port();
        let shards = exchange.options.smp[0];
        let mut start = exchange.options.start(folder, shards);
        start.yaml = format!(
            "api_port: {port}\nlog_level: warn\nflush_compression: table\nsstable:\n  selected_format: {format}\n"
        );
        Ok(Node { server: start.run()?, binary: exchange.options.binary.clone(), port })
    }

    /// A connection to it.
    pub fn connect(&self) -> Result<Session, String> {
        Session::connect(self.server.address)
    }

    /// A command of nodetool.
    pub fn nodetool(&self, words: &[&str]) -> Result<String, String> {
        let mut command = Command::new(&self.binary);
        command.arg("nodetool").arg("-p").arg(self.port.to_string()).args(words);
        command::run(&mut command, &self.server.folder.join("nodetool.log"), LIMIT)
    }

    /// The folder of a table's files.
    pub fn table_folder(&self, keyspace: &str, table: &str) -> Result<PathBuf, String> {
        table_folder(&self.server.folder.join("data"), keyspace, table)
    }

    /// Ends it.
    pub fn stop(&mut self) -> Result<(), String> {
        self.server.stop()
    }
}

impl Operator for Node {
    fn flush(&mut self, keyspace: &str) -> Result<(), String> {
        self.nodetool(&["flush", keyspace]).map(drop)
    }

    fn compact(&mut self, keyspace: &str, tables: &[&str]) -> Result<(), String> {
        let words: Vec<&str> = ["compact", keyspace].into_iter().chain(tables.iter().copied()).collect();
        self.nodetool(&words).map(drop)
    }
}

/// Fills a keyspace in each format, takes a snapshot, and asks after a restart, when nothing but files is left.
pub fn write(exchange: &Exchange<'_>) -> Result<AllHanded, String> {
    let folder = exchange.folder("node");
    let mut handed = AllHanded::new();
    for (keyspace, format, letters) in FORMATS {
        let mut node = Node::start(exchange, folder.clone(), format)?;
        let mut session = node.connect()?;
        fill::fill(&mut session, &mut node, keyspace, &exchange.schemas, exchange.seed)?;
        node.nodetool(&["snapshot", "-t", SNAPSHOT, keyspace])?;
        for schema in &exchange.schemas {
            let files = node.table_folder(keyspace, &schema.name)?.join("snapshots").join(SNAPSHOT);
            check_versions(&files, letters)?;
            let one = Handed { folder: files, answers: Err("it was not asked".into()) };
            handed.insert((keyspace.into(), schema.name.clone()), one);
        }
        node.stop()?;
    }
    std::thread::sleep(EXPIRED);
    let mut node = Node::start(exchange, folder, "big")?;
    let mut session = node.connect()?;
    for ((keyspace, name), handed) in &mut handed {
        let schema = of_name(&exchange.schemas, name)?;
        handed.answers = Table::open(&mut session, keyspace, schema, exchange.seed)
            .and_then(|table| selects::ask(&mut session, &table, exchange.seed));
    }
    node.stop()?;
    Ok(handed)
}

/// The table of a name.
pub fn of_name<'s>(schemas: &'s [Schema], name: &str) -> Result<&'s Schema, String> {
    schemas.iter().find(|schema| schema.name == name).ok_or_else(|| format!("there is no table {name}"))
}

/// All data files are of the version that was asked for.
pub fn check_versions(folder: &Path, letters: &str) -> Result<(), String> {
    let files = super::data_files(folder);
    let other = files.iter().find(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        !name.starts_with(&format!("{letters}-"))
    });
    match other {
        Some(path) => Err(format!("{} is not of version {letters}", path.display())),
        None if files.is_empty() => Err(format!("{} holds no sstable", folder.display())),
        None => Ok(()),
    }
}
