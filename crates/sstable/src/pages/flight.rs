//! A read on its way: whoever wants one of its blocks waits for it, and nobody owns it.
//!
//! The read is a task of its own, so a reader that goes away takes nothing from the others. A read whose turn at the disk
//! has not come yet, and which nobody waits for any more, is given up. When it fails, the first who asks is told the
//! error; the others only learn that it failed, and read for themselves.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use crate::error::Error;
use crate::pages::blocks::Block;

/// A read of neighbouring blocks of one file.
pub(crate) struct Flight {
    first: u32,
    last: u32,
    state: RefCell<State>,
    /// One place for each landing that was ever polled.
    waiters: RefCell<Vec<Option<Waker>>>,
    wanted: Cell<usize>,
    /// Of the task, before its turn.
    pilot: RefCell<Option<Waker>>,
}

enum State {
    Flying,
    Landed(Vec<Block>),
    Failed(Option<Error>),
}

/// Why a landing has no block.
pub(crate) enum Failed {
    /// The error itself.
    Told(Error),
    /// Another was told.
    Elsewhere,
}

impl Flight {
    /// A read of the blocks from `first` to `last`, wanted by nobody yet.
    pub(crate) fn new(first: u32, last: u32) -> Rc<Flight> {
        assert!(first <= last, "a read has at least one block");
        Rc::new(Flight {
            first,
            last,
            state: RefCell::new(State::Flying),
            waiters: RefCell::default(),
            wanted: Cell::new(0),
            pilot: RefCell::default(),
        })
    }

    /// The blocks it brings.
    pub(crate) fn range(&self) -> std::ops::RangeInclusive<u32> {
        self.first..=self.last
    }

    /// Wants it, from now until the landing is dropped.
    pub(crate) fn land(self: &Rc<Self>) -> Landing {
        self.wanted.set(self.wanted.get() + 1);
        Landing { flight: self.clone(), place: Cell::new(None) }
    }

    /// The end of the read.
    pub(crate) fn finish(&self, result: Result<Vec<Block>, Error>) {
        *self.state.borrow_mut() = match result {
            Ok(blocks) => {
                assert!(blocks.len() as u32 == self.last - self.first + 1, "a read brings all its blocks");
                State::Landed(blocks)
            }
            Err(error) => State::Failed(Some(error)),
        };
        let waiters = self.waiters.take();
        waiters.into_iter().flatten().for_each(Waker::wake);
    }

    /// `turn`'s output, or `None` when nobody wants the read any more before.
    pub(crate) async fn unless_unwanted<T>(&self, turn: impl Future<Output = T>) -> Option<T> {
        let mut turn = std::pin::pin!(turn);
        let output = std::future::poll_fn(|context| {
            if let Poll::Ready(output) = turn.as_mut().poll(context) {
                return Poll::Ready(Some(output));
            }
            if self.wanted.get() == 0 {
                return Poll::Ready(None);
            }
            *self.pilot.borrow_mut() = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
        *self.pilot.borrow_mut() = None;
        output
    }
}

/// Somebody's interest in a read.
pub(crate) struct Landing {
    flight: Rc<Flight>,
    place: Cell<Option<usize>>,
}

impl Landing {
    /// The blocks it brings.
    pub(crate) fn range(&self) -> std::ops::RangeInclusive<u32> {
        self.flight.range()
    }

    /// Waits for one of the blocks.
    pub(crate) fn block(&self, index: u32) -> WaitFor<'_> {
        assert!(self.range().contains(&index), "the read brings the block");
        WaitFor { landing: self, index }
    }

    /// One of the blocks, if it is there.
    pub(crate) fn block_now(&self, index: u32) -> Option<Block> {
        match &*self.flight.state.borrow() {
            State::Landed(blocks) => blocks.get(index.checked_sub(self.flight.first)? as usize).cloned(),
            State::Flying | State::Failed(_) => None,
        }
    }
}

impl Drop for Landing {
    fn drop(&mut self) {
        if let Some(place) = self.place.get()
            && let Some(waiter) = self.flight.waiters.borrow_mut().get_mut(place)
        {
            *waiter = None;
        }
        self.flight.wanted.set(self.flight.wanted.get() - 1);
        if self.flight.wanted.get() == 0 {
            let pilot = self.flight.pilot.borrow_mut().take();
            pilot.into_iter().for_each(Waker::wake);
        }
    }
}

/// Waits for one block of a read.
pub(crate) struct WaitFor<'a> {
    landing: &'a Landing,
    index: u32,
}

impl Future for WaitFor<'_> {
    type Output = Result<Block, Failed>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Landing { flight, place } = self.landing;
        match &mut *flight.state.borrow_mut() {
            State::Landed(blocks) => Poll::Ready(Ok(blocks[(self.index - flight.first) as usize].clone())),
            State::Failed(error) => Poll::Ready(Err(error.take().map_or(Failed::Elsewhere, Failed::Told))),
            State::Flying => {
                let mut waiters = flight.waiters.borrow_mut();
                match place.get() {
                    Some(place) => waiters[place] = Some(context.waker().clone()),
                    None => {
                        place.set(Some(waiters.len()));
                        waiters.push(Some(context.waker().clone()));
                    }
                }
                Poll::Pending
            }
        }
    }
}
