//! A bound on requests per second: one shard's part of the node's.
//!
//! Permits trickle in; up to a second's worth waits for a burst, as in Cassandra, and at least one: a shard's part may be
//! less.

use base::Instant;
use core::time::Duration;
use std::cell::Cell;

/// The permits of one shard.
pub(crate) struct Rate {
    per_second: f64,
    /// Permits that may wait.
    most: f64,
    permits: Cell<f64>,
    counted_at: Cell<Instant>,
}

impl Rate {
    /// So many per second from now on.
    pub(crate) fn new(per_second: f64, now: Instant) -> Rate {
        let most = per_second.max(1.0);
        Rate { per_second, most, permits: Cell::new(most), counted_at: Cell::new(now) }
    }

    fn count(&self, now: Instant) {
        let before = self.counted_at.replace(now);
        let passed = if before < now { now - before } else { Duration::ZERO };
        let permits = self.permits.get() + passed.as_secs_f64() * self.per_second;
        self.permits.set(permits.min(self.most));
    }

    /// How long until there is a permit; `None` when there is one.
    pub(crate) fn wait(&self, now: Instant) -> Option<Duration> {
        self.count(now);
        let missing = 1.0 - self.permits.get();
        (missing > 0.0).then(|| Duration::from_secs_f64(missing / self.per_second))
    }

    /// Takes a permit, unless there is none.
    pub(crate) fn take(&self, now: Instant) -> bool {
        self.count(now);
        let left = self.permits.get() - 1.0;
        if left < 0.0 {
            return false;
        }
        self.permits.set(left);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permits_come_at_their_rate() {
        let at = |ms: u64| Instant(ms * 1_000_000);
        let rate = Rate::new(10.0, at(0));
        assert_eq!((0..20).filter(|_| rate.take(at(0))).count(), 10);
        assert_eq!(rate.wait(at(50)), Some(Duration::from_millis(50)));
        assert!(!rate.take(at(99)));
        assert_eq!(rate.wait(at(100)), None);
        assert!(rate.take(at(100)) && !rate.take(at(100)));
        // A long pause gives no more than a second's worth.
        assert_eq!((0..50).filter(|_| rate.take(at(10_000))).count(), 10);
    }

    #[test]
    fn less_than_one_a_second_still_comes() {
        let at = |ms: u64| Instant(ms * 1_000_000);
        let rate = Rate::new(0.25, at(0));
        assert!(rate.take(at(0)) && !rate.take(at(0)));
        assert_eq!(rate.wait(at(3000)), Some(Duration::from_secs(1)));
        assert!(!rate.take(at(3999)));
        assert!(rate.take(at(4000)) && !rate.take(at(4000)));
    }
}
