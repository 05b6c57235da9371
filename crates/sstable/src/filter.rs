//! The bloom filter of the partition keys (`Filter.db`).
//!
//! ```text
//! i32 hash_count, i32 word_count, bitmap      bit i: byte i/8, mask 1 << (i % 8)
//! ```
//! Before na each eight bytes of the bitmap stand turned round.
//! Probe k of a key is `|(h2 + k * h1) rem capacity|`, with both halves of the partitioner's hash.

use std::path::Path;

use crate::cursor::{Cursor, Decoded};
use crate::error::Error;
use crate::limits::{FILTER_BITS_PER_KEY_MAX, FILTER_BYTES_MAX};
use crate::version::Version;

/// A set of keys that answers "perhaps" or "no".
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    hash_count: u32,
    words: Vec<u64>,
    /// Of the number of bits.
    reciprocal: u128,
}

/// 2^128 divided by a number, rounded up.
fn reciprocal(divisor: u64) -> u128 {
    (u128::MAX / u128::from(divisor)).wrapping_add(1)
}

/// The rest of a division whose divisor is known for long: products instead of it. Exact while number and divisor have no more
/// than 128 bits together: Lemire, Kaser and Kurz, "Faster remainder by direct computation", 2019.
fn remainder(number: u64, divisor: u64, reciprocal: u128) -> u64 {
    let fraction = reciprocal.wrapping_mul(u128::from(number));
    let low = ((fraction & u128::from(u64::MAX)) * u128::from(divisor)) >> 64;
    ((low + (fraction >> 64) * u128::from(divisor)) >> 64) as u64
}

/// Hashes per key and bits per key for a false-positive rate: the fewest bits, then the fewest hashes, that reach it.
/// The reference rounds its table of rates, hence the half percent.
fn shape(false_positives: f64) -> (u32, u32) {
    let rate =
        |bits: u32, hashes: u32| (1.0 - (-f64::from(hashes) / f64::from(bits)).exp()).powi(hashes as i32);
    for bits in 2..=FILTER_BITS_PER_KEY_MAX {
        if let Some(hashes) = (1..=bits).find(|hashes| rate(bits, *hashes) <= false_positives * 1.005) {
            return (hashes, bits);
        }
    }
    (14, FILTER_BITS_PER_KEY_MAX)
}

impl Filter {
    /// An empty filter for about `keys` keys. `None` when the rate asked for needs no filter (1.0).
    pub fn for_keys(keys: u64, false_positives: f64) -> Option<Filter> {
        if false_positives >= 1.0 {
            return None;
        }
        let (hash_count, bits_per_key) = shape(false_positives);
        let bits = keys.saturating_mul(u64::from(bits_per_key)).saturating_add(20).min(FILTER_BYTES_MAX * 8);
        Some(Filter::new(hash_count, vec![0; bits.div_ceil(64) as usize]))
    }

    fn new(hash_count: u32, words: Vec<u64>) -> Filter {
        let reciprocal = reciprocal(words.len() as u64 * 64);
        Filter { hash_count, words, reciprocal }
    }

    /// The probes of a key.
    fn probes(&self, hash: (i64, i64)) -> impl Iterator<Item = (usize, u64)> + use<> {
        let (capacity, reciprocal) = (self.words.len() as u64 * 64, self.reciprocal);
        let mut at = hash.1;
        (0..self.hash_count).map(move |_| {
            let bit = remainder(at.unsigned_abs(), capacity, reciprocal);
            at = at.wrapping_add(hash.0);
            ((bit / 64) as usize, 1 << (bit % 64))
        })
    }

    /// Adds a key by its hash.
    pub fn add(&mut self, hash: (i64, i64)) {
        for (word, mask) in self.probes(hash) {
            self.words[word] |= mask;
        }
    }

    /// Asks for the words of a key, which will be looked at soon.
    fn prefetch(&self, hash: (i64, i64)) {
        for (word, _) in self.probes(hash) {
            base::prefetch(&self.words[word], size_of::<u64>());
        }
    }

    /// Whether the key may have been added; never wrong when it says no.
    pub fn may_contain(&self, hash: (i64, i64)) -> bool {
        self.probes(hash).all(|(word, mask)| self.words[word] & mask != 0)
    }

    /// Bytes held in memory.
    pub fn bytes(&self) -> u64 {
        self.words.len() as u64 * 8
    }

    /// The component's bytes in a version.
    pub fn encode(&self, version: Version) -> Vec<u8> {
        let turned = version.facts().turned_filter;
        let mut out = Vec::with_capacity(8 + self.words.len() * 8);
        out.extend_from_slice(&(self.hash_count as i32).to_be_bytes());
        out.extend_from_slice(&(self.words.len() as i32).to_be_bytes());
        for word in &self.words {
            out.extend_from_slice(&if turned { word.to_be_bytes() } else { word.to_le_bytes() });
        }
        out
    }

    /// Reads the component. Errors: `Corrupt` with the offset.
    pub fn decode(file: &Path, version: Version, bytes: &[u8]) -> Result<Filter, Error> {
        decode(bytes, version.facts().turned_filter).map_err(|fault| fault.in_file(file, 0))
    }
}

/// Keys that are added once their words have come from memory: half a dozen places all over some megabytes.
const KEYS_AHEAD: usize = 8;

/// A filter that gets its keys.
pub(crate) struct Filling {
    filter: Filter,
    /// The last keys, which are not in it yet, in a ring.
    waiting: [(i64, i64); KEYS_AHEAD],
    keys: usize,
}

impl Filling {
    /// Begins with a filter.
    pub(crate) fn new(filter: Filter) -> Filling {
        Filling { filter, waiting: [(0, 0); KEYS_AHEAD], keys: 0 }
    }

    /// Adds a key by its hash.
    pub(crate) fn add(&mut self, hash: (i64, i64)) {
        self.filter.prefetch(hash);
        let place = self.keys % KEYS_AHEAD;
        let before = std::mem::replace(&mut self.waiting[place], hash);
        if self.keys >= KEYS_AHEAD {
            self.filter.add(before);
        }
        self.keys += 1;
    }

    /// The filter with all keys.
    pub(crate) fn finish(mut self) -> Filter {
        let waiting = self.waiting.into_iter().take(self.keys);
        waiting.for_each(|hash| self.filter.add(hash));
        self.filter
    }
}

fn decode(bytes: &[u8], turned: bool) -> Decoded<Filter> {
    let mut cursor = Cursor::new(bytes);
    let hash_count = cursor.i32()?;
    if !(1..=64).contains(&hash_count) {
        return Err(cursor.bad_at(0, "1 to 64 hashes", hash_count.to_string()));
    }
    let count = cursor.count_i32(8)?;
    if count == 0 || cursor.remaining() != count * 8 {
        let expected = format!("{} words", cursor.remaining() / 8);
        return Err(cursor.bad_at(4, expected, count.to_string()));
    }
    let words = cursor.bytes(count * 8)?;
    let words = words.chunks_exact(8).map(|word| {
        let word = u64::from_le_bytes(word.try_into().expect("chunks of eight"));
        if turned { word.swap_bytes() } else { word }
    });
    Ok(Filter::new(hash_count as u32, words.collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_cassandras() {
        assert_eq!(shape(0.01), (5, 10));
        assert_eq!(shape(0.1), (3, 5));
        assert_eq!(shape(0.001), (7, 15));
        assert!(Filter::for_keys(10, 1.0).is_none());
    }

    #[test]
    fn keys_are_found_and_few_others() {
        let mut filter = Filter::for_keys(1000, 0.01).unwrap();
        for key in 0..1000u32 {
            filter.add(base::murmur3(&key.to_be_bytes()));
        }
        let other = filter.encode(Version::Me);
        assert_eq!(Filter::decode(Path::new("Filter.db"), Version::Me, &other).unwrap(), filter);
        assert_ne!(Filter::decode(Path::new("Filter.db"), Version::Na, &other).unwrap(), filter);
        let filter =
            Filter::decode(Path::new("Filter.db"), Version::Nb, &filter.encode(Version::Nb)).unwrap();
        assert!((0..1000u32).all(|key| filter.may_contain(base::murmur3(&key.to_be_bytes()))));
        let wrong =
            (1000..11_000u32).filter(|key| filter.may_contain(base::murmur3(&key.to_be_bytes()))).count();
        assert!(wrong < 200, "{wrong} of 10000");
    }

    #[test]
    fn a_filter_that_is_filled_has_every_key() {
        for count in [0, 1, KEYS_AHEAD - 1, KEYS_AHEAD, KEYS_AHEAD + 1, 1000] {
            let hashes = (0..count as u32).map(|key| base::murmur3(&key.to_be_bytes()));
            let mut expected = Filter::for_keys(1000, 0.01).unwrap();
            let mut filling = Filling::new(expected.clone());
            for hash in hashes {
                expected.add(hash);
                filling.add(hash);
            }
            assert_eq!(filling.finish(), expected, "{count} keys");
        }
    }

    #[test]
    fn probes_are_those_of_the_formula() {
        let mut prng = base::Prng::new(3);
        for round in 0..20_000u64 {
            let words = 1 + prng.below(1 << (round % 24)) as usize;
            let filter = Filter::new(1 + prng.below(20) as u32, vec![0; words]);
            let ends = [i64::MIN, i64::MAX, 0, -1, 1, words as i64 * 64];
            let mut number = || match prng.below(8) {
                0 => ends[prng.below(6) as usize],
                _ => prng.u64() as i64,
            };
            let hash = (number(), number());
            let bits = (0..i64::from(filter.hash_count)).map(|probe| {
                let at = hash.1.wrapping_add(probe.wrapping_mul(hash.0));
                (at % (words as i64 * 64)).unsigned_abs()
            });
            let expected: Vec<_> = bits.map(|bit| ((bit / 64) as usize, 1 << (bit % 64))).collect();
            assert_eq!(
                filter.probes(hash).collect::<Vec<(usize, u64)>>(),
                expected,
                "{hash:?} in {words} words"
            );
        }
    }

    #[test]
    fn truncations_are_refused() {
        let bytes = Filter::for_keys(10, 0.01).unwrap().encode(Version::Nb);
        for size in 0..bytes.len() {
            assert!(Filter::decode(Path::new("Filter.db"), Version::Nb, &bytes[..size]).is_err());
        }
    }
}
