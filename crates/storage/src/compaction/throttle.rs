//! Bytes per second that compactions of one shard may read: a bucket that never holds more than a moment's worth.

use base::Instant;
use std::cell::Cell;
use std::time::Duration;

/// Longest single wait, so that a compaction that is to stop does so, and a new rate counts soon.
const WAIT_MAX: Duration = Duration::from_millis(250);
/// What was not used may be used later, for as long as this.
const SLACK: Duration = Duration::from_millis(100);

/// One shard's share of the node's rate.
#[derive(Default)]
pub(crate) struct Throttle {
    /// Bytes per second; 0: as fast as it goes.
    rate: Cell<u64>,
    /// When everything taken so far is paid for.
    paid_at: Cell<Instant>,
}

impl Throttle {
    /// From now on so many bytes per second; what was taken before is forgotten.
    pub(crate) fn set_rate(&self, rate: u64) {
        self.rate.set(rate);
        self.paid_at.set(Instant(0));
    }

    /// Takes bytes, and says how long to wait for them now; to be asked again, with none, until there is nothing to wait for.
    pub(super) fn take(&self, bytes: u64, now: Instant) -> Option<Duration> {
        let rate = self.rate.get();
        if rate == 0 {
            return None;
        }
        let cost = Duration::from_secs_f64(bytes as f64 / rate as f64);
        let idle = now.saturating_duration_since(self.paid_at.get());
        let from = if SLACK < idle { now } else { self.paid_at.get() };
        self.paid_at.set(from + cost);
        let ahead = self.paid_at.get().saturating_duration_since(now);
        (SLACK < ahead).then(|| (ahead - SLACK).min(WAIT_MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_kept_whatever_the_pieces() {
        for piece in [1_000u64, 100_000, 3_000_000] {
            let throttle = Throttle::default();
            assert_eq!(throttle.take(1 << 40, Instant(0)), None, "no rate, no waits");
            throttle.set_rate(1_000_000);
            let mut now = Instant(5_000_000_000);
            let (start, mut taken) = (now, 0);
            while taken < 30_000_000 {
                taken += piece;
                let mut wait = throttle.take(piece, now);
                while let Some(pause) = wait {
                    assert!(pause <= WAIT_MAX);
                    now += pause;
                    wait = throttle.take(0, now);
                }
            }
            let seconds = now.saturating_duration_since(start).as_secs_f64();
            assert!((29.0..33.5).contains(&seconds), "{piece}: {seconds}");
        }
    }

    #[test]
    fn idle_time_is_not_saved_up() {
        let throttle = Throttle::default();
        throttle.set_rate(1_000_000);
        assert_eq!(throttle.take(50_000, Instant(0)), None);
        let later = Instant(3_600_000_000_000);
        assert_eq!(throttle.take(100_000, later), None);
        assert!(throttle.take(1_000_000, later).is_some());
    }
}
