//! Tries on disk: the nodes of `Partitions.db` and `Rows.db`, and searches in them.
//!
//! A node is addressed by its first byte: four bits of type, four of payload bits. Children stand at lower positions, so a
//! pointer is the distance to go back. A node and its payload lie within one page of 4096 bytes.
//!
//! ```text
//!  0 PAYLOAD_ONLY   -                                       1 SINGLE_NOPAYLOAD_4   4-bit distance, u8 byte
//!  2 SINGLE_8       u8 byte, u8 distance                    3 SINGLE_NOPAYLOAD_12  12-bit distance, u8 byte
//!  4 SINGLE_16      u8 byte, u16 distance
//!  5.. 9 SPARSE     u8 count, bytes, distances of 8, 12, 16, 24, 40 bits
//! 10..15 DENSE      u8 first byte, u8 bytes - 1, distances of 12, 16, 24, 32, 40, 64 bits; 0 is no child
//! ```

use crate::cursor::{Cursor, Decoded, Fault};
use crate::limits::TRIE_KEY_BYTES_MAX;

/// Bytes of a page; part of the format.
pub(crate) const PAGE: u64 = 4096;

/// The bytes of a trie file, as far as they are in memory.
pub(crate) trait Pages {
    /// The bytes from `offset` to the end of its page or of the file, at least one.
    /// Errors: `Short` when they are not in memory; `Bad` behind the end of the file.
    fn bytes(&mut self, offset: u64) -> Decoded<&[u8]>;
}

/// A whole file in memory.
#[cfg(test)]
pub(crate) struct InMemory<'a>(pub(crate) &'a [u8]);

#[cfg(test)]
impl Pages for InMemory<'_> {
    fn bytes(&mut self, offset: u64) -> Decoded<&[u8]> {
        let end = ((offset / PAGE + 1) * PAGE).min(self.0.len() as u64);
        let bytes = self.0.get(offset as usize..end as usize).filter(|bytes| !bytes.is_empty());
        bytes.ok_or(Fault::Bad { at: offset, expected: "a node".to_string(), got: "the end".to_string() })
    }
}

/// How a node writes what leads to its children.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// No children.
    Leaf,
    /// One child and no payload; distances of 4 or 12 bits share a byte with the type.
    SinglePlain { bits: u32 },
    /// One child.
    Single { bits: u32 },
    /// Some bytes, then as many distances.
    Sparse { bits: u32 },
    /// A range of bytes, a distance for each.
    Dense { bits: u32 },
}

/// Kinds by the number in the node's first byte.
const KINDS: [Kind; 16] = [
    Kind::Leaf,
    Kind::SinglePlain { bits: 4 },
    Kind::Single { bits: 8 },
    Kind::SinglePlain { bits: 12 },
    Kind::Single { bits: 16 },
    Kind::Sparse { bits: 8 },
    Kind::Sparse { bits: 12 },
    Kind::Sparse { bits: 16 },
    Kind::Sparse { bits: 24 },
    Kind::Sparse { bits: 40 },
    Kind::Dense { bits: 12 },
    Kind::Dense { bits: 16 },
    Kind::Dense { bits: 24 },
    Kind::Dense { bits: 32 },
    Kind::Dense { bits: 40 },
    Kind::Dense { bits: 64 },
];

impl Kind {
    /// The number in the node's first byte.
    pub(crate) fn number(self) -> u8 {
        KINDS.iter().position(|kind| *kind == self).expect("every kind stands in the table") as u8
    }

    /// Bytes of a node with so many distances, without its payload.
    pub(crate) fn size(self, distances: usize) -> usize {
        match self {
            Kind::Leaf => 1,
            Kind::SinglePlain { bits } => {
                if bits == 4 {
                    2
                } else {
                    3
                }
            }
            Kind::Single { bits } => 2 + bits as usize / 8,
            Kind::Sparse { bits } => 2 + distances + (distances * bits as usize).div_ceil(8),
            Kind::Dense { bits } => 3 + (distances * bits as usize).div_ceil(8),
        }
    }
}

/// A node as it is read.
struct Node<'a> {
    /// Its bytes, to the end of the page.
    bytes: &'a [u8],
    position: u64,
    kind: Kind,
    /// Distances it holds.
    count: usize,
}

/// A child as it is found: the byte that leads to it and where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Child {
    byte: u8,
    position: u64,
}

impl<'a> Node<'a> {
    fn read(bytes: &'a [u8], position: u64) -> Decoded<Node<'a>> {
        let bad =
            |got: String| Fault::Bad { at: position, expected: "a node within its page".to_string(), got };
        let first = *bytes.first().ok_or_else(|| bad("nothing".to_string()))?;
        let kind = KINDS[usize::from(first >> 4)];
        let at = |index: usize| bytes.get(index).copied().ok_or_else(|| bad("the page's end".to_string()));
        let count = match kind {
            Kind::Leaf => 0,
            Kind::SinglePlain { .. } | Kind::Single { .. } => 1,
            Kind::Sparse { .. } => usize::from(at(1)?),
            Kind::Dense { .. } => usize::from(at(2)?) + 1,
        };
        let node = Node { bytes, position, kind, count };
        let dense_end = matches!(kind, Kind::Dense { .. }) && usize::from(bytes[1]) + count > 256;
        if node.size() > bytes.len() || dense_end || (count == 0 && kind != Kind::Leaf) {
            return Err(bad(format!("type {} with {count} children", first >> 4)));
        }
        Ok(node)
    }

    fn size(&self) -> usize {
        self.kind.size(self.count)
    }

    /// The payload bits and everything from the payload to the end of the page.
    fn payload(&self) -> Option<(u8, &'a [u8])> {
        let bits = self.bytes[0] & 0x0f;
        if bits == 0 || matches!(self.kind, Kind::SinglePlain { .. }) {
            return None;
        }
        Some((bits, &self.bytes[self.size()..]))
    }

    /// The byte that leads to child `index`.
    fn byte(&self, index: usize) -> u8 {
        match self.kind {
            Kind::Leaf => 0,
            Kind::SinglePlain { bits: 4 } | Kind::Single { .. } => self.bytes[1],
            Kind::SinglePlain { .. } => self.bytes[2],
            Kind::Sparse { .. } => self.bytes[2 + index],
            Kind::Dense { .. } => self.bytes[1] + index as u8,
        }
    }

    fn distance(&self, index: usize) -> u64 {
        let number = |at: usize, bits: u32| {
            self.bytes[at..][..bits as usize / 8]
                .iter()
                .fold(0u64, |number, byte| number << 8 | u64::from(*byte))
        };
        let table = match self.kind {
            Kind::Leaf => return 0,
            Kind::SinglePlain { bits: 4 } => return u64::from(self.bytes[0] & 0x0f),
            Kind::SinglePlain { .. } => {
                return u64::from(self.bytes[0] & 0x0f) << 8 | u64::from(self.bytes[1]);
            }
            Kind::Single { bits } => return number(2, bits),
            Kind::Sparse { .. } => 2 + self.count,
            Kind::Dense { .. } => 3,
        };
        match self.kind {
            Kind::Sparse { bits: 12 } | Kind::Dense { bits: 12 } => {
                let at = table + index / 2 * 3;
                if index.is_multiple_of(2) { number(at, 16) >> 4 } else { number(at + 1, 16) & 0x0fff }
            }
            Kind::Sparse { bits } | Kind::Dense { bits } => number(table + index * bits as usize / 8, bits),
            Kind::Leaf | Kind::SinglePlain { .. } | Kind::Single { .. } => 0,
        }
    }

    /// Child `index`; `None` for a hole of a dense node. Errors: a pointer before the file.
    fn child(&self, index: usize) -> Decoded<Option<Child>> {
        let distance = self.distance(index);
        if distance == 0 && matches!(self.kind, Kind::Dense { .. }) {
            return Ok(None);
        }
        match self.position.checked_sub(distance) {
            Some(position) if distance > 0 => Ok(Some(Child { byte: self.byte(index), position })),
            _ => {
                let expected = format!("a distance of 1 to {}", self.position);
                Err(Fault::Bad { at: self.position, expected, got: distance.to_string() })
            }
        }
    }

    /// The first place whose byte is at or behind a byte.
    fn place(&self, byte: u8) -> usize {
        match self.kind {
            Kind::Dense { .. } => usize::from(byte.saturating_sub(self.bytes[1])).min(self.count),
            Kind::Sparse { .. } => {
                let bytes = &self.bytes[2..2 + self.count];
                bytes.iter().position(|at| *at >= byte).unwrap_or(self.count)
            }
            _ => (0..self.count).position(|index| self.byte(index) >= byte).unwrap_or(self.count),
        }
    }

    /// The child that a byte leads to.
    fn exact(&self, byte: u8) -> Decoded<Option<Child>> {
        let place = self.place(byte);
        if place < self.count && self.byte(place) == byte { self.child(place) } else { Ok(None) }
    }

    /// The first child from a place on.
    fn first_from(&self, place: usize) -> Decoded<Option<Child>> {
        for index in place..self.count {
            if let Some(child) = self.child(index)? {
                return Ok(Some(child));
            }
        }
        Ok(None)
    }

    /// The last child before a place.
    fn last_before(&self, place: usize) -> Decoded<Option<Child>> {
        for index in (0..place).rev() {
            if let Some(child) = self.child(index)? {
                return Ok(Some(child));
            }
        }
        Ok(None)
    }

    fn behind(&self, byte: u8) -> usize {
        let place = self.place(byte);
        place + usize::from(place < self.count && self.byte(place) == byte)
    }
}

/// An entry of a trie: the path to it and what it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found<T> {
    /// The bytes that lead to it: a key, or as much of one as tells it from others.
    pub(crate) path: Vec<u8>,
    /// Its payload.
    pub(crate) payload: T,
}

/// Decodes a payload: its bits and the bytes behind the node.
pub(crate) trait Payload: Sized {
    /// Reads it. Faults count from the first of the bytes.
    fn take(bits: u8, cursor: &mut Cursor<'_>) -> Decoded<Self>;
}

/// Searches one trie. Every search is O(length of the key) nodes, and the length of the path it ends with.
pub(crate) struct Trie<'p, P> {
    pages: &'p mut P,
    root: u64,
}

impl<'p, P: Pages> Trie<'p, P> {
    /// The trie with this root.
    pub(crate) fn new(pages: &'p mut P, root: u64) -> Trie<'p, P> {
        Trie { pages, root }
    }

    fn node(&mut self, position: u64) -> Decoded<Node<'_>> {
        let bytes = self.pages.bytes(position)?;
        Node::read(bytes, position)
    }

    fn payload<T: Payload>(&mut self, position: u64) -> Decoded<Option<T>> {
        let node = self.node(position)?;
        let at = position + node.size() as u64;
        let Some((bits, bytes)) = node.payload() else { return Ok(None) };
        match T::take(bits, &mut Cursor::new(bytes)) {
            Ok(payload) => Ok(Some(payload)),
            Err(Fault::Short { .. }) => Err(Fault::Bad {
                at,
                expected: "a payload within its page".to_string(),
                got: "the page's end".to_string(),
            }),
            Err(Fault::Bad { at: inside, expected, got }) => {
                Err(Fault::Bad { at: at + inside, expected, got })
            }
        }
    }

    /// The payload of the entry on a key's path: that of the key itself or of the only entry that begins like it.
    pub(crate) fn on_path<T: Payload>(&mut self, key: &[u8]) -> Decoded<Option<T>> {
        let (mut position, mut key) = (self.root, key.iter());
        loop {
            let node = self.node(position)?;
            if node.count == 0 {
                return self.payload(position);
            }
            let Some(byte) = key.next() else { return Ok(None) };
            match node.exact(*byte)? {
                Some(child) => position = child.position,
                None => return Ok(None),
            }
        }
    }

    /// The last entry at or before a key; before it only, when `strictly`.
    pub(crate) fn floor<T: Payload>(&mut self, key: &[u8], strictly: bool) -> Decoded<Option<Found<T>>> {
        // The best so far: a node that is an entry itself, or one below which the last entry is it.
        let mut best: Option<(usize, Option<Child>, u64)> = None;
        let mut position = self.root;
        for (depth, byte) in key.iter().enumerate() {
            let node = self.node(position)?;
            if node.payload().is_some() {
                best = Some((depth, None, position));
            }
            if let Some(less) = node.last_before(node.place(*byte))? {
                best = Some((depth, Some(less), position));
            }
            match node.exact(*byte)? {
                Some(child) => position = child.position,
                None => return self.last_of(key, best),
            }
        }
        if !strictly && self.node(position)?.payload().is_some() {
            best = Some((key.len(), None, position));
        }
        self.last_of(key, best)
    }

    fn last_of<T: Payload>(
        &mut self,
        key: &[u8],
        best: Option<(usize, Option<Child>, u64)>,
    ) -> Decoded<Option<Found<T>>> {
        let Some((depth, child, mut position)) = best else { return Ok(None) };
        let mut path = key[..depth].to_vec();
        let mut next = child;
        while let Some(child) = next {
            path.push(child.byte);
            position = child.position;
            check_depth(&path, position)?;
            let node = self.node(position)?;
            next = node.last_before(node.count)?;
        }
        self.entry(path, position).map(Some)
    }

    /// The first entry that is a beginning of the key, the key, or behind it; strictly behind it and no beginning, when
    /// `behind`.
    pub(crate) fn ceiling<T: Payload>(&mut self, key: &[u8], behind: bool) -> Decoded<Option<Found<T>>> {
        let mut best: Option<(usize, Child)> = None;
        let mut position = self.root;
        for (depth, byte) in key.iter().enumerate() {
            let node = self.node(position)?;
            if !behind && node.payload().is_some() {
                return self.entry(key[..depth].to_vec(), position).map(Some);
            }
            if let Some(more) = node.first_from(node.behind(*byte))? {
                best = Some((depth, more));
            }
            match node.exact(*byte)? {
                Some(child) => position = child.position,
                None => return self.first_of(key, best),
            }
        }
        let node = self.node(position)?;
        if !behind && node.payload().is_some() {
            return self.entry(key.to_vec(), position).map(Some);
        }
        match node.first_from(0)? {
            Some(child) => self.first_of(key, Some((key.len(), child))),
            None => self.first_of(key, best),
        }
    }

    fn first_of<T: Payload>(
        &mut self,
        key: &[u8],
        best: Option<(usize, Child)>,
    ) -> Decoded<Option<Found<T>>> {
        let Some((depth, mut child)) = best else { return Ok(None) };
        let mut path = key[..depth].to_vec();
        loop {
            path.push(child.byte);
            check_depth(&path, child.position)?;
            let node = self.node(child.position)?;
            match node.first_from(0)? {
                Some(next) if node.payload().is_none() => child = next,
                _ => return self.entry(path, child.position).map(Some),
            }
        }
    }

    fn entry<T: Payload>(&mut self, path: Vec<u8>, position: u64) -> Decoded<Found<T>> {
        match self.payload(position)? {
            Some(payload) => Ok(Found { path, payload }),
            None => Err(Fault::Bad {
                at: position,
                expected: "a payload in a node without children".to_string(),
                got: "none".to_string(),
            }),
        }
    }
}

fn check_depth(path: &[u8], position: u64) -> Decoded<()> {
    if path.len() <= TRIE_KEY_BYTES_MAX {
        return Ok(());
    }
    let expected = format!("keys of at most {TRIE_KEY_BYTES_MAX} bytes");
    Err(Fault::Bad { at: position, expected, got: "a longer one".to_string() })
}
