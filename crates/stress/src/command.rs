//! The tool from its words to its exit status.

use crate::distribution::Distribution;
use crate::error::Error;
use crate::fleet;
use crate::grammar::{Group, Sub, select, usage};
use crate::graph::{self, About};
use crate::knee::Goal;
use crate::report::Style;
use crate::run::{self, Ended, Extras};
use crate::settings::tables::{self, Kind};
use crate::settings::{Rate, Settings, Words, block, read, split};
use loadtools::java::fixed;
use loadtools::output::Output;
use runtime::ShardId;
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::rc::Rc;
use std::sync::Arc;

/// An option, what it is for, and the ways to write it.
type Topic = (&'static str, &'static str, fn() -> Vec<Group>);

/// Options with their help; `-pop` is shown as it is for an unknown number of operations.
const OPTIONS: &[Topic] = &[
    ("-pop", "Which partitions are visited, and in which order their rows", || tables::population("N")),
    (
        "-insert",
        "How the rows of partitions are written: in how many visits, in which batches",
        tables::insert,
    ),
    ("-col", "Columns of the standard tables: number, names, size of values", tables::columns),
    (
        "-rate",
        "Requests in flight and operations in a second; more and more of them unless given",
        tables::rate,
    ),
    ("-mode", "Protocol, user, connections, compression of frames", tables::mode),
    ("-errors", "Tries of an operation, and what happens when all have failed", tables::errors),
    ("-schema", "Keyspace, replication, compaction and compression of the standard tables", tables::schema),
    ("-node", "Nodes to connect to", tables::node),
    ("-log", "What is printed, how often, and to which files", tables::log),
    ("-transport", "TLS", tables::transport),
    ("-port", "Ports", tables::port),
    ("-graph", "A page with charts of the run", tables::graph),
    ("-tokenrange", "Token ranges of queries over whole tables", tables::token_range),
];

/// Options that the Java tool does not have: what each is for, and how it is written.
const OURS: [(&str, &str, &str); 5] = [
    (
        "--results",
        "Wording of the results: current, or older as of 2.x",
        "--results current|older

  current    Op rate                   :    3,200 op/s  [WRITE: 3,200 op/s]
  older      op rate                   : 3200 [WRITE:3200]",
    ),
    (
        "--processes",
        "Several loaders, each of a part of the population, the threads and the rate",
        "--processes N

  N    Loaders, from 1 to 256, no more than threads=; each runs on a core of its own, and their results are one report",
    ),
    (
        "--verify",
        "Follows every write and reads it back: what is lost, stale or written by nobody",
        "--verify

  Takes no words. For write, and for mixed without counters; not with cl=ANY, -col timestamp= or -errors skip-read-validation.
  Nobody else may write into the table meanwhile. What is lost, stale, phantom or cannot be read ends with FAILURE and status 1.",
    ),
    (
        "--scrape",
        "Servers whose cores and caches are drawn into the page: --scrape http://host:9180/metrics",
        "--scrape [http://HOST:PORT/PATH[,...]]

  Wants -graph file=. Without addresses the nodes of -node are asked, at port 9180 and /metrics.",
    ),
    (
        "--find-knee",
        "Looks for the highest rate that holds a goal, such as p99<10ms",
        "--find-knee MEASURE<TIME

  MEASURE    mean, max, or a percentile such as p99 or p99.9
  TIME       a number of us, ms or s: 800us, 10ms, 1s
  Wants -rate threads= alone. Each rate runs as long as duration= says, ten seconds otherwise. Quote the goal for the shell.",
    ),
];

/// Most loaders of a command: as many as shards can be.
const LOADERS_MAX: u16 = 256;
/// Status when the person at the terminal ended the run.
const INTERRUPTED: i32 = 130;

/// Does what the words say and gives the exit status.
pub fn main(words: &[String]) -> u8 {
    match prepared(words) {
        Ok(Prepared::Said(text)) => {
            say(&text);
            0
        }
        Ok(Prepared::Run(settings, extras)) => start(*settings, extras, words.to_vec()),
        Err(error) => {
            let text = match &error {
                Error::Usage(text) => format!("{text}\n{}", help()),
                Error::Options { help, text } => format!("{help}{text}"),
                Error::Ignored(_) => format!("{}{error}", help()),
                Error::Run(text) => text.clone(),
            };
            say(text.trim_end());
            1
        }
    }
}

fn say(text: &str) {
    // A terminal that is gone does not change the status.
    let _gone = writeln!(io::stdout().lock(), "{text}");
}

fn complain(text: &str) {
    let _gone = writeln!(io::stderr().lock(), "{text}");
}

enum Prepared {
    /// All there is to say.
    Said(String),
    /// Something is to be run.
    Run(Box<Settings>, Extras),
}

fn prepared(words: &[String]) -> Result<Prepared, Error> {
    let mut all = split(words)?;
    if all.is_empty() {
        return Err(Error::usage("No command provided"));
    }
    let has = |name: &str| all.iter().any(|words| words.name == name);
    if has("help") || has("-?") {
        return help_wanted(&all).map(Prepared::Said);
    }
    if let Some(print) = all.iter().find(|words| words.name == "print") {
        return quantiles(&print.words).map(Prepared::Said);
    }
    if has("version") {
        return Ok(Prepared::Said(format!("Version: {}", env!("CARGO_PKG_VERSION"))));
    }
    if has("legacy") {
        return Err(Error::usage("legacy is not supported: write the command in the way of today"));
    }
    let mut extra = |name: &str| {
        let at = all.iter().position(|words| words.name == name)?;
        Some(all.remove(at).words)
    };
    let style = match extra("--results").as_deref() {
        None => Style::Current,
        Some([word]) if word == "older" => Style::Older,
        Some([word]) if word == "current" => Style::Current,
        Some(_) => return Err(Error::usage("--results wants one word: current or older")),
    };
    let goal = match extra("--find-knee").as_deref() {
        None => None,
        Some([goal]) => Some(Goal::parse(goal)?),
        Some(_) => return Err(Error::usage("--find-knee wants one goal, such as p99<10ms")),
    };
    let loaders = match extra("--processes").as_deref() {
        None => 1,
        Some([number]) => loaders_of(number)?,
        Some(_) => return Err(Error::usage("--processes wants one number")),
    };
    let settings = read(all)?;
    if let Rate::Threads { threads, .. } = settings.rate
        && threads < u32::from(loaders)
    {
        return Err(Error::usage("--processes wants no more loaders than -rate threads="));
    }
    if goal.is_some() && !matches!(settings.rate, Rate::Threads { limit: None, .. }) {
        return Err(Error::usage("--find-knee wants -rate threads= alone: the rates are its own"));
    }
    Ok(Prepared::Run(Box::new(settings), Extras { style, goal, loaders }))
}

/// How many loaders; each takes a shard.
fn loaders_of(number: &str) -> Result<u16, Error> {
    let found = number.parse::<u16>().ok().filter(|loaders| (1..=LOADERS_MAX).contains(loaders));
    found.ok_or_else(|| {
        Error::usage(format!("--processes wants a number from 1 to {LOADERS_MAX}, not {number}"))
    })
}

/// The help of everything.
fn help() -> String {
    let mut text = String::from(
        "Usage:      cassandra-stress <command> [options]\nHelp usage: cassandra-stress help <command>\n\n---Commands---\n",
    );
    for kind in Kind::ALL {
        writeln!(text, "{:<20} : {}", kind.name().to_ascii_lowercase(), kind.description()).ok();
    }
    for (name, description) in [
        ("help", "Help on a command or option"),
        ("print", "Quantiles of a distribution"),
        ("version", "The version of this program"),
    ] {
        writeln!(text, "{name:<20} : {description}").ok();
    }
    text.push_str("\n---Options---\n");
    let options = OPTIONS.iter().map(|(name, description, _)| (*name, *description));
    let ours = OURS.iter().map(|(name, description, _)| (*name, *description));
    for (name, description) in options.chain(ours) {
        writeln!(text, "{name:<21} : {description}").ok();
    }
    text
}

fn help_wanted(all: &[Words]) -> Result<String, Error> {
    let invalid = || Error::usage("Invalid command/option provided to help");
    let mut topics: Vec<&str> = Vec::new();
    for words in all {
        if words.name != "help" && words.name != "-?" {
            topics.push(&words.name);
        }
        topics.extend(words.words.iter().map(String::as_str));
    }
    let topic = match topics.as_slice() {
        [] => return Ok(help().trim_end().to_owned()),
        [topic] => *topic,
        _ => return Err(invalid()),
    };
    if let Some(kind) = Kind::of(topic) {
        return Ok(usage(&kind.name().to_ascii_lowercase(), &tables::command(kind)).trim_end().to_owned());
    }
    if topic.eq_ignore_ascii_case("print") {
        return Ok(usage("print", &print_groups()).trim_end().to_owned());
    }
    if let Some((.., text)) = OURS.iter().find(|(name, ..)| name.eq_ignore_ascii_case(topic)) {
        return Ok(format!("\nUsage: {text}"));
    }
    let option = OPTIONS.iter().find(|(name, ..)| name.eq_ignore_ascii_case(topic));
    let (name, _, groups) =
        option.ok_or_else(|| Error::usage("Invalid command or option provided to command help"))?;
    Ok(usage(name, &groups()).trim_end().to_owned())
}

fn print_groups() -> Vec<Group> {
    vec![Group::new(vec![Sub::distribution("dist=", "The distribution to look at").required()])]
}

/// The table of `print dist=`.
fn quantiles(words: &[String]) -> Result<String, Error> {
    let chosen = select("print", words, print_groups())?;
    let distribution: Option<Distribution> =
        chosen.and_then(|group| group.distribution("dist=").transpose()).transpose()?;
    let distribution = distribution.ok_or_else(|| Error::Options {
        help: usage("print", &print_groups()),
        text: "Invalid print options provided, see output for valid options".into(),
    })?;
    let mut text = String::from("% of samples    Range       % of total");
    let greatest = distribution.quantile(1.0) as f64 / 100.0;
    for percent in [10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 99.0, 100.0] {
        let value = distribution.quantile(percent / 100.0);
        write!(
            text,
            "\n{:<16}{value:<12}{:>12}",
            fixed(percent, 1, false),
            fixed(value as f64 / greatest, 1, false)
        )
        .ok();
    }
    Ok(text)
}

/// The file of the page, if one is asked for, and what is said of this run in it.
fn about(settings: &Settings, words: &[String]) -> Option<(String, About)> {
    let graph = &settings.graph;
    let title =
        graph.title.clone().unwrap_or_else(|| format!("cassandra-stress - {}", date(runtime::unix_micros())));
    let about = About {
        title,
        operation: graph.operation.clone(),
        revision: graph.revision.clone(),
        command: graph::without_password(words),
    };
    Some((graph.file.clone()?, about))
}

/// A time of the calendar, in UTC: `2026-11-22 10:08:10`.
fn date(unix_micros: i64) -> String {
    let seconds = unix_micros.div_euclid(1_000_000);
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = base::calendar::civil(days);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60)
}

/// Runs on shards of its own, the first of which says everything.
fn start(settings: Settings, extras: Extras, words: Vec<String>) -> u8 {
    let loaders = extras.loaders;
    let main: runtime::Main = Arc::new(move || {
        let (settings, extras, words) = (settings.clone(), extras.clone(), words.clone());
        Box::pin(async move {
            if runtime::shard() != ShardId(0) {
                fleet::stay().await;
                return 0;
            }
            let status = run_on_shard(settings, extras, words).await;
            fleet::leave().await;
            status
        })
    });
    loadtools::shard::run_on(loaders, main)
}

/// Runs on the terminal, and gives the exit status.
async fn run_on_shard(settings: Settings, extras: Extras, words: Vec<String>) -> i32 {
    match opened(&settings, Says::Everything) {
        Ok(output) => status(settings, extras, &words, &output).await,
        Err(error) => {
            complain(&error.to_string());
            1
        }
    }
}

/// Runs, says all of it, and gives the exit status.
async fn status(settings: Settings, extras: Extras, words: &[String], output: &Rc<Output>) -> i32 {
    match whole(settings, extras, words, output).await {
        Err(error) => {
            output.complain(&error.to_string());
            1
        }
        Ok(ended) if !ended.success => {
            output.complain("Failed to execute stress action");
            1
        }
        // What is wrong with which file has been said.
        Ok(_) if !output.is_whole() => 1,
        Ok(_) if runtime::shutdown_is_requested() => INTERRUPTED,
        Ok(_) => 0,
    }
}

/// What of a run is said on the terminal; files that its words name are written in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Says {
    /// All of it.
    Everything,
    /// Nothing: complaints are given back.
    Nothing,
}

/// What came of the words of a run.
#[derive(Clone, Debug)]
pub struct Ran {
    /// What came of the run.
    pub ended: Ended,
    /// Every file that the words name is whole.
    pub is_whole: bool,
    /// What went wrong, where it was not said.
    pub complaints: Vec<String>,
}

/// Runs what the words say on this shard, for those who want its numbers. Errors: the words are no run, or one for several shards;
/// the run cannot begin or go on.
pub async fn run_here(words: &[String], says: Says) -> Result<Ran, Error> {
    let (settings, extras) = runnable(words)?;
    let output = opened(&settings, says)?;
    let ended = whole(settings, extras, words, &output).await?;
    Ok(Ran { ended, is_whole: output.is_whole(), complaints: output.complaints() })
}

/// Runs what the words say on this shard, says all of it to an output in place of the terminal and of `-log file=`, and gives the
/// status that its process would end with. Errors: the words are no run, or one for several shards.
pub async fn run_to(words: &[String], output: &Rc<Output>) -> Result<i32, Error> {
    let (settings, extras) = runnable(words)?;
    Ok(status(settings, extras, words, output).await)
}

/// The run that the words say, which one shard can do.
fn runnable(words: &[String]) -> Result<(Settings, Extras), Error> {
    match prepared(words)? {
        Prepared::Said(_) => Err(Error::usage("these words run nothing")),
        Prepared::Run(_, extras) if extras.loaders > 1 => {
            Err(Error::usage("--processes needs shards of its own"))
        }
        Prepared::Run(settings, extras) => Ok((*settings, extras)),
    }
}

/// Where the lines of a run go.
fn opened(settings: &Settings, says: Says) -> Result<Rc<Output>, Error> {
    let (file, is_kept) = (settings.log.file.as_deref(), settings.graph.file.is_some());
    let output = match says {
        Says::Everything => Output::new(file, is_kept),
        Says::Nothing => Output::unseen(file, is_kept),
    };
    output.map(Rc::new).map_err(|error| Error::run(format!("{}: {error}", file.unwrap_or_default())))
}

/// Runs, and writes the page.
async fn whole(
    settings: Settings,
    extras: Extras,
    words: &[String],
    output: &Rc<Output>,
) -> Result<Ended, Error> {
    if !settings.log.no_settings {
        output.line(block(&settings).trim_end_matches('\n'));
        output.line("");
    }
    let about = about(&settings, words);
    let ended = run::run(settings, output.clone(), extras).await?;
    if let (Some((file, about)), Some(log)) = (about, output.kept()) {
        let runs = graph::runs(&log, &about, &ended.notes);
        if let Err(error) = graph::write(&file, &about, runs) {
            output.broke(&file, &error);
        }
    }
    Ok(ended)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(line: &str) -> Result<String, String> {
        let words: Vec<String> = line.split(' ').filter(|word| !word.is_empty()).map(str::to_owned).collect();
        match prepared(&words) {
            Ok(Prepared::Said(text)) => Ok(text),
            Ok(Prepared::Run(..)) => Ok("run".into()),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn quantiles_are_those_of_the_java_tool() {
        let expected = "% of samples    Range       % of total
10.0            287                 28.7
20.0            360                 36.0
30.0            413                 41.3
40.0            458                 45.8
50.0            500                 50.0
60.0            542                 54.2
70.0            587                 58.7
80.0            640                 64.0
90.0            713                 71.3
95.0            774                 77.4
99.0            887                 88.7
100.0           1000               100.0";
        assert_eq!(said("print dist=gaussian(1..1000)").as_deref(), Ok(expected));
        assert!(said("print").is_err());
        assert!(said("print dist=zipf(1..2)").is_err());
    }

    #[test]
    fn every_command_and_option_has_its_help() {
        assert!(said("help").expect("help").contains("counter_write        : "));
        for kind in Kind::ALL {
            let word = kind.words()[0];
            let text = said(&format!("help {word}")).expect(word);
            assert!(text.starts_with(&format!("\nUsage: {word} [err<?]")) || kind == Kind::User, "{text}");
            assert!(text.contains("\n OR \n"), "{text}");
        }
        for (name, ..) in OPTIONS {
            assert!(said(&format!("help {name}")).expect(name).starts_with(&format!("\nUsage: {name} ")));
        }
        for (name, description, _) in OURS {
            let text = said(&format!("help {name}")).expect(name);
            assert!(text.starts_with(&format!("\nUsage: {name}")) && text.contains("\n  "), "{text}");
            assert!(said("help").expect("help").contains(&format!("\n{name:<21} : {description}")), "{name}");
        }
        assert_eq!(
            said("help --find-faults"),
            Err("Invalid command or option provided to command help".into())
        );
        assert_eq!(said("help nothing"), Err("Invalid command or option provided to command help".into()));
        assert_eq!(said("help read write"), Err("Invalid command/option provided to help".into()));
        let rate = said("help -rate").expect("rate");
        assert!(rate.contains("Usage: -rate [threads>=?] [threads<=?] [auto]\n"), "{rate}");
        assert!(rate.contains("Usage: -rate threads=? [throttle=?] [fixed=?]\n"), "{rate}");
    }

    #[test]
    fn what_cannot_be_done_is_refused() {
        assert_eq!(said(""), Err("No command provided".into()));
        assert!(said("legacy -n 5").is_err());
        assert!(said("write n=1 --results sometimes").is_err());
        assert!(said("user profile=a").is_err(), "operations are wanted");
        assert_eq!(said("write n=1 --results older"), Ok("run".into()));
        assert_eq!(said("read duration=5s -rate threads=9 --find-knee p99<10ms"), Ok("run".into()));
        for wrong in [
            "--find-knee",
            "--find-knee fast",
            "--find-knee p99<1ms p50<1ms",
            "-rate threads=9 fixed=5/s --find-knee p99<1ms",
        ] {
            assert!(said(&format!("read duration=5s {wrong}")).is_err(), "{wrong}");
        }
        assert!(said("version").expect("a version").starts_with("Version: "));
    }

    const COMMANDS: &str = "read write mixed counter_write user help print version -? legacy x";
    const OPTIONS_AND_OURS: &str = "-pop -insert -col -rate -mode -errors -schema -node -log -transport -port -graph -tokenrange \
        -sendto --results --find-knee --processes --verify --scrape -";
    const NAMES: &str = "n= duration= err< n> n< cl= truncate= keysize= add= ratio ops profile= clustering= no-warmup seq= dist= \
        read-lookback= contents= no-wrap revisit= visits= partitions= select-ratio= row-population-ratio= batchtype= size= names= \
        super= timestamp= comparator= threads= threads>= threads<= throttle= fixed= auto native cql3 user= protocolVersion= \
        compression= maxPending= retries= ignore delay-policy= min-delay-ms= replication keyspace= compaction factor= level= \
        interval= hdrfile= truststore= ssl-alg= jmx= title= split-factor= wrap older p99<";
    const VALUES: &str = "0 1 5 -1 9223372036854775807 -9223372036854775808 99999999999999999999 1b 9b 5m 3h 1ms 0/s 5/s 0.1 1e400 \
        NaN 1..9 1..9223372036854775807 9..1 .. fixed(1) fixed(1)/0 fixed(5)/2 uniform(1..10) ~exp(1..10) exp(5..5) \
        gaussian(1..10,0,0) gaussian(1..9b,9b,1) extreme(1..10,0) qextreme(1..1k,2,3) qextreme(1..2,1,0) seq(1..1) \
        seq(1..9223372036854775807) uniform(-9223372036854775808..0) zipf(1..2) fixed() ( ) () (read=1,write=1) (insert=1) \
        (strategy=a,b=c) (=) (,) ONE any lz4 \u{fc} \u{212a} 10ms http://a:1/m";

    /// Whatever the words are, they are a run, a text, or refused with a text.
    #[test]
    fn any_words_are_read_or_refused() {
        let [commands, options, names, values] = [COMMANDS, OPTIONS_AND_OURS, NAMES, VALUES]
            .map(|text| text.split_whitespace().collect::<Vec<_>>());
        let mut rng = base::Prng::new(7);
        let mut of = |words: &[&str]| words[rng.below(words.len() as u64) as usize].to_owned();
        let counts = ["", "a", "aa", "aaa", "aaaa"];
        let (mut runs, mut refused) = (0, 0);
        for _ in 0..6_000 {
            let mut words = vec![of(&commands), of(&["n=5", "duration=5s", "n=0", ""])];
            for _ in 0..of(&counts).len() {
                words.push(of(&options));
                for _ in 0..of(&counts).len() {
                    words.push(of(&names) + &of(&values));
                }
            }
            match prepared(&words) {
                Ok(Prepared::Run(settings, _)) => {
                    assert!(!block(&settings).is_empty());
                    runs += 1;
                }
                Ok(Prepared::Said(text)) => assert!(!text.is_empty(), "{words:?}"),
                Err(error) => {
                    assert!(!error.to_string().is_empty(), "{words:?}");
                    refused += 1;
                }
            }
        }
        assert!(runs > 100 && refused > 1_000, "{runs} {refused}");
    }
}
