//! What this shard's part of `system.batches` may hold, and when each of it is due.

use crate::limits::BATCHES_UNFINISHED_MAX;
use base::{HashMap, Instant};
use mutation::Key;
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

/// Batches that are not known to be written to the end. Nothing here says that one is in the table, only that it may be.
pub(crate) struct Kept {
    due: RefCell<BTreeSet<(Instant, Key)>>,
    when: RefCell<HashMap<Key, Instant>>,
    /// Those that are being written again.
    working: Cell<usize>,
    /// ⚔ Whether the table may hold some that are not in here: before it was read, and when there were too many.
    unread: Cell<bool>,
    /// Whether it is being read.
    reading: Cell<bool>,
    /// Whether a task sees to them.
    pub(super) task: Cell<bool>,
    /// ⚔ Whether they may be written again: what was truncated is known by then.
    pub(super) may_write: Cell<bool>,
}

impl Kept {
    pub(crate) fn new() -> Kept {
        Kept {
            due: RefCell::default(),
            when: RefCell::default(),
            working: Cell::new(0),
            unread: Cell::new(true),
            reading: Cell::new(false),
            task: Cell::new(false),
            may_write: Cell::new(false),
        }
    }

    /// How many there may be: 0 only when there is none.
    pub(crate) fn len(&self) -> usize {
        self.due.borrow().len() + self.working.get() + usize::from(self.is_unknown())
    }

    /// One that may be in the table from now on, due then; in place of what was said of it before.
    pub(super) fn insert(&self, key: Key, at: Instant) {
        self.forget(&key);
        if self.due.borrow().len() >= BATCHES_UNFINISHED_MAX {
            self.unread.set(true);
            return;
        }
        self.when.borrow_mut().insert(key.clone(), at);
        self.due.borrow_mut().insert((at, key));
    }

    /// One that is in the table no more.
    pub(super) fn forget(&self, key: &Key) {
        if let Some(at) = self.when.borrow_mut().remove(key) {
            self.due.borrow_mut().remove(&(at, key.clone()));
        }
    }

    /// When the first one is due.
    pub(super) fn next(&self) -> Option<Instant> {
        self.due.borrow().first().map(|(at, _)| *at)
    }

    /// Takes the first one if it is due; it counts until [`Kept::done`].
    pub(super) fn take_due(&self, now: Instant) -> Option<Key> {
        self.next().filter(|at| *at <= now)?;
        let (_, key) = self.due.borrow_mut().pop_first()?;
        self.when.borrow_mut().remove(&key);
        self.working.set(self.working.get() + 1);
        Some(key)
    }

    /// One that was taken is over, or was inserted again.
    pub(super) fn done(&self) {
        self.working.set(self.working.get() - 1);
    }

    /// Whether the table must be read, and what is in it and not in here is to be inserted; then [`Kept::end_reading`].
    pub(super) fn begin_reading(&self) -> bool {
        let begins = self.unread.replace(false);
        self.reading.set(begins);
        begins
    }

    /// It was read, or could not be and must be read again.
    pub(super) fn end_reading(&self, was_read: bool) {
        self.reading.set(false);
        if !was_read {
            self.unread.set(true);
        }
    }

    /// Whether it is not known yet what the table holds.
    pub(super) fn is_unknown(&self) -> bool {
        self.reading.get() || self.unread.get()
    }

    pub(super) fn is_unread(&self) -> bool {
        self.unread.get()
    }

    pub(super) fn has(&self, key: &Key) -> bool {
        self.when.borrow().contains_key(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: u32) -> Key {
        Key::new(&n.to_be_bytes())
    }

    #[test]
    fn each_is_due_once_and_counts_until_it_is_over() {
        let kept = Kept::new();
        assert_eq!(kept.len(), 1, "the table was not read");
        assert!(kept.begin_reading());
        assert_eq!(kept.len(), 1, "it is being read");
        kept.end_reading(true);
        assert!(!kept.begin_reading());
        kept.insert(key(1), Instant(10));
        kept.insert(key(2), Instant(20));
        kept.insert(key(1), Instant(30));
        assert_eq!((kept.len(), kept.next()), (2, Some(Instant(20))));
        assert_eq!(kept.take_due(Instant(19)), None);
        assert_eq!(kept.take_due(Instant(20)), Some(key(2)));
        assert_eq!((kept.len(), kept.take_due(Instant(20))), (2, None));
        kept.done();
        kept.forget(&key(1));
        kept.forget(&key(1));
        assert_eq!((kept.len(), kept.next()), (0, None));
    }

    #[test]
    fn more_than_it_remembers_are_in_the_table() {
        let kept = Kept::new();
        kept.begin_reading();
        kept.end_reading(true);
        (0..BATCHES_UNFINISHED_MAX as u32).for_each(|n| kept.insert(key(n), Instant(1)));
        assert!(!kept.is_unread());
        kept.insert(key(u32::MAX), Instant(0));
        assert!(kept.is_unread() && !kept.has(&key(u32::MAX)));
        assert_eq!(kept.len(), BATCHES_UNFINISHED_MAX + 1);
    }
}
