//! One member of the group: opens its log, runs openraft, proposes, reads, changes members.

use std::collections::BTreeSet;
use std::future::{Future, poll_fn};
use std::path::PathBuf;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use base::{HostId, Instant};
use openraft::async_runtime::mutex::Mutex as _;
use openraft::async_runtime::watch::WatchReceiver as _;
use openraft::errors::{ClientWriteError, Fatal, LinearizableReadError, RaftError};
use openraft::raft::{AppendEntriesRequest, AppendEntriesResponse};
use openraft::{ChangeMembers, Config, EmptyNode, Raft, RaftState, ReadPolicy, SnapshotPolicy};

use crate::channel::{LocalMutex, WatchRx};
pub use crate::codec::Change;
use crate::codec::{self, DecodeError, In, Led, PartAnswer};
use crate::error::Error;
use crate::incoming::{Arrived, Incoming};
use crate::limits::{
    APPEND_ENTRIES, ATTEMPT_MIN, BARRIER_ATTEMPT, BARRIER_PAUSE, COMMAND_BYTES_MAX, ELECTION_MAX,
    ELECTION_MIN, HEARTBEAT, LOG_LOOK_EVERY, PROMOTE_LAG_MAX, RETRY, SNAPSHOT_WAIT, TAKING_MAX, VOTERS_MAX,
};
use crate::machine::Machine;
use crate::network::{Kind, Network, answered, opened};
use crate::seam::{Position, SendError, StateMachine, Transport};
use crate::store::LogStore;
use crate::types::{Command, Snapshot, Types, Vote};
use runtime::sync::Semaphore;

/// What a member needs to know.
#[derive(Clone, Debug)]
pub struct Settings {
    /// This member.
    pub id: HostId,
    /// Where its log and snapshot live; made when missing.
    pub folder: PathBuf,
    /// Entries between snapshots.
    pub snapshot_every: u64,
    /// Entries kept behind a snapshot, for members that lack a few.
    pub keep_entries: u64,
    /// Bytes of entries in memory above which a snapshot is made and all behind it cut, however few they are.
    pub log_bytes: usize,
    /// Bytes the file of the log may grow by before it is written anew without what snapshots cover.
    pub rewrite_bytes: u64,
}

/// What a member knows of the group. None of it is a promise: the leader may be another one by now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Grows when the group is recovered after the loss of its majority.
    pub epoch: u64,
    /// Of the vote.
    pub term: u64,
    /// The leader, if one is known.
    pub leader: Option<HostId>,
    /// Those who vote by the last membership record, committed or not; while it changes, those of before and of after.
    pub voters: BTreeSet<HostId>,
    /// Those who listen.
    pub learners: BTreeSet<HostId>,
    /// Whether that record is committed and no change is under way.
    pub settled: bool,
    /// Index of the last entry in the log.
    pub last: Option<u64>,
    /// Entries of the log that are in memory, and their bytes.
    pub entries: (usize, usize),
    /// What the state machine has applied.
    pub applied: Option<Position>,
    /// Why this member has ended, if it has: stop the node.
    pub ended: Option<String>,
}

type Consensus = Raft<Types, Machine>;
type Metrics = openraft::RaftMetrics<Types>;

/// A running member.
pub struct Group {
    pub(crate) id: HostId,
    pub(crate) raft: Consensus,
    pub(crate) machine: Machine,
    pub(crate) log: LogStore,
    pub(crate) network: Network,
    incoming: LocalMutex<Incoming>,
    /// Messages with entries share it; a snapshot has it alone.
    taking: Semaphore,
    /// One change of members at a time.
    changing: LocalMutex<()>,
}

/// Wakes whoever waits for the group's state to change.
pub struct Changes(WatchRx<Metrics>);

impl Changes {
    /// Returns once something has changed since the last call, or, with an error, when the member has ended.
    pub async fn changed(&mut self) -> Result<(), Error> {
        self.0.changed().await.map_err(|_| Error::Ended("stopped".to_string()))
    }
}

fn config(settings: &Settings) -> Config {
    let ms = |duration: Duration| duration.as_millis() as u64;
    Config {
        cluster_name: "group0".to_string(),
        heartbeat_interval: ms(HEARTBEAT),
        election_timeout_min: ms(ELECTION_MIN),
        election_timeout_max: ms(ELECTION_MAX),
        install_snapshot_timeout: ms(SNAPSHOT_WAIT),
        max_payload_entries: APPEND_ENTRIES,
        max_append_entries: Some(APPEND_ENTRIES),
        snapshot_policy: SnapshotPolicy::LogsSinceLast(settings.snapshot_every),
        max_in_snapshot_log_to_keep: settings.keep_entries,
        replication_lag_threshold: settings.snapshot_every.max(settings.keep_entries) * 2,
        enable_pre_vote: Some(true),
        // A leader that restores itself without an election does not know what was committed before it went down,
        // and would serve stale reads. Found by the simulator.
        enable_leader_restore: Some(false),
        ..Config::default()
    }
}

fn ended(error: impl std::fmt::Display) -> Error {
    Error::Ended(error.to_string())
}

impl Group {
    /// Opens the log and starts the member. It neither founds nor joins a group: a member with an empty log waits until a leader
    /// takes it in, or [`Group::found`] is called. A member whose last membership record has it as the only voter leads at once.
    /// Errors: a damaged log or snapshot, by file and offset; stop the node.
    pub async fn open(
        settings: Settings,
        machine: Rc<dyn StateMachine>,
        transport: Rc<dyn Transport>,
    ) -> Result<Rc<Group>, Error> {
        let config = Arc::new(config(&settings).validate().map_err(ended)?);
        make_folder(&settings).await?;
        let log = LogStore::open(&settings.folder, settings.id, settings.rewrite_bytes).await?;
        let machine = Machine::open(&settings.folder, &log, machine).await?;
        let network = Network { transport, log: log.clone() };
        let alone = log.alone();
        let raft = Raft::new(settings.id, config, network.clone(), log.clone(), machine.clone())
            .await
            .map_err(ended)?;
        let group = Rc::new(Group {
            id: settings.id,
            raft,
            machine,
            log,
            network,
            incoming: LocalMutex::new(Incoming::default()),
            taking: Semaphore::new(TAKING_MAX),
            changing: LocalMutex::new(()),
        });
        if alone {
            group.raft.trigger().elect(false).await.map_err(ended)?;
        }
        let bounded = Rc::downgrade(&group);
        drop(runtime::spawn(runtime::Group::ADMIN, async move {
            loop {
                runtime::sleep(LOG_LOOK_EVERY).await;
                let Some(group) = bounded.upgrade() else { return };
                if settings.log_bytes < group.log.bytes() && group.cut_log().await.is_err() {
                    return;
                }
            }
        }));
        Ok(group)
    }

    /// Makes a snapshot and cuts all entries behind it: openraft counts entries, and they may be long. Errors: this member has ended.
    async fn cut_log(&self) -> Result<(), Error> {
        let applied = self.applied().map_or(0, |at| at.index);
        self.raft.trigger().snapshot().await.map_err(ended)?;
        let covered =
            || self.machine.snapshot().and_then(|(meta, _)| meta.last_log_id).map_or(0, |id| id.index);
        match self.wait(LOG_LOOK_EVERY * 10, || applied <= covered()).await {
            Ok(()) => self.raft.trigger().purge_log(covered()).await.map_err(ended),
            Err(Error::Ended(text)) => Err(Error::Ended(text)),
            // It takes long, or there is none yet: the next look asks again.
            Err(_) => Ok(()),
        }
    }

    /// Founds a group of this member alone. Only one member of a cluster may ever do this.
    /// Errors: `NotDone` when this member has a log already.
    pub async fn found(&self) -> Result<(), Error> {
        match self.raft.initialize(BTreeSet::from([self.id])).await {
            Ok(()) => Ok(()),
            Err(RaftError::APIError(error)) => Err(Error::NotDone(error.to_string())),
            Err(RaftError::Fatal(fatal)) => Err(ended(fatal)),
        }
    }

    /// Whether this member has a log: it has founded a group or was taken into one.
    pub fn is_member(&self) -> bool {
        self.log.last().is_some() || self.machine.applied().is_some()
    }

    /// What this member knows.
    pub fn status(&self) -> Status {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow_watched();
        let members = metrics.membership_config.membership();
        let joint = members.get_joint_config().len() > 1;
        Status {
            epoch: self.log.epoch(),
            term: metrics.current_term,
            leader: metrics.current_leader,
            voters: members.voter_ids().collect(),
            learners: members.learner_ids().collect(),
            settled: !joint && metrics.membership_config == metrics.committed_membership_config,
            last: self.log.last().map(|id| id.index),
            entries: (self.log.len(), self.log.bytes()),
            applied: self.machine.applied(),
            ended: metrics.running_state.as_ref().err().map(Fatal::to_string),
        }
    }

    /// This member's term and index for a hello: a peer that has recorded higher ones refuses a folder that was copied or restored. Both are
    /// what is on the disk: entries of consensus itself are applied, too, but the state that a kill leaves does not know of them.
    pub fn durable(&self) -> (u64, Option<u64>) {
        let vote = self.log.kept_vote();
        (vote.map_or(0, |vote| vote.leader_id().term), self.machine.durable().map(|at| at.index))
    }

    /// Returns once this member has ended, and why: what could not be written, with its file. The log is looked at itself, since what waits for
    /// it may never hear of its failure. Also returns behind [`Group::stop`].
    pub async fn ended(&self) -> String {
        let mut log_failed = pin!(self.log.failed());
        let mut ended = pin!(async {
            let mut changes = self.changes();
            loop {
                if let Some(text) = self.status().ended {
                    return text;
                }
                if changes.changed().await.is_err() {
                    return self.status().ended.unwrap_or_else(|| "stopped".to_owned());
                }
            }
        });
        poll_fn(|context| match log_failed.as_mut().poll(context) {
            Poll::Ready(text) => Poll::Ready(text),
            Poll::Pending => ended.as_mut().poll(context),
        })
        .await
    }

    /// Members whose disks have a vote of this term, and the term: the leader, and where this member leads, those that have acknowledged an entry of
    /// its term, which they do when it is durable. A refusal of entries proves nothing: it is answered before its vote is on the disk.
    pub fn votes_kept(&self) -> Vec<(HostId, u64)> {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow_watched();
        let term = metrics.current_term;
        match (metrics.current_leader, &metrics.replication) {
            (Some(leader), _) if leader != self.id => vec![(leader, term)],
            (Some(_), Some(all)) => {
                let has_acknowledged =
                    all.iter().filter(|(_, last)| last.as_ref().is_some_and(|id| id.leader_id.term == term));
                has_acknowledged.map(|(host, _)| (*host, term)).filter(|(host, _)| *host != self.id).collect()
            }
            _ => Vec::new(),
        }
    }

    /// What the state machine has applied.
    pub fn applied(&self) -> Option<Position> {
        self.machine.applied()
    }

    /// Whether this member leads, by its own knowledge.
    pub fn is_leader(&self) -> bool {
        self.raft.is_leader()
    }

    /// Wakes at every change of what [`Group::status`] says.
    pub fn changes(&self) -> Changes {
        let mut metrics = self.raft.metrics();
        // What is known already is no news.
        drop(metrics.borrow_and_update());
        Changes(metrics)
    }

    /// Returns once this member has applied the entry of that index.
    pub async fn wait_applied(&self, index: u64, timeout: Duration) -> Result<(), Error> {
        self.wait(timeout, || self.has_applied(index)).await
    }

    pub(crate) fn has_applied(&self, index: u64) -> bool {
        self.applied().is_some_and(|at| at.index >= index)
    }

    async fn wait(&self, timeout: Duration, met: impl Fn() -> bool) -> Result<(), Error> {
        let mut changes = self.changes();
        let waiting = async {
            while !met() {
                if let Some(text) = self.status().ended {
                    return Err(Error::Ended(text));
                }
                changes.changed().await?;
            }
            Ok(())
        };
        let late = Error::NotDone("the time is up".to_string());
        runtime::timeout(timeout, waiting).await.unwrap_or(Err(late))
    }

    /// Gives a command to the leader, wherever it is; returns its index and what the state machine there said once it was applied there.
    /// [`Group::wait_applied`] tells when it is applied here, too.
    /// Errors: `NotDone`: it was not and will not be applied. `Unknown`: it may be; ask again with the same command. `Ended`: as
    /// `Unknown`, and this member is of no more use.
    pub async fn propose(&self, command: Vec<u8>, timeout: Duration) -> Result<(u64, Vec<u8>), Error> {
        if command.len() > COMMAND_BYTES_MAX {
            return Err(Error::NotDone(format!(
                "a command of {} bytes is longer than {COMMAND_BYTES_MAX}",
                command.len()
            )));
        }
        let here = async |wait| self.propose_here(command.clone(), wait).await;
        self.lead(Kind::Propose, &command, timeout, here, proposed).await
    }

    /// Returns once this member has applied everything that was committed before the call.
    /// Errors: `NotDone`: no leader with a majority was found, or this member did not catch up, in time.
    pub async fn read_barrier(&self, timeout: Duration) -> Result<(), Error> {
        let deadline = runtime::now() + timeout;
        let here = async |wait| self.barrier_here(wait).await;
        let index = loop {
            let wait = deadline.since(runtime::now()).min(BARRIER_ATTEMPT);
            match self.lead(Kind::Barrier, &[], wait, here, |input| Ok(input.u64()?)).await {
                // Nothing happens by asking: a leader that has died is followed by another one, which is asked then.
                Err(Error::Unknown(text) | Error::NotDone(text)) => {
                    let pause = BARRIER_PAUSE.min(deadline.since(runtime::now()));
                    if pause.is_zero() {
                        return Err(Error::NotDone(text));
                    }
                    runtime::sleep(pause).await;
                }
                other => break other?,
            }
        };
        self.wait_applied(index, deadline.since(runtime::now())).await
    }

    /// Changes the members, wherever the leader is. A change that leads to what is already so succeeds, so it may be asked again.
    /// Errors: as of [`Group::propose`].
    pub async fn change(&self, change: Change, timeout: Duration) -> Result<(), Error> {
        let mut body = Vec::new();
        codec::put_change(&mut body, &change);
        let here = async |wait| self.change_here(change.clone(), wait).await;
        self.lead(Kind::Change, &body, timeout, here, |_| Ok(())).await
    }

    /// Does something where the leader is: `here`, or there by a message; tries again while no leader is known.
    async fn lead<T, F: Future<Output = Led<T>>>(
        &self,
        kind: Kind,
        body: &[u8],
        timeout: Duration,
        here: impl Fn(Duration) -> F,
        get: impl Fn(&mut In) -> Result<T, DecodeError>,
    ) -> Result<T, Error> {
        let deadline = runtime::now() + timeout;
        loop {
            let wait = deadline.since(runtime::now());
            let mut changes = self.changes();
            let status = self.status();
            if let Some(text) = status.ended {
                return Err(Error::Ended(text));
            }
            let led = match status.leader {
                Some(leader) if leader == self.id => here(wait).await,
                Some(leader) => self.lead_there(leader, kind, body, wait, &get).await,
                None => Led::NotLeader,
            };
            match led {
                Led::Done(value) => return Ok(value),
                Led::Unknown(text) => return Err(Error::Unknown(text)),
                Led::Refused(text) => return Err(Error::NotDone(text)),
                Led::NotLeader => pause(&mut changes, status.leader.is_some(), deadline).await?,
            }
        }
    }

    async fn lead_there<T>(
        &self,
        leader: HostId,
        kind: Kind,
        body: &[u8],
        wait: Duration,
        get: impl Fn(&mut In) -> Result<T, DecodeError>,
    ) -> Led<T> {
        // The other side gives up first, so that its answer can arrive.
        let theirs = wait * 9 / 10;
        let mut message = (theirs.as_millis() as u64).to_be_bytes().to_vec();
        message.extend(body);
        match self.network.ask(leader, kind, &message, wait).await {
            Ok(answer) => {
                let led = codec::led(&mut In::new(&answer), |input| get(input));
                led.unwrap_or_else(|error| Led::Unknown(format!("the leader's answer: {error}")))
            }
            Err(SendError::NotSent(_)) => Led::NotLeader,
            Err(SendError::NoAnswer(text)) => Led::Unknown(format!("the leader {leader}: {text}")),
        }
    }

    async fn propose_here(&self, command: Vec<u8>, wait: Duration) -> Led<(u64, Vec<u8>)> {
        match runtime::timeout(wait, self.raft.client_write(Command(command))).await {
            Ok(Ok(answer)) => Led::Done((answer.log_id.index, answer.data.0)),
            Ok(Err(error)) => not_written(error),
            Err(late) => Led::Unknown(late.to_string()),
        }
    }

    async fn barrier_here(&self, wait: Duration) -> Led<u64> {
        match runtime::timeout(wait, self.raft.get_read_log_id(ReadPolicy::ReadIndex)).await {
            Ok(Ok((read, _))) => Led::Done(read.log_id().index),
            Ok(Err(RaftError::APIError(LinearizableReadError::ForwardToLeader(_)))) => Led::NotLeader,
            // The majority may be back in time.
            Ok(Err(RaftError::APIError(LinearizableReadError::QuorumNotEnough(_)))) => Led::NotLeader,
            Ok(Err(RaftError::Fatal(fatal))) => Led::Refused(fatal.to_string()),
            Err(late) => Led::Refused(late.to_string()),
        }
    }

    async fn change_here(&self, change: Change, wait: Duration) -> Led<()> {
        match runtime::timeout(wait, self.change_now(change)).await {
            Ok(led) => led,
            Err(late) => Led::Unknown(late.to_string()),
        }
    }

    async fn change_now(&self, change: Change) -> Led<()> {
        let _one = self.changing.lock().await;
        // The next change must find the last one finished, by whichever leader it was begun, and what an earlier leader wrote
        // and nobody committed must be dead: else what is answered as being so already might not stay so.
        let led = self.barrier_here(SNAPSHOT_WAIT).await;
        let Led::Done(index) = led else { return led_as(led) };
        let applied = self.wait(SNAPSHOT_WAIT, || self.has_applied(index) || !self.is_leader()).await;
        if let Err(error) = applied.and(self.settle().await) {
            return Led::Refused(error.to_string());
        }
        if !self.is_leader() {
            return Led::NotLeader;
        }
        let status = self.status();
        if let Change::SetVoters(voters) = &change
            && let Some(text) = self.refuse_voters(&status, voters)
        {
            return Led::Refused(text);
        }
        if let Some(led) = self.step_aside(&status, &change).await {
            return led;
        }
        let changed = match change {
            Change::AddLearner(id) if status.voters.contains(&id) || status.learners.contains(&id) => {
                return Led::Done(());
            }
            Change::AddLearner(id) => self.raft.add_learner(id, EmptyNode {}, false).await,
            Change::SetVoters(voters) if voters == status.voters => return Led::Done(()),
            Change::SetVoters(voters) => self.raft.change_membership(voters, true).await,
            Change::Remove(id) if status.voters.contains(&id) => {
                return Led::Refused(format!("{id} votes and cannot be removed before another does instead"));
            }
            Change::Remove(id) if !status.learners.contains(&id) => return Led::Done(()),
            Change::Remove(id) => {
                self.raft.change_membership(ChangeMembers::RemoveNodes(BTreeSet::from([id])), true).await
            }
        };
        match changed {
            Ok(_) => Led::Done(()),
            Err(error) => not_written(error),
        }
    }

    /// A leader that does not vote cannot change members without breaking openraft's own rules, so one that is to stop voting lets
    /// another lead first. Says what to answer, unless this member goes on.
    async fn step_aside(&self, status: &Status, change: &Change) -> Option<Led<()>> {
        let next = match change {
            Change::SetVoters(voters) => voters,
            Change::AddLearner(_) | Change::Remove(_) => &status.voters,
        };
        if next.contains(&self.id) && status.voters.contains(&self.id) {
            return None;
        }
        Some(match self.hand_over(next).await {
            Ok(()) => Led::NotLeader,
            Err(text) => Led::Refused(text),
        })
    }

    /// Lets the voter of `among` that has most entries lead.
    async fn hand_over(&self, among: &BTreeSet<HostId>) -> Result<(), String> {
        let target = {
            let metrics = self.raft.metrics();
            let metrics = metrics.borrow_watched();
            let members = metrics.membership_config.membership();
            let voting = members.voter_ids().filter(|id| among.contains(id) && *id != self.id);
            let progress = |id: &HostId| metrics.replication.as_ref().and_then(|all| all.get(id).copied()?);
            voting.max_by_key(progress)
        };
        let Some(target) = target else {
            return Err("no voter that stays can lead: let one vote beside this one first".to_string());
        };
        self.raft.trigger().transfer_leader(target).await.map_err(text)?;
        let left = self.wait(ELECTION_MAX, || !self.is_leader()).await;
        left.map_err(|error| format!("{target} did not take over: {error}"))
    }

    /// Finishes a change that another leader began, and waits until the last one is committed.
    async fn settle(&self) -> Result<(), Error> {
        let joint = {
            let metrics = self.raft.metrics();
            let metrics = metrics.borrow_watched();
            let configs = metrics.membership_config.membership().get_joint_config();
            (configs.len() > 1).then(|| configs.last().cloned().unwrap_or_default())
        };
        if let Some(voters) = joint {
            if !voters.contains(&self.id) {
                return self.hand_over(&voters).await.map_err(Error::NotDone);
            }
            self.raft.change_membership(voters, true).await.map_err(|e| Error::NotDone(e.to_string()))?;
        }
        self.wait(SNAPSHOT_WAIT, || self.status().settled || !self.is_leader()).await
    }

    fn refuse_voters(&self, status: &Status, voters: &BTreeSet<HostId>) -> Option<String> {
        if voters.len().is_multiple_of(2) || voters.len() > VOTERS_MAX {
            return Some(format!("{} voters: they must be an odd number up to {VOTERS_MAX}", voters.len()));
        }
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow_watched();
        let last = metrics.last_log_index.unwrap_or_default();
        for id in voters.difference(&status.voters) {
            let progress = metrics.replication.as_ref().and_then(|all| all.get(id));
            let Some(matched) = progress else { return Some(format!("{id} is no member")) };
            let has = matched.as_ref().map_or(0, |id| id.index + 1);
            if has + PROMOTE_LAG_MAX <= last || matched.is_none() {
                return Some(format!("{id} has not caught up: it has {has} entries of {}", last + 1));
            }
        }
        None
    }

    /// Answers a message of another member: what its [`Transport::send`] returns there.
    pub async fn handle(&self, kind: u8, message: &[u8]) -> Vec<u8> {
        let answer = match (Kind::of(kind), opened(message, &self.log).await) {
            (None, _) => Err(format!("unknown kind of message {kind}")),
            (_, Err(text)) => Err(text),
            (Some(kind), Ok(mut input)) => self.answer(kind, &mut input).await,
        };
        answered(answer)
    }

    async fn answer(&self, kind: Kind, input: &mut In<'_>) -> Result<Vec<u8>, String> {
        let bad = |error: DecodeError| error.to_string();
        let mut out = Vec::new();
        match kind {
            Kind::Append => {
                let request = codec::append(input).map_err(bad)?;
                let answer = self.take_append(request).await?;
                codec::put_append_answer(&mut out, &answer);
            }
            Kind::Vote => {
                let request = codec::ballot(input).map_err(bad)?;
                let answer = self.raft.vote(request).await.map_err(text)?;
                codec::put_ballot_answer(&mut out, &answer);
            }
            Kind::PreVote => {
                let request = codec::ballot(input).map_err(bad)?;
                let answer = self.raft.pre_vote(request).await.map_err(text)?;
                codec::put_ballot_answer(&mut out, &answer);
            }
            Kind::Snapshot => {
                let part = codec::part(input).map_err(bad)?;
                codec::put_part_answer(&mut out, &self.take_part(part).await?);
            }
            Kind::Transfer => {
                let request = codec::transfer(input).map_err(bad)?;
                let answer = self.raft.handle_transfer_leader(request).await.map_err(text)?;
                codec::put_transfer_answer(&mut out, &answer);
            }
            Kind::Propose | Kind::Barrier | Kind::Change => {
                let wait = Duration::from_millis(input.u64().map_err(text)?);
                self.answer_leading(kind, wait, input, &mut out).await?;
            }
            Kind::Pull => self.answer_pull(input, &mut out)?,
        }
        Ok(out)
    }

    async fn answer_leading(
        &self,
        kind: Kind,
        wait: Duration,
        input: &mut In<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        let leads = self.is_leader();
        match kind {
            Kind::Propose => {
                let led = match leads {
                    true => self.propose_here(input.rest().to_vec(), wait).await,
                    false => Led::NotLeader,
                };
                codec::put_led(out, &led, |out, (index, answer)| {
                    codec::put_u64(out, *index);
                    codec::put_bytes(out, answer);
                });
            }
            Kind::Change => {
                let change = codec::change(input).map_err(text)?;
                let led = if leads { self.change_here(change, wait).await } else { Led::NotLeader };
                codec::put_led(out, &led, |_, ()| {});
            }
            _ => {
                let led = if leads { self.barrier_here(wait).await } else { Led::NotLeader };
                codec::put_led(out, &led, |out, index| codec::put_u64(out, *index));
            }
        }
        Ok(())
    }

    async fn take_part(&self, part: codec::Part) -> Result<PartAnswer, String> {
        let mut incoming = self.incoming.lock().await;
        let own = self.log.vote().unwrap_or_else(|| Vote::new(0, self.id));
        if part.vote < own {
            return Ok(PartAnswer { vote: own, next: None });
        }
        match incoming.take(part)? {
            Arrived::Next(next) => Ok(PartAnswer { vote: own, next: Some(next) }),
            Arrived::Whole(vote, meta, bytes) => {
                let snapshot = Snapshot { meta: *meta, snapshot: Rc::new(bytes) };
                let vote = self.install(vote, snapshot).await?;
                Ok(PartAnswer { vote, next: None })
            }
        }
    }

    /// Takes what a leader, or a member in its stead, has sent. Errors: this member has ended, and why.
    pub(crate) async fn take_append(
        &self,
        request: AppendEntriesRequest<Types>,
    ) -> Result<AppendEntriesResponse<Types>, String> {
        let _shared = self.taking.acquire(1).await;
        self.raft.append_entries(request).await.map_err(text)
    }

    /// Takes a snapshot that was given under a vote, and returns this member's vote.
    ///
    /// When the log has the snapshot's last entry already, that is committed, and that is all that there is to learn. openraft would go back to it
    /// and forget that it has written what follows, which then is applied no sooner than an entry is written behind it: in a quiet cluster, never.
    /// Found by the simulator. Nothing may be appended between the look at the log and the snapshot's arrival.
    /// Errors: this member has ended, and why.
    pub(crate) async fn install(&self, vote: Vote, snapshot: Snapshot) -> Result<Vote, String> {
        let _alone = self.taking.acquire(TAKING_MAX).await;
        let last = snapshot.meta.last_log_id;
        let look = move |state: &RaftState<Types>| last.is_some_and(|id| state.log_ids.get(id.index) == last);
        let is_known = self.raft.with_raft_state(look).await.map_err(text)?;
        if !is_known {
            let answer = self.raft.install_full_snapshot(vote, snapshot).await;
            return answer.map(|answer| answer.vote).map_err(text);
        }
        let request =
            AppendEntriesRequest { vote, prev_log_id: last, entries: Vec::new(), leader_commit: last };
        match self.raft.append_entries(request).await.map_err(text)? {
            AppendEntriesResponse::HigherVote(higher) => Ok(higher),
            _ => Ok(vote),
        }
    }

    /// Ends this member: its tasks stop and its log is let go.
    pub async fn stop(&self) {
        if let Err(error) = self.raft.shutdown().await {
            match error {}
        }
    }
}

pub(crate) fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// Waits for news, a short while at most; an error once the time is up.
async fn pause(changes: &mut Changes, asked: bool, deadline: Instant) -> Result<(), Error> {
    let wait = deadline.since(runtime::now()).min(RETRY);
    if asked {
        // A leader without a majority makes news by every attempt: heeding it would be a storm.
        runtime::sleep(wait).await;
    } else {
        // Whichever comes first: what it says is looked at again either way.
        let _news = runtime::timeout(wait, changes.changed()).await;
    }
    if deadline.since(runtime::now()) <= ATTEMPT_MIN {
        return Err(Error::NotDone("no leader was found in time".to_string()));
    }
    Ok(())
}

/// What is not done, for another kind of result.
fn led_as<T, U>(led: Led<T>) -> Led<U> {
    match led {
        Led::Done(_) | Led::NotLeader => Led::NotLeader,
        Led::Refused(text) => Led::Refused(text),
        Led::Unknown(text) => Led::Unknown(text),
    }
}

fn proposed(input: &mut In) -> Result<(u64, Vec<u8>), DecodeError> {
    Ok((input.u64()?, codec::bytes(input)?))
}

fn not_written<T>(error: RaftError<Types, ClientWriteError<Types>>) -> Led<T> {
    match error {
        RaftError::APIError(ClientWriteError::ForwardToLeader(_)) => Led::NotLeader,
        RaftError::APIError(error @ ClientWriteError::LogEntryDiscarded(_)) => {
            Led::Unknown(error.to_string())
        }
        RaftError::APIError(error) => Led::Refused(error.to_string()),
        RaftError::Fatal(fatal) => Led::Unknown(fatal.to_string()),
    }
}

async fn make_folder(settings: &Settings) -> Result<(), Error> {
    let folder = &settings.folder;
    let io = |action| move |source| Error::Log(journal::Error::io(folder, action, source));
    if runtime::file::exists(folder).await.map_err(io("look for"))? {
        return Ok(());
    }
    runtime::file::create_dir_all(folder).await.map_err(io("create"))?;
    if let Some(parent) = folder.parent() {
        runtime::file::sync_dir(parent).await.map_err(io("sync"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seam::{BoxFuture, SendError};
    use crate::types::{Entry, LogId, SnapshotMeta, StoredMembers};
    use openraft::impls::leader_id_adv::LeaderId;
    use openraft::{EntryPayload, Membership};
    use runtime::sim::{SimConfig, World};
    use std::collections::BTreeMap;
    use std::io;
    use std::path::PathBuf;

    struct Nothing;

    impl StateMachine for Nothing {
        fn position(&self) -> Option<Position> {
            None
        }

        fn apply<'a>(&'a self, _: Position, _: &'a [u8]) -> BoxFuture<'a, io::Result<Vec<u8>>> {
            Box::pin(async { Ok(Vec::new()) })
        }

        fn snapshot(&self) -> Vec<u8> {
            Vec::new()
        }

        fn restore<'a>(&'a self, _: Position, _: &'a [u8]) -> BoxFuture<'a, io::Result<()>> {
            Box::pin(async { Ok(()) })
        }
    }

    impl Transport for Nothing {
        fn send(
            &self,
            _: HostId,
            _: u8,
            _: Vec<u8>,
            _: Duration,
        ) -> BoxFuture<'_, Result<Vec<u8>, SendError>> {
            Box::pin(async { Err(SendError::NotSent("alone".to_string())) })
        }
    }

    async fn follow() {
        let settings = Settings {
            id: HostId(1),
            folder: PathBuf::from("/member"),
            snapshot_every: 1000,
            keep_entries: 1000,
            log_bytes: 1 << 20,
            rewrite_bytes: 1 << 20,
        };
        let group = Group::open(settings, Rc::new(Nothing), Rc::new(Nothing)).await.expect("it opens");
        let leader = HostId(2);
        let vote = Vote::new_committed(3, leader);
        let id = |index| LogId { leader_id: LeaderId { term: 3, node_id: leader }, index };
        let hosts = [HostId(1), leader];
        let nodes: BTreeMap<HostId, EmptyNode> = hosts.map(|host| (host, EmptyNode {})).into();
        let members = Membership::new(vec![BTreeSet::from(hosts)], nodes).expect("two voters");
        let entry = |index| match index {
            0 => Entry { log_id: id(0), payload: EntryPayload::Membership(members.clone()) },
            _ => Entry { log_id: id(index), payload: EntryPayload::Normal(Command(vec![1])) },
        };
        let sent = |first, until, committed| AppendEntriesRequest {
            vote,
            prev_log_id: u64::checked_sub(first, 1).map(id),
            entries: (first..until).map(entry).collect(),
            leader_commit: Some(id(committed)),
        };
        group.take_append(sent(0, 21, 5)).await.expect("entries are taken");
        let meta = SnapshotMeta {
            last_log_id: Some(id(19)),
            last_membership: StoredMembers::new(Some(id(0)), members.clone()),
            ..SnapshotMeta::default()
        };
        let own = group.install(vote, Snapshot { meta, snapshot: Rc::default() }).await.expect("it is taken");
        assert_eq!(own, vote);
        group.wait_applied(19, Duration::from_secs(1)).await.expect("what the snapshot says is committed");
        // A heartbeat: nothing follows the last entry.
        group.take_append(sent(21, 21, 20)).await.expect("a heartbeat is taken");
        group
            .wait_applied(20, Duration::from_secs(1))
            .await
            .expect("the entry behind the snapshot is applied");
        group.stop().await;
    }

    #[test]
    fn a_snapshot_of_what_the_log_has_does_not_hold_up_what_follows() {
        let mut world = World::new(1, SimConfig::calm());
        let node = world.add_client([10, 0, 0, 1].into());
        let task = world.spawn(node, follow());
        assert!(world.run_until(|_| task.done(), Duration::from_secs(60)), "it ends");
    }
}
