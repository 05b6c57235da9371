//! A node loses its disk for good, and another takes its place and its tokens, with its address or one of its own, while clients write.
//!
//! Replicas have missed writes before, so that the two that are left differ: what was acknowledged at QUORUM may be on one of them alone. Then the
//! new node must have it: it is read at ALL, and at QUORUM of the new node and either of the others alone.

use std::net::SocketAddr;
use std::time::Duration;

use base::Prng;
use node::config::Replaced;
use runtime::Bug;
use runtime::sim::{NodeId, Task, World};
use types::Consistency;

use crate::limits::CONVERGE;
use crate::machines::finished;
use crate::session::{Trouble, insist};

use super::rows::{NODES, Run, Shared, diverge, judge, machine, miss, prepare, read_all, write_one};

/// What a table keeps its tombstones for: as long as a run.
pub(super) const GRACE_S: u64 = 864_000;

/// Writes through any of these nodes for as long as it lives.
async fn writer(nodes: Vec<SocketAddr>, book: Shared, mut rng: Prng) {
    loop {
        let to = nodes[rng.below(nodes.len() as u64) as usize];
        if let Ok(mut session) = insist(to, Duration::from_secs(1)).await {
            for _ in 0..1 + rng.below(10) {
                let level = if rng.chance(0.8) { Consistency::Quorum } else { Consistency::One };
                if let Err(Trouble::Lost(_)) = write_one(&mut session, &book, &mut rng, level).await {
                    break;
                }
                runtime::sleep(Duration::from_micros(rng.below(50_000))).await;
            }
        }
        runtime::sleep(Duration::from_millis(rng.below(200))).await;
    }
}

/// Takes the disk of a node away, and has a new node take its place.
pub(super) fn replace(world: &mut World, run: &mut Run, planted: Option<Bug>, dead: usize) {
    let (node, address) = (run.hosts[dead].node, run.hosts[dead].ip);
    world.power_cut(node);
    if run.rng.chance(0.5) {
        // A while without it: everybody knows.
        world.run_for(Duration::from_secs(5));
    }
    if run.rng.chance(0.5) {
        world.wipe_disk(node);
    } else {
        run.hosts[dead] = machine(world, 9, &mut run.rng, planted);
    }
    run.hosts[dead].config.replaces = Some(Replaced::Address(address));
    run.hosts[dead].boot(world, run.shards[dead]);
}

/// Kills the new node while it is filled, and now and then another.
pub(super) fn disturb(world: &mut World, run: &mut Run, new: usize) {
    for _ in 0..run.rng.below(4) {
        let spell = Duration::from_millis(run.rng.below(3_000));
        world.run_for(spell);
        let other = (new + 1 + run.rng.below(NODES as u64 - 1) as usize) % NODES;
        match run.rng.below(4) {
            0 => world.kill(run.hosts[new].node),
            1 => world.power_cut(run.hosts[new].node),
            2 => world.kill(run.hosts[other].node),
            _ => world.reset_connections(run.hosts[new].node, run.hosts[other].node),
        }
        world.run_for(Duration::from_millis(500));
        run.boot_dead(world);
    }
}

/// Reads everything at a level through a node and judges it.
fn judged(
    world: &mut World,
    run: &mut Run,
    client: NodeId,
    at: usize,
    level: Consistency,
) -> Result<(), String> {
    let until = world.now() + CONVERGE;
    loop {
        let start = world.now();
        let page_size = run.rng.chance(0.5).then(|| 1 + run.rng.below(9) as u32);
        let mut task = world.spawn(client, read_all(run.hosts[at].native(), level, page_size));
        match finished(world, &mut task, Duration::from_secs(120), "reading")? {
            Ok(seen) => {
                return judge(
                    &run.book,
                    &seen,
                    start,
                    world.now(),
                    level,
                    &format!("through node {at} at {level}"),
                );
            }
            // Whoever was away is not found back at once.
            Err(_) if world.now() < until => world.run_for(Duration::from_secs(2)),
            Err(text) => return Err(text),
        }
    }
}

/// One run.
pub(crate) fn play(world: &mut World, seed: u64, planted: Option<Bug>) -> Result<(), String> {
    let mut run = prepare(world, seed, planted, GRACE_S)?;
    diverge(world, &mut run)?;
    miss(world, &mut run)?;
    // Reads of pairs write back what one lacks, and so do writes by clients: half of the runs go without.
    let nodes: Vec<SocketAddr> = run.hosts.iter().map(|host| host.native()).collect();
    let writers: Vec<Task<()>> = (0..if seed.is_multiple_of(2) { 1 + run.rng.below(3) } else { 0 })
        .map(|_| {
            let rng = run.rng.fork();
            world.spawn(run.client, writer(nodes.clone(), run.book.clone(), rng))
        })
        .collect();
    world.run_for(Duration::from_secs(1));
    // The first one made the table, and any of them may lead.
    let new = run.rng.below(NODES as u64) as usize;
    replace(world, &mut run, planted, new);
    disturb(world, &mut run, new);
    run.hosts[new].await_replaced(world)?;
    world.run_for(Duration::from_millis(500));
    world.kill(run.client);
    drop(writers);
    world.run_for(Duration::from_secs(15));
    let client = world.add_client([10, 0, 1, 2].into());
    let others: Vec<usize> = (0..NODES).filter(|at| *at != new).collect();
    for (near, away) in [(others[0], others[1]), (others[1], others[0])] {
        for at in [new, near] {
            world.cut(run.hosts[away].node, run.hosts[at].node);
        }
        judged(world, &mut run, client, new, Consistency::Quorum)?;
        world.heal_all();
        world.run_for(Duration::from_secs(15));
    }
    for at in 0..NODES {
        judged(world, &mut run, client, at, Consistency::All)?;
    }
    Ok(())
}
