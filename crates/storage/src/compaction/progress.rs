//! Which compactions run and which have run, for those who look on.

use super::strategy::{Pending, spared};
use super::throttle::Throttle;
use crate::limits::COMPACTION_HISTORY_MAX;
use crate::table::{Sstable, TableStore};
use mutation::TokenRange;
use schema::TableId;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

/// What a compaction is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompactionKind {
    /// The table's strategy wants it.
    Background,
    /// An operator wants all sstables merged, or those he names.
    Major,
    /// One sstable has many tombstones that can go.
    Tombstones,
    /// What this node no longer owns goes.
    Cleanup,
    /// What cannot be read goes.
    Scrub,
    /// What newer sstables have deleted goes.
    GarbageCollect,
    /// Sstables are written anew in the present format.
    Upgrade,
}

impl CompactionKind {
    /// All of them.
    pub const ALL: [CompactionKind; 7] = [
        CompactionKind::Background,
        CompactionKind::Major,
        CompactionKind::Tombstones,
        CompactionKind::Cleanup,
        CompactionKind::Scrub,
        CompactionKind::GarbageCollect,
        CompactionKind::Upgrade,
    ];

    /// What Cassandra calls it on its screens.
    pub fn name(self) -> &'static str {
        match self {
            CompactionKind::Background => "Compaction",
            CompactionKind::Major => "Major compaction",
            CompactionKind::Tombstones => "Tombstone Compaction",
            CompactionKind::Cleanup => "Cleanup",
            CompactionKind::Scrub => "Scrub",
            CompactionKind::GarbageCollect => "Remove deleted data",
            CompactionKind::Upgrade => "Upgrade sstables",
        }
    }

    /// What Cassandra calls it in commands.
    pub fn word(self) -> &'static str {
        match self {
            CompactionKind::Background => "COMPACTION",
            CompactionKind::Major => "MAJOR_COMPACTION",
            CompactionKind::Tombstones => "TOMBSTONE_COMPACTION",
            CompactionKind::Cleanup => "CLEANUP",
            CompactionKind::Scrub => "SCRUB",
            CompactionKind::GarbageCollect => "GARBAGE_COLLECT",
            CompactionKind::Upgrade => "UPGRADE_SSTABLES",
        }
    }
}

/// A compaction that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompactionProgress {
    /// Which one.
    pub id: u128,
    /// What it is for.
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
    /// What it was for.
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
    /// Compactions that were stopped before their end.
    pub stopped: u64,
    /// Stored bytes of their inputs.
    pub bytes_in: u64,
}

/// All compactions of a shard.
#[derive(Default)]
pub(crate) struct Compactions {
    pub(super) throttle: Throttle,
    rate_of_node: Cell<u64>,
    /// Compactions that nobody asked for and that run.
    pub(super) background: Cell<usize>,
    running: RefCell<Vec<Rc<Running>>>,
    history: RefCell<VecDeque<CompactionRecord>>,
    totals: Cell<CompactionTotals>,
}

/// How a compaction has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// With a result of so many stored bytes.
    Well(u64),
    Stopped,
    Failed,
}

/// One of them.
pub(crate) struct Running {
    id: u128,
    kind: CompactionKind,
    of: TableId,
    keyspace: String,
    table: String,
    total: u64,
    bytes_in: u64,
    /// As [`spared`].
    spared: f64,
    pub(super) completed: Cell<u64>,
    /// Somebody wants it to end.
    pub(super) to_stop: Cell<bool>,
    merged: RefCell<BTreeMap<u32, u64>>,
}

impl Running {
    /// From 1, when it begins, to 0.
    fn part_left(&self) -> f64 {
        let done = self.completed.get() as f64 / self.total.max(1) as f64;
        1.0 - done.clamp(0.0, 1.0)
    }

    /// Stored bytes that it still has to read, about.
    fn bytes_left(&self) -> u64 {
        (self.bytes_in as f64 * self.part_left()) as u64
    }

    /// A partition came from so many inputs.
    pub(super) fn merged(&self, inputs: u32) {
        *self.merged.borrow_mut().entry(inputs).or_default() += 1;
    }
}

/// Takes a compaction off the list of those that run.
pub(crate) struct Listed<'a> {
    all: &'a Compactions,
    pub(super) running: Rc<Running>,
}

impl Drop for Listed<'_> {
    fn drop(&mut self) {
        self.all.running.borrow_mut().retain(|running| !Rc::ptr_eq(running, &self.running));
    }
}

impl Compactions {
    /// Bytes per second that this shard's compactions may read, and those of the node; 0: any.
    pub(crate) fn set_rate(&self, own: u64, of_node: u64) {
        self.throttle.set_rate(own);
        self.rate_of_node.set(of_node);
    }

    pub(crate) fn rate_of_node(&self) -> u64 {
        self.rate_of_node.get()
    }

    /// A compaction begins.
    pub(super) fn begin(
        &self,
        kind: CompactionKind,
        table: &TableStore,
        interval: TokenRange,
        inputs: &[Rc<Sstable>],
    ) -> Listed<'_> {
        let definition = table.definition();
        let ranges = inputs.iter().map(|input| (input.entry.meta.first_token, input.entry.meta.last_token));
        let running = Rc::new(Running {
            id: time_based_id(),
            kind,
            of: table.id,
            keyspace: definition.keyspace.to_string(),
            table: definition.name.to_string(),
            total: inputs.iter().map(|input| input.entry.meta.data_bytes).sum(),
            bytes_in: inputs.iter().map(|input| input.reader.footprint().stored_bytes).sum(),
            // What an operator wants has the time it takes.
            spared: if kind == CompactionKind::Background { spared(interval, ranges) } else { 0.0 },
            completed: Cell::new(0),
            to_stop: Cell::new(false),
            merged: RefCell::default(),
        });
        self.running.borrow_mut().push(running.clone());
        Listed { all: self, running }
    }

    /// A compaction has ended.
    pub(super) fn ended(&self, running: &Running, how: Ended) {
        let mut totals = self.totals.get();
        totals.bytes_in += running.bytes_in;
        match how {
            Ended::Failed => totals.failed += 1,
            Ended::Stopped => totals.stopped += 1,
            Ended::Well(bytes_out) => {
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

    /// Those that run are to end, but for those that do not match; returns how many.
    pub(super) fn stop(&self, matches: impl Fn(&Running) -> bool) -> usize {
        let running = self.running.borrow();
        running.iter().filter(|running| matches(running)).map(|running| running.to_stop.set(true)).count()
    }

    /// As [`Compactions::stop`], by what they are for and which they are; `None`: any.
    pub(crate) fn stop_by(&self, kind: Option<CompactionKind>, id: Option<u128>) -> usize {
        self.stop(|running| {
            kind.is_none_or(|kind| kind == running.kind) && id.is_none_or(|id| id == running.id)
        })
    }

    /// Those of a table that run are to end.
    pub(super) fn stop_of(&self, table: TableId) {
        self.stop(|running| running.of == table);
    }

    /// What those of a table that run still have to do, about.
    pub(super) fn left(&self, table: TableId) -> Pending {
        let running = self.running.borrow();
        running.iter().filter(|running| running.of == table).fold(Pending::default(), |sum, running| {
            let spared = sum.spared + running.spared * running.part_left();
            let bytes = sum.bytes.saturating_add(running.bytes_left());
            Pending { compactions: sum.compactions + 1, bytes, spared }
        })
    }

    /// Stored bytes that those that run will still read, and write at the most, about.
    pub(super) fn bytes_left(&self) -> u64 {
        self.running.borrow().iter().map(|running| running.bytes_left()).fold(0, u64::saturating_add)
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
