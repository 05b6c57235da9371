//! An allocator that counts, for benches: a program opts in by making it its global allocator.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static CALLS: Cell<u64> = const { Cell::new(0) };
    static BYTES: Cell<i64> = const { Cell::new(0) };
}

/// The system's allocator, counting per thread.
pub struct CountingAllocator;

/// Calls of this thread that returned memory, since it began.
pub fn allocations() -> u64 {
    CALLS.get()
}

/// Bytes this thread asked for less those it gave back; what crosses threads counts where it happens.
pub fn allocated_bytes() -> i64 {
    BYTES.get()
}

/// Counts memory of another allocator: calls that returned some, and its bytes, below 0 when it is given back.
pub fn count(calls: u64, bytes: i64) {
    // A thread that ends has no counters any more.
    let _ = CALLS.try_with(|cell| cell.set(cell.get() + calls));
    let _ = BYTES.try_with(|cell| cell.set(cell.get() + bytes));
}

// SAFETY: every call goes to the system's allocator unchanged; counting allocates nothing.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(1, layout.size() as i64);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(1, layout.size() as i64);
        // SAFETY: the caller keeps the contract of `alloc_zeroed`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(0, -(layout.size() as i64));
        // SAFETY: the pointer came from `System` by one of these functions.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(1, size as i64 - layout.size() as i64);
        // SAFETY: the pointer came from `System` by one of these functions.
        unsafe { System.realloc(pointer, layout, size) }
    }
}
