//! Why a replica did not do what was asked.

/// Why a replica failed, as clients are told. The numbers are the native protocol's and must never change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// None of the others.
    Unknown = 0,
    /// The read met more tombstones than are allowed.
    ReadTooManyTombstones = 1,
    /// It gave up in time.
    Timeout = 2,
    /// Its schema is another one.
    IncompatibleSchema = 3,
}

impl Reason {
    /// Cassandra's name.
    pub fn name(self) -> &'static str {
        match self {
            Reason::Unknown => "UNKNOWN",
            Reason::ReadTooManyTombstones => "READ_TOO_MANY_TOMBSTONES",
            Reason::Timeout => "TIMEOUT",
            Reason::IncompatibleSchema => "INCOMPATIBLE_SCHEMA",
        }
    }
}

/// The failure of one replica. Each says what the coordinator should do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The table is unknown here (yet, or any more): the schemas differ. Use another replica; fail the request if there
    /// is none.
    #[error("{0}")]
    UnknownTable(String),
    /// Writes are refused (failed or full commitlog, stopping). Nothing was applied. Use another replica.
    #[error("{0}")]
    Refused(String),
    /// The write is too large for this node's commitlog. Nothing was applied. Fail the request as invalid.
    #[error("{0}")]
    TooLarge(String),
    /// The read failed: damaged or unreadable files. Use another replica.
    #[error("{0}")]
    Failed(String),
    /// The read met more tombstones than are allowed. Other replicas hold as many: fail the request.
    #[error("{0}")]
    TooManyTombstones(String),
    /// The write was planned before its table was truncated, at this index of the cluster's log. Nothing was applied. Catch up with that, and
    /// plan anew what may come behind the truncation; let go of what was kept for later.
    #[error("the write was planned before its table was truncated, at index {0} of the cluster's log")]
    Overtaken(u64),
    /// The message does not decode: the other node speaks another version. Fail the request.
    #[error("{0}")]
    Malformed(String),
}

impl Error {
    /// What clients are told.
    pub fn reason(&self) -> Reason {
        match self {
            Error::UnknownTable(_) => Reason::IncompatibleSchema,
            Error::TooManyTombstones(_) => Reason::ReadTooManyTombstones,
            Error::Refused(_)
            | Error::TooLarge(_)
            | Error::Failed(_)
            | Error::Overtaken(_)
            | Error::Malformed(_) => Reason::Unknown,
        }
    }
}

impl From<storage::Error> for Error {
    fn from(error: storage::Error) -> Error {
        let text = error.to_string();
        match error {
            storage::Error::UnknownTable(_) => Error::UnknownTable(text),
            storage::Error::TooLarge { .. } => Error::TooLarge(text),
            storage::Error::Overtaken { floor, .. } => Error::Overtaken(floor.1),
            storage::Error::CommitlogFailed(_)
            | storage::Error::NoSpace(_)
            | storage::Error::Drained
            | storage::Error::Stopping => Error::Refused(text),
            storage::Error::TooManyTombstones { .. } => Error::TooManyTombstones(text),
            storage::Error::Mutation(_) => Error::Malformed(text),
            storage::Error::Snapshot(_)
            | storage::Error::Import(_)
            | storage::Error::Io { .. }
            | storage::Error::Corrupt { .. }
            | storage::Error::Sstable(_)
            | storage::Error::FolderInUse { .. }
            | storage::Error::OutOfNumbers { .. }
            | storage::Error::Interrupted { .. }
            | storage::Error::OtherShard { .. } => Error::Failed(text),
        }
    }
}
