//! Why a request at a consistency level did not succeed.

use replica::Reason;
use std::net::IpAddr;
use types::Consistency;

/// What kind of write failed, in the native protocol's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteKind {
    /// One statement.
    Simple,
    /// A logged batch.
    Batch,
    /// An unlogged batch.
    UnloggedBatch,
    /// Counters.
    Counter,
    /// The log of a logged batch.
    BatchLog,
    /// A lightweight transaction.
    Cas,
}

impl WriteKind {
    /// The native protocol's name.
    pub fn name(self) -> &'static str {
        match self {
            WriteKind::Simple => "SIMPLE",
            WriteKind::Batch => "BATCH",
            WriteKind::UnloggedBatch => "UNLOGGED_BATCH",
            WriteKind::Counter => "COUNTER",
            WriteKind::BatchLog => "BATCH_LOG",
            WriteKind::Cas => "CAS",
        }
    }
}

/// The outcome the client is told.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Too few replicas are alive; nothing was done.
    #[error("Cannot achieve consistency level {consistency}{}", in_datacenter(dc.as_deref()))]
    Unavailable {
        /// The level asked for.
        consistency: Consistency,
        /// Replicas it needs.
        required: usize,
        /// Replicas alive.
        alive: usize,
        /// The datacenter that falls short, where each must do for itself.
        dc: Option<String>,
    },
    /// Too few replicas answered in time. A write may still be applied.
    #[error("Operation timed out - received only {received} responses.")]
    Timeout {
        /// The level asked for.
        consistency: Consistency,
        /// Answers that arrived.
        received: usize,
        /// Answers needed.
        required: usize,
        /// For reads: whether the data itself was among them.
        data_present: bool,
        /// `None` for reads.
        write: Option<WriteKind>,
    },
    /// A lightweight transaction came to no end in time.
    #[error(
        "CAS operation timed out: received {received} of {required} required responses after {contention} contention retries"
    )]
    CasTimeout {
        /// The serial level.
        consistency: Consistency,
        /// Answers that arrived in the last round.
        received: usize,
        /// Answers needed.
        required: usize,
        /// Rounds that gave way to others'.
        contention: u32,
    },
    /// What a lightweight transaction wrote may have been agreed on, or may be later.
    #[error("CAS operation result is unknown - proposal accepted by {received} but not a quorum.")]
    CasUnknown {
        /// The serial level.
        consistency: Consistency,
        /// Replicas that have accepted it.
        received: usize,
        /// Replicas that must.
        required: usize,
    },
    /// Too many replicas failed.
    #[error("{}", describe_failure(*received, failures, reason))]
    Failure {
        /// The level asked for.
        consistency: Consistency,
        /// Answers that arrived.
        received: usize,
        /// Answers needed.
        required: usize,
        /// The replicas that failed, by the address other nodes know them by, and why.
        failures: Vec<(IpAddr, Reason)>,
        /// For reads: whether the data itself was among the answers.
        data_present: bool,
        /// `None` for reads.
        write: Option<WriteKind>,
        /// What the first of them said.
        reason: String,
    },
    /// The request can never succeed as it is.
    #[error("{0}")]
    Invalid(String),
    /// The table or its keyspace is gone.
    #[error("table does not exist")]
    UnknownTable,
}

fn in_datacenter(dc: Option<&str>) -> String {
    dc.map_or_else(String::new, |dc| format!(" in DC {dc}"))
}

/// Cassandra's text of a failure, and what the first replica that failed said.
pub fn describe_failure(received: usize, failures: &[(IpAddr, Reason)], said: &str) -> String {
    let each: Vec<String> =
        failures.iter().map(|(from, why)| format!("{} from /{from}", why.name())).collect();
    let (count, each) = (failures.len(), each.join(", "));
    format!("Operation failed - received {received} responses and {count} failures: {each} ({said})")
}
