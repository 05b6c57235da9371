//! Stores on real files, over restarts with other shard counts.

#![allow(
    clippy::disallowed_methods,
    reason = "the test makes and removes its folders outside of the runtime"
)]

use base::Token;
use mutation::{Cell, Deletion, Key, Liveness, Mutation, MutationBuilder, ReadCommand, Scope, TokenRange};
use runtime::{Config, Group, ShardId};
use schema::{Keyspace, Order, Replication, Schema, Table, TableBuilder, TableId};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use storage::{
    CommitlogSync, CompactionRoom, Durability, Settings, StartPlan, Store, TombstoneLimits, prepare,
};
use types::CqlType;

const KEYS: u32 = 2000;

fn table() -> Table {
    TableBuilder::new("ks", "t", TableId(1))
        .partition_key("k", CqlType::Int)
        .clustering("c", CqlType::Int, Order::Ascending)
        .regular("v", CqlType::Blob)
        .build()
        .expect("a valid table")
}

fn schema() -> Schema {
    let mut keyspace = Keyspace::new("ks", Replication::Simple { factor: 1 });
    keyspace.tables.insert("t".into(), Arc::new(table()));
    Schema::new(1, BTreeMap::from([(keyspace.name.clone(), Arc::new(keyspace))]))
}

fn settings(folder: &Path, sync: CommitlogSync) -> Settings {
    Settings {
        data_dir: folder.join("data"),
        commitlog_dir: folder.join("commitlog"),
        sync,
        sync_lag: None,
        segment_bytes: 1 << 20,
        commitlog_bytes: 4 << 20,
        memtable_bytes: 1 << 20,
        block_cache_bytes: 1 << 20,
        buffered_reads: false,
        ignore_replay_errors: false,
        auto_compaction: true,
        compaction_throughput: 0,
        concurrent_compactors: None,
        host_id: 1,
        row_cache_bytes: 4 << 20,
        lend_memtable_bytes: false,
        tombstones: TombstoneLimits::CASSANDRA,
        compaction_room: CompactionRoom::ANY,
        auto_snapshot: false,
        auto_snapshot_ttl_ms: None,
        incremental_backups: false,
        disk_failure: storage::DiskFailurePolicy::Stop,
        commit_failure: storage::CommitFailurePolicy::Stop,
        mutation_bytes_max: None,
        sstable_format: sstable::Format::Bti,
        flush_compression: sstable::CompressionChoice::Fast,
        describe: |table| table.name.to_string(),
    }
}

fn insert(key: u32, round: i64) -> Mutation {
    let bytes = key.to_be_bytes();
    let mut builder = MutationBuilder::new(TableId(1), Token::of_key(&bytes), &bytes);
    let mut clustering = Vec::new();
    schema::push_component(&mut clustering, Some(&7i32.to_be_bytes()));
    builder.write_row(&clustering, Liveness::at(round), Deletion::LIVE, |row| {
        row.simple(0, Cell::live(round, &[round as u8; 200]));
    });
    builder.finish()
}

/// Opens the stores of a node, writes one round, reads everything back; ends in order or, with `abandon`, just ends.
fn live(folder: &Path, sync: CommitlogSync, shards: u16, round: i64, abandon: bool) {
    let plan: Arc<Mutex<Option<Arc<StartPlan>>>> = Arc::default();
    let read = Arc::new(AtomicU32::new(0));
    let settings = settings(folder, sync);
    let (shared, counted) = (plan.clone(), read.clone());
    let main: runtime::Main = Arc::new(move || {
        let (plan, settings, read) = (shared.clone(), settings.clone(), counted.clone());
        Box::pin(async move {
            if runtime::shard() == ShardId(0) {
                let prepared = prepare(&settings, runtime::shard_count()).await.expect("the folder is ours");
                *plan.lock().expect("not poisoned") = Some(prepared);
            }
            let plan = loop {
                if let Some(plan) = plan.lock().expect("not poisoned").clone() {
                    break plan;
                }
                runtime::sleep(Duration::from_millis(1)).await;
            };
            let store = Store::open(settings, plan, &schema()).await.expect("opens");
            serve(&store, round).await;
            let command = everything();
            let answer = store.read(&command).await.expect("readable");
            for mutation in &answer.partitions {
                let (_, body) = mutation.view().rows().next().expect("a row");
                assert_eq!(mutation::RowView::new(body).liveness().timestamp, round);
            }
            read.fetch_add(answer.live_rows, Ordering::SeqCst);
            if !abandon {
                store.drain().await.expect("drains");
            }
            0
        })
    });
    let config = Config { overprovisioned: true, pin: false, seed: Some(1), ..Config::new(shards) };
    assert_eq!(runtime::run(config, main), 0);
    assert_eq!(read.load(Ordering::SeqCst), KEYS, "round {round} on {shards} shards");
}

/// Every shard writes the keys it owns.
async fn serve(store: &Rc<Store>, round: i64) {
    let mut tasks = Vec::new();
    for key in 0..KEYS {
        let token = Token::of_key(&key.to_be_bytes());
        if base::shard_of(token, runtime::shard_count()) != runtime::shard().0 {
            continue;
        }
        let store = store.clone();
        let mutation = insert(key, round);
        tasks.push(runtime::spawn(Group::QUERY, async move {
            store.apply(vec![mutation], Durability::Mode).await.expect("accepted");
            let keys = vec![Key::new(&key.to_be_bytes())];
            let answer = store.read(&ReadCommand { scope: Scope::Keys(keys.into()), ..everything() }).await;
            assert_eq!(answer.expect("readable").live_rows, 1);
        }));
    }
    for task in tasks {
        task.await;
    }
}

fn everything() -> ReadCommand {
    ReadCommand::everything(TableId(1), Scope::Range(TokenRange::ALL), 1_700_000_000)
}

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("messina-storage-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn real_files_survive_restarts_with_other_shard_counts() {
    for (name, sync) in
        [("periodic", CommitlogSync::Periodic { period_ms: 50 }), ("batch", CommitlogSync::Batch)]
    {
        let folder = Folder::new(name);
        for (round, (shards, abandon)) in
            [(1, false), (3, true), (2, true), (5, false), (1, true)].into_iter().enumerate()
        {
            live(&folder.0, sync, shards, round as i64 + 1, abandon);
        }
    }
}
