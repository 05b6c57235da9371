//! Consistency levels as numbers: how many replicas must answer, and whether enough are alive.

use crate::{NodeIndex, Snapshot};
use schema::Replication;
use types::Consistency;

/// How many answers a request waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Requirement {
    /// Answers that must arrive.
    pub count: usize,
    /// Whether only replicas of the local datacenter count.
    pub local_dc: bool,
}

/// Too few replicas are alive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shortfall {
    /// Replicas the level asks for.
    pub required: usize,
    /// Replicas alive that count.
    pub alive: usize,
}

/// What a consistency level asks of a request whose token these replicas hold.
/// Serial levels are what a read at them waits for: the quorum of their scope.
/// Errors: the shortfall, by the replication factor the keyspace names, not by how many nodes there are.
pub fn required(
    snapshot: &Snapshot,
    replication: &Replication,
    consistency: Consistency,
    replicas: &[NodeIndex],
) -> Result<Requirement, Shortfall> {
    let requirement = requirement(snapshot, replication, consistency);
    let local_dc = &snapshot.local().dc;
    let counts = |n: &&NodeIndex| !requirement.local_dc || snapshot.node(**n).dc == *local_dc;
    let alive = replicas.iter().filter(counts).filter(|n| snapshot.is_alive(**n)).count();
    if alive < requirement.count {
        return Err(Shortfall { required: requirement.count, alive });
    }
    if consistency == Consistency::EachQuorum {
        each_quorum(snapshot, replication, replicas)?;
    }
    Ok(requirement)
}

fn requirement(snapshot: &Snapshot, replication: &Replication, consistency: Consistency) -> Requirement {
    let total = total_factor(replication);
    let local = local_factor(snapshot, replication);
    let all_dcs = |count| Requirement { count, local_dc: false };
    let one_dc =
        |count| Requirement { count, local_dc: matches!(replication, Replication::NetworkTopology { .. }) };
    match consistency {
        Consistency::Any | Consistency::One => all_dcs(1),
        Consistency::Two => all_dcs(2),
        Consistency::Three => all_dcs(3),
        Consistency::Quorum | Consistency::Serial => all_dcs(total / 2 + 1),
        Consistency::All => all_dcs(total),
        Consistency::EachQuorum => match replication {
            Replication::NetworkTopology { factors } => {
                all_dcs(factors.values().map(|f| *f as usize / 2 + 1).sum())
            }
            Replication::Local | Replication::Simple { .. } => all_dcs(total / 2 + 1),
        },
        Consistency::LocalQuorum | Consistency::LocalSerial => one_dc(local / 2 + 1),
        Consistency::LocalOne => one_dc(1),
    }
}

fn each_quorum(
    snapshot: &Snapshot,
    replication: &Replication,
    replicas: &[NodeIndex],
) -> Result<(), Shortfall> {
    let Replication::NetworkTopology { factors } = replication else {
        return Ok(());
    };
    for (dc, factor) in factors {
        let in_dc = replicas.iter().filter(|n| snapshot.node(**n).dc == *dc);
        let alive = in_dc.filter(|n| snapshot.is_alive(**n)).count();
        let required = *factor as usize / 2 + 1;
        if alive < required {
            return Err(Shortfall { required, alive });
        }
    }
    Ok(())
}

fn total_factor(replication: &Replication) -> usize {
    match replication {
        Replication::Local => 1,
        Replication::Simple { factor } => *factor as usize,
        Replication::NetworkTopology { factors } => factors.values().map(|f| *f as usize).sum(),
    }
}

fn local_factor(snapshot: &Snapshot, replication: &Replication) -> usize {
    match replication {
        Replication::NetworkTopology { factors } => {
            factors.get(&snapshot.local().dc).map_or(0, |f| *f as usize)
        }
        Replication::Local | Replication::Simple { .. } => total_factor(replication),
    }
}

#[cfg(test)]
mod tests {
    //! One node with factor 3: ONE works, QUORUM says what is missing.
    use super::*;
    use crate::Node;
    use base::Token;

    fn node(octet: u8, dc: &str, rack: &str, tokens: &[i64]) -> Node {
        let ip = std::net::IpAddr::from([127, 0, 0, octet]);
        Node {
            host_id: u128::from(octet),
            internode: (ip, 7000).into(),
            native: (ip, 9042).into(),
            broadcast: ip,
            dc: dc.to_string(),
            rack: rack.to_string(),
            tokens: tokens.iter().map(|t| Token(*t)).collect(),
            shards: 1,
        }
    }

    #[test]
    fn one_node_with_factor_three() {
        let snapshot = Snapshot::new(vec![node(1, "dc1", "r1", &[0])], NodeIndex(0));
        let replication = Replication::Simple { factor: 3 };
        let replicas = snapshot.replicas(&replication, Token(7));
        let ask = |level| required(&snapshot, &replication, level, &replicas);
        assert_eq!(ask(Consistency::One).map(|r| r.count), Ok(1));
        assert_eq!(ask(Consistency::Quorum), Err(Shortfall { required: 2, alive: 1 }));
        assert_eq!(ask(Consistency::All), Err(Shortfall { required: 3, alive: 1 }));
    }

    #[test]
    fn replicas_follow_clockwise_and_wrap() {
        let nodes =
            vec![node(1, "a", "r1", &[-100, 50]), node(2, "a", "r1", &[0]), node(3, "a", "r2", &[100])];
        let snapshot = Snapshot::new(nodes, NodeIndex(0));
        let simple = Replication::Simple { factor: 2 };
        let at = |token| snapshot.replicas(&simple, Token(token)).iter().map(|n| n.0).collect::<Vec<_>>();
        assert_eq!(at(-100), [0, 1]);
        assert_eq!(at(1), [0, 2]);
        assert_eq!(at(101), [0, 1]);
        let network = Replication::NetworkTopology { factors: [("a".to_string(), 2)].into() };
        let racks = snapshot.replicas(&network, Token(-100));
        assert_eq!(racks, [NodeIndex(0), NodeIndex(2)], "the second rack comes before the second node");
    }

    #[test]
    fn a_dead_node_does_not_count() {
        let nodes = vec![node(1, "a", "r", &[0]), node(2, "a", "r", &[10]), node(3, "a", "r", &[20])];
        let snapshot = Snapshot::new(nodes, NodeIndex(0)).with_alive(NodeIndex(1), false);
        let replication = Replication::Simple { factor: 3 };
        let replicas = snapshot.replicas(&replication, Token(5));
        assert!(required(&snapshot, &replication, Consistency::Quorum, &replicas).is_ok());
        let all = required(&snapshot, &replication, Consistency::All, &replicas);
        assert_eq!(all, Err(Shortfall { required: 3, alive: 2 }));
    }
}
