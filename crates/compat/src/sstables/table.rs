//! A table of a keyspace: its types as the server says them, and the keys that all statements about it choose from.

use std::collections::BTreeMap;

use super::schemas::{Column, Role, Schema, TYPES};
use super::session::Session;
use super::values::{self, Chance, Size};
use crate::cql::types::Type;

/// Values of some columns, in their order.
pub type Tuple = Vec<Vec<u8>>;

/// A table.
pub struct Table<'s> {
    /// `keyspace.table`.
    pub name: String,
    /// What it was made of.
    pub schema: &'s Schema,
    /// What it is made of now.
    pub columns: Vec<Column>,
    /// Partition keys.
    pub keys: Vec<Tuple>,
    /// Clusterings; one of no values when there is none.
    pub clusterings: Vec<Tuple>,
    types: BTreeMap<String, Type>,
}

/// Makes a keyspace and its user types.
pub fn create_keyspace(session: &mut Session, keyspace: &str) -> Result<(), String> {
    keyspace_statements(keyspace).iter().try_for_each(|statement| session.run(statement))
}

/// What makes them.
pub fn keyspace_statements(keyspace: &str) -> Vec<String> {
    let replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}";
    let mut all = vec![format!("CREATE KEYSPACE {keyspace} WITH replication = {replication}")];
    all.extend(TYPES.iter().map(|ty| format!("CREATE TYPE {keyspace}.{ty}")));
    all
}

impl<'s> Table<'s> {
    /// Looks a table up that was made. The same seed means the same keys, in whatever server.
    pub fn open(
        session: &mut Session,
        keyspace: &str,
        schema: &'s Schema,
        seed: u64,
    ) -> Result<Table<'s>, String> {
        let name = format!("{keyspace}.{}", schema.name);
        let columns = session.columns(&format!("SELECT * FROM {name}"))?;
        let types: BTreeMap<String, Type> =
            columns.into_iter().map(|column| (column.name, column.ty)).collect();
        let columns =
            schema.columns.iter().filter(|column| types.contains_key(column.name.trim_matches('"')));
        let columns = columns.cloned().collect();
        let mut table = Table { name, schema, columns, keys: Vec::new(), clusterings: Vec::new(), types };
        let mut chance = Chance::new(seed, &schema.name);
        let (load, size) = (schema.load, table.size());
        let mut pool = |table: &Table<'_>, count: usize, clustering: bool| {
            // An empty partition key is refused.
            let size = if clustering { size } else { size.never_empty() };
            let columns: Vec<_> = schema
                .columns
                .iter()
                .filter(|column| if clustering { column.is_clustering() } else { column.role == Role::Key })
                .collect();
            let mut made: Vec<Tuple> = Vec::new();
            for _ in 0..count {
                let tuple: Tuple = columns
                    .iter()
                    .map(|column| values::key(table.type_of(&column.name), size, &mut chance))
                    .collect();
                if !made.contains(&tuple) {
                    made.push(tuple);
                }
            }
            made
        };
        table.keys = pool(&table, load.partitions, false);
        table.clusterings = pool(&table, load.rows, true);
        if load.fill {
            // So that ranges between neighbours are narrow.
            table.clusterings.sort_by_key(first_number);
        }
        Ok(table)
    }

    /// How large its values are.
    pub fn size(&self) -> Size {
        let load = self.schema.load;
        Size::new(load.bytes, load.empty, load.repetitive)
    }

    /// Type of a column, by its name as in CQL.
    pub fn type_of(&self, column: &str) -> &Type {
        &self.types[column.trim_matches('"')]
    }

    /// Columns of a role.
    pub fn of(&self, role: Role) -> impl Iterator<Item = &Column> {
        self.columns.iter().filter(move |column| column.role == role)
    }

    /// The clustering, in order.
    pub fn clustering(&self) -> impl Iterator<Item = &Column> {
        self.columns.iter().filter(|column| column.is_clustering())
    }

    /// `a = ? AND b = ?` over the partition key.
    pub fn key_is(&self) -> String {
        conditions(self.of(Role::Key).map(|column| &column.name))
    }

    /// The same over the first columns of the clustering.
    pub fn clustering_is(&self, count: usize) -> String {
        conditions(self.clustering().take(count).map(|column| &column.name))
    }
}

/// The first value of a clustering, which is an `int`.
fn first_number(row: &Tuple) -> i32 {
    row.first().and_then(|value| value[..].try_into().ok()).map_or(0, i32::from_be_bytes)
}

/// Joins names as conditions of equality.
fn conditions<'n>(names: impl Iterator<Item = &'n String>) -> String {
    names.map(|name| format!("{name} = ?")).collect::<Vec<_>>().join(" AND ")
}
