//! Which part of a partition is known: every row in it is there, and rows that are not there do not exist.

use super::tree::Tree;
use mutation::Slice;
use schema::Position;
use std::ops::Bound::{Included, Unbounded};

/// Disjoint, not touching intervals `start <= p < end`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// All of the partition: the most frequent case, which costs no tree.
    All,
    /// Boxed: most partitions are known completely and should be small.
    Some(Box<Tree<Position>>),
}

/// Memory of one interval beside what its ends keep elsewhere, roughly.
const INTERVAL_BYTES: usize = 80;

impl Known {
    pub(crate) fn nothing() -> Known {
        Known::Some(Box::default())
    }

    pub(crate) fn is_nothing(&self) -> bool {
        matches!(self, Known::Some(intervals) if intervals.is_empty())
    }

    /// Bytes of memory, roughly.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Known::All => 0,
            Known::Some(intervals) => intervals.len() * INTERVAL_BYTES + intervals.outside_bytes(),
        }
    }

    /// The interval around a position: its start and its end, where there is one.
    fn around(&self, position: &[u8]) -> Option<(&Position, &Position)> {
        let Known::Some(intervals) = self else { return None };
        let before = intervals.range::<[u8], _>((Unbounded, Included(position))).next_back();
        before.filter(|(_, end)| end.as_bytes() > position)
    }

    /// Whether a position is known.
    pub(crate) fn contains(&self, position: &[u8]) -> bool {
        matches!(self, Known::All) || self.around(position).is_some()
    }

    /// From the start of a slice on: up to where it is known. `None`: not even the start is. `Some(None)`: all of it.
    pub(crate) fn forward(&self, slice: &Slice) -> Option<Option<&Position>> {
        if matches!(self, Known::All) || slice.end <= slice.start {
            return Some(None);
        }
        let (_, end) = self.around(&slice.start)?;
        Some((*end < slice.end).then_some(end))
    }

    /// From the end of a slice down: where what is known begins. `None` and `Some(None)` as in [`Known::forward`].
    pub(crate) fn backward(&self, slice: &Slice) -> Option<Option<&Position>> {
        let Known::Some(intervals) = self else { return Some(None) };
        if slice.end <= slice.start {
            return Some(None);
        }
        let before = intervals.range::<Position, _>(..&slice.end).next_back();
        let (start, _) = before.filter(|(_, end)| **end >= slice.end)?;
        Some((slice.start < *start).then_some(start))
    }

    /// Makes an interval known.
    pub(crate) fn add(&mut self, start: &Position, end: &Position) {
        let Known::Some(intervals) = self else { return };
        if end <= start {
            return;
        }
        if *start <= Position::bottom() && Position::top() <= *end {
            *self = Known::All;
            return;
        }
        let (mut start, mut end) = (start.clone(), end.clone());
        let before = intervals.range::<Position, _>(..&start).next_back();
        if let Some((first, last)) = before.filter(|(_, last)| **last >= start) {
            end = end.max(last.clone());
            start = first.clone();
        }
        while let Some((first, last)) = intervals.range::<Position, _>(&start..=&end).next() {
            let first = first.clone();
            end = end.max(last.clone());
            intervals.remove(&first);
        }
        intervals.insert(start, end);
    }

    /// Makes a place unknown, and with it everything to the nearest row on each side, so that intervals without a row to
    /// hold them do not pile up. `before` is the row before it, `next` the one behind it.
    pub(crate) fn cut(&mut self, position: &[u8], before: Option<&[u8]>, next: Option<&[u8]>) {
        if matches!(self, Known::All) {
            let mut whole = Tree::default();
            whole.insert(Position::bottom(), Position::top());
            *self = Known::Some(Box::new(whole));
        }
        let Some((start, end)) = self.around(position).map(|(start, end)| (start.clone(), end.clone()))
        else {
            return;
        };
        let Known::Some(intervals) = self else { return };
        intervals.remove(&start);
        if let Some(before) = before.filter(|before| *before >= start.as_bytes()) {
            intervals.insert(start, Position::from_bytes(before).successor());
        }
        if let Some(next) = next.filter(|next| *next < end.as_bytes()) {
            intervals.insert(Position::from_bytes(next), end);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Prng;

    /// Odd places lie directly behind even ones.
    fn at(place: u64) -> Position {
        let position = Position::from_bytes([0x40, (place / 2) as u8]);
        if place.is_multiple_of(2) { position } else { position.successor() }
    }

    /// Places 0 to 31 against a list of flags; rows stand at every fourth.
    #[test]
    fn agrees_with_a_list_of_flags() {
        for seed in 0..500 {
            let mut prng = Prng::new(seed);
            let mut known = Known::nothing();
            let mut flags = [false; 33];
            for _ in 0..30 {
                let (a, b) = (prng.below(32), prng.below(33));
                if prng.chance(0.6) {
                    known.add(&at(a), &at(b));
                    (a..b.max(a)).for_each(|place| flags[place as usize] = true);
                } else {
                    // A row that is there goes: unknown up to its neighbours, where they are known without a gap.
                    let row = a / 4 * 4;
                    let whole = |from: u64, to: u64| (from..=to).all(|place| flags[place as usize]);
                    let before = row.checked_sub(4);
                    let next = (row + 4 < 32).then_some(row + 4);
                    if !flags[row as usize] {
                        continue;
                    }
                    let bytes = |place: Option<u64>| place.map(|place| at(place).as_bytes().to_vec());
                    known.cut(&at(row), bytes(before).as_deref(), bytes(next).as_deref());
                    let (kept_before, kept_next) =
                        (before.filter(|b| whole(*b, row)), next.filter(|n| whole(row, *n)));
                    let mut place = row;
                    while flags[place as usize] && kept_before.is_none_or(|before| place > before) {
                        flags[place as usize] = false;
                        if place == 0 {
                            break;
                        }
                        place -= 1;
                    }
                    let mut place = row + 1;
                    while place < 32 && flags[place as usize] && kept_next.is_none_or(|next| place < next) {
                        flags[place as usize] = false;
                        place += 1;
                    }
                }
                for place in 0..32 {
                    assert_eq!(known.contains(&at(place)), flags[place as usize], "seed {seed} at {place}");
                }
                let slice = Slice { start: at(a), end: at(b) };
                if a < b {
                    let end = (a..b).find(|place| !flags[*place as usize]);
                    let forward = known.forward(&slice);
                    assert_eq!(forward.is_none(), end == Some(a), "seed {seed}");
                    if let (Some(found), Some(end)) = (forward, end.filter(|end| *end > a)) {
                        assert!(
                            found.is_some_and(|found| *found > at(end - 1) && *found <= at(end)),
                            "seed {seed}"
                        );
                    }
                    let start = (a..b).rev().find(|place| !flags[*place as usize]);
                    assert_eq!(known.backward(&slice) == Some(None), start.is_none(), "seed {seed}");
                }
            }
        }
    }
}
