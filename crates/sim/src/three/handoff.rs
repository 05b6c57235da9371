//! One node misses writes: when hints have drained, each node alone has all that was acknowledged.
//!
//! A node is killed, loses power, is paused or cut off from one or both of the others, which go on taking writes. What is kept for it
//! is on the disk of those who keep it before one of them may die, too; it may return with another number of shards, and deliveries are
//! interrupted. Nothing is read meanwhile, so that no read repairs anything; in the end every node is asked at ONE, which a node that
//! holds everything answers by itself.

use super::*;

/// Longest that a write of the scenario is under way: the timeout of its replicas, and some time for what is behind it.
const WRITE: Duration = Duration::from_secs(4);
/// Longest that hints may take to drain when everybody is up and nothing is cut.
const DRAIN: Duration = Duration::from_secs(120);

/// How a node comes to miss writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Away {
    Killed,
    Powerless,
    Paused,
    /// From both others.
    CutOff,
    /// From this one.
    CutFrom(usize),
}

impl Away {
    fn drawn(rng: &mut Prng, victim: usize) -> Away {
        match rng.below(6) {
            0 | 1 => Away::Killed,
            2 => Away::Powerless,
            3 => Away::Paused,
            4 => Away::CutOff,
            _ => Away::CutFrom((victim + 1 + rng.below(NODES as u64 - 1) as usize) % NODES),
        }
    }

    fn begin(self, world: &mut World, run: &Run, victim: usize) {
        let node = run.hosts[victim].node;
        match self {
            Away::Killed => world.kill(node),
            Away::Powerless => world.power_cut(node),
            Away::Paused => world.pause(node),
            Away::CutOff => others(victim).for_each(|other| world.cut(node, run.hosts[other].node)),
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

fn others(victim: usize) -> impl Iterator<Item = usize> {
    (0..NODES).filter(move |n| *n != victim)
}

/// Writes through these nodes, one after the other.
async fn write_some(nodes: Vec<SocketAddr>, book: Shared, count: u64, mut rng: Prng) {
    let (open, statements) = nodes.iter().map(|_| (None, Statements::default())).unzip();
    let mut sessions = Sessions { nodes, open, statements, at: 0 };
    for _ in 0..count {
        if rng.chance(0.3) {
            sessions.move_on(&mut rng);
        }
        let written = match sessions.get().await {
            Some(session) => write(session, &book, &mut rng).await,
            None => Err(Trouble::Lost("no session".to_string())),
        };
        if let Err(Trouble::Lost(_)) = written {
            sessions.close();
            sessions.move_on(&mut rng);
        }
        runtime::sleep(Duration::from_micros(rng.below(20_000))).await;
    }
}

/// Plays it, when everything is up and was read at ALL.
pub(super) fn play(world: &mut World, run: &mut Run, ties: Ties) -> Result<(), String> {
    for _ in 0..1 + run.rng.below(2) {
        let victim = run.rng.below(NODES as u64) as usize;
        let away = Away::drawn(&mut run.rng, victim);
        miss(world, run, victim, away)?;
        interrupt(world, run, victim, ties);
        world.heal_all();
        boot_dead(world, run, 1.0);
        for host in &run.hosts {
            host.await_ready(world)?;
        }
        drain(world, run)?;
        let judge = world.add_client(IpAddr::from([10, 0, 1, 3]));
        for host in &run.hosts {
            let mut alone = world.spawn(judge, read_alone(host.native(), run.book.clone()));
            finished(world, &mut alone, CONVERGE, "reading each node alone")??;
            violation(run)
                .map_err(|text| format!("node {} alone, after {victim} was {away:?}: {text}", host.ip))?;
        }
        world.kill(judge);
    }
    Ok(())
}

/// The node is away while the others take writes; what was kept for it is on their disks when this returns.
fn miss(world: &mut World, run: &mut Run, victim: usize, away: Away) -> Result<(), String> {
    away.begin(world, run, victim);
    // Sometimes the others know already.
    world.run_for(Duration::from_millis(run.rng.below(2) * 4_000));
    let asked: Vec<SocketAddr> = others(victim).map(|n| run.hosts[n].native()).collect();
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
    violation(run)
}

/// What happens while hints are delivered: anything but the loss of a disk.
fn interrupt(world: &mut World, run: &mut Run, victim: usize, ties: Ties) {
    for _ in 0..run.rng.below(4) {
        let n = run.rng.below(NODES as u64) as usize;
        let other = (victim + 1) % NODES;
        match run.rng.below(5) {
            0 => world.power_cut(run.hosts[n].node),
            1 => world.kill(run.hosts[n].node),
            2 => world.reset_connections(run.hosts[victim].node, run.hosts[other].node),
            3 => world.cut_one_way(run.hosts[other].node, run.hosts[victim].node),
            _ => {}
        }
        // Members of a cluster say how many shards they have; others have it in their configurations.
        if ties == Ties::Cluster && !world.alive(run.hosts[n].node) && run.rng.chance(0.5) {
            run.shards[n] = 1 + run.rng.below(4) as u16;
        }
        boot_dead(world, run, 0.7);
        world.run_for(Duration::from_micros(run.rng.below(4_000_000)));
        world.heal_all();
    }
}

/// Waits until no node keeps anything for another.
fn drain(world: &mut World, run: &Run) -> Result<(), String> {
    let end = world.now() + DRAIN;
    loop {
        let mut kept = Vec::new();
        for host in &run.hosts {
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

/// What one node has, judged as if all had been asked.
async fn read_alone(to: SocketAddr, book: Shared) -> Result<(), String> {
    let told = |trouble: Trouble| format!("reading {to} alone: {trouble}");
    let (partitions, rows) = (book.borrow().partitions, book.borrow().rows);
    let mut session = insist(to, START).await.map_err(told)?;
    for k in 0..partitions {
        let start = runtime::now();
        let cql = format!("SELECT c, v FROM ks.r WHERE k = {k}");
        let found = session.all(&cql, Ask::at(Consistency::One)).await.map_err(told)?;
        let mut seen: BTreeMap<i32, Option<String>> =
            found.iter().map(|row| (number(&row[0]), text(&row[1]))).collect();
        for c in 0..rows {
            judge(&book, (k, c), start, Consistency::All, seen.remove(&c).flatten().as_deref());
        }
    }
    Ok(())
}
