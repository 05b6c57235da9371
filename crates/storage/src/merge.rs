//! Putting the parts of one partition together: what memtables hold, what is cached, what sstables said. No I/O.

use crate::Error;
use crate::cache::CachedView;
use crate::memtable::MemoryView;
use mutation::{Body, Deletion, Partition, PartitionView, RangeTombstones, RowRef, Slice};
use schema::{Position, Table};
use sstable::SourceSlice;

/// What is asked of each source.
#[derive(Clone, Copy)]
pub(crate) struct Wanted<'a> {
    /// Disjoint, ascending.
    pub(crate) slices: &'a [Slice],
    /// Largest position first.
    pub(crate) reversed: bool,
    /// A source may stop when it has given as many bytes.
    pub(crate) bytes: usize,
}

/// One place where something of a partition is known.
pub(crate) enum Place<'p> {
    Memory(MemoryView<'p>),
    Cached(CachedView<'p>),
    /// What sstables said, merged.
    Fetched(&'p Partition),
}

impl<'p> PartitionView for Place<'p> {
    fn deletion(&self) -> Deletion {
        match self {
            Place::Memory(view) => view.deletion(),
            Place::Cached(view) => view.deletion(),
            Place::Fetched(partition) => partition.deletion(),
        }
    }

    fn static_row(&self) -> Option<Body<'_>> {
        match self {
            Place::Memory(view) => view.static_row(),
            Place::Cached(view) => view.static_row(),
            Place::Fetched(partition) => partition.static_row(),
        }
    }

    fn ranges(&self) -> Option<&RangeTombstones> {
        match self {
            Place::Memory(view) => view.ranges(),
            Place::Cached(view) => view.ranges(),
            Place::Fetched(partition) => partition.ranges(),
        }
    }

    fn rows_between<'v>(
        &'v self,
        start: &[u8],
        end: Option<&[u8]>,
        reversed: bool,
    ) -> impl Iterator<Item = RowRef<'v>> + use<'v, 'p> {
        match self {
            Place::Memory(view) => Rows::Memory(view.rows_between(start, end, reversed)),
            Place::Cached(view) => Rows::Cached(view.rows_between(start, end, reversed)),
            Place::Fetched(partition) => {
                Rows::Fetched(PartitionView::rows_between(*partition, start, end, reversed))
            }
        }
    }
}

enum Rows<M, C, F> {
    Memory(M),
    Cached(C),
    Fetched(F),
}

impl<'v, M, C, F> Iterator for Rows<M, C, F>
where
    M: Iterator<Item = RowRef<'v>>,
    C: Iterator<Item = RowRef<'v>>,
    F: Iterator<Item = RowRef<'v>>,
{
    type Item = RowRef<'v>;

    #[inline]
    fn next(&mut self) -> Option<RowRef<'v>> {
        match self {
            Rows::Memory(rows) => rows.next(),
            Rows::Cached(rows) => rows.next(),
            Rows::Fetched(rows) => rows.next(),
        }
    }
}

/// A partition being put together, and up to where it is complete.
pub(crate) struct Merged {
    pub(crate) partition: Partition,
    /// Rows up to this position (in reading order) are all there; `None`: all that was asked for.
    pub(crate) complete_to: Option<Position>,
    /// Whether nothing was merged.
    pub(crate) is_empty: bool,
}

impl Merged {
    pub(crate) fn new() -> Merged {
        Merged { partition: Partition::new(), complete_to: None, is_empty: true }
    }

    /// Merges what an sstable said. One step.
    pub(crate) fn add_slice(
        &mut self,
        table: &Table,
        slice: &SourceSlice,
        wanted: Wanted<'_>,
    ) -> Result<(), Error> {
        self.is_empty = false;
        self.partition.apply(table, &slice.mutation.view())?;
        self.limit(slice.complete_to.clone(), wanted.reversed);
        Ok(())
    }

    /// As [`Merged::add_slice`], in steps: a slice may have some hundred thousand rows. Errors: a part of it may be merged.
    pub(crate) async fn add_slice_in_steps(
        &mut self,
        table: &Table,
        slice: &SourceSlice,
        wanted: Wanted<'_>,
    ) -> Result<(), Error> {
        self.is_empty = false;
        let view = slice.mutation.view();
        self.partition.deletion = self.partition.deletion.max(view.deletion);
        if let Some(body) = view.static_row {
            self.partition.merge_static(table, body);
        }
        for item in view.items() {
            self.partition.apply_item(table, item)?;
            runtime::yield_if_needed().await;
        }
        self.limit(slice.complete_to.clone(), wanted.reversed);
        Ok(())
    }

    /// Merges what the slices hold of a partition in memory, up to the byte budget.
    pub(crate) fn add_memory<V: PartitionView>(
        &mut self,
        table: &Table,
        from: &V,
        wanted: Wanted<'_>,
    ) -> Result<(), Error> {
        let mut pieces = Vec::new();
        self.is_empty = false;
        self.partition.deletion = self.partition.deletion.max(from.deletion());
        if let Some(body) = from.static_row() {
            self.partition.merge_static(table, body.whole(&mut pieces));
        }
        for slice in wanted.slices {
            for (_, _, range) in
                from.ranges().iter().flat_map(|all| all.overlapping(&slice.start, &slice.end))
            {
                self.partition.ranges.add(table, range)?;
            }
        }
        let complete_to = self.add_rows(table, from, wanted)?;
        self.limit(complete_to, wanted.reversed);
        Ok(())
    }

    fn add_rows<V: PartitionView>(
        &mut self,
        table: &Table,
        from: &V,
        wanted: Wanted<'_>,
    ) -> Result<Option<Position>, Error> {
        let (mut bytes, mut pieces) = (0, Vec::new());
        for index in 0..wanted.slices.len() {
            let slice = &wanted.slices[if wanted.reversed { wanted.slices.len() - 1 - index } else { index }];
            for row in from.rows_between(&slice.start, Some(&slice.end), wanted.reversed) {
                self.partition.merge_row(table, row.clustering, row.body.whole(&mut pieces))?;
                bytes += row.size();
                if bytes >= wanted.bytes {
                    return Ok(Some(Position::from_bytes(row.position)));
                }
            }
        }
        Ok(None)
    }

    fn limit(&mut self, complete_to: Option<Position>, reversed: bool) {
        let Some(new) = complete_to else { return };
        self.complete_to = Some(match self.complete_to.take() {
            Some(old) if reversed => old.max(new),
            Some(old) => old.min(new),
            None => new,
        });
    }
}

/// The parts of slices that lie behind a position in reading order.
pub(crate) fn slices_behind(slices: &[Slice], after: &Position, reversed: bool) -> Vec<Slice> {
    let start = after.successor();
    let clip = |slice: &Slice| {
        let clipped = if reversed {
            Slice { start: slice.start.clone(), end: slice.end.clone().min(after.clone()) }
        } else {
            Slice { start: slice.start.clone().max(start.clone()), end: slice.end.clone() }
        };
        (clipped.start < clipped.end).then_some(clipped)
    };
    slices.iter().filter_map(clip).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{clustering, insert, table};
    use mutation::Mutation;

    fn memory(table: &Table, rows: std::ops::Range<i32>) -> Partition {
        let mut partition = Partition::new();
        for c in rows {
            partition.apply(table, &insert(table, b"k", c, 1, &[7; 50]).view()).expect("applies");
        }
        partition
    }

    fn rows(partition: &Partition) -> Vec<Vec<u8>> {
        partition.rows().map(|(_, row)| row.clustering().to_vec()).collect()
    }

    #[test]
    fn a_small_budget_gives_a_prefix_in_reading_order() {
        let table = table();
        let from = memory(&table, 0..20);
        let slices = [Slice::all()];
        for reversed in [false, true] {
            let mut merged = Merged::new();
            let wanted = Wanted { slices: &slices, reversed, bytes: 300 };
            merged.add_memory(&table, &from, wanted).expect("merges");
            let got = rows(&merged.partition);
            let n = got.len() as i32;
            assert!(n > 1 && n < 20, "{n}");
            let (first, last) = if reversed { (20 - n, 20) } else { (0, n) };
            assert_eq!(got, (first..last).map(clustering).collect::<Vec<_>>());
            let edge = if reversed { first } else { last - 1 };
            assert_eq!(merged.complete_to, Some(table.position(&clustering(edge)).expect("a position")));
        }
    }

    #[test]
    fn what_two_sources_know_is_complete_to_the_nearer_end() {
        let table = table();
        let at = |c: i32| table.position(&clustering(c)).expect("a position");
        for (reversed, expected) in [(false, 5), (true, 9)] {
            let wanted = Wanted { slices: &[Slice::all()], reversed, bytes: 1 };
            let mut merged = Merged::new();
            for c in [9, 5] {
                let mutation: Mutation = insert(&table, b"k", c, 1, b"v");
                let slice = SourceSlice { mutation, complete_to: Some(at(c)) };
                merged.add_slice(&table, &slice, wanted).expect("merges");
            }
            assert_eq!(merged.complete_to, Some(at(expected)));
        }
    }

    #[test]
    fn slices_are_cut_behind_a_position() {
        let table = table();
        let at = |c: i32| table.position(&clustering(c)).expect("a position");
        let slices = [Slice { start: at(0), end: at(3) }, Slice { start: at(5), end: at(9) }];
        assert_eq!(slices_behind(&slices, &at(5), false), [Slice { start: at(5).successor(), end: at(9) }]);
        assert_eq!(slices_behind(&slices, &at(5), true), [Slice { start: at(0), end: at(3) }]);
    }
}
