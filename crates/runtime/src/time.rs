//! Waiting for time to pass.

use crate::shard::{try_with, with};
use crate::timer::TimerKey;
use base::Instant;
use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

/// The shard's monotonic clock.
pub fn now() -> Instant {
    with(|shard| shard.backend.now())
}

/// A clock for measuring how long something takes, cheaper than [`now`] and with a zero point of its own.
#[inline]
pub fn ticks() -> Instant {
    with(|shard| Instant(shard.backend.ticks()))
}

/// Microseconds since the Unix epoch; may go backwards when the machine's clock is set.
pub fn unix_micros() -> i64 {
    with(|shard| shard.backend.unix_micros())
}

/// The same in seconds, in which deletions and lifetimes count.
pub fn unix_seconds() -> u32 {
    u32::try_from(unix_micros() / 1_000_000).unwrap_or(u32::MAX)
}

/// Resolves once the duration has passed; zero still yields once.
pub fn sleep(duration: Duration) -> Sleep {
    sleep_until(now() + duration)
}

/// Resolves once the clock has reached the deadline.
pub fn sleep_until(deadline: Instant) -> Sleep {
    Sleep { deadline, key: None }
}

/// A timer; dropping it cancels it.
pub struct Sleep {
    deadline: Instant,
    key: Option<TimerKey>,
}

impl Sleep {
    /// When it is due.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let deadline = self.deadline;
        let waker = context.waker();
        with(|shard| {
            let mut timers = shard.timers.borrow_mut();
            match self.key {
                None => self.key = Some(timers.insert(deadline, waker.clone())),
                Some(key) if timers.refresh(key, waker) => {}
                Some(_) => return Poll::Ready(()),
            }
            Poll::Pending
        })
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            try_with(|shard| shard.timers.borrow_mut().cancel(key));
        }
    }
}

/// The time given to [`timeout`] has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elapsed;

impl std::fmt::Display for Elapsed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("deadline has elapsed")
    }
}

impl std::error::Error for Elapsed {}

/// The future's output, or [`Elapsed`] when it takes longer; then the future is dropped.
pub async fn timeout<F: Future>(duration: Duration, future: F) -> Result<F::Output, Elapsed> {
    timeout_at(now() + duration, future).await
}

/// Like [`timeout`], with a point in time.
pub async fn timeout_at<F: Future>(deadline: Instant, future: F) -> Result<F::Output, Elapsed> {
    let mut future = pin!(future);
    let mut sleep = pin!(sleep_until(deadline));
    std::future::poll_fn(|context| {
        if let Poll::Ready(output) = future.as_mut().poll(context) {
            return Poll::Ready(Ok(output));
        }
        sleep.as_mut().poll(context).map(|()| Err(Elapsed))
    })
    .await
}
