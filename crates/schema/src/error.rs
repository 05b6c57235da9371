//! Why a schema value cannot be built or read.

/// What can be wrong with a schema or with bytes that must follow it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Encoded schema bytes are damaged or from a newer version. The caller refuses the file that held them.
    #[error("schema bytes are malformed at offset {offset}: expected {expected}")]
    Malformed {
        /// Bytes from the start of the encoded schema.
        offset: usize,
        /// What should have stood there.
        expected: &'static str,
    },
    /// A clustering prefix does not follow the table. The caller rejects the request or the file that held it.
    #[error("clustering prefix is malformed: {reason}")]
    Clustering {
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A table definition that cannot stand. The caller fails the statement.
    #[error("{0}")]
    Definition(String),
}
