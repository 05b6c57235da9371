//! Packed rows: everything about one row in one byte string, read in place.
//!
//! ```text
//! u8 flags                    01 liveness  02 …that expires  04 row deletion
//! [01] i64 timestamp  [02] u32 ttl, u32 expires_at  [04] i64 timestamp, u32 local_time
//! columns, ordinals ascending:
//!   u16 ordinal, u8 flags     01 tombstone  02 expiring  04 timestamp is the liveness'  20 complex  40 …with deletion
//!   simple   [!04] i64 timestamp  [01|02] u32 local_time  [02] u32 ttl  [!01] u32 length, value (wire form)
//!   complex  [40] i64 timestamp, u32 local_time   u32 bytes of what follows
//!            cells, paths ascending in the path type's order: u8 flags (01 02 04), as above, u32 length + path before
//!            the value
//! ```
//! The layout is on disk (commitlog) and on the wire (rpc): it must never change, only be versioned by its envelope.

use crate::cell::{Cell, NO_TIME};
use crate::deletion::{Deletion, Liveness};
use crate::error::Error;
use crate::input::{Input, put_sized};

const LIVENESS: u8 = 0x01;
const LIVENESS_EXPIRES: u8 = 0x02;
const DELETION: u8 = 0x04;

const TOMBSTONE: u8 = 0x01;
const EXPIRING: u8 = 0x02;
const LIVENESS_TIMESTAMP: u8 = 0x04;
const COMPLEX: u8 = 0x20;
const COMPLEX_DELETION: u8 = 0x40;

const VALIDATED: &str = "packed rows are validated when they enter the process";

/// A packed row, read in place. Its bytes were validated when they entered the process.
#[derive(Clone, Copy, Debug)]
pub struct RowView<'a> {
    liveness: Liveness,
    deletion: Deletion,
    columns: &'a [u8],
}

impl<'a> RowView<'a> {
    /// Reads the head of a packed row that was validated before ([`RowView::validate`]).
    pub fn new(body: &'a [u8]) -> RowView<'a> {
        RowView::parse(body).expect(VALIDATED)
    }

    fn parse(body: &'a [u8]) -> Result<RowView<'a>, Error> {
        let mut input = Input::new(body);
        let flags = input.u8("row flags")?;
        if flags & !(LIVENESS | LIVENESS_EXPIRES | DELETION) != 0 {
            return Err(input.malformed("known row flags"));
        }
        let mut liveness = Liveness::NONE;
        if flags & LIVENESS != 0 {
            liveness.timestamp = input.i64("liveness timestamp")?;
        }
        if flags & LIVENESS_EXPIRES != 0 {
            liveness.ttl = input.u32("liveness ttl")?;
            liveness.expires_at = input.u32("liveness expiry")?;
        }
        let deletion = if flags & DELETION != 0 { deletion(&mut input)? } else { Deletion::LIVE };
        let head = 1
            + if flags & LIVENESS != 0 { 8 } else { 0 }
            + if flags & LIVENESS_EXPIRES != 0 { 8 } else { 0 }
            + if flags & DELETION != 0 { 12 } else { 0 };
        Ok(RowView { liveness, deletion, columns: &body[head..] })
    }

    /// Checks that bytes are a packed row: every length in bounds, ordinals ascending.
    pub fn validate(body: &[u8]) -> Result<(), Error> {
        let row = RowView::parse(body)?;
        let mut input = Input::new(row.columns);
        let mut previous: Option<u16> = None;
        while !input.is_empty() {
            let (ordinal, column) = column(&mut input, row.liveness)?;
            if previous.is_some_and(|p| p >= ordinal) {
                return Err(input.malformed("ascending ordinals"));
            }
            previous = Some(ordinal);
            if let ColumnView::Complex(complex) = column {
                let mut cells = Input::new(complex.cells);
                while !cells.is_empty() {
                    cell(&mut cells, row.liveness, true)?;
                }
            }
        }
        Ok(())
    }

    /// The mark an INSERT left.
    pub fn liveness(&self) -> Liveness {
        self.liveness
    }

    /// The row tombstone.
    pub fn deletion(&self) -> Deletion {
        self.deletion
    }

    /// Whether it says nothing at all.
    pub fn is_empty(&self) -> bool {
        self.liveness.is_none() && self.deletion.is_live() && self.columns.is_empty()
    }

    /// Its columns, ordinals ascending. O(1) per column.
    pub fn columns(&self) -> impl Iterator<Item = (u16, ColumnView<'a>)> + use<'a> {
        let mut input = Input::new(self.columns);
        let liveness = self.liveness;
        std::iter::from_fn(move || {
            (!input.is_empty()).then(|| column(&mut input, liveness).expect(VALIDATED))
        })
    }

    /// The column with an ordinal. O(columns before it).
    pub fn column(&self, ordinal: u16) -> Option<ColumnView<'a>> {
        self.columns().find(|c| c.0 >= ordinal).filter(|c| c.0 == ordinal).map(|c| c.1)
    }
}

/// What a row holds for one column.
#[derive(Clone, Copy, Debug)]
pub enum ColumnView<'a> {
    /// One cell.
    Simple(Cell<'a>),
    /// A non-frozen collection: a deletion and cells with paths.
    Complex(ComplexView<'a>),
}

/// A non-frozen collection in a packed row.
#[derive(Clone, Copy, Debug)]
pub struct ComplexView<'a> {
    /// Deletes cells at or below its timestamp.
    pub deletion: Deletion,
    liveness: Liveness,
    cells: &'a [u8],
}

impl<'a> ComplexView<'a> {
    /// Its cells with their paths (wire form), ascending in the order of the path type.
    pub fn cells(&self) -> impl Iterator<Item = (&'a [u8], Cell<'a>)> + use<'a> {
        let mut input = Input::new(self.cells);
        let liveness = self.liveness;
        std::iter::from_fn(move || {
            (!input.is_empty()).then(|| cell(&mut input, liveness, true).expect(VALIDATED))
        })
    }
}

fn deletion(input: &mut Input<'_>) -> Result<Deletion, Error> {
    Ok(Deletion { timestamp: input.i64("deletion timestamp")?, local_time: input.u32("deletion time")? })
}

fn column<'a>(input: &mut Input<'a>, liveness: Liveness) -> Result<(u16, ColumnView<'a>), Error> {
    let ordinal = input.u16("an ordinal")?;
    let mut ahead = *input;
    let flags = ahead.u8("column flags")?;
    if flags & COMPLEX == 0 {
        let (_path, cell) = cell(input, liveness, false)?;
        return Ok((ordinal, ColumnView::Simple(cell)));
    }
    *input = ahead;
    let deletion = if flags & COMPLEX_DELETION != 0 { deletion(input)? } else { Deletion::LIVE };
    let cells = input.sized("cells of a collection")?;
    Ok((ordinal, ColumnView::Complex(ComplexView { deletion, liveness, cells })))
}

fn cell<'a>(
    input: &mut Input<'a>,
    liveness: Liveness,
    with_path: bool,
) -> Result<(&'a [u8], Cell<'a>), Error> {
    let flags = input.u8("cell flags")?;
    if flags & !(TOMBSTONE | EXPIRING | LIVENESS_TIMESTAMP) != 0 {
        return Err(input.malformed("known cell flags"));
    }
    let own = flags & LIVENESS_TIMESTAMP == 0;
    let timestamp = if own { input.i64("cell timestamp")? } else { liveness.timestamp };
    let local_time = if flags & (TOMBSTONE | EXPIRING) != 0 { input.u32("cell time")? } else { NO_TIME };
    let ttl = if flags & EXPIRING != 0 { input.u32("cell ttl")? } else { 0 };
    let path = if with_path { input.sized("cell path")? } else { &[] };
    let value = if flags & TOMBSTONE == 0 { Some(input.sized("cell value")?) } else { None };
    Ok((path, Cell { timestamp, ttl, local_time, value }))
}

/// The oldest and the newest timestamp of anything in a packed row, deletions included; `None` of an empty one. O(cells).
pub fn row_timestamps(body: &[u8]) -> Option<(i64, i64)> {
    let row = RowView::new(body);
    let mut found: Option<(i64, i64)> = None;
    let mut see = |timestamp: i64| {
        let (oldest, newest) = found.unwrap_or((timestamp, timestamp));
        found = Some((oldest.min(timestamp), newest.max(timestamp)));
    };
    if !row.deletion.is_live() {
        see(row.deletion.timestamp);
    }
    if !row.liveness.is_none() {
        see(row.liveness.timestamp);
    }
    for (_, column) in row.columns() {
        match column {
            ColumnView::Simple(cell) => see(cell.timestamp),
            ColumnView::Complex(complex) => {
                if !complex.deletion.is_live() {
                    see(complex.deletion.timestamp);
                }
                complex.cells().for_each(|(_, cell)| see(cell.timestamp));
            }
        }
    }
    found
}

/// Whether a reader at a second sees the row, when a partition or range deletion covers it as well.
pub fn row_is_live(body: &[u8], covering: Deletion, now_s: u32) -> bool {
    is_live(&RowView::new(body), covering, now_s)
}

#[inline]
fn is_live(row: &RowView<'_>, covering: Deletion, now_s: u32) -> bool {
    let deletion = row.deletion().max(covering);
    if row.liveness().is_live(now_s) && !deletion.deletes(row.liveness().timestamp) {
        return true;
    }
    row.columns().any(|(_, column)| match column {
        ColumnView::Simple(cell) => cell.is_live(now_s) && !deletion.deletes(cell.timestamp),
        ColumnView::Complex(complex) => {
            let deletion = deletion.max(complex.deletion);
            complex.cells().any(|(_, cell)| cell.is_live(now_s) && !deletion.deletes(cell.timestamp))
        }
    })
}

/// Whether a reader at a second sees the row, as [`row_is_live`], and what of it that reader passes over: tombstones and
/// expired cells, or else the row tombstone of a row that is not live. As the reference counts them.
#[inline]
pub fn row_judged(body: &[u8], covering: Deletion, now_s: u32) -> (bool, u32) {
    let row = RowView::new(body);
    let live = is_live(&row, covering, now_s);
    (live, tombstones_of(&row, live, now_s))
}

#[inline]
fn tombstones_of(row: &RowView<'_>, live: bool, now_s: u32) -> u32 {
    let columns = row.columns;
    let mut at = 0;
    // Cells that neither are deleted nor expire, as most are all their life.
    while let Some(flags) = columns.get(at + 2)
        && flags & (TOMBSTONE | EXPIRING | COMPLEX) == 0
    {
        at += 3 + if flags & LIVENESS_TIMESTAMP == 0 { 8 } else { 0 };
        at += 4 + sized_at(columns, at);
    }
    if at == columns.len() {
        return u32::from(!live && !row.deletion.is_live());
    }
    dead_behind(row, at, live, now_s)
}

#[cold]
fn dead_behind(row: &RowView<'_>, mut at: usize, live: bool, now_s: u32) -> u32 {
    let mut dead = 0;
    while at < row.columns.len() {
        let flags = row.columns[at + 2];
        if flags & COMPLEX == 0 {
            at = pass_cell(row.columns, at + 2, false, now_s, &mut dead);
            continue;
        }
        at += 3 + if flags & COMPLEX_DELETION != 0 { 12 } else { 0 };
        let end = at + 4 + sized_at(row.columns, at);
        at += 4;
        while at < end {
            at = pass_cell(row.columns, at, true, now_s, &mut dead);
        }
    }
    if dead == 0 && !live && !row.deletion.is_live() { 1 } else { dead }
}

/// Steps over a cell of validated bytes and counts it if it is dead.
fn pass_cell(bytes: &[u8], at: usize, with_path: bool, now_s: u32, dead: &mut u32) -> usize {
    let flags = bytes[at];
    let mut at = at + 1 + if flags & LIVENESS_TIMESTAMP == 0 { 8 } else { 0 };
    if flags & (TOMBSTONE | EXPIRING) != 0 {
        let local_time = sized_at(bytes, at) as u32;
        *dead += u32::from(flags & TOMBSTONE != 0 || local_time <= now_s);
        at += if flags & EXPIRING != 0 { 8 } else { 4 };
    }
    if with_path {
        at += 4 + sized_at(bytes, at);
    }
    if flags & TOMBSTONE == 0 {
        at += 4 + sized_at(bytes, at);
    }
    at
}

fn sized_at(bytes: &[u8], at: usize) -> usize {
    bytes[at..].first_chunk::<4>().map_or(0, |number| u32::from_be_bytes(*number) as usize)
}

/// Writes one packed row at the end of a buffer.
/// Shape: head first, then columns by ascending ordinal; a collection's cells by ascending path, not checked here.
pub struct RowWriter<'b> {
    out: &'b mut Vec<u8>,
    liveness: Liveness,
    next_ordinal: u32,
    /// Where the length of the open collection stands, if one is open, and whether it has a deletion.
    complex_at: Option<(usize, bool)>,
}

impl<'b> RowWriter<'b> {
    /// Starts a row.
    pub fn new(out: &'b mut Vec<u8>, liveness: Liveness, deletion: Deletion) -> RowWriter<'b> {
        let mut flags = 0;
        if !liveness.is_none() {
            flags |= LIVENESS;
        }
        if !liveness.is_none() && liveness.is_expiring() {
            flags |= LIVENESS_EXPIRES;
        }
        if !deletion.is_live() {
            flags |= DELETION;
        }
        out.push(flags);
        if flags & LIVENESS != 0 {
            out.extend_from_slice(&liveness.timestamp.to_be_bytes());
        }
        if flags & LIVENESS_EXPIRES != 0 {
            out.extend_from_slice(&liveness.ttl.to_be_bytes());
            out.extend_from_slice(&liveness.expires_at.to_be_bytes());
        }
        if flags & DELETION != 0 {
            put_deletion(out, deletion);
        }
        RowWriter { out, liveness, next_ordinal: 0, complex_at: None }
    }

    /// Adds a simple column's cell.
    pub fn simple(&mut self, ordinal: u16, cell: Cell<'_>) {
        self.column(ordinal);
        self.cell(None, cell);
    }

    /// Opens a collection. Every [`RowWriter::complex_cell`] until [`RowWriter::complex_end`] belongs to it.
    pub fn complex_start(&mut self, ordinal: u16, deletion: Deletion) {
        self.column(ordinal);
        if deletion.is_live() {
            self.out.push(COMPLEX);
        } else {
            self.out.push(COMPLEX | COMPLEX_DELETION);
            put_deletion(self.out, deletion);
        }
        self.complex_at = Some((self.out.len(), !deletion.is_live()));
        self.out.extend_from_slice(&[0; 4]);
    }

    /// Adds a cell to the open collection.
    pub fn complex_cell(&mut self, path: &[u8], cell: Cell<'_>) {
        assert!(self.complex_at.is_some(), "a collection is open");
        self.cell(Some(path), cell);
    }

    /// Adds all cells of a collection to the open one: those behind the last added. A copy when both rows have one mark.
    pub fn complex_cells(&mut self, complex: &ComplexView<'_>) {
        let mark = |liveness: Liveness| (liveness.is_none(), liveness.timestamp);
        if mark(self.liveness) == mark(complex.liveness) {
            assert!(self.complex_at.is_some(), "a collection is open");
            return self.out.extend_from_slice(complex.cells);
        }
        complex.cells().for_each(|(path, cell)| self.complex_cell(path, cell));
    }

    /// Closes the open collection. One that says nothing leaves no trace.
    pub fn complex_end(&mut self) {
        let (at, has_deletion) = self.complex_at.take().expect("a collection is open");
        let len = (self.out.len() - at - 4) as u32;
        if len == 0 && !has_deletion {
            // Ordinal and flags stand before the length.
            return self.out.truncate(at - 3);
        }
        self.out[at..at + 4].copy_from_slice(&len.to_be_bytes());
    }

    fn column(&mut self, ordinal: u16) {
        assert!(self.complex_at.is_none(), "the collection before is closed");
        assert!(u32::from(ordinal) >= self.next_ordinal, "ordinals ascend");
        self.next_ordinal = u32::from(ordinal) + 1;
        self.out.extend_from_slice(&ordinal.to_be_bytes());
    }

    fn cell(&mut self, path: Option<&[u8]>, cell: Cell<'_>) {
        let mut flags = 0;
        if cell.is_tombstone() {
            flags |= TOMBSTONE;
        }
        if cell.is_expiring() {
            flags |= EXPIRING;
        }
        if !self.liveness.is_none() && cell.timestamp == self.liveness.timestamp {
            flags |= LIVENESS_TIMESTAMP;
        }
        self.out.push(flags);
        if flags & LIVENESS_TIMESTAMP == 0 {
            self.out.extend_from_slice(&cell.timestamp.to_be_bytes());
        }
        if flags & (TOMBSTONE | EXPIRING) != 0 {
            self.out.extend_from_slice(&cell.local_time.to_be_bytes());
        }
        if flags & EXPIRING != 0 {
            self.out.extend_from_slice(&cell.ttl.to_be_bytes());
        }
        if let Some(path) = path {
            put_sized(self.out, path);
        }
        if let Some(value) = cell.value {
            put_sized(self.out, value);
        }
    }
}

pub(crate) fn put_deletion(out: &mut Vec<u8>, deletion: Deletion) {
    out.extend_from_slice(&deletion.timestamp.to_be_bytes());
    out.extend_from_slice(&deletion.local_time.to_be_bytes());
}
