//! The lines of a run and its results, column by column as the Java tool prints them: scripts read them.

use loadtools::java::{fixed, grouped};
use loadtools::measure::{Interval, Latencies, Snapshot};
use std::fmt::Write as _;

/// Titles of the columns of a line.
pub const TITLES: [&str; 19] = [
    "type",
    "total ops",
    "op/s",
    "pk/s",
    "row/s",
    "mean",
    "med",
    ".95",
    ".99",
    ".999",
    "max",
    "time",
    "stderr",
    "errors",
    "gc: #",
    "max ms",
    "sum ms",
    "sdv ms",
    "mb",
];
/// Characters of each column.
const WIDTHS: [usize; 19] = [10, 10, 8, 8, 8, 8, 8, 8, 8, 8, 8, 7, 9, 7, 7, 8, 8, 8, 8];
/// Characters of a label of the results.
const LABEL: usize = 26;

/// How results are worded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// `Op rate : 41,234 op/s  [WRITE: 41,234 op/s]`, from 3.x on.
    Current,
    /// `op rate : 41234 [WRITE:41234]`, as in 2.x.
    Older,
}

fn line(fields: &[String]) -> String {
    let mut text = String::new();
    for (nth, (field, width)) in fields.iter().zip(WIDTHS).enumerate() {
        match nth {
            0 => write!(text, "{field:<width$}"),
            1 => write!(text, "{field:>width$}"),
            _ => write!(text, ",{field:>width$}"),
        }
        .ok();
    }
    text
}

/// The line of titles.
pub fn header() -> String {
    line(&TITLES.map(str::to_owned))
}

/// A line: what a kind of operation has done since the last one, with what it has done in all.
pub fn row(
    kind: &str,
    current: &Interval,
    total: &Interval,
    uncertainty: f64,
    from_schedule: bool,
) -> String {
    let latencies = current.latencies(from_schedule);
    let whole = |value: f64| fixed(value, 0, false);
    let tenths = |value: f64| fixed(value, 1, false);
    let mut fields = vec![
        format!("{kind},"),
        total.operations.to_string(),
        whole(current.operation_rate()),
        whole(current.partition_rate()),
        whole(current.row_rate()),
        tenths(latencies.mean()),
        tenths(latencies.quantile(0.5)),
        tenths(latencies.quantile(0.95)),
        tenths(latencies.quantile(0.99)),
        tenths(latencies.quantile(0.999)),
        tenths(latencies.max()),
        tenths(total.seconds()),
        fixed(uncertainty, 5, false),
        current.errors.to_string(),
    ];
    // Collections of a Java server's garbage, of which nothing is asked.
    fields.extend(["0"; 5].map(str::to_owned));
    line(&fields)
}

/// The lines of an interval: of each kind when there are several, and of all together. None when nothing was done.
pub fn rows(snapshot: &Snapshot, from_schedule: bool) -> Vec<String> {
    if snapshot.current.operations == 0 {
        return Vec::new();
    }
    let mut lines = Vec::new();
    if snapshot.kinds.len() > 1 {
        for (name, current, total) in &snapshot.kinds {
            lines.push(row(name, current, total, snapshot.uncertainty, from_schedule));
        }
    }
    lines.push(row("total", &snapshot.current, &snapshot.total, snapshot.uncertainty, from_schedule));
    lines
}

/// A value of the whole run and of each kind of operation: how it is got and how it is written.
struct Aggregate {
    label: &'static str,
    older: &'static str,
    unit: &'static str,
    value: fn(&Interval, &Latencies) -> f64,
    /// Digits after the point.
    decimals: usize,
    /// Characters of the value of all.
    width: usize,
    /// Commas between thousands of the value of all.
    grouped: bool,
}

const fn rate(
    label: &'static str,
    older: &'static str,
    unit: &'static str,
    value: fn(&Interval, &Latencies) -> f64,
) -> Aggregate {
    Aggregate { label, older, unit, value, decimals: 0, width: 8, grouped: true }
}

const fn latency(
    label: &'static str,
    older: &'static str,
    value: fn(&Interval, &Latencies) -> f64,
) -> Aggregate {
    Aggregate { label, older, unit: " ms", value, decimals: 1, width: 6, grouped: false }
}

const fn total(label: &'static str, value: fn(&Interval, &Latencies) -> f64) -> Aggregate {
    Aggregate { label, older: label, unit: "", value, decimals: 0, width: 10, grouped: true }
}

const AGGREGATES: [Aggregate; 11] = [
    rate("Op rate", "op rate", " op/s ", |interval, _| interval.operation_rate()),
    rate("Partition rate", "partition rate", " pk/s ", |interval, _| interval.partition_rate()),
    rate("Row rate", "row rate", " row/s", |interval, _| interval.row_rate()),
    latency("Latency mean", "latency mean", |_, latencies| latencies.mean()),
    latency("Latency median", "latency median", |_, latencies| latencies.quantile(0.5)),
    latency("Latency 95th percentile", "latency 95th percentile", |_, latencies| latencies.quantile(0.95)),
    latency("Latency 99th percentile", "latency 99th percentile", |_, latencies| latencies.quantile(0.99)),
    latency("Latency 99.9th percentile", "latency 99.9th percentile", |_, latencies| {
        latencies.quantile(0.999)
    }),
    latency("Latency max", "latency max", |_, latencies| latencies.max()),
    total("Total partitions", |interval, _| interval.partitions as f64),
    total("Total errors", |interval, _| interval.errors as f64),
];

impl Aggregate {
    fn text(&self, snapshot: &Snapshot, style: Style, from_schedule: bool) -> String {
        let value = |interval: &Interval| (self.value)(interval, interval.latencies(from_schedule));
        let all = value(&snapshot.total);
        let kinds = |one: &dyn Fn(&str, f64) -> String| -> String {
            let parts: Vec<String> =
                snapshot.kinds.iter().map(|(name, _, total)| one(name, value(total))).collect();
            parts.join(", ")
        };
        match style {
            Style::Current => {
                let width = self.width;
                let each = kinds(&|name, value| {
                    format!("{name}: {}{}", fixed(value, self.decimals, true), self.unit.trim_end())
                });
                let all = fixed(all, self.decimals, self.grouped);
                format!("{:<LABEL$}: {all:>width$}{} [{each}]", self.label, self.unit)
            }
            Style::Older => {
                let each = kinds(&|name, value| format!("{name}:{}", fixed(value, self.decimals, false)));
                format!("{:<LABEL$}: {} [{each}]", self.older, fixed(all, self.decimals, false))
            }
        }
    }
}

/// The results of a run, with the empty lines around them.
pub fn results(snapshot: &Snapshot, style: Style, from_schedule: bool) -> String {
    let mut text = String::from("\n\nResults:\n");
    for aggregate in &AGGREGATES {
        writeln!(text, "{}", aggregate.text(snapshot, style, from_schedule)).ok();
    }
    text.push_str(match style {
        Style::Current => {
            "Total GC count            : 0\nTotal GC memory           : 0.000 KiB\nTotal GC time             :    0.0 seconds\n\
             Avg GC time               :    NaN ms\nStdDev GC time            :    0.0 ms\n"
        }
        Style::Older => {
            "total gc count            : 0\ntotal gc mb               : 0\ntotal gc time (s)         : 0\n\
             avg gc time(ms)           : NaN\nstdev gc time(ms)         : 0\n"
        }
    });
    let seconds = snapshot.total.seconds() as u64;
    let time = format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
    writeln!(text, "{:<LABEL$}: {time}", "Total operation time").ok();
    // With a schedule one column of numbers would hide either what the server took or what its clients waited.
    if snapshot.total.response.count() > 0 {
        for (label, latencies) in [
            ("From the intended start", &snapshot.total.response),
            ("From the actual start", &snapshot.total.service),
        ] {
            let value = |share| fixed(latencies.quantile(share), 1, false);
            writeln!(
                text,
                "{label:<LABEL$}: mean {} ms, median {} ms, .95 {} ms, .99 {} ms, .999 {} ms, max {} ms",
                fixed(latencies.mean(), 1, false),
                value(0.5),
                value(0.95),
                value(0.99),
                value(0.999),
                fixed(latencies.max(), 1, false),
            )
            .ok();
        }
    }
    if snapshot.not_begun > 0 {
        writeln!(
            text,
            "{:<LABEL$}: {} operations were due",
            "Not begun at the end",
            grouped(snapshot.not_begun)
        )
        .ok();
    }
    text.push('\n');
    text
}

/// The table at the end of a run with several numbers of requests in flight: each line begins with its number.
pub fn steps(steps: &[(String, Snapshot)], from_schedule: bool) -> Vec<String> {
    let width = steps.iter().map(|(id, _)| id.len()).max().unwrap_or(0);
    let mut lines = vec![format!("{:>width$}, {}", "id", header())];
    for (id, snapshot) in steps {
        let uncertainty = snapshot.uncertainty;
        for (name, _, total) in &snapshot.kinds {
            lines.push(format!("{id:>width$}, {}", row(name, total, total, uncertainty, from_schedule)));
        }
        let total = &snapshot.total;
        lines.push(format!("{id:>width$}, {}", row("total", total, total, uncertainty, from_schedule)));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An interval of so many seconds whose latencies, in milliseconds, are given.
    fn interval(seconds: f64, milliseconds: &[f64], operations: u64) -> Interval {
        let mut interval = Interval::starting(0);
        interval.to = (seconds * 1e9) as u64;
        (interval.operations, interval.partitions, interval.rows) = (operations, operations, operations);
        for value in milliseconds {
            interval.service.record((value * 1e6) as u64);
        }
        interval
    }

    fn snapshot(kinds: &[(&str, u64)], seconds: f64, milliseconds: &[f64]) -> Snapshot {
        let all = kinds.iter().map(|(_, operations)| operations).sum();
        let of = |operations| interval(seconds, milliseconds, operations);
        Snapshot {
            kinds: kinds.iter().map(|(name, n)| ((*name).to_owned(), of(*n), of(*n))).collect(),
            current: of(all),
            total: of(all),
            uncertainty: std::f64::consts::FRAC_1_SQRT_2,
            not_begun: 0,
        }
    }

    #[test]
    fn lines_have_the_columns_of_the_java_tool() {
        assert_eq!(
            header(),
            "type       total ops,    op/s,    pk/s,   row/s,    mean,     med,     .95,     .99,    .999,     max,   time,   stderr, errors,  gc: #,  max ms,  sum ms,  sdv ms,      mb"
        );
        let one = snapshot(&[("WRITE", 107)], 0.4, &[19.0]);
        assert_eq!(
            rows(&one, false),
            [
                "total,           107,     268,     268,     268,    19.0,    19.0,    19.0,    19.0,    19.0,    19.0,    0.4,  0.70711,      0,      0,       0,       0,       0,       0"
            ]
        );
        let two = rows(&snapshot(&[("READ", 1), ("WRITE", 2)], 1.0, &[1.0]), false);
        let names: Vec<&str> = two.iter().map(|line| line.split(',').next().expect("a field")).collect();
        assert_eq!(names, ["READ", "WRITE", "total"]);
        assert!(rows(&snapshot(&[], 1.0, &[]), false).is_empty());
        assert!(two.iter().all(|line| line.split(',').count() == 19), "what reads the log counts fields");
    }

    #[test]
    fn results_are_worded_as_by_the_java_tool() {
        let text =
            results(&snapshot(&[("READ", 5179), ("WRITE", 2821)], 2.5, &[1070.2]), Style::Current, false);
        let expected = "

Results:
Op rate                   :    3,200 op/s  [READ: 2,072 op/s, WRITE: 1,128 op/s]
Partition rate            :    3,200 pk/s  [READ: 2,072 pk/s, WRITE: 1,128 pk/s]
Row rate                  :    3,200 row/s [READ: 2,072 row/s, WRITE: 1,128 row/s]
Latency mean              : 1070.3 ms [READ: 1,070.3 ms, WRITE: 1,070.3 ms]
Latency median            : 1070.6 ms [READ: 1,070.6 ms, WRITE: 1,070.6 ms]
Latency 95th percentile   : 1070.6 ms [READ: 1,070.6 ms, WRITE: 1,070.6 ms]
Latency 99th percentile   : 1070.6 ms [READ: 1,070.6 ms, WRITE: 1,070.6 ms]
Latency 99.9th percentile : 1070.6 ms [READ: 1,070.6 ms, WRITE: 1,070.6 ms]
Latency max               : 1070.6 ms [READ: 1,070.6 ms, WRITE: 1,070.6 ms]
Total partitions          :      8,000 [READ: 5,179, WRITE: 2,821]
Total errors              :          0 [READ: 0, WRITE: 0]
Total GC count            : 0
Total GC memory           : 0.000 KiB
Total GC time             :    0.0 seconds
Avg GC time               :    NaN ms
StdDev GC time            :    0.0 ms
Total operation time      : 00:00:02

";
        assert_eq!(text, expected);
    }

    #[test]
    fn the_older_wording_is_that_of_2017() {
        let text = results(&snapshot(&[("READ", 281_037)], 1.0, &[5.3]), Style::Older, false);
        assert!(text.contains("op rate                   : 281037 [READ:281037]\n"), "{text}");
        assert!(text.contains("latency mean              : 5.3 [READ:5.3]\n"), "{text}");
        assert!(text.contains("avg gc time(ms)           : NaN\n"), "{text}");
    }

    #[test]
    fn with_a_schedule_both_times_are_told() {
        let mut seen = snapshot(&[("READ", 1)], 1.0, &[2.0]);
        seen.total.response.record(500_000_000);
        seen.not_begun = 12_345;
        let text = results(&seen, Style::Current, true);
        assert!(text.contains("\nFrom the intended start   : mean "), "{text}");
        assert!(text.contains("\nFrom the actual start     : mean 2.0 ms"), "{text}");
        assert!(text.contains("\nNot begun at the end      : 12,345 operations were due\n"), "{text}");
    }

    #[test]
    fn steps_are_one_table() {
        let steps_of = [
            ("4 threadCount".to_owned(), snapshot(&[("READ", 1)], 1.0, &[1.0])),
            ("104 threadCount".to_owned(), snapshot(&[("READ", 2)], 1.0, &[1.0])),
        ];
        let lines = steps(&steps_of, false);
        assert!(lines[0].starts_with("             id, type       total ops,"), "{}", lines[0]);
        assert!(lines[1].starts_with("  4 threadCount, READ,"), "{}", lines[1]);
        assert_eq!(lines.len(), 5);
    }
}
