//! What rows amount to, whatever their order: how many, and sums of their hashes. Equal rows on both sides make equal tallies.

use crate::limits::TALLY_PARTS;
use crate::record::{Location, Locations, Record};
use base::murmur3;
use uuid::Uuid;

/// Rows by the part that the hash of their path chooses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tally {
    parts: Vec<Part>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Part {
    rows: u64,
    sum: u64,
}

impl Default for Tally {
    fn default() -> Tally {
        Tally { parts: vec![Part::default(); TALLY_PARTS] }
    }
}

/// The part of a path.
pub fn part_of(path: &str) -> usize {
    murmur3(path.as_bytes()).1 as usize % TALLY_PARTS
}

impl Tally {
    /// Counts a row by its hash.
    pub fn add(&mut self, part: usize, hash: u64) {
        let part = &mut self.parts[part];
        part.rows += 1;
        part.sum = part.sum.wrapping_add(hash);
    }

    /// Rows.
    pub fn rows(&self) -> u64 {
        self.parts.iter().map(|part| part.rows).sum()
    }

    /// The sum of all hashes.
    pub fn sum(&self) -> u64 {
        self.parts.iter().fold(0, |sum, part| sum.wrapping_add(part.sum))
    }

    /// Parts that are not the same, each with its rows on both sides.
    pub fn differing(&self, other: &Tally) -> Vec<(usize, u64)> {
        let pairs = self.parts.iter().zip(&other.parts).enumerate();
        pairs.filter(|(_, (a, b))| a != b).map(|(part, (a, b))| (part, a.rows + b.rows)).collect()
    }
}

/// What stands in a file's entry.
#[derive(Clone, Copy, Debug)]
pub struct EntryFacts<'a> {
    /// Its path.
    pub path: &'a str,
    /// Whose it is.
    pub owner: &'a str,
    /// As of a file system.
    pub permissions: i16,
    /// Bytes.
    pub size: i64,
    /// Milliseconds since 1970.
    pub changed: i64,
    /// Its GUID.
    pub guid: Uuid,
}

impl<'a> EntryFacts<'a> {
    /// Of a record.
    pub fn of(record: &Record<'a>) -> EntryFacts<'a> {
        EntryFacts {
            path: record.path,
            owner: record.owner,
            permissions: record.permissions,
            size: record.size,
            changed: record.changed,
            guid: record.guid,
        }
    }

    /// Their hash. `scratch`: memory.
    pub fn hash(&self, scratch: &mut Vec<u8>) -> u64 {
        scratch.clear();
        scratch.extend_from_slice(self.guid.as_bytes());
        scratch.extend_from_slice(&self.size.to_be_bytes());
        scratch.extend_from_slice(&self.changed.to_be_bytes());
        scratch.extend_from_slice(&self.permissions.to_be_bytes());
        // Its length keeps two texts apart.
        scratch.extend_from_slice(&(self.owner.len() as u32).to_be_bytes());
        scratch.extend_from_slice(self.owner.as_bytes());
        scratch.extend_from_slice(self.path.as_bytes());
        murmur3(scratch).0 as u64
    }
}

/// The hash of what the index says of a GUID; the locations' as [`location_hash`] adds them up.
pub fn index_hash(guid: &Uuid, path: &str, locations: u64, scratch: &mut Vec<u8>) -> u64 {
    scratch.clear();
    scratch.extend_from_slice(guid.as_bytes());
    scratch.extend_from_slice(&locations.to_be_bytes());
    scratch.extend_from_slice(path.as_bytes());
    murmur3(scratch).0 as u64
}

/// The hash of one location: those of a file are added, in any order.
pub fn location_hash(element: &[u8], name: &[u8], scratch: &mut Vec<u8>) -> u64 {
    scratch.clear();
    scratch.extend_from_slice(&(element.len() as u32).to_be_bytes());
    scratch.extend_from_slice(element);
    scratch.extend_from_slice(name);
    murmur3(scratch).0 as u64
}

/// The sum of the hashes of a text's locations. A storage element that is named twice counts as the last of the two.
pub fn locations_hash(text: &str, scratch: &mut Vec<u8>) -> u64 {
    let mut parts = Locations::new(text);
    if !parts.is_plain() {
        return unescaped_hash(text, scratch);
    }
    let mut sum = 0u64;
    while let Some(Some((element, name))) = parts.next_written() {
        let mut later = parts.clone();
        let again = std::iter::from_fn(|| later.next_written()).flatten().any(|(known, _)| known == element);
        if !again {
            sum = sum.wrapping_add(location_hash(element.as_bytes(), name.as_bytes(), scratch));
        }
    }
    sum
}

fn unescaped_hash(text: &str, scratch: &mut Vec<u8>) -> u64 {
    let mut all: Vec<Location> = Vec::new();
    for (element, name) in Locations::new(text).flatten() {
        match all.iter_mut().find(|(known, _)| *known == element) {
            Some(known) => known.1 = name,
            None => all.push((element, name)),
        }
    }
    let mut hash = |(element, name): &Location| location_hash(element.as_bytes(), name.as_bytes(), scratch);
    all.iter().fold(0, |sum, location| sum.wrapping_add(hash(location)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_does_not_count_and_every_row_does() {
        let rows = [(3, 17), (3, 18), (9, u64::MAX)];
        let of = |rows: &[(usize, u64)]| {
            let mut tally = Tally::default();
            rows.iter().for_each(|(part, hash)| tally.add(*part, *hash));
            tally
        };
        let all = of(&rows);
        assert_eq!(all, of(&[rows[2], rows[0], rows[1]]));
        assert_eq!((all.rows(), all.sum()), (3, 34));
        assert!(all.differing(&all).is_empty());
        assert_eq!(all.differing(&of(&rows[..2])), [(9, 1)]);
        assert_eq!(all.differing(&of(&[(3, 17), (3, 19), (9, u64::MAX)])), [(3, 4)]);
    }

    #[test]
    fn every_fact_changes_the_hash() {
        let mut scratch = Vec::new();
        let guid = Uuid::from_u128(7);
        let facts = EntryFacts { path: "/a", owner: "b", permissions: 1, size: 2, changed: 3, guid };
        let hash = facts.hash(&mut scratch);
        for other in [
            EntryFacts { path: "/b", ..facts },
            EntryFacts { owner: "b/", path: "a", ..facts },
            EntryFacts { permissions: 2, ..facts },
            EntryFacts { size: 3, ..facts },
            EntryFacts { changed: 4, ..facts },
            EntryFacts { guid: Uuid::from_u128(8), ..facts },
        ] {
            assert_ne!(other.hash(&mut scratch), hash, "{other:?}");
        }
    }

    #[test]
    fn locations_count_in_any_order() {
        let mut scratch = Vec::new();
        let mut hash = |text: &str| locations_hash(text, &mut scratch);
        assert_eq!(hash("A=x;B=y"), hash("B=y;A=x"));
        assert_ne!(hash("A=x;B=y"), hash("A=y;B=x"));
        assert_eq!(hash("A=x;A=y"), hash("A=y"));
        assert_eq!((hash(""), hash("\\A=x")), (0, hash("A=x")));
    }
}
