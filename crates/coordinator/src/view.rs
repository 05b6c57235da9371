//! What a request sees of schema and cluster, from its beginning to its end.

use crate::pace::{Pace, Paces};
use base::{HashMap, HostId};
use mutation::Mutation;
use schema::{Keyspace, Schema, SpeculativeRetry, Table, TableId};
use std::cell::RefCell;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use storage::Point;
use topology::{Member, Placements, Snapshot, Version};

/// One schema and one snapshot, with what follows from both, worked out when it is first wanted. A request takes the newest one and
/// keeps it: an answer that is planned on one snapshot is never judged by another.
pub struct View {
    /// The schema.
    pub schema: Arc<Schema>,
    /// The cluster.
    pub snapshot: Arc<Snapshot>,
    tables: RefCell<HashMap<TableId, Rc<Placed>>>,
    paces: Rc<Paces>,
    /// Whether there are nodes of other datacenters.
    pub(crate) spans_dcs: bool,
}

/// A version as stores compare it.
pub(crate) fn point_of(version: Version) -> Point {
    Point(version.epoch, version.index)
}

/// A table, who holds what of it, and what its options say of requests.
pub(crate) struct Placed {
    pub(crate) table: Arc<Table>,
    pub(crate) keyspace: Arc<Keyspace>,
    pub(crate) placements: Arc<Placements>,
    /// Outlives the view.
    pub(crate) pace: Rc<Pace>,
    pub(crate) speculative_retry: SpeculativeRetry,
    pub(crate) additional_write_policy: SpeculativeRetry,
    /// Whether a read brings replicas up to date before it is answered.
    pub(crate) repairs_on_read: bool,
}

impl View {
    pub(crate) fn new(schema: Arc<Schema>, snapshot: Arc<Snapshot>, paces: Rc<Paces>) -> View {
        let spans_dcs = snapshot.members().iter().any(|member| member.dc != snapshot.local_dc());
        View { schema, snapshot, tables: RefCell::default(), paces, spans_dcs }
    }

    /// The point in the cluster's history that this is of: what is planned on it says so.
    pub fn point(&self) -> Point {
        point_of(self.snapshot.members().version())
    }

    /// A table with its placements; `None`: it is gone, or not there yet. O(1) but for the first time.
    pub(crate) fn placed(&self, table: TableId) -> Option<Rc<Placed>> {
        if let Some(placed) = self.tables.borrow().get(&table) {
            return Some(placed.clone());
        }
        let definition = self.schema.table_by_id(table)?.clone();
        let keyspace = self.schema.keyspace(&definition.keyspace)?.clone();
        let placements = self.snapshot.placements(&keyspace.replication);
        let options = &definition.options;
        // A spelling of a newer release is none at all.
        let policy = |text: &str| SpeculativeRetry::parse(text).unwrap_or(SpeculativeRetry::Never);
        let placed = Rc::new(Placed {
            pace: self.paces.of(table),
            speculative_retry: policy(&options.speculative_retry),
            additional_write_policy: policy(&options.additional_write_policy),
            repairs_on_read: options.read_repair != "NONE",
            table: definition,
            keyspace,
            placements,
        });
        self.tables.borrow_mut().insert(table, placed.clone());
        Some(placed)
    }

    /// Who holds a mutation or will, in the order of the ring; `None`: its table is gone.
    pub fn holders_of(&self, mutation: &Mutation) -> Option<Vec<HostId>> {
        let placed = self.placed(mutation.table())?;
        let holders = placed.placements.at(mutation.token());
        Some(holders.read.iter().chain(&holders.pending).copied().collect())
    }

    /// Whether a mutation goes to this node and to no other.
    pub(crate) fn is_only_here(&self, mutation: &Mutation) -> bool {
        self.placed(mutation.table()).is_some_and(|placed| {
            let holders = placed.placements.at(mutation.token());
            holders.pending.is_empty() && *holders.read == [self.snapshot.local_id()]
        })
    }

    /// The address that stands for a member in errors.
    pub(crate) fn address_of(&self, host: HostId) -> IpAddr {
        // Whoever was planned on is a member of the snapshot that the plan was made of.
        self.snapshot.member(host).map_or(IpAddr::from([0, 0, 0, 0]), Member::broadcast)
    }
}
