//! What is kept for a node that is away, and for how long.

use super::*;
use ::hints::{Pending, Switches};
use node::config::HintRules;
use std::collections::BTreeSet;

/// Starts every node that is dead.
fn all_up(world: &mut World, run: &mut Run) {
    run.boot_dead(world, 1.0);
    for host in &run.hosts {
        host.await_ready(world).expect("starts");
    }
}

/// Stops all nodes and starts them with other rules.
fn restart(world: &mut World, run: &mut Run, change: impl Fn(&mut HintRules)) {
    for host in &mut run.hosts {
        change(&mut host.config.hints);
        host.stop(world).expect("stops");
    }
    all_up(world, run);
}

/// Three nodes that hand off by these rules, with a row that all of them have; the third is dead, and the others know it.
fn third_is_dead(change: impl Fn(&mut HintRules)) -> (World, Run) {
    let (mut world, mut run) = trio();
    restart(&mut world, &mut run, |rules| {
        (rules.enabled, rules.flush_period) = (true, Duration::from_secs(1));
        change(rules);
    });
    world.kill(run.hosts[2].node);
    world.run_for(Duration::from_secs(5));
    (world, run)
}

/// Runs a statement at the first node.
fn run_at_first(world: &mut World, run: &Run, cql: &str) {
    run_at(world, run, 0, cql);
}

fn run_at(world: &mut World, run: &Run, at: usize, cql: &str) {
    let (to, cql) = (run.hosts[at].native(), cql.to_string());
    let mut done = world.spawn(run.client, async move {
        let mut session = insist(to, START).await?;
        session.query(&cql, Ask::at(Consistency::One)).await
    });
    finished(world, &mut done, LONG, "a statement").expect("in time").expect("done");
}

/// Rows that the third node alone has of partition 1.
fn rows_of_third(world: &mut World, run: &Run) -> usize {
    read_through(world, run, 2, Consistency::One).0.expect("read")
}

/// What the first node keeps for others.
fn kept(world: &mut World, run: &Run) -> Pending {
    let mut pending = world.spawn(run.hosts[0].node, ::hints::pending());
    let pending = finished(world, &mut pending, LONG, "counting").expect("in time");
    assert!(pending.len() <= 1, "only the third is away: {pending:?}");
    pending.into_values().next().unwrap_or_default()
}

fn switch(world: &mut World, run: &Run, change: impl Fn(&mut Switches) + Clone + Send + 'static) {
    for host in &run.hosts[..2] {
        let mut done = world.spawn(host.node, ::hints::switch(change.clone()));
        finished(world, &mut done, LONG, "switching").expect("in time");
    }
}

const INSERT: &str = "INSERT INTO ks.r (k, c, v) VALUES (1, 2, 'y')";

#[test]
fn a_node_that_is_back_has_what_it_missed() {
    let (mut world, mut run) = third_is_dead(|_| {});
    run_at_first(&mut world, &run, INSERT);
    assert_eq!(kept(&mut world, &run).buffered, 1);
    world.run_for(Duration::from_secs(2));
    let pending = kept(&mut world, &run);
    assert_eq!((pending.buffered, pending.files), (0, 1));
    // Another number of shards, and no warning: what is on the disk is found.
    world.power_cut(run.hosts[0].node);
    all_up(&mut world, &mut run);
    world.run_for(Duration::from_secs(30));
    assert_eq!((rows_of_third(&mut world, &run), kept(&mut world, &run)), (2, Pending::default()));
}

#[test]
fn nothing_is_kept_for_a_node_that_is_down_for_longer_than_the_window() {
    let (mut world, mut run) = third_is_dead(|rules| rules.window = Duration::from_secs(20));
    run_at_first(&mut world, &run, INSERT);
    world.run_for(Duration::from_secs(30));
    run_at_first(&mut world, &run, "INSERT INTO ks.r (k, c, v) VALUES (1, 3, 'y')");
    // A restart does not begin the window anew.
    world.kill(run.hosts[0].node);
    boot_dead_but_third(&mut world, &mut run);
    run_at_first(&mut world, &run, "INSERT INTO ks.r (k, c, v) VALUES (1, 4, 'y')");
    all_up(&mut world, &mut run);
    world.run_for(Duration::from_secs(30));
    assert_eq!(rows_of_third(&mut world, &run), 2, "the row of the beginning, and what it missed at first");
}

fn boot_dead_but_third(world: &mut World, run: &mut Run) {
    let shards = run.shards[0];
    run.hosts[0].boot(world, shards);
    run.hosts[0].await_ready(world).expect("starts");
    world.run_for(Duration::from_secs(5));
}

#[test]
fn no_more_is_kept_than_is_allowed() {
    let (mut world, run) = third_is_dead(|rules| rules.host_bytes_max = 4_096);
    let to = run.hosts[0].native();
    let mut written = world.spawn(run.client, async move {
        let mut session = insist(to, START).await?;
        for c in 0..200 {
            let cql = format!("INSERT INTO ks.r (k, c, v) VALUES (1, {c}, 'yyyyyyyyyyyyyyyyyyyyyyyyyyyyy')");
            session.query(&cql, Ask::at(Consistency::One)).await?;
        }
        Ok::<_, Trouble>(())
    });
    finished(&mut world, &mut written, LONG, "writing").expect("in time").expect("written");
    world.run_for(Duration::from_secs(5));
    let bytes = kept(&mut world, &run).bytes;
    let slack = u64::from(run.shards[0]) * 64;
    assert!((500..4_096 + slack).contains(&bytes), "{bytes}");
}

#[test]
fn a_hint_that_is_older_than_the_grace_of_its_table_expires() {
    let (mut world, mut run) = third_is_dead(|_| {});
    // Each node has a schema of its own; what is known where the hint is kept counts.
    for at in 0..2 {
        run_at(&mut world, &run, at, "ALTER TABLE ks.r WITH gc_grace_seconds = 30");
    }
    run_at_first(&mut world, &run, INSERT);
    world.run_for(Duration::from_secs(14));
    run_at_first(&mut world, &run, "INSERT INTO ks.r (k, c, v) VALUES (1, 3, 'y')");
    world.run_for(Duration::from_secs(5));
    all_up(&mut world, &mut run);
    world.run_for(Duration::from_secs(30));
    assert_eq!((rows_of_third(&mut world, &run), kept(&mut world, &run)), (2, Pending::default()));
    run_at_first(&mut world, &run, "ALTER TABLE ks.r WITH gc_grace_seconds = 15");
    world.kill(run.hosts[2].node);
    world.run_for(Duration::from_secs(5));
    run_at_first(&mut world, &run, INSERT);
    assert_eq!(kept(&mut world, &run), Pending::default(), "it could not be delivered in time");
}

#[test]
fn what_was_truncated_does_not_come_back() {
    let (mut world, mut run) = third_is_dead(|_| {});
    run_at_first(&mut world, &run, INSERT);
    switch(&mut world, &run, |switches| switches.is_paused = true);
    all_up(&mut world, &mut run);
    world.run_for(Duration::from_secs(20));
    assert_eq!((rows_of_third(&mut world, &run), kept(&mut world, &run).files), (1, 1), "paused");
    run_at_first(&mut world, &run, "TRUNCATE ks.r");
    switch(&mut world, &run, |switches| switches.is_paused = false);
    world.run_for(Duration::from_secs(20));
    assert_eq!((rows_of_third(&mut world, &run), kept(&mut world, &run)), (0, Pending::default()));
}

#[test]
fn a_table_that_is_gone_does_not_hold_up_what_is_behind_it() {
    let (mut world, mut run) = third_is_dead(|_| {});
    for at in 0..2 {
        let cql = "CREATE TABLE ks.gone (k int PRIMARY KEY) WITH id = 5a1c395e-b41f-11e5-9f22-ba0be0483c1b";
        run_at(&mut world, &run, at, cql);
        let cql = "CREATE TABLE ks.here (k int PRIMARY KEY) WITH id = 5a1c395e-b41f-11e5-9f22-ba0be0483c1c";
        run_at(&mut world, &run, at, cql);
    }
    // The third has never heard of either, and one of them is dropped.
    run_at_first(&mut world, &run, "INSERT INTO ks.gone (k) VALUES (1)");
    run_at_first(&mut world, &run, "INSERT INTO ks.here (k) VALUES (1)");
    run_at_first(&mut world, &run, INSERT);
    run_at_first(&mut world, &run, "DROP TABLE ks.gone");
    all_up(&mut world, &mut run);
    world.run_for(LONG);
    assert_eq!(rows_of_third(&mut world, &run), 2, "what is behind the others has arrived");
    assert_eq!(kept(&mut world, &run).files, 1, "what it refuses waits for it to learn of the table");
    run_at(
        &mut world,
        &run,
        2,
        "CREATE TABLE ks.here (k int PRIMARY KEY) WITH id = 5a1c395e-b41f-11e5-9f22-ba0be0483c1c",
    );
    world.run_for(LONG);
    assert_eq!(kept(&mut world, &run), Pending::default());
}

#[test]
fn what_an_operator_switches_off_is_not_kept() {
    let (mut world, run) = third_is_dead(|_| {});
    switch(&mut world, &run, |switches| switches.is_enabled = false);
    run_at_first(&mut world, &run, INSERT);
    switch(&mut world, &run, |switches| {
        switches.is_enabled = true;
        switches.disabled_dcs = ["datacenter1".to_string()].into();
    });
    run_at_first(&mut world, &run, INSERT);
    assert_eq!(kept(&mut world, &run), Pending::default());
    switch(&mut world, &run, |switches| switches.disabled_dcs.clear());
    run_at_first(&mut world, &run, INSERT);
    assert_eq!(kept(&mut world, &run).buffered, 1);
    let mut thrown = world.spawn(run.hosts[0].node, ::hints::throw_away(None));
    finished(&mut world, &mut thrown, LONG, "throwing away").expect("in time").expect("removed");
    assert_eq!(kept(&mut world, &run), Pending::default());
}

/// Rows of the keyspace with one replica.
const ROWS: i32 = 24;

/// Writes rows at ANY through the first node to a keyspace with one replica of each: how each went.
fn write_at_any(world: &mut World, run: &Run) -> Vec<Result<(), Trouble>> {
    let to = run.hosts[0].native();
    let mut written = world.spawn(run.client, async move {
        let mut session = insist(to, START).await?;
        let mut outcomes = Vec::new();
        for k in 0..ROWS {
            let cql = format!("UPDATE one.r SET v = 'x' WHERE k = {k}");
            outcomes.push(session.query(&cql, Ask::at(Consistency::Any)).await.map(drop));
        }
        Ok::<_, Trouble>(outcomes)
    });
    finished(world, &mut written, LONG, "writing at ANY").expect("in time").expect("connected")
}

/// Three nodes with a keyspace of one replica, the second of them dead and known to be.
fn one_of_three_is_dead(handoff: bool) -> (World, Run) {
    let (mut world, mut run) = trio();
    // Whoever waits for a flush has to ask for it.
    let (enabled, flush_period) = (handoff, LONG);
    restart(&mut world, &mut run, |rules| *rules = HintRules { enabled, flush_period, ..rules.clone() });
    let nodes: Vec<SocketAddr> = run.hosts.iter().map(Host::native).collect();
    let mut made = world.spawn(run.client, async move {
        for to in nodes {
            let mut session = insist(to, START).await?;
            for statement in [
                "CREATE KEYSPACE one WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
                "CREATE TABLE one.r (k int PRIMARY KEY, v text) WITH id = 5a1c395e-b41f-11e5-9f22-ba0be0483c1a",
            ] {
                session.query(statement, Ask::at(Consistency::One)).await?;
            }
        }
        Ok::<_, Trouble>(())
    });
    finished(&mut world, &mut made, LONG, "making tables").expect("in time").expect("made");
    world.kill(run.hosts[1].node);
    world.run_for(Duration::from_secs(5));
    (world, run)
}

#[test]
fn a_write_at_any_is_acknowledged_when_a_hint_of_it_survives_a_crash() {
    let (mut world, mut run) = one_of_three_is_dead(true);
    let outcomes = write_at_any(&mut world, &run);
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    world.power_cut(run.hosts[0].node);
    all_up(&mut world, &mut run);
    world.run_for(LONG);
    let to = run.hosts[2].native();
    let mut read = world.spawn(run.client, async move {
        let mut session = insist(to, START).await?;
        session.all("SELECT k FROM one.r", Ask::at(Consistency::One)).await
    });
    let found = finished(&mut world, &mut read, LONG, "reading").expect("in time").expect("read");
    assert_eq!(found.len(), ROWS as usize);
}

/// Which of the rows of the keyspace with one replica the first node finds at those who hold them, as it sees it.
fn keys_of_one(world: &mut World, run: &Run) -> BTreeSet<i32> {
    let to = run.hosts[0].native();
    let mut read = world.spawn(run.client, async move {
        let mut session = insist(to, START).await?;
        let mut found = BTreeSet::new();
        for k in 0..ROWS {
            let cql = format!("SELECT k FROM one.r WHERE k = {k}");
            if session.all(&cql, Ask::at(Consistency::One)).await.is_ok_and(|rows| !rows.is_empty()) {
                found.insert(k);
            }
        }
        Ok::<_, Trouble>(found)
    });
    finished(world, &mut read, LONG, "reading").expect("in time").expect("connected")
}

#[test]
fn what_was_kept_for_a_node_that_is_gone_goes_to_those_who_hold_its_tokens() {
    let (mut world, mut run) = one_of_three_is_dead(true);
    let outcomes = write_at_any(&mut world, &run);
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    assert!(kept(&mut world, &run).bytes > 0);
    let gone = run.hosts[1].config.host_id;
    for at in [0, 2] {
        let host = &mut run.hosts[at];
        host.config.peers.retain(|peer| Some(peer.host_id) != gone);
        host.stop(&mut world).expect("stops");
    }
    for at in [0, 2] {
        let shards = run.shards[at];
        run.hosts[at].boot(&mut world, shards);
    }
    for at in [0, 2] {
        run.hosts[at].await_ready(&mut world).expect("starts");
    }
    world.run_for(2 * LONG);
    assert_eq!(keys_of_one(&mut world, &run), (0..ROWS).collect());
    assert_eq!(kept(&mut world, &run), Pending::default());
}

#[test]
fn what_its_target_does_not_hold_any_more_goes_to_those_who_do() {
    let (mut world, mut run) = one_of_three_is_dead(true);
    let outcomes = write_at_any(&mut world, &run);
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    let before = keys_of_one(&mut world, &run);
    let missed: BTreeSet<i32> = (0..ROWS).filter(|k| !before.contains(k)).collect();
    assert!(!missed.is_empty(), "{before:?}");
    // For the first node the two others have exchanged their tokens.
    let [second, third] = &mut run.hosts[0].config.peers[..] else { panic!("two others") };
    std::mem::swap(&mut second.tokens, &mut third.tokens);
    run.hosts[0].stop(&mut world).expect("stops");
    all_up(&mut world, &mut run);
    world.run_for(2 * LONG);
    let found = keys_of_one(&mut world, &run);
    assert!(missed.is_subset(&found), "{missed:?} were hinted, {found:?} are found");
    assert_eq!(kept(&mut world, &run), Pending::default());
}

#[test]
fn a_write_at_any_times_out_where_no_hint_is_kept() {
    let (mut world, run) = one_of_three_is_dead(false);
    let outcomes = write_at_any(&mut world, &run);
    let (kept, lost): (Vec<_>, Vec<_>) = outcomes.into_iter().partition(Result::is_ok);
    assert!(!kept.is_empty() && !lost.is_empty(), "some rows are on nodes that live, some are not");
    for outcome in lost {
        let Err(Trouble::Refused(Failure {
            kind: FailureKind::WriteTimeout { received, block_for, .. },
            ..
        })) = outcome
        else {
            panic!("{outcome:?}");
        };
        assert_eq!((received, block_for), (0, 1));
    }
}
