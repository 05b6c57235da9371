//! A member of the cluster.

use base::Token;
use std::net::{IpAddr, SocketAddr};

/// Index of a node within one snapshot. Meaningless in another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeIndex(pub u16);

/// What every node knows about a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Identity for life: a 128-bit UUID.
    pub host_id: u128,
    /// Where other nodes call it.
    pub internode: SocketAddr,
    /// Where clients connect.
    pub native: SocketAddr,
    /// Address shown as `peer` and `broadcast_address`.
    pub broadcast: IpAddr,
    /// Datacenter.
    pub dc: String,
    /// Rack.
    pub rack: String,
    /// Its tokens, ascending.
    pub tokens: Vec<Token>,
    /// How many shards it runs.
    pub shards: u16,
}
