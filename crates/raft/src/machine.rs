//! The state machine: commands in order, handed to an observer, and snapshots of them on disk.
//!
//! The spike's state is the list of commands itself; a real group 0 keeps tables instead.

use std::cell::RefCell;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use base::crc32;
use futures_util::{Stream, StreamExt};
use openraft::storage::{EntryResponder, RaftStateMachine};
use openraft::{EntryPayload, OptionalSend, RaftSnapshotBuilder};

use crate::codec::{self, DecodeError, In};
use crate::{LogId, Snapshot, SnapshotMeta, StoredMembers, Types};

/// Told of every command this member applies: its index, the leader's term, its bytes.
pub type Observer = Rc<dyn Fn(u64, u64, &[u8])>;

#[derive(Default)]
struct State {
    applied: Option<LogId>,
    members: StoredMembers,
    commands: Vec<Vec<u8>>,
    snapshot: Option<(SnapshotMeta, Vec<u8>)>,
}

/// One member's applied state; clones share it.
#[derive(Clone)]
pub struct Machine {
    state: Rc<RefCell<State>>,
    path: PathBuf,
    observer: Observer,
}

fn encode(commands: &[Vec<u8>]) -> Vec<u8> {
    let mut out = (commands.len() as u32).to_be_bytes().to_vec();
    for command in commands {
        out.extend((command.len() as u32).to_be_bytes());
        out.extend(command);
    }
    out
}

fn decode(bytes: &[u8]) -> Result<Vec<Vec<u8>>, DecodeError> {
    let input = &mut In::new(bytes);
    let mut commands = Vec::new();
    for _ in 0..input.u32()? {
        let len = input.u32()? as usize;
        commands.push(input.bytes(len)?.to_vec());
    }
    Ok(commands)
}

fn corrupt(path: &Path, error: &dyn std::fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{}: {error}", path.display()))
}

impl Machine {
    /// Opens the state in `folder`: the last snapshot, if there is one.
    pub async fn open(folder: &Path, observer: Observer) -> io::Result<Machine> {
        let path = folder.join("raft.snapshot");
        let machine = Machine { state: Rc::default(), path, observer };
        if runtime::file::exists(&machine.path).await? {
            let bytes = runtime::file::read(&machine.path).await?;
            let (meta, data) = machine.unpack(&bytes)?;
            machine.load(meta, data)?;
        }
        Ok(machine)
    }

    fn unpack(&self, bytes: &[u8]) -> io::Result<(SnapshotMeta, Vec<u8>)> {
        let (crc, rest) = bytes.split_at_checked(4).ok_or_else(|| corrupt(&self.path, &"cut short"))?;
        if crc != crc32(rest).to_be_bytes() {
            return Err(corrupt(&self.path, &"checksum does not match"));
        }
        let input = &mut In::new(rest);
        let meta = codec::meta(input).map_err(|e| corrupt(&self.path, &e))?;
        Ok((meta, input.rest().to_vec()))
    }

    fn load(&self, meta: SnapshotMeta, data: Vec<u8>) -> io::Result<()> {
        let commands = decode(&data).map_err(|e| corrupt(&self.path, &e))?;
        let mut state = self.state.borrow_mut();
        state.applied = meta.last_log_id;
        state.members = meta.last_membership.clone();
        state.commands = commands;
        state.snapshot = Some((meta, data));
        Ok(())
    }

    async fn save(&self, meta: &SnapshotMeta, data: &[u8]) -> io::Result<()> {
        let mut body = Vec::new();
        codec::put_meta(&mut body, meta);
        body.extend(data);
        let mut file = crc32(&body).to_be_bytes().to_vec();
        file.extend(body);
        runtime::file::replace_atomic(&self.path, &file).await
    }

    /// Every command applied so far, in order.
    pub fn commands(&self) -> Vec<Vec<u8>> {
        self.state.borrow().commands.clone()
    }
}

impl RaftSnapshotBuilder<Types> for Machine {
    type SnapshotData = Vec<u8>;

    async fn build_snapshot(&mut self) -> io::Result<Snapshot> {
        let (meta, data) = {
            let state = self.state.borrow();
            let meta = SnapshotMeta { last_log_id: state.applied, last_membership: state.members.clone() };
            (meta, encode(&state.commands))
        };
        self.save(&meta, &data).await?;
        self.state.borrow_mut().snapshot = Some((meta.clone(), data.clone()));
        Ok(Snapshot { meta, snapshot: data })
    }
}

impl RaftStateMachine<Types> for Machine {
    type SnapshotData = Vec<u8>;
    type SnapshotBuilder = Machine;

    async fn applied_state(&mut self) -> io::Result<(Option<LogId>, StoredMembers)> {
        let state = self.state.borrow();
        Ok((state.applied, state.members.clone()))
    }

    async fn apply<Strm>(&mut self, mut entries: Strm) -> io::Result<()>
    where
        Strm: Stream<Item = io::Result<EntryResponder<Types>>> + Unpin + OptionalSend,
    {
        while let Some(item) = entries.next().await {
            let (entry, responder) = item?;
            let id = entry.log_id;
            let count = {
                let mut state = self.state.borrow_mut();
                state.applied = Some(id);
                match entry.payload {
                    EntryPayload::Blank => {}
                    EntryPayload::Normal(command) => {
                        (self.observer)(id.index, id.leader_id.term, &command.0);
                        state.commands.push(command.0);
                    }
                    EntryPayload::Membership(members) => {
                        state.members = StoredMembers::new(Some(id), members)
                    }
                }
                state.commands.len() as u64
            };
            if let Some(responder) = responder {
                responder.send(count);
            }
        }
        Ok(())
    }

    async fn get_snapshot_builder(&mut self) -> Machine {
        self.clone()
    }

    async fn install_snapshot(&mut self, meta: &SnapshotMeta, snapshot: Vec<u8>) -> io::Result<()> {
        self.save(meta, &snapshot).await?;
        self.load(meta.clone(), snapshot)
    }

    async fn get_current_snapshot(&mut self) -> io::Result<Option<Snapshot>> {
        let snapshot = self.state.borrow().snapshot.clone();
        Ok(snapshot.map(|(meta, snapshot)| Snapshot { meta, snapshot }))
    }
}
