//! A partition as readers look at it, wherever it is kept: in a memtable, in the row cache, or as merged objects.
//!
//! A view is read within one step and then let go: what it borrows may be overwritten by the next write.

use crate::deletion::Deletion;
use crate::partition::Partition;
use crate::ranges::RangeTombstones;

/// A packed row that is kept in several places, because it is large.
pub trait Pieces {
    /// Bytes of the packed row.
    fn size(&self) -> usize;
    /// Appends the packed row.
    fn write(&self, out: &mut Vec<u8>);
}

/// A packed row where it lies.
#[derive(Clone, Copy)]
pub enum Body<'a> {
    /// In one place, as nearly all are.
    Whole(&'a [u8]),
    /// In several.
    Pieces(&'a dyn Pieces),
}

impl<'a> Body<'a> {
    /// Its bytes in one place: where they lie, or put together in `scratch`.
    #[inline]
    pub fn whole<'s>(self, scratch: &'s mut Vec<u8>) -> &'s [u8]
    where
        'a: 's,
    {
        match self {
            Body::Whole(bytes) => bytes,
            Body::Pieces(pieces) => {
                scratch.clear();
                pieces.write(scratch);
                scratch
            }
        }
    }

    /// Appends its bytes.
    pub fn write(self, out: &mut Vec<u8>) {
        match self {
            Body::Whole(bytes) => out.extend_from_slice(bytes),
            Body::Pieces(pieces) => pieces.write(out),
        }
    }

    /// How many bytes it has.
    #[inline]
    pub fn size(self) -> usize {
        match self {
            Body::Whole(bytes) => bytes.len(),
            Body::Pieces(pieces) => pieces.size(),
        }
    }
}

impl std::fmt::Debug for Body<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut bytes = Vec::new();
        self.write(&mut bytes);
        f.debug_tuple("Body").field(&bytes).finish()
    }
}

/// One row where it lies.
#[derive(Clone, Copy, Debug)]
pub struct RowRef<'a> {
    /// Where it sorts.
    pub position: &'a [u8],
    /// Clustering key in wire form.
    pub clustering: &'a [u8],
    /// Packed row.
    pub body: Body<'a>,
}

impl RowRef<'_> {
    /// Bytes of its parts.
    pub fn size(&self) -> usize {
        self.position.len() + self.clustering.len() + self.body.size()
    }
}

/// What is known about one partition, read in place.
pub trait PartitionView {
    /// The partition tombstone.
    fn deletion(&self) -> Deletion;

    /// Packed static row.
    fn static_row(&self) -> Option<Body<'_>>;

    /// Range tombstones, if there are any.
    fn ranges(&self) -> Option<&RangeTombstones>;

    /// Rows at `start <= position < end`, descending when `reversed`; `None` is no end. O(log rows) to begin, then O(1) for
    /// each row.
    fn rows_between<'v>(
        &'v self,
        start: &[u8],
        end: Option<&[u8]>,
        reversed: bool,
    ) -> impl Iterator<Item = RowRef<'v>> + use<'v, Self>;

    /// The deletion that covers a row from outside it: partition or range, whichever wins.
    fn covering(&self, position: &[u8]) -> Deletion {
        let of_ranges = self.ranges().map_or(Deletion::LIVE, |ranges| ranges.covering(position));
        self.deletion().max(of_ranges)
    }
}

impl PartitionView for Partition {
    fn deletion(&self) -> Deletion {
        self.deletion
    }

    fn static_row(&self) -> Option<Body<'_>> {
        self.static_row.as_deref().map(Body::Whole)
    }

    fn ranges(&self) -> Option<&RangeTombstones> {
        (!self.ranges.is_empty()).then_some(&self.ranges)
    }

    fn rows_between<'v>(
        &'v self,
        start: &[u8],
        end: Option<&[u8]>,
        reversed: bool,
    ) -> impl Iterator<Item = RowRef<'v>> + use<'v> {
        let mut rows = Partition::rows_between(self, start, end);
        std::iter::from_fn(move || {
            let (position, row) = if reversed { rows.next_back()? } else { rows.next()? };
            Some(RowRef { position, clustering: row.clustering(), body: Body::Whole(row.body()) })
        })
    }
}
