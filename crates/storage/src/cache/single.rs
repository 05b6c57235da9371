//! A partition that is known completely and has one row or none: one block, one unit, one entry of the directory.
//!
//! ```text
//! block   u32 generation, u16 bytes of key, u16 of clustering, u8 of position
//!         u8 flags      01 has a row  04 mortal  08 the token is not what the key's bytes give
//!         [04] u32 purges, [08] i64 token, key, position, clustering, packed row
//! ```
//! Most partitions that are asked for by their key are like that. Its unit names the table where others name a partition.
//! Numbers are little endian: none of this ever leaves memory.

use super::contents::{Contents, first_row, growth_max, hash_of};
use super::entry::is_mortal;
use super::part::{Found, NOBODY, TableCache};
use super::queue::Kind;
use super::slots::Slots;
use base::Token;
use mutation::{Body, Key, PartitionView, RowRef, merge_rows};
use schema::{Position, Table};

/// Set in values of directories that are units of singles; others are places of partitions.
const SINGLE: u32 = 1 << 31;
const HEAD: usize = 10;
const KEY_AT: usize = 4;
const CLUSTERING_AT: usize = 6;
const POSITION_AT: usize = 8;
const FLAGS_AT: usize = 9;
const HAS_ROW: u8 = 1;
/// Also the bytes that the purges take, which tell nothing about what no compaction may leave out.
const MORTAL: u8 = 4;
/// Also the bytes that the token takes.
const TOKEN: u8 = 8;

/// Where the key begins in a block with these flags.
#[inline]
fn key_at(flags: u8) -> usize {
    HEAD + usize::from(flags & (MORTAL | TOKEN))
}

/// The value of a directory for a single.
pub(super) fn entry_of(unit: u32) -> u32 {
    unit | SINGLE
}

/// The unit of a single, if the value of a directory is one.
#[inline]
pub(super) fn single(entry: u32) -> Option<u32> {
    (entry & SINGLE != 0).then_some(entry & !SINGLE)
}

/// A single, read where it lies.
#[derive(Clone, Copy)]
pub(crate) struct Single<'c> {
    /// `None`: what the key's bytes give.
    token: Option<Token>,
    /// As in [`super::entry::Cached`].
    pub(super) generation: u32,
    /// Of what is mortal; else 0.
    pub(super) purges: u32,
    pub(super) is_mortal: bool,
    pub(super) key: &'c [u8],
    pub(super) row: Option<RowRef<'c>>,
}

fn number<const N: usize>(block: &[u8], at: usize) -> [u8; N] {
    block[at..].first_chunk::<N>().copied().unwrap_or([0; N])
}

impl<'c> Single<'c> {
    /// A single of a key; without a row, and immortal.
    fn new(key: &'c Key, generation: u32, purges: u32) -> Single<'c> {
        let token = (Token::of_key(&key.bytes) != key.token).then_some(key.token);
        Single { token, generation, purges, is_mortal: false, key: &key.bytes, row: None }
    }

    /// The key alone.
    #[inline]
    pub(super) fn key(block: &[u8]) -> &[u8] {
        let at = key_at(block[FLAGS_AT]);
        &block[at..at + usize::from(u16::from_le_bytes(number(block, KEY_AT)))]
    }

    /// Its token. Hashes the key.
    pub(super) fn token(&self) -> Token {
        self.token.unwrap_or_else(|| Token::of_key(self.key))
    }

    #[inline]
    pub(super) fn read(block: &'c [u8]) -> Single<'c> {
        let key = Single::key(block);
        let flags = block[FLAGS_AT];
        let row = || {
            let position_at = key_at(flags) + key.len();
            let clustering_at = position_at + usize::from(block[POSITION_AT]);
            let body_at = clustering_at + usize::from(u16::from_le_bytes(number(block, CLUSTERING_AT)));
            RowRef {
                position: &block[position_at..clustering_at],
                clustering: &block[clustering_at..body_at],
                body: Body::Whole(&block[body_at..]),
            }
        };
        let is_mortal = flags & MORTAL != 0;
        let token = || Token(i64::from_le_bytes(number(block, key_at(flags & MORTAL))));
        Single {
            token: (flags & TOKEN != 0).then(token),
            generation: u32::from_le_bytes(number(block, 0)),
            purges: if is_mortal { u32::from_le_bytes(number(block, HEAD)) } else { 0 },
            is_mortal,
            key,
            row: (flags & HAS_ROW != 0).then(row),
        }
    }

    /// Whether its lengths have room in a block.
    pub(super) fn fits(key: &[u8], row: Option<&RowRef<'_>>) -> bool {
        let row_fits = |row: &RowRef<'_>| {
            row.position.len() <= usize::from(u8::MAX) && row.clustering.len() <= usize::from(u16::MAX)
        };
        key.len() <= usize::from(u16::MAX) && row.is_none_or(row_fits)
    }

    fn flags(&self) -> u8 {
        let flag = |is_set, flag| if is_set { flag } else { 0 };
        flag(self.row.is_some(), HAS_ROW) | flag(self.is_mortal, MORTAL) | flag(self.token.is_some(), TOKEN)
    }

    /// Bytes of its block.
    pub(super) fn length(&self) -> usize {
        key_at(self.flags()) + self.key.len() + self.row.as_ref().map_or(0, RowRef::size)
    }

    /// Writes it to a block of its own. The body of its row is in one place.
    pub(super) fn add_to(&self, slots: &mut Slots, unit: u32) -> u32 {
        let mut head = [0; HEAD];
        head[..4].copy_from_slice(&self.generation.to_le_bytes());
        head[KEY_AT..CLUSTERING_AT].copy_from_slice(&(self.key.len() as u16).to_le_bytes());
        head[FLAGS_AT] = self.flags();
        let purges = self.is_mortal.then(|| self.purges.to_le_bytes());
        let purges: &[u8] = purges.as_ref().map_or(&[], |purges| purges);
        let token = self.token.map(|token| token.0.to_le_bytes());
        let token: &[u8] = token.as_ref().map_or(&[], |token| token);
        let Some(row) = &self.row else { return slots.add(unit, &[&head, purges, token, self.key]) };
        head[CLUSTERING_AT..POSITION_AT].copy_from_slice(&(row.clustering.len() as u16).to_le_bytes());
        head[POSITION_AT] = row.position.len() as u8;
        let mut pieces = Vec::new();
        let body = row.body.whole(&mut pieces);
        slots.add(unit, &[&head, purges, token, self.key, row.position, row.clustering, body])
    }
}

impl Contents {
    /// Adds a partition that is known completely and has one row or none.
    pub(super) fn fill_single(&mut self, table: &TableCache, found: &Found<'_>) {
        let row = first_row(found);
        let is_mortal = found.partition.rows().any(|(_, row)| is_mortal(row.body()));
        let new = Single::new(found.key, table.generation.get(), table.purges.get());
        let new = Single { is_mortal, row, ..new };
        let length = new.length();
        if length > growth_max(self.room) || !self.make_room(length) {
            return;
        }
        let slot = self.slot_of(table);
        let unit = self.units.reserve();
        let block = new.add_to(&mut self.slots, unit);
        let hash = hash_of(slot, found.key.token, &[]);
        self.units.add(unit, slot, block, self.slots.size(block), Kind::Single, hash);
        self.change_index(slot, |contents, directory| {
            let order = |a: u32, b: u32| contents.key_of(a).cmp(contents.key_of(b));
            directory.insert(found.key.token, entry_of(unit), order);
        });
        self.partition_count += 1;
        self.single_rows += usize::from(row.is_some());
        // The directory may have grown.
        self.pinned = entry_of(unit);
        self.make_room(0);
        self.pinned = NOBODY;
    }

    /// Merges what a memtable knows into a single that stays one. False: it does not, and nothing has happened.
    pub(super) fn absorb_single<V: PartitionView>(
        &mut self,
        table: &TableCache,
        definition: &Table,
        unit: u32,
        flushed: &V,
    ) -> bool {
        if !flushed.deletion().is_live() || flushed.ranges().is_some() || flushed.static_row().is_some() {
            return false;
        }
        let mut rows = flushed.rows_between(&Position::bottom(), None, false);
        let (Some(row), None) = (rows.next(), rows.next()) else { return false };
        let old = self.single(unit);
        if !Single::fits(old.key, Some(&row)) || old.row.is_some_and(|old| old.position != row.position) {
            return false;
        }
        let (mut pieces, mut merged) = (Vec::new(), Vec::new());
        let mut body = row.body.whole(&mut pieces);
        if let Some(old) = &old.row {
            merge_rows(definition, false, old.body.whole(&mut Vec::new()), body, &mut merged);
            body = &merged;
        }
        let clustering = old.row.map_or(row.clustering, |old| old.clustering.max(row.clustering)).to_vec();
        let key = old.key.to_vec();
        let new = Single {
            generation: old.generation,
            token: old.token,
            purges: table.purges.get(),
            is_mortal: old.is_mortal || is_mortal(body),
            key: &key,
            row: Some(RowRef { position: row.position, clustering: &clustering, body: Body::Whole(body) }),
        };
        let had_row = old.row.is_some();
        self.replace_single(unit, &new, had_row);
        true
    }

    /// Puts another block in the place of a single's, or lets go of it when there is no room.
    fn replace_single(&mut self, unit: u32, new: &Single<'_>, had_row: bool) {
        let length = new.length();
        self.pinned = entry_of(unit);
        let fits = length <= growth_max(self.room) && self.make_room(length);
        self.pinned = NOBODY;
        if !fits {
            return self.drop_single(unit);
        }
        self.slots.remove(self.units.get(unit).block);
        let block = new.add_to(&mut self.slots, unit);
        self.units.set_block(unit, block);
        self.units.set_bytes(unit, self.slots.size(block));
        self.single_rows += usize::from(!had_row);
    }

    /// Makes a single a partition in parts, to which more can be added. `None`: there is no room, and it is gone.
    pub(super) fn take_apart(&mut self, table: &TableCache, unit: u32) -> Option<u32> {
        let single = self.single(unit);
        let key = Key::with_token(single.token(), single.key);
        let row = single.row.map(|row| {
            (row.position.to_vec(), row.clustering.to_vec(), row.body.whole(&mut Vec::new()).to_vec())
        });
        self.drop_single(unit);
        let at = self.add_partition(table, &key)?;
        self.partitions.get_mut(at).known.add(&Position::bottom(), &Position::top());
        if let Some((position, clustering, body)) = &row {
            self.pinned = at;
            self.add_row(at, RowRef { position, clustering, body: Body::Whole(body) });
            self.pinned = NOBODY;
        }
        Some(at)
    }

    /// Evicts a single, or gives it another round when it must stay.
    pub(super) fn evict_single(&mut self, unit: u32) -> bool {
        if entry_of(unit) == self.pinned {
            self.units.spare(unit);
            return true;
        }
        let (table, token) = (self.units.get(unit).partition, self.single(unit).token());
        self.evictions += 1;
        self.units.remember(hash_of(table, token, &[]));
        self.drop_single(unit);
        true
    }

    pub(super) fn drop_single(&mut self, unit: u32) {
        let (slot, entry) = (self.units.get(unit).partition, entry_of(unit));
        let single = self.single(unit);
        let (token, had_row) = (single.token(), single.row.is_some());
        self.change_index(slot, |contents, directory| {
            let removed = directory.remove(token, |other| contents.key_of(other).cmp(contents.key_of(entry)));
            assert!(removed == Some(entry), "a partition is found where it stands");
        });
        self.partition_count -= 1;
        self.single_rows -= usize::from(had_row);
        self.free_unit(unit);
    }
}
