//! A bounded queue between tasks of one shard.

use super::waiters::Waiters;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

/// A bounded first-in first-out queue; many may push and pop.
pub struct Queue<T>(Rc<Inner<T>>);

struct Inner<T> {
    items: RefCell<VecDeque<T>>,
    capacity: usize,
    closed: Cell<bool>,
    not_empty: Waiters,
    not_full: Waiters,
}

/// The queue was closed; the item comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueClosed<T>(pub T);

impl<T> Clone for Queue<T> {
    fn clone(&self) -> Self {
        Queue(self.0.clone())
    }
}

impl<T> Queue<T> {
    /// A queue with room for this many items, at least one.
    pub fn new(capacity: usize) -> Queue<T> {
        Queue(Rc::new(Inner {
            items: RefCell::default(),
            capacity: capacity.max(1),
            closed: Cell::new(false),
            not_empty: Waiters::default(),
            not_full: Waiters::default(),
        }))
    }

    /// Adds an item, waiting for room.
    pub async fn push(&self, item: T) -> Result<(), QueueClosed<T>> {
        while !self.0.closed.get() && self.is_full() {
            self.0.not_full.wait().await;
        }
        self.try_push(item)
    }

    /// Adds an item if there is room; gives it back when the queue is full or closed.
    pub fn try_push(&self, item: T) -> Result<(), QueueClosed<T>> {
        if self.0.closed.get() || self.is_full() {
            return Err(QueueClosed(item));
        }
        self.0.items.borrow_mut().push_back(item);
        self.0.not_empty.wake_one();
        Ok(())
    }

    /// Takes the oldest item, waiting for one. `None` when the queue is closed and empty.
    pub async fn pop(&self) -> Option<T> {
        loop {
            if let Some(item) = self.try_pop() {
                return Some(item);
            }
            if self.0.closed.get() {
                return None;
            }
            self.0.not_empty.wait().await;
        }
    }

    /// Takes the oldest item if there is one.
    pub fn try_pop(&self) -> Option<T> {
        let item = self.0.items.borrow_mut().pop_front()?;
        self.0.not_full.wake_one();
        Some(item)
    }

    /// Refuses further items and wakes everybody; items inside can still be taken.
    pub fn close(&self) {
        self.0.closed.set(true);
        self.0.not_empty.wake_all();
        self.0.not_full.wake_all();
    }

    /// Has `close` been called?
    pub fn is_closed(&self) -> bool {
        self.0.closed.get()
    }

    /// Items inside.
    pub fn len(&self) -> usize {
        self.0.items.borrow().len()
    }

    /// Is nothing inside?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Is there no room?
    pub fn is_full(&self) -> bool {
        self.len() >= self.0.capacity
    }
}
