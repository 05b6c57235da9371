//! Who keeps a logged batch: two other nodes of the datacenter, of other racks if there are; where there is one other at most, this node as well.

use base::HostId;
use topology::{Member, Snapshot};
use types::Consistency;

/// Nodes that keep one batch.
pub(super) const KEEPERS: usize = 2;

/// No node can keep it: so many are wanted, and none answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NoKeepers;

/// The keepers of a batch that is written at a level. `chance`: any number, anew with each call.
pub(super) fn first(
    snapshot: &Snapshot,
    level: Consistency,
    chance: impl FnMut() -> u64,
) -> Result<Vec<HostId>, NoKeepers> {
    let mut chosen = more(snapshot, &[], &[], chance);
    let is_small = others(snapshot).count() < KEEPERS;
    if is_small || chosen.is_empty() && level == Consistency::Any {
        chosen.push(snapshot.local_id());
    }
    if chosen.is_empty() { Err(NoKeepers) } else { Ok(chosen) }
}

/// Those that `chosen` lacks, as far as others answer; never `refused` ones. Racks of those chosen, and before all this node's own, come last.
pub(super) fn more(
    snapshot: &Snapshot,
    chosen: &[HostId],
    refused: &[HostId],
    mut chance: impl FnMut() -> u64,
) -> Vec<HostId> {
    let own = &snapshot.local().rack;
    let mut racks: Vec<&str> =
        chosen.iter().filter_map(|host| snapshot.member(*host)).map(|member| &*member.rack).collect();
    let is_free = |member: &&Member| {
        let host = &member.host_id;
        snapshot.is_alive(*host) && !chosen.contains(host) && !refused.contains(host)
    };
    let mut free: Vec<&Member> = others(snapshot).filter(is_free).collect();
    let mut added = Vec::new();
    while chosen.len() + added.len() < KEEPERS {
        let worth = |member: &&Member| (member.rack == *own, racks.contains(&&*member.rack), chance());
        let Some(at) = (0..free.len()).zip(free.iter().map(worth)).min_by_key(|(_, worth)| *worth) else {
            break;
        };
        let member = free.swap_remove(at.0);
        racks.push(&member.rack);
        added.push(member.host_id);
    }
    added
}

/// The other nodes of this datacenter that hold data.
fn others(snapshot: &Snapshot) -> impl Iterator<Item = &Member> {
    let here = snapshot.local_dc();
    snapshot.others().filter(move |member| member.state.is_read() && member.dc == here)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::member;
    use std::collections::BTreeSet;
    use topology::{Liveness, MemberState, Members, Version};

    /// Members by datacenter and rack, counted from 1; those in `down` do not answer. This node is the first.
    fn snapshot(places: &[(&str, &str)], down: &[u8]) -> Snapshot {
        let of = |(at, (dc, rack)): (usize, &(&str, &str))| Member {
            rack: rack.to_string(),
            ..member(at as u8 + 1, dc)
        };
        let members: Vec<Member> = places.iter().enumerate().map(of).collect();
        let is_up = |member: &&Member| !down.contains(&(member.host_id.0 as u8));
        let liveness = Liveness::of(members.iter().filter(is_up).map(|member| member.host_id));
        Snapshot::new(HostId(1), Members::new(Version::ZERO, members), &[]).with_liveness(liveness)
    }

    /// All choices that come about, each ascending.
    fn choices(snapshot: &Snapshot, level: Consistency) -> BTreeSet<Vec<u128>> {
        let mut seed = 1u64;
        let mut chance = move || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            seed >> 33
        };
        let choose = |_| {
            let mut chosen: Vec<u128> =
                first(snapshot, level, &mut chance).unwrap_or_default().iter().map(|host| host.0).collect();
            chosen.sort_unstable();
            chosen
        };
        (0..200).map(choose).collect()
    }

    fn at_one(places: &[(&str, &str)], down: &[u8]) -> BTreeSet<Vec<u128>> {
        choices(&snapshot(places, down), Consistency::One)
    }

    #[test]
    fn two_of_other_racks_and_of_two_if_there_are() {
        let three_racks = [("d", "a"), ("d", "a"), ("d", "b"), ("d", "b"), ("d", "c")];
        assert_eq!(at_one(&three_racks, &[]), [vec![3, 5], vec![4, 5]].into());
        assert_eq!(at_one(&three_racks, &[5]), [vec![3, 4]].into(), "both of one other rack");
        assert_eq!(
            at_one(&three_racks, &[4, 5]),
            [vec![2, 3]].into(),
            "its own rack, when one of others is left"
        );
        assert_eq!(at_one(&[("d", "a"); 4], &[]), [vec![2, 3], vec![2, 4], vec![3, 4]].into());
    }

    #[test]
    fn never_itself_among_three_and_never_another_datacenter() {
        assert_eq!(
            at_one(&[("d", "a"), ("d", "a"), ("d", "a"), ("e", "c"), ("e", "c")], &[]),
            [vec![2, 3]].into()
        );
        assert_eq!(at_one(&[("d", "a"), ("d", "b"), ("d", "c")], &[2]), [vec![3]].into());
    }

    #[test]
    fn itself_among_two_or_alone_in_its_datacenter_or_at_any() {
        assert_eq!(at_one(&[("d", "a"), ("d", "a")], &[]), [vec![1, 2]].into());
        assert_eq!(at_one(&[("d", "a"), ("d", "b"), ("e", "c"), ("e", "c")], &[]), [vec![1, 2]].into());
        assert_eq!(at_one(&[("d", "a"), ("d", "b")], &[2]), [vec![1]].into());
        assert_eq!(at_one(&[("d", "a")], &[]), [vec![1]].into());
        assert_eq!(at_one(&[("d", "a"), ("e", "a"), ("e", "b")], &[]), [vec![1]].into());
        let others_down = snapshot(&[("d", "a"), ("d", "b"), ("d", "c")], &[2, 3]);
        for level in [Consistency::One, Consistency::LocalOne, Consistency::Quorum, Consistency::All] {
            assert_eq!(first(&others_down, level, || 0), Err(NoKeepers), "{level}");
        }
        assert_eq!(first(&others_down, Consistency::Any, || 0), Ok(vec![HostId(1)]));
    }

    #[test]
    fn who_joins_does_not_keep() {
        let joining = Member { state: MemberState::Joining, ..member(2, "d") };
        let members = vec![member(1, "d"), joining, member(3, "d"), member(4, "d")];
        let snapshot = crate::fixture::snapshot(members);
        assert_eq!(choices(&snapshot, Consistency::One), [vec![3, 4]].into());
    }

    #[test]
    fn one_that_refused_is_replaced() {
        let all = snapshot(&[("d", "a"), ("d", "b"), ("d", "c"), ("d", "b")], &[]);
        assert_eq!(more(&all, &[HostId(2)], &[HostId(3)], || 0), [HostId(4)]);
        assert_eq!(more(&all, &[HostId(2)], &[HostId(3), HostId(4)], || 0), []);
        assert_eq!(more(&all, &[HostId(2), HostId(1)], &[], || 0), []);
    }
}
