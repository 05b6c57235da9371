//! Every limit of this crate: unit and reason.

/// Body of one journal record, bytes: a snapshot of the manifest of some ten thousand sstables fits.
pub const JOURNAL_RECORD_BYTES_MAX: usize = 256 * 1024 * 1024;
