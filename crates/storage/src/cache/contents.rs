//! Partitions, rows, queues and slots together: what is added, merged and evicted.

use super::CacheStats;
use super::entry::{Cached, Rows, is_mortal, row_head, row_of};
use super::known::Known;
use super::part::{Epoch, Found, NOBODY, TableCache};
use super::queue::{Kind, Units};
use super::single::{Single, single};
use super::slots::Slots;
use super::tree::Tree;
use crate::limits::{
    CACHE_BYTES_MAX, CACHE_BYTES_MIN, CACHE_EVICTIONS_MAX, CACHE_FILL_BYTES_MAX, CACHE_GROWTH_BYTES_MAX,
    CACHE_ROWS_AT_ONCE, PREFETCHED_BYTES,
};
use crate::memory::directory::TokenDirectory;
use crate::memory::slab::Slab;
use base::{Token, prefetch};
use mutation::{Body, Deletion, Key, PartitionView, RowRef, Slice, TokenRange, merge_rows};
use schema::{Position, Table};
use std::ops::Bound::{Excluded, Included, Unbounded};

/// All that is cached, and what it takes.
pub(crate) struct Contents {
    budget: usize,
    /// Bytes up to which things are added: below the budget by what the largest single growth takes.
    pub(super) room: usize,
    pub(crate) slots: Slots,
    pub(crate) units: Units,
    pub(super) partitions: Slab<Cached, 64>,
    vacant: Vec<u32>,
    pub(super) tables: Vec<TokenDirectory>,
    /// Bytes of directories.
    pub(super) index_bytes: usize,
    /// Bytes of trees, tombstones, static rows.
    pub(super) outside_bytes: usize,
    pub(super) partition_count: usize,
    /// Singles with a row.
    pub(super) single_rows: usize,
    /// Partitions that are in no directory and still have rows.
    dying: Vec<u32>,
    /// Must not go in this step, as directories name it.
    pub(super) pinned: u32,
    pub(super) evictions: u64,
}

/// What came of an attempt to make room in one step.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Room {
    Made,
    /// It takes more steps.
    Later,
    /// Nothing is left that could go.
    Never,
}

impl Contents {
    /// Empty, with so many bytes and perhaps `most` later.
    pub(super) fn new(budget: usize, most: usize) -> Contents {
        // Small caches have small segments, else the sizes in use would not fit in side by side.
        let segment_bytes = (budget.max(CACHE_BYTES_MIN) / 64).next_power_of_two().min(128 * 1024);
        // What is lost by slots that are too long, and by segments of sizes that few have: about as much where rows have any size of
        // 50 B to 2 KB, and most tables have rows of few sizes.
        let steps = match most >> 20 {
            ..16 => 5,
            16..64 => 8,
            _ => 16,
        };
        let most = if most < CACHE_BYTES_MIN { 0 } else { most.min(CACHE_BYTES_MAX) };
        let mut contents = Contents {
            budget: 0,
            room: 0,
            slots: Slots::new(segment_bytes, steps),
            units: Units::new(most / 512),
            partitions: Slab::default(),
            vacant: Vec::new(),
            tables: Vec::new(),
            index_bytes: 0,
            outside_bytes: 0,
            partition_count: 0,
            single_rows: 0,
            dying: Vec::new(),
            pinned: NOBODY,
            evictions: 0,
        };
        contents.set_budget(budget);
        contents
    }

    /// From now on it has so many bytes; what is too much goes with [`Contents::shrink`] and with what is added. O(1).
    pub(super) fn set_budget(&mut self, budget: usize) {
        let is_on = budget >= CACHE_BYTES_MIN;
        let budget = budget.min(CACHE_BYTES_MAX);
        self.budget = if is_on { budget } else { 0 };
        self.room = if is_on { budget - growth_max(budget) - CACHE_BYTES_MIN / 4 } else { 0 };
    }

    /// Whether things are added: not while it has more than it may, as their room would be others' whole turn.
    pub(super) fn is_open(&self) -> bool {
        self.room > 0 && self.bytes() <= self.budget
    }

    /// Evicts some of what is too much, in one step. Returns whether there is more of it that can go.
    pub(super) fn shrink(&mut self) -> bool {
        self.room_for(0) == Room::Later
    }

    pub(super) fn bytes(&self) -> usize {
        let lists = (self.vacant.capacity() + self.dying.capacity()) * 4;
        let parts = [self.slots.bytes(), self.units.bytes(), self.partitions.bytes(), lists];
        parts.iter().sum::<usize>() + self.index_bytes + self.outside_bytes
    }

    pub(super) fn stats(&self) -> CacheStats {
        CacheStats {
            bytes: self.bytes() as u64,
            capacity: self.budget as u64,
            partitions: self.partition_count as u64,
            rows: (self.units.len() - self.partition_count + self.single_rows) as u64,
            evictions: self.evictions,
            requests: 0,
            hits: 0,
        }
    }

    #[inline]
    pub(super) fn key_of(&self, entry: u32) -> &[u8] {
        match single(entry) {
            Some(unit) => Single::key(self.slots.get(self.units.get(unit).block)),
            None => self.slots.get(self.partitions.get(entry).key_block),
        }
    }

    /// A single by its unit.
    #[inline]
    pub(super) fn single(&self, unit: u32) -> Single<'_> {
        Single::read(self.slots.get(self.units.get(unit).block))
    }

    pub(super) fn find_any(&self, slot: u32, token: Token, key: &[u8]) -> Option<u32> {
        let directory = self.tables.get(slot as usize)?;
        directory.get(token, |at| self.key_of(at).cmp(key))
    }

    #[inline]
    pub(super) fn prefetch(&self, slot: u32, token: Token, step: usize) {
        let Some(directory) = self.tables.get(slot as usize) else { return };
        match step {
            0 => directory.prefetch_node(token),
            1 => directory.prefetch_entry(token),
            2 => directory.prefetch_bucket(token),
            _ => match directory.peek(token).map(|entry| (entry, single(entry))) {
                Some((_, Some(unit))) if step == 3 => self.units.prefetch(unit),
                Some((_, Some(unit))) => self.slots.prefetch(self.units.get(unit).block, PREFETCHED_BYTES),
                Some((entry, None)) if step == 3 => {
                    prefetch(self.partitions.get(entry), size_of::<Cached>());
                }
                Some((_, None)) | None => {}
            },
        }
    }

    #[inline]
    pub(super) fn find_fresh(&self, table: &TableCache, key: &Key) -> Option<u32> {
        let entry = self.find_any(table.slot.get(), key.token, &key.bytes)?;
        let (generation, is_mortal, purges) = match single(entry) {
            Some(unit) => {
                let single = self.single(unit);
                (single.generation, single.is_mortal, single.purges)
            }
            None => {
                let cached = self.partitions.get(entry);
                (cached.generation, cached.is_mortal, cached.purges)
            }
        };
        let fresh = generation == table.generation.get() && (!is_mortal || purges == table.purges.get());
        fresh.then_some(entry)
    }

    /// What is cached of a partition; what is stale is dropped.
    pub(super) fn find(&mut self, table: &TableCache, key: &Key) -> Option<u32> {
        let fresh = self.find_fresh(table, key);
        if fresh.is_none()
            && let Some(stale) = self.find_any(table.slot.get(), key.token, &key.bytes)
        {
            match single(stale) {
                Some(unit) => self.drop_single(unit),
                None => self.drop_partition(stale),
            }
        }
        fresh
    }

    pub(super) fn fill(&mut self, table: &TableCache, epoch: Epoch, found: &Found<'_>) {
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
        let slices = known_slices(found);
        let at = match self.find(table, found.key) {
            // Everything of it is known.
            Some(entry) if single(entry).is_some() => return,
            Some(at) => at,
            None if is_all(&slices) && is_single(found) => return self.fill_single(table, found),
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
        for slice in slices {
            cached.known.add(&slice.start, &slice.end);
        }
        self.recount(at, before);
        let mut rows = partition.rows();
        while let Some((position, row)) = if found.reversed { rows.next_back() } else { rows.next() } {
            let row = RowRef { position, clustering: row.clustering(), body: Body::Whole(row.body()) };
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
        if is_empty || head > growth_max(self.room) {
            return self.drop_partition(at);
        }
        let unit = cached.unit;
        let bytes = self.slots.size(self.units.get(unit).block) + cached.outside_bytes();
        self.units.set_bytes(unit, bytes);
        self.pinned = at;
        self.make_room(0);
        self.pinned = NOBODY;
    }

    pub(super) fn add_partition(&mut self, table: &TableCache, key: &Key) -> Option<u32> {
        if !self.make_room(key.bytes.len()) {
            return None;
        }
        let slot = self.slot_of(table);
        let at = self.vacant.pop().unwrap_or_else(|| self.partitions.push(Cached::vacant()));
        let unit = self.units.reserve();
        let block = self.slots.add(unit, &[&key.bytes]);
        let hash = hash_of(slot, key.token, &[]);
        self.units.add(unit, at, block, self.slots.size(block), Kind::Head, hash);
        let (generation, purges) = (table.generation.get(), table.purges.get());
        let vacant = Cached::vacant();
        *self.partitions.get_mut(at) = Cached {
            token: key.token,
            table: slot,
            generation,
            purges,
            unit,
            key_block: block,
            is_dead: false,
            ..vacant
        };
        self.change_index(slot, |contents, directory| {
            let order = |a: u32, b: u32| contents.key_of(a).cmp(contents.key_of(b));
            directory.insert(key.token, at, order);
        });
        self.partition_count += 1;
        Some(at)
    }

    /// The number of a table's directory.
    pub(super) fn slot_of(&mut self, table: &TableCache) -> u32 {
        if table.slot.get() == NOBODY {
            table.slot.set(self.tables.len() as u32);
            self.tables.push(TokenDirectory::new(TokenRange::ALL));
        }
        table.slot.get()
    }

    pub(super) fn change_index(&mut self, slot: u32, change: impl FnOnce(&Contents, &mut TokenDirectory)) {
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
            Rows::One { unit, .. } => (self.position_of(*unit) == position).then_some(*unit),
            Rows::Many(rows) => rows.get(position).copied(),
        }
    }

    pub(super) fn position_of(&self, unit: u32) -> &[u8] {
        row_of(self.slots.get(self.units.get(unit).block)).position
    }

    /// Adds a row at a known place where there is none; where there is no room, the place is unknown from now on.
    pub(super) fn add_row(&mut self, at: u32, row: RowRef<'_>) {
        let mut pieces = Vec::new();
        let body = row.body.whole(&mut pieces);
        let length = 8 + row.position.len() + row.clustering.len() + body.len();
        let fits = length <= growth_max(self.room) && self.make_room(length);
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
        self.units.add(unit, at, block, self.slots.size(block), Kind::Row, hash);
        let before = self.partitions.get(at).outside_bytes();
        self.partitions.get_mut(at).is_mortal |= is_mortal(body);
        match std::mem::take(&mut self.partitions.get_mut(at).rows) {
            Rows::None => self.partitions.get_mut(at).rows = Rows::One { unit, block },
            Rows::One { unit: other, .. } => {
                let first = Position::from_bytes(self.position_of(other));
                let mut rows = Box::new(Tree::default());
                rows.insert(first, other);
                rows.insert(Position::from_bytes(row.position), unit);
                self.partitions.get_mut(at).rows = Rows::Many(rows);
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
            Rows::One { unit, .. } => {
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
                let removed = rows.remove(&position);
                assert!(removed == Some(unit), "a row is found where it stands");
                if rows.is_empty() {
                    self.partitions.get_mut(at).rows = Rows::None;
                }
            }
            rows @ (Rows::One { .. } | Rows::None) => *rows = Rows::None,
        }
        self.recount(at, before);
        self.free_unit(unit);
        position
    }

    pub(super) fn free_unit(&mut self, unit: u32) {
        self.slots.remove(self.units.get(unit).block);
        self.units.remove(unit);
    }

    /// Takes a partition out of its directory. Its rows go with it, when they are many little by little.
    fn drop_partition(&mut self, at: u32) {
        let (slot, token) = (self.partitions.get(at).table, self.partitions.get(at).token);
        self.change_index(slot, |contents, directory| {
            let removed = directory.remove(token, |other| contents.key_of(other).cmp(contents.key_of(at)));
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
            match self.partitions.get(at).last_row() {
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
    pub(super) fn make_room(&mut self, length: usize) -> bool {
        self.room_for(length) == Room::Made
    }

    fn room_for(&mut self, length: usize) -> Room {
        let fits = |contents: &Contents| contents.bytes() + contents.slots.needs(length) <= contents.room;
        for _ in 0..CACHE_EVICTIONS_MAX {
            if fits(self) {
                return Room::Made;
            }
            // Room in slots of other sizes first; then somebody has to go.
            if self.slots.free_one() || self.drain() {
                continue;
            }
            if self.dying.is_empty() && !self.evict() {
                return Room::Never;
            }
            self.bury();
        }
        if fits(self) { Room::Made } else { Room::Later }
    }

    /// Makes a segment of slots empty, if others have room for what is in it.
    fn drain(&mut self) -> bool {
        let (slots, units, partitions) = (&mut self.slots, &mut self.units, &mut self.partitions);
        slots.drain_one(|unit, block| {
            units.set_block(unit, block);
            let of = units.get(unit).partition;
            match units.get(unit).kind {
                Kind::Single => {}
                Kind::Head => partitions.get_mut(of).key_block = block,
                Kind::Row => {
                    if let Rows::One { block: of_row, .. } = &mut partitions.get_mut(of).rows {
                        *of_row = block;
                    }
                }
            }
        })
    }

    /// Evicts one unit, or gives it another round when it must stay. False: there is none.
    fn evict(&mut self) -> bool {
        let Some(unit) = self.units.victim() else { return false };
        let (at, kind) = (self.units.get(unit).partition, self.units.get(unit).kind);
        if kind == Kind::Single {
            return self.evict_single(unit);
        }
        let cached = self.partitions.get(at);
        if kind == Kind::Row {
            self.evict_row(unit);
        } else if at == self.pinned {
            self.units.spare(unit);
        } else if let Some(row) = cached.last_row() {
            // A partition goes when its last row has gone. One goes in the turn of the head, else heads could have turn after turn.
            self.units.spare(unit);
            self.evict_row(row);
        } else {
            self.evictions += 1;
            self.units.remember(hash_of(cached.table, cached.token, &[]));
            self.drop_partition(at);
        }
        true
    }

    /// Evicts a row, and what is known beside it.
    fn evict_row(&mut self, unit: u32) {
        self.evictions += 1;
        let at = self.units.get(unit).partition;
        let cached = self.partitions.get(at);
        let (table, token, is_dead) = (cached.table, cached.token, cached.is_dead);
        let position = self.take_row(unit);
        if is_dead {
            return;
        }
        self.units.remember(hash_of(table, token, &position));
        self.cut(at, &position);
        let cached = self.partitions.get(at);
        if at != self.pinned && !cached.has_rows() && cached.known.is_nothing() {
            self.drop_partition(at);
        }
    }

    pub(super) fn absorb<V: PartitionView>(
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
            RowRef { position: row.position, clustering: &clustering, body: Body::Whole(merged) },
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

/// Bytes by which a cache of so many may grow at once.
pub(super) fn growth_max(bytes: usize) -> usize {
    (bytes / 8).min(CACHE_GROWTH_BYTES_MAX)
}

/// Whether all of a partition is among slices.
fn is_all(slices: &[Slice]) -> bool {
    matches!(slices, [all] if all.start <= Position::bottom() && Position::top() <= all.end)
}

/// Whether a partition, when it is known completely, has nothing but one row or none.
fn is_single(found: &Found<'_>) -> bool {
    let partition = found.partition;
    let bare = partition.deletion.is_live() && partition.static_row.is_none() && partition.ranges.is_empty();
    bare && partition.rows().nth(1).is_none() && Single::fits(&found.key.bytes, first_row(found).as_ref())
}

/// The first row of what was found.
pub(super) fn first_row<'f>(found: &Found<'f>) -> Option<RowRef<'f>> {
    let (position, row) = found.partition.rows().next()?;
    Some(RowRef { position, clustering: row.clustering(), body: Body::Whole(row.body()) })
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
pub(super) fn hash_of(table: u32, token: Token, position: &[u8]) -> u64 {
    let seed = (token.0 as u64) ^ u64::from(table).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    if position.is_empty() {
        return seed.wrapping_mul(0xff51_afd7_ed55_8ccd) ^ seed >> 29;
    }
    base::murmur3(position).0 as u64 ^ seed.rotate_left(17)
}
