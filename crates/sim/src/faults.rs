//! What happens to machines and the links between them: one fault at a time, and the end of all.

use std::time::Duration;

use runtime::sim::World;

use crate::limits::START;
use crate::machines::{FAR, Run};

/// Bytes of a disk that is not full.
const DISK_BYTES: u64 = 1 << 30;
/// Longest that a clock is off, microseconds; those of two nodes may be twice as far apart, and five seconds are refused.
const SKEW_MICROS: u64 = 1_500_000;
/// Kinds of faults as they are drawn; some are drawn more often than others.
pub(crate) const KINDS: u64 = 20;

/// What goes on until it is healed.
#[derive(Default)]
pub(crate) struct Lasting {
    /// Nodes whose process stands still.
    paused: Vec<usize>,
    /// Nodes whose disks have failed: they are started again when they are well, as operators do.
    troubled: Vec<usize>,
}

impl Lasting {
    /// Whether a disk is not well.
    pub(crate) fn is_disk_troubled(&self) -> bool {
        !self.troubled.is_empty()
    }

    /// Links are well again, and every process goes on.
    pub(crate) fn heal(&mut self, world: &mut World, run: &Run) {
        for at in self.paused.drain(..) {
            world.resume(run.hosts[at].node);
        }
        world.heal_all();
    }
}

/// A fault of any kind, of any nodes; what happened, by name.
pub(crate) fn any_fault(world: &mut World, run: &mut Run, lasting: &mut Lasting) -> Vec<&'static str> {
    let a = run.any();
    let which = (run.rng.below(KINDS), a, run.other_than(a));
    fault(world, run, lasting, which)
}

/// A fault of a kind below [`KINDS`], of one node or between two; what happened, by name.
pub(crate) fn fault(
    world: &mut World,
    run: &mut Run,
    lasting: &mut Lasting,
    (kind, a, b): (u64, usize, usize),
) -> Vec<&'static str> {
    let (node_a, node_b) = (run.hosts[a].node, run.hosts[b].node);
    let all_up = run.hosts.iter().all(|host| world.alive(host.node));
    let micros = Duration::from_micros;
    let happened = match kind {
        0 | 1 if all_up || run.rng.chance(0.3) => {
            world.power_cut(node_a);
            "power cut"
        }
        2 => {
            let count = run.count();
            let struck: Vec<usize> = (0..count).filter(|_| run.rng.chance(0.6)).collect();
            struck.iter().for_each(|at| world.power_cut(run.hosts[*at].node));
            if struck.len() < 2 { "power cut" } else { "power cut of several" }
        }
        3 if world.alive(node_a) && (all_up || run.rng.chance(0.5)) => {
            world.kill(node_a);
            "kill"
        }
        4 | 5 => return kill_while_it_starts(world, run, a),
        6 => {
            world.cut_one_way(node_a, node_b);
            "one-way cut"
        }
        7 => {
            world.cut(node_a, node_b);
            "cut"
        }
        8 | 9 => return cut_datacenters(world, run).into_iter().collect(),
        10 => {
            world.reset_connections(node_a, node_b);
            "connections reset"
        }
        11 => {
            let longest = 100 + run.rng.below(30_000);
            world.set_delay(micros(50), micros(longest), 0.01);
            "slow links"
        }
        12 => {
            world.slow_disk(node_a, (micros(50), micros(100 + run.rng.below(10_000))));
            "slow disk"
        }
        13 => {
            let used = DISK_BYTES - world.free_space(node_a);
            world.set_capacity(node_a, used + run.rng.below(100 << 10));
            lasting.troubled.push(a);
            "full disk"
        }
        14 => {
            world.fail_next_syncs(node_a, 1 + run.rng.below(3) as u32);
            lasting.troubled.push(a);
            "failed syncs"
        }
        15 | 16 if world.alive(node_a) => {
            world.pause(node_a);
            lasting.paused.push(a);
            "paused process"
        }
        18 => {
            let off = run.rng.below(2 * SKEW_MICROS) as i64 - SKEW_MICROS as i64;
            world.set_skew(node_a, off);
            "clock moved"
        }
        _ => {
            lasting.heal(world, run);
            return Vec::new();
        }
    };
    vec![happened]
}

/// The process of a node, which may have had no time to begin, dies while it starts, once or several times.
fn kill_while_it_starts(world: &mut World, run: &mut Run, at: usize) -> Vec<&'static str> {
    let node = run.hosts[at].node;
    if world.alive(node) {
        world.power_cut(node);
    }
    let mut happened = Vec::new();
    for _ in 0..1 + run.rng.below(2) {
        let shards = run.shards[at];
        run.hosts[at].boot(world, shards);
        let most = 1 << (10 + run.rng.below(10));
        let spell = Duration::from_micros(run.rng.below(most));
        world.run_for(spell);
        if run.hosts[at].is_ready() || !world.alive(node) {
            break;
        }
        match run.rng.chance(0.5) {
            true => world.kill(node),
            false => world.power_cut(node),
        }
        happened.push("kill while it starts");
    }
    happened
}

/// The links between two datacenters, both ways or one; of one datacenter, nothing.
fn cut_datacenters(world: &mut World, run: &mut Run) -> Option<&'static str> {
    if run.hosts.iter().all(|host| host.config.data_center != FAR) {
        return None;
    }
    let one_way = run.rng.chance(0.5);
    run.cut_datacenters(world, one_way);
    Some(if one_way { "datacenter cut off one way" } else { "datacenter cut off" })
}

/// Everything is well again, and all nodes serve clients.
pub(crate) fn end_all(world: &mut World, run: &mut Run, lasting: &mut Lasting) -> Result<(), String> {
    lasting.heal(world, run);
    world.set_delay(Duration::from_micros(20), Duration::from_micros(500), 0.0);
    for at in std::mem::take(&mut lasting.troubled) {
        let node = run.hosts[at].node;
        world.set_capacity(node, DISK_BYTES);
        world.fail_next_syncs(node, 0);
        if world.alive(node) {
            world.kill(node);
        }
    }
    run.boot_dead(world, 1.0);
    let until = world.now() + START;
    while world.now() < until && !is_served(world, run) {
        run.boot_dead(world, 1.0);
    }
    run.await_ready(world)
}

/// Runs until all nodes serve clients, or one has ended: false.
fn is_served(world: &mut World, run: &Run) -> bool {
    let hosts = &run.hosts;
    let step = world.now() + Duration::from_secs(1);
    let over = |world: &mut World| {
        step < world.now() || hosts.iter().all(|host| host.is_ready() || !world.alive(host.node))
    };
    world.run_until(over, START);
    hosts.iter().all(|host| host.is_ready())
}
