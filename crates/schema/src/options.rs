//! Table options: kept as given, described as Cassandra does.

use std::collections::BTreeMap;

/// Bytes of a compression chunk unless a table says otherwise.
pub const CHUNK_BYTES: usize = 16 << 10;

/// Everything after `WITH` in CREATE TABLE. Kept even where Messina does not act on it yet, so that DESCRIBE and
/// drivers see what the user said.
#[derive(Debug, Clone, PartialEq)]
pub struct TableOptions {
    /// Free text.
    pub comment: String,
    /// False-positive chance of bloom filters, 0 < p ≤ 1.
    pub bloom_filter_fp_chance: f64,
    /// `keys`, `rows_per_partition`.
    pub caching: BTreeMap<String, String>,
    /// `class` and its options.
    pub compaction: BTreeMap<String, String>,
    /// `class`, `chunk_length_in_kb`, …; `enabled = false` or an empty class means none.
    pub compression: BTreeMap<String, String>,
    /// Kept, not used: every chunk is always checked.
    pub crc_check_chance: f64,
    /// Seconds; 0 is none.
    pub default_time_to_live: i32,
    /// Opaque extensions.
    pub extensions: BTreeMap<String, Vec<u8>>,
    /// Seconds a tombstone is kept.
    pub gc_grace_seconds: i32,
    /// Index summary sampling, as Cassandra.
    pub max_index_interval: i32,
    /// Index summary sampling, as Cassandra.
    pub min_index_interval: i32,
    /// Milliseconds; 0 is off.
    pub memtable_flush_period_in_ms: i32,
    /// Memtable flavour name; kept.
    pub memtable: Option<String>,
    /// When a read asks one replica more, in the spelling of [`crate::SpeculativeRetry`].
    pub speculative_retry: String,
    /// When the repair that a read waits for is sent to one replica more, in the same spelling.
    pub additional_write_policy: String,
    /// `BLOCKING`: a read brings replicas that it found to differ up to date before it is answered. `NONE`: it does not.
    pub read_repair: String,
    /// Change data capture; kept.
    pub cdc: Option<bool>,
    /// Snapshot before truncate and drop.
    pub allow_auto_snapshot: bool,
    /// Hard links of flushed sstables; kept.
    pub incremental_backups: bool,
}

/// When a tombstone has been kept long enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TombstoneGc {
    /// `gc_grace_seconds` after it was made.
    Timeout,
    /// At once.
    Immediate,
    /// When a repair has seen it.
    Repair,
    /// Never.
    Disabled,
}

/// Where the `tombstone_gc` of a table is kept among its extensions, as text such as `mode=timeout`.
pub const TOMBSTONE_GC: &str = "tombstone_gc";

impl TableOptions {
    /// What its `tombstone_gc` says; `gc_grace_seconds` when it says nothing.
    pub fn tombstone_gc(&self) -> TombstoneGc {
        let text = self.extensions.get(TOMBSTONE_GC).map(|bytes| String::from_utf8_lossy(bytes));
        let mode = text.as_ref().and_then(|text| text.split(',').find_map(|pair| pair.strip_prefix("mode=")));
        match mode {
            Some("immediate") => TombstoneGc::Immediate,
            Some("repair") => TombstoneGc::Repair,
            Some("disabled") => TombstoneGc::Disabled,
            Some(_) | None => TombstoneGc::Timeout,
        }
    }

    /// What a table has when its CREATE TABLE says nothing: Cassandra 5.0's defaults.
    pub fn cassandra() -> TableOptions {
        let map =
            |pairs: &[(&str, &str)]| pairs.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        TableOptions {
            comment: String::new(),
            bloom_filter_fp_chance: 0.01,
            caching: map(&[("keys", "ALL"), ("rows_per_partition", "NONE")]),
            compaction: map(&[
                ("class", "org.apache.cassandra.db.compaction.SizeTieredCompactionStrategy"),
                ("max_threshold", "32"),
                ("min_threshold", "4"),
            ]),
            compression: map(&[
                ("chunk_length_in_kb", "16"),
                ("class", "org.apache.cassandra.io.compress.LZ4Compressor"),
            ]),
            crc_check_chance: 1.0,
            default_time_to_live: 0,
            extensions: BTreeMap::new(),
            gc_grace_seconds: 864_000,
            max_index_interval: 2048,
            min_index_interval: 128,
            memtable_flush_period_in_ms: 0,
            memtable: None,
            speculative_retry: "99p".to_string(),
            additional_write_policy: "99p".to_string(),
            read_repair: "BLOCKING".to_string(),
            cdc: None,
            allow_auto_snapshot: true,
            incremental_backups: true,
        }
    }

    /// The compressor's simple class name (`LZ4Compressor`), or `None` when the table is not compressed.
    pub fn compressor(&self) -> Option<&str> {
        if self.compression.get("enabled").is_some_and(|v| v == "false") {
            return None;
        }
        let class = self.compression.get("class").or_else(|| self.compression.get("sstable_compression"))?;
        let simple = class.rsplit('.').next().unwrap_or(class);
        (!simple.is_empty()).then_some(simple)
    }

    /// Bytes of one compression chunk: a power of two, 16 KiB unless the table says otherwise.
    pub fn chunk_bytes(&self) -> usize {
        let kib =
            self.compression.get("chunk_length_in_kb").or_else(|| self.compression.get("chunk_length_kb"));
        kib.and_then(|v| v.parse::<usize>().ok())
            .filter(|k| k.is_power_of_two() && *k <= 1024)
            .map_or(CHUNK_BYTES, |k| k << 10)
    }
}
