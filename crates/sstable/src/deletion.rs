//! Deletion times, in the two forms of version nb.
//!
//! ```text
//! full    i32 local_time, i64 timestamp      live: 7FFFFFFF 8000000000000000
//! delta   uvint timestamp - base, uvint i32(local_time - base)
//! ```

use mutation::{Deletion, NO_TIME};

use crate::cursor::{Cursor, Decoded, put_delta32};
use crate::statistics::{EncodingStats, NO_LOCAL_TIME};

/// A local time as stored: "none" has its own number and later times are capped below it.
pub(crate) fn stored_time(local_time: u32) -> u32 {
    if local_time == NO_TIME { NO_LOCAL_TIME } else { local_time.min(NO_LOCAL_TIME - 1) }
}

/// The local time of a stored one.
pub(crate) fn real_time(stored: u32) -> u32 {
    if stored == NO_LOCAL_TIME { NO_TIME } else { stored }
}

/// Appends the full form.
pub(crate) fn put_full(out: &mut Vec<u8>, deletion: Deletion) {
    let local_time = if deletion.is_live() { NO_LOCAL_TIME } else { stored_time(deletion.local_time) };
    out.extend_from_slice(&(local_time as i32).to_be_bytes());
    out.extend_from_slice(&deletion.timestamp.to_be_bytes());
}

/// Reads the full form.
pub(crate) fn take_full(cursor: &mut Cursor<'_>) -> Decoded<Deletion> {
    let local_time = cursor.u32()?;
    let timestamp = cursor.i64()?;
    Ok(normal(timestamp, local_time))
}

/// Appends the delta form.
pub(crate) fn put_delta(out: &mut Vec<u8>, deletion: Deletion, base: EncodingStats) {
    let local_time = if deletion.is_live() { NO_LOCAL_TIME } else { stored_time(deletion.local_time) };
    base::put_uvint(out, deletion.timestamp.wrapping_sub(base.min_timestamp) as u64);
    put_delta32(out, local_time, base.min_local_time);
}

/// Reads the delta form. A timestamp of `i64::MIN` is LIVE whatever the local time says: two spellings are around.
pub(crate) fn take_delta(cursor: &mut Cursor<'_>, base: EncodingStats) -> Decoded<Deletion> {
    let timestamp = take_timestamp(cursor, base)?;
    let local_time = take_time(cursor, base)?;
    Ok(normal(timestamp, local_time))
}

/// Reads a timestamp's delta.
pub(crate) fn take_timestamp(cursor: &mut Cursor<'_>, base: EncodingStats) -> Decoded<i64> {
    Ok(base.min_timestamp.wrapping_add(cursor.uvint()? as i64))
}

/// Reads a local time's delta, as stored.
pub(crate) fn take_time(cursor: &mut Cursor<'_>, base: EncodingStats) -> Decoded<u32> {
    Ok(base.min_local_time.wrapping_add(cursor.uvint()? as u32))
}

fn normal(timestamp: i64, stored: u32) -> Deletion {
    if timestamp == i64::MIN { Deletion::LIVE } else { Deletion { timestamp, local_time: real_time(stored) } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_are_read_back() {
        let base = EncodingStats { min_timestamp: 1_000, min_local_time: 1_700_000_000, min_ttl: 0 };
        let deletions = [
            Deletion::LIVE,
            Deletion { timestamp: 0, local_time: 0 },
            Deletion { timestamp: i64::MAX, local_time: NO_LOCAL_TIME - 1 },
            Deletion { timestamp: -1, local_time: 1_700_000_001 },
        ];
        for deletion in deletions {
            let mut bytes = Vec::new();
            put_full(&mut bytes, deletion);
            assert_eq!(take_full(&mut Cursor::new(&bytes)).unwrap(), deletion);
            bytes.clear();
            put_delta(&mut bytes, deletion, base);
            assert_eq!(take_delta(&mut Cursor::new(&bytes), base).unwrap(), deletion);
        }
    }

    #[test]
    fn the_worked_example_of_the_reference() {
        let mut bytes = Vec::new();
        let deletion = Deletion { timestamp: 1_700_000_000_000_000, local_time: 1_442_880_000 + 0x1500_3c17 };
        put_delta(&mut bytes, deletion, EncodingStats::EPOCH);
        assert_eq!(bytes[..7], [0xfc, 0xe9, 0xd9, 0x6a, 0x43, 0xc0, 0x00]);
        assert_eq!(bytes[7..], [0xf0, 0x15, 0x00, 0x3c, 0x17]);
    }
}
