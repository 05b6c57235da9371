//! Byte buffers that are used again: a shard makes one mutation or answer after the other, of much the same sizes.
//!
//! Each thread keeps a few buffers of a few sizes. What takes one gets memory that is mapped and mostly in a cache of the
//! processor, without asking the allocator; what drops one puts it back, whichever thread made it.

use crate::limits::{BUFFER_SIZES, BUFFERS_KEPT};
use std::cell::RefCell;
use std::ops::{Deref, DerefMut};

/// Buffers of each size that nothing uses.
type Shelves = [Vec<Vec<u8>>; BUFFER_SIZES.len()];

thread_local! {
    static SHELVES: RefCell<Shelves> = const { RefCell::new([const { Vec::new() }; BUFFER_SIZES.len()]) };
}

/// A byte vector whose memory comes from what this thread kept of earlier ones.
/// Shape: memory is at most some eight times what was asked for, so that a buffer may be kept for long.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Buffer(Vec<u8>);

impl Buffer {
    /// An empty one with room for so many bytes.
    #[inline]
    pub fn with_room(bytes: usize) -> Buffer {
        let Some(shelf) = BUFFER_SIZES.iter().position(|size| bytes <= *size) else {
            return Buffer(Vec::with_capacity(bytes));
        };
        let kept = SHELVES.try_with(|shelves| shelves.borrow_mut()[shelf].pop());
        Buffer(kept.ok().flatten().unwrap_or_else(|| Vec::with_capacity(BUFFER_SIZES[shelf])))
    }

    /// A copy of bytes.
    #[inline]
    pub fn copy_of(bytes: &[u8]) -> Buffer {
        let mut copy = Buffer::with_room(bytes.len());
        copy.0.extend_from_slice(bytes);
        copy
    }

    /// Makes room for so many bytes more. What it outgrows is used again.
    #[inline]
    pub fn make_room(&mut self, bytes: usize) {
        if self.0.capacity() - self.0.len() < bytes {
            self.grow(bytes);
        }
    }

    #[cold]
    fn grow(&mut self, bytes: usize) {
        let needed = (self.0.len() + bytes).max(2 * self.0.capacity());
        let mut larger = Buffer::with_room(needed);
        larger.0.extend_from_slice(&self.0);
        *self = larger;
    }

    /// The bytes as a vector of their own.
    pub fn into_vec(mut self) -> Vec<u8> {
        std::mem::take(&mut self.0)
    }
}

impl From<Vec<u8>> for Buffer {
    fn from(bytes: Vec<u8>) -> Buffer {
        Buffer(bytes)
    }
}

impl Clone for Buffer {
    fn clone(&self) -> Buffer {
        Buffer::copy_of(&self.0)
    }
}

impl Deref for Buffer {
    type Target = Vec<u8>;
    #[inline]
    fn deref(&self) -> &Vec<u8> {
        &self.0
    }
}

impl DerefMut for Buffer {
    #[inline]
    fn deref_mut(&mut self) -> &mut Vec<u8> {
        &mut self.0
    }
}

impl Drop for Buffer {
    #[inline]
    fn drop(&mut self) {
        // Those beyond the largest size would be memory that nobody accounts for.
        let capacity = self.0.capacity();
        if capacity < BUFFER_SIZES[0] || capacity >= 2 * BUFFER_SIZES[BUFFER_SIZES.len() - 1] {
            return;
        }
        let shelf = BUFFER_SIZES.iter().rposition(|size| *size <= capacity).unwrap_or(0);
        // A thread that ends has no shelves any more.
        let _ = SHELVES.try_with(|shelves| {
            let shelf = (&mut shelves.borrow_mut()[shelf], BUFFERS_KEPT[shelf]);
            if shelf.0.len() < shelf.1 {
                self.0.clear();
                shelf.0.push(std::mem::take(&mut self.0));
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept() -> Vec<usize> {
        SHELVES.with(|shelves| shelves.borrow().iter().map(Vec::len).collect())
    }

    #[test]
    fn what_is_dropped_is_used_again_and_no_more_is_kept_than_the_limits_say() {
        SHELVES.with(|shelves| shelves.borrow_mut().iter_mut().for_each(Vec::clear));
        let mut first = Buffer::with_room(10);
        first.extend_from_slice(b"abc");
        let (copy, place) = (first.clone(), first.as_ptr());
        assert_eq!(copy, first);
        assert_eq!(copy.into_vec(), b"abc");
        drop(first);
        assert_eq!(kept()[0], 1, "the vector that was taken out is not");
        let again = Buffer::with_room(BUFFER_SIZES[0]);
        assert_eq!((again.as_ptr(), again.len()), (place, 0));
        for (shelf, size) in BUFFER_SIZES.into_iter().enumerate() {
            let many: Vec<Buffer> = (0..BUFFERS_KEPT[shelf] + 3).map(|_| Buffer::with_room(size)).collect();
            assert!(many.iter().all(|buffer| (size..8 * size).contains(&buffer.capacity())));
            drop(many);
            assert_eq!(kept()[shelf], BUFFERS_KEPT[shelf]);
        }
        let before = kept();
        drop(Buffer::with_room(2 * BUFFER_SIZES[BUFFER_SIZES.len() - 1]));
        drop(Buffer::from(vec![1]));
        drop(Buffer::default());
        assert_eq!(kept(), before, "what is too large or too small is not kept");
    }

    #[test]
    fn a_buffer_that_grows_keeps_what_is_in_it() {
        let mut buffer = Buffer::default();
        for number in 0..40_000usize {
            buffer.make_room(8);
            buffer.extend_from_slice(&number.to_le_bytes());
        }
        assert!(buffer.chunks(8).enumerate().all(|(at, bytes)| bytes == at.to_le_bytes()));
    }
}
