//! What ends a run.

/// An error of a run: what was measured before it is in the report.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The words make no sense: say others. Nothing was run.
    #[error("{0}")]
    Usage(String),
    /// The servers cannot be asked what they are. Nothing was run.
    #[error("{}", client::contact::named(.0))]
    Servers(#[from] client::Error),
    /// A phase of the run failed.
    #[error("{phase}: {reason}")]
    Phase {
        /// Its name.
        phase: String,
        /// Why.
        reason: String,
    },
    /// A file of the run cannot be written.
    #[error("{file}: {source}")]
    File {
        /// The file.
        file: String,
        /// Why not.
        source: std::io::Error,
    },
}

impl Error {
    pub(crate) fn phase(phase: &str, reason: impl ToString) -> Error {
        Error::Phase { phase: phase.to_owned(), reason: reason.to_string() }
    }
}
