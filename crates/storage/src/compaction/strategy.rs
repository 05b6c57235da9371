//! Which sstables to merge: size tiers, as Cassandra's default strategy. No I/O.

use schema::TableOptions;

/// Ratio between an sstable's size and the mean of its tier, below and above.
const BUCKET_LOW: f64 = 0.5;
const BUCKET_HIGH: f64 = 1.5;
/// Bytes below which sstables share one tier whatever their sizes.
const SMALL_BYTES: u64 = 50 * 1024 * 1024;

/// What a table's options say about its compaction.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct SizeTiers {
    pub(crate) enabled: bool,
    /// Sstables of a tier that start a compaction.
    pub(crate) min: usize,
    /// Most sstables of one compaction.
    pub(crate) max: usize,
    low: f64,
    high: f64,
    small: u64,
}

impl SizeTiers {
    /// Reads the options; values that make no sense count as not given.
    pub(crate) fn of(options: &TableOptions) -> SizeTiers {
        let text = |name: &str| options.compaction.get(name).map(String::as_str);
        let count = |name: &str, default: usize| text(name).and_then(|v| v.parse().ok()).unwrap_or(default);
        let ratio = |name: &str, default: f64| {
            text(name)
                .and_then(|v| v.parse().ok())
                .filter(|v: &f64| v.is_finite() && *v > 0.0)
                .unwrap_or(default)
        };
        let min = count("min_threshold", 4).max(2);
        let small = text("min_sstable_size").and_then(|v| v.parse().ok()).unwrap_or(SMALL_BYTES);
        SizeTiers {
            enabled: text("enabled") != Some("false"),
            min,
            max: count("max_threshold", 32).max(min),
            low: ratio("bucket_low", BUCKET_LOW),
            high: ratio("bucket_high", BUCKET_HIGH),
            small,
        }
    }

    /// Indexes of the sstables to merge, by their sizes in bytes: the smallest tier that is full. Empty: none is.
    pub(crate) fn pick(&self, sizes: &[u64]) -> Vec<usize> {
        let mut order: Vec<usize> = (0..sizes.len()).collect();
        order.sort_by_key(|index| (sizes[*index], *index));
        let mut tier: Vec<usize> = Vec::new();
        let mut sum = 0u64;
        for index in order {
            let size = sizes[index];
            let mean = sum as f64 / tier.len().max(1) as f64;
            let alike = size as f64 >= mean * self.low && size as f64 <= mean * self.high;
            let small = size < self.small && mean < self.small as f64;
            if !(tier.is_empty() || alike || small) {
                if tier.len() >= self.min {
                    break;
                }
                tier.clear();
                sum = 0;
            }
            tier.push(index);
            sum += size;
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
    use super::*;

    fn tiers() -> SizeTiers {
        SizeTiers::of(&TableOptions::cassandra())
    }

    #[test]
    fn four_of_a_size_are_merged() {
        const MIB: u64 = 1024 * 1024;
        assert_eq!(tiers().pick(&[1, 1, 1]), Vec::<usize>::new());
        assert_eq!(tiers().pick(&[MIB, 3, 40 * MIB, 7]), [1, 3, 0, 2]);
        let sizes = [100 * MIB, 1000 * MIB, 110 * MIB, 90 * MIB, 120 * MIB, 900 * MIB];
        assert_eq!(tiers().pick(&sizes), [3, 0, 2, 4]);
        assert_eq!(tiers().pick(&[100 * MIB, 200 * MIB, 400 * MIB, 800 * MIB]), Vec::<usize>::new());
        assert_eq!(tiers().pick(&[1; 40]).len(), 32);
    }

    #[test]
    fn options_are_obeyed_and_nonsense_is_not() {
        let mut options = TableOptions::cassandra();
        options.compaction.insert("min_threshold".into(), "2".into());
        options.compaction.insert("max_threshold".into(), "x".into());
        options.compaction.insert("enabled".into(), "false".into());
        let tiers = SizeTiers::of(&options);
        assert_eq!((tiers.min, tiers.max, tiers.enabled), (2, 32, false));
    }
}
