//! From an operator's words to the ranges of a repair. Pure.

use super::party::{Among, Task, Whom, task};
use base::{HostId, Token};
use mutation::TokenRange;
use schema::{Keyspace, Replication, Schema, TableId};
use std::net::IpAddr;
use topology::{Holders, Placements, Snapshot};

/// What is asked for, as Cassandra's `repair` does.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RepairOptions {
    /// Names of tables; none: all of the keyspace.
    pub tables: Vec<String>,
    /// Only ranges whose first replica this node is, of those in `dcs` if any are named.
    pub primary_range: bool,
    /// Only replicas in these datacenters.
    pub dcs: Vec<String>,
    /// Only these replicas, by the addresses that nodes know them by.
    pub hosts: Vec<IpAddr>,
    /// Only tokens behind the first up to the second.
    pub range: Option<(Token, Token)>,
    /// Replicas that are down are left out.
    pub without_down: bool,
    /// Open rounds of lightweight transactions are left open.
    pub skips_rounds: bool,
    /// Nothing but those is repaired.
    pub only_rounds: bool,
}

/// One range of tokens with the same holders: one interval, or two around the end of the ring.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) ranges: Vec<TokenRange>,
    /// As it is shown: `(first,last]`.
    pub(super) name: String,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) tables: Vec<TableId>,
    pub(super) pieces: Vec<Piece>,
    pub(super) whom: Whom,
    /// Whether rows are made equal.
    pub(super) rows: bool,
    /// Whether open rounds of lightweight transactions are settled, or swept.
    pub(super) rounds: bool,
}

/// The ranges to repair. `None`: nobody else holds anything of the keyspace. Errors: in words for the operator.
pub(super) fn plan(
    snapshot: &Snapshot,
    schema: &Schema,
    keyspace: &str,
    options: &RepairOptions,
) -> Result<Option<Plan>, String> {
    let keyspace =
        schema.keyspace(keyspace).ok_or_else(|| format!("Keyspace [{keyspace}] does not exist."))?;
    let tables = tables(keyspace, &options.tables)?;
    let among = among(snapshot, options)?;
    if factor(&keyspace.replication) < 2 || snapshot.members().iter().count() < 2 {
        return Ok(None);
    }
    let placements = snapshot.placements(&keyspace.replication);
    let local = snapshot.local_id();
    let is_ours = |holders: &Holders| {
        let first = holders.read.iter().find(|host| {
            options.dcs.is_empty()
                || snapshot.dc_of(**host).is_some_and(|dc| options.dcs.iter().any(|d| d == dc))
        });
        if options.primary_range { first == Some(&local) } else { holders.read.contains(&local) }
    };
    let whom = Whom::Holders(among);
    let mut pieces = Vec::new();
    for (start, end, holders) in around(&placements).into_iter().filter(|(_, _, holders)| is_ours(holders)) {
        let Some(piece) = piece(start, end, options.range)? else { continue };
        let down = |host: &HostId| match snapshot.member(*host) {
            Some(member) => format!("/{}", member.internode),
            None => host.to_string(),
        };
        match task(snapshot, &keyspace.replication, holders, &whom) {
            Ok(Task::Compare(_)) => pieces.push(piece),
            Ok(Task::Nothing | Task::Lost) => {}
            Err(absent) => {
                let hosts: Vec<String> = absent.hosts.iter().map(down).collect();
                return Err(format!(
                    "Endpoint not alive: {}, which holds range {} of keyspace {}",
                    hosts.join(", "),
                    piece.name,
                    keyspace.name
                ));
            }
        }
    }
    if pieces.is_empty() && options.range.is_some() {
        return Err("Nothing to repair: this node holds nothing of the range".to_owned());
    }
    // Not where some of the holders are left out: that needs a quorum, whoever is named.
    let rounds = !options.skips_rounds && whom == Whom::Holders(Among::default());
    if options.only_rounds && !rounds {
        return Err("lightweight transactions are repaired among all replicas, or not at all".to_owned());
    }
    Ok(Some(Plan { tables, pieces, whom, rows: !options.only_rounds, rounds }))
}

/// Every table that a new node must be filled with, and all ranges that it will hold.
pub(super) fn filling(snapshot: &Snapshot, keyspace: &Keyspace, host: HostId) -> Plan {
    let placements = snapshot.placements(&keyspace.replication);
    let mut pieces = Vec::new();
    if keyspace.replication != Replication::Local {
        for (start, end, holders) in around(&placements) {
            if holders.read.contains(&host) || holders.pending.contains(&host) {
                pieces.extend(piece(start, end, None).ok().flatten());
            }
        }
    }
    let tables = keyspace.tables.values().map(|table| table.id).collect();
    Plan { tables, pieces, whom: Whom::Onto(host), rows: true, rounds: true }
}

/// The ranges of which this node is the first holder, with all tables: by the names of keyspaces, those of one replication together.
pub(super) fn sweeping(snapshot: &Snapshot, schema: &Schema, before: i64) -> Vec<(String, Plan)> {
    let mut groups: Vec<Vec<&Keyspace>> = Vec::new();
    for keyspace in schema.keyspaces.values() {
        if keyspace.replication == Replication::Local || keyspace.tables.is_empty() {
            continue;
        }
        match groups.iter_mut().find(|group| group[0].replication == keyspace.replication) {
            Some(group) => group.push(keyspace),
            None => groups.push(vec![keyspace]),
        }
    }
    let of = |group: Vec<&Keyspace>| {
        let placements = snapshot.placements(&group[0].replication);
        let is_ours = |holders: &Holders| holders.read.first() == Some(&snapshot.local_id());
        let ours = around(&placements).into_iter().filter(|(_, _, holders)| is_ours(holders));
        let pieces = ours.filter_map(|(start, end, _)| piece(start, end, None).ok().flatten()).collect();
        let tables =
            group.iter().flat_map(|keyspace| keyspace.tables.values()).map(|table| table.id).collect();
        let names: Vec<&str> = group.iter().map(|keyspace| &*keyspace.name).collect();
        (names.join(", "), Plan { tables, pieces, whom: Whom::AtRest(before), rows: false, rounds: true })
    };
    groups.into_iter().map(of).collect()
}

fn tables(keyspace: &Keyspace, named: &[String]) -> Result<Vec<TableId>, String> {
    if named.is_empty() {
        return Ok(keyspace.tables.values().map(|table| table.id).collect());
    }
    let find = |name: &String| {
        let table = keyspace.tables.get(name.as_str());
        table
            .map(|table| table.id)
            .ok_or_else(|| format!("Unknown keyspace/cf pair ({}.{name})", keyspace.name))
    };
    named.iter().map(find).collect()
}

fn among(snapshot: &Snapshot, options: &RepairOptions) -> Result<Among, String> {
    let local = snapshot.local();
    if options.primary_range && (!options.hosts.is_empty() || options.dcs.iter().any(|dc| *dc != local.dc)) {
        return Err("Primary range repair should be performed on all nodes in the cluster.".to_owned());
    }
    let known = snapshot.members().datacenters();
    if let Some(dc) = options.dcs.iter().find(|dc| !known.contains(dc.as_str())) {
        return Err(format!(
            "there is no datacenter \"{dc}\": there are {}",
            Vec::from_iter(known).join(", ")
        ));
    }
    if !options.dcs.is_empty() && !options.dcs.contains(&local.dc) {
        return Err("the local data center must be part of the repair".to_owned());
    }
    let find = |address: &IpAddr| {
        let member = snapshot.members().iter().find(|member| member.broadcast() == *address);
        member.map(|member| member.host_id).ok_or_else(|| format!("Unknown host specified {address}"))
    };
    let hosts = options.hosts.iter().map(find).collect::<Result<Vec<_>, _>>()?;
    if !hosts.is_empty() && !hosts.contains(&local.host_id) {
        return Err("The current host must be part of the repair".to_owned());
    }
    if hosts.len() == 1 {
        return Err(
            "Repair requires at least two endpoints that are neighbours before it can continue".to_owned()
        );
    }
    Ok(Among { dcs: options.dcs.clone(), hosts, without_down: options.without_down })
}

fn factor(replication: &Replication) -> u32 {
    match replication {
        Replication::Local => 1,
        Replication::Simple { factor } => *factor,
        Replication::NetworkTopology { factors } => factors.values().sum(),
    }
}

/// Each range with its bounds as they are shown: behind the first up to the second, around the end of the ring for the first one.
fn around(placements: &Placements) -> Vec<(Token, Token, &Holders)> {
    let ranges = placements.ranges();
    let Some(last) = ranges.last() else { return Vec::new() };
    let starts = std::iter::once(last.end).chain(ranges.iter().map(|range| range.end));
    starts.zip(ranges).map(|(start, range)| (start, range.end, range)).collect()
}

/// The part of `(start, end]` that is wanted. Errors: what is wanted lies across it.
fn piece(start: Token, end: Token, wanted: Option<(Token, Token)>) -> Result<Option<Piece>, String> {
    let name = |start: Token, end: Token| format!("({},{}]", start.0, end.0);
    let Some((from, to)) = wanted else {
        return Ok(Some(Piece { ranges: intervals(start, end), name: name(start, end) }));
    };
    let (own, asked) = (intervals(start, end), intervals(from, to));
    let both: Vec<TokenRange> =
        asked.iter().flat_map(|asked| own.iter().filter_map(|own| own.intersect(*asked))).collect();
    if both.is_empty() {
        return Ok(None);
    }
    let width = |ranges: &[TokenRange]| -> i128 {
        ranges.iter().map(|range| i128::from(range.last.0) - i128::from(range.first.0) + 1).sum()
    };
    if width(&both) < width(&asked) {
        return Err(format!(
            "Requested range {} intersects a local range {} but is not fully contained in one; this would lead to imprecise \
             repair",
            name(from, to),
            name(start, end)
        ));
    }
    Ok(Some(Piece { ranges: both, name: name(from, to) }))
}

/// The tokens behind `start` up to `end`; all when they are the same.
fn intervals(start: Token, end: Token) -> Vec<TokenRange> {
    let behind = start.0.checked_add(1).map(Token);
    if start < end {
        return behind.map(|first| TokenRange::new(first, end)).into_iter().collect();
    }
    let tail = behind.map(|first| TokenRange::new(first, Token(i64::MAX)));
    tail.into_iter().chain([TokenRange::new(Token(i64::MIN), end)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::member;
    use schema::TableBuilder;
    use topology::{Liveness, Members, Version};
    use types::CqlType;

    /// Members 1 to 4 with the tokens of their names, two in each of two datacenters, of which these answer.
    fn snapshot(alive: &[u8]) -> Snapshot {
        let all = (1..=4).map(|n| member(n, if n <= 2 { "a" } else { "b" }));
        let liveness = Liveness::of(alive.iter().map(|n| HostId(u128::from(*n))));
        Snapshot::new(HostId(1), Members::new(Version::ZERO, all), &[]).with_liveness(liveness)
    }

    fn schema(factor: u32) -> Schema {
        let table = TableBuilder::new("ks", "t", TableId(1)).partition_key("k", CqlType::Int).build();
        let mut keyspace = Keyspace::new("ks", Replication::Simple { factor });
        let table = table.expect("a valid table");
        keyspace.tables.insert(table.name.clone(), table.into());
        Schema::default().with_keyspace(1, keyspace)
    }

    fn names(alive: &[u8], factor: u32, options: RepairOptions) -> Result<Vec<String>, String> {
        let plan = plan(&snapshot(alive), &schema(factor), "ks", &options)?;
        Ok(plan
            .map_or(vec!["nothing".into()], |plan| plan.pieces.into_iter().map(|piece| piece.name).collect()))
    }

    #[test]
    fn a_node_repairs_what_it_holds_or_what_it_is_the_first_to_hold() {
        let all = [2, 3, 4];
        let of = |options| names(&all, 2, options);
        assert_eq!(of(RepairOptions::default()), Ok(vec!["(4,1]".into(), "(3,4]".into()]));
        let primary = RepairOptions { primary_range: true, ..RepairOptions::default() };
        assert_eq!(of(primary), Ok(vec!["(4,1]".into()]));
        assert_eq!(names(&all, 1, RepairOptions::default()), Ok(vec!["nothing".into()]));
        let range =
            |from, to| RepairOptions { range: Some((Token(from), Token(to))), ..RepairOptions::default() };
        assert_eq!(of(range(3, 4)), Ok(vec!["(3,4]".into()]));
        assert_eq!(of(range(100, -100)), Ok(vec!["(100,-100]".into()]), "around the end of the ring");
        assert!(of(range(2, 4)).is_err_and(|text| text.contains("not fully contained")));
        assert!(of(range(1, 2)).is_err_and(|text| text.contains("Nothing to repair")));
    }

    #[test]
    fn what_cannot_be_is_said_before_anything_is_read() {
        let of = |alive: &[u8], options| names(alive, 2, options).unwrap_err();
        assert_eq!(
            of(&[2, 3], RepairOptions::default()),
            "Endpoint not alive: /127.0.0.4:7000, which holds range (3,4] of keyspace ks"
        );
        let all = [2, 3, 4];
        let hosts = |hosts: &[u8]| RepairOptions {
            hosts: hosts.iter().map(|n| IpAddr::from([127, 0, 0, *n])).collect(),
            ..RepairOptions::default()
        };
        assert!(of(&all, hosts(&[9, 1])).contains("Unknown host specified 127.0.0.9"));
        assert!(of(&all, hosts(&[2, 3])).contains("current host must be part"));
        assert!(of(&all, hosts(&[1])).contains("at least two endpoints"));
        let dcs = |dcs: &[&str]| RepairOptions {
            dcs: dcs.iter().map(|dc| (*dc).to_owned()).collect(),
            ..RepairOptions::default()
        };
        assert!(of(&all, dcs(&["b"])).contains("local data center"));
        assert!(of(&all, dcs(&["a", "c"])).contains("there is no datacenter \"c\": there are a, b"));
        let tables = RepairOptions { tables: vec!["u".into()], ..RepairOptions::default() };
        assert_eq!(of(&all, tables), "Unknown keyspace/cf pair (ks.u)");
        let only = RepairOptions { only_rounds: true, ..hosts(&[1, 2]) };
        assert!(of(&all, only).contains("among all replicas"));
        let primary = RepairOptions { primary_range: true, ..hosts(&[1, 2]) };
        assert!(of(&all, primary).contains("Primary range repair"));
    }

    #[test]
    fn the_tokens_of_all_ranges_are_every_token_once() {
        let snapshot = snapshot(&[2, 3, 4]);
        let placements = snapshot.placements(&Replication::Simple { factor: 4 });
        let mut all: Vec<TokenRange> =
            around(&placements).into_iter().flat_map(|(start, end, _)| intervals(start, end)).collect();
        all.sort_by_key(|range| range.first);
        assert_eq!((all[0].first, all[all.len() - 1].last), (Token(i64::MIN), Token(i64::MAX)));
        assert!(all.windows(2).all(|pair| pair[0].last.0 + 1 == pair[1].first.0), "{all:?}");
    }
}
