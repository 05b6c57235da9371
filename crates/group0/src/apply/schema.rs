//! Steps of the schema.

use super::{Refusal, refuse};
use crate::State;
use crate::limits::DROPPED_MAX;
use schema::{Change, Schema, TableId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What steps take away, as they are taken: what was made again under the same name or id was dropped all the same.
#[derive(Default)]
struct Dropped {
    ids: Vec<TableId>,
    /// Keyspace and table; no table for a whole keyspace.
    names: Vec<(Arc<str>, Option<Arc<str>>)>,
}

impl State {
    pub(super) fn change_schema(&mut self, changes: &[Change]) -> Result<(), Refusal> {
        if changes.iter().any(|change| matches!(change, Change::All(_))) {
            return refuse("only the founding brings a whole schema");
        }
        let dropped = dropped(&self.schema, changes);
        let all = std::iter::once(Change::All(self.schema.clone()));
        let next = match Schema::replay(all.chain(changes.iter().cloned())) {
            Ok(next) => next,
            Err(error) => return refuse(error.to_string()),
        };
        check_ids(&next)?;
        self.schema = Arc::new(next);
        self.versions.schema = self.version;
        self.forget_tables(&dropped.ids);
        self.forget_permissions(&dropped.names);
        Ok(())
    }

    fn forget_tables(&mut self, ids: &[TableId]) {
        if ids.is_empty() {
            return;
        }
        let truncations = Arc::make_mut(&mut self.truncations);
        truncations.retain(|id, _| !ids.contains(id));
        let dropped = Arc::make_mut(&mut self.dropped);
        dropped.extend(ids.iter().map(|id| (*id, self.version)));
        let excess = dropped.len().saturating_sub(DROPPED_MAX);
        if excess > 0 {
            let unused = dropped.iter().filter(|(id, _)| self.schema.table_by_id(**id).is_none());
            let mut oldest: Vec<_> = unused.map(|(id, version)| (*version, *id)).collect();
            oldest.sort_unstable();
            oldest.truncate(excess);
            oldest.iter().for_each(|(_, id)| {
                dropped.remove(id);
            });
        }
    }

    /// Permissions on what is gone are gone, as in Cassandra. Roles count as changed even if none was: a grant that was decided before
    /// would else wait for a later table of that name.
    fn forget_permissions(&mut self, names: &[(Arc<str>, Option<Arc<str>>)]) {
        if names.is_empty() {
            return;
        }
        self.versions.roles = self.version;
        let mut resources = Vec::new();
        for (keyspace, table) in names {
            match table {
                Some(table) => resources.push(format!("data/{keyspace}/{table}")),
                None => resources.extend([format!("data/{keyspace}"), format!("functions/{keyspace}")]),
            }
        }
        let within = |resource: &str| {
            let below =
                |gone: &String| resource.strip_prefix(&**gone).is_some_and(|rest| rest.starts_with('/'));
            resources.iter().any(|gone| gone == resource || below(gone))
        };
        self.revoke_where(|_, resource| within(resource));
    }
}

/// Two tables of one id would hide each other.
pub(super) fn check_ids(schema: &Schema) -> Result<(), Refusal> {
    let named: usize = schema.keyspaces.values().map(|keyspace| keyspace.tables.len()).sum();
    if named != schema.tables().count() {
        return refuse("another table has this table's id");
    }
    Ok(())
}

fn dropped(schema: &Schema, changes: &[Change]) -> Dropped {
    let mut there: BTreeMap<(Arc<str>, Arc<str>), TableId> = BTreeMap::new();
    for table in schema.tables() {
        there.insert((table.keyspace.clone(), table.name.clone()), table.id);
    }
    let mut dropped = Dropped::default();
    for change in changes {
        match change {
            Change::All(_) | Change::PutKeyspace(_) => {}
            Change::PutTable(table) => {
                let before = there.insert((table.keyspace.clone(), table.name.clone()), table.id);
                dropped.ids.extend(before.filter(|id| *id != table.id));
            }
            Change::DropTable(keyspace, name) => {
                dropped.ids.extend(there.remove(&(keyspace.clone(), name.clone())));
                dropped.names.push((keyspace.clone(), Some(name.clone())));
            }
            Change::DropKeyspace(name) => {
                dropped.names.push((name.clone(), None));
                there.retain(|(keyspace, _), id| {
                    if keyspace == name {
                        dropped.ids.push(*id);
                    }
                    keyspace != name
                });
            }
        }
    }
    dropped
}
