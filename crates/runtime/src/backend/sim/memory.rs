//! Memory of a mapped file in simulation: the node stores to it, the disk looks at it when the node dies and when the
//! simulated kernel writes pages.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;

/// Bytes that one mapping and one disk share. All of a world runs on one thread, and neither keeps a reference to the bytes
/// while the other looks at them.
pub(crate) struct SharedMemory {
    start: NonNull<u8>,
    layout: Layout,
}

impl SharedMemory {
    /// So many zeros; at least one.
    pub(crate) fn new(bytes: usize) -> SharedMemory {
        let layout = Layout::from_size_align(bytes, 4096).expect("a size that fits the address space");
        assert!(bytes > 0, "an empty layout has no memory");
        // SAFETY: the layout is not empty.
        let memory = unsafe { alloc_zeroed(layout) };
        let Some(start) = NonNull::new(memory) else { handle_alloc_error(layout) };
        SharedMemory { start, layout }
    }

    /// Where it begins.
    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Looks at the first `len` bytes, or all of them.
    pub(crate) fn look<R>(&self, len: usize, look: impl FnOnce(&[u8]) -> R) -> R {
        // SAFETY: initialised memory of ours; the node whose mapping it is does not run meanwhile.
        look(unsafe { std::slice::from_raw_parts(self.start.as_ptr(), len.min(self.layout.size())) })
    }

    /// Replaces the first bytes.
    pub(crate) fn set(&self, bytes: &[u8]) {
        let len = bytes.len().min(self.layout.size());
        // SAFETY: as above, and `bytes` is not part of this memory.
        unsafe { self.start.as_ptr().copy_from_nonoverlapping(bytes.as_ptr(), len) };
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout.
        unsafe { dealloc(self.start.as_ptr(), self.layout) };
    }
}
