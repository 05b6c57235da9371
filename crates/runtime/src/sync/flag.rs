//! Level-triggered condition.

use super::waiters::Waiters;
use std::cell::Cell;
use std::rc::Rc;

/// A condition that tasks wait for: once set, every present and later wait returns, until it is cleared.
#[derive(Clone, Default)]
pub struct Flag(Rc<Inner>);

#[derive(Default)]
struct Inner {
    set: Cell<bool>,
    waiters: Waiters,
}

impl Flag {
    /// A new flag, not set.
    pub fn new() -> Flag {
        Flag::default()
    }

    /// Sets the flag and wakes all.
    pub fn set(&self) {
        self.0.set.set(true);
        self.0.waiters.wake_all();
    }

    /// Clears the flag.
    pub fn clear(&self) {
        self.0.set.set(false);
    }

    /// Is it set?
    pub fn is_set(&self) -> bool {
        self.0.set.get()
    }

    /// Waits until the flag has been set.
    pub async fn wait(&self) {
        if !self.is_set() {
            self.0.waiters.wait_any().await;
        }
    }
}
