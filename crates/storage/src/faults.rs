//! What becomes of a node whose disk or commitlog fails, as the operator has decided: the policies of Cassandra.
//!
//! The store only judges. The node waits in [`Store::consequence`] and does what is said: closes native transport, or ends.
//! Neither a full disk nor too many open files is one of these faults: what needs room is refused by name until there is.

use crate::Error;
use crate::limits::FAULT_LOG_EVERY;
use crate::store::Store;
use crate::table::{Sstable, TableStore};
use runtime::log::Sparse;
use runtime::sync::Event;
use sstable::Component;
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// `disk_failure_policy`: what happens when a file of a table cannot be read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskFailurePolicy {
    /// The node ends, also for one damaged sstable.
    Die,
    /// The native transport port closes, also for one damaged sstable.
    StopParanoid,
    /// The native transport port closes when the file system refuses.
    Stop,
    /// An sstable that cannot be read is left out until the next start; what others hold is answered.
    BestEffort,
    /// The request fails.
    Ignore,
}

/// `commit_failure_policy`: what happens when the commitlog cannot be written or synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitFailurePolicy {
    /// The node ends.
    Die,
    /// The native transport port closes.
    Stop,
    /// Writes are refused, reads go on.
    StopCommit,
    /// Writes are refused until everything in memory is in sstables; then a new log begins.
    Ignore,
}

/// What the node is to do about a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Consequence {
    /// Close native transport. An operator may open it again.
    StopClients,
    /// End at once; nothing is flushed, the next start replays the log.
    Die,
}

/// A fault with consequences.
#[derive(Clone, Debug)]
pub struct Fault {
    /// What is to be done.
    pub consequence: Consequence,
    /// The setting that says so, with its value.
    pub policy: &'static str,
    /// What went wrong.
    pub error: Error,
}

/// Faults that the node has not been told yet, and sstables that are left out.
pub(crate) struct Faults {
    untold: RefCell<Option<Fault>>,
    arrived: Event,
    told: Sparse,
    /// Data files of sstables that are left out. They stay, and the manifest keeps them: the next start tries them again.
    left_out: RefCell<Vec<PathBuf>>,
}

impl Default for Faults {
    fn default() -> Faults {
        Faults {
            untold: RefCell::new(None),
            arrived: Event::new(),
            told: Sparse::new(FAULT_LOG_EVERY),
            left_out: RefCell::default(),
        }
    }
}

/// What kind of fault an error is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// The file system refused.
    Refused,
    /// One sstable is damaged.
    Damaged,
}

fn kind(error: &Error) -> Option<Kind> {
    if error.is_shortage() {
        return None;
    }
    match error {
        Error::Io { .. } => Some(Kind::Refused),
        Error::Sstable(error) => match &**error {
            sstable::Error::Io { .. } => Some(Kind::Refused),
            sstable::Error::Corrupt { .. } => Some(Kind::Damaged),
            sstable::Error::Unsupported { .. }
            | sstable::Error::Invalid { .. }
            | sstable::Error::TooLarge { .. } => None,
        },
        _ => None,
    }
}

impl DiskFailurePolicy {
    fn consequence(self, kind: Kind) -> Option<Consequence> {
        match (self, kind) {
            (DiskFailurePolicy::Die, _) => Some(Consequence::Die),
            (DiskFailurePolicy::StopParanoid, _) | (DiskFailurePolicy::Stop, Kind::Refused) => {
                Some(Consequence::StopClients)
            }
            (DiskFailurePolicy::Stop, Kind::Damaged)
            | (DiskFailurePolicy::BestEffort | DiskFailurePolicy::Ignore, _) => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            DiskFailurePolicy::Die => "disk_failure_policy die",
            DiskFailurePolicy::StopParanoid => "disk_failure_policy stop_paranoid",
            DiskFailurePolicy::Stop => "disk_failure_policy stop",
            DiskFailurePolicy::BestEffort => "disk_failure_policy best_effort",
            DiskFailurePolicy::Ignore => "disk_failure_policy ignore",
        }
    }

    /// Whether a start goes on without an sstable that cannot be opened.
    pub(crate) fn starts_without_damaged(self) -> bool {
        matches!(self, DiskFailurePolicy::BestEffort | DiskFailurePolicy::Ignore)
    }
}

impl CommitFailurePolicy {
    fn consequence(self) -> Option<Consequence> {
        match self {
            CommitFailurePolicy::Die => Some(Consequence::Die),
            CommitFailurePolicy::Stop => Some(Consequence::StopClients),
            CommitFailurePolicy::StopCommit | CommitFailurePolicy::Ignore => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            CommitFailurePolicy::Die => "commit_failure_policy die",
            CommitFailurePolicy::Stop => "commit_failure_policy stop",
            CommitFailurePolicy::StopCommit => "commit_failure_policy stop_commit",
            CommitFailurePolicy::Ignore => "commit_failure_policy ignore",
        }
    }
}

impl Store {
    /// Says that reading or writing a table has failed. Cheap for errors that are none of the disk's.
    pub fn note_fault(&self, error: &Error) {
        let Some(kind) = kind(error) else { return };
        let policy = self.settings.disk_failure;
        if policy == DiskFailurePolicy::BestEffort && kind == Kind::Refused {
            self.leave_out(error);
        }
        if let Some(consequence) = policy.consequence(kind) {
            self.tell_fault(Fault { consequence, policy: policy.name(), error: error.clone() });
        }
    }

    /// Resolves with the next fault that asks the node to do something. One waiter.
    pub async fn consequence(&self) -> Fault {
        loop {
            if let Some(fault) = self.faults.untold.take() {
                return fault;
            }
            self.faults.arrived.wait().await;
        }
    }

    fn tell_fault(&self, fault: Fault) {
        if self.stopping.get() {
            return;
        }
        let mut untold = self.faults.untold.borrow_mut();
        // The graver one is told when two come together.
        if untold.as_ref().is_none_or(|known| known.consequence < fault.consequence) {
            *untold = Some(fault);
        }
        drop(untold);
        self.faults.arrived.notify();
    }

    /// Sstables that are left out since they cannot be read, by their data files.
    pub fn left_out(&self) -> Vec<PathBuf> {
        self.faults.left_out.borrow().clone()
    }

    pub(crate) fn count_left_out(&self, files: Vec<PathBuf>) {
        self.faults.left_out.borrow_mut().extend(files);
    }

    /// Takes the sstable that an error names out of its table's version. Its files and its record stay.
    fn leave_out(&self, error: &Error) {
        let Error::Sstable(error) = error else { return };
        let sstable::Error::Io { file, action, .. } = &**error else { return };
        // A file that cannot be written is garbage already.
        if !matches!(*action, "open" | "read") {
            return;
        }
        let Some((table, sstable)) = self.sstable_of(file) else { return };
        let data = sstable.reader.path(Component::Data);
        runtime::error!(
            "sstable \"{}\" is left out until the next start (disk_failure_policy best_effort): {error}",
            data.display()
        );
        table.publish(Vec::new(), &[sstable.generation()], None);
        table.forget_cached();
        table.is_incomplete.set(true);
        self.count_left_out(vec![data]);
    }

    fn sstable_of(&self, file: &Path) -> Option<(Rc<TableStore>, Rc<Sstable>)> {
        let folder = file.parent()?;
        let table = self.all_tables().into_iter().find(|table| table.dir == folder)?;
        let is_its =
            |sstable: &&Rc<Sstable>| Component::ALL.iter().any(|part| sstable.reader.path(*part) == file);
        let sstable = table.version().sstables.iter().find(is_its).cloned()?;
        Some((table, sstable))
    }

    /// The task that sees to a log that has failed. Ends when the store stops.
    pub(crate) async fn watch_log(self: Rc<Self>) {
        while let Some(error) = self.log.failure().await {
            let policy = self.settings.commit_failure;
            if let Some(consequence) = policy.consequence() {
                self.tell_fault(Fault { consequence, policy: policy.name(), error });
            }
            if policy != CommitFailurePolicy::Ignore {
                return;
            }
            self.renew_log().await;
        }
    }

    /// Begins a new log once nothing of the old one is needed: every table is flushed, and the manifest names the new log as
    /// the first that counts.
    async fn renew_log(&self) {
        // Who waits for the old log is about to be told.
        loop {
            self.adopt();
            if self.log.in_flight() == self.given_up.borrow().len() {
                break;
            }
            if self.stopping.get() {
                return;
            }
            runtime::sleep(RENEW_LOOK).await;
        }
        loop {
            if self.stopping.get() {
                return;
            }
            let mut done = self.flush(None).await;
            if done.is_ok() {
                let floor = self.log.open_segment() + 1;
                let edit = crate::manifest::Edit { log_floor: Some(floor), ..Default::default() };
                let committed = self.manifest.lock().await.commit(&edit).await;
                done = committed.map_err(Error::from);
            }
            match done {
                Ok(()) => break,
                Err(error) if self.faults.told.take() => {
                    runtime::error!("a new commitlog begins when memory is flushed, which failed: {error}");
                }
                Err(_) => {}
            }
            runtime::sleep(RENEW_RETRY).await;
        }
        // Of the old log nothing counts any more: what was refused is lost with it.
        drop(self.given_up.take());
        while !self.log.renew() {
            if self.stopping.get() {
                return;
            }
            // Its next segment is about to be made.
            runtime::sleep(RENEW_LOOK).await;
        }
        self.release_log(self.log.open_segment());
        runtime::warn!("a new commitlog has begun (commit_failure_policy ignore); writes are accepted again");
    }
}

/// Time between two looks at what still has to do with the old log.
const RENEW_LOOK: core::time::Duration = core::time::Duration::from_millis(5);
/// Pause before a flush that a new log waits for is tried again.
const RENEW_RETRY: core::time::Duration = core::time::Duration::from_millis(500);
