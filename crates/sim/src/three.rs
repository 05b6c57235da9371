//! Three nodes of one to four shards, that know each other from their configuration or found a cluster and join it, every row on all of them: reads and writes at ONE, QUORUM and ALL while links are
//! slow, cut or reset and one node at a time is down.
//!
//! Writes race for few rows, some with one timestamp, and deletions take several rows at once. Any number of nodes may lose
//! power: what a node has confirmed is on its disk.
//!
//! Checked: each register as [`crate::register`] says, live and after all faults ended; then the pages of every
//! partition and of a full scan, asked from every node, equal the unpaged answer. Of a cluster also: one schema, nothing
//! comes back behind a truncation, and one set of roles, which every shard acts on.
//! In the end what one node misses while it is away: see [`handoff`].

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use base::Prng;
use node::config::{Authenticator, CommitlogSync, Peer, Seed};
use runtime::Bug;
use runtime::sim::{NodeId, Task, World};
use types::Consistency;

use crate::host::Host;
use crate::limits::{CONNECT_PATIENCE, CONVERGE, START};
use crate::prepared::Statements;
use crate::register::Register;
use crate::session::{Ask, Row, Session, Trouble, insist};

/// What one node misses reaches it by hints.
mod handoff;

const NODES: usize = 3;
const LEVELS: [Consistency; 3] = [Consistency::One, Consistency::Quorum, Consistency::All];

mod roles;
mod truncations;

/// How nodes know of each other.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ties {
    /// They are named in each other's configuration; each has a schema of its own.
    Fixed,
    /// One founds a cluster and the others join it; the schema is one.
    Cluster,
}

/// What is known of a table that clients made and perhaps dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Table {
    Made,
    Dropped,
    /// The answer to the last change of it did not come.
    Unknown,
}

struct Book {
    tables: BTreeMap<u64, Table>,
    registers: BTreeMap<(i32, i32), Register>,
    next_time: i64,
    next_value: u64,
    partitions: i32,
    rows: i32,
    violation: Option<String>,
    writes: u64,
}

type Shared = Rc<RefCell<Book>>;

struct Run {
    hosts: Vec<Host>,
    shards: Vec<u16>,
    client: NodeId,
    book: Shared,
    truncated: truncations::Shared,
    roles: roles::Shared,
    rng: Prng,
}

fn prepare(world: &mut World, seed: u64, ties: Ties, planted: Option<Bug>) -> Run {
    let mut rng = Prng::new(seed ^ 0x7468_7265_6521);
    let ip = |n: usize| IpAddr::from([10, 0, 0, 1 + n as u8]);
    let mut hosts: Vec<Host> = (0..NODES).map(|n| Host::new(world, ip(n))).collect();
    let shards: Vec<u16> = (0..NODES).map(|_| 1 + rng.below(4) as u16).collect();
    for (n, host) in hosts.iter_mut().enumerate() {
        if ties == Ties::Fixed {
            host.config.host_id = Some(0x1000 + n as u128);
        }
        host.config.initial_tokens = (0..4).map(|_| rng.u64() as i64 | 1).collect();
        host.config.commitlog_sync = CommitlogSync::Batch;
        host.config.commitlog_segment_bytes = 256 << 10;
        host.config.memtable_bytes = Some(1 << (13 + rng.below(5)));
        host.config.shard_aware_port = None;
        host.config.hints.flush_period = Duration::from_millis(100 + rng.below(3_000));
        host.config.hints.file_bytes_max = 1 << (9 + rng.below(12));
        if let Some(bug) = planted {
            world.plant(host.node, bug);
        }
    }
    // A write from there goes to one of the other two, which hands it to the third.
    let mut place = Prng::new(seed ^ 0x6661_7220_6177_6179);
    if place.chance(0.4) {
        hosts[place.below(NODES as u64) as usize].config.data_center = "far".to_owned();
    }
    match ties {
        Ties::Fixed => {
            let peers: Vec<Peer> =
                hosts.iter().zip(&shards).map(|(host, shards)| peer_of(host, *shards)).collect();
            for (n, host) in hosts.iter_mut().enumerate() {
                let others = peers.iter().enumerate().filter(|(other, _)| *other != n);
                host.config.peers = others.map(|(_, peer)| peer.clone()).collect();
            }
        }
        Ties::Cluster => {
            let count = 1 + rng.below(NODES as u64) as usize;
            let seeds: Vec<Seed> =
                hosts[..count].iter().map(|host| Seed { host: host.ip.to_string(), port: None }).collect();
            let auto_snapshot = rng.chance(0.3);
            let is_guarded = rng.chance(0.7);
            for host in &mut hosts {
                if is_guarded {
                    host.config.authentication.authenticator = Authenticator::Password;
                }
                host.config.seeds.clone_from(&seeds);
                host.config.auto_snapshot = auto_snapshot;
            }
        }
    }
    let client = world.add_client(IpAddr::from([10, 0, 1, 1]));
    let book = Book {
        tables: BTreeMap::new(),
        registers: BTreeMap::new(),
        next_time: 1_600_000_000_000_000,
        next_value: 0,
        partitions: 1 + rng.below(4) as i32,
        rows: 1 + rng.below(7) as i32,
        violation: None,
        writes: 0,
    };
    let book = Rc::new(RefCell::new(book));
    Run { hosts, shards, client, book, truncated: Rc::default(), roles: Rc::default(), rng }
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

/// The same definitions on every node that has a schema of its own; then the table's identity is named.
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

// ---- clients -----------------------------------------------------------------------------------------------------

fn level(rng: &mut Prng) -> Consistency {
    if rng.chance(0.6) { Consistency::Quorum } else { LEVELS[rng.below(3) as usize] }
}

/// Sessions with each node, made when they are wanted.
struct Sessions {
    nodes: Vec<SocketAddr>,
    open: Vec<Option<Session>>,
    /// What was prepared on each node by the session that broke.
    statements: Vec<Statements>,
    at: usize,
}

impl Sessions {
    fn move_on(&mut self, rng: &mut Prng) {
        self.at = rng.below(self.nodes.len() as u64) as usize;
    }

    /// The session with the node at hand; None when it does not answer.
    async fn get(&mut self) -> Option<&mut Session> {
        let open = &mut self.open[self.at];
        if open.is_none() {
            let connecting = Session::connect(self.nodes[self.at]);
            *open = runtime::timeout(CONNECT_PATIENCE, connecting).await.ok().and_then(Result::ok);
            if let Some(session) = open {
                session.statements = std::mem::take(&mut self.statements[self.at]);
            }
        }
        open.as_mut()
    }

    /// The session with the node at hand broke; what it had prepared is tried again, as drivers do.
    fn close(&mut self) {
        if let Some(session) = self.open[self.at].take() {
            self.statements[self.at] = session.statements;
        }
    }
}

async fn client(nodes: Vec<SocketAddr>, book: Shared, mut rng: Prng) {
    let (open, statements) = nodes.iter().map(|_| (None, Statements::default())).unzip();
    let mut sessions = Sessions { nodes, open, statements, at: 0 };
    // Some clients hurry, so that writes race and reads follow reads at once.
    let pause = [20_000, 2_000, 200][rng.below(3) as usize];
    while book.borrow().violation.is_none() {
        if rng.chance(0.1) {
            sessions.move_on(&mut rng);
        }
        if let Err(Trouble::Lost(_)) = act(&mut sessions, &book, &mut rng).await {
            sessions.close();
            sessions.move_on(&mut rng);
        }
        runtime::sleep(Duration::from_micros(rng.below(pause))).await;
    }
}

async fn act(sessions: &mut Sessions, book: &Shared, rng: &mut Prng) -> Result<(), Trouble> {
    let unreachable = || Trouble::Lost("no session".to_string());
    let what = rng.below(20);
    if what < 9 {
        return write(sessions.get().await.ok_or_else(unreachable)?, book, rng).await;
    }
    if what < 14 {
        let (key, level) = (pick(book, rng), level(rng));
        read_row(sessions.get().await.ok_or_else(unreachable)?, book, key, level).await?;
        // What one coordinator has shown, the others must show from now on.
        for _ in 0..rng.below(3) {
            sessions.move_on(rng);
            let session = sessions.get().await.ok_or_else(unreachable)?;
            read_row(session, book, key, Consistency::Quorum).await?;
        }
        return Ok(());
    }
    read_rows(sessions.get().await.ok_or_else(unreachable)?, book, rng).await
}

/// A row; half of the time the one that everybody fights for.
fn pick(book: &Shared, rng: &mut Prng) -> (i32, i32) {
    let (partitions, rows) = (book.borrow().partitions, book.borrow().rows);
    if rng.chance(0.4) {
        return (0, 0);
    }
    (rng.below(partitions as u64) as i32, rng.below(rows as u64) as i32)
}

/// What a write does: the statement, the rows it is about, and what they hold afterwards.
struct Change {
    cql: String,
    keys: Vec<(i32, i32)>,
    value: Option<String>,
}

fn change(book: &mut Book, (k, c): (i32, i32), timestamp: i64, rng: &mut Prng) -> Change {
    let rows = book.rows;
    let deletes = |cql: String, from: i32, to: i32| {
        let keys = (from..to).map(|c| (k, c)).collect();
        Change { cql, keys, value: None }
    };
    match rng.below(20) {
        0 => deletes(format!("DELETE FROM ks.r WHERE k = {k} AND c = {c}"), c, c + 1),
        1 => deletes(format!("DELETE FROM ks.r WHERE k = {k} AND c >= {c}"), c, rows),
        2 if rng.chance(0.5) => deletes(format!("DELETE FROM ks.r WHERE k = {k}"), 0, rows),
        kind => {
            book.next_value += 1;
            let v = format!("v{timestamp}.{}", book.next_value);
            let cql = match kind {
                // A null before the value, and later updates behind it: what a digest that stops at nulls falls for.
                3..=8 => format!("INSERT INTO ks.r (k, c, a, v) VALUES ({k}, {c}, null, '{v}')"),
                _ => format!("UPDATE ks.r SET v = '{v}' WHERE k = {k} AND c = {c}"),
            };
            Change { cql, keys: vec![(k, c)], value: Some(v) }
        }
    }
}

async fn write(session: &mut Session, book: &Shared, rng: &mut Prng) -> Result<(), Trouble> {
    let level = level(rng);
    let key = pick(book, rng);
    let (timestamp, change) = {
        let mut book = book.borrow_mut();
        // Now and then with the timestamp of the write before.
        book.next_time += if rng.chance(0.15) { 0 } else { 10 };
        book.writes += 1;
        let timestamp = book.next_time;
        let change = change(&mut book, key, timestamp, rng);
        for key in &change.keys {
            book.registers.entry(*key).or_default().issue(timestamp, change.value.as_deref());
        }
        (timestamp, change)
    };
    let ask = Ask { timestamp: Some(timestamp), ..Ask::at(level) };
    session.query(&change.cql, ask).await?;
    let mut book = book.borrow_mut();
    for key in &change.keys {
        if let Some(register) = book.registers.get_mut(key) {
            register.ack(timestamp, change.value.as_deref(), level, runtime::now());
        }
    }
    Ok(())
}

fn text(value: &Option<Vec<u8>>) -> Option<String> {
    value.as_ref().map(|bytes| String::from_utf8_lossy(bytes).into_owned())
}

fn number(value: &Option<Vec<u8>>) -> i32 {
    value.as_deref().and_then(|bytes| bytes.try_into().ok()).map_or(-1, i32::from_be_bytes)
}

async fn read_row(
    session: &mut Session,
    book: &Shared,
    (k, c): (i32, i32),
    level: Consistency,
) -> Result<(), Trouble> {
    let start = runtime::now();
    let found = session.all(&format!("SELECT v FROM ks.r WHERE k = {k} AND c = {c}"), Ask::at(level)).await?;
    let seen = found.first().and_then(|row| text(&row[0]));
    judge(book, (k, c), start, level, seen.as_deref());
    Ok(())
}

/// A partition either way round, some partitions, or all, by pages or not.
async fn read_rows(session: &mut Session, book: &Shared, rng: &mut Prng) -> Result<(), Trouble> {
    let (partitions, rows) = (book.borrow().partitions, book.borrow().rows);
    let k = rng.below(partitions as u64) as i32;
    let level = level(rng);
    let page_size = rng.chance(0.7).then(|| 1 + rng.below(rows as u64 + 2) as u32);
    let start = runtime::now();
    let (restriction, keys) = match rng.below(6) {
        0 => (String::new(), 0..partitions),
        1 => (format!("WHERE k IN ({k}, {})", (k + 1) % partitions), 0..0),
        2 => (format!("WHERE k = {k} ORDER BY c DESC"), k..k + 1),
        _ => (format!("WHERE k = {k}"), k..k + 1),
    };
    let keys = if keys.is_empty() { vec![k, (k + 1) % partitions] } else { keys.collect() };
    let ask = Ask { page_size, ..Ask::at(level) };
    let found = session.all(&format!("SELECT k, c, v FROM ks.r {restriction}"), ask).await?;
    let mut seen: BTreeMap<(i32, i32), Option<String>> = BTreeMap::new();
    for row in &found {
        let key = (number(&row[0]), number(&row[1]));
        if seen.insert(key, text(&row[2])).is_some() {
            book.borrow_mut().violation.get_or_insert(format!("row {key:?} shows twice"));
        }
    }
    for key in keys.into_iter().flat_map(|k| (0..rows).map(move |c| (k, c))) {
        judge(book, key, start, level, seen.get(&key).cloned().flatten().as_deref());
    }
    Ok(())
}

fn judge(book: &Shared, key: (i32, i32), start: base::Instant, level: Consistency, seen: Option<&str>) {
    let mut book = book.borrow_mut();
    let verdict = book.registers.entry(key).or_default().check((start, runtime::now()), level, seen);
    if let Err(text) = verdict {
        book.violation.get_or_insert(format!("register {key:?}: {text}"));
    }
}

/// Makes and drops tables, at any node.
async fn change_tables(nodes: Vec<SocketAddr>, book: Shared, mut rng: Prng) {
    let (open, statements) = nodes.iter().map(|_| (None, Statements::default())).unzip();
    let mut sessions = Sessions { nodes, open, statements, at: 0 };
    while book.borrow().violation.is_none() {
        sessions.move_on(&mut rng);
        let made: Vec<u64> = {
            let book = book.borrow();
            book.tables.iter().filter(|(_, table)| **table == Table::Made).map(|(name, _)| *name).collect()
        };
        let drops = !made.is_empty() && rng.chance(0.4);
        let name = if drops { made[rng.below(made.len() as u64) as usize] } else { rng.below(1 << 40) };
        let (cql, becomes) = match drops {
            true => (format!("DROP TABLE ks.t{name}"), Table::Dropped),
            false => (format!("CREATE TABLE ks.t{name} (k int PRIMARY KEY, v text)"), Table::Made),
        };
        // Until the answer is there, anything may be.
        book.borrow_mut().tables.insert(name, Table::Unknown);
        if let Some(session) = sessions.get().await {
            match session.query(&cql, Ask::at(Consistency::One)).await {
                Ok(_) => drop(book.borrow_mut().tables.insert(name, becomes)),
                Err(Trouble::Lost(_)) => sessions.close(),
                Err(_) => {}
            }
        }
        runtime::sleep(Duration::from_micros(rng.below(300_000))).await;
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
                    seen.insert(number(&row[0]), text(&row[1]));
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

/// Every node has every table that was made and none that was dropped, and all say so by the same version.
async fn one_schema(nodes: Vec<SocketAddr>, book: Shared) -> Result<(), String> {
    let told = |trouble: Trouble| format!("comparing schemas: {trouble}");
    let mut versions = Vec::new();
    for to in &nodes {
        let mut session = insist(*to, START).await.map_err(told)?;
        let one = Ask::at(Consistency::One);
        let cql = "SELECT table_name FROM system_schema.tables WHERE keyspace_name = 'ks'";
        let found = session.all(cql, one).await.map_err(told)?;
        let found: Vec<String> = found.iter().filter_map(|row| text(&row[0])).collect();
        for (name, table) in &book.borrow().tables {
            let is_there = found.contains(&format!("t{name}"));
            if *table == Table::Made && !is_there || *table == Table::Dropped && is_there {
                return Err(format!("{to}: table t{name} is {table:?}, and it is there: {is_there}"));
            }
        }
        let version = session.all("SELECT schema_version FROM system.local", one).await.map_err(told)?;
        versions.push(version);
    }
    match versions.windows(2).all(|pair| pair[0] == pair[1]) {
        true => Ok(()),
        false => Err(format!("versions of the schema differ: {versions:?}")),
    }
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
        None => run.truncated.borrow().verdict().and_then(|()| run.roles.borrow().verdict()),
    }
}

/// Whether nodes ask for passwords.
fn is_guarded(run: &Run) -> bool {
    run.hosts[0].config.authentication.authenticator == Authenticator::Password
}

fn fault(world: &mut World, run: &mut Run) {
    let pick = |rng: &mut Prng| rng.below(NODES as u64) as usize;
    let (a, b) = (pick(&mut run.rng), pick(&mut run.rng));
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
pub(crate) fn play(world: &mut World, seed: u64, ties: Ties, planted: Option<Bug>) -> Result<(), String> {
    let mut run = prepare(world, seed, ties, planted);
    boot_dead(world, &mut run, 1.0);
    for host in &run.hosts {
        host.await_ready(world)?;
    }
    let nodes: Vec<SocketAddr> = run.hosts.iter().map(Host::native).collect();
    let makers = if ties == Ties::Fixed { nodes.clone() } else { nodes[..1].to_vec() };
    let mut schema = world.spawn(run.client, create_schema(makers));
    finished(world, &mut schema, 2 * START, "making the schema")?
        .map_err(|t| format!("the schema is not made: {t}"))?;
    let clients: Vec<Task<()>> = (0..2 + run.rng.below(4))
        .map(|_| {
            let rng = run.rng.fork();
            world.spawn(run.client, client(nodes.clone(), run.book.clone(), rng))
        })
        .collect();
    let changers: Vec<Task<()>> = (0..if ties == Ties::Cluster { 2 } else { 0 })
        .map(|_| {
            let rng = run.rng.fork();
            world.spawn(run.client, change_tables(nodes.clone(), run.book.clone(), rng))
        })
        .collect();
    let truncating: Vec<Task<()>> = (0..if ties == Ties::Cluster { 3 } else { 0 })
        .map(|_| {
            let rng = run.rng.fork();
            world.spawn(run.client, truncations::client(nodes.clone(), run.truncated.clone(), rng))
        })
        .collect();
    let guarding: Vec<Task<()>> = (0..if is_guarded(&run) { 2 } else { 0 })
        .map(|owner| {
            let rng = run.rng.fork();
            world.spawn(run.client, roles::client(nodes.clone(), run.roles.clone(), owner, rng))
        })
        .collect();
    let book = run.book.clone();
    if !world.run_until(|_| book.borrow().writes > 0, START) {
        return Err("no client writes anything".to_string());
    }
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
    drop((clients, changers, truncating, guarding));
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
    handoff::play(world, &mut run, ties)?;
    if ties == Ties::Cluster {
        let nodes = run.hosts.iter().map(Host::native).collect();
        let mut end = world.spawn(judge, one_schema(nodes, run.book.clone()));
        finished(world, &mut end, 2 * CONVERGE, "comparing schemas")??;
        let (nodes, rng) = (run.hosts.iter().map(Host::native).collect(), run.rng.fork());
        let mut end = world.spawn(judge, truncations::settled(nodes, run.truncated.clone(), rng));
        finished(world, &mut end, 2 * CONVERGE, "looking for what was truncated")??;
    }
    if is_guarded(&run) {
        let nodes = run.hosts.iter().map(Host::native).collect();
        let mut end = world.spawn(judge, roles::settled(nodes, run.roles.clone()));
        finished(world, &mut end, 2 * CONVERGE, "comparing roles")??;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
