//! A partition of a memtable as readers look at it, where it lies.

use super::contents::{Contents, Few, Head, Kind, More};
use super::rows::{Record, Stored, position, u32_at};
use super::tree::Spot;
use crate::limits::PREFETCHED_BYTES;
use base::prefetch;
use mutation::{Body, Deletion, PartitionView, RangeTombstones, RowRef};

/// A partition in memory. Cheap to copy; no part of it is.
#[derive(Clone, Copy)]
pub(crate) struct MemoryPartition<'m> {
    contents: &'m Contents,
    key: &'m [u8],
    more: Option<&'m More>,
    rows: RowsOf<'m>,
}

#[derive(Clone, Copy)]
enum RowsOf<'m> {
    One(&'m [u8]),
    Few(Few<'m>),
    Many(u32),
}

impl Contents {
    /// The partition of a handle.
    #[inline]
    pub(crate) fn partition(&self, handle: u32) -> MemoryPartition<'_> {
        let bytes = self.region.at(handle);
        let Head { kind, key, more, rows_at } = Head::read(bytes);
        let rows = match kind {
            Kind::One => RowsOf::One(&bytes[rows_at..]),
            Kind::Few => RowsOf::Few(Few::read(&bytes[rows_at..])),
            Kind::Many => RowsOf::Many(u32_at(bytes, rows_at)),
        };
        MemoryPartition { contents: self, key, more: more.map(|more| self.more.get(more)), rows }
    }

    /// Has the first bytes of partitions come into the processor's caches. Whoever looks at one after the other waits for each
    /// otherwise: they lie in the order in which they were written.
    pub(crate) fn prefetch_partitions(&self, handles: impl Iterator<Item = u32>) {
        handles.for_each(|handle| prefetch(self.region.at(handle), PREFETCHED_BYTES));
    }

    fn body<'m>(&'m self, stored: Stored<'m>) -> Body<'m> {
        match stored {
            Stored::Whole(body) => Body::Whole(body),
            Stored::Large(place) => Body::Pieces(self.large.get(place)),
        }
    }

    #[inline]
    fn row_ref<'m>(&'m self, bytes: &'m [u8]) -> RowRef<'m> {
        let Record { position, clustering, body, .. } = Record::read(bytes);
        RowRef { position, clustering, body: self.body(body) }
    }
}

impl<'m> MemoryPartition<'m> {
    /// Its key.
    pub(crate) fn key(&self) -> &'m [u8] {
        self.key
    }

    /// How many rows it has, dead ones included.
    pub(crate) fn row_count(&self) -> u64 {
        match self.rows {
            RowsOf::One(_) => 1,
            RowsOf::Few(few) => few.len() as u64,
            RowsOf::Many(tree) => self.contents.trees.rows(tree),
        }
    }

    /// A timestamp that nothing in it is older than. O(1) but for the cells of up to 16 rows.
    pub(crate) fn min_timestamp(&self) -> i64 {
        let contents = self.contents;
        let rows = match self.rows {
            RowsOf::One(bytes) => contents.oldest_of(Record::read(bytes).body),
            RowsOf::Few(few) => {
                let rows = (0..few.len()).map(|at| contents.oldest_of_row(few.handle(at)));
                rows.min().unwrap_or(i64::MAX)
            }
            RowsOf::Many(tree) => contents.trees.oldest(tree),
        };
        self.more.map_or(rows, |more| more.oldest.min(rows))
    }

    /// About how many cells the first of its rows have, how many rows those were, and cells of the static row.
    pub(crate) fn cells(&self, rows: usize) -> (u64, u64, u64) {
        let cells = |stored| match stored {
            Stored::Whole(body) => cells_of(body),
            Stored::Large(place) => self.contents.large.get(place).cells(),
        };
        let (mut some, mut walked) = (0, 0);
        for bytes in self.bytes_between(&[], None, Direction::Forward).take(rows) {
            some += cells(Record::read(bytes).body);
            walked += 1;
        }
        let fixed = self.more.and_then(|more| more.static_row);
        let fixed = fixed.map_or(0, |row| cells(Record::read(self.contents.region.at(row)).body));
        (some, walked, fixed)
    }

    fn bytes_between(&self, start: &[u8], end: Option<&[u8]>, direction: Direction) -> MemoryRows<'m> {
        let contents = self.contents;
        let position_of = |row: u32| position(contents.region.at(row));
        let left = match self.rows {
            _ if end.is_some_and(|end| end <= start) => Left::None,
            RowsOf::One(bytes) => {
                let at = position(bytes);
                let inside = start <= at && end.is_none_or(|end| at < end);
                if inside { Left::One(bytes) } else { Left::None }
            }
            RowsOf::Few(few) => {
                let at = |position: &[u8]| few.seek(&contents.region, position).0;
                let from = if start.is_empty() { 0 } else { at(start) };
                Left::Few(few, from, end.map_or(few.len(), at))
            }
            RowsOf::Many(tree) => {
                let trees = &contents.trees;
                let at = |position: &[u8]| trees.seek(tree, position, position_of).0;
                let from = if start.is_empty() { trees.first(tree) } else { at(start) };
                Left::Many(from, end.map_or_else(|| trees.last(tree), at))
            }
        };
        MemoryRows { contents, left, direction }
    }
}

fn cells_of(body: &[u8]) -> u64 {
    let count = |column| match column {
        mutation::ColumnView::Simple(_) => 1,
        mutation::ColumnView::Complex(complex) => complex.cells().count() as u64,
    };
    mutation::RowView::new(body).columns().map(|(_, column)| count(column)).sum()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Forward,
    Backward,
}

/// Rows that were not given yet.
enum Left<'m> {
    None,
    One(&'m [u8]),
    Few(Few<'m>, usize, usize),
    Many(Spot, Spot),
}

/// Rows of a partition in order, where they lie. O(1) each.
pub(crate) struct MemoryRows<'m> {
    contents: &'m Contents,
    left: Left<'m>,
    direction: Direction,
}

impl<'m> Iterator for MemoryRows<'m> {
    type Item = &'m [u8];

    #[inline]
    fn next(&mut self) -> Option<&'m [u8]> {
        let forward = self.direction == Direction::Forward;
        let row = match &mut self.left {
            Left::None => return None,
            Left::One(bytes) => {
                let bytes = *bytes;
                self.left = Left::None;
                return Some(bytes);
            }
            Left::Few(_, from, to) if from == to => return None,
            Left::Few(few, from, _) if forward => {
                *from += 1;
                few.handle(*from - 1)
            }
            Left::Few(few, _, to) => {
                *to -= 1;
                few.handle(*to)
            }
            Left::Many(from, to) if from == to => return None,
            Left::Many(from, _) if forward => {
                let (row, next) = self.contents.trees.next(*from);
                *from = next;
                row
            }
            Left::Many(_, to) => {
                let (row, before) = self.contents.trees.previous(*to);
                *to = before;
                row
            }
        };
        Some(self.contents.region.at(row))
    }
}

impl<'m> PartitionView for MemoryPartition<'m> {
    fn deletion(&self) -> Deletion {
        self.more.map_or(Deletion::LIVE, |more| more.deletion)
    }

    fn static_row(&self) -> Option<Body<'_>> {
        let row = self.more?.static_row?;
        Some(self.contents.body(Record::read(self.contents.region.at(row)).body))
    }

    fn ranges(&self) -> Option<&RangeTombstones> {
        self.more?.ranges.as_deref().filter(|ranges| !ranges.is_empty())
    }

    fn rows_between<'v>(
        &'v self,
        start: &[u8],
        end: Option<&[u8]>,
        reversed: bool,
    ) -> impl Iterator<Item = RowRef<'v>> + use<'v, 'm> {
        let contents = self.contents;
        let direction = if reversed { Direction::Backward } else { Direction::Forward };
        self.bytes_between(start, end, direction).map(move |bytes| contents.row_ref(bytes))
    }
}
