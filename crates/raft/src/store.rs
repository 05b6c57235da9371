//! The log, the vote and the commit point: one [`Journal`] of a member's own.
//!
//! ```text
//! record = item, item, …          one record is one sync: all of it is there after a crash, or nothing
//! item   = u8 kind, u32 length, body
//! kind     1 epoch (u64) · 2 vote · 3 entry · 4 truncate after (option log id) · 5 base (log id, option log id, members)
//!          6 committed (log id)
//! ```
//! Never changes; new items get new kinds. One task writes: what waits together is synced together, in order. A vote and an entry are durable
//! before openraft is told so. The commit point rides on the next record and is durable with it: what was applied because of it is
//! kept by the state machine, and an older one is always true. The base is the last entry cut from the head, with the
//! members as of it; cutting frees memory at once and the file when it has grown enough, by a rewrite, before which the cut entries are just
//! read and cut again. After a failed sync nothing more is written and nothing is acknowledged: the next start reads
//! what there is and writes it anew.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::fmt::Debug;
use std::io;
use std::ops::{Bound, RangeBounds};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use base::HostId;
use journal::Journal;
use openraft::async_runtime::{
    Mpsc as _, MpscReceiver as _, MpscSender as _, Oneshot as _, OneshotSender as _,
};
use openraft::storage::{IOFlushed, RaftLogStorage};
use openraft::vote::RaftLeaderId as _;
use openraft::{EmptyNode, EntryPayload, LogState, Membership, OptionalSend, RaftLogReader};
use runtime::sync::Flag;
use runtime::{Bug, Group};

use crate::channel::{LocalMpsc, LocalOneshot, OnceSender, PipeReceiver, PipeSender};
use crate::codec::{self, DecodeError, In};
use crate::entries::Entries;
use crate::error::Error;
use crate::limits::{APPEND_BYTES, LOG_QUEUE, SYNC_BYTES};
use crate::types::{Entry, LogId, StoredMembers, Types, Vote};

const EPOCH: u8 = 1;
const VOTE: u8 = 2;
const ENTRY: u8 = 3;
const TRUNCATE: u8 = 4;
const BASE: u8 = 5;
const COMMITTED: u8 = 6;

/// What the log holds.
#[derive(Default, Clone)]
struct State {
    epoch: u64,
    vote: Option<Vote>,
    committed: Option<LogId>,
    /// The last entry cut from the head.
    base: Option<LogId>,
    /// Members as of the base.
    base_members: StoredMembers,
    /// Follow the base without a gap.
    entries: Entries,
}

fn item(out: &mut Vec<u8>, kind: u8, body: impl FnOnce(&mut Vec<u8>)) {
    out.push(kind);
    let at = out.len();
    out.extend([0; 4]);
    body(out);
    let len = (out.len() - at - 4) as u32;
    out[at..at + 4].copy_from_slice(&len.to_be_bytes());
}

impl State {
    fn replay(&mut self, record: &[u8]) -> Result<(), DecodeError> {
        let input = &mut In::new(record);
        while input.remaining() > 0 {
            let kind = input.u8()?;
            let len = input.u32()? as usize;
            let body = &mut In::new(input.bytes(len)?);
            self.replay_item(kind, body)?;
            if body.remaining() > 0 {
                return Err(DecodeError::Long);
            }
        }
        Ok(())
    }

    fn replay_item(&mut self, kind: u8, body: &mut In) -> Result<(), DecodeError> {
        match kind {
            EPOCH => self.epoch = body.u64()?,
            VOTE => self.vote = Some(codec::vote(body)?),
            ENTRY => {
                let entry = codec::entry(body)?;
                let next = self.last().map_or(0, |id| id.index + 1);
                // Anything else would be a hole, which no writer of ours makes: the log has lost a record.
                if entry.log_id.index != next {
                    return Err(DecodeError::Hole { expected: next, got: entry.log_id.index });
                }
                self.entries.insert(entry);
            }
            TRUNCATE => self.truncate_after(codec::opt_log_id(body)?),
            BASE => {
                let base = codec::log_id(body)?;
                let at = codec::opt_log_id(body)?;
                self.base_members = StoredMembers::new(at, codec::members(body)?);
                self.entries.cut_head(base.index + 1);
                self.base = Some(base);
            }
            COMMITTED => self.committed = Some(codec::log_id(body)?),
            kind => return Err(DecodeError::Kind(kind)),
        }
        Ok(())
    }

    fn last(&self) -> Option<LogId> {
        self.entries.values().next_back().map(|entry| entry.log_id).or(self.base)
    }

    fn truncate_after(&mut self, last: Option<LogId>) {
        let first = last.map_or(0, |id| id.index + 1);
        self.entries.cut_tail(first);
    }

    /// Members as of the entry of that index.
    fn members_at(&self, index: u64) -> StoredMembers {
        let mut entries = self.entries.range(..=index).rev();
        let found = entries.find_map(|entry| match &entry.payload {
            EntryPayload::Membership(members) => {
                Some(StoredMembers::new(Some(entry.log_id), members.clone()))
            }
            EntryPayload::Blank | EntryPayload::Normal(_) => None,
        });
        found.unwrap_or_else(|| self.base_members.clone())
    }

    /// Cuts the head.
    fn purge(&mut self, upto: LogId) {
        if self.base.is_some_and(|base| base.index >= upto.index) {
            return;
        }
        self.base_members = self.members_at(upto.index);
        self.entries.cut_head(upto.index + 1);
        self.base = Some(upto);
    }

    fn put_base(&self, out: &mut Vec<u8>) {
        if let Some(base) = &self.base {
            item(out, BASE, |out| {
                codec::put_log_id(out, base);
                codec::put_opt_log_id(out, self.base_members.log_id());
                codec::put_members(out, self.base_members.membership());
            });
        }
    }

    /// All of it as records of a new file.
    fn records(&self) -> Vec<Vec<u8>> {
        let mut head = Vec::new();
        item(&mut head, EPOCH, |out| codec::put_u64(out, self.epoch));
        if let Some(vote) = &self.vote {
            item(&mut head, VOTE, |out| codec::put_vote(out, vote));
        }
        self.put_base(&mut head);
        if let Some(committed) = &self.committed {
            item(&mut head, COMMITTED, |out| codec::put_log_id(out, committed));
        }
        let mut records = vec![head];
        for entry in self.entries.values() {
            let mut record = Vec::new();
            item(&mut record, ENTRY, |out| codec::put_entry(out, entry));
            records.push(record);
        }
        records
    }

    /// Is this member the only voter by the last membership in the log, committed or not?
    fn alone(&self, id: HostId) -> bool {
        let members = self.members_at(u64::MAX);
        let configs = members.membership().get_joint_config();
        configs.len() == 1 && configs[0].len() == 1 && configs[0].contains(&id)
    }
}

enum Work {
    Append(Vec<u8>),
    Rewrite(Vec<Vec<u8>>),
    /// Nothing: it is done when all before it is.
    Barrier,
}

struct Job {
    work: Work,
    done: Done,
}

/// Who hears that it is durable.
enum Done {
    Caller(OnceSender<io::Result<()>>),
    Appended(IOFlushed<Types>),
}

impl Done {
    fn tell(self, result: io::Result<()>) {
        match self {
            Done::Caller(sender) => {
                // Who no longer waits has ended.
                let _gone = sender.send(result);
            }
            Done::Appended(callback) => callback.io_completed(result),
        }
    }
}

struct Shared {
    id: HostId,
    state: RefCell<State>,
    /// The vote as the file has it.
    kept_vote: Cell<Option<Vote>>,
    /// Items that need no sync of their own, for the next record.
    pending: RefCell<Vec<u8>>,
    /// Bytes in the file since the last rewrite.
    grown: Cell<u64>,
    rewrite_bytes: u64,
    failure: Failure,
}

/// Why the file takes nothing more, once it does not.
#[derive(Clone, Default)]
struct Failure {
    text: Rc<RefCell<Option<String>>>,
    is_there: Flag,
}

impl Failure {
    fn get(&self) -> Option<String> {
        self.text.borrow().clone()
    }

    fn set(&self, text: &str) {
        self.text.borrow_mut().get_or_insert_with(|| text.to_owned());
        self.is_there.set();
    }
}

/// The log of one member; clones share it.
#[derive(Clone)]
pub(crate) struct LogStore {
    shared: Rc<Shared>,
    jobs: PipeSender<Job>,
}

/// Writes what is asked for, in order; ends when all handles are gone. After a failure everything is refused.
async fn write(mut journal: Journal, mut jobs: PipeReceiver<Job>, failure: Failure) {
    let mut next = jobs.recv().await;
    while let Some(job) = next.take() {
        let mut done = vec![job.done];
        let result = match (job.work, failure.get()) {
            (_, Some(text)) => Err(text),
            (Work::Barrier, None) => Ok(()),
            (Work::Rewrite(records), None) => journal.rewrite(&records).await.map_err(|e| e.to_string()),
            (Work::Append(mut record), None) => {
                while record.len() < SYNC_BYTES {
                    match jobs.try_recv() {
                        Ok(Job { work: Work::Append(more), done: also }) => {
                            record.extend(more);
                            done.push(also);
                        }
                        Ok(other) => {
                            next = Some(other);
                            break;
                        }
                        Err(_) => break,
                    }
                }
                journal.append(&record).await.map_err(|e| e.to_string())
            }
        };
        if let Err(text) = &result {
            failure.set(text);
        }
        done.into_iter().for_each(|done| done.tell(result.clone().map_err(io::Error::other)));
        if next.is_none() {
            next = jobs.recv().await;
        }
    }
}

fn log_file(folder: &Path) -> PathBuf {
    folder.join("group0.log")
}

async fn read(folder: &Path) -> Result<(Journal, State, bool), Error> {
    let path = log_file(folder);
    let (journal, records) = Journal::open(&path).await?;
    let mut state = State::default();
    let mut offset = Journal::BYTES_MIN as u64;
    for record in &records {
        offset += Journal::RECORD_HEADER_BYTES as u64;
        state.replay(record).map_err(|error| Error::Corrupt {
            kind: "log of group 0",
            file: path.clone(),
            offset,
            got: error.to_string(),
        })?;
        offset += record.len() as u64;
    }
    Ok((journal, state, records.is_empty()))
}

impl LogStore {
    /// Opens the log in `folder`, creating it if missing, and replays it.
    pub(crate) async fn open(folder: &Path, id: HostId, rewrite_bytes: u64) -> Result<LogStore, Error> {
        let (journal, state, _) = read(folder).await?;
        let (jobs, receiver) = LocalMpsc::channel(LOG_QUEUE);
        let failure = Failure::default();
        runtime::spawn(Group::ADMIN, write(journal, receiver, failure.clone()));
        let shared = Shared {
            id,
            kept_vote: Cell::new(state.vote),
            state: RefCell::new(state),
            pending: RefCell::default(),
            grown: Cell::new(0),
            rewrite_bytes,
            failure,
        };
        Ok(LogStore { shared: Rc::new(shared), jobs })
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.shared.state.borrow().epoch
    }

    /// Takes over the epoch of the group that this member is about to join, if it has nothing of any other.
    pub(crate) async fn join_epoch(&self, epoch: u64) -> io::Result<bool> {
        {
            let state = &mut *self.shared.state.borrow_mut();
            if state.last().is_some() || state.vote.is_some() || epoch < state.epoch {
                return Ok(false);
            }
            state.epoch = epoch;
        }
        let mut items = Vec::new();
        item(&mut items, EPOCH, |out| codec::put_u64(out, epoch));
        self.run(Work::Append(items)).await.map(|()| true)
    }

    pub(crate) fn last(&self) -> Option<LogId> {
        self.shared.state.borrow().last()
    }

    /// Entries in memory.
    pub(crate) fn len(&self) -> usize {
        self.shared.state.borrow().entries.len()
    }

    /// Bytes of entries in memory.
    pub(crate) fn bytes(&self) -> usize {
        self.shared.state.borrow().entries.bytes()
    }

    pub(crate) fn vote(&self) -> Option<Vote> {
        self.shared.state.borrow().vote
    }

    /// The last vote that is durable.
    pub(crate) fn kept_vote(&self) -> Option<Vote> {
        self.shared.kept_vote.get()
    }

    /// Returns once the file could not be written or synced: file and error.
    pub(crate) async fn failed(&self) -> String {
        let failure = &self.shared.failure;
        failure.is_there.wait().await;
        failure.get().unwrap_or_default()
    }

    pub(crate) fn members_at(&self, index: u64) -> StoredMembers {
        self.shared.state.borrow().members_at(index)
    }

    pub(crate) fn alone(&self) -> bool {
        self.shared.state.borrow().alone(self.shared.id)
    }

    /// The entries from one index on that fit a message, and the entry before them: `None` when the head was cut beyond it.
    pub(crate) fn since(&self, index: u64, upto: u64) -> Option<(Option<LogId>, Vec<Entry>)> {
        let state = self.shared.state.borrow();
        if state.base.is_some_and(|base| index <= base.index) {
            return None;
        }
        let before = match index.checked_sub(1) {
            None => None,
            Some(before) => match state.entries.get(before) {
                Some(entry) => Some(entry.log_id),
                None => Some(state.base.filter(|base| base.index == before)?),
            },
        };
        let range = state.entries.range(index..=upto.max(index));
        let found = range.filter(|entry| entry.log_id.index <= upto);
        Some((before, fitting(found)))
    }

    /// Returns once all that was appended is durable. openraft applies what a majority has, whether this member has it or not; a durable
    /// state ahead of its log could have lost a change of members in between. Found by the simulator.
    pub(crate) async fn flushed(&self) -> io::Result<()> {
        self.run(Work::Barrier).await
    }

    async fn put(&self, work: Work, done: Done) -> io::Result<()> {
        let work = match work {
            Work::Append(items) => {
                let mut record = std::mem::take(&mut *self.shared.pending.borrow_mut());
                record.extend(items);
                self.shared.grown.set(self.shared.grown.get() + record.len() as u64);
                Work::Append(record)
            }
            Work::Barrier => Work::Barrier,
            Work::Rewrite(records) => {
                self.shared.pending.borrow_mut().clear();
                self.shared.grown.set(0);
                Work::Rewrite(records)
            }
        };
        let sent = self.jobs.send(Job { work, done }).await;
        sent.map_err(|_| io::Error::other("the log has ended"))
    }

    async fn run(&self, work: Work) -> io::Result<()> {
        let (done, finished) = LocalOneshot::channel();
        self.put(work, Done::Caller(done)).await?;
        finished.await.map_err(|_| io::Error::other("the log has ended"))?
    }
}

/// As many as fit a message, one at least.
fn fitting<'a>(entries: impl Iterator<Item = &'a Entry>) -> Vec<Entry> {
    let (mut bytes, mut taken) = (0, Vec::new());
    for entry in entries {
        bytes += codec::entry_bytes(entry);
        if bytes > APPEND_BYTES && !taken.is_empty() {
            break;
        }
        taken.push(entry.clone());
    }
    taken
}

impl RaftLogReader<Types> for LogStore {
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: RB,
    ) -> io::Result<Vec<Entry>> {
        let state = self.shared.state.borrow();
        let bounds: (Bound<u64>, Bound<u64>) = (range.start_bound().cloned(), range.end_bound().cloned());
        Ok(state.entries.range(bounds).cloned().collect())
    }

    async fn limited_get_log_entries(&mut self, start: u64, end: u64) -> io::Result<Vec<Entry>> {
        let state = self.shared.state.borrow();
        Ok(fitting(state.entries.range(start..end)))
    }

    async fn read_vote(&mut self) -> io::Result<Option<Vote>> {
        Ok(self.shared.state.borrow().vote)
    }
}

impl RaftLogStorage<Types> for LogStore {
    type LogReader = LogStore;

    async fn get_log_state(&mut self) -> io::Result<LogState<Types>> {
        let state = self.shared.state.borrow();
        Ok(LogState { last_purged_log_id: state.base, last_log_id: state.last() })
    }

    async fn get_log_reader(&mut self) -> LogStore {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote) -> io::Result<()> {
        let mut items = Vec::new();
        item(&mut items, VOTE, |out| codec::put_vote(out, vote));
        self.shared.state.borrow_mut().vote = Some(*vote);
        if runtime::planted(Bug::VoteNotDurable) {
            return Ok(());
        }
        self.run(Work::Append(items)).await?;
        self.shared.kept_vote.set(Some(*vote));
        Ok(())
    }

    async fn save_committed(&mut self, committed: Option<LogId>) -> io::Result<()> {
        if let Some(committed) = committed {
            self.shared.state.borrow_mut().committed = Some(committed);
            let mut pending = self.shared.pending.borrow_mut();
            item(&mut pending, COMMITTED, |out| codec::put_log_id(out, &committed));
        }
        Ok(())
    }

    async fn read_committed(&mut self) -> io::Result<Option<LogId>> {
        let state = self.shared.state.borrow();
        // The only voter is a majority: what is in its log is committed.
        Ok(if state.alone(self.shared.id) { state.last() } else { state.committed })
    }

    async fn append<I>(&mut self, entries: I, callback: IOFlushed<Types>) -> io::Result<()>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let mut items = Vec::new();
        for entry in entries {
            item(&mut items, ENTRY, |out| codec::put_entry(out, &entry));
            self.shared.state.borrow_mut().entries.insert(entry);
        }
        // openraft goes on meanwhile; what it asks for next is written behind this.
        self.put(Work::Append(items), Done::Appended(callback)).await
    }

    async fn truncate_after(&mut self, last: Option<LogId>) -> io::Result<()> {
        let mut items = Vec::new();
        item(&mut items, TRUNCATE, |out| codec::put_opt_log_id(out, &last));
        self.shared.state.borrow_mut().truncate_after(last);
        self.run(Work::Append(items)).await
    }

    async fn purge(&mut self, upto: LogId) -> io::Result<()> {
        let rewrite = {
            let mut state = self.shared.state.borrow_mut();
            let upto = cut(&state, upto);
            let gap = state.last().is_none_or(|last| last.index < upto.index);
            state.purge(upto);
            if gap {
                // Entries that follow must not look like a hole behind what is in the file.
                state.put_base(&mut self.shared.pending.borrow_mut());
            }
            (self.shared.grown.get() > self.shared.rewrite_bytes).then(|| state.records())
        };
        match rewrite {
            Some(records) => self.run(Work::Rewrite(records)).await,
            None => Ok(()),
        }
    }
}

/// Where the head is cut: what [`Bug::HeadCutTooFar`] plants cuts one entry more.
fn cut(state: &State, upto: LogId) -> LogId {
    let next = state.entries.get(upto.index + 1).filter(|_| runtime::planted(Bug::HeadCutTooFar));
    next.map_or(upto, |entry| entry.log_id)
}

/// Makes this member the only voter of a new epoch, after the majority of the old one is lost for good. Only for the survivor with the highest
/// last entry: what others had beyond is lost. Everything in its log counts as committed. The members of the old
/// epoch are members no more: the caller refuses them by their epoch until their folders are wiped and they join again.
///
/// The group must not be open. Returns the new epoch.
/// Errors: the log is as before, or has the new epoch.
pub async fn recover(folder: &Path, id: HostId) -> Result<u64, Error> {
    let (mut journal, mut state, fresh) = read(folder).await?;
    if fresh || state.last().is_none() {
        return Err(Error::NotDone("there is no group in this folder".to_string()));
    }
    let term = state.vote.as_ref().map_or(0, |vote| vote.leader_id().term) + 1;
    let vote = Vote::new_committed(term, id);
    let index = state.last().map_or(0, |last| last.index + 1);
    let members = Membership::new(vec![BTreeSet::from([id])], BTreeMap::from([(id, EmptyNode {})]))
        .map_err(|error| Error::NotDone(error.to_string()))?;
    let log_id = LogId { leader_id: vote.leader_id().to_committed(), index };
    state.epoch += 1;
    state.vote = Some(vote);
    state.entries.insert(Entry { log_id, payload: EntryPayload::Membership(members) });
    state.committed = Some(log_id);
    journal.rewrite(&state.records()).await?;
    Ok(state.epoch)
}
