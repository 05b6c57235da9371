//! What an operator decides of hints.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

/// What holds from the start, for the whole node. What operators may change later is in [`Switches`].
#[derive(Debug, Clone)]
pub struct Settings {
    /// The folder of the files.
    pub directory: PathBuf,
    /// What operators may change.
    pub switches: Switches,
    /// Whether hints of an earlier life count for how long their target is down.
    pub is_window_persistent: bool,
    /// How long a hint may wait for the disk.
    pub flush_period: Duration,
    /// Bytes of a file at which the next one is begun.
    pub file_bytes_max: u64,
    /// Bytes kept for one target by all shards; 0 is no limit.
    pub host_bytes_max: u64,
    /// Targets that one shard delivers to at once; at least one.
    pub deliveries_max: usize,
}

/// What operators may change while the node runs, until its next start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Switches {
    /// Whether hints are taken.
    pub is_enabled: bool,
    /// Datacenters whose nodes get none.
    pub disabled_dcs: BTreeSet<String>,
    /// Nothing is delivered.
    pub is_paused: bool,
    /// None are taken for a node that has been down for longer.
    pub window: Duration,
    /// Bytes per second for each target, before it is divided by the number of other nodes; 0: as fast as it goes.
    pub throttle: u64,
}
