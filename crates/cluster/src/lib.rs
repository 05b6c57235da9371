//! Schema changes made durable and shown to every shard.
//!
//! Shard 0 changes the schema, one change at a time: the next schema is computed, written to the schema log and synced,
//! shown to every shard, and only then is the change over. Every shard keeps the newest schema and the hooks that want
//! to know of it.
#![forbid(unsafe_code)]

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
