//! Files by ring operation.

use super::Uring;
use super::ops::Keep;
use crate::backend::OpenOptions;
use crate::backend::blocking_file::whole_blocks;
use crate::backend::folders::{FILE_MODE, FileFd, c_path, open_flags};
use crate::buffer::AlignedBuf;
use crate::limits::{DIRECT_ALIGN, TRANSFER_BYTES};
use io_uring::{opcode, squeue, types};
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::path::Path;
use std::rc::Rc;

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
                let exclusive = options.create_new && !self.folders.exists(path).await?;
                let plain = OpenOptions { direct: false, create_new: exclusive, ..options };
                (self.open_once(path, plain).await?, false)
            }
            other => (other?, options.direct),
        };
        let fd = Rc::new(FileFd::new(fd, self.folders.offload.clone()));
        Ok(Rc::new(UringFile { uring: self.clone(), fd, direct }))
    }

    async fn open_once(self: &Rc<Self>, path: &Path, options: OpenOptions) -> io::Result<OwnedFd> {
        loop {
            let path = c_path(path)?;
            let open = opcode::OpenAt::new(types::Fd(libc::AT_FDCWD), path.as_ptr());
            let entry = open.flags(open_flags(options)).mode(FILE_MODE).build();
            let (result, _) = self.submit(Keep::Path { _path: path }, false, entry).await;
            if !should_retry(result) {
                let fd = check(result)? as i32;
                // SAFETY: the kernel just gave us this descriptor.
                return Ok(unsafe { OwnedFd::from_raw_fd(fd) });
            }
        }
    }
}

impl UringFile {
    /// The descriptor.
    pub(crate) fn raw_fd(&self) -> i32 {
        self.fd.raw()
    }

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
        from: usize,
    ) -> io::Result<(AlignedBuf, usize)> {
        let mut done = from;
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
        Ok((buffer, done - from))
    }

    pub(crate) async fn write_at(
        &self,
        offset: u64,
        mut buffer: AlignedBuf,
        from: usize,
    ) -> io::Result<AlignedBuf> {
        let mut done = from;
        while done < buffer.len() {
            let result;
            (result, buffer) = self.transfer(offset, buffer, done, true).await;
            if should_retry(result) {
                continue;
            }
            done += whole_blocks(check(result)?, buffer.len() - done, self.direct)?;
        }
        Ok(buffer)
    }

    /// As [`crate::file::File::write_durable`].
    pub(crate) async fn write_durable(
        &self,
        offset: u64,
        buffer: AlignedBuf,
        through: bool,
    ) -> io::Result<io::Result<()>> {
        let len = buffer.len();
        if len > TRANSFER_BYTES {
            self.write_at(offset, buffer, 0).await?;
            return Ok(self.sync_data().await);
        }
        let fd = types::Fd(self.fd.raw());
        let write = opcode::Write::new(fd, buffer.as_ptr(), len as u32).offset(offset);
        let keep = Keep::FileBuffer { _fd: self.fd.clone(), buffer };
        let (result, keep, synced) = if through {
            let entry = write.rw_flags(libc::RWF_DSYNC).build();
            let (result, keep) = self.uring.submit(keep, false, entry).await;
            (result, keep, None)
        } else {
            let sync = opcode::Fsync::new(fd).flags(types::FsyncFlags::DATASYNC).build();
            let sync_keep = Keep::File { _fd: self.fd.clone() };
            let (write, sync) = self.uring.submit_linked((keep, write.build()), (sync_keep, sync));
            let (result, keep) = write.await;
            (result, keep, Some(sync.await.0))
        };
        if result >= 0 && result as usize == len {
            return Ok(match synced {
                None => Ok(()),
                // Not begun, or interrupted: nothing is known to be lost.
                Some(code) if code == -libc::ECANCELED || should_retry(code) => self.sync_data().await,
                Some(code) => check(code).map(|_| ()),
            });
        }
        if result < 0 && !should_retry(result) {
            let error = io::Error::from_raw_os_error(-result);
            let refused = matches!(-result, libc::ENOSPC | libc::EDQUOT | libc::EOPNOTSUPP | libc::EINVAL);
            // A write that is durable at its end does not tell which half of it failed.
            return if through && !refused { Ok(Err(error)) } else { Err(error) };
        }
        // Cut short or interrupted: again, in two steps.
        let Keep::FileBuffer { buffer, .. } = keep else { unreachable!("an op gives back what it kept") };
        self.write_at(offset, buffer, 0).await?;
        Ok(self.sync_data().await)
    }

    pub(crate) async fn sync_data(&self) -> io::Result<()> {
        self.plain(|fd| opcode::Fsync::new(fd).flags(types::FsyncFlags::DATASYNC).build()).await
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
        let result = self.plain(|fd| opcode::Fallocate::new(fd, len).build()).await;
        match result {
            // The file system cannot reserve: make it long enough at least.
            Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => {
                if self.size()? < len {
                    self.truncate(len).await?;
                }
                Ok(false)
            }
            other => other.map(|()| true),
        }
    }

    pub(crate) async fn truncate(&self, len: u64) -> io::Result<()> {
        self.fd.truncate(len).await
    }
}
