//! The wall clock, in the seconds that deletions and lifetimes count in.

/// Seconds since the Unix epoch.
pub(crate) fn now_s() -> u32 {
    u32::try_from(runtime::unix_micros() / 1_000_000).unwrap_or(u32::MAX)
}
