//! Every limit of this crate: unit and reason.

use std::time::Duration;

/// Longest that a healed group may take to agree again, in virtual time.
pub const CONVERGE: Duration = Duration::from_secs(60);
/// Longest that a node may take from boot to ready, in virtual time, with slow disks.
pub const START: Duration = Duration::from_secs(120);
/// Longest that a replacement may take, in virtual time, when nothing disturbs it any more.
pub const REPLACED_WITHIN: Duration = Duration::from_secs(600);
/// Longest that a node may take to stop in good order, in virtual time.
pub const STOP: Duration = Duration::from_secs(120);
/// Longest a client waits for an answer; longer than the server's own deadlines.
pub const CLIENT_TIMEOUT: Duration = Duration::from_secs(15);
/// Longest a client of the three-node scenario tries one node before it turns to another.
pub const CONNECT_PATIENCE: Duration = Duration::from_millis(500);
/// Longest frame a client takes, in bytes.
pub const FRAME_BYTES: usize = 64 << 20;
/// Failing seeds that a report keeps with their text.
pub const FAILURES_KEPT: usize = 20;
/// Operations of one partition whose outcome is unknown; more would make the checker slow (it tries every subset).
pub const UNKNOWN_MAX: usize = 6;
/// Prepared statements that a client keeps by their text; those that are not bound would be as many as there are requests.
pub const STATEMENTS_KEPT: usize = 64;
/// Times a statement is prepared for one request: again when the node has restarted, and once more to be fair.
pub const PREPARES_MAX: usize = 3;
/// Longest that a repair may take, in virtual time, when nothing is wrong.
pub const REPAIR_WITHIN: Duration = Duration::from_secs(600);
