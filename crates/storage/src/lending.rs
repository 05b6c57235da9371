//! What memtables leave of their memory, the row cache has.
//!
//! ```text
//! memtables   ████████░░░░░░░░░░░░░░░░░░│ 9 % │            their budget
//!                     └─ half is lent ──┘
//! row cache   ██████████████████████████                    its own bytes and what is lent, less filters and summaries
//! ```
//! Both are cut from the same pages of a shard, so what rows give back, memtables can take, and of what is not lent a part is kept
//! for the next memtable as it comes from the last one: pages that the kernel gives are zeroed first. Rows follow: each percent by which
//! memtables grow, the oldest rows go in steps, ahead of what comes next by the part that is never lent. Only a half, as the heap
//! under blocks, requests and lists takes more than what is counted: with all of it a process came to 102 % of its memory.

use crate::Settings;
use crate::store::Store;
use std::rc::Rc;

/// Of what memtables leave, one in so many bytes is lent.
const LENT: u64 = 2;
/// And one in so many is kept when a memtable goes.
const KEPT: u64 = 3;

/// Most bytes that the row cache of one shard may ever have.
pub(crate) fn row_cache_most(settings: &Settings) -> u64 {
    let lent = if settings.lend_memtable_bytes { settings.memtable_bytes / LENT } else { 0 };
    settings.row_cache_bytes + lent
}

impl Store {
    /// A task that gives the row cache what memtables leave and takes it back as they grow, and keeps pages for them. Ends when
    /// the store stops.
    pub(crate) async fn run_lender(self: Rc<Self>) {
        while !self.stopping.get() {
            runtime::pages::keep(self.pressure.spare() / KEPT as usize);
            if self.settings.lend_memtable_bytes {
                self.lend();
            }
            while self.cache.shrink() && !self.stopping.get() {
                runtime::yield_if_needed().await;
            }
            self.memtables_moved.wait().await;
        }
    }

    /// Says to the row cache what it has now. O(sstables).
    fn lend(&self) {
        // Filters and summaries have no share of their own.
        let lent = (self.pressure.spare() / LENT as usize).saturating_sub(self.reader_bytes());
        self.cache.set_budget(self.settings.row_cache_bytes as usize + lent);
    }

    /// Memtables of so many bytes are gone.
    pub(crate) fn memtable_gone(&self, bytes: usize) {
        self.pressure.freed(bytes);
        // Whoever frees it, the flusher or somebody who asked for a flush: what is gone is no longer stuck.
        self.count_stuck();
        self.memtables_moved.notify();
    }

    /// Bytes of filters, summaries and checksums of all sstables. O(sstables).
    fn reader_bytes(&self) -> usize {
        let tables = self.tables.borrow();
        let of_table = |version: &crate::table::TableVersion| {
            version.sstables.iter().map(|sstable| sstable.reader.memory_bytes()).sum::<u64>()
        };
        tables.values().map(|table| table.with_version(|version, _| of_table(version))).sum::<u64>() as usize
    }
}
