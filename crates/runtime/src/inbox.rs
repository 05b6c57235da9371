//! What other threads may touch of a shard: a list of woken tasks, a sleep flag and a way to end the sleep.
//!
//! A waker is one number: the owner's address in the process, the task's slot and the slot's generation. On the
//! owner's own thread it goes straight to the run queue. Elsewhere it is looked up in the directory below, which holds
//! addresses only, no state of a node.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const SLOT_BITS: u32 = 28;
const GENERATION_BITS: u32 = 20;

/// A task of some shard of the process, packed as `address | generation | slot`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TaskId {
    pub(crate) slot: u32,
    pub(crate) generation: u32,
}

impl TaskId {
    pub(crate) const SLOTS: u32 = 1 << SLOT_BITS;
    pub(crate) const GENERATION_MASK: u32 = (1 << GENERATION_BITS) - 1;

    pub(crate) fn pack(self, address: u16) -> u64 {
        debug_assert!(self.slot < Self::SLOTS);
        u64::from(address) << 48
            | u64::from(self.generation & Self::GENERATION_MASK) << SLOT_BITS
            | u64::from(self.slot)
    }

    pub(crate) fn unpack(word: u64) -> (u16, TaskId) {
        let slot = word as u32 & (Self::SLOTS - 1);
        let generation = (word >> SLOT_BITS) as u32 & Self::GENERATION_MASK;
        ((word >> 48) as u16, TaskId { slot, generation })
    }
}

/// The part of a shard that every thread may reach.
pub(crate) struct Inbox {
    woken: Mutex<Vec<TaskId>>,
    pending: AtomicBool,
    asleep: AtomicBool,
    /// The shard's ring, for messages from other rings; -1 before it exists.
    ring: AtomicI32,
    /// Ends the sleep of a real shard; a simulated one never sleeps.
    event: Option<OwnedFd>,
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Inbox {
    /// An inbox of a shard that is driven from outside and never sleeps.
    pub(crate) fn simulated() -> Arc<Inbox> {
        Arc::new(Inbox {
            woken: Mutex::new(Vec::new()),
            pending: AtomicBool::new(false),
            asleep: AtomicBool::new(false),
            ring: AtomicI32::new(-1),
            event: None,
        })
    }

    /// An inbox with an eventfd that ends the shard's sleep.
    pub(crate) fn real() -> std::io::Result<Arc<Inbox>> {
        // SAFETY: plain system call without pointers.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if fd < 0 {
            return Err(std::io::Error::last_os_error());
        }
        // SAFETY: `fd` was just returned by the kernel and belongs to nobody else.
        let event = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Arc::new(Inbox {
            woken: Mutex::new(Vec::new()),
            pending: AtomicBool::new(false),
            asleep: AtomicBool::new(false),
            ring: AtomicI32::new(-1),
            event: Some(event),
        }))
    }

    pub(crate) fn set_ring(&self, fd: i32) {
        self.ring.store(fd, Ordering::Release);
    }

    pub(crate) fn ring(&self) -> Option<i32> {
        Some(self.ring.load(Ordering::Acquire)).filter(|fd| *fd >= 0)
    }

    pub(crate) fn event_fd(&self) -> Option<i32> {
        self.event.as_ref().map(OwnedFd::as_raw_fd)
    }

    /// Wakes a task from outside its thread.
    pub(crate) fn wake_task(&self, id: TaskId) {
        lock(&self.woken).push(id);
        self.notify();
    }

    /// Makes the shard look at its inbox soon.
    pub(crate) fn notify(&self) {
        self.pending.store(true, Ordering::SeqCst);
        if self.take_asleep() {
            self.ring_bell();
        }
    }

    pub(crate) fn is_pending(&self) -> bool {
        self.pending.load(Ordering::SeqCst)
    }

    /// Woken tasks since the last call, into `out`.
    pub(crate) fn take(&self, out: &mut Vec<TaskId>) {
        if self.pending.load(Ordering::Relaxed) && self.pending.swap(false, Ordering::SeqCst) {
            out.append(&mut lock(&self.woken));
        }
    }

    /// Announces that the shard will sleep. It must look for work once more before it does.
    pub(crate) fn fall_asleep(&self) {
        self.asleep.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// Whether nobody has left anything since the shard fell asleep.
    pub(crate) fn is_asleep(&self) -> bool {
        self.asleep.load(Ordering::SeqCst)
    }

    pub(crate) fn awake(&self) {
        self.asleep.store(false, Ordering::SeqCst);
    }

    /// True for exactly one caller per sleep: that one must end it. Call after publishing the work.
    pub(crate) fn take_asleep(&self) -> bool {
        fence(Ordering::SeqCst);
        self.asleep.load(Ordering::Relaxed) && self.asleep.swap(false, Ordering::SeqCst)
    }

    /// Ends the sleep through the eventfd.
    pub(crate) fn ring_bell(&self) {
        if let Some(fd) = self.event_fd() {
            let one = 1u64;
            // SAFETY: writes eight bytes from a local variable. A full counter (EAGAIN) is as good as a written one.
            let _ = unsafe { libc::write(fd, (&raw const one).cast(), 8) };
        }
    }
}

/// Where wakers of other threads find a shard's inbox. Indexed by the shard's address in the process.
static DIRECTORY: Mutex<Directory> = Mutex::new(Directory { inboxes: Vec::new(), next: 0 });

struct Directory {
    inboxes: Vec<Option<Arc<Inbox>>>,
    next: usize,
}

/// A shard's place in the directory; freed on drop.
pub(crate) struct Address(pub(crate) u16);

impl Address {
    /// Takes a free place. Panics when 65,536 shards live in one process.
    pub(crate) fn register(inbox: &Arc<Inbox>) -> Address {
        let mut directory = lock(&DIRECTORY);
        let count = directory.inboxes.len();
        // Round robin, so that a place is not used again at once while an old waker may still be around.
        let free = (0..count).map(|i| (directory.next + i) % count).find(|i| directory.inboxes[*i].is_none());
        let index = match free {
            Some(index) if count >= 1024 => index,
            _ if count < 1 << 16 => {
                directory.inboxes.push(None);
                count
            }
            Some(index) => index,
            None => panic!("too many shards in one process"),
        };
        directory.inboxes[index] = Some(inbox.clone());
        directory.next = index + 1;
        Address(index as u16)
    }
}

impl Drop for Address {
    fn drop(&mut self) {
        lock(&DIRECTORY).inboxes[usize::from(self.0)] = None;
    }
}

/// Wakes a task by its packed number from any thread.
#[cold]
pub(crate) fn wake_anywhere(word: u64) {
    let (address, id) = TaskId::unpack(word);
    let inbox = lock(&DIRECTORY).inboxes.get(usize::from(address)).cloned().flatten();
    if let Some(inbox) = inbox {
        inbox.wake_task(id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_waker_fits_one_word() {
        let id = TaskId { slot: 0xfff_ffff, generation: 0xf_fffe };
        assert_eq!(TaskId::unpack(id.pack(0xabcd)), (0xabcd, id));
    }

    #[test]
    fn only_one_ends_a_sleep() {
        let inbox = Inbox::simulated();
        inbox.fall_asleep();
        assert!(inbox.take_asleep());
        assert!(!inbox.take_asleep());
        let address = Address::register(&inbox);
        let id = TaskId { slot: 3, generation: 9 };
        wake_anywhere(id.pack(address.0));
        let mut woken = Vec::new();
        inbox.take(&mut woken);
        assert_eq!(woken, [id]);
    }
}
