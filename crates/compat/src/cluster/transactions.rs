//! Lightweight transactions and counters on five nodes, three replicas each, while nodes are killed and links between them cut, late and reset.
//!
//! What clients saw of registers must be linearizable, as another program than ours says; lists keep what was confirmed, in its order; counters are
//! between what was confirmed and that with what nobody knows of.

use std::time::{Duration, Instant};

use super::load::Settings;
use super::nodes::{Nodes, Place, Way};
use super::proxy::{Flow, Link, Proxy};
use super::{expect, python_script};
use crate::command;
use crate::packages;
use crate::suite::Options;

const NODES: usize = 5;
/// Clients, each with one call at a time.
const CLIENTS: usize = 24;
/// How long a killed node may take to be up again everywhere, on a busy machine.
const UP_WITHIN: Duration = Duration::from_secs(60);
/// How long the check of all histories may take.
const CHECKED_WITHIN: Duration = Duration::from_secs(600);

/// So many minutes of it.
pub fn run(options: &Options, shards: u16, minutes: u64) -> Result<String, String> {
    let checker = packages::porcupine()?;
    let places: Vec<Place> = (0..NODES).map(|_| Place::PLAIN).collect();
    let mut nodes = Nodes::lay_out(options, &places, shards, Way::Proxied)?;
    nodes.start_all()?;
    nodes.wait_until_all_up(UP_WITHIN)?;
    let history = nodes.folder.join("registers.json");
    let path = history.display().to_string();
    let script = |nodes: &Nodes, word: &str, argument: &str| {
        python_script(nodes, "cluster_transactions", &Settings::quorum(CLIENTS), word, argument)
    };
    let mut schema = script(&nodes, "schema", "3")?;
    expect(&schema.line()?, "SCHEMA")?;
    schema.finish(UP_WITHIN)?;
    let mut load = script(&nodes, "load", &path)?;
    expect(&load.line()?, "STARTED")?;
    let end = Instant::now() + Duration::from_secs(60 * minutes);
    let mut random = options.seed;
    let mut faults = [0_u32; FAULTS.len()];
    while Instant::now() < end {
        let draw = super::long::next(&mut random) as usize;
        let (fault, one) = (draw % FAULTS.len(), draw / 64 % NODES);
        let other = (one + 1 + draw / 512 % (NODES - 1)) % NODES;
        faults[fault] += 1;
        FAULTS[fault].1(&mut nodes, one, other)
            .map_err(|error| format!("{} of {one}: {error}", FAULTS[fault].0))?;
        nodes.proxy().heal();
        for node in [one, other] {
            if !nodes.is_alive(node) {
                nodes.start_again(node)?;
            }
        }
        nodes.wait_until_all_up(UP_WITHIN)?;
        std::thread::sleep(Duration::from_millis(500 + draw as u64 % 2_000));
    }
    load.say("STOP")?;
    expect(&load.line()?, "DONE")?;
    let told = load.line()?;
    load.finish(UP_WITHIN)?;
    let value: serde_json::Value = serde_json::from_str(&told).map_err(|error| format!("{error}: {told}"))?;
    let did = |kind: &str| value[kind].as_u64().is_some_and(|count| count > 0);
    if value["failures"].as_array().is_none_or(|failures| !failures.is_empty())
        || !["swap", "read", "append", "show", "increment"].into_iter().all(did)
    {
        return Err(told);
    }
    let mut check = script(&nodes, "check", &path)?;
    let checked = check.line()?;
    check.finish(UP_WITHIN)?;
    nodes.stop()?;
    if !checked.starts_with("CHECKED ") {
        return Err(format!("{checked}; {told}"));
    }
    let mut judge = std::process::Command::new(checker);
    judge.arg(&history);
    let verdict = command::run(&mut judge, &nodes.folder.join("porcupine.log"), CHECKED_WITHIN)?;
    if !verdict.starts_with("LINEARIZABLE ") {
        return Err(format!("{verdict}; {told}"));
    }
    let faults: Vec<String> =
        FAULTS.iter().zip(faults).map(|((name, _), count)| format!("{count} {name}")).collect();
    Ok(format!("{}; {}; {checked}; {told}", faults.join(", "), verdict.trim()))
}

/// Does something to one node, or to two of them, and waits a while.
type Fault = fn(&mut Nodes, usize, usize) -> Result<(), String>;

/// Kills wait until hints or transactions are in the middle of something; cuts are longer than it takes to be noticed, or not.
const FAULTS: [(&str, Fault); 7] = [
    ("kills", |nodes, one, _| killed(nodes, &[one])),
    ("kills of two", |nodes, one, other| killed(nodes, &[one, other])),
    ("cuts of one", |nodes, one, _| linked(nodes, 6, |proxy| proxy.around(&[one], Link::that(Flow::Cut)))),
    ("cuts of two", |nodes, one, other| {
        linked(nodes, 6, |proxy| proxy.around(&[one, other], Link::that(Flow::Cut)))
    }),
    ("links that carry one way", |nodes, one, other| {
        linked(nodes, 2, |proxy| proxy.set(one, other, Link::that(Flow::Cut)))
    }),
    ("late links", |nodes, one, _| {
        linked(nodes, 4, |proxy| proxy.around(&[one], Link::late(Duration::from_millis(150))))
    }),
    ("resets", |nodes, _, _| linked(nodes, 0, Proxy::reset)),
];

fn killed(nodes: &mut Nodes, who: &[usize]) -> Result<(), String> {
    who.iter().for_each(|node| nodes.kill(*node));
    std::thread::sleep(Duration::from_millis(1_500));
    Ok(())
}

fn linked(nodes: &mut Nodes, seconds: u64, begin: impl FnOnce(&Proxy)) -> Result<(), String> {
    begin(nodes.proxy());
    std::thread::sleep(Duration::from_secs(seconds));
    Ok(())
}
