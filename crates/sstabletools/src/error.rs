//! What a tool can end in, other than its text.

use std::path::PathBuf;

/// A tool could not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The sstable cannot be read; says which file and where.
    #[error(transparent)]
    Sstable(#[from] sstable::Error),
    /// The file system refused.
    #[error("cannot {action} \"{}\": {}", file.display(), runtime::file::reason(source, file))]
    Io {
        /// The file.
        file: PathBuf,
        /// What was tried.
        action: &'static str,
        /// What the file system said.
        source: std::io::Error,
    },
    /// A mistake of whoever asked; nothing was done.
    #[error("{0}")]
    Refused(String),
    /// Whoever reads the output has gone away.
    #[error("the output was closed")]
    Closed,
}

impl Error {
    /// Wraps an error of the file system.
    pub(crate) fn io(file: impl Into<PathBuf>, action: &'static str, source: std::io::Error) -> Error {
        Error::Io { file: file.into(), action, source }
    }
}

/// What is said about damage; other errors go on.
pub(crate) fn damage(error: sstable::Error) -> Result<String, Error> {
    match error {
        error @ (sstable::Error::Corrupt { .. } | sstable::Error::Unsupported { .. }) => {
            Ok(error.to_string())
        }
        error => Err(error.into()),
    }
}
