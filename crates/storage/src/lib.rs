//! One shard's log-structured store: commitlog, memtables, flush, compaction, manifest, replay.
//!
//! A write goes to the [`commitlog`] and a memtable; flushes turn memtables into sstables, compactions merge sstables, and the
//! manifest is the authority over both. A read merges one version of the table in one step. Each shard owns its store alone;
//! [`prepare`] divides what an earlier start left among the shards of this one, however many there were.
//!
//! Modules, bottom to top: each uses only those listed above it, but for the uses that `cargo x tidy` has recorded.
#![forbid(unsafe_code)]

mod floors;
mod error;
/// Every limit, with unit and reason.
pub mod limits;
/// The log of writes.
pub mod commitlog;
mod manifest;
mod backoff;
/// Where memtables and the cache keep partitions.
pub mod memory;
mod memtable;
mod cache;
mod replayable;
mod table_metrics;
mod table;
mod pressure;
mod shards;
/// Hard links to sstables under a name.
pub mod snapshot;
mod import;
mod metrics;
mod prefetch;
mod faults;
mod settings;
mod lending;
mod compaction;
mod start;
mod store;
#[cfg(test)]
mod fixture;
mod aging;
mod settled;
mod flush;
mod merge;
mod stats;
mod open;
mod operations;
mod read;
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
