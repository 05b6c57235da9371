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
/// Partitions one unlogged batch may touch before it carries a warning, as Cassandra's default.
pub const UNLOGGED_BATCH_PARTITIONS_WARN: usize = 10;
/// Rows asked of replicas at once when a statement has no page size, so that no answer grows without bound.
pub const ROUND_ROWS_MAX: u32 = 10_000;
/// Bytes of one unpaged result before it is refused: what fits a frame of 256 MiB.
pub const RESULT_BYTES_MAX: usize = 240 << 20;
/// Replica answers that one aggregate reads between two looks at the clock.
pub const RANGE_ROUNDS_MAX: u32 = u32::MAX;
/// How long making a statement known to every shard may take.
pub const PREPARE_TIMEOUT: Duration = Duration::from_secs(10);
/// Traced requests one shard remembers: enough to look at, at most a few megabytes.
pub const TRACES_MAX: usize = 500;
/// Bytes of a statement's text kept with its trace.
pub const TRACE_TEXT_BYTES_MAX: usize = 4096;
/// Client connections of one shard listed in `system_views.clients`.
pub const CLIENTS_MAX: usize = 100_000;

/// Room of rows that were sent is kept for the next rows up to this size: one buffer of a shard.
pub const ROOM_BYTES_KEPT: usize = 64 * 1024;
