//! The highest rate at which latencies stay below a bound: `p99<10ms`.
//!
//! Latencies count from the intended start, so a rate that the servers cannot keep up with never holds. The search halves the range between
//! the highest rate that held and the lowest that did not; the first bound is what a closed loop reaches.

use crate::error::Error;
use loadtools::java::{fixed, grouped};
use loadtools::measure::{Latencies, Snapshot};

/// Trials at most, beside the first one without a schedule.
const TRIALS_MAX: u32 = 10;
/// The search ends when what is left is so small a share of the rate.
const PRECISION: f64 = 0.03;
/// A rate that was reached to so great a share was kept.
const KEPT: f64 = 0.99;

/// What has to hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Goal {
    measure: Measure,
    name: String,
    limit_ms: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Measure {
    Mean,
    Quantile(f64),
    Max,
}

impl Goal {
    /// Reads `p99<10ms`: `mean`, `max` or a percentile, and a time in us, ms or s.
    pub fn parse(text: &str) -> Result<Goal, Error> {
        let invalid = || Error::usage(format!("Invalid goal {text}: such as p99<10ms, mean<800us or max<1s"));
        let (name, limit) = text.split_once('<').ok_or_else(invalid)?;
        let measure = match name {
            "mean" => Measure::Mean,
            "max" => Measure::Max,
            _ => {
                let percent = name.strip_prefix('p').and_then(|digits| digits.parse::<f64>().ok());
                let percent =
                    percent.filter(|percent| 0.0 < *percent && *percent < 100.0).ok_or_else(invalid)?;
                Measure::Quantile(percent / 100.0)
            }
        };
        let units = [("us", 1e-3), ("ms", 1.0), ("s", 1e3)];
        let limit = units
            .iter()
            .find_map(|(unit, factor)| Some(limit.strip_suffix(unit)?.parse::<f64>().ok()? * factor));
        let limit_ms = limit.filter(|limit| *limit > 0.0 && limit.is_finite()).ok_or_else(invalid)?;
        Ok(Goal { measure, name: name.to_owned(), limit_ms })
    }

    fn value(&self, latencies: &Latencies) -> f64 {
        match self.measure {
            Measure::Mean => latencies.mean(),
            Measure::Quantile(share) => latencies.quantile(share),
            Measure::Max => latencies.max(),
        }
    }

    /// Whether a run at a rate kept it, without errors and within the bound.
    pub fn holds(&self, rate: u32, snapshot: &Snapshot) -> bool {
        let total = &snapshot.total;
        total.errors == 0
            && total.operation_rate() >= f64::from(rate) * KEPT
            && total.response.count() > 0
            && self.value(&total.response) < self.limit_ms
    }

    /// A line about a trial.
    pub fn line(&self, rate: u32, snapshot: &Snapshot) -> String {
        format!(
            "{:>12} op/s asked, {:>12} op/s done, {} {} ms: {}",
            grouped(u64::from(rate)),
            fixed(snapshot.total.operation_rate(), 0, true),
            self.name,
            fixed(self.value(&snapshot.total.response), 2, false),
            if self.holds(rate, snapshot) { "holds" } else { "does not hold" }
        )
    }

    /// The line at the end of a search.
    pub fn verdict(&self, search: &Search) -> String {
        let rate = search.found().map(|rate| grouped(u64::from(rate)));
        match (rate, search.ended_early) {
            (Some(rate), false) => format!("Highest rate with {self}: {rate} op/s"),
            (None, false) => format!("No rate was found with {self}"),
            (Some(rate), true) => {
                format!("The search ended early: {rate} op/s held {self}, higher rates are open")
            }
            (None, true) => format!("The search ended early: no rate has held {self} so far"),
        }
    }
}

impl std::fmt::Display for Goal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} < {} ms", self.name, self.limit_ms)
    }
}

/// Which rate to try next.
#[derive(Clone, Copy, Debug)]
pub struct Search {
    /// The highest rate that held.
    held: u32,
    /// The lowest that did not, or that cannot be reached.
    failed: u32,
    trials: u32,
    /// It did not come to its end.
    ended_early: bool,
}

impl Search {
    /// Below a rate that cannot be exceeded.
    pub fn below(most: u32) -> Search {
        Search { held: 0, failed: most.max(1), trials: 0, ended_early: false }
    }

    /// The rate to try; `None` when the answer is near enough.
    pub fn next(&self) -> Option<u32> {
        let left = self.failed - self.held;
        let near = f64::from(left) <= f64::from(self.failed) * PRECISION || left <= 1;
        (!near && self.trials < TRIALS_MAX).then(|| self.held + left / 2)
    }

    /// What came of a trial.
    pub fn tried(&mut self, rate: u32, held: bool) {
        self.trials += 1;
        if held {
            self.held = self.held.max(rate);
        } else {
            self.failed = self.failed.min(rate);
        }
    }

    /// There will be no more trials, although rates are left to try.
    pub fn end_early(&mut self) {
        self.ended_early = true;
    }

    /// The highest rate that held, if any did.
    pub fn found(&self) -> Option<u32> {
        (self.held > 0).then_some(self.held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use loadtools::measure::{Done, Metrics};

    #[test]
    fn goals_are_a_measure_and_a_time() {
        let of = |text: &str| Goal::parse(text).map(|goal| goal.to_string());
        assert_eq!(of("p99<10ms").as_deref(), Ok("p99 < 10 ms"));
        assert_eq!(of("p99.9<1s").as_deref(), Ok("p99.9 < 1000 ms"));
        assert_eq!(of("mean<800us").as_deref(), Ok("mean < 0.8 ms"));
        for wrong in ["p99", "p100<1ms", "p0<1ms", "q99<1ms", "p99<10", "p99<-1ms", "p99<infms", "max<0s", ""]
        {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }

    /// A server that takes so many in a second and gets slow before that.
    #[test]
    fn the_knee_is_found_in_a_few_trials() {
        for (capacity, knee) in
            [(100_000, 80_000), (100_000, 1_000), (7, 3), (4_000_000_000, 2_100_000_000), (100_000, 99_500)]
        {
            let mut search = Search::below(capacity);
            let mut trials = 0;
            while let Some(rate) = search.next() {
                search.tried(rate, rate <= knee);
                trials += 1;
            }
            let found = search.found().expect("some rate holds");
            assert!(
                found <= knee && f64::from(knee - found) <= f64::from(knee) * 0.1 + 1.0,
                "{found} of {knee}"
            );
            assert!(trials <= TRIALS_MAX, "{trials}");
        }
        let mut hopeless = Search::below(1_000_000);
        while let Some(rate) = hopeless.next() {
            hopeless.tried(rate, false);
        }
        assert_eq!(hopeless.found(), None);
    }

    #[test]
    fn a_search_that_ended_early_claims_no_highest_rate() {
        let goal = Goal::parse("p99<10ms").expect("a goal");
        let mut search = Search::below(10_000);
        assert_eq!(goal.verdict(&search), "No rate was found with p99 < 10 ms");
        search.tried(5_000, true);
        assert_eq!(goal.verdict(&search), "Highest rate with p99 < 10 ms: 5,000 op/s");
        search.end_early();
        assert_eq!(
            goal.verdict(&search),
            "The search ended early: 5,000 op/s held p99 < 10 ms, higher rates are open"
        );
        let mut nothing = Search::below(10_000);
        nothing.end_early();
        assert_eq!(goal.verdict(&nothing), "The search ended early: no rate has held p99 < 10 ms so far");
    }

    #[test]
    fn what_was_late_or_failed_does_not_hold() {
        let goal = Goal::parse("p50<10ms").expect("a goal");
        let seen = |late: u64, failed: bool, seconds: u64| {
            let mut metrics = Metrics::new(vec!["READ".into()], 0);
            for nth in 0..100 {
                let intended = Some(nth);
                let (started, ended) = (nth + late, nth + late + 1_000_000);
                metrics.record(0, &Done { intended, started, ended, partitions: 1, rows: 1, failed });
            }
            metrics.snapshot(seconds * 1_000_000_000)
        };
        assert!(goal.holds(100, &seen(0, false, 1)));
        assert!(!goal.holds(100, &seen(20_000_000, false, 1)), "from the intended start it took 21 ms");
        assert!(!goal.holds(100, &seen(0, true, 1)), "there were errors");
        assert!(!goal.holds(100, &seen(0, false, 2)), "half of the rate was reached");
    }
}
