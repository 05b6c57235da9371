//! The rows of one partition that several inputs hold, merged in one pass: for the common case in which none of them has range
//! tombstones and each fits one piece.

use crate::Error;
use mutation::{Buffer, Item, Rewrite, merge_rows, rewrite_row};
use schema::{Position, Table};
use smallvec::SmallVec;
use sstable::{SourceSlice, Writer};
use std::cmp::Ordering;

/// Inputs of a merge that needs no allocation for its lists.
const INPUTS: usize = 4;
/// Places of inputs.
type Least = SmallVec<[usize; INPUTS]>;

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
    let mut rows: SmallVec<[_; INPUTS]> = slices.iter().map(|slice| slice.mutation.view().rows()).collect();
    let mut next = |index: usize| -> Result<Option<Head<'_>>, Error> {
        let Some((clustering, body)) = rows[index].next() else { return Ok(None) };
        let position = table.position(clustering).map_err(mutation::Error::from)?;
        Ok(Some(Head { position, clustering, body }))
    };
    let mut heads: SmallVec<[Option<Head<'_>>; INPUTS]> =
        (0..slices.len()).map(&mut next).collect::<Result<_, _>>()?;
    let mut least = Least::new();
    let (mut merged, mut scratch) = (Buffer::default(), Buffer::default());
    loop {
        find_least(&heads, &mut least);
        let mut same = least.iter().filter_map(|index| heads[*index].as_ref());
        let Some(first) = same.next() else { return Ok(()) };
        let (mut clustering, mut several) = (first.clustering, false);
        for other in same {
            // Equal values can have several byte forms, such as 10.0 and 10.00: one of them, whatever came first.
            clustering = clustering.max(other.clustering);
            let before: &[u8] = if several { &merged } else { first.body };
            scratch.clear();
            scratch.make_room(before.len() + other.body.len());
            merge_rows(table, false, before, other.body, &mut scratch);
            std::mem::swap(&mut scratch, &mut merged);
            several = true;
        }
        let body: &[u8] = if several { &merged } else { first.body };
        match rewrite {
            None => writer.row(clustering, body)?,
            Some(rewrite) => {
                scratch.clear();
                scratch.make_room(body.len());
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
fn find_least(heads: &[Option<Head<'_>>], least: &mut Least) {
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
