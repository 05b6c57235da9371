//! Logged batches over several partitions in a cluster of three to five nodes of several racks, whose coordinators lose power at any moment and do not come
//! back until the end.
//!
//! Every batch writes rows of its own. A while behind the last fault each of them is there whole or not at all, one that was acknowledged whole: first with
//! those that lost power still away, as far as a quorum of its rows can be read, then with everyone back, from every node, at QUORUM and at ALL.
//! Then nobody keeps a batch any more.
//!
//! Losses that a batch survives are two: with two nodes gone for good no third one is restarted or cut off.

use std::cell::RefCell;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use base::Prng;
use node::config::{CommitlogSync, Seed};
use runtime::Bug;
use runtime::sim::{NodeId, Task, World};
use types::Consistency;

use crate::host::Host;
use crate::limits::START;
use crate::session::{Ask, Session, Trouble, insist};

/// Most rows of one batch; each is a partition.
const ROWS_MAX: i32 = 6;
/// How long batches may take to be whole once nothing disturbs them: twice the write timeout, and a second attempt.
const SETTLED: Duration = Duration::from_secs(45);
/// Longest that reading everything may take.
const JUDGED: Duration = Duration::from_secs(300);

/// A batch that a client has sent.
#[derive(Clone, Copy)]
struct Sent {
    rows: i32,
    acknowledged: bool,
}

#[derive(Default)]
struct Book {
    sent: Vec<Sent>,
}

type Shared = Rc<RefCell<Book>>;

struct Run {
    hosts: Vec<Host>,
    shards: Vec<u16>,
    client: NodeId,
    book: Shared,
    rng: Prng,
    /// Those that stay away.
    gone: Vec<usize>,
    /// How many may.
    gone_max: usize,
}

fn prepare(world: &mut World, seed: u64, planted: Option<Bug>) -> Result<Run, String> {
    let mut rng = Prng::new(seed ^ 0x0062_6174_6368_6573);
    let count = 3 + rng.below(3) as usize;
    let racks = 1 + rng.below(3);
    let mut hosts: Vec<Host> =
        (1..=count as u8).map(|octet| Host::new(world, IpAddr::from([10, 0, 0, octet]))).collect();
    for host in &mut hosts {
        host.config.initial_tokens = (0..8).map(|_| rng.u64() as i64 | 1).collect();
        host.config.commitlog_sync = CommitlogSync::Batch;
        host.config.commitlog_segment_bytes = 256 << 10;
        host.config.memtable_bytes = Some(1 << (13 + rng.below(5)));
        host.config.shard_aware_port = None;
        host.config.rack = format!("r{}", rng.below(racks));
        host.config.hints.flush_period = Duration::from_millis(100);
        let seeds = ["10.0.0.1", "10.0.0.2"].map(|host| Seed { host: host.to_string(), port: None });
        host.config.seeds = seeds.into();
        if let Some(bug) = planted {
            world.plant(host.node, bug);
        }
    }
    let shards: Vec<u16> = (0..count).map(|_| 1 + rng.below(3) as u16).collect();
    for (host, shards) in hosts.iter_mut().zip(&shards) {
        host.boot(world, *shards);
    }
    for host in &hosts {
        host.await_ready(world)?;
    }
    let client = world.add_client(IpAddr::from([10, 0, 1, 1]));
    let to = hosts[0].native();
    let mut made = world.spawn(client, async move {
        let mut session = insist(to, START).await?;
        for statement in [
            "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}",
            "CREATE TABLE ks.b (k int PRIMARY KEY, v int)",
        ] {
            session.query(statement, Ask::at(Consistency::One)).await?;
        }
        Ok::<_, Trouble>(())
    });
    finished(world, &mut made, START, "making the table")?.map_err(|trouble| trouble.to_string())?;
    let gone_max = (count - 1) / 2;
    Ok(Run { hosts, shards, client, book: Rc::default(), rng, gone: Vec::new(), gone_max })
}

fn finished<T>(world: &mut World, task: &mut Task<T>, limit: Duration, what: &str) -> Result<T, String> {
    world.run_until(|_| task.done(), limit);
    task.take().ok_or_else(|| format!("{what} takes longer than {limit:?}"))
}

// ---- clients -----------------------------------------------------------------------------------------------------

/// Sends one batch after the other, to one node as long as that answers.
async fn client(nodes: Vec<SocketAddr>, book: Shared, mut rng: Prng) {
    loop {
        let to = nodes[rng.below(nodes.len() as u64) as usize];
        if let Ok(mut session) = insist(to, Duration::from_millis(200)).await {
            for _ in 0..1 + rng.below(20) {
                if let Err(Trouble::Lost(_)) = send(&mut session, &book, &mut rng).await {
                    break;
                }
                runtime::sleep(Duration::from_micros(rng.below(10_000))).await;
            }
        }
        runtime::sleep(Duration::from_millis(rng.below(20))).await;
    }
}

fn key(batch: usize, row: i32) -> i32 {
    batch as i32 * ROWS_MAX + row
}

async fn send(session: &mut Session, book: &Shared, rng: &mut Prng) -> Result<(), Trouble> {
    let rows = 2 + rng.below(ROWS_MAX as u64 - 1) as i32;
    let batch = book.borrow().sent.len();
    book.borrow_mut().sent.push(Sent { rows, acknowledged: false });
    let insert = |row: i32| format!("INSERT INTO ks.b (k, v) VALUES ({}, {batch})", key(batch, row));
    let statements: Vec<String> = (0..rows).map(insert).collect();
    // What one replica alone has confirmed may be lost with it.
    let level = if rng.chance(0.8) { Consistency::Quorum } else { Consistency::All };
    session.batch(&statements, Ask::at(level), true).await?;
    book.borrow_mut().sent[batch].acknowledged = true;
    Ok(())
}

// ---- faults ------------------------------------------------------------------------------------------------------

/// A node that works loses power for good, perhaps cut off from some others right before.
fn lose(world: &mut World, run: &mut Run) {
    let at = run.rng.below(run.hosts.len() as u64) as usize;
    if run.gone.contains(&at) || !world.alive(run.hosts[at].node) {
        return;
    }
    let node = run.hosts[at].node;
    for other in 0..run.hosts.len() {
        if other != at && run.rng.chance(0.4) {
            world.cut(node, run.hosts[other].node);
        }
    }
    let spell = Duration::from_micros(run.rng.below(20_000));
    world.run_for(spell);
    world.power_cut(node);
    run.gone.push(at);
}

fn fault(world: &mut World, run: &mut Run) {
    let mut pick = || run.rng.below(run.hosts.len() as u64) as usize;
    let (a, b) = (pick(), pick());
    let (node_a, node_b) = (run.hosts[a].node, run.hosts[b].node);
    let may_restart = run.gone_max == 1 && !run.gone.contains(&a);
    match run.rng.below(8) {
        0 if may_restart => world.power_cut(node_a),
        1 if may_restart => world.kill(node_a),
        2 if may_restart && a != b => world.cut(node_a, node_b),
        3 if may_restart && a != b => world.cut_one_way(node_a, node_b),
        4 => world.heal_all(),
        5 => {
            let longest = 100 + run.rng.below(20_000);
            world.set_delay(Duration::from_micros(50), Duration::from_micros(longest), 0.01);
        }
        6 => {
            let slow = Duration::from_micros(100 + run.rng.below(10_000));
            world.slow_disk(node_a, (Duration::from_micros(50), slow));
        }
        _ => world.reset_connections(node_a, node_b),
    }
}

/// Starts those again that are down and not gone, or all.
fn boot(world: &mut World, run: &mut Run, all: bool, chance: f64) {
    for at in 0..run.hosts.len() {
        let stays = run.gone.contains(&at) && !all;
        if !stays && !world.alive(run.hosts[at].node) && run.rng.chance(chance) {
            let shards = run.shards[at];
            run.hosts[at].boot(world, shards);
        }
    }
}

/// Ends all faults but that nodes are gone, and has those that are not serve again.
fn heal(world: &mut World, run: &mut Run, all: bool) -> Result<(), String> {
    world.heal_all();
    world.set_delay(Duration::from_micros(20), Duration::from_micros(500), 0.0);
    boot(world, run, all, 1.0);
    for (at, host) in run.hosts.iter().enumerate() {
        if all || !run.gone.contains(&at) {
            world.slow_disk(host.node, (Duration::from_micros(20), Duration::from_micros(200)));
            host.await_ready(world)?;
        }
    }
    Ok(())
}

// ---- the check ---------------------------------------------------------------------------------------------------

/// Which rows of a batch are there; `None`: too few replicas of one answer to say.
async fn look(
    session: &mut Session,
    batch: usize,
    row: i32,
    level: Consistency,
) -> Result<Option<bool>, String> {
    let cql = format!("SELECT v FROM ks.b WHERE k = {}", key(batch, row));
    for attempt in 0.. {
        match session.all(&cql, Ask::at(level)).await {
            Ok(rows) => return Ok(Some(!rows.is_empty())),
            Err(Trouble::Refused(failure)) if failure.kind.code() == 0x1000 => return Ok(None),
            Err(trouble) if attempt == 5 => return Err(format!("reading batch {batch}: {trouble}")),
            Err(_) => runtime::sleep(Duration::from_millis(500)).await,
        }
    }
    Ok(None)
}

/// Every batch is whole or absent, acknowledged ones whole, as one node reads them. `complete`: every row must be readable.
async fn judge(to: SocketAddr, book: Shared, level: Consistency, complete: bool) -> Result<(), String> {
    let mut session = insist(to, START).await.map_err(|trouble| trouble.to_string())?;
    let sent = book.borrow().sent.clone();
    for (batch, Sent { rows, acknowledged }) in sent.into_iter().enumerate() {
        let (mut there, mut lacking, mut unknown) = (0, 0, 0);
        for row in 0..rows {
            match look(&mut session, batch, row, level).await? {
                Some(true) => there += 1,
                Some(false) => lacking += 1,
                None => unknown += 1,
            }
        }
        let what = format!(
            "batch {batch} of {rows} rows, at {level} through {to}: {there} are there, {lacking} are not"
        );
        if 0 < lacking && (acknowledged || 0 < there) {
            let said = if acknowledged { "acknowledged" } else { "not acknowledged" };
            return Err(format!("{what}, {unknown} cannot be read; it was {said}"));
        }
        if complete && 0 < unknown {
            return Err(format!("{what}, {unknown} cannot be read with every node back"));
        }
    }
    Ok(())
}

/// Nobody keeps a batch any more.
async fn none_kept(nodes: Vec<SocketAddr>) -> Result<(), String> {
    for to in nodes {
        let mut session = insist(to, START).await.map_err(|trouble| trouble.to_string())?;
        let kept = session.all("SELECT id FROM system.batches", Ask::at(Consistency::One)).await;
        let kept = kept.map_err(|trouble| format!("what {to} keeps: {trouble}"))?;
        if !kept.is_empty() {
            return Err(format!("{to} still keeps {} batches", kept.len()));
        }
    }
    Ok(())
}

/// One run.
pub(crate) fn play(world: &mut World, seed: u64, planted: Option<Bug>) -> Result<(), String> {
    let mut run = prepare(world, seed, planted)?;
    let nodes: Vec<SocketAddr> = run.hosts.iter().map(Host::native).collect();
    let clients: Vec<Task<()>> = (0..4 + run.rng.below(8))
        .map(|_| {
            let rng = run.rng.fork();
            world.spawn(run.client, client(nodes.clone(), run.book.clone(), rng))
        })
        .collect();
    world.set_delay(Duration::from_micros(50), Duration::from_micros(100 + run.rng.below(20_000)), 0.01);
    let rounds = 2 + run.rng.below(4) as usize;
    for round in 0..rounds {
        let spell = Duration::from_micros(run.rng.below(250_000));
        world.run_for(spell);
        let is_last = round + 1 == rounds;
        if run.gone.len() < run.gone_max && (is_last || run.rng.chance(0.4)) {
            lose(world, &mut run);
        } else {
            fault(world, &mut run);
        }
        boot(world, &mut run, false, 0.5);
    }
    world.run_for(Duration::from_millis(20));
    world.kill(run.client);
    drop(clients);
    heal(world, &mut run, false)?;
    world.run_for(SETTLED);
    let client = world.add_client(IpAddr::from([10, 0, 1, 2]));
    for at in (0..nodes.len()).filter(|at| !run.gone.contains(at)) {
        let mut end = world.spawn(client, judge(nodes[at], run.book.clone(), Consistency::Quorum, false));
        finished(world, &mut end, JUDGED, "reading with nodes away")??;
    }
    heal(world, &mut run, true)?;
    world.run_for(SETTLED);
    for level in [Consistency::Quorum, Consistency::All] {
        for to in &nodes {
            let mut end = world.spawn(client, judge(*to, run.book.clone(), level, true));
            finished(world, &mut end, JUDGED, "reading with every node back")??;
        }
    }
    let mut end = world.spawn(client, none_kept(nodes));
    finished(world, &mut end, JUDGED, "asking who keeps batches")?
}
