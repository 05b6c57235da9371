//! What the server is told.

use core::net::SocketAddr;
use core::time::Duration;
use tls::{Encryption, ServerSettings};

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
    /// Connections served at once to one address.
    pub connections_per_ip_max: Option<u32>,
    /// Requests one shard serves at once.
    pub requests_per_shard_max: u32,
    /// Bytes of requests being served at once over all shards, and as many of large ones that are arriving; a share of the
    /// memory unless given.
    pub request_bytes_max: Option<u64>,
    /// Bytes of requests of one address being served at once on one shard.
    pub request_bytes_per_ip_max: Option<u64>,
    /// Requests a second over all shards.
    pub requests_per_second_max: Option<u32>,
    /// Whether clients are told `Overloaded` instead of being read more slowly, also if they did not ask for that.
    pub throw_on_overload: bool,
    /// A connection that sends nothing for so long is closed.
    pub idle_timeout: Option<Duration>,
    /// Whether the system asks silent clients if they are still there.
    pub keep_alive: bool,
    /// Whether versions of the protocol below the newest are served.
    pub older_versions: bool,
    /// The keys, where anything is encrypted.
    pub tls: Option<ServerSettings>,
    /// Whether the ports are encrypted; where `ssl_port` is another port, only that one.
    pub encryption: Encryption,
    /// A port of its own for encrypted connections.
    pub ssl_port: Option<u16>,
    /// A shard-aware port of its own for encrypted connections.
    pub shard_aware_port_ssl: Option<u16>,
}

impl Settings {
    /// Whether the ordinary and the shard-aware port are encrypted.
    pub(crate) fn ordinary_encryption(&self) -> Encryption {
        match self.ssl_port {
            Some(port) if port != self.address.port() => Encryption::None,
            _ => self.encryption,
        }
    }
}
