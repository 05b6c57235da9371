//! Writes: every replica alive gets the mutation; the level says how many must have it before the client is told.

use crate::coordinator::{Coordinator, micros};
use crate::error::{Error, WriteKind};
use crate::replicas::Silence;
use mutation::Mutation;
use replica::{Reason, Request};
use runtime::Group;
use runtime::sync::Queue;
use schema::{Replication, TableId};
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;
use storage::Durability;
use topology::{NodeIndex, Requirement, Snapshot, required};
use types::Consistency;

/// One replica's part of a write.
struct Part {
    node: NodeIndex,
    /// Indexes of the mutations it gets.
    indexes: Vec<usize>,
    mutations: Vec<Mutation>,
}

/// How far one mutation is.
struct Progress {
    /// All must be met: one for the level, or one for each datacenter.
    needs: Vec<Need>,
}

/// Answers that must arrive from replicas that count.
struct Need {
    /// Only replicas in this node's datacenter count; `None`: all.
    with: Option<NodeIndex>,
    required: usize,
    received: usize,
    failures: Vec<(IpAddr, Reason)>,
    /// Replicas that may still answer.
    open: usize,
}

impl Coordinator {
    /// Writes mutations at a consistency level; those that one shard of one replica owns take effect together.
    /// Errors: see [`Error`]; after anything but `Unavailable` and `Invalid` the write may still take effect.
    pub async fn write(
        self: &Rc<Self>,
        mutations: Vec<Mutation>,
        consistency: Consistency,
        kind: WriteKind,
        patience: Duration,
    ) -> Result<(), Error> {
        self.metrics.writes.inc();
        let start = runtime::now();
        let written = self.write_to(mutations, consistency, kind, patience).await;
        self.metrics.write_latency.record(micros(runtime::now().since(start)));
        written
    }

    async fn write_to(
        self: &Rc<Self>,
        mutations: Vec<Mutation>,
        consistency: Consistency,
        kind: WriteKind,
        patience: Duration,
    ) -> Result<(), Error> {
        if consistency.is_serial() {
            let text = "You must use conditional updates for serializable writes";
            return Err(Error::Invalid(text.to_string()));
        }
        if kind == WriteKind::Batch && self.needs_batchlog(&mutations) {
            return Box::pin(self.write_logged(mutations, consistency, patience)).await;
        }
        if self.topology().is_single() {
            return self.write_alone(mutations, consistency, kind, patience).await;
        }
        // Boxed, so that a write to this node alone does not carry the room of counting replicas.
        Box::pin(self.write_parts(mutations, consistency, kind, patience)).await
    }

    pub(crate) async fn write_parts(
        self: &Rc<Self>,
        mutations: Vec<Mutation>,
        consistency: Consistency,
        kind: WriteKind,
        patience: Duration,
    ) -> Result<(), Error> {
        let snapshot = self.topology();
        let (mut parts, mut progress) = self.divide(&snapshot, mutations, consistency)?;
        let waiting = parts.len();
        let arrived = Queue::new(waiting.max(1));
        if let [_] = &*parts {
            let part = parts.pop().expect("there is one");
            let request = Request::Write { mutations: part.mutations, durability: Durability::Mode };
            let answer = self.clone().ask(part.node, request, patience).await;
            let required = progress.iter().map(Progress::required).max().unwrap_or(1);
            let from = snapshot.node(part.node).broadcast;
            return judge_one(answer.map(|_| ()), from, required, consistency, kind);
        }
        for part in parts {
            let (coordinator, arrived) = (self.clone(), arrived.clone());
            drop(runtime::spawn(Group::QUERY, async move {
                let request = Request::Write { mutations: part.mutations, durability: Durability::Mode };
                let answer = coordinator.ask(part.node, request, patience).await;
                let _unwanted = arrived.try_push((part.node, part.indexes, answer.map(|_| ())));
            }));
        }
        let mut reason = String::new();
        for _ in 0..waiting {
            let (node, indexes, answer) = arrived.pop().await.expect("the queue is not closed");
            for index in indexes {
                progress[index].note(&snapshot, node, &answer, &mut reason);
            }
            if let Some(lost) = progress.iter().find(|p| p.is_lost()) {
                return Err(lost.error(consistency, kind, &reason));
            }
            if progress.iter().all(Progress::is_done) {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Which replica gets which mutations. Errors when a level cannot be met, before anything is sent.
    fn divide(
        &self,
        snapshot: &Snapshot,
        mutations: Vec<Mutation>,
        consistency: Consistency,
    ) -> Result<(Vec<Part>, Vec<Progress>), Error> {
        let schema = self.schema();
        let mut parts: Vec<Part> = Vec::with_capacity(1);
        let mut progress = Vec::with_capacity(mutations.len());
        for (index, mutation) in mutations.into_iter().enumerate() {
            let table = schema.table_by_id(mutation.table()).ok_or(Error::UnknownTable)?;
            let keyspace = schema.keyspace(&table.keyspace).ok_or(Error::UnknownTable)?;
            let replicas = snapshot.replicas(&keyspace.replication, mutation.token());
            let requirement =
                required(snapshot, &keyspace.replication, consistency, &replicas).map_err(|s| {
                    self.metrics.unavailables.inc();
                    Error::Unavailable { consistency, required: s.required, alive: s.alive }
                })?;
            let alive: Vec<NodeIndex> = replicas.into_iter().filter(|n| snapshot.is_alive(*n)).collect();
            progress.push(Progress::new(snapshot, &keyspace.replication, consistency, requirement, &alive));
            let mut mutation = Some(mutation);
            for (place, node) in alive.iter().enumerate() {
                let last = place + 1 == alive.len();
                let copy = if last { mutation.take() } else { mutation.clone() };
                put(&mut parts, *node, index, copy.expect("taken only for the last replica"));
            }
        }
        Ok((parts, progress))
    }

    /// A node that is the whole cluster is every token's only replica: nothing to divide or to count.
    async fn write_alone(
        self: &Rc<Self>,
        mutations: Vec<Mutation>,
        consistency: Consistency,
        kind: WriteKind,
        patience: Duration,
    ) -> Result<(), Error> {
        let (schema, snapshot) = (self.schema(), self.topology());
        let here = [snapshot.local_index()];
        let mut checked = None;
        for mutation in &mutations {
            if checked.replace(mutation.table()) != Some(mutation.table()) {
                let table = schema.table_by_id(mutation.table()).ok_or(Error::UnknownTable)?;
                let keyspace = schema.keyspace(&table.keyspace).ok_or(Error::UnknownTable)?;
                required(&snapshot, &keyspace.replication, consistency, &here).map_err(|s| {
                    self.metrics.unavailables.inc();
                    Error::Unavailable { consistency, required: s.required, alive: s.alive }
                })?;
            }
        }
        // In a task of its own: once begun, a write is never dropped half way.
        let local = self.local().clone();
        let write =
            runtime::spawn_now(Group::QUERY, async move { local.write(mutations, Durability::Mode).await });
        let answer = match runtime::timeout(patience, write).await {
            Ok(done) => done.map_err(Silence::Failed),
            Err(_) => Err(Silence::Unheard),
        };
        judge_one(answer, snapshot.local().broadcast, 1, consistency, kind)
    }

    /// Forgets a table's data on every node. Errors unless all are alive and answer.
    pub async fn truncate(self: &Rc<Self>, table: TableId, at: i64, patience: Duration) -> Result<(), Error> {
        let snapshot = self.topology();
        let consistency = Consistency::All;
        let nodes: Vec<NodeIndex> = (0..snapshot.nodes().len()).map(|n| NodeIndex(n as u16)).collect();
        let alive = nodes.iter().filter(|n| snapshot.is_alive(**n)).count();
        if alive < nodes.len() {
            return Err(Error::Unavailable { consistency, required: nodes.len(), alive });
        }
        for node in nodes {
            let answer = self.clone().ask(node, Request::Truncate { table, at }, patience).await;
            let (from, count) = (snapshot.node(node).broadcast, snapshot.nodes().len());
            judge_one(answer.map(|_| ()), from, count, consistency, WriteKind::Simple)?;
        }
        Ok(())
    }
}

/// What one replica's answer means when nobody else was asked.
pub(crate) fn judge_one(
    answer: Result<(), Silence>,
    from: IpAddr,
    required: usize,
    consistency: Consistency,
    kind: WriteKind,
) -> Result<(), Error> {
    let write = Some(kind);
    match answer {
        Ok(()) => Ok(()),
        Err(Silence::Unheard) => {
            Err(Error::Timeout { consistency, received: 0, required, data_present: false, write })
        }
        Err(Silence::Failed(replica::Error::TooLarge(text))) => Err(Error::Invalid(text)),
        Err(Silence::Failed(replica::Error::UnknownTable(_))) => Err(Error::UnknownTable),
        Err(Silence::Failed(error)) => Err(Error::Failure {
            consistency,
            received: 0,
            required,
            failures: vec![(from, error.reason())],
            data_present: false,
            write,
            reason: error.to_string(),
        }),
    }
}

fn put(parts: &mut Vec<Part>, node: NodeIndex, index: usize, mutation: Mutation) {
    match parts.iter_mut().find(|p| p.node == node) {
        Some(part) => {
            part.indexes.push(index);
            part.mutations.push(mutation);
        }
        None => parts.push(Part { node, indexes: vec![index], mutations: vec![mutation] }),
    }
}

impl Progress {
    fn new(
        snapshot: &Snapshot,
        replication: &Replication,
        consistency: Consistency,
        requirement: Requirement,
        alive: &[NodeIndex],
    ) -> Progress {
        let need = |with: Option<NodeIndex>, required: usize| {
            let open = alive.iter().filter(|node| counts(snapshot, with, **node)).count();
            Need { with, required, received: 0, failures: Vec::new(), open }
        };
        let needs = match (consistency, replication) {
            (Consistency::EachQuorum, Replication::NetworkTopology { factors }) => {
                let one = |(dc, factor): (&String, &u32)| {
                    let with = alive.iter().copied().find(|node| snapshot.node(*node).dc == *dc);
                    need(with, *factor as usize / 2 + 1)
                };
                factors.iter().map(one).collect()
            }
            _ => {
                let with = requirement.local_dc.then(|| snapshot.local_index());
                vec![need(with, requirement.count)]
            }
        };
        Progress { needs }
    }

    fn note(
        &mut self,
        snapshot: &Snapshot,
        node: NodeIndex,
        answer: &Result<(), Silence>,
        reason: &mut String,
    ) {
        for need in self.needs.iter_mut().filter(|need| counts(snapshot, need.with, node)) {
            need.open -= 1;
            match answer {
                Ok(()) => need.received += 1,
                Err(Silence::Unheard) => {}
                Err(Silence::Failed(error)) => {
                    need.failures.push((snapshot.node(node).broadcast, error.reason()));
                    if reason.is_empty() {
                        *reason = error.to_string();
                    }
                }
            }
        }
    }

    fn is_lost(&self) -> bool {
        self.needs.iter().any(|need| need.received + need.open < need.required)
    }

    fn is_done(&self) -> bool {
        self.needs.iter().all(|need| need.received >= need.required)
    }

    fn required(&self) -> usize {
        self.needs.iter().map(|need| need.required).sum()
    }

    fn error(&self, consistency: Consistency, kind: WriteKind, reason: &str) -> Error {
        let received = self.needs.iter().map(|need| need.received).sum();
        let failures: Vec<_> = self.needs.iter().flat_map(|need| need.failures.iter().copied()).collect();
        let (required, write) = (self.required(), Some(kind));
        if failures.is_empty() {
            return Error::Timeout { consistency, received, required, data_present: false, write };
        }
        Error::Failure {
            consistency,
            received,
            required,
            failures,
            data_present: false,
            write,
            reason: reason.to_string(),
        }
    }
}

/// Whether a replica's answer counts where only those in the datacenter of `with` do.
fn counts(snapshot: &Snapshot, with: Option<NodeIndex>, node: NodeIndex) -> bool {
    with.is_none_or(|with| snapshot.node(with).dc == snapshot.node(node).dc)
}

#[cfg(test)]
mod tests {
    //! A level that names datacenters is not met by answers from elsewhere.
    use super::*;
    use crate::fixture::node;
    use base::Token;

    fn snapshot() -> Snapshot {
        let here = ["here"; 3].into_iter().enumerate();
        let all = here.chain(["there"; 3].into_iter().enumerate().map(|(i, dc)| (i + 3, dc)));
        Snapshot::new(all.map(|(i, dc)| node(i as u8 + 1, dc)).collect(), NodeIndex(0))
    }

    fn done_after(consistency: Consistency, nodes: &[u16]) -> bool {
        let snapshot = snapshot();
        let factors = [("here".to_string(), 3), ("there".to_string(), 3)].into();
        let replication = Replication::NetworkTopology { factors };
        let replicas = snapshot.replicas(&replication, Token(0));
        let requirement = required(&snapshot, &replication, consistency, &replicas).expect("all are alive");
        let mut progress = Progress::new(&snapshot, &replication, consistency, requirement, &replicas);
        for node in nodes {
            progress.note(&snapshot, NodeIndex(*node), &Ok(()), &mut String::new());
        }
        progress.is_done()
    }

    #[test]
    fn answers_of_other_datacenters_do_not_count_for_local_levels() {
        assert!(!done_after(Consistency::LocalQuorum, &[3, 4, 5, 0]));
        assert!(done_after(Consistency::LocalQuorum, &[0, 2]));
        assert!(done_after(Consistency::Quorum, &[3, 4, 5, 0]));
    }

    #[test]
    fn each_quorum_wants_one_in_every_datacenter() {
        assert!(!done_after(Consistency::EachQuorum, &[0, 1, 2, 3]));
        assert!(done_after(Consistency::EachQuorum, &[0, 1, 4, 3]));
    }

    /// What the client of a write at QUORUM is told after these answers; `None`: it is still open.
    fn told(answers: &[(u16, Result<(), Silence>)]) -> Option<Result<(), Error>> {
        let snapshot = snapshot();
        let replication = Replication::Simple { factor: 3 };
        let replicas = [0, 1, 2].map(NodeIndex);
        let level = Consistency::Quorum;
        let requirement = required(&snapshot, &replication, level, &replicas).expect("all are alive");
        let mut progress = Progress::new(&snapshot, &replication, level, requirement, &replicas);
        let mut reason = String::new();
        for (node, answer) in answers {
            progress.note(&snapshot, NodeIndex(*node), answer, &mut reason);
        }
        match (progress.is_lost(), progress.is_done()) {
            (true, _) => Some(Err(progress.error(level, WriteKind::Simple, &reason))),
            (false, done) => done.then_some(Ok(())),
        }
    }

    #[test]
    fn a_lost_level_names_what_was_received_and_what_failed() {
        let failed = || Err(Silence::Failed(replica::Error::Refused("full".to_string())));
        let late = || Err(Silence::Unheard);
        assert_eq!(told(&[(0, failed()), (1, Ok(()))]), None, "the third may still do");
        assert_eq!(told(&[(0, failed()), (1, Ok(())), (2, Ok(()))]), Some(Ok(())));
        let (consistency, data_present, write) = (Consistency::Quorum, false, Some(WriteKind::Simple));
        let timeout = Error::Timeout { consistency, received: 1, required: 2, data_present, write };
        assert_eq!(told(&[(0, Ok(())), (1, late()), (2, late())]), Some(Err(timeout)));
        let failure = |received, failed: &[u8]| {
            let reason = "full".to_string();
            let from = |id: &u8| (node(*id, "here").broadcast, Reason::Unknown);
            let failures = failed.iter().map(from).collect();
            Error::Failure { consistency, received, required: 2, failures, data_present, write, reason }
        };
        assert_eq!(told(&[(0, Ok(())), (1, late()), (2, failed())]), Some(Err(failure(1, &[3]))));
        assert_eq!(told(&[(0, failed()), (2, failed())]), Some(Err(failure(0, &[1, 3]))));
    }
}
