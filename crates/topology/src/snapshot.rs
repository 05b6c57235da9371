//! Membership, ring and liveness at one moment.

use crate::{Node, NodeIndex, Ring};
use base::Token;
use schema::Replication;
use std::sync::Arc;

/// What a request sees of the cluster. Cheap to clone: the ring is shared.
#[derive(Debug, Clone)]
pub struct Snapshot {
    members: Arc<Members>,
    /// Liveness by node index, as last published on this shard.
    alive: Vec<bool>,
    /// Grows with every published change.
    pub epoch: u64,
}

#[derive(Debug)]
struct Members {
    nodes: Vec<Node>,
    local: NodeIndex,
    ring: Ring,
}

impl Snapshot {
    /// A snapshot in which every node is alive. Panics when `local` is not an index of `nodes`.
    pub fn new(nodes: Vec<Node>, local: NodeIndex) -> Snapshot {
        assert!((local.0 as usize) < nodes.len(), "the local node is a member");
        let ring = Ring::new(&nodes);
        let alive = vec![true; nodes.len()];
        Snapshot { members: Arc::new(Members { nodes, local, ring }), alive, epoch: 0 }
    }

    /// The same members with one node's liveness changed.
    pub fn with_alive(&self, node: NodeIndex, alive: bool) -> Snapshot {
        let mut next = self.clone();
        next.alive[node.0 as usize] = alive || node == self.members.local;
        next.epoch += 1;
        next
    }

    /// All nodes; a [`NodeIndex`] indexes this.
    pub fn nodes(&self) -> &[Node] {
        &self.members.nodes
    }

    /// One node.
    pub fn node(&self, index: NodeIndex) -> &Node {
        &self.members.nodes[index.0 as usize]
    }

    /// This node's index.
    pub fn local_index(&self) -> NodeIndex {
        self.members.local
    }

    /// This node.
    pub fn local(&self) -> &Node {
        self.node(self.members.local)
    }

    /// Whether a node is believed to answer. The local node always is.
    pub fn is_alive(&self, index: NodeIndex) -> bool {
        self.alive[index.0 as usize]
    }

    /// The ring.
    pub fn ring(&self) -> &Ring {
        &self.members.ring
    }

    /// Whether this node is the only one, so that it holds every token.
    pub fn is_single(&self) -> bool {
        self.members.nodes.len() == 1
    }

    /// The nodes that hold a token, primary first.
    pub fn replicas(&self, replication: &Replication, token: Token) -> Vec<NodeIndex> {
        if self.is_single() {
            return vec![self.members.local];
        }
        self.members.ring.replicas(&self.members.nodes, replication, self.members.local, token)
    }
}
