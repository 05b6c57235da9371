//! Table options and replication: from `name = value` to checked settings, kept in Cassandra's spelling.

use crate::ast::{Property, PropertyValue};
use crate::error::{Result, configuration, invalid, syntax};
use crate::limits;
use crate::sub_options::{caching, compaction, compression, retry, simple, tombstone_gc};
use schema::{Replication, TOMBSTONE_GC, TableOptions};
use std::collections::BTreeMap;

/// Applies WITH properties on top of options. Unknown names and values out of range are errors.
pub(crate) fn apply_properties(options: &mut TableOptions, properties: &[Property]) -> Result<()> {
    for property in properties {
        apply_property(options, &property.name, &property.value)?;
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
                    "bloom_filter_fp_chance must be larger than 6.71E-5 and less than or equal to 1.0 (got {})",
                    java_double(chance)
                ));
            }
            options.bloom_filter_fp_chance = chance;
        }
        "crc_check_chance" => {
            let chance = float(name, value)?;
            if !(0.0..=1.0).contains(&chance) {
                return configuration(format!(
                    "crc_check_chance must be larger than or equal to 0 and smaller than or equal to 1.0 (got {})",
                    java_double(chance)
                ));
            }
            options.crc_check_chance = chance;
        }
        "caching" => options.caching = caching(map(name, value)?)?,
        "compaction" => options.compaction = compaction(map(name, value)?)?,
        "compression" => options.compression = compression(map(name, value)?)?,
        "extensions" => {
            let pairs = map(name, value)?;
            let gc = options.extensions.remove_entry(TOMBSTONE_GC);
            options.extensions =
                pairs.into_iter().map(|(k, v)| Ok((k, extension(&v)?))).collect::<Result<_>>()?;
            // It lies among them, and has a property of its own.
            if let Some((name, gc)) = gc {
                options.extensions.entry(name).or_insert(gc);
            }
        }
        "tombstone_gc" => {
            let text = tombstone_gc(map(name, value)?)?;
            options.extensions.insert(TOMBSTONE_GC.to_string(), text.into_bytes());
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
        "memtable" => match text(name, value)?.as_str() {
            "default" => options.memtable = None,
            other => return configuration(format!("Memtable configuration \"{other}\" not found.")),
        },
        "speculative_retry" => options.speculative_retry = retry(&text(name, value)?)?,
        "additional_write_policy" => options.additional_write_policy = retry(&text(name, value)?)?,
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
        _ => return syntax(format!("Unknown property '{name}'")),
    }
    Ok(())
}

/// A number as Cassandra prints it: `1.0E-5`.
pub(crate) fn java_double(number: f64) -> String {
    types::Value::Double(number).to_cql()
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
            "Invalid boolean value {text} for '{name}'. Positive values can be '1', 'true' or 'yes'. Negative values can be '0', 'false' or 'no'."
        )),
    }
}

fn extension(value: &str) -> Result<Vec<u8>> {
    match value.strip_prefix("0x").and_then(types::text::parse_hex) {
        Some(bytes) => Ok(bytes),
        None => Ok(value.as_bytes().to_vec()),
    }
}

/// Replicas where nothing says how many, as text: Cassandra's `default_keyspace_rf`.
const DEFAULT_FACTOR: &str = "1";

/// What CREATE or ALTER KEYSPACE says.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct KeyspaceSettings {
    pub replication: Option<Replication>,
    pub durable_writes: Option<bool>,
}

/// Reads the properties of a keyspace.
/// `datacenters`: those that exist; `replication_factor` of the network strategy spreads over them. `before`: what the
/// keyspace has so far, which stays where the new settings name nothing else.
pub(crate) fn keyspace_settings(
    name: &str,
    properties: &[Property],
    datacenters: &[String],
    before: Option<&Replication>,
) -> Result<KeyspaceSettings> {
    let mut out = KeyspaceSettings { replication: None, durable_writes: None };
    for property in properties {
        match property.name.as_str() {
            "replication" => {
                let given = map("replication", &property.value)?;
                out.replication = Some(replication(name, given, datacenters, before)?);
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
    before: Option<&Replication>,
) -> Result<Replication> {
    // Of the simple strategy, which counts replicas without regard to where they are.
    let factor_before = match before {
        Some(Replication::Simple { factor }) => Some(factor.to_string()),
        Some(Replication::NetworkTopology { .. } | Replication::Local) | None => None,
    };
    let Some(class) = given.remove("class") else {
        return configuration("Missing replication strategy class");
    };
    match simple(&class) {
        "SimpleStrategy" => {
            let factor = given.remove("replication_factor").or(factor_before);
            let factor = factor.unwrap_or_else(|| DEFAULT_FACTOR.to_string());
            if let Some(other) = given.keys().next() {
                return configuration(format!(
                    "Unrecognized strategy option {{{other}}} passed to SimpleStrategy for keyspace {keyspace}"
                ));
            }
            Ok(Replication::Simple { factor: replication_factor(&factor)? })
        }
        "NetworkTopologyStrategy" => {
            let everywhere = given.remove("replication_factor");
            let before = match before {
                Some(Replication::NetworkTopology { factors }) => Some(factors.clone()),
                Some(Replication::Simple { .. } | Replication::Local) | None => None,
            };
            let factors = match (everywhere, before) {
                (None, Some(before)) if given.is_empty() => before,
                (None, _) if !given.is_empty() => BTreeMap::new(),
                // The factor is of data centers that have none yet.
                (everywhere, before) => {
                    let factor = everywhere.or(factor_before).unwrap_or_else(|| DEFAULT_FACTOR.to_string());
                    let factor = replication_factor(&factor)?;
                    let mut factors: BTreeMap<_, _> =
                        datacenters.iter().map(|dc| (dc.clone(), factor)).collect();
                    factors.extend(before.unwrap_or_default());
                    factors
                }
            };
            network_factors(keyspace, given, datacenters, factors)
        }
        "LocalStrategy" => {
            invalid("Unable to use given strategy class: LocalStrategy is reserved for internal use.")
        }
        _ => configuration(format!(
            "Unable to find replication strategy class 'org.apache.cassandra.locator.{}'",
            simple(&class)
        )),
    }
}

/// What the network strategy says of single data centers, on top of what all of them have.
fn network_factors(
    keyspace: &str,
    given: BTreeMap<String, String>,
    datacenters: &[String],
    mut factors: BTreeMap<String, u32>,
) -> Result<Replication> {
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

fn replication_factor(text: &str) -> Result<u32> {
    match text.parse::<i64>() {
        Ok(factor) if factor < 0 => {
            configuration(format!("Replication factor must be non-negative, found {factor}"))
        }
        Ok(factor) => match u32::try_from(factor) {
            Ok(factor) if factor <= 1_000 => Ok(factor),
            _ => configuration(format!("Replication factor must not exceed 1000; found {factor}")),
        },
        Err(_) => configuration(format!("For input string: \"{text}\"")),
    }
}
