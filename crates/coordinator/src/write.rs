//! Writes: every replica alive gets the mutation; the level says how many must have it before the client is told.

use crate::coordinator::Coordinator;
use crate::error::{Error, WriteKind};
use crate::replicas::Silence;
use mutation::Mutation;
use replica::Request;
use runtime::Group;
use runtime::sync::Queue;
use schema::TableId;
use std::rc::Rc;
use std::time::Duration;
use storage::Durability;
use topology::{NodeIndex, required};
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
    required: usize,
    received: usize,
    failures: usize,
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
        if consistency.is_serial() {
            let text = "You must use conditional updates for serializable writes";
            return Err(Error::Invalid(text.to_string()));
        }
        if self.topology().is_single() {
            return self.write_alone(mutations, consistency, kind, patience).await;
        }
        // Boxed, so that a write to this node alone does not carry the room of counting replicas.
        Box::pin(self.write_parts(mutations, consistency, kind, patience)).await
    }

    async fn write_parts(
        self: &Rc<Self>,
        mutations: Vec<Mutation>,
        consistency: Consistency,
        kind: WriteKind,
        patience: Duration,
    ) -> Result<(), Error> {
        let (mut parts, mut progress) = self.divide(mutations, consistency)?;
        let waiting = parts.len();
        let arrived = Queue::new(waiting.max(1));
        if let [_] = &*parts {
            let part = parts.pop().expect("there is one");
            let request = Request::Write { mutations: part.mutations, durability: Durability::Mode };
            let answer = self.clone().ask(part.node, request, patience).await;
            let required = progress.iter().map(|p| p.required).max().unwrap_or(1);
            return judge_one(answer.map(|_| ()), required, consistency, kind);
        }
        for part in parts {
            let (coordinator, arrived) = (self.clone(), arrived.clone());
            drop(runtime::spawn(Group::QUERY, async move {
                let request = Request::Write { mutations: part.mutations, durability: Durability::Mode };
                let answer = coordinator.ask(part.node, request, patience).await;
                let _unwanted = arrived.try_push((part.indexes, answer.map(|_| ())));
            }));
        }
        let mut reason = String::new();
        for _ in 0..waiting {
            let (indexes, answer) = arrived.pop().await.expect("the queue is not closed");
            note(&mut progress, &indexes, &answer, &mut reason);
            if let Some(lost) = progress.iter().find(|p| p.received + p.open < p.required) {
                return Err(lost.error(consistency, kind, &reason));
            }
            if progress.iter().all(|p| p.received >= p.required) {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Which replica gets which mutations. Errors when a level cannot be met, before anything is sent.
    fn divide(
        &self,
        mutations: Vec<Mutation>,
        consistency: Consistency,
    ) -> Result<(Vec<Part>, Vec<Progress>), Error> {
        let (schema, snapshot) = (self.schema(), self.topology());
        let mut parts: Vec<Part> = Vec::with_capacity(1);
        let mut progress = Vec::with_capacity(mutations.len());
        for (index, mutation) in mutations.into_iter().enumerate() {
            let table = schema.table_by_id(mutation.table()).ok_or(Error::UnknownTable)?;
            let keyspace = schema.keyspace(&table.keyspace).ok_or(Error::UnknownTable)?;
            let replicas = snapshot.replicas(&keyspace.replication, mutation.token());
            let requirement =
                required(&snapshot, &keyspace.replication, consistency, &replicas).map_err(|s| {
                    self.metrics.unavailables.inc();
                    Error::Unavailable { consistency, required: s.required, alive: s.alive }
                })?;
            let alive: Vec<NodeIndex> = replicas.into_iter().filter(|n| snapshot.is_alive(*n)).collect();
            let required = requirement.count;
            progress.push(Progress { required, received: 0, failures: 0, open: alive.len() });
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
        judge_one(answer, 1, consistency, kind)
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
            judge_one(answer.map(|_| ()), snapshot.nodes().len(), consistency, WriteKind::Simple)?;
        }
        Ok(())
    }
}

/// What one replica's answer means when nobody else was asked.
fn judge_one(
    answer: Result<(), Silence>,
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
            failures: 1,
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

fn note(progress: &mut [Progress], indexes: &[usize], answer: &Result<(), Silence>, reason: &mut String) {
    for index in indexes {
        let one = &mut progress[*index];
        one.open -= 1;
        match answer {
            Ok(()) => one.received += 1,
            Err(Silence::Unheard) => {}
            Err(Silence::Failed(error)) => {
                one.failures += 1;
                if reason.is_empty() {
                    *reason = error.to_string();
                }
            }
        }
    }
}

impl Progress {
    fn error(&self, consistency: Consistency, kind: WriteKind, reason: &str) -> Error {
        let (received, required, write) = (self.received, self.required, Some(kind));
        if self.failures == 0 {
            return Error::Timeout { consistency, received, required, data_present: false, write };
        }
        Error::Failure {
            consistency,
            received,
            required,
            failures: self.failures,
            data_present: false,
            write,
            reason: reason.to_string(),
        }
    }
}
