//! The partition index: values by (token, key), found in O(1) and walked in the order of the ring.
//!
//! Tokens are a hash already, so hashing and ordering need not be two structures. It is an extendible hash over the *top*
//! bits of the token: nodes of directory entries point to buckets of at most 15 slots, and because the top bits choose the
//! bucket, buckets stand in ring order.
//!
//! ```text
//! root: 2^0 … 2^12 entries ──┬─► bucket   15 × {token, value}, unordered; sorted when it is walked
//!                            ├─► node     of the next bits, where a node of 2^12 entries is not fine enough
//!                            └─► run      sorted blocks of {token, value}: tokens that lie closer than hashes do
//! ```
//! A full bucket divides alone, and a node doubles alone: no insert copies more than 16 KiB, whatever the size. Tokens can
//! be chosen (murmur3 is invertible); where they crowd eight bits beyond what their number explains, a run takes them:
//! O(log n) there, and memory stays in proportion. Keys of one token are told apart by a callback, as the keys are kept by
//! the owner of the values.
//!
//! Measured on a shared core, 1 M random tokens: `cargo x bench storage M7`.

use super::slab::Slab;
use super::{PagedVec, paged};
use base::{Token, prefetch};
use mutation::TokenRange;
use runtime::pages::PushSlice;
use smallvec::SmallVec;
use std::cell::Cell;
use std::cmp::Ordering;

/// Slots of a bucket: with its length and depth the first cache line holds what a lookup compares.
const SLOTS: usize = 15;
/// Most bits that one node tells apart: it doubles by copying 16 KiB at most.
const NODE_BITS_MAX: u32 = 12;
/// A bucket this many bits deeper than uniform tokens explain is a run.
const CROWDED_BITS: u32 = 8;
/// Two neighbours with as many entries together become one bucket.
const MERGE_SLOTS: usize = 6;
/// Entries of one block of a run; a full one is divided.
const BLOCK_MAX: usize = 256;
/// Bytes of one block.
const BLOCK_BYTES: usize = BLOCK_MAX * size_of::<(i64, u32)>();

const KIND: u32 = 0b11 << 30;
const BUCKET: u32 = 0;
const NODE: u32 = 0b01 << 30;
const RUN: u32 = 0b10 << 30;

#[derive(Clone, Debug)]
#[repr(C, align(64))]
struct Bucket {
    lows: [u32; SLOTS],
    len: u8,
    depth: u8,
    /// Slots that are marked, as bits.
    marks: Cell<u16>,
    highs: [u32; SLOTS],
    values: [u32; SLOTS],
}

const _: () = assert!(size_of::<Bucket>() == 192, "three cache lines");

#[derive(Debug)]
struct Node {
    /// Bits that the nodes above have told apart.
    base: u8,
    /// Bits it tells apart; as many entries to the power of two.
    bits: u8,
    entries: PagedVec<u32>,
}

/// Entries ordered by token, those of one token by key.
#[derive(Debug)]
struct Run {
    depth: u8,
    blocks: Vec<Vec<(i64, u32)>>,
}

/// Entries of a walk, in order: few enough to lie on the stack.
pub type Batch = SmallVec<[(Token, u32); 16]>;

/// Where a walk goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// At this place: [`TokenDirectory::batch_at`].
    At(Place),
    /// Behind the last entry given: [`TokenDirectory::batch_behind`].
    Behind,
    /// Nowhere.
    End,
}

/// A place on the ring, as a directory divides it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place(u64);

/// Values by (token, key), in ring order.
/// Shape:  a value is whatever tells its owner where the entry is; one value per (token, key).
/// Cost:   get, insert, remove O(1), about two cache misses; O(log n) for crowded tokens. No insert copies more than
///         16 KiB. About 20 bytes per entry.
#[derive(Debug)]
pub struct TokenDirectory {
    first: i64,
    shift: u32,
    nodes: Slab<Node, 64>,
    buckets: Slab<Bucket, 256>,
    runs: Slab<Run, 8>,
    /// Buckets that are not used.
    free: Vec<u32>,
    /// Nodes that are not used.
    free_nodes: Vec<u32>,
    /// Whether an entry was ever marked.
    is_any_marked: Cell<bool>,
    len: usize,
    /// Bytes of the entries of nodes and of the blocks of runs.
    inner_bytes: usize,
}

impl Bucket {
    fn new(depth: u32) -> Bucket {
        Bucket {
            lows: [0; SLOTS],
            len: 0,
            depth: depth as u8,
            marks: Cell::new(0),
            highs: [0; SLOTS],
            values: [0; SLOTS],
        }
    }

    fn token(&self, slot: usize) -> i64 {
        (u64::from(self.highs[slot]) << 32 | u64::from(self.lows[slot])) as i64
    }

    fn is_marked(&self, slot: usize) -> bool {
        self.marks.get() >> slot & 1 == 1
    }

    #[inline]
    fn mark(&self, slot: usize) {
        // What is marked already is not written again: the line stays as clean as it was.
        if !self.is_marked(slot) {
            self.marks.set(self.marks.get() | 1 << slot);
        }
    }

    /// Takes a slot over from another bucket.
    fn push_from(&mut self, other: &Bucket, slot: usize) {
        if other.is_marked(slot) {
            self.mark(usize::from(self.len));
        }
        self.push(other.token(slot), other.values[slot]);
    }

    fn push(&mut self, token: i64, value: u32) {
        let slot = usize::from(self.len);
        self.lows[slot] = token as u32;
        self.highs[slot] = (token as u64 >> 32) as u32;
        self.values[slot] = value;
        self.len += 1;
    }

    /// Slots that hold a token, as bits.
    #[inline]
    fn matches(&self, token: i64) -> u32 {
        let mut found = 0;
        for (slot, low) in self.lows.iter().enumerate() {
            found |= u32::from(*low == token as u32) << slot;
        }
        found & ((1 << self.len) - 1)
    }

    #[inline]
    fn find(&self, token: i64, compare: impl Fn(u32) -> Ordering) -> Option<usize> {
        let mut found = self.matches(token);
        while found != 0 {
            let slot = found.trailing_zeros() as usize;
            if self.token(slot) == token && compare(self.values[slot]) == Ordering::Equal {
                return Some(slot);
            }
            found &= found - 1;
        }
        None
    }

    fn remove(&mut self, slot: usize) {
        let last = usize::from(self.len) - 1;
        self.lows[slot] = self.lows[last];
        self.highs[slot] = self.highs[last];
        self.values[slot] = self.values[last];
        let (kept, moved) = (self.marks.get() & !(1 << slot | 1 << last), u16::from(self.is_marked(last)));
        self.marks.set(if slot == last { kept } else { kept | moved << slot });
        self.len -= 1;
    }

    fn entries(&self) -> impl Iterator<Item = (i64, u32)> + '_ {
        (0..usize::from(self.len)).map(|slot| (self.token(slot), self.values[slot]))
    }
}

/// Where an entry of a node leads, and where it stands.
struct Found {
    node: u32,
    at: usize,
    entry: u32,
    /// The node that leads to this one, and which of its entries.
    parent: Option<(u32, usize)>,
}

impl TokenDirectory {
    /// An empty directory, which takes no memory, for tokens that mostly lie in a range: that is what the top bits divide.
    /// Others are held as well.
    pub fn new(range: TokenRange) -> TokenDirectory {
        let width = (range.last.0 as u64).wrapping_sub(range.first.0 as u64);
        TokenDirectory {
            first: range.first.0,
            shift: if range.is_empty() { 0 } else { width.leading_zeros().min(63) },
            nodes: Slab::default(),
            buckets: Slab::default(),
            runs: Slab::default(),
            free: Vec::new(),
            free_nodes: Vec::new(),
            is_any_marked: Cell::new(false),
            len: 0,
            inner_bytes: 0,
        }
    }

    /// How many entries it has.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes of memory it takes.
    pub fn bytes(&self) -> usize {
        let free = (self.free.capacity() + self.free_nodes.capacity()) * size_of::<u32>();
        self.nodes.bytes() + self.buckets.bytes() + self.runs.bytes() + self.inner_bytes + free
    }

    /// The token as a number whose top bits are uniform; monotone, and the same for tokens on one side of the range.
    #[inline]
    fn place(&self, token: i64) -> u64 {
        if token < self.first {
            return 0;
        }
        let offset = (token as u64).wrapping_sub(self.first as u64);
        if offset > u64::MAX >> self.shift { u64::MAX } else { offset << self.shift }
    }

    #[inline]
    fn find(&self, place: u64) -> Found {
        let (mut node, mut parent) = (0, None);
        loop {
            let Node { base, bits, entries } = self.nodes.get(node);
            let at = index(place, *base, *bits);
            let entry = entries[at];
            if entry & KIND != NODE {
                return Found { node, at, entry, parent };
            }
            (node, parent) = (entry & !KIND, Some((node, at)));
        }
    }

    /// The value of a key. `compare` says how the key of a value with this token compares to the one looked for.
    #[inline]
    pub fn get(&self, token: Token, compare: impl Fn(u32) -> Ordering) -> Option<u32> {
        if self.len == 0 {
            return None;
        }
        let found = self.find(self.place(token.0));
        if found.entry & KIND == RUN {
            let run = self.runs.get(found.entry & !KIND);
            return run.find(token.0, compare).map(|(block, at)| run.blocks[block][at].1);
        }
        let bucket = self.buckets.get(found.entry);
        bucket.find(token.0, compare).map(|slot| bucket.values[slot])
    }

    /// As [`TokenDirectory::get`], and marks the entry, unless tokens are crowded where it is. The mark is in the line that was
    /// looked at anyway, and stays with the entry until that is taken out.
    #[inline]
    pub(crate) fn get_marked(&self, token: Token, compare: impl Fn(u32) -> Ordering) -> Option<u32> {
        let Some(bucket) = self.bucket(token) else { return self.get(token, compare) };
        let slot = bucket.find(token.0, compare)?;
        bucket.mark(slot);
        self.is_any_marked.set(true);
        Some(bucket.values[slot])
    }

    /// Whether an entry is there and marked. `compare` as in [`TokenDirectory::get`].
    pub(crate) fn is_marked(&self, token: Token, compare: impl Fn(u32) -> Ordering) -> bool {
        let slot = |bucket: &Bucket| bucket.find(token.0, compare).filter(|slot| bucket.is_marked(*slot));
        self.bucket(token).and_then(slot).is_some()
    }

    /// Whether an entry was ever marked.
    pub(crate) fn is_any_marked(&self) -> bool {
        self.is_any_marked.get()
    }

    /// The bucket that a token belongs to; `None`: there is none, or a run in its place.
    #[inline]
    fn bucket(&self, token: Token) -> Option<&Bucket> {
        if self.len == 0 {
            return None;
        }
        let entry = self.find(self.place(token.0)).entry;
        (entry & KIND == BUCKET).then(|| self.buckets.get(entry))
    }

    /// Has the node of a token come into the processor's caches. With [`TokenDirectory::prefetch_entry`],
    /// [`TokenDirectory::prefetch_bucket`] and [`TokenDirectory::peek`], some time apart and in this order, a later
    /// [`TokenDirectory::get`] waits for nothing: each of them looks only at what the one before asked for.
    #[inline]
    pub(crate) fn prefetch_node(&self, token: Token) {
        if let Some(node) = self.second_node(token) {
            prefetch(node, size_of::<Node>());
        }
    }

    /// The second step of [`TokenDirectory::prefetch_node`].
    #[inline]
    pub(crate) fn prefetch_entry(&self, token: Token) {
        if let Some(Node { base, bits, entries }) = self.second_node(token) {
            prefetch(&entries[index(self.place(token.0), *base, *bits)], size_of::<u32>());
        }
    }

    /// The node below the first one that a token belongs to.
    #[inline]
    fn second_node(&self, token: Token) -> Option<&Node> {
        if self.len == 0 {
            return None;
        }
        let Node { base, bits, entries } = self.nodes.get(0);
        let entry = entries[index(self.place(token.0), *base, *bits)];
        (entry & KIND == NODE).then(|| self.nodes.get(entry & !KIND))
    }

    /// The third step of [`TokenDirectory::prefetch_node`].
    #[inline]
    pub(crate) fn prefetch_bucket(&self, token: Token) {
        if let Some(bucket) = self.bucket(token) {
            prefetch(bucket, size_of::<Bucket>());
        }
    }

    /// A value of this token, whatever its key; `None` also where tokens are crowded.
    #[inline]
    pub(crate) fn peek(&self, token: Token) -> Option<u32> {
        let bucket = self.bucket(token)?;
        bucket.find(token.0, |_| Ordering::Equal).map(|slot| bucket.values[slot])
    }

    /// Adds an entry that is not there yet. `order` says how the keys of two values of one token compare, the new one
    /// among them.
    pub fn insert(&mut self, token: Token, value: u32, order: impl Fn(u32, u32) -> Ordering) {
        let place = self.place(token.0);
        if self.nodes.bytes() == 0 {
            let bucket = self.buckets.push(Bucket::new(0));
            self.add_node(0, &[bucket]);
        }
        self.len += 1;
        loop {
            let found = self.find(place);
            if found.entry & KIND == RUN {
                let run = self.runs.get_mut(found.entry & !KIND);
                self.inner_bytes += run.insert((token.0, value), &order);
                return;
            }
            let bucket = self.buckets.get_mut(found.entry);
            if usize::from(bucket.len) < SLOTS {
                return bucket.push(token.0, value);
            }
            if u32::from(bucket.depth) < self.depth_max() {
                self.divide(&found);
            } else {
                self.crowd(&found, &order);
            }
        }
    }

    /// Gives a key that is there another value. `compare` as in [`TokenDirectory::get`]. Returns the value before.
    pub fn replace(&mut self, token: Token, new: u32, compare: impl Fn(u32) -> Ordering) -> Option<u32> {
        if self.len == 0 {
            return None;
        }
        let found = self.find(self.place(token.0));
        let value = if found.entry & KIND == RUN {
            let run = self.runs.get_mut(found.entry & !KIND);
            let (block, at) = run.find(token.0, compare)?;
            &mut run.blocks[block][at].1
        } else {
            let bucket = self.buckets.get_mut(found.entry);
            let slot = bucket.find(token.0, compare)?;
            &mut bucket.values[slot]
        };
        Some(std::mem::replace(value, new))
    }

    /// Takes a key out; returns its value. `compare` as in [`TokenDirectory::get`].
    pub fn remove(&mut self, token: Token, compare: impl Fn(u32) -> Ordering) -> Option<u32> {
        if self.len == 0 {
            return None;
        }
        let found = self.find(self.place(token.0));
        let removed = if found.entry & KIND == RUN {
            let (value, freed) = self.runs.get_mut(found.entry & !KIND).remove(token.0, compare)?;
            self.inner_bytes -= freed;
            value
        } else {
            let bucket = self.buckets.get_mut(found.entry);
            let slot = bucket.find(token.0, compare)?;
            let value = bucket.values[slot];
            bucket.remove(slot);
            let place = self.place(token.0);
            while self.join(&self.find(place)) {}
            value
        };
        self.len -= 1;
        Some(removed)
    }

    /// Entries in order, from the first with a token for which `is_behind` holds, or a larger token: as many as lie
    /// together. `is_behind` must hold for all keys of the token above one of them. Empty only at the end.
    pub fn batch_behind(
        &self,
        token: Token,
        is_behind: impl Fn(u32) -> bool,
        order: impl Fn(u32, u32) -> Ordering,
        out: &mut Batch,
    ) -> Next {
        out.clear();
        if self.len == 0 {
            return Next::End;
        }
        let behind = |entry: &(i64, u32)| token.0 < entry.0 || (entry.0 == token.0 && is_behind(entry.1));
        match self.collect(Place(self.place(token.0)), behind, &order, out) {
            Next::At(place) if out.is_empty() => self.batch_at(place, order, out),
            next => next,
        }
    }

    /// Entries in order, from a place that an earlier walk of the unchanged directory gave.
    pub fn batch_at(&self, place: Place, order: impl Fn(u32, u32) -> Ordering, out: &mut Batch) -> Next {
        out.clear();
        let mut next = Next::At(place);
        while let Next::At(place) = next
            && out.is_empty()
        {
            next = self.collect(place, |_| true, &order, out);
        }
        next
    }

    /// Has the bucket at a place come into the processor's caches.
    pub(crate) fn prefetch_place(&self, Place(place): Place) {
        let entry = self.find(place).entry;
        if entry & KIND == BUCKET {
            prefetch(self.buckets.get(entry), size_of::<Bucket>());
        }
    }

    /// What one bucket or run holds behind a place in it.
    fn collect(
        &self,
        Place(place): Place,
        behind: impl Fn(&(i64, u32)) -> bool,
        order: &impl Fn(u32, u32) -> Ordering,
        out: &mut Batch,
    ) -> Next {
        let found = self.find(place);
        let depth = if found.entry & KIND == RUN {
            let run = self.runs.get(found.entry & !KIND);
            if run.collect(behind, out) {
                return Next::Behind;
            }
            run.depth
        } else {
            let bucket = self.buckets.get(found.entry);
            out.extend(bucket.entries().filter(behind).map(|(token, value)| (Token(token), value)));
            out.sort_unstable_by(|a, b| a.0.cmp(&b.0).then_with(|| order(a.1, b.1)));
            bucket.depth
        };
        let last = place | u64::MAX >> depth;
        last.checked_add(1).map_or(Next::End, |next| Next::At(Place(next)))
    }

    /// Frees a part of it, in no order; it cannot be used afterwards. Returns false when nothing was left.
    pub(crate) fn free_some(&mut self) -> bool {
        self.len = 0;
        self.buckets.drop_page() || self.runs.drop_page() || self.nodes.drop_page()
    }

    /// Depth that no bucket of uniform tokens reaches.
    fn depth_max(&self) -> u32 {
        ((self.len / 8).next_power_of_two().trailing_zeros() + CROWDED_BITS).min(60)
    }

    fn add_node(&mut self, base: u32, first: &[u32]) -> u32 {
        let mut entries = paged(first.len());
        entries.push_slice(first);
        self.inner_bytes += entries.capacity() * size_of::<u32>();
        let bits = entries.len().trailing_zeros() as u8;
        let node = Node { base: base as u8, bits, entries };
        match self.free_nodes.pop() {
            Some(at) => {
                *self.nodes.get_mut(at) = node;
                at
            }
            None => self.nodes.push(node),
        }
    }

    fn add_bucket(&mut self, depth: u32) -> u32 {
        match self.free.pop() {
            Some(at) => {
                *self.buckets.get_mut(at) = Bucket::new(depth);
                at
            }
            None => self.buckets.push(Bucket::new(depth)),
        }
    }

    /// Divides a full bucket in two by its next bit.
    fn divide(&mut self, found: &Found) {
        let left = found.entry;
        let depth = u32::from(self.buckets.get(left).depth);
        let right = self.add_bucket(depth + 1);
        let old = std::mem::replace(self.buckets.get_mut(left), Bucket::new(depth + 1));
        for slot in 0..usize::from(old.len) {
            let upper = self.place(old.token(slot)) >> (63 - depth) & 1 == 1;
            self.buckets.get_mut(if upper { right } else { left }).push_from(&old, slot);
        }
        let Node { base, bits, .. } = self.nodes.get(found.node);
        let finest = u32::from(*base) + u32::from(*bits);
        if depth == finest && u32::from(*bits) == NODE_BITS_MAX {
            let node = self.add_node(finest, &[left, right]);
            self.nodes.get_mut(found.node).entries[found.at] = NODE | node;
            return;
        }
        let mut at = found.at;
        if depth == finest {
            self.double(found.node);
            at *= 2;
        }
        let Node { base, bits, entries } = self.nodes.get_mut(found.node);
        let span = span(*base, *bits, depth);
        let first = at & !(span - 1);
        entries[first + span / 2..first + span].fill(right);
    }

    /// Gives a node one more bit. Only nodes that cannot double any more lead to nodes.
    fn double(&mut self, node: u32) {
        let node = self.nodes.get_mut(node);
        let mut doubled = paged(2 * node.entries.len());
        doubled.extend(node.entries.iter().flat_map(|entry| [*entry; 2]));
        self.inner_bytes -= node.entries.capacity() * size_of::<u32>();
        self.inner_bytes += doubled.capacity() * size_of::<u32>();
        node.entries = doubled;
        node.bits += 1;
    }

    /// Makes a run of a full bucket that is too deep for hashes.
    fn crowd(&mut self, found: &Found, order: &impl Fn(u32, u32) -> Ordering) {
        let bucket = self.buckets.get(found.entry);
        let depth = bucket.depth;
        let mut run = Run { depth, blocks: Vec::new() };
        for entry in bucket.entries() {
            self.inner_bytes += run.insert(entry, order);
        }
        let at = self.runs.push(run);
        self.free.push(found.entry);
        self.point(found, u32::from(depth), RUN | at);
    }

    /// Makes all entries of the bucket or run that was found lead elsewhere.
    fn point(&mut self, found: &Found, depth: u32, to: u32) {
        let Node { base, bits, entries } = self.nodes.get_mut(found.node);
        let span = span(*base, *bits, depth);
        let first = found.at & !(span - 1);
        entries[first..first + span].fill(to);
    }

    /// Makes one bucket of two neighbours that hold little, if that is what they are.
    fn join(&mut self, found: &Found) -> bool {
        let Node { base, bits, entries } = self.nodes.get(found.node);
        let (depth, len) = self.depth_and_len(found.entry);
        if depth <= u32::from(*base) {
            return false;
        }
        let span = span(*base, *bits, depth);
        let other = entries[(found.at & !(span - 1)) ^ span];
        if other & KIND != BUCKET || other == found.entry {
            return false;
        }
        let (other_depth, other_len) = self.depth_and_len(other);
        if other_depth != depth || len + other_len > MERGE_SLOTS {
            return false;
        }
        let moved = self.buckets.get(other).clone();
        let bucket = self.buckets.get_mut(found.entry);
        (0..other_len).for_each(|slot| bucket.push_from(&moved, slot));
        bucket.depth -= 1;
        self.free.push(other);
        self.point(found, depth - 1, found.entry);
        if let Some((parent, at)) = found.parent
            && depth - 1 == u32::from(self.nodes.get(found.node).base)
        {
            // It is all the node leads to.
            self.nodes.get_mut(parent).entries[at] = found.entry;
            let entries = std::mem::replace(&mut self.nodes.get_mut(found.node).entries, paged(0));
            self.inner_bytes -= entries.capacity() * size_of::<u32>();
            self.free_nodes.push(found.node);
        }
        true
    }

    fn depth_and_len(&self, bucket: u32) -> (u32, usize) {
        let bucket = self.buckets.get(bucket);
        (u32::from(bucket.depth), usize::from(bucket.len))
    }
}

impl Run {
    /// The block that an entry with these neighbours belongs to, and its place there. `is_before` holds for entries
    /// that come before it.
    fn seek(&self, is_before: impl Fn(&(i64, u32)) -> bool) -> (usize, usize) {
        let block = self.blocks.partition_point(|block| block.last().is_some_and(&is_before));
        let at = self.blocks.get(block).map_or(0, |entries| entries.partition_point(is_before));
        (block, at)
    }

    /// Where the entry of a key is.
    fn find(&self, token: i64, compare: impl Fn(u32) -> Ordering) -> Option<(usize, usize)> {
        let against = |entry: &(i64, u32)| entry.0.cmp(&token).then_with(|| compare(entry.1));
        let (block, at) = self.seek(|entry| against(entry) == Ordering::Less);
        let entry = self.blocks.get(block)?.get(at)?;
        (against(entry) == Ordering::Equal).then_some((block, at))
    }

    /// Returns the bytes it grew by.
    fn insert(&mut self, new: (i64, u32), order: &impl Fn(u32, u32) -> Ordering) -> usize {
        let before =
            |entry: &(i64, u32)| entry.0.cmp(&new.0).then_with(|| order(entry.1, new.1)) == Ordering::Less;
        let (mut block, mut at) = self.seek(before);
        let mut grown = 0;
        if block == self.blocks.len() && block > 0 {
            block -= 1;
            at = self.blocks[block].len();
        }
        if self.blocks.is_empty() || self.blocks[block].len() == BLOCK_MAX {
            let capacity = self.blocks.capacity();
            let mut upper = Vec::with_capacity(BLOCK_MAX);
            if let Some(full) = self.blocks.get_mut(block) {
                upper.extend(full.drain(BLOCK_MAX / 2..));
                if at > BLOCK_MAX / 2 {
                    (block, at) = (block + 1, at - BLOCK_MAX / 2);
                    self.blocks.insert(block, upper);
                } else {
                    self.blocks.insert(block + 1, upper);
                }
            } else {
                self.blocks.push(upper);
            }
            grown = (self.blocks.capacity() - capacity) * size_of::<Vec<(i64, u32)>>() + BLOCK_BYTES;
        }
        self.blocks[block].insert(at, new);
        grown
    }

    /// Returns the value and the bytes it shrank by.
    fn remove(&mut self, token: i64, compare: impl Fn(u32) -> Ordering) -> Option<(u32, usize)> {
        let (block, at) = self.find(token, compare)?;
        let (_, value) = self.blocks[block].remove(at);
        if !self.blocks[block].is_empty() {
            return Some((value, 0));
        }
        self.blocks.remove(block);
        Some((value, BLOCK_BYTES))
    }

    /// Adds entries to `out` until it is full; returns whether there are more.
    fn collect(&self, behind: impl Fn(&(i64, u32)) -> bool, out: &mut Batch) -> bool {
        let (block, at) = self.seek(|entry| !behind(entry));
        let mut entries = self.blocks[block..].iter().flatten().skip(at);
        let room = out.inline_size();
        out.extend(entries.by_ref().take(room).map(|(token, value)| (Token(*token), *value)));
        entries.next().is_some()
    }
}

/// Which entry of a node a place belongs to.
#[inline]
fn index(place: u64, base: u8, bits: u8) -> usize {
    // Shifted twice: a node without bits would shift by 64.
    (place << base >> 1 >> (63 - u32::from(bits))) as usize
}

/// How many entries of a node a bucket of a depth has.
fn span(base: u8, bits: u8, depth: u32) -> usize {
    1 << (u32::from(base) + u32::from(bits) - depth)
}

#[cfg(test)]
mod tests;
