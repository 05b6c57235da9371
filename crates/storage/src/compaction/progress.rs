//! Which compactions run and which have run, for those who look on.

use crate::limits::COMPACTION_HISTORY_MAX;
use crate::table::{Sstable, TableStore};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

/// Who wanted a compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompactionKind {
    /// The table's strategy.
    Background,
    /// An operator, of all sstables.
    Major,
}

impl CompactionKind {
    /// What Cassandra calls it.
    pub fn name(self) -> &'static str {
        match self {
            CompactionKind::Background => "Compaction",
            CompactionKind::Major => "Major compaction",
        }
    }
}

/// A compaction that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompactionProgress {
    /// Which one.
    pub id: u128,
    /// Who wanted it.
    pub kind: CompactionKind,
    /// Keyspace of its table.
    pub keyspace: String,
    /// Its table.
    pub table: String,
    /// Uncompressed bytes merged so far.
    pub completed: u64,
    /// Uncompressed bytes of its inputs.
    pub total: u64,
}

/// A compaction that has ended well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompactionRecord {
    /// Which one.
    pub id: u128,
    /// Who wanted it.
    pub kind: CompactionKind,
    /// Keyspace of its table.
    pub keyspace: String,
    /// Its table.
    pub table: String,
    /// When it ended, milliseconds since the Unix epoch.
    pub at_ms: i64,
    /// Stored bytes of its inputs.
    pub bytes_in: u64,
    /// Stored bytes of what it made.
    pub bytes_out: u64,
    /// How many partitions came from one input, from two, and so on.
    pub merged: BTreeMap<u32, u64>,
}

/// What one shard's compactions have done since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CompactionTotals {
    /// Compactions that ended well.
    pub completed: u64,
    /// Compactions that failed.
    pub failed: u64,
    /// Stored bytes of their inputs.
    pub bytes_in: u64,
}

/// All compactions of a shard.
#[derive(Default)]
pub(crate) struct Compactions {
    running: RefCell<Vec<Rc<Running>>>,
    history: RefCell<VecDeque<CompactionRecord>>,
    totals: Cell<CompactionTotals>,
}

/// One of them.
pub(crate) struct Running {
    id: u128,
    kind: CompactionKind,
    keyspace: String,
    table: String,
    total: u64,
    bytes_in: u64,
    pub(crate) completed: Cell<u64>,
    merged: RefCell<BTreeMap<u32, u64>>,
}

impl Running {
    /// A partition came from so many inputs.
    pub(crate) fn merged(&self, inputs: u32) {
        *self.merged.borrow_mut().entry(inputs).or_default() += 1;
    }
}

/// Takes a compaction off the list of those that run.
pub(crate) struct Listed<'a> {
    all: &'a Compactions,
    pub(crate) running: Rc<Running>,
}

impl Drop for Listed<'_> {
    fn drop(&mut self) {
        self.all.running.borrow_mut().retain(|running| !Rc::ptr_eq(running, &self.running));
    }
}

impl Compactions {
    /// A compaction begins.
    pub(crate) fn begin(
        &self,
        kind: CompactionKind,
        table: &TableStore,
        inputs: &[Rc<Sstable>],
    ) -> Listed<'_> {
        let definition = table.definition();
        let running = Rc::new(Running {
            id: time_based_id(),
            kind,
            keyspace: definition.keyspace.to_string(),
            table: definition.name.to_string(),
            total: inputs.iter().map(|input| input.entry.meta.data_bytes).sum(),
            bytes_in: inputs.iter().map(|input| input.reader.footprint().stored_bytes).sum(),
            completed: Cell::new(0),
            merged: RefCell::default(),
        });
        self.running.borrow_mut().push(running.clone());
        Listed { all: self, running }
    }

    /// A compaction has ended: `Some` stored bytes when well.
    pub(crate) fn ended(&self, running: &Running, bytes_out: Option<u64>) {
        let mut totals = self.totals.get();
        totals.bytes_in += running.bytes_in;
        match bytes_out {
            None => totals.failed += 1,
            Some(bytes_out) => {
                totals.completed += 1;
                let mut history = self.history.borrow_mut();
                history.push_back(CompactionRecord {
                    id: running.id,
                    kind: running.kind,
                    keyspace: running.keyspace.clone(),
                    table: running.table.clone(),
                    at_ms: runtime::unix_micros() / 1000,
                    bytes_in: running.bytes_in,
                    bytes_out,
                    merged: running.merged.borrow().clone(),
                });
                if history.len() > COMPACTION_HISTORY_MAX {
                    history.pop_front();
                }
            }
        }
        self.totals.set(totals);
    }

    /// Those that run.
    pub(crate) fn running(&self) -> Vec<CompactionProgress> {
        let progress = |running: &Rc<Running>| CompactionProgress {
            id: running.id,
            kind: running.kind,
            keyspace: running.keyspace.clone(),
            table: running.table.clone(),
            completed: running.completed.get().min(running.total),
            total: running.total,
        };
        self.running.borrow().iter().map(progress).collect()
    }

    /// Those that have run since the start, the last so many, oldest first.
    pub(crate) fn history(&self) -> Vec<CompactionRecord> {
        self.history.borrow().iter().cloned().collect()
    }

    pub(crate) fn totals(&self) -> CompactionTotals {
        self.totals.get()
    }
}

/// An id of version 1, as the columns that show compactions want it.
fn time_based_id() -> u128 {
    let ticks = runtime::unix_micros().saturating_mul(10);
    types::timeuuid::from_ticks(ticks, runtime::random_uuid() as u64).as_u128()
}
