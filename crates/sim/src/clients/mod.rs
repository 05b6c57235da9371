//! Clients of registers: rows of a table in each keyspace, written and read through any node at any level.
//!
//! Writes race for few rows, some with one timestamp, and deletions take several rows at once.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use base::{Instant, Prng};
use types::Consistency;

use crate::limits::CONNECT_PATIENCE;
use crate::prepared::Statements;
use crate::register::{At, Factors, Register};
use crate::session::{Ask, Row, Session, Trouble};

mod settled;

pub(crate) use settled::{read_alone, settled};

/// How long a client waits between two requests. It may hurry, so that requests race; but not for minutes, in which nothing new would come of it.
pub(crate) struct Pace {
    longest_micros: u64,
    hurried: u32,
}

impl Pace {
    /// Pauses are at most so long for the first `hurried` requests, and a hundred times as long, but not over two seconds, from then on.
    pub(crate) fn new(longest_micros: u64, hurried: u32) -> Pace {
        Pace { longest_micros, hurried }
    }

    /// Waits before the next request.
    pub(crate) async fn pause(&mut self, rng: &mut Prng) {
        let longest =
            if self.hurried == 0 { (100 * self.longest_micros).min(2_000_000) } else { self.longest_micros };
        self.hurried = self.hurried.saturating_sub(1);
        runtime::sleep(Duration::from_micros(rng.below(longest))).await;
    }
}

/// A keyspace with a table `r` of registers.
#[derive(Clone, Debug)]
pub(crate) struct Keyspace {
    pub(crate) name: &'static str,
    pub(crate) factors: Factors,
}

/// A register: its keyspace by number, partition, row.
pub(crate) type Key = (usize, i32, i32);

/// Everything clients have written, and what they have seen that is wrong.
pub(crate) struct Book {
    pub(crate) keyspaces: Vec<Keyspace>,
    pub(crate) levels: Levels,
    /// Reads that began earlier are asked for values that were written, no more: a node had joined without data, and lacked what it must hold.
    pub(crate) judged_from: Instant,
    registers: BTreeMap<Key, Register>,
    next_time: i64,
    next_value: u64,
    partitions: i32,
    rows: i32,
    pub(crate) violation: Option<String>,
    pub(crate) writes: u64,
}

/// The levels that clients use besides QUORUM.
#[derive(Clone, Debug)]
pub(crate) struct Levels {
    pub(crate) writes: Vec<Consistency>,
    pub(crate) reads: Vec<Consistency>,
}

pub(crate) type Shared = Rc<RefCell<Book>>;

impl Book {
    pub(crate) fn new(keyspaces: Vec<Keyspace>, levels: Levels, rng: &mut Prng) -> Book {
        Book {
            keyspaces,
            levels,
            judged_from: Instant(0),
            registers: BTreeMap::new(),
            next_time: 1_600_000_000_000_000,
            next_value: 0,
            partitions: 1 + rng.below(4) as i32,
            rows: 1 + rng.below(7) as i32,
            violation: None,
            writes: 0,
        }
    }

    /// Errors: what a client has seen and must not.
    pub(crate) fn verdict(&self) -> Result<(), String> {
        self.violation.clone().map_or(Ok(()), Err)
    }

    /// A node has lost its disk for good.
    pub(crate) fn lose_one(&mut self) {
        self.registers.values_mut().for_each(Register::lose_one);
    }

    fn register(&mut self, key: Key) -> &mut Register {
        let factors = self.keyspaces[key.0].factors;
        self.registers.entry(key).or_insert_with(|| Register::of(factors))
    }
}

/// Where clients connect to a node, and the number of its datacenter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Door {
    pub(crate) address: SocketAddr,
    pub(crate) dc: usize,
}

fn level(levels: &[Consistency], rng: &mut Prng) -> Consistency {
    if rng.chance(0.6) { Consistency::Quorum } else { levels[rng.below(levels.len() as u64) as usize] }
}

/// Sessions with each node, made when they are wanted.
pub(crate) struct Sessions {
    nodes: Vec<Door>,
    open: Vec<Option<Session>>,
    /// What was prepared on each node by the session that broke.
    statements: Vec<Statements>,
    at: usize,
}

impl Sessions {
    pub(crate) fn new(nodes: Vec<Door>) -> Sessions {
        let (open, statements) = nodes.iter().map(|_| (None, Statements::default())).unzip();
        Sessions { nodes, open, statements, at: 0 }
    }

    /// The number of the node at hand.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// The node at hand.
    pub(crate) fn door(&self) -> Door {
        self.nodes[self.at]
    }

    pub(crate) fn move_on(&mut self, rng: &mut Prng) {
        self.at = rng.below(self.nodes.len() as u64) as usize;
    }

    /// The session with the node at hand; None when it does not answer.
    pub(crate) async fn get(&mut self) -> Option<&mut Session> {
        let open = &mut self.open[self.at];
        if open.is_none() {
            let connecting = Session::connect(self.nodes[self.at].address);
            *open = runtime::timeout(CONNECT_PATIENCE, connecting).await.ok().and_then(Result::ok);
            if let Some(session) = open {
                session.statements = std::mem::take(&mut self.statements[self.at]);
            }
        }
        open.as_mut()
    }

    /// The session with the node at hand broke; what it had prepared is tried again, as drivers do.
    pub(crate) fn close(&mut self) {
        if let Some(session) = self.open[self.at].take() {
            self.statements[self.at] = session.statements;
        }
    }
}

/// Writes and reads until something is wrong.
pub(crate) async fn client(nodes: Vec<Door>, book: Shared, mut rng: Prng) {
    let mut sessions = Sessions::new(nodes);
    let mut pace = Pace::new([20_000, 2_000, 200][rng.below(3) as usize], 2_000);
    while book.borrow().violation.is_none() {
        if rng.chance(0.1) {
            sessions.move_on(&mut rng);
        }
        if let Err(Trouble::Lost(_)) = act(&mut sessions, &book, &mut rng).await {
            sessions.close();
            sessions.move_on(&mut rng);
        }
        pace.pause(&mut rng).await;
    }
}

async fn act(sessions: &mut Sessions, book: &Shared, rng: &mut Prng) -> Result<(), Trouble> {
    let unreachable = || Trouble::Lost("no session".to_string());
    let what = rng.below(20);
    if what < 9 {
        return write(sessions, book, rng).await;
    }
    if what < 14 {
        let (key, level) = (pick(book, rng), level(&book.borrow().levels.reads, rng));
        let dc = sessions.door().dc;
        read_row(sessions.get().await.ok_or_else(unreachable)?, book, key, At { level, dc }).await?;
        // What one coordinator has shown, the others must show from now on.
        for _ in 0..rng.below(3) {
            sessions.move_on(rng);
            let at = At { level: Consistency::Quorum, dc: sessions.door().dc };
            read_row(sessions.get().await.ok_or_else(unreachable)?, book, key, at).await?;
        }
        return Ok(());
    }
    let dc = sessions.door().dc;
    read_rows(sessions.get().await.ok_or_else(unreachable)?, dc, book, rng).await
}

/// A row; half of the time the one that all clients fight for.
fn pick(book: &Shared, rng: &mut Prng) -> Key {
    let (keyspaces, partitions, rows) = {
        let book = book.borrow();
        (book.keyspaces.len(), book.partitions, book.rows)
    };
    let keyspace = if keyspaces == 1 { 0 } else { rng.below(keyspaces as u64) as usize };
    if rng.chance(0.4) {
        return (keyspace, 0, 0);
    }
    (keyspace, rng.below(partitions as u64) as i32, rng.below(rows as u64) as i32)
}

/// What a write does: the statement, the rows it is about, and what they hold afterwards.
struct Change {
    cql: String,
    keys: Vec<Key>,
    value: Option<String>,
}

fn change(book: &mut Book, (keyspace, k, c): Key, timestamp: i64, rng: &mut Prng) -> Change {
    let (rows, ks) = (book.rows, book.keyspaces[keyspace].name);
    let deletes = |cql: String, from: i32, to: i32| {
        let keys = (from..to).map(|c| (keyspace, k, c)).collect();
        Change { cql, keys, value: None }
    };
    match rng.below(20) {
        0 => deletes(format!("DELETE FROM {ks}.r WHERE k = {k} AND c = {c}"), c, c + 1),
        1 => deletes(format!("DELETE FROM {ks}.r WHERE k = {k} AND c >= {c}"), c, rows),
        2 if rng.chance(0.5) => deletes(format!("DELETE FROM {ks}.r WHERE k = {k}"), 0, rows),
        kind => {
            book.next_value += 1;
            let v = format!("v{timestamp}.{}", book.next_value);
            let cql = match kind {
                // A null before the value, and later updates behind it: what a digest that stops at nulls falls for.
                3..=8 => format!("INSERT INTO {ks}.r (k, c, a, v) VALUES ({k}, {c}, null, '{v}')"),
                _ => format!("UPDATE {ks}.r SET v = '{v}' WHERE k = {k} AND c = {c}"),
            };
            Change { cql, keys: vec![(keyspace, k, c)], value: Some(v) }
        }
    }
}

/// One write through the node at hand.
pub(crate) async fn write(sessions: &mut Sessions, book: &Shared, rng: &mut Prng) -> Result<(), Trouble> {
    let dc = sessions.door().dc;
    let session = sessions.get().await.ok_or_else(|| Trouble::Lost("no session".to_string()))?;
    let level = level(&book.borrow().levels.writes, rng);
    let key = pick(book, rng);
    let (timestamp, change) = {
        let mut book = book.borrow_mut();
        // Now and then with the timestamp of the write before.
        book.next_time += if rng.chance(0.15) { 0 } else { 10 };
        book.writes += 1;
        let timestamp = book.next_time;
        let change = change(&mut book, key, timestamp, rng);
        for key in &change.keys {
            book.register(*key).issue(timestamp, change.value.as_deref());
        }
        (timestamp, change)
    };
    let ask = Ask { timestamp: Some(timestamp), ..Ask::at(level) };
    session.query(&change.cql, ask).await?;
    let mut book = book.borrow_mut();
    for key in &change.keys {
        let at = At { level, dc };
        book.register(*key).ack(timestamp, change.value.as_deref(), at, runtime::now());
    }
    Ok(())
}

pub(crate) fn text(value: &Option<Vec<u8>>) -> Option<String> {
    value.as_ref().map(|bytes| String::from_utf8_lossy(bytes).into_owned())
}

pub(crate) fn number(value: &Option<Vec<u8>>) -> i32 {
    value.as_deref().and_then(|bytes| bytes.try_into().ok()).map_or(-1, i32::from_be_bytes)
}

async fn read_row(session: &mut Session, book: &Shared, key: Key, at: At) -> Result<(), Trouble> {
    let start = runtime::now();
    let (ks, k, c) = (book.borrow().keyspaces[key.0].name, key.1, key.2);
    let cql = format!("SELECT v FROM {ks}.r WHERE k = {k} AND c = {c}");
    let found = session.all(&cql, Ask::at(at.level)).await?;
    let seen = found.first().and_then(|row| text(&row[0]));
    judge(book, key, start, at, seen.as_deref());
    Ok(())
}

/// A partition either way round, some partitions, or all, by pages or not.
async fn read_rows(session: &mut Session, dc: usize, book: &Shared, rng: &mut Prng) -> Result<(), Trouble> {
    let (keyspace, k, _) = pick(book, rng);
    let (partitions, rows, ks) = {
        let book = book.borrow();
        (book.partitions, book.rows, book.keyspaces[keyspace].name)
    };
    let restricted = rng.below(6);
    let level = level(&book.borrow().levels.reads, rng);
    let page_size = rng.chance(0.7).then(|| 1 + rng.below(rows as u64 + 2) as u32);
    let start = runtime::now();
    let (restriction, keys) = match restricted {
        0 => (String::new(), 0..partitions),
        1 => (format!("WHERE k IN ({k}, {})", (k + 1) % partitions), 0..0),
        2 => (format!("WHERE k = {k} ORDER BY c DESC"), k..k + 1),
        _ => (format!("WHERE k = {k}"), k..k + 1),
    };
    let keys = if keys.is_empty() { vec![k, (k + 1) % partitions] } else { keys.collect() };
    let ask = Ask { page_size, ..Ask::at(level) };
    let found = session.all(&format!("SELECT k, c, v FROM {ks}.r {restriction}"), ask).await?;
    let mut seen: BTreeMap<(i32, i32), Option<String>> = BTreeMap::new();
    for row in &found {
        let key = (number(&row[0]), number(&row[1]));
        if seen.insert(key, text(&row[2])).is_some() {
            book.borrow_mut().violation.get_or_insert(format!("row {key:?} of {ks} shows twice"));
        }
    }
    for (k, c) in keys.into_iter().flat_map(|k| (0..rows).map(move |c| (k, c))) {
        let seen = seen.get(&(k, c)).cloned().flatten();
        judge(book, (keyspace, k, c), start, At { level, dc }, seen.as_deref());
    }
    Ok(())
}

fn judge(book: &Shared, key: Key, start: Instant, at: At, seen: Option<&str>) {
    let mut book = book.borrow_mut();
    let (is_judged, ks) = (book.judged_from <= start, book.keyspaces[key.0].name);
    let register = book.register(key);
    let verdict = match seen {
        _ if is_judged => register.check((start, runtime::now()), at, seen),
        Some(value) if !register.knows(value) => Err(format!("shows {value:?}, which was never written")),
        _ => Ok(()),
    };
    if let Err(text) = verdict {
        book.violation.get_or_insert(format!("register {:?} of {ks}: {text}", (key.1, key.2)));
    }
}
