//! Positions: byte strings whose plain byte order is the clustering order of a partition.
//!
//! ```text
//! row        40 c0  40 c1 … 38        c = byte-comparable form of a component (all bytes inverted when descending)
//! bound      40 c0 … 20 | 60          20 sorts before everything that extends the prefix, 60 after
//! no prefix  20 = bottom, 60 = top    a table without clustering columns has the one row position 38
//! ```
//! The separators are Cassandra's, so the same bytes serve its trie indexes. Missing values: null 3E, empty value of a
//! type for which empty means "no value" 3F (41 when descending).

use crate::{Column, Error, Order};
use std::borrow::Borrow;
use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use types::order::{AFTER, BEFORE, END, encode_component};

/// Positions up to this many bytes are kept in the value itself: bounds without a prefix, the only row of a table
/// without clustering columns, and clusterings of a number or two. With it a position is 24 bytes.
const INLINE_BYTES: usize = 22;

#[derive(Clone)]
enum Bytes {
    Inline { len: u8, bytes: [u8; INLINE_BYTES] },
    Heap(Box<[u8]>),
}

const _: () = assert!(size_of::<Position>() == 24);

/// A place in the clustering order of one table; compares as bytes.
#[derive(Clone)]
pub struct Position(Bytes);

impl Position {
    /// Before every row of any partition.
    pub fn bottom() -> Position {
        Position::from_bytes([BEFORE])
    }

    /// After every row of any partition.
    pub fn top() -> Position {
        Position::from_bytes([AFTER])
    }

    /// The only row of a partition without clustering columns.
    pub(crate) fn only_row() -> Position {
        Position::from_bytes([END])
    }

    /// Takes bytes that another node or file says are a position. Any bytes are a valid place in the order.
    pub fn from_bytes(bytes: impl AsRef<[u8]>) -> Position {
        let bytes = bytes.as_ref();
        Position(match Bytes::inline(bytes) {
            Some(inline) => inline,
            None => Bytes::Heap(bytes.into()),
        })
    }

    /// The comparable bytes.
    pub fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            Bytes::Inline { len, bytes } => &bytes[..usize::from(*len)],
            Bytes::Heap(bytes) => bytes,
        }
    }

    /// Bytes it keeps outside of itself.
    pub fn heap_bytes(&self) -> usize {
        match &self.0 {
            Bytes::Inline { .. } => 0,
            Bytes::Heap(bytes) => bytes.len(),
        }
    }

    /// The smallest position greater than this one.
    pub fn successor(&self) -> Position {
        if let Bytes::Inline { len, bytes } = &self.0
            && usize::from(*len) < INLINE_BYTES
        {
            // What is not in use is 0 already.
            return Position(Bytes::Inline { len: len + 1, bytes: *bytes });
        }
        let mut bytes = Vec::with_capacity(self.len() + 1);
        bytes.extend_from_slice(self);
        bytes.push(0);
        bytes.into()
    }
}

impl Bytes {
    fn inline(bytes: &[u8]) -> Option<Bytes> {
        let mut inline = [0; INLINE_BYTES];
        inline.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(Bytes::Inline { len: bytes.len() as u8, bytes: inline })
    }
}

impl Borrow<[u8]> for Position {
    fn borrow(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl std::ops::Deref for Position {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl From<Vec<u8>> for Position {
    fn from(bytes: Vec<u8>) -> Position {
        Position(match Bytes::inline(&bytes) {
            Some(inline) => inline,
            None => Bytes::Heap(bytes.into()),
        })
    }
}

impl std::fmt::Debug for Position {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Position").field(&self.as_bytes()).finish()
    }
}

impl PartialEq for Position {
    fn eq(&self, other: &Position) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for Position {}

impl PartialOrd for Position {
    fn partial_cmp(&self, other: &Position) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Position {
    fn cmp(&self, other: &Position) -> Ordering {
        self.as_bytes().cmp(other.as_bytes())
    }
}

/// As the bytes, which a position can be looked up by.
impl Hash for Position {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_bytes().hash(state);
    }
}

/// On which side of everything that extends its prefix a bound lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum BoundSide {
    /// Before the rows with the prefix: an inclusive start or an exclusive end.
    Before,
    /// After the rows with the prefix: an exclusive start or an inclusive end.
    After,
}

/// Iterates the components of a clustering in wire form: `None` is null.
/// Errors: one `Err` and then nothing when the bytes do not divide into components.
pub fn clustering_components(wire: &[u8]) -> impl Iterator<Item = Result<Option<&[u8]>, Error>> {
    let mut rest = wire;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let Some((len, tail)) = rest.split_first_chunk::<4>() else {
            rest = &[];
            return Some(Err(Error::Clustering { reason: "cut inside a length" }));
        };
        let len = i32::from_be_bytes(*len);
        if len < 0 {
            rest = tail;
            return Some(Ok(None));
        }
        let Some((value, tail)) = tail.split_at_checked(len as usize) else {
            rest = &[];
            return Some(Err(Error::Clustering { reason: "cut inside a value" }));
        };
        rest = tail;
        Some(Ok(Some(value)))
    })
}

/// Appends one component in wire form: `i32` length (-1 for null) and the bytes.
pub fn push_component(wire: &mut Vec<u8>, value: Option<&[u8]>) {
    match value {
        Some(value) => {
            wire.extend_from_slice(&(value.len() as i32).to_be_bytes());
            wire.extend_from_slice(value);
        }
        None => wire.extend_from_slice(&(-1i32).to_be_bytes()),
    }
}

fn push_prefix(columns: &[Column], wire: &[u8], out: &mut Vec<u8>) -> Result<usize, Error> {
    let mut count = 0;
    for component in clustering_components(wire) {
        let Some(column) = columns.get(count) else {
            return Err(Error::Clustering { reason: "more components than clustering columns" });
        };
        encode_component(&column.ty, component?, column.order == Order::Descending, out);
        count += 1;
    }
    Ok(count)
}

pub(crate) fn row_position(columns: &[Column], wire: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
    let count = push_prefix(columns, wire, out)?;
    if count != columns.len() {
        return Err(Error::Clustering { reason: "fewer components than clustering columns" });
    }
    out.push(END);
    Ok(())
}

pub(crate) fn bound_position(columns: &[Column], wire: &[u8], side: BoundSide) -> Result<Position, Error> {
    let mut out = Vec::with_capacity(wire.len() + 8);
    push_prefix(columns, wire, &mut out)?;
    out.push(match side {
        BoundSide::Before => BEFORE,
        BoundSide::After => AFTER,
    });
    Ok(out.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_successor_is_the_same_bytes_and_a_zero_wherever_they_are_kept() {
        for length in 0..2 * INLINE_BYTES {
            let bytes = vec![0xff; length];
            let position = Position::from_bytes(&bytes);
            let next = position.successor();
            assert_eq!(next.as_bytes(), [&bytes[..], &[0]].concat());
            assert!(position < next);
            assert_eq!(next.heap_bytes() > 0, length + 1 > INLINE_BYTES);
        }
    }
}
