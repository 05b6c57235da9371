//! Limits of coordination, each with its unit and reason.

use mutation::ByteLimit;
use std::time::Duration;

/// Rounds one page of a read may take when replicas disagree so much that rows vanish on merging.
pub const SHORT_READ_ROUNDS_MAX: usize = 64;
/// How long a repair of replicas found to differ may hold up the read that found them.
pub const READ_REPAIR_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a replica may take to answer a read of named partitions before one more is asked, where the table wants a percentile of what was
/// measured and too little was. Far above a healthy answer.
pub const SPECULATE_AFTER: Duration = Duration::from_millis(200);
/// Requests that must have been measured before their percentile counts: of fewer the slowest one would decide.
pub const PACE_SAMPLES_MIN: u64 = 20;
/// How often percentiles are worked out anew.
pub const PACE_EVERY: Duration = Duration::from_secs(1);
/// A percentile below this counts as this: timers are not finer, and an answer that is so near is better waited for.
pub const SPECULATE_PERCENTILE_MIN: Duration = Duration::from_millis(1);
/// How long a replica may take to answer a read of a range before one more is asked, at most half of what the client still waits: such a read
/// takes longer by nature and costs more to ask for twice.
pub const SPECULATE_RANGE_AFTER: Duration = Duration::from_secs(1);
/// Logged batches that one shard remembers to look at; more wait in their table, which is read again when there are none.
pub const BATCHES_UNFINISHED_MAX: usize = 100_000;
/// How long a batch that could not be written again waits for the next attempt.
pub const REPLAY_AGAIN_AFTER: Duration = Duration::from_secs(10);
/// How long a write may take where nothing else is said: Cassandra's default.
pub const WRITE_TIMEOUT: Duration = Duration::from_secs(2);
/// Logged batches that one shard writes again at once: a replica that stands still holds each of them up.
pub const BATCHES_AT_ONCE: usize = 16;
/// Pause before it is asked again whether it is known what the table of batches holds.
pub const BATCHES_UNKNOWN_PAUSE: Duration = Duration::from_millis(5);
/// Longest pause between two looks for what is due.
pub const BATCH_PAUSE_MAX: Duration = Duration::from_secs(1);
/// How long the replicas of a batch that is written again may take.
pub const REPLAY_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes of unfinished batches read at once.
pub const REPLAY_PAGE_BYTES: ByteLimit = ByteLimit::near(4 << 20);
/// At most one read over many tombstones is written to the log of a shard in this time: applications repeat their reads.
pub const WARNING_LOG_EVERY: Duration = Duration::from_secs(10);
/// Bytes of one page of a repair, of each replica.
pub const REPAIR_PAGE_BYTES: ByteLimit = ByteLimit::near(256 << 10);
/// Tombstones of one page of a repair, of each replica.
pub const REPAIR_PAGE_TOMBSTONES: u32 = 5_000;
/// Bytes of one message of rows that a replica lacks, and of one mutation in it unless it is a single row: well below what the smallest segment of
/// a log takes.
pub const REPAIR_WRITE_BYTES: usize = 32 << 10;
/// How long a replica may take to answer for a page of a repair, or to write what it lacks. Nobody waits for it, and it gives way to requests.
pub const REPAIR_PAGE_WITHIN: Duration = Duration::from_secs(30);
/// How often a page is tried before its repair fails.
pub const REPAIR_PAGE_TRIES: u32 = 6;
/// Pause before the second try of a page; it doubles. All tries together outlast a truncation and a restart.
pub const REPAIR_PAUSE: Duration = Duration::from_secs(1);
/// Ranges that one repair works on at once.
pub const REPAIR_RANGES_AT_ONCE: usize = 4;
/// Repairs that have ended and are remembered; lines that each keeps.
pub const REPAIRS_REMEMBERED: usize = 64;
/// Lines of one repair that are kept for who asks; older ones are let go.
pub const REPAIR_LINES_MAX: usize = 4_096;
/// How often a node sweeps ballots of partitions at rest. It reads the ballots of all partitions that were written conditionally since the last time, once
/// for each replication that keyspaces have.
pub const SWEEP_EVERY: Duration = Duration::from_secs(6 * 60 * 60);
/// For how long a partition has been at rest then: far longer than any request takes, and clocks are apart.
pub const SWEEP_AGE: Duration = Duration::from_secs(60 * 60);
/// How long other members have to confirm a time.
pub const CONFIRM_WITHIN: Duration = Duration::from_secs(5);
/// How long what was taken from another node may take to be shown to every shard, before it is taken again.
pub const PULL_AGAIN_AFTER: Duration = Duration::from_millis(100);
/// Replicas that answer reads within this, or within twice this with the standard threshold, are equally fast: what is below is noise of the moment.
pub const SNITCH_FLOOR: Duration = Duration::from_micros(500);
/// Replicas are not ordered anew more often, whatever `dynamic_snitch_update_interval` says.
pub const SNITCH_UPDATE_MIN: Duration = Duration::from_millis(10);
/// A call that failed without an answer counts as slow when it took this long; before, the connection was refused or broke.
pub const SNITCH_UNHEARD_MIN: Duration = Duration::from_millis(50);
/// How long a lightweight transaction gives way to others where `cas_contention_timeout` says nothing.
pub const CAS_CONTENTION_TIMEOUT: Duration = Duration::from_millis(1_800);
/// Longest random pause of a lightweight transaction that gave way to another for the first time; it doubles up to so many times.
pub const CAS_PAUSE: Duration = Duration::from_millis(2);
/// How often that doubles: 128 ms are many rounds of the others.
pub const CAS_PAUSE_DOUBLINGS: u32 = 6;
