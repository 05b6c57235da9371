//! A rolling restart from another build to this one, as an upgrade is done: one node after the other is drained, stopped in order and started
//! with this binary, under load of real drivers. `--older PATH` names the other build; without it every node comes back as it was.

use std::path::Path;
use std::time::{Duration, Instant};

use super::load::{self, Loads, Settings, Summary};
use super::nodes::{Nodes, Place, Way};
use super::{ERRORS_WITHIN, UP_WITHIN};
use crate::suite::Options;

const NODES: usize = 3;
/// How long all nodes are up before the next one is stopped, and how long one is away.
const PAUSE: Duration = Duration::from_secs(2);

/// No write that was acknowledged is lost, no level is refused, and every node takes part in changes of the schema whoever is which.
pub fn run(options: &Options, shards: u16) -> Result<String, String> {
    let mut nodes = Nodes::lay_out(options, &[Place::PLAIN; NODES], shards, Way::Straight)?;
    let older: &Path = options.older.as_deref().unwrap_or(&options.binary);
    for node in 0..NODES {
        nodes.start_of(node).binary = older.to_owned();
    }
    nodes.start_all()?;
    nodes.wait_until_all_up(UP_WITHIN)?;
    nodes.make_table("3")?;
    let drivers = if options.quick { load::QUICK } else { load::ALL };
    let mut loads = Loads::start(&nodes, drivers, &Settings::quorum(8))?;
    // When each stop began, and when it had ended: either may break connections.
    let mut stops = Vec::new();
    // The seed last, as most would do it.
    for node in (0..NODES).rev() {
        std::thread::sleep(PAUSE);
        let begun = Instant::now();
        nodes.nodetool(node, &["drain"])?;
        nodes.stop_one(node)?;
        stops.extend([begun, Instant::now()]);
        let table = format!("made_without_{node}");
        loads.create(0, &table)?;
        std::thread::sleep(PAUSE);
        nodes.start_of(node).binary = options.binary.clone();
        nodes.start_again(node)?;
        nodes.wait_until_all_up(UP_WITHIN)?;
        loads.all_see(&table)?;
    }
    loads.share_schema("upgraded")?;
    let summaries = loads.stop()?;
    for summary in &summaries {
        summary.judge(&stops, ERRORS_WITHIN)?;
    }
    let checked = nodes.check_acked()?;
    let told: Vec<String> = summaries.iter().map(Summary::told).collect();
    nodes.stop()?;
    let from = if options.older.is_some() { "from another build" } else { "of one build" };
    let took: Vec<String> =
        stops.chunks_exact(2).map(|stop| format!("{:.1?}", stop[1].duration_since(stop[0]))).collect();
    Ok(format!("{NODES} nodes {from}, stopped in {}: {checked}; {}", took.join(", "), told.join("; ")))
}
