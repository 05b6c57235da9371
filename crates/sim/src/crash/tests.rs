//! Drops and truncations that a power cut follows at once: what was acknowledged as gone stays gone.

use super::*;
use crate::session::Session;
use node::config::CommitFailurePolicy;
use std::cell::Cell;

const ID: &str = "5a1c395e-b41f-11e5-9f22-ba0b0483c18c";
const KEYS: usize = 12;
const KNOWN_PERIOD: Duration = Duration::from_millis(20);

fn world(seed: u64) -> (World, Host, NodeId) {
    let mut world = World::new(seed, SimConfig::drawn(seed));
    let mut host = Host::new(&mut world, IpAddr::from([10, 0, 0, 1]));
    host.config.commitlog_sync = CommitlogSync::Batch;
    host.config.commitlog_segment_bytes = 256 << 10;
    host.config.memtable_bytes = Some(1 << 12);
    let client = world.add_client(IpAddr::from([10, 0, 1, 1]));
    (world, host, client)
}

fn create() -> String {
    format!("CREATE TABLE ks.a (k int PRIMARY KEY, v text) WITH ID = {ID}")
}

fn keyspace() -> String {
    "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}".to_string()
}

async fn fill(to: std::net::SocketAddr) -> Result<(), Trouble> {
    let mut session = insist(to, START).await?;
    session.query(&keyspace(), ask()).await?;
    session.query(&create(), ask()).await?;
    for key in 0..KEYS {
        let text = "x".repeat(300);
        session.query(&format!("INSERT INTO ks.a (k, v) VALUES ({key}, '{text}')"), ask()).await?;
    }
    Ok(())
}

/// The number of rows; None when there is no such table.
async fn count(to: std::net::SocketAddr) -> Result<Option<usize>, Trouble> {
    let mut session = insist(to, START).await?;
    match session.all("SELECT k FROM ks.a", ask()).await {
        Ok(rows) => Ok(Some(rows.len())),
        Err(Trouble::Refused(_)) => Ok(None),
        Err(lost) => Err(lost),
    }
}

/// Runs statements one after the other, cuts the power at some moment of that, and boots again.
/// Returns how many were sent, how many answered, and how many rows are there afterwards.
fn cut_short(seed: u64, statements: Vec<String>) -> (usize, usize, Option<usize>) {
    let (mut world, mut host, client) = world(seed);
    let mut rng = Prng::new(seed);
    host.boot(&mut world, 1 + rng.below(4) as u16);
    host.await_ready(&mut world).expect("starts");
    let to = host.native();
    run_task(&mut world, client, 2 * START, fill(to)).expect("in time").expect("filled");
    let (sent, answered) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
    let (send, answer) = (sent.clone(), answered.clone());
    let task = world.spawn(client, async move {
        let Ok(mut session) = Session::connect(to).await else { return };
        for statement in statements {
            send.set(send.get() + 1);
            if session.query(&statement, ask()).await.is_err() {
                return;
            }
            answer.set(answer.get() + 1);
        }
    });
    let stage = 1 + rng.below(3) as usize;
    world.run_until(|_| sent.get() >= stage || task.done(), START);
    world.run_for(Duration::from_micros(rng.below(3_000)));
    world.power_cut(host.node);
    host.boot(&mut world, 1 + rng.below(4) as u16);
    host.await_ready(&mut world).expect("starts again");
    let rows = run_task(&mut world, client, 2 * START, count(to)).expect("in time").expect("readable");
    (sent.get(), answered.get(), rows)
}

#[test]
fn a_table_made_again_with_its_id_has_no_row_of_the_old_one_after_a_power_cut() {
    for seed in 0..60 {
        let drop = if seed % 2 == 0 { "DROP TABLE ks.a" } else { "DROP KEYSPACE ks" };
        let mut statements = vec![drop.to_string()];
        if seed % 2 == 1 {
            statements.push(keyspace());
        }
        statements.push(create());
        let (sent, answered, rows) = cut_short(seed, statements);
        match rows {
            None => {}
            Some(0) => assert!(sent > 1, "seed {seed}: empty before it was made again"),
            Some(rows) => {
                assert_eq!(answered, 0, "seed {seed}: {rows} rows came back after the drop was answered");
                assert_eq!(rows, KEYS, "seed {seed}: some shards forgot and others did not");
            }
        }
    }
}

#[test]
fn truncated_rows_stay_away_after_a_power_cut() {
    for seed in 0..30 {
        let (_, answered, rows) = cut_short(seed, vec!["TRUNCATE ks.a".to_string()]);
        let rows = rows.expect("the table is there");
        assert!(answered == 0 || rows == 0, "seed {seed}: {rows} rows came back after the answer");
    }
}

/// One life in periodic mode that is longer than the period the checker knows of, and what it says after the power cut.
fn periodic_life(seed: u64, period: Duration) -> Result<(), String> {
    let mut world = World::new(seed, SimConfig::calm());
    let mut run = prepare(&mut world, seed, None);
    run.host.config.commitlog_sync = CommitlogSync::Periodic(period);
    // Nothing is flushed: what is on the disk is there by the log alone.
    run.host.config.memtable_bytes = Some(16 << 20);
    (run.synced, run.certain_after) = (false, certain_after(KNOWN_PERIOD, &SimConfig::calm()));
    run.host.boot(&mut world, 2);
    run.host.await_ready(&mut world)?;
    let schema = create_schema(run.host.native(), 864_000);
    run_task(&mut world, run.client, 2 * START, schema).expect("in time").expect("the schema is made");
    let clients = start_clients(&mut world, &mut run);
    world.run_for(run.certain_after + Duration::from_millis(100));
    violation(&run)?;
    let at = world.now();
    world.power_cut(run.host.node);
    world.reset_connections(run.client, run.host.node);
    world.run_until(|_| clients.iter().all(Task::done), Duration::from_secs(40));
    run.book.borrow_mut().partitions.values_mut().for_each(Partition::orphan);
    run.book.borrow_mut().expiring.orphan(world.now());
    run.host.boot(&mut world, 2);
    run.host.await_ready(&mut world)?;
    verify(&mut world, &mut run, End::Power, at)
}

#[test]
fn a_periodic_log_that_never_syncs_is_caught_within_one_life() {
    let mut lost = 0;
    for seed in 0..10 {
        assert_eq!(periodic_life(seed, KNOWN_PERIOD), Ok(()), "seed {seed}: a log that syncs");
        let caught = periodic_life(seed, Duration::from_secs(3600));
        lost += usize::from(caught.is_err_and(|text| text.contains("no prefix of at least")));
    }
    // In the others every write had been flushed to sstables before the power went.
    assert!(lost >= 3, "{lost} of 10 seeds see that acknowledged writes are lost");
}

/// The node after a failed sync of its log, which a write ran into, and again after a power cut.
fn after_a_failed_log(policy: CommitFailurePolicy) -> (World, Host, NodeId) {
    let mut world = World::new(7, SimConfig::calm());
    let mut host = Host::new(&mut world, IpAddr::from([10, 0, 0, 1]));
    host.config.commitlog_sync = CommitlogSync::Batch;
    host.config.commit_failure = policy;
    let client = world.add_client(IpAddr::from([10, 0, 1, 1]));
    host.boot(&mut world, 2);
    host.await_ready(&mut world).expect("starts");
    let to = host.native();
    run_task(&mut world, client, 2 * START, fill(to)).expect("in time").expect("filled");
    world.fail_next_syncs(host.node, 1);
    let refused = run_task(&mut world, client, START, async move {
        let mut session = insist(to, START).await?;
        session.query("INSERT INTO ks.a (k, v) VALUES (100, 'x')", ask()).await
    });
    assert!(refused.expect("in time").is_err(), "{policy:?}: the write is not acknowledged");
    world.run_for(Duration::from_secs(20));
    (world, host, client)
}

#[test]
fn a_failed_log_closes_the_port_or_ends_the_node_as_its_policy_says() {
    for policy in [CommitFailurePolicy::Stop, CommitFailurePolicy::StopCommit, CommitFailurePolicy::Die] {
        let (mut world, mut host, client) = after_a_failed_log(policy);
        let to = host.native();
        let (alive, code) = (world.alive(host.node), world.exit_code(host.node));
        let answers = run_task(&mut world, client, START, async move { Session::connect(to).await.is_ok() });
        let expected = match policy {
            CommitFailurePolicy::Stop => (true, None, Some(false)),
            CommitFailurePolicy::StopCommit => (true, None, Some(true)),
            CommitFailurePolicy::Die | CommitFailurePolicy::Ignore => (false, Some(1), Some(false)),
        };
        assert_eq!((alive, code, answers), expected, "{policy:?}");
        if policy == CommitFailurePolicy::StopCommit {
            let rows = run_task(&mut world, client, START, count(to)).expect("in time").expect("readable");
            assert_eq!(rows, Some(KEYS), "reads go on");
        }
        world.power_cut(host.node);
        host.boot(&mut world, 1);
        host.await_ready(&mut world).expect("starts again");
        let rows = run_task(&mut world, client, 2 * START, count(to)).expect("in time").expect("readable");
        assert!(rows >= Some(KEYS), "{policy:?}: {rows:?} rows");
    }
}
