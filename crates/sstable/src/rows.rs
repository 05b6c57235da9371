//! `Rows.db`: for each wide partition a trie over what tells its blocks apart, and an entry that names the partition.
//!
//! ```text
//! entry     u16 length, key | uvint data position, svint root - here (behind the key), uvint blocks, deletion (full)
//! key       block 0: empty; else the least bytes that lie behind all of the block before and not behind the block's first;
//!           last of all one behind the last row
//! payload   bits n (1-7) | 8: n bytes signed offset from the partition's start [deletion (full) open at the block's START]
//! ```

use mutation::Deletion;

use crate::cursor::{Cursor, Decoded, put_short_bytes};
use crate::deletion::Times;
use crate::partitions::{signed_size, take_signed};
use crate::statistics::EncodingStats;
use crate::trie::{Payload, Trie};
use crate::trie_writer::{NewPayload, TrieSink, TrieWriter};
use crate::version::Version;

pub(crate) use crate::trie::{Found, Pages};

/// Set in the payload bits when a deletion follows.
const WITH_DELETION: u8 = 8;

/// The full form of deletions in this file, which does not depend on bases.
fn times() -> Times {
    Times::new(Version::Da, EncodingStats::EPOCH)
}

/// Where a block starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockStart {
    /// Bytes from the partition's start.
    pub(crate) offset: u64,
    /// The range tombstone that is open there.
    pub(crate) open: Deletion,
}

impl Payload for BlockStart {
    fn take(bits: u8, cursor: &mut Cursor<'_>) -> Decoded<BlockStart> {
        let offset = take_signed(cursor, usize::from(bits & !WITH_DELETION))?;
        let Ok(offset) = u64::try_from(offset) else {
            return Err(cursor.bad_at(0, "an offset", offset.to_string()));
        };
        let open = if bits & WITH_DELETION != 0 { times().take_full(cursor)? } else { Deletion::LIVE };
        Ok(BlockStart { offset, open })
    }
}

/// The entry of a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RowsEntry {
    /// The partition.
    pub(crate) key: Vec<u8>,
    /// Where it starts, in uncompressed bytes of the data file.
    pub(crate) data_position: u64,
    /// The root of its trie.
    pub(crate) root: u64,
}

/// Reads the entry at a position.
pub(crate) fn take_entry(bytes: &[u8], position: u64) -> Decoded<RowsEntry> {
    let mut cursor = Cursor::new(bytes);
    let key = cursor.short_bytes()?.to_vec();
    let base = position + cursor.at();
    let data_position = cursor.uvint()?;
    let at = cursor.at();
    let distance = cursor.svint()?;
    cursor.uvint()?;
    times().take_full(&mut cursor)?;
    match base.checked_add_signed(distance) {
        Some(root) if root < position => Ok(RowsEntry { key, data_position, root }),
        _ => Err(cursor.bad_at(at, "the distance to a root before", distance.to_string())),
    }
}

/// The last block that starts at or before a place, or before it only.
pub(crate) fn floor(
    pages: &mut impl Pages,
    root: u64,
    place: &[u8],
    strictly: bool,
) -> Decoded<Option<Found<BlockStart>>> {
    Trie::new(pages, root).floor(place, strictly)
}

/// The least bytes that lie behind `before` and not behind `first`.
fn separator(before: &[u8], first: &[u8]) -> Vec<u8> {
    let shared = before.iter().zip(first).take_while(|(a, b)| a == b).count();
    let mut out = before[..shared].to_vec();
    out.push(before.get(shared).map_or(0, |byte| byte.saturating_add(1)));
    out
}

/// The bytes at least `depth` long and one more that lie just behind `last`.
fn behind(last: &[u8], depth: usize) -> Vec<u8> {
    let mut out = last[..depth.min(last.len())].to_vec();
    for byte in &last[out.len()..] {
        match byte.checked_add(1) {
            Some(next) => {
                out.push(next);
                return out;
            }
            None => out.push(*byte),
        }
    }
    out.push(0);
    out
}

/// Builds the trie of one partition after another.
#[derive(Debug, Default)]
pub(crate) struct RowsWriter {
    trie: TrieWriter,
    separator: Vec<u8>,
    /// The last place of the block before.
    last: Vec<u8>,
}

impl RowsWriter {
    /// Forgets the partition.
    pub(crate) fn clear(&mut self) {
        if self.trie.entries() > 0 {
            *self = RowsWriter::default();
        }
    }

    /// Adds a block: its first and last place, where it starts and what is open there.
    pub(crate) fn push(&mut self, first: &[u8], last: &[u8], start: BlockStart, out: &mut impl TrieSink) {
        self.separator = if self.trie.entries() == 0 { Vec::new() } else { separator(&self.last, first) };
        self.last.clear();
        self.last.extend_from_slice(last);
        self.trie.add(&self.separator, payload(start), out);
    }

    /// Writes the trie and the entry of the partition, and returns the entry's position; a single block is not worth them.
    /// `end` is the offset of the partition's end.
    pub(crate) fn finish(
        &mut self,
        key: &[u8],
        data_position: u64,
        deletion: Deletion,
        end: u64,
        out: &mut impl TrieSink,
    ) -> Option<u64> {
        let blocks = self.trie.entries();
        if blocks < 2 {
            self.clear();
            return None;
        }
        let shared = self.last.iter().zip(&self.separator).take_while(|(a, b)| a == b).count();
        let open = Deletion::LIVE;
        self.trie.add(&behind(&self.last, shared), payload(BlockStart { offset: end, open }), out);
        let root = self.trie.finish(out);
        let position = out.position();
        let mut entry = Vec::with_capacity(key.len() + 48);
        put_short_bytes(&mut entry, key);
        let base = position + entry.len() as u64;
        base::put_uvint(&mut entry, data_position);
        base::put_svint(&mut entry, root as i64 - base as i64);
        base::put_uvint(&mut entry, blocks);
        times().put_full(&mut entry, deletion);
        out.end().extend_from_slice(&entry);
        Some(position)
    }
}

fn payload(start: BlockStart) -> NewPayload {
    let size = signed_size(start.offset as i64);
    let mut bytes = start.offset.to_be_bytes()[8 - size..].to_vec();
    let mut bits = size as u8;
    if !start.open.is_live() {
        bits |= WITH_DELETION;
        times().put_full(&mut bytes, start.open);
    }
    NewPayload::new(bits, &bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separators_lie_between() {
        assert_eq!(separator(b"abc", b"abd"), b"abd");
        assert_eq!(separator(b"abcx", b"ax"), b"ac");
        assert_eq!(behind(b"abc", 1), b"ac");
        assert_eq!(behind(b"a\xff\xffc", 1), b"a\xff\xffd");
        assert_eq!(behind(b"a\xff", 1), b"a\xff\0");
    }

    #[test]
    fn blocks_are_found_again() {
        let mut out = vec![9; 100];
        let mut writer = RowsWriter::default();
        let place = |number: u32| [&[0x40][..], &number.to_be_bytes(), &[0x38]].concat();
        let open = Deletion { timestamp: 5, local_time: 6 };
        let start = |block: u32| BlockStart {
            offset: 20 + u64::from(block) * 16_384,
            open: if block % 3 == 1 { open } else { Deletion::LIVE },
        };
        for block in 0..5000 {
            writer.push(&place(block * 20), &place(block * 20 + 19), start(block), &mut out);
        }
        let at = writer.finish(b"key", 77, Deletion::LIVE, 100_000_000, &mut out).expect("many blocks");
        let entry = take_entry(&out[at as usize..], at).unwrap();
        assert_eq!((&entry.key[..], entry.data_position), (&b"key"[..], 77));
        let mut pages = crate::trie::InMemory(&out);
        for number in 0..100_000u32 {
            let found =
                floor(&mut pages, entry.root, &place(number), false).unwrap().expect("block 0 is before all");
            assert_eq!(found.payload, start(number / 20), "{number}");
            if number >= 20 {
                let before = floor(&mut pages, entry.root, &found.path, true).unwrap().expect("one before");
                assert_eq!(before.payload, start(number / 20 - 1));
            }
        }
        let end = floor(&mut pages, entry.root, &place(u32::MAX), false).unwrap().expect("the end");
        assert_eq!(end.payload.offset, 100_000_000);
        writer.push(&place(1), &place(2), start(0), &mut out);
        assert_eq!(writer.finish(b"key", 77, Deletion::LIVE, 90, &mut out), None);
    }
}
