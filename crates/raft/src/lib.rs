//! Group 0 consensus: a narrow seam over openraft, run by the shard's own executor, clock, chance and files.
//!
//! One shard of a node owns its member of the group. Commands are opaque bytes; what they mean is the caller's [`StateMachine`], and
//! how members are reached is the caller's [`Transport`]. Modules, bottom to top: each uses only those listed above it.
#![forbid(unsafe_code)]

/// Channels and a lock for one thread, as openraft wants them.
mod channel;
/// openraft's runtime on a shard.
mod rt;
mod types;
/// Bytes of entries, votes and messages.
pub mod codec;
/// Every limit of this crate.
pub mod limits;
mod error;
mod entries;
mod store;
mod seam;
mod machine;
mod network;
mod incoming;
mod group;
mod pull;

pub use error::Error;
pub use group::{Change, Changes, Group, Settings, Status};
pub use seam::{BoxFuture, Position, SendError, StateMachine, Transport};
pub use store::recover;
