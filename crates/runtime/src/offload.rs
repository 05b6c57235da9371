//! Two small pools of threads: one for calls that block, which are those on files, and one of lower priority for long
//! computing, so that no file waits for a password. Threads start when first needed and end when idle; shards of one
//! node share them.

use crate::inbox::lock;
use crate::limits::{COMPUTE_NICE, COMPUTE_THREADS, OFFLOAD_IDLE, OFFLOAD_THREADS};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

type Job = Box<dyn FnOnce() + Send>;

pub(crate) struct OffloadPool {
    kind: Kind,
    state: Mutex<State>,
    work: Condvar,
}

/// What the threads of a pool are like.
struct Kind {
    name: &'static str,
    threads_max: usize,
    nice: i32,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    threads: usize,
    idle: usize,
}

impl OffloadPool {
    /// A pool for calls that block.
    pub(crate) fn blocking() -> Arc<OffloadPool> {
        OffloadPool::new(Kind { name: "offload", threads_max: OFFLOAD_THREADS, nice: 0 })
    }

    /// A pool for computing that may take its time.
    pub(crate) fn computing() -> Arc<OffloadPool> {
        OffloadPool::new(Kind { name: "compute", threads_max: COMPUTE_THREADS, nice: COMPUTE_NICE })
    }

    fn new(kind: Kind) -> Arc<OffloadPool> {
        Arc::new(OffloadPool { kind, state: Mutex::default(), work: Condvar::new() })
    }

    /// Queues a job. Its number is bounded by the tasks that wait for one.
    pub(crate) fn push(self: &Arc<Self>, job: Job) {
        let mut state = lock(&self.state);
        state.jobs.push_back(job);
        if state.idle >= state.jobs.len() {
            self.work.notify_one();
        } else if state.threads < self.kind.threads_max {
            state.threads += 1;
            drop(state);
            let pool = self.clone();
            let builder = std::thread::Builder::new().name(self.kind.name.to_string()).stack_size(512 * 1024);
            if builder.spawn(move || pool.serve()).is_err() {
                self.without_thread();
            }
        }
    }

    /// No thread could be started: an existing one will come to the job, or this thread does it now.
    fn without_thread(&self) {
        let mut state = lock(&self.state);
        state.threads -= 1;
        if state.threads == 0 {
            let jobs = std::mem::take(&mut state.jobs);
            drop(state);
            jobs.into_iter().for_each(|job| job());
        }
    }

    fn serve(&self) {
        unpin_thread();
        if self.kind.nice > 0 {
            lower_priority(self.kind.nice);
        }
        let mut state = lock(&self.state);
        loop {
            if let Some(job) = state.jobs.pop_front() {
                drop(state);
                job();
                state = lock(&self.state);
                continue;
            }
            state.idle += 1;
            let waited = self.work.wait_timeout(state, OFFLOAD_IDLE).unwrap_or_else(PoisonError::into_inner);
            state = waited.0;
            state.idle -= 1;
            if waited.1.timed_out() && state.jobs.is_empty() {
                state.threads -= 1;
                return;
            }
        }
    }

    /// Runs a closure on the pool.
    pub(crate) fn run<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Offload<T> {
        let shared = Arc::new(Mutex::new(Shared { result: None, waker: None }));
        let theirs = shared.clone();
        self.push(Box::new(move || {
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
            let mut shared = lock(&theirs);
            shared.result = Some(result);
            let waker = shared.waker.take();
            drop(shared);
            if let Some(waker) = waker {
                waker.wake();
            }
        }));
        Offload { shared }
    }
}

/// A thread inherits the affinity of the shard that started it; helpers may run anywhere.
fn unpin_thread() {
    // SAFETY: the set is a plain bit array, valid for the call; failure leaves the affinity as it was.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        for cpu in 0..libc::CPU_SETSIZE as usize {
            libc::CPU_SET(cpu, &mut set);
        }
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set);
    }
}

/// Linux keeps a nice value for each thread; one that cannot be set leaves the thread as it was.
fn lower_priority(nice: i32) {
    // SAFETY: the call takes numbers only; 0 is the calling thread.
    unsafe {
        libc::setpriority(libc::PRIO_PROCESS, 0, nice);
    }
}

struct Shared<T> {
    result: Option<std::thread::Result<T>>,
    waker: Option<Waker>,
}

/// The result of an offloaded closure. Dropping it does not stop the closure.
pub(crate) struct Offload<T> {
    shared: Arc<Mutex<Shared<T>>>,
}

impl<T> Future for Offload<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let mut shared = lock(&self.shared);
        match shared.result.take() {
            Some(Ok(value)) => Poll::Ready(value),
            Some(Err(panic)) => {
                drop(shared);
                std::panic::resume_unwind(panic)
            }
            None => {
                shared.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}
