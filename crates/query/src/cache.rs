//! Prepared statements of one shard, found by id; the least recently used go first.
//!
//! Every shard keeps its own copy, so that executing never leaves the shard. When the cache is full an eighth of it
//! goes at once: one pass over the ages costs less than keeping them in order at every execution.
//!
//! An entry that a change of the schema has made out of date is found by nobody any more. It keeps its place until it is
//! prepared again or grows old, because of what clients know from it: see [`Cache::outdated`].

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
    /// How many of the entries are out of date.
    outdated: usize,
    bytes: usize,
    clock: Cell<u64>,
    evicted: u64,
    entries_max: usize,
    bytes_max: usize,
}

struct Entry<T> {
    statement: Rc<T>,
    used: Cell<u64>,
    outdated: bool,
}

impl<T: Cached> Cache<T> {
    /// An empty cache with the crate's bounds.
    pub fn new() -> Cache<T> {
        Cache::with_bounds(limits::STATEMENTS_MAX, limits::STATEMENT_BYTES_MAX)
    }

    fn with_bounds(entries_max: usize, bytes_max: usize) -> Cache<T> {
        Cache {
            entries: HashMap::default(),
            outdated: 0,
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
        let entry = self.entries.get(id).filter(|entry| !entry.outdated)?;
        entry.used.set(self.tick());
        Some(entry.statement.clone())
    }

    /// The statement that an id stood for until the schema changed, unless it was prepared again since.
    pub fn outdated(&self, id: &StatementId) -> Option<&Rc<T>> {
        self.entries.get(id).filter(|entry| entry.outdated).map(|entry| &entry.statement)
    }

    /// Puts those out of date that `is` says so of.
    pub fn set_outdated(&mut self, mut is: impl FnMut(&T) -> bool) {
        for entry in self.entries.values_mut().filter(|entry| !entry.outdated) {
            if is(&entry.statement) {
                entry.outdated = true;
                self.outdated += 1;
            }
        }
    }

    /// Keeps a statement, replacing one of the same id, and lets old ones go when there are too many.
    pub fn insert(&mut self, id: StatementId, statement: Rc<T>) {
        self.bytes += statement.bytes();
        let entry = Entry { statement, used: Cell::new(self.tick()), outdated: false };
        if let Some(old) = self.entries.insert(id, entry) {
            self.removed(&old);
        }
        if self.entries.len() > self.entries_max || self.bytes > self.bytes_max {
            self.evict();
        }
    }

    /// Every statement that can be found, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (&StatementId, &Rc<T>)> {
        self.entries.iter().filter(|(_, entry)| !entry.outdated).map(|(id, entry)| (id, &entry.statement))
    }

    /// How many statements can be found.
    pub fn len(&self) -> usize {
        self.entries.len() - self.outdated
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
                self.removed(&old);
                self.evicted += u64::from(!old.outdated);
            }
        }
    }

    fn removed(&mut self, entry: &Entry<T>) {
        self.bytes -= entry.statement.bytes();
        self.outdated -= usize::from(entry.outdated);
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
    fn what_is_out_of_date_is_kept_but_not_found() {
        let mut cache = Cache::with_bounds(8, 1000);
        for n in 0..4 {
            cache.insert(id(n), Rc::new(Text(usize::from(n))));
        }
        cache.set_outdated(|text| text.0 >= 2);
        assert!(cache.get(&id(1)).is_some());
        assert!(cache.get(&id(2)).is_none());
        assert!(cache.outdated(&id(1)).is_none());
        assert!(cache.outdated(&id(2)).is_some());
        assert_eq!((cache.len(), cache.iter().count()), (2, 2));
        cache.insert(id(2), Rc::new(Text(9)));
        assert!(cache.get(&id(2)).is_some());
        assert!(cache.outdated(&id(2)).is_none());
        assert_eq!((cache.len(), cache.iter().count()), (3, 3));
        for n in 4..20 {
            cache.insert(id(n), Rc::new(Text(1)));
        }
        assert!(cache.outdated(&id(3)).is_none(), "it grows old as all others do");
        assert_eq!(cache.iter().count(), cache.len());
    }

    #[test]
    fn ids_of_another_length_are_unknown() {
        let cache: Cache<Text> = Cache::new();
        assert!(cache.get(b"short").is_none());
    }
}
