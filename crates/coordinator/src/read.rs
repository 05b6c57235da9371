//! Reads: who is asked, what is compared, what is repaired.

use crate::coordinator::Coordinator;
use crate::error::Error;
use crate::limits::{READ_REPAIR_PATIENCE, SHORT_READ_ROUNDS_MAX};
use crate::merge::{Merged, agreed, append, for_replicas, merge_answers};
use crate::replicas::Silence;
use crate::scan::{Piece, pieces};
use base::Instant;
use mutation::{Mutation, ReadAnswer, ReadCommand};
use replica::{Request, Response};
use runtime::Group;
use runtime::sync::Queue;
use schema::{Keyspace, Replication, Table};
use std::collections::BTreeMap;
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
        let schema = self.schema();
        let table = schema.table_by_id(command.table).ok_or(Error::UnknownTable)?.clone();
        let keyspace = schema.keyspace(&table.keyspace).ok_or(Error::UnknownTable)?.clone();
        let snapshot = self.topology();
        let deadline = runtime::now() + patience;
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
        let targets = pieces.iter().map(|p| self.targets(p)).collect::<Result<Vec<_>, _>>()?;
        if let ([_], [targets]) = (&*pieces, &*targets)
            && let [only] = **targets
        {
            return self.ask_one(only, command).await;
        }
        let mut whole = ReadAnswer { partitions: Vec::new(), live_rows: 0, stopped: None, digest: None };
        let mut command = command;
        let mut bytes = 0usize;
        let (row_limit, byte_limit) = (command.row_limit, command.byte_limit as usize);
        let count = pieces.len();
        for (index, (piece, targets)) in pieces.into_iter().zip(targets).enumerate() {
            let mut part = ReadCommand { scope: piece.scope, ..command.clone() };
            part.row_limit = row_limit - whole.live_rows;
            part.byte_limit = byte_limit.saturating_sub(bytes).max(1) as u32;
            let answer = self.read_piece(&targets, part).await?;
            // Only the first piece can lie across the resume point.
            command.resume = None;
            whole.live_rows += answer.live_rows;
            bytes += answer.partitions.iter().map(|p| p.as_bytes().len()).sum::<usize>();
            whole.partitions.extend(answer.partitions);
            whole.stopped = answer.stopped;
            let full = whole.live_rows >= row_limit || bytes >= byte_limit;
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

    /// The replicas of a piece to ask, as many as the level needs.
    fn targets(&self, piece: &Piece) -> Result<Vec<NodeIndex>, Error> {
        let requirement = self.requirement(&piece.replicas)?;
        let mut nodes = self.coordinator.nearest_first(&self.snapshot, &piece.replicas);
        if requirement.local_dc {
            nodes.retain(|n| self.snapshot.node(*n).dc == self.snapshot.local().dc);
        }
        if self.consistency == Consistency::EachQuorum
            && let Replication::NetworkTopology { factors } = &self.keyspace.replication
        {
            return Ok(quorum_of_each(&self.snapshot, factors, nodes));
        }
        nodes.truncate(requirement.count);
        Ok(nodes)
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
            Ok(Err(error)) => Err(self.failure(0, 1, 1, &error.to_string())),
            Err(_) => Err(self.timeout(0, 1, false)),
        }
    }

    async fn ask_one(&self, node: NodeIndex, command: ReadCommand) -> Result<ReadAnswer, Error> {
        let request = Request::Read(command);
        match self.coordinator.clone().ask(node, request, self.patience()).await {
            Ok(Response::Answer(answer)) => Ok(answer),
            Ok(Response::Done | Response::Failed(_)) => {
                Err(self.failure(0, 1, 1, "answered with something else"))
            }
            Err(Silence::Unheard) => Err(self.timeout(0, 1, false)),
            Err(Silence::Failed(replica::Error::UnknownTable(_))) => Err(Error::UnknownTable),
            Err(Silence::Failed(error)) => Err(self.failure(0, 1, 1, &error.to_string())),
        }
    }

    fn timeout(&self, received: usize, required: usize, data_present: bool) -> Error {
        Error::Timeout { consistency: self.consistency, received, required, data_present, write: None }
    }

    fn failure(&self, received: usize, required: usize, failures: usize, reason: &str) -> Error {
        Error::Failure {
            consistency: self.consistency,
            received,
            required,
            failures,
            data_present: false,
            write: None,
            reason: reason.to_string(),
        }
    }

    /// Reads one piece, round after round until its limits are met or it ends.
    async fn read_piece(&self, targets: &[NodeIndex], command: ReadCommand) -> Result<ReadAnswer, Error> {
        if let [only] = *targets {
            return self.ask_one(only, command).await;
        }
        let mut whole = ReadAnswer { partitions: Vec::new(), live_rows: 0, stopped: None, digest: None };
        let mut command = command;
        for _ in 0..SHORT_READ_ROUNDS_MAX {
            let answer = self.round(targets, &command).await?;
            whole.live_rows += answer.live_rows;
            let bytes: usize = answer.partitions.iter().map(|p| p.as_bytes().len()).sum();
            append(&mut whole.partitions, answer.partitions);
            whole.stopped = answer.stopped;
            let full = answer.live_rows >= command.row_limit || bytes >= command.byte_limit as usize;
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
    async fn round(&self, targets: &[NodeIndex], command: &ReadCommand) -> Result<ReadAnswer, Error> {
        let asked = for_replicas(command);
        let requests = targets.iter().enumerate();
        let requests = requests.map(|(i, node)| (*node, ReadCommand { digest_only: i > 0, ..asked.clone() }));
        let answers = self.gather(requests.collect()).await?;
        let fault = runtime::planted(runtime::Bug::DigestStopsAtNull);
        let fault = fault.then_some(mutation::DigestFault::StopsAtNull);
        let digest = mutation::digest(&answers[0].partitions, fault);
        if answers[1..].iter().all(|a| a.digest == Some(digest)) {
            let answer = agreed(command, answers);
            if command.partition_row_limit == u32::MAX {
                return Ok(answer);
            }
            return Ok(self.merge(command, &[answer])?.answer);
        }
        self.coordinator.metrics.digest_mismatches.inc();
        let requests = targets.iter().map(|node| (*node, asked.clone()));
        let answers = self.gather(requests.collect()).await?;
        let merged = self.merge(command, &answers)?;
        self.repair(targets, merged.repairs).await?;
        Ok(merged.answer)
    }

    fn merge(&self, command: &ReadCommand, answers: &[ReadAnswer]) -> Result<Merged, Error> {
        merge_answers(&self.table, command, answers)
            .map_err(|e| self.failure(answers.len(), answers.len(), 1, &e.to_string()))
    }

    /// Asks all at once and waits for all; answers come in the order of the requests.
    async fn gather(&self, requests: Vec<(NodeIndex, ReadCommand)>) -> Result<Vec<ReadAnswer>, Error> {
        let count = requests.len();
        let arrived = Queue::new(count);
        for (index, (node, command)) in requests.into_iter().enumerate() {
            let (coordinator, arrived, patience) =
                (self.coordinator.clone(), arrived.clone(), self.patience());
            drop(runtime::spawn(Group::QUERY, async move {
                let answer = coordinator.ask(node, Request::Read(command), patience).await;
                // The queue has room for every answer; it is closed only when nobody listens.
                let _unwanted = arrived.try_push((index, answer));
            }));
        }
        let mut answers: Vec<Option<ReadAnswer>> = vec![None; count];
        for received in 0..count {
            let (index, answer) = arrived.pop().await.expect("the queue is not closed");
            match answer {
                Ok(Response::Answer(answer)) => answers[index] = Some(answer),
                Ok(_) => {
                    return Err(self.failure(received, count, 1, "answered with something else"));
                }
                Err(Silence::Unheard) => {
                    return Err(self.timeout(received, count, answers[0].is_some()));
                }
                Err(Silence::Failed(error)) => {
                    return Err(self.failure(received, count, 1, &error.to_string()));
                }
            }
        }
        Ok(answers.into_iter().flatten().collect())
    }

    /// Brings replicas that lacked something up to date before the read is answered, so that a later read at the same
    /// level cannot see less.
    async fn repair(&self, targets: &[NodeIndex], repairs: Vec<Vec<Mutation>>) -> Result<(), Error> {
        let count = targets.len();
        let pending: Vec<_> = targets.iter().zip(repairs).filter(|(_, r)| !r.is_empty()).collect();
        let arrived = Queue::new(pending.len().max(1));
        let waiting = pending.len();
        for (node, mutations) in pending {
            self.coordinator.metrics.read_repairs.inc();
            let (coordinator, arrived, node) = (self.coordinator.clone(), arrived.clone(), *node);
            let patience = self.patience().min(READ_REPAIR_PATIENCE);
            drop(runtime::spawn(Group::QUERY, async move {
                let request = Request::Write { mutations, durability: Durability::Mode };
                let _unwanted = arrived.try_push(coordinator.ask(node, request, patience).await);
            }));
        }
        for repaired in 0..waiting {
            let answer = arrived.pop().await.expect("the queue is not closed");
            if answer.is_err() {
                return Err(self.timeout(count - waiting + repaired, count, true));
            }
        }
        Ok(())
    }
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
mod tests {
    //! EACH_QUORUM asks a quorum of every datacenter and nobody else.
    use super::*;
    use topology::Node;

    fn node(octet: u8, dc: &str) -> Node {
        let ip = std::net::IpAddr::from([127, 0, 0, octet]);
        Node {
            host_id: u128::from(octet),
            internode: (ip, 7000).into(),
            native: (ip, 9042).into(),
            broadcast: ip,
            dc: dc.to_string(),
            rack: "r".to_string(),
            tokens: vec![base::Token(i64::from(octet))],
            shards: 1,
        }
    }

    #[test]
    fn each_quorum_takes_a_quorum_of_each_datacenter() {
        let nodes = vec![node(1, "a"), node(2, "a"), node(3, "a"), node(4, "b"), node(5, "b")];
        let snapshot = Snapshot::new(nodes, NodeIndex(0));
        let all: Vec<NodeIndex> = (0..5).map(NodeIndex).collect();
        let pick = |a: u32, b: u32| {
            let factors = [("a".to_string(), a), ("b".to_string(), b)].into();
            quorum_of_each(&snapshot, &factors, all.clone()).iter().map(|n| n.0).collect::<Vec<_>>()
        };
        assert_eq!(pick(3, 2), [0, 1, 3, 4]);
        assert_eq!(pick(1, 1), [0, 3]);
        let only = [("a".to_string(), 3)].into();
        assert_eq!(quorum_of_each(&snapshot, &only, all.clone()), [NodeIndex(0), NodeIndex(1)]);
    }
}
