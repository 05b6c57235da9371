//! A cached partition as readers see it, and how much of what they ask for is known.

use super::contents::Contents;
use super::entry::{Cached, Rows, row_of};
use super::known::Known;
use super::single::Single;
use mutation::{Body, Deletion, PartitionView, RangeTombstones, RowRef, Slice};
use schema::Position;
use std::ops::Bound::{Excluded, Included, Unbounded};

/// A cached partition, within one step.
#[derive(Clone, Copy)]
pub(crate) enum CachedView<'c> {
    /// All of it, in one block.
    Single(Single<'c>),
    Parts(CachedParts<'c>),
}

/// A cached partition that may be known in part.
#[derive(Clone, Copy)]
pub(crate) struct CachedParts<'c> {
    pub(super) contents: &'c Contents,
    pub(super) cached: &'c Cached,
}

/// How much of what is asked for is known.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Coverage {
    All,
    /// In reading order up to this position, itself included.
    UpTo(Position),
    Nothing,
}

impl CachedView<'_> {
    /// How much of some slices (disjoint, ascending) is known, in reading order.
    #[inline]
    pub(crate) fn coverage(&self, slices: &[Slice], reversed: bool) -> Coverage {
        match self {
            CachedView::Single(_) => Coverage::All,
            CachedView::Parts(parts) => parts.coverage(slices, reversed),
        }
    }
}

impl CachedParts<'_> {
    fn coverage(&self, slices: &[Slice], reversed: bool) -> Coverage {
        if matches!(self.cached.known, Known::All) {
            return Coverage::All;
        }
        if reversed { self.coverage_backward(slices) } else { self.coverage_forward(slices) }
    }

    fn coverage_forward(&self, slices: &[Slice]) -> Coverage {
        let mut end = None;
        for slice in slices {
            match self.cached.known.forward(slice) {
                Some(None) => continue,
                Some(Some(known_end)) => end = Some(known_end),
                None => end = Some(&slice.start),
            }
            break;
        }
        let Some(end) = end else { return Coverage::All };
        // No place directly before the end has a name, but the last row before it has.
        let mut rows = self.rows(&slices[0].start, Some(end));
        let last = rows.next_back().map(|(_, block)| self.row(block).position);
        last.map_or(Coverage::Nothing, |last| Coverage::UpTo(Position::from_bytes(last)))
    }

    fn coverage_backward(&self, slices: &[Slice]) -> Coverage {
        let mut known_from: Option<&Position> = None;
        for slice in slices.iter().rev() {
            match self.cached.known.backward(slice) {
                Some(None) => known_from = Some(&slice.start),
                Some(Some(start)) => return Coverage::UpTo(start.clone()),
                None => return known_from.cloned().map_or(Coverage::Nothing, Coverage::UpTo),
            }
        }
        Coverage::All
    }
}

impl<'c> CachedParts<'c> {
    fn row(&self, block: u32) -> RowRef<'c> {
        row_of(self.contents.slots.get(block))
    }

    /// Rows at `start <= position < end`: their units and blocks.
    fn rows(
        &self,
        start: &[u8],
        end: Option<&[u8]>,
    ) -> impl DoubleEndedIterator<Item = (u32, u32)> + use<'c> {
        let inverted = end.is_some_and(|end| end <= start);
        let contents = self.contents;
        let (one, many) = match &self.cached.rows {
            _ if inverted => (None, None),
            Rows::None => (None, None),
            Rows::One { unit, block } => {
                let position = self.row(*block).position;
                let inside = position >= start && end.is_none_or(|end| position < end);
                (inside.then_some((*unit, *block)), None)
            }
            Rows::Many(rows) => {
                let end = end.map_or(Unbounded, Excluded);
                let units = rows.range::<[u8], _>((Included(start), end));
                (None, Some(units.map(move |(_, unit)| (*unit, contents.units.get(*unit).block))))
            }
        };
        one.into_iter().chain(many.into_iter().flatten())
    }
}

impl<'c> PartitionView for CachedView<'c> {
    fn deletion(&self) -> Deletion {
        match self {
            CachedView::Single(_) => Deletion::LIVE,
            CachedView::Parts(parts) => parts.cached.deletion,
        }
    }

    fn static_row(&self) -> Option<Body<'_>> {
        let CachedView::Parts(parts) = self else { return None };
        parts.cached.head.as_ref()?.static_row.as_deref().map(Body::Whole)
    }

    fn ranges(&self) -> Option<&RangeTombstones> {
        let CachedView::Parts(parts) = self else { return None };
        let ranges = &parts.cached.head.as_ref()?.ranges;
        (!ranges.is_empty()).then_some(ranges)
    }

    fn rows_between<'v>(
        &'v self,
        start: &[u8],
        end: Option<&[u8]>,
        reversed: bool,
    ) -> impl Iterator<Item = RowRef<'v>> + use<'v, 'c> {
        let inside = |row: &RowRef<'_>| row.position >= start && end.is_none_or(|end| row.position < end);
        let (mut single, mut parts) = match self {
            CachedView::Single(single) => (single.row.filter(inside), None),
            CachedView::Parts(parts) => (None, Some((parts.contents, parts.rows(start, end)))),
        };
        std::iter::from_fn(move || {
            let Some((contents, rows)) = &mut parts else { return single.take() };
            let (unit, block) = if reversed { rows.next_back()? } else { rows.next()? };
            contents.units.hit(unit);
            Some(row_of(contents.slots.get(block)))
        })
    }
}
