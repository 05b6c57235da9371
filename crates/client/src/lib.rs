//! A CQL client on the Messina runtime, for the tools, the benches and the simulator.
//!
//! ```ignore
#![doc = include_str!("../examples/visits.rs")]
//! ```
//!
//! Everything belongs to one shard and runs as tasks of it, so the same client runs against a real node and in a simulated world.
//!
//! Modules, bottom to top: each uses only those listed above it, but for the uses that `cargo x tidy` has recorded.
#![forbid(unsafe_code)]

/// A server that only says back what it hears, to measure against.
pub mod echo;
/// The error of this crate.
pub mod error;
/// Bytes, encrypted or not.
mod wire;
/// Latencies by size.
pub mod histogram;
/// What bounds each thing here.
pub mod limits;
/// Results a caller can keep.
pub mod outcome;
/// Prepared statements.
pub mod statement;
/// One connection, many requests in flight.
pub mod connection;
/// Opening a conversation.
mod handshake;
/// Who holds a token.
mod ring;
/// Connections to every shard of every node.
pub mod pool;
/// Changes of the schema.
mod schema;
/// Addresses of names, versions of the protocol, names of errors.
pub mod contact;
/// Reading a long result page by page.
pub mod pages;
/// A load generator.
pub mod load;

pub use connection::{Connection, Options, Sent};
pub use error::Error;
pub use outcome::{Outcome, RowSet};
pub use pages::Pages;
pub use pool::{Pool, PoolOptions};
pub use ring::{Place, Usable};
pub use statement::Statement;
