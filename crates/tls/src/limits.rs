//! Limits of TLS.

use std::time::Duration;

/// Plain bytes encrypted in one go; a record holds at most as many.
pub const RECORD_BYTES: usize = 16 << 10;
/// Largest file of keys or certificates: a chain of a few certificates has some kilobytes, a bundle of authorities some hundred.
pub const FILE_BYTES_MAX: u64 = 4 << 20;
/// How often files are looked at again: a renewed certificate is served soon, and nobody notices the reading.
pub const LOOK_EVERY: Duration = Duration::from_secs(10);
