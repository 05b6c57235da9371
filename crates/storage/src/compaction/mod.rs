//! Compaction: when, which sstables, and how the result replaces them.
//!
//! ```text
//! strategy (pure) ─► claim: nobody else compacts them ─► merge ─► output, cut where the strategy says
//!                                                          └ at a cut: finished outputs in, passed inputs out, one edit
//! ```
//! A result enters the manifest in the same record in which its inputs leave it. Inputs that end before a cut are let go there,
//! if none of those left reaches over it, so a long compaction needs the room of a few sstables. Inputs stay readable for those
//! who already read them; their files go with the last reader. Several compactions run at once, on disjoint sets.

/// Shares that follow the backlog.
mod backlog;
/// Who works on what.
mod claim;
/// Tasks in the background.
mod compactor;
/// Merging them.
mod merge;
/// What comes out.
mod output;
/// Which run and which have run.
mod progress;
/// When a tombstone may go.
mod proof;
/// What an operator has done at once.
mod requests;
/// Whether it fits the disk.
mod room;
/// Merging the rows of one partition.
mod rows;
/// Which sstables.
mod strategy;
/// Bytes per second.
mod throttle;

use crate::Error;
use crate::manifest::Edit;
use crate::store::Store;
use crate::table::{Replacement, TableStore};
pub(crate) use claim::TableState;
pub(crate) use progress::Compactions;
pub use progress::{CompactionKind, CompactionProgress, CompactionRecord, CompactionTotals};
pub use requests::{Granularity, MajorCompaction, Scrubbed};
use std::rc::Rc;
use strategy::{Candidate, Pending, Scene, Strategy};

impl Store {
    /// The facts about a table's sstables that strategies see, in the order of its version.
    fn candidates(&self, table: &TableStore) -> Vec<Candidate> {
        let candidate = |sstable: &Rc<crate::table::Sstable>| {
            let meta = &sstable.entry.meta;
            Candidate {
                generation: meta.generation,
                bytes: sstable.reader.footprint().stored_bytes,
                first: meta.first_token,
                last: meta.last_token,
                level: sstable.level.get(),
                max_timestamp: meta.max_timestamp,
                busy: sstable.busy.get(),
            }
        };
        table.with_version(|version, _| version.sstables.iter().map(candidate).collect())
    }

    fn scene<'a>(&self, table: &TableStore, sstables: &'a [Candidate]) -> Scene<'a> {
        Scene { sstables, interval: self.interval, flush_bytes: table.compacting.flush_bytes() }
    }

    /// The compactions of a table that are due now, each picked from what the others leave.
    pub(crate) fn pending_compactions(&self, table: &TableStore) -> Pending {
        let definition = table.definition();
        if !strategy::Common::of(&definition.options).enabled || !table.auto_compaction.get() {
            return Pending::default();
        }
        let sstables = self.candidates(table);
        let mut pending = Strategy::of(&definition.options).pending(self.scene(table, &sstables));
        pending.compactions +=
            table.with_version(|version, _| version.sstables.iter().filter(|s| s.is_shared()).count());
        pending
    }

    /// Records the compactions of a table whose records may or may not have been written, if there are any.
    async fn record_unrecorded(&self, table: &Rc<TableStore>) -> Result<bool, Error> {
        let mut any = false;
        loop {
            let unrecorded = table.unrecorded.borrow_mut().pop();
            let Some(replacement) = unrecorded else { return Ok(any) };
            let inputs = replacement.inputs.clone();
            if let Err(error) = self.replace(table, replacement).await {
                // Still not known, or certain now that the inputs count.
                let known =
                    table.unrecorded.borrow().iter().all(|other| !Rc::ptr_eq(&other.inputs[0], &inputs[0]));
                inputs.iter().for_each(|input| input.busy.set(!known));
                return Err(error);
            }
            any = true;
        }
    }

    /// Makes the result of a compaction count instead of its inputs. False: the inputs do not count any more, so the result is of
    /// no use.
    /// Errors: the inputs count; the result is removed, or kept for the next attempt when its record may have been written.
    async fn replace(&self, table: &Rc<TableStore>, replacement: Replacement) -> Result<bool, Error> {
        let Replacement { inputs, outputs, lossy } = &replacement;
        let removed: Vec<u64> = inputs.iter().map(|input| input.generation()).collect();
        let committed = {
            let mut manifest = self.manifest.lock().await;
            let known = &manifest.state().sstables;
            // A truncation or drop meanwhile has taken the inputs away: then the output is of no use.
            if removed.iter().all(|generation| known.contains_key(&(table.id, *generation))) {
                let edit = Edit {
                    add: outputs.iter().map(|output| (table.id, output.entry.clone())).collect(),
                    remove: removed.iter().map(|generation| (table.id, *generation)).collect(),
                    ..Edit::default()
                };
                let committed = manifest.commit(&edit).await;
                if committed.is_ok() {
                    table.publish(outputs.to_vec(), &removed, None);
                    if *lossy {
                        table.forget_cached();
                    }
                }
                committed.map(|()| true)
            } else {
                Ok(false)
            }
        };
        match committed {
            Ok(true) => {
                let bytes = outputs.iter().map(|output| output.entry.meta.disk_bytes).sum();
                self.metrics.compacted_bytes.add(bytes);
                self.doom(table, replacement.inputs);
                Ok(true)
            }
            Ok(false) => {
                self.doom(table, replacement.outputs);
                Ok(false)
            }
            Err(refused) => {
                if refused.absent {
                    self.doom(table, replacement.outputs);
                    self.reap().await;
                } else {
                    // Until it is known which of the two count, nothing else is made of the inputs.
                    table.unrecorded.borrow_mut().push(replacement);
                }
                Err(refused.error)
            }
        }
    }
}
