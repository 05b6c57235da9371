//! Numbers by their distributions: which record, how long a field, how many records of a scan.
//!
//! Source: the documented distributions of YCSB; "Quickly Generating Billion-Record Synthetic Databases" (Gray and others, 1994) for
//! zipfian numbers; FNV-1a for scattering them.

use crate::limits::{KEY_DRAWS_MAX, ZETA_TERMS};
use base::Prng;
use std::collections::BTreeSet;

/// Exponent of all zipfian weights.
const THETA: f64 = 0.99;
/// Numbers from which scattered ones are drawn, however many records there are, and the sum of their weights.
const SCATTERED_ITEMS: u64 = 10_000_000_000;
const SCATTERED_ZETA: f64 = 26.469_028_201_783_02;

const FNV_OFFSET: u64 = 0xCBF2_9CE4_8422_2325;
const FNV_PRIME: u64 = 1_099_511_628_211;

/// FNV-1a over the eight bytes of a number, the low one first, without its sign: 63 bits.
pub fn scatter(number: u64) -> u64 {
    let mut hash = FNV_OFFSET;
    for byte in number.to_le_bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(FNV_PRIME);
    }
    (hash as i64).unsigned_abs()
}

/// Sum of the weights of the numbers from `from` up to `to`, without `to`: 1 / (i + 1)^θ.
fn zeta(from: u64, to: u64) -> f64 {
    let exact = to.min(from.saturating_add(ZETA_TERMS).max(ZETA_TERMS));
    let mut sum = (from..exact).map(|index| weight(index + 1)).sum::<f64>();
    if exact < to {
        // Euler and Maclaurin: the integral, half of both ends, and the slopes there.
        let (low, high) = ((exact + 1) as f64, to as f64);
        let integral = (high.powf(1.0 - THETA) - low.powf(1.0 - THETA)) / (1.0 - THETA);
        let ends = (low.powf(-THETA) + high.powf(-THETA)) / 2.0;
        let slopes = THETA * (low.powf(-THETA - 1.0) - high.powf(-THETA - 1.0)) / 12.0;
        sum += integral + ends + slopes;
    }
    sum
}

fn weight(index: u64) -> f64 {
    1.0 / (index as f64).powf(THETA)
}

/// Numbers from a first one on, the lower the more often.
#[derive(Clone, Debug)]
pub struct Zipfian {
    first: u64,
    items: u64,
    /// Numbers of which `zeta` is the sum.
    counted: u64,
    zeta: f64,
    zeta_of_two: f64,
    eta: f64,
}

impl Zipfian {
    /// Numbers of `first` to `last`, both included.
    pub fn new(first: u64, last: u64) -> Zipfian {
        let items = last.saturating_sub(first) + 1;
        Zipfian::with_zeta(first, items, zeta(0, items))
    }

    fn with_zeta(first: u64, items: u64, zeta_of_all: f64) -> Zipfian {
        let zeta_of_two = zeta(0, 2);
        let mut zipfian = Zipfian { first, items, counted: items, zeta: zeta_of_all, zeta_of_two, eta: 0.0 };
        zipfian.set_eta();
        zipfian
    }

    /// By the number of items it began with, even when there are more: as it has always been.
    fn set_eta(&mut self) {
        let items = self.items.max(1) as f64;
        self.eta = (1.0 - (2.0 / items).powf(1.0 - THETA)) / (1.0 - self.zeta_of_two / self.zeta);
    }

    /// Draws one.
    pub fn draw(&mut self, rng: &mut Prng) -> u64 {
        self.draw_of(self.items, rng)
    }

    /// Draws one when there are so many items now; they may only become more.
    pub fn draw_of(&mut self, items: u64, rng: &mut Prng) -> u64 {
        if self.counted < items {
            self.zeta += zeta(self.counted, items);
            self.counted = items;
            self.set_eta();
        }
        self.of(items, rng.unit())
    }

    /// The number of a place between 0 and 1.
    fn of(&self, items: u64, unit: f64) -> u64 {
        let below = unit * self.zeta;
        if below < 1.0 {
            return self.first;
        }
        if below < 1.0 + 0.5f64.powf(THETA) {
            return self.first + 1;
        }
        let share = (self.eta * unit - self.eta + 1.0).powf(1.0 / (1.0 - THETA));
        // Of what is not a number nothing is left.
        self.first + (items as f64 * share) as u64
    }
}

/// Numbers of inserts of a run: given out in order, there once they are acknowledged and all before them are.
#[derive(Clone, Debug)]
pub struct Acknowledged {
    next: u64,
    /// All numbers below this are there.
    end: u64,
    /// Those that are there from `end` on; no more than there are inserts on their way or after a slow one.
    beyond: BTreeSet<u64>,
}

impl Acknowledged {
    /// So many records are there.
    pub fn new(count: u64) -> Acknowledged {
        Acknowledged { next: count, end: count, beyond: BTreeSet::new() }
    }

    /// The next number to insert.
    pub fn take(&mut self) -> u64 {
        let next = self.next;
        self.next += 1;
        next
    }

    /// A number's insert has ended, well or not.
    pub fn acknowledge(&mut self, number: u64) {
        self.beyond.insert(number);
        while self.beyond.remove(&self.end) {
            self.end += 1;
        }
    }

    /// The last number that is there; 0 when none is.
    pub fn last(&self) -> u64 {
        self.end.saturating_sub(1)
    }
}

/// Which record an operation is about.
#[derive(Clone, Debug)]
pub enum Chooser {
    /// Each as often as any other: the first and how many.
    Uniform(u64, u64),
    /// One after the other, from the start again after the last: the first, how many, the next draw.
    Sequential(u64, u64, u64),
    /// Zipfian, scattered over so many records from a first one on.
    Zipfian {
        /// Draws before they are scattered.
        ranks: Zipfian,
        /// The first record.
        first: u64,
        /// How many, with those that the run will insert.
        count: u64,
    },
    /// The last record the most often.
    Latest(Zipfian),
    /// Some records get most of the operations.
    Hotspot {
        /// The first record.
        first: u64,
        /// How many are hot.
        hot: u64,
        /// How many follow that are not.
        cold: u64,
        /// Share of operations on the hot ones.
        share: f64,
    },
    /// The last records exponentially more often than earlier ones: the rate.
    Exponential(f64),
}

impl Chooser {
    /// Zipfian, scattered over `count` records from `first` on.
    pub fn scattered(first: u64, count: u64) -> Chooser {
        let ranks = Zipfian::with_zeta(0, SCATTERED_ITEMS + 1, SCATTERED_ZETA);
        Chooser::Zipfian { ranks, first, count: count.max(1) }
    }

    /// The last record the most often, when so many are there.
    pub fn latest(count: u64) -> Chooser {
        Chooser::Latest(Zipfian::new(0, count.saturating_sub(2)))
    }

    /// Exponentially more often the last ones: so many percent of the operations within so many of the records.
    pub fn exponential(percentile: f64, records: f64) -> Chooser {
        Chooser::Exponential(-(1.0 - percentile / 100.0).ln() / records)
    }

    /// Draws a record that is there: none after `last`.
    pub fn draw(&mut self, last: u64, rng: &mut Prng) -> u64 {
        for _ in 0..KEY_DRAWS_MAX {
            match self.try_draw(last, rng) {
                Some(record) if record <= last => return record,
                _ => {}
            }
        }
        last
    }

    fn try_draw(&mut self, last: u64, rng: &mut Prng) -> Option<u64> {
        Some(match self {
            Chooser::Uniform(first, count) => *first + rng.below(*count),
            Chooser::Sequential(first, count, next) => {
                let record = *first + *next % (*count).max(1);
                *next += 1;
                record
            }
            Chooser::Zipfian { ranks, first, count } => *first + scatter(ranks.draw(rng)) % *count,
            Chooser::Latest(_) if last == 0 => 0,
            Chooser::Latest(ranks) => last.saturating_sub(ranks.draw_of(last, rng)),
            Chooser::Hotspot { first, hot, cold, share } => {
                if 0 < *hot && (*cold == 0 || rng.unit() < *share) {
                    *first + rng.below(*hot)
                } else {
                    *first + *hot + rng.below(*cold)
                }
            }
            Chooser::Exponential(rate) => {
                // `1 - u` instead of `u`: never the logarithm of 0.
                let before = -(1.0 - rng.unit()).ln() / *rate;
                return last.checked_sub(before as u64);
            }
        })
    }
}

/// Lengths of fields or of scans.
#[derive(Clone, Debug)]
pub enum Lengths {
    /// Always the same.
    Constant(u64),
    /// Of a least to a most, each as often as any other.
    Uniform(u64, u64),
    /// The shorter the more often.
    Zipfian(Zipfian),
    /// By how often each was seen.
    Seen {
        /// Lengths are multiples of this.
        block: u64,
        /// How often one block was seen, two blocks, and so on.
        counts: Vec<u64>,
        /// Their sum.
        total: u64,
    },
}

impl Lengths {
    /// Draws one.
    pub fn draw(&mut self, rng: &mut Prng) -> u64 {
        match self {
            Lengths::Constant(length) => *length,
            Lengths::Uniform(least, most) => rng.range(*least, *most + 1),
            Lengths::Zipfian(zipfian) => zipfian.draw(rng),
            Lengths::Seen { block, counts, total } => {
                let mut left = rng.below(*total) as i64;
                let last = counts.len().saturating_sub(1);
                for (index, count) in counts[..last].iter().enumerate() {
                    left -= *count as i64;
                    // Also where the next bucket begins, and the last one is as long as the one before: so it has always been.
                    if left <= 0 {
                        return (index as u64 + 1) * *block;
                    }
                }
                last as u64 * *block
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the Java tool makes of the same numbers.
    #[test]
    fn numbers_are_scattered_as_in_java() {
        for (number, scattered) in [
            (0, 6_284_781_860_667_377_211),
            (1, 8_517_097_267_634_966_620),
            (2, 1_820_151_046_732_198_393),
            (10, 2_408_371_864_701_034_737),
            (999, 2_071_219_101_098_386_137),
            (1_000_000, 1_011_632_231_655_643_464),
        ] {
            assert_eq!(scatter(number), scattered);
        }
    }

    #[test]
    fn sums_of_weights_are_exact_however_many() {
        assert!((zeta(0, 2) - 1.503_477_775_028_359_4).abs() < 1e-15);
        // Published for ten billion; ours is added by an integral, theirs one by one.
        let published = SCATTERED_ZETA;
        assert!((zeta(0, SCATTERED_ITEMS) / published - 1.0).abs() < 1e-9, "{}", zeta(0, SCATTERED_ITEMS));
        for (from, to) in [(0, 50_000), (7, 12_000), (20_000, 90_000)] {
            let added: f64 = (from..to).map(|index| weight(index + 1)).sum();
            assert!((zeta(from, to) / added - 1.0).abs() < 1e-12, "{from} {to}");
        }
    }

    #[test]
    fn zipfian_numbers_are_those_of_the_formula() {
        let ranks = Zipfian::with_zeta(0, SCATTERED_ITEMS + 1, SCATTERED_ZETA);
        assert!((ranks.eta - 0.212_200_033_8).abs() < 1e-9, "{}", ranks.eta);
        assert_eq!([ranks.of(ranks.items, 0.0), ranks.of(ranks.items, 0.05)], [0, 1]);
        assert!(ranks.of(ranks.items, 1.0 - 1e-16) <= ranks.items);
        // The weights of the first numbers, drawn often.
        let mut rng = Prng::new(1);
        let mut zipfian = Zipfian::new(5, 1004);
        let draws = 200_000;
        let mut seen = [0u32; 1001];
        (0..draws).for_each(|_| seen[zipfian.draw(&mut rng) as usize - 5] += 1);
        for (rank, count) in seen.iter().enumerate().take(2) {
            let expected = weight(rank as u64 + 1) / zeta(0, 1000);
            assert!((f64::from(*count) / f64::from(draws) / expected - 1.0).abs() < 0.05, "{rank}");
        }
        assert_eq!(seen[1000], 0);
    }

    #[test]
    fn numbers_are_there_when_all_before_them_are() {
        let mut numbers = Acknowledged::new(10);
        assert_eq!((numbers.last(), numbers.take(), numbers.take(), numbers.take()), (9, 10, 11, 12));
        numbers.acknowledge(12);
        numbers.acknowledge(11);
        assert_eq!(numbers.last(), 9);
        numbers.acknowledge(10);
        assert_eq!((numbers.last(), numbers.beyond.len()), (12, 0));
    }

    fn drawn(mut chooser: Chooser, last: u64) -> Vec<u64> {
        let mut rng = Prng::new(5);
        (0..20_000).map(|_| chooser.draw(last, &mut rng)).collect()
    }

    #[test]
    fn no_record_is_chosen_that_is_not_there() {
        let hotspot = Chooser::Hotspot { first: 0, hot: 200, cold: 800, share: 0.8 };
        for chooser in [
            Chooser::Uniform(0, 1000),
            Chooser::Sequential(0, 1000, 0),
            Chooser::scattered(0, 1100),
            Chooser::latest(1000),
            Chooser::exponential(95.0, 857.0),
            hotspot.clone(),
        ] {
            let name = format!("{chooser:?}");
            let drawn = drawn(chooser, 999);
            assert!(drawn.iter().all(|record| *record <= 999), "{name}");
            let distinct: BTreeSet<u64> = drawn.iter().copied().collect();
            assert!(distinct.len() > 800, "{name}: {}", distinct.len());
        }
        let hot = drawn(hotspot, 999).iter().filter(|record| **record < 200).count();
        assert!((15_000..17_000).contains(&hot), "{hot}");
        let late = drawn(Chooser::exponential(95.0, 500.0), 999).iter().filter(|r| **r >= 500).count();
        assert!((18_500..19_500).contains(&late), "{late}");
        let latest = drawn(Chooser::latest(1000), 999).iter().filter(|record| **record == 999).count();
        assert!(latest > 2_000, "{latest}");
        assert_eq!(drawn(Chooser::Sequential(3, 4, 0), 9)[..6], [3, 4, 5, 6, 3, 4]);
    }

    /// Bounds that leave nothing to choose from end all the same.
    #[test]
    fn the_least_is_enough() {
        for mut chooser in [
            Chooser::Uniform(5, 0),
            Chooser::Sequential(5, 0, 0),
            Chooser::scattered(5, 0),
            Chooser::latest(0),
            Chooser::latest(1),
            Chooser::exponential(0.0, 0.0),
            Chooser::Hotspot { first: 0, hot: 0, cold: 0, share: 1.0 },
        ] {
            assert!(chooser.draw(0, &mut Prng::new(1)) == 0, "{chooser:?}");
        }
    }

    #[test]
    fn lengths_are_drawn_within_their_bounds() {
        let mut rng = Prng::new(2);
        let mut all = |mut lengths: Lengths| {
            let drawn: BTreeSet<u64> = (0..5_000).map(|_| lengths.draw(&mut rng)).collect();
            (drawn.first().copied(), drawn.last().copied(), drawn.len())
        };
        assert_eq!(all(Lengths::Constant(7)), (Some(7), Some(7), 1));
        assert_eq!(all(Lengths::Uniform(1, 10)), (Some(1), Some(10), 10));
        assert_eq!(all(Lengths::Zipfian(Zipfian::new(1, 10))), (Some(1), Some(10), 10));
        let seen = Lengths::Seen { block: 10, counts: vec![1, 2, 3], total: 6 };
        assert_eq!(all(seen), (Some(10), Some(20), 2));
        assert_eq!(all(Lengths::Seen { block: 10, counts: vec![4], total: 4 }), (Some(0), Some(0), 1));
    }
}
