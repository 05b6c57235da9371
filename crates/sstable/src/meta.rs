//! What a shard knows about an sstable without opening it: one record of its manifest.
//!
//! ```text
//! u8 format (2), u8 letters of the version*2, uvint generation, vbytes first key, vbytes last key, svint min and max timestamp,
//! uvint min and max local time, min and max ttl, partitions, rows, data bytes, disk bytes, level,
//! svint repaired_at, uvint tombstones
//! ```

use base::Token;
use mutation::NO_TIME;
use std::path::Path;

use crate::component::Descriptor;
use crate::cursor::{Cursor, Decoded, put_vbytes};
use crate::error::Error;
use crate::statistics::EncodingStats;
use crate::stats::Stats;
use crate::version::Version;

const FORMAT: u8 = 2;
/// Before versions were told: all is nb, and "none" of local times is `i32::MAX`.
const FORMAT_NB: u8 = 1;

/// Facts about one sstable. Ranges are exact and inclusive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meta {
    /// The version of its files.
    pub version: Version,
    /// Its number, unique in the table's folder; 0 for one that is named by a UUID.
    pub generation: u64,
    /// First key in ring order.
    pub first_key: Box<[u8]>,
    /// Its token.
    pub first_token: Token,
    /// Last key in ring order.
    pub last_key: Box<[u8]>,
    /// Its token.
    pub last_token: Token,
    /// Microseconds, over cells, liveness and tombstones.
    pub min_timestamp: i64,
    /// Microseconds, over cells, liveness and tombstones.
    pub max_timestamp: i64,
    /// Seconds, over tombstones and expiring data; [`NO_TIME`] if there is none.
    pub min_local_time: u32,
    /// Seconds; [`NO_TIME`] if anything neither is deleted nor expires.
    pub max_local_time: u32,
    /// Seconds.
    pub min_ttl: u32,
    /// Seconds.
    pub max_ttl: u32,
    /// Partitions.
    pub partitions: u64,
    /// Rows, static ones included.
    pub rows: u64,
    /// Uncompressed bytes of the data file.
    pub data_bytes: u64,
    /// Bytes of all files that a reader opens.
    pub disk_bytes: u64,
    /// Level, for levelled compaction.
    pub level: u32,
    /// Milliseconds since the Unix epoch, 0 for not repaired.
    pub repaired_at: i64,
    /// Tombstones of every kind and expiring cells.
    pub tombstones: u64,
}

impl Meta {
    /// The name of its files.
    pub fn descriptor(&self) -> Descriptor {
        Descriptor::new(self.version, self.generation)
    }

    /// Whether any tombstone or expiring cell is inside.
    pub fn has_tombstones(&self) -> bool {
        self.tombstones > 0
    }

    /// Whether a partition inside may be deleted as of a time before 1970, which versions from `oa` on cannot say.
    pub fn may_delete_early(&self) -> bool {
        self.min_timestamp < 0 && !self.version.facts().wide_times
    }

    /// Whether everything inside is deleted or expired before a second.
    pub fn is_expired_before(&self, local_time: u32) -> bool {
        self.max_local_time != NO_TIME && self.max_local_time < local_time
    }

    /// The bases to write this data anew with. For several inputs take the smallest of each.
    pub fn encoding_stats(&self) -> EncodingStats {
        let epoch = EncodingStats::EPOCH;
        let known = self.min_local_time != NO_TIME;
        EncodingStats {
            min_timestamp: self.min_timestamp,
            min_local_time: if known { self.min_local_time } else { epoch.min_local_time },
            min_ttl: self.min_ttl,
        }
    }

    /// Whether a token lies in its range.
    pub fn covers(&self, token: Token) -> bool {
        self.first_token <= token && token <= self.last_token
    }

    /// Gathers the facts from the parts of an sstable.
    pub(crate) fn from_parts(
        descriptor: Descriptor,
        keys: (&[u8], &[u8]),
        stats: &Stats,
        bytes: (u64, u64),
    ) -> Meta {
        Meta {
            version: descriptor.version,
            generation: descriptor.id.number().unwrap_or(0),
            first_key: keys.0.into(),
            first_token: Token::of_key(keys.0),
            last_key: keys.1.into(),
            last_token: Token::of_key(keys.1),
            min_timestamp: stats.min_timestamp,
            max_timestamp: stats.max_timestamp,
            min_local_time: stats.min_local_time,
            max_local_time: stats.max_local_time,
            min_ttl: stats.min_ttl,
            max_ttl: stats.max_ttl,
            partitions: stats.partition_sizes.count(),
            rows: stats.rows,
            data_bytes: bytes.0,
            disk_bytes: bytes.1,
            level: stats.level,
            repaired_at: stats.repaired_at,
            tombstones: stats.tombstones.count(),
        }
    }

    /// Appends the record.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(FORMAT);
        out.extend_from_slice(self.version.letters().as_bytes());
        base::put_uvint(out, self.generation);
        put_vbytes(out, &self.first_key);
        put_vbytes(out, &self.last_key);
        base::put_svint(out, self.min_timestamp);
        base::put_svint(out, self.max_timestamp);
        for number in [self.min_local_time, self.max_local_time, self.min_ttl, self.max_ttl] {
            base::put_uvint(out, u64::from(number));
        }
        for number in [self.partitions, self.rows, self.data_bytes, self.disk_bytes, u64::from(self.level)] {
            base::put_uvint(out, number);
        }
        base::put_svint(out, self.repaired_at);
        base::put_uvint(out, self.tombstones);
    }

    /// Reads a record that fills `bytes` from the start; returns it and its size. `file` and `base` name the place in
    /// errors.
    pub fn decode(file: &Path, base: u64, bytes: &[u8]) -> Result<(Meta, usize), Error> {
        let mut cursor = Cursor::new(bytes);
        let meta = take(&mut cursor).map_err(|fault| fault.in_file(file, base))?;
        Ok((meta, cursor.at() as usize))
    }
}

fn take_u32(cursor: &mut Cursor<'_>) -> Decoded<u32> {
    let at = cursor.at();
    let number = cursor.uvint()?;
    u32::try_from(number).map_err(|_| cursor.bad_at(at, "a 32-bit number", number.to_string()))
}

fn take_version(cursor: &mut Cursor<'_>) -> Decoded<Version> {
    let at = cursor.at();
    let letters = String::from_utf8_lossy(cursor.bytes(2)?);
    Version::of_letters(&letters).ok_or_else(|| cursor.bad_at(at, "a version of sstables", letters))
}

fn take(cursor: &mut Cursor<'_>) -> Decoded<Meta> {
    let format = cursor.u8()?;
    let version = match format {
        FORMAT => take_version(cursor)?,
        FORMAT_NB => Version::Nb,
        _ => return Err(cursor.bad_at(0, "format 1 or 2", format.to_string())),
    };
    let local_time =
        |stored: u32| if format == FORMAT_NB && stored == i32::MAX as u32 { NO_TIME } else { stored };
    let generation = cursor.uvint()?;
    let first_key: Box<[u8]> = cursor.vbytes()?.into();
    let last_key: Box<[u8]> = cursor.vbytes()?.into();
    Ok(Meta {
        version,
        generation,
        first_token: Token::of_key(&first_key),
        last_token: Token::of_key(&last_key),
        first_key,
        last_key,
        min_timestamp: cursor.svint()?,
        max_timestamp: cursor.svint()?,
        min_local_time: local_time(take_u32(cursor)?),
        max_local_time: local_time(take_u32(cursor)?),
        min_ttl: take_u32(cursor)?,
        max_ttl: take_u32(cursor)?,
        partitions: cursor.uvint()?,
        rows: cursor.uvint()?,
        data_bytes: cursor.uvint()?,
        disk_bytes: cursor.uvint()?,
        level: take_u32(cursor)?,
        repaired_at: cursor.svint()?,
        tombstones: cursor.uvint()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_read_back_and_truncations_are_refused() {
        let stats = Stats { min_timestamp: -7, max_timestamp: 9, rows: 4, ..Stats::default() };
        let descriptor = Descriptor::new(Version::Da, 12);
        let meta = Meta::from_parts(descriptor, (b"first", b"last"), &stats, (1000, 700));
        assert_eq!(meta.descriptor(), descriptor);
        let mut bytes = Vec::new();
        meta.encode(&mut bytes);
        let size = bytes.len();
        bytes.push(77);
        let file = Path::new("manifest");
        assert_eq!(Meta::decode(file, 0, &bytes).unwrap(), (meta, size));
        for cut in 0..size {
            assert!(Meta::decode(file, 0, &bytes[..cut]).is_err());
        }
    }

    #[test]
    fn records_of_the_first_format_are_read() {
        let stats =
            Stats { min_timestamp: -7, max_timestamp: 9, rows: 4, min_local_time: 8, ..Stats::default() };
        let meta = Meta::from_parts(Descriptor::new(Version::Nb, 12), (b"a", b"b"), &stats, (1000, 700));
        let mut bytes = Vec::new();
        meta.encode(&mut bytes);
        bytes.splice(0..3, [FORMAT_NB]);
        // The largest local time stands in five bytes; that of the first format in as many.
        let none = bytes.windows(5).position(|five| five == [0xf0, 0xff, 0xff, 0xff, 0xff]).expect("no time");
        bytes[none + 1] = 0x7f;
        assert_eq!(Meta::decode(Path::new("manifest"), 0, &bytes).unwrap(), (meta, bytes.len()));
    }
}
