//! What one shard's store counts.

use runtime::metrics::{Counter, counter};

/// The counters of this shard.
pub(crate) struct Metrics {
    pub(crate) writes: Counter,
    pub(crate) slowed_writes: Counter,
    pub(crate) blocked_writes: Counter,
    pub(crate) reads: Counter,
    pub(crate) memory_reads: Counter,
    pub(crate) sstable_reads: Counter,
    pub(crate) tombstone_failures: Counter,
    pub(crate) flushes: Counter,
    pub(crate) flushed_bytes: Counter,
    pub(crate) compactions: Counter,
    pub(crate) compacted_bytes: Counter,
}

impl Metrics {
    pub(crate) fn new() -> Metrics {
        let plain = |name, help| counter(name, help, &[]);
        Metrics {
            writes: plain("messina_storage_writes_total", "Atomic writes applied to this shard."),
            slowed_writes: plain("messina_storage_slowed_writes_total", "Writes delayed as memory ran low."),
            blocked_writes: plain("messina_storage_blocked_writes_total", "Waits of writes for a flush."),
            reads: plain("messina_storage_reads_total", "Read commands served by this shard."),
            memory_reads: plain(
                "messina_storage_memory_reads_total",
                "Partitions answered from memory alone.",
            ),
            sstable_reads: plain("messina_storage_sstable_reads_total", "Sstables asked for a partition."),
            tombstone_failures: plain(
                "messina_storage_tombstone_failures_total",
                "Reads ended by tombstone_failure_threshold.",
            ),
            flushes: plain("messina_storage_flushes_total", "Memtables written to sstables."),
            flushed_bytes: plain(
                "messina_storage_flushed_bytes_total",
                "Bytes of sstables written by flushes.",
            ),
            compactions: plain("messina_storage_compactions_total", "Compactions finished."),
            compacted_bytes: plain(
                "messina_storage_compacted_bytes_total",
                "Bytes of sstables written by compactions.",
            ),
        }
    }
}
