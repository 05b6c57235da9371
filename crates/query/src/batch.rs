//! BATCH: statements bound one by one, written as one group.
//!
//! What one partition gets is applied all or none. On one node, what one shard gets is one commitlog entry, all or
//! none as well; a logged batch over several shards or nodes goes through `system.batches`: see `coordinator::batchlog`.

use crate::bound::{Bound, Write, miscount_of_batch, refuse_serial_counters, with_values};
use crate::conditional::owned;
use crate::engine::Engine;
use crate::error::Error;
use crate::limits;
use crate::outcome::Answer;
use crate::statement::Analysed;
use base::HashSet;
use coordinator::WriteKind;
use cql::{CasStatements, ModifyPlan, Plan};
use mutation::Mutation;
use protocol::request::{Batch, BatchKind, BatchSource, BatchStatement};
use schema::TableId;
use std::rc::Rc;
use std::sync::Arc;
use types::Consistency;

impl Engine {
    /// Runs a BATCH for `user`, if somebody is logged in.
    pub async fn batch(
        &self,
        keyspace: Option<&str>,
        user: Option<&str>,
        batch: &Batch<'_>,
    ) -> Result<Answer, Error> {
        self.metrics.batches.inc();
        let parameters = &batch.parameters;
        let keyspace = parameters.keyspace.or(keyspace);
        if batch.statements.len() > limits::BATCH_STATEMENTS_MAX {
            return Err(Error::Invalid("too many statements in a batch".into()));
        }
        // One time for all, so that they cannot overwrite each other in part.
        let context = self.context(parameters);
        let bound = batch
            .statements
            .iter()
            .map(|statement| Ok((self.analysed_part(keyspace, statement)?, statement)))
            .collect::<Result<Vec<_>, Error>>()?;
        let kind = match batch.kind {
            BatchKind::Logged => cql::BatchKind::Logged,
            BatchKind::Unlogged => cql::BatchKind::Unlogged,
            BatchKind::Counter => cql::BatchKind::Counter,
        };
        cql::refuse_mixed(kind, bound.iter().map(|((_, plan), _)| plan.table().counter))?;
        bound.iter().try_for_each(|((analysed, _), _)| self.authorize(analysed, user))?;
        if bound.iter().any(|((_, plan), _)| plan.is_conditional()) {
            let mut values = Vec::with_capacity(bound.len());
            for ((analysed, _), statement) in &bound {
                with_values(&analysed.binds, &statement.values, miscount_of_batch, |lent| {
                    values.push(owned(lent));
                    Ok(())
                })?;
            }
            let plans = bound.iter().map(|((_, plan), _)| plan.clone()).collect();
            let statements = CasStatements::Message(plans);
            let work = self.bind_cas(statements, values, parameters, self.settings.write_timeout)?;
            return Box::pin(self.run(Bound { work }, None)).await;
        }
        let mut reads = Vec::new();
        for ((analysed, plan), statement) in bound.iter().filter(|((_, plan), _)| plan.needs_prior()) {
            with_values(&analysed.binds, &statement.values, miscount_of_batch, |values| {
                reads.extend(plan.prior_read(values, &context)?);
                Ok(())
            })?;
        }
        // What every statement sees is what stood before the batch.
        let prior = Box::pin(self.read_prior(reads, parameters.consistency)).await?;
        let mut mutations = Vec::with_capacity(bound.len());
        for ((analysed, plan), statement) in &bound {
            with_values(&analysed.binds, &statement.values, miscount_of_batch, |values| {
                Ok(plan.bind_into(values, &context, &prior, &mut mutations)?)
            })?;
        }
        let logged = batch.kind == BatchKind::Logged;
        let counts = bound.iter().any(|((_, plan), _)| plan.table().counter);
        let write = self.batch_write(mutations, logged, counts, parameters.consistency)?;
        let of_roles = self.writes_roles(&write);
        let answer = self.run_write(write).await?;
        if of_roles {
            self.show_own_roles().await?;
        }
        Ok(answer)
    }

    /// One statement of a batch, found or analysed, and allowed in it.
    fn analysed_part(
        &self,
        keyspace: Option<&str>,
        statement: &BatchStatement<'_>,
    ) -> Result<(Rc<Analysed>, Arc<ModifyPlan>), Error> {
        let analysed = match statement.source {
            BatchSource::Prepared(id) => self.find(id)?.analysed(&self.schema())?,
            BatchSource::Query(text) => Rc::new(Analysed::of(&self.schema(), keyspace, text)?),
        };
        let Plan::Modify(plan) = &analysed.plan else {
            return Err(Error::Invalid(
                "Invalid statement in batch: only UPDATE, INSERT and DELETE statements are allowed.".into(),
            ));
        };
        let plan = plan.clone();
        self.refuse_modification(&plan)?;
        Ok((analysed, plan))
    }

    /// A batch's mutations as one write, with the warnings and refusals that its size calls for.
    pub(crate) fn batch_write(
        &self,
        mutations: Vec<Mutation>,
        logged: bool,
        counts: bool,
        consistency: Consistency,
    ) -> Result<Write, Error> {
        let partitions = count_partitions(&mutations);
        self.batch_seen(&mutations, partitions, logged);
        let mut warnings = Vec::new();
        if partitions > 1 {
            self.check_size(&mutations, &mut warnings)?;
        }
        if logged {
            warnings.extend(self.short_memory(&mutations));
        }
        if !logged && partitions > self.settings.batch_warn_partitions {
            warnings.push(format!(
                "Unlogged batch covering {partitions} partitions detected against table {}. You should use a logged \
                 batch for atomicity, or asynchronous writes for performance.",
                self.table_names(&mutations)
            ));
        }
        if counts {
            refuse_serial_counters(consistency)?;
        }
        let kind = match (partitions, logged) {
            _ if counts => WriteKind::Counter,
            (0 | 1, _) => WriteKind::Simple,
            (_, true) => WriteKind::Batch,
            (_, false) => WriteKind::UnloggedBatch,
        };
        let timeout = self.write_timeout(counts);
        Ok(Write { mutations, kind, consistency, timeout, warnings })
    }

    fn batch_seen(&self, mutations: &[Mutation], partitions: usize, logged: bool) {
        let table = mutations.first().and_then(|first| self.schema().table_by_id(first.table()).cloned());
        let seen = match (logged, table.is_some_and(|table| table.counter)) {
            (true, _) => &self.seen.logged,
            (false, true) => &self.seen.counter,
            (false, false) => &self.seen.unlogged,
        };
        seen.record(partitions as u64);
    }

    fn check_size(&self, mutations: &[Mutation], warnings: &mut Vec<String>) -> Result<(), Error> {
        let bytes: usize = mutations.iter().map(|m| m.as_bytes().len()).sum();
        if bytes > self.settings.batch_fail_bytes {
            return Err(Error::Invalid("Batch too large".into()));
        }
        let threshold = self.settings.batch_warn_bytes;
        if bytes > threshold {
            warnings.push(format!(
                "Batch for {} is of size {bytes}, exceeding specified threshold of {threshold} by {}.",
                self.table_names(mutations),
                bytes - threshold
            ));
        }
        Ok(())
    }

    /// Warns of tables that forget deletions at once: a batch that an earlier life has left is not written to them again.
    fn short_memory(&self, mutations: &[Mutation]) -> Option<String> {
        let schema = self.schema();
        let mut ids: Vec<TableId> = mutations.iter().map(Mutation::table).collect();
        ids.sort_unstable();
        ids.dedup();
        let tables = ids.iter().filter_map(|id| schema.table_by_id(*id));
        let names: Vec<String> = tables
            .filter(|table| table.options.gc_grace_seconds == 0)
            .map(|table| table.qualified_name())
            .collect();
        let plural = if names.len() == 1 { "" } else { "s" };
        (!names.is_empty()).then(|| {
            format!(
                "Executing a LOGGED BATCH on table{plural} [{}], configured with a gc_grace_seconds of 0. The \
                 gc_grace_seconds is used to TTL batchlog entries, so setting gc_grace_seconds too low on tables \
                 involved in an atomic batch might cause batchlog entries to expire before being replayed.",
                names.join(", ")
            )
        })
    }

    fn table_names(&self, mutations: &[Mutation]) -> String {
        let schema = self.schema();
        let mut ids: Vec<TableId> = mutations.iter().map(Mutation::table).collect();
        ids.sort_unstable();
        ids.dedup();
        let name = |id: &TableId| schema.table_by_id(*id).map(|table| table.qualified_name());
        let names: Vec<String> = ids.iter().filter_map(name).collect();
        format!("[{}]", names.join(", "))
    }
}

fn count_partitions(mutations: &[Mutation]) -> usize {
    if mutations.len() < 2 {
        return mutations.len();
    }
    let keys: HashSet<(TableId, &[u8])> = mutations.iter().map(|m| (m.table(), m.view().key)).collect();
    keys.len()
}
