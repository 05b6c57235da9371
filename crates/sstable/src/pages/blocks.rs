//! The cached blocks of a shard: S3-FIFO over blocks of any size, without I/O.
//!
//! Pages of indexes and chunks of data stand in queues of their own. A page of 4 KiB leads to hundreds of partitions, a chunk of 16 KiB
//! holds some dozens, whose rows the row cache has anyway once they were asked for; in one queue each miss of a large table would push
//! out four pages for one chunk. So chunks have what pages do not want, and a share that pages do not take from them.
//!
//! ```text
//!   new ─► small (a tenth) ── used again ─► main ─┐ used: round again
//!              └─ not used ─► ghost (hashes)      └─ not used: gone
//!   new, but its hash is in ghost ─► main
//! ```
//! A hit stores one byte and moves nothing. Slots are linked twice: in their queue and with the other blocks of their file,
//! so that a file that goes takes its blocks along. Blocks are counted references: who looks at one keeps it.
//! Source: Yang et al., "FIFO queues are all you need for cache eviction", SOSP 2023.

use base::HashMap;
use std::rc::Rc;

use crate::limits::{CACHE_ENTRY_BYTES, CACHE_SHARE_OF_BLOCK, READ_AHEAD_BYTES, SPARE_BLOCKS_MAX};

/// Bytes of a page or of a decoded chunk.
pub(crate) type Block = Rc<Vec<u8>>;

/// A block's place: the number of its file on this shard, and which of the file's blocks it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) file: u32,
    pub(crate) index: u32,
}

impl Key {
    /// Spreads keys over the ghost table; never 0.
    fn hash(self) -> u32 {
        let mixed = (u64::from(self.file) << 32 | u64::from(self.index)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> 32) as u32 | 1
    }
}

/// No slot.
const NONE: u32 = u32::MAX;
/// Uses that are counted.
const USES_MAX: u8 = 3;
/// Uses in the small queue that make a block worth keeping.
const USES_TO_STAY: u8 = 2;
/// One in so many bytes of a content is the small queue's.
const SMALL_SHARE: usize = 10;
/// One in so many bytes of the budget is not taken from data for an index.
const DATA_SHARE: usize = 4;
/// Ghosts at first; a power of two.
const GHOSTS_MIN: usize = 256;

/// What blocks are of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Content {
    /// An index, or what else leads to data.
    Index = 0,
    /// Rows.
    Data = 1,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Queue {
    Small,
    Main,
}

/// Which of a slot's links.
#[derive(Clone, Copy)]
enum Chain {
    Queue = 0,
    File = 1,
}

#[derive(Clone, Copy)]
struct Link {
    before: u32,
    behind: u32,
}

struct Slot {
    key: Key,
    /// `None`: vacant.
    block: Option<Block>,
    bytes: usize,
    uses: u8,
    content: Content,
    queue: Queue,
    links: [Link; 2],
}

#[derive(Clone, Copy)]
struct List {
    first: u32,
    last: u32,
}

const EMPTY: List = List { first: NONE, last: NONE };

/// The queues of one content.
struct Queues {
    /// Newest first.
    small: List,
    main: List,
    count: usize,
    bytes: usize,
    small_bytes: usize,
    /// Hashes of what left the small queue unused, each at a place of its own; 0: none.
    ghosts: Vec<u32>,
}

impl Queues {
    fn new() -> Queues {
        Queues { small: EMPTY, main: EMPTY, count: 0, bytes: 0, small_bytes: 0, ghosts: vec![0; GHOSTS_MIN] }
    }

    fn place_of(&self, hash: u32) -> usize {
        hash as usize & (self.ghosts.len() - 1)
    }
}

/// Blocks within a budget.
pub(crate) struct Blocks {
    slots: Vec<Slot>,
    vacant: Vec<u32>,
    by_key: HashMap<Key, u32>,
    files: HashMap<u32, List>,
    /// By content.
    queues: [Queues; 2],
    budget: usize,
    evicted: u64,
    /// Buffers of blocks that nobody looked at when they went, the latest last.
    spares: Vec<Vec<u8>>,
}

impl Blocks {
    /// An empty cache that may grow to `budget` bytes.
    pub(crate) fn new(budget: usize) -> Blocks {
        Blocks {
            slots: Vec::new(),
            vacant: Vec::new(),
            by_key: HashMap::default(),
            files: HashMap::default(),
            queues: [Queues::new(), Queues::new()],
            budget,
            evicted: 0,
            spares: Vec::new(),
        }
    }

    /// Bytes it may hold.
    pub(crate) fn budget(&self) -> usize {
        self.budget
    }

    /// Bytes it holds, its own records included.
    pub(crate) fn bytes(&self) -> usize {
        self.queues.iter().map(|queues| queues.bytes).sum()
    }

    /// Blocks it holds.
    pub(crate) fn count(&self) -> usize {
        self.by_key.len()
    }

    /// Blocks that had to go for others so far.
    pub(crate) fn evicted(&self) -> u64 {
        self.evicted
    }

    /// A buffer of this many bytes, of a block that went if one had this size. Its content means nothing.
    pub(crate) fn buffer(&mut self, size: usize) -> Vec<u8> {
        match self.spares.iter().rposition(|spare| spare.len() == size) {
            Some(place) => self.spares.swap_remove(place),
            None => vec![0; size],
        }
    }

    /// Grows or shrinks; what is too much goes at once. O(blocks that go).
    pub(crate) fn set_budget(&mut self, budget: usize) {
        self.budget = budget;
        self.shrink(budget);
        self.spares.clear();
    }

    /// Whether a block is there. Does not count as a use.
    pub(crate) fn contains(&self, key: Key) -> bool {
        self.by_key.contains_key(&key)
    }

    /// A block; `used`: it is worth keeping for that.
    #[inline]
    pub(crate) fn get(&mut self, key: Key, used: bool) -> Option<Block> {
        let slot = &mut self.slots[*self.by_key.get(&key)? as usize];
        if used {
            slot.uses = (slot.uses + 1).min(USES_MAX);
        }
        slot.block.clone()
    }

    /// Adds a block, unless it is there or would take too much of the whole. Others go for it.
    pub(crate) fn insert(&mut self, key: Key, block: Block, content: Content) {
        let bytes = block.capacity() + CACHE_ENTRY_BYTES;
        if bytes > self.budget / CACHE_SHARE_OF_BLOCK || self.contains(key) {
            return;
        }
        self.shrink(self.budget - bytes);
        let queues = &mut self.queues[content as usize];
        let place = queues.place_of(key.hash());
        let known = queues.ghosts[place] == key.hash();
        let queue = if known { Queue::Main } else { Queue::Small };
        if known {
            queues.ghosts[place] = 0;
        }
        let slot = self.take_slot(Slot {
            key,
            block: Some(block),
            bytes,
            uses: 0,
            content,
            queue,
            links: [Link { before: NONE, behind: NONE }; 2],
        });
        self.by_key.insert(key, slot);
        self.enqueue(slot);
        let mut file = self.files.get(&key.file).copied().unwrap_or(EMPTY);
        link_first(&mut self.slots, &mut file, Chain::File, slot);
        self.files.insert(key.file, file);
        let queues = &mut self.queues[content as usize];
        if queues.count > queues.ghosts.len() {
            queues.ghosts = vec![0; queues.ghosts.len() * 2];
        }
    }

    /// Drops all blocks of a file. O(its blocks).
    pub(crate) fn remove_file(&mut self, file: u32) {
        while let Some(list) = self.files.get(&file) {
            let slot = list.first;
            self.remove(slot);
        }
    }

    /// Whether any block of a file is there.
    pub(crate) fn knows_file(&self, file: u32) -> bool {
        self.files.contains_key(&file)
    }

    fn take_slot(&mut self, slot: Slot) -> u32 {
        match self.vacant.pop() {
            Some(index) => {
                self.slots[index as usize] = slot;
                index
            }
            None => {
                self.slots.push(slot);
                let index = self.slots.len() as u32 - 1;
                assert!(index < NONE, "slots are numbered by u32");
                index
            }
        }
    }

    /// Puts a slot in front of the queue it names.
    fn enqueue(&mut self, slot: u32) {
        let Slot { queue, content, bytes, .. } = self.slots[slot as usize];
        let queues = &mut self.queues[content as usize];
        let list = match queue {
            Queue::Small => {
                queues.small_bytes += bytes;
                &mut queues.small
            }
            Queue::Main => &mut queues.main,
        };
        (queues.count, queues.bytes) = (queues.count + 1, queues.bytes + bytes);
        link_first(&mut self.slots, list, Chain::Queue, slot);
    }

    fn dequeue(&mut self, slot: u32) {
        let Slot { queue, content, bytes, .. } = self.slots[slot as usize];
        let queues = &mut self.queues[content as usize];
        let list = match queue {
            Queue::Small => {
                queues.small_bytes -= bytes;
                &mut queues.small
            }
            Queue::Main => &mut queues.main,
        };
        (queues.count, queues.bytes) = (queues.count - 1, queues.bytes - bytes);
        unlink(&mut self.slots, list, Chain::Queue, slot);
    }

    fn remove(&mut self, slot: u32) {
        self.dequeue(slot);
        let key = self.slots[slot as usize].key;
        if let Some(file) = self.files.get_mut(&key.file) {
            unlink(&mut self.slots, file, Chain::File, slot);
            if file.first == NONE {
                self.files.remove(&key.file);
            }
        }
        self.by_key.remove(&key);
        let entry = &mut self.slots[slot as usize];
        let block = entry.block.take();
        let spare = block.and_then(|block| Rc::try_unwrap(block).ok());
        if let Some(spare) = spare.filter(|spare| spare.len() as u64 <= READ_AHEAD_BYTES) {
            if self.spares.len() == SPARE_BLOCKS_MAX {
                self.spares.swap_remove(0);
            }
            self.spares.push(spare);
        }
        self.vacant.push(slot);
    }

    /// Lets blocks go until no more than `target` bytes are left.
    fn shrink(&mut self, target: usize) {
        while self.bytes() > target {
            let [index, data] = &self.queues;
            let content = if data.bytes > self.budget / DATA_SHARE || index.count == 0 {
                Content::Data
            } else {
                Content::Index
            };
            let queues = &self.queues[content as usize];
            if queues.small_bytes > queues.bytes / SMALL_SHARE || queues.main.last == NONE {
                self.pass_small(content);
            } else {
                self.pass_main(content);
            }
        }
    }

    /// The oldest block of the small queue stays in the main one, or goes.
    fn pass_small(&mut self, content: Content) {
        let queues = &mut self.queues[content as usize];
        let slot = queues.small.last;
        assert!(slot != NONE, "bytes are counted by queue");
        let entry = &self.slots[slot as usize];
        if entry.uses >= USES_TO_STAY {
            self.dequeue(slot);
            let entry = &mut self.slots[slot as usize];
            (entry.queue, entry.uses) = (Queue::Main, 0);
            self.enqueue(slot);
            return;
        }
        let hash = entry.key.hash();
        let place = queues.place_of(hash);
        queues.ghosts[place] = hash;
        self.remove(slot);
        self.evicted += 1;
    }

    /// The oldest block of the main queue goes round again if it was used, or goes.
    fn pass_main(&mut self, content: Content) {
        let slot = self.queues[content as usize].main.last;
        if self.slots[slot as usize].uses > 0 {
            self.dequeue(slot);
            self.slots[slot as usize].uses -= 1;
            self.enqueue(slot);
        } else {
            self.remove(slot);
            self.evicted += 1;
        }
    }
}

fn link_first(slots: &mut [Slot], list: &mut List, chain: Chain, slot: u32) {
    let old = list.first;
    slots[slot as usize].links[chain as usize] = Link { before: NONE, behind: old };
    match old {
        NONE => list.last = slot,
        old => slots[old as usize].links[chain as usize].before = slot,
    }
    list.first = slot;
}

fn unlink(slots: &mut [Slot], list: &mut List, chain: Chain, slot: u32) {
    let Link { before, behind } = slots[slot as usize].links[chain as usize];
    match before {
        NONE => list.first = behind,
        before => slots[before as usize].links[chain as usize].behind = behind,
    }
    match behind {
        NONE => list.last = before,
        behind => slots[behind as usize].links[chain as usize].before = before,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Prng;
    use std::collections::BTreeMap;

    fn key(file: u32, index: u32) -> Key {
        Key { file, index }
    }

    fn block(size: usize, fill: u8) -> Block {
        Rc::new(vec![fill; size])
    }

    /// Every other file is an index.
    fn content(key: Key) -> Content {
        if key.file.is_multiple_of(2) { Content::Index } else { Content::Data }
    }

    impl Blocks {
        fn put(&mut self, key: Key, block: Block) {
            self.insert(key, block, content(key));
        }
    }

    impl Blocks {
        /// Everything that links and sums say of each other.
        fn check(&self) {
            let walk = |list: List, chain: Chain| {
                let mut found = Vec::new();
                let (mut at, mut before) = (list.first, NONE);
                while at != NONE {
                    let link = self.slots[at as usize].links[chain as usize];
                    assert_eq!(link.before, before);
                    found.push(at);
                    (before, at) = (at, link.behind);
                }
                assert_eq!(list.last, before);
                found
            };
            let bytes =
                |slots: &[u32]| slots.iter().map(|slot| self.slots[*slot as usize].bytes).sum::<usize>();
            for queues in &self.queues {
                let (small, main) = (walk(queues.small, Chain::Queue), walk(queues.main, Chain::Queue));
                assert_eq!(bytes(&small), queues.small_bytes);
                assert_eq!(bytes(&small) + bytes(&main), queues.bytes);
                assert_eq!(small.len() + main.len(), queues.count);
            }
            let [index, data] = &self.queues;
            assert_eq!(
                (index.bytes + data.bytes, index.count + data.count),
                (self.bytes(), self.by_key.len())
            );
            assert!(self.bytes() <= self.budget);
            let mut in_files = 0;
            for (file, list) in &self.files {
                let slots = walk(*list, Chain::File);
                assert!(!slots.is_empty());
                assert!(slots.iter().all(|slot| self.slots[*slot as usize].key.file == *file));
                in_files += slots.len();
            }
            assert_eq!(in_files, self.by_key.len());
            assert_eq!(self.vacant.len() + self.by_key.len(), self.slots.len());
        }
    }

    #[test]
    fn whatever_is_done_what_is_found_is_what_was_put_there() {
        for seed in 0..30 {
            let mut rng = Prng::new(seed);
            let mut blocks = Blocks::new(200_000);
            let mut model: BTreeMap<(u32, u32), u8> = BTreeMap::new();
            for step in 0..3_000u32 {
                let at = key(rng.below(6) as u32, rng.below(60) as u32);
                match rng.below(20) {
                    0 => {
                        blocks.remove_file(at.file);
                        model.retain(|(file, _), _| *file != at.file);
                        assert!(!blocks.knows_file(at.file));
                    }
                    1 => blocks.set_budget(20_000 + rng.below(400_000) as usize),
                    2..=9 => {
                        let fill = *model.entry((at.file, at.index)).or_insert(step as u8);
                        blocks.put(at, block(rng.below(9_000) as usize, fill));
                    }
                    _ => {
                        if let Some(found) = blocks.get(at, rng.chance(0.5)) {
                            let fill = model[&(at.file, at.index)];
                            assert!(found.iter().all(|byte| *byte == fill));
                        }
                    }
                }
                blocks.check();
            }
            assert!(blocks.evicted() > 0);
        }
    }

    #[test]
    fn what_is_used_outlives_a_scan_and_what_comes_back_stays() {
        let mut blocks = Blocks::new(100 * (4096 + CACHE_ENTRY_BYTES));
        for index in 0..50 {
            blocks.put(key(1, index), block(4096, 1));
            blocks.get(key(1, index), true);
            blocks.get(key(1, index), true);
        }
        for index in 0..5_000 {
            blocks.put(key(3, index), block(4096, 2));
            blocks.get(key(3, index), true);
        }
        let kept = (0..50).filter(|index| blocks.contains(key(1, *index))).count();
        assert_eq!(kept, 50, "each block of the scan was used once");
        // Gone from the small queue a moment ago and asked for again: into the main one.
        let gone = (0..5_000).rev().find(|index| !blocks.contains(key(3, *index))).unwrap();
        blocks.put(key(3, gone), block(4096, 2));
        for index in 10_000..10_200 {
            blocks.put(key(3, index), block(4096, 2));
        }
        assert!(blocks.contains(key(3, gone)));
    }

    #[test]
    fn an_index_does_not_go_for_data_nor_takes_the_share_of_data() {
        let pages = |count: usize| count * (4096 + CACHE_ENTRY_BYTES);
        let mut blocks = Blocks::new(pages(400));
        let count = |blocks: &Blocks, file, most: u32| {
            (0..most).filter(|index| blocks.contains(key(file, *index))).count()
        };
        // Data has everything as long as nobody else wants it.
        (0..1_000).for_each(|index| blocks.put(key(1, index), block(4096, 1)));
        assert_eq!(count(&blocks, 1, 1_000), 400);
        // An index that fits beside the share of data stays whole, whatever is read.
        (0..290).for_each(|index| blocks.put(key(2, index), block(4096, 2)));
        (1_000..9_000).for_each(|index| blocks.put(key(1, index), block(4096, 1)));
        assert_eq!((count(&blocks, 2, 290), count(&blocks, 1, 9_000)), (290, 110));
        // One that does not fit leaves data its share.
        (290..5_000).for_each(|index| blocks.put(key(2, index), block(4096, 2)));
        assert_eq!((count(&blocks, 2, 5_000), count(&blocks, 1, 9_000)), (300, 100));
        // And without an index data has it again.
        blocks.remove_file(2);
        (9_000..9_900).for_each(|index| blocks.put(key(1, index), block(4096, 1)));
        assert_eq!(blocks.count(), 400);
        blocks.check();
    }

    #[test]
    fn a_block_too_large_for_the_budget_is_not_kept_and_a_reader_keeps_what_it_has() {
        let mut blocks = Blocks::new(64 * 1024);
        blocks.put(key(1, 0), block(60 * 1024, 1));
        assert_eq!((blocks.count(), blocks.bytes()), (0, 0));
        blocks.put(key(1, 1), block(1000, 7));
        let held = blocks.get(key(1, 1), true).unwrap();
        blocks.set_budget(0);
        assert_eq!((blocks.count(), blocks.bytes(), held[999]), (0, 0, 7));
        blocks.put(key(1, 1), block(0, 7));
        assert_eq!(blocks.count(), 0);
    }

    #[test]
    fn buffers_go_round_unless_somebody_looks_at_them() {
        let mut blocks = Blocks::new(1 << 20);
        blocks.put(key(1, 0), block(1000, 7));
        blocks.put(key(1, 1), block(1000, 8));
        let held = blocks.get(key(1, 1), true).unwrap();
        blocks.remove_file(1);
        assert_eq!(blocks.buffer(1000)[999], 7);
        assert_eq!((blocks.buffer(1000)[999], held[999]), (0, 8));
        for index in 0..100 {
            blocks.put(key(2, index), block(10, 1));
        }
        blocks.remove_file(2);
        assert_eq!(blocks.spares.len(), SPARE_BLOCKS_MAX);
    }

    /// Zipf-like references: the hit ratio is well above that of plain FIFO order.
    #[test]
    fn skewed_references_hit_often() {
        let mut rng = Prng::new(3);
        let mut blocks = Blocks::new(500 * (100 + CACHE_ENTRY_BYTES));
        let (mut hits, rounds) = (0, 60_000);
        for _ in 0..rounds {
            // Half of all references go to a hundredth of the keys, a quarter to the next two hundredths and so on.
            let mut span = 100;
            while rng.chance(0.5) && span < 10_000 {
                span *= 2;
            }
            let at = key(1, rng.below(span) as u32);
            match blocks.get(at, true) {
                Some(_) => hits += 1,
                None => blocks.put(at, block(100, 0)),
            }
        }
        assert!(hits * 100 / rounds >= 76, "{hits} of {rounds}");
    }
}
