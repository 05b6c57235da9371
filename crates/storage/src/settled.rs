//! Whether what is known of a partition makes older sstables not worth asking.
//!
//! Everything in an sstable is at most as new as its newest timestamp. A partition tombstone that is newer hides all of it;
//! a row whose every column is newer cannot be changed by any of it. What proves this stays true while writes go on: data
//! only gets newer.

use crate::memtable::MemtableReading;
use mutation::{Body, ColumnView, Key, Partition, PartitionView, ReadCommand, RowRef, RowView, merge_rows};
use schema::{Position, Table};
use smallvec::SmallVec;
use types::CqlType;
use types::order::{AFTER, BEFORE, END};

/// Where the one row is that a command asks for, if it asks for one and whole rows of the table are made of single cells.
/// Shape: bounds on both sides of one prefix. If the prefix is shorter than a clustering, no row is at the place.
pub(crate) fn only_row(table: &Table, command: &ReadCommand) -> Option<Position> {
    let [slice] = &command.slices[..] else { return None };
    let ([first @ .., BEFORE], [last @ .., AFTER]) = (slice.start.as_bytes(), slice.end.as_bytes()) else {
        return None;
    };
    if first != last || !is_plain(table) {
        return None;
    }
    let mut position: SmallVec<[u8; 32]> = SmallVec::from_slice(first);
    position.push(END);
    Some(Position::from_bytes(&position))
}

/// Whether rows of a table are made of single cells, and nothing stands beside them.
fn is_plain(table: &Table) -> bool {
    let single = |ty: &CqlType| !matches!(ty, CqlType::Counter) && !ty.is_multi_cell();
    table.statics.is_empty()
        && !table.regulars.is_empty()
        && !table.hides_cells()
        && table.regulars.iter().all(|column| single(&column.ty))
}

/// Whether nothing at or before a timestamp can change what a partition says, now or when more is written.
pub(crate) fn is_whole<V: PartitionView>(table: &Table, partition: &V, before: i64) -> bool {
    if partition.deletion().outdates(before) {
        return true;
    }
    let mut rows = partition.rows_between(&Position::bottom(), None, false);
    // Without a clustering there is no other row.
    table.clustering.is_empty()
        && is_plain(table)
        && rows.next().is_some_and(|row| is_row_settled(table, row, before))
}

/// As [`is_settled`], for a row where it lies; one in pieces is not looked at.
pub(crate) fn is_row_settled(table: &Table, row: RowRef<'_>, before: i64) -> bool {
    match row.body {
        Body::Whole(body) => is_settled(table, body, before),
        Body::Pieces(_) => false,
    }
}

/// Whether nothing at or before a timestamp can change what the row says, now or when more is written.
pub(crate) fn is_settled(table: &Table, body: &[u8], before: i64) -> bool {
    let row = RowView::new(body);
    let is_newer =
        |column: ColumnView<'_>| matches!(column, ColumnView::Simple(cell) if cell.timestamp > before);
    let newer = row.columns().filter(|(_, column)| is_newer(*column)).count();
    // Without a newer mark of its own an older one says that the row exists, once its cells are deleted or expire.
    row.liveness().timestamp > before && newer == table.regulars.len()
}

/// What memtables and what was fetched so far say about one row, merged; `None`: nothing.
pub(crate) fn row_so_far(
    table: &Table,
    key: &Key,
    position: &Position,
    memory: &[MemtableReading<'_>],
    fetched: Option<&Partition>,
) -> Option<Vec<u8>> {
    let mut row: Option<Vec<u8>> =
        fetched.and_then(|known| known.row(position)).map(|row| row.body().to_vec());
    let mut pieces = Vec::new();
    for view in memory.iter().filter_map(|memtable| memtable.get(key.token, &key.bytes)) {
        let end = position.successor();
        let Some(found) = view.rows_between(position, Some(&end), false).next() else {
            continue;
        };
        let body = found.body.whole(&mut pieces);
        row = Some(match row {
            None => body.to_vec(),
            Some(old) => {
                let mut merged = Vec::with_capacity(old.len() + body.len());
                merge_rows(table, false, &old, body, &mut merged);
                merged
            }
        });
    }
    row
}
