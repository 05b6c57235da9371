//! Every limit of this crate: unit and reason.

use std::time::Duration;

/// Longest that a healed group may take to agree again, in virtual time.
pub const CONVERGE: Duration = Duration::from_secs(60);
/// Failing seeds that a report keeps with their text.
pub const FAILURES_KEPT: usize = 20;
