//! Counting permits, first come first served.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// A number of permits that tasks take and give back. A large request is not overtaken by small ones.
#[derive(Clone)]
pub struct Semaphore(Rc<Inner>);

struct Inner {
    available: Cell<usize>,
    total: Cell<usize>,
    queue: RefCell<VecDeque<Rc<Waiter>>>,
}

struct Waiter {
    count: usize,
    waker: RefCell<Waker>,
    granted: Cell<bool>,
    gone: Cell<bool>,
}

/// Permits held; given back on drop.
pub struct Permit {
    semaphore: Rc<Inner>,
    count: usize,
}

impl Semaphore {
    /// A semaphore with this many permits.
    pub fn new(permits: usize) -> Semaphore {
        Semaphore(Rc::new(Inner {
            available: Cell::new(permits),
            total: Cell::new(permits),
            queue: RefCell::default(),
        }))
    }

    /// Waits for `count` permits. A request above the total waits for all of them.
    pub fn acquire(&self, count: usize) -> Acquire {
        Acquire { semaphore: self.0.clone(), count: count.min(self.0.total.get()), waiter: None }
    }

    /// Takes `count` permits if they are free and nobody waits.
    pub fn try_acquire(&self, count: usize) -> Option<Permit> {
        let count = count.min(self.0.total.get());
        self.0.take(count).then(|| Permit { semaphore: self.0.clone(), count })
    }

    /// Permits free now.
    pub fn available(&self) -> usize {
        self.0.available.get()
    }

    /// Tasks waiting now.
    pub fn waiting(&self) -> usize {
        self.0.queue.borrow().iter().filter(|w| !w.gone.get()).count()
    }
}

impl Inner {
    fn take(&self, count: usize) -> bool {
        if !self.queue.borrow().is_empty() || self.available.get() < count {
            return false;
        }
        self.available.set(self.available.get() - count);
        true
    }

    fn release(&self, count: usize) {
        self.available.set(self.available.get() + count);
        self.grant();
    }

    fn grant(&self) {
        let mut queue = self.queue.borrow_mut();
        while let Some(first) = queue.front() {
            if first.gone.get() {
                queue.pop_front();
                continue;
            }
            if self.available.get() < first.count {
                return;
            }
            self.available.set(self.available.get() - first.count);
            first.granted.set(true);
            first.waker.borrow().wake_by_ref();
            queue.pop_front();
        }
    }
}

impl Permit {
    /// How many permits this holds.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Joins two holdings of the same semaphore.
    pub fn merge(&mut self, mut other: Permit) {
        assert!(Rc::ptr_eq(&self.semaphore, &other.semaphore), "permits of one semaphore");
        self.count += std::mem::take(&mut other.count);
    }

    /// Gives part of the permits back early.
    pub fn release(&mut self, count: usize) {
        let count = count.min(self.count);
        self.count -= count;
        self.semaphore.release(count);
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.semaphore.release(self.count);
    }
}

/// Waits for permits; dropping it gives up.
pub struct Acquire {
    semaphore: Rc<Inner>,
    count: usize,
    waiter: Option<Rc<Waiter>>,
}

impl Future for Acquire {
    type Output = Permit;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Permit> {
        let count = self.count;
        match &self.waiter {
            None if self.semaphore.take(count) => {}
            None => {
                let waiter = Rc::new(Waiter {
                    count,
                    waker: RefCell::new(context.waker().clone()),
                    granted: Cell::new(false),
                    gone: Cell::new(false),
                });
                self.semaphore.queue.borrow_mut().push_back(waiter.clone());
                self.waiter = Some(waiter);
                return Poll::Pending;
            }
            Some(waiter) if waiter.granted.get() => self.waiter = None,
            Some(waiter) => {
                waiter.waker.borrow_mut().clone_from(context.waker());
                return Poll::Pending;
            }
        }
        Poll::Ready(Permit { semaphore: self.semaphore.clone(), count })
    }
}

impl Drop for Acquire {
    fn drop(&mut self) {
        let Some(waiter) = self.waiter.take() else {
            return;
        };
        if waiter.granted.get() {
            self.semaphore.release(waiter.count);
        } else {
            waiter.gone.set(true);
            self.semaphore.grant();
        }
    }
}
