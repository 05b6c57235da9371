//! How much of the core and of the disk compactions get: shares that follow what waits to be compacted.
//!
//! With nothing waiting a compaction gets what others leave and little else. The more bytes wait, in flushes' worth, the more it
//! gets, until it competes with requests as an equal. Where sstables come faster than equals can merge them, reads would have
//! more and more of them to look into. So while writes are held up anyway, because they want more than the disk takes, and more than
//! [`SPARED_BEARABLE`] sstables wait to be merged into others, compactions get more than that. They take it from flushes, and writes are
//! let in as fast as flushes write: a load without end settles where compactions keep up, if `compaction_throughput` lets them.
//!
//! Half of the way is gone at each look, so shares do not swing.

use crate::store::Store;
use runtime::Group;
use std::rc::Rc;
use std::time::Duration;

/// Time between two looks.
pub(super) const PERIOD: Duration = Duration::from_millis(250);
/// Shares with nothing waiting.
const SHARES_MIN: u32 = 50;
/// Shares with as many bytes waiting as is bearable: those of requests.
const SHARES_EQUAL: u32 = 1_000;
/// Shares when reads have far too many sstables to ask: half of a core that requests, flushes and the log all want.
const SHARES_MAX: u32 = 4_000;
/// Memtable budgets' worth of waiting bytes that are bearable.
const BEARABLE: u64 = 16;
/// Sstables over one token that are bearable although compactions that are due will merge them into others; as many again for
/// [`SHARES_EQUAL`] more shares.
const SPARED_BEARABLE: f64 = 16.0;

/// The shares after the next look. `bytes` wait in all, and of the table that is worst off so many sstables are to be `spared`.
fn next_shares(now: u32, bytes: u64, spared: f64, memtable_bytes: u64) -> u32 {
    let bearable = memtable_bytes.saturating_mul(BEARABLE).max(1);
    let part = (bytes as f64 / bearable as f64).min(1.0);
    let debt = (spared / SPARED_BEARABLE - 1.0).max(0.0);
    let by_bytes = f64::from(SHARES_MIN) + f64::from(SHARES_EQUAL - SHARES_MIN) * part;
    let wanted = ((by_bytes + f64::from(SHARES_EQUAL) * debt) as u32).min(SHARES_MAX);
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
            let (mut bytes, mut spared) = (0u64, 0f64);
            // Else requests would give way to what nobody adds to: an import of many sstables.
            let held_up = self.pressure.level() > 0.0;
            for table in self.all_tables() {
                // Most tables are at rest: fewer sstables than any strategy merges.
                if table.with_version(|version, _| version.sstables.len()) > 1 {
                    let (pending, left) = (self.pending_compactions(&table), self.compactions.left(table.id));
                    bytes = bytes.saturating_add(pending.bytes).saturating_add(left.bytes);
                    // A table whose compactions fail has no use for more.
                    if held_up && table.compaction_backoff.is_due() {
                        spared = spared.max(pending.spared + left.spared);
                    }
                    runtime::yield_if_needed().await;
                }
            }
            let now = runtime::shares(Group::COMPACTION);
            let next = next_shares(now, bytes, spared, self.settings.memtable_bytes);
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
        let settle = |mut shares: u32, waiting: u64, spared: f64| {
            for _ in 0..12 {
                shares = next_shares(shares, waiting, spared, 64 * MIB);
            }
            assert_eq!(shares, next_shares(shares, waiting, spared, 64 * MIB), "at rest after three seconds");
            shares
        };
        assert_eq!(settle(200, 0, 0.0), SHARES_MIN);
        assert_eq!(settle(200, 1 << 50, 16.0), SHARES_EQUAL, "bytes alone, however many, make equals");
        let half = settle(SHARES_MIN, 8 * 64 * MIB, 3.0);
        assert_eq!(half, settle(SHARES_EQUAL, 8 * 64 * MIB, 3.0));
        assert_eq!(half, 525);
        assert_eq!(settle(200, 8 * 64 * MIB, 24.0), 1_025, "many sstables make more of them");
        assert_eq!(settle(200, 0, 1e9), SHARES_MAX);
        assert!(next_shares(50, 1 << 50, 0.0, 64 * MIB) < SHARES_EQUAL, "not at once");
        assert_eq!(next_shares(50, 5, 0.0, 0), 525, "no budget is no division by zero");
    }
}
