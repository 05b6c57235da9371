//! Rows and range tombstones taken from one partition, in clustering order, on their way into a mutation.

use base::Token;
use mutation::{Bound, Buffer, Deletion, Mutation, MutationBuilder, RangeTombstone};
use schema::{Table, TableId};
use smallvec::SmallVec;
use std::ops::Range;

use crate::error::Error;
use crate::limits::FRAGMENT_BYTES_KEPT;
use crate::row::RowDecoder;
use crate::shape::Shape;
use crate::source::Window;
use crate::unfiltered::{take_partition, take_static};

/// The part of a partition that does not depend on clustering.
#[derive(Clone, Debug, Default)]
pub(crate) struct PartitionHead {
    /// The key.
    pub(crate) key: Vec<u8>,
    /// Its token.
    pub(crate) token: Token,
    /// The partition tombstone.
    pub(crate) deletion: Deletion,
    /// Packed static row; empty for none.
    pub(crate) static_row: Vec<u8>,
}

impl PartitionHead {
    /// Reads the head of the partition at a window's place and passes over it. The static row is decoded.
    pub(crate) async fn read(&mut self, shape: &Shape, window: &mut Window) -> Result<(), Error> {
        let (times, key) = (shape.times, &mut self.key);
        let (deletion, size) = window.decode(|bytes| take_partition(times, bytes, key)).await?;
        window.consume(size);
        (self.deletion, self.token) = (deletion, Token::of_key(&self.key));
        self.static_row.clear();
        if !shape.statics.columns.is_empty() {
            let (flags, body, size) = window.decode(take_static).await?;
            window.consume(size);
            window.require(body).await?;
            let decoder = RowDecoder { shape: &shape.statics, times };
            let decoded = decoder.decode(flags, &window.rest()[..body as usize], &mut self.static_row);
            decoded.map_err(|fault| fault.in_file(window.path(), window.position()))?;
            window.consume(body);
        }
        Ok(())
    }

    /// Becomes the head of the pieces after the first.
    pub(crate) fn go_on(&mut self) {
        self.deletion = Deletion::LIVE;
        self.static_row.clear();
    }
}

enum Item {
    Row { wire: Range<usize>, body: Range<usize> },
    Tombstone(RangeTombstone),
}

/// Items of one partition.
#[derive(Default)]
pub(crate) struct Fragment {
    bytes: Buffer,
    items: SmallVec<[Item; 1]>,
    tombstone_bytes: usize,
}

impl Fragment {
    /// Forgets all items, and gives up memory that only a large one needed.
    pub(crate) fn clear(&mut self) {
        if self.bytes.capacity() > FRAGMENT_BYTES_KEPT {
            self.bytes = Buffer::default();
        }
        self.bytes.clear();
        self.items.clear();
        self.tombstone_bytes = 0;
    }

    /// About how many bytes it makes in a mutation.
    pub(crate) fn size(&self) -> usize {
        self.bytes.len() + self.tombstone_bytes + self.items.len() * 16
    }

    /// How many items there are: the place of the next one.
    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }

    /// Adds a row whose packed form, of about so many bytes, a closure appends; the closure says whether there is one.
    pub(crate) fn row<E>(
        &mut self,
        wire: &[u8],
        about: usize,
        body: impl FnOnce(&mut Vec<u8>) -> Result<bool, E>,
    ) -> Result<(), E> {
        self.bytes.make_room(wire.len() + about);
        let start = self.bytes.len();
        self.bytes.extend_from_slice(wire);
        let middle = self.bytes.len();
        if body(&mut self.bytes)? {
            self.items.push(Item::Row { wire: start..middle, body: middle..self.bytes.len() });
        } else {
            self.bytes.truncate(start);
        }
        Ok(())
    }

    /// Adds a range tombstone at the place where it started. One that goes on where the one before ended is joined.
    pub(crate) fn tombstone(&mut self, place: usize, tombstone: RangeTombstone) {
        self.tombstone_bytes += tombstone.start.prefix.len() + tombstone.end.prefix.len() + 24;
        let before = self.items[..place].iter_mut().rev().find_map(|item| match item {
            Item::Tombstone(before) => Some(before),
            Item::Row { .. } => None,
        });
        match before {
            Some(before) if joins(before, &tombstone) => before.end = tombstone.end,
            _ => self.items.insert(place, Item::Tombstone(tombstone)),
        }
    }

    /// Adds the items of a later part of the partition.
    pub(crate) fn append(&mut self, later: Fragment) {
        self.bytes.make_room(later.bytes.len());
        let base = self.bytes.len();
        let shift = |range: Range<usize>| range.start + base..range.end + base;
        self.bytes.extend_from_slice(&later.bytes);
        for item in later.items {
            match item {
                Item::Row { wire, body } => {
                    self.items.push(Item::Row { wire: shift(wire), body: shift(body) })
                }
                Item::Tombstone(tombstone) => self.tombstone(self.items.len(), tombstone),
            }
        }
    }

    /// The mutation.
    pub(crate) fn build(&self, table: TableId, head: &PartitionHead) -> Mutation {
        let mut builder = MutationBuilder::new(table, head.token, &head.key);
        builder.deletion(head.deletion);
        if !head.static_row.is_empty() {
            builder.static_row(&head.static_row);
        }
        for item in &self.items {
            match item {
                Item::Row { wire, body } => builder.row(&self.bytes[wire.clone()], &self.bytes[body.clone()]),
                Item::Tombstone(tombstone) => builder.range(tombstone),
            }
        }
        builder.finish()
    }
}

fn joins(before: &RangeTombstone, tombstone: &RangeTombstone) -> bool {
    before.deletion == tombstone.deletion && before.end == tombstone.start
}

/// The range tombstone that is open at some place of a walk through a partition.
#[derive(Clone, Debug)]
pub(crate) struct OpenTombstone {
    /// Where it starts, or where the walk came upon it.
    pub(crate) start: Bound,
    /// What it deletes.
    pub(crate) deletion: Deletion,
    /// The place in the fragment where it belongs.
    pub(crate) place: usize,
}

impl OpenTombstone {
    /// Cuts it at a bound: what lies before goes into the fragment if one of the slices touches it.
    pub(crate) fn end(
        self,
        table: &Table,
        end: &Bound,
        slices: &[mutation::Slice],
        fragment: &mut Fragment,
    ) -> Result<(), mutation::Error> {
        let (start_at, end_at) = (self.start.position(table)?, end.position(table)?);
        let next = slices.partition_point(|slice| slice.end <= start_at);
        let touched = slices.get(next).is_some_and(|slice| slice.start < end_at);
        if start_at < end_at && touched {
            let tombstone = RangeTombstone { start: self.start, end: end.clone(), deletion: self.deletion };
            fragment.tombstone(self.place, tombstone);
        }
        Ok(())
    }
}
