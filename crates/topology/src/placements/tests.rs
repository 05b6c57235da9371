//! Placements over rings of a few members, and the law that quorums of writes and reads meet.

use super::*;
use crate::fixture::member;

const ME: HostId = HostId(1);

fn members(all: &[Member]) -> Members {
    Members::new(Version { epoch: 0, index: 9 }, all.iter().cloned())
}

fn ids(hosts: &[HostId]) -> Vec<u128> {
    hosts.iter().map(|host| host.0).collect()
}

fn in_state(state: MemberState, member: Member) -> Member {
    Member { state, ..member }
}

fn simple(all: &[Member], factor: u32) -> Placements {
    Placements::of(&members(all), &Replication::Simple { factor }, ME, None)
}

#[test]
fn replicas_follow_clockwise_and_wrap() {
    let all = [member(1, "a", "r1", &[-100, 50]), member(2, "a", "r1", &[0]), member(3, "a", "r2", &[100])];
    let placements = simple(&all, 2);
    let at = |token| ids(&placements.at(Token(token)).read);
    assert_eq!((at(-100), at(1), at(101), at(i64::MIN)), (vec![1, 2], vec![1, 3], vec![1, 2], vec![1, 2]));
    assert_eq!(at(51), [3, 1]);
    let network = Replication::NetworkTopology { factors: [("a".to_string(), 2)].into() };
    let placements = Placements::of(&members(&all), &network, ME, None);
    assert_eq!(ids(&placements.at(Token(-100)).read), [1, 3], "the second rack comes before the second node");
}

#[test]
fn one_node_holds_everything_and_local_keyspaces_are_this_nodes() {
    let alone = [member(1, "a", "r", &[-7, 3, 9])];
    assert_eq!(simple(&alone, 3).of_all().map(|all| ids(&all.read)), Some(vec![1]));
    let two = [member(1, "a", "r", &[-7]), member(2, "a", "r", &[3])];
    let local = Placements::of(&members(&two), &Replication::Local, ME, None);
    assert_eq!(local.of_all().map(|all| ids(&all.read)), Some(vec![1]));
    assert_eq!(simple(&two, 1).of_all(), None);
    let nobody = simple(&[in_state(MemberState::Joining, member(1, "a", "r", &[]))], 1);
    assert_eq!(nobody.at(Token(0)).read.len(), 0);
}

#[test]
fn who_joins_gets_writes_and_no_reads() {
    let joins = in_state(MemberState::Joining, member(3, "a", "r", &[50]));
    let all = [member(1, "a", "r", &[0]), member(2, "a", "r", &[100]), joins];
    let placements = simple(&all, 1);
    let at = |token| {
        let holders = placements.at(Token(token));
        (ids(&holders.read), ids(&holders.pending))
    };
    assert_eq!(at(0), (vec![1], vec![]));
    assert_eq!(at(50), (vec![2], vec![3]));
    assert_eq!(at(51), (vec![2], vec![]), "behind its token nothing changes");
}

#[test]
fn who_leaves_is_read_until_it_has_left_and_who_replaces_gets_the_tokens_of_the_other() {
    let leaves = in_state(MemberState::Leaving, member(2, "a", "r", &[100]));
    let placements = simple(&[member(1, "a", "r", &[0]), leaves], 1);
    let holders = placements.at(Token(50));
    assert_eq!((ids(&holders.read), ids(&holders.pending)), (vec![2], vec![1]));
    let replaces = in_state(MemberState::Replacing(HostId(2)), member(3, "a", "r", &[100]));
    let all = [member(1, "a", "r", &[0]), member(2, "a", "r", &[100]), replaces];
    let placements = simple(&all, 1);
    let holders = placements.at(Token(50));
    assert_eq!((ids(&holders.read), ids(&holders.pending)), (vec![2], vec![3]));
    let done =
        [member(1, "a", "r", &[0]), in_state(MemberState::Left, all[1].clone()), member(3, "a", "r", &[100])];
    assert_eq!(ids(&simple(&done, 1).at(Token(50)).read), [3]);
}

#[test]
fn a_range_keeps_the_version_that_changed_it() {
    let before = [member(1, "a", "r", &[0]), member(2, "a", "r", &[100])];
    let old = simple(&before, 1);
    let joins = in_state(MemberState::Joining, member(3, "a", "r", &[50]));
    let all: Vec<Member> = before.into_iter().chain([joins]).collect();
    let later = Members::new(Version { epoch: 0, index: 12 }, all);
    let new = Placements::of(&later, &Replication::Simple { factor: 1 }, ME, Some(&old));
    let changed = |token| new.at(Token(token)).changed.index;
    assert_eq!((changed(0), changed(50), changed(100)), (9, 12, 9));
}

#[test]
fn a_range_that_takes_over_that_of_a_member_that_is_gone_has_changed() {
    let rule = Replication::Simple { factor: 1 };
    let at = |index| Version { epoch: 0, index };
    let place = |index, all: &[Member], before: Option<&Placements>| {
        Placements::of(&Members::new(at(index), all.to_vec()), &rule, ME, before)
    };
    let all = [member(1, "a", "r", &[0]), member(2, "a", "r", &[100]), member(3, "a", "r", &[200])];
    let old = place(9, &all, None);
    let changed = |new: &Placements, tokens: [i64; 4]| tokens.map(|t| new.at(Token(t)).changed.index);
    // 2 is gone: 3 holds what lies behind 0. Then 3: 1 holds everything, also what lies around the end of the ring.
    let without = place(12, &[all[0].clone(), all[2].clone()], Some(&old));
    assert_eq!(changed(&without, [0, 50, 150, 250]), [9, 12, 12, 9]);
    let alone = place(15, &all[..1], Some(&without));
    assert_eq!(changed(&alone, [0, 50, 150, 250]), [15; 4]);
    assert_eq!(changed(&place(17, &all[..1], Some(&alone)), [0, 50, 150, 250]), [15; 4], "nothing changes");
}

/// Whoever holds a token by other members than before is known to, for every token and any members.
#[test]
fn no_token_changes_its_holders_under_an_old_version() {
    let mut prng = base::Prng::new(12);
    for _ in 0..300 {
        let rule = Replication::Simple { factor: 1 + prng.below(3) as u32 };
        let all: Vec<Member> =
            (1..=1 + prng.below(6) as u8).map(|n| member(n, "a", "r", &drawn(&mut prng))).collect();
        let mut before = Placements::of(&members(&all), &rule, ME, None);
        for index in 10..20 {
            let some: Vec<Member> = all.iter().filter(|_| prng.chance(0.7)).cloned().collect();
            let later = Members::new(Version { epoch: 0, index }, some);
            let after = Placements::of(&later, &rule, ME, Some(&before));
            let ends = before.ranges().iter().chain(after.ranges()).map(|range| range.end.0);
            for token in ends.flat_map(|end| [end, end.saturating_add(1)]).map(Token) {
                let (old, new) = (before.at(token), after.at(token));
                let is_same = (&old.read, &old.pending) == (&new.read, &new.pending);
                assert!(is_same || new.changed.index == index, "{token:?} of {before:?} to {after:?}");
            }
            before = after;
        }
    }
}

#[test]
fn parts_cover_a_range_once() {
    let all = [member(1, "a", "r", &[-10, 10]), member(2, "a", "r", &[0])];
    let placements = simple(&all, 1);
    let parts = |first: i64, last: i64| {
        let parts = placements.parts(Token(first), Token(last));
        parts.iter().map(|(from, to, holders)| (from.0, to.0, holders.read[0].0)).collect::<Vec<_>>()
    };
    assert_eq!(parts(-20, 20), [(-20, -10, 1), (-9, 0, 2), (1, 10, 1), (11, 20, 1)]);
    assert_eq!(parts(5, 5), [(5, 5, 1)]);
    assert_eq!(parts(5, 4), []);
    let whole = parts(i64::MIN, i64::MAX);
    assert_eq!((whole[0].0, whole[whole.len() - 1].1), (i64::MIN, i64::MAX));
}

/// Every token's read and write quorums meet, whatever the members do: what is written at QUORUM while somebody joins or is
/// replaced is read at QUORUM before and after.
#[test]
fn quorums_of_writes_and_reads_meet_before_during_and_after_a_change() {
    let mut prng = base::Prng::new(11);
    for _ in 0..300 {
        let count = 1 + prng.below(7) as u8;
        let rack = |n: u8| ["x", "y", "z"][usize::from(n) % 3];
        let mut tokens = |n: u8| member(n, "a", rack(n), &drawn(&mut prng));
        let mut all: Vec<Member> = (1..=count).map(&mut tokens).collect();
        let new = tokens(count + 1);
        let factor = 1 + prng.below(4) as u32;
        let replication = match prng.chance(0.5) {
            true => Replication::Simple { factor },
            false => Replication::NetworkTopology { factors: [("a".to_string(), factor)].into() },
        };
        let place = |all: &[Member]| Placements::of(&members(all), &replication, ME, None);
        let before = place(&all);
        all.push(in_state(MemberState::Joining, new.clone()));
        let during = place(&all);
        all.pop();
        all.push(new);
        let after = place(&all);
        for _ in 0..50 {
            let token = Token(prng.u64() as i64);
            let (before, during, after) = (before.at(token), during.at(token), after.at(token));
            assert_eq!(before.read, during.read);
            let written: Vec<HostId> = during.read.iter().chain(&during.pending).copied().collect();
            assert!(
                after.read.iter().all(|host| written.contains(host)),
                "{token}: {during:?} then {after:?}"
            );
        }
    }
}

fn drawn(prng: &mut base::Prng) -> Vec<i64> {
    let mut tokens: Vec<i64> = (0..1 + prng.below(6)).map(|_| prng.u64() as i64 | 1).collect();
    tokens.sort_unstable();
    tokens.dedup();
    tokens
}
