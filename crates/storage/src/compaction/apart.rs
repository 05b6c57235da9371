//! What a scrub finds out of order: it is kept in memory, in order, and written to sstables of its own whenever that is much.
//!
//! ```text
//! file           1 2 9 3 4 5      a row or partition that does not lie behind what was written
//! first sstable  1 2 9
//! apart                3 4 5      in memory up to a limit, then an sstable of level 0
//! ```
//! Nothing is purged: the same partition may stand in the file twice.

use super::output::Output;
use crate::Error;
use crate::limits::{SCRUB_APART_BYTES, WRITER_PENDING_BYTES};
use mutation::{Item, Key, MutationView, Partition};
use schema::{Position, Table};
use sstable::{SourceSlice, Writer};
use std::collections::BTreeMap;

/// Pieces of partitions that wait to be written apart.
#[derive(Default)]
pub(super) struct Apart {
    partitions: BTreeMap<Key, Partition>,
    bytes: usize,
}

impl Apart {
    /// Takes a piece of a partition. True: it is time to write what there is.
    pub(super) fn take(&mut self, table: &Table, key: &Key, piece: &SourceSlice) -> Result<bool, Error> {
        self.partitions.entry(key.clone()).or_default().apply(table, &piece.mutation.view())?;
        self.bytes += key.bytes.len() + piece.mutation.as_bytes().len();
        Ok(SCRUB_APART_BYTES <= self.bytes || runtime::rare("small_scrub_apart"))
    }

    /// Partitions that wait.
    pub(super) fn len(&self) -> usize {
        self.partitions.len()
    }

    /// Writes what there is as one sstable, and forgets it.
    pub(super) async fn write(&mut self, output: &mut Output<'_>) -> Result<(), Error> {
        self.bytes = 0;
        for (key, partition) in std::mem::take(&mut self.partitions) {
            let writer = output.open(key.token).await?;
            write(&key, &partition, writer)?;
            if output.pending_bytes() >= WRITER_PENDING_BYTES {
                output.writer().drain().await?;
            }
            runtime::yield_if_needed().await;
        }
        output.end().await
    }
}

fn write(key: &Key, partition: &Partition, writer: &mut Writer) -> Result<(), Error> {
    writer.start_partition(&key.bytes, key.token, partition.deletion, partition.static_row.as_deref())?;
    let mut ranges = partition.ranges.overlapping(&Position::bottom(), &Position::top()).peekable();
    for (position, row) in partition.rows() {
        while let Some((_, _, range)) = ranges.next_if(|(start, ..)| start < position) {
            writer.range_tombstone(&range)?;
        }
        writer.row(row.clustering(), row.body())?;
    }
    for (_, _, range) in ranges {
        writer.range_tombstone(&range)?;
    }
    writer.end_partition()?;
    Ok(())
}

/// How far a partition is written: a row or range tombstone that follows has to lie behind it.
#[derive(Clone, Default)]
pub(super) struct Reached {
    /// The last row, or where the last range tombstone starts.
    item: Option<Position>,
    range_end: Option<Position>,
}

impl Reached {
    /// Goes on to the end of a piece. False, and nothing done: something in it is out of order.
    pub(super) fn pass(&mut self, table: &Table, piece: &MutationView<'_>) -> Result<bool, Error> {
        let mut reached = self.clone();
        for item in piece.items() {
            let in_order = match item {
                Item::Row { clustering, .. } => {
                    let position = table.position(clustering).map_err(mutation::Error::from)?;
                    let in_order = reached.item.as_ref().is_none_or(|item| *item < position);
                    reached.item = Some(position);
                    in_order
                }
                Item::Range { start, end, .. } => {
                    let (start, end) = (start.to_bound().position(table)?, end.to_bound().position(table)?);
                    let before = reached.item.as_ref().max(reached.range_end.as_ref());
                    let in_order = before.is_none_or(|before| *before <= start) && start <= end;
                    (reached.item, reached.range_end) = (Some(start), Some(end));
                    in_order
                }
            };
            if !in_order {
                return Ok(false);
            }
        }
        *self = reached;
        Ok(true)
    }
}
