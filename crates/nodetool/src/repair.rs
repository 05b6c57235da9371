//! repair and repair_admin.

use crate::context::{Context, Unknown};
use crate::control::local_time;
use crate::error::Error;
use crate::http::escape;
use crate::limits::REPAIR_POLL;
use crate::rest::Node;
use crate::table::Table;
use serde::Deserialize;

/// What Cassandra's nodetool can ask for and this node does not do.
const REFUSED: [(&str, &str); 5] = [
    ("-prv", "--preview: a repair writes what it finds; there is no preview"),
    ("-vd", "--validate: a repair writes what it finds; there is no preview"),
    ("-pl", "--pull: all replicas are made equal; there is no pull repair"),
    ("-tr", "--trace: repairs are not traced"),
    (
        "--include-gcgs-expired-tombstones",
        "--include-gcgs-expired-tombstones: tombstones whose grace is over go only where they delete something",
    ),
];

/// A repair as the node has it.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Repair {
    id: u32,
    session: String,
    keyspace: String,
    state: String,
    ranges: u64,
    done: u64,
    mutations: u64,
    bytes: u64,
    error: Option<String>,
    lines: Vec<Line>,
    next: u64,
}

/// Something that a repair has said.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Line {
    /// Milliseconds since the epoch.
    at: i64,
    percent: Option<u8>,
    text: String,
}

impl Line {
    /// As Cassandra prints it.
    fn shown(&self) -> String {
        let progress = self.percent.map(|percent| format!(" (progress: {percent}%)")).unwrap_or_default();
        format!("[{}] {}{progress}", stamp(self.at), self.text)
    }
}

/// `2026-11-21 13:06:55,103`, in UTC.
fn stamp(at_ms: i64) -> String {
    local_time(at_ms).replacen('T', " ", 1).replacen('.', ",", 1)
}

/// `repair [ks [tables]]`.
pub fn repair(context: &mut Context<'_>) -> Result<(), Error> {
    if let Some((_, why)) = REFUSED.iter().find(|(option, _)| context.given.has(option)) {
        return Err(Error::Failed(format!("not supported: {why}")));
    }
    let is_partial = !context.given.values("-dc").is_empty() || !context.given.values("-hosts").is_empty();
    if context.given.has("-pr") && is_partial {
        return Err(Error::Failed(
            "Primary range repair should be performed on all nodes in the cluster.".into(),
        ));
    }
    let (keyspaces, tables) = match context.keyspace_if()?.map(str::to_owned) {
        Some(keyspace) => {
            let tables = context.tables_of(&keyspace, Unknown::Fails)?.unwrap_or_default();
            (vec![keyspace], tables)
        }
        None => {
            let all: Vec<String> =
                context.node.get("/storage_service/keyspaces", &[("type", "non_local_strategy")])?;
            // As Cassandra: only when it is named.
            let all = all.into_iter().filter(|keyspace| keyspace != "system_distributed").collect();
            (all, String::new())
        }
    };
    let parameters = parameters(context, &tables)?;
    let parameters: Vec<(&str, &str)> =
        parameters.iter().map(|(name, value)| (*name, value.as_str())).collect();
    for keyspace in keyspaces {
        let path = format!("/storage_service/repair_async/{}", escape(&keyspace));
        let id: u32 = context.node.post_for(&path, &parameters)?;
        if id == 0 {
            let text = format!("Replication factor is 1. No repair is needed for keyspace '{keyspace}'");
            context.line(format!("[{}] {text}", stamp(now_ms())));
            context.show();
            continue;
        }
        follow(context, id)?;
    }
    Ok(())
}

/// Prints what a repair says until it has ended. Errors: it has failed.
fn follow(context: &mut Context<'_>, id: u32) -> Result<(), Error> {
    let mut from = 0;
    loop {
        let repair = look(&context.node, id, from)?;
        for line in &repair.lines {
            context.line(line.shown());
        }
        context.show();
        from = repair.next;
        match (repair.state.as_str(), repair.error) {
            ("RUNNING", _) => std::thread::sleep(REPAIR_POLL),
            (_, None) => return Ok(()),
            (_, Some(error)) => {
                return Err(Error::Failed(format!(
                    "Repair job has failed with the error message: Repair command #{id} failed with error {error}. Check the logs \
                     on the repair participants for further details"
                )));
            }
        }
    }
}

fn look(node: &Node, id: u32, from: u64) -> Result<Repair, Error> {
    node.get(&format!("/messina/repair/{id}"), &[("from", &from.to_string())])
}

fn parameters(context: &Context<'_>, tables: &str) -> Result<Vec<(&'static str, String)>, Error> {
    let given = &context.given;
    let is = |name: &str| given.has(name).to_string();
    let parallelism = match (given.has("-seq"), given.has("-dcpar")) {
        (true, _) => "sequential",
        (false, true) => "dc_parallel",
        (false, false) => "parallel",
    };
    let dcs = match given.has("-local") {
        true => context.node.get::<String>("/snitch/datacenter", &[])?,
        false => given.values("-dc").join(","),
    };
    let mut parameters = vec![
        ("parallelism", parallelism.to_owned()),
        ("primaryRange", is("-pr")),
        ("incremental", "false".to_owned()),
        ("jobThreads", given.int("-j").unwrap_or(1).to_string()),
        ("forceRepair", is("-force")),
        ("skipPaxos", is("-skip-paxos")),
        ("paxosOnly", is("-paxos-only")),
    ];
    let lists = [
        ("columnFamilies", tables.to_owned()),
        ("dataCenters", dcs),
        ("hosts", given.values("-hosts").join(",")),
    ];
    parameters.extend(lists.into_iter().filter(|(_, value)| !value.is_empty()));
    let tokens = [("-st", "startToken"), ("-et", "endToken")];
    parameters.extend(
        tokens.into_iter().filter_map(|(option, name)| Some((name, given.value(option)?.to_owned()))),
    );
    Ok(parameters)
}

/// `repair_admin list`, `repair_admin cancel -s session`.
pub fn repair_admin(context: &mut Context<'_>) -> Result<(), Error> {
    match context.arguments().first().map(String::as_str) {
        None | Some("list") => list(context),
        Some("cancel") => {
            let session = context.given.value("-s").map(str::to_owned);
            let session = session.ok_or_else(|| Error::usage("Required options are missing: -s"))?;
            context.node.post("/messina/stop_repair", &[("id", &session)])
        }
        Some(other) => Err(Error::usage(format!("Found unexpected parameters: [{other}]"))),
    }
}

fn list(context: &mut Context<'_>) -> Result<(), Error> {
    let all: Vec<Repair> = context.node.get("/messina/repairs", &[])?;
    let is_shown = |repair: &&Repair| context.given.has("-a") || repair.state == "RUNNING";
    let shown: Vec<&Repair> = all.iter().filter(is_shown).collect();
    if shown.is_empty() {
        context.line("no sessions");
        return Ok(());
    }
    let mut table = Table::new();
    table.add(["id", "session", "keyspace", "state", "ranges", "mutations", "bytes"]);
    for repair in shown {
        table.add([
            repair.id.to_string(),
            repair.session.clone(),
            repair.keyspace.clone(),
            repair.state.clone(),
            format!("{}/{}", repair.done, repair.ranges),
            repair.mutations.to_string(),
            repair.bytes.to_string(),
        ]);
    }
    table.print(context.out);
    Ok(())
}

fn now_ms() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_printed_as_cassandra_prints_them() {
        let repair: Repair = serde_json::from_str(
            r#"{"id":1,"state":"RUNNING","lines":[{"at":1764075615103,"kind":"PROGRESS","percent":50,
                "text":"Repair session x for range [(1,2]] finished"},{"at":0,"text":"Repair completed successfully"}],"next":2}"#,
        )
        .unwrap();
        let shown: Vec<String> = repair.lines.iter().map(Line::shown).collect();
        assert_eq!(
            shown,
            [
                "[2025-11-25 13:00:15,103] Repair session x for range [(1,2]] finished (progress: 50%)",
                "[1970-01-01 00:00:00,000] Repair completed successfully"
            ]
        );
    }
}
