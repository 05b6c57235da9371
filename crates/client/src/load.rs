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
    /// Keys, `0..keys`.
    pub keys: u64,
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
    /// Make keyspace and table, and insert every key first.
    pub prepare_data: bool,
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
            keys: 100_000,
            value_bytes: 100,
            consistency: Consistency::One,
            duration: Duration::from_secs(10),
            warm_up: Duration::from_secs(2),
            version: Version::V4,
            compression: Compression::None,
            tls: None,
            prepare_data: true,
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
}

impl Report {
    fn new() -> Report {
        Report {
            operations: 0,
            errors: 0,
            first_error: None,
            elapsed: Duration::ZERO,
            latencies: Histogram::new(),
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
const TABLE: &str = "CREATE TABLE IF NOT EXISTS load.kv (key text PRIMARY KEY, value blob)";
const READ: &str = "SELECT value FROM load.kv WHERE key = ?";
const INSERT: &str = "INSERT INTO load.kv (key, value) VALUES (?, ?)";
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
    if let (true, Some(statements)) = (options.prepare_data, &statements) {
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
    report.elapsed = run.options.duration;
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
    let mut last = Error::Unexpected("no contact point");
    for address in &options.addresses {
        match Connection::connect(*address, connecting).await {
            Ok(connection) => {
                if options.prepare_data {
                    let at = Parameters::at(options.consistency);
                    connection.query(KEYSPACE, at).await?;
                    connection.query(TABLE, at).await?;
                }
                return Ok(Statements {
                    read: connection.prepare(READ).await?,
                    insert: connection.prepare(INSERT).await?,
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

fn put_key(index: u64, out: &mut Vec<u8>) {
    use std::io::Write;
    out.clear();
    write!(out, "key{index:012}").expect("writing to memory does not fail");
}

/// Inserts every key once.
async fn fill(options: &LoadOptions, lanes: &[Lane], insert: &Statement) -> Result<(), Error> {
    let next = Rc::new(Cell::new(0u64));
    let mut workers = Vec::new();
    for worker in 0..FILL_IN_FLIGHT {
        let connection = lanes[worker % lanes.len()].connection.clone();
        let (next, insert, value) = (next.clone(), insert.clone(), value_of(options));
        let (keys, consistency) = (options.keys, options.consistency);
        workers.push(runtime::spawn(Group::QUERY, async move {
            let mut key = Vec::new();
            let mut values = ValuesBuilder::new();
            while next.get() < keys {
                put_key(next.replace(next.get() + 1), &mut key);
                values.clear();
                values.bytes(&key).bytes(&value);
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
        let result = one(&run, &lane, &mut rng, &mut key, &mut values).await;
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

/// A key, of the lane's shard if it has one.
fn draw_key(run: &Run, lane: &Lane, rng: &mut Prng, key: &mut Vec<u8>) {
    for _ in 0..KEY_DRAWS {
        put_key(rng.below(run.options.keys), key);
        match lane.shard {
            Some((shard, shards)) if base::shard_of(Token::of_key(key), shards) != shard => {}
            _ => return,
        }
    }
}

async fn one(
    run: &Run,
    lane: &Lane,
    rng: &mut Prng,
    key: &mut Vec<u8>,
    values: &mut ValuesBuilder,
) -> Result<(), Error> {
    let Some(statements) = &run.statements else {
        return lane.connection.request(&Request::Options).await.map(|_| ());
    };
    draw_key(run, lane, rng, key);
    let reading = match run.options.workload {
        Workload::Read => true,
        Workload::Insert | Workload::Echo => false,
        Workload::Mixed(share) => rng.chance(share),
    };
    values.clear();
    values.bytes(key);
    let statement = if reading {
        &statements.read
    } else {
        values.bytes(&run.value);
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
