//! What happens to the machines of a cluster and the links between them, and how often it did.

use std::time::Duration;

use runtime::sim::World;

use super::Cluster;
use crate::limits::START;
use crate::machines::FAR;

/// Bytes of a disk that is not full.
const DISK_BYTES: u64 = 1 << 30;
/// Longest that a clock is off, microseconds; those of two nodes may be twice as far apart, and five seconds are refused.
const SKEW_MICROS: u64 = 1_500_000;

/// What goes on until it is healed.
#[derive(Default)]
pub(super) struct Lasting {
    /// Nodes whose process stands still.
    paused: Vec<usize>,
    /// Nodes whose disks have failed: they are started again when they are well, as operators do.
    troubled: Vec<usize>,
}

/// One fault, of any kind.
pub(super) fn fault(world: &mut World, cluster: &mut Cluster) {
    let run = &mut cluster.run;
    let a = run.any();
    let b = run.other_than(a);
    let (node_a, node_b) = (run.hosts[a].node, run.hosts[b].node);
    let all_up = run.hosts.iter().all(|host| world.alive(host.node));
    let micros = Duration::from_micros;
    let kind = match cluster.run.rng.below(20) {
        0 | 1 if all_up || cluster.run.rng.chance(0.3) => {
            world.power_cut(node_a);
            "power cut"
        }
        2 => {
            let count = cluster.run.count();
            let struck: Vec<usize> = (0..count).filter(|_| cluster.run.rng.chance(0.6)).collect();
            struck.iter().for_each(|at| world.power_cut(cluster.run.hosts[*at].node));
            if struck.len() < 2 { "power cut" } else { "power cut of several" }
        }
        3 if world.alive(node_a) && (all_up || cluster.run.rng.chance(0.5)) => {
            world.kill(node_a);
            "kill"
        }
        4 | 5 => return kill_while_it_starts(world, cluster, a),
        6 => {
            world.cut_one_way(node_a, node_b);
            "one-way cut"
        }
        7 => {
            world.cut(node_a, node_b);
            "cut"
        }
        8 | 9 => return cut_datacenters(world, cluster),
        10 => {
            world.reset_connections(node_a, node_b);
            "connections reset"
        }
        11 => {
            let longest = 100 + cluster.run.rng.below(30_000);
            world.set_delay(micros(50), micros(longest), 0.01);
            "slow links"
        }
        12 => {
            world.slow_disk(node_a, (micros(50), micros(100 + cluster.run.rng.below(10_000))));
            "slow disk"
        }
        13 => {
            let used = DISK_BYTES - world.free_space(node_a);
            world.set_capacity(node_a, used + cluster.run.rng.below(100 << 10));
            trouble(cluster, a);
            "full disk"
        }
        14 => {
            world.fail_next_syncs(node_a, 1 + cluster.run.rng.below(3) as u32);
            trouble(cluster, a);
            "failed syncs"
        }
        15 | 16 if world.alive(node_a) => {
            world.pause(node_a);
            cluster.lasting.paused.push(a);
            "paused process"
        }
        17 => return stay_away(world, cluster, a),
        18 => {
            let off = cluster.run.rng.below(2 * SKEW_MICROS) as i64 - SKEW_MICROS as i64;
            world.set_skew(node_a, off);
            "clock moved"
        }
        _ => {
            resume(world, cluster);
            return world.heal_all();
        }
    };
    cluster.count(kind);
}

fn trouble(cluster: &mut Cluster, at: usize) {
    cluster.lasting.troubled.push(at);
    cluster.schema.borrow_mut().is_disk_troubled = true;
}

fn resume(world: &mut World, cluster: &mut Cluster) {
    for at in cluster.lasting.paused.drain(..) {
        world.resume(cluster.run.hosts[at].node);
    }
}

/// The process of a node, which may have had no time to begin, dies while it starts, once or several times.
fn kill_while_it_starts(world: &mut World, cluster: &mut Cluster, at: usize) {
    let node = cluster.run.hosts[at].node;
    if world.alive(node) {
        world.power_cut(node);
    }
    for _ in 0..1 + cluster.run.rng.below(2) {
        let shards = cluster.run.shards[at];
        cluster.run.hosts[at].boot(world, shards);
        let most = 1 << (10 + cluster.run.rng.below(10));
        let spell = Duration::from_micros(cluster.run.rng.below(most));
        world.run_for(spell);
        if cluster.run.hosts[at].is_ready() || !world.alive(node) {
            return;
        }
        match cluster.run.rng.chance(0.5) {
            true => world.kill(node),
            false => world.power_cut(node),
        }
        cluster.count("kill while it starts");
    }
}

/// The links between two datacenters, both ways or one; of one datacenter, nothing.
fn cut_datacenters(world: &mut World, cluster: &mut Cluster) {
    if cluster.run.hosts.iter().all(|host| host.config.data_center != FAR) {
        return;
    }
    let one_way = cluster.run.rng.chance(0.5);
    cluster.run.cut_datacenters(world, one_way);
    cluster.count(if one_way { "datacenter cut off one way" } else { "datacenter cut off" });
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
    resume(world, cluster);
    world.heal_all();
    world.set_delay(Duration::from_micros(20), Duration::from_micros(500), 0.0);
    for at in std::mem::take(&mut cluster.lasting.troubled) {
        let node = cluster.run.hosts[at].node;
        world.set_capacity(node, DISK_BYTES);
        world.fail_next_syncs(node, 0);
        if world.alive(node) {
            world.kill(node);
        }
    }
    cluster.run.boot_dead(world, 1.0);
    let until = world.now() + START;
    while world.now() < until && !is_served(world, cluster) {
        cluster.run.boot_dead(world, 1.0);
    }
    cluster.run.await_ready(world)?;
    cluster.schema.borrow_mut().is_disk_troubled = false;
    Ok(())
}

/// Runs until all nodes serve clients, or one has ended: false.
fn is_served(world: &mut World, cluster: &Cluster) -> bool {
    let hosts = &cluster.run.hosts;
    let step = world.now() + Duration::from_secs(1);
    let over = |world: &mut World| {
        step < world.now() || hosts.iter().all(|host| host.is_ready() || !world.alive(host.node))
    };
    world.run_until(over, START);
    hosts.iter().all(|host| host.is_ready())
}
