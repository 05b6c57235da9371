//! Where blocks of the log lie until they are written: in the tail file of the shard, which outlives the process, or in memory
//! that does not.
//!
//! ```text
//! tail file   block | block | …     4096 bytes each, in no order: a block says itself which one it is (docs/formats/commitlog.md)
//! ```
//! The block that was given back last is taken next, so that as little memory is in use as there is waiting, and it is in the
//! processor's cache. Invariant: a block is given back when its write has ended, so what is in no segment is in the tail.

use super::block::BLOCK;
use runtime::file::{AlignedBuf, File};
use runtime::mapping::Mapping;

/// One block of the memory, until it is given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockRef(u32);

/// Marks a block that is not in the tail file.
const HEAP: u32 = 1 << 31;
/// Blocks of the heap that are kept to be taken again.
const HEAP_KEPT: usize = 256;

/// Blocks to build a log in.
#[derive(Debug, Default)]
pub struct BlockMemory {
    tail: Option<Mapping>,
    tail_blocks: u32,
    tail_free: Vec<u32>,
    heap: Vec<Option<Box<[u8; BLOCK]>>>,
    heap_free: Vec<u32>,
    heap_kept: Vec<Box<[u8; BLOCK]>>,
}

impl BlockMemory {
    /// Memory that a process takes with it.
    pub fn new() -> BlockMemory {
        BlockMemory::default()
    }

    /// From now on blocks are taken from a tail file, of whose blocks none is in use.
    pub fn set_tail(&mut self, tail: Mapping) {
        assert!(self.tail.is_none(), "a log has one tail file");
        self.tail = Some(tail);
    }

    /// The tail file has so many bytes, no fewer than before.
    pub fn set_tail_bytes(&mut self, bytes: usize) {
        let Some(tail) = &mut self.tail else { return };
        tail.set_len(bytes);
        let blocks = u32::try_from(bytes / BLOCK).expect("a tail is far below its largest number of blocks");
        assert!(blocks >= self.tail_blocks && blocks < HEAP, "blocks in use stay where they are");
        // New ones are taken last.
        let new = (self.tail_blocks..blocks).rev();
        self.tail_free.splice(0..0, new);
        self.tail_blocks = blocks;
    }

    /// The file behind the memory, if there is one.
    pub fn tail_file(&self) -> Option<&File> {
        self.tail.as_ref().map(Mapping::file)
    }

    /// Blocks of the tail file.
    pub fn tail_blocks(&self) -> usize {
        self.tail_blocks as usize
    }

    /// Blocks of the tail file that can be taken.
    pub fn tail_free(&self) -> usize {
        self.tail_free.len()
    }

    /// Whether blocks are in use that a process takes with it.
    pub fn has_heap_blocks(&self) -> bool {
        self.heap.len() > self.heap_free.len()
    }

    /// A block; what is in it is of an earlier one. Of the tail file as long as it has any.
    pub fn take(&mut self) -> BlockRef {
        if let Some(block) = self.tail_free.pop() {
            return BlockRef(block);
        }
        let memory = self.heap_kept.pop().unwrap_or_else(|| Box::new([0; BLOCK]));
        let index = self.heap_free.pop().unwrap_or_else(|| {
            self.heap.push(None);
            (self.heap.len() - 1) as u32
        });
        self.heap[index as usize] = Some(memory);
        BlockRef(HEAP | index)
    }

    /// What is in a block that was taken.
    pub fn block(&self, block: BlockRef) -> &[u8] {
        if block.0 & HEAP == 0 {
            let start = block.0 as usize * BLOCK;
            return &self.tail.as_deref().unwrap_or_default()[start..start + BLOCK];
        }
        let memory = self.heap[(block.0 & !HEAP) as usize].as_ref().expect("it was taken");
        &memory[..]
    }

    /// As [`BlockMemory::block`], to be changed.
    #[inline]
    pub fn block_mut(&mut self, block: BlockRef) -> &mut [u8] {
        if block.0 & HEAP == 0 {
            let start = block.0 as usize * BLOCK;
            return &mut self.tail.as_deref_mut().unwrap_or_default()[start..start + BLOCK];
        }
        let memory = self.heap[(block.0 & !HEAP) as usize].as_mut().expect("it was taken");
        &mut memory[..]
    }

    /// Blocks that are not needed any more: they were written, or nobody will.
    pub fn give_back(&mut self, blocks: &[BlockRef]) {
        for block in blocks {
            if block.0 & HEAP == 0 {
                self.tail_free.push(block.0);
                continue;
            }
            let index = block.0 & !HEAP;
            let memory = self.heap[index as usize].take().expect("it was taken");
            self.heap_free.push(index);
            if self.heap_kept.len() < HEAP_KEPT {
                self.heap_kept.push(memory);
            }
        }
    }

    /// A copy of blocks, one behind the other, as direct writes want it.
    pub fn copy(&self, blocks: &[BlockRef]) -> AlignedBuf {
        AlignedBuf::of_parts(blocks.len() * BLOCK, blocks.iter().map(|block| self.block(*block)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_its_own_until_it_is_given_back() {
        let mut memory = BlockMemory::new();
        let blocks: Vec<BlockRef> = (0..600).map(|_| memory.take()).collect();
        for (number, block) in blocks.iter().enumerate() {
            memory.block_mut(*block).fill(number as u8);
        }
        let copy = memory.copy(&blocks[10..20]);
        assert!(copy.chunks(BLOCK).zip(10..).all(|(bytes, number)| bytes.iter().all(|byte| *byte == number)));
        assert!(memory.has_heap_blocks());
        memory.give_back(&blocks);
        assert!(!memory.has_heap_blocks());
        assert_eq!(
            memory.take(),
            *blocks.last().expect("some"),
            "the last one is the first to be taken again"
        );
    }
}
