//! What the rows of one system table are made from.

use crate::info::ClientInfo;
use crate::trace::Trace;
use base::histogram::Distribution;
use cluster::Roles;
use runtime::metrics::GroupUsage;
use std::sync::Arc;
use storage::snapshot::Snapshot;
use storage::{CacheStats, CompactionProgress, CompactionRecord, TableStats};

/// Live state; only what the table that is read needs is filled.
#[derive(Default)]
pub struct Live {
    /// The connections of every shard.
    pub clients: Vec<ClientInfo>,
    /// Prepared statements of this shard: id, keyspace, text.
    pub prepared: Vec<(Vec<u8>, Option<String>, String)>,
    /// Those of every shard, or those that are asked for, of whichever node.
    pub traces: Vec<Trace>,
    /// Every stored table, summed over shards, by keyspace and name.
    pub tables: Vec<TableStats>,
    /// Compactions that run.
    pub compactions: Vec<CompactionProgress>,
    /// Compactions that have run.
    pub history: Vec<CompactionRecord>,
    /// Snapshots on disk.
    pub snapshots: Vec<Snapshot>,
    /// Scheduling groups, summed over shards.
    pub groups: Vec<GroupUsage>,
    /// The row cache, summed over shards.
    pub row_cache: CacheStats,
    /// Shards of this node.
    pub shards: u16,
    /// What statements have done.
    pub statements: Statements,
    /// The roles that the cluster has agreed on.
    pub roles: Option<Arc<Roles>>,
}

/// What statements have done since the start.
#[derive(Clone, Default)]
pub struct Statements {
    /// Prepared statements that are kept, on this shard; every shard keeps the same.
    pub prepared: u64,
    /// Prepared statements that were let go.
    pub evicted: u64,
    /// Statements run by id.
    pub prepared_run: u64,
    /// Statements run from their text.
    pub text_run: u64,
    /// Partitions of each logged batch.
    pub logged_batches: Distribution,
    /// Partitions of each unlogged batch.
    pub unlogged_batches: Distribution,
    /// Partitions of each batch of counters.
    pub counter_batches: Distribution,
}

impl Statements {
    /// Adds what another shard's have done.
    pub fn merge(&mut self, other: &Statements) {
        self.prepared = self.prepared.max(other.prepared);
        self.evicted = self.evicted.max(other.evicted);
        self.prepared_run += other.prepared_run;
        self.text_run += other.text_run;
        self.logged_batches.merge(&other.logged_batches);
        self.unlogged_batches.merge(&other.unlogged_batches);
        self.counter_batches.merge(&other.counter_batches);
    }
}
