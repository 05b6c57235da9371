//! Hash maps with a fixed hash state, so that a replayed run iterates in the same order.
//!
//! The fixed state means that hostile keys can collide on purpose: bound the size of maps keyed by client bytes.

use foldhash::fast::FixedState as Fold;
use std::hash::BuildHasher;

pub use hashbrown::{hash_map, hash_set};

/// The hash state of every map of the house.
#[derive(Clone, Copy, Debug, Default)]
pub struct FixedState;

impl BuildHasher for FixedState {
    type Hasher = <Fold as BuildHasher>::Hasher;
    fn build_hasher(&self) -> Self::Hasher {
        Fold::with_seed(0x6d65_7373_696e_6121).build_hasher()
    }
}

/// A hash map with deterministic order. Make one with `HashMap::default()`.
pub type HashMap<K, V> = hashbrown::HashMap<K, V, FixedState>;
/// A hash set with deterministic order. Make one with `HashSet::default()`.
pub type HashSet<K> = hashbrown::HashSet<K, FixedState>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_is_a_function_of_the_operations() {
        let make = || {
            let mut map: HashMap<u32, u32> = HashMap::default();
            for i in 0..100 {
                map.insert(i, i);
            }
            map.into_iter().collect::<Vec<_>>()
        };
        assert_eq!(make(), make());
    }
}
