//! The backend for machines where io_uring is refused, as in many containers: epoll for sockets, helper threads for
//! files.
//!
//! Descriptors are registered once, edge triggered, with their slot and its sequence number. A source remembers what it
//! was told (readable, writable) until a system call says that it would block.

/// Sockets.
mod sockets;

pub(crate) use sockets::{EpollListener, EpollStream};

use crate::backend::folders::Folders;
use crate::clock::Ticks;
use crate::inbox::Inbox;
use crate::offload::OffloadPool;
use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

/// Events taken from the kernel at once.
const EVENTS: usize = 256;
/// Token of the shard's eventfd.
const BELL: u64 = u64::MAX;

/// One registered descriptor.
pub(super) struct Source {
    fd: OwnedFd,
    token: Cell<Option<u64>>,
    readable: Cell<bool>,
    writable: Cell<bool>,
    reader: RefCell<Option<Waker>>,
    writer: RefCell<Option<Waker>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    Read,
    Write,
}

impl Source {
    fn new(fd: OwnedFd) -> Rc<Source> {
        Rc::new(Source {
            fd,
            token: Cell::new(None),
            readable: Cell::new(true),
            writable: Cell::new(true),
            reader: RefCell::default(),
            writer: RefCell::default(),
        })
    }

    fn is_ready(&self, direction: Direction) -> bool {
        match direction {
            Direction::Read => self.readable.get(),
            Direction::Write => self.writable.get(),
        }
    }

    /// A call would have blocked: the next event says when to try again.
    fn blocked(&self, direction: Direction) {
        match direction {
            Direction::Read => self.readable.set(false),
            Direction::Write => self.writable.set(false),
        }
    }

    fn leave_waker(&self, direction: Direction, context: &Context<'_>) {
        let place = match direction {
            Direction::Read => &self.reader,
            Direction::Write => &self.writer,
        };
        match &mut *place.borrow_mut() {
            Some(waker) => waker.clone_from(context.waker()),
            empty => *empty = Some(context.waker().clone()),
        }
    }

    fn happened(&self, events: u32) {
        let broken = (libc::EPOLLERR | libc::EPOLLHUP) as u32;
        if events & (libc::EPOLLIN as u32 | libc::EPOLLRDHUP as u32 | broken) != 0 {
            self.readable.set(true);
            let waker = self.reader.borrow_mut().take();
            waker.into_iter().for_each(Waker::wake);
        }
        if events & (libc::EPOLLOUT as u32 | broken) != 0 {
            self.writable.set(true);
            let waker = self.writer.borrow_mut().take();
            waker.into_iter().for_each(Waker::wake);
        }
    }
}

struct Sources {
    slots: Vec<(u32, Weak<Source>)>,
    vacant: Vec<u32>,
}

pub(crate) struct Epoll {
    fd: OwnedFd,
    pub(crate) folders: Folders,
    sources: RefCell<Sources>,
    ticks: Ticks,
    inbox: Arc<Inbox>,
    /// Receives go here first, so that a waiting connection holds no memory.
    scratch: RefCell<Vec<u8>>,
    /// What happened goes here: clearing it at every wait would cost more than the wait.
    events: RefCell<Box<[libc::epoll_event; EVENTS]>>,
    /// The kernel takes waiting times in nanoseconds.
    precise: Cell<bool>,
}

impl Epoll {
    pub(crate) fn new(inbox: Arc<Inbox>, offload: Arc<OffloadPool>) -> io::Result<Rc<Epoll>> {
        // SAFETY: plain system call without pointers.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: just created.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let epoll = Epoll {
            fd,
            folders: Folders { offload },
            sources: RefCell::new(Sources { slots: Vec::new(), vacant: Vec::new() }),
            ticks: Ticks::new(),
            inbox,
            scratch: RefCell::default(),
            events: RefCell::new(Box::new([libc::epoll_event { events: 0, u64: 0 }; EVENTS])),
            precise: Cell::new(true),
        };
        if let Some(bell) = epoll.inbox.event_fd() {
            epoll.control(libc::EPOLL_CTL_ADD, bell, libc::EPOLLIN as u32, BELL)?;
        }
        Ok(Rc::new(epoll))
    }

    #[inline]
    pub(crate) fn ticks(&self) -> u64 {
        self.ticks.now()
    }

    fn control(&self, operation: i32, fd: i32, events: u32, token: u64) -> io::Result<()> {
        let mut event = libc::epoll_event { events, u64: token };
        // SAFETY: the event is a live local variable.
        let result = unsafe { libc::epoll_ctl(self.fd.as_raw_fd(), operation, fd, &mut event) };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Registers a source, once.
    fn register(&self, source: &Rc<Source>) -> io::Result<()> {
        if source.token.get().is_some() {
            return Ok(());
        }
        let token = {
            let mut sources = self.sources.borrow_mut();
            match sources.vacant.pop() {
                Some(index) => {
                    let slot = &mut sources.slots[index as usize];
                    slot.0 = slot.0.wrapping_add(1) & 0x7fff_ffff;
                    slot.1 = Rc::downgrade(source);
                    u64::from(slot.0) << 32 | u64::from(index)
                }
                None => {
                    sources.slots.push((0, Rc::downgrade(source)));
                    sources.slots.len() as u64 - 1
                }
            }
        };
        source.token.set(Some(token));
        let events = libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLRDHUP | libc::EPOLLET;
        self.control(libc::EPOLL_CTL_ADD, source.fd.as_raw_fd(), events as u32, token)
    }

    fn forget(&self, source: &Source) {
        let Some(token) = source.token.take() else { return };
        // The descriptor is still open here; an error would mean that the kernel forgot it first.
        let _ = self.control(libc::EPOLL_CTL_DEL, source.fd.as_raw_fd(), 0, 0);
        let mut sources = self.sources.borrow_mut();
        let index = token as u32;
        sources.slots[index as usize].1 = Weak::new();
        sources.vacant.push(index);
    }

    /// Handles what is ready without waiting.
    pub(crate) fn poll(&self) {
        self.wait(Some(Duration::ZERO));
    }

    /// Sleeps until something is ready or the time is over.
    pub(crate) fn wait(&self, limit: Option<Duration>) {
        let mut events = self.events.borrow_mut();
        let count = self.wait_for(&mut events, limit);
        for event in &events[..usize::try_from(count).unwrap_or(0)] {
            let (token, events) = (event.u64, event.events);
            if token == BELL {
                self.answer_bell();
                continue;
            }
            let source = {
                let sources = self.sources.borrow();
                let slot = sources.slots.get(token as u32 as usize);
                slot.filter(|slot| u64::from(slot.0) == token >> 32).and_then(|slot| slot.1.upgrade())
            };
            if let Some(source) = source {
                source.happened(events);
            }
        }
    }

    fn wait_for(&self, events: &mut [libc::epoll_event; EVENTS], limit: Option<Duration>) -> i64 {
        let (epoll, place) = (self.fd.as_raw_fd(), events.as_mut_ptr());
        if self.precise.get() {
            let time = limit.map(|l| libc::timespec {
                tv_sec: l.as_secs() as libc::time_t,
                tv_nsec: l.subsec_nanos().into(),
            });
            let time = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
            let no_mask = std::ptr::null::<libc::sigset_t>();
            // SAFETY: the array has room for `EVENTS` events; the time lives until the end of the block.
            let count = unsafe {
                libc::syscall(libc::SYS_epoll_pwait2, epoll, place, EVENTS as i32, time, no_mask, 0)
            };
            let code = io::Error::last_os_error().raw_os_error();
            // Unknown to this kernel, or kept from us by the container.
            if 0 <= count || ![Some(libc::ENOSYS), Some(libc::EPERM)].contains(&code) {
                return count;
            }
            self.precise.set(false);
        }
        // Rounded up: a timer must not find that it is still early and spin.
        let ms = limit.map_or(-1, |l| i32::try_from(l.as_nanos().div_ceil(1_000_000)).unwrap_or(i32::MAX));
        // SAFETY: the array has room for `EVENTS` events.
        i64::from(unsafe { libc::epoll_wait(epoll, place, EVENTS as i32, ms) })
    }

    fn answer_bell(&self) {
        if let Some(fd) = self.inbox.event_fd() {
            let mut count = 0u64;
            // SAFETY: reads eight bytes into a local variable; the descriptor does not block.
            let _ = unsafe { libc::read(fd, (&raw mut count).cast(), 8) };
        }
    }
}
