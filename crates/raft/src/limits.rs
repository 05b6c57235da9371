//! Every limit of this crate: unit and reason.

use std::time::Duration;

/// Longest message between members, in bytes; a longer one ends the connection. Entries are at most 1 MiB.
pub const FRAME_BYTES: usize = 64 << 20;
/// Longest wait for a connection to another member.
pub const CONNECT: Duration = Duration::from_millis(500);
/// Longest wait for a write to be applied or a read to be confirmed.
pub const REQUEST: Duration = Duration::from_secs(5);
