//! Which shard of a node owns a token: each shard one contiguous interval of the ring, of equal width.

use crate::token::Token;

/// The shard that owns a token when the node has `shards` shards. O(1).
pub fn shard_of(token: Token, shards: u16) -> u16 {
    assert!(shards > 0, "a node has at least one shard");
    let distance = (token.0 as u64) ^ (1 << 63);
    ((u128::from(distance) * u128::from(shards)) >> 64) as u16
}

/// First and last token of a shard, both inclusive; the inverse of [`shard_of`].
pub fn shard_interval(shard: u16, shards: u16) -> (Token, Token) {
    assert!(shard < shards, "shard {shard} of {shards}");
    let first = first_distance(shard, shards);
    let last = if shard + 1 == shards { u64::MAX } else { first_distance(shard + 1, shards) - 1 };
    (Token((first ^ (1 << 63)) as i64), Token((last ^ (1 << 63)) as i64))
}

/// Smallest distance d from the start of the ring with `d * shards >> 64 == shard`.
fn first_distance(shard: u16, shards: u16) -> u64 {
    (u128::from(shard) << 64).div_ceil(u128::from(shards)) as u64
}

/// The shards of a node of `shards` that own a token in `first..=last`.
pub fn shards_of_interval(first: Token, last: Token, shards: u16) -> std::ops::RangeInclusive<u16> {
    shard_of(first, shards)..=shard_of(last, shards)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prng::Prng;

    #[test]
    fn intervals_cover_the_ring_without_gap() {
        for shards in [1u16, 2, 3, 5, 7, 8, 64, 100, 4095] {
            let mut next = i64::MIN;
            for shard in 0..shards {
                let (first, last) = shard_interval(shard, shards);
                assert_eq!(first.0, next, "{shard} of {shards}");
                assert_eq!(shard_of(first, shards), shard);
                assert_eq!(shard_of(last, shards), shard);
                next = last.0.wrapping_add(1);
            }
            assert_eq!(next, i64::MIN, "the last interval ends where the ring ends");
        }
    }

    #[test]
    fn a_token_is_owned_by_the_shard_of_its_interval() {
        let mut prng = Prng::new(1);
        for _ in 0..10_000 {
            let shards = 1 + prng.below(300) as u16;
            let token = Token(prng.u64() as i64);
            let (first, last) = shard_interval(shard_of(token, shards), shards);
            assert!(first <= token && token <= last);
        }
    }
}
