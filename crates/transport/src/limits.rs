//! Every bound of this crate, with its unit and reason.

use core::time::Duration;

/// Requests of one connection served at once; a driver's stream ids go further, its useful pipelining does not.
pub const REQUESTS_PER_CONNECTION: u32 = 2048;
/// As how many of them a statement sent as text counts, or a batch: it is parsed first, and may read whatever it likes. A
/// client that sends them without reading answers keeps others waiting for no more than 32 of its own.
pub const TEXT_WEIGHT: u32 = 64;
/// Bytes of request bodies of one connection being served at once; above it nothing more is read from it.
pub const REQUEST_BYTES_PER_CONNECTION: usize = 32 << 20;
/// Requests one shard serves at once before it answers `Overloaded`, unless configured.
pub const REQUESTS_PER_SHARD: u32 = 32_768;
/// Part of a shard's memory that bodies of requests being served may take, and those of large ones that are arriving as
/// much again: one in this many.
pub const REQUEST_MEMORY_SHARE: u64 = 8;
/// Answers waiting to be sent, in bytes, above which nothing more is read from a connection.
pub const OUT_BYTES_STOP: usize = 4 << 20;
/// Answers waiting to be sent, in bytes, above which a connection is cut: requests in flight when reading stopped
/// may still add to them, a client that never reads must not take more.
pub const OUT_BYTES_CUT: usize = 512 << 20;
/// How long one piece of an answer may wait for a client that does not read.
pub const SEND_TIMEOUT: Duration = Duration::from_secs(30);
/// The size of such a piece, in bytes.
pub const SEND_PIECE_BYTES: usize = 256 << 10;
/// How long a client may take from connecting to its first complete request.
pub const STARTUP_TIMEOUT: Duration = Duration::from_secs(60);
/// Largest first frame, in bytes: OPTIONS and STARTUP are small, and nobody has introduced himself yet.
pub const FIRST_FRAME_BYTES_MAX: usize = 100_000;
/// Connections over all shards, unless configured; a bound on memory, not a policy.
pub const CONNECTIONS_MAX: u32 = 65_536;
/// A buffer that grew above this size for one large frame is given back afterwards, in bytes.
pub const BUFFER_KEPT_BYTES: usize = 64 << 10;
/// How long an orderly stop waits for requests being served.
pub const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the acceptor pauses when the system has no more sockets to give.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// At most one connection that was not taken is written to the log in this time.
pub const REFUSAL_LOG_EVERY: Duration = Duration::from_secs(10);
/// Handshakes of one shard computed at once: other shards have some, too.
pub const HANDSHAKES_AT_ONCE: usize = 2;
/// How long a connection is not read while too many bytes of requests are being served; Cassandra's shortest such pause.
pub const OVERLOAD_PAUSE: Duration = Duration::from_millis(10);
/// Longest pause of a connection for the sake of the rate: Cassandra's longest.
pub const RATE_PAUSE_MAX: Duration = Duration::from_millis(200);
/// Event types one REGISTER may name; there are three.
pub const REGISTER_MAX: usize = 64;
/// Options of STARTUP that are kept; drivers send fewer than ten.
pub const STARTUP_OPTIONS_MAX: usize = 64;
/// Longest key and longest value of such an option that is kept, in bytes.
pub const STARTUP_OPTION_BYTES_MAX: usize = 256;
/// A frame that has not arrived as a whole is large from this size on, in bytes: its memory is asked for before more of it
/// is read.
pub const LARGE_FRAME_BYTES: usize = 64 << 10;
/// How long a large frame may wait for memory: longer than clients wait for answers.
pub const LARGE_FRAME_WAIT: Duration = Duration::from_secs(30);
/// How long a large frame may take to arrive once it has memory: meanwhile it keeps others from theirs.
pub const LARGE_FRAME_TIMEOUT: Duration = Duration::from_secs(60);
