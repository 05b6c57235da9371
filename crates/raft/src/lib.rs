//! Group 0 consensus: a narrow seam over openraft, run by the shard's own executor, clock, chance, files and sockets.
//!
//! One shard of a node owns its member of the group. Commands are opaque bytes; what they mean is the caller's.
//! Modules, bottom to top: each uses only those listed above it.
#![forbid(unsafe_code)]

/// Channels and a lock for one thread, as openraft wants them.
pub mod channel;
/// Bytes of entries, votes and messages.
pub mod codec;
/// Every limit of this crate.
pub mod limits;
/// Applied commands and snapshots.
pub mod machine;
/// One member of a group: start it, write through it, read through it.
pub mod member;
/// Messages between members.
pub mod network;
/// openraft's runtime on a shard.
pub mod rt;
/// The log and the vote on disk.
pub mod store;

use std::fmt;

pub use member::{Error, Member, Settings};
pub use rt::ShardRuntime;

openraft::declare_raft_types!(
    /// The types of our group.
    pub Types:
        D = Command,
        R = u64,
        AsyncRuntime = ShardRuntime,
);

/// One opaque command.
#[derive(Clone, PartialEq, Eq)]
pub struct Command(pub Vec<u8>);

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Command({} bytes)", self.0.len())
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// Position and term of an entry.
pub type LogId = openraft::alias::LogIdOf<Types>;
/// A vote, as saved.
pub type Vote = openraft::alias::VoteOf<Types>;
/// An entry of the log.
pub type Entry = openraft::alias::EntryOf<Types>;
/// Who votes and who listens.
pub type Members = openraft::Membership<u64, openraft::BasicNode>;
/// Members and the entry that made them so.
pub type StoredMembers = openraft::alias::StoredMembershipOf<Types>;
/// What a snapshot covers.
pub type SnapshotMeta = openraft::alias::SnapshotMetaOf<Types>;
/// A snapshot with its bytes.
pub type Snapshot = openraft::alias::SnapshotOf<Types, Vec<u8>>;
