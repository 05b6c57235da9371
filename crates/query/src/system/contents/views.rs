//! Rows of `system_views`.

use super::{RELEASE_VERSION, Source};
use crate::info::ClientInfo;
use crate::system::row::Row;
use base::histogram::Distribution;
use core::net::IpAddr;
use storage::snapshot::Snapshot;
use storage::{CacheStats, TableStats};
use topology::Member;

/// Bytes of the unit in which sizes of tables are shown, rounded up.
const MEBIBYTE: u64 = 1 << 20;

/// The rows of a table of `system_views`.
pub fn rows(name: &str, source: &Source<'_>) -> Vec<Row> {
    let live = source.live;
    let of_tables = |row: fn(&TableStats, Row) -> Row| {
        let named = |stats: &TableStats| {
            let head = Row::new().text("keyspace_name", &stats.keyspace);
            row(stats, head.text("table_name", &stats.table))
        };
        live.tables.iter().map(named).collect()
    };
    match name {
        "clients" => live.clients.iter().map(client).collect(),
        "settings" => named_values(source.node.settings.iter().map(|(n, v)| (n.as_str(), v.as_str()))),
        "system_properties" => {
            named_values([("os.arch", std::env::consts::ARCH), ("os.name", "Linux")].into_iter())
        }
        "caches" => vec![no_cache("counters"), no_cache("keys"), row_cache(&live.row_cache)],
        "thread_pools" => live.groups.iter().map(|group| pool(group, live.shards)).collect(),
        "sstable_tasks" => live.compactions.iter().map(task).collect(),
        "snapshots" => live.snapshots.iter().map(snapshot).collect(),
        "disk_usage" => of_tables(|stats, row| mebibytes(row, stats.live_bytes)),
        "max_partition_size" => of_tables(|stats, row| mebibytes(row, stats.partition_sizes.max())),
        "max_sstable_size" => of_tables(|stats, row| mebibytes(row, stats.largest_sstable)),
        "max_sstable_duration" => of_tables(|stats, row| {
            row.bigint("max_sstable_duration", (stats.longest_sstable_micros / 1000) as i64)
        }),
        "local_read_latency" => of_tables(|stats, row| latency(row, &stats.reads)),
        "local_scan_latency" => of_tables(|stats, row| latency(row, &stats.scans)),
        "local_write_latency" => of_tables(|stats, row| latency(row, &stats.writes)),
        "rows_per_read" => of_tables(|stats, row| counts(row, &stats.live_rows)),
        "tombstones_per_read" => of_tables(|stats, row| counts(row, &stats.tombstones)),
        "cql_metrics" => statements(source),
        "batch_metrics" => batches(source),
        "gossip_info" => members(source),
        _ => Vec::new(),
    }
}

fn named_values<'a>(values: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<Row> {
    values.map(|(name, value)| Row::new().text("name", name).text("value", value)).collect()
}

fn client(client: &ClientInfo) -> Row {
    let option = |key: &str| client.options.get(key).map(String::as_str);
    Row::new()
        .inet("address", client.address.ip())
        .int("port", i32::from(client.address.port()))
        .map("client_options", &client.options)
        .text("connection_stage", client.stage)
        .text_if("driver_name", option("DRIVER_NAME"))
        .text_if("driver_version", option("DRIVER_VERSION"))
        .text("hostname", &host_name(client.address.ip()))
        .text_if("keyspace_name", client.keyspace.as_deref())
        .int("protocol_version", i32::from(client.protocol_version))
        .bigint("request_count", client.request_count as i64)
        .text_if("ssl_cipher_suite", client.tls.as_ref().map(|(_, suite)| suite.as_str()))
        .boolean("ssl_enabled", client.tls.is_some())
        .text_if("ssl_protocol", client.tls.as_ref().map(|(protocol, _)| *protocol))
        .text("username", client.user.as_deref().unwrap_or("anonymous"))
}

/// The node asks no resolver: a client has its address for a name, this machine its own.
fn host_name(address: IpAddr) -> String {
    if address.is_loopback() { "localhost".into() } else { address.to_string() }
}

/// One of the caches that Cassandra has and this node has not.
fn no_cache(name: &str) -> Row {
    let row = Row::new().text("name", name).int("entry_count", 0).double("hit_ratio", f64::NAN);
    let zeros = [
        "capacity_bytes",
        "hit_count",
        "recent_hit_rate_per_second",
        "recent_request_rate_per_second",
        "request_count",
        "size_bytes",
    ];
    zeros.into_iter().fold(row, |row, column| row.bigint(column, 0))
}

/// The row cache. Without a request nothing is the share of those that were answered.
fn row_cache(cache: &CacheStats) -> Row {
    let ratio = if cache.requests == 0 { f64::NAN } else { cache.hits as f64 / cache.requests as f64 };
    let entries = i32::try_from(cache.rows).unwrap_or(i32::MAX);
    Row::new()
        .text("name", "rows")
        .int("entry_count", entries)
        .double("hit_ratio", ratio)
        .bigint("capacity_bytes", cache.capacity as i64)
        .bigint("hit_count", cache.hits as i64)
        .bigint("recent_hit_rate_per_second", 0)
        .bigint("recent_request_rate_per_second", 0)
        .bigint("request_count", cache.requests as i64)
        .bigint("size_bytes", cache.bytes as i64)
}

/// A scheduling group: every shard runs one task at a time, whichever group it is of.
fn pool(group: &runtime::metrics::GroupUsage, shards: u16) -> Row {
    Row::new()
        .text("name", group.name)
        .int("active_tasks", 0)
        .int("active_tasks_limit", i32::from(shards))
        .bigint("blocked_tasks", 0)
        .bigint("blocked_tasks_all_time", 0)
        .bigint("completed_tasks", group.polls as i64)
        .int("pending_tasks", i32::try_from(group.queued).unwrap_or(i32::MAX))
}

fn task(task: &storage::CompactionProgress) -> Row {
    let ratio = if task.total == 0 { 0.0 } else { task.completed as f64 / task.total as f64 };
    Row::new()
        .text("keyspace_name", &task.keyspace)
        .text("table_name", &task.table)
        .uuid("task_id", task.id)
        .double("completion_ratio", ratio)
        .text("kind", &task.kind.name().to_lowercase())
        .bigint("progress", task.completed as i64)
        .bigint("total", task.total as i64)
        .text("unit", "bytes")
}

fn snapshot(snapshot: &Snapshot) -> Row {
    let row = Row::new()
        .text("name", &snapshot.tag)
        .text("keyspace_name", &snapshot.keyspace)
        .text("table_name", &snapshot.table)
        .boolean("ephemeral", false)
        .bigint("size_on_disk", snapshot.size as i64)
        .bigint("true_size", snapshot.true_size as i64);
    let row = snapshot.created_ms.into_iter().fold(row, |row, at| row.bigint("created_at", at));
    snapshot.expires_ms.into_iter().fold(row, |row, at| row.bigint("expires_at", at))
}

fn mebibytes(row: Row, bytes: u64) -> Row {
    row.bigint("mebibytes", bytes.div_ceil(MEBIBYTE) as i64)
}

/// What was recorded in microseconds, shown in milliseconds.
fn latency(row: Row, seen: &Distribution) -> Row {
    let millis = |micros: u64| micros as f64 / 1000.0;
    row.bigint("count", seen.count as i64)
        .double("max_ms", millis(seen.recent.max()))
        .double("p50th_ms", millis(seen.recent.percentile(0.5)))
        .double("p99th_ms", millis(seen.recent.percentile(0.99)))
        .double("per_second", seen.rates.per_second[0])
}

fn counts(row: Row, seen: &Distribution) -> Row {
    row.bigint("count", seen.count as i64)
        .double("max", seen.recent.max() as f64)
        .double("p50th", seen.recent.percentile(0.5) as f64)
        .double("p99th", seen.recent.percentile(0.99) as f64)
}

fn statements(source: &Source<'_>) -> Vec<Row> {
    let seen = &source.live.statements;
    let all = seen.prepared_run + seen.text_run;
    let ratio = if all == 0 { 0.0 } else { seen.prepared_run as f64 / all as f64 };
    let values = [
        ("prepared_statements_count", seen.prepared as f64),
        ("prepared_statements_evicted", seen.evicted as f64),
        ("prepared_statements_executed", seen.prepared_run as f64),
        ("prepared_statements_ratio", ratio),
        ("regular_statements_executed", seen.text_run as f64),
    ];
    values.map(|(name, value)| Row::new().text("name", name).double("value", value)).into()
}

fn batches(source: &Source<'_>) -> Vec<Row> {
    let seen = &source.live.statements;
    let kinds = [
        ("partitions_per_counter_batch", &seen.counter_batches),
        ("partitions_per_logged_batch", &seen.logged_batches),
        ("partitions_per_unlogged_batch", &seen.unlogged_batches),
    ];
    let row = |(name, seen): (&str, &Distribution)| {
        Row::new()
            .text("name", name)
            .bigint("max", seen.recent.max() as i64)
            .double("p50th", seen.recent.percentile(0.5) as f64)
            .double("p999th", seen.recent.percentile(0.999) as f64)
            .double("p99th", seen.recent.percentile(0.99) as f64)
    };
    kinds.map(row).into()
}

/// What is known of every member. There is no gossip: versions and heartbeats are null.
fn members(source: &Source<'_>) -> Vec<Row> {
    let schema = uuid::Uuid::from_u128(source.schema.version).to_string();
    let local = source.snapshot.local_id();
    let row = |member: &Member| {
        let status = format!("NORMAL,{}", member.tokens.first().copied().unwrap_or_default());
        let row = Row::new()
            .inet("address", member.broadcast())
            .int("port", i32::from(member.internode.port()))
            .text("hostname", &host_name(member.broadcast()))
            .text("release_version", RELEASE_VERSION)
            .text("schema", &schema)
            .text("sstable_versions", "big-nb")
            .text("dc", &member.dc)
            .text("rack", &member.rack)
            .text("host_id", &member.host_id.to_string())
            .text("native_address_and_port", &member.native.to_string())
            .text("rpc_address", &member.native.ip().to_string())
            .text("status", &status)
            .text("status_with_port", &status);
        match member.host_id == local {
            true => row.int("generation", source.node.started_at_s).text("rpc_ready", "true"),
            false => row,
        }
    };
    source.snapshot.members().iter().map(row).collect()
}
