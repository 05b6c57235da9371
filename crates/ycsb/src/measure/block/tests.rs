//! Lines of every way to keep latencies: those that YCSB 0.17.0 printed of the same latencies.

use super::*;

const START: i64 = 1_795_344_377_250_000;

fn keeping(pairs: &[(&str, &str)]) -> Keeping {
    let mut properties = Properties::default();
    pairs.iter().for_each(|(name, value)| properties.set(*name, *value));
    Keeping::read(&properties, &Output::in_memory()).expect("properties")
}

fn at(ms: u64) -> Moment {
    Moment { now: ms * 1_000_000, unix_micros: START + ms as i64 * 1000 }
}

/// A block of `READ` with a latency for each millisecond, and the text of its report.
fn report(pairs: &[(&str, &str)], latencies: &[(u64, u64)]) -> (String, Output) {
    let output = Output::in_memory();
    let mut block = Block::new("READ", &keeping(pairs), at(0), &output);
    latencies.iter().for_each(|(ms, micros)| block.record(*micros, at(*ms)));
    let mut lines = Vec::new();
    block.export(&[("OK", latencies.len() as u64)], at(5_000), &output, &mut lines);
    let text = lines.iter().map(|line| match line.value {
        Number::Whole(value) => format!("[{}], {}, {value}\n", line.metric, line.measurement),
        Number::Double(value) => format!("[{}], {}, {}\n", line.metric, line.measurement, double(value)),
    });
    (text.collect(), output)
}

#[test]
fn three_digits_are_kept() {
    let (text, _) = report(&[], &[(0, 100), (1, 200), (2, 40_127)]);
    assert_eq!(
        text,
        "[READ], Operations, 3\n[READ], AverageLatency(us), 13470.666666666666\n[READ], MinLatency(us), 100\n\
         [READ], MaxLatency(us), 40127\n[READ], 95thPercentileLatency(us), 40127\n\
         [READ], 99thPercentileLatency(us), 40127\n[READ], Return=OK, 3\n"
    );
    let (text, _) = report(
        &[("hdrhistogram.percentiles", "1,50,99.9"), ("measurement.histogram.verbose", "true")],
        &[(0, 100), (1, 100), (2, 300)],
    );
    let (_, rest) = text.split_once("MaxLatency(us), 300\n").expect("a line");
    assert_eq!(
        rest,
        "[READ], 1stPercentileLatency(us), 100\n[READ], 50thPercentileLatency(us), 100\n\
         [READ], 99.9PercentileLatency(us), 300\n[READ], Return=OK, 3\n[READ], 100, 2.0\n[READ], 300, 1.0\n"
    );
}

#[test]
fn percentiles_that_make_no_sense_are_passed_over() {
    let output = Output::in_memory();
    let mut properties = Properties::default();
    properties.set("hdrhistogram.percentiles", "50,many");
    assert_eq!(Keeping::read(&properties, &output).expect("passed over").percentiles, [95.0, 99.0]);
    assert!(
        output.complaints()[0].starts_with("[WARN] Couldn't read hdrhistogram.percentiles value: '50,many'")
    );
}

#[test]
fn milliseconds_are_counted() {
    let (text, _) = report(
        &[
            ("measurementtype", "histogram"),
            ("histogram.buckets", "3"),
            ("measurement.histogram.verbose", "true"),
        ],
        &[(0, 500), (1, 1_500), (2, 9_000)],
    );
    assert_eq!(
        text,
        "[READ], Operations, 3\n[READ], AverageLatency(us), 3666.6666666666665\n\
         [READ], LatencyVariance(us), 1.4388888888888888E7\n[READ], MinLatency(us), 500\n\
         [READ], MaxLatency(us), 9000\n[READ], Return=OK, 3\n[READ], 0, 1\n[READ], 1, 1\n[READ], 2, 0\n[READ], >3, 1\n"
    );
    let (text, _) = report(&[("measurementtype", "histogram")], &[(0, 500), (1, 1_500)]);
    let percentiles = "[READ], 95thPercentileLatency(us), 1000\n[READ], 99thPercentileLatency(us), 1000\n";
    assert!(text.contains(percentiles), "{text}");
}

#[test]
fn averages_are_kept_of_each_second() {
    let (text, _) = report(&[("measurementtype", "timeseries")], &[(0, 100), (900, 200), (3_100, 50)]);
    assert_eq!(
        text,
        "[READ], Operations, 3\n[READ], AverageLatency(us), 116.66666666666667\n[READ], MinLatency(us), 50\n\
         [READ], MaxLatency(us), 200\n[READ], Return=OK, 3\n[READ], 0, 150.0\n[READ], 3000, 50.0\n"
    );
}

#[test]
fn raw_latencies_are_told_one_by_one() {
    let (text, output) = report(&[("measurementtype", "raw")], &[(0, 300), (1, 100)]);
    assert_eq!(
        output.kept().unwrap_or_default(),
        "Raw data measurement: will output to stdout.\nREAD latency raw data: op, timestamp(ms), latency(us)\n\
         READ,1795344377250,300\nREAD,1795344377251,100\n"
    );
    assert!(
        text.starts_with(
            "[READ], Total Operations, 2\n[READ], Below is a summary of latency in microseconds:, -1\n\
             [READ], Average, 200.0\n[READ], Min, 100\n[READ], Max, 300\n[READ], p1, 100\n[READ], p5, 100\n\
             [READ], p50, 300\n"
        ),
        "{text}"
    );
    assert!(text.ends_with("[READ], p99.99, 300\n[READ], Return=OK, 2\n"), "{text}");
    let (text, _) = report(&[("measurementtype", "raw"), ("measurement.raw.no_summary", "true")], &[(0, 1)]);
    assert_eq!(text, "[READ], Total Operations, 1\n[READ], Return=OK, 1\n");
}

#[test]
fn two_ways_are_told_one_after_the_other() {
    let (text, output) = report(&[("measurementtype", "hdrhistogram+raw")], &[(0, 300)]);
    assert!(text.starts_with("[HdrREAD], Operations, 1\n"), "{text}");
    assert!(text.contains("[HdrREAD], Return=OK, 1\n[RawREAD], Total Operations, 1\n"), "{text}");
    assert!(output.kept().unwrap_or_default().contains("RawREAD,1795344377250,300\n"));
    let (text, _) = report(&[("measurementtype", "hdrhistogram+histogram")], &[(0, 300)]);
    assert!(text.contains("[BucketREAD], Operations, 1\n"), "{text}");
}

#[test]
fn summaries_are_of_the_time_since_the_last() {
    let output = Output::in_memory();
    let mut block = Block::new("READ", &keeping(&[]), at(0), &output);
    (1..=4).for_each(|micros| block.record(micros * 100, at(1)));
    assert_eq!(
        block.summary(at(2), &output),
        "[READ: Count=4, Max=400, Min=100, Avg=250, 90=400, 99=400, 99.9=400, 99.99=400]"
    );
    assert_eq!(
        block.summary(at(3), &output),
        "[READ: Count=0, Max=0, Min=9223372036854775807, Avg=NaN, 90=0, 99=0, 99.9=0, 99.99=0]"
    );
    let mut block = Block::new("READ", &keeping(&[("measurementtype", "histogram")]), at(0), &output);
    block.record(101, at(1));
    block.record(102, at(1));
    assert_eq!(block.summary(at(2), &output), "[READ AverageLatency(us)=101.5]");
    assert_eq!(block.summary(at(2), &output), "");
}

#[test]
fn ordinals_are_english() {
    let all = [1.0, 2.0, 3.0, 4.0, 11.0, 12.0, 13.0, 21.0, 95.0, 100.0, 99.9].map(ordinal);
    assert_eq!(all, ["1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "95th", "100th", "99.9"]);
}

/// More than memory has room for: the numbers of all are told, and which are not.
#[test]
fn what_is_not_kept_is_said() {
    let output = Output::in_memory();
    let numbers = |lines: &[Line], measurement: &str| {
        lines.iter().find(|line| line.measurement == measurement).map(|line| line.value)
    };
    let mut lines = Vec::new();
    let mut raw = Raw::new("READ", &keeping(&[("measurementtype", "raw")]), &output);
    raw.most = 3;
    (1..=5).for_each(|micros| raw.record(micros * 100, at(micros)));
    raw.export(&[], &output, &mut lines);
    assert_eq!(numbers(&lines, "Total Operations"), Some(Number::Whole(5)));
    assert_eq!(numbers(&lines, "Average"), Some(Number::Double(300.0)));
    assert_eq!(numbers(&lines, "Max"), Some(Number::Whole(300)), "of those that are kept");
    assert_eq!(output.kept().unwrap_or_default().lines().filter(|line| line.starts_with("READ,")).count(), 3);
    let mut series = Series::new("READ", &keeping(&[("measurementtype", "timeseries")]));
    series.most = 2;
    (0..5).for_each(|second| series.record(100, at(second * 1_000)));
    lines.clear();
    series.export(&[], at(5_000), &output, &mut lines);
    assert_eq!(numbers(&lines, "Operations"), Some(Number::Whole(5)));
    assert!(numbers(&lines, "1000").is_some() && numbers(&lines, "2000").is_none(), "{lines:?}");
    let complaints = output.complaints();
    assert_eq!(complaints.len(), 2, "{complaints:?}");
    assert!(
        complaints[0].contains("of 5 latencies the last 2 ") && complaints[1].contains("the last 3 averages")
    );
}
