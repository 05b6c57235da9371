//! What happens to the machines of a cluster and the links between them, and how often it did.

use std::time::Duration;

use runtime::sim::World;

use super::Cluster;
use crate::faults::{KINDS, fault as of_machines};

/// Of the kinds of faults the one that is a cluster's own.
const AWAY: u64 = 17;

/// One fault, of any kind.
pub(super) fn fault(world: &mut World, cluster: &mut Cluster) {
    let a = cluster.run.any();
    let b = cluster.run.other_than(a);
    let kind = cluster.run.rng.below(KINDS);
    if kind == AWAY {
        return stay_away(world, cluster, a);
    }
    for happened in of_machines(world, &mut cluster.run, &mut cluster.lasting, (kind, a, b)) {
        cluster.count(happened);
    }
    if cluster.lasting.is_disk_troubled() {
        cluster.schema.borrow_mut().is_disk_troubled = true;
    }
}

/// A node is down for longer than hints are kept for it, if the window is so short.
fn stay_away(world: &mut World, cluster: &mut Cluster, at: usize) {
    if !cluster.is_window_short {
        return;
    }
    let host = &cluster.run.hosts[at];
    let (node, window) = (host.node, host.config.hints.window);
    if world.alive(node) {
        world.kill(node);
    }
    world.run_for(window + Duration::from_secs(4));
    cluster.count("away beyond the hint window");
}

/// Everything is well again, and all nodes serve clients.
pub(super) fn end_all(world: &mut World, cluster: &mut Cluster) -> Result<(), String> {
    crate::faults::end_all(world, &mut cluster.run, &mut cluster.lasting)?;
    cluster.schema.borrow_mut().is_disk_troubled = false;
    Ok(())
}
