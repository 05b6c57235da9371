//! What can go wrong in a shard's store, and what the caller does about it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Why the store did not do what was asked.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The file system refused. At start: stop the node. Otherwise fail the request; state is as before.
    #[error("cannot {action} \"{}\": {}", file.display(), runtime::file::reason(source, file))]
    Io {
        /// The file.
        file: PathBuf,
        /// What was tried.
        action: &'static str,
        /// What the file system said.
        source: Arc<io::Error>,
    },
    /// A file of ours holds bytes that were never written, or lost bytes that were synced. Stop the node; nothing was
    /// changed.
    #[error("corrupt {kind} \"{}\" at offset {offset}: expected {expected}, got {got}", file.display())]
    Corrupt {
        /// `commitlog segment`, `manifest`, `journal`, `node file`.
        kind: &'static str,
        /// The file.
        file: PathBuf,
        /// Byte offset in the file.
        offset: u64,
        /// What the format asks for there.
        expected: String,
        /// What was found.
        got: String,
    },
    /// An sstable could not be read or written. Fail the request, use another replica.
    #[error("{0}")]
    Sstable(Arc<sstable::Error>),
    /// A mutation, a command or a stored row does not decode. Fail the request; nothing was applied.
    #[error("{0}")]
    Mutation(#[from] mutation::Error),
    /// The commitlog failed and this node no longer accepts writes; reads go on. Fail the request, use another replica.
    #[error("writes are refused since the commitlog failed: {0}")]
    CommitlogFailed(Arc<str>),
    /// The disk of the commitlog is full, or the process has too many files open. Fail the request; writes are accepted
    /// again when there is room.
    #[error("writes are refused while the commitlog lacks space or files: {0}")]
    NoSpace(Arc<str>),
    /// One atomic write is larger than `max_mutation_size`. Fail the request; nothing was applied.
    #[error(
        "Encountered an oversized mutation ({bytes}/{limit}) for keyspace: {keyspace}. Top keys are: {keys}"
    )]
    TooLarge {
        /// Size of the entry.
        bytes: u64,
        /// The limit.
        limit: u64,
        /// Of its first table.
        keyspace: String,
        /// Its partitions, largest first, as `table.key`.
        keys: String,
    },
    /// The table is unknown here (yet, or any more). Fail the request; the schema may be on its way.
    #[error("table with id {0} is unknown to this shard")]
    UnknownTable(schema::TableId),
    /// The write was planned before its table was truncated, or before an earlier table of the id was dropped. Nothing was applied. Plan it
    /// anew, if it may come behind the truncation; let it go, if it was kept for later.
    #[error("the write was planned before table {table} was truncated at {}:{}", floor.0, floor.1)]
    Overtaken {
        /// The table.
        table: schema::TableId,
        /// What may be written is planned on this point or a later one.
        floor: crate::floors::Point,
    },
    /// Another process owns the data folder. Stop the node.
    #[error("data folder \"{}\" is used by another process", folder.display())]
    FolderInUse {
        /// The folder.
        folder: PathBuf,
    },
    /// More shards, starts or files than the formats can number. Stop the node.
    #[error("{what} {value} is more than {limit}")]
    OutOfNumbers {
        /// What ran out.
        what: &'static str,
        /// The number asked for.
        value: u64,
        /// The largest there is.
        limit: u64,
    },
    /// A read met more tombstones than `tombstone_failure_threshold` allows. Fail the request; other replicas hold as many.
    #[error(
        "Scanned over {count} tombstones during query of {table} (last scanned partition token was {token}{}); query \
         aborted (see tombstone_failure_threshold)",
        if *inside { ", inside of it" } else { "" }
    )]
    TooManyTombstones {
        /// How many there were so far.
        count: u32,
        /// The table, with its keyspace.
        table: String,
        /// Token of the partition they were last in.
        token: i64,
        /// Whether there is more of that partition.
        inside: bool,
    },
    /// The node was drained: writes are refused until it is started again. Use another replica.
    #[error("writes are refused: the node is drained")]
    Drained,
    /// A snapshot cannot be made or removed as asked. Tell the operator; nothing was changed.
    #[error("{0}")]
    Snapshot(String),
    /// Sstables cannot be imported as asked. Tell the operator; nothing was changed.
    #[error("{0}")]
    Import(String),
    /// A compaction was ended before its time. Tell who asked for it; what it recorded counts.
    #[error("{what} of table {table} was interrupted: {why}")]
    Interrupted {
        /// What it was for.
        what: &'static str,
        /// The table, with its keyspace.
        table: String,
        /// Why.
        why: &'static str,
    },
    /// The store is stopping. Fail the request.
    #[error("the store is stopping")]
    Stopping,
    /// Another shard of this node could not open its store. Stop the node; that shard tells why.
    #[error("shard {shard} could not open its store: {reason}")]
    OtherShard {
        /// The shard that failed.
        shard: u16,
        /// What it says.
        reason: Arc<str>,
    },
}

impl Error {
    /// Wraps an error of the file system.
    pub(crate) fn io(file: &Path, action: &'static str, source: io::Error) -> Error {
        Error::Io { file: file.to_path_buf(), action, source: Arc::new(source) }
    }

    /// Names a broken place.
    pub(crate) fn corrupt(
        kind: &'static str,
        file: &Path,
        offset: u64,
        expected: impl Into<String>,
        got: impl Into<String>,
    ) -> Error {
        Error::Corrupt { kind, file: file.to_path_buf(), offset, expected: expected.into(), got: got.into() }
    }

    /// True when the disk is full or too many files are open: nothing is broken, and an operator's action, or the end of
    /// other work, makes the same request succeed.
    pub fn is_shortage(&self) -> bool {
        let is_short = |source: &io::Error| {
            source.kind() == io::ErrorKind::StorageFull || runtime::file::is_out_of_descriptors(source)
        };
        match self {
            Error::NoSpace(_) => true,
            Error::Io { source, .. } => is_short(source),
            Error::Sstable(error) => match &**error {
                sstable::Error::Io { source, .. } => is_short(source),
                sstable::Error::Corrupt { .. }
                | sstable::Error::Unsupported { .. }
                | sstable::Error::Invalid { .. }
                | sstable::Error::TooLarge { .. } => false,
            },
            _ => false,
        }
    }

    /// True when too many files are open.
    pub(crate) fn is_out_of_descriptors(&self) -> bool {
        matches!(self, Error::Io { source, .. } if runtime::file::is_out_of_descriptors(source))
    }
}

impl From<sstable::Error> for Error {
    fn from(error: sstable::Error) -> Error {
        Error::Sstable(Arc::new(error))
    }
}

impl From<journal::Error> for Error {
    fn from(error: journal::Error) -> Error {
        match error {
            journal::Error::Io { file, action, source } => Error::Io { file, action, source },
            journal::Error::Corrupt { file, offset, expected, got } => {
                Error::corrupt("journal", &file, offset, expected, got)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_named_once() {
        let file = Path::new("/data/nb-1-big-Data.db");
        let source = io::Error::new(io::ErrorKind::StorageFull, "/data/nb-1-big-Data.db: no space left");
        let told = Error::io(file, "write", source).to_string();
        assert_eq!(told, "cannot write \"/data/nb-1-big-Data.db\": no space left");
        let told = Error::io(file, "sync", io::Error::other("an earlier sync failed")).to_string();
        assert_eq!(told, "cannot sync \"/data/nb-1-big-Data.db\": an earlier sync failed");
    }
}
