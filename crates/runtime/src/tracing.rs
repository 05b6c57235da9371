//! What happens to a request that its client wants traced, on this node.
//!
//! ```text
//! follow(trace, future)   the trace is this shard's current one while the future is polled
//!        note(…)          anywhere below, however deep: an event of the current trace; without one, a look at one cell
//!        carry(future)    the same for a task that is spawned for the request
//!        submit_to(…)     the same on another shard, whose events come back with the answer
//! ```
//! Events have two times: ticks of 100 ns since the request came to its coordinator, by which those of all nodes are in one order whatever
//! their clocks say, and microseconds since this node began with it. Both only ever grow on a shard. Memory is bounded: what is too much is left
//! out, and one last event says so.

use crate::limits::{TRACE_ACTIVITY_BYTES_MAX, TRACE_BYTES_MAX, TRACE_EVENT_BYTES};
use crate::shard::{try_with, with};
use crate::{Group, ShardId};
use base::Instant;
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

/// Something that happened while a traced request was served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// When: ticks of 100 ns since the request came to its coordinator.
    pub at: u64,
    /// When, in microseconds since its node began with the request.
    pub elapsed_us: u32,
    /// The shard.
    pub shard: u16,
    /// The node's address for other nodes; `None`: this node.
    pub source: Option<SocketAddr>,
    /// What happened, for people.
    pub activity: String,
}

impl Event {
    /// What it is counted with.
    fn bytes(&self) -> usize {
        TRACE_EVENT_BYTES + self.activity.len()
    }
}

/// When a traced request came, here and to its coordinator.
#[derive(Debug, Clone, Copy)]
struct Begun {
    id: u128,
    /// Ticks of 100 ns that had passed at `at` since it came to its coordinator.
    base: u64,
    at: Instant,
}

/// One traced request on one shard.
#[derive(Debug)]
pub struct Trace {
    begun: Begun,
    last: Cell<u64>,
    bytes: Cell<usize>,
    is_full: Cell<bool>,
    events: RefCell<Vec<Event>>,
}

impl Trace {
    /// Begins now on this node. `base`: ticks of 100 ns since the request came to its coordinator.
    pub fn begin(id: u128, base: u64) -> Rc<Trace> {
        Trace::of(Begun { id, base, at: crate::now() }, base)
    }

    /// `last`: ticks of the newest event that came before.
    fn of(begun: Begun, last: u64) -> Rc<Trace> {
        Rc::new(Trace {
            begun,
            last: Cell::new(last),
            bytes: Cell::new(0),
            is_full: Cell::new(false),
            events: RefCell::default(),
        })
    }

    /// The id of the traced request.
    pub fn id(&self) -> u128 {
        self.begun.id
    }

    /// Ticks of 100 ns since the request came to its coordinator; not before the newest event.
    pub fn ticks(&self) -> u64 {
        self.begun.base.saturating_add(self.elapsed_ns() / 100).max(self.last.get())
    }

    /// Microseconds since this node began with it.
    pub fn elapsed_us(&self) -> u32 {
        u32::try_from(self.elapsed_ns() / 1000).unwrap_or(u32::MAX)
    }

    fn elapsed_ns(&self) -> u64 {
        crate::now().0.saturating_sub(self.begun.at.0)
    }

    /// Adds an event of this node.
    pub fn note(&self, activity: impl Into<String>) {
        if self.is_full.get() {
            return;
        }
        let mut activity = activity.into();
        activity.truncate(activity.floor_char_boundary(TRACE_ACTIVITY_BYTES_MAX));
        // What is kept counts by its length.
        activity.shrink_to_fit();
        let at = self.ticks().max(self.last.get().saturating_add(1));
        self.last.set(at);
        let (elapsed_us, shard) = (self.elapsed_us(), crate::shard().0);
        self.keep(Event { at, elapsed_us, shard, source: None, activity });
    }

    /// Adds events of another node, or with `None` of another shard of this one. None can have happened later than now, but that
    /// those of one shard are at least a tick apart.
    pub fn absorb(&self, source: Option<SocketAddr>, events: Vec<Event>) {
        let now = self.ticks().saturating_add(events.len() as u64);
        for mut event in events {
            event.source = event.source.or(source);
            event.at = event.at.min(now);
            self.last.set(self.last.get().max(event.at));
            self.keep(event);
        }
    }

    fn keep(&self, event: Event) {
        if self.is_full.get() {
            return;
        }
        let bytes = self.bytes.get() + event.bytes();
        let event = if bytes <= TRACE_BYTES_MAX {
            self.bytes.set(bytes);
            event
        } else {
            self.is_full.set(true);
            Event { activity: "Further events are left out".into(), ..event }
        };
        self.events.borrow_mut().push(event);
    }

    /// The events so far, in the order in which they came here: later calls give these and more.
    pub fn events(&self) -> Vec<Event> {
        self.events.borrow().clone()
    }

    /// Gives the events away.
    pub fn take(&self) -> Vec<Event> {
        self.events.take()
    }
}

/// The trace of the request that is worked on.
#[inline]
pub fn current() -> Option<Rc<Trace>> {
    try_with(|shard| shard.trace.borrow().clone()).flatten()
}

/// Whether the request that is worked on is traced.
#[inline]
pub fn is_on() -> bool {
    try_with(|shard| shard.trace.borrow().is_some()).unwrap_or(false)
}

/// Adds an event to the trace of the request that is worked on, if it is traced.
#[inline]
pub fn note<T: Into<String>>(activity: impl FnOnce() -> T) {
    if let Some(trace) = current() {
        trace.note(activity());
    }
}

/// Polls a future as work for a traced request; without a trace, or where another one is inside, for that of the caller.
pub fn follow<F: Future>(trace: Option<Rc<Trace>>, future: F) -> Followed<F> {
    Followed { trace, future }
}

/// As [`follow`] for the request that is worked on: for what is spawned.
pub fn carry<F: Future>(future: F) -> Followed<F> {
    follow(current(), future)
}

/// As [`crate::submit_to`]; where the request that is worked on is traced, so is what is done there.
/// Boxed: what is not traced takes no more memory for it.
pub fn submit_to<F, Fut, T>(target: ShardId, group: Group, work: F) -> Pin<Box<dyn Future<Output = T>>>
where
    F: FnOnce() -> Fut + Send + 'static,
    Fut: Future<Output = T> + 'static,
    T: Send + 'static,
{
    let Some(trace) = current() else { return Box::pin(crate::submit_to(target, group, work)) };
    let (begun, last) = (trace.begun, trace.ticks());
    Box::pin(async move {
        let (output, events) = crate::submit_to(target, group, move || async move {
            let part = Trace::of(begun, last);
            let output = follow(Some(part.clone()), work()).await;
            (output, part.take())
        })
        .await;
        trace.absorb(None, events);
        output
    })
}

/// A future that works for a traced request, or for none: see [`follow`].
pub struct Followed<F> {
    trace: Option<Rc<Trace>>,
    future: F,
}

/// Puts back what was traced before.
struct Restore(Option<Rc<Trace>>);

impl Drop for Restore {
    fn drop(&mut self) {
        let before = self.0.take();
        drop(try_with(|shard| shard.trace.replace(before)));
    }
}

impl<F: Future> Future for Followed<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        // SAFETY: the future is pinned as its owner is: it is never moved out, and there is no `Drop` here that could do so.
        let (trace, future) = unsafe {
            let this = self.get_unchecked_mut();
            (&this.trace, Pin::new_unchecked(&mut this.future))
        };
        let Some(trace) = trace else { return future.poll(context) };
        let _restore = Restore(with(|shard| shard.trace.replace(Some(trace.clone()))));
        future.poll(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::{SimConfig, World};
    use std::time::Duration;

    fn play<T: 'static>(shards: u16, work: impl Future<Output = T> + 'static) -> T {
        let mut world = World::new(3, SimConfig::calm());
        let node = world.add_node("10.0.0.1".parse().unwrap());
        world.boot(
            node,
            shards,
            std::sync::Arc::new(|| {
                Box::pin(async {
                    crate::shutdown_requested().await;
                    0
                })
            }),
        );
        let mut task = world.spawn(node, work);
        assert!(world.run_until(|_| task.done(), Duration::from_secs(9)));
        task.take().expect("it is done")
    }

    fn texts(trace: &Trace) -> Vec<String> {
        trace.events().into_iter().map(|event| event.activity).collect()
    }

    #[test]
    fn events_are_those_of_the_request_whichever_task_or_shard_works_for_it() {
        play(2, async {
            note(|| -> String { panic!("nothing is traced") });
            let trace = Trace::begin(7, 50);
            let other = crate::spawn(Group::QUERY, async {
                crate::yield_now().await;
                assert!(!is_on(), "a task of another request");
            });
            let work = async {
                note(|| "one");
                crate::sleep(Duration::from_millis(2)).await;
                crate::spawn(Group::QUERY, carry(async { note(|| "two") })).await;
                crate::spawn(Group::QUERY, async { note(|| "not carried") }).await;
                submit_to(ShardId(1), Group::QUERY, || async {
                    crate::sleep(Duration::from_millis(2)).await;
                    note(|| "three");
                })
                .await;
                other.await;
            };
            follow(Some(trace.clone()), work).await;
            assert!(!is_on());
            assert_eq!(texts(&trace), ["one", "two", "three"]);
            let events = trace.events();
            assert_eq!(events.iter().map(|event| event.shard).collect::<Vec<_>>(), [0, 0, 1]);
            assert!(events.windows(2).all(|pair| pair[0].at < pair[1].at), "{events:?}");
            assert!(50 < events[0].at && 4000 <= events[2].elapsed_us, "{events:?}");
        });
    }

    #[test]
    fn what_is_too_much_is_left_out() {
        play(1, async {
            let trace = Trace::begin(1, 0);
            trace.note("é".repeat(TRACE_ACTIVITY_BYTES_MAX));
            assert!(trace.events()[0].activity.len() <= TRACE_ACTIVITY_BYTES_MAX);
            (0..TRACE_BYTES_MAX / TRACE_EVENT_BYTES).for_each(|_| trace.note("x"));
            let texts = texts(&trace);
            assert_eq!(texts.last().map(String::as_str), Some("Further events are left out"));
            assert!(texts.len() * TRACE_EVENT_BYTES <= TRACE_BYTES_MAX + TRACE_EVENT_BYTES);
        });
    }
}
