//! What can be wrong with bytes from the other side. The text of each is what the client is told, with code 0x000A.

/// A protocol error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The first byte is no version spoken here: send [`refusal`](crate::response::refusal), then close.
    #[error("Invalid or unsupported protocol version ({version}); supported versions are (3/v3, 4/v4, 5/v5)")]
    UnsupportedVersion {
        /// The low seven bits of the first byte.
        version: u8,
        /// The stream to answer on, 0 if it had not arrived.
        stream: i16,
    },
    /// The stream of frames cannot be read further: tell the client on this stream, then close.
    #[error("{text}")]
    Frame {
        /// The stream to answer on.
        stream: i16,
        /// What is wrong.
        text: String,
    },
    /// One message is malformed: answer its stream; the connection goes on.
    #[error("{0}")]
    Message(String),
}

impl Error {
    /// A malformed message.
    pub fn message(text: impl Into<String>) -> Error {
        Error::Message(text.into())
    }

    /// Whether the connection can go on after the client was told.
    pub fn closes_connection(&self) -> bool {
        match self {
            Error::UnsupportedVersion { .. } | Error::Frame { .. } => true,
            Error::Message(_) => false,
        }
    }
}

impl From<base::Truncated> for Error {
    fn from(error: base::Truncated) -> Error {
        Error::Message(format!("Not enough bytes to read the message: {error}"))
    }
}

impl From<types::TypeError> for Error {
    fn from(error: types::TypeError) -> Error {
        Error::Message(error.to_string())
    }
}
