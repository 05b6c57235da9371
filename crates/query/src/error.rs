//! What a statement can end in, other than a result.

use coordinator::{Reason, WriteKind, describe_failure};
use std::net::IpAddr;
use types::Consistency;

/// Why a statement has no result. Each variant is one error code of the protocol; the client decides what follows.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The text is not CQL. Nothing was done.
    #[error("{0}")]
    Syntax(String),
    /// The statement cannot be run on this schema with these values. Nothing was done.
    #[error("{0}")]
    Invalid(String),
    /// The statement is not allowed on this object. Nothing was done.
    #[error("{0}")]
    Unauthorized(String),
    /// An option of a keyspace or table is wrong. Nothing was done.
    #[error("{0}")]
    Config(String),
    /// The keyspace or table exists. Nothing was done.
    #[error("{text}")]
    AlreadyExists {
        /// The keyspace.
        keyspace: String,
        /// The table; empty for a keyspace.
        table: String,
        /// The message.
        text: String,
    },
    /// The client must prepare again and repeat. Nothing was done.
    #[error(
        "Prepared query with ID {} not found (either the query was not prepared on this host (maybe the host has been restarted?) or you have prepared too many queries and it has been evicted from the internal cache)",
        hex(id)
    )]
    Unprepared {
        /// The unknown id.
        id: Vec<u8>,
    },
    /// The request does not follow the protocol. Nothing was done.
    #[error("{0}")]
    Protocol(String),
    /// The node has more to do than it can. Nothing was done; the client may try elsewhere.
    #[error("{0}")]
    Overloaded(String),
    /// A truncation did not finish on every shard.
    #[error("{0}")]
    Truncate(String),
    /// The login failed, with what the client is told.
    #[error("{0}")]
    BadCredentials(String),
    /// A function or operator could not be computed. Nothing was done.
    #[error("{text}")]
    Function {
        /// Its name, of the keyspace `system`.
        name: String,
        /// Its argument types.
        arguments: Vec<String>,
        /// The message.
        text: String,
    },
    /// Something that is not the client's doing. A write may or may not have happened.
    #[error("{0}")]
    Server(String),
    /// Too few replicas are alive. Nothing was done.
    #[error("{text}")]
    Unavailable {
        /// What the client is told, in Cassandra's words.
        text: String,
        /// What was asked for.
        consistency: Consistency,
        /// Replicas needed.
        required: usize,
        /// Replicas alive.
        alive: usize,
    },
    /// Too few replicas answered in time.
    #[error("Operation timed out - received only {received} responses.")]
    ReadTimeout {
        /// What was asked for.
        consistency: Consistency,
        /// Replicas that answered.
        received: usize,
        /// Replicas needed.
        required: usize,
        /// Whether data came, not only digests.
        data_present: bool,
    },
    /// Too few replicas confirmed in time; the write may still happen.
    #[error("Operation timed out - received only {received} responses.")]
    WriteTimeout {
        /// What was asked for.
        consistency: Consistency,
        /// Replicas that confirmed.
        received: usize,
        /// Replicas needed.
        required: usize,
        /// What kind of write.
        write_kind: WriteKind,
    },
    /// A lightweight transaction came to no end in time.
    #[error("{text}")]
    CasTimeout {
        /// What the client is told, in Cassandra's words.
        text: String,
        /// The serial level.
        consistency: Consistency,
        /// Replicas that answered in the last round.
        received: usize,
        /// Replicas needed.
        required: usize,
        /// Rounds that gave way to others'.
        contention: u32,
    },
    /// What a lightweight transaction wrote may have been agreed on, or may be later.
    #[error("{text}")]
    CasUnknown {
        /// What the client is told, in Cassandra's words.
        text: String,
        /// The serial level.
        consistency: Consistency,
        /// Replicas that have accepted it.
        received: usize,
        /// Replicas that must.
        required: usize,
    },
    /// Too many replicas failed.
    #[error("{}", describe_failure(*received, failures, reason))]
    ReadFailure {
        /// What the first of them said.
        reason: String,
        /// What was asked for.
        consistency: Consistency,
        /// Replicas that answered.
        received: usize,
        /// Replicas needed.
        required: usize,
        /// The replicas that failed, and why.
        failures: Vec<(IpAddr, Reason)>,
        /// Whether data came, not only digests.
        data_present: bool,
    },
    /// Too many replicas failed; the write may have happened on others.
    #[error("{}", describe_failure(*received, failures, reason))]
    WriteFailure {
        /// What the first of them said.
        reason: String,
        /// What was asked for.
        consistency: Consistency,
        /// Replicas that confirmed.
        received: usize,
        /// Replicas needed.
        required: usize,
        /// The replicas that failed, and why.
        failures: Vec<(IpAddr, Reason)>,
        /// What kind of write.
        write_kind: WriteKind,
    },
}

impl From<auth::Error> for Error {
    fn from(error: auth::Error) -> Error {
        Error::BadCredentials(error.to_string())
    }
}

impl From<cql::Error> for Error {
    fn from(error: cql::Error) -> Error {
        let text = error.to_string();
        match error {
            cql::Error::Syntax { .. } => Error::Syntax(text),
            cql::Error::Invalid { .. } | cql::Error::Unsupported { .. } => Error::Invalid(text),
            cql::Error::Configuration { .. } => Error::Config(text),
            cql::Error::AlreadyExists { keyspace, table } => Error::AlreadyExists { keyspace, table, text },
            cql::Error::Unauthorized { .. } => Error::Unauthorized(text),
            cql::Error::Function { name, arguments, text } => Error::Function { name, arguments, text },
            cql::Error::Corrupt { .. } => Error::Server(text),
            cql::Error::Protocol { .. } => Error::Protocol(text),
        }
    }
}

impl From<coordinator::Error> for Error {
    fn from(error: coordinator::Error) -> Error {
        use coordinator::Error as From;
        let text = error.to_string();
        match error {
            From::Unavailable { consistency, required, alive, .. } => {
                Error::Unavailable { text, consistency, required, alive }
            }
            From::Timeout { consistency, received, required, data_present, write: None } => {
                Error::ReadTimeout { consistency, received, required, data_present }
            }
            From::Timeout { consistency, received, required, write: Some(write_kind), .. } => {
                Error::WriteTimeout { consistency, received, required, write_kind }
            }
            From::Failure {
                consistency,
                received,
                required,
                failures,
                data_present,
                write: None,
                reason,
            } => Error::ReadFailure { reason, consistency, received, required, failures, data_present },
            From::Failure {
                consistency,
                received,
                required,
                failures,
                write: Some(write_kind),
                reason,
                ..
            } => Error::WriteFailure { reason, consistency, received, required, failures, write_kind },
            From::CasTimeout { consistency, received, required, contention } => {
                Error::CasTimeout { text, consistency, received, required, contention }
            }
            From::CasUnknown { consistency, received, required } => {
                Error::CasUnknown { text, consistency, received, required }
            }
            From::Invalid(text) => Error::Invalid(text),
            From::UnknownTable => Error::Invalid(text),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}
