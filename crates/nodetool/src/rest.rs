//! The node's values, typed. Names and shapes are ScyllaDB's where it has an endpoint, and `/messina/…` where Cassandra's
//! screens need what those lack.
//!
//! Sizes are bytes, times microseconds unless a name says otherwise. What an answer leaves out is zero or empty.

use crate::error::Error;
use crate::http::{self, Endpoint};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;

/// One entry of a map.
#[derive(Debug, Clone, Deserialize)]
pub struct Pair<V> {
    /// Its name.
    pub key: String,
    /// Its value.
    pub value: V,
}

/// A histogram in Cassandra's buckets.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Histogram {
    /// Values seen.
    pub count: u64,
    /// Their sum.
    pub total: f64,
    /// The smallest bucket's bound.
    #[serde(deserialize_with = "number")]
    pub min: f64,
    /// The largest bucket's bound.
    #[serde(deserialize_with = "number")]
    pub max: f64,
    /// Their mean; NaN of none.
    #[serde(deserialize_with = "number")]
    pub mean: f64,
    /// Percentiles.
    #[serde(deserialize_with = "number")]
    pub p50: f64,
    /// See above.
    #[serde(deserialize_with = "number")]
    pub p75: f64,
    /// See above.
    #[serde(deserialize_with = "number")]
    pub p95: f64,
    /// See above.
    #[serde(deserialize_with = "number")]
    pub p98: f64,
    /// See above.
    #[serde(deserialize_with = "number")]
    pub p99: f64,
}

impl Histogram {
    /// The rows of a histogram screen: 50, 75, 95, 98, 99 percent, smallest, largest.
    pub fn rows(&self) -> [f64; 7] {
        [self.p50, self.p75, self.p95, self.p98, self.p99, self.min, self.max]
    }
}

fn number<'de, D: Deserializer<'de>>(source: D) -> Result<f64, D::Error> {
    Ok(Option::<f64>::deserialize(source)?.unwrap_or(f64::NAN))
}

fn or_empty<'de, D: Deserializer<'de>>(source: D) -> Result<Histogram, D::Error> {
    Ok(Option::deserialize(source)?.unwrap_or_default())
}

/// One table and what it has done.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "the names are those that tablestats prints")]
pub struct Table {
    pub keyspace: String,
    pub table: String,
    pub sstable_count: u64,
    pub old_sstable_count: u64,
    pub max_sstable_bytes: u64,
    pub shards: u64,
    pub sstables_per_level: Vec<u64>,
    pub sstable_bytes_per_level: Vec<u64>,
    pub space_live: u64,
    pub space_total: u64,
    pub space_snapshots: u64,
    pub uncompressed_bytes: u64,
    #[serde(deserialize_with = "number")]
    pub compression_ratio: f64,
    pub partitions_estimate: u64,
    pub memtable_cells: u64,
    pub memtable_data_bytes: u64,
    pub memtable_off_heap_bytes: u64,
    pub memtable_switches: u64,
    pub speculative_retries: u64,
    pub read: Histogram,
    pub write: Histogram,
    pub pending_flushes: u64,
    #[serde(deserialize_with = "number")]
    pub percent_repaired: f64,
    pub bytes_repaired: u64,
    pub bytes_unrepaired: u64,
    pub bytes_pending_repair: u64,
    pub bloom_false_positives: u64,
    #[serde(deserialize_with = "number")]
    pub bloom_false_ratio: f64,
    pub bloom_space: u64,
    pub bloom_off_heap: u64,
    pub index_summary_off_heap: u64,
    pub compression_metadata_off_heap: u64,
    pub partition_min: u64,
    pub partition_max: u64,
    pub partition_mean: u64,
    pub live_per_slice: Histogram,
    pub tombstones_per_slice: Histogram,
    pub sstables_per_read: Histogram,
    pub dropped_mutations: u64,
    #[serde(deserialize_with = "number")]
    pub droppable_tombstone_ratio: f64,
    #[serde(deserialize_with = "or_empty")]
    pub partition_sizes: Histogram,
    #[serde(deserialize_with = "or_empty")]
    pub partition_cells: Histogram,
}

impl Table {
    /// Memory beside the heap, as Cassandra counts it.
    pub fn off_heap_bytes(&self) -> u64 {
        self.memtable_off_heap_bytes
            + self.bloom_off_heap
            + self.index_summary_off_heap
            + self.compression_metadata_off_heap
    }

    /// `keyspace.table`.
    pub fn full_name(&self) -> String {
        format!("{}.{}", self.keyspace, self.table)
    }
}

/// A keyspace and a table of it.
#[derive(Debug, Clone, Deserialize)]
pub struct TableName {
    /// The keyspace.
    pub ks: String,
    /// The table.
    pub cf: String,
}

/// A running compaction.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "the names are the columns")]
pub struct Running {
    pub id: Option<String>,
    pub ks: String,
    pub cf: String,
    pub completed: u64,
    pub total: u64,
    pub task_type: String,
    pub unit: String,
}

/// Tasks that wait in one table.
#[derive(Debug, Clone, Deserialize)]
#[allow(missing_docs, reason = "the names are the columns")]
pub struct Pending {
    pub ks: String,
    pub cf: String,
    pub task: u64,
}

/// A finished compaction.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "the names are the columns")]
pub struct Finished {
    pub id: String,
    pub ks: String,
    pub cf: String,
    /// Milliseconds since the epoch.
    pub compacted_at: i64,
    pub bytes_in: u64,
    pub bytes_out: u64,
    pub rows_merged: Vec<Merged>,
    pub compaction_type: Option<String>,
}

/// So many partitions were merged from so many sstables.
#[derive(Debug, Clone, Deserialize)]
#[allow(missing_docs, reason = "a map's entry")]
pub struct Merged {
    pub key: u64,
    pub value: u64,
}

/// What the node's compactions have done since its start.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "the names are the rows of compactionstats")]
pub struct Compactions {
    pub concurrent_compactors: u64,
    pub completed: u64,
    pub bytes_compacted: u64,
    pub aborted: u64,
    pub reduced: u64,
    pub sstables_dropped: u64,
    /// Per second.
    pub rate_15m: f64,
    /// Per second.
    pub mean_rate: f64,
}

/// One table in a snapshot.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "the names are the columns")]
pub struct InSnapshot {
    pub ks: String,
    pub cf: String,
    /// Bytes that would be free without the snapshot.
    pub live: u64,
    /// Bytes of its files.
    pub total: u64,
    /// Milliseconds since the epoch.
    pub created_at: Option<i64>,
    /// Milliseconds since the epoch.
    pub expires_at: Option<i64>,
}

/// Who holds a range of tokens.
#[derive(Debug, Clone, Deserialize)]
#[allow(missing_docs, reason = "the names are what describering prints")]
pub struct TokenRange {
    pub start_token: String,
    pub end_token: String,
    pub endpoints: Vec<String>,
    pub rpc_endpoints: Vec<String>,
    pub endpoint_details: Vec<EndpointDetails>,
}

/// Where an endpoint is.
#[derive(Debug, Clone, Deserialize)]
#[allow(missing_docs, reason = "the names are what describering prints")]
pub struct EndpointDetails {
    pub host: String,
    pub datacenter: String,
    pub rack: String,
}

/// A group of tasks, Cassandra's thread pool.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "the names are the columns of tpstats")]
pub struct Pool {
    pub name: String,
    pub active: u64,
    pub pending: u64,
    pub completed: u64,
    pub blocked: u64,
    pub blocked_all_time: u64,
}

/// Messages of one kind that were dropped.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "the names are the columns of tpstats")]
pub struct Dropped {
    pub message: String,
    pub dropped: u64,
    pub p50: f64,
    pub p95: f64,
    pub p99: f64,
    pub max: f64,
}

/// One client's connection.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "the names are the columns of clientstats")]
pub struct Client {
    pub address: String,
    pub port: u16,
    pub ssl: bool,
    pub cipher: Option<String>,
    pub protocol: Option<String>,
    pub version: u32,
    pub user: String,
    pub keyspace: Option<String>,
    pub requests: u64,
    pub driver_name: Option<String>,
    pub driver_version: Option<String>,
    pub options: BTreeMap<String, String>,
}

/// The node, asked over REST.
#[derive(Debug, Clone)]
pub struct Node {
    endpoint: Endpoint,
}

impl Node {
    /// The node behind an endpoint; nothing is sent yet.
    pub fn new(endpoint: Endpoint) -> Node {
        Node { endpoint }
    }

    /// Makes sure that a node is there. Errors: `Connect`.
    pub fn greet(&self) -> Result<(), Error> {
        http::greet(&self.endpoint, "/storage_service/release_version")
    }

    /// Asks for a value.
    pub fn get<V: DeserializeOwned>(&self, path: &str, parameters: &[(&str, &str)]) -> Result<V, Error> {
        let body = http::ask(&self.endpoint, "GET", path, parameters)?;
        serde_json::from_slice(&body)
            .map_err(|error| Error::Failed(format!("{path}: an answer that is not understood: {error}")))
    }

    /// Asks for a value that a node may not have.
    pub fn get_if<V: DeserializeOwned + Default>(&self, path: &str) -> Result<V, Error> {
        match self.get(path, &[]) {
            Err(error) if error.is_not_found() => Ok(V::default()),
            result => result,
        }
    }

    /// Asks for something to be done.
    pub fn post(&self, path: &str, parameters: &[(&str, &str)]) -> Result<(), Error> {
        http::ask(&self.endpoint, "POST", path, parameters).map(drop)
    }

    /// Asks for something to be done that has an answer.
    pub fn post_for<V: DeserializeOwned>(&self, path: &str, parameters: &[(&str, &str)]) -> Result<V, Error> {
        let body = http::ask(&self.endpoint, "POST", path, parameters)?;
        serde_json::from_slice(&body)
            .map_err(|error| Error::Failed(format!("{path}: an answer that is not understood: {error}")))
    }

    /// Asks for something to be undone.
    pub fn delete(&self, path: &str, parameters: &[(&str, &str)]) -> Result<(), Error> {
        http::ask(&self.endpoint, "DELETE", path, parameters).map(drop)
    }

    /// Every keyspace, those of the system too.
    pub fn keyspaces(&self) -> Result<Vec<String>, Error> {
        self.get("/storage_service/keyspaces", &[("type", "all")])
    }

    /// Every table, by keyspace and name.
    pub fn table_names(&self) -> Result<Vec<TableName>, Error> {
        let mut names: Vec<TableName> = self.get("/column_family/", &[])?;
        names.sort_by(|left, right| (&left.ks, &left.cf).cmp(&(&right.ks, &right.cf)));
        Ok(names)
    }

    /// Every table with its numbers, by keyspace and name.
    pub fn tables(&self) -> Result<Vec<Table>, Error> {
        let mut tables: Vec<Table> = self.get("/messina/tables", &[])?;
        tables.sort_by(|left, right| (&left.keyspace, &left.table).cmp(&(&right.keyspace, &right.table)));
        Ok(tables)
    }

    /// How each keyspace is replicated: class and options.
    pub fn replication(&self) -> Result<Vec<Pair<BTreeMap<String, String>>>, Error> {
        self.get("/messina/replication", &[])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_is_nothing_and_null_is_not_a_number() {
        let table: Table = serde_json::from_str(
            r#"{"keyspace":"shop","table":"visits","bloom_off_heap":32,"index_summary_off_heap":18,
                "compression_metadata_off_heap":8,"partition_sizes":null,"read":{"count":2,"mean":null,"p50":258.0},"new_key":[1]}"#,
        )
        .unwrap();
        assert_eq!((table.full_name().as_str(), table.off_heap_bytes()), ("shop.visits", 58));
        assert!(table.read.mean.is_nan() && table.read.p50 == 258.0 && table.write.count == 0);
    }

    #[test]
    fn an_answer_of_the_wrong_kind_is_an_error() {
        assert!(serde_json::from_str::<Vec<Table>>("{}").is_err());
        assert!(serde_json::from_str::<Finished>(r#"{"bytes_in":"many"}"#).is_err());
    }
}
