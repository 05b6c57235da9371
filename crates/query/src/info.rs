//! What the engine is told about the node it runs in, and about the clients it serves.

use core::net::{IpAddr, SocketAddr};
use std::collections::BTreeMap;

/// What of this node is fixed from start to stop and no other node needs to know. Who and where it is: the snapshot of the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeInfo {
    /// The cluster's name.
    pub cluster_name: String,
    /// The address listened on for other nodes.
    pub listen_address: IpAddr,
    /// The port listened on for other nodes.
    pub listen_port: u16,
    /// Seconds since the epoch at the start.
    pub started_at_s: i32,
    /// What `system_views.settings` shows: each name once.
    pub settings: Vec<(String, String)>,
}

/// One client connection, as `system_views.clients` shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientInfo {
    /// The client's end of the connection.
    pub address: SocketAddr,
    /// `startup`, `authenticating` or `ready`.
    pub stage: &'static str,
    /// Who has logged in.
    pub user: Option<String>,
    /// The version of its frames.
    pub protocol_version: u8,
    /// What STARTUP said.
    pub options: BTreeMap<String, String>,
    /// The keyspace in use.
    pub keyspace: Option<String>,
    /// The version of TLS and the cipher suite, in Java's words.
    pub tls: Option<(&'static str, String)>,
    /// Requests answered so far.
    pub request_count: u64,
}
