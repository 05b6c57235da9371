//! Every limit of this crate, with its unit and its reason.

/// Bytes gathered before they are handed to the terminal or pipe.
pub const OUTPUT_BYTES: usize = 64 * 1024;

/// Bytes of a piece of a file whose checksum is computed.
pub const READ_BYTES: usize = 128 * 1024;

/// Bytes of partitions written between two waits for the disk, while an sstable is written anew.
pub const WRITE_BYTES: usize = 1024 * 1024;

/// Damages told of one sstable, each on a line; more are counted.
pub const DAMAGES_TOLD: usize = 100;
