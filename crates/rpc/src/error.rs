//! Why a call got no answer, and why a connection was not made.

use base::HostId;

/// What became of a call that was not answered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The peer is down or unknown, or the connection broke: then it may have acted on the call. Use another replica.
    #[error("node {peer} is unreachable: {reason}")]
    Unreachable {
        /// Whom the call was for.
        peer: HostId,
        /// Why.
        reason: String,
    },
    /// The deadline passed. Report a timeout; the call may still be carried out.
    #[error("node {peer} did not answer in time")]
    TimedOut {
        /// Whom the call was for.
        peer: HostId,
    },
    /// Too much waits for this peer, here or there; the call was not carried out. Shed load.
    #[error("too much is waiting for node {peer}")]
    Overloaded {
        /// Whom the call was for.
        peer: HostId,
    },
    /// The message is larger than one may be; it was not sent. Fail the request.
    #[error("a message of {bytes} bytes is too large for node {peer}")]
    TooLarge {
        /// Whom the call was for.
        peer: HostId,
        /// Its size.
        bytes: usize,
    },
    /// The peer does not know the verb: an older release. Ask in the older way.
    #[error("node {peer} does not know how to do this")]
    Unsupported {
        /// Whom the call was for.
        peer: HostId,
    },
    /// The peer gave the call up without an answer; it may have acted on it. Count a failed replica.
    #[error("node {peer} gave up")]
    Failed {
        /// Whom the call was for.
        peer: HostId,
    },
}

/// Bytes on a connection are not what they should be. The connection is closed; nothing of them was acted on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("malformed {what}: {reason}")]
pub struct Malformed {
    /// Which message.
    pub what: &'static str,
    /// What is wrong.
    pub reason: &'static str,
}

impl Malformed {
    pub(crate) fn new(what: &'static str, reason: &'static str) -> Malformed {
        Malformed { what, reason }
    }
}
