//! What the server is told.

use core::net::SocketAddr;

/// Settings of the native protocol server, the same on every shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Where clients connect; port 0 takes a free one.
    pub address: SocketAddr,
    /// The shard-aware port on the same address; `None` serves none.
    pub shard_aware_port: Option<u16>,
    /// Whether the node must not start without the shard-aware port.
    pub shard_aware_port_required: bool,
    /// The largest frame accepted, in bytes.
    pub frame_bytes_max: usize,
    /// Connections served at once over all shards.
    pub connections_max: u32,
    /// Requests one shard serves at once.
    pub requests_per_shard_max: u32,
}
