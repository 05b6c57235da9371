//! What a node is told: the keys of `cassandra.yaml` and `scylla.yaml` that have an effect here.
//!
//! A key nobody knows is a warning with its line; a value that makes no sense stops the start with
//! file, line, key and what was expected. The caller reads the file, so this module does no I/O.

use crate::{limits, units, yaml};
use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use core::time::Duration;
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
    /// This node's data centre.
    pub data_center: String,
    /// This node's rack.
    pub rack: String,
    /// The address other nodes connect to, and listened on.
    pub listen_address: IpAddr,
    /// The address other nodes are told.
    pub broadcast_address: Option<IpAddr>,
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
    /// The shard-aware port was named in the file: not getting it is then an error.
    pub shard_aware_port_required: bool,
    /// Where metrics are served; `None` serves none.
    pub prometheus: Option<(Option<IpAddr>, u16)>,
    /// The folder of data and of the node's identity.
    pub data_directory: PathBuf,
    /// The folder of the commitlog; inside the data folder unless given.
    pub commitlog_directory: Option<PathBuf>,
    /// When a write counts as logged.
    pub commitlog_sync: CommitlogSync,
    /// The size of a commitlog segment, in bytes.
    pub commitlog_segment_bytes: u64,
    /// Memory for memtables over all shards, in bytes; a share of the memory budget unless given.
    pub memtable_bytes: Option<u64>,
    /// The largest frame accepted, in bytes.
    pub frame_bytes_max: u64,
    /// How many client connections are served at once.
    pub connections_max: Option<u32>,
    /// How many requests one shard serves at once.
    pub requests_per_shard_max: Option<u32>,
    /// How long a single-partition read may take.
    pub read_timeout: Duration,
    /// How long a range read may take.
    pub range_timeout: Duration,
    /// How long a write may take.
    pub write_timeout: Duration,
    /// How long a truncation may take.
    pub truncate_timeout: Duration,
    /// The bytes after which a page is cut.
    pub page_bytes: u64,
    /// Batches above this many bytes carry a warning.
    pub batch_warn_bytes: u64,
    /// Batches above this many bytes are refused.
    pub batch_fail_bytes: u64,
    /// The other members, when the membership is fixed.
    pub peers: Vec<Peer>,
    /// Keys of the file with their text, as `system_views.settings` shows them.
    pub given: Vec<(String, String)>,
}

impl Config {
    /// What holds for everything no file names.
    pub fn standard(data_directory: PathBuf) -> Config {
        let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
        Config {
            cluster_name: "Test Cluster".into(),
            num_tokens: 16,
            host_id: None,
            initial_tokens: Vec::new(),
            data_center: "datacenter1".into(),
            rack: "rack1".into(),
            listen_address: loopback,
            broadcast_address: None,
            rpc_address: loopback,
            broadcast_rpc_address: None,
            storage_port: 7000,
            native_transport_port: 9042,
            shard_aware_port: Some(19042),
            shard_aware_port_required: false,
            prometheus: Some((None, 9180)),
            data_directory,
            commitlog_directory: None,
            commitlog_sync: CommitlogSync::Periodic(Duration::from_secs(10)),
            commitlog_segment_bytes: 32 << 20,
            memtable_bytes: None,
            frame_bytes_max: 16 << 20,
            connections_max: None,
            requests_per_shard_max: None,
            read_timeout: Duration::from_secs(5),
            range_timeout: Duration::from_secs(10),
            write_timeout: Duration::from_secs(2),
            truncate_timeout: Duration::from_secs(60),
            page_bytes: 1 << 20,
            batch_warn_bytes: 5 << 10,
            batch_fail_bytes: 50 << 10,
            peers: Vec::new(),
            given: Vec::new(),
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

    /// Reads the text of the file called `name` over `self`.
    ///
    /// Returns the warnings, each with its `file:line`.
    pub fn read(&mut self, name: &str, text: &str) -> Result<Vec<String>, ConfigError> {
        let document = yaml::parse(text).map_err(|m| ConfigError::Malformed {
            file: name.into(),
            line: m.line,
            reason: m.reason,
        })?;
        let entries = match document.value {
            yaml::Value::Map(entries) => entries,
            yaml::Value::Null => Vec::new(),
            _ => {
                return Err(ConfigError::Malformed {
                    file: name.into(),
                    line: document.line,
                    reason: "expected `key: value` lines".into(),
                });
            }
        };
        let mut sync = SyncKeys::default();
        let mut warnings = Vec::new();
        for entry in &entries {
            let key = Key { file: name, entry };
            let known = self.apply_network(&key)?
                || self.apply_storage(&key, &mut sync)?
                || self.apply_requests(&key)?
                || self.apply_membership(&key)?;
            if known {
                self.given.push((entry.key.clone(), key.text_or_empty()));
            } else {
                warnings.push(key.unknown());
            }
        }
        sync.finish(name, &mut self.commitlog_sync)?;
        if self.client_address().is_unspecified() {
            return Err(ConfigError::Wrong {
                file: name.into(),
                line: line_of(&entries, "rpc_address"),
                key: "rpc_address".into(),
                expected: "broadcast_rpc_address beside it, because clients cannot be told 0.0.0.0".into(),
                got: self.client_address().to_string(),
            });
        }
        Ok(warnings)
    }

    fn apply_network(&mut self, key: &Key) -> Result<bool, ConfigError> {
        match key.name() {
            "cluster_name" => self.cluster_name = key.text()?,
            "listen_address" => self.listen_address = key.address()?,
            "broadcast_address" => self.broadcast_address = Some(key.address()?),
            "rpc_address" => self.rpc_address = key.address()?,
            "broadcast_rpc_address" => self.broadcast_rpc_address = Some(key.address()?),
            "storage_port" => self.storage_port = key.port()?,
            "native_transport_port" => self.native_transport_port = key.port()?,
            "native_shard_aware_transport_port" => {
                let port = key.port()?;
                self.shard_aware_port = (port != 0).then_some(port);
                self.shard_aware_port_required = port != 0;
            }
            "prometheus_port" => {
                let port = key.port()?;
                let address = self.prometheus.and_then(|(address, _)| address);
                self.prometheus = (port != 0).then_some((address, port));
            }
            "prometheus_address" => {
                let address = key.address()?;
                let port = self.prometheus.map_or(9180, |(_, port)| port);
                self.prometheus = Some((Some(address), port));
            }
            "endpoint_snitch" => key.one_of(&["SimpleSnitch", "GossipingPropertyFileSnitch"])?,
            "partitioner" => {
                key.one_of(&["Murmur3Partitioner", "org.apache.cassandra.dht.Murmur3Partitioner"])?
            }
            "authenticator" => key.one_of(&["AllowAllAuthenticator"])?,
            "authorizer" => key.one_of(&["AllowAllAuthorizer"])?,
            "start_native_transport" => key.one_of(&["true"])?,
            "murmur3_partitioner_ignore_msb_bits" => key.one_of(&["0"])?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn apply_storage(&mut self, key: &Key, sync: &mut SyncKeys) -> Result<bool, ConfigError> {
        const MIB: u64 = 1 << 20;
        match key.name() {
            "data_file_directories" => self.data_directory = PathBuf::from(key.only_item()?),
            "workdir" => self.data_directory = PathBuf::from(key.text()?),
            "commitlog_directory" => self.commitlog_directory = Some(PathBuf::from(key.text()?)),
            "commitlog_sync" => {
                key.one_of(&["periodic", "batch", "group"])?;
                sync.mode = Some((key.text()?, key.entry.line));
            }
            "commitlog_sync_period" | "commitlog_sync_period_in_ms" => {
                sync.period = Some(key.duration()?);
            }
            "commitlog_sync_group_window" | "commitlog_sync_group_window_in_ms" => {
                sync.window = Some(key.duration()?);
            }
            // The batch window has had no effect in Cassandra since 2.2; it is accepted as there.
            "commitlog_sync_batch_window_in_ms" => drop(key.duration()?),
            "commitlog_segment_size" | "commitlog_segment_size_in_mb" => {
                self.commitlog_segment_bytes =
                    key.size(MIB, limits::SEGMENT_BYTES_MIN..=limits::SEGMENT_BYTES_MAX)?;
            }
            "memtable_heap_space"
            | "memtable_heap_space_in_mb"
            | "memtable_offheap_space"
            | "memtable_offheap_space_in_mb" => {
                let bytes = key.size(MIB, MIB..=u64::MAX)?;
                self.memtable_bytes = Some(self.memtable_bytes.unwrap_or(0).saturating_add(bytes));
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn apply_requests(&mut self, key: &Key) -> Result<bool, ConfigError> {
        match key.name() {
            "native_transport_max_frame_size" | "native_transport_max_frame_size_in_mb" => {
                self.frame_bytes_max =
                    key.size(1 << 20, limits::FRAME_BYTES_MIN..=limits::FRAME_BYTES_MAX)?;
            }
            "native_transport_max_concurrent_connections" => self.connections_max = key.bound()?,
            "max_concurrent_requests_per_shard" => self.requests_per_shard_max = key.bound()?,
            "read_request_timeout" | "read_request_timeout_in_ms" => {
                self.read_timeout = key.duration()?;
            }
            "range_request_timeout" | "range_request_timeout_in_ms" => {
                self.range_timeout = key.duration()?;
            }
            "write_request_timeout" | "write_request_timeout_in_ms" => {
                self.write_timeout = key.duration()?;
            }
            "truncate_request_timeout" | "truncate_request_timeout_in_ms" => {
                self.truncate_timeout = key.duration()?;
            }
            "query_page_size_in_bytes" => self.page_bytes = key.size(1, 1 << 10..=64 << 20)?,
            "batch_size_warn_threshold" | "batch_size_warn_threshold_in_kb" => {
                self.batch_warn_bytes = key.size(1 << 10, 1..=u64::MAX)?;
            }
            "batch_size_fail_threshold" | "batch_size_fail_threshold_in_kb" => {
                self.batch_fail_bytes = key.size(1 << 10, 1..=u64::MAX)?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn apply_membership(&mut self, key: &Key) -> Result<bool, ConfigError> {
        match key.name() {
            "num_tokens" => {
                self.num_tokens = key.number(1..=u64::from(limits::NUM_TOKENS_MAX))? as u32;
            }
            "initial_token" => self.initial_tokens = key.tokens()?,
            "host_id" => self.host_id = Some(key.uuid()?),
            "data_center" => self.data_center = key.text()?,
            "rack" => self.rack = key.text()?,
            "seed_provider" => {} // One node is its own seed; members come with the cluster.
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// The sync keys may come in any order and only make sense together.
#[derive(Default)]
struct SyncKeys {
    mode: Option<(String, usize)>,
    period: Option<Duration>,
    window: Option<Duration>,
}

impl SyncKeys {
    fn finish(self, file: &str, target: &mut CommitlogSync) -> Result<(), ConfigError> {
        let Some((mode, line)) = self.mode else {
            if let (Some(period), CommitlogSync::Periodic(_)) = (self.period, &*target) {
                *target = CommitlogSync::Periodic(period);
            }
            return Ok(());
        };
        let zero = self.period.or(self.window) == Some(Duration::ZERO);
        *target = match mode.as_str() {
            "periodic" => CommitlogSync::Periodic(self.period.unwrap_or(Duration::from_secs(10))),
            "batch" => CommitlogSync::Batch,
            _ => CommitlogSync::Group(self.window.unwrap_or(Duration::from_millis(1000))),
        };
        if zero && *target != CommitlogSync::Batch {
            return Err(ConfigError::Wrong {
                file: file.into(),
                line,
                key: "commitlog_sync".into(),
                expected: "a period or window above zero beside it".into(),
                got: "0".into(),
            });
        }
        Ok(())
    }
}

/// Why a configuration cannot be used. The node must not start; nothing has been touched.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The text is not YAML, or not of the shape of a configuration.
    #[error("{file}:{line}: {reason}")]
    Malformed {
        /// The file as named by the user.
        file: String,
        /// Counted from 1.
        line: usize,
        /// What is wrong.
        reason: String,
    },
    /// A known key has a value it cannot have.
    #[error("{file}:{line}: {key}: expected {expected}, got \"{got}\"")]
    Wrong {
        /// The file as named by the user.
        file: String,
        /// Counted from 1.
        line: usize,
        /// The key.
        key: String,
        /// What the key accepts.
        expected: String,
        /// What was found.
        got: String,
    },
}

struct Key<'a> {
    file: &'a str,
    entry: &'a yaml::Entry,
}

impl Key<'_> {
    fn name(&self) -> &str {
        &self.entry.key
    }

    fn unknown(&self) -> String {
        let (file, line, key) = (self.file, self.entry.line, &self.entry.key);
        format!("{file}:{line}: key \"{key}\" is not known and has no effect")
    }

    fn text_or_empty(&self) -> String {
        match &self.entry.value.value {
            yaml::Value::Scalar(text) => text.clone(),
            yaml::Value::List(items) => {
                let texts: Vec<&str> = items.iter().filter_map(scalar).collect();
                texts.join(", ")
            }
            yaml::Value::Null | yaml::Value::Map(_) => String::new(),
        }
    }

    fn wrong<T>(&self, expected: impl Into<String>) -> Result<T, ConfigError> {
        Err(ConfigError::Wrong {
            file: self.file.into(),
            line: self.entry.line,
            key: self.entry.key.clone(),
            expected: expected.into(),
            got: self.text_or_empty(),
        })
    }

    /// A text, or the `class_name` of a map, as newer files name classes.
    fn text(&self) -> Result<String, ConfigError> {
        let value = match &self.entry.value.value {
            yaml::Value::Map(entries) => entries.iter().find(|e| e.key == "class_name").map(|e| &e.value),
            _ => Some(&self.entry.value),
        };
        match value.and_then(scalar) {
            Some(text) if !text.is_empty() => Ok(text.into()),
            _ => self.wrong("text"),
        }
    }

    fn only_item(&self) -> Result<String, ConfigError> {
        match &self.entry.value.value {
            yaml::Value::Scalar(text) if !text.is_empty() => Ok(text.clone()),
            yaml::Value::List(items) if items.len() == 1 => match scalar(&items[0]) {
                Some(text) if !text.is_empty() => Ok(text.into()),
                _ => self.wrong("one folder"),
            },
            _ => self.wrong("exactly one folder"),
        }
    }

    fn one_of(&self, choices: &[&str]) -> Result<(), ConfigError> {
        let text = self.text()?;
        if choices.contains(&text.as_str()) {
            return Ok(());
        }
        self.wrong(choices.join(" or "))
    }

    fn address(&self) -> Result<IpAddr, ConfigError> {
        let text = self.text()?;
        if text == "localhost" {
            return Ok(IpAddr::V4(Ipv4Addr::LOCALHOST));
        }
        text.parse().or_else(|_| self.wrong("an IP address or localhost"))
    }

    fn number(&self, range: core::ops::RangeInclusive<u64>) -> Result<u64, ConfigError> {
        match self.text()?.parse::<u64>() {
            Ok(n) if range.contains(&n) => Ok(n),
            _ => self.wrong(format!("a number from {} to {}", range.start(), range.end())),
        }
    }

    fn port(&self) -> Result<u16, ConfigError> {
        Ok(self.number(0..=65535)? as u16)
    }

    /// A count where -1 and the like mean "no limit".
    fn bound(&self) -> Result<Option<u32>, ConfigError> {
        match self.text()?.parse::<i64>() {
            Ok(n) if n < 0 => Ok(None),
            Ok(n) if n > 0 && n <= i64::from(u32::MAX) => Ok(Some(n as u32)),
            _ => self.wrong("a count above zero, or -1 for no limit"),
        }
    }

    fn duration(&self) -> Result<Duration, ConfigError> {
        units::duration(&self.text()?, Duration::from_millis(1))
            .map_or_else(|| self.wrong("a duration such as 10s or 500ms"), Ok)
    }

    fn size(&self, bare: u64, range: core::ops::RangeInclusive<u64>) -> Result<u64, ConfigError> {
        match units::size(&self.text()?, bare) {
            None => self.wrong("a size such as 64MiB"),
            Some(bytes) if range.contains(&bytes) => Ok(bytes),
            Some(_) if *range.end() == u64::MAX => {
                self.wrong(format!("a size of at least {} bytes", range.start()))
            }
            Some(_) => {
                let (start, end) = (range.start(), range.end());
                self.wrong(format!("a size from {start} to {end} bytes"))
            }
        }
    }

    fn tokens(&self) -> Result<Vec<i64>, ConfigError> {
        let text = match &self.entry.value.value {
            yaml::Value::Null => return Ok(Vec::new()),
            _ => self.text_or_empty(),
        };
        let tokens: Result<Vec<i64>, _> = text.split(',').map(|t| t.trim().parse()).collect();
        match tokens {
            Ok(tokens) if tokens.len() <= limits::NUM_TOKENS_MAX as usize => Ok(tokens),
            _ => self.wrong("tokens between -2^63 and 2^63-1 with commas between them"),
        }
    }

    fn uuid(&self) -> Result<u128, ConfigError> {
        match uuid::Uuid::parse_str(&self.text()?) {
            Ok(id) => Ok(id.as_u128()),
            Err(_) => self.wrong("a uuid"),
        }
    }
}

fn scalar(node: &yaml::Node) -> Option<&str> {
    match &node.value {
        yaml::Value::Scalar(text) => Some(text),
        _ => None,
    }
}

fn line_of(entries: &[yaml::Entry], key: &str) -> usize {
    let found = entries.iter().find(|e| e.key == key);
    found.map_or(1, |e| e.line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<(Config, Vec<String>), ConfigError> {
        let mut config = Config::standard("data".into());
        let warnings = config.read("node.yaml", text)?;
        Ok((config, warnings))
    }

    #[test]
    fn both_dialects_of_keys_are_read() {
        let (c, warnings) = read(
            "cluster_name: 'My Cluster'\nread_request_timeout: 7s\nwrite_request_timeout_in_ms: 900\n\
             commitlog_segment_size_in_mb: 64\ncommitlog_sync: batch\ndata_file_directories:\n    - /d\n\
             native_transport_max_frame_size: 32MiB\nnative_transport_max_concurrent_connections: -1\n",
        )
        .unwrap();
        assert_eq!(warnings, Vec::<String>::new());
        assert_eq!(c.cluster_name, "My Cluster");
        assert_eq!(c.read_timeout, Duration::from_secs(7));
        assert_eq!(c.write_timeout, Duration::from_millis(900));
        assert_eq!(c.commitlog_segment_bytes, 64 << 20);
        assert_eq!(c.commitlog_sync, CommitlogSync::Batch);
        assert_eq!(c.data_directory, PathBuf::from("/d"));
        assert_eq!(c.frame_bytes_max, 32 << 20);
        assert_eq!(c.connections_max, None);
    }

    #[test]
    fn what_cassandra_ships_is_taken() {
        let (c, warnings) = read(
            "cluster_name: 'Test Cluster'\nnum_tokens: 16\nauthenticator:\n  class_name : AllowAllAuthenticator\n\
             authorizer:\n  class_name : AllowAllAuthorizer\npartitioner: org.apache.cassandra.dht.Murmur3Partitioner\n\
             commitlog_sync: periodic\ncommitlog_sync_period: 10000ms\ncommitlog_segment_size: 32MiB\n\
             seed_provider:\n  - class_name: org.apache.cassandra.locator.SimpleSeedProvider\n    parameters:\n      - seeds: \"127.0.0.1:7000\"\n\
             storage_port: 7000\nlisten_address: localhost\nstart_native_transport: true\nnative_transport_port: 9042\n\
             rpc_address: localhost\nendpoint_snitch: SimpleSnitch\ninitial_token:\n",
        )
        .unwrap();
        assert_eq!(warnings, Vec::<String>::new());
        assert_eq!(c.listen_address, IpAddr::V4(Ipv4Addr::LOCALHOST));
        assert!(read("authenticator:\n  class_name: PasswordAuthenticator\n").is_err());
    }

    #[test]
    fn unknown_keys_warn_with_their_line() {
        let (_, warnings) = read("cluster_name: a\n\nhinted_handof: true\n").unwrap();
        assert_eq!(warnings, ["node.yaml:3: key \"hinted_handof\" is not known and has no effect"]);
    }

    #[test]
    fn wrong_values_name_file_line_key_and_expectation() {
        let cases = [
            (
                "a: 1\nstorage_port: 70000\n",
                "node.yaml:2: storage_port: expected a number from 0 to 65535, got \"70000\"",
            ),
            (
                "commitlog_sync: sometimes",
                "node.yaml:1: commitlog_sync: expected periodic or batch or group, got \"sometimes\"",
            ),
            (
                "rpc_address: nowhere.example",
                "node.yaml:1: rpc_address: expected an IP address or localhost, got \"nowhere.example\"",
            ),
            (
                "read_request_timeout: soon",
                "node.yaml:1: read_request_timeout: expected a duration such as 10s or 500ms, got \"soon\"",
            ),
            (
                "data_file_directories: [/a, /b]",
                "node.yaml:1: data_file_directories: expected exactly one folder, got \"/a, /b\"",
            ),
            ("num_tokens: 0", "node.yaml:1: num_tokens: expected a number from 1 to 256, got \"0\""),
            (
                "authenticator: PasswordAuthenticator",
                "node.yaml:1: authenticator: expected AllowAllAuthenticator, got \"PasswordAuthenticator\"",
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(read(text).unwrap_err().to_string(), expected);
        }
    }

    #[test]
    fn an_unspecified_client_address_needs_a_broadcast_one() {
        assert!(read("rpc_address: 0.0.0.0\n").is_err());
        assert!(read("rpc_address: 0.0.0.0\nbroadcast_rpc_address: 10.0.0.1\n").is_ok());
    }

    #[test]
    fn sync_keys_come_in_any_order() {
        let (c, _) = read("commitlog_sync_period: 200ms\ncommitlog_sync: periodic\n").unwrap();
        assert_eq!(c.commitlog_sync, CommitlogSync::Periodic(Duration::from_millis(200)));
        let (c, _) = read("commitlog_sync: group\ncommitlog_sync_group_window: 5ms\n").unwrap();
        assert_eq!(c.commitlog_sync, CommitlogSync::Group(Duration::from_millis(5)));
        assert!(read("commitlog_sync: group\ncommitlog_sync_group_window: 0ms\n").is_err());
    }
}
