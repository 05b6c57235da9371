//! The shapes of the system tables, each written once.
//!
//! Names, keys and types are those drivers and tools expect of Cassandra 5.0. A table without a generator in
//! `contents` reads as empty: clients ask whether it exists, not what is in it.

use schema::{Keyspace, Order, Replication, Table, TableBuilder, TableId};
use std::sync::Arc;
use types::CqlType;

/// One table: `columns` are `name type` pairs with commas between them.
struct Definition {
    keyspace: &'static str,
    name: &'static str,
    partition_key: &'static str,
    /// A name that ends in ` desc` sorts descending.
    clustering: &'static str,
    statics: &'static str,
    regulars: &'static str,
    comment: &'static str,
}

const fn table(
    keyspace: &'static str,
    name: &'static str,
    partition_key: &'static str,
    clustering: &'static str,
    regulars: &'static str,
) -> Definition {
    Definition { keyspace, name, partition_key, clustering, statics: "", regulars, comment: "" }
}

/// The keyspaces kept in the schema tables, as Cassandra lists them.
pub const STORED_KEYSPACES: [&str; 5] =
    ["system", "system_auth", "system_distributed", "system_schema", "system_traces"];
/// The keyspaces listed in `system_virtual_schema` only.
pub const VIRTUAL_KEYSPACES: [&str; 2] = ["system_views", "system_virtual_schema"];

const COLUMNS_OF_COLUMNS: &str =
    "clustering_order text, column_name_bytes blob, kind text, position int, type text";

const TABLE_OPTIONS: &str = "additional_write_policy text, allow_auto_snapshot boolean, \
    bloom_filter_fp_chance double, caching frozen<map<text, text>>, cdc boolean, comment text, \
    compaction frozen<map<text, text>>, compression frozen<map<text, text>>, crc_check_chance double, \
    dclocal_read_repair_chance double, default_time_to_live int, extensions frozen<map<text, blob>>, \
    gc_grace_seconds int, id uuid, incremental_backups boolean, max_index_interval int, memtable text, \
    memtable_flush_period_in_ms int, min_index_interval int, read_repair text, read_repair_chance double, \
    speculative_retry text";

const LATENCY: &str = "count bigint, max double, p50th double, p99th double, per_second double";
const HISTOGRAM: &str = "count bigint, max double, p50th double, p99th double";

#[rustfmt::skip]
const SYSTEM: &[Definition] = &[
    table("system", "local", "key text", "",
        "bootstrapped text, broadcast_address inet, broadcast_port int, cluster_name text, cql_version text, \
         data_center text, gossip_generation int, host_id uuid, listen_address inet, listen_port int, \
         native_protocol_version text, partitioner text, rack text, release_version text, rpc_address inet, \
         rpc_port int, schema_version uuid, tokens set<text>, truncated_at map<uuid, blob>"),
    table("system", "peers", "peer inet", "",
        "data_center text, host_id uuid, preferred_ip inet, rack text, release_version text, rpc_address inet, \
         schema_version uuid, tokens set<text>"),
    table("system", "peers_v2", "peer inet", "peer_port int",
        "data_center text, host_id uuid, native_address inet, native_port int, preferred_ip inet, \
         preferred_port int, rack text, release_version text, schema_version uuid, tokens set<text>"),
    table("system", "peer_events_v2", "peer inet", "peer_port int", "hints_dropped map<uuid, int>"),
    table("system", "size_estimates", "keyspace_name text",
        "table_name text, range_start text, range_end text",
        "mean_partition_size bigint, partitions_count bigint"),
    table("system", "table_estimates", "keyspace_name text",
        "table_name text, range_type text, range_start text, range_end text",
        "mean_partition_size bigint, partitions_count bigint"),
    table("system", "compaction_history", "id uuid", "",
        "bytes_in bigint, bytes_out bigint, columnfamily_name text, compacted_at timestamp, \
         compaction_properties frozen<map<text, text>>, keyspace_name text, rows_merged map<int, bigint>"),
    table("system", "prepared_statements", "prepared_id blob", "", "logged_keyspace text, query_string text"),
    table("system", "paxos", "row_key blob", "cf_id uuid",
        "in_progress_ballot timeuuid, in_progress_read_ballot timeuuid, most_recent_commit blob, \
         most_recent_commit_at timeuuid, most_recent_commit_version int, proposal blob, \
         proposal_ballot timeuuid, proposal_version int"),
    table("system", "batches", "id timeuuid", "", "mutations list<blob>, version int"),
    table("system", "IndexInfo", "table_name text", "index_name text", "value blob"),
    table("system", "built_views", "keyspace_name text", "view_name text", "status_replicated boolean"),
    table("system", "view_builds_in_progress", "keyspace_name text",
        "view_name text, start_token text, end_token text", "keys_built bigint, last_token text"),
    table("system", "available_ranges_v2", "keyspace_name text", "",
        "full_ranges set<blob>, transient_ranges set<blob>"),
    table("system", "transferred_ranges_v2", "operation text, keyspace_name text", "peer inet, peer_port int",
        "ranges set<blob>"),
    table("system", "sstable_activity_v2", "keyspace_name text, table_name text, id text", "",
        "rate_120m double, rate_15m double"),
    table("system", "repairs", "parent_id timeuuid", "",
        "cfids set<uuid>, coordinator inet, coordinator_port int, last_update timestamp, \
         participants set<inet>, participants_wp set<text>, ranges set<blob>, repaired_at timestamp, \
         started_at timestamp, state int"),
    table("system", "top_partitions", "keyspace_name text, table_name text, top_type text", "",
        "last_update timestamp, top frozen<list<tuple<text, bigint>>>"),
    table("system", "paxos_repair_history", "keyspace_name text", "table_name text",
        "points frozen<list<blob>>"),
];

#[rustfmt::skip]
const SCHEMA: &[Definition] = &[
    table("system_schema", "keyspaces", "keyspace_name text", "",
        "durable_writes boolean, replication frozen<map<text, text>>"),
    Definition {
        keyspace: "system_schema", name: "tables", partition_key: "keyspace_name text",
        clustering: "table_name text", statics: "", regulars: "flags frozen<set<text>>", comment: "",
    },
    table("system_schema", "columns", "keyspace_name text", "table_name text, column_name text",
        COLUMNS_OF_COLUMNS),
    table("system_schema", "column_masks", "keyspace_name text", "table_name text, column_name text",
        "function_argument_nulls frozen<list<boolean>>, function_argument_types frozen<list<text>>, \
         function_argument_values frozen<list<text>>, function_keyspace text, function_name text"),
    table("system_schema", "indexes", "keyspace_name text", "table_name text, index_name text",
        "kind text, options frozen<map<text, text>>"),
    Definition {
        keyspace: "system_schema", name: "views", partition_key: "keyspace_name text",
        clustering: "view_name text", statics: "",
        regulars: "base_table_id uuid, base_table_name text, include_all_columns boolean, where_clause text",
        comment: "",
    },
    table("system_schema", "types", "keyspace_name text", "type_name text",
        "field_names frozen<list<text>>, field_types frozen<list<text>>"),
    table("system_schema", "functions", "keyspace_name text",
        "function_name text, argument_types frozen<list<text>>",
        "argument_names frozen<list<text>>, body text, called_on_null_input boolean, language text, \
         return_type text"),
    table("system_schema", "aggregates", "keyspace_name text",
        "aggregate_name text, argument_types frozen<list<text>>",
        "final_func text, initcond text, return_type text, state_func text, state_type text"),
    table("system_schema", "triggers", "keyspace_name text", "table_name text, trigger_name text",
        "options frozen<map<text, text>>"),
    table("system_schema", "dropped_columns", "keyspace_name text", "table_name text, column_name text",
        "dropped_time timestamp, kind text, type text"),
];

#[rustfmt::skip]
const AUTH_TRACES_DISTRIBUTED: &[Definition] = &[
    table("system_auth", "roles", "role text", "",
        "can_login boolean, is_superuser boolean, member_of set<text>, salted_hash text"),
    table("system_auth", "role_members", "role text", "member text", ""),
    table("system_auth", "role_permissions", "role text", "resource text", "permissions set<text>"),
    table("system_auth", "resource_role_permissons_index", "resource text", "role text", ""),
    table("system_auth", "network_permissions", "role text", "", "dcs frozen<set<text>>"),
    table("system_auth", "identity_to_role", "identity text", "", "role text"),
    table("system_auth", "cidr_permissions", "role text", "", "cidr_groups frozen<set<text>>"),
    table("system_auth", "cidr_groups", "cidr_group text", "", "cidrs frozen<set<tuple<inet, smallint>>>"),
    table("system_traces", "sessions", "session_id uuid", "",
        "client inet, command text, coordinator inet, coordinator_port int, duration int, \
         parameters map<text, text>, request text, started_at timestamp"),
    table("system_traces", "events", "session_id uuid", "event_id timeuuid",
        "activity text, source inet, source_elapsed int, source_port int, thread text"),
    table("system_distributed", "repair_history", "keyspace_name text, columnfamily_name text", "id timeuuid",
        "coordinator inet, coordinator_port int, exception_message text, exception_stacktrace text, \
         finished_at timestamp, parent_id timeuuid, participants set<inet>, participants_v2 set<text>, \
         range_begin text, range_end text, started_at timestamp, status text"),
    table("system_distributed", "parent_repair_history", "parent_id timeuuid", "",
        "columnfamily_names set<text>, exception_message text, exception_stacktrace text, \
         finished_at timestamp, keyspace_name text, options map<text, text>, requested_ranges set<text>, \
         started_at timestamp, successful_ranges set<text>"),
    table("system_distributed", "view_build_status", "keyspace_name text, view_name text", "host_id uuid",
        "status text"),
    table("system_distributed", "partition_denylist", "ks_name text, table_name text", "key blob", ""),
];

#[rustfmt::skip]
const VIEWS: &[Definition] = &[
    table("system_virtual_schema", "keyspaces", "keyspace_name text", "", ""),
    table("system_virtual_schema", "tables", "keyspace_name text", "table_name text", "comment text"),
    table("system_virtual_schema", "columns", "keyspace_name text", "table_name text, column_name text",
        COLUMNS_OF_COLUMNS),
    Definition {
        keyspace: "system_views", name: "clients", partition_key: "address inet", clustering: "port int",
        statics: "", comment: "currently connected clients",
        regulars: "client_options frozen<map<text, text>>, connection_stage text, driver_name text, \
            driver_version text, hostname text, keyspace_name text, protocol_version int, request_count bigint, \
            ssl_cipher_suite text, ssl_enabled boolean, ssl_protocol text, username text",
    },
    Definition {
        keyspace: "system_views", name: "settings", partition_key: "name text", clustering: "", statics: "",
        regulars: "value text", comment: "current settings",
    },
    table("system_views", "system_properties", "name text", "", "value text"),
    table("system_views", "caches", "name text", "",
        "capacity_bytes bigint, entry_count int, hit_count bigint, hit_ratio double, \
         recent_hit_rate_per_second bigint, recent_request_rate_per_second bigint, request_count bigint, \
         size_bytes bigint"),
    table("system_views", "sstable_tasks", "keyspace_name text", "table_name text, task_id timeuuid",
        "completion_ratio double, kind text, progress bigint, sstables int, target_directory text, \
         total bigint, unit text"),
    table("system_views", "thread_pools", "name text", "",
        "active_tasks int, active_tasks_limit int, blocked_tasks bigint, blocked_tasks_all_time bigint, \
         completed_tasks bigint, pending_tasks int"),
    table("system_views", "pending_hints", "host_id uuid", "",
        "address inet, dc text, files int, newest timestamp, oldest timestamp, port int, rack text, status text"),
    table("system_views", "queries", "thread_id text", "",
        "queued_micros bigint, running_micros bigint, task text"),
    table("system_views", "snapshots", "name text", "keyspace_name text, table_name text",
        "created_at timestamp, ephemeral boolean, expires_at timestamp, size_on_disk bigint, true_size bigint"),
    table("system_views", "cql_metrics", "name text", "", "value double"),
    table("system_views", "batch_metrics", "name text", "",
        "max bigint, p50th double, p999th double, p99th double"),
    table("system_views", "coordinator_read_latency", "keyspace_name text, table_name text", "", LATENCY),
    table("system_views", "coordinator_scan_latency", "keyspace_name text, table_name text", "", LATENCY),
    table("system_views", "coordinator_write_latency", "keyspace_name text, table_name text", "", LATENCY),
    table("system_views", "local_read_latency", "keyspace_name text, table_name text", "", LATENCY),
    table("system_views", "local_scan_latency", "keyspace_name text, table_name text", "", LATENCY),
    table("system_views", "local_write_latency", "keyspace_name text, table_name text", "", LATENCY),
    table("system_views", "tombstones_per_read", "keyspace_name text, table_name text", "", HISTOGRAM),
    table("system_views", "rows_per_read", "keyspace_name text, table_name text", "", HISTOGRAM),
    table("system_views", "disk_usage", "keyspace_name text, table_name text", "", "mebibytes bigint"),
    table("system_views", "max_partition_size", "keyspace_name text, table_name text", "", "mebibytes bigint"),
];

/// Every system keyspace, built from its definitions. Costs about as much as reading a small schema: call once.
pub fn keyspaces() -> Vec<Arc<Keyspace>> {
    let names = STORED_KEYSPACES.iter().chain(&VIRTUAL_KEYSPACES);
    names.map(|name| Arc::new(keyspace(name))).collect()
}

fn keyspace(name: &str) -> Keyspace {
    let replication = match name {
        "system_auth" => Replication::Simple { factor: 1 },
        "system_traces" => Replication::Simple { factor: 2 },
        "system_distributed" => Replication::Simple { factor: 3 },
        _ => Replication::Local,
    };
    let mut keyspace = Keyspace::new(name, replication);
    let all = SYSTEM.iter().chain(SCHEMA).chain(AUTH_TRACES_DISTRIBUTED).chain(VIEWS);
    for definition in all.filter(|d| d.keyspace == name) {
        let table = build(definition);
        keyspace.tables.insert(table.name.clone(), Arc::new(table));
    }
    keyspace
}

fn build(definition: &Definition) -> Table {
    let id = table_id(definition.keyspace, definition.name);
    let mut builder = TableBuilder::new(definition.keyspace, definition.name, id);
    for (name, ty) in columns(definition.partition_key) {
        builder = builder.partition_key(name, ty);
    }
    for (name, ty) in columns(definition.clustering) {
        builder = builder.clustering(name, ty, Order::Ascending);
    }
    for (name, ty) in columns(definition.statics) {
        builder = builder.static_column(name, ty);
    }
    for (name, ty) in columns(definition.regulars) {
        builder = builder.regular(name, ty);
    }
    if definition.keyspace == "system_schema" && matches!(definition.name, "tables" | "views") {
        for (name, ty) in columns(TABLE_OPTIONS) {
            builder = builder.regular(name, ty);
        }
    }
    builder.options_mut().comment = definition.comment.to_string();
    builder.options_mut().gc_grace_seconds = 0;
    builder.build().expect("definitions are constants, and the tests build every one")
}

/// The same id on every node and at every start: a hash of the name, marked as a name-based UUID.
fn table_id(keyspace: &str, name: &str) -> TableId {
    let (high, low) = base::murmur3(format!("{keyspace}\0{name}").as_bytes());
    let bytes = (u128::from(high as u64) << 64) | u128::from(low as u64);
    let version = bytes & !(0xf000 << 64) | (0x3000 << 64);
    TableId(version & !(0xc000 << 48) | (0x8000 << 48))
}

/// Splits `name type, name type` at the commas outside angle brackets.
fn columns(text: &'static str) -> Vec<(&'static str, CqlType)> {
    let mut depth = 0;
    let pieces = text.split(move |c| {
        match c {
            '<' => depth += 1,
            '>' => depth -= 1,
            _ => {}
        }
        c == ',' && depth == 0
    });
    let pieces = pieces.map(str::trim).filter(|piece| !piece.is_empty());
    pieces
        .map(|piece| {
            let (name, ty) = piece.split_once(' ').expect("definitions are constants");
            (name, CqlType::parse(ty.trim()).expect("definitions are constants"))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_definition_builds() {
        let keyspaces = keyspaces();
        assert_eq!(keyspaces.len(), 7);
        let tables: usize = keyspaces.iter().map(|k| k.tables.len()).sum();
        let defined = SYSTEM.len() + SCHEMA.len() + AUTH_TRACES_DISTRIBUTED.len() + VIEWS.len();
        assert_eq!(tables, defined);
    }

    #[test]
    fn ids_differ_and_are_name_based() {
        let mut ids: Vec<u128> =
            keyspaces().iter().flat_map(|k| k.tables.values()).map(|t| t.id.0).collect::<Vec<_>>();
        let count = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), count);
        assert!(ids.iter().all(|id| (id >> 76) & 0xf == 3 && (id >> 62) & 3 == 2));
    }

    #[test]
    fn types_with_commas_stay_whole() {
        let split = columns("a frozen<map<text, int>>, b int");
        assert_eq!(split.len(), 2);
        assert_eq!(split[0].1.to_string(), "frozen<map<text, int>>");
    }
}
