//! Exclusive use of a value across awaits.

use super::semaphore::{Permit, Semaphore};
use std::cell::{RefCell, RefMut};
use std::ops::{Deref, DerefMut};
use std::rc::Rc;

/// A value that one task at a time may use, even while it waits.
pub struct Lock<T>(Rc<Inner<T>>);

struct Inner<T> {
    turn: Semaphore,
    value: RefCell<T>,
}

/// Exclusive use; ends on drop.
pub struct LockGuard<'a, T> {
    value: RefMut<'a, T>,
    _turn: Permit,
}

impl<T> Clone for Lock<T> {
    fn clone(&self) -> Self {
        Lock(self.0.clone())
    }
}

impl<T> Lock<T> {
    /// A free lock around a value.
    pub fn new(value: T) -> Lock<T> {
        Lock(Rc::new(Inner { turn: Semaphore::new(1), value: RefCell::new(value) }))
    }

    /// Waits for its turn, first come first served.
    pub async fn lock(&self) -> LockGuard<'_, T> {
        let turn = self.0.turn.acquire(1).await;
        LockGuard { value: self.0.value.borrow_mut(), _turn: turn }
    }

    /// The value, when nobody uses it or waits for it.
    pub fn try_lock(&self) -> Option<LockGuard<'_, T>> {
        let turn = self.0.turn.try_acquire(1)?;
        Some(LockGuard { value: self.0.value.borrow_mut(), _turn: turn })
    }
}

impl<T> Deref for LockGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for LockGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}
