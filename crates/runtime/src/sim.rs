//! Whole nodes in one thread, from a seed: a virtual clock, simulated disks and one network under the shipped code.
//!
//! ```text
//!   World ── nodes: disk (survives) + shards (die with the process)
//!     └─ step: a ready shard, chosen by seed, runs one turn ─ or the clock jumps to the next event
//! ```
//! The same seed and the same calls give the same trace, bit for bit. A scenario adds nodes, boots them with the real
//! `main`, runs its clients as tasks of a client node, and plays power cuts, cut links and full disks in between.

use crate::backend::Backend;
use crate::backend::sim::disk::{Disk, Image};
use crate::backend::sim::net::Delay;
use crate::backend::sim::{Core, CoreNode, DiskSpeed, Latency, SharedCore, SimShard};
use crate::inbox::Inbox;
use crate::log::Level;
use crate::shard::{NodeShared, Shard, ShardId, ShardParts};
use crate::start::Main;
use crate::{Bug, Group, JoinHandle};
use base::{Instant, Prng, TraceHash};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::future::Future;
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// What a world is made of, apart from its seed.
#[derive(Clone, Debug)]
pub struct SimConfig {
    /// How long a packet travels, shortest and longest.
    pub delay: (Duration, Duration),
    /// Share of packets that take up to a hundred times longer.
    pub delay_spikes: f64,
    /// How long a disk read or a call on names takes, shortest and longest.
    pub disk_read: (Duration, Duration),
    /// How long a write takes.
    pub disk_write: (Duration, Duration),
    /// How long a sync takes.
    pub disk_sync: (Duration, Duration),
    /// Share of disk operations that take up to sixty times longer.
    pub disk_spikes: f64,
    /// Bytes a disk reads and writes in a second, one request after the other; 0 for no limit.
    pub disk_bytes_per_second: u64,
    /// Reads, writes and syncs a disk does in a second; 0 for no limit.
    pub disk_requests_per_second: u64,
    /// Bytes of each disk.
    pub disk_bytes: u64,
    /// Largest difference of a node's wall clock from the world's, either way.
    pub skew: Duration,
    /// Memory given to each shard.
    pub memory_per_shard: u64,
}

impl SimConfig {
    /// A quick network and quick disks without outliers.
    pub fn calm() -> SimConfig {
        let micros = Duration::from_micros;
        SimConfig {
            delay: (micros(20), micros(200)),
            delay_spikes: 0.0,
            disk_read: (micros(10), micros(100)),
            disk_write: (micros(10), micros(100)),
            disk_sync: (micros(50), micros(500)),
            disk_spikes: 0.0,
            disk_bytes_per_second: 0,
            disk_requests_per_second: 0,
            disk_bytes: 1 << 30,
            skew: Duration::ZERO,
            memory_per_shard: 256 << 20,
        }
    }

    /// A temper drawn from the seed: calm, slow disks, slow network, outliers, skewed clocks, in any mixture.
    pub fn drawn(seed: u64) -> SimConfig {
        let mut rng = Prng::new(seed ^ 0x7465_6d70_6572);
        let mut config = SimConfig::calm();
        let micros = Duration::from_micros;
        if rng.chance(0.5) {
            config.delay = (micros(10 + rng.below(500)), micros(600 + rng.below(10_000)));
        }
        if rng.chance(0.3) {
            config.delay_spikes = rng.unit() * 0.02;
        }
        if rng.chance(0.5) {
            config.disk_sync = (micros(100), micros(500 + rng.below(20_000)));
            config.disk_write = (micros(10), micros(100 + rng.below(2_000)));
        }
        if rng.chance(0.3) {
            config.disk_spikes = rng.unit() * 0.02;
        }
        if rng.chance(0.5) {
            config.skew = Duration::from_millis(rng.below(500));
        }
        config
    }
}

/// What a disk held at one moment: see [`World::disk_image`].
#[derive(Clone)]
pub struct DiskImage(Image);

/// A node of one world, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub usize);

struct Seat {
    shard: Rc<Shard>,
    sim: Rc<SimShard>,
    /// The shard computes until then.
    busy_until: u64,
}

struct Node {
    ip: IpAddr,
    seats: Vec<Seat>,
    shared: Option<Arc<NodeShared>>,
    exit: Option<i32>,
    /// Its process is stopped: no shard of it gets a turn.
    paused: bool,
}

/// One simulated world.
pub struct World {
    core: SharedCore,
    config: SimConfig,
    nodes: Vec<Node>,
    rng: Prng,
    steps: u64,
    leaves_nothing: bool,
}

/// A task of a scenario, running on a node.
pub struct Task<T>(JoinHandle<T>);

impl<T> Task<T> {
    /// Has it returned? A task of a node that died never does.
    pub fn done(&self) -> bool {
        self.0.is_finished()
    }

    /// What it returned, once.
    pub fn take(&mut self) -> Option<T> {
        match pin!(&mut self.0).as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        }
    }
}

fn nanos((low, high): (Duration, Duration)) -> (u64, u64) {
    let low = low.as_nanos() as u64;
    (low, low.max(high.as_nanos() as u64))
}

impl World {
    /// An empty world. Everything in it follows from the seed and from what is called on it.
    pub fn new(seed: u64, config: SimConfig) -> World {
        let mut core = Core::new(seed);
        let (min, max) = nanos(config.delay);
        core.net.set_delay(Delay { min, max, spike: config.delay_spikes });
        let rng = core.rng.fork();
        let core = Rc::new(RefCell::new(core));
        World { core, config, nodes: Vec::new(), rng, steps: 0, leaves_nothing: false }
    }

    /// The end of this world fails unless all objects of its nodes are gone with it. Those that refer to each other in a circle outlive their node, and
    /// with them every disk of the world: a process would not notice, thousands of worlds in one process do.
    pub fn expect_nothing_left(&mut self) {
        self.leaves_nothing = true;
    }

    /// Adds a machine with an empty disk; it is switched off.
    pub fn add_node(&mut self, ip: IpAddr) -> NodeId {
        let mut core = self.core.borrow_mut();
        let disk = Disk::new(core.rng.u64(), self.config.disk_bytes);
        let skew = self.config.skew.as_micros() as u64;
        let skew_micros = core.rng.below(2 * skew + 1) as i64 - skew as i64;
        let latency = Latency {
            read: nanos(self.config.disk_read),
            write: nanos(self.config.disk_write),
            sync: nanos(self.config.disk_sync),
            spike: self.config.disk_spikes,
        };
        core.net.add_host(ip);
        let bugs = BTreeSet::new();
        let speed = DiskSpeed {
            bytes_per_second: self.config.disk_bytes_per_second,
            requests_per_second: self.config.disk_requests_per_second,
        };
        core.nodes.push(CoreNode {
            ip,
            disk,
            latency,
            speed,
            disk_free_at: 0,
            direct: true,
            skew_micros,
            bugs,
            boot: 0,
            alive: false,
        });
        drop(core);
        self.nodes.push(Node { ip, seats: Vec::new(), shared: None, exit: None, paused: false });
        NodeId(self.nodes.len() - 1)
    }

    /// Adds a machine for the scenario's own tasks, with one shard, already running.
    pub fn add_client(&mut self, ip: IpAddr) -> NodeId {
        let node = self.add_node(ip);
        let main: Main = Arc::new(|| {
            Box::pin(async {
                crate::shutdown_requested().await;
                0
            })
        });
        self.boot(node, 1, main);
        node
    }

    /// Starts the process of a node: `main` on every shard, as [`crate::run`] does on a real machine.
    pub fn boot(&mut self, node: NodeId, shards: u16, main: Main) {
        assert!(!self.alive(node), "a node boots when it is down");
        let mut core = self.core.borrow_mut();
        let entry = &mut core.nodes[node.0];
        entry.boot += 1;
        entry.alive = true;
        let ip = entry.ip;
        core.net.set_alive(ip);
        core.trace.update((node.0 as u64) << 16 | u64::from(shards));
        let seed = core.rng.u64();
        drop(core);
        let inboxes = (0..shards).map(|_| Inbox::simulated()).collect();
        let shared = NodeShared::new(inboxes);
        let links = crate::mesh::connect(shards);
        let mut seats = Vec::new();
        for (id, links) in links.into_iter().enumerate() {
            let sim = SimShard::new(&self.core, node.0);
            let shard = Shard::new(ShardParts {
                id: ShardId(id as u16),
                node: shared.clone(),
                links,
                backend: Backend::Sim(sim.clone()),
                seed,
                memory: self.config.memory_per_shard,
                stall_ns: 0,
            });
            let future = shard.enter(|| main());
            shard.enter(|| shard.start_main(future));
            seats.push(Seat { shard, sim, busy_until: 0 });
        }
        let entry = &mut self.nodes[node.0];
        entry.seats = seats;
        entry.shared = Some(shared);
        entry.exit = None;
    }

    /// Starts a task on shard 0 of a running node; the scenario's clients live on a client node.
    pub fn spawn<T: 'static>(&mut self, node: NodeId, future: impl Future<Output = T> + 'static) -> Task<T> {
        let seat = self.nodes[node.0].seats.first().expect("the node is running");
        Task(seat.shard.enter(|| crate::spawn(Group::MAIN, future)))
    }

    // ---- time --------------------------------------------------------------------------------------------------

    /// The world's clock.
    pub fn now(&self) -> Instant {
        Instant(self.core.borrow().now)
    }

    /// Runs until the condition holds (true) or the clock has moved by `limit` (false).
    pub fn run_until(&mut self, mut done: impl FnMut(&mut World) -> bool, limit: Duration) -> bool {
        let end = self.core.borrow().now + limit.as_nanos() as u64;
        loop {
            if done(self) {
                return true;
            }
            if !self.step(end) {
                return done(self);
            }
        }
    }

    /// Runs until the clock has moved by this much.
    pub fn run_for(&mut self, duration: Duration) {
        self.run_until(|_| false, duration);
    }

    /// One turn of one shard, or one move of the clock. False when nothing happens until `end`; then it is `end`.
    pub fn step(&mut self, end: u64) -> bool {
        self.steps += 1;
        let wakers = {
            let mut core = self.core.borrow_mut();
            if core.net.has_ready() { core.wake_ready() } else { Vec::new() }
        };
        wakers.into_iter().for_each(Waker::wake);
        let now = self.core.borrow().now;
        let mut ready: Vec<(usize, usize)> = Vec::new();
        let mut next = self.core.borrow().next_at().unwrap_or(u64::MAX);
        for (n, node) in self.nodes.iter().enumerate().filter(|(_, node)| !node.paused) {
            for (s, seat) in node.seats.iter().enumerate() {
                let timer = seat.shard.next_timer().map_or(u64::MAX, |t| t.0);
                let wants = if seat.shard.has_simulated_work() { 0 } else { timer };
                let at = wants.max(seat.busy_until);
                if at <= now {
                    ready.push((n, s));
                } else {
                    next = next.min(at);
                }
            }
        }
        if next <= now {
            self.advance(now);
        }
        if !ready.is_empty() {
            let (n, s) = ready[self.rng.below(ready.len() as u64) as usize];
            self.turn(n, s);
            return true;
        }
        if end < next {
            let mut core = self.core.borrow_mut();
            core.now = end.max(now);
            return false;
        }
        self.advance(next.max(now));
        true
    }

    fn advance(&mut self, to: u64) {
        let wakers = {
            let mut core = self.core.borrow_mut();
            core.now = to;
            core.advance()
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    fn turn(&mut self, n: usize, s: usize) {
        let seat = &mut self.nodes[n].seats[s];
        let now = self.core.borrow().now;
        let cost = 1 << self.rng.below(13);
        let budget = if self.rng.chance(0.5) { 1 } else { 1 << self.rng.below(20) };
        seat.sim.begin_turn(cost);
        if seat.shard.next_timer().is_some_and(|t| t.0 <= now) {
            seat.shard.fire_timers(Instant(now));
        }
        seat.shard.run_ready(budget);
        let charged = seat.sim.turn_charge();
        seat.sim.begin_turn(cost);
        seat.busy_until = now + charged;
        let mut core = self.core.borrow_mut();
        core.trace.update(now);
        core.trace.update((n as u64) << 48 | (s as u64) << 40 | charged & 0xff_ffff_ffff);
        drop(core);
        let over = self.nodes[n].shared.as_ref().is_some_and(|shared| shared.is_over());
        if over {
            self.exited(NodeId(n));
        }
    }

    /// The mains of all shards have returned: the process ends.
    fn exited(&mut self, node: NodeId) {
        let results = self.nodes[node.0].seats.iter().filter_map(|seat| seat.shard.main_result());
        let code = results.fold(0, |first, result| if first == 0 { result } else { first });
        self.kill(node);
        self.nodes[node.0].exit = Some(code);
    }

    // ---- life and death ----------------------------------------------------------------------------------------

    /// Is the node's process running?
    pub fn alive(&self, node: NodeId) -> bool {
        self.core.borrow().nodes[node.0].alive
    }

    /// What the node's main returned, once it has ended by itself.
    pub fn exit_code(&self, node: NodeId) -> Option<i32> {
        self.nodes[node.0].exit
    }

    /// Stops the process of a node where it is (`SIGSTOP`): its kernel still takes what is sent to it.
    pub fn pause(&mut self, node: NodeId) {
        self.nodes[node.0].paused = true;
        self.core.borrow_mut().trace.update(0x5709 << 32 | node.0 as u64);
    }

    /// Lets a stopped process go on; all its timers are late.
    pub fn resume(&mut self, node: NodeId) {
        self.nodes[node.0].paused = false;
        self.core.borrow_mut().trace.update(0x6000 << 32 | node.0 as u64);
    }

    /// The machine loses power: unsynced bytes are lost, kept or torn by seed, peers hear nothing.
    pub fn power_cut(&mut self, node: NodeId) {
        self.end(node, false);
        self.core.borrow_mut().nodes[node.0].disk.power_cut();
    }

    /// The process dies (`kill -9`): the page cache survives, peers are reset.
    pub fn kill(&mut self, node: NodeId) {
        self.end(node, true);
        self.core.borrow_mut().nodes[node.0].disk.kill();
    }

    /// Asks the node to stop in good order; run the world until it is no longer [`alive`](World::alive).
    pub fn stop(&mut self, node: NodeId) {
        if let Some(shared) = &self.nodes[node.0].shared {
            shared.request_shutdown();
        }
    }

    fn end(&mut self, node: NodeId, loud: bool) {
        let ip = self.nodes[node.0].ip;
        {
            let mut core = self.core.borrow_mut();
            core.nodes[node.0].alive = false;
            core.trace.update(0xdead << 32 | node.0 as u64);
            let now = core.now;
            core.net.host_down(now, ip, loud);
            core.forget_waiters(ip);
        }
        let entry = &mut self.nodes[node.0];
        let seats = std::mem::take(&mut entry.seats);
        entry.shared = None;
        entry.paused = false;
        for seat in &seats {
            seat.shard.tear_down();
        }
        drop(seats);
        self.core.borrow_mut().forget_waiters(ip);
    }

    // ---- faults ------------------------------------------------------------------------------------------------

    fn ip(&self, node: NodeId) -> IpAddr {
        self.nodes[node.0].ip
    }

    /// Stops everything between two nodes, both ways.
    pub fn cut(&mut self, a: NodeId, b: NodeId) {
        self.cut_one_way(a, b);
        self.cut_one_way(b, a);
    }

    /// Stops everything from `a` to `b`; the other way goes on.
    pub fn cut_one_way(&mut self, a: NodeId, b: NodeId) {
        let (a, b) = (self.ip(a), self.ip(b));
        self.core.borrow_mut().net.cut(a, b);
    }

    /// Lets two nodes talk again; what was held arrives late.
    pub fn heal(&mut self, a: NodeId, b: NodeId) {
        let (a, b) = (self.ip(a), self.ip(b));
        let mut core = self.core.borrow_mut();
        let now = core.now;
        core.net.heal(now, a, b);
        core.net.heal(now, b, a);
    }

    /// Ends all cuts.
    pub fn heal_all(&mut self) {
        let mut core = self.core.borrow_mut();
        let now = core.now;
        core.net.heal_all(now);
    }

    /// Resets every connection between two nodes.
    pub fn reset_connections(&mut self, a: NodeId, b: NodeId) {
        let (a, b) = (self.ip(a), self.ip(b));
        self.core.borrow_mut().net.reset_between(a, b);
    }

    /// Changes how long packets travel.
    pub fn set_delay(&mut self, shortest: Duration, longest: Duration, spikes: f64) {
        let (min, max) = nanos((shortest, longest));
        self.core.borrow_mut().net.set_delay(Delay { min, max, spike: spikes });
    }

    /// The node's next `count` syncs fail; what they covered is durable or lost for good, by seed.
    pub fn fail_next_syncs(&mut self, node: NodeId, count: u32) {
        self.core.borrow_mut().nodes[node.0].disk.fail_next_syncs(count);
    }

    /// As [`World::fail_next_syncs`], but the syncs say that there is no space, as file systems do that allocate late.
    pub fn fail_next_syncs_as_full(&mut self, node: NodeId, count: u32) {
        self.core.borrow_mut().nodes[node.0].disk.fail_next_syncs_as_full(count);
    }

    /// Makes a node's disk refuse every change, or take them again.
    pub fn set_read_only(&mut self, node: NodeId, on: bool) {
        self.core.borrow_mut().nodes[node.0].disk.set_read_only(on);
    }

    /// Changes the size of a node's disk.
    pub fn set_capacity(&mut self, node: NodeId, bytes: u64) {
        self.core.borrow_mut().nodes[node.0].disk.set_capacity(bytes);
    }

    /// Bytes free on a node's disk.
    pub fn free_space(&self, node: NodeId) -> u64 {
        self.core.borrow().nodes[node.0].disk.free_space()
    }

    /// Flips one bit of a file, in the cache and on the platter. False when the file is shorter.
    pub fn flip_bit(&mut self, node: NodeId, path: &str, offset: u64, bit: u8) -> bool {
        self.core.borrow_mut().nodes[node.0].disk.flip_bit(path, offset, bit)
    }

    /// Every file of a node's disk with its size, by path.
    pub fn files(&self, node: NodeId) -> Vec<(String, u64)> {
        self.core.borrow().nodes[node.0].disk.files()
    }

    /// Every name of the file that a path leads to.
    pub fn names_of(&self, node: NodeId, path: &str) -> Vec<String> {
        self.core.borrow().nodes[node.0].disk.names_of(path)
    }

    /// Makes every operation of a node's disk take this long, shortest and longest.
    pub fn slow_disk(&mut self, node: NodeId, range: (Duration, Duration)) {
        let range = nanos(range);
        let latency = &mut self.core.borrow_mut().nodes[node.0].latency;
        (latency.read, latency.write, latency.sync) = (range, range, range);
    }

    /// Lets a node's disk do no more than this in a second, one request after the other; 0 for no limit.
    pub fn set_disk_speed(&mut self, node: NodeId, bytes: u64, requests: u64) {
        let speed = DiskSpeed { bytes_per_second: bytes, requests_per_second: requests };
        self.core.borrow_mut().nodes[node.0].speed = speed;
    }

    /// Whether a node's file system knows direct operations.
    pub fn set_direct(&mut self, node: NodeId, on: bool) {
        self.core.borrow_mut().nodes[node.0].direct = on;
    }

    /// The next reads of a node's disk fail.
    pub fn fail_reads(&mut self, node: NodeId, count: u32) {
        self.core.borrow_mut().nodes[node.0].disk.fail_next_reads(count);
    }

    /// What is on the disk of a node that is down.
    pub fn disk_image(&self, node: NodeId) -> DiskImage {
        assert!(!self.alive(node), "a disk is copied while its node is down");
        DiskImage(self.core.borrow().nodes[node.0].disk.image())
    }

    /// Puts an older state, or another node's, onto the disk of a node that is down.
    pub fn restore_disk(&mut self, node: NodeId, image: DiskImage) {
        assert!(!self.alive(node), "a disk is replaced while its node is down");
        self.core.borrow_mut().nodes[node.0].disk.restore(image.0);
    }

    /// A node that is down gets a new, empty disk.
    pub fn wipe_disk(&mut self, node: NodeId) {
        let empty = Disk::new(0, self.config.disk_bytes).image();
        self.restore_disk(node, DiskImage(empty));
    }

    /// Moves a node's wall clock, in microseconds against the world's.
    pub fn set_skew(&mut self, node: NodeId, micros: i64) {
        self.core.borrow_mut().nodes[node.0].skew_micros = micros;
    }

    /// Plants a mistake in a node, to prove that the scenario's checker finds it. A skipped sync is the disk's doing.
    pub fn plant(&mut self, node: NodeId, bug: Bug) {
        let mut core = self.core.borrow_mut();
        let entry = &mut core.nodes[node.0];
        entry.bugs.insert(bug);
        if bug == Bug::SkipSync {
            entry.disk.set_ignore_syncs(true);
        }
    }

    // ---- what happened -----------------------------------------------------------------------------------------

    /// Chance for the scenario itself, from the world's seed.
    pub fn rng(&mut self) -> &mut Prng {
        &mut self.rng
    }

    /// A hash of every scheduling decision, disk operation, packet and log line so far.
    pub fn trace_hash(&self) -> u64 {
        let core = self.core.borrow();
        let mut hash = TraceHash::new();
        hash.update(core.trace.finish());
        hash.update(core.net.trace());
        hash.update(core.now);
        hash.finish()
    }

    /// Turns and moves of the clock so far.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Every log line so far, with its level and the node's address.
    pub fn log_lines(&self) -> Vec<(Level, String)> {
        self.core.borrow().log.clone()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        for n in 0..self.nodes.len() {
            self.end(NodeId(n), false);
        }
        if self.leaves_nothing && !std::thread::panicking() {
            assert_eq!(Rc::strong_count(&self.core), 1, "a node leaves something behind");
        }
    }
}

/// A boxed main, for scenarios that write one inline.
pub fn main_of<F, Fut>(main: F) -> Main
where
    F: Fn() -> Fut + Send + Sync + 'static,
    Fut: Future<Output = i32> + 'static,
{
    Arc::new(move || -> Pin<Box<dyn Future<Output = i32>>> { Box::pin(main()) })
}

#[cfg(test)]
mod tests;
