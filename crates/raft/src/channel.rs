//! The channels and the lock that openraft asks of its runtime, for one thread: `Rc`, `RefCell`, no atomics.
//!
//! No borrow is held while foreign code runs, and wakers are called after the state is consistent.

use std::cell::{Ref, RefCell, RefMut};
use std::collections::VecDeque;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, Waker};

use openraft::OptionalSend;
use openraft::async_runtime::{Mpsc, MpscReceiver, MpscSender, MpscWeakSender, SendError, TryRecvError};
use openraft::async_runtime::{Oneshot, OneshotSender, mutex, watch};

fn wake_all(wakers: Vec<Waker>) {
    wakers.into_iter().for_each(Waker::wake);
}

// ---- oneshot -----------------------------------------------------------------------------------------------------

struct Cell1<T> {
    value: Option<T>,
    waker: Option<Waker>,
    sender: bool,
    receiver: bool,
}

/// Oneshot channels of one thread.
pub struct LocalOneshot;

/// The sending half; dropping it without a value is an error for the receiver.
pub struct OnceSender<T>(Rc<RefCell<Cell1<T>>>);

/// The receiving half.
pub struct OnceReceiver<T>(Rc<RefCell<Cell1<T>>>);

/// The sender was dropped without a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dropped;

impl fmt::Display for Dropped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("sender dropped without a value")
    }
}

impl std::error::Error for Dropped {}

impl Oneshot for LocalOneshot {
    type Sender<T: OptionalSend> = OnceSender<T>;
    type Receiver<T: OptionalSend> = OnceReceiver<T>;
    type ReceiverError = Dropped;

    fn channel<T: OptionalSend>() -> (OnceSender<T>, OnceReceiver<T>) {
        let cell = Rc::new(RefCell::new(Cell1 { value: None, waker: None, sender: true, receiver: true }));
        (OnceSender(cell.clone()), OnceReceiver(cell))
    }
}

impl<T: OptionalSend> OneshotSender<T> for OnceSender<T> {
    fn send(self, value: T) -> Result<(), T> {
        let mut cell = self.0.borrow_mut();
        if !cell.receiver {
            return Err(value);
        }
        cell.value = Some(value);
        Ok(())
    }
}

impl<T> Drop for OnceSender<T> {
    fn drop(&mut self) {
        let mut cell = self.0.borrow_mut();
        cell.sender = false;
        let waker = cell.waker.take();
        drop(cell);
        wake_all(waker.into_iter().collect());
    }
}

impl<T> Drop for OnceReceiver<T> {
    fn drop(&mut self) {
        let mut cell = self.0.borrow_mut();
        cell.receiver = false;
        let value = cell.value.take();
        drop(cell);
        drop(value);
    }
}

impl<T> Future for OnceReceiver<T> {
    type Output = Result<T, Dropped>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut cell = self.0.borrow_mut();
        match cell.value.take() {
            Some(value) => Poll::Ready(Ok(value)),
            None if !cell.sender => Poll::Ready(Err(Dropped)),
            None => {
                cell.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

// ---- mpsc --------------------------------------------------------------------------------------------------------

struct Pipe<T> {
    queue: VecDeque<T>,
    capacity: usize,
    senders: usize,
    receiver: bool,
    reader: Option<Waker>,
    writers: Vec<Waker>,
}

/// Bounded many-to-one channels of one thread.
pub struct LocalMpsc;

/// A sending half; the channel ends when the last one is dropped.
pub struct PipeSender<T>(Rc<RefCell<Pipe<T>>>);

/// The receiving half.
pub struct PipeReceiver<T>(Rc<RefCell<Pipe<T>>>);

/// A sending half that does not keep the channel open.
pub struct PipeWeakSender<T>(Weak<RefCell<Pipe<T>>>);

impl Mpsc for LocalMpsc {
    type Sender<T: OptionalSend> = PipeSender<T>;
    type Receiver<T: OptionalSend> = PipeReceiver<T>;
    type WeakSender<T: OptionalSend> = PipeWeakSender<T>;

    fn channel<T: OptionalSend>(buffer: usize) -> (PipeSender<T>, PipeReceiver<T>) {
        let pipe = Rc::new(RefCell::new(Pipe {
            queue: VecDeque::new(),
            capacity: buffer.max(1),
            senders: 1,
            receiver: true,
            reader: None,
            writers: Vec::new(),
        }));
        (PipeSender(pipe.clone()), PipeReceiver(pipe))
    }
}

impl<T> Clone for PipeSender<T> {
    fn clone(&self) -> Self {
        self.0.borrow_mut().senders += 1;
        PipeSender(self.0.clone())
    }
}

impl<T> Drop for PipeSender<T> {
    fn drop(&mut self) {
        let mut pipe = self.0.borrow_mut();
        pipe.senders -= 1;
        let waker = if pipe.senders == 0 { pipe.reader.take() } else { None };
        drop(pipe);
        wake_all(waker.into_iter().collect());
    }
}

impl<T> Drop for PipeReceiver<T> {
    fn drop(&mut self) {
        let mut pipe = self.0.borrow_mut();
        pipe.receiver = false;
        let (queue, writers) = (std::mem::take(&mut pipe.queue), std::mem::take(&mut pipe.writers));
        drop(pipe);
        drop(queue);
        wake_all(writers);
    }
}

impl<T> Clone for PipeWeakSender<T> {
    fn clone(&self) -> Self {
        PipeWeakSender(self.0.clone())
    }
}

impl<T: OptionalSend> MpscSender<LocalMpsc, T> for PipeSender<T> {
    async fn send(&self, message: T) -> Result<(), SendError<T>> {
        let mut message = Some(message);
        poll_fn(|cx| {
            let mut pipe = self.0.borrow_mut();
            if !pipe.receiver {
                return Poll::Ready(Err(SendError(message.take().expect("polled once after completion"))));
            }
            if pipe.queue.len() >= pipe.capacity {
                pipe.writers.push(cx.waker().clone());
                return Poll::Pending;
            }
            pipe.queue.push_back(message.take().expect("polled once after completion"));
            let reader = pipe.reader.take();
            drop(pipe);
            wake_all(reader.into_iter().collect());
            Poll::Ready(Ok(()))
        })
        .await
    }

    fn downgrade(&self) -> PipeWeakSender<T> {
        PipeWeakSender(Rc::downgrade(&self.0))
    }
}

impl<T: OptionalSend> MpscWeakSender<LocalMpsc, T> for PipeWeakSender<T> {
    fn upgrade(&self) -> Option<PipeSender<T>> {
        let pipe = self.0.upgrade()?;
        let mut inner = pipe.borrow_mut();
        if inner.senders == 0 {
            return None;
        }
        inner.senders += 1;
        drop(inner);
        Some(PipeSender(pipe))
    }
}

impl<T> PipeReceiver<T> {
    fn take(&self) -> Result<T, TryRecvError> {
        let mut pipe = self.0.borrow_mut();
        match pipe.queue.pop_front() {
            Some(value) => {
                let writers = std::mem::take(&mut pipe.writers);
                drop(pipe);
                wake_all(writers);
                Ok(value)
            }
            None if pipe.senders == 0 => Err(TryRecvError::Disconnected),
            None => Err(TryRecvError::Empty),
        }
    }
}

impl<T: OptionalSend> MpscReceiver<T> for PipeReceiver<T> {
    async fn recv(&mut self) -> Option<T> {
        poll_fn(|cx| match self.take() {
            Ok(value) => Poll::Ready(Some(value)),
            Err(TryRecvError::Disconnected) => Poll::Ready(None),
            Err(TryRecvError::Empty) => {
                self.0.borrow_mut().reader = Some(cx.waker().clone());
                Poll::Pending
            }
        })
        .await
    }

    fn try_recv(&mut self) -> Result<T, TryRecvError> {
        self.take()
    }
}

// ---- watch -------------------------------------------------------------------------------------------------------

struct Watched<T> {
    value: RefCell<T>,
    state: RefCell<WatchState>,
}

struct WatchState {
    version: u64,
    senders: usize,
    receivers: usize,
    wakers: Vec<Waker>,
}

/// Latest-value channels of one thread.
pub struct LocalWatch;

/// A sending half.
pub struct WatchTx<T>(Rc<Watched<T>>);

/// A receiving half with the version it has seen.
pub struct WatchRx<T>(Rc<Watched<T>>, u64);

impl watch::Watch for LocalWatch {
    type Sender<T: OptionalSend + openraft::OptionalSync> = WatchTx<T>;
    type Receiver<T: OptionalSend + openraft::OptionalSync> = WatchRx<T>;
    type Ref<'a, T: OptionalSend + 'a> = Ref<'a, T>;

    fn channel<T: OptionalSend + openraft::OptionalSync>(init: T) -> (WatchTx<T>, WatchRx<T>) {
        let state = WatchState { version: 0, senders: 1, receivers: 1, wakers: Vec::new() };
        let shared = Rc::new(Watched { value: RefCell::new(init), state: RefCell::new(state) });
        (WatchTx(shared.clone()), WatchRx(shared, 0))
    }
}

impl<T> Watched<T> {
    fn changed(&self) {
        let mut state = self.state.borrow_mut();
        state.version += 1;
        let wakers = std::mem::take(&mut state.wakers);
        drop(state);
        wake_all(wakers);
    }
}

impl<T> Clone for WatchTx<T> {
    fn clone(&self) -> Self {
        self.0.state.borrow_mut().senders += 1;
        WatchTx(self.0.clone())
    }
}

impl<T> Drop for WatchTx<T> {
    fn drop(&mut self) {
        let mut state = self.0.state.borrow_mut();
        state.senders -= 1;
        let wakers = if state.senders == 0 { std::mem::take(&mut state.wakers) } else { Vec::new() };
        drop(state);
        wake_all(wakers);
    }
}

impl<T> Clone for WatchRx<T> {
    fn clone(&self) -> Self {
        self.0.state.borrow_mut().receivers += 1;
        WatchRx(self.0.clone(), self.1)
    }
}

impl<T> Drop for WatchRx<T> {
    fn drop(&mut self) {
        self.0.state.borrow_mut().receivers -= 1;
    }
}

impl<T: OptionalSend + openraft::OptionalSync> watch::WatchSender<LocalWatch, T> for WatchTx<T> {
    fn send(&self, value: T) -> Result<(), watch::SendError<T>> {
        if self.0.state.borrow().receivers == 0 {
            return Err(watch::SendError(value));
        }
        *self.0.value.borrow_mut() = value;
        self.0.changed();
        Ok(())
    }

    fn send_if_modified<F: FnOnce(&mut T) -> bool>(&self, modify: F) -> bool {
        let modified = modify(&mut self.0.value.borrow_mut());
        if modified {
            self.0.changed();
        }
        modified
    }

    fn borrow_watched(&self) -> Ref<'_, T> {
        self.0.value.borrow()
    }

    fn subscribe(&self) -> WatchRx<T> {
        let mut state = self.0.state.borrow_mut();
        state.receivers += 1;
        WatchRx(self.0.clone(), state.version)
    }
}

impl<T: OptionalSend + openraft::OptionalSync> watch::WatchReceiver<LocalWatch, T> for WatchRx<T> {
    async fn changed(&mut self) -> Result<(), watch::RecvError> {
        let WatchRx(shared, seen) = self;
        poll_fn(|cx| {
            let mut state = shared.state.borrow_mut();
            if state.version != *seen {
                *seen = state.version;
                return Poll::Ready(Ok(()));
            }
            if state.senders == 0 {
                return Poll::Ready(Err(watch::RecvError(())));
            }
            state.wakers.push(cx.waker().clone());
            Poll::Pending
        })
        .await
    }

    fn borrow_watched(&self) -> Ref<'_, T> {
        self.0.value.borrow()
    }

    fn borrow_and_update(&mut self) -> Ref<'_, T> {
        self.1 = self.0.state.borrow().version;
        self.0.value.borrow()
    }
}

// ---- mutex -------------------------------------------------------------------------------------------------------

/// A lock whose guard may live across awaits.
pub struct LocalMutex<T> {
    value: RefCell<T>,
    wakers: RefCell<Vec<Waker>>,
}

/// Access to the value; dropping it wakes the next in line.
pub struct LocalGuard<'a, T> {
    value: Option<RefMut<'a, T>>,
    wakers: &'a RefCell<Vec<Waker>>,
}

impl<T: OptionalSend + 'static> mutex::Mutex<T> for LocalMutex<T> {
    type Guard<'a> = LocalGuard<'a, T>;

    fn new(value: T) -> Self {
        LocalMutex { value: RefCell::new(value), wakers: RefCell::default() }
    }

    async fn lock(&self) -> LocalGuard<'_, T> {
        poll_fn(|cx| match self.value.try_borrow_mut() {
            Ok(value) => Poll::Ready(LocalGuard { value: Some(value), wakers: &self.wakers }),
            Err(_) => {
                self.wakers.borrow_mut().push(cx.waker().clone());
                Poll::Pending
            }
        })
        .await
    }
}

impl<T> Drop for LocalGuard<'_, T> {
    fn drop(&mut self) {
        drop(self.value.take());
        wake_all(std::mem::take(&mut *self.wakers.borrow_mut()));
    }
}

impl<T> std::ops::Deref for LocalGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.value.as_ref().expect("taken only on drop")
    }
}

impl<T> std::ops::DerefMut for LocalGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.value.as_mut().expect("taken only on drop")
    }
}
