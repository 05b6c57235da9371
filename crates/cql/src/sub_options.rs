//! The options that are maps: caching, compaction, compression; and the small language of speculative retries.
//!
//! Each is checked as Cassandra checks it and kept in its spelling, so that DESCRIBE prints what Cassandra prints. What the
//! storage does not act on is kept all the same: scripts carry it from cluster to cluster.

use crate::error::{Result, configuration};
use schema::{SpeculativeRetry, TableOptions, Wait};
use std::collections::BTreeMap;
use std::str::FromStr;

type Map = BTreeMap<String, String>;

/// The class name behind the last point.
pub(crate) fn simple(class: &str) -> &str {
    class.rsplit('.').next().unwrap_or(class)
}

/// Checks `caching`.
pub(crate) fn caching(given: Map) -> Result<Map> {
    let mut out = TableOptions::cassandra().caching;
    for (key, value) in given {
        let upper = value.to_uppercase();
        let word = matches!(upper.as_str(), "ALL" | "NONE");
        let (known, allowed) = match key.as_str() {
            "keys" => (word, "only 'ALL' and 'NONE' are allowed"),
            "rows_per_partition" => {
                (word || value.parse::<u32>().is_ok(), "only 'ALL', 'NONE', and integer values are allowed")
            }
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
                "Invalid value '{value}' for caching sub-option '{key}': {allowed}"
            ));
        }
        out.insert(key, upper);
    }
    Ok(out)
}

/// What every strategy takes.
const COMMON: [&str; 6] = [
    "enabled",
    "log_all",
    "only_purge_repaired_tombstones",
    "tombstone_compaction_interval",
    "tombstone_threshold",
    "unchecked_tombstone_compaction",
];
const SIZE_TIERED: [&str; 5] =
    ["bucket_high", "bucket_low", "max_threshold", "min_sstable_size", "min_threshold"];
const INCREMENTAL: [&str; 2] = ["space_amplification_goal", "sstable_size_in_mb"];
const LEVELED: [&str; 3] = ["fanout_size", "single_sstable_uplevel", "sstable_size_in_mb"];
const TIME_WINDOW: [&str; 5] = [
    "compaction_window_size",
    "compaction_window_unit",
    "expired_sstable_check_frequency_seconds",
    "timestamp_resolution",
    "unsafe_aggressive_sstable_expiration",
];
const UNIFIED: [&str; 10] = [
    "base_shard_count",
    "expired_sstable_check_frequency_seconds",
    "flush_size_override",
    "max_sstables_to_compact",
    "min_sstable_size",
    "overlap_inclusion_method",
    "scaling_parameters",
    "sstable_growth",
    "target_sstable_size",
    "unsafe_aggressive_sstable_expiration",
];

/// Checks the `compaction` of tables that are made without a choice: a class and its options.
pub fn compaction_options(class: &str, mut options: Map) -> Result<Map> {
    options.insert("class".into(), class.into());
    compaction(options)
}

/// Checks `compaction`.
pub(crate) fn compaction(mut given: Map) -> Result<Map> {
    let Some(class) = given.remove("class") else {
        return configuration("Missing sub-option 'class' for the 'compaction' option");
    };
    let name = simple(&class).to_string();
    let known: Vec<&str> = match name.as_str() {
        "SizeTieredCompactionStrategy" => [&COMMON[..], &SIZE_TIERED].concat(),
        "LeveledCompactionStrategy" => [&COMMON[..], &SIZE_TIERED, &LEVELED].concat(),
        "TimeWindowCompactionStrategy" => [&COMMON[..], &SIZE_TIERED, &TIME_WINDOW].concat(),
        "UnifiedCompactionStrategy" => [&COMMON[..], &UNIFIED].concat(),
        // ScyllaDB's, whose scripts name it; its options are those of size tiers and a few of its own.
        "IncrementalCompactionStrategy" => [&COMMON[..], &SIZE_TIERED, &INCREMENTAL].concat(),
        _ => {
            return configuration(format!(
                "Unable to find compaction strategy class 'org.apache.cassandra.db.compaction.{name}'"
            ));
        }
    };
    let unknown: Vec<&str> = given.keys().map(String::as_str).filter(|key| !known.contains(key)).collect();
    if !unknown.is_empty() {
        let unknown = unknown.join(", ");
        return configuration(format!("Properties specified [{unknown}] are not understood by {name}"));
    }
    check_common(&given)?;
    if name == "UnifiedCompactionStrategy" {
        check_unified(&given)?;
    } else {
        check_size_tiered(&given)?;
        check_leveled(&given)?;
        check_time_window(&given)?;
        check_incremental(&given)?;
        for (key, default) in [("max_threshold", "32"), ("min_threshold", "4")] {
            given.entry(key.to_string()).or_insert_with(|| default.to_string());
        }
    }
    given.insert("class".into(), format!("org.apache.cassandra.db.compaction.{name}"));
    Ok(given)
}

/// What to tell who asks for options of `compaction` that are kept and not acted on; `None`: all are.
pub fn unused_compaction_options(compaction: &Map) -> Option<String> {
    // Those of ScyllaDB's scripts: runs have levels by density, as of the unified strategy.
    const UNUSED: [&str; 4] = ["bucket_high", "bucket_low", "min_sstable_size", "space_amplification_goal"];
    let class = compaction.get("class").map(|class| simple(class))?;
    let unused: Vec<&str> = UNUSED.into_iter().filter(|key| compaction.contains_key(*key)).collect();
    (class == "IncrementalCompactionStrategy" && !unused.is_empty()).then(|| {
        let threshold = compaction.get("min_threshold").map_or("4", String::as_str);
        format!(
            "Compaction options [{}] have no effect with {class}, which compacts as UnifiedCompactionStrategy with \
             scaling_parameters T{threshold}",
            unused.join(", ")
        )
    })
}

fn integer<T: FromStr>(map: &Map, key: &str) -> Result<Option<T>> {
    match map.get(key).map(|value| (value, value.parse::<T>())) {
        None => Ok(None),
        Some((_, Ok(number))) => Ok(Some(number)),
        Some((value, Err(_))) => configuration(format!("{value} is not a parsable int (base10) for {key}")),
    }
}

fn float(map: &Map, key: &str, what: &str) -> Result<Option<f64>> {
    match map.get(key).map(|value| (value, value.parse::<f64>())) {
        None => Ok(None),
        Some((_, Ok(number))) if number.is_finite() => Ok(Some(number)),
        Some((value, _)) => configuration(format!("{value} is not a parsable {what} for {key}")),
    }
}

fn is_boolean(map: &Map, key: &str) -> std::result::Result<(), String> {
    match map.get(key) {
        Some(value) if !matches!(value.to_ascii_lowercase().as_str(), "true" | "false") => Err(value.clone()),
        _ => Ok(()),
    }
}

fn check_common(map: &Map) -> Result<()> {
    if let Some(threshold) = float(map, "tombstone_threshold", "int (base10)")?
        && threshold < 0.0
    {
        return configuration(format!("tombstone_threshold must be greater than 0, but was {threshold:.6}"));
    }
    if let Some(interval) = integer::<i64>(map, "tombstone_compaction_interval")?
        && interval < 0
    {
        return configuration(format!(
            "tombstone_compaction_interval must be greater than 0, but was {interval}"
        ));
    }
    if let Err(value) = is_boolean(map, "unchecked_tombstone_compaction") {
        return configuration(format!(
            "'unchecked_tombstone_compaction' should be either 'true' or 'false', not '{value}'"
        ));
    }
    if let Err(value) = is_boolean(map, "log_all") {
        return configuration(format!("'log_all' should either be 'true' or 'false', not {value}"));
    }
    if let Err(value) = is_boolean(map, "enabled") {
        return configuration(format!("enabled should either be 'true' or 'false', not {value}"));
    }
    Ok(())
}

fn check_size_tiered(map: &Map) -> Result<()> {
    let threshold = |key: &str, default| match map.get(key).map(|value| (value, value.parse::<i64>())) {
        None => Ok(default),
        Some((_, Ok(number))) => Ok(number),
        Some((value, Err(_))) => configuration(format!(
            "Invalid value {value} for '{key}' compaction sub-option - must be an integer"
        )),
    };
    let (least, most) = (threshold("min_threshold", 4)?, threshold("max_threshold", 32)?);
    if least <= 0 || most <= 0 {
        return configuration(
            "Disabling compaction by setting compaction thresholds to 0 has been removed, set the compaction option \
             'enabled' to false instead.",
        );
    }
    if least < 2 {
        return configuration(format!("Min compaction threshold cannot be less than 2 (got {least})"));
    }
    if least > most {
        return configuration(format!(
            "Min compaction threshold (got {least}) cannot be greater than max compaction threshold (got {most})"
        ));
    }
    if let Some(size) = integer::<i64>(map, "min_sstable_size")?
        && size < 0
    {
        return configuration(format!("min_sstable_size must be non negative: {size}"));
    }
    let low = float(map, "bucket_low", "float")?.unwrap_or(0.5);
    let high = float(map, "bucket_high", "float")?.unwrap_or(1.5);
    if high <= low {
        return configuration(format!(
            "bucket_high value ({high:?}) is less than or equal to the bucket_low value ({low:?})"
        ));
    }
    Ok(())
}

fn check_leveled(map: &Map) -> Result<()> {
    for key in ["sstable_size_in_mb", "fanout_size"] {
        if let Some(number) = integer::<i32>(map, key)?
            && number < 1
        {
            return configuration(format!("{key} must be larger than 0, but was {number}"));
        }
    }
    Ok(())
}

fn check_incremental(map: &Map) -> Result<()> {
    match float(map, "space_amplification_goal", "float")? {
        Some(goal) if goal <= 1.0 || goal > 2.0 => {
            configuration(format!("space_amplification_goal must be between 1.0 and 2.0, but was {goal:?}"))
        }
        _ => Ok(()),
    }
}

fn check_time_window(map: &Map) -> Result<()> {
    const UNITS: [&str; 3] = ["MINUTES", "HOURS", "DAYS"];
    const RESOLUTIONS: [&str; 7] =
        ["NANOSECONDS", "MICROSECONDS", "MILLISECONDS", "SECONDS", "MINUTES", "HOURS", "DAYS"];
    for (key, words) in [("compaction_window_unit", &UNITS[..]), ("timestamp_resolution", &RESOLUTIONS)] {
        if let Some(value) = map.get(key)
            && !words.contains(&value.as_str())
        {
            return configuration(format!("{value} is not valid for {key}"));
        }
    }
    if let Some(size) = integer::<i32>(map, "compaction_window_size")?
        && size < 1
    {
        return configuration(format!("{size} must be greater than 1 for compaction_window_size"));
    }
    if let Some(seconds) = integer::<i64>(map, "expired_sstable_check_frequency_seconds")?
        && seconds < 0
    {
        return configuration(format!(
            "expired_sstable_check_frequency_seconds must not be negative, but was {seconds}"
        ));
    }
    let key = "unsafe_aggressive_sstable_expiration";
    if let Err(value) = is_boolean(map, key) {
        return configuration(format!("{key} is not 'true' or 'false' ({value})"));
    }
    if map.get(key).is_some_and(|value| value.eq_ignore_ascii_case("true")) {
        return configuration(format!("{key} is requested but not allowed"));
    }
    Ok(())
}

/// In the order in which Cassandra looks at them, so that of several mistakes the same one is told.
fn check_unified(map: &Map) -> Result<()> {
    check_scaling(map)?;
    if let Some(count) = integer::<i32>(map, "base_shard_count")?
        && count < 1
    {
        return configuration(format!("Invalid configuration, base_shard_count should be positive: {count}"));
    }
    let target = check_size(map, "target_sstable_size")?.unwrap_or(f64::from(1u32 << 30));
    check_size(map, "flush_size_override")?;
    integer::<i32>(map, "max_sstables_to_compact")?;
    check_unified_expiry(map)?;
    if let Some(method) = map.get("overlap_inclusion_method")
        && !matches!(method.to_uppercase().as_str(), "NONE" | "SINGLE" | "TRANSITIVE")
    {
        return configuration(format!(
            "Invalid overlap inclusion method {method}. The valid options are [NONE, SINGLE, TRANSITIVE]."
        ));
    }
    check_size_min(map, target)?;
    check_growth(map)
}

fn check_scaling(map: &Map) -> Result<()> {
    for parameter in map.get("scaling_parameters").iter().flat_map(|list| list.split(',')) {
        let parameter = parameter.trim();
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let fits = parameter == "N"
            || parameter.strip_prefix(['L', 'T']).is_some_and(digits)
            || digits(parameter.strip_prefix(['+', '-']).unwrap_or(parameter));
        if !fits {
            return configuration(format!(
                "Scaling parameter {parameter} must match N|L[0-9]+|T[0-9]+|[+-]?[0-9]+"
            ));
        }
        let fanout = parameter.strip_prefix(['L', 'T']).and_then(|digits| digits.parse::<u32>().ok());
        if fanout.is_some_and(|fanout| fanout < 2) {
            return configuration(format!("Fan factor cannot be lower than 2 in {parameter}"));
        }
    }
    Ok(())
}

/// A size of a mebibyte or more, as it was given.
fn check_size(map: &Map, key: &str) -> Result<Option<f64>> {
    let Some(value) = map.get(key) else { return Ok(None) };
    let Some(bytes) = bytes_of(value) else {
        let why =
            if value.ends_with('B') { "it is no number with a prefix" } else { "does not end in unit B" };
        return configuration(format!("{key} {value} is not a valid size in bytes: {value} {why}"));
    };
    if bytes >= BYTES_END && key == "target_sstable_size" {
        return configuration(format!("{key} {value} is out of range of Long."));
    }
    if bytes < f64::from(1u32 << 20) {
        return configuration(format!("{key} {value} is not acceptable, size must be at least 1.000MiB"));
    }
    Ok(Some(bytes))
}

/// Results smaller than the least size are not cut, so it must be below the least that the target allows.
fn check_size_min(map: &Map, target: f64) -> Result<()> {
    let key = "min_sstable_size";
    let Some(value) = map.get(key) else { return Ok(()) };
    let Some(bytes) = bytes_of(value).map(|bytes| bytes as i64) else {
        return configuration(format!("{value} is not a valid size in bytes for {key}"));
    };
    if bytes < 0 {
        return configuration(format!(
            "Invalid configuration, {key} should be greater than or equal to 0 (zero)"
        ));
    }
    let target = target.ceil() as i64;
    if bytes >= (target as f64 * std::f64::consts::FRAC_1_SQRT_2).ceil() as i64 {
        return configuration(format!(
            "Invalid configuration, {key} ({}) should be less than 70% of the targetSSTableSize ({})",
            size_text(bytes),
            size_text(target)
        ));
    }
    Ok(())
}

fn check_growth(map: &Map) -> Result<()> {
    let Some(value) = map.get("sstable_growth") else { return Ok(()) };
    let number = value.trim();
    let (number, whole) = match number.strip_suffix('%') {
        Some(percent) => (percent.trim(), 100.0),
        None => (number, 1.0),
    };
    match number.parse::<f64>().map(|number| number / whole) {
        Ok(growth) if (0.0..=1.0).contains(&growth) => Ok(()),
        Ok(_) => configuration(format!("sstable_growth {value} must be between 0 and 1")),
        Err(_) => {
            let why = if number.is_empty() {
                "empty String".into()
            } else {
                format!("For input string: \"{number}\"")
            };
            configuration(format!("sstable_growth is not a valid number between 0 and 1: {why}"))
        }
    }
}

/// Unlike windows of time, levels may not be looked at all the time; and they may be asked for the unsafe way, which Cassandra takes
/// only when it was started for that.
fn check_unified_expiry(map: &Map) -> Result<()> {
    let key = "expired_sstable_check_frequency_seconds";
    match map.get(key).map(|value| (value, value.parse::<i64>())) {
        Some((value, Err(_))) => {
            return configuration(format!("{value} is not a parsable long (base10) for {key}"));
        }
        Some((_, Ok(seconds))) if seconds <= 0 => {
            return configuration(format!("Invalid configuration, {key} should be positive: {seconds}"));
        }
        Some((_, Ok(_))) | None => {}
    }
    let key = "unsafe_aggressive_sstable_expiration";
    match is_boolean(map, key) {
        Err(value) => configuration(format!("{key} should either be 'true' or 'false', not {value}")),
        Ok(()) => Ok(()),
    }
}

/// Bytes that cannot be counted any more.
const BYTES_END: f64 = 9_223_372_036_854_775_808.0;

/// A size such as `1GiB`, `100 MB` or `8B`; `None` when it is none.
fn bytes_of(text: &str) -> Option<f64> {
    let number = text.strip_suffix('B')?;
    let (number, base) = match number.strip_suffix('i') {
        Some(number) => (number, 1024f64),
        None => (number, 1000f64),
    };
    let power = number.chars().next_back().and_then(|prefix| "KMGTPEZYRQ".find(prefix));
    let (digits, factor) = match power {
        Some(power) => (&number[..number.len() - 1], base.powi(power as i32 + 1)),
        // Of nothing there is no binary kind.
        None if base == 1024.0 => return None,
        None => (number, 1.0),
    };
    let digits = digits.trim_end();
    let plain = digits.strip_prefix(['+', '-']).unwrap_or(digits);
    let fits =
        plain.starts_with(|c: char| c.is_ascii_digit()) && plain.ends_with(|c: char| c.is_ascii_digit());
    if fits { Some(digits.parse::<f64>().ok()? * factor) } else { None }
}

/// As Cassandra prints sizes: `724.077MiB`.
fn size_text(bytes: i64) -> String {
    let units = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    let power = (bytes.max(1).ilog2() / 10) as usize;
    match units.get(power) {
        Some(unit) if power > 0 => format!("{:.3}{unit}B", bytes as f64 / 1024f64.powi(power as i32)),
        _ => format!("{bytes}B"),
    }
}

/// Checks `tombstone_gc`, which is ScyllaDB's, and gives the text that keeps it: `mode=…,propagation_delay_in_seconds=…`.
pub(crate) fn tombstone_gc(given: Map) -> Result<String> {
    const MODES: [&str; 4] = ["disabled", "immediate", "repair", "timeout"];
    let mut text = Vec::new();
    for key in ["mode", "propagation_delay_in_seconds"] {
        let Some(value) = given.get(key) else { continue };
        let fits = if key == "mode" { MODES.contains(&value.as_str()) } else { value.parse::<u32>().is_ok() };
        if !fits {
            return configuration(format!("Invalid value '{value}' for tombstone_gc sub-option '{key}'"));
        }
        text.push(format!("{key}={value}"));
    }
    if let Some(unknown) =
        given.keys().find(|key| !["mode", "propagation_delay_in_seconds"].contains(&key.as_str()))
    {
        return configuration(format!("Unknown sub-option '{unknown}' of tombstone_gc"));
    }
    if !given.contains_key("mode") {
        return configuration("Missing sub-option 'mode' for the 'tombstone_gc' option");
    }
    Ok(text.join(","))
}

const COMPRESSORS: [(&str, &[&str]); 5] = [
    ("DeflateCompressor", &[]),
    ("LZ4Compressor", &["lz4_compressor_type", "lz4_high_compressor_level"]),
    ("NoopCompressor", &[]),
    ("SnappyCompressor", &[]),
    ("ZstdCompressor", &["compression_level"]),
];
/// Largest chunk in KiB: its bytes are counted in 31 bits.
const CHUNK_KIB_MAX: i64 = i32::MAX as i64 / 1024;

/// Checks `compression`.
pub(crate) fn compression(mut given: Map) -> Result<Map> {
    let off = || Ok(Map::from([("enabled".to_string(), "false".to_string())]));
    let enabled = given.remove("enabled").is_none_or(|value| value.eq_ignore_ascii_case("true"));
    if !enabled && !given.is_empty() {
        return configuration("If the 'enabled' option is set to false no other options must be specified");
    }
    if given.is_empty() {
        return off();
    }
    // The second is how ScyllaDB's scripts spell it.
    let class = match (given.remove("class"), given.contains_key("sstable_compression")) {
        (Some(class), false) => Some(class),
        (Some(_), true) => return configuration("Unknown compression options sstable_compression"),
        (None, _) => given.remove("sstable_compression").filter(|class| !class.is_empty()),
    };
    let Some(class) = class else {
        return configuration("Missing sub-option 'class' for the 'compression' option.");
    };
    if class.is_empty() {
        return configuration(
            "The 'class' option must not be empty. To disable compression use 'enabled' : false",
        );
    }
    let name = simple(&class).to_string();
    let Some((_, own)) = COMPRESSORS.iter().find(|(known, _)| *known == name) else {
        return configuration(format!(
            "Could not create Compression for type org.apache.cassandra.io.compress.{name}"
        ));
    };
    let length = given.remove("chunk_length_in_kb").or_else(|| given.remove("chunk_length_kb"));
    let length = length.unwrap_or_else(|| "16".to_string());
    check_chunk_length(&length)?;
    if let Some(ratio) = given.get("min_compress_ratio")
        && !ratio.parse::<f64>().is_ok_and(|ratio| ratio == 0.0 || ratio >= 1.0)
    {
        return configuration("min_compress_ratio can either be 0 or greater than or equal to 1");
    }
    let unknown = |key: &&String| *key != "min_compress_ratio" && !own.contains(&key.as_str());
    if let Some(unknown) = given.keys().find(unknown) {
        return configuration(format!("Unknown compression options {unknown}"));
    }
    check_levels(&given)?;
    given.insert("chunk_length_in_kb".into(), length);
    given.insert("class".into(), format!("org.apache.cassandra.io.compress.{name}"));
    Ok(given)
}

fn check_chunk_length(length: &str) -> Result<()> {
    match length.parse::<i64>() {
        Err(_) => configuration("Invalid value for chunk_length_in_kb"),
        Ok(kib) if kib <= 0 => configuration("Invalid negative or null chunk_length_in_kb"),
        Ok(kib) if kib > CHUNK_KIB_MAX => {
            configuration(format!("Value of chunk_length_in_kb is too large ({kib})"))
        }
        Ok(kib) if kib & (kib - 1) != 0 => configuration("chunk_length_in_kb must be a power of 2"),
        Ok(_) => Ok(()),
    }
}

fn check_levels(given: &Map) -> Result<()> {
    if let Some(kind) = given.get("lz4_compressor_type")
        && !matches!(kind.as_str(), "high" | "fast")
    {
        return configuration(format!(
            "Invalid compressor type '{kind}' specified for LZ4 parameter 'lz4_compressor_type'. Valid options are \
             [high, fast]."
        ));
    }
    if let Some(level) = given.get("lz4_high_compressor_level")
        && !level.parse::<i64>().is_ok_and(|level| (1..=17).contains(&level))
    {
        return configuration(format!(
            "Invalid value [{level}] for parameter 'lz4_high_compressor_level'. Value must be between 1 and 17."
        ));
    }
    if let Some(level) = given.get("compression_level")
        && !level.parse::<i64>().is_ok_and(|level| (-131_072..=22).contains(&level))
    {
        return configuration(format!(
            "ZstdCompressor.create() threw an error: compression_level={level} is invalid"
        ));
    }
    Ok(())
}

/// A part of a speculative retry policy.
fn wait(text: &str) -> Result<Option<Wait>> {
    let upper = text.trim().to_uppercase();
    let percentile = upper.strip_suffix("PERCENTILE").or_else(|| upper.strip_suffix('P'));
    if let Some(Ok(percent)) = percentile.map(|n| n.trim().parse::<f64>()) {
        if percent <= 0.0 || percent >= 100.0 || percent.is_nan() {
            return configuration(format!(
                "Invalid value {text} for PERCENTILE option 'speculative_retry': must be between (0.0 and 100.0)"
            ));
        }
        return Ok(Some(Wait::Percentile(percent)));
    }
    match upper.strip_suffix("MS").map(|n| n.trim().parse::<f64>()) {
        // Whole milliseconds: the rest is cut, as Cassandra does.
        Some(Ok(ms)) if (0.0..2e9).contains(&ms) => Ok(Some(Wait::Millis(ms as u64))),
        _ => Ok(None),
    }
}

/// Checks `speculative_retry` and `additional_write_policy`: `99p`, `50ms`, `ALWAYS`, `NEVER`, `MIN(99p,50ms)`,
/// `MAX(…)`; gives them in Cassandra's spelling.
pub(crate) fn retry(given: &str) -> Result<String> {
    let upper = given.trim().to_uppercase();
    // Of both options Cassandra speaks as of the first.
    let bad = || configuration(format!("Invalid value {given} for option 'speculative_retry'"));
    match upper.as_str() {
        "ALWAYS" => return Ok(SpeculativeRetry::Always.to_string()),
        "NEVER" | "NONE" => return Ok(SpeculativeRetry::Never.to_string()),
        _ => {}
    }
    let hybrid = ["MIN", "MAX"].iter().find_map(|word| {
        let inside = upper.strip_prefix(word)?.trim_start().strip_prefix('(')?.strip_suffix(')')?;
        let of = if *word == "MIN" { SpeculativeRetry::Least } else { SpeculativeRetry::Greatest };
        Some((of, inside))
    });
    let Some((of, inside)) = hybrid else {
        return match wait(given)? {
            Some(wait) => Ok(SpeculativeRetry::After(wait).to_string()),
            None => bad(),
        };
    };
    let Some((first, second)) = inside.split_once(',') else { return bad() };
    let (Some(first), Some(second)) = (wait(first)?, wait(second)?) else { return bad() };
    let kind = match (first, second) {
        (Wait::Percentile(_), Wait::Percentile(_)) => "PERCENTILE",
        (Wait::Millis(_), Wait::Millis(_)) => "FIXED",
        (Wait::Percentile(_), Wait::Millis(_)) => return Ok(of(first, second).to_string()),
        (Wait::Millis(_), Wait::Percentile(_)) => return Ok(of(second, first).to_string()),
    };
    configuration(format!(
        "Invalid value {given} for option 'speculative_retry': MIN()/MAX() arguments should be of different types, \
         but both are of type {kind}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> Map {
        pairs.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect()
    }

    fn told(result: Result<Map>) -> String {
        match result {
            Ok(map) => map.iter().map(|(k, v)| format!("{k}={v}")).collect::<Vec<_>>().join(" "),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn compaction_is_checked_as_cassandra_checks_it() {
        let class = "class=org.apache.cassandra.db.compaction";
        for (given, want) in [
            (&[][..], "Missing sub-option 'class' for the 'compaction' option".to_string()),
            (
                &[("class", "SizeTieredCompactionStrategy"), ("x", "y")],
                "Properties specified [x] are not understood by SizeTieredCompactionStrategy".to_string(),
            ),
            (
                &[("class", "LeveledCompactionStrategy"), ("sstable_size_in_mb", "160")],
                format!(
                    "{class}.LeveledCompactionStrategy max_threshold=32 min_threshold=4 sstable_size_in_mb=160"
                ),
            ),
            (&[("class", "UnifiedCompactionStrategy")], format!("{class}.UnifiedCompactionStrategy")),
            (
                &[("class", "UnifiedCompactionStrategy"), ("target_sstable_size", "1B")],
                "target_sstable_size 1B is not acceptable, size must be at least 1.000MiB".to_string(),
            ),
            (
                &[("class", "TimeWindowCompactionStrategy"), ("compaction_window_unit", "hours")],
                "hours is not valid for compaction_window_unit".to_string(),
            ),
            (
                &[("class", "UnifiedCompactionStrategy"), ("scaling_parameters", "T4, L1")],
                "Fan factor cannot be lower than 2 in L1".to_string(),
            ),
            (
                &[("class", "SizeTieredCompactionStrategy"), ("bucket_low", "2")],
                "bucket_high value (1.5) is less than or equal to the bucket_low value (2.0)".to_string(),
            ),
        ] {
            assert_eq!(told(compaction(map(given))), want);
        }
        for scaling in ["T4,L10,N", "-8", "2, 4"] {
            let given = map(&[("class", "UnifiedCompactionStrategy"), ("scaling_parameters", scaling)]);
            assert!(compaction(given).is_ok(), "{scaling}");
        }
    }

    /// As `UnifiedCompactionStrategy.validateOptions` of Cassandra 5.0.6 answers, word for word.
    #[test]
    fn options_of_levels_are_checked_as_cassandra_checks_them() {
        let least = "Invalid configuration, min_sstable_size";
        let number = "sstable_growth is not a valid number between 0 and 1:";
        let fine = "";
        for (key, value, want) in [
            ("min_sstable_size", "-5B", format!("{least} should be greater than or equal to 0 (zero)")),
            ("min_sstable_size", "0B", fine.into()),
            ("min_sstable_size", "759250124B", fine.into()),
            (
                "min_sstable_size",
                "759250125B",
                format!("{least} (724.077MiB) should be less than 70% of the targetSSTableSize (1.000GiB)"),
            ),
            (
                "min_sstable_size",
                "1GiB",
                format!("{least} (1.000GiB) should be less than 70% of the targetSSTableSize (1.000GiB)"),
            ),
            ("min_sstable_size", "5", "5 is not a valid size in bytes for min_sstable_size".into()),
            ("sstable_growth", "33%", fine.into()),
            ("sstable_growth", " 33 % ", fine.into()),
            ("sstable_growth", "1e-1", fine.into()),
            ("sstable_growth", "110%", "sstable_growth 110% must be between 0 and 1".into()),
            ("sstable_growth", "-1", "sstable_growth -1 must be between 0 and 1".into()),
            ("sstable_growth", "x%", format!("{number} For input string: \"x\"")),
            ("sstable_growth", "%", format!("{number} empty String")),
            ("max_sstables_to_compact", "-1", fine.into()),
            (
                "max_sstables_to_compact",
                "99999999999",
                "99999999999 is not a parsable int (base10) for max_sstables_to_compact".into(),
            ),
            (
                "base_shard_count",
                "99999999999",
                "99999999999 is not a parsable int (base10) for base_shard_count".into(),
            ),
            ("expired_sstable_check_frequency_seconds", "1", fine.into()),
            (
                "expired_sstable_check_frequency_seconds",
                "0",
                "Invalid configuration, expired_sstable_check_frequency_seconds should be positive: 0".into(),
            ),
            (
                "expired_sstable_check_frequency_seconds",
                "x",
                "x is not a parsable long (base10) for expired_sstable_check_frequency_seconds".into(),
            ),
            ("unsafe_aggressive_sstable_expiration", "true", fine.into()),
            (
                "unsafe_aggressive_sstable_expiration",
                "x",
                "unsafe_aggressive_sstable_expiration should either be 'true' or 'false', not x".into(),
            ),
            ("target_sstable_size", "1024KiB", fine.into()),
            ("target_sstable_size", "1e7B", fine.into()),
            ("target_sstable_size", "9EiB", "target_sstable_size 9EiB is out of range of Long.".into()),
            (
                "target_sstable_size",
                "-5B",
                "target_sstable_size -5B is not acceptable, size must be at least 1.000MiB".into(),
            ),
            (
                "target_sstable_size",
                "5",
                "target_sstable_size 5 is not a valid size in bytes: 5 does not end in unit B".into(),
            ),
        ] {
            let found = match compaction(map(&[("class", "UnifiedCompactionStrategy"), (key, value)])) {
                Ok(_) => String::new(),
                Err(error) => error.to_string(),
            };
            assert_eq!(found, want, "{key} = {value}");
        }
    }

    #[test]
    fn sizes_that_cassandra_does_not_read_are_refused() {
        for size in
            ["1kB", "1024kiB", "100MiB ", " 100MiB", "100MiB B", "100iB", "100G iB", "1.B", ".5GiB", "infB"]
        {
            for key in ["target_sstable_size", "flush_size_override", "min_sstable_size"] {
                let given = map(&[("class", "UnifiedCompactionStrategy"), (key, size)]);
                assert!(told(compaction(given)).contains("is not a valid size in bytes"), "{key} = {size}");
            }
        }
        let small = [
            ("class", "UnifiedCompactionStrategy"),
            ("target_sstable_size", "100MiB"),
            ("min_sstable_size", "71MiB"),
        ];
        assert_eq!(
            told(compaction(map(&small))),
            "Invalid configuration, min_sstable_size (71.000MiB) should be less than 70% of the targetSSTableSize \
             (100.000MiB)"
        );
        for (bytes, want) in [(0, "0B"), (1023, "1023B"), (1536, "1.500KiB"), (i64::MAX, "8.000EiB")] {
            assert_eq!(size_text(bytes), want);
        }
    }

    #[test]
    fn windows_of_time_may_be_looked_at_all_the_time() {
        for (seconds, want) in [("0", true), ("-1", false)] {
            let key = "expired_sstable_check_frequency_seconds";
            let given = compaction(map(&[("class", "TimeWindowCompactionStrategy"), (key, seconds)]));
            assert_eq!(given.is_ok(), want, "{seconds}");
        }
    }

    #[test]
    fn options_that_are_not_acted_on_are_told() {
        let given = [
            ("class", "IncrementalCompactionStrategy"),
            ("min_threshold", "8"),
            ("sstable_size_in_mb", "160"),
            ("space_amplification_goal", "1.5"),
            ("bucket_low", "0.4"),
            ("bucket_high", "1.6"),
            ("min_sstable_size", "1000"),
        ];
        let told = |given: &[(&str, &str)]| {
            unused_compaction_options(&compaction(map(given)).expect("understood")).unwrap_or_default()
        };
        assert_eq!(told(&given[..3]), "");
        assert_eq!(
            told(&given[..4]),
            "Compaction options [space_amplification_goal] have no effect with IncrementalCompactionStrategy, which \
             compacts as UnifiedCompactionStrategy with scaling_parameters T8"
        );
        assert!(
            told(&given).contains("[bucket_high, bucket_low, min_sstable_size, space_amplification_goal]")
        );
        assert_eq!(told(&[("class", "SizeTieredCompactionStrategy"), ("bucket_low", "0.4")]), "");
    }

    #[test]
    fn tombstone_gc_has_four_modes() {
        for (given, want) in [
            (&[("mode", "immediate")][..], Ok("mode=immediate")),
            (
                &[("propagation_delay_in_seconds", "60"), ("mode", "repair")],
                Ok("mode=repair,propagation_delay_in_seconds=60"),
            ),
            (&[], Err("Missing sub-option 'mode' for the 'tombstone_gc' option")),
            (&[("mode", "never")], Err("Invalid value 'never' for tombstone_gc sub-option 'mode'")),
            (&[("mode", "timeout"), ("x", "1")], Err("Unknown sub-option 'x' of tombstone_gc")),
        ] {
            let got = tombstone_gc(map(given)).map_err(|error| error.to_string());
            assert_eq!(got.as_deref().map_err(String::as_str), want);
        }
    }

    #[test]
    fn compression_is_checked_as_cassandra_checks_it() {
        let class = "class=org.apache.cassandra.io.compress";
        for (given, want) in [
            (&[][..], "enabled=false".to_string()),
            (&[("class", "LZ4Compressor")], format!("chunk_length_in_kb=16 {class}.LZ4Compressor")),
            (&[("class", "SnappyCompressor"), ("x", "1")], "Unknown compression options x".to_string()),
            (
                &[("class", "LZ4Compressor"), ("chunk_length_in_kb", "15")],
                "chunk_length_in_kb must be a power of 2".to_string(),
            ),
            (
                &[("class", "LZ4Compressor"), ("chunk_length_in_kb", "4194304")],
                "Value of chunk_length_in_kb is too large (4194304)".to_string(),
            ),
            (
                &[("enabled", "false"), ("class", "LZ4Compressor")],
                "If the 'enabled' option is set to false no other options must be specified".to_string(),
            ),
            (
                &[("class", "ZstdCompressor"), ("compression_level", "5")],
                format!("chunk_length_in_kb=16 {class}.ZstdCompressor compression_level=5"),
            ),
        ] {
            assert_eq!(told(compression(map(given))), want);
        }
    }

    #[test]
    fn retries_are_told_in_cassandras_spelling() {
        for (given, want) in [
            ("99.5PERCENTILE", "99.5p"),
            ("50.5ms", "50ms"),
            ("none", "NEVER"),
            ("Always", "ALWAYS"),
            ("MAX(10ms, 90.5p)", "MAX(90.5p,10ms)"),
        ] {
            assert_eq!(retry(given).as_deref(), Ok(want));
        }
        for given in ["x", "101p", "0p", "-1ms", "MIN(99p)", "MIN(99p,98p)", "MIN(1ms,2ms)", "p", "ms"] {
            assert!(retry(given).is_err(), "{given}");
        }
    }
}
