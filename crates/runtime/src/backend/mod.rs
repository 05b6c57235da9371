//! The seam between a shard and the world: chosen when the shard starts, one predictable branch per operation.
//!
//! Every operation takes owned buffers. A backend keeps them until the operation is over, even when the future that
//! asked is dropped.

/// Socket addresses and options.
mod socket;
/// Names and folders by helper thread.
mod folders;
/// Files by helper thread.
mod blocking_file;
/// Linux io_uring, with a few plain system calls.
pub(crate) mod uring;
/// epoll and helper threads.
pub(crate) mod epoll;
/// Disk, network and clock of a simulated world.
pub(crate) mod sim;

use crate::buffer::AlignedBuf;
use crate::inbox::Inbox;
use crate::log::Level;
use crate::offload::OffloadPool;
use base::Instant;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// How to open a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenOptions {
    /// Reads are allowed.
    pub read: bool,
    /// Writes are allowed.
    pub write: bool,
    /// Made when missing.
    pub create: bool,
    /// Made, and an error when it exists.
    pub create_new: bool,
    /// Emptied.
    pub truncate: bool,
    /// Around the page cache: offsets, lengths and memory must be multiples of 4096.
    pub direct: bool,
}

impl OpenOptions {
    /// For reading.
    pub const READ: OpenOptions = OpenOptions {
        read: true,
        write: false,
        create: false,
        create_new: false,
        truncate: false,
        direct: false,
    };
    /// For writing a new file; an error when it exists.
    pub const CREATE_NEW: OpenOptions = OpenOptions {
        read: true,
        write: true,
        create: true,
        create_new: true,
        truncate: false,
        direct: false,
    };
    /// For reading and writing, made when missing.
    pub const CREATE: OpenOptions = OpenOptions {
        read: true,
        write: true,
        create: true,
        create_new: false,
        truncate: false,
        direct: false,
    };

    /// The same, around the page cache.
    pub const fn with_direct(self) -> OpenOptions {
        OpenOptions { direct: true, ..self }
    }
}

/// Which file or folder a path leads to, whatever the path: relative or not, through symbolic links or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    pub(crate) device: u64,
    pub(crate) inode: u64,
}

/// One entry of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    /// File name without the folder.
    pub name: String,
    /// Is it a folder itself?
    pub is_dir: bool,
    /// Bytes, 0 for folders.
    pub size: u64,
}

/// A mistake that a scenario can plant in a node, to prove that its checker would find it. Never true on a real node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Bug {
    /// A file is reported synced without being synced.
    SkipSync,
    /// A checksum that does not match is accepted.
    IgnoreCrc,
    /// Replay ends before the last entry.
    ReplayStopsEarly,
    /// What a killed process left of its log beside the segments is not replayed.
    ForgetTail,
    /// A decision is taken before an await and used after it.
    ProbeBeforeAwait,
    /// A read that began before a flush still fills the row cache after it.
    PopulationRace,
    /// A digest leaves out what follows a null.
    DigestStopsAtNull,
    /// A logged batch of several shards is written without being logged first.
    SkipBatchlog,
    /// A logged batch is kept by its coordinator alone.
    BatchlogOnlyHere,
    /// Compactions forget tombstones without proof that nothing older is left elsewhere.
    PurgeWithoutProof,
    /// The manifest names an sstable whose files are not synced.
    ManifestBeforeData,
    /// A filter says that a key is not there although it is.
    FilterFalseNegative,
    /// What nobody waits for uses a device as if somebody did.
    BackgroundUnbounded,
    /// A vote is given and not written.
    VoteNotDurable,
    /// Cutting the head of a log cuts one entry too many.
    HeadCutTooFar,
    /// A member that is behind is given entries that are not committed.
    PullUncommitted,
    /// A write that was planned before a truncation is applied behind it.
    LateWriteAfterTruncate,
    /// A change of roles is shown to one shard alone.
    RolesOfOneShard,
    /// A hint counts as delivered although its replica has not answered.
    HintUnheardIsDelivered,
    /// A repair leaves out what of a partition lies behind the end of a page.
    RepairSkipsRest,
    /// A repair does not send tombstones.
    RepairForgetsTombstones,
    /// A node that replaces another is read from without having got what it must hold.
    ReplaceUnfilled,
    /// A node founds a cluster although it has not heard all seeds.
    FoundsUnasked,
    /// A replica that is sent what was planned on a newer version acts on its own.
    BehindDoesNotPull,
    /// Coordinators are shown a table before stores know it.
    PlansBeforeStores,
    /// A node that comes with an older folder is spoken with.
    OldFolderLetIn,
    /// A snapshot of the cluster's state is taken without what the entries in it have each node do.
    SnapshotWithoutEffects,
    /// A promise or an acceptance of a lightweight transaction is answered before it is durable.
    PromiseNotDurable,
    /// What a lightweight transaction proposes is accepted whatever was promised.
    AcceptUnfenced,
    /// Two rounds of lightweight transactions at one time are one.
    BallotReused,
    /// A failed condition or a serial read leaves what is under way as it is.
    PaxosNoFence,
    /// A lightweight transaction proposes before a quorum has what was committed last.
    PaxosLeavesBehind,
    /// What a lightweight transaction wrote is forgotten before every holder has it.
    PruneEarly,
    /// A member that replaces another is not told what was promised and agreed on with that one.
    ReplaceWithoutBallots,
    /// Ballots are swept although holders still take part in rounds of that time.
    SweepWithoutFloor,
    /// A floor is answered before what was at work below it is over.
    FloorDoesNotWait,
    /// A floor is answered before it is durable.
    FloorNotDurable,
    /// Ballots are swept although what they are about is not committed by every holder.
    SweepUnsettled,
    /// A proposer takes a swept partition for one on which it has proposed nothing.
    SweptIsNever,
    /// What the leader of a counter has counted is sent to others before it is durable.
    CountSentBeforeDurable,
    /// Two increments of a counter begin with the same shard of their leader.
    CountWithoutTurn,
    /// An increment whose leader did not answer is given to another.
    CountRetried,
    /// Every leader counts under the same id.
    CountIdShared,
    /// No mistake, but an older release: the node neither says that it knows traces nor knows their verbs.
    BeforeTraces,
}

/// How a real shard talks to the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reactor {
    /// io_uring, or epoll where it is refused.
    #[default]
    Auto,
    /// io_uring or nothing.
    Uring,
    /// epoll, and helper threads for files.
    Epoll,
}

/// Where a shard's operations go.
#[derive(Clone)]
pub(crate) enum Backend {
    Uring(Rc<uring::Uring>),
    Epoll(Rc<epoll::Epoll>),
    Sim(Rc<sim::SimShard>),
}

#[derive(Clone)]
pub(crate) enum FileHandle {
    Uring(Rc<uring::UringFile>),
    Blocking(Rc<blocking_file::BlockingFile>),
    Sim(sim::SimFile),
}

impl FileHandle {
    /// Do operations go around the page cache?
    pub(crate) fn is_direct(&self) -> bool {
        match self {
            FileHandle::Uring(file) => file.is_direct(),
            FileHandle::Blocking(file) => file.is_direct(),
            FileHandle::Sim(file) => file.is_direct(),
        }
    }

    /// The number of the device that holds the file.
    pub(crate) fn device(&self) -> io::Result<u64> {
        match self {
            FileHandle::Uring(file) => file.device(),
            FileHandle::Blocking(file) => file.device(),
            FileHandle::Sim(_) => Ok(0),
        }
    }

    /// How many names the file has.
    pub(crate) fn links(&self) -> io::Result<u64> {
        match self {
            FileHandle::Uring(file) => file.links(),
            FileHandle::Blocking(file) => file.links(),
            FileHandle::Sim(file) => file.links(),
        }
    }

    pub(crate) async fn size(&self) -> io::Result<u64> {
        match self {
            FileHandle::Uring(file) => file.size(),
            FileHandle::Blocking(file) => file.size(),
            FileHandle::Sim(file) => file.size().await,
        }
    }

    /// Fills the buffer, whose start belongs to `offset`, behind its first `from` bytes; answers how many bytes there were.
    pub(crate) async fn read_at(
        &self,
        offset: u64,
        buffer: AlignedBuf,
        from: usize,
    ) -> io::Result<(AlignedBuf, usize)> {
        match self {
            FileHandle::Uring(file) => file.read_at(offset, buffer, from).await,
            FileHandle::Blocking(file) => file.read_at(offset, buffer, from).await,
            FileHandle::Sim(file) => file.read_at(offset, buffer, from).await,
        }
    }

    /// Writes the buffer, whose start belongs to `offset`, but for its first `from` bytes.
    pub(crate) async fn write_at(
        &self,
        offset: u64,
        buffer: AlignedBuf,
        from: usize,
    ) -> io::Result<AlignedBuf> {
        match self {
            FileHandle::Uring(file) => file.write_at(offset, buffer, from).await,
            FileHandle::Blocking(file) => file.write_at(offset, buffer, from).await,
            FileHandle::Sim(file) => file.write_at(offset, buffer, from).await,
        }
    }
}

#[derive(Clone)]
pub(crate) enum StreamHandle {
    Uring(Rc<uring::UringStream>),
    Epoll(Rc<epoll::EpollStream>),
    Sim(sim::SimStream),
}

#[derive(Clone)]
pub(crate) enum ListenerHandle {
    Uring(Rc<uring::UringListener>),
    Epoll(Rc<epoll::EpollListener>),
    Sim(sim::SimListener),
}

/// Received bytes.
pub(crate) enum Received {
    Uring(uring::RingBytes),
    Bytes(Vec<u8>),
}

/// A connection between two shards of one node.
pub(crate) enum Transferred {
    Real(std::os::fd::OwnedFd),
    Sim(sim::SimTransfer),
}

/// An exclusive lock on a folder; released on drop.
pub(crate) enum LockHandle {
    Real { _file: std::fs::File },
    Sim { _lock: sim::SimLock },
}

impl Backend {
    pub(crate) fn now(&self) -> Instant {
        match self {
            Backend::Uring(_) | Backend::Epoll(_) => crate::clock::monotonic(),
            Backend::Sim(sim) => sim.now(),
        }
    }

    pub(crate) fn unix_micros(&self) -> i64 {
        match self {
            Backend::Uring(_) | Backend::Epoll(_) => crate::clock::unix_micros(),
            Backend::Sim(sim) => sim.unix_micros(),
        }
    }

    /// Nanoseconds for quotas; a simulated shard counts charged virtual time, and charges a little for each call.
    #[inline]
    pub(crate) fn ticks(&self) -> u64 {
        match self {
            Backend::Uring(uring) => uring.ticks(),
            Backend::Epoll(epoll) => epoll.ticks(),
            Backend::Sim(sim) => sim.ticks(),
        }
    }

    /// Are there completions that a background task should make room for?
    pub(crate) fn has_completions(&self) -> bool {
        match self {
            Backend::Uring(uring) => uring.has_completions(),
            Backend::Epoll(_) | Backend::Sim(_) => false,
        }
    }

    /// Can the shard see completions without a system call?
    pub(crate) fn sees_completions(&self) -> bool {
        matches!(self, Backend::Uring(_))
    }

    /// How the shard talks to the world, as operators call it.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Backend::Uring(_) => "io_uring",
            Backend::Epoll(_) => "epoll",
            Backend::Sim(_) => "simulation",
        }
    }

    /// Takes one log line; false when it should go to standard error.
    pub(crate) fn log(&self, level: Level, line: &str) -> bool {
        match self {
            Backend::Uring(_) | Backend::Epoll(_) => false,
            Backend::Sim(sim) => sim.log(level, line),
        }
    }

    pub(crate) async fn open(&self, path: &Path, options: OpenOptions) -> io::Result<FileHandle> {
        match self {
            Backend::Uring(uring) => Ok(FileHandle::Uring(uring.open(path, options).await?)),
            Backend::Epoll(epoll) => {
                let file = blocking_file::BlockingFile::open(&epoll.folders, path, options).await?;
                Ok(FileHandle::Blocking(Rc::new(file)))
            }
            Backend::Sim(sim) => Ok(FileHandle::Sim(sim.open(path, options).await?)),
        }
    }

    pub(crate) async fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        match self {
            Backend::Uring(uring) => uring.folders.rename(from, to).await,
            Backend::Epoll(epoll) => epoll.folders.rename(from, to).await,
            Backend::Sim(sim) => sim.rename(from, to).await,
        }
    }

    /// Makes a second name for a file, as the hard link of a snapshot.
    pub(crate) async fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        match self {
            Backend::Uring(uring) => uring.folders.link(from, to).await,
            Backend::Epoll(epoll) => epoll.folders.link(from, to).await,
            Backend::Sim(sim) => sim.link(from, to).await,
        }
    }

    pub(crate) async fn remove(&self, path: &Path) -> io::Result<()> {
        match self {
            Backend::Uring(uring) => uring.folders.remove(path).await,
            Backend::Epoll(epoll) => epoll.folders.remove(path).await,
            Backend::Sim(sim) => sim.remove(path).await,
        }
    }

    pub(crate) async fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        match self {
            Backend::Uring(uring) => uring.folders.create_dir_all(path).await,
            Backend::Epoll(epoll) => epoll.folders.create_dir_all(path).await,
            Backend::Sim(sim) => sim.create_dir_all(path).await,
        }
    }

    pub(crate) async fn remove_dir_all(&self, path: &Path) -> io::Result<()> {
        match self {
            Backend::Uring(uring) => uring.folders.remove_dir_all(path).await,
            Backend::Epoll(epoll) => epoll.folders.remove_dir_all(path).await,
            Backend::Sim(sim) => sim.remove_dir_all(path).await,
        }
    }

    pub(crate) async fn sync_dir(&self, path: &Path) -> io::Result<()> {
        match self {
            Backend::Uring(uring) => uring.folders.sync_dir(path).await,
            Backend::Epoll(epoll) => epoll.folders.sync_dir(path).await,
            Backend::Sim(sim) => sim.sync_dir(path).await,
        }
    }

    pub(crate) async fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        match self {
            Backend::Uring(uring) => uring.folders.read_dir(path).await,
            Backend::Epoll(epoll) => epoll.folders.read_dir(path).await,
            Backend::Sim(sim) => sim.read_dir(path).await,
        }
    }

    pub(crate) async fn exists(&self, path: &Path) -> io::Result<bool> {
        match self {
            Backend::Uring(uring) => uring.folders.exists(path).await,
            Backend::Epoll(epoll) => epoll.folders.exists(path).await,
            Backend::Sim(sim) => sim.exists(path).await,
        }
    }

    pub(crate) async fn identity(&self, path: &Path) -> io::Result<Identity> {
        match self {
            Backend::Uring(uring) => uring.folders.identity(path).await,
            Backend::Epoll(epoll) => epoll.folders.identity(path).await,
            Backend::Sim(sim) => sim.identity(path).await,
        }
    }

    pub(crate) async fn free_space(&self, path: &Path) -> io::Result<u64> {
        match self {
            Backend::Uring(uring) => uring.folders.free_space(path).await,
            Backend::Epoll(epoll) => epoll.folders.free_space(path).await,
            Backend::Sim(sim) => sim.free_space(path).await,
        }
    }

    pub(crate) async fn lock_exclusive(&self, path: &Path) -> io::Result<LockHandle> {
        match self {
            Backend::Uring(uring) => {
                Ok(LockHandle::Real { _file: uring.folders.lock_exclusive(path).await? })
            }
            Backend::Epoll(epoll) => {
                Ok(LockHandle::Real { _file: epoll.folders.lock_exclusive(path).await? })
            }
            Backend::Sim(sim) => Ok(LockHandle::Sim { _lock: sim.lock_exclusive(path).await? }),
        }
    }

    pub(crate) async fn bind(&self, address: SocketAddr) -> io::Result<ListenerHandle> {
        match self {
            Backend::Uring(uring) => Ok(ListenerHandle::Uring(uring.bind(address)?)),
            Backend::Epoll(epoll) => Ok(ListenerHandle::Epoll(epoll.bind(address)?)),
            Backend::Sim(sim) => Ok(ListenerHandle::Sim(sim.bind(address).await?)),
        }
    }

    pub(crate) async fn connect(
        &self,
        address: SocketAddr,
        local: Option<SocketAddr>,
    ) -> io::Result<StreamHandle> {
        match self {
            Backend::Uring(uring) => Ok(StreamHandle::Uring(uring.connect(address, local).await?)),
            Backend::Epoll(epoll) => Ok(StreamHandle::Epoll(epoll.connect(address, local).await?)),
            Backend::Sim(sim) => Ok(StreamHandle::Sim(sim.connect(address, local).await?)),
        }
    }

    /// Takes over a connection that another shard of the node gave away.
    pub(crate) fn adopt(&self, transferred: Transferred) -> StreamHandle {
        match (self, transferred) {
            (Backend::Uring(uring), Transferred::Real(fd)) => StreamHandle::Uring(uring.adopt(fd)),
            (Backend::Epoll(epoll), Transferred::Real(fd)) => StreamHandle::Epoll(epoll.adopt(fd)),
            (Backend::Sim(sim), Transferred::Sim(transfer)) => StreamHandle::Sim(sim.adopt(transfer)),
            _ => unreachable!("all shards of a node have the same backend"),
        }
    }
    /// The backend of a real shard: io_uring, or epoll where the kernel refuses it, and then what it said. Call on the
    /// shard's thread.
    pub(crate) fn real(
        reactor: Reactor,
        inbox: &Arc<Inbox>,
        offload: &Arc<OffloadPool>,
    ) -> io::Result<(Backend, Option<io::Error>)> {
        let refused = match reactor {
            Reactor::Epoll => None,
            Reactor::Uring | Reactor::Auto => match uring::Uring::new(inbox.clone(), offload.clone()) {
                Ok(uring) => return Ok((Backend::Uring(uring), None)),
                Err(error) if reactor == Reactor::Uring => return Err(error),
                Err(error) => Some(error),
            },
        };
        Ok((Backend::Epoll(epoll::Epoll::new(inbox.clone(), offload.clone())?), refused))
    }

    /// Hands queued operations to the kernel and handles what is complete, without waiting.
    pub(crate) fn poll(&self) {
        match self {
            Backend::Uring(uring) => uring.poll(),
            Backend::Epoll(epoll) => epoll.poll(),
            Backend::Sim(_) => {}
        }
    }

    /// The same, after sleeping until something is complete or the time is over.
    pub(crate) fn wait(&self, limit: Option<Duration>) {
        match self {
            Backend::Uring(uring) => uring.wait(limit),
            Backend::Epoll(epoll) => epoll.wait(limit),
            Backend::Sim(_) => {}
        }
    }

    /// Ends another shard's sleep.
    pub(crate) fn wake(&self, inbox: &Inbox) {
        match self {
            Backend::Uring(uring) => uring.wake(inbox),
            Backend::Epoll(_) | Backend::Sim(_) => inbox.ring_bell(),
        }
    }

    /// Ends what is under way, after every task of the shard is gone.
    pub(crate) fn close(&self) {
        if let Backend::Uring(uring) = self {
            uring.close();
        }
    }
}
