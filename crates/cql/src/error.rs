//! What can be wrong with a statement, by what the client is answered.

/// The crate's error. Nothing has been changed anywhere when one is returned: the caller fails the request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The text is not CQL: protocol error 0x2000.
    #[error("{text}")]
    Syntax {
        /// Cassandra's wording, with line and column.
        text: String,
    },
    /// The statement cannot be run against this schema or with these values: protocol error 0x2200.
    #[error("{text}")]
    Invalid {
        /// Cassandra's wording where a tool knows it.
        text: String,
    },
    /// Valid CQL this server does not execute yet: protocol error 0x2200 naming the feature.
    #[error("not supported yet: {feature}")]
    Unsupported {
        /// What the statement would need.
        feature: &'static str,
    },
    /// A keyspace or table option is wrong: protocol error 0x2300.
    #[error("{text}")]
    Configuration {
        /// Cassandra's wording where a tool knows it.
        text: String,
    },
    /// The keyspace or table exists: protocol error 0x2400.
    #[error("{}", already_exists(keyspace, table))]
    AlreadyExists {
        /// The keyspace.
        keyspace: String,
        /// The table; empty for a keyspace.
        table: String,
    },
    /// The statement is not allowed on this object: protocol error 0x2100.
    #[error("{text}")]
    Unauthorized {
        /// Why.
        text: String,
    },
    /// The client broke the protocol, such as with a foreign paging state: protocol error 0x000A.
    #[error("{text}")]
    Protocol {
        /// Cassandra's wording where a tool knows it.
        text: String,
    },
    /// A function or operator could not be computed with these values: protocol error 0x1400.
    #[error("{text}")]
    Function {
        /// Cassandra's name of the function.
        name: String,
        /// Its argument types.
        arguments: Vec<String>,
        /// Cassandra's wording.
        text: String,
    },
    /// Stored or received partitions could not be read: protocol error 0x0000. The caller logs it.
    #[error("cannot read a stored partition: {text}")]
    Corrupt {
        /// The cause, as the mutation crate words it.
        text: String,
    },
}

fn already_exists(keyspace: &str, table: &str) -> String {
    if table.is_empty() {
        format!("Cannot add existing keyspace \"{keyspace}\"")
    } else {
        format!("Cannot add already existing table \"{table}\" to keyspace \"{keyspace}\"")
    }
}

/// Short for the crate's results.
pub type Result<T> = std::result::Result<T, Error>;

/// Fails with an [`Error::Invalid`].
pub(crate) fn invalid<T>(text: impl Into<String>) -> Result<T> {
    Err(Error::Invalid { text: text.into() })
}

/// Fails with an [`Error::Syntax`] that has no place in the text.
pub(crate) fn syntax<T>(text: impl Into<String>) -> Result<T> {
    Err(Error::Syntax { text: text.into() })
}

/// Fails with an [`Error::Unsupported`].
pub(crate) fn unsupported<T>(feature: &'static str) -> Result<T> {
    Err(Error::Unsupported { feature })
}

/// Fails with an [`Error::Configuration`].
pub(crate) fn configuration<T>(text: impl Into<String>) -> Result<T> {
    Err(Error::Configuration { text: text.into() })
}

impl From<types::TypeError> for Error {
    fn from(error: types::TypeError) -> Error {
        Error::Invalid { text: error.to_string() }
    }
}
