//! Stores of a whole node in the simulator: a plain map says what every read must answer, over stops, kills, power cuts and
//! other shard counts, with flushes and compactions in between.

/// What reads from memory ask of the allocator.
mod allocations;
/// The row cache against cold reads.
mod cached;
/// Columns that are dropped and come back.
mod columns;
/// Power cuts at any moment.
mod crash;
/// Digests of equal content.
mod digests;
/// Compactions: what they keep, what they let go, and how much room they take.
mod compaction;
/// Damage, full disks, failed syncs, locks.
mod faults;
/// What flushes write, and what they leave out.
mod flush;
/// One node in a simulated world.
mod harness;
/// Sstables from elsewhere.
mod import;
/// What a reader sees of a write while everything moves.
mod isolation;
/// Random operations against a plain map.
mod model;
/// Reads and writes of one step.
mod now;
/// One table or one sync that fails.
mod obstacles;
/// What operators ask.
mod operations;
/// What failing disks mean for the node.
mod policies;
/// Tombstones over what only the log has.
mod replayable;
/// Scans that pass over much.
mod scans;
/// Reads beside flushes and compactions on a slow disk.
mod tail_reads;
/// More writes than the disk takes.
mod throttle;
/// Writes that a truncation has overtaken.
mod truncation;
/// Drops and truncations while writes wait.
mod review;
