//! Reads of system tables: rows made from live state, read like stored ones.

use crate::engine::Engine;
use crate::error::Error;
use crate::info::ClientInfo;
use crate::limits;
use crate::system::contents::{self, Source};
use crate::system::partitions::{Partitions, partitions};
use crate::trace::Trace;
use runtime::{Group, ShardId};
use schema::Table;

impl Engine {
    /// The content of a system table at this moment.
    pub(crate) async fn generate(&self, table: &Table) -> Result<Partitions, Error> {
        let clients = if contents::needs_clients(table) { clients_of_all_shards().await } else { Vec::new() };
        let prepared = if contents::needs_prepared(table) { self.prepared_statements() } else { Vec::new() };
        let traces = if contents::needs_traces(table) { traces_of_all_shards().await } else { Vec::new() };
        let schema = self.schema();
        let source = Source {
            node: self.info(),
            schema: &schema,
            clients: &clients,
            prepared: &prepared,
            traces: &traces,
        };
        partitions(table, &contents::rows(table, &source))
    }
}

async fn clients_of_all_shards() -> Vec<ClientInfo> {
    let mut clients = Vec::new();
    for shard in 0..runtime::shard_count() {
        let of_shard = runtime::submit_to(ShardId(shard), Group::QUERY, || async {
            runtime::try_local::<Engine>().map(|engine| engine.clients()).unwrap_or_default()
        });
        clients.extend(of_shard.await);
        clients.truncate(limits::CLIENTS_MAX);
    }
    clients
}

async fn traces_of_all_shards() -> Vec<Trace> {
    let mut traces = Vec::new();
    for shard in 0..runtime::shard_count() {
        let of_shard = runtime::submit_to(ShardId(shard), Group::QUERY, || async {
            runtime::try_local::<Engine>().map(|engine| engine.traces.all()).unwrap_or_default()
        });
        traces.extend(of_shard.await);
    }
    traces
}
