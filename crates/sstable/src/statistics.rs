//! `Statistics.db`: partitioner, key estimate, metadata, and the header that describes the data file.
//!
//! ```text
//! i32 4, u32 crc, (i32 type, i32 offset)*4, u32 crc over both, then each component and its u32 crc
//! types: 0 VALIDATION  1 COMPACTION  2 STATS  3 HEADER
//! ```
//! Readers skip sstables and purge tombstones by the ranges in STATS, so they are exact. Layout:
//! `docs/formats/sstable-nb.md`.

use base::crc32;
use std::path::Path;

use crate::cardinality::Cardinality;
use crate::cursor::{Cursor, Decoded, put_delta32, put_short_bytes, put_vbytes};
use crate::error::Error;
use crate::histogram::{CELL_BUCKETS, SIZE_BUCKETS, SizeHistogram, TombstoneHistogram};

/// The partitioner's class, part of the format.
pub const PARTITIONER: &str = "org.apache.cassandra.dht.Murmur3Partitioner";

/// "No deletion time" on disk; larger real times are capped below it.
pub const NO_LOCAL_TIME: u32 = i32::MAX as u32;

/// The bases from which timestamps, local times and ttls in the data file are counted.
/// Any base is correct; a true minimum makes small files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EncodingStats {
    /// Microseconds since the Unix epoch.
    pub min_timestamp: i64,
    /// Seconds since the Unix epoch.
    pub min_local_time: u32,
    /// Seconds.
    pub min_ttl: u32,
}

impl EncodingStats {
    /// What is used when nothing is known, and the origin of the stored bases: 2015-09-22. Must never change.
    pub const EPOCH: EncodingStats =
        EncodingStats { min_timestamp: 1_442_880_000_000_000, min_local_time: 1_442_880_000, min_ttl: 0 };
}

/// What the data file holds: key types and columns, by Cassandra class names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Delta bases.
    pub base: EncodingStats,
    /// Class of the partition key.
    pub key_type: String,
    /// Classes of the clustering columns; `ReversedType(..)` for descending ones.
    pub clustering_types: Vec<String>,
    /// Names and classes of the static columns.
    pub statics: Vec<(String, String)>,
    /// Names and classes of the regular columns.
    pub regulars: Vec<(String, String)>,
}

/// The STATS component.
#[derive(Clone, Debug, PartialEq)]
pub struct Stats {
    /// Uncompressed bytes of the partitions.
    pub partition_sizes: SizeHistogram,
    /// Cells of the partitions.
    pub partition_cells: SizeHistogram,
    /// Microseconds.
    pub min_timestamp: i64,
    /// Microseconds.
    pub max_timestamp: i64,
    /// Seconds; [`NO_LOCAL_TIME`] if only live data.
    pub min_local_time: u32,
    /// Seconds; [`NO_LOCAL_TIME`] if there is any live data.
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
    /// Component values of the smallest clustering prefix, in clustering order; empty for unknown.
    pub min_clustering: Vec<Vec<u8>>,
    /// As `min_clustering`, the largest.
    pub max_clustering: Vec<Vec<u8>>,
    /// Columns set in all rows.
    pub columns_set: u64,
    /// Rows in all partitions, static rows included.
    pub rows: u64,
    /// The node that wrote it; 0 for unknown.
    pub host_id: u128,
}

impl Default for Stats {
    fn default() -> Stats {
        Stats {
            partition_sizes: SizeHistogram::new(SIZE_BUCKETS),
            partition_cells: SizeHistogram::new(CELL_BUCKETS),
            min_timestamp: i64::MIN,
            max_timestamp: i64::MAX,
            min_local_time: NO_LOCAL_TIME,
            max_local_time: NO_LOCAL_TIME,
            min_ttl: 0,
            max_ttl: 0,
            compression_ratio: -1.0,
            tombstones: TombstoneHistogram::default(),
            level: 0,
            repaired_at: 0,
            min_clustering: Vec::new(),
            max_clustering: Vec::new(),
            columns_set: 0,
            rows: 0,
            host_id: 0,
        }
    }
}

/// The whole component.
#[derive(Clone, Debug, PartialEq)]
pub struct Statistics {
    /// The partitioner's class.
    pub partitioner: String,
    /// False-positive chance of the bloom filter as the table asked for it.
    pub bloom_filter_fp_chance: f64,
    /// Serialized key estimate.
    pub cardinality: Vec<u8>,
    /// Metadata.
    pub stats: Stats,
    /// Description of the data.
    pub header: Header,
}

impl Statistics {
    /// Gathers the parts of a new sstable.
    pub fn new(fp_chance: f64, cardinality: &Cardinality, stats: Stats, header: Header) -> Statistics {
        Statistics {
            partitioner: PARTITIONER.to_string(),
            bloom_filter_fp_chance: fp_chance,
            cardinality: cardinality.encode(),
            stats,
            header,
        }
    }

    /// The component's bytes.
    pub fn encode(&mut self) -> Vec<u8> {
        let mut validation = Vec::new();
        put_short_bytes(&mut validation, self.partitioner.as_bytes());
        validation.extend_from_slice(&self.bloom_filter_fp_chance.to_be_bytes());
        let mut compaction = Vec::new();
        compaction.extend_from_slice(&(self.cardinality.len() as i32).to_be_bytes());
        compaction.extend_from_slice(&self.cardinality);
        let components = [validation, compaction, encode_stats(&mut self.stats), encode_header(&self.header)];

        let mut out = (components.len() as i32).to_be_bytes().to_vec();
        let mut crc = base::Crc32::new();
        crc.update(&out);
        out.extend_from_slice(&crc.clone().finalize().to_be_bytes());
        let table = out.len();
        let mut offset = table + components.len() * 8 + 4;
        for (index, component) in components.iter().enumerate() {
            out.extend_from_slice(&(index as i32).to_be_bytes());
            out.extend_from_slice(&(offset as i32).to_be_bytes());
            offset += component.len() + 4;
        }
        crc.update(&out[table..]);
        out.extend_from_slice(&crc.finalize().to_be_bytes());
        for component in &components {
            out.extend_from_slice(component);
            out.extend_from_slice(&crc32(component).to_be_bytes());
        }
        out
    }

    /// Reads the component, all checksums included. Errors: `Corrupt` with the offset.
    pub fn decode(file: &Path, bytes: &[u8]) -> Result<Statistics, Error> {
        let parts = split(bytes).map_err(|fault| fault.in_file(file, 0))?;
        let [validation, compaction, stats, header] = parts;
        let (partitioner, bloom_filter_fp_chance) =
            part(bytes, validation, decode_validation).map_err(|fault| fault.0.in_file(file, fault.1))?;
        let cardinality = part(bytes, compaction, |cursor| {
            let size = cursor.count_i32(1)?;
            Ok(cursor.bytes(size)?.to_vec())
        })
        .map_err(|fault| fault.0.in_file(file, fault.1))?;
        let stats = part(bytes, stats, decode_stats).map_err(|fault| fault.0.in_file(file, fault.1))?;
        let header = part(bytes, header, decode_header).map_err(|fault| fault.0.in_file(file, fault.1))?;
        Ok(Statistics { partitioner, bloom_filter_fp_chance, cardinality, stats, header })
    }
}

/// Start and end of a component.
type Extent = (usize, usize);

fn part<T>(
    bytes: &[u8],
    extent: Extent,
    decode: impl FnOnce(&mut Cursor<'_>) -> Decoded<T>,
) -> Result<T, (crate::cursor::Fault, u64)> {
    decode(&mut Cursor::new(&bytes[extent.0..extent.1])).map_err(|fault| (fault, extent.0 as u64))
}

/// Checks the envelope and gives the extents of the four components.
fn split(bytes: &[u8]) -> Decoded<[Extent; 4]> {
    let mut cursor = Cursor::new(bytes);
    let count = cursor.i32()?;
    check_crc(&mut cursor, crc32(&bytes[..4]))?;
    if count != 4 {
        return Err(cursor.bad_at(0, "4 components", count.to_string()));
    }
    let table = cursor.at();
    let mut offsets = [0usize; 5];
    offsets[4] = bytes.len();
    for (index, slot) in offsets.iter_mut().take(4).enumerate() {
        let at = cursor.at();
        let (kind, offset) = (cursor.i32()?, cursor.i32()?);
        if kind != index as i32 {
            return Err(cursor.bad_at(at, format!("component type {index}"), kind.to_string()));
        }
        *slot = usize::try_from(offset).unwrap_or(usize::MAX);
    }
    let mut crc = base::Crc32::new();
    crc.update(&bytes[..4]);
    crc.update(&bytes[table as usize..cursor.at() as usize]);
    check_crc(&mut cursor, crc.finalize())?;
    let mut extents = [(0, 0); 4];
    let mut least = cursor.at() as usize;
    for (index, extent) in extents.iter_mut().enumerate() {
        let (start, end) = (offsets[index], offsets[index + 1]);
        let at = table + index as u64 * 8 + 4;
        if start < least || end > bytes.len() || end < start.saturating_add(4) {
            return Err(cursor.bad_at(
                at,
                format!("an offset from {least} to {}", bytes.len()),
                start.to_string(),
            ));
        }
        let (component, stored) = bytes[start..end].split_at(end - start - 4);
        check_crc_at(stored, crc32(component), (end - 4) as u64)?;
        *extent = (start, end - 4);
        least = end;
    }
    Ok(extents)
}

fn check_crc(cursor: &mut Cursor<'_>, computed: u32) -> Decoded<()> {
    let at = cursor.at();
    check_crc_at(cursor.bytes(4)?, computed, at)
}

fn check_crc_at(stored: &[u8], computed: u32, at: u64) -> Decoded<()> {
    let stored = u32::from_be_bytes(stored.try_into().expect("four bytes were taken"));
    if stored == computed {
        return Ok(());
    }
    let (expected, got) = (format!("checksum {stored:#010x}"), format!("{computed:#010x}"));
    Err(crate::cursor::Fault::Bad { at, expected, got })
}

fn decode_validation(cursor: &mut Cursor<'_>) -> Decoded<(String, f64)> {
    Ok((cursor.utf()?.to_string(), f64::from_bits(cursor.u64()?)))
}

fn encode_stats(stats: &mut Stats) -> Vec<u8> {
    let mut out = Vec::with_capacity(8192);
    stats.partition_sizes.encode(&mut out);
    stats.partition_cells.encode(&mut out);
    put_log_position(&mut out);
    out.extend_from_slice(&stats.min_timestamp.to_be_bytes());
    out.extend_from_slice(&stats.max_timestamp.to_be_bytes());
    for number in [stats.min_local_time, stats.max_local_time, stats.min_ttl, stats.max_ttl] {
        out.extend_from_slice(&(number.min(NO_LOCAL_TIME) as i32).to_be_bytes());
    }
    out.extend_from_slice(&stats.compression_ratio.to_be_bytes());
    stats.tombstones.encode(&mut out);
    out.extend_from_slice(&(stats.level as i32).to_be_bytes());
    out.extend_from_slice(&stats.repaired_at.to_be_bytes());
    for values in [&stats.min_clustering, &stats.max_clustering] {
        out.extend_from_slice(&(values.len() as i32).to_be_bytes());
        for value in values {
            put_short_bytes(&mut out, value);
        }
    }
    out.push(0); // No legacy counter shards.
    out.extend_from_slice(&(stats.columns_set as i64).to_be_bytes());
    out.extend_from_slice(&(stats.rows as i64).to_be_bytes());
    put_log_position(&mut out);
    out.extend_from_slice(&0i32.to_be_bytes()); // No commitlog intervals: they are of another database's log.
    out.push(0); // No pending repair.
    out.push(0); // Not transient.
    if stats.host_id == 0 {
        out.push(0);
    } else {
        out.push(1);
        out.extend_from_slice(&stats.host_id.to_be_bytes());
    }
    out
}

/// "None".
fn put_log_position(out: &mut Vec<u8>) {
    out.extend_from_slice(&(-1i64).to_be_bytes());
    out.extend_from_slice(&0i32.to_be_bytes());
}

fn decode_stats(cursor: &mut Cursor<'_>) -> Decoded<Stats> {
    let mut stats = Stats {
        partition_sizes: SizeHistogram::decode(cursor)?,
        partition_cells: SizeHistogram::decode(cursor)?,
        ..Stats::default()
    };
    cursor.bytes(12)?;
    stats.min_timestamp = cursor.i64()?;
    stats.max_timestamp = cursor.i64()?;
    for field in
        [&mut stats.min_local_time, &mut stats.max_local_time, &mut stats.min_ttl, &mut stats.max_ttl]
    {
        let at = cursor.at();
        let number = cursor.i32()?;
        *field =
            u32::try_from(number).map_err(|_| cursor.bad_at(at, "a time in seconds", number.to_string()))?;
    }
    stats.compression_ratio = f64::from_bits(cursor.u64()?);
    stats.tombstones = TombstoneHistogram::decode(cursor)?;
    stats.level = cursor.i32()?.max(0) as u32;
    stats.repaired_at = cursor.i64()?;
    for values in [&mut stats.min_clustering, &mut stats.max_clustering] {
        for _ in 0..cursor.count_i32(2)? {
            values.push(cursor.short_bytes()?.to_vec());
        }
    }
    cursor.u8()?;
    stats.columns_set = cursor.i64()?.max(0) as u64;
    stats.rows = cursor.i64()?.max(0) as u64;
    cursor.bytes(12)?;
    let intervals = cursor.count_i32(24)?;
    cursor.bytes(intervals * 24)?;
    if cursor.u8()? != 0 {
        cursor.bytes(16)?;
    }
    cursor.u8()?;
    if cursor.u8()? != 0 {
        stats.host_id = u128::from(cursor.u64()?) << 64 | u128::from(cursor.u64()?);
    }
    Ok(stats)
}

fn encode_header(header: &Header) -> Vec<u8> {
    let epoch = EncodingStats::EPOCH;
    let mut out = Vec::with_capacity(1024);
    base::put_uvint(&mut out, header.base.min_timestamp.wrapping_sub(epoch.min_timestamp) as u64);
    put_delta32(&mut out, header.base.min_local_time, epoch.min_local_time);
    put_delta32(&mut out, header.base.min_ttl, epoch.min_ttl);
    put_vbytes(&mut out, header.key_type.as_bytes());
    base::put_uvint(&mut out, header.clustering_types.len() as u64);
    for class in &header.clustering_types {
        put_vbytes(&mut out, class.as_bytes());
    }
    for columns in [&header.statics, &header.regulars] {
        base::put_uvint(&mut out, columns.len() as u64);
        for (name, class) in columns {
            put_vbytes(&mut out, name.as_bytes());
            put_vbytes(&mut out, class.as_bytes());
        }
    }
    out
}

fn decode_header(cursor: &mut Cursor<'_>) -> Decoded<Header> {
    let epoch = EncodingStats::EPOCH;
    let base = EncodingStats {
        min_timestamp: epoch.min_timestamp.wrapping_add(cursor.uvint()? as i64),
        min_local_time: epoch.min_local_time.wrapping_add(cursor.uvint()? as u32),
        min_ttl: epoch.min_ttl.wrapping_add(cursor.uvint()? as u32),
    };
    let key_type = cursor.vtext()?.to_string();
    let count = cursor.uvint()?;
    let mut clustering_types = Vec::new();
    for _ in 0..cursor.count(count, 1)? {
        clustering_types.push(cursor.vtext()?.to_string());
    }
    let mut columns = [Vec::new(), Vec::new()];
    for columns in &mut columns {
        let count = cursor.uvint()?;
        for _ in 0..cursor.count(count, 2)? {
            columns.push((cursor.vtext()?.to_string(), cursor.vtext()?.to_string()));
        }
    }
    let [statics, regulars] = columns;
    Ok(Header { base, key_type, clustering_types, statics, regulars })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Statistics {
        let mut stats = Stats {
            min_timestamp: -5,
            max_timestamp: 1_700_000_000_000_000,
            min_local_time: 1_700_000_000,
            max_ttl: 86_400,
            min_clustering: vec![b"a".to_vec()],
            max_clustering: vec![b"z".to_vec(), vec![]],
            columns_set: 7,
            rows: 3,
            host_id: 0x1234_5678_9abc_def0_0fed_cba9_8765_4321,
            ..Stats::default()
        };
        stats.partition_sizes.add(1000);
        stats.partition_cells.add(7);
        stats.tombstones.add(1_700_000_000);
        let header = Header {
            base: EncodingStats { min_timestamp: -5, min_local_time: 1_700_000_000, min_ttl: 5 },
            key_type: "org.apache.cassandra.db.marshal.UTF8Type".to_string(),
            clustering_types: vec!["org.apache.cassandra.db.marshal.Int32Type".to_string()],
            statics: vec![],
            regulars: vec![("v".to_string(), "org.apache.cassandra.db.marshal.BytesType".to_string())],
        };
        Statistics::new(0.01, &Cardinality::default(), stats, header)
    }

    #[test]
    fn is_read_back() {
        let mut statistics = sample();
        let bytes = statistics.encode();
        assert_eq!(Statistics::decode(Path::new("Statistics.db"), &bytes).unwrap(), statistics);
    }

    #[test]
    fn every_broken_byte_and_truncation_is_refused() {
        let bytes = sample().encode();
        for at in (0..bytes.len()).step_by(3) {
            let mut broken = bytes.clone();
            broken[at] ^= 0x10;
            assert!(Statistics::decode(Path::new("Statistics.db"), &broken).is_err(), "byte {at}");
            assert!(Statistics::decode(Path::new("Statistics.db"), &bytes[..at]).is_err(), "size {at}");
        }
    }
}
