//! Edge-triggered notification.

use super::waiters::Waiters;
use std::cell::Cell;
use std::rc::Rc;

/// Tells waiting tasks that something happened. `notify` without a waiter is remembered once.
#[derive(Clone, Default)]
pub struct Event(Rc<Inner>);

#[derive(Default)]
struct Inner {
    stored: Cell<bool>,
    waiters: Waiters,
}

impl Event {
    /// A new event, not notified.
    pub fn new() -> Event {
        Event::default()
    }

    /// Wakes one waiter; without one, the next `wait` returns at once.
    pub fn notify(&self) {
        if !self.0.waiters.wake_one() {
            self.0.stored.set(true);
        }
    }

    /// Wakes every task that waits now; remembers nothing.
    pub fn notify_all(&self) {
        self.0.waiters.wake_all();
    }

    /// Wakes every task that waits now; without one, the next `wait` returns at once. For things that several look at, each
    /// for something else.
    pub fn notify_each(&self) {
        let mut any = false;
        while self.0.waiters.wake_one() {
            any = true;
        }
        if !any {
            self.0.stored.set(true);
        }
    }

    /// Waits for a notification.
    pub async fn wait(&self) {
        if !self.0.stored.replace(false) {
            self.0.waiters.wait().await;
        }
    }
}
