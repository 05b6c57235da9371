//! Operations dropped at every step of their way.

use runtime::{sleep, yield_now};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

/// What happens between the last poll of an operation and its drop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// Nothing.
    None,
    /// Others get their turn.
    Turn,
    /// Time enough for the operation to be complete, with nobody to take its result.
    Settle,
}

/// Where an operation was dropped, and what it had returned until then.
pub struct Cut<T> {
    /// How often it was polled.
    pub polls: u32,
    /// What happened then.
    pub pause: Pause,
    /// Its result, if it came to its end before.
    pub done: Option<T>,
}

impl<T> Cut<T> {
    /// Nobody ever polled it: it must have had no effect at all.
    pub fn unpolled(&self) -> bool {
        self.polls == 0
    }
}

impl<T> std::fmt::Display for Cut<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let how = if self.done.is_some() { "done" } else { "dropped" };
        write!(f, "{how} after {} polls, {:?}", self.polls, self.pause)
    }
}

/// Polls of one operation, more than any needs: who needs more hangs.
const POLLS_MAX: u32 = 10_000;

/// Begins an operation again and again: dropped unpolled, after its first poll, its second and so on until it comes to
/// its end by itself; all that with each pause before the drop. `check` sees every cut; its first argument counts them.
pub async fn at_every_step<Fut: Future>(
    mut begin: impl AsyncFnMut(u32) -> Fut,
    mut check: impl AsyncFnMut(u32, Cut<Fut::Output>),
) {
    let mut round = 0;
    for pause in [Pause::None, Pause::Turn, Pause::Settle] {
        for polls in 0..=POLLS_MAX {
            assert!(polls < POLLS_MAX, "the operation does not end");
            let operation = Box::pin(begin(round).await);
            let done = cut(operation, polls, pause).await;
            let ended = done.is_some();
            check(round, Cut { polls, pause, done }).await;
            round += 1;
            if ended {
                break;
            }
        }
    }
}

/// Polls an operation so often, waits, and drops it.
async fn cut<Fut: Future>(mut operation: Pin<Box<Fut>>, polls: u32, pause: Pause) -> Option<Fut::Output> {
    let mut left = polls;
    let done = poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        match operation.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await;
    match pause {
        _ if done.is_some() => {}
        Pause::None => {}
        Pause::Turn => yield_now().await,
        Pause::Settle => sleep(Duration::from_millis(5)).await,
    }
    drop(operation);
    done
}
