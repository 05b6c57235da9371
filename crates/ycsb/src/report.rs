//! The report in its three forms, and the line that tells how a run goes.
//!
//! Source: the output of YCSB 0.17.0.

use crate::measure::block::{Line, Number};
use loadtools::java::{at_most_two_decimals, double};
use std::fmt::Write as _;

/// The form of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A line of text each.
    Text,
    /// An object of JSON each, one after the other.
    Json,
    /// The same in an array.
    JsonArray,
}

impl Form {
    /// By the name of the Java tool's class; text for any other.
    pub fn of(class: &str) -> Option<Form> {
        match class.rsplit('.').next()? {
            "TextMeasurementsExporter" => Some(Form::Text),
            "JSONMeasurementsExporter" => Some(Form::Json),
            "JSONArrayMeasurementsExporter" => Some(Form::JsonArray),
            _ => None,
        }
    }
}

/// What stands at the top of every report. There is no garbage to collect: what a virtual machine would tell of it is zero.
pub fn head(operations: u64, run_ms: u64) -> Vec<Line> {
    let throughput = 1000.0 * operations as f64 / run_ms as f64;
    vec![
        Line::whole("OVERALL", "RunTime(ms)", run_ms),
        Line::double("OVERALL", "Throughput(ops/sec)", throughput),
        Line::whole("TOTAL_GCs", "Count", 0),
        Line::whole("TOTAL_GC_TIME", "Time(ms)", 0),
        Line::double("TOTAL_GC_TIME_%", "Time(%)", 0.0 / run_ms as f64 * 100.0),
    ]
}

/// The report as it is written.
pub fn format(lines: &[Line], form: Form) -> String {
    match form {
        Form::Text => {
            let text =
                |line: &Line| format!("[{}], {}, {}\n", line.metric, line.measurement, number(line.value));
            lines.iter().map(text).collect()
        }
        Form::Json => lines.iter().map(object).collect::<Vec<_>>().join(" "),
        Form::JsonArray if lines.is_empty() => "[ ]".into(),
        Form::JsonArray => format!("[ {} ]", lines.iter().map(object).collect::<Vec<_>>().join(", ")),
    }
}

fn number(value: Number) -> String {
    match value {
        Number::Whole(value) => value.to_string(),
        Number::Double(value) => double(value),
    }
}

fn object(line: &Line) -> String {
    let value = match line.value {
        // JSON has no number for it.
        Number::Double(value) if !value.is_finite() => format!("\"{}\"", double(value)),
        value => number(value),
    };
    format!(
        "{{\n  \"metric\" : \"{}\",\n  \"measurement\" : \"{}\",\n  \"value\" : {value}\n}}",
        quoted(&line.metric),
        quoted(&line.measurement)
    )
}

fn quoted(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"")
}

/// How a run goes: operations so far and since the last line, and those that are left.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Microseconds since 1970.
    pub unix_micros: i64,
    /// Milliseconds since the start.
    pub run_ms: u64,
    /// Milliseconds since the last line.
    pub interval_ms: u64,
    /// Operations since the start.
    pub operations: u64,
    /// Operations since the last line.
    pub recent: u64,
    /// Operations left; 0 when there is no end to them.
    pub left: u64,
}

/// The line that tells it, without the summaries of operations.
pub fn progress(label: &str, progress: &Progress) -> String {
    let mut text = format!(
        "{label}{} {} sec: {} operations; ",
        calendar(progress.unix_micros),
        progress.run_ms / 1000,
        progress.operations
    );
    if 0 < progress.operations {
        let rate = 1000.0 * (progress.recent as f64 / progress.interval_ms as f64);
        // Writing to memory does not fail.
        write!(text, "{} current ops/sec; ", at_most_two_decimals(rate)).ok();
    }
    if 0 < progress.left {
        let rate = 1000.0 * (progress.operations as f64 / progress.run_ms as f64);
        // Before anything was done: for ever, in as many seconds as Java counts; of what is not a number nothing.
        let seconds = (progress.left as f64 / rate).ceil() as i64;
        write!(text, "est completion in {}", remaining(seconds.max(0))).ok();
    }
    text
}

/// `2026-11-22 10:08:10:042`, in UTC.
fn calendar(unix_micros: i64) -> String {
    let ms = unix_micros.div_euclid(1000);
    let (days, ms) = (ms.div_euclid(86_400_000), ms.rem_euclid(86_400_000));
    let (year, month, day) = base::calendar::civil(days);
    let seconds = ms / 1000;
    format!(
        "{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}:{:03}",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60,
        ms % 1000
    )
}

/// Days and hours, hours and minutes, minutes, or seconds.
fn remaining(seconds: i64) -> String {
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    let mut text = String::new();
    let mut part = |number: i64, name: &str| {
        if 0 < number {
            let plural = if number == 1 { "" } else { "s" };
            write!(text, "{number} {name}{plural} ").ok();
        }
    };
    part(days, "day");
    part(hours, "hour");
    if days < 1 {
        part(minutes, "minute");
    }
    if text.is_empty() {
        // As there: by the number of digits, not by the number.
        let plural = if seconds < 10 { "" } else { "s" };
        write!(text, "{seconds} second{plural} ").ok();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::block::Moment;
    use crate::measure::table::{Done, Measurements, Measuring, Operation, Status};
    use crate::properties::Properties;
    use loadtools::output::Output;

    fn lines() -> Vec<Line> {
        let mut lines = head(100_000, 20_123);
        lines.push(Line::whole("READ", "Operations", 50_021));
        lines
    }

    /// What is measured of sixty operations, told as the file's head says.
    fn reported(properties: &Properties) -> String {
        const OPERATIONS: u64 = 60;
        const AT: Moment = Moment { now: 0, unix_micros: 0 };
        let output = Output::in_memory();
        let mut measurements =
            Measurements::new(Measuring::read(properties, &output).expect("good properties"));
        let (mut summary, mut state) = (String::new(), 1u64);
        for number in 0..OPERATIONS {
            if number == OPERATIONS / 2 {
                summary = measurements.summary(AT, &output);
            }
            state = (state * 1_103_515_245 + 12_345) % (1 << 31);
            let micros = state % if number % 50 == 7 { 3_000_000 } else { 30_000 };
            let operation = if number % 3 == 0 { Operation::Update } else { Operation::Read };
            let ended = 1_000_000_000_000;
            let started = ended - micros * 1000;
            let done = Done { intended: started - micros * 1000, started, ended, status: Status::Ok };
            measurements.measure(operation, &done, AT, &output);
            let status = if number % 10 == 9 { Status::NotFound } else { Status::Ok };
            measurements.report(operation, status, AT, &output);
        }
        let form = Form::of(properties.text("exporter", "TextMeasurementsExporter")).expect("its name");
        let report = format(&measurements.export(AT, &output), form);
        let said = output.kept().unwrap_or_default();
        said + &summary + "$\n" + &report
    }

    /// `cargo x compat ycsb` holds the file against YCSB's own classes.
    #[test]
    fn every_way_to_keep_latencies_is_reported_as_there() {
        let text = include_str!("../testdata/reports.txt");
        let mut cases = 0;
        for case in text.split("\n\nmeasurementtype=").skip(1) {
            let (line, expected) = case.split_once("\n----\n").expect("a line of dashes");
            let mut properties = Properties::default();
            for pair in format!("measurementtype={line}").split(' ') {
                let (name, value) = pair.split_once('=').expect("name=value");
                properties.set(name, value);
            }
            assert_eq!(
                reported(&properties).trim_end_matches('\n'),
                expected.trim_end_matches('\n'),
                "{line}"
            );
            cases += 1;
        }
        assert_eq!(cases, 12);
    }

    #[test]
    fn text_is_a_line_each() {
        assert_eq!(
            format(&lines(), Form::Text),
            "[OVERALL], RunTime(ms), 20123\n[OVERALL], Throughput(ops/sec), 4969.437956567112\n\
             [TOTAL_GCs], Count, 0\n[TOTAL_GC_TIME], Time(ms), 0\n[TOTAL_GC_TIME_%], Time(%), 0.0\n\
             [READ], Operations, 50021\n"
        );
    }

    #[test]
    fn json_is_json() {
        let text = format(&lines(), Form::JsonArray);
        let parsed: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let objects = parsed.as_array().expect("an array");
        assert_eq!(objects.len(), 6);
        assert_eq!(objects[1]["measurement"], "Throughput(ops/sec)");
        assert_eq!(objects[5]["value"], 50_021);
        let one = [Line::double("A \"b\"", "c", f64::NAN)];
        assert_eq!(
            format(&one, Form::Json),
            "{\n  \"metric\" : \"A \\\"b\\\"\",\n  \"measurement\" : \"c\",\n  \"value\" : \"NaN\"\n}"
        );
        assert_eq!(
            Form::of("site.ycsb.measurements.exporter.JSONArrayMeasurementsExporter"),
            Some(Form::JsonArray)
        );
        assert_eq!(Form::of("my.Exporter"), None);
    }

    fn said(run_ms: u64, operations: u64, recent: u64, left: u64) -> String {
        let at = Progress {
            unix_micros: 1_795_342_090_042_999,
            run_ms,
            interval_ms: 10_000,
            operations,
            recent,
            left,
        };
        progress("", &at)
    }

    #[test]
    fn progress_is_told_as_there() {
        let date = "2026-11-22 10:08:10:042";
        assert_eq!(
            said(10_005, 49_711, 49_706, 50_289),
            format!("{date} 10 sec: 49711 operations; 4970.6 current ops/sec; est completion in 11 seconds ")
        );
        assert_eq!(
            said(20_000, 100_000, 5, 0),
            format!("{date} 20 sec: 100000 operations; 0.5 current ops/sec; ")
        );
        assert_eq!(said(0, 0, 0, 1000), format!("{date} 0 sec: 0 operations; est completion in 0 second "));
        assert_eq!(
            said(3, 0, 0, 1000),
            format!("{date} 0 sec: 0 operations; est completion in 106751991167300 days 15 hours ")
        );
        assert!(
            progress(
                "run 1: ",
                &Progress { unix_micros: 0, run_ms: 1, interval_ms: 1, operations: 0, recent: 0, left: 0 }
            )
            .starts_with("run 1: 1970-01-01 00:00:00:000 0 sec: ")
        );
    }

    #[test]
    fn what_remains_is_told_in_fitting_units() {
        for (seconds, text) in [
            (1, "1 second "),
            (9, "9 second "),
            (12, "12 seconds "),
            (60, "1 minute "),
            (150, "2 minutes "),
            (7_500, "2 hours 5 minutes "),
            (86_400, "1 day "),
            (90_060, "1 day 1 hour "),
        ] {
            assert_eq!(remaining(seconds), text);
        }
    }
}
