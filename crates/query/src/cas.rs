//! Conditional statements and batches: bound here, decided by the coordinator, answered with `[applied]`.

use crate::bound::Work;
use crate::conditional::Cas;
use crate::engine::Engine;
use crate::error::Error;
use crate::outcome::{Announce, Answer, Outcome, ResultMetadata, Rows};
use crate::run::push_row;
use core::time::Duration;
use cql::{CasRun, CasStatements, OwnedValue};
use protocol::metadata::ColumnSpec;
use protocol::request::Parameters;
use schema::{Replication, Table};
use std::rc::Rc;
use types::Consistency;

impl Engine {
    /// Binds a conditional request. `values` as [`CasRun::new`] has them.
    pub(crate) fn bind_cas(
        &self,
        statements: CasStatements,
        values: Vec<Vec<OwnedValue>>,
        parameters: &Parameters<'_>,
        timeout: Duration,
    ) -> Result<Work, Error> {
        let run = CasRun::new(statements, values, self.context(parameters))?;
        let serial = parameters.serial_consistency.unwrap_or(Consistency::Serial);
        if !serial.is_serial() {
            return Err(Error::Invalid(
                "Invalid consistency for conditional update. Must be one of SERIAL or LOCAL_SERIAL".into(),
            ));
        }
        let commit = parameters.consistency;
        self.check_commit_level(run.table(), commit)?;
        Ok(Work::Cas(Box::new(Cas { run, serial, commit, timeout })))
    }

    fn check_commit_level(&self, table: &Table, commit: Consistency) -> Result<(), Error> {
        if commit.is_serial() {
            return Err(Error::Invalid(format!(
                "{commit} is not supported as conditional update commit consistency. Use ANY if you mean \"make sure it is \
                 accepted but I don't care how many replicas commit it for non-SERIAL reads\""
            )));
        }
        let schema = self.schema();
        let replication = schema.keyspace(&table.keyspace).map(|keyspace| &keyspace.replication);
        let class = match replication {
            Some(Replication::Simple { .. }) => "SimpleStrategy",
            Some(Replication::Local) => "LocalStrategy",
            Some(Replication::NetworkTopology { .. }) | None => return Ok(()),
        };
        if commit == Consistency::EachQuorum {
            return Err(Error::Invalid(format!(
                "consistency level EACH_QUORUM not compatible with replication strategy \
                 (org.apache.cassandra.locator.{class})"
            )));
        }
        Ok(())
    }

    pub(crate) async fn run_cas(&self, cas: &Cas) -> Result<Answer, Error> {
        let decided = self.coordinator.cas(cas, cas.serial, cas.commit, cas.timeout).await?;
        let seen = if decided.applied { &self.seen.applied } else { &self.seen.not_applied };
        seen.inc();
        runtime::tracing::note(|| match decided.applied {
            true => "CAS successful",
            false => "CAS precondition does not match current values",
        });
        let applied = [u8::from(decided.applied)];
        let (mut count, mut content) = (0, self.room());
        if !decided.applied {
            cas.run.rows(&decided.answer, &mut |values| {
                let mut row = Vec::with_capacity(values.len() + 1);
                row.push(Some(&applied[..]));
                row.extend_from_slice(values);
                push_row(&mut count, &mut content, &row);
            })?;
        }
        let columns = cas.run.columns(decided.applied, count as usize);
        if count == 0 {
            push_row(&mut count, &mut content, &[Some(&applied)]);
        }
        let spec = |c: cql::ResultColumn| ColumnSpec {
            keyspace: c.keyspace,
            table: c.table,
            name: c.name,
            ty: c.ty,
        };
        let metadata = Rc::new(ResultMetadata::new(columns.into_iter().map(spec).collect()));
        // Its columns depend on what was found: they are told each time, and are not to be remembered.
        let rows = Rows { count, content, ..Rows::new(metadata, Announce::Columns) };
        Ok(Answer::plain(Outcome::Rows(rows)))
    }
}
