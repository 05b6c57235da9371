//! Three nodes of one to four shards, every row on all of them: reads and writes at ONE, QUORUM and ALL while links are
//! slow, cut or reset and one node at a time is down.
//!
//! Checked: each register as [`crate::register`] says, live and after all faults ended; then the pages of every
//! partition and of a full scan, asked from every node, equal the unpaged answer.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use base::Prng;
use node::config::{CommitlogSync, Peer};
use runtime::Bug;
use runtime::sim::{NodeId, Task, World};
use types::Consistency;

use crate::host::Host;
use crate::limits::{CONVERGE, START};
use crate::register::Register;
use crate::session::{Ask, Row, Session, Trouble, insist};

const NODES: usize = 3;
const LEVELS: [Consistency; 3] = [Consistency::One, Consistency::Quorum, Consistency::All];

struct Book {
    registers: BTreeMap<(i32, i32), Register>,
    next_time: i64,
    partitions: i32,
    rows: i32,
    violation: Option<String>,
    reads: u64,
    writes: u64,
}

type Shared = Rc<RefCell<Book>>;

struct Run {
    hosts: Vec<Host>,
    shards: Vec<u16>,
    client: NodeId,
    book: Shared,
    rng: Prng,
}

fn prepare(world: &mut World, seed: u64, planted: Option<Bug>) -> Run {
    let mut rng = Prng::new(seed ^ 0x7468_7265_6521);
    let ip = |n: usize| IpAddr::from([10, 0, 0, 1 + n as u8]);
    let mut hosts: Vec<Host> = (0..NODES).map(|n| Host::new(world, ip(n))).collect();
    let shards: Vec<u16> = (0..NODES).map(|_| 1 + rng.below(4) as u16).collect();
    for (n, host) in hosts.iter_mut().enumerate() {
        host.config.host_id = Some(0x1000 + n as u128);
        host.config.initial_tokens = (0..4).map(|_| rng.u64() as i64 | 1).collect();
        host.config.commitlog_sync = CommitlogSync::Batch;
        host.config.commitlog_segment_bytes = 256 << 10;
        host.config.memtable_bytes = Some(1 << (13 + rng.below(5)));
        host.config.shard_aware_port = None;
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
    let book = Book {
        registers: BTreeMap::new(),
        next_time: 1_600_000_000_000_000,
        partitions: 2 + rng.below(4) as i32,
        rows: 2 + rng.below(6) as i32,
        violation: None,
        reads: 0,
        writes: 0,
    };
    Run { hosts, shards, client, book: Rc::new(RefCell::new(book)), rng }
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

/// The same definitions on every node: schema is not replicated yet, so the table's identity is named.
async fn create_schema(nodes: Vec<SocketAddr>) -> Result<(), Trouble> {
    for to in nodes {
        let mut session = insist(to, START).await?;
        let statements = [
            "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}",
            "CREATE TABLE ks.r (k int, c int, a text, v text, PRIMARY KEY (k, c)) \
             WITH id = 5a1c395e-b41f-11e5-9f22-ba0be0483c18",
        ];
        for statement in statements {
            session.query(statement, Ask::at(Consistency::One)).await?;
        }
    }
    Ok(())
}

// ---- clients -----------------------------------------------------------------------------------------------------

fn level(rng: &mut Prng) -> Consistency {
    if rng.chance(0.6) { Consistency::Quorum } else { LEVELS[rng.below(3) as usize] }
}

async fn client(nodes: Vec<SocketAddr>, book: Shared, mut rng: Prng) {
    let mut session: Option<Session> = None;
    while book.borrow().violation.is_none() {
        if session.is_none() || rng.chance(0.05) {
            let to = nodes[rng.below(nodes.len() as u64) as usize];
            session = Session::connect(to).await.ok();
        }
        if let Some(open) = &mut session {
            let done = match rng.below(10) {
                0..=4 => write(open, &book, &mut rng).await,
                5..=7 => read_row(open, &book, &mut rng).await,
                _ => read_partition(open, &book, &mut rng).await,
            };
            if let Err(Trouble::Lost(_)) = done {
                session = None;
            }
        }
        runtime::sleep(Duration::from_micros(rng.below(20_000))).await;
    }
}

async fn write(session: &mut Session, book: &Shared, rng: &mut Prng) -> Result<(), Trouble> {
    let level = level(rng);
    let (key, timestamp, value) = {
        let mut book = book.borrow_mut();
        let key = (rng.below(book.partitions as u64) as i32, rng.below(book.rows as u64) as i32);
        book.next_time += 10;
        book.writes += 1;
        let timestamp = book.next_time;
        let value = rng.chance(0.9).then(|| format!("v{timestamp}"));
        book.registers.entry(key).or_default().issue(timestamp, value.clone(), level);
        (key, timestamp, value)
    };
    let (k, c) = key;
    let cql = match &value {
        // A null before the value, and later updates behind it: what a digest that stops at nulls falls for.
        Some(v) if rng.chance(0.4) => {
            format!("INSERT INTO ks.r (k, c, a, v) VALUES ({k}, {c}, null, '{v}')")
        }
        Some(v) => format!("UPDATE ks.r SET v = '{v}' WHERE k = {k} AND c = {c}"),
        None => format!("DELETE FROM ks.r WHERE k = {k} AND c = {c}"),
    };
    let ask = Ask { timestamp: Some(timestamp), ..Ask::at(level) };
    session.query(&cql, ask).await?;
    if let Some(register) = book.borrow_mut().registers.get_mut(&key) {
        register.ack(timestamp, runtime::now());
    }
    Ok(())
}

fn text(value: &Option<Vec<u8>>) -> Option<String> {
    value.as_ref().map(|bytes| String::from_utf8_lossy(bytes).into_owned())
}

async fn read_row(session: &mut Session, book: &Shared, rng: &mut Prng) -> Result<(), Trouble> {
    let (partitions, rows) = (book.borrow().partitions, book.borrow().rows);
    let (k, c) = (rng.below(partitions as u64) as i32, rng.below(rows as u64) as i32);
    let level = level(rng);
    let start = runtime::now();
    let found = session.all(&format!("SELECT v FROM ks.r WHERE k = {k} AND c = {c}"), Ask::at(level)).await?;
    let seen = found.first().and_then(|row| text(&row[0]));
    judge(book, (k, c), start, level, seen.as_deref());
    Ok(())
}

async fn read_partition(session: &mut Session, book: &Shared, rng: &mut Prng) -> Result<(), Trouble> {
    let (partitions, rows) = (book.borrow().partitions, book.borrow().rows);
    let k = rng.below(partitions as u64) as i32;
    let level = level(rng);
    let page_size = rng.chance(0.5).then(|| 1 + rng.below(4) as u32);
    let start = runtime::now();
    let ask = Ask { page_size, ..Ask::at(level) };
    let found = session.all(&format!("SELECT c, v FROM ks.r WHERE k = {k}"), ask).await?;
    let mut seen: BTreeMap<i32, Option<String>> = BTreeMap::new();
    for row in &found {
        let c = row[0].as_deref().and_then(|b| b.try_into().ok()).map_or(-1, i32::from_be_bytes);
        if seen.insert(c, text(&row[1])).is_some() {
            book.borrow_mut().violation.get_or_insert(format!("partition {k} shows row {c} twice"));
        }
    }
    for c in 0..rows {
        judge(book, (k, c), start, level, seen.remove(&c).flatten().as_deref());
    }
    Ok(())
}

fn judge(book: &Shared, key: (i32, i32), start: base::Instant, level: Consistency, seen: Option<&str>) {
    let mut book = book.borrow_mut();
    book.reads += 1;
    let verdict = book.registers.entry(key).or_default().check((start, runtime::now()), level, seen);
    if let Err(text) = verdict {
        book.violation.get_or_insert(format!("register {key:?}: {text}"));
    }
}

// ---- after the faults --------------------------------------------------------------------------------------------

async fn settled(nodes: Vec<SocketAddr>, book: Shared, mut rng: Prng) -> Result<(), String> {
    let told = |trouble: Trouble| format!("after all faults ended: {trouble}");
    let (partitions, rows) = (book.borrow().partitions, book.borrow().rows);
    for to in nodes {
        let mut session = insist(to, START).await.map_err(told)?;
        for level in [Consistency::Quorum, Consistency::All] {
            for k in 0..partitions {
                let start = runtime::now();
                let cql = format!("SELECT c, v FROM ks.r WHERE k = {k}");
                let whole = session.all(&cql, Ask::at(level)).await.map_err(told)?;
                let paged = Ask { page_size: Some(1 + rng.below(3) as u32), ..Ask::at(level) };
                let pages = session.all(&cql, paged).await.map_err(told)?;
                same(&format!("partition {k} at {level}"), &whole, &pages)?;
                let mut seen: BTreeMap<i32, Option<String>> = BTreeMap::new();
                for row in &whole {
                    let c = row[0].as_deref().and_then(|b| b.try_into().ok()).map_or(-1, i32::from_be_bytes);
                    seen.insert(c, text(&row[1]));
                }
                for c in 0..rows {
                    judge(&book, (k, c), start, level, seen.remove(&c).flatten().as_deref());
                }
            }
        }
        let cql = "SELECT k, c, v FROM ks.r";
        let whole = session.all(cql, Ask::at(Consistency::Quorum)).await.map_err(told)?;
        let paged = Ask { page_size: Some(1 + rng.below(5) as u32), ..Ask::at(Consistency::Quorum) };
        let pages = session.all(cql, paged).await.map_err(told)?;
        same("a full scan", &whole, &pages)?;
    }
    Ok(())
}

fn same(what: &str, whole: &[Row], pages: &[Row]) -> Result<(), String> {
    if whole == pages {
        return Ok(());
    }
    let (whole, pages) = (crate::model::shown(whole), crate::model::shown(pages));
    Err(format!("{what} by pages is\n  {pages}\nand whole\n  {whole}"))
}

// ---- the run -----------------------------------------------------------------------------------------------------

fn violation(run: &Run) -> Result<(), String> {
    match &run.book.borrow().violation {
        Some(text) => Err(text.clone()),
        None => Ok(()),
    }
}

fn fault(world: &mut World, run: &mut Run) {
    let pick = |rng: &mut Prng| rng.below(NODES as u64) as usize;
    let (a, b) = (pick(&mut run.rng), pick(&mut run.rng));
    let (node_a, node_b) = (run.hosts[a].node, run.hosts[b].node);
    let all_up = run.hosts.iter().all(|host| world.alive(host.node));
    match run.rng.below(9) {
        0 | 1 if all_up => world.power_cut(node_a),
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

fn boot_dead(world: &mut World, run: &mut Run, chance: f64) {
    for n in 0..NODES {
        if !world.alive(run.hosts[n].node) && run.rng.chance(chance) {
            let shards = run.shards[n];
            run.hosts[n].boot(world, shards);
        }
    }
}

fn finished<T>(world: &mut World, task: &mut Task<T>, limit: Duration, what: &str) -> Result<T, String> {
    world.run_until(|_| task.done(), limit);
    task.take().ok_or_else(|| format!("{what} takes longer than {limit:?}"))
}

/// One run.
pub(crate) fn play(world: &mut World, seed: u64, planted: Option<Bug>) -> Result<(), String> {
    let mut run = prepare(world, seed, planted);
    boot_dead(world, &mut run, 1.0);
    for host in &run.hosts {
        host.await_ready(world)?;
    }
    let nodes: Vec<SocketAddr> = run.hosts.iter().map(Host::native).collect();
    let mut schema = world.spawn(run.client, create_schema(nodes.clone()));
    finished(world, &mut schema, 2 * START, "making the schema")?
        .map_err(|t| format!("the schema is not made: {t}"))?;
    let clients: Vec<Task<()>> = (0..2 + run.rng.below(3))
        .map(|_| {
            let rng = run.rng.fork();
            world.spawn(run.client, client(nodes.clone(), run.book.clone(), rng))
        })
        .collect();
    for _ in 0..4 + run.rng.below(6) {
        let spell = Duration::from_micros(run.rng.below(600_000));
        world.run_for(spell);
        violation(&run)?;
        fault(world, &mut run);
        boot_dead(world, &mut run, 0.4);
    }
    world.run_for(Duration::from_millis(200));
    violation(&run)?;
    // The clients end with the machine they run on; what they had asked for may still happen for a while.
    world.kill(run.client);
    drop(clients);
    world.heal_all();
    world.set_delay(Duration::from_micros(20), Duration::from_micros(500), 0.0);
    boot_dead(world, &mut run, 1.0);
    for host in &run.hosts {
        host.await_ready(world)?;
    }
    world.run_for(Duration::from_secs(15));
    let judge = world.add_client(IpAddr::from([10, 0, 1, 2]));
    let rng = run.rng.fork();
    let mut end = world.spawn(judge, settled(nodes, run.book.clone(), rng));
    finished(world, &mut end, 2 * CONVERGE, "reading everything after the faults")??;
    violation(&run)?;
    if run.book.borrow().reads == 0 || run.book.borrow().writes == 0 {
        return Err("the run did nothing".to_string());
    }
    Ok(())
}
