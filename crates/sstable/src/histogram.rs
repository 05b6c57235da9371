//! The two histograms of `Statistics.db`.
//!
//! Sizes and counts: buckets grow by a fifth; on disk `i32 n, (i64 offset, i64 count)*n`, where the first boundary
//! stands twice and the last bucket is the overflow. Tombstones: `i32 bins_max, i32 n, (f64 second, i64 count)*n`,
//! from oa on `(i64 second, i32 count)*n`.

use base::histogram::{EstimatedHistogram, Zeroes};
use std::collections::BTreeMap;

use crate::cursor::{Cursor, Decoded};
use crate::limits::TOMBSTONE_BINS;

/// Buckets of the partition size histogram, without the overflow.
pub const SIZE_BUCKETS: usize = 155;
/// Buckets of the cells per partition histogram, without the overflow.
pub const CELL_BUCKETS: usize = 118;

/// How many values fell between growing boundaries.
#[derive(Clone, Debug)]
pub struct SizeHistogram {
    boundaries: Vec<i64>,
    /// One longer than `boundaries`: the last is the overflow.
    counts: Vec<i64>,
    /// Where the last value fell: the next one is often as large.
    last: usize,
}

impl PartialEq for SizeHistogram {
    fn eq(&self, other: &SizeHistogram) -> bool {
        self.parts() == other.parts()
    }
}

impl Eq for SizeHistogram {}

impl SizeHistogram {
    /// An empty histogram with the reference's boundaries.
    pub fn new(buckets: usize) -> SizeHistogram {
        let boundaries = (0..buckets).map(|bucket| base::histogram::boundary(bucket) as i64).collect();
        SizeHistogram { counts: vec![0; buckets + 1], boundaries, last: 0 }
    }

    /// Counts one value.
    pub fn add(&mut self, value: u64) {
        let value = i64::try_from(value).unwrap_or(i64::MAX);
        let is_above = |boundary: Option<&i64>| boundary.is_some_and(|boundary| *boundary < value);
        let before = self.last.checked_sub(1);
        let fits = !is_above(self.boundaries.get(self.last))
            && before.is_none_or(|before| is_above(self.boundaries.get(before)));
        if !fits {
            self.last = self.boundaries.partition_point(|boundary| *boundary < value);
        }
        self.counts[self.last] += 1;
    }

    /// How many values were counted.
    pub fn count(&self) -> u64 {
        self.counts.iter().map(|count| (*count).max(0) as u64).fold(0, u64::saturating_add)
    }

    /// Upper boundaries of the buckets but the overflow, and how many values each holds, the overflow last.
    pub fn parts(&self) -> (&[i64], &[i64]) {
        (&self.boundaries, &self.counts)
    }

    /// The same counts in the form that histograms of other sstables can be added to.
    pub fn estimated(&self) -> EstimatedHistogram {
        let mut estimated = EstimatedHistogram::new(Zeroes::AsOne);
        for (index, count) in self.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            let value = self.boundaries.get(index).map_or(u64::MAX, |boundary| (*boundary).max(0) as u64);
            estimated.add(value, *count as u64);
        }
        estimated
    }

    /// Appends the bytes on disk.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&(self.counts.len() as i32).to_be_bytes());
        for (index, count) in self.counts.iter().enumerate() {
            let boundary = self.boundaries[index.saturating_sub(1)];
            out.extend_from_slice(&boundary.to_be_bytes());
            out.extend_from_slice(&count.to_be_bytes());
        }
    }

    /// Reads the bytes on disk.
    pub(crate) fn decode(cursor: &mut Cursor<'_>) -> Decoded<SizeHistogram> {
        let at = cursor.at();
        let count = cursor.count_i32(16)?;
        if count < 2 {
            return Err(cursor.bad_at(at, "at least two buckets", count.to_string()));
        }
        let mut histogram = SizeHistogram {
            boundaries: Vec::with_capacity(count - 1),
            counts: Vec::with_capacity(count),
            last: 0,
        };
        for index in 0..count {
            let boundary = cursor.i64()?;
            if index > 0 {
                histogram.boundaries.push(boundary);
            }
            histogram.counts.push(cursor.i64()?);
        }
        Ok(histogram)
    }
}

/// When tombstones were made: seconds, rounded up to the minute, and how many.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TombstoneHistogram {
    bins: BTreeMap<u64, i64>,
}

impl TombstoneHistogram {
    /// Counts one tombstone.
    pub fn add(&mut self, local_time: u32) {
        let point = u64::from(local_time).div_ceil(60) * 60;
        *self.bins.entry(point).or_insert(0) += 1;
        if self.bins.len() > TOMBSTONE_BINS * 10 {
            self.shrink(TOMBSTONE_BINS);
        }
    }

    /// How many tombstones were counted.
    pub fn count(&self) -> u64 {
        self.bins.values().map(|count| (*count).max(0) as u64).fold(0, u64::saturating_add)
    }

    /// Seconds and how many tombstones each stands for, ascending.
    pub fn bins(&self) -> impl Iterator<Item = (u64, i64)> + use<'_> {
        self.bins.iter().map(|(point, count)| (*point, *count))
    }

    /// About how many tombstones were made before a second.
    pub fn count_before(&self, local_time: u32) -> u64 {
        let bins = self.bins.range(..u64::from(local_time));
        bins.map(|(_, count)| (*count).max(0) as u64).fold(0, u64::saturating_add)
    }

    /// Merges the closest neighbours until `most` bins are left.
    fn shrink(&mut self, most: usize) {
        while self.bins.len() > most {
            let points: Vec<u64> = self.bins.keys().copied().collect();
            let Some(pair) = points.windows(2).min_by_key(|pair| pair[1] - pair[0]) else { return };
            let left = self.bins.remove(&pair[0]).unwrap_or(0);
            let right = self.bins.remove(&pair[1]).unwrap_or(0);
            let weight = |point: u64, count: i64| u128::from(point) * count.max(1) as u128;
            let sum = left.max(1) as u128 + right.max(1) as u128;
            let point = ((weight(pair[0], left) + weight(pair[1], right)) / sum) as u64;
            *self.bins.entry(point).or_insert(0) += left + right;
        }
    }

    /// Appends the bytes on disk, at most a hundred bins; `wide` as oa and da write them.
    pub(crate) fn encode(&mut self, wide: bool, out: &mut Vec<u8>) {
        self.shrink(TOMBSTONE_BINS);
        out.extend_from_slice(&(TOMBSTONE_BINS as i32).to_be_bytes());
        out.extend_from_slice(&(self.bins.len() as i32).to_be_bytes());
        for (point, count) in &self.bins {
            if wide {
                out.extend_from_slice(&(*point).min(u64::from(u32::MAX) - 2).to_be_bytes());
                out.extend_from_slice(&i32::try_from(*count).unwrap_or(i32::MAX).to_be_bytes());
            } else {
                out.extend_from_slice(&((*point).min(i32::MAX as u64 - 1) as f64).to_be_bytes());
                out.extend_from_slice(&count.to_be_bytes());
            }
        }
    }

    /// Reads the bytes on disk.
    pub(crate) fn decode(wide: bool, cursor: &mut Cursor<'_>) -> Decoded<TombstoneHistogram> {
        let _bins_max = cursor.i32()?;
        let count = cursor.count_i32(if wide { 12 } else { 16 })?;
        let mut bins = BTreeMap::new();
        for _ in 0..count {
            let at = cursor.at();
            let point = if wide { cursor.i64()? as f64 } else { f64::from_bits(cursor.u64()?) };
            if !(0.0..1e18).contains(&point) {
                return Err(cursor.bad_at(at, "a time in seconds", point.to_string()));
            }
            let tombstones = if wide { i64::from(cursor.i32()?) } else { cursor.i64()? };
            let bin = bins.entry(point as u64).or_insert(0i64);
            *bin = bin.saturating_add(tombstones);
        }
        Ok(TombstoneHistogram { bins })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_fall_into_their_buckets() {
        let mut histogram = SizeHistogram::new(SIZE_BUCKETS);
        assert_eq!(histogram.boundaries[..12], [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 17]);
        for value in [0, 1, 2, 9, 10, 11, u64::MAX] {
            histogram.add(value);
        }
        assert_eq!(histogram.counts[..10], [2, 1, 0, 0, 0, 0, 0, 0, 2, 1]);
        assert_eq!(histogram.counts[SIZE_BUCKETS], 1);
        assert_eq!(histogram.count(), 7);
        let estimated = histogram.estimated();
        assert_eq!((estimated.count(), estimated.percentile(0.5), estimated.max()), (7, 10, u64::MAX));
        let mut bytes = Vec::new();
        histogram.encode(&mut bytes);
        assert_eq!(SizeHistogram::decode(&mut Cursor::new(&bytes)).unwrap(), histogram);
    }

    #[test]
    fn tombstones_are_counted_and_merged() {
        let mut histogram = TombstoneHistogram::default();
        for second in 0..100_000u32 {
            histogram.add(1_700_000_000 + second);
        }
        for wide in [false, true] {
            let mut bytes = Vec::new();
            histogram.encode(wide, &mut bytes);
            assert!(histogram.bins.len() <= TOMBSTONE_BINS);
            let read = TombstoneHistogram::decode(wide, &mut Cursor::new(&bytes)).unwrap();
            assert_eq!(read.count(), 100_000);
            assert_eq!(read, histogram);
        }
        let read = histogram;
        let half = read.count_before(1_700_050_000);
        assert!((40_000..60_000).contains(&half), "{half}");
    }
}
