//! One operation's latencies, in each of the ways to keep them.
//!
//! ```text
//!  hdrhistogram   to three digits           [READ], 95thPercentileLatency(us), 260
//!  histogram      by millisecond            [READ], 95thPercentileLatency(us), 0
//!  timeseries     averages of a second      [READ], 3000, 180.4
//!  raw            one by one                READ,1795344377250,180
//! ```
//! Source: the output of YCSB 0.17.0.

use super::micros::{LONGEST, Micros};
use crate::error::Error;
use crate::limits::{HISTOGRAM_BUCKETS_MAX, RAW_LATENCIES_MAX, SERIES_MAX};
use crate::properties::Properties;
use loadtools::hdrlog::HistogramLog;
use loadtools::java::{at_most_two_decimals, double, fixed};
use loadtools::output::Output;
use std::io::{self, Write};

/// A number of the report.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// A whole one.
    Whole(i64),
    /// One that is printed as Java prints a `double`.
    Double(f64),
}

/// A line of the report.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// What it is about, such as `READ`.
    pub metric: String,
    /// What is measured.
    pub measurement: String,
    /// How much it is.
    pub value: Number,
}

impl Line {
    /// A line with a whole number.
    pub fn whole(metric: &str, measurement: impl Into<String>, value: impl TryInto<i64>) -> Line {
        let value = Number::Whole(value.try_into().unwrap_or(i64::MAX));
        Line { metric: metric.to_owned(), measurement: measurement.into(), value }
    }

    /// A line with a `double`.
    pub fn double(metric: &str, measurement: impl Into<String>, value: f64) -> Line {
        Line { metric: metric.to_owned(), measurement: measurement.into(), value: Number::Double(value) }
    }
}

/// How latencies are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// To three digits.
    Hdr,
    /// By millisecond.
    Buckets,
    /// To three digits, and by millisecond.
    HdrAndBuckets,
    /// To three digits, and one by one.
    HdrAndRaw,
    /// As averages.
    Series,
    /// One by one.
    Raw,
}

/// What the properties say of how latencies are kept and printed.
#[derive(Clone, Debug)]
pub struct Keeping {
    /// How they are kept.
    pub keep: Keep,
    /// Percentiles of the report.
    pub percentiles: Vec<f64>,
    /// Every bucket is printed.
    pub verbose: bool,
    /// What names of files with histograms begin with, if such files are written.
    pub histogram_files: Option<String>,
    /// Buckets of a millisecond.
    pub buckets: u64,
    /// Milliseconds of which an average is kept.
    pub granularity_ms: u64,
    /// The file of raw latencies; the terminal without one.
    pub raw_file: Option<String>,
    /// No summary of raw latencies.
    pub raw_without_summary: bool,
}

const PERCENTILES: &str = "hdrhistogram.percentiles";

impl Keeping {
    /// Reads the properties. `output`: is told what is not understood and passed over, as the Java tool does.
    pub fn read(properties: &Properties, output: &Output) -> Result<Keeping, Error> {
        let name = "measurementtype";
        let keep = match properties.text(name, "hdrhistogram") {
            "hdrhistogram" => Keep::Hdr,
            "histogram" => Keep::Buckets,
            "hdrhistogram+histogram" => Keep::HdrAndBuckets,
            "hdrhistogram+raw" => Keep::HdrAndRaw,
            "timeseries" => Keep::Series,
            "raw" => Keep::Raw,
            other => return Err(Error::refused(format!("unknown {name}={other}"))),
        };
        let listed = properties.text(PERCENTILES, "95,99");
        let numbers: Result<Vec<f64>, _> = listed.split(',').map(|part| part.trim().parse::<f64>()).collect();
        let percentiles = match numbers {
            Ok(numbers) if numbers.iter().all(|percent| (0.0..=100.0).contains(percent)) => numbers,
            _ => {
                output.complain(&format!(
                    "[WARN] Couldn't read {PERCENTILES} value: '{listed}', the default of '95,99' will be used."
                ));
                vec![95.0, 99.0]
            }
        };
        let writes_files = properties.flag("hdrhistogram.fileoutput", false);
        Ok(Keeping {
            keep,
            percentiles,
            verbose: properties.flag("measurement.histogram.verbose", false),
            histogram_files: writes_files.then(|| properties.text("hdrhistogram.output.path", "").to_owned()),
            buckets: properties.whole("histogram.buckets", 1000, 1..=HISTOGRAM_BUCKETS_MAX)?,
            granularity_ms: properties.whole("timeseries.granularity", 1000, 1..=LONGEST)?,
            raw_file: Some(properties.text("measurement.raw.output_file", ""))
                .filter(|file| !file.is_empty())
                .map(str::to_owned),
            raw_without_summary: properties.flag("measurement.raw.no_summary", false),
        })
    }
}

/// An instant by the run's clock, in nanoseconds, and by the calendar, in microseconds.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// Nanoseconds of the run's clock.
    pub now: u64,
    /// Microseconds since 1970.
    pub unix_micros: i64,
}

/// One operation's latencies.
pub enum Block {
    /// To three digits.
    Hdr(Hdr),
    /// By millisecond.
    Buckets(Buckets),
    /// As averages.
    Series(Series),
    /// One by one.
    Raw(Raw),
    /// In two ways; results are told by the first.
    Two(Box<(Block, Block)>),
}

impl Block {
    /// Begins to keep the latencies of an operation. A file of it that cannot be made or written is told to the output; the numbers are
    /// kept all the same.
    pub fn new(name: &str, keeping: &Keeping, moment: Moment, output: &Output) -> Block {
        let hdr = |name: &str| Hdr::new(name, keeping, moment, output);
        let buckets = |name: &str| Buckets::new(name, keeping);
        match keeping.keep {
            Keep::Hdr => Block::Hdr(hdr(name)),
            Keep::Buckets => Block::Buckets(buckets(name)),
            Keep::HdrAndBuckets => Block::Two(Box::new((
                Block::Hdr(hdr(&format!("Hdr{name}"))),
                Block::Buckets(buckets(&format!("Bucket{name}"))),
            ))),
            Keep::HdrAndRaw => Block::Two(Box::new((
                Block::Hdr(hdr(&format!("Hdr{name}"))),
                Block::Raw(Raw::new(&format!("Raw{name}"), keeping, output)),
            ))),
            Keep::Series => Block::Series(Series::new(name, keeping)),
            Keep::Raw => Block::Raw(Raw::new(name, keeping, output)),
        }
    }

    /// Counts one.
    pub fn record(&mut self, micros: u64, moment: Moment) {
        let micros = micros.min(LONGEST);
        match self {
            Block::Hdr(hdr) => hdr.interval.record(micros),
            Block::Buckets(buckets) => buckets.record(micros),
            Block::Series(series) => series.record(micros, moment),
            Block::Raw(raw) => raw.record(micros, moment),
            Block::Two(two) => {
                two.0.record(micros, moment);
                two.1.record(micros, moment);
            }
        }
    }

    /// What there is to say since the last time.
    pub fn summary(&mut self, moment: Moment, output: &Output) -> String {
        match self {
            Block::Hdr(hdr) => hdr.summary(moment, output),
            Block::Buckets(buckets) => buckets.window.summary(&buckets.name),
            Block::Series(series) => series.window.summary(&series.name),
            Block::Raw(raw) => raw.summary(),
            Block::Two(two) => {
                format!("{}\n{}", two.0.summary(moment, output), two.1.summary(moment, output))
            }
        }
    }

    /// Adds the lines of the report, with how often each result came.
    pub fn export(
        &mut self,
        results: &[(&str, u64)],
        moment: Moment,
        output: &Output,
        lines: &mut Vec<Line>,
    ) {
        match self {
            Block::Hdr(hdr) => hdr.export(results, moment, output, lines),
            Block::Buckets(buckets) => buckets.export(results, lines),
            Block::Series(series) => series.export(results, moment, output, lines),
            Block::Raw(raw) => raw.export(results, output, lines),
            Block::Two(two) => {
                two.0.export(results, moment, output, lines);
                two.1.export(&[], moment, output, lines);
            }
        }
    }
}

fn export_results(name: &str, results: &[(&str, u64)], lines: &mut Vec<Line>) {
    lines.extend(results.iter().map(|(result, count)| Line::whole(name, format!("Return={result}"), *count)));
}

/// To three digits.
pub struct Hdr {
    name: String,
    percentiles: Vec<f64>,
    verbose: bool,
    interval: Micros,
    total: Micros,
    since: u64,
    /// Its file, if one is written.
    log: Option<(String, HistogramLog)>,
}

impl Hdr {
    fn new(name: &str, keeping: &Keeping, moment: Moment, output: &Output) -> Hdr {
        let log = keeping.histogram_files.as_ref().and_then(|path| {
            let (file, title) = (format!("{path}{name}.hdr"), format!("[Logging for: {name}]"));
            match HistogramLog::create(&file, &title, moment.now, moment.unix_micros) {
                Ok(log) => Some((file, log)),
                Err(error) => {
                    output.broke(&file, &error);
                    None
                }
            }
        });
        Hdr {
            name: name.to_owned(),
            percentiles: keeping.percentiles.clone(),
            verbose: keeping.verbose,
            interval: Micros::default(),
            total: Micros::default(),
            since: moment.now,
            log,
        }
    }

    fn log(&mut self, moment: Moment, output: &Output) {
        let between = (self.since, moment.now);
        self.since = moment.now;
        if let Some((file, log)) = &mut self.log
            && let Err(error) = log.write_untagged(between, self.interval.histogram())
        {
            output.broke(file, &error);
        }
    }

    fn summary(&mut self, moment: Moment, output: &Output) -> String {
        self.log(moment, output);
        let interval = &self.interval;
        let text = format!(
            "[{}: Count={}, Max={}, Min={}, Avg={}, 90={}, 99={}, 99.9={}, 99.99={}]",
            self.name,
            interval.count(),
            interval.max(),
            interval.min(),
            at_most_two_decimals(interval.mean()),
            interval.percentile(90.0),
            interval.percentile(99.0),
            interval.percentile(99.9),
            interval.percentile(99.99)
        );
        self.total.take(&mut self.interval);
        text
    }

    fn export(&mut self, results: &[(&str, u64)], moment: Moment, output: &Output, lines: &mut Vec<Line>) {
        self.log(moment, output);
        self.total.take(&mut self.interval);
        let (name, total) = (self.name.as_str(), &self.total);
        lines.push(Line::whole(name, "Operations", total.count()));
        lines.push(Line::double(name, "AverageLatency(us)", total.mean()));
        lines.push(Line::whole(name, "MinLatency(us)", total.min()));
        lines.push(Line::whole(name, "MaxLatency(us)", total.max()));
        for percent in &self.percentiles {
            let measurement = format!("{}PercentileLatency(us)", ordinal(*percent));
            lines.push(Line::whole(name, measurement, total.percentile(*percent)));
        }
        export_results(name, results, lines);
        if self.verbose {
            let buckets = total.counts();
            lines.extend(
                buckets
                    .map(|(value, count)| Line::double(name, value.min(LONGEST).to_string(), count as f64)),
            );
        }
    }
}

/// 1st, 2nd, 95th; 99.9 as it is.
fn ordinal(percent: f64) -> String {
    if percent % 1.0 != 0.0 {
        return double(percent);
    }
    let whole = percent as u64;
    let suffix = match (whole % 100, whole % 10) {
        (11..=13, _) => "th",
        (_, 1) => "st",
        (_, 2) => "nd",
        (_, 3) => "rd",
        _ => "th",
    };
    format!("{whole}{suffix}")
}

/// Latencies since the last summary.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    count: u64,
    sum: u64,
}

impl Window {
    fn record(&mut self, micros: u64) {
        self.count += 1;
        self.sum += micros;
    }

    fn take_average(&mut self) -> Option<f64> {
        let window = std::mem::take(self);
        (0 < window.count).then(|| window.sum as f64 / window.count as f64)
    }

    fn summary(&mut self, name: &str) -> String {
        match self.take_average() {
            None => String::new(),
            Some(average) => format!("[{name} AverageLatency(us)={}]", at_most_two_decimals(average)),
        }
    }
}

/// Bounds that nothing has been seen of are -1.
#[derive(Clone, Copy, Debug)]
struct Extremes {
    min: i64,
    max: i64,
}

impl Extremes {
    const NONE: Extremes = Extremes { min: -1, max: -1 };

    fn record(&mut self, micros: u64) {
        let micros = micros as i64;
        self.min = if self.min < 0 { micros } else { self.min.min(micros) };
        self.max = self.max.max(micros);
    }
}

/// By millisecond.
pub struct Buckets {
    name: String,
    verbose: bool,
    counts: Vec<u64>,
    beyond: u64,
    operations: u64,
    sum: u64,
    squares: f64,
    extremes: Extremes,
    window: Window,
}

impl Buckets {
    fn new(name: &str, keeping: &Keeping) -> Buckets {
        Buckets {
            name: name.to_owned(),
            verbose: keeping.verbose,
            counts: vec![0; keeping.buckets as usize],
            beyond: 0,
            operations: 0,
            sum: 0,
            squares: 0.0,
            extremes: Extremes::NONE,
            window: Window::default(),
        }
    }

    fn record(&mut self, micros: u64) {
        match self.counts.get_mut((micros / 1000) as usize) {
            Some(count) => *count += 1,
            None => self.beyond += 1,
        }
        self.operations += 1;
        self.sum += micros;
        self.squares += micros as f64 * micros as f64;
        self.extremes.record(micros);
        self.window.record(micros);
    }

    fn export(&self, results: &[(&str, u64)], lines: &mut Vec<Line>) {
        let name = self.name.as_str();
        let operations = self.operations as f64;
        let mean = self.sum as f64 / operations;
        lines.push(Line::whole(name, "Operations", self.operations));
        lines.push(Line::double(name, "AverageLatency(us)", mean));
        lines.push(Line::double(name, "LatencyVariance(us)", self.squares / operations - mean * mean));
        lines.push(Line::whole(name, "MinLatency(us)", self.extremes.min));
        lines.push(Line::whole(name, "MaxLatency(us)", self.extremes.max));
        let mut shares = [(0.95, "95th"), (0.99, "99th")].into_iter().peekable();
        let mut seen = 0;
        for (index, count) in self.counts.iter().enumerate() {
            seen += count;
            while let Some((_, ordinal)) = shares.next_if(|(share, _)| *share <= seen as f64 / operations) {
                let measurement = format!("{ordinal}PercentileLatency(us)");
                lines.push(Line::whole(name, measurement, index * 1000));
            }
        }
        export_results(name, results, lines);
        if self.verbose {
            let counts = self.counts.iter().enumerate();
            lines.extend(counts.map(|(index, count)| Line::whole(name, index.to_string(), *count)));
            lines.push(Line::whole(name, format!(">{}", self.counts.len()), self.beyond));
        }
    }
}

/// As averages of a time.
pub struct Series {
    name: String,
    granularity_ms: u64,
    /// Milliseconds since 1970 of the first latency.
    start: Option<i64>,
    unit: u64,
    current: Window,
    averages: Vec<(u64, f64)>,
    /// Averages that are kept, and those for which there was no room.
    most: usize,
    lost: u64,
    operations: u64,
    sum: u64,
    extremes: Extremes,
    window: Window,
}

impl Series {
    fn new(name: &str, keeping: &Keeping) -> Series {
        Series {
            name: name.to_owned(),
            granularity_ms: keeping.granularity_ms,
            start: None,
            unit: 0,
            current: Window::default(),
            averages: Vec::new(),
            most: SERIES_MAX,
            lost: 0,
            operations: 0,
            sum: 0,
            extremes: Extremes::NONE,
            window: Window::default(),
        }
    }

    /// Ends a unit of time when it is over.
    fn turn(&mut self, moment: Moment, is_end: bool) {
        let now = moment.unix_micros / 1000;
        let start = *self.start.get_or_insert(now);
        let unit = u64::try_from(now - start).unwrap_or(0) / self.granularity_ms * self.granularity_ms;
        if self.unit < unit || is_end {
            let average = self.current.take_average().unwrap_or(f64::NAN);
            if self.averages.len() < self.most {
                self.averages.push((self.unit, average));
            } else {
                self.lost += 1;
            }
            self.unit = unit;
        }
    }

    fn record(&mut self, micros: u64, moment: Moment) {
        self.turn(moment, false);
        self.current.record(micros);
        self.operations += 1;
        self.sum += micros;
        self.extremes.record(micros);
        self.window.record(micros);
    }

    fn export(&mut self, results: &[(&str, u64)], moment: Moment, output: &Output, lines: &mut Vec<Line>) {
        self.turn(moment, true);
        let name = self.name.as_str();
        if 0 < self.lost {
            output.complain(&format!(
                "{name}: the last {} averages are not told: more than {} are not kept; a larger timeseries.granularity makes fewer",
                self.lost, self.most
            ));
        }
        lines.push(Line::whole(name, "Operations", self.operations));
        lines.push(Line::double(name, "AverageLatency(us)", self.sum as f64 / self.operations as f64));
        lines.push(Line::whole(name, "MinLatency(us)", self.extremes.min));
        lines.push(Line::whole(name, "MaxLatency(us)", self.extremes.max));
        export_results(name, results, lines);
        let averages = self.averages.iter();
        lines.extend(averages.map(|(unit, average)| Line::double(name, unit.to_string(), *average)));
    }
}

/// One by one.
pub struct Raw {
    name: String,
    file: Option<String>,
    without_summary: bool,
    /// Milliseconds since 1970, microseconds.
    latencies: Vec<(i64, u32)>,
    /// Latencies that are kept, and those for which there was no room.
    most: usize,
    lost: u64,
    /// Of all of them.
    sum: u64,
    window: Window,
}

impl Raw {
    fn new(name: &str, keeping: &Keeping, output: &Output) -> Raw {
        let place = match &keeping.raw_file {
            Some(file) => format!("result file: {file}"),
            None => "stdout.".into(),
        };
        output.line(&format!("Raw data measurement: will output to {place}"));
        Raw {
            name: name.to_owned(),
            file: keeping.raw_file.clone(),
            without_summary: keeping.raw_without_summary,
            latencies: Vec::new(),
            most: RAW_LATENCIES_MAX,
            lost: 0,
            sum: 0,
            window: Window::default(),
        }
    }

    fn record(&mut self, micros: u64, moment: Moment) {
        self.window.record(micros);
        self.sum += micros;
        if self.most <= self.latencies.len() {
            self.lost += 1;
            return;
        }
        self.latencies.push((moment.unix_micros / 1000, u32::try_from(micros).unwrap_or(u32::MAX)));
    }

    fn summary(&mut self) -> String {
        let count = self.window.count;
        match self.window.take_average() {
            None => String::new(),
            Some(average) => {
                let average = fixed(average, 2, false);
                format!("{} count: {count}, average latency(us): {average}", self.name)
            }
        }
    }

    fn export(&mut self, results: &[(&str, u64)], output: &Output, lines: &mut Vec<Line>) {
        if 0 < self.lost {
            output.complain(&format!(
                "{}: of {} latencies the last {} are not told one by one, nor in percentiles: more than {} are not kept",
                self.name,
                self.latencies.len() as u64 + self.lost,
                self.lost,
                self.most
            ));
        }
        match &self.file {
            None => {
                output.line(&self.head());
                self.latencies.iter().for_each(|latency| output.line(&self.text(latency)));
            }
            Some(file) => {
                if let Err(error) = self.write(file) {
                    output.broke(file, &error);
                }
            }
        }
        self.summarize(lines);
        export_results(&self.name, results, lines);
    }

    fn head(&self) -> String {
        format!("{} latency raw data: op, timestamp(ms), latency(us)", self.name)
    }

    fn text(&self, (at, micros): &(i64, u32)) -> String {
        format!("{},{at},{micros}", self.name)
    }

    fn write(&self, file: &str) -> io::Result<()> {
        let mut file = appended(file)?;
        writeln!(file, "{}", self.head())?;
        for latency in &self.latencies {
            writeln!(file, "{}", self.text(latency))?;
        }
        file.flush()
    }

    fn summarize(&mut self, lines: &mut Vec<Line>) {
        let name = self.name.as_str();
        let count = self.latencies.len();
        let all = count as u64 + self.lost;
        lines.push(Line::whole(name, "Total Operations", all));
        if count == 0 || self.without_summary {
            return;
        }
        self.latencies.sort_by_key(|(_, micros)| *micros);
        let at = |share: f64| {
            let index = (count as f64 * share) as usize;
            u64::from(self.latencies[index.min(count - 1)].1)
        };
        lines.push(Line::whole(name, "Below is a summary of latency in microseconds:", -1));
        lines.push(Line::double(name, "Average", self.sum as f64 / all as f64));
        for (measurement, share) in [
            ("Min", 0.0),
            ("Max", 1.0),
            ("p1", 0.01),
            ("p5", 0.05),
            ("p50", 0.5),
            ("p90", 0.9),
            ("p95", 0.95),
            ("p99", 0.99),
            ("p99.9", 0.999),
            ("p99.99", 0.9999),
        ] {
            lines.push(Line::whole(name, measurement, at(share)));
        }
    }
}

#[allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "a tool's own file, after the load")]
fn appended(file: &str) -> io::Result<io::BufWriter<std::fs::File>> {
    let file = std::fs::OpenOptions::new().create(true).append(true).open(file)?;
    Ok(io::BufWriter::new(file))
}

#[cfg(test)]
mod tests;
