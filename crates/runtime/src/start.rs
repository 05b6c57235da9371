//! A real node: one thread per shard, signals, the loop around each shard.

use crate::backend::{Backend, Reactor};
use crate::inbox::Inbox;
use crate::limits::{QUOTA, SHARDS_MAX, SPIN};
use crate::mesh::{self, Link};
use crate::shard::{NodeShared, Shard, ShardId, ShardParts};
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// How to run a node.
#[derive(Clone, Debug)]
pub struct Config {
    /// Shards, one thread each.
    pub shards: u16,
    /// Each shard keeps to one processor (unless `overprovisioned`).
    pub pin: bool,
    /// Bytes each shard may use; 0 takes an equal part of half the machine's memory.
    pub memory_per_shard: u64,
    /// The machine is shared with others: no pinning, no spinning before sleep.
    pub overprovisioned: bool,
    /// Seed of the shards' random numbers; `None` takes one from the operating system.
    pub seed: Option<u64>,
    /// A task poll longer than this is counted and logged; zero switches it off. 25 times as long when
    /// `overprovisioned`: there the machine takes the processor away for milliseconds.
    pub stall_threshold: Duration,
    /// How shards talk to the kernel.
    pub reactor: Reactor,
    /// Whether an idle shard spins a little before it sleeps; `None` lets it when it has its processor to itself.
    pub spin: Option<bool>,
}

impl Config {
    /// Processors this process may use.
    pub fn processors() -> u16 {
        processor_list().len().clamp(1, SHARDS_MAX as usize) as u16
    }

    /// The usual settings for a number of shards.
    pub fn new(shards: u16) -> Config {
        Config {
            shards,
            pin: true,
            memory_per_shard: 0,
            overprovisioned: false,
            seed: None,
            stall_threshold: Duration::from_millis(2),
            reactor: Reactor::Auto,
            spin: None,
        }
    }
}

/// The main function of a node: runs on every shard.
pub type Main = Arc<dyn Fn() -> Pin<Box<dyn Future<Output = i32>>> + Send + Sync>;

/// Runs `main` on every shard until all have returned; the first shard's result that is not 0, or 0.
/// SIGTERM and SIGINT ask for shutdown; a second one ends the process at once. SIGHUP, which a closed terminal sends more
/// than once, asks for shutdown unless it is ignored.
pub fn run(config: Config, main: Main) -> i32 {
    match start(&config, main) {
        Ok(code) => code,
        Err(error) => {
            crate::error!("cannot start the shards: {error}");
            1
        }
    }
}

struct Plan {
    node: Arc<NodeShared>,
    config: Config,
    main: Main,
    seed: u64,
    memory: u64,
    processors: Vec<usize>,
}

fn start(config: &Config, main: Main) -> io::Result<i32> {
    let shards = config.shards.clamp(1, SHARDS_MAX);
    let signals = Signals::block()?;
    // After the signals are blocked: its thread must not be the one that receives them.
    let _writer = crate::log::sink::Writer::start();
    raise_file_limit();
    let inboxes = (0..shards).map(|_| Inbox::real()).collect::<io::Result<Vec<_>>>()?;
    let memory = match config.memory_per_shard {
        0 => machine_memory() / 2 / u64::from(shards),
        bytes => bytes,
    };
    let seed = config.seed.map_or_else(system_seed, Ok)?;
    let plan = Arc::new(Plan {
        node: NodeShared::new(inboxes),
        config: config.clone(),
        main,
        seed,
        memory,
        processors: processor_list(),
    });
    let (done, results) = channel();
    let mut threads = Vec::new();
    for (index, links) in mesh::connect(shards).into_iter().enumerate() {
        let (plan, done) = (
            plan.clone(),
            Bell { done: done.clone(), signals: signals.bell.clone(), node: plan.node.clone() },
        );
        let body = move || {
            let _bell = done;
            run_shard(ShardId(index as u16), links, &plan)
        };
        threads.push(std::thread::Builder::new().name(format!("shard-{index}")).spawn(body)?);
    }
    drop(done);
    signals.serve(&plan.node, &results);
    let mut code = 0;
    for thread in threads {
        match thread.join() {
            Ok(Ok(result)) if code == 0 => code = result,
            Ok(Ok(_)) => {}
            Ok(Err(error)) => return Err(error),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
    Ok(code)
}

/// Tells the first thread that a shard's thread has ended, however it did.
struct Bell {
    done: std::sync::mpsc::Sender<()>,
    signals: Arc<Inbox>,
    node: Arc<NodeShared>,
}

impl Drop for Bell {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.node.abort();
        }
        // The receiver may be gone: then nobody waits.
        let _ = self.done.send(());
        self.signals.ring_bell();
    }
}

fn run_shard(id: ShardId, links: Vec<Option<Link>>, plan: &Plan) -> io::Result<i32> {
    let config = &plan.config;
    let owns_core = !config.overprovisioned && usize::from(config.shards) < plan.processors.len();
    if config.pin && !config.overprovisioned && usize::from(config.shards) <= plan.processors.len() {
        pin_thread(plan.processors[usize::from(id.0)]);
    }
    let node = plan.node.clone();
    let inbox = node.inboxes[usize::from(id.0)].clone();
    let made = Backend::real(config.reactor, &inbox, &node.offload);
    // The others must not wait for a shard that cannot start.
    let (backend, refused) = made.inspect_err(|_| node.abort())?;
    if id.0 == 0 {
        match refused {
            Some(error) => crate::warn!("runtime: io_uring is refused ({error}), shards use epoll"),
            None => crate::info!("runtime: shards use {}", backend.name()),
        }
    }
    let shard = Shard::new(ShardParts {
        id,
        node,
        links,
        backend,
        seed: plan.seed,
        memory: plan.memory,
        stall_ns: config.stall_threshold.as_nanos() as u64 * if config.overprovisioned { 25 } else { 1 },
    });
    let main = shard.enter(|| (plan.main)());
    shard.start_main(main);
    Loop { shard: &shard, may_spin: config.spin.unwrap_or(owns_core), gap_ns: u64::MAX }.run();
    shard.tear_down();
    shard.enter(|| shard.backend.close());
    Ok(shard.main_result().unwrap_or(1))
}

struct Loop<'a> {
    shard: &'a Shard,
    may_spin: bool,
    /// How long recent idle times were, averaged: decides whether spinning pays.
    gap_ns: u64,
}

impl Loop<'_> {
    fn run(&mut self) {
        while !self.shard.node.is_over() {
            if self.shard.next_timer().is_some() {
                self.shard.fire_timers(self.shard.backend.now());
            }
            if self.shard.run_ready(QUOTA.as_nanos() as u64) {
                self.poll();
            } else {
                self.idle();
            }
        }
    }

    fn poll(&self) {
        self.shard.enter(|| self.shard.backend.poll());
    }

    fn has_work(&self) -> bool {
        self.shard.has_work() || self.shard.backend.has_completions() || self.shard.node.is_over()
    }

    /// Nothing is ready: hands queued operations to the kernel, then spins a little if that pays, then sleeps.
    fn idle(&mut self) {
        if !self.may_spin {
            return self.sleep();
        }
        self.poll();
        let start = self.shard.backend.ticks();
        let spin = SPIN.as_nanos() as u64;
        if self.gap_ns < spin {
            let sees_completions = self.shard.backend.sees_completions();
            while self.shard.backend.ticks() - start < spin {
                if self.has_work() || self.timer_wait() == Some(Duration::ZERO) {
                    self.note_gap(start);
                    return self.poll();
                }
                if sees_completions {
                    std::hint::spin_loop();
                } else {
                    self.poll();
                }
            }
        }
        self.sleep();
        self.note_gap(start);
    }

    fn note_gap(&mut self, start: u64) {
        let gap = (self.shard.backend.ticks() - start).min(10 * SPIN.as_nanos() as u64);
        self.gap_ns = self.gap_ns.min(10 * SPIN.as_nanos() as u64) / 8 * 7 + gap / 8;
    }

    fn timer_wait(&self) -> Option<Duration> {
        let next = self.shard.next_timer()?;
        Some(next.since(self.shard.backend.now()))
    }

    fn sleep(&self) {
        let inbox = &self.shard.inbox;
        inbox.fall_asleep();
        // Others that published before they saw the flag will not wake us: look once more.
        let wait = self.timer_wait();
        if self.shard.has_work() || self.shard.node.is_over() || wait == Some(Duration::ZERO) {
            inbox.awake();
            return self.poll();
        }
        self.shard.enter(|| self.shard.backend.wait(wait));
        inbox.awake();
    }
}

/// The first thread's work: signals, and the end of the shards.
struct Signals {
    fd: std::os::fd::OwnedFd,
    /// Its eventfd is rung when a shard ends.
    bell: Arc<Inbox>,
    old_mask: libc::sigset_t,
}

impl Signals {
    /// Blocks SIGTERM, SIGINT and SIGHUP in this thread and those it starts, and reads them from a descriptor instead.
    fn block() -> io::Result<Signals> {
        use std::os::fd::FromRawFd;
        // SAFETY: signal sets are plain data, initialised by sigemptyset before use.
        let (fd, old_mask) = unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            let mut old_mask: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&mut set);
            libc::sigaddset(&mut set, libc::SIGTERM);
            libc::sigaddset(&mut set, libc::SIGINT);
            // A descriptor reads what is blocked even if it is ignored, as under `nohup`.
            let mut hang_up: libc::sigaction = std::mem::zeroed();
            libc::sigaction(libc::SIGHUP, std::ptr::null(), &mut hang_up);
            if hang_up.sa_sigaction != libc::SIG_IGN {
                libc::sigaddset(&mut set, libc::SIGHUP);
            }
            libc::pthread_sigmask(libc::SIG_BLOCK, &set, &mut old_mask);
            (libc::signalfd(-1, &set, libc::SFD_CLOEXEC), old_mask)
        };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: just created.
        let fd = unsafe { std::os::fd::OwnedFd::from_raw_fd(fd) };
        Ok(Signals { fd, bell: Inbox::real()?, old_mask })
    }

    /// Waits until every shard's thread has ended.
    fn serve(&self, node: &NodeShared, results: &Receiver<()>) {
        use std::os::fd::AsRawFd;
        let bell = self.bell.event_fd().expect("a real inbox has an eventfd");
        let mut left = node.inboxes.len();
        let mut asked = false;
        loop {
            left -= results.try_iter().count();
            if left == 0 {
                return;
            }
            let poll = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
            let mut polled = [poll(self.fd.as_raw_fd()), poll(bell)];
            // SAFETY: the array is valid for the call.
            unsafe { libc::poll(polled.as_mut_ptr(), 2, -1) };
            if polled[1].revents != 0 {
                drain(bell, 8);
            }
            if polled[0].revents != 0
                && let Some(signal) = self.next()
            {
                if signal != libc::SIGHUP && std::mem::replace(&mut asked, true) {
                    crate::error!("second signal, leaving at once");
                    crate::log::sink::flush();
                    std::process::exit(130);
                }
                node.request_shutdown();
            }
        }
    }
}

impl Signals {
    /// The number of a signal that came.
    fn next(&self) -> Option<i32> {
        use std::os::fd::AsRawFd;
        let mut info = std::mem::MaybeUninit::<libc::signalfd_siginfo>::uninit();
        let len = size_of::<libc::signalfd_siginfo>();
        // SAFETY: the buffer has room for one record, which the kernel writes whole or not at all.
        unsafe {
            let read = libc::read(self.fd.as_raw_fd(), info.as_mut_ptr().cast(), len);
            (read == len as isize).then(|| info.assume_init().ssi_signo as i32)
        }
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        // SAFETY: restores the mask that `block` saved.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.old_mask, std::ptr::null_mut()) };
    }
}

/// Reads up to `len` (at most 256) bytes and forgets them; true if there were any.
fn drain(fd: i32, len: usize) -> bool {
    let mut bytes = [0u64; 32];
    let len = len.min(size_of_val(&bytes));
    // SAFETY: the buffer has room for `len` bytes.
    unsafe { libc::read(fd, bytes.as_mut_ptr().cast(), len) > 0 }
}

fn processor_list() -> Vec<usize> {
    // SAFETY: the set is plain data which the call fills.
    let set = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set);
        set
    };
    // SAFETY: the index is below CPU_SETSIZE.
    (0..libc::CPU_SETSIZE as usize).filter(|cpu| unsafe { libc::CPU_ISSET(*cpu, &set) }).collect()
}

fn pin_thread(processor: usize) {
    // SAFETY: the set is plain data; a failure leaves the thread unpinned.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(processor, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set);
    }
}

/// Takes as many descriptors as the administrator allows: connections and sstables each need one.
fn raise_file_limit() {
    let Some(mut limit) = descriptor_limit() else { return };
    limit.rlim_cur = limit.rlim_max;
    // SAFETY: the limit is plain data that the call reads; a failure leaves it as it was.
    unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) };
}

/// Descriptors this process may have, for files and sockets together; `u64::MAX` when nothing limits them, as in
/// simulation.
pub fn descriptors_max() -> u64 {
    if crate::node::simulated() {
        return u64::MAX;
    }
    descriptor_limit().map_or(u64::MAX, |limit| limit.rlim_cur)
}

fn descriptor_limit() -> Option<libc::rlimit> {
    // SAFETY: the limit is plain data that the call fills.
    unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        (libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) == 0).then_some(limit)
    }
}

fn machine_memory() -> u64 {
    // SAFETY: plain system calls without pointers.
    let (pages, page) = unsafe { (libc::sysconf(libc::_SC_PHYS_PAGES), libc::sysconf(libc::_SC_PAGESIZE)) };
    u64::try_from(pages).unwrap_or(0) * u64::try_from(page).unwrap_or(0)
}

fn system_seed() -> io::Result<u64> {
    let mut seed = 0u64;
    // SAFETY: fills eight bytes of a local variable.
    let filled = unsafe { libc::getrandom((&raw mut seed).cast(), 8, 0) };
    if filled == 8 { Ok(seed) } else { Err(io::Error::last_os_error()) }
}
