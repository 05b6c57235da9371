//! Bounds of the scenarios of the engine: unit and reason.

use std::time::Duration;

/// Operations of one seed with faults: some ten lives, a tenth of a second of a processor.
pub(super) const FAULT_OPERATIONS: usize = 1_000;
/// Operations of one seed without faults; enough to fill several levels of sstables.
pub(super) const MODEL_OPERATIONS: usize = 10_000;
/// Refused writes of one partition that may come back; every combination is a state it may have.
pub(super) const GHOSTS_MAX: usize = 3;
/// Reads of one partition, one after the other, while it is flushed; longer flushes are left alone.
pub(super) const RACE_READS_MAX: u32 = 100;
/// Longest until writes are accepted on a disk that is well again, in virtual time.
pub(super) const RECOVERY: Duration = Duration::from_secs(30);
/// Longest until nothing is left to compact and no file waits for a reader, in virtual time.
pub(super) const QUIET: Duration = Duration::from_secs(600);
/// Times a read is tried again that met the second in which something expired.
pub(super) const AGAIN_MAX: usize = 3;
/// What a log in periodic mode may add to its period besides the time of the disk.
pub(super) const PERIODIC_SLACK: Duration = Duration::from_millis(100);
/// Runs of a shrink: each replays a part of the operations.
pub(super) const SHRINK_RUNS: usize = 2_000;
