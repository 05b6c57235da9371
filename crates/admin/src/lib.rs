//! Prometheus metrics and the operators' REST interface over HTTP.
//!
//! Modules, bottom to top: each uses only those listed above it.
#![forbid(unsafe_code)]

/// What bounds each thing here.
pub mod limits;
/// Request heads and answers.
pub mod http;
/// The listener and what it answers.
mod server;
/// The operators' interface.
mod rest;

pub use rest::{
    Counted, Heard, Messages, Mode, NativeTransport, Peers, Rest, RestSettings, Switched, Traffic,
};
pub use server::{Error, Server, listen_reason};
