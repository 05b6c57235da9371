//! The STATS part of `Statistics.db`: ranges and counts by which sstables are skipped, dropped and chosen.
//!
//! ```text
//! partition sizes, cells of partitions, log position, i64 timestamp*2, u32 local time*2, i32 ttl*2, f64 ratio,
//! drop times, i32 level, i64 repaired_at, clustering (below), u8 legacy counters, i64 columns, i64 rows,
//! log position, i32 n, (log position*2)*n, [na: u8 pending [uuid], u8 transient] [me, nb: u8 known [host id]]
//! [oa: u8 deleted partitions, vbytes first key, vbytes last key, f64 token space coverage]
//! clustering  before oa: (i32 n, (u16 length, value)*n)*2       from oa: uvint n, (vbytes class)*n, start, end
//! ```

use mutation::{Bound, NO_TIME};
use schema::{BoundSide, clustering_components, push_component};

use crate::clustering::{ClusteringShape, Kind};
use crate::cursor::{Cursor, Decoded, put_short_bytes, put_vbytes};
use crate::deletion::Times;
use crate::histogram::{CELL_BUCKETS, SIZE_BUCKETS, SizeHistogram, TombstoneHistogram};
use crate::limits::KEY_BYTES_MAX;
use crate::version::Version;

/// A place in a commitlog of the database that wrote the file: segment and offset.
pub type LogPosition = (i64, i32);

/// No place in any log.
const NO_LOG: LogPosition = (-1, 0);

/// The content. Ranges are exact and inclusive.
#[derive(Clone, Debug, PartialEq)]
pub struct Stats {
    /// Uncompressed bytes of the partitions.
    pub partition_sizes: SizeHistogram,
    /// Cells of the partitions.
    pub partition_cells: SizeHistogram,
    /// Parts of a commitlog whose content is in the file.
    pub log_intervals: Vec<(LogPosition, LogPosition)>,
    /// Microseconds.
    pub min_timestamp: i64,
    /// Microseconds.
    pub max_timestamp: i64,
    /// Seconds; [`NO_TIME`] if only live data.
    pub min_local_time: u32,
    /// Seconds; [`NO_TIME`] if there is any live data.
    pub max_local_time: u32,
    /// Seconds.
    pub min_ttl: u32,
    /// Seconds.
    pub max_ttl: u32,
    /// Stored bytes by plain bytes; -1 when not compressed.
    pub compression_ratio: f64,
    /// When tombstones and expiring cells go.
    pub tombstones: TombstoneHistogram,
    /// Level, for levelled compaction.
    pub level: u32,
    /// Milliseconds since the Unix epoch, 0 for not repaired.
    pub repaired_at: i64,
    /// Nothing of its rows and range tombstones lies before. A bound without prefix when unknown.
    pub clustering_start: Bound,
    /// Nothing of its rows and range tombstones lies behind; before the start when there are none.
    pub clustering_end: Bound,
    /// Whether there are counter shards of Cassandra 2.0.
    pub legacy_counters: bool,
    /// Columns set in all rows.
    pub columns_set: u64,
    /// Rows in all partitions, static rows included.
    pub rows: u64,
    /// The repair session in which the data takes part.
    pub pending_repair: Option<u128>,
    /// Whether the data is that of a transient replica.
    pub is_transient: bool,
    /// The node that wrote it; 0 for unknown.
    pub host_id: u128,
    /// Whether whole partitions are deleted in it; `true` when unknown.
    pub has_partition_deletions: bool,
    /// First and last key in ring order, where they are told.
    pub keys: Option<(Vec<u8>, Vec<u8>)>,
    /// Share of its node's tokens that it spans, where it is told.
    pub token_space_coverage: Option<f64>,
}

impl Default for Stats {
    fn default() -> Stats {
        Stats {
            partition_sizes: SizeHistogram::new(SIZE_BUCKETS),
            partition_cells: SizeHistogram::new(CELL_BUCKETS),
            log_intervals: Vec::new(),
            min_timestamp: i64::MIN,
            max_timestamp: i64::MAX,
            min_local_time: NO_TIME,
            max_local_time: NO_TIME,
            min_ttl: 0,
            max_ttl: 0,
            compression_ratio: -1.0,
            tombstones: TombstoneHistogram::default(),
            level: 0,
            repaired_at: 0,
            clustering_start: Bound::new(&[], BoundSide::Before),
            clustering_end: Bound::new(&[], BoundSide::After),
            legacy_counters: false,
            columns_set: 0,
            rows: 0,
            pending_repair: None,
            is_transient: false,
            host_id: 0,
            has_partition_deletions: true,
            keys: None,
            token_space_coverage: None,
        }
    }
}

/// Appends the component. `classes` are those of the clustering columns.
pub(crate) fn encode(stats: &mut Stats, version: Version, times: Times, classes: &[String]) -> Vec<u8> {
    let facts = version.facts();
    let mut out = Vec::with_capacity(8192);
    stats.partition_sizes.encode(&mut out);
    stats.partition_cells.encode(&mut out);
    let (lower, upper) = match (stats.log_intervals.first(), stats.log_intervals.last()) {
        (Some(first), Some(last)) => (first.0, last.1),
        _ => (NO_LOG, NO_LOG),
    };
    put_log(&mut out, upper);
    out.extend_from_slice(&stats.min_timestamp.to_be_bytes());
    out.extend_from_slice(&stats.max_timestamp.to_be_bytes());
    for local_time in [stats.min_local_time, stats.max_local_time] {
        out.extend_from_slice(&times.stored(local_time).to_be_bytes());
    }
    for ttl in [stats.min_ttl, stats.max_ttl] {
        out.extend_from_slice(&ttl.min(i32::MAX as u32).to_be_bytes());
    }
    out.extend_from_slice(&stats.compression_ratio.to_be_bytes());
    stats.tombstones.encode(facts.wide_times, &mut out);
    out.extend_from_slice(&(stats.level as i32).to_be_bytes());
    out.extend_from_slice(&stats.repaired_at.to_be_bytes());
    if facts.covered_slice {
        put_covered(stats, classes, &mut out);
    } else {
        put_lists(stats, &mut out);
    }
    out.push(u8::from(stats.legacy_counters));
    out.extend_from_slice(&(stats.columns_set as i64).to_be_bytes());
    out.extend_from_slice(&(stats.rows as i64).to_be_bytes());
    put_log(&mut out, lower);
    out.extend_from_slice(&(stats.log_intervals.len() as i32).to_be_bytes());
    for (from, to) in &stats.log_intervals {
        put_log(&mut out, *from);
        put_log(&mut out, *to);
    }
    if facts.repair_session {
        put_uuid(&mut out, stats.pending_repair);
        out.push(u8::from(stats.is_transient));
    }
    if facts.host_id {
        put_uuid(&mut out, Some(stats.host_id).filter(|id| *id != 0));
    }
    if facts.covered_slice {
        out.push(u8::from(stats.has_partition_deletions));
        let (first, last) = stats.keys.as_ref().map_or((&[][..], &[][..]), |(first, last)| (first, last));
        put_vbytes(&mut out, first);
        put_vbytes(&mut out, last);
        out.extend_from_slice(&stats.token_space_coverage.unwrap_or(f64::NAN).to_be_bytes());
    }
    out
}

fn put_log(out: &mut Vec<u8>, position: LogPosition) {
    out.extend_from_slice(&position.0.to_be_bytes());
    out.extend_from_slice(&position.1.to_be_bytes());
}

fn put_uuid(out: &mut Vec<u8>, id: Option<u128>) {
    out.push(u8::from(id.is_some()));
    out.extend_from_slice(&id.map_or([0; 16], u128::to_be_bytes)[..if id.is_some() { 16 } else { 0 }]);
}

/// The lists before oa: empty, which means unbounded, when a value is null or too long, or when there are no rows.
fn put_lists(stats: &Stats, out: &mut Vec<u8>) {
    for bound in [&stats.clustering_start, &stats.clustering_end] {
        let values: Option<Vec<&[u8]>> =
            clustering_components(&bound.prefix).map(|value| value.ok().flatten()).collect();
        let fits = |values: &Vec<&[u8]>| values.iter().all(|value| value.len() <= KEY_BYTES_MAX);
        let values = values.filter(fits).unwrap_or_default();
        out.extend_from_slice(&(values.len() as i32).to_be_bytes());
        values.iter().for_each(|value| put_short_bytes(out, value));
    }
}

fn put_covered(stats: &Stats, classes: &[String], out: &mut Vec<u8>) {
    base::put_uvint(out, classes.len() as u64);
    classes.iter().for_each(|class| put_vbytes(out, class.as_bytes()));
    let start = out.len();
    let (from, to) = (&stats.clustering_start, &stats.clustering_end);
    let put = ClusteringShape::of_classes(classes).and_then(|shape| {
        shape.put_prefix(Kind::start(from.side), &from.prefix, out)?;
        shape.put_prefix(Kind::end(to.side), &to.prefix, out)
    });
    if put.is_err() {
        // What cannot be told is everything.
        out.truncate(start);
        out.extend_from_slice(&[Kind::InclusiveStart as u8, 0, 0, Kind::InclusiveEnd as u8, 0, 0]);
    }
}

/// Reads the component.
pub(crate) fn decode(cursor: &mut Cursor<'_>, version: Version, times: Times) -> Decoded<Stats> {
    let facts = version.facts();
    let mut stats = Stats {
        partition_sizes: SizeHistogram::decode(cursor)?,
        partition_cells: SizeHistogram::decode(cursor)?,
        ..Stats::default()
    };
    take_log(cursor)?;
    stats.min_timestamp = cursor.i64()?;
    stats.max_timestamp = cursor.i64()?;
    for field in [&mut stats.min_local_time, &mut stats.max_local_time] {
        *field = times.real(cursor.u32()?);
    }
    for field in [&mut stats.min_ttl, &mut stats.max_ttl] {
        let at = cursor.at();
        let ttl = cursor.i32()?;
        *field = u32::try_from(ttl).map_err(|_| cursor.bad_at(at, "a time in seconds", ttl.to_string()))?;
    }
    stats.compression_ratio = f64::from_bits(cursor.u64()?);
    stats.tombstones = TombstoneHistogram::decode(facts.wide_times, cursor)?;
    stats.level = cursor.i32()?.max(0) as u32;
    stats.repaired_at = cursor.i64()?;
    if facts.covered_slice {
        (stats.clustering_start, stats.clustering_end) = take_covered(cursor)?;
    } else {
        let (start, end) = (take_list(cursor)?, take_list(cursor)?);
        if facts.sound_clustering_lists {
            stats.clustering_start = Bound::new(&start, BoundSide::Before);
            stats.clustering_end = Bound::new(&end, BoundSide::After);
        }
    }
    stats.legacy_counters = cursor.u8()? != 0;
    stats.columns_set = cursor.i64()?.max(0) as u64;
    stats.rows = cursor.i64()?.max(0) as u64;
    take_log(cursor)?;
    for _ in 0..cursor.count_i32(24)? {
        stats.log_intervals.push((take_log(cursor)?, take_log(cursor)?));
    }
    if facts.repair_session {
        stats.pending_repair = take_uuid(cursor)?;
        stats.is_transient = cursor.u8()? != 0;
    }
    if facts.host_id {
        stats.host_id = take_uuid(cursor)?.unwrap_or(0);
    }
    if facts.covered_slice {
        stats.has_partition_deletions = cursor.u8()? != 0;
        let (first, last) = (cursor.vbytes()?.to_vec(), cursor.vbytes()?.to_vec());
        stats.keys = Some((first, last)).filter(|(first, last)| !first.is_empty() || !last.is_empty());
        stats.token_space_coverage = Some(f64::from_bits(cursor.u64()?)).filter(|share| !share.is_nan());
    }
    Ok(stats)
}

fn take_log(cursor: &mut Cursor<'_>) -> Decoded<LogPosition> {
    Ok((cursor.i64()?, cursor.i32()?))
}

fn take_uuid(cursor: &mut Cursor<'_>) -> Decoded<Option<u128>> {
    if cursor.u8()? == 0 {
        return Ok(None);
    }
    Ok(Some(u128::from(cursor.u64()?) << 64 | u128::from(cursor.u64()?)))
}

/// The wire form of a list of values.
fn take_list(cursor: &mut Cursor<'_>) -> Decoded<Vec<u8>> {
    let mut wire = Vec::new();
    for _ in 0..cursor.count_i32(2)? {
        push_component(&mut wire, Some(cursor.short_bytes()?));
    }
    Ok(wire)
}

fn take_covered(cursor: &mut Cursor<'_>) -> Decoded<(Bound, Bound)> {
    let at = cursor.at();
    let count = cursor.uvint()?;
    let mut classes = Vec::new();
    for _ in 0..cursor.count(count, 1)? {
        classes.push(cursor.vtext()?.to_string());
    }
    let shape =
        ClusteringShape::of_classes(&classes).map_err(|what| cursor.bad_at(at, "clustering types", what))?;
    let (start, end) = (shape.take_bound(cursor)?, shape.take_bound(cursor)?);
    Ok((start.behind(), end.behind()))
}
