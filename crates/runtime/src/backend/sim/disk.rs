//! One simulated disk: what the kernel shows (cache) and what would survive a power cut (durable) are kept apart.
//!
//! ```text
//!   write ─► in flight ─► cache (sector dirty) ──sync──► durable
//!   rename, create, unlink ─► names in cache, one pending NameOp ──sync_dir──► durable names
//! ```
//! A mapped file's memory is looked at when its process dies, and now and then a page of it becomes durable, as the kernel
//! pleases. A power cut decides by seed, for every dirty 512-byte sector, whether it was lost, kept or torn, and for
//! pending name changes which of them happened: any subset in which each directory entry sees a prefix of its changes.
//! A killed process loses nothing but its operations in flight. All state is ordered, so the same seed gives the same disk.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Component, Path};

use base::Prng;

/// Copies of a whole disk.
mod image;
/// Mapped files.
mod mapped;

pub(crate) use image::Image;
use mapped::Map;

/// The unit that a power cut loses, keeps or tears.
pub(crate) const SECTOR: usize = 512;

/// A file or folder, by number; numbers are never reused.
type Ino = u64;

const ROOT: Ino = 1;
/// How often the end of an operation is also when the kernel writes a page of a mapping.
const WRITE_BACK: f64 = 0.1;
/// Fewer nodes are not looked over for those that nothing reaches.
const COLLECT_LEAST: usize = 256;
/// Bytes of removed files that are worth a look.
const COLLECT_BYTES: usize = 32 << 20;

/// How a file is opened.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OpenFlags {
    pub create: bool,
    pub create_new: bool,
    pub truncate: bool,
}

/// One operation, executed when it completes, not when it is submitted (a sync captures its files at submission).
#[derive(Debug)]
pub(crate) enum DiskOp {
    Open { path: String, flags: OpenFlags },
    Read { handle: u64, offset: u64, len: usize },
    Write { handle: u64, offset: u64, data: Vec<u8> },
    Sync { handle: u64 },
    Truncate { handle: u64, len: u64 },
    Allocate { handle: u64, len: u64 },
    Rename { from: String, to: String },
    Link { from: String, to: String },
    Remove { path: String },
    RemoveDirAll { path: String },
    CreateDirAll { path: String },
    SyncDir { path: String },
    ReadDir { path: String },
    Stat { path: String },
    FreeSpace,
}

/// One entry of a folder listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub name: String,
    pub is_dir: bool,
    pub size: u64,
}

/// What a completed operation answers.
#[derive(Debug)]
pub(crate) enum DiskOut {
    Done,
    Handle(u64),
    Bytes(Vec<u8>),
    Size(u64),
    Inode(Ino),
    Entries(Vec<Entry>),
}

#[derive(Clone, Debug, Default)]
struct FileNode {
    /// What reads see; its length is the file's size.
    cache: Vec<u8>,
    /// What a power cut leaves; sectors past its end are zero.
    durable: Vec<u8>,
    /// Sectors whose cache content is not durable, with the version of the last write.
    dirty: BTreeMap<u32, u64>,
    /// Version of the last change of the size, and of the one that is durable.
    size_version: u64,
    durable_size_version: u64,
    links: u32,
    open: u32,
    syncing: u32,
}

#[derive(Clone, Debug, Default)]
struct DirNode {
    cache: BTreeMap<String, Ino>,
    durable: BTreeMap<String, Ino>,
}

#[derive(Clone, Debug)]
enum Node {
    File(FileNode),
    Dir(DirNode),
}

/// One atomic change of names that is not durable yet.
#[derive(Clone, Debug)]
struct NameOp {
    changes: Vec<(Ino, String, Option<Ino>)>,
}

#[derive(Debug)]
struct Inflight {
    op: DiskOp,
    /// For a sync: dirty sectors, size and its version at submission.
    captured: Option<Captured>,
}

#[derive(Debug)]
struct Captured {
    ino: Ino,
    sectors: Vec<(u32, u64)>,
    size: u64,
    size_version: u64,
}

/// The disk of one node; it outlives every boot of the node.
pub(crate) struct Disk {
    nodes: BTreeMap<Ino, Node>,
    handles: BTreeMap<u64, Ino>,
    pending: Vec<NameOp>,
    inflight: BTreeMap<u64, Inflight>,
    /// Mapped files, by handle.
    maps: BTreeMap<u64, Map>,
    locks: BTreeSet<String>,
    next_ino: Ino,
    /// So many nodes are worth another look for those that nothing reaches.
    collect_at: usize,
    /// Bytes of files that were removed, and may be forgotten.
    removed_bytes: usize,
    next_handle: u64,
    next_ticket: u64,
    version: u64,
    used: u64,
    capacity: u64,
    failing_syncs: u32,
    failing_reads: u32,
    /// Whether a failing sync says that there is no space.
    failing_syncs_as_full: bool,
    ignore_syncs: bool,
    read_only: bool,
    rng: Prng,
}

fn not_found(path: &str) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("no such file or directory: {path}"))
}

fn bad_handle() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "bad file handle")
}

fn is_a_directory(path: &str) -> io::Error {
    io::Error::new(io::ErrorKind::IsADirectory, format!("is a directory: {path}"))
}

fn no_space() -> io::Error {
    io::Error::new(io::ErrorKind::StorageFull, "no space left on device")
}

/// The components of `path`; relative paths start at the root, `..` is resolved textually.
fn components(path: &str) -> Vec<&str> {
    let mut out = Vec::new();
    for part in Path::new(path).components() {
        match part {
            Component::Normal(name) => out.push(name.to_str().unwrap_or("?")),
            Component::ParentDir => {
                out.pop();
            }
            _ => {}
        }
    }
    out
}

impl Disk {
    /// An empty disk of `capacity` bytes whose faults come from `seed`.
    pub(crate) fn new(seed: u64, capacity: u64) -> Disk {
        let mut nodes = BTreeMap::new();
        nodes.insert(ROOT, Node::Dir(DirNode::default()));
        Disk {
            nodes,
            handles: BTreeMap::new(),
            pending: Vec::new(),
            inflight: BTreeMap::new(),
            maps: BTreeMap::new(),
            locks: BTreeSet::new(),
            next_ino: ROOT + 1,
            collect_at: COLLECT_LEAST,
            removed_bytes: 0,
            next_handle: 1,
            next_ticket: 1,
            version: 1,
            used: 0,
            capacity,
            failing_syncs: 0,
            failing_reads: 0,
            failing_syncs_as_full: false,
            ignore_syncs: false,
            read_only: false,
            rng: Prng::new(seed),
        }
    }

    /// The next `n` syncs fail; what they covered is then durable or lost by seed.
    pub(crate) fn fail_next_syncs(&mut self, n: u32) {
        self.failing_syncs = n;
        self.failing_syncs_as_full = false;
    }

    /// The next `n` reads fail.
    pub(crate) fn fail_next_reads(&mut self, n: u32) {
        self.failing_reads = n;
    }

    /// As [`Disk::fail_next_syncs`], saying that there is no space.
    pub(crate) fn fail_next_syncs_as_full(&mut self, n: u32) {
        self.failing_syncs = n;
        self.failing_syncs_as_full = true;
    }

    fn sync_failure(&self) -> io::Error {
        if self.failing_syncs_as_full {
            no_space()
        } else {
            io::Error::other("input/output error (simulated)")
        }
    }

    /// From now on a sync of a file answers without doing anything (a lying disk); folders are synced as asked.
    pub(crate) fn set_ignore_syncs(&mut self, on: bool) {
        self.ignore_syncs = on;
    }

    /// From now on nothing can be changed, as on a file system that was mounted anew for reading only.
    pub(crate) fn set_read_only(&mut self, on: bool) {
        self.read_only = on;
    }

    pub(crate) fn set_capacity(&mut self, bytes: u64) {
        self.capacity = bytes;
    }

    pub(crate) fn free_space(&self) -> u64 {
        self.capacity.saturating_sub(self.used)
    }

    // ---- names -------------------------------------------------------------------------------------------------

    fn dir(&self, ino: Ino) -> Option<&DirNode> {
        match self.nodes.get(&ino) {
            Some(Node::Dir(dir)) => Some(dir),
            _ => None,
        }
    }

    fn dir_mut(&mut self, ino: Ino) -> Option<&mut DirNode> {
        match self.nodes.get_mut(&ino) {
            Some(Node::Dir(dir)) => Some(dir),
            _ => None,
        }
    }

    fn file_mut(&mut self, ino: Ino) -> Option<&mut FileNode> {
        match self.nodes.get_mut(&ino) {
            Some(Node::File(file)) => Some(file),
            _ => None,
        }
    }

    fn lookup(&self, path: &str) -> io::Result<Ino> {
        let mut at = ROOT;
        for name in components(path) {
            let dir = self.dir(at).ok_or_else(|| not_found(path))?;
            at = *dir.cache.get(name).ok_or_else(|| not_found(path))?;
        }
        Ok(at)
    }

    /// The folder that holds `path`'s last component, and that component.
    fn parent<'p>(&self, path: &'p str) -> io::Result<(Ino, &'p str)> {
        let parts = components(path);
        let (name, above) = parts.split_last().ok_or_else(|| not_found(path))?;
        let mut at = ROOT;
        for part in above {
            let dir = self.dir(at).ok_or_else(|| not_found(path))?;
            at = *dir.cache.get(*part).ok_or_else(|| not_found(path))?;
        }
        self.dir(at).ok_or_else(|| not_found(path))?;
        Ok((at, name))
    }

    /// Applies one atomic change of names to the cache and remembers it until the folder is synced.
    fn change_names(&mut self, changes: Vec<(Ino, String, Option<Ino>)>) {
        for (dir, name, target) in &changes {
            let old = self.dir(*dir).and_then(|d| d.cache.get(name)).copied();
            if let Some(ino) = target {
                if let Some(file) = self.file_mut(*ino) {
                    file.links += 1;
                }
                self.dir_mut(*dir).expect("checked by the caller").cache.insert(name.clone(), *ino);
            } else {
                self.dir_mut(*dir).expect("checked by the caller").cache.remove(name);
            }
            if let Some(ino) = old {
                if let Some(file) = self.file_mut(ino) {
                    file.links -= 1;
                }
                self.release(ino);
            }
        }
        self.pending.push(NameOp { changes });
    }

    /// Takes a file that nobody can reach any more out of the space account; its node stays for the durable image.
    fn release(&mut self, ino: Ino) {
        if let Some(Node::File(file)) = self.nodes.get_mut(&ino)
            && file.links == 0
            && file.open == 0
        {
            self.used -= file.cache.len() as u64;
            self.removed_bytes += file.durable.len();
            file.cache = Vec::new();
            // A durable entry may still name it: then a power cut brings the durable bytes back, and their size.
            file.dirty.clear();
            file.size_version = file.durable_size_version;
        }
    }

    fn new_file(&mut self) -> Ino {
        let ino = self.next_ino;
        self.next_ino += 1;
        self.nodes.insert(ino, Node::File(FileNode::default()));
        ino
    }

    fn open(&mut self, path: &str, flags: OpenFlags) -> io::Result<DiskOut> {
        let (dir, name) = self.parent(path)?;
        let existing = self.dir(dir).and_then(|d| d.cache.get(name)).copied();
        let ino = match existing {
            Some(_) if flags.create_new => {
                return Err(io::Error::new(io::ErrorKind::AlreadyExists, format!("file exists: {path}")));
            }
            Some(ino) => ino,
            None if flags.create || flags.create_new => {
                let ino = self.new_file();
                self.change_names(vec![(dir, name.to_string(), Some(ino))]);
                ino
            }
            None => return Err(not_found(path)),
        };
        self.file_mut(ino).ok_or_else(|| is_a_directory(path))?.open += 1;
        if flags.truncate {
            self.resize(ino, 0)?;
        }
        let handle = self.next_handle;
        self.next_handle += 1;
        self.handles.insert(handle, ino);
        Ok(DiskOut::Handle(handle))
    }

    /// Closes a handle; unknown handles (of a killed process) are ignored.
    pub(crate) fn close(&mut self, handle: u64) {
        if let Some(ino) = self.handles.remove(&handle) {
            if let Some(file) = self.file_mut(ino) {
                file.open -= 1;
            }
            self.release(ino);
        }
    }

    /// The size of an open file.
    pub(crate) fn size(&self, handle: u64) -> io::Result<u64> {
        let ino = self.handles.get(&handle).ok_or_else(bad_handle)?;
        match self.nodes.get(ino) {
            Some(Node::File(file)) => Ok(file.cache.len() as u64),
            _ => Err(bad_handle()),
        }
    }

    /// The names of an open file.
    pub(crate) fn links(&self, handle: u64) -> io::Result<u64> {
        let ino = self.handles.get(&handle).ok_or_else(bad_handle)?;
        match self.nodes.get(ino) {
            Some(Node::File(file)) => Ok(u64::from(file.links)),
            _ => Err(bad_handle()),
        }
    }

    fn rename(&mut self, from: &str, to: &str) -> io::Result<DiskOut> {
        let (from_dir, from_name) = self.parent(from)?;
        let (to_dir, to_name) = self.parent(to)?;
        let ino = self
            .dir(from_dir)
            .and_then(|d| d.cache.get(from_name))
            .copied()
            .ok_or_else(|| not_found(from))?;
        if from_dir == to_dir && from_name == to_name {
            return Ok(DiskOut::Done);
        }
        self.change_names(vec![
            (to_dir, to_name.to_string(), Some(ino)),
            (from_dir, from_name.to_string(), None),
        ]);
        Ok(DiskOut::Done)
    }

    fn link(&mut self, from: &str, to: &str) -> io::Result<DiskOut> {
        let ino = self.lookup(from)?;
        let (dir, name) = self.parent(to)?;
        if self.dir(dir).is_some_and(|d| d.cache.contains_key(name)) {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, format!("file exists: {to}")));
        }
        if self.dir(ino).is_some() {
            return Err(is_a_directory(from));
        }
        self.change_names(vec![(dir, name.to_string(), Some(ino))]);
        Ok(DiskOut::Done)
    }

    fn remove(&mut self, path: &str) -> io::Result<DiskOut> {
        let (dir, name) = self.parent(path)?;
        let ino = self.dir(dir).and_then(|d| d.cache.get(name)).copied().ok_or_else(|| not_found(path))?;
        if let Some(folder) = self.dir(ino)
            && !folder.cache.is_empty()
        {
            return Err(io::Error::new(
                io::ErrorKind::DirectoryNotEmpty,
                format!("directory not empty: {path}"),
            ));
        }
        self.change_names(vec![(dir, name.to_string(), None)]);
        Ok(DiskOut::Done)
    }

    fn remove_dir_all(&mut self, path: &str) -> io::Result<DiskOut> {
        let ino = self.lookup(path)?;
        let names: Vec<String> = self.dir(ino).map(|d| d.cache.keys().cloned().collect()).unwrap_or_default();
        for name in names {
            self.remove_dir_all(&format!("{path}/{name}"))?;
        }
        self.remove(path)
    }

    fn create_dir_all(&mut self, path: &str) -> io::Result<DiskOut> {
        let mut at = ROOT;
        for name in components(path) {
            let next = self.dir(at).ok_or_else(|| not_found(path))?.cache.get(name).copied();
            at = match next {
                Some(ino) => ino,
                None => {
                    let ino = self.next_ino;
                    self.next_ino += 1;
                    self.nodes.insert(ino, Node::Dir(DirNode::default()));
                    self.change_names(vec![(at, name.to_string(), Some(ino))]);
                    ino
                }
            };
        }
        self.dir(at).ok_or_else(|| {
            io::Error::new(io::ErrorKind::AlreadyExists, format!("not a directory: {path}"))
        })?;
        Ok(DiskOut::Done)
    }

    fn sync_dir(&mut self, path: &str) -> io::Result<DiskOut> {
        let ino = self.lookup(path)?;
        self.dir(ino).ok_or_else(|| not_found(path))?;
        if self.take_sync_failure() {
            return Err(self.sync_failure());
        }
        // An operation over two folders is atomic: it brings along what came before it on its other entry.
        let mut entries: BTreeSet<(Ino, &str)> = BTreeSet::new();
        let mut done = vec![false; self.pending.len()];
        for at in (0..self.pending.len()).rev() {
            let changes = &self.pending[at].changes;
            let hit = changes.iter().any(|(d, name, _)| *d == ino || entries.contains(&(*d, name.as_str())));
            if hit {
                done[at] = true;
                entries.extend(changes.iter().map(|(d, name, _)| (*d, name.as_str())));
            }
        }
        for (op, done) in std::mem::take(&mut self.pending).into_iter().zip(done) {
            if done {
                self.make_names_durable(&op);
            } else {
                self.pending.push(op);
            }
        }
        // Looking costs as much as there are nodes: it waits until they have doubled, or much was removed.
        if self.nodes.len() >= self.collect_at || self.removed_bytes > COLLECT_BYTES {
            self.collect_garbage();
            self.removed_bytes = 0;
            self.collect_at = COLLECT_LEAST.max(2 * self.nodes.len());
        }
        Ok(DiskOut::Done)
    }

    fn make_names_durable(&mut self, op: &NameOp) {
        for (dir, name, target) in &op.changes {
            let Some(dir) = self.dir_mut(*dir) else { continue };
            match target {
                Some(ino) => dir.durable.insert(name.clone(), *ino),
                None => dir.durable.remove(name),
            };
        }
    }

    /// Forgets nodes that no name (shown, durable or pending) and no handle reaches.
    fn collect_garbage(&mut self) {
        let mut keep: BTreeSet<Ino> = BTreeSet::from([ROOT]);
        keep.extend(self.handles.values());
        for op in &self.pending {
            keep.extend(op.changes.iter().flat_map(|(dir, _, target)| [Some(*dir), *target]).flatten());
        }
        for node in self.nodes.values() {
            if let Node::Dir(dir) = node {
                keep.extend(dir.cache.values().chain(dir.durable.values()));
            }
        }
        self.nodes.retain(|ino, _| keep.contains(ino));
    }

    // ---- bytes -------------------------------------------------------------------------------------------------

    fn next_version(&mut self) -> u64 {
        self.version += 1;
        self.version
    }

    fn resize(&mut self, ino: Ino, len: u64) -> io::Result<()> {
        let version = self.next_version();
        let free = self.free_space();
        let file = self.file_mut(ino).ok_or_else(bad_handle)?;
        let old = file.cache.len() as u64;
        if len > old && len - old > free {
            return Err(no_space());
        }
        if len == old {
            return Ok(());
        }
        file.size_version = version;
        file.cache.resize(len as usize, 0);
        let first = (old.min(len) / SECTOR as u64) as u32;
        if len < old {
            let end = len.div_ceil(SECTOR as u64) as u32;
            file.dirty.retain(|sector, _| *sector < end);
        } else {
            // Zeros over what the durable image still holds are a change of their own.
            let stale = (file.durable.len().div_ceil(SECTOR) as u32).min(len.div_ceil(SECTOR as u64) as u32);
            for sector in first..stale {
                file.dirty.insert(sector, version);
            }
        }
        self.used = self.used + len - old;
        Ok(())
    }

    fn write(&mut self, ino: Ino, offset: u64, data: &[u8]) -> io::Result<()> {
        if data.is_empty() {
            return Ok(());
        }
        let end = offset + data.len() as u64;
        let size = self.file_mut(ino).ok_or_else(bad_handle)?.cache.len() as u64;
        if end > size {
            self.resize(ino, end)?;
        }
        let version = self.next_version();
        let first = (offset / SECTOR as u64) as u32;
        let last = ((end - 1) / SECTOR as u64) as u32;
        // The kernel may write a dirty page back at any time, so an older unsynced version may be the durable one.
        let early = self.rng.chance(0.25);
        let file = self.file_mut(ino).expect("looked up above");
        for sector in first..=last {
            if file.dirty.insert(sector, version).is_some() && (early || file.syncing > 0) {
                file.write_back(sector);
            }
        }
        file.cache[offset as usize..end as usize].copy_from_slice(data);
        Ok(())
    }

    fn take_sync_failure(&mut self) -> bool {
        let failing = self.failing_syncs > 0;
        self.failing_syncs -= u32::from(failing);
        failing
    }

    fn finish_sync(&mut self, captured: &Captured) -> io::Result<DiskOut> {
        if let Some(file) = self.file_mut(captured.ino) {
            file.syncing -= 1;
        }
        let failed = self.take_sync_failure();
        if self.ignore_syncs && !failed {
            return Ok(DiskOut::Done);
        }
        let mut rng = self.rng.fork();
        let Some(file) = self.file_mut(captured.ino) else { return Ok(DiskOut::Done) };
        for (sector, version) in &captured.sectors {
            if file.dirty.get(sector) == Some(version) {
                file.dirty.remove(sector);
                if !failed || rng.chance(0.5) {
                    file.write_back(*sector);
                }
            }
        }
        if failed {
            return Err(self.sync_failure());
        }
        if captured.size_version > file.durable_size_version {
            file.durable_size_version = captured.size_version;
            file.durable.resize(captured.size as usize, 0);
        }
        Ok(DiskOut::Done)
    }

    // ---- operations in flight ----------------------------------------------------------------------------------

    /// Takes an operation; its effect comes with [`Disk::complete`] (or, if the node dies first, perhaps not at all).
    pub(crate) fn submit(&mut self, op: DiskOp) -> u64 {
        let captured = match &op {
            DiskOp::Sync { handle } => self.capture(*handle),
            _ => None,
        };
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.inflight.insert(ticket, Inflight { op, captured });
        ticket
    }

    fn capture(&mut self, handle: u64) -> Option<Captured> {
        let ino = *self.handles.get(&handle)?;
        let file = self.file_mut(ino)?;
        file.syncing += 1;
        Some(Captured {
            ino,
            sectors: file.dirty.iter().map(|(sector, version)| (*sector, *version)).collect(),
            size: file.cache.len() as u64,
            size_version: file.size_version,
        })
    }

    /// Executes a submitted operation.
    pub(crate) fn complete(&mut self, ticket: u64) -> io::Result<DiskOut> {
        let Inflight { op, captured } = self.inflight.remove(&ticket).ok_or_else(bad_handle)?;
        if !self.maps.is_empty() && self.rng.chance(WRITE_BACK) {
            self.write_a_page();
        }
        self.execute(op, captured)
    }

    /// Would it change something? What was written before can still be synced.
    fn changes(&self, op: &DiskOp) -> bool {
        match op {
            DiskOp::Open { path, flags } => {
                flags.truncate || (flags.create || flags.create_new) && self.lookup(path).is_err()
            }
            DiskOp::CreateDirAll { path } => self.lookup(path).is_err(),
            DiskOp::Write { .. }
            | DiskOp::Truncate { .. }
            | DiskOp::Allocate { .. }
            | DiskOp::Rename { .. }
            | DiskOp::Link { .. }
            | DiskOp::Remove { .. }
            | DiskOp::RemoveDirAll { .. } => true,
            DiskOp::Read { .. }
            | DiskOp::Sync { .. }
            | DiskOp::SyncDir { .. }
            | DiskOp::ReadDir { .. }
            | DiskOp::Stat { .. }
            | DiskOp::FreeSpace => false,
        }
    }

    fn handle(&self, handle: u64) -> io::Result<Ino> {
        self.handles.get(&handle).copied().ok_or_else(bad_handle)
    }

    fn execute(&mut self, op: DiskOp, captured: Option<Captured>) -> io::Result<DiskOut> {
        if self.read_only && self.changes(&op) {
            return Err(io::Error::new(io::ErrorKind::ReadOnlyFilesystem, "read-only file system"));
        }
        match op {
            DiskOp::Open { path, flags } => self.open(&path, flags),
            DiskOp::Read { .. } if self.failing_reads > 0 => {
                self.failing_reads -= 1;
                Err(io::Error::other("input/output error (simulated)"))
            }
            DiskOp::Read { handle, offset, len } => {
                let ino = self.handle(handle)?;
                let file = self.file_mut(ino).ok_or_else(bad_handle)?;
                let from = (offset as usize).min(file.cache.len());
                let to = from.saturating_add(len).min(file.cache.len());
                Ok(DiskOut::Bytes(file.cache[from..to].to_vec()))
            }
            DiskOp::Write { handle, offset, data } => {
                let ino = self.handle(handle)?;
                self.write(ino, offset, &data)?;
                Ok(DiskOut::Done)
            }
            DiskOp::Sync { .. } => self.finish_sync(&captured.ok_or_else(bad_handle)?),
            DiskOp::Truncate { handle, len } => {
                let ino = self.handle(handle)?;
                self.resize(ino, len)?;
                Ok(DiskOut::Done)
            }
            DiskOp::Allocate { handle, len } => {
                let ino = self.handle(handle)?;
                let size = self.size(handle)?;
                self.resize(ino, len.max(size))?;
                Ok(DiskOut::Done)
            }
            DiskOp::Rename { from, to } => self.rename(&from, &to),
            DiskOp::Link { from, to } => self.link(&from, &to),
            DiskOp::Remove { path } => self.remove(&path),
            DiskOp::RemoveDirAll { path } => self.remove_dir_all(&path),
            DiskOp::CreateDirAll { path } => self.create_dir_all(&path),
            DiskOp::SyncDir { path } => self.sync_dir(&path),
            DiskOp::ReadDir { path } => self.read_dir(&path).map(DiskOut::Entries),
            DiskOp::Stat { path } => {
                let inode = self.lookup(&path)?;
                Ok(DiskOut::Inode(inode))
            }
            DiskOp::FreeSpace => Ok(DiskOut::Size(self.free_space())),
        }
    }

    /// Takes the folder lock of `path`; false if another holder has it.
    pub(crate) fn lock(&mut self, path: &str) -> bool {
        self.locks.insert(components(path).join("/"))
    }

    /// Gives the folder lock back.
    pub(crate) fn unlock(&mut self, path: &str) {
        self.locks.remove(&components(path).join("/"));
    }

    /// The entries of a folder by name.
    pub(crate) fn read_dir(&self, path: &str) -> io::Result<Vec<Entry>> {
        let ino = self.lookup(path)?;
        let dir = self.dir(ino).ok_or_else(|| not_found(path))?;
        Ok(dir
            .cache
            .iter()
            .map(|(name, ino)| match &self.nodes[ino] {
                Node::Dir(_) => Entry { name: name.clone(), is_dir: true, size: 0 },
                Node::File(file) => {
                    Entry { name: name.clone(), is_dir: false, size: file.cache.len() as u64 }
                }
            })
            .collect())
    }

    /// Every file's path and size, in order.
    pub(crate) fn files(&self) -> Vec<(String, u64)> {
        let mut out = Vec::new();
        self.walk(ROOT, "", &mut |path, _, file| out.push((path.to_string(), file.cache.len() as u64)));
        out
    }

    /// Every path of the file that a path leads to, in order: links are several names of one file.
    pub(crate) fn names_of(&self, path: &str) -> Vec<String> {
        let mut out = Vec::new();
        if let Ok(wanted) = self.lookup(path) {
            self.walk(ROOT, "", &mut |path, ino, _| {
                if ino == wanted {
                    out.push(path.to_string());
                }
            });
        }
        out
    }

    fn walk(&self, ino: Ino, prefix: &str, see: &mut impl FnMut(&str, Ino, &FileNode)) {
        match &self.nodes[&ino] {
            Node::File(file) => see(prefix, ino, file),
            Node::Dir(dir) => {
                for (name, child) in &dir.cache {
                    self.walk(*child, &format!("{prefix}/{name}"), see);
                }
            }
        }
    }

    /// Bit rot: flips one bit of one byte, in cache and on the platter. False if the file is shorter.
    pub(crate) fn flip_bit(&mut self, path: &str, offset: u64, bit: u8) -> bool {
        let Ok(ino) = self.lookup(path) else { return false };
        let Some(file) = self.file_mut(ino) else { return false };
        let at = offset as usize;
        let mask = 1 << (bit & 7);
        if let Some(byte) = file.durable.get_mut(at) {
            *byte ^= mask;
        }
        match file.cache.get_mut(at) {
            Some(byte) => {
                *byte ^= mask;
                true
            }
            None => false,
        }
    }

    // ---- death -------------------------------------------------------------------------------------------------

    /// The process died: operations in flight may or may not have happened, everything the kernel holds stays.
    pub(crate) fn kill(&mut self) {
        self.end_mappings();
        self.abandon_inflight();
        self.close_everything();
    }

    /// The machine lost power: only the durable image and what the seed lets through survive.
    pub(crate) fn power_cut(&mut self) {
        self.end_mappings();
        self.abandon_inflight();
        self.close_everything();
        let mut rng = self.rng.fork();
        // Names first: any subset in which every entry sees a prefix of its own changes.
        let mut stuck: BTreeSet<(Ino, String)> = BTreeSet::new();
        let lose_all = rng.chance(0.25);
        let keep_all = rng.chance(0.25);
        for op in std::mem::take(&mut self.pending) {
            let blocked = op.changes.iter().any(|(dir, name, _)| stuck.contains(&(*dir, name.clone())));
            let happens = !blocked && !lose_all && (keep_all || rng.chance(0.5));
            if happens {
                self.make_names_durable(&op);
            } else {
                stuck.extend(op.changes.into_iter().map(|(dir, name, _)| (dir, name)));
            }
        }
        self.collect_garbage();
        let fate = Fate { lose_all: rng.chance(0.2), keep_all: rng.chance(0.2) };
        for node in self.nodes.values_mut() {
            match node {
                Node::Dir(dir) => dir.cache = dir.durable.clone(),
                Node::File(file) => file.power_cut(&mut rng, fate),
            }
        }
        self.recount();
    }

    fn abandon_inflight(&mut self) {
        for (_, Inflight { op, captured }) in std::mem::take(&mut self.inflight) {
            match op {
                DiskOp::Write { handle, offset, data } => self.abandon_write(handle, offset, &data),
                op => {
                    let happened = self.rng.chance(0.5);
                    if let Some(captured) = captured {
                        if happened {
                            let _ = self.finish_sync(&captured);
                        }
                    } else if happened {
                        let _ = self.execute(op, None);
                    }
                }
            }
        }
    }

    /// A write that was cut short: each of its sectors arrived or not.
    fn abandon_write(&mut self, handle: u64, offset: u64, data: &[u8]) {
        let Ok(ino) = self.handle(handle) else { return };
        let all = self.rng.chance(0.3);
        let mut at = 0;
        while at < data.len() {
            let room = SECTOR - ((offset as usize + at) % SECTOR);
            let end = (at + room).min(data.len());
            if all || self.rng.chance(0.5) {
                let _ = self.write(ino, offset + at as u64, &data[at..end]);
            }
            at = end;
        }
    }

    fn close_everything(&mut self) {
        self.locks.clear();
        self.failing_syncs = 0;
        for handle in self.handles.keys().copied().collect::<Vec<_>>() {
            self.close(handle);
        }
        for node in self.nodes.values_mut() {
            if let Node::File(file) = node {
                file.syncing = 0;
            }
        }
    }

    /// Rebuilds link counts and the space account after a power cut.
    fn recount(&mut self) {
        self.collect_garbage();
        let mut links: BTreeMap<Ino, u32> = BTreeMap::new();
        for node in self.nodes.values() {
            if let Node::Dir(dir) = node {
                for ino in dir.cache.values() {
                    *links.entry(*ino).or_default() += 1;
                }
            }
        }
        self.used = 0;
        for (ino, node) in &mut self.nodes {
            if let Node::File(file) = node {
                file.links = links.get(ino).copied().unwrap_or(0);
                self.used += file.cache.len() as u64;
            }
        }
    }
}

/// What one power cut does to unsynced sectors as a whole; otherwise each sector is drawn for itself.
#[derive(Clone, Copy)]
struct Fate {
    lose_all: bool,
    keep_all: bool,
}

impl FileNode {
    /// Copies one sector of the cache into the durable image.
    fn write_back(&mut self, sector: u32) {
        let from = sector as usize * SECTOR;
        let to = (from + SECTOR).min(self.cache.len());
        if from >= to {
            return;
        }
        if self.durable.len() < to {
            self.durable.resize(to, 0);
        }
        self.durable[from..to].copy_from_slice(&self.cache[from..to]);
    }

    fn power_cut(&mut self, rng: &mut Prng, fate: Fate) {
        let written = self.cache.len() as u64;
        let durable = self.durable.len() as u64;
        let mut size = durable;
        if self.size_version != self.durable_size_version {
            // The size is metadata of its own: old, new, or some growth in between.
            size = match rng.below(3) {
                _ if fate.keep_all => written,
                _ if fate.lose_all => durable,
                0 => durable,
                1 => written,
                _ => durable.min(written) + rng.below(durable.abs_diff(written) + 1),
            };
        }
        for sector in std::mem::take(&mut self.dirty).into_keys() {
            match rng.below(4) {
                _ if fate.keep_all => self.write_back(sector),
                _ if fate.lose_all => {}
                0 => {}
                1 | 2 => self.write_back(sector),
                _ => self.tear(sector, rng),
            }
        }
        self.durable.resize(size as usize, 0);
        self.cache = self.durable.clone();
        self.size_version = self.durable_size_version;
    }

    /// Part of the sector is new and the rest old, in either order.
    fn tear(&mut self, sector: u32, rng: &mut Prng) {
        let from = sector as usize * SECTOR;
        let to = (from + SECTOR).min(self.cache.len());
        if from >= to {
            return;
        }
        if self.durable.len() < to {
            self.durable.resize(to, 0);
        }
        let cut = from + rng.below((to - from) as u64 + 1) as usize;
        let range = if rng.chance(0.5) { from..cut } else { cut..to };
        self.durable[range.clone()].copy_from_slice(&self.cache[range]);
    }
}

#[cfg(test)]
#[path = "disk_tests.rs"]
mod tests;
