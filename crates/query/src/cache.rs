//! Prepared statements of one shard, found by id; the least recently used go first.
//!
//! Every shard keeps its own copy, so that executing never leaves the shard. When the cache is full an eighth of it
//! goes at once: one pass over the ages costs less than keeping them in order at every execution.

use crate::limits;
use base::HashMap;
use std::cell::Cell;
use std::rc::Rc;

/// The id of a prepared statement: the MD5 of its keyspace and text, the same on every node.
pub type StatementId = [u8; 16];

/// What the cache needs to know of an entry.
pub trait Cached {
    /// The memory it is counted with.
    fn bytes(&self) -> usize;
}

/// A bounded map from ids to statements.
pub struct Cache<T> {
    entries: HashMap<StatementId, Entry<T>>,
    bytes: usize,
    clock: Cell<u64>,
    evicted: u64,
    entries_max: usize,
    bytes_max: usize,
}

struct Entry<T> {
    statement: Rc<T>,
    used: Cell<u64>,
}

impl<T: Cached> Cache<T> {
    /// An empty cache with the crate's bounds.
    pub fn new() -> Cache<T> {
        Cache::with_bounds(limits::STATEMENTS_MAX, limits::STATEMENT_BYTES_MAX)
    }

    fn with_bounds(entries_max: usize, bytes_max: usize) -> Cache<T> {
        Cache {
            entries: HashMap::default(),
            bytes: 0,
            clock: Cell::new(0),
            evicted: 0,
            entries_max,
            bytes_max,
        }
    }

    /// The statement of an id, now the most recently used.
    pub fn get(&self, id: &[u8]) -> Option<Rc<T>> {
        let id: &StatementId = id.try_into().ok()?;
        let entry = self.entries.get(id)?;
        entry.used.set(self.tick());
        Some(entry.statement.clone())
    }

    /// Keeps a statement, replacing one of the same id, and lets old ones go when there are too many.
    pub fn insert(&mut self, id: StatementId, statement: Rc<T>) {
        self.bytes += statement.bytes();
        let entry = Entry { statement, used: Cell::new(self.tick()) };
        if let Some(old) = self.entries.insert(id, entry) {
            self.bytes -= old.statement.bytes();
        }
        if self.entries.len() > self.entries_max || self.bytes > self.bytes_max {
            self.evict();
        }
    }

    /// Every statement kept, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (&StatementId, &Rc<T>)> {
        self.entries.iter().map(|(id, entry)| (id, &entry.statement))
    }

    /// How many statements are kept.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// How many statements were let go since the start.
    pub fn evicted(&self) -> u64 {
        self.evicted
    }

    fn tick(&self) -> u64 {
        self.clock.set(self.clock.get() + 1);
        self.clock.get()
    }

    /// Lets the oldest eighth go, and more while the bytes are too many; never the newest.
    fn evict(&mut self) {
        let mut ages: Vec<(u64, StatementId)> =
            self.entries.iter().map(|(id, entry)| (entry.used.get(), *id)).collect();
        ages.sort_unstable();
        ages.pop();
        let wanted = self.entries.len() / 8;
        for (index, (_, id)) in ages.into_iter().enumerate() {
            let fits = self.entries.len() <= self.entries_max && self.bytes <= self.bytes_max;
            if fits && index >= wanted {
                break;
            }
            if let Some(old) = self.entries.remove(&id) {
                self.bytes -= old.statement.bytes();
                self.evicted += 1;
            }
        }
    }
}

impl<T: Cached> Default for Cache<T> {
    fn default() -> Cache<T> {
        Cache::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Text(usize);

    impl Cached for Text {
        fn bytes(&self) -> usize {
            self.0
        }
    }

    fn id(n: u8) -> StatementId {
        [n; 16]
    }

    #[test]
    fn the_least_recently_used_go_first() {
        let mut cache = Cache::with_bounds(8, 1000);
        for n in 0..8 {
            cache.insert(id(n), Rc::new(Text(1)));
        }
        assert!(cache.get(&id(0)).is_some());
        cache.insert(id(8), Rc::new(Text(1)));
        assert!(cache.get(&id(0)).is_some());
        assert!(cache.get(&id(1)).is_none());
        assert_eq!((cache.len(), cache.evicted()), (8, 1));
    }

    #[test]
    fn bytes_bound_the_cache_too() {
        let mut cache = Cache::with_bounds(100, 100);
        for n in 0..10 {
            cache.insert(id(n), Rc::new(Text(30)));
        }
        assert!(cache.len() <= 3);
        assert!(cache.get(&id(9)).is_some());
    }

    #[test]
    fn ids_of_another_length_are_unknown() {
        let cache: Cache<Text> = Cache::new();
        assert!(cache.get(b"short").is_none());
    }
}
