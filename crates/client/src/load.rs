//! A load generator: prepared point reads and inserts over a number of keys.
//!
//! Closed loop: each of `connections * depth` workers sends its next request when the last was answered. Open loop: requests have an intended
//! start, so many per second; latency counts from there, so a stalled server is charged for what it kept waiting.

use crate::connection::{Connection, Options};
use crate::error::Error;
use crate::histogram::Histogram;
use crate::pool::{Pool, PoolOptions};
use crate::statement::Statement;
use base::{Instant, Prng, Token};
use protocol::compression::Compression;
use protocol::envelope::Version;
use protocol::failure::FailureKind;
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
}

/// Which keys come how often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Draw {
    /// All alike.
    Uniform,
    /// The middle ones most: the mean is half of the keys, three standard deviations reach the first and the last.
    Gaussian,
    /// One after the other, each once; the run ends with the last.
    Sequence,
}

/// What to run. Each shard that runs it makes its own connections.
#[derive(Clone, Debug)]
pub struct LoadOptions {
    /// Contact points.
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
    /// Which of them.
    pub draw: Draw,
    /// Bytes of each value.
    pub value_bytes: usize,
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
            draw: Draw::Uniform,
            value_bytes: 100,
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
    /// When a sequence of keys had ended.
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
            ended: None,
        }
    }

    /// Good answers per second.
    pub fn rate(&self) -> f64 {
        let seconds = self.elapsed.as_secs_f64();
        if seconds > 0.0 { self.operations as f64 / seconds } else { 0.0 }
    }

    /// Adds what another shard measured at the same time.
    pub fn merge(&mut self, other: &Report) {
        self.operations += other.operations;
        self.errors += other.errors;
        if self.first_error.is_none() {
            self.first_error.clone_from(&other.first_error);
        }
        self.elapsed = self.elapsed.max(other.elapsed);
        self.latencies.merge(&other.latencies);
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let us = |d: Duration| d.as_secs_f64() * 1e6;
        write!(
            f,
            "rate {:.0}/s  mean {:.0} us  p50 {:.0} us  p99 {:.0} us  p99.9 {:.0} us  max {:.0} us  operations {}  errors {}",
            self.rate(),
            us(self.latencies.mean()),
            us(self.latencies.quantile(0.5)),
            us(self.latencies.quantile(0.99)),
            us(self.latencies.quantile(0.999)),
            us(self.latencies.max()),
            self.operations,
            self.errors
        )?;
        match &self.first_error {
            Some(error) => write!(f, "  first error: {error}"),
            None => Ok(()),
        }
    }
}

/// The keyspace and table the load goes to.
const KEYSPACE: &str = "CREATE KEYSPACE IF NOT EXISTS load WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";

/// Statements of a table: to make it, to read one row, to insert one.
struct Texts {
    table: &'static str,
    read: &'static str,
    insert: &'static str,
}

const KEY_VALUE: Texts = Texts {
    table: "CREATE TABLE IF NOT EXISTS load.kv (key text PRIMARY KEY, value blob)",
    read: "SELECT value FROM load.kv WHERE key = ?",
    insert: "INSERT INTO load.kv (key, value) VALUES (?, ?)",
};
const STRESS: Texts = Texts {
    table: "CREATE TABLE IF NOT EXISTS load.standard1 (key blob PRIMARY KEY, \"C0\" blob, \"C1\" blob, \"C2\" blob, \"C3\" blob, \"C4\" blob)",
    read: "SELECT \"C0\", \"C1\", \"C2\", \"C3\", \"C4\" FROM load.standard1 WHERE key = ?",
    insert: "UPDATE load.standard1 SET \"C0\" = ?, \"C1\" = ?, \"C2\" = ?, \"C3\" = ?, \"C4\" = ? WHERE key = ?",
};
/// Columns of the stress table beside its key, and bytes of each.
const STRESS_COLUMNS: usize = 5;
const STRESS_BYTES: usize = 34;
/// Inserts in flight while the data is prepared.
const FILL_IN_FLIGHT: usize = 256;
/// Draws for a key that belongs to a connection's shard; the chance to miss all of them is negligible.
const KEY_DRAWS: usize = 4096;

struct Statements {
    read: Statement,
    insert: Statement,
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
    report: RefCell<Report>,
}

/// Runs the load on this shard.
pub async fn run(options: LoadOptions) -> Result<Report, Error> {
    let connecting = connection_options(&options).await?;
    let statements = match options.workload {
        Workload::Echo => None,
        Workload::Read | Workload::Insert | Workload::Mixed(_) => Some(prepare(&options, &connecting).await?),
    };
    let lanes = open_lanes(&options, &connecting).await?;
    if let (true, Some(statements)) = (options.prepare_data && options.fill, &statements) {
        fill(&options, &lanes, &statements.insert).await?;
    }
    let start = runtime::now();
    let measure_from = start + options.warm_up;
    let end = measure_from + options.duration;
    let run = Rc::new(Run {
        value: value_of(&options),
        statements,
        start,
        measure_from,
        end,
        next_index: Cell::new(0),
        next_key: Cell::new(0),
        report: RefCell::new(Report::new()),
        options,
    });
    let mut seeds = Prng::new(run.options.seed);
    let mut workers = Vec::new();
    for lane in lanes {
        let lane = Rc::new(lane);
        for _ in 0..run.options.depth.max(1) {
            let worker = work(run.clone(), lane.clone(), seeds.fork());
            workers.push(runtime::spawn(Group::QUERY, worker));
        }
    }
    for worker in workers {
        worker.await;
    }
    let mut report = run.report.borrow().clone();
    report.elapsed = match report.ended {
        // A sequence ends when it ends.
        Some(ended) => ended.min(run.end).saturating_duration_since(run.measure_from),
        None => run.options.duration,
    };
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
                return Ok(Statements {
                    read: connection.prepare(texts.read).await?,
                    insert: connection.prepare(texts.insert).await?,
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
            let pool_options = PoolOptions { connection: connecting.clone(), shard_aware: true };
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
            Workload::Read | Workload::Insert | Workload::Mixed(_) => {
                Connection::connect(address, connecting).await?
            }
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
        TableShape::KeyValue => write!(out, "key{index:012}").expect("writing to memory does not fail"),
        TableShape::Stress => {
            // Two bytes that look like any others, then the number: distinct and not in the order of the ring.
            out.extend_from_slice(&(index as u16).wrapping_mul(40_503).to_be_bytes());
            out.extend_from_slice(&index.to_be_bytes());
        }
    }
}

/// Binds what an insert says, in the order of its statement.
fn put_insert(options: &LoadOptions, key: &[u8], value: &[u8], rng: &mut Prng, values: &mut ValuesBuilder) {
    match options.table {
        TableShape::KeyValue => drop(values.bytes(key).bytes(value)),
        TableShape::Stress => {
            let mut cells = [0; STRESS_COLUMNS * STRESS_BYTES];
            rng.fill(&mut cells);
            for cell in cells.chunks(STRESS_BYTES) {
                values.bytes(cell);
            }
            values.bytes(key);
        }
    }
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
    let mut key = Vec::new();
    let mut values = ValuesBuilder::new();
    loop {
        let intended = match run.options.pace {
            Pace::Closed => runtime::now(),
            Pace::Open(rate) => {
                let index = run.next_index.replace(run.next_index.get() + 1);
                let intended = run.start + Duration::from_secs_f64(index as f64 / rate.max(1e-3));
                if run.end <= intended {
                    return;
                }
                if runtime::now() < intended {
                    runtime::sleep_until(intended).await;
                }
                intended
            }
        };
        if run.end <= runtime::now() {
            return;
        }
        if !draw_key(&run, &lane, &mut rng, &mut key) {
            run.report.borrow_mut().ended.get_or_insert(runtime::now());
            return;
        }
        let result = one(&run, &lane, &mut rng, &key, &mut values).await;
        let done = runtime::now();
        if intended < run.measure_from || run.end < done {
            continue;
        }
        let mut report = run.report.borrow_mut();
        match result {
            Ok(()) => {
                report.operations += 1;
                report.latencies.record(done - intended);
            }
            Err(error) => {
                report.errors += 1;
                report.first_error.get_or_insert_with(|| error.to_string());
                if matches!(error, Error::Closed(_)) {
                    return;
                }
            }
        }
    }
}

/// A key, of the lane's shard if it has one; false when a sequence has ended.
fn draw_key(run: &Run, lane: &Lane, rng: &mut Prng, key: &mut Vec<u8>) -> bool {
    let keys = run.options.keys;
    for _ in 0..KEY_DRAWS {
        let index = match run.options.draw {
            Draw::Uniform => rng.below(keys),
            Draw::Gaussian => gaussian(keys, rng),
            Draw::Sequence => {
                let next = run.next_key.replace(run.next_key.get() + 1);
                if next >= keys {
                    return false;
                }
                next
            }
        };
        put_key(run.options.table, index, key);
        match lane.shard {
            // A sequence leaves no key out, whosever it is.
            Some((shard, shards))
                if run.options.draw != Draw::Sequence
                    && base::shard_of(Token::of_key(key), shards) != shard => {}
            _ => return true,
        }
    }
    true
}

/// A number below `keys`, normally distributed around the middle, by the method of Box and Muller.
fn gaussian(keys: u64, rng: &mut Prng) -> u64 {
    let mean = (keys as f64 - 1.0) / 2.0;
    let radius = (-2.0 * (1.0 - rng.unit()).ln()).sqrt();
    let deviations = radius * (std::f64::consts::TAU * rng.unit()).cos();
    let drawn = mean + deviations * mean / 3.0;
    drawn.clamp(0.0, keys as f64 - 1.0) as u64
}

async fn one(
    run: &Run,
    lane: &Lane,
    rng: &mut Prng,
    key: &[u8],
    values: &mut ValuesBuilder,
) -> Result<(), Error> {
    let Some(statements) = &run.statements else {
        return lane.connection.request(&Request::Options).await.map(|_| ());
    };
    let reading = match run.options.workload {
        Workload::Read => true,
        Workload::Insert | Workload::Echo => false,
        Workload::Mixed(share) => rng.chance(share),
    };
    values.clear();
    let statement = if reading {
        values.bytes(key);
        &statements.read
    } else {
        put_insert(&run.options, key, &run.value, rng, values);
        &statements.insert
    };
    let parameters = Parameters {
        values: values.values(),
        skip_metadata: true,
        ..Parameters::at(run.options.consistency)
    };
    let answer = lane.connection.execute_raw(statement, parameters).await?;
    if answer.is_result() {
        return Ok(());
    }
    match answer.response() {
        Err(Error::Failure(failure)) if matches!(failure.kind, FailureKind::Unprepared { .. }) => {
            lane.connection.prepare_again(statement).await?;
            lane.connection.execute(statement, parameters).await.map(|_| ())
        }
        Err(error) => Err(error),
        Ok(_) => Err(Error::Unexpected("EXECUTE")),
    }
}
