//! What a command can end in, other than its text.

/// Why a command ends without success; what each prints and returns is in `run`.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A mistake on the command line: printed with a pointer to help, exit code 1.
    #[error("{0}")]
    Usage(String),
    /// What there was to say has been printed already: exit code 1.
    #[error("the command failed")]
    Said,
    /// Nobody answers there: exit code 1.
    #[error("{0}")]
    Connect(String),
    /// The command cannot be done, in a line of its own on standard error: exit code 1.
    #[error("{0}")]
    Refused(String),
    /// The node did not answer as long as it was waited for: exit code 2.
    #[error("the node did not answer in time")]
    Silent,
    /// The node could not do it: exit code 2.
    #[error("{0}")]
    Failed(String),
    /// The node answered with an error status: exit code 2.
    #[error("{message}")]
    Answer {
        /// The HTTP status.
        status: u16,
        /// What the node said.
        message: String,
    },
}

impl Error {
    /// A mistake on the command line.
    pub fn usage(text: impl Into<String>) -> Error {
        Error::Usage(text.into())
    }

    /// Whether the node does not know what it was asked for.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Error::Answer { status: 404, .. })
    }
}
