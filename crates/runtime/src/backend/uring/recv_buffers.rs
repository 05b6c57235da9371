//! The shard's receive buffers, provided to the kernel as a ring.
//!
//! ```text
//! ring page: [ addr len id | addr len id | … ] tail       memory: [ buffer 0 | buffer 1 | … ]
//! ```
//! A buffer belongs to the kernel while it is between head and tail, to a [`RingBytes`] after a receive took it. Readers hold
//! [`RECV_BUFFERS_HELD`] of them at most; what comes beyond that is copied out at once, so that clients which keep their
//! connections from being read never keep others from being heard.
//! Pages are touched only when data arrives.

use super::Uring;
use crate::limits::{RECV_BUFFER_BYTES, RECV_BUFFERS, RECV_BUFFERS_HELD, RECV_OWN_BYTES};
use io_uring::{IoUring, types::BufRingEntry};
use std::cell::Cell;
use std::io;
use std::ops::Deref;
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::atomic::{AtomicU16, Ordering};

/// Buffer group of the receive buffers.
pub(super) const GROUP: u16 = 0;
const PAGE: usize = 4096;
const MEMORY_BYTES: usize = RECV_BUFFERS as usize * RECV_BUFFER_BYTES;
const _: () = assert!(RECV_BUFFERS.is_power_of_two(), "the kernel masks indexes");
const _: () = assert!(RECV_BUFFERS as usize * size_of::<BufRingEntry>() <= PAGE, "the ring fits its page");

pub(super) struct RecvBuffers {
    /// One page of ring, then the buffers.
    map: NonNull<u8>,
    tail: Cell<u16>,
    /// Buffers that readers hold.
    held: Cell<u16>,
    /// Bytes that readers hold outside of the buffers.
    own_bytes: Cell<usize>,
    /// The kernel no longer knows the memory.
    released: Cell<bool>,
}

impl RecvBuffers {
    pub(super) fn register(ring: &IoUring) -> io::Result<RecvBuffers> {
        // SAFETY: a fresh anonymous mapping; no address is asked for.
        let map = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                PAGE + MEMORY_BYTES,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if map == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // Huge pages would make the first byte of each buffer cost 2 MiB.
        // SAFETY: advice about a mapping of our own.
        unsafe { libc::madvise(map, PAGE + MEMORY_BYTES, libc::MADV_NOHUGEPAGE) };
        let map = NonNull::new(map.cast::<u8>()).expect("mmap does not return null");
        let buffers = RecvBuffers {
            map,
            tail: Cell::new(0),
            held: Cell::new(0),
            own_bytes: Cell::new(0),
            released: Cell::new(false),
        };
        // SAFETY: the mapping is page-aligned, has room for the ring, and is unmapped only after the ring is closed.
        unsafe {
            ring.submitter().register_buf_ring_with_flags(map.as_ptr() as u64, RECV_BUFFERS, GROUP, 0)?
        };
        (0..RECV_BUFFERS).for_each(|id| buffers.give(id));
        Ok(buffers)
    }

    /// Do readers hold as many buffers as they may, or as many bytes that were copied out?
    pub(super) fn are_scarce(&self) -> bool {
        self.held.get() >= RECV_BUFFERS_HELD || self.own_bytes.get() >= RECV_OWN_BYTES
    }

    /// Do readers hold enough buffers for those of streams that are behind to be copied?
    pub(super) fn are_held(&self) -> bool {
        self.held.get() >= RECV_BUFFERS_HELD / 4
    }

    /// Allows the memory to be freed: every receive is over.
    pub(super) fn release(&self) {
        self.released.set(true);
    }

    fn buffer(&self, id: u16) -> *mut u8 {
        debug_assert!(id < RECV_BUFFERS);
        // SAFETY: stays inside the mapping, as `id` is below the number of buffers.
        unsafe { self.map.as_ptr().add(PAGE + usize::from(id) * RECV_BUFFER_BYTES) }
    }

    /// Gives a buffer to the kernel.
    fn give(&self, id: u16) {
        let tail = self.tail.get();
        let index = usize::from(tail & (RECV_BUFFERS - 1));
        let ring = self.map.as_ptr().cast::<BufRingEntry>();
        // SAFETY: the entry lies in the ring's page and is not visible to the kernel before the tail moves; the tail
        // overlays a field of the first entry that `set_*` do not touch and is written atomically.
        unsafe {
            let entry = &mut *ring.add(index);
            entry.set_addr(self.buffer(id) as u64);
            entry.set_len(RECV_BUFFER_BYTES as u32);
            entry.set_bid(id);
            self.tail.set(tail.wrapping_add(1));
            let shared = BufRingEntry::tail(ring).cast_mut();
            AtomicU16::from_ptr(shared).store(self.tail.get(), Ordering::Release);
        }
    }
}

impl Drop for RecvBuffers {
    fn drop(&mut self) {
        if !self.released.get() {
            return;
        }
        // SAFETY: mapped in `register` with this length; no op is left that could receive into it.
        unsafe { libc::munmap(self.map.as_ptr().cast(), PAGE + MEMORY_BYTES) };
    }
}

/// Received bytes, most often in one of the shard's buffers; dropping them gives it back.
pub(crate) struct RingBytes(Place);

enum Place {
    End,
    Ring { uring: Rc<Uring>, id: u16, len: u32 },
    Own { uring: Rc<Uring>, bytes: Box<[u8]> },
}

impl RingBytes {
    pub(super) fn end() -> RingBytes {
        RingBytes(Place::End)
    }

    /// Bytes of a completed receive; with a negative or zero result none, in a buffer that the kernel gave up all the same.
    pub(super) fn new(uring: Rc<Uring>, id: u16, result: i32) -> RingBytes {
        let len = u32::try_from(result).unwrap_or(0);
        debug_assert!(len as usize <= RECV_BUFFER_BYTES);
        uring.buffers.held.set(uring.buffers.held.get() + 1);
        RingBytes(Place::Ring { uring, id, len })
    }

    /// Copies the bytes and gives the buffer back.
    pub(super) fn leave_ring(&mut self) {
        if let Place::Ring { uring, .. } = &self.0 {
            let (uring, bytes) = (uring.clone(), Box::from(&**self));
            *self = RingBytes::own(uring, bytes);
        }
    }

    fn own(uring: Rc<Uring>, bytes: Box<[u8]>) -> RingBytes {
        let own_bytes = &uring.buffers.own_bytes;
        own_bytes.set(own_bytes.get() + bytes.len());
        RingBytes(Place::Own { uring, bytes })
    }
}

impl Deref for RingBytes {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match &self.0 {
            Place::End => &[],
            Place::Own { bytes, .. } => bytes,
            // SAFETY: the kernel filled `len` bytes of this buffer and gave it up; it is ours until `give`.
            Place::Ring { uring, id, len } => unsafe {
                std::slice::from_raw_parts(uring.buffers.buffer(*id), *len as usize)
            },
        }
    }
}

impl Drop for RingBytes {
    fn drop(&mut self) {
        match &self.0 {
            Place::End => {}
            Place::Ring { uring, id, .. } => {
                uring.buffers.give(*id);
                uring.buffers.held.set(uring.buffers.held.get() - 1);
            }
            Place::Own { uring, bytes } => {
                let own_bytes = &uring.buffers.own_bytes;
                own_bytes.set(own_bytes.get() - bytes.len());
            }
        }
    }
}
