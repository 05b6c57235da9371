//! The range tombstones of one partition: sorted, never overlapping, each with one deletion.

use crate::deletion::Deletion;
use crate::error::Error;
use schema::{BoundSide, Position, Table};
use std::collections::BTreeMap;

/// One end of a range tombstone as written: a clustering prefix (wire form) and a side.
/// A start on side `Before` is inclusive, on `After` exclusive; an end the other way round. No components: open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bound {
    /// Clustering prefix in wire form.
    pub prefix: Box<[u8]>,
    /// Side of everything that extends the prefix.
    pub side: BoundSide,
}

impl Bound {
    /// A bound from its parts.
    pub fn new(prefix: &[u8], side: BoundSide) -> Bound {
        Bound { prefix: prefix.into(), side }
    }

    /// Where it sorts.
    pub fn position(&self, table: &Table) -> Result<Position, Error> {
        Ok(table.bound_position(&self.prefix, self.side)?)
    }
}

/// Deletes every row of its partition between two bounds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RangeTombstone {
    /// First bound.
    pub start: Bound,
    /// Last bound.
    pub end: Bound,
    /// What it deletes.
    pub deletion: Deletion,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Interval {
    start: Bound,
    end_at: Position,
    end: Bound,
    deletion: Deletion,
}

/// Disjoint intervals by start. Insert and lookup O(log n) plus the intervals overlapped.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RangeTombstones {
    intervals: BTreeMap<Position, Interval>,
}

impl RangeTombstones {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.intervals.is_empty()
    }

    /// How many disjoint intervals there are.
    pub fn len(&self) -> usize {
        self.intervals.len()
    }

    /// Adds one. Where it overlaps others the superseding deletion stays. An empty or inverted range adds nothing.
    /// Errors when a bound does not fit the table.
    pub fn add(&mut self, table: &Table, tombstone: RangeTombstone) -> Result<(), Error> {
        let start_at = tombstone.start.position(table)?;
        let end_at = tombstone.end.position(table)?;
        if start_at < end_at {
            self.insert(start_at.clone(), end_at.clone(), tombstone);
            self.join(&start_at, &end_at);
        }
        Ok(())
    }

    fn insert(&mut self, start_at: Position, end_at: Position, tombstone: RangeTombstone) {
        let RangeTombstone { start, end, deletion } = tombstone;
        let overlapped = self.take_overlapped(&start_at, &end_at);
        // What of the new range is not yet placed begins here.
        let mut open = (start_at.clone(), start);
        for (old_at, old) in overlapped {
            if old.deletion.supersedes(deletion) || old.deletion == deletion {
                if open.0 < old_at {
                    let piece = Interval {
                        start: open.1.clone(),
                        end_at: old_at.clone(),
                        end: old.start.clone(),
                        deletion,
                    };
                    self.intervals.insert(open.0.clone(), piece);
                }
                open = (old.end_at.clone(), old.end.clone());
                self.intervals.insert(old_at, old);
            } else {
                self.keep_outside(old_at, old, (&start_at, &open), (&end_at, &end));
            }
        }
        if open.0 < end_at {
            self.intervals.insert(open.0, Interval { start: open.1, end_at, end, deletion });
        }
    }

    /// Joins touching intervals of one deletion around a range just changed, so that equal content has one form.
    fn join(&mut self, start_at: &Position, end_at: &Position) {
        let before = self.intervals.range::<Position, _>(..start_at).next_back();
        let from = before.map_or(start_at, |(at, _)| at);
        let near = self.intervals.range::<Position, _>(from..=end_at);
        let places: Vec<Position> = near.map(|(at, _)| at.clone()).collect();
        let mut open: Option<Position> = None;
        for at in places {
            let same = |i: &Interval, j: &Interval| i.end_at == at && i.deletion == j.deletion;
            let joins = open.as_ref().is_some_and(|o| same(&self.intervals[o], &self.intervals[&at]));
            if !joins {
                open = Some(at);
                continue;
            }
            let right = self.intervals.remove::<Position>(&at);
            let left = open.as_ref().and_then(|o| self.intervals.get_mut::<Position>(o));
            if let (Some(left), Some(right)) = (left, right) {
                left.end_at = right.end_at;
                left.end = right.end;
            }
        }
    }

    fn take_overlapped(&mut self, start_at: &Position, end_at: &Position) -> Vec<(Position, Interval)> {
        let mut keys: Vec<Position> = Vec::new();
        if let Some((at, interval)) = self.intervals.range::<Position, _>(..start_at).next_back()
            && interval.end_at > *start_at
        {
            keys.push(at.clone());
        }
        keys.extend(self.intervals.range::<Position, _>(start_at..end_at).map(|(at, _)| at.clone()));
        keys.into_iter().filter_map(|at| self.intervals.remove_entry::<Position>(&at)).collect()
    }

    /// Puts back what of a losing interval lies before and behind the new range.
    fn keep_outside(
        &mut self,
        old_at: Position,
        old: Interval,
        start: (&Position, &(Position, Bound)),
        end: (&Position, &Bound),
    ) {
        if old.end_at > *end.0 {
            let right = Interval { start: end.1.clone(), ..old.clone() };
            self.intervals.insert(end.0.clone(), right);
        }
        if old_at < *start.0 {
            // Only the first overlapped interval can begin before the new range, so `open` is still its start.
            let left = Interval { end_at: start.0.clone(), end: start.1.1.clone(), ..old };
            self.intervals.insert(old_at, left);
        }
    }

    /// The deletion that covers a row's position; LIVE when none does.
    pub fn covering(&self, position: &[u8]) -> Deletion {
        use std::ops::Bound::{Included, Unbounded};
        match self.intervals.range::<[u8], _>((Unbounded, Included(position))).next_back() {
            Some((_, interval)) if interval.end_at.as_bytes() > position => interval.deletion,
            _ => Deletion::LIVE,
        }
    }

    /// All of them in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = RangeTombstone> + '_ {
        self.intervals.values().map(|i| RangeTombstone {
            start: i.start.clone(),
            end: i.end.clone(),
            deletion: i.deletion,
        })
    }

    /// Those that overlap `start <= p < end`, in order, with their positions: (start, end, tombstone).
    pub fn overlapping(
        &self,
        start: &[u8],
        end: &[u8],
    ) -> impl DoubleEndedIterator<Item = (Position, Position, RangeTombstone)> + '_ {
        use std::ops::Bound::{Excluded, Included, Unbounded};
        let first = self.intervals.range::<[u8], _>((Unbounded, Excluded(start))).next_back();
        let first = first.filter(|(_, i)| i.end_at.as_bytes() > start);
        let empty = start >= end;
        let rest = (!empty).then(|| self.intervals.range::<[u8], _>((Included(start), Excluded(end))));
        first.filter(|_| !empty).into_iter().chain(rest.into_iter().flatten()).map(|(at, i)| {
            let tombstone =
                RangeTombstone { start: i.start.clone(), end: i.end.clone(), deletion: i.deletion };
            (at.clone(), i.end_at.clone(), tombstone)
        })
    }
}
