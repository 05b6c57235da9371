//! The other nodes as this one hears them, and what is done about them: gossipinfo, failuredetector, netstats, removenode,
//! assassinate, decommission, move, rebuild, join, and gossip on and off.

use crate::context::Context;
use crate::error::Error;
use crate::http::escape;
use crate::java;
use serde::Deserialize;
use std::fmt::Write;

/// How long a node may be silent before it counts as down, milliseconds: what a phi of 8 stands for.
const SILENCE_MS: f64 = 2500.0;
/// The phi that Cassandra takes a node for down at, unless configured.
const PHI_DOWN: f64 = 8.0;
/// What Cassandra shows for the heartbeat of a node that said it stops.
const HEARTBEAT_LEFT: i64 = i32::MAX as i64;
/// The version of the messages between nodes.
const NET_VERSION: u32 = 1;

/// A member of the cluster.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "the names are those of the node's answer")]
pub struct Member {
    pub host_id: String,
    pub address: String,
    pub port: u16,
    pub native_address: String,
    pub native_port: u16,
    pub dc: String,
    pub rack: String,
    pub state: String,
    pub alive: bool,
    pub local: bool,
    pub put_out: bool,
    pub release: String,
    pub tokens: Vec<String>,
    /// The version of the cluster's log that it is of.
    pub members_version: u64,
    /// What it said last; none if it was not heard.
    pub heard: Option<Heard>,
}

/// What a member said of itself.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "the names are those of the node's answer")]
pub struct Heard {
    pub load: u64,
    pub schema_version: String,
    pub native_open: bool,
    /// When it started, seconds since the epoch.
    pub generation: i64,
    /// Seconds from then to when it was heard last.
    pub heartbeat: i64,
    pub silent_ms: u64,
    pub has_left: bool,
}

/// Messages of one kind.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "the names are the columns of netstats")]
pub struct Messages {
    pub completed: u64,
    pub pending: u64,
    pub dropped: u64,
}

/// Messages with other nodes.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "the names are those of the node's answer")]
pub struct Internode {
    pub large: Messages,
    pub small: Messages,
    pub control: Messages,
    pub mismatches: u64,
}

fn members(context: &Context<'_>) -> Result<Vec<Member>, Error> {
    context.node.get("/messina/members", &[])
}

/// `gossipinfo`: what every node says of itself.
pub fn gossipinfo(context: &mut Context<'_>) -> Result<(), Error> {
    let members = members(context)?;
    let snitch: String = context.node.get("/snitch/name", &[])?;
    let resolve = context.given.has("-r");
    for member in &members {
        let port = context.print_port.then_some(member.port);
        let shown = context.shown(&member.address, port, resolve);
        context.out.push_str(&states(member, &shown, snitch.ends_with("GossipingPropertyFileSnitch")));
    }
    context.line("");
    Ok(())
}

/// One node of gossipinfo. Cassandra numbers each state by the tick of the node's heartbeat at which it was set; here what the cluster's log
/// says has the version of the log, and what the node says itself its heartbeat.
fn states(member: &Member, shown: &str, has_places: bool) -> String {
    let heard = member.heard.clone().unwrap_or_default();
    let has_left = heard.has_left && !member.local;
    let heartbeat = if has_left { HEARTBEAT_LEFT } else { heard.heartbeat };
    let (log, own) = (member.members_version, heard.heartbeat);
    let token = member.tokens.first().map(String::as_str).unwrap_or_default();
    let status = match member.state.as_str() {
        _ if member.put_out => format!("removed,{}", member.host_id),
        _ if has_left => "shutdown,true".to_owned(),
        "JOINING" => format!("BOOT,{token}"),
        "LEAVING" => format!("LEAVING,{token}"),
        _ => format!("NORMAL,{token}"),
    };
    let internal = format!("{}:{}", member.address, member.port);
    let native = format!("{}:{}", member.native_address, member.native_port);
    let mut text = format!("/{shown}\n  generation:{}\n  heartbeat:{heartbeat}\n", heard.generation);
    let mut line = |name: &str, version: i64, value: &str| {
        let _ = writeln!(text, "  {name}:{version}:{value}");
    };
    let log = i64::try_from(log).unwrap_or(i64::MAX);
    // Cassandra leaves out of what others said whatever has a newer form.
    if member.local || has_left || member.put_out {
        line("STATUS", log, &status);
    }
    if member.heard.is_some() {
        line("LOAD", own, &java::double(heard.load as f64));
        line("SCHEMA", own, &heard.schema_version);
    }
    line("DC", log, &member.dc);
    line("RACK", log, &member.rack);
    line("RELEASE_VERSION", log, &member.release);
    if member.local {
        if has_places {
            line("INTERNAL_IP", log, &member.address);
        }
        line("RPC_ADDRESS", log, &member.native_address);
    }
    line("NET_VERSION", 1, &NET_VERSION.to_string());
    line("HOST_ID", log, &member.host_id);
    if member.state != "JOINING" && member.heard.is_some() {
        line("RPC_READY", own, if heard.native_open && !has_left { "true" } else { "false" });
    }
    if has_places {
        line("INTERNAL_ADDRESS_AND_PORT", log, &internal);
    }
    line("NATIVE_ADDRESS_AND_PORT", log, &native);
    line("STATUS_WITH_PORT", log, &status);
    line("SSTABLE_VERSIONS", log, "big-nb");
    line("TOKENS", log, "<hidden>");
    text
}

/// `failuredetector`: how long each other node has been silent, as Cassandra's phi.
pub fn failuredetector(context: &mut Context<'_>) -> Result<(), Error> {
    let members = members(context)?;
    context.line(format!("{},{:>16}", "  Endpoint", "Phi"));
    for member in members.iter().filter(|member| !member.local) {
        let port = context.print_port.then_some(member.port);
        let shown = context.shown(&member.address, port, false);
        context.line(format!("/{shown},{:>16}", java::fixed(phi(member), 8)));
    }
    Ok(())
}

/// 8 is where a node counts as down: pings are not answered for so long, or it was found to be gone.
fn phi(member: &Member) -> f64 {
    let silent_ms = member.heard.as_ref().map_or(f64::INFINITY, |heard| heard.silent_ms as f64);
    let phi = silent_ms.min(1e12) / SILENCE_MS * PHI_DOWN;
    if member.alive { phi.min(PHI_DOWN) } else { phi.max(PHI_DOWN) }
}

/// `netstats`: what this node sends and is sent.
pub fn netstats(context: &mut Context<'_>) -> Result<(), Error> {
    let mode: String = context.node.get("/storage_service/operation_mode", &[])?;
    let internode: Internode = context.node.get("/messina/internode", &[])?;
    context.out.push_str(&traffic(&mode, &internode));
    Ok(())
}

fn traffic(mode: &str, internode: &Internode) -> String {
    let mut text = format!("Mode: {mode}\nNot sending any streams.\nRead Repair Statistics:\n");
    let _ = writeln!(text, "Attempted: 0\nMismatch (Blocking): {}", internode.mismatches);
    text.push_str("Mismatch (Background): 0\n");
    let mut row = |name: &str, cells: [&str; 4]| {
        let [active, pending, completed, dropped] = cells;
        let _ = writeln!(text, "{name:<25}{active:>10}{pending:>10}{completed:>15}{dropped:>10}");
    };
    row("Pool Name", ["Active", "Pending", "Completed", "Dropped"]);
    for (name, messages) in [
        ("Large messages", &internode.large),
        ("Small messages", &internode.small),
        ("Gossip messages", &internode.control),
    ] {
        let numbers =
            [messages.pending, messages.completed, messages.dropped].map(|number| number.to_string());
        row(name, ["n/a", &numbers[0], &numbers[1], &numbers[2]]);
    }
    text
}

/// What the node refuses as a mistake of the caller is said as one.
fn misuse(error: Error) -> Error {
    match error {
        Error::Answer { status: 400, message } => Error::Usage(message),
        other => other,
    }
}

/// `removenode status|force|ID`.
pub fn removenode(context: &mut Context<'_>) -> Result<(), Error> {
    let what = context.arguments().last().cloned().unwrap_or_default();
    match what.as_str() {
        "status" | "force" => {
            if what == "force" {
                context.node.post("/storage_service/force_remove_completion", &[])?;
            }
            let status: String = context.node.get("/storage_service/removal_status", &[])?;
            context.line(format!("RemovalStatus: {status}"));
            Ok(())
        }
        id => context.node.post("/storage_service/remove_node", &[("host_id", id)]).map_err(misuse),
    }
}

/// `assassinate ADDRESS`: puts out a node that is down, without moving data.
pub fn assassinate(context: &mut Context<'_>) -> Result<(), Error> {
    let address = context.arguments().last().cloned().unwrap_or_default();
    context.node.post(&format!("/gossiper/assassinate/{}", escape(&address)), &[]).map_err(misuse)
}

/// `decommission`: refused by the node, which says what to do instead.
pub fn decommission(context: &mut Context<'_>) -> Result<(), Error> {
    context.node.post("/storage_service/decommission", &[]).map_err(misuse)
}

/// `move TOKEN`: refused by the node.
pub fn move_node(context: &mut Context<'_>) -> Result<(), Error> {
    let token = context.arguments().last().cloned().unwrap_or_default();
    context.node.post("/storage_service/move", &[("new_token", &token)]).map_err(misuse)
}

/// `rebuild [DC]`: refused by the node, which says what to do instead.
pub fn rebuild(context: &mut Context<'_>) -> Result<(), Error> {
    let dc = context.arguments().last().cloned().unwrap_or_default();
    context.node.post("/storage_service/rebuild", &[("source_dc", &dc)]).map_err(misuse)
}

/// `join`: a node that answers has joined.
pub fn join(context: &mut Context<'_>) -> Result<(), Error> {
    context.node.post("/storage_service/join_ring", &[]).map_err(misuse)
}

/// `enablegossip`, `disablegossip`: whether others are let know that this node lives.
pub fn gossip(context: &mut Context<'_>, on: bool) -> Result<(), Error> {
    let path = "/storage_service/gossiping";
    if on { context.node.post(path, &[]) } else { context.node.delete(path, &[]) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::golden;

    fn member(last: u8, local: bool) -> Member {
        let ids = [
            "3851572b-4c46-40ff-b1b9-c558a4f213e9",
            "ed1177dc-deca-466d-94e0-80e86d05f371",
            "4b781a55-2e47-4b1f-9edc-c47b1a2f321d",
        ];
        let tokens = ["-7135090535216748403", "-4624032049778536635", "-1017601865735381429"];
        let loads = [110_091, 127_654, 93_143];
        let generations = [1_795_822_208, 1_795_822_223, 1_795_822_247];
        let at = usize::from(last) - 1;
        Member {
            host_id: ids[at].into(),
            address: format!("127.0.7.{last}"),
            port: 7500,
            native_address: format!("127.0.7.{last}"),
            native_port: 9542,
            dc: "datacenter1".into(),
            rack: "rack1".into(),
            state: "NORMAL".into(),
            alive: last != 3,
            local,
            release: "5.0.6".into(),
            tokens: vec![tokens[at].into()],
            members_version: 7,
            heard: Some(Heard {
                load: loads[at],
                schema_version: "aacc3514-66ee-38d2-9f8f-571cc5cbaecd".into(),
                native_open: last != 3,
                generation: generations[at],
                heartbeat: 5,
                silent_ms: 250,
                has_left: last == 3,
            }),
            ..Member::default()
        }
    }

    /// Without the numbers that Cassandra's gossip counts by.
    fn without_ticks(text: &str) -> String {
        let line = |line: &str| {
            let parts: Vec<&str> = line.splitn(3, ':').collect();
            match parts.as_slice() {
                ["  heartbeat", tick] if tick.len() < 6 => "  heartbeat:#".to_owned(),
                [name, _, value] => format!("{name}:#:{value}"),
                _ => line.to_owned(),
            }
        };
        text.lines().map(line).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn gossip_looks_like_cassandras_with_one_node_drained() {
        let ours: String = [member(1, true), member(2, false), member(3, false)]
            .iter()
            .map(|member| states(member, &member.address, false))
            .collect();
        let theirs = golden(include_str!("../testdata/gossipinfo_drained.txt"));
        let theirs = theirs.trim_end().replace("SSTABLE_VERSIONS:6", "SSTABLE_VERSIONS:7");
        assert_eq!(
            without_ticks(&ours),
            without_ticks(&theirs).replace("NET_VERSION:#:12", "NET_VERSION:#:1")
        );
    }

    #[test]
    fn who_joins_is_put_out_or_was_never_heard_is_shown_as_such() {
        let joining = Member { state: "JOINING".into(), ..member(2, false) };
        let text = states(&joining, "127.0.7.2", true);
        assert!(text.contains("STATUS_WITH_PORT:7:BOOT,-462") && !text.contains("RPC_READY"), "{text}");
        assert!(text.contains("INTERNAL_ADDRESS_AND_PORT:7:127.0.7.2:7500"), "{text}");
        let put_out = Member { put_out: true, heard: None, ..member(3, false) };
        let text = states(&put_out, "127.0.7.3", false);
        assert!(text.contains("  STATUS:7:removed,4b781a55"), "{text}");
        assert!(!text.contains("LOAD") && text.starts_with("/127.0.7.3\n  generation:0\n"), "{text}");
    }

    #[test]
    fn phi_is_eight_where_a_node_is_down() {
        let up = member(2, false);
        assert_eq!(java::fixed(phi(&up), 8), "0.80000000");
        assert_eq!(phi(&Member { alive: false, ..up.clone() }), 8.0);
        let silent = Heard { silent_ms: 5000, ..Heard::default() };
        assert_eq!(phi(&Member { alive: false, heard: Some(silent.clone()), ..up.clone() }), 16.0);
        assert_eq!(phi(&Member { heard: Some(silent), ..up.clone() }), 8.0);
        assert!(phi(&Member { alive: false, heard: None, ..up }).is_finite());
    }

    #[test]
    fn netstats_is_cassandras() {
        let internode = Internode {
            large: Messages { completed: 2, ..Messages::default() },
            small: Messages { completed: 20, ..Messages::default() },
            control: Messages { completed: 490, ..Messages::default() },
            mismatches: 0,
        };
        assert_eq!(traffic("NORMAL", &internode), golden(include_str!("../testdata/netstats.txt")));
    }
}
