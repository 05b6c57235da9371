//! Deletions and row liveness: the two marks that are about more than one cell.

use crate::cell::NO_TIME;

/// Deletes everything it covers whose timestamp is at or below its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Deletion {
    /// Microseconds since the Unix epoch; `i64::MIN` when nothing is deleted.
    pub timestamp: i64,
    /// Second since the Unix epoch when the deletion was made, only for garbage collection.
    pub local_time: u32,
}

impl Default for Deletion {
    fn default() -> Deletion {
        Deletion::LIVE
    }
}

impl Deletion {
    /// Deletes nothing.
    pub const LIVE: Deletion = Deletion { timestamp: i64::MIN, local_time: NO_TIME };

    /// Whether it deletes nothing.
    pub fn is_live(self) -> bool {
        self.timestamp == i64::MIN
    }

    /// Whether something written at `timestamp` is gone. Equal timestamps: the deletion wins.
    pub fn deletes(self, timestamp: i64) -> bool {
        !self.is_live() && timestamp <= self.timestamp
    }

    /// Whether nothing written at or before `timestamp` can still be seen, deletions included: strictly newer, since of
    /// two deletions with equal timestamps the one with the later local time is kept.
    pub fn outdates(self, timestamp: i64) -> bool {
        !self.is_live() && timestamp < self.timestamp
    }

    /// Whether this one wins over the other: higher timestamp, then later local time.
    pub fn supersedes(self, other: Deletion) -> bool {
        if self.is_live() {
            return false;
        }
        other.is_live() || (other.timestamp, other.local_time) < (self.timestamp, self.local_time)
    }

    /// The winner of two.
    pub fn max(self, other: Deletion) -> Deletion {
        if other.supersedes(self) { other } else { self }
    }
}

/// The mark an INSERT leaves: the row exists even when all its cells are null.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Liveness {
    /// Microseconds since the Unix epoch; `i64::MIN` when there is no mark.
    pub timestamp: i64,
    /// Seconds; 0 when it does not expire.
    pub ttl: u32,
    /// Second at which it expires; [`NO_TIME`] when it does not.
    pub expires_at: u32,
}

impl Liveness {
    /// No mark.
    pub const NONE: Liveness = Liveness { timestamp: i64::MIN, ttl: 0, expires_at: NO_TIME };

    /// A mark that does not expire.
    pub fn at(timestamp: i64) -> Liveness {
        Liveness { timestamp, ttl: 0, expires_at: NO_TIME }
    }

    /// A mark that expires.
    pub fn expiring(timestamp: i64, ttl: u32, expires_at: u32) -> Liveness {
        Liveness { timestamp, ttl, expires_at }
    }

    /// Whether there is no mark.
    pub fn is_none(self) -> bool {
        self.timestamp == i64::MIN
    }

    /// Whether it expires some day.
    pub fn is_expiring(self) -> bool {
        self.ttl != 0
    }

    /// Whether it marks the row as existing at a second.
    pub fn is_live(self, now_s: u32) -> bool {
        !self.is_none() && now_s < self.expires_at
    }

    /// The winner of two: higher timestamp; expiring beats not; later expiry.
    pub fn max(self, other: Liveness) -> Liveness {
        let rank =
            |l: Liveness| (l.timestamp, l.is_expiring(), if l.is_expiring() { l.expires_at } else { 0 });
        if rank(other) > rank(self) { other } else { self }
    }
}
