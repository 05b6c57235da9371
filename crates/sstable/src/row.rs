//! Rows between their packed form and their form in the data file.
//!
//! ```text
//! u8 flags [u8 ext] clustering values block (not for static), uvint size, uvint previous size, then the body:
//! [04] uvint timestamp  [08] uvint ttl, uvint expiry  [10] deletion  [!20] column subset, cells in disk order
//! ```
//! Liveness stores its ttl first, cells their local time first. Layout: `docs/formats/sstables.md`.

use mutation::{Cell, ColumnView, ComplexView, Deletion, Liveness, NO_TIME, RowView, RowWriter};
use smallvec::SmallVec;

use crate::collector::{CarriedTimes, Collector, Expiry};
use crate::cursor::{Cursor, Decoded, put_delta32, put_vbytes};
use crate::deletion::Times;
use crate::shape::{ColumnShape, RowShape};
use crate::writer::CarriedRow;

/// Row flags; on disk, must never change.
pub(crate) mod flags {
    pub(crate) const END_OF_PARTITION: u8 = 0x01;
    pub(crate) const IS_MARKER: u8 = 0x02;
    pub(crate) const HAS_TIMESTAMP: u8 = 0x04;
    pub(crate) const HAS_TTL: u8 = 0x08;
    pub(crate) const HAS_DELETION: u8 = 0x10;
    pub(crate) const HAS_ALL_COLUMNS: u8 = 0x20;
    pub(crate) const HAS_COMPLEX_DELETION: u8 = 0x40;
    pub(crate) const EXTENSION: u8 = 0x80;
    /// In the second byte.
    pub(crate) const IS_STATIC: u8 = 0x01;
}

const CELL_DELETED: u8 = 0x01;
const CELL_EXPIRING: u8 = 0x02;
const CELL_EMPTY: u8 = 0x04;
const CELL_ROW_TIMESTAMP: u8 = 0x08;
const CELL_ROW_TTL: u8 = 0x10;

/// From this many columns on, a subset lists indexes instead of bits.
const SUBSET_BITS: usize = 64;

/// Writes the bodies of rows.
pub(crate) struct RowEncoder<'a> {
    /// Columns.
    pub(crate) shape: &'a RowShape,
    /// How times are written.
    pub(crate) times: Times,
    /// Sees everything written.
    pub(crate) collector: &'a mut Collector,
}

impl RowEncoder<'_> {
    /// Appends the body (from the liveness on) and returns the flags; `None` when the row says nothing that belongs
    /// into this sstable, and then nothing is appended. Errors: a value that does not fit its type, in words.
    pub(crate) fn encode(&mut self, row: &RowView<'_>, out: &mut Vec<u8>) -> Result<Option<u8>, String> {
        let columns = self.columns(row);
        let (liveness, deletion) = (row.liveness(), row.deletion());
        if columns.is_empty() && liveness.is_none() && deletion.is_live() {
            return Ok(None);
        }
        let mut flags = 0;
        self.collector.row(columns.len());
        self.collector.liveness(liveness);
        self.collector.deletion(deletion);
        if !liveness.is_none() {
            flags |= flags::HAS_TIMESTAMP;
            base::put_uvint(out, liveness.timestamp.wrapping_sub(self.times.base.min_timestamp) as u64);
            if liveness.is_expiring() {
                flags |= flags::HAS_TTL;
                put_delta32(out, liveness.ttl, self.times.base.min_ttl);
                self.times.put_time(out, liveness.expires_at);
            }
        }
        if !deletion.is_live() {
            flags |= flags::HAS_DELETION;
            self.times.put_delta(out, deletion);
        }
        if columns.len() == self.shape.columns.len() {
            flags |= flags::HAS_ALL_COLUMNS;
        } else {
            put_subset(out, self.shape.columns.len(), &columns);
        }
        let complex_deletion = columns
            .iter()
            .any(|(index, column)| matches!(column, ColumnView::Complex(complex) if !kept_deletion(complex, self.dropped_at(*index)).is_live()));
        if complex_deletion {
            flags |= flags::HAS_COMPLEX_DELETION;
        }
        for (index, column) in &columns {
            match column {
                ColumnView::Simple(cell) => {
                    self.cell(cell, None, liveness, self.shape.columns[usize::from(*index)].fixed, out)?;
                }
                ColumnView::Complex(complex) => {
                    let dropped_at = self.dropped_at(*index);
                    self.complex(complex, dropped_at, complex_deletion, liveness, out)?;
                }
            }
        }
        Ok(Some(flags))
    }

    /// The row's columns in disk order, without dropped ones and empty collections.
    fn columns<'r>(&self, row: &RowView<'r>) -> Columns<ColumnView<'r>> {
        let mut columns = Columns::new();
        for (ordinal, column) in row.columns() {
            let Some(index) = self.shape.index_of(ordinal) else { continue };
            let shape = &self.shape.columns[usize::from(index)];
            let fits = match column {
                ColumnView::Simple(cell) => !shape.complex && cell.timestamp > shape.dropped_at,
                ColumnView::Complex(complex) => {
                    let says_something = !kept_deletion(&complex, shape.dropped_at).is_live()
                        || kept_cells(&complex, shape.dropped_at).next().is_some();
                    shape.complex && says_something
                }
            };
            if fits {
                columns.push((index, column));
            }
        }
        columns.sort_unstable_by_key(|(index, _)| *index);
        columns
    }

    fn dropped_at(&self, index: u16) -> i64 {
        self.shape.columns[usize::from(index)].dropped_at
    }

    fn complex(
        &mut self,
        complex: &ComplexView<'_>,
        dropped_at: i64,
        with_deletion: bool,
        liveness: Liveness,
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        if with_deletion {
            let deletion = kept_deletion(complex, dropped_at);
            self.times.put_delta(out, deletion);
            self.collector.deletion(deletion);
        }
        base::put_uvint(out, kept_cells(complex, dropped_at).count() as u64);
        for (path, cell) in kept_cells(complex, dropped_at) {
            self.cell(&cell, Some(path), liveness, None, out)?;
        }
        Ok(())
    }

    fn cell(
        &mut self,
        cell: &Cell<'_>,
        path: Option<&[u8]>,
        liveness: Liveness,
        fixed: Option<usize>,
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        self.collector.cell(cell);
        let value = cell.value.unwrap_or(&[]);
        let mut flags = 0;
        if cell.is_tombstone() {
            flags |= CELL_DELETED;
        } else if cell.is_expiring() {
            flags |= CELL_EXPIRING;
        }
        if value.is_empty() {
            flags |= CELL_EMPTY;
        }
        if !liveness.is_none() && cell.timestamp == liveness.timestamp {
            flags |= CELL_ROW_TIMESTAMP;
        }
        let row_ttl = (liveness.ttl, self.times.stored(liveness.expires_at))
            == (cell.ttl, self.times.stored(cell.local_time));
        if flags & CELL_EXPIRING != 0 && !liveness.is_none() && liveness.is_expiring() && row_ttl {
            flags |= CELL_ROW_TTL;
        }
        out.push(flags);
        if flags & CELL_ROW_TIMESTAMP == 0 {
            base::put_uvint(out, cell.timestamp.wrapping_sub(self.times.base.min_timestamp) as u64);
        }
        if flags & (CELL_DELETED | CELL_EXPIRING) != 0 && flags & CELL_ROW_TTL == 0 {
            self.times.put_time(out, cell.local_time);
        }
        if flags & CELL_EXPIRING != 0 && flags & CELL_ROW_TTL == 0 {
            put_delta32(out, cell.ttl, self.times.base.min_ttl);
        }
        if let Some(path) = path {
            put_vbytes(out, path);
        }
        match fixed {
            _ if value.is_empty() => {}
            None => put_vbytes(out, value),
            Some(size) if size == value.len() => out.extend_from_slice(value),
            Some(size) => return Err(format!("a value of {} bytes where the type has {size}", value.len())),
        }
        Ok(())
    }
}

/// The deletion of a column's cells, unless the column was dropped after it.
fn kept_deletion(complex: &ComplexView<'_>, dropped_at: i64) -> Deletion {
    if complex.deletion.timestamp > dropped_at { complex.deletion } else { Deletion::LIVE }
}

/// The cells that are newer than the column's drop.
fn kept_cells<'r>(
    complex: &ComplexView<'r>,
    dropped_at: i64,
) -> impl Iterator<Item = (&'r [u8], Cell<'r>)> + use<'r> {
    complex.cells().filter(move |(_, cell)| cell.timestamp > dropped_at)
}

/// Appends which of `total` columns are there. The caller has checked that not all are.
fn put_subset(out: &mut Vec<u8>, total: usize, present: &[(u16, ColumnView<'_>)]) {
    let mut present = present.iter().map(|(index, _)| usize::from(*index)).peekable();
    if total < SUBSET_BITS {
        let bits = present.fold((1u64 << total) - 1, |missing, index| missing & !(1 << index));
        base::put_uvint(out, bits);
        return;
    }
    let count = present.len();
    base::put_uvint(out, (total - count) as u64);
    if count < total / 2 {
        present.for_each(|index| base::put_uvint(out, index as u64));
        return;
    }
    for index in 0..total {
        if present.next_if_eq(&index).is_none() {
            base::put_uvint(out, index as u64);
        }
    }
}

/// Appends that none of `total` columns is there.
pub(crate) fn put_empty_subset(out: &mut Vec<u8>, total: usize) {
    put_subset(out, total, &[]);
}

/// Reads which of `total` columns are there, ascending.
fn take_subset(cursor: &mut Cursor<'_>, total: usize) -> Decoded<Indexes> {
    let at = cursor.at();
    let first = cursor.uvint()?;
    if first == 0 {
        return Ok((0..total as u16).collect());
    }
    if total < SUBSET_BITS {
        if first >> total != 0 {
            return Err(cursor.bad_at(at, format!("missing bits of {total} columns"), format!("{first:#x}")));
        }
        return Ok((0..total as u16).filter(|index| first >> index & 1 == 0).collect());
    }
    if first > total as u64 {
        return Err(cursor.bad_at(at, format!("at most {total} missing columns"), first.to_string()));
    }
    let count = total - first as usize;
    let listed = if count < total / 2 { count } else { total - count };
    let mut indexes = Indexes::with_capacity(listed);
    for _ in 0..listed {
        let at = cursor.at();
        let index = cursor.uvint()?;
        if index >= total as u64 || indexes.last().is_some_and(|last| u64::from(*last) >= index) {
            return Err(cursor.bad_at(at, "an ascending column index", index.to_string()));
        }
        indexes.push(index as u16);
    }
    if count < total / 2 {
        return Ok(indexes);
    }
    let mut missing = indexes.into_iter().peekable();
    Ok((0..total as u16).filter(|index| missing.next_if_eq(index).is_none()).collect())
}

/// Indexes of columns; those of most rows need no allocation.
type Indexes = SmallVec<[u16; 16]>;
/// Columns of a row by index or ordinal; those of most rows need no allocation.
type Columns<C> = SmallVec<[(u16, C); 8]>;

/// A column as it was read, before it is put into ordinal order.
enum Taken<'b> {
    Simple(Cell<'b>),
    /// Deletion and the cells' place in [`RowDecoder::cells`].
    Complex(Deletion, std::ops::Range<usize>),
}

/// Reads the bodies of rows.
pub(crate) struct RowDecoder<'a> {
    /// Columns.
    pub(crate) shape: &'a RowShape,
    /// How times are written.
    pub(crate) times: Times,
}

impl RowDecoder<'_> {
    /// Reads a body of a row with these flags and appends its packed form. `body` is exactly the body.
    /// Returns false, with nothing appended, when nothing is left of the row but dropped columns.
    pub(crate) fn decode<'b>(&self, flags: u8, body: &'b [u8], out: &mut Vec<u8>) -> Decoded<bool> {
        let cursor = &mut Cursor::new(body);
        let liveness = self.liveness(flags, cursor)?;
        let deletion =
            if flags & flags::HAS_DELETION != 0 { self.times.take_delta(cursor)? } else { Deletion::LIVE };
        let mut cells: Vec<(&[u8], Cell<'_>)> = Vec::new();
        let mut columns: Columns<Taken<'b>> = Columns::new();
        let mut take = |column: &ColumnShape, cursor: &mut Cursor<'b>| {
            let taken = if column.complex {
                let with_deletion = flags & flags::HAS_COMPLEX_DELETION != 0;
                self.complex(column, with_deletion, liveness, cursor, &mut cells)?
            } else {
                let (_, cell) = self.cell(column.fixed, false, liveness, cursor)?;
                (cell.timestamp > column.dropped_at).then_some(Taken::Simple(cell))
            };
            if let (Some(ordinal), Some(taken)) = (column.ordinal, taken) {
                columns.push((ordinal, taken));
            }
            Ok(())
        };
        if flags & flags::HAS_ALL_COLUMNS != 0 {
            for column in &self.shape.columns {
                take(column, cursor)?;
            }
        } else {
            for index in take_subset(cursor, self.shape.columns.len())? {
                take(&self.shape.columns[usize::from(index)], cursor)?;
            }
        }
        if !cursor.is_empty() {
            let got = format!("{} bytes more", cursor.remaining());
            return Err(cursor.bad_at(cursor.at(), "the end of the row", got));
        }
        if columns.is_empty() && liveness.is_none() && deletion.is_live() {
            return Ok(false);
        }
        columns.sort_unstable_by_key(|(ordinal, _)| *ordinal);
        let mut writer = RowWriter::new(out, liveness, deletion);
        for (ordinal, taken) in columns {
            match taken {
                Taken::Simple(cell) => writer.simple(ordinal, cell),
                Taken::Complex(deletion, range) => {
                    writer.complex_start(ordinal, deletion);
                    cells[range].iter().for_each(|(path, cell)| writer.complex_cell(path, *cell));
                    writer.complex_end();
                }
            }
        }
        Ok(true)
    }

    fn liveness(&self, flags: u8, cursor: &mut Cursor<'_>) -> Decoded<Liveness> {
        if flags & flags::HAS_TIMESTAMP == 0 {
            return Ok(Liveness::NONE);
        }
        let timestamp = self.times.take_timestamp(cursor)?;
        if flags & flags::HAS_TTL == 0 {
            return Ok(Liveness::at(timestamp));
        }
        let ttl = self.times.take_ttl(cursor)?;
        Ok(Liveness::expiring(timestamp, ttl, self.times.take_time(cursor)?))
    }

    fn complex<'b>(
        &self,
        column: &ColumnShape,
        with_deletion: bool,
        liveness: Liveness,
        cursor: &mut Cursor<'b>,
        cells: &mut Vec<(&'b [u8], Cell<'b>)>,
    ) -> Decoded<Option<Taken<'b>>> {
        let deletion = if with_deletion { self.times.take_delta(cursor)? } else { Deletion::LIVE };
        let kept = deletion.is_live() || deletion.timestamp > column.dropped_at;
        let deletion = if kept { deletion } else { Deletion::LIVE };
        let count = cursor.uvint()?;
        let count = cursor.count(count, 2)?;
        let start = cells.len();
        for _ in 0..count {
            let (path, cell) = self.cell(None, true, liveness, cursor)?;
            if cell.timestamp > column.dropped_at {
                cells.push((path, cell));
            }
        }
        if deletion.is_live() && cells.len() == start {
            return Ok(None);
        }
        Ok(Some(Taken::Complex(deletion, start..cells.len())))
    }

    fn cell<'b>(
        &self,
        fixed: Option<usize>,
        with_path: bool,
        liveness: Liveness,
        cursor: &mut Cursor<'b>,
    ) -> Decoded<(&'b [u8], Cell<'b>)> {
        let at = cursor.at();
        let flags = cursor.u8()?;
        if flags & !(CELL_DELETED | CELL_EXPIRING | CELL_EMPTY | CELL_ROW_TIMESTAMP | CELL_ROW_TTL) != 0 {
            return Err(cursor.bad_at(at, "cell flags", format!("{flags:#04x}")));
        }
        let row_timestamp = flags & CELL_ROW_TIMESTAMP != 0;
        let timestamp = if row_timestamp { liveness.timestamp } else { self.times.take_timestamp(cursor)? };
        let (mut ttl, mut local_time) = (0, NO_TIME);
        if flags & CELL_ROW_TTL != 0 {
            (ttl, local_time) = (liveness.ttl, liveness.expires_at);
        } else if flags & (CELL_DELETED | CELL_EXPIRING) != 0 {
            local_time = self.times.take_time(cursor)?;
            ttl = if flags & CELL_EXPIRING != 0 { self.times.take_ttl(cursor)? } else { 0 };
        }
        let path = if with_path { cursor.vbytes()? } else { &[] };
        let value = match fixed {
            _ if flags & CELL_EMPTY != 0 => &[],
            Some(size) => cursor.bytes(size)?,
            None => cursor.vbytes()?,
        };
        let deleted = flags & CELL_DELETED != 0;
        let cell = match (deleted, ttl) {
            (true, _) => Cell::tombstone(timestamp, local_time),
            (false, 0) => Cell::live(timestamp, value),
            (false, _) => Cell::expiring(timestamp, ttl, local_time, value),
        };
        Ok((path, cell))
    }
}

/// A row's body on its way from one sstable into another, whose columns are the same and of which none was dropped.
struct Carrier<'b, 'o> {
    cursor: Cursor<'b>,
    body: &'b [u8],
    out: &'o mut Vec<u8>,
    /// Bytes of the body that are in `out`.
    copied: usize,
    /// How times are written in the body, and in `out`.
    times: (Times, Times),
    /// What expires by then is not carried.
    expire_at: Option<u32>,
    row_timestamp: Option<i64>,
    row_expiry: Option<Expiry>,
    seen: CarriedTimes,
}

/// Appends a row's body with its times counted from other bases; `times`: how they are and shall be written.
/// `None`: something in it is deleted or has expired at `expire_at`, or it says nothing, or it is broken; what was appended means
/// nothing then. Cost: one pass; what lies between times is copied in one piece.
pub(crate) fn carry_body(
    shape: &RowShape,
    times: (Times, Times),
    expire_at: Option<u32>,
    row: &CarriedRow<'_>,
    out: &mut Vec<u8>,
) -> Option<CarriedTimes> {
    if row.flags & !(flags::HAS_TIMESTAMP | flags::HAS_TTL | flags::HAS_ALL_COLUMNS) != 0 {
        return None;
    }
    let mut carrier = Carrier {
        cursor: Cursor::new(row.body),
        body: row.body,
        out,
        copied: 0,
        times,
        expire_at,
        row_timestamp: None,
        row_expiry: None,
        seen: CarriedTimes::default(),
    };
    if row.flags & flags::HAS_TIMESTAMP != 0 {
        carrier.row_timestamp = Some(carrier.timestamp()?);
        if row.flags & flags::HAS_TTL != 0 {
            let ttl = carrier.ttl()?;
            let expiry = Expiry { ttl, at: carrier.expires_at()? };
            carrier.row_expiry = Some(expiry);
        }
        carrier.seen.expiry(carrier.row_expiry);
    } else if row.flags & flags::HAS_TTL != 0 {
        return None;
    }
    if row.flags & flags::HAS_ALL_COLUMNS != 0 {
        for column in &shape.columns {
            carrier.column(column)?;
        }
    } else {
        for index in take_subset(&mut carrier.cursor, shape.columns.len()).ok()? {
            carrier.column(&shape.columns[usize::from(index)])?;
        }
    }
    let Carrier { cursor, body, out, copied, row_timestamp, seen, .. } = carrier;
    let says_something = row_timestamp.is_some() || seen.columns > 0;
    out.extend_from_slice(&body[copied..]);
    (cursor.is_empty() && says_something).then_some(seen)
}

/// From when to when a row was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Written {
    pub(crate) first: i64,
    pub(crate) last: i64,
    /// Whether it says that it was inserted, and everything that a row of these columns can say.
    pub(crate) is_whole: bool,
}

/// When a row was written of which nothing is deleted; `None`: something is, or may be. `scratch` is written to. Cost: one pass.
pub(crate) fn when_written(
    shape: &RowShape,
    times: Times,
    row: &CarriedRow<'_>,
    scratch: &mut Vec<u8>,
) -> Option<Written> {
    const WHOLE: u8 = flags::HAS_TIMESTAMP | flags::HAS_ALL_COLUMNS;
    scratch.clear();
    let seen = carry_body(shape, (times, times), None, row, scratch)?;
    let (first, last) = seen.timestamps();
    let is_whole = row.flags & WHOLE == WHOLE && shape.columns.iter().all(|column| !column.complex);
    Some(Written { first, last, is_whole })
}

impl Carrier<'_, '_> {
    fn timestamp(&mut self) -> Option<i64> {
        let start = self.cursor.at() as usize;
        let (from, to) = self.times;
        let timestamp = from.take_timestamp(&mut self.cursor).ok()?;
        if from.base.min_timestamp != to.base.min_timestamp {
            self.begin_again(start);
            base::put_uvint(self.out, timestamp.wrapping_sub(to.base.min_timestamp) as u64);
        }
        self.seen.timestamp(timestamp);
        Some(timestamp)
    }

    fn ttl(&mut self) -> Option<u32> {
        let start = self.cursor.at() as usize;
        let (from, to) = self.times;
        let ttl = from.take_ttl(&mut self.cursor).ok()?;
        if from.base.min_ttl != to.base.min_ttl {
            self.begin_again(start);
            put_delta32(self.out, ttl, to.base.min_ttl);
        }
        Some(ttl)
    }

    fn expires_at(&mut self) -> Option<u32> {
        let start = self.cursor.at() as usize;
        let (from, to) = self.times;
        let at = from.take_time(&mut self.cursor).ok()?;
        // What is as good as never has numbers of its own in each version, and late times are capped.
        if self.expire_at.is_some_and(|now| at <= now) || at == NO_TIME || to.kept(at) != at {
            return None;
        }
        if from.base.min_local_time != to.base.min_local_time {
            self.begin_again(start);
            to.put_time(self.out, at);
        }
        Some(at)
    }

    /// Something that was read from a place on is written anew: what lies before it is copied.
    fn begin_again(&mut self, start: usize) {
        self.out.extend_from_slice(&self.body[self.copied..start]);
        self.copied = self.cursor.at() as usize;
    }

    fn column(&mut self, column: &ColumnShape) -> Option<()> {
        self.seen.columns += 1;
        if !column.complex {
            return self.cell(column.fixed, false);
        }
        let count = self.cursor.uvint().ok().filter(|count| *count > 0)?;
        for _ in 0..count {
            self.cell(None, true)?;
        }
        Some(())
    }

    fn cell(&mut self, fixed: Option<usize>, with_path: bool) -> Option<()> {
        let flags = self.cursor.u8().ok()?;
        if flags & !(CELL_EXPIRING | CELL_EMPTY | CELL_ROW_TIMESTAMP | CELL_ROW_TTL) != 0 {
            return None;
        }
        if flags & CELL_ROW_TIMESTAMP == 0 {
            self.timestamp()?;
        } else {
            self.row_timestamp?;
        }
        let expiry = match (flags & CELL_EXPIRING != 0, flags & CELL_ROW_TTL != 0) {
            (false, false) => None,
            (true, true) => Some(self.row_expiry?),
            (true, false) => {
                let at = self.expires_at()?;
                Some(Expiry { ttl: self.ttl()?, at })
            }
            (false, true) => return None,
        };
        if with_path {
            self.cursor.vbytes().ok()?;
        }
        match fixed {
            _ if flags & CELL_EMPTY != 0 => {}
            Some(size) => drop(self.cursor.bytes(size).ok()?),
            None => drop(self.cursor.vbytes().ok()?),
        }
        self.seen.cells += 1;
        self.seen.expiry(expiry);
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subset(total: usize, present: &[u16]) -> Vec<u8> {
        let cell = ColumnView::Simple(Cell::live(0, b""));
        let columns: Vec<(u16, ColumnView<'_>)> = present.iter().map(|index| (*index, cell)).collect();
        let mut out = Vec::new();
        put_subset(&mut out, total, &columns);
        assert_eq!(take_subset(&mut Cursor::new(&out), total).unwrap().as_slice(), present);
        out
    }

    #[test]
    fn subsets_are_those_of_the_reference() {
        assert_eq!(subset(1, &[]), [1]);
        assert_eq!(subset(3, &[1]), [0b101]);
        assert_eq!(subset(70, &[0, 69]), [0x44, 0x00, 0x45]);
        let most: Vec<u16> = (0..70).filter(|index| *index != 5 && *index != 6).collect();
        assert_eq!(subset(70, &most), [0x02, 0x05, 0x06]);
        subset(63, &[62]);
        subset(64, &[63]);
        subset(64, &[]);
    }

    #[test]
    fn broken_subsets_are_refused() {
        assert!(take_subset(&mut Cursor::new(&[0b1000]), 3).is_err());
        assert!(take_subset(&mut Cursor::new(&[0x44, 0x45, 0x00]), 70).is_err());
        assert!(take_subset(&mut Cursor::new(&[0x44, 0x00, 0x46]), 70).is_err());
        assert!(take_subset(&mut Cursor::new(&[0x47]), 70).is_err());
    }
}
