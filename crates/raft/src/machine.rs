//! Between openraft and the caller's state machine: positions, members, and the last snapshot on disk.
//!
//! ```text
//! file "group0.snapshot" = "MSNG0SN1", u32 crc of the rest, meta, state
//! ```

use std::cell::RefCell;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use base::crc32;
use futures_util::{Stream, StreamExt};
use openraft::storage::{EntryResponder, RaftStateMachine};
use openraft::{EntryPayload, OptionalSend, RaftSnapshotBuilder};

use crate::codec::{self, In};
use crate::error::Error;
use crate::seam::{Position, StateMachine};
use crate::store::LogStore;
use crate::types::{Answer, LogId, Snapshot, SnapshotBytes, SnapshotMeta, StoredMembers, Types};

type Payload = openraft::alias::EntryPayloadOf<Types>;

const MAGIC: &[u8; 8] = b"MSNG0SN1";

struct State {
    applied: Option<LogId>,
    members: StoredMembers,
    snapshot: Option<(SnapshotMeta, SnapshotBytes)>,
}

struct Inner {
    machine: Rc<dyn StateMachine>,
    log: LogStore,
    path: PathBuf,
    state: RefCell<State>,
}

/// One member's applied state; clones share it.
#[derive(Clone)]
pub(crate) struct Machine(Rc<Inner>);

/// The state at one moment, to be written as a snapshot.
pub(crate) struct Builder {
    inner: Rc<Inner>,
    meta: SnapshotMeta,
    bytes: Vec<u8>,
}

async fn load(path: &Path) -> Result<Option<(SnapshotMeta, SnapshotBytes)>, Error> {
    let io = |action| move |source| Error::Log(journal::Error::io(path, action, source));
    if !runtime::file::exists(path).await.map_err(io("look for"))? {
        return Ok(None);
    }
    let bytes = runtime::file::read(path).await.map_err(io("read"))?;
    let corrupt = |offset, got: String| Error::Corrupt {
        kind: "snapshot of group 0",
        file: path.to_path_buf(),
        offset,
        got,
    };
    let input = &mut In::new(&bytes);
    if input.bytes(MAGIC.len()).ok() != Some(&MAGIC[..]) {
        return Err(corrupt(0, "other bytes than the magic of a snapshot".to_string()));
    }
    let crc = input.u32().map_err(|_| corrupt(8, "the end of the file".to_string()))?;
    if crc != crc32(input.rest()) {
        return Err(corrupt(8, "a checksum that does not match".to_string()));
    }
    let meta = codec::meta(input).map_err(|error| corrupt(12, error.to_string()))?;
    Ok(Some((meta, Rc::new(input.rest().to_vec()))))
}

async fn save(path: &Path, meta: &SnapshotMeta, bytes: &[u8]) -> io::Result<()> {
    let mut body = Vec::new();
    codec::put_meta(&mut body, meta);
    body.extend_from_slice(bytes);
    let mut file = MAGIC.to_vec();
    file.extend(crc32(&body).to_be_bytes());
    file.extend(body);
    runtime::file::replace_atomic(path, &file).await
}

impl Machine {
    /// Reads the last snapshot in `folder` and where the caller's state stands.
    pub(crate) async fn open(
        folder: &Path,
        log: &LogStore,
        machine: Rc<dyn StateMachine>,
    ) -> Result<Machine, Error> {
        let path = folder.join("group0.snapshot");
        let snapshot = load(&path).await?;
        let position = machine.position();
        let covered = snapshot.as_ref().and_then(|(meta, _)| meta.last_log_id);
        let last = log.last().max(covered);
        if let Some(position) = &position {
            check(position, log.epoch(), last)?;
        }
        let applied = position.map(|position| position.log_id());
        let members = match &applied {
            None => StoredMembers::default(),
            Some(applied) => members_at(log, snapshot.as_ref(), applied.index),
        };
        let state = RefCell::new(State { applied, members, snapshot });
        Ok(Machine(Rc::new(Inner { machine, log: log.clone(), path, state })))
    }

    pub(crate) fn applied(&self) -> Option<Position> {
        let state = self.0.state.borrow();
        state.applied.as_ref().map(|id| Position::new(self.0.log.epoch(), id))
    }

    /// Where the caller's state stands, which is on its disk.
    pub(crate) fn durable(&self) -> Option<Position> {
        self.0.machine.position()
    }

    pub(crate) fn applied_id(&self) -> Option<LogId> {
        self.0.state.borrow().applied
    }

    /// The last snapshot.
    pub(crate) fn snapshot(&self) -> Option<(SnapshotMeta, SnapshotBytes)> {
        self.0.state.borrow().snapshot.clone()
    }

    async fn apply_one(&self, id: LogId, payload: Payload) -> io::Result<Answer> {
        let at = Position::new(self.0.log.epoch(), &id);
        let answer = match &payload {
            EntryPayload::Normal(command) => self.0.machine.apply(at, &command.0).await?,
            EntryPayload::Blank | EntryPayload::Membership(_) => Vec::new(),
        };
        let mut state = self.0.state.borrow_mut();
        state.applied = Some(id);
        if let EntryPayload::Membership(members) = payload {
            state.members = StoredMembers::new(Some(id), members);
        }
        Ok(Answer(answer))
    }
}

/// A state that knows more than the log beside it: one of the two is of another folder, or was restored or wiped alone.
fn check(position: &Position, epoch: u64, last: Option<LogId>) -> Result<(), Error> {
    let ahead = last.is_none_or(|last| last.index < position.index);
    if position.epoch > epoch || ahead {
        let text = format!(
            "the state has applied entry {} of epoch {}, the log ends at {:?} in epoch {epoch}",
            position.index,
            position.epoch,
            last.map(|last| last.index)
        );
        return Err(Error::Ended(text));
    }
    Ok(())
}

fn members_at(log: &LogStore, snapshot: Option<&(SnapshotMeta, SnapshotBytes)>, index: u64) -> StoredMembers {
    let logged = log.members_at(index);
    match snapshot.map(|(meta, _)| &meta.last_membership) {
        Some(other)
            if other.log_id().is_some_and(|at| at.index <= index) && logged.log_id() < other.log_id() =>
        {
            other.clone()
        }
        _ => logged,
    }
}

impl RaftSnapshotBuilder<Types> for Builder {
    type SnapshotData = SnapshotBytes;

    async fn build_snapshot(&mut self) -> io::Result<Snapshot> {
        let bytes = Rc::new(std::mem::take(&mut self.bytes));
        save(&self.inner.path, &self.meta, &bytes).await?;
        self.inner.state.borrow_mut().snapshot = Some((self.meta.clone(), bytes.clone()));
        Ok(Snapshot { meta: self.meta.clone(), snapshot: bytes })
    }
}

impl RaftStateMachine<Types> for Machine {
    type SnapshotData = SnapshotBytes;
    type SnapshotBuilder = Builder;

    async fn applied_state(&mut self) -> io::Result<(Option<LogId>, StoredMembers)> {
        let state = self.0.state.borrow();
        Ok((state.applied, state.members.clone()))
    }

    async fn apply<Strm>(&mut self, mut entries: Strm) -> io::Result<()>
    where
        Strm: Stream<Item = io::Result<EntryResponder<Types>>> + Unpin + OptionalSend,
    {
        while let Some(item) = entries.next().await {
            let (entry, responder) = item?;
            self.0.log.flushed().await?;
            let answer = self.apply_one(entry.log_id, entry.payload).await?;
            if let Some(responder) = responder {
                responder.send(answer);
            }
        }
        Ok(())
    }

    async fn get_snapshot_builder(&mut self) -> Builder {
        let state = self.0.state.borrow();
        let meta = SnapshotMeta { last_log_id: state.applied, last_membership: state.members.clone() };
        Builder { inner: self.0.clone(), meta, bytes: self.0.machine.snapshot() }
    }

    async fn install_snapshot(&mut self, meta: &SnapshotMeta, snapshot: SnapshotBytes) -> io::Result<()> {
        let known = self.snapshot().is_some_and(|(known, _)| known.last_log_id == meta.last_log_id);
        if !known {
            save(&self.0.path, meta, &snapshot).await?;
        }
        if let Some(last) = &meta.last_log_id {
            self.0.machine.restore(Position::new(self.0.log.epoch(), last), &snapshot).await?;
        }
        let mut state = self.0.state.borrow_mut();
        state.applied = meta.last_log_id;
        state.members = meta.last_membership.clone();
        state.snapshot = Some((meta.clone(), snapshot));
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> io::Result<Option<Snapshot>> {
        Ok(self.snapshot().map(|(meta, snapshot)| Snapshot { meta, snapshot }))
    }
}
