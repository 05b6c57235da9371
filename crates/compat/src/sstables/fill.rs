//! Fills a keyspace of whichever server: tables, three rounds of statements with a flush behind each, one compaction of
//! every other table, and changes of columns behind the first round.

use super::load;
use super::schemas::Schema;
use super::session::Session;
use super::table::{self, Table};

/// Rounds, each of which ends as files.
pub const ROUNDS: u64 = 3;

/// What the filled server does besides answering.
pub trait Operator {
    /// Writes all memtables of a keyspace.
    fn flush(&mut self, keyspace: &str) -> Result<(), String>;
    /// Compacts some of its tables.
    fn compact(&mut self, keyspace: &str, tables: &[&str]) -> Result<(), String>;
}

/// Fills a keyspace; returns how many statements were executed.
pub fn fill(
    session: &mut Session,
    operator: &mut dyn Operator,
    keyspace: &str,
    schemas: &[Schema],
    seed: u64,
) -> Result<usize, String> {
    create(session, keyspace, schemas, false)?;
    let mut count = 0;
    for round in 0..ROUNDS {
        for schema in schemas {
            let table = Table::open(session, keyspace, schema, seed)?;
            count += load::write(session, &table, seed, round)?;
        }
        operator.flush(keyspace)?;
        if round == 0 {
            alter(session, keyspace, schemas)?;
        }
        if round == 1 {
            let some: Vec<&str> = compacted(schemas).map(|schema| schema.name.as_str()).collect();
            operator.compact(keyspace, &some)?;
        }
    }
    Ok(count)
}

/// The tables that are compacted behind the second round.
pub fn compacted(schemas: &[Schema]) -> impl Iterator<Item = &Schema> {
    schemas.iter().step_by(2)
}

/// Makes keyspace, types and tables; with what is changed about them later, if told so.
pub fn create(
    session: &mut Session,
    keyspace: &str,
    schemas: &[Schema],
    altered: bool,
) -> Result<(), String> {
    table::create_keyspace(session, keyspace)?;
    for schema in schemas {
        session.run(&schema.create(keyspace))?;
    }
    if altered { alter(session, keyspace, schemas) } else { Ok(()) }
}

/// Changes columns, as it is done behind the first round.
pub fn alter(session: &mut Session, keyspace: &str, schemas: &[Schema]) -> Result<(), String> {
    alter_statements(keyspace, schemas).try_for_each(|statement| session.run(&statement))
}

/// What changes them.
pub fn alter_statements(keyspace: &str, schemas: &[Schema]) -> impl Iterator<Item = String> {
    schemas.iter().flat_map(move |schema| {
        schema.alters.iter().map(move |change| format!("ALTER TABLE {keyspace}.{} {change}", schema.name))
    })
}
