//! The newest part of a table: partitions in ring order, in memory.
//!
//! Written in one step per mutation, so a reader between steps sees all of a mutation or nothing. Once frozen it is never
//! written again, stays readable until its sstable is in the manifest, and is freed as a whole, in small steps.
//! How partitions lie there: [`crate::memory`].

use crate::Error;
use crate::commitlog::LogPosition;
use crate::limits::TIMESTAMP_SAMPLES;
use crate::memory::directory::{Batch, Next};
use crate::memory::{Contents, MemoryPartition, MemoryPool};
use base::Token;
use mutation::{Key, MutationView, TokenRange};
use schema::Table;
use std::cell::{Cell, Ref, RefCell};
use std::rc::Rc;

/// One memtable of one table.
pub struct Memtable {
    contents: RefCell<Contents>,
    range: TokenRange,
    pool: Rc<MemoryPool>,
    first_position: Cell<Option<LogPosition>>,
    /// Whether a whole partition was deleted as of a time before 1970.
    has_early_deletion: Cell<bool>,
}

impl Memtable {
    /// An empty one for tokens of a range; it takes memory when something is written.
    pub(crate) fn new(range: TokenRange, pool: Rc<MemoryPool>) -> Memtable {
        Memtable {
            contents: RefCell::new(Contents::new(range)),
            range,
            pool,
            first_position: Cell::new(None),
            has_early_deletion: Cell::new(false),
        }
    }

    /// An empty one of the same table.
    pub(crate) fn successor(&self) -> Memtable {
        Memtable::new(self.range, self.pool.clone())
    }

    /// Merges one mutation in; returns the bytes of memory it grew by: below 0 when a deletion took away more than it
    /// brought. Errors: nothing was applied.
    pub fn apply(&self, table: &Table, mutation: &MutationView<'_>) -> Result<isize, Error> {
        let mut contents = self.contents.borrow_mut();
        if contents.is_full() {
            let (value, limit) = (contents.bytes() as u64, u64::from(u32::MAX));
            return Err(Error::OutOfNumbers { what: "bytes of a memtable in small segments", value, limit });
        }
        let before = contents.bytes();
        contents.apply(&self.pool, table, mutation)?;
        if mutation.deletion.timestamp < 0 && !mutation.deletion.is_live() {
            self.has_early_deletion.set(true);
        }
        Ok(contents.bytes() as isize - before as isize)
    }

    /// Remembers that an entry of the log at this place is in here.
    pub fn note(&self, position: LogPosition) {
        let first = self.first_position.get().map_or(position, |first| first.min(position));
        self.first_position.set(Some(first));
    }

    /// The oldest log entry that is in here; `None` when nothing came from the log of this start.
    pub fn first_position(&self) -> Option<LogPosition> {
        self.first_position.get()
    }

    /// Bytes of memory it takes, used or not. It never shrinks.
    pub fn bytes(&self) -> usize {
        self.contents.borrow().bytes()
    }

    /// Bytes that overwritten rows left behind.
    pub fn garbage(&self) -> usize {
        self.contents.borrow().garbage()
    }

    /// Number of partitions.
    pub fn partitions(&self) -> u64 {
        self.contents.borrow().partitions() as u64
    }

    /// About how many cells it has: those of the first `rows` rows, and as many per partition in the rest. One step.
    pub fn cells(&self, rows: u64) -> u64 {
        let (mut cells, mut seen_rows, mut seen) = (0u64, 0u64, 0u64);
        let mut keys = Keys::all();
        while let Some((_, handle)) = keys.next(self) {
            let contents = self.contents.borrow();
            if seen_rows >= rows {
                return (cells as f64 / seen as f64 * contents.partitions() as f64) as u64;
            }
            let partition = contents.partition(handle);
            let (some, walked, of_static) = partition.cells((rows - seen_rows) as usize);
            let count = partition.row_count();
            let all = if walked < count { (some as f64 / walked as f64 * count as f64) as u64 } else { some };
            cells += all + of_static;
            seen_rows += walked + 1;
            seen += 1;
        }
        cells
    }

    /// A timestamp that few things in it are older than, to count others from: what the first partitions say, but for the few
    /// that are far from the others. `None`: it is empty. One step.
    pub(crate) fn early_timestamp(&self) -> Option<i64> {
        let mut keys = Keys::all();
        let mut samples: Vec<i64> = std::iter::from_fn(|| {
            let (_, handle) = keys.next(self)?;
            Some(self.with_handle(handle, |partition| partition.min_timestamp()))
        })
        .take(TIMESTAMP_SAMPLES)
        .collect();
        samples.sort_unstable();
        let (first, middle) = (*samples.get(samples.len() / 64)?, samples[samples.len() / 2]);
        // In the order of the ring anything comes first: the oldest of all is likely to be a little older.
        Some(first.saturating_sub(middle.saturating_sub(first) / 8))
    }

    /// Whether a whole partition was deleted as of a time before 1970.
    pub(crate) fn has_early_deletion(&self) -> bool {
        self.has_early_deletion.get()
    }

    /// Whether nothing was applied.
    pub fn is_empty(&self) -> bool {
        self.contents.borrow().partitions() == 0
    }

    /// Looks at one partition, within this step.
    #[inline]
    pub(crate) fn with<R>(
        &self,
        token: Token,
        key: &[u8],
        look: impl FnOnce(&MemoryPartition<'_>) -> R,
    ) -> Option<R> {
        let contents = self.contents.borrow();
        let handle = contents.find(token, key)?;
        Some(look(&contents.partition(handle)))
    }

    /// Looks at a partition that a walk came to, within this step; nothing was written since.
    pub(crate) fn with_handle<R>(&self, handle: u32, look: impl FnOnce(&MemoryPartition<'_>) -> R) -> R {
        look(&self.contents.borrow().partition(handle))
    }

    /// Looks at several partitions in one step; nothing can be written while it is held.
    pub(crate) fn reading(&self) -> MemtableReading<'_> {
        MemtableReading { contents: self.contents.borrow() }
    }

    /// Whether a partition was read by its key. Now and then one is forgotten.
    pub(crate) fn was_read(&self, token: Token, key: &[u8]) -> bool {
        self.contents.borrow().was_read(token, key)
    }

    /// Whether any partition was read by its key.
    pub(crate) fn was_any_read(&self) -> bool {
        self.contents.borrow().was_any_read()
    }

    /// A hint that a partition of that token will be looked for: [`Contents::prefetch`].
    #[inline]
    pub(crate) fn prefetch(&self, token: Token, step: usize) {
        self.contents.borrow().prefetch(token, step);
    }

    /// Whether there is a partition of that key.
    pub fn contains(&self, token: Token, key: &[u8]) -> bool {
        self.contents.borrow().find(token, key).is_some()
    }

    /// The first key in a range, behind `after` when given.
    pub fn next_key(&self, range: TokenRange, after: Option<&Key>) -> Option<Key> {
        let start = after.map_or(range.first, |key| key.token.max(range.first));
        if start > range.last {
            return None;
        }
        let after = after.filter(|key| key.token == start).map(|key| &*key.bytes);
        let contents = self.contents.borrow();
        let mut batch = Batch::new();
        contents.batch_behind(start, after, &mut batch);
        let (token, handle) = *batch.first()?;
        (token <= range.last).then(|| Key::with_token(token, contents.key(handle)))
    }
}

/// A partition of a memtable within one step.
pub(crate) type MemoryView<'m> = MemoryPartition<'m>;

/// A memtable that is being looked at.
pub(crate) struct MemtableReading<'m> {
    contents: Ref<'m, Contents>,
}

impl MemtableReading<'_> {
    /// The partition of a key.
    #[inline]
    pub(crate) fn get(&self, token: Token, key: &[u8]) -> Option<MemoryView<'_>> {
        let handle = self.contents.find(token, key)?;
        Some(self.contents.partition(handle))
    }

    /// As [`MemtableReading::get`], for a read: the partition is marked as one that was read.
    #[inline]
    pub(crate) fn read(&self, token: Token, key: &[u8]) -> Option<MemoryView<'_>> {
        let handle = self.contents.find_to_read(token, key)?;
        Some(self.contents.partition(handle))
    }
}

#[cfg(test)]
impl Default for Memtable {
    fn default() -> Memtable {
        Memtable::new(TokenRange::ALL, Rc::default())
    }
}

impl Drop for Memtable {
    fn drop(&mut self) {
        if !self.is_empty() {
            let range = TokenRange::new(Token(0), Token(0));
            self.pool.retire(self.contents.replace(Contents::new(range)));
        }
    }
}

/// A walk over all partitions of a memtable in the order of the ring. Between two steps nothing may be written. It is some
/// partitions ahead of its owner: what comes next is on its way to the processor.
pub(crate) struct Keys {
    batch: Batch,
    at: usize,
    ahead: Batch,
    /// Where `ahead` ends.
    next: Option<Next>,
}

impl Keys {
    /// Before the first.
    pub(crate) fn all() -> Keys {
        Keys { batch: Batch::new(), at: 0, ahead: Batch::new(), next: None }
    }

    /// The next partition: its token, and its handle for [`Memtable::with_handle`]. O(1).
    pub(crate) fn next(&mut self, memtable: &Memtable) -> Option<(Token, u32)> {
        if self.at == self.batch.len() {
            let contents = memtable.contents.borrow();
            if self.next.is_none() {
                self.look_ahead(&contents);
            }
            std::mem::swap(&mut self.batch, &mut self.ahead);
            self.at = 0;
            self.look_ahead(&contents);
        }
        let next = self.batch.get(self.at).copied();
        self.at += 1;
        next
    }

    /// The partitions from the one just given on and those behind them, when others have come nearer since the one before.
    pub(crate) fn came_nearer(&self) -> Option<(&Batch, &Batch)> {
        (self.at == 1).then_some((&self.batch, &self.ahead))
    }

    /// Takes in what comes behind the batch.
    fn look_ahead(&mut self, contents: &Contents) {
        let out = &mut self.ahead;
        let next = match (self.next, self.batch.last()) {
            (Some(Next::End), _) => {
                out.clear();
                Next::End
            }
            (Some(Next::At(place)), _) => contents.batch_at(place, out),
            (Some(Next::Behind), Some((token, handle))) => {
                contents.batch_behind(*token, Some(contents.key(*handle)), out)
            }
            (None, _) | (Some(Next::Behind), None) => contents.batch_behind(Token(i64::MIN), None, out),
        };
        contents.prefetch_partitions(out.iter().map(|(_, handle)| *handle));
        if let Next::At(place) = next {
            contents.prefetch_place(place);
        }
        self.next = Some(next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{insert, table};

    #[test]
    fn few_timestamps_are_older_than_the_early_one() {
        let table = table();
        let memtable = Memtable::default();
        assert_eq!(memtable.early_timestamp(), None);
        let times: Vec<i64> = (0..20_000).map(|n| 1_700_000_000_000_000 + n * 1_000).collect();
        for (number, time) in times.iter().enumerate() {
            let key = number.to_be_bytes();
            memtable.apply(&table, &insert(&table, &key, 1, *time, b"v").view()).expect("applies");
        }
        let early = memtable.early_timestamp().expect("it is not empty");
        assert!(times.iter().filter(|time| **time < early).count() < 100);
        assert!((times[0] - early).abs() < 2_000_000, "and it is not far from the first");
        for time in [1, i64::MAX - 1] {
            let key = time.to_be_bytes();
            memtable.apply(&table, &insert(&table, &key, 1, time, b"v").view()).expect("applies");
        }
        let another = memtable.early_timestamp().expect("it is not empty");
        assert!((another - early).abs() < 2_000_000, "one or two from elsewhere do not count");
    }

    #[test]
    fn keys_come_in_ring_order_and_colliding_tokens_by_key() {
        let table = table();
        let memtable = Memtable::default();
        let keys: Vec<Vec<u8>> = (0..40u32).map(|i| i.to_be_bytes().to_vec()).collect();
        for key in &keys {
            memtable.apply(&table, &insert(&table, key, 1, 1, b"v").view()).expect("applies");
        }
        // Keys that share a token, applied out of order.
        for key in [&b"zz"[..], b"aa", b"mm"] {
            let mutation = crate::fixture::insert_at(&table, Token(7), key, 1, 1, b"v");
            memtable.apply(&table, &mutation.view()).expect("applies");
        }
        let mut expected: Vec<(Token, Box<[u8]>)> =
            keys.iter().map(|key| (Token::of_key(key), key.as_slice().into())).collect();
        expected.extend([&b"aa"[..], b"mm", b"zz"].map(|key| (Token(7), key.into())));
        expected.sort();
        let mut found = Vec::new();
        let mut after: Option<Key> = None;
        while let Some(key) = memtable.next_key(TokenRange::ALL, after.as_ref()) {
            found.push((key.token, key.bytes.clone()));
            after = Some(key);
        }
        assert_eq!(found, expected);
        let mut keys = Keys::all();
        let walked = std::iter::from_fn(|| {
            let (token, handle) = keys.next(&memtable)?;
            Some((token, memtable.with_handle(handle, |partition| partition.key().into())))
        });
        assert_eq!(walked.collect::<Vec<(Token, Box<[u8]>)>>(), expected);
        assert_eq!(memtable.partitions(), 43);
        assert_eq!(memtable.cells(1000), 43);
        assert_eq!(memtable.cells(10), 43, "the rest is like the first ten");
        assert!(memtable.contains(Token(7), b"mm"));
        assert!(!memtable.contains(Token(7), b"nn"));
        assert_eq!(
            memtable.next_key(TokenRange::new(Token(7), Token(7)), None).map(|k| k.bytes),
            Some(b"aa"[..].into())
        );
    }

    #[test]
    fn keys_of_one_chosen_token_are_walked_in_order_and_found() {
        let table = table();
        let memtable = Memtable::default();
        let keys: Vec<[u8; 4]> = (0..3_000u32).map(|i| i.wrapping_mul(0x9e37_79b9).to_be_bytes()).collect();
        for key in &keys {
            let mutation = crate::fixture::insert_at(&table, Token(7), key, 1, 1, b"v");
            memtable.apply(&table, &mutation.view()).expect("applies");
        }
        let mut sorted = keys.clone();
        sorted.sort();
        let mut walk = Keys::all();
        for key in &sorted {
            let (token, handle) = walk.next(&memtable).expect("as many as were written");
            assert_eq!(token, Token(7));
            memtable.with_handle(handle, |partition| assert_eq!(partition.key(), key));
            assert!(memtable.contains(Token(7), key));
        }
        assert_eq!(walk.next(&memtable), None);
        assert!(memtable.bytes() < 3_000 * 200, "{} bytes", memtable.bytes());
    }

    #[test]
    fn the_oldest_position_is_kept() {
        let memtable = Memtable::default();
        assert_eq!(memtable.first_position(), None);
        for (segment, offset) in [(2, 10), (1, 50), (1, 70)] {
            memtable.note(LogPosition { segment, offset });
        }
        assert_eq!(memtable.first_position(), Some(LogPosition { segment: 1, offset: 50 }));
    }

    #[test]
    fn what_was_dropped_is_freed_in_steps() {
        let table = table();
        let pool = Rc::new(MemoryPool::default());
        let memtable = Memtable::new(TokenRange::ALL, pool.clone());
        for key in 0..20_000u32 {
            let mutation = insert(&table, &key.to_be_bytes(), 1, 1, &[7; 100]);
            memtable.apply(&table, &mutation.view()).expect("applies");
        }
        let (bytes, before) = (memtable.bytes() as i64, base::counting::allocated_bytes());
        drop(memtable);
        assert!(base::counting::allocated_bytes() >= before, "dropping frees nothing yet");
        let mut steps = 0;
        while pool.reclaim() {
            steps += 1;
        }
        assert!(steps > 20, "{steps} steps");
        let (kept, freed) = (pool.free_bytes() as i64, before - base::counting::allocated_bytes());
        assert!(kept > 15 * 128 * 1024, "segments are kept for the next: {kept}");
        let lists = bytes / 50;
        assert!((bytes - kept - lists..=bytes - kept + lists).contains(&freed), "{freed} of {bytes}");
    }
}
