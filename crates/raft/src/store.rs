//! The log and the vote: one append-only file of checksummed records, replayed at start.
//!
//! ```text
//! record = u32 length of body, u32 crc of kind and body, u8 kind, body
//! kind     1 vote · 2 entry · 3 truncate after (option log id) · 4 purge (log id)
//! ```
//! Replay stops at the first record that is cut short or does not match its checksum; the file is cut there, so later
//! appends never meet old bytes. A record is durable before openraft is told so.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::io;
use std::ops::{Bound, RangeBounds};
use std::path::Path;
use std::rc::Rc;

use base::Crc32;
use openraft::async_runtime::mutex::Mutex as _;
use openraft::storage::{IOFlushed, RaftLogStorage};
use openraft::{LogState, OptionalSend, RaftLogReader};
use runtime::file::{AlignedBuf, File, OpenOptions};

use crate::channel::LocalMutex;
use crate::codec::{self, DecodeError, In};
use crate::{Entry, LogId, Types, Vote};

const VOTE: u8 = 1;
const ENTRY: u8 = 2;
const TRUNCATE: u8 = 3;
const PURGE: u8 = 4;
const HEADER: usize = 9;

#[derive(Default)]
struct State {
    vote: Option<Vote>,
    entries: BTreeMap<u64, Entry>,
    purged: Option<LogId>,
}

struct Journal {
    file: File,
    tail: u64,
}

/// The log of one member; clones share it.
#[derive(Clone)]
pub struct LogStore {
    state: Rc<RefCell<State>>,
    journal: Rc<LocalMutex<Journal>>,
}

fn put_record(out: &mut Vec<u8>, kind: u8, body: &[u8]) {
    let mut crc = Crc32::new();
    crc.update(&[kind]);
    crc.update(body);
    out.extend((body.len() as u32).to_be_bytes());
    out.extend(crc.finalize().to_be_bytes());
    out.push(kind);
    out.extend(body);
}

/// The first record of `bytes` and its length; None at the end or where the bytes are no record.
fn next_record(bytes: &[u8]) -> Option<(u8, &[u8], usize)> {
    let header = bytes.get(..HEADER)?;
    let len = u32::from_be_bytes(header[..4].try_into().expect("four bytes")) as usize;
    let wanted = u32::from_be_bytes(header[4..8].try_into().expect("four bytes"));
    let body = bytes.get(HEADER..HEADER.checked_add(len)?)?;
    let mut crc = Crc32::new();
    crc.update(&header[8..]);
    crc.update(body);
    (crc.finalize() == wanted).then_some((header[8], body, HEADER + len))
}

impl State {
    fn replay(&mut self, kind: u8, body: &[u8]) -> Result<(), DecodeError> {
        let input = &mut In::new(body);
        match kind {
            VOTE => self.vote = Some(codec::vote(input)?),
            ENTRY => {
                let entry = codec::entry(input)?;
                self.entries.insert(entry.log_id.index, entry);
            }
            TRUNCATE => self.truncate_after(codec::opt_log_id(input)?),
            PURGE => self.purge(codec::log_id(input)?),
            kind => return Err(DecodeError::Kind(kind)),
        }
        Ok(())
    }

    fn truncate_after(&mut self, last: Option<LogId>) {
        let first = last.map_or(0, |id| id.index + 1);
        self.entries.split_off(&first);
    }

    fn purge(&mut self, upto: LogId) {
        self.entries = self.entries.split_off(&(upto.index + 1));
        self.purged = Some(upto);
    }
}

impl LogStore {
    /// Opens the log in `folder`, creating it if missing, and replays it.
    pub async fn open(folder: &Path) -> io::Result<LogStore> {
        let path = folder.join("raft.log");
        let file = File::open(&path, OpenOptions::CREATE).await?;
        runtime::file::sync_dir(folder).await?;
        let size = file.size().await?;
        let bytes = file.read_exact_at(0, size as usize).await?;
        let mut state = State::default();
        let mut tail = 0;
        while let Some((kind, body, len)) = next_record(&bytes[tail..]) {
            state.replay(kind, body).map_err(|error| {
                io::Error::new(io::ErrorKind::InvalidData, format!("{} at {tail}: {error}", path.display()))
            })?;
            tail += len;
        }
        if tail < bytes.len() {
            file.truncate(tail as u64).await?;
            file.sync_data().await?;
        }
        let journal = Journal { file, tail: tail as u64 };
        Ok(LogStore { state: Rc::new(RefCell::new(state)), journal: Rc::new(LocalMutex::new(journal)) })
    }

    async fn persist(&self, records: Vec<u8>) -> io::Result<()> {
        let mut journal = self.journal.lock().await;
        let at = journal.tail;
        journal.tail += records.len() as u64;
        journal.file.write_at(at, AlignedBuf::from(&records[..])).await?;
        journal.file.sync_data().await
    }
}

impl RaftLogReader<Types> for LogStore {
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: RB,
    ) -> io::Result<Vec<Entry>> {
        let state = self.state.borrow();
        let bounds: (Bound<u64>, Bound<u64>) = (range.start_bound().cloned(), range.end_bound().cloned());
        Ok(state.entries.range(bounds).map(|(_, entry)| entry.clone()).collect())
    }

    async fn read_vote(&mut self) -> io::Result<Option<Vote>> {
        Ok(self.state.borrow().vote)
    }
}

impl RaftLogStorage<Types> for LogStore {
    type LogReader = LogStore;

    async fn get_log_state(&mut self) -> io::Result<LogState<Types>> {
        let state = self.state.borrow();
        let last = state.entries.values().next_back().map(|entry| entry.log_id);
        Ok(LogState { last_purged_log_id: state.purged, last_log_id: last.or(state.purged) })
    }

    async fn get_log_reader(&mut self) -> LogStore {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote) -> io::Result<()> {
        let (mut body, mut records) = (Vec::new(), Vec::new());
        codec::put_vote(&mut body, vote);
        put_record(&mut records, VOTE, &body);
        self.state.borrow_mut().vote = Some(*vote);
        self.persist(records).await
    }

    async fn append<I>(&mut self, entries: I, callback: IOFlushed<Types>) -> io::Result<()>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let mut records = Vec::new();
        for entry in entries {
            let mut body = Vec::new();
            codec::put_entry(&mut body, &entry);
            put_record(&mut records, ENTRY, &body);
            self.state.borrow_mut().entries.insert(entry.log_id.index, entry);
        }
        let result = self.persist(records).await;
        callback.io_completed(result);
        Ok(())
    }

    async fn truncate_after(&mut self, last: Option<LogId>) -> io::Result<()> {
        let (mut body, mut records) = (Vec::new(), Vec::new());
        codec::put_opt_log_id(&mut body, &last);
        put_record(&mut records, TRUNCATE, &body);
        self.state.borrow_mut().truncate_after(last);
        self.persist(records).await
    }

    async fn purge(&mut self, upto: LogId) -> io::Result<()> {
        let (mut body, mut records) = (Vec::new(), Vec::new());
        codec::put_log_id(&mut body, &upto);
        put_record(&mut records, PURGE, &body);
        self.state.borrow_mut().purge(upto);
        self.persist(records).await
    }
}
