//! What one group does, member by member.

use std::collections::BTreeSet;
use std::rc::Rc;

use crate::world::{Cluster, SECOND, Sum, folder, host, on_shard};
use raft::{Change, Error, Group};
use runtime::file::{self, AlignedBuf, File, OpenOptions};
use runtime::sim::{SimConfig, World};

async fn three(padding: usize) -> (Rc<Cluster>, Rc<Group>) {
    three_of(Cluster { padding, ..Cluster::default() }).await
}

async fn three_of(cluster: Cluster) -> (Rc<Cluster>, Rc<Group>) {
    let cluster = Rc::new(cluster);
    let first = cluster.open(1).await.unwrap();
    first.found().await.unwrap();
    for n in [2, 3] {
        cluster.open(n).await.unwrap();
        first.change(Change::AddLearner(host(n)), SECOND * 10).await.unwrap();
    }
    vote(&first, &[1, 2, 3]).await;
    (cluster, first)
}

/// Makes these vote, as soon as they have caught up.
async fn vote(group: &Group, voters: &[u64]) {
    let start = runtime::now();
    let voters: BTreeSet<_> = voters.iter().map(|n| host(*n)).collect();
    while let Err(error) = group.change(Change::SetVoters(voters.clone()), SECOND * 10).await {
        assert!(error.to_string().contains("has not caught up"), "{error}");
        assert!(runtime::now() - start < SECOND * 5, "{error}");
        runtime::sleep(SECOND / 10).await;
    }
}

/// A hello must not say what a kill takes away: entries of elections and members are applied in memory alone.
#[test]
fn a_hello_says_what_is_kept_and_not_what_is_applied() {
    on_shard(async {
        let cluster = Rc::new(Cluster::default());
        let sum = Rc::new(Sum { kept: true, ..Sum::default() });
        let group = cluster.open_with(1, sum.clone()).await.unwrap();
        group.found().await.unwrap();
        group.propose(vec![7], SECOND).await.unwrap();
        let kept = sum.at.borrow().map(|at| at.index);
        assert_eq!(group.durable().1, kept);
        group.change(Change::AddLearner(host(9)), SECOND).await.unwrap();
        assert!(group.applied().map(|at| at.index) > kept, "the change of members is an entry, too");
        assert_eq!(group.durable().1, kept);
    });
}

#[test]
fn a_lone_member_founds_and_leads_again_at_once_after_a_restart() {
    on_shard(async {
        let cluster = Rc::new(Cluster::default());
        let group = cluster.open(1).await.unwrap();
        assert!(!group.is_member());
        group.found().await.unwrap();
        let (index, answer) = group.propose(vec![7], SECOND).await.unwrap();
        assert_eq!(answer, 7u64.to_be_bytes());
        assert!(matches!(group.found().await, Err(Error::NotDone(_))), "twice");
        cluster.stop(1).await;
        let start = runtime::now();
        let group = cluster.open(1).await.unwrap();
        assert_eq!(cluster.sum(1), 7, "what was committed is applied before anybody asks");
        assert_eq!(group.propose(vec![5], SECOND).await.unwrap().1, 12u64.to_be_bytes());
        let took = runtime::now() - start;
        assert!(took < SECOND / 50, "{took:?}");
        assert!(group.applied().unwrap().index > index);
        group.read_barrier(SECOND).await.unwrap();
    });
}

#[test]
fn members_forward_and_a_barrier_sees_what_was_acknowledged() {
    on_shard(async {
        let (cluster, first) = three(0).await;
        let second = cluster.groups.borrow()[&host(2)].clone();
        for n in 1..=40 {
            second.propose(vec![n], SECOND * 5).await.unwrap();
            first.read_barrier(SECOND).await.unwrap();
            assert_eq!(cluster.sum(1), (1..=u64::from(n)).sum());
        }
        second.read_barrier(SECOND).await.unwrap();
        assert_eq!(cluster.sum(2), 820);
        let status = second.status();
        assert_eq!((status.leader, status.voters.len(), status.settled), (Some(host(1)), 3, true));
    });
}

#[test]
fn a_snapshot_of_many_parts_brings_a_new_member_up() {
    on_shard(async {
        let (cluster, first) = three(3 * raft::limits::SNAPSHOT_CHUNK_BYTES + 17).await;
        for n in 1..=100 {
            first.propose(vec![n], SECOND * 5).await.unwrap();
        }
        let fourth = cluster.open(4).await.unwrap();
        first.change(Change::AddLearner(host(4)), SECOND * 5).await.unwrap();
        let index = first.applied().unwrap().index;
        fourth.wait_applied(index - 2, SECOND * 30).await.unwrap();
        assert_eq!(cluster.sum(4), 5050);
        assert!(file::exists(folder(4).join("group0.snapshot")).await.unwrap());
        assert!(file::read(folder(1).join("group0.log")).await.unwrap().len() < 4000, "the log is cut");
    });
}

#[test]
fn the_leader_hands_over_before_it_stops_voting_and_can_leave() {
    on_shard(async {
        let (cluster, first) = three(0).await;
        cluster.open(4).await.unwrap();
        first.change(Change::AddLearner(host(4)), SECOND * 5).await.unwrap();
        let voters = BTreeSet::from([host(2), host(3), host(4)]);
        vote(&first, &[2, 3, 4]).await;
        assert!(!first.is_leader());
        let even = BTreeSet::from([host(2), host(3)]);
        assert!(matches!(first.change(Change::SetVoters(even), SECOND).await, Err(Error::NotDone(_))));
        let voting = first.change(Change::Remove(host(2)), SECOND).await;
        assert!(matches!(voting, Err(Error::NotDone(_))), "it votes");
        first.change(Change::Remove(host(1)), SECOND * 10).await.unwrap();
        let second = cluster.groups.borrow()[&host(2)].clone();
        second.propose(vec![9], SECOND * 5).await.unwrap();
        assert_eq!(second.status().voters, voters);
        assert!(second.status().learners.is_empty());
    });
}

/// Members 2 and 3 are cut off from the leader; 3 lacks what 2 has.
async fn behind(entries: u8) -> (Rc<Cluster>, u64) {
    let (cluster, first) = three(raft::limits::SNAPSHOT_CHUNK_BYTES).await;
    cluster.cut(1, 3);
    let mut index = 0;
    for _ in 0..entries {
        index = first.propose(vec![1], SECOND * 5).await.unwrap().0;
    }
    let second = cluster.groups.borrow()[&host(2)].clone();
    second.wait_applied(index, SECOND * 5).await.unwrap();
    cluster.cut(1, 2);
    assert!(cluster.sum(3) < u64::from(entries));
    (cluster, index)
}

#[test]
fn who_is_behind_pulls_entries_from_one_who_does_not_lead() {
    on_shard(async {
        let (cluster, index) = behind(5).await;
        let third = cluster.groups.borrow()[&host(3)].clone();
        third.pull(host(2), index, SECOND).await.unwrap();
        assert_eq!(cluster.sum(3), 5);
        let none = third.pull(host(2), index + 10, SECOND).await;
        assert!(matches!(none, Err(Error::NotDone(_))), "{none:?}");
        let out_of_reach = third.pull(host(1), index + 10, SECOND).await;
        assert!(matches!(out_of_reach, Err(Error::NotDone(_))), "{out_of_reach:?}");
        // Two of three go on without the leader, and it finds its way back.
        third.propose(vec![100], SECOND * 20).await.unwrap();
        cluster.cut.borrow_mut().clear();
        let first = cluster.groups.borrow()[&host(1)].clone();
        first.read_barrier(SECOND * 20).await.unwrap();
        assert_eq!(cluster.sum(1), 105);
    });
}

#[test]
fn who_is_far_behind_pulls_a_snapshot() {
    on_shard(async {
        let (cluster, index) = behind(60).await;
        let third = cluster.groups.borrow()[&host(3)].clone();
        third.pull(host(2), index, SECOND * 5).await.unwrap();
        assert_eq!(cluster.sum(3), 60);
    });
}

#[test]
fn a_voter_that_is_away_makes_nobody_keep_the_log_for_it() {
    on_shard(async {
        let (cluster, first) = three(0).await;
        let second = cluster.groups.borrow()[&host(2)].clone();
        for sent in [0, 600] {
            cluster.cut(1, 3);
            cluster.cut(2, 3);
            let mut most = 0;
            for _ in 0..600 {
                first.propose(vec![1], SECOND * 5).await.unwrap();
                most = most.max(first.status().entries.0).max(second.status().entries.0);
                runtime::sleep(SECOND / 100).await;
            }
            // A snapshot after every 10 entries, 2 kept behind it, and what comes until an attempt to reach the third has failed.
            assert!(most < 200, "{most} entries of 600 were kept");
            assert!(
                file::read(folder(1).join("group0.log")).await.unwrap().len() < 10_000,
                "and so the file"
            );
            cluster.cut.borrow_mut().clear();
            let third = cluster.groups.borrow()[&host(3)].clone();
            let index = first.applied().unwrap().index;
            third.wait_applied(index, SECOND * 30).await.unwrap();
            assert_eq!(cluster.sum(3), sent + 600, "by a snapshot");
        }
    });
}

#[test]
fn few_long_entries_are_cut_as_many_short_ones_are() {
    on_shard(async {
        let (cluster, first) = three_of(Cluster { seldom: true, ..Cluster::default() }).await;
        cluster.cut(1, 3);
        cluster.cut(2, 3);
        let second = cluster.groups.borrow()[&host(2)].clone();
        let mut most = 0;
        for _ in 0..100 {
            first.propose(vec![1; 1000], SECOND * 5).await.unwrap();
            most = most.max(first.status().entries.1).max(second.status().entries.1);
            runtime::sleep(SECOND / 5).await;
        }
        assert!(most < 30_000, "{most} bytes of 100,000 were kept, where 20,000 may be");
        cluster.cut.borrow_mut().clear();
        let third = cluster.groups.borrow()[&host(3)].clone();
        third.wait_applied(first.applied().unwrap().index, SECOND * 30).await.unwrap();
        assert_eq!(cluster.sum(3), 100_000);
    });
}

#[test]
fn a_log_that_cannot_be_written_ends_its_member_and_says_which_file() {
    let mut world = World::new(1, SimConfig::calm());
    let node = world.add_client([10, 0, 0, 1].into());
    let cluster = Rc::new(Cluster::default());
    let opened = cluster.clone();
    let mut task = world.spawn(node, async move {
        let group = opened.open(1).await.unwrap();
        group.found().await.unwrap();
        group.propose(vec![7], SECOND).await.unwrap();
        group
    });
    assert!(world.run_until(|_| task.done(), SECOND * 10));
    let group = task.take().unwrap();
    world.fail_next_syncs(node, 1);
    let mut task = world.spawn(node, async move {
        let proposed = group.propose(vec![5], SECOND).await;
        assert!(matches!(proposed, Err(Error::Unknown(_) | Error::Ended(_))), "{proposed:?}");
        group.ended().await
    });
    assert!(world.run_until(|_| task.done(), SECOND * 10), "nobody hears that it has ended");
    let text = task.take().unwrap();
    assert!(text.contains("/member-1/group0.log"), "{text}");
}

#[test]
fn outcomes_are_told_apart() {
    on_shard(async {
        let (cluster, _) = three(0).await;
        let second = cluster.groups.borrow()[&host(2)].clone();
        cluster.deaf.borrow_mut().insert(2);
        let lost = second.propose(vec![3], SECOND).await;
        assert!(matches!(lost, Err(Error::Unknown(_))), "{lost:?}");
        runtime::sleep(SECOND).await;
        assert_eq!(cluster.sum(1), 3, "it happened all the same");
        cluster.deaf.borrow_mut().clear();
        cluster.cut(2, 1);
        cluster.cut(2, 3);
        let refused = second.propose(vec![4], SECOND).await;
        assert!(matches!(refused, Err(Error::NotDone(_))), "{refused:?}");
        assert!(matches!(second.read_barrier(SECOND).await, Err(Error::NotDone(_))));
        let long = second.propose(vec![0; raft::limits::COMMAND_BYTES_MAX + 1], SECOND).await;
        assert!(matches!(long, Err(Error::NotDone(_))));
    });
}

#[test]
fn a_survivor_goes_on_in_a_new_epoch_and_the_old_one_is_refused() {
    on_shard(async {
        let (cluster, first) = three(0).await;
        for n in 1..=20 {
            first.propose(vec![n], SECOND * 5).await.unwrap();
        }
        let index = first.applied().unwrap().index;
        let third = cluster.groups.borrow()[&host(3)].clone();
        third.wait_applied(index, SECOND * 5).await.unwrap();
        for n in [1, 2, 3] {
            cluster.stop(n).await;
        }
        assert_eq!(raft::recover(&folder(3), host(3)).await.unwrap(), 1);
        let third = cluster.open(3).await.unwrap();
        third.propose(vec![90], SECOND).await.unwrap();
        assert_eq!(cluster.sum(3), 300);
        let status = third.status();
        assert_eq!((status.epoch, status.voters, status.learners.len()), (1, BTreeSet::from([host(3)]), 0));
        assert_eq!(third.applied().unwrap().epoch, 1);
        // The others come back: they elect a leader of their own epoch, and nobody hears the other side.
        for n in [1, 2] {
            cluster.open(n).await.unwrap();
        }
        runtime::sleep(SECOND * 10).await;
        assert_eq!((third.is_leader(), cluster.sum(3)), (true, 300));
        // Wiped, one joins again as another host.
        cluster.stop(1).await;
        let again = cluster.open(5).await.unwrap();
        third.change(Change::AddLearner(host(5)), SECOND * 5).await.unwrap();
        again.wait_applied(third.applied().unwrap().index, SECOND * 20).await.unwrap();
        assert_eq!((cluster.sum(5), again.status().epoch), (300, 1));
    });
}

async fn write_at(path: std::path::PathBuf, offset: u64, bytes: &[u8]) {
    let options = OpenOptions { read: true, write: true, ..OpenOptions::READ };
    let file = File::open(&path, options).await.unwrap();
    file.write_at(offset, AlignedBuf::from(bytes)).await.unwrap();
    file.sync_data().await.unwrap();
}

#[test]
fn a_damaged_log_is_refused_by_place_and_a_torn_end_is_cut() {
    on_shard(async {
        let cluster = Rc::new(Cluster::default());
        let group = cluster.open(1).await.unwrap();
        group.found().await.unwrap();
        for n in 1..=5 {
            group.propose(vec![n], SECOND).await.unwrap();
        }
        cluster.stop(1).await;
        runtime::sleep(SECOND).await;
        let log = folder(1).join("group0.log");
        let sound = file::read(&log).await.unwrap();
        file::replace_atomic(&log, &sound[..sound.len() - 3]).await.unwrap();
        cluster.open(1).await.unwrap();
        assert!(cluster.sum(1) >= 10, "all but the last");
        cluster.stop(1).await;
        file::replace_atomic(&log, &sound).await.unwrap();
        write_at(log.clone(), sound.len() as u64 / 2, b"????").await;
        let error = cluster.open(1).await.err().expect("damaged").to_string();
        assert!(error.contains("group0.log") && error.contains("at offset"), "{error}");
    });
}

#[test]
fn a_state_that_knows_more_than_its_log_is_refused() {
    on_shard(async {
        let cluster = Rc::new(Cluster::default());
        let sum = Rc::new(Sum { kept: true, ..Sum::default() });
        let group = cluster.open_with(1, sum.clone()).await.unwrap();
        group.found().await.unwrap();
        group.propose(vec![1], SECOND).await.unwrap();
        cluster.stop(1).await;
        let group = cluster.open_with(1, sum.clone()).await.unwrap();
        group.propose(vec![1], SECOND).await.unwrap();
        assert_eq!(sum.value(), 2, "nothing is applied twice");
        cluster.stop(1).await;
        runtime::sleep(SECOND).await;
        file::remove_dir_all(folder(1)).await.unwrap();
        let error = cluster.open_with(1, sum).await.err().expect("the log is gone").to_string();
        assert!(error.contains("the log ends at None"), "{error}");
    });
}
