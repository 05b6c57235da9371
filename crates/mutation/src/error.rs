//! Why bytes are not a mutation, a command or an answer.

/// Damaged or foreign bytes. The state of the caller is untouched; the message or file that held them is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The bytes do not follow the layout.
    #[error("malformed at offset {offset}: expected {expected}")]
    Malformed {
        /// Bytes from the start of what was decoded.
        offset: usize,
        /// What should have stood there.
        expected: &'static str,
    },
    /// A clustering does not fit its table: the sender had another schema.
    #[error(transparent)]
    Schema(#[from] schema::Error),
}
