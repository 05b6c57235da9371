//! The newest version of a value, shared by many readers.

use super::waiters::Waiters;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// A value that is replaced as a whole; readers keep the version they took, or wait for the next.
pub struct Watch<T>(Rc<Inner<T>>);

struct Inner<T> {
    value: RefCell<Rc<T>>,
    version: Cell<u64>,
    waiters: Waiters,
}

impl<T> Clone for Watch<T> {
    fn clone(&self) -> Self {
        Watch(self.0.clone())
    }
}

impl<T> Watch<T> {
    /// Starts with a first version, numbered 0.
    pub fn new(value: T) -> Watch<T> {
        Watch(Rc::new(Inner {
            value: RefCell::new(Rc::new(value)),
            version: Cell::new(0),
            waiters: Waiters::default(),
        }))
    }

    /// The newest version.
    pub fn get(&self) -> Rc<T> {
        self.0.value.borrow().clone()
    }

    /// Its number.
    pub fn version(&self) -> u64 {
        self.0.version.get()
    }

    /// Replaces the value and wakes all who wait.
    pub fn set(&self, value: T) {
        let old = self.0.value.replace(Rc::new(value));
        drop(old);
        self.0.version.set(self.0.version.get() + 1);
        self.0.waiters.wake_all();
    }

    /// Waits until there is a version newer than this number.
    pub async fn newer_than(&self, version: u64) -> Rc<T> {
        while self.version() <= version {
            self.0.waiters.wait_any().await;
        }
        self.get()
    }
}
