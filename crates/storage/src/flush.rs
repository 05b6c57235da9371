//! From frozen memtables to sstables.
//!
//! One flush at a time on a shard, and a second one of another table while the disk takes less than comes in; a table whose
//! flush fails rests while others have their turn. Oldest memtable of a table first; the manifest keeps the furthest position. A
//! memtable leaves the table in the step in which its sstable enters it, after the manifest knows the sstable and the
//! position it covers.

use crate::cache::Adopting;
use crate::commitlog::LogPosition;
use crate::limits::{FLUSH_ROWS_AT_ONCE, LOG_SHARES_MAX, WRITER_PENDING_BYTES};
use crate::manifest::{Edit, SstableEntry};
use crate::memory::MemoryPartition;
use crate::memtable::{Keys, Memtable};
use crate::metrics::Metrics;
use crate::pressure::Progress;
use crate::settled::is_whole;
use crate::store::Store;
use crate::table::{Frozen, Sstable, TableStore};
use crate::{CommitFailurePolicy, Error, Settings};
use base::Token;
use mutation::{ColumnView, Deletion, Key, PartitionView, Rewrite, RowView, rewrite_row};
use runtime::Bug;
use schema::{Position, Table};
use sstable::{Descriptor, EncodingStats, Reader, Writer, WriterOptions};
use std::rc::Rc;

impl Store {
    /// A task that flushes when memory or the log run low; there are [`FLUSHES_MAX`](crate::limits::FLUSHES_MAX) of them. Ends
    /// when the store stops.
    pub(crate) async fn run_flusher(self: Rc<Self>) {
        while !self.stopping.get() {
            let Some(table) = self.table_to_flush() else {
                let resting = self.all_tables().into_iter();
                match resting.filter_map(|table| table.flush_backoff.rests_until()).min() {
                    // Elapsed is what it waits for; a wish for a flush or a stop wakes it early.
                    Some(due) => drop(runtime::timeout_at(due, self.flush_wanted.wait()).await),
                    None => self.flush_wanted.wait().await,
                }
                continue;
            };
            self.flushing.borrow_mut().push(table.id);
            let flushed = self.flush_table(&table).await;
            self.flushing.borrow_mut().retain(|id| *id != table.id);
            match flushed {
                Ok(()) => table.flush_backoff.succeeded(),
                Err(error) => {
                    self.note_fault(&error);
                    if table.flush_backoff.failed(error.clone()) {
                        runtime::error!(
                            "flush of table {} failed, it will be tried again: {error}",
                            table.id
                        );
                    }
                }
            }
            self.count_stuck();
            self.flushed.notify_all();
            self.memory.free().await;
            // A flush that found nothing to do has not waited for anything.
            runtime::yield_now().await;
        }
    }

    /// Memory that cannot be freed for now is no reason to hold back writes of other tables.
    pub(crate) fn count_stuck(&self) {
        let tables = self.tables.borrow();
        let stuck = tables.values().filter(|table| table.flush_backoff.error().is_some());
        self.pressure.set_stuck(stuck.map(|table| table.memtable_bytes()).sum());
    }

    /// The table whose flush helps most, of those that do not rest; `None` when none is due or nothing a flush could free is in memory.
    pub(crate) fn table_to_flush(&self) -> Option<Rc<TableStore>> {
        let flushing = self.flushing.borrow();
        if !flushing.is_empty() && !self.pressure.is_behind() {
            return None;
        }
        let mut tables = self.all_tables();
        tables.retain(|table| table.flush_backoff.is_due() && !flushing.contains(&table.id));
        if let Some(behind) = tables.iter().find(|table| self.is_behind(table)) {
            return Some(behind.clone());
        }
        // What a failed flush left in memory is not counted as waiting for one, and would never be tried again.
        let failed =
            |table: &&Rc<TableStore>| table.flush_backoff.error().is_some() && table.memtable_bytes() > 0;
        if let Some(failed) = tables.iter().find(failed) {
            return Some(failed.clone());
        }
        if let Some(of_age) = tables.iter().find(|table| table.is_of_age.get()) {
            return Some(of_age.clone());
        }
        if self.log.size() > self.settings.commitlog_bytes {
            // Only the table with the oldest entry of all keeps segments: while it rests, no other flush frees any.
            if let Some((position, table)) = self.oldest_logged()
                && position.segment < self.log.open_segment()
                && table.flush_backoff.is_due()
                && !flushing.contains(&table.id)
            {
                return Some(table);
            }
        }
        if !self.pressure.wants_flush() {
            return None;
        }
        // Memory can be held by tables that are dropped just now: they let go of it without a flush.
        let held = tables.into_iter().filter(|table| table.memtable_bytes() > 0);
        held.max_by_key(|table| (table.memtable_bytes(), std::cmp::Reverse(table.id)))
    }

    /// The table with the oldest entry of the log that is in no sstable, and the place of that entry.
    fn oldest_logged(&self) -> Option<(LogPosition, Rc<TableStore>)> {
        let tables = self.tables.borrow();
        let logged = tables.values().filter_map(|table| Some((table.first_position(None)?, table)));
        let oldest = logged.min_by_key(|(position, table)| (*position, table.id));
        oldest.map(|(position, table)| (position, table.clone()))
    }

    /// Why the log must not grow: the table that keeps its oldest segments could not be flushed, and they are many.
    pub(crate) fn log_refusal(&self) -> Option<Error> {
        let most = self.settings.commitlog_bytes.saturating_mul(LOG_SHARES_MAX);
        if self.log.size() <= most {
            return None;
        }
        let (position, table) = self.oldest_logged()?;
        // Older segments go with the next flush of any table.
        let kept = self.log.open_segment().saturating_sub(position.segment) + 1;
        // Also while the flush is tried once more.
        (u64::from(kept) * self.settings.segment_size() > most).then(|| table.flush_backoff.error()).flatten()
    }

    /// Why no flush frees memory, when every table that holds some rests after a failure.
    pub(crate) fn flush_refusal(&self) -> Option<Error> {
        if !self.flushing.borrow().is_empty() || self.table_to_flush().is_some() {
            return None;
        }
        let mut resting = self.all_tables();
        resting.retain(|table| !table.flush_backoff.is_due());
        let largest = resting.into_iter().max_by_key(|table| (table.memtable_bytes(), table.id))?;
        largest.flush_backoff.error()
    }

    pub(crate) async fn flush_table(&self, table: &Rc<TableStore>) -> Result<(), Error> {
        let _turn = table.turn.lock().await;
        // Those that a failed flush left come first: while flushes fail, one after the other freezes nothing more.
        self.flush_frozen(table).await?;
        self.adopt();
        table.freeze(self.complete_up_to(table), self.log.end());
        self.flush_frozen(table).await
    }

    /// A place in the log below which a table's memtables have every entry of it. Entries of other tables keep their own
    /// positions back.
    pub(crate) fn complete_up_to(&self, table: &TableStore) -> LogPosition {
        if table.unsettled.get() == 0 { self.log.end() } else { self.log.position() }
    }

    /// Flushes the frozen memtables of a table, oldest first. The caller holds the table's turn.
    pub(crate) async fn flush_frozen(&self, table: &Rc<TableStore>) -> Result<(), Error> {
        let frozen = table.version().frozen.clone();
        for frozen in frozen {
            if table.dropped.get() {
                break;
            }
            match self.flush_memtable(table, &frozen).await {
                // What a table that was dropped meanwhile held is not needed, and the drop waits for the turn.
                Err(_) if table.dropped.get() => break,
                flushed => flushed?,
            }
        }
        Ok(())
    }

    async fn flush_memtable(&self, table: &Rc<TableStore>, frozen: &Frozen) -> Result<(), Error> {
        let memtable = &frozen.memtable;
        let progress = self.pressure.flush(memtable.bytes());
        progress.through(self.write_and_publish(table, frozen, &progress)).await?;
        progress.finished();
        drop(progress);
        table.flush_backoff.succeeded();
        self.memtable_gone(memtable.bytes());
        self.metrics.flushes.inc();
        self.flushed.notify_all();
        self.compaction_wanted.notify();
        Ok(())
    }

    async fn write_and_publish(
        &self,
        table: &Rc<TableStore>,
        frozen: &Frozen,
        progress: &Progress,
    ) -> Result<(), Error> {
        let memtable = &frozen.memtable;
        let log = self.log.clone();
        let syncing = runtime::spawn_now(runtime::current_group(), async move { log.synced_so_far().await });
        // A log that has failed says so at once, before anything is written in vain.
        let syncing = if syncing.is_finished() {
            self.judge_sync(memtable, syncing.await)?;
            None
        } else {
            Some(syncing)
        };
        let kept = frozen.written.borrow().clone();
        let add = match kept {
            Some(kept) => Some(kept),
            None => write_memtable(&self.settings, &self.metrics, table, memtable, Some(progress)).await?,
        };
        frozen.written.borrow_mut().clone_from(&add);
        // The log before the manifest: a batch over two tables must not survive in one of them only because that one was flushed.
        if let Some(syncing) = syncing {
            self.judge_sync(memtable, syncing.await)?;
        }
        if table.dropped.get() {
            // The drop removes what was written.
            return Err(Error::UnknownTable(table.id));
        }
        let flushed_bytes = add.as_ref().map_or(0, |sstable| sstable.reader.footprint().stored_bytes);
        // Before its sstable counts, the row cache knows what it brings.
        let adopting = self.adopt_into_cache(table, memtable).await;
        let entry = add.as_ref().map(|sstable| (table.id, sstable.entry.clone()));
        let edit = Edit {
            add: entry.into_iter().collect(),
            flushed: vec![(table.id, frozen.position)],
            log_floor: Some(self.log_floor(memtable)),
            ..Edit::default()
        };
        {
            let mut manifest = self.manifest.lock().await;
            manifest.commit(&edit).await?;
            table.publish(add.iter().cloned().collect(), &[], Some(memtable));
            drop(adopting);
            frozen.written.take();
            table.replayable.flushed(frozen.position);
            if let Some(add) = add.as_ref().filter(|_| frozen.position < frozen.end) {
                table.replayable.flushed_ahead(frozen.end, add.entry.meta.min_timestamp);
            }
        }
        self.release_log(edit.log_floor.unwrap_or(0));
        table.compacting.flushed(flushed_bytes);
        if let Some(sstable) = &add {
            self.back_up(table, sstable).await;
        }
        Ok(())
    }

    /// Whether a memtable may be flushed after a sync of the log that ended so. A full disk is no reason to keep memory full: flushing is
    /// what frees it. After a log that failed, nothing is written to memory any more, and what is there can wait for the restart;
    /// only a stop saves it at any price, and the policy that lets a new log begin.
    fn judge_sync(&self, memtable: &Memtable, synced: Result<(), Error>) -> Result<(), Error> {
        match synced {
            Err(error @ Error::CommitlogFailed(_))
                if memtable.first_position().is_some()
                    && !self.stopping.get()
                    && self.settings.commit_failure != CommitFailurePolicy::Ignore =>
            {
                Err(error)
            }
            Err(error) => {
                runtime::debug!("flushing ahead of a log that is not synced: {error}");
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    /// Merges a memtable into the cached parts of its partitions. Until the guard goes, nothing new is cached of them: a read
    /// that is under way does not know the sstable. Readers still look into the memtable, so a half merged one does no harm.
    /// Yields: between steps of bounded work.
    async fn adopt_into_cache<'t>(&self, table: &'t TableStore, memtable: &Rc<Memtable>) -> Adopting<'t> {
        let adopting = table.cache.adopt(memtable);
        let was_any_read = memtable.was_any_read();
        if self.cache.is_empty_of(&table.cache) && !was_any_read {
            return adopting;
        }
        let definition = table.definition();
        let mut keys = Keys::all();
        while let Some((token, handle)) = keys.next(memtable) {
            if let Some((now, coming)) = keys.came_nearer() {
                self.cache.prefetch_walk(&table.cache, now, coming);
            }
            let wanted = memtable.with_handle(handle, |partition| {
                let known = self.cache.knows(&table.cache, token, partition.key());
                let wanted = known || was_any_read && memtable.was_read(token, partition.key());
                wanted.then(|| (Key::with_token(token, partition.key()), known))
            });
            let Some((key, known)) = wanted else {
                runtime::yield_if_needed().await;
                continue;
            };
            if !known && self.is_all_in(table, &definition, memtable, (&key, handle)) {
                // What was read is not cold afterwards; what was only written is not worth the room.
                self.cache.adopt(&table.cache, &key);
            }
            let mut from: Option<Position> = None;
            loop {
                from = memtable.with_handle(handle, |partition| {
                    self.cache.absorb(&table.cache, &definition, &key, from.as_ref(), partition)
                });
                if from.is_none() {
                    break;
                }
                runtime::yield_if_needed().await;
            }
            runtime::yield_if_needed().await;
        }
        adopting
    }

    /// Whether the oldest memtable has all that counts of a partition: nothing in sstables does.
    fn is_all_in(
        &self,
        table: &TableStore,
        definition: &Table,
        memtable: &Memtable,
        (key, handle): (&Key, u32),
    ) -> bool {
        if runtime::planted(Bug::ProbeBeforeAwait) {
            return false;
        }
        // Older memtables have become sstables, and what is in newer ones is merged in by readers.
        let version = table.version();
        let older = version.holders(key).map(|sstable| sstable.entry.meta.max_timestamp).max();
        older.is_none_or(|older| {
            memtable.with_handle(handle, |partition| is_whole(definition, partition, older))
        })
    }

    /// Lets go of the log before a segment; the manifest says that none of it is needed.
    pub(crate) fn release_log(&self, floor: u32) {
        self.tables.borrow().values().for_each(|table| table.replayable.released(floor));
        self.log.release(floor);
    }

    /// First segment of the log that is needed once a memtable is flushed.
    fn log_floor(&self, but: &Rc<Memtable>) -> u32 {
        let tables = self.tables.borrow();
        let oldest = tables.values().filter_map(|table| table.first_position(Some(but))).min();
        let log = self.log.position();
        oldest.map_or(log, |oldest| oldest.min(log)).segment
    }
}

/// Writes a memtable as an sstable; `None` when nothing in it is worth keeping.
pub(crate) async fn write_memtable(
    settings: &Settings,
    metrics: &Metrics,
    table: &Rc<TableStore>,
    memtable: &Rc<Memtable>,
    progress: Option<&Progress>,
) -> Result<Option<Rc<Sstable>>, Error> {
    table.make_dir(&settings.data_dir).await?;
    let definition = table.definition();
    let generation = table.take_generation()?;
    let version = settings.version_of_new(memtable.has_early_deletion());
    let mut writer = Writer::create(WriterOptions {
        dir: table.dir.clone(),
        version,
        generation,
        table: definition.clone(),
        estimated_keys: memtable.partitions(),
        compression: settings.flush_compression,
        base: EncodingStats {
            min_timestamp: memtable.early_timestamp().unwrap_or(EncodingStats::EPOCH.min_timestamp),
            ..EncodingStats::EPOCH
        },
        host_id: settings.host_id,
        level: 0,
        repaired_at: 0,
    })
    .await?;
    let written = write_partitions(&mut writer, table, memtable, progress).await;
    if written.is_err() || writer.is_empty() {
        let abandoned = writer.abandon().await;
        written?;
        abandoned?;
        return Ok(None);
    }
    let meta = match writer.finish().await {
        Ok(meta) => meta,
        Err(error) => {
            // What is left is removed now or, failing that, by the next start.
            let descriptor = Descriptor::new(version, generation);
            let _ = sstable::remove_temporary(&table.dir, descriptor).await;
            return Err(error.into());
        }
    };
    metrics.flushed_bytes.add(meta.disk_bytes);
    runtime::debug!(
        "wrote {} bytes of memory, {} of them garbage, as {} on disk",
        memtable.bytes(),
        memtable.garbage(),
        meta.disk_bytes
    );
    let reader = Reader::open(&table.dir, meta.descriptor(), definition).await?;
    Ok(Some(Sstable::new(SstableEntry { meta, ranges: Vec::new() }, reader, None)))
}

/// Where a flush goes on after it let others run.
pub(crate) enum Cursor {
    Start,
    /// Behind this position of the partition: that of a row, or where a range tombstone begins.
    Behind(Position),
    End,
}

/// Errors: also when the table is dropped meanwhile.
async fn write_partitions(
    writer: &mut Writer,
    table: &TableStore,
    memtable: &Memtable,
    progress: Option<&Progress>,
) -> Result<(), Error> {
    let definition = table.definition();
    let has_cells = definition.regulars.iter().chain(&definition.statics).any(|column| column.is_complex());
    let mut keys = Keys::all();
    let mut partitions = 0;
    while let Some((token, handle)) = keys.next(memtable) {
        let mut cursor = Cursor::Start;
        loop {
            if table.dropped.get() {
                return Err(Error::UnknownTable(table.id));
            }
            cursor = memtable
                .with_handle(handle, |partition| write_some(writer, has_cells, token, partition, &cursor))?;
            if writer.pending_bytes() >= WRITER_PENDING_BYTES {
                writer.drain().await?;
                if let Some(progress) = progress {
                    progress.wrote(partitions, memtable.partitions(), writer.data_bytes());
                }
            }
            if matches!(cursor, Cursor::End) {
                break;
            }
            runtime::yield_if_needed().await;
        }
        partitions += 1;
        runtime::yield_if_needed().await;
    }
    if let Some(progress) = progress {
        progress.ended(writer.data_bytes());
    }
    Ok(())
}

/// Writes rows and range tombstones of a partition until enough is pending, others want to run, or it ends.
///
/// What a deletion of the same memtable covers is left out: readers of Cassandra expect that of an sstable, and show what
/// is covered in it. `collections`: whether the table has columns of many cells.
pub(crate) fn write_some(
    writer: &mut Writer,
    collections: bool,
    token: Token,
    partition: &MemoryPartition<'_>,
    cursor: &Cursor,
) -> Result<Cursor, Error> {
    let mut scratch = Vec::new();
    let mut cleaned = Vec::new();
    let deletion = partition.deletion();
    let start = match cursor {
        Cursor::Start => {
            let static_row = partition.static_row().map(|body| body.whole(&mut scratch));
            let static_row = static_row.and_then(|body| uncovered(body, collections, deletion, &mut cleaned));
            writer.start_partition(partition.key(), token, deletion, static_row)?;
            Position::bottom()
        }
        Cursor::Behind(after) => after.successor(),
        Cursor::End => return Ok(Cursor::End),
    };
    let continued = matches!(cursor, Cursor::Behind(_));
    let top = Position::top();
    let ranges = partition.ranges().into_iter().flat_map(|ranges| ranges.overlapping(&start, &top));
    let mut ranges = ranges.filter(|(.., range)| range.deletion.supersedes(deletion)).peekable();
    // The last range that began, and where it ends; one that began before the cursor was written then.
    let mut last: Option<(Position, Deletion)> = None;
    // The caller lets others run between partitions: a look at the clock for each row would be a twentieth of a flush.
    let mut written = 0;
    let mut is_enough = |writer: &Writer| {
        let rare = runtime::rare("flush_pauses_in_a_partition");
        written += 1;
        let is_time = written % FLUSH_ROWS_AT_ONCE == 0 && runtime::need_preempt();
        writer.pending_bytes() >= WRITER_PENDING_BYTES || is_time || rare
    };
    for row in partition.rows_between(&start, None, false) {
        while let Some((at, end, range)) = ranges.next_if(|(at, ..)| at.as_bytes() < row.position) {
            if !continued || at >= start {
                writer.range_tombstone(&range)?;
                if is_enough(writer) {
                    return Ok(Cursor::Behind(at));
                }
            }
            last = Some((end, range.deletion));
        }
        let covering = match &last {
            Some((end, range)) if row.position < end.as_bytes() => deletion.max(*range),
            _ => deletion,
        };
        let body = row.body.whole(&mut scratch);
        if let Some(body) = uncovered(body, collections, covering, &mut cleaned) {
            writer.row(row.clustering, body)?;
        }
        if is_enough(writer) {
            return Ok(Cursor::Behind(Position::from_bytes(row.position)));
        }
    }
    for (at, _, range) in ranges {
        if !continued || at >= start {
            writer.range_tombstone(&range)?;
            if is_enough(writer) {
                return Ok(Cursor::Behind(at));
            }
        }
    }
    writer.end_partition()?;
    Ok(Cursor::End)
}

/// A row without what `covering` or its own deletions cover; `None` when nothing is left of it.
fn uncovered<'b>(
    body: &'b [u8],
    collections: bool,
    covering: Deletion,
    cleaned: &'b mut Vec<u8>,
) -> Option<&'b [u8]> {
    let row = RowView::new(body);
    let deletes = |column| matches!(column, ColumnView::Complex(cells) if !cells.deletion.is_live());
    let inside = !row.deletion().is_live() || collections && row.columns().any(|(_, column)| deletes(column));
    if covering.is_live() && !inside {
        return Some(body);
    }
    cleaned.clear();
    let rewrite = Rewrite { shadow: covering, expire_at: None, purge: None };
    rewrite_row(body, &rewrite, cleaned).then_some(&cleaned[..])
}
