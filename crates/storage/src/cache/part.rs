//! What a table knows of its part of the cache, and what a read must have seen unchanged to be cached.

use crate::memtable::Memtable;
use mutation::{Key, Partition, Slice};
use schema::Position;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// No table, no partition.
pub(super) const NOBODY: u32 = u32::MAX;

/// What a table knows of its part of the cache. Counts what makes cached partitions stale.
pub(crate) struct TableCache {
    pub(super) slot: Cell<u32>,
    /// Counts what after everything cached is wrong: truncations, imports.
    pub(super) generation: Cell<u32>,
    /// Counts what after cached tombstones may be gone from sstables: compactions.
    pub(super) purges: Cell<u32>,
    /// Counts flushes that are published.
    flushes: Cell<u64>,
    /// The memtable whose rows are being merged into the cache, so that it can go.
    adopting: RefCell<Option<Rc<Memtable>>>,
    /// Whether the table wants to be cached.
    pub(crate) is_wanted: Cell<bool>,
}

/// What a read must have seen unchanged to be cached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Epoch {
    generation: u32,
    pub(super) purges: u32,
    flushes: u64,
}

impl TableCache {
    pub(crate) fn new(is_wanted: bool) -> TableCache {
        TableCache {
            slot: Cell::new(NOBODY),
            generation: Cell::new(0),
            purges: Cell::new(0),
            flushes: Cell::new(0),
            adopting: RefCell::default(),
            is_wanted: Cell::new(is_wanted),
        }
    }

    /// Take it with the version of the table that is read.
    pub(crate) fn epoch(&self) -> Epoch {
        Epoch { generation: self.generation.get(), purges: self.purges.get(), flushes: self.flushes.get() }
    }

    /// The mistake that [`runtime::Bug::PopulationRace`] plants: an epoch that knows nothing of flushes.
    pub(crate) fn without_flushes(&self, epoch: Epoch) -> Epoch {
        Epoch { flushes: self.flushes.get(), ..epoch }
    }

    /// Everything cached is wrong from now on.
    pub(crate) fn forget(&self) {
        self.generation.set(self.generation.get().wrapping_add(1));
    }

    /// Sstables were replaced by ones in which tombstones may be missing.
    pub(crate) fn compacted(&self) {
        self.purges.set(self.purges.get().wrapping_add(1));
    }

    /// A memtable has become an sstable. Call it in the step in which readers see that.
    pub(crate) fn flushed(&self) {
        self.flushes.set(self.flushes.get() + 1);
    }

    /// From now until the guard goes, nothing is cached of partitions of this memtable.
    pub(crate) fn adopt(&self, memtable: &Rc<Memtable>) -> Adopting<'_> {
        *self.adopting.borrow_mut() = Some(memtable.clone());
        Adopting(self)
    }

    /// Whether what was read since an epoch is what sstables say now, or will say when the flush under way ends.
    pub(super) fn admits(&self, epoch: Epoch, key: &Key) -> bool {
        let adopting = self.adopting.borrow();
        self.generation.get() == epoch.generation
            && self.flushes.get() == epoch.flushes
            && adopting.as_ref().is_none_or(|memtable| !memtable.contains(key.token, &key.bytes))
    }
}

/// Keeps a table from caching what a memtable is about to change.
pub(crate) struct Adopting<'t>(&'t TableCache);

impl Drop for Adopting<'_> {
    fn drop(&mut self) {
        self.0.adopting.take();
    }
}

/// What a read found in sstables.
#[derive(Clone, Copy)]
pub(crate) struct Found<'a> {
    pub(crate) key: &'a Key,
    pub(crate) partition: &'a Partition,
    /// What was asked for, disjoint and ascending.
    pub(crate) slices: &'a [Slice],
    pub(crate) reversed: bool,
    /// How far the read came: forward everything before it is known, reversed everything at or behind it.
    pub(crate) complete_to: Option<&'a Position>,
}
