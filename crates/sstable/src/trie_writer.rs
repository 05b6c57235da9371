//! Writes tries from ascending keys, so packed that a search touches few pages.
//!
//! A branch is kept in memory until it and its siblings no longer fit into one page; then the branches below are placed, the
//! largest that fits into the rest of the page first, and the page is padded when none fits. What is open is the path to the
//! last key and, beside each of its nodes, branches of less than a page. Of those a few pages' worth are kept, no more: a node may have
//! 256 of them, and a mebibyte at once would keep the core from requests for milliseconds.

use crate::trie::{Kind, PAGE};

/// Bytes of the largest payload: a position of seven bytes and a deletion.
const PAYLOAD_BYTES_MAX: usize = 20;

/// Nodes of a branch in memory, one below the other: functions that walk it call themselves.
const HEIGHT_MAX: usize = 200;

/// Bytes of branches that are kept beside a node of the path before some are placed, and how many are kept then: enough to
/// find one for the rest of most pages.
const KEPT_MAX: usize = 4 * PAGE as usize;
const KEPT_REST: usize = 2 * PAGE as usize;

/// Where a trie goes.
pub(crate) trait TrieSink {
    /// Bytes before the next one.
    fn position(&self) -> u64;
    /// The end of it, to append to.
    fn end(&mut self) -> &mut Vec<u8>;
}

impl TrieSink for Vec<u8> {
    fn position(&self) -> u64 {
        self.len() as u64
    }

    fn end(&mut self) -> &mut Vec<u8> {
        self
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
    /// A node without children that is in memory. Most nodes are: they take no memory of their own.
    Leaf(NewPayload),
    /// It is complete and in memory.
    Kept(Box<Branch>),
}

/// A complete node with what hangs on it.
#[derive(Debug)]
struct Branch {
    node: Node,
    size: Size,
    /// Nothing of it is in the file, so its size is exact.
    whole: bool,
    /// Nodes on its longest path.
    height: usize,
}

/// Bytes of a branch.
#[derive(Clone, Copy, Debug)]
struct Size {
    /// Of all of it that is not in the file, as far as known: pointers to what is in the file may grow.
    all: usize,
    /// Of its node, which stands at the end.
    own: usize,
}

impl State {
    /// Bytes still to be written, as far as known; `None` when it is in the file.
    fn size(&self) -> Option<Size> {
        match self {
            State::Written(_) => None,
            State::Leaf(payload) => {
                let bytes = Kind::Leaf.size(0) + usize::from(payload.len);
                Some(Size { all: bytes, own: bytes })
            }
            State::Kept(branch) => Some(branch.size),
        }
    }

    fn is_whole(&self) -> bool {
        match self {
            State::Written(_) => false,
            State::Leaf(_) => true,
            State::Kept(branch) => branch.whole,
        }
    }

    fn height(&self) -> usize {
        match self {
            State::Written(_) => 0,
            State::Leaf(_) => 1,
            State::Kept(branch) => branch.height,
        }
    }
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
    /// The bytes of the node if its farthest child is at a distance.
    fn bytes(&self, farthest: u64) -> usize {
        let (kind, distances) = choose(&self.children, farthest, self.payload.bits != 0);
        kind.size(distances) + usize::from(self.payload.len)
    }

    /// As [`Node::size`], with what is known of its children's sizes.
    fn size_now(&self, start: u64) -> Size {
        self.size(start, self.children.iter().map(|child| child.state.size()))
    }

    /// Size of all that is still to be written of it from a position on, its children having these sizes, in turn: what
    /// is in the file has none.
    fn size(&self, start: u64, sizes: impl Iterator<Item = Option<Size>> + Clone) -> Size {
        let before: u64 = sizes.clone().flatten().map(|size| size.all as u64).sum();
        let position = start + before;
        let (mut end, mut farthest) = (start, 0);
        for (child, size) in self.children.iter().zip(sizes) {
            let at = match (&child.state, size) {
                (State::Written(at), _) => *at,
                (_, Some(size)) => {
                    end += size.all as u64;
                    end - size.own as u64
                }
                (_, None) => unreachable!("what is in memory has a size"),
            };
            farthest = farthest.max(position - at);
        }
        let own = self.bytes(farthest);
        Size { all: before as usize + own, own }
    }
}

/// Size of a branch written from a position on. Exact.
fn measure(branch: &Branch, start: u64) -> Size {
    if branch.whole {
        return branch.size;
    }
    let (mut sizes, mut position) = (Vec::new(), start);
    for child in &branch.node.children {
        let size = match &child.state {
            State::Kept(child) => Some(measure(child, position)),
            other => other.size(),
        };
        position += size.map_or(0, |size| size.all as u64);
        sizes.push(size);
    }
    branch.node.size(start, sizes.iter().copied())
}

/// Makes a branch of a node that is complete, measured as if it were written at a position.
fn complete(node: Node, start: u64) -> Branch {
    let whole = node.children.iter().all(|child| child.state.is_whole());
    let height = 1 + node.children.iter().map(|child| child.state.height()).max().unwrap_or(0);
    let size = node.size_now(start);
    Branch { size, whole, height, node }
}

/// A node of the path to the last key.
#[derive(Debug, Default)]
struct Open {
    node: Node,
    /// Bytes of what hangs on it and is not in the file, as far as known.
    kept: usize,
}

/// Builds one trie.
#[derive(Debug, Default)]
pub(crate) struct TrieWriter {
    /// The path to the last key, the root first.
    open: Vec<Open>,
    /// The bytes between them.
    path: Vec<u8>,
    entries: u64,
    /// Lists of children that nodes gave back.
    spare: Vec<Vec<Child>>,
}

impl TrieWriter {
    /// How many entries there are.
    pub(crate) fn entries(&self) -> u64 {
        self.entries
    }

    /// Adds an entry. Keys ascend; none comes twice. For each node that the key leaves it writes
    /// [`KEPT_MAX`] bytes and a page at most, and the padding of these pages: as much again where branches are a little more than half of one.
    pub(crate) fn add(&mut self, key: &[u8], payload: NewPayload, out: &mut impl TrieSink) {
        let common = self.path.iter().zip(key).take_while(|(a, b)| a == b).count();
        debug_assert!(self.entries == 0 || self.path[..] < *key, "keys ascend");
        if self.open.is_empty() {
            self.open.push(Open::default());
        }
        self.close_to(common, out);
        self.path.extend_from_slice(&key[common..]);
        self.open.resize_with(self.path.len() + 1, Open::default);
        let last = self.open.last_mut().expect("the root is there");
        last.node.payload = payload;
        self.entries += 1;
    }

    /// Completes the nodes that lie deeper.
    fn close_to(&mut self, depth: usize, out: &mut impl TrieSink) {
        while self.path.len() > depth {
            let byte = self.path.pop().expect("the path is longer");
            let Open { node, .. } = self.open.pop().expect("a node for each byte");
            let state = if node.children.is_empty() {
                State::Leaf(node.payload)
            } else {
                let mut branch = complete(node, out.position());
                if branch.size.all as u64 > PAGE || branch.height > HEIGHT_MAX {
                    place_children(&mut branch, &mut self.spare, out);
                }
                State::Kept(Box::new(branch))
            };
            let parent = self.open.last_mut().expect("the root stays");
            parent.kept += state.size().map_or(0, |size| size.all);
            let children = &mut parent.node.children;
            if children.capacity() == 0 {
                *children = self.spare.pop().unwrap_or_default();
            }
            children.push(Child { byte, state });
            if parent.kept > KEPT_MAX {
                parent.kept = place(children, KEPT_REST, &mut self.spare, out);
            }
        }
    }

    /// Writes what is left and returns the root's position. The writer is then new again.
    pub(crate) fn finish(&mut self, out: &mut impl TrieSink) -> u64 {
        self.close_to(0, out);
        let Open { node: root, .. } = self.open.pop().unwrap_or_default();
        self.entries = 0;
        let mut branch = complete(root, out.position());
        loop {
            let bytes = measure(&branch, out.position()).all as u64;
            if bytes <= left_in_page(out) {
                return write(branch, &mut self.spare, out);
            }
            if bytes > PAGE {
                place_children(&mut branch, &mut self.spare, out);
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
    let left = left_in_page(out);
    if left < PAGE {
        let end = out.end();
        end.resize(end.len() + left as usize, 0);
    }
}

/// Writes all that hangs on a branch's node, so that only the node is left.
fn place_children(branch: &mut Branch, spare: &mut Vec<Vec<Child>>, out: &mut impl TrieSink) {
    place(&mut branch.node.children, 0, spare, out);
    let size = branch.node.size_now(out.position());
    (branch.size, branch.whole, branch.height) = (size, false, 1);
}

/// The children of a node that are to be written: their sizes as far as known and which they are, in this order. Of two of a
/// size the one of the larger byte goes first, as Cassandra does.
struct Waiting {
    children: Vec<(usize, usize)>,
    /// Bytes of all.
    bytes: usize,
}

impl Waiting {
    fn new(children: &[Child]) -> Waiting {
        let sizes = children.iter().map(|child| child.state.size()).enumerate();
        let mut children: Vec<_> = sizes.filter_map(|(index, size)| Some((size?.all, index))).collect();
        children.sort_unstable();
        let bytes = children.iter().map(|(bytes, _)| bytes).sum();
        Waiting { children, bytes }
    }

    /// Where in the order the largest that fits is.
    fn largest_within(&self, left: u64) -> Option<usize> {
        self.children.partition_point(|(bytes, _)| *bytes as u64 <= left).checked_sub(1)
    }

    /// Which child it is.
    fn at(&self, place: usize) -> usize {
        self.children[place].1
    }

    fn remove(&mut self, place: usize) -> usize {
        let (bytes, index) = self.children.remove(place);
        self.bytes -= bytes;
        index
    }

    fn resize(&mut self, place: usize, bytes: usize) {
        let index = self.remove(place);
        let place = self.children.partition_point(|other| *other < (bytes, index));
        self.children.insert(place, (bytes, index));
        self.bytes += bytes;
    }
}

/// Writes children of a node until so many bytes of them, or less, are left; returns how many are.
fn place(children: &mut [Child], rest: usize, spare: &mut Vec<Vec<Child>>, out: &mut impl TrieSink) -> usize {
    let mut waiting = Waiting::new(children);
    while waiting.bytes > rest {
        let left = left_in_page(out);
        let Some(best) = waiting.largest_within(left) else {
            if left < PAGE {
                pad(out);
                continue;
            }
            // Pointers have grown so that it no longer fits into a page: what hangs on it goes first.
            let largest = waiting.children.len() - 1;
            let State::Kept(child) = &mut children[waiting.at(largest)].state else {
                unreachable!("a leaf fits into a page")
            };
            place_children(child, spare, out);
            waiting.resize(largest, child.size.all);
            continue;
        };
        let state = &mut children[waiting.at(best)].state;
        if let State::Kept(child) = state {
            let size = measure(child, out.position());
            if size.all as u64 > left {
                child.size = size;
                waiting.resize(best, size.all);
                continue;
            }
        }
        waiting.remove(best);
        write_state(state, spare, out);
    }
    waiting.bytes
}

/// Writes what hangs on a node.
fn write_state(state: &mut State, spare: &mut Vec<Vec<Child>>, out: &mut impl TrieSink) {
    let at = match std::mem::replace(state, State::Written(0)) {
        State::Written(at) => at,
        State::Leaf(payload) => {
            let at = out.position();
            encode_leaf(&payload, out.end());
            at
        }
        State::Kept(branch) => write(*branch, spare, out),
    };
    *state = State::Written(at);
}

/// Writes a branch that fits into the rest of the page; returns where its node is.
fn write(branch: Branch, spare: &mut Vec<Vec<Child>>, out: &mut impl TrieSink) -> u64 {
    let mut node = branch.node;
    for child in &mut node.children {
        write_state(&mut child.state, spare, out);
    }
    let position = out.position();
    encode(&node, position, out.end());
    debug_assert!(
        position / PAGE == (out.position() - 1) / PAGE,
        "a node of {} bytes lies within its page",
        out.position() - position
    );
    node.children.clear();
    spare.push(node.children);
    position
}

fn written(child: &Child) -> u64 {
    match child.state {
        State::Written(at) => at,
        State::Leaf(_) | State::Kept(_) => unreachable!("all children were written"),
    }
}

fn encode_leaf(payload: &NewPayload, out: &mut Vec<u8>) {
    out.push(Kind::Leaf.number() << 4 | payload.bits);
    out.extend_from_slice(payload.bytes());
}

/// Appends the node's bytes; all its children are in the file.
fn encode(node: &Node, position: u64, out: &mut Vec<u8>) {
    if node.children.is_empty() {
        return encode_leaf(&node.payload, out);
    }
    let farthest = node.children.iter().map(|child| position - written(child)).max().unwrap_or(0);
    let (kind, count) = choose(&node.children, farthest, node.payload.bits != 0);
    let distance = |child: &Child| position - written(child);
    let number = kind.number() << 4;
    match kind {
        Kind::Leaf => unreachable!("it has children"),
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
        search(entries, &out, root, entries.keys().chain(probes));
    }

    /// Asks a trie and a sorted map the same.
    fn search<'a>(
        entries: &BTreeMap<Vec<u8>, u16>,
        trie: &[u8],
        root: u64,
        probes: impl Iterator<Item = &'a Vec<u8>>,
    ) {
        let mut pages = InMemory(trie);
        let mut trie = Trie::new(&mut pages, root);
        let named = |entry: Option<(&Vec<u8>, &u16)>| entry.map(|(key, number)| (key.clone(), *number));
        for probe in probes {
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

    /// Keys like shortened tokens, of three bytes: every node of the path has many branches.
    fn tokens(count: usize) -> BTreeMap<Vec<u8>, u16> {
        let mut rng = base::Prng::new(7);
        let key = |rng: &mut base::Prng| rng.below(1 << 24).to_be_bytes()[5..].to_vec();
        (0..count).map(|index| (key(&mut rng), index as u16)).collect()
    }

    #[test]
    fn no_step_writes_much() {
        // At first a branch of the first byte is a little less than a page, and the root's are written early; then that of a first byte has
        // five pages, and its own are, too.
        for count in [150_000, 1_000_000] {
            let entries = tokens(count);
            let (mut out, mut writer, mut most) = (Vec::new(), TrieWriter::default(), 0);
            for (key, number) in &entries {
                let before = out.len();
                writer.add(key, NewPayload::new(2, &number.to_be_bytes()), &mut out);
                most = most.max(out.len() - before);
            }
            let before = out.len();
            let root = writer.finish(&mut out);
            most = most.max(out.len() - before);
            assert!(most <= 2 * (KEPT_MAX + PAGE as usize), "{most} bytes in one step of {count} keys");
            search(&entries, &out, root, entries.keys().step_by(997));
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
