//! Executions that need a certain order of events: what gives way and for how long, and what is lost without one of the rules of `docs/mechanisms/paxos.md`,
//! each with the rule and with the mistake that breaks it planted.

use super::*;
use node::config::CommitlogSync;
use runtime::sim::SimConfig;

/// How long a message is on its way.
const LINK: Duration = Duration::from_millis(100);
const PATIENCE: Duration = Duration::from_secs(30);
const KEY: u64 = 1;

/// Three calm nodes over slow links; what they have in common is set before they start.
fn calm(planted: Option<Bug>, replication: &'static str, common: impl Fn(&mut Host)) -> (World, Run) {
    let mut world = World::new(7, SimConfig::calm());
    let mut run = prepare(&mut world, 7, planted);
    run.hosts.iter_mut().for_each(|host| {
        // What one lacks it lacks until somebody writes it.
        host.config.hints.enabled = false;
        host.config.cas_contention_timeout = PATIENCE;
        common(host);
    });
    run.all_ready(&mut world).expect("start");
    let nodes: Vec<SocketAddr> = run.hosts.iter().map(Host::native).collect();
    let mut schema = world.spawn(run.client, async move { create_schema(nodes, replication).await });
    finished(&mut world, &mut schema, 2 * START, "making the schema").expect("in time").expect("made");
    // Nodes connect when they first speak.
    for host in &run.hosts {
        let mut read = world.spawn(host.node, read_it());
        finished(&mut world, &mut read, START, "a read").expect("in time").expect("read");
    }
    world.set_delay(LINK, LINK, 0.0);
    (world, run)
}

async fn read_it() -> Result<Value, Error> {
    let coordinator = runtime::local::<Coordinator>();
    coordinator.read_serial(&command(KEY), Consistency::Serial, PATIENCE).await.map(|answer| held(&answer))
}

/// How a change ended, and after what time.
type Ended = (Result<bool, Error>, Duration);

/// Makes the register from nothing, through a node.
fn make(world: &mut World, host: &Host, (key, value): (u64, i64), commit: Consistency) -> Task<Ended> {
    world.spawn(host.node, async move {
        let (coordinator, start) = (runtime::local::<Coordinator>(), runtime::now());
        let what = Swap { key, command: command(key), old: None, new: after(None, value) };
        let outcome = coordinator.cas(&what, Consistency::Serial, commit, PATIENCE).await;
        (outcome.map(|decided| decided.applied), runtime::now() - start)
    })
}

fn ended(world: &mut World, mut task: Task<Ended>) -> Ended {
    finished(world, &mut task, 2 * PATIENCE, "a change").expect("in time")
}

/// Two nodes change one register at the same moment; each gives way for so long.
fn two_at_once(patience: Duration) -> Vec<Ended> {
    let (mut world, run) = calm(None, ON_THREE, |host| host.config.cas_contention_timeout = patience);
    let quorum = Consistency::Quorum;
    let tasks = [0, 1].map(|at| make(&mut world, &run.hosts[at], (KEY, at as i64 + 1), quorum));
    tasks.into_iter().map(|task| ended(&mut world, task)).collect()
}

#[test]
fn who_may_give_way_for_long_is_served_in_the_end() {
    let mut applied: Vec<bool> =
        two_at_once(PATIENCE).into_iter().map(|(outcome, _)| outcome.expect("done")).collect();
    applied.sort_unstable();
    assert_eq!(applied, [false, true]);
}

#[test]
fn who_gives_way_for_longer_than_cas_contention_timeout_fails() {
    let ended = two_at_once(Duration::from_millis(50));
    let gave_up = |(outcome, took): &Ended| {
        matches!(outcome, Err(Error::CasTimeout { contention, .. }) if 0 < *contention)
            && *took < Duration::from_secs(1)
    };
    assert!(ended.iter().any(gave_up), "{ended:?}");
}

/// A1: the second of three nodes promises two rounds and loses power; both go on when it is back. Who of the two is told that it made the register.
fn promise_and_power_cut(planted: Option<Bug>) -> Vec<bool> {
    let (mut world, mut run) = calm(planted, ON_THREE, |host| {
        host.config.commitlog_sync = CommitlogSync::Periodic(Duration::from_secs(600));
    });
    let [first, promises, second] = [0, 1, 2].map(|at| run.hosts[at].node);
    world.cut(first, second);
    // Both lack their own promise until the node between them is back.
    for (node, seconds) in [(first, 2), (second, 3)] {
        world.slow_disk(node, (Duration::from_secs(seconds), Duration::from_secs(seconds)));
    }
    let older = make(&mut world, &run.hosts[0], (KEY, 1), Consistency::One);
    world.run_for(LINK / 2);
    let newer = make(&mut world, &run.hosts[2], (KEY, 2), Consistency::One);
    world.run_for(4 * LINK);
    world.power_cut(promises);
    run.boot_dead(&mut world, 1.0);
    run.hosts[1].await_ready(&mut world).expect("starts");
    [older, newer].into_iter().map(|task| ended(&mut world, task).0.unwrap_or(false)).collect()
}

#[test]
fn a_promise_outlives_a_loss_of_power() {
    assert_ne!(promise_and_power_cut(None), [true, true]);
    assert_eq!(promise_and_power_cut(Some(Bug::PromiseNotDurable)), [true, true]);
}

/// P7: what is agreed on is written by the first of three nodes alone, which is then cut off. What a serial read finds without it.
fn commit_by_one(planted: Option<Bug>) -> Value {
    let (mut world, run) = calm(planted, ON_THREE, |_| {});
    let [one, others @ ..] = [0, 1, 2].map(|at| run.hosts[at].node);
    let task = make(&mut world, &run.hosts[0], (KEY, 1), Consistency::One);
    // Promised, accepted, and the commit about to leave.
    world.run_for(LINK * 7 / 2);
    others.iter().for_each(|other| world.cut_one_way(one, *other));
    assert_eq!(ended(&mut world, task).0.expect("made"), true);
    world.run_for(LINK / 2);
    others.iter().for_each(|other| world.reset_connections(one, *other));
    world.heal_all();
    // What follows a commit arrives.
    world.run_for(8 * LINK);
    others.iter().for_each(|other| world.cut(one, *other));
    let mut read = world.spawn(run.hosts[1].node, read_it());
    let found = finished(&mut world, &mut read, 2 * PATIENCE, "a read").expect("in time");
    found.expect("two of three are there")
}

#[test]
fn what_one_replica_has_written_is_not_forgotten_by_the_others() {
    assert_eq!(commit_by_one(None), after(None, 1));
    assert_eq!(commit_by_one(Some(Bug::PruneEarly)), None);
}

/// P1: two nodes make a register of one holder at the same moment, and neither hears what came of it. Who of the two is told that it did.
fn two_at_one_holder(planted: Option<Bug>) -> Vec<bool> {
    let (mut world, run) = calm(planted, "{'class': 'SimpleStrategy', 'replication_factor': 1}", |_| {});
    let mut ring: Vec<(i64, usize)> = Vec::new();
    for (at, host) in run.hosts.iter().enumerate() {
        ring.extend(host.config.initial_tokens.iter().map(|token| (*token, at)));
    }
    ring.sort_unstable();
    let token = key_of(KEY).token.0;
    let holder = ring.iter().find(|(end, _)| token <= *end).unwrap_or(&ring[0]).1;
    let [one, other] = [1, 2].map(|step| (holder + step) % run.count());
    let tasks =
        [one, other].map(|at| make(&mut world, &run.hosts[at], (KEY, at as i64 + 1), Consistency::One));
    // Looked at, and written: the answers are on their way.
    world.run_for(LINK * 7 / 2);
    for at in [one, other] {
        world.reset_connections(run.hosts[holder].node, run.hosts[at].node);
    }
    let mut applied: Vec<bool> =
        tasks.into_iter().map(|task| ended(&mut world, task).0.unwrap_or(false)).collect();
    applied.sort_unstable();
    applied
}

#[test]
fn two_ballots_of_one_moment_are_two() {
    assert_eq!(two_at_one_holder(None), [false, true]);
    assert_eq!(two_at_one_holder(Some(Bug::BallotReused)), [true, true]);
}
