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
use runtime::sync::Lock;

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
    /// Held while a snapshot is written: one may be built while another arrives, and both go to one file.
    saving: Lock<()>,
}

impl Inner {
    /// Writes a snapshot unless a later one is there, and returns which is. ⚔ The log may have been cut at the later one: an older file would leave a gap.
    async fn keep(
        &self,
        meta: SnapshotMeta,
        bytes: SnapshotBytes,
    ) -> io::Result<(SnapshotMeta, SnapshotBytes)> {
        let _turn = self.saving.lock().await;
        let known = self.state.borrow().snapshot.clone();
        if let Some(known) = known.filter(|(known, _)| meta.last_log_id <= known.last_log_id) {
            return Ok(known);
        }
        save(&self.path, &meta, &bytes).await?;
        self.state.borrow_mut().snapshot = Some((meta.clone(), bytes.clone()));
        Ok((meta, bytes))
    }
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
        Ok(Machine(Rc::new(Inner { machine, log: log.clone(), path, state, saving: Lock::new(()) })))
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
        let (meta, snapshot) = self.inner.keep(self.meta.clone(), bytes).await?;
        Ok(Snapshot { meta, snapshot })
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
        self.0.keep(meta.clone(), snapshot.clone()).await?;
        if let Some(last) = &meta.last_log_id {
            self.0.machine.restore(Position::new(self.0.log.epoch(), last), &snapshot).await?;
        }
        let mut state = self.0.state.borrow_mut();
        state.applied = meta.last_log_id;
        state.members = meta.last_membership.clone();
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> io::Result<Option<Snapshot>> {
        Ok(self.snapshot().map(|(meta, snapshot)| Snapshot { meta, snapshot }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seam::BoxFuture;
    use base::HostId;
    use openraft::impls::leader_id_adv::LeaderId;
    use runtime::sim::{SimConfig, World};
    use std::time::Duration;

    /// A state of some bytes.
    struct Bytes(RefCell<Vec<u8>>);

    impl StateMachine for Bytes {
        fn position(&self) -> Option<Position> {
            None
        }

        fn apply<'a>(&'a self, _: Position, _: &'a [u8]) -> BoxFuture<'a, io::Result<Vec<u8>>> {
            Box::pin(async { Ok(Vec::new()) })
        }

        fn snapshot(&self) -> Vec<u8> {
            self.0.borrow().clone()
        }

        fn restore<'a>(&'a self, _: Position, snapshot: &'a [u8]) -> BoxFuture<'a, io::Result<()>> {
            *self.0.borrow_mut() = snapshot.to_vec();
            Box::pin(async { Ok(()) })
        }
    }

    fn id(index: u64) -> Option<LogId> {
        Some(LogId { leader_id: LeaderId { term: 1, node_id: HostId(1) }, index })
    }

    /// A snapshot up to 5 is built while one up to 9 arrives; the old one is written second.
    async fn build_and_install() {
        let folder = Path::new("/member");
        runtime::file::create_dir_all(folder).await.expect("a folder");
        let log = LogStore::open(folder, HostId(1), 1 << 20).await.expect("an empty log");
        let state = Rc::new(Bytes(RefCell::new(vec![5; 100_000])));
        let mut machine = Machine::open(folder, &log, state).await.expect("an empty state");
        machine.0.state.borrow_mut().applied = id(5);
        let mut builder = machine.get_snapshot_builder().await;
        let newer = SnapshotMeta { last_log_id: id(9), ..SnapshotMeta::default() };
        let (mut installs, sent) = (machine.clone(), newer.clone());
        let installed = runtime::spawn(runtime::Group::ADMIN, async move {
            installs.install_snapshot(&sent, Rc::new(vec![9; 100_000])).await
        });
        let built = runtime::spawn(runtime::Group::ADMIN, async move { builder.build_snapshot().await });
        installed.await.expect("the newer one is installed");
        built.await.expect("a snapshot is built");
        let (meta, bytes) = load(&machine.0.path).await.expect("it is readable").expect("it is there");
        assert_eq!((meta.last_log_id, bytes[0]), (newer.last_log_id, 9), "on disk");
        let (meta, bytes) = machine.snapshot().expect("it is there");
        assert_eq!((meta.last_log_id, bytes[0]), (newer.last_log_id, 9), "in memory");
    }

    #[test]
    fn a_snapshot_that_is_built_does_not_get_in_the_way_of_a_newer_one_that_arrives() {
        for seed in 1..20 {
            let mut world = World::new(seed, SimConfig::calm());
            let node = world.add_client([10, 0, 0, 1].into());
            let task = world.spawn(node, build_and_install());
            assert!(world.run_until(|_| task.done(), Duration::from_secs(60)), "it ends");
        }
    }
}
