//! A node imports what Cassandra wrote, in every version, and answers as Cassandra did, before and after a compaction; our
//! verifier accepts the files.

use super::cassandra_reads::OFFLINE;
use super::fill;
use super::ours::{Node, of_name};
use super::schemas::Schema;
use super::table::Table;
use super::{AllHanded, Exchange, counting, data_files, selects, tools};
use crate::suite::Report;

/// Seconds between the runs of the offline writer, of which one was read by Cassandra.
const OFFLINE_TOLERANCE: i64 = 600;

/// Imports everything that was received and compares the answers, table by table.
pub fn run(exchange: &Exchange<'_>, received: &AllHanded, report: &mut Report) {
    let mut started = None;
    report.test("sstables::messina_imports", || {
        let node = Node::start(exchange, exchange.folder("reader"), "big")?;
        let mut session = node.connect()?;
        let mut keyspaces: Vec<&str> = received.keys().map(|(keyspace, _)| keyspace.as_str()).collect();
        keyspaces.dedup();
        for keyspace in keyspaces {
            let schemas: Vec<Schema> = exchange.schemas.clone();
            fill::create(&mut session, keyspace, &schemas, !keyspace.starts_with(OFFLINE))?;
        }
        started = Some((node, session));
        Ok(format!("{} folders", received.len()))
    });
    let Some((mut node, mut session)) = started else { return };
    for ((keyspace, name), received) in received {
        report.test(&format!("sstables::messina_reads {keyspace}.{name}"), || {
            tools::tool_of_ours(exchange, "verify", &received.folder)?;
            let folder = received.folder.display().to_string();
            node.nodetool(&["import", "-p", keyspace, name, &folder])?;
            let schema = of_name(&exchange.schemas, name)?;
            let table = Table::open(&mut session, keyspace, schema, exchange.seed)?;
            let theirs = received.answers.as_ref().map_err(Clone::clone)?;
            let tolerance =
                if keyspace.starts_with(OFFLINE) { OFFLINE_TOLERANCE } else { selects::TOLERANCE };
            let ours = selects::ask(&mut session, &table, exchange.seed)?;
            let rows = selects::compare(&ours, theirs, tolerance)?;
            let folder = node.table_folder(keyspace, name)?;
            let imported = data_files(&folder);
            node.nodetool(&["compact", keyspace, name])?;
            if !imported.is_empty() && data_files(&folder) == imported {
                return Err("a compaction left the files as they were".into());
            }
            let ours = selects::ask(&mut session, &table, exchange.seed)?;
            let compacted = selects::compare(&ours, theirs, tolerance);
            compacted.map_err(|error| format!("after a compaction: {error}"))?;
            Ok(format!("{rows} rows{}", counting::go_on(&mut session, &table)?))
        });
    }
    report.test("sstables::messina_reader_stops", || node.stop().map(|()| String::new()));
}
