//! Byte strings in segments: written one behind the other, changed in place, freed all at once.
//!
//! ```text
//! segments: 512 B, then an eighth of what is there, up to 128 KiB      handle = segment : 18 bits, offset / 8 : 14 bits
//! ```
//! A string too long to lie among others has a segment of its own size. Whole segments of 128 KiB go back to the pool of
//! their shard and are used again: their pages are mapped already.

use super::{PagedVec, paged};
use crate::limits::{REGION_LONG_BYTES, SEGMENT_POOL_BYTES_MAX};
use mutation::limits::MUTATION_BYTES_MAX;
use std::cell::RefCell;

/// Largest segment, but for those of one long string, bytes.
const SEGMENT_BYTES: usize = 128 * 1024;
/// First segment of a region, bytes.
const FIRST_BYTES: usize = 512;
/// A new segment is this part of what a region has, at most; 128 KiB from 1 MiB on.
const GROWTH: usize = 8;
/// A string longer than this part of the new segment has one of its own.
const LONG_SHARE: usize = SEGMENT_BYTES / REGION_LONG_BYTES;
/// Strings begin at multiples of it, bytes.
const ALIGN: usize = 8;
const OFFSET_BITS: u32 = 14;
/// Segments of one region.
const SEGMENTS_MAX: usize = 1 << (32 - OFFSET_BITS);

/// More segments than one mutation needs, in which every string is a long one.
const SEGMENTS_SPARE: usize = 4 * MUTATION_BYTES_MAX / REGION_LONG_BYTES;

const _: () = assert!(SEGMENT_BYTES / ALIGN == 1 << OFFSET_BITS, "an offset has its bits");
const _: () = assert!(REGION_LONG_BYTES < SEGMENT_BYTES, "what is not long fits a segment");

/// Segments of one shard that nothing uses.
#[derive(Default)]
pub(crate) struct SegmentPool {
    free: RefCell<Vec<PagedVec<u8>>>,
}

impl SegmentPool {
    fn take(&self) -> PagedVec<u8> {
        let free = self.free.borrow_mut().pop();
        free.unwrap_or_else(|| paged(SEGMENT_BYTES))
    }

    /// Bytes of the segments it keeps.
    #[cfg(test)]
    pub(super) fn free_bytes(&self) -> usize {
        self.free.borrow().len() * SEGMENT_BYTES
    }

    /// Takes a segment back. It is kept while few are.
    fn give(&self, mut segment: PagedVec<u8>) {
        let mut free = self.free.borrow_mut();
        if segment.capacity() == SEGMENT_BYTES && free.len() < SEGMENT_POOL_BYTES_MAX / SEGMENT_BYTES {
            segment.clear();
            free.push(segment);
        }
    }
}

/// Byte strings that are freed together.
#[derive(Default)]
pub(crate) struct Region {
    segments: Vec<PagedVec<u8>>,
    /// The segment that strings are added to.
    open: usize,
    bytes: usize,
    garbage: usize,
}

impl Region {
    /// Adds a string of exactly `len` bytes that `write` appends. `None`: the region is full, nothing was written.
    #[inline]
    pub(crate) fn add(
        &mut self,
        pool: &SegmentPool,
        len: usize,
        write: impl FnOnce(&mut PagedVec<u8>),
    ) -> Option<u32> {
        let at = match self.segments.get(self.open) {
            Some(open) if len <= REGION_LONG_BYTES && len <= open.capacity() - open.len() => self.open,
            _ => self.segment_for(pool, len)?,
        };
        let segment = &mut self.segments[at];
        let offset = segment.len();
        write(segment);
        assert!(segment.len() == offset + len, "a string is as long as it was said to be");
        let padded = segment.len().next_multiple_of(ALIGN).min(segment.capacity());
        segment.resize(padded, 0);
        Some((at as u32) << OFFSET_BITS | (offset / ALIGN) as u32)
    }

    /// The segment that has room for a string, added to the region.
    #[cold]
    fn segment_for(&mut self, pool: &SegmentPool, len: usize) -> Option<usize> {
        if self.segments.len() == SEGMENTS_MAX {
            return None;
        }
        // In proportion to what is there, so that a small budget is not passed by much.
        let size = (self.bytes / GROWTH).next_power_of_two().clamp(FIRST_BYTES, SEGMENT_BYTES);
        let long = len > size / LONG_SHARE;
        let segment = match (long, size) {
            (true, _) => paged(len.next_multiple_of(ALIGN)),
            (false, SEGMENT_BYTES) => pool.take(),
            (false, _) => paged(size),
        };
        self.bytes += segment.capacity();
        let before = self.segments.capacity();
        self.segments.push(segment);
        self.bytes += (self.segments.capacity() - before) * size_of::<PagedVec<u8>>();
        let at = self.segments.len() - 1;
        if !long {
            self.open = at;
        }
        Some(at)
    }

    /// Whether what one mutation needs may find no room.
    pub(crate) fn is_nearly_full(&self) -> bool {
        self.segments.len() > SEGMENTS_MAX - SEGMENTS_SPARE
    }

    /// The bytes from where a string begins to the end of its segment.
    #[inline]
    pub(crate) fn at(&self, handle: u32) -> &[u8] {
        let offset = (handle & ((1 << OFFSET_BITS) - 1)) as usize * ALIGN;
        &self.segments[(handle >> OFFSET_BITS) as usize][offset..]
    }

    /// As [`Region::at`], to change it.
    #[inline]
    pub(crate) fn at_mut(&mut self, handle: u32) -> &mut [u8] {
        let offset = (handle & ((1 << OFFSET_BITS) - 1)) as usize * ALIGN;
        &mut self.segments[(handle >> OFFSET_BITS) as usize][offset..]
    }

    /// Counts bytes that nothing refers to any more.
    pub(crate) fn waste(&mut self, bytes: usize) {
        self.garbage += bytes;
    }

    /// Bytes of segments that nothing refers to any more.
    pub(crate) fn garbage(&self) -> usize {
        self.garbage
    }

    /// Bytes of all segments, used or not.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Gives a segment back. Returns false when there was none.
    pub(crate) fn drop_segment(&mut self, pool: &SegmentPool) -> bool {
        let segment = self.segments.pop();
        let any = segment.is_some();
        segment.into_iter().for_each(|segment| pool.give(segment));
        any
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use runtime::pages::PushSlice;

    fn add(region: &mut Region, pool: &SegmentPool, bytes: &[u8]) -> u32 {
        region.add(pool, bytes.len(), |out| out.push_slice(bytes)).expect("room")
    }

    #[test]
    fn strings_are_found_and_segments_grow_and_come_back() {
        let pool = SegmentPool::default();
        let mut region = Region::default();
        assert_eq!(region.bytes(), 0, "an empty region takes nothing");
        let strings: Vec<Vec<u8>> = (0..12_000usize).map(|n| vec![n as u8; 1 + n % 300]).collect();
        let handles: Vec<u32> = strings.iter().map(|bytes| add(&mut region, &pool, bytes)).collect();
        assert_eq!(region.segments[0].capacity(), 512);
        let long = vec![9; REGION_LONG_BYTES + 1];
        let apart = add(&mut region, &pool, &long);
        let behind = add(&mut region, &pool, b"behind");
        for (bytes, handle) in strings.iter().zip(&handles) {
            assert_eq!(&region.at(*handle)[..bytes.len()], bytes);
        }
        assert_eq!(region.at(apart)[..long.len()], long[..]);
        assert_eq!(&region.at(behind)[..6], b"behind");
        region.at_mut(handles[7])[0] = 77;
        assert_eq!(region.at(handles[7])[0], 77);
        let held: usize = region.segments.iter().map(PagedVec::capacity).sum();
        assert_eq!(region.bytes(), held + region.segments.capacity() * size_of::<PagedVec<u8>>());
        let whole = region.segments.iter().filter(|s| s.capacity() == SEGMENT_BYTES).count();
        while region.drop_segment(&pool) {}
        assert!(whole > 2);
        assert_eq!(pool.free.borrow().len(), whole, "segments of full size are kept");
        let again = add(&mut Region { open: 0, ..region }, &pool, b"x");
        assert_eq!(again, 0);
    }
}
