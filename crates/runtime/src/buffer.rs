//! Memory that direct file operations accept: its address and capacity are multiples of 4096.
//!
//! Read buffers of a shard are used again: what was read last lies in the processor's cache, and nothing is zeroed.

use crate::limits::{DIRECT_ALIGN, READ_BUFFER_BYTES, READ_BUFFERS_KEPT_BYTES};
use crate::shard::try_with;
use std::alloc::{Layout, alloc, alloc_zeroed, dealloc, handle_alloc_error};
use std::cell::{Cell, RefCell};
use std::ops::{Deref, DerefMut, Range};
use std::ptr::NonNull;

/// An owned, growable byte buffer, aligned for direct file operations. Bytes between length and capacity are
/// initialised (zero or older content), so a shortened buffer can be lengthened again.
pub struct AlignedBuf {
    start: NonNull<u8>,
    len: usize,
    capacity: usize,
}

// SAFETY: the memory is owned by this value alone and has no interior mutability.
unsafe impl Send for AlignedBuf {}
// SAFETY: as above; shared access only reads.
unsafe impl Sync for AlignedBuf {}

/// Rounds up to the alignment of direct file operations.
pub fn align_up(bytes: usize) -> usize {
    bytes.div_ceil(DIRECT_ALIGN) * DIRECT_ALIGN
}

impl AlignedBuf {
    /// An empty buffer that takes this many bytes without moving. Allocates unless 0.
    pub fn with_capacity(bytes: usize) -> AlignedBuf {
        let capacity = align_up(bytes);
        if capacity == 0 {
            return AlignedBuf { start: NonNull::dangling(), len: 0, capacity: 0 };
        }
        let layout = Self::layout(capacity);
        // SAFETY: the layout is not empty.
        let memory = unsafe { alloc_zeroed(layout) };
        let Some(start) = NonNull::new(memory) else { handle_alloc_error(layout) };
        AlignedBuf { start, len: 0, capacity }
    }

    /// A buffer of this many zero bytes.
    pub fn zeroed(bytes: usize) -> AlignedBuf {
        let mut buffer = AlignedBuf::with_capacity(bytes);
        buffer.len = bytes;
        buffer
    }

    fn layout(capacity: usize) -> Layout {
        Layout::from_size_align(capacity, DIRECT_ALIGN)
            .expect("the alignment is a power of two and sizes are bounded")
    }

    /// A buffer of parts that are `bytes` long together, one behind the other. Writes every byte once.
    pub fn of_parts<'a>(bytes: usize, parts: impl Iterator<Item = &'a [u8]>) -> AlignedBuf {
        let capacity = align_up(bytes);
        if capacity == 0 {
            return AlignedBuf::default();
        }
        let layout = Self::layout(capacity);
        // SAFETY: the layout is not empty.
        let memory = unsafe { alloc(layout) };
        let Some(start) = NonNull::new(memory) else { handle_alloc_error(layout) };
        let mut buffer = AlignedBuf { start, len: 0, capacity };
        for part in parts {
            assert!(part.len() <= bytes - buffer.len, "the parts are as long as was said");
            // SAFETY: behind what was written there is room for the part, and nobody else knows the memory.
            unsafe { memory.add(buffer.len).copy_from_nonoverlapping(part.as_ptr(), part.len()) };
            buffer.len += part.len();
        }
        // SAFETY: the rest of the memory; what lies behind the length is initialised, too.
        unsafe { memory.add(buffer.len).write_bytes(0, capacity - buffer.len) };
        buffer
    }

    /// Bytes it can hold without moving.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Room left without moving.
    pub fn room(&self) -> usize {
        self.capacity - self.len
    }

    fn reserve(&mut self, wanted: usize) {
        if wanted > self.capacity {
            let mut larger = AlignedBuf::with_capacity(wanted.max(self.capacity * 2));
            larger.len = self.len;
            larger.copy_from_slice(self);
            *self = larger;
        }
    }

    /// Appends bytes, growing when needed.
    pub fn extend_from_slice(&mut self, bytes: &[u8]) {
        let old = self.len;
        self.reserve(old + bytes.len());
        self.len = old + bytes.len();
        self[old..].copy_from_slice(bytes);
    }

    /// Sets the length; new bytes are `fill`.
    pub fn resize(&mut self, len: usize, fill: u8) {
        self.reserve(len);
        let old = self.len;
        self.len = len;
        if old < len {
            self[old..].fill(fill);
        }
    }

    /// Appends zeroes up to the next multiple of 4096.
    pub fn pad_to_alignment(&mut self) {
        self.resize(align_up(self.len), 0);
    }

    /// Sets the length within the capacity; bytes that come back are zero or older content.
    pub fn set_len(&mut self, len: usize) {
        assert!(len <= self.capacity, "the memory is there");
        self.len = len;
    }

    /// Shortens to `len`; longer lengths change nothing.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Forgets the content, keeps the memory.
    pub fn clear(&mut self) {
        self.len = 0;
    }
}

impl Default for AlignedBuf {
    fn default() -> Self {
        AlignedBuf::with_capacity(0)
    }
}

impl From<&[u8]> for AlignedBuf {
    /// Writes every byte once: what holds the copy is not zeroed before.
    fn from(bytes: &[u8]) -> Self {
        AlignedBuf::of_parts(bytes.len(), std::iter::once(bytes))
    }
}

impl std::fmt::Debug for AlignedBuf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "AlignedBuf({} of {} bytes)", self.len, self.capacity)
    }
}

impl Deref for AlignedBuf {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: `start` is valid for `capacity >= len` initialised bytes, or dangling with len 0.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl DerefMut for AlignedBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`; `&mut self` is the only access.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl Drop for AlignedBuf {
    fn drop(&mut self) {
        if self.capacity > 0 {
            // SAFETY: allocated in `with_capacity` with the same layout.
            unsafe { dealloc(self.start.as_ptr(), Self::layout(self.capacity)) }
        }
    }
}

/// Free read buffers of a shard, by size: powers of two from 4 KiB.
#[derive(Default)]
pub(crate) struct ReadBuffers {
    free: RefCell<[Vec<AlignedBuf>; CLASSES]>,
    kept: Cell<usize>,
}

const CLASSES: usize = (READ_BUFFER_BYTES / DIRECT_ALIGN).ilog2() as usize + 1;

fn class(bytes: usize) -> usize {
    (bytes.div_ceil(DIRECT_ALIGN).next_power_of_two()).ilog2() as usize
}

impl ReadBuffers {
    /// A buffer of this length; its content is undefined but initialised.
    pub(crate) fn take(&self, len: usize) -> AlignedBuf {
        if len > READ_BUFFER_BYTES {
            return AlignedBuf::zeroed(len);
        }
        let class = class(len.max(1));
        let free = self.free.borrow_mut()[class].pop();
        let mut buffer = match free {
            Some(buffer) => {
                self.kept.set(self.kept.get() - buffer.capacity());
                buffer
            }
            None => AlignedBuf::with_capacity(DIRECT_ALIGN << class),
        };
        buffer.set_len(len);
        buffer
    }

    /// Bytes of buffers that are kept.
    #[cfg(test)]
    pub(crate) fn kept_bytes(&self) -> usize {
        self.kept.get()
    }

    /// Keeps a buffer for later, if it is of a size that is asked for and not too many are kept.
    fn give(&self, buffer: AlignedBuf) {
        let capacity = buffer.capacity();
        let fits = (DIRECT_ALIGN..=READ_BUFFER_BYTES).contains(&capacity) && capacity.is_power_of_two();
        if fits && self.kept.get() + capacity <= READ_BUFFERS_KEPT_BYTES {
            self.kept.set(self.kept.get() + capacity);
            self.free.borrow_mut()[class(capacity)].push(buffer);
        }
    }
}

/// Bytes that were read from a file, in a buffer that the shard uses again.
#[derive(Debug)]
pub struct Piece {
    buffer: AlignedBuf,
    range: Range<usize>,
}

impl Piece {
    pub(crate) fn new(buffer: AlignedBuf, range: Range<usize>) -> Piece {
        assert!(range.end <= buffer.len(), "the bytes are in the buffer");
        Piece { buffer, range }
    }
}

impl Deref for Piece {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.buffer[self.range.clone()]
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        let buffer = std::mem::take(&mut self.buffer);
        // Without a shard the memory is freed.
        try_with(|shard| shard.read_buffers.give(buffer));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_buffers_are_used_again_within_bounds() {
        let buffers = ReadBuffers::default();
        let buffer = buffers.take(5000);
        assert_eq!((buffer.len(), buffer.capacity()), (5000, 8192));
        let place = buffer.as_ptr();
        buffers.give(buffer);
        assert_eq!(buffers.kept.get(), 8192);
        let again = buffers.take(8192);
        assert_eq!((again.as_ptr(), again.len(), buffers.kept.get()), (place, 8192, 0));
        assert_eq!(buffers.take(1).capacity(), DIRECT_ALIGN);
        assert_eq!(buffers.take(READ_BUFFER_BYTES + 1).len(), READ_BUFFER_BYTES + 1);
        for _ in 0..READ_BUFFERS_KEPT_BYTES / READ_BUFFER_BYTES + 3 {
            buffers.give(AlignedBuf::with_capacity(READ_BUFFER_BYTES));
        }
        buffers.give(AlignedBuf::with_capacity(3 * DIRECT_ALIGN));
        buffers.give(AlignedBuf::default());
        assert_eq!(buffers.kept.get(), READ_BUFFERS_KEPT_BYTES);
    }

    #[test]
    fn grows_aligned() {
        let mut buffer = AlignedBuf::default();
        assert!(buffer.is_empty());
        for i in 0..3000u32 {
            buffer.extend_from_slice(&i.to_be_bytes());
        }
        assert_eq!(buffer.as_ptr() as usize % DIRECT_ALIGN, 0);
        assert_eq!(buffer[4 * 2999..], 2999u32.to_be_bytes());
        buffer.pad_to_alignment();
        assert_eq!((buffer.len(), buffer[12000], buffer[12287]), (12288, 0, 0));
        let mut buffer = AlignedBuf::from(&buffer[..]);
        assert_eq!((buffer.len(), buffer.capacity(), buffer[12001]), (12288, 12288, 0));
        assert_eq!(AlignedBuf::from(&[][..]).capacity(), 0);
        buffer.truncate(5);
        buffer = AlignedBuf::from(&buffer[..]);
        assert_eq!((buffer.len(), buffer.capacity()), (5, DIRECT_ALIGN));
        buffer.resize(8, 9);
        assert_eq!(buffer[..], [0, 0, 0, 0, 0, 9, 9, 9]);
    }
}
