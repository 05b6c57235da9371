//! Limits of node-to-node calls, each with its unit and reason.

use std::time::Duration;

/// Oldest protocol spoken here.
pub const PROTOCOL_MIN: u16 = 1;
/// Newest protocol spoken here.
pub const PROTOCOL_MAX: u16 = 1;

/// A message of so many bytes is counted as a large one, as in Cassandra.
pub const LARGE_MESSAGE_BYTES: usize = 64 << 10;
/// Peers whose traffic is counted one by one, for a shard and a class: each has ten series.
pub const PEERS_COUNTED_MAX: usize = 4096;

/// Most bytes of a hello or a verdict: names and numbers. What a stranger may make this node keep.
pub const HELLO_BYTES_MAX: usize = 4096;
/// Bytes of a hello received at once: a TLS record, or a hello in one piece.
pub const GREETING_RECV_BYTES: usize = 16 << 10;
/// How long a connection may take to its last verdict, TLS included. Longer than a new attempt of TCP to deliver a lost first packet (1 s).
pub const HELLO_TIMEOUT: Duration = Duration::from_secs(2);
/// Accepted connections without verdicts at one time; more wait in the kernel. A cluster of thousands that restarts gets through in seconds.
pub const GREETINGS_MAX: usize = 256;
/// TLS handshakes computed at one time: each has a helper thread for about a millisecond.
pub const HANDSHAKES_MAX: usize = 4;
/// Bytes of a name or text in a hello or verdict; longer ones are refused.
pub const TEXT_BYTES_MAX: usize = 512;
/// How far clocks may be apart. Deletions older than `gc_grace_seconds` are purged by this clock and written by others; a day would purge
/// live ones, seconds cannot. Wider than what NTP leaves, narrower than mistakes of time zones.
pub const CLOCK_OFF_MAX: Duration = Duration::from_secs(5);
/// At most one line per peer and reason in this time: who is refused tries again at once.
pub const REFUSAL_LOG_EVERY: Duration = Duration::from_secs(60);
/// Peers and reasons remembered for that.
pub const REFUSALS_REMEMBERED: usize = 1024;

/// Most bytes in one message's body: a mutation of the largest size and its envelope.
pub const BODY_BYTES_MAX: usize = 64 << 20;
/// A frame is closed once it has this many bytes: the receiver acts on a frame when all of it is there.
pub const FRAME_BYTES: usize = 128 << 10;
/// Most bytes of a frame's payload: what it had before its last message, and that one.
pub const FRAME_BYTES_MAX: usize = FRAME_BYTES + BODY_BYTES_MAX + 64;
/// Bytes of each buffer kept by an idle connection; a shard may have thousands.
pub const BUFFER_KEPT_BYTES: usize = 16 << 10;

/// Calls in flight on one connection, at either end. The caller refuses more as overloaded; the server stops reading, at the next frame.
pub const CALLS_IN_FLIGHT_MAX: usize = 4096;
/// Bytes of calls to one peer from one shard that are not sent, and of those that are not answered, before more are refused as overloaded. A larger call goes alone.
pub const PEER_BYTES_MAX: usize = 32 << 20;
/// The same over all peers of a shard.
pub const SHARD_BYTES_MAX: usize = 128 << 20;
/// Bytes of answers of one connection that are not sent; while there are more, no requests are read from it.
pub const ANSWER_BYTES_MAX: usize = 32 << 20;
/// Bytes of requests from all peers that one shard works on; more are answered as overloaded.
pub const SERVED_BYTES_MAX: usize = 128 << 20;
/// Frames of at least this many bytes wait for memory before more of them is received.
pub const LARGE_FRAME_BYTES: usize = 2 * FRAME_BYTES;
/// Bytes of such frames that one shard receives at one time: two of the largest.
pub const UNFINISHED_BYTES_MAX: usize = 2 * FRAME_BYTES_MAX;
/// Bytes given to a socket at once: what [`SEND_STALL_MAX`] is measured over. Large enough to be rare, small enough for the slowest link
/// that is of use.
pub const SEND_PIECE_BYTES: usize = 256 << 10;
/// How long a socket may take over one piece before the connection is closed: longer than any request waits.
pub const SEND_STALL_MAX: Duration = Duration::from_secs(10);
/// Data connections opened by one shard, above which it opens to shard `i mod shards` of the other side only: a quarter of what a process
/// of 64 shards may usually have open (1,048,576 descriptors).
pub const DATA_CONNECTIONS_MAX: usize = 4096;

/// How long a connection attempt may take.
pub const CONNECT_TIMEOUT: Duration = Duration::from_millis(1000);
/// Pause after the first attempt that failed; it doubles each time.
pub const RECONNECT_PAUSE_MIN: Duration = Duration::from_millis(100);
/// Longest pause between attempts: how late a healed cut is noticed.
pub const RECONNECT_PAUSE_MAX: Duration = Duration::from_millis(1000);
/// Pause between pings of a control connection.
pub const PING_PAUSE: Duration = Duration::from_millis(500);
/// A ping without its pong for this long: the peer is down. A process may stop for 2 s.
pub const SILENCE_MAX: Duration = Duration::from_millis(2500);
/// A ping that is later than its turn by this much: this process was stopped, and has not heard what came meanwhile.
pub const OWN_PAUSE_MIN: Duration = Duration::from_millis(500);
/// Pings of which the time is remembered: more than fit into [`SILENCE_MAX`].
pub const PINGS_REMEMBERED: usize = 16;
/// How long the second of two control connections of one pair lives on, so that calls under way on it end.
pub const SECOND_CONNECTION_LIFE: Duration = Duration::from_millis(1000);
/// How long a goodbye may take to leave.
pub const GOODBYE_TIMEOUT: Duration = Duration::from_millis(500);

/// How often a data connection is looked after.
pub const DATA_LOOK_EVERY: Duration = Duration::from_millis(1000);
/// A data connection with calls under way that heard nothing for this long sends a ping.
pub const DATA_PING_AFTER: Duration = Duration::from_millis(1000);
/// … and is given up after this long: the peer lives, or it would be down by now, but this connection does not.
pub const DATA_SILENCE_MAX: Duration = Duration::from_secs(5);
/// A data connection without calls sends a ping this often, so that what lies between keeps it.
pub const DATA_IDLE_PING: Duration = Duration::from_secs(15);
/// The accepting end closes a data connection that was silent for this long: four pings did not come.
pub const DATA_IDLE_MAX: Duration = Duration::from_secs(60);
/// How often deadlines of gathered calls are looked at: how late a timeout may be reported.
pub const SWEEP_EVERY: Duration = Duration::from_millis(20);
