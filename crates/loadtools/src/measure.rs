//! What a run sees: operations, rows, errors and latencies, by the kind of operation, from line to line and in all.
//!
//! ```text
//!  intended start ── wait ──► start ── service ──► end
//!       └───────────── response ──────────────────┘
//! ```
//! With a schedule every operation has an intended start, and a server that stands still is charged for all it kept waiting; what was
//! due and had not begun at the end is counted apart. Without one there is service time alone.

use crate::java::{fixed, grouped};
use hdrhistogram::Histogram;

/// Digits of a latency that are kept.
const DIGITS: u8 = 3;
/// Nanoseconds of the longest latency that is told from longer ones: a day.
const LONGEST: u64 = 86_400 * 1_000_000_000;

/// Latencies in nanoseconds.
#[derive(Clone, Debug)]
pub struct Latencies(Histogram<u64>);

impl Default for Latencies {
    fn default() -> Latencies {
        // Bounds and digits are constants that the library takes.
        Latencies(Histogram::new_with_bounds(1, LONGEST, DIGITS).expect("bounds of a histogram"))
    }
}

impl Latencies {
    /// Counts one.
    pub fn record(&mut self, nanoseconds: u64) {
        self.0.saturating_record(nanoseconds.max(1));
    }

    /// Counts all of another.
    pub fn add(&mut self, other: &Latencies) {
        if other.0.is_empty() {
            return;
        }
        // Of equal bounds and digits: nothing can be too large.
        let _fits = self.0.add(&other.0);
    }

    /// How many.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// Milliseconds on average.
    pub fn mean(&self) -> f64 {
        self.0.mean() / 1e6
    }

    /// Milliseconds below which this share (0 to 1) lies.
    pub fn quantile(&self, share: f64) -> f64 {
        self.0.value_at_quantile(share) as f64 / 1e6
    }

    /// Milliseconds of the longest.
    pub fn max(&self) -> f64 {
        self.0.max() as f64 / 1e6
    }

    /// The histogram behind.
    pub fn histogram(&self) -> &Histogram<u64> {
        &self.0
    }

    fn clear(&mut self) {
        if !self.0.is_empty() {
            self.0.reset();
        }
    }
}

/// One operation that is over; times in nanoseconds of one clock.
#[derive(Clone, Copy, Debug)]
pub struct Done {
    /// When it should have begun, with a schedule.
    pub intended: Option<u64>,
    /// When it began.
    pub started: u64,
    /// When it ended.
    pub ended: u64,
    /// Partitions it touched.
    pub partitions: u64,
    /// Rows it wrote or read.
    pub rows: u64,
    /// Whether it failed.
    pub failed: bool,
}

/// What was seen of one kind of operation between two instants.
#[derive(Clone, Debug, Default)]
pub struct Interval {
    /// Nanoseconds of the run's clock.
    pub from: u64,
    /// The same.
    pub to: u64,
    /// Operations that ended, failed ones as well.
    pub operations: u64,
    /// Partitions they touched.
    pub partitions: u64,
    /// Rows they wrote or read.
    pub rows: u64,
    /// Of them failed.
    pub errors: u64,
    /// From start to end.
    pub service: Latencies,
    /// From the intended start to the end; empty without a schedule.
    pub response: Latencies,
    /// From the intended start to the start; empty without a schedule.
    pub wait: Latencies,
}

impl Interval {
    /// Nothing seen yet.
    pub fn starting(from: u64) -> Interval {
        Interval { from, to: from, ..Interval::default() }
    }

    /// Counts an operation.
    pub fn record(&mut self, done: &Done) {
        self.operations += 1;
        self.partitions += done.partitions;
        self.rows += done.rows;
        self.errors += u64::from(done.failed);
        self.service.record(done.ended.saturating_sub(done.started));
        if let Some(intended) = done.intended {
            self.response.record(done.ended.saturating_sub(intended));
            self.wait.record(done.started.saturating_sub(intended));
        }
    }

    /// Adds another kind's, or a later one of the same kind.
    pub fn add(&mut self, other: &Interval) {
        self.from = self.from.min(other.from);
        self.to = self.to.max(other.to);
        self.operations += other.operations;
        self.partitions += other.partitions;
        self.rows += other.rows;
        self.errors += other.errors;
        self.service.add(&other.service);
        self.response.add(&other.response);
        self.wait.add(&other.wait);
    }

    /// Forgets everything and begins at an instant: memory is kept.
    pub fn restart(&mut self, from: u64) {
        (self.from, self.to) = (from, from);
        (self.operations, self.partitions, self.rows, self.errors) = (0, 0, 0, 0);
        self.service.clear();
        self.response.clear();
        self.wait.clear();
    }

    /// Seconds it covers.
    pub fn seconds(&self) -> f64 {
        self.to.saturating_sub(self.from) as f64 / 1e9
    }

    fn rate(&self, count: u64) -> f64 {
        count as f64 / self.seconds()
    }

    /// Operations in a second.
    pub fn operation_rate(&self) -> f64 {
        self.rate(self.operations)
    }

    /// Partitions in a second.
    pub fn partition_rate(&self) -> f64 {
        self.rate(self.partitions)
    }

    /// Rows in a second.
    pub fn row_rate(&self) -> f64 {
        self.rate(self.rows)
    }

    /// The latencies that are reported: from the schedule where latencies count from it.
    pub fn latencies(&self, from_schedule: bool) -> &Latencies {
        if from_schedule { &self.response } else { &self.service }
    }
}

/// Relative standard error of the mean of a rate that was measured again and again.
#[derive(Clone, Copy, Debug, Default)]
pub struct Uncertainty {
    measurements: u64,
    sum: f64,
    squares: f64,
}

impl Uncertainty {
    /// Takes one measurement.
    pub fn update(&mut self, value: f64) {
        self.measurements += 1;
        self.sum += value;
        self.squares += value * value;
    }

    /// How many were taken.
    pub fn measurements(&self) -> u64 {
        self.measurements
    }

    /// The error as a share of the mean; not a number before anything was done.
    pub fn value(&self) -> f64 {
        let count = self.measurements as f64;
        let mean = self.sum / count;
        let variance = (self.squares / count - mean * mean).max(0.0);
        (variance / count).sqrt() / mean
    }
}

/// What the kinds of operation of a run have done: since the last line, and in all.
#[derive(Clone, Debug)]
pub struct Metrics {
    names: Vec<String>,
    current: Vec<Interval>,
    history: Vec<Interval>,
    started: u64,
}

/// A line's worth of a run.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Each kind that has done something in the run: its name, since the last line, in all.
    pub kinds: Vec<(String, Interval, Interval)>,
    /// All kinds together since the last line.
    pub current: Interval,
    /// All kinds together.
    pub total: Interval,
    /// Relative standard error of the rate of rows; not a number of one loader alone.
    pub uncertainty: f64,
    /// Operations that were due before the end and that no worker was free to begin; of a whole run.
    pub not_begun: u64,
}

/// How a run stands.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Standing {
    /// Partitions in all.
    pub partitions: u64,
    /// Failed operations in all.
    pub errors: u64,
    /// Operations in a second, since the last line.
    pub rate: f64,
    /// Milliseconds, since the last line.
    pub median: f64,
    /// Milliseconds below which 99 of 100 were, since the last line.
    pub p99: f64,
    /// Milliseconds of the longest, since the last line.
    pub max: f64,
}

impl Standing {
    /// On one line of a terminal; `share`: how far the run is, from 0 to 1, if it is known.
    pub fn line(&self, share: Option<f64>) -> String {
        let bar =
            share.map(|share| format!("{} {:>3} %  ", bar(share), (100.0 * share.clamp(0.0, 1.0)) as u64));
        format!(
            "{}{} op/s  {} partitions  p50 {} ms  p99 {} ms  max {} ms  {} errors",
            bar.unwrap_or_default(),
            fixed(self.rate, 0, true),
            grouped(self.partitions),
            fixed(self.median, 1, false),
            fixed(self.p99, 1, false),
            fixed(self.max, 1, false),
            grouped(self.errors)
        )
    }
}

/// A bar that is full at 1.
fn bar(share: f64) -> String {
    const WIDTH: usize = 20;
    let full = (share.clamp(0.0, 1.0) * WIDTH as f64) as usize;
    format!("[{}{}]", "=".repeat(full), " ".repeat(WIDTH - full))
}

impl Snapshot {
    /// What several loaders have done together, kinds in the order of their names.
    pub fn joined(names: &[String], parts: &[Snapshot], uncertainty: &mut Uncertainty) -> Snapshot {
        let mut kinds = Vec::new();
        for name in names {
            let of_kind = || parts.iter().flat_map(|part| &part.kinds).filter(|(known, ..)| known == name);
            let Some((_, current, total)) = of_kind().next() else { continue };
            let (mut current, mut total) = (current.clone(), total.clone());
            for (_, more, more_total) in of_kind().skip(1) {
                current.add(more);
                total.add(more_total);
            }
            kinds.push((name.clone(), current, total));
        }
        let sum = |of: fn(&Snapshot) -> &Interval| {
            let mut sum = parts.first().map_or_else(|| Interval::starting(0), |part| of(part).clone());
            parts.iter().skip(1).for_each(|part| sum.add(of(part)));
            sum
        };
        let (current, total) = (sum(|part| &part.current), sum(|part| &part.total));
        uncertainty.update(if current.seconds() > 0.0 { current.row_rate() } else { 0.0 });
        let not_begun = parts.iter().map(|part| part.not_begun).sum();
        Snapshot { kinds, current, total, uncertainty: uncertainty.value(), not_begun }
    }
}

impl Standing {
    /// That of another loader, too.
    pub fn add(&mut self, other: &Standing) {
        self.partitions += other.partitions;
        self.errors += other.errors;
        self.rate += other.rate;
        // Of several, what the slowest one says: good enough for a line that changes.
        self.median = self.median.max(other.median);
        self.p99 = self.p99.max(other.p99);
        self.max = self.max.max(other.max);
    }
}

impl Metrics {
    /// Of kinds with these names, in the order in which they are shown.
    pub fn new(names: Vec<String>, started: u64) -> Metrics {
        let intervals = || names.iter().map(|_| Interval::starting(started)).collect();
        Metrics { current: intervals(), history: intervals(), started, names }
    }

    /// Counts an operation of a kind.
    pub fn record(&mut self, kind: usize, done: &Done) {
        self.current[kind].record(done);
    }

    /// Ends a line at an instant and begins the next.
    pub fn snapshot(&mut self, now: u64) -> Snapshot {
        let (mut current, mut total) = (Interval::starting(now), Interval::starting(self.started));
        let mut kinds = Vec::new();
        for ((name, interval), history) in self.names.iter().zip(&mut self.current).zip(&mut self.history) {
            interval.to = now;
            history.add(interval);
            current.add(interval);
            total.add(history);
            if history.operations > 0 {
                kinds.push((name.clone(), interval.clone(), history.clone()));
            }
            interval.restart(now);
        }
        Snapshot { kinds, current, total, uncertainty: f64::NAN, not_begun: 0 }
    }

    /// How a run stands, without ending its line.
    pub fn standing(&self, now: u64, from_schedule: bool) -> Standing {
        let mut current = Interval::starting(now);
        let mut standing = Standing::default();
        for (interval, history) in self.current.iter().zip(&self.history) {
            current.add(interval);
            standing.partitions += interval.partitions + history.partitions;
            standing.errors += interval.errors + history.errors;
        }
        current.to = now;
        if current.operations > 0 {
            standing.rate = current.operation_rate();
        }
        let latencies = current.latencies(from_schedule);
        standing.median = latencies.quantile(0.5);
        standing.p99 = latencies.quantile(0.99);
        standing.max = latencies.max();
        standing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn done(intended: Option<u64>, started: u64, ended: u64) -> Done {
        Done { intended, started, ended, partitions: 1, rows: 2, failed: false }
    }

    #[test]
    fn lines_are_of_an_interval_and_results_of_all() {
        let mut metrics = Metrics::new(vec!["READ".into(), "WRITE".into()], 0);
        metrics.record(0, &done(None, 10 * MS, 12 * MS));
        metrics.record(0, &Done { failed: true, rows: 0, ..done(None, 10 * MS, 20 * MS) });
        let first = metrics.snapshot(1_000 * MS);
        assert_eq!((first.kinds.len(), first.current.operations, first.current.errors), (1, 2, 1));
        assert_eq!((first.current.rows, first.current.operation_rate()), (2, 2.0));
        metrics.record(1, &done(None, 1_100 * MS, 1_101 * MS));
        let second = metrics.snapshot(1_500 * MS);
        assert_eq!((second.current.operations, second.current.operation_rate()), (1, 2.0));
        assert_eq!((second.total.operations, second.total.seconds()), (3, 1.5));
        let names: Vec<&str> = second.kinds.iter().map(|(name, ..)| name.as_str()).collect();
        assert_eq!(names, ["READ", "WRITE"]);
        // READ has done nothing since, but in all.
        assert_eq!((second.kinds[0].1.operations, second.kinds[0].2.operations), (0, 2));
    }

    #[test]
    fn a_standing_is_of_all_and_its_rates_of_the_line() {
        let mut metrics = Metrics::new(vec!["READ".into()], 0);
        metrics.record(0, &done(None, 10 * MS, 12 * MS));
        metrics.snapshot(1_000 * MS);
        assert_eq!(metrics.standing(1_500 * MS, false).rate, 0.0);
        for _ in 0..5 {
            metrics.record(0, &Done { failed: true, ..done(None, 1_100 * MS, 1_108 * MS) });
        }
        let standing = metrics.standing(1_500 * MS, false);
        assert_eq!((standing.partitions, standing.errors, standing.rate), (6, 5, 10.0));
        assert_eq!(
            standing.line(Some(0.31)),
            "[======              ]  31 %  10 op/s  6 partitions  p50 8.0 ms  p99 8.0 ms  max 8.0 ms  5 errors"
        );
        assert!(standing.line(None).starts_with("10 op/s  6 partitions"));
        assert_eq!([bar(-1.0), bar(2.0)], [format!("[{}]", " ".repeat(20)), format!("[{}]", "=".repeat(20))]);
    }

    #[test]
    fn with_a_schedule_latencies_count_from_the_intended_start() {
        let mut interval = Interval::starting(0);
        interval.record(&done(Some(0), 500 * MS, 501 * MS));
        let near = |value: f64, expected: f64| (value - expected).abs() < expected / 500.0;
        assert!(near(interval.latencies(true).max(), 501.0));
        assert!(near(interval.latencies(false).max(), 1.0));
        assert!(near(interval.wait.max(), 500.0));
    }

    #[test]
    fn uncertainty_is_that_of_the_java_tool() {
        let mut uncertainty = Uncertainty::default();
        uncertainty.update(0.0);
        assert!(uncertainty.value().is_nan());
        uncertainty.update(267.5);
        assert!((uncertainty.value() - std::f64::consts::FRAC_1_SQRT_2).abs() < 1e-9);
        let mut steady = Uncertainty::default();
        (0..10).for_each(|_| steady.update(1000.0));
        assert_eq!(steady.value(), 0.0);
    }

    #[test]
    fn what_is_longer_than_a_day_counts_as_a_day() {
        let mut latencies = Latencies::default();
        latencies.record(u64::MAX);
        latencies.record(0);
        assert_eq!(latencies.count(), 2);
        assert!((latencies.max() - 86_400_000.0).abs() < 100_000.0);
    }
}
