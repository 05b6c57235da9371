//! Every limit of this crate: unit and reason.

use std::time::Duration;

/// Longest command, bytes: a whole schema change with its statement; a message of the control connection holds it.
pub const COMMAND_BYTES_MAX: usize = 1024 * 1024;
/// Bytes of entries in one message, unless the first alone is more: a message must not keep pings waiting.
pub const APPEND_BYTES: usize = 512 * 1024;
/// Entries in one message.
pub const APPEND_ENTRIES: u64 = 256;
/// Bytes of a snapshot in one message: as above.
pub const SNAPSHOT_CHUNK_BYTES: usize = 256 * 1024;
/// Largest snapshot that a member takes in, bytes: thousands of members and tables are some MB.
pub const SNAPSHOT_BYTES_MAX: u64 = 1024 * 1024 * 1024;
/// Longest message of this crate, bytes: the longest command, or a chunk of a snapshot with its members, and their headers.
pub const MESSAGE_BYTES_MAX: usize = COMMAND_BYTES_MAX + APPEND_BYTES + 256 * 1024;
/// Interval between a leader's heartbeats, to voters and learners alike: openraft knows one. A thousand members cost it 2,000
/// small messages a second.
pub const HEARTBEAT: Duration = Duration::from_millis(500);
/// Shortest silence of the leader after which a voter asks for votes: two lost heartbeats and a pause of the process do not.
pub const ELECTION_MIN: Duration = Duration::from_millis(1500);
/// Longest such silence.
pub const ELECTION_MAX: Duration = Duration::from_millis(3000);
/// Longest wait for the answer to one chunk of a snapshot; the receiver syncs and applies it all after the last one.
pub const SNAPSHOT_CHUNK_WAIT: Duration = Duration::from_secs(10);
/// Longest transfer of a snapshot before it is begun anew; what has arrived is kept and not sent twice.
pub const SNAPSHOT_WAIT: Duration = Duration::from_secs(600);
/// Longest pause before a request is tried again when the leader is unknown or has changed.
pub const RETRY: Duration = Duration::from_millis(100);
/// Bytes that one sync of the log covers: requests beyond wait for the next, so a record stays below the journal's limit.
pub const SYNC_BYTES: usize = 8 * 1024 * 1024;
/// Requests to the log that wait for a sync before their senders wait, too.
pub const LOG_QUEUE: usize = 256;
/// Voters at most: more would only slow every commit down.
pub const VOTERS_MAX: usize = 5;
/// Members in one configuration: far above any cluster, and a bound for decoding.
pub const MEMBERS_MAX: usize = 65_536;
/// Entries a learner may lack when it becomes a voter: a voter that lacks many would hold up commits until it has them.
pub const PROMOTE_LAG_MAX: u64 = 1024;
/// Time that must be left for another try with the leader: one that is cut off by the deadline would leave its outcome unknown for no use.
pub const ATTEMPT_MIN: Duration = Duration::from_millis(10);
/// How often it is looked at how many bytes of entries are in memory: what comes in between comes on top.
pub const LOG_LOOK_EVERY: Duration = Duration::from_secs(1);
/// Longest wait for one leader's answer to a read barrier; then it is asked for again, perhaps of the next one.
pub const BARRIER_ATTEMPT: Duration = Duration::from_secs(2);
/// Pause before a read barrier is asked for again.
pub const BARRIER_PAUSE: Duration = Duration::from_millis(50);
/// Messages of other members with entries that are taken at a time: far above what a group sends to one member.
pub const TAKING_MAX: usize = 1024;
