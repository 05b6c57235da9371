//! Who holds a token: what a node's system tables tell of the ring, of the replication of keyspaces, and of who may be asked.
//!
//! ```text
//!  tokens of all nodes ──► replicas of a token, by the keyspace's replication ──► those of them that may be asked, a tier of them
//! ```
//! Nodes that are not asked count as replicas all the same: of three replicas in two datacenters, one datacenter's are left.

use crate::connection::Connection;
use crate::error::Error;
use crate::outcome::RowSet;
use base::Token;
use protocol::request::Parameters;
use schema::Replication;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use topology::{Location, Placement};
use types::{Consistency, Value};

/// Which nodes of a ring are asked: those that fit all that is said.
#[derive(Clone, Debug, Default)]
pub struct Usable {
    /// In this datacenter.
    pub datacenter: Option<String>,
    /// In this rack.
    pub rack: Option<String>,
    /// One of these addresses; none for any.
    pub addresses: Vec<IpAddr>,
}

impl std::fmt::Display for Usable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let addresses: Vec<String> = self.addresses.iter().map(IpAddr::to_string).collect();
        let of = |what: &str, name: &Option<String>| name.as_ref().map(|name| format!("{what} {name}"));
        let listed = (!addresses.is_empty()).then(|| format!("one of {}", addresses.join(", ")));
        let parts = [of("datacenter", &self.datacenter), of("rack", &self.rack), listed];
        f.write_str(&parts.into_iter().flatten().collect::<Vec<_>>().join(", "))
    }
}

impl Usable {
    fn fits(&self, place: &Place) -> bool {
        let same = |wanted: &Option<String>, is: &str| wanted.as_ref().is_none_or(|wanted| wanted == is);
        same(&self.datacenter, &place.datacenter)
            && same(&self.rack, &place.rack)
            && (self.addresses.is_empty() || self.addresses.contains(&place.address.ip()))
    }
}

/// Where a node is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Of its clients.
    pub address: SocketAddr,
    /// The datacenter's name.
    pub datacenter: String,
    /// The rack's name.
    pub rack: String,
}

/// What the system tables of one node say.
#[derive(Debug, Default)]
pub(crate) struct Told {
    pub(crate) cluster: String,
    nodes: Vec<(Place, Vec<Token>)>,
    replications: BTreeMap<String, Replication>,
}

/// A node of the ring: where it is, and its tier with its number in the pool if it may be asked.
struct Member {
    place: Place,
    asked: Option<(usize, usize)>,
}

/// Nodes that are asked alike.
#[derive(Default)]
pub(crate) struct Tier {
    /// By their numbers in the pool.
    pub(crate) nodes: Vec<usize>,
    /// Tokens in order, each with its node; those of nodes that are not asked are the next one's.
    pub(crate) tokens: Vec<(Token, usize)>,
    /// Of each keyspace that was asked about, the replicas of each token of the whole ring; none for one whose replication says nothing.
    replicas: RefCell<BTreeMap<String, Rc<Replicas>>>,
}

/// Numbers of nodes in the pool, for each token of the whole ring in order.
type Replicas = Vec<Box<[usize]>>;

/// One reading of the ring.
pub(crate) struct Ring {
    members: Vec<Member>,
    /// All tokens in order, each with its member.
    tokens: Vec<(Token, usize)>,
    replications: BTreeMap<String, Replication>,
    placement: Placement,
    /// Those that are asked, then those that are asked while they are away. The first has a node at least.
    pub(crate) tiers: Vec<Tier>,
}

impl Told {
    /// Asks a node that was reached at this address. Errors: of the connection, of the server, of its answers.
    pub(crate) async fn ask(contact: SocketAddr, connection: &Connection) -> Result<Told, Error> {
        let at_one = Parameters::at(Consistency::One);
        let mut told = Told::default();
        let text = "SELECT cluster_name, data_center, rack, tokens FROM system.local";
        let local = connection.query(text, at_one).await?.rows();
        if let Value::Text(name) = local.value(0, 0)? {
            told.cluster = name;
        }
        told.add(contact, &local, 0)?;
        let text = "SELECT rpc_address, data_center, rack, tokens FROM system.peers";
        let peers = connection.query(text, at_one).await?.rows();
        for row in 0..peers.rows.len() {
            if let Value::Inet(ip) = peers.value(row, 0)? {
                told.add(SocketAddr::new(ip, contact.port()), &peers, row)?;
            }
        }
        let text = "SELECT keyspace_name, replication FROM system_schema.keyspaces";
        match connection.query(text, at_one).await {
            Ok(keyspaces) => told.replicated(&keyspaces.rows())?,
            // Servers of before 3.0 have no such table, and a login may not see it: then a token's owner is asked alone.
            Err(Error::Failure(_)) => {}
            Err(error) => return Err(error),
        }
        Ok(told)
    }

    /// Adds a node from the columns that follow its name or address.
    fn add(&mut self, address: SocketAddr, rows: &RowSet, row: usize) -> Result<(), Error> {
        let text = |column| {
            Ok::<String, Error>(match rows.value(row, column)? {
                Value::Text(text) => text,
                _ => String::new(),
            })
        };
        let place = Place { address, datacenter: text(1)?, rack: text(2)? };
        let tokens = match rows.value(row, 3)? {
            Value::Set(tokens) => tokens,
            _ => Vec::new(),
        };
        let token = |token| match token {
            Value::Text(text) => text.parse().ok().map(Token),
            _ => None,
        };
        self.nodes.push((place, tokens.into_iter().filter_map(token).collect()));
        Ok(())
    }

    fn replicated(&mut self, rows: &RowSet) -> Result<(), Error> {
        for row in rows.values()? {
            if let [Value::Text(name), Value::Map(options)] = row.as_slice() {
                let text = |value: &Value| match value {
                    Value::Text(text) => text.clone(),
                    _ => String::new(),
                };
                let options = options.iter().map(|(key, value)| (text(key), text(value))).collect();
                self.replications
                    .extend(replication(&options).map(|replication| (name.clone(), replication)));
            }
        }
        Ok(())
    }
}

/// How a keyspace is replicated; nothing for strategies that tokens say nothing of.
fn replication(options: &BTreeMap<String, String>) -> Option<Replication> {
    // Some keep replicas of less than full weight behind a stroke: `3/1`.
    let number = |text: &String| text.split('/').next()?.parse::<u32>().ok();
    let class = options.get("class")?;
    match class.rsplit('.').next()? {
        "SimpleStrategy" => Some(Replication::Simple { factor: number(options.get("replication_factor")?)? }),
        "NetworkTopologyStrategy" => {
            let factors = options.iter().filter(|(name, _)| *name != "class");
            let factors = factors.filter_map(|(name, factor)| Some((name.clone(), number(factor)?)));
            Some(Replication::NetworkTopology { factors: factors.collect() })
        }
        _ => None,
    }
}

impl Place {
    fn location(&self) -> Location<'_> {
        Location { dc: &self.datacenter, rack: &self.rack }
    }
}

impl Ring {
    /// What was told, with a number for each node that may be asked. Errors: none may.
    pub(crate) fn new(
        told: Told,
        usable: &[&Usable],
        mut number: impl FnMut(&Place) -> usize,
    ) -> Result<Ring, Error> {
        let in_ring = told.nodes.iter().filter(|(_, tokens)| !tokens.is_empty());
        let mut ring = Ring {
            members: Vec::new(),
            tokens: Vec::new(),
            replications: told.replications,
            placement: Placement::among(in_ring.map(|(place, _)| place.location())),
            tiers: usable.iter().map(|_| Tier::default()).collect(),
        };
        let first = usable.first().copied().cloned().unwrap_or_default();
        if !told.nodes.iter().any(|(place, _)| first.fits(place)) {
            return Err(Error::NoNode(first.to_string()));
        }
        for (place, tokens) in told.nodes {
            let tier = usable.iter().position(|usable| usable.fits(&place));
            let asked = tier.map(|tier| (tier, number(&place)));
            if let Some((tier, node)) = asked {
                ring.tiers[tier].nodes.push(node);
                ring.tiers[tier].tokens.extend(tokens.iter().map(|token| (*token, node)));
            }
            ring.tokens.extend(tokens.iter().map(|token| (*token, ring.members.len())));
            ring.members.push(Member { place, asked });
        }
        ring.tokens.sort_unstable();
        ring.tiers.iter_mut().for_each(|tier| tier.tokens.sort_unstable());
        Ok(ring)
    }

    /// The node of a tier with the next token around the ring.
    pub(crate) fn owner(&self, tier: usize, token: Token) -> usize {
        let Tier { nodes, tokens, .. } = &self.tiers[tier];
        let at = tokens.partition_point(|(next, _)| *next < token);
        match tokens.get(at).or_else(|| tokens.first()) {
            Some((_, node)) => *node,
            None => nodes[0],
        }
    }

    /// Calls with the nodes of a tier that hold a token of a keyspace, the owner first; with that one alone where the replication is not
    /// known or none of them may be asked.
    pub(crate) fn with_replicas<T>(
        &self,
        tier: usize,
        keyspace: Option<&str>,
        token: Token,
        work: impl FnOnce(&[usize]) -> T,
    ) -> T {
        let known = keyspace.map(|keyspace| self.replicas(tier, keyspace));
        let at = self.tokens.partition_point(|(next, _)| *next < token);
        let at = if at == self.tokens.len() { 0 } else { at };
        match known.as_ref().and_then(|known| known.get(at)).filter(|nodes| !nodes.is_empty()) {
            Some(nodes) => work(nodes),
            None => work(&[self.owner(tier, token)]),
        }
    }

    /// Of a keyspace, worked out when it is asked about first.
    fn replicas(&self, tier: usize, keyspace: &str) -> Rc<Replicas> {
        let known = &self.tiers[tier].replicas;
        if let Some(replicas) = known.borrow().get(keyspace) {
            return replicas.clone();
        }
        let of = |replication: &Replication| -> Replicas {
            let of = |at| {
                let around = self.tokens[at..].iter().chain(&self.tokens[..at]).map(|(_, member)| *member);
                let all =
                    self.placement.replicas(replication, around, |at| self.members[at].place.location());
                let asked = all.into_iter().filter_map(|at| self.members[at].asked);
                asked.filter(|(of, _)| *of == tier).map(|(_, node)| node).collect()
            };
            (0..self.tokens.len()).map(of).collect()
        };
        let replicas = Rc::new(self.replications.get(keyspace).map(of).unwrap_or_default());
        known.borrow_mut().insert(keyspace.to_owned(), replicas.clone());
        replicas
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A ring of nodes with a token each, 0, 100, 200 and so on: their datacenters and racks.
    fn ring(nodes: &[(&str, &str)], replication: &[(&str, &str)], usable: &[&Usable]) -> Ring {
        let mut told = Told::default();
        for (nth, (datacenter, rack)) in nodes.iter().enumerate() {
            let address = SocketAddr::from(([10, 0, 0, nth as u8], 9042));
            let place = Place { address, datacenter: (*datacenter).into(), rack: (*rack).into() };
            told.nodes.push((place, vec![Token(nth as i64 * 100)]));
        }
        let options =
            replication.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        told.replications.extend(super::replication(&options).map(|known| ("ks".to_owned(), known)));
        let mut next = 0..;
        Ring::new(told, usable, |_| next.next().expect("endless")).expect("nodes")
    }

    fn holders(ring: &Ring, tier: usize, token: i64) -> Vec<usize> {
        ring.with_replicas(tier, Some("ks"), Token(token), <[usize]>::to_vec)
    }

    #[test]
    fn simple_replicas_follow_the_owner() {
        let nodes = [("dc", "r"); 4];
        let simple = ring(
            &nodes,
            &[("class", "org.apache.cassandra.locator.SimpleStrategy"), ("replication_factor", "3")],
            &[&Usable::default()],
        );
        assert_eq!(holders(&simple, 0, 50), [1, 2, 3]);
        assert_eq!(holders(&simple, 0, 100), [1, 2, 3]);
        assert_eq!(holders(&simple, 0, 250), [3, 0, 1]);
        assert_eq!(holders(&simple, 0, 999), [0, 1, 2]);
        assert_eq!(simple.owner(0, Token(250)), 3);
        assert_eq!(simple.with_replicas(0, Some("other"), Token(50), <[usize]>::to_vec), [1]);
        assert_eq!(simple.with_replicas(0, None, Token(50), <[usize]>::to_vec), [1]);
        let many =
            ring(&nodes, &[("class", "SimpleStrategy"), ("replication_factor", "9")], &[&Usable::default()]);
        assert_eq!(holders(&many, 0, 50), [1, 2, 3, 0]);
        let everywhere = ring(&nodes, &[("class", "EverywhereStrategy")], &[&Usable::default()]);
        assert_eq!(holders(&everywhere, 0, 50), [1]);
    }

    #[test]
    fn replicas_of_a_datacenter_are_on_different_racks() {
        let nodes = [("a", "1"), ("a", "1"), ("b", "1"), ("a", "2"), ("b", "2"), ("a", "2")];
        let replication = [("class", "NetworkTopologyStrategy"), ("a", "2"), ("b", "1")];
        let all = ring(&nodes, &replication, &[&Usable::default()]);
        // The second of rack 1 is passed over.
        assert_eq!(holders(&all, 0, 0), [0, 2, 3]);
        assert_eq!(holders(&all, 0, 300), [3, 4, 0]);
        let three = [("class", "NetworkTopologyStrategy"), ("a", "3")];
        assert_eq!(holders(&ring(&nodes, &three, &[&Usable::default()]), 0, 0), [0, 1, 3]);
        // Of one datacenter, its own; of a spare one, the other's.
        let of = |name: &str| Usable { datacenter: Some(name.into()), ..Usable::default() };
        let near = ring(&nodes, &replication, &[&of("a"), &of("b")]);
        assert_eq!((holders(&near, 0, 0), holders(&near, 1, 0)), (vec![0, 3], vec![2]));
        // A node that has no tokens yet counts neither as one nor for its rack.
        let mut joining = Told::default();
        for (nth, rack) in ["1", "1", "2", "3"].iter().enumerate() {
            let address = SocketAddr::from(([10, 0, 0, nth as u8], 9042));
            let place = Place { address, datacenter: "a".into(), rack: (*rack).into() };
            let tokens = if nth == 3 { Vec::new() } else { vec![Token(nth as i64 * 100)] };
            joining.nodes.push((place, tokens));
        }
        let factors = [("a".to_owned(), 3)].into();
        joining.replications.insert("ks".into(), Replication::NetworkTopology { factors });
        let mut numbers = 0..;
        let joining = Ring::new(joining, &[&Usable::default()], |_| numbers.next().unwrap_or(0)).unwrap();
        assert_eq!(holders(&joining, 0, 0), [0, 1, 2]);
        let strange = ring(&nodes, &[("class", "NetworkTopologyStrategy"), ("b", "1")], &[&of("a")]);
        assert_eq!(holders(&strange, 0, 0), [0], "no replica may be asked: the next one around the ring");
    }

    #[test]
    fn nobody_to_ask_is_an_error() {
        let usable = Usable { datacenter: Some("c".into()), rack: Some("1".into()), ..Usable::default() };
        let error = Ring::new(Told::default(), &[&usable], |_| 0).err().expect("nobody");
        assert_eq!(error.to_string(), "no node of the ring is datacenter c, rack 1");
    }
}
