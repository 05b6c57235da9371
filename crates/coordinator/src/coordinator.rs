//! What coordination on one shard holds: the newest snapshots, the doors to other nodes, this node's replica.

use crate::limits::LIVENESS_PAUSE;
use base::HashMap;
use replica::Local;
use rpc::Peer;
use runtime::Group;
use runtime::metrics::Counter;
use schema::{Schema, TableId};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use topology::{NodeIndex, Snapshot, required};
use types::Consistency;

/// Coordinates requests on one shard.
pub struct Coordinator {
    topology: RefCell<Rc<Snapshot>>,
    schema: RefCell<Arc<Schema>>,
    local: Local,
    peers: HashMap<NodeIndex, Peer>,
    closed: Cell<bool>,
    /// The table and level that this node alone was last found to suffice for, under the newest snapshots.
    sufficed: Cell<Option<(TableId, Consistency)>>,
    pub(crate) metrics: Metrics,
}

pub(crate) struct Metrics {
    pub(crate) reads: Counter,
    pub(crate) writes: Counter,
    pub(crate) digest_mismatches: Counter,
    pub(crate) read_repairs: Counter,
    pub(crate) short_reads: Counter,
    pub(crate) read_stand_ins: Counter,
    pub(crate) unavailables: Counter,
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
            sufficed: Cell::new(None),
            metrics: Metrics::register(),
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

    /// This node's replica.
    pub fn local(&self) -> &Local {
        &self.local
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
    fn register() -> Metrics {
        let counter = |name, help| runtime::metrics::counter(name, help, &[]);
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
            unavailables: counter(
                "messina_coordinator_unavailables_total",
                "Requests refused: too few replicas.",
            ),
        }
    }
}
