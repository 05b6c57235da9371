//! How long requests for a table take at this shard, and after which time one replica more is asked.
//!
//! ```text
//! read that asked other nodes ─▶ histogram ─ once a second ─▶ percentile ─▶ wait of speculative_retry
//! write to other nodes ────────▶ histogram ─ once a second ─▶ percentile ─▶ wait of additional_write_policy
//! ```
//! Reads of this node's own memory are not counted: they say nothing of how long another node may take.

use crate::limits::{PACE_EVERY, PACE_SAMPLES_MIN, SPECULATE_AFTER, SPECULATE_PERCENTILE_MIN};
use base::histogram::{DecayingHistogram, TICK, Zeroes};
use base::{HashMap, Instant};
use schema::{SpeculativeRetry, TableId};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

/// One table's requests at this shard.
pub(crate) struct Pace {
    /// Reads by key that asked other nodes.
    pub(crate) reads: Measured,
    /// Writes that went to other nodes.
    pub(crate) writes: Measured,
    /// Reads that asked one replica more because another was slow, or because the table always does.
    pub(crate) retries: Cell<u64>,
}

/// Latencies of one kind of request, and what follows from them.
pub(crate) struct Measured {
    latency: RefCell<DecayingHistogram>,
    ticked_at: Cell<Instant>,
    /// The wait of a policy, and until when it holds.
    wait: Cell<Option<(SpeculativeRetry, Option<Duration>, Instant)>>,
}

impl Measured {
    pub(crate) fn record(&self, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.latency.borrow_mut().record(micros);
    }

    /// How long an answer may take before one replica more is asked; `None`: as long as it takes. Worked out once a second, else a look.
    pub(crate) fn wait(&self, policy: SpeculativeRetry, now: Instant) -> Option<Duration> {
        if let Some((of, wait, until)) = self.wait.get()
            && of == policy
            && now < until
        {
            return wait;
        }
        let wait = policy.wait(|share| self.percentile(share, now));
        self.wait.set(Some((policy, wait, now + PACE_EVERY)));
        wait
    }

    fn percentile(&self, share: f64, now: Instant) -> Duration {
        self.tick(now);
        let latency = self.latency.borrow();
        let recent = latency.snapshot().recent;
        if recent.count() < PACE_SAMPLES_MIN {
            return SPECULATE_AFTER;
        }
        Duration::from_micros(recent.percentile(share)).max(SPECULATE_PERCENTILE_MIN)
    }

    /// Lets what is older weigh less.
    fn tick(&self, now: Instant) {
        let due = now.saturating_duration_since(self.ticked_at.get()).as_nanos() / TICK.as_nanos();
        if due == 0 {
            return;
        }
        self.ticked_at.set(now);
        let mut latency = self.latency.borrow_mut();
        // Behind an hour nothing is left.
        for _ in 0..due.min(3_600 / u128::from(TICK.as_secs())) {
            latency.tick();
        }
    }
}

/// Those of all tables of a shard.
#[derive(Default)]
pub(crate) struct Paces(RefCell<HashMap<TableId, Rc<Pace>>>);

impl Paces {
    pub(crate) fn of(&self, table: TableId) -> Rc<Pace> {
        self.0.borrow_mut().entry(table).or_insert_with(Pace::new).clone()
    }

    /// Forgets tables that are gone.
    pub(crate) fn retain(&self, is_there: impl Fn(TableId) -> bool) {
        self.0.borrow_mut().retain(|table, _| is_there(*table));
    }

    /// Speculative retries of each table that had one.
    pub(crate) fn retries(&self) -> Vec<(TableId, u64)> {
        let all = self.0.borrow();
        let counts = all.iter().map(|(table, pace)| (*table, pace.retries.get()));
        let mut counts: Vec<_> = counts.filter(|(_, count)| 0 < *count).collect();
        counts.sort_unstable();
        counts
    }
}

impl Pace {
    fn new() -> Rc<Pace> {
        let measured = || Measured {
            latency: RefCell::new(DecayingHistogram::new(Zeroes::AsOne)),
            ticked_at: Cell::new(Instant(0)),
            wait: Cell::new(None),
        };
        Rc::new(Pace { reads: measured(), writes: measured(), retries: Cell::new(0) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn policy(text: &str) -> SpeculativeRetry {
        SpeculativeRetry::parse(text).expect(text)
    }

    #[test]
    fn the_percentile_of_recent_requests_decides_from_the_next_second_on() {
        let pace = Pace::new();
        let mut now = Instant(0) + TICK;
        let p90 = policy("90p");
        assert_eq!(pace.reads.wait(p90, now), Some(SPECULATE_AFTER), "nothing is known");
        for n in 0..100 {
            pace.reads.record(if n < 95 { 10 * MS } else { 500 * MS });
        }
        assert_eq!(pace.reads.wait(p90, now), Some(SPECULATE_AFTER), "within the second");
        assert_eq!(pace.reads.wait(policy("30ms"), now), Some(30 * MS), "a table that was altered");
        now += PACE_EVERY;
        let wait = pace.reads.wait(p90, now).expect("it speculates");
        assert!(10 * MS <= wait && wait <= 13 * MS, "{wait:?}");
        assert!(400 * MS < pace.reads.wait(policy("99p"), now).expect("it speculates"));
        assert_eq!(pace.writes.wait(p90, now), Some(SPECULATE_AFTER), "writes are measured apart");
        // What was fast for an hour weighs nothing against a minute of slowness.
        now += Duration::from_secs(7_200);
        assert_eq!(pace.reads.wait(p90, now), Some(SPECULATE_AFTER), "too long ago");
        for _ in 0..100 {
            pace.reads.record(80 * MS);
        }
        now += PACE_EVERY;
        assert!(80 * MS <= pace.reads.wait(p90, now).expect("it speculates"));
    }

    #[test]
    fn percentiles_have_a_floor_and_fixed_waits_have_none() {
        let pace = Pace::new();
        (0..100).for_each(|_| pace.reads.record(Duration::from_micros(40)));
        let now = Instant(0) + TICK;
        assert_eq!(pace.reads.wait(policy("99p"), now), Some(SPECULATE_PERCENTILE_MIN));
        assert_eq!(pace.reads.wait(policy("0ms"), now), Some(Duration::ZERO));
        assert_eq!(pace.reads.wait(policy("NEVER"), now), None);
    }
}
