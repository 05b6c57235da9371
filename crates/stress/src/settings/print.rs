//! The settings as the Java tool prints them before a run, label by label: people and scripts compare them.

use super::{Level, Order, Rate, Settings, Until, Visited};
use crate::distribution::Distribution;
use crate::grammar::Ratio;
use crate::settings::tables::Kind;
use loadtools::java::{fixed, grouped};
use std::fmt::Write as _;

/// What the Java tool lets wait on one connection, and prints.
const PENDING_MAX: usize = 128;

/// The block of settings, with its empty line at the end.
pub fn block(settings: &Settings) -> String {
    let stars = "*".repeat(20);
    let mut text = format!("{stars} Stress Settings {stars}\n");
    let mut group = |name: &str, lines: Vec<(&str, String)>| {
        writeln!(text, "{name}:").ok();
        for (label, value) in lines {
            writeln!(text, "  {label}: {value}").ok();
        }
    };
    group("Command", command(settings));
    group("Rate", rate(settings));
    group("Population", population(settings));
    group("Insert", insert(settings));
    if settings.command.kind != Kind::User {
        group("Columns", columns(settings));
    }
    let errors = &settings.errors;
    group("Errors", vec![("Ignore", errors.ignore.to_string()), ("Tries", errors.tries.to_string())]);
    group("Log", log(settings));
    group("Mode", mode(settings));
    let node = &settings.node;
    group(
        "Node",
        vec![
            ("Nodes", list(&node.nodes)),
            ("Is White List", node.only_these.to_string()),
            ("Datacenter", or_null(node.datacenter.as_deref())),
        ],
    );
    group("Schema", schema(settings));
    writeln!(text, "Transport:\n  {}", settings.transport.printed).ok();
    let (port, graph) = (&settings.port, &settings.graph);
    writeln!(
        text,
        "Port:\n  Native Port: {}\n  Thrift Port: {}\n  JMX Port: {}\nSend To Daemon:\n  *not set*",
        port.native, port.thrift, port.jmx
    )
    .ok();
    writeln!(
        text,
        "Graph:\n  File: {}\n  Revision: {}\n  Title: {}\n  Operation: {}\nTokenRange:\n  Wrap: {}\n  Split Factor: {}\n",
        or_null(graph.file.as_deref()),
        graph.revision,
        or_null(graph.title.as_deref()),
        graph.operation,
        settings.token_range.wrap,
        settings.token_range.split
    )
    .ok();
    text
}

fn or_null(text: Option<&str>) -> String {
    text.unwrap_or("null").to_owned()
}

fn list(items: &[String]) -> String {
    format!("[{}]", items.join(", "))
}

fn pairs(pairs: &[(String, String)]) -> String {
    let items: Vec<String> = pairs.iter().map(|(key, value)| format!("{key}={value}")).collect();
    format!("{{{}}}", items.join(", "))
}

fn ratio(ratio: &Ratio) -> String {
    format!("Ratio: divisor={};delegate={}", fixed(ratio.divisor, 6, false), ratio.distribution.described())
}

fn command(settings: &Settings) -> Vec<(&'static str, String)> {
    let command = &settings.command;
    let mut lines = vec![
        ("Type", command.kind.name().to_ascii_lowercase()),
        ("Count", command.count().map_or_else(|| "-1".to_owned(), grouped)),
    ];
    if let Until::Time(_, number, unit) = command.until {
        lines.push(("Duration", format!("{} {unit}", grouped(number))));
    }
    lines.push(("No Warmup", command.no_warmup.to_string()));
    lines.push(("Consistency Level", command.level.clone()));
    match command.until {
        Until::Settled { error, least, most } => lines.extend([
            ("Target Uncertainty", fixed(error, 3, false)),
            ("Minimum Uncertainty Measurements", grouped(least)),
            ("Maximum Uncertainty Measurements", grouped(most)),
        ]),
        Until::Count(_) | Until::Time(..) => lines.push(("Target Uncertainty", "not applicable".into())),
    }
    if command.kind != Kind::User {
        lines.push(("Key Size (bytes)", command.key_bytes.to_string()));
        // The label is the Java tool's, spelling included.
        lines.push(("Counter Increment Distibution", format!("add={}", command.add)));
    }
    if matches!(command.kind, Kind::Mixed | Kind::User) {
        let name = |name: &str| {
            if command.kind == Kind::Mixed { name.to_ascii_uppercase() } else { name.to_owned() }
        };
        let weights: Vec<(String, String)> =
            command.weights.iter().map(|(key, weight)| (name(key), format!("{weight:?}"))).collect();
        lines.push(("Command Ratios", pairs(&weights)));
        lines.push(("Command Clustering Distribution", format!("clustering={}", command.clustering)));
    }
    if command.kind == Kind::User {
        lines.push(("Profile File(s)", command.profiles.join(",")));
    }
    lines
}

fn rate(settings: &Settings) -> Vec<(&'static str, String)> {
    match settings.rate {
        Rate::Steps { least, most, auto: true } => vec![
            ("Auto", "true".into()),
            ("Min Threads", least.to_string()),
            ("Max Threads", most.to_string()),
        ],
        Rate::Steps { .. } => {
            vec![("Auto", "false".into()), ("Thread Count", "-1".into()), ("OpsPer Sec", "0".into())]
        }
        Rate::Threads { threads, limit } => vec![
            ("Auto", "false".into()),
            ("Thread Count", threads.to_string()),
            ("OpsPer Sec", limit.map_or(0, |limit| limit.rate).to_string()),
        ],
    }
}

fn population(settings: &Settings) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    let wraps = match &settings.population.visited {
        Visited::Drawn(distribution) => {
            lines.push(("Distribution", distribution.described()));
            false
        }
        Visited::Sequence { first, last, wrap, look_back } => {
            lines.push(("Sequence", format!("{first}..{last}")));
            lines.extend(look_back.as_ref().map(|look_back| ("Read Look Back", look_back.described())));
            *wrap
        }
    };
    let order = match settings.population.order {
        Order::Arbitrary => "ARBITRARY",
        Order::Shuffled => "SHUFFLED",
        Order::Sorted => "SORTED",
    };
    lines.extend([("Order", order.to_owned()), ("Wrap", wraps.to_string())]);
    lines
}

fn insert(settings: &Settings) -> Vec<(&'static str, String)> {
    let insert = &settings.insert;
    let mut lines = vec![("Revisits", insert.revisit.described()), ("Visits", insert.visits.described())];
    lines.extend(insert.partitions.as_ref().map(|partitions| ("Batchsize", partitions.described())));
    lines.extend(insert.select.as_ref().map(|select| ("Select Ratio", ratio(select))));
    lines.push(("Row Population Ratio", ratio(&insert.row_population)));
    lines.push(("Batch Type", insert.batch.clone().unwrap_or_else(|| "not batching".into())));
    lines
}

fn columns(settings: &Settings) -> Vec<(&'static str, String)> {
    let columns = &settings.columns;
    let described = |count: &Distribution| count.described();
    let varies = columns.count.as_ref().is_some_and(|count| count.min() < count.max());
    vec![
        ("Max Columns Per Key", columns.names.len().to_string()),
        ("Column Names", list(&columns.names)),
        ("Comparator", columns.comparator.clone()),
        ("Timestamp", columns.timestamp.map_or_else(|| "null".to_owned(), |timestamp| timestamp.to_string())),
        ("Variable Column Count", varies.to_string()),
        ("Slice", columns.slice.to_string()),
        ("Size Distribution", columns.size.described()),
        (
            "Count Distribution",
            columns
                .count
                .as_ref()
                .map_or_else(|| format!("Count:  fixed={}", columns.names.len()), described),
        ),
    ]
}

fn log(settings: &Settings) -> Vec<(&'static str, String)> {
    let log = &settings.log;
    let level = match log.level {
        Level::Minimal => "MINIMAL",
        Level::Normal => "NORMAL",
        Level::Verbose => "VERBOSE",
    };
    vec![
        ("No Summary", log.no_summary.to_string()),
        ("No Settings", log.no_settings.to_string()),
        ("File", or_null(log.file.as_deref())),
        ("Interval Millis", log.interval.as_millis().to_string()),
        ("Level", level.into()),
    ]
}

fn mode(settings: &Settings) -> Vec<(&'static str, String)> {
    let mode = &settings.mode;
    let compression = match mode.compression {
        super::Compression::None => "NONE",
        super::Compression::Lz4 => "LZ4",
        super::Compression::Snappy => "SNAPPY",
    };
    let hidden = mode.password.as_ref().map(|_| "*suppressed*");
    vec![
        ("API", mode.api.into()),
        ("Connection Style", if mode.prepared { "CQL_PREPARED" } else { "CQL" }.into()),
        ("CQL Version", "CQL3".into()),
        (
            "Protocol Version",
            mode.version.map_or_else(|| "NEWEST_SUPPORTED".into(), |version| format!("V{version}")),
        ),
        ("Username", or_null(mode.user.as_deref())),
        ("Password", or_null(hidden)),
        ("Auth Provide Class", or_null(mode.auth_provider.as_deref())),
        ("Max Pending Per Connection", mode.pending_max.unwrap_or(PENDING_MAX).to_string()),
        ("Connections Per Host", mode.connections.to_string()),
        ("Compression", compression.into()),
    ]
}

fn schema(settings: &Settings) -> Vec<(&'static str, String)> {
    let schema = &settings.schema;
    let keyspace = if settings.command.kind == Kind::User { "null" } else { &schema.keyspace };
    vec![
        ("Keyspace", keyspace.to_owned()),
        ("Replication Strategy", schema.strategy.clone()),
        // As the Java tool of these settings spells it.
        ("Replication Strategy Pptions", pairs(&schema.replication)),
        ("Table Compression", or_null(schema.compression.as_deref())),
        ("Table Compaction Strategy", or_null(schema.compaction.as_deref())),
        ("Table Compaction Strategy Options", pairs(&schema.compaction_options)),
    ]
}
