//! One shard's log-structured store: commitlog, memtables, flush, compaction, manifest, replay.
//!
//! A write goes to the [`commitlog`] and a memtable; flushes turn memtables into sstables, compactions merge sstables, and the
//! manifest is the authority over both. A read merges one version of the table in one step. Each shard owns its store alone;
//! [`prepare`] divides what an earlier start left among the shards of this one, however many there were. Modules, bottom to
//! top: each uses only those listed above it.
#![forbid(unsafe_code)]

/// The log of writes.
pub mod commitlog;
mod compaction;
mod error;
mod floors;
mod backoff;
#[cfg(test)]
mod fixture;
mod faults;
mod pressure;
mod lending;
mod aging;
mod flush;
mod import;
/// Every limit, with unit and reason.
pub mod limits;
mod manifest;
/// Where memtables and the cache keep partitions.
pub mod memory;
mod memtable;
mod cache;
mod merge;
mod settled;
mod metrics;
mod now;
mod open;
mod operations;
mod prefetch;
mod read;
mod replayable;
mod settings;
mod shards;
/// Hard links to sstables under a name.
pub mod snapshot;
mod start;
mod stats;
mod store;
mod table;
mod table_metrics;
mod tombstones;
mod truncation;
#[cfg(test)]
mod tests;

pub use cache::CacheStats;
pub use compaction::{
    CompactionKind, CompactionProgress, CompactionRecord, CompactionTotals, Granularity, MajorCompaction,
    Scrubbed,
};
pub use error::Error;
pub use faults::{CommitFailurePolicy, Consequence, DiskFailurePolicy, Fault};
pub use floors::{Planned, Point};
pub use import::{ImportOptions, ImportReport, Verify};
pub use prefetch::{PREFETCH_STEPS, Purpose};
pub use settings::{CommitlogSync, CompactionRoom, Durability, Settings, TombstoneLimits};
pub use sstable::{CompressionChoice, Format as SstableFormat};
pub use start::{StartPlan, prepare};
pub use stats::TableStats;
pub use store::Store;
