//! Why a schema change did not happen.

/// The failure of the change itself, not of the statement that asked for it.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The schema log could not be read or written. At start: stop the node. Otherwise nothing has changed; fail the
    /// statement.
    #[error("schema log: {0}")]
    Log(#[from] storage::Error),
    /// A record of the schema log does not decode. Stop the node.
    #[error("schema log record {index}: {source}")]
    Record {
        /// Counted from 0.
        index: usize,
        /// What is wrong with it.
        source: schema::Error,
    },
    /// The change would not decode from its own bytes. Nothing has changed; fail the statement, and tell its author.
    #[error("the schema log could not read this change again: {0}")]
    Unreadable(#[source] schema::Error),
    /// What this node has applied of the cluster's log cannot be read. Stop the node; nothing was changed.
    #[error("group0.applied: record {index}: {reason}")]
    Applied {
        /// Counted from 0.
        index: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// A folder that belongs to a cluster has lost what it knew of it. Put it back, or start anew with an empty data folder.
    #[error(
        "{}: lost from a data folder that belongs to a cluster; without it all data in the folder would be taken for that of dropped tables: \
         put it back, or remove the data folder and let the node join anew",
        .0.display()
    )]
    Lost(std::path::PathBuf),
    /// The cluster's log could not be read or written, or no majority of its voters answered in time. At start: stop the node. Otherwise fail the
    /// statement.
    #[error("cluster log: {0}")]
    Consensus(String),
    /// No majority of the voters has confirmed the change in time: it may still happen. Fail the statement.
    #[error("cluster log: {0}")]
    Unknown(String),
    /// All nodes have refused the change. Fail the statement.
    #[error("{0}")]
    Refused(String),
    /// Reads would miss rows behind it: see `widen.rs`. Nothing has changed; fail the statement as one that can never succeed as things are.
    #[error("{0}")]
    EmptyReaders(String),
    /// This node cannot join the cluster it asked. Stop the node, and tell its operator.
    #[error("{0}")]
    Join(String),
    /// This node is still starting. Nothing has changed; try again.
    #[error("this node has not started yet")]
    NotStarted,
    /// A shard could not yet make it durable that an earlier table of the same id is gone. Nothing has changed; try again.
    #[error("shard {shard} has not recorded yet that the table of this id was dropped")]
    StillDropping {
        /// The shard.
        shard: u16,
    },
}

impl From<journal::Error> for Error {
    fn from(error: journal::Error) -> Error {
        Error::Log(error.into())
    }
}

impl From<raft::Error> for Error {
    fn from(error: raft::Error) -> Error {
        match error {
            raft::Error::Unknown(_) => Error::Unknown(error.to_string()),
            error => Error::Consensus(error.to_string()),
        }
    }
}
