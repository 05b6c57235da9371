//! The op slab: what the kernel works on, until its final completion.

use super::Uring;
use super::sockets::StreamCore;
use crate::backend::folders::FileFd;
use crate::backend::socket::close_raw;
use crate::buffer::AlignedBuf;
use io_uring::cqueue;
use std::ffi::CString;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// What an op names and therefore keeps alive. Moving a value of this type does not move the bytes it owns.
pub(super) enum Keep {
    File {
        _fd: Rc<FileFd>,
    },
    FileBuffer {
        _fd: Rc<FileFd>,
        buffer: AlignedBuf,
    },
    Path {
        _path: CString,
    },
    Socket {
        _core: Rc<StreamCore>,
        bytes: Vec<u8>,
    },
    Listener {
        _fd: Rc<std::os::fd::OwnedFd>,
    },
    /// The address is only read by the kernel.
    Address {
        _fd: Rc<std::os::fd::OwnedFd>,
        _address: Box<libc::sockaddr_storage>,
    },
}

pub(super) enum Op {
    Vacant { next: u32 },
    One(One),
    Recv(Rc<StreamCore>),
}

pub(super) struct One {
    waker: Option<Waker>,
    result: Option<i32>,
    abandoned: bool,
    keep: Keep,
}

impl Op {
    pub(super) fn one(keep: Keep) -> Op {
        Op::One(One { waker: None, result: None, abandoned: false, keep })
    }
}

/// What to do after a completion, outside the borrow of the slab.
pub(super) enum Outcome {
    Nothing,
    Wake(Waker),
    Free(Keep),
    /// The result is a descriptor that nobody will take.
    CloseResult(Keep),
    Recv(Rc<StreamCore>),
}

const NONE: u32 = u32::MAX;
/// Sequence numbers stay below the special values of `user_data`.
const SEQUENCES: u32 = 0x7fff_ffff;

struct Slot {
    sequence: u32,
    op: Op,
}

pub(super) struct Ops {
    slots: Vec<Slot>,
    vacant: u32,
    sequence: u32,
    occupied: usize,
}

impl Default for Ops {
    fn default() -> Self {
        Ops { slots: Vec::new(), vacant: NONE, sequence: 0, occupied: 0 }
    }
}

impl Ops {
    /// Slots whose op the kernel may still work on, or whose result nobody took yet.
    pub(super) fn in_flight(&self) -> usize {
        self.occupied
    }

    /// Takes a slot and returns its `user_data`.
    pub(super) fn insert(&mut self, op: Op) -> u64 {
        self.occupied += 1;
        self.sequence = (self.sequence + 1) % SEQUENCES;
        let slot = Slot { sequence: self.sequence, op };
        let index = self.vacant;
        let index = if index == NONE {
            self.slots.push(slot);
            self.slots.len() as u32 - 1
        } else {
            let old = std::mem::replace(&mut self.slots[index as usize], slot);
            let Op::Vacant { next } = old.op else { unreachable!("the vacant list holds vacant slots") };
            self.vacant = next;
            index
        };
        u64::from(self.sequence) << 32 | u64::from(index)
    }

    fn slot(&mut self, user_data: u64) -> Option<&mut Slot> {
        let slot = self.slots.get_mut(user_data as u32 as usize)?;
        (u64::from(slot.sequence) == user_data >> 32).then_some(slot)
    }

    fn remove(&mut self, user_data: u64) -> Op {
        self.occupied -= 1;
        let index = user_data as u32;
        let next = std::mem::replace(&mut self.vacant, index);
        let slot = &mut self.slots[index as usize];
        slot.sequence = u32::MAX;
        std::mem::replace(&mut slot.op, Op::Vacant { next })
    }

    /// Notes a completion.
    pub(super) fn complete(&mut self, user_data: u64, result: i32, flags: u32) -> Outcome {
        let Some(slot) = self.slot(user_data) else {
            return Outcome::Nothing;
        };
        match &mut slot.op {
            Op::One(one) if one.abandoned => {
                let Op::One(one) = self.remove(user_data) else { unreachable!("matched above") };
                // Only opening a file returns a descriptor from a one-shot op.
                match one.keep {
                    Keep::Path { .. } if 0 <= result => Outcome::CloseResult(one.keep),
                    keep => Outcome::Free(keep),
                }
            }
            Op::One(one) => {
                one.result = Some(result);
                one.waker.take().map_or(Outcome::Nothing, Outcome::Wake)
            }
            Op::Recv(core) => {
                let core = core.clone();
                if !cqueue::more(flags) {
                    self.remove(user_data);
                }
                Outcome::Recv(core)
            }
            Op::Vacant { .. } => Outcome::Nothing,
        }
    }
}

/// The future of a one-shot op: the result as the kernel gave it, and what was kept.
pub(super) struct Submitted {
    uring: Rc<Uring>,
    user_data: u64,
    cancel: bool,
    done: bool,
}

impl Submitted {
    pub(super) fn new(uring: Rc<Uring>, user_data: u64, cancel: bool) -> Submitted {
        Submitted { uring, user_data, cancel, done: false }
    }
}

impl Future for Submitted {
    type Output = (i32, Keep);

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<(i32, Keep)> {
        let user_data = self.user_data;
        let op = {
            let mut ops = self.uring.ops.borrow_mut();
            let Some(Slot { op: Op::One(one), .. }) = ops.slot(user_data) else {
                unreachable!("the future owns its slot until it took the result")
            };
            if one.result.is_none() {
                match &mut one.waker {
                    Some(waker) => waker.clone_from(context.waker()),
                    empty => *empty = Some(context.waker().clone()),
                }
                return Poll::Pending;
            }
            ops.remove(user_data)
        };
        self.done = true;
        let Op::One(One { result: Some(result), keep, .. }) = op else { unreachable!("looked above") };
        Poll::Ready((result, keep))
    }
}

impl Drop for Submitted {
    fn drop(&mut self) {
        if self.done {
            return;
        }
        let mut ops = self.uring.ops.borrow_mut();
        let Some(Slot { op: Op::One(one), .. }) = ops.slot(self.user_data) else {
            return;
        };
        if let Some(result) = one.result {
            let removed = ops.remove(self.user_data);
            drop(ops);
            if let Op::One(One { keep: Keep::Path { .. }, .. }) = removed {
                close_raw(result);
            }
            return;
        }
        one.abandoned = true;
        one.waker = None;
        drop(ops);
        if self.cancel {
            self.uring.cancel(self.user_data);
        }
    }
}
