//! What the operator decides about a store.

use crate::{CommitFailurePolicy, DiskFailurePolicy};
use schema::Table;
use sstable::{CompressionChoice, Format, Version};
use std::path::PathBuf;
use std::time::Duration;

/// When a write is told to have happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommitlogSync {
    /// At once; the log is handed to the disk within 10 ms and synced each period.
    Periodic {
        /// Milliseconds between two syncs.
        period_ms: u64,
    },
    /// When it is synced; whatever arrives during a sync shares the next one.
    Batch,
    /// When it is synced; writers wait for company first.
    Group {
        /// Milliseconds the first writer of a group waits.
        window_ms: u64,
    },
}

impl CommitlogSync {
    /// How old an entry that is not synced gets before writes wait for it, when nothing else is said.
    pub fn lag_max(self) -> Duration {
        match self {
            CommitlogSync::Periodic { period_ms } => Duration::from_millis(period_ms).mul_f64(1.5),
            CommitlogSync::Batch | CommitlogSync::Group { .. } => Duration::ZERO,
        }
    }
}

/// How durable one write must be when it is told to have happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// As the node's [`CommitlogSync`] says.
    Mode,
    /// Synced, whatever the mode: what a promise to other nodes rests on.
    Synced,
}

/// When reads that pass over tombstones are worth a warning, and when they fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TombstoneLimits {
    /// More of them in one page are worth a warning.
    pub warn: u32,
    /// More of them in one page end the read.
    pub fail: u32,
}

impl TombstoneLimits {
    /// No limits.
    pub const NONE: TombstoneLimits = TombstoneLimits { warn: u32::MAX, fail: u32::MAX };
    /// Those of Cassandra, when nothing else is said.
    pub const CASSANDRA: TombstoneLimits = TombstoneLimits { warn: 1_000, fail: 100_000 };
}

/// How much of the disk's free space compactions may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompactionRoom {
    /// The part of it, in thousandths.
    pub usable_permille: u32,
    /// Bytes that stay free.
    pub least_free_bytes: u64,
}

impl CompactionRoom {
    /// Whatever the file system gives.
    pub const ANY: CompactionRoom = CompactionRoom { usable_permille: 1000, least_free_bytes: 0 };
    /// That of Cassandra, when nothing else is said.
    pub const CASSANDRA: CompactionRoom = CompactionRoom { usable_permille: 950, least_free_bytes: 50 << 20 };
}

/// Settings of a node's stores; the same on every shard.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Folder of sstables, manifests and the node file.
    pub data_dir: PathBuf,
    /// Folder of commitlog segments; may be on another disk.
    pub commitlog_dir: PathBuf,
    /// When writes are acknowledged.
    pub sync: CommitlogSync,
    /// In periodic mode, how old an entry that is not synced gets before writes wait for it; `None`: one and a half periods.
    pub sync_lag: Option<Duration>,
    /// Bytes of one commitlog segment; rounded to blocks and into the limits of this crate.
    pub segment_bytes: u64,
    /// Bytes of log of one shard above which the oldest memtables are flushed. With twice as many, kept by a table
    /// that cannot be flushed, writes are refused.
    pub commitlog_bytes: u64,
    /// Bytes of memtables of one shard; 30 % of it starts a flush, from 35 % on writes are paced.
    pub memtable_bytes: u64,
    /// Bytes of one shard's cache of sstables' index pages and decoded chunks.
    pub block_cache_bytes: u64,
    /// Whether sstables are read through the kernel's page cache as well.
    pub buffered_reads: bool,
    /// Whether a corrupt commitlog is skipped (with an error in the log) instead of refusing to start.
    pub ignore_replay_errors: bool,
    /// Whether tables are compacted in the background.
    pub auto_compaction: bool,
    /// Bytes of the row cache of one shard; below [`crate::limits::CACHE_BYTES_MIN`] there is none.
    pub row_cache_bytes: u64,
    /// Whether the row cache has half of what memtables leave of their bytes, besides its own.
    pub lend_memtable_bytes: bool,
    /// Stored bytes per second that the compactions of all shards together may read; 0: as many as they can.
    pub compaction_throughput: u64,
    /// Compactions of all shards together that may run at once, at least one on each; `None`: two on each.
    pub concurrent_compactors: Option<u32>,
    /// How much of the free space compactions may take.
    pub compaction_room: CompactionRoom,
    /// How many tombstones a read may meet.
    pub tombstones: TombstoneLimits,
    /// Whether tables are snapshot before they are dropped or truncated.
    pub auto_snapshot: bool,
    /// Milliseconds until such a snapshot goes by itself; `None`: it stays.
    pub auto_snapshot_ttl_ms: Option<i64>,
    /// Whether sstables that flushes make are linked into `backups`, unless their table says otherwise.
    pub incremental_backups: bool,
    /// What happens when files of tables cannot be read or written.
    pub disk_failure: DiskFailurePolicy,
    /// What happens when the commitlog cannot be written or synced.
    pub commit_failure: CommitFailurePolicy,
    /// Largest entry of the commitlog, bytes; `None`: half a segment. Never more than that.
    pub mutation_bytes_max: Option<u64>,
    /// The statements that make a table again, for its snapshots.
    pub describe: fn(&Table) -> String,
    /// How new sstables are written.
    pub sstable_format: Format,
    /// What of its table's compression the sstable of a flush takes.
    pub flush_compression: CompressionChoice,
    /// Identity of this node, written into sstables.
    pub host_id: u128,
}

impl Settings {
    /// The version of a new sstable. `early`: it may hold the deletion of a whole partition as of a time before 1970, for
    /// which formats from `oa` on have no place.
    pub(crate) fn version_of_new(&self, early: bool) -> Version {
        if early { Format::Big.version() } else { self.sstable_format.version() }
    }

    pub(crate) fn sync_lag_max(&self) -> Duration {
        self.sync_lag.unwrap_or(self.sync.lag_max())
    }

    /// Bytes of a segment: whole blocks, within the limits.
    pub(crate) fn segment_size(&self) -> u64 {
        let size =
            self.segment_bytes.clamp(crate::limits::SEGMENT_BYTES_MIN, crate::limits::SEGMENT_BYTES_MAX);
        size / 4096 * 4096
    }
}
