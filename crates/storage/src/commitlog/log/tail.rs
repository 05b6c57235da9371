//! The tail file of a log in periodic mode: made when the first write asks for room, lengthened when its blocks run out.
//!
//! ```text
//!  Wanted ─(first write)─► made, `TAIL_BYTES_MIN` ─(three eighths are left)─► twice as long, up to what may be unsynced
//!     └─(no shared mappings here)─► None: a kill loses what is not handed to the disk
//! ```

use super::{Commitlog, State};
use crate::commitlog::block::{BLOCK, ENTRY_HEADER, PAYLOAD};
use crate::commitlog::tail::TailName;
use crate::limits::{LOG_RETRY_MS, LOG_WRITE_BYTES_MAX, TAIL_BYTES_MAX, TAIL_BYTES_MIN};
use crate::{CommitlogSync, Error};
use base::Instant;
use runtime::Group;
use runtime::file::{AlignedBuf, File, OpenOptions};
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// What a log has to keep unwritten blocks in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tail {
    /// Nothing: whoever is answered was synced, or the file system knows no shared mappings.
    None,
    /// A file is to be made before anything is appended. Whether somebody waits for it.
    Wanted { asked: bool },
    /// A file. Whether it is being lengthened, and when that may be tried again.
    Made { growing: bool, next_try: Instant },
}

impl Tail {
    pub(super) fn of(sync: CommitlogSync) -> Tail {
        match sync {
            CommitlogSync::Periodic { .. } => Tail::Wanted { asked: false },
            CommitlogSync::Batch | CommitlogSync::Group { .. } => Tail::None,
        }
    }
}

/// Blocks of a tail file that an entry may need: its own, one that it begins in, and the header of a new segment.
fn blocks_of(entry_bytes: usize) -> usize {
    (ENTRY_HEADER + entry_bytes).div_ceil(PAYLOAD) + 2
}

impl State {
    /// Whether an entry of so many bytes would outlive the process in the step in which it is appended.
    pub(super) fn keeps(&self, entry_bytes: usize) -> bool {
        match self.tail {
            Tail::None => true,
            Tail::Wanted { .. } => false,
            Tail::Made { .. } => {
                !self.memory.has_heap_blocks() && blocks_of(entry_bytes) <= self.memory.tail_free()
            }
        }
    }
}

impl Commitlog {
    fn tail_path(&self) -> PathBuf {
        let config = &self.0.config;
        config.dir.join(TailName { incarnation: config.incarnation, shard: config.shard }.file_name())
    }

    /// Makes the tail file when somebody waits for it. Nobody waits for it to be durable: a power cut may take it.
    pub(super) async fn make_tail(&self) -> Result<(), Error> {
        if self.0.state.borrow().tail != (Tail::Wanted { asked: true }) {
            return Ok(());
        }
        let path = self.tail_path();
        let options =
            OpenOptions { read: true, write: true, create: true, truncate: true, ..OpenOptions::READ };
        let made = File::open(&path, options).await;
        let file = made.map_err(|error| Error::io(&path, "create", error))?;
        let bytes = TAIL_BYTES_MIN;
        allocate(&file, 0, bytes).await.map_err(|error| Error::io(&path, "allocate", error))?;
        let mapping = file.map(TAIL_BYTES_MAX);
        let state = &mut *self.0.state.borrow_mut();
        match mapping {
            Ok(mapping) => {
                state.memory.set_tail(mapping);
                state.memory.set_tail_bytes(bytes);
                state.tail = Tail::Made { growing: false, next_try: Instant(0) };
                state.open.move_header(&mut state.memory);
            }
            Err(error) => {
                runtime::warn!(
                    "commitlog: \"{}\" cannot be mapped ({error}): a process that is killed loses what it wrote in the last \
                     10 ms; commitlog_sync: batch does not",
                    path.display()
                );
                state.tail = Tail::None;
            }
        }
        Ok(())
    }

    /// Lengthens the tail file in the background when few of its blocks are left.
    pub(super) fn grow_tail_if_short(&self, state: &mut State) {
        let blocks = state.memory.tail_blocks();
        if state.memory.tail_free() * 8 > blocks * 3 {
            return;
        }
        let Tail::Made { growing, next_try } = &mut state.tail else { return };
        if *growing || blocks * BLOCK >= TAIL_BYTES_MAX || state.stopping || runtime::now() < *next_try {
            return;
        }
        *growing = true;
        let Some(file) = state.memory.tail_file().cloned() else { return };
        let log = self.clone();
        drop(runtime::spawn(Group::COMMITLOG, async move {
            let bytes = (2 * blocks * BLOCK).min(TAIL_BYTES_MAX);
            let allocated = allocate(&file, blocks * BLOCK, bytes).await;
            let next_try = match allocated {
                Ok(()) => {
                    log.0.state.borrow_mut().memory.set_tail_bytes(bytes);
                    Instant(0)
                }
                // Appends wait for blocks to be written instead.
                Err(_) => runtime::now() + Duration::from_millis(LOG_RETRY_MS),
            };
            log.0.state.borrow_mut().tail = Tail::Made { growing: false, next_try };
            log.0.progress.notify_all();
        }));
    }

    /// Removes the tail file of a stopped log, also one of which nothing became.
    pub(super) async fn remove_tail(&self) -> Result<(), Error> {
        let is_synced = !matches!(self.0.config.sync, CommitlogSync::Periodic { .. });
        if is_synced || self.0.state.borrow().tail == (Tail::Wanted { asked: false }) {
            return Ok(());
        }
        let path = self.tail_path();
        match runtime::file::remove(&path).await {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed.map_err(|error| Error::io(&path, "remove", error)),
        }
    }
}

/// Gives a file of `from` bytes the space of `to`, so that no store to a mapping of it finds the disk full. Where the file system
/// cannot reserve that, zeros are written.
async fn allocate(file: &File, from: usize, to: usize) -> io::Result<()> {
    let is_reserved = file.allocate(to as u64).await?;
    let mut offset = if is_reserved { to } else { from };
    while offset < to {
        let len = (to - offset).min(LOG_WRITE_BYTES_MAX);
        file.write_at(offset as u64, AlignedBuf::zeroed(len)).await?;
        offset += len;
    }
    Ok(())
}
