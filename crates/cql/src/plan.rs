//! From a parsed statement and a schema to a plan: what the query floor prepares, caches and runs.

use crate::ast::{Statement, StatementKind, TableName};
use crate::batch::{self, BatchPlan};
use crate::ddl::{SchemaChange, is_system_keyspace, schema_change};
use crate::describe::DescribePlan;
use crate::error::{Error, Result, invalid, unsupported};
use crate::modify::{self, ModifyPlan};
use crate::names;
use crate::role::RolePlan;
use crate::select::{self, ResultColumn, SelectPlan};
use crate::term::Scope;
use crate::value::BindSpec;
use schema::{Keyspace, Schema, Table};
use std::sync::Arc;

/// What a statement does. Plans refer to tables by the definitions they were prepared with: a schema change makes them
/// stale, and the caller prepares again.
#[derive(Debug, Clone, PartialEq)]
pub enum Plan {
    /// Reads.
    Select(Arc<SelectPlan>),
    /// Writes.
    Modify(Arc<ModifyPlan>),
    /// Several writes.
    Batch(Arc<BatchPlan>),
    /// Changes the schema; see [`crate::apply`].
    SchemaChange(Arc<SchemaChange>),
    /// Sets the connection's keyspace, which exists.
    Use {
        /// The keyspace.
        keyspace: Arc<str>,
    },
    /// Empties a table, if there is one when it runs: whether there is must not be seen by who may not empty it.
    Truncate {
        /// Its keyspace.
        keyspace: String,
        /// Its name.
        table: String,
    },
    /// Tells about the schema.
    Describe(Arc<DescribePlan>),
    /// Changes or lists roles.
    Role(Arc<RolePlan>),
}

impl Plan {
    /// The tables whose rows it reads or writes, as they were when it was made. All other plans look up what they name
    /// each time they run.
    pub fn tables(&self) -> Vec<&Arc<Table>> {
        match self {
            Plan::Select(plan) => vec![plan.table()],
            Plan::Modify(plan) => vec![plan.table()],
            Plan::Batch(plan) => plan.statements.iter().map(ModifyPlan::table).collect(),
            Plan::SchemaChange(_)
            | Plan::Use { .. }
            | Plan::Truncate { .. }
            | Plan::Describe(_)
            | Plan::Role(_) => Vec::new(),
        }
    }
}

/// A statement, prepared.
#[derive(Debug, Clone, PartialEq)]
pub struct Prepared {
    /// What to do.
    pub plan: Plan,
    /// What to send for each marker.
    pub binds: Arc<[BindSpec]>,
    /// For each component of the partition key the marker that holds it; empty unless each has one.
    pub pk_binds: Vec<u16>,
    /// What each row of the result holds; `None` when there are no rows.
    pub result: Option<Arc<[ResultColumn]>>,
}

impl Prepared {
    /// The table it reads or writes, if it is about one.
    pub fn table(&self) -> Option<&Arc<Table>> {
        match &self.plan {
            Plan::Select(plan) => Some(plan.table()),
            Plan::Modify(plan) => Some(plan.table()),
            Plan::Batch(_)
            | Plan::SchemaChange(_)
            | Plan::Use { .. }
            | Plan::Truncate { .. }
            | Plan::Describe(_)
            | Plan::Role(_) => None,
        }
    }
}

/// Analyses a statement against a schema. `keyspace` is the one in use.
/// Errors: everything that is wrong with it before values are known; schema changes are checked when applied.
pub fn prepare(schema: &Schema, keyspace: Option<&str>, statement: Statement) -> Result<Prepared> {
    let Statement { kind, markers } = statement;
    let mut binds: Vec<Option<BindSpec>> = vec![None; markers.len()];
    let find = |name: &TableName| -> Result<(Arc<Keyspace>, Arc<Table>)> {
        let table = names::table(schema, keyspace, name)?;
        let keyspace = schema.keyspace(&table.keyspace).expect("the table was found in it");
        Ok((keyspace.clone(), table.clone()))
    };
    let find_for_write = |name: &TableName| -> Result<(Arc<Keyspace>, Arc<Table>)> {
        let found = find(name)?;
        refuse_system(&found.1)?;
        Ok(found)
    };
    let mut plan = match kind {
        StatementKind::Select(statement) => {
            let (keyspace, table) = find(&statement.table)?;
            let mut scope =
                Scope { keyspace: &keyspace, table: &table, binds: &mut binds, marker_names: &markers };
            Plan::Select(Arc::new(select::select(&mut scope, &statement)?))
        }
        StatementKind::Insert(_) | StatementKind::Update(_) | StatementKind::Delete(_) => {
            let name = match &kind {
                StatementKind::Insert(s) => &s.table,
                StatementKind::Update(s) => &s.table,
                StatementKind::Delete(s) => &s.table,
                _ => return unsupported("this statement"),
            };
            let (keyspace, table) = find_for_write(name)?;
            let mut scope =
                Scope { keyspace: &keyspace, table: &table, binds: &mut binds, marker_names: &markers };
            Plan::Modify(Arc::new(match &kind {
                StatementKind::Insert(s) => modify::insert(&mut scope, s)?,
                StatementKind::Update(s) => modify::update(&mut scope, s)?,
                StatementKind::Delete(s) => modify::delete(&mut scope, s)?,
                _ => return unsupported("this statement"),
            }))
        }
        StatementKind::Batch(batch) => {
            Plan::Batch(Arc::new(batch::batch(&batch, &find_for_write, &mut binds, &markers)?))
        }
        StatementKind::Use { keyspace } => match schema.keyspace(&keyspace) {
            Some(keyspace) => Plan::Use { keyspace: keyspace.name.clone() },
            None => return invalid(format!("Keyspace '{keyspace}' does not exist")),
        },
        StatementKind::Truncate { table } => Plan::Truncate {
            keyspace: names::keyspace_name(table.keyspace.as_deref(), keyspace)?.to_owned(),
            table: table.name,
        },
        StatementKind::Describe(describe) => Plan::Describe(Arc::new(DescribePlan::new(describe, keyspace))),
        other => match RolePlan::of(other, keyspace) {
            Ok(plan) => Plan::Role(Arc::new(plan)),
            Err(other) => Plan::SchemaChange(Arc::new(schema_change(schema, *other, keyspace)?)),
        },
    };
    let binds = known_binds(binds)?;
    let (pk_binds, result) = match &mut plan {
        Plan::Select(plan) => {
            let plan = Arc::make_mut(plan);
            plan.set_binds(&binds);
            (plan.key_markers(), Some(plan.columns().clone()))
        }
        Plan::Modify(plan) => {
            let plan = Arc::make_mut(plan);
            plan.set_binds(&binds);
            (plan.key_markers(), None)
        }
        Plan::Batch(plan) => {
            Arc::make_mut(plan).set_binds(&binds);
            (Vec::new(), None)
        }
        Plan::Describe(plan) => (Vec::new(), Some(plan.columns().clone())),
        Plan::Role(plan) => (Vec::new(), plan.columns()),
        Plan::SchemaChange(_) | Plan::Use { .. } | Plan::Truncate { .. } => (Vec::new(), None),
    };
    Ok(Prepared { plan, binds, pk_binds, result })
}

fn refuse_system(table: &Table) -> Result<()> {
    // Tables made up when read are refused where they are made up, in other words.
    let shared = matches!(
        &*table.keyspace,
        "system_auth" | "system_distributed" | "system_traces" | "system_views" | "system_virtual_schema"
    );
    if is_system_keyspace(&table.keyspace) && !shared {
        return Err(Error::Unauthorized {
            text: format!("{} keyspace is not user-modifiable.", table.keyspace),
        });
    }
    Ok(())
}

fn known_binds(binds: Vec<Option<BindSpec>>) -> Result<Arc<[BindSpec]>> {
    let known: Option<Vec<BindSpec>> = binds.into_iter().collect();
    match known {
        Some(known) => Ok(known.into()),
        None => invalid("Cannot determine the type of a bind marker"),
    }
}
