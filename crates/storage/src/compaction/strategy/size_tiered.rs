//! Size tiers, as Cassandra's default strategy: sstables of about one size are merged when they are enough.

use super::options::{Map, number, ratio};
use super::{Scene, Shape, Task};

/// Ratio between an sstable's size and the mean of its tier, below and above.
const BUCKET_LOW: f64 = 0.5;
const BUCKET_HIGH: f64 = 1.5;
/// Bytes below which sstables share one tier whatever their sizes.
const SMALL_BYTES: u64 = 50 * 1024 * 1024;

/// What a table's options say of tiers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct SizeTiers {
    /// Sstables of a tier that start a compaction.
    pub(super) min: usize,
    /// Most sstables of one compaction.
    pub(super) max: usize,
    low: f64,
    high: f64,
    small: u64,
}

impl SizeTiers {
    pub(super) fn of(map: &Map) -> SizeTiers {
        let min = number(map, "min_threshold", 4).max(2);
        SizeTiers {
            min,
            max: number(map, "max_threshold", 32).max(min),
            low: ratio(map, "bucket_low", BUCKET_LOW),
            high: ratio(map, "bucket_high", BUCKET_HIGH),
            small: number(map, "min_sstable_size", SMALL_BYTES),
        }
    }

    pub(super) fn next(&self, scene: Scene<'_>) -> Option<Task> {
        let free = (0..scene.sstables.len()).filter(|index| !scene.sstables[*index].busy);
        let picked = self.pick(scene, free.collect());
        (!picked.is_empty()).then(|| Task::merge(picked, Shape::ONE))
    }

    /// Those of some sstables that are to be merged: the smallest tier that is full. Empty: none is.
    pub(super) fn pick(&self, scene: Scene<'_>, mut among: Vec<usize>) -> Vec<usize> {
        let size = |index: usize| scene.sstables[index].bytes;
        among.sort_by_key(|index| (size(*index), *index));
        let mut tier: Vec<usize> = Vec::new();
        let mut sum = 0u64;
        for index in among {
            let bytes = size(index);
            let mean = sum as f64 / tier.len().max(1) as f64;
            let alike = bytes as f64 >= mean * self.low && bytes as f64 <= mean * self.high;
            let small = bytes < self.small && mean < self.small as f64;
            if !(tier.is_empty() || alike || small) {
                if tier.len() >= self.min {
                    break;
                }
                tier.clear();
                sum = 0;
            }
            tier.push(index);
            sum += bytes;
        }
        if tier.len() < self.min {
            return Vec::new();
        }
        tier.truncate(self.max);
        tier
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{of_sizes, scene};
    use super::*;
    use schema::TableOptions;

    fn picked(sizes: &[u64]) -> Vec<usize> {
        let sstables = of_sizes(sizes);
        let tiers = SizeTiers::of(&TableOptions::cassandra().compaction);
        tiers.next(scene(&sstables)).map_or(Vec::new(), |task| task.inputs)
    }

    #[test]
    fn four_of_a_size_are_merged() {
        const MIB: u64 = 1024 * 1024;
        assert_eq!(picked(&[1, 1, 1]), Vec::<usize>::new());
        assert_eq!(picked(&[MIB, 3, 40 * MIB, 7]), [1, 3, 0, 2]);
        let sizes = [100 * MIB, 1000 * MIB, 110 * MIB, 90 * MIB, 120 * MIB, 900 * MIB];
        assert_eq!(picked(&sizes), [3, 0, 2, 4]);
        assert_eq!(picked(&[100 * MIB, 200 * MIB, 400 * MIB, 800 * MIB]), Vec::<usize>::new());
        assert_eq!(picked(&[1; 40]).len(), 32);
    }

    #[test]
    fn a_tier_is_as_wide_as_its_options_say() {
        const MIB: u64 = 1024 * 1024;
        let picked = |options: &[(&str, &str)], sizes: &[u64]| {
            let sstables = of_sizes(sizes);
            let map = options.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
            SizeTiers::of(&map).next(scene(&sstables)).map_or(0, |task| task.inputs.len())
        };
        let wide = [100 * MIB, 180 * MIB, 180 * MIB, 180 * MIB];
        assert_eq!((picked(&[], &wide), picked(&[("bucket_high", "2.0")], &wide)), (0, 4));
        let close = [100 * MIB, 104 * MIB, 108 * MIB, 112 * MIB];
        assert_eq!((picked(&[], &close), picked(&[("bucket_high", "1.01")], &close)), (4, 0));
        // From the smallest up nothing is below the mean of those before: only a ratio above 1 keeps any out.
        let low = [("bucket_low", "1.1"), ("bucket_high", "2.0")];
        assert_eq!((picked(&low[1..], &close), picked(&low, &close)), (4, 0));
        let small = [MIB, 20 * MIB, 30 * MIB, 40 * MIB];
        assert_eq!((picked(&[], &small), picked(&[("min_sstable_size", "1000")], &small)), (4, 0));
    }

    #[test]
    fn options_are_obeyed_and_nonsense_is_not() {
        let mut map = TableOptions::cassandra().compaction;
        map.insert("min_threshold".into(), "2".into());
        map.insert("max_threshold".into(), "x".into());
        map.insert("bucket_low".into(), "-3".into());
        let tiers = SizeTiers::of(&map);
        assert_eq!((tiers.min, tiers.max, tiers.low), (2, 32, 0.5));
    }
}
