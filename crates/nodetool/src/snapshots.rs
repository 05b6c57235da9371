//! snapshot, listsnapshots, clearsnapshot.

use crate::context::Context;
use crate::control::instant;
use crate::error::Error;
use crate::rest::{InSnapshot, Pair};
use crate::size;
use crate::table::Table;

/// `snapshot [-t tag] [-cf table | -kt ks.table,…] [-sf] [--ttl time] [ks…]`.
pub fn snapshot(context: &mut Context<'_>) -> Result<(), Error> {
    let given = context.given.clone();
    let ttl = given.value("--ttl").map(Ttl::parse).transpose()?;
    let tag = given.value("-t").map_or_else(now_millis, str::to_owned);
    if tag.contains('/') {
        return Err(Error::Failed("Snapshot name cannot contain /".into()));
    }
    let pairs: Vec<String> = given.value("-kt").map(list).unwrap_or_default();
    let keyspaces = &given.arguments;
    let table = given.value("-cf");
    if !pairs.is_empty() && (table.is_some() || !keyspaces.is_empty()) {
        return Err(Error::Failed(
            "When specifying the Keyspace table list (using -kt,--kt-list,-kc,--kc.list), you must not also \
             specify keyspaces to snapshot"
                .into(),
        ));
    }
    let named = match (pairs.is_empty(), keyspaces.is_empty()) {
        (false, _) => pairs.join(","),
        (true, true) => "all keyspaces".into(),
        (true, false) => keyspaces.join(", "),
    };
    let mut options = vec![format!("skipFlush={}", given.has("-sf"))];
    options.extend(given.value("--ttl").map(|ttl| format!("ttl={ttl}")));
    let name = if tag.is_empty() { String::new() } else { format!(" with snapshot name [{tag}]") };
    context.line(format!(
        "Requested creating snapshot(s) for [{named}]{name} and options {{{}}}",
        options.join(", ")
    ));
    if tag.is_empty() {
        return Err(Error::Failed("You must supply a snapshot name.".into()));
    }
    if table.is_some() && keyspaces.len() != 1 {
        return Err(Error::Failed(
            "When specifying the table for a snapshot, you must specify one and only one keyspace".into(),
        ));
    }
    verify(context, keyspaces, table, &pairs)?;
    ttl.map_or(Ok(()), |ttl| ttl.check())?;
    for (keyspaces, tables) in requests(keyspaces, table, &pairs) {
        let mut parameters = vec![("tag", tag.as_str()), ("kn", &keyspaces), ("cf", &tables)];
        parameters.retain(|(_, value)| !value.is_empty());
        if given.has("-sf") {
            parameters.push(("sf", "true"));
        }
        parameters.extend(given.value("--ttl").map(|ttl| ("ttl", ttl)));
        context.node.post("/storage_service/snapshots", &parameters)?;
    }
    context.line(format!("Snapshot directory: {tag}"));
    Ok(())
}

/// One request for each keyspace when tables are named, else one for all.
fn requests(keyspaces: &[String], table: Option<&str>, pairs: &[String]) -> Vec<(String, String)> {
    let mut requests: Vec<(String, String)> = Vec::new();
    for pair in pairs {
        // Of several pairs each has a table.
        let (keyspace, table) = pair.split_once('.').unwrap_or((pair, ""));
        match requests.iter_mut().find(|(known, _)| known == keyspace) {
            Some((_, tables)) => tables.push_str(&format!(",{table}")),
            None => requests.push((keyspace.to_owned(), table.to_owned())),
        }
    }
    if requests.is_empty() {
        requests.push((keyspaces.join(","), table.unwrap_or_default().to_owned()));
    }
    requests
}

/// Everything named must exist.
fn verify(
    context: &Context<'_>,
    keyspaces: &[String],
    table: Option<&str>,
    pairs: &[String],
) -> Result<(), Error> {
    let known = context.node.keyspaces()?;
    if let Some(keyspace) = keyspaces.iter().find(|keyspace| !known.contains(keyspace)) {
        return Err(Error::usage(format!("Keyspace {keyspace} does not exist")));
    }
    let mut wanted: Vec<(&str, &str)> = Vec::new();
    wanted.extend(table.map(|table| (keyspaces[0].as_str(), table)));
    for pair in pairs {
        let keyspace = match pair.split_once('.') {
            Some((keyspace, table)) if !keyspace.is_empty() && !table.is_empty() && !table.contains('.') => {
                wanted.push((keyspace, table));
                keyspace
            }
            // One name alone is a keyspace.
            None if pairs.len() == 1 => pair,
            _ => {
                return Err(Error::usage(
                    "Cannot take a snapshot on secondary index or invalid column family name. You must supply a \
                     column family name in the form of keyspace.columnfamily",
                ));
            }
        };
        if !known.iter().any(|known| known == keyspace) {
            return Err(Error::usage(format!("Keyspace {keyspace} does not exist")));
        }
    }
    if wanted.is_empty() {
        return Ok(());
    }
    let tables = context.node.table_names()?;
    let exists = |(keyspace, table): &&(&str, &str)| {
        tables.iter().any(|name| name.ks == *keyspace && name.cf == *table)
    };
    match wanted.iter().find(|pair| !exists(pair)) {
        Some((keyspace, table)) => {
            Err(Error::usage(format!("Unknown keyspace/cf pair ({keyspace}.{table})")))
        }
        None => Ok(()),
    }
}

/// How long a snapshot is to live.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Ttl {
    text: String,
    /// Seconds; `None` in units that are shorter.
    seconds: Option<u64>,
}

impl Ttl {
    /// A whole number and a unit.
    fn parse(text: &str) -> Result<Ttl, Error> {
        let bad = || {
            Error::usage(format!(
                "Invalid duration: {text} Accepted units:[NANOSECONDS, MICROSECONDS, MILLISECONDS, SECONDS, MINUTES, \
                 HOURS, DAYS] where case matters and only non-negative values."
            ))
        };
        let (number, unit) =
            text.split_at(text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len());
        let number: u64 = number.parse().map_err(|_| bad())?;
        let seconds = match unit {
            "d" => Some(86_400),
            "h" => Some(3_600),
            "m" => Some(60),
            "s" => Some(1),
            "ms" | "us" | "µs" | "ns" => None,
            _ => return Err(bad()),
        };
        Ok(Ttl { text: text.to_owned(), seconds: seconds.map(|unit| number.saturating_mul(unit)) })
    }

    /// What a node says of those that it does not take.
    fn check(&self) -> Result<(), Error> {
        match self.seconds {
            None => Err(Error::usage(format!(
                "Invalid duration: {} Accepted units:[SECONDS, MINUTES, HOURS, DAYS]",
                self.text
            ))),
            Some(0..60) => Err(Error::usage("ttl for snapshot must be at least 60 seconds")),
            Some(_) => Ok(()),
        }
    }
}

fn list(text: &str) -> Vec<String> {
    text.split(',').map(|part| part.trim().to_owned()).filter(|part| !part.is_empty()).collect()
}

fn now_millis() -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map(|since| since.as_millis().to_string()).unwrap_or_else(|_| "0".into())
}

/// `listsnapshots [-nt] [-e]`.
pub fn listsnapshots(context: &mut Context<'_>) -> Result<(), Error> {
    let snapshots: Vec<Pair<Vec<InSnapshot>>> = context.node.get("/storage_service/snapshots", &[])?;
    let size: f64 = context.node.get("/storage_service/snapshots/size/true", &[])?;
    let (no_ttl, ephemeral) = (context.given.has("-nt"), context.given.has("-e"));
    print(snapshots, size, no_ttl, ephemeral, context.out);
    Ok(())
}

fn print(
    mut snapshots: Vec<Pair<Vec<InSnapshot>>>,
    true_size: f64,
    no_ttl: bool,
    ephemeral: bool,
    out: &mut String,
) {
    out.push_str("Snapshot Details: \n");
    if snapshots.is_empty() {
        return out.push_str("There are no snapshots\n");
    }
    snapshots.sort_by(|left, right| left.key.cmp(&right.key));
    let mut table = Table::new();
    let mut head = vec![
        "Snapshot name",
        "Keyspace name",
        "Column family name",
        "True size",
        "Size on disk",
        "Creation time",
        "Expiration time",
    ];
    head.extend(ephemeral.then_some("Ephemeral"));
    table.add(head);
    for Pair { key, value: mut tables } in snapshots {
        tables.sort_by(|left, right| (&left.ks, &left.cf).cmp(&(&right.ks, &right.cf)));
        for entry in tables.into_iter().filter(|entry| !(no_ttl && entry.expires_at.is_some())) {
            let mut row = vec![
                key.clone(),
                entry.ks,
                entry.cf,
                size::file_size(entry.live as f64),
                size::file_size(entry.total as f64),
                entry.created_at.map(instant).unwrap_or_default(),
                entry.expires_at.map(instant).unwrap_or_default(),
            ];
            row.extend(ephemeral.then(|| "false".to_owned()));
            table.add(row);
        }
    }
    table.print(out);
    out.push_str(&format!("\nTotal TrueDiskSpaceUsed: {}\n\n", size::file_size(true_size)));
}

/// `clearsnapshot -t tag | --all [ks…]`.
pub fn clearsnapshot(context: &mut Context<'_>) -> Result<(), Error> {
    let given = context.given.clone();
    let tag = given.value("-t").filter(|tag| !tag.is_empty());
    let tag = match (tag, given.has("--all")) {
        (None, false) => return Err(Error::usage("Specify snapshot name or --all")),
        (Some(_), true) => return Err(Error::usage("Specify only one of snapshot name or --all")),
        (tag, _) => tag,
    };
    let ages: Vec<&str> =
        ["--older-than", "--older-than-timestamp"].into_iter().filter(|name| given.has(name)).collect();
    match (ages.as_slice(), tag) {
        ([], _) => {}
        ([_, _, ..], _) => {
            return Err(Error::usage("Specify only one of --older-than or --older-than-timestamp"));
        }
        ([name], Some(_)) => {
            let why = format!("Specifying snapshot name together with {name} flag is not allowed");
            return Err(Error::Usage(why));
        }
        ([_], None) => {
            return Err(Error::Failed("snapshots are not cleared by their age: name them, or all".into()));
        }
    }
    let keyspaces = given.arguments.join(",");
    let mut parameters = vec![("tag", tag.unwrap_or_default()), ("kn", &keyspaces)];
    parameters.retain(|(_, value)| !value.is_empty());
    let named = if keyspaces.is_empty() { "all keyspaces".into() } else { given.arguments.join(", ") };
    let what = tag.map_or("[all snapshots]".into(), |tag| format!("snapshot name [{tag}]"));
    context.line(format!("Requested clearing snapshot(s) for [{named}] with {what}"));
    context.node.delete("/storage_service/snapshots", &parameters)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::golden;

    #[test]
    fn the_list_is_cassandras_screen() {
        let entry = |cf: &str, live, total, expires_at| InSnapshot {
            ks: "shop".into(),
            cf: cf.into(),
            live,
            total,
            created_at: Some(1_795_266_423_854),
            expires_at,
        };
        let ttl = Some(1_795_270_023_854);
        let snapshots = vec![
            Pair { key: "second".into(), value: vec![entry("visits", 1157, 11_817, None)] },
            Pair {
                key: "fourth".into(),
                value: vec![entry("visits", 1177, 11_837, ttl), entry("carts", 1105, 11_591, ttl)],
            },
        ];
        let mut out = String::new();
        print(snapshots.clone(), 0.0, false, false, &mut out);
        assert_eq!(out, golden(include_str!("../testdata/listsnapshots.txt")));
        out.clear();
        print(snapshots, 0.0, true, true, &mut out);
        assert!(out.contains("Expiration time Ephemeral\n") && out.contains(" false    \n"), "{out}");
        assert!(!out.contains("fourth"), "{out}");
        out.clear();
        print(Vec::new(), 0.0, false, false, &mut out);
        assert_eq!(out, "Snapshot Details: \nThere are no snapshots\n");
    }

    #[test]
    fn tables_of_several_keyspaces_are_asked_for_one_by_one() {
        let pairs = list("a.x, b.y ,a.z,");
        let expected = [("a".to_owned(), "x,z".to_owned()), ("b".to_owned(), "y".to_owned())];
        assert_eq!(requests(&[], None, &pairs), expected);
        assert_eq!(requests(&["a".into(), "b".into()], None, &[]), [("a,b".to_owned(), String::new())]);
    }
}
