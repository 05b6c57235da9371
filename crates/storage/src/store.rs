//! The store of one shard: tables, the log and the manifest; [`write`] is the way of a write.
//!
//! Owned by one shard. Everything that changes which sstables exist goes through the manifest first, then becomes visible in
//! one step.

mod write;

use write::LoggedWrite;
pub(crate) use write::read_entry;

use crate::cache::{Cache, CacheStats};
use crate::commitlog::{Commitlog, LogPosition};
use crate::compaction::Compactions;
use crate::faults::Faults;
use crate::floors::Floors;
use crate::lending::row_cache_most;
use crate::limits::{FAILURE_LOG_EVERY, FLUSHES_MAX, FROZEN_MAX};
use crate::manifest::{Edit, Manifest};
use crate::memory::MemoryPool;
use crate::memtable::Memtable;
use crate::metrics::Metrics;
use crate::prefetch::Ahead;
use crate::pressure::Pressure;
use crate::start::StartPlan;
use crate::table::{Sstable, TableStore, TableVersion};
use crate::{Error, Settings};
use base::HashMap;
use mutation::TokenRange;
use runtime::log::Sparse;
use runtime::sync::{Event, Lock};
use runtime::{Group, JoinHandle};
use schema::{Schema, Table, TableId};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

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

/// A table that was made with the id of one whose drop is not in the manifest yet.
struct Successor {
    definition: Arc<Table>,
    durable: bool,
}
