//! compact, compactionstats, compactionhistory and automatic compaction.

use crate::context::{Context, Unknown};
use crate::error::Error;
use crate::http::escape;
use crate::java;
use crate::options::Given;
use crate::rest::{Compactions, Finished, Pending, Running};
use crate::size;
use crate::table::Table;
use crate::tree::Tree;

/// `compact [-s] [-st token] [-et token] [ks [tables]]`, and `compact --user-defined files`.
pub fn compact(context: &mut Context<'_>) -> Result<(), Error> {
    let split = context.given.has("-s");
    let user_defined = context.given.has("--user-defined");
    let tokens = [("start_token", "-st"), ("end_token", "-et")];
    let tokens: Vec<(&str, String)> = tokens
        .into_iter()
        .filter_map(|(name, option)| Some((name, context.given.value(option)?.to_owned())))
        .collect();
    if split && (user_defined || !tokens.is_empty()) {
        return Err(Error::Failed("Invalid option combination: Can not use split-output here".into()));
    }
    if user_defined {
        if !tokens.is_empty() {
            let why = "Invalid option combination: Can not provide tokens when using user-defined";
            return Err(Error::Failed(why.into()));
        }
        let files = context.arguments().join(",");
        if let Some(file) = files.split(',').find(|file| !is_sstable(file)) {
            let name = file.rsplit('/').next().unwrap_or_default();
            return Err(Error::Failed(format!(
                "Invalid sstable file {name}: the name doesn't look like a supported sstable file name"
            )));
        }
        return context.node.post("/messina/compact_files", &[("files", &files)]);
    }
    let mut parameters: Vec<(&str, &str)> =
        tokens.iter().map(|(name, token)| (*name, token.as_str())).collect();
    if let Some(bad) = bad_token(&context.given) {
        return Err(Error::Failed(format!(
            "Invalid token for Murmur3Partitioner. Got {bad} but expected a long value (unsigned 8 bytes integer)."
        )));
    }
    if split {
        parameters.push(("split_output", "true"));
    }
    match context.keyspace_if()?.map(str::to_owned) {
        None => context.node.post("/storage_service/compact", &parameters),
        Some(keyspace) => {
            let path = format!("/storage_service/keyspace_compaction/{}", escape(&keyspace));
            on_tables(context, &keyspace, &path, &parameters, Unknown::Fails)
        }
    }
}

/// Whether a file is named as the data of sstables are: `da-3gx1-bti-Data.db`.
fn is_sstable(path: &str) -> bool {
    let name = path.trim().rsplit('/').next().unwrap_or_default();
    match name.split('-').collect::<Vec<_>>()[..] {
        [version, id, format, component] => {
            version.len() == 2
                && !id.is_empty()
                && ["big", "bti"].contains(&format)
                && component.contains('.')
        }
        _ => false,
    }
}

/// The first of two tokens that is none, when one of them is given: there is no range with one end.
fn bad_token(given: &Given) -> Option<&str> {
    if !given.has("-st") && !given.has("-et") {
        return None;
    }
    let tokens = ["-st", "-et"].map(|option| given.value(option).unwrap_or_default());
    tokens.into_iter().find(|token| token.parse::<i64>().is_err())
}

/// Asks for something to be done to the tables that are named behind the keyspace, or all of it.
fn on_tables(
    context: &Context<'_>,
    keyspace: &str,
    path: &str,
    parameters: &[(&str, &str)],
    unknown: Unknown,
) -> Result<(), Error> {
    let Some(tables) = context.tables_of(keyspace, unknown)? else { return Ok(()) };
    let mut parameters = parameters.to_vec();
    if !tables.is_empty() {
        parameters.push(("cf", &tables));
    }
    context.node.post(path, &parameters)
}

/// Asks for something to be done to the keyspace that is named, or to each there is.
fn each_keyspace(
    context: &mut Context<'_>,
    path: impl Fn(&str) -> String,
    parameters: &[(&str, &str)],
    unknown: Unknown,
) -> Result<(), Error> {
    for keyspace in named_or_all(context)? {
        check_jobs(context)?;
        on_tables(context, &keyspace, &path(&escape(&keyspace)), parameters, unknown)?;
    }
    Ok(())
}

fn named_or_all(context: &Context<'_>) -> Result<Vec<String>, Error> {
    match context.keyspace_if()? {
        Some(keyspace) => Ok(vec![keyspace.to_owned()]),
        None => context.node.keyspaces(),
    }
}

/// Says that there are not as many threads as were asked for.
fn check_jobs(context: &mut Context<'_>) -> Result<(), Error> {
    let Some(jobs) = context.given.int("-j") else { return Ok(()) };
    let done: Compactions = context.node.get_if("/messina/compaction")?;
    let most = done.concurrent_compactors;
    if most > 0 && i64::from(jobs) > most as i64 {
        context.line(format!(
            "jobs ({jobs}) is bigger than configured concurrent_compactors ({most}) on the host, using at most {most} threads"
        ));
    }
    Ok(())
}

/// Keyspaces of which every node has its own: nothing in them belongs to another.
const LOCAL: [&str; 2] = ["system", "system_schema"];

/// `cleanup [ks [tables]]`: without what this node does not own.
pub fn cleanup(context: &mut Context<'_>) -> Result<(), Error> {
    for keyspace in named_or_all(context)? {
        if LOCAL.contains(&keyspace.as_str()) {
            continue;
        }
        check_jobs(context)?;
        let path = format!("/storage_service/keyspace_cleanup/{}", escape(&keyspace));
        on_tables(context, &keyspace, &path, &[], Unknown::Fails)?;
    }
    Ok(())
}

/// `scrub [-ns] [ks [tables]]`: without what cannot be read.
pub fn scrub(context: &mut Context<'_>) -> Result<(), Error> {
    let snapshot = if context.given.has("-ns") { "true" } else { "false" };
    let path = |keyspace: &str| format!("/storage_service/keyspace_scrub/{keyspace}");
    each_keyspace(context, path, &[("disable_snapshot", snapshot)], Unknown::Misuse)
}

/// `garbagecollect [-g ROW|CELL] [ks [tables]]`: without what newer sstables delete.
pub fn garbagecollect(context: &mut Context<'_>) -> Result<(), Error> {
    let granularity = context.given.value("-g").unwrap_or("ROW").to_owned();
    if granularity == "NONE" {
        // Nothing is let go of.
        return context.keyspace_if().map(drop);
    }
    if granularity != "ROW" && granularity != "CELL" {
        let class = "org.apache.cassandra.schema.CompactionParams.TombstoneOption";
        return Err(Error::Failed(format!("No enum constant {class}.{granularity}")));
    }
    let path = |keyspace: &str| format!("/messina/garbage_collect/{keyspace}");
    each_keyspace(context, path, &[("granularity", &granularity)], Unknown::Fails)
}

/// `upgradesstables [-a] [ks [tables]]`: written anew in the present format.
pub fn upgradesstables(context: &mut Context<'_>) -> Result<(), Error> {
    let current = if context.given.has("-a") { "false" } else { "true" };
    let path = |keyspace: &str| format!("/storage_service/keyspace_upgrade_sstables/{keyspace}");
    each_keyspace(context, path, &[("exclude_current_version", current)], Unknown::Nothing)
}

/// What Cassandra calls kinds of compaction; a node may run others than these and not run all of them.
pub const KINDS: &[&str] = &[
    "P0",
    "CLEANUP",
    "SCRUB",
    "UPGRADE_SSTABLES",
    "VERIFY",
    "MAJOR_COMPACTION",
    "RELOCATE",
    "GARBAGE_COLLECT",
    "FLUSH",
    "WRITE",
    "ANTICOMPACTION",
    "VALIDATION",
    "INDEX_BUILD",
    "VIEW_BUILD",
    "COMPACTION",
    "TOMBSTONE_COMPACTION",
    "UNKNOWN",
    "STREAM",
    "KEY_CACHE_SAVE",
    "ROW_CACHE_SAVE",
    "COUNTER_CACHE_SAVE",
    "INDEX_SUMMARY",
];

/// `stop [-id id] [type]`: compactions that run end. Whatever does not run ends already.
pub fn stop(context: &mut Context<'_>) -> Result<(), Error> {
    let id = context.given.value("-id").map(str::to_owned);
    let kind = context.arguments().last().cloned();
    let parameters = match (&id, &kind) {
        (Some(id), _) => vec![("id", id.as_str())],
        (None, Some(kind)) => vec![("type", kind.as_str())],
        (None, None) => vec![],
    };
    match context.node.post("/compaction_manager/stop_compaction", &parameters) {
        Err(Error::Answer { status: 400, .. }) => Ok(()),
        result => result,
    }
}

/// `setcompactionthroughput MiB`; 0 is no limit.
pub fn setcompactionthroughput(context: &mut Context<'_>) -> Result<(), Error> {
    let rate: i32 = context.arguments().last().and_then(|text| text.parse().ok()).unwrap_or(-1);
    if rate < 0 {
        return Err(Error::usage("Invalid data rate: value must be non-negative"));
    }
    context.node.post("/storage_service/compaction_throughput", &[("value", &rate.to_string())])
}

/// `getcompactionthroughput [-d]`.
pub fn getcompactionthroughput(context: &mut Context<'_>) -> Result<(), Error> {
    let rate: f64 = context.node.get("/storage_service/compaction_throughput", &[])?;
    if context.given.has("-d") {
        context.line(format!("Current compaction throughput: {} MiB/s", java::double(rate)));
    } else if rate.fract() != 0.0 {
        let why = "Use the -d flag to quiet this error and get the exact throughput in MiB/s";
        return Err(Error::Failed(why.into()));
    } else {
        context.line(format!("Current compaction throughput: {rate} MB/s"));
    }
    Ok(())
}

/// `getconcurrentcompactors`.
pub fn getconcurrentcompactors(context: &mut Context<'_>) -> Result<(), Error> {
    let done: Compactions = context.node.get_if("/messina/compaction")?;
    context.line("Current concurrent compactors in the system is: ");
    context.line(done.concurrent_compactors);
    Ok(())
}

/// `enableautocompaction` and `disableautocompaction [ks [tables]]`.
pub fn automatic(context: &mut Context<'_>, on: bool) -> Result<(), Error> {
    for keyspace in named_or_all(context)? {
        let tables = context.tables_of(&keyspace, Unknown::Misuse)?.unwrap_or_default();
        let parameters = if tables.is_empty() { vec![] } else { vec![("cf", tables.as_str())] };
        let path = format!("/storage_service/auto_compaction/{}", escape(&keyspace));
        if on {
            context.node.post(&path, &parameters)?;
        } else {
            context.node.delete(&path, &parameters)?;
        }
    }
    Ok(())
}

/// `compactionstats [-H]`.
pub fn compactionstats(context: &mut Context<'_>) -> Result<(), Error> {
    let node = &context.node;
    let pending: Vec<Pending> = node.get("/compaction_manager/metrics/pending_tasks_by_table", &[])?;
    let running: Vec<Running> = node.get("/compaction_manager/compactions", &[])?;
    let done: Compactions = node.get_if("/messina/compaction")?;
    let throughput: f64 = node.get("/storage_service/compaction_throughput", &[])?;
    let human = context.given.has("-H");
    print_stats(&pending, &running, &done, throughput, human, context.out);
    Ok(())
}

fn print_stats(
    pending: &[Pending],
    running: &[Running],
    done: &Compactions,
    throughput: f64,
    human: bool,
    out: &mut String,
) {
    let mut table = Table::new();
    table.add(["concurrent compactors", &done.concurrent_compactors.to_string()]);
    let waiting: u64 = pending.iter().map(|pending| pending.task).sum();
    table.add(["pending tasks", &waiting.to_string()]);
    for pending in pending.iter().filter(|pending| pending.task > 0) {
        table.add([pending.ks.as_str(), &pending.cf, &pending.task.to_string()]);
    }
    table.add(["compactions completed", &done.completed.to_string()]);
    table.add(["data compacted", &size::chosen(done.bytes_compacted, human)]);
    table.add(["compactions aborted", &done.aborted.to_string()]);
    table.add(["compactions reduced", &done.reduced.to_string()]);
    table.add(["sstables dropped from compaction", &done.sstables_dropped.to_string()]);
    table.add(["15 minute rate", &format!("{:.2}/minute", done.rate_15m * 60.0)]);
    table.add(["mean rate", &format!("{:.2}/hour", done.mean_rate * 3600.0)]);
    let rate = if throughput == 0.0 { "throttling disabled (0)".into() } else { java::double(throughput) };
    table.add(["compaction throughput (MiB/s)", &rate]);
    if running.is_empty() {
        return table.print(out);
    }
    table.add(["id", "compaction type", "keyspace", "table", "completed", "total", "unit", "progress"]);
    for task in running {
        let bytes = |value| size::chosen(value, human && task.unit == "bytes");
        let share = 100.0 * task.completed as f64 / task.total as f64;
        table.add([
            task.id.clone().unwrap_or_else(|| "n/a".into()),
            task.task_type.clone(),
            task.ks.clone(),
            task.cf.clone(),
            bytes(task.completed),
            bytes(task.total),
            task.unit.clone(),
            if task.total == 0 { "n/a".into() } else { format!("{share:.2}%") },
        ]);
    }
    table.print(out);
    let left: u64 = running.iter().map(|task| task.total.saturating_sub(task.completed)).sum();
    let remaining = if throughput == 0.0 {
        "n/a".into()
    } else {
        let seconds = (left as f64 / (throughput * 1_048_576.0)) as u64;
        format!("{}h{:02}m{:02}s", seconds / 3600, seconds / 60 % 60, seconds % 60)
    };
    out.push_str(&format!("{:>25}{remaining:>10}\n", "Active compaction remaining time : "));
}

/// `compactionhistory [-F json|yaml] [-H]`, newest first. Times are UTC.
pub fn compactionhistory(context: &mut Context<'_>) -> Result<(), Error> {
    let format = context.given.value("-F").unwrap_or_default().to_owned();
    if !["", "json", "yaml"].contains(&format.as_str()) {
        return Err(Error::usage("arguments for -F are json,yaml only."));
    }
    let mut history: Vec<Finished> = context.node.get("/compaction_manager/compaction_history", &[])?;
    history.sort_by_key(|entry| std::cmp::Reverse(entry.compacted_at));
    print_history(&history, &format, context.given.has("-H"), context.out);
    Ok(())
}

fn print_history(history: &[Finished], format: &str, human: bool, out: &mut String) {
    if format.is_empty() && history.is_empty() {
        return out.push_str("There is no compaction history\n");
    }
    if format.is_empty() {
        out.push_str("Compaction History: \n");
        let mut table = Table::new();
        table.add([
            "id",
            "keyspace_name",
            "columnfamily_name",
            "compacted_at",
            "bytes_in",
            "bytes_out",
            "rows_merged",
            "compaction_properties",
        ]);
        for entry in history {
            table.add([
                entry.id.clone(),
                entry.ks.clone(),
                entry.cf.clone(),
                crate::control::local_time(entry.compacted_at),
                size::chosen(entry.bytes_in, human),
                size::chosen(entry.bytes_out, human),
                merged(entry),
                properties(entry),
            ]);
        }
        return table.print(out);
    }
    let entry = |entry: &Finished| {
        let bytes = |value| if human { Tree::text(size::chosen(value, true)) } else { Tree::count(value) };
        let entries = [
            ("keyspace_name", Tree::text(&entry.ks)),
            ("bytes_out", bytes(entry.bytes_out)),
            ("bytes_in", bytes(entry.bytes_in)),
            ("compaction_properties", Tree::text(properties(entry))),
            ("columnfamily_name", Tree::text(&entry.cf)),
            ("rows_merged", Tree::text(merged(entry))),
            ("id", Tree::text(&entry.id)),
            ("compacted_at", Tree::text(crate::control::local_time(entry.compacted_at))),
        ];
        Tree::Map(entries.map(|(name, value)| (name.to_owned(), value)).into())
    };
    let entries = Tree::List(history.iter().map(entry).collect());
    let tree = Tree::Map(vec![("CompactionHistory".into(), entries)]);
    out.push_str(&if format == "json" { tree.json() } else { tree.yaml() });
}

/// `{1:6, 3:1}`: six partitions from one sstable, one from three.
fn merged(entry: &Finished) -> String {
    let merged: Vec<String> =
        entry.rows_merged.iter().map(|merged| format!("{}:{}", merged.key, merged.value)).collect();
    format!("{{{}}}", merged.join(", "))
}

fn properties(entry: &Finished) -> String {
    entry
        .compaction_type
        .as_ref()
        .map(|kind| format!("{{compaction_type:{kind}}}"))
        .unwrap_or_else(|| "{}".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::golden;
    use crate::rest::Merged;

    fn done() -> Compactions {
        Compactions {
            concurrent_compactors: 2,
            completed: 9,
            bytes_compacted: 106_862,
            rate_15m: 10.72 / 60.0,
            mean_rate: 215.58 / 3600.0,
            ..Compactions::default()
        }
    }

    #[test]
    fn an_idle_node_is_cassandras_screen() {
        let mut out = String::new();
        print_stats(&[], &[], &done(), 64.0, false, &mut out);
        assert_eq!(out, golden(include_str!("../testdata/compactionstats.txt")));
    }

    #[test]
    fn running_compactions_share_the_columns() {
        let running = Running {
            id: Some("c1".into()),
            ks: "shop".into(),
            cf: "visits".into(),
            completed: 1 << 20,
            total: 65 << 20,
            task_type: "Compaction".into(),
            unit: "bytes".into(),
        };
        let mut out = String::new();
        print_stats(&[], &[running], &done(), 1.0, true, &mut out);
        assert!(out.contains("\nc1                               Compaction"), "{out}");
        assert!(out.contains(" 1 MiB     65 MiB bytes 1.54%   \n"), "{out}");
        assert!(out.ends_with("Active compaction remaining time :   0h01m04s\n"), "{out}");
    }

    #[test]
    fn history_is_cassandras_screen() {
        let entry = Finished {
            id: "6cfad6f0-e5ac-11f1-a596-c1a09588c68b".into(),
            ks: "shop".into(),
            cf: "visits".into(),
            compacted_at: 1_795_266_415_103,
            bytes_in: 5251,
            bytes_out: 5251,
            rows_merged: vec![Merged { key: 1, value: 20 }],
            compaction_type: Some("Major compaction".into()),
        };
        let mut out = String::new();
        print_history(&[entry], "", false, &mut out);
        let golden = "Compaction History: \n\
            id                                   keyspace_name columnfamily_name compacted_at            bytes_in bytes_out rows_merged compaction_properties             \n\
            6cfad6f0-e5ac-11f1-a596-c1a09588c68b shop          visits            2026-11-21T13:06:55.103 5251     5251      {1:20}      {compaction_type:Major compaction}\n";
        assert_eq!(out, golden);
        out.clear();
        print_history(&[], "", false, &mut out);
        assert_eq!(out, "There is no compaction history\n");
    }
}
