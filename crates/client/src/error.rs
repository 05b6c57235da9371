//! What a request can end in besides an answer.

use protocol::failure::{Failure, FailureKind};
use std::net::SocketAddr;

/// An error of the client.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No connection could be made; nothing was sent. Try later or elsewhere.
    #[error("cannot connect to {address}: {reason}")]
    Connect {
        /// Where to.
        address: SocketAddr,
        /// Why not.
        reason: String,
    },
    /// The connection ended before the answer came: a write may or may not have happened. Connect again.
    #[error("connection closed: {0}")]
    Closed(String),
    /// No answer in time: a write may or may not have happened. The connection goes on.
    #[error("no answer in time")]
    Timeout,
    /// The server answered with an error.
    #[error("{0}")]
    Failure(Box<Failure>),
    /// The server's bytes make no sense. The request may have happened.
    #[error("malformed answer: {0}")]
    Protocol(#[from] protocol::error::Error),
    /// There is no trust or no understanding between the two sides' TLS. Nothing was sent.
    #[error("TLS: {0}")]
    Tls(#[from] tls::Error),
    /// A value does not fit its type. Nothing was sent.
    #[error("{0}")]
    Type(#[from] types::TypeError),
    /// No node of the ring may be asked by what was said of it. Nothing was sent; say something else.
    #[error("no node of the ring is {0}")]
    NoNode(String),
    /// The answer is of another kind than the request asks for.
    #[error("unexpected answer to {0}")]
    Unexpected(&'static str),
}

impl Error {
    /// What the server says failed, if it was the server.
    pub fn failure(&self) -> Option<&FailureKind> {
        match self {
            Error::Failure(failure) => Some(&failure.kind),
            _ => None,
        }
    }

    /// Whether a write that ended this way may still have happened.
    pub fn is_unknown(&self) -> bool {
        match self {
            Error::Connect { .. } | Error::NoNode(_) | Error::Tls(_) | Error::Type(_) => false,
            Error::Closed(_) | Error::Timeout | Error::Protocol(_) | Error::Unexpected(_) => true,
            Error::Failure(failure) => matches!(
                failure.kind,
                FailureKind::Server
                    | FailureKind::WriteTimeout { .. }
                    | FailureKind::WriteFailure { .. }
                    | FailureKind::CasWriteUnknown { .. }
            ),
        }
    }
}
