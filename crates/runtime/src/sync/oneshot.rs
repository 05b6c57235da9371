//! One value from one task to another.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

struct Inner<T> {
    value: Option<T>,
    waker: Option<Waker>,
    sender_gone: bool,
    receiver_gone: bool,
}

/// The giving end.
pub struct Sender<T>(Rc<RefCell<Inner<T>>>);

/// The taking end: a future.
pub struct Receiver<T>(Rc<RefCell<Inner<T>>>);

/// The sender was dropped without a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed;

impl std::fmt::Display for Closed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("sender is gone")
    }
}

impl std::error::Error for Closed {}

/// Both ends of a new channel.
pub fn channel<T>() -> (Sender<T>, Receiver<T>) {
    let inner =
        Rc::new(RefCell::new(Inner { value: None, waker: None, sender_gone: false, receiver_gone: false }));
    (Sender(inner.clone()), Receiver(inner))
}

impl<T> Sender<T> {
    /// Gives the value; gives it back when the receiver is gone.
    pub fn send(self, value: T) -> Result<(), T> {
        let mut inner = self.0.borrow_mut();
        if inner.receiver_gone {
            return Err(value);
        }
        inner.value = Some(value);
        Ok(())
    }

    /// Has the receiver been dropped?
    pub fn is_closed(&self) -> bool {
        self.0.borrow().receiver_gone
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let mut inner = self.0.borrow_mut();
        inner.sender_gone = true;
        let waker = inner.waker.take();
        drop(inner);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        self.0.borrow_mut().receiver_gone = true;
    }
}

impl<T> Future for Receiver<T> {
    type Output = Result<T, Closed>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut inner = self.0.borrow_mut();
        if let Some(value) = inner.value.take() {
            return Poll::Ready(Ok(value));
        }
        if inner.sender_gone {
            return Poll::Ready(Err(Closed));
        }
        inner.waker = Some(context.waker().clone());
        Poll::Pending
    }
}
