//! Limits of node-to-node calls, each with its unit and reason.

use std::time::Duration;

/// Most bytes in one frame's body: a mutation of the largest size with room for its envelope.
pub const BODY_BYTES_MAX: usize = 64 << 20;
/// Calls in flight on one connection; more wait for the caller's deadline. Bounds memory on both sides.
pub const CALLS_IN_FLIGHT_MAX: usize = 4096;
/// Bytes waiting to be sent on one connection before calls are refused as overloaded.
pub const OUTBOX_BYTES_MAX: usize = 32 << 20;
/// Bytes of answers waiting to be sent on one connection, those on their way included. A larger answer goes alone. While
/// there is no room, answers of calls begun before wait outside, and no more calls are read.
pub const ANSWER_BYTES_MAX: usize = 32 << 20;
/// Bytes given to a socket at once: what [`SEND_STALL_MAX`] is measured over. Large enough to be rare, small enough for
/// the slowest link that is of use.
pub const SEND_PIECE_BYTES: usize = 256 << 10;
/// How long a socket may take over one piece ([`SEND_PIECE_BYTES`]), before the connection is closed. Longer than
/// [`SILENCE_MAX`], after which nobody waits at the other end.
pub const SEND_STALL_MAX: Duration = Duration::from_secs(10);
/// How long a connection attempt may take.
pub const CONNECT_TIMEOUT: Duration = Duration::from_millis(1000);
/// Pause between attempts while a peer is unreachable.
pub const RECONNECT_PAUSE: Duration = Duration::from_millis(200);
/// How long after its making a peer that was never reached counts as starting rather than as down: calls to it wait.
/// Nodes that start together need it; not longer than callers usually wait.
pub const START_GRACE: Duration = Duration::from_millis(2000);
/// Pause between pings on a connection.
pub const PING_PAUSE: Duration = Duration::from_millis(500);
/// Without a byte from the peer for this long, with a ping under way, the connection is given up.
pub const SILENCE_MAX: Duration = Duration::from_millis(2000);
