//! Every bound of this crate, with its unit and reason.

/// Most tokens a node takes: what drivers and ring computations are used to.
pub const NUM_TOKENS_MAX: u32 = 256;
/// Most members of a static ring.
pub const PEERS_MAX: usize = 64;
/// Smallest commitlog segment, in bytes: the largest mutation is half a segment.
pub const SEGMENT_BYTES_MIN: u64 = 64 << 10;
/// Connections leave one in so many file descriptors to sstables, the commitlog and the operators' port.
pub const DESCRIPTORS_OF_FILES: u64 = 4;
/// And never fewer than this, in descriptors: what a node without data needs, several times over.
pub const DESCRIPTORS_OF_FILES_MIN: u64 = 96;
/// Largest commitlog segment, in bytes: positions inside a segment are 32 bits.
pub const SEGMENT_BYTES_MAX: u64 = 2 << 30;
/// Smallest frame limit that still carries a driver's metadata queries, in bytes.
pub const FRAME_BYTES_MIN: u64 = 4 << 10;
/// Largest frame the protocol allows, in bytes.
pub const FRAME_BYTES_MAX: u64 = 256 << 20;
/// Bytes of the process that no cache counts: pages of the program's own file and what is made once.
pub const PROCESS_BYTES: u64 = 16 << 20;
/// Bytes of a shard that no cache counts: the tail of its commitlog, buffers of reads and requests, the heap's own blocks.
pub const SHARD_BYTES: u64 = 8 << 20;
/// Both together take no more than one in so many bytes of a shard's memory: a node with little still has its caches.
pub const OWN_SHARE: u64 = 8;
/// How often it is counted how much a node holds, for the others to show.
pub const LOAD_PAUSE: core::time::Duration = core::time::Duration::from_secs(10);
