//! Histograms of every interval in a file that the usual viewers read: the interval log of HdrHistogram, version 1.3.
//!
//! ```text
//!  Tag=READ-st,0.000,1.002,12.345,HISTFAAAAD…      seconds from the base, seconds long, longest in milliseconds, histogram
//! ```
//! Tags end in `-st` for service time, `-rt` for response time from the intended start, `-wt` for the wait between the two. Values are
//! nanoseconds. A log of one histogram has no tags and whatever unit its writer likes. Source: the format's documentation and its Java
//! writer's output.

use crate::java::fixed;
use crate::measure::Snapshot;
use flate2::Compression;
use flate2::write::ZlibEncoder;
use hdrhistogram::Histogram;
use std::io::{self, Write};

/// What begins a histogram, with the size of its words: they vary.
const COOKIE: u32 = 0x1c84_9303 | 0x10;
/// What begins a compressed one.
const COMPRESSED_COOKIE: u32 = 0x1c84_9304 | 0x10;

/// Writes the log. After something that could not be written nothing follows, and no error either.
pub struct HistogramLog {
    out: Option<Box<dyn Write>>,
    /// What comes before the first line.
    head: String,
    base: u64,
}

impl HistogramLog {
    /// Begins a log of a run that starts now, by the run's clock and by the calendar. `title`: its first line. Errors: the file cannot be
    /// made; whether it can be written is seen with its first line.
    #[allow(
        clippy::disallowed_types,
        clippy::disallowed_methods,
        reason = "a tool's own log, of a few lines in a second"
    )]
    pub fn create(file: &str, title: &str, now: u64, unix_micros: i64) -> io::Result<HistogramLog> {
        Ok(HistogramLog::begin(Box::new(std::fs::File::create(file)?), title, now, unix_micros))
    }

    fn begin(out: Box<dyn Write>, title: &str, now: u64, unix_micros: i64) -> HistogramLog {
        let seconds = fixed(unix_micros as f64 / 1e6, 3, false);
        let head = format!(
            "#{title}\n#[Histogram log format version 1.3]\n\
             #[BaseTime: {seconds} (seconds since epoch)]\n#[StartTime: {seconds} (seconds since epoch)]\n\
             \"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n"
        );
        HistogramLog { out: Some(out), head, base: now }
    }

    /// Writes what each kind of operation has done since the last line.
    pub fn write(&mut self, snapshot: &Snapshot) -> io::Result<()> {
        let mut text = String::new();
        for (name, interval, _) in &snapshot.kinds {
            for (suffix, latencies) in
                [("st", &interval.service), ("rt", &interval.response), ("wt", &interval.wait)]
            {
                if latencies.count() > 0 {
                    let tag = format!("Tag={name}-{suffix},");
                    text.push_str(&self.line(&tag, (interval.from, interval.to), latencies.histogram())?);
                }
            }
        }
        self.put(text)
    }

    /// Writes a histogram without a tag, of what was seen between two instants of the run's clock; an empty one as well.
    pub fn write_untagged(&mut self, between: (u64, u64), histogram: &Histogram<u64>) -> io::Result<()> {
        let text = self.line("", between, histogram)?;
        self.put(text)
    }

    fn put(&mut self, text: String) -> io::Result<()> {
        let Some(out) = &mut self.out else { return Ok(()) };
        let head = std::mem::take(&mut self.head);
        let written = out.write_all((head + &text).as_bytes()).and_then(|()| out.flush());
        if written.is_err() {
            self.out = None;
        }
        written
    }

    fn line(&self, tag: &str, (from, to): (u64, u64), histogram: &Histogram<u64>) -> io::Result<String> {
        let seconds = |from: u64, to: u64| fixed(to.saturating_sub(from) as f64 / 1e9, 3, false);
        Ok(format!(
            "{tag}{},{},{},{}\n",
            seconds(self.base, from),
            seconds(from, to),
            fixed(histogram.max() as f64 / 1e6, 3, false),
            base64(&compressed(histogram)?)
        ))
    }
}

fn compressed(histogram: &Histogram<u64>) -> io::Result<Vec<u8>> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(&encoded(histogram))?;
    let body = encoder.finish()?;
    let mut out = COMPRESSED_COOKIE.to_be_bytes().to_vec();
    out.extend_from_slice(&(body.len() as u32).to_be_bytes());
    out.extend_from_slice(&body);
    Ok(out)
}

/// Version 2: counts as variable integers in zigzag form, runs of empty buckets as their negative length.
fn encoded(histogram: &Histogram<u64>) -> Vec<u8> {
    let mut counts = Vec::new();
    let mut empty = 0i64;
    for bucket in histogram.iter_all() {
        let count = bucket.count_at_value();
        if count == 0 {
            empty += 1;
            continue;
        }
        if empty > 0 {
            put_zigzag(-empty, &mut counts);
            empty = 0;
        }
        put_zigzag(i64::try_from(count).unwrap_or(i64::MAX), &mut counts);
        if histogram.max() <= bucket.value_iterated_to() {
            break;
        }
    }
    let mut out = COOKIE.to_be_bytes().to_vec();
    out.extend_from_slice(&(counts.len() as u32).to_be_bytes());
    out.extend_from_slice(&0u32.to_be_bytes());
    out.extend_from_slice(&u32::from(histogram.sigfig()).to_be_bytes());
    out.extend_from_slice(&histogram.low().to_be_bytes());
    out.extend_from_slice(&histogram.high().to_be_bytes());
    out.extend_from_slice(&1f64.to_be_bytes());
    out.extend_from_slice(&counts);
    out
}

/// Seven bits in a byte, the low ones first; a ninth byte has eight.
fn put_zigzag(value: i64, out: &mut Vec<u8>) {
    let mut left = (value << 1 ^ value >> 63) as u64;
    for _ in 0..8 {
        if left < 0x80 {
            return out.push(left as u8);
        }
        out.push(left as u8 | 0x80);
        left >>= 7;
    }
    out.push(left as u8);
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |nth: usize| u32::from(chunk.get(nth).copied().unwrap_or(0));
        let group = byte(0) << 16 | byte(1) << 8 | byte(2);
        for nth in 0..4 {
            if nth <= chunk.len() {
                text.push(char::from(LETTERS[(group >> (18 - 6 * nth)) as usize & 63]));
            } else {
                text.push('=');
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::{Done, Metrics};
    use std::cell::RefCell;
    use std::rc::Rc;

    #[test]
    fn bytes_are_written_as_letters() {
        for (bytes, text) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")]
        {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
    }

    #[test]
    fn numbers_are_zigzag() {
        let written = |value| {
            let mut out = Vec::new();
            put_zigzag(value, &mut out);
            out
        };
        assert_eq!(
            [written(0), written(-1), written(1), written(64)],
            [vec![0], vec![1], vec![2], vec![128, 1]]
        );
        assert_eq!(written(i64::MIN), [0xff; 9]);
    }

    #[derive(Clone, Default)]
    struct Shared(Rc<RefCell<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.borrow_mut().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_line_is_written_of_each_kind_that_did_something() {
        let shared = Shared::default();
        let mut log =
            HistogramLog::begin(Box::new(shared.clone()), "a title", 5_000_000_000, 1_795_344_377_250_000);
        let mut metrics = Metrics::new(vec!["READ".into(), "WRITE".into()], 5_000_000_000);
        let done = Done {
            intended: Some(5_100_000_000),
            started: 5_200_000_000,
            ended: 5_203_000_000,
            partitions: 1,
            rows: 1,
            failed: false,
        };
        metrics.record(0, &done);
        log.write(&metrics.snapshot(6_000_000_000)).expect("memory");
        log.write(&metrics.snapshot(7_000_000_000)).expect("memory");
        let text = String::from_utf8(shared.0.borrow().clone()).expect("text");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[2], "#[BaseTime: 1795344377.250 (seconds since epoch)]");
        let heads: Vec<&str> =
            lines[5..].iter().map(|line| line.split(",HISTFAAAA").next().expect("a head")).collect();
        assert_eq!(
            heads,
            [
                "Tag=READ-st,0.000,1.000,3.000",
                "Tag=READ-rt,0.000,1.000,103.023",
                "Tag=READ-wt,0.000,1.000,100.008"
            ]
        );
    }

    #[test]
    fn a_histogram_alone_has_no_tag() {
        let shared = Shared::default();
        let mut log = HistogramLog::begin(Box::new(shared.clone()), "a title", 1_000_000_000, 0);
        let mut histogram = Histogram::<u64>::new(3).expect("three digits");
        log.write_untagged((1_000_000_000, 2_500_000_000), &histogram).expect("memory");
        histogram.record(7_000).expect("it grows");
        log.write_untagged((2_500_000_000, 3_000_000_000), &histogram).expect("memory");
        let text = String::from_utf8(shared.0.borrow().clone()).expect("text");
        let heads: Vec<&str> =
            text.lines().skip(5).map(|line| line.split(",HISTFAAAA").next().expect("a head")).collect();
        assert_eq!(heads, ["0.000,1.500,0.000", "1.500,0.500,0.007"]);
    }

    #[test]
    fn a_full_disk_is_told_once() {
        let mut log = HistogramLog::create("/dev/full", "a title", 0, 0).expect("it can be opened");
        let histogram = Histogram::<u64>::new(3).expect("three digits");
        assert!(log.write_untagged((0, 1), &histogram).is_err());
        assert!(log.write_untagged((1, 2), &histogram).is_ok(), "once is enough");
    }
}
