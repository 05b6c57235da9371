//! A page with charts of runs: one file, nothing fetched. A run is added to the runs that a file already has, whoever wrote it.
//!
//! ```text
//!  /* stats start */
//!  stats = {"title": …, "stats": [{"test": "READ", "revision": …, "metrics": […], "intervals": [[…]], "op rate": …}, …]};
//!  /* stats end */
//! ```
//! The log of a run is what is read, as by the Java tool: the line of titles begins the intervals, `Results:` the aggregates. `kinds`, the
//! operation of each interval, `distribution`, pairs of percentile and milliseconds, and `servers`, points of seconds, percent of cores and
//! percent of hits, are ours; the Java tool's page passes over them.

use crate::report::{TITLES, header};
use crate::scrape::Series;
use loadtools::measure::Latencies;
use serde_json::{Map, Value, json};
use std::io;

const PAGE: &str = include_str!("graph.html");
const START: &str = "/* stats start */";
const END: &str = "/* stats end */";
/// Percentiles of a distribution: so many to each factor of ten of what is left.
const PER_DECADE: u32 = 12;
/// Factors of ten.
const DECADES: u32 = 6;

/// What a page is made of, beside the log.
#[derive(Clone, Debug)]
pub struct About {
    /// Title of the page.
    pub title: String,
    /// Name of the operation.
    pub operation: String,
    /// Name of what is measured.
    pub revision: String,
    /// The command line.
    pub command: String,
}

/// What a run has beside its lines.
#[derive(Clone, Debug, Default)]
pub struct Notes {
    /// How latencies are distributed: pairs of percentile and milliseconds.
    pub distribution: Vec<(f64, f64)>,
    /// What servers told of themselves.
    pub servers: Vec<Series>,
}

/// How latencies are distributed: pairs of percentile and milliseconds.
pub fn distribution(latencies: &Latencies) -> Vec<(f64, f64)> {
    if latencies.count() == 0 {
        return Vec::new();
    }
    let left = (0..=PER_DECADE * DECADES).map(|nth| 10f64.powf(-f64::from(nth) / f64::from(PER_DECADE)));
    // What a single operation more would change says nothing.
    let told = left.take_while(|left| *left * latencies.count() as f64 >= 1.0);
    let mut pairs: Vec<(f64, f64)> =
        told.map(|left| ((1.0 - left) * 100.0, latencies.quantile(1.0 - left))).collect();
    pairs.push((100.0 * (1.0 - 0.5 / latencies.count() as f64), latencies.max()));
    pairs
}

/// The runs of a log, with the notes of each.
pub fn runs(log: &str, about: &About, notes: &[Notes]) -> Vec<Value> {
    let titles = header();
    let mut runs: Vec<Map<String, Value>> = Vec::new();
    let mut revision = about.revision.clone();
    let mut part = Part::Before;
    for line in log.lines() {
        if let Some(threads) =
            line.strip_prefix("Running with ").and_then(|rest| rest.strip_suffix(" threadCount"))
        {
            revision = format!("{} - {threads} threads", about.revision);
        }
        if line == titles {
            runs.push(begun(about, &revision));
            part = Part::Intervals;
            continue;
        }
        let Some(run) = runs.last_mut() else { continue };
        match part {
            Part::Before => {}
            Part::Intervals if line == "Results:" => part = Part::Aggregates,
            Part::Intervals => interval(line, run),
            Part::Aggregates if line.is_empty() => part = Part::Before,
            Part::Aggregates => {
                if let Some((label, text)) = line.split_once(':') {
                    run.insert(label.trim().to_lowercase(), text.trim().into());
                }
            }
        }
    }
    for (run, notes) in runs.iter_mut().zip(notes) {
        run.insert("distribution".into(), json!(notes.distribution));
        if !notes.servers.is_empty() {
            run.insert("servers".into(), notes.servers.iter().map(Series::json).collect());
        }
    }
    runs.into_iter().map(Value::Object).collect()
}

#[derive(Clone, Copy)]
enum Part {
    Before,
    Intervals,
    Aggregates,
}

fn begun(about: &About, revision: &str) -> Map<String, Value> {
    let mut run = Map::new();
    run.insert("test".into(), about.operation.clone().into());
    run.insert("revision".into(), revision.into());
    run.insert("command".into(), about.command.clone().into());
    run.insert("metrics".into(), json!(TITLES));
    run.insert("intervals".into(), json!([]));
    run.insert("kinds".into(), json!([]));
    run
}

fn interval(line: &str, run: &mut Map<String, Value>) {
    let fields: Vec<&str> = line.split(',').map(str::trim).collect();
    if fields.len() != TITLES.len() {
        return;
    }
    // A word is nothing in a row of numbers; nor is what is not a number.
    let number = |field: &&str| field.parse::<f64>().ok().filter(|number| number.is_finite());
    let row: Vec<Option<f64>> = fields.iter().map(number).collect();
    for (key, value) in [("intervals", json!(row)), ("kinds", json!(fields[0]))] {
        if let Some(Value::Array(all)) = run.get_mut(key) {
            all.push(value);
        }
    }
}

/// The command line without its password.
pub fn without_password(words: &[String]) -> String {
    let hidden = |word: &String| match word.split_once("password=") {
        Some((before, _)) => format!("{before}password=*******"),
        None => word.clone(),
    };
    words.iter().map(hidden).collect::<Vec<_>>().join(" ")
}

/// Writes the page, with these runs after those that the file has. A file of which only a part can be written is left as it was.
#[allow(clippy::disallowed_methods, reason = "a tool's own file, written when the run is over")]
pub fn write(file: &str, about: &About, new: Vec<Value>) -> io::Result<()> {
    let is_special = std::fs::metadata(file).is_ok_and(|is| !is.is_file());
    // What is no file has no runs, and perhaps no end.
    let before = if is_special { Vec::new() } else { runs_of(file)? };
    let all: Vec<Value> = before.into_iter().chain(new).collect();
    let page = page(&about.title, all);
    if is_special {
        return std::fs::write(file, page);
    }
    let whole = format!("{file}.new");
    let written = std::fs::write(&whole, page).and_then(|()| std::fs::rename(&whole, file));
    if written.is_err() {
        // What cannot be removed either is told by its name.
        let _left = std::fs::remove_file(&whole);
    }
    written
}

/// The runs of a file, if it is there.
#[allow(clippy::disallowed_methods, reason = "a tool's own file, read when the run is over")]
fn runs_of(file: &str) -> io::Result<Vec<Value>> {
    match std::fs::read_to_string(file) {
        Ok(page) => {
            earlier(&page).ok_or_else(|| io::Error::other("it has no runs in it, so it is left alone"))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// The runs of a page, which this or the Java tool has written.
fn earlier(page: &str) -> Option<Vec<Value>> {
    let (_, rest) = page.split_once(START)?;
    let (block, _) = rest.split_once(END)?;
    let text = block.trim().strip_prefix("stats")?.trim_start().strip_prefix('=')?;
    let text = text.trim().strip_suffix(';').unwrap_or(text.trim());
    let mut stats: Value = serde_json::from_str(text).ok()?;
    match stats.get_mut("stats")?.take() {
        Value::Array(runs) => Some(runs),
        _ => None,
    }
}

fn page(title: &str, runs: Vec<Value>) -> String {
    // Inside a script no tag may end it.
    let stats = json!({"title": title, "stats": runs}).to_string().replace("</", "<\\/");
    let escaped = title.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    PAGE.replacen("@TITLE@", &escaped, 1).replacen("@STATS@", &stats, 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn about() -> About {
        About {
            title: "oci_bm </script>".into(),
            operation: "MIXED".into(),
            revision: "benchmark-1".into(),
            command: without_password(&["write".into(), "n=1".into(), "password=secret".into()]),
        }
    }

    fn log() -> String {
        let row = |kind: &str| format!("{kind:<10}{:>10},{}", 107, vec!["     2.5"; 16].join(",")) + ",  NaN";
        format!(
            "Thread count was not specified\n\nRunning with 4 threadCount\nRunning [READ] with 4 threads\n{}\n{}\n{}\nnot, a row\n\n\nResults:\nOp rate                   :    5,063 op/s  [READ: 1 op/s]\nTotal operation time      : 00:00:03\n\nEND\n",
            header(),
            row("READ,"),
            row("total,"),
        )
    }

    #[test]
    fn a_log_is_read_line_by_line() {
        let runs = runs(
            &log(),
            &about(),
            &[Notes {
                distribution: vec![(50.0, 1.5)],
                servers: vec![Series {
                    node: "10.0.0.1:9180".into(),
                    points: vec![(1.0, Some(25.0), None), (2.0, None, None)],
                }],
            }],
        );
        assert_eq!(runs.len(), 1);
        let run = &runs[0];
        assert_eq!(
            (run["test"].as_str(), run["revision"].as_str()),
            (Some("MIXED"), Some("benchmark-1 - 4 threads"))
        );
        assert_eq!(run["command"].as_str(), Some("write n=1 password=*******"));
        assert_eq!(run["op rate"].as_str(), Some("5,063 op/s  [READ: 1 op/s]"));
        assert_eq!(run["total operation time"].as_str(), Some("00:00:03"));
        assert_eq!(run["intervals"].as_array().map(Vec::len), Some(2));
        assert_eq!(run["intervals"][1][0], Value::Null, "a word");
        assert_eq!(run["intervals"][1][18], Value::Null, "not a number");
        assert_eq!(
            (run["intervals"][1][1].as_f64(), run["intervals"][1][2].as_f64()),
            (Some(107.0), Some(2.5))
        );
        assert_eq!(run["kinds"], json!(["READ", "total"]));
        assert_eq!(run["distribution"], json!([[50.0, 1.5]]));
        assert_eq!(
            run["servers"],
            json!([{"node": "10.0.0.1:9180", "points": [[1.0, 25.0, null], [2.0, null, null]]}])
        );
    }

    #[test]
    fn runs_are_added_to_those_of_a_page() {
        let page = page(&about().title, runs(&log(), &about(), &[]));
        assert_eq!(page.matches("</script>").count(), 1, "the title does not end the script");
        assert_eq!(earlier(&page).map(|runs| runs.len()), Some(1));
        // As the Java tool writes it.
        let of_java = "<script>\n/* stats start */\nstats = {\"title\":\"t\",\"stats\":[{\"test\":\"WRITE\",\"intervals\":[]}]};\n/* stats end */\n</script>";
        assert_eq!(earlier(of_java).expect("runs")[0]["test"].as_str(), Some("WRITE"));
        assert!(earlier("<html></html>").is_none());
        assert!(earlier("/* stats start */ stats = {broken /* stats end */").is_none());
    }

    /// A disk that is full: what is there stays, and what has no end is not read.
    #[test]
    #[allow(clippy::disallowed_methods, reason = "a folder of this test's own")]
    fn a_page_is_written_whole_or_left_as_it_was() {
        let full = write("/dev/full", &about(), runs(&log(), &about(), &[])).expect_err("no room");
        assert_eq!(full.kind(), io::ErrorKind::StorageFull, "{full}");
        let folder = std::env::temp_dir().join(format!("messina-graph-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let file = folder.join("page.html").display().to_string();
        for count in 1..=2 {
            write(&file, &about(), runs(&log(), &about(), &[])).expect("room");
            assert_eq!(runs_of(&file).expect("runs").len(), count);
        }
        // A folder stands where the new page would be written.
        std::fs::create_dir_all(folder.join("page.html.new")).expect("a folder");
        write(&file, &about(), runs(&log(), &about(), &[])).expect_err("no place");
        assert_eq!(runs_of(&file).expect("runs").len(), 2);
        std::fs::remove_dir_all(&folder).expect("it is ours");
    }

    #[test]
    fn a_distribution_ends_with_the_longest() {
        let mut latencies = Latencies::default();
        assert!(distribution(&latencies).is_empty());
        (1..=1000u64).for_each(|nth| latencies.record(nth * 1_000_000));
        let pairs = distribution(&latencies);
        assert!(pairs.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1), "{pairs:?}");
        let last = pairs.last().expect("the longest");
        assert!((last.1 - 1000.0).abs() < 1.0 && last.0 < 100.0, "{last:?}");
    }
}
