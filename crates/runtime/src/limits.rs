//! Every limit of this crate: unit and reason.

use std::time::Duration;

/// How long one scheduling group keeps the core while another waits: short against a disk read, long against a switch.
pub const QUOTA: Duration = Duration::from_micros(500);
/// How long background work with the shares of requests or more keeps the core while completions wait: else a node that must
/// catch up would look for news after every row. With less it gives way at once.
pub const PATIENCE: Duration = Duration::from_micros(100);
/// Virtual time that requests may claim of what others had beyond their shares while there were none: a burst that takes less
/// then waits for nothing in the background. Longer than bursts are, short against the time in which flushes and compactions must get their share.
pub const REQUEST_CREDIT: Duration = Duration::from_millis(3);
/// Shards of one node; a shard identifier shares a word with other things.
pub const SHARDS_MAX: u16 = 1024;
/// Scheduling groups of one node.
pub const GROUPS_MAX: usize = 9;
/// Calls in flight per ordered pair of shards; more callers wait for a permit.
pub const CALLS_PER_PAIR: usize = 256;
/// Calls one turn takes from one peer, so that a flood of messages does not stop the reactor.
pub const CALLS_PER_TURN: usize = 256;
/// Threads of one node for calls that block: files.
pub const OFFLOAD_THREADS: usize = 4;
/// Threads of one node for long computing: passwords and handshakes, of each no more at once than leaves some to the other.
pub const COMPUTE_THREADS: usize = 4;
/// Nice value of those threads: a tenth of a shard's share of the core they meet on. At 19 a login would take seconds on
/// a busy node.
pub const COMPUTE_NICE: i32 = 10;
/// An idle helper thread ends after this time.
pub const OFFLOAD_IDLE: Duration = Duration::from_secs(20);
/// Receive buffers of one shard. A power of two: the kernel's ring wants one.
pub const RECV_BUFFERS: u16 = 64;
/// Those of them that readers may hold: with fewer than the rest the kernel would find none for a burst.
pub const RECV_BUFFERS_HELD: u16 = RECV_BUFFERS / 2;
/// Bytes that readers of one shard may hold beside the buffers before a stream gets one buffer's worth at a time.
pub const RECV_OWN_BYTES: usize = 16 << 20;
/// Bytes of one receive buffer. Touched only when a client sends.
pub const RECV_BUFFER_BYTES: usize = 16 * 1024;
/// Receive buffers one connection may hold unread before its stream is paused.
pub const RECV_BUFFERS_PER_STREAM: usize = 4;
/// Pause of a listener when the process has no descriptors left.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Backlog asked of the kernel for a listener.
pub const LISTEN_BACKLOG: i32 = 1024;
/// Submission entries of one ring; a full queue is submitted early, so this is not a limit on work.
pub const RING_ENTRIES: u32 = 256;
/// Completion entries of one ring.
pub const RING_COMPLETIONS: u32 = 2048;
/// Alignment of direct file operations, of offsets, lengths and memory.
pub const DIRECT_ALIGN: usize = 4096;
/// Requests of one shard under way at one device: more than a fast disk needs to be busy, few against what a turn of a
/// small group should wait for.
pub const IO_DEPTH: usize = 128;
/// Bytes of requests of one shard under way at one device, above which no other starts: bounds their buffers.
pub const IO_BYTES_IN_FLIGHT: u64 = 16 << 20;
/// Bytes of all shards' requests under way at a device that was not seen to do more: one large write, or 64 small reads.
pub const IO_BYTES_IN_FLIGHT_MIN: u64 = 256 << 10;
/// A shard's part of that, however many they are: some small reads.
pub const IO_SHARD_BYTES_MIN: u64 = 64 << 10;
/// Time in which a busy device does what is under way: what a request that goes first waits for those that were there before.
pub const IO_QUEUE_TIME: Duration = Duration::from_millis(10);
/// The part of that for requests nobody waits for, while there are others: what these find before them when they come.
pub const IO_BACKGROUND_TIME: Duration = Duration::from_millis(1);
/// Pieces of that: the device has the next when it ends one.
pub const IO_BACKGROUND_PIECES: u64 = 2;
/// A smaller piece is not worth its cost.
pub const IO_PIECE_MIN: u64 = 32 << 10;
/// How long after something was read for a client more is expected.
pub const IO_REQUEST_REST: Duration = Duration::from_millis(100);
/// Time over which the rate of a device is taken; the best of eight counts.
pub const IO_WINDOW: Duration = Duration::from_millis(50);
/// Such windows between two tries whether a device does more when it is given more.
pub const IO_PROBE_EVERY: u32 = 32;
/// What a request costs besides its bytes, in bytes: a disk does fewer small requests than large ones in its time.
pub const IO_REQUEST_COST: u64 = 16 * 1024;
/// Idle time of a limited device that may be made up for: a late timer, not a rest.
pub const RATE_CREDIT: Duration = Duration::from_millis(10);
/// Longest sleep of what a rate holds back, because another shard may change it.
pub const RATE_LOOK: Duration = Duration::from_millis(100);
/// Bytes of a removed file that are given back to the file system at a time: some milliseconds of a device that is told of freed blocks.
pub const RELEASE_PIECE_BYTES: u64 = 16 << 20;
/// Smaller files are given back whole.
pub const RELEASE_FILE_BYTES_MIN: u64 = 1 << 20;
/// Removed files that a shard holds open for each device; what is removed beyond is given back at once.
pub const RELEASE_FILES_MAX: usize = 512;
/// Least rate at which all shards give back the bytes of removed files: a few hundredths of what such a device does.
pub const RELEASE_BYTES_PER_SECOND_MIN: u64 = 64 << 20;
/// Largest rate of one shard: as much as its compactions can free all the time.
pub const RELEASE_BYTES_PER_SECOND_MAX: u64 = 256 << 20;
/// Between those two a shard gives back per second what is left divided by the seconds of this.
pub const RELEASE_WITHIN: Duration = Duration::from_secs(32);
/// Bytes of the largest read buffer that is kept for the next read.
pub const READ_BUFFER_BYTES: usize = 256 * 1024;
/// Bytes of read buffers a shard keeps for the next reads.
pub const READ_BUFFERS_KEPT_BYTES: usize = 4 << 20;
/// Longest transfer of one file operation; longer ones are split. Linux caps one call just below 2 GiB.
pub const TRANSFER_BYTES: usize = 1 << 30;
/// Longest spin before a sleep, when the shard owns its core.
pub const SPIN: Duration = Duration::from_micros(50);
/// At most one stall is written to the log in this time; all are counted.
pub const STALL_LOG_EVERY: Duration = Duration::from_secs(10);
/// Bytes of the events that one traced request may leave on one shard, and of all that come together at its coordinator: some hundred of them.
pub const TRACE_BYTES_MAX: usize = 32 * 1024;
/// What an event is counted with beside its text, in bytes.
pub const TRACE_EVENT_BYTES: usize = 80;
/// The text of an event is cut at this many bytes.
pub const TRACE_ACTIVITY_BYTES_MAX: usize = 1024;
/// One log line is cut at this many bytes.
pub const LOG_LINE_BYTES: usize = 16 * 1024;
/// Modules that have a log level of their own; every line that may be written looks through them.
pub const LOG_MODULES_MAX: usize = 256;
/// Longest name of such a module, in bytes.
pub const LOG_MODULE_BYTES: usize = 256;
/// Log lines waiting for whoever reads standard error, in bytes; more are counted and left out.
pub const LOG_QUEUE_BYTES: usize = 1 << 20;
/// How long the end of a process waits for its last log lines: a reader that does not read must not keep it.
pub const LOG_FLUSH: Duration = Duration::from_secs(1);
