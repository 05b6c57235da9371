//! Reads: who is asked, what is compared, what is repaired.

use crate::coordinator::{Coordinator, micros};
use crate::error::Error;
use crate::limits::{READ_REPAIR_TIMEOUT, SHORT_READ_ROUNDS_MAX, SPECULATE_RANGE_AFTER};
use crate::merge::{Merged, agreed, for_replicas, merge_answers};
use crate::replicas::{Silence, heard, name_of_read, strange};
use crate::scan::{Piece, pieces};
use crate::snitch::Timing;
use crate::tracing::{TRACED, Tracer};
use crate::view::{Placed, View};
use base::{HostId, Instant};
use mutation::{Mutation, Page, ReadAnswer, ReadCommand, Scope};
use replica::{Reason, Request, Response};
use rpc::{CallError, Gather};
use runtime::Group;
use runtime::sync::{Event, Queue};
use schema::{SpeculativeRetry, Table};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;
use storage::Durability;
use topology::{ReadPlan, Target};
use types::Consistency;

/// What stays the same through one read.
struct Read<'r> {
    coordinator: &'r Rc<Coordinator>,
    view: Rc<View>,
    placed: Rc<Placed>,
    consistency: Consistency,
    deadline: Instant,
    /// A replica that knows a newer version of what the plan rests on: who asks must plan again.
    behind: Cell<Option<(HostId, u64)>>,
    /// Of a request that is traced.
    tracer: Option<Tracer>,
}

/// Answers of replicas, as they come.
struct Arrivals {
    /// Calls to other nodes, by number.
    asked: RefCell<Vec<(Target, Timing)>>,
    came: RefCell<VecDeque<Arrival>>,
    more: Event,
    /// Of a request that is traced, with what its messages are called.
    tracer: Option<(Tracer, &'static str)>,
}

type Arrival = (Target, Result<ReadAnswer, Silence>);

impl Arrivals {
    fn new(tracer: Option<(Tracer, &'static str)>) -> Rc<Arrivals> {
        Rc::new(Arrivals { asked: RefCell::default(), came: RefCell::default(), more: Event::new(), tracer })
    }

    fn push(&self, target: Target, answer: Result<ReadAnswer, Silence>) {
        self.came.borrow_mut().push_back((target, answer));
        self.more.notify_all();
    }

    async fn pop(&self) -> Arrival {
        loop {
            if let Some(arrival) = self.came.borrow_mut().pop_front() {
                return arrival;
            }
            self.more.wait().await;
        }
    }
}

impl Gather for Arrivals {
    fn answered(&self, index: u16, answer: Result<&[u8], CallError>) {
        let number = if self.tracer.is_some() { index & !TRACED } else { index };
        let target = {
            let asked = self.asked.borrow();
            let (target, timing) = &asked[usize::from(number)];
            timing.end(answer.is_ok());
            *target
        };
        let answer = match &self.tracer {
            Some((tracer, name)) => tracer.heard(target.host, name, index & TRACED != 0, answer),
            None => answer,
        };
        self.push(target, heard(answer).and_then(answer_of));
    }
}

/// The replicas of one piece of a read: the plan, as replicas answer, fail and stand in for each other.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Asked(ReadPlan);

impl Asked {
    /// Answers that are needed in all.
    fn needed(&self) -> usize {
        self.0.needs.iter().sum()
    }

    fn is_one(&self) -> bool {
        self.needed() == 1
    }

    /// Whether answers of these replicas meet the level.
    fn is_met(&self, have: &[Target]) -> bool {
        let count = |at: usize| have.iter().filter(|target| target.need.map(usize::from) == Some(at)).count();
        self.0.needs.iter().enumerate().all(|(at, needed)| count(at) >= *needed)
    }

    /// A replica that can stand in for another.
    fn take_spare(&mut self, missing: Target) -> Option<Target> {
        let at = self.0.spares.iter().position(|spare| spare.need == missing.need)?;
        Some(self.0.spares.remove(at))
    }

    /// Who takes the place of one of the `holders` of an answer; nobody where the others meet the level without it.
    /// Errors: they do not, and no spare can help.
    fn replace(&mut self, holders: &mut Vec<Target>, lost: Target) -> Result<Option<Target>, Lost> {
        holders.retain(|target| *target != lost);
        if self.is_met(holders) {
            return Ok(None);
        }
        let spare = self.take_spare(lost).ok_or(Lost)?;
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
        timeout: Duration,
    ) -> Result<ReadAnswer, Error> {
        self.metrics.reads.inc();
        let start = runtime::now();
        let answer = self.read_by(command, consistency, start + timeout).await;
        self.metrics.latency_of(&command.scope).record(micros(runtime::now().since(start)));
        answer
    }

    async fn read_by(
        self: &Rc<Self>,
        command: &ReadCommand,
        consistency: Consistency,
        deadline: Instant,
    ) -> Result<ReadAnswer, Error> {
        loop {
            let view = self.view();
            let placed = view.placed(command.table).ok_or(Error::UnknownTable)?;
            let behind = Cell::new(None);
            let tracer = Tracer::of(&view);
            let read = Read { coordinator: self, view, placed, consistency, deadline, behind, tracer };
            let answer = read.run(command).await;
            let Some((host, version)) = read.behind.take().filter(|_| answer.is_err()) else { return answer };
            self.catch_up(host, version, deadline).await;
            if deadline <= runtime::now() {
                return answer;
            }
        }
    }
}

impl Read<'_> {
    async fn run(&self, command: &ReadCommand) -> Result<ReadAnswer, Error> {
        let here = [self.view.snapshot.local_id()];
        if let Some(all) = self.placed.placements.of_all()
            && *all.read == here
        {
            self.plan(&here)?;
            return self.ask_here(command).await;
        }
        // Boxed, so that a read of one node's own data does not carry the room of merging several answers.
        Box::pin(self.run_pieces(command.clone())).await
    }

    async fn run_pieces(&self, command: ReadCommand) -> Result<ReadAnswer, Error> {
        let start = runtime::now();
        self.coordinator.snitch().update(start);
        let pieces = pieces(&self.placed.placements, &command);
        let plans = pieces.iter().map(|piece| self.plan(&piece.replicas));
        let asked = plans.collect::<Result<Vec<_>, _>>()?;
        let by_key = matches!(command.scope, Scope::Keys(_));
        let answer = self.read_pieces(pieces, asked, command).await;
        if by_key {
            self.placed.pace.reads.record(runtime::now().since(start));
        }
        answer
    }

    async fn read_pieces(
        &self,
        pieces: Vec<Piece>,
        mut asked: Vec<Asked>,
        command: ReadCommand,
    ) -> Result<ReadAnswer, Error> {
        if let ([_], [asked]) = (&*pieces, &mut *asked)
            && asked.is_one()
        {
            return self.ask_one(asked, command).await;
        }
        let mut page = Page::new(&command);
        for (index, (piece, mut asked)) in pieces.into_iter().zip(asked).enumerate() {
            let mut part = page.next(piece.scope);
            // Only the first piece can lie across the resume point.
            part.resume = part.resume.filter(|_| index == 0);
            page.push(self.read_piece(&mut asked, part).await?);
            if page.ends_before_more() {
                break;
            }
        }
        Ok(page.finish())
    }

    /// Who is asked for what these replicas hold.
    fn plan(&self, replicas: &[HostId]) -> Result<Asked, Error> {
        let replication = &self.placed.keyspace.replication;
        let class = |host| self.coordinator.snitch().class(host);
        let plan = self.view.snapshot.plan_read(replication, replicas, self.consistency, class);
        let asked = plan.map(Asked).map_err(|short| self.coordinator.unavailable(self.consistency, short))?;
        self.note(|tracer| {
            let hosts = |targets: &[Target]| tracer.names(targets.iter().map(|target| target.host));
            let (targets, spares) = (hosts(&asked.0.targets), hosts(&asked.0.spares));
            let spares = if spares.is_empty() { spares } else { format!("; of need also from {spares}") };
            format!("Reading data at {} from {targets}{spares}", self.consistency)
        });
        Ok(asked)
    }

    /// Adds an event to the trace of the request, if it is traced.
    fn note(&self, activity: impl FnOnce(&Tracer) -> String) {
        if let Some(tracer) = &self.tracer {
            tracer.trace.note(activity(tracer));
        }
    }

    /// For answers to a command.
    fn arrivals(&self, command: &ReadCommand) -> Rc<Arrivals> {
        Arrivals::new(self.tracer.clone().map(|tracer| (tracer, name_of_read(command))))
    }

    fn time_left(&self) -> Duration {
        self.deadline.saturating_duration_since(runtime::now())
    }

    /// The same message to this node's own replica, lent instead of given away.
    async fn ask_here(&self, command: &ReadCommand) -> Result<ReadAnswer, Error> {
        match runtime::timeout(self.time_left(), self.coordinator.local().read(command)).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(replica::Error::UnknownTable(_))) => Err(Error::UnknownTable),
            Ok(Err(error)) => {
                let here = (self.view.snapshot.local().broadcast(), error.reason());
                Err(self.failure((0, 1), false, vec![here], error.to_string()))
            }
            Err(_) => Err(self.timeout(0, 1, false)),
        }
    }

    /// The nearest replica's answer, or that of another once the nearest has failed or is slow; a slow one may still be
    /// the first to answer. No task of its own for a replica that is neither.
    async fn ask_one(&self, asked: &mut Asked, command: ReadCommand) -> Result<ReadAnswer, Error> {
        if self.always_asks_more(&command) && !asked.0.spares.is_empty() {
            let answers = self.gather(asked, Tally::default(), &command, false).await?;
            return Ok(answers.into_iter().next().expect("one was needed").1);
        }
        let first = asked.0.targets[0];
        let request = Request::Read(command.clone());
        let timing = self.begin_timing(first, &command);
        let ask = self.coordinator.clone().ask(first.host, request, self.view.point(), self.time_left());
        let mut answer = Box::pin(async move {
            let answer = ask.await;
            timing.end(answer != Err(Silence::Unheard));
            answer
        });
        let wait = self.speculation(&command).filter(|_| !asked.0.spares.is_empty());
        let mut tally = Tally::default();
        let mut slow = None;
        match runtime::timeout(wait.unwrap_or(self.time_left()), &mut answer)
            .await
            .map(|answer| answer.and_then(answer_of))
        {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(silence)) => {
                if silence == Silence::Unheard && !asked.0.spares.is_empty() {
                    asked.0.spares.push(first);
                }
                self.count_silence(&mut tally, first, silence);
            }
            Err(_) if wait.is_none() => asked.0.spares.clear(),
            Err(_) => {
                self.count_retry(first);
                slow = Some(answer);
            }
        }
        if asked.0.spares.is_empty() {
            return Err(self.lost(tally, 0, 1, false));
        }
        self.coordinator.metrics.read_stand_ins.inc();
        asked.0.targets = vec![asked.0.spares.remove(0)];
        let (mut open, arrived) = (Vec::new(), self.arrivals(&command));
        if let Some(answer) = slow {
            open.push(first);
            listen(first, answer, &arrived);
        }
        let answers = self.gather_more(asked, (open, arrived), tally, &command, false).await?;
        Ok(answers.into_iter().next().expect("one was needed").1)
    }

    fn count_silence(&self, tally: &mut Tally, from: Target, silence: Silence) {
        if let Silence::Behind(version) = silence {
            self.behind.set(Some((from.host, version)));
        }
        tally.note(self.view.address_of(from.host), silence);
    }

    /// How long a replica may take before another is asked, too; `None`: however long it takes.
    fn speculation(&self, command: &ReadCommand) -> Option<Duration> {
        let (policy, left) = (self.placed.speculative_retry, self.time_left());
        match (policy, &command.scope) {
            (SpeculativeRetry::Never, _) => None,
            // One more was asked at once.
            (SpeculativeRetry::Always, Scope::Keys(_)) => None,
            (_, Scope::Keys(_)) => {
                self.placed.pace.reads.wait(policy, runtime::now()).filter(|wait| *wait < left)
            }
            (_, Scope::Range(_)) => Some(SPECULATE_RANGE_AFTER.min(left / 2)),
        }
    }

    /// Whether one replica more than the level needs is asked at once.
    fn always_asks_more(&self, command: &ReadCommand) -> bool {
        self.placed.speculative_retry == SpeculativeRetry::Always && matches!(command.scope, Scope::Keys(_))
    }

    fn count_retry(&self, slow: Target) {
        self.note(|tracer| {
            format!(
                "Speculating read retry: {} is slow, or the table always asks one more",
                tracer.name(slow.host)
            )
        });
        self.coordinator.metrics.speculative_retries.inc();
        let retries = &self.placed.pace.retries;
        retries.set(retries.get() + 1);
    }

    fn timeout(&self, received: usize, required: usize, data_present: bool) -> Error {
        Error::Timeout { consistency: self.consistency, received, required, data_present, write: None }
    }

    /// This node, when what replicas sent cannot be put together.
    fn here(&self) -> Vec<(IpAddr, Reason)> {
        vec![(self.view.snapshot.local().broadcast(), Reason::Unknown)]
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
        let mut page = Page::new(&command);
        let mut round = command.clone();
        for _ in 0..SHORT_READ_ROUNDS_MAX {
            page.push(self.round(asked, &round).await?);
            let Some(stopped) = page.stopped().filter(|_| !page.is_full()) else { return Ok(page.finish()) };
            self.coordinator.metrics.short_reads.inc();
            self.note(|_| "Rows vanished on merging: reading on to fill the page".to_owned());
            round = ReadCommand { resume: Some(stopped.clone()), ..page.next(command.scope.clone()) };
        }
        // The page ends early; the next one goes on from where this one stopped.
        Ok(page.finish())
    }

    /// One data answer and digests of it; when they differ, everybody's data.
    async fn round(&self, asked: &mut Asked, command: &ReadCommand) -> Result<ReadAnswer, Error> {
        let whole = for_replicas(command);
        let answers = self.gather(asked, Tally::default(), &whole, true).await?;
        let digests: Vec<[u8; 16]> =
            answers.iter().map(|(_, answer)| digest_of(&self.placed.table, &whole, answer)).collect();
        if digests.windows(2).all(|pair| pair[0] == pair[1]) {
            let answer = agreed(command, answers.into_iter().map(|(_, answer)| answer).collect());
            if command.partition_row_limit == u32::MAX {
                return Ok(answer);
            }
            return Ok(self.merge(command, &[answer])?.answer);
        }
        self.coordinator.metrics.digest_mismatches.inc();
        self.note(|_| "Digest mismatch: reading data from all replicas of the level".to_owned());
        let answers = self.gather(asked, Tally::default(), &whole, false).await?;
        let (targets, answers): (Vec<Target>, Vec<ReadAnswer>) = answers.into_iter().unzip();
        let Merged { answer, repairs } = self.merge(command, &answers)?;
        if !self.placed.repairs_on_read {
            return Ok(answer);
        }
        self.repair(asked, &targets, repairs, &answer.partitions).await?;
        Ok(answer)
    }

    fn merge(&self, command: &ReadCommand, answers: &[ReadAnswer]) -> Result<Merged, Error> {
        let count = answers.len();
        merge_answers(&self.placed.table, command, answers)
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
    ) -> Result<Vec<(Target, ReadAnswer)>, Error> {
        self.gather_more(asked, (Vec::new(), self.arrivals(command)), tally, command, digests).await
    }

    /// As [`Read::gather`], with replicas that were asked for data before.
    async fn gather_more(
        &self,
        asked: &mut Asked,
        (mut open, arrived): (Vec<Target>, Rc<Arrivals>),
        mut tally: Tally,
        command: &ReadCommand,
        digests: bool,
    ) -> Result<Vec<(Target, ReadAnswer)>, Error> {
        let mut data_wanted = 1;
        if self.always_asks_more(command)
            && open.is_empty()
            && let Some(more) = asked.take_spare(asked.0.targets[0])
        {
            // Of data, too: either of the first two may be the slow one.
            self.count_retry(asked.0.targets[0]);
            asked.0.targets.insert(1, more);
            data_wanted = 2;
        }
        for target in std::mem::take(&mut asked.0.targets) {
            let digest_only = digests && data_wanted <= open.len();
            self.send(target, command, digest_only, &arrived);
            open.push(target);
        }
        let mut answers: Vec<(Target, ReadAnswer)> = Vec::with_capacity(open.len());
        let never = self.deadline + SPECULATE_RANGE_AFTER;
        let mut speculate_at = self.speculation(command).map_or(never, |wait| runtime::now() + wait);
        loop {
            let data_present = answers.iter().any(|(_, answer)| answer.digest.is_none());
            let have: Vec<Target> = answers.iter().map(|(target, _)| *target).collect();
            if data_present && asked.is_met(&have) {
                answers.sort_by_key(|(_, answer)| answer.digest.is_some());
                asked.0.targets = answers.iter().map(|(target, _)| *target).collect();
                asked.0.spares.extend(open);
                return Ok(answers);
            }
            let reachable = [&have[..], &open, &asked.0.spares].concat();
            if open.is_empty() || !asked.is_met(&reachable) {
                return Err(self.lost(tally, have.len(), asked.needed(), data_present));
            }
            // Those that a spare is to be asked for.
            let missing = match runtime::timeout_at(speculate_at, arrived.pop()).await {
                Err(_) => {
                    speculate_at = never;
                    let count = if asked.is_one() { 1 } else { open.len() };
                    if !asked.0.spares.is_empty() {
                        self.count_retry(open[0]);
                    }
                    open[..count].to_vec()
                }
                Ok(arrival) => {
                    let (target, answer) = arrival;
                    open.retain(|other| *other != target);
                    match answer {
                        Ok(answer) => {
                            answers.push((target, answer));
                            continue;
                        }
                        Err(silence) => self.count_silence(&mut tally, target, silence),
                    }
                    vec![target]
                }
            };
            if self.time_left().is_zero() {
                asked.0.spares.clear();
            }
            for target in missing {
                if let Some(spare) = asked.take_spare(target) {
                    self.coordinator.metrics.read_stand_ins.inc();
                    // Without data so far, whoever was asked for it may be the one that is missing.
                    let digest_only = digests && data_present;
                    self.send(spare, command, digest_only, &arrived);
                    open.push(spare);
                }
            }
        }
    }

    /// Asks one replica, whose answer comes among the others.
    fn send(&self, target: Target, command: &ReadCommand, digest_only: bool, arrived: &Rc<Arrivals>) {
        let command = ReadCommand { digest_only, ..command.clone() };
        if target.host == self.view.snapshot.local_id() {
            // A traced read says what it does in a task.
            let now = if self.tracer.is_none() { self.coordinator.local().read_now(&command) } else { None };
            if let Some((answer, _)) = now {
                return arrived.push(target, Ok(answer));
            }
            let request = Request::Read(command);
            return listen(
                target,
                self.coordinator.clone().ask(target.host, request, self.view.point(), self.time_left()),
                arrived,
            );
        }
        let number = {
            let mut asked = arrived.asked.borrow_mut();
            asked.push((target, self.begin_timing(target, &command)));
            (asked.len() - 1) as u16
        };
        self.note(|tracer| {
            let what = if digest_only { "a digest" } else { "data" };
            format!(
                "Sending {}_REQ message for {what} to {}",
                name_of_read(&command),
                tracer.name(target.host)
            )
        });
        let token = command.scope.first_token();
        let encode = |out: &mut Vec<u8>| replica::encode_read_to(&command, out);
        let gather = (arrived.clone() as Rc<dyn Gather>, number);
        let (version, until, tracer) = (self.view.point().1, self.deadline, self.tracer.as_ref());
        let sent = self.coordinator.send_there(version, (target.host, token), until, gather, tracer, encode);
        if let Err(error) = sent {
            self.note(|tracer| format!("Nothing is sent to {}: {error}", tracer.name(target.host)));
            arrived.asked.borrow()[usize::from(number)].1.end(false);
            arrived.push(target, heard(Err(error)).and_then(answer_of));
        }
    }

    /// Measures a call where it goes to another node and asks for partitions: ranges take as long as they are large.
    fn begin_timing(&self, target: Target, command: &ReadCommand) -> Timing {
        if matches!(command.scope, Scope::Range(_)) || target.host == self.view.snapshot.local_id() {
            return Timing::none();
        }
        self.coordinator.snitch().begin(target.host)
    }

    /// Brings replicas that lacked something up to date before the read is answered, so that a later read at the same
    /// level cannot see less. For one that cannot be written and that the level needs, a spare one gets the whole answer, and also for each that is
    /// slower than `additional_write_policy` says. Done when the level's replicas have it.
    async fn repair(
        &self,
        asked: &mut Asked,
        targets: &[Target],
        repairs: Vec<Vec<Mutation>>,
        whole: &[Mutation],
    ) -> Result<(), Error> {
        let arrived = Queue::new(targets.len() + asked.0.spares.len());
        // Who has the answer or will, and who of them has not confirmed it.
        let (mut holders, mut open) = (targets.to_vec(), Vec::new());
        for (target, mutations) in targets.iter().zip(repairs).filter(|(_, r)| !r.is_empty()) {
            self.send_repair(*target, mutations, &arrived);
            open.push(*target);
        }
        let (policy, now) = (self.placed.additional_write_policy, runtime::now());
        let never = self.deadline + READ_REPAIR_TIMEOUT;
        let wait = self.placed.pace.writes.wait(policy, now);
        let mut add_at = wait.map_or(never, |wait| now + wait);
        loop {
            let confirmed = |target: &&Target| !open.contains(target);
            let done: Vec<Target> = holders.iter().filter(confirmed).copied().collect();
            if asked.is_met(&done) {
                return Ok(());
            }
            let arrival = match runtime::timeout_at(add_at, arrived.pop()).await {
                Ok(arrival) => arrival.expect("the queue is not closed"),
                Err(_) => {
                    add_at = never;
                    for slow in open.clone() {
                        if let Some(spare) = asked.take_spare(slow) {
                            self.send_repair(spare, whole.to_vec(), &arrived);
                            holders.push(spare);
                            open.push(spare);
                        }
                    }
                    continue;
                }
            };
            let (target, done) = arrival;
            open.retain(|other| *other != target);
            match done {
                Ok(()) => continue,
                // Truncated behind this view: what was read may be gone.
                Err(Silence::Behind(version)) => {
                    self.behind.set(Some((target.host, version)));
                    return Err(self.timeout(0, asked.needed(), true));
                }
                Err(Silence::Unheard | Silence::Failed(_)) => {}
            }
            match asked.replace(&mut holders, target) {
                Ok(None) => {}
                Ok(Some(spare)) => {
                    self.send_repair(spare, whole.to_vec(), &arrived);
                    open.push(spare);
                }
                Err(Lost) => {
                    let (received, required) = (holders.len() - open.len(), asked.needed());
                    return Err(self.timeout(received.min(required - 1), required, true));
                }
            }
        }
    }

    fn send_repair(
        &self,
        target: Target,
        mutations: Vec<Mutation>,
        arrived: &Queue<(Target, Result<(), Silence>)>,
    ) {
        self.coordinator.metrics.read_repairs.inc();
        self.note(|tracer| format!("Read-repair of {}", tracer.name(target.host)));
        let (coordinator, arrived) = (self.coordinator.clone(), arrived.clone());
        let (on, timeout) = (self.view.point(), self.time_left().min(READ_REPAIR_TIMEOUT));
        let repair = async move {
            let request = Request::Write { mutations, durability: Durability::Mode };
            let done = coordinator.ask(target.host, request, on, timeout).await.map(|_| ());
            let _unwanted = arrived.try_push((target, done));
        };
        drop(runtime::spawn(Group::QUERY, runtime::tracing::carry(repair)));
    }
}

/// Has a replica's answer put among the others when it comes.
fn listen(
    target: Target,
    answer: impl Future<Output = Result<Response, Silence>> + 'static,
    arrived: &Rc<Arrivals>,
) {
    let arrived = arrived.clone();
    let listening = async move { arrived.push(target, answer.await.and_then(answer_of)) };
    drop(runtime::spawn(Group::QUERY, runtime::tracing::carry(listening)));
}

fn answer_of(response: Response) -> Result<ReadAnswer, Silence> {
    match response {
        Response::Answer(answer) => Ok(answer),
        _ => Err(strange()),
    }
}

/// The digest of an answer, whichever form it came in.
pub(crate) fn digest_of(table: &Table, command: &ReadCommand, answer: &ReadAnswer) -> [u8; 16] {
    let fault = runtime::planted(runtime::Bug::DigestStopsAtNull);
    let fault = fault.then_some(mutation::DigestFault::StopsAtNull);
    answer.digest.unwrap_or_else(|| mutation::digest(table, command, answer, fault))
}

#[cfg(test)]
mod tests;
