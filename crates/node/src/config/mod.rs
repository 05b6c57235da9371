//! What a node is told: every key of `cassandra.yaml` 5.0 and `scylla.yaml`, from file, environment and command line.
//!
//! ```text
//! standard ─▶ file ─▶ environment (MESSINA_KEY) ─▶ command line (--set key=value)      later ones win
//! ```
//! A key nobody knows is a warning with its line and the nearest known name; a value that makes no sense stops the start
//! with its place, the key and what was expected. The caller reads file and environment: no I/O here.

/// What a key can be set to.
mod value;
/// Why a configuration cannot be used, and where a value comes from.
mod error;
/// Names from before Cassandra 4.1.
mod old_names;
/// What is asked of clients.
mod clients;
/// Encryption between nodes.
mod internode;
/// What is kept for nodes that are down.
mod hints;
/// Every key.
mod keys;
/// From text to a configuration.
mod read;
/// What holds, as text.
mod report;
#[cfg(test)]
mod tests;

pub use clients::ClientRules;
pub use cluster::Replaced;
pub use error::{ConfigError, Source};
pub use hints::HintRules;
pub use internode::{InternodeEncryption, InternodeRules, Place};
pub use query::Authenticator;
pub use read::ENVIRONMENT_PREFIX;
pub use report::document;
pub use storage::{CommitFailurePolicy, DiskFailurePolicy};

use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use core::time::Duration;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// When a write counts as logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommitlogSync {
    /// Acknowledged before the sync; the log is synced this often.
    Periodic(Duration),
    /// Acknowledged after a sync that starts as soon as the device is free.
    Batch,
    /// Acknowledged after a sync; syncs are at least this far apart.
    Group(Duration),
}

/// One member of a fixed membership.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// The member's identity.
    pub host_id: u128,
    /// Where nodes reach it, with the storage port.
    pub address: SocketAddr,
    /// Where clients reach it.
    pub native_address: SocketAddr,
    /// Its tokens; never empty.
    pub tokens: Vec<i64>,
    /// How many shards it runs.
    pub shards: u16,
    /// Its data centre.
    pub data_center: String,
    /// Its rack.
    pub rack: String,
}

/// A node that others ask where the cluster is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seed {
    /// Its name or address.
    pub host: String,
    /// Its port between nodes; this node's own where none is given.
    pub port: Option<u16>,
}

/// Everything a node is told at its start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The name drivers compare between nodes.
    pub cluster_name: String,
    /// How many tokens a new node takes.
    pub num_tokens: u32,
    /// This node's identity, when it is given instead of drawn on the first start.
    pub host_id: Option<u128>,
    /// This node's tokens, when they are given instead of derived from the identity.
    pub initial_tokens: Vec<i64>,
    /// Where a node without a cluster asks for one.
    pub seeds: Vec<Seed>,
    /// Whether a node that joins must find the cluster without user data, as none can be brought to it yet.
    pub auto_bootstrap: bool,
    /// The dead member whose place this node takes at its first start.
    pub replaces: Option<cluster::Replaced>,
    /// This node's data centre.
    pub data_center: String,
    /// This node's rack.
    pub rack: String,
    /// The address other nodes connect to, and listened on.
    pub listen_address: IpAddr,
    /// The address other nodes are told.
    pub broadcast_address: Option<IpAddr>,
    /// Whether that one is listened on, too.
    pub listen_on_broadcast: bool,
    /// The address clients connect to, and listened on.
    pub rpc_address: IpAddr,
    /// The address clients are told.
    pub broadcast_rpc_address: Option<IpAddr>,
    /// The port between nodes; nothing listens on it without members.
    pub storage_port: u16,
    /// The port of the native protocol; 0 takes a free one.
    pub native_transport_port: u16,
    /// The shard-aware port; `None` serves none.
    pub shard_aware_port: Option<u16>,
    /// Where metrics are served; `None` serves none.
    pub prometheus: Option<(Option<IpAddr>, u16)>,
    /// The folder of data and of the node's identity.
    pub data_directory: PathBuf,
    /// The folder of the commitlog; inside the data folder unless given.
    pub commitlog_directory: Option<PathBuf>,
    /// When a write counts as logged.
    pub commitlog_sync: CommitlogSync,
    /// How long a write that is not on the disk yet may be so before others wait; one and a half periods unless given.
    pub commitlog_sync_lag: Option<Duration>,
    /// Entries of the log that cannot be read are left out at a start, which otherwise ends.
    pub ignore_replay_errors: bool,
    /// The size of a commitlog segment, in bytes.
    pub commitlog_segment_bytes: u64,
    /// The size of the log over all shards at which flushes start, in bytes; derived from memory unless given.
    pub commitlog_bytes: Option<u64>,
    /// Memory for memtables over all shards, in bytes; a share of the memory budget unless given.
    pub memtable_bytes: Option<u64>,
    /// Memory for chunks of sstables over all shards, in bytes; a share of the memory budget unless given.
    pub file_cache_bytes: Option<u64>,
    /// Memory for pages of sstables' indexes, on top of that for chunks, in bytes.
    pub key_cache_bytes: u64,
    /// Sstables are read through the kernel's page cache, too.
    pub buffered_reads: bool,
    /// What each device may be asked for by all shards together.
    pub device_limits: runtime::io::DeviceLimits,
    /// Tables are compacted without being asked.
    pub auto_compaction: bool,
    /// Stored bytes per second that compactions over all shards may read; 0 is no limit.
    pub compaction_throughput: u64,
    /// Compactions over all shards that run at once; two on each shard unless given.
    pub concurrent_compactors: Option<u32>,
    /// How much of the free space compactions may take.
    pub compaction_room: storage::CompactionRoom,
    /// `compaction` of tables that are made without a choice; `None`: that of Cassandra 4.
    pub default_compaction: Option<BTreeMap<String, String>>,
    /// Whether ALTER TABLE … DROP COMPACT STORAGE is allowed.
    pub drop_compact_storage: bool,
    /// The largest frame accepted, in bytes.
    pub frame_bytes_max: u64,
    /// How many client connections are served at once.
    pub connections_max: Option<u32>,
    /// How many requests one shard serves at once.
    pub requests_per_shard_max: Option<u32>,
    /// What is asked of clients.
    pub clients: ClientRules,
    /// How nodes speak with each other.
    pub internode: InternodeRules,
    /// What is kept for nodes that are down.
    pub hints: HintRules,
    /// How replicas that answer slowly are avoided.
    pub dynamic_snitch: coordinator::SnitchRules,
    /// Who is let in.
    pub authentication: query::Authentication,
    /// What those who were let in may do.
    pub authorization: query::Authorization,
    /// How long a single-partition read may take.
    pub read_timeout: Duration,
    /// How long a range read may take.
    pub range_timeout: Duration,
    /// How long a write may take.
    pub write_timeout: Duration,
    /// `counter_write_request_timeout`: how long a write of counters may take.
    pub counter_write_timeout: Duration,
    /// How long a lightweight transaction may give way to others of its partition.
    pub cas_contention_timeout: Duration,
    /// How long a truncation may take.
    pub truncate_timeout: Duration,
    /// Requests that take longer are written to the log; zero writes none.
    pub slow_query_timeout: Duration,
    /// The bytes after which a page is cut.
    pub page_bytes: u64,
    /// Batches above this many bytes carry a warning.
    pub batch_warn_bytes: u64,
    /// Unlogged batches of more partitions carry a warning.
    pub batch_warn_partitions: u32,
    /// Batches above this many bytes are refused.
    pub batch_fail_bytes: u64,
    /// Bytes of the row cache of the node; unset or 0: a share of its memory.
    pub row_cache_bytes: Option<u64>,
    /// More tombstones in one page are worth a warning.
    pub tombstone_warn: u32,
    /// More tombstones in one page end the read.
    pub tombstone_fail: u32,
    /// With so many a page ends that a client can continue.
    pub page_tombstones: u32,
    /// How new sstables are written.
    pub sstable_format: storage::SstableFormat,
    /// What of its table's compression the sstable of a flush takes.
    pub flush_compression: storage::CompressionChoice,
    /// What is dropped or truncated is kept as a snapshot.
    pub auto_snapshot: bool,
    /// Milliseconds until such a snapshot goes by itself; `None`: it stays.
    pub auto_snapshot_ttl_ms: Option<i64>,
    /// Whether sstables that flushes make are linked into `backups`.
    pub incremental_backups: bool,
    /// What happens when files of tables cannot be read or written.
    pub disk_failure: storage::DiskFailurePolicy,
    /// What happens when the commitlog cannot be written or synced.
    pub commit_failure: storage::CommitFailurePolicy,
    /// Largest write, bytes; `None`: half a commitlog segment.
    pub mutation_bytes_max: Option<u64>,
    /// Where the REST API is served.
    pub api_address: IpAddr,
    /// The port of the REST API; `None` serves none.
    pub api_port: Option<u16>,
    /// Which log lines are written.
    pub log_levels: runtime::log::Levels,
    /// Log lines are JSON objects.
    pub log_json: bool,
    /// The other members, when the membership is fixed.
    pub peers: Vec<Peer>,
    given: BTreeMap<&'static str, Given>,
    pieces: Pieces,
}

/// A key that somebody set.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Given {
    text: String,
    source: Source,
}

/// Values that only make sense together; `Config::finish` puts them together, whatever their order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Pieces {
    mode: Option<String>,
    period: Option<Duration>,
    window: Option<Duration>,
    data: Option<PathBuf>,
    workdir: Option<PathBuf>,
    memtable_heap: Option<u64>,
    memtable_offheap: Option<u64>,
    compaction_class: Option<String>,
    compaction_parameters: String,
    prometheus_address: Option<IpAddr>,
    prometheus_port: Option<u16>,
    log_level: Option<String>,
    log_levels: Option<runtime::log::Levels>,
    loggers: Vec<(String, String)>,
    sstable_format: Option<storage::SstableFormat>,
    for_cassandra_4: bool,
    listen_interface: Option<String>,
    listen_prefers_ipv6: bool,
    rpc_interface: Option<String>,
    rpc_prefers_ipv6: bool,
}

impl Config {
    /// What holds for everything nobody sets.
    pub fn standard(data_directory: PathBuf) -> Config {
        let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
        Config {
            cluster_name: "Test Cluster".into(),
            num_tokens: 16,
            host_id: None,
            initial_tokens: Vec::new(),
            seeds: Vec::new(),
            auto_bootstrap: true,
            replaces: None,
            data_center: "datacenter1".into(),
            rack: "rack1".into(),
            listen_address: loopback,
            broadcast_address: None,
            listen_on_broadcast: false,
            rpc_address: loopback,
            broadcast_rpc_address: None,
            storage_port: 7000,
            native_transport_port: 9042,
            shard_aware_port: Some(19042),
            prometheus: Some((None, 9180)),
            data_directory,
            commitlog_directory: None,
            commitlog_sync: CommitlogSync::Periodic(Duration::from_secs(10)),
            commitlog_sync_lag: None,
            ignore_replay_errors: false,
            commitlog_segment_bytes: 32 << 20,
            commitlog_bytes: None,
            memtable_bytes: None,
            file_cache_bytes: None,
            key_cache_bytes: 0,
            buffered_reads: false,
            device_limits: runtime::io::DeviceLimits::default(),
            auto_compaction: true,
            compaction_throughput: 64 << 20,
            concurrent_compactors: None,
            compaction_room: storage::CompactionRoom::CASSANDRA,
            default_compaction: Some(unified()),
            drop_compact_storage: false,
            frame_bytes_max: 16 << 20,
            connections_max: None,
            requests_per_shard_max: None,
            clients: ClientRules::standard(),
            internode: InternodeRules::standard(),
            hints: HintRules::standard(),
            dynamic_snitch: coordinator::SnitchRules::STANDARD,
            authentication: query::Authentication::STANDARD,
            authorization: query::Authorization::NONE,
            read_timeout: Duration::from_secs(5),
            range_timeout: Duration::from_secs(10),
            write_timeout: Duration::from_secs(2),
            counter_write_timeout: Duration::from_secs(5),
            cas_contention_timeout: Duration::from_millis(1_800),
            truncate_timeout: Duration::from_secs(60),
            slow_query_timeout: Duration::from_millis(500),
            page_bytes: 1 << 20,
            batch_warn_bytes: 5 << 10,
            batch_warn_partitions: 10,
            batch_fail_bytes: 50 << 10,
            row_cache_bytes: None,
            tombstone_warn: 1_000,
            tombstone_fail: 100_000,
            page_tombstones: 10_000,
            sstable_format: storage::SstableFormat::Bti,
            flush_compression: storage::CompressionChoice::Fast,
            auto_snapshot: true,
            auto_snapshot_ttl_ms: None,
            incremental_backups: false,
            disk_failure: storage::DiskFailurePolicy::Stop,
            commit_failure: storage::CommitFailurePolicy::Stop,
            mutation_bytes_max: None,
            api_address: loopback,
            api_port: Some(10_000),
            log_levels: runtime::log::Levels::default(),
            log_json: false,
            peers: Vec::new(),
            given: BTreeMap::new(),
            pieces: Pieces::default(),
        }
    }

    /// The address other nodes are told.
    pub fn internode_address(&self) -> IpAddr {
        self.broadcast_address.unwrap_or(self.listen_address)
    }

    /// The address clients are told.
    pub fn client_address(&self) -> IpAddr {
        self.broadcast_rpc_address.unwrap_or(self.rpc_address)
    }

    /// The addresses listened on for other nodes, each once.
    pub fn internode_listeners(&self) -> Vec<IpAddr> {
        let told =
            self.broadcast_address.filter(|told| self.listen_on_broadcast && *told != self.listen_address);
        std::iter::once(self.listen_address).chain(told).collect()
    }

    /// Has somebody set the key? Not getting a port that was asked for by name is an error.
    pub fn is_given(&self, key: &str) -> bool {
        self.given.contains_key(key)
    }
}

/// What tables are compacted by when neither they nor the operator say: what `cassandra_latest.yaml` says.
fn unified() -> BTreeMap<String, String> {
    let options = [
        ("class", "org.apache.cassandra.db.compaction.UnifiedCompactionStrategy"),
        ("max_sstables_to_compact", "64"),
        ("min_sstable_size", "100MiB"),
        ("scaling_parameters", "T4"),
        ("sstable_growth", "0.3333333333333333"),
        ("target_sstable_size", "1GiB"),
    ];
    options.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// Reads `info,storage=debug`.
/// Errors: what was expected.
fn log_levels(text: &str) -> Result<runtime::log::Levels, String> {
    let expected = "levels such as info or info,storage=debug (trace, debug, info, warn, error)";
    text.parse().map_err(|_| expected.into())
}
