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
    let run = prepare(&mut world, 7, planted);
    let run = begin(&mut world, run, replication, common);
    (world, run)
}

fn begin(world: &mut World, mut run: Run, replication: &'static str, common: impl Fn(&mut Host)) -> Run {
    run.hosts.iter_mut().for_each(|host| {
        // What one lacks it lacks until somebody writes it.
        host.config.hints.enabled = false;
        host.config.cas_contention_timeout = PATIENCE;
        common(host);
    });
    run.all_ready(world).expect("start");
    let nodes: Vec<SocketAddr> = run.hosts.iter().map(Host::native).collect();
    let mut schema = world.spawn(run.client, async move { create_schema(nodes, replication).await });
    finished(world, &mut schema, 2 * START, "making the schema").expect("in time").expect("made");
    // Nodes connect when they first speak.
    for host in &run.hosts {
        let mut read = world.spawn(host.node, read_it());
        finished(world, &mut read, START, "a read").expect("in time").expect("read");
    }
    world.set_delay(LINK, LINK, 0.0);
    run
}

/// What a serial read through this node finds.
fn found(world: &mut World, host: &Host) -> Value {
    let mut read = world.spawn(host.node, read_it());
    finished(world, &mut read, 2 * PATIENCE, "a read").expect("in time").expect("a quorum is there")
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

/// Two changes of one register through these nodes at the same moment; each gives way for so long. How they ended, and what the register holds then.
fn two_at_once(patience: Duration, through: [usize; 2]) -> (Vec<Ended>, Value) {
    let (mut world, run) = calm(None, ON_THREE, |host| host.config.cas_contention_timeout = patience);
    let mut change =
        |value: i64, at: usize| make(&mut world, &run.hosts[at], (KEY, value), Consistency::Quorum);
    let tasks = [change(1, through[0]), change(2, through[1])];
    let ended = tasks.into_iter().map(|task| ended(&mut world, task)).collect();
    let found = found(&mut world, &run.hosts[2]);
    (ended, found)
}

/// Whether it gave up early, after it let others through so often.
fn gave_up((outcome, took): &Ended, gave_way: impl Fn(u32) -> bool) -> bool {
    let contention = match outcome {
        Err(Error::CasTimeout { contention, .. }) => Some(*contention),
        _ => None,
    };
    contention.is_some_and(gave_way) && *took < Duration::from_secs(1)
}

#[test]
fn who_may_give_way_for_long_is_served_in_the_end() {
    let (ended, found) = two_at_once(PATIENCE, [0, 1]);
    let applied: Vec<bool> = ended.into_iter().map(|(outcome, _)| outcome.expect("done")).collect();
    let first = applied.iter().position(|applied| *applied).expect("one is applied");
    assert_eq!(applied.iter().filter(|applied| **applied).count(), 1);
    assert_eq!(found, after(None, first as i64 + 1));
}

#[test]
fn who_gives_way_for_longer_than_cas_contention_timeout_fails() {
    let (ended, found) = two_at_once(Duration::from_millis(50), [0, 1]);
    let [gone, done] = match gave_up(&ended[0], |contention| 0 < contention) {
        true => [0, 1],
        false => [1, 0],
    };
    assert!(gave_up(&ended[gone], |contention| 0 < contention), "{ended:?}");
    assert!(matches!(ended[done].0, Ok(true)), "{ended:?}");
    assert_eq!(found, after(None, done as i64 + 1));
}

#[test]
fn who_is_in_line_for_longer_than_cas_contention_timeout_fails() {
    let (ended, found) = two_at_once(Duration::from_millis(50), [0, 0]);
    assert!(matches!(ended[0].0, Ok(true)), "{ended:?}");
    assert!(gave_up(&ended[1], |contention| contention == 0), "{ended:?}");
    assert_eq!(found, after(None, 1));
}

/// One of two datacenters goes on when the other and one of its own nodes are gone.
#[test]
fn local_serial_needs_nobody_of_another_datacenter() {
    let mut world = World::new(7, SimConfig::calm());
    let run = prepare_nodes(&mut world, 7, None, OF_BOTH, |n| NEAR <= n);
    let replication = "{'class': 'NetworkTopologyStrategy', 'datacenter1': 3, 'far': 2}";
    let run = begin(&mut world, run, replication, |_| {});
    for gone in NEAR - 1..OF_BOTH {
        world.power_cut(run.hosts[gone].node);
    }
    // Everybody knows.
    world.run_for(PATIENCE);
    let change = |serial, commit| async move {
        let coordinator = runtime::local::<Coordinator>();
        let what = Swap { key: KEY, command: command(KEY), old: None, new: after(None, 1) };
        coordinator.cas(&what, serial, commit, PATIENCE).await.map(|decided| decided.applied)
    };
    let mut ask = |serial, commit| {
        let mut task = world.spawn(run.hosts[0].node, change(serial, commit));
        finished(&mut world, &mut task, 2 * PATIENCE, "a change").expect("in time")
    };
    let refused = ask(Consistency::Serial, Consistency::LocalQuorum);
    assert!(matches!(refused, Err(Error::Unavailable { .. })), "{refused:?}");
    let done = ask(Consistency::LocalSerial, Consistency::LocalQuorum);
    assert!(matches!(done, Ok(true)), "{done:?}");
}

/// A1: the second of three nodes promises two rounds and loses power; both go on when it is back. What the two are told, and what the register holds.
fn promise_and_power_cut(planted: Option<Bug>) -> (Vec<Result<bool, Error>>, Value) {
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
    let told = [older, newer].into_iter().map(|task| ended(&mut world, task).0).collect();
    world.heal_all();
    let found = found(&mut world, &run.hosts[1]);
    (told, found)
}

#[test]
fn a_promise_outlives_a_loss_of_power() {
    let (told, found) = promise_and_power_cut(None);
    // The second one's proposal may have been there before the first one's, for all that it knows.
    assert!(matches!(told[..], [Ok(true), Err(Error::CasUnknown { .. })]), "{told:?}");
    assert_eq!(found, after(None, 1));
    let (told, found) = promise_and_power_cut(Some(Bug::PromiseNotDurable));
    assert!(matches!(told[..], [Ok(true), Ok(true)]), "{told:?}");
    assert_eq!(found, after(after(None, 1), 2), "both, though each was to make it");
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
    found(&mut world, &run.hosts[1])
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
