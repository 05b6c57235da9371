//! A node that took part in lightweight transactions loses its disk for good, and another takes its place, while clients go on with theirs.
//!
//! What a quorum with the old node has agreed on must be known to a quorum with the new one: what was seen of each register stays linearizable.

use std::time::Duration;

use runtime::Bug;
use runtime::sim::{Task, World};

use crate::Counts;
use crate::limits::{CONVERGE, START};
use crate::lwt::{
    CALLS_MAX, ON_THREE, Shared, WITHIN, client, create_schema, judged, settled, sweep_by_chance,
};
use crate::machines::{clients_on, finished, id_of};

use super::replaced::{GRACE_S, disturb, replace};
use super::rows::{NODES, Run, prepare};

/// What happens to links and nodes while clients work; every node runs again behind it.
fn trouble(world: &mut World, run: &mut Run) {
    let one = run.rng.below(NODES as u64) as usize;
    let other = (one + 1 + run.rng.below(NODES as u64 - 1) as usize) % NODES;
    match run.rng.below(5) {
        0 => world.cut(run.hosts[one].node, run.hosts[other].node),
        1 => world.reset_connections(run.hosts[one].node, run.hosts[other].node),
        2 => world.power_cut(run.hosts[one].node),
        3 => world.set_delay(Duration::from_micros(20), Duration::from_millis(1 + run.rng.below(200)), 0.1),
        _ => world.heal_all(),
    }
}

/// Two of the three go on without the third, and in the middle of a transaction without each other: `new`, which is about to be lost, may have committed
/// and confirmed what `with` has accepted and nobody else knows of.
fn agree_in_secret(world: &mut World, run: &mut Run, (new, with, without): (usize, usize, usize)) {
    let spell = Duration::from_micros(run.rng.below(50_000));
    world.run_for(spell);
    for at in [new, with] {
        world.cut(run.hosts[without].node, run.hosts[at].node);
    }
    let spell = Duration::from_micros(run.rng.below(150_000));
    world.run_for(spell);
    world.cut(run.hosts[new].node, run.hosts[with].node);
    let spell = Duration::from_micros(run.rng.below(50_000));
    world.run_for(spell);
    world.power_cut(run.hosts[new].node);
    // What the cut held back is lost with its sender.
    world.reset_connections(run.hosts[new].node, run.hosts[with].node);
}

/// One run.
pub(crate) fn play(
    world: &mut World,
    seed: u64,
    planted: Option<Bug>,
    counts: &mut Counts,
) -> Result<(), String> {
    let mut run = prepare(world, seed, planted, GRACE_S)?;
    let mut schema = world.spawn(run.client, create_schema(vec![run.hosts[0].native()], ON_THREE));
    finished(world, &mut schema, 2 * START, "making the table")?
        .map_err(|trouble| format!("the table is not made: {trouble}"))?;
    world.run_for(Duration::from_secs(2));
    let keys = 1 + run.rng.below(3);
    let seen = Shared::default();
    seen.borrow_mut().calls_max = CALLS_MAX / 4;
    let clients = |rng| client(seen.clone(), rng, keys);
    let mut tasks: Vec<Vec<Task<()>>> = run.hosts.iter().map(|_| Vec::new()).collect();
    for _ in 0..1 + run.rng.below(4) {
        clients_on(world, &run.hosts, &mut run.rng, 2, &mut tasks, clients);
        trouble(world, &mut run);
        let spell = Duration::from_micros(run.rng.below(400_000));
        world.run_for(spell);
        run.boot_dead(world);
    }
    let new = run.rng.below(NODES as u64) as usize;
    let with = (new + 1 + run.rng.below(NODES as u64 - 1) as usize) % NODES;
    let without = NODES - new - with;
    world.heal_all();
    world.set_delay(Duration::from_micros(20), Duration::from_millis(1 + run.rng.below(10)), 0.0);
    run.boot_dead(world);
    // All know each other again.
    world.run_for(Duration::from_secs(6));
    seen.borrow_mut().calls_max = CALLS_MAX / 2;
    // Nobody is at work: all of it, or as much as there is time for before the next ones come.
    sweep_by_chance(world, &run.hosts, &mut run.rng, &seen);
    let spell = Duration::from_micros(run.rng.below(50_000));
    world.run_for(spell);
    clients_on(world, &run.hosts, &mut run.rng, 2, &mut tasks, clients);
    agree_in_secret(world, &mut run, (new, with, without));
    let idle = run.rng.chance(0.7);
    if idle {
        // Nobody comes across what is open before the new node counts.
        seen.borrow_mut().over = true;
        world.run_for(2 * WITHIN);
    }
    replace(world, &mut run, planted, new);
    *counts.entry("replacements").or_default() += 1;
    tasks[new].clear();
    world.heal_all();
    world.set_delay(Duration::from_micros(20), Duration::from_micros(500), 0.0);
    run.boot_dead(world);
    clients_on(world, &run.hosts, &mut run.rng, 2, &mut tasks, clients);
    sweep_by_chance(world, &run.hosts, &mut run.rng, &seen);
    if run.rng.chance(0.5) {
        disturb(world, &mut run, new);
    }
    run.hosts[new].await_replaced(world)?;
    seen.borrow_mut().calls_max = CALLS_MAX;
    if idle {
        tasks.iter_mut().for_each(Vec::clear);
        seen.borrow_mut().over = false;
    }
    // Quorums of the new node and either of the others alone.
    for turn in 0..2 + run.rng.below(3) {
        let away = if (turn == 0) == run.rng.chance(0.8) { with } else { without };
        for at in (0..NODES).filter(|at| *at != away) {
            world.cut(run.hosts[away].node, run.hosts[at].node);
        }
        clients_on(world, &run.hosts, &mut run.rng, 2, &mut tasks, clients);
        sweep_by_chance(world, &run.hosts, &mut run.rng, &seen);
        let spell = Duration::from_millis(200 + run.rng.below(1_000));
        world.run_for(spell);
        world.heal_all();
    }
    seen.borrow_mut().over = true;
    world.run_for(Duration::from_secs(15));
    drop(tasks);
    for host in &run.hosts {
        let here = id_of(world, host)?;
        let mut end = world.spawn(host.node, settled(seen.clone(), keys, here));
        finished(world, &mut end, 4 * CONVERGE, "changing everything after the faults")??;
    }
    judged(world, run.client, &seen, counts)
}
