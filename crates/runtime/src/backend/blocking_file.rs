//! Files by helper thread, for shards without io_uring. Buffers and descriptors move into the helper's closure, so a
//! dropped future cannot free them early.

use crate::backend::OpenOptions;
use crate::backend::folders::{FILE_MODE, FileFd, Folders, c_path, open_flags};
use crate::buffer::AlignedBuf;
use crate::limits::{DIRECT_ALIGN, TRANSFER_BYTES};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(crate) struct BlockingFile {
    fd: FileFd,
    folders: Folders,
    direct: bool,
}

fn open(path: PathBuf, options: OpenOptions) -> io::Result<(OwnedFd, bool)> {
    let name = c_path(&path)?;
    let attempt = |options: OpenOptions| {
        // SAFETY: the path is a live C string.
        let fd = unsafe { libc::open(name.as_ptr(), open_flags(options), FILE_MODE) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel just gave us this descriptor.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    };
    match attempt(options) {
        // The file system has no direct operations. `create_new` may have made the file before it noticed.
        Err(error) if options.direct && error.raw_os_error() == Some(libc::EINVAL) => {
            let exclusive = options.create_new && !path.exists();
            let plain = OpenOptions { direct: false, create_new: exclusive, ..options };
            Ok((attempt(plain)?, false))
        }
        other => Ok((other?, options.direct)),
    }
}

fn is_interrupted(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::Interrupted
}

fn outcome(result: isize) -> io::Result<usize> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as usize) }
}

fn read_all(fd: &OwnedFd, offset: u64, buffer: &mut [u8], direct: bool) -> io::Result<usize> {
    let mut done = 0;
    while done < buffer.len() {
        let rest = &mut buffer[done..];
        let len = rest.len().min(TRANSFER_BYTES);
        let at = (offset + done as u64) as libc::off_t;
        // SAFETY: `rest` has room for `len` bytes.
        let result = outcome(unsafe { libc::pread(fd.as_raw_fd(), rest.as_mut_ptr().cast(), len, at) });
        match result {
            Err(error) if is_interrupted(&error) => {}
            Err(error) => return Err(error),
            Ok(count) => {
                done += count;
                if count == 0 || direct && count % DIRECT_ALIGN != 0 {
                    break;
                }
            }
        }
    }
    Ok(done)
}

fn write_all(fd: &OwnedFd, offset: u64, buffer: &[u8], direct: bool) -> io::Result<()> {
    let mut done = 0;
    while done < buffer.len() {
        let rest = &buffer[done..];
        let len = rest.len().min(TRANSFER_BYTES);
        let at = (offset + done as u64) as libc::off_t;
        // SAFETY: `rest` holds `len` bytes.
        let result = outcome(unsafe { libc::pwrite(fd.as_raw_fd(), rest.as_ptr().cast(), len, at) });
        match result {
            Err(error) if is_interrupted(&error) => {}
            Err(error) => return Err(error),
            Ok(count) => done += whole_blocks(count, rest.len(), direct)?,
        }
    }
    Ok(())
}

/// One write that is durable when it returns.
fn write_through(fd: &OwnedFd, offset: u64, buffer: &AlignedBuf) -> io::Result<usize> {
    let part = libc::iovec { iov_base: buffer.as_ptr().cast_mut().cast(), iov_len: buffer.len() };
    // SAFETY: the buffer lives until the call returns and is only read.
    let result = unsafe { libc::pwritev2(fd.as_raw_fd(), &part, 1, offset as libc::off_t, libc::RWF_DSYNC) };
    outcome(result)
}

/// How far a write got: a direct one goes on at a block's start, writing some bytes twice.
pub(crate) fn whole_blocks(count: usize, asked: usize, direct: bool) -> io::Result<usize> {
    let whole = if direct && count < asked { count / DIRECT_ALIGN * DIRECT_ALIGN } else { count };
    if whole == 0 { Err(io::ErrorKind::WriteZero.into()) } else { Ok(whole) }
}

impl BlockingFile {
    /// The descriptor.
    pub(crate) fn raw_fd(&self) -> i32 {
        self.fd.raw()
    }

    pub(crate) async fn open(
        folders: &Folders,
        path: &Path,
        options: OpenOptions,
    ) -> io::Result<BlockingFile> {
        let path = path.to_path_buf();
        let (fd, direct) = folders.offload.run(move || open(path, options)).await?;
        let fd = FileFd::new(fd, folders.offload.clone());
        Ok(BlockingFile { fd, folders: Folders { offload: folders.offload.clone() }, direct })
    }

    async fn run<T: Send + 'static>(&self, work: impl FnOnce(Arc<OwnedFd>) -> T + Send + 'static) -> T {
        let fd = self.fd.share();
        self.folders.offload.run(move || work(fd)).await
    }

    pub(crate) async fn read_at(
        &self,
        offset: u64,
        mut buffer: AlignedBuf,
        from: usize,
    ) -> io::Result<(AlignedBuf, usize)> {
        let (direct, at) = (self.direct, offset + from as u64);
        self.run(move |fd| read_all(&fd, at, &mut buffer[from..], direct).map(|count| (buffer, count))).await
    }

    pub(crate) async fn write_at(
        &self,
        offset: u64,
        buffer: AlignedBuf,
        from: usize,
    ) -> io::Result<AlignedBuf> {
        let (direct, at) = (self.direct, offset + from as u64);
        self.run(move |fd| write_all(&fd, at, &buffer[from..], direct).map(|()| buffer)).await
    }

    /// As [`crate::file::File::write_durable`].
    pub(crate) async fn write_durable(
        &self,
        offset: u64,
        buffer: AlignedBuf,
        through: bool,
    ) -> io::Result<io::Result<()>> {
        let direct = self.direct;
        self.run(move |fd| {
            if through {
                match write_through(&fd, offset, &buffer) {
                    Ok(count) if count == buffer.len() => return Ok(Ok(())),
                    // Cut short or interrupted: again, in two steps.
                    Ok(_) => {}
                    Err(error) if is_interrupted(&error) => {}
                    Err(error) => {
                        let code = error.raw_os_error().unwrap_or(0);
                        let refused =
                            [libc::ENOSPC, libc::EDQUOT, libc::EOPNOTSUPP, libc::EINVAL].contains(&code);
                        // It does not tell which half of it failed.
                        return if refused { Err(error) } else { Ok(Err(error)) };
                    }
                }
            }
            write_all(&fd, offset, &buffer, direct)?;
            // SAFETY: the descriptor is shared with the closure and open.
            Ok(outcome(unsafe { libc::fdatasync(fd.as_raw_fd()) } as isize).map(|_| ()))
        })
        .await
    }

    pub(crate) async fn sync_data(&self) -> io::Result<()> {
        // SAFETY: the descriptor is shared with the closure and open.
        self.run(|fd| outcome(unsafe { libc::fdatasync(fd.as_raw_fd()) } as isize).map(|_| ())).await
    }

    pub(crate) fn size(&self) -> io::Result<u64> {
        self.fd.size()
    }

    pub(crate) fn device(&self) -> io::Result<u64> {
        self.fd.device()
    }

    pub(crate) fn links(&self) -> io::Result<u64> {
        self.fd.links()
    }

    pub(crate) fn is_direct(&self) -> bool {
        self.direct
    }

    pub(crate) async fn allocate(&self, len: u64) -> io::Result<bool> {
        let bytes = i64::try_from(len).map_err(|_| io::ErrorKind::InvalidInput)?;
        // SAFETY: the descriptor is shared with the closure and open.
        let work =
            move |fd: Arc<OwnedFd>| outcome(unsafe { libc::fallocate(fd.as_raw_fd(), 0, 0, bytes) } as isize);
        match self.run(work).await {
            Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => {
                if self.size()? < len {
                    self.truncate(len).await?;
                }
                Ok(false)
            }
            other => other.map(|_| true),
        }
    }

    pub(crate) async fn truncate(&self, len: u64) -> io::Result<()> {
        self.fd.truncate(len).await
    }
}
