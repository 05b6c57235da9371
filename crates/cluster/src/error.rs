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
    /// A shard could not yet make it durable that an earlier table of the same id is gone. Nothing has changed; try again.
    #[error("shard {shard} has not recorded yet that the table of this id was dropped")]
    StillDropping {
        /// The shard.
        shard: u16,
    },
}
