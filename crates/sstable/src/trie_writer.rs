//! Writes tries from ascending keys, so packed that a search touches few pages.
//!
//! A branch is kept in memory until it and its siblings no longer fit into one page; then the branches below are placed, the
//! largest that fits into the rest of the page first, and the page is padded when none fits. What is open is the path to the
//! last key and, beside each of its nodes, branches of less than a page.

use crate::trie::{Kind, PAGE};

/// Bytes of the largest payload: a position of seven bytes and a deletion.
const PAYLOAD_BYTES_MAX: usize = 20;

/// Nodes of a branch in memory, one below the other: functions that walk it call themselves.
const HEIGHT_MAX: usize = 200;

/// Where a trie goes.
pub(crate) trait TrieSink {
    /// Bytes before the next one.
    fn position(&self) -> u64;
    /// Appends bytes.
    fn append(&mut self, bytes: &[u8]);
}

impl TrieSink for Vec<u8> {
    fn position(&self) -> u64 {
        self.len() as u64
    }

    fn append(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// What an entry holds: bits for the node's first byte, not 0, and bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NewPayload {
    bits: u8,
    len: u8,
    bytes: [u8; PAYLOAD_BYTES_MAX],
}

impl NewPayload {
    /// A payload of these bytes.
    pub(crate) fn new(bits: u8, bytes: &[u8]) -> NewPayload {
        let mut payload = NewPayload { bits, len: bytes.len() as u8, bytes: [0; PAYLOAD_BYTES_MAX] };
        payload.bytes[..bytes.len()].copy_from_slice(bytes);
        payload
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

/// A node in memory.
#[derive(Debug, Default)]
struct Node {
    payload: NewPayload,
    children: Vec<Child>,
}

/// What hangs on a node.
#[derive(Debug)]
struct Child {
    byte: u8,
    state: State,
}

#[derive(Debug)]
enum State {
    /// It stands in the file, at a position.
    Written(u64),
    /// It is complete and in memory.
    Kept(Box<Branch>),
}

/// A complete node with what hangs on it.
#[derive(Debug)]
struct Branch {
    node: Node,
    /// Bytes of all of it that is not in the file, as far as known: pointers to what is in the file may grow.
    bytes: usize,
    /// Bytes of the node itself, which stands at the end.
    own: usize,
    /// Nothing of it is in the file, so its size is exact.
    whole: bool,
    /// Nodes on its longest path.
    height: usize,
}

/// The narrowest kind for a node whose farthest child is at a distance, and its distances.
fn choose(children: &[Child], farthest: u64, with_payload: bool) -> (Kind, usize) {
    let bits = 64 - farthest.leading_zeros();
    let class = match bits {
        0..=4 => 0,
        5..=8 => 1,
        9..=12 => 2,
        13..=16 => 3,
        17..=24 => 4,
        25..=32 => 5,
        33..=40 => 6,
        _ => 7,
    };
    let [.., last] = children else { return (Kind::Leaf, 0) };
    let span = usize::from(last.byte - children[0].byte) + 1;
    if children.len() == 1 {
        let kind = match class {
            0 if !with_payload => Kind::SinglePlain { bits: 4 },
            0 | 1 => Kind::Single { bits: 8 },
            2 if !with_payload => Kind::SinglePlain { bits: 12 },
            2 | 3 => Kind::Single { bits: 16 },
            4 => Kind::Dense { bits: 24 },
            5 => Kind::Dense { bits: 32 },
            6 => Kind::Dense { bits: 40 },
            _ => Kind::Dense { bits: 64 },
        };
        return (kind, 1);
    }
    let sparse = [8, 8, 12, 16, 24, 40, 40, 64][class];
    let dense = Kind::Dense { bits: [12, 12, 12, 16, 24, 32, 40, 64][class] };
    let sparse = if sparse == 64 { dense } else { Kind::Sparse { bits: sparse } };
    if sparse != dense && sparse.size(children.len()) < dense.size(span) {
        (sparse, children.len())
    } else {
        (dense, span)
    }
}

impl Node {
    /// The bytes of the node at a position, its children being where a closure says.
    fn size(&self, position: u64, place: impl Fn(&Child) -> u64) -> usize {
        let farthest = self.children.iter().map(|child| position - place(child)).max().unwrap_or(0);
        let (kind, distances) = choose(&self.children, farthest, self.payload.bits != 0);
        kind.size(distances) + usize::from(self.payload.len)
    }

    /// As [`Node::size`] for a node that would follow `before` bytes of branches it keeps, the first at `start`.
    fn size_behind(&self, start: u64, ends: &[(usize, u64)]) -> usize {
        let position = ends.iter().map(|end| end.1).max().unwrap_or(start).max(start);
        let mut kept = ends.iter();
        let farthest = self.children.iter().map(|child| match &child.state {
            State::Written(at) => position - at,
            State::Kept(_) => {
                let (own, end) = kept.next().expect("one for each that is kept");
                position - (end - *own as u64)
            }
        });
        let farthest = farthest.max().unwrap_or(0);
        let (kind, distances) = choose(&self.children, farthest, self.payload.bits != 0);
        kind.size(distances) + usize::from(self.payload.len)
    }
}

/// Size of a branch written from a position on: of all, and of its node. Exact.
fn measure(branch: &Branch, start: u64) -> (usize, usize) {
    if branch.whole {
        return (branch.bytes, branch.own);
    }
    let mut ends = Vec::new();
    let mut position = start;
    for child in &branch.node.children {
        if let State::Kept(child) = &child.state {
            let (bytes, own) = measure(child, position);
            position += bytes as u64;
            ends.push((own, position));
        }
    }
    let own = branch.node.size_behind(start, &ends);
    ((position - start) as usize + own, own)
}

/// Makes a branch of a node that is complete, measured as if it were written at a position.
fn complete(node: Node, start: u64) -> Branch {
    let whole = node.children.iter().all(|child| matches!(&child.state, State::Kept(branch) if branch.whole));
    let mut ends = Vec::new();
    let mut position = start;
    for child in &node.children {
        if let State::Kept(child) = &child.state {
            position += child.bytes as u64;
            ends.push((child.own, position));
        }
    }
    let own = node.size_behind(start, &ends);
    let height = node.children.iter().map(|child| match &child.state {
        State::Written(_) => 0,
        State::Kept(branch) => branch.height,
    });
    let height = 1 + height.max().unwrap_or(0);
    Branch { bytes: (position - start) as usize + own, own, whole, height, node }
}

/// Builds one trie.
#[derive(Debug, Default)]
pub(crate) struct TrieWriter {
    /// The path to the last key: nodes, the root first.
    open: Vec<Node>,
    /// The bytes between them.
    path: Vec<u8>,
    entries: u64,
}

impl TrieWriter {
    /// How many entries there are.
    pub(crate) fn entries(&self) -> u64 {
        self.entries
    }

    /// Adds an entry. Keys ascend; none comes twice.
    pub(crate) fn add(&mut self, key: &[u8], payload: NewPayload, out: &mut impl TrieSink) {
        let common = self.path.iter().zip(key).take_while(|(a, b)| a == b).count();
        debug_assert!(self.entries == 0 || self.path[..] < *key, "keys ascend");
        if self.open.is_empty() {
            self.open.push(Node::default());
        }
        self.close_to(common, out);
        for byte in &key[common..] {
            self.path.push(*byte);
            self.open.push(Node::default());
        }
        let last = self.open.last_mut().expect("the root is there");
        last.payload = payload;
        self.entries += 1;
    }

    /// Completes the nodes that lie deeper.
    fn close_to(&mut self, depth: usize, out: &mut impl TrieSink) {
        while self.path.len() > depth {
            let byte = self.path.pop().expect("the path is longer");
            let node = self.open.pop().expect("a node for each byte");
            let mut branch = complete(node, out.position());
            if branch.bytes as u64 > PAGE || branch.height > HEIGHT_MAX {
                place_children(&mut branch, out);
            }
            let parent = self.open.last_mut().expect("the root stays");
            parent.children.push(Child { byte, state: State::Kept(Box::new(branch)) });
        }
    }

    /// Writes what is left and returns the root's position. The writer is then new again.
    pub(crate) fn finish(&mut self, out: &mut impl TrieSink) -> u64 {
        self.close_to(0, out);
        let root = self.open.pop().unwrap_or_default();
        self.entries = 0;
        let mut branch = complete(root, out.position());
        loop {
            let (bytes, _) = measure(&branch, out.position());
            if bytes as u64 <= left_in_page(out) {
                return write(branch, out);
            }
            if bytes as u64 > PAGE {
                place_children(&mut branch, out);
            } else {
                pad(out);
            }
        }
    }
}

fn left_in_page(out: &impl TrieSink) -> u64 {
    PAGE - out.position() % PAGE
}

fn pad(out: &mut impl TrieSink) {
    const ZEROS: [u8; PAGE as usize] = [0; PAGE as usize];
    let left = left_in_page(out);
    if left < PAGE {
        out.append(&ZEROS[..left as usize]);
    }
}

/// Writes all that hangs on a branch's node, so that only the node is left.
fn place_children(branch: &mut Branch, out: &mut impl TrieSink) {
    let mut waiting: Vec<(usize, Box<Branch>)> = Vec::new();
    for (index, child) in branch.node.children.iter_mut().enumerate() {
        if matches!(child.state, State::Kept(_)) {
            let State::Kept(kept) = std::mem::replace(&mut child.state, State::Written(0)) else { continue };
            waiting.push((index, kept));
        }
    }
    while !waiting.is_empty() {
        let left = left_in_page(out);
        let fitting = waiting.iter().enumerate().filter(|(_, (_, branch))| branch.bytes as u64 <= left);
        // Of two of a size the one of the larger byte, as Cassandra does.
        let Some((best, _)) = fitting.max_by_key(|(_, (index, branch))| (branch.bytes, *index)) else {
            if left < PAGE {
                pad(out);
                continue;
            }
            // Pointers have grown so that it no longer fits into a page: what hangs on it goes first.
            let largest = waiting.iter_mut().max_by_key(|(_, branch)| branch.bytes).expect("there is one");
            place_children(&mut largest.1, out);
            continue;
        };
        let (bytes, own) = measure(&waiting[best].1, out.position());
        if bytes as u64 > left {
            (waiting[best].1.bytes, waiting[best].1.own) = (bytes, own);
            continue;
        }
        let (index, kept) = waiting.swap_remove(best);
        branch.node.children[index].state = State::Written(write(*kept, out));
    }
    let bytes = branch.node.size(out.position(), written);
    (branch.bytes, branch.own, branch.whole, branch.height) = (bytes, bytes, false, 1);
}

fn written(child: &Child) -> u64 {
    match child.state {
        State::Written(at) => at,
        State::Kept(_) => unreachable!("all children were written"),
    }
}

/// Writes a branch that fits into the rest of the page; returns where its node is.
fn write(branch: Branch, out: &mut impl TrieSink) -> u64 {
    let mut node = branch.node;
    for child in &mut node.children {
        if matches!(child.state, State::Kept(_)) {
            let State::Kept(kept) = std::mem::replace(&mut child.state, State::Written(0)) else { continue };
            child.state = State::Written(write(*kept, out));
        }
    }
    let position = out.position();
    let mut bytes = Vec::with_capacity(64);
    encode(&node, position, &mut bytes);
    debug_assert!(position % PAGE + bytes.len() as u64 <= PAGE, "a node lies within its page");
    out.append(&bytes);
    position
}

/// Appends the node's bytes; all its children are in the file.
fn encode(node: &Node, position: u64, out: &mut Vec<u8>) {
    let farthest = node.children.iter().map(|child| position - written(child)).max().unwrap_or(0);
    let (kind, count) = choose(&node.children, farthest, node.payload.bits != 0);
    let distance = |child: &Child| position - written(child);
    let number = kind.number() << 4;
    match kind {
        Kind::Leaf => out.push(number | node.payload.bits),
        Kind::SinglePlain { bits } => {
            let distance = distance(&node.children[0]);
            if bits == 4 {
                out.push(number | distance as u8);
            } else {
                out.extend_from_slice(&[number | (distance >> 8) as u8, distance as u8]);
            }
            out.push(node.children[0].byte);
        }
        Kind::Single { bits } => {
            out.extend_from_slice(&[number | node.payload.bits, node.children[0].byte]);
            put_distances([distance(&node.children[0])].into_iter(), bits, out);
        }
        Kind::Sparse { bits } => {
            out.extend_from_slice(&[number | node.payload.bits, count as u8]);
            out.extend(node.children.iter().map(|child| child.byte));
            put_distances(node.children.iter().map(distance), bits, out);
        }
        Kind::Dense { bits } => {
            let first = node.children[0].byte;
            out.extend_from_slice(&[number | node.payload.bits, first, (count - 1) as u8]);
            let mut children = node.children.iter().peekable();
            let distances = (0..count).map(|index| {
                children.next_if(|child| usize::from(child.byte - first) == index).map_or(0, distance)
            });
            put_distances(distances, bits, out);
        }
    }
    out.extend_from_slice(node.payload.bytes());
}

fn put_distances(distances: impl Iterator<Item = u64>, bits: u32, out: &mut Vec<u8>) {
    if bits != 12 {
        let bytes = bits as usize / 8;
        distances.for_each(|distance| out.extend_from_slice(&distance.to_be_bytes()[8 - bytes..]));
        return;
    }
    // Two share three bytes; an odd last one has two for itself.
    for (index, distance) in distances.enumerate() {
        if index.is_multiple_of(2) {
            out.extend_from_slice(&((distance << 4) as u16).to_be_bytes());
        } else {
            *out.last_mut().expect("the one before") |= (distance >> 8) as u8;
            out.push(distance as u8);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cursor::{Cursor, Decoded};
    use crate::trie::{InMemory, Payload, Trie};
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// A payload of two bytes, or of none.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    struct Number(u16);

    impl Payload for Number {
        fn take(bits: u8, cursor: &mut Cursor<'_>) -> Decoded<Number> {
            Ok(Number(if bits == 2 { cursor.u16()? } else { 0 }))
        }
    }

    fn build(entries: &BTreeMap<Vec<u8>, u16>, before: usize) -> (Vec<u8>, u64) {
        let mut out = vec![0; before];
        let mut writer = TrieWriter::default();
        for (key, number) in entries {
            let payload = if *number == 0 {
                NewPayload::new(1, &[])
            } else {
                NewPayload::new(2, &number.to_be_bytes())
            };
            writer.add(key, payload, &mut out);
        }
        let root = writer.finish(&mut out);
        (out, root)
    }

    fn check(entries: &BTreeMap<Vec<u8>, u16>, before: usize, probes: &[Vec<u8>]) {
        let (out, root) = build(entries, before);
        let mut pages = InMemory(&out);
        let mut trie = Trie::new(&mut pages, root);
        let named = |entry: Option<(&Vec<u8>, &u16)>| entry.map(|(key, number)| (key.clone(), *number));
        for probe in entries.keys().chain(probes) {
            let got = trie.floor::<Number>(probe, false).unwrap().map(|found| (found.path, found.payload.0));
            assert_eq!(got, named(entries.range(..=probe.clone()).next_back()), "at or before {probe:?}");
            let got = trie.floor::<Number>(probe, true).unwrap().map(|found| (found.path, found.payload.0));
            assert_eq!(got, named(entries.range(..probe.clone()).next_back()), "before {probe:?}");
            let got = trie.ceiling::<Number>(probe, true).unwrap().map(|found| (found.path, found.payload.0));
            let behind = (std::ops::Bound::Excluded(probe.clone()), std::ops::Bound::Unbounded);
            assert_eq!(got, named(entries.range(behind).next()), "behind {probe:?}");
            let got =
                trie.ceiling::<Number>(probe, false).unwrap().map(|found| (found.path, found.payload.0));
            let begins = (0..=probe.len()).find_map(|len| entries.get_key_value(&probe[..len]));
            assert_eq!(got, named(begins.or(entries.range(probe.clone()..).next())), "from {probe:?}");
        }
    }

    #[test]
    fn many_keys_fill_many_pages() {
        let mut rng = base::Prng::new(3);
        for (count, length, letters) in
            [(20_000u32, 6, 256), (3000, 40, 3), (1000, 300, 2), (256, 1, 256), (1, 5, 9)]
        {
            let mut entries = BTreeMap::new();
            for index in 0..count {
                let key: Vec<u8> = (0..length).map(|_| rng.below(letters) as u8).collect();
                entries.insert(key, index as u16);
            }
            let probes: Vec<Vec<u8>> = (0..200)
                .map(|_| (0..rng.below(length + 2)).map(|_| rng.below(letters) as u8).collect())
                .collect();
            check(&entries, 0, &probes[..]);
            let (bytes, _) = build(&entries, 0);
            let average = bytes.len() as f64 / entries.len() as f64;
            assert!(length > 10 || count < 100 || average < 16.0, "{average} bytes per key");
        }
    }

    #[test]
    fn long_keys_with_a_common_beginning() {
        let mut entries = BTreeMap::new();
        for index in 0..50u16 {
            let mut key = vec![7; 20_000 + usize::from(index) * 10];
            key.push(index as u8);
            entries.insert(key, index);
        }
        check(&entries, 4000, &[vec![7; 30_000], vec![8], vec![6]]);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn searches_are_those_of_a_sorted_map(
            entries in prop::collection::btree_map(prop::collection::vec(0..6u8, 0..9), any::<u16>(), 1..300),
            probes in prop::collection::vec(prop::collection::vec(0..6u8, 0..9), 0..40),
            before in 0..9000usize,
        ) {
            check(&entries, before, &probes);
        }

        #[test]
        fn broken_tries_are_refused_or_searched(
            entries in prop::collection::btree_map(prop::collection::vec(any::<u8>(), 0..6), any::<u16>(), 1..200),
            breaks in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
            probe in prop::collection::vec(any::<u8>(), 0..6),
        ) {
            let (mut out, root) = build(&entries, 0);
            for (at, byte) in breaks {
                let at = at.index(out.len());
                out[at] = byte;
            }
            let mut pages = InMemory(&out);
            let mut trie = Trie::new(&mut pages, root);
            let _ = trie.on_path::<Number>(&probe);
            let _ = trie.floor::<Number>(&probe, true);
            let _ = trie.ceiling::<Number>(&probe, false);
        }
    }
}
