//! What is kept for nodes that are down, as Cassandra's keys have it.

use core::time::Duration;
use std::collections::BTreeSet;
use std::path::PathBuf;

/// How hints are kept and delivered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HintRules {
    /// Whether they are taken.
    pub enabled: bool,
    /// Datacenters whose nodes get none.
    pub disabled_dcs: BTreeSet<String>,
    /// The folder of their files; inside the data folder unless given.
    pub directory: Option<PathBuf>,
    /// None are taken for a node that has been down for longer.
    pub window: Duration,
    /// Whether what an earlier life of this node kept counts for how long the other has been down.
    pub is_window_persistent: bool,
    /// How long a hint may wait for the disk.
    pub flush_period: Duration,
    /// Bytes of a file at which the next one is begun.
    pub file_bytes_max: u64,
    /// Bytes kept for one node; 0 is no limit.
    pub host_bytes_max: u64,
    /// Bytes per second to each node, divided by the number of other nodes; 0 is no limit.
    pub throttle: u64,
    /// Nodes that one shard delivers to at once.
    pub deliveries_max: u32,
}

impl HintRules {
    /// What holds when nobody says anything.
    pub(crate) fn standard() -> HintRules {
        HintRules {
            enabled: true,
            disabled_dcs: BTreeSet::new(),
            directory: None,
            window: Duration::from_secs(3 * 60 * 60),
            is_window_persistent: true,
            flush_period: Duration::from_secs(10),
            file_bytes_max: 128 << 20,
            host_bytes_max: 0,
            throttle: 1 << 20,
            deliveries_max: 2,
        }
    }
}
