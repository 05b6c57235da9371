//! A store on real files, its tables, and requests as the floors above make them.

use base::Token;
use mutation::{
    Cell, Deletion, Key, Liveness, Mutation, MutationBuilder, ReadAnswer, ReadCommand, RowWriter, Scope,
};
use schema::{Keyspace, Order, Replication, Schema, Table, TableBuilder, TableId, TableOptions};
use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use storage::{CommitlogSync, CompactionRoom, Durability, Settings, Store, TombstoneLimits, prepare};
use types::CqlType;

/// Settings for the benches: a log in periodic mode, no background compaction unless a case turns it on.
pub fn settings(folder: &Path, format: sstable::Format) -> Settings {
    Settings {
        data_dir: folder.join("data"),
        commitlog_dir: folder.join("commitlog"),
        sync: CommitlogSync::Periodic { period_ms: 10_000 },
        sync_lag: None,
        segment_bytes: 32 << 20,
        commitlog_bytes: 8 << 30,
        memtable_bytes: 2 << 30,
        block_cache_bytes: 256 << 20,
        buffered_reads: false,
        ignore_replay_errors: false,
        auto_compaction: false,
        row_cache_bytes: 2 << 30,
        lend_memtable_bytes: false,
        compaction_throughput: 0,
        concurrent_compactors: None,
        tombstones: TombstoneLimits::NONE,
        compaction_room: CompactionRoom::ANY,
        auto_snapshot: false,
        auto_snapshot_ttl_ms: None,
        incremental_backups: false,
        disk_failure: storage::DiskFailurePolicy::Stop,
        commit_failure: storage::CommitFailurePolicy::Stop,
        mutation_bytes_max: None,
        sstable_format: format,
        flush_compression: sstable::CompressionChoice::Table,
        describe: |table| table.name.to_string(),
        host_id: 1,
    }
}

/// `CREATE TABLE bench.kv (k blob PRIMARY KEY, v blob)`.
pub fn kv() -> Arc<Table> {
    let table = TableBuilder::new("bench", "kv", TableId(1))
        .partition_key("k", CqlType::Blob)
        .regular("v", CqlType::Blob);
    Arc::new(table.build().expect("a valid table"))
}

/// The same with options of compaction.
pub fn kv_compacted_by(options: &[(&str, &str)]) -> Arc<Table> {
    let compaction = options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let table = kv().to_builder().options(TableOptions { compaction, ..TableOptions::cassandra() });
    Arc::new(table.build().expect("a valid table"))
}

/// `CREATE TABLE bench.wide (k blob, c bigint, v blob, PRIMARY KEY (k, c))`.
pub fn wide() -> Arc<Table> {
    let table = TableBuilder::new("bench", "wide", TableId(2))
        .partition_key("k", CqlType::Blob)
        .clustering("c", CqlType::Bigint, Order::Ascending)
        .regular("v", CqlType::Blob);
    Arc::new(table.build().expect("a valid table"))
}

/// A table of a key and columns of one type, ordinals from 0.
pub fn columns(count: usize, ty: &CqlType) -> Arc<Table> {
    let table = TableBuilder::new("bench", "columns", TableId(3)).partition_key("k", CqlType::Blob);
    let table = (0..count).fold(table, |table, column| table.regular(&format!("v{column:03}"), ty.clone()));
    Arc::new(table.build().expect("a valid table"))
}

/// `UPDATE` of a table without clustering columns: the closure writes the cells.
pub fn update(table: &Table, key: &[u8], write: impl FnOnce(&mut RowWriter<'_>)) -> Mutation {
    let mut builder = MutationBuilder::new(table.id, Token::of_key(key), key);
    builder.write_row(&[], Liveness::NONE, Deletion::LIVE, write);
    builder.finish()
}

/// A key of 16 bytes; keys of neighbouring numbers are not neighbours.
pub fn key(number: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    key[8..].copy_from_slice(&number.to_be_bytes());
    key
}

/// An error as a case reports it.
pub fn told(error: impl ToString) -> String {
    error.to_string()
}

/// A schema of these tables.
pub fn schema_of(tables: &[Arc<Table>]) -> Schema {
    let mut keyspace = Keyspace::new("bench", Replication::Simple { factor: 1 });
    for table in tables {
        keyspace.tables.insert(table.name.clone(), table.clone());
    }
    Schema::new(1, BTreeMap::from([(keyspace.name.clone(), Arc::new(keyspace))]))
}

/// Opens a store with these tables in the folder; what is there from an earlier opening is found again.
pub async fn open(settings: Settings, tables: &[Arc<Table>]) -> Result<Rc<Store>, String> {
    let failed = |error: storage::Error| error.to_string();
    let plan = prepare(&settings, 1).await.map_err(failed)?;
    Store::open(settings, plan, &schema_of(tables)).await.map_err(failed)
}

/// `INSERT INTO kv`: `timestamp` in microseconds.
pub fn insert(table: &Table, key: &[u8], timestamp: i64, value: &[u8]) -> Mutation {
    let mut builder = MutationBuilder::new(table.id, Token::of_key(key), key);
    builder.write_row(&[], Liveness::at(timestamp), Deletion::LIVE, |row| {
        row.simple(0, Cell::live(timestamp, value));
    });
    builder.finish()
}

/// `INSERT INTO wide`.
pub fn insert_row(table: &Table, key: &[u8], clustering: i64, timestamp: i64, value: &[u8]) -> Mutation {
    let mut builder = MutationBuilder::new(table.id, Token::of_key(key), key);
    builder.write_row(&self::clustering(clustering), Liveness::at(timestamp), Deletion::LIVE, |row| {
        row.simple(0, Cell::live(timestamp, value));
    });
    builder.finish()
}

/// The bytes of a clustering of `wide`.
pub fn clustering(c: i64) -> Vec<u8> {
    let mut wire = Vec::with_capacity(12);
    schema::push_component(&mut wire, Some(&c.to_be_bytes()));
    wire
}

/// `SELECT * FROM table WHERE k = ?`: change what a case asks differently.
pub fn select(table: &Table, key: &[u8]) -> ReadCommand {
    let key = Key::with_token(Token::of_key(key), key);
    ReadCommand { row_limit: 5_000, ..scan(table, Scope::Keys(vec![key].into())) }
}

/// `SELECT * FROM table`, without limits.
pub fn scan(table: &Table, scope: Scope) -> ReadCommand {
    ReadCommand::everything(table.id, scope, 1_700_000_000)
}

/// Applies one mutation the way a request does: in this step if nothing has to be waited for.
pub async fn apply(store: &Store, mutation: Mutation) -> Result<(), String> {
    let mutations = [mutation];
    match store.apply_now(&mutations, Durability::Mode) {
        Some((applied, _)) => applied.map_err(|error| error.to_string()),
        None => store.apply(mutations.into(), Durability::Mode).await.map_err(|error| error.to_string()),
    }
}

/// Reads the way a request does; whether it was answered in one step, and what it found.
pub async fn read(store: &Store, command: &ReadCommand) -> Result<(bool, ReadAnswer), String> {
    match store.read_now(command) {
        Some((answer, _)) => Ok((true, answer)),
        None => store.read(command).await.map(|answer| (false, answer)).map_err(|error| error.to_string()),
    }
}
