//! The commitlog: the bytes of its blocks, the writer of one shard, and replay.

/// Where blocks wait to be written.
pub mod memory;
/// Blocks and entries, without I/O.
pub mod block;
/// Tail files: what a process left that was killed.
pub mod tail;
/// Appending, writing, syncing.
mod log;
/// How blocks become durable fastest.
pub(crate) mod probe;
/// Reading what an earlier start left.
pub mod replay;

pub use block::{LogPosition, SegmentName};
pub use log::{Appended, Commitlog, Held, LogConfig};
