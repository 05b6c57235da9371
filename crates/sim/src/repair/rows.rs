//! Three machines of one cluster and a table of registers: rows with a value, and a static value for each partition.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use base::Prng;
use node::config::{CommitlogSync, Seed};
use runtime::Bug;
use runtime::sim::{NodeId, World};
use types::Consistency;

use crate::host::Host;
use crate::limits::START;
use crate::machines::finished;
use crate::register::Register;
use crate::session::{Ask, Session, Trouble, insist};

pub(super) const NODES: usize = 3;
/// Where the static value of a partition is kept among its rows.
pub(super) const STATIC: i32 = -1;

/// Everything clients have written.
pub(super) struct Book {
    pub(super) registers: BTreeMap<(i32, i32), Register>,
    next_time: i64,
    next_value: u64,
    pub(super) partitions: i32,
    pub(super) rows: i32,
    /// Longest value, bytes.
    value_bytes: u64,
    pub(super) written: u64,
}

pub(super) type Shared = Rc<RefCell<Book>>;

pub(super) struct Run {
    pub(super) hosts: Vec<Host>,
    pub(super) shards: Vec<u16>,
    pub(super) client: NodeId,
    pub(super) book: Shared,
    pub(super) rng: Prng,
}

impl Run {
    /// Boots each node that is down.
    pub(super) fn boot_dead(&mut self, world: &mut World) {
        for (host, shards) in self.hosts.iter_mut().zip(&self.shards) {
            if !world.alive(host.node) {
                host.boot(world, *shards);
            }
        }
    }
}

/// A machine of the cluster, switched off.
pub(super) fn machine(world: &mut World, octet: u8, rng: &mut Prng, planted: Option<Bug>) -> Host {
    let mut host = Host::new(world, IpAddr::from([10, 0, 0, octet]));
    configure(&mut host, rng);
    if let Some(bug) = planted {
        world.plant(host.node, bug);
    }
    host
}

fn configure(host: &mut Host, rng: &mut Prng) {
    host.config.initial_tokens = (0..4).map(|_| rng.u64() as i64 | 1).collect();
    host.config.commitlog_sync = CommitlogSync::Batch;
    host.config.commitlog_segment_bytes = 256 << 10;
    host.config.memtable_bytes = Some(1 << (13 + rng.below(5)));
    host.config.shard_aware_port = None;
    // What a replica has missed reaches it by what is tested here alone.
    host.config.hints.enabled = false;
    let seeds = ["10.0.0.1", "10.0.0.2"].map(|host| Seed { host: host.to_string(), port: None });
    host.config.seeds = seeds.into();
}

/// Three of them that have started, and a table of which every node has all rows.
pub(super) fn prepare(
    world: &mut World,
    seed: u64,
    planted: Option<Bug>,
    grace_s: u64,
) -> Result<Run, String> {
    let mut rng = Prng::new(seed ^ 0x7265_7061_6972);
    let mut hosts: Vec<Host> =
        (1..=NODES as u8).map(|octet| machine(world, octet, &mut rng, planted)).collect();
    let shards: Vec<u16> = (0..NODES).map(|_| 1 + rng.below(3) as u16).collect();
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
            "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}"
                .to_owned(),
            format!(
                "CREATE TABLE ks.r (k int, c int, s text static, a text, v text, PRIMARY KEY (k, c)) \
                 WITH gc_grace_seconds = {grace_s}"
            ),
        ] {
            session.query(&statement, Ask::at(Consistency::One)).await?;
        }
        Ok::<_, Trouble>(())
    });
    finished(world, &mut made, START, "making the table")?.map_err(|trouble| trouble.to_string())?;
    let book = Book {
        registers: BTreeMap::new(),
        next_time: 1_600_000_000_000_000,
        next_value: 0,
        partitions: 1 + rng.below(5) as i32,
        rows: 1 + rng.below(40) as i32,
        value_bytes: 1 << rng.below(10),
        written: 0,
    };
    Ok(Run { hosts, shards, client, book: Rc::new(RefCell::new(book)), rng })
}

/// A write: its statement, the registers it is about, and what they hold afterwards.
struct Change {
    cql: String,
    keys: Vec<(i32, i32)>,
    value: Option<String>,
    timestamp: i64,
}

fn change(book: &mut Book, rng: &mut Prng) -> Change {
    book.next_time += 10;
    book.next_value += 1;
    let (k, c) = (rng.below(book.partitions as u64) as i32, rng.below(book.rows as u64) as i32);
    let (rows, timestamp) = (book.rows, book.next_time);
    let deletes = |cql: String, from: i32, to: i32| Change {
        cql,
        keys: (from..to).map(|c| (k, c)).collect(),
        value: None,
        timestamp,
    };
    match rng.below(24) {
        0 | 1 => deletes(format!("DELETE FROM ks.r WHERE k = {k} AND c = {c}"), c, c + 1),
        2 | 3 => {
            let end = (c + 1 + rng.below(8) as i32).min(rows);
            deletes(format!("DELETE FROM ks.r WHERE k = {k} AND c >= {c} AND c < {end}"), c, end)
        }
        4 => deletes(format!("DELETE FROM ks.r WHERE k = {k}"), STATIC, rows),
        5 => deletes(format!("DELETE s FROM ks.r WHERE k = {k}"), STATIC, 0),
        kind => {
            let length = 1 + rng.below(book.value_bytes) as usize;
            let value = format!("v{}.{}", book.next_value, "x".repeat(length));
            let (cql, key) = match kind {
                6 => (format!("UPDATE ks.r SET s = '{value}' WHERE k = {k}"), (k, STATIC)),
                7..=12 => {
                    (format!("INSERT INTO ks.r (k, c, a, v) VALUES ({k}, {c}, null, '{value}')"), (k, c))
                }
                _ => (format!("UPDATE ks.r SET v = '{value}' WHERE k = {k} AND c = {c}"), (k, c)),
            };
            Change { cql, keys: vec![key], value: Some(value), timestamp }
        }
    }
}

/// Writes a few rows through a node, as far as it takes them.
pub(super) async fn write_some(to: SocketAddr, book: Shared, mut rng: Prng, count: u64, level: Consistency) {
    let Ok(mut session) = insist(to, Duration::from_secs(2)).await else { return };
    for _ in 0..count {
        if let Err(Trouble::Lost(_)) = write_one(&mut session, &book, &mut rng, level).await {
            return;
        }
    }
}

pub(super) async fn write_one(
    session: &mut Session,
    book: &Shared,
    rng: &mut Prng,
    level: Consistency,
) -> Result<(), Trouble> {
    let change = {
        let mut book = book.borrow_mut();
        let change = change(&mut book, rng);
        for key in &change.keys {
            let register = book.registers.entry(*key).or_default();
            register.issue(change.timestamp, change.value.as_deref());
        }
        change
    };
    let ask = Ask { timestamp: Some(change.timestamp), ..Ask::at(level) };
    session.query(&change.cql, ask).await?;
    let mut book = book.borrow_mut();
    book.written += 1;
    for key in &change.keys {
        if let Some(register) = book.registers.get_mut(key) {
            register.ack(change.timestamp, change.value.as_deref(), level, runtime::now());
        }
    }
    Ok(())
}

/// What a node says of every register and when it was written, at a level; unpaged or by pages.
pub(super) type Seen = BTreeMap<(i32, i32), (Option<String>, Option<Vec<u8>>)>;

pub(super) async fn read_all(
    to: SocketAddr,
    level: Consistency,
    page_size: Option<u32>,
) -> Result<Seen, String> {
    let told = |trouble: Trouble| format!("{to} at {level}: {trouble}");
    let mut session = insist(to, START).await.map_err(told)?;
    let cql = "SELECT k, c, s, v, writetime(s), writetime(v) FROM ks.r";
    let rows = session.all(cql, Ask { page_size, ..Ask::at(level) }).await.map_err(told)?;
    let text =
        |value: &Option<Vec<u8>>| value.as_ref().map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    let number = |value: &Option<Vec<u8>>| {
        value.as_deref().and_then(|bytes| bytes.try_into().ok()).map_or(STATIC, i32::from_be_bytes)
    };
    let mut seen = Seen::new();
    for row in rows {
        let k = number(&row[0]);
        seen.insert((k, STATIC), (text(&row[2]), row[4].clone()));
        if row[1].is_some() {
            seen.insert((k, number(&row[1])), (text(&row[3]), row[5].clone()));
        }
    }
    Ok(seen)
}

/// Judges what was read between `start` and now as a read at a level. A partition with no rows shows no static value in a scan only if it has none.
pub(super) fn judge(
    book: &Shared,
    seen: &Seen,
    start: base::Instant,
    now: base::Instant,
    level: Consistency,
    whose: &str,
) -> Result<(), String> {
    let mut book = book.borrow_mut();
    let (partitions, rows) = (book.partitions, book.rows);
    for key in (0..partitions).flat_map(|k| (STATIC..rows).map(move |c| (k, c))) {
        let value = seen.get(&key).and_then(|(value, _)| value.as_deref());
        let verdict = book.registers.entry(key).or_default().check((start, now), level, value);
        verdict.map_err(|text| format!("{whose}, register {key:?}: {text}"))?;
    }
    Ok(())
}

/// Boots machines that are down, and waits until all serve.
pub(super) fn all_ready(world: &mut World, run: &mut Run) -> Result<(), String> {
    run.boot_dead(world);
    for host in &run.hosts {
        host.await_ready(world)?;
    }
    Ok(())
}

/// Writes at ONE and now and then at QUORUM, while nodes are cut from each other and restart: replicas miss some of them.
pub(super) fn diverge(world: &mut World, run: &mut Run) -> Result<(), String> {
    for _ in 0..4 + run.rng.below(8) {
        for a in 0..NODES {
            let b = (a + 1) % NODES;
            if run.rng.chance(0.4) {
                world.cut(run.hosts[a].node, run.hosts[b].node);
            }
        }
        if run.rng.chance(0.3) {
            // Known by everybody, so that nobody even sends.
            world.run_for(Duration::from_secs(4));
        }
        for at in 0..NODES {
            let (rng, to) = (run.rng.fork(), run.hosts[at].native());
            let level = if run.rng.chance(0.3) { Consistency::Quorum } else { Consistency::One };
            let count = 1 + run.rng.below(12);
            let writes = write_some(to, run.book.clone(), rng, count, level);
            let mut task = world.spawn(run.client, writes);
            finished(world, &mut task, Duration::from_secs(300), "writing")?;
        }
        world.heal_all();
        if run.rng.chance(0.2) {
            let at = run.rng.below(NODES as u64) as usize;
            let node = run.hosts[at].node;
            if run.rng.chance(0.5) {
                world.power_cut(node)
            } else {
                world.kill(node)
            }
            all_ready(world, run)?;
        }
    }
    world.heal_all();
    // Everybody sees everybody again, and what was begun has ended.
    world.run_for(Duration::from_secs(15));
    Ok(())
}

/// Writes at QUORUM while one node is away and known to be, each in turn: what two have acknowledged the third lacks.
pub(super) fn miss(world: &mut World, run: &mut Run) -> Result<(), String> {
    for _ in 0..2 + run.rng.below(3) {
        let away = run.rng.below(NODES as u64) as usize;
        let others: Vec<usize> = (0..NODES).filter(|at| *at != away).collect();
        for at in &others {
            world.cut(run.hosts[away].node, run.hosts[*at].node);
        }
        world.run_for(Duration::from_secs(5));
        for at in others {
            let (rng, to) = (run.rng.fork(), run.hosts[at].native());
            let count = 5 + run.rng.below(20);
            let writes = write_some(to, run.book.clone(), rng, count, Consistency::Quorum);
            let mut task = world.spawn(run.client, writes);
            finished(world, &mut task, Duration::from_secs(300), "writing")?;
        }
        world.heal_all();
        world.run_for(Duration::from_secs(10));
    }
    Ok(())
}
