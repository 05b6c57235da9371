//! Why there is no session, or no more of it.

use std::path::PathBuf;

/// An error of TLS.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A file of keys or certificates cannot be used: do not start, or keep what was read before.
    #[error("{}: {reason}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it, and how to make it right.
        reason: String,
    },
    /// The settings leave no way to talk, or keys and certificates do not belong together. As above.
    #[error("{0}")]
    Settings(String),
    /// The other side broke the protocol, or is not whom we trust: send what [`output`](crate::Session::output) gives, then close.
    #[error("{0}")]
    Session(String),
}

impl From<rustls::Error> for Error {
    fn from(error: rustls::Error) -> Error {
        Error::Session(error.to_string())
    }
}
