//! One write on its way to everybody who holds it.
//!
//! ```text
//! plan ─▶ each replica's part ─┬─ others: into the connection's outbox, the answer comes back to this object
//!                              ├─ several of another datacenter: one of them hands it to the rest, whose answers come back through it
//!                              └─ here: in this step, or a task where something must be waited for
//! answers ─▶ progress of each mutation ─▶ the client is told once; what comes later only tells what a replica has missed
//! ```

use crate::coordinator::{Coordinator, Ticket};
use crate::error::{Error, WriteKind};
use crate::forward::NAMED_MAX;
use crate::replicas::{Silence, heard, strange};
use crate::snitch::Timing;
use crate::tracing::{TRACED, Tracer};
use crate::view::View;
use crate::write::judge_one;
use base::{HostId, Instant};
use mutation::Mutation;
use replica::{Reason, Response};
use rpc::{CallError, Gather};
use runtime::Group as Tasks;
use runtime::sync::Event;
use std::cell::{Cell, RefCell};
use std::net::IpAddr;
use std::rc::{Rc, Weak};
use storage::{Durability, Planned};
use topology::{Target, WritePlan};
use types::Consistency;

/// How a write ended.
pub(crate) enum Ended {
    /// With this for the client.
    Told(Result<(), Error>),
    /// A replica knows a newer version of what the plan rests on; so many answers were needed.
    Behind { host: HostId, version: u64, needs: usize },
}

/// One write under one plan. Lives until the last replica has answered or is late, which may be longer than its client waits.
pub(crate) struct Writing {
    this: Weak<Writing>,
    coordinator: Rc<Coordinator>,
    view: Rc<View>,
    /// When it was planned first, by this plan or an earlier one.
    planned: Planned,
    consistency: Consistency,
    kind: WriteKind,
    mutations: Rc<[Mutation]>,
    /// What each replica gets: ascending by host.
    sends: Vec<Send>,
    /// Where each replica's part begins in `sends`, and the end of the last one.
    bounds: Vec<usize>,
    /// Parts of other datacenters that go there together.
    groups: Vec<Group>,
    /// How each part is sent; empty where there are no groups.
    ways: Vec<Cell<Way>>,
    until: Cell<Instant>,
    state: RefCell<State>,
    ended: Event,
    /// Of a request that is traced.
    tracer: Option<Tracer>,
}

/// Parts with the same mutations for replicas of one datacenter. The first one's replica hands them to the others.
struct Group {
    parts: Vec<u16>,
    timing: RefCell<Timing>,
}

/// How a part reaches its replica.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// By a message of its own.
    Direct,
    /// Through another replica.
    Handed,
    /// It is over: what comes now has been told.
    Told,
}

/// Added to the number of a part whose answer comes through a group's message.
const HANDED: u16 = 1 << 15;

/// One mutation for one replica.
struct Send {
    host: HostId,
    mutation: usize,
    /// Which need of the mutation the replica's answer counts for.
    need: Option<u8>,
}

struct State {
    progress: Vec<Progress>,
    /// What the first replica that failed has said.
    reason: String,
    ended: Option<Ended>,
    told: bool,
}

/// How far one mutation is.
pub(crate) struct Progress {
    needs: Vec<Need>,
}

/// Answers that must arrive from replicas that count.
struct Need {
    required: usize,
    received: usize,
    failures: Vec<(IpAddr, Reason)>,
    /// Replicas that may still answer.
    open: usize,
}

impl Writing {
    /// Decides who gets what. Errors when a level cannot be met: nothing is sent then.
    pub(crate) fn plan(
        coordinator: &Rc<Coordinator>,
        view: &Rc<View>,
        mutations: Rc<[Mutation]>,
        planned: Planned,
        consistency: Consistency,
        kind: WriteKind,
    ) -> Result<Rc<Writing>, Error> {
        let tracer = Tracer::of(view);
        let mut plans = Vec::with_capacity(mutations.len());
        for mutation in &*mutations {
            plans.push(coordinator.plan_write(view, mutation, consistency)?);
        }
        let mut sends = Vec::with_capacity(plans.iter().map(|plan| plan.targets.len()).sum());
        for (index, plan) in plans.iter().enumerate() {
            let send = |target: &Target| Send { host: target.host, mutation: index, need: target.need };
            sends.extend(plan.targets.iter().map(send));
            for host in &plan.missed {
                let ticket = coordinator.tell_missed(*host, &mutations[index..=index], planned);
                note_missed(tracer.as_ref(), *host, ticket);
            }
        }
        // Stable: a replica applies mutations in the order in which they were given.
        sends.sort_by_key(|send| send.host);
        let is_first = |at: &usize| *at == 0 || sends[*at].host != sends[*at - 1].host;
        let bounds: Vec<usize> = (0..sends.len()).filter(is_first).chain([sends.len()]).collect();
        let progress = plans.iter().map(Progress::new).collect();
        let state = State { progress, reason: String::new(), ended: None, told: false };
        let groups = groups_of(coordinator, view, &mutations, &sends, &bounds);
        // Numbers of calls have a bit less then.
        let tracer = tracer.filter(|_| bounds.len() <= usize::from(TRACED));
        if let Some(tracer) = &tracer {
            let replicas = bounds[..bounds.len() - 1].iter().map(|at| sends[*at].host);
            let replicas = tracer.names(replicas);
            tracer.trace.note(format!("Determining replicas for mutation at {consistency}: {replicas}"));
        }
        let ways = if groups.is_empty() { 0 } else { bounds.len() - 1 };
        Ok(Rc::new_cyclic(|this| Writing {
            this: this.clone(),
            coordinator: coordinator.clone(),
            view: view.clone(),
            planned,
            consistency,
            kind,
            mutations,
            sends,
            bounds,
            groups,
            ways: vec![Cell::new(Way::Direct); ways],
            until: Cell::new(Instant(0)),
            state: RefCell::new(state),
            ended: Event::new(),
            tracer,
        }))
    }

    /// Sends it, and waits until the client can be told.
    pub(crate) async fn run(self: Rc<Self>, until: Instant) -> Ended {
        self.until.set(until);
        for group in 0..self.groups.len() {
            self.send_group(group);
        }
        for part in 0..self.parts() {
            if self.way(part) == Way::Direct {
                self.send(part);
            }
        }
        // Nobody to wait for.
        if self.parts() == 0 {
            return Ended::Told(Ok(()));
        }
        loop {
            if let Some(ended) = self.state.borrow_mut().ended.take() {
                return ended;
            }
            self.ended.wait().await;
        }
    }

    fn parts(&self) -> usize {
        self.bounds.len() - 1
    }

    fn part(&self, part: usize) -> &[Send] {
        &self.sends[self.bounds[part]..self.bounds[part + 1]]
    }

    fn picked(&self, part: usize) -> impl Iterator<Item = &Mutation> + Clone {
        self.part(part).iter().map(|send| &self.mutations[send.mutation])
    }

    fn way(&self, part: usize) -> Way {
        self.ways.get(part).map_or(Way::Direct, Cell::get)
    }

    /// Sends the parts of a group by one message; where that is not possible they go each by its own.
    fn send_group(self: &Rc<Self>, group: usize) {
        let Group { parts, timing } = &self.groups[group];
        let replica = |part: &u16| (self.part(usize::from(*part))[0].host, *part | HANDED);
        let (first, others) = parts.split_first().expect("a group has several parts");
        let others: Vec<(HostId, u16)> = others.iter().map(replica).collect();
        let picked = self.picked(usize::from(*first));
        let token = picked.clone().next().map(Mutation::token);
        let encode = |out: &mut Vec<u8>| replica::encode_write_to(picked, Durability::Mode, out);
        let gather: Rc<dyn Gather> = self.clone();
        let to = (replica(first), &*others);
        if let Some(tracer) = &self.tracer {
            let rest = tracer.names(others.iter().map(|(host, _)| *host));
            let forwarder = tracer.name(to.0.0);
            tracer
                .trace
                .note(format!("Sending MUTATION_REQ message to {forwarder}, which forwards it to {rest}"));
        }
        let (until, tracer) = (self.until.get(), self.tracer.as_ref());
        let sent = self.coordinator.forward_there(&self.view, to, (token, until), &gather, tracer, encode);
        if sent.is_ok() {
            self.coordinator.metrics.forwards.inc();
            *timing.borrow_mut() =
                self.coordinator.forwarders().begin(self.part(usize::from(*first))[0].host);
            parts.iter().for_each(|part| self.ways[usize::from(*part)].set(Way::Handed));
        }
    }

    /// A replica's answer that came through the one its part was handed to, or none.
    fn handed(&self, part: usize, answer: Result<&[u8], CallError>) {
        let group = self.groups.iter().find(|group| group.parts[0] == part as u16);
        if let Some(group) = group {
            group.timing.borrow().end(answer.is_ok());
        }
        if self.way(part) != Way::Handed {
            return;
        }
        let not_begun = match &answer {
            Ok(_) | Err(CallError::TimedOut { .. }) => false,
            Err(CallError::Unreachable { .. } | CallError::TooLarge { .. }) => group.is_none(),
            Err(CallError::Unsupported { .. } | CallError::Overloaded { .. } | CallError::Failed { .. }) => {
                true
            }
        };
        if !not_begun {
            self.ways[part].set(Way::Told);
            return self.note(part, written(answer));
        }
        // ⚔ Its replica may be alive, and whoever was to hand the write to it may not: it is sent again, which does no harm.
        self.send_again(part);
        // The others would hear of it at their deadline only.
        for other in group.iter().flat_map(|group| &group.parts[1..]) {
            if self.way(usize::from(*other)) == Way::Handed {
                self.send_again(usize::from(*other));
            }
        }
    }

    fn send_again(&self, part: usize) {
        self.ways[part].set(Way::Direct);
        match self.this.upgrade() {
            Some(this) if runtime::now() < self.until.get() => {
                self.coordinator.metrics.forwards_failed.inc();
                this.send(part);
            }
            Some(_) | None => self.note(part, Err(Silence::Unheard)),
        }
    }

    fn send(self: &Rc<Self>, part: usize) {
        let (host, until) = (self.part(part)[0].host, self.until.get());
        if host == self.view.snapshot.local_id() {
            return self.send_here(part, until);
        }
        let token = self.picked(part).next().map(Mutation::token);
        let encode = |out: &mut Vec<u8>| replica::encode_write_to(self.picked(part), Durability::Mode, out);
        if let Some(tracer) = &self.tracer {
            tracer.trace.note(format!("Sending MUTATION_REQ message to {}", tracer.name(host)));
        }
        let (version, gather, tracer) =
            (self.view.point().1, (self.clone() as Rc<dyn Gather>, part as u16), self.tracer.as_ref());
        let sent = self.coordinator.send_there(version, (host, token), until, gather, tracer, encode);
        if let Err(error) = sent {
            let answer = self.traced(part, false, Err(error));
            self.note(part, heard(answer).map(drop));
        }
    }

    fn send_here(self: &Rc<Self>, part: usize, until: Instant) {
        // What is counted is durable at its leader before it is sent.
        if self.kind == WriteKind::Counter {
            return self.note(part, Ok(()));
        }
        let local = self.coordinator.local();
        // Each mutation is at most once in a part.
        let is_all = self.part(part).len() == self.mutations.len();
        let picked: Vec<Mutation> = if is_all { Vec::new() } else { self.picked(part).cloned().collect() };
        let lent: &[Mutation] = if is_all { &self.mutations } else { &picked };
        let on = self.view.point();
        // A traced write says what it does in a task.
        let now = if self.tracer.is_none() { local.write_now(lent, Durability::Mode, on) } else { None };
        if let Some((written, _)) = now {
            return self.note(part, written.map_err(Silence::from));
        }
        let owned = if is_all { self.mutations.to_vec() } else { picked };
        let (this, local) = (self.clone(), local.clone());
        let trace = self.tracer.as_ref().map(|tracer| tracer.trace.clone());
        drop(runtime::spawn(Tasks::QUERY, async move {
            // In a task of its own: once begun, a write is never dropped half way.
            let write = async move { local.write(owned, Durability::Mode, on).await };
            let write = runtime::spawn_now(Tasks::QUERY, runtime::tracing::follow(trace, write));
            let written = match runtime::timeout_at(until, write).await {
                Ok(written) => written.map_err(Silence::from),
                Err(_) => Err(Silence::Unheard),
            };
            this.note(part, written);
        }));
    }

    /// A replica has answered, or will not.
    fn note(&self, part: usize, answer: Result<(), Silence>) {
        let host = self.part(part)[0].host;
        let mut state = self.state.borrow_mut();
        let is_open = !state.told;
        if is_open {
            let ended = self.ended_by(&mut state, part, &answer);
            state.ended = ended;
            state.told = state.ended.is_some();
        }
        let (wake, planned_again) =
            (is_open && state.told, matches!(state.ended, Some(Ended::Behind { .. })));
        drop(state);
        if answer.is_err() && !planned_again {
            let missed: Vec<Mutation> = self.picked(part).cloned().collect();
            let ticket = self.coordinator.tell_missed(host, &missed, self.planned);
            note_missed(self.tracer.as_ref(), host, ticket);
        }
        if wake {
            self.ended.notify_all();
        }
    }

    fn ended_by(&self, state: &mut State, part: usize, answer: &Result<(), Silence>) -> Option<Ended> {
        let host = self.part(part)[0].host;
        if let Err(Silence::Behind(version)) = answer {
            let needs = state.progress.iter().map(Progress::required).max().unwrap_or(1);
            return Some(Ended::Behind { host, version: *version, needs });
        }
        let from = self.view.address_of(host);
        let State { progress, reason, .. } = state;
        if self.parts() == 1 {
            let required = progress.iter().map(Progress::required).max().unwrap_or(1);
            return Some(Ended::Told(judge_one(answer.clone(), from, required, self.consistency, self.kind)));
        }
        for send in self.part(part) {
            progress[send.mutation].note(send.need, from, answer, reason);
        }
        if let Some(lost) = progress.iter().find(|one| one.is_lost()) {
            return Some(Ended::Told(Err(lost.error(self.consistency, self.kind, reason))));
        }
        progress.iter().all(Progress::is_done).then_some(Ended::Told(Ok(())))
    }
}

impl Writing {
    /// An answer of another node without the events that it brings for a traced request.
    fn traced<'a>(
        &self,
        part: usize,
        has_events: bool,
        answer: Result<&'a [u8], CallError>,
    ) -> Result<&'a [u8], CallError> {
        match &self.tracer {
            Some(tracer) => tracer.heard(self.part(part)[0].host, "MUTATION", has_events, answer),
            None => answer,
        }
    }
}

/// Notes whether what a replica missed is kept for it.
fn note_missed(tracer: Option<&Tracer>, host: HostId, ticket: Option<Ticket>) {
    if let Some(tracer) = tracer {
        let kept = if ticket.is_some() { "Kept a hint" } else { "No hint is kept" };
        tracer.trace.note(format!("{kept} for {}", tracer.name(host)));
    }
}

impl Gather for Writing {
    fn answered(&self, index: u16, answer: Result<&[u8], CallError>) {
        let (index, answer) = if self.tracer.is_some() {
            let plain = index & !TRACED;
            (plain, self.traced(usize::from(plain & !HANDED), index & TRACED != 0, answer))
        } else {
            (index, answer)
        };
        if index & HANDED != 0 {
            return self.handed(usize::from(index & !HANDED), answer);
        }
        self.note(usize::from(index), written(answer));
    }
}

fn written(answer: Result<&[u8], CallError>) -> Result<(), Silence> {
    match heard(answer)? {
        Response::Done => Ok(()),
        _ => Err(strange()),
    }
}

/// Which parts go to another datacenter together: those of replicas in one that get the same mutations. The one that hands them on is the fastest, of
/// equals another one for each token.
fn groups_of(
    coordinator: &Coordinator,
    view: &View,
    mutations: &[Mutation],
    sends: &[Send],
    bounds: &[usize],
) -> Vec<Group> {
    // Numbers of parts have one bit less than a call's.
    if !view.spans_dcs || usize::from(HANDED) < bounds.len() {
        return Vec::new();
    }
    let snapshot = &view.snapshot;
    let picked = |part: u16| {
        let sends = &sends[bounds[usize::from(part)]..bounds[usize::from(part) + 1]];
        sends.iter().map(|send| send.mutation)
    };
    let host = |part: u16| sends[bounds[usize::from(part)]].host;
    let mut groups: Vec<(&str, Vec<u16>)> = Vec::new();
    for part in 0..(bounds.len() - 1) as u16 {
        let Some(dc) = snapshot.dc_of(host(part)).filter(|dc| *dc != snapshot.local_dc()) else { continue };
        let fits = |(of, parts): &&mut (&str, Vec<u16>)| {
            *of == dc && parts.len() <= NAMED_MAX && picked(parts[0]).eq(picked(part))
        };
        match groups.iter_mut().find(fits) {
            Some((_, parts)) => parts.push(part),
            None => groups.push((dc, vec![part])),
        }
    }
    groups.retain(|(_, parts)| 1 < parts.len());
    if !groups.is_empty() {
        coordinator.forwarders().update(runtime::now());
    }
    let ordered = |(_, mut parts): (&str, Vec<u16>)| {
        let token = picked(parts[0]).next().map_or(0, |mutation| mutations[mutation].token().0);
        let turn = token.rem_euclid(parts.len() as i64) as usize;
        parts.rotate_left(turn);
        let fastest = (0..parts.len()).min_by_key(|at| coordinator.forwarders().class(host(parts[*at])));
        parts.swap(0, fastest.unwrap_or(0));
        Group { parts, timing: RefCell::new(Timing::none()) }
    };
    groups.into_iter().map(ordered).collect()
}

impl Progress {
    pub(crate) fn new(plan: &WritePlan) -> Progress {
        let need = |(at, required): (usize, &usize)| {
            let counts = |target: &&Target| target.need.map(usize::from) == Some(at);
            let open = plan.targets.iter().filter(counts).count();
            Need { required: *required, received: 0, failures: Vec::new(), open }
        };
        Progress { needs: plan.needs.iter().enumerate().map(need).collect() }
    }

    /// A replica whose answer counts for a need has given it, or will not.
    pub(crate) fn note(
        &mut self,
        need: Option<u8>,
        from: IpAddr,
        answer: &Result<(), Silence>,
        reason: &mut String,
    ) {
        let Some(need) = need.and_then(|need| self.needs.get_mut(usize::from(need))) else { return };
        need.open -= 1;
        match answer {
            Ok(()) => need.received += 1,
            Err(Silence::Unheard | Silence::Behind(_)) => {}
            Err(Silence::Failed(error)) => {
                need.failures.push((from, error.reason()));
                if reason.is_empty() {
                    *reason = error.to_string();
                }
            }
        }
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.needs.iter().any(|need| need.received + need.open < need.required)
    }

    pub(crate) fn is_done(&self) -> bool {
        self.needs.iter().all(|need| need.received >= need.required)
    }

    fn required(&self) -> usize {
        self.needs.iter().map(|need| need.required).sum()
    }

    pub(crate) fn error(&self, consistency: Consistency, kind: WriteKind, reason: &str) -> Error {
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

#[cfg(test)]
mod tests {
    //! A level that names datacenters is not met by answers from elsewhere.
    use super::*;
    use crate::fixture::{member, snapshot};
    use base::Token;
    use schema::Replication;

    fn done_after(consistency: Consistency, hosts: &[u8]) -> bool {
        let factors = [("here".to_string(), 3), ("there".to_string(), 3)].into();
        let plan = two_dcs(&Replication::NetworkTopology { factors }, consistency);
        let mut progress = Progress::new(&plan);
        for host in hosts {
            let (from, need) = target(&plan, *host);
            progress.note(need, from, &Ok(()), &mut String::new());
        }
        progress.is_done()
    }

    /// The plan of a write to three nodes here, which are 1 to 3, and three there.
    fn two_dcs(replication: &Replication, consistency: Consistency) -> WritePlan {
        let dc = |n: u8| if n <= 3 { "here" } else { "there" };
        let snapshot = snapshot((1..=6).map(|n| member(n, dc(n))).collect());
        let placements = snapshot.placements(replication);
        snapshot.plan_write(replication, placements.at(Token(0)), consistency).expect("all are alive")
    }

    fn target(plan: &WritePlan, host: u8) -> (IpAddr, Option<u8>) {
        let target = plan.targets.iter().find(|target| target.host.0 == u128::from(host)).expect("a target");
        (member(host, "").broadcast(), target.need)
    }

    #[test]
    fn answers_of_other_datacenters_do_not_count_for_local_levels() {
        assert!(!done_after(Consistency::LocalQuorum, &[4, 5, 6, 1]));
        assert!(done_after(Consistency::LocalQuorum, &[1, 3]));
        assert!(done_after(Consistency::Quorum, &[4, 5, 6, 1]));
    }

    #[test]
    fn each_quorum_wants_one_in_every_datacenter() {
        assert!(!done_after(Consistency::EachQuorum, &[1, 2, 3, 4]));
        assert!(done_after(Consistency::EachQuorum, &[1, 2, 5, 4]));
    }

    /// What the client of a write at QUORUM is told after these answers; `None`: it is still open.
    fn told(answers: &[(u8, Result<(), Silence>)]) -> Option<Result<(), Error>> {
        let plan = two_dcs(&Replication::Simple { factor: 3 }, Consistency::Quorum);
        let level = Consistency::Quorum;
        let mut progress = Progress::new(&plan);
        let mut reason = String::new();
        for (host, answer) in answers {
            let (from, need) = target(&plan, *host);
            progress.note(need, from, answer, &mut reason);
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
        assert_eq!(told(&[(1, failed()), (2, Ok(()))]), None, "the third may still do");
        assert_eq!(told(&[(1, failed()), (2, Ok(())), (3, Ok(()))]), Some(Ok(())));
        let (consistency, data_present, write) = (Consistency::Quorum, false, Some(WriteKind::Simple));
        let timeout = Error::Timeout { consistency, received: 1, required: 2, data_present, write };
        assert_eq!(told(&[(1, Ok(())), (2, late()), (3, late())]), Some(Err(timeout)));
        let failure = |received, failed: &[u8]| {
            let reason = "full".to_string();
            let from = |id: &u8| (member(*id, "here").broadcast(), Reason::Unknown);
            let failures = failed.iter().map(from).collect();
            Error::Failure { consistency, received, required: 2, failures, data_present, write, reason }
        };
        assert_eq!(told(&[(1, Ok(())), (2, late()), (3, failed())]), Some(Err(failure(1, &[3]))));
        assert_eq!(told(&[(1, failed()), (3, failed())]), Some(Err(failure(0, &[1, 3]))));
    }
}
