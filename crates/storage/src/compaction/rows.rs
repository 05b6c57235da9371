//! The rows of one partition that several inputs hold, merged in one pass: for the common case in which none of them has range
//! tombstones and each fits one piece.

use crate::Error;
use mutation::{Item, Rewrite, merge_rows, rewrite_row};
use schema::{Position, Table};
use sstable::{SourceSlice, Writer};
use std::cmp::Ordering;

/// The next row of one input.
struct Head<'s> {
    position: Position,
    clustering: &'s [u8],
    body: &'s [u8],
}

/// Whether a piece can be merged here: it is all of its partition, and says nothing about ranges.
pub(super) fn is_plain(slice: &SourceSlice) -> bool {
    slice.complete_to.is_none() && slice.mutation.view().items().all(|item| matches!(item, Item::Row { .. }))
}

/// Writes the rows of plain pieces, each once. `rewrite`: what is left out; `None` when there is nothing to leave out.
/// Cost: one comparison of positions per row and input.
pub(super) fn write_merged(
    table: &Table,
    slices: &[SourceSlice],
    rewrite: Option<&Rewrite>,
    writer: &mut Writer,
) -> Result<(), Error> {
    let mut rows: Vec<_> = slices.iter().map(|slice| slice.mutation.view().rows()).collect();
    let mut next = |index: usize| -> Result<Option<Head<'_>>, Error> {
        let Some((clustering, body)) = rows[index].next() else { return Ok(None) };
        let position = table.position(clustering).map_err(mutation::Error::from)?;
        Ok(Some(Head { position, clustering, body }))
    };
    let mut heads: Vec<Option<Head<'_>>> = (0..slices.len()).map(&mut next).collect::<Result<_, _>>()?;
    let mut least: Vec<usize> = Vec::with_capacity(slices.len());
    let (mut merged, mut scratch) = (Vec::new(), Vec::new());
    loop {
        find_least(&heads, &mut least);
        let mut same = least.iter().filter_map(|index| heads[*index].as_ref());
        let Some(first) = same.next() else { return Ok(()) };
        let (mut clustering, mut several) = (first.clustering, false);
        for other in same {
            // Equal values can have several byte forms, such as 10.0 and 10.00: one of them, whatever came first.
            clustering = clustering.max(other.clustering);
            scratch.clear();
            let before = if several { &merged } else { first.body };
            merge_rows(table, false, before, other.body, &mut scratch);
            std::mem::swap(&mut scratch, &mut merged);
            several = true;
        }
        let body = if several { &merged } else { first.body };
        match rewrite {
            None => writer.row(clustering, body)?,
            Some(rewrite) => {
                scratch.clear();
                if rewrite_row(body, rewrite, &mut scratch) {
                    writer.row(clustering, &scratch)?;
                }
            }
        }
        for index in &least {
            heads[*index] = next(*index)?;
        }
    }
}

/// The places of the rows that come first.
fn find_least(heads: &[Option<Head<'_>>], least: &mut Vec<usize>) {
    least.clear();
    for (index, head) in heads.iter().enumerate() {
        let Some(head) = head else { continue };
        let known = least.first().and_then(|first| heads[*first].as_ref());
        match known.map_or(Ordering::Less, |known| head.position.cmp(&known.position)) {
            Ordering::Less => {
                least.clear();
                least.push(index);
            }
            Ordering::Equal => least.push(index),
            Ordering::Greater => {}
        }
    }
}
