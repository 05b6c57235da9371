//! A point on the shard's monotonic clock. The standard library's cannot be made by a simulator.

use std::ops::{Add, AddAssign, Sub};
use std::time::Duration;

/// Nanoseconds on the shard's monotonic clock; the zero point is arbitrary and may differ between processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(pub u64);

impl Instant {
    /// Later than every instant a clock will show.
    pub const MAX: Instant = Instant(u64::MAX);

    /// Time since `earlier`, zero when it is not earlier.
    pub fn since(self, earlier: Instant) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// The same as [`since`](Instant::since), under the standard library's name.
    pub fn saturating_duration_since(self, earlier: Instant) -> Duration {
        self.since(earlier)
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl Add<Duration> for Instant {
    type Output = Instant;
    fn add(self, rhs: Duration) -> Instant {
        Instant(self.0.saturating_add(nanos(rhs)))
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, rhs: Duration) {
        *self = *self + rhs;
    }
}

impl Sub<Duration> for Instant {
    type Output = Instant;
    fn sub(self, rhs: Duration) -> Instant {
        Instant(self.0.saturating_sub(nanos(rhs)))
    }
}

impl Sub for Instant {
    type Output = Duration;
    fn sub(self, rhs: Instant) -> Duration {
        self.since(rhs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates() {
        let t = Instant(5);
        assert_eq!(t + Duration::from_nanos(7), Instant(12));
        assert_eq!(t - Duration::from_secs(1), Instant(0));
        assert_eq!(t - Instant(7), Duration::ZERO);
        assert_eq!(Instant(9) - t, Duration::from_nanos(4));
        assert_eq!(Instant::MAX + Duration::MAX, Instant::MAX);
    }
}
