//! A first-in first-out list of waiting tasks. A waiter that was chosen but dropped before it ran passes its turn on.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

struct Waiter {
    waker: RefCell<Waker>,
    chosen: Cell<bool>,
    gone: Cell<bool>,
}

#[derive(Default)]
pub(crate) struct Waiters {
    queue: RefCell<VecDeque<Rc<Waiter>>>,
}

impl Waiters {
    /// Chooses the longest waiting task and wakes it. False when nobody waits.
    pub(crate) fn wake_one(&self) -> bool {
        loop {
            let Some(waiter) = self.queue.borrow_mut().pop_front() else {
                return false;
            };
            if !waiter.gone.get() {
                waiter.chosen.set(true);
                waiter.waker.borrow().wake_by_ref();
                return true;
            }
        }
    }

    /// Wakes all that wait now.
    pub(crate) fn wake_all(&self) {
        let waiting = std::mem::take(&mut *self.queue.borrow_mut());
        for waiter in waiting {
            waiter.chosen.set(true);
            waiter.waker.borrow().wake_by_ref();
        }
    }

    /// Joins the list at its first poll and resolves when chosen.
    pub(crate) fn wait(&self) -> Wait<'_> {
        Wait { waiters: self, waiter: None, pass_on: true }
    }

    /// Like [`wait`](Waiters::wait), for uses where a lost turn does not matter.
    pub(crate) fn wait_any(&self) -> Wait<'_> {
        Wait { waiters: self, waiter: None, pass_on: false }
    }
}

pub(crate) struct Wait<'a> {
    waiters: &'a Waiters,
    waiter: Option<Rc<Waiter>>,
    pass_on: bool,
}

impl Future for Wait<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        match &self.waiter {
            Some(waiter) if waiter.chosen.get() => {
                self.waiter = None;
                return Poll::Ready(());
            }
            Some(waiter) => waiter.waker.borrow_mut().clone_from(context.waker()),
            None => {
                let waiter = Rc::new(Waiter {
                    waker: RefCell::new(context.waker().clone()),
                    chosen: Cell::new(false),
                    gone: Cell::new(false),
                });
                self.waiters.queue.borrow_mut().push_back(waiter.clone());
                self.waiter = Some(waiter);
            }
        }
        Poll::Pending
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        let Some(waiter) = &self.waiter else { return };
        if waiter.chosen.get() {
            if self.pass_on {
                self.waiters.wake_one();
            }
            return;
        }
        waiter.gone.set(true);
        // Keep the list short when many waiters give up before their turn.
        let mut queue = self.waiters.queue.borrow_mut();
        while queue.back().is_some_and(|w| w.gone.get()) {
            queue.pop_back();
        }
        while queue.front().is_some_and(|w| w.gone.get()) {
            queue.pop_front();
        }
    }
}
