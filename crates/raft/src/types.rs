//! The types that openraft runs with; nothing above this crate sees them.

use std::fmt;

use base::HostId;
use openraft::EmptyNode;

use crate::rt::ShardRuntime;

openraft::declare_raft_types!(
    /// The types of our group.
    pub Types:
        D = Command,
        R = Answer,
        NodeId = HostId,
        Node = EmptyNode,
        AsyncRuntime = ShardRuntime,
);

/// One opaque command.
#[derive(Clone, PartialEq, Eq)]
pub struct Command(pub Vec<u8>);

/// What the state machine says to the proposer of a command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answer(pub Vec<u8>);

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
pub type Members = openraft::Membership<HostId, EmptyNode>;
/// Members and the entry that made them so.
pub type StoredMembers = openraft::alias::StoredMembershipOf<Types>;
/// What a snapshot covers.
pub type SnapshotMeta = openraft::alias::SnapshotMetaOf<Types>;
/// A snapshot with its bytes.
pub type Snapshot = openraft::alias::SnapshotOf<Types, SnapshotBytes>;
/// The bytes of a snapshot, shared by those who send them.
pub type SnapshotBytes = std::rc::Rc<Vec<u8>>;
