//! Gathers the exact ranges and counts of a new sstable while its partitions are written.

use mutation::{Cell, Deletion, Liveness, NO_TIME};
use smallvec::SmallVec;

use crate::deletion::Times;
use crate::stats::Stats;

/// Ranges so far. Empty ranges are inverted.
#[derive(Debug)]
pub(crate) struct Collector {
    times: Times,
    stats: Stats,
    min_timestamp: i64,
    max_timestamp: i64,
    min_local_time: u32,
    max_local_time: u32,
    min_ttl: u32,
    max_ttl: u32,
    partition_cells: u64,
}

/// When something expires, and what it was given to live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Expiry {
    /// Seconds.
    pub(crate) ttl: u32,
    /// The local time.
    pub(crate) at: u32,
}

/// What is counted of a row that has nothing deleted and goes from one sstable into another as it is.
pub(crate) struct CarriedTimes {
    min_timestamp: i64,
    max_timestamp: i64,
    /// Whether anything of it never expires.
    stays: bool,
    /// What expires, and how much in a row expires alike.
    expiring: SmallVec<[(Expiry, u32); 2]>,
    pub(crate) columns: usize,
    pub(crate) cells: u64,
}

impl Default for CarriedTimes {
    fn default() -> CarriedTimes {
        CarriedTimes {
            min_timestamp: i64::MAX,
            max_timestamp: i64::MIN,
            stays: false,
            expiring: SmallVec::new(),
            columns: 0,
            cells: 0,
        }
    }
}

impl CarriedTimes {
    /// Sees a timestamp.
    pub(crate) fn timestamp(&mut self, timestamp: i64) {
        self.min_timestamp = self.min_timestamp.min(timestamp);
        self.max_timestamp = self.max_timestamp.max(timestamp);
    }

    /// The earliest and the latest one.
    pub(crate) fn timestamps(&self) -> (i64, i64) {
        (self.min_timestamp, self.max_timestamp)
    }

    /// Sees when a cell or the row's mark expires; `None`: never.
    pub(crate) fn expiry(&mut self, expiry: Option<Expiry>) {
        let Some(expiry) = expiry else {
            self.stays = true;
            return;
        };
        match self.expiring.last_mut() {
            Some((last, count)) if *last == expiry => *count += 1,
            _ => self.expiring.push((expiry, 1)),
        }
    }
}

impl Collector {
    /// Nothing seen. Local times are those that will be read back.
    pub(crate) fn new(times: Times) -> Collector {
        Collector {
            times,
            stats: Stats { has_partition_deletions: false, ..Stats::default() },
            min_timestamp: i64::MAX,
            max_timestamp: i64::MIN,
            min_local_time: NO_TIME,
            max_local_time: 0,
            min_ttl: u32::MAX,
            max_ttl: 0,
            partition_cells: 0,
        }
    }

    fn moment(&mut self, timestamp: i64, local_time: u32) {
        self.min_timestamp = self.min_timestamp.min(timestamp);
        self.max_timestamp = self.max_timestamp.max(timestamp);
        self.local_time(local_time);
    }

    fn local_time(&mut self, local_time: u32) {
        let kept = self.times.kept(local_time);
        self.min_local_time = self.min_local_time.min(kept);
        self.max_local_time = self.max_local_time.max(kept);
        if kept != NO_TIME {
            self.stats.tombstones.add(kept);
        }
    }

    fn ttl(&mut self, ttl: u32) {
        self.min_ttl = self.min_ttl.min(ttl);
        self.max_ttl = self.max_ttl.max(ttl);
    }

    /// Sees a deletion of a partition, range, row or collection. LIVE counts for nothing.
    pub(crate) fn deletion(&mut self, deletion: Deletion) {
        if !deletion.is_live() {
            self.moment(deletion.timestamp, deletion.local_time);
        }
    }

    /// Sees the deletion of a partition.
    pub(crate) fn partition(&mut self, deletion: Deletion) {
        self.stats.has_partition_deletions |= !deletion.is_live();
        self.deletion(deletion);
    }

    /// Sees a row's liveness.
    pub(crate) fn liveness(&mut self, liveness: Liveness) {
        if !liveness.is_none() {
            let expires_at = if liveness.is_expiring() { liveness.expires_at } else { NO_TIME };
            self.moment(liveness.timestamp, expires_at);
            self.ttl(liveness.ttl);
        }
    }

    /// Sees a cell.
    pub(crate) fn cell(&mut self, cell: &Cell<'_>) {
        let local_time = if cell.is_tombstone() || cell.is_expiring() { cell.local_time } else { NO_TIME };
        self.moment(cell.timestamp, local_time);
        self.ttl(if cell.is_tombstone() { 0 } else { cell.ttl });
        self.partition_cells += 1;
    }

    /// Sees a row, static or not, with so many columns.
    pub(crate) fn row(&mut self, columns: usize) {
        self.stats.rows += 1;
        self.stats.columns_set += columns as u64;
    }

    /// Sees a row that is carried.
    pub(crate) fn carried_row(&mut self, seen: &CarriedTimes) {
        self.min_timestamp = self.min_timestamp.min(seen.min_timestamp);
        self.max_timestamp = self.max_timestamp.max(seen.max_timestamp);
        if seen.stays {
            self.local_time(NO_TIME);
            self.ttl(0);
        }
        for (Expiry { ttl, at }, count) in &seen.expiring {
            (0..*count).for_each(|_| self.local_time(*at));
            self.ttl(*ttl);
        }
        self.partition_cells += seen.cells;
        self.row(seen.columns);
    }

    /// Ends a partition of so many bytes.
    pub(crate) fn end_partition(&mut self, bytes: u64) {
        self.stats.partition_sizes.add(bytes);
        self.stats.partition_cells.add(self.partition_cells);
        self.partition_cells = 0;
    }

    /// The component's content; what depends on the files is filled in by the caller.
    pub(crate) fn finish(self) -> Stats {
        let mut stats = self.stats;
        if self.min_timestamp <= self.max_timestamp {
            stats.min_timestamp = self.min_timestamp;
            stats.max_timestamp = self.max_timestamp;
            stats.min_local_time = self.min_local_time;
            stats.max_local_time = self.max_local_time;
        }
        if self.min_ttl <= self.max_ttl {
            stats.min_ttl = self.min_ttl;
            stats.max_ttl = self.max_ttl;
        }
        stats
    }
}
