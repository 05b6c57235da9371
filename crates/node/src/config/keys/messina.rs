//! Keys without a counterpart in `cassandra.yaml`; those of `scylla.yaml` that have an effect are here, too.

use super::Effect::{Checks, Sets};
use super::{Key, key, set, some_port, uuid};
use crate::config::log_levels;
use crate::config::value::Shape::{Address, Flag, Map, OneOf, PlainSize, Rate, Text, Whole};
use crate::config::value::{LONG, PORT};

const LEVELS: &[&str] = &["trace", "debug", "info", "warn", "error"];

pub(super) const KEYS: &[Key] = &[
    key("api_address", Address, "127.0.0.1", Sets(|c, v| c.api_address = v.address())),
    key("api_port", PORT, "10000", Sets(|c, v| c.api_port = some_port(v))),
    // In Cassandra a system property, cassandra.commitlog.ignorereplayerrors.
    key("commitlog_ignore_replay_errors", Flag, "false", Sets(|c, v| c.ignore_replay_errors = v.flag())),
    key("data_center", Text, "datacenter1", Sets(|c, v| c.data_center = v.text())),
    key("default_log_level", OneOf(LEVELS), "info", Sets(|c, v| c.pieces.log_level = Some(v.text()))),
    key("host_id", Text, "null", Checks(|c, v| set(&mut c.host_id, Some(uuid(&v.text())?)))),
    key(
        "io_requests_limit",
        LONG,
        "-1",
        Sets(|c, v| c.device_limits.requests_per_second = u64::try_from(v.whole()).unwrap_or(0)),
    ),
    key("io_throughput_limit", Rate, "null", Sets(|c, v| c.device_limits.bytes_per_second = v.size())),
    key("log_format", OneOf(&["text", "json"]), "text", Sets(|c, v| c.log_json = v.text() == "json")),
    key(
        "log_level",
        Text,
        "info",
        Checks(|c, v| set(&mut c.pieces.log_levels, Some(log_levels(&v.text())?))),
    ),
    key("logger_log_level", Map, "null", Checks(|c, v| set(&mut c.pieces.loggers, loggers(&v.text())?))),
    key(
        "max_concurrent_requests_per_shard",
        LONG,
        "-1",
        Checks(|c, v| set(&mut c.requests_per_shard_max, super::bound(v)?)),
    ),
    key("native_shard_aware_transport_port", PORT, "19042", Sets(|c, v| c.shard_aware_port = some_port(v))),
    key("prometheus_address", Address, "null", Sets(|c, v| c.pieces.prometheus_address = Some(v.address()))),
    key("prometheus_port", PORT, "9180", Sets(|c, v| c.pieces.prometheus_port = Some(v.whole() as u16))),
    key(
        "query_page_size_in_bytes",
        PlainSize(1),
        "1048576",
        Checks(|c, v| set(&mut c.page_bytes, super::within(v, 1 << 10..=64 << 20)?)),
    ),
    key("rack", Text, "rack1", Sets(|c, v| c.rack = v.text())),
    key(
        "commitlog_sync_batch_window_in_ms",
        Whole(0, i32::MAX as i64),
        "null",
        super::Effect::Idle("a batch is synced as soon as the disk is free"),
    ),
    key("workdir", Text, "null", Sets(|c, v| c.pieces.workdir = Some(v.text().into()))),
];

/// `{storage=debug, cql=trace}`, as a map of a document is shown.
fn loggers(text: &str) -> Result<Vec<(String, String)>, String> {
    let expected = || "a map of modules to levels, such as {storage: debug}".to_string();
    let inner = text.strip_prefix('{').and_then(|t| t.strip_suffix('}')).ok_or_else(expected)?;
    let pairs = inner.split(',').map(str::trim).filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let (module, level) = pair.split_once('=').ok_or_else(expected)?;
            let level = LEVELS.iter().find(|known| **known == level).ok_or_else(expected)?;
            Ok((module.to_string(), level.to_string()))
        })
        .collect()
}
