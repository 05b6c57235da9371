//! A cell and the rule by which one of two wins.

use std::cmp::Ordering;

/// "No time": the cell neither expires nor was deleted.
pub const NO_TIME: u32 = u32::MAX;

/// One version of one value. Borrowed from a packed row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Cell<'a> {
    /// Microseconds since the Unix epoch.
    pub timestamp: i64,
    /// Seconds; 0 when it does not expire.
    pub ttl: u32,
    /// Expiring: the second at which it expires. Tombstone: the second it was made. Otherwise [`NO_TIME`].
    pub local_time: u32,
    /// Wire form of the value; `None` is a tombstone.
    pub value: Option<&'a [u8]>,
}

impl<'a> Cell<'a> {
    /// A value that stays.
    pub fn live(timestamp: i64, value: &'a [u8]) -> Cell<'a> {
        Cell { timestamp, ttl: 0, local_time: NO_TIME, value: Some(value) }
    }

    /// A value that expires at a second.
    pub fn expiring(timestamp: i64, ttl: u32, expires_at: u32, value: &'a [u8]) -> Cell<'a> {
        Cell { timestamp, ttl, local_time: expires_at, value: Some(value) }
    }

    /// A deleted value.
    pub fn tombstone(timestamp: i64, local_time: u32) -> Cell<'static> {
        Cell { timestamp, ttl: 0, local_time, value: None }
    }

    /// Whether it is a tombstone as written; an expired cell is not, until it is rewritten.
    pub fn is_tombstone(&self) -> bool {
        self.value.is_none()
    }

    /// Whether it expires some day.
    pub fn is_expiring(&self) -> bool {
        self.ttl != 0 && self.value.is_some()
    }

    /// Whether a reader at a second sees its value.
    pub fn is_live(&self, now_s: u32) -> bool {
        self.value.is_some() && now_s < self.local_time
    }

    /// `Greater` when this one wins over the other.
    /// Source: the reconciliation rules of Cassandra 5.0; equal timestamps: tombstones and expiring cells beat plain
    /// ones, tombstones beat expiring ones, later local time, larger value (unsigned bytes).
    pub fn reconcile(&self, other: &Cell<'_>) -> Ordering {
        let class = |c: &Cell<'_>| match (c.is_tombstone(), c.is_expiring()) {
            (true, _) => 2,
            (false, true) => 1,
            (false, false) => 0,
        };
        self.timestamp
            .cmp(&other.timestamp)
            .then_with(|| class(self).cmp(&class(other)))
            .then_with(|| {
                if class(self) == 0 { Ordering::Equal } else { self.local_time.cmp(&other.local_time) }
            })
            .then_with(|| self.value.cmp(&other.value))
            .then_with(|| self.ttl.cmp(&other.ttl))
    }
}
