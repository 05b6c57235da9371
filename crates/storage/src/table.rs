//! One table on one shard: its memtables and sstables, as versions that readers can keep.

use crate::Error;
use crate::backoff::Backoff;
use crate::cache::TableCache;
use crate::commitlog::LogPosition;
use crate::compaction::TableState;
use crate::limits::{
    COMPACTION_RETRY_MS, COMPACTION_RETRY_MS_MAX, FLUSH_RETRY_MS, FLUSH_RETRY_MS_MAX, GENERATION_MAX,
};
use crate::manifest::SstableEntry;
use crate::memtable::Memtable;
use crate::replayable::Replayable;
use crate::table_metrics::{TableMetrics, bump};
use base::{Instant, Token};
use mutation::{Key, TokenRange};
use runtime::sync::{Event, Lock};
use schema::{Table, TableId};
use sstable::Reader;
use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// An open sstable of this shard.
pub(crate) struct Sstable {
    pub(crate) entry: SstableEntry,
    pub(crate) reader: Rc<Reader>,
    /// How many shards hold the files; `None`: only this one, and all that is in them counts.
    holders: Option<Arc<AtomicU32>>,
    /// Whether a compaction works on it.
    pub(crate) busy: Cell<bool>,
    /// Its level for levelled compaction; the manifest knows it, the files may say what it was when they were written.
    pub(crate) level: Cell<u32>,
    /// When this start made it; `None`: an earlier one did.
    pub(crate) made_at: Cell<Option<Instant>>,
}

impl Sstable {
    pub(crate) fn new(
        entry: SstableEntry,
        reader: Rc<Reader>,
        holders: Option<Arc<AtomicU32>>,
    ) -> Rc<Sstable> {
        let level = Cell::new(entry.meta.level);
        let made_at = Cell::new(Some(runtime::now()));
        Rc::new(Sstable { entry, reader, holders, busy: Cell::new(false), level, made_at })
    }

    pub(crate) fn generation(&self) -> u64 {
        self.entry.meta.generation
    }

    /// Whether a token of the files counts for this shard.
    pub(crate) fn covers(&self, token: Token) -> bool {
        let ranges = &self.entry.ranges;
        self.entry.meta.covers(token)
            && (ranges.is_empty() || ranges.iter().any(|range| range.contains(token)))
    }

    /// Whether anything in a range may count for this shard.
    pub(crate) fn overlaps(&self, range: TokenRange) -> bool {
        let whole = TokenRange::new(self.entry.meta.first_token, self.entry.meta.last_token);
        range.intersect(whole).is_some()
    }

    /// Whether the files hold more than what counts for this shard.
    pub(crate) fn is_shared(&self) -> bool {
        self.holders.is_some() || !self.entry.ranges.is_empty()
    }

    /// Gives up this shard's hold on the files; true when it was the last.
    pub(crate) fn let_go(&self) -> bool {
        self.holders.as_ref().is_none_or(|holders| holders.fetch_sub(1, Ordering::AcqRel) == 1)
    }
}

/// A memtable that is no longer written.
#[derive(Clone)]
pub(crate) struct Frozen {
    pub(crate) memtable: Rc<Memtable>,
    /// Entries of this table below this place are in it or in older ones.
    pub(crate) position: LogPosition,
    /// Nothing in it was logged at or behind this place.
    pub(crate) end: LogPosition,
    /// Its sstable, when that is finished and the manifest may not know it: kept for the next attempt.
    pub(crate) written: Rc<RefCell<Option<Rc<Sstable>>>>,
}

/// The result of a compaction, and what it replaces.
pub(crate) struct Replacement {
    pub(crate) inputs: Vec<Rc<Sstable>>,
    /// Empty: nothing was left.
    pub(crate) outputs: Vec<Rc<Sstable>>,
    /// Whether reads may find less afterwards: what is cached must be forgotten.
    pub(crate) lossy: bool,
}

/// What a table consists of at one moment. Immutable but for the active memtable.
pub(crate) struct TableVersion {
    pub(crate) active: Rc<Memtable>,
    /// Oldest first.
    pub(crate) frozen: Vec<Frozen>,
    /// Newest generation first.
    pub(crate) sstables: Vec<Rc<Sstable>>,
    /// The newest timestamp in any of its sstables: nothing they say can change what is newer.
    pub(crate) newest: i64,
}

impl TableVersion {
    pub(crate) fn new(active: Rc<Memtable>, frozen: Vec<Frozen>, sstables: Vec<Rc<Sstable>>) -> TableVersion {
        let newest = sstables.iter().map(|sstable| sstable.entry.meta.max_timestamp).max();
        TableVersion { active, frozen, sstables, newest: newest.unwrap_or(i64::MIN) }
    }

    /// The sstables that may hold a partition.
    pub(crate) fn holders(&self, key: &Key) -> impl Iterator<Item = &Rc<Sstable>> {
        // The filters' hash is not worth computing when there is nothing to ask.
        let h2 = if self.sstables.is_empty() { 0 } else { base::murmur3(&key.bytes).1 };
        let token = key.token;
        let holds =
            move |sstable: &&Rc<Sstable>| sstable.covers(token) && sstable.reader.may_contain(token, h2);
        self.sstables.iter().filter(holds)
    }

    /// All memtables.
    pub(crate) fn memtables(&self) -> impl Iterator<Item = &Rc<Memtable>> {
        std::iter::once(&self.active).chain(self.frozen.iter().map(|frozen| &frozen.memtable))
    }
}

/// A table on this shard.
pub(crate) struct TableStore {
    pub(crate) id: TableId,
    pub(crate) dir: PathBuf,
    pub(crate) durable: Cell<bool>,
    pub(crate) dropped: Cell<bool>,
    /// The next start may find an sstable that does not count now, because it could not be read or its import failed: no tombstone
    /// may be purged.
    pub(crate) is_incomplete: Cell<bool>,
    definition: RefCell<Arc<Table>>,
    version: RefCell<Rc<TableVersion>>,
    /// Shared by all tables that ever had the id: no two files of them have one generation.
    next_generation: Rc<Cell<u64>>,
    generation_step: u64,
    dir_made: Cell<bool>,
    /// Mutations that are in the log and wait for their sync before they are applied.
    pub(crate) unsettled: Cell<usize>,
    /// Whether it is about to forget what it has: writes that nobody waits for must not come in between.
    pub(crate) is_truncating: Cell<bool>,
    /// What the log has and no memtable, and a restart would bring back.
    pub(crate) replayable: Replayable,
    /// Whether writes that would have to wait for a sync are held up.
    paused: Cell<bool>,
    /// Nothing is unsettled any more, or a pause has ended.
    pub(crate) settled: Event,
    /// Held by whatever flushes, truncates or drops.
    pub(crate) turn: Lock<()>,
    /// Compactions that the manifest may or may not know: the next one begins by recording them.
    pub(crate) unrecorded: RefCell<Vec<Replacement>>,
    /// Held by an operator's compaction: no other begins meanwhile.
    pub(crate) compaction: Lock<()>,
    pub(crate) compacting: TableState,
    /// When its active memtable began, or was last found empty at the end of a period.
    pub(crate) begun: Cell<Instant>,
    /// Whether its active memtable is to be flushed for its age.
    pub(crate) is_of_age: Cell<bool>,
    pub(crate) flush_backoff: Backoff,
    pub(crate) compaction_backoff: Backoff,
    pub(crate) metrics: TableMetrics,
    /// Its part of the row cache.
    pub(crate) cache: TableCache,
    /// Whether it is compacted without being told to; an operator's switch, forgotten by a restart.
    pub(crate) auto_compaction: Cell<bool>,
}

impl TableStore {
    pub(crate) fn new(
        data_dir: &Path,
        definition: Arc<Table>,
        durable: bool,
        next_generation: Rc<Cell<u64>>,
        generation_step: u64,
        active: Memtable,
    ) -> Rc<TableStore> {
        let cache = TableCache::new(wants_cache(&definition));
        let version = TableVersion::new(Rc::new(active), Vec::new(), Vec::new());
        Rc::new(TableStore {
            id: definition.id,
            dir: table_dir(data_dir, &definition),
            durable: Cell::new(durable),
            dropped: Cell::new(false),
            is_incomplete: Cell::new(false),
            definition: RefCell::new(definition),
            version: RefCell::new(Rc::new(version)),
            next_generation,
            generation_step,
            dir_made: Cell::new(false),
            unsettled: Cell::new(0),
            is_truncating: Cell::new(false),
            replayable: Replayable::default(),
            paused: Cell::new(false),
            settled: Event::new(),
            turn: Lock::new(()),
            unrecorded: RefCell::default(),
            compaction: Lock::new(()),
            compacting: TableState::default(),
            begun: Cell::new(runtime::now()),
            is_of_age: Cell::new(false),
            flush_backoff: backoff(FLUSH_RETRY_MS, FLUSH_RETRY_MS_MAX),
            compaction_backoff: backoff(COMPACTION_RETRY_MS, COMPACTION_RETRY_MS_MAX),
            metrics: TableMetrics::default(),
            cache,
            auto_compaction: Cell::new(true),
        })
    }

    /// The definition now.
    pub(crate) fn definition(&self) -> Arc<Table> {
        self.definition.borrow().clone()
    }

    pub(crate) fn set_definition(&self, definition: Arc<Table>) {
        assert!(definition.id == self.id, "a table keeps its identity");
        self.cache.is_wanted.set(wants_cache(&definition));
        *self.definition.borrow_mut() = definition;
    }

    /// What sstables say is another thing from this step on: nothing that was read of them before is answered any more.
    /// For imports, truncations, and whatever else leaves out or adds what is not deleted.
    pub(crate) fn forget_cached(&self) {
        self.cache.forget();
    }

    /// The version now.
    pub(crate) fn version(&self) -> Rc<TableVersion> {
        self.version.borrow().clone()
    }

    /// Looks at the version now, within this step, without keeping it.
    pub(crate) fn with_version<R>(&self, look: impl FnOnce(&TableVersion, &Table) -> R) -> R {
        look(&self.version.borrow(), &self.definition.borrow())
    }

    /// Replaces the version. One step: readers see the old or the new one.
    pub(crate) fn change(&self, change: impl FnOnce(&TableVersion) -> TableVersion) {
        let next = Rc::new(change(&self.version.borrow()));
        *self.version.borrow_mut() = next;
    }

    /// After which time its memtables are flushed, whatever is in them.
    pub(crate) fn flush_period(&self) -> Option<Duration> {
        let period_ms = u64::try_from(self.definition.borrow().options.memtable_flush_period_in_ms).ok()?;
        (period_ms > 0).then(|| Duration::from_millis(period_ms))
    }

    /// Starts a new memtable; the one before becomes frozen, complete up to `position`, with nothing from `end` on.
    pub(crate) fn freeze(&self, position: LogPosition, end: LogPosition) {
        self.begun.set(runtime::now());
        self.is_of_age.set(false);
        if self.version.borrow().active.is_empty() {
            return;
        }
        bump(&self.metrics.memtable_switches);
        self.change(|now| {
            let mut frozen = now.frozen.clone();
            frozen.push(Frozen { memtable: now.active.clone(), position, end, written: Rc::default() });
            TableVersion::new(Rc::new(now.active.successor()), frozen, now.sstables.clone())
        });
    }

    /// Holds up writes that would have to wait for a sync, until the pause is dropped. One at a time: by the holder of the turn.
    pub(crate) fn pause(&self) -> Pause<'_> {
        assert!(!self.paused.replace(true), "the holder of the turn pauses once");
        Pause(self)
    }

    /// Whether such writes must wait for [`TableStore::settled`].
    pub(crate) fn is_paused(&self) -> bool {
        self.paused.get()
    }

    /// A mutation that was unsettled is applied, or never will be.
    pub(crate) fn settle_one(&self) {
        assert!(self.unsettled.get() > 0, "what is settled was counted");
        self.unsettled.set(self.unsettled.get() - 1);
        if self.unsettled.get() == 0 {
            self.settled.notify_all();
        }
    }

    /// Adds and removes sstables, and drops a frozen memtable that an added one replaces. One step.
    pub(crate) fn publish(&self, add: Vec<Rc<Sstable>>, remove: &[u64], flushed: Option<&Rc<Memtable>>) {
        if !remove.is_empty() {
            self.cache.compacted();
        }
        if flushed.is_some() {
            self.cache.flushed();
        }
        add.iter()
            .filter_map(|sstable| sstable.holders.as_ref())
            .for_each(|holders| self.compacting.share(holders));
        self.change(|now| {
            let kept = now.sstables.iter().filter(|sstable| !remove.contains(&sstable.generation()));
            let mut sstables: Vec<Rc<Sstable>> = add.into_iter().chain(kept.cloned()).collect();
            sstables.sort_by_key(|sstable| std::cmp::Reverse(sstable.generation()));
            let frozen = now.frozen.iter();
            let frozen =
                frozen.filter(|frozen| flushed.is_none_or(|flushed| !Rc::ptr_eq(&frozen.memtable, flushed)));
            TableVersion::new(now.active.clone(), frozen.cloned().collect(), sstables)
        });
    }

    /// The oldest log entry of this table that is not in an sstable, `but` one memtable's.
    pub(crate) fn first_position(&self, but: Option<&Rc<Memtable>>) -> Option<LogPosition> {
        let version = self.version.borrow();
        let memtables =
            version.memtables().filter(|memtable| but.is_none_or(|but| !Rc::ptr_eq(memtable, but)));
        memtables.filter_map(|memtable| memtable.first_position()).min()
    }

    /// Bytes of its memtables.
    pub(crate) fn memtable_bytes(&self) -> usize {
        self.version.borrow().memtables().map(|memtable| memtable.bytes()).sum()
    }

    /// A generation that no sstable of the table on any shard has.
    pub(crate) fn take_generation(&self) -> Result<u64, Error> {
        let generation = self.next_generation.get();
        if generation > GENERATION_MAX {
            return Err(Error::OutOfNumbers {
                what: "sstable generation",
                value: generation,
                limit: GENERATION_MAX,
            });
        }
        self.next_generation.set(generation + self.generation_step);
        Ok(generation)
    }

    /// Where its generations go on.
    pub(crate) fn generations(&self) -> Rc<Cell<u64>> {
        self.next_generation.clone()
    }

    /// Makes the table's folder, durably, before its first sstable.
    pub(crate) async fn make_dir(&self, data_dir: &Path) -> Result<(), Error> {
        if self.dir_made.get() {
            return Ok(());
        }
        let io = |action| move |error| Error::io(&self.dir, action, error);
        runtime::file::create_dir_all(&self.dir).await.map_err(io("create folder"))?;
        let keyspace_dir = self.dir.parent().unwrap_or(data_dir);
        for folder in [data_dir, keyspace_dir] {
            runtime::file::sync_dir(folder).await.map_err(|error| Error::io(folder, "sync folder", error))?;
        }
        self.dir_made.set(true);
        Ok(())
    }
}

/// Whether a table wants its partitions cached: unless it says that nothing of it should be.
fn wants_cache(table: &Table) -> bool {
    let says_none = |what: &str| table.options.caching.get(what).is_some_and(|value| value == "NONE");
    !(says_none("keys") && says_none("rows_per_partition"))
}

fn backoff(first_ms: u64, longest_ms: u64) -> Backoff {
    Backoff::new(Duration::from_millis(first_ms), Duration::from_millis(longest_ms))
}

/// Holds up writes to a table; ends on drop.
pub(crate) struct Pause<'a>(&'a TableStore);

impl Drop for Pause<'_> {
    fn drop(&mut self) {
        self.0.paused.set(false);
        self.0.settled.notify_all();
    }
}

/// Where a table's sstables are: `<data>/<keyspace>/<table>-<id>`, as in Cassandra.
pub(crate) fn table_dir(data_dir: &Path, table: &Table) -> PathBuf {
    data_dir.join(&*table.keyspace).join(format!("{}-{:032x}", table.name, table.id.0))
}

/// The id in the name of a table's folder; `None` for other folders.
pub(crate) fn table_of_dir(name: &str) -> Option<TableId> {
    let (_, id) = name.rsplit_once('-')?;
    let well_formed = id.len() == 32 && id.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    well_formed.then(|| u128::from_str_radix(id, 16).ok().map(TableId)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn folders_are_named_as_in_cassandra() {
        let table = fixture::table_with_id(0x5a1c_395e_b41f_11e5_9f22_ba0b_0483_c18c, "users");
        let dir = table_dir(Path::new("/data"), &table);
        assert_eq!(dir, Path::new("/data/ks/users-5a1c395eb41f11e59f22ba0b0483c18c"));
        assert_eq!(table_of_dir("users-5a1c395eb41f11e59f22ba0b0483c18c"), Some(table.id));
        assert_eq!(table_of_dir("users"), None);
        assert_eq!(table_of_dir("users-5A1C395EB41F11E59F22BA0B0483C18C"), None);
    }
}
