//! Latencies by size: buckets of less than one percent, whatever the size; recording is a few instructions.

use std::time::Duration;

/// Each power of two is split into so many buckets.
const SPLIT_BITS: u32 = 7;
const SPLIT: u64 = 1 << SPLIT_BITS;
const BUCKETS: usize = ((64 - SPLIT_BITS as usize) + 1) << SPLIT_BITS;

/// How often each latency was seen, in nanoseconds. Mergeable and `Send`.
#[derive(Clone, Debug)]
pub struct Histogram {
    counts: Vec<u64>,
    total: u64,
    sum: u128,
    max: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram::new()
    }
}

fn bucket_of(nanos: u64) -> usize {
    if nanos < SPLIT {
        return nanos as usize;
    }
    let shift = 63 - SPLIT_BITS - nanos.leading_zeros();
    ((u64::from(shift) << SPLIT_BITS) + (nanos >> shift)) as usize
}

/// The largest value of a bucket.
fn top_of(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < 2 * SPLIT {
        return bucket;
    }
    let shift = (bucket >> SPLIT_BITS) - 1;
    let high = u128::from((bucket & (SPLIT - 1)) + SPLIT + 1) << shift;
    u64::try_from(high - 1).unwrap_or(u64::MAX)
}

impl Histogram {
    /// Nothing seen yet.
    pub fn new() -> Histogram {
        Histogram { counts: vec![0; BUCKETS], total: 0, sum: 0, max: 0 }
    }

    /// Adds one latency.
    pub fn record(&mut self, latency: Duration) {
        let nanos = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        self.counts[bucket_of(nanos)] += 1;
        self.total += 1;
        self.sum += u128::from(nanos);
        self.max = self.max.max(nanos);
    }

    /// Adds what another one has seen.
    pub fn merge(&mut self, other: &Histogram) {
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
        self.total += other.total;
        self.sum += other.sum;
        self.max = self.max.max(other.max);
    }

    /// How many were recorded.
    pub fn count(&self) -> u64 {
        self.total
    }

    /// The mean; zero without any.
    pub fn mean(&self) -> Duration {
        let mean = self.sum.checked_div(u128::from(self.total)).unwrap_or(0);
        Duration::from_nanos(mean as u64)
    }

    /// The largest.
    pub fn max(&self) -> Duration {
        Duration::from_nanos(self.max)
    }

    /// The latency that this share (0 to 1) did not exceed, rounded up by less than one percent.
    pub fn quantile(&self, share: f64) -> Duration {
        let wanted = ((self.total as f64 * share).ceil() as u64).clamp(1, self.total.max(1));
        let mut seen = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen += count;
            if wanted <= seen {
                return Duration::from_nanos(top_of(bucket).min(self.max));
            }
        }
        self.max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_hold_their_values_within_one_percent() {
        let mut last = 0;
        for shift in 0..64 {
            for offset in [0u64, 1, 77] {
                let value = (1u64 << shift) | ((1u64 << shift) - 1) & offset.wrapping_mul(0x9E37_79B9);
                let bucket = bucket_of(value);
                assert!(bucket < BUCKETS, "{value}");
                let top = top_of(bucket);
                assert!(value <= top, "{value} {top}");
                assert!((top - value) as f64 <= value as f64 / 100.0, "{value} {top}");
                last = last.max(bucket);
            }
        }
        assert!(last < BUCKETS);
        for bucket in 0..BUCKETS - 1 {
            assert_eq!(bucket_of(top_of(bucket)), bucket);
            assert_eq!(bucket_of(top_of(bucket) + 1), bucket + 1);
        }
    }

    #[test]
    fn quantiles_and_merging() {
        let (mut low, mut high) = (Histogram::new(), Histogram::new());
        for i in 1..=100 {
            low.record(Duration::from_nanos(i));
            high.record(Duration::from_micros(i));
        }
        assert_eq!(low.quantile(0.5), Duration::from_nanos(50));
        low.merge(&high);
        assert_eq!(low.count(), 200);
        assert_eq!(low.max(), Duration::from_micros(100));
        assert_eq!(low.quantile(1.0), Duration::from_micros(100));
        assert_eq!(low.quantile(0.25), Duration::from_nanos(50));
        assert_eq!(Histogram::new().quantile(0.99), Duration::ZERO);
    }
}
