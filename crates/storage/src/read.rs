//! The way of a read: from a command to an answer, within its limits.
//!
//! Isolation: a read takes one version of the table. For each partition it first fetches what sstables say (awaiting), then
//! looks into memtables and merges everything in one step without awaiting, so a write is seen whole or not at all. When the
//! fetched part turns out too small for the limits, a larger part is fetched and all of it is merged anew.
//! What memtables and the row cache know is emitted from where it lies; only what sstables say is merged into a copy, which
//! the row cache then takes over. A read that memory answers ends in the step in which it began.

use crate::Error;
use crate::cache::{Coverage, Epoch, Found};
use crate::limits::{
    READ_FRAGMENT_BYTES, READ_FRAGMENT_BYTES_MAX, READ_GROWTH_MAX, READ_ROW_BYTES, READ_ROWS_BYTES_MIN,
    SCAN_PARTITIONS_MAX, SCAN_PARTITIONS_PASSED_MAX,
};
use crate::memtable::MemtableReading;
use crate::merge::{Merged, Place, Wanted, slices_behind};
use crate::settled::{is_row_settled, is_settled, only_row, row_so_far};
use crate::store::Store;
use crate::table::{Sstable, TableStore, TableVersion};
use crate::table_metrics::{Met, add, bump, micros_since};
use base::histogram::Placed;
use mutation::{
    Budget, Deletion, DigestFault, Emit, Emitted, Key, MutationBuilder, PartitionView, Partitions,
    ReadAnswer, ReadCommand, Resume, Scope, TokenRange, emit, emit_merged,
};
use runtime::Bug;
use schema::{Position, Table};
use smallvec::SmallVec;
use sstable::{Scanner, SourceSlice};
use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;

impl Store {
    /// The answer to a command about one partition, if memory alone gives it. One step.
    /// `None`: nothing has happened, and [`Store::read`] says more, be it the reason why there is no answer at all.
    /// Also says how many microseconds it took.
    pub fn read_now(&self, command: &ReadCommand) -> Option<(ReadAnswer, Placed)> {
        let start = runtime::ticks();
        let Scope::Keys(keys) = &command.scope else { return None };
        let [key] = &keys[..] else { return None };
        let left = match &command.resume {
            None => Left::default(),
            Some(resume) if resume.key == *key && resume.after.is_some() => Left::of(resume),
            Some(_) => return None,
        };
        if !self.is_open(command.table) {
            return None;
        }
        self.adopt();
        let table = self.table(command.table).ok()?;
        let mut page = Page::new(self, &table, command);
        let stopped = page.read_in_memory(key, left)?.ok()?;
        self.metrics.reads.inc();
        let met = page.met();
        let answer = page.into_answer(stopped);
        let micros = micros_since(start);
        table.metrics.read(micros, met);
        Some((answer, micros))
    }

    /// As [`Store::read`], past the row cache: what memtables and sstables say. For comparing the two.
    pub async fn read_cold(&self, command: &ReadCommand) -> Result<ReadAnswer, Error> {
        self.read_with(command, false).await
    }

    /// Reads what a command asks for; tombstones come along, so that answers of replicas can be merged.
    /// Cost: without sstables of the keys no I/O and no waiting. Bounded by the command's limits and those of this crate.
    /// Errors: an sstable that cannot be read; nothing was changed.
    pub async fn read(&self, command: &ReadCommand) -> Result<ReadAnswer, Error> {
        self.read_with(command, true).await
    }

    /// An answer to a command with a digest in place of its rows, which it has.
    /// Errors: the table is gone.
    pub fn digested(&self, command: &ReadCommand, answer: ReadAnswer) -> Result<ReadAnswer, Error> {
        let table = self.table(command.table)?;
        Ok(digested(&table.definition(), command, answer))
    }

    async fn read_with(&self, command: &ReadCommand, cached: bool) -> Result<ReadAnswer, Error> {
        let start = runtime::ticks();
        self.metrics.reads.inc();
        self.adopt();
        self.opened(command.table).await?;
        let table = self.table(command.table)?;
        let mut page = Page::new(self, &table, command);
        page.cached &= cached;
        let stopped = match &command.scope {
            Scope::Keys(keys) => page.read_keys(keys).await,
            // Boxed, as below: a point read from memory should not carry the room of what waits for files.
            Scope::Range(range) => Box::pin(page.read_range(*range)).await,
        };
        match command.scope {
            Scope::Keys(_) => table.metrics.read(micros_since(start), page.met()),
            Scope::Range(_) => table.metrics.scan(micros_since(start), page.met()),
        }
        if let Err(error @ Error::TooManyTombstones { .. }) = &stopped {
            self.tell_tombstones(error);
        }
        runtime::tracing::note(|| {
            let Met { sstables, live_rows, tombstones } = page.met();
            let name = &page.definition.name;
            format!(
                "Merged data of {name} from memtables and {sstables} sstables: read {live_rows} live rows and \
                 {tombstones} tombstone cells"
            )
        });
        Ok(page.into_answer(stopped?))
    }
}

/// Replaces an answer's rows by their digest.
fn digested(table: &Table, command: &ReadCommand, mut answer: ReadAnswer) -> ReadAnswer {
    let fault = runtime::planted(Bug::DigestStopsAtNull).then_some(DigestFault::StopsAtNull);
    answer.digest = Some(mutation::digest(table, command, &answer, fault));
    answer.partitions = Partitions::new();
    answer
}

/// One read under way.
struct Page<'a> {
    store: &'a Store,
    table: &'a TableStore,
    definition: Arc<Table>,
    version: Rc<TableVersion>,
    command: &'a ReadCommand,
    partitions: Partitions,
    live_rows: u32,
    bytes: usize,
    /// Met so far, those of earlier reads for the same page included.
    tombstones: u32,
    /// With more of them it fails.
    tombstones_max: u32,
    /// Sstables that held something of what was asked for.
    sstables: u32,
    /// Whether the row cache is asked and filled.
    cached: bool,
    /// What the cache must find unchanged to take what is read.
    epoch: Epoch,
}

/// The part of a partition that is left to read.
#[derive(Clone, Copy, Default)]
struct Left<'a> {
    after: Option<&'a Position>,
    rows_taken: u32,
}

impl<'a> Left<'a> {
    fn of(resume: &'a Resume) -> Left<'a> {
        Left { after: resume.after.as_ref(), rows_taken: resume.rows_taken }
    }
}

impl<'a> Page<'a> {
    fn new(store: &'a Store, table: &'a TableStore, command: &'a ReadCommand) -> Page<'a> {
        let definition = table.definition();
        Page {
            store,
            table,
            tombstones: command.tombstones,
            tombstones_max: store.tombstones_max(&definition),
            sstables: 0,
            definition,
            version: table.version(),
            cached: true,
            epoch: table.cache.epoch(),
            command,
            partitions: Partitions::new(),
            live_rows: 0,
            bytes: 0,
        }
    }

    fn met(&self) -> Met {
        let tombstones = self.tombstones - self.command.tombstones;
        Met { sstables: self.sstables, live_rows: self.live_rows, tombstones }
    }

    fn into_answer(self, stopped: Option<Resume>) -> ReadAnswer {
        let answer = ReadAnswer {
            partitions: self.partitions,
            live_rows: self.live_rows,
            stopped,
            digest: None,
            tombstones: self.tombstones,
        };
        if self.command.digest_only { digested(&self.definition, self.command, answer) } else { answer }
    }

    async fn read_keys(&mut self, keys: &[Key]) -> Result<Option<Resume>, Error> {
        let resume = self.command.resume.as_ref();
        let mut first = 0;
        let mut left = Left::default();
        if let Some(resume) = resume
            && let Some(at) = keys.iter().position(|key| *key == resume.key)
        {
            first = if resume.after.is_some() { at } else { at + 1 };
            left = Left::of(resume);
        }
        for (index, key) in keys.iter().enumerate().skip(first) {
            if let Some(stopped) = self.read_partition(key, left).await? {
                return Ok(Some(stopped));
            }
            left = Left::default();
            if index + 1 < keys.len() {
                if self.is_full() {
                    return Ok(Some(Resume { key: key.clone(), after: None, rows_taken: 0 }));
                }
                runtime::yield_if_needed().await;
            }
        }
        Ok(None)
    }

    fn is_full(&self) -> bool {
        self.live_rows >= self.command.row_limit
            || self.command.byte_limit.is_reached_by(self.bytes)
            || self.command.is_tired_by(self.tombstones)
    }

    fn budget(&self, rows_taken: u32) -> Budget {
        Budget {
            rows: self.command.row_limit.saturating_sub(self.live_rows),
            partition_rows: self.command.partition_row_limit.saturating_sub(rows_taken),
            bytes: self.command.byte_limit.after(self.bytes).bytes(),
            tombstones: self.command.tombstone_limit.saturating_sub(self.tombstones).max(1),
        }
    }

    /// Reads one partition; `Some` when the read stops in it.
    async fn read_partition(&mut self, key: &Key, left: Left<'_>) -> Result<Option<Resume>, Error> {
        if let Some(read) = self.read_in_memory(key, left) {
            return read;
        }
        let version = self.version.clone();
        let mut sstables: Vec<&Rc<Sstable>> = version.holders(key).collect();
        sstables.sort_by_key(|sstable| std::cmp::Reverse(sstable.entry.meta.max_timestamp));
        let held_back = version.sstables.len() - sstables.len();
        add(&self.table.metrics.filter_negatives, held_back as u64);
        Box::pin(self.read_merged(&version, &sstables, key, left)).await
    }

    /// Reads one partition from memtables and the row cache. One step, and no allocation but the answer's.
    /// `None`: sstables have to be asked, and nothing has happened.
    fn read_in_memory(&mut self, key: &Key, left: Left<'_>) -> Option<Result<Option<Resume>, Error>> {
        let (version, store) = (self.version.clone(), self.store);
        let active = version.active.reading();
        let mut frozen: SmallVec<[MemtableReading<'_>; 2]> = SmallVec::new();
        for older in version.frozen.iter() {
            frozen.push(older.memtable.reading());
        }
        // What places borrow from outlives them.
        let cache;
        let mut places: SmallVec<[Place<'_>; 4]> = SmallVec::new();
        // Most tables have no frozen memtable: loops cost less than a chain of iterators.
        if let Some(view) = active.read(key.token, &key.bytes) {
            places.push(Place::Memory(view));
        }
        for memtable in &frozen {
            if let Some(view) = memtable.read(key.token, &key.bytes) {
                places.push(Place::Memory(view));
            }
        }
        // What was written lately is newer than all sstables, so that neither they nor the cache have anything to add.
        let asks_sstables = !version.sstables.is_empty() && !self.is_settled_by(&places, version.newest);
        let asks_cache = self.cached && asks_sstables;
        cache = asks_cache.then(|| store.cache.reading());
        let mut complete_to = None;
        let mut is_cached = false;
        if let Some(view) = cache.as_ref().and_then(|cache| cache.get(&self.table.cache, key)) {
            is_cached = match view.coverage(&self.slices(left), self.command.reversed) {
                Coverage::All => true,
                Coverage::UpTo(position) => {
                    complete_to = Some(position);
                    true
                }
                Coverage::Nothing => false,
            };
            if is_cached {
                places.push(Place::Cached(view));
            }
        }
        if asks_sstables && !is_cached {
            let newest = version.holders(key).map(|sstable| sstable.entry.meta.max_timestamp).max();
            if newest.is_some_and(|newest| !self.is_settled_by(&places, newest)) {
                return None;
            }
        }
        let emitted = self.emit_places(&places, key, left, complete_to.as_ref());
        if !self.is_enough(&emitted, complete_to.as_ref(), left) {
            return None;
        }
        if is_cached {
            bump(&store.cache.hits);
            bump(&store.cache.requests);
        } else if asks_cache {
            add(&self.table.metrics.filter_negatives, version.sstables.len() as u64);
        }
        store.metrics.memory_reads.inc();
        let nothing = places.is_empty();
        drop(places);
        Some(if nothing { Ok(None) } else { self.put(key, left, emitted) })
    }

    /// Whether nothing at or before a timestamp can change what memtables say.
    fn is_settled_by(&self, places: &[Place<'_>], newest: i64) -> bool {
        let views = || {
            places.iter().filter_map(|place| match place {
                Place::Memory(view) => Some(view),
                Place::Cached(_) | Place::Fetched(_) => None,
            })
        };
        if views().any(|view| view.deletion().outdates(newest)) {
            return true;
        }
        if places.is_empty() {
            return false;
        }
        let Some(position) = only_row(&self.definition, self.command) else { return false };
        let end = position.successor();
        views().any(|view| {
            let row = view.rows_between(&position, Some(&end), false).next();
            row.is_some_and(|row| is_row_settled(&self.definition, row, newest))
        })
    }

    /// Emits what several places together know of a partition.
    fn emit_places(
        &self,
        places: &[Place<'_>],
        key: &Key,
        left: Left<'_>,
        complete_to: Option<&Position>,
    ) -> Emitted {
        let what = self.emit_of(key, left, complete_to);
        let budget = self.budget(left.rows_taken);
        match places {
            [only] if !self.definition.hides_cells() => emit(only, &what, budget),
            _ => emit_merged(&self.definition, places, &what, budget),
        }
    }

    async fn read_merged(
        &mut self,
        version: &TableVersion,
        sstables: &[&Rc<Sstable>],
        key: &Key,
        left: Left<'_>,
    ) -> Result<Option<Resume>, Error> {
        let slices = self.slices(left).into_owned();
        let mut bytes = self.first_bytes(left);
        // A page that ends early costs less than much of each of many.
        let most = (READ_FRAGMENT_BYTES_MAX / sstables.len().max(1)).max(READ_FRAGMENT_BYTES);
        if self.cached {
            bump(&self.store.cache.requests);
        }
        loop {
            let wanted = Wanted { slices: &slices, reversed: self.command.reversed, bytes };
            let early = self.planted_probe(version, key, wanted)?;
            let mut merged = Merged::new();
            let (found, skipped) = self.fetch(&mut merged, version, sstables, key, wanted).await?;
            // From here on nothing awaits.
            let emitted = match early {
                None => self.emit_fetched(&merged, version, key, left),
                Some(early) => {
                    self.planted_merge(&mut merged, early, version, key, wanted)?;
                    let only = [Place::Fetched(&merged.partition)];
                    self.emit_places(&only, key, left, merged.complete_to.as_ref())
                }
            };
            if self.is_enough(&emitted, merged.complete_to.as_ref(), left) || bytes >= most {
                self.fill_cache(&merged, key, wanted);
                let asked = sstables.len() as u32 - skipped;
                let metrics = &self.table.metrics;
                add(&metrics.filter_hits, u64::from(found));
                add(&metrics.filter_mistakes, u64::from(asked - found));
                add(&metrics.skipped_sstables, u64::from(skipped));
                self.sstables = self.sstables.saturating_add(found);
                return self.put(key, left, emitted);
            }
            bytes = self.more_bytes(bytes, most, &emitted, left);
        }
    }

    /// Emits what sstables said and memtables know. One step.
    fn emit_fetched(&self, merged: &Merged, version: &TableVersion, key: &Key, left: Left<'_>) -> Emitted {
        let memory: SmallVec<[MemtableReading<'_>; 4]> =
            version.memtables().map(|memtable| memtable.reading()).collect();
        let mut places: SmallVec<[Place<'_>; 4]> = SmallVec::new();
        if !merged.is_empty {
            places.push(Place::Fetched(&merged.partition));
        }
        let known = memory.iter().filter_map(|memtable| memtable.get(key.token, &key.bytes));
        places.extend(known.map(Place::Memory));
        self.emit_places(&places, key, left, merged.complete_to.as_ref())
    }

    /// Remembers what sstables said, without what memtables know.
    fn fill_cache(&self, merged: &Merged, key: &Key, wanted: Wanted<'_>) {
        if !self.cached || runtime::planted(Bug::ProbeBeforeAwait) {
            return;
        }
        let found = Found {
            key,
            partition: &merged.partition,
            slices: wanted.slices,
            reversed: wanted.reversed,
            complete_to: merged.complete_to.as_ref(),
        };
        let cache = &self.table.cache;
        let planted = runtime::planted(Bug::PopulationRace);
        let epoch = if planted { cache.without_flushes(self.epoch) } else { self.epoch };
        self.store.cache.fill(cache, epoch, &found);
    }

    /// The mistake that [`Bug::ProbeBeforeAwait`] plants: the first rows of memtables, looked up before the awaits.
    fn planted_probe(
        &self,
        version: &TableVersion,
        key: &Key,
        wanted: Wanted<'_>,
    ) -> Result<Option<Merged>, Error> {
        if !runtime::planted(Bug::ProbeBeforeAwait) {
            return Ok(None);
        }
        let mut early = Merged::new();
        self.add_memtables(&mut early, version, key, Wanted { bytes: 1, ..wanted })?;
        Ok(Some(early))
    }

    /// The other half of the mistake: rows looked up early are kept, and only those behind them are looked up now.
    fn planted_merge(
        &self,
        merged: &mut Merged,
        early: Merged,
        version: &TableVersion,
        key: &Key,
        wanted: Wanted<'_>,
    ) -> Result<(), Error> {
        merged.partition.merge(&self.definition, &early.partition)?;
        if let Some(first) = &early.complete_to {
            let slices = slices_behind(wanted.slices, first, wanted.reversed);
            self.add_memtables(merged, version, key, Wanted { slices: &slices, ..wanted })?;
        }
        Ok(())
    }

    /// Merges what sstables say, those with the newest data first, until nothing older could change the answer.
    /// Returns how many had something, and how many were not asked.
    async fn fetch(
        &self,
        merged: &mut Merged,
        version: &TableVersion,
        sstables: &[&Rc<Sstable>],
        key: &Key,
        wanted: Wanted<'_>,
    ) -> Result<(u32, u32), Error> {
        let (mut found, mut outside) = (0, 0);
        for (asked, sstable) in sstables.iter().enumerate() {
            if self.is_settled(merged, version, key, sstable.entry.meta.max_timestamp) {
                return Ok((found, outside + (sstables.len() - asked) as u32));
            }
            if self.lies_outside(sstable, wanted) {
                outside += 1;
                continue;
            }
            self.store.metrics.sstable_reads.inc();
            let reader = &sstable.reader;
            let slice = reader
                .read_partition(&key.bytes, key.token, wanted.slices, wanted.reversed, wanted.bytes)
                .await?;
            if let Some(slice) = slice {
                merged.add_slice_in_steps(&self.definition, &slice, wanted).await?;
                found += 1;
            }
        }
        Ok((found, outside))
    }

    /// Whether all that an sstable has of any partition lies outside of the slices.
    fn lies_outside(&self, sstable: &Sstable, wanted: Wanted<'_>) -> bool {
        let (reader, meta) = (&sstable.reader, &sstable.entry.meta);
        let rows_only = self.definition.statics.is_empty()
            && !self.definition.hides_cells()
            && !(reader.has_partition_deletions() && meta.has_tombstones());
        let overlaps = |(first, last): (&Position, &Position)| {
            wanted.slices.iter().any(|slice| slice.start <= *last && *first < slice.end)
        };
        rows_only && reader.clustering_range().is_some_and(|range| !overlaps(range))
    }

    /// Whether nothing at or before a timestamp can change the answer. What is looked up in memtables here only proves
    /// that, and is looked up again when the answer is put together.
    fn is_settled(&self, merged: &Merged, version: &TableVersion, key: &Key, before: i64) -> bool {
        let memory: SmallVec<[MemtableReading<'_>; 4]> =
            version.memtables().map(|memtable| memtable.reading()).collect();
        let known = memory.iter().filter_map(|memtable| memtable.get(key.token, &key.bytes));
        let deletion = known.map(|view| view.deletion()).fold(merged.partition.deletion, Deletion::max);
        if deletion.outdates(before) {
            return true;
        }
        let Some(position) = only_row(&self.definition, self.command) else { return false };
        let row = row_so_far(&self.definition, key, &position, &memory, Some(&merged.partition));
        row.is_some_and(|row| is_settled(&self.definition, &row, before))
    }

    fn add_memtables(
        &self,
        merged: &mut Merged,
        version: &TableVersion,
        key: &Key,
        wanted: Wanted<'_>,
    ) -> Result<(), Error> {
        for memtable in version.memtables() {
            let added = memtable.with(key.token, &key.bytes, |partition| {
                merged.add_memory(&self.definition, partition, wanted)
            });
            added.unwrap_or(Ok(()))?;
        }
        Ok(())
    }

    fn slices(&self, left: Left<'_>) -> Cow<'_, [mutation::Slice]> {
        match left.after {
            None => Cow::Borrowed(&self.command.slices),
            Some(after) => Cow::Owned(slices_behind(&self.command.slices, after, self.command.reversed)),
        }
    }

    /// Bytes asked of each sstable in the first round: for as many rows as are wanted, if they are no larger than most.
    fn first_bytes(&self, left: Left<'_>) -> usize {
        let budget = self.budget(left.rows_taken);
        let rows = budget.rows.min(budget.partition_rows) as usize;
        rows.saturating_mul(READ_ROW_BYTES)
            .clamp(READ_ROWS_BYTES_MIN, READ_FRAGMENT_BYTES)
            .min(fragment_bytes())
    }

    /// Bytes asked of each sstable when `bytes` gave too little: for all that is wanted, if the rest is like what came, and no
    /// more than `most`, which is more than `bytes`.
    fn more_bytes(&self, bytes: usize, most: usize, emitted: &Emitted, left: Left<'_>) -> usize {
        let budget = self.budget(left.rows_taken);
        let rows = budget.rows.min(budget.partition_rows) as usize;
        let times = |wanted: usize, got: usize| bytes.saturating_mul(wanted) / got.max(1);
        let enough = times(rows, emitted.live_rows as usize).min(times(budget.bytes, emitted.bytes));
        // The rest may be quite unlike what came: neither in small steps nor in one leap.
        enough.saturating_add(bytes / 8).clamp(bytes * 2, bytes * READ_GROWTH_MAX).min(most)
    }

    fn emit_of<'e>(&'e self, key: &'e Key, left: Left<'e>, complete_to: Option<&'e Position>) -> Emit<'e> {
        Emit { table: self.command.table, key, command: self.command, after: left.after, complete_to }
    }

    /// Whether a limit, not the size of what is at hand, ended the partition.
    fn is_enough(&self, emitted: &Emitted, complete_to: Option<&Position>, left: Left<'_>) -> bool {
        if complete_to.is_none() || emitted.cut_after.as_ref() != complete_to {
            return true;
        }
        let budget = self.budget(left.rows_taken);
        emitted.live_rows >= budget.rows.min(budget.partition_rows) || emitted.bytes >= budget.bytes
    }

    /// Adds a partition to the answer; `Some` when the read stops in it.
    /// Errors: too many tombstones were met.
    fn put(&mut self, key: &Key, left: Left<'_>, emitted: Emitted) -> Result<Option<Resume>, Error> {
        self.live_rows += emitted.live_rows;
        self.tombstones = self.tombstones.saturating_add(emitted.tombstones);
        if self.tombstones > self.tombstones_max {
            return Err(self.too_many_tombstones(key, emitted.cut_after.as_ref()));
        }
        if let Some(mutation) = emitted.mutation {
            self.bytes += mutation.as_bytes().len();
            self.partitions.push(mutation);
        }
        // Where the read began may be what a client sent.
        let rows_taken = left.rows_taken.saturating_add(emitted.live_rows);
        let Some(after) = emitted.cut_after else { return Ok(None) };
        let done = rows_taken >= self.command.partition_row_limit;
        Ok((!done).then(|| Resume { key: key.clone(), after: Some(after), rows_taken }))
    }

    #[cold]
    fn too_many_tombstones(&self, key: &Key, after: Option<&Position>) -> Error {
        let (keyspace, table) = (&self.definition.keyspace, &self.definition.name);
        Error::TooManyTombstones {
            count: self.tombstones,
            table: format!("{keyspace}.{table}"),
            token: key.token.0,
            inside: after.is_some(),
        }
    }

    async fn read_range(&mut self, range: TokenRange) -> Result<Option<Resume>, Error> {
        let Some(range) = range.intersect(self.store.interval) else { return Ok(None) };
        let mut after: Option<Key> = None;
        if let Some(resume) = &self.command.resume {
            if let Some(position) = &resume.after {
                let left = Left { after: Some(position), rows_taken: resume.rows_taken };
                if let Some(stopped) = self.read_partition(&resume.key, left).await? {
                    return Ok(Some(stopped));
                }
            }
            after = Some(resume.key.clone());
        }
        let first = after.as_ref().map_or(range.first, |key| key.token.max(range.first));
        let range = TokenRange::new(first, range.last);
        let version = self.version.clone();
        let overlapping = version.sstables.iter().filter(|sstable| sstable.overlaps(range));
        let mut sources: Vec<Source> =
            overlapping.map(|sstable| Source::new(sstable, range, after.as_ref())).collect();
        let mut visited = 0;
        loop {
            if let Some(last) = &after
                && (self.is_full() || visited >= SCAN_PARTITIONS_MAX)
            {
                return Ok(Some(Resume { key: last.clone(), after: None, rows_taken: 0 }));
            }
            for source in &mut sources {
                source.fill(self.command).await?;
            }
            // From here to the emission nothing awaits, unless the partition is too large for one piece.
            let mut heads: SmallVec<[SourceSlice; 2]> = SmallVec::new();
            let Some(key) = next_key(&version, &mut sources, range, after.as_ref(), &mut heads) else {
                return Ok(None);
            };
            // What a source has looked at ahead counts when the scan gets there.
            visited += 1 + sources.iter_mut().map(Source::passed).sum::<u64>();
            let whole = !self.command.reversed && heads.iter().all(|head| head.complete_to.is_none());
            let stopped = match whole.then(|| self.merge_heads(&version, &heads, &key)).transpose()?.flatten()
            {
                Some(emitted) => self.put(&key, Left::default(), emitted)?,
                None => self.read_partition(&key, Left::default()).await?,
            };
            if stopped.is_some() {
                return Ok(stopped);
            }
            after = Some(key);
            runtime::yield_if_needed().await;
        }
    }

    /// Emits a partition whose sstable parts are whole; `None` when it is too large for one piece after all.
    fn merge_heads(
        &self,
        version: &TableVersion,
        heads: &[SourceSlice],
        key: &Key,
    ) -> Result<Option<Emitted>, Error> {
        let left = Left::default();
        let wanted = Wanted { slices: &self.command.slices, reversed: false, bytes: fragment_bytes() };
        let mut merged = Merged::new();
        for head in heads {
            merged.add_slice(&self.definition, head, wanted)?;
        }
        let emitted = self.emit_fetched(&merged, version, key, left);
        Ok(self.is_enough(&emitted, merged.complete_to.as_ref(), left).then_some(emitted))
    }
}

/// Bytes asked of each source in the first round.
fn fragment_bytes() -> usize {
    if runtime::rare("small_read_fragments") { 100 } else { READ_FRAGMENT_BYTES }
}

/// Partitions without anything in the slices that a source passes over at a time.
fn passed_max() -> u64 {
    if runtime::rare("few_partitions_passed_over") { 1 } else { SCAN_PARTITIONS_PASSED_MAX }
}

/// A scan of one sstable, one partition ahead.
struct Source {
    sstable: Rc<Sstable>,
    scanner: Scanner,
    head: Option<(Key, SourceSlice)>,
    /// Partitions before that which it has passed over.
    passed: u64,
    done: bool,
}

impl Source {
    fn new(sstable: &Rc<Sstable>, range: TokenRange, after: Option<&Key>) -> Source {
        let scanner = sstable.reader.scan_sparsely(range, after.cloned());
        Source { sstable: sstable.clone(), scanner, head: None, passed: 0, done: false }
    }

    /// Makes sure that the next partition is there, or that there is none. After many that say nothing in the slices, the next is
    /// there whatever it says, so that the page can end.
    async fn fill(&mut self, command: &ReadCommand) -> Result<(), Error> {
        while self.head.is_none() && !self.done {
            let Some(entered) = self.scanner.enter().await? else {
                (self.done, self.passed) = (true, 0);
                break;
            };
            let key = Key::with_token(entered.token, entered.key);
            let scanned = if self.sstable.covers(key.token) {
                self.scanner.piece(&command.slices, fragment_bytes()).await?
            } else {
                None
            };
            self.head = match scanned {
                Some(scanned) => Some((key, scanned.slice)),
                None if self.passed >= passed_max() => {
                    let nothing = MutationBuilder::new(command.table, key.token, &key.bytes).finish();
                    Some((key, SourceSlice { mutation: nothing, complete_to: None }))
                }
                None => None,
            };
            self.passed += u64::from(self.head.is_none());
            runtime::yield_if_needed().await;
        }
        Ok(())
    }

    /// How many it has passed over before the partition that was taken last; says so once.
    fn passed(&mut self) -> u64 {
        if self.head.is_none() { std::mem::take(&mut self.passed) } else { 0 }
    }

    /// The key of the partition ahead.
    fn key(&self) -> Option<&Key> {
        self.head.as_ref().map(|(key, _)| key)
    }

    fn take(&mut self, key: &Key) -> Option<SourceSlice> {
        self.head.take_if(|(head, _)| head == key).map(|(_, slice)| slice)
    }
}

/// The next key of memtables and sstables, and what the latter have of it.
fn next_key(
    version: &TableVersion,
    sources: &mut [Source],
    range: TokenRange,
    after: Option<&Key>,
    heads: &mut SmallVec<[SourceSlice; 2]>,
) -> Option<Key> {
    let memory = version.memtables().filter_map(|memtable| memtable.next_key(range, after)).min();
    let first = (0..sources.len())
        .filter(|at| sources[*at].head.is_some())
        .min_by(|a, b| sources[*a].key().cmp(&sources[*b].key()));
    let first = first.filter(|at| memory.as_ref().is_none_or(|key| sources[*at].key() <= Some(key)));
    let key = match first {
        None => memory?,
        Some(at) => {
            let (key, slice) = sources[at].head.take()?;
            heads.push(slice);
            key
        }
    };
    heads.extend(sources.iter_mut().filter_map(|source| source.take(&key)));
    Some(key)
}
