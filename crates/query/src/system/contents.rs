//! What the system tables hold: rows made from live state each time they are read.

mod estimates;
mod views;

use super::definitions::{STORED_KEYSPACES, VIRTUAL_KEYSPACES};
use super::live::Live;
use super::row::Row;
use crate::info::NodeInfo;
use crate::trace::Trace;
use cluster::{Permissions, Resource, Role};
use schema::{Column, ColumnKind, CompactStorage, Keyspace, Order, Schema, Table};
use std::collections::{BTreeMap, BTreeSet};
use topology::{Member, Snapshot};

/// The version Cassandra clients are told; tools compare it with what they know.
pub const RELEASE_VERSION: &str = "5.0.6";
/// The version of the language.
pub const CQL_VERSION: &str = "3.4.7";
/// The class name that makes drivers compute tokens.
pub const PARTITIONER: &str = "org.apache.cassandra.dht.Murmur3Partitioner";

/// Everything rows are made from.
pub struct Source<'a> {
    /// What only this node knows of itself.
    pub node: &'a NodeInfo,
    /// This node and the other members.
    pub snapshot: &'a Snapshot,
    /// The schema, system keyspaces included.
    pub schema: &'a Schema,
    /// What the shards say, as far as this table shows it.
    pub live: &'a Live,
}

/// The rows of a system table, in any order; none for tables that are always empty here.
pub fn rows(table: &Table, source: &Source<'_>) -> Vec<Row> {
    match (&*table.keyspace, &*table.name) {
        ("system", "local") => vec![local(source)],
        ("system", "peers") => peers(source).map(|member| peer(member, source)).collect(),
        ("system", "peers_v2") => peers(source).map(|member| peer_v2(member, source)).collect(),
        ("system", "prepared_statements") => source.live.prepared.iter().map(prepared).collect(),
        ("system_schema", name) => schema_rows(name, source),
        ("system_virtual_schema", name) => virtual_schema_rows(name, source),
        ("system", "compaction_history") => estimates::compaction_history(source),
        ("system", "size_estimates") => estimates::estimates(source, &[""]),
        ("system", "table_estimates") => estimates::estimates(source, &["local_primary", "primary"]),
        ("system_auth", "roles") => shared(source).map(|(name, role)| role_row(name, role)).collect(),
        ("system_auth", "role_members") => {
            let of = |(name, role): (&'_ String, &'_ Role)| -> Vec<Row> {
                let row = |granted: &String| Row::new().text("role", granted).text("member", name);
                role.member_of.iter().map(row).collect()
            };
            shared(source).flat_map(of).collect()
        }
        ("system_auth", "role_permissions") => grants(source)
            .map(|(role, on, held)| {
                let mut names: Vec<&str> = held.names().collect();
                names.sort_unstable();
                Row::new().text("role", role).text("resource", on).texts("permissions", &names)
            })
            .collect(),
        ("system_auth", "resource_role_permissons_index") => {
            grants(source).map(|(role, on, _)| Row::new().text("resource", on).text("role", role)).collect()
        }
        ("system_auth", "network_permissions") => {
            let row = |(role, named): (&String, &BTreeSet<String>)| {
                let named: Vec<&String> = named.iter().collect();
                Row::new().text("role", &Resource::Role(role.clone()).name()).texts("dcs", &named)
            };
            source.live.roles.iter().flat_map(|roles| &roles.datacenters).map(row).collect()
        }
        ("system_auth", "identity_to_role") => {
            let row = |(identity, role): (&String, &String)| {
                Row::new().text("identity", identity).text("role", role)
            };
            source.live.roles.iter().flat_map(|roles| &roles.identities).map(row).collect()
        }
        ("system_views", name) => views::rows(name, source),
        ("system_traces", "sessions") => source.live.traces.iter().map(trace_session).collect(),
        ("system_traces", "events") => source.live.traces.iter().flat_map(trace_events).collect(),
        _ => Vec::new(),
    }
}

/// The roles that the cluster has agreed on.
fn shared<'s>(source: &'s Source<'_>) -> impl Iterator<Item = (&'s String, &'s Role)> {
    source.live.roles.iter().flat_map(|roles| &roles.roles)
}

/// What was granted: role, resource, permissions.
fn grants<'s>(source: &'s Source<'_>) -> impl Iterator<Item = (&'s String, &'s String, Permissions)> {
    let of_role = |(role, resources): (&'s String, &'s BTreeMap<String, Permissions>)| {
        resources.iter().map(move |(on, held)| (role, on, *held))
    };
    source.live.roles.iter().flat_map(|roles| &roles.permissions).flat_map(of_role)
}

fn role_row(name: &str, role: &Role) -> Row {
    let members: Vec<&String> = role.member_of.iter().collect();
    let row = Row::new()
        .text("role", name)
        .boolean("can_login", role.login)
        .boolean("is_superuser", role.superuser)
        .text_if("salted_hash", role.salted_hash.as_deref());
    if members.is_empty() { row } else { row.texts("member_of", &members) }
}

fn local(source: &Source<'_>) -> Row {
    let (node, member) = (source.node, source.snapshot.local());
    Row::new()
        .text("key", "local")
        .text("bootstrapped", "COMPLETED")
        .inet("broadcast_address", member.broadcast())
        .int("broadcast_port", i32::from(member.internode.port()))
        .text("cluster_name", &node.cluster_name)
        .text("cql_version", CQL_VERSION)
        .text("data_center", &member.dc)
        .int("gossip_generation", node.started_at_s)
        .uuid("host_id", member.host_id.0)
        .inet("listen_address", node.listen_address)
        .int("listen_port", i32::from(node.listen_port))
        .text("native_protocol_version", "5")
        .text("partitioner", PARTITIONER)
        .text("rack", &member.rack)
        .text("release_version", RELEASE_VERSION)
        .inet("rpc_address", member.native.ip())
        .int("rpc_port", i32::from(member.native.port()))
        .uuid("schema_version", source.schema.version)
        .texts("tokens", &token_texts(member))
}

/// The other members that drivers may be told of: those that hold their tokens.
fn peers<'s>(source: &Source<'s>) -> impl Iterator<Item = &'s Member> {
    source.snapshot.others().filter(|member| member.state.is_read())
}

fn peer(member: &Member, source: &Source<'_>) -> Row {
    Row::new()
        .inet("peer", member.broadcast())
        .text("data_center", &member.dc)
        .uuid("host_id", member.host_id.0)
        .inet("preferred_ip", member.broadcast())
        .text("rack", &member.rack)
        .text("release_version", RELEASE_VERSION)
        .inet("rpc_address", member.native.ip())
        .uuid("schema_version", peer_schema(member, source))
        .texts("tokens", &token_texts(member))
}

fn peer_v2(member: &Member, source: &Source<'_>) -> Row {
    Row::new()
        .inet("peer", member.broadcast())
        .int("peer_port", i32::from(member.internode.port()))
        .text("data_center", &member.dc)
        .uuid("host_id", member.host_id.0)
        .inet("native_address", member.native.ip())
        .int("native_port", i32::from(member.native.port()))
        .inet("preferred_ip", member.broadcast())
        .int("preferred_port", i32::from(member.internode.port()))
        .text("rack", &member.rack)
        .text("release_version", RELEASE_VERSION)
        .uuid("schema_version", peer_schema(member, source))
        .texts("tokens", &token_texts(member))
}

/// The version of the schema that a peer said last. One that was not heard since this node started does not answer: drivers
/// leave it out when they compare versions, but some take a row without a version for no node.
fn peer_schema(member: &Member, source: &Source<'_>) -> u128 {
    source.snapshot.liveness().schema_version(member.host_id).unwrap_or(source.schema.version)
}

/// Tokens as decimal texts in the order of a `set<text>`.
fn token_texts(member: &Member) -> Vec<String> {
    let mut texts: Vec<String> = member.tokens.iter().map(base::Token::to_string).collect();
    texts.sort_unstable();
    texts
}

fn prepared(statement: &(Vec<u8>, Option<String>, String)) -> Row {
    let (id, keyspace, text) = statement;
    Row::new()
        .bytes("prepared_id", id.clone())
        .text_if("logged_keyspace", keyspace.as_deref())
        .text("query_string", text)
}

fn trace_session(trace: &Trace) -> Row {
    Row::new()
        .uuid("session_id", trace.id)
        .inet("client", trace.client.ip())
        .text("command", "QUERY")
        .inet("coordinator", trace.coordinator.ip())
        .int("coordinator_port", i32::from(trace.coordinator.port()))
        .int("duration", trace.duration_us)
        .map("parameters", &trace.parameters)
        .text("request", &trace.request)
        .bigint("started_at", trace.started_at_ms)
}

fn trace_events(trace: &Trace) -> impl Iterator<Item = Row> {
    trace.events.iter().enumerate().map(|(number, event)| {
        let source = event.source.unwrap_or(trace.coordinator);
        Row::new()
            .uuid("session_id", trace.id)
            .uuid("event_id", trace.event_id(number))
            .text("activity", &event.activity)
            .inet("source", source.ip())
            .int("source_elapsed", i32::try_from(event.elapsed_us).unwrap_or(i32::MAX))
            .int("source_port", i32::from(source.port()))
            .text("thread", &format!("shard-{}", event.shard))
    })
}

fn stored(schema: &Schema) -> impl Iterator<Item = &Keyspace> {
    let keyspaces = schema.keyspaces.values().map(AsRef::as_ref);
    keyspaces.filter(|k| !VIRTUAL_KEYSPACES.contains(&&*k.name))
}

fn schema_rows(name: &str, source: &Source<'_>) -> Vec<Row> {
    let keyspaces = stored(source.schema);
    match name {
        "keyspaces" => keyspaces.map(keyspace).collect(),
        "tables" => keyspaces.flat_map(|k| k.tables.values()).map(|t| table_row(t)).collect(),
        "columns" => keyspaces.flat_map(|k| k.tables.values()).flat_map(|t| columns(t)).collect(),
        "types" => keyspaces.flat_map(types).collect(),
        "dropped_columns" => {
            keyspaces.flat_map(|k| k.tables.values()).flat_map(|t| dropped_columns(t)).collect()
        }
        _ => Vec::new(),
    }
}

fn virtual_schema_rows(name: &str, source: &Source<'_>) -> Vec<Row> {
    let keyspaces = VIRTUAL_KEYSPACES.iter().filter_map(|name| source.schema.keyspace(name));
    let tables = keyspaces.clone().flat_map(|k| k.tables.values());
    match name {
        "keyspaces" => keyspaces.map(|k| Row::new().text("keyspace_name", &k.name)).collect(),
        "tables" => tables
            .map(|t| {
                Row::new()
                    .text("keyspace_name", &t.keyspace)
                    .text("table_name", &t.name)
                    .text("comment", &t.options.comment)
            })
            .collect(),
        "columns" => tables.flat_map(|t| columns(t)).collect(),
        _ => Vec::new(),
    }
}

fn keyspace(keyspace: &Keyspace) -> Row {
    Row::new()
        .text("keyspace_name", &keyspace.name)
        .boolean("durable_writes", keyspace.durable_writes)
        .map("replication", &keyspace.replication.to_map())
}

fn table_row(table: &Table) -> Row {
    let flags = flags(table);
    let options = &table.options;
    let row = Row::new()
        .text("keyspace_name", &table.keyspace)
        .text("table_name", &table.name)
        .texts("flags", &flags)
        .uuid("id", table.id.0)
        .text("additional_write_policy", &options.additional_write_policy)
        .double("bloom_filter_fp_chance", options.bloom_filter_fp_chance)
        .map("caching", &options.caching)
        .text("comment", &options.comment)
        .map("compaction", &options.compaction)
        .map("compression", &options.compression)
        .double("crc_check_chance", options.crc_check_chance)
        .double("dclocal_read_repair_chance", 0.0)
        .int("default_time_to_live", options.default_time_to_live)
        .map("extensions", &options.extensions)
        .int("gc_grace_seconds", options.gc_grace_seconds)
        .int("max_index_interval", options.max_index_interval)
        .text_if("memtable", options.memtable.as_deref())
        .int("memtable_flush_period_in_ms", options.memtable_flush_period_in_ms)
        .int("min_index_interval", options.min_index_interval)
        .text("read_repair", &options.read_repair)
        .double("read_repair_chance", 0.0)
        .text("speculative_retry", &options.speculative_retry)
        .boolean("allow_auto_snapshot", options.allow_auto_snapshot)
        .boolean("incremental_backups", options.incremental_backups);
    match options.cdc {
        Some(cdc) => row.boolean("cdc", cdc),
        None => row,
    }
}

/// In the order of the texts. Clients take a table that is not `compound`, or is `dense`, for one WITH COMPACT STORAGE.
fn flags(table: &Table) -> Vec<&'static str> {
    let is_compound = match table.compact {
        CompactStorage::No => true,
        CompactStorage::Dense => table.clustering.len() > 1,
        CompactStorage::Static => false,
    };
    let is_dense = table.compact == CompactStorage::Dense;
    let all = [("compound", is_compound), ("counter", table.counter), ("dense", is_dense)];
    all.into_iter().filter(|(_, is_set)| *is_set).map(|(flag, _)| flag).collect()
}

fn columns(table: &Table) -> Vec<Row> {
    table.columns().map(|column| column_row(table, column)).collect()
}

fn column_row(table: &Table, column: &Column) -> Row {
    let (kind, is_key) = match column.kind {
        ColumnKind::PartitionKey => ("partition_key", true),
        ColumnKind::Clustering => ("clustering", true),
        ColumnKind::Static => ("static", false),
        ColumnKind::Regular => ("regular", false),
    };
    let order = match (column.kind, column.order) {
        (ColumnKind::Clustering, Order::Ascending) => "asc",
        (ColumnKind::Clustering, Order::Descending) => "desc",
        _ => "none",
    };
    Row::new()
        .text("keyspace_name", &table.keyspace)
        .text("table_name", &table.name)
        .text("column_name", &column.name)
        .text("clustering_order", order)
        .bytes("column_name_bytes", column.name.as_bytes().to_vec())
        .text("kind", kind)
        .int("position", if is_key { i32::from(column.position) } else { -1 })
        .text("type", &column.ty.to_string())
}

fn types(keyspace: &Keyspace) -> Vec<Row> {
    let row = |(name, ty): (&std::sync::Arc<str>, &std::sync::Arc<types::UdtType>)| {
        let names: Vec<String> = ty.fields.iter().map(|(n, _)| n.to_string()).collect();
        let types: Vec<String> = ty.fields.iter().map(|(_, t)| t.to_string()).collect();
        Row::new()
            .text("keyspace_name", &keyspace.name)
            .text("type_name", name)
            .texts("field_names", &names)
            .texts("field_types", &types)
    };
    keyspace.types.iter().map(row).collect()
}

fn dropped_columns(table: &Table) -> Vec<Row> {
    // A column may be dropped more than once; the table shows the last time.
    let mut latest: BTreeMap<&str, &schema::DroppedColumn> = BTreeMap::new();
    for dropped in &table.dropped {
        let entry = latest.entry(&dropped.name).or_insert(dropped);
        if dropped.dropped_at > entry.dropped_at {
            *entry = dropped;
        }
    }
    let row = |dropped: &schema::DroppedColumn| {
        let kind = if dropped.kind == ColumnKind::Static { "static" } else { "regular" };
        Row::new()
            .text("keyspace_name", &table.keyspace)
            .text("table_name", &table.name)
            .text("column_name", &dropped.name)
            .bigint("dropped_time", dropped.dropped_at / 1000)
            .text("kind", kind)
            .text("type", &dropped.ty.to_string())
    };
    latest.into_values().map(row).collect()
}

const _: () = assert!(STORED_KEYSPACES.len() + VIRTUAL_KEYSPACES.len() == 7);

#[cfg(test)]
mod tests;
