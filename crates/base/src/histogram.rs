//! Histograms with Cassandra's bucket boundaries: 1, 2, 3, … each a fifth larger than the one before.
//!
//! ```text
//! boundary   1 2 3 4 5 6 7 8 10 12 14 17 …   next = max(round(1.2 * last), last + 1)
//! bucket i   values above boundary i-1, up to boundary i; 0 counts as 1 unless zeroes have a bucket of their own
//! ```
//! What nodetool, the REST interface and `Statistics.db` say of a distribution comes from these boundaries, so the
//! numbers are the reference's own. Recording is one increment; weighing recent values more costs nothing there: every
//! [`TICK`] somebody calls [`DecayingHistogram::tick`], and every minute what was counted before halves.

use std::time::Duration;

/// Boundaries known; larger values share one bucket, the overflow.
pub const BOUNDARIES: usize = 164;

/// Time between two calls of [`DecayingHistogram::tick`].
pub const TICK: Duration = Duration::from_secs(5);
/// Ticks after which counts halve: a minute, the half-life of the reference.
const TICKS_PER_HALVING: u32 = 12;
/// Weight of a value that was just recorded.
const FRESH: u64 = 1 << 10;

const TABLE: [u64; BOUNDARIES] = boundaries();
/// For every exponent and the three bits behind the leading one: the bucket of the smallest such value.
static FIRST: [u8; 64 * 8] = first_buckets();

const fn boundaries() -> [u64; BOUNDARIES] {
    let mut table = [1; BOUNDARIES];
    let mut index = 1;
    while index < BOUNDARIES {
        let last = table[index - 1];
        // Far below 2^53, so this rounds as the reference does.
        let next = (last as f64 * 1.2 + 0.5) as u64;
        table[index] = if next > last { next } else { last + 1 };
        index += 1;
    }
    table
}

const fn first_buckets() -> [u8; 64 * 8] {
    let mut first = [BOUNDARIES as u8; 64 * 8];
    let mut exponent = 3;
    while exponent < 64 {
        let mut step = 0;
        while step < 8 {
            let value = (8 + step as u64) << (exponent - 3);
            let mut bucket = 0;
            while bucket < BOUNDARIES && TABLE[bucket] < value {
                bucket += 1;
            }
            first[exponent * 8 + step] = bucket as u8;
            step += 1;
        }
        exponent += 1;
    }
    first
}

const _: () = assert!(BOUNDARIES < 256, "a bucket is kept in a byte");

/// The largest value of a bucket.
pub fn boundary(bucket: usize) -> u64 {
    TABLE[bucket]
}

/// The bucket of a value; [`BOUNDARIES`] for the overflow. O(1).
#[inline]
pub fn bucket_of(value: u64) -> usize {
    if value < 8 {
        return value.saturating_sub(1) as usize;
    }
    let exponent = value.ilog2() as usize;
    let step = (value >> (exponent - 3)) as usize & 7;
    let mut bucket = usize::from(FIRST[exponent * 8 + step]);
    // A step is an eighth wide and boundaries are a fifth apart: at most one lies between.
    while bucket < BOUNDARIES && TABLE[bucket] < value {
        bucket += 1;
    }
    bucket
}

/// A value and its bucket, for a value that several histograms count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    value: u64,
    bucket: u8,
}

impl Placed {
    /// Finds the bucket.
    #[inline]
    pub fn new(value: u64) -> Placed {
        Placed { value, bucket: bucket_of(value) as u8 }
    }
}

/// Whether zero has a bucket of its own, below that of 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Zeroes {
    /// 0 counts as 1.
    #[default]
    AsOne,
    /// 0 is counted as 0.
    Apart,
}

/// Counts of values between Cassandra's boundaries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EstimatedHistogram {
    zeroes: Zeroes,
    /// Up to the highest bucket in use.
    counts: Vec<u64>,
}

impl EstimatedHistogram {
    /// An empty one.
    pub fn new(zeroes: Zeroes) -> EstimatedHistogram {
        EstimatedHistogram { zeroes, counts: Vec::new() }
    }

    fn from_counts(zeroes: Zeroes, counts: Vec<u64>) -> EstimatedHistogram {
        EstimatedHistogram { zeroes, counts }
    }

    #[inline]
    fn bucket(zeroes: Zeroes, value: u64) -> usize {
        match zeroes {
            Zeroes::AsOne => bucket_of(value),
            Zeroes::Apart if value == 0 => 0,
            Zeroes::Apart => bucket_of(value) + 1,
        }
    }

    fn offset(&self, bucket: usize) -> u64 {
        let index = match self.zeroes {
            Zeroes::AsOne => bucket,
            Zeroes::Apart if bucket == 0 => return 0,
            Zeroes::Apart => bucket - 1,
        };
        TABLE.get(index).copied().unwrap_or(u64::MAX)
    }

    /// Counts a value `count` times.
    #[inline]
    pub fn add(&mut self, value: u64, count: u64) {
        add_at(&mut self.counts, Self::bucket(self.zeroes, value), count);
    }

    /// Adds what another of the same kind counted.
    pub fn merge(&mut self, other: &EstimatedHistogram) {
        debug_assert!(self.zeroes == other.zeroes, "the same values have the same buckets");
        for (bucket, count) in other.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            add_at(&mut self.counts, bucket, *count);
        }
    }

    /// How many values were counted.
    pub fn count(&self) -> u64 {
        self.counts.iter().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// The boundary below which this share (0 to 1) of the values lies; 0 when empty, `u64::MAX` in the overflow.
    pub fn percentile(&self, share: f64) -> u64 {
        let rank = (self.count() as f64 * share).ceil() as u64;
        if rank == 0 {
            return 0;
        }
        let mut seen = 0u64;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen = seen.saturating_add(*count);
            if rank <= seen {
                return self.offset(bucket);
            }
        }
        0
    }

    /// The smallest value that the lowest bucket in use may hold; 0 when empty.
    pub fn min(&self) -> u64 {
        match self.counts.iter().position(|count| *count > 0) {
            None | Some(0) => 0,
            Some(bucket) => self.offset(bucket - 1) + 1,
        }
    }

    /// The boundary of the highest bucket in use; 0 when empty.
    pub fn max(&self) -> u64 {
        self.counts.iter().rposition(|count| *count > 0).map_or(0, |bucket| self.offset(bucket))
    }

    /// The mean, every value taken for the boundary of its bucket; `None` when empty.
    pub fn mean(&self) -> Option<f64> {
        let (mut count, mut sum) = (0.0, 0.0);
        for (bucket, values) in self.counts.iter().enumerate().filter(|(_, values)| **values > 0) {
            count += *values as f64;
            sum += *values as f64 * self.offset(bucket) as f64;
        }
        (count > 0.0).then(|| sum / count)
    }

    /// Boundaries and counts of the buckets that hold something, ascending.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> {
        let used = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        used.map(|(bucket, count)| (self.offset(bucket), *count))
    }
}

#[inline]
fn add_at(counts: &mut Vec<u64>, bucket: usize, count: u64) {
    match counts.get_mut(bucket) {
        Some(counted) => *counted = counted.saturating_add(count),
        None => grow(counts, bucket, count),
    }
}

#[cold]
fn grow(counts: &mut Vec<u64>, bucket: usize, count: u64) {
    counts.resize(bucket + 1, 0);
    counts[bucket] = count;
}

/// `1 - exp(-5 s / 1, 5, 15 min)`: what one tick counts against all before it.
const RATE_WEIGHTS: [f64; 3] =
    [0.079_955_585_370_676_64, 0.016_528_546_178_382_28, 0.005_540_151_995_103_271];

/// Events per second, each averaged over its minutes as a load average is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rates {
    /// Over one, five and fifteen minutes.
    pub per_second: [f64; 3],
    ticked: bool,
}

impl Rates {
    fn tick(&mut self, events: u64) {
        let now = events as f64 / TICK.as_secs_f64();
        for (rate, weight) in self.per_second.iter_mut().zip(RATE_WEIGHTS) {
            *rate = if self.ticked { *rate + weight * (now - *rate) } else { now };
        }
        self.ticked = true;
    }

    fn add(&mut self, other: &Rates) {
        self.per_second.iter_mut().zip(other.per_second).for_each(|(mine, theirs)| *mine += theirs);
    }
}

/// A distribution at one moment, mergeable with those of other shards.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Distribution {
    /// Values recorded ever.
    pub count: u64,
    /// Their sum.
    pub sum: u64,
    /// Values recorded ever.
    pub ever: EstimatedHistogram,
    /// Values of the last minutes, those of each minute counting half of those of the next.
    pub recent: EstimatedHistogram,
    /// How many come now.
    pub rates: Rates,
}

impl Distribution {
    /// Nothing recorded.
    pub fn new(zeroes: Zeroes) -> Distribution {
        let empty = EstimatedHistogram::new(zeroes);
        Distribution { count: 0, sum: 0, ever: empty.clone(), recent: empty, rates: Rates::default() }
    }

    /// Adds another of the same kind.
    pub fn merge(&mut self, other: &Distribution) {
        self.count += other.count;
        self.sum = self.sum.wrapping_add(other.sum);
        self.ever.merge(&other.ever);
        self.recent.merge(&other.recent);
        self.rates.add(&other.rates);
    }

    /// The mean of all values; `None` without any.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }
}

/// A distribution that is being recorded, recent values weighing most.
#[derive(Clone, Debug, Default)]
pub struct DecayingHistogram {
    ever: EstimatedHistogram,
    sum: u64,
    /// `ever` at the last halving.
    halved: Vec<u64>,
    /// What was counted until then, in units of [`FRESH`].
    weights: Vec<u64>,
    /// Values known to `rates`.
    rated: u64,
    rates: Rates,
    ticks: u32,
}

impl DecayingHistogram {
    /// An empty one. Allocates nothing before the first value, and then as much as the largest value wants.
    pub fn new(zeroes: Zeroes) -> DecayingHistogram {
        DecayingHistogram { ever: EstimatedHistogram::new(zeroes), ..DecayingHistogram::default() }
    }

    /// Counts a value. O(1).
    #[inline]
    pub fn record(&mut self, value: u64) {
        self.record_many(value, 1);
    }

    /// Counts a value whose bucket is known. Zero counts as one: only for histograms without a bucket for it.
    #[inline]
    pub fn record_placed(&mut self, placed: Placed) {
        debug_assert!(self.ever.zeroes == Zeroes::AsOne, "places are those of values from one on");
        add_at(&mut self.ever.counts, usize::from(placed.bucket), 1);
        self.sum = self.sum.wrapping_add(placed.value);
    }

    /// Counts a value as often as told. O(1).
    #[inline]
    pub fn record_many(&mut self, value: u64, count: u64) {
        self.ever.add(value, count);
        self.sum = self.sum.wrapping_add(value.wrapping_mul(count));
    }

    /// [`TICK`] has passed.
    pub fn tick(&mut self) {
        // Nothing was recorded ever, as in most tables of a node with thousands.
        if self.ever.counts.is_empty() {
            return;
        }
        let count = self.ever.count();
        self.rates.tick(count - self.rated);
        self.rated = count;
        self.ticks += 1;
        if self.ticks.is_multiple_of(TICKS_PER_HALVING) {
            self.halve();
        }
    }

    fn halve(&mut self) {
        let counts = &self.ever.counts;
        self.halved.resize(counts.len(), 0);
        self.weights.resize(counts.len(), 0);
        for (index, count) in counts.iter().enumerate() {
            let fresh = (count - self.halved[index]).saturating_mul(FRESH);
            self.weights[index] = self.weights[index].saturating_add(fresh) / 2;
            self.halved[index] = *count;
        }
    }

    /// What was recorded, as of now.
    pub fn snapshot(&self) -> Distribution {
        let recent = self.ever.counts.iter().enumerate().map(|(index, count)| {
            let before = self.halved.get(index).copied().unwrap_or(0);
            let weight = self.weights.get(index).copied().unwrap_or(0);
            (count - before) + (weight + FRESH / 2) / FRESH
        });
        Distribution {
            count: self.ever.count(),
            sum: self.sum,
            recent: EstimatedHistogram::from_counts(self.ever.zeroes, recent.collect()),
            ever: self.ever.clone(),
            rates: self.rates,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Cassandra's `EstimatedHistogram.newOffsets`, computed the slow way.
    #[test]
    fn boundaries_are_the_references() {
        assert_eq!(TABLE[..20], [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 17, 20, 24, 29, 35, 42, 50, 60, 72]);
        let mut last = 1u64;
        for bound in &TABLE[1..] {
            last = ((last as f64 * 1.2).round() as u64).max(last + 1);
            assert_eq!(*bound, last);
        }
        // The last two boundaries of the reference's ninety, as its own documentation shows them.
        assert_eq!(TABLE[88..90], [20_924_300, 25_109_160]);
    }

    #[test]
    fn every_value_is_in_its_bucket() {
        let near = TABLE.iter().flat_map(|bound| [bound - 1, *bound, bound + 1]);
        for value in near.chain(0..10_000).chain([1 << 40, 1 << 62, u64::MAX]) {
            let slow = TABLE.partition_point(|bound| *bound < value);
            assert_eq!(bucket_of(value), slow, "{value}");
        }
    }

    #[test]
    fn percentiles_and_ends_are_boundaries() {
        let mut histogram = EstimatedHistogram::new(Zeroes::AsOne);
        assert_eq!((histogram.percentile(0.5), histogram.min(), histogram.max()), (0, 0, 0));
        assert_eq!(histogram.mean(), None);
        (1..=100).for_each(|value| histogram.add(value, 1));
        assert_eq!(histogram.percentile(0.5), 50);
        assert_eq!(histogram.percentile(0.95), 103);
        assert_eq!((histogram.min(), histogram.max()), (0, 103));
        histogram.add(u64::MAX, 1);
        assert_eq!(histogram.percentile(1.0), u64::MAX);
    }

    #[test]
    fn zeroes_may_have_a_bucket() {
        let mut apart = EstimatedHistogram::new(Zeroes::Apart);
        apart.add(0, 9);
        apart.add(1, 1);
        assert_eq!((apart.percentile(0.5), apart.percentile(1.0), apart.max()), (0, 1, 1));
        assert_eq!(apart.buckets().collect::<Vec<_>>(), [(0, 9), (1, 1)]);
    }

    #[test]
    fn old_values_fade_and_totals_stay() {
        let mut histogram = DecayingHistogram::new(Zeroes::AsOne);
        histogram.record_many(1000, 800);
        let minute = |histogram: &mut DecayingHistogram| (0..12).for_each(|_| histogram.tick());
        minute(&mut histogram);
        histogram.record_many(10, 600);
        let now = histogram.snapshot();
        assert_eq!((now.count, now.recent.count()), (1400, 1000));
        assert_eq!(now.recent.percentile(0.5), 10, "600 of a thousand are recent");
        assert_eq!(now.ever.percentile(0.5), 1109, "800 of 1400 are not");
        (0..12).for_each(|_| minute(&mut histogram));
        let later = histogram.snapshot();
        assert_eq!((later.count, later.recent.count()), (1400, 0));
        assert_eq!(later.sum, 806_000);
    }

    #[test]
    fn rates_follow_what_comes() {
        for (weight, minutes) in RATE_WEIGHTS.into_iter().zip([1.0f64, 5.0, 15.0]) {
            assert!((weight - (1.0 - (-5.0 / 60.0 / minutes).exp())).abs() < 1e-15);
        }
        let mut histogram = DecayingHistogram::new(Zeroes::AsOne);
        for _ in 0..120 {
            histogram.record_many(1, 50);
            histogram.tick();
        }
        let steady = histogram.snapshot().rates.per_second;
        assert!(steady.iter().all(|rate| (rate - 10.0).abs() < 1e-6), "{steady:?}");
        (0..12).for_each(|_| histogram.tick());
        let [one, five, fifteen] = histogram.snapshot().rates.per_second;
        assert!((3.0..4.0).contains(&one) && (8.0..8.4).contains(&five) && 9.0 < fifteen, "{one} {five}");
    }

    #[test]
    fn shards_merge() {
        let (mut left, mut right) =
            (DecayingHistogram::new(Zeroes::AsOne), DecayingHistogram::new(Zeroes::AsOne));
        left.record_placed(Placed::new(5));
        right.record_many(7, 2);
        let mut both = left.snapshot();
        both.merge(&right.snapshot());
        assert_eq!((both.count, both.sum, both.recent.count()), (3, 19, 3));
    }
}
