//! TLS sessions without sockets: bytes of the wire in, plain bytes out, and the other way round.
//!
//! ```text
//!  socket ──▶ Session::receive ──▶ plain bytes        plain bytes ──▶ Session::send ──▶ socket
//!                     └── what must be answered (handshake, alerts) ──▶ Session::output ──▲
//! ```
//! An [`Acceptor`] makes the sessions of a server from PEM files, a [`Connector`] those of a client. The protocol is rustls over ring; in
//! a simulated world time, randomness and key exchange come from the world, so that the same seed gives the same bytes.
//!
//! Modules, bottom to top: each uses only those listed above it.
#![forbid(unsafe_code)]

/// What bounds each thing here.
pub mod limits;
/// The error of this crate.
mod error;
/// Time, as certificates are judged by.
mod clock;
/// Where randomness and key exchanges come from.
mod provider;
/// What a server or client is told.
mod settings;
/// Keys and certificates in files.
mod pem;
/// One conversation.
mod session;
/// Sessions of a server.
mod acceptor;
/// Sessions of a client.
mod connector;

pub use acceptor::{Acceptor, Watch};
pub use connector::{Connector, ConnectorWatch};
pub use error::Error;
pub use session::{Received, Session};
pub use settings::{ClientAuth, ClientSettings, Encryption, ServerSettings};

#[cfg(test)]
mod tests;
