//! Counter cells: a value is a list of shards, one per counter id, and merging keeps the newest of each.
//!
//! ```text
//! i16 n, i16 header[n], then shards of 32 bytes: 16-byte id, i64 clock, i64 count; ids ascending as unsigned bytes
//! header element: shard index + i16::MIN for a global shard, the plain index for a local one; unlisted = remote
//! ```
//! Source: Cassandra's counter contexts. Only global shards are written; local and remote ones come from old files.

use base::HostId;

const SHARD_BYTES: usize = 32;

/// What one id has counted in a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Count {
    /// Of two states of one id the one with the later clock is newer.
    pub(crate) clock: i64,
    /// The sum of its increments.
    pub(crate) count: i64,
}

/// Bytes of a context of one shard.
pub(crate) const ONE_SHARD_BYTES: usize = 2 + 2 + SHARD_BYTES;

/// A context that holds what one id has counted, and nothing of others.
pub(crate) fn one_shard(id: HostId, count: Count) -> [u8; ONE_SHARD_BYTES] {
    let mut out = [0; ONE_SHARD_BYTES];
    // One header element: the shard at 0 is global.
    out[..2].copy_from_slice(&1i16.to_be_bytes());
    out[2..4].copy_from_slice(&i16::MIN.to_be_bytes());
    out[4..20].copy_from_slice(&id.to_bytes());
    out[20..28].copy_from_slice(&count.clock.to_be_bytes());
    out[28..].copy_from_slice(&count.count.to_be_bytes());
    out
}

/// What an id has counted in a cell, nothing if the context has no shard of it. `None`: it is malformed.
pub(crate) fn counted_by(context: &[u8], id: HostId) -> Option<Count> {
    let id = id.to_bytes();
    let shards = shards(context)?;
    let own = shards.iter().find(|shard| shard.id == id);
    Some(own.map_or(Count::default(), |shard| Count { clock: shard.clock, count: shard.count }))
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Remote,
    Local,
    Global,
}

#[derive(Clone, Copy)]
struct Shard<'a> {
    id: &'a [u8],
    kind: Kind,
    clock: i64,
    count: i64,
}

/// Merges two contexts: per id the global shard wins, then the larger clock, then the larger count; local shards add.
/// `None` when either is malformed; the caller then falls back to the larger bytes.
pub(crate) fn merge(left: &[u8], right: &[u8]) -> Option<Vec<u8>> {
    let left = shards(left)?;
    let right = shards(right)?;
    let mut merged = Vec::with_capacity(left.len() + right.len());
    let (mut l, mut r) = (left.into_iter().peekable(), right.into_iter().peekable());
    loop {
        match (l.peek(), r.peek()) {
            (Some(a), Some(b)) if a.id == b.id => {
                merged.push(pick(*a, *b));
                l.next();
                r.next();
            }
            (Some(a), Some(b)) => {
                let from_left = a.id < b.id;
                merged.extend(if from_left { l.next() } else { r.next() });
            }
            (Some(_), None) => merged.extend(l.next()),
            (None, Some(_)) => merged.extend(r.next()),
            (None, None) => return Some(encode(&merged)),
        }
    }
}

/// What a counter says: the sum of its shards. `None`: it is malformed. O(shards), no allocation.
pub fn counter_total(context: &[u8]) -> Option<i64> {
    let (_, shards) = parts(context)?;
    let count_of = |shard: &[u8; SHARD_BYTES]| {
        let bytes = shard.last_chunk::<8>().expect("a shard ends with its count");
        i64::from_be_bytes(*bytes)
    };
    Some(shards.iter().map(count_of).fold(0, i64::wrapping_add))
}

/// The elements of a context's header, two bytes each, and its shards; `None` where they do not end with it.
fn parts(context: &[u8]) -> Option<(&[u8], &[[u8; SHARD_BYTES]])> {
    let (count, rest) = context.split_first_chunk::<2>()?;
    let count = usize::try_from(i16::from_be_bytes(*count)).ok()?;
    let (header, body) = rest.split_at_checked(count * 2)?;
    let (shards, odd) = body.as_chunks();
    odd.is_empty().then_some((header, shards))
}

fn pick<'a>(a: Shard<'a>, b: Shard<'a>) -> Shard<'a> {
    match (a.kind, b.kind) {
        (Kind::Global, Kind::Global) | (Kind::Remote, Kind::Remote) => {
            if (b.clock, b.count) > (a.clock, a.count) { b } else { a }
        }
        (Kind::Global, _) => a,
        (_, Kind::Global) => b,
        (Kind::Local, Kind::Local) => {
            Shard { clock: a.clock.wrapping_add(b.clock), count: a.count.wrapping_add(b.count), ..a }
        }
        (Kind::Local, Kind::Remote) => a,
        (Kind::Remote, Kind::Local) => b,
    }
}

fn shards(context: &[u8]) -> Option<Vec<Shard<'_>>> {
    let (header, body) = parts(context)?;
    let mut shards: Vec<Shard<'_>> = Vec::with_capacity(body.len());
    for bytes in body {
        let number = |at: usize| bytes[at..at + 8].try_into().map(i64::from_be_bytes).ok();
        shards.push(Shard { id: &bytes[..16], kind: Kind::Remote, clock: number(16)?, count: number(24)? });
    }
    for element in header.chunks_exact(2) {
        let element = i16::from_be_bytes([element[0], element[1]]);
        let (kind, index) =
            if element < 0 { (Kind::Global, element.wrapping_sub(i16::MIN)) } else { (Kind::Local, element) };
        shards.get_mut(index as usize)?.kind = kind;
    }
    shards.is_sorted_by(|a, b| a.id < b.id).then_some(shards)
}

fn encode(shards: &[Shard<'_>]) -> Vec<u8> {
    let listed = shards.iter().filter(|s| s.kind != Kind::Remote).count();
    let mut out = Vec::with_capacity(2 + listed * 2 + shards.len() * SHARD_BYTES);
    out.extend_from_slice(&(listed as i16).to_be_bytes());
    for (index, shard) in shards.iter().enumerate() {
        match shard.kind {
            Kind::Global => out.extend_from_slice(&(index as i16).wrapping_add(i16::MIN).to_be_bytes()),
            Kind::Local => out.extend_from_slice(&(index as i16).to_be_bytes()),
            Kind::Remote => {}
        }
    }
    for shard in shards {
        out.extend_from_slice(shard.id);
        out.extend_from_slice(&shard.clock.to_be_bytes());
        out.extend_from_slice(&shard.count.to_be_bytes());
    }
    out
}

#[cfg(test)]
mod tests {
    //! Merging keeps, per id, what the newest leader wrote.
    use super::*;

    fn global(shards: &[(u8, i64, i64)]) -> Vec<u8> {
        let ids: Vec<[u8; 16]> = shards.iter().map(|s| [s.0; 16]).collect();
        let list: Vec<Shard<'_>> = shards
            .iter()
            .zip(&ids)
            .map(|(s, id)| Shard { id, kind: Kind::Global, clock: s.1, count: s.2 })
            .collect();
        encode(&list)
    }

    #[test]
    fn newest_clock_wins_per_id() {
        let merged =
            merge(&global(&[(1, 5, 50), (2, 1, 7)]), &global(&[(1, 6, 40), (3, 1, 1)])).expect("well formed");
        assert_eq!(merged, global(&[(1, 6, 40), (2, 1, 7), (3, 1, 1)]));
    }

    #[test]
    fn one_shard_is_found_by_its_id() {
        let (a, b) = (HostId(1), HostId(2));
        let merged = merge(
            &one_shard(a, Count { clock: 5, count: -50 }),
            &one_shard(b, Count { clock: 6, count: 60 }),
        )
        .expect("well formed");
        assert_eq!(counter_total(&merged), Some(10));
        assert_eq!(counted_by(&merged, a), Some(Count { clock: 5, count: -50 }));
        assert_eq!(counted_by(&merged, b), Some(Count { clock: 6, count: 60 }));
        assert_eq!(counted_by(&merged, HostId(3)), Some(Count::default()));
        assert_eq!(counted_by(&merged[..40], a), None);
    }

    #[test]
    fn malformed_is_refused() {
        assert_eq!(merge(&[0, 1], &global(&[])), None);
        assert_eq!(merge(&[0, 0, 9], &global(&[])), None);
        for malformed in [&[0, 1][..], &[0, 0, 9], &[0xFF, 0xFF], &[]] {
            assert_eq!(counter_total(malformed), None);
        }
        assert_eq!(counter_total(&global(&[(1, 5, 50), (2, 1, -7)])), Some(43));
    }
}
