//! Which nodes of a walk around the ring hold a token: `SimpleStrategy` and `NetworkTopologyStrategy`.
//!
//! In a datacenter each rack gets a replica before one gets a second, but as many replicas as are more than racks are
//! taken as they come. Source: Cassandra 4.1.

use schema::Replication;
use std::collections::{BTreeMap, BTreeSet};

/// Datacenter and rack of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Location<'n> {
    /// The datacenter's name.
    pub dc: &'n str,
    /// The rack's name.
    pub rack: &'n str,
}

/// Places replicas: knows how many nodes there are, in all and in each datacenter, on how many racks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Placement {
    nodes: usize,
    dcs: BTreeMap<String, DcSize>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct DcSize {
    nodes: usize,
    racks: usize,
}

impl Placement {
    /// Among these nodes, each of which must have a token: one that never comes in a walk would be waited for. O(nodes log nodes).
    pub fn among<'n>(nodes: impl Iterator<Item = Location<'n>>) -> Placement {
        let mut placement = Placement::default();
        let mut racks = BTreeSet::new();
        for node in nodes {
            placement.nodes += 1;
            let dc = match placement.dcs.get_mut(node.dc) {
                Some(dc) => dc,
                None => placement.dcs.entry(node.dc.to_owned()).or_default(),
            };
            dc.nodes += 1;
            dc.racks += usize::from(racks.insert(node));
        }
        placement
    }

    /// The nodes that hold a token, in the order of a walk `around` the ring from its owner on; each may come more than once.
    /// Fewer than the factor when there are fewer nodes; none under [`Replication::Local`], of which tokens say nothing.
    /// Ends with the last one found.
    pub fn replicas<'n>(
        &self,
        replication: &Replication,
        around: impl Iterator<Item = usize>,
        location: impl Fn(usize) -> Location<'n>,
    ) -> Vec<usize> {
        match replication {
            Replication::Local => Vec::new(),
            Replication::Simple { factor } => take(around, (*factor as usize).min(self.nodes), |_| true),
            Replication::NetworkTopology { factors } => {
                let mut rooms: BTreeMap<&str, Room<'_>> = BTreeMap::new();
                for (name, factor) in factors {
                    if let Some(dc) = self.dcs.get(name) {
                        rooms.insert(name, Room::new(dc, *factor as usize));
                    }
                }
                let wanted = rooms.values().map(|room| room.wanted).sum();
                take(around, wanted, |at| {
                    let Location { dc, rack } = location(at);
                    rooms.get_mut(dc).is_some_and(|room| room.takes(rack))
                })
            }
        }
    }
}

/// The first nodes that are accepted, each once.
fn take(
    around: impl Iterator<Item = usize>,
    wanted: usize,
    mut accepts: impl FnMut(usize) -> bool,
) -> Vec<usize> {
    let mut found = Vec::with_capacity(wanted);
    if wanted == 0 {
        return found;
    }
    for at in around {
        if !found.contains(&at) && accepts(at) {
            found.push(at);
            if found.len() == wanted {
                break;
            }
        }
    }
    found
}

/// What a datacenter has to hold yet.
struct Room<'n> {
    wanted: usize,
    /// Replicas beyond one for each rack.
    repeats: usize,
    seen: BTreeSet<&'n str>,
}

impl<'n> Room<'n> {
    fn new(dc: &DcSize, factor: usize) -> Room<'n> {
        Room { wanted: factor.min(dc.nodes), repeats: factor.saturating_sub(dc.racks), seen: BTreeSet::new() }
    }

    fn takes(&mut self, rack: &'n str) -> bool {
        if self.wanted == 0 {
            return false;
        }
        if !self.seen.insert(rack) {
            if self.repeats == 0 {
                return false;
            }
            self.repeats -= 1;
        }
        self.wanted -= 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nodes that come in turn around the ring, each as often as there are tokens.
    fn placed(nodes: &[(&str, &str)], factors: &[(&str, u32)], around: &[usize]) -> Vec<usize> {
        let location = |at: usize| Location { dc: nodes[at].0, rack: nodes[at].1 };
        let factors = factors.iter().map(|(dc, factor)| ((*dc).to_owned(), *factor)).collect();
        let placement = Placement::among((0..nodes.len()).map(location));
        placement.replicas(&Replication::NetworkTopology { factors }, around.iter().copied(), location)
    }

    #[test]
    fn racks_come_before_repeats_but_for_what_is_more_than_racks() {
        let nodes = [("a", "1"), ("a", "1"), ("b", "1"), ("a", "2"), ("b", "2"), ("a", "2")];
        let around = [0, 0, 1, 2, 3, 4, 5];
        assert_eq!(placed(&nodes, &[("a", 2), ("b", 1)], &around), [0, 2, 3]);
        // Three on two racks: the second of rack 1 is taken as it comes, a third would not be.
        assert_eq!(placed(&nodes, &[("a", 3)], &around), [0, 1, 3]);
        assert_eq!(placed(&nodes, &[("a", 9), ("c", 3)], &around), [0, 1, 3, 5], "as many as there are");
        let crowded = [("a", "1"), ("a", "1"), ("a", "1"), ("a", "2")];
        assert_eq!(
            placed(&crowded, &[("a", 3)], &[0, 1, 2, 3]),
            [0, 1, 3],
            "a rack more before a third of one"
        );
    }

    #[test]
    fn a_simple_keyspace_has_each_node_once() {
        let placement = Placement::among([Location { dc: "a", rack: "1" }; 3].into_iter());
        let place = |factor, around: &[usize]| {
            let around = around.iter().copied();
            placement
                .replicas(&Replication::Simple { factor }, around, |_| unreachable!("racks do not matter"))
        };
        assert_eq!(place(2, &[1, 1, 2, 0]), [1, 2]);
        assert_eq!(place(9, &[1, 1, 2, 0]), [1, 2, 0]);
        assert!(place(0, &[1]).is_empty());
    }
}
