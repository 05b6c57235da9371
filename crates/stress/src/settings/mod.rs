//! The command line as values.

mod node;
mod ours;
mod print;
mod read;
pub mod tables;

use crate::distribution::Distribution;
use crate::grammar::Ratio;
use std::time::Duration;
use tables::Kind;

pub use ours::Address;
pub use print::block;
pub use read::{Words, read, split};

/// When a run ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Until {
    /// After so many operations.
    Count(u64),
    /// After this time; the number and unit as they were written.
    Time(Duration, u64, &'static str),
    /// When the standard error of the mean rate is below a share, after at least and at most so many measurements.
    Settled {
        /// The share.
        error: f64,
        /// Measurements at least.
        least: u64,
        /// Measurements at most.
        most: u64,
    },
}

/// When tables are emptied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Truncate {
    /// Never.
    Never,
    /// Before the first run.
    Once,
    /// Before every run.
    Always,
}

/// The command and what is common to all.
#[derive(Clone, Debug, PartialEq)]
pub struct Command {
    /// Which.
    pub kind: Kind,
    /// When it ends.
    pub until: Until,
    /// Whether it begins without a warm-up.
    pub no_warmup: bool,
    /// When tables are emptied.
    pub truncate: Truncate,
    /// Consistency level, in capitals.
    pub level: String,
    /// Consistency level of lightweight transactions.
    pub serial_level: String,
    /// Bytes of a key.
    pub key_bytes: usize,
    /// Increments of counters, as written.
    pub add: Distribution,
    /// Weights of operations, by name; of one command its own.
    pub weights: Vec<(String, f64)>,
    /// Length of runs of one operation.
    pub clustering: Distribution,
    /// Files of profiles.
    pub profiles: Vec<String>,
}

impl Command {
    /// Operations, or what stands for them where there is no such end.
    pub fn count(&self) -> Option<u64> {
        match self.until {
            Until::Count(count) => Some(count),
            Until::Time(..) | Until::Settled { .. } => None,
        }
    }

    /// True when the only operation of a profile is its insert.
    fn has_insert_only(&self) -> bool {
        let inserts = |name: &str| name == "insert" || name.ends_with(".insert");
        self.kind == Kind::User && matches!(self.weights.as_slice(), [(name, _)] if inserts(name))
    }
}

/// How many requests are in flight, and when they begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rate {
    /// More and more of them, from and to so many; whether it ends when they bring nothing.
    Steps {
        /// At first.
        least: u32,
        /// At most.
        most: u32,
        /// Ends when more bring nothing.
        auto: bool,
    },
    /// So many.
    Threads {
        /// How many.
        threads: u32,
        /// Operations in a second, or none for as many as there can be.
        limit: Option<Limit>,
    },
}

/// A bound on operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// In a second.
    pub rate: u32,
    /// Whether latencies count from the schedule.
    pub is_fixed: bool,
}

impl Limit {
    /// Nanoseconds from one operation to the next, as the Java tool rounds them.
    pub fn interval_ns(self) -> u64 {
        (1_000_000_000 / u64::from(self.rate)).max(1)
    }
}

/// Which partitions are visited.
#[derive(Clone, Debug, PartialEq)]
pub enum Visited {
    /// One after the other.
    Sequence {
        /// The first.
        first: i64,
        /// The last.
        last: i64,
        /// Whether it begins again after the last.
        wrap: bool,
        /// Reads visit what was written so many partitions ago.
        look_back: Option<Distribution>,
    },
    /// Drawn.
    Drawn(Distribution),
}

/// Order of rows inside a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// As they are made.
    Arbitrary,
    /// By chance.
    Shuffled,
    /// As they are stored.
    Sorted,
}

/// `-pop`.
#[derive(Clone, Debug, PartialEq)]
pub struct Population {
    /// Which partitions.
    pub visited: Visited,
    /// In which order their rows.
    pub order: Order,
}

/// `-insert`.
#[derive(Clone, Debug, PartialEq)]
pub struct Insert {
    /// Which of those begun are visited again.
    pub revisit: Distribution,
    /// Visits of a partition.
    pub visits: Distribution,
    /// Partitions of a batch.
    pub partitions: Option<Distribution>,
    /// LOGGED, UNLOGGED or COUNTER.
    pub batch: Option<String>,
    /// Share of rows.
    pub select: Option<Ratio>,
    /// Share of columns.
    pub row_population: Ratio,
}

/// `-col`.
#[derive(Clone, Debug, PartialEq)]
pub struct Columns {
    /// Names in order of their bytes.
    pub names: Vec<String>,
    /// Type their names are compared by.
    pub comparator: String,
    /// Timestamp of every write.
    pub timestamp: Option<i64>,
    /// Reads all columns.
    pub slice: bool,
    /// Bytes of a value.
    pub size: Distribution,
    /// Number of columns; `None` when they were named.
    pub count: Option<Distribution>,
}

/// How the time before the next try grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delay {
    /// Not.
    Constant,
    /// By as much each time.
    Linear,
    /// Twice as much each time.
    Exponential,
}

/// `-errors`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errors {
    /// Tries of an operation.
    pub tries: u32,
    /// Goes on after failures.
    pub ignore: bool,
    /// Ends at once.
    pub fail_fast: bool,
    /// Does not compare what is read.
    pub skip_validation: bool,
    /// Leaves out columns of types that cannot be made.
    pub skip_unsupported: bool,
    /// Time before the next try.
    pub delay: Delay,
    /// Before the first next try.
    pub delay_min: Duration,
    /// Before any.
    pub delay_max: Duration,
}

/// How much is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// No errors.
    Minimal,
    /// Errors.
    Normal,
    /// Everything.
    Verbose,
}

/// `-log`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    /// How much is said.
    pub level: Level,
    /// Leaves the results out.
    pub no_summary: bool,
    /// Leaves the settings out.
    pub no_settings: bool,
    /// File that has everything as well.
    pub file: Option<String>,
    /// File of histograms.
    pub histograms: Option<String>,
    /// Time from line to line.
    pub interval: Duration,
    /// Prints the statement of a failed operation.
    pub statements: bool,
}

/// Compression of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// None.
    None,
    /// LZ4.
    Lz4,
    /// Snappy.
    Snappy,
}

/// `-mode`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mode {
    /// What the Java tool calls the way to connect.
    pub api: &'static str,
    /// Statements are prepared.
    pub prepared: bool,
    /// Version of the protocol; `None` for the newest.
    pub version: Option<u8>,
    /// User.
    pub user: Option<String>,
    /// Password.
    pub password: Option<String>,
    /// Class that makes credentials.
    pub auth_provider: Option<String>,
    /// Requests in flight on one connection, if they are bounded.
    pub pending_max: Option<usize>,
    /// Connections to one node.
    pub connections: usize,
    /// Whether the command line says how many.
    pub connections_said: bool,
    /// Compression of frames.
    pub compression: Compression,
    /// How long an answer may take.
    pub timeout: Duration,
}

/// Which nodes are near, and so are asked: of them the one that owns a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Balance {
    /// All.
    RoundRobin,
    /// Those of a datacenter.
    DcAware,
    /// Those of a rack; while they are away, those of its datacenter.
    RackAware,
}

/// `-node`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Names or addresses.
    pub nodes: Vec<String>,
    /// Speaks to no other.
    pub only_these: bool,
    /// Datacenter to send requests to.
    pub datacenter: Option<String>,
    /// Rack to send requests to.
    pub rack: Option<String>,
    /// Which nodes are asked.
    pub balance: Option<Balance>,
    /// Datacenter to ask when the near one cannot be reached.
    pub remote_datacenter: Option<String>,
}

/// `-schema`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schema {
    /// Keyspace.
    pub keyspace: String,
    /// Replication strategy, with its package.
    pub strategy: String,
    /// Its options, in the order in which they were given.
    pub replication: Vec<(String, String)>,
    /// Compressor of sstables.
    pub compression: Option<String>,
    /// Compaction strategy.
    pub compaction: Option<String>,
    /// Its options.
    pub compaction_options: Vec<(String, String)>,
    /// Storage options of the keyspace.
    pub storage: Vec<(String, String)>,
}

/// `-transport`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transport {
    /// File of certificates to trust; gives TLS.
    pub trust: Option<String>,
    /// File of this client's key and certificate.
    pub key: Option<String>,
    /// All sub-options as the settings print them.
    printed: String,
}

/// `-port`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Port {
    /// Of CQL.
    pub native: u16,
    /// Not used.
    pub thrift: u16,
    /// Not used.
    pub jmx: u16,
}

/// `-graph`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Graph {
    /// HTML file.
    pub file: Option<String>,
    /// Name of what is measured.
    pub revision: String,
    /// Title of the page.
    pub title: Option<String>,
    /// Name of the operation.
    pub operation: String,
}

/// `-tokenrange`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenRange {
    /// Begins again after the last.
    pub wrap: bool,
    /// Parts of every range.
    pub split: u32,
}

/// A command line.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The command.
    pub command: Command,
    /// `-rate`.
    pub rate: Rate,
    /// `-pop`.
    pub population: Population,
    /// `-insert`.
    pub insert: Insert,
    /// `-col`.
    pub columns: Columns,
    /// `-errors`.
    pub errors: Errors,
    /// `-log`.
    pub log: Log,
    /// `-mode`.
    pub mode: Mode,
    /// `-node`.
    pub node: Node,
    /// `-schema`.
    pub schema: Schema,
    /// `-transport`.
    pub transport: Transport,
    /// `-port`.
    pub port: Port,
    /// `-graph`.
    pub graph: Graph,
    /// `-tokenrange`.
    pub token_range: TokenRange,
    /// `--verify`: what was written is followed and read back.
    pub verify: bool,
    /// `--scrape`: where servers tell their numbers.
    pub scraped: Vec<Address>,
    /// What is said of words that mean nothing for this command.
    pub warnings: Vec<String>,
}
