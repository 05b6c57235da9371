//! What gives way to others, and for how long.

use super::*;
use runtime::sim::SimConfig;

/// Two nodes change one register at the same moment over slow links; each gives way for so long. How each call ended, and after what time.
fn two_at_once(patience: Duration) -> Vec<(Result<bool, Error>, Duration)> {
    let mut world = World::new(7, SimConfig::calm());
    let mut run = prepare(&mut world, 7, None);
    run.hosts.iter_mut().for_each(|host| host.config.cas_contention_timeout = patience);
    run.all_ready(&mut world).expect("start");
    let nodes: Vec<SocketAddr> = run.hosts.iter().map(Host::native).collect();
    let mut schema = world.spawn(run.client, async move { create_schema(nodes, ON_THREE).await });
    finished(&mut world, &mut schema, 2 * START, "making the schema").expect("in time").expect("made");
    let slow = Duration::from_millis(100);
    world.set_delay(slow, slow, 0.0);
    let call = |value: i64| async move {
        let (coordinator, start) = (runtime::local::<Coordinator>(), runtime::now());
        let what = Swap { key: 1, command: command(1), old: None, new: after(None, value) };
        let levels = (Consistency::Serial, Consistency::Quorum);
        let outcome = coordinator.cas(&what, levels.0, levels.1, Duration::from_secs(30)).await;
        (outcome.map(|decided| decided.applied), runtime::now() - start)
    };
    let tasks: Vec<_> = (0..2).map(|at| world.spawn(run.hosts[at].node, call(at as i64 + 1))).collect();
    let ended = tasks.into_iter().map(|mut task| finished(&mut world, &mut task, 2 * START, "a change"));
    ended.collect::<Result<_, _>>().expect("in time")
}

#[test]
fn who_may_give_way_for_long_is_served_in_the_end() {
    let mut applied: Vec<bool> =
        two_at_once(Duration::from_secs(20)).into_iter().map(|(outcome, _)| outcome.expect("done")).collect();
    applied.sort_unstable();
    assert_eq!(applied, [false, true]);
}

#[test]
fn who_gives_way_for_longer_than_cas_contention_timeout_fails() {
    let ended = two_at_once(Duration::from_millis(50));
    let gave_up = |(outcome, took): &(Result<bool, Error>, Duration)| {
        matches!(outcome, Err(Error::CasTimeout { contention, .. }) if 0 < *contention)
            && *took < Duration::from_secs(1)
    };
    assert!(ended.iter().any(gave_up), "{ended:?}");
}
