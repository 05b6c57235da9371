//! Who works on which sstables of a table.

use crate::store::Store;
use crate::table::{Sstable, TableStore};
use runtime::sync::Event;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Weight of the newest flush in the mean size of a table's flushes: one of four.
const FLUSH_WEIGHT: u64 = 4;

/// What compactions know of one table.
#[derive(Default)]
pub(crate) struct TableState {
    /// Compactions that run.
    pub(super) running: Cell<usize>,
    /// A task records what may not be recorded.
    pub(super) recording: Cell<bool>,
    /// One has ended.
    pub(super) ended: Event,
    /// When sstables that have expired were looked for last; `None`: not yet.
    pub(super) expired_looked: Cell<Option<base::Instant>>,
    /// Mean bytes of what flushes made.
    flush_bytes: Cell<u64>,
    /// Whether the next compaction rewrites a shared file before it asks the strategy.
    shared_turn: Cell<bool>,
    /// Files with tokens of this shard that other shards hold, or of which not all counts: by how many shards hold them.
    shared: RefCell<Vec<Arc<AtomicU32>>>,
}

impl TableState {
    /// A flush made an sstable of so many stored bytes.
    pub(crate) fn flushed(&self, bytes: u64) {
        let before = self.flush_bytes.get();
        let mean = if before == 0 { bytes } else { before - before / FLUSH_WEIGHT + bytes / FLUSH_WEIGHT };
        self.flush_bytes.set(mean);
    }

    pub(super) fn flush_bytes(&self) -> u64 {
        self.flush_bytes.get()
    }

    /// There are files with tokens of this shard that it may hold no longer while another does.
    pub(crate) fn share(&self, holders: &Arc<AtomicU32>) {
        self.shared.borrow_mut().push(holders.clone());
    }

    /// Whether it is the turn of a shared file: every other time.
    pub(super) fn takes_shared_turn(&self) -> bool {
        self.shared_turn.replace(!self.shared_turn.get())
    }

    /// Whether files with tokens of this shard are held anywhere of which not all counts, or may cease to. While they are, a
    /// snapshot has them whole, and a tombstone that was purged here would be missing in it.
    pub(super) fn shares_files(&self) -> bool {
        let mut shared = self.shared.borrow_mut();
        shared.retain(|holders| holders.load(Ordering::Acquire) > 0);
        !shared.is_empty()
    }
}

/// Sstables that one compaction works on; no other takes them until this is dropped.
pub(crate) struct Claim {
    table: Rc<TableStore>,
    sstables: RefCell<Vec<Rc<Sstable>>>,
    wanted: Event,
}

impl Store {
    /// Takes sstables that nobody works on. In the step in which they were looked at.
    pub(super) fn claim(&self, table: &Rc<TableStore>, sstables: Vec<Rc<Sstable>>) -> Claim {
        for sstable in &sstables {
            assert!(!sstable.busy.replace(true), "one compaction works on an sstable");
        }
        table.compacting.running.set(table.compacting.running.get() + 1);
        Claim {
            table: table.clone(),
            sstables: RefCell::new(sstables),
            wanted: self.compaction_wanted.clone(),
        }
    }
}

impl Claim {
    /// What is claimed.
    pub(super) fn sstables(&self) -> Vec<Rc<Sstable>> {
        self.sstables.borrow().clone()
    }

    /// Another may take this one.
    pub(super) fn give_back(&self, sstable: &Rc<Sstable>) {
        self.sstables.borrow_mut().retain(|other| !Rc::ptr_eq(other, sstable));
        assert!(sstable.busy.replace(false), "it was claimed");
    }

    /// Lets go of sstables that do not count any more, so that their files can go. They stay claimed.
    pub(super) fn forget(&self, gone: &[Rc<Sstable>]) {
        self.sstables.borrow_mut().retain(|sstable| !gone.iter().any(|other| Rc::ptr_eq(other, sstable)));
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let unrecorded = self.table.unrecorded.borrow();
        let kept = |sstable: &Rc<Sstable>| {
            unrecorded
                .iter()
                .any(|replacement| replacement.inputs.iter().any(|input| Rc::ptr_eq(input, sstable)))
        };
        for sstable in self.sstables.get_mut() {
            sstable.busy.set(kept(sstable));
        }
        drop(unrecorded);
        let state = &self.table.compacting;
        state.running.set(state.running.get() - 1);
        state.ended.notify_all();
        self.wanted.notify();
    }
}
