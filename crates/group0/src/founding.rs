//! Whether a node that starts founds a cluster, joins one, waits, or goes on as a member.
//!
//! ```text
//!   seeds as typed ─▶ addresses (own ones count as the broadcast address) ─▶ the list, as a set: every node tells its own
//!   folder + what each seed answered ─▶ Serve | Join | Found | Wait | Refuse | CloseNative
//! ```
//! ⚔ An empty node founds only if its address is in its list, every other address of the list has answered, in this life of the process,
//! "no cluster" with the same list, and it is the one that founds: the only one that holds data of a lone node, or the lowest address
//! if nobody does. With equal lists that is one node, whatever the order of starts and whatever is delayed: the others never found.
//! What remains: who is the only one in its list founds without asking anybody. If it was wiped, a second cluster of that name appears,
//! and [`must_close_native`] ends it as soon as a member of the first one calls.

use crate::State;
use crate::state::Fill;
use base::HostId;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

/// A seed as it was typed, resolved by the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seed {
    /// What was typed.
    pub name: String,
    /// What it resolves to now. A name of several nodes has all their addresses, and each of them is a seed. Empty: it does not resolve.
    pub addresses: Vec<SocketAddr>,
}

/// What a node knows of itself when it starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Its identity, of its folder.
    pub host_id: HostId,
    /// What its cluster is to be called.
    pub name: String,
    /// Where others call it.
    pub broadcast: SocketAddr,
    /// Every address that is its own, that one among them: also the one it listens on.
    pub own: BTreeSet<SocketAddr>,
    /// Its seeds.
    pub seeds: Vec<Seed>,
    /// What must be proven when it joins: nothing, if `auto_bootstrap` is false.
    pub fill: Fill,
}

/// What the folder of a node says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Folder {
    /// Neither a cluster nor data.
    Empty,
    /// No cluster, but a schema, roles or rows: of a node that stood alone.
    Lone,
    /// A cluster was asked to take it. Written durably before the first such request.
    Joining(u128),
    /// Its applied state has it as a member.
    Member {
        /// Of this cluster.
        cluster: u128,
        /// Whether nobody else ever was a member.
        alone: bool,
    },
    /// Its applied state refuses it.
    Refused(u128),
}

/// What a seed answered in this life of the process; the last answer counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Who answered.
    pub host_id: HostId,
    /// What its cluster is called, or is to be.
    pub name: String,
    /// The list of its seeds, as [`Node::list`] makes it.
    pub seeds: BTreeSet<SocketAddr>,
    /// What it knows of a cluster.
    pub what: SeedAnswer,
}

/// What a seed knows of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SeedAnswer {
    /// None.
    NoCluster {
        /// Whether it holds data of a lone node.
        lone: bool,
    },
    /// It has asked this one to take it.
    Joining(u128),
    /// It is a member.
    Cluster {
        /// Of this one.
        id: u128,
        /// What its state says of the host id that asks.
        you: Standing,
        /// Whether its list of members has the address of the node that asks, under whatever host id.
        has_address: bool,
    },
}

/// What a cluster says of a host id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Nothing.
    Unknown,
    /// It is a member, joining or in full right.
    Member,
    /// It has left, gave up or was banned.
    Refused,
}

/// What to do. Asked again with every answer, until it is neither `Wait` nor `Join`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Found a cluster: write [`crate::Change::Found`] as the only voter.
    Found,
    /// Ask again. Log it when it differs from the last time.
    Wait {
        /// For whom: seeds as they were typed, or addresses.
        whom: Vec<String>,
        /// Why.
        why: String,
    },
    /// Ask the member at this address to take this node.
    Join {
        /// Whom to ask. If it cannot be asked, leave its answer out and decide again: another seed may do.
        at: SocketAddr,
        /// Of which cluster. Note it in the folder first.
        cluster: u128,
        /// What to say in [`crate::Applicant::fill`].
        fill: Fill,
    },
    /// Stop the node with this text.
    Refuse(String),
    /// It is a member: catch up and serve.
    Serve,
    /// Serve nobody until an operator has decided, and log this text: two clusters of one name have met.
    CloseNative(String),
}

impl Node {
    /// Its seeds as every node would write them, for [`Answer::seeds`].
    pub fn list(&self) -> BTreeSet<SocketAddr> {
        let all = self.seeds.iter().flat_map(|seed| seed.addresses.iter());
        all.map(|address| if self.own.contains(address) { self.broadcast } else { *address }).collect()
    }

    /// The addresses to ask: those of its seeds that are not its own.
    pub fn others(&self) -> BTreeSet<SocketAddr> {
        let mut list = self.list();
        list.remove(&self.broadcast);
        list
    }

    fn typed(&self, address: SocketAddr) -> String {
        let seed = self.seeds.iter().find(|seed| seed.addresses.contains(&address));
        match seed {
            Some(seed) if seed.addresses.len() == 1 => seed.name.clone(),
            Some(seed) => format!("{} ({address})", seed.name),
            None => address.to_string(),
        }
    }
}

impl State {
    /// What this node answers to one that asks as a seed does. `lone`: whether its folder is [`Folder::Lone`]; `addresses`: those of who asks.
    pub fn seed_answer(
        &self,
        local: HostId,
        lone: bool,
        asker: HostId,
        addresses: &[SocketAddr],
    ) -> SeedAnswer {
        let Some(cluster) = self.cluster() else { return SeedAnswer::NoCluster { lone } };
        if !self.serves(local) {
            return SeedAnswer::Joining(cluster.id);
        }
        let you = match self.members().get(asker) {
            _ if self.is_refused(asker) => Standing::Refused,
            Some(_) => Standing::Member,
            None => Standing::Unknown,
        };
        let has_address = self.members().iter().any(|member| addresses.contains(&member.internode));
        SeedAnswer::Cluster { id: cluster.id, you, has_address }
    }
}

/// What to do, of what is known now. `answers`: by the address that was asked, of this life of the process.
pub fn decide(node: &Node, folder: Folder, answers: &BTreeMap<SocketAddr, Answer>) -> Decision {
    let heard: Vec<(SocketAddr, &Answer)> = node
        .others()
        .into_iter()
        .filter_map(|address| answers.get(&address).map(|answer| (address, answer)))
        .collect();
    if let Some((address, _)) = heard.iter().find(|(_, answer)| answer.host_id == node.host_id) {
        return Decision::Refuse(format!(
            "the seed {} answers with the host id of this node, {}: one of the two folders is a copy",
            node.typed(*address),
            node.host_id
        ));
    }
    match folder {
        Folder::Refused(_) => Decision::Refuse(removed(node)),
        Folder::Member { cluster, alone } => as_member(node, cluster, alone, &heard),
        Folder::Joining(cluster) => as_joining(node, cluster, &heard),
        Folder::Lone => as_lone(node, &heard),
        Folder::Empty => as_empty(node, &heard),
    }
}

fn removed(node: &Node) -> String {
    format!("{} was removed from its cluster: a node joins again with an empty data folder", node.host_id)
}

fn as_member(node: &Node, cluster: u128, alone: bool, heard: &[(SocketAddr, &Answer)]) -> Decision {
    for (address, answer) in heard {
        match answer.what {
            SeedAnswer::Cluster { id, you: Standing::Refused, .. } if id == cluster => {
                return Decision::Refuse(removed(node));
            }
            SeedAnswer::Cluster { id, has_address: true, .. }
                if id != cluster && alone && answer.name == node.name =>
            {
                return Decision::CloseNative(conflict(
                    &answer.name,
                    node.broadcast,
                    cluster,
                    id,
                    &node.typed(*address),
                ));
            }
            SeedAnswer::Cluster { .. } | SeedAnswer::Joining(_) | SeedAnswer::NoCluster { .. } => {}
        }
    }
    Decision::Serve
}

fn conflict(name: &str, own: SocketAddr, cluster: u128, other: u128, whom: &str) -> String {
    format!(
        "two clusters are called \"{name}\": this node is the only one of {cluster:032x}, and {whom} is a member of {other:032x}, \
         which knows the address {own}. If this node lost its folder, stop it, empty the folder and replace the old node"
    )
}

/// ⚔ What an empty node is told that was about to found a cluster, when a member of one of the same name has called its address and expects
/// another host there: `host`, of `cluster`.
pub fn lost_its_folder(node: &Node, (host, cluster): (HostId, u128)) -> String {
    format!(
        "{host}, a member of the cluster {cluster:032x}, knows the address {} as that of a member, so this node does not found another \
         cluster \"{}\". If it lost its folder, name other members among its seeds and replace the old node by it",
        node.broadcast, node.name
    )
}

fn as_joining(node: &Node, cluster: u128, heard: &[(SocketAddr, &Answer)]) -> Decision {
    for (address, answer) in heard {
        match answer.what {
            SeedAnswer::Cluster { id, you, .. } if id == cluster => {
                return match you {
                    Standing::Member => Decision::Serve,
                    Standing::Refused => Decision::Refuse(removed(node)),
                    Standing::Unknown => Decision::Join { at: *address, cluster, fill: node.fill },
                };
            }
            SeedAnswer::Cluster { .. } | SeedAnswer::Joining(_) | SeedAnswer::NoCluster { .. } => {}
        }
    }
    let other = heard.iter().find(|(_, answer)| matches!(answer.what, SeedAnswer::Cluster { .. }));
    if let Some((address, _)) = other {
        return Decision::Refuse(format!(
            "this folder began to join the cluster {cluster:032x}, and the seed {} is of another: empty the folder to join that",
            node.typed(*address)
        ));
    }
    wait(
        node,
        node.others(),
        format!("a member of the cluster {cluster:032x}, which this node asked to take it"),
    )
}

fn wait(node: &Node, whom: impl IntoIterator<Item = SocketAddr>, why: String) -> Decision {
    let mut names: Vec<String> = whom.into_iter().map(|address| node.typed(address)).collect();
    names.extend(node.seeds.iter().filter(|seed| seed.addresses.is_empty()).map(|seed| seed.name.clone()));
    Decision::Wait { whom: names, why }
}

fn as_lone(node: &Node, heard: &[(SocketAddr, &Answer)]) -> Decision {
    if !node.list().contains(&node.broadcast) {
        return Decision::Refuse(format!(
            "this folder holds data of a node that stood alone, and such a node founds its cluster: name {} among its seeds",
            node.broadcast
        ));
    }
    for (address, answer) in heard {
        let holds = match answer.what {
            SeedAnswer::NoCluster { lone: true } => "holds data of a node that stood alone, too",
            SeedAnswer::Cluster { .. } | SeedAnswer::Joining(_) => "belongs to a cluster",
            SeedAnswer::NoCluster { lone: false } => continue,
        };
        return Decision::Refuse(format!(
            "this folder holds data of a node that stood alone, and the seed {} {holds}: their data cannot become one. \
             Empty one of the folders",
            node.typed(*address)
        ));
    }
    found_if_all_answered(node, heard)
}

fn as_empty(node: &Node, heard: &[(SocketAddr, &Answer)]) -> Decision {
    if node.seeds.is_empty() {
        return Decision::Refuse("The seed provider lists no seeds.".to_owned());
    }
    let mut cluster: Option<(SocketAddr, u128)> = None;
    for (address, answer) in heard {
        let SeedAnswer::Cluster { id, you, .. } = answer.what else { continue };
        let name = node.typed(*address);
        if answer.name != node.name {
            let (theirs, ours) = (&answer.name, &node.name);
            return Decision::Refuse(format!(
                "the seed {name} is of the cluster \"{theirs}\", not of \"{ours}\""
            ));
        }
        if you != Standing::Unknown {
            return Decision::Refuse(format!(
                "the cluster of the seed {name} knows the host id {}, and this folder has lost what it held: replace that node by \
                 a new one",
                node.host_id
            ));
        }
        match cluster {
            Some((first, other)) if other != id => {
                let first = node.typed(first);
                return Decision::Refuse(format!(
                    "the seeds {first} and {name} are of two clusters of one name"
                ));
            }
            Some(_) => {}
            None => cluster = Some((*address, id)),
        }
    }
    if let Some((at, cluster)) = cluster {
        return Decision::Join { at, cluster, fill: node.fill };
    }
    let lone = |(_, answer): &&(SocketAddr, &Answer)| answer.what == SeedAnswer::NoCluster { lone: true };
    if let Some((founder, _)) = heard.iter().find(lone) {
        return wait(node, [*founder], "it holds data and founds the cluster".to_owned());
    }
    if !node.list().contains(&node.broadcast) {
        return wait(
            node,
            node.others(),
            "this node is not among its own seeds, and none of them has a cluster".to_owned(),
        );
    }
    match found_if_all_answered(node, heard) {
        Decision::Found => match node.list().first() {
            Some(first) if *first != node.broadcast => wait(
                node,
                [*first],
                "it has the lowest address of the seeds and founds the cluster".to_owned(),
            ),
            Some(_) | None => Decision::Found,
        },
        other => other,
    }
}

/// Whether every other seed has answered "no cluster" with the same list.
fn found_if_all_answered(node: &Node, heard: &[(SocketAddr, &Answer)]) -> Decision {
    let list = node.list();
    if node.seeds.iter().any(|seed| seed.addresses.is_empty()) {
        return wait(node, [], "a seed's name does not resolve".to_owned());
    }
    for (address, answer) in heard {
        let whom = [*address];
        if answer.name != node.name {
            let why = format!("its cluster is to be called \"{}\", ours \"{}\"", answer.name, node.name);
            return wait(node, whom, why);
        }
        if let SeedAnswer::Joining(_) = answer.what {
            return wait(node, whom, "it is joining a cluster".to_owned());
        }
        if answer.seeds != list {
            let why = format!("its seeds are {:?}, ours {list:?}", answer.seeds);
            return wait(node, whom, why);
        }
    }
    let silent: Vec<SocketAddr> =
        node.others().into_iter().filter(|address| heard.iter().all(|(heard, _)| heard != address)).collect();
    if !silent.is_empty() {
        return wait(node, silent, "a seed has not answered, and may belong to a cluster".to_owned());
    }
    Decision::Found
}

/// ⚔ Whether a member must stop serving clients because a member of another cluster of the same name has called: its text. Only a cluster
/// of one gives way, and only if the other has this node's address among its members: it was one of them and lost its folder.
/// `own`: the address of this node; `caller`: its host id, the id and the name of its cluster; `has_address`: whether the caller's members have
/// an address of this node.
pub fn must_close_native(
    state: &State,
    own: SocketAddr,
    caller: (HostId, u128, &str),
    has_address: bool,
) -> Option<String> {
    let (host, other, name) = caller;
    let cluster = state.cluster()?;
    let alone = state.members().ever().len() == 1;
    let meets = alone && has_address && cluster.id != other && cluster.name == name;
    meets.then(|| conflict(name, own, cluster.id, other, &host.to_string()))
}
