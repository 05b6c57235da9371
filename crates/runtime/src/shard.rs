//! One shard: executor, timers, calls, backend and everything else that belongs to one core of one node.
//!
//! Exactly one thread-local of the process points at the current shard; [`Shard::enter`] sets it around every poll, so
//! one thread may drive many shards of many nodes. No `static` holds a node's state.

use crate::backend::Backend;
use crate::buffer::ReadBuffers;
use crate::direct::DirectFolders;
use crate::executor::{Context, Executor, LocalFuture};
use crate::group::Group;
use crate::inbox::{Address, Inbox, TaskId, wake_anywhere};
use crate::io::{NodeIo, ShardIo};
use crate::limits::{QUOTA, STALL_LOG_EVERY};
use crate::mesh::{Answer, Link, Mesh, ReplyTo};
use crate::metrics::{Counter, Registry};
use crate::offload::OffloadPool;
use crate::sync::Flag;
use crate::timer::Timers;
use base::{HashMap, Instant, Prng};
use std::any::{Any, TypeId};
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Poll, RawWaker, RawWakerVTable, Waker};

/// Number of a shard in its node, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ShardId(pub u16);

impl std::fmt::Display for ShardId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// What the shards of one node share across threads.
pub(crate) struct NodeShared {
    pub(crate) inboxes: Vec<Arc<Inbox>>,
    pub(crate) offload: Arc<OffloadPool>,
    pub(crate) compute: Arc<OffloadPool>,
    pub(crate) io: NodeIo,
    /// Folders whose file system was asked whether it knows direct operations.
    pub(crate) direct: DirectFolders,
    pub(crate) shutdown: AtomicBool,
    /// Shards whose main has not returned.
    pub(crate) running: AtomicUsize,
    /// A shard has failed: all end at once.
    aborted: AtomicBool,
}

impl NodeShared {
    pub(crate) fn new(inboxes: Vec<Arc<Inbox>>) -> Arc<NodeShared> {
        let running = AtomicUsize::new(inboxes.len());
        let (shutdown, aborted) = (AtomicBool::new(false), AtomicBool::new(false));
        let (offload, compute) = (OffloadPool::blocking(), OffloadPool::computing());
        let (io, direct) = (NodeIo::default(), DirectFolders::default());
        Arc::new(NodeShared { inboxes, offload, compute, io, direct, shutdown, running, aborted })
    }

    /// Asks all shards to stop gracefully.
    pub(crate) fn request_shutdown(&self) {
        self.shutdown.store(true, Ordering::SeqCst);
        self.notify_all();
    }

    fn notify_all(&self) {
        self.inboxes.iter().for_each(|inbox| inbox.notify());
    }

    /// Ends all shards without waiting for their mains.
    pub(crate) fn abort(&self) {
        self.aborted.store(true, Ordering::SeqCst);
        self.request_shutdown();
    }

    pub(crate) fn is_over(&self) -> bool {
        self.running.load(Ordering::SeqCst) == 0 || self.aborted.load(Ordering::SeqCst)
    }
}

/// What a shard is made of.
pub(crate) struct ShardParts {
    pub(crate) id: ShardId,
    pub(crate) node: Arc<NodeShared>,
    /// From [`crate::mesh::connect`]: one per peer, `None` for itself.
    pub(crate) links: Vec<Option<Link>>,
    pub(crate) backend: Backend,
    pub(crate) seed: u64,
    pub(crate) memory: u64,
    /// A task poll longer than this is counted and logged; 0 switches it off.
    pub(crate) stall_ns: u64,
}

pub(crate) struct Shard {
    pub(crate) id: ShardId,
    pub(crate) node: Arc<NodeShared>,
    pub(crate) inbox: Arc<Inbox>,
    pub(crate) executor: Executor,
    pub(crate) timers: RefCell<Timers>,
    pub(crate) mesh: Mesh,
    pub(crate) backend: Backend,
    pub(crate) metrics: RefCell<Registry>,
    pub(crate) random: RefCell<Prng>,
    pub(crate) io: ShardIo,
    pub(crate) read_buffers: ReadBuffers,
    pub(crate) memory: u64,
    pub(crate) stopping: Flag,
    pub(crate) releases: crate::release::Slot,
    /// The trace of the request that is worked on, if it is traced.
    pub(crate) trace: RefCell<Option<Rc<crate::tracing::Trace>>>,
    slots: RefCell<HashMap<TypeId, Rc<dyn Any>>>,
    main_result: Cell<Option<i32>>,
    address: Address,
    woken: RefCell<Vec<TaskId>>,
    stall_ns: u64,
    stalls: Counter,
    stall_logged: Cell<u64>,
}

thread_local! {
    static CURRENT: Cell<*const Shard> = const { Cell::new(std::ptr::null()) };
}

/// Calls `f` with the current shard. Panics outside a shard.
#[inline]
pub(crate) fn with<R>(f: impl FnOnce(&Shard) -> R) -> R {
    try_with(f).expect("this is called on a shard")
}

/// Calls `f` with the current shard, if this thread is inside one.
#[inline]
pub(crate) fn try_with<R>(f: impl FnOnce(&Shard) -> R) -> Option<R> {
    let shard = CURRENT.get();
    if shard.is_null() {
        return None;
    }
    // SAFETY: the pointer is set only by `Shard::enter`, which borrows the shard for as long as it is set, and the
    // reference does not outlive this call.
    Some(f(unsafe { &*shard }))
}

struct Restore(*const Shard);

impl Drop for Restore {
    fn drop(&mut self) {
        CURRENT.set(self.0);
    }
}

static WAKER: RawWakerVTable = RawWakerVTable::new(
    |word| RawWaker::new(word, &WAKER),
    |word| wake(word as u64),
    |word| wake(word as u64),
    |_| {},
);

const _: () = assert!(size_of::<*const ()>() == 8, "a waker packs its task into one 64-bit word");

#[inline]
fn wake(word: u64) {
    let (address, id) = TaskId::unpack(word);
    let shard = CURRENT.get();
    if !shard.is_null() {
        // SAFETY: as in `try_with`.
        let shard = unsafe { &*shard };
        if shard.address.0 == address {
            shard.executor.wake(id);
            return;
        }
    }
    wake_anywhere(word);
}

impl Shard {
    pub(crate) fn new(parts: ShardParts) -> Rc<Shard> {
        let ShardParts { id, node, links, backend, seed, memory, stall_ns } = parts;
        let inbox = node.inboxes[usize::from(id.0)].clone();
        let address = Address::register(&inbox);
        let mut metrics = Registry::default();
        let stalls = register_metrics(&mut metrics);
        Rc::new(Shard {
            id,
            node,
            inbox,
            executor: Executor::new(),
            timers: RefCell::default(),
            mesh: Mesh::new(links),
            backend,
            metrics: RefCell::new(metrics),
            random: RefCell::new(Prng::new(seed ^ (u64::from(id.0) << 48))),
            io: ShardIo::default(),
            read_buffers: ReadBuffers::default(),
            memory,
            stopping: Flag::new(),
            releases: crate::release::Slot::default(),
            trace: RefCell::default(),
            slots: RefCell::default(),
            main_result: Cell::new(None),
            address,
            woken: RefCell::default(),
            stall_ns,
            stalls,
            stall_logged: Cell::new(0),
        })
    }

    /// Makes this shard current for the duration of `f`.
    pub(crate) fn enter<R>(&self, f: impl FnOnce() -> R) -> R {
        let _restore = Restore(CURRENT.replace(self));
        f()
    }

    /// Starts the shard's main task. When it returns, `main_result` is set; the shard goes on serving calls until the
    /// mains of all shards of the node have returned.
    pub(crate) fn start_main(&self, main: Pin<Box<dyn Future<Output = i32>>>) {
        let future = async move {
            let result = main.await;
            with(|shard| {
                shard.main_result.set(Some(result));
                if shard.node.running.fetch_sub(1, Ordering::SeqCst) == 1 {
                    shard.node.notify_all();
                }
            });
        };
        self.spawn(Context { group: Group::MAIN, depth: 0 }, Box::pin(future));
    }

    /// What main returned, once it has.
    pub(crate) fn main_result(&self) -> Option<i32> {
        self.main_result.get()
    }

    pub(crate) fn spawn(&self, context: Context, future: LocalFuture) -> TaskId {
        self.executor.spawn(context, future)
    }

    /// Polls a new task at once; queues it when it is not finished.
    pub(crate) fn spawn_now(&self, group: Group, mut future: LocalFuture) {
        let context = Context { group, depth: self.executor.context().depth };
        let id = self.executor.reserve(context);
        let left = if self.poll_once(id, context, &mut future) { None } else { Some(future) };
        self.executor.polled(id, left);
    }

    /// True when the task is over.
    fn poll_once(&self, id: TaskId, context: Context, future: &mut LocalFuture) -> bool {
        let word = id.pack(self.address.0);
        // SAFETY: the table's functions treat the pointer as a number and never dereference it.
        let waker = unsafe { Waker::from_raw(RawWaker::new(word as *const (), &WAKER)) };
        let outer = self.executor.set_context(context);
        let result = future.as_mut().poll(&mut std::task::Context::from_waker(&waker));
        self.executor.set_context(outer);
        matches!(result, Poll::Ready(()))
    }

    fn run_task(&self, id: TaskId) {
        let Some((context, mut future)) = self.executor.start(id) else {
            return;
        };
        if self.poll_once(id, context, &mut future) {
            // Before the slot is free: a destructor may wake or spawn.
            drop(future);
            self.executor.polled(id, None);
        } else {
            self.executor.polled(id, Some(future));
        }
    }

    /// One turn: takes in remote wakes and messages, polls ready tasks by group for at most about `budget_ns` (at
    /// least one task), then tells peers of what was sent to them. True when more tasks are ready.
    /// Does not fire timers and does not touch the backend's queues.
    pub(crate) fn run_ready(&self, budget_ns: u64) -> bool {
        self.enter(|| {
            self.receive();
            let mut tick = self.backend.ticks();
            let turn_end = tick + budget_ns;
            while tick < turn_end {
                let Some(group) = self.executor.pick() else {
                    break;
                };
                let (after, interrupted) = self.run_slice(group, tick, turn_end);
                tick = after;
                if interrupted {
                    break;
                }
            }
            self.flush_peers();
            self.executor.has_ready()
        })
    }

    /// Polls tasks of one group until it has none, its quota ends, or completions wait that others want.
    fn run_slice(&self, group: Group, start: u64, turn_end: u64) -> (u64, bool) {
        let end = turn_end.min(start + QUOTA.as_nanos() as u64);
        let gives_way_at = start.saturating_add(self.executor.patience(group));
        self.executor.set_slice(start, end);
        let mut tick = start;
        let mut polls = 0;
        let mut interrupted = false;
        while let Some(id) = self.next_task(group) {
            self.run_task(id);
            polls += 1;
            let after = self.backend.ticks();
            if self.stall_ns != 0 && after.saturating_sub(tick) > self.stall_ns {
                self.stalled(group, after - tick, after);
            }
            tick = after;
            interrupted = gives_way_at <= tick && self.backend.has_completions();
            if end <= tick || interrupted {
                break;
            }
        }
        self.executor.charge(group, tick.saturating_sub(start), polls);
        (tick, interrupted)
    }

    /// The next ready task: in order on a real shard, by the world's seed in simulation.
    #[inline]
    fn next_task(&self, group: Group) -> Option<TaskId> {
        match &self.backend {
            Backend::Uring(_) | Backend::Epoll(_) => self.executor.pop(group),
            Backend::Sim(sim) => self.executor.pop_by(group, |ready| sim.below(ready)),
        }
    }

    #[cold]
    fn stalled(&self, group: Group, ns: u64, tick: u64) {
        self.stalls.inc();
        if STALL_LOG_EVERY.as_nanos() as u64 <= tick.saturating_sub(self.stall_logged.get()) {
            self.stall_logged.set(tick);
            crate::warn!("a task of group {} kept the core for {} us", group.name(), ns / 1000);
        }
    }

    /// Should the running task let others go on?
    pub(crate) fn need_preempt(&self) -> bool {
        let tick = self.backend.ticks();
        let (start, end) = self.executor.slice();
        end <= tick
            || start.saturating_add(self.executor.patience(self.executor.context().group)) <= tick
                && self.backend.has_completions()
    }

    fn receive(&self) {
        if self.inbox.is_pending() {
            let mut woken = self.woken.borrow_mut();
            self.inbox.take(&mut woken);
            for id in woken.drain(..) {
                self.executor.wake(id);
            }
            if self.node.shutdown.load(Ordering::SeqCst) && !self.stopping.is_set() {
                self.stopping.set();
            }
        }
        self.mesh.receive(|from, request| {
            let to = ReplyTo { shard: from, key: request.key };
            let context = Context { group: request.group, depth: request.depth };
            self.spawn(context, request.work.start(to, send_reply));
        });
    }

    fn flush_peers(&self) {
        self.mesh.flush(|peer| {
            let inbox = &self.node.inboxes[usize::from(peer)];
            if inbox.take_asleep() {
                self.backend.wake(inbox);
            }
        });
    }

    /// Is there anything for `run_ready` to do now?
    pub(crate) fn has_work(&self) -> bool {
        self.executor.has_ready() || self.has_remote_work()
    }

    /// Have other threads or shards left something?
    pub(crate) fn has_remote_work(&self) -> bool {
        self.inbox.is_pending() || self.mesh.has_news() || self.mesh.has_late()
    }

    /// As [`has_work`](Shard::has_work), for a simulated shard: what nobody has left anything for since it was found idle is not searched again.
    pub(crate) fn has_simulated_work(&self) -> bool {
        if self.executor.has_ready() {
            return true;
        }
        if self.inbox.is_asleep() {
            return false;
        }
        let works = self.has_remote_work();
        if !works {
            self.inbox.fall_asleep();
        }
        works
    }

    /// When the next timer is due.
    pub(crate) fn next_timer(&self) -> Option<Instant> {
        self.timers.borrow().next()
    }

    /// Wakes the tasks whose timers are due at `now`.
    pub(crate) fn fire_timers(&self, now: Instant) {
        self.enter(|| {
            while let Some(waker) = { self.timers.borrow_mut().pop_due(now) } {
                waker.wake();
            }
        });
    }

    /// Drops every task and installed value with the shard current. Calls of other shards stay unanswered.
    pub(crate) fn tear_down(&self) {
        self.enter(|| {
            // Destructors may spawn; what they spawn is dropped as well, up to a bound.
            for _ in 0..64 {
                let futures = self.executor.take_all();
                if futures.is_empty() {
                    break;
                }
                drop(futures);
            }
            loop {
                let values = std::mem::take(&mut *self.slots.borrow_mut());
                if values.is_empty() {
                    break;
                }
                drop(values);
            }
            let metrics = self.metrics.take();
            drop(metrics);
            drop(self.executor.take_all());
        });
    }

    pub(crate) fn install(&self, key: TypeId, value: Rc<dyn Any>) {
        let old = self.slots.borrow_mut().insert(key, value);
        drop(old);
    }

    pub(crate) fn local(&self, key: TypeId) -> Option<Rc<dyn Any>> {
        self.slots.borrow().get(&key).cloned()
    }
}

/// What every shard reports about itself; returns the counter of stalls.
fn register_metrics(metrics: &mut Registry) -> Counter {
    for group in Group::ALL {
        let labels = [("group", group.name())];
        let name = "messina_runtime_group_nanoseconds_total";
        let ran = move || with(|shard| shard.executor.usage(group).0);
        metrics.counter_fn(name, "Time the group's tasks had the core.", &labels, Box::new(ran));
        let polls = move || with(|shard| shard.executor.usage(group).1);
        let name = "messina_runtime_group_polls_total";
        metrics.counter_fn(name, "Polls of the group's tasks.", &labels, Box::new(polls));
        let ready = move || with(|shard| shard.executor.queued(group) as f64);
        metrics.gauge_fn(
            "messina_runtime_group_ready",
            "Tasks of the group waiting for the core.",
            &labels,
            Box::new(ready),
        );
    }
    for group in Group::ALL {
        let labels = [("group", group.name())];
        let name = "messina_runtime_io_requests_total";
        let requests = move || with(|shard| shard.io.started(group).0);
        let help = "Reads, writes and syncs of files by the group.";
        metrics.counter_fn(name, help, &labels, Box::new(requests));
        let name = "messina_runtime_io_bytes_total";
        let bytes = move || with(|shard| shard.io.started(group).1);
        let help = "Bytes of files that the group asked to read or write.";
        metrics.counter_fn(name, help, &labels, Box::new(bytes));
        let name = "messina_runtime_io_waiting";
        let waiting = move || with(|shard| shard.io.waiting(group) as f64);
        metrics.gauge_fn(name, "Requests of the group that wait for their turn.", &labels, Box::new(waiting));
    }
    let live = || with(|shard| shard.executor.live() as f64);
    metrics.gauge_fn("messina_runtime_tasks", "Tasks alive.", &[], Box::new(live));
    let calls = || with(|shard| shard.mesh.in_flight() as f64);
    metrics.gauge_fn(
        "messina_runtime_calls_in_flight",
        "Calls to other shards without an answer.",
        &[],
        Box::new(calls),
    );
    let help = "Bytes of removed files that were not given back to the file system yet.";
    metrics.gauge_fn(
        "messina_runtime_unreleased_bytes",
        help,
        &[],
        Box::new(|| with(|shard| shard.releases.bytes()) as f64),
    );
    let help = "Task polls longer than the stall threshold.";
    metrics.counter("messina_runtime_stalls_total", help, &[])
}

fn send_reply(to: ReplyTo, answer: Answer) {
    with(|shard| shard.mesh.reply(to, answer));
}
