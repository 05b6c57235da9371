//! Nodes for tests.

use base::Token;
use topology::Node;

/// A live node of one shard and one token in a datacenter.
pub(crate) fn node(octet: u8, dc: &str) -> Node {
    let ip = std::net::IpAddr::from([127, 0, 0, octet]);
    Node {
        host_id: u128::from(octet),
        internode: (ip, 7000).into(),
        native: (ip, 9042).into(),
        broadcast: ip,
        dc: dc.to_string(),
        rack: "r".to_string(),
        tokens: vec![Token(i64::from(octet))],
        shards: 1,
    }
}
