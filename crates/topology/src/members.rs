//! Everybody who belongs to the cluster, at one version of its log.

use crate::{Member, MemberState, Version};
use base::HostId;
use std::collections::BTreeSet;

/// The members of a cluster as its log has them; whether they answer at the moment is [`crate::Liveness`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Members {
    version: Version,
    /// Ascending by host id.
    all: Vec<Member>,
}

impl Members {
    /// These members at a version; of two with one host id the last one. O(members log members).
    pub fn new(version: Version, members: impl IntoIterator<Item = Member>) -> Members {
        let mut all: Vec<Member> = members.into_iter().collect();
        all.sort_by_key(|member| member.host_id);
        all.reverse();
        // The sort is stable, so that behind it the last one given comes first.
        all.dedup_by_key(|member| member.host_id);
        all.reverse();
        Members { version, all }
    }

    /// Whether these are the same members, at whatever version: then everything lies where it lay. O(tokens).
    pub fn are_those_of(&self, other: &Members) -> bool {
        self.all == other.all
    }

    /// The version they are of.
    pub fn version(&self) -> Version {
        self.version
    }

    /// One of them.
    pub fn get(&self, host: HostId) -> Option<&Member> {
        self.all.binary_search_by_key(&host, |member| member.host_id).ok().map(|at| &self.all[at])
    }

    /// All that count, ascending by host id: not those that left or were banned.
    pub fn iter(&self) -> impl Iterator<Item = &Member> + Clone {
        self.all.iter().filter(|member| member.state.is_in())
    }

    /// All, also those that left or were banned.
    pub fn ever(&self) -> &[Member] {
        &self.all
    }

    /// Whether somebody with this identity was put out.
    pub fn is_banned(&self, host: HostId) -> bool {
        self.get(host).is_some_and(|member| member.state == MemberState::Banned)
    }

    /// The datacenters that have a member, each once, in order.
    pub fn datacenters(&self) -> BTreeSet<&str> {
        self.iter().map(|member| member.dc.as_str()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::member;

    #[test]
    fn the_last_of_one_identity_counts_and_those_who_left_do_not() {
        let gone = Member { state: MemberState::Left, ..member(3, "c", "r", &[3]) };
        let banned = Member { state: MemberState::Banned, ..member(4, "d", "r", &[4]) };
        let members =
            [member(2, "a", "r", &[1]), gone, member(1, "a", "r", &[2]), banned, member(2, "b", "r", &[1])];
        let members = Members::new(Version::ZERO, members);
        let ids: Vec<u128> = members.iter().map(|member| member.host_id.0).collect();
        assert_eq!((ids, members.ever().len()), (vec![1, 2], 4));
        assert_eq!(members.get(HostId(2)).map(|member| &*member.dc), Some("b"));
        assert!(
            members.is_banned(HostId(4)) && !members.is_banned(HostId(3)) && !members.is_banned(HostId(9))
        );
        assert_eq!(members.datacenters(), ["a", "b"].into());
    }
}
