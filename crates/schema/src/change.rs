//! The difference between two schemas, as records of the schema log.
//!
//! ```text
//! u8 1 all       the whole schema                 u8 2 keyspace put     the keyspace without its tables
//! u8 3 keyspace dropped   name                    u8 4 table put        keyspace name, the table
//! u8 5 table dropped      keyspace name, name     u8 6 compact table put   keyspace name, u8 as in the whole schema, the table
//! ```
//! On disk: kinds are only ever added.

use crate::codec::{Input, put_compact, put_count, put_keyspace, put_str, put_table};
use crate::{CompactStorage, Error, Keyspace, Schema, Table};
use base::ByteReader;
use std::collections::BTreeMap;
use std::sync::Arc;

/// One step from a schema to the next.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// Everything, whatever was before.
    All(Arc<Schema>),
    /// A keyspace was created or altered; its tables are not part of this.
    PutKeyspace(Arc<Keyspace>),
    /// A keyspace is gone with all its tables.
    DropKeyspace(Arc<str>),
    /// A table was created or altered. Names its keyspace itself.
    PutTable(Arc<Table>),
    /// A table is gone: keyspace, table.
    DropTable(Arc<str>, Arc<str>),
}

impl Change {
    /// What leads from one schema to another. O(tables).
    pub fn between(from: &Schema, to: &Schema) -> Vec<Change> {
        let mut changes = Vec::new();
        for name in from.keyspaces.keys().filter(|n| !to.keyspaces.contains_key(*n)) {
            changes.push(Change::DropKeyspace(name.clone()));
        }
        for (name, keyspace) in &to.keyspaces {
            match from.keyspaces.get(name) {
                Some(before) if Arc::ptr_eq(before, keyspace) => {}
                before => keyspace_changes(before.map(|k| &**k), keyspace, &mut changes),
            }
        }
        changes
    }

    /// Several changes as one record, so that they become durable together.
    pub fn encode_all(changes: &[Change]) -> Vec<u8> {
        let mut out = Vec::new();
        for change in changes {
            let bytes = change.encode();
            out.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
            out.extend_from_slice(&bytes);
        }
        out
    }

    /// Reads what [`Change::encode_all`] wrote.
    pub fn decode_all(record: &[u8]) -> Result<Vec<Change>, Error> {
        let mut input = Input { reader: ByteReader::new(record) };
        let mut changes = Vec::new();
        while !input.reader.is_empty() {
            changes.push(Change::decode(&input.blob("a change")?)?);
        }
        Ok(changes)
    }

    /// The change as bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Change::All(schema) => {
                out.push(1);
                out.extend_from_slice(&schema.encode());
            }
            Change::PutKeyspace(keyspace) => {
                out.push(2);
                put_keyspace(&mut out, keyspace);
                // It has no tables here.
                put_count(&mut out, 0);
            }
            Change::DropKeyspace(name) => {
                out.push(3);
                put_str(&mut out, name);
            }
            Change::PutTable(table) => {
                out.push(if table.is_compact() { 6 } else { 4 });
                put_str(&mut out, &table.keyspace);
                if table.is_compact() {
                    put_compact(&mut out, table.compact);
                }
                put_table(&mut out, table);
            }
            Change::DropTable(keyspace, name) => {
                out.push(5);
                put_str(&mut out, keyspace);
                put_str(&mut out, name);
            }
        }
        out
    }

    /// Reads what [`Change::encode`] wrote.
    pub fn decode(bytes: &[u8]) -> Result<Change, Error> {
        if let [1, rest @ ..] = bytes {
            return Ok(Change::All(Arc::new(Schema::decode(rest)?)));
        }
        let mut input = Input { reader: ByteReader::new(bytes) };
        match input.u8("kind of change")? {
            2 => {
                let keyspace = input.keyspace()?;
                match input.count("tables")? {
                    0 => Ok(Change::PutKeyspace(Arc::new(keyspace))),
                    _ => Err(input.malformed("a keyspace without tables")),
                }
            }
            3 => Ok(Change::DropKeyspace(input.string("a keyspace name")?.into())),
            4 => {
                let keyspace = input.string("a keyspace name")?;
                Ok(Change::PutTable(Arc::new(input.table(&keyspace, CompactStorage::No)?)))
            }
            6 => {
                let keyspace = input.string("a keyspace name")?;
                let compact = input.compact()?;
                Ok(Change::PutTable(Arc::new(input.table(&keyspace, compact)?)))
            }
            5 => {
                let keyspace = input.string("a keyspace name")?.into();
                Ok(Change::DropTable(keyspace, input.string("a table name")?.into()))
            }
            _ => Err(input.malformed("a known kind of change")),
        }
    }
}

fn keyspace_changes(before: Option<&Keyspace>, after: &Arc<Keyspace>, changes: &mut Vec<Change>) {
    let same = before.is_some_and(|b| {
        b.replication == after.replication
            && b.durable_writes == after.durable_writes
            && b.types == after.types
    });
    if !same {
        changes.push(Change::PutKeyspace(after.clone()));
    }
    let none = BTreeMap::new();
    let tables = before.map_or(&none, |b| &b.tables);
    for name in tables.keys().filter(|n| !after.tables.contains_key(*n)) {
        changes.push(Change::DropTable(after.name.clone(), name.clone()));
    }
    for (name, table) in &after.tables {
        if !tables.get(name).is_some_and(|t| Arc::ptr_eq(t, table) || t == table) {
            changes.push(Change::PutTable(table.clone()));
        }
    }
}

impl Schema {
    /// Replays records of the schema log, oldest first, and gives the schema they lead to.
    /// Errors: a record names a keyspace that is not there.
    pub fn replay(changes: impl IntoIterator<Item = Change>) -> Result<Schema, Error> {
        let mut keyspaces: BTreeMap<Arc<str>, Keyspace> = BTreeMap::new();
        for change in changes {
            match change {
                Change::All(schema) => {
                    let all = schema.keyspaces.iter();
                    keyspaces = all.map(|(name, k)| (name.clone(), (**k).clone())).collect();
                }
                Change::PutKeyspace(keyspace) => put_over(&mut keyspaces, &keyspace),
                Change::DropKeyspace(name) => {
                    keyspaces.remove(&name);
                }
                Change::PutTable(table) => {
                    find(&mut keyspaces, &table.keyspace)?.tables.insert(table.name.clone(), table);
                }
                Change::DropTable(keyspace, name) => {
                    find(&mut keyspaces, &keyspace)?.tables.remove(&name);
                }
            }
        }
        let keyspaces = keyspaces.into_iter().map(|(name, k)| (name, Arc::new(k))).collect();
        Ok(Schema::new(0, keyspaces).with_content_version())
    }

    /// The same schema, its version made from its content: nodes with equal schemas show equal versions.
    pub fn with_content_version(mut self) -> Schema {
        let mut bytes = Vec::new();
        self.put_content(&mut bytes);
        let (high, low) = base::murmur3(&bytes);
        let hash = u128::from(high as u64) << 64 | u128::from(low as u64);
        // Marked as a name-based UUID, which it is in spirit.
        self.version = hash & !(0xf << 76) & !(0x3 << 62) | 3 << 76 | 2 << 62;
        self
    }
}

fn put_over(keyspaces: &mut BTreeMap<Arc<str>, Keyspace>, keyspace: &Keyspace) {
    let tables = keyspaces.remove(&keyspace.name).map(|k| k.tables).unwrap_or_default();
    keyspaces.insert(keyspace.name.clone(), Keyspace { tables, ..keyspace.clone() });
}

fn find<'k>(keyspaces: &'k mut BTreeMap<Arc<str>, Keyspace>, name: &str) -> Result<&'k mut Keyspace, Error> {
    let missing = || Error::Definition(format!("the schema log names a missing keyspace \"{name}\""));
    keyspaces.get_mut(name).ok_or_else(missing)
}
