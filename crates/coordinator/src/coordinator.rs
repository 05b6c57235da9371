//! What coordination on one shard holds: the newest snapshots, the doors to other nodes, this node's replica.

use crate::batchlog::Unfinished;
use crate::limits::{LIVENESS_PAUSE, WARNING_LOG_EVERY};
use base::HashMap;
use base::histogram::Distribution;
use mutation::Scope;
use replica::Local;
use rpc::Peer;
use runtime::Group;
use runtime::log::Sparse;
use runtime::metrics::{Counter, Histogram};
use schema::{Schema, TableId};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use topology::{NodeIndex, Snapshot, required};
use types::Consistency;

/// Coordinates requests on one shard.
pub struct Coordinator {
    topology: RefCell<Rc<Snapshot>>,
    schema: RefCell<Arc<Schema>>,
    local: Local,
    peers: HashMap<NodeIndex, Peer>,
    closed: Cell<bool>,
    pub(crate) unfinished: Unfinished,
    /// The table and level that this node alone was last found to suffice for, under the newest snapshots.
    sufficed: Cell<Option<(TableId, Consistency)>>,
    pub(crate) metrics: Metrics,
    /// Reads over many tombstones that are worth a line in the log.
    pub(crate) tombstones_told: Sparse,
}

pub(crate) struct Metrics {
    pub(crate) reads: Counter,
    pub(crate) writes: Counter,
    pub(crate) digest_mismatches: Counter,
    pub(crate) read_repairs: Counter,
    pub(crate) short_reads: Counter,
    pub(crate) read_stand_ins: Counter,
    pub(crate) tombstone_warnings: Counter,
    pub(crate) unavailables: Counter,
    pub(crate) read_latency: Histogram,
    pub(crate) range_latency: Histogram,
    pub(crate) write_latency: Histogram,
}

/// How long requests of one shard took, in microseconds, from here to the answers their level needs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Latencies {
    /// Reads by key.
    pub read: Distribution,
    /// Reads of token ranges.
    pub range: Distribution,
    /// Writes.
    pub write: Distribution,
}

impl Latencies {
    /// Adds those of another shard.
    pub fn merge(&mut self, other: &Latencies) {
        self.read.merge(&other.read);
        self.range.merge(&other.range);
        self.write.merge(&other.write);
    }
}

/// Whole microseconds.
pub(crate) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

impl Coordinator {
    /// Opens a door to every other node and starts watching which of them answer.
    pub fn new(snapshot: Snapshot, schema: Arc<Schema>, local: Local) -> Rc<Coordinator> {
        let here = snapshot.local_index();
        let others = (0..snapshot.nodes().len()).map(|n| NodeIndex(n as u16)).filter(|n| *n != here);
        let peers: HashMap<NodeIndex, Peer> =
            others.map(|n| (n, Peer::new(snapshot.node(n).internode))).collect();
        let watched = !peers.is_empty();
        let coordinator = Rc::new(Coordinator {
            topology: RefCell::new(Rc::new(snapshot)),
            schema: RefCell::new(schema),
            local,
            peers,
            closed: Cell::new(false),
            unfinished: Unfinished::default(),
            sufficed: Cell::new(None),
            metrics: Metrics::register(),
            tombstones_told: Sparse::new(WARNING_LOG_EVERY),
        });
        if watched {
            let task = coordinator.clone();
            drop(runtime::spawn(Group::RPC, async move { task.watch_liveness().await }));
        }
        coordinator
    }

    /// The newest snapshot of the cluster.
    pub fn topology(&self) -> Rc<Snapshot> {
        self.topology.borrow().clone()
    }

    /// The newest schema on this shard.
    pub fn schema(&self) -> Arc<Schema> {
        self.schema.borrow().clone()
    }

    /// Whether this node alone is the cluster and meets a level for a table; what is asked again is not counted again.
    pub(crate) fn suffices(&self, table: TableId, consistency: Consistency) -> bool {
        if self.sufficed.get() == Some((table, consistency)) {
            return true;
        }
        let (snapshot, schema) = (self.topology(), self.schema());
        let keyspace = schema.table_by_id(table).and_then(|table| schema.keyspace(&table.keyspace));
        let here = [snapshot.local_index()];
        let met = snapshot.is_single()
            && keyspace.is_some_and(|k| required(&snapshot, &k.replication, consistency, &here).is_ok());
        if met {
            self.sufficed.set(Some((table, consistency)));
        }
        met
    }

    /// Takes a new schema.
    pub fn set_schema(&self, schema: Arc<Schema>) {
        self.sufficed.set(None);
        *self.schema.borrow_mut() = schema;
    }

    /// How long the requests of this shard took.
    pub fn latencies(&self) -> Latencies {
        Latencies {
            read: self.metrics.read_latency.snapshot(),
            range: self.metrics.range_latency.snapshot(),
            write: self.metrics.write_latency.snapshot(),
        }
    }

    /// Replicas that were asked besides one that was slow or failed, and requests refused for too few replicas.
    pub fn stand_ins_and_unavailables(&self) -> (u64, u64) {
        (self.metrics.read_stand_ins.get(), self.metrics.unavailables.get())
    }

    /// This node's replica.
    pub fn local(&self) -> &Local {
        &self.local
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.get()
    }

    /// Closes the doors to other nodes.
    pub fn close(&self) {
        self.closed.set(true);
        self.peers.values().for_each(Peer::close);
    }

    pub(crate) fn peer(&self, node: NodeIndex) -> Option<&Peer> {
        self.peers.get(&node)
    }

    async fn watch_liveness(&self) {
        while !self.closed.get() {
            for (node, peer) in &self.peers {
                let snapshot = self.topology();
                if snapshot.is_alive(*node) != peer.is_reachable() {
                    let next = snapshot.with_alive(*node, peer.is_reachable());
                    self.sufficed.set(None);
                    *self.topology.borrow_mut() = Rc::new(next);
                }
            }
            runtime::sleep(LIVENESS_PAUSE).await;
        }
    }
}

impl Metrics {
    pub(crate) fn latency_of(&self, scope: &Scope) -> &Histogram {
        match scope {
            Scope::Keys(_) => &self.read_latency,
            Scope::Range(_) => &self.range_latency,
        }
    }

    fn register() -> Metrics {
        let counter = |name, help| runtime::metrics::counter(name, help, &[]);
        let latency = |name, help| runtime::metrics::histogram(name, help, &[]);
        Metrics {
            reads: counter("messina_coordinator_reads_total", "Reads coordinated."),
            writes: counter("messina_coordinator_writes_total", "Writes coordinated."),
            digest_mismatches: counter(
                "messina_coordinator_digest_mismatches_total",
                "Reads whose replicas' digests differed.",
            ),
            read_repairs: counter("messina_coordinator_read_repairs_total", "Repair writes sent by reads."),
            short_reads: counter(
                "messina_coordinator_short_reads_total",
                "Further rounds of reads whose merged page came out short.",
            ),
            read_stand_ins: counter(
                "messina_coordinator_read_stand_ins_total",
                "Replicas asked to stand in for one that failed or was slow to answer a read.",
            ),
            tombstone_warnings: counter(
                "messina_coordinator_tombstone_warnings_total",
                "Pages that met more tombstones than tombstone_warn_threshold.",
            ),
            unavailables: counter(
                "messina_coordinator_unavailables_total",
                "Requests refused: too few replicas.",
            ),
            read_latency: latency("messina_coordinator_read_latency_us", "Reads by key, to their answer."),
            range_latency: latency(
                "messina_coordinator_range_latency_us",
                "Reads of ranges, to their answer.",
            ),
            write_latency: latency("messina_coordinator_write_latency_us", "Writes, to their answer."),
        }
    }
}
