//! A hash of an answer's content, so that replicas can be compared without sending rows.
//!
//! It walks every deletion, liveness and cell, so equal content gives equal digests however the rows were packed, and
//! wherever the tombstones lie that reach beyond what was asked for: files cut those at other places than memory does. It is
//! compared only between nodes of one cluster within one request and never stored.

use crate::answer::ReadAnswer;
use crate::cell::Cell;
use crate::command::ReadCommand;
use crate::deletion::Deletion;
use crate::encoded::{BoundRef, Item, Mutation};
use crate::row::{ColumnView, RowView, row_is_live};
use base::murmur3;
use schema::{Position, Table};
use smallvec::SmallVec;

/// A fault to plant, so that the simulator can prove it would be found. Never set outside of simulation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DigestFault {
    /// The walk over a row's cells ends at the first tombstone.
    StopsAtNull,
}

/// The digest of an answer to a command: its partitions in their order, of range tombstones what lies in the slices and in the
/// page. O(bytes), and for each range tombstone O(log slices).
/// The command has no limit for each partition, as replicas are asked. Where bytes end a page, equal content may end it at another
/// row, and have another digest.
pub fn digest(
    table: &Table,
    command: &ReadCommand,
    answer: &ReadAnswer,
    fault: Option<DigestFault>,
) -> [u8; 16] {
    let (high, low) = murmur3(&content(table, command, answer, fault));
    let mut digest = [0; 16];
    digest[..8].copy_from_slice(&high.to_be_bytes());
    digest[8..].copy_from_slice(&low.to_be_bytes());
    digest
}

/// What is hashed. Every list has a mark before each element and [`END`] behind the last, and everything of no fixed
/// length has its length before it, so different content never gives equal bytes.
///
/// ```text
/// partition: key, deletion, ROW row or END, rows, ranges, END
/// rows: ROW clustering row     ranges, ascending: RANGE position position deletion | ODD sides bounds deletion
/// row: liveness, deletion, columns, END      column: SIMPLE ordinal cell | COMPLEX ordinal deletion cells END
/// ```
fn content(table: &Table, command: &ReadCommand, answer: &ReadAnswer, fault: Option<DigestFault>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(256);
    for (index, partition) in answer.partitions.iter().enumerate() {
        let view = partition.view();
        bytes.push(PARTITION);
        put(&mut bytes, view.key);
        put_deletion(&mut bytes, view.deletion);
        match view.static_row {
            Some(row) => {
                bytes.push(ROW);
                put_row(&mut bytes, row, fault);
            }
            None => bytes.push(END),
        }
        let mut has_ranges = false;
        for item in view.items() {
            match item {
                Item::Row { clustering, body } => {
                    bytes.push(ROW);
                    put(&mut bytes, clustering);
                    put_row(&mut bytes, body, fault);
                }
                Item::Range { .. } => has_ranges = true,
            }
        }
        if has_ranges {
            let is_last = index + 1 == answer.partitions.len();
            let page = Page::of(table, command, answer, partition, is_last);
            put_ranges(&mut bytes, table, command, &page, partition);
        }
        bytes.push(END);
    }
    bytes.push(END);
    bytes
}

/// The part of a partition that an answer speaks of, `start <= position < end`.
struct Page {
    start: Position,
    end: Position,
}

impl Page {
    fn of(
        table: &Table,
        command: &ReadCommand,
        answer: &ReadAnswer,
        partition: &Mutation,
        is_last: bool,
    ) -> Page {
        let view = partition.view();
        let mut page = Page { start: Position::bottom(), end: Position::top() };
        let resume = command.resume.as_ref().filter(|resume| *resume.key.bytes == *view.key);
        if let Some(after) = resume.and_then(|resume| resume.after.as_ref()) {
            page.begin(after, command.reversed);
        }
        let stopped = answer.stopped.as_ref().filter(|stopped| *stopped.key.bytes == *view.key);
        if let Some(last) = stopped.and_then(|stopped| stopped.after.as_ref()) {
            page.stop(last, command.reversed);
        }
        if is_last && answer.live_rows >= command.row_limit {
            // With its last live row the page was full, whether or not it is known that more follows. A static row that counts has
            // none behind it.
            let rows = view.items().filter_map(|item| match item {
                Item::Row { clustering, body } => Some((clustering, body)),
                Item::Range { .. } => None,
            });
            if let Some((clustering, body)) = rows.last()
                && row_is_live(body, view.deletion, command.now_s)
                && let Ok(last) = table.position(clustering)
            {
                page.stop(&last, command.reversed);
            }
        }
        page
    }

    /// It begins behind a place in the order of reading.
    fn begin(&mut self, after: &Position, reversed: bool) {
        if reversed {
            self.end = after.clone();
        } else {
            self.start = after.successor();
        }
    }

    /// It ends with a place in the order of reading.
    fn stop(&mut self, last: &Position, reversed: bool) {
        if reversed {
            self.start = last.clone().max(self.start.clone());
        } else {
            self.end = last.successor().min(self.end.clone());
        }
    }
}

/// From, to, and what is deleted there.
type Piece = (Position, Position, Deletion);

/// Puts what of the range tombstones lies in the slices and in the page. One that does not fit the table goes in as it is.
fn put_ranges(bytes: &mut Vec<u8>, table: &Table, command: &ReadCommand, page: &Page, partition: &Mutation) {
    let mut pieces: SmallVec<[Piece; 4]> = SmallVec::new();
    for item in partition.view().items() {
        let Item::Range { start, end, deletion } = item else { continue };
        let (Ok(from), Ok(to)) = (place(table, start), place(table, end)) else {
            bytes.extend_from_slice(&[ODD, start.side as u8, end.side as u8]);
            put(bytes, start.prefix);
            put(bytes, end.prefix);
            put_deletion(bytes, deletion);
            continue;
        };
        let (from, to) = ((&from).max(&page.start), (&to).min(&page.end));
        let first = command.slices.partition_point(|slice| slice.end <= *from);
        for slice in command.slices[first..].iter().take_while(|slice| slice.start < *to) {
            let (from, to) = (from.max(&slice.start), to.min(&slice.end));
            if from < to {
                pieces.push((from.clone(), to.clone(), deletion));
            }
        }
    }
    pieces.sort_unstable_by(|a, b| (&a.0, &a.1, a.2.timestamp).cmp(&(&b.0, &b.1, b.2.timestamp)));
    // One that was cut in the middle is one.
    pieces.dedup_by(|next, piece| {
        let joins = piece.1 == next.0 && piece.2.timestamp == next.2.timestamp;
        if joins {
            std::mem::swap(&mut piece.1, &mut next.1);
        }
        joins
    });
    for (from, to, deletion) in &pieces {
        bytes.push(RANGE);
        put(bytes, from);
        put(bytes, to);
        put_deletion(bytes, *deletion);
    }
}

fn place(table: &Table, bound: BoundRef<'_>) -> Result<Position, schema::Error> {
    table.bound_position(bound.prefix, bound.side)
}

/// Behind the last element of a list, or where an optional element is not.
const END: u8 = 0;
const PARTITION: u8 = 1;
const ROW: u8 = 2;
const RANGE: u8 = 3;
const SIMPLE: u8 = 4;
const COMPLEX: u8 = 5;
const CELL: u8 = 6;
const ODD: u8 = 7;

fn put(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
    out.extend_from_slice(bytes);
}

fn put_deletion(out: &mut Vec<u8>, deletion: Deletion) {
    out.extend_from_slice(&deletion.timestamp.to_be_bytes());
}

fn put_row(out: &mut Vec<u8>, body: &[u8], fault: Option<DigestFault>) {
    let row = RowView::new(body);
    out.extend_from_slice(&row.liveness().timestamp.to_be_bytes());
    out.extend_from_slice(&row.liveness().ttl.to_be_bytes());
    put_deletion(out, row.deletion());
    for (ordinal, column) in row.columns() {
        match column {
            ColumnView::Simple(cell) => {
                out.push(SIMPLE);
                out.extend_from_slice(&ordinal.to_be_bytes());
                put_cell(out, &cell);
                if cell.is_tombstone() && fault == Some(DigestFault::StopsAtNull) {
                    break;
                }
            }
            ColumnView::Complex(complex) => {
                out.push(COMPLEX);
                out.extend_from_slice(&ordinal.to_be_bytes());
                put_deletion(out, complex.deletion);
                for (path, cell) in complex.cells() {
                    out.push(CELL);
                    put(out, path);
                    put_cell(out, &cell);
                }
                out.push(END);
            }
        }
    }
    out.push(END);
}

fn put_cell(out: &mut Vec<u8>, cell: &Cell<'_>) {
    out.extend_from_slice(&cell.timestamp.to_be_bytes());
    out.extend_from_slice(&cell.ttl.to_be_bytes());
    match cell.value {
        Some(value) => put(out, value),
        None => out.extend_from_slice(&u32::MAX.to_be_bytes()),
    }
}

#[cfg(test)]
mod tests;
