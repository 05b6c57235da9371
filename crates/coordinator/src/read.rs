//! Reads: who is asked, what is compared, what is repaired.

use crate::coordinator::{Coordinator, micros};
use crate::error::Error;
use crate::limits::{READ_REPAIR_PATIENCE, SHORT_READ_ROUNDS_MAX, SPECULATE_AFTER, SPECULATE_RANGE_AFTER};
use crate::merge::{Merged, agreed, append, for_replicas, merge_answers};
use crate::replicas::Silence;
use crate::scan::{Piece, pieces};
use base::Instant;
use mutation::{Mutation, ReadAnswer, ReadCommand, Scope};
use replica::{Reason, Request, Response};
use runtime::Group;
use runtime::sync::Queue;
use schema::{Keyspace, Replication, Table};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use storage::Durability;
use topology::{NodeIndex, Requirement, Snapshot, required};
use types::Consistency;

/// What stays the same through one read.
struct Read<'r> {
    coordinator: &'r Rc<Coordinator>,
    snapshot: Rc<Snapshot>,
    keyspace: Arc<Keyspace>,
    table: Arc<Table>,
    consistency: Consistency,
    deadline: Instant,
}

/// Answers of replicas, as they come.
type Arrivals = Queue<(NodeIndex, Result<ReadAnswer, Silence>)>;

/// The replicas of one piece of a read.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Asked {
    /// Who is asked first.
    targets: Vec<NodeIndex>,
    /// Who could be asked instead, nearest first.
    spares: Vec<NodeIndex>,
    /// The targets the level began with: as many answers are needed.
    shape: Vec<NodeIndex>,
    /// Whether as many are needed from each datacenter.
    each_dc: bool,
}

impl Asked {
    fn new(targets: Vec<NodeIndex>, spares: Vec<NodeIndex>, each_dc: bool) -> Asked {
        Asked { shape: targets.clone(), targets, spares, each_dc }
    }

    fn is_one(&self) -> bool {
        self.shape.len() == 1
    }

    /// Whether answers of these replicas meet the level.
    fn is_met(&self, snapshot: &Snapshot, have: &[NodeIndex]) -> bool {
        let count = |nodes: &[NodeIndex], like: NodeIndex| {
            nodes.iter().filter(|node| snapshot.node(**node).dc == snapshot.node(like).dc).count()
        };
        match self.each_dc {
            false => have.len() >= self.shape.len(),
            true => self.shape.iter().all(|node| count(have, *node) >= count(&self.shape, *node)),
        }
    }

    /// A replica that can stand in for another.
    fn take_spare(&mut self, snapshot: &Snapshot, missing: NodeIndex) -> Option<NodeIndex> {
        let fits = |spare: &NodeIndex| !self.each_dc || snapshot.node(*spare).dc == snapshot.node(missing).dc;
        let at = self.spares.iter().position(fits)?;
        Some(self.spares.remove(at))
    }

    /// Who takes the place of one of the `holders` of an answer; nobody where the others meet the level without it.
    /// Errors: they do not, and no spare can help.
    fn replace(
        &mut self,
        snapshot: &Snapshot,
        holders: &mut Vec<NodeIndex>,
        lost: NodeIndex,
    ) -> Result<Option<NodeIndex>, Lost> {
        holders.retain(|node| *node != lost);
        if self.is_met(snapshot, holders) {
            return Ok(None);
        }
        let spare = self.take_spare(snapshot, lost).ok_or(Lost)?;
        holders.push(spare);
        Ok(Some(spare))
    }
}

/// Too few replicas are left for a level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Lost;

/// Replicas that gave no answer.
#[derive(Debug, Default)]
struct Tally {
    failures: Vec<(IpAddr, Reason)>,
    /// What the first of them said.
    reason: Option<replica::Error>,
}

impl Tally {
    fn note(&mut self, from: IpAddr, silence: Silence) {
        if let Silence::Failed(error) = silence {
            self.failures.push((from, error.reason()));
            self.reason.get_or_insert(error);
        }
    }
}

impl Coordinator {
    /// Reads at a consistency level.
    /// Shape:  the answer as a replica would give it; `stopped` is where the next page begins.
    /// Errors: see [`Error`]. Each piece of the scope with its own replicas must satisfy the level.
    pub async fn read(
        self: &Rc<Self>,
        command: &ReadCommand,
        consistency: Consistency,
        patience: Duration,
    ) -> Result<ReadAnswer, Error> {
        self.metrics.reads.inc();
        let start = runtime::now();
        let answer = self.read_by(command, consistency, start + patience).await;
        self.metrics.latency_of(&command.scope).record(micros(runtime::now().since(start)));
        answer
    }

    async fn read_by(
        self: &Rc<Self>,
        command: &ReadCommand,
        consistency: Consistency,
        deadline: Instant,
    ) -> Result<ReadAnswer, Error> {
        let schema = self.schema();
        let table = schema.table_by_id(command.table).ok_or(Error::UnknownTable)?.clone();
        let keyspace = schema.keyspace(&table.keyspace).ok_or(Error::UnknownTable)?.clone();
        let snapshot = self.topology();
        Read { coordinator: self, snapshot, keyspace, table, consistency, deadline }.run(command).await
    }
}

impl Read<'_> {
    async fn run(&self, command: &ReadCommand) -> Result<ReadAnswer, Error> {
        if self.snapshot.is_single() {
            let here = self.snapshot.local_index();
            self.requirement(&[here])?;
            return self.ask_here(command).await;
        }
        // Boxed, so that a read of one node's own data does not carry the room of merging several answers.
        Box::pin(self.run_pieces(command.clone())).await
    }

    async fn run_pieces(&self, command: ReadCommand) -> Result<ReadAnswer, Error> {
        let pieces = pieces(&self.snapshot, &self.keyspace.replication, &command);
        let mut asked = pieces.iter().map(|p| self.asked(p)).collect::<Result<Vec<_>, _>>()?;
        if let ([_], [asked]) = (&*pieces, &mut *asked)
            && asked.is_one()
        {
            return self.ask_one(asked, command).await;
        }
        let mut whole = ReadAnswer::default();
        let mut command = command;
        let mut bytes = 0usize;
        let (row_limit, byte_limit) = (command.row_limit, command.byte_limit as usize);
        let count = pieces.len();
        for (index, (piece, mut asked)) in pieces.into_iter().zip(asked).enumerate() {
            let mut part = ReadCommand { scope: piece.scope, ..command.clone() };
            part.tombstones = whole.tombstones.max(command.tombstones);
            part.row_limit = row_limit - whole.live_rows;
            part.byte_limit = byte_limit.saturating_sub(bytes).max(1) as u32;
            let answer = self.read_piece(&mut asked, part).await?;
            // Only the first piece can lie across the resume point.
            command.resume = None;
            whole.live_rows += answer.live_rows;
            whole.tombstones = answer.tombstones;
            bytes += answer.partitions.iter().map(|p| p.as_bytes().len()).sum::<usize>();
            whole.partitions.extend(answer.partitions);
            whole.stopped = answer.stopped;
            let tired = command.is_tired_by(whole.tombstones);
            let full = whole.live_rows >= row_limit || bytes >= byte_limit || tired;
            if whole.stopped.is_none() && full && index + 1 < count {
                whole.stopped = whole.partitions.last().map(behind);
            }
            if whole.stopped.is_some() {
                break;
            }
        }
        Ok(whole)
    }

    fn requirement(&self, replicas: &[NodeIndex]) -> Result<Requirement, Error> {
        required(&self.snapshot, &self.keyspace.replication, self.consistency, replicas).map_err(|s| {
            self.coordinator.metrics.unavailables.inc();
            Error::Unavailable { consistency: self.consistency, required: s.required, alive: s.alive }
        })
    }

    /// The replicas of a piece: as many as the level needs, and the others that could stand in for them.
    fn asked(&self, piece: &Piece) -> Result<Asked, Error> {
        let requirement = self.requirement(&piece.replicas)?;
        let mut nodes = self.coordinator.nearest_first(&self.snapshot, &piece.replicas);
        if requirement.local_dc {
            nodes.retain(|n| self.snapshot.node(*n).dc == self.snapshot.local().dc);
        }
        if self.consistency == Consistency::EachQuorum
            && let Replication::NetworkTopology { factors } = &self.keyspace.replication
        {
            let targets = quorum_of_each(&self.snapshot, factors, nodes.clone());
            nodes.retain(|node| !targets.contains(node));
            return Ok(Asked::new(targets, nodes, true));
        }
        let spares = nodes.split_off(requirement.count.min(nodes.len()));
        Ok(Asked::new(nodes, spares, false))
    }

    fn patience(&self) -> Duration {
        let now = runtime::now();
        if now < self.deadline { self.deadline - now } else { Duration::ZERO }
    }

    /// The same message to this node's own replica, lent instead of given away.
    async fn ask_here(&self, command: &ReadCommand) -> Result<ReadAnswer, Error> {
        match runtime::timeout(self.patience(), self.coordinator.local().read(command)).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(replica::Error::UnknownTable(_))) => Err(Error::UnknownTable),
            Ok(Err(error)) => {
                let here = (self.snapshot.local().broadcast, error.reason());
                Err(self.failure((0, 1), false, vec![here], error.to_string()))
            }
            Err(_) => Err(self.timeout(0, 1, false)),
        }
    }

    /// The nearest replica's answer, or that of another once the nearest has failed or is slow; a slow one may still be
    /// the first to answer. No task of its own for a replica that is neither.
    async fn ask_one(&self, asked: &mut Asked, command: ReadCommand) -> Result<ReadAnswer, Error> {
        let first = asked.targets[0];
        let request = Request::Read(command.clone());
        let mut answer = Box::pin(self.coordinator.clone().ask(first, request, self.patience()));
        let patience = if asked.spares.is_empty() { self.patience() } else { self.speculation(&command) };
        let mut tally = Tally::default();
        let mut open = Vec::new();
        let arrived = Queue::new(asked.spares.len() + 2);
        match runtime::timeout(patience, &mut answer).await.map(|answer| answer.and_then(answer_of)) {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(silence)) => {
                if silence == Silence::Unheard && !asked.spares.is_empty() {
                    asked.spares.push(first);
                }
                tally.note(self.snapshot.node(first).broadcast, silence);
            }
            Err(_) if asked.spares.is_empty() => {}
            Err(_) => {
                open.push(first);
                listen(first, answer, &arrived);
            }
        }
        if asked.spares.is_empty() {
            return Err(self.lost(tally, 0, 1, false));
        }
        self.coordinator.metrics.read_stand_ins.inc();
        asked.targets = vec![asked.spares.remove(0)];
        let answers = self.gather_more(asked, (open, arrived), tally, &command, false).await?;
        Ok(answers.into_iter().next().expect("one was needed").1)
    }

    /// How long a replica may take before another is asked, too.
    fn speculation(&self, command: &ReadCommand) -> Duration {
        let after = match command.scope {
            Scope::Keys(_) => SPECULATE_AFTER,
            Scope::Range(_) => SPECULATE_RANGE_AFTER,
        };
        after.min(self.patience() / 2)
    }

    fn timeout(&self, received: usize, required: usize, data_present: bool) -> Error {
        Error::Timeout { consistency: self.consistency, received, required, data_present, write: None }
    }

    /// This node, when what replicas sent cannot be put together.
    fn here(&self) -> Vec<(IpAddr, Reason)> {
        vec![(self.snapshot.local().broadcast, Reason::Unknown)]
    }

    fn failure(
        &self,
        (received, required): (usize, usize),
        data_present: bool,
        failures: Vec<(IpAddr, Reason)>,
        reason: String,
    ) -> Error {
        let (consistency, write) = (self.consistency, None);
        Error::Failure { consistency, received, required, failures, data_present, write, reason }
    }

    /// Why a level cannot be met any more.
    fn lost(&self, tally: Tally, received: usize, required: usize, data_present: bool) -> Error {
        // One datacenter may have answered more often than it must while another falls short.
        let received = received.min(if data_present { required - 1 } else { required });
        match tally.reason {
            None => self.timeout(received, required, data_present),
            Some(replica::Error::UnknownTable(_)) if received == 0 => Error::UnknownTable,
            Some(reason) => {
                self.failure((received, required), data_present, tally.failures, reason.to_string())
            }
        }
    }

    /// Reads one piece, round after round until its limits are met or it ends.
    async fn read_piece(&self, asked: &mut Asked, command: ReadCommand) -> Result<ReadAnswer, Error> {
        if asked.is_one() {
            return self.ask_one(asked, command).await;
        }
        let mut whole = ReadAnswer::default();
        let mut command = command;
        for _ in 0..SHORT_READ_ROUNDS_MAX {
            let answer = self.round(asked, &command).await?;
            whole.live_rows += answer.live_rows;
            whole.tombstones = answer.tombstones;
            command.tombstones = answer.tombstones;
            let bytes: usize = answer.partitions.iter().map(|p| p.as_bytes().len()).sum();
            append(&mut whole.partitions, answer.partitions);
            whole.stopped = answer.stopped;
            let tired = command.is_tired_by(answer.tombstones);
            let full = answer.live_rows >= command.row_limit || bytes >= command.byte_limit as usize || tired;
            if whole.stopped.is_none() || full {
                return Ok(whole);
            }
            self.coordinator.metrics.short_reads.inc();
            command.row_limit -= answer.live_rows;
            command.byte_limit -= bytes as u32;
            command.resume = whole.stopped.clone();
        }
        // The page ends early; the next one goes on from where this one stopped.
        Ok(whole)
    }

    /// One data answer and digests of it; when they differ, everybody's data.
    async fn round(&self, asked: &mut Asked, command: &ReadCommand) -> Result<ReadAnswer, Error> {
        let whole = for_replicas(command);
        let answers = self.gather(asked, Tally::default(), &whole, true).await?;
        let digests: Vec<[u8; 16]> =
            answers.iter().map(|(_, answer)| digest_of(&self.table, &whole, answer)).collect();
        if digests.windows(2).all(|pair| pair[0] == pair[1]) {
            let answer = agreed(command, answers.into_iter().map(|(_, answer)| answer).collect());
            if command.partition_row_limit == u32::MAX {
                return Ok(answer);
            }
            return Ok(self.merge(command, &[answer])?.answer);
        }
        self.coordinator.metrics.digest_mismatches.inc();
        let answers = self.gather(asked, Tally::default(), &whole, false).await?;
        let (nodes, answers): (Vec<NodeIndex>, Vec<ReadAnswer>) = answers.into_iter().unzip();
        let Merged { answer, repairs } = self.merge(command, &answers)?;
        self.repair(asked, &nodes, repairs, &answer.partitions).await?;
        Ok(answer)
    }

    fn merge(&self, command: &ReadCommand, answers: &[ReadAnswer]) -> Result<Merged, Error> {
        let count = answers.len();
        merge_answers(&self.table, command, answers)
            .map_err(|e| self.failure((count, count), true, self.here(), e.to_string()))
    }

    /// Asks the targets at once and gives the answers that the level needs, one with data first; with `digests` only that
    /// one. A spare replica stands in for one that fails, and once is asked besides each of those that are slow, which
    /// may still answer. Where one answer is enough, one spare is asked however many are slow.
    /// Leaves who answered as the targets of the next round.
    /// Errors: the level cannot be met any more, or not in time.
    async fn gather(
        &self,
        asked: &mut Asked,
        tally: Tally,
        command: &ReadCommand,
        digests: bool,
    ) -> Result<Vec<(NodeIndex, ReadAnswer)>, Error> {
        let arrived = Queue::new(asked.targets.len() + asked.spares.len());
        self.gather_more(asked, (Vec::new(), arrived), tally, command, digests).await
    }

    /// As [`Read::gather`], with replicas that were asked for data before. There must be room for every answer.
    async fn gather_more(
        &self,
        asked: &mut Asked,
        (mut open, arrived): (Vec<NodeIndex>, Arrivals),
        mut tally: Tally,
        command: &ReadCommand,
        digests: bool,
    ) -> Result<Vec<(NodeIndex, ReadAnswer)>, Error> {
        for node in std::mem::take(&mut asked.targets) {
            let digest_only = digests && !open.is_empty();
            self.send(node, ReadCommand { digest_only, ..command.clone() }, &arrived);
            open.push(node);
        }
        let mut answers: Vec<(NodeIndex, ReadAnswer)> = Vec::with_capacity(open.len());
        let mut speculate_at = runtime::now() + self.speculation(command);
        loop {
            let data_present = answers.iter().any(|(_, answer)| answer.digest.is_none());
            let have: Vec<NodeIndex> = answers.iter().map(|(node, _)| *node).collect();
            if data_present && asked.is_met(&self.snapshot, &have) {
                answers.sort_by_key(|(_, answer)| answer.digest.is_some());
                asked.targets = answers.iter().map(|(node, _)| *node).collect();
                asked.spares.extend(open);
                return Ok(answers);
            }
            let reachable = [&have[..], &open, &asked.spares].concat();
            if open.is_empty() || !asked.is_met(&self.snapshot, &reachable) {
                return Err(self.lost(tally, have.len(), asked.shape.len(), data_present));
            }
            // Those that a spare is to be asked for.
            let missing = match runtime::timeout_at(speculate_at, arrived.pop()).await {
                Err(_) => {
                    speculate_at = self.deadline + SPECULATE_RANGE_AFTER;
                    let count = if asked.is_one() { 1 } else { open.len() };
                    open[..count].to_vec()
                }
                Ok(arrival) => {
                    let (node, answer) = arrival.expect("the queue is not closed");
                    open.retain(|other| *other != node);
                    match answer {
                        Ok(answer) => {
                            answers.push((node, answer));
                            continue;
                        }
                        Err(silence) => tally.note(self.snapshot.node(node).broadcast, silence),
                    }
                    vec![node]
                }
            };
            if self.patience().is_zero() {
                asked.spares.clear();
            }
            for node in missing {
                if let Some(spare) = asked.take_spare(&self.snapshot, node) {
                    self.coordinator.metrics.read_stand_ins.inc();
                    // Without data so far, whoever was asked for it may be the one that is missing.
                    let digest_only = digests && data_present;
                    self.send(spare, ReadCommand { digest_only, ..command.clone() }, &arrived);
                    open.push(spare);
                }
            }
        }
    }

    fn send(&self, node: NodeIndex, command: ReadCommand, arrived: &Arrivals) {
        listen(node, self.coordinator.clone().ask(node, Request::Read(command), self.patience()), arrived);
    }

    /// Brings replicas that lacked something up to date before the read is answered, so that a later read at the same
    /// level cannot see less. For one that cannot be written and that the level needs, a spare one gets the whole answer.
    async fn repair(
        &self,
        asked: &mut Asked,
        nodes: &[NodeIndex],
        repairs: Vec<Vec<Mutation>>,
        whole: &[Mutation],
    ) -> Result<(), Error> {
        let arrived = Queue::new(nodes.len() + asked.spares.len());
        let mut holders = nodes.to_vec();
        let mut waiting = 0;
        for (node, mutations) in nodes.iter().zip(repairs).filter(|(_, r)| !r.is_empty()) {
            self.send_repair(*node, mutations, &arrived);
            waiting += 1;
        }
        while waiting > 0 {
            let (node, done) = arrived.pop().await.expect("the queue is not closed");
            waiting -= 1;
            if done {
                continue;
            }
            match asked.replace(&self.snapshot, &mut holders, node) {
                Ok(None) => {}
                Ok(Some(spare)) => {
                    self.send_repair(spare, whole.to_vec(), &arrived);
                    waiting += 1;
                }
                Err(Lost) => {
                    let (received, required) = (holders.len() - waiting, asked.shape.len());
                    return Err(self.timeout(received.min(required - 1), required, true));
                }
            }
        }
        Ok(())
    }

    fn send_repair(&self, node: NodeIndex, mutations: Vec<Mutation>, arrived: &Queue<(NodeIndex, bool)>) {
        self.coordinator.metrics.read_repairs.inc();
        let (coordinator, arrived) = (self.coordinator.clone(), arrived.clone());
        let patience = self.patience().min(READ_REPAIR_PATIENCE);
        drop(runtime::spawn(Group::QUERY, async move {
            let request = Request::Write { mutations, durability: Durability::Mode };
            let done = coordinator.ask(node, request, patience).await.is_ok();
            let _unwanted = arrived.try_push((node, done));
        }));
    }
}

/// Has a replica's answer put among the others when it comes.
fn listen(
    node: NodeIndex,
    answer: impl Future<Output = Result<Response, Silence>> + 'static,
    arrived: &Arrivals,
) {
    let arrived = arrived.clone();
    drop(runtime::spawn(Group::QUERY, async move {
        // The queue has room for every answer; it is closed only when nobody listens.
        let _unwanted = arrived.try_push((node, answer.await.and_then(answer_of)));
    }));
}

fn answer_of(response: Response) -> Result<ReadAnswer, Silence> {
    match response {
        Response::Answer(answer) => Ok(answer),
        Response::Done | Response::Failed(_) => {
            Err(Silence::Failed(replica::Error::Malformed("answered with something else".to_string())))
        }
    }
}

/// The digest of an answer, whichever form it came in.
fn digest_of(table: &Table, command: &ReadCommand, answer: &ReadAnswer) -> [u8; 16] {
    let fault = runtime::planted(runtime::Bug::DigestStopsAtNull);
    let fault = fault.then_some(mutation::DigestFault::StopsAtNull);
    answer.digest.unwrap_or_else(|| mutation::digest(table, command, answer, fault))
}

fn behind(mutation: &Mutation) -> mutation::Resume {
    let view = mutation.view();
    let key = mutation::Key::with_token(view.token, view.key);
    mutation::Resume { key, after: None, rows_taken: 0 }
}

/// Of replicas that are alive, nearest first, the quorum of each datacenter; those of the first come first.
fn quorum_of_each(
    snapshot: &Snapshot,
    factors: &BTreeMap<String, u32>,
    mut nodes: Vec<NodeIndex>,
) -> Vec<NodeIndex> {
    let mut wanted: BTreeMap<&str, u32> = factors.iter().map(|(dc, f)| (&**dc, f / 2 + 1)).collect();
    nodes.retain(|node| match wanted.get_mut(&*snapshot.node(*node).dc) {
        Some(left) if *left > 0 => {
            *left -= 1;
            true
        }
        _ => false,
    });
    nodes
}

#[cfg(test)]
mod tests;
