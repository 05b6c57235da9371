//! Every 128th key of the index, in memory (`Summary.db`).
//!
//! ```text
//! i32 min_index_interval, i32 entries, i64 size, i32 sampling_level, i32 entries_at_full_sampling
//! u32 LE offset*          from the start of this table
//! key bytes, i64 LE index position        per entry, up to where the next starts
//! i32 length, first key; i32 length, last key
//! ```
//! Offsets and positions are little-endian, unlike everything else.

use base::Token;
use std::path::Path;

use crate::cursor::{Cursor, Decoded};
use crate::error::Error;

/// The sampled keys, in ring order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    entries: Vec<Entry>,
    keys: Vec<u8>,
    first_key: Vec<u8>,
    last_key: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    token: Token,
    key_end: usize,
    index_position: u64,
}

impl Summary {
    /// Adds a sampled key; the first key of the sstable is always sampled. Keys come in ring order.
    pub fn push(&mut self, token: Token, key: &[u8], index_position: u64) {
        self.keys.extend_from_slice(key);
        self.entries.push(Entry { token, key_end: self.keys.len(), index_position });
    }

    /// Sets the ends of the sstable's key range.
    pub fn set_range(&mut self, first_key: &[u8], last_key: &[u8]) {
        self.first_key = first_key.to_vec();
        self.last_key = last_key.to_vec();
    }

    /// The smallest key.
    pub fn first_key(&self) -> &[u8] {
        &self.first_key
    }

    /// The largest key.
    pub fn last_key(&self) -> &[u8] {
        &self.last_key
    }

    /// Bytes held in memory.
    pub fn bytes(&self) -> u64 {
        (self.keys.len() + self.entries.len() * size_of::<Entry>()) as u64
    }

    fn key(&self, index: usize) -> &[u8] {
        let start = if index == 0 { 0 } else { self.entries[index - 1].key_end };
        &self.keys[start..self.entries[index].key_end]
    }

    /// Where in the index to start looking for a key: the position of the last sampled key at or before it, or of the
    /// first entry when it lies before all.
    pub fn floor(&self, token: Token, key: &[u8]) -> u64 {
        let (mut low, mut high) = (0, self.entries.len());
        while low < high {
            let middle = (low + high) / 2;
            if (self.entries[middle].token, self.key(middle)) <= (token, key) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        self.entries.get(low.saturating_sub(1)).map_or(0, |entry| entry.index_position)
    }

    /// Where the sampled entry after that place starts: an end for the search.
    pub fn next_after(&self, index_position: u64) -> Option<u64> {
        let next = self.entries.partition_point(|entry| entry.index_position <= index_position);
        self.entries.get(next).map(|entry| entry.index_position)
    }

    /// The component's bytes, for a table's `min_index_interval`. Errors: `TooLarge` beyond 4 GiB.
    pub fn encode(&self, interval: u32) -> Result<Vec<u8>, Error> {
        let table = self.entries.len() * 4;
        let size = table + self.keys.len() + self.entries.len() * 8;
        if u32::try_from(size).is_err() {
            return Err(Error::TooLarge {
                what: "the summary",
                size: size as u64,
                limit: u64::from(u32::MAX),
            });
        }
        let mut out = Vec::with_capacity(40 + size + self.first_key.len() + self.last_key.len());
        out.extend_from_slice(&(interval as i32).to_be_bytes());
        out.extend_from_slice(&(self.entries.len() as i32).to_be_bytes());
        out.extend_from_slice(&(size as i64).to_be_bytes());
        out.extend_from_slice(&128i32.to_be_bytes());
        out.extend_from_slice(&(self.entries.len() as i32).to_be_bytes());
        for index in 0..self.entries.len() {
            let before = if index == 0 { 0 } else { self.entries[index - 1].key_end };
            out.extend_from_slice(&((table + before + index * 8) as u32).to_le_bytes());
        }
        for (index, entry) in self.entries.iter().enumerate() {
            out.extend_from_slice(self.key(index));
            out.extend_from_slice(&(entry.index_position as i64).to_le_bytes());
        }
        for key in [&self.first_key, &self.last_key] {
            out.extend_from_slice(&(key.len() as i32).to_be_bytes());
            out.extend_from_slice(key);
        }
        Ok(out)
    }

    /// Reads the component; positions must lie below `index_bytes`. Errors: `Corrupt`: rebuild it from the index.
    pub fn decode(file: &Path, bytes: &[u8], index_bytes: u64) -> Result<Summary, Error> {
        decode(bytes, index_bytes).map_err(|fault| fault.in_file(file, 0))
    }
}

fn decode(bytes: &[u8], index_bytes: u64) -> Decoded<Summary> {
    let mut cursor = Cursor::new(bytes);
    let _interval = cursor.i32()?;
    let entries = cursor.i32()?;
    let size = cursor.i64()?;
    let _sampling_level = cursor.i32()?;
    let _at_full_sampling = cursor.i32()?;
    let base = cursor.at();
    let entries = cursor.count(entries.max(0) as u64, 4)?;
    let size = cursor.count(size.max(0) as u64, 1)?;
    let body = cursor.bytes(size)?;
    let mut table = Cursor::new(body);
    let mut offsets = Vec::with_capacity(entries + 1);
    for _ in 0..entries {
        offsets.push(table.u32()?.swap_bytes() as usize);
    }
    offsets.push(size);
    let mut summary = Summary::default();
    for (index, pair) in offsets.windows(2).enumerate() {
        let at = base + index as u64 * 4;
        let entry = body.get(pair[0]..pair[1]).and_then(|entry| entry.split_last_chunk::<8>());
        let Some((key, position)) = entry.filter(|_| pair[0] >= entries * 4) else {
            return Err(cursor.bad_at(at, "the offset of an entry", pair[0].to_string()));
        };
        let position = u64::from_le_bytes(*position);
        let token = Token::of_key(key);
        let last = summary.entries.last().map(|last| (last.token, last.index_position));
        if position >= index_bytes
            || last.is_some_and(|(token_before, before)| before >= position || token_before > token)
        {
            return Err(cursor.bad_at(at, "an ascending index position", position.to_string()));
        }
        summary.push(token, key, position);
    }
    for key in [&mut summary.first_key, &mut summary.last_key] {
        let size = cursor.count_i32(1)?;
        *key = cursor.bytes(size)?.to_vec();
    }
    if summary.entries.first().is_none_or(|entry| entry.index_position != 0) {
        return Err(cursor.bad_at(base, "an entry for the first key", "none"));
    }
    Ok(summary)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> (Summary, Vec<(Token, Vec<u8>)>) {
        let mut keys: Vec<(Token, Vec<u8>)> = (0..100u32)
            .map(|key| key.to_string().into_bytes())
            .map(|key| (Token::of_key(&key), key))
            .collect();
        keys.sort();
        let mut summary = Summary::default();
        for (index, (token, key)) in keys.iter().enumerate() {
            if index % 10 == 0 {
                summary.push(*token, key, index as u64 * 50);
            }
        }
        summary.set_range(&keys[0].1, &keys[99].1);
        (summary, keys)
    }

    #[test]
    fn the_floor_is_found() {
        let (summary, keys) = sample();
        for (index, (token, key)) in keys.iter().enumerate() {
            let floor = (index / 10 * 10) as u64 * 50;
            assert_eq!(summary.floor(*token, key), floor);
            assert_eq!(summary.next_after(floor), (index < 90).then_some(floor + 500));
        }
        assert_eq!(summary.floor(Token::MIN, b""), 0);
    }

    #[test]
    fn is_read_back_and_truncations_are_refused() {
        let (summary, _) = sample();
        let bytes = summary.encode(128).unwrap();
        let file = Path::new("Summary.db");
        assert_eq!(Summary::decode(file, &bytes, 5000).unwrap(), summary);
        assert!(Summary::decode(file, &bytes, 4500).is_err());
        for size in 0..bytes.len() {
            assert!(Summary::decode(file, &bytes[..size], 5000).is_err());
        }
    }
}
