//! The seam between a shard and the world: chosen when the shard starts, one predictable branch per operation.
//!
//! Every operation takes owned buffers. A backend keeps them until the operation is over, even when the future that
//! asked is dropped.

/// Disk, network and clock of a simulated world.
pub(crate) mod sim;
/// Linux io_uring, with a few plain system calls.
pub(crate) mod uring;

use crate::log::Level;
use base::Instant;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::rc::Rc;

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
    /// A decision is taken before an await and used after it.
    ProbeBeforeAwait,
    /// A digest leaves out what follows a null.
    DigestStopsAtNull,
}

/// Where a shard's operations go.
#[derive(Clone)]
pub(crate) enum Backend {
    Uring(Rc<uring::Uring>),
    Sim(Rc<sim::SimShard>),
}

#[derive(Clone)]
pub(crate) enum FileHandle {
    Uring(Rc<uring::UringFile>),
    Sim(sim::SimFile),
}

#[derive(Clone)]
pub(crate) enum StreamHandle {
    Uring(Rc<uring::UringStream>),
    Sim(sim::SimStream),
}

#[derive(Clone)]
pub(crate) enum ListenerHandle {
    Uring(Rc<uring::UringListener>),
    Sim(sim::SimListener),
}

/// Received bytes.
pub(crate) enum Received {
    Uring(uring::RingBytes),
    Bytes(Vec<u8>),
}

/// A connection between two shards of one node.
pub(crate) enum Transferred {
    Uring(std::os::fd::OwnedFd),
    Sim(sim::SimTransfer),
}

/// An exclusive lock on a folder; released on drop.
pub(crate) enum LockHandle {
    Uring { _file: std::fs::File },
    Sim { _lock: sim::SimLock },
}

impl Backend {
    pub(crate) fn now(&self) -> Instant {
        match self {
            Backend::Uring(_) => crate::clock::monotonic(),
            Backend::Sim(sim) => sim.now(),
        }
    }

    pub(crate) fn unix_micros(&self) -> i64 {
        match self {
            Backend::Uring(_) => crate::clock::unix_micros(),
            Backend::Sim(sim) => sim.unix_micros(),
        }
    }

    /// Nanoseconds for quotas; a simulated shard counts charged virtual time, and charges a little for each call.
    #[inline]
    pub(crate) fn ticks(&self) -> u64 {
        match self {
            Backend::Uring(uring) => uring.ticks(),
            Backend::Sim(sim) => sim.ticks(),
        }
    }

    /// Are there completions that a background task should make room for?
    pub(crate) fn has_completions(&self) -> bool {
        match self {
            Backend::Uring(uring) => uring.has_completions(),
            Backend::Sim(_) => false,
        }
    }

    /// Takes one log line; false when it should go to standard error.
    pub(crate) fn log(&self, level: Level, line: &str) -> bool {
        match self {
            Backend::Uring(_) => false,
            Backend::Sim(sim) => sim.log(level, line),
        }
    }

    pub(crate) async fn open(&self, path: &Path, options: OpenOptions) -> io::Result<FileHandle> {
        match self {
            Backend::Uring(uring) => Ok(FileHandle::Uring(uring.open(path, options).await?)),
            Backend::Sim(sim) => Ok(FileHandle::Sim(sim.open(path, options).await?)),
        }
    }

    pub(crate) async fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        match self {
            Backend::Uring(uring) => uring.rename(from, to).await,
            Backend::Sim(sim) => sim.rename(from, to).await,
        }
    }

    /// Makes a second name for a file, as the hard link of a snapshot.
    pub(crate) async fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        match self {
            Backend::Uring(uring) => uring.link(from, to).await,
            Backend::Sim(sim) => sim.link(from, to).await,
        }
    }

    pub(crate) async fn remove(&self, path: &Path) -> io::Result<()> {
        match self {
            Backend::Uring(uring) => uring.remove(path).await,
            Backend::Sim(sim) => sim.remove(path).await,
        }
    }

    pub(crate) async fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        match self {
            Backend::Uring(uring) => uring.create_dir_all(path).await,
            Backend::Sim(sim) => sim.create_dir_all(path).await,
        }
    }

    pub(crate) async fn remove_dir_all(&self, path: &Path) -> io::Result<()> {
        match self {
            Backend::Uring(uring) => uring.remove_dir_all(path).await,
            Backend::Sim(sim) => sim.remove_dir_all(path).await,
        }
    }

    pub(crate) async fn sync_dir(&self, path: &Path) -> io::Result<()> {
        match self {
            Backend::Uring(uring) => uring.sync_dir(path).await,
            Backend::Sim(sim) => sim.sync_dir(path).await,
        }
    }

    pub(crate) async fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        match self {
            Backend::Uring(uring) => uring.read_dir(path).await,
            Backend::Sim(sim) => sim.read_dir(path).await,
        }
    }

    pub(crate) async fn exists(&self, path: &Path) -> io::Result<bool> {
        match self {
            Backend::Uring(uring) => uring.exists(path).await,
            Backend::Sim(sim) => sim.exists(path).await,
        }
    }

    pub(crate) async fn free_space(&self, path: &Path) -> io::Result<u64> {
        match self {
            Backend::Uring(uring) => uring.free_space(path).await,
            Backend::Sim(sim) => sim.free_space(path).await,
        }
    }

    pub(crate) async fn lock_exclusive(&self, path: &Path) -> io::Result<LockHandle> {
        match self {
            Backend::Uring(uring) => Ok(LockHandle::Uring { _file: uring.lock_exclusive(path).await? }),
            Backend::Sim(sim) => Ok(LockHandle::Sim { _lock: sim.lock_exclusive(path).await? }),
        }
    }

    pub(crate) async fn bind(&self, address: SocketAddr) -> io::Result<ListenerHandle> {
        match self {
            Backend::Uring(uring) => Ok(ListenerHandle::Uring(uring.bind(address)?)),
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
            Backend::Sim(sim) => Ok(StreamHandle::Sim(sim.connect(address, local).await?)),
        }
    }

    /// Takes over a connection that another shard of the node gave away.
    pub(crate) fn adopt(&self, transferred: Transferred) -> StreamHandle {
        match (self, transferred) {
            (Backend::Uring(uring), Transferred::Uring(fd)) => StreamHandle::Uring(uring.adopt(fd)),
            (Backend::Sim(sim), Transferred::Sim(transfer)) => StreamHandle::Sim(sim.adopt(transfer)),
            _ => unreachable!("all shards of a node have the same backend"),
        }
    }
}
