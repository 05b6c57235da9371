//! Table options and replication: from `name = value` to checked settings, kept in Cassandra's spelling.

use crate::ast::{Property, PropertyValue};
use crate::error::{Result, configuration, syntax};
use crate::limits;
use schema::{Replication, TableOptions};
use std::collections::BTreeMap;

/// Applies WITH properties on top of options. Unknown names and values out of range are errors.
pub(crate) fn apply_properties(options: &mut TableOptions, properties: &[Property]) -> Result<()> {
    for (index, property) in properties.iter().enumerate() {
        let name = property.name.as_str();
        if properties[..index].iter().any(|p| p.name == name) {
            return syntax(format!("Multiple definitions for property '{name}'"));
        }
        apply_property(options, name, &property.value)?;
    }
    if options.max_index_interval < options.min_index_interval {
        return configuration(format!(
            "max_index_interval must be greater than or equal to min_index_interval ({}) (got {})",
            options.min_index_interval, options.max_index_interval
        ));
    }
    Ok(())
}

fn apply_property(options: &mut TableOptions, name: &str, value: &PropertyValue) -> Result<()> {
    match name {
        "comment" => options.comment = text(name, value)?,
        "bloom_filter_fp_chance" => {
            let chance = float(name, value)?;
            if !(chance > 6.71e-5 && chance <= 1.0) {
                return configuration(format!(
                    "bloom_filter_fp_chance must be larger than 6.71E-5 and less than or equal to 1.0 (got {chance:?})"
                ));
            }
            options.bloom_filter_fp_chance = chance;
        }
        "crc_check_chance" => {
            let chance = float(name, value)?;
            if !(0.0..=1.0).contains(&chance) {
                return configuration(format!(
                    "crc_check_chance must be larger than or equal to 0 and smaller than or equal to 1.0 (got {chance:?})"
                ));
            }
            options.crc_check_chance = chance;
        }
        "caching" => options.caching = caching(map(name, value)?)?,
        "compaction" => options.compaction = compaction(map(name, value)?)?,
        "compression" => options.compression = compression(map(name, value)?)?,
        "extensions" => {
            let pairs = map(name, value)?;
            options.extensions =
                pairs.into_iter().map(|(k, v)| Ok((k, extension(&v)?))).collect::<Result<_>>()?;
        }
        "default_time_to_live" => {
            options.default_time_to_live = integer(name, value, 0)?;
            if i64::from(options.default_time_to_live) > limits::TTL_SECONDS {
                return configuration(format!(
                    "default_time_to_live must be less than or equal to {} (got {})",
                    limits::TTL_SECONDS,
                    options.default_time_to_live
                ));
            }
        }
        "gc_grace_seconds" => options.gc_grace_seconds = integer(name, value, 0)?,
        "min_index_interval" => options.min_index_interval = integer(name, value, 1)?,
        "max_index_interval" => options.max_index_interval = integer(name, value, 1)?,
        "memtable_flush_period_in_ms" => options.memtable_flush_period_in_ms = integer(name, value, 0)?,
        "memtable" => options.memtable = Some(text(name, value)?).filter(|m| m != "default"),
        "speculative_retry" => options.speculative_retry = retry(name, &text(name, value)?)?,
        "additional_write_policy" => options.additional_write_policy = retry(name, &text(name, value)?)?,
        "read_repair" => {
            let mode = text(name, value)?.to_uppercase();
            if !matches!(mode.as_str(), "BLOCKING" | "NONE") {
                return configuration(format!(
                    "Invalid value for read_repair: {mode} (expected BLOCKING or NONE)"
                ));
            }
            options.read_repair = mode;
        }
        "cdc" => options.cdc = boolean(name, value)?.then_some(true),
        "allow_auto_snapshot" => options.allow_auto_snapshot = boolean(name, value)?,
        "incremental_backups" => options.incremental_backups = boolean(name, value)?,
        // Cassandra 4.0 dropped these and still takes them, so that old scripts run.
        "dclocal_read_repair_chance" | "read_repair_chance" => {
            float(name, value)?;
        }
        _ => return syntax(format!("Unknown property '{name}'")),
    }
    Ok(())
}

fn text(name: &str, value: &PropertyValue) -> Result<String> {
    match value {
        PropertyValue::Scalar(text) => Ok(text.clone()),
        PropertyValue::Map(_) => {
            syntax(format!("Invalid value for property '{name}'. It should be a string"))
        }
    }
}

fn map(name: &str, value: &PropertyValue) -> Result<BTreeMap<String, String>> {
    match value {
        PropertyValue::Map(pairs) => Ok(pairs.iter().cloned().collect()),
        PropertyValue::Scalar(_) => {
            syntax(format!("Invalid value for property '{name}'. It should be a map."))
        }
    }
}

fn float(name: &str, value: &PropertyValue) -> Result<f64> {
    let text = text(name, value)?;
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() => Ok(number),
        _ => syntax(format!("Invalid double value {text} for '{name}'")),
    }
}

fn integer(name: &str, value: &PropertyValue, least: i32) -> Result<i32> {
    let text = text(name, value)?;
    match text.parse::<i32>() {
        Ok(number) if number < least => {
            configuration(format!("{name} must be greater than or equal to {least} (got {number})"))
        }
        Ok(number) => Ok(number),
        Err(_) => syntax(format!("Invalid integer value {text} for '{name}'")),
    }
}

fn boolean(name: &str, value: &PropertyValue) -> Result<bool> {
    let text = text(name, value)?;
    match text.to_ascii_lowercase().as_str() {
        "true" | "1" | "yes" => Ok(true),
        "false" | "0" | "no" => Ok(false),
        _ => syntax(format!(
            "Invalid boolean value {text} for '{name}'. Positive values can be '1', 'true' or 'yes'. All others will be interpreted as negative"
        )),
    }
}

fn extension(value: &str) -> Result<Vec<u8>> {
    match value.strip_prefix("0x").and_then(types::text::parse_hex) {
        Some(bytes) => Ok(bytes),
        None => Ok(value.as_bytes().to_vec()),
    }
}

fn caching(given: BTreeMap<String, String>) -> Result<BTreeMap<String, String>> {
    let mut out = TableOptions::cassandra().caching;
    for (key, value) in given {
        let upper = value.to_uppercase();
        let known = match key.as_str() {
            "keys" => matches!(upper.as_str(), "ALL" | "NONE"),
            "rows_per_partition" => matches!(upper.as_str(), "ALL" | "NONE") || value.parse::<u32>().is_ok(),
            // What ScyllaDB's scripts write.
            "enabled" => continue,
            _ => {
                return configuration(format!(
                    "Invalid caching sub-options [{key}]: only 'keys' and 'rows_per_partition' are allowed"
                ));
            }
        };
        if !known {
            return configuration(format!(
                "Invalid value '{value}' for caching sub-option '{key}': only 'ALL' and 'NONE' are allowed"
            ));
        }
        out.insert(key, upper);
    }
    Ok(out)
}

const COMPACTIONS: [&str; 5] = [
    "SizeTieredCompactionStrategy",
    "LeveledCompactionStrategy",
    "TimeWindowCompactionStrategy",
    "UnifiedCompactionStrategy",
    "IncrementalCompactionStrategy",
];
const COMPRESSORS: [&str; 5] =
    ["LZ4Compressor", "SnappyCompressor", "DeflateCompressor", "ZstdCompressor", "NoopCompressor"];

fn simple(class: &str) -> &str {
    class.rsplit('.').next().unwrap_or(class)
}

fn compaction(mut given: BTreeMap<String, String>) -> Result<BTreeMap<String, String>> {
    let Some(class) = given.remove("class") else {
        return configuration("Missing sub-option 'class' for the 'compaction' option.");
    };
    let name = simple(&class).to_string();
    if !COMPACTIONS.contains(&name.as_str()) {
        return configuration(format!(
            "Unable to find compaction strategy class 'org.apache.cassandra.db.compaction.{name}'"
        ));
    }
    let number = |key: &str, default: i64| match given.get(key).map(|v| v.parse::<i64>()) {
        None => Ok(default),
        Some(Ok(number)) => Ok(number),
        Some(Err(_)) => configuration(format!("{} is not a parsable int (base10) for {key}", given[key])),
    };
    let (least, most) = (number("min_threshold", 4)?, number("max_threshold", 32)?);
    if least < 2 {
        return configuration(format!("Min compaction threshold cannot be less than 2 (got {least})"));
    }
    if most < least {
        return configuration(format!(
            "Max compaction threshold ({most}) cannot be less than min compaction threshold ({least})"
        ));
    }
    if matches!(name.as_str(), "SizeTieredCompactionStrategy" | "TimeWindowCompactionStrategy") {
        given.insert("min_threshold".into(), least.to_string());
        given.insert("max_threshold".into(), most.to_string());
    }
    given.insert("class".into(), format!("org.apache.cassandra.db.compaction.{name}"));
    Ok(given)
}

fn compression(mut given: BTreeMap<String, String>) -> Result<BTreeMap<String, String>> {
    let off = || BTreeMap::from([("enabled".to_string(), "false".to_string())]);
    let enabled = given.remove("enabled");
    if given.is_empty() || enabled.is_some_and(|e| e.eq_ignore_ascii_case("false")) {
        return Ok(off());
    }
    let class = given.remove("class").or_else(|| given.remove("sstable_compression"));
    let Some(class) = class else {
        return configuration("Missing sub-option 'class' for the 'compression' option.");
    };
    if class.is_empty() {
        return Ok(off());
    }
    let name = simple(&class).to_string();
    if !COMPRESSORS.contains(&name.as_str()) {
        return configuration(format!(
            "Could not create Compression for type org.apache.cassandra.io.compress.{name}"
        ));
    }
    let length = given.remove("chunk_length_in_kb").or_else(|| given.remove("chunk_length_kb"));
    let length = length.unwrap_or_else(|| "16".to_string());
    match length.parse::<u32>() {
        Ok(kib) if kib.is_power_of_two() => {}
        Ok(_) => return configuration("chunk_length_in_kb must be a power of 2"),
        Err(_) => return configuration(format!("Invalid value [{length}] for chunk_length_in_kb.")),
    }
    given.remove("crc_check_chance");
    given.insert("chunk_length_in_kb".into(), length);
    given.insert("class".into(), format!("org.apache.cassandra.io.compress.{name}"));
    Ok(given)
}

/// Speculative retry policies in their short spelling: `99p`, `50ms`, `ALWAYS`, `NEVER`, `MIN(…)`, `MAX(…)`.
fn retry(name: &str, given: &str) -> Result<String> {
    let upper = given.trim().to_uppercase();
    let bad = || configuration(format!("Invalid value {given} for option '{name}'"));
    if matches!(upper.as_str(), "ALWAYS" | "NEVER" | "NONE") {
        return Ok(if upper == "NONE" { "NEVER".to_string() } else { upper });
    }
    if (upper.starts_with("MIN(") || upper.starts_with("MAX(")) && upper.ends_with(')') {
        return Ok(upper.replace("PERCENTILE", "p").replace('P', "p").replace("MS", "ms"));
    }
    let percentile = upper.strip_suffix("PERCENTILE").or_else(|| upper.strip_suffix('P'));
    if let Some(number) = percentile {
        return match number.trim().parse::<f64>() {
            Ok(p) if (0.0..100.0).contains(&p) => Ok(format!("{p}p")),
            _ => bad(),
        };
    }
    match upper.strip_suffix("MS").map(|n| n.trim().parse::<f64>()) {
        Some(Ok(ms)) if ms >= 0.0 && ms.is_finite() => Ok(format!("{ms}ms")),
        _ => bad(),
    }
}

/// What CREATE or ALTER KEYSPACE says.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct KeyspaceSettings {
    pub replication: Option<Replication>,
    pub durable_writes: Option<bool>,
}

/// Reads the properties of a keyspace.
/// `datacenters`: those that exist; `replication_factor` of the network strategy spreads over them.
pub(crate) fn keyspace_settings(
    name: &str,
    properties: &[Property],
    datacenters: &[String],
) -> Result<KeyspaceSettings> {
    let mut out = KeyspaceSettings { replication: None, durable_writes: None };
    for property in properties {
        match property.name.as_str() {
            "replication" => {
                let given = map("replication", &property.value)?;
                out.replication = Some(replication(name, given, datacenters)?);
            }
            "durable_writes" => out.durable_writes = Some(boolean("durable_writes", &property.value)?),
            // ScyllaDB's; its drivers' tests write them, and they change nothing here.
            "tablets" | "storage" => {}
            other => return syntax(format!("Unknown property '{other}'")),
        }
    }
    Ok(out)
}

fn replication(
    keyspace: &str,
    mut given: BTreeMap<String, String>,
    datacenters: &[String],
) -> Result<Replication> {
    let Some(class) = given.remove("class") else {
        return configuration("Missing replication strategy class");
    };
    match simple(&class) {
        "SimpleStrategy" => {
            // Cassandra's default_keyspace_rf.
            let factor = given.remove("replication_factor").unwrap_or_else(|| "1".to_string());
            if let Some(other) = given.keys().next() {
                return configuration(format!(
                    "Unrecognized strategy option {{{other}}} passed to SimpleStrategy for keyspace {keyspace}"
                ));
            }
            Ok(Replication::Simple { factor: replication_factor(&factor)? })
        }
        "NetworkTopologyStrategy" => {
            let everywhere = given.remove("replication_factor");
            let mut factors = BTreeMap::new();
            if let Some(factor) = everywhere {
                let factor = replication_factor(&factor)?;
                factors.extend(datacenters.iter().map(|dc| (dc.clone(), factor)));
            }
            for (dc, factor) in given {
                if !datacenters.is_empty() && !datacenters.contains(&dc) {
                    return configuration(format!(
                        "Unrecognized strategy option {{{dc}}} passed to NetworkTopologyStrategy for keyspace {keyspace}"
                    ));
                }
                factors.insert(dc, replication_factor(&factor)?);
            }
            factors.retain(|_, factor| *factor > 0);
            if factors.is_empty() {
                return configuration("Configuration for at least one datacenter must be present");
            }
            Ok(Replication::NetworkTopology { factors })
        }
        "LocalStrategy" => {
            configuration("Unable to use given strategy class: LocalStrategy is reserved for internal use.")
        }
        _ => configuration(format!(
            "Unable to find replication strategy class 'org.apache.cassandra.locator.{}'",
            simple(&class)
        )),
    }
}

fn replication_factor(text: &str) -> Result<u32> {
    match text.parse::<i64>() {
        Ok(factor) if factor < 0 => {
            configuration(format!("Replication factor must be non-negative, found {factor}"))
        }
        Ok(factor) => match u32::try_from(factor) {
            Ok(factor) if factor <= 1_000 => Ok(factor),
            _ => configuration(format!("Replication factor must not exceed 1000; found {factor}")),
        },
        Err(_) => configuration(format!("Replication factor must be numeric; found {text}")),
    }
}
