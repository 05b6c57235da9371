//! The command line.

use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;

/// A wide-column database that speaks CQL, one shard per core.
#[derive(Debug, Parser)]
#[command(name = "messina", version)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What the binary can be.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a database node.
    Node(Node),
    /// Run several nodes of one cluster on this machine, each a process of its own, until told to stop.
    #[command(name = "cluster")]
    LocalCluster(LocalCluster),
    /// Run the shipped node code in a simulated world.
    Simulate(Simulate),
    /// Send load to a node and print what it cost.
    Load(Load),
    /// Ask a node and tell it what to do, with the words and screens of Cassandra's nodetool.
    #[command(disable_help_flag = true)]
    Nodetool(Nodetool),
    /// Put load on a cluster with the words, data and output of cassandra-stress.
    #[command(name = "cassandra-stress", disable_help_flag = true)]
    CassandraStress(CassandraStress),
    /// Put load on a cluster with the words, data and output of YCSB.
    #[command(disable_help_flag = true)]
    Ycsb(Ycsb),
    /// Run CloudSuite's data serving: warmup makes tables and records, load runs operations on them.
    #[command(disable_help_flag = true)]
    Cloudsuite(Cloudsuite),
    /// Look at sstables of a stopped node, or of Cassandra; mend them.
    Sstable(Sstable),
    /// Load sstables, of Cassandra or of a node, into a table of a running node.
    Import(Import),
    /// A file catalogue in the database: make one, import, check, put load on it, count.
    Catalogue(Catalogue),
    /// Run a published load test again, scaled down unless told otherwise.
    Bench(Bench),
    /// Print the version.
    Version,
}

/// Arguments of `messina sstable`.
#[derive(Debug, Args)]
pub struct Sstable {
    /// What to do.
    #[command(subcommand)]
    pub command: SstableCommand,
}

/// The tools over sstables.
#[derive(Clone, Debug, Subcommand)]
pub enum SstableCommand {
    /// Print what an sstable holds as JSON, as Cassandra's sstabledump does.
    Dump(Dump),
    /// Print the statistics of sstables, as Cassandra's sstablemetadata does.
    Metadata(Metadata),
    /// Check sstables: every checksum, the index against the data, order, values and statistics.
    Verify(SstableFiles),
    /// Write what can be read of damaged sstables anew in their place; a snapshot keeps them as they are.
    Scrub(SstableFiles),
    /// List the sstables of a data folder, or of a keyspace's or table's folder in it.
    List(List),
}

/// Arguments of `messina sstable metadata`.
#[derive(Clone, Debug, Args)]
pub struct Metadata {
    /// Files of sstables, one of each is enough; or folders with sstables.
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// Seconds that tombstones are kept, for the estimate of those that could go.
    #[arg(short = 'g', long = "gc_grace_seconds", value_name = "SECONDS", default_value_t = 0)]
    pub gc_grace_seconds: i64,
    /// Histograms of blocks instead of letters.
    #[arg(short = 'u', long)]
    pub unicode: bool,
}

/// Sstables to work on.
#[derive(Clone, Debug, Args)]
pub struct SstableFiles {
    /// Files of sstables, one of each is enough; or folders with sstables.
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
}

/// Arguments of `messina sstable list`.
#[derive(Clone, Debug, Args)]
pub struct List {
    /// The folder.
    pub dir: PathBuf,
    /// A list of JSON objects instead of a table.
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `messina import`.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub struct Import {
    /// Folders of the node's machine with sstables.
    #[arg(required = true)]
    pub dirs: Vec<PathBuf>,
    /// The table; what the folder is called unless given: <keyspace>/<table>-<id>, or below that snapshots/<name>.
    #[arg(long, value_name = "KEYSPACE.TABLE")]
    pub table: Option<String>,
    /// The node.
    #[arg(short = 'h', long, value_name = "HOST", default_value = "127.0.0.1")]
    pub host: String,
    /// The port of its REST interface.
    #[arg(short = 'p', long, value_name = "PORT", default_value_t = 10_000)]
    pub port: u16,
    /// Take the files from the folders, instead of leaving them there.
    #[arg(long = "move")]
    pub take: bool,
    /// Do not read the data to compare its checksum.
    #[arg(long, conflicts_with = "extended_verify")]
    pub no_verify: bool,
    /// Read every partition before anything is taken.
    #[arg(long)]
    pub extended_verify: bool,
    /// Sstables stay on the level they are on.
    #[arg(long)]
    pub keep_level: bool,
    /// Sstables stay repaired.
    #[arg(long)]
    pub keep_repaired: bool,
    /// Print help.
    #[arg(long, action = clap::ArgAction::Help)]
    pub help: Option<bool>,
}

/// Arguments of `messina sstable dump`.
#[derive(Clone, Debug, Args)]
pub struct Dump {
    /// One of the sstable's files, such as its Data.db.
    pub file: PathBuf,
    /// One line per row, in the representation of Cassandra's code.
    #[arg(short = 'd')]
    pub lines_per_row: bool,
    /// Only the keys.
    #[arg(short = 'e')]
    pub only_keys: bool,
    /// Only the partition of this key; may be given several times. Columns of a key have colons between.
    #[arg(short = 'k', value_name = "KEY", allow_hyphen_values = true)]
    pub keys: Vec<String>,
    /// Not the partition of this key; may be given several times.
    #[arg(short = 'x', value_name = "KEY", allow_hyphen_values = true)]
    pub excluded: Vec<String>,
    /// Times as numbers instead of dates.
    #[arg(short = 't')]
    pub raw_times: bool,
    /// A line of JSON per partition.
    #[arg(short = 'l')]
    pub json_lines: bool,
}

/// What is asked of a cluster that runs, from another terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Subcommand)]
pub enum ClusterAction {
    /// Print a line for each node: number, address, datacenter, rack, state, process and folder.
    Status,
    /// End a node as a crash would.
    Kill {
        /// Its number, from 1.
        node: u8,
    },
    /// End a node in order.
    Stop {
        /// Its number, from 1.
        node: u8,
    },
    /// Start a node that has ended.
    Start {
        /// Its number, from 1.
        node: u8,
    },
}

impl ClusterAction {
    /// The line that says it.
    pub fn line(self) -> String {
        match self {
            ClusterAction::Status => "status".to_owned(),
            ClusterAction::Kill { node } => format!("kill {node}"),
            ClusterAction::Stop { node } => format!("stop {node}"),
            ClusterAction::Start { node } => format!("start {node}"),
        }
    }
}

/// Arguments of `messina cluster`.
#[derive(Clone, Debug, Args)]
pub struct LocalCluster {
    /// What is asked of the cluster that runs in the folder; without, one is started.
    #[command(subcommand)]
    pub action: Option<ClusterAction>,
    /// How many nodes.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=64))]
    pub nodes: u8,
    /// Over how many datacenters they are spread, in turn; with more than one they are called dc1, dc2 and so on.
    #[arg(long, alias = "dcs", value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=8))]
    pub datacenters: u8,
    /// Over how many racks those of a datacenter are spread, in turn.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=64))]
    pub racks: u8,
    /// The address of the first node, the seed; the others have those behind it. Addresses of this machine alone.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    pub first_address: core::net::Ipv4Addr,
    /// The port for clients, on each of them.
    #[arg(long, value_name = "PORT", default_value_t = 9042)]
    pub native_transport_port: u16,
    /// A folder for all: each node has one of the name of its address in it, with its data and its log.
    #[arg(long, global = true, value_name = "DIR", default_value = "data")]
    pub data: PathBuf,
    /// Shards of each node.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub smp: u16,
    /// Memory of each node.
    #[arg(long, value_name = "SIZE", default_value = "1G")]
    pub memory: String,
    /// The cluster's name.
    #[arg(long, value_name = "NAME", default_value = "Test Cluster")]
    pub cluster_name: String,
    /// Sets a key of every node's configuration, as for `messina node`.
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
}

/// Arguments of `messina node`.
#[derive(Debug, Args)]
pub struct Node {
    /// A cassandra.yaml or scylla.yaml.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Shards to run; one per processor unless given.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub smp: Option<u16>,
    /// Memory for the whole node, such as 4G; half of the machine's less 1 GiB unless given.
    #[arg(long, value_name = "SIZE")]
    pub memory: Option<String>,
    /// Share the processors with others: do not pin shards, do not spin.
    #[arg(long)]
    pub overprovisioned: bool,
    /// The data folder; what the file says, or ./data.
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Nodes to ask where the cluster is, host or host:port, with commas between; what the file says, or none.
    #[arg(long, value_name = "HOSTS")]
    pub seeds: Option<String>,
    /// The address to listen on for other nodes; what the file says, or 127.0.0.1.
    #[arg(long, value_name = "ADDRESS")]
    pub listen_address: Option<core::net::IpAddr>,
    /// The address to listen on for clients; what the file says, or 127.0.0.1.
    #[arg(long, value_name = "ADDRESS")]
    pub rpc_address: Option<core::net::IpAddr>,
    /// How shards wait for the kernel: auto, uring or epoll.
    #[arg(long, value_name = "NAME", default_value = "auto", value_parser = ["auto", "uring", "epoll"])]
    pub reactor: String,
    /// The port to listen on for clients; what the file says, or 9042.
    #[arg(long, value_name = "PORT")]
    pub native_transport_port: Option<u16>,
    /// Sets a key of the configuration, nested ones with points; wins over file and environment.
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// The address of a dead node whose place this one takes, with its tokens, when it starts for the first time, on an empty folder.
    #[arg(long, value_name = "ADDRESS")]
    pub replace_address: Option<core::net::IpAddr>,
    /// A system property of Cassandra that has a meaning here: cassandra.replace_address_first_boot, cassandra.replace_address.
    #[arg(short = 'D', value_name = "PROPERTY=VALUE")]
    pub properties: Vec<String>,
    /// Which log lines are written: info, or info,storage=debug.
    #[arg(long, value_name = "LEVELS")]
    pub log_level: Option<String>,
    /// How log lines look: text or json.
    #[arg(long, value_name = "FORMAT")]
    pub log_format: Option<String>,
    /// Print every key with its value and where it comes from, and stop: no port is opened, no folder touched.
    #[arg(long)]
    pub check_config: bool,
}

/// Arguments of `messina nodetool`.
#[derive(Debug, Args)]
pub struct Nodetool {
    /// Options, a command, and what it takes; see `messina nodetool help`.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub words: Vec<String>,
}

/// Arguments of `messina cassandra-stress`.
#[derive(Debug, Args)]
pub struct CassandraStress {
    /// A command and its options; see `messina cassandra-stress help`.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub words: Vec<String>,
}

/// Arguments of `messina ycsb`.
#[derive(Debug, Args)]
pub struct Ycsb {
    /// load or run, a binding, and options; see `messina ycsb help`.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub words: Vec<String>,
}

/// Arguments of `messina cloudsuite`.
#[derive(Debug, Args)]
pub struct Cloudsuite {
    /// warmup or load, and what the script of that name takes.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub words: Vec<String>,
}

/// Arguments of `messina simulate`.
#[derive(Debug, Args)]
pub struct Simulate {
    /// The seed that decides everything; its run is told in full.
    #[arg(long, value_name = "N", conflicts_with = "seeds", required_unless_present = "seeds")]
    pub seed: Option<u64>,
    /// Every seed from A up to B, without B.
    #[arg(long, value_name = "A..B")]
    pub seeds: Option<String>,
    /// The scenario to run.
    #[arg(long, value_name = "S", default_value = "crash")]
    pub scenario: String,
    /// A mistake to plant, which the scenario must find.
    #[arg(long, value_name = "BUG")]
    pub plant: Option<String>,
    /// Look for the fewest operations that fail, in scenarios that are lists of them (storage, model).
    #[arg(long)]
    pub shrink: bool,
}

/// Arguments of `messina load`.
#[derive(Debug, Args)]
pub struct Load {
    /// The node's address and port.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9042")]
    pub target: core::net::SocketAddr,
    /// What to send: read, insert, mixed (half and half), delete, scan (every row once) or echo.
    #[arg(long, value_name = "KIND", default_value = "read", value_parser = ["read", "insert", "mixed", "delete", "scan", "echo"])]
    pub workload: String,
    /// Share of reads of the mixed workload, 0 to 1.
    #[arg(long, value_name = "SHARE", default_value_t = 0.5)]
    pub reads: f64,
    /// The table: kv; stress, that of cassandra-stress; or usertable, that of YCSB.
    #[arg(long, value_name = "TABLE", default_value = "kv", value_parser = ["kv", "stress", "usertable"])]
    pub table: String,
    /// Distinct keys.
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    pub keys: u64,
    /// Reads of the mixed workload ask for the first so many of them; 0: for all.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub read_keys: u64,
    /// Which keys: uniform, gaussian, zipfian, or sequence, each once.
    #[arg(long, value_name = "DRAW", default_value = "uniform", value_parser = ["uniform", "gaussian", "zipfian", "sequence"])]
    pub draw: String,
    /// A sequence takes every so many-th key.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub stride: u64,
    /// Bytes of each value of the table kv.
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub value_bytes: usize,
    /// Half of each value's bytes are random, instead of the same value for every key.
    #[arg(long)]
    pub fresh_values: bool,
    /// Seconds before measuring.
    #[arg(long, value_name = "S", default_value_t = 2)]
    pub warm_up: u32,
    /// Seed of the keys and values.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Make keyspace and table, but insert nothing before the load.
    #[arg(long)]
    pub no_fill: bool,
    /// Send each key to the shard that owns it.
    #[arg(long)]
    pub shard_aware: bool,
    /// The data is there from an earlier run.
    #[arg(long)]
    pub keep_data: bool,
    /// Connections.
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub connections: u16,
    /// Requests in flight on each connection.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub depth: u16,
    /// Seconds to measure.
    #[arg(long, value_name = "S", default_value_t = 5)]
    pub seconds: u32,
    /// Encrypt the connections; any certificate of the node is believed unless --tls-ca says whose.
    #[arg(long)]
    pub tls: bool,
    /// The authorities that sign the node's certificate, a PEM file; means --tls.
    #[arg(long, value_name = "FILE")]
    pub tls_ca: Option<std::path::PathBuf>,
    /// A certificate to show and its private key, one PEM file.
    #[arg(long, value_name = "FILE", requires = "tls_ca")]
    pub tls_certificate: Option<std::path::PathBuf>,
    /// Requests per second over all connections; as many as possible unless given.
    #[arg(long, value_name = "N")]
    pub rate: Option<f64>,
}

/// Arguments of `messina catalogue`.
#[derive(Debug, Args)]
pub struct Catalogue {
    /// What to do.
    #[command(subcommand)]
    pub command: CatalogueCommand,
}

/// What is done with a catalogue.
#[derive(Clone, Debug, Subcommand)]
pub enum CatalogueCommand {
    /// Write a catalogue made from a seed into a file; ends in .csv, or in .sql for a MySQL dump.
    Generate(CatalogueGenerate),
    /// Import a file, then compare the database with it.
    Import(CatalogueImport),
    /// Compare the database with a file.
    Check(CatalogueFile),
    /// Put load on a catalogue that was generated and imported, and compare every answer; changes it.
    Operate(CatalogueOperate),
    /// Count files and bytes of every owner.
    Quota(CatalogueQuota),
}

/// Which database.
#[derive(Clone, Debug, Args)]
pub struct Database {
    /// Names or addresses of nodes, with commas between.
    #[arg(long, value_name = "ADDRESSES", default_value = "127.0.0.1", value_delimiter = ',')]
    pub node: Vec<String>,
    /// Their port.
    #[arg(long, value_name = "PORT", default_value_t = 9042)]
    pub port: u16,
    /// A user to log in as.
    #[arg(long, value_name = "NAME", requires = "password")]
    pub user: Option<String>,
    /// The password.
    #[arg(long, value_name = "WORD", requires = "user")]
    pub password: Option<String>,
    /// Replicas in each datacenter; what is usual for the run, but no more than there are nodes, unless given.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    pub replication: Option<u32>,
}

/// Which catalogue.
#[derive(Clone, Debug, Args)]
pub struct CatalogueServer {
    /// The database.
    #[command(flatten)]
    pub database: Database,
    /// The keyspace of its tables.
    #[arg(long, value_name = "NAME", default_value = "catalogue")]
    pub keyspace: String,
    /// Consistency level of every request.
    #[arg(long, value_name = "LEVEL", default_value = "LOCAL_QUORUM")]
    pub consistency: String,
}

/// A generated catalogue.
#[derive(Clone, Debug, Args)]
pub struct Generated {
    /// Files.
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    pub files: u64,
    /// Decides everything about them.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

/// Arguments of `messina catalogue generate`.
#[derive(Clone, Debug, Args)]
pub struct CatalogueGenerate {
    /// The catalogue.
    #[command(flatten)]
    pub generated: Generated,
    /// The file to write.
    pub file: String,
}

/// A file of a catalogue.
#[derive(Clone, Debug, Args)]
pub struct CatalogueFile {
    /// The file.
    pub file: String,
    /// What it is; by the ending of its name unless given.
    #[arg(long, value_name = "FORMAT", value_parser = ["csv", "mysql"])]
    pub format: Option<String>,
    /// Of a dump, the table whose rows are wanted.
    #[arg(long, value_name = "TABLE", default_value = "files")]
    pub table: String,
    /// The catalogue.
    #[command(flatten)]
    pub server: CatalogueServer,
    /// Ranges of tokens that are read at a time.
    #[arg(long, value_name = "N", default_value_t = 16)]
    pub parallel: usize,
}

/// Arguments of `messina catalogue import`.
#[derive(Clone, Debug, Args)]
pub struct CatalogueImport {
    /// The file and the catalogue.
    #[command(flatten)]
    pub file: CatalogueFile,
    /// Blocks of up to 64 rows on their way at a time.
    #[arg(long, value_name = "N", default_value_t = 256)]
    pub blocks: usize,
    /// Leave out the comparison.
    #[arg(long)]
    pub no_check: bool,
}

/// Arguments of `messina catalogue operate`.
#[derive(Clone, Debug, Args)]
pub struct CatalogueOperate {
    /// What was imported.
    #[command(flatten)]
    pub generated: Generated,
    /// The catalogue.
    #[command(flatten)]
    pub server: CatalogueServer,
    /// Operations on their way at a time.
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub workers: usize,
    /// How long.
    #[arg(long, value_name = "S", default_value_t = 30)]
    pub seconds: u64,
    /// Decides what is done.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub load_seed: u64,
}

/// Arguments of `messina catalogue quota`.
#[derive(Clone, Debug, Args)]
pub struct CatalogueQuota {
    /// The catalogue.
    #[command(flatten)]
    pub server: CatalogueServer,
    /// Ranges of tokens that are read at a time.
    #[arg(long, value_name = "N", default_value_t = 16)]
    pub parallel: usize,
}

/// Arguments of `messina bench`.
#[derive(Debug, Args)]
pub struct Bench {
    /// What to do.
    #[command(subcommand)]
    pub command: BenchCommand,
}

/// What is done with published load tests.
#[derive(Clone, Debug, Subcommand)]
pub enum BenchCommand {
    /// Print their names, sizes and figures, and what is run of them.
    List(BenchList),
    /// Run one and write a report.
    Run(BenchRun),
}

/// Arguments of `messina bench list`.
#[derive(Clone, Debug, Args)]
pub struct BenchList {
    /// Print the command lines of one of them instead, as they were published.
    #[arg(long, value_name = "NAME")]
    pub lines: Option<String>,
}

/// Arguments of `messina bench run`.
#[derive(Clone, Debug, Args)]
pub struct BenchRun {
    /// Its name; see `messina bench list`.
    pub name: String,
    /// Share of the published size, 1 for all of it, or tiny; for one laptop unless given.
    #[arg(long, value_name = "F")]
    pub scale: Option<String>,
    /// The database.
    #[command(flatten)]
    pub database: Database,
    /// Where the nodes tell their metrics, for the report; 0: they are not asked.
    #[arg(long, value_name = "PORT", default_value_t = 9180)]
    pub metrics_port: u16,
    /// Where report, logs and graphs go.
    #[arg(long, value_name = "DIR", default_value = "bench-report")]
    pub folder: String,
}
