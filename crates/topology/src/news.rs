//! What drivers are told when one snapshot follows another.

use crate::{Member, Snapshot};
use std::net::SocketAddr;

/// Something that happened to another member, by the address that clients connect to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum News {
    /// It holds its tokens from now on.
    Joined(SocketAddr),
    /// It holds nothing any more, or is elsewhere from now on.
    Left(SocketAddr),
    /// It answers and clients can connect to it.
    Up(SocketAddr),
    /// It does not.
    Down(SocketAddr),
}

impl News {
    /// What happened between two snapshots of this node, in the order in which clients are told: who is gone, who is new, who is down, who is
    /// up. Of this node clients hear nothing. O(members log members).
    pub fn between(before: &Snapshot, after: &Snapshot) -> Vec<News> {
        let was = |member: &Member| before.member(member.host_id).filter(|old| is_shown(old));
        let is = |member: &Member| after.member(member.host_id).filter(|new| is_shown(new));
        let (mut news, mut arrived, mut fell, mut rose) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for old in before.others().filter(|old| is_shown(old)) {
            if is(old).is_none_or(|new| new.native != old.native) {
                news.push(News::Left(old.native));
            }
        }
        for new in after.others().filter(|new| is_shown(new)) {
            let old = was(new).filter(|old| old.native == new.native);
            if old.is_none() {
                arrived.push(News::Joined(new.native));
            }
            let served = old.is_some() && before.liveness().is_serving(new.host_id);
            match (served, after.liveness().is_serving(new.host_id)) {
                (true, false) => fell.push(News::Down(new.native)),
                (false, true) => rose.push(News::Up(new.native)),
                _ => {}
            }
        }
        news.extend(arrived.into_iter().chain(fell).chain(rose));
        news
    }
}

/// Whether clients know of a member.
fn is_shown(member: &Member) -> bool {
    member.state.is_read()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::member;
    use crate::{Liveness, MemberState, Members, Version};
    use base::HostId;

    fn snapshot(members: &[Member], serving: &[u128]) -> Snapshot {
        let liveness = Liveness::of(serving.iter().copied().map(HostId));
        Snapshot::new(HostId(1), Members::new(Version::ZERO, members.iter().cloned()), &[])
            .with_liveness(liveness)
    }

    #[test]
    fn clients_hear_of_other_members_when_they_can_use_it() {
        let [one, two, three] = [1, 2, 3].map(|n| member(n, "a", "r", &[i64::from(n)]));
        let joining = Member { state: MemberState::Joining, ..three.clone() };
        let gone = Member { state: MemberState::Left, ..two.clone() };
        let moved = Member { native: ([127, 0, 0, 9], 9042).into(), ..two.clone() };
        let between = |before: (&[Member], &[u128]), after: (&[Member], &[u128])| {
            News::between(&snapshot(before.0, before.1), &snapshot(after.0, after.1))
        };
        let both = [one.clone(), two.clone()];
        assert_eq!(between((&both, &[]), (&both, &[2])), [News::Up(two.native)]);
        assert_eq!(between((&both, &[2]), (&both, &[])), [News::Down(two.native)]);
        assert_eq!(between((&both, &[2]), (&both, &[2])), []);
        let with_joining = [one.clone(), two.clone(), joining];
        assert_eq!(between((&both, &[2]), (&with_joining, &[2, 3])), [], "not before it holds its tokens");
        let all = [one.clone(), two.clone(), three.clone()];
        let expected = [News::Joined(three.native), News::Up(three.native)];
        assert_eq!(between((&with_joining, &[2, 3]), (&all, &[2, 3])), expected);
        assert_eq!(between((&both, &[2]), (&[one.clone(), gone], &[])), [News::Left(two.native)]);
        let expected = [News::Left(two.native), News::Joined(moved.native), News::Up(moved.native)];
        assert_eq!(between((&both, &[2]), (&[one, moved.clone()], &[2])), expected);
    }
}
