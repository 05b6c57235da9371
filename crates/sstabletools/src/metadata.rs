//! `metadata`: the statistics of an sstable as sstablemetadata of Cassandra 5.0 prints them. Times are in UTC.

use crate::error::Error;
use crate::files::Place;
use crate::histogram::Histogram;
use crate::keys;
use crate::output::Output;
use crate::times;
use crate::values;
use base::Token;
use mutation::{Bound, NO_TIME};
use schema::{BoundSide, Table, clustering_components};
use sstable::{Cardinality, Raw, SizeHistogram, Stats, TombstoneHistogram};
use std::rc::Rc;
use types::float_text;

/// How statistics are printed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MetadataOptions {
    /// Seconds that tombstones are kept, for the estimate of those that could go.
    pub gc_grace_seconds: i64,
    /// Histograms of blocks instead of letters.
    pub unicode: bool,
}

/// Prints the statistics of one sstable.
pub async fn metadata(place: &Place, options: &MetadataOptions, out: &mut Output<'_>) -> Result<(), Error> {
    let raw = Raw::open(&place.dir, place.descriptor).await?;
    let statistics = raw.statistics();
    let (stats, header) = (&statistics.stats, &statistics.header);
    let dir = std::path::absolute(&place.dir).unwrap_or(place.dir.clone());
    field(out, "SSTable", format_args!("{}", dir.join(place.descriptor.to_string()).display()))?;
    field(out, "Partitioner", &statistics.partitioner)?;
    field(out, "Bloom Filter FP chance", float_text::format_double(statistics.bloom_filter_fp_chance))?;
    ranges(stats, &raw, out)?;
    keys_of(&raw, out).await?;
    field(out, "Covered clusterings", covered(raw.table(), stats))?;
    let now_s = runtime::unix_micros().div_euclid(1_000_000);
    let droppable = droppable_ratio(stats, now_s - options.gc_grace_seconds);
    field(out, "Estimated droppable tombstones", float_text::format_double(droppable))?;
    field(out, "SSTable Level", stats.level)?;
    field(out, "Repaired at", commented(stats.repaired_at, date_unless_0(stats.repaired_at / 1000)))?;
    field(out, "Originating host id", uuid_or_none(Some(stats.host_id).filter(|id| *id != 0)))?;
    field(out, "Pending repair", uuid_or_none(stats.pending_repair))?;
    field(out, "Replay positions covered", replayed(stats))?;
    field(out, "totalColumnsSet", stats.columns_set)?;
    field(out, "totalRows", stats.rows)?;
    histograms(stats, options.unicode, out)?;
    let coverage = stats.token_space_coverage.unwrap_or(f64::NAN);
    field(out, "Local token space coverage", float_text::format_double(coverage))?;
    if let Some(keys) = Cardinality::estimate_of(&statistics.cardinality) {
        field(out, "Estimated cardinality", keys)?;
    }
    let base = header.base;
    let ttl = commented(base.min_ttl, duration_unless_0(base.min_ttl));
    field(out, "EncodingStats minTTL", ttl)?;
    field(
        out,
        "EncodingStats minLocalDeletionTime",
        dated(i64::from(base.min_local_time), base.min_local_time),
    )?;
    field(out, "EncodingStats minTimestamp", dated_micros(base.min_timestamp))?;
    field(out, "KeyType", &header.key_type)?;
    field(out, "ClusteringTypes", format_args!("[{}]", header.clustering_types.join(", ")))?;
    field(out, "StaticColumns", columns(&header.statics))?;
    field(out, "RegularColumns", columns(&header.regulars))?;
    field(out, "IsTransient", stats.is_transient)
}

fn field(out: &mut Output<'_>, name: &str, value: impl std::fmt::Display) -> Result<(), Error> {
    out.line(format_args!("{name}: {value}"))
}

/// A value with what it means behind it.
fn commented(value: impl std::fmt::Display, comment: Option<String>) -> String {
    comment.map_or_else(|| value.to_string(), |comment| format!("{value} ({comment})"))
}

/// A date with the number it is behind it.
fn dated(seconds: i64, number: impl std::fmt::Display) -> String {
    format!("{} ({number})", date_unless_0(seconds).unwrap_or("--".into()))
}

/// As [`dated`], of microseconds; 0 is no time.
fn dated_micros(micros: i64) -> String {
    let date = if micros == 0 { "--".into() } else { times::date(micros / 1_000_000) };
    format!("{date} ({micros})")
}

fn date_unless_0(seconds: i64) -> Option<String> {
    (seconds != 0).then(|| times::date(seconds))
}

fn duration_unless_0(seconds: u32) -> Option<String> {
    match seconds {
        0 => None,
        seconds if seconds == i32::MAX as u32 => Some("never".into()),
        seconds => Some(times::in_words(u64::from(seconds))),
    }
}

fn uuid_or_none(id: Option<u128>) -> String {
    id.map_or("--".into(), |id| uuid::Uuid::from_u128(id).to_string())
}

/// A size as this tool writes it: `103.3 kB`.
fn size(bytes: i64) -> String {
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let power = ((bytes as f64).ln() / 1024f64.ln()) as usize;
    let unit = ["k", "M", "G", "T", "P"].get(power - 1).unwrap_or(&"E");
    format!("{:.1} {unit}B", bytes as f64 / 1024f64.powi(power as i32))
}

fn ranges(stats: &Stats, raw: &Raw, out: &mut Output<'_>) -> Result<(), Error> {
    for (name, micros) in
        [("Minimum timestamp", stats.min_timestamp), ("Maximum timestamp", stats.max_timestamp)]
    {
        field(out, name, dated_micros(micros))?;
    }
    let seconds = stats.max_timestamp.wrapping_sub(stats.min_timestamp) / 1_000_000;
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    let text = format!("Days: {days} Hours: {hours} Minutes: {minutes} Seconds: {}", seconds % 60);
    field(out, "Duration", text)?;
    for (name, time) in [
        ("SSTable min local deletion time", stats.min_local_time),
        ("SSTable max local deletion time", stats.max_local_time),
    ] {
        let value = match time {
            NO_TIME => format!("no tombstones ({})", i64::MAX),
            0 => "no tombstones (0)".into(),
            time => dated(i64::from(time), time),
        };
        field(out, name, value)?;
    }
    match raw.compression() {
        None => field(out, "Compressor", "-")?,
        Some(info) => {
            field(
                out,
                "Compressor",
                format_args!("org.apache.cassandra.io.compress.{}", info.compressor.class()),
            )?;
            field(out, "Compression ratio", float_text::format_double(stats.compression_ratio))?;
        }
    }
    field(out, "TTL min", commented(stats.min_ttl, duration_unless_0(stats.min_ttl)))?;
    field(out, "TTL max", commented(stats.max_ttl, duration_unless_0(stats.max_ttl)))
}

async fn keys_of(raw: &Rc<Raw>, out: &mut Output<'_>) -> Result<(), Error> {
    let (first, last) = match &raw.statistics().stats.keys {
        Some(keys) => keys.clone(),
        None => raw.keys().await?,
    };
    for (name, key) in [("First token", first), ("Last token", last)] {
        field(out, name, format_args!("{} ({})", Token::of_key(&key).0, keys::text(raw.table(), &key)))?;
    }
    Ok(())
}

/// Where rows and range tombstones lie.
fn covered(table: &Table, stats: &Stats) -> String {
    let (start, end) = (&stats.clustering_start, &stats.clustering_end);
    let whole = (BoundSide::Before, BoundSide::After) == (start.side, end.side);
    // Lists of values that are empty are not the same to Cassandra as a slice without bounds.
    let of_lists = stats.keys.is_none();
    if of_lists && whole && start.prefix.is_empty() && end.prefix.is_empty() {
        return "ALL".into();
    }
    let text = |bound: &Bound| {
        let value = |(value, column): (Result<Option<&[u8]>, _>, &schema::Column)| match value {
            Ok(Some(value)) => values::plain(&column.ty, value).unwrap_or_default(),
            _ => "null".into(),
        };
        let values = clustering_components(&bound.prefix).zip(&table.clustering).map(value);
        values.collect::<Vec<_>>().join(":")
    };
    let open = if start.side == BoundSide::Before { '[' } else { '(' };
    let close = if end.side == BoundSide::After { ']' } else { ')' };
    format!("{open}{}, {}{close}", text(start), text(end))
}

/// Tombstones that were made before a second, as a share of all cells.
fn droppable_ratio(stats: &Stats, before: i64) -> f64 {
    let (boundaries, counts) = stats.partition_cells.parts();
    // Without checksums the counts may be anything.
    let partitions = counts.iter().fold(0i64, |sum, count| sum.saturating_add(*count));
    let cells = counts.iter().zip(boundaries).map(|(count, boundary)| count.saturating_mul(*boundary));
    let cells = cells.fold(0i64, i64::saturating_add);
    let mean = if partitions > 0 { (cells as f64 / partitions as f64).ceil() as i64 } else { 0 };
    match mean.saturating_mul(partitions) {
        0 => 0.0,
        all => droppable(&stats.tombstones, before) / all as f64,
    }
}

/// Tombstones made before a second; between two points of the histogram as many as a straight line says.
fn droppable(histogram: &TombstoneHistogram, before: i64) -> f64 {
    let mut sum = 0.0;
    let mut last: Option<(i64, f64)> = None;
    for (point, count) in histogram.bins() {
        let (point, count) = (point as i64, count as f64);
        if point > before {
            let Some((last_point, last_count)) = last else { return 0.0 };
            let weight = (before - last_point) as f64 / (point - last_point) as f64;
            let here = last_count + (count - last_count) * weight;
            return sum - last_count + (last_count + here) * weight / 2.0 + last_count / 2.0;
        }
        sum += count;
        last = Some((point, count));
    }
    sum
}

fn replayed(stats: &Stats) -> String {
    let place = |(segment, position): (i64, i32)| {
        format!("CommitLogPosition(segmentId={segment}, position={position})")
    };
    let intervals = stats.log_intervals.iter().map(|(from, to)| format!("{}={}", place(*from), place(*to)));
    format!("{{{}}}", intervals.collect::<Vec<_>>().join(", "))
}

fn histograms(stats: &Stats, unicode: bool, out: &mut Output<'_>) -> Result<(), Error> {
    let seen = |histogram: &SizeHistogram| {
        let (boundaries, counts) = histogram.parts();
        let seen = boundaries.iter().zip(counts).filter(|(_, count)| **count > 0);
        seen.map(|(boundary, count)| (*boundary, *count)).collect::<Vec<_>>()
    };
    let with = |value: i64, text: Option<String>| {
        format!("{value} {}", text.map_or(String::new(), |text| format!("({text})")))
    };
    field(out, "Estimated tombstone drop times", "")?;
    let drops = stats.tombstones.bins().map(|(point, count)| (point as i64, count)).collect();
    let name = |second: i64| with(second, date_unless_0(second));
    Histogram { title: "Drop Time", values: drops, name: &name, unicode }.print(out)?;
    field(out, "Partition Size", "")?;
    let name = |bytes: i64| with(bytes, (bytes != 0).then(|| size(bytes)));
    let values = seen(&stats.partition_sizes);
    Histogram { title: "Size (bytes)", values, name: &name, unicode }.print(out)?;
    field(out, "Column Count", "")?;
    let values = seen(&stats.partition_cells);
    Histogram { title: "Columns", values, name: &|count: i64| count.to_string(), unicode }.print(out)
}

/// Columns with their types, in the order in which Java's hash table has their names.
fn columns(columns: &[(String, String)]) -> String {
    let mut capacity = 16usize;
    while columns.len() > capacity * 3 / 4 {
        capacity *= 2;
    }
    let place = |name: &str| {
        let hash =
            name.encode_utf16().fold(0i32, |hash, unit| hash.wrapping_mul(31).wrapping_add(i32::from(unit)));
        (hash as u32 ^ hash as u32 >> 16) as usize & (capacity - 1)
    };
    let mut placed: Vec<&(String, String)> = columns.iter().collect();
    placed.sort_by_key(|(name, _)| place(name));
    placed.iter().map(|(name, class)| format!("{name}:{class}")).collect::<Vec<_>>().join(", ")
}
