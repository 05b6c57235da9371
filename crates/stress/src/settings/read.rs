//! Words to settings.

use super::node;
use super::ours;
use super::tables::{self, Kind};
use super::{
    Columns, Command, Compression, Delay, Errors, Graph, Insert, Level, Limit, Log, Mode, Order, Population,
    Port, Rate, Schema, Settings, TokenRange, Transport, Truncate, Until, Visited,
};
use crate::distribution::{Distribution, parse_count, parse_range};
use crate::error::Error;
use crate::grammar::{Group, Ratio, select, usage};
use std::time::Duration;

/// Most requests in flight of one run: each costs a task.
const THREADS_MAX: u64 = 1 << 20;
/// Most columns of the standard table: with the key, as many values as a request may have.
const COLUMNS_MAX: i64 = 65_534;
/// Most bytes of a key: the server takes no longer one.
const KEY_BYTES_MAX: u64 = 65_535;
/// Partitions where neither the population nor the number of operations is given.
const PARTITIONS: u64 = 1_000_000;
/// Requests in flight of a write with a number of operations.
const WRITE_THREADS: u32 = 200;
/// Where replication strategies live.
const LOCATOR: &str = "org.apache.cassandra.locator.";

/// A command or option with the words after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Words {
    /// Its name in small letters, with its dash.
    pub name: String,
    /// What follows it.
    pub words: Vec<String>,
}

/// The command, and each option with its words. What shells and people take apart is joined first: `factor = 3` is one word.
pub fn split(words: &[String]) -> Result<Vec<Words>, Error> {
    let mut all: Vec<Words> = Vec::new();
    for (nth, word) in repaired(words).into_iter().enumerate() {
        if nth > 0 && !word.starts_with('-') {
            // The first word always makes an entry.
            all.last_mut().expect("not empty").words.push(word);
            continue;
        }
        let name = word.to_ascii_lowercase();
        if all.iter().any(|known| known.name == name) {
            let text = format!(
                "{name} is defined multiple times. Each option/command can be specified at most once."
            );
            return Err(Error::usage(text));
        }
        all.push(Words { name, words: Vec::new() });
    }
    Ok(all)
}

fn repaired(words: &[String]) -> Vec<String> {
    let mut text = String::new();
    for letter in words.join(" ").chars() {
        if matches!(letter, ',' | '=' | '(' | ')') {
            text.truncate(text.trim_end().len());
            text.push(letter);
        } else if !(letter.is_whitespace() && text.ends_with([',', '=', '('])) {
            text.push(letter);
        }
    }
    text.split(' ').filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// Takes the words of an option out of all.
fn take(all: &mut Vec<Words>, name: &str) -> Option<Vec<String>> {
    let at = all.iter().position(|words| words.name == name)?;
    Some(all.remove(at).words)
}

/// The group that the words of an option mean; without the option, the last of its groups, which wants nothing.
fn option(all: &mut Vec<Words>, name: &str, groups: Vec<Group>) -> Result<Group, Error> {
    let words = take(all, name).unwrap_or_default();
    chosen(name, &words, groups)
}

fn chosen(name: &str, words: &[String], groups: Vec<Group>) -> Result<Group, Error> {
    let help = usage(name, &groups);
    select(name, words, groups)?.ok_or_else(|| Error::Options {
        help,
        text: format!("Invalid {name} options provided, see output for valid options"),
    })
}

/// Reads all words of a command line; what is not understood is an error.
pub fn read(mut all: Vec<Words>) -> Result<Settings, Error> {
    let said: Vec<String> = all.iter().map(|words| words.name.clone()).collect();
    let command = read_command(&mut all)?;
    let mut warnings = ours::without_effect(&said, command.kind);
    let mut heeded = |all: &mut Vec<Words>, name: &str, groups: Vec<Group>| {
        let group = option(all, name, groups)?;
        warnings.extend(ours::unheeded(name, &group));
        Ok::<Group, Error>(group)
    };
    let port = read_port(&heeded(&mut all, "-port", tables::port())?)?;
    let rate = read_rate(take(&mut all, "-rate"), &command)?;
    let population = read_population(take(&mut all, "-pop"), &command)?;
    let token_range = read_token_range(&option(&mut all, "-tokenrange", tables::token_range())?)?;
    let insert = read_insert(&option(&mut all, "-insert", tables::insert())?)?;
    let columns = read_columns(&heeded(&mut all, "-col", tables::columns())?)?;
    let errors = read_errors(&heeded(&mut all, "-errors", tables::errors())?)?;
    let log = read_log(&heeded(&mut all, "-log", tables::log())?)?;
    let mode = read_mode(&heeded(&mut all, "-mode", tables::mode())?)?;
    let node = node::read(&option(&mut all, "-node", tables::node())?)?;
    let schema = read_schema(take(&mut all, "-schema"), &command)?;
    let transport = read_transport(&heeded(&mut all, "-transport", tables::transport())?)?;
    let graph = read_graph(take(&mut all, "-graph"), &command)?;
    let verify = ours::verify(take(&mut all, "--verify"), &command, &columns, &errors)?;
    let scraped = ours::scraped(take(&mut all, "--scrape"), &node, &graph)?;
    warnings.extend(ours::said_in_vain(&columns, &errors, &transport));
    if let Some(refused) = all.iter().find_map(refusal) {
        return Err(Error::usage(refused));
    }
    if !all.is_empty() {
        let lines = all.iter().map(|words| {
            format!(
                "{}{}",
                words.name,
                words.words.iter().fold(String::new(), |text, word| text + " " + word)
            )
        });
        return Err(Error::Ignored(lines.collect()));
    }
    Ok(Settings {
        command,
        rate,
        population,
        insert,
        columns,
        errors,
        log,
        mode,
        node,
        schema,
        transport,
        port,
        graph,
        token_range,
        verify,
        scraped,
        warnings,
    })
}

/// Why a known option is not honoured.
fn refusal(words: &Words) -> Option<String> {
    match words.name.as_str() {
        "-sendto" | "-send-to" => Some(
            "-sendto is not supported: its protocol is that of Java objects. Run this program on the other machine.".into(),
        ),
        "-sample" => Some("-sample no longer exists: every operation is counted in histograms of fixed size.".into()),
        "-jmx" => Some("-jmx is not supported: no statistics are collected over JMX.".into()),
        _ => None,
    }
}

fn whole(group: &Group, prefix: &str, most: u64) -> Result<Option<u64>, Error> {
    let Some(text) = group.value(prefix) else { return Ok(None) };
    let number =
        parse_count(text).and_then(|number| u64::try_from(number).ok()).filter(|number| *number <= most);
    number.map(Some).ok_or_else(|| Error::usage(format!("Invalid value {text} of {prefix}: at most {most}")))
}

fn read_command(all: &mut Vec<Words>) -> Result<Command, Error> {
    let found = Kind::ALL
        .into_iter()
        .flat_map(|kind| kind.words().iter().map(move |word| (kind, *word)))
        .find_map(|(kind, word)| Some((kind, take(all, word)?)));
    let Some((kind, words)) = found else {
        return Err(Error::usage("No command specified"));
    };
    let groups = tables::command(kind);
    let name = kind.name().to_ascii_lowercase();
    let help = usage(&name, &groups);
    let group = select(&name, &words, groups)?.ok_or_else(|| Error::Options {
        help,
        text: format!("Invalid {} options provided, see output for valid options", kind.name()),
    })?;
    let weights = match kind {
        Kind::Mixed => group.weights("ratio"),
        Kind::User => group.weights("ops"),
        Kind::Read | Kind::Write | Kind::CounterWrite | Kind::CounterRead => {
            vec![(kind.name().to_ascii_lowercase(), 1.0)]
        }
    };
    if weights.is_empty() {
        return Err(Error::usage(format!(
            "Must specify at least one command with a non-zero ratio ({})",
            if kind == Kind::Mixed { "mixed ratio()" } else { "user ops()" }
        )));
    }
    let profiles = group.value("profile=").map(|text| text.split(',').map(str::to_owned).collect());
    Ok(Command {
        kind,
        until: read_until(&group)?,
        no_warmup: group.said("no-warmup").is_some(),
        truncate: match group.value("truncate=").unwrap_or_default().to_ascii_lowercase().as_str() {
            "once" => Truncate::Once,
            "always" => Truncate::Always,
            _ => Truncate::Never,
        },
        level: group.value("cl=").unwrap_or_default().to_ascii_uppercase(),
        serial_level: group.value("serial-cl=").unwrap_or_default().to_ascii_uppercase(),
        key_bytes: whole(&group, "keysize=", KEY_BYTES_MAX)?.unwrap_or(10).max(1) as usize,
        add: group.distribution("add=")?.unwrap_or_else(|| Distribution::fixed(1)),
        weights,
        clustering: group.distribution("clustering=")?.unwrap_or_else(|| Distribution::gaussian(1, 10)),
        profiles: profiles.unwrap_or_default(),
    })
}

fn read_until(group: &Group) -> Result<Until, Error> {
    if let Some(count) = whole(group, "n=", i64::MAX as u64)? {
        return Ok(Until::Count(count));
    }
    if let Some(text) = group.value("duration=") {
        let (digits, unit, factor) = match text.to_ascii_lowercase().chars().last() {
            Some('m') => (&text[..text.len() - 1], "MINUTES", 60),
            Some('h') => (&text[..text.len() - 1], "HOURS", 3600),
            Some('s') => (&text[..text.len() - 1], "SECONDS", 1),
            _ => (text, "SECONDS", 1),
        };
        let number: u64 =
            digits.parse().map_err(|_| Error::usage(format!("Invalid value {text} of duration=")))?;
        let seconds = number.checked_mul(factor).filter(|seconds| *seconds <= u64::from(u32::MAX));
        let seconds =
            seconds.ok_or_else(|| Error::usage(format!("Invalid value {text} of duration=: too long")))?;
        return Ok(Until::Time(Duration::from_secs(seconds), number, unit));
    }
    let error = group.value("err<").and_then(|text| text.parse().ok()).unwrap_or(0.02);
    let number = |prefix, default| Ok::<u64, Error>(group.number(prefix)?.unwrap_or(default));
    Ok(Until::Settled { error, least: number("n>", 30)?, most: number("n<", 200)? })
}

fn read_rate(words: Option<Vec<String>>, command: &Command) -> Result<Rate, Error> {
    let Some(words) = words else {
        let writes = matches!(command.kind, Kind::Write | Kind::CounterWrite);
        return Ok(match command.count() {
            Some(count) if writes && count > 0 => Rate::Threads { threads: WRITE_THREADS, limit: None },
            _ => Rate::Steps { least: 4, most: 1000, auto: true },
        });
    };
    let group = chosen("-rate", &words, tables::rate())?;
    let threads = |prefix| Ok::<u32, Error>(whole(&group, prefix, THREADS_MAX)?.unwrap_or(1).max(1) as u32);
    if !group.knows("threads=") {
        let (least, most) = (threads("threads>=")?, threads("threads<=")?);
        return Ok(Rate::Steps { least, most, auto: group.said("auto").is_some() });
    }
    let per_second = |prefix: &str| -> Result<u32, Error> {
        let text = group.value(prefix).unwrap_or("0/s");
        let digits = text.trim_end_matches("/s").trim_end_matches("/S");
        digits.parse().map_err(|_| Error::usage(format!("Invalid value {text} of {prefix}: too large")))
    };
    let (throttle, fixed) = (per_second("throttle=")?, per_second("fixed=")?);
    if throttle > 0 && fixed > 0 {
        return Err(Error::usage(
            "can't have both fixed and throttle set, choose one. (-rate fixed= throttle=)",
        ));
    }
    let rate = throttle.max(fixed);
    let limit = (rate > 0).then_some(Limit { rate, is_fixed: fixed > 0 });
    Ok(Rate::Threads { threads: threads("threads=")?, limit })
}

fn read_population(words: Option<Vec<String>>, command: &Command) -> Result<Population, Error> {
    let limit = command.count().filter(|count| *count > 0).unwrap_or(PARTITIONS).to_string();
    let mut groups = tables::population(&limit);
    let group = match words {
        Some(words) => chosen("-pop", &words, groups)?,
        None => {
            let in_sequence =
                command.has_insert_only() || matches!(command.kind, Kind::Write | Kind::CounterWrite);
            groups.swap_remove(if in_sequence { 0 } else { 1 })
        }
    };
    let order = match group.value("contents=").map(str::to_ascii_lowercase).as_deref() {
        Some("sorted") => Order::Sorted,
        Some("shuffled") => Order::Shuffled,
        _ => Order::Arbitrary,
    };
    let visited = match group.distribution("dist=")? {
        Some(distribution) => Visited::Drawn(distribution),
        None => {
            let text = group.value("seq=").unwrap_or_default();
            let invalid = || {
                Error::usage(format!("Invalid value {text} of -pop seq=: the range is empty or too large"))
            };
            let (first, last) = parse_range(text).ok_or_else(invalid)?;
            let look_back = group.distribution("read-lookback=")?;
            if let Some(look_back) = &look_back
                && i128::from(look_back.max()) > i128::from(last) + 1
            {
                return Err(Error::usage(format!(
                    "Invalid lookback distribution; max value is {}, but series only ranges from 0 to {} (-pop read-lookback=)",
                    look_back.max(),
                    i128::from(last) + 1
                )));
            }
            Visited::Sequence { first, last, wrap: group.said("no-wrap").is_none(), look_back }
        }
    };
    Ok(Population { visited, order })
}

fn read_insert(group: &Group) -> Result<Insert, Error> {
    let one = Distribution::fixed(1);
    let revisit = group.distribution("revisit=")?.unwrap_or_else(|| one.clone());
    let size = revisit.max().checked_sub(revisit.min()).map(|width| width + 1);
    if revisit.min() < 0 || size.is_none_or(|size| size > i64::from(i32::MAX)) {
        let text = group.value("revisit=").unwrap_or_default();
        return Err(Error::usage(format!("sample range is invalid (-insert revisit={text})")));
    }
    Ok(Insert {
        revisit,
        visits: group.distribution("visits=")?.unwrap_or_else(|| one.clone()),
        partitions: group.distribution("partitions=")?,
        batch: group.value("batchtype=").map(str::to_ascii_uppercase),
        select: group.ratio("select-ratio=")?,
        row_population: group
            .ratio("row-population-ratio=")?
            .unwrap_or(Ratio { distribution: one, divisor: 1.0 }),
    })
}

fn read_columns(group: &Group) -> Result<Columns, Error> {
    if group.value("super=").is_some_and(|text| !text.trim_start_matches('0').is_empty()) {
        return Err(Error::usage("-col super= is not supported: super columns exist no longer"));
    }
    let count = group.distribution("n=")?;
    let mut names: Vec<String> = match (&count, group.value("names=")) {
        (None, Some(names)) => names.split(',').map(str::to_owned).collect(),
        (Some(count), _) if (1..=COLUMNS_MAX).contains(&count.max()) => {
            (0..count.max()).map(|nth| format!("C{nth}")).collect()
        }
        _ => {
            return Err(Error::usage(format!(
                "Invalid number of columns of -col n=: from 1 to {COLUMNS_MAX}"
            )));
        }
    };
    names.sort();
    if names.iter().any(String::is_empty) || names.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(Error::usage("-col names= wants different names, none of them empty"));
    }
    let size = group.distribution("size=")?.unwrap_or_else(|| Distribution::fixed(34));
    if size.min() < 0 || size.max() > crate::generate::VALUE_BYTES_MAX as i64 {
        return Err(Error::usage(format!(
            "Invalid size of values of -col size=: at most {} bytes",
            crate::generate::VALUE_BYTES_MAX
        )));
    }
    let timestamp = group.value("timestamp=").map(|text| {
        text.parse().map_err(|_| Error::usage(format!("Invalid value {text} of timestamp=: too large")))
    });
    Ok(Columns {
        names,
        comparator: group.value("comparator=").unwrap_or_default().to_owned(),
        timestamp: timestamp.transpose()?,
        slice: group.said("slice").is_some(),
        size,
        count,
    })
}

fn milliseconds(group: &Group, prefix: &str, default: u64) -> Result<Duration, Error> {
    Ok(Duration::from_millis(whole(group, prefix, u64::from(u32::MAX))?.unwrap_or(default)))
}

fn read_errors(group: &Group) -> Result<Errors, Error> {
    let retries = whole(group, "retries=", u64::from(u32::MAX) - 1)?.unwrap_or(9);
    Ok(Errors {
        tries: retries as u32 + 1,
        ignore: group.said("ignore").is_some(),
        fail_fast: group.said("fail-fast").is_some(),
        skip_validation: group.said("skip-read-validation").is_some(),
        skip_unsupported: group.said("skip-unsupported-columns").is_some(),
        delay: match group.value("delay-policy=").unwrap_or_default().to_ascii_lowercase().as_str() {
            "linear" => Delay::Linear,
            "exponential" => Delay::Exponential,
            _ => Delay::Constant,
        },
        delay_min: milliseconds(group, "min-delay-ms=", 0)?,
        delay_max: milliseconds(group, "max-delay-ms=", 20_000)?,
    })
}

fn read_log(group: &Group) -> Result<Log, Error> {
    let text = group.value("interval=").unwrap_or("1s").to_ascii_lowercase();
    let (digits, factor) = match (text.strip_suffix("ms"), text.strip_suffix('s')) {
        (Some(digits), _) => (digits, 1),
        (None, Some(digits)) => (digits, 1000),
        (None, None) => (text.as_str(), 1000),
    };
    let interval = digits.parse::<u32>().ok().and_then(|number| number.checked_mul(factor));
    let interval =
        interval.ok_or_else(|| Error::usage(format!("Invalid value {text} of interval=: too long")))?;
    if interval == 0 {
        return Err(Error::usage(format!("Log interval must be greater than zero (-log interval={text})")));
    }
    Ok(Log {
        level: match group.value("level=").unwrap_or_default().to_ascii_lowercase().as_str() {
            "minimal" => Level::Minimal,
            "verbose" => Level::Verbose,
            _ => Level::Normal,
        },
        no_summary: group.said("no-summary").is_some(),
        no_settings: group.said("no-settings").is_some(),
        file: group.value("file=").map(str::to_owned),
        histograms: group.value("hdrfile=").map(str::to_owned),
        interval: Duration::from_millis(u64::from(interval)),
        statements: group.said("print-statements-on-error").is_some(),
    })
}

fn read_mode(group: &Group) -> Result<Mode, Error> {
    if group.knows("thrift") {
        return Err(Error::usage(
            "-mode thrift is not supported: servers speak it no longer. Use -mode native cql3.",
        ));
    }
    let plain = "PlainTextAuthProvider";
    if let Some(class) = group.value("auth-provider=").filter(|class| !class.ends_with(plain)) {
        return Err(Error::usage(format!(
            "Invalid auth provider class: {class}; only {plain} is known (-mode auth-provider=)"
        )));
    }
    let simple = group.knows("simplenative");
    let prepared = if simple { group.said("prepared").is_some() } else { group.said("unprepared").is_none() };
    let version = group.value("protocolVersion=").and_then(|text| text.parse().ok());
    if version == Some(2) {
        return Err(Error::usage("-mode protocolVersion=2 is not supported: from 3 to 5"));
    }
    let number = |prefix, default| {
        Ok::<usize, Error>(whole(group, prefix, 1 << 15)?.unwrap_or(default).max(1) as usize)
    };
    Ok(Mode {
        api: if simple { "SIMPLE_NATIVE" } else { "JAVA_DRIVER_NATIVE" },
        prepared,
        version,
        user: group.value("user=").map(str::to_owned),
        password: group.value("password=").map(str::to_owned),
        auth_provider: group.value("auth-provider=").map(str::to_owned),
        pending_max: if simple {
            Some(1)
        } else {
            group.said("maxPending=").map(|_| number("maxPending=", 128)).transpose()?
        },
        connections: if simple { 1 } else { number("connectionsPerHost=", 8)? },
        connections_said: group.said("connectionsPerHost=").is_some(),
        compression: match group.value("compression=").unwrap_or_default().to_ascii_lowercase().as_str() {
            "lz4" => Compression::Lz4,
            "snappy" => Compression::Snappy,
            _ => Compression::None,
        },
        timeout: milliseconds(group, "requestTimeout=", 12_000)?,
    })
}

fn read_schema(words: Option<Vec<String>>, command: &Command) -> Result<Schema, Error> {
    if words.is_some() && command.kind == Kind::User {
        return Err(Error::usage(
            "-schema can only be provided with predefined operations insert, read, etc.; the 'user' command requires a schema yaml instead",
        ));
    }
    let group = chosen("-schema", &words.unwrap_or_default(), tables::schema())?;
    let empty = (Group::new(Vec::new()), Vec::new());
    let inner = |name| group.inner(name).map_or((&empty.0, &empty.1[..]), |found| found);
    let (replication, mut options) = {
        let (inner, extras) = inner("replication");
        (inner, extras.to_vec())
    };
    let strategy = replication.value("strategy=").unwrap_or_default();
    let strategy = if strategy.contains('.') { strategy.to_owned() } else { format!("{LOCATOR}{strategy}") };
    let factor_said = replication.said("factor=").is_some();
    let has_factor = options.iter().any(|(key, _)| key == "replication_factor");
    let wants_factor = factor_said || options.is_empty() || strategy.ends_with(".SimpleStrategy");
    if !has_factor && wants_factor {
        let factor = replication.value("factor=").unwrap_or("1");
        options.push(("replication_factor".into(), factor.into()));
    }
    let (compaction, compaction_options) = inner("compaction");
    let (storage, storage_options) = inner("storage");
    let mut all_storage: Vec<(String, String)> =
        storage.value("type=").map(|kind| ("type".to_owned(), kind.to_owned())).into_iter().collect();
    all_storage.extend_from_slice(storage_options);
    Ok(Schema {
        keyspace: group.value("keyspace=").unwrap_or_default().to_owned(),
        strategy,
        replication: options,
        compression: group.value("compression=").map(str::to_owned),
        compaction: compaction.value("strategy=").map(str::to_owned),
        compaction_options: compaction_options.to_vec(),
        storage: all_storage,
    })
}

fn read_transport(group: &Group) -> Result<Transport, Error> {
    const PRINTED: [&str; 9] = [
        "factory=",
        "truststore=",
        "truststore-password=",
        "keystore=",
        "keystore-password=",
        "ssl-protocol=",
        "ssl-alg=",
        "store-type=",
        "ssl-ciphers=",
    ];
    if group.value("hostname-verification=").is_some_and(|text| text.eq_ignore_ascii_case("true")) {
        return Err(Error::usage(
            "-transport hostname-verification=true is not supported: names in certificates are not looked at",
        ));
    }
    ours::refuse_plaintext(group)?;
    let said = |prefix: &str| {
        let shown = |text: &str| {
            if prefix.ends_with("-password=") { "*suppressed*".to_owned() } else { text.to_owned() }
        };
        group.value(prefix).map_or_else(|| "null".to_owned(), shown)
    };
    Ok(Transport {
        trust: group.value("truststore=").map(str::to_owned),
        key: group.value("keystore=").map(str::to_owned),
        printed: PRINTED.iter().map(|prefix| format!("{prefix}{}; ", said(prefix))).collect(),
    })
}

fn read_port(group: &Group) -> Result<Port, Error> {
    let port = |prefix| Ok::<u16, Error>(whole(group, prefix, 65_535)?.unwrap_or(0) as u16);
    Ok(Port { native: port("native=")?, thrift: port("thrift=")?, jmx: port("jmx=")? })
}

fn read_graph(words: Option<Vec<String>>, command: &Command) -> Result<Graph, Error> {
    let group = match words {
        Some(words) => chosen("-graph", &words, tables::graph())?,
        None => Group::new(Vec::new()),
    };
    let text = |prefix: &str| group.value(prefix).map(str::to_owned);
    Ok(Graph {
        file: text("file="),
        revision: text("revision=").unwrap_or_else(|| "unknown".into()),
        title: text("title="),
        operation: text("op=").unwrap_or_else(|| command.kind.name().into()),
    })
}

fn read_token_range(group: &Group) -> Result<TokenRange, Error> {
    let split = whole(group, "split-factor=", 1 << 20)?.unwrap_or(1).max(1) as u32;
    Ok(TokenRange { wrap: group.said("wrap").is_some(), split })
}

#[cfg(test)]
mod tests;
