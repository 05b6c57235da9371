//! openraft's runtime on a shard: its tasks are ours, its clock is `runtime::now`, its chance `runtime::random_u64`.
//!
//! Everything runs on the shard that started the group; nothing here knows a thread.

use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use base::Instant;
use openraft::{AsyncRuntime, OptionalSend};
use runtime::Group;

use crate::channel::{LocalMpsc, LocalMutex, LocalOneshot, LocalWatch};

/// A point on the shard's clock, in the shape openraft wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tick(Instant);

impl std::ops::Add<Duration> for Tick {
    type Output = Tick;

    fn add(self, rhs: Duration) -> Tick {
        Tick(self.0 + rhs)
    }
}

impl std::ops::AddAssign<Duration> for Tick {
    fn add_assign(&mut self, rhs: Duration) {
        self.0 = self.0 + rhs;
    }
}

impl std::ops::Sub<Duration> for Tick {
    type Output = Tick;

    fn sub(self, rhs: Duration) -> Tick {
        Tick(self.0 - rhs)
    }
}

impl std::ops::Sub for Tick {
    type Output = Duration;

    fn sub(self, rhs: Tick) -> Duration {
        self.0 - rhs.0
    }
}

impl std::ops::SubAssign<Duration> for Tick {
    fn sub_assign(&mut self, rhs: Duration) {
        self.0 = self.0 - rhs;
    }
}

impl openraft::Instant for Tick {
    fn now() -> Tick {
        Tick(runtime::now())
    }
}

/// The shard's random numbers.
pub struct ShardRng;

impl rand::TryRng for ShardRng {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok(runtime::random_u64() as u32)
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(runtime::random_u64())
    }

    fn try_fill_bytes(&mut self, out: &mut [u8]) -> Result<(), Infallible> {
        for chunk in out.chunks_mut(8) {
            let word = runtime::random_u64().to_le_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
        Ok(())
    }
}

/// A deadline passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Late;

impl fmt::Display for Late {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("deadline passed")
    }
}

/// A task of the shard; dropping it lets the task run on.
pub struct Task<T>(Pin<Box<dyn Future<Output = T>>>);

impl<T> Future for Task<T> {
    type Output = Result<T, Infallible>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(Ok(ready!(self.0.as_mut().poll(cx))))
    }
}

/// A future that must finish in time.
pub struct Timed<F> {
    future: Pin<Box<F>>,
    sleep: Pin<Box<dyn Future<Output = ()>>>,
}

impl<F: Future> Future for Timed<F> {
    type Output = Result<F::Output, Late>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let Poll::Ready(value) = self.future.as_mut().poll(cx) {
            return Poll::Ready(Ok(value));
        }
        self.sleep.as_mut().poll(cx).map(|()| Err(Late))
    }
}

/// The shard as openraft's runtime.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ShardRuntime;

impl AsyncRuntime for ShardRuntime {
    type JoinError = Infallible;
    type JoinHandle<T: OptionalSend + 'static> = Task<T>;
    type Sleep = Pin<Box<dyn Future<Output = ()>>>;
    type Instant = Tick;
    type TimeoutError = Late;
    type Timeout<R, T: Future<Output = R> + OptionalSend> = Timed<T>;
    type ThreadLocalRng = ShardRng;
    type Mpsc = LocalMpsc;
    type Watch = LocalWatch;
    type Oneshot = LocalOneshot;
    type Mutex<T: OptionalSend + 'static> = LocalMutex<T>;

    fn spawn<T>(future: T) -> Task<T::Output>
    where
        T: Future + OptionalSend + 'static,
        T::Output: OptionalSend + 'static,
    {
        Task(Box::pin(runtime::spawn(Group::ADMIN, future)))
    }

    fn sleep(duration: Duration) -> Self::Sleep {
        Box::pin(runtime::sleep(duration))
    }

    fn sleep_until(deadline: Tick) -> Self::Sleep {
        Self::sleep(deadline.0.since(runtime::now()))
    }

    fn timeout<R, F: Future<Output = R> + OptionalSend>(duration: Duration, future: F) -> Timed<F> {
        Timed { future: Box::pin(future), sleep: Self::sleep(duration) }
    }

    fn timeout_at<R, F: Future<Output = R> + OptionalSend>(deadline: Tick, future: F) -> Timed<F> {
        Self::timeout(deadline.0.since(runtime::now()), future)
    }

    fn is_panic(error: &Infallible) -> bool {
        match *error {}
    }

    fn thread_rng() -> ShardRng {
        ShardRng
    }

    fn new(_threads: usize) -> Self {
        ShardRuntime
    }

    /// A shard is already running when a group starts, so there is nothing to start here: the future is polled once
    /// and must be ready. openraft calls this from its own tests only.
    fn block_on<F, T>(&mut self, future: F) -> T
    where
        F: Future<Output = T>,
    {
        let mut future = std::pin::pin!(future);
        match future.as_mut().poll(&mut Context::from_waker(std::task::Waker::noop())) {
            Poll::Ready(value) => value,
            Poll::Pending => panic!("a shard's future cannot be awaited from outside the shard"),
        }
    }
}
