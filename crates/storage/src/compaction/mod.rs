//! Compaction: when, which sstables, and how the result replaces them.
//!
//! The result enters the manifest in the same record in which the inputs leave it. Inputs stay readable for those who already
//! read them; their files go with the last reader.

/// Merging them.
mod merge;
/// Which run and which have run.
mod progress;
/// Which sstables.
mod strategy;

use crate::Error;
use crate::manifest::{Edit, SstableEntry};
use crate::store::Store;
use crate::table::{Replacement, Sstable, TableStore};
use merge::Merge;
pub(crate) use progress::Compactions;
use progress::Running;
pub use progress::{CompactionKind, CompactionProgress, CompactionRecord, CompactionTotals};
use schema::TableId;
use sstable::{Descriptor, EncodingStats, Reader, Writer, WriterOptions};
use std::rc::Rc;
use std::time::Duration;
use strategy::SizeTiers;

/// Time between two looks at files that somebody still reads.
const REAP: Duration = Duration::from_secs(1);

impl Store {
    /// The task that compacts in the background and removes files. Ends when the store stops.
    pub(crate) async fn run_compactor(self: Rc<Self>) {
        while !self.stopping.get() {
            self.reap().await;
            if self.compact_some().await {
                continue;
            }
            let resting = self.all_tables().into_iter();
            let due = resting.filter_map(|table| table.compaction_backoff.rests_until()).min();
            let rest = due.map(|due| due.saturating_duration_since(runtime::now()));
            let read = (!self.doomed.borrow().is_empty()).then_some(REAP);
            match rest.into_iter().chain(read).min() {
                None => self.compaction_wanted.wait().await,
                // Elapsed is what it waits for; a wish for compaction wakes it early.
                Some(pause) => drop(runtime::timeout(pause, self.compaction_wanted.wait()).await),
            }
        }
    }

    /// Does one compaction for every table where one is due; a table where it fails rests. Whether any was done.
    async fn compact_some(&self) -> bool {
        let mut any = false;
        for table in self.all_tables() {
            if self.stopping.get() || !table.compaction_backoff.is_due() {
                continue;
            }
            // Somebody else compacts it: that says nothing about what failed before.
            let Some(_turn) = table.compaction.try_lock() else { continue };
            match self.compact_one(&table).await {
                Ok(done) => {
                    table.compaction_backoff.succeeded();
                    any |= done;
                }
                Err(Error::Stopping | Error::UnknownTable(_)) => {}
                Err(error) => {
                    if table.compaction_backoff.failed(error.clone()) {
                        let id = table.id;
                        runtime::error!("compaction of table {id} failed, it will be tried again: {error}");
                    }
                }
            }
        }
        any
    }

    /// Does the compaction of a table that is due, if one is. The caller holds the table's compaction turn.
    async fn compact_one(&self, table: &Rc<TableStore>) -> Result<bool, Error> {
        let tiers = SizeTiers::of(&table.definition().options);
        if !tiers.enabled || !table.auto_compaction.get() {
            return Ok(false);
        }
        if self.record_unrecorded(table).await? {
            return Ok(true);
        }
        let sstables = table.version().sstables.clone();
        let sizes: Vec<u64> = sstables.iter().map(|sstable| sstable.entry.meta.data_bytes).collect();
        let mut picked: Vec<_> =
            tiers.pick(&sizes).into_iter().map(|index| sstables[index].clone()).collect();
        if picked.is_empty() {
            // One that several shards share is rewritten, so that each shard has its own.
            picked.extend(sstables.iter().find(|sstable| sstable.is_shared()).cloned());
        }
        if picked.is_empty() {
            return Ok(false);
        }
        self.merge_sstables(CompactionKind::Background, table, &picked).await.map(|()| true)
    }

    /// Merges all sstables of a table into one.
    pub async fn compact(&self, table: TableId) -> Result<(), Error> {
        let table = self.table(table)?;
        let _turn = table.compaction.lock().await;
        self.record_unrecorded(&table).await?;
        let sstables = table.version().sstables.clone();
        if sstables.is_empty() {
            return Ok(());
        }
        self.merge_sstables(CompactionKind::Major, &table, &sstables).await
    }

    /// Replaces sstables by their merge. The caller holds the table's compaction turn.
    async fn merge_sstables(
        &self,
        kind: CompactionKind,
        table: &Rc<TableStore>,
        inputs: &[Rc<Sstable>],
    ) -> Result<(), Error> {
        let listed = self.compactions.begin(kind, table, inputs);
        let merged = self.merge_listed(table, inputs, &listed.running).await;
        match &merged {
            Ok(bytes_out) => self.compactions.ended(&listed.running, Some(*bytes_out)),
            Err(Error::Stopping | Error::UnknownTable(_)) => {}
            Err(_) => self.compactions.ended(&listed.running, None),
        }
        merged.map(|_| ())
    }

    /// As above; returns the stored bytes of the result.
    async fn merge_listed(
        &self,
        table: &Rc<TableStore>,
        inputs: &[Rc<Sstable>],
        running: &Running,
    ) -> Result<u64, Error> {
        let metas = inputs.iter().map(|input| &input.entry.meta);
        let base =
            metas.clone().map(|meta| meta.encoding_stats()).reduce(lower).unwrap_or(EncodingStats::EPOCH);
        let generation = table.take_generation()?;
        let definition = table.definition();
        let mut writer = Writer::create(WriterOptions {
            dir: table.dir.clone(),
            version: self.settings.sstable_format.version(),
            generation,
            table: definition.clone(),
            estimated_keys: metas.map(|meta| meta.partitions).sum(),
            base,
            host_id: self.settings.host_id,
            level: 0,
            repaired_at: 0,
        })
        .await?;
        let now_s = u32::try_from(runtime::unix_micros() / 1_000_000).unwrap_or(u32::MAX);
        let merged = Merge::new(self, table, inputs, now_s, running).run(&mut writer).await;
        let output = if merged.is_err() || writer.is_empty() {
            let abandoned = writer.abandon().await;
            merged?;
            abandoned?;
            None
        } else {
            let meta = match writer.finish().await {
                Ok(meta) => meta,
                Err(error) => {
                    // What is left is removed now or, failing that, by the next start.
                    let descriptor = Descriptor::new(self.settings.sstable_format.version(), generation);
                    let _ = sstable::remove_temporary(&table.dir, descriptor).await;
                    return Err(error.into());
                }
            };
            let reader = Reader::open(&table.dir, meta.descriptor(), definition).await?;
            Some(Sstable::new(SstableEntry { meta, ranges: Vec::new() }, reader, None))
        };
        let bytes_out = output.as_ref().map_or(0, |output| output.reader.footprint().stored_bytes);
        self.replace(table, Replacement { inputs: inputs.to_vec(), output }).await?;
        Ok(bytes_out)
    }

    /// Records the compaction of a table whose record may or may not have been written, if there is one.
    async fn record_unrecorded(&self, table: &Rc<TableStore>) -> Result<bool, Error> {
        let unrecorded = table.unrecorded.take();
        match unrecorded {
            Some(replacement) => self.replace(table, replacement).await.map(|()| true),
            None => Ok(false),
        }
    }

    /// Makes the result of a compaction count instead of its inputs.
    /// Errors: the inputs count; the result is removed, or kept for the next attempt when its record may have been written.
    async fn replace(&self, table: &Rc<TableStore>, replacement: Replacement) -> Result<(), Error> {
        let Replacement { inputs, output } = &replacement;
        let removed: Vec<u64> = inputs.iter().map(|input| input.generation()).collect();
        let committed = {
            let mut manifest = self.manifest.lock().await;
            let known = &manifest.state().sstables;
            // A truncation or drop meanwhile has taken the inputs away: then the output is of no use.
            if removed.iter().all(|generation| known.contains_key(&(table.id, *generation))) {
                let edit = Edit {
                    add: output.iter().map(|output| (table.id, output.entry.clone())).collect(),
                    remove: removed.iter().map(|generation| (table.id, *generation)).collect(),
                    ..Edit::default()
                };
                let committed = manifest.commit(&edit).await;
                if committed.is_ok() {
                    table.publish(output.iter().cloned().collect(), &removed, None);
                }
                committed.map(|()| true)
            } else {
                Ok(false)
            }
        };
        match committed {
            Ok(true) => {
                self.metrics.compactions.inc();
                let bytes = output.as_ref().map_or(0, |output| output.entry.meta.disk_bytes);
                self.metrics.compacted_bytes.add(bytes);
                self.doom(table, replacement.inputs);
                Ok(())
            }
            Ok(false) => {
                self.doom(table, replacement.output.into_iter().collect());
                Ok(())
            }
            Err(refused) => {
                if refused.absent {
                    self.doom(table, replacement.output.into_iter().collect());
                    self.reap().await;
                } else {
                    *table.unrecorded.borrow_mut() = Some(replacement);
                }
                Err(refused.error)
            }
        }
    }
}

/// How many compactions of a table are due now, each picked from what the others leave.
pub(crate) fn pending_compactions(table: &TableStore) -> usize {
    let tiers = SizeTiers::of(&table.definition().options);
    if !tiers.enabled || !table.auto_compaction.get() {
        return 0;
    }
    let version = table.version();
    let mut sizes: Vec<u64> = version.sstables.iter().map(|sstable| sstable.entry.meta.data_bytes).collect();
    let mut count = 0;
    loop {
        let mut picked = tiers.pick(&sizes);
        if picked.is_empty() {
            return count + version.sstables.iter().filter(|sstable| sstable.is_shared()).count();
        }
        count += 1;
        picked.sort_unstable();
        for index in picked.into_iter().rev() {
            sizes.swap_remove(index);
        }
    }
}

fn lower(a: EncodingStats, b: EncodingStats) -> EncodingStats {
    EncodingStats {
        min_timestamp: a.min_timestamp.min(b.min_timestamp),
        min_local_time: a.min_local_time.min(b.min_local_time),
        min_ttl: a.min_ttl.min(b.min_ttl),
    }
}
