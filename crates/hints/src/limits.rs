//! Limits of hints, each with its unit and reason.

use std::time::Duration;

/// Bytes of hints of one shard that are not on the disk yet. Beyond it none are taken: the disk is too slow or full, and memory is not
/// a place to keep them.
pub const BUFFERED_BYTES_MAX: usize = 16 << 20;
/// Bytes of one queue that are flushed before their time: large enough that a sync is worth it.
pub const FLUSH_BYTES: usize = 1 << 20;
/// Bytes that one request of a delivery carries: a sync of the target is worth it, and a target that is slow is not kept busy for long.
pub const REQUEST_BYTES: usize = 64 << 10;
/// Bytes of a file that are read at once.
pub const READ_BYTES: usize = 256 << 10;
/// Largest body of a record, in bytes; more is no record. Above the largest mutation, which is half of the largest commitlog segment.
pub const RECORD_BYTES_MAX: usize = (1 << 30) + (1 << 20);
/// How long a target may take to answer one request of a delivery.
pub const DELIVERY_TIMEOUT: Duration = Duration::from_secs(10);
/// How much earlier than the grace of its tables a hint expires: a request may be under way for [`DELIVERY_TIMEOUT`], and clocks of two
/// nodes may differ by 5 s.
pub const EXPIRY_MARGIN: Duration = Duration::from_secs(15);
/// Pause before a queue is tried again whose target does not answer or refuses; doubled up to the second.
pub const RETRY_PAUSE: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(10));
/// Refusals of one hint, one after the other, until it goes to the end of its queue.
pub const REFUSALS_MAX: u32 = 5;
/// Longest single wait of a throttled delivery, so that a new rate or a pause counts soon.
pub const THROTTLE_WAIT_MAX: Duration = Duration::from_millis(250);
