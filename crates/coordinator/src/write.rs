//! Writes: every replica alive gets the mutation; the level says how many must have it before the client is told.

use crate::coordinator::{Coordinator, micros};
use crate::error::{Error, WriteKind};
use crate::replicas::Silence;
use crate::view::View;
use crate::writing::{Ended, Writing};
use base::{HostId, Instant, Token};
use mutation::Mutation;
use replica::Request;
use runtime::Group;
use schema::TableId;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;
use storage::{Durability, Planned, Point};
use topology::{Shortfall, WritePlan};
use types::Consistency;

/// What a write is asked to meet.
#[derive(Clone, Copy)]
pub(crate) struct Asked {
    pub(crate) consistency: Consistency,
    pub(crate) kind: WriteKind,
    pub(crate) start: Instant,
    pub(crate) until: Instant,
}

impl Asked {
    pub(crate) fn now(consistency: Consistency, kind: WriteKind, timeout: Duration) -> Asked {
        let start = runtime::now();
        Asked { consistency, kind, start, until: start + timeout }
    }

    /// What the client is told when plans moved until it was too late: what was sent by one of them may take effect.
    pub(crate) fn late(&self, required: usize) -> Error {
        let (consistency, write) = (self.consistency, Some(self.kind));
        Error::Timeout { consistency, received: 0, required, data_present: false, write }
    }
}

/// How a write on one plan ended.
pub(crate) enum Once {
    /// With this for the client.
    Told(Result<(), Error>),
    /// A replica knows a newer version, which this node knows by now or will: plan again. So many answers were needed.
    Moved { needs: usize },
}

impl Coordinator {
    /// Writes mutations at a consistency level; those that one shard of one replica owns take effect together.
    /// Errors: see [`Error`]; after anything but `Unavailable` and `Invalid` the write may still take effect.
    pub async fn write(
        self: &Rc<Self>,
        mutations: Vec<Mutation>,
        consistency: Consistency,
        kind: WriteKind,
        timeout: Duration,
    ) -> Result<(), Error> {
        self.metrics.writes.inc();
        let start = runtime::now();
        let written = self.write_to(mutations, consistency, kind, timeout).await;
        self.metrics.write_latency.record(micros(runtime::now().since(start)));
        written
    }

    async fn write_to(
        self: &Rc<Self>,
        mutations: Vec<Mutation>,
        consistency: Consistency,
        kind: WriteKind,
        timeout: Duration,
    ) -> Result<(), Error> {
        let consistency = match (consistency, kind) {
            // Batches alone are let through by Cassandra, at the quorum of the level.
            (Consistency::Serial, WriteKind::Batch | WriteKind::UnloggedBatch) => Consistency::Quorum,
            (Consistency::LocalSerial, WriteKind::Batch | WriteKind::UnloggedBatch) => {
                Consistency::LocalQuorum
            }
            (Consistency::Serial | Consistency::LocalSerial, _) => {
                let text = "You must use conditional updates for serializable writes";
                return Err(Error::Invalid(text.to_string()));
            }
            (consistency, _) => consistency,
        };
        if kind == WriteKind::Batch && self.needs_batchlog(&mutations) {
            return Box::pin(self.write_logged(mutations, consistency, timeout)).await;
        }
        let view = self.view();
        // Of a node that is alone nothing is overtaken.
        if view.point() == Point::ALONE && mutations.iter().all(|mutation| view.is_only_here(mutation)) {
            return self.write_alone(&view, mutations, consistency, kind, timeout).await;
        }
        // Boxed, so that a write to this node alone does not carry the room of counting replicas.
        let planned = self.plan_now(&view);
        Box::pin(self.write_parts(view, mutations, planned, consistency, kind, timeout)).await
    }

    /// Sends mutations to everybody who holds them. What a replica does not confirm is told as missed, also when the client has
    /// its answer by then. Planned again when a replica knows a newer version of what the plan rests on.
    pub(crate) async fn write_parts(
        self: &Rc<Self>,
        mut view: Rc<View>,
        mutations: Vec<Mutation>,
        mut planned: Planned,
        consistency: Consistency,
        kind: WriteKind,
        timeout: Duration,
    ) -> Result<(), Error> {
        let asked = Asked::now(consistency, kind, timeout);
        let mutations: Rc<[Mutation]> = mutations.into();
        let mut required = 0;
        loop {
            match self.write_once(&view, &mutations, planned, asked).await {
                Once::Told(Err(Error::Unavailable { .. })) if required > 0 => break,
                Once::Told(outcome) => return outcome,
                Once::Moved { needs } => required = needs,
            }
            if asked.until <= runtime::now() {
                break;
            }
            view = self.view();
            // It comes behind what it has just learned of, and so does what a replica misses of it.
            planned = self.plan_now(&view);
        }
        Err(asked.late(required))
    }

    /// As above, on one plan.
    pub(crate) async fn write_once(
        self: &Rc<Self>,
        view: &Rc<View>,
        mutations: &Rc<[Mutation]>,
        planned: Planned,
        asked: Asked,
    ) -> Once {
        if asked.consistency == Consistency::Any {
            match self.lacks_targets(view, mutations) {
                Ok(true) => return Box::pin(self.write_any(view, mutations, planned, asked)).await,
                Ok(false) => {}
                Err(error) => return Once::Told(Err(error)),
            }
        }
        let Asked { consistency, kind, start, until } = asked;
        let writing = match Writing::plan(self, view, mutations.clone(), planned, consistency, kind) {
            Ok(writing) => writing,
            Err(error) => return Once::Told(Err(error)),
        };
        match writing.run(until).await {
            Ended::Told(outcome) => {
                if let Some(placed) = mutations.first().and_then(|first| view.placed(first.table())) {
                    placed.pace.writes.record(runtime::now().since(start));
                }
                Once::Told(outcome)
            }
            Ended::Behind { host, version, needs } => {
                self.catch_up(host, version, until).await;
                Once::Moved { needs: needs.max(1) }
            }
        }
    }

    /// Where a mutation goes.
    pub(crate) fn plan_write(
        &self,
        view: &View,
        mutation: &Mutation,
        consistency: Consistency,
    ) -> Result<WritePlan, Error> {
        self.plan_write_at(view, mutation.table(), mutation.token(), consistency)
    }

    /// Where a write of a token of a table goes.
    pub(crate) fn plan_write_at(
        &self,
        view: &View,
        table: TableId,
        token: Token,
        consistency: Consistency,
    ) -> Result<WritePlan, Error> {
        let placed = view.placed(table).ok_or(Error::UnknownTable)?;
        let holders = placed.placements.at(token);
        let plan = view.snapshot.plan_write(&placed.keyspace.replication, holders, consistency);
        plan.map_err(|short| self.unavailable(consistency, short))
    }

    /// What a client is told when too few replicas are alive.
    pub(crate) fn unavailable(&self, consistency: Consistency, short: Shortfall) -> Error {
        self.metrics.unavailables.inc();
        Error::Unavailable { consistency, required: short.required, alive: short.alive, dc: short.dc }
    }

    /// What this node alone holds: nothing to divide or to count.
    async fn write_alone(
        self: &Rc<Self>,
        view: &View,
        mutations: Vec<Mutation>,
        consistency: Consistency,
        kind: WriteKind,
        timeout: Duration,
    ) -> Result<(), Error> {
        let mut checked = None;
        for mutation in &mutations {
            if checked.replace(mutation.table()) != Some(mutation.table()) {
                self.plan_write(view, mutation, consistency)?;
            }
        }
        // In a task of its own: once begun, a write is never dropped half way.
        let (local, on) = (self.local().clone(), view.point());
        let write = async move { local.write(mutations, Durability::Mode, on).await };
        let write = runtime::spawn_now(Group::QUERY, runtime::tracing::carry(write));
        let answer = match runtime::timeout(timeout, write).await {
            Ok(done) => done.map_err(Silence::Failed),
            Err(_) => Err(Silence::Unheard),
        };
        judge_one(answer, view.snapshot.local().broadcast(), 1, consistency, kind)
    }

    /// Forgets a table's data on every node, where no cluster's log says it to them. Errors unless all are alive and answer; all were asked.
    pub async fn truncate(self: &Rc<Self>, table: TableId, at: i64, timeout: Duration) -> Result<(), Error> {
        let view = self.view();
        let consistency = Consistency::All;
        let hosts: Vec<HostId> = view.snapshot.members().iter().map(|member| member.host_id).collect();
        let required = hosts.len();
        let alive = hosts.iter().filter(|host| view.snapshot.is_alive(**host)).count();
        if alive < required {
            return Err(self.unavailable(consistency, Shortfall { required, alive, dc: None }));
        }
        let mut outcome = Ok(());
        for host in hosts {
            let request = Request::Truncate { table, at };
            let answer = self.clone().ask(host, request, view.point(), timeout).await;
            let from = view.address_of(host);
            outcome =
                outcome.and(judge_one(answer.map(|_| ()), from, required, consistency, WriteKind::Simple));
        }
        outcome
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
        Err(Silence::Unheard | Silence::Behind(_)) => {
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
