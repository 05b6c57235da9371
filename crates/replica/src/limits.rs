//! Every limit of this crate.

/// Requests whose increments of one partition are counted together: as many as one wait for the disk may serve.
pub const COUNTED_TOGETHER_MAX: usize = 256;

/// Bytes of increments that are counted together, unless those of one request are more.
pub const COUNTED_BYTES_MAX: usize = 64 << 10;
