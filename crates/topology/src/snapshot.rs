//! Membership, placements and liveness at one moment.

use crate::{Liveness, Member, Members, Placements};
use base::HostId;
use schema::Replication;
use std::sync::Arc;

/// What a request sees of the cluster, from its beginning to its end. Immutable, one for all shards of a process, and the only truth:
/// system tables, operators' interfaces, drivers' events and coordinators read it. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Snapshot {
    local: HostId,
    members: Arc<Members>,
    liveness: Arc<Liveness>,
    placements: Arc<Vec<(Replication, Arc<Placements>)>>,
}

impl Snapshot {
    /// The members as `local` sees them, with the placements of these replications made once for all shards.
    /// Panics when `local` is no member: a node is at least its own.
    pub fn new(local: HostId, members: Members, replications: &[Replication]) -> Snapshot {
        assert!(members.get(local).is_some(), "this node is a member");
        let none =
            Snapshot { local, members: Arc::default(), liveness: Arc::default(), placements: Arc::default() };
        none.with_members(members, replications)
    }

    /// The same liveness over other members. Ranges that did not change keep their version. What is placed already is not placed again for the same
    /// members, as they are behind each change of the schema.
    #[must_use]
    pub fn with_members(&self, members: Members, replications: &[Replication]) -> Snapshot {
        let are_same = members.are_those_of(&self.members);
        let place = |replication: &Replication| {
            let before = self.placed(replication);
            if let Some(placed) = before.filter(|_| are_same) {
                return (replication.clone(), placed.clone());
            }
            let placements = Placements::of(&members, replication, self.local, before.map(AsRef::as_ref));
            (replication.clone(), Arc::new(placements))
        };
        let mut placements: Vec<(Replication, Arc<Placements>)> = Vec::new();
        for replication in replications {
            if !placements.iter().any(|(made, _)| made == replication) {
                placements.push(place(replication));
            }
        }
        let (members, placements) = (Arc::new(members), Arc::new(placements));
        Snapshot { local: self.local, members, liveness: self.liveness.clone(), placements }
    }

    /// The same members, with placements for these replications.
    #[must_use]
    pub fn with_replications(&self, replications: &[Replication]) -> Snapshot {
        if replications.iter().all(|replication| self.placed(replication).is_some()) {
            return self.clone();
        }
        self.with_members((*self.members).clone(), replications)
    }

    /// The same members, others of them alive.
    #[must_use]
    pub fn with_liveness(&self, liveness: Liveness) -> Snapshot {
        Snapshot { liveness: Arc::new(liveness), ..self.clone() }
    }

    fn placed(&self, replication: &Replication) -> Option<&Arc<Placements>> {
        self.placements.iter().find(|(made, _)| made == replication).map(|(_, placements)| placements)
    }

    /// Who holds what under a replication rule: made before if it is one of those the snapshot was made with.
    pub fn placements(&self, replication: &Replication) -> Arc<Placements> {
        let make = || Arc::new(Placements::of(&self.members, replication, self.local, None));
        self.placed(replication).cloned().unwrap_or_else(make)
    }

    /// Everybody who belongs to the cluster.
    pub fn members(&self) -> &Members {
        &self.members
    }

    /// Who answers.
    pub fn liveness(&self) -> &Liveness {
        &self.liveness
    }

    /// One member.
    pub fn member(&self, host: HostId) -> Option<&Member> {
        self.members.get(host)
    }

    /// All members but this node, ascending by host id.
    pub fn others(&self) -> impl Iterator<Item = &Member> + Clone {
        self.members.iter().filter(|member| member.host_id != self.local)
    }

    /// This node's identity.
    pub fn local_id(&self) -> HostId {
        self.local
    }

    /// This node.
    pub fn local(&self) -> &Member {
        self.members
            .get(self.local)
            .expect("this node is a member, which was checked when the snapshot was made")
    }

    /// This node's datacenter.
    pub fn local_dc(&self) -> &str {
        &self.local().dc
    }

    /// The datacenter of a member.
    pub fn dc_of(&self, host: HostId) -> Option<&str> {
        self.member(host).map(|member| member.dc.as_str())
    }

    /// Whether a node is believed to answer. This node always is.
    pub fn is_alive(&self, host: HostId) -> bool {
        host == self.local || self.liveness.is_up(host)
    }

    /// How far a member is: 0 this node, 1 its rack, 2 its datacenter, 3 elsewhere.
    pub fn distance(&self, host: HostId) -> u8 {
        let local = self.local();
        match self.member(host) {
            Some(_) if host == self.local => 0,
            Some(member) if member.dc == local.dc && member.rack == local.rack => 1,
            Some(member) if member.dc == local.dc => 2,
            Some(_) | None => 3,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Version;
    use crate::fixture::member;
    use base::Token;

    #[test]
    fn the_same_members_at_a_later_version_hold_what_they_held() {
        let rules = [Replication::Simple { factor: 1 }, Replication::Simple { factor: 2 }];
        let at = |index| Version { epoch: 1, index };
        let [first, second] = [member(1, "a", "r", &[0]), member(2, "a", "r", &[100])];
        let members = |index| Members::new(at(index), [first.clone(), second.clone()]);
        let before = Snapshot::new(first.host_id, members(1), &rules[..1]);
        let after = before.with_members(members(2), &rules);
        assert!(Arc::ptr_eq(&before.placements(&rules[0]), &after.placements(&rules[0])), "not made again");
        assert_eq!(after.members().version(), at(2));
        assert_eq!(after.placements(&rules[1]).at(Token(0)).read.len(), 2, "made anew");
        let moved = crate::Member { tokens: vec![Token(50)], ..second.clone() };
        let moved = after.with_members(Members::new(at(3), [first.clone(), moved]), &rules);
        let placements = moved.placements(&rules[0]);
        assert_eq!(placements.at(Token(75)).read.as_ref(), [first.host_id], "the token has moved away");
        assert_eq!(placements.at(Token(75)).changed, at(3), "though its end has not");
    }
}
