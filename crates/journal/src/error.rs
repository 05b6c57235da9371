//! What can go wrong with a journal, and what the caller does about it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Why a journal did not do what was asked.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The file system refused. At start: stop the node. Otherwise fail the request; what the file holds is told by
    /// [`Journal::failed`](crate::Journal::failed).
    #[error("cannot {action} \"{}\": {}", file.display(), runtime::file::reason(source, file))]
    Io {
        /// The file.
        file: PathBuf,
        /// What was tried.
        action: &'static str,
        /// What the file system said.
        source: Arc<io::Error>,
    },
    /// The file holds bytes that were never written, or lost bytes that were synced. Stop the node; nothing was changed.
    #[error("corrupt journal \"{}\" at offset {offset}: expected {expected}, got {got}", file.display())]
    Corrupt {
        /// The file.
        file: PathBuf,
        /// Byte offset in the file.
        offset: u64,
        /// What the format asks for there.
        expected: &'static str,
        /// What was found.
        got: &'static str,
    },
}

impl Error {
    /// Wraps an error of the file system.
    pub fn io(file: &Path, action: &'static str, source: io::Error) -> Error {
        Error::Io { file: file.to_path_buf(), action, source: Arc::new(source) }
    }
}
