//! The names keys had before Cassandra 4.1, when units were part of the name.
//!
//! The list is that of Cassandra 5.0's own configuration class; a number under an old name becomes a text with its unit
//! under the new one, in the way that Cassandra converts it.

/// How a value under an old name becomes one under the new name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Conversion {
    /// Only the name has changed.
    Same,
    /// A number of these units.
    Unit(&'static str),
    /// A number of these units, perhaps with a part after the point, which is rounded.
    Rounded(&'static str),
    /// A number of these units; a negative one leaves the standard.
    UnitOrNull(&'static str),
    /// A number of these units; a negative one is none of them.
    UnitOrZero(&'static str),
    /// A number of megabits per second.
    Megabits,
    /// A number that counted this many more.
    Less(i64),
}

use Conversion::*;

/// Old name, new name, conversion.
pub(crate) const OLD_NAMES: &[(&str, &str, Conversion)] = &[
    ("batch_size_fail_threshold_in_kb", "batch_size_fail_threshold", Unit("KiB")),
    ("batch_size_warn_threshold_in_kb", "batch_size_warn_threshold", Unit("KiB")),
    ("batchlog_replay_throttle_in_kb", "batchlog_replay_throttle", Unit("KiB")),
    ("cache_load_timeout_seconds", "cache_load_timeout", UnitOrZero("s")),
    ("cas_contention_timeout_in_ms", "cas_contention_timeout", Unit("ms")),
    ("cdc_free_space_check_interval_ms", "cdc_free_space_check_interval", Unit("ms")),
    ("cdc_total_space_in_mb", "cdc_total_space", Unit("MiB")),
    ("column_index_cache_size_in_kb", "column_index_cache_size", Unit("KiB")),
    ("column_index_size_in_kb", "column_index_size", Unit("KiB")),
    ("commitlog_segment_size_in_mb", "commitlog_segment_size", Unit("MiB")),
    ("commitlog_sync_group_window_in_ms", "commitlog_sync_group_window", Rounded("ms")),
    ("commitlog_sync_period_in_ms", "commitlog_sync_period", Unit("ms")),
    ("commitlog_total_space_in_mb", "commitlog_total_space", UnitOrNull("MiB")),
    ("compaction_large_partition_warning_threshold", "partition_size_warn_threshold", Same),
    ("compaction_large_partition_warning_threshold_mb", "partition_size_warn_threshold", Unit("MiB")),
    ("compaction_throughput_mb_per_sec", "compaction_throughput", Unit("MiB/s")),
    ("compaction_tombstone_warning_threshold", "partition_tombstones_warn_threshold", Same),
    ("counter_cache_size_in_mb", "counter_cache_size", Unit("MiB")),
    ("counter_write_request_timeout_in_ms", "counter_write_request_timeout", Unit("ms")),
    ("credentials_update_interval_in_ms", "credentials_update_interval", UnitOrNull("ms")),
    ("credentials_validity_in_ms", "credentials_validity", Unit("ms")),
    ("cross_node_timeout", "internode_timeout", Same),
    ("dynamic_snitch_reset_interval_in_ms", "dynamic_snitch_reset_interval", Unit("ms")),
    ("dynamic_snitch_update_interval_in_ms", "dynamic_snitch_update_interval", Unit("ms")),
    ("enable_drop_compact_storage", "drop_compact_storage_enabled", Same),
    ("enable_materialized_views", "materialized_views_enabled", Same),
    ("enable_sasi_indexes", "sasi_indexes_enabled", Same),
    ("enable_scripted_user_defined_functions", "scripted_user_defined_functions_enabled", Same),
    ("enable_transient_replication", "transient_replication_enabled", Same),
    ("enable_user_defined_functions", "user_defined_functions_enabled", Same),
    ("enable_user_defined_functions_threads", "user_defined_functions_threads_enabled", Same),
    ("file_cache_size_in_mb", "file_cache_size", Unit("MiB")),
    ("gc_log_threshold_in_ms", "gc_log_threshold", Unit("ms")),
    ("gc_warn_threshold_in_ms", "gc_warn_threshold", Unit("ms")),
    ("hinted_handoff_throttle_in_kb", "hinted_handoff_throttle", Unit("KiB")),
    ("hints_flush_period_in_ms", "hints_flush_period", Unit("ms")),
    ("index_summary_capacity_in_mb", "index_summary_capacity", Unit("MiB")),
    ("index_summary_resize_interval_in_minutes", "index_summary_resize_interval", UnitOrNull("m")),
    ("inter_dc_stream_throughput_outbound_megabits_per_sec", "inter_dc_stream_throughput_outbound", Megabits),
    (
        "internode_application_receive_queue_capacity_in_bytes",
        "internode_application_receive_queue_capacity",
        Unit("B"),
    ),
    (
        "internode_application_receive_queue_reserve_endpoint_capacity_in_bytes",
        "internode_application_receive_queue_reserve_endpoint_capacity",
        Unit("B"),
    ),
    (
        "internode_application_receive_queue_reserve_global_capacity_in_bytes",
        "internode_application_receive_queue_reserve_global_capacity",
        Unit("B"),
    ),
    (
        "internode_application_send_queue_capacity_in_bytes",
        "internode_application_send_queue_capacity",
        Unit("B"),
    ),
    (
        "internode_application_send_queue_reserve_endpoint_capacity_in_bytes",
        "internode_application_send_queue_reserve_endpoint_capacity",
        Unit("B"),
    ),
    (
        "internode_application_send_queue_reserve_global_capacity_in_bytes",
        "internode_application_send_queue_reserve_global_capacity",
        Unit("B"),
    ),
    ("internode_max_message_size_in_bytes", "internode_max_message_size", Unit("B")),
    ("internode_recv_buff_size_in_bytes", "internode_socket_receive_buffer_size", Unit("B")),
    ("internode_send_buff_size_in_bytes", "internode_socket_send_buffer_size", Unit("B")),
    ("internode_socket_receive_buffer_size_in_bytes", "internode_socket_receive_buffer_size", Unit("B")),
    ("internode_socket_send_buffer_size_in_bytes", "internode_socket_send_buffer_size", Unit("B")),
    ("internode_streaming_tcp_user_timeout_in_ms", "internode_streaming_tcp_user_timeout", Unit("ms")),
    ("internode_tcp_connect_timeout_in_ms", "internode_tcp_connect_timeout", Unit("ms")),
    ("internode_tcp_user_timeout_in_ms", "internode_tcp_user_timeout", Unit("ms")),
    ("key_cache_size_in_mb", "key_cache_size", Unit("MiB")),
    ("keyspace_count_warn_threshold", "keyspaces_warn_threshold", Less(5)),
    ("max_hint_window_in_ms", "max_hint_window", Unit("ms")),
    ("max_hints_file_size_in_mb", "max_hints_file_size", Unit("MiB")),
    ("max_mutation_size_in_kb", "max_mutation_size", Unit("KiB")),
    ("max_value_size_in_mb", "max_value_size", Unit("MiB")),
    ("memtable_heap_space_in_mb", "memtable_heap_space", Unit("MiB")),
    ("memtable_offheap_space_in_mb", "memtable_offheap_space", Unit("MiB")),
    ("min_free_space_per_drive_in_mb", "min_free_space_per_drive", Unit("MiB")),
    ("native_transport_idle_timeout_in_ms", "native_transport_idle_timeout", Unit("ms")),
    (
        "native_transport_max_concurrent_requests_in_bytes",
        "native_transport_max_request_data_in_flight",
        UnitOrNull("B"),
    ),
    (
        "native_transport_max_concurrent_requests_in_bytes_per_ip",
        "native_transport_max_request_data_in_flight_per_ip",
        UnitOrNull("B"),
    ),
    ("native_transport_max_frame_size_in_mb", "native_transport_max_frame_size", Unit("MiB")),
    (
        "native_transport_receive_queue_capacity_in_bytes",
        "native_transport_receive_queue_capacity",
        Unit("B"),
    ),
    ("networking_cache_size_in_mb", "networking_cache_size", Unit("MiB")),
    ("periodic_commitlog_sync_lag_block_in_ms", "periodic_commitlog_sync_lag_block", Unit("ms")),
    ("permissions_update_interval_in_ms", "permissions_update_interval", UnitOrNull("ms")),
    ("permissions_validity_in_ms", "permissions_validity", Unit("ms")),
    ("prepared_statements_cache_size_mb", "prepared_statements_cache_size", Unit("MiB")),
    ("range_request_timeout_in_ms", "range_request_timeout", Unit("ms")),
    ("read_request_timeout_in_ms", "read_request_timeout", Unit("ms")),
    ("repair_request_timeout_in_ms", "repair_request_timeout", Unit("ms")),
    ("repair_session_space_in_mb", "repair_session_space", Unit("MiB")),
    ("request_timeout_in_ms", "request_timeout", Unit("ms")),
    ("roles_update_interval_in_ms", "roles_update_interval", UnitOrNull("ms")),
    ("roles_validity_in_ms", "roles_validity", Unit("ms")),
    ("row_cache_size_in_mb", "row_cache_size", Unit("MiB")),
    ("slow_query_log_timeout_in_ms", "slow_query_log_timeout", Unit("ms")),
    ("sstable_preemptive_open_interval_in_mb", "sstable_preemptive_open_interval", UnitOrNull("MiB")),
    ("stream_throughput_outbound_megabits_per_sec", "stream_throughput_outbound", Megabits),
    ("streaming_keep_alive_period_in_secs", "streaming_keep_alive_period", Unit("s")),
    ("table_count_warn_threshold", "tables_warn_threshold", Same),
    ("tracetype_query_ttl", "trace_type_query_ttl", Unit("s")),
    ("tracetype_repair_ttl", "trace_type_repair_ttl", Unit("s")),
    ("trickle_fsync_interval_in_kb", "trickle_fsync_interval", Unit("KiB")),
    ("truncate_request_timeout_in_ms", "truncate_request_timeout", Unit("ms")),
    ("user_defined_function_fail_timeout", "user_defined_functions_fail_timeout", Unit("ms")),
    ("user_defined_function_warn_timeout", "user_defined_functions_warn_timeout", Unit("ms")),
    ("validation_preview_purge_head_start_in_sec", "validation_preview_purge_head_start", UnitOrZero("s")),
    ("write_request_timeout_in_ms", "write_request_timeout", Unit("ms")),
];

/// The new name and the conversion of an old one.
pub(crate) fn new_name(old: &str) -> Option<(&'static str, Conversion)> {
    OLD_NAMES.iter().find(|row| row.0 == old).map(|row| (row.1, row.2))
}

/// A value with its unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Converted {
    /// What to read under the new name.
    Text(String),
    /// The standard holds.
    Null,
}

impl Conversion {
    /// Errors: what was expected.
    pub(crate) fn convert(self, text: &str) -> Result<Converted, String> {
        let expected = || match self {
            Unit(unit) | UnitOrNull(unit) | UnitOrZero(unit) | Rounded(unit) => {
                format!("a number without a unit, it counts in {unit}")
            }
            _ => "a whole number".to_string(),
        };
        let number = || text.parse::<i64>().map_err(|_| expected());
        let unsigned = || text.parse::<u64>().map_err(|_| expected());
        let with_unit = match self {
            Same => text.to_string(),
            Unit(unit) => format!("{}{unit}", unsigned()?),
            Rounded(unit) => {
                let number = text.parse::<f64>().ok().filter(|n| (0.0..1e15).contains(n));
                format!("{}{unit}", number.ok_or_else(expected)?.round() as u64)
            }
            UnitOrNull(_) if number()? < 0 => return Ok(Converted::Null),
            UnitOrZero(unit) => format!("{}{unit}", number()?.max(0)),
            UnitOrNull(unit) => format!("{}{unit}", unsigned()?),
            // A megabit is 125,000 bytes.
            Megabits => format!("{}B/s", unsigned()?.checked_mul(125_000).ok_or_else(expected)?),
            Less(count) => number()?.saturating_sub(count).to_string(),
        };
        Ok(Converted::Text(with_unit))
    }
}
