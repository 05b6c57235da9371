//! A row of many bytes, in fragments: changing a cell of it copies one or two kilobytes, whatever its size.
//!
//! ```text
//! (ordinal, path) ─► fragment: a packed row of a run of its cells, ≤ 2 KiB unless one cell is longer
//! ```
//! The deletions of the row and of its collections are kept beside the fragments, which hold only what those leave. The
//! mark of a fragment is not the row's: it is what the timestamps of its cells are short for.

use crate::limits::ROW_FRAGMENT_BYTES;
use mutation::{
    Cell, ColumnView, Deletion, Liveness, Pieces, RowView, RowWriter, merge_rows, row_timestamps,
};
use schema::Table;
use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Included, Unbounded};
use types::CqlType;

/// A row in fragments.
pub(crate) struct LargeRow {
    is_static: bool,
    liveness: Liveness,
    deletion: Deletion,
    /// Deletions of collections that the row's own does not cover, by ordinal.
    covers: Vec<(u16, Deletion)>,
    /// By the place of the first cell that belongs there; there is one of all smaller places.
    fragments: BTreeMap<Box<[u8]>, Fragment>,
    oldest: i64,
    bytes: usize,
    packed: usize,
}

struct Fragment {
    body: Vec<u8>,
    ages: Ages,
}

/// Nothing in a fragment is older or newer.
#[derive(Clone, Copy)]
struct Ages {
    oldest: i64,
    newest: i64,
}

/// Memory of a fragment beside its bytes: its share of the tree.
const FRAGMENT_BYTES: usize = (size_of::<Box<[u8]>>() + size_of::<Fragment>()) * 3 / 2;

/// A cell of a row: its ordinal, its path in a collection, what it says.
type CellAt<'a> = (u16, Option<&'a [u8]>, Cell<'a>);

impl Ages {
    const NONE: Ages = Ages { oldest: i64::MAX, newest: i64::MIN };

    fn see(&mut self, timestamp: i64) {
        self.oldest = self.oldest.min(timestamp);
        self.newest = self.newest.max(timestamp);
    }
}

impl Fragment {
    fn bytes(&self, place: &[u8]) -> usize {
        place.len() + self.body.capacity() + FRAGMENT_BYTES
    }
}

fn cells<'a>(row: &RowView<'a>) -> impl Iterator<Item = CellAt<'a>> + use<'a> {
    row.columns().flat_map(|(ordinal, column)| {
        let (one, many) = match column {
            ColumnView::Simple(cell) => (Some((ordinal, None, cell)), None),
            ColumnView::Complex(complex) => (None, Some(complex.cells())),
        };
        let many = many.into_iter().flatten().map(move |(path, cell)| (ordinal, Some(path), cell));
        one.into_iter().chain(many)
    })
}

/// Writes cells that come in order as a packed row.
struct FragmentWriter<'b> {
    writer: RowWriter<'b>,
    open: Option<u16>,
    ages: Ages,
}

impl<'b> FragmentWriter<'b> {
    fn new(out: &'b mut Vec<u8>, liveness: Liveness) -> FragmentWriter<'b> {
        out.clear();
        FragmentWriter { writer: RowWriter::new(out, liveness, Deletion::LIVE), open: None, ages: Ages::NONE }
    }

    fn put(&mut self, (ordinal, path, cell): CellAt<'_>) {
        if self.open.is_some_and(|open| open != ordinal) {
            self.writer.complex_end();
            self.open = None;
        }
        self.ages.see(cell.timestamp);
        let Some(path) = path else { return self.writer.simple(ordinal, cell) };
        if self.open.is_none() {
            self.writer.complex_start(ordinal, Deletion::LIVE);
            self.open = Some(ordinal);
        }
        self.writer.complex_cell(path, cell);
    }

    fn finish(mut self) -> Ages {
        if self.open.is_some() {
            self.writer.complex_end();
        }
        self.ages
    }
}

impl LargeRow {
    /// A row that says nothing.
    pub(crate) fn new(is_static: bool) -> LargeRow {
        let mut row = LargeRow {
            is_static,
            liveness: Liveness::NONE,
            deletion: Deletion::LIVE,
            covers: Vec::new(),
            fragments: BTreeMap::new(),
            oldest: i64::MAX,
            bytes: 0,
            packed: 0,
        };
        row.put(Box::default(), &[0], Ages::NONE);
        row
    }

    /// Bytes of heap it takes, its share of trees estimated.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes + self.covers.capacity() * size_of::<(u16, Deletion)>()
    }

    /// A timestamp that nothing in it is older than.
    pub(crate) fn oldest(&self) -> i64 {
        self.oldest
    }

    /// Merges a packed row in. O(its cells, and a fragment for each place where they lie); what a deletion covers is
    /// let go fragment by fragment.
    pub(crate) fn apply(&mut self, table: &Table, body: &[u8], scratch: &mut LargeScratch) {
        let row = RowView::new(body);
        self.oldest = row_timestamps(body).map_or(self.oldest, |(oldest, _)| self.oldest.min(oldest));
        if row.deletion().supersedes(self.deletion) {
            self.deletion = row.deletion();
            let deletion = self.deletion;
            self.covers.retain(|(_, cover)| cover.supersedes(deletion));
            self.let_go(None, deletion);
        }
        self.liveness = self.liveness.max(row.liveness());
        if self.deletion.deletes(self.liveness.timestamp) {
            self.liveness = Liveness::NONE;
        }
        for (ordinal, column) in row.columns() {
            if let ColumnView::Complex(complex) = column {
                self.cover(ordinal, complex.deletion);
            }
        }
        self.apply_cells(table, &row, scratch);
    }

    fn cover(&mut self, ordinal: u16, deletion: Deletion) {
        if !deletion.supersedes(self.deletion) {
            return;
        }
        match self.covers.binary_search_by_key(&ordinal, |(other, _)| *other) {
            Ok(at) if !deletion.supersedes(self.covers[at].1) => return,
            Ok(at) => self.covers[at].1 = deletion,
            Err(at) => self.covers.insert(at, (ordinal, deletion)),
        }
        self.let_go(Some(ordinal), deletion);
    }

    fn apply_cells(&mut self, table: &Table, row: &RowView<'_>, scratch: &mut LargeScratch) {
        let LargeScratch { place, next, part, merged } = scratch;
        let places = Places { table, is_static: self.is_static };
        let (covers, deletion) = (self.covers.clone(), self.deletion);
        let shadow = |ordinal: u16| shadow_of(&covers, deletion, ordinal);
        let mut left = cells(row).filter(|cell| !shadow(cell.0).deletes(cell.2.timestamp)).peekable();
        while let Some(cell) = left.next() {
            places.put(&cell, place);
            let end = self.fragments.range::<[u8], _>((Excluded(&place[..]), Unbounded)).next();
            let mut writer = FragmentWriter::new(part, self.liveness);
            writer.put(cell);
            while let Some(cell) = left.next_if(|cell| {
                end.is_none_or(|(end, _)| {
                    places.put(cell, next);
                    next[..] < end[..]
                })
            }) {
                writer.put(cell);
            }
            let Ages { oldest, newest } = writer.finish();
            let mut around = self.fragments.range_mut::<[u8], _>((Unbounded, Included(&place[..])));
            let (at, fragment) = around.next_back().expect("there is a first");
            merged.clear();
            merge_rows(table, self.is_static, &fragment.body, part, merged);
            if merged.len() > 2 * ROW_FRAGMENT_BYTES {
                let at = at.clone();
                self.divide(at, merged, places, (part, next));
                continue;
            }
            fragment.ages.see(oldest);
            fragment.ages.see(newest);
            let (capacity, len) = (fragment.body.capacity(), fragment.body.len());
            fragment.body.clear();
            if capacity < merged.len() {
                fragment.body.reserve_exact((merged.len() + ROW_FRAGMENT_BYTES / 8).max(capacity));
            }
            fragment.body.extend_from_slice(merged);
            self.bytes += fragment.body.capacity() - capacity;
            self.packed = self.packed + merged.len() - len;
        }
    }

    /// Replaces a fragment by several.
    fn divide(
        &mut self,
        at: Box<[u8]>,
        body: &[u8],
        places: Places<'_>,
        (part, place): (&mut Vec<u8>, &mut Vec<u8>),
    ) {
        let row = RowView::new(body);
        let mut left = cells(&row).peekable();
        place.clear();
        place.extend_from_slice(&at);
        while left.peek().is_some() {
            let mut writer = FragmentWriter::new(part, row.liveness());
            let mut bytes = 0;
            while let Some(cell) = left.next_if(|cell| bytes == 0 || bytes + size(cell) <= ROW_FRAGMENT_BYTES)
            {
                bytes += size(&cell);
                writer.put(cell);
            }
            let ages = writer.finish();
            self.put(place.as_slice().into(), part, ages);
            if let Some(cell) = left.peek() {
                places.put(cell, place);
            }
        }
    }

    fn put(&mut self, at: Box<[u8]>, body: &[u8], ages: Ages) {
        self.take(&at);
        let fragment = Fragment { body: body.to_vec(), ages };
        self.bytes += fragment.bytes(&at);
        self.packed += body.len();
        self.fragments.insert(at, fragment);
    }

    fn take(&mut self, at: &[u8]) {
        if let Some(fragment) = self.fragments.remove(at) {
            self.bytes -= fragment.bytes(at);
            self.packed -= fragment.body.len();
        }
    }

    /// Leaves out the cells, of one column or all, that a deletion covers. Fragments that it covers whole, or not at
    /// all, are not read.
    fn let_go(&mut self, ordinal: Option<u16>, deletion: Deletion) {
        let first = ordinal.map_or(Vec::new(), |ordinal| ordinal.to_be_bytes().to_vec());
        let end = ordinal.and_then(|ordinal| ordinal.checked_add(1)).map(|next| next.to_be_bytes());
        let mut before = self.fragments.range::<[u8], _>((Unbounded, Excluded(&first[..])));
        let before = before.next_back().map(|(at, _)| at.clone());
        let behind = self.fragments.range::<[u8], _>((Included(&first[..]), Unbounded));
        let inside = behind.map(|(at, _)| at.clone()).take_while(|at| end.is_none_or(|end| at[..] < end[..]));
        let places: Vec<Box<[u8]>> = before.into_iter().chain(inside).collect();
        let mut kept = Vec::new();
        for (index, at) in places.iter().enumerate() {
            let Some(fragment) = self.fragments.get(at) else { continue };
            if fragment.ages.oldest > deletion.timestamp {
                continue;
            }
            // Of the first and the last, some cells may be of another column.
            let whole = ordinal.is_none() || (index > 0 && index + 1 < places.len());
            if whole && fragment.ages.newest <= deletion.timestamp && !at.is_empty() {
                self.take(at);
                continue;
            }
            let row = RowView::new(&fragment.body);
            let mut writer = FragmentWriter::new(&mut kept, row.liveness());
            let covers = |cell: &CellAt<'_>| ordinal.is_none_or(|ordinal| ordinal == cell.0);
            cells(&row)
                .filter(|cell| !(covers(cell) && deletion.deletes(cell.2.timestamp)))
                .for_each(|cell| writer.put(cell));
            let ages = writer.finish();
            self.put(at.clone(), &kept, ages);
        }
    }

    /// How many cells it has, about.
    pub(crate) fn cells(&self) -> u64 {
        let first = self.fragments.values().find(|fragment| fragment.body.len() > ROW_FRAGMENT_BYTES / 2);
        let some = first.map_or(1, |fragment| cells(&RowView::new(&fragment.body)).count());
        let each = first.map_or(1, |fragment| (fragment.body.len() / some.max(1)).max(1));
        (self.packed / each) as u64
    }

    /// Frees some of its fragments. Returns false when there were none.
    pub(crate) fn free_some(&mut self, count: usize) -> bool {
        (0..count).all(|_| self.fragments.pop_first().is_some())
    }
}

/// Buffers that changes of large rows use one after the other.
#[derive(Default)]
pub(crate) struct LargeScratch {
    place: Vec<u8>,
    next: Vec<u8>,
    part: Vec<u8>,
    merged: Vec<u8>,
}

impl LargeScratch {
    /// Lets go of what was needed for an exceptional row.
    pub(crate) fn shrink_to(&mut self, bytes: usize) {
        for buffer in [&mut self.place, &mut self.next, &mut self.part, &mut self.merged] {
            buffer.clear();
            buffer.shrink_to(bytes);
        }
    }

    /// Bytes of the buffers.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        [&self.place, &self.next, &self.part, &self.merged].map(Vec::capacity).iter().sum()
    }
}

/// The deletion that covers the cells of a column.
fn shadow_of(covers: &[(u16, Deletion)], deletion: Deletion, ordinal: u16) -> Deletion {
    let cover = covers.binary_search_by_key(&ordinal, |(other, _)| *other);
    cover.map_or(deletion, |at| covers[at].1)
}

/// About how many bytes a cell takes.
fn size(cell: &CellAt<'_>) -> usize {
    24 + cell.1.map_or(0, <[u8]>::len) + cell.2.value.map_or(0, <[u8]>::len)
}

/// Where the cells of a table's rows sort.
#[derive(Clone, Copy)]
struct Places<'t> {
    table: &'t Table,
    is_static: bool,
}

impl Places<'_> {
    fn put(&self, (ordinal, path, _): &CellAt<'_>, out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(&ordinal.to_be_bytes());
        if path.is_some() {
            let ty = self.table.cell_path_type(self.is_static, *ordinal).unwrap_or(CqlType::Blob);
            types::order::encode_component(&ty, *path, false, out);
        }
    }
}

impl Pieces for LargeRow {
    fn size(&self) -> usize {
        self.packed
    }

    fn write(&self, out: &mut Vec<u8>) {
        let mut writer = RowWriter::new(out, self.liveness, self.deletion);
        let mut covers = self.covers.iter().copied().peekable();
        let mut open: Option<u16> = None;
        for fragment in self.fragments.values() {
            for (ordinal, column) in RowView::new(&fragment.body).columns() {
                if open.take_if(|open| *open != ordinal).is_some() {
                    writer.complex_end();
                }
                while let Some((empty, cover)) = covers.next_if(|(other, _)| *other < ordinal) {
                    writer.complex_start(empty, cover);
                    writer.complex_end();
                }
                match column {
                    ColumnView::Simple(cell) => writer.simple(ordinal, cell),
                    ColumnView::Complex(complex) => {
                        if open.is_none() {
                            let cover = covers.next_if(|(other, _)| *other == ordinal);
                            writer.complex_start(ordinal, cover.map_or(Deletion::LIVE, |(_, cover)| cover));
                            open = Some(ordinal);
                        }
                        writer.complex_cells(&complex);
                    }
                }
            }
        }
        if open.is_some() {
            writer.complex_end();
        }
        for (empty, cover) in covers {
            writer.complex_start(empty, cover);
            writer.complex_end();
        }
    }
}
