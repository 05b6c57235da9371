//! Versions of what a whole cluster agrees on.

/// A point in the history of the cluster's metadata. Later points compare greater.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// Grows only when a cluster goes on after it has lost the majority of its voters.
    pub epoch: u64,
    /// The entry of the cluster's log that made it so.
    pub index: u64,
}

impl Version {
    /// Before everything.
    pub const ZERO: Version = Version { epoch: 0, index: 0 };
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.epoch, self.index)
    }
}
