//! How much of the core compactions get: shares that follow what waits to be compacted.
//!
//! With nothing waiting a compaction gets what others leave and little else. The more bytes wait, in flushes' worth, the more it
//! gets, until it competes with requests as an equal. Half of the way is gone at each look, so shares do not swing.

use crate::store::Store;
use runtime::Group;
use std::rc::Rc;
use std::time::Duration;

/// Time between two looks.
pub(super) const PERIOD: Duration = Duration::from_millis(250);
/// Shares with nothing waiting.
const SHARES_MIN: u32 = 50;
/// Shares with as much waiting as is bearable: those of requests.
const SHARES_MAX: u32 = 1_000;
/// Memtable budgets' worth of waiting bytes that are bearable.
const BEARABLE: u64 = 16;

/// The shares after the next look.
fn next_shares(now: u32, waiting_bytes: u64, memtable_bytes: u64) -> u32 {
    let bearable = memtable_bytes.saturating_mul(BEARABLE).max(1);
    let part = (waiting_bytes as f64 / bearable as f64).min(1.0);
    let wanted = SHARES_MIN + (f64::from(SHARES_MAX - SHARES_MIN) * part) as u32;
    // The last step is not halved, so that it is reached.
    let half = wanted.abs_diff(now).div_ceil(2);
    if wanted < now { now - half } else { now + half }
}

impl Store {
    /// The task that keeps the shares; ends when the store stops.
    pub(crate) async fn run_compaction_controller(self: Rc<Self>) {
        let mut due = runtime::now();
        while !self.stopping.get() {
            due += PERIOD;
            // Elapsed is what it waits for; a stop wakes it early.
            let _ = runtime::timeout_at(due, self.controller_stopped.wait()).await;
            let mut waiting = 0u64;
            for table in self.all_tables() {
                // Most tables are at rest: fewer sstables than any strategy merges.
                if table.with_version(|version, _| version.sstables.len()) > 1 {
                    waiting = waiting.saturating_add(self.pending_compactions(&table).1);
                    runtime::yield_if_needed().await;
                }
            }
            waiting = waiting.saturating_add(self.compactions.left_bytes());
            let now = runtime::shares(Group::COMPACTION);
            let next = next_shares(now, waiting, self.settings.memtable_bytes);
            if next != now {
                runtime::set_shares(Group::COMPACTION, next);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_follow_the_backlog_and_come_to_rest() {
        const MIB: u64 = 1 << 20;
        let settle = |mut shares: u32, waiting: u64| {
            for _ in 0..12 {
                shares = next_shares(shares, waiting, 64 * MIB);
            }
            assert_eq!(shares, next_shares(shares, waiting, 64 * MIB), "at rest after three seconds");
            shares
        };
        assert_eq!(settle(200, 0), SHARES_MIN);
        assert_eq!(settle(200, 1 << 50), SHARES_MAX);
        let half = settle(SHARES_MIN, 8 * 64 * MIB);
        assert_eq!(half, settle(SHARES_MAX, 8 * 64 * MIB));
        assert_eq!(half, 525);
        assert!(next_shares(50, 1 << 50, 64 * MIB) < SHARES_MAX, "not at once");
        assert_eq!(next_shares(50, 5, 0), 525, "no budget is no division by zero");
    }
}
