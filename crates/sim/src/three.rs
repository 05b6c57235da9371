//! Three nodes of one to four shards, that know each other from their configuration, every row on all of them: reads and writes at ONE,
//! QUORUM and ALL while links are slow, cut or reset and one node at a time is down.
//!
//! Any number of nodes may lose power: what a node has confirmed is on its disk.
//!
//! Checked: each register as [`crate::register`] says, live and after all faults ended; then the pages of every
//! partition and of a full scan, asked from every node, equal the unpaged answer.
//! In the end what one node misses while it is away: see [`crate::handoff`].

use std::cell::RefCell;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use base::Prng;
use node::config::{CommitlogSync, Peer};
use runtime::Bug;
use runtime::sim::{Task, World};
use types::Consistency;

use crate::clients::{Book, Keyspace, Levels, client};
use crate::handoff;
use crate::host::Host;
use crate::limits::START;
use crate::machines::{FAR, Run, finished};
use crate::register::Factors;
use crate::session::{Ask, Trouble, insist};

const NODES: usize = 3;
const LEVELS: [Consistency; 3] = [Consistency::One, Consistency::Quorum, Consistency::All];

pub(crate) fn prepare(world: &mut World, seed: u64, planted: Option<Bug>) -> Run {
    // A write from there goes to one of the other two, which hands it to the third.
    let mut place = Prng::new(seed ^ 0x6661_7220_6177_6179);
    let far = place.chance(0.4).then(|| place.below(NODES as u64) as usize);
    prepare_nodes(world, seed, planted, NODES, |n| Some(n) == far)
}

/// So many machines, switched off, that know each other; `is_far`: which are in the second datacenter.
pub(crate) fn prepare_nodes(
    world: &mut World,
    seed: u64,
    planted: Option<Bug>,
    count: usize,
    is_far: impl Fn(usize) -> bool,
) -> Run {
    let mut rng = Prng::new(seed ^ 0x7468_7265_6521);
    let ip = |n: usize| IpAddr::from([10, 0, 0, 1 + n as u8]);
    let mut hosts: Vec<Host> = (0..count).map(|n| Host::new(world, ip(n))).collect();
    let shards: Vec<u16> = (0..count).map(|_| 1 + rng.below(4) as u16).collect();
    for (n, host) in hosts.iter_mut().enumerate() {
        host.config.host_id = Some(0x1000 + n as u128);
        host.config.initial_tokens = (0..4).map(|_| rng.u64() as i64 | 1).collect();
        host.config.commitlog_sync = CommitlogSync::Batch;
        host.config.commitlog_segment_bytes = 256 << 10;
        host.config.memtable_bytes = Some(1 << (13 + rng.below(5)));
        host.config.shard_aware_port = None;
        host.config.hints.flush_period = Duration::from_millis(100 + rng.below(3_000));
        host.config.hints.file_bytes_max = 1 << (9 + rng.below(12));
        if is_far(n) {
            host.config.data_center = FAR.to_owned();
        }
        if let Some(bug) = planted {
            world.plant(host.node, bug);
        }
    }
    let peers: Vec<Peer> = hosts.iter().zip(&shards).map(|(host, shards)| peer_of(host, *shards)).collect();
    for (n, host) in hosts.iter_mut().enumerate() {
        let others = peers.iter().enumerate().filter(|(other, _)| *other != n);
        host.config.peers = others.map(|(_, peer)| peer.clone()).collect();
    }
    let client = world.add_client(IpAddr::from([10, 0, 1, 1]));
    let keyspaces = vec![Keyspace { name: "ks", factors: Factors::simple(3) }];
    let levels = Levels { writes: LEVELS.to_vec(), reads: LEVELS.to_vec() };
    let book = Rc::new(RefCell::new(Book::new(keyspaces, levels, &mut rng)));
    Run { hosts, shards, client, book, rng }
}

fn peer_of(host: &Host, shards: u16) -> Peer {
    let mut tokens = host.config.initial_tokens.clone();
    tokens.sort_unstable();
    Peer {
        host_id: host.config.host_id.expect("given above"),
        address: SocketAddr::new(host.ip, host.config.storage_port),
        native_address: host.native(),
        tokens,
        shards,
        data_center: host.config.data_center.clone(),
        rack: host.config.rack.clone(),
    }
}

/// The same definitions on every node, as each has a schema of its own: the table's identity is named.
async fn create_schema(nodes: Vec<SocketAddr>) -> Result<(), Trouble> {
    for to in nodes {
        let mut session = insist(to, START).await?;
        let statements = [
            "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}",
            "CREATE TABLE ks.r (k int, c int, a text, v text, PRIMARY KEY (k, c)) \
             WITH id = 5a1c395e-b41f-11e5-9f22-ba0be0483c18",
            "CREATE TABLE ks.u (k int PRIMARY KEY, v int) WITH id = 5a1c395e-b41f-11e5-9f22-ba0be0483c20",
        ];
        for statement in statements {
            session.query(statement, Ask::at(Consistency::One)).await?;
        }
    }
    Ok(())
}

// ---- the run -----------------------------------------------------------------------------------------------------

fn fault(world: &mut World, run: &mut Run) {
    let (a, b) = (run.any(), run.any());
    let (node_a, node_b) = (run.hosts[a].node, run.hosts[b].node);
    let all_up = run.hosts.iter().all(|host| world.alive(host.node));
    match run.rng.below(9) {
        0 | 1 if all_up || run.rng.chance(0.3) => world.power_cut(node_a),
        2 if all_up => world.kill(node_a),
        3 if a != b => world.cut(node_a, node_b),
        4 if a != b => world.cut_one_way(node_a, node_b),
        5 => world.heal_all(),
        6 => {
            let longest = 100 + run.rng.below(30_000);
            world.set_delay(Duration::from_micros(50), Duration::from_micros(longest), 0.01);
        }
        7 => {
            let slow = Duration::from_micros(100 + run.rng.below(10_000));
            world.slow_disk(node_a, (Duration::from_micros(50), slow));
        }
        _ => world.reset_connections(node_a, node_b),
    }
}

/// One run.
pub(crate) fn play(world: &mut World, seed: u64, planted: Option<Bug>) -> Result<(), String> {
    let mut run = prepare(world, seed, planted);
    run.all_ready(world)?;
    let nodes: Vec<SocketAddr> = run.hosts.iter().map(Host::native).collect();
    let mut schema = world.spawn(run.client, create_schema(nodes));
    finished(world, &mut schema, 2 * START, "making the schema")?
        .map_err(|t| format!("the schema is not made: {t}"))?;
    let clients: Vec<Task<()>> = (0..2 + run.rng.below(4))
        .map(|_| {
            let rng = run.rng.fork();
            world.spawn(run.client, client(run.doors(), run.book.clone(), rng))
        })
        .collect();
    let book = run.book.clone();
    if !world.run_until(|_| book.borrow().writes > 0, START) {
        return Err("no client writes anything".to_string());
    }
    for _ in 0..4 + run.rng.below(6) {
        let spell = Duration::from_micros(run.rng.below(600_000));
        world.run_for(spell);
        run.verdict()?;
        fault(world, &mut run);
        run.boot_dead(world, 0.4);
    }
    world.run_for(Duration::from_millis(200));
    run.verdict()?;
    // The clients end with the machine they run on; what they had asked for may still happen for a while.
    world.kill(run.client);
    drop(clients);
    world.heal_all();
    world.set_delay(Duration::from_micros(20), Duration::from_micros(500), 0.0);
    run.all_ready(world)?;
    world.run_for(Duration::from_secs(15));
    run.read_everything(world)?;
    handoff::play(world, &mut run, handoff::Rules { may_reshard: false, repairs: false })
}

#[cfg(test)]
mod tests;
