//! The whole schema at one moment.

use crate::{Keyspace, Table, TableId};
use base::HashMap;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Every keyspace at one version. Built once, shared as `Arc<Schema>`, never changed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Schema {
    /// Changes with every schema change; nodes with equal versions have equal schemas.
    pub version: u128,
    /// By name.
    pub keyspaces: BTreeMap<Arc<str>, Arc<Keyspace>>,
    by_id: HashMap<TableId, Arc<Table>>,
}

impl Schema {
    /// Builds a snapshot, indexing tables by id.
    pub fn new(version: u128, keyspaces: BTreeMap<Arc<str>, Arc<Keyspace>>) -> Schema {
        let tables = keyspaces.values().flat_map(|k| k.tables.values());
        let by_id = tables.map(|t| (t.id, t.clone())).collect();
        Schema { version, keyspaces, by_id }
    }

    /// The keyspace of that name.
    pub fn keyspace(&self, name: &str) -> Option<&Arc<Keyspace>> {
        self.keyspaces.get(name)
    }

    /// The table of those names.
    pub fn table(&self, keyspace: &str, name: &str) -> Option<&Arc<Table>> {
        self.keyspaces.get(keyspace)?.tables.get(name)
    }

    /// The table with that id. O(1).
    pub fn table_by_id(&self, id: TableId) -> Option<&Arc<Table>> {
        self.by_id.get(&id)
    }

    /// All tables, in no particular order.
    pub fn tables(&self) -> impl Iterator<Item = &Arc<Table>> {
        self.by_id.values()
    }

    /// A copy with one keyspace added or replaced, at a new version.
    pub fn with_keyspace(&self, version: u128, keyspace: Keyspace) -> Schema {
        let mut keyspaces = self.keyspaces.clone();
        keyspaces.insert(keyspace.name.clone(), Arc::new(keyspace));
        Schema::new(version, keyspaces)
    }

    /// A copy without one keyspace, at a new version.
    pub fn without_keyspace(&self, version: u128, name: &str) -> Schema {
        let mut keyspaces = self.keyspaces.clone();
        keyspaces.remove(name);
        Schema::new(version, keyspaces)
    }
}
