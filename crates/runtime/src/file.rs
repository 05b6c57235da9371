//! Files. A future that is dropped leaves its operation running to its end; the buffer stays with the backend. Reads,
//! writes and syncs wait for their turn at the device first, see [`crate::io`]; large ones of work that nobody waits for
//! may have to do so piece by piece, and of those that are dropped the piece under way runs to its end.

use crate::backend::{Backend, FileHandle, LockHandle};
use crate::io::{Device, Permit};
use crate::limits::DIRECT_ALIGN;
use crate::shard::with;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

pub use crate::backend::{DirEntry, Identity, OpenOptions};
pub use crate::buffer::{AlignedBuf, Piece, align_up};

/// How a write becomes durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncMethod {
    /// A sync of the file follows the write; on io_uring the two are linked, so that nobody is woken between them.
    After,
    /// The write itself is durable when it ends (`RWF_DSYNC`); what was written before must be durable already.
    Through,
}

impl SyncMethod {
    /// As system calls name it.
    pub fn name(self) -> &'static str {
        match self {
            SyncMethod::After => "fdatasync",
            SyncMethod::Through => "RWF_DSYNC",
        }
    }
}

/// An open file; cloning it gives another handle to the same one, the last handle closes it.
#[derive(Clone)]
pub struct File {
    handle: FileHandle,
    device: Rc<Device>,
    /// Opened around the page cache, whether or not the file system agreed.
    direct: bool,
    path: Rc<Path>,
}

impl std::fmt::Debug for File {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "File({:?})", self.path)
    }
}

/// A request's turn at a device, until it is dropped.
pub struct Turn {
    permit: Permit,
    /// For all that was asked for, not for a piece of it.
    whole: bool,
}

/// One operation on the current shard's backend.
macro_rules! backend {
    ($call:ident($($argument:expr),*)) => {{
        let backend = current();
        backend.$call($($argument),*).await
    }};
}

fn current() -> Backend {
    with(|shard| shard.backend.clone())
}

impl File {
    /// Opens a file. Falls back to the page cache where the file system knows no direct operations, which is found out
    /// once for each folder.
    pub async fn open(path: impl AsRef<Path>, options: OpenOptions) -> io::Result<File> {
        let path: Rc<Path> = path.as_ref().into();
        let handle = open(&path, options).await.map_err(|e| with_path(e, &path))?;
        let device = handle.device().map_err(|e| with_path(e, &path))?;
        Ok(File { handle, device: crate::io::device(device), direct: options.direct, path })
    }

    /// Whether operations really go around the page cache.
    pub fn is_direct(&self) -> bool {
        self.handle.is_direct()
    }

    /// The path it was opened with.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads up to `buffer.len()` bytes; fewer only at the end of the file. Direct files want multiples of 4096.
    pub async fn read_at(&self, offset: u64, buffer: AlignedBuf) -> io::Result<(AlignedBuf, usize)> {
        let turn = self.turn(buffer.len()).await;
        self.read_pieces(turn, offset, buffer).await.map_err(|e| with_path(e, &self.path))
    }

    /// A read or a write has ended well.
    fn moved(&self, permit: Permit) {
        if self.is_direct() {
            permit.moved();
        }
    }

    /// Fills the buffer in as many turns as it takes; answers how many bytes there were.
    async fn read_pieces(
        &self,
        turn: Turn,
        offset: u64,
        mut buffer: AlignedBuf,
    ) -> io::Result<(AlignedBuf, usize)> {
        let Turn { mut permit, whole } = turn;
        let len = buffer.len();
        let mut size = if whole { len } else { align_up(permit.bytes() as usize).min(len) };
        let mut done = 0;
        loop {
            permit.takes(size as u64);
            buffer.set_len(done + size);
            let count;
            (buffer, count) = self.handle.read_at(offset, buffer, done).await?;
            self.moved(permit);
            done += count;
            if count < size || done == len {
                buffer.set_len(len);
                return Ok((buffer, done));
            }
            size = self.device.piece(len - done);
            permit = self.device.admit_next(size as u64).await;
        }
    }

    /// Reads exactly `len` bytes from any offset. `UnexpectedEof` when the file ends before.
    pub async fn read_exact_at(&self, offset: u64, len: usize) -> io::Result<Vec<u8>> {
        self.read_piece(offset, len).await.map(|piece| piece.to_vec())
    }

    /// Reads exactly `len` bytes from any offset, in one operation. Memory is taken when it is the read's turn, so those
    /// that wait cost none. `UnexpectedEof` when the file ends before.
    pub async fn read_piece(&self, offset: u64, len: usize) -> io::Result<Piece> {
        let turn = self.turn(len).await;
        self.read_piece_in(turn, offset, len).await
    }

    /// Waits until the device may be asked for about `len` bytes. Dropping the future costs nothing.
    pub async fn turn(&self, len: usize) -> Turn {
        let size = self.device.piece(len);
        Turn { permit: self.device.admit(size as u64).await, whole: size == len }
    }

    /// As [`File::read_piece`], when its turn has come. Whole blocks of a direct file are read, and counted.
    pub async fn read_piece_in(&self, turn: Turn, offset: u64, len: usize) -> io::Result<Piece> {
        let align = if self.direct { DIRECT_ALIGN as u64 } else { 1 };
        let start = offset / align * align;
        let skip = (offset - start) as usize;
        let wanted = skip.checked_add(len).ok_or(io::ErrorKind::InvalidInput)?;
        let ask = if self.direct { align_up(wanted) } else { wanted };
        let buffer = with(|shard| shard.read_buffers.take(ask));
        let read = self.read_pieces(turn, start, buffer).await;
        let (buffer, count) = read.map_err(|e| with_path(e, &self.path))?;
        if count < wanted {
            return Err(with_path(io::ErrorKind::UnexpectedEof.into(), &self.path));
        }
        Ok(Piece::new(buffer, skip..wanted))
    }

    /// Writes the whole buffer and gives it back. Direct files want multiples of 4096.
    pub async fn write_at(&self, offset: u64, mut buffer: AlignedBuf) -> io::Result<AlignedBuf> {
        if self.direct
            && (!offset.is_multiple_of(DIRECT_ALIGN as u64) || !buffer.len().is_multiple_of(DIRECT_ALIGN))
        {
            return Err(with_path(io::ErrorKind::InvalidInput.into(), &self.path));
        }
        let len = buffer.len();
        let mut done = 0;
        loop {
            let size = self.device.piece(len - done);
            let permit = match done {
                0 => self.device.admit(size as u64).await,
                _ => self.device.admit_next(size as u64).await,
            };
            buffer.set_len(done + size);
            buffer =
                self.handle.write_at(offset, buffer, done).await.map_err(|e| with_path(e, &self.path))?;
            self.moved(permit);
            done += size;
            if done == len {
                return Ok(buffer);
            }
        }
    }

    /// Writes the whole buffer and makes it durable with what was written before. The outer error: the write failed, and may
    /// be tried again. The inner one: it was written, and is not known to be durable; a later sync may not make it so.
    pub async fn write_durable(
        &self,
        offset: u64,
        buffer: AlignedBuf,
        method: SyncMethod,
    ) -> io::Result<io::Result<()>> {
        if self.device.piece(buffer.len()) < buffer.len() {
            self.write_at(offset, buffer).await?;
            return Ok(self.sync_data().await);
        }
        let _turn = self.device.admit(buffer.len() as u64).await;
        let through = method == SyncMethod::Through;
        let result = match &self.handle {
            FileHandle::Uring(file) => file.write_durable(offset, buffer, through).await,
            FileHandle::Blocking(file) => file.write_durable(offset, buffer, through).await,
            FileHandle::Sim(file) => file.write_durable(offset, buffer, through).await,
        };
        let synced = result.map_err(|e| with_path(e, &self.path))?;
        Ok(synced.map_err(|e| with_path(e, &self.path)))
    }

    /// Makes everything written so far durable: data, and the size if it grew. Does not block the shard.
    pub async fn sync_data(&self) -> io::Result<()> {
        let _turn = self.device.admit(0).await;
        let result = match &self.handle {
            FileHandle::Uring(file) => file.sync_data().await,
            FileHandle::Blocking(file) => file.sync_data().await,
            FileHandle::Sim(file) => file.sync_data().await,
        };
        result.map_err(|e| with_path(e, &self.path))
    }

    /// The file's size in bytes.
    pub async fn size(&self) -> io::Result<u64> {
        self.handle.size().await
    }

    /// What operations go to.
    pub(crate) fn handle(&self) -> &FileHandle {
        &self.handle
    }

    /// The device that holds it.
    pub(crate) fn device(&self) -> &Rc<Device> {
        &self.device
    }

    /// How many names the file has; 0 for one that was removed while it is open.
    pub fn links(&self) -> io::Result<u64> {
        self.handle.links().map_err(|e| with_path(e, &self.path))
    }

    /// Reserves space for the first `len` bytes and makes the file at least that long. False: the file system cannot reserve,
    /// and the file is only as long.
    pub async fn allocate(&self, len: u64) -> io::Result<bool> {
        let result = match &self.handle {
            FileHandle::Uring(file) => file.allocate(len).await,
            FileHandle::Blocking(file) => file.allocate(len).await,
            FileHandle::Sim(file) => file.allocate(len).await,
        };
        result.map_err(|e| with_path(e, &self.path))
    }

    /// Cuts or lengthens the file to `len` bytes.
    pub async fn truncate(&self, len: u64) -> io::Result<()> {
        let result = match &self.handle {
            FileHandle::Uring(file) => file.truncate(len).await,
            FileHandle::Blocking(file) => file.truncate(len).await,
            FileHandle::Sim(file) => file.truncate(len).await,
        };
        result.map_err(|e| with_path(e, &self.path))
    }
}

/// Opens a file, directly if asked for and possible.
async fn open(path: &Path, options: OpenOptions) -> io::Result<FileHandle> {
    let folder = path.parent().unwrap_or(Path::new("."));
    if !options.direct {
        return backend!(open(path, options));
    }
    let known = with(|shard| shard.node.direct.known(folder));
    if known == Some(false) {
        return backend!(open(path, OpenOptions { direct: false, ..options }));
    }
    let handle = backend!(open(path, options))?;
    if !handle.is_direct() {
        with(|shard| shard.node.direct.note(folder, false));
        return Ok(handle);
    }
    if known.is_some() || !options.read || handle.size().await? == 0 {
        return Ok(handle);
    }
    // Some file systems take the flag and refuse the operations.
    match handle.read_at(0, AlignedBuf::zeroed(DIRECT_ALIGN), 0).await {
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
            with(|shard| shard.node.direct.note(folder, false));
            let again = OpenOptions { direct: false, create_new: false, truncate: false, ..options };
            backend!(open(path, again))
        }
        // Whatever else is wrong with it is the business of whoever reads it.
        _ => {
            with(|shard| shard.node.direct.note(folder, true));
            Ok(handle)
        }
    }
}

/// Says which file it was, keeping the kind and the code's text.
fn with_path(error: io::Error, path: &Path) -> io::Error {
    io::Error::new(error.kind(), OfPath { path: path.to_owned(), source: error })
}

/// What the system said about a file.
#[derive(Debug)]
struct OfPath {
    path: PathBuf,
    source: io::Error,
}

impl std::fmt::Display for OfPath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.source)
    }
}

impl std::error::Error for OfPath {}

/// Whether a file could not be opened because this process or the machine has too many open: nothing is wrong with the
/// disk, and the same works once others are closed.
pub fn is_out_of_descriptors(error: &io::Error) -> bool {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<OfPath>());
    let code = inner.map_or(error, |inner| &inner.source).raw_os_error();
    code.is_some_and(|code| [libc::EMFILE, libc::ENFILE].contains(&code))
}

/// What the system said, without the name of `path` that errors of this module begin with: for messages that name the
/// file themselves.
pub fn reason(error: &io::Error, path: &Path) -> String {
    let text = error.to_string();
    let plain = text.strip_prefix(&*path.to_string_lossy()).and_then(|rest| rest.strip_prefix(": "));
    plain.map(str::to_owned).unwrap_or(text)
}

/// Renames a file or folder, replacing what was there. Durable after [`sync_dir`] of the folder.
pub async fn rename(from: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<()> {
    let (from, to) = (from.as_ref(), to.as_ref());
    backend!(rename(from, to)).map_err(|e| with_path(e, from))
}

/// Gives a file a second name; of a symbolic link, the file that it leads to. Durable after [`sync_dir`] of the folder.
pub async fn link(from: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<()> {
    let (from, to) = (from.as_ref(), to.as_ref());
    backend!(link(from, to)).map_err(|e| with_path(e, from))
}

/// Removes a file. Durable after [`sync_dir`] of the folder.
pub async fn remove(path: impl AsRef<Path>) -> io::Result<()> {
    let path = path.as_ref();
    backend!(remove(path)).map_err(|e| with_path(e, path))
}

/// Makes a folder and those above it; fine when it exists.
pub async fn create_dir_all(path: impl AsRef<Path>) -> io::Result<()> {
    let path = path.as_ref();
    backend!(create_dir_all(path)).map_err(|e| with_path(e, path))
}

/// Removes a folder and all in it; fine when it is missing.
pub async fn remove_dir_all(path: impl AsRef<Path>) -> io::Result<()> {
    let path = path.as_ref();
    with(|shard| shard.node.direct.forget(path));
    backend!(remove_dir_all(path)).map_err(|e| with_path(e, path))
}

/// Makes names in a folder durable.
pub async fn sync_dir(path: impl AsRef<Path>) -> io::Result<()> {
    let path = path.as_ref();
    backend!(sync_dir(path)).map_err(|e| with_path(e, path))
}

/// What is in a folder, ordered by name. Names that are not UTF-8 are left out.
pub async fn read_dir(path: impl AsRef<Path>) -> io::Result<Vec<DirEntry>> {
    let path = path.as_ref();
    let mut entries = backend!(read_dir(path)).map_err(|e| with_path(e, path))?;
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(entries)
}

/// Is there a file or folder of this name?
pub async fn exists(path: impl AsRef<Path>) -> io::Result<bool> {
    let path = path.as_ref();
    backend!(exists(path)).map_err(|e| with_path(e, path))
}

/// The identity of what a path leads to, for as long as that is not removed.
pub async fn identity(path: impl AsRef<Path>) -> io::Result<Identity> {
    let path = path.as_ref();
    backend!(identity(path)).map_err(|e| with_path(e, path))
}

/// Bytes free for this process on the file system that holds the path.
pub async fn free_space(path: impl AsRef<Path>) -> io::Result<u64> {
    let path = path.as_ref();
    backend!(free_space(path)).map_err(|e| with_path(e, path))
}

/// The whole content of a file.
pub async fn read(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let file = File::open(path, OpenOptions::READ).await?;
    let size = file.size().await?;
    let len = usize::try_from(size).map_err(|_| io::ErrorKind::FileTooLarge)?;
    file.read_exact_at(0, len).await
}

/// Writes a new file and makes its content durable; its name is durable after [`sync_dir`].
pub async fn write_new_synced(path: impl AsRef<Path>, bytes: &[u8]) -> io::Result<()> {
    let file = File::open(path, OpenOptions::CREATE_NEW).await?;
    file.write_at(0, AlignedBuf::from(bytes)).await?;
    file.sync_data().await
}

/// Replaces a file's content so that a crash leaves the old or the new one: a synced `.tmp` beside it, then a rename,
/// then a sync of the folder.
pub async fn replace_atomic(path: impl AsRef<Path>, bytes: &[u8]) -> io::Result<()> {
    let path = path.as_ref();
    let mut name = path.as_os_str().to_owned();
    name.push(".tmp");
    let temporary = PathBuf::from(name);
    if exists(&temporary).await? {
        remove(&temporary).await?;
    }
    write_new_synced(&temporary, bytes).await?;
    rename(&temporary, path).await?;
    match path.parent() {
        Some(folder) => sync_dir(folder).await,
        None => Ok(()),
    }
}

/// An exclusive lock on a folder, held by this process until it is dropped.
pub struct FolderLock {
    _handle: LockHandle,
}

/// Locks a folder against other nodes. `WouldBlock` when another holds it.
pub async fn lock_exclusive(path: impl AsRef<Path>) -> io::Result<FolderLock> {
    let path = path.as_ref();
    let handle = backend!(lock_exclusive(path)).map_err(|e| with_path(e, path))?;
    Ok(FolderLock { _handle: handle })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_open_files_are_known_behind_the_name_of_the_file() {
        let full = io::Error::from_raw_os_error(libc::EMFILE);
        assert!(is_out_of_descriptors(&full));
        let told = with_path(full, Path::new("/data/x"));
        assert!(is_out_of_descriptors(&told));
        assert!(told.to_string().starts_with("/data/x: "), "{told}");
        assert_eq!(reason(&told, Path::new("/data/x")), "Too many open files (os error 24)");
        assert!(!is_out_of_descriptors(&io::Error::from_raw_os_error(libc::EIO)));
        assert!(!is_out_of_descriptors(&io::Error::other("no descriptors")));
    }
}
