//! Executions that need a certain order of events: what gives way and for how long, and what is lost without one of the rules of `docs/mechanisms/paxos.md`,
//! each with the rule and with the mistake that breaks it planted.

use super::*;
use coordinator::RepairOptions;
use node::config::CommitlogSync;
use paxos::{Ask, Ballot, Planned, Proposal, Reply};
use replica::FloorAsked;
use runtime::sim::SimConfig;
use storage::{Durability, Point};

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

/// Which of the nodes is the first to hold the register.
fn first_holder(run: &Run) -> usize {
    let mut ring: Vec<(i64, usize)> = Vec::new();
    for (at, host) in run.hosts.iter().enumerate() {
        ring.extend(host.config.initial_tokens.iter().map(|token| (*token, at)));
    }
    ring.sort_unstable();
    let token = key_of(KEY).token.0;
    ring.iter().find(|(end, _)| token <= *end).unwrap_or(&ring[0]).1
}

/// P1: two nodes make a register of one holder at the same moment, and neither hears what came of it. Who of the two is told that it did.
fn two_at_one_holder(planted: Option<Bug>) -> Vec<bool> {
    let (mut world, run) = calm(planted, "{'class': 'SimpleStrategy', 'replication_factor': 1}", |_| {});
    let holder = first_holder(&run);
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

/// Has each node sweep what is at rest by now, as far as it can.
fn sweep_each(world: &mut World, run: &Run) {
    run.hosts.iter().for_each(|host| sweep_from(world, host));
}

fn sweep_from(world: &mut World, host: &Host) {
    let mut swept = world.spawn(host.node, sweep(Shared::default(), Duration::ZERO));
    finished(world, &mut swept, 2 * PATIENCE, "sweeping").expect("in time").expect("swept");
}

/// Partitions of which each node knows a ballot.
fn ballots(world: &mut World, run: &Run) -> Vec<usize> {
    let mut left = |host: &Host| {
        let mut left = world.spawn(host.node, with_ballots());
        finished(world, &mut left, START, "looking for ballots").expect("in time").expect("read")
    };
    run.hosts.iter().map(&mut left).collect()
}

/// What is sent from here on is on its way for so long; half of [`LINK`] later messages are as fast as before.
fn delayed(world: &mut World, by: Duration) {
    world.set_delay(by, by, 0.0);
    world.run_for(LINK / 2);
    world.set_delay(LINK, LINK, 0.0);
}

/// What is agreed on is written by the first of three nodes alone; ballots are swept, and it is cut off. What a serial read finds without it.
fn swept_by_one(planted: Option<Bug>) -> Value {
    let (mut world, run) = calm(planted, ON_THREE, |_| {});
    let [one, others @ ..] = [0, 1, 2].map(|at| run.hosts[at].node);
    let task = make(&mut world, &run.hosts[0], (KEY, 1), Consistency::One);
    world.run_for(LINK * 7 / 2);
    others.iter().for_each(|other| world.cut_one_way(one, *other));
    assert_eq!(ended(&mut world, task).0.expect("made"), true);
    world.run_for(LINK / 2);
    others.iter().for_each(|other| world.reset_connections(one, *other));
    world.heal_all();
    world.run_for(8 * LINK);
    sweep_each(&mut world, &run);
    assert_eq!(ballots(&mut world, &run), [0, 0, 0]);
    others.iter().for_each(|other| world.cut(one, *other));
    found(&mut world, &run.hosts[1])
}

#[test]
fn what_is_swept_is_written_by_every_holder() {
    assert_eq!(swept_by_one(None), after(None, 1));
    assert_eq!(swept_by_one(Some(Bug::SweepUnsettled)), None);
}

/// What the replica of a node answers to a message about the register.
fn told(world: &mut World, host: &Host, ask: impl FnOnce() -> Ask + 'static) -> Reply {
    let mut task = world.spawn(host.node, async move {
        let local = runtime::local::<Coordinator>().local().clone();
        local.paxos(ask(), Point(0, u64::MAX)).await
    });
    finished(world, &mut task, START, "an answer").expect("in time").expect("answered")
}

/// Two of three nodes promise a round, and its proposer stalls. Another one makes the register, its ballots are swept, all lose power, and the proposer goes
/// on. What the two say, and what the register holds then.
fn accept_of_long_ago(planted: Option<Bug>) -> ([Reply; 2], Value) {
    let (mut world, mut run) = calm(planted, ON_THREE, |_| {});
    let mut task = world.spawn(run.hosts[1].node, async { runtime::unix_micros() });
    let micros = finished(&mut world, &mut task, START, "the time").expect("in time");
    let ballot = Ballot::new(micros, 7);
    for at in [1, 2] {
        let ask = move || Ask::Prepare { ballot, command: command(KEY) };
        let promised = told(&mut world, &run.hosts[at], ask);
        assert!(matches!(promised, Reply::Promise(_)), "{promised:?}");
    }
    let made = make(&mut world, &run.hosts[0], (KEY, 1), Consistency::All);
    assert_eq!(ended(&mut world, made).0.expect("made"), true);
    world.run_for(8 * LINK);
    sweep_each(&mut world, &run);
    assert_eq!(ballots(&mut world, &run), [0, 0, 0]);
    run.hosts.iter().for_each(|host| world.power_cut(host.node));
    run.all_ready(&mut world).expect("start again");
    world.run_for(PATIENCE);
    let said = [1, 2].map(|at| told(&mut world, &run.hosts[at], move || accept(ballot, 2)));
    (said, found(&mut world, &run.hosts[1]))
}

/// One of three nodes has accepted what a proposer that stalls has proposed; another has promised it. What a serial read finds that does not reach the one, and
/// then one that does not reach whom the first one was sent through.
fn found_twice(planted: Option<Bug>) -> [Value; 2] {
    let (mut world, run) = calm(planted, ON_THREE, |_| {});
    let [through, one, other] = [0, 1, 2].map(|at| run.hosts[at].node);
    let mut task = world.spawn(one, async { runtime::unix_micros() });
    let micros = finished(&mut world, &mut task, START, "the time").expect("in time");
    let ballot = Ballot::new(micros, 7);
    for at in [1, 2] {
        let ask = move || Ask::Prepare { ballot, command: command(KEY) };
        let promised = told(&mut world, &run.hosts[at], ask);
        assert!(matches!(promised, Reply::Promise(_)), "{promised:?}");
    }
    let said = told(&mut world, &run.hosts[1], move || accept(ballot, 2));
    assert_eq!(said, Reply::Accepted);
    [through, other].iter().for_each(|node| world.cut(one, *node));
    let first = found(&mut world, &run.hosts[0]);
    world.heal_all();
    world.run_for(PATIENCE);
    [one, other].iter().for_each(|node| world.cut(through, *node));
    [first, found(&mut world, &run.hosts[2])]
}

#[test]
fn nothing_surfaces_behind_a_read_that_did_not_find_it() {
    assert_eq!(found_twice(None), [None, None]);
    assert_eq!(found_twice(Some(Bug::PaxosNoFence)), [None, after(None, 2)]);
}

/// What a round proposes that makes the register.
fn accept(ballot: Ballot, value: i64) -> Ask {
    let what = Swap { key: KEY, command: command(KEY), old: None, new: after(None, value) };
    let mutation = what.decide(&ReadAnswer::default(), ballot.micros()).expect("a mutation");
    let planned = Planned { on: (0, u64::MAX), at: ballot.micros() };
    let proposal = Proposal { origin: ballot, planned, mutation };
    Ask::Accept { table: TABLE, key: key_of(KEY), ballot, proposal }
}

#[test]
fn nothing_of_long_ago_is_accepted_where_its_ballots_were_swept() {
    let (said, found) = accept_of_long_ago(None);
    assert!(said.iter().all(|said| matches!(said, Reply::Refused(_))), "{said:?}");
    assert_eq!(found, after(None, 1));
    for planted in [Bug::SweepWithoutFloor, Bug::FloorNotDurable] {
        let (said, found) = accept_of_long_ago(Some(planted));
        assert_eq!(said, [Reply::Accepted, Reply::Accepted], "{planted:?}");
        assert_eq!(
            found.map(|held| held % SET_MAX),
            Some(2),
            "{planted:?}: both, though each was to make it"
        );
    }
}

/// A node proposes to make a register, and does not hear that all have accepted it. Another one finishes that, and its ballots are swept before the first
/// one asks again. What it is told.
fn own_is_swept(planted: Option<Bug>) -> Result<bool, Error> {
    let (mut world, run) = calm(planted, ON_THREE, |_| {});
    // Who sweeps the register waits for no answer that is late.
    let sweeper = first_holder(&run);
    let [one, others @ ..] = [1, 2, 3].map(|step| run.hosts[(sweeper + step) % 3].node);
    let proposer = &run.hosts[(sweeper + 1) % 3];
    let task = make(&mut world, proposer, (KEY, 1), Consistency::One);
    // Promised; what is accepted now is told late.
    world.run_for(LINK * 29 / 10);
    delayed(&mut world, PATIENCE / 2);
    assert_eq!(found(&mut world, &run.hosts[sweeper]), after(None, 1));
    world.run_for(8 * LINK);
    sweep_from(&mut world, &run.hosts[sweeper]);
    assert_eq!(ballots(&mut world, &run), [0, 0, 0]);
    others.iter().for_each(|other| world.reset_connections(one, *other));
    ended(&mut world, task).0
}

#[test]
fn whose_proposal_may_have_been_swept_does_not_say_that_it_was_not_applied() {
    let told = own_is_swept(None);
    assert!(matches!(told, Err(Error::CasUnknown { .. })), "{told:?}");
    let told = own_is_swept(Some(Bug::SweptIsNever));
    assert!(matches!(told, Ok(false)), "it was: {told:?}");
}

/// A sweep of a register that was made, and that got to the first of three holders alone.
fn swept_in_part() -> (World, Run) {
    let (mut world, run) = calm(None, ON_THREE, |_| {});
    let made = make(&mut world, &run.hosts[0], (KEY, 1), Consistency::All);
    assert_eq!(ended(&mut world, made).0.expect("made"), true);
    world.run_for(8 * LINK);
    for (at, host) in run.hosts.iter().enumerate() {
        let mut task = world.spawn(host.node, async move {
            let local = runtime::local::<Coordinator>().local().clone();
            let on = Point(0, u64::MAX);
            let micros = runtime::unix_micros();
            let whole = (TableId(0), TokenRange::new(Token(i64::MIN), Token(i64::MAX)));
            local.raise_floor(FloorAsked { raises: true, at: micros, of: whole }, on).await?;
            let swept = Records::new().swept(TABLE, &key_of(KEY), Ballot::floor(micros));
            if at == 0 { local.write(vec![swept], Durability::Mode, on).await } else { Ok(()) }
        });
        finished(&mut world, &mut task, START, "sweeping in part").expect("in time").expect("done");
    }
    assert_eq!(ballots(&mut world, &run), [0, 1, 1]);
    (world, run)
}

#[test]
fn what_a_sweep_did_not_get_to_is_swept_by_the_next() {
    let (mut world, run) = swept_in_part();
    sweep_each(&mut world, &run);
    assert_eq!(
        ballots(&mut world, &run),
        [0, 0, 0],
        "though a tombstone of the first one hides what the others have"
    );
    assert_eq!(found(&mut world, &run.hosts[1]), after(None, 1));
}

#[test]
fn a_sweep_in_part_holds_up_nobody() {
    let (mut world, mut run) = swept_in_part();
    // Without the third one a quorum is of the two that do not know the same.
    world.power_cut(run.hosts[2].node);
    world.run_for(PATIENCE);
    let (outcome, took) = {
        let second = make(&mut world, &run.hosts[0], (KEY, 2), Consistency::One);
        ended(&mut world, second)
    };
    assert!(matches!(outcome, Ok(false)) && took < Duration::from_secs(2), "{outcome:?} after {took:?}");
    // From then on both know the same, and a read asks once.
    world.run_for(4 * LINK);
    let start = world.now();
    assert_eq!(found(&mut world, &run.hosts[1]), after(None, 1));
    assert!(world.now() - start <= 3 * LINK, "after {:?}", world.now() - start);
    run.all_ready(&mut world).expect("starts again");
    world.run_for(PATIENCE);
    sweep_each(&mut world, &run);
    assert_eq!(ballots(&mut world, &run), [0, 0, 0]);
}

/// What two of three nodes have accepted when its proposer loses power, and a repair. Whether it is open still, and what the replica of the second one has.
fn open_and_repaired(options: RepairOptions) -> (bool, Value) {
    let (mut world, mut run) = calm(None, ON_THREE, |_| {});
    drop(make(&mut world, &run.hosts[0], (KEY, 1), Consistency::One));
    world.run_for(LINK * 33 / 10);
    world.power_cut(run.hosts[0].node);
    run.all_ready(&mut world).expect("starts again");
    world.run_for(PATIENCE);
    let mut repaired = world.spawn(run.hosts[2].node, crate::repairs::repair_as("ks", options));
    finished(&mut world, &mut repaired, 2 * PATIENCE, "a repair").expect("in time").expect("repaired");
    // Nobody waits for what is told at the end of a round.
    world.run_for(4 * LINK);
    let mut task = world.spawn(run.hosts[1].node, async {
        let local = runtime::local::<Coordinator>().local().clone();
        let whole = TokenRange::new(Token(i64::MIN), Token(i64::MAX));
        let answer = local.read(&Records::all(whole, runtime::unix_seconds())).await.expect("read");
        let states = Records::states(&answer).expect("states");
        let rows = local.read(&command(KEY)).await.expect("read");
        (states.iter().any(|(_, _, state)| state.open().is_some()), held(&rows))
    });
    finished(&mut world, &mut task, START, "looking").expect("in time")
}

#[test]
fn a_repair_finishes_what_is_open_unless_it_is_to_skip_that() {
    let only = RepairOptions { only_rounds: true, ..RepairOptions::default() };
    assert_eq!(open_and_repaired(only), (false, after(None, 1)));
    let skips = RepairOptions { skips_rounds: true, ..RepairOptions::default() };
    assert_eq!(open_and_repaired(skips), (true, None));
}

/// Two of a datacenter accept what the first one proposes at LOCAL_SERIAL; it hears of it late. The other datacenter repairs, and the third node makes the
/// register meanwhile. What the two are told.
#[test]
fn a_repair_does_not_fence_off_what_another_datacenter_has_agreed_on() {
    let mut world = World::new(7, SimConfig::calm());
    let run = prepare_nodes(&mut world, 7, None, OF_BOTH, |n| NEAR <= n);
    let replication = "{'class': 'NetworkTopologyStrategy', 'datacenter1': 3, 'far': 2}";
    let run = begin(&mut world, run, replication, |_| {});
    let local = |world: &mut World, at: usize, value: i64| {
        world.spawn(run.hosts[at].node, async move {
            let (coordinator, start) = (runtime::local::<Coordinator>(), runtime::now());
            let what = Swap { key: KEY, command: command(KEY), old: None, new: after(None, value) };
            let commit = Consistency::LocalQuorum;
            let outcome = coordinator.cas(&what, Consistency::LocalSerial, commit, PATIENCE).await;
            (outcome.map(|decided| decided.applied), runtime::now() - start)
        })
    };
    let first = local(&mut world, 0, 1);
    world.run_for(LINK * 3 / 2);
    let [one, third] = [0, 2].map(|at| run.hosts[at].node);
    world.cut_one_way(one, third);
    world.run_for(LINK * 14 / 10);
    delayed(&mut world, Duration::from_secs(6));
    world.reset_connections(one, third);
    world.heal_all();
    // Nobody waits for what they would promise.
    let slow = Duration::from_millis(300);
    [0, 1].iter().for_each(|at| world.slow_disk(run.hosts[*at].node, (slow, slow)));
    let mut repaired = world.spawn(run.hosts[NEAR].node, crate::repairs::repair("ks", false));
    finished(&mut world, &mut repaired, 2 * PATIENCE, "a repair").expect("in time").expect("repaired");
    let second = local(&mut world, 2, 2);
    let told = [second, first].map(|task| ended(&mut world, task).0);
    assert!(matches!(told[..], [Ok(false), Ok(true)]), "{told:?}");
}
