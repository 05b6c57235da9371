//! The token ring: which nodes hold a token under a replication rule.
//!
//! A token belongs to the first node token at or after it, wrapping around. Replicas follow clockwise, each node once.

use crate::{Location, Node, NodeIndex, Placement};
use base::Token;
use schema::Replication;

/// Node tokens in ring order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ring {
    tokens: Vec<(Token, NodeIndex)>,
    placement: Placement,
}

fn location(node: &Node) -> Location<'_> {
    Location { dc: &node.dc, rack: &node.rack }
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
        let in_ring = nodes.iter().filter(|node| !node.tokens.is_empty());
        Ring { tokens, placement: Placement::among(in_ring.map(location)) }
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
        if *replication == Replication::Local {
            return vec![local];
        }
        let around = self.clockwise(token).map(|node| usize::from(node.0));
        let placed = self.placement.replicas(replication, around, |at| location(&nodes[at]));
        placed.into_iter().map(|at| NodeIndex(at as u16)).collect()
    }
}
