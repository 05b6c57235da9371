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
    let mut bytes = Vec::with_capacity(256);
    for partition in partitions {
        let view = partition.view();
        put(&mut bytes, view.key);
        put_deletion(&mut bytes, view.deletion);
        if let Some(row) = view.static_row {
            put_row(&mut bytes, row, fault);
        }
        for item in view.items() {
            match item {
                Item::Row { clustering, body } => {
                    put(&mut bytes, clustering);
                    put_row(&mut bytes, body, fault);
                }
                Item::Range { start, end, deletion } => {
                    put(&mut bytes, start.prefix);
                    put(&mut bytes, end.prefix);
                    bytes.extend_from_slice(&[start.side as u8, end.side as u8]);
                    put_deletion(&mut bytes, deletion);
                }
            }
        }
    }
    let (high, low) = murmur3(&bytes);
    let mut digest = [0; 16];
    digest[..8].copy_from_slice(&high.to_be_bytes());
    digest[8..].copy_from_slice(&low.to_be_bytes());
    digest
}

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
        out.extend_from_slice(&ordinal.to_be_bytes());
        match column {
            ColumnView::Simple(cell) => {
                put_cell(out, &cell);
                if cell.is_tombstone() && fault == Some(DigestFault::StopsAtNull) {
                    return;
                }
            }
            ColumnView::Complex(complex) => {
                put_deletion(out, complex.deletion);
                for (path, cell) in complex.cells() {
                    put(out, path);
                    put_cell(out, &cell);
                }
            }
        }
    }
    out.push(0xff);
}

fn put_cell(out: &mut Vec<u8>, cell: &Cell<'_>) {
    out.extend_from_slice(&cell.timestamp.to_be_bytes());
    out.extend_from_slice(&cell.ttl.to_be_bytes());
    match cell.value {
        Some(value) => put(out, value),
        None => out.extend_from_slice(&u32::MAX.to_be_bytes()),
    }
}
