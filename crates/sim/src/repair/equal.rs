//! Replicas that missed writes are repaired: then each alone says the same, and what it must.
//!
//! Pages of a simulated repair end after a few rows, so that most partitions lie across several. Some tables let go of their tombstones
//! after two seconds: there deleted rows may come back by right, and only equality is asked for.

use std::time::Duration;

use runtime::Bug;
use runtime::sim::World;
use types::Consistency;

use crate::machines::finished;
use crate::repairs::{repair, repair_from};

use super::rows::{NODES, Run, Seen, all_ready, diverge, judge, prepare, read_all, write_some};

/// What a table keeps its tombstones for where they stay as long as a run.
const LONG_GRACE_S: u64 = 864_000;

/// Every range of the ring, by one node or by all; the mutations that were written.
fn repair_all(world: &mut World, run: &mut Run) -> Result<u64, String> {
    let primary_range = run.rng.chance(0.5);
    let first = run.rng.below(NODES as u64) as usize;
    let from: Vec<usize> = if primary_range { (0..NODES).collect() } else { vec![first] };
    let mut written = 0;
    for at in from {
        let repaired = repair_from(world, run.hosts[at].node, "ks", primary_range);
        written += repaired.map_err(|text| format!("node {at}: {text}"))?;
    }
    Ok(written)
}

/// A repair whose coordinator or replicas die or are cut off, with writes meanwhile. However it ends.
fn disturbed(world: &mut World, run: &mut Run) -> Result<(), String> {
    let at = run.rng.below(NODES as u64) as usize;
    drop(world.spawn(run.hosts[at].node, repair("ks", false)));
    let (rng, to) = (run.rng.fork(), run.hosts[(at + 1) % NODES].native());
    let writes = write_some(to, run.book.clone(), rng, 20, Consistency::Quorum);
    let mut task = world.spawn(run.client, writes);
    for _ in 0..run.rng.below(4) {
        let spell = Duration::from_millis(run.rng.below(40));
        world.run_for(spell);
        let victim = run.rng.below(NODES as u64) as usize;
        let node = run.hosts[victim].node;
        match run.rng.below(3) {
            0 => world.kill(node),
            1 => world.cut(node, run.hosts[(victim + 1) % NODES].node),
            _ => world.reset_connections(node, run.hosts[(victim + 1) % NODES].node),
        }
    }
    world.run_for(Duration::from_secs(5));
    world.heal_all();
    all_ready(world, run)?;
    finished(world, &mut task, Duration::from_secs(600), "writing beside a repair")?;
    world.run_for(Duration::from_secs(15));
    Ok(())
}

/// What each replica says by itself, cut off from the others.
fn alone(world: &mut World, run: &mut Run, judged: bool) -> Result<(), String> {
    for a in 0..NODES {
        world.cut(run.hosts[a].node, run.hosts[(a + 1) % NODES].node);
    }
    let mut first: Option<Seen> = None;
    for at in 0..NODES {
        let start = world.now();
        let page_size = run.rng.chance(0.5).then(|| 1 + run.rng.below(9) as u32);
        let mut task = world.spawn(run.client, read_all(run.hosts[at].native(), Consistency::One, page_size));
        let seen = finished(world, &mut task, Duration::from_secs(60), "reading one replica")??;
        if judged {
            // Whatever anybody has confirmed is on each replica now: it answers as all together would.
            let whose = format!("replica {at} behind a repair");
            judge(&run.book, &seen, start, world.now(), Consistency::All, &whose)?;
        }
        let known = first.get_or_insert_with(|| seen.clone());
        if let Some(key) = known.keys().chain(seen.keys()).find(|key| known.get(*key) != seen.get(*key)) {
            let (one, other) = (known.get(key), seen.get(key));
            return Err(format!("register {key:?}: replica 0 has {one:?}, replica {at} {other:?}"));
        }
    }
    world.heal_all();
    world.run_for(Duration::from_secs(15));
    Ok(())
}

/// One run.
pub(crate) fn play(world: &mut World, seed: u64, planted: Option<Bug>) -> Result<(), String> {
    let short = seed % 5 == 4;
    let mut run = prepare(world, seed, planted, if short { 2 } else { LONG_GRACE_S })?;
    diverge(world, &mut run)?;
    if run.rng.chance(0.4) {
        disturbed(world, &mut run)?;
    }
    repair_all(world, &mut run)?;
    alone(world, &mut run, !short)?;
    match repair_all(world, &mut run)? {
        0 => Ok(()),
        written => Err(format!("a repair of equal replicas has written {written} mutations")),
    }
}
