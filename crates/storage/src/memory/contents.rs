//! The partitions of one memtable: how they are kept, and how a mutation changes them.
//!
//! ```text
//! u8 kind | 80 more   length, key   [80] u32 place of more      more: partition tombstone, static row, range tombstones
//! kind 0 one row      the row, as in `rows`
//!      1 few rows     u8 count, u8 room, u32 handle × room      in the order of their positions
//!      2 many rows    u32 tree
//! ```
//! A partition stays where it is while it can: what its one row took becomes the list of its rows, and that list the place
//! of a tree. Where it moves, the directory is told. Nothing is taken out, so what moved leaves garbage until all is freed.

use super::PagedVec;
use super::directory::{Batch, Next, TokenDirectory};
use super::large::{LargeRow, LargeScratch};
use super::region::{Region, SegmentPool};
use super::rows::{
    NewRecord, Origin, Record, Stored, is_large, length_at, length_bytes, position, put_length, spare_of,
    u32_at,
};
use super::slab::Slab;
use super::tree::Trees;
use crate::limits::PREFETCHED_BYTES;
use base::{Token, prefetch};
use mutation::{
    Deletion, Error, Item, MutationView, RangeTombstone, RangeTombstones, TokenRange, check_positions,
    merge_rows, normalized, replaces, row_timestamps,
};
use runtime::pages::PushSlice;
use schema::Table;
use std::cell::{Cell, RefCell};
use std::cmp::Ordering;

/// Rows of a partition that are kept in a list; with more they have a tree.
const FEW_MAX: usize = 16;
/// The partition has more than rows.
const MORE: u8 = 0x80;
/// Fragments of large rows, and partitions with more than rows, freed in one step.
const FREED_MAX: usize = 256;
/// Bytes of scratch memory that are kept between writes.
const SCRATCH_BYTES_MAX: usize = 1 << 20;

/// How the rows of a partition are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    One,
    Few,
    Many,
}

/// What few partitions have.
#[derive(Debug)]
pub(super) struct More {
    pub(super) deletion: Deletion,
    /// Handle of the static row, kept as a row without a position.
    pub(super) static_row: Option<u32>,
    pub(super) ranges: Option<Box<RangeTombstones>>,
    /// Nothing in it is older.
    pub(super) oldest: i64,
}

/// The head of a partition, read where it lies.
#[derive(Clone, Copy)]
pub(super) struct Head<'a> {
    pub(super) kind: Kind,
    pub(super) key: &'a [u8],
    pub(super) more: Option<u32>,
    /// Where its rows are.
    pub(super) rows_at: usize,
}

impl<'a> Head<'a> {
    #[inline]
    pub(super) fn read(bytes: &'a [u8]) -> Head<'a> {
        let kind = match bytes[0] & !MORE {
            0 => Kind::One,
            1 => Kind::Few,
            _ => Kind::Many,
        };
        let (len, at) = length_at(bytes, 1);
        let key = &bytes[at..at + len];
        let at = at + len;
        if bytes[0] & MORE == 0 {
            return Head { kind, key, more: None, rows_at: at };
        }
        Head { kind, key, more: Some(u32_at(bytes, at)), rows_at: at + 4 }
    }

    fn size(key: &[u8], more: Option<u32>) -> usize {
        1 + length_bytes(key.len()) + key.len() + if more.is_some() { 4 } else { 0 }
    }

    fn write(kind: Kind, key: &[u8], more: Option<u32>, out: &mut PagedVec<u8>) {
        out.push(kind as u8 | if more.is_some() { MORE } else { 0 });
        put_length(out, key.len());
        out.push_slice(key);
        if let Some(more) = more {
            out.push_slice(&more.to_le_bytes());
        }
    }
}

/// The handles of a partition of few rows.
#[derive(Clone, Copy)]
pub(super) struct Few<'a> {
    bytes: &'a [u8],
}

impl<'a> Few<'a> {
    pub(super) fn read(bytes: &'a [u8]) -> Few<'a> {
        Few { bytes }
    }

    pub(super) fn len(self) -> usize {
        usize::from(self.bytes[0])
    }

    fn room(self) -> usize {
        usize::from(self.bytes[1])
    }

    pub(super) fn handle(self, at: usize) -> u32 {
        u32_at(self.bytes, 2 + 4 * at)
    }

    fn size(room: usize) -> usize {
        2 + 4 * room
    }

    /// The first row that is not before a position, and whether it is there.
    pub(super) fn seek(self, region: &Region, sought: &[u8]) -> (usize, bool) {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = (low + high) / 2;
            match position(region.at(self.handle(middle))).cmp(sought) {
                Ordering::Less => low = middle + 1,
                Ordering::Equal => return (middle, true),
                Ordering::Greater => high = middle,
            }
        }
        (low, false)
    }
}

/// Where something is being changed: the partition, and what it takes to find it in the directory.
#[derive(Clone, Copy)]
struct Target<'a> {
    token: Token,
    key: &'a [u8],
    handle: u32,
}

/// A row to be merged in.
#[derive(Clone, Copy)]
struct RowIn<'a> {
    table: &'a Table,
    is_static: bool,
    clustering: &'a [u8],
    body: &'a [u8],
}

/// Buffers that writes use one after the other.
#[derive(Default)]
struct Scratch {
    position: Vec<u8>,
    merged: Vec<u8>,
    moved: Vec<u8>,
    large: LargeScratch,
}

/// What the memtables of one shard share: segments to use again, buffers, and what is to be freed.
#[derive(Default)]
pub(crate) struct MemoryPool {
    segments: SegmentPool,
    scratch: Cell<Scratch>,
    retired: RefCell<Vec<Contents>>,
    #[cfg(test)]
    retired_most: Cell<usize>,
}

impl MemoryPool {
    /// Takes over what a memtable held; [`MemoryPool::reclaim`] frees it. O(1).
    pub(crate) fn retire(&self, contents: Contents) {
        #[cfg(test)]
        self.retired_most.set(self.retired_most.get().max(self.retired_bytes() + contents.bytes()));
        self.retired.borrow_mut().push(contents);
    }

    /// Frees about a segment's worth of what is retired, in some microseconds. Returns whether there is more.
    pub(crate) fn reclaim(&self) -> bool {
        let Some(mut contents) = self.retired.borrow_mut().pop() else { return false };
        if contents.free_some(&self.segments) {
            self.retired.borrow_mut().push(contents);
            return true;
        }
        !self.retired.borrow().is_empty()
    }

    /// Frees all that is retired, in steps between which others run. Returns when nothing of it is left.
    pub(crate) async fn free(&self) {
        while self.reclaim() {
            runtime::yield_if_needed().await;
        }
    }

    /// Bytes that are left to be freed.
    #[cfg(test)]
    pub(crate) fn retired_bytes(&self) -> usize {
        self.retired.borrow().iter().map(Contents::bytes).sum()
    }

    /// The most of them that ever were.
    #[cfg(test)]
    pub(crate) fn retired_most(&self) -> usize {
        self.retired_most.get()
    }

    /// Bytes of the buffers.
    #[cfg(test)]
    pub(super) fn scratch_bytes(&self) -> usize {
        let scratch = self.scratch.take();
        let bytes = scratch.position.capacity() + scratch.merged.capacity() + scratch.moved.capacity();
        let bytes = bytes + scratch.large.bytes();
        self.scratch.set(scratch);
        bytes
    }

    /// Bytes of segments that are kept to be used again.
    #[cfg(test)]
    pub(crate) fn free_bytes(&self) -> usize {
        self.segments.free_bytes()
    }
}

/// Partitions in memory.
pub(crate) struct Contents {
    directory: TokenDirectory,
    pub(super) region: Region,
    pub(super) trees: Trees,
    pub(super) more: Slab<More, 64>,
    pub(super) large: Slab<LargeRow, 8>,
    /// Heap of large rows and range tombstones.
    heap_bytes: usize,
}

impl Contents {
    /// Empty, which takes no memory, for partitions whose tokens mostly lie in a range.
    pub(crate) fn new(range: TokenRange) -> Contents {
        Contents {
            directory: TokenDirectory::new(range),
            region: Region::default(),
            trees: Trees::default(),
            more: Slab::default(),
            large: Slab::default(),
            heap_bytes: 0,
        }
    }

    /// Bytes of memory it takes: all of its pages, used or not.
    pub(crate) fn bytes(&self) -> usize {
        let slabs = self.trees.bytes() + self.more.bytes() + self.large.bytes();
        self.directory.bytes() + self.region.bytes() + slabs + self.heap_bytes
    }

    /// Bytes that nothing refers to any more.
    pub(crate) fn garbage(&self) -> usize {
        self.region.garbage()
    }

    /// How many partitions it has.
    pub(crate) fn partitions(&self) -> usize {
        self.directory.len()
    }

    /// Whether it may take no further mutation: it has as many segments as handles can name.
    pub(crate) fn is_full(&self) -> bool {
        self.region.is_nearly_full()
    }

    /// The handle of a partition.
    #[inline]
    pub(crate) fn find(&self, token: Token, key: &[u8]) -> Option<u32> {
        self.directory.get(token, |handle| self.key(handle).cmp(key))
    }

    /// As [`Contents::find`], for a read: the partition is marked as one that was read.
    #[inline]
    pub(crate) fn find_to_read(&self, token: Token, key: &[u8]) -> Option<u32> {
        self.directory.get_marked(token, |handle| self.key(handle).cmp(key))
    }

    /// Whether a partition was read.
    pub(crate) fn was_read(&self, token: Token, key: &[u8]) -> bool {
        self.directory.is_marked(token, |handle| self.key(handle).cmp(key))
    }

    /// Whether any partition was read.
    pub(crate) fn was_any_read(&self) -> bool {
        self.directory.is_any_marked()
    }

    /// Has what [`Contents::find`] and a look at the partition touch come into the processor's caches, step by step: to be
    /// called with 0, 1, 2 and 3, some time apart.
    #[inline]
    pub(crate) fn prefetch(&self, token: Token, step: usize) {
        match step {
            0 => self.directory.prefetch_node(token),
            1 => self.directory.prefetch_entry(token),
            2 => self.directory.prefetch_bucket(token),
            3 => {
                if let Some(handle) = self.directory.peek(token) {
                    prefetch(self.region.at(handle), PREFETCHED_BYTES);
                }
            }
            _ => {}
        }
    }

    /// The key of a partition.
    #[inline]
    pub(crate) fn key(&self, handle: u32) -> &[u8] {
        Head::read(self.region.at(handle)).key
    }

    /// Handles in the order of the ring, from a token on; of that token only those whose keys are behind `after`.
    pub(crate) fn batch_behind(&self, token: Token, after: Option<&[u8]>, out: &mut Batch) -> Next {
        let is_behind = |handle: u32| after.is_none_or(|after| self.key(handle) > after);
        self.directory.batch_behind(token, is_behind, |a, b| self.key(a).cmp(self.key(b)), out)
    }

    /// As [`Contents::batch_behind`], where an earlier batch ended, if nothing was written since.
    pub(crate) fn batch_at(&self, place: super::directory::Place, out: &mut Batch) -> Next {
        self.directory.batch_at(place, |a, b| self.key(a).cmp(self.key(b)), out)
    }

    /// A hint that [`Contents::batch_at`] will be called with that place.
    pub(crate) fn prefetch_place(&self, place: super::directory::Place) {
        self.directory.prefetch_place(place);
    }

    /// Merges a mutation in. Errors: a clustering does not fit the table; nothing was applied.
    pub(crate) fn apply(
        &mut self,
        pool: &MemoryPool,
        table: &Table,
        mutation: &MutationView<'_>,
    ) -> Result<(), Error> {
        let mut scratch = pool.scratch.take();
        let before = self.region.bytes();
        let applied = self.apply_with(&pool.segments, &mut scratch, table, mutation);
        scratch.merged.clear();
        scratch.merged.shrink_to(SCRATCH_BYTES_MAX);
        scratch.large.shrink_to(SCRATCH_BYTES_MAX);
        pool.scratch.set(scratch);
        if self.region.bytes() != before {
            // What takes memory frees what nobody needs.
            pool.reclaim();
        }
        applied
    }

    fn apply_with(
        &mut self,
        pool: &SegmentPool,
        scratch: &mut Scratch,
        table: &Table,
        mutation: &MutationView<'_>,
    ) -> Result<(), Error> {
        let MutationView { token, key, .. } = *mutation;
        let mut items = mutation.items();
        let only = match (items.next(), items.next()) {
            (Some(Item::Row { clustering, body }), None) => Some((clustering, body)),
            _ => None,
        };
        if let Some((clustering, body)) = only
            && mutation.deletion.is_live()
            && mutation.static_row.is_none()
        {
            scratch.position.clear();
            table.push_position(clustering, &mut scratch.position)?;
            let row = RowIn { table, is_static: false, clustering, body };
            match self.find(token, key) {
                Some(handle) => self.apply_row(pool, scratch, Target { token, key, handle }, row),
                None => self.add_single(pool, scratch, token, key, row),
            };
            return Ok(());
        }
        check_positions(table, mutation)?;
        let handle = self.find(token, key).unwrap_or_else(|| self.add_empty(pool, token, key));
        let mut target = Target { token, key, handle };
        if !mutation.deletion.is_live() {
            let more = self.more_of(pool, scratch, &mut target);
            let more = self.more.get_mut(more);
            more.deletion = more.deletion.max(mutation.deletion);
            more.oldest = more.oldest.min(mutation.deletion.timestamp);
        }
        if let Some(body) = mutation.static_row {
            let more = self.more_of(pool, scratch, &mut target);
            self.apply_static(pool, scratch, more, RowIn { table, is_static: true, clustering: &[], body });
        }
        for item in mutation.items() {
            match item {
                Item::Row { clustering, body } => {
                    scratch.position.clear();
                    table.push_position(clustering, &mut scratch.position)?;
                    let row = RowIn { table, is_static: false, clustering, body };
                    target.handle = self.apply_row(pool, scratch, target, row);
                }
                Item::Range { start, end, deletion } => {
                    let more = self.more_of(pool, scratch, &mut target);
                    let More { ranges, oldest, .. } = self.more.get_mut(more);
                    *oldest = deletion.timestamp.min(*oldest);
                    let fresh = ranges.is_none();
                    let ranges = ranges.get_or_insert_default();
                    let before = ranges.memory_bytes();
                    let tombstone = RangeTombstone { start: start.to_bound(), end: end.to_bound(), deletion };
                    ranges.add(table, tombstone)?;
                    let head = if fresh { size_of::<RangeTombstones>() } else { 0 };
                    self.heap_bytes = self.heap_bytes + head + ranges.memory_bytes() - before;
                }
            }
        }
        Ok(())
    }

    fn add(&mut self, pool: &SegmentPool, len: usize, write: impl FnOnce(&mut PagedVec<u8>)) -> u32 {
        self.region.add(pool, len, write).expect("a region that is nearly full takes no mutation")
    }

    fn enter(&mut self, token: Token, handle: u32) {
        let Contents { directory, region, .. } = self;
        let key = |handle| Head::read(region.at(handle)).key;
        directory.insert(token, handle, |a, b| key(a).cmp(key(b)));
    }

    /// A partition of one row.
    fn add_single(
        &mut self,
        pool: &SegmentPool,
        scratch: &mut Scratch,
        token: Token,
        key: &[u8],
        row: RowIn<'_>,
    ) -> u32 {
        let normal = normalized(row.body);
        let body = normal.as_deref().unwrap_or(row.body);
        let body = self.stored(row, body, Origin::New, &mut scratch.large);
        let record = NewRecord { position: &scratch.position, clustering: row.clustering, body, spare: 0 };
        let handle = self.add(pool, Head::size(key, None) + record.size(), |out| {
            Head::write(Kind::One, key, None, out);
            record.write(out);
        });
        self.enter(token, handle);
        handle
    }

    /// A partition without rows.
    fn add_empty(&mut self, pool: &SegmentPool, token: Token, key: &[u8]) -> u32 {
        let handle = self.add(pool, Head::size(key, None) + Few::size(0), |out| {
            Head::write(Kind::Few, key, None, out);
            out.push_slice(&[0, 0]);
        });
        self.enter(token, handle);
        handle
    }

    /// The bytes of a row, or where it is when they are too many.
    fn stored<'b>(
        &mut self,
        row: RowIn<'_>,
        body: &'b [u8],
        origin: Origin,
        scratch: &mut LargeScratch,
    ) -> Stored<'b> {
        if !is_large(body.len(), origin) {
            return Stored::Whole(body);
        }
        let mut large = LargeRow::new(row.is_static);
        large.apply(row.table, body, scratch);
        self.heap_bytes += large.bytes();
        Stored::Large(self.large.push(large))
    }

    /// Adds a row by itself; returns its handle.
    fn add_row(
        &mut self,
        pool: &SegmentPool,
        position: &[u8],
        clustering: &[u8],
        body: Stored<'_>,
        origin: Origin,
    ) -> u32 {
        let spare = spare_of(body, origin);
        let record = NewRecord { position, clustering, body, spare };
        self.add(pool, record.size(), |out| record.write(out))
    }

    /// As [`Contents::add_row`], of a row as it was written.
    fn add_new_row(&mut self, pool: &SegmentPool, scratch: &mut Scratch, row: RowIn<'_>) -> u32 {
        let normal = normalized(row.body);
        let body = normal.as_deref().unwrap_or(row.body);
        let body = self.stored(row, body, Origin::New, &mut scratch.large);
        let position: &[u8] = if row.is_static { &[] } else { &scratch.position };
        self.add_row(pool, position, row.clustering, body, Origin::New)
    }

    /// Merges a row whose position is in `scratch` into a partition; returns the handle of the partition afterwards.
    fn apply_row(
        &mut self,
        pool: &SegmentPool,
        scratch: &mut Scratch,
        target: Target<'_>,
        row: RowIn<'_>,
    ) -> u32 {
        let bytes = self.region.at(target.handle);
        let Head { kind, rows_at, .. } = Head::read(bytes);
        match kind {
            Kind::One => {
                if position(&bytes[rows_at..]) == scratch.position {
                    return self.apply_to_only(pool, scratch, target, rows_at, row);
                }
                let target = self.make_few(pool, scratch, target, rows_at);
                self.apply_row(pool, scratch, target, row)
            }
            Kind::Few => {
                let few = Few::read(&bytes[rows_at..]);
                let (at, found) = few.seek(&self.region, &scratch.position);
                if !found {
                    let handle = self.add_new_row(pool, scratch, row);
                    return self.add_to_few(pool, scratch, target, at, handle);
                }
                let known = few.handle(at);
                if let Some(moved) = self.merge_row(pool, scratch, known, row) {
                    let place = rows_at + 2 + 4 * at;
                    self.put_u32(target.handle, place, moved);
                }
                target.handle
            }
            Kind::Many => {
                let tree = u32_at(bytes, rows_at);
                if let Some((oldest, _)) = row_timestamps(row.body) {
                    self.trees.age(tree, oldest);
                }
                let region = &self.region;
                let (spot, found) = self.trees.seek(tree, &scratch.position, |row| position(region.at(row)));
                if found {
                    let known = self.trees.row(spot);
                    if let Some(moved) = self.merge_row(pool, scratch, known, row) {
                        self.trees.set(spot, moved);
                    }
                } else {
                    let handle = self.add_new_row(pool, scratch, row);
                    let region = &self.region;
                    self.trees.insert(tree, handle, |row| position(region.at(row)));
                }
                target.handle
            }
        }
    }

    fn put_u32(&mut self, handle: u32, at: usize, number: u32) {
        self.region.at_mut(handle)[at..at + 4].copy_from_slice(&number.to_le_bytes());
    }

    /// Merges into the row that begins at `at` behind a handle, where there is room for what comes of it.
    /// Where it has to move, what comes of it is in `scratch`, or is the new body as it was written.
    fn merge_in_place(&mut self, scratch: &mut Scratch, handle: u32, at: usize, row: RowIn<'_>) -> Outcome {
        let bytes = self.region.at(handle);
        let record = Record::read(&bytes[at..]);
        let old = match record.body {
            Stored::Whole(old) => old,
            Stored::Large(place) => {
                let large = self.large.get_mut(place);
                let before = large.bytes();
                large.apply(row.table, row.body, &mut scratch.large);
                self.heap_bytes = self.heap_bytes + large.bytes() - before;
                if row.clustering <= record.clustering {
                    return Outcome::InPlace;
                }
                let (origin, size) = (Origin::Merged, record.size());
                return Outcome::Moves { origin, clustering: None, large: Some(place), size };
            }
        };
        let as_written = replaces(row.table, old, row.body);
        if !as_written {
            scratch.merged.clear();
            merge_rows(row.table, row.is_static, old, row.body, &mut scratch.merged);
        }
        let body = if as_written { row.body } else { &scratch.merged };
        // Equal values can have several byte forms, such as 10.0 and 10.00: one of them, whatever came first.
        let same_form = row.clustering <= record.clustering;
        let origin = if as_written { Origin::Replacing } else { Origin::Merged };
        if same_form
            && !(body.len() > old.len() && is_large(body.len(), origin))
            && let Some(place) = record.place_for(body.len())
        {
            let lost = place.overwrite(&mut self.region.at_mut(handle)[at..], body);
            self.region.waste(lost);
            return Outcome::InPlace;
        }
        let clustering = (row.clustering < record.clustering).then(|| record.clustering.to_vec());
        Outcome::Moves { origin, clustering, large: None, size: record.size() }
    }

    /// Merges into a row by itself; returns its handle when it has moved.
    fn merge_row(
        &mut self,
        pool: &SegmentPool,
        scratch: &mut Scratch,
        handle: u32,
        row: RowIn<'_>,
    ) -> Option<u32> {
        let outcome = self.merge_in_place(scratch, handle, 0, row);
        let Outcome::Moves { origin, clustering, large, size } = outcome else { return None };
        self.region.waste(size);
        let row = RowIn { clustering: clustering.as_deref().unwrap_or(row.clustering), ..row };
        let body = if origin == Origin::Replacing { row.body } else { &scratch.merged };
        let body = large.map_or_else(|| self.stored(row, body, origin, &mut scratch.large), Stored::Large);
        let position: &[u8] = if row.is_static { &[] } else { &scratch.position };
        Some(self.add_row(pool, position, row.clustering, body, origin))
    }

    /// Merges into the row that is all its partition has.
    fn apply_to_only(
        &mut self,
        pool: &SegmentPool,
        scratch: &mut Scratch,
        target: Target<'_>,
        rows_at: usize,
        row: RowIn<'_>,
    ) -> u32 {
        let outcome = self.merge_in_place(scratch, target.handle, rows_at, row);
        let Outcome::Moves { origin, clustering, large, size } = outcome else { return target.handle };
        let more = Head::read(self.region.at(target.handle)).more;
        self.region.waste(rows_at + size);
        let row = RowIn { clustering: clustering.as_deref().unwrap_or(row.clustering), ..row };
        let body = if origin == Origin::Replacing { row.body } else { &scratch.merged };
        let body = large.map_or_else(|| self.stored(row, body, origin, &mut scratch.large), Stored::Large);
        let spare = spare_of(body, origin);
        let record = NewRecord { position: &scratch.position, clustering: row.clustering, body, spare };
        let handle = self.add(pool, Head::size(target.key, more) + record.size(), |out| {
            Head::write(Kind::One, target.key, more, out);
            record.write(out);
        });
        self.redirect(target, handle)
    }

    fn redirect(&mut self, target: Target<'_>, handle: u32) -> u32 {
        let Contents { directory, region, .. } = self;
        let compare = |handle| Head::read(region.at(handle)).key.cmp(target.key);
        let before = directory.replace(target.token, handle, compare);
        assert!(before == Some(target.handle), "a partition is where the directory says");
        handle
    }

    /// Gives the only row of a partition a place of its own; what it took becomes the list of rows.
    fn make_few<'t>(
        &mut self,
        pool: &SegmentPool,
        scratch: &mut Scratch,
        target: Target<'t>,
        rows_at: usize,
    ) -> Target<'t> {
        let bytes = &self.region.at(target.handle)[rows_at..];
        let size = Record::read(bytes).size();
        scratch.moved.clear();
        scratch.moved.extend_from_slice(&bytes[..size]);
        let row = self.add(pool, size, |out| out.push_slice(&scratch.moved));
        let room = ((size - 2) / 4).min(FEW_MAX);
        assert!(room > 1, "a row takes ten bytes");
        self.region.waste(size - Few::size(room));
        let bytes = self.region.at_mut(target.handle);
        bytes[0] = Kind::Few as u8 | bytes[0] & MORE;
        bytes[rows_at] = 1;
        bytes[rows_at + 1] = room as u8;
        self.put_u32(target.handle, rows_at + 2, row);
        target
    }

    /// Adds a row to the list of a partition; returns the handle of the partition afterwards.
    fn add_to_few(
        &mut self,
        pool: &SegmentPool,
        scratch: &mut Scratch,
        target: Target<'_>,
        at: usize,
        row: u32,
    ) -> u32 {
        let bytes = self.region.at(target.handle);
        let Head { rows_at, more, .. } = Head::read(bytes);
        let few = Few::read(&bytes[rows_at..]);
        let (len, room) = (few.len(), few.room());
        if len < room {
            let bytes = &mut self.region.at_mut(target.handle)[rows_at..];
            bytes.copy_within(2 + 4 * at..2 + 4 * len, 6 + 4 * at);
            bytes[0] += 1;
            self.put_u32(target.handle, rows_at + 2 + 4 * at, row);
            return target.handle;
        }
        if len < FEW_MAX {
            scratch.moved.clear();
            scratch.moved.extend_from_slice(&bytes[rows_at + 2..rows_at + 2 + 4 * len]);
            self.region.waste(rows_at + Few::size(room));
            let room = (room * 2).clamp(2, FEW_MAX);
            let handle = self.add(pool, Head::size(target.key, more) + Few::size(room), |out| {
                Head::write(Kind::Few, target.key, more, out);
                let end = out.len() + Few::size(room);
                out.push_slice(&[len as u8, room as u8]);
                out.push_slice(&scratch.moved);
                out.resize(end, 0);
            });
            let target = Target { handle: self.redirect(target, handle), ..target };
            return self.add_to_few(pool, scratch, target, at, row);
        }
        let mut handles: Vec<u32> = (0..len).map(|at| few.handle(at)).collect();
        handles.insert(at, row);
        let oldest = handles.iter().map(|row| self.oldest_of_row(*row)).min().unwrap_or(i64::MAX);
        let region = &self.region;
        let tree = self.trees.build(handles.into_iter(), oldest, |row| position(region.at(row)));
        let bytes = self.region.at_mut(target.handle);
        bytes[0] = Kind::Many as u8 | bytes[0] & MORE;
        self.put_u32(target.handle, rows_at, tree);
        target.handle
    }

    /// A timestamp that nothing in a row is older than.
    pub(super) fn oldest_of_row(&self, row: u32) -> i64 {
        self.oldest_of(Record::read(self.region.at(row)).body)
    }

    pub(super) fn oldest_of(&self, body: Stored<'_>) -> i64 {
        match body {
            Stored::Whole(body) => row_timestamps(body).map_or(i64::MAX, |(oldest, _)| oldest),
            Stored::Large(place) => self.large.get(place).oldest(),
        }
    }

    /// The place of what a partition has beside rows, made if there is none yet.
    fn more_of(&mut self, pool: &SegmentPool, scratch: &mut Scratch, target: &mut Target<'_>) -> u32 {
        let bytes = self.region.at(target.handle);
        let Head { kind, more, rows_at, .. } = Head::read(bytes);
        if let Some(more) = more {
            return more;
        }
        let rows = &bytes[rows_at..];
        let size = match kind {
            Kind::One => Record::read(rows).size(),
            Kind::Few => Few::size(Few::read(rows).room()),
            Kind::Many => 4,
        };
        scratch.moved.clear();
        scratch.moved.extend_from_slice(&rows[..size]);
        self.region.waste(rows_at + size);
        let more = self.more.push(More {
            deletion: Deletion::LIVE,
            static_row: None,
            ranges: None,
            oldest: i64::MAX,
        });
        let handle = self.add(pool, Head::size(target.key, Some(more)) + size, |out| {
            Head::write(kind, target.key, Some(more), out);
            out.push_slice(&scratch.moved);
        });
        target.handle = self.redirect(*target, handle);
        more
    }

    fn apply_static(&mut self, pool: &SegmentPool, scratch: &mut Scratch, more: u32, row: RowIn<'_>) {
        let known = self.more.get(more).static_row;
        let handle = match known {
            Some(handle) => self.merge_row(pool, scratch, handle, row),
            None => Some(self.add_new_row(pool, scratch, row)),
        };
        let oldest = row_timestamps(row.body).map_or(i64::MAX, |(oldest, _)| oldest);
        let more = self.more.get_mut(more);
        more.oldest = more.oldest.min(oldest);
        if handle.is_some() {
            more.static_row = handle;
        }
    }

    /// Frees some of it. Returns false when nothing was left.
    fn free_some(&mut self, pool: &SegmentPool) -> bool {
        if self.large.last_mut().is_some_and(|large| large.free_some(FREED_MAX)) {
            return true;
        }
        if self.large.pop() || (0..FREED_MAX).take_while(|_| self.more.pop()).count() > 0 {
            return true;
        }
        self.region.drop_segment(pool) || self.trees.drop_page() || self.directory.free_some()
    }
}

/// What became of a merge.
enum Outcome {
    /// The row is where it was.
    InPlace,
    Moves {
        /// Whether the new row replaces the old one as it is, or what came of the merge does.
        origin: Origin,
        /// The clustering to keep, when it is not the new one's form.
        clustering: Option<Vec<u8>>,
        /// The place of the large row that took the change, when it is one.
        large: Option<u32>,
        /// Bytes that the old row took.
        size: usize,
    },
}
