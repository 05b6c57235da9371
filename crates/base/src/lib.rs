//! Checksums, tokens, varints, byte cursors, seeded randomness and hash maps: no I/O, no CQL.
//!
//! Modules, bottom to top: each uses only those listed above it.

/// Days and the proleptic Gregorian calendar.
pub mod calendar;
/// CRC-32 and the running hash of a trace.
pub mod checksum;
/// An allocator that counts.
pub mod counting;
/// Byte cursors and variable-length integers.
pub mod cursor;
/// Histograms with Cassandra's bucket boundaries.
pub mod histogram;
/// Who a node is.
pub mod host;
/// Answers of HTTP as bytes.
pub mod http;
/// A monotonic instant that a simulator can make.
pub mod instant;
/// Hash maps whose iteration order does not change from run to run.
pub mod map;
/// Broken expectations that one request may survive.
pub mod never;
/// Hints to the processor's caches.
pub mod prefetch;
/// Seeded pseudo random numbers.
pub mod prng;
/// The partitioner's hash and tokens.
pub mod token;
/// Which shard of a node owns a token.
pub mod sharder;

pub use checksum::{Crc32, TraceHash, crc32};
pub use cursor::{ByteReader, Truncated, put_svint, put_uvint, svint_len, unzigzag, uvint_len, zigzag};
pub use host::HostId;
pub use instant::Instant;
pub use map::{FixedState, HashMap, HashSet, hash_map, hash_set};
pub use prefetch::prefetch;
pub use prng::Prng;
pub use sharder::{shard_interval, shard_of, shards_of_interval};
pub use token::{Token, murmur3};
