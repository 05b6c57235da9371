//! `Partitions.db`: a trie over all partition keys, each cut behind the first byte that tells it from its neighbours.
//!
//! ```text
//! key       40, token (8 bytes, sign turned), 40, key escaped, 38
//! payload   bits 8 + n-1: u8 low byte of the key's second hash, n bytes signed:
//!           >= 0 position in Rows.db, < 0 ~position in Data.db
//! end       u16 length, first key, u16 length, last key, i64 position of these, i64 keys, i64 root
//! ```

use base::Token;
use types::order::{END, NEXT, put_escaped};

use crate::cursor::{Cursor, Decoded, put_short_bytes};
use crate::trie::{Found, Pages, Payload, Trie};
use crate::trie_writer::{NewPayload, TrieSink, TrieWriter};

/// Bytes at the end that tell where everything is.
pub(crate) const FOOTER_BYTES: u64 = 24;

/// Set in the payload bits when the first byte is a hash.
const WITH_HASH: u8 = 8;

/// Where more about a partition stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// In the data file: it has no row index.
    Data(u64),
    /// Its entry in the row index.
    Rows(u64),
}

/// What the trie says about a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PartitionEntry {
    /// The low byte of the second half of the key's hash.
    pub(crate) hash: Option<u8>,
    /// Where more stands.
    pub(crate) place: Place,
}

impl Payload for PartitionEntry {
    fn take(bits: u8, cursor: &mut Cursor<'_>) -> Decoded<PartitionEntry> {
        let hash = if bits & WITH_HASH != 0 { Some(cursor.u8()?) } else { None };
        let size = usize::from(if hash.is_some() { bits - WITH_HASH + 1 } else { bits });
        let number = take_signed(cursor, size)?;
        let place = if number < 0 { Place::Data(!number as u64) } else { Place::Rows(number as u64) };
        Ok(PartitionEntry { hash, place })
    }
}

/// Reads a signed number of 1 to 8 bytes.
pub(crate) fn take_signed(cursor: &mut Cursor<'_>, size: usize) -> Decoded<i64> {
    let bytes = cursor.bytes(size)?;
    let sign = if bytes.first().is_some_and(|byte| byte & 0x80 != 0) { -1 } else { 0 };
    Ok(bytes.iter().fold(sign, |number, byte| number << 8 | i64::from(*byte)))
}

/// Bytes that a signed number needs, at least one.
pub(crate) fn signed_size(number: i64) -> usize {
    let magnitude = if number < 0 { !number } else { number } as u64;
    (65 - magnitude.leading_zeros() as usize).div_ceil(8)
}

/// The byte-comparable form of a partition key.
pub(crate) fn comparable(token: Token, key: &[u8]) -> Vec<u8> {
    // Room for a key with a few bytes to escape.
    let mut out = Vec::with_capacity(COMPARABLE_TOKEN_BYTES + key.len() + 6);
    put_comparable(token, key, &mut out);
    out
}

fn put_comparable(token: Token, key: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&comparable_token(token));
    out.push(NEXT);
    put_escaped(key, out);
    out.push(END);
}

/// Bytes of a token in a key.
const COMPARABLE_TOKEN_BYTES: usize = 9;

/// What all keys of a token begin with.
fn comparable_token(token: Token) -> [u8; COMPARABLE_TOKEN_BYTES] {
    let mut out = [NEXT; COMPARABLE_TOKEN_BYTES];
    out[1..].copy_from_slice(&(token.0 as u64 ^ 1 << 63).to_be_bytes());
    out
}

/// What stands at the end of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Footer {
    /// Where the first key stands.
    pub(crate) keys_at: u64,
    /// How many keys there are.
    pub(crate) count: u64,
    /// The root of the trie.
    pub(crate) root: u64,
}

impl Footer {
    /// Reads the last [`FOOTER_BYTES`] of a file of so many bytes.
    pub(crate) fn take(bytes: &[u8], file_bytes: u64) -> Decoded<Footer> {
        let mut cursor = Cursor::new(bytes);
        let (keys_at, count, root) = (cursor.u64()?, cursor.u64()?, cursor.u64()?);
        if keys_at >= file_bytes || root >= keys_at || count == 0 {
            let got = format!("keys at {keys_at}, {count} of them, root at {root}");
            return Err(cursor.bad_at(0, format!("positions within {file_bytes} bytes"), got));
        }
        Ok(Footer { keys_at, count, root })
    }
}

/// Reads the first and the last key.
pub(crate) fn take_keys(bytes: &[u8]) -> Decoded<(Vec<u8>, Vec<u8>)> {
    let mut cursor = Cursor::new(bytes);
    Ok((cursor.short_bytes()?.to_vec(), cursor.short_bytes()?.to_vec()))
}

/// The entry that a key has if it is there at all: another key may have it.
pub(crate) fn find(
    pages: &mut impl Pages,
    root: u64,
    token: Token,
    key: &[u8],
    hash: u8,
) -> Decoded<Option<PartitionEntry>> {
    let found: Option<PartitionEntry> = Trie::new(pages, root).on_path(&comparable(token, key))?;
    Ok(found.filter(|entry| entry.hash.is_none_or(|stored| stored == hash)))
}

/// The first entry that may be at or behind a token: itself may be before, the next one never is.
pub(crate) fn first_near(
    pages: &mut impl Pages,
    root: u64,
    token: Token,
) -> Decoded<Option<Found<PartitionEntry>>> {
    Trie::new(pages, root).ceiling(&comparable_token(token), false)
}

/// The first entry that may be behind a key, whose comparable form this is: itself may be before, or the key's; the next one never
/// is.
pub(crate) fn near(pages: &mut impl Pages, root: u64, key: &[u8]) -> Decoded<Option<Found<PartitionEntry>>> {
    Trie::new(pages, root).ceiling(key, false)
}

/// The first entry.
pub(crate) fn first(pages: &mut impl Pages, root: u64) -> Decoded<Option<Found<PartitionEntry>>> {
    Trie::new(pages, root).ceiling(&[], false)
}

/// The entry behind another.
pub(crate) fn next(pages: &mut impl Pages, root: u64, path: &[u8]) -> Decoded<Option<Found<PartitionEntry>>> {
    Trie::new(pages, root).ceiling(path, true)
}

/// Builds the file.
#[derive(Debug, Default)]
pub(crate) struct PartitionsWriter {
    trie: TrieWriter,
    /// The last key, which is cut when the next one is known.
    last: (Token, Vec<u8>),
    last_payload: NewPayload,
    /// Bytes that the last key shares with the one before, if there is one.
    shared: Option<usize>,
    /// Room for keys of the same token.
    both: [Vec<u8>; 2],
    count: u64,
}

impl PartitionsWriter {
    /// Adds a partition; they come in ring order.
    pub(crate) fn add(&mut self, token: Token, key: &[u8], hash: u8, place: Place, out: &mut impl TrieSink) {
        let number = match place {
            Place::Data(position) => !(position as i64),
            Place::Rows(position) => position as i64,
        };
        let size = signed_size(number);
        let mut bytes = [0; 9];
        bytes[0] = hash;
        bytes[1..=size].copy_from_slice(&number.to_be_bytes()[8 - size..]);
        let payload = NewPayload::new(WITH_HASH + size as u8 - 1, &bytes[..=size]);
        if self.count > 0 {
            let shared = self.shared_with(token, key);
            self.add_last(shared.max(self.shared.unwrap_or(0)) + 1, out);
            self.shared = Some(shared);
        }
        self.last.0 = token;
        self.last.1.clear();
        self.last.1.extend_from_slice(key);
        self.last_payload = payload;
        self.count += 1;
    }

    /// Bytes that a key shares with the last one.
    fn shared_with(&mut self, token: Token, key: &[u8]) -> usize {
        let differ = token.0 ^ self.last.0.0;
        if differ != 0 {
            return 1 + differ.leading_zeros() as usize / 8;
        }
        let [last, next] = &mut self.both;
        for (out, key) in [(&mut *last, &self.last.1[..]), (&mut *next, key)] {
            out.clear();
            put_comparable(token, key, out);
        }
        last.iter().zip(next).take_while(|(a, b)| a == b).count()
    }

    /// Adds so many bytes of the last key, or all it has. Most are told apart by their tokens.
    fn add_last(&mut self, cut: usize, out: &mut impl TrieSink) {
        let (token, key) = &self.last;
        if cut <= COMPARABLE_TOKEN_BYTES {
            return self.trie.add(&comparable_token(*token)[..cut], self.last_payload, out);
        }
        let whole = &mut self.both[0];
        whole.clear();
        put_comparable(*token, key, whole);
        self.trie.add(&whole[..cut.min(whole.len())], self.last_payload, out);
    }

    /// Writes what is left, the root last, and what stands at the end.
    pub(crate) fn finish(mut self, first: &[u8], last: &[u8], out: &mut impl TrieSink) {
        self.add_last(self.shared.map_or(0, |shared| shared + 1), out);
        let root = self.trie.finish(out);
        let keys_at = out.position();
        let mut end = Vec::with_capacity(first.len() + last.len() + 32);
        put_short_bytes(&mut end, first);
        put_short_bytes(&mut end, last);
        for number in [keys_at, self.count, root] {
            end.extend_from_slice(&number.to_be_bytes());
        }
        out.end().extend_from_slice(&end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trie::InMemory;

    /// Keys are cut where their comparable forms differ, whether tokens tell them apart or not.
    #[test]
    fn keys_are_cut_as_their_comparable_forms_say() {
        let keys: [(i64, &[u8]); 13] = [
            (i64::MIN, b"a"),
            (i64::MIN + 1, b""),
            (-1, b"k"),
            (0, b"k"),
            (7, b"same"),
            (7, b"same\0"),
            (7, b"same\0\0x"),
            (7, b"sample"),
            (8, b"x"),
            (0x700, b"y"),
            (1 << 40, b"z"),
            (i64::MAX, b"\0"),
            (i64::MAX, b"\0\0"),
        ];
        for count in 1..=keys.len() {
            let mut keys = keys[..count].to_vec();
            keys.sort_by_key(|(token, key)| comparable(Token(*token), key));
            let (mut out, mut expected) = (Vec::new(), Vec::new());
            let mut writer = PartitionsWriter::default();
            for (nth, (token, key)) in keys.iter().enumerate() {
                writer.add(Token(*token), key, nth as u8, Place::Data(nth as u64 * 1000), &mut out);
            }
            let mut trie = TrieWriter::default();
            let forms: Vec<Vec<u8>> =
                keys.iter().map(|(token, key)| comparable(Token(*token), key)).collect();
            let common = |a: &[u8], b: &[u8]| a.iter().zip(b).take_while(|(a, b)| a == b).count() + 1;
            for (nth, form) in forms.iter().enumerate() {
                let before = nth.checked_sub(1).map_or(0, |before| common(&forms[before], form));
                let after = forms.get(nth + 1).map_or(0, |after| common(form, after));
                let number = !(nth as i64 * 1000);
                let size = signed_size(number);
                let bytes = [&[nth as u8], &number.to_be_bytes()[8 - size..]].concat();
                let payload = NewPayload::new(WITH_HASH + size as u8 - 1, &bytes);
                trie.add(&form[..before.max(after).min(form.len())], payload, &mut expected);
            }
            let root = trie.finish(&mut expected);
            let trie_bytes = expected.len();
            writer.finish(b"first", b"last", &mut out);
            assert!(out[..trie_bytes] == expected[..], "{count} keys");
            for (nth, (token, key)) in keys.iter().enumerate() {
                let found = find(&mut InMemory(&out), root, Token(*token), key, nth as u8).unwrap();
                assert_eq!(found.unwrap().place, Place::Data(nth as u64 * 1000), "key {nth} of {count}");
            }
        }
    }
}
