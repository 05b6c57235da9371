//! A hash of an answer's content, so that replicas can be compared without sending rows.
//!
//! It walks every deletion, liveness and cell, so equal content gives equal digests however the rows were packed. It is
//! compared only between nodes of one cluster within one request and never stored.

use crate::cell::Cell;
use crate::deletion::Deletion;
use crate::encoded::{Item, Mutation};
use crate::row::{ColumnView, RowView};
use base::murmur3;

/// A fault to plant, so that the simulator can prove it would be found. Never set outside of simulation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DigestFault {
    /// The walk over a row's cells ends at the first tombstone.
    StopsAtNull,
}

/// The digest of an answer's partitions, in their order. O(bytes).
pub fn digest(partitions: &[Mutation], fault: Option<DigestFault>) -> [u8; 16] {
    let (high, low) = murmur3(&content(partitions, fault));
    let mut digest = [0; 16];
    digest[..8].copy_from_slice(&high.to_be_bytes());
    digest[8..].copy_from_slice(&low.to_be_bytes());
    digest
}

/// What is hashed. Every list has a mark before each element and [`END`] behind the last, and everything of no fixed
/// length has its length before it, so different content never gives equal bytes.
///
/// ```text
/// partition: key, deletion, ROW row or END, items, END     item: ROW clustering row | RANGE bounds deletion
/// row: liveness, deletion, columns, END      column: SIMPLE ordinal cell | COMPLEX ordinal deletion cells END
/// ```
fn content(partitions: &[Mutation], fault: Option<DigestFault>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(256);
    for partition in partitions {
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
        for item in view.items() {
            match item {
                Item::Row { clustering, body } => {
                    bytes.push(ROW);
                    put(&mut bytes, clustering);
                    put_row(&mut bytes, body, fault);
                }
                Item::Range { start, end, deletion } => {
                    bytes.extend_from_slice(&[RANGE, start.side as u8, end.side as u8]);
                    put(&mut bytes, start.prefix);
                    put(&mut bytes, end.prefix);
                    put_deletion(&mut bytes, deletion);
                }
            }
        }
        bytes.push(END);
    }
    bytes.push(END);
    bytes
}

/// Behind the last element of a list, or where an optional element is not.
const END: u8 = 0;
const PARTITION: u8 = 1;
const ROW: u8 = 2;
const RANGE: u8 = 3;
const SIMPLE: u8 = 4;
const COMPLEX: u8 = 5;
const CELL: u8 = 6;

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
