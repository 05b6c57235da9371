//! One replica that fails or is slow does not fail a read that others can answer.

use super::*;
use crate::session::{Row, Session};
use node::config::{Authenticator, Seed};
use protocol::failure::{Failure, FailureKind};
use runtime::sim::SimConfig;

/// What is kept for a node that is away.
mod handoff;
/// Which changes of a replication are refused.
mod replication;

/// Three machines that found one cluster, switched off.
fn members(world: &mut World, seed: u64) -> Run {
    let mut run = prepare(world, seed, None);
    let seeds = vec![Seed { host: run.hosts[0].ip.to_string(), port: None }];
    for host in &mut run.hosts {
        (host.config.host_id, host.config.peers) = (None, Vec::new());
        host.config.seeds.clone_from(&seeds);
    }
    run
}

const LONG: Duration = Duration::from_secs(60);

/// Three calm nodes with one row on all of them.
fn trio() -> (World, Run) {
    trio_with(Duration::from_secs(5))
}

/// As [`trio`]; their reads have so much time.
fn trio_with(read_timeout: Duration) -> (World, Run) {
    let mut world = World::new(11, SimConfig::calm());
    let mut run = prepare(&mut world, 11, None);
    for host in &mut run.hosts {
        host.config.read_timeout = read_timeout;
        // A node that lacks something goes on lacking it.
        host.config.hints.enabled = false;
    }
    run.boot_dead(&mut world, 1.0);
    for host in &run.hosts {
        host.await_ready(&mut world).expect("starts");
    }
    let nodes: Vec<SocketAddr> = run.hosts.iter().map(Host::native).collect();
    let first = nodes[0];
    let mut filled = world.spawn(run.client, async move {
        create_schema(nodes).await?;
        let mut session = insist(first, START).await?;
        session.query("UPDATE ks.r SET v = 'x' WHERE k = 1 AND c = 1", Ask::at(Consistency::All)).await
    });
    finished(&mut world, &mut filled, LONG, "filling").expect("in time").expect("filled");
    (world, run)
}

/// Reads the row at a level through a node: the number of rows, and how long it took.
fn read_through(
    world: &mut World,
    run: &Run,
    at: usize,
    level: Consistency,
) -> (Result<usize, Trouble>, Duration) {
    let to = run.hosts[at].native();
    let mut read = world.spawn(run.client, async move {
        let mut session = insist(to, START).await?;
        let start = runtime::now();
        let found = session.all("SELECT v FROM ks.r WHERE k = 1", Ask::at(level)).await;
        Ok::<_, Trouble>((found.map(|rows| rows.len()), runtime::now() - start))
    });
    finished(world, &mut read, LONG, "reading").expect("in time").expect("connected")
}

#[test]
fn a_slow_replica_does_not_hold_up_a_quorum() {
    let (mut world, run) = trio();
    for (a, b) in [(0, 1), (1, 2), (0, 2)] {
        // Nobody knows yet that the two do not hear each other.
        world.cut(run.hosts[a].node, run.hosts[b].node);
        let (found, took) = read_through(&mut world, &run, a, Consistency::Quorum);
        assert_eq!(found, Ok(1), "through {a}, cut from {b}");
        assert!(took < Duration::from_millis(500), "{took:?}");
        world.heal_all();
        world.run_for(Duration::from_secs(10));
    }
}

/// Reads keys at ONE that two of three nodes hold, while every message takes half of `service`: each key's time at the
/// node asked, which holds some of them itself.
fn read_of_two(read_timeout: Duration, service: Duration) -> Vec<(Result<usize, Trouble>, Duration)> {
    const KEYS: i32 = 12;
    let (mut world, run) = trio_with(read_timeout);
    let nodes: Vec<SocketAddr> = run.hosts.iter().map(Host::native).collect();
    let first = nodes[0];
    let mut filled = world.spawn(run.client, async move {
        let mut session = insist(first, START).await?;
        for to in nodes {
            let mut session = insist(to, START).await?;
            for statement in [
                "CREATE KEYSPACE two WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 2}",
                "CREATE TABLE two.r (k int PRIMARY KEY, v text) \
                 WITH id = 5a1c395e-b41f-11e5-9f22-ba0be0483c19",
            ] {
                session.query(statement, Ask::at(Consistency::One)).await?;
            }
        }
        for k in 0..KEYS {
            let cql = format!("UPDATE two.r SET v = 'x' WHERE k = {k}");
            session.query(&cql, Ask::at(Consistency::All)).await?;
            // However a read goes, it is prepared by now.
            let whole = format!("SELECT v FROM two.r WHERE k = {k}");
            for text in [&*whole, "SELECT v FROM two.r WHERE k = ?"] {
                while session.statements.get(text).is_none() {
                    session.all(&whole, Ask::at(Consistency::One)).await?;
                }
            }
        }
        Ok::<_, Trouble>(session)
    });
    let filled = finished(&mut world, &mut filled, LONG, "filling").expect("in time");
    let mut session = filled.expect("filled");
    world.set_delay(service / 2, service / 2, 0.0);
    let mut read = world.spawn(run.client, async move {
        let mut seen = Vec::new();
        for k in 0..KEYS {
            let start = runtime::now();
            let cql = format!("SELECT v FROM two.r WHERE k = {k}");
            let found = session.all(&cql, Ask::at(Consistency::One)).await.map(|rows| rows.len());
            // The way from the client and back takes as long as that from node to node.
            seen.push((found, (runtime::now() - start).saturating_sub(service)));
        }
        seen
    });
    finished(&mut world, &mut read, LONG, "reading").expect("in time")
}

#[test]
fn replicas_that_are_all_slow_are_waited_for() {
    const SERVICE: Duration = Duration::from_millis(300);
    // The second leaves less time than asking twice takes.
    for read_timeout in [Duration::from_secs(5), Duration::from_millis(500)] {
        let seen = read_of_two(read_timeout, SERVICE);
        for (k, (found, took)) in seen.iter().enumerate() {
            assert_eq!(*found, Ok(1), "key {k} within {read_timeout:?}");
            assert!(*took < SERVICE + Duration::from_millis(50), "key {k} within {read_timeout:?}: {took:?}");
        }
        let far = seen.iter().filter(|(_, took)| *took >= SERVICE).count();
        assert!(far > 0 && far < seen.len(), "{far} keys lie elsewhere");
    }
}

/// Stops a node so that its rows are in a file, damages every such file, and starts it again.
fn damage(world: &mut World, run: &mut Run, at: usize) {
    run.hosts[at].stop(world).expect("stops");
    let node = run.hosts[at].node;
    let files = world.files(node);
    let data = files.iter().filter(|(path, _)| path.contains("/ks/") && path.ends_with("-Data.db"));
    let mut damaged = 0;
    for (path, bytes) in data {
        damaged += usize::from(world.flip_bit(node, path, bytes / 2, 3));
    }
    assert!(damaged > 0, "{files:?}");
    run.boot_dead(world, 1.0);
    run.hosts[at].await_ready(world).expect("starts");
    world.run_for(Duration::from_secs(5));
}

#[test]
fn a_failing_replica_is_replaced_and_counted_when_it_cannot_be() {
    let (mut world, mut run) = trio();
    damage(&mut world, &mut run, 1);
    for at in 0..NODES {
        for level in [Consistency::One, Consistency::Quorum] {
            let (found, took) = read_through(&mut world, &run, at, level);
            assert_eq!(found, Ok(1), "through {at} at {level}");
            assert!(took < Duration::from_millis(100), "{took:?}: at once, not after a timeout");
        }
        let (found, _) = read_through(&mut world, &run, at, Consistency::All);
        let Err(Trouble::Refused(Failure {
            kind: FailureKind::ReadFailure { received, block_for, .. },
            message,
        })) = found
        else {
            panic!("through {at} at ALL: {found:?}");
        };
        assert!(received < 3 && block_for == 3, "{received} of {block_for}");
        assert!(message.contains(" 1 failures: "), "{message}");
    }
}

#[test]
fn a_repair_that_cannot_be_written_goes_to_a_spare_replica() {
    let (mut world, run) = trio();
    let [first, stale, third] = [0, 1, 2].map(|n| run.hosts[n].node);
    world.cut(first, stale);
    world.cut(stale, third);
    world.run_for(Duration::from_secs(5));
    let to = run.hosts[0].native();
    let mut write = world.spawn(run.client, async move {
        let mut session = insist(to, START).await?;
        session.query("UPDATE ks.r SET v = 'y' WHERE k = 1 AND c = 2", Ask::at(Consistency::Quorum)).await
    });
    finished(&mut world, &mut write, LONG, "writing").expect("in time").expect("two of three");
    world.heal_all();
    world.run_for(Duration::from_secs(10));
    world.fail_next_syncs(stale, 1000);
    for _ in 0..2 {
        let (found, took) = read_through(&mut world, &run, 0, Consistency::Quorum);
        assert_eq!(found, Ok(2), "the row that one of the two asked lacks, too");
        assert!(took < Duration::from_secs(1), "{took:?}");
    }
    let (found, _) = read_through(&mut world, &run, 0, Consistency::All);
    assert!(matches!(found, Err(Trouble::Refused(_))), "no spare is left at ALL: {found:?}");
}

#[test]
fn a_statement_is_prepared_again_when_the_node_has_restarted() {
    let (mut world, mut run) = trio();
    let to = run.hosts[0].native();
    let read = async |session: &mut Session| {
        for _ in 0..40 {
            let rows = session.all("SELECT v FROM ks.r WHERE k = 1", Ask::at(Consistency::One)).await?;
            assert_eq!(rows.len(), 1);
        }
        Ok::<_, Trouble>(())
    };
    let mut before = world.spawn(run.client, async move {
        let mut session = insist(to, START).await?;
        read(&mut session).await.map(|()| session.statements)
    });
    let known = finished(&mut world, &mut before, LONG, "reading").expect("in time").expect("read");
    assert!(known.get("SELECT v FROM ks.r WHERE k = ?").is_some(), "{known:?}");
    run.hosts[0].stop(&mut world).expect("stops");
    run.boot_dead(&mut world, 1.0);
    run.hosts[0].await_ready(&mut world).expect("starts");
    let mut after = world.spawn(run.client, async move {
        let mut session = insist(to, START).await?;
        session.statements = known;
        read(&mut session).await
    });
    finished(&mut world, &mut after, LONG, "reading again").expect("in time").expect("no UNPREPARED is left");
}

/// Three nodes that have found each other, with the tables of the scenario.
fn cluster() -> (World, Run) {
    let mut world = World::new(12, SimConfig::calm());
    let mut run = members(&mut world, 12);
    run.boot_dead(&mut world, 1.0);
    for host in &run.hosts {
        host.await_ready(&mut world).expect("starts");
    }
    let first = run.hosts[0].native();
    let mut made = world.spawn(run.client, create_schema(vec![first]));
    finished(&mut world, &mut made, LONG, "making the schema").expect("in time").expect("made");
    (world, run)
}

/// Runs statements through a node, one after the other.
fn through(world: &mut World, run: &Run, at: usize, level: Consistency, statements: &'static [&'static str]) {
    let to = run.hosts[at].native();
    let mut done = world.spawn(run.client, async move {
        let mut session = insist(to, START).await?;
        for statement in statements {
            session.query(statement, Ask::at(level)).await?;
        }
        Ok::<_, Trouble>(())
    });
    finished(world, &mut done, LONG, "running statements").expect("in time").expect("done");
}

fn first_column(world: &mut World, run: &Run, at: usize, level: Consistency, cql: &'static str) -> Vec<Row> {
    let to = run.hosts[at].native();
    let mut read =
        world.spawn(run.client, async move { insist(to, START).await?.all(cql, Ask::at(level)).await });
    finished(world, &mut read, LONG, "reading").expect("in time").expect("read")
}

#[test]
fn a_truncation_reaches_once_who_was_down() {
    let (mut world, mut run) = cluster();
    through(&mut world, &run, 1, Consistency::All, &["INSERT INTO ks.u (k, v) VALUES (1, 1)"]);
    world.power_cut(run.hosts[2].node);
    world.run_for(Duration::from_secs(5));
    let statements = &["TRUNCATE ks.u", "INSERT INTO ks.u (k, v) VALUES (2, 2)"];
    through(&mut world, &run, 0, Consistency::Quorum, statements);
    run.boot_dead(&mut world, 1.0);
    run.hosts[2].await_ready(&mut world).expect("starts");
    let cql = "SELECT k FROM ks.u";
    let seen = first_column(&mut world, &run, 2, Consistency::One, cql);
    assert!(!seen.contains(&vec![Some(vec![0, 0, 0, 1])]), "it caught up before it served: {seen:?}");
    let behind = vec![vec![Some(vec![0, 0, 0, 2])]];
    for at in 0..NODES {
        assert_eq!(first_column(&mut world, &run, at, Consistency::All, cql), behind, "through {at}");
    }
    // Nobody does it again.
    for host in &run.hosts {
        world.power_cut(host.node);
    }
    run.boot_dead(&mut world, 1.0);
    for at in 0..NODES {
        run.hosts[at].await_ready(&mut world).expect("starts");
        assert_eq!(first_column(&mut world, &run, at, Consistency::One, cql), behind, "on {at}");
    }
}

/// As [`cluster`], of nodes that ask for passwords; these roles are made through the first.
fn guarded(seeds: usize, statements: &'static [&'static str]) -> (World, Run) {
    let mut world = World::new(13, SimConfig::calm());
    let mut run = members(&mut world, 13);
    for at in 0..NODES {
        let config = &mut run.hosts[at].config;
        config.authentication.authenticator = Authenticator::Password;
        config.seeds.truncate(seeds);
    }
    run.hosts[0].boot(&mut world, run.shards[0]);
    run.hosts[0].await_ready(&mut world).expect("starts");
    through(&mut world, &run, 0, Consistency::One, statements);
    (world, run)
}

/// Whether a role is let in by a node, or why not.
fn login(
    world: &mut World,
    run: &Run,
    at: usize,
    name: &'static str,
    password: &'static str,
) -> Result<(), Trouble> {
    let to = run.hosts[at].native();
    let mut done =
        world.spawn(run.client, async move { Session::connect_as(to, (name, password)).await.map(|_| ()) });
    finished(world, &mut done, LONG, "logging in").expect("in time")
}

const MEMBERS: &str = "SELECT role, member FROM system_auth.role_members";

#[test]
fn roles_of_a_lone_node_go_with_it_and_let_in_while_any_node_lives() {
    // It stands alone first, with roles in rows.
    let statements = &[
        "CREATE ROLE boss WITH PASSWORD = 'b' AND LOGIN = true AND SUPERUSER = true",
        "CREATE ROLE clerk WITH PASSWORD = 'c' AND LOGIN = true",
        "GRANT boss TO clerk",
        "ALTER ROLE cassandra WITH PASSWORD = 'known to few'",
    ];
    let (mut world, mut run) = guarded(0, statements);
    run.hosts[0].stop(&mut world).expect("stops");
    let seed = Seed { host: run.hosts[0].ip.to_string(), port: None };
    run.hosts.iter_mut().for_each(|host| host.config.seeds = vec![seed.clone()]);
    run.boot_dead(&mut world, 1.0);
    for host in &run.hosts {
        host.await_ready(&mut world).expect("starts");
    }
    for at in 0..NODES {
        assert_eq!(login(&mut world, &run, at, "clerk", "c"), Ok(()), "on {at}");
        assert_eq!(login(&mut world, &run, at, "cassandra", "known to few"), Ok(()), "on {at}");
        assert!(login(&mut world, &run, at, "cassandra", "cassandra").is_err(), "on {at}");
    }
    // Two of three voters are gone: roles cannot change, and let in all the same, also after a restart.
    world.power_cut(run.hosts[1].node);
    world.power_cut(run.hosts[2].node);
    world.power_cut(run.hosts[0].node);
    run.hosts[0].boot(&mut world, run.shards[0]);
    run.hosts[0].await_ready(&mut world).expect("starts");
    assert_eq!(login(&mut world, &run, 0, "boss", "b"), Ok(()));
    let to = run.hosts[0].native();
    let mut asked = world.spawn(run.client, async move {
        let mut session = Session::connect_as(to, ("clerk", "c")).await?;
        let members = session.all(MEMBERS, Ask::at(Consistency::All)).await?;
        let written = session
            .query("INSERT INTO system_auth.roles (role) VALUES ('x')", Ask::at(Consistency::One))
            .await;
        let changed = session.query("DROP ROLE boss", Ask::at(Consistency::One)).await;
        Ok::<_, Trouble>((members, written.map(|_| ()), changed.map(|_| ())))
    });
    let (members, written, changed) =
        finished(&mut world, &mut asked, LONG, "asking").expect("in time").expect("answered");
    assert_eq!(members, [vec![Some(b"boss".to_vec()), Some(b"clerk".to_vec())]]);
    let refused = |outcome: Result<(), Trouble>| match outcome {
        Err(Trouble::Refused(failure)) => failure,
        other => panic!("{other:?}"),
    };
    let written = refused(written);
    assert!(written.message.contains("not user-modifiable"), "{}", written.message);
    let changed = refused(changed);
    assert!(changed.message.contains("the roles were not changed"), "{}", changed.message);
    run.boot_dead(&mut world, 1.0);
    for host in &run.hosts {
        host.await_ready(&mut world).expect("starts");
    }
    assert_eq!(login(&mut world, &run, 2, "clerk", "c"), Ok(()));
    // A password that was lost is replaced on a node that asks for none.
    run.hosts[2].stop(&mut world).expect("stops");
    run.hosts[2].config.authentication.authenticator = Authenticator::AllowAll;
    run.boot_dead(&mut world, 1.0);
    run.hosts[2].await_ready(&mut world).expect("starts");
    // That of "abc", as it was published with jBCrypt.
    let reset = &[
        "ALTER ROLE clerk WITH HASHED PASSWORD = '$2a$06$If6bvum7DFjUnE9p2uDeDu0YHzrHM6tf.iqN8.yx.jNN1ILEf7h0i'",
    ];
    through(&mut world, &run, 2, Consistency::One, reset);
    assert_eq!(login(&mut world, &run, 0, "clerk", "abc"), Ok(()), "at once, though it was remembered");
    assert!(login(&mut world, &run, 0, "clerk", "c").is_err());
}
