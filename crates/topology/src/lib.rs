//! Who holds a token: ring, replication strategy, shards; an immutable snapshot.
//!
//! A [`Snapshot`] answers every placement question of one request. It knows membership and liveness as they were when
//! it was published; it never changes and never does I/O.
#![forbid(unsafe_code)]

mod node;
mod placement;
mod required;
mod ring;
mod snapshot;

pub use node::{Node, NodeIndex};
pub use placement::{Location, Placement};
pub use required::{Requirement, Shortfall, required};
pub use ring::Ring;
pub use snapshot::Snapshot;
