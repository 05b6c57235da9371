//! What can be wrong with a type or a value. All of it is the client's request (or damaged bytes), never this node.

/// A type text, a value's bytes or a literal that is not what it should be. Nothing has changed; the request fails.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TypeError {
    /// The text names no type. Fail the request as a syntax error.
    #[error("{0}")]
    Name(String),
    /// The bytes are no value of the type. Fail the request as invalid, or report the file as corrupt.
    #[error("{0}")]
    Bytes(String),
    /// The literal is no value of the type. Fail the request as invalid.
    #[error("{0}")]
    Literal(String),
    /// The number is no consistency level. Fail the request as a protocol error.
    #[error("Unknown code {0} for a consistency level")]
    Consistency(u16),
}

impl From<base::Truncated> for TypeError {
    fn from(error: base::Truncated) -> TypeError {
        TypeError::Bytes(format!("Not enough bytes to read a value: {error}"))
    }
}
