//! One node misses writes: when hints have drained, each node alone has all that was acknowledged.
//!
//! A node is killed, loses power, is paused or cut off from one or both of the others, which go on taking writes. What is kept for it
//! is on the disk of those who keep it before one of them may die, too; it may return with another number of shards, and deliveries are
//! interrupted. Nothing is read meanwhile, so that no read repairs anything; in the end every node is asked at ONE, which a node that
//! holds everything answers by itself.

use std::net::IpAddr;
use std::time::Duration;

use base::Prng;
use coordinator::Coordinator;
use runtime::sim::{Task, World};

use crate::clients::{Door, Sessions, Shared, read_alone, write};
use crate::limits::{CONVERGE, START};
use crate::machines::{Run, finished};
use crate::repairs::repair_all;
use crate::session::Trouble;

/// Longest that a write of the scenario is under way: the timeout of its replicas, and some time for what is behind it.
const WRITE: Duration = Duration::from_secs(4);
/// Longest that hints may take to drain when all nodes are up and nothing is cut.
const DRAIN: Duration = Duration::from_secs(120);

/// How a node comes to miss writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Away {
    Killed,
    Powerless,
    Paused,
    /// From all others.
    CutOff,
    /// From this one.
    CutFrom(usize),
}

impl Away {
    fn drawn(run: &mut Run, victim: usize) -> Away {
        match run.rng.below(6) {
            0 | 1 => Away::Killed,
            2 => Away::Powerless,
            3 => Away::Paused,
            4 => Away::CutOff,
            _ => Away::CutFrom(run.other_than(victim)),
        }
    }

    fn begin(self, world: &mut World, run: &Run, victim: usize) {
        let node = run.hosts[victim].node;
        match self {
            Away::Killed => world.kill(node),
            Away::Powerless => world.power_cut(node),
            Away::Paused => world.pause(node),
            Away::CutOff => others(run, victim).for_each(|other| world.cut(node, run.hosts[other].node)),
            Away::CutFrom(other) => world.cut(node, run.hosts[other].node),
        }
    }

    fn end(self, world: &mut World, run: &Run, victim: usize) {
        match self {
            Away::Paused => world.resume(run.hosts[victim].node),
            // The dead are started with all others.
            Away::Killed | Away::Powerless => {}
            Away::CutOff | Away::CutFrom(_) => world.heal_all(),
        }
    }
}

fn others(run: &Run, victim: usize) -> impl Iterator<Item = usize> {
    (0..run.count()).filter(move |n| *n != victim)
}

/// Writes through these nodes, one after the other.
async fn write_some(nodes: Vec<Door>, book: Shared, count: u64, mut rng: Prng) {
    let mut sessions = Sessions::new(nodes);
    for _ in 0..count {
        if rng.chance(0.3) {
            sessions.move_on(&mut rng);
        }
        if let Err(Trouble::Lost(_)) = write(&mut sessions, &book, &mut rng).await {
            sessions.close();
            sessions.move_on(&mut rng);
        }
        runtime::sleep(Duration::from_micros(rng.below(20_000))).await;
    }
}

/// What is possible besides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rules {
    /// A node says how many shards it has, and may return with another number.
    pub(crate) may_reshard: bool,
    /// Not everything is kept: a repair brings the rest.
    pub(crate) repairs: bool,
}

/// Plays it, when everything is up and was read at ALL.
pub(crate) fn play(world: &mut World, run: &mut Run, rules: Rules) -> Result<(), String> {
    for _ in 0..1 + run.rng.below(2) {
        let victim = run.any();
        let away = Away::drawn(run, victim);
        miss(world, run, victim, away)?;
        interrupt(world, run, victim, rules);
        world.heal_all();
        run.all_ready(world)?;
        all_heard(world, run)?;
        drain(world, run)?;
        if rules.repairs {
            repair_all(world, run)?;
        }
        alone(world, run).map_err(|text| format!("after {} was {away:?}: {text}", run.hosts[victim].ip))?;
    }
    Ok(())
}

/// Waits until every node hears every other one: who was cut off may have no hints, and believes for a while that nobody is there.
fn all_heard(world: &mut World, run: &Run) -> Result<(), String> {
    for host in &run.hosts {
        host.still_runs(world)?;
        let mut hears = world.spawn(host.node, async {
            let hears_all = || {
                let snapshot = runtime::local::<Coordinator>().topology();
                snapshot.members().iter().all(|member| snapshot.is_alive(member.host_id))
            };
            while !hears_all() {
                runtime::sleep(Duration::from_millis(100)).await;
            }
        });
        finished(world, &mut hears, CONVERGE, "hearing all others")?;
    }
    Ok(())
}

/// Each node alone has everything.
pub(crate) fn alone(world: &mut World, run: &Run) -> Result<(), String> {
    let judge = world.add_client(IpAddr::from([10, 0, 1, 3]));
    for at in 0..run.count() {
        let mut alone = world.spawn(judge, read_alone(run.door(at), run.book.clone()));
        finished(world, &mut alone, CONVERGE, "reading each node alone")??;
        run.verdict().map_err(|text| format!("node {} alone: {text}", run.hosts[at].ip))?;
    }
    world.kill(judge);
    Ok(())
}

/// The node is away while the others take writes; what was kept for it is on their disks when this returns.
fn miss(world: &mut World, run: &mut Run, victim: usize, away: Away) -> Result<(), String> {
    away.begin(world, run, victim);
    // Sometimes the others know already.
    world.run_for(Duration::from_millis(run.rng.below(2) * 4_000));
    let asked: Vec<Door> = others(run, victim).map(|n| run.door(n)).collect();
    let writer = world.add_client(IpAddr::from([10, 0, 1, 4]));
    let mut writers: Vec<Task<()>> = (0..1 + run.rng.below(3))
        .map(|_| {
            let (count, rng) = (1 + run.rng.below(30), run.rng.fork());
            world.spawn(writer, write_some(asked.clone(), run.book.clone(), count, rng))
        })
        .collect();
    for task in &mut writers {
        finished(world, task, START, "writing while a node is away")?;
    }
    world.kill(writer);
    let periods = run.hosts.iter().map(|host| host.config.hints.flush_period);
    world.run_for(WRITE + 2 * periods.max().unwrap_or_default());
    away.end(world, run, victim);
    run.verdict()
}

/// What happens while hints are delivered: anything but the loss of a disk.
fn interrupt(world: &mut World, run: &mut Run, victim: usize, rules: Rules) {
    for _ in 0..run.rng.below(4) {
        let n = run.any();
        let other = (victim + 1) % run.count();
        match run.rng.below(5) {
            0 => world.power_cut(run.hosts[n].node),
            1 => world.kill(run.hosts[n].node),
            2 => world.reset_connections(run.hosts[victim].node, run.hosts[other].node),
            3 => world.cut_one_way(run.hosts[other].node, run.hosts[victim].node),
            _ => {}
        }
        if rules.may_reshard && !world.alive(run.hosts[n].node) && run.rng.chance(0.5) {
            run.shards[n] = 1 + run.rng.below(4) as u16;
        }
        run.boot_dead(world, 0.7);
        world.run_for(Duration::from_micros(run.rng.below(4_000_000)));
        world.heal_all();
    }
}

/// Waits until no node keeps anything for another.
pub(crate) fn drain(world: &mut World, run: &Run) -> Result<(), String> {
    let end = world.now() + DRAIN;
    loop {
        let mut kept = Vec::new();
        for host in &run.hosts {
            host.still_runs(world)?;
            let mut pending = world.spawn(host.node, hints::pending());
            let pending = finished(world, &mut pending, CONVERGE, "counting hints")?;
            kept.extend(pending.into_iter().map(|(target, pending)| (host.ip, target, pending)));
        }
        if kept.is_empty() {
            return Ok(());
        }
        if end < world.now() {
            return Err(format!("hints are not delivered after {DRAIN:?}: {kept:?}"));
        }
        world.run_for(Duration::from_millis(500));
    }
}
