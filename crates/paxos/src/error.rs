//! What cannot be read.

/// Bytes of a message or of a row that are not what they should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// With what is wrong.
    #[error("malformed state of a lightweight transaction: {0}")]
    Malformed(String),
}
