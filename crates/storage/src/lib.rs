//! One shard's log-structured store: commitlog, memtables, flush, compaction, manifest, replay.
#![forbid(unsafe_code)]
