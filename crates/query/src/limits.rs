//! Every bound of this crate, with its unit and reason.

use core::time::Duration;

/// Prepared statements kept by one shard: ten thousand distinct texts is an application that forgot bind markers.
pub const STATEMENTS_MAX: usize = 10_000;
/// Bytes of statement text kept by one shard, counted with what analysis makes of it.
pub const STATEMENT_BYTES_MAX: usize = 32 << 20;
/// What analysis of a statement is counted with, in bytes, beside its text.
pub const STATEMENT_BYTES_BASE: usize = 2 << 10;
/// Statements in one batch: the protocol counts them in 16 bits.
pub const BATCH_STATEMENTS_MAX: usize = 65_535;
/// Passwords that a node hashes or compares at once, on helper threads: what is left of them serves handshakes.
pub const HASHES_AT_ONCE: usize = 2;
/// Logins that wait for their turn before more are refused; at tens of milliseconds each, a minute or two of them.
pub const LOGINS_WAITING_MAX: usize = 4096;
/// How long a node that could not find out whether there is a role waits before it tries again.
pub const DEFAULT_ROLE_RETRY: Duration = Duration::from_secs(10);
/// Bytes of one unpaged result before it is refused: what fits a frame of 256 MiB.
pub const RESULT_BYTES_MAX: usize = 240 << 20;
/// How long making a statement known to every shard may take.
pub const PREPARE_TIMEOUT: Duration = Duration::from_secs(10);
/// Traced requests one shard remembers: enough to look at, at most some megabytes, as events are bounded (`runtime::limits::TRACE_BYTES_MAX`).
pub const TRACES_MAX: usize = 500;
/// Traces of other nodes that one SELECT may name: each is a message.
pub const TRACES_FETCHED_MAX: usize = 16;
/// Bytes of a statement's text kept with its trace.
pub const TRACE_TEXT_BYTES_MAX: usize = 4096;
/// Client connections of one shard listed in `system_views.clients`.
pub const CLIENTS_MAX: usize = 100_000;

/// Room of rows that were sent is kept for the next rows up to this size: one buffer of a shard.
pub const ROOM_BYTES_KEPT: usize = 64 * 1024;
/// How long the time of day is taken from the machine's clock with only a cheap look at whether it was set back.
pub const CLOCK_ANCHOR_MICROS: i64 = 1_000_000;
/// How far behind the cheap clock the time of day must be to be looked at: above that clock's own error in that time.
pub const CLOCK_DOUBT_MICROS: i64 = 50_000;
/// How far back the clock must have been set to count; clocks that are slewed are never so far behind.
pub const CLOCK_STEP_MICROS: i64 = 1_000;
/// A clock that was set back is told in the log this often.
pub const CLOCK_WARN_EVERY: Duration = Duration::from_secs(60);
/// How often slow requests are told in the log, as in Cassandra.
pub const SLOW_INTERVAL: Duration = Duration::from_secs(5);
/// Distinct statements told in one interval, as in Cassandra; further ones are only counted.
pub const SLOW_STATEMENTS_MAX: usize = 50;
/// A statement of the slow-request lines is cut at this many bytes: all of them fit one record of the log.
pub const SLOW_LINE_BYTES: usize = 256;
/// Longer than a request may take that ends in the step in which it arrived, unless a limit asks for less.
pub const SLOW_STEP: Duration = Duration::from_millis(10);
/// Bytes of a statement's text that its trace shows where it is parsed.
pub const PARSED_SHOWN: usize = 256;
/// Users that one statement remembers to have let through. An application has one or a few; whoever is pushed out is looked up again.
pub const ALLOWED_USERS_MAX: usize = 16;
