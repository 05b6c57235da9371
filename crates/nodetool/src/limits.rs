//! Every bound of this crate, with its unit and reason.

use core::time::Duration;

/// How long connecting may take: the node is near, or it is not there.
pub const CONNECT: Duration = Duration::from_secs(10);
/// How long the first answer may take, which needs nothing but the node itself: who is silent so long is none.
pub const GREETING: Duration = Duration::from_secs(30);
/// How long one answer may take: a major compaction of a large table is answered when it is done.
pub const ANSWER: Duration = Duration::from_secs(24 * 3600);
/// Between two looks how far a repair is.
pub const REPAIR_POLL: Duration = Duration::from_millis(250);
/// Bytes of one answer: the tables of a schema at its limit, with room.
pub const ANSWER_BYTES_MAX: usize = 256 << 20;
/// The port when none is given, as the node's REST interface.
pub const PORT: u16 = 10_000;
