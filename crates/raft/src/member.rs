//! One member of a group: opens its log, starts openraft, serves the other members and clients on one address.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use openraft::{BasicNode, Config, Raft, ReadPolicy, SnapshotPolicy};
use runtime::Group;
use runtime::net::TcpListener;

use crate::codec::{self, DecodeError, In};
use crate::limits::REQUEST;
use crate::machine::{Machine, Observer};
use crate::network::{Kind, Network, Wire};
use crate::store::LogStore;
use crate::{Command, Snapshot, Types};

/// What a member needs to know.
#[derive(Clone, Debug)]
pub struct Settings {
    /// This member's number.
    pub id: u64,
    /// Every member's number and address, this one's included.
    pub members: BTreeMap<u64, SocketAddr>,
    /// Where its log and snapshots live.
    pub folder: PathBuf,
    /// Entries between snapshots.
    pub snapshot_every: u64,
}

/// Why a member could not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Disk or network failed; at start: do not run. Otherwise ask again.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// openraft ended or refused its settings: stop the node.
    #[error("consensus ended: {0}")]
    Ended(String),
    /// Not the leader, or no leader, or too late; a write may still happen. Ask another member.
    #[error("not done: {0}")]
    NotDone(String),
}

type Group0 = Raft<Types, Machine>;

/// A running member.
pub struct Member {
    raft: Group0,
    machine: Machine,
}

impl Member {
    /// Opens the log, starts the member and its listener. The member of the smallest number founds the group, once.
    pub async fn start(settings: Settings, observer: Observer) -> Result<Rc<Member>, Error> {
        runtime::file::create_dir_all(&settings.folder).await?;
        if let Some(parent) = settings.folder.parent() {
            runtime::file::sync_dir(parent).await?;
        }
        let config = Config {
            cluster_name: "group0".to_string(),
            heartbeat_interval: 100,
            election_timeout_min: 300,
            election_timeout_max: 600,
            snapshot_policy: SnapshotPolicy::LogsSinceLast(settings.snapshot_every),
            max_in_snapshot_log_to_keep: settings.snapshot_every / 2,
            enable_pre_vote: Some(true),
            // A leader that restores itself without an election does not know what was committed before it went down,
            // and would serve stale reads: the commit point is not saved. Found by the simulator.
            enable_leader_restore: Some(false),
            ..Config::default()
        };
        let config = Arc::new(config.validate().map_err(|e| Error::Ended(e.to_string()))?);
        let store = LogStore::open(&settings.folder).await?;
        let machine = Machine::open(&settings.folder, observer).await?;
        let raft = Raft::new(settings.id, config, Network, store, machine.clone())
            .await
            .map_err(|e| Error::Ended(e.to_string()))?;
        let member = Rc::new(Member { raft, machine });
        let address = settings.members[&settings.id];
        let listener = TcpListener::bind(address).await?;
        let serving = member.clone();
        runtime::spawn(Group::ADMIN, async move { serving.listen(listener).await });
        member.found(&settings).await?;
        Ok(member)
    }

    async fn found(&self, settings: &Settings) -> Result<(), Error> {
        let first = settings.members.keys().next() == Some(&settings.id);
        let started = self.raft.is_initialized().await.map_err(|e| Error::Ended(e.to_string()))?;
        if first && !started {
            let nodes: BTreeMap<u64, BasicNode> =
                settings.members.iter().map(|(id, address)| (*id, BasicNode::new(address))).collect();
            // Refused when another start of this member has done it meanwhile: then there is nothing to do.
            if let Err(error) = self.raft.initialize(nodes).await {
                runtime::info!("group not founded here: {error}");
            }
        }
        Ok(())
    }

    /// The group's leader as this member knows it, and the term.
    pub fn leader(&self) -> (Option<u64>, u64) {
        use openraft::async_runtime::watch::WatchReceiver as _;
        let watch = self.raft.metrics();
        let metrics = watch.borrow_watched();
        (metrics.current_leader, metrics.current_term)
    }

    /// Is this member the leader, by its own knowledge?
    pub fn is_leader(&self) -> bool {
        self.raft.is_leader()
    }

    /// Appends a command; answers once it is applied here.
    pub async fn write(&self, command: Vec<u8>) -> Result<u64, Error> {
        match runtime::timeout(REQUEST, self.raft.client_write(Command(command))).await {
            Ok(Ok(answer)) => Ok(answer.log_id.index),
            Ok(Err(error)) => Err(Error::NotDone(error.to_string())),
            Err(late) => Err(Error::NotDone(late.to_string())),
        }
    }

    /// Every command applied, not older than this call.
    pub async fn read(&self) -> Result<Vec<Vec<u8>>, Error> {
        match runtime::timeout(REQUEST, self.raft.ensure_linearizable(ReadPolicy::ReadIndex)).await {
            Ok(Ok(_)) => Ok(self.machine.commands()),
            Ok(Err(error)) => Err(Error::NotDone(error.to_string())),
            Err(late) => Err(Error::NotDone(late.to_string())),
        }
    }

    async fn listen(self: Rc<Self>, listener: TcpListener) {
        while let Ok((stream, _)) = listener.accept().await {
            let member = self.clone();
            runtime::spawn(Group::ADMIN, async move {
                let mut wire = Wire::new(stream);
                while let Ok((tag, body)) = wire.recv().await {
                    let sent = match member.answer(tag, &body).await {
                        Ok(answer) => wire.send(0, &answer).await,
                        Err(error) => wire.send(1, error.to_string().as_bytes()).await,
                    };
                    if sent.is_err() {
                        return;
                    }
                }
            });
        }
    }

    async fn answer(&self, tag: u8, body: &[u8]) -> Result<Vec<u8>, Error> {
        let input = &mut In::new(body);
        let bad = |e: DecodeError| Error::NotDone(e.to_string());
        let refused = |e: &dyn std::fmt::Display| Error::NotDone(e.to_string());
        let mut out = Vec::new();
        match Kind::of(tag) {
            Some(Kind::Append) => {
                let request = codec::append(input).map_err(bad)?;
                let answer = self.raft.append_entries(request).await.map_err(|e| refused(&e))?;
                codec::put_append_answer(&mut out, &answer);
            }
            Some(Kind::Vote) => {
                let request = codec::ballot(input).map_err(bad)?;
                let answer = self.raft.vote(request).await.map_err(|e| refused(&e))?;
                codec::put_ballot_answer(&mut out, &answer);
            }
            Some(Kind::PreVote) => {
                let request = codec::ballot(input).map_err(bad)?;
                let answer = self.raft.pre_vote(request).await.map_err(|e| refused(&e))?;
                codec::put_ballot_answer(&mut out, &answer);
            }
            Some(Kind::Snapshot) => {
                let vote = codec::vote(input).map_err(bad)?;
                let meta = codec::meta(input).map_err(bad)?;
                let snapshot = Snapshot { meta, snapshot: input.rest().to_vec() };
                let answer =
                    self.raft.install_full_snapshot(vote, snapshot).await.map_err(|e| refused(&e))?;
                codec::put_vote(&mut out, &answer.vote);
            }
            Some(Kind::Write) => out.extend(self.write(body.to_vec()).await?.to_be_bytes()),
            Some(Kind::Read) => {
                for command in self.read().await? {
                    out.extend((command.len() as u32).to_be_bytes());
                    out.extend(command);
                }
            }
            None => return Err(Error::NotDone(format!("unknown question {tag}"))),
        }
        Ok(out)
    }
}
