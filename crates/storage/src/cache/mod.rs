//! The row cache of one shard, over all its tables: what sstables say, merged, of partitions that were asked for.
//!
//! ```text
//! table ─► directory (token, key) ─► partition ─► known intervals, tombstones, static row
//!                           │            └► rows by position ─► unit (place in the queue) ─► block in a slot
//!                           └─► single: unit ─► block in a slot
//! ```
//! Most partitions are singles: known completely, one row or none and nothing else, all of it in one block.
//! A partition is cached in part: of each known interval every row is there and nothing else exists, so that also what does
//! not exist is answered from here. Rows go one by one (S3-FIFO); one that goes takes the knowledge between its neighbours
//! along. Everything counts against one budget of bytes. See `docs/mechanisms/row-cache.md` for what keeps it equal to a
//! cold read while memtables are flushed and sstables replaced.

mod known;
mod queue;
mod slots;
/// One cached partition.
mod entry;
mod part;
mod contents;
/// Partitions of one row.
mod single;
/// Rows and what is known, by position.
mod tree;
mod view;

use crate::memory::directory::TokenDirectory;
use base::Token;
use contents::Contents;
use mutation::{Key, Partition, PartitionView, Slice};
use schema::{Position, Table};
use std::cell::{Cell, Ref, RefCell};

pub(crate) use part::{Adopting, Epoch, Found, TableCache};
use view::CachedParts;
pub(crate) use view::{CachedView, Coverage};

/// What the cache holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStats {
    /// Bytes it takes.
    pub bytes: u64,
    /// Most bytes it may take.
    pub capacity: u64,
    /// Partitions of which something is cached.
    pub partitions: u64,
    /// Cached rows.
    pub rows: u64,
    /// Rows and heads of partitions that were evicted since the start.
    pub evictions: u64,
    /// Partitions that were looked for since the start, in tables with sstables.
    pub requests: u64,
    /// Those of them that were answered.
    pub hits: u64,
}

impl CacheStats {
    /// Adds the cache of another shard.
    pub fn merge(&mut self, other: &CacheStats) {
        self.bytes += other.bytes;
        self.capacity += other.capacity;
        self.partitions += other.partitions;
        self.rows += other.rows;
        self.evictions += other.evictions;
        self.requests += other.requests;
        self.hits += other.hits;
    }
}

/// The cache of one shard.
pub(crate) struct Cache {
    contents: RefCell<Contents>,
    /// Partitions that were looked for.
    pub(crate) requests: Cell<u64>,
    /// Partitions that were answered.
    pub(crate) hits: Cell<u64>,
}

/// The cache within one step: what is found in it lives as long.
pub(crate) struct Reading<'c>(Ref<'c, Contents>);

impl Cache {
    /// An empty cache of so many bytes, and perhaps `most` later; while it has less than [`CACHE_BYTES_MIN`] it stays empty.
    pub(crate) fn new(budget: u64, most: u64) -> Cache {
        Cache {
            contents: RefCell::new(Contents::new(budget as usize, most as usize)),
            requests: Cell::new(0),
            hits: Cell::new(0),
        }
    }

    /// From now on it has so many bytes; what is too much goes with [`Cache::shrink`] and with what is added. O(1).
    pub(crate) fn set_budget(&self, bytes: usize) {
        self.contents.borrow_mut().set_budget(bytes);
    }

    /// Evicts some of what is too much, in one step of 64 evictions at most. Returns whether there is more of it that can go.
    pub(crate) fn shrink(&self) -> bool {
        self.contents.borrow_mut().shrink()
    }

    pub(crate) fn stats(&self) -> CacheStats {
        let (requests, hits) = (self.requests.get(), self.hits.get());
        CacheStats { requests, hits, ..self.contents.borrow().stats() }
    }

    /// Bytes it takes. O(1).
    pub(crate) fn bytes(&self) -> usize {
        self.contents.borrow().bytes()
    }

    /// A hint that a partition of that token will be looked for: as [`crate::memory::Contents::prefetch`], with steps 0 to 4.
    #[inline]
    pub(crate) fn prefetch(&self, table: &TableCache, token: Token, step: usize) {
        self.contents.borrow().prefetch(table.slot.get(), token, step);
    }

    /// A hint that [`Cache::knows`] will be asked for partitions in the order of the ring: for those of `now` at once, for
    /// those of `coming` after them, for which this was called with them as `coming` before.
    pub(crate) fn prefetch_walk(&self, table: &TableCache, now: &[(Token, u32)], coming: &[(Token, u32)]) {
        let (contents, slot) = (self.contents.borrow(), table.slot.get());
        for (step, partitions) in [(3, now), (2, coming), (4, now)] {
            partitions.iter().for_each(|(token, _)| contents.prefetch(slot, *token, step));
        }
    }

    /// Opens the cache for looking, within this step.
    #[inline]
    pub(crate) fn reading(&self) -> Reading<'_> {
        Reading(self.contents.borrow())
    }

    /// Remembers what a read found, or a part of it. One step; evicts in proportion to what it adds.
    pub(crate) fn fill(&self, table: &TableCache, epoch: Epoch, found: &Found<'_>) {
        let mut contents = self.contents.borrow_mut();
        if contents.is_open() && table.is_wanted.get() && table.admits(epoch, found.key) {
            contents.fill(table, epoch, found);
        }
    }

    /// Remembers that sstables have nothing of a partition that counts, of which a memtable that is flushed knows something:
    /// [`Cache::absorb`] it at once. Nothing may be cached of it. One step; evicts in proportion to what it adds.
    pub(crate) fn adopt(&self, table: &TableCache, key: &Key) {
        let mut contents = self.contents.borrow_mut();
        if contents.is_open() && table.is_wanted.get() {
            let (partition, slices) = (&Partition::new(), &[Slice::all()]);
            contents
                .fill_single(table, &Found { key, partition, slices, reversed: false, complete_to: None });
        }
    }

    /// Merges what a memtable that is flushed knows of a partition into what is cached of it: rows from `from` on, a
    /// bounded number in one step. Returns where to go on.
    pub(crate) fn absorb<V: PartitionView>(
        &self,
        table: &TableCache,
        definition: &Table,
        key: &Key,
        from: Option<&Position>,
        flushed: &V,
    ) -> Option<Position> {
        let mut contents = self.contents.borrow_mut();
        let entry = contents.find(table, key)?;
        let at = match single::single(entry) {
            None => entry,
            Some(unit) if contents.absorb_single(table, definition, unit, flushed) => return None,
            Some(unit) => contents.take_apart(table, unit)?,
        };
        // What was cached before the last compaction has nothing that it could have left out.
        contents.partitions.get_mut(at).purges = table.purges.get();
        contents.absorb(definition, at, from, flushed)
    }

    /// Whether anything is cached of a partition, stale or not.
    pub(crate) fn knows(&self, table: &TableCache, token: Token, key: &[u8]) -> bool {
        self.contents.borrow().find_any(table.slot.get(), token, key).is_some()
    }

    /// Whether nothing of a table is cached.
    pub(crate) fn is_empty_of(&self, table: &TableCache) -> bool {
        self.contents.borrow().tables.get(table.slot.get() as usize).is_none_or(TokenDirectory::is_empty)
    }
}

impl Reading<'_> {
    /// What is cached of a partition, unless it is stale.
    #[inline]
    pub(crate) fn get(&self, table: &TableCache, key: &Key) -> Option<CachedView<'_>> {
        let contents = &*self.0;
        let entry = contents.find_fresh(table, key)?;
        if let Some(unit) = single::single(entry) {
            contents.units.hit(unit);
            return Some(CachedView::Single(contents.single(unit)));
        }
        let cached = contents.partitions.get(entry);
        contents.units.hit(cached.unit);
        Some(CachedView::Parts(CachedParts { contents, cached }))
    }
}

#[cfg(test)]
mod tests;
