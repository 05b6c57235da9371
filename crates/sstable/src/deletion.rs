//! Deletion times, in the two forms of the data and index files.
//!
//! ```text
//! full    before oa: i32 local_time, i64 timestamp      live: 7FFFFFFF 8000000000000000
//!         oa, da:    i64 timestamp, u32 local_time      live: 80
//! delta   uvint timestamp - base, uvint i32(local_time - base)
//! ```

use mutation::{Deletion, NO_TIME};

use crate::cursor::{Cursor, Decoded, put_delta32};
use crate::statistics::EncodingStats;
use crate::version::Version;

/// "No deletion time" before oa; later real times are capped below it.
const NARROW_NONE: u32 = i32::MAX as u32;
/// The last real time of oa and da.
const WIDE_LAST: u32 = u32::MAX - 2;
/// The whole full form of a live deletion in oa and da, and the bit that tells it.
const WIDE_LIVE: u8 = 0x80;

/// How times are written in one sstable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Times {
    /// Delta bases.
    pub(crate) base: EncodingStats,
    /// As oa and da do.
    wide: bool,
}

impl Times {
    /// How a version writes them, counted from these bases.
    pub(crate) fn new(version: Version, base: EncodingStats) -> Times {
        Times { base, wide: version.facts().wide_times }
    }

    /// A local time as stored: "none" has its own number and later times are capped below it.
    pub(crate) fn stored(self, local_time: u32) -> u32 {
        match (local_time, self.wide) {
            (NO_TIME, true) => NO_TIME,
            (_, true) => local_time.min(WIDE_LAST),
            (NO_TIME, false) => NARROW_NONE,
            (_, false) => local_time.min(NARROW_NONE - 1),
        }
    }

    /// The local time of a stored one.
    pub(crate) fn real(self, stored: u32) -> u32 {
        if !self.wide && stored == NARROW_NONE { NO_TIME } else { stored }
    }

    /// What is read back of a local time.
    pub(crate) fn kept(self, local_time: u32) -> u32 {
        self.real(self.stored(local_time))
    }

    /// Whether the full form can tell the deletion: oa and da have no place for timestamps before 1970.
    pub(crate) fn fits_full(self, deletion: Deletion) -> bool {
        !self.wide || deletion.is_live() || deletion.timestamp >= 0
    }

    /// Appends the full form. A timestamp that does not fit becomes 0.
    pub(crate) fn put_full(self, out: &mut Vec<u8>, deletion: Deletion) {
        let local_time = if deletion.is_live() { NO_TIME } else { deletion.local_time };
        let local_time = self.stored(local_time).to_be_bytes();
        if !self.wide {
            out.extend_from_slice(&local_time);
            out.extend_from_slice(&deletion.timestamp.to_be_bytes());
        } else if deletion.is_live() {
            out.push(WIDE_LIVE);
        } else {
            out.extend_from_slice(&deletion.timestamp.max(0).to_be_bytes());
            out.extend_from_slice(&local_time);
        }
    }

    /// Reads the full form.
    pub(crate) fn take_full(self, cursor: &mut Cursor<'_>) -> Decoded<Deletion> {
        if !self.wide {
            let local_time = cursor.u32()?;
            let timestamp = cursor.i64()?;
            return Ok(self.deletion(timestamp, local_time));
        }
        let at = cursor.at();
        let first = cursor.u8()?;
        match first {
            WIDE_LIVE => Ok(Deletion::LIVE),
            _ if first & WIDE_LIVE != 0 => {
                Err(cursor.bad_at(at, "the first byte of a deletion", format!("{first:#04x}")))
            }
            _ => {
                let rest = cursor.bytes(7)?;
                let timestamp =
                    rest.iter().fold(i64::from(first), |number, byte| number << 8 | i64::from(*byte));
                let local_time = cursor.u32()?;
                Ok(self.deletion(timestamp, local_time))
            }
        }
    }

    /// Appends the delta form.
    pub(crate) fn put_delta(self, out: &mut Vec<u8>, deletion: Deletion) {
        let local_time = if deletion.is_live() { NO_TIME } else { deletion.local_time };
        base::put_uvint(out, deletion.timestamp.wrapping_sub(self.base.min_timestamp) as u64);
        self.put_time(out, local_time);
    }

    /// Appends a local time's delta.
    pub(crate) fn put_time(self, out: &mut Vec<u8>, local_time: u32) {
        put_delta32(out, self.stored(local_time), self.base.min_local_time);
    }

    /// Reads the delta form. A timestamp of `i64::MIN` is LIVE whatever the local time says: two spellings are around.
    pub(crate) fn take_delta(self, cursor: &mut Cursor<'_>) -> Decoded<Deletion> {
        let timestamp = self.take_timestamp(cursor)?;
        let stored = self.take_stored(cursor)?;
        Ok(self.deletion(timestamp, stored))
    }

    /// Reads a timestamp's delta.
    pub(crate) fn take_timestamp(self, cursor: &mut Cursor<'_>) -> Decoded<i64> {
        Ok(self.base.min_timestamp.wrapping_add(cursor.uvint()? as i64))
    }

    /// Reads a time to live's delta.
    pub(crate) fn take_ttl(self, cursor: &mut Cursor<'_>) -> Decoded<u32> {
        let at = cursor.at();
        let ttl = self.base.min_ttl.wrapping_add(cursor.uvint()? as u32);
        if ttl == 0 || ttl > i32::MAX as u32 {
            return Err(cursor.bad_at(at, "a ttl in seconds", ttl.to_string()));
        }
        Ok(ttl)
    }

    /// Reads a local time's delta.
    pub(crate) fn take_time(self, cursor: &mut Cursor<'_>) -> Decoded<u32> {
        Ok(self.real(self.take_stored(cursor)?))
    }

    fn take_stored(self, cursor: &mut Cursor<'_>) -> Decoded<u32> {
        Ok(self.base.min_local_time.wrapping_add(cursor.uvint()? as u32))
    }

    fn deletion(self, timestamp: i64, stored: u32) -> Deletion {
        match timestamp {
            i64::MIN => Deletion::LIVE,
            _ => Deletion { timestamp, local_time: self.real(stored) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_are_read_back_in_every_version() {
        let base = EncodingStats { min_timestamp: 1_000, min_local_time: 1_700_000_000, min_ttl: 0 };
        for version in Version::ALL {
            let times = Times::new(version, base);
            let last = if times.wide { WIDE_LAST } else { NARROW_NONE - 1 };
            let deletions = [
                Deletion::LIVE,
                Deletion { timestamp: 0, local_time: 0 },
                Deletion { timestamp: i64::MAX, local_time: last },
                Deletion { timestamp: -1, local_time: 1_700_000_001 },
            ];
            for deletion in deletions {
                let mut bytes = Vec::new();
                times.put_full(&mut bytes, deletion);
                let full = times.take_full(&mut Cursor::new(&bytes)).unwrap();
                let told = Deletion { timestamp: deletion.timestamp.max(0), ..deletion };
                assert_eq!(full, if times.fits_full(deletion) { deletion } else { told });
                bytes.clear();
                times.put_delta(&mut bytes, deletion);
                assert_eq!(times.take_delta(&mut Cursor::new(&bytes)).unwrap(), deletion);
            }
            assert_eq!((times.kept(NO_TIME), times.kept(u32::MAX - 1)), (NO_TIME, last));
        }
    }

    #[test]
    fn the_worked_example_of_the_reference() {
        let mut bytes = Vec::new();
        let deletion = Deletion { timestamp: 1_700_000_000_000_000, local_time: 1_442_880_000 + 0x1500_3c17 };
        Times::new(Version::Nb, EncodingStats::EPOCH).put_delta(&mut bytes, deletion);
        assert_eq!(bytes[..7], [0xfc, 0xe9, 0xd9, 0x6a, 0x43, 0xc0, 0x00]);
        assert_eq!(bytes[7..], [0xf0, 0x15, 0x00, 0x3c, 0x17]);
        bytes.clear();
        Times::new(Version::Oa, EncodingStats::EPOCH).put_delta(&mut bytes, Deletion::LIVE);
        let live = [
            0xff, 0x7f, 0xfa, 0xdf, 0xb5, 0x52, 0x25, 0x80, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xa9, 0xff,
            0x65, 0xff,
        ];
        assert_eq!(bytes, live);
        let bad = Times::new(Version::Da, EncodingStats::EPOCH).take_full(&mut Cursor::new(&[0x81; 12]));
        assert!(bad.is_err());
    }
}
