//! A rate that the shards of a node keep together.
//!
//! One number says when the next request may start. Whoever starts one pays: the number moves on by what the request costs
//! at this rate, so a large request makes the next one wait and none is refused for its size. Time in which nobody came is
//! remembered for [`RATE_CREDIT`] only: a late timer loses nothing, a long rest earns no flood.

use crate::limits::RATE_CREDIT;
use std::sync::atomic::{AtomicU64, Ordering};

/// Units per second, shared between threads.
#[derive(Debug, Default)]
pub(crate) struct Rate {
    /// 0: no limit.
    per_second: AtomicU64,
    /// Nanoseconds of the node's clock at which the next request may start.
    next: AtomicU64,
}

impl Rate {
    /// Sets units per second; 0 for no limit. What was owed is forgotten.
    pub(crate) fn set(&self, per_second: u64) {
        self.per_second.store(per_second, Ordering::Relaxed);
        self.next.store(0, Ordering::Relaxed);
    }

    /// Units per second; 0 for no limit.
    pub(crate) fn per_second(&self) -> u64 {
        self.per_second.load(Ordering::Relaxed)
    }

    /// When the next request may start; 0 when it may at once.
    pub(crate) fn ready_at(&self) -> u64 {
        match self.per_second() {
            0 => 0,
            _ => self.next.load(Ordering::Relaxed),
        }
    }

    /// A request of so many units starts now.
    pub(crate) fn pay(&self, now: u64, units: u64) {
        let rate = self.per_second();
        if rate == 0 {
            return;
        }
        let cost = (u128::from(units) * 1_000_000_000).div_ceil(u128::from(rate)) as u64;
        let oldest = now.saturating_sub(RATE_CREDIT.as_nanos() as u64);
        let advance = |next: u64| Some(next.max(oldest).saturating_add(cost));
        // The closure always gives a value.
        let _ = self.next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, advance);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_kept_over_a_second_and_rest_earns_little() {
        let rate = Rate::default();
        assert_eq!(rate.ready_at(), 0, "no limit");
        rate.set(1_000_000);
        let mut now = 5_000_000_000;
        let start = now;
        let mut paid = 0;
        while now < start + 1_000_000_000 {
            now = now.max(rate.ready_at()) + 300;
            rate.pay(now, 4_096);
            paid += 4_096;
        }
        let credit = RATE_CREDIT.as_micros() as u64;
        assert!((1_000_000..1_000_000 + credit + 2 * 4_096).contains(&paid), "{paid}");
        now += 3_600_000_000_000;
        let mut at_once = 0;
        while rate.ready_at() <= now {
            rate.pay(now, 1_000);
            at_once += 1_000;
        }
        assert!(at_once <= credit + 1_000, "{at_once}");
        rate.set(0);
        rate.pay(now, u64::MAX);
        assert_eq!((rate.ready_at(), rate.per_second()), (0, 0));
    }
}
