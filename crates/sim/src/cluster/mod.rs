//! Clusters of three to nine nodes of one to eight shards, in one datacenter or two, with racks: founded, joined, replaced, and
//! disturbed in every way that the world knows.
//!
//! ```text
//! found ─▶ late nodes join, without data ─▶ clients and faults ─▶ calm, judged ─▶ join, replacement, older folder, or none ─▶ end
//!                                                 ▲                                                         │
//!                                                 └──────────────────────── once more, or not ──────────────┘
//! ```
//! Checked live: registers of two keyspaces at levels that meet ([`crate::register`]), truncations, roles, tables that are made.
//! In the end: hints drain, a repair makes up for what no hint was kept of, and each node alone has everything that was confirmed; one schema;
//! nothing is back behind a truncation; one set of roles. Then one node misses writes again: [`crate::handoff`].

use std::cell::RefCell;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

use base::Prng;
use node::config::{Authenticator, CommitlogSync, Seed};
use runtime::Bug;
use runtime::sim::{NodeId, Task, World};
use types::Consistency;

use crate::clients::{Book, Keyspace, Levels, client};
use crate::faults::Lasting;
use crate::handoff;
use crate::host::Host;
use crate::limits::{CONVERGE, START};
use crate::machines::{FAR, Run, finished};
use crate::outcome::Counts;
use crate::register::Factors;
use crate::repairs::repair_all;
use crate::session::{Ask, Trouble, insist};

/// What happens to machines and links.
mod faults;
/// Nodes that join, are replaced, or come with an older folder.
mod operations;
mod roles;
mod schema;
mod truncations;

/// Nodes that a cluster begins with, at least; one more may join later.
const NODES_MIN: usize = 3;
const NODES_MAX: u64 = 8;
const SHARDS_MAX: u64 = 8;

/// The cluster, and what its clients know.
struct Cluster<'c> {
    run: Run,
    /// Machines that join before there is data.
    late: Vec<(Host, u16)>,
    schema: schema::Shared,
    truncated: truncations::Shared,
    roles: roles::Shared,
    lasting: Lasting,
    /// Hints are kept for seconds.
    is_window_short: bool,
    counts: &'c mut Counts,
    planted: Option<Bug>,
    /// Addresses of clients that were given.
    clients: u8,
    common: Common,
    /// Addresses of nodes that were given.
    addresses: u8,
}

impl Cluster<'_> {
    fn count(&mut self, kind: &'static str) {
        *self.counts.entry(kind).or_default() += 1;
    }

    /// Errors: what clients have seen and must not.
    fn verdict(&self) -> Result<(), String> {
        self.run.verdict()?;
        self.truncated.borrow().verdict()?;
        self.roles.borrow().verdict()?;
        self.schema.borrow().verdict()
    }

    /// Whether nodes ask for passwords.
    fn is_guarded(&self) -> bool {
        self.run.hosts[0].config.authentication.authenticator == Authenticator::Password
    }

    fn client_machine(&mut self, world: &mut World) -> NodeId {
        self.clients += 1;
        world.add_client(IpAddr::from([10, 0, 2, self.clients]))
    }

    /// A replica has lost what it had for good.
    fn lose_one(&self) {
        self.run.book.borrow_mut().lose_one();
        self.truncated.borrow_mut().lose_one();
    }
}

// ---- before the start --------------------------------------------------------------------------------------------

/// What all nodes of a run are told alike.
struct Common {
    seeds: Vec<Seed>,
    hint_window: Option<Duration>,
    auto_snapshot: bool,
    is_guarded: bool,
}

fn machine(world: &mut World, octet: u8, rng: &mut Prng, planted: Option<Bug>, common: &Common) -> Host {
    let mut host = Host::new(world, IpAddr::from([10, 0, 0, octet]));
    host.config.initial_tokens = (0..4).map(|_| rng.u64() as i64 | 1).collect();
    host.config.commitlog_sync = CommitlogSync::Batch;
    host.config.commitlog_segment_bytes = 256 << 10;
    host.config.memtable_bytes = Some(1 << (13 + rng.below(5)));
    host.config.shard_aware_port = None;
    host.config.hints.flush_period = Duration::from_millis(100 + rng.below(3_000));
    host.config.hints.file_bytes_max = 1 << (9 + rng.below(12));
    host.config.rack = format!("r{}", rng.below(3));
    host.config.seeds.clone_from(&common.seeds);
    host.config.auto_snapshot = common.auto_snapshot;
    if let Some(window) = common.hint_window {
        host.config.hints.window = window;
    }
    if common.is_guarded {
        host.config.authentication.authenticator = Authenticator::Password;
    }
    if let Some(bug) = planted {
        world.plant(host.node, bug);
    }
    host
}

/// A machine that was not there from the beginning.
fn machine_like(world: &mut World, cluster: &mut Cluster, octet: u8) -> Host {
    machine(world, octet, &mut cluster.run.rng, cluster.planted, &cluster.common)
}

fn shards_of(rng: &mut Prng) -> u16 {
    // Large shapes cost ten times as much as small ones and find hardly more: they are rare.
    let most = if rng.chance(0.9) { 2 } else { SHARDS_MAX };
    1 + rng.below(most) as u16
}

fn prepare<'c>(world: &mut World, seed: u64, planted: Option<Bug>, counts: &'c mut Counts) -> Cluster<'c> {
    let mut rng = Prng::new(seed ^ 0x636c_7573_7465_7221);
    let count = match rng.below(10) {
        0..6 => NODES_MIN,
        6..9 => NODES_MIN + 1 + rng.below(2) as usize,
        _ => NODES_MIN + 1 + rng.below(NODES_MAX - 3) as usize,
    };
    let seeds =
        (0..1 + rng.below(3)).map(|n| Seed { host: format!("10.0.0.{}", n + 1), port: None }).collect();
    let common = Common {
        seeds,
        hint_window: rng.chance(0.4).then(|| Duration::from_secs(2 + rng.below(4))),
        auto_snapshot: rng.chance(0.3),
        is_guarded: rng.chance(0.6),
    };
    let mut hosts: Vec<Host> =
        (1..=count as u8).map(|octet| machine(world, octet, &mut rng, planted, &common)).collect();
    let mut shards: Vec<u16> = (0..count).map(|_| shards_of(&mut rng)).collect();
    if rng.chance(0.5) {
        let far = 1 + rng.below(count as u64 - 1) as usize;
        for n in 0..far {
            // Every other one at first, so that seeds and founders are here and there.
            let at = if 2 * n + 1 < count { 2 * n + 1 } else { 2 * (n - count / 2) };
            hosts[at].config.data_center = FAR.to_owned();
        }
    }
    let early = NODES_MIN + rng.below((count - NODES_MIN) as u64 + 1) as usize;
    let late = hosts.split_off(early).into_iter().zip(shards.split_off(early)).collect();
    let far = hosts.iter().filter(|host| host.config.data_center == FAR).count() as u32;
    let factors =
        [early as u32 - far, far].map(|nodes| nodes.min(1 + rng.below(4) as u32).min(3).max(nodes.min(1)));
    let factors = if rng.chance(0.7) { [early as u32 - far, far].map(|nodes| nodes.min(3)) } else { factors };
    let keyspaces = vec![
        Keyspace { name: "ks", factors: Factors::by_dc(factors) },
        Keyspace { name: "simple", factors: Factors::simple(3) },
    ];
    use Consistency::{All, Any, EachQuorum, LocalOne, LocalQuorum, One, Quorum};
    let levels = Levels {
        writes: vec![One, Quorum, All, LocalQuorum, LocalQuorum, EachQuorum, EachQuorum, Any],
        reads: vec![One, LocalOne, Quorum, All, LocalQuorum, LocalQuorum, EachQuorum],
    };
    let client = world.add_client(IpAddr::from([10, 0, 1, 1]));
    let book = Rc::new(RefCell::new(Book::new(keyspaces, levels, &mut rng)));
    Cluster {
        run: Run { hosts, shards, client, book, rng },
        late,
        schema: Rc::default(),
        truncated: Rc::new(RefCell::new(truncations::Book::new(factors.iter().sum()))),
        roles: Rc::default(),
        lasting: Lasting::default(),
        is_window_short: common.hint_window.is_some(),
        counts,
        planted,
        clients: 0,
        common,
        addresses: count as u8,
    }
}

/// Makes keyspaces and tables through one node.
async fn create_schema(to: std::net::SocketAddr, replication: String) -> Result<(), Trouble> {
    let mut session = insist(to, START).await?;
    let registers = "(k int, c int, a text, v text, PRIMARY KEY (k, c))";
    for statement in [
        format!("CREATE KEYSPACE ks WITH replication = {replication}"),
        "CREATE KEYSPACE simple WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}"
            .to_string(),
        format!("CREATE TABLE ks.r {registers}"),
        format!("CREATE TABLE simple.r {registers}"),
        "CREATE TABLE ks.u (k int PRIMARY KEY, v int) WITH COMPACT STORAGE".to_string(),
    ] {
        session.query(&statement, Ask::at(Consistency::One)).await?;
    }
    Ok(())
}

/// Nodes start, in any order and some of them twice, and found one cluster; tables are made; then the late ones join.
fn begin(world: &mut World, cluster: &mut Cluster) -> Result<(), String> {
    let mut order: Vec<usize> = (0..cluster.run.count()).collect();
    for at in (1..order.len()).rev() {
        order.swap(at, cluster.run.rng.below(at as u64 + 1) as usize);
    }
    for at in order {
        let shards = cluster.run.shards[at];
        cluster.run.hosts[at].boot(world, shards);
        let most = [1_000, 100_000, 3_000_000][cluster.run.rng.below(3) as usize];
        let spell = Duration::from_micros(cluster.run.rng.below(most));
        world.run_for(spell);
        if cluster.run.rng.chance(0.15) {
            let host = &cluster.run.hosts[at];
            let was_starting = !host.is_ready();
            match cluster.run.rng.chance(0.5) {
                true => world.kill(host.node),
                false => world.power_cut(host.node),
            }
            cluster.run.hosts[at].boot(world, shards);
            cluster.count(if was_starting { "kill while it starts" } else { "kill" });
        }
    }
    cluster.run.await_ready(world)?;
    let replication = {
        let book = cluster.run.book.borrow();
        let names = ["datacenter1", FAR];
        let [near, far] = book.keyspaces[0].factors.by_datacenter();
        let shown = |(name, factor): (&str, u32)| format!(", '{name}': {factor}");
        let named: String =
            names.into_iter().zip([near, far]).filter(|(_, factor)| *factor > 0).map(shown).collect();
        format!("{{'class': 'NetworkTopologyStrategy'{named}}}")
    };
    let to = cluster.run.door(0).address;
    let mut made = world.spawn(cluster.run.client, create_schema(to, replication));
    finished(world, &mut made, 2 * START, "making the schema")?
        .map_err(|trouble| format!("the schema is not made: {trouble}"))?;
    for (mut host, shards) in std::mem::take(&mut cluster.late) {
        host.boot(world, shards);
        host.await_ready(world).map_err(|text| format!("{} joins: {text}", host.ip))?;
        cluster.run.hosts.push(host);
        cluster.run.shards.push(shards);
        cluster.count("join without data to bring");
    }
    Ok(())
}

// ---- clients and faults ------------------------------------------------------------------------------------------

/// Tasks of clients; they end with the machine they run on.
struct Working {
    machine: NodeId,
    tasks: Vec<Task<()>>,
}

/// Starts clients of every kind.
fn work(world: &mut World, cluster: &mut Cluster) -> Result<Working, String> {
    let machine = cluster.client_machine(world);
    let doors = cluster.run.doors();
    let mut tasks = Vec::new();
    let book = cluster.run.book.clone();
    let before = book.borrow().writes;
    for _ in 0..2 + cluster.run.rng.below(3) {
        let rng = cluster.run.rng.fork();
        tasks.push(world.spawn(machine, client(doors.clone(), book.clone(), rng)));
    }
    for owner in 0..2 {
        let owner = 2 * u64::from(cluster.clients) + owner;
        let rng = cluster.run.rng.fork();
        tasks.push(world.spawn(machine, schema::client(doors.clone(), cluster.schema.clone(), owner, rng)));
        if cluster.is_guarded() {
            let rng = cluster.run.rng.fork();
            tasks.push(world.spawn(machine, roles::client(doors.clone(), cluster.roles.clone(), owner, rng)));
        }
    }
    for _ in 0..2 {
        let rng = cluster.run.rng.fork();
        tasks.push(world.spawn(machine, truncations::client(doors.clone(), cluster.truncated.clone(), rng)));
    }
    match world.run_until(|_| book.borrow().writes > before, START) {
        true => Ok(Working { machine, tasks }),
        false => Err("no client writes anything".to_string()),
    }
}

/// What clients had asked for may still happen for a while.
fn end_work(world: &mut World, working: Working) {
    world.kill(working.machine);
    drop(working.tasks);
}

/// Clients work while faults happen; then all is well again.
fn disturb(world: &mut World, cluster: &mut Cluster) -> Result<(), String> {
    let working = work(world, cluster)?;
    for _ in 0..4 + cluster.run.rng.below(8) {
        let spell = Duration::from_micros(cluster.run.rng.below(600_000));
        world.run_for(spell);
        cluster.verdict()?;
        faults::fault(world, cluster);
        cluster.run.boot_dead(world, 0.4);
    }
    world.run_for(Duration::from_millis(200));
    cluster.verdict()?;
    end_work(world, working);
    faults::end_all(world, cluster)?;
    world.run_for(Duration::from_secs(15));
    cluster.run.read_everything(world)?;
    cluster.verdict()
}

// ---- the end -----------------------------------------------------------------------------------------------------

/// Runs a check by a client of its own.
fn check(
    world: &mut World,
    cluster: &mut Cluster,
    what: &str,
    task: impl Future<Output = Result<(), String>> + 'static,
) -> Result<(), String> {
    let judge = cluster.client_machine(world);
    let mut task = world.spawn(judge, task);
    finished(world, &mut task, 2 * CONVERGE, what)??;
    world.kill(judge);
    cluster.verdict()
}

fn end(world: &mut World, cluster: &mut Cluster) -> Result<(), String> {
    handoff::drain(world, &cluster.run)?;
    if cluster.run.rng.chance(0.5) {
        repair_all(world, &cluster.run)?;
        handoff::alone(world, &cluster.run).map_err(|text| format!("behind a repair: {text}"))?;
        cluster.run.read_everything(world)?;
    }
    let rules = handoff::Rules { may_reshard: true, repairs: cluster.is_window_short };
    handoff::play(world, &mut cluster.run, rules)?;
    // Who was cut off a moment ago may be found out only now, and must be known to be back for what is read at ALL.
    world.run_for(Duration::from_secs(10));
    let doors = cluster.run.doors();
    let book = cluster.schema.clone();
    check(world, cluster, "comparing schemas", schema::settled(doors.clone(), book))?;
    let (book, rng) = (cluster.truncated.clone(), cluster.run.rng.fork());
    let settled = truncations::settled(doors.clone(), book, rng);
    check(world, cluster, "looking for what was truncated", settled)?;
    if cluster.is_guarded() {
        let nodes = doors.iter().map(|door| door.address).collect();
        let book = cluster.roles.clone();
        check(world, cluster, "comparing roles", roles::settled(nodes, book))?;
    }
    Ok(())
}

/// One run. `counts`: what happened, by kind.
pub(crate) fn play(
    world: &mut World,
    seed: u64,
    planted: Option<Bug>,
    counts: &mut Counts,
) -> Result<(), String> {
    let mut cluster = prepare(world, seed, planted, counts);
    begin(world, &mut cluster)?;
    for _ in 0..1 + cluster.run.rng.below(2) {
        disturb(world, &mut cluster)?;
        operations::any(world, &mut cluster)?;
    }
    end(world, &mut cluster)
}
