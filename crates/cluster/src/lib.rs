//! Schema changes made durable and shown to every shard.
//!
//! Shard 0 changes the schema, one change at a time: the next schema is computed, written to the schema log and synced,
//! shown to every shard, and only then is the change over. Every shard keeps the newest schema and the hooks that want
//! to know of it. Tables that every node has and nobody makes lie over what the log holds: see [`builtin`].
#![forbid(unsafe_code)]

/// Tables that every node has.
pub mod builtin;
mod error;
mod event;
mod schema_log;
/// What this node has applied, on disk.
mod applied;
/// The applied state, as consensus drives it.
mod machine;
/// Messages between nodes.
mod wire;
/// Who may speak with this node.
mod gate;
mod group;
/// What a node asks its seeds.
mod ask;
/// How a node comes into a cluster.
mod enter;
/// What this node must hold of one that it replaces.
mod fill;
/// What the leader does.
mod lead;
/// Which changes of a replication must not happen.
mod widen;
mod cluster;
#[cfg(test)]
mod tests;

pub use cluster::{Changed, Cluster, Decision};
pub use error::Error;
pub use event::{ChangeKind, SchemaEvent, Target};
pub use group::{Counted, Folder, Group0, Replaced, Settings};
pub use group0::{FEATURES, Permissions, Resource, Role, RoleChange, Roles};
pub use schema_log::SchemaLog;
