//! Increments of counters: each partition's go to one replica, the leader, which counts them and sends everybody what it has counted. Why nothing is
//! counted twice, and what is acknowledged is not lost: `docs/mechanisms/counters.md`.

mod message;

use crate::coordinator::{Coordinator, micros};
use crate::error::{Error, WriteKind};
use crate::replicas::Silence;
use crate::view::View;
use crate::write::{Asked, Once, judge_one};
use base::{HashMap, HostId};
use message::{Led, decode_request, encode_request};
use mutation::Mutation;
use replica::Increments;
use rpc::{CallError, LocalFuture, Outgoing, Responder, Serve};
use runtime::{Bug, Group};
use schema::TableId;
use std::rc::Rc;
use std::time::Duration;
use topology::{Shortfall, WritePlan};
use types::Consistency;

pub(crate) use message::VERB_COUNT;

impl Coordinator {
    /// Counts increments: mutations of counter tables whose counter cells hold what is to be added.
    /// Errors: `Unavailable` and `Invalid`: nothing was counted; else each partition's may have been, or may be later. It must not be tried again
    ///         then by whoever minds.
    /// Cost:   one sync at the leader, then one round trip; one more where this node is no replica.
    pub async fn count(
        self: &Rc<Self>,
        increments: Vec<Mutation>,
        consistency: Consistency,
        timeout: Duration,
    ) -> Result<(), Error> {
        let asked = Asked::now(consistency, WriteKind::Counter, timeout);
        let view = self.view();
        let mut partitions: Vec<Vec<Mutation>> = Vec::new();
        let mut places: HashMap<(TableId, Box<[u8]>), usize> = HashMap::default();
        for increment in increments {
            let whose = (increment.table(), increment.view().key.into());
            if let Some(place) = places.get(&whose) {
                partitions[*place].push(increment);
                continue;
            }
            self.plan_write(&view, &increment, consistency)?;
            places.insert(whose, partitions.len());
            partitions.push(vec![increment]);
        }
        // Each in a task of its own: once begun it is never dropped half way.
        let mut counting = Vec::with_capacity(partitions.len());
        for increments in partitions {
            self.metrics.counts.inc();
            let (this, increments) = (self.clone(), increments.into());
            let work = async move { this.count_partition(increments, asked).await };
            counting.push(runtime::spawn_now(Group::QUERY, runtime::tracing::carry(work)));
        }
        let mut outcome = Ok(());
        for one in counting {
            let counted = match runtime::timeout_at(asked.until, one).await {
                Ok(counted) => counted,
                Err(_) => Err(asked.late(1)),
            };
            outcome = outcome.and(counted);
        }
        self.metrics.write_latency.record(micros(runtime::now().since(asked.start)));
        outcome
    }

    /// Has a leader count increments of one partition.
    async fn count_partition(self: &Rc<Self>, increments: Rc<[Mutation]>, asked: Asked) -> Result<(), Error> {
        let Some(first) = increments.first() else { return Ok(()) };
        let (table, token) = (first.table(), first.token());
        let mut refused: Vec<HostId> = Vec::new();
        let mut required = 1;
        loop {
            let view = self.view();
            let plan = self.plan_write_at(&view, table, token, asked.consistency)?;
            required = required.max(plan.needs.iter().sum());
            let Some(leader) = self.leader(&view, first, &refused) else {
                return Err(self.unled(&plan, refused.is_empty(), asked, required));
            };
            let led = if leader == view.snapshot.local_id() {
                self.lead(&view, &increments, asked).await
            } else {
                match self.hand_over(leader, &view, &increments, asked, required).await {
                    Some(led) => led,
                    // ⚔ Certain not to have begun: anything else must not be given to another.
                    None => {
                        refused.push(leader);
                        continue;
                    }
                }
            };
            match led {
                Led::Told(outcome) => return outcome,
                Led::Again(version) => self.catch_up(leader, version, asked.until).await,
            }
            if asked.until <= runtime::now() {
                return Err(asked.late(required));
            }
            runtime::yield_now().await;
        }
    }

    /// Who counts the increments of a partition: this node if it holds it, else the nearest that does and is alive.
    fn leader(&self, view: &View, increment: &Mutation, refused: &[HostId]) -> Option<HostId> {
        let placed = view.placed(increment.table())?;
        let holders = placed.placements.at(increment.token());
        let replication = &placed.keyspace.replication;
        let class = |host| self.snitch().class(host);
        let plan = view.snapshot.plan_read(replication, &holders.read, Consistency::One, class).ok()?;
        let by_distance = plan.targets.iter().chain(&plan.spares).map(|target| target.host);
        by_distance.into_iter().find(|host| !refused.contains(host))
    }

    /// What the client is told when there is nobody to count: too few are alive at ANY, too; or all that are have refused.
    fn unled(&self, plan: &WritePlan, none_alive: bool, asked: Asked, required: usize) -> Error {
        match none_alive && plan.targets.is_empty() {
            true => self.unavailable(asked.consistency, Shortfall { required, alive: 0, dc: None }),
            false => asked.late(required),
        }
    }

    /// Asks another node to lead. `None`: it has not, and will not.
    async fn hand_over(
        self: &Rc<Self>,
        leader: HostId,
        view: &View,
        increments: &[Mutation],
        asked: Asked,
        required: usize,
    ) -> Option<Led> {
        let timeout = asked.until.saturating_duration_since(runtime::now());
        let outgoing = Outgoing { verb: VERB_COUNT, version: view.point().1, timeout };
        let shard = self.shard_there(leader, increments.first().map(Mutation::token));
        let encode = |out: &mut Vec<u8>| encode_request(asked.consistency, increments, out);
        runtime::tracing::note(|| format!("Sending COUNTER_MUTATION_REQ message to {leader}"));
        let silent = |why| {
            let judged =
                judge_one(Err(why), view.address_of(leader), required, asked.consistency, asked.kind);
            Some(Led::Told(judged))
        };
        match self.pool().call(leader, shard, outgoing, encode).await {
            Ok(answer) => match Led::decode(&answer, asked.consistency) {
                Some(led) => Some(led),
                None => {
                    let text = "malformed answer of a leader".to_string();
                    silent(Silence::Failed(replica::Error::Malformed(text)))
                }
            },
            // The mistake that the checker of counters must notice.
            Err(CallError::TimedOut { .. } | CallError::Unreachable { .. })
                if runtime::planted(Bug::CountRetried) =>
            {
                None
            }
            Err(CallError::Unsupported { .. } | CallError::Overloaded { .. }) => None,
            Err(error @ CallError::TooLarge { .. }) => {
                silent(Silence::Failed(replica::Error::TooLarge(error.to_string())))
            }
            // ⚔ It may have counted.
            Err(CallError::Unreachable { .. } | CallError::TimedOut { .. } | CallError::Failed { .. }) => {
                silent(Silence::Unheard)
            }
        }
    }

    /// Counts increments of one partition here, and sends everybody what has been counted. Runs to its end: to be called in a task that is not dropped.
    async fn lead(self: &Rc<Self>, view: &Rc<View>, increments: &[Mutation], asked: Asked) -> Led {
        let Some(first) = increments.first() else { return Led::Told(Ok(())) };
        let Some(placed) = view.placed(first.table()) else {
            return Led::Told(Err(Error::UnknownTable));
        };
        let plan = match self.plan_write(view, first, asked.consistency) {
            Ok(plan) => plan,
            Err(error) => return Led::Told(Err(error)),
        };
        let required = plan.needs.iter().sum();
        let here = view.snapshot.local_id();
        let Some(increments) = Increments::new(placed.table.clone(), here, increments.to_vec()) else {
            let text = format!("not a counter table: {}", placed.table.qualified_name());
            return Led::Told(Err(Error::Invalid(text)));
        };
        let planned = self.plan_now(view);
        let counted = match self.local().count(increments, view.point(), asked.until).await {
            Ok(Some(counted)) => counted,
            Ok(None) => return Led::Told(Err(asked.late(required))),
            Err(replica::Error::Overtaken(version)) => return Led::Again(version),
            Err(error) => {
                let silence = Err(Silence::Failed(error));
                let from = view.snapshot.local().broadcast();
                return Led::Told(judge_one(silence, from, required, asked.consistency, asked.kind));
            }
        };
        self.metrics.counts_led.inc();
        if view.is_only_here(&counted) {
            return Led::Told(Ok(()));
        }
        Led::Told(self.send_counted(view.clone(), counted, planned, asked, required).await)
    }

    /// Sends what was counted to everybody who holds it, on a newer plan if a replica knows one. ⚔ It is not counted again, whatever happens.
    async fn send_counted(
        self: &Rc<Self>,
        mut view: Rc<View>,
        counted: Mutation,
        planned: storage::Planned,
        asked: Asked,
        required: usize,
    ) -> Result<(), Error> {
        let counted: Rc<[Mutation]> = Rc::new([counted]);
        let table = counted[0].table();
        loop {
            match self.write_once(&view, &counted, planned, asked).await {
                // ⚔ Never `Unavailable`: it is counted. Who is alive gets it all the same, and who is not, later.
                Once::Told(Err(Error::Unavailable { .. })) => {
                    let anyhow = Asked { consistency: Consistency::Any, ..asked };
                    drop(self.write_once(&view, &counted, planned, anyhow).await);
                    return Err(asked.late(required));
                }
                Once::Told(outcome) => return outcome,
                Once::Moved { .. } if asked.until <= runtime::now() => return Err(asked.late(required)),
                Once::Moved { .. } => {}
            }
            view = self.view();
            // ⚔ Asked after the view was taken. What a truncation forgets here must not come back from what was counted before it.
            if self.local().is_overtaken(table, planned).await {
                return Ok(());
            }
        }
    }

    /// Leads for another coordinator.
    async fn lead_for(self: &Rc<Self>, increments: &[Mutation], asked: Asked) -> Led {
        let view = self.view();
        let Some(first) = increments.first() else { return Led::Told(Ok(())) };
        let Some(placed) = view.placed(first.table()) else {
            return Led::Told(Err(Error::UnknownTable));
        };
        // ⚔ Whoever is to hold the token one day may lack what was counted under its id before.
        if !placed.placements.at(first.token()).read.contains(&view.snapshot.local_id()) {
            return Led::Again(view.point().1);
        }
        self.lead(&view, increments, asked).await
    }
}

/// Increments of other coordinators.
pub(crate) struct Counters;

impl Serve for Counters {
    fn begin(&self, request: &rpc::Request<'_>, answer: Responder) -> LocalFuture {
        let decoded = decode_request(request.body);
        let (from, version, until) = (request.from.host, request.version, answer.until());
        Box::pin(async move {
            // It starts or stops: the caller learns that there is no answer.
            let Some(coordinator) = runtime::try_local::<Coordinator>() else { return };
            let Some((consistency, increments)) = decoded else {
                let text = "malformed message to a leader of counters".to_string();
                return answer.send(|out| Led::Told(Err(Error::Invalid(text))).encode(out));
            };
            coordinator.catch_up(from, version, until).await;
            if coordinator.version() < version {
                return;
            }
            let start = runtime::now();
            let asked = Asked { consistency, kind: WriteKind::Counter, start, until };
            // In a task of its own: once begun it is never dropped half way, whatever becomes of the connection.
            let work = async move { coordinator.lead_for(&increments, asked).await };
            let led = runtime::spawn_now(Group::QUERY, work).await;
            answer.send(|out| led.encode(out));
        })
    }
}
