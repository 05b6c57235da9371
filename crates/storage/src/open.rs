//! Opening the store of one shard: its part of [`prepare`](crate::prepare)'s plan, replayed and made durable.

use crate::commitlog::block::Entry;
use crate::commitlog::replay::LogReader;
use crate::commitlog::{Commitlog, LogConfig, LogPosition};
use crate::flush::write_memtable;
use crate::limits::{
    FLUSHES_MAX, LOG_SPARES_MAX, LOG_SPARES_SHARE, OPENS_MAX, REPLAY_AT_ONCE, REPLAY_FLUSH_BYTES,
    REPLAY_FLUSH_SHARE, REPLAY_FLUSHES_MAX, REPLAY_TELL_EVERY,
};
use crate::manifest::{Manifest, ManifestHeader, ManifestState, SstableEntry};
use crate::memory::MemoryPool;
use crate::memtable::Memtable;
use crate::metrics::Metrics;
use crate::prefetch::PREFETCH_STEPS;
use crate::start::{PlannedLog, PlannedSstable, StartPlan, interval_of, meet_at_barrier};
use crate::stats::run_clock;
use crate::store::{Store, read_entry};
use crate::table::{Sstable, TableStore};
use crate::{Error, Settings};
use base::HashMap;
use mutation::{MutationView, TokenRange};
use runtime::Group;
use schema::{Schema, TableId};
use sstable::{Component, Reader};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

impl Store {
    /// Opens this shard's store. Must run on every shard of the plan, at the same time: it returns when all are open.
    /// Replays what earlier starts logged, so everything acknowledged before is readable when it returns.
    /// Errors: damaged files by name and offset, or another shard that could not open; then stop the node. `Stopping` when
    /// the node was asked to stop meanwhile.
    pub async fn open(settings: Settings, plan: Arc<StartPlan>, schema: &Schema) -> Result<Rc<Store>, Error> {
        let (shard, shards) = (runtime::shard().0, runtime::shard_count());
        assert!(usize::from(shards) == plan.shards.len(), "the plan was made for this number of shards");
        let cache = sstable::Cache::of_shard();
        cache.set_budget(usize::try_from(settings.block_cache_bytes).unwrap_or(usize::MAX));
        cache.set_buffered(settings.buffered_reads);
        let opening = Opening {
            interval: interval_of(shard, shards),
            settings,
            plan: plan.clone(),
            tables: HashMap::default(),
            metrics: Metrics::new(),
            left_out: Vec::new(),
            dirty: 0,
            memory: Rc::default(),
            entries: 0,
        };
        let (opened, result) = match opening.run(schema, shard, shards).await {
            Ok(opened) => (Some(opened), Ok(())),
            Err(error) => (None, Err(error)),
        };
        meet_at_barrier(shard, result).await?;
        let (opening, manifest) = opened.ok_or(Error::Stopping)?;
        Ok(opening.start(manifest, shard, shards))
    }
}

/// Segments that a flush lets go of are those the next memtable is logged in; all of them together take a part of the log.
fn spare_segments(settings: &Settings) -> usize {
    let most = settings.commitlog_bytes / u64::from(LOG_SPARES_SHARE) / settings.segment_size();
    (most as usize).clamp(2, LOG_SPARES_MAX)
}

/// A start may take long; a stop does not wait for its end. What was read so far is read again by the next start: nothing
/// counts before the new manifest.
fn stop_if_asked() -> Result<(), Error> {
    if runtime::shutdown_is_requested() { Err(Error::Stopping) } else { Ok(()) }
}

/// Bytes of one table's replayed memtable above which it is flushed before memory is short. What that frees is used again: most of
/// a long log goes through memory that the kernel has zeroed already and that is near. In proportion to the budget and to the
/// log, so that few sstables come of it, and rows that are written again and again are written to few of them.
fn worth_flushing(memtable_bytes: u64, log_bytes: u64) -> usize {
    REPLAY_FLUSH_BYTES.max(memtable_bytes / REPLAY_FLUSH_SHARE).max(log_bytes / REPLAY_FLUSHES_MAX) as usize
}

/// A mutation of an old log that this shard needs.
struct Change<'a> {
    table: Rc<TableStore>,
    position: LogPosition,
    mutation: MutationView<'a>,
}

/// A store that is being put together.
struct Opening {
    settings: Settings,
    plan: Arc<StartPlan>,
    interval: TokenRange,
    tables: HashMap<TableId, Rc<TableStore>>,
    metrics: Metrics,
    /// Sstables that cannot be opened and that the operator wants to start without.
    left_out: Vec<(TableId, SstableEntry)>,
    memory: Rc<MemoryPool>,
    /// Bytes of replayed memtables.
    dirty: usize,
    entries: u64,
}

impl Opening {
    async fn run(mut self, schema: &Schema, shard: u16, shards: u16) -> Result<(Opening, Manifest), Error> {
        for definition in schema.tables() {
            let durable =
                schema.keyspace(&definition.keyspace).is_none_or(|keyspace| keyspace.durable_writes);
            let first = self.plan.last_generation(definition.id) + 1 + u64::from(shard);
            let table = TableStore::new(
                &self.settings.data_dir,
                definition.clone(),
                durable,
                Rc::new(Cell::new(first)),
                u64::from(shards),
                Memtable::new(self.interval, self.memory.clone()),
            );
            table.auto_compaction.set(self.settings.auto_compaction);
            self.tables.insert(definition.id, table);
        }
        let plan = self.plan.clone();
        let mine = &plan.shards[usize::from(shard)];
        for (table, holders) in &mine.spent {
            if let Some(table) = self.tables.get(table) {
                table.compacting.share(holders);
            }
        }
        self.open_sstables(&mine.sstables).await?;
        let segments: usize = mine.logs.iter().map(|log| log.log.segments.len()).sum();
        let log_bytes = segments as u64 * self.settings.segment_size();
        let worth_flushing = worth_flushing(self.settings.memtable_bytes, log_bytes);
        for log in &mine.logs {
            self.replay(log, worth_flushing).await?;
        }
        let replayed: Vec<_> = self.tables.values().cloned().collect();
        for table in replayed {
            self.flush(&table).await?;
        }
        self.memory.free().await;
        if self.entries > 0 {
            runtime::info!("replayed {} commitlog entries", self.entries);
        }
        let header = ManifestHeader { incarnation: plan.incarnation, shard, shards };
        let mut state = ManifestState::new(header);
        for table in self.tables.values() {
            for sstable in &table.version().sstables {
                state.sstables.insert((table.id, sstable.generation()), sstable.entry.clone());
            }
            if let Some(at) = mine.truncated.get(&table.id) {
                state.truncated.insert(table.id, *at);
            }
        }
        for (table, entry) in &self.left_out {
            state.sstables.insert((*table, entry.meta.generation), entry.clone());
        }
        let manifest = Manifest::create(&self.settings.data_dir, state).await?;
        Ok((self, manifest))
    }

    /// Opens the sstables of tables that are still in the schema; the files of others are garbage of the next start.
    async fn open_sstables(&mut self, planned: &[PlannedSstable]) -> Result<(), Error> {
        let unknown = planned.iter().filter(|planned| !self.tables.contains_key(&planned.table)).count();
        if unknown > 0 {
            runtime::warn!(
                "{unknown} sstables of tables that the schema does not know are left out, and removed by the next start"
            );
        }
        for some in planned.chunks(OPENS_MAX) {
            stop_if_asked()?;
            let mut opening = Vec::new();
            for planned_sstable in some {
                let Some(table) = self.tables.get(&planned_sstable.table) else { continue };
                let (table, planned) = (table.clone(), planned_sstable.clone());
                let task = runtime::spawn(Group::MAIN, async move {
                    let descriptor = planned.entry.meta.descriptor();
                    let reader = Reader::open(&table.dir, descriptor, table.definition()).await?;
                    let sstable = Sstable::new(planned.entry, reader, planned.holders);
                    sstable.made_at.set(None);
                    table.publish(vec![sstable], &[], None);
                    Ok::<(), Error>(())
                });
                opening.push((planned_sstable, task));
            }
            for (planned, task) in opening {
                match task.await {
                    Ok(()) => {}
                    Err(error) if self.settings.disk_failure.starts_without_damaged() => {
                        runtime::error!("an sstable is left out until the next start: {error}");
                        if let Some(table) = self.tables.get(&planned.table) {
                            table.is_incomplete.set(true);
                        }
                        self.left_out.push((planned.table, planned.entry.clone()));
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    /// Applies an old log; a memtable of more than so many bytes is flushed on the way.
    async fn replay(&mut self, planned: &PlannedLog, worth_flushing: usize) -> Result<(), Error> {
        let skip = self.settings.ignore_replay_errors;
        let mut reader = LogReader::new(&self.settings.commitlog_dir, planned.log.clone(), skip);
        let mut told = runtime::now();
        while let Some(entries) = reader.next().await? {
            stop_if_asked()?;
            if runtime::now().saturating_duration_since(told) >= REPLAY_TELL_EVERY {
                told = runtime::now();
                let ((segment, of), entries) = (reader.progress(), self.entries);
                runtime::info!(
                    "replaying the commitlog of shard {}: segment {segment} of {of}, {entries} entries so far",
                    planned.log.shard
                );
            }
            let mut entries = entries.iter();
            let mut changes = Vec::new();
            while self.gather(planned, &mut entries, &mut changes)? {
                for at in 0..changes.len() {
                    look_ahead(&changes, at);
                    match self.apply(planned, &changes[at]) {
                        Err(error @ Error::Corrupt { .. }) if skip => {
                            runtime::error!("skipping a mutation of a commitlog entry: {error}");
                        }
                        applied => applied?,
                    }
                    if self.dirty > self.settings.memtable_bytes as usize / 2 {
                        self.flush_largest(0).await?;
                    }
                    runtime::yield_if_needed().await;
                }
            }
            let early = runtime::rare("replay_flushes_early");
            self.flush_largest(if early { 0 } else { worth_flushing }).await?;
        }
        Ok(())
    }

    /// What this shard needs of the next entries, which are few enough for one step. Returns whether there were any.
    fn gather<'e>(
        &mut self,
        planned: &PlannedLog,
        entries: &mut impl Iterator<Item = Entry<'e>>,
        changes: &mut Vec<Change<'e>>,
    ) -> Result<bool, Error> {
        changes.clear();
        let mut mutations = Vec::new();
        let mut count = 0;
        for Entry { position, payload } in entries.take(REPLAY_AT_ONCE) {
            count += 1;
            if let Err(wrong) = read_entry(payload, &mut mutations) {
                let error = self.corrupt(planned, position, wrong);
                if !self.settings.ignore_replay_errors {
                    return Err(error);
                }
                runtime::error!("skipping a commitlog entry: {error}");
                continue;
            }
            self.entries += 1;
            for mutation in mutations.drain(..) {
                let Some(table) = self.tables.get(&mutation.table) else { continue };
                let flushed = planned.flushed.get(&table.id).is_some_and(|flushed| position < *flushed);
                if !flushed && self.interval.contains(mutation.token) {
                    changes.push(Change { table: table.clone(), position, mutation });
                }
            }
        }
        Ok(count > 0)
    }

    fn apply(&mut self, planned: &PlannedLog, change: &Change<'_>) -> Result<(), Error> {
        let Change { table, position, mutation } = change;
        let applied = table.with_version(|version, definition| version.active.apply(definition, mutation));
        match applied {
            Ok(grown) => self.dirty = self.dirty.saturating_add_signed(grown),
            // It was checked before it was logged, so only damage makes it not fit.
            Err(Error::Mutation(error)) => return Err(self.corrupt(planned, *position, error.to_string())),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn corrupt(&self, planned: &PlannedLog, position: LogPosition, got: String) -> Error {
        let path = self.settings.commitlog_dir.join(planned.log.name(position.segment).file_name());
        Error::corrupt("commitlog segment", &path, u64::from(position.offset), "an entry of mutations", got)
    }

    /// Flushes the table with most in memory, if that is more than so many bytes.
    async fn flush_largest(&mut self, least: usize) -> Result<(), Error> {
        let largest = self.tables.values().max_by_key(|table| (table.memtable_bytes(), table.id)).cloned();
        match largest {
            Some(table) if table.memtable_bytes() > least => self.flush(&table).await,
            _ => Ok(()),
        }
    }

    /// Writes what was replayed of a table to an sstable, which counts from the new manifest on.
    async fn flush(&mut self, table: &Rc<TableStore>) -> Result<(), Error> {
        // What this one frees is for the next memtable, and so was what the one before freed.
        self.memory.free().await;
        table.freeze(LogPosition::START, LogPosition::START);
        for frozen in table.version().frozen.clone() {
            let memtable = &frozen.memtable;
            let add = write_memtable(&self.settings, &self.metrics, table, memtable, None).await?;
            table.publish(add.into_iter().collect(), &[], Some(memtable));
            self.dirty = self.dirty.saturating_sub(memtable.bytes());
        }
        Ok(())
    }

    fn start(self, manifest: Manifest, shard: u16, shards: u16) -> Rc<Store> {
        let log = Commitlog::start(LogConfig {
            dir: self.settings.commitlog_dir.clone(),
            sync: self.settings.sync,
            sync_lag_max: self.settings.sync_lag_max(),
            segment_bytes: self.settings.segment_size(),
            incarnation: self.plan.incarnation,
            shard,
            shards,
            spares_max: spare_segments(&self.settings),
            method: self.plan.log_method,
            entry_bytes_max: self.settings.mutation_bytes_max,
        });
        let data_file = |(table, entry): &(TableId, SstableEntry)| {
            Some(Component::Data.path(&self.tables.get(table)?.dir, entry.meta.descriptor()))
        };
        let left_out = self.left_out.iter().filter_map(data_file).collect();
        let store = Rc::new(Store::new(self.settings, self.plan, self.interval, log, manifest, self.memory));
        *store.tables.borrow_mut() = self.tables;
        store.count_left_out(left_out);
        store.set_compaction_throughput(store.settings.compaction_throughput);
        store.register_gauges();
        crate::shards::install(&store);
        let flusher = || {
            let store = store.clone();
            runtime::spawn(Group::FLUSH, async move { store.run_flusher().await })
        };
        let mut tasks: Vec<_> = (0..FLUSHES_MAX).map(|_| flusher()).collect();
        tasks.push(runtime::spawn(Group::COMPACTION, store.clone().run_compactor()));
        tasks.push(runtime::spawn(Group::ADMIN, store.clone().run_compaction_controller()));
        tasks.push(runtime::spawn(Group::FLUSH, store.clone().run_aging()));
        tasks.push(runtime::spawn(Group::ADMIN, run_clock(store.clone())));
        tasks.push(runtime::spawn(Group::FLUSH, store.clone().run_lender()));
        let watcher = store.clone();
        tasks.push(runtime::spawn(Group::FLUSH, async move { watcher.watch_log().await }));
        *store.tasks.borrow_mut() = tasks;
        store
    }
}

/// Brings what the changes behind one will look at a place nearer to the processor, as [`Store::prefetch`] does for requests: for
/// each place of a chain another change, the farther away the earlier the place.
fn look_ahead(changes: &[Change<'_>], at: usize) {
    for step in 0..PREFETCH_STEPS {
        let Some(Change { table, mutation, .. }) = changes.get(at + PREFETCH_STEPS - step) else { continue };
        table.with_version(|version, _| version.active.prefetch(mutation.token, step));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_worth_flushing_grows_with_the_budget_and_with_the_log() {
        const MIB: u64 = 1 << 20;
        assert_eq!(worth_flushing(4096 * MIB, 1700 * MIB), 256 << 20);
        assert_eq!(
            worth_flushing(65536 * MIB, 1700 * MIB),
            4096 << 20,
            "large memtables become large sstables"
        );
        assert_eq!(
            worth_flushing(4096 * MIB, 8192 * MIB),
            1024 << 20,
            "a long log becomes about eight of them at most"
        );
    }
}
