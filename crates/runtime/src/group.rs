//! Scheduling groups: who gets how much of the core, and of each device, when several want it.

/// A scheduling group. Every task belongs to one; the core and each device are divided between
/// the groups that have work by their shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Group(u8);

pub(crate) struct Description {
    pub(crate) name: &'static str,
    pub(crate) shares: u32,
}

/// Shares of requests. Whoever has fewer gives way to them at once.
pub(crate) const REQUEST_SHARES: u32 = 1000;

pub(crate) const DESCRIPTIONS: [Description; 9] = [
    Description { name: "main", shares: REQUEST_SHARES },
    Description { name: "query", shares: REQUEST_SHARES },
    Description { name: "commitlog", shares: 4000 },
    Description { name: "flush", shares: 400 },
    Description { name: "compaction", shares: 200 },
    Description { name: "admin", shares: 100 },
    Description { name: "rpc", shares: REQUEST_SHARES },
    Description { name: "streaming", shares: 200 },
    Description { name: "control", shares: REQUEST_SHARES },
];

impl Group {
    /// Start, stop and housekeeping.
    pub const MAIN: Group = Group(0);
    /// Requests of clients.
    pub const QUERY: Group = Group(1);
    /// Writing and syncing the commitlog, on which requests wait, and flushes. What it writes is what was let in: it cannot keep others
    /// from a device for long, but falling behind it would.
    pub const COMMITLOG: Group = Group(2);
    /// Memtables going to disk.
    pub const FLUSH: Group = Group(3);
    /// Merging sstables.
    pub const COMPACTION: Group = Group(4);
    /// Metrics, REST, reports.
    pub const ADMIN: Group = Group(5);
    /// Requests of other nodes.
    pub const RPC: Group = Group(6);
    /// Whole sstables on their way in or out: imports, and what other nodes ask for.
    pub const STREAMING: Group = Group(7);
    /// What the cluster stands on: liveness and the consensus of its metadata. Little work, which no load of requests may keep waiting.
    pub const CONTROL: Group = Group(8);
    /// All groups, in order of their index.
    pub const ALL: [Group; 9] = [
        Group::MAIN,
        Group::QUERY,
        Group::COMMITLOG,
        Group::FLUSH,
        Group::COMPACTION,
        Group::ADMIN,
        Group::RPC,
        Group::STREAMING,
        Group::CONTROL,
    ];

    /// The group's name in metrics and logs.
    pub fn name(self) -> &'static str {
        DESCRIPTIONS[self.index()].name
    }

    /// Work that nobody waits for: it may use all of a device that nobody else uses, see [`crate::io`].
    pub fn is_background(self) -> bool {
        [Group::FLUSH, Group::COMPACTION, Group::STREAMING].contains(&self)
    }

    /// Work for a client, here or of another node. The commitlog is not: what it writes flushes must keep up with.
    pub(crate) fn is_request(self) -> bool {
        [Group::QUERY, Group::RPC].contains(&self)
    }

    /// Work that clients wait for now, or may: bursts of it go before anything else, see [`crate::limits::REQUEST_CREDIT`].
    pub(crate) fn is_awaited(self) -> bool {
        self.is_request() || self == Group::COMMITLOG
    }

    /// Dense number from 0.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }

    pub(crate) fn from_index(index: usize) -> Group {
        assert!(index < DESCRIPTIONS.len());
        Group(index as u8)
    }
}
