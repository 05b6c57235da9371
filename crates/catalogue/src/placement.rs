//! Which partition holds what. These numbers live in the tables: they must never change.
//!
//! ```text
//!  entry of a folder    (folder, hash of the name mod the folder's partitions)     one unless the folder is huge
//!  index by GUID        (month of the GUID's time, hash of its host and slice of time mod 4096)
//! ```
//! What one host registers within some seconds is one partition's, so that it is one write; different hosts spread over all.
//! The partitions of a folder are a power of two. When they become twice as many nothing is moved: a name is looked for where it would
//! be written now, then where it would have been written before, down to the first partition.

use crate::error::Error;
use crate::limits::{MONTH_PARTITIONS, SLICE_BITS};
use base::{calendar, murmur3};
use types::timeuuid;
use uuid::Uuid;

/// The folder above all others.
pub const ROOT_ID: Uuid = Uuid::from_u128(0x6361_7461_6c6f_8000_8000_0000_0000_0001);
/// The folder above what was deleted: no path leads to it.
pub const TRASH_ID: Uuid = Uuid::from_u128(0x6361_7461_6c6f_8000_8000_0000_0000_0002);
/// 100 ns ticks of a day.
const DAY_TICKS: i64 = 86_400 * 10_000_000;

/// Where the index has a GUID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GuidPlace {
    /// Months since January of the year 0: 12 × year + month - 1.
    pub month: i32,
    /// From 0 to below 4096.
    pub bucket: i32,
}

/// Where the index has a GUID. Error: it tells no time.
pub fn guid_place(guid: &Uuid) -> Result<GuidPlace, Error> {
    let ticks = timeuuid::unix_ticks(guid).ok_or(Error::Guid(*guid))?;
    let (year, month, _) = calendar::civil(ticks.div_euclid(DAY_TICKS));
    let mut seed = [0; 16];
    seed[..8].copy_from_slice(&(ticks >> SLICE_BITS).to_be_bytes());
    // The host: the last six bytes.
    seed[8..14].copy_from_slice(&guid.as_bytes()[10..]);
    Ok(GuidPlace {
        month: (12 * year + i64::from(month) - 1) as i32,
        bucket: (murmur3(&seed).0 as u32 % MONTH_PARTITIONS) as i32,
    })
}

/// Where a folder of so many partitions may have a name: where it is written first.
pub fn buckets(name: &str, partitions: u32) -> impl Iterator<Item = i32> + use<> {
    let hash = murmur3(name.as_bytes()).0 as u32;
    let mut mask = partitions.max(1).next_power_of_two() - 1;
    let mut next = Some(hash & mask);
    std::iter::from_fn(move || {
        let bucket = next?;
        next = None;
        while 0 < mask && next.is_none() {
            mask >>= 1;
            next = Some(hash & mask).filter(|before| *before != bucket);
        }
        Some(bucket as i32)
    })
}

/// Where a name is written.
pub fn bucket(name: &str, partitions: u32) -> i32 {
    (murmur3(name.as_bytes()).0 as u32 & (partitions.max(1).next_power_of_two() - 1)) as i32
}

/// The id of a folder made at a path: the same whoever makes it. The next try is another: the first may belong to a folder that was
/// made there and moved away.
pub fn folder_id(path: &str, attempt: u32) -> Uuid {
    hashed(&[b"folder", path.as_bytes(), &attempt.to_be_bytes()])
}

/// The folder of what an owner has deleted.
pub fn trash_id(owner: &str) -> Uuid {
    hashed(&[b"trash", owner.as_bytes()])
}

/// A UUID of version 8 from what is hashed.
fn hashed(parts: &[&[u8]]) -> Uuid {
    let (high, low) = murmur3(&parts.join(&0));
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&high.to_be_bytes());
    bytes[8..].copy_from_slice(&low.to_be_bytes());
    bytes[6] = bytes[6] & 0x0F | 0x80;
    bytes[8] = bytes[8] & 0x3F | 0x80;
    Uuid::from_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guids_lie_by_month_host_and_seconds() {
        // 2018-10-01T00:00:00Z, and a moment before.
        let ticks = 1_538_352_000 * 10_000_000;
        let at = |ticks, node| guid_place(&timeuuid::from_ticks(ticks, node)).expect("a time");
        assert_eq!((at(ticks, 1).month, at(ticks - 1, 1).month), (12 * 2018 + 9, 12 * 2018 + 8));
        let first = ticks >> SLICE_BITS << SLICE_BITS;
        assert_eq!(at(first + (1 << SLICE_BITS), 1), at(first + (2 << SLICE_BITS) - 1, 1));
        // The clock sequence does not count, the host does.
        assert_eq!(at(first, 7), at(first, 7 | 3 << 48));
        let spread: std::collections::BTreeSet<i32> = (0..1000).map(|node| at(first, node).bucket).collect();
        assert!(spread.len() > 800 && spread.iter().all(|bucket| (0..4096).contains(bucket)));
        assert!(guid_place(&folder_id("/a", 0)).is_err());
    }

    #[test]
    fn a_name_is_looked_for_where_it_may_have_been_written() {
        for name in ["a", "some.root", "000285064"] {
            assert_eq!(buckets(name, 1).collect::<Vec<_>>(), [0]);
            let looked: Vec<i32> = buckets(name, 64).collect();
            assert_eq!(looked.first(), Some(&bucket(name, 64)));
            for partitions in [1, 2, 4, 8, 16, 32, 64] {
                assert!(looked.contains(&bucket(name, partitions)), "{name} {partitions} {looked:?}");
            }
            let unique: std::collections::BTreeSet<i32> = looked.iter().copied().collect();
            assert_eq!(unique.len(), looked.len());
        }
    }

    #[test]
    fn ids_of_folders_are_of_version_8_and_their_own() {
        let ids = [folder_id("/a", 0), folder_id("/a", 1), folder_id("/b", 0), trash_id("/a"), trash_id("b")];
        let unique: std::collections::BTreeSet<Uuid> = ids.into_iter().collect();
        assert_eq!(unique.len(), ids.len());
        assert!(ids.iter().all(|id| id.get_version_num() == 8));
        // They live in the tables.
        assert_eq!(folder_id("/alice", 0), folder_id("/alice", 0));
    }
}
