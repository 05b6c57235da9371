//! `Statistics.db`: partitioner, key estimate, metadata, and the header that describes the data file.
//!
//! ```text
//! i32 4, u32 crc, (i32 type, i32 offset)*4, u32 crc over both, then each component and its u32 crc
//! types: 0 VALIDATION  1 COMPACTION  2 STATS  3 HEADER                     before na without the checksums
//! ```
//! Readers skip sstables and purge tombstones by the ranges in STATS, so they are exact. Layout: `docs/formats/sstables.md`.

use base::crc32;
use std::path::Path;

use crate::cardinality::Cardinality;
use crate::cursor::{Cursor, Decoded, put_delta32, put_short_bytes, put_vbytes};
use crate::deletion::Times;
use crate::error::Error;
use crate::stats::{self, Stats};
use crate::version::Version;

/// The partitioner's class, part of the format.
pub const PARTITIONER: &str = "org.apache.cassandra.dht.Murmur3Partitioner";

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
    pub fn encode(&mut self, version: Version) -> Vec<u8> {
        let mut validation = Vec::new();
        put_short_bytes(&mut validation, self.partitioner.as_bytes());
        validation.extend_from_slice(&self.bloom_filter_fp_chance.to_be_bytes());
        let mut compaction = Vec::new();
        compaction.extend_from_slice(&(self.cardinality.len() as i32).to_be_bytes());
        compaction.extend_from_slice(&self.cardinality);
        let times = Times::new(version, self.header.base);
        let stats = stats::encode(&mut self.stats, version, times, &self.header.clustering_types);
        let components = [validation, compaction, stats, encode_header(&self.header)];

        let checksums = version.facts().statistics_checksums;
        let put_crc = |out: &mut Vec<u8>, crc: u32| {
            if checksums {
                out.extend_from_slice(&crc.to_be_bytes());
            }
        };
        let crc_bytes = if checksums { 4 } else { 0 };
        let mut out = (components.len() as i32).to_be_bytes().to_vec();
        let mut crc = base::Crc32::new();
        crc.update(&out);
        put_crc(&mut out, crc.clone().finalize());
        let table = out.len();
        let mut offset = table + components.len() * 8 + crc_bytes;
        for (index, component) in components.iter().enumerate() {
            out.extend_from_slice(&(index as i32).to_be_bytes());
            out.extend_from_slice(&(offset as i32).to_be_bytes());
            offset += component.len() + crc_bytes;
        }
        crc.update(&out[table..]);
        put_crc(&mut out, crc.finalize());
        for component in &components {
            out.extend_from_slice(component);
            put_crc(&mut out, crc32(component));
        }
        out
    }

    /// Reads the component, all checksums included. Errors: `Corrupt` with the offset.
    pub fn decode(file: &Path, version: Version, bytes: &[u8]) -> Result<Statistics, Error> {
        let checksums = version.facts().statistics_checksums;
        let parts = split(bytes, checksums).map_err(|fault| fault.in_file(file, 0))?;
        let [validation, compaction, stats, header] = parts;
        let (partitioner, bloom_filter_fp_chance) =
            part(bytes, validation, decode_validation).map_err(|fault| fault.0.in_file(file, fault.1))?;
        let cardinality = part(bytes, compaction, |cursor| {
            let size = cursor.count_i32(1)?;
            Ok(cursor.bytes(size)?.to_vec())
        })
        .map_err(|fault| fault.0.in_file(file, fault.1))?;
        let header = part(bytes, header, decode_header).map_err(|fault| fault.0.in_file(file, fault.1))?;
        let times = Times::new(version, header.base);
        let stats = part(bytes, stats, |cursor| stats::decode(cursor, version, times));
        let stats = stats.map_err(|fault| fault.0.in_file(file, fault.1))?;
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
fn split(bytes: &[u8], checksums: bool) -> Decoded<[Extent; 4]> {
    let crc_bytes = if checksums { 4 } else { 0 };
    let mut cursor = Cursor::new(bytes);
    let count = cursor.i32()?;
    if checksums {
        check_crc(&mut cursor, crc32(&bytes[..4]))?;
    }
    if count != 4 {
        return Err(cursor.bad_at(0, "4 components", count.to_string()));
    }
    let table = cursor.at() as usize;
    let mut starts = [0; 4];
    for (index, start) in starts.iter_mut().enumerate() {
        let at = cursor.at();
        let (kind, offset) = (cursor.i32()?, cursor.i32()?);
        if kind != index as i32 {
            return Err(cursor.bad_at(at, format!("component {index}"), kind.to_string()));
        }
        *start = offset.max(0) as usize;
    }
    if checksums {
        let mut crc = base::Crc32::new();
        crc.update(&bytes[..4]);
        crc.update(&bytes[table..table + 32]);
        check_crc(&mut cursor, crc.finalize())?;
    }
    let mut extents = [(0, 0); 4];
    let mut least = cursor.at() as usize;
    for (index, extent) in extents.iter_mut().enumerate() {
        let start = starts[index];
        let end = starts.get(index + 1).copied().unwrap_or(bytes.len());
        let at = (table + index * 8 + 4) as u64;
        if start < least || end > bytes.len() || end < start.saturating_add(crc_bytes) {
            let expected = format!("an offset from {least} to {}", bytes.len());
            return Err(cursor.bad_at(at, expected, start.to_string()));
        }
        let (component, stored) = bytes[start..end].split_at(end - start - crc_bytes);
        if checksums {
            check_crc_at(stored, crc32(component), (end - 4) as u64)?;
        }
        *extent = (start, end - crc_bytes);
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
    use mutation::{Bound, NO_TIME};
    use schema::{BoundSide, push_component};

    fn bound(values: &[&[u8]], side: BoundSide) -> Bound {
        let mut wire = Vec::new();
        values.iter().for_each(|value| push_component(&mut wire, Some(value)));
        Bound::new(&wire, side)
    }

    /// What every version can tell.
    fn sample(version: Version) -> Statistics {
        let facts = version.facts();
        let mut stats = Stats {
            min_timestamp: -5,
            max_timestamp: 1_700_000_000_000_000,
            min_local_time: 1_700_000_000,
            max_local_time: NO_TIME,
            max_ttl: 86_400,
            clustering_start: bound(&[&[0, 0, 0, 1]], BoundSide::Before),
            clustering_end: bound(&[&[0, 0, 0, 9], b"z"], BoundSide::After),
            log_intervals: vec![((7, 8), (7, 900)), ((9, 0), (10, 1))],
            columns_set: 7,
            rows: 3,
            ..Stats::default()
        };
        if !facts.sound_clustering_lists && !facts.covered_slice {
            (stats.clustering_start, stats.clustering_end) =
                (bound(&[], BoundSide::Before), bound(&[], BoundSide::After));
        }
        if facts.host_id {
            stats.host_id = 0x1234_5678_9abc_def0_0fed_cba9_8765_4321;
        }
        if facts.repair_session {
            (stats.pending_repair, stats.is_transient) = (Some(77), true);
        }
        if facts.covered_slice {
            stats.clustering_end = bound(&[&[0, 0, 0, 9]], BoundSide::Before);
            stats.has_partition_deletions = false;
            stats.keys = Some((b"first".to_vec(), b"last".to_vec()));
            stats.token_space_coverage = Some(0.25);
            stats.max_local_time = 4_000_000_000;
        }
        stats.partition_sizes.add(1000);
        stats.partition_cells.add(7);
        stats.tombstones.add(1_700_000_000);
        let class = |name: &str| format!("org.apache.cassandra.db.marshal.{name}");
        let header = Header {
            base: EncodingStats { min_timestamp: -5, min_local_time: 1_700_000_000, min_ttl: 5 },
            key_type: class("UTF8Type"),
            clustering_types: vec![
                class("Int32Type"),
                format!("{}({})", class("ReversedType"), class("UTF8Type")),
            ],
            statics: vec![],
            regulars: vec![("v".to_string(), class("BytesType"))],
        };
        Statistics::new(0.01, &Cardinality::default(), stats, header)
    }

    #[test]
    fn is_read_back_in_every_version() {
        for version in Version::ALL {
            let mut statistics = sample(version);
            let bytes = statistics.encode(version);
            let read = Statistics::decode(Path::new("Statistics.db"), version, &bytes).unwrap();
            assert_eq!(read, statistics, "{version}");
        }
    }

    #[test]
    fn every_broken_byte_and_truncation_is_refused() {
        for version in [Version::Nb, Version::Da] {
            let bytes = sample(version).encode(version);
            for at in (0..bytes.len()).step_by(3) {
                let mut broken = bytes.clone();
                broken[at] ^= 0x10;
                assert!(
                    Statistics::decode(Path::new("Statistics.db"), version, &broken).is_err(),
                    "byte {at}"
                );
                let cut = &bytes[..at];
                assert!(Statistics::decode(Path::new("Statistics.db"), version, cut).is_err(), "size {at}");
            }
        }
    }

    #[test]
    fn without_checksums_nothing_panics() {
        let bytes = sample(Version::Me).encode(Version::Me);
        for at in 0..bytes.len() {
            for bits in [1, 0x80, 0xff] {
                let mut broken = bytes.clone();
                broken[at] ^= bits;
                let _ = Statistics::decode(Path::new("Statistics.db"), Version::Me, &broken);
            }
            assert!(Statistics::decode(Path::new("Statistics.db"), Version::Me, &bytes[..at]).is_err());
        }
    }
}
