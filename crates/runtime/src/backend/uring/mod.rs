//! The real backend: one io_uring per shard, plain system calls where they are cheaper, helper threads for the rest.
//!
//! ```text
//! future --submit--> op slab [ waker | result | kept resources ] --SQE--> kernel --CQE--> result, wake
//! ```
//! Invariants: an op's slot, and every buffer, path, address and descriptor it names, stays until the op's final CQE,
//! whether or not somebody still waits. A dropped future only marks its slot as abandoned (and asks for cancellation
//! where that helps). `user_data` is slot and sequence number, so a late cancellation never hits a slot's next op.
//! The ring is created and used by the shard's thread only (SINGLE_ISSUER).

/// The op slab.
mod ops;
/// Receive buffers shared by the shard's connections.
mod recv_buffers;
/// Files and folders.
mod files;
/// Sockets.
mod sockets;

pub(crate) use files::UringFile;
pub(crate) use recv_buffers::RingBytes;
pub(crate) use sockets::{UringListener, UringStream};

use crate::backend::folders::Folders;
use crate::backend::socket::close_raw;
use crate::clock::Ticks;
use crate::inbox::Inbox;
use crate::limits::{RING_COMPLETIONS, RING_ENTRIES};
use crate::offload::OffloadPool;
use io_uring::{IoUring, cqueue, opcode, squeue, types};
use ops::{Keep, Op, Ops, Outcome};
use recv_buffers::RecvBuffers;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::os::fd::AsRawFd;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// `user_data` of ops whose completion means nothing.
const IGNORED: u64 = u64::MAX;
/// Of a message from another ring: its only purpose is to end the sleep.
const MESSAGE: u64 = u64::MAX - 1;
/// Of the poll on the shard's eventfd.
const BELL: u64 = u64::MAX - 2;
/// High half of a failed message to another ring; the low half is the eventfd to write instead.
const UNSENT: u64 = 0xffff_fff0;
/// How long closing a ring waits for operations under way before it leaks their memory.
const CLOSE_WAIT: Duration = Duration::from_secs(2);

pub(crate) struct Uring {
    ring: RefCell<IoUring>,
    ops: RefCell<Ops>,
    buffers: RecvBuffers,
    completions: RefCell<VecDeque<(u64, i32, u32)>>,
    ticks: Ticks,
    pub(crate) folders: Folders,
    inbox: Arc<Inbox>,
    bell_armed: Cell<bool>,
}

fn build_ring() -> io::Result<IoUring> {
    let base = || {
        let mut builder = IoUring::builder();
        builder.setup_cqsize(RING_COMPLETIONS).setup_clamp();
        builder
    };
    let mut newest = base();
    newest.setup_single_issuer().setup_defer_taskrun().setup_taskrun_flag().setup_submit_all();
    let mut full = newest.clone();
    full.setup_no_sqarray();
    let mut older = base();
    older.setup_coop_taskrun().setup_taskrun_flag().setup_submit_all();
    let mut last = Err(io::ErrorKind::Unsupported.into());
    for builder in [full, newest, older, base()] {
        last = builder.build(RING_ENTRIES);
        match &last {
            // The kernel does not know one of the flags.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {}
            _ => break,
        }
    }
    last
}

impl Uring {
    /// Makes the ring; call on the shard's thread.
    pub(crate) fn new(inbox: Arc<Inbox>, offload: Arc<OffloadPool>) -> io::Result<Rc<Uring>> {
        let ring = build_ring()?;
        limit_workers(&ring);
        let buffers = RecvBuffers::register(&ring)?;
        inbox.set_ring(ring.as_raw_fd());
        let uring = Uring {
            ring: RefCell::new(ring),
            ops: RefCell::default(),
            buffers,
            completions: RefCell::default(),
            ticks: Ticks::new(),
            folders: Folders { offload },
            inbox,
            bell_armed: Cell::new(false),
        };
        uring.arm_bell();
        Ok(Rc::new(uring))
    }

    #[inline]
    pub(crate) fn ticks(&self) -> u64 {
        self.ticks.now()
    }

    /// Does the kernel hold completions for us?
    pub(crate) fn has_completions(&self) -> bool {
        let mut ring = self.ring.borrow_mut();
        ring.submission().taskrun() || !ring.completion().is_empty()
    }

    fn push(&self, entry: &squeue::Entry) {
        let mut ring = self.ring.borrow_mut();
        loop {
            // SAFETY: what the entry points to is kept in the op slab until its final completion.
            if unsafe { ring.submission().push(entry) }.is_ok() {
                return;
            }
            match ring.submit() {
                Ok(_) => {}
                Err(error) if is_transient(&error) => self.collect(&mut ring),
                Err(error) => panic!("io_uring_enter failed: {error}"),
            }
        }
    }

    /// Copies completions out of the ring, so that handling them may use the ring.
    fn collect(&self, ring: &mut IoUring) {
        let mut completions = self.completions.borrow_mut();
        completions.extend(ring.completion().map(|c| (c.user_data(), c.result(), c.flags())));
    }

    /// Submits what is queued and handles what is complete, without waiting.
    pub(crate) fn poll(self: &Rc<Self>) {
        let mut ring = self.ring.borrow_mut();
        let submission = ring.submission();
        let enter = !submission.is_empty() || submission.taskrun() || submission.cq_overflow();
        drop(submission);
        if enter {
            accept_transient(ring.submit());
        }
        self.collect(&mut ring);
        drop(ring);
        self.dispatch();
    }

    /// Submits what is queued and sleeps until something completes or the time is over.
    pub(crate) fn wait(self: &Rc<Self>, limit: Option<Duration>) {
        let mut ring = self.ring.borrow_mut();
        let result = match limit {
            None => ring.submit_and_wait(1),
            Some(limit) => {
                let time = types::Timespec::new().sec(limit.as_secs()).nsec(limit.subsec_nanos());
                ring.submitter().submit_with_args(1, &types::SubmitArgs::new().timespec(&time))
            }
        };
        accept_transient(result);
        self.collect(&mut ring);
        drop(ring);
        self.dispatch();
    }

    fn dispatch(self: &Rc<Self>) {
        loop {
            let next = self.completions.borrow_mut().pop_front();
            let Some((user_data, result, flags)) = next else {
                return;
            };
            match user_data {
                IGNORED | MESSAGE => {}
                BELL => self.bell(flags),
                failed if failed >> 32 == UNSENT => ring_bell(failed as u32 as i32),
                _ => self.complete(user_data, result, flags),
            }
        }
    }

    fn complete(self: &Rc<Self>, user_data: u64, result: i32, flags: u32) {
        let outcome = self.ops.borrow_mut().complete(user_data, result, flags);
        match outcome {
            Outcome::Nothing => {}
            Outcome::Wake(waker) => waker.wake(),
            Outcome::Free(keep) => drop(keep),
            Outcome::CloseResult(keep) => {
                drop(keep);
                close_raw(result);
            }
            Outcome::Recv(core) => core.received(self, result, flags),
        }
    }

    fn arm_bell(&self) {
        if let Some(fd) = self.inbox.event_fd() {
            let poll = opcode::PollAdd::new(types::Fd(fd), libc::POLLIN as u32).multi(true).build();
            self.push(&poll.user_data(BELL));
            self.bell_armed.set(true);
        }
    }

    fn bell(&self, flags: u32) {
        if let Some(fd) = self.inbox.event_fd() {
            let mut count = 0u64;
            // SAFETY: reads eight bytes into a local variable; the descriptor does not block.
            let _ = unsafe { libc::read(fd, (&raw mut count).cast(), 8) };
        }
        if !cqueue::more(flags) {
            self.arm_bell();
        }
    }

    /// Ends another shard's sleep with the next submission.
    pub(crate) fn wake(&self, inbox: &Inbox) {
        let (Some(ring), Some(event)) = (inbox.ring(), inbox.event_fd()) else {
            inbox.ring_bell();
            return;
        };
        let message = opcode::MsgRingData::new(types::Fd(ring), 0, MESSAGE, None).build();
        let user_data = UNSENT << 32 | event as u64;
        self.push(&message.flags(squeue::Flags::SKIP_SUCCESS).user_data(user_data));
    }

    /// Starts a one-shot op; `keep` stays alive until it is over.
    fn submit(self: &Rc<Self>, keep: Keep, cancel: bool, entry: squeue::Entry) -> ops::Submitted {
        let user_data = self.ops.borrow_mut().insert(Op::one(keep));
        self.push(&entry.user_data(user_data));
        ops::Submitted::new(self.clone(), user_data, cancel)
    }

    /// Submits two ops of which the second begins when the first has succeeded in full.
    fn submit_linked(
        self: &Rc<Self>,
        first: (Keep, squeue::Entry),
        second: (Keep, squeue::Entry),
    ) -> (ops::Submitted, ops::Submitted) {
        let insert = |keep| self.ops.borrow_mut().insert(Op::one(keep));
        let (one, two) = (insert(first.0), insert(second.0));
        let entries = [first.1.flags(squeue::Flags::IO_LINK).user_data(one), second.1.user_data(two)];
        let mut ring = self.ring.borrow_mut();
        // Both in one submission: a chain ends with it.
        loop {
            // SAFETY: as in `push`.
            if unsafe { ring.submission().push_multiple(&entries) }.is_ok() {
                break;
            }
            match ring.submit() {
                Ok(_) => {}
                Err(error) if is_transient(&error) => self.collect(&mut ring),
                Err(error) => panic!("io_uring_enter failed: {error}"),
            }
        }
        let submitted = |user_data| ops::Submitted::new(self.clone(), user_data, false);
        (submitted(one), submitted(two))
    }

    fn cancel(&self, user_data: u64) {
        self.push(&opcode::AsyncCancel::new(user_data).build().user_data(IGNORED));
    }

    /// Cancels everything and waits for it, so that the kernel no longer knows this process's memory.
    /// Afterwards the ring serves no one.
    pub(crate) fn close(self: &Rc<Self>) {
        let all = opcode::AsyncCancel2::new(types::CancelBuilder::any()).build();
        self.push(&all.user_data(IGNORED));
        let until = self.ticks() + CLOSE_WAIT.as_nanos() as u64;
        while self.ops.borrow().in_flight() > 0 && self.ticks() < until {
            self.wait(Some(Duration::from_millis(20)));
        }
        self.inbox.set_ring(-1);
        if self.ops.borrow().in_flight() == 0 {
            self.buffers.release();
        }
    }
}

impl Drop for Uring {
    #[allow(clippy::mem_forget, reason = "memory that the kernel may still write into must outlive the ring")]
    fn drop(&mut self) {
        let ops = self.ops.take();
        if ops.in_flight() > 0 {
            // Not closed, or not in time: the kernel may still write into what these ops keep.
            std::mem::forget(ops);
        }
    }
}

fn is_transient(error: &io::Error) -> bool {
    let code = error.raw_os_error().unwrap_or(0);
    [libc::EINTR, libc::ETIME, libc::EBUSY, libc::EAGAIN].contains(&code)
}

fn accept_transient(result: io::Result<usize>) {
    if let Err(error) = result {
        assert!(is_transient(&error), "io_uring_enter failed: {error}");
    }
}

fn ring_bell(fd: i32) {
    let one = 1u64;
    // SAFETY: writes eight bytes from a local variable to an eventfd that lives as long as the node.
    let _ = unsafe { libc::write(fd, (&raw const one).cast(), 8) };
}

/// Kernel workers of this ring: few, and not tied to the shard's core, with which they would compete.
fn limit_workers(ring: &IoUring) {
    // SAFETY: a zeroed cpu_set_t is an empty set; CPU_SET writes inside it.
    let everywhere = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        for cpu in 0..libc::CPU_SETSIZE as usize {
            libc::CPU_SET(cpu, &mut set);
        }
        set
    };
    // Older kernels know neither; the defaults work too.
    let _ = ring.submitter().register_iowq_aff(&everywhere);
    let _ = ring.submitter().register_iowq_max_workers(&mut [8, 4]);
}
