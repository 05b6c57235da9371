//! Everything that turns something on, off or over, and the small questions about it.

use crate::context::{Context, Unknown};
use crate::error::Error;
use crate::http::escape;
use crate::java;
use crate::rest::Pair;
use std::collections::BTreeMap;

const TIMEOUTS: &str = "(read, range, write, counterwrite, cascontention, truncate, internodeconnect, internodeuser, \
    internodestreaminguser, misc (general rpc_timeout_in_ms))";

const LEVELS: [&str; 7] = ["OFF", "ERROR", "WARN", "INFO", "DEBUG", "TRACE", "ALL"];

/// `flush [ks [tables]]`.
pub fn flush(context: &mut Context<'_>) -> Result<(), Error> {
    match context.keyspace_if()?.map(str::to_owned) {
        None => context.node.post("/storage_service/flush", &[]),
        Some(keyspace) => {
            let tables = context.tables_of(&keyspace, Unknown::Fails)?.unwrap_or_default();
            let path = format!("/storage_service/keyspace_flush/{}", escape(&keyspace));
            context.node.post(&path, &if tables.is_empty() { vec![] } else { vec![("cf", tables.as_str())] })
        }
    }
}

/// `drain`: no more writes, everything on disk.
pub fn drain(context: &mut Context<'_>) -> Result<(), Error> {
    context.node.post("/storage_service/drain", &[])
}

/// `version [-v]`.
pub fn version(context: &mut Context<'_>) -> Result<(), Error> {
    let release: String = context.node.get("/storage_service/release_version", &[])?;
    context.line(format!("ReleaseVersion: {release}"));
    if context.given.has("-v") {
        context.line("GitSHA: Unknown");
    }
    Ok(())
}

/// `statusbinary`, `statusgossip`, `statusbackup`.
pub fn running(context: &mut Context<'_>, path: &str) -> Result<(), Error> {
    let running: bool = context.node.get(path, &[])?;
    context.line(if running { "running" } else { "not running" });
    Ok(())
}

/// `enablebinary`, `disablebinary`.
pub fn binary(context: &mut Context<'_>, on: bool) -> Result<(), Error> {
    let path = "/storage_service/native_transport";
    if on { context.node.post(path, &[]) } else { context.node.delete(path, &[]) }
}

/// `enablebackup`, `disablebackup`.
pub fn backup(context: &mut Context<'_>, on: bool) -> Result<(), Error> {
    let value = if on { "true" } else { "false" };
    context.node.post("/storage_service/incremental_backups", &[("value", value)])
}

/// `getlogginglevels`.
pub fn getlogginglevels(context: &mut Context<'_>) -> Result<(), Error> {
    let levels: Vec<Pair<String>> = context.node.get("/storage_service/logging_level", &[])?;
    context.line(format!("\n{:<50}{:>10}", "Logger Name", "Log Level"));
    for level in levels {
        context.line(format!("{:<50}{:>10}", level.key, level.value.to_uppercase()));
    }
    Ok(())
}

/// `setlogginglevel [logger [level]]`: without a level the logger has none of its own, without a logger all are as
/// configured. Words that are no level stand for debug, as Cassandra's logger takes them.
pub fn setlogginglevel(context: &mut Context<'_>) -> Result<(), Error> {
    let set = |context: &Context<'_>, logger: &str, level: &str| {
        context.node.post(&format!("/system/logger/{}", escape(logger)), &[("level", level)])
    };
    let arguments = context.arguments().to_vec();
    let level = match arguments.as_slice() {
        [_, level] => level.to_ascii_uppercase(),
        _ => String::new(),
    };
    let logger = arguments.first().map(String::as_str).unwrap_or_default();
    match (logger.trim().is_empty(), level.trim().is_empty()) {
        (true, true) => {
            let levels: Vec<Pair<String>> = context.node.get("/storage_service/logging_level", &[])?;
            levels.iter().try_for_each(|own| set(context, &own.key, ""))
        }
        (false, true) if logger.eq_ignore_ascii_case("ROOT") => {
            Err(Error::Failed("The level of the root logger cannot be set to null".into()))
        }
        (_, true) => set(context, logger, ""),
        (_, false) if LEVELS.contains(&level.as_str()) => set(context, logger, &level),
        (_, false) => set(context, logger, "DEBUG"),
    }
}

/// `gettimeout type`.
pub fn gettimeout(context: &mut Context<'_>) -> Result<(), Error> {
    let [kind] = context.arguments() else {
        return Err(Error::usage(format!("gettimeout requires a timeout type, one of {TIMEOUTS}")));
    };
    let timeouts: BTreeMap<String, f64> = context.node.get("/messina/timeouts", &[])?;
    let Some(timeout) = timeouts.get(kind) else {
        return Err(Error::usage(format!("Timeout type requires one of {TIMEOUTS}")));
    };
    let line = format!("Current timeout for type {kind}: {timeout} ms");
    context.line(line);
    Ok(())
}

/// `gettraceprobability`.
pub fn gettraceprobability(context: &mut Context<'_>) -> Result<(), Error> {
    let probability: f64 = context.node.get("/storage_service/trace_probability", &[])?;
    context.line(format!("Current trace probability: {}", java::double(probability)));
    Ok(())
}

/// `settraceprobability value`.
pub fn settraceprobability(context: &mut Context<'_>) -> Result<(), Error> {
    let value: f64 = context.arguments().last().and_then(|text| text.trim().parse().ok()).unwrap_or(f64::NAN);
    if !(0.0..=1.0).contains(&value) {
        return Err(Error::usage("Trace probability must be between 0 and 1"));
    }
    let now: f64 = context.node.get("/storage_service/trace_probability", &[])?;
    if now == value {
        return Ok(());
    }
    context.node.post("/storage_service/trace_probability", &[("probability", &value.to_string())])
}

/// `getsstables [-hf] ks table key`: the files that may hold a partition.
pub fn getsstables(context: &mut Context<'_>) -> Result<(), Error> {
    let [keyspace, table, key] = context.arguments() else {
        return Err(Error::usage("getsstables requires ks, cf and key args"));
    };
    if !context.node.table_names()?.iter().any(|name| name.ks == *keyspace && name.cf == *table) {
        return Err(Error::Refused(format!("ColumnFamilyStore for {keyspace}/{table} not found.")));
    }
    if context.given.has("-hf") {
        check_hex(key)?;
    }
    let path = format!("/column_family/sstables/by_key/{}", escape(&format!("{keyspace}:{table}")));
    let mut parameters = vec![("key", key.as_str())];
    if context.given.has("-hf") {
        parameters.push(("format", "hex"));
    }
    let files: Vec<String> = context.node.get(&path, &parameters)?;
    for file in files {
        context.line(file);
    }
    Ok(())
}

fn check_hex(text: &str) -> Result<(), Error> {
    if !text.len().is_multiple_of(2) {
        return Err(Error::usage("An hex string representing bytes must have an even length"));
    }
    if !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(Error::usage(format!("Non-hex characters in {text}")));
    }
    Ok(())
}

/// `2026-11-21T13:06:55.103`: milliseconds since the epoch as a time of day in UTC.
pub fn local_time(millis: i64) -> String {
    let (days, of_day) = (millis.div_euclid(86_400_000), millis.rem_euclid(86_400_000));
    let (year, month, day) = base::calendar::civil(days);
    let (seconds, ms) = (of_day / 1000, of_day % 1000);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{ms:03}",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60
    )
}

/// `2026-11-21T13:07:03.854Z`; whole seconds go without a fraction.
pub fn instant(millis: i64) -> String {
    let text = local_time(millis);
    format!("{}Z", text.strip_suffix(".000").unwrap_or(&text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_utc() {
        assert_eq!(local_time(1_795_266_415_103), "2026-11-21T13:06:55.103");
        assert_eq!(local_time(-1), "1969-12-31T23:59:59.999");
        assert_eq!(instant(951_782_400_000), "2000-02-29T00:00:00Z");
        assert_eq!(instant(1_795_266_423_854), "2026-11-21T13:07:03.854Z");
    }
}
