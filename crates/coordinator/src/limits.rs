//! Limits of coordination, each with its unit and reason.

use std::time::Duration;

/// Rounds one page of a read may take when replicas disagree so much that rows vanish on merging.
pub const SHORT_READ_ROUNDS_MAX: usize = 64;
/// How long a repair of replicas found to differ may hold up the read that found them.
pub const READ_REPAIR_PATIENCE: Duration = Duration::from_secs(2);
/// How long a replica may take to answer a read of named partitions before a spare one is asked, too, at most half of
/// what the client still waits; the slow one's answer counts when it comes first. Far above a healthy answer, so that
/// only an overloaded cluster is asked for more than a level needs.
pub const SPECULATE_AFTER: Duration = Duration::from_millis(200);
/// The same for a read of a range, which takes longer by nature and costs more to ask for twice.
pub const SPECULATE_RANGE_AFTER: Duration = Duration::from_secs(1);
/// How often liveness is looked at.
pub const LIVENESS_PAUSE: Duration = Duration::from_millis(100);
/// Unfinished logged batches that one shard remembers to write again; more wait in their table for the next start.
pub const BATCHES_UNFINISHED_MAX: usize = 100_000;
/// How long a batch that could not be written again waits for the next attempt.
pub const REPLAY_AGAIN_AFTER: Duration = Duration::from_secs(10);
/// How long the replicas of a batch that is written again may take.
pub const REPLAY_PATIENCE: Duration = Duration::from_secs(10);
/// Bytes of unfinished batches read at once.
pub const REPLAY_PAGE_BYTES: u32 = 4 << 20;
/// At most one read over many tombstones is written to the log of a shard in this time: applications repeat their reads.
pub const WARNING_LOG_EVERY: Duration = Duration::from_secs(10);
