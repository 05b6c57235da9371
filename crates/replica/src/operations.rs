//! What an operator asks of the whole node: every shard does its part.

use crate::counting::CounterReads;
use crate::local::Local;
use crate::shard::Shard;
use base::{HashMap, HashSet, Token};
use runtime::{Group, ShardId};
use schema::TableId;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use storage::snapshot::{self, Snapshot, SnapshotOptions, Snapshots};
use storage::{
    CacheStats, CompactionKind, CompactionProgress, CompactionRecord, CompactionTotals, Error, Granularity,
    ImportOptions, ImportReport, MajorCompaction, Scrubbed, Store, TableStats,
};

/// What every shard says, in the order of the shards. They work at the same time.
async fn on_every<T, F, Fut>(work: F) -> Vec<T>
where
    T: Send + 'static,
    F: Fn(Rc<Store>) -> Fut + Clone + Send + 'static,
    Fut: Future<Output = T> + 'static,
{
    let ask = move || {
        let work = work.clone();
        async move { work(runtime::local::<Shard>().store().clone()).await }
    };
    runtime::on_every_shard(Group::ADMIN, ask).await
}

/// The first failure; every shard has done what it could.
fn all(outcomes: Vec<Result<(), Error>>) -> Result<(), Error> {
    outcomes.into_iter().collect()
}

impl Local {
    /// Every table of the node, all shards together, in the order of their ids.
    pub async fn table_stats(&self) -> Vec<TableStats> {
        let mut whole: Vec<TableStats> = Vec::new();
        let mut places: HashMap<TableId, usize> = HashMap::default();
        let shards = on_every(|store| async move { store.table_stats().await }).await;
        for stats in shards.into_iter().flatten() {
            match places.get(&stats.id) {
                Some(place) => whole[*place].merge(&stats),
                None => {
                    places.insert(stats.id, whole.len());
                    whole.push(stats);
                }
            }
        }
        whole
    }

    /// Tables of the keyspaces that `is_counted` names that have rows, or deletions of rows, on some shard.
    pub async fn count_with_data(&self, is_counted: impl Fn(&str) -> bool) -> u64 {
        let shards = on_every(|store| async move { store.tables_with_data() }).await;
        let counted = shards.into_iter().flatten().filter(|(keyspace, _)| is_counted(keyspace));
        counted.map(|(_, id)| id).collect::<HashSet<TableId>>().len() as u64
    }

    /// Bytes of all sstables.
    pub async fn live_bytes(&self) -> u64 {
        on_every(|store| async move { store.live_bytes() }).await.into_iter().sum()
    }

    /// Keyspace, name and identity of every table, in the order of their ids.
    pub fn table_names(&self) -> Vec<(String, String, TableId)> {
        self.here().store().table_names()
    }

    /// Flushes these tables. Errors: the first; all were tried, but for tables that are gone.
    pub async fn flush(&self, tables: &[TableId]) -> Result<(), Error> {
        let tables = tables.to_vec();
        all(on_every(move |store| {
            let tables = tables.clone();
            async move {
                let mut outcome = Ok(());
                for table in tables {
                    outcome = outcome.and(unless_gone(store.flush(Some(table)).await));
                }
                outcome
            }
        })
        .await)
    }

    /// Does something to each of these tables on every shard, as compactions do. Errors: the first; all were tried, but for
    /// tables that are gone.
    async fn each_compacting<F, Fut>(&self, tables: &[TableId], work: F) -> Result<(), Error>
    where
        F: Fn(Rc<Store>, TableId) -> Fut + Clone + Send + 'static,
        Fut: Future<Output = Result<(), Error>> + 'static,
    {
        let tables = tables.to_vec();
        all(on_every(move |store| {
            let (tables, work) = (tables.clone(), work.clone());
            async move {
                let mut outcome = Ok(());
                for table in tables {
                    let done = runtime::spawn(Group::COMPACTION, work(store.clone(), table)).await;
                    outcome = outcome.and(unless_gone(done));
                }
                outcome
            }
        })
        .await)
    }

    /// Merges the sstables of each of these tables. Errors: the first; all were tried, but for tables that are gone.
    pub async fn compact(&self, tables: &[TableId], how: MajorCompaction) -> Result<(), Error> {
        let work = move |store: Rc<Store>, table| {
            let how = how.clone();
            async move { store.compact_as(table, &how).await }
        };
        self.each_compacting(tables, work).await
    }

    /// Merges the sstables that are named by their data files, those of each table and shard; returns how many there were.
    pub async fn compact_files(&self, files: Vec<String>) -> Result<usize, Error> {
        let shards = on_every(move |store| {
            let files = files.clone();
            async move {
                let work = async move { store.compact_files(&files).await };
                runtime::spawn(Group::COMPACTION, work).await
            }
        });
        let mut found = 0;
        for count in shards.await {
            found += count?;
        }
        Ok(found)
    }

    /// Lets go of what of these tables this node does not own: `owned` are the tokens it does, from the first to the last
    /// of each range.
    pub async fn cleanup(&self, tables: &[TableId], owned: Vec<(Token, Token)>) -> Result<(), Error> {
        let work = move |store: Rc<Store>, table| {
            let owned = owned.clone();
            async move { store.cleanup(table, &owned).await }
        };
        self.each_compacting(tables, work).await
    }

    /// Writes all sstables of a table anew without what cannot be read.
    pub async fn scrub(&self, table: TableId) -> Result<Scrubbed, Error> {
        let shards = on_every(move |store| async move {
            runtime::spawn(Group::COMPACTION, async move { store.scrub(table).await }).await
        });
        let mut whole = Scrubbed::default();
        for scrubbed in shards.await {
            let scrubbed = scrubbed?;
            whole.sstables += scrubbed.sstables;
            whole.lost_partitions += scrubbed.lost_partitions;
            whole.lost.extend(scrubbed.lost);
        }
        Ok(whole)
    }

    /// Writes all sstables of these tables anew without what newer ones delete.
    pub async fn garbage_collect(&self, tables: &[TableId], granularity: Granularity) -> Result<(), Error> {
        let work =
            move |store: Rc<Store>, table| async move { store.garbage_collect(table, granularity).await };
        self.each_compacting(tables, work).await
    }

    /// Writes sstables of these tables anew that are of an earlier version of the format, or all.
    pub async fn upgrade(&self, tables: &[TableId], every: bool) -> Result<(), Error> {
        let work = move |store: Rc<Store>, table| async move { store.upgrade(table, every).await };
        self.each_compacting(tables, work).await
    }

    /// Ends compactions that run, by what they are for and which they are; `None`: any. Returns how many.
    pub async fn stop_compactions(&self, kind: Option<CompactionKind>, id: Option<u128>) -> usize {
        on_every(move |store| async move { store.stop_compactions(kind, id) }).await.into_iter().sum()
    }

    /// From now on compactions of the node read at most so many stored bytes per second; 0: as many as they can.
    pub async fn set_compaction_throughput(&self, bytes_per_s: u64) {
        on_every(move |store| async move { store.set_compaction_throughput(bytes_per_s) }).await;
    }

    /// The rate set last.
    pub fn compaction_throughput(&self) -> u64 {
        self.here().store().compaction_throughput()
    }

    /// Compactions of the node that may run at once.
    pub fn concurrent_compactions(&self) -> usize {
        self.here().store().concurrent_compactions() * usize::from(runtime::shard_count())
    }

    /// Turns background compactions of these tables on or off until the next start.
    pub async fn set_auto_compaction(&self, tables: &[TableId], on: bool) -> Result<(), Error> {
        let tables = tables.to_vec();
        all(
            on_every(move |store| {
                let tables = tables.clone();
                async move {
                    tables.iter().try_for_each(|table| unless_gone(store.set_auto_compaction(*table, on)))
                }
            })
            .await,
        )
    }

    /// Whether a table is compacted in the background, as far as an operator decides.
    pub fn auto_compaction(&self, table: TableId) -> Result<bool, Error> {
        self.here().store().auto_compaction(table)
    }

    /// Compactions that run.
    pub async fn compactions(&self) -> Vec<CompactionProgress> {
        on_every(|store| async move { store.compactions() }).await.into_iter().flatten().collect()
    }

    /// Compactions that have run since the start, the last some hundred of each shard, newest first.
    pub async fn compaction_history(&self) -> Vec<CompactionRecord> {
        let shards = on_every(|store| async move { store.compaction_history() }).await;
        let mut records: Vec<_> = shards.into_iter().flatten().collect();
        records.sort_by_key(|record| std::cmp::Reverse((record.at_ms, record.id)));
        records
    }

    /// What compactions have done since the start.
    pub async fn compaction_totals(&self) -> CompactionTotals {
        let mut sum = CompactionTotals::default();
        for totals in on_every(|store| async move { store.compaction_totals() }).await {
            sum.completed += totals.completed;
            sum.failed += totals.failed;
            sum.stopped += totals.stopped;
            sum.bytes_in += totals.bytes_in;
        }
        sum
    }

    /// The row caches of all shards.
    pub async fn row_cache(&self) -> CacheStats {
        let mut sum = CacheStats::default();
        on_every(|store| async move { store.cache_stats() }).await.iter().for_each(|shard| sum.merge(shard));
        sum
    }

    /// How often leaders of all shards have looked for what they have counted.
    pub async fn counter_reads(&self) -> CounterReads {
        let of_shard = || async { runtime::local::<Shard>().counting().reads() };
        let mut sum = CounterReads::default();
        for shard in runtime::on_every_shard(Group::QUERY, of_shard).await {
            sum.requests += shard.requests;
            sum.hits += shard.hits;
        }
        sum
    }

    /// Data files of the sstables that may hold a key.
    pub async fn sstables_of_key(&self, table: TableId, key: Vec<u8>) -> Result<Vec<PathBuf>, Error> {
        let shards = on_every(move |store| {
            let key = key.clone();
            async move { store.sstables_of_key(table, &key) }
        })
        .await;
        let mut paths: Vec<PathBuf> = Vec::new();
        for found in shards {
            paths.extend(found?);
        }
        paths.dedup();
        Ok(paths)
    }

    /// Takes the sstables of a folder of this machine into a table, all of them or none.
    pub async fn import(
        &self,
        table: TableId,
        dir: &Path,
        options: ImportOptions,
    ) -> Result<ImportReport, Error> {
        self.here().store().import(table, dir, options).await
    }

    /// The folder of a table, which may not be there yet.
    pub fn table_dir(&self, table: TableId) -> Result<PathBuf, Error> {
        self.here().store().table_dir(table)
    }

    /// Refuses writes from now on and flushes everything. Errors: the first; every shard refuses writes.
    pub async fn quiesce(&self) -> Result<(), Error> {
        all(on_every(|store| async move { store.quiesce().await }).await)
    }

    /// Makes a snapshot of these tables, all of them or none.
    pub async fn snapshot(&self, options: SnapshotOptions, tables: Vec<TableId>) -> Result<(), Error> {
        let work = move || async move {
            let store = runtime::local::<Shard>().store().clone();
            let snapshots = runtime::local::<Snapshots>();
            let _turn = snapshots.turn().lock().await;
            snapshot_all(&store, &options, &tables).await
        };
        runtime::submit_to(ShardId(0), Group::ADMIN, work).await
    }

    /// Makes a snapshot of tables that are about to be dropped, if the operator wants that.
    pub async fn snapshot_before_drop(&self, tables: Vec<TableId>) -> Result<(), Error> {
        let work = move || async move {
            let store = runtime::local::<Shard>().store().clone();
            let snapshots = runtime::local::<Snapshots>();
            let _turn = snapshots.turn().lock().await;
            snapshots_before(&store, "dropped", &tables).await
        };
        runtime::submit_to(ShardId(0), Group::ADMIN, work).await
    }

    /// Whether sstables that flushes make are linked into `backups`.
    pub fn incremental_backups(&self) -> bool {
        self.here().store().incremental_backups()
    }

    /// Has them linked or not from now on, on every shard, until the next start.
    pub async fn set_incremental_backups(&self, on: bool) {
        on_every(move |store| async move { store.set_incremental_backups(on) }).await;
    }

    /// All snapshots of the node.
    pub async fn list_snapshots(&self) -> Result<Vec<Snapshot>, Error> {
        snapshot::list_snapshots(self.here().store().data_dir()).await
    }

    /// Removes the snapshots of a name, or all, of these keyspaces, or of all; returns how many.
    pub async fn clear_snapshots(&self, tag: Option<String>, keyspaces: Vec<String>) -> Result<usize, Error> {
        let work = move || async move {
            let store = runtime::local::<Shard>().store().clone();
            let snapshots = runtime::local::<Snapshots>();
            let _turn = snapshots.turn().lock().await;
            snapshot::clear_snapshots(store.data_dir(), tag.as_deref(), &keyspaces).await
        };
        runtime::submit_to(ShardId(0), Group::ADMIN, work).await
    }
}

/// A table that was dropped meanwhile needs nothing done.
fn unless_gone(outcome: Result<(), Error>) -> Result<(), Error> {
    match outcome {
        Err(Error::UnknownTable(_)) => Ok(()),
        outcome => outcome,
    }
}

async fn snapshot_one(store: &Store, options: &SnapshotOptions, table: TableId) -> Result<(), Error> {
    store.snapshot(table, &store.describe(table)?, options).await
}

/// Makes a snapshot of tables, if the operator wants one; named after what is about to happen, the time and the table, as in
/// Cassandra. Tables without data get none, nor those that allow none. On shard 0, with the turn of snapshots.
pub(crate) async fn snapshots_before(store: &Store, what: &str, tables: &[TableId]) -> Result<(), Error> {
    if !store.auto_snapshot() {
        return Ok(());
    }
    let now_ms = runtime::unix_micros() / 1000;
    let names = store.table_names();
    for (_, name, id) in names.into_iter().filter(|(_, _, id)| tables.contains(id)) {
        let wanted = store.allows_auto_snapshot(id).unwrap_or(false);
        if !wanted || !flushed_as_far_as_possible(id).await {
            continue;
        }
        let tag = format!("{what}-{now_ms}-{name}");
        let ttl_ms = store.auto_snapshot_ttl_ms();
        let options = SnapshotOptions { tag, skip_flush: true, ttl_ms };
        unless_gone(snapshot_one(store, &options, id).await)?;
    }
    Ok(())
}

async fn snapshot_all(store: &Store, options: &SnapshotOptions, tables: &[TableId]) -> Result<(), Error> {
    let mut made = Vec::new();
    for table in tables {
        let Ok(dir) = store.table_dir(*table) else { continue };
        match unless_gone(snapshot_one(store, options, *table).await) {
            Ok(()) => made.push(dir),
            Err(error) => {
                for dir in made {
                    if let Err(error) = snapshot::clear_snapshot(&dir, &options.tag).await {
                        runtime::warn!("cannot remove an incomplete snapshot: {error}");
                    }
                }
                return Err(error);
            }
        }
    }
    Ok(())
}

/// Flushes a table that is about to go, and says whether it has sstables now. What cannot be flushed is no reason to keep
/// it: only a snapshot of its sstables that cannot be made is one.
async fn flushed_as_far_as_possible(table: TableId) -> bool {
    let shards = on_every(move |store| async move {
        if let Err(error) = unless_gone(store.flush(Some(table)).await) {
            runtime::warn!("the snapshot of the dropped table {table} lacks its memtables: {error}");
        }
        store.sstables(table).unwrap_or(0)
    })
    .await;
    shards.into_iter().any(|sstables| sstables > 0)
}
