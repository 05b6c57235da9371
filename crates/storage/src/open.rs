//! Opening the store of one shard: its part of [`prepare`](crate::prepare)'s plan, replayed and made durable.

use crate::commitlog::replay::{LogReader, OldEntry};
use crate::commitlog::{Commitlog, LogConfig, SegmentName};
use crate::flush::write_memtable;
use crate::limits::{FLUSHES_MAX, LOG_SPARES_MAX, LOG_SPARES_SHARE, OPENS_MAX, REPLAY_TELL_EVERY};
use crate::manifest::{Manifest, ManifestHeader, ManifestState, SstableEntry};
use crate::memory::MemoryPool;
use crate::memtable::Memtable;
use crate::metrics::Metrics;
use crate::start::{PlannedLog, PlannedSstable, StartPlan, interval_of, meet_at_barrier};
use crate::stats::run_clock;
use crate::store::{Store, decode_entry};
use crate::table::{Sstable, TableStore};
use crate::{Error, Settings};
use base::HashMap;
use mutation::TokenRange;
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
        for log in &mine.logs {
            self.replay(log).await?;
        }
        let replayed: Vec<_> = self.tables.values().cloned().collect();
        for table in replayed {
            self.flush(&table).await?;
        }
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

    async fn replay(&mut self, planned: &PlannedLog) -> Result<(), Error> {
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
            for entry in entries {
                match self.replay_entry(planned, &entry) {
                    Ok(()) => self.entries += 1,
                    Err(error @ Error::Corrupt { .. }) if skip => {
                        runtime::error!("skipping a commitlog entry: {error}");
                    }
                    Err(error) => return Err(error),
                }
                if self.dirty > self.settings.memtable_bytes as usize / 2 {
                    let largest = self.tables.values().max_by_key(|table| (table.memtable_bytes(), table.id));
                    let largest = largest.expect("something was replayed").clone();
                    self.flush(&largest).await?;
                }
                runtime::yield_if_needed().await;
            }
        }
        Ok(())
    }

    fn replay_entry(&mut self, planned: &PlannedLog, entry: &OldEntry) -> Result<(), Error> {
        let corrupt = |got: String| {
            let (log, position) = (&planned.log, entry.position);
            let name =
                SegmentName { incarnation: log.incarnation, shard: log.shard, segment: position.segment };
            let path = self.settings.commitlog_dir.join(name.file_name());
            Error::corrupt(
                "commitlog segment",
                &path,
                u64::from(position.offset),
                "an entry of mutations",
                got,
            )
        };
        for mutation in decode_entry(&entry.payload).map_err(corrupt)? {
            let Some(table) = self.tables.get(&mutation.table()) else { continue };
            let flushed = planned.flushed.get(&table.id).is_some_and(|flushed| entry.position < *flushed);
            if flushed || !self.interval.contains(mutation.token()) {
                continue;
            }
            let applied =
                table.with_version(|version, definition| version.active.apply(definition, &mutation.view()));
            match applied {
                Ok(grown) => self.dirty = self.dirty.saturating_add_signed(grown),
                // It was checked before it was logged, so only damage makes it not fit.
                Err(Error::Mutation(error)) => return Err(corrupt(error.to_string())),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Writes what was replayed of a table to an sstable, which counts from the new manifest on.
    async fn flush(&mut self, table: &Rc<TableStore>) -> Result<(), Error> {
        table.freeze(crate::commitlog::LogPosition::START);
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
