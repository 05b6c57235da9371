//! What an operator asks of one shard's tables. The whole node is asked by the floors above.

use crate::Error;
use crate::compaction::{CompactionProgress, CompactionRecord, CompactionTotals};
use crate::store::Store;
use base::Token;
use schema::TableId;
use sstable::Component;
use std::path::{Path, PathBuf};

impl Store {
    /// Flushes what a table has in memory now, or all tables of a shard when none is named.
    /// Errors: the first; every table was tried.
    pub async fn flush(&self, table: Option<TableId>) -> Result<(), Error> {
        let tables = match table {
            Some(id) => vec![self.table(id)?],
            None => self.all_tables(),
        };
        let mut outcome = Ok(());
        for table in tables {
            outcome = outcome.and(self.flush_table(&table).await);
        }
        outcome
    }

    /// Refuses writes from now on and flushes everything. Reads go on; only a restart ends it.
    /// Errors: the first table that could not be flushed; writes are refused all the same.
    pub async fn quiesce(&self) -> Result<(), Error> {
        self.drained.set(true);
        self.flush(None).await
    }

    /// Turns background compactions of a table on or off until the next start.
    pub fn set_auto_compaction(&self, id: TableId, on: bool) -> Result<(), Error> {
        self.table(id)?.auto_compaction.set(on);
        self.compaction_wanted.notify();
        Ok(())
    }

    /// Whether a table is compacted in the background, as far as an operator decides.
    pub fn auto_compaction(&self, id: TableId) -> Result<bool, Error> {
        Ok(self.table(id)?.auto_compaction.get())
    }

    /// From now on compactions of all shards together read at most so many stored bytes per second; 0: as many as they can.
    pub fn set_compaction_throughput(&self, bytes_per_s: u64) {
        let own = if bytes_per_s == 0 { 0 } else { (bytes_per_s / u64::from(runtime::shard_count())).max(1) };
        self.compactions.set_rate(own, bytes_per_s);
    }

    /// The rate of all shards together that was set last; 0: none.
    pub fn compaction_throughput(&self) -> u64 {
        self.compactions.rate_of_node()
    }

    /// Makes the next read of a table a cold one, as far as its rows are concerned.
    pub fn forget_cached(&self, id: TableId) -> Result<(), Error> {
        self.table(id)?.forget_cached();
        Ok(())
    }

    /// Compactions that run.
    pub fn compactions(&self) -> Vec<CompactionProgress> {
        self.compactions.running()
    }

    /// Compactions that have run since the start, the last so many, oldest first.
    pub fn compaction_history(&self) -> Vec<CompactionRecord> {
        self.compactions.history()
    }

    /// What compactions have done since the start.
    pub fn compaction_totals(&self) -> CompactionTotals {
        self.compactions.totals()
    }

    /// Sstables of a table on this shard.
    pub fn sstables(&self, id: TableId) -> Result<usize, Error> {
        Ok(self.table(id)?.version().sstables.len())
    }

    /// Data files of the sstables that may hold a key.
    pub fn sstables_of_key(&self, id: TableId, key: &[u8]) -> Result<Vec<PathBuf>, Error> {
        let table = self.table(id)?;
        let (token, h2) = (Token::of_key(key), base::murmur3(key).1);
        let version = table.version();
        let holders = version
            .sstables
            .iter()
            .filter(|sstable| sstable.covers(token) && sstable.reader.may_contain(token, h2));
        Ok(holders.map(|sstable| sstable.reader.path(Component::Data)).collect())
    }

    /// The data files of this shard's sstables of a table.
    pub fn sstable_files(&self, id: TableId) -> Result<Vec<PathBuf>, Error> {
        let version = self.table(id)?.version();
        Ok(version.sstables.iter().map(|sstable| sstable.reader.path(Component::Data)).collect())
    }

    /// The folder of all tables.
    pub fn data_dir(&self) -> &Path {
        &self.settings.data_dir
    }

    /// Whether tables are snapshot before they are dropped or truncated, unless one says otherwise.
    pub fn auto_snapshot(&self) -> bool {
        self.settings.auto_snapshot
    }

    /// Milliseconds until such a snapshot goes by itself; `None`: it stays.
    pub fn auto_snapshot_ttl_ms(&self) -> Option<i64> {
        self.settings.auto_snapshot_ttl_ms
    }

    /// Whether sstables that flushes make are linked into `backups`, unless their table says otherwise.
    pub fn incremental_backups(&self) -> bool {
        self.backs_up.get()
    }

    /// Has them linked or not from now on.
    pub fn set_incremental_backups(&self, on: bool) {
        self.backs_up.set(on);
    }

    /// Whether a table is, for its own part (`allow_auto_snapshot`).
    pub fn allows_auto_snapshot(&self, id: TableId) -> Result<bool, Error> {
        Ok(self.table(id)?.definition().options.allow_auto_snapshot)
    }

    /// The statements that make a table again.
    pub fn describe(&self, id: TableId) -> Result<String, Error> {
        Ok((self.settings.describe)(&self.table(id)?.definition()))
    }

    /// Keyspace and identity of every table here that has rows or deletions of rows, in memory or in an sstable.
    pub fn tables_with_data(&self) -> Vec<(String, TableId)> {
        let holds = |version: &crate::table::TableVersion| {
            !version.sstables.is_empty() || version.memtables().any(|memtable| memtable.partitions() > 0)
        };
        let named = |table: std::rc::Rc<crate::table::TableStore>| {
            let keyspace = || table.definition().keyspace.to_string();
            holds(&table.version()).then(|| (keyspace(), table.id))
        };
        self.all_tables().into_iter().filter_map(named).collect()
    }

    /// Name, keyspace and identity of every table here.
    pub fn table_names(&self) -> Vec<(String, String, TableId)> {
        let name = |table: std::rc::Rc<crate::table::TableStore>| {
            let definition = table.definition();
            (definition.keyspace.to_string(), definition.name.to_string(), table.id)
        };
        self.all_tables().into_iter().map(name).collect()
    }
}
