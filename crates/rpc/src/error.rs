//! Why a call got no answer.

use std::net::SocketAddr;

/// What became of a call that was not answered. The other node may or may not have acted on it, except where said.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The peer could not be connected, or the connection broke. Use another replica.
    #[error("node {peer} is unreachable")]
    Unreachable {
        /// Its address.
        peer: SocketAddr,
    },
    /// The deadline passed. Report a timeout; the call may still be carried out.
    #[error("node {peer} did not answer in time")]
    TimedOut {
        /// Its address.
        peer: SocketAddr,
    },
    /// Too much is waiting for this peer; the call was not sent. Shed load.
    #[error("too much is waiting for node {peer}")]
    Overloaded {
        /// Its address.
        peer: SocketAddr,
    },
    /// The message is larger than a frame may be; it was not sent. Fail the request.
    #[error("a message of {bytes} bytes is too large for node {peer}")]
    TooLarge {
        /// Its address.
        peer: SocketAddr,
        /// Its size.
        bytes: usize,
    },
    /// Bytes on a connection are not frames. The connection is closed; nothing of it was acted on.
    #[error("malformed frame: {reason}")]
    Malformed {
        /// What is wrong.
        reason: &'static str,
    },
}
