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
    let storage_port = context.about()?.storage_port;
    let text = status_text(&ring, storage_port, |address| context.shown(address, port, resolve));
    context.out.push_str(&text);
    Ok(())
}

/// Cassandra keeps the nodes of a datacenter in a hash table, by address and port, in the order of their first tokens.
fn status_text(ring: &Ring, storage_port: u16, shown: impl Fn(&str) -> String) -> String {
    let datacenters = ring.datacenters();
    let owns = if ring.note.is_none() { "Owns (effective)" } else { "Owns" };
    let mut tables = Vec::new();
    for addresses in datacenters.values() {
        let mut table = Table::with_between("  ");
        table.add(["--", "Address", "Load", "Tokens", owns, "Host ID", "Rack"]);
        let keyed = addresses.iter().map(|address| (format!("{address}:{storage_port}"), *address));
        for (_, address) in java::hash_order(keyed.collect(), 16, |(key, _)| key) {
            let unknown = || "?".to_owned();
            let letter = |text: &str| text.chars().next().unwrap_or('?');
            let tokens = ring.tokens.iter().filter(|(_, owner)| owner == address).count();
            table.add([
                format!("{}{}", letter(ring.status(address)), letter(ring.state(address))),
                shown(address),
                ring.load.get(address).cloned().unwrap_or_else(unknown),
                tokens.to_string(),
                ring.owns(address, 1),
                ring.host_ids.get(address).cloned().unwrap_or_else(unknown),
                ring.places[address].1.clone(),
            ]);
        }
        tables.push(table);
    }
    let widths = table::common_widths(&tables);
    let mut text = String::new();
    for (index, (datacenter, table)) in datacenters.keys().zip(&tables).enumerate() {
        if index > 0 {
            text.push('\n');
        }
        let head = format!("Datacenter: {datacenter}");
        text.push_str(&format!("{head}\n{}\n", "=".repeat(head.chars().count())));
        text.push_str("Status=Up/Down\n|/ State=Normal/Leaving/Joining/Moving\n");
        table.print_with(&widths, &mut text);
    }
    text.push('\n');
    if let Some(note) = &ring.note {
        text.push_str(&format!("Note: {note}\n"));
    }
    text
}

/// `ring [ks]`: one line for each token.
pub fn ring(context: &mut Context<'_>) -> Result<(), Error> {
    let keyspace = context.arguments().last().cloned();
    let ring = Ring::ask(context, keyspace.as_deref())?;
    let port = context.storage_port()?;
    let resolve = context.given.has("-r");
    // Cassandra leaves room for the port whether it prints it or not.
    let room = Some(context.about()?.storage_port);
    let width =
        ring.tokens.iter().map(|(_, a)| context.shown(a, room, false).chars().count()).max().unwrap_or(0);
    let text = ring_text(&ring, width, |address| context.shown(address, port, resolve));
    context.out.push_str(&text);
    Ok(())
}

fn ring_text(ring: &Ring, width: usize, shown: impl Fn(&str) -> String) -> String {
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
    text
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
    let mut addresses: Vec<&str> = ring.datacenters().into_values().flatten().collect();
    addresses.sort_by_key(|address| address.parse::<std::net::IpAddr>().ok());
    let addresses: Vec<String> =
        addresses.into_iter().map(|address| context.shown(address, always, false)).collect();
    context.line(format!("\t{release}: [{}]", addresses.join(", ")));
    context.line("\nKeyspaces:");
    for keyspace in node.replication()? {
        let class = keyspace.value.get("class").map(String::as_str).unwrap_or_default();
        let class = class.rsplit('.').next().unwrap_or_default();
        let options = keyspace.value.iter().filter(|(name, _)| *name != "class").collect();
        let options = java::hash_order(options, 16, |(name, _): &(&String, &String)| name.as_str());
        let options: Vec<String> =
            options.into_iter().map(|(name, value)| format!("{name}={value}")).collect();
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::golden;

    /// Tokens, load, share and host id of one node.
    type Facts<'a> = (&'a [i64], &'a str, f64, &'a str);

    /// Nodes 127.0.7.1 and so on, as they stood in the clusters that the screens were taken from.
    fn cluster(places: &[(&str, &str)], facts: &[Facts<'_>], down: u8) -> Ring {
        let address = |at: usize| format!("127.0.7.{}", at + 1);
        let mut tokens: Vec<(i64, String)> = Vec::new();
        for (at, fact) in facts.iter().enumerate() {
            tokens.extend(fact.0.iter().map(|token| (*token, address(at))));
        }
        tokens.sort();
        let all = || (0..facts.len()).map(address);
        let down = format!("127.0.7.{down}");
        let places = places.iter().map(|(dc, rack)| ((*dc).to_owned(), (*rack).to_owned()));
        Ring {
            tokens,
            places: all().zip(places).collect(),
            live: all().filter(|address| *address != down).collect(),
            dead: all().filter(|address| *address == down).collect(),
            joining: Vec::new(),
            leaving: Vec::new(),
            moving: Vec::new(),
            load: all().zip(facts.iter().map(|fact| fact.1.to_owned())).collect(),
            host_ids: all().zip(facts.iter().map(|fact| fact.3.to_owned())).collect(),
            owns: all().zip(facts.iter().map(|fact| fact.2)).collect(),
            note: None,
        }
    }

    const ONE: [i64; 4] =
        [-7135090535216748403, 6278314744523580143, 6796619034484074658, 8178487946830493815];
    const TWO: [i64; 4] =
        [-5225412918917539040, -4624032049778536635, 807245392750664142, 4901769371750354077];
    const THREE: [i64; 4] =
        [-9125361901619617366, -3886633566064428532, -1017601865735381429, 3516723173199664692];

    fn three(third_load: &str, second_load: &str) -> Ring {
        let places = [("datacenter1", "rack1"); 3];
        let facts = [
            (&ONE[..], "107.51 KiB", 0.422_6, "3851572b-4c46-40ff-b1b9-c558a4f213e9"),
            (&TWO[..], second_load, 0.760_4, "ed1177dc-deca-466d-94e0-80e86d05f371"),
            (&THREE[..], third_load, 0.817, "4b781a55-2e47-4b1f-9edc-c47b1a2f321d"),
        ];
        cluster(&places, &facts, 3)
    }

    fn four(loads: [&str; 4], down: u8) -> Ring {
        let places = [("dc1", "r1"), ("dc1", "r2"), ("dc2", "r1"), ("dc2", "r2")];
        let tokens: [[i64; 4]; 4] = [
            [-5814907404099792577, -2990275005756324949, -1497373166783613018, 3775479192418272757],
            [-870275754132048363, 4717504199111745942, 5083978340113225226, 8382098646157929331],
            [-5377532202205081506, -3765648096750146217, 2044407312726891369, 5482864479294113307],
            [-7524918575836000434, -6489645105857182963, -3379443766361623304, 5511400445575114492],
        ];
        let ids = [
            "45980d99-e20c-42d5-a5b8-347ee82a0bb8",
            "fe758362-142e-4c3c-8d96-302a6bde3894",
            "fe5e5989-31f0-470c-a225-f7512793b7ff",
            "0601d520-e0ca-4c49-977b-d23d68e6ec6f",
        ];
        let shares = [1.0, 1.0, 0.6281, 0.3719];
        let facts: Vec<Facts<'_>> =
            (0..4).map(|at| (&tokens[at][..], loads[at], shares[at], ids[at])).collect();
        cluster(&places, &facts, down)
    }

    fn plain(address: &str) -> String {
        address.to_owned()
    }

    #[test]
    fn three_nodes_one_of_them_down() {
        let ring = three("90.96 KiB", "124.66 KiB");
        assert_eq!(status_text(&ring, 7500, plain), golden(include_str!("../testdata/status_one_down.txt")));
        // The screen ends without the end of a line.
        let text = format!("{}\n", ring_text(&ring, 14, plain));
        assert_eq!(text, golden(include_str!("../testdata/ring_one_down.txt")));
    }

    #[test]
    fn keyspaces_that_differ_have_no_ownership() {
        let mut ring = three("84.99 KiB", "84.82 KiB");
        (ring.live, ring.dead) = (ring.places.keys().cloned().collect(), Vec::new());
        let alone = |key: &str, factor: &str| Pair {
            key: key.to_owned(),
            value: BTreeMap::from([
                ("class".to_owned(), "SimpleStrategy".to_owned()),
                ("replication_factor".to_owned(), factor.to_owned()),
            ]),
        };
        ring.note = common_keyspace(&[alone("shop", "3"), alone("two", "2")]).err().map(str::to_owned);
        assert_eq!(status_text(&ring, 7500, plain), golden(include_str!("../testdata/status_differs.txt")));
    }

    #[test]
    fn two_datacenters_of_two_nodes() {
        let ring = four(["119.57 KiB", "119.64 KiB", "96.14 KiB", "30.88 KiB"], 0);
        let with_port = |address: &str| format!("{address}:7500");
        assert_eq!(
            status_text(&ring, 7500, with_port),
            golden(include_str!("../testdata/status_two_datacenters.txt"))
        );
        let ring = four(["107.53 KiB", "91.08 KiB", "96.14 KiB", "30.88 KiB"], 4);
        let text = format!("{}\n", ring_text(&ring, 14, plain));
        assert_eq!(text, golden(include_str!("../testdata/ring_two_datacenters.txt")));
    }

    #[test]
    fn who_joins_owns_nothing_yet() {
        let mut ring = three("90.96 KiB", "124.66 KiB");
        ring.joining.push("127.0.7.2".to_owned());
        ring.owns.remove("127.0.7.2");
        let text = status_text(&ring, 7500, plain);
        assert!(text.contains("UJ  127.0.7.2  124.66 KiB  4       ?                 ed1177dc"), "{text}");
    }
}
