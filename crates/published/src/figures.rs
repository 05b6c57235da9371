//! Rates and latencies, measured or published.

use loadtools::java::{fixed, grouped};
use loadtools::measure::{Interval, Snapshot};
use ycsb::measure::block::{Line, Number};

/// What a phase came to; nothing for what is not known. Latencies in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figures {
    /// Operations in a second.
    pub rate: Option<f64>,
    /// On average.
    pub mean: Option<f64>,
    /// Half of all are below.
    pub median: Option<f64>,
    /// 95 of 100.
    pub p95: Option<f64>,
    /// 99 of 100.
    pub p99: Option<f64>,
    /// 999 of 1000.
    pub p999: Option<f64>,
    /// The longest.
    pub max: Option<f64>,
    /// Operations.
    pub operations: Option<u64>,
    /// Of them failed.
    pub errors: Option<u64>,
}

impl Figures {
    /// Nothing known.
    pub const NONE: Figures = Figures {
        rate: None,
        mean: None,
        median: None,
        p95: None,
        p99: None,
        p999: None,
        max: None,
        operations: None,
        errors: None,
    };

    /// As cassandra-stress prints them: rate, mean, median, 95th, 99th, 99.9th, max.
    pub const fn published(rate: u64, latencies: [f64; 6]) -> Figures {
        let [mean, median, p95, p99, p999, max] = latencies;
        Figures {
            rate: Some(rate as f64),
            mean: Some(mean),
            median: Some(median),
            p95: Some(p95),
            p99: Some(p99),
            p999: Some(p999),
            max: Some(max),
            operations: None,
            errors: None,
        }
    }

    /// A ratio or a bound says nothing of the rest.
    pub const fn percentiles(p95: Option<f64>, p99: Option<f64>) -> Figures {
        Figures { p95, p99, ..Figures::NONE }
    }

    /// Of an interval; latencies from the schedule where there was one.
    pub fn of(interval: &Interval) -> Figures {
        let latencies = interval.latencies(interval.response.count() > 0);
        let some = |value| (latencies.count() > 0).then_some(value);
        Figures {
            rate: Some(interval.operation_rate()).filter(|rate| rate.is_finite()),
            mean: some(latencies.mean()),
            median: some(latencies.quantile(0.5)),
            p95: some(latencies.quantile(0.95)),
            p99: some(latencies.quantile(0.99)),
            p999: some(latencies.quantile(0.999)),
            max: some(latencies.max()),
            operations: Some(interval.operations),
            errors: Some(interval.errors),
        }
    }

    /// Of all loaders together: from the first that began to the last that ended.
    pub fn of_all(snapshots: &[Snapshot]) -> Figures {
        let mut totals = snapshots.iter().map(|snapshot| &snapshot.total);
        let Some(first) = totals.next() else { return Figures::NONE };
        let mut all = first.clone();
        totals.for_each(|total| all.add(total));
        Figures::of(&all)
    }

    /// Of an operation of YCSB's report, or of all with the rate of the run.
    pub fn of_ycsb(lines: &[Line], operation: &str) -> Figures {
        let number = |metric: &str, measurement: &str| {
            let line = lines.iter().find(|line| line.metric == metric && line.measurement == measurement)?;
            Some(match line.value {
                Number::Whole(value) => value as f64,
                Number::Double(value) => value,
            })
        };
        let ms = |measurement: &str| Some(number(operation, measurement)? / 1e3);
        let seconds = number("OVERALL", "RunTime(ms)").map(|ms| ms / 1e3).filter(|seconds| 0.0 < *seconds);
        let operations = number(operation, "Operations");
        let good = number(operation, "Return=OK").unwrap_or(0.0)
            + number(operation, "Return=NOT_FOUND").unwrap_or(0.0);
        Figures {
            rate: operations.zip(seconds).map(|(operations, seconds)| operations / seconds),
            mean: ms("AverageLatency(us)"),
            p95: ms("95thPercentileLatency(us)"),
            p99: ms("99thPercentileLatency(us)"),
            max: ms("MaxLatency(us)"),
            operations: operations.map(|operations| operations as u64),
            errors: operations.map(|operations| (operations - good).max(0.0) as u64),
            ..Figures::NONE
        }
    }

    /// Cells of a table: rate, latencies, operations, errors.
    pub fn cells(&self) -> [String; 9] {
        let none = || "–".to_owned();
        let latency = |value: Option<f64>| match value {
            None => none(),
            Some(value) if value < 10.0 => fixed(value, 2, false),
            Some(value) => fixed(value, 1, false),
        };
        let whole = |value: Option<u64>| value.map_or_else(none, grouped);
        [
            self.rate.map_or_else(none, |rate| fixed(rate, 0, true)),
            latency(self.mean),
            latency(self.median),
            latency(self.p95),
            latency(self.p99),
            latency(self.p999),
            latency(self.max),
            whole(self.operations),
            whole(self.errors),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loaders_count_together() {
        let snapshot = |from: u64, to: u64, operations: u64| {
            let mut total = Interval::starting(from * 1_000_000_000);
            total.to = to * 1_000_000_000;
            (total.operations, total.errors) = (operations, 1);
            (0..operations).for_each(|_| total.service.record(2_000_000));
            Snapshot { kinds: Vec::new(), current: total.clone(), total, uncertainty: 0.0, not_begun: 0 }
        };
        let figures = Figures::of_all(&[snapshot(0, 10, 50), snapshot(5, 20, 150)]);
        assert_eq!((figures.rate, figures.operations, figures.errors), (Some(10.0), Some(200), Some(2)));
        assert!(figures.p99.is_some_and(|p99| (p99 - 2.0).abs() < 0.01));
        assert_eq!(Figures::of_all(&[]), Figures::NONE);
    }

    #[test]
    fn a_report_of_ycsb_is_figures() {
        let lines = [
            Line::whole("OVERALL", "RunTime(ms)", 2_000),
            Line::whole("READ", "Operations", 500),
            Line::double("READ", "AverageLatency(us)", 1_500.0),
            Line::whole("READ", "95thPercentileLatency(us)", 2_500),
            Line::whole("READ", "Return=OK", 498),
            Line::whole("READ", "Return=ERROR", 2),
        ];
        let figures = Figures::of_ycsb(&lines, "READ");
        assert_eq!(
            (figures.rate, figures.mean, figures.p95, figures.p99),
            (Some(250.0), Some(1.5), Some(2.5), None)
        );
        assert_eq!((figures.operations, figures.errors), (Some(500), Some(2)));
        assert_eq!(Figures::of_ycsb(&lines, "UPDATE"), Figures::NONE);
        let cells = Figures::published(281_037, [5.3, 3.2, 7.5, 10.3, 34.7, 2507.4]).cells();
        assert_eq!(cells, ["281,037", "5.30", "3.20", "7.50", "10.3", "34.7", "2507.4", "–", "–"]);
    }
}
