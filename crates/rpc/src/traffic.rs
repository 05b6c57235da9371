//! What goes between this shard and each peer, counted for operators.

use crate::limits::{LARGE_MESSAGE_BYTES, PEERS_COUNTED_MAX};
use base::HostId;
use runtime::metrics::{Sample, SampleValue};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

/// Counts of one shard and one peer, of one class of connections, since the start.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// Connections there are, of whichever side.
    pub connections: u64,
    /// Bytes that a socket has taken, before encryption.
    pub bytes_out: u64,
    /// Bytes received, as they came.
    pub bytes_in: u64,
    /// Messages for the peer: requests, answers, pings.
    pub messages: u64,
    /// Those of them that are large.
    pub large_messages: u64,
    /// Calls of this node.
    pub calls: u64,
    /// Those that wait for their answer.
    pub in_flight: u64,
    /// Those that were answered.
    pub answered: u64,
    /// Those that ended without an answer, or were refused before they were sent.
    pub failed: u64,
    /// How long the answered ones took together.
    pub call_us: u64,
}

impl Counts {
    /// Adds those of another shard or peer.
    pub fn add(&mut self, other: &Counts) {
        self.connections += other.connections;
        self.bytes_out += other.bytes_out;
        self.bytes_in += other.bytes_in;
        self.messages += other.messages;
        self.large_messages += other.large_messages;
        self.calls += other.calls;
        self.in_flight += other.in_flight;
        self.answered += other.answered;
        self.failed += other.failed;
        self.call_us += other.call_us;
    }
}

/// The same while they grow, each in a cell of its own: a message touches few of them.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    connections: Cell<u64>,
    bytes_out: Cell<u64>,
    bytes_in: Cell<u64>,
    messages: Cell<u64>,
    large_messages: Cell<u64>,
    calls: Cell<u64>,
    ended: Cell<u64>,
    answered: Cell<u64>,
    failed: Cell<u64>,
    call_us: Cell<u64>,
}

fn grow(count: &Cell<u64>, by: u64) {
    count.set(count.get().wrapping_add(by));
}

impl Traffic {
    fn counts(&self) -> Counts {
        let calls = self.calls.get();
        Counts {
            connections: self.connections.get(),
            bytes_out: self.bytes_out.get(),
            bytes_in: self.bytes_in.get(),
            messages: self.messages.get(),
            large_messages: self.large_messages.get(),
            calls,
            in_flight: calls.saturating_sub(self.ended.get()),
            answered: self.answered.get(),
            failed: self.failed.get(),
            call_us: self.call_us.get(),
        }
    }

    pub(crate) fn opened(&self) {
        grow(&self.connections, 1);
    }

    pub(crate) fn closed(&self) {
        self.connections.set(self.connections.get().saturating_sub(1));
    }

    pub(crate) fn sent(&self, bytes: usize) {
        grow(&self.bytes_out, bytes as u64);
    }

    pub(crate) fn received(&self, bytes: usize) {
        grow(&self.bytes_in, bytes as u64);
    }

    pub(crate) fn message(&self, bytes: usize) {
        grow(&self.messages, 1);
        if LARGE_MESSAGE_BYTES <= bytes {
            grow(&self.large_messages, 1);
        }
    }

    pub(crate) fn call_begun(&self) {
        grow(&self.calls, 1);
    }

    /// A call does not wait any more, for whatever reason.
    pub(crate) fn call_ended(&self) {
        grow(&self.ended, 1);
    }

    pub(crate) fn call_answered(&self, took: Duration) {
        grow(&self.answered, 1);
        grow(&self.call_us, took.as_micros() as u64);
    }

    pub(crate) fn call_failed(&self) {
        grow(&self.failed, 1);
    }
}

/// The counts of one shard for all peers, of one class of connections.
#[derive(Debug)]
pub(crate) struct PeerTraffic {
    class: &'static str,
    peers: RefCell<BTreeMap<HostId, Rc<Traffic>>>,
}

impl PeerTraffic {
    /// Counts for `class`, shown among the metrics of this shard.
    pub(crate) fn new(class: &'static str) -> Rc<PeerTraffic> {
        let all = Rc::new(PeerTraffic { class, peers: RefCell::default() });
        let shown = all.clone();
        runtime::metrics::collector(move |samples| shown.collect(samples));
        all
    }

    /// The counts of a peer. Beyond a bound of peers they are not shown.
    pub(crate) fn of(&self, peer: HostId) -> Rc<Traffic> {
        let mut peers = self.peers.borrow_mut();
        match peers.get(&peer) {
            Some(traffic) => traffic.clone(),
            None if PEERS_COUNTED_MAX <= peers.len() => Rc::default(),
            None => peers.entry(peer).or_default().clone(),
        }
    }

    pub(crate) fn forget(&self, peer: HostId) {
        self.peers.borrow_mut().remove(&peer);
    }

    /// Those of all peers together.
    pub(crate) fn sum(&self) -> Counts {
        let mut sum = Counts::default();
        self.peers.borrow().values().for_each(|traffic| sum.add(&traffic.counts()));
        sum
    }

    fn collect(&self, samples: &mut Vec<Sample>) {
        for (peer, traffic) in &*self.peers.borrow() {
            let counts = traffic.counts();
            let mut add = |name: &str, help: &str, value: SampleValue| {
                let labels =
                    vec![("peer".to_owned(), peer.to_string()), ("class".to_owned(), self.class.to_owned())];
                samples.push(Sample { name: name.to_owned(), help: help.to_owned(), labels, value });
            };
            for (name, help, value) in [
                ("messina_rpc_connections", "Connections with a node.", counts.connections),
                ("messina_rpc_calls_in_flight", "Calls to a node that wait for an answer.", counts.in_flight),
            ] {
                add(name, help, SampleValue::Gauge(value as f64));
            }
            for (name, help, value) in [
                ("messina_rpc_sent_bytes_total", "Bytes sent to a node.", counts.bytes_out),
                ("messina_rpc_received_bytes_total", "Bytes received from a node.", counts.bytes_in),
                ("messina_rpc_messages_total", "Messages sent to a node.", counts.messages),
                ("messina_rpc_large_messages_total", "Large messages among them.", counts.large_messages),
                ("messina_rpc_calls_total", "Calls to a node.", counts.calls),
                ("messina_rpc_calls_answered_total", "Calls that a node has answered.", counts.answered),
                ("messina_rpc_calls_failed_total", "Calls that ended without an answer.", counts.failed),
                ("messina_rpc_call_us_total", "Microseconds that answered calls took.", counts.call_us),
            ] {
                add(name, help, SampleValue::Counter(value));
            }
        }
    }
}
