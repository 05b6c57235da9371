//! The long run: a node is killed, the next one when all are up and have what they missed, on and on, under load at QUORUM in the default mode of
//! the commitlog. Nothing acknowledged may be lost, no read may be older than what its client knew to be acknowledged.
//!
//! In the end every key is read from each node alone: how many differ is reported. It is no failure by itself: a write at QUORUM may miss one replica,
//! which a read at QUORUM makes good.

use std::time::{Duration, Instant};

use super::load::Settings;
use super::nodes::Nodes;
use super::{expect, python_script};
use crate::python;
use crate::suite::Options;

/// How long a killed node may take to be up again everywhere, on a busy machine.
const UP_WITHIN: Duration = Duration::from_secs(60);
/// How long hints may take to drain.
const DRAINED_WITHIN: Duration = Duration::from_secs(120);
const IN_FLIGHT: usize = 24;

/// So many minutes of it.
pub fn run(options: &Options, shards: u16, minutes: u64) -> Result<String, String> {
    let mut nodes = Nodes::start(options, 3, shards)?;
    nodes.wait_until_all_up(UP_WITHIN)?;
    let mut script = script(&nodes, "schema", "3")?;
    expect(&script.line()?, "SCHEMA")?;
    script.finish(UP_WITHIN)?;
    let mut client = self::script(&nodes, "load", "0")?;
    expect(&client.line()?, "STARTED")?;
    let end = Instant::now() + Duration::from_secs(60 * minutes);
    let mut random = options.seed;
    let (mut kills, mut hints_known) = (0u32, true);
    while Instant::now() < end {
        let draw = next(&mut random);
        let (node, pause) = ((draw % 3) as usize, Duration::from_millis(draw / 3 % 3_000));
        nodes.kill(node);
        kills += 1;
        std::thread::sleep(pause);
        nodes.start_again(node).map_err(|error| format!("kill {kills}: {error}"))?;
        nodes.wait_until_all_up(UP_WITHIN).map_err(|error| format!("kill {kills}: {error}"))?;
        hints_known =
            hints_known && wait_for_hints(&nodes).map_err(|error| format!("kill {kills}: {error}"))?;
        // Some load while all are there.
        std::thread::sleep(Duration::from_millis(500 + draw % 1_500));
    }
    client.say("STOP")?;
    expect(&client.line()?, "DONE")?;
    let told = client.line()?;
    client.finish(UP_WITHIN)?;
    let value: serde_json::Value = serde_json::from_str(&told).map_err(|error| format!("{error}: {told}"))?;
    let count = |name: &str| value[name].as_u64().ok_or_else(|| format!("no {name} in {told}"));
    let unavailable =
        value["errors"].as_object().into_iter().flatten().any(|(class, _)| class.contains("Unavailable"));
    if count("lost")? > 0
        || count("stale")? > 0
        || count("writes")? == 0
        || count("reads")? == 0
        || unavailable
    {
        return Err(told);
    }
    let mut check = self::script(&nodes, "quorum", "")?;
    let checked = verdict(&mut check)?;
    if !checked.starts_with("CHECKED ") {
        return Err(format!("{checked}; {told}"));
    }
    let mut alone = self::script(&nodes, "alone", "")?;
    let differences = verdict(&mut alone)?;
    nodes.stop()?;
    let hints =
        if hints_known { "each after hints had drained" } else { "this release says nothing of hints" };
    Ok(format!("{kills} kills, {hints}; {told}; {checked}; alone: {differences}"))
}

/// The line behind those that say how far a check is.
fn verdict(check: &mut python::Script) -> Result<String, String> {
    loop {
        let line = check.line()?;
        if !line.starts_with("READ ") {
            return Ok(line);
        }
    }
}

fn script(nodes: &Nodes, word: &str, argument: &str) -> Result<python::Script, String> {
    python_script(nodes, "cluster_long", &Settings::quorum(IN_FLIGHT), word, argument)
}

/// Waits until no node has hints for another one; false where nodetool does not know the word.
fn wait_for_hints(nodes: &Nodes) -> Result<bool, String> {
    let end = Instant::now() + DRAINED_WITHIN;
    for node in 0..nodes.count() {
        loop {
            let said = nodes.say(node, &["listpendinghints"])?;
            if said.code != 0 {
                return Ok(false);
            }
            if said.out.contains("does not have any pending hints") {
                break;
            }
            if Instant::now() > end {
                return Err(format!(
                    "node {} still has hints after {DRAINED_WITHIN:?}: {:?}",
                    node + 1,
                    said.out
                ));
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    }
    Ok(true)
}

/// Knuth's generator of 64 bits; its upper half.
pub fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}
