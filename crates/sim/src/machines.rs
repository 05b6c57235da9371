//! The machines of a scenario with several nodes, the clients of its registers, and how both are waited for.

use std::net::IpAddr;
use std::time::Duration;

use base::{HostId, Prng};
use coordinator::Coordinator;
use runtime::sim::{NodeId, Task, World};

use crate::clients::{Door, Shared, settled};
use crate::host::Host;
use crate::limits::CONVERGE;

/// The name of the second datacenter; every other is the first.
pub(crate) const FAR: &str = "far";

/// Nodes that are members, or are to be, and what clients know.
pub(crate) struct Run {
    pub(crate) hosts: Vec<Host>,
    pub(crate) shards: Vec<u16>,
    /// Where clients run.
    pub(crate) client: NodeId,
    pub(crate) book: Shared,
    pub(crate) rng: Prng,
}

impl Run {
    pub(crate) fn count(&self) -> usize {
        self.hosts.len()
    }

    pub(crate) fn door(&self, at: usize) -> Door {
        let host = &self.hosts[at];
        Door { address: host.native(), dc: usize::from(host.config.data_center == FAR) }
    }

    pub(crate) fn doors(&self) -> Vec<Door> {
        (0..self.count()).map(|at| self.door(at)).collect()
    }

    /// Any of the nodes.
    pub(crate) fn any(&mut self) -> usize {
        self.rng.below(self.hosts.len() as u64) as usize
    }

    /// Any other node than this one.
    pub(crate) fn other_than(&mut self, at: usize) -> usize {
        let count = self.hosts.len();
        (at + 1 + self.rng.below(count as u64 - 1) as usize) % count
    }

    /// No node of the first datacenter is heard in the second, nor, unless `one_way`, one of the second in the first.
    pub(crate) fn cut_datacenters(&self, world: &mut World, one_way: bool) {
        let is_far = |host: &&Host| host.config.data_center == FAR;
        let (far, near): (Vec<&Host>, Vec<&Host>) = self.hosts.iter().partition(is_far);
        for (here, there) in near.iter().flat_map(|here| far.iter().map(|there| (here.node, there.node))) {
            match one_way {
                true => world.cut_one_way(here, there),
                false => world.cut(here, there),
            }
        }
    }

    /// Boots each node that is down, by chance.
    pub(crate) fn boot_dead(&mut self, world: &mut World, chance: f64) {
        for (host, shards) in self.hosts.iter_mut().zip(&self.shards) {
            if !world.alive(host.node) && self.rng.chance(chance) {
                host.boot(world, *shards);
            }
        }
    }

    /// Boots each node that is down, and waits until all serve clients.
    pub(crate) fn all_ready(&mut self, world: &mut World) -> Result<(), String> {
        self.boot_dead(world, 1.0);
        self.await_ready(world)
    }

    pub(crate) fn await_ready(&self, world: &mut World) -> Result<(), String> {
        for host in &self.hosts {
            host.await_ready(world).map_err(|text| format!("{}: {text}", host.ip))?;
        }
        Ok(())
    }

    /// Errors: what clients of registers have seen and must not.
    pub(crate) fn verdict(&self) -> Result<(), String> {
        self.book.borrow().verdict()
    }

    /// Reads everything through every node when no fault disturbs any more.
    pub(crate) fn read_everything(&mut self, world: &mut World) -> Result<(), String> {
        let judge = world.add_client(IpAddr::from([10, 0, 1, 2]));
        let rng = self.rng.fork();
        let mut end = world.spawn(judge, settled(self.doors(), self.book.clone(), rng));
        finished(world, &mut end, 2 * CONVERGE, "reading everything after the faults")??;
        world.kill(judge);
        self.verdict()
    }
}

/// Clients on every node that runs and has none: one to `most` on each.
pub(crate) fn clients_on<C: Future<Output = ()> + 'static>(
    world: &mut World,
    hosts: &[Host],
    rng: &mut Prng,
    most: u64,
    tasks: &mut [Vec<Task<()>>],
    client: impl Fn(Prng) -> C,
) {
    for (host, tasks) in hosts.iter().zip(tasks) {
        if !world.alive(host.node) {
            tasks.clear();
        } else if tasks.is_empty() {
            let count = 1 + rng.below(most);
            tasks.extend((0..count).map(|_| world.spawn(host.node, client(rng.fork()))));
        }
    }
}

/// Under which identity the node of a machine runs.
pub(crate) fn id_of(world: &mut World, host: &Host) -> Result<HostId, String> {
    let mut asked = world.spawn(host.node, async { runtime::local::<Coordinator>().topology().local_id() });
    finished(world, &mut asked, CONVERGE, "asking for an identity")
}

/// What a task returns, within a limit of virtual time.
pub(crate) fn finished<T>(
    world: &mut World,
    task: &mut Task<T>,
    limit: Duration,
    what: &str,
) -> Result<T, String> {
    world.run_until(|_| task.done(), limit);
    task.take().ok_or_else(|| format!("{what} takes longer than {limit:?}"))
}
