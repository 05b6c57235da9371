//! Timeouts, thresholds and logs of requests.

use super::Effect::{Checks, Idle, Later, Sets};
use super::reasons::{FUNCTIONS, GUARDRAILS, JVM, REPAIR, THREADS};
use super::{Key, key, most, set, some_time};
use crate::config::value::Shape::{Flag, OneOf, Size, Time};
use crate::config::value::{INT, KIB, MIB, MS, SECOND};

const CONSISTENCY: &[&str] = &[
    "ANY",
    "ONE",
    "TWO",
    "THREE",
    "QUORUM",
    "ALL",
    "LOCAL_QUORUM",
    "EACH_QUORUM",
    "SERIAL",
    "LOCAL_SERIAL",
    "LOCAL_ONE",
    "NODE_LOCAL",
];

pub(super) const KEYS: &[Key] = &[
    key("allow_extra_insecure_udfs", Flag, "false", Later(FUNCTIONS)),
    key("allow_insecure_udfs", Flag, "false", Later(FUNCTIONS)),
    key("available_processors", INT, "-1", Idle(JVM)),
    key("batch_size_fail_threshold", Size(KIB), "50KiB", Sets(|c, v| c.batch_fail_bytes = v.size())),
    key("batch_size_warn_threshold", Size(KIB), "5KiB", Sets(|c, v| c.batch_warn_bytes = v.size())),
    key(
        "cas_contention_timeout",
        Time(MS),
        "1800ms",
        Checks(|c, v| set(&mut c.cas_contention_timeout, some_time(v)?)),
    ),
    key("client_request_size_metrics_enabled", Flag, "true", Later("sizes of requests are not measured")),
    key("concurrent_counter_writes", INT, "32", Idle(THREADS)),
    key("concurrent_materialized_view_builders", INT, "1", Idle(THREADS)),
    key("concurrent_materialized_view_writes", INT, "32", Idle(THREADS)),
    key("concurrent_reads", INT, "32", Idle(THREADS)),
    key("concurrent_writes", INT, "32", Idle(THREADS)),
    key("coordinator_read_size_fail_threshold", Size(1), "null", Later(GUARDRAILS)),
    key("coordinator_read_size_warn_threshold", Size(1), "null", Later(GUARDRAILS)),
    key(
        "counter_write_request_timeout",
        Time(MS),
        "5000ms",
        Checks(|c, v| set(&mut c.counter_write_timeout, some_time(v)?)),
    ),
    key(
        "force_new_prepared_statement_behaviour",
        Flag,
        "false",
        Idle("ids of prepared statements include the keyspace where it matters"),
    ),
    key(
        "ideal_consistency_level",
        OneOf(CONSISTENCY),
        "null",
        Later("the level that was asked for is the only one that is measured"),
    ),
    key("local_read_size_fail_threshold", Size(1), "null", Later(GUARDRAILS)),
    key("local_read_size_warn_threshold", Size(1), "null", Later(GUARDRAILS)),
    key("page_size_fail_threshold", INT, "-1", Later(GUARDRAILS)),
    key("page_size_warn_threshold", INT, "-1", Later(GUARDRAILS)),
    key(
        "prepared_statements_cache_size",
        Size(MIB),
        "null",
        Later("prepared statements are counted, not weighed"),
    ),
    key(
        "range_request_timeout",
        Time(MS),
        "10000ms",
        Checks(|c, v| set(&mut c.range_timeout, some_time(v)?)),
    ),
    key("read_request_timeout", Time(MS), "5000ms", Checks(|c, v| set(&mut c.read_timeout, some_time(v)?))),
    key("read_thresholds_enabled", Flag, "false", Later(GUARDRAILS)),
    key("repair_request_timeout", Time(MS), "120000ms", Later(REPAIR)),
    key("request_timeout", Time(MS), "10000ms", Idle("every request has a timeout of its own kind")),
    key("row_index_read_size_fail_threshold", Size(1), "null", Later(GUARDRAILS)),
    key("row_index_read_size_warn_threshold", Size(1), "null", Later(GUARDRAILS)),
    key("scripted_user_defined_functions_enabled", Flag, "false", Later(FUNCTIONS)),
    key("slow_query_log_timeout", Time(MS), "500ms", Sets(|c, v| c.slow_query_timeout = v.time())),
    key("tombstone_failure_threshold", INT, "100000", Sets(|c, v| c.tombstone_fail = most(v))),
    key("tombstone_warn_threshold", INT, "1000", Sets(|c, v| c.tombstone_warn = most(v))),
    key("trace_type_query_ttl", Time(SECOND), "1d", Later("traces are kept in memory")),
    key("trace_type_repair_ttl", Time(SECOND), "7d", Later("traces are kept in memory")),
    key(
        "truncate_request_timeout",
        Time(MS),
        "60000ms",
        Checks(|c, v| set(&mut c.truncate_timeout, some_time(v)?)),
    ),
    key(
        "unlogged_batch_across_partitions_warn_threshold",
        INT,
        "10",
        Sets(|c, v| c.batch_warn_partitions = most(v)),
    ),
    key("use_statements_enabled", Flag, "true", Later(FUNCTIONS)),
    key("user_defined_functions_enabled", Flag, "false", Later(FUNCTIONS)),
    key("user_defined_functions_fail_timeout", Time(MS), "1500ms", Later(FUNCTIONS)),
    key("user_defined_functions_threads_enabled", Flag, "true", Later(FUNCTIONS)),
    key("user_defined_functions_warn_timeout", Time(MS), "500ms", Later(FUNCTIONS)),
    key("user_function_timeout_policy", OneOf(&["ignore", "die", "die_immediate"]), "die", Later(FUNCTIONS)),
    key("write_request_timeout", Time(MS), "2000ms", Checks(|c, v| set(&mut c.write_timeout, some_time(v)?))),
];
