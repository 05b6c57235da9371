//! Tokens and who has them: status, ring, describering, describecluster, getendpoints.

use crate::context::{Context, common_keyspace};
use crate::error::Error;
use crate::java;
use crate::rest::{Pair, TokenRange};
use crate::size;
use crate::table::{self, Table};
use std::collections::BTreeMap;

/// What the nodes are and how they do.
struct Ring {
    /// In the order of tokens.
    tokens: Vec<(i64, String)>,
    places: BTreeMap<String, (String, String)>,
    live: Vec<String>,
    dead: Vec<String>,
    joining: Vec<String>,
    leaving: Vec<String>,
    moving: Vec<String>,
    load: BTreeMap<String, String>,
    host_ids: BTreeMap<String, String>,
    owns: BTreeMap<String, f64>,
    /// Why ownership is not effective.
    note: Option<String>,
}

fn map<V>(pairs: Vec<Pair<V>>) -> BTreeMap<String, V> {
    pairs.into_iter().map(|pair| (pair.key, pair.value)).collect()
}

/// A number that may come as a text.
fn float(value: &serde_json::Value) -> Option<f64> {
    value.as_f64().or_else(|| value.as_str()?.parse().ok())
}

impl Ring {
    fn ask(context: &mut Context<'_>, keyspace: Option<&str>) -> Result<Ring, Error> {
        let node = context.node.clone();
        let list = |path: &str| node.get::<Vec<String>>(path, &[]);
        let endpoints: Vec<Pair<String>> = node.get("/storage_service/tokens_endpoint", &[])?;
        let mut tokens: Vec<(i64, String)> =
            endpoints.into_iter().filter_map(|pair| Some((pair.key.parse().ok()?, pair.value))).collect();
        tokens.sort();
        let mut places = BTreeMap::new();
        for (_, address) in &tokens {
            if !places.contains_key(address) {
                let place = |what: &str| node.get(&format!("/snitch/{what}"), &[("host", address)]);
                places.insert(address.clone(), (place("datacenter")?, place("rack")?));
            }
        }
        let (owned, note) = owned_keyspace(context, keyspace)?;
        let path = format!(
            "/storage_service/ownership/{}",
            owned.as_deref().map(crate::http::escape).unwrap_or_default()
        );
        let owns: Vec<Pair<serde_json::Value>> = node.get(&path, &[])?;
        let load: Vec<Pair<serde_json::Value>> = node.get("/storage_service/load_map", &[])?;
        Ok(Ring {
            tokens,
            places,
            live: list("/gossiper/endpoint/live")?,
            dead: list("/gossiper/endpoint/down")?,
            joining: list("/storage_service/nodes/joining")?,
            leaving: list("/storage_service/nodes/leaving")?,
            moving: list("/storage_service/nodes/moving")?,
            load: map(load)
                .iter()
                .filter_map(|(k, v)| Some((k.clone(), size::file_size(float(v)?))))
                .collect(),
            host_ids: map(node.get("/storage_service/host_id", &[])?),
            owns: map(owns).iter().filter_map(|(k, v)| Some((k.clone(), float(v)?))).collect(),
            note,
        })
    }

    /// Addresses by data centre, both in order.
    fn datacenters(&self) -> BTreeMap<&str, Vec<&str>> {
        let mut found: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (_, address) in &self.tokens {
            let addresses = found.entry(self.places[address].0.as_str()).or_default();
            if !addresses.contains(&address.as_str()) {
                addresses.push(address);
            }
        }
        found
    }

    fn is_in(list: &[String], address: &str) -> bool {
        list.iter().any(|listed| listed == address)
    }

    fn status(&self, address: &str) -> &'static str {
        match (Ring::is_in(&self.live, address), Ring::is_in(&self.dead, address)) {
            (true, _) => "Up",
            (false, true) => "Down",
            (false, false) => "?",
        }
    }

    fn state(&self, address: &str) -> &'static str {
        let states = [(&self.joining, "Joining"), (&self.leaving, "Leaving"), (&self.moving, "Moving")];
        let found = states.iter().find(|(list, _)| Ring::is_in(list, address));
        found.map_or("Normal", |(_, state)| state)
    }

    fn owns(&self, address: &str, decimals: usize) -> String {
        match self.owns.get(address) {
            Some(share) if self.note.is_none() => format!("{}%", java::fixed(share * 100.0, decimals)),
            _ => "?".into(),
        }
    }
}

/// The keyspace whose ownership is shown, and why there is none. An unknown one ends the command, as Cassandra does.
fn owned_keyspace(
    context: &mut Context<'_>,
    keyspace: Option<&str>,
) -> Result<(Option<String>, Option<String>), Error> {
    let replication = context.node.replication()?;
    let Some(keyspace) = keyspace else {
        return Ok(match common_keyspace(&replication) {
            Ok(common) => (Some(common.to_owned()), None),
            Err(why) => (None, Some(why.to_owned())),
        });
    };
    let Some(found) = replication.iter().find(|entry| entry.key == keyspace) else {
        context.line(format!("\nError: The keyspace {keyspace}, does not exist"));
        return Err(Error::Said);
    };
    if found.value.get("class").is_none_or(|class| class.ends_with("LocalStrategy")) {
        return Ok((None, Some("Ownership values for keyspaces with LocalStrategy are meaningless".into())));
    }
    Ok((Some(keyspace.to_owned()), None))
}

/// `status [ks]`: one line for each node.
pub fn status(context: &mut Context<'_>) -> Result<(), Error> {
    let keyspace = context.arguments().last().cloned();
    let ring = Ring::ask(context, keyspace.as_deref())?;
    let port = context.storage_port()?;
    let resolve = context.given.has("-r");
    let datacenters = ring.datacenters();
    let owns = if ring.note.is_none() { "Owns (effective)" } else { "Owns" };
    let mut tables = Vec::new();
    for addresses in datacenters.values() {
        let mut table = Table::with_between("  ");
        table.add(["--", "Address", "Load", "Tokens", owns, "Host ID", "Rack"]);
        for address in addresses {
            let unknown = || "?".to_owned();
            let letter = |text: &str| text.chars().next().unwrap_or('?');
            let tokens = ring.tokens.iter().filter(|(_, owner)| owner == address).count();
            table.add([
                format!("{}{}", letter(ring.status(address)), letter(ring.state(address))),
                context.shown(address, port, resolve),
                ring.load.get(*address).cloned().unwrap_or_else(unknown),
                tokens.to_string(),
                ring.owns(address, 1),
                ring.host_ids.get(*address).cloned().unwrap_or_else(unknown),
                ring.places[*address].1.clone(),
            ]);
        }
        tables.push(table);
    }
    let widths = table::common_widths(&tables);
    for (index, (datacenter, table)) in datacenters.keys().zip(&tables).enumerate() {
        if index > 0 {
            context.line("");
        }
        let head = format!("Datacenter: {datacenter}");
        context.line(&head);
        context.line("=".repeat(head.chars().count()));
        context.line("Status=Up/Down");
        context.line("|/ State=Normal/Leaving/Joining/Moving");
        table.print_with(&widths, context.out);
    }
    context.line("");
    if let Some(note) = &ring.note {
        context.line(format!("Note: {note}"));
    }
    Ok(())
}

/// `ring [ks]`: one line for each token.
pub fn ring(context: &mut Context<'_>) -> Result<(), Error> {
    let keyspace = context.arguments().last().cloned();
    let ring = Ring::ask(context, keyspace.as_deref())?;
    let port = context.storage_port()?;
    let resolve = context.given.has("-r");
    let shown = |address: &str| context.shown(address, port, resolve);
    // Cassandra leaves room for the port whether it prints it or not.
    let room = Some(context.about()?.storage_port);
    let width =
        ring.tokens.iter().map(|(_, a)| context.shown(a, room, false).chars().count()).max().unwrap_or(0);
    let format = |cells: [&str; 7]| {
        let [address, rack, status, state, load, owns, token] = cells;
        format!("{address:<width$}  {rack:<12}{status:<7}{state:<8}{load:<16}{owns:<20}{token:<44}\n")
    };
    let mut text = String::from("\n");
    let mut several = false;
    for (datacenter, addresses) in ring.datacenters() {
        let tokens: Vec<_> = ring.tokens.iter().filter(|(_, a)| addresses.contains(&a.as_str())).collect();
        several |= tokens.len() > addresses.len();
        text.push_str(&format!("Datacenter: {datacenter}\n==========\n"));
        text.push_str(&format(["Address", "Rack", "Status", "State", "Load", "Owns", "Token"]));
        let last = tokens.last().map(|(token, _)| token.to_string()).unwrap_or_default();
        text.push_str(&if tokens.len() > 1 { format(["", "", "", "", "", "", &last]) } else { "\n".into() });
        for (token, address) in tokens {
            text.push_str(&format([
                &shown(address),
                &ring.places[address].1,
                ring.status(address),
                ring.state(address),
                ring.load.get(address).map_or("?", String::as_str),
                &ring.owns(address, 2),
                &token.to_string(),
            ]));
        }
        text.push('\n');
    }
    if several {
        text.push_str("  Warning: \"nodetool ring\" is used to output all the tokens of a node.\n");
        text.push_str("  To view status related info of a node use \"nodetool status\" instead.\n\n");
    }
    text.push_str("\n  ");
    if let Some(note) = &ring.note {
        text.push_str(&format!("Note: {note}\n"));
    }
    context.out.push_str(&text);
    Ok(())
}

/// `describering ks`: ranges and who holds them.
pub fn describering(context: &mut Context<'_>) -> Result<(), Error> {
    let keyspace = context.arguments().last().cloned().unwrap_or_default();
    let version: String = context.node.get("/storage_service/schema_version", &[])?;
    context.line(format!("Schema Version:{version}"));
    context.line("TokenRange: ");
    if !context.node.keyspaces()?.contains(&keyspace) {
        return Err(Error::Failed(format!("No such keyspace: {keyspace}")));
    }
    let local = |entry: &Pair<BTreeMap<String, String>>| {
        entry.key == keyspace
            && entry.value.get("class").is_some_and(|class| class.ends_with("LocalStrategy"))
    };
    if context.node.replication()?.iter().any(local) {
        return Err(Error::Failed(format!("There is no ring for the keyspace: {keyspace}")));
    }
    let path = format!("/storage_service/describe_ring/{}", crate::http::escape(&keyspace));
    let ranges: Vec<TokenRange> = context.node.get(&path, &[])?;
    let ports = if context.print_port { Some(context.about()?) } else { None };
    let port = ports.as_ref().map(|about| about.storage_port);
    let native = ports.as_ref().map(|about| about.native_port);
    for range in ranges {
        let shown = |addresses: &[String], port| {
            let shown: Vec<String> = addresses.iter().map(|a| context.shown(a, port, false)).collect();
            shown.join(", ")
        };
        let detail = |detail: &crate::rest::EndpointDetails| {
            let host = context.shown(&detail.host, port, false);
            format!("EndpointDetails(host:{host}, datacenter:{}, rack:{})", detail.datacenter, detail.rack)
        };
        let details: Vec<String> = range.endpoint_details.iter().map(detail).collect();
        let line = format!(
            "\tTokenRange(start_token:{}, end_token:{}, endpoints:[{}], rpc_endpoints:[{}], endpoint_details:[{}])",
            range.start_token,
            range.end_token,
            shown(&range.endpoints, port),
            shown(&range.rpc_endpoints, native),
            details.join(", ")
        );
        context.line(line);
    }
    Ok(())
}

/// `describecluster`: names, versions, keyspaces.
pub fn describecluster(context: &mut Context<'_>) -> Result<(), Error> {
    let node = context.node.clone();
    let text = |path: &str| node.get::<String>(path, &[]);
    let (name, snitch) = (text("/storage_service/cluster_name")?, text("/snitch/name")?);
    let partitioner = text("/storage_service/partitioner_name")?;
    let release = text("/storage_service/release_version")?;
    let versions: Vec<Pair<Vec<String>>> = node.get("/storage_proxy/schema_versions", &[])?;
    let ring = Ring::ask(context, None)?;
    let port = context.storage_port()?;
    let always = Some(context.about()?.storage_port);
    context.line("Cluster Information:");
    context.line(format!("\tName: {name}\n\tSnitch: {snitch}\n\tDynamicEndPointSnitch: disabled"));
    context.line(format!("\tPartitioner: {partitioner}\n\tSchema versions:"));
    for version in versions {
        let hosts: Vec<String> = version.value.iter().map(|a| context.shown(a, port, false)).collect();
        context.line(format!("\t\t{}: [{}]\n", version.key, hosts.join(", ")));
    }
    context.line("Stats for all nodes:");
    let counts = [
        ("Live", ring.live.len()),
        ("Joining", ring.joining.len()),
        ("Moving", ring.moving.len()),
        ("Leaving", ring.leaving.len()),
        ("Unreachable", ring.dead.len()),
    ];
    for (label, count) in counts {
        context.line(format!("\t{label}: {count}"));
    }
    context.line("\nData Centers: ");
    for (datacenter, addresses) in ring.datacenters() {
        let down = addresses.iter().filter(|address| ring.status(address) == "Down").count();
        context.line(format!("\t{datacenter} #Nodes: {} #Down: {down}", addresses.len()));
    }
    context.line("\nDatabase versions:");
    let addresses: Vec<String> =
        ring.datacenters().values().flatten().map(|address| context.shown(address, always, false)).collect();
    context.line(format!("\t{release}: [{}]", addresses.join(", ")));
    context.line("\nKeyspaces:");
    for keyspace in node.replication()? {
        let class = keyspace.value.get("class").map(String::as_str).unwrap_or_default();
        let class = class.rsplit('.').next().unwrap_or_default();
        let options = keyspace.value.iter().filter(|(name, _)| *name != "class");
        let options: Vec<String> = options.map(|(name, value)| format!("{name}={value}")).collect();
        context.line(format!("\t{} -> Replication class: {class} {{{}}}", keyspace.key, options.join(", ")));
    }
    if let Some(note) = &ring.note {
        context.line(format!("\nNote: {note}"));
    }
    Ok(())
}

/// `getendpoints ks table key`: who has a partition.
pub fn getendpoints(context: &mut Context<'_>) -> Result<(), Error> {
    let [keyspace, table, key] = context.arguments() else {
        return Err(Error::usage("getendpoints requires keyspace, table and partition key arguments"));
    };
    if !context.node.keyspaces()?.contains(keyspace) {
        return Err(Error::usage(format!("Unknown keyspace '{keyspace}'")));
    }
    if !context.node.table_names()?.iter().any(|name| name.ks == *keyspace && name.cf == *table) {
        return Err(Error::usage(format!("Unknown table '{table}' in keyspace '{keyspace}'")));
    }
    let path = format!("/storage_service/natural_endpoints/{}", crate::http::escape(keyspace));
    let addresses: Vec<String> = context.node.get(&path, &[("cf", table), ("key", key)])?;
    let port = context.storage_port()?;
    for address in addresses {
        let shown = context.shown(&address, port, false);
        context.line(shown);
    }
    Ok(())
}
