//! What each level asks of which replicas.

use super::*;
use crate::fixture::member;
use crate::{Liveness, Member, MemberState, Members, Version};
use base::Token;

fn hosts(ids: impl IntoIterator<Item = u128>) -> Vec<HostId> {
    ids.into_iter().map(HostId).collect()
}

/// This node is the first; all answer but these.
fn snapshot(members: Vec<Member>, down: &[u128]) -> Snapshot {
    let up = members.iter().map(|member| member.host_id).filter(|host| !down.contains(&host.0));
    let liveness = Liveness::of(up.collect::<Vec<_>>());
    let local = members[0].host_id;
    Snapshot::new(local, Members::new(Version::ZERO, members), &[]).with_liveness(liveness)
}

/// Three nodes here, three there.
fn two_dcs(down: &[u128]) -> (Snapshot, Replication) {
    let dc = |n: u8| if n <= 3 { "here" } else { "there" };
    let members = (1..=6).map(|n| member(n, dc(n), "r", &[i64::from(n)])).collect();
    let factors = [("here".to_string(), 3), ("there".to_string(), 3)].into();
    (snapshot(members, down), Replication::NetworkTopology { factors })
}

fn write(snapshot: &Snapshot, replication: &Replication, level: Consistency) -> Result<WritePlan, Shortfall> {
    snapshot.plan_write(replication, snapshot.placements(replication).at(Token(0)), level)
}

fn read(snapshot: &Snapshot, replication: &Replication, level: Consistency) -> Result<ReadPlan, Shortfall> {
    snapshot.plan_read(replication, &snapshot.placements(replication).at(Token(0)).read, level, |_| 0)
}

fn short(required: usize, alive: usize) -> Shortfall {
    Shortfall { required, alive, dc: None }
}

#[test]
fn one_node_with_factor_three() {
    let alone = snapshot(vec![member(1, "dc1", "r1", &[0])], &[]);
    let replication = Replication::Simple { factor: 3 };
    assert_eq!(write(&alone, &replication, Consistency::One).map(|plan| plan.needs), Ok(vec![1]));
    assert_eq!(write(&alone, &replication, Consistency::Quorum), Err(short(2, 1)));
    assert_eq!(read(&alone, &replication, Consistency::All), Err(short(3, 1)));
    let holders = alone.placements(&replication);
    let suffices = |level| alone.suffices_to_write(&replication, holders.at(Token(0)), level);
    assert!(suffices(Consistency::One) && suffices(Consistency::LocalOne) && !suffices(Consistency::Quorum));
}

#[test]
fn a_dead_node_does_not_count_and_its_write_is_missed() {
    let members = (1..=3).map(|n| member(n, "a", "r", &[i64::from(n)])).collect();
    let snapshot = snapshot(members, &[2]);
    let replication = Replication::Simple { factor: 3 };
    let plan = write(&snapshot, &replication, Consistency::Quorum).expect("two of three live");
    assert_eq!((plan.targets.len(), plan.missed, plan.needs), (2, hosts([2]), vec![2]));
    assert_eq!(write(&snapshot, &replication, Consistency::All), Err(short(3, 2)));
    let plan = read(&snapshot, &replication, Consistency::One).expect("this node lives");
    assert_eq!((plan.targets[0].host, plan.spares.len()), (HostId(1), 1));
}

#[test]
fn local_levels_ask_and_count_the_local_datacenter() {
    let (snapshot, replication) = two_dcs(&[]);
    let plan = write(&snapshot, &replication, Consistency::LocalQuorum).expect("all live");
    assert_eq!((plan.targets.len(), &*plan.needs), (6, &[2][..]));
    let counted: Vec<u128> = plan.targets.iter().filter(|t| t.need.is_some()).map(|t| t.host.0).collect();
    assert_eq!(counted, [1, 2, 3]);
    let plan = read(&snapshot, &replication, Consistency::LocalQuorum).expect("all live");
    let asked: Vec<u128> = plan.targets.iter().chain(&plan.spares).map(|t| t.host.0).collect();
    assert_eq!(asked, [1, 2, 3]);
    let (cut, _) = two_dcs(&[4, 5, 6]);
    assert!(write(&cut, &replication, Consistency::LocalQuorum).is_ok());
    assert_eq!(write(&cut, &replication, Consistency::Quorum), Err(short(4, 3)));
}

#[test]
fn each_quorum_needs_one_in_every_datacenter_and_names_the_one_that_falls_short() {
    let (snapshot, replication) = two_dcs(&[]);
    let plan = read(&snapshot, &replication, Consistency::EachQuorum).expect("all live");
    let targets: Vec<(u128, Option<u8>)> = plan.targets.iter().map(|t| (t.host.0, t.need)).collect();
    assert_eq!((plan.needs, targets.len(), plan.spares.len()), (vec![2, 2], 4, 2));
    assert_eq!(targets.iter().filter(|(_, need)| *need == Some(1)).count(), 2);
    let (cut, _) = two_dcs(&[5, 6]);
    let dc = Some("there".to_string());
    let expected = Shortfall { required: 2, alive: 1, dc };
    assert_eq!(write(&cut, &replication, Consistency::EachQuorum), Err(expected.clone()));
    assert_eq!(read(&cut, &replication, Consistency::EachQuorum), Err(expected));
}

#[test]
fn who_is_pending_is_waited_for_on_top_of_the_level() {
    let joins = Member { state: MemberState::Joining, ..member(4, "a", "r", &[5]) };
    let mut members: Vec<Member> = (1..=3).map(|n| member(n, "a", "r", &[i64::from(n) * 10])).collect();
    members.push(joins);
    let replication = Replication::Simple { factor: 3 };
    let all_up = snapshot(members.clone(), &[]);
    let plan = write(&all_up, &replication, Consistency::Quorum).expect("all live");
    assert_eq!((plan.targets.len(), &*plan.needs), (4, &[3][..]));
    assert_eq!(read(&all_up, &replication, Consistency::Quorum).map(|plan| plan.needs), Ok(vec![2]));
    let down = snapshot(members, &[2, 4]);
    assert_eq!(write(&down, &replication, Consistency::Quorum), Err(short(3, 2)));
    assert_eq!(write(&down, &replication, Consistency::Any).map(|plan| plan.missed), Ok(hosts([2, 4])));
}

#[test]
fn a_read_that_this_node_answers_alone_is_known_before() {
    let (snapshot, replication) = two_dcs(&[]);
    let holders = snapshot.placements(&replication);
    let holders = holders.at(Token(0));
    assert!(snapshot.suffices_to_read(&replication, &holders.read, Consistency::LocalOne));
    assert!(!snapshot.suffices_to_read(&replication, &holders.read, Consistency::LocalQuorum));
    assert!(!snapshot.suffices_to_read(&replication, &holders.read[1..], Consistency::One));
    assert!(!snapshot.suffices_to_write(&replication, holders, Consistency::One));
}

#[test]
fn any_may_have_nobody_to_write_to() {
    let members: Vec<Member> = (1..=3).map(|n| member(n, "a", "r", &[i64::from(n) * 10])).collect();
    let replication = Replication::Simple { factor: 1 };
    let down = snapshot(members, &[2]);
    let placements = down.placements(&replication);
    let holders = placements.at(Token(15));
    let plan = down.plan_write(&replication, holders, Consistency::Any).expect("a hint may do");
    assert_eq!((plan.targets, plan.missed, plan.needs), (vec![], hosts([2]), vec![1]));
    assert_eq!(down.plan_write(&replication, holders, Consistency::One), Err(short(1, 0)));
}

/// ⚔ The dead one is refused, so that who confirms holds the token whatever comes of the replacement; a new node that dies costs no level.
#[test]
fn who_replaces_a_dead_node_gets_writes_and_nobody_waits_for_it() {
    let new = |down: &[u128]| {
        let state = MemberState::Replacing(HostId(3));
        let mut members: Vec<Member> = (1..=3).map(|n| member(n, "a", "r", &[i64::from(n)])).collect();
        members.push(Member { state, ..member(4, "a", "r", &[3]) });
        snapshot(members, down)
    };
    let replication = Replication::Simple { factor: 3 };
    let plan = write(&new(&[3]), &replication, Consistency::Quorum).expect("two of three live");
    assert_eq!((plan.needs, plan.missed), (vec![2], hosts([3])));
    let counts: Vec<(u128, Option<u8>)> =
        plan.targets.iter().map(|target| (target.host.0, target.need)).collect();
    assert_eq!(counts, [(1, Some(0)), (2, Some(0)), (4, None)], "its answer is none of the two");
    let plan = write(&new(&[3, 4]), &replication, Consistency::Quorum).expect("two of three live");
    assert_eq!((plan.needs, plan.missed), (vec![2], hosts([3, 4])));
    assert_eq!(write(&new(&[2, 3]), &replication, Consistency::Quorum), Err(short(2, 1)));
    assert_eq!(write(&new(&[3]), &replication, Consistency::All), Err(short(3, 2)));
}

#[test]
fn the_slow_come_behind_the_fast_of_their_datacenter_and_this_node_first() {
    let of = |n: u8| {
        member(n, if n <= 4 { "here" } else { "there" }, if n <= 2 { "r" } else { "s" }, &[i64::from(n)])
    };
    let snapshot = snapshot((1..=6).map(of).collect(), &[]);
    let replication = Replication::Simple { factor: 6 };
    let replicas = hosts([6, 5, 4, 3, 2, 1]);
    let order = |slow: &[(u128, u8)]| {
        let class = |host: HostId| slow.iter().find(|(of, _)| *of == host.0).map_or(0, |(_, class)| *class);
        let plan = snapshot.plan_read(&replication, &replicas, Consistency::All, class).expect("all live");
        plan.targets.iter().map(|target| target.host.0).collect::<Vec<_>>()
    };
    assert_eq!(order(&[]), [1, 2, 4, 3, 6, 5], "by distance, and of equals as given");
    assert_eq!(order(&[(2, 1)]), [1, 4, 3, 2, 6, 5], "another rack is asked before a slow node of this one");
    assert_eq!(order(&[(2, 2), (4, 3), (3, 2)]), [1, 2, 3, 4, 6, 5]);
    assert_eq!(order(&[(2, 9), (3, 9), (4, 9), (6, 1)]), [1, 2, 4, 3, 5, 6], "but no other datacenter");
    assert_eq!(order(&[(1, 9)]), [1, 2, 4, 3, 6, 5]);
}
