//! What the engine is told about the node it runs in, and about the clients it serves.

use core::net::{IpAddr, SocketAddr};
use std::collections::BTreeMap;

/// The identity and addresses of this node. Fixed from start to stop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeInfo {
    /// The cluster's name.
    pub cluster_name: String,
    /// This node's identity.
    pub host_id: u128,
    /// This node's data centre.
    pub data_center: String,
    /// This node's rack.
    pub rack: String,
    /// The address other nodes are told.
    pub broadcast_address: IpAddr,
    /// The address listened on for other nodes.
    pub listen_address: IpAddr,
    /// The port between nodes.
    pub storage_port: u16,
    /// The address clients are told.
    pub rpc_address: IpAddr,
    /// The port clients are told.
    pub rpc_port: u16,
    /// This node's tokens; never empty.
    pub tokens: Vec<i64>,
    /// Seconds since the epoch at the start.
    pub started_at_s: i32,
    /// The other members.
    pub peers: Vec<PeerInfo>,
    /// What `system_views.settings` shows: each name once.
    pub settings: Vec<(String, String)>,
}

/// Another member, as clients are told about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerInfo {
    /// Its address between nodes.
    pub address: IpAddr,
    /// Its port between nodes.
    pub storage_port: u16,
    /// Its identity.
    pub host_id: u128,
    /// Its data centre.
    pub data_center: String,
    /// Its rack.
    pub rack: String,
    /// Its address for clients.
    pub rpc_address: IpAddr,
    /// Its port for clients.
    pub rpc_port: u16,
    /// Its tokens; never empty.
    pub tokens: Vec<i64>,
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
