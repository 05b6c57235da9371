//! Schema changes made durable and shown to every shard.
//!
//! Shard 0 changes the schema, one change at a time: the next schema is computed, written to the schema log and synced,
//! shown to every shard, and only then is the change over. Every shard keeps the newest schema and the hooks that want
//! to know of it. Tables that every node has and nobody makes lie over what the log holds: see [`builtin`].
#![forbid(unsafe_code)]

/// Tables that every node has.
pub mod builtin;
mod cluster;
mod error;
mod event;
mod schema_log;
#[cfg(test)]
mod tests;

pub use cluster::{Changed, Cluster, Decision};
pub use error::Error;
pub use event::{ChangeKind, SchemaEvent, Target};
pub use schema_log::SchemaLog;
