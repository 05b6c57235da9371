//! The store of one shard: tables, the log, the manifest, and the way of a write.
//!
//! ```text
//! apply ─► budget ─► log.append ─(same step)─► memtable            periodic: answered now
//!                              └(sync)──────► memtable            batch, group, synced: answered after the sync
//! ```
//! Owned by one shard. Everything that changes which sstables exist goes through the manifest first, then becomes visible in
//! one step.

use crate::cache::{Cache, CacheStats};
use crate::commitlog::{Appended, Commitlog, Held, LogPosition};
use crate::compaction::Compactions;
use crate::faults::Faults;
use crate::floors::{Floors, Point};
use crate::lending::row_cache_most;
use crate::limits::{ADMISSION_LOOK, ENTRY_MUTATIONS_MAX, FAILURE_LOG_EVERY, FLUSHES_MAX, FROZEN_MAX};
use crate::manifest::{Edit, Manifest};
use crate::memory::MemoryPool;
use crate::memtable::Memtable;
use crate::metrics::Metrics;
use crate::prefetch::Ahead;
use crate::pressure::{Pressure, Reserved, Verdict};
use crate::start::StartPlan;
use crate::table::{Sstable, TableStore, TableVersion};
use crate::table_metrics::micros_since;
use crate::{CommitlogSync, Durability, Error, Settings};
use base::HashMap;
use base::histogram::Placed;
use mutation::{Mutation, MutationView, TokenRange};
use runtime::log::Sparse;
use runtime::sync::{Event, Lock};
use runtime::{Group, JoinHandle};
use schema::{Schema, Table, TableId};
use smallvec::SmallVec;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Partitions named of a write that is too large.
const TOP_KEYS: usize = 8;
/// Characters shown of one value of their keys.
const KEY_CHARS_SHOWN: usize = 64;
/// Time between two looks at writes that are about to be applied.
const SETTLE_LOOK: Duration = Duration::from_millis(50);
/// Pause before a drop that could not be recorded is tried again.
const DROP_RETRY: Duration = Duration::from_millis(500);

/// One shard's tables. Clone the `Rc`; lives as long as the shard serves.
pub struct Store {
    pub(crate) settings: Settings,
    /// Tokens of this shard.
    pub(crate) interval: TokenRange,
    pub(crate) tables: RefCell<HashMap<TableId, Rc<TableStore>>>,
    pub(crate) log: Commitlog,
    pub(crate) manifest: Lock<Manifest>,
    /// The memory of memtables, and how fast writes are let in.
    pub(crate) pressure: Rc<Pressure>,
    /// Tables that the flusher is at.
    pub(crate) flushing: RefCell<Vec<TableId>>,
    /// What memtables share.
    pub(crate) memory: Rc<MemoryPool>,
    /// The flusher has something to look at.
    pub(crate) flush_wanted: Event,
    /// Tables, or after which time they are flushed, have changed.
    pub(crate) periods_changed: Event,
    /// Memtables have grown or gone by as much as others should know of.
    pub(crate) memtables_moved: Event,
    /// A flush has ended, well or not.
    pub(crate) flushed: Event,
    /// The compactor has something to look at.
    pub(crate) compaction_wanted: Event,
    /// Sstables that do not count any more, kept until their last reader is gone.
    pub(crate) doomed: RefCell<Vec<(Rc<TableStore>, Rc<Sstable>)>>,
    /// Sstables that snapshots under way will link, by their folders.
    pub(crate) held: RefCell<HashMap<PathBuf, Vec<Rc<Sstable>>>>,
    /// Writes without callers, which went away or were refused before it was known whether the log would have them; by the numbers of
    /// their entries.
    pub(crate) given_up: RefCell<BTreeMap<u64, LoggedWrite>>,
    pub(crate) stopping: Cell<bool>,
    pub(crate) tasks: RefCell<Vec<JoinHandle<()>>>,
    pub(crate) metrics: Metrics,
    pub(crate) compactions: Compactions,
    /// What sstables say, of all tables.
    pub(crate) cache: Cache,
    /// What requests to come will look at.
    pub(crate) ahead: RefCell<Ahead>,
    /// Whether new sstables are linked into `backups`.
    pub(crate) backs_up: Cell<bool>,
    /// What the node is told of failing disks.
    pub(crate) faults: Faults,
    /// An operator has ended writes; only a restart begins them again.
    pub(crate) drained: Cell<bool>,
    /// Compactions forget no tombstone: this node still gets rows that are older than what it was sent directly.
    pub(crate) keeps_tombstones: Cell<bool>,
    /// Reads that failed for tombstones and are worth a line in the log.
    pub(crate) tombstones_told: Sparse,
    /// A stop ends the task that keeps the time of histograms.
    pub(crate) clock_stopped: Event,
    /// A stop ends the task that keeps the shares of compactions.
    pub(crate) controller_stopped: Event,
    /// What a truncation has overtaken is refused.
    pub(crate) floors: Floors,
    /// Tables whose drop is not in the manifest yet, with what to open under the same id afterwards.
    dropping: RefCell<HashMap<TableId, Option<Successor>>>,
    /// A drop is in the manifest.
    drop_ended: Event,
    /// Where the generations of dropped tables ended: a table made again with the id of one goes on from there.
    generations: RefCell<HashMap<TableId, Rc<Cell<u64>>>>,
    plan: Arc<StartPlan>,
    last_segment: Cell<u32>,
}

impl Store {
    pub(crate) fn new(
        settings: Settings,
        plan: Arc<StartPlan>,
        interval: TokenRange,
        log: Commitlog,
        manifest: Manifest,
        memory: Rc<MemoryPool>,
    ) -> Store {
        let pressure = Pressure::new(settings.memtable_bytes);
        Store {
            backs_up: Cell::new(settings.incremental_backups),
            cache: Cache::new(settings.row_cache_bytes, row_cache_most(&settings)),
            settings,
            interval,
            tables: RefCell::default(),
            log,
            manifest: Lock::new(manifest),
            pressure,
            flushing: RefCell::default(),
            memory,
            flush_wanted: Event::new(),
            periods_changed: Event::new(),
            memtables_moved: Event::new(),
            flushed: Event::new(),
            compaction_wanted: Event::new(),
            doomed: RefCell::default(),
            held: RefCell::default(),
            given_up: RefCell::default(),
            stopping: Cell::new(false),
            tasks: RefCell::default(),
            metrics: Metrics::new(),
            compactions: Compactions::default(),
            ahead: RefCell::default(),
            faults: Faults::default(),
            drained: Cell::new(false),
            keeps_tombstones: Cell::new(false),
            tombstones_told: Sparse::new(FAILURE_LOG_EVERY),
            clock_stopped: Event::new(),
            controller_stopped: Event::new(),
            floors: Floors::default(),
            dropping: RefCell::default(),
            drop_ended: Event::new(),
            generations: RefCell::default(),
            plan,
            last_segment: Cell::new(0),
        }
    }

    /// Gauges that look at the store when they are asked for; they do not keep it alive.
    pub(crate) fn register_gauges(self: &Rc<Self>) {
        let gauge = |name: &str, help: &str, read: fn(&Store) -> f64| {
            let store = Rc::downgrade(self);
            runtime::metrics::gauge_fn(name, help, &[], move || {
                store.upgrade().map_or(0.0, |store| read(&store))
            });
        };
        gauge("messina_storage_memtable_bytes", "Bytes of memtables not yet in sstables.", |store| {
            store.pressure.memory() as f64
        });
        gauge(
            "messina_storage_write_pressure",
            "How much writes are held back, from 0, not at all, to 1, none is let in.",
            |store| store.pressure.level(),
        );
        gauge(
            "messina_storage_flush_rate_bytes",
            "Bytes of memtables that flushes wrote per second while they ran, lately.",
            |store| store.pressure.drain_rate(),
        );
        gauge("messina_storage_commitlog_bytes", "Bytes of commitlog segments in use.", |store| {
            store.log.size() as f64
        });
        gauge("messina_storage_sstables", "Sstables of this shard.", |store| {
            let tables = store.tables.borrow();
            tables
                .values()
                .map(|table| table.with_version(|version, _| version.sstables.len()))
                .sum::<usize>() as f64
        });
        type Read = fn(&CacheStats) -> u64;
        let of_cache: [(&str, &str, Read); 6] = [
            ("messina_storage_row_cache_bytes", "Bytes of the row cache.", |cache| cache.bytes),
            ("messina_storage_row_cache_partitions", "Partitions in the row cache.", |cache| {
                cache.partitions
            }),
            ("messina_storage_row_cache_rows", "Rows in the row cache.", |cache| cache.rows),
            ("messina_storage_row_cache_evictions", "Rows evicted from the row cache.", |cache| {
                cache.evictions
            }),
            ("messina_storage_row_cache_requests", "Partitions looked for in the row cache.", |cache| {
                cache.requests
            }),
            ("messina_storage_row_cache_hits", "Partitions answered from the row cache.", |cache| cache.hits),
        ];
        for (name, help, read) in of_cache {
            let store = Rc::downgrade(self);
            runtime::metrics::gauge_fn(name, help, &[], move || {
                store.upgrade().map_or(0.0, |store| read(&store.cache.stats()) as f64)
            });
        }
        let store = Rc::downgrade(self);
        runtime::metrics::collector(move |samples| {
            if let Some(store) = store.upgrade() {
                store.collect_samples(samples);
            }
        });
    }

    /// Makes mutations durable and visible, all or none of them, as one entry of the log.
    /// Shape:  all for tokens of this shard; for one partition they become visible in one step.
    /// Errors: nothing was applied, except that one whose sync failed may appear after a restart, and one that found the disk
    ///         full once there is room; each whole.
    /// Yields: in periodic mode below the memory budget only for a sync that is late.
    pub async fn apply(&self, mutations: Vec<Mutation>, durability: Durability) -> Result<(), Error> {
        self.apply_planned(mutations, durability, Point::NOW).await
    }

    /// As [`Store::apply`], for what was planned on a point in the cluster's history.
    /// Errors: also [`Error::Overtaken`], and nothing was applied.
    pub async fn apply_planned(
        &self,
        mutations: Vec<Mutation>,
        durability: Durability,
        on: Point,
    ) -> Result<(), Error> {
        let start = runtime::ticks();
        let tables: SmallVec<[TableId; 4]> = mutations.iter().map(Mutation::table).collect();
        let applied = self.apply_timed(mutations, durability, on).await;
        self.count_writes(tables.into_iter(), micros_since(start));
        applied
    }

    async fn apply_timed(
        &self,
        mutations: Vec<Mutation>,
        durability: Durability,
        on: Point,
    ) -> Result<(), Error> {
        if mutations.is_empty() {
            return Ok(());
        }
        let mut passed = None;
        loop {
            let gate = self.admit(&mutations, passed)?;
            match gate {
                Some(Gate::Open) => {
                    for mutation in &mutations {
                        self.opened(mutation.table()).await?;
                    }
                }
                Some(Gate::Memory) => self.slow_down(entry_bytes(&mutations)).await?,
                // Behind whoever waits there already.
                Some(Gate::Log) | None => break self.log.room().await?,
            }
            passed = gate;
        }
        self.metrics.writes.inc();
        let durable = self.is_durable(&mutations, durability)?;
        match self.way(durable, durability, entry_bytes(&mutations))? {
            Way::Unlogged => self.apply_unlogged(&mutations, on),
            Way::Logged => self.log_and_apply(&mutations, on),
            Way::Synced => self.apply_synced(mutations, on).await,
        }
    }

    /// The first gate behind `passed` that a write has to wait at; `None`: it may be applied in this step.
    /// Errors: no waiting helps.
    fn admit(&self, mutations: &[Mutation], passed: Option<Gate>) -> Result<Option<Gate>, Error> {
        if self.drained.get() {
            return Err(Error::Drained);
        }
        if mutations.len() > ENTRY_MUTATIONS_MAX {
            let (value, limit) = (mutations.len() as u64, ENTRY_MUTATIONS_MAX as u64);
            return Err(Error::OutOfNumbers { what: "mutations of one write", value, limit });
        }
        let ahead = |gate| passed < Some(gate);
        Ok(if ahead(Gate::Open) && mutations.iter().any(|mutation| !self.is_open(mutation.table())) {
            Some(Gate::Open)
        } else if ahead(Gate::Memory) && self.pressure.is_on() {
            Some(Gate::Memory)
        } else if ahead(Gate::Log) && !self.log.has_room() {
            Some(Gate::Log)
        } else {
            None
        })
    }

    /// How a write of `entry_bytes` that was admitted is made.
    /// Errors: the log must not grow.
    fn way(&self, durable: bool, durability: Durability, entry_bytes: usize) -> Result<Way, Error> {
        if !durable {
            return Ok(Way::Unlogged);
        }
        if let Some(error) = self.log_refusal() {
            return Err(error);
        }
        let periodic =
            durability == Durability::Mode && matches!(self.settings.sync, CommitlogSync::Periodic { .. });
        Ok(if periodic && self.log.keeps(entry_bytes) { Way::Logged } else { Way::Synced })
    }

    /// As [`Store::apply`] when nothing has to be waited for. One step.
    /// `None`: nothing has happened, and `apply` says more. Also says how many microseconds it took.
    pub fn apply_now(
        &self,
        mutations: &[Mutation],
        durability: Durability,
    ) -> Option<(Result<(), Error>, Placed)> {
        self.apply_planned_now(mutations, durability, Point::NOW)
    }

    /// As [`Store::apply_planned`], as [`Store::apply_now`].
    pub fn apply_planned_now(
        &self,
        mutations: &[Mutation],
        durability: Durability,
        on: Point,
    ) -> Option<(Result<(), Error>, Placed)> {
        let start = runtime::ticks();
        if mutations.is_empty() || !matches!(self.admit(mutations, None), Ok(None)) {
            return None;
        }
        // Most writes are one mutation, whose table is looked up once.
        let one = match mutations {
            [mutation] => Some((self.table(mutation.table()).ok()?, mutation)),
            _ => None,
        };
        let durable = match &one {
            Some((table, _)) => table.durable.get() || durability == Durability::Synced,
            None => self.is_durable(mutations, durability).ok()?,
        };
        let way = self.way(durable, durability, entry_bytes(mutations)).ok()?;
        if way == Way::Synced {
            return None;
        }
        self.metrics.writes.inc();
        let applied = self.floors.admit(mutations, on).and_then(|()| match (way, &one) {
            (Way::Unlogged, _) => self.apply_unlogged(mutations, on),
            (_, Some((table, mutation))) => self.log_and_apply_one(table, mutation),
            (_, None) => self.log_and_apply(mutations, on),
        });
        let micros = micros_since(start);
        match &one {
            Some((table, _)) => table.metrics.writes.record_placed(micros),
            None => self.count_writes(mutations.iter().map(Mutation::table), micros),
        }
        Some((applied, micros))
    }

    /// Counts mutations that took this long together.
    fn count_writes(&self, tables: impl Iterator<Item = TableId>, micros: Placed) {
        let known = self.tables.borrow();
        tables.filter_map(|id| known.get(&id)).for_each(|table| table.metrics.writes.record_placed(micros));
    }

    /// Logs and applies in one step, so the order of the two does not matter: nobody sees one without the other.
    fn log_and_apply(&self, mutations: &[Mutation], on: Point) -> Result<(), Error> {
        self.floors.admit(mutations, on)?;
        if let [mutation] = mutations {
            return self.log_and_apply_one(&*self.table(mutation.table())?, mutation);
        }
        let tables = self.check(mutations)?;
        let position =
            append_entry(&self.log, mutations).map_err(|error| self.oversized(error, mutations))?.position;
        let applied = self.apply_in_memory(mutations, &tables, Some(position));
        if applied.is_err() {
            tables.iter().for_each(|table| table.replayable.given_up(position));
        }
        self.look_at_log(position.segment);
        applied
    }

    /// One mutation is applied whole or not at all, which saves checking it before.
    fn log_and_apply_one(&self, table: &TableStore, mutation: &Mutation) -> Result<(), Error> {
        let mutations = std::slice::from_ref(mutation);
        self.log.accepts(entry_bytes(mutations)).map_err(|error| self.oversized(error, mutations))?;
        self.apply_one(table, mutation, None)?;
        let position =
            append_entry(&self.log, mutations).map_err(|error| self.oversized(error, mutations))?.position;
        table.with_version(|version, _| version.active.note(position));
        self.look_at_log(position.segment);
        Ok(())
    }

    /// Says of an entry that is too large whose it is.
    #[cold]
    fn oversized(&self, error: Error, mutations: &[Mutation]) -> Error {
        let Error::TooLarge { bytes, limit, .. } = error else { return error };
        let mut largest: Vec<&Mutation> = mutations.iter().collect();
        largest.sort_by_key(|mutation| std::cmp::Reverse(mutation.as_bytes().len()));
        let (mut keyspace, mut keys) = (String::new(), Vec::new());
        for mutation in largest.into_iter().take(TOP_KEYS) {
            let Ok(table) = self.table(mutation.table()) else { continue };
            let definition = table.definition();
            if keyspace.is_empty() {
                keyspace = definition.keyspace.to_string();
            }
            keys.push(format!("{}.{}", definition.name, key_text(&definition, mutation.view().key)));
        }
        Error::TooLarge { bytes, limit, keyspace, keys: keys.join(", ") }
    }

    async fn apply_synced(&self, mutations: Vec<Mutation>, on: Point) -> Result<(), Error> {
        let tables = loop {
            let tables = self.check(&mutations)?;
            let Some(paused) = tables.iter().find(|table| table.is_paused()) else { break tables };
            paused.settled.wait().await;
        };
        self.floors.admit(&mutations, on)?;
        let Appended { position, number } =
            append_entry(&self.log, &mutations).map_err(|error| self.oversized(error, &mutations))?;
        // Until it is applied the flush positions of all tables stay below it.
        let held = self.log.hold(position);
        let room = self.pressure.reserve(entry_bytes(&mutations));
        let write = LoggedWrite::new(mutations, tables, position, number, (held, room));
        let mut waiting = Waiting { store: self, write: Some(write) };
        let synced = self.log.synced(number).await;
        if let Err(Error::NoSpace(_) | Error::CommitlogFailed(_)) = synced
            && self.log.fate(number).is_none()
        {
            // Its entry stays with the log, and it with the store: no flush of one of its tables may pass it, or a restart would
            // bring the others' part alone.
            return synced;
        }
        let write = waiting.write.take().expect("only a drop takes it before");
        self.adopt();
        synced?;
        let applied = self.apply_in_memory(&write.mutations, &write.tables, Some(position));
        write.settle(&applied);
        self.look_at_log(position.segment);
        applied
    }

    /// Applies writes whose callers gave up waiting, or were refused as the disk was full, once their entries are synced: what is
    /// in the log becomes visible before a restart, too.
    pub(crate) fn adopt(&self) {
        while let Some((write, is_synced)) = self.next_to_adopt() {
            if !is_synced {
                continue;
            }
            let applied = self.apply_in_memory(&write.mutations, &write.tables, Some(write.position));
            if let Err(error) = &applied {
                runtime::error!("a write whose caller went away was not applied completely: {error}");
            }
            write.settle(&applied);
        }
    }

    /// The oldest write without a caller, and whether its entry is synced or lost, if that is known.
    fn next_to_adopt(&self) -> Option<(LoggedWrite, bool)> {
        let mut given_up = self.given_up.borrow_mut();
        let oldest = given_up.first_entry()?;
        let is_synced = self.log.fate(*oldest.key())?;
        let is_held = oldest.get().tables.iter().any(|table| table.is_truncating.get());
        (!is_held).then(|| (oldest.remove(), is_synced))
    }

    fn apply_unlogged(&self, mutations: &[Mutation], on: Point) -> Result<(), Error> {
        self.floors.admit(mutations, on)?;
        let tables = self.check(mutations)?;
        self.apply_in_memory(mutations, &tables, None)
    }

    /// Refuses what cannot be applied, before any of it is logged; returns the table of each mutation.
    fn check(&self, mutations: &[Mutation]) -> Result<Vec<Rc<TableStore>>, Error> {
        let check = |mutation: &Mutation| {
            let table = self.table(mutation.table())?;
            table.with_version(|_, definition| mutation::check_positions(definition, &mutation.view()))?;
            Ok(table)
        };
        mutations.iter().map(check).collect()
    }

    /// Applies each mutation to its table, but for tables that were dropped while the write waited: there is nothing to be
    /// visible in. What is in the log is applied as far as it can be.
    /// Errors: the first; everything else was applied.
    fn apply_in_memory(
        &self,
        mutations: &[Mutation],
        tables: &[Rc<TableStore>],
        position: Option<LogPosition>,
    ) -> Result<(), Error> {
        assert!(mutations.len() == tables.len(), "every mutation has its table");
        let mut result = Ok(());
        for (mutation, table) in mutations.iter().zip(tables) {
            if !table.dropped.get() {
                result = result.and(self.apply_one(table, mutation, position));
            }
        }
        result
    }

    fn apply_one(
        &self,
        table: &TableStore,
        mutation: &Mutation,
        position: Option<LogPosition>,
    ) -> Result<(), Error> {
        let grown = table.with_version(|version, definition| {
            let grown = version.active.apply(definition, &mutation.view())?;
            if let Some(position) = position {
                version.active.note(position);
            }
            Ok::<isize, Error>(grown)
        })?;
        if self.pressure.grew(grown) {
            self.flush_wanted.notify();
            self.memtables_moved.notify();
        }
        Ok(())
    }

    fn is_durable(&self, mutations: &[Mutation], durability: Durability) -> Result<bool, Error> {
        if durability == Durability::Synced {
            return Ok(true);
        }
        let tables = self.tables.borrow();
        for mutation in mutations {
            let table = tables.get(&mutation.table()).ok_or(Error::UnknownTable(mutation.table()))?;
            if table.durable.get() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Makes a write wait for its turn while memory runs low.
    async fn slow_down(&self, bytes: usize) -> Result<(), Error> {
        self.flush_wanted.notify();
        self.metrics.slowed_writes.inc();
        let _turn = self.pressure.queue().lock().await;
        let mut blocked = false;
        loop {
            if self.stopping.get() {
                return Err(Error::Stopping);
            }
            // Writes that were refused take memory until there is room for their entries: no flush frees that.
            if let Some(error) = self.log.refused() {
                return Err(error);
            }
            self.adopt();
            match self.pressure.admit(bytes, runtime::now()) {
                Verdict::Admitted => return Ok(()),
                Verdict::Wait(time) => runtime::sleep(time).await,
                Verdict::Stopped => {
                    if let Some(error) = self.flush_refusal() {
                        return Err(error);
                    }
                    if !std::mem::replace(&mut blocked, true) {
                        self.metrics.blocked_writes.inc();
                    }
                    // Elapsed is a reason to look, too: a flush may have come further without ending.
                    let _ = runtime::timeout(ADMISSION_LOOK, self.flushed.wait()).await;
                }
            }
        }
    }

    /// Asks for a flush when the log has grown beyond its share; cheap unless a new segment has begun.
    fn look_at_log(&self, segment: u32) {
        if self.last_segment.replace(segment) != segment && self.log.size() > self.settings.commitlog_bytes {
            self.flush_wanted.notify();
        }
    }

    /// Whether a table that was dropped and made again with its id is open; true for all others, unknown ones included.
    pub(crate) fn is_open(&self, id: TableId) -> bool {
        !matches!(self.dropping.borrow().get(&id), Some(Some(_)))
    }

    /// Waits until a table that was dropped and made again with its id is open.
    pub(crate) async fn opened(&self, id: TableId) -> Result<(), Error> {
        while !self.is_open(id) {
            if self.stopping.get() {
                return Err(Error::Stopping);
            }
            self.drop_ended.wait().await;
        }
        Ok(())
    }

    /// Waits until the manifest knows of every drop of these tables. Before that a table must not be made with such an id: after
    /// a crash the new one would have the old one's rows.
    pub async fn drops_recorded(&self, ids: &[TableId]) -> Result<(), Error> {
        while ids.iter().any(|id| self.dropping.borrow().contains_key(id)) {
            if self.stopping.get() {
                return Err(Error::Stopping);
            }
            self.drop_ended.wait().await;
        }
        Ok(())
    }

    pub(crate) fn table(&self, id: TableId) -> Result<Rc<TableStore>, Error> {
        self.tables.borrow().get(&id).cloned().ok_or(Error::UnknownTable(id))
    }

    /// All tables, in the order of their ids.
    pub(crate) fn all_tables(&self) -> Vec<Rc<TableStore>> {
        let mut tables: Vec<_> = self.tables.borrow().values().cloned().collect();
        tables.sort_by_key(|table| table.id);
        tables
    }

    /// Follows the schema: new tables are there at once (without touching the disk), dropped ones are gone at once and their
    /// files follow in the background. A table with the id of a dropped one opens when the manifest knows of the drop; until
    /// then reads and writes of it wait.
    pub fn set_schema(self: &Rc<Self>, schema: &Schema) {
        let mut known = self.tables.borrow_mut();
        let mut dropped: Vec<TableId> =
            known.keys().copied().filter(|id| schema.table_by_id(*id).is_none()).collect();
        dropped.sort();
        let dropped: Vec<_> = dropped.iter().filter_map(|id| known.remove(id)).collect();
        let mut dropping = self.dropping.borrow_mut();
        dropping.values_mut().for_each(|next| *next = None);
        dropping.extend(dropped.iter().map(|table| (table.id, None)));
        for definition in schema.tables() {
            let durable =
                schema.keyspace(&definition.keyspace).is_none_or(|keyspace| keyspace.durable_writes);
            if let Some(table) = known.get(&definition.id) {
                table.set_definition(definition.clone());
                table.durable.set(durable);
            } else if let Some(next) = dropping.get_mut(&definition.id) {
                *next = Some(Successor { definition: definition.clone(), durable });
            } else {
                known.insert(definition.id, self.new_table(definition.clone(), durable));
            }
        }
        drop(known);
        drop(dropping);
        self.periods_changed.notify();
        // Those who wait for a table that is dropped once more go on and do not find it.
        self.drop_ended.notify_all();
        for table in dropped {
            table.dropped.set(true);
            self.generations.borrow_mut().insert(table.id, table.generations());
            // Drawn now: what is written to a table made again with the id is later.
            let at = self.next_time(i64::MIN);
            let store = self.clone();
            drop(runtime::spawn(Group::FLUSH, async move { store.drop_table(&table, at).await }));
        }
    }

    fn new_table(&self, definition: Arc<Table>, durable: bool) -> Rc<TableStore> {
        let step = u64::from(runtime::shard_count());
        let first = self.plan.last_generation(definition.id) + 1 + u64::from(runtime::shard().0);
        let before = self.generations.borrow().get(&definition.id).cloned();
        let generations = before.unwrap_or_else(|| Rc::new(Cell::new(first)));
        let active = Memtable::new(self.interval, self.memory.clone());
        let table = TableStore::new(&self.settings.data_dir, definition, durable, generations, step, active);
        table.auto_compaction.set(self.settings.auto_compaction);
        table
    }

    /// Lets go of a dropped table: its memory at once, its sstables when the manifest knows of the drop, which is tried until
    /// the store stops.
    async fn drop_table(self: Rc<Self>, table: &Rc<TableStore>, at: i64) {
        let _turn = table.turn.lock().await;
        let bytes = table.memtable_bytes();
        let mut written: Vec<_> =
            table.version().frozen.iter().filter_map(|frozen| frozen.written.take()).collect();
        table.change(|now| {
            TableVersion::new(Rc::new(now.active.successor()), Vec::new(), now.sstables.clone())
        });
        self.memtable_gone(bytes);
        self.flushed.notify_all();
        self.memory.free().await;
        // Behind every entry of the table: none is appended until it is made again.
        let edit = Edit {
            forget: vec![table.id],
            flushed: vec![(table.id, self.log.end())],
            truncated: vec![(table.id, at)],
            ..Edit::default()
        };
        loop {
            {
                let mut manifest = self.manifest.lock().await;
                match manifest.commit(&edit).await {
                    Ok(()) => {
                        written.extend(table.version().sstables.iter().cloned());
                        let unrecorded = table.unrecorded.take().into_iter();
                        written.extend(unrecorded.flat_map(|replacement| replacement.outputs));
                        table.change(|now| TableVersion::new(now.active.clone(), Vec::new(), Vec::new()));
                        self.doom(table, written);
                        break;
                    }
                    Err(refused) => {
                        let error = refused.error;
                        runtime::error!("cannot record that table {} is dropped: {error}", table.id);
                    }
                }
            }
            if self.stopping.get() {
                return;
            }
            runtime::sleep(DROP_RETRY).await;
        }
        let next = self.dropping.borrow_mut().remove(&table.id).flatten();
        if let Some(Successor { definition, durable }) = next {
            let again = self.new_table(definition, durable);
            self.tables.borrow_mut().insert(table.id, again);
        }
        self.drop_ended.notify_all();
        self.reap().await;
    }

    /// Freezes everything that was written to a table so far and returns the place in the log behind all of it.
    /// Writes that wait for their sync are waited for, and new ones that would have to wait are held up as long; what is left when
    /// the log fails or finds no space has no caller any more.
    pub(crate) async fn freeze_settled(&self, table: &TableStore) -> LogPosition {
        let paused = table.pause();
        loop {
            self.adopt();
            if table.unsettled.get() == 0 {
                break;
            }
            let synced = self.log.synced_so_far().await;
            self.adopt();
            // Those who still wait are told so; the others nobody asks for, and they came before what freezes here.
            if synced.is_err() && table.unsettled.get() == self.given_up_of(table) {
                break;
            }
            if table.unsettled.get() > 0 {
                // Looked at again when all are applied, or soon, should a caller go away meanwhile.
                let _ = runtime::timeout(SETTLE_LOOK, table.settled.wait()).await;
            }
        }
        let end = self.log.end();
        // Should what it is for fail, a flush must not pass those that nobody asks for.
        table.freeze(self.complete_up_to(table), end);
        drop(paused);
        end
    }

    /// When the oldest write was logged that is not yet applied, if a table has such writes, in seconds since the Unix epoch.
    pub(crate) fn waiting_since_s(&self, table: &TableStore) -> Option<u32> {
        self.adopt();
        if table.unsettled.get() == 0 { None } else { self.log.in_flight_since_s() }
    }

    /// How many mutations of writes without callers a table has.
    fn given_up_of(&self, table: &TableStore) -> usize {
        let given_up = self.given_up.borrow();
        let tables = given_up.values().flat_map(|write| &write.tables);
        tables.filter(|of| std::ptr::eq(&***of, table)).count()
    }

    /// Takes a table out of the writes without callers that were logged before a place.
    pub(crate) fn give_up(&self, table: &TableStore, before: LogPosition) {
        let mut given_up = self.given_up.borrow_mut();
        let earlier = given_up.values_mut().filter(|write| write.position < before);
        earlier.for_each(|write| write.leave(table));
        given_up.retain(|_, write| !write.mutations.is_empty());
    }

    /// Whether compactions that begin from now on keep every tombstone.
    pub fn keep_tombstones(&self, on: bool) {
        self.keeps_tombstones.set(on);
    }

    /// Microseconds since the Unix epoch, as a clock says that nobody sets back: later than every time this gave before on
    /// this node, than every recorded truncation, and not before `at_least`.
    pub fn next_time(&self, at_least: i64) -> i64 {
        self.plan.next_time(runtime::unix_micros(), at_least)
    }

    /// Which start of the node this is.
    pub(crate) fn incarnation(&self) -> u32 {
        self.plan.incarnation()
    }

    /// Remembers sstables that no version holds any more.
    pub(crate) fn doom(&self, table: &Rc<TableStore>, sstables: Vec<Rc<Sstable>>) {
        self.doomed.borrow_mut().extend(sstables.into_iter().map(|sstable| (table.clone(), sstable)));
    }

    /// Removes the files of doomed sstables that nobody reads any more. Files that cannot be removed are garbage of the next
    /// start.
    pub(crate) async fn reap(&self) {
        let dead: Vec<_> = {
            let mut doomed = self.doomed.borrow_mut();
            let (dead, read): (Vec<_>, Vec<_>) =
                doomed.drain(..).partition(|(_, sstable)| Rc::strong_count(sstable) == 1);
            *doomed = read;
            dead
        };
        for (table, sstable) in dead {
            if !sstable.let_go() {
                continue;
            }
            if let Err(error) = sstable.reader.remove_files().await {
                runtime::warn!(
                    "cannot remove sstable {} of table {}: {error}",
                    sstable.generation(),
                    table.id
                );
            }
        }
    }

    /// Whether a table has so many frozen memtables that no more may be frozen before one is flushed.
    pub(crate) fn is_behind(&self, table: &TableStore) -> bool {
        table.with_version(|version, _| version.frozen.len() >= FROZEN_MAX)
    }

    /// Orderly stop: flushes every memtable, so that the sstables alone are complete, then empties the log.
    /// Errors: what could not be flushed is still in the log.
    pub async fn drain(self: &Rc<Self>) -> Result<(), Error> {
        if self.stopping.replace(true) {
            return Ok(());
        }
        (0..FLUSHES_MAX).for_each(|_| self.flush_wanted.notify());
        self.compaction_wanted.notify();
        self.flushed.notify_all();
        self.drop_ended.notify_all();
        self.clock_stopped.notify_all();
        self.controller_stopped.notify_all();
        self.memtables_moved.notify();
        self.periods_changed.notify();
        let logged = self.log.stop().await;
        self.adopt();
        while logged.is_ok() && self.log.in_flight() > 0 {
            // Writes that were synced last are about to be applied.
            runtime::yield_now().await;
            self.adopt();
        }
        let tasks = std::mem::take(&mut *self.tasks.borrow_mut());
        for task in tasks {
            task.await;
        }
        // One that cannot be flushed is no reason to replay all the others.
        let mut flushed = Ok(());
        for table in self.all_tables() {
            flushed = flushed.and(self.flush_table(&table).await);
        }
        self.reap().await;
        flushed?;
        match logged {
            // What a full disk kept out of the log is in sstables now.
            Err(error) if error.is_shortage() => runtime::warn!("the commitlog is not complete: {error}"),
            logged => logged?,
        }
        let floor = self.log.open_segment() + 1;
        // Drops that are not recorded yet must be: their ids may be in the schema again.
        let mut forget: Vec<TableId> = self.dropping.borrow().keys().copied().collect();
        forget.sort();
        let edit = Edit { log_floor: Some(floor), forget, ..Edit::default() };
        self.manifest.lock().await.commit(&edit).await?;
        self.log.remove_all().await
    }
}

/// What a write passes before it has its place in the log, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Gate {
    /// A table that was dropped and made again with its id is not open yet.
    Open,
    /// Memory runs low.
    Memory,
    /// The log is behind.
    Log,
}

/// How a write is made that has passed all gates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Its keyspace has no durable writes.
    Unlogged,
    /// Answered in the step that appends it: its entry outlives the process.
    Logged,
    /// Answered when its entry is synced.
    Synced,
}

/// A table that was made with the id of one whose drop is not in the manifest yet.
struct Successor {
    definition: Arc<Table>,
    durable: bool,
}

/// A write that is in the log and not yet in memory.
pub(crate) struct LoggedWrite {
    mutations: Vec<Mutation>,
    /// The table of each mutation, as it was when the write was logged.
    tables: Vec<Rc<TableStore>>,
    position: LogPosition,
    number: u64,
    _held: (Held, Reserved),
}

impl LoggedWrite {
    fn new(
        mutations: Vec<Mutation>,
        tables: Vec<Rc<TableStore>>,
        position: LogPosition,
        number: u64,
        held: (Held, Reserved),
    ) -> LoggedWrite {
        assert!(mutations.len() == tables.len(), "every mutation has its table");
        tables.iter().for_each(|table| table.unsettled.set(table.unsettled.get() + 1));
        LoggedWrite { mutations, tables, position, number, _held: held }
    }

    /// Leaves out what it would write to a table.
    fn leave(&mut self, table: &TableStore) {
        for index in (0..self.tables.len()).rev() {
            if std::ptr::eq(&*self.tables[index], table) {
                self.mutations.remove(index);
                let table = self.tables.remove(index);
                self.abandon(&table);
            }
        }
    }

    /// It is in memory, if this is well.
    fn settle(mut self, applied: &Result<(), Error>) {
        if applied.is_ok() {
            std::mem::take(&mut self.tables).iter().for_each(|table| table.settle_one());
        }
    }

    /// What it would write to a table is in the log alone from now on.
    fn abandon(&self, table: &TableStore) {
        table.replayable.given_up(self.position);
        table.settle_one();
    }
}

impl Drop for LoggedWrite {
    fn drop(&mut self) {
        std::mem::take(&mut self.tables).iter().for_each(|table| self.abandon(table));
    }
}

/// A caller waiting for its write; when it goes away, the write stays with the store.
struct Waiting<'a> {
    store: &'a Store,
    write: Option<LoggedWrite>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if let Some(write) = self.write.take() {
            self.store.given_up.borrow_mut().insert(write.number, write);
            self.store.adopt();
        }
    }
}

/// A key for people: its values with colons between them.
fn key_text(table: &Table, key: &[u8]) -> String {
    let Ok(values) = table.split_key(key) else { return "?".to_string() };
    let text = |(column, value): (&schema::Column, &[u8])| {
        let shown = types::Value::decode(&column.ty, value).map_or("?".to_string(), |value| value.to_cql());
        let shown = shown.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\'')).unwrap_or(&shown);
        shown.chars().take(KEY_CHARS_SHOWN).collect::<String>()
    };
    table.partition_key.iter().zip(values).map(text).collect::<Vec<_>>().join(":")
}

/// Bytes of the payload of an entry of mutations.
fn entry_bytes(mutations: &[Mutation]) -> usize {
    4 + mutations.iter().map(|mutation| 4 + mutation.as_bytes().len()).sum::<usize>()
}

/// Entry payload: u32 count, then per mutation u32 length and bytes.
fn append_entry(log: &Commitlog, mutations: &[Mutation]) -> Result<Appended, Error> {
    if let [mutation] = mutations {
        let bytes = mutation.as_bytes();
        let mut head = [0; 8];
        head[..4].copy_from_slice(&1u32.to_be_bytes());
        head[4..].copy_from_slice(&(bytes.len() as u32).to_be_bytes());
        return log.append(&[&head, bytes]);
    }
    let mut payload = (mutations.len() as u32).to_be_bytes().to_vec();
    for mutation in mutations {
        payload.extend_from_slice(&(mutation.as_bytes().len() as u32).to_be_bytes());
        payload.extend_from_slice(mutation.as_bytes());
    }
    log.append(&[&payload])
}

/// The mutations of an entry, read where they lie, in place of what is in `out`. Errors: what is wrong with the payload, for the
/// message that names file and offset.
pub(crate) fn read_entry<'a>(payload: &'a [u8], out: &mut Vec<MutationView<'a>>) -> Result<(), String> {
    out.clear();
    let mut input = base::ByteReader::new(payload);
    let truncated = |error: base::Truncated| error.to_string();
    let count = input.u32().map_err(truncated)?;
    for _ in 0..count {
        let len = input.u32().map_err(truncated)?;
        let bytes = input.bytes(len as usize).map_err(truncated)?;
        out.push(MutationView::from_bytes(bytes).map_err(|error| error.to_string())?);
    }
    if input.is_empty() { Ok(()) } else { Err(format!("{} bytes too many", input.remaining())) }
}
