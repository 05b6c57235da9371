//! What one shard keeps for one target: a buffer, the file it is flushed to, and files that wait to be delivered.

use crate::file::{Name, Open, Unflushed, make_folder};
use base::{HostId, Instant};
use runtime::sync::Lock;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// A queue. Files are changed by one task at a time, which holds the turn.
pub(crate) struct Queue {
    pub(crate) target: HostId,
    pub(crate) state: RefCell<State>,
    turn: Lock<Option<Open>>,
    /// Bytes in the buffers of all queues of the shard.
    buffered_bytes: Rc<Cell<usize>>,
}

#[derive(Default)]
pub(crate) struct State {
    /// Encoded hints that are in no file.
    buffer: Vec<u8>,
    /// Those that a flush is writing.
    flushing: usize,
    buffered_since: Option<Instant>,
    buffered_hints: u64,
    has_flush_failed: bool,
    /// The number of the hint taken last.
    taken: u64,
    /// All up to this number are durable or were delivered.
    durable: u64,
    /// All up to this number were thrown away by an operator.
    thrown: u64,
    /// Files that nobody appends to any more, the oldest first.
    closed: VecDeque<Closed>,
    /// Time and durable size of the file that is appended to.
    open: Option<(i64, u64)>,
    /// Highest time in a name.
    last_ms: i64,
    /// A task delivers it.
    pub(crate) is_delivering: bool,
    /// Deliveries that failed, one after the other, and when the next may begin.
    pub(crate) failures: u32,
    pub(crate) retry_at: Option<Instant>,
    /// How often the target has refused the hint that is next.
    pub(crate) refusals: u32,
}

/// What the buffer of a queue holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Buffered {
    /// Since when the oldest hint has been there, or since the last flush failed.
    pub(crate) since: Instant,
    pub(crate) bytes: usize,
    /// The last flush failed.
    pub(crate) has_failed: bool,
}

/// A file that waits to be delivered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Closed {
    pub(crate) path: PathBuf,
    pub(crate) ms: i64,
    pub(crate) bytes: u64,
    /// Behind the last hint that was delivered in this life.
    pub(crate) delivered: u64,
    /// It cannot be read: passed over in this life.
    pub(crate) is_unreadable: bool,
}

/// What a queue holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Content {
    pub(crate) buffered_hints: u64,
    pub(crate) bytes: u64,
    pub(crate) files: u64,
    /// Times of the oldest and the newest file, in milliseconds since the Unix epoch.
    pub(crate) oldest_ms: Option<i64>,
    pub(crate) newest_ms: Option<i64>,
}

/// Where files are made.
pub(crate) struct Folder<'f> {
    pub(crate) path: &'f Path,
    /// Whether it is there, and its name will be after a power cut.
    pub(crate) is_made: &'f Cell<bool>,
    pub(crate) salt: u64,
    pub(crate) file_bytes_max: u64,
}

impl Queue {
    /// An empty one. `buffered_bytes`: counts for all queues of the shard.
    pub(crate) fn new(target: HostId, buffered_bytes: Rc<Cell<usize>>) -> Queue {
        Queue { target, state: RefCell::default(), turn: Lock::new(None), buffered_bytes }
    }

    /// Takes a file that an earlier life left. The oldest must come first.
    pub(crate) fn found(&self, path: PathBuf, ms: i64, bytes: u64) {
        let mut state = self.state.borrow_mut();
        assert!(
            state.closed.back().is_none_or(|last| last.ms <= ms),
            "files are found in the order of their times"
        );
        state.closed.push_back(Closed { path, ms, bytes, delivered: 0, is_unreadable: false });
        state.last_ms = state.last_ms.max(ms);
    }

    /// Appends a hint to the buffer; `encode` writes it. Returns its number.
    pub(crate) fn push(&self, now: Instant, encode: impl FnOnce(&mut Vec<u8>)) -> u64 {
        let mut state = self.state.borrow_mut();
        let before = state.buffer.len();
        encode(&mut state.buffer);
        self.buffered_bytes.update(|bytes| bytes + state.buffer.len() - before);
        state.buffered_since.get_or_insert(now);
        state.buffered_hints += 1;
        state.taken += 1;
        state.taken
    }

    /// What is in the buffer; `None`: nothing.
    pub(crate) fn buffered(&self) -> Option<Buffered> {
        let state = self.state.borrow();
        let (bytes, has_failed) = (state.buffer.len(), state.has_flush_failed);
        state.buffered_since.map(|since| Buffered { since, bytes, has_failed })
    }

    /// What is kept.
    pub(crate) fn content(&self) -> Content {
        let state = self.state.borrow();
        let closed = state.closed.iter().map(|file| (file.ms, file.bytes));
        let files: Vec<(i64, u64)> = closed.chain(state.open).collect();
        Content {
            buffered_hints: state.buffered_hints,
            bytes: files.iter().map(|(_, bytes)| bytes).sum::<u64>()
                + (state.buffer.len() + state.flushing) as u64,
            files: files.len() as u64,
            oldest_ms: files.first().map(|(ms, _)| *ms),
            newest_ms: files.last().map(|(ms, _)| *ms),
        }
    }

    /// Whether there is a file to deliver.
    pub(crate) fn has_files(&self) -> bool {
        let state = self.state.borrow();
        state.open.is_some() || state.closed.iter().any(|file| !file.is_unreadable)
    }

    /// Whether a hint of this number will survive a crash, or was delivered.
    pub(crate) fn is_durable(&self, number: u64) -> bool {
        let state = self.state.borrow();
        state.thrown < number && number <= state.durable
    }

    /// Makes durable what is in the buffer. Returns the bytes that are durable now and were not before.
    /// Errors: it stays in the buffer.
    pub(crate) async fn flush(&self, folder: &Folder<'_>) -> Result<u64, std::io::Error> {
        let mut open = self.turn.lock().await;
        let (bytes, hints, upto) = {
            let mut state = self.state.borrow_mut();
            let bytes = core::mem::take(&mut state.buffer);
            state.flushing = bytes.len();
            state.buffered_since = None;
            (bytes, core::mem::take(&mut state.buffered_hints), state.taken)
        };
        if bytes.is_empty() {
            return Ok(0);
        }
        let written = self.append(&mut open, folder, &bytes).await;
        let mut state = self.state.borrow_mut();
        state.flushing = 0;
        state.has_flush_failed = written.is_err();
        state.open = open.as_ref().map(|open| (open.ms, open.end));
        if let Err(error) = written {
            // In front of what was taken meanwhile.
            let newer = core::mem::replace(&mut state.buffer, bytes);
            state.buffer.extend_from_slice(&newer);
            state.buffered_since = Some(runtime::now());
            state.buffered_hints += hints;
            return Err(error);
        }
        state.durable = upto;
        self.buffered_bytes.update(|all| all - bytes.len());
        Ok(bytes.len() as u64)
    }

    async fn append(
        &self,
        open: &mut Option<Open>,
        folder: &Folder<'_>,
        bytes: &[u8],
    ) -> Result<(), std::io::Error> {
        if open.as_ref().is_some_and(|open| folder.file_bytes_max <= open.end) {
            self.close(open);
        }
        if !folder.is_made.get() {
            make_folder(folder.path).await?;
            folder.is_made.set(true);
        }
        if open.is_none() {
            let name = Name { target: self.target, shard: runtime::shard().0, ms: self.next_ms() };
            *open = Some(Open::create(folder.path, name, folder.salt).await?);
        }
        let file = open.as_mut().expect("it was made above");
        match file.append(bytes).await {
            Ok(()) => Ok(()),
            Err(Unflushed { error, is_spoilt }) => {
                if is_spoilt {
                    self.close(open);
                }
                Err(error)
            }
        }
    }

    fn next_ms(&self) -> i64 {
        let mut state = self.state.borrow_mut();
        state.last_ms = (runtime::unix_micros() / 1000).max(state.last_ms + 1);
        state.last_ms
    }

    fn close(&self, open: &mut Option<Open>) {
        let Some(open) = open.take() else { return };
        let mut state = self.state.borrow_mut();
        state.open = None;
        let Open { path, ms, end, .. } = open;
        state.closed.push_back(Closed { path, ms, bytes: end, delivered: 0, is_unreadable: false });
    }

    /// The oldest file that can be delivered; the one that is appended to is closed for that. `None`: there is none.
    pub(crate) async fn oldest(&self) -> Option<Closed> {
        let readable = |state: &State| state.closed.iter().find(|file| !file.is_unreadable).cloned();
        let oldest = readable(&self.state.borrow());
        if oldest.is_some() {
            return oldest;
        }
        let mut open = self.turn.lock().await;
        self.close(&mut open);
        readable(&self.state.borrow())
    }

    /// Notes how far a file is delivered.
    pub(crate) fn note(&self, path: &Path, delivered: u64) {
        let mut state = self.state.borrow_mut();
        if let Some(file) = state.closed.iter_mut().find(|file| file.path == path) {
            file.delivered = delivered;
        }
    }

    /// Passes over a file in this life.
    pub(crate) fn pass_over(&self, path: &Path) {
        let mut state = self.state.borrow_mut();
        if let Some(file) = state.closed.iter_mut().find(|file| file.path == path) {
            file.is_unreadable = true;
        }
    }

    /// Whether a file is still there to be delivered.
    pub(crate) fn has(&self, path: &Path) -> bool {
        self.state.borrow().closed.iter().any(|file| file.path == path)
    }

    /// Removes a file that is delivered. A file that cannot be removed is delivered again by the next life, to no harm.
    pub(crate) async fn remove(&self, path: &Path) {
        self.state.borrow_mut().closed.retain(|file| file.path != path);
        if let Err(error) = runtime::file::remove(path).await {
            runtime::warn!("hints: a file that is delivered cannot be removed: {error}");
        }
    }

    /// Throws everything away. Returns how many bytes it was. Errors: the first; all was tried.
    pub(crate) async fn throw_away(&self) -> Result<u64, std::io::Error> {
        let mut open = self.turn.lock().await;
        self.close(&mut open);
        let bytes = self.content().bytes;
        let files = {
            let mut state = self.state.borrow_mut();
            self.buffered_bytes.update(|all| all - state.buffer.len());
            state.buffer.clear();
            state.buffered_since = None;
            state.buffered_hints = 0;
            state.thrown = state.taken;
            core::mem::take(&mut state.closed)
        };
        let mut outcome = Ok(bytes);
        for file in files {
            if let Err(error) = runtime::file::remove(&file.path).await {
                outcome = outcome.and(Err(error));
            }
        }
        outcome
    }
}
