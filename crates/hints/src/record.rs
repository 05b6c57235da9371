//! A hint as bytes, and finding it again.
//!
//! ```text
//! file     "MSNHINT1" | u128 target | u64 salt | record*
//! record   u32 length of the body | u32 CRC-32 of salt and length | u32 CRC-32 of salt and body | body
//! body     i64 at, µs | u64 epoch | u64 index | u32 count | (u32 length, mutation)*
//! ```
//! Big endian; must never change. A damaged body is passed over by its length; behind a damaged length the next sound one is looked for. The
//! salt is drawn by the process that writes: values of clients, which stand in bodies, cannot be made to look like a record.

use crate::limits::RECORD_BYTES_MAX;
use base::{ByteReader, Crc32, HostId};
use mutation::Mutation;
use storage::{Planned, Point};

const MAGIC: &[u8; 8] = b"MSNHINT1";
/// Bytes of a file before its first record.
pub(crate) const HEADER: usize = 32;
/// Bytes of a record before its body.
pub(crate) const HEAD: usize = 12;

/// What a replica missed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Hint {
    pub(crate) planned: Planned,
    pub(crate) mutations: Vec<Mutation>,
}

/// What begins at a place of a file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A hint, and the bytes that it takes.
    Sound(Hint, usize),
    /// So many bytes that are no hint, and a length that is sound behind or before them.
    Damaged(usize),
    /// A record of so many bytes, that goes on behind what is there.
    Longer(usize),
    /// Too few bytes to say.
    Short,
}

/// The first bytes of a file.
pub(crate) fn header(target: HostId, salt: u64) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&target.to_bytes());
    bytes.extend_from_slice(&salt.to_be_bytes());
    bytes
}

/// Target and salt of a file with this header; `None`: it is none.
pub(crate) fn parse_header(bytes: &[u8]) -> Option<(HostId, u64)> {
    let mut input = ByteReader::new(bytes);
    let magic: [u8; 8] = input.array().ok()?;
    let (target, salt) = (input.array().ok()?, input.u64().ok()?);
    (magic == *MAGIC).then_some((HostId::from_bytes(target), salt))
}

/// Appends a record.
pub(crate) fn encode(out: &mut Vec<u8>, salt: u64, planned: Planned, mutations: &[Mutation]) {
    let head = out.len();
    out.extend_from_slice(&[0; HEAD]);
    out.extend_from_slice(&planned.at.to_be_bytes());
    out.extend_from_slice(&planned.on.0.to_be_bytes());
    out.extend_from_slice(&planned.on.1.to_be_bytes());
    out.extend_from_slice(&(mutations.len() as u32).to_be_bytes());
    for mutation in mutations {
        out.extend_from_slice(&(mutation.as_bytes().len() as u32).to_be_bytes());
        out.extend_from_slice(mutation.as_bytes());
    }
    let body = head + HEAD;
    let len = ((out.len() - body) as u32).to_be_bytes();
    let sums = (checksum(salt, &len), checksum(salt, &out[body..]));
    out[head..head + 4].copy_from_slice(&len);
    out[head + 4..head + 8].copy_from_slice(&sums.0.to_be_bytes());
    out[head + 8..body].copy_from_slice(&sums.1.to_be_bytes());
}

/// Bytes that a hint of these mutations takes.
pub(crate) fn encoded_len(mutations: &[Mutation]) -> usize {
    HEAD + 28 + mutations.iter().map(|mutation| mutation.as_bytes().len() + 4).sum::<usize>()
}

fn checksum(salt: u64, bytes: &[u8]) -> u32 {
    let mut crc = Crc32::new();
    crc.update(&salt.to_be_bytes());
    crc.update(bytes);
    crc.finalize()
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// The length of a body whose record begins here; `None`: none does.
fn length_at(bytes: &[u8], at: usize, salt: u64) -> Option<usize> {
    let (len, sum) = (u32_at(bytes, at)?, u32_at(bytes, at + 4)?);
    let sound = checksum(salt, &len.to_be_bytes()) == sum && len as usize <= RECORD_BYTES_MAX;
    sound.then_some(len as usize)
}

/// What the bytes from a place of a file on begin with.
pub(crate) fn look(bytes: &[u8], salt: u64) -> Place {
    if bytes.len() < HEAD {
        return Place::Short;
    }
    let Some(len) = length_at(bytes, 0, salt) else {
        // The last places are looked at again with what comes behind.
        let end = bytes.len() - HEAD + 1;
        let next = (1..end).find(|at| length_at(bytes, *at, salt).is_some());
        return Place::Damaged(next.unwrap_or(end));
    };
    let Some(body) = bytes.get(HEAD..HEAD + len) else { return Place::Longer(HEAD + len) };
    match u32_at(bytes, 8) == Some(checksum(salt, body)) {
        true => decode(body).map_or(Place::Damaged(HEAD + len), |hint| Place::Sound(hint, HEAD + len)),
        false => Place::Damaged(HEAD + len),
    }
}

fn decode(body: &[u8]) -> Option<Hint> {
    let mut input = ByteReader::new(body);
    let at = input.i64().ok()?;
    let on = Point(input.u64().ok()?, input.u64().ok()?);
    let count = input.u32().ok()?;
    let mut mutations = Vec::new();
    for _ in 0..count {
        let len = input.u32().ok()? as usize;
        mutations.push(Mutation::from_bytes(input.bytes(len).ok()?.to_vec()).ok()?);
    }
    input.is_empty().then_some(Hint { planned: Planned { on, at }, mutations })
}

#[cfg(test)]
mod tests {
    //! Whatever is cut off or damaged, the records around it come back as they were, and nothing else does.
    use super::*;
    use crate::fixture::mutation;

    const SALT: u64 = 0x5a17;

    fn hints() -> Vec<Hint> {
        let hint = |n: u8| Hint {
            planned: Planned { on: Point(1, u64::from(n)), at: i64::from(n) - 3 },
            mutations: (0..n % 3 + 1).map(|m| mutation(7, &[n, m], &[m; 40])).collect(),
        };
        (0..6).map(hint).collect()
    }

    fn encoded(hints: &[Hint]) -> (Vec<u8>, Vec<usize>) {
        let (mut bytes, mut ends) = (Vec::new(), Vec::new());
        for hint in hints {
            let before = bytes.len();
            encode(&mut bytes, SALT, hint.planned, &hint.mutations);
            assert_eq!(bytes.len() - before, encoded_len(&hint.mutations));
            ends.push(bytes.len());
        }
        (bytes, ends)
    }

    /// All hints that are found.
    fn found(mut bytes: &[u8], salt: u64) -> Vec<Hint> {
        let mut hints = Vec::new();
        loop {
            match look(bytes, salt) {
                Place::Sound(hint, len) => {
                    hints.push(hint);
                    bytes = &bytes[len..];
                }
                Place::Damaged(len) => bytes = &bytes[len..],
                Place::Longer(_) | Place::Short => return hints,
            }
        }
    }

    #[test]
    fn a_file_cut_anywhere_gives_a_prefix() {
        let (bytes, ends) = encoded(&hints());
        for cut in 0..=bytes.len() {
            let whole = ends.iter().filter(|end| **end <= cut).count();
            assert_eq!(found(&bytes[..cut], SALT), hints()[..whole], "cut at {cut}");
        }
    }

    #[test]
    fn one_flipped_bit_costs_one_hint() {
        let (bytes, ends) = encoded(&hints());
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let mut expected = hints();
            expected.remove(ends.iter().filter(|end| **end <= bit / 8).count());
            assert!(found(&damaged, SALT) == expected, "bit {bit}");
        }
    }

    #[test]
    fn a_value_of_a_client_is_never_taken_for_a_record() {
        let (inner, _) = encoded(&hints()[..1]);
        let mut bytes = Vec::new();
        let planned = Planned { on: Point::ALONE, at: 1 };
        encode(&mut bytes, SALT + 1, planned, &[mutation(7, b"k", &inner)]);
        bytes[0] ^= 1;
        assert_eq!(found(&bytes, SALT + 1), []);
        assert_eq!(found(&bytes, SALT).len(), 1, "with the salt known it would be");
    }

    #[test]
    fn headers_name_target_and_salt() {
        let bytes = header(HostId(9), SALT);
        assert_eq!((bytes.len(), parse_header(&bytes)), (HEADER, Some((HostId(9), SALT))));
        assert_eq!(parse_header(&bytes[..31]), None);
        assert_eq!(parse_header(&[0; 32]), None);
    }
}
