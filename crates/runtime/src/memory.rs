//! The memory a shard may use.

use crate::shard::with;

/// Bytes this shard may use for memtables, caches and requests together.
pub fn budget() -> u64 {
    with(|shard| shard.memory)
}
