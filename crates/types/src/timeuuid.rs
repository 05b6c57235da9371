//! Version 1 UUIDs: made from a clock, and back to their time.

use uuid::Uuid;

/// 100 ns ticks from 1582-10-15, where UUID time starts, to 1970-01-01.
const EPOCH_TICKS: u64 = 0x01B2_1DD2_1381_4000;
const LOW_MIN: u64 = 0x8080_8080_8080_8080;
const LOW_MAX: u64 = 0x7F7F_7F7F_7F7F_7F7F;

/// Puts a time (100 ns ticks since the Unix epoch) and a low half together. The variant bits of `low` are left as they are.
fn compose(unix_ticks: i64, low: u64) -> Uuid {
    let ticks = (unix_ticks as u64).wrapping_add(EPOCH_TICKS) & 0x0FFF_FFFF_FFFF_FFFF;
    let high = ticks << 32 | (ticks >> 16 & 0xFFFF_0000) | 0x1000 | ticks >> 48;
    Uuid::from_u64_pair(high, low)
}

/// A version 1 UUID of a time in 100 ns ticks since the Unix epoch and a node: 14 bits of clock sequence, 48 of node.
pub fn from_ticks(unix_ticks: i64, node: u64) -> Uuid {
    compose(unix_ticks, node & 0x3FFF_FFFF_FFFF_FFFF | 1 << 63)
}

/// Ticks of 100 ns since the Unix epoch of a version 1 UUID; `None` for other versions.
pub fn unix_ticks(id: &Uuid) -> Option<i64> {
    let (high, _) = id.as_u64_pair();
    if high >> 12 & 0xF != 1 {
        return None;
    }
    let ticks = crate::order::time_order(high) & 0x0FFF_FFFF_FFFF_FFFF;
    Some(ticks.wrapping_sub(EPOCH_TICKS) as i64)
}

/// Milliseconds since the Unix epoch of a version 1 UUID.
pub fn unix_ms(id: &Uuid) -> Option<i64> {
    unix_ticks(id).map(|ticks| ticks.div_euclid(10_000))
}

/// Ticks since 1582 are 60 bits.
const TICKS_MAX: i128 = (1 << 60) - 1;

fn of_ms(ms: i64, extra_ticks: i64, low: u64) -> Option<Uuid> {
    let ticks = i128::from(ms) * 10_000 + i128::from(extra_ticks);
    let since_1582 = ticks + i128::from(EPOCH_TICKS);
    if !(0..=TICKS_MAX).contains(&since_1582) {
        return None;
    }
    i64::try_from(ticks).ok().map(|ticks| compose(ticks, low))
}

/// The smallest timeuuid of a millisecond: `minTimeuuid`. `None` outside of 1582-10-15 to 5236-03-31, which is all that a
/// timeuuid can hold.
pub fn min_of_ms(ms: i64) -> Option<Uuid> {
    of_ms(ms, 0, LOW_MIN)
}

/// The largest timeuuid of a millisecond: `maxTimeuuid`. `None` as for the smallest.
pub fn max_of_ms(ms: i64) -> Option<Uuid> {
    of_ms(ms, 9_999, LOW_MAX)
}

/// Makes timeuuids that always grow, whatever the clock does. One per shard; `node` must differ between shards and nodes.
#[derive(Clone, Debug)]
pub struct Source {
    node: u64,
    last_ticks: i64,
}

impl Source {
    /// A source with this node number (62 bits used).
    pub fn new(node: u64) -> Source {
        Source { node, last_ticks: i64::MIN }
    }

    /// The next id, at the given time in microseconds since the Unix epoch or just after the last one.
    pub fn next(&mut self, unix_micros: i64) -> Uuid {
        let wanted = unix_micros.saturating_mul(10);
        self.last_ticks = wanted.max(self.last_ticks.saturating_add(1));
        from_ticks(self.last_ticks, self.node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CqlType;
    use proptest::prelude::*;
    use std::cmp::Ordering;

    #[test]
    fn time_goes_in_and_comes_out() {
        let ticks = 16_000_000_000_000_001;
        let id = from_ticks(ticks, 77);
        assert_eq!(id.get_version_num(), 1);
        assert_eq!(unix_ticks(&id), Some(ticks));
        assert_eq!(CqlType::Timeuuid.validate(id.as_bytes()), Ok(()));
        assert_eq!(unix_ticks(&Uuid::from_u128(0x4000 << 64)), None);
    }

    #[test]
    fn order_follows_time() {
        let mut source = Source::new(5);
        let mut last = source.next(1_000);
        for _ in 0..100 {
            let next = source.next(1_000);
            let order = CqlType::Timeuuid.compare(last.as_bytes(), next.as_bytes());
            assert_eq!(order, Ordering::Less);
            last = next;
        }
        let id = from_ticks(50_000_123, 3);
        let ms = unix_ms(&id).expect("version 1");
        let (min, max) = (min_of_ms(ms).expect("in range"), max_of_ms(ms).expect("in range"));
        for (low, high) in [(min, id), (id, max)] {
            assert_eq!(CqlType::Timeuuid.compare(low.as_bytes(), high.as_bytes()), Ordering::Less);
        }
    }

    const FIRST_MS: i64 = -12_219_292_800_000;
    /// The last millisecond that is held whole; of the next there are only the first ticks.
    const LAST_MS: i64 = 103_072_857_660_683;

    #[test]
    fn times_beyond_a_timeuuid_have_none() {
        for ms in [FIRST_MS, FIRST_MS + 1, -1, 0, 1, LAST_MS] {
            for id in [min_of_ms(ms), max_of_ms(ms)] {
                assert_eq!(id.and_then(|id| unix_ms(&id)), Some(ms), "{ms}");
            }
        }
        for ms in [FIRST_MS - 1, LAST_MS + 2, i64::MIN, i64::MAX, 253_402_214_400_000, -62_135_596_800_000] {
            assert_eq!((min_of_ms(ms), max_of_ms(ms)), (None, None), "{ms}");
        }
    }

    proptest! {
        #[test]
        fn a_time_comes_back_or_has_no_timeuuid(ms in any::<i64>(), shift in 0u32..64) {
            let ms = ms >> shift;
            for (id, last) in [(min_of_ms(ms), LAST_MS + 1), (max_of_ms(ms), LAST_MS)] {
                let fits = (FIRST_MS..=last).contains(&ms);
                prop_assert_eq!(id.and_then(|id| unix_ms(&id)), fits.then_some(ms));
            }
        }
    }
}
