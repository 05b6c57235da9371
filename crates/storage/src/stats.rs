//! What a table is and does, as operators ask for it: the numbers behind nodetool, REST and `system_views`.

use crate::cache::CacheStats;
use crate::limits::{CELLS_COUNTED_ROWS_MAX, SHOWN_TABLES_MAX};
use crate::snapshot::{self, Snapshots};
use crate::store::Store;
use crate::table::{TableStore, TableVersion};
use base::histogram::{Distribution, EstimatedHistogram, Zeroes};
use runtime::metrics::{Sample, SampleValue};
use schema::TableId;
use sstable::Cardinality;
use std::rc::Rc;

/// One table on one shard, or on several once merged. Sizes in bytes, latencies in microseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct TableStats {
    /// Its keyspace.
    pub keyspace: String,
    /// Its name.
    pub table: String,
    /// Its identity.
    pub id: TableId,
    /// Class of its compaction strategy, without the package.
    pub strategy: String,
    /// Sstables that are read.
    pub sstables: u64,
    /// The largest of them on disk.
    pub largest_sstable: u64,
    /// The longest time between the oldest and the newest timestamp of one of them, in microseconds.
    pub longest_sstable_micros: u64,
    /// All their files.
    pub live_bytes: u64,
    /// The same, and files that wait for their last reader.
    pub total_bytes: u64,
    /// Data files that are compressed, as stored.
    pub stored_bytes: u64,
    /// The same data uncompressed.
    pub plain_bytes: u64,
    /// Partitions, about: those of sstables counted once each, and those of memtables.
    pub partitions: u64,
    /// Cells of memtables, about.
    pub memtable_cells: u64,
    /// Memory of memtables.
    pub memtable_bytes: u64,
    /// Memtables that began to be written to disk.
    pub memtable_switches: u64,
    /// Memtables that wait to be written to disk.
    pub pending_flushes: u64,
    /// Compactions that are due.
    pub pending_compactions: u64,
    /// Sstables and their bytes by level; empty when the strategy has no levels.
    pub levels: Vec<(u64, u64)>,
    /// Data that a repair has seen.
    pub repaired_bytes: u64,
    /// Data that none has.
    pub unrepaired_bytes: u64,
    /// Sstables that were asked for a partition in vain.
    pub filter_mistakes: u64,
    /// Sstables that were asked and had it.
    pub filter_hits: u64,
    /// Sstables that filters kept from being asked.
    pub filter_negatives: u64,
    /// Sstables that were not asked because all in them is too old to matter.
    pub skipped_sstables: u64,
    /// Memory of filters, as many bytes as their files have.
    pub filter_bytes: u64,
    /// Memory of summaries.
    pub summary_bytes: u64,
    /// Memory of chunk offsets and checksums.
    pub checksum_bytes: u64,
    /// Bytes of partitions of sstables.
    pub partition_sizes: EstimatedHistogram,
    /// Cells of partitions of sstables.
    pub partition_cells: EstimatedHistogram,
    /// Tombstones of sstables older than `gc_grace_seconds`.
    pub droppable_tombstones: u64,
    /// Reads by key.
    pub reads: Distribution,
    /// Reads of token ranges.
    pub scans: Distribution,
    /// Mutations.
    pub writes: Distribution,
    /// Sstables that held something of a read by key.
    pub sstables_per_read: Distribution,
    /// Live rows of a read.
    pub live_rows: Distribution,
    /// Tombstones of a read.
    pub tombstones: Distribution,
}

impl TableStats {
    /// A table that holds nothing and of which nothing was asked.
    pub fn empty(keyspace: &str, table: &str, id: TableId) -> TableStats {
        let plain = || Distribution::new(Zeroes::AsOne);
        let with_zeroes = || Distribution::new(Zeroes::Apart);
        TableStats {
            keyspace: keyspace.to_string(),
            table: table.to_string(),
            id,
            strategy: String::new(),
            sstables: 0,
            largest_sstable: 0,
            longest_sstable_micros: 0,
            live_bytes: 0,
            total_bytes: 0,
            stored_bytes: 0,
            plain_bytes: 0,
            partitions: 0,
            memtable_cells: 0,
            memtable_bytes: 0,
            memtable_switches: 0,
            pending_flushes: 0,
            pending_compactions: 0,
            levels: Vec::new(),
            repaired_bytes: 0,
            unrepaired_bytes: 0,
            filter_mistakes: 0,
            filter_hits: 0,
            filter_negatives: 0,
            skipped_sstables: 0,
            filter_bytes: 0,
            summary_bytes: 0,
            checksum_bytes: 0,
            partition_sizes: EstimatedHistogram::new(Zeroes::AsOne),
            partition_cells: EstimatedHistogram::new(Zeroes::AsOne),
            droppable_tombstones: 0,
            reads: plain(),
            scans: plain(),
            writes: plain(),
            sstables_per_read: with_zeroes(),
            live_rows: with_zeroes(),
            tombstones: with_zeroes(),
        }
    }

    /// Adds the same table of another shard.
    pub fn merge(&mut self, other: &TableStats) {
        debug_assert!(self.id == other.id, "one table");
        self.add(other);
    }

    /// Adds the numbers of another table: those of several together. Names stay those of the first.
    pub fn add(&mut self, other: &TableStats) {
        self.largest_sstable = self.largest_sstable.max(other.largest_sstable);
        self.longest_sstable_micros = self.longest_sstable_micros.max(other.longest_sstable_micros);
        let sums: [(&mut u64, u64); 20] = [
            (&mut self.sstables, other.sstables),
            (&mut self.live_bytes, other.live_bytes),
            (&mut self.total_bytes, other.total_bytes),
            (&mut self.stored_bytes, other.stored_bytes),
            (&mut self.plain_bytes, other.plain_bytes),
            (&mut self.partitions, other.partitions),
            (&mut self.memtable_cells, other.memtable_cells),
            (&mut self.memtable_bytes, other.memtable_bytes),
            (&mut self.memtable_switches, other.memtable_switches),
            (&mut self.pending_flushes, other.pending_flushes),
            (&mut self.pending_compactions, other.pending_compactions),
            (&mut self.repaired_bytes, other.repaired_bytes),
            (&mut self.unrepaired_bytes, other.unrepaired_bytes),
            (&mut self.filter_mistakes, other.filter_mistakes),
            (&mut self.filter_hits, other.filter_hits),
            (&mut self.filter_negatives, other.filter_negatives),
            (&mut self.skipped_sstables, other.skipped_sstables),
            (&mut self.filter_bytes, other.filter_bytes),
            (&mut self.summary_bytes, other.summary_bytes),
            (&mut self.checksum_bytes, other.checksum_bytes),
        ];
        sums.into_iter().for_each(|(mine, theirs)| *mine += theirs);
        self.droppable_tombstones += other.droppable_tombstones;
        self.levels.resize(self.levels.len().max(other.levels.len()), (0, 0));
        for (mine, theirs) in self.levels.iter_mut().zip(&other.levels) {
            *mine = (mine.0 + theirs.0, mine.1 + theirs.1);
        }
        self.partition_sizes.merge(&other.partition_sizes);
        self.partition_cells.merge(&other.partition_cells);
        self.reads.merge(&other.reads);
        self.scans.merge(&other.scans);
        self.writes.merge(&other.writes);
        self.sstables_per_read.merge(&other.sstables_per_read);
        self.live_rows.merge(&other.live_rows);
        self.tombstones.merge(&other.tombstones);
    }

    /// Stored bytes by plain bytes; `None` without a compressed sstable.
    pub fn compression_ratio(&self) -> Option<f64> {
        (self.plain_bytes > 0).then(|| self.stored_bytes as f64 / self.plain_bytes as f64)
    }

    /// Memory that is not memtables: filters, summaries, offsets.
    pub fn sstable_memory(&self) -> u64 {
        self.filter_bytes + self.summary_bytes + self.checksum_bytes
    }

    /// Share of all answers of filters that were mistakes, 0 to 1.
    pub fn filter_mistake_ratio(&self) -> f64 {
        let all = self.filter_mistakes + self.filter_hits + self.filter_negatives;
        if all == 0 { 0.0 } else { self.filter_mistakes as f64 / all as f64 }
    }

    /// Percent of the data that a repair has seen; all of nothing.
    pub fn percent_repaired(&self) -> f64 {
        let all = self.repaired_bytes + self.unrepaired_bytes;
        if all == 0 { 100.0 } else { self.repaired_bytes as f64 * 100.0 / all as f64 }
    }

    /// Tombstones that compactions could drop by cells of all sstables.
    pub fn droppable_ratio(&self) -> f64 {
        let cells = self.partition_cells.mean().unwrap_or(0.0) * self.partition_cells.count() as f64;
        if cells > 0.0 { self.droppable_tombstones as f64 / cells } else { 0.0 }
    }
}

impl Store {
    /// Every table of this shard, in the order of their ids. Reads the key estimates of tables with several sstables from
    /// disk; where that fails, keys that several sstables hold count several times.
    pub async fn table_stats(&self) -> Vec<TableStats> {
        let mut all = Vec::new();
        for table in self.all_tables() {
            let version = table.version();
            let keys = distinct_keys(&version).await;
            all.push(self.stats_of(&table, &version, keys));
            runtime::yield_if_needed().await;
        }
        all
    }

    /// What the row cache of this shard holds and does.
    pub fn cache_stats(&self) -> CacheStats {
        self.cache.stats()
    }

    fn stats_of(&self, table: &TableStore, version: &TableVersion, keys: u64) -> TableStats {
        let definition = table.definition();
        let (metrics, met) = (&table.metrics, table.metrics.met_by_reads());
        let class = definition.options.compaction.get("class").map_or("", String::as_str);
        let memtables = || version.memtables();
        let mut stats = TableStats {
            strategy: class.rsplit('.').next().unwrap_or(class).to_string(),
            sstables: version.sstables.len() as u64,
            partitions: keys + memtables().map(|memtable| memtable.partitions()).sum::<u64>(),
            memtable_cells: memtables().map(|memtable| memtable.cells(CELLS_COUNTED_ROWS_MAX)).sum(),
            memtable_bytes: table.memtable_bytes() as u64,
            memtable_switches: metrics.memtable_switches.get(),
            pending_flushes: version.frozen.len() as u64,
            pending_compactions: self.pending_compactions(table).compactions as u64,
            filter_mistakes: metrics.filter_mistakes.get(),
            filter_hits: metrics.filter_hits.get(),
            filter_negatives: metrics.filter_negatives.get(),
            skipped_sstables: metrics.skipped_sstables.get(),
            reads: metrics.reads.snapshot(),
            scans: metrics.scans.snapshot(),
            writes: metrics.writes.snapshot(),
            sstables_per_read: met.sstables,
            live_rows: met.live_rows,
            tombstones: met.tombstones,
            ..TableStats::empty(&definition.keyspace, &definition.name, table.id)
        };
        add_sstables(&mut stats, version, definition.options.gc_grace_seconds);
        if class.ends_with("LeveledCompactionStrategy") {
            stats.levels = levels(version);
        }
        let doomed = self.doomed.borrow();
        let waiting = doomed.iter().filter(|(of, _)| std::ptr::eq(&**of, table));
        stats.total_bytes += waiting.map(|(_, sstable)| sstable.entry.meta.disk_bytes).sum::<u64>();
        stats
    }

    /// Series of the tables that are used, at most so many.
    pub(crate) fn collect_samples(&self, samples: &mut Vec<Sample>) {
        let mut shown = 0;
        for table in self.all_tables() {
            let (reads, writes) = (table.metrics.reads.snapshot(), table.metrics.writes.snapshot());
            if reads.count + writes.count == 0 || shown >= SHOWN_TABLES_MAX {
                continue;
            }
            shown += 1;
            let definition = table.definition();
            let labels = vec![
                ("keyspace".to_string(), definition.keyspace.to_string()),
                ("table".to_string(), definition.name.to_string()),
            ];
            let version = table.version();
            let live: u64 = version.sstables.iter().map(|sstable| sstable.entry.meta.disk_bytes).sum();
            let mut put = |name: &str, help: &str, value| {
                let (name, help, labels) = (name.to_string(), help.to_string(), labels.clone());
                samples.push(Sample { name, help, labels, value });
            };
            let summary = SampleValue::Summary;
            put("messina_table_read_latency_us", "Reads of partitions on this shard.", summary(reads));
            put("messina_table_write_latency_us", "Mutations applied on this shard.", summary(writes));
            put(
                "messina_table_live_bytes",
                "Bytes of sstables that are read.",
                SampleValue::Gauge(live as f64),
            );
            let sstables = SampleValue::Gauge(version.sstables.len() as f64);
            put("messina_table_sstables", "Sstables that are read.", sstables);
        }
    }

    /// Bytes of all sstables that are read on this shard.
    pub fn live_bytes(&self) -> u64 {
        let sizes = |version: &TableVersion, _: &schema::Table| -> u64 {
            version.sstables.iter().map(|sstable| sstable.entry.meta.disk_bytes).sum()
        };
        self.tables.borrow().values().map(|table| table.with_version(sizes)).sum()
    }

    /// Lets what tables counted fade. Call every [`base::histogram::TICK`].
    async fn tick(&self) {
        for table in self.all_tables() {
            table.metrics.tick();
            runtime::yield_if_needed().await;
        }
    }
}

/// Levels that Cassandra's screens show.
const LEVELS_SHOWN: usize = 9;

fn levels(version: &TableVersion) -> Vec<(u64, u64)> {
    let mut levels = vec![(0, 0); LEVELS_SHOWN];
    for sstable in &version.sstables {
        let level = &mut levels[(sstable.level.get() as usize).min(LEVELS_SHOWN - 1)];
        *level = (level.0 + 1, level.1 + sstable.entry.meta.disk_bytes);
    }
    levels
}

fn add_sstables(stats: &mut TableStats, version: &TableVersion, grace_s: i32) {
    let now_s = runtime::unix_seconds();
    let droppable_before = now_s.saturating_sub(u32::try_from(grace_s).unwrap_or(0));
    for sstable in &version.sstables {
        let (meta, footprint) = (&sstable.entry.meta, sstable.reader.footprint());
        stats.largest_sstable = stats.largest_sstable.max(meta.disk_bytes);
        // Without a timestamp the newest is older than the oldest.
        let micros = u64::try_from(meta.max_timestamp.saturating_sub(meta.min_timestamp)).unwrap_or(0);
        stats.longest_sstable_micros = stats.longest_sstable_micros.max(micros);
        stats.live_bytes += meta.disk_bytes;
        stats.total_bytes += meta.disk_bytes;
        if footprint.compressed {
            stats.stored_bytes += footprint.stored_bytes;
            stats.plain_bytes += meta.data_bytes;
        }
        if meta.repaired_at > 0 {
            stats.repaired_bytes += meta.data_bytes;
        } else {
            stats.unrepaired_bytes += meta.data_bytes;
        }
        stats.filter_bytes += footprint.filter_bytes;
        stats.summary_bytes += footprint.summary_bytes;
        stats.checksum_bytes += footprint.checksum_bytes;
        stats.partition_sizes.merge(&footprint.partition_sizes);
        stats.partition_cells.merge(&footprint.partition_cells);
        stats.droppable_tombstones += sstable.reader.tombstones().count_before(droppable_before);
    }
}

/// Distinct keys of the sstables of a version, about.
async fn distinct_keys(version: &TableVersion) -> u64 {
    let counted = || version.sstables.iter().map(|sstable| sstable.entry.meta.partitions).sum::<u64>();
    if version.sstables.len() < 2 {
        return counted();
    }
    let mut all: Option<Cardinality> = None;
    for sstable in &version.sstables {
        match (sstable.reader.cardinality().await, &mut all) {
            (Ok(Some(keys)), None) => all = Some(keys),
            (Ok(Some(keys)), Some(all)) => all.merge(&keys),
            (Ok(None) | Err(_), _) => return counted(),
        }
    }
    all.map_or(0, |all| all.estimate())
}

/// Ticks between two looks at snapshots that go by themselves: a minute.
const EXPIRY_TICKS: u32 = 12;

async fn expire(store: &Store, snapshots: &Snapshots) {
    let _turn = snapshots.turn().lock().await;
    match snapshot::expire_snapshots(&store.settings.data_dir).await {
        Ok(waiting) => snapshots.expire.set(waiting),
        Err(error) => runtime::warn!("cannot remove expired snapshots: {error}"),
    }
}

/// Keeps the time of a shard's histograms until its store stops.
/// Shard 0 also removes snapshots whose time has come.
pub(crate) async fn run_clock(store: Rc<Store>) {
    let mut due = runtime::now();
    let mut ticks = 0u32;
    while !store.stopping.get() {
        due += base::histogram::TICK;
        // Elapsed is what it waits for; a stop wakes it early.
        let _ = runtime::timeout_at(due, store.clock_stopped.wait()).await;
        if !store.stopping.get() {
            store.tick().await;
            runtime::metrics::tick();
            runtime::pages::give_back();
            ticks = ticks.wrapping_add(1);
            if let Some(snapshots) = runtime::try_local::<Snapshots>()
                && ticks.is_multiple_of(EXPIRY_TICKS)
                && snapshots.expire.get()
            {
                expire(&store, &snapshots).await;
            }
        }
    }
}
