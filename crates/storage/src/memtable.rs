//! The newest part of a table: partitions in ring order, in memory.
//!
//! Written in one step per mutation, so a reader between steps sees all of a mutation or nothing. Once frozen it is never
//! written again, stays readable until its sstable is in the manifest, and is freed as a whole.

use crate::Error;
use crate::commitlog::LogPosition;
use base::Token;
use mutation::{ColumnView, Key, MutationView, Partition, RowView, TokenRange};
use schema::Table;
use std::cell::{Cell, Ref, RefCell};
use std::collections::BTreeMap;
use std::ops::Bound;

/// Memory of one partition beside its content, bytes, roughly: tree node share, key box, partition head.
const PARTITION_BYTES: usize = 200;

/// One memtable of one table.
#[derive(Default)]
pub struct Memtable {
    partitions: RefCell<BTreeMap<Token, SameToken>>,
    bytes: Cell<usize>,
    count: Cell<u64>,
    first_position: Cell<Option<LogPosition>>,
}

/// The partitions of one token, ordered by key: nearly always one.
struct SameToken {
    first: Entry,
    more: Vec<Entry>,
}

struct Entry {
    key: Box<[u8]>,
    partition: Partition,
}

impl SameToken {
    fn iter(&self) -> impl Iterator<Item = &Entry> {
        std::iter::once(&self.first).chain(&self.more)
    }

    fn get(&self, key: &[u8]) -> Option<&Partition> {
        self.iter().find(|entry| *entry.key == *key).map(|entry| &entry.partition)
    }

    fn insert(&mut self, entry: Entry) {
        if entry.key < self.first.key {
            let second = std::mem::replace(&mut self.first, entry);
            self.more.insert(0, second);
        } else {
            let at = self.more.partition_point(|other| other.key < entry.key);
            self.more.insert(at, entry);
        }
    }

    fn get_mut(&mut self, key: &[u8]) -> Option<&mut Partition> {
        let SameToken { first, more } = self;
        std::iter::once(first).chain(more).find(|entry| *entry.key == *key).map(|entry| &mut entry.partition)
    }
}

fn cells_of(body: &[u8]) -> u64 {
    let count = |column| match column {
        ColumnView::Simple(_) => 1,
        ColumnView::Complex(complex) => complex.cells().count() as u64,
    };
    RowView::new(body).columns().map(|(_, column)| count(column)).sum()
}

/// A partition of a memtable, as readers see it.
pub type MemoryView<'m> = &'m Partition;

/// A memtable within one step: what is found in it lives as long.
pub struct MemtableReading<'m>(Ref<'m, BTreeMap<Token, SameToken>>);

impl MemtableReading<'_> {
    /// One partition.
    #[inline]
    pub fn get(&self, token: Token, key: &[u8]) -> Option<MemoryView<'_>> {
        self.0.get(&token)?.get(key)
    }
}

impl Memtable {
    /// Opens the memtable for looking, within this step.
    #[inline]
    pub fn reading(&self) -> MemtableReading<'_> {
        MemtableReading(self.partitions.borrow())
    }

    /// Merges one mutation in; returns the bytes it grew by, roughly. Errors: nothing was applied.
    pub fn apply(&self, table: &Table, mutation: &MutationView<'_>) -> Result<usize, Error> {
        let mut partitions = self.partitions.borrow_mut();
        let known = partitions.get_mut(&mutation.token).and_then(|entries| entries.get_mut(mutation.key));
        let grown = match known {
            Some(partition) => partition.apply(table, mutation)?,
            None => {
                let mut partition = Partition::new();
                let grown = partition.apply(table, mutation)?;
                let entry = Entry { key: mutation.key.into(), partition };
                match partitions.entry(mutation.token) {
                    std::collections::btree_map::Entry::Vacant(place) => {
                        place.insert(SameToken { first: entry, more: Vec::new() });
                    }
                    std::collections::btree_map::Entry::Occupied(mut place) => place.get_mut().insert(entry),
                }
                self.count.set(self.count.get() + 1);
                grown + mutation.key.len() + PARTITION_BYTES
            }
        };
        self.bytes.set(self.bytes.get() + grown);
        Ok(grown)
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

    /// Bytes of memory, roughly.
    pub fn bytes(&self) -> usize {
        self.bytes.get()
    }

    /// Number of partitions.
    pub fn partitions(&self) -> u64 {
        self.count.get()
    }

    /// About how many cells it has: those of the first `rows` rows, and as many per partition in the rest. One step.
    pub fn cells(&self, rows: u64) -> u64 {
        let partitions = self.partitions.borrow();
        let (mut cells, mut seen_rows, mut seen) = (0u64, 0u64, 0u64);
        for entry in partitions.values().flat_map(SameToken::iter) {
            if seen_rows >= rows {
                return (cells as f64 / seen as f64 * self.count.get() as f64) as u64;
            }
            let partition = &entry.partition;
            let budget = (rows - seen_rows) as usize;
            let some: u64 = partition.rows().take(budget).map(|(_, row)| cells_of(row.body())).sum();
            let (count, walked) = (partition.row_count(), partition.row_count().min(budget));
            let all = if walked < count { (some as f64 / walked as f64 * count as f64) as u64 } else { some };
            cells += all + partition.static_row.as_deref().map_or(0, cells_of);
            seen_rows += walked as u64 + 1;
            seen += 1;
        }
        cells
    }

    /// Whether nothing was applied.
    pub fn is_empty(&self) -> bool {
        self.count.get() == 0
    }

    /// Looks at one partition, within this step.
    pub fn with<R>(&self, token: Token, key: &[u8], look: impl FnOnce(&Partition) -> R) -> Option<R> {
        let partitions = self.partitions.borrow();
        partitions.get(&token)?.get(key).map(look)
    }

    /// Whether there is a partition of that key.
    pub fn contains(&self, token: Token, key: &[u8]) -> bool {
        self.with(token, key, |_| ()).is_some()
    }

    /// The first key in a range, behind `after` when given.
    pub fn next_key(&self, range: TokenRange, after: Option<&Key>) -> Option<Key> {
        let partitions = self.partitions.borrow();
        let start = after.map_or(range.first, |key| key.token.max(range.first));
        if start > range.last {
            return None;
        }
        let places = partitions.range((Bound::Included(start), Bound::Included(range.last)));
        places
            .flat_map(|(token, entries)| entries.iter().map(move |entry| (*token, entry)))
            .find(|(token, entry)| after.is_none_or(|key| (*token, &entry.key) > (key.token, &key.bytes)))
            .map(|(token, entry)| Key::with_token(token, &entry.key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{insert, table};

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
    fn the_oldest_position_is_kept() {
        let memtable = Memtable::default();
        assert_eq!(memtable.first_position(), None);
        for (segment, offset) in [(2, 10), (1, 50), (1, 70)] {
            memtable.note(LogPosition { segment, offset });
        }
        assert_eq!(memtable.first_position(), Some(LogPosition { segment: 1, offset: 50 }));
    }
}
