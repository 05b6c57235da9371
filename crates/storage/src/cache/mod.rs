//! The row cache of one shard, over all its tables: what sstables say, merged, of partitions that were asked for.
//!
//! ```text
//! table ─► directory (token, key) ─► partition ─► known intervals, tombstones, static row
//!                                        └► rows by position ─► unit (place in the queue) ─► block in a slot
//! ```
//! A partition is cached in part: of each known interval every row is there and nothing else exists, so that also what does
//! not exist is answered from here. Rows go one by one (S3-FIFO); one that goes takes the knowledge between its neighbours
//! along. Everything counts against one budget of bytes. See `docs/mechanisms/row-cache.md` for what keeps it equal to a
//! cold read while memtables are flushed and sstables replaced.

/// One cached partition.
pub(crate) mod entry;
mod known;
mod queue;
mod slots;

use crate::limits::{CACHE_BYTES_MIN, CACHE_EVICTIONS_MAX, CACHE_FILL_BYTES_MAX, CACHE_ROWS_AT_ONCE};
use crate::memory::directory::TokenDirectory;
use crate::memory::slab::Slab;
use crate::memtable::Memtable;
use entry::{Cached, CachedView, Rows, is_mortal, row_head, row_of};
use known::Known;
use mutation::{Deletion, Key, Partition, PartitionView, RowRef, Slice, TokenRange, merge_rows};
use queue::Units;
use schema::{Position, Table};
use slots::Slots;
use std::cell::{Cell, Ref, RefCell};
use std::ops::Bound::{Excluded, Included, Unbounded};
use std::rc::Rc;

/// No partition.
const NOBODY: u32 = u32::MAX;

/// What a table knows of its part of the cache. Counts what makes cached partitions stale.
pub(crate) struct TableCache {
    slot: Cell<u32>,
    /// Counts what after everything cached is wrong: truncations, imports.
    generation: Cell<u32>,
    /// Counts what after cached tombstones may be gone from sstables: compactions.
    purges: Cell<u32>,
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
    purges: u32,
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
    fn admits(&self, epoch: Epoch, key: &Key) -> bool {
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
    inner: RefCell<Inner>,
    /// Partitions that were looked for.
    pub(crate) requests: Cell<u64>,
    /// Partitions that were answered.
    pub(crate) hits: Cell<u64>,
}

/// The cache within one step: what is found in it lives as long.
pub(crate) struct Reading<'c>(Ref<'c, Inner>);

impl Cache {
    /// An empty cache of at most so many bytes; below [`CACHE_BYTES_MIN`] it stays empty.
    pub(crate) fn new(budget: u64) -> Cache {
        Cache { inner: RefCell::new(Inner::new(budget as usize)), requests: Cell::new(0), hits: Cell::new(0) }
    }

    pub(crate) fn stats(&self) -> CacheStats {
        let (requests, hits) = (self.requests.get(), self.hits.get());
        CacheStats { requests, hits, ..self.inner.borrow().stats() }
    }

    /// Opens the cache for looking, within this step.
    #[inline]
    pub(crate) fn reading(&self) -> Reading<'_> {
        Reading(self.inner.borrow())
    }

    /// Remembers what a read found, or a part of it. One step; evicts in proportion to what it adds.
    pub(crate) fn fill(&self, table: &TableCache, epoch: Epoch, found: &Found<'_>) {
        let mut inner = self.inner.borrow_mut();
        if inner.room > 0 && table.is_wanted.get() && table.admits(epoch, found.key) {
            inner.fill(table, epoch, found);
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
        let mut inner = self.inner.borrow_mut();
        let at = inner.find(table, key)?;
        // What was cached before the last compaction has nothing that it could have left out.
        inner.partitions.get_mut(at).purges = table.purges.get();
        inner.absorb(definition, at, from, flushed)
    }

    /// Whether nothing of a table is cached.
    pub(crate) fn is_empty_of(&self, table: &TableCache) -> bool {
        self.inner.borrow().tables.get(table.slot.get() as usize).is_none_or(TokenDirectory::is_empty)
    }
}

impl Reading<'_> {
    /// What is cached of a partition, unless it is stale.
    #[inline]
    pub(crate) fn get(&self, table: &TableCache, key: &Key) -> Option<CachedView<'_>> {
        let inner = &*self.0;
        let cached = inner.partitions.get(inner.find_fresh(table, key)?);
        inner.units.hit(cached.unit);
        Some(CachedView { inner, cached })
    }
}

pub(crate) struct Inner {
    budget: usize,
    /// Bytes up to which things are added: below the budget by what the largest single growth takes.
    room: usize,
    pub(crate) slots: Slots,
    pub(crate) units: Units,
    partitions: Slab<Cached, 64>,
    vacant: Vec<u32>,
    tables: Vec<TokenDirectory>,
    /// Bytes of directories.
    index_bytes: usize,
    /// Bytes of trees, tombstones, static rows.
    outside_bytes: usize,
    partition_count: usize,
    /// Partitions that are in no directory and still have rows.
    dying: Vec<u32>,
    /// Must not go in this step.
    pinned: u32,
    evictions: u64,
}

impl Inner {
    fn new(budget: usize) -> Inner {
        let is_on = budget >= CACHE_BYTES_MIN;
        // Small caches have small segments, else the sizes in use would not fit in side by side.
        let segment_bytes = (budget / 64).clamp(1024, 128 * 1024).next_power_of_two().min(128 * 1024);
        let budget = if is_on { budget } else { 0 };
        Inner {
            budget,
            room: if is_on { budget - budget / 8 - CACHE_BYTES_MIN / 4 } else { 0 },
            slots: Slots::new(segment_bytes),
            units: Units::new(budget / 512),
            partitions: Slab::default(),
            vacant: Vec::new(),
            tables: Vec::new(),
            index_bytes: 0,
            outside_bytes: 0,
            partition_count: 0,
            dying: Vec::new(),
            pinned: NOBODY,
            evictions: 0,
        }
    }

    fn bytes(&self) -> usize {
        let lists = (self.vacant.capacity() + self.dying.capacity()) * 4;
        let parts = [self.slots.bytes(), self.units.bytes(), self.partitions.bytes(), lists];
        parts.iter().sum::<usize>() + self.index_bytes + self.outside_bytes
    }

    fn stats(&self) -> CacheStats {
        CacheStats {
            bytes: self.bytes() as u64,
            capacity: self.budget as u64,
            partitions: self.partition_count as u64,
            rows: (self.units.len() - self.partition_count) as u64,
            evictions: self.evictions,
            requests: 0,
            hits: 0,
        }
    }

    fn key_of(&self, partition: u32) -> &[u8] {
        let unit = self.partitions.get(partition).unit;
        self.slots.get(self.units.get(unit).block)
    }

    fn find_any(&self, slot: u32, key: &Key) -> Option<u32> {
        let directory = self.tables.get(slot as usize)?;
        directory.get(key.token, |at| self.key_of(at).cmp(&*key.bytes))
    }

    #[inline]
    fn find_fresh(&self, table: &TableCache, key: &Key) -> Option<u32> {
        let at = self.find_any(table.slot.get(), key)?;
        let cached = self.partitions.get(at);
        let fresh = cached.generation == table.generation.get()
            && (!cached.is_mortal || cached.purges == table.purges.get());
        fresh.then_some(at)
    }

    /// What is cached of a partition; what is stale is dropped.
    fn find(&mut self, table: &TableCache, key: &Key) -> Option<u32> {
        let fresh = self.find_fresh(table, key);
        if fresh.is_none()
            && let Some(stale) = self.find_any(table.slot.get(), key)
        {
            self.drop_partition(stale);
        }
        fresh
    }

    fn fill(&mut self, table: &TableCache, epoch: Epoch, found: &Found<'_>) {
        let partition = found.partition;
        let current = epoch.purges == table.purges.get();
        let brings_mortal = || {
            !partition.deletion.is_live()
                || !partition.ranges.is_empty()
                || partition.static_row.as_deref().is_some_and(is_mortal)
                || partition.rows().any(|(_, row)| is_mortal(row.body()))
        };
        // Tombstones that were read before a compaction may be gone.
        if !current && brings_mortal() {
            return;
        }
        let at = match self.find(table, found.key) {
            Some(at) => at,
            None => match self.add_partition(table, found.key) {
                Some(at) => at,
                None => return,
            },
        };
        self.pinned = at;
        let before = self.partitions.get(at).outside_bytes();
        let cached = self.partitions.get_mut(at);
        cached.purges = table.purges.get();
        cached.deletion = cached.deletion.max(partition.deletion);
        cached.is_mortal |= !partition.deletion.is_live();
        if partition.static_row.is_some() || !partition.ranges.is_empty() {
            cached.is_mortal |= !partition.ranges.is_empty();
            let head = cached.head.get_or_insert_default();
            head.ranges.merge(&partition.ranges);
            if head.static_row.is_none() {
                cached.is_mortal |= partition.static_row.as_deref().is_some_and(is_mortal);
                head.static_row.clone_from(&partition.static_row);
            }
        }
        for slice in known_slices(found) {
            cached.known.add(&slice.start, &slice.end);
        }
        self.recount(at, before);
        let mut rows = partition.rows();
        while let Some((position, row)) = if found.reversed { rows.next_back() } else { rows.next() } {
            let row =
                RowRef { position, clustering: row.clustering(), body: mutation::Body::Whole(row.body()) };
            if self.partitions.get(at).known.contains(position) && self.row_at(at, position).is_none() {
                self.add_row(at, row);
            }
        }
        self.pinned = NOBODY;
        self.settle(at);
    }

    /// The bytes of a partition changed.
    fn recount(&mut self, at: u32, before: usize) {
        self.outside_bytes = self.outside_bytes + self.partitions.get(at).outside_bytes() - before;
    }

    /// After a change of a partition: lets go of it when nothing of it is known, or when it is too large to be kept.
    fn settle(&mut self, at: u32) {
        let cached = self.partitions.get(at);
        let is_empty = !cached.has_rows() && cached.known.is_nothing();
        let head = cached.head.as_ref().map_or(0, |head| head.ranges.memory_bytes());
        if is_empty || head > self.room / 8 {
            return self.drop_partition(at);
        }
        let unit = cached.unit;
        let bytes = self.slots.size(self.units.get(unit).block) + cached.outside_bytes();
        self.units.set_bytes(unit, bytes);
        self.pinned = at;
        self.make_room(0);
        self.pinned = NOBODY;
    }

    fn add_partition(&mut self, table: &TableCache, key: &Key) -> Option<u32> {
        if !self.make_room(key.bytes.len()) {
            return None;
        }
        if table.slot.get() == NOBODY {
            table.slot.set(self.tables.len() as u32);
            self.tables.push(TokenDirectory::new(TokenRange::ALL));
        }
        let slot = table.slot.get();
        let at = self.vacant.pop().unwrap_or_else(|| self.partitions.push(Cached::vacant()));
        let unit = self.units.reserve();
        let block = self.slots.add(unit, &[&key.bytes]);
        let hash = hash_of(slot, key.token, &[]);
        self.units.add(unit, at, block, self.slots.size(block), true, hash);
        let (generation, purges) = (table.generation.get(), table.purges.get());
        let vacant = Cached::vacant();
        *self.partitions.get_mut(at) =
            Cached { token: key.token, table: slot, generation, purges, unit, is_dead: false, ..vacant };
        self.change_index(slot, |inner, directory| {
            let order = |a: u32, b: u32| inner.key_of(a).cmp(inner.key_of(b));
            directory.insert(key.token, at, order);
        });
        self.partition_count += 1;
        Some(at)
    }

    fn change_index(&mut self, slot: u32, change: impl FnOnce(&Inner, &mut TokenDirectory)) {
        let empty = TokenDirectory::new(TokenRange::ALL);
        let mut directory = std::mem::replace(&mut self.tables[slot as usize], empty);
        let before = directory.bytes();
        change(self, &mut directory);
        if directory.is_empty() {
            directory = TokenDirectory::new(TokenRange::ALL);
        }
        self.index_bytes = self.index_bytes + directory.bytes() - before;
        self.tables[slot as usize] = directory;
    }

    /// The unit of the row at a position.
    fn row_at(&self, at: u32, position: &[u8]) -> Option<u32> {
        match &self.partitions.get(at).rows {
            Rows::None => None,
            Rows::One(unit) => (self.position_of(*unit) == position).then_some(*unit),
            Rows::Many(rows) => rows.get(position).copied(),
        }
    }

    fn position_of(&self, unit: u32) -> &[u8] {
        row_of(self.slots.get(self.units.get(unit).block)).position
    }

    /// Adds a row at a known place where there is none; where there is no room, the place is unknown from now on.
    fn add_row(&mut self, at: u32, row: RowRef<'_>) {
        let mut pieces = Vec::new();
        let body = row.body.whole(&mut pieces);
        let length = 8 + row.position.len() + row.clustering.len() + body.len();
        let fits = length <= self.room / 8 && self.make_room(length);
        // What had to go may have taken the knowledge of this place along.
        if !self.partitions.get(at).known.contains(row.position) {
            return;
        }
        if !fits {
            return self.cut(at, row.position);
        }
        let cached = self.partitions.get(at);
        let hash = hash_of(cached.table, cached.token, row.position);
        let unit = self.units.reserve();
        let head = row_head(row.position, row.clustering);
        let block = self.slots.add(unit, &[&head, row.position, row.clustering, body]);
        self.units.add(unit, at, block, self.slots.size(block), false, hash);
        let before = self.partitions.get(at).outside_bytes();
        self.partitions.get_mut(at).is_mortal |= is_mortal(body);
        match std::mem::take(&mut self.partitions.get_mut(at).rows) {
            Rows::None => self.partitions.get_mut(at).rows = Rows::One(unit),
            Rows::One(other) => {
                let first = Position::from_bytes(self.position_of(other));
                let pair = [(first, other), (Position::from_bytes(row.position), unit)];
                self.partitions.get_mut(at).rows = Rows::Many(Box::new(pair.into()));
            }
            Rows::Many(mut rows) => {
                rows.insert(Position::from_bytes(row.position), unit);
                self.partitions.get_mut(at).rows = Rows::Many(rows);
            }
        }
        self.recount(at, before);
    }

    /// Makes a place without a row unknown.
    fn cut(&mut self, at: u32, position: &[u8]) {
        let outside = self.partitions.get(at).outside_bytes();
        let (before, next) = match &self.partitions.get(at).rows {
            Rows::None => (None, None),
            Rows::One(unit) => {
                let other = self.position_of(*unit).to_vec();
                if *other < *position { (Some(other), None) } else { (None, Some(other)) }
            }
            Rows::Many(rows) => {
                let before = rows.range::<[u8], _>((Unbounded, Excluded(position))).next_back();
                let next = rows.range::<[u8], _>((Included(position), Unbounded)).next();
                let bytes = |(at, _): (&Position, &u32)| at.as_bytes().to_vec();
                (before.map(bytes), next.map(bytes))
            }
        };
        let cached = self.partitions.get_mut(at);
        cached.known.cut(position, before.as_deref(), next.as_deref());
        self.recount(at, outside);
    }

    /// Takes a row out of its partition, and leaves the place known.
    fn take_row(&mut self, unit: u32) -> Position {
        let at = self.units.get(unit).partition;
        let position = Position::from_bytes(self.position_of(unit));
        let before = self.partitions.get(at).outside_bytes();
        match &mut self.partitions.get_mut(at).rows {
            Rows::Many(rows) => {
                let removed = rows.remove::<Position>(&position);
                assert!(removed == Some(unit), "a row is found where it stands");
                if rows.is_empty() {
                    self.partitions.get_mut(at).rows = Rows::None;
                }
            }
            rows @ (Rows::One(_) | Rows::None) => *rows = Rows::None,
        }
        self.recount(at, before);
        self.free_unit(unit);
        position
    }

    fn free_unit(&mut self, unit: u32) {
        self.slots.remove(self.units.get(unit).block);
        self.units.remove(unit);
    }

    /// Takes a partition out of its directory. Its rows go with it, when they are many little by little.
    fn drop_partition(&mut self, at: u32) {
        let (slot, token) = (self.partitions.get(at).table, self.partitions.get(at).token);
        self.change_index(slot, |inner, directory| {
            let removed = directory.remove(token, |other| inner.key_of(other).cmp(inner.key_of(at)));
            assert!(removed == Some(at), "a partition is found where it stands");
        });
        self.partition_count -= 1;
        let before = self.partitions.get(at).outside_bytes();
        let cached = self.partitions.get_mut(at);
        cached.is_dead = true;
        cached.known = Known::nothing();
        cached.head = None;
        let unit = cached.unit;
        self.recount(at, before);
        self.free_unit(unit);
        self.dying.push(at);
        self.bury();
    }

    /// Frees some rows of partitions that are gone.
    fn bury(&mut self) {
        for _ in 0..CACHE_ROWS_AT_ONCE {
            let Some(at) = self.dying.last().copied() else { return };
            let last = match &self.partitions.get(at).rows {
                Rows::None => None,
                Rows::One(unit) => Some(*unit),
                Rows::Many(rows) => rows.last_key_value().map(|(_, unit)| *unit),
            };
            match last {
                Some(unit) => drop(self.take_row(unit)),
                None => {
                    self.dying.pop();
                    *self.partitions.get_mut(at) = Cached::vacant();
                    self.vacant.push(at);
                }
            }
        }
    }

    /// Evicts until a block of a length can be added. False: it cannot, or it would take too many steps.
    fn make_room(&mut self, length: usize) -> bool {
        for _ in 0..CACHE_EVICTIONS_MAX {
            if self.bytes() + self.slots.needs(length) <= self.room {
                return true;
            }
            let (slots, units) = (&mut self.slots, &mut self.units);
            // Room in slots of other sizes first; then somebody has to go.
            if slots.free_one() || slots.drain_one(|unit, block| units.set_block(unit, block)) {
                continue;
            }
            if self.dying.is_empty() && !self.evict() {
                return false;
            }
            self.bury();
        }
        self.bytes() + self.slots.needs(length) <= self.room
    }

    /// Evicts one unit, or gives it another round when it must stay. False: there is none.
    fn evict(&mut self) -> bool {
        let Some(unit) = self.units.victim() else { return false };
        let (at, is_head) = (self.units.get(unit).partition, self.units.get(unit).is_head);
        let cached = self.partitions.get(at);
        if is_head && (at == self.pinned || cached.has_rows()) {
            // A partition goes when its last row has gone.
            self.units.spare(unit);
            return true;
        }
        self.evictions += 1;
        let (table, token) = (cached.table, cached.token);
        if is_head {
            self.units.remember(hash_of(table, token, &[]));
            self.drop_partition(at);
            return true;
        }
        let is_dead = cached.is_dead;
        let position = self.take_row(unit);
        if is_dead {
            return true;
        }
        self.units.remember(hash_of(table, token, &position));
        self.cut(at, &position);
        let cached = self.partitions.get(at);
        if at != self.pinned && !cached.has_rows() && cached.known.is_nothing() {
            self.drop_partition(at);
        }
        true
    }

    fn absorb<V: PartitionView>(
        &mut self,
        definition: &Table,
        at: u32,
        from: Option<&Position>,
        flushed: &V,
    ) -> Option<Position> {
        if from.is_none() && !self.absorb_head(definition, at, flushed) {
            self.drop_partition(at);
            return None;
        }
        self.pinned = at;
        let start = from.cloned().unwrap_or_else(Position::bottom);
        let mut next = None;
        let mut merged = Vec::new();
        for (count, row) in flushed.rows_between(&start, None, false).enumerate() {
            if count >= CACHE_ROWS_AT_ONCE {
                next = Some(Position::from_bytes(row.position));
                break;
            }
            if self.partitions.get(at).known.contains(row.position) {
                self.absorb_row(definition, at, row, &mut merged);
            }
        }
        self.pinned = NOBODY;
        self.settle(at);
        next
    }

    fn absorb_row(&mut self, definition: &Table, at: u32, row: RowRef<'_>, merged: &mut Vec<u8>) {
        let Some(unit) = self.row_at(at, row.position) else { return self.add_row(at, row) };
        let mut pieces = Vec::new();
        let old = row_of(self.slots.get(self.units.get(unit).block));
        merged.clear();
        merge_rows(definition, false, old.body.whole(&mut Vec::new()), row.body.whole(&mut pieces), merged);
        let clustering = old.clustering.max(row.clustering).to_vec();
        self.take_row(unit);
        self.add_row(
            at,
            RowRef { position: row.position, clustering: &clustering, body: mutation::Body::Whole(merged) },
        );
    }

    /// Merges deletion, static row and range tombstones. False: there are too many to do it in one step.
    fn absorb_head<V: PartitionView>(&mut self, definition: &Table, at: u32, flushed: &V) -> bool {
        if flushed.ranges().is_some_and(|ranges| ranges.len() > CACHE_ROWS_AT_ONCE) {
            return false;
        }
        let before = self.partitions.get(at).outside_bytes();
        let cached = self.partitions.get_mut(at);
        let deletion = flushed.deletion();
        cached.deletion = cached.deletion.max(deletion);
        cached.is_mortal |= deletion != Deletion::LIVE;
        if let Some(ranges) = flushed.ranges() {
            cached.is_mortal = true;
            cached.head.get_or_insert_default().ranges.merge(ranges);
        }
        if let Some(body) = flushed.static_row() {
            let mut pieces = Vec::new();
            let body = body.whole(&mut pieces);
            let head = cached.head.get_or_insert_default();
            let row = match &head.static_row {
                None => body.to_vec(),
                Some(old) => {
                    let mut merged = Vec::with_capacity(old.len() + body.len());
                    merge_rows(definition, true, old, body, &mut merged);
                    merged
                }
            };
            cached.is_mortal |= is_mortal(&row);
            head.static_row = Some(row.into());
        }
        self.recount(at, before);
        true
    }
}

/// The parts of what was asked for that the read knows and the cache takes: [`CACHE_FILL_BYTES_MAX`] of rows.
fn known_slices(found: &Found<'_>) -> Vec<Slice> {
    let mut bytes = 0;
    let mut rows = found.partition.rows();
    let mut limit: Option<&Position> = None;
    while let Some((position, row)) = if found.reversed { rows.next_back() } else { rows.next() } {
        bytes += row.size();
        if bytes > CACHE_FILL_BYTES_MAX {
            // This row is not taken any more.
            limit = Some(position);
            break;
        }
    }
    let clip = |slice: &Slice| {
        let (mut start, mut end) = (slice.start.clone(), slice.end.clone());
        if found.reversed {
            start = found.complete_to.cloned().map_or(start.clone(), |to| start.max(to));
            start = limit.map_or(start.clone(), |limit| start.max(limit.successor()));
        } else {
            end = found.complete_to.cloned().map_or(end.clone(), |to| end.min(to));
            end = limit.cloned().map_or(end.clone(), |limit| end.min(limit));
        }
        (start < end).then_some(Slice { start, end })
    };
    found.slices.iter().filter_map(clip).collect()
}

/// What tells a unit from others when it is gone.
fn hash_of(table: u32, token: base::Token, position: &[u8]) -> u64 {
    let seed = (token.0 as u64) ^ u64::from(table).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    if position.is_empty() {
        return seed.wrapping_mul(0xff51_afd7_ed55_8ccd) ^ seed >> 29;
    }
    base::murmur3(position).0 as u64 ^ seed.rotate_left(17)
}

#[cfg(test)]
mod tests;
