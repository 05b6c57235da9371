//! The tables of `system`.

use super::{Definition, table};

#[rustfmt::skip]
pub(super) const SYSTEM: &[Definition] = &[
    table("system", "IndexInfo", "table_name text", "index_name text", "value blob", "built column indexes"),
    table("system", "available_ranges", "keyspace_name text", "",
        "ranges set<blob>",
        "available keyspace/ranges during bootstrap/replace that are ready to be served"),
    table("system", "available_ranges_v2", "keyspace_name text", "",
        "full_ranges set<blob>, transient_ranges set<blob>",
        "available keyspace/ranges during bootstrap/replace that are ready to be served"),
    table("system", "built_views", "keyspace_name text", "view_name text",
        "status_replicated boolean", "built views"),
    table("system", "compaction_history", "id timeuuid", "",
        "bytes_in bigint, bytes_out bigint, columnfamily_name text, compacted_at timestamp, \
         compaction_properties frozen<map<text, text>>, keyspace_name text, rows_merged map<int, \
         bigint>",
        "week-long compaction history"),
    table("system", "local", "key text", "",
        "bootstrapped text, broadcast_address inet, broadcast_port int, cluster_name text, \
         cql_version text, data_center text, gossip_generation int, host_id uuid, \
         listen_address inet, listen_port int, native_protocol_version text, partitioner text, \
         rack text, release_version text, rpc_address inet, rpc_port int, schema_version uuid, \
         tokens set<text>, truncated_at map<uuid, blob>",
        "information about the local node"),
    table("system", "paxos_repair_history", "keyspace_name text", "table_name text",
        "points frozen<list<frozen<tuple<blob, timeuuid>>>>", "paxos repair history"),
    table("system", "peer_events", "peer inet", "",
        "hints_dropped map<timeuuid, int>", "events related to peers"),
    table("system", "peer_events_v2", "peer inet", "peer_port int",
        "hints_dropped map<timeuuid, int>", "events related to peers"),
    table("system", "peers", "peer inet", "",
        "data_center text, host_id uuid, preferred_ip inet, rack text, release_version text, \
         rpc_address inet, schema_version uuid, tokens set<text>",
        "information about known peers in the cluster"),
    table("system", "peers_v2", "peer inet", "peer_port int",
        "data_center text, host_id uuid, native_address inet, native_port int, preferred_ip inet, \
         preferred_port int, rack text, release_version text, schema_version uuid, tokens set<text>",
        "information about known peers in the cluster"),
    table("system", "prepared_statements", "prepared_id blob", "",
        "logged_keyspace text, query_string text", "prepared statements"),
    table("system", "repairs", "parent_id timeuuid", "",
        "cfids set<uuid>, coordinator inet, coordinator_port int, last_update timestamp, \
         participants set<inet>, participants_wp set<text>, ranges set<blob>, repaired_at timestamp, \
         started_at timestamp, state int",
        "repairs"),
    table("system", "size_estimates",
        "keyspace_name text", "table_name text, range_start text, range_end text",
        "mean_partition_size bigint, partitions_count bigint",
        "per-table primary range size estimates, table is deprecated in favor of table_estimates"),
    table("system", "sstable_activity", "keyspace_name text, columnfamily_name text, generation int", "",
        "rate_120m double, rate_15m double", "historic sstable read rates"),
    table("system", "sstable_activity_v2", "keyspace_name text, table_name text, id text", "",
        "rate_120m double, rate_15m double", "historic sstable read rates"),
    table("system", "table_estimates",
        "keyspace_name text", "table_name text, range_type text, range_start text, range_end text",
        "mean_partition_size bigint, partitions_count bigint", "per-table range size estimates"),
    table("system", "top_partitions", "keyspace_name text", "table_name text, top_type text",
        "last_update timestamp, top frozen<list<frozen<tuple<text, bigint>>>>", "Stores the top partitions"),
    table("system", "transferred_ranges", "operation text, keyspace_name text", "peer inet",
        "ranges set<blob>", "record of transferred ranges for streaming operation"),
    table("system", "transferred_ranges_v2", "operation text, keyspace_name text", "peer inet, peer_port int",
        "ranges set<blob>", "record of transferred ranges for streaming operation"),
    table("system", "view_builds_in_progress",
        "keyspace_name text", "view_name text, start_token text, end_token text",
        "keys_built bigint, last_token text", "views builds current progress"),
];
