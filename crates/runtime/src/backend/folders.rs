//! What both real backends do by helper thread: names, folders, closing files, and the size of an open one.

use crate::backend::{DirEntry, Identity, OpenOptions};
use crate::offload::OffloadPool;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(crate) fn c_path(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| io::ErrorKind::InvalidInput.into())
}

/// Flags of open(2).
pub(crate) fn open_flags(options: OpenOptions) -> i32 {
    let access = match (options.read, options.write) {
        (true, true) => libc::O_RDWR,
        (false, true) => libc::O_WRONLY,
        _ => libc::O_RDONLY,
    };
    let mut flags = access | libc::O_CLOEXEC;
    for (wanted, flag) in [
        (options.create || options.create_new, libc::O_CREAT),
        (options.create_new, libc::O_EXCL),
        (options.truncate, libc::O_TRUNC),
        (options.direct, libc::O_DIRECT),
    ] {
        flags |= if wanted { flag } else { 0 };
    }
    flags
}

/// Permission bits of new files, before the process's mask.
pub(crate) const FILE_MODE: u32 = 0o644;

/// A descriptor that a helper thread closes: the last close of an unlinked file frees its blocks, which takes time.
pub(crate) struct FileFd {
    fd: Option<Arc<OwnedFd>>,
    offload: Arc<OffloadPool>,
}

impl FileFd {
    pub(crate) fn new(fd: OwnedFd, offload: Arc<OffloadPool>) -> FileFd {
        FileFd { fd: Some(Arc::new(fd)), offload }
    }

    /// A share of the descriptor for a helper thread.
    pub(crate) fn share(&self) -> Arc<OwnedFd> {
        self.fd.clone().expect("only drop takes it")
    }

    pub(crate) fn raw(&self) -> i32 {
        self.fd.as_ref().expect("only drop takes it").as_raw_fd()
    }

    /// Bytes of the file.
    pub(crate) fn size(&self) -> io::Result<u64> {
        Ok(self.stat()?.st_size as u64)
    }

    /// The number of the device that holds the file.
    pub(crate) fn device(&self) -> io::Result<u64> {
        Ok(self.stat()?.st_dev)
    }

    /// How many names the file has.
    pub(crate) fn links(&self) -> io::Result<u64> {
        #[allow(clippy::useless_conversion, reason = "of 32 bits on arm64")]
        Ok(u64::from(self.stat()?.st_nlink))
    }

    fn stat(&self) -> io::Result<libc::stat> {
        // SAFETY: all-zero bytes are a valid stat, which the call fills; the descriptor is open.
        let (result, stat) = unsafe {
            let mut stat: libc::stat = std::mem::zeroed();
            (libc::fstat(self.raw(), &mut stat), stat)
        };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(stat)
    }

    pub(crate) async fn truncate(&self, len: u64) -> io::Result<()> {
        let len = i64::try_from(len).map_err(|_| io::ErrorKind::InvalidInput)?;
        let fd = self.share();
        let work = move || {
            // SAFETY: the descriptor is shared with this closure and open.
            let result = unsafe { libc::ftruncate(fd.as_raw_fd(), len) };
            if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
        };
        self.offload.run(work).await
    }
}

impl Drop for FileFd {
    fn drop(&mut self) {
        let fd = self.fd.take();
        self.offload.push(Box::new(move || drop(fd)));
    }
}

/// Names and folders of the real file system.
pub(crate) struct Folders {
    pub(crate) offload: Arc<OffloadPool>,
}

impl Folders {
    async fn run<T: Send + 'static>(
        &self,
        path: &Path,
        work: impl FnOnce(PathBuf) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let path = path.to_path_buf();
        self.offload.run(move || work(path)).await
    }

    pub(crate) async fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let to = to.to_path_buf();
        self.run(from, move |from| std::fs::rename(from, to)).await
    }

    pub(crate) async fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let to = to.to_path_buf();
        self.run(from, move |from| link(&from, &to)).await
    }

    pub(crate) async fn remove(&self, path: &Path) -> io::Result<()> {
        self.run(path, std::fs::remove_file).await
    }

    pub(crate) async fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.run(path, std::fs::create_dir_all).await
    }

    pub(crate) async fn remove_dir_all(&self, path: &Path) -> io::Result<()> {
        let remove = |path: PathBuf| match std::fs::remove_dir_all(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        };
        self.run(path, remove).await
    }

    pub(crate) async fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.run(path, |path| std::fs::File::open(path)?.sync_all()).await
    }

    pub(crate) async fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        self.run(path, list).await
    }

    pub(crate) async fn exists(&self, path: &Path) -> io::Result<bool> {
        self.run(path, |path| path.try_exists()).await
    }

    pub(crate) async fn identity(&self, path: &Path) -> io::Result<Identity> {
        let of = |path: PathBuf| {
            std::fs::metadata(path).map(|found| Identity { device: found.dev(), inode: found.ino() })
        };
        self.run(path, of).await
    }

    pub(crate) async fn free_space(&self, path: &Path) -> io::Result<u64> {
        self.run(path, |path| free_space(&path)).await
    }

    pub(crate) async fn lock_exclusive(&self, path: &Path) -> io::Result<std::fs::File> {
        self.run(path, |path| {
            let folder = std::fs::File::open(path)?;
            folder.try_lock().map_err(io::Error::from)?;
            Ok(folder)
        })
        .await
    }
}

/// The standard library's gives a symbolic link the second name: its target may go, or be meant from another folder.
fn link(from: &Path, to: &Path) -> io::Result<()> {
    let (from, to) = (c_path(from)?, c_path(to)?);
    let (here, follow) = (libc::AT_FDCWD, libc::AT_SYMLINK_FOLLOW);
    // SAFETY: both paths are live C strings.
    let result = unsafe { libc::linkat(here, from.as_ptr(), here, to.as_ptr(), follow) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn list(path: PathBuf) -> io::Result<Vec<DirEntry>> {
    let mut entries = Vec::new();
    for entry in std::fs::read_dir(path)? {
        let entry = entry?;
        let metadata = match entry.metadata() {
            // Removed while we looked.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            other => other?,
        };
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        let is_dir = metadata.is_dir();
        entries.push(DirEntry { name, is_dir, size: if is_dir { 0 } else { metadata.len() } });
    }
    Ok(entries)
}

fn free_space(path: &Path) -> io::Result<u64> {
    let path = c_path(path)?;
    // SAFETY: all-zero bytes are a valid statvfs, which the call fills; the path is a live C string.
    let (result, stat) = unsafe {
        let mut stat: libc::statvfs = std::mem::zeroed();
        (libc::statvfs(path.as_ptr(), &mut stat), stat)
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(stat.f_bavail * stat.f_frsize)
}
