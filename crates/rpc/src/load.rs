//! What all connections of one shard hold, and which of them have something to send.

use crate::limits::{PEER_BYTES_MAX, SERVED_BYTES_MAX, SHARD_BYTES_MAX, UNFINISHED_BYTES_MAX};
use crate::traffic::PeerTraffic;
use runtime::metrics::Counter;
use runtime::sync::{Event, Semaphore};
use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

/// Something that sends what it has when its turn comes.
pub(crate) trait Flush {
    fn flush_now(self: Rc<Self>);
}

/// Sums over the connections of one shard.
pub(crate) struct Load {
    /// Bytes that no socket has taken.
    pub(crate) unsent: Cell<usize>,
    /// Bytes of calls whose callers wait.
    pub(crate) unanswered: Cell<usize>,
    /// Bytes of requests that handlers work on.
    pub(crate) served: Cell<usize>,
    /// Memory for large frames that have begun to arrive.
    pub(crate) unfinished: Semaphore,
    /// Their connections hold this.
    unflushed: RefCell<Vec<Weak<dyn Flush>>>,
    wake: Event,
    pub(crate) metrics: Metrics,
    pub(crate) traffic: Rc<PeerTraffic>,
}

pub(crate) struct Metrics {
    pub(crate) expired: Counter,
    pub(crate) overloaded: Counter,
    pub(crate) stalled: Counter,
}

impl Load {
    /// For connections of a class, as metrics name it.
    pub(crate) fn new(class: &'static str) -> Rc<Load> {
        let counter = |name, help| runtime::metrics::counter(name, help, &[]);
        Rc::new(Load {
            unsent: Cell::new(0),
            unanswered: Cell::new(0),
            served: Cell::new(0),
            unfinished: Semaphore::new(UNFINISHED_BYTES_MAX),
            unflushed: RefCell::default(),
            wake: Event::new(),
            traffic: PeerTraffic::new(class),
            metrics: Metrics {
                expired: counter(
                    "messina_rpc_late_calls_total",
                    "Calls of other nodes not begun, or not answered because the caller had stopped waiting.",
                ),
                overloaded: counter(
                    "messina_rpc_overloaded_total",
                    "Calls refused because too much waited, those of other nodes and those to them.",
                ),
                stalled: counter(
                    "messina_rpc_stalled_connections_total",
                    "Connections closed because the other side did not read.",
                ),
            },
        })
    }

    /// Whether another call may be added to a peer that has so many bytes unsent and unanswered. The last one goes beyond the bound by
    /// its own size: that is known when it is encoded.
    pub(crate) fn admits(&self, unsent: usize, unanswered: usize) -> bool {
        let admits = unsent.max(unanswered) < PEER_BYTES_MAX
            && self.unsent.get().max(self.unanswered.get()) < SHARD_BYTES_MAX;
        if !admits {
            self.metrics.overloaded.inc();
        }
        admits
    }

    /// Whether a request of so many bytes may be begun.
    pub(crate) fn serves(&self, bytes: usize) -> bool {
        let served = self.served.get();
        let serves = served == 0 || served + bytes <= SERVED_BYTES_MAX;
        if !serves {
            self.metrics.overloaded.inc();
        }
        serves
    }

    /// Has a connection flushed before the shard turns to other work.
    pub(crate) fn flush_soon(&self, connection: Weak<dyn Flush>) {
        let mut unflushed = self.unflushed.borrow_mut();
        if unflushed.is_empty() {
            self.wake.notify();
        }
        unflushed.push(connection);
    }

    /// Flushes the connections that asked for it, for as long as the shard lives: all calls made in one turn leave together.
    pub(crate) async fn flush_all(self: Rc<Self>) {
        let mut batch = Vec::new();
        loop {
            std::mem::swap(&mut *self.unflushed.borrow_mut(), &mut batch);
            if batch.is_empty() {
                self.wake.wait().await;
            }
            for connection in batch.drain(..).filter_map(|connection| connection.upgrade()) {
                connection.flush_now();
            }
        }
    }
}

/// Adds to a sum.
pub(crate) fn add(sum: &Cell<usize>, bytes: usize) {
    sum.set(sum.get() + bytes);
}

/// Takes from a sum what was added before.
pub(crate) fn take(sum: &Cell<usize>, bytes: usize) {
    debug_assert!(bytes <= sum.get(), "{bytes} of {}", sum.get());
    sum.set(sum.get().saturating_sub(bytes));
}
