//! What can go wrong with an sstable, and where.

use std::io;
use std::path::{Path, PathBuf};

/// An sstable could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file system refused. A writer must be abandoned; a reader may be asked again.
    #[error("cannot {action} \"{}\": {}", file.display(), runtime::file::reason(source, file))]
    Io {
        /// The file.
        file: PathBuf,
        /// What was tried.
        action: &'static str,
        /// What the file system said.
        source: io::Error,
    },
    /// The bytes are not what the format allows. Use another replica; scrub or replace the sstable.
    #[error("corrupt sstable file \"{}\" at offset {offset}: expected {expected}, got {got}", file.display())]
    Corrupt {
        /// The file.
        file: PathBuf,
        /// Where in the file; for compressed data the offset in the uncompressed bytes, unless the chunk itself is broken.
        offset: u64,
        /// What the format asks for there.
        expected: String,
        /// What was found.
        got: String,
    },
    /// The sstable is sound, but this version does not read it (another table's columns, an unknown compressor).
    /// Leave the file alone; tell the operator.
    #[error("sstable file \"{}\" is not supported: {what}", file.display())]
    Unsupported {
        /// The file.
        file: PathBuf,
        /// The feature.
        what: String,
    },
    /// The writer was given what breaks the format: out of order, or a value of a length its type forbids.
    /// Abandon the writer; what was in memory is not what the node thought.
    #[error("cannot write an sstable of table \"{table}\": {what}")]
    Invalid {
        /// The table, `keyspace.table`.
        table: String,
        /// What was wrong.
        what: String,
    },
    /// The data cannot be stored in this format (a key of 64 KiB). Fail the request; nothing was written.
    #[error("{what} of {size} bytes does not fit into an sstable, the limit is {limit}")]
    TooLarge {
        /// What is too large.
        what: &'static str,
        /// Its size in bytes.
        size: u64,
        /// The limit in bytes.
        limit: u64,
    },
}

impl Error {
    /// Wraps an error of the file system.
    pub(crate) fn io(file: &Path, action: &'static str, source: io::Error) -> Error {
        Error::Io { file: file.to_path_buf(), action, source }
    }

    /// Names a broken place.
    pub(crate) fn corrupt(
        file: &Path,
        offset: u64,
        expected: impl Into<String>,
        got: impl Into<String>,
    ) -> Error {
        Error::Corrupt { file: file.to_path_buf(), offset, expected: expected.into(), got: got.into() }
    }
}
