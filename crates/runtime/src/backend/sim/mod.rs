//! The simulated backend: what a shard asks of disk, network, clock and chance, answered by one world in one thread.
//!
//! ```text
//!   SimShard ─► Core { clock, Disk per node, Net, events (time, sequence), trace }  ◄─ World (crate::sim) moves the clock
//! ```
//! An operation is submitted to the disk at once and takes effect when its event fires; its future only looks at a
//! slot. Dropping the future abandons the slot, never the operation. Every decision is drawn from the world's seed and
//! folded into the trace.

/// Bytes that a node and its disk share.
pub(crate) mod memory;
/// What survives a crash.
pub(crate) mod disk;
/// Streams, delays, cuts.
pub(crate) mod net;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::future::{Future, poll_fn};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::rc::Rc;
use std::task::{Poll, Waker};

use base::{Instant, Prng, TraceHash};

use super::{Bug, DirEntry, Identity, OpenOptions};
use crate::buffer::AlignedBuf;
use crate::log::Level;
use disk::{Disk, DiskOp, DiskOut, OpenFlags};
use memory::SharedMemory;
use net::{Net, SockId};

/// Wall clock of every world at its start, before a node's skew: 2024-01-01.
const EPOCH_MICROS: i64 = 1_704_067_200_000_000;
/// Bytes one receive hands out.
const RECV_BYTES: u64 = 16 * 1024;
/// Log lines kept of one world.
const LOG_LINES: usize = 100_000;

/// How long disk operations take, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Latency {
    pub(crate) read: (u64, u64),
    pub(crate) write: (u64, u64),
    pub(crate) sync: (u64, u64),
    pub(crate) spike: f64,
}

/// How much a disk does: requests wait for those before them. 0 stands for no limit.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DiskSpeed {
    pub(crate) bytes_per_second: u64,
    pub(crate) requests_per_second: u64,
}

impl DiskSpeed {
    /// Nanoseconds of the disk's time that an operation takes.
    fn service(self, op: &DiskOp) -> u64 {
        let bytes = match op {
            DiskOp::Read { len, .. } => *len as u64,
            DiskOp::Write { data, .. } => data.len() as u64,
            DiskOp::Sync { .. } => 0,
            _ => return 0,
        };
        let time = |units: u64, rate: u64| units.saturating_mul(1_000_000_000).checked_div(rate).unwrap_or(0);
        time(bytes, self.bytes_per_second).max(time(1, self.requests_per_second))
    }
}

/// One node as the core sees it; its disk and skew outlive its boots.
pub(crate) struct CoreNode {
    pub(crate) ip: IpAddr,
    pub(crate) disk: Disk,
    pub(crate) latency: Latency,
    pub(crate) speed: DiskSpeed,
    /// When the disk has done what it was asked so far.
    pub(crate) disk_free_at: u64,
    /// Does the file system know direct operations?
    pub(crate) direct: bool,
    pub(crate) skew_micros: i64,
    pub(crate) bugs: BTreeSet<Bug>,
    /// Counts boots: operations and events of an earlier one are void.
    pub(crate) boot: u64,
    pub(crate) alive: bool,
}

enum Slot {
    Waiting(Option<Waker>),
    Done(io::Result<DiskOut>),
    Abandoned,
}

struct Pending {
    node: usize,
    boot: u64,
    ticket: u64,
    op: u64,
}

/// Everything of a world that shards reach.
pub(crate) struct Core {
    pub(crate) now: u64,
    pub(crate) rng: Prng,
    pub(crate) net: Net,
    pub(crate) nodes: Vec<CoreNode>,
    pub(crate) trace: TraceHash,
    pub(crate) log: Vec<(Level, String)>,
    pub(crate) rare: BTreeMap<&'static str, f64>,
    events: BTreeMap<(u64, u64), Pending>,
    slots: BTreeMap<u64, Slot>,
    waiters: BTreeMap<SockId, Vec<Waker>>,
    next_op: u64,
}

impl Core {
    pub(crate) fn new(seed: u64) -> Core {
        let mut rng = Prng::new(seed);
        Core {
            now: 1_000_000_000,
            net: Net::new(rng.u64()),
            nodes: Vec::new(),
            trace: TraceHash::new(),
            log: Vec::new(),
            rare: BTreeMap::new(),
            events: BTreeMap::new(),
            slots: BTreeMap::new(),
            waiters: BTreeMap::new(),
            next_op: 1,
            rng,
        }
    }

    /// When a disk or the network has something to do next.
    pub(crate) fn next_at(&self) -> Option<u64> {
        let disk = self.events.keys().next().map(|(at, _)| *at);
        [disk, self.net.next_at()].into_iter().flatten().min()
    }

    /// Lets everything up to now happen and answers whom to wake, in order.
    pub(crate) fn advance(&mut self) -> Vec<Waker> {
        let mut wakers = Vec::new();
        while let Some(entry) = self.events.first_entry() {
            if entry.key().0 > self.now {
                break;
            }
            let pending = entry.remove();
            self.complete(&pending, &mut wakers);
        }
        for id in self.net.advance(self.now) {
            wakers.extend(self.waiters.remove(&id).into_iter().flatten());
        }
        wakers
    }

    fn complete(&mut self, pending: &Pending, wakers: &mut Vec<Waker>) {
        let node = &mut self.nodes[pending.node];
        if node.boot != pending.boot || !node.alive {
            self.slots.remove(&pending.op);
            return;
        }
        let result = node.disk.complete(pending.ticket);
        self.trace.update(self.now ^ pending.op << 40 ^ u64::from(result.is_ok()));
        match self.slots.remove(&pending.op) {
            Some(Slot::Waiting(waker)) => {
                wakers.extend(waker);
                self.slots.insert(pending.op, Slot::Done(result));
            }
            _ => {
                if let Ok(DiskOut::Handle(handle)) = result {
                    node.disk.close(handle);
                }
            }
        }
    }

    fn latency(&mut self, node: usize, op: &DiskOp) -> u64 {
        let latency = self.nodes[node].latency;
        let (low, high) = match op {
            DiskOp::Write { .. } => latency.write,
            DiskOp::Sync { .. } | DiskOp::SyncDir { .. } => latency.sync,
            _ => latency.read,
        };
        let usual = low + self.rng.below(high - low + 1);
        if latency.spike > 0.0 && self.rng.chance(latency.spike) {
            usual * (2 + self.rng.below(60))
        } else {
            usual
        }
    }

    fn trace_op(&mut self, node: usize, op: &DiskOp) {
        let (kind, a, b) = match op {
            DiskOp::Open { path, .. } => (1, path.len() as u64, 0),
            DiskOp::Read { offset, len, .. } => (2, *offset, *len as u64),
            DiskOp::Write { offset, data, .. } => {
                self.trace.update_bytes(data);
                (3, *offset, data.len() as u64)
            }
            DiskOp::Sync { handle } => (4, *handle, 0),
            DiskOp::Truncate { len, .. } => (5, *len, 0),
            DiskOp::Allocate { len, .. } => (6, *len, 0),
            DiskOp::Rename { from, to } => {
                self.trace.update_bytes(from.as_bytes());
                (7, from.len() as u64, to.len() as u64)
            }
            DiskOp::Link { from, to } => (8, from.len() as u64, to.len() as u64),
            DiskOp::Remove { path } => {
                self.trace.update_bytes(path.as_bytes());
                (9, 0, 0)
            }
            DiskOp::RemoveDirAll { path } => (10, path.len() as u64, 0),
            DiskOp::CreateDirAll { path } => (11, path.len() as u64, 0),
            DiskOp::SyncDir { path } => (12, path.len() as u64, 0),
            DiskOp::ReadDir { path } => (13, path.len() as u64, 0),
            DiskOp::Stat { path } => (14, path.len() as u64, 0),
            DiskOp::FreeSpace => (15, 0, 0),
        };
        self.trace.update(self.now);
        self.trace.update((node as u64) << 56 | kind << 48 | (a ^ b << 24) & 0xffff_ffff_ffff);
    }

    /// Forgets the wakers of a dead host's sockets: their tasks are gone.
    pub(crate) fn forget_waiters(&mut self, host: IpAddr) {
        let Core { net, waiters, .. } = self;
        waiters.retain(|id, _| net.host_of(*id).is_some_and(|owner| owner != host));
    }

    /// Tells everyone who waits for sockets of a dead or changed host to look again.
    pub(crate) fn wake_ready(&mut self) -> Vec<Waker> {
        let ready = self.net.take_ready();
        ready.into_iter().flat_map(|id| self.waiters.remove(&id).unwrap_or_default()).collect()
    }
}

/// The core, shared by the world and its shards.
pub(crate) type SharedCore = Rc<RefCell<Core>>;

/// The backend of one simulated shard.
pub(crate) struct SimShard {
    core: SharedCore,
    node: usize,
    boot: u64,
    ip: IpAddr,
    rng: RefCell<Prng>,
    /// Virtual nanoseconds this shard has computed since it booted.
    charged: Cell<u64>,
    /// What one look at the quota costs in this turn.
    cost: Cell<u64>,
    /// Charged time when the turn began.
    turn_start: Cell<u64>,
}

fn dead() -> io::Error {
    io::Error::other("the node is down (simulated)")
}

fn text(path: &Path) -> io::Result<String> {
    path.to_str()
        .map(str::to_string)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "path is not UTF-8"))
}

impl SimShard {
    pub(crate) fn new(core: &SharedCore, node: usize) -> Rc<SimShard> {
        let mut inner = core.borrow_mut();
        let (boot, ip) = (inner.nodes[node].boot, inner.nodes[node].ip);
        let rng = RefCell::new(inner.rng.fork());
        drop(inner);
        Rc::new(SimShard {
            core: core.clone(),
            node,
            boot,
            ip,
            rng,
            charged: Cell::new(0),
            cost: Cell::new(100),
            turn_start: Cell::new(0),
        })
    }

    /// Begins one turn: from here on `now` advances with the time charged.
    pub(crate) fn begin_turn(&self, cost: u64) {
        self.cost.set(cost.max(1));
        self.turn_start.set(self.charged.get());
    }

    /// Virtual nanoseconds this turn has taken so far.
    pub(crate) fn turn_charge(&self) -> u64 {
        self.charged.get() - self.turn_start.get()
    }

    pub(crate) fn now(&self) -> Instant {
        Instant(self.core.borrow().now + self.turn_charge())
    }

    pub(crate) fn unix_micros(&self) -> i64 {
        let core = self.core.borrow();
        let elapsed = (core.now + self.turn_charge()) / 1000;
        EPOCH_MICROS + elapsed as i64 + core.nodes[self.node].skew_micros
    }

    pub(crate) fn ticks(&self) -> u64 {
        self.charged.set(self.charged.get() + self.cost.get());
        self.charged.get()
    }

    /// A number below `n`, for choices of the executor.
    pub(crate) fn below(&self, n: usize) -> usize {
        self.rng.borrow_mut().below(n as u64) as usize
    }

    /// True now and then, for names that this world's seed has switched on.
    pub(crate) fn rare(&self, name: &'static str) -> bool {
        let mut core = self.core.borrow_mut();
        let chance = match core.rare.get(name) {
            Some(chance) => *chance,
            None => {
                let on = core.rng.chance(0.25);
                let chance = if on { 0.02 + core.rng.unit() * 0.2 } else { 0.0 };
                core.rare.insert(name, chance);
                chance
            }
        };
        drop(core);
        chance > 0.0 && self.rng.borrow_mut().chance(chance)
    }

    pub(crate) fn planted(&self, bug: Bug) -> bool {
        self.core.borrow().nodes[self.node].bugs.contains(&bug)
    }

    pub(crate) fn log(&self, level: Level, line: &str) -> bool {
        let mut core = self.core.borrow_mut();
        core.trace.update_bytes(line.as_bytes());
        if core.log.len() < LOG_LINES {
            let line = format!("{} {line}", self.ip);
            core.log.push((level, line));
        }
        true
    }

    fn is_current(&self, core: &Core) -> bool {
        let node = &core.nodes[self.node];
        node.alive && node.boot == self.boot
    }

    // ---- disk --------------------------------------------------------------------------------------------------

    /// Submits now; the future only waits. A dropped future abandons the slot, not the operation.
    fn disk(self: &Rc<Self>, op: DiskOp) -> impl Future<Output = io::Result<DiskOut>> + use<> {
        let mut core = self.core.borrow_mut();
        let id = core.next_op;
        core.next_op += 1;
        if self.is_current(&core) {
            core.trace_op(self.node, &op);
            let asked_at = core.now + self.turn_charge();
            let latency = core.latency(self.node, &op);
            let node = &mut core.nodes[self.node];
            let service = node.speed.service(&op);
            let mut at = asked_at + latency;
            if service > 0 {
                node.disk_free_at = node.disk_free_at.max(asked_at) + service;
                at = node.disk_free_at + latency;
            }
            let ticket = core.nodes[self.node].disk.submit(op);
            core.events.insert((at, id), Pending { node: self.node, boot: self.boot, ticket, op: id });
            core.slots.insert(id, Slot::Waiting(None));
        }
        drop(core);
        let wait = Wait { shard: self.clone(), id };
        async move { wait.result().await }
    }

    async fn done(self: &Rc<Self>, op: DiskOp) -> io::Result<()> {
        self.disk(op).await.map(|_| ())
    }

    pub(crate) async fn open(self: &Rc<Self>, path: &Path, options: OpenOptions) -> io::Result<SimFile> {
        let flags =
            OpenFlags { create: options.create, create_new: options.create_new, truncate: options.truncate };
        match self.disk(DiskOp::Open { path: text(path)?, flags }).await? {
            DiskOut::Handle(handle) => {
                let shard = self.clone();
                let direct = options.direct && self.core.borrow().nodes[self.node].direct;
                Ok(SimFile(Rc::new(FileInner { shard, handle, direct })))
            }
            other => Err(unexpected(&other)),
        }
    }

    pub(crate) async fn rename(self: &Rc<Self>, from: &Path, to: &Path) -> io::Result<()> {
        self.done(DiskOp::Rename { from: text(from)?, to: text(to)? }).await
    }

    pub(crate) async fn link(self: &Rc<Self>, from: &Path, to: &Path) -> io::Result<()> {
        self.done(DiskOp::Link { from: text(from)?, to: text(to)? }).await
    }

    pub(crate) async fn remove(self: &Rc<Self>, path: &Path) -> io::Result<()> {
        self.done(DiskOp::Remove { path: text(path)? }).await
    }

    pub(crate) async fn create_dir_all(self: &Rc<Self>, path: &Path) -> io::Result<()> {
        self.done(DiskOp::CreateDirAll { path: text(path)? }).await
    }

    pub(crate) async fn remove_dir_all(self: &Rc<Self>, path: &Path) -> io::Result<()> {
        match self.done(DiskOp::RemoveDirAll { path: text(path)? }).await {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            result => result,
        }
    }

    pub(crate) async fn sync_dir(self: &Rc<Self>, path: &Path) -> io::Result<()> {
        self.done(DiskOp::SyncDir { path: text(path)? }).await
    }

    pub(crate) async fn read_dir(self: &Rc<Self>, path: &Path) -> io::Result<Vec<DirEntry>> {
        match self.disk(DiskOp::ReadDir { path: text(path)? }).await? {
            DiskOut::Entries(entries) => Ok(entries
                .into_iter()
                .map(|e| DirEntry { name: e.name, is_dir: e.is_dir, size: e.size })
                .collect()),
            other => Err(unexpected(&other)),
        }
    }

    pub(crate) async fn exists(self: &Rc<Self>, path: &Path) -> io::Result<bool> {
        match self.disk(DiskOp::Stat { path: text(path)? }).await {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    pub(crate) async fn identity(self: &Rc<Self>, path: &Path) -> io::Result<Identity> {
        match self.disk(DiskOp::Stat { path: text(path)? }).await? {
            DiskOut::Inode(inode) => Ok(Identity { device: 0, inode }),
            other => Err(unexpected(&other)),
        }
    }

    pub(crate) async fn free_space(self: &Rc<Self>, _path: &Path) -> io::Result<u64> {
        match self.disk(DiskOp::FreeSpace).await? {
            DiskOut::Size(size) => Ok(size),
            other => Err(unexpected(&other)),
        }
    }

    pub(crate) async fn lock_exclusive(self: &Rc<Self>, path: &Path) -> io::Result<SimLock> {
        let path = text(path)?;
        let taken = self.core.borrow_mut().nodes[self.node].disk.lock(&path);
        if taken {
            Ok(SimLock { shard: self.clone(), path })
        } else {
            Err(io::Error::new(io::ErrorKind::WouldBlock, format!("locked by another process: {path}")))
        }
    }

    // ---- net ---------------------------------------------------------------------------------------------------

    fn time(&self, core: &Core) -> u64 {
        core.now + self.turn_charge()
    }

    fn wait_for(&self, core: &mut Core, id: SockId, waker: &Waker) {
        let waiters = core.waiters.entry(id).or_default();
        if !waiters.iter().any(|w| w.will_wake(waker)) {
            waiters.push(waker.clone());
        }
    }

    pub(crate) async fn bind(self: &Rc<Self>, address: SocketAddr) -> io::Result<SimListener> {
        let mut core = self.core.borrow_mut();
        if !self.is_current(&core) {
            return Err(dead());
        }
        let (id, addr) = core.net.listen(self.ip, address)?;
        drop(core);
        Ok(SimListener(Rc::new(ListenerInner { socket: SocketInner::new(self, id), addr })))
    }

    pub(crate) async fn connect(
        self: &Rc<Self>,
        address: SocketAddr,
        local: Option<SocketAddr>,
    ) -> io::Result<SimStream> {
        let id = {
            let mut core = self.core.borrow_mut();
            if !self.is_current(&core) {
                return Err(dead());
            }
            let now = self.time(&core);
            core.net.connect(now, self.ip, local, address)?
        };
        let stream = SimStream(Rc::new(SocketInner::new(self, id)));
        poll_fn(|cx| {
            let mut core = self.core.borrow_mut();
            match core.net.connected(id) {
                Some(result) => Poll::Ready(result),
                None if core.net.addresses(id).is_none() => Poll::Ready(Err(dead())),
                None => {
                    self.wait_for(&mut core, id, cx.waker());
                    Poll::Pending
                }
            }
        })
        .await?;
        Ok(stream)
    }

    /// Takes over a connection that another shard of the node gave away.
    pub(crate) fn adopt(self: &Rc<Self>, mut transfer: SimTransfer) -> SimStream {
        SimStream(Rc::new(SocketInner::new(self, std::mem::take(&mut transfer.id))))
    }
}

fn unexpected(out: &DiskOut) -> io::Error {
    io::Error::other(format!("simulated disk answered {out:?}"))
}

/// Waits for one disk operation.
struct Wait {
    shard: Rc<SimShard>,
    id: u64,
}

impl Wait {
    async fn result(&self) -> io::Result<DiskOut> {
        poll_fn(|cx| {
            let mut core = self.shard.core.borrow_mut();
            match core.slots.remove(&self.id) {
                Some(Slot::Done(result)) => Poll::Ready(result),
                Some(_) => {
                    core.slots.insert(self.id, Slot::Waiting(Some(cx.waker().clone())));
                    Poll::Pending
                }
                None => Poll::Ready(Err(dead())),
            }
        })
        .await
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        let mut core = self.shard.core.borrow_mut();
        match core.slots.remove(&self.id) {
            Some(Slot::Waiting(_)) if self.shard.is_current(&core) => {
                core.slots.insert(self.id, Slot::Abandoned);
            }
            Some(Slot::Done(Ok(DiskOut::Handle(handle)))) if self.shard.is_current(&core) => {
                core.nodes[self.shard.node].disk.close(handle);
            }
            _ => {}
        }
    }
}

struct FileInner {
    shard: Rc<SimShard>,
    handle: u64,
    direct: bool,
}

impl Drop for FileInner {
    fn drop(&mut self) {
        let mut core = self.shard.core.borrow_mut();
        if self.shard.is_current(&core) {
            core.nodes[self.shard.node].disk.close(self.handle);
        }
    }
}

/// An open file of a simulated disk.
#[derive(Clone)]
pub(crate) struct SimFile(Rc<FileInner>);

impl SimFile {
    fn check_aligned(&self, offset: u64, len: usize) -> io::Result<()> {
        if self.0.direct && (!offset.is_multiple_of(4096) || !len.is_multiple_of(4096)) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "invalid argument (unaligned direct transfer)",
            ));
        }
        Ok(())
    }

    pub(crate) fn is_direct(&self) -> bool {
        self.0.direct
    }

    /// As [`super::FileHandle::read_at`].
    pub(crate) async fn read_at(
        &self,
        offset: u64,
        mut buffer: AlignedBuf,
        from: usize,
    ) -> io::Result<(AlignedBuf, usize)> {
        let (offset, len) = (offset + from as u64, buffer.len() - from);
        self.check_aligned(offset, len)?;
        let op = DiskOp::Read { handle: self.0.handle, offset, len };
        match self.0.shard.disk(op).await? {
            DiskOut::Bytes(bytes) => {
                buffer[from..][..bytes.len()].copy_from_slice(&bytes);
                Ok((buffer, bytes.len()))
            }
            other => Err(unexpected(&other)),
        }
    }

    /// As [`super::FileHandle::write_at`].
    pub(crate) async fn write_at(
        &self,
        offset: u64,
        buffer: AlignedBuf,
        from: usize,
    ) -> io::Result<AlignedBuf> {
        let offset = offset + from as u64;
        self.check_aligned(offset, buffer.len() - from)?;
        let op = DiskOp::Write { handle: self.0.handle, offset, data: buffer[from..].to_vec() };
        self.0.shard.done(op).await?;
        Ok(buffer)
    }

    /// As [`crate::file::File::write_durable`]. A write through is a write whose sync begins at once.
    pub(crate) async fn write_durable(
        &self,
        offset: u64,
        buffer: AlignedBuf,
        _through: bool,
    ) -> io::Result<io::Result<()>> {
        self.write_at(offset, buffer, 0).await?;
        Ok(self.sync_data().await)
    }

    pub(crate) async fn sync_data(&self) -> io::Result<()> {
        self.0.shard.done(DiskOp::Sync { handle: self.0.handle }).await
    }

    pub(crate) async fn allocate(&self, len: u64) -> io::Result<bool> {
        self.0.shard.done(DiskOp::Allocate { handle: self.0.handle, len }).await.map(|()| true)
    }

    pub(crate) async fn truncate(&self, len: u64) -> io::Result<()> {
        self.0.shard.done(DiskOp::Truncate { handle: self.0.handle, len }).await
    }

    /// As [`crate::file::File::map`].
    pub(crate) fn map(&self, bytes: usize) -> io::Result<Rc<SharedMemory>> {
        let mut core = self.0.shard.core.borrow_mut();
        if !self.0.shard.is_current(&core) {
            return Err(dead());
        }
        core.nodes[self.0.shard.node].disk.map(self.0.handle, bytes)
    }

    /// Ends the mapping. That of a node that died is the disk's business.
    pub(crate) fn unmap(&self) {
        let mut core = self.0.shard.core.borrow_mut();
        if self.0.shard.is_current(&core) {
            core.nodes[self.0.shard.node].disk.unmap(self.0.handle);
        }
    }

    pub(crate) fn links(&self) -> io::Result<u64> {
        let core = self.0.shard.core.borrow();
        if !self.0.shard.is_current(&core) {
            return Err(dead());
        }
        core.nodes[self.0.shard.node].disk.links(self.0.handle)
    }

    pub(crate) async fn size(&self) -> io::Result<u64> {
        let core = self.0.shard.core.borrow();
        if !self.0.shard.is_current(&core) {
            return Err(dead());
        }
        core.nodes[self.0.shard.node].disk.size(self.0.handle)
    }
}

struct SocketInner {
    shard: Rc<SimShard>,
    id: SockId,
    /// A stream that was read from cannot move to another shard: on a real one, bytes may be on their way.
    read: Cell<bool>,
}

impl SocketInner {
    fn new(shard: &Rc<SimShard>, id: SockId) -> SocketInner {
        SocketInner { shard: shard.clone(), id, read: Cell::new(false) }
    }
}

impl Drop for SocketInner {
    fn drop(&mut self) {
        if self.id == 0 {
            return;
        }
        let mut core = self.shard.core.borrow_mut();
        if self.shard.is_current(&core) {
            let now = self.shard.time(&core);
            core.net.close(now, self.id);
            core.waiters.remove(&self.id);
        }
    }
}

/// A connection of a simulated network.
#[derive(Clone)]
pub(crate) struct SimStream(Rc<SocketInner>);

impl SimStream {
    /// Bytes that have arrived; empty at the end of the stream.
    pub(crate) async fn recv(&self) -> io::Result<Vec<u8>> {
        self.0.read.set(true);
        self.recv_at_most(RECV_BYTES as usize).await
    }

    /// As [`SimStream::recv`], but the connection may still go to another shard: what is not taken stays in the network.
    pub(crate) async fn recv_at_most(&self, max: usize) -> io::Result<Vec<u8>> {
        let SocketInner { shard, id, .. } = &*self.0;
        poll_fn(|cx| {
            let mut core = shard.core.borrow_mut();
            let max = 1 + shard.rng.borrow_mut().below(max as u64);
            match core.net.recv(*id, max as usize) {
                Ok(Some(bytes)) => Poll::Ready(Ok(bytes)),
                Err(error) => Poll::Ready(Err(error)),
                Ok(None) => {
                    shard.wait_for(&mut core, *id, cx.waker());
                    Poll::Pending
                }
            }
        })
        .await
    }

    /// Sends what fits now; 0 when nothing does.
    pub(crate) fn try_send(&self, bytes: &[u8]) -> io::Result<usize> {
        let SocketInner { shard, id, .. } = &*self.0;
        let mut core = shard.core.borrow_mut();
        let now = shard.time(&core);
        core.net.send(now, *id, bytes)
    }

    /// Sends everything, waiting for room, and gives the buffer back.
    pub(crate) async fn send_all(&self, bytes: Vec<u8>) -> io::Result<Vec<u8>> {
        let SocketInner { shard, id, .. } = &*self.0;
        let mut sent = 0;
        poll_fn(|cx| {
            while sent < bytes.len() {
                match self.try_send(&bytes[sent..])? {
                    0 => {
                        shard.wait_for(&mut shard.core.borrow_mut(), *id, cx.waker());
                        return Poll::Pending;
                    }
                    n => sent += n,
                }
            }
            Poll::Ready(io::Result::Ok(()))
        })
        .await?;
        Ok(bytes)
    }

    /// Ends both directions: nothing more is sent, a pending receive sees the end.
    pub(crate) fn shutdown(&self) {
        let SocketInner { shard, id, .. } = &*self.0;
        let mut core = shard.core.borrow_mut();
        let now = shard.time(&core);
        core.net.shutdown(now, *id);
    }

    pub(crate) fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.addresses().map(|(_, remote)| remote)
    }

    pub(crate) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.addresses().map(|(local, _)| local)
    }

    fn addresses(&self) -> io::Result<(SocketAddr, SocketAddr)> {
        self.0.shard.core.borrow().net.addresses(self.0.id).ok_or_else(dead)
    }

    /// Gives the connection away; fails once it was read from or when another handle of it exists.
    pub(crate) fn into_transfer(self) -> io::Result<SimTransfer> {
        if self.0.read.get() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the connection has been read from"));
        }
        match Rc::try_unwrap(self.0) {
            Ok(mut inner) => Ok(SimTransfer { id: std::mem::take(&mut inner.id) }),
            Err(_) => Err(io::Error::new(io::ErrorKind::InvalidInput, "the connection has another handle")),
        }
    }
}

/// A connection on its way to another shard of the node; closed when it does not arrive.
pub(crate) struct SimTransfer {
    /// 0 once it has arrived.
    id: SockId,
}

impl Drop for SimTransfer {
    fn drop(&mut self) {
        if self.id == 0 {
            return;
        }
        crate::shard::try_with(|shard| {
            if let crate::backend::Backend::Sim(sim) = &shard.backend {
                drop(SocketInner::new(sim, self.id));
            }
        });
    }
}

struct ListenerInner {
    socket: SocketInner,
    addr: SocketAddr,
}

/// A listener of a simulated network.
#[derive(Clone)]
pub(crate) struct SimListener(Rc<ListenerInner>);

impl SimListener {
    pub(crate) async fn accept(&self) -> io::Result<(SimStream, SocketAddr)> {
        let SocketInner { shard, id, .. } = &self.0.socket;
        poll_fn(|cx| {
            let mut core = shard.core.borrow_mut();
            match core.net.accept(*id) {
                Ok(Some((id, from))) => {
                    let stream = SimStream(Rc::new(SocketInner::new(shard, id)));
                    Poll::Ready(Ok((stream, from)))
                }
                Ok(None) => {
                    shard.wait_for(&mut core, *id, cx.waker());
                    Poll::Pending
                }
                Err(error) => Poll::Ready(Err(error)),
            }
        })
        .await
    }

    pub(crate) fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.0.addr)
    }
}

/// A folder lock of a simulated disk; released on drop and when the process dies.
pub(crate) struct SimLock {
    shard: Rc<SimShard>,
    path: String,
}

impl Drop for SimLock {
    fn drop(&mut self) {
        let mut core = self.shard.core.borrow_mut();
        if self.shard.is_current(&core) {
            core.nodes[self.shard.node].disk.unlock(&self.path);
        }
    }
}
