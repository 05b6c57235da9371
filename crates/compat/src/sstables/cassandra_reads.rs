//! Cassandra is handed the node's files and asked the same; then it is filled itself, for the other direction.
//!
//! A Cassandra writes one version. One with tries reads what the node wrote and what its own offline writer wrote; with
//! `--quick` it is the only one, otherwise two more write big sstables, for Cassandra 4 and for 5. One runs at a time.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use super::fill::{self, Operator};
use super::load;
use super::older;
use super::ours::{FORMATS, of_name};
use super::peer::{self, Peer, Written};
use super::schemas::{Schema, TYPES};
use super::table::Table;
use super::{AllHanded, Exchange, Handed, counting, link_files, selects};
use crate::cql::client::Value;
use crate::suite::Report;

/// Longer than the shortest ttl.
pub const EXPIRED: Duration = Duration::from_millis(2100);
/// The keyspace of what the offline writer wrote.
pub const OFFLINE: &str = "offline";
/// Statements that delete, for each table of the offline writer.
const OFFLINE_DELETES: usize = 3;

impl Operator for Peer {
    fn flush(&mut self, keyspace: &str) -> Result<(), String> {
        self.operate(&[format!("flush {keyspace}")])
    }

    fn compact(&mut self, keyspace: &str, tables: &[&str]) -> Result<(), String> {
        let lines: Vec<String> = tables.iter().map(|table| format!("compact {keyspace} {table}")).collect();
        self.operate(&lines)
    }
}

/// Has Cassandra read `handed` and write what goes to `received`; returns the folder of the one that read, stopped.
pub fn run(
    exchange: &Exchange<'_>,
    handed: &AllHanded,
    received: &mut AllHanded,
    report: &mut Report,
) -> Option<PathBuf> {
    let folder = exchange.folder("cassandra-da");
    let mut judge = None;
    report.test("sstables::start_cassandra da", || {
        judge = Some(Peer::start(&folder, Written::Da)?);
        Ok(String::new())
    });
    if let Some(peer) = &mut judge {
        read(exchange, peer, handed, report);
        report.test("sstables::cassandra_writes_offline", || write_offline(exchange, peer, received));
        older::run(exchange, peer, received, report);
        report.test("sstables::cassandra_writes da", || write_live(exchange, peer, Written::Da, received));
        report.test("sstables::stop_cassandra da", || peer.stop().map(|()| String::new()));
    }
    let others: &[Written] = if exchange.options.quick { &[] } else { &[Written::Nb, Written::Oa] };
    for &written in others {
        report.test(&format!("sstables::cassandra_writes {}", written.letters()), || {
            let mut peer =
                Peer::start(&exchange.folder(&format!("cassandra-{}", written.letters())), written)?;
            let told = write_live(exchange, &mut peer, written, received)?;
            peer.stop()?;
            Ok(told)
        });
    }
    judge.map(|_| folder)
}

/// Imports the node's files and compares the answers, table by table.
fn read(exchange: &Exchange<'_>, peer: &mut Peer, handed: &AllHanded, report: &mut Report) {
    let mut session = None;
    let mut imported: Vec<Result<(), String>> = Vec::new();
    report.test("sstables::cassandra_imports", || {
        let mut connected = peer.connect()?;
        for (keyspace, ..) in FORMATS {
            fill::create(&mut connected, keyspace, &exchange.schemas, true)?;
            // It reads and verifies these files, and none that it made of them.
            peer.operate_one(&format!("rest {keyspace}"))?;
        }
        let lines: Result<Vec<String>, String> = handed
            .iter()
            .map(|((keyspace, table), handed)| {
                let folder = exchange.folder("to-cassandra").join(keyspace).join(table);
                link_files(&handed.folder, &folder)?;
                Ok(format!("import {keyspace} {table} {}", folder.display()))
            })
            .collect();
        imported = lines?.iter().map(|line| peer.operate_one(line)).collect();
        session = Some(connected);
        Ok(format!("{} tables", imported.len()))
    });
    let Some(mut session) = session else { return };
    for (((keyspace, name), handed), imported) in handed.iter().zip(imported) {
        report.test(&format!("sstables::cassandra_reads {keyspace}.{name}"), || {
            imported?;
            let schema = of_name(&exchange.schemas, name)?;
            let table = Table::open(&mut session, keyspace, schema, exchange.seed)?;
            let theirs = selects::ask(&mut session, &table, exchange.seed)?;
            let ours = handed.answers.as_ref().map_err(Clone::clone)?;
            let rows = selects::compare(ours, &theirs, selects::TOLERANCE)?;
            Ok(format!("{rows} rows{}", counting::go_on(&mut session, &table)?))
        });
    }
}

/// Fills a keyspace of Cassandra's and keeps its files and answers.
fn write_live(
    exchange: &Exchange<'_>,
    peer: &mut Peer,
    written: Written,
    received: &mut AllHanded,
) -> Result<String, String> {
    let keyspace = format!("live_{}", written.letters());
    let mut session = peer.connect()?;
    let count = fill::fill(&mut session, peer, &keyspace, &exchange.schemas, exchange.seed)?;
    std::thread::sleep(EXPIRED);
    for schema in &exchange.schemas {
        let table = Table::open(&mut session, &keyspace, schema, exchange.seed)?;
        let answers = selects::ask(&mut session, &table, exchange.seed);
        let folder = exchange.folder("from-cassandra").join(&keyspace).join(&schema.name);
        link_files(&peer.table_folder(&keyspace, &schema.name)?, &folder)?;
        received.insert((keyspace.clone(), schema.name.clone()), Handed { folder, answers });
    }
    Ok(format!("{count} statements"))
}

/// Files of the offline writer in every version. Those of one are imported by Cassandra, whose answers are what a node has
/// to answer with the files of each.
fn write_offline(
    exchange: &Exchange<'_>,
    peer: &mut Peer,
    received: &mut AllHanded,
) -> Result<String, String> {
    let mut session = peer.connect()?;
    // The writer refuses counters, and knows no changes of columns.
    let schemas: Vec<Schema> = exchange.schemas.iter().filter(|schema| !schema.counts()).cloned().collect();
    let schemas: Vec<Schema> = schemas.into_iter().map(|schema| Schema { alters: &[], ..schema }).collect();
    fill::create(&mut session, OFFLINE, &schemas, false)?;
    let folder = exchange.folder("offline");
    let mut lines: Vec<String> = TYPES.iter().map(|ty| format!("type CREATE TYPE {OFFLINE}.{ty}")).collect();
    for schema in &schemas {
        let table = Table::open(&mut session, OFFLINE, schema, exchange.seed)?;
        lines.push(format!("table {}", schema.create(OFFLINE)));
        lines.push(format!("folder {}", folder.join("tables").join(&schema.name).display()));
        lines.extend(of_table(&table, exchange.seed));
    }
    let newest = peer::write_offline(&folder.join("writer"), &lines, &["big", "bti"], Written::Oa)?;
    // In the mode of Cassandra 4 big sstables are of another version.
    let renamed: Vec<String> =
        lines.iter().map(|line| line.replace("/offline/tables/", "/offline/older/")).collect();
    let older = peer::write_offline(&folder.join("writer-older"), &renamed, &["big"], Written::Nb)?;
    let files = [&newest, &older]
        .iter()
        .flat_map(|text| text.lines())
        .filter(|line| line.starts_with("wrote "))
        .count();
    let at = |schema: &Schema, written: Written| {
        let of = if written == Written::Nb { "older" } else { "tables" };
        folder.join(of).join(&schema.name).join(written.format())
    };
    let import =
        |schema: &Schema| format!("import {OFFLINE} {} {}", schema.name, at(schema, Written::Da).display());
    peer.operate(&schemas.iter().map(import).collect::<Vec<_>>())?;
    std::thread::sleep(EXPIRED);
    for schema in &schemas {
        let table = Table::open(&mut session, OFFLINE, schema, exchange.seed)?;
        for written in Written::ALL {
            let answers = selects::ask(&mut session, &table, exchange.seed);
            let keyspace = format!("{OFFLINE}_{}", written.letters());
            received.insert((keyspace, schema.name.clone()), Handed { folder: at(schema, written), answers });
        }
    }
    Ok(format!("{files} runs of {} tables", schemas.len()))
}

/// What the writer is told about one table: its insertions, and the commonest of its deletions. It takes one statement
/// for each file.
fn of_table(table: &Table<'_>, seed: u64) -> Vec<String> {
    let mut by_text: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for round in 0..fill::ROUNDS {
        for mut statement in load::statements(table, seed, round) {
            let timestamp = match &statement.text {
                text if text.starts_with("INSERT") => statement.values.len() - 2,
                text if text.starts_with("DELETE  FROM") => 0,
                _ => continue,
            };
            // The time of writing would be another in each version's files.
            if matches!(statement.values[timestamp], Value::Unset) {
                statement.values[timestamp] = Value::Bytes(load::LATE.to_be_bytes().to_vec());
            }
            let row = statement.row();
            by_text.entry(statement.text).or_default().push(row);
        }
    }
    let mut groups: Vec<(String, Vec<String>)> = by_text.into_iter().collect();
    groups.sort_by_key(|(text, rows)| (text.starts_with("DELETE"), std::cmp::Reverse(rows.len())));
    groups.truncate(1 + OFFLINE_DELETES);
    groups.into_iter().flat_map(|(text, rows)| [vec![format!("write {text}")], rows].concat()).collect()
}
