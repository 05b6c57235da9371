//! What the engine is told.

use crate::info::NodeInfo;
use core::time::Duration;

/// Settings of the engine, the same on every shard.
#[derive(Debug, Clone)]
pub struct Settings {
    /// This node and its peers.
    pub info: NodeInfo,
    /// How long a read of named partitions may take.
    pub read_timeout: Duration,
    /// How long a read of a range may take, one page of it.
    pub range_timeout: Duration,
    /// How long a write may take.
    pub write_timeout: Duration,
    /// How long a truncation may take.
    pub truncate_timeout: Duration,
    /// The bytes after which a page is cut.
    pub page_bytes: u32,
    /// Batches of several partitions above this many bytes carry a warning.
    pub batch_warn_bytes: usize,
    /// Batches of several partitions above this many bytes are refused.
    pub batch_fail_bytes: usize,
}
