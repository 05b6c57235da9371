//! Conditional requests of one partition, and reads that see all of them that were decided.
//!
//! PROVISIONAL: nothing is isolated. The partition is read at the serial level's quorum, the conditions are judged here and
//! the outcome is written at the commit level, so two requests at once may both find their conditions true. The entry points
//! are those that callers keep; what stands behind them is to become rounds of Paxos.

use crate::coordinator::Coordinator;
use crate::error::{Error, WriteKind};
use mutation::{Mutation, ReadAnswer, ReadCommand};
use std::rc::Rc;
use std::time::Duration;
use types::Consistency;

/// A conditional statement or batch over one partition, bound to its values.
pub trait Conditional {
    /// What must be read of the partition to decide, and to write. By one key, whole (no paging).
    fn command(&self) -> &ReadCommand;
    /// What to write if the conditions hold on what was read; `None`: they do not. `at`: the time of all cells, µs; elements
    /// of lists get keys that follow from it. Deletions of ranges and of the whole partition are a microsecond earlier, so
    /// decisions about one partition must be at least one microsecond apart.
    fn decide(&self, answer: &ReadAnswer, at: i64) -> Result<Option<Mutation>, String>;
}

/// How a conditional request ended.
pub struct Decided {
    /// Whether the conditions held and the write was made.
    pub applied: bool,
    /// What was read to decide.
    pub answer: ReadAnswer,
}

impl Coordinator {
    /// Reads, decides and writes as one step of the partition's history.
    /// Errors: see [`Error`]; after anything but `Unavailable` and `Invalid` the write may still take effect.
    pub async fn cas(
        self: &Rc<Self>,
        what: &dyn Conditional,
        serial: Consistency,
        commit: Consistency,
        timeout: Duration,
    ) -> Result<Decided, Error> {
        let answer = self.read(what.command(), serial, timeout).await.map_err(as_write)?;
        match what.decide(&answer, runtime::unix_micros()).map_err(Error::Invalid)? {
            None => Ok(Decided { applied: false, answer }),
            Some(mutation) => {
                self.write(vec![mutation], commit, WriteKind::Cas, timeout).await?;
                Ok(Decided { applied: true, answer })
            }
        }
    }

    /// Reads one partition as decided requests have left it.
    /// Errors: as [`Coordinator::read`].
    pub async fn read_serial(
        self: &Rc<Self>,
        command: &ReadCommand,
        serial: Consistency,
        timeout: Duration,
    ) -> Result<ReadAnswer, Error> {
        self.read(command, serial, timeout).await
    }
}

/// A failed read of a conditional write is told as one of a write.
fn as_write(error: Error) -> Error {
    match error {
        Error::Timeout { consistency, received, required, .. } => {
            Error::CasTimeout { consistency, received, required, contention: 0 }
        }
        Error::Failure { consistency, received, required, failures, reason, .. } => Error::Failure {
            consistency,
            received,
            required,
            failures,
            data_present: false,
            write: Some(WriteKind::Cas),
            reason,
        },
        other => other,
    }
}
