//! Who is asked, who stands in for whom, and when a level is met. How nodes behave that fail: the `sim` crate.
use super::*;
use crate::fixture::node;

#[test]
fn each_quorum_takes_a_quorum_of_each_datacenter() {
    let nodes = vec![node(1, "a"), node(2, "a"), node(3, "a"), node(4, "b"), node(5, "b")];
    let snapshot = Snapshot::new(nodes, NodeIndex(0));
    let all: Vec<NodeIndex> = (0..5).map(NodeIndex).collect();
    let pick = |a: u32, b: u32| {
        let factors = [("a".to_string(), a), ("b".to_string(), b)].into();
        quorum_of_each(&snapshot, &factors, all.clone()).iter().map(|n| n.0).collect::<Vec<_>>()
    };
    assert_eq!(pick(3, 2), [0, 1, 3, 4]);
    assert_eq!(pick(1, 1), [0, 3]);
    let only = [("a".to_string(), 3)].into();
    assert_eq!(quorum_of_each(&snapshot, &only, all.clone()), [NodeIndex(0), NodeIndex(1)]);
}

fn five() -> Snapshot {
    let nodes = vec![node(1, "a"), node(2, "a"), node(3, "a"), node(4, "b"), node(5, "b")];
    Snapshot::new(nodes, NodeIndex(0))
}

fn indexes(nodes: &[u16]) -> Vec<NodeIndex> {
    nodes.iter().copied().map(NodeIndex).collect()
}

#[test]
fn spares_stand_in_nearest_first() {
    let snapshot = five();
    let mut asked = Asked::new(indexes(&[0, 1]), indexes(&[2, 3]), false);
    assert!(asked.is_met(&snapshot, &indexes(&[1, 3])));
    assert!(!asked.is_met(&snapshot, &indexes(&[1])));
    assert_eq!(asked.take_spare(&snapshot, NodeIndex(0)), Some(NodeIndex(2)));
    assert_eq!(asked.take_spare(&snapshot, NodeIndex(0)), Some(NodeIndex(3)));
    assert_eq!(asked.take_spare(&snapshot, NodeIndex(1)), None);
}

#[test]
fn each_quorum_takes_spares_of_the_same_datacenter() {
    let snapshot = five();
    let mut asked = Asked::new(indexes(&[0, 1, 3]), indexes(&[2, 4]), true);
    assert_eq!(asked.take_spare(&snapshot, NodeIndex(3)), Some(NodeIndex(4)));
    assert_eq!(asked.take_spare(&snapshot, NodeIndex(3)), None);
    assert!(asked.is_met(&snapshot, &indexes(&[0, 4, 1])));
    assert!(!asked.is_met(&snapshot, &indexes(&[0, 1, 2])), "nobody of b");
}

#[test]
fn a_failed_repair_matters_only_to_the_level() {
    let snapshot = five();
    let mut asked = Asked::new(indexes(&[0, 1, 3]), Vec::new(), true);
    // One more of `a` than a quorum has answered.
    let mut holders = indexes(&[0, 1, 2, 3]);
    assert_eq!(asked.replace(&snapshot, &mut holders, NodeIndex(1)), Ok(None));
    assert_eq!(holders, indexes(&[0, 2, 3]));
    asked.spares = indexes(&[4]);
    assert_eq!(
        asked.clone().replace(&snapshot, &mut holders.clone(), NodeIndex(2)),
        Err(Lost),
        "nobody of a"
    );
    assert_eq!(asked.replace(&snapshot, &mut holders, NodeIndex(3)), Ok(Some(NodeIndex(4))));
    assert_eq!(holders, indexes(&[0, 2, 4]));
    assert_eq!(asked.replace(&snapshot, &mut holders, NodeIndex(4)), Err(Lost));
}
