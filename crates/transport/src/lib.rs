//! The native protocol server: accept, frame, dispatch, shed load.
//!
//! Modules, bottom to top: each uses only those listed above it, but for the uses that `cargo x tidy` has recorded.
#![forbid(unsafe_code)]
// A request is one future from the frame down to the file; its type is as deep as the floors.
#![recursion_limit = "256"]

/// What bounds each thing here.
pub mod limits;
/// What the server is told.
mod settings;
/// How many connections the node serves.
mod slots;
/// How many requests a second are served.
mod rate;
/// Answers on their way out.
mod outbound;
/// Responses and error codes.
mod respond;
/// One client connection.
mod connection;
/// From a request to its answer.
mod dispatch;
/// Agreeing on keys.
mod secure;
/// A connection's reader.
mod serve;
/// What one shard's server holds.
mod shard;
/// Accepting.
mod listener;

pub use listener::{Error, Server};
pub use settings::Settings;
pub use shard::Shard;
pub use slots::Slots;
