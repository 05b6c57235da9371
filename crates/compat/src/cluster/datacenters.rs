//! Two datacenters of two racks: what each consistency level says while nodes are down, beside Apache Cassandra 5.0.6, and both
//! datacenters serving while they do not hear of each other.
//!
//! `cluster/levels.txt` is what `python/cluster_load.py levels` printed of Cassandra at the first node; sections `== numbers of the nodes
//! that were down`.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::load::{Loads, Settings, Summary};
use super::nodes::{Nodes, Place, Way};
use super::proxy::{Flow, Link};
use super::{ERRORS_WITHIN, UP_WITHIN};
use crate::command;
use crate::paths;
use crate::suite::Options;

const REPLICATION: &str = "'dc1': 2, 'dc2': 2";
/// How long both datacenters are apart: several times the silence after which a node is down.
const CUT: Duration = Duration::from_secs(15);
/// How long a node that was killed may be shown as up.
const DOWN_WITHIN: Duration = Duration::from_secs(10);

const PLACES: [Place; 4] = [
    Place::at(Some(("dc1", "r1")), ""),
    Place::by_settings("dc1", "r2"),
    Place::by_settings("dc2", "r1"),
    Place::at(Some(("dc2", "r2")), ""),
];

fn start(options: &Options, shards: u16, way: Way) -> Result<Nodes, String> {
    let mut nodes = Nodes::lay_out(options, &PLACES, shards, way)?;
    nodes.start_all()?;
    nodes.wait_until_all_up(UP_WITHIN)?;
    nodes.make_table(REPLICATION)?;
    Ok(nodes)
}

/// Every level with every node up, one of each datacenter down, the other datacenter down, and the first node alone.
pub fn levels(options: &Options, shards: u16) -> Result<String, String> {
    let recorded = recorded()?;
    let mut nodes = start(options, shards, Way::Straight)?;
    let (mut down, mut count) = (Vec::new(), 0);
    let mut differences = Vec::new();
    for (kill, section) in [(&[][..], ""), (&[1, 3], "2 4"), (&[2], "2 3 4"), (&[], "back"), (&[2, 3], "3 4")]
    {
        for node in kill {
            nodes.kill(*node);
            nodes.wait_for_state(0, *node, "DN", DOWN_WITHIN)?;
            down.push(*node);
        }
        if section == "back" {
            down.drain(..).try_for_each(|node| nodes.start_again(node))?;
            nodes.wait_until_all_up(UP_WITHIN)?;
            continue;
        }
        let wanted = recorded.get(section).ok_or_else(|| format!("nothing recorded with {section} down"))?;
        let told = ask(&nodes)?;
        count += told.len();
        for (request, wanted) in wanted {
            let said = told.get(request).ok_or_else(|| format!("{request} was not asked"))?;
            if !is_same(section, request, wanted, said) {
                differences.push(format!("down: {section}: {request}: {said}\n   Cassandra: {wanted}"));
            }
        }
    }
    nodes.stop()?;
    if differences.is_empty() { Ok(format!("{count} answers")) } else { Err(differences.join("\n")) }
}

/// What came of each request, by the request.
fn ask(nodes: &Nodes) -> Result<BTreeMap<String, String>, String> {
    let mut script = nodes.script("levels", "")?;
    let mut told = BTreeMap::new();
    loop {
        let line = script.line()?;
        if line == "END" {
            return Ok(told);
        }
        let (request, answer) = line.split_once(": ").ok_or_else(|| format!("unexpected line {line}"))?;
        told.insert(request.to_owned(), answer.to_owned());
    }
}

fn recorded() -> Result<BTreeMap<String, Vec<(String, String)>>, String> {
    let text = command::read(&paths::resources().join("cluster/levels.txt"))?;
    let mut all: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
    let mut section = String::new();
    for line in text.lines() {
        if let Some(head) = line.strip_prefix("==") {
            section = head.trim().to_owned();
        } else if let Some((request, answer)) = line.split_once(": ") {
            all.entry(section.clone()).or_default().push((request.to_owned(), answer.to_owned()));
        }
    }
    Ok(all)
}

/// Whether an answer is Cassandra's, but for three differences that are known.
/// - Of two datacenters that fall short Cassandra names one by the order of a hash table, and may count the replicas of the other.
/// - It wants a logged batch kept on a node of another rack of this datacenter, and lets the client wait for its time limit when that node does not
///   answer; here the batch is kept where nodes are up.
/// - Conditions are refused as long as there are none.
fn is_same(down: &str, request: &str, wanted: &str, said: &str) -> bool {
    if request.starts_with("batch ") && wanted.contains("code=1100") {
        return said == "ok";
    }
    if request.starts_with("condition ") && said.contains("not supported yet: lightweight transactions") {
        return true;
    }
    let both_fall_short = request.ends_with("EACH_QUORUM") && down.contains('2');
    let shown = |answer: &str| {
        let answer = answer.replace(" in DC dc1", " in DC").replace(" in DC dc2", " in DC");
        answer.split(", 'alive_replicas'").next().unwrap_or_default().to_owned()
    };
    if both_fall_short { shown(wanted) == shown(said) } else { wanted == said }
}

/// Drivers of both datacenters at LOCAL_QUORUM while nothing passes between these: they see no error at all, as nothing they wait for is there.
pub fn cut_off(options: &Options, shards: u16) -> Result<String, String> {
    let mut nodes = start(options, shards, Way::Proxied)?;
    let settings = |dc, contacts| Settings {
        level: "LOCAL_QUORUM",
        dc,
        contacts: Some(contacts),
        ..Settings::quorum(8)
    };
    let mut first = Loads::start(&nodes, &["python", "java4"], &settings("dc1", vec![0, 1]))?;
    let second = Loads::start(&nodes, &["gocql1", "nodejs"], &settings("dc2", vec![2, 3]))?;
    std::thread::sleep(Duration::from_secs(3));
    let cut = Instant::now();
    nodes.proxy().around(&[0, 1], Link::that(Flow::Cut));
    for (seen_by, node) in [(0, 2), (0, 3), (1, 2), (1, 3), (2, 0), (2, 1), (3, 0), (3, 1)] {
        nodes.wait_for_state(seen_by, node, "DN", DOWN_WITHIN)?;
    }
    let downed = cut.elapsed();
    let told = ask(&nodes)?;
    for (request, wanted) in [
        ("write LOCAL_QUORUM", "ok"),
        ("read LOCAL_QUORUM", "ok"),
        ("write EACH_QUORUM", "Cannot achieve consistency level EACH_QUORUM in DC dc2"),
        ("read EACH_QUORUM", "Cannot achieve consistency level EACH_QUORUM in DC dc2"),
        ("write QUORUM", "Cannot achieve consistency level QUORUM"),
    ] {
        let said = told.get(request).map_or("", String::as_str);
        if !said.contains(wanted) {
            return Err(format!("cut off: {request}: {said}"));
        }
    }
    std::thread::sleep(CUT.saturating_sub(cut.elapsed()));
    nodes.proxy().heal();
    nodes.wait_until_all_up(UP_WITHIN)?;
    first.share_schema("behind_the_cut")?;
    let mut summaries = second.stop()?;
    summaries.extend(first.stop()?);
    for summary in &summaries {
        summary.judge(&[cut], ERRORS_WITHIN)?;
    }
    let checked = nodes.check_acked()?;
    let passed = nodes.proxy().passed();
    nodes.stop()?;
    let told: Vec<String> = summaries.iter().map(Summary::told).collect();
    Ok(format!("{checked}; down within {downed:.1?}; {passed}; {}", told.join("; ")))
}
