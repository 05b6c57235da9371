//! BATCH: several INSERT, UPDATE and DELETE, analysed and bound together.

use crate::ast::{Batch, BatchKind, StatementKind};
use crate::error::{Result, invalid};
use crate::modify::{ModifyPlan, delete, insert, update};
use crate::prior::Prior;
use crate::term::{Env, Scope, Term};
use crate::value::{BindContext, BindSpec, BoundValue, check_values};
use crate::write::{Moment, eval_timeout, eval_timestamp};
use core::time::Duration;
use mutation::{Mutation, ReadCommand};
use schema::Table;
use std::sync::Arc;
use types::CqlType;

/// A BATCH, ready to be bound.
#[derive(Debug, Clone, PartialEq)]
pub struct BatchPlan {
    /// Whether it is logged: all or nothing.
    pub logged: bool,
    /// Its statements; markers are numbered through the whole batch.
    pub statements: Vec<ModifyPlan>,
    binds: Arc<[BindSpec]>,
    timestamp: Option<Term>,
    timeout: Option<Term>,
}

impl BatchPlan {
    /// Whether one of its statements has an IF.
    pub fn is_conditional(&self) -> bool {
        self.statements.iter().any(ModifyPlan::is_conditional)
    }

    /// Whether it changes counters.
    pub fn counts(&self) -> bool {
        self.statements.iter().any(|statement| statement.table().counter)
    }

    /// Whether lists must be read before elements of theirs can be written.
    pub fn needs_prior(&self) -> bool {
        self.statements.iter().any(ModifyPlan::needs_prior)
    }

    /// What to read before the write: everything as it stands before the batch.
    pub fn prior_reads(
        &self,
        values: &[BoundValue<'_>],
        context: &BindContext<'_>,
    ) -> Result<Vec<ReadCommand>> {
        let reads = self.statements.iter().map(|s| s.prior_read(values, context).transpose());
        reads.flatten().collect()
    }

    /// The mutations of all statements, in their order. All carry the same timestamp unless a statement has its own.
    pub fn bind(
        &self,
        values: &[BoundValue<'_>],
        context: &BindContext<'_>,
        prior: &Prior,
    ) -> Result<Vec<Mutation>> {
        check_values(&self.binds, values)?;
        let mut out = Vec::with_capacity(self.statements.len());
        for statement in &self.statements {
            let env = Env { values, context, table: statement.table() };
            let timestamp = match &self.timestamp {
                Some(term) => eval_timestamp(term, &env)?,
                None => None,
            };
            statement.write_into(&env, prior, Moment::Statement(timestamp), &mut out)?;
        }
        Ok(out)
    }

    /// The time the client allows, if the batch says.
    pub fn timeout(&self, values: &[BoundValue<'_>]) -> Result<Option<Duration>> {
        match self.statements.first() {
            Some(statement) => eval_timeout(self.timeout.as_ref(), values, statement.table()),
            None => Ok(None),
        }
    }

    pub(crate) fn set_binds(&mut self, binds: &Arc<[BindSpec]>) {
        self.binds = binds.clone();
        self.statements.iter_mut().for_each(|statement| statement.set_binds(binds));
    }
}

/// What the analysis of a batch needs for each of its statements.
pub(crate) type TableOf<'t> =
    &'t dyn Fn(&crate::ast::TableName) -> Result<(Arc<schema::Keyspace>, Arc<Table>)>;

/// Analyses a whole batch.
pub(crate) fn batch(
    batch: &Batch,
    table_of: TableOf<'_>,
    binds: &mut Vec<Option<BindSpec>>,
    marker_names: &[Option<String>],
) -> Result<BatchPlan> {
    if batch.using.ttl.is_some() {
        return invalid("Global TTL on the BATCH statement is not supported.");
    }
    let mut statements = Vec::with_capacity(batch.statements.len());
    let mut timestamp = None;
    let mut timeout = None;
    for statement in &batch.statements {
        let name = match statement {
            StatementKind::Insert(s) => &s.table,
            StatementKind::Update(s) => &s.table,
            StatementKind::Delete(s) => &s.table,
            _ => return invalid("only INSERT, UPDATE and DELETE may stand in a batch"),
        };
        let (keyspace, table) = table_of(name)?;
        let mut scope = Scope { keyspace: &keyspace, table: &table, binds, marker_names };
        if let (None, Some(expr)) = (&timestamp, &batch.using.timestamp) {
            timestamp = Some(scope.term(expr, "[timestamp]", &CqlType::Bigint)?);
        }
        if let (None, Some(expr)) = (&timeout, &batch.using.timeout) {
            timeout = Some(scope.term(expr, "[timeout]", &CqlType::Duration)?);
        }
        let plan = match statement {
            StatementKind::Insert(s) => insert(&mut scope, s)?,
            StatementKind::Update(s) => update(&mut scope, s)?,
            StatementKind::Delete(s) => delete(&mut scope, s)?,
            _ => return invalid("only INSERT, UPDATE and DELETE may stand in a batch"),
        };
        if timestamp.is_some() && plan.is_conditional() {
            return invalid("Cannot provide custom timestamp for conditional BATCH");
        }
        if timestamp.is_some() && plan.has_timestamp() {
            return invalid("Timestamp must be set either on BATCH or individual statements");
        }
        statements.push(plan);
    }
    let counters = statements.iter().map(|plan| plan.table().counter);
    if timestamp.is_some() && batch.kind == BatchKind::Counter {
        return invalid("Cannot provide custom timestamp for counter BATCH");
    }
    if timestamp.is_some() && counters.clone().any(|counts| counts) {
        return invalid("Cannot provide custom timestamp for a BATCH containing counters");
    }
    refuse_mixed(batch.kind, counters)?;
    refuse_several_tables(statements.iter())?;
    Ok(BatchPlan {
        logged: batch.kind == BatchKind::Logged,
        statements,
        binds: Arc::new([]),
        timestamp,
        timeout,
    })
}

/// What conditions decide upon is of one table.
pub(crate) fn refuse_several_tables<'p>(plans: impl Iterator<Item = &'p ModifyPlan> + Clone) -> Result<()> {
    let mut tables = plans.clone().map(|plan| plan.table().id);
    let first = tables.next();
    if plans.clone().any(ModifyPlan::is_conditional) && tables.any(|table| Some(table) != first) {
        return invalid("Batch with conditions cannot span multiple tables");
    }
    Ok(())
}

/// Counters and other columns are not written together, nor with a log: it would write them again. `counters`: of each statement, whether its table has
/// counters.
pub fn refuse_mixed(kind: BatchKind, counters: impl Iterator<Item = bool> + Clone) -> Result<()> {
    let (has_counters, has_others) =
        (counters.clone().any(|counts| counts), !counters.clone().all(|counts| counts));
    match kind {
        BatchKind::Counter if has_others => {
            invalid("Cannot include non-counter statement in a counter batch")
        }
        _ if has_counters && has_others => {
            invalid("Counter and non-counter mutations cannot exist in the same batch")
        }
        BatchKind::Logged if has_counters => invalid("Cannot include a counter statement in a logged batch"),
        BatchKind::Logged | BatchKind::Unlogged | BatchKind::Counter => Ok(()),
    }
}
