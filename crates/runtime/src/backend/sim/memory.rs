//! Memory of a mapped file in simulation: the node stores to it, the disk looks at it when the node dies and when the
//! simulated kernel writes pages.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;

/// Bytes that one mapping and one disk share. All of a world runs on one thread, and neither keeps a reference to the bytes
/// while the other looks at them.
pub(crate) struct SharedMemory {
    allocated: NonNull<u8>,
    layout: Layout,
    /// On a page, within what is allocated.
    start: NonNull<u8>,
    len: usize,
}

const PAGE: usize = 4096;

impl SharedMemory {
    /// So many zeros; at least one.
    pub(crate) fn new(bytes: usize) -> SharedMemory {
        assert!(bytes > 0, "an empty mapping has no memory");
        // Aligned by hand: asked for aligned zeros, the allocator writes all of them, while those of any other large allocation
        // cost no memory before they are used.
        let layout = Layout::array::<u8>(bytes + PAGE).expect("a size that fits the address space");
        // SAFETY: the layout is not empty.
        let memory = unsafe { alloc_zeroed(layout) };
        let Some(allocated) = NonNull::new(memory) else { handle_alloc_error(layout) };
        // SAFETY: less than a page further, and a page more than wanted was allocated.
        let start = unsafe { allocated.add(allocated.align_offset(PAGE)) };
        SharedMemory { allocated, layout, start, len: bytes }
    }

    /// Where it begins.
    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Looks at the first `len` bytes, or all of them.
    pub(crate) fn look<R>(&self, len: usize, look: impl FnOnce(&[u8]) -> R) -> R {
        // SAFETY: initialised memory of ours; the node whose mapping it is does not run meanwhile.
        look(unsafe { std::slice::from_raw_parts(self.start.as_ptr(), len.min(self.len)) })
    }

    /// Replaces the first bytes.
    pub(crate) fn set(&self, bytes: &[u8]) {
        let len = bytes.len().min(self.len);
        // SAFETY: as above, and `bytes` is not part of this memory.
        unsafe { self.start.as_ptr().copy_from_nonoverlapping(bytes.as_ptr(), len) };
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout.
        unsafe { dealloc(self.allocated.as_ptr(), self.layout) };
    }
}
