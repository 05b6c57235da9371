//! What changes the members of a cluster, one at a time, when nothing else disturbs it: a join without data, a replacement, an older folder.

use std::time::Duration;

use base::Instant;
use coordinator::Coordinator;
use node::config::{Replaced, Seed};
use runtime::sim::{DiskImage, World};
use types::Consistency;

use super::{Cluster, Working, end_work, machine_like, shards_of, work};
use crate::clients::Levels;
use crate::handoff::drain;
use crate::limits::CONVERGE;
use crate::machines::{FAR, finished, id_of};
use crate::repairs::repair_all;

/// By when the others know that a node does not answer.
const KNOWN_DOWN: Duration = Duration::from_secs(6);

/// One of them, or none.
pub(super) fn any(world: &mut World, cluster: &mut Cluster) -> Result<(), String> {
    match cluster.run.rng.below(5) {
        0 => join(world, cluster).map_err(|text| format!("a join without data: {text}")),
        1 => {
            let (at, working) = (cluster.run.any(), maybe_work(world, cluster)?);
            world.power_cut(cluster.run.hosts[at].node);
            replace(world, cluster, at, working).map_err(|text| format!("a replacement: {text}"))
        }
        2 => older_folder(world, cluster).map_err(|text| format!("an older folder: {text}")),
        _ => Ok(()),
    }
}

fn maybe_work(world: &mut World, cluster: &mut Cluster) -> Result<Option<Working>, String> {
    match cluster.run.rng.chance(0.5) {
        true => work(world, cluster).map(Some),
        false => Ok(None),
    }
}

/// All nodes are up and agree once more.
fn calm(world: &mut World, cluster: &mut Cluster, working: Option<Working>) -> Result<(), String> {
    world.run_for(Duration::from_millis(500));
    cluster.verdict()?;
    working.into_iter().for_each(|working| end_work(world, working));
    world.run_for(Duration::from_secs(15));
    cluster.run.read_everything(world)?;
    cluster.verdict()
}

/// A node joins without the data of the tokens that it takes, as `auto_bootstrap: false` has it. Replicas are made alike before, so that the one
/// whose place it takes leaves nothing that others lack; a repair brings the new one what it must hold. In between reads may miss anything.
fn join(world: &mut World, cluster: &mut Cluster) -> Result<(), String> {
    drain(world, &cluster.run)?;
    repair_all(world, &cluster.run)?;
    cluster.lose_one();
    let usual = {
        let mut book = cluster.run.book.borrow_mut();
        book.judged_from = Instant(u64::MAX);
        let reads = book.levels.reads.clone();
        let writes = vec![Consistency::Quorum, Consistency::All];
        std::mem::replace(&mut book.levels, Levels { writes, reads })
    };
    let working = maybe_work(world, cluster)?;
    cluster.addresses += 1;
    let mut host = machine_like(world, cluster, cluster.addresses);
    host.config.auto_bootstrap = false;
    // The seeds of the others may have been replaced by nodes with other addresses.
    let seed = cluster.run.any();
    host.config.seeds = vec![Seed { host: cluster.run.hosts[seed].ip.to_string(), port: None }];
    if cluster.run.hosts.iter().any(|host| host.config.data_center == FAR) && cluster.run.rng.chance(0.5) {
        host.config.data_center = FAR.to_owned();
    }
    let shards = shards_of(&mut cluster.run.rng);
    host.boot(world, shards);
    host.await_ready(world)?;
    cluster.run.hosts.push(host);
    cluster.run.shards.push(shards);
    cluster.count("join that skips data");
    world.run_for(Duration::from_secs(6));
    drain(world, &cluster.run)?;
    repair_all(world, &cluster.run)?;
    {
        let mut book = cluster.run.book.borrow_mut();
        book.judged_from = world.now();
        book.levels = usual;
    }
    cluster.lose_one();
    calm(world, cluster, working)
}

/// The disk of a node that is down is gone for good; a new node takes its place, with its address or another.
fn replace(
    world: &mut World,
    cluster: &mut Cluster,
    dead: usize,
    working: Option<Working>,
) -> Result<(), String> {
    cluster.lose_one();
    let old = &cluster.run.hosts[dead];
    let (node, address) = (old.node, old.ip);
    let place = (old.config.data_center.clone(), old.config.rack.clone());
    if cluster.run.rng.chance(0.5) {
        world.run_for(KNOWN_DOWN);
    }
    if cluster.run.rng.chance(0.5) {
        world.wipe_disk(node);
    } else {
        cluster.addresses += 1;
        let mut host = machine_like(world, cluster, cluster.addresses);
        (host.config.data_center, host.config.rack) = place;
        cluster.run.hosts[dead] = host;
    }
    let other = cluster.run.other_than(dead);
    let seed = Seed { host: cluster.run.hosts[other].ip.to_string(), port: None };
    let shards = cluster.run.shards[dead];
    let host = &mut cluster.run.hosts[dead];
    host.config.seeds = vec![seed];
    host.config.auto_bootstrap = true;
    host.config.replaces = Some(Replaced::Address(address));
    host.boot(world, shards);
    host.await_replaced(world)?;
    cluster.count("replacement");
    // What was on its way from the old node when it died has arrived.
    cluster.lose_one();
    calm(world, cluster, working)
}

/// A node starts with a folder that it has had before. Nobody speaks with it; its disk counts as lost.
fn older_folder(world: &mut World, cluster: &mut Cluster) -> Result<(), String> {
    let at = cluster.run.any();
    let host = id_of(world, &cluster.run.hosts[at])?;
    let image = image_of(world, cluster, at)?;
    let working = work(world, cluster)?;
    world.run_for(Duration::from_secs(2));
    end_work(world, working);
    // A start that the older folder does not know of.
    world.kill(cluster.run.hosts[at].node);
    cluster.run.all_ready(world)?;
    world.run_for(KNOWN_DOWN);
    cluster.verdict()?;
    world.power_cut(cluster.run.hosts[at].node);
    world.run_for(KNOWN_DOWN);
    world.restore_disk(cluster.run.hosts[at].node, image);
    let shards = cluster.run.shards[at];
    cluster.run.hosts[at].boot(world, shards);
    cluster.count("older folder");
    for _ in 0..5 {
        world.run_for(Duration::from_secs(2));
        for other in (0..cluster.run.count()).filter(|other| *other != at) {
            let node = cluster.run.hosts[other].node;
            let mut asked =
                world.spawn(node, async move { runtime::local::<Coordinator>().topology().is_alive(host) });
            if finished(world, &mut asked, CONVERGE, "asking who is up")? {
                return Err(format!("{} is spoken with", cluster.run.hosts[at].ip));
            }
        }
    }
    if world.alive(cluster.run.hosts[at].node) {
        world.power_cut(cluster.run.hosts[at].node);
    }
    replace(world, cluster, at, None)
}

/// What is on the disk of a node now; it runs again behind it.
fn image_of(world: &mut World, cluster: &mut Cluster, at: usize) -> Result<DiskImage, String> {
    let node = cluster.run.hosts[at].node;
    world.power_cut(node);
    let image = world.disk_image(node);
    cluster.run.all_ready(world)?;
    world.run_for(Duration::from_secs(6));
    Ok(image)
}
