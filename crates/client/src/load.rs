//! A load generator: prepared point reads, inserts and deletes over a number of keys, and scans of the whole table.
//!
//! Closed loop: each of `connections * depth` workers sends its next request when the last was answered. Open loop: requests have an intended
//! start, so many per second; latency counts from there, so a stalled server is charged for what it kept waiting.

use crate::connection::{Connection, Options};
use crate::error::Error;
use crate::histogram::Histogram;
use crate::pages::Pages;
use crate::pool::{Pool, PoolOptions};
use crate::ring::Usable;
use crate::statement::Statement;
use base::{Instant, Prng, Token};
use protocol::compression::Compression;
use protocol::envelope::Version;
use protocol::request::{Parameters, Request};
use protocol::values::ValuesBuilder;
use runtime::Group;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;
use tls::{ClientSettings, Connector};
use types::Consistency;

/// What the requests are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Workload {
    /// Prepared reads of one row by key.
    Read,
    /// Prepared inserts of one row.
    Insert,
    /// Reads with this share (0 to 1), else inserts.
    Mixed(f64),
    /// Prepared deletes of one row.
    Delete,
    /// Every row once, by pages over as many ranges of tokens as there are workers. Rows count as operations, latencies are those
    /// of pages.
    Scan,
    /// OPTIONS envelopes against [`echo::serve`](crate::echo::serve).
    Echo,
}

/// When requests are sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// As soon as the last one was answered.
    Closed,
    /// So many per second over all connections.
    Open(f64),
}

/// The table the requests go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableShape {
    /// `key text, value blob`, every value of the same bytes.
    KeyValue,
    /// That of cassandra-stress: a key of 10 bytes and five columns of 34 random bytes.
    Stress,
    /// That of YCSB: ten fields of 100 random letters. Inserts write all of them, the mixed workload updates one.
    Usertable,
}

/// Which keys come how often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Draw {
    /// All alike.
    Uniform,
    /// The middle ones most: the mean is half of the keys, three standard deviations reach the first and the last.
    Gaussian,
    /// A few of them most, scattered over all, as often as YCSB's scrambled Zipfian draws them; which ones is not the same.
    Zipfian,
    /// One after the other, each once; the run ends with the last.
    Sequence,
}

/// What to run. Each shard that runs it makes its own connections.
#[derive(Clone, Debug)]
pub struct LoadOptions {
    /// Nodes to ask.
    pub addresses: Vec<SocketAddr>,
    /// Connections.
    pub connections: usize,
    /// Requests in flight per connection.
    pub depth: usize,
    /// What the requests are.
    pub workload: Workload,
    /// When they are sent.
    pub pace: Pace,
    /// The table.
    pub table: TableShape,
    /// Keys, `0..keys`.
    pub keys: u64,
    /// Of the mixed workload, reads ask for the first so many of them; 0: for all.
    pub read_keys: u64,
    /// Which of them.
    pub draw: Draw,
    /// A sequence takes every so many-th key, from the first.
    pub stride: u64,
    /// Bytes of each value of the key-value table.
    pub value_bytes: usize,
    /// The first half of each of them is random and its own; otherwise all are equal, which compresses to nothing.
    pub fresh_values: bool,
    /// Consistency of every request.
    pub consistency: Consistency,
    /// How long to measure.
    pub duration: Duration,
    /// How long to run before measuring.
    pub warm_up: Duration,
    /// Protocol version.
    pub version: Version,
    /// Compression.
    pub compression: Compression,
    /// Encrypts the connections.
    pub tls: Option<ClientSettings>,
    /// Make keyspace and table first.
    pub prepare_data: bool,
    /// And insert every key.
    pub fill: bool,
    /// Spread the connections over the shards, and send each key to its own.
    pub shard_aware: bool,
    /// Seed of the keys' order.
    pub seed: u64,
}

impl LoadOptions {
    /// Closed-loop reads of 100,000 keys over 64 connections, one request in flight on each, for ten seconds.
    pub fn new(addresses: Vec<SocketAddr>) -> LoadOptions {
        LoadOptions {
            addresses,
            connections: 64,
            depth: 1,
            workload: Workload::Read,
            pace: Pace::Closed,
            table: TableShape::KeyValue,
            keys: 100_000,
            read_keys: 0,
            draw: Draw::Uniform,
            stride: 1,
            value_bytes: 100,
            fresh_values: false,
            consistency: Consistency::One,
            duration: Duration::from_secs(10),
            warm_up: Duration::from_secs(2),
            version: Version::V4,
            compression: Compression::None,
            tls: None,
            prepare_data: true,
            fill: true,
            shard_aware: false,
            seed: 1,
        }
    }
}

/// What a run gave.
#[derive(Clone, Debug)]
pub struct Report {
    /// Requests answered well while measuring.
    pub operations: u64,
    /// Requests that failed while measuring.
    pub errors: u64,
    /// The first failure's text.
    pub first_error: Option<String>,
    /// How long was measured.
    pub elapsed: Duration,
    /// Latencies of the good answers.
    pub latencies: Histogram,
    /// Those of them that were reads of the mixed workload.
    pub read_latencies: Histogram,
    /// Good answers in each whole second of measuring.
    pub seconds: Vec<u64>,
    /// The longest time without a good answer while measuring.
    pub pause: Duration,
    last_answer: Option<Instant>,
    /// When a sequence of keys, or the last range of a scan, had ended.
    ended: Option<Instant>,
}

impl Report {
    fn new() -> Report {
        Report {
            operations: 0,
            errors: 0,
            first_error: None,
            elapsed: Duration::ZERO,
            latencies: Histogram::new(),
            read_latencies: Histogram::new(),
            seconds: Vec::new(),
            pause: Duration::ZERO,
            last_answer: None,
            ended: None,
        }
    }

    /// Counts a good answer of so many operations, `now` in the measured time, which began at `from`.
    fn answered(&mut self, from: Instant, intended: Instant, now: Instant, operations: u64) {
        self.operations += operations;
        self.latencies.record(now - intended);
        let second = (now - from).as_secs() as usize;
        if self.seconds.len() <= second {
            self.seconds.resize(second + 1, 0);
        }
        self.seconds[second] += operations;
        self.pause = self.pause.max(now.saturating_duration_since(self.last_answer.unwrap_or(from)));
        self.last_answer = Some(now);
    }

    /// The measured time is over: seconds without answers, and a pause that lasted to its end, count.
    fn end(&mut self, from: Instant, elapsed: Duration) {
        self.elapsed = elapsed;
        self.seconds.resize(elapsed.as_secs() as usize, 0);
        let last = self.last_answer.unwrap_or(from);
        self.pause = self.pause.max((from + elapsed).saturating_duration_since(last));
    }

    fn failed(&mut self, error: &Error) {
        self.errors += 1;
        self.first_error.get_or_insert_with(|| error.to_string());
    }

    /// Good answers of the slowest whole second as a share of the mean; 1 when there is none.
    pub fn slowest_second(&self) -> f64 {
        match self.seconds.iter().min() {
            Some(fewest) if self.operations > 0 => *fewest as f64 / self.rate(),
            Some(_) => 0.0,
            None => 1.0,
        }
    }

    /// Good answers per second.
    pub fn rate(&self) -> f64 {
        let seconds = self.elapsed.as_secs_f64();
        if seconds > 0.0 { self.operations as f64 / seconds } else { 0.0 }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let us = |d: Duration| d.as_secs_f64() * 1e6;
        write!(
            f,
            "rate {:.0}/s  mean {:.0} us  p50 {:.0} us  p99 {:.0} us  p99.9 {:.0} us  max {:.0} us  slowest second {:.0} %  longest pause {:.1} ms  operations {}  errors {}",
            self.rate(),
            us(self.latencies.mean()),
            us(self.latencies.quantile(0.5)),
            us(self.latencies.quantile(0.99)),
            us(self.latencies.quantile(0.999)),
            us(self.latencies.max()),
            self.slowest_second() * 100.0,
            us(self.pause) / 1e3,
            self.operations,
            self.errors
        )?;
        if self.read_latencies.count() > 0 {
            let p99 = us(self.read_latencies.quantile(0.99));
            write!(f, "  reads {}  their p99 {p99:.0} us", self.read_latencies.count())?;
        }
        match &self.first_error {
            Some(error) => write!(f, "  first error: {error}"),
            None => Ok(()),
        }
    }
}

/// The keyspace and table the load goes to.
const KEYSPACE: &str = "CREATE KEYSPACE IF NOT EXISTS load WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";

/// Statements of a table: to make it; to read, insert and delete one row; to read a range of tokens.
struct Texts {
    table: &'static str,
    read: &'static str,
    insert: &'static str,
    delete: &'static str,
    range: &'static str,
}

const KEY_VALUE: Texts = Texts {
    table: "CREATE TABLE IF NOT EXISTS load.kv (key text PRIMARY KEY, value blob)",
    read: "SELECT value FROM load.kv WHERE key = ?",
    insert: "INSERT INTO load.kv (key, value) VALUES (?, ?)",
    delete: "DELETE FROM load.kv WHERE key = ?",
    range: "SELECT key, value FROM load.kv WHERE token(key) > ? AND token(key) <= ?",
};
const STRESS: Texts = Texts {
    table: "CREATE TABLE IF NOT EXISTS load.standard1 (key blob PRIMARY KEY, \"C0\" blob, \"C1\" blob, \"C2\" blob, \"C3\" blob, \"C4\" blob)",
    read: "SELECT \"C0\", \"C1\", \"C2\", \"C3\", \"C4\" FROM load.standard1 WHERE key = ?",
    insert: "UPDATE load.standard1 SET \"C0\" = ?, \"C1\" = ?, \"C2\" = ?, \"C3\" = ?, \"C4\" = ? WHERE key = ?",
    delete: "DELETE FROM load.standard1 WHERE key = ?",
    range: "SELECT * FROM load.standard1 WHERE token(key) > ? AND token(key) <= ?",
};
const USERTABLE: Texts = Texts {
    table: "CREATE TABLE IF NOT EXISTS load.usertable (y_id varchar PRIMARY KEY, field0 varchar, field1 varchar, field2 varchar, field3 varchar, field4 varchar, field5 varchar, field6 varchar, field7 varchar, field8 varchar, field9 varchar)",
    read: "SELECT * FROM load.usertable WHERE y_id = ?",
    insert: "INSERT INTO load.usertable (field0, field1, field2, field3, field4, field5, field6, field7, field8, field9, y_id) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    delete: "DELETE FROM load.usertable WHERE y_id = ?",
    range: "SELECT * FROM load.usertable WHERE token(y_id) > ? AND token(y_id) <= ?",
};
/// Fields of the table of YCSB, and bytes of each.
const USERTABLE_FIELDS: usize = 10;
const USERTABLE_BYTES: usize = 100;
/// Columns of the stress table beside its key, and bytes of each.
const STRESS_COLUMNS: usize = 5;
const STRESS_BYTES: usize = 34;
/// Inserts in flight while the data is prepared.
const FILL_IN_FLIGHT: usize = 256;
/// Draws for a key that belongs to a connection's shard; the chance to miss all of them is negligible.
const KEY_DRAWS: usize = 4096;
/// Rows of a page of a scan.
const PAGE_ROWS: u32 = 5000;

struct Statements {
    read: Statement,
    insert: Statement,
    delete: Statement,
    range: Statement,
    /// One for each field of the table of YCSB, which are set alone.
    updates: Vec<Statement>,
}

/// One connection with the shard its keys should belong to.
struct Lane {
    connection: Connection,
    shard: Option<(u16, u16)>,
}

/// What the workers share.
struct Run {
    options: LoadOptions,
    statements: Option<Statements>,
    value: Vec<u8>,
    start: Instant,
    measure_from: Instant,
    end: Instant,
    next_index: Cell<u64>,
    next_key: Cell<u64>,
    maker: RefCell<Maker>,
    report: RefCell<Report>,
}

/// What a request is made of. The workers share it, for a request is encoded at once: memory of its own for each of thousands of them
/// would not stay in the caches.
#[derive(Default)]
struct Maker {
    key: Vec<u8>,
    values: ValuesBuilder,
}

/// Runs the load on this shard.
pub async fn run(options: LoadOptions) -> Result<Report, Error> {
    let connecting = connection_options(&options).await?;
    let statements = match options.workload {
        Workload::Echo => None,
        _ => Some(prepare(&options, &connecting).await?),
    };
    let lanes = open_lanes(&options, &connecting).await?;
    if let (true, Some(statements)) = (options.prepare_data && options.fill, &statements) {
        fill(&options, &lanes, &statements.insert).await?;
    }
    let start = runtime::now();
    // A scan has nothing to warm up: it reads each row once.
    let measure_from = if options.workload == Workload::Scan { start } else { start + options.warm_up };
    let end = measure_from + options.duration;
    let run = Rc::new(Run {
        value: value_of(&options),
        statements,
        start,
        measure_from,
        end,
        next_index: Cell::new(0),
        next_key: Cell::new(0),
        maker: RefCell::default(),
        report: RefCell::new(Report::new()),
        options,
    });
    let mut seeds = Prng::new(run.options.seed);
    let mut workers = Vec::new();
    let depth = run.options.depth.max(1);
    let ranges = lanes.len() * depth;
    for (at, lane) in lanes.into_iter().enumerate() {
        let lane = Rc::new(lane);
        for nth in 0..depth {
            let (run, lane) = (run.clone(), lane.clone());
            workers.push(match run.options.workload {
                Workload::Scan => runtime::spawn(Group::QUERY, scan(run, lane, at * depth + nth, ranges)),
                _ => runtime::spawn(Group::QUERY, work(run, lane, seeds.fork())),
            });
        }
    }
    for worker in workers {
        worker.await;
    }
    let mut report = run.report.borrow().clone();
    let elapsed = match report.ended {
        // A sequence or a scan ends when it ends.
        Some(ended) => ended.min(run.end).saturating_duration_since(run.measure_from),
        None => run.options.duration,
    };
    report.end(run.measure_from, elapsed);
    Ok(report)
}

async fn connection_options(options: &LoadOptions) -> Result<Options, Error> {
    let tls = match &options.tls {
        None => None,
        Some(settings) => Some(Connector::load(settings).await?),
    };
    Ok(Options {
        compression: options.compression,
        in_flight: options.depth.max(FILL_IN_FLIGHT),
        tls,
        ..Options::new(options.version)
    })
}

async fn prepare(options: &LoadOptions, connecting: &Options) -> Result<Statements, Error> {
    let texts = match options.table {
        TableShape::KeyValue => KEY_VALUE,
        TableShape::Stress => STRESS,
        TableShape::Usertable => USERTABLE,
    };
    let mut last = Error::Unexpected("no contact point");
    for address in &options.addresses {
        match Connection::connect(*address, connecting).await {
            Ok(connection) => {
                if options.prepare_data {
                    let at = Parameters::at(options.consistency);
                    connection.query(KEYSPACE, at).await?;
                    connection.query(texts.table, at).await?;
                }
                let mut updates = Vec::new();
                if options.table == TableShape::Usertable {
                    for field in 0..USERTABLE_FIELDS {
                        let text = format!("UPDATE load.usertable SET field{field} = ? WHERE y_id = ?");
                        updates.push(connection.prepare(&text).await?);
                    }
                }
                return Ok(Statements {
                    updates,
                    read: connection.prepare(texts.read).await?,
                    insert: connection.prepare(texts.insert).await?,
                    delete: connection.prepare(texts.delete).await?,
                    range: connection.prepare(texts.range).await?,
                });
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

async fn open_lanes(options: &LoadOptions, connecting: &Options) -> Result<Vec<Lane>, Error> {
    let mut lanes = Vec::new();
    if options.shard_aware && options.workload != Workload::Echo {
        // A pool per round, so that every shard gets its share of the connections.
        while lanes.len() < options.connections.max(1) {
            let usable = Usable {
                addresses: options.addresses.iter().map(SocketAddr::ip).collect(),
                ..Usable::default()
            };
            let pool_options = PoolOptions { usable, ..PoolOptions::new(connecting.clone()) };
            let pool = Pool::connect(&options.addresses, pool_options).await?;
            for node in 0..pool.node_count() {
                for shard in 0..pool.shard_count(node) {
                    let connection = pool.on_shard(node, shard).await?;
                    let served = connection.sharding().map(|s| (s.shard, s.shards));
                    lanes.push(Lane { connection, shard: served });
                }
            }
        }
        lanes.truncate(options.connections.max(1));
        return Ok(lanes);
    }
    for index in 0..options.connections.max(1) {
        let address = options.addresses[index % options.addresses.len()];
        let connection = match options.workload {
            Workload::Echo => Connection::connect_echo(address, connecting).await?,
            _ => Connection::connect(address, connecting).await?,
        };
        lanes.push(Lane { connection, shard: None });
    }
    Ok(lanes)
}

fn value_of(options: &LoadOptions) -> Vec<u8> {
    let mut value = vec![0; options.value_bytes];
    Prng::new(options.seed ^ 0x76_616c).fill(&mut value);
    value
}

fn put_key(table: TableShape, index: u64, out: &mut Vec<u8>) {
    use std::io::Write;
    out.clear();
    match table {
        TableShape::KeyValue => {
            out.extend_from_slice(b"key000000000000");
            let mut rest = index;
            for digit in out[3..].iter_mut().rev() {
                if rest == 0 {
                    break;
                }
                *digit = b'0' + (rest % 10) as u8;
                rest /= 10;
            }
            if rest > 0 {
                out.truncate(3);
                write!(out, "{index}").expect("writing to memory does not fail");
            }
        }
        TableShape::Stress => {
            // Two bytes that look like any others, then the number: distinct and not in the order of the ring.
            out.extend_from_slice(&(index as u16).wrapping_mul(40_503).to_be_bytes());
            out.extend_from_slice(&index.to_be_bytes());
        }
        TableShape::Usertable => {
            write!(out, "user{}", base::murmur3(&index.to_be_bytes()).0 as u64)
                .expect("writing to memory does not fail");
        }
    }
}

/// Binds what an insert says, in the order of its statement.
fn put_insert(options: &LoadOptions, key: &[u8], value: &[u8], rng: &mut Prng, values: &mut ValuesBuilder) {
    match options.table {
        TableShape::KeyValue if options.fresh_values => {
            let mut value = value.to_vec();
            let half = value.len() / 2;
            rng.fill(&mut value[..half]);
            values.bytes(key).bytes(&value);
        }
        TableShape::KeyValue => drop(values.bytes(key).bytes(value)),
        TableShape::Stress => {
            let mut cells = [0; STRESS_COLUMNS * STRESS_BYTES];
            rng.fill(&mut cells);
            for cell in cells.chunks(STRESS_BYTES) {
                values.bytes(cell);
            }
            values.bytes(key);
        }
        TableShape::Usertable => {
            let mut fields = [0; USERTABLE_FIELDS * USERTABLE_BYTES];
            letters(rng, &mut fields);
            for field in fields.chunks(USERTABLE_BYTES) {
                values.bytes(field);
            }
            values.bytes(key);
        }
    }
}

/// Random letters, digits and two more.
fn letters(rng: &mut Prng, out: &mut [u8]) {
    const LETTERS: &[u8; 64] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
    rng.fill(out);
    out.iter_mut().for_each(|byte| *byte = LETTERS[usize::from(*byte) % LETTERS.len()]);
}

/// Inserts every key once.
async fn fill(options: &LoadOptions, lanes: &[Lane], insert: &Statement) -> Result<(), Error> {
    let next = Rc::new(Cell::new(0u64));
    let mut workers = Vec::new();
    for worker in 0..FILL_IN_FLIGHT {
        let connection = lanes[worker % lanes.len()].connection.clone();
        let (next, insert, value) = (next.clone(), insert.clone(), value_of(options));
        let (options, consistency) = (options.clone(), options.consistency);
        let mut rng = Prng::new(options.seed ^ worker as u64);
        workers.push(runtime::spawn(Group::QUERY, async move {
            let mut key = Vec::new();
            let mut values = ValuesBuilder::new();
            while next.get() < options.keys {
                put_key(options.table, next.replace(next.get() + 1), &mut key);
                values.clear();
                put_insert(&options, &key, &value, &mut rng, &mut values);
                let parameters = Parameters { values: values.values(), ..Parameters::at(consistency) };
                connection.execute(&insert, parameters).await?;
            }
            Ok::<(), Error>(())
        }));
    }
    for worker in workers {
        worker.await?;
    }
    Ok(())
}

async fn work(run: Rc<Run>, lane: Rc<Lane>, mut rng: Prng) {
    let mut now = runtime::now();
    loop {
        let intended = match run.options.pace {
            // It asks again in the moment of the answer: one look at the clock for both.
            Pace::Closed => now,
            Pace::Open(rate) => {
                let index = run.next_index.replace(run.next_index.get() + 1);
                let intended = run.start + Duration::from_secs_f64(index as f64 / rate.max(1e-3));
                if run.end <= intended {
                    return;
                }
                if runtime::now() < intended {
                    runtime::sleep_until(intended).await;
                }
                now = runtime::now();
                intended
            }
        };
        if run.end <= now {
            return;
        }
        let kind = match run.options.workload {
            Workload::Mixed(share) if rng.chance(share) => Workload::Read,
            kind => kind,
        };
        let first = if kind == run.options.workload { 0 } else { run.options.read_keys };
        let Some(index) = draw_key(&run, &lane, first, &mut rng) else {
            run.report.borrow_mut().ended.get_or_insert(runtime::now());
            return;
        };
        let result = one(&run, &lane, kind, index, &mut rng).await;
        now = runtime::now();
        // By its answer, not by its start: what was asked before the measured time and answered in it is work of that time.
        if now < run.measure_from || run.end < now {
            continue;
        }
        let mut report = run.report.borrow_mut();
        match result {
            Ok(()) => {
                report.answered(run.measure_from, intended, now, 1);
                if kind != run.options.workload {
                    report.read_latencies.record(now - intended);
                }
            }
            Err(error) => {
                report.failed(&error);
                if matches!(error, Error::Closed(_)) {
                    return;
                }
            }
        }
    }
}

/// Reads one of so many ranges of tokens to its end.
async fn scan(run: Rc<Run>, lane: Rc<Lane>, index: usize, ranges: usize) {
    let Some(statements) = &run.statements else { return };
    let bound = |at: usize| {
        let token = i128::from(i64::MIN) + ((at as i128) << 64) / ranges as i128;
        token.min(i128::from(i64::MAX)) as i64
    };
    let (first, last) = (bound(index).to_be_bytes(), bound(index + 1).to_be_bytes());
    let mut values = ValuesBuilder::new();
    values.bytes(&first).bytes(&last);
    let parameters = Parameters { values: values.values(), ..Parameters::at(run.options.consistency) };
    let mut pages = Pages::execute(&lane.connection, &statements.range, parameters, PAGE_ROWS);
    loop {
        let intended = runtime::now();
        let page = pages.next_page().await;
        let done = runtime::now();
        let mut report = run.report.borrow_mut();
        match page {
            _ if run.end < done => return report.failed(&Error::Unexpected("a scan longer than its time")),
            Ok(Some(page)) => report.answered(run.measure_from, intended, done, page.rows.len() as u64),
            Ok(None) => {
                report.ended = Some(done);
                return;
            }
            Err(error) => return report.failed(&error),
        }
    }
}

/// The number of a key, of the lane's shard if it has one and of the `first` ones unless that is 0; `None` when a sequence has ended.
fn draw_key(run: &Run, lane: &Lane, first: u64, rng: &mut Prng) -> Option<u64> {
    let keys = if first == 0 { run.options.keys } else { first.min(run.options.keys) };
    let mut index = 0;
    for _ in 0..KEY_DRAWS {
        index = match run.options.draw {
            Draw::Uniform => rng.below(keys),
            Draw::Gaussian => gaussian(keys, rng),
            Draw::Zipfian => zipfian(keys, rng),
            Draw::Sequence => {
                // It leaves no key out, whosever it is.
                let next = run.next_key.replace(run.next_key.get() + run.options.stride.max(1));
                return (next < keys).then_some(next);
            }
        };
        let Some((shard, shards)) = lane.shard else { break };
        let key = &mut run.maker.borrow_mut().key;
        put_key(run.options.table, index, key);
        if base::shard_of(Token::of_key(key), shards) == shard {
            break;
        }
    }
    Some(index)
}

/// A number below `keys`, normally distributed around the middle, by the method of Box and Muller.
fn gaussian(keys: u64, rng: &mut Prng) -> u64 {
    let mean = (keys as f64 - 1.0) / 2.0;
    let radius = (-2.0 * (1.0 - rng.unit()).ln()).sqrt();
    let deviations = radius * (std::f64::consts::TAU * rng.unit()).cos();
    let drawn = mean + deviations * mean / 3.0;
    drawn.clamp(0.0, keys as f64 - 1.0) as u64
}

/// Items that YCSB draws from, however many keys there are, the exponent of their law, and the sum of their weights.
const ZIPF_ITEMS: f64 = 1e10;
const ZIPF_EXPONENT: f64 = 0.99;
const ZIPF_SUM: f64 = 26.469_028_201_783_02;

/// A rank by the law of Zipf, for a number of 0 to 1: by the method of Gray and others ("Quickly generating billion-record
/// synthetic databases", 1994).
fn zipf_rank(unit: f64) -> u64 {
    let below = unit * ZIPF_SUM;
    let of_two = 1.0 + 0.5f64.powf(ZIPF_EXPONENT);
    if below < 1.0 {
        return 0;
    }
    if below < of_two {
        return 1;
    }
    let eta = (1.0 - (2.0 / ZIPF_ITEMS).powf(1.0 - ZIPF_EXPONENT)) / (1.0 - of_two / ZIPF_SUM);
    (ZIPF_ITEMS * (eta * unit - eta + 1.0).powf(1.0 / (1.0 - ZIPF_EXPONENT))) as u64
}

/// A number below `keys`: ranks scattered by a hash, so that the keys that come often lie anywhere.
fn zipfian(keys: u64, rng: &mut Prng) -> u64 {
    base::murmur3(&zipf_rank(rng.unit()).to_le_bytes()).0 as u64 % keys.max(1)
}

/// One request for a key and its answer.
async fn one(run: &Run, lane: &Lane, kind: Workload, index: u64, rng: &mut Prng) -> Result<(), Error> {
    let sent = match &run.statements {
        None => lane.connection.send_now(&Request::Options),
        Some(statements) => {
            let mut maker = run.maker.borrow_mut();
            let statement = maker.make(run, statements, kind, index, rng);
            lane.connection.execute_now(statement, maker.parameters(run))
        }
    };
    if let Some(sent) = sent {
        let answer = sent?.await?;
        // Whatever an echo says back is good.
        if run.statements.is_none() {
            return Ok(());
        }
        if !answer.is_unprepared() {
            return answer.result().map(drop);
        }
    }
    // Rare, and large: not within the memory of every worker.
    Box::pin(the_long_way(run, lane, kind, index, rng)).await
}

/// As [`one`], where no more requests may be in flight, or the node does not know the statement: waits, and prepares it again.
async fn the_long_way(
    run: &Run,
    lane: &Lane,
    kind: Workload,
    index: u64,
    rng: &mut Prng,
) -> Result<(), Error> {
    let Some(statements) = &run.statements else {
        return lane.connection.request(&Request::Options).await.map(drop);
    };
    let mut maker = Maker::default();
    let statement = maker.make(run, statements, kind, index, rng);
    lane.connection.execute_undecoded(statement, maker.parameters(run)).await?.result().map(drop)
}

impl Maker {
    /// Binds the values of a request for a key, and chooses its statement.
    fn make<'a>(
        &mut self,
        run: &Run,
        statements: &'a Statements,
        kind: Workload,
        index: u64,
        rng: &mut Prng,
    ) -> &'a Statement {
        let Maker { key, values } = self;
        put_key(run.options.table, index, key);
        values.clear();
        match kind {
            Workload::Mixed(_) if !statements.updates.is_empty() => {
                let mut field = [0; USERTABLE_BYTES];
                letters(rng, &mut field);
                values.bytes(&field).bytes(key);
                &statements.updates[rng.below(statements.updates.len() as u64) as usize]
            }
            Workload::Mixed(_) | Workload::Insert => {
                put_insert(&run.options, key, &run.value, rng, values);
                &statements.insert
            }
            Workload::Delete => {
                values.bytes(key);
                &statements.delete
            }
            Workload::Read | Workload::Scan | Workload::Echo => {
                values.bytes(key);
                &statements.read
            }
        }
    }

    fn parameters(&self, run: &Run) -> Parameters<'_> {
        Parameters {
            values: self.values.values(),
            skip_metadata: true,
            ..Parameters::at(run.options.consistency)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_come_as_often_as_the_law_of_zipf_says() {
        let mut rng = Prng::new(1);
        let draws = 1_000_000;
        let ranks: Vec<u64> = (0..draws).map(|_| zipf_rank(rng.unit())).collect();
        for below in [1u64, 2, 10, 100, 1000] {
            let seen = ranks.iter().filter(|rank| **rank < below).count() as f64 / draws as f64;
            let weights = (1..=below).map(|rank| (rank as f64).powf(-ZIPF_EXPONENT)).sum::<f64>();
            let expected = weights / ZIPF_SUM;
            // The method is exact for the first two and about right for the others.
            assert!((seen / expected - 1.0).abs() < 0.08, "below {below}: {seen} {expected}");
        }
        assert!(zipf_rank(0.999_999_999) < ZIPF_ITEMS as u64);
        let mut drawn: Vec<u64> = (0..10_000).map(|_| zipfian(1000, &mut rng)).collect();
        drawn.sort();
        drawn.dedup();
        assert!(drawn.len() > 900, "{} of 1000 keys", drawn.len());
    }

    #[test]
    fn seconds_without_answers_and_a_pause_to_the_end_count() {
        let at = |ms: u64| Instant(ms * 1_000_000);
        let mut report = Report::new();
        (0..100).for_each(|n| report.answered(at(0), at(n * 10), at(n * 10 + 5), 1));
        report.end(at(0), Duration::from_secs(3));
        assert_eq!((report.seconds.as_slice(), report.slowest_second()), (&[100, 0, 0][..], 0.0));
        assert_eq!(report.pause, Duration::from_millis(2005));
        let mut silent = Report::new();
        silent.end(at(0), Duration::from_secs(2));
        assert_eq!((silent.slowest_second(), silent.pause), (0.0, Duration::from_secs(2)));
    }
}
