//! A conditional request as the coordinator decides it.

use coordinator::Conditional;
use core::time::Duration;
use cql::{BoundValue, CasRun, OwnedValue};
use mutation::{Mutation, ReadAnswer, ReadCommand};
use types::Consistency;

/// A conditional request, ready to be decided.
pub(crate) struct Cas {
    pub(crate) run: CasRun,
    pub(crate) serial: Consistency,
    pub(crate) commit: Consistency,
    pub(crate) timeout: Duration,
}

impl Conditional for Cas {
    fn command(&self) -> &ReadCommand {
        self.run.command()
    }

    fn decide(&self, answer: &ReadAnswer, at: i64) -> Result<Option<Mutation>, String> {
        self.run.decide(answer, at).map_err(|error| error.to_string())
    }
}

/// A copy of bound values.
pub(crate) fn owned(values: &[BoundValue<'_>]) -> Vec<OwnedValue> {
    values.iter().map(OwnedValue::of).collect()
}
