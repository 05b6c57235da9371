//! What ends a run.

/// An error of the tool.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The command line cannot be understood: print it and the way to the help, end with status 1.
    #[error("{0}")]
    Usage(String),
    /// The sub-options of a command or option belong to none of the ways to write it: print how it is written, then this; status 1.
    #[error("{text}")]
    Options {
        /// How it is written.
        help: String,
        /// What is wrong.
        text: String,
    },
    /// Options that do not exist, a line each: print the help, then these; status 1.
    #[error("Error processing command line arguments. The following were ignored:\n{}", .0.join("\n"))]
    Ignored(Vec<String>),
    /// A run cannot begin or go on: print it, end with status 1.
    #[error("{0}")]
    Run(String),
}

impl Error {
    pub(crate) fn run(text: impl Into<String>) -> Error {
        Error::Run(text.into())
    }

    pub(crate) fn usage(text: impl Into<String>) -> Error {
        Error::Usage(text.into())
    }
}
