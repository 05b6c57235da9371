//! Memtables that are flushed for their age: `memtable_flush_period_in_ms` of a table.
//!
//! A period begins when a memtable does, and again where it is still empty at its end, as in Cassandra. What has come of age is flushed by
//! the flushers like what memory or the log want flushed.

use crate::store::Store;
use crate::table::TableStore;
use base::Instant;
use std::rc::Rc;

impl TableStore {
    /// When its active memtable comes of age; `None`: never.
    fn of_age_at(&self) -> Option<Instant> {
        self.flush_period().map(|period| self.begun.get() + period)
    }
}

impl Store {
    /// A task that says which tables have come of age. Ends when the store stops.
    pub(crate) async fn run_aging(self: Rc<Self>) {
        while !self.stopping.get() {
            match self.age() {
                // Elapsed is what it waits for; a changed table or a stop wakes it early.
                Some(due) => drop(runtime::timeout_at(due, self.periods_changed.wait()).await),
                None => self.periods_changed.wait().await,
            }
        }
    }

    /// Has flushed what has come of age; says when the next one does. One step, O(tables).
    fn age(&self) -> Option<Instant> {
        let now = runtime::now();
        let mut next = None;
        for table in self.all_tables() {
            if table.of_age_at().is_some_and(|due| due <= now) {
                table.begun.set(now);
                let is_empty = table.with_version(|version, _| version.active.is_empty());
                if !is_empty {
                    table.is_of_age.set(true);
                    self.flush_wanted.notify();
                }
            }
            next = [next, table.of_age_at()].into_iter().flatten().min();
        }
        next
    }
}
