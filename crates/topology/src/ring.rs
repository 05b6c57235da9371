//! The token ring: which nodes hold a token under a replication rule.
//!
//! A token belongs to the first node token at or after it, wrapping around. Replicas follow clockwise, each node once.
//! Source: Cassandra's `SimpleStrategy` and `NetworkTopologyStrategy`, as stock drivers compute them.

use crate::{Node, NodeIndex};
use base::Token;
use schema::Replication;
use std::collections::BTreeMap;

/// Node tokens in ring order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ring {
    tokens: Vec<(Token, NodeIndex)>,
}

impl Ring {
    /// Collects the tokens of all nodes. O(tokens log tokens).
    pub fn new(nodes: &[Node]) -> Ring {
        let mut tokens: Vec<(Token, NodeIndex)> = Vec::new();
        for (index, node) in nodes.iter().enumerate() {
            tokens.extend(node.tokens.iter().map(|t| (*t, NodeIndex(index as u16))));
        }
        tokens.sort_unstable();
        tokens.dedup_by_key(|t| t.0);
        Ring { tokens }
    }

    /// Node tokens in ring order.
    pub fn tokens(&self) -> &[(Token, NodeIndex)] {
        &self.tokens
    }

    /// Owners clockwise from a token, each entry of the ring once.
    fn clockwise(&self, token: Token) -> impl Iterator<Item = NodeIndex> + '_ {
        let first = self.tokens.partition_point(|t| t.0 < token);
        self.tokens[first..].iter().chain(&self.tokens[..first]).map(|t| t.1)
    }

    /// The nodes that hold a token, primary first. Fewer than the factor when there are fewer nodes.
    pub fn replicas(
        &self,
        nodes: &[Node],
        replication: &Replication,
        local: NodeIndex,
        token: Token,
    ) -> Vec<NodeIndex> {
        match replication {
            Replication::Local => vec![local],
            Replication::Simple { factor } => self.simple(token, *factor as usize),
            Replication::NetworkTopology { factors } => self.network(nodes, factors, token),
        }
    }

    fn simple(&self, token: Token, factor: usize) -> Vec<NodeIndex> {
        let mut replicas = Vec::with_capacity(factor.min(8));
        for node in self.clockwise(token) {
            if replicas.len() == factor {
                break;
            }
            if !replicas.contains(&node) {
                replicas.push(node);
            }
        }
        replicas
    }

    /// Per datacenter: racks not yet used come first, skipped nodes fill up when racks run out.
    fn network(&self, nodes: &[Node], factors: &BTreeMap<String, u32>, token: Token) -> Vec<NodeIndex> {
        let mut dcs: BTreeMap<&str, DcState> = BTreeMap::new();
        for (dc, factor) in factors {
            dcs.insert(dc, DcState::new(nodes, dc, *factor as usize));
        }
        let mut replicas = Vec::new();
        for index in self.clockwise(token) {
            let node = &nodes[index.0 as usize];
            let Some(dc) = dcs.get_mut(node.dc.as_str()) else {
                continue;
            };
            if !replicas.contains(&index) {
                dc.offer(index, &node.rack, &mut replicas);
            }
        }
        replicas
    }
}

struct DcState {
    wanted: usize,
    rack_count: usize,
    racks: Vec<String>,
    skipped: Vec<NodeIndex>,
    taken: usize,
}

impl DcState {
    fn new(nodes: &[Node], dc: &str, factor: usize) -> DcState {
        let mut racks: Vec<&str> = nodes.iter().filter(|n| n.dc == dc).map(|n| n.rack.as_str()).collect();
        let members = racks.len();
        racks.sort_unstable();
        racks.dedup();
        DcState {
            wanted: factor.min(members),
            rack_count: racks.len(),
            racks: Vec::new(),
            skipped: Vec::new(),
            taken: 0,
        }
    }

    fn offer(&mut self, index: NodeIndex, rack: &str, replicas: &mut Vec<NodeIndex>) {
        if self.taken == self.wanted || self.skipped.contains(&index) {
            return;
        }
        let known = self.racks.iter().any(|r| r == rack);
        if known && self.racks.len() < self.rack_count {
            return self.skipped.push(index);
        }
        self.take(index, replicas);
        if known {
            return;
        }
        self.racks.push(rack.to_string());
        if self.racks.len() == self.rack_count {
            for index in std::mem::take(&mut self.skipped) {
                if self.taken < self.wanted {
                    self.take(index, replicas);
                }
            }
        }
    }

    fn take(&mut self, index: NodeIndex, replicas: &mut Vec<NodeIndex>) {
        replicas.push(index);
        self.taken += 1;
    }
}
