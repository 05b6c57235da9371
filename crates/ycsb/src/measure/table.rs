//! All operations: latencies from their start, from their intended start, or both, and how often each result came.

use super::block::{Block, Keeping, Line, Moment};
use crate::error::Error;
use crate::properties::Properties;
use loadtools::java::{map_buckets, map_order, string_hash};
use loadtools::output::Output;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A read.
    Read,
    /// A write of some fields.
    Update,
    /// A write of a record.
    Insert,
    /// A read of many records.
    Scan,
    /// A read and an update.
    ReadModifyWrite,
    /// A comparison of what was read.
    Verify,
    /// The end of a thread.
    Cleanup,
}

impl Operation {
    /// The name in the report.
    pub fn name(self) -> &'static str {
        match self {
            Operation::Read => "READ",
            Operation::Update => "UPDATE",
            Operation::Insert => "INSERT",
            Operation::Scan => "SCAN",
            Operation::ReadModifyWrite => "READ-MODIFY-WRITE",
            Operation::Verify => "VERIFY",
            Operation::Cleanup => "CLEANUP",
        }
    }
}

/// What came of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It was done.
    Ok,
    /// It failed.
    Error,
    /// No record was found.
    NotFound,
    /// Another record was found than was written.
    UnexpectedState,
}

impl Status {
    const ALL: [Status; 4] = [Status::Ok, Status::Error, Status::NotFound, Status::UnexpectedState];

    /// The name in the report.
    pub fn name(self) -> &'static str {
        match self {
            Status::Ok => "OK",
            Status::Error => "ERROR",
            Status::NotFound => "NOT_FOUND",
            Status::UnexpectedState => "UNEXPECTED_STATE",
        }
    }

    /// The hash of the Java tool's object, by which results are ordered: of its description and its name.
    fn hash(self) -> i32 {
        let description = match self {
            Status::Ok => "The operation completed successfully.",
            Status::Error => "The operation failed.",
            Status::NotFound => "The requested record was not found.",
            Status::UnexpectedState => "The operation reported success, but the result was not as expected.",
        };
        let both = 31i32.wrapping_add(string_hash(description)).wrapping_mul(31);
        both.wrapping_add(string_hash(self.name()))
    }
}

/// From where latencies count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// From the start.
    Actual,
    /// From the instant at which the schedule had it start.
    Intended,
    /// Both are told.
    Both,
}

/// What the properties say of measuring.
#[derive(Clone, Debug)]
pub struct Measuring {
    /// How latencies are kept.
    pub keeping: Keeping,
    /// From where they count.
    pub from: Origin,
    /// Operations that fail have a block for each result.
    pub each_error: bool,
    /// Results that have a block of their own; all others share one.
    pub tracked_errors: Vec<String>,
}

impl Measuring {
    /// Reads the properties.
    pub fn read(properties: &Properties, output: &Output) -> Result<Measuring, Error> {
        let name = "measurement.interval";
        let each_error = properties.flag("reportlatencyforeacherror", false);
        let listed = properties.get("latencytrackederrors").filter(|_| !each_error);
        Ok(Measuring {
            keeping: Keeping::read(properties, output)?,
            from: match properties.text(name, "op") {
                "op" => Origin::Actual,
                "intended" => Origin::Intended,
                "both" => Origin::Both,
                other => return Err(Error::refused(format!("unknown {name}={other}"))),
            },
            each_error,
            tracked_errors: listed
                .map(|list| list.split(',').map(str::to_owned).collect())
                .unwrap_or_default(),
        })
    }
}

/// When an operation was and what came of it; nanoseconds of one clock.
#[derive(Clone, Copy, Debug)]
pub struct Done {
    /// When the schedule had it start; without one, when it started.
    pub intended: u64,
    /// When it started.
    pub started: u64,
    /// When it ended.
    pub ended: u64,
    /// What came of it.
    pub status: Status,
}

/// Which block: of operations that were done, of those that failed, or of those that failed in one way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Of {
    Done,
    Failed,
    One(Status),
}

struct Entry {
    operation: Operation,
    of: Of,
    results: Vec<(Status, u64)>,
    block: Block,
}

/// The name of a block.
fn key(operation: Operation, of: Of) -> String {
    let name = operation.name();
    match of {
        Of::Done => name.to_owned(),
        Of::Failed => format!("{name}-FAILED"),
        Of::One(status) => format!("{name}-{}", status.name()),
    }
}

impl Entry {
    fn key(&self) -> String {
        key(self.operation, self.of)
    }

    fn report(&mut self, status: Status) {
        match self.results.iter_mut().find(|(seen, _)| *seen == status) {
            Some((_, count)) => *count += 1,
            None => self.results.push((status, 1)),
        }
    }

    /// Results in the order of the Java tool's map.
    fn results(&self) -> Vec<(&'static str, u64)> {
        let hashes: Vec<i32> = self.results.iter().map(|(status, _)| status.hash()).collect();
        let order = map_order(&hashes, map_buckets(hashes.len()));
        order.into_iter().map(|index| (self.results[index].0.name(), self.results[index].1)).collect()
    }
}

/// Blocks in the order in which they came.
#[derive(Default)]
struct Blocks {
    prefix: &'static str,
    entries: Vec<Entry>,
}

impl Blocks {
    fn entry(&mut self, operation: Operation, of: Of, making: (&Keeping, Moment, &Output)) -> &mut Entry {
        let found = self.entries.iter().position(|entry| entry.operation == operation && entry.of == of);
        let index = found.unwrap_or_else(|| {
            let (keeping, moment, output) = making;
            let name = format!("{}{}", self.prefix, key(operation, of));
            let block = Block::new(&name, keeping, moment, output);
            self.entries.push(Entry { operation, of, results: Vec::new(), block });
            self.entries.len() - 1
        });
        &mut self.entries[index]
    }

    /// In the order of the Java tool's map, which has twice the buckets from the twelfth entry on.
    fn ordered(&self) -> Vec<usize> {
        let hashes: Vec<i32> = self.entries.iter().map(|entry| string_hash(&entry.key())).collect();
        map_order(&hashes, map_buckets(hashes.len() + 1))
    }
}

/// All operations of a run.
pub struct Measurements {
    measuring: Measuring,
    actual: Blocks,
    intended: Blocks,
}

impl Measurements {
    /// Nothing seen yet.
    pub fn new(measuring: Measuring) -> Measurements {
        let prefix = if measuring.from == Origin::Both { "Intended-" } else { "" };
        Measurements {
            measuring,
            actual: Blocks::default(),
            intended: Blocks { prefix, ..Blocks::default() },
        }
    }

    /// Counts the latency of an operation. Those that failed have blocks of their own.
    pub fn measure(&mut self, operation: Operation, done: &Done, moment: Moment, output: &Output) {
        let of = match done.status {
            Status::Ok => Of::Done,
            status if self.measuring.each_error => Of::One(status),
            status if self.measuring.tracked_errors.iter().any(|name| name == status.name()) => {
                Of::One(status)
            }
            _ => Of::Failed,
        };
        self.measure_as(operation, of, done, moment, output);
    }

    /// Counts a latency in one block, whatever came of it.
    pub fn measure_together(&mut self, operation: Operation, done: &Done, moment: Moment, output: &Output) {
        self.measure_as(operation, Of::Done, done, moment, output);
    }

    fn measure_as(&mut self, operation: Operation, of: Of, done: &Done, moment: Moment, output: &Output) {
        let making = (&self.measuring.keeping, moment, output);
        let micros = |from: u64| done.ended.saturating_sub(from) / 1000;
        if self.measuring.from != Origin::Intended {
            self.actual.entry(operation, of, making).block.record(micros(done.started), moment);
        }
        // Comparisons are not scheduled.
        if self.measuring.from != Origin::Actual && operation != Operation::Verify {
            self.intended.entry(operation, of, making).block.record(micros(done.intended), moment);
        }
    }

    /// Counts what came of an operation.
    pub fn report(&mut self, operation: Operation, status: Status, moment: Moment, output: &Output) {
        let making = (&self.measuring.keeping, moment, output);
        let blocks = match self.measuring.from {
            Origin::Intended => &mut self.intended,
            Origin::Actual | Origin::Both => &mut self.actual,
        };
        blocks.entry(operation, Of::Done, making).report(status);
    }

    /// What there is to say of all operations since the last time.
    pub fn summary(&mut self, moment: Moment, output: &Output) -> String {
        let mut text = String::new();
        for blocks in [&mut self.actual, &mut self.intended] {
            for index in blocks.ordered() {
                text.push_str(&blocks.entries[index].block.summary(moment, output));
                text.push(' ');
            }
        }
        text
    }

    /// The lines of the report.
    pub fn export(&mut self, moment: Moment, output: &Output) -> Vec<Line> {
        let mut lines = Vec::new();
        for blocks in [&mut self.actual, &mut self.intended] {
            for index in blocks.ordered() {
                let entry = &mut blocks.entries[index];
                let results = entry.results();
                entry.block.export(&results, moment, output, &mut lines);
            }
        }
        lines
    }

    /// How often an operation ended in each way.
    pub fn counts(&self, operation: Operation) -> Vec<(Status, u64)> {
        let of = |blocks: &Blocks, status: Status| -> u64 {
            let entries = blocks.entries.iter().filter(|entry| entry.operation == operation);
            entries.flat_map(|entry| &entry.results).filter(|(seen, _)| *seen == status).map(|(_, n)| n).sum()
        };
        let all = Status::ALL.into_iter();
        all.map(|status| (status, of(&self.actual, status) + of(&self.intended, status)))
            .filter(|(_, count)| 0 < *count)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: Moment = Moment { now: 0, unix_micros: 1_795_344_377_250_000 };

    fn measurements(pairs: &[(&str, &str)]) -> (Measurements, Output) {
        let mut properties = Properties::default();
        pairs.iter().for_each(|(name, value)| properties.set(*name, *value));
        let output = Output::in_memory();
        let measuring = Measuring::read(&properties, &output).expect("properties");
        (Measurements::new(measuring), output)
    }

    fn done(status: Status) -> Done {
        Done { intended: 0, started: 500_000, ended: 600_000, status }
    }

    fn names(lines: &[Line]) -> Vec<&str> {
        let mut names: Vec<&str> = lines.iter().map(|line| line.metric.as_str()).collect();
        names.dedup();
        names
    }

    /// The order of a map of Java, not that in which operations came.
    #[test]
    fn blocks_come_in_the_order_of_the_java_tool() {
        let (mut measurements, output) = measurements(&[]);
        for operation in [
            Operation::Scan,
            Operation::Verify,
            Operation::Insert,
            Operation::Update,
            Operation::ReadModifyWrite,
            Operation::Read,
            Operation::Cleanup,
        ] {
            measurements.measure(operation, &done(Status::Ok), AT, &output);
        }
        let lines = measurements.export(AT, &output);
        let expected = ["READ", "READ-MODIFY-WRITE", "CLEANUP", "VERIFY", "INSERT", "UPDATE", "SCAN"];
        assert_eq!(names(&lines), expected);
    }

    #[test]
    fn failed_operations_have_a_block_of_their_own() {
        let (mut measurements, output) = measurements(&[]);
        for status in [Status::Ok, Status::Error, Status::NotFound] {
            measurements.measure(Operation::Read, &done(status), AT, &output);
            measurements.report(Operation::Read, status, AT, &output);
        }
        let lines = measurements.export(AT, &output);
        assert_eq!(names(&lines), ["READ", "READ-FAILED"]);
        let results: Vec<&str> = lines
            .iter()
            .filter(|line| line.metric == "READ")
            .filter_map(|line| line.measurement.strip_prefix("Return="))
            .collect();
        assert_eq!(results, ["OK", "NOT_FOUND", "ERROR"]);
        assert_eq!(measurements.counts(Operation::Read).len(), 3);
    }

    #[test]
    fn errors_that_are_tracked_have_blocks_by_name() {
        let (mut tracked, output) = measurements(&[("latencytrackederrors", "ERROR,TIMEOUT")]);
        for status in [Status::Error, Status::NotFound] {
            tracked.measure(Operation::Read, &done(status), AT, &output);
        }
        assert_eq!(names(&tracked.export(AT, &output)), ["READ-ERROR", "READ-FAILED"]);
        let (mut each, output) = measurements(&[("reportlatencyforeacherror", "true")]);
        each.measure(Operation::Read, &done(Status::NotFound), AT, &output);
        assert_eq!(names(&each.export(AT, &output)), ["READ-NOT_FOUND"]);
    }

    #[test]
    fn latencies_count_from_where_they_are_wanted() {
        let longest = |interval: &str| {
            let (mut measurements, output) = measurements(&[("measurement.interval", interval)]);
            measurements.measure(Operation::Read, &done(Status::Ok), AT, &output);
            let lines = measurements.export(AT, &output).into_iter();
            let longest = lines.filter(|line| line.measurement == "MaxLatency(us)");
            longest.map(|line| (line.metric, line.value)).collect::<Vec<_>>()
        };
        let (actual, intended) =
            (super::super::block::Number::Whole(100), super::super::block::Number::Whole(600));
        assert_eq!(longest("op"), [("READ".into(), actual)]);
        assert_eq!(longest("intended"), [("READ".into(), intended)]);
        assert_eq!(longest("both"), [("READ".into(), actual), ("Intended-READ".into(), intended)]);
    }

    #[test]
    fn what_cannot_be_measured_is_refused() {
        for (name, value) in [
            ("measurementtype", "guess"),
            ("measurement.interval", "never"),
            ("histogram.buckets", "0"),
            ("timeseries.granularity", "0"),
        ] {
            let mut properties = Properties::default();
            properties.set(name, value);
            let error = Measuring::read(&properties, &Output::in_memory()).expect_err(name).to_string();
            assert!(error.contains(value), "{error}");
        }
    }

    /// A folder that is not there, a disk that is full: numbers are told, and what is wrong with which file.
    #[test]
    fn a_file_that_cannot_be_written_loses_no_numbers() {
        for (pairs, file, what) in [
            (
                [("hdrhistogram.fileoutput", "true"), ("hdrhistogram.output.path", "not/there/")],
                "not/there/READ.hdr",
                "Operations",
            ),
            (
                [("measurementtype", "raw"), ("measurement.raw.output_file", "/dev/full")],
                "/dev/full",
                "Total Operations",
            ),
            (
                [("measurementtype", "raw"), ("measurement.raw.output_file", "not/there")],
                "not/there",
                "Total Operations",
            ),
        ] {
            let (mut measurements, output) = measurements(&pairs);
            for _ in 0..2 {
                measurements.measure(Operation::Read, &done(Status::Ok), AT, &output);
                measurements.report(Operation::Read, Status::Ok, AT, &output);
            }
            measurements.summary(AT, &output);
            let lines = measurements.export(AT, &output);
            let number = |measurement: &str| lines.iter().find(|line| line.measurement == measurement);
            assert_eq!(number(what), Some(&Line::whole("READ", what, 2)), "{file}: {lines:?}");
            assert_eq!(number("Return=OK"), Some(&Line::whole("READ", "Return=OK", 2)), "{file}");
            let complaints = output.complaints();
            assert_eq!(complaints.len(), 1, "{complaints:?}");
            assert!(complaints[0].starts_with(&format!("{file}: ")) && !output.is_whole(), "{complaints:?}");
        }
    }
}
