//! The tables of `system_traces` and `system_distributed`.

use super::{Definition, table};

#[rustfmt::skip]
pub(super) const TRACES: &[Definition] = &[
    table("system_traces", "events", "session_id uuid", "event_id timeuuid",
        "activity text, source inet, source_elapsed int, source_port int, thread text", "tracing events"),
    table("system_traces", "sessions", "session_id uuid", "",
        "client inet, command text, coordinator inet, coordinator_port int, duration int, \
         parameters map<text, text>, request text, started_at timestamp",
        "tracing sessions"),
];

#[rustfmt::skip]
pub(super) const DISTRIBUTED: &[Definition] = &[
    table("system_distributed", "parent_repair_history", "parent_id timeuuid", "",
        "columnfamily_names set<text>, exception_message text, exception_stacktrace text, \
         finished_at timestamp, keyspace_name text, options map<text, text>, \
         requested_ranges set<text>, started_at timestamp, successful_ranges set<text>",
        "Repair history"),
    table("system_distributed", "partition_denylist", "ks_name text, table_name text", "key blob",
        "", "Partition keys which have been denied access"),
    table("system_distributed", "repair_history", "keyspace_name text, columnfamily_name text", "id timeuuid",
        "coordinator inet, coordinator_port int, exception_message text, exception_stacktrace text, \
         finished_at timestamp, parent_id timeuuid, participants set<inet>, \
         participants_v2 set<text>, range_begin text, range_end text, started_at timestamp, \
         status text",
        "Repair history"),
    table("system_distributed", "view_build_status", "keyspace_name text, view_name text", "host_id uuid",
        "status text", "Materialized View build status"),
];
