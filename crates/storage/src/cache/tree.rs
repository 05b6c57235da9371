//! A tree of positions that counts the bytes which these keep outside of it.

use schema::Position;
use std::collections::BTreeMap;
use std::ops::Deref;

/// What an allocation takes besides what is asked for, roughly.
const ALLOCATION_BYTES: usize = 16;

/// What a tree keeps by position.
pub(crate) trait Value {
    /// Bytes it keeps outside of itself.
    fn outside_bytes(&self) -> usize;
}

impl Value for u32 {
    fn outside_bytes(&self) -> usize {
        0
    }
}

impl Value for Position {
    fn outside_bytes(&self) -> usize {
        match self.heap_bytes() {
            0 => 0,
            bytes => bytes + ALLOCATION_BYTES,
        }
    }
}

/// A tree by position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tree<V> {
    map: BTreeMap<Position, V>,
    outside_bytes: usize,
}

impl<V> Default for Tree<V> {
    fn default() -> Tree<V> {
        Tree { map: BTreeMap::new(), outside_bytes: 0 }
    }
}

impl<V> Deref for Tree<V> {
    type Target = BTreeMap<Position, V>;

    fn deref(&self) -> &BTreeMap<Position, V> {
        &self.map
    }
}

impl<V: Value> Tree<V> {
    /// Bytes that positions and values keep outside of the tree.
    pub(crate) fn outside_bytes(&self) -> usize {
        self.outside_bytes
    }

    /// Adds a place where there is none.
    pub(crate) fn insert(&mut self, position: Position, value: V) {
        self.outside_bytes += position.outside_bytes() + value.outside_bytes();
        let old = self.map.insert(position, value);
        assert!(old.is_none(), "a place is added once");
    }

    /// Takes a place out.
    pub(crate) fn remove(&mut self, position: &Position) -> Option<V> {
        let (position, value) = self.map.remove_entry(position)?;
        self.outside_bytes -= position.outside_bytes() + value.outside_bytes();
        Some(value)
    }
}

#[cfg(test)]
impl<V: Value> Tree<V> {
    /// What [`Tree::outside_bytes`] must say.
    pub(crate) fn counted_bytes(&self) -> usize {
        self.map.iter().map(|(position, value)| position.outside_bytes() + value.outside_bytes()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Prng;

    #[test]
    fn long_positions_are_counted_and_short_ones_take_no_more_than_the_tree() {
        let mut prng = Prng::new(7);
        let mut tree = Tree::<Position>::default();
        let place = |number: u64| Position::from_bytes(vec![number as u8; 1 + number as usize * 3]);
        for _ in 0..2_000 {
            let at = place(prng.below(40));
            if tree.remove(&at).is_none() {
                tree.insert(at, place(prng.below(40)));
            }
            assert_eq!(tree.outside_bytes(), tree.counted_bytes());
        }
        let (mut short, mut long) = (Tree::<u32>::default(), Tree::<u32>::default());
        short.insert(place(1), 0);
        long.insert(Position::from_bytes([1; 200]), 0);
        assert_eq!(short.outside_bytes(), 0);
        assert!(long.outside_bytes() >= 200);
    }
}
