//! Tasks: spawning, yielding, joining.

use crate::executor::Context as TaskContext;
use crate::group::Group;
use crate::shard::with;
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

struct Join<T> {
    output: Cell<Option<T>>,
    waker: RefCell<Option<Waker>>,
    finished: Cell<bool>,
}

/// The output of a task. Dropping it lets the task run on alone.
pub struct JoinHandle<T>(Rc<Join<T>>);

impl<T> JoinHandle<T> {
    /// Has the task returned?
    pub fn is_finished(&self) -> bool {
        self.0.finished.get()
    }
}

impl<T> Future for JoinHandle<T> {
    type Output = T;

    /// Never resolves for a task that the shard dropped at its end.
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        match self.0.output.take() {
            Some(output) => Poll::Ready(output),
            None => {
                *self.0.waker.borrow_mut() = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

fn joined<T: 'static>(
    future: impl Future<Output = T> + 'static,
) -> (JoinHandle<T>, Pin<Box<dyn Future<Output = ()>>>) {
    let join =
        Rc::new(Join { output: Cell::new(None), waker: RefCell::new(None), finished: Cell::new(false) });
    let theirs = join.clone();
    let task = async move {
        let output = future.await;
        theirs.finished.set(true);
        // Nobody else holds it: the handle was dropped, and so is the output.
        if Rc::strong_count(&theirs) > 1 {
            theirs.output.set(Some(output));
            let waker = theirs.waker.borrow_mut().take();
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    };
    (JoinHandle(join), Box::pin(task))
}

/// Starts a task on this shard; it is polled first when its group's turn comes.
pub fn spawn<T: 'static>(group: Group, future: impl Future<Output = T> + 'static) -> JoinHandle<T> {
    let (handle, task) = joined(future);
    with(|shard| shard.spawn(TaskContext { group, depth: shard.executor.context().depth }, task));
    handle
}

/// Starts a task and polls it once at once, inside the caller's turn: short work finishes without being queued.
pub fn spawn_now<T: 'static>(group: Group, future: impl Future<Output = T> + 'static) -> JoinHandle<T> {
    let (handle, task) = joined(future);
    with(|shard| shard.spawn_now(group, task));
    handle
}

/// Like [`spawn_now`] for a task whose output nobody wants: one allocation less.
pub fn spawn_detached_now(group: Group, future: impl Future<Output = ()> + 'static) {
    let task = Box::pin(future);
    with(|shard| shard.spawn_now(group, task));
}

/// The group of the running task.
pub fn current_group() -> Group {
    with(|shard| shard.executor.context().group)
}

/// Changes a group's shares; a controller speeds compaction up or down with it.
pub fn set_shares(group: Group, shares: u32) {
    with(|shard| shard.executor.set_shares(group, shares));
}

/// A group's shares now.
pub fn shares(group: Group) -> u32 {
    with(|shard| shard.executor.shares(group))
}

/// The future's output if it needs not wait: polled once, then dropped.
pub fn poll_now<T>(future: impl Future<Output = T>) -> Option<T> {
    let mut context = Context::from_waker(Waker::noop());
    match std::pin::pin!(future).poll(&mut context) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

/// Lets every other ready task of the group go first.
pub async fn yield_now() {
    let mut yielded = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Has the running group used up its slice, or should a background task make room? Costs a few nanoseconds.
pub fn need_preempt() -> bool {
    with(|shard| shard.need_preempt())
}

/// Yields when [`need_preempt`] says so: call it in long loops.
pub async fn yield_if_needed() {
    if need_preempt() {
        yield_now().await;
    }
}
