//! Reads of system tables: rows made from live state, read like stored ones.
//!
//! The state is gathered over all shards when a table is read, and only what that table shows. A shard gives copies of
//! counters it keeps anyway; requests wait for none of it.

use crate::engine::Engine;
use crate::error::Error;
use crate::info::ClientInfo;
use crate::limits;
use crate::system::contents::{self, Source};
use crate::system::live::Live;
use crate::system::partitions::{Partitions, partitions};
use crate::trace::{Trace, is_of};
use mutation::{Key, ReadCommand, Scope};
use runtime::Group;
use runtime::metrics::GroupUsage;
use schema::{Table, TableId};
use std::collections::BTreeMap;
use std::time::Duration;
use storage::snapshot::{Snapshot, list_snapshots};
use storage::{CompactionProgress, CompactionRecord, TableStats};

impl Engine {
    /// The content of a system table at this moment, as far as a command reads it, within a time where other nodes are asked.
    pub(crate) async fn generate(
        &self,
        table: &Table,
        command: Option<&ReadCommand>,
        timeout: Duration,
    ) -> Result<Partitions, Error> {
        let live = match &*table.keyspace {
            "system_traces" => {
                let traces = self.traces_for(command, timeout).await;
                Live { shards: runtime::shard_count(), traces, ..Live::default() }
            }
            _ => self.live(table).await?,
        };
        let schema = self.schema();
        let snapshot = self.coordinator.topology();
        let source = Source { node: self.info(), snapshot: &snapshot, schema: &schema, live: &live };
        partitions(table, &contents::rows(table, &source))
    }

    /// Gathers what `table` shows.
    async fn live(&self, table: &Table) -> Result<Live, Error> {
        let mut live = Live { shards: runtime::shard_count(), ..Live::default() };
        match (&*table.keyspace, &*table.name) {
            ("system", "prepared_statements") => live.prepared = self.prepared_statements(),
            ("system", "compaction_history") => live.history = history().await,
            ("system", "size_estimates" | "table_estimates") => live.tables = tables().await,
            ("system_auth", _) => live.roles = self.shared_roles(),
            ("system_views", "clients") => live.clients = Engine::clients_of_node().await,
            ("system_views", "sstable_tasks") => live.compactions = compactions().await,
            ("system_views", "snapshots") => live.snapshots = snapshots().await?,
            ("system_views", "caches") => {
                let shards = each(|_| store().map(|store| store.cache_stats()).into_iter().collect()).await;
                shards.iter().for_each(|shard| live.row_cache.merge(shard));
            }
            ("system_views", "thread_pools") => live.groups = groups().await,
            ("system_views", "cql_metrics" | "batch_metrics") => {
                let shards = each(|engine| vec![engine.statements()]).await;
                shards.iter().for_each(|shard| live.statements.merge(shard));
            }
            ("system_views", name) if shows_tables(name) => live.tables = tables().await,
            _ => {}
        }
        Ok(live)
    }

    /// The traces that a command names, whichever member has coordinated them; with a command that names none, those of this node.
    async fn traces_for(&self, command: Option<&ReadCommand>, timeout: Duration) -> Vec<Trace> {
        let ids = command.and_then(|command| match &command.scope {
            Scope::Keys(keys) => {
                let id = |key: &Key| <[u8; 16]>::try_from(&*key.bytes).ok().map(u128::from_be_bytes);
                Some(keys.iter().filter_map(id).collect::<Vec<u128>>())
            }
            Scope::Range(_) => None,
        });
        let mut found = Engine::traces_of_node(ids.clone()).await;
        let snapshot = self.coordinator.topology();
        let holder = |id: &u128| {
            let known = found.iter().any(|trace| trace.id == *id);
            let mut others = snapshot.others().map(|member| member.host_id);
            others.find(|host| !known && is_of(*id, *host)).map(|host| (host, *id))
        };
        let wanted: Vec<_> =
            ids.iter().flatten().filter_map(holder).take(limits::TRACES_FETCHED_MAX).collect();
        let asked: Vec<_> = wanted
            .into_iter()
            .map(|(host, id)| {
                let coordinator = self.coordinator.clone();
                let fetch = async move { coordinator.fetch_trace(host, id, timeout).await };
                runtime::spawn(Group::QUERY, fetch)
            })
            .collect();
        for asked in asked {
            found.extend(Trace::decode(&asked.await));
        }
        found
    }

    /// Traces that this node has coordinated: those of these ids, or all of them.
    async fn traces_of_node(ids: Option<Vec<u128>>) -> Vec<Trace> {
        let of_shard = move || {
            let ids = ids.clone();
            async move {
                let engine = runtime::try_local::<Engine>();
                engine.map(|engine| engine.traces.of(ids.as_deref())).unwrap_or_default()
            }
        };
        runtime::on_every_shard(Group::QUERY, of_shard).await.into_iter().flatten().collect()
    }

    /// A trace that this node has coordinated, for another member; nothing, if there is none of this id.
    pub(crate) async fn encoded_trace(id: u128) -> Vec<u8> {
        let found = Engine::traces_of_node(Some(vec![id])).await;
        found.first().map(Trace::encode).unwrap_or_default()
    }

    /// The connections of every shard, at most [`limits::CLIENTS_MAX`].
    pub async fn clients_of_node() -> Vec<ClientInfo> {
        let mut clients = each(Engine::clients).await;
        clients.truncate(limits::CLIENTS_MAX);
        clients
    }
}

/// Tables of `system_views` with one row for every stored table.
fn shows_tables(name: &str) -> bool {
    const NAMES: [&str; 9] = [
        "disk_usage",
        "local_read_latency",
        "local_scan_latency",
        "local_write_latency",
        "max_partition_size",
        "max_sstable_duration",
        "max_sstable_size",
        "rows_per_read",
        "tombstones_per_read",
    ];
    NAMES.contains(&name)
}

/// Asks the engine of every shard.
async fn each<T: Send + 'static>(ask: impl Fn(&Engine) -> Vec<T> + Copy + Send + 'static) -> Vec<T> {
    let of_shard =
        move || async move { runtime::try_local::<Engine>().map(|engine| ask(&engine)).unwrap_or_default() };
    runtime::on_every_shard(Group::QUERY, of_shard).await.into_iter().flatten().collect()
}

/// The store of the current shard.
fn store() -> Option<std::rc::Rc<storage::Store>> {
    runtime::try_local::<replica::Shard>().map(|shard| shard.store().clone())
}

async fn tables() -> Vec<TableStats> {
    let mut merged: BTreeMap<TableId, TableStats> = BTreeMap::new();
    let of_shard = || async {
        match store() {
            Some(store) => store.table_stats().await,
            None => Vec::new(),
        }
    };
    for of_shard in runtime::on_every_shard(Group::ADMIN, of_shard).await {
        for stats in of_shard {
            match merged.get_mut(&stats.id) {
                Some(known) => known.merge(&stats),
                None => drop(merged.insert(stats.id, stats)),
            }
        }
    }
    let mut tables: Vec<TableStats> = merged.into_values().collect();
    tables.sort_by(|left, right| (&left.keyspace, &left.table).cmp(&(&right.keyspace, &right.table)));
    tables
}

async fn compactions() -> Vec<CompactionProgress> {
    each(|_| store().map(|store| store.compactions()).unwrap_or_default()).await
}

async fn history() -> Vec<CompactionRecord> {
    each(|_| store().map(|store| store.compaction_history()).unwrap_or_default()).await
}

async fn groups() -> Vec<GroupUsage> {
    let mut merged: Vec<GroupUsage> = Vec::new();
    for usage in each(|_| runtime::metrics::groups()).await {
        match merged.iter_mut().find(|known| known.name == usage.name) {
            Some(known) => {
                known.queued += usage.queued;
                known.polls += usage.polls;
            }
            None => merged.push(usage),
        }
    }
    merged
}

async fn snapshots() -> Result<Vec<Snapshot>, Error> {
    let Some(store) = store() else { return Ok(Vec::new()) };
    let found = list_snapshots(store.data_dir()).await;
    found.map_err(|error| Error::Server(format!("snapshots cannot be listed: {error}")))
}
