//! Files by ring operation; folder metadata by helper thread.

use super::Uring;
use super::ops::Keep;
use crate::backend::{DirEntry, OpenOptions};
use crate::buffer::AlignedBuf;
use crate::limits::{DIRECT_ALIGN, TRANSFER_BYTES};
use crate::offload::OffloadPool;
use io_uring::{opcode, squeue, types};
use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

/// A descriptor that a helper thread closes: the last close of an unlinked file frees its blocks, which takes time.
pub(super) struct FileFd {
    fd: Option<OwnedFd>,
    offload: Arc<OffloadPool>,
}

impl FileFd {
    fn raw(&self) -> i32 {
        self.fd.as_ref().expect("only drop takes it").as_raw_fd()
    }
}

impl Drop for FileFd {
    fn drop(&mut self) {
        let fd = self.fd.take();
        self.offload.push(Box::new(move || drop(fd)));
    }
}

pub(crate) struct UringFile {
    uring: Rc<Uring>,
    fd: Rc<FileFd>,
    /// Opened around the page cache, and the file system agreed.
    direct: bool,
}

fn check(result: i32) -> io::Result<usize> {
    if result < 0 { Err(io::Error::from_raw_os_error(-result)) } else { Ok(result as usize) }
}

fn should_retry(result: i32) -> bool {
    result == -libc::EINTR || result == -libc::EAGAIN
}

fn c_path(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| io::ErrorKind::InvalidInput.into())
}

fn flags(options: OpenOptions) -> i32 {
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

impl Uring {
    pub(crate) async fn open(
        self: &Rc<Self>,
        path: &Path,
        options: OpenOptions,
    ) -> io::Result<Rc<UringFile>> {
        let opened = self.open_once(path, options).await;
        let (fd, direct) = match opened {
            // The file system has no direct operations. `create_new` may have made the file before it noticed.
            Err(error) if options.direct && error.raw_os_error() == Some(libc::EINVAL) => {
                let exclusive = options.create_new && !self.exists(path).await?;
                let plain = OpenOptions { direct: false, create_new: exclusive, ..options };
                (self.open_once(path, plain).await?, false)
            }
            other => (other?, options.direct),
        };
        let fd = Rc::new(FileFd { fd: Some(fd), offload: self.offload.clone() });
        Ok(Rc::new(UringFile { uring: self.clone(), fd, direct }))
    }

    async fn open_once(self: &Rc<Self>, path: &Path, options: OpenOptions) -> io::Result<OwnedFd> {
        loop {
            let path = c_path(path)?;
            let open = opcode::OpenAt::new(types::Fd(libc::AT_FDCWD), path.as_ptr());
            let entry = open.flags(flags(options)).mode(0o644).build();
            let (result, _) = self.submit(Keep::Path { _path: path }, false, entry).await;
            if !should_retry(result) {
                let fd = check(result)? as i32;
                // SAFETY: the kernel just gave us this descriptor.
                return Ok(unsafe { OwnedFd::from_raw_fd(fd) });
            }
        }
    }

    async fn blocking<T: Send + 'static>(
        &self,
        path: &Path,
        work: impl FnOnce(PathBuf) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let path = path.to_path_buf();
        self.offload.run(move || work(path)).await
    }

    pub(crate) async fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let to = to.to_path_buf();
        self.blocking(from, move |from| std::fs::rename(from, to)).await
    }

    pub(crate) async fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let to = to.to_path_buf();
        self.blocking(from, move |from| std::fs::hard_link(from, to)).await
    }

    pub(crate) async fn remove(&self, path: &Path) -> io::Result<()> {
        self.blocking(path, std::fs::remove_file).await
    }

    pub(crate) async fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.blocking(path, std::fs::create_dir_all).await
    }

    pub(crate) async fn remove_dir_all(&self, path: &Path) -> io::Result<()> {
        let remove = |path: PathBuf| match std::fs::remove_dir_all(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        };
        self.blocking(path, remove).await
    }

    pub(crate) async fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.blocking(path, |path| std::fs::File::open(path)?.sync_all()).await
    }

    pub(crate) async fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        self.blocking(path, list).await
    }

    pub(crate) async fn exists(&self, path: &Path) -> io::Result<bool> {
        self.blocking(path, |path| path.try_exists()).await
    }

    pub(crate) async fn free_space(&self, path: &Path) -> io::Result<u64> {
        self.blocking(path, |path| free_space(&path)).await
    }

    pub(crate) async fn lock_exclusive(&self, path: &Path) -> io::Result<std::fs::File> {
        self.blocking(path, |path| {
            let folder = std::fs::File::open(path)?;
            folder.try_lock().map_err(io::Error::from)?;
            Ok(folder)
        })
        .await
    }
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

impl UringFile {
    /// Submits an op that names only the descriptor.
    async fn plain(&self, build: impl Fn(types::Fd) -> squeue::Entry) -> io::Result<()> {
        loop {
            let entry = build(types::Fd(self.fd.raw()));
            let (result, _) = self.uring.submit(Keep::File { _fd: self.fd.clone() }, false, entry).await;
            if !should_retry(result) {
                return check(result).map(|_| ());
            }
        }
    }

    /// One read or write of `buffer[from..]`.
    async fn transfer(
        &self,
        offset: u64,
        mut buffer: AlignedBuf,
        from: usize,
        write: bool,
    ) -> (i32, AlignedBuf) {
        let fd = types::Fd(self.fd.raw());
        let rest = &mut buffer[from..];
        let len = rest.len().min(TRANSFER_BYTES) as u32;
        let place = rest.as_mut_ptr();
        let at = offset + from as u64;
        let entry = if write {
            opcode::Write::new(fd, place, len).offset(at).build()
        } else {
            opcode::Read::new(fd, place, len).offset(at).build()
        };
        let keep = Keep::FileBuffer { _fd: self.fd.clone(), buffer };
        let (result, keep) = self.uring.submit(keep, false, entry).await;
        let Keep::FileBuffer { buffer, .. } = keep else { unreachable!("an op gives back what it kept") };
        (result, buffer)
    }

    pub(crate) async fn read_at(
        &self,
        offset: u64,
        mut buffer: AlignedBuf,
    ) -> io::Result<(AlignedBuf, usize)> {
        let mut done = 0;
        while done < buffer.len() {
            let result;
            (result, buffer) = self.transfer(offset, buffer, done, false).await;
            if should_retry(result) {
                continue;
            }
            let count = check(result)?;
            done += count;
            // A direct read is cut short in the middle of a block only by the end of the file.
            if count == 0 || self.direct && count % DIRECT_ALIGN != 0 {
                break;
            }
        }
        Ok((buffer, done))
    }

    pub(crate) async fn write_at(&self, offset: u64, mut buffer: AlignedBuf) -> io::Result<AlignedBuf> {
        let mut done = 0;
        while done < buffer.len() {
            let result;
            (result, buffer) = self.transfer(offset, buffer, done, true).await;
            if should_retry(result) {
                continue;
            }
            let count = check(result)?;
            if count == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            done += count;
            if self.direct {
                // What is left must start aligned; writing some bytes twice is harmless.
                done = done / DIRECT_ALIGN * DIRECT_ALIGN;
            }
        }
        Ok(buffer)
    }

    pub(crate) async fn sync_data(&self) -> io::Result<()> {
        self.plain(|fd| opcode::Fsync::new(fd).flags(types::FsyncFlags::DATASYNC).build()).await
    }

    pub(crate) fn size(&self) -> io::Result<u64> {
        // SAFETY: all-zero bytes are a valid stat, which the call fills; the descriptor is open.
        let (result, stat) = unsafe {
            let mut stat: libc::stat = std::mem::zeroed();
            (libc::fstat(self.fd.raw(), &mut stat), stat)
        };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(stat.st_size as u64)
    }

    pub(crate) async fn allocate(&self, len: u64) -> io::Result<()> {
        let result = self.plain(|fd| opcode::Fallocate::new(fd, len).build()).await;
        match result {
            // The file system cannot reserve: make it long enough at least.
            Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => {
                if self.size()? < len {
                    self.truncate(len).await?;
                }
                Ok(())
            }
            other => other,
        }
    }

    pub(crate) async fn truncate(&self, len: u64) -> io::Result<()> {
        let len = i64::try_from(len).map_err(|_| io::ErrorKind::InvalidInput)?;
        // A second descriptor of its own, so that the helper does not depend on this handle.
        let fd = self.fd.fd.as_ref().expect("only drop takes it").try_clone()?;
        let work = move || {
            // SAFETY: the descriptor is owned by this closure.
            let result = unsafe { libc::ftruncate(fd.as_raw_fd(), len) };
            if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
        };
        self.uring.offload.run(work).await
    }
}
