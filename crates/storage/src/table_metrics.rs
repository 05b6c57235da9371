//! What one table counts on one shard. Every request passes here: one increment for each thing counted.

use base::Instant;
use base::histogram::{Placed, Zeroes};
use runtime::metrics::Histogram;
use std::cell::Cell;

/// Counts of one table.
pub(crate) struct TableMetrics {
    /// Microseconds of reads of partitions.
    pub(crate) reads: Histogram,
    /// Microseconds of reads of token ranges.
    pub(crate) scans: Histogram,
    /// Microseconds of mutations, the wait for the commitlog included.
    pub(crate) writes: Histogram,
    /// Sstables that held something of a read by key.
    sstables_per_read: Histogram,
    /// Live rows of a read.
    live_rows: Histogram,
    /// Tombstones and expired cells of a read.
    tombstones: Histogram,
    /// Reads of one live row from memory that are not in the three above yet: the most frequent kind, counted once.
    plain_reads: Cell<u64>,
    /// Memtables that began to be written to disk.
    pub(crate) memtable_switches: Cell<u64>,
    /// Filters that held a key back from an sstable without it.
    pub(crate) filter_negatives: Cell<u64>,
    /// Sstables that were asked and knew the key.
    pub(crate) filter_hits: Cell<u64>,
    /// Sstables that were asked in vain.
    pub(crate) filter_mistakes: Cell<u64>,
    /// Sstables that were not asked because everything in them is too old to matter.
    pub(crate) skipped_sstables: Cell<u64>,
}

/// What a read met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Met {
    pub(crate) sstables: u32,
    pub(crate) live_rows: u32,
    pub(crate) tombstones: u32,
}

/// The three distributions of what reads met.
pub(crate) struct MetByReads {
    pub(crate) sstables: base::histogram::Distribution,
    pub(crate) live_rows: base::histogram::Distribution,
    pub(crate) tombstones: base::histogram::Distribution,
}

impl Default for TableMetrics {
    fn default() -> TableMetrics {
        TableMetrics {
            reads: Histogram::default(),
            scans: Histogram::default(),
            writes: Histogram::default(),
            sstables_per_read: Histogram::new(Zeroes::Apart),
            live_rows: Histogram::new(Zeroes::Apart),
            tombstones: Histogram::new(Zeroes::Apart),
            plain_reads: Cell::new(0),
            memtable_switches: Cell::new(0),
            filter_negatives: Cell::new(0),
            filter_hits: Cell::new(0),
            filter_mistakes: Cell::new(0),
            skipped_sstables: Cell::new(0),
        }
    }
}

const PLAIN: Met = Met { sstables: 0, live_rows: 1, tombstones: 0 };

impl TableMetrics {
    /// A read by key has ended.
    #[inline]
    pub(crate) fn read(&self, micros: Placed, met: Met) {
        self.reads.record_placed(micros);
        if met == PLAIN {
            bump(&self.plain_reads);
        } else {
            self.sstables_per_read.record(u64::from(met.sstables));
            self.met(met);
        }
    }

    /// A read of a token range has ended.
    pub(crate) fn scan(&self, micros: Placed, met: Met) {
        self.scans.record_placed(micros);
        self.met(met);
    }

    fn met(&self, met: Met) {
        self.live_rows.record(u64::from(met.live_rows));
        self.tombstones.record(u64::from(met.tombstones));
    }

    fn count_plain(&self) {
        let plain = self.plain_reads.take();
        self.sstables_per_read.record_many(u64::from(PLAIN.sstables), plain);
        self.live_rows.record_many(u64::from(PLAIN.live_rows), plain);
        self.tombstones.record_many(u64::from(PLAIN.tombstones), plain);
    }

    /// What reads met, as of now.
    pub(crate) fn met_by_reads(&self) -> MetByReads {
        self.count_plain();
        MetByReads {
            sstables: self.sstables_per_read.snapshot(),
            live_rows: self.live_rows.snapshot(),
            tombstones: self.tombstones.snapshot(),
        }
    }

    /// [`base::histogram::TICK`] has passed.
    pub(crate) fn tick(&self) {
        self.count_plain();
        let all = [
            &self.reads,
            &self.scans,
            &self.writes,
            &self.sstables_per_read,
            &self.live_rows,
            &self.tombstones,
        ];
        all.into_iter().for_each(Histogram::tick);
    }
}

/// Adds one.
#[inline]
pub(crate) fn bump(count: &Cell<u64>) {
    count.set(count.get() + 1);
}

/// Adds some.
#[inline]
pub(crate) fn add(count: &Cell<u64>, some: u64) {
    count.set(count.get() + some);
}

/// Microseconds since a tick.
#[inline]
pub(crate) fn micros_since(start: Instant) -> Placed {
    Placed::new(runtime::ticks().0.saturating_sub(start.0) / 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_reads_are_reads() {
        let metrics = TableMetrics::default();
        (0..10).for_each(|_| metrics.read(Placed::new(3), PLAIN));
        metrics.read(Placed::new(500), Met { sstables: 2, live_rows: 40, tombstones: 7 });
        let met = metrics.met_by_reads();
        assert_eq!((met.sstables.count, met.sstables.sum, met.sstables.recent.percentile(0.5)), (11, 2, 0));
        assert_eq!((met.live_rows.count, met.live_rows.sum), (11, 50));
        assert_eq!((met.tombstones.count, met.tombstones.recent.max()), (11, 7));
        assert_eq!(metrics.reads.snapshot().count, 11);
        assert_eq!(metrics.met_by_reads().live_rows.count, 11, "and are counted once");
    }
}
