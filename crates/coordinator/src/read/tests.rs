//! Who stands in for whom, and when a level is met. Who is asked first: `topology`. How nodes behave that fail: the `sim` crate.
use super::*;
use crate::fixture::{member, snapshot};
use schema::Replication;
use types::Consistency;

/// A read at a level of three nodes in `a`, which are 1 to 3, and two in `b`.
fn asked(level: Consistency) -> Asked {
    let snapshot = snapshot((1..=5).map(|n| member(n, if n <= 3 { "a" } else { "b" })).collect());
    let factors = [("a".to_string(), 3), ("b".to_string(), 2)].into();
    let hosts: Vec<HostId> = (1..=5).map(HostId).collect();
    Asked(
        snapshot
            .plan_read(&Replication::NetworkTopology { factors }, &hosts, level, |_| 0)
            .expect("all live"),
    )
}

/// The targets of these hosts, whether they are asked first or spares.
fn targets(asked: &Asked, hosts: &[u128]) -> Vec<Target> {
    let all = || asked.0.targets.iter().chain(&asked.0.spares);
    let one = |host: &u128| *all().find(|target| target.host.0 == *host).expect("it counts");
    hosts.iter().map(one).collect()
}

fn host(target: Option<Target>) -> Option<u128> {
    target.map(|target| target.host.0)
}

#[test]
fn spares_stand_in_nearest_first() {
    let mut asked = asked(Consistency::Two);
    let two = targets(&asked, &[2, 4]);
    assert!(asked.is_met(&two) && !asked.is_met(&two[..1]));
    let first = asked.0.targets[0];
    assert_eq!(host(asked.take_spare(first)), Some(3));
    assert_eq!(host(asked.take_spare(first)), Some(4));
    assert_eq!(host(asked.take_spare(two[0])), Some(5));
    assert_eq!(host(asked.take_spare(two[0])), None);
}

#[test]
fn each_quorum_takes_spares_of_the_same_datacenter() {
    let mut asked = asked(Consistency::EachQuorum);
    let all = targets(&asked, &[1, 2, 3, 4, 5]);
    assert_eq!(asked.needed(), 4);
    assert!(asked.is_met(&targets(&asked, &[1, 3, 4, 5])));
    assert!(!asked.is_met(&targets(&asked, &[1, 2, 3, 4])), "one of b is too few");
    assert_eq!(host(asked.take_spare(all[3])), None, "both of b are asked");
    assert_eq!(host(asked.take_spare(all[0])), Some(3));
}

#[test]
fn a_failed_repair_matters_only_to_the_level() {
    let mut asked = asked(Consistency::EachQuorum);
    let all = targets(&asked, &[1, 2, 3, 4, 5]);
    // One more of `a` than a quorum has answered.
    let mut holders = all.clone();
    asked.0.spares.clear();
    assert_eq!(asked.replace(&mut holders, all[1]), Ok(None));
    assert_eq!(asked.clone().replace(&mut holders.clone(), all[2]), Err(Lost), "nobody of a is left");
    asked.0.spares = vec![all[1]];
    assert_eq!(asked.replace(&mut holders, all[2]), Ok(Some(all[1])));
    assert_eq!(holders, [all[0], all[3], all[4], all[1]]);
    assert_eq!(asked.replace(&mut holders, all[3]), Err(Lost), "nobody of b");
}
