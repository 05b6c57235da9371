//! Why a configuration cannot be used, and where a value comes from.

use core::fmt;

/// Where a value comes from, in rising precedence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// Nobody set it.
    Standard,
    /// A line of the configuration file.
    File {
        /// The file as named by the user.
        name: String,
        /// Counted from 1.
        line: usize,
    },
    /// An environment variable of this name.
    Environment(String),
    /// An argument of the command line: the option, and the key where it names one. Never the value, which may be secret.
    Argument(String),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Standard => f.write_str("standard"),
            Source::File { name, line } => write!(f, "{name}:{line}"),
            Source::Environment(name) => write!(f, "environment {name}"),
            Source::Argument(text) => write!(f, "argument {text}"),
        }
    }
}

/// Why a configuration cannot be used. The node must not start; nothing has been touched.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The text is not YAML, or not of the shape of a configuration.
    #[error("{source_of}: {reason}")]
    Malformed {
        /// Where it stands.
        source_of: Source,
        /// What is wrong.
        reason: String,
    },
    /// A known key has a value it cannot have.
    #[error("{source_of}: {key}: expected {expected}, got \"{got}\"")]
    Wrong {
        /// Where it stands.
        source_of: Source,
        /// The key as written.
        key: String,
        /// What the key accepts.
        expected: String,
        /// What was found.
        got: String,
    },
}
