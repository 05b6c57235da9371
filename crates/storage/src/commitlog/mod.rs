//! The commitlog: the bytes of its blocks, the writer of one shard, and replay.

/// Blocks and entries, without I/O.
pub mod block;
/// Appending, writing, syncing.
mod log;
/// How blocks become durable fastest.
pub(crate) mod probe;
/// Reading what an earlier start left.
pub mod replay;

pub use block::{LogPosition, SegmentName};
pub use log::{Appended, Commitlog, Held, LogConfig};
