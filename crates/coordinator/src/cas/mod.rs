//! Lightweight transactions: the proposer. What it may conclude from answers, and why, is in `docs/mechanisms/paxos.md`; its rules are named here.

mod commit;
mod votes;

use crate::coordinator::Coordinator;
use crate::error::{Error, WriteKind};
use crate::limits::{CAS_PAUSE, CAS_PAUSE_DOUBLINGS};
use crate::merge::{for_replicas, merge_only};
use crate::replicas::Silence;
use crate::view::{Placed, View};
use base::{HostId, Instant};
use mutation::{Key, Mutation, ReadAnswer, ReadCommand, Scope, Slices};
use paxos::{Ask, Ballot, Promise, Proposal, Reply};
use replica::{Reason, Request, Response};
use runtime::Group;
use schema::{Table, TableId};
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;
use topology::{MemberState, Target};
use types::Consistency;
use votes::Votes;

/// A conditional statement or batch over one partition, bound to its values.
pub trait Conditional {
    /// What must be read of the partition to decide, and to write. Of one key, without limits.
    fn command(&self) -> &ReadCommand;
    /// What to write if the conditions hold on what was read; `None`: they do not.
    /// `at`: the time of all cells, µs; the keys of elements that are added to lists follow from it. Deletions of ranges and of the whole partition may be
    /// a microsecond earlier: rounds of one partition are that far apart.
    /// Errors: the statement cannot be carried out on what was read, whatever it is; the text for the client.
    fn decide(&self, answer: &ReadAnswer, at: i64) -> Result<Option<Mutation>, String>;
}

/// How a lightweight transaction ended.
pub struct Decided {
    /// Whether the conditions held, and what was to be written is agreed on.
    pub applied: bool,
    /// What was read to decide.
    pub answer: ReadAnswer,
}

/// What stays the same through all rounds of one transaction.
struct Transaction<'t> {
    coordinator: &'t Rc<Coordinator>,
    /// As replicas are asked.
    command: ReadCommand,
    table: TableId,
    key: Key,
    /// SERIAL or LOCAL_SERIAL.
    serial: Consistency,
    until: Instant,
    /// Who has given way to others begins no round from here on (`cas_contention_timeout`).
    contend_until: Instant,
    /// Of a write; `None`: of a read.
    write: Option<WriteKind>,
    /// No round of this time or before is begun any more.
    seen: i64,
    /// Rounds that gave way to others'.
    contention: u32,
    /// Pauses that were made, for others or because somebody did not answer.
    pauses: u32,
    /// The answers that the last plan asked for.
    required: usize,
}

/// Who takes part in a round.
struct Party {
    view: Rc<View>,
    placed: Rc<Placed>,
    /// Everybody alive who holds the partition or will, in scope; those with a need are counted.
    targets: Vec<Target>,
    /// Answers that must arrive, for each need of the plan.
    needs: Vec<usize>,
    /// Whether the partition has one holder, wherever, and is to have no other: there is nobody to agree with.
    is_one: bool,
}

/// Answers of those who take part, by what they count for.
struct Tally(Vec<Need>);

/// One need of a plan.
struct Need {
    /// Answers that are wanted still.
    wanted: usize,
    /// Answers that are still to come.
    left: usize,
}

impl Tally {
    fn new(party: &Party) -> Tally {
        let of = |(at, wanted): (usize, &usize)| {
            let left = party.targets.iter().filter(|target| target.need.map(usize::from) == Some(at)).count();
            Need { wanted: *wanted, left }
        };
        Tally(party.needs.iter().enumerate().map(of).collect())
    }

    /// The answer of one of them: whether it is what is wanted.
    fn note(&mut self, target: Target, is_wanted: bool) {
        if let Some(need) = target.need.and_then(|need| self.0.get_mut(usize::from(need))) {
            need.left -= 1;
            need.wanted = need.wanted.saturating_sub(usize::from(is_wanted));
        }
    }

    fn is_done(&self) -> bool {
        self.0.iter().all(|need| need.wanted == 0)
    }

    /// Whether it never will be.
    fn is_lost(&self) -> bool {
        self.0.iter().any(|need| need.left < need.wanted)
    }

    /// Whether no answer that counts is still to come.
    fn is_over(&self) -> bool {
        self.0.iter().all(|need| need.left == 0)
    }
}

/// Promises of a quorum.
struct Quorum {
    party: Party,
    ballot: Ballot,
    promises: Vec<(Target, Promise)>,
    /// Whether one of them has swept what others have not: something later is to be agreed on.
    is_swept_in_part: bool,
}

/// Whether a replica that lacks the rows of a commit is to get them with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Again {
    /// Yes.
    Rows,
    /// If it must be: what has deleted them since may be gone already.
    Later,
    /// ⚔ No: nobody would hide them again, and a repair has been due since.
    Never,
}

/// Tombstones that are younger than `gc_grace_seconds` of their table are there; what is younger itself than this many seconds is always brought.
const AGAIN_FOR_S: i64 = 3 * 60 * 60;

/// What becomes of the rows of a commit, by their age.
pub(crate) fn again(table: &Table, proposal: &Proposal) -> Again {
    let age_s = (runtime::unix_micros() - proposal.origin.micros()) / 1_000_000;
    again_at(age_s, i64::from(table.options.gc_grace_seconds))
}

fn again_at(age_s: i64, grace_s: i64) -> Again {
    match age_s {
        age if age < grace_s => Again::Rows,
        age if age < AGAIN_FOR_S.max(grace_s) => Again::Later,
        _ => Again::Never,
    }
}

/// What came of proposing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Proposed {
    /// A quorum has accepted: it is agreed on.
    Agreed,
    /// No quorum will accept it under this ballot. `whole`: nor has anybody accepted it, so that no later round can find it.
    Never { crowded: bool, whole: bool },
    /// Who knows.
    Unknown { accepted: usize },
}

impl Quorum {
    fn newest_commit(&self) -> Ballot {
        self.promises.iter().map(|(_, promise)| promise.committed).max().unwrap_or_default()
    }

    /// What was accepted last, if it is not known to be committed by anybody.
    fn pending(&self) -> Option<(Ballot, &Proposal)> {
        let committed = self.newest_commit();
        let accepted = self.promises.iter().filter_map(|(_, promise)| promise.accepted.as_ref());
        let newest = accepted.max_by_key(|(ballot, _)| *ballot)?;
        newest.0.is_later_than(committed).then_some((newest.0, &newest.1))
    }

    /// Whether it would write something: then it is to be finished first (P3.1).
    fn has_pending_write(&self) -> bool {
        self.pending().is_some_and(|(_, proposal)| proposal.mutation.is_some())
    }

    /// Whether a round may have proposed something that is not known to be committed.
    fn is_open(&self) -> bool {
        let committed = self.newest_commit();
        let open = self.promises.iter().filter_map(|(_, promise)| promise.open);
        self.pending().is_some() || open.into_iter().any(|open| open.is_later_than(committed))
    }

    /// The newest that was promised or committed before.
    fn newest(&self) -> Ballot {
        self.promises.iter().map(|(_, promise)| promise.newest).max().unwrap_or_default()
    }

    /// The latest floor of those that answered: at least one of them refuses every round up to it.
    fn floor(&self) -> Ballot {
        self.promises.iter().map(|(_, promise)| promise.floor).max().unwrap_or_default()
    }

    /// The proposal that was committed last, if anybody still has it.
    fn committed(&self) -> Option<&Proposal> {
        let committed = self.newest_commit();
        let of = |(_, promise): &&(Target, Promise)| promise.committed == committed;
        self.promises.iter().filter(of).find_map(|(_, promise)| promise.committed_proposal.as_ref())
    }

    /// Where those are that lack the newest commit.
    fn behind(&self) -> Vec<usize> {
        let newest = self.newest_commit();
        let lacks = |at: &usize| self.promises[*at].1.committed != newest;
        (0..self.promises.len()).filter(lacks).collect()
    }

    /// ⚔ Whether all say the same, of the state and of the rows. What is read where they do not may be of no moment: one has what was written by two
    /// rounds, the other only what the second one wrote.
    fn is_of_one_mind(&self) -> bool {
        let (_, first) = &self.promises[0];
        !self.is_swept_in_part
            && self.promises.iter().all(|(_, one)| one.committed == first.committed && one.rows == first.rows)
    }
}

impl Coordinator {
    /// Decides a conditional statement on what all have agreed on before it, and has all agree on what it writes.
    /// `serial`: among whom; `commit`: by how many what is agreed on must be written before the client is told.
    /// Errors: [`Error::Unavailable`] and [`Error::Invalid`]: nothing happened; [`Error::CasUnknown`]: it may take effect; [`Error::Timeout`] and
    /// [`Error::Failure`] at the serial level: it does not, but for a timeout after something was proposed; at the commit level: it is agreed on.
    /// Cost:   three round trips, the first two with a sync; for a partition of one holder two, with one sync.
    pub async fn cas(
        self: &Rc<Self>,
        what: &dyn Conditional,
        serial: Consistency,
        commit: Consistency,
        timeout: Duration,
    ) -> Result<Decided, Error> {
        let until = runtime::now() + timeout;
        self.metrics.cas_writes.inc();
        let mut transaction = Transaction::new(self, what.command(), serial, until, Some(WriteKind::Cas))?;
        transaction.refuse_commit(commit)?;
        let place = self.turns.place(transaction.table, transaction.key.clone());
        let Ok(_turn) = runtime::timeout_at(transaction.contend_until, place.lock().lock()).await else {
            return Err(transaction.late(0));
        };
        transaction.write(what, commit).await
    }

    /// Has what is open of a partition agreed on, or fenced off, among those whom a level asks for; the rows are of no interest.
    pub(crate) async fn settle(
        self: &Rc<Self>,
        table: TableId,
        key: Key,
        serial: Consistency,
        timeout: Duration,
    ) -> Result<(), Error> {
        let until = runtime::now() + timeout;
        let now_s = runtime::unix_seconds();
        let scope = Scope::Keys(std::iter::once(key).collect());
        let nothing = ReadCommand { slices: Slices::new(), ..ReadCommand::everything(table, scope, now_s) };
        let mut transaction = Transaction::new(self, &nothing, serial, until, None)?;
        // No client waits for it.
        transaction.contend_until = until;
        transaction.settle().await
    }

    /// Reads a partition as of the last conditional write of it that all have agreed on.
    /// Cost: one round trip and no sync, unless a conditional write is on its way.
    pub async fn read_serial(
        self: &Rc<Self>,
        command: &ReadCommand,
        serial: Consistency,
        timeout: Duration,
    ) -> Result<ReadAnswer, Error> {
        let until = runtime::now() + timeout;
        self.metrics.cas_reads.inc();
        Transaction::new(self, command, serial, until, None)?.read().await
    }
}

impl<'t> Transaction<'t> {
    fn new(
        coordinator: &'t Rc<Coordinator>,
        command: &ReadCommand,
        serial: Consistency,
        until: Instant,
        write: Option<WriteKind>,
    ) -> Result<Transaction<'t>, Error> {
        let key = match &command.scope {
            Scope::Keys(keys) if keys.len() == 1 => keys[0].clone(),
            Scope::Keys(_) | Scope::Range(_) => {
                return Err(Error::Invalid(
                    "SERIAL/LOCAL_SERIAL consistency may only be requested for one partition at a time"
                        .into(),
                ));
            }
        };
        let (command, table) = (for_replicas(command), command.table);
        let contend_until = until.min(runtime::now() + coordinator.cas_contention_timeout.get());
        let (seen, contention, pauses, required) = (i64::MIN, 0, 0, 0);
        Ok(Transaction {
            coordinator,
            command,
            table,
            key,
            serial,
            until,
            contend_until,
            write,
            seen,
            contention,
            pauses,
            required,
        })
    }

    /// Who takes part, by the newest view.
    fn party(&mut self) -> Result<Party, Error> {
        let view = self.coordinator.view();
        let plan = self.coordinator.plan_write_at(&view, self.table, self.key.token, self.serial)?;
        let placed = view.placed(self.table).ok_or(Error::UnknownTable)?;
        let holders = placed.placements.at(self.key.token);
        let replaces = |host: HostId| {
            let member = view.snapshot.member(host);
            member.is_some_and(|member| matches!(member.state, MemberState::Replacing(_)))
        };
        // Others' datacenters have no part in what is agreed on in one.
        let in_scope = |target: &Target| {
            let near = || view.snapshot.dc_of(target.host) == Some(view.snapshot.local_dc());
            target.need.is_some()
                || (replaces(target.host) && (self.serial != Consistency::LocalSerial || near()))
        };
        let targets: Vec<Target> = plan.targets.into_iter().filter(in_scope).collect();
        self.required = plan.needs.iter().sum();
        let is_one = holders.read.len() == 1 && holders.pending.is_empty();
        Ok(Party { view: view.clone(), placed: placed.clone(), targets, needs: plan.needs, is_one })
    }

    /// Errors: too few are alive for the level of the commit. Nothing was sent.
    fn refuse_commit(&self, commit: Consistency) -> Result<(), Error> {
        let view = self.coordinator.view();
        self.coordinator.plan_write_at(&view, self.table, self.key.token, commit).map(drop)
    }

    /// P1: later than all that is known.
    fn next_ballot(&mut self) -> Ballot {
        let last = &self.coordinator.last_ballot;
        let micros = runtime::unix_micros().max(self.seen.saturating_add(1)).max(last.get() + 1);
        last.set(micros);
        self.seen = micros;
        let who = if runtime::planted(runtime::Bug::BallotReused) { 1 } else { runtime::random_u64() };
        Ballot::new(micros, who)
    }

    /// What the client is told when there is no time left.
    fn late(&self, received: usize) -> Error {
        let (consistency, required) = (self.serial, self.required.max(1));
        let received = received.min(required - 1);
        match self.write {
            Some(_) => Error::CasTimeout { consistency, received, required, contention: self.contention },
            None => Error::Timeout { consistency, received, required, data_present: false, write: None },
        }
    }

    /// When no round may begin any more.
    fn last_begin(&self) -> Instant {
        if self.contention == 0 { self.until } else { self.contend_until }
    }

    fn is_late(&self) -> bool {
        self.last_begin() <= runtime::now()
    }

    /// P8: lets others finish.
    async fn give_way(&mut self) {
        self.contention = self.contention.saturating_add(1);
        self.coordinator.metrics.cas_contention.inc();
        self.pause().await;
    }

    /// P8: the same without anybody known to be there: a replica has not answered as it should.
    async fn pause(&mut self) {
        self.pauses = self.pauses.saturating_add(1);
        let most = (CAS_PAUSE.as_micros() as u64) << self.pauses.min(CAS_PAUSE_DOUBLINGS);
        let pause = Duration::from_micros(runtime::random_u64() % most + 1);
        let left = self.last_begin().saturating_duration_since(runtime::now());
        runtime::sleep(pause.min(left)).await;
    }

    /// P8: after a proposal that was not agreed on.
    async fn yield_to(&mut self, proposed: Proposed) {
        match proposed {
            Proposed::Never { crowded: true, .. } => self.give_way().await,
            Proposed::Never { .. } | Proposed::Unknown { .. } | Proposed::Agreed => self.pause().await,
        }
    }

    /// Asks all who take part for a promise, or with no ballot for a look, and waits for a quorum. `None`: others were let through, or the plan is
    /// old: begin again.
    async fn quorum(&mut self, party: Party, ballot: Option<Ballot>) -> Result<Option<Quorum>, Error> {
        let command = self.command.clone();
        let ask = match ballot {
            Some(ballot) => Ask::Prepare { ballot, command },
            None => Ask::Look { command },
        };
        let request = Request::Paxos(ask);
        let votes = Votes::ask(self.coordinator, &party.view, &party.targets, &request, self.until);
        let (mut promises, mut failures): (Vec<(Target, Promise)>, Vec<(IpAddr, Reason)>) =
            Default::default();
        let (mut tally, mut refused, mut said) = (Tally::new(&party), false, String::new());
        while !tally.is_done() {
            if tally.is_lost() {
                if refused {
                    self.give_way().await;
                    return Ok(None);
                }
                return Err(self.lost(promises.len(), failures, said));
            }
            let Some((target, vote)) = votes.next().await else { return Err(self.late(promises.len())) };
            let counts = target.need.is_some();
            tally.note(target, matches!(vote, Ok(Response::Paxos(Reply::Promise(_)))));
            match vote {
                Ok(Response::Paxos(Reply::Promise(promise))) if counts => promises.push((target, *promise)),
                Ok(Response::Paxos(Reply::Refused(newest))) => {
                    self.seen = self.seen.max(newest.micros());
                    refused |= counts;
                }
                Err(Silence::Behind(version)) => {
                    self.coordinator.catch_up(target.host, version, self.until).await;
                    return Ok(None);
                }
                Err(Silence::Failed(error)) if counts => {
                    failures.push((party.view.address_of(target.host), error.reason()));
                    said = error.to_string();
                }
                Ok(_) | Err(_) => {}
            }
        }
        for (_, promise) in &promises {
            self.seen = self.seen.max(promise.newest.micros());
        }
        Ok(Some(Quorum { party, ballot: ballot.unwrap_or_default(), promises, is_swept_in_part: false }))
    }

    /// Why a quorum cannot be had any more.
    fn lost(&self, received: usize, failures: Vec<(IpAddr, Reason)>, reason: String) -> Error {
        if failures.is_empty() {
            return self.late(received);
        }
        let (consistency, required, write) = (self.serial, self.required, self.write);
        Error::Failure { consistency, received, required, failures, data_present: false, write, reason }
    }

    /// The rows that a quorum has; `None`: a limit has cut short what they do not agree on.
    fn rows(&self, quorum: &mut Quorum) -> Result<Option<ReadAnswer>, Error> {
        let mut answers: Vec<ReadAnswer> =
            quorum.promises.iter_mut().map(|(_, promise)| std::mem::take(&mut promise.rows)).collect();
        if answers.windows(2).all(|pair| pair[0] == pair[1]) {
            return Ok(answers.pop());
        }
        if answers.iter().any(|answer| answer.stopped.is_some()) {
            return Ok(None);
        }
        let merged = merge_only(&quorum.party.placed.table, &self.command, &answers);
        merged.map(Some).map_err(|error| Error::Invalid(error.to_string()))
    }

    /// Has a quorum accept a proposal under the ballot that it has promised, on the plan on which it did ⚔ (P4).
    async fn propose(
        &mut self,
        party: &Party,
        ballot: Ballot,
        proposal: Proposal,
    ) -> Result<Proposed, Error> {
        let ask = Ask::Accept { table: self.table, key: self.key.clone(), ballot, proposal };
        self.put_forward(party, ask).await
    }

    async fn put_forward(&mut self, party: &Party, ask: Ask) -> Result<Proposed, Error> {
        let request = Request::Paxos(ask);
        let votes = Votes::ask(self.coordinator, &party.view, &party.targets, &request, self.until);
        let (mut accepted, mut free_of_it, mut crowded) = (0, 0, false);
        // What has come, and what may yet come: who does not answer may have accepted it.
        let (mut tally, mut possible) = (Tally::new(party), Tally::new(party));
        loop {
            if tally.is_done() {
                return Ok(Proposed::Agreed);
            }
            // P5: without so many that have refused, no quorum can accept it, now or later.
            if possible.is_lost() {
                return Ok(Proposed::Never { crowded, whole: free_of_it == party.targets.len() });
            }
            if tally.is_over() {
                return Ok(Proposed::Unknown { accepted });
            }
            let Some((target, vote)) = votes.next().await else { return Ok(Proposed::Unknown { accepted }) };
            if let Err(Silence::Behind(version)) = vote {
                self.coordinator.catch_up(target.host, version, self.until).await;
            }
            if let Ok(Response::Paxos(Reply::Refused(newest))) = &vote {
                self.seen = self.seen.max(newest.micros());
                crowded = true;
            }
            if matches!(vote, Ok(Response::Paxos(Reply::Refused(_))) | Err(Silence::Behind(_))) {
                free_of_it += 1;
            }
            // It fits nobody's log.
            if let Err(Silence::Failed(replica::Error::TooLarge(text))) = vote {
                return if accepted == 0 {
                    Err(Error::Invalid(text))
                } else {
                    Ok(Proposed::Unknown { accepted })
                };
            }
            if target.need.is_none() {
                continue;
            }
            let is_accepted = matches!(vote, Ok(Response::Paxos(Reply::Accepted)));
            tally.note(target, is_accepted);
            accepted += usize::from(is_accepted);
            // Both did nothing, and never will for this ballot: one promised a later round, the other does not take what is planned so.
            if matches!(vote, Ok(Response::Paxos(Reply::Refused(_))) | Err(Silence::Behind(_))) {
                possible.note(target, false);
            }
        }
    }
}

/// What this transaction has proposed and may still be found at somebody, with what it had decided on (P5).
#[derive(Default)]
struct Own(Vec<(Ballot, ReadAnswer)>);

/// What became of it.
enum Fate {
    /// One of them is agreed on, or will be when it is finished: what it had decided on.
    Applied(ReadAnswer),
    /// None of them, as far as this quorum knows; they are as long as nothing else is accepted by a quorum.
    Open,
    Unknown,
}

impl Own {
    fn fate_in(&self, quorum: &Quorum) -> Fate {
        let Some(oldest) = self.0.iter().map(|(ballot, _)| *ballot).min() else { return Fate::Open };
        let own =
            |origin: Ballot| self.0.iter().find(|(ballot, _)| *ballot == origin).map(|(_, answer)| answer);
        let committed = quorum.newest_commit();
        let pending = quorum.pending().map(|(_, proposal)| proposal);
        let newest = pending.or_else(|| quorum.committed());
        match newest.and_then(|proposal| Some((proposal, own(proposal.origin)?))) {
            Some((proposal, answer)) if proposal.mutation.is_some() => return Fate::Applied(answer.clone()),
            // The table was truncated since: it may have been there before.
            Some(_) => return Fate::Unknown,
            None => {}
        }
        if pending.is_none()
            && let Some(answer) = own(committed)
        {
            return Fate::Applied(answer.clone());
        }
        // A later round of another proposer is committed, perhaps on top of this one. ⚔ Or this one was committed, and its ballots were swept.
        let swept = if runtime::planted(runtime::Bug::SweptIsNever) { Ballot::NONE } else { quorum.floor() };
        if committed.max(swept) < oldest { Fate::Open } else { Fate::Unknown }
    }
}

impl Transaction<'_> {
    async fn write(&mut self, what: &dyn Conditional, commit: Consistency) -> Result<Decided, Error> {
        let mut own = Own::default();
        loop {
            match self.round(what, commit, &mut own).await {
                Ok(Some(decided)) => return Ok(decided),
                // What was proposed is followed for as long as there is time.
                Ok(None) if !own.0.is_empty() && runtime::now() < self.until => {}
                Ok(None) if !self.is_late() => {}
                // ⚔ Nothing that says that nothing has happened once something may have (P2).
                Ok(None) if own.0.is_empty() => return Err(self.late(0)),
                Ok(None) => return Err(self.unknown(0)),
                Err(Error::CasUnknown { consistency, received, required }) => {
                    return Err(Error::CasUnknown { consistency, received, required });
                }
                Err(_) if !own.0.is_empty() => return Err(self.unknown(0)),
                Err(error) => return Err(error),
            }
        }
    }

    fn unknown(&self, received: usize) -> Error {
        Error::CasUnknown { consistency: self.serial, received, required: self.required }
    }

    /// One round; `None`: begin again.
    async fn round(
        &mut self,
        what: &dyn Conditional,
        commit: Consistency,
        own: &mut Own,
    ) -> Result<Option<Decided>, Error> {
        let party = self.party()?;
        // What was proposed to the only holder may still be on its way to it: only a promise fences it off.
        let looks = party.is_one && own.0.is_empty();
        let ballot = self.next_ballot();
        let Some(mut quorum) = self.quorum(party, (!looks).then_some(ballot)).await? else { return Ok(None) };
        if looks && quorum.is_open() {
            let Some(promised) = self.quorum(quorum.party, Some(ballot)).await? else { return Ok(None) };
            quorum = promised;
        }
        let alone = quorum.ballot.is_none();
        match own.fate_in(&quorum) {
            Fate::Open => {}
            Fate::Unknown => return Err(self.unknown(0)),
            Fate::Applied(answer) => {
                let applied = self.apply_own(&quorum, commit, own).await?;
                return Ok(applied.then_some(Decided { applied: true, answer }));
            }
        }
        // Another's: P3.1.
        if quorum.has_pending_write() {
            if self.finish(&quorum, self.level_of_scope()).await? {
                own.0.clear();
            }
            return Ok(None);
        }
        if !self.bring_up(&mut quorum).await? {
            return Ok(None);
        }
        let is_settled = own.0.is_empty() && !quorum.is_open() && quorum.is_of_one_mind();
        let Some(answer) = self.rows(&mut quorum)? else {
            return Err(Error::Invalid(
                "the rows that the conditions are about are too many to be read at once".into(),
            ));
        };
        let decided = what.decide(&answer, ballot.micros()).map_err(Error::Invalid)?;
        let planned = self.planned(&quorum.party.view);
        let Some(mutation) = decided else {
            if alone || self.fence(&quorum, planned, is_settled).await? {
                own.0.clear();
                return Ok(Some(Decided { applied: false, answer }));
            }
            return Ok(None);
        };
        let proposal = Proposal { origin: ballot, planned, mutation: Some(mutation) };
        let proposed = if alone {
            let (table, key, expected) = (self.table, self.key.clone(), quorum.newest());
            let ask = Ask::Swap { table, key, expected, ballot, proposal: proposal.clone() };
            self.put_forward(&quorum.party, ask).await?
        } else {
            self.propose(&quorum.party, ballot, proposal.clone()).await?
        };
        match proposed {
            Proposed::Agreed => {
                // It is agreed on, whatever comes now, and what was proposed before never will be.
                own.0.clear();
                if !alone {
                    self.commit(ballot, proposal, commit).await?;
                }
                Ok(Some(Decided { applied: true, answer }))
            }
            Proposed::Never { crowded, whole } => {
                if !whole {
                    own.0.push((ballot, answer));
                }
                if crowded {
                    self.give_way().await;
                }
                Ok(None)
            }
            Proposed::Unknown { accepted } => {
                own.0.push((ballot, answer));
                if self.until <= runtime::now() {
                    return Err(self.unknown(accepted));
                }
                self.pause().await;
                Ok(None)
            }
        }
    }

    /// What this transaction has proposed is agreed on, or is what was accepted last. `false`: begin again.
    async fn apply_own(
        &mut self,
        quorum: &Quorum,
        commit: Consistency,
        own: &mut Own,
    ) -> Result<bool, Error> {
        if quorum.pending().is_some() {
            return self.finish(quorum, commit).await;
        }
        // Whoever has committed it may have done so by fewer than this client wants.
        if let Some(proposal) = quorum.committed().cloned() {
            own.0.clear();
            self.commit(quorum.newest_commit(), proposal, commit).await?;
        }
        Ok(true)
    }

    fn planned(&self, view: &View) -> paxos::Planned {
        let planned = self.coordinator.plan_now(view);
        paxos::Planned { on: (planned.on.0, planned.on.1), at: planned.at }
    }

    /// The level by which what others have proposed is committed.
    fn level_of_scope(&self) -> Consistency {
        match self.serial {
            Consistency::LocalSerial => Consistency::LocalQuorum,
            _ => Consistency::Quorum,
        }
    }

    /// P3.1: has what was accepted last agreed on under this round. `false`: begin again.
    async fn finish(&mut self, quorum: &Quorum, level: Consistency) -> Result<bool, Error> {
        let Some((_, proposal)) = quorum.pending() else { return Ok(true) };
        let proposal = proposal.clone();
        self.coordinator.metrics.cas_finished.inc();
        match self.propose(&quorum.party, quorum.ballot, proposal.clone()).await? {
            Proposed::Agreed => {
                self.commit(quorum.ballot, proposal, level).await?;
                Ok(true)
            }
            other => {
                self.yield_to(other).await;
                Ok(false)
            }
        }
    }

    /// ⚔ P3.4 and P6: nothing proposed before this round may surface behind an answer that says what there is. `false`: begin again.
    async fn fence(
        &mut self,
        quorum: &Quorum,
        planned: paxos::Planned,
        is_settled: bool,
    ) -> Result<bool, Error> {
        let (ballot, table) = (quorum.ballot, self.table);
        if is_settled || runtime::planted(runtime::Bug::PaxosNoFence) {
            let released = self.coordinator.records.released(table, &self.key, ballot);
            self.tell(&quorum.party, released);
            return Ok(true);
        }
        let nothing = Proposal { origin: ballot, planned, mutation: None };
        match self.propose(&quorum.party, ballot, nothing).await? {
            Proposed::Agreed => {
                let committed = self.coordinator.records.committed(table, &self.key, ballot, None);
                self.tell(&quorum.party, committed);
                Ok(true)
            }
            other => {
                self.yield_to(other).await;
                Ok(false)
            }
        }
    }

    /// Writes a part of the state at everybody, and waits for nobody.
    fn tell(&self, party: &Party, state: Mutation) {
        let request = Request::Write { mutations: vec![state], durability: storage::Durability::Mode };
        drop(Votes::ask(self.coordinator, &party.view, &party.targets, &request, self.until));
    }

    /// ⚔ P3.2: a quorum has the newest commit, durably, before anything else is proposed, and nothing is decided on rows that lack it: who is
    /// behind gets it and is read again. `false`: begin again.
    async fn bring_up(&mut self, quorum: &mut Quorum) -> Result<bool, Error> {
        let behind = quorum.behind();
        if behind.is_empty() || runtime::planted(runtime::Bug::PaxosLeavesBehind) {
            return Ok(true);
        }
        let newest = quorum.newest_commit();
        // Without the mutation it wrote nothing, or every holder of that time had it durably, and who came later was filled from them.
        let table = &quorum.party.placed.table;
        let proposal = quorum.committed().filter(|proposal| again(table, proposal) != Again::Never);
        let state = self.coordinator.records.committed(self.table, &self.key, newest, proposal);
        let mutation = proposal.and_then(|proposal| proposal.mutation.clone());
        let mutations = mutation.into_iter().chain([state]).collect();
        let targets: Vec<Target> = behind.iter().map(|at| quorum.promises[*at].0).collect();
        let view = quorum.party.view.clone();
        let request = Request::Write { mutations, durability: storage::Durability::Synced };
        let votes = Votes::ask(self.coordinator, &view, &targets, &request, self.until);
        for _ in &targets {
            match votes.next().await {
                Some((_, Ok(_))) => {}
                Some((target, Err(Silence::Behind(version)))) => {
                    self.coordinator.catch_up(target.host, version, self.until).await;
                    return Ok(false);
                }
                Some((_, Err(_))) => {
                    self.pause().await;
                    return Ok(false);
                }
                None => return Err(self.late(0)),
            }
        }
        let request = Request::Paxos(Ask::Look { command: self.command.clone() });
        let votes = Votes::ask(self.coordinator, &view, &targets, &request, self.until);
        for _ in &targets {
            let Some((target, vote)) = votes.next().await else { return Err(self.late(0)) };
            let Ok(Response::Paxos(Reply::Promise(promise))) = vote else { return Ok(false) };
            // S3: it has confirmed the commit, and a tombstone hides it.
            let is_swept = promise.committed.is_none() && newest <= promise.floor;
            let has = promise.committed == newest || is_swept;
            let passed = !has || (!quorum.ballot.is_none() && promise.newest != quorum.ballot);
            let place = quorum.promises.iter().position(|(one, _)| *one == target);
            let (Some(place), false) = (place, passed) else {
                self.seen = self.seen.max(promise.newest.micros());
                return Ok(false);
            };
            let before = &mut quorum.promises[place].1;
            (before.rows, before.committed) = (promise.rows, newest);
            quorum.is_swept_in_part |= is_swept;
        }
        Ok(true)
    }

    async fn settle(&mut self) -> Result<(), Error> {
        loop {
            if self.is_late() {
                return Err(self.late(0));
            }
            let party = self.party()?;
            let ballot = self.next_ballot();
            let Some(mut quorum) = self.quorum(party, Some(ballot)).await? else { continue };
            if quorum.has_pending_write() {
                self.finish(&quorum, self.level_of_scope()).await?;
                continue;
            }
            if !self.bring_up(&mut quorum).await? {
                continue;
            }
            let planned = self.planned(&quorum.party.view);
            let is_settled = !quorum.is_open();
            if self.fence(&quorum, planned, is_settled).await? {
                return Ok(());
            }
        }
    }

    async fn read(&mut self) -> Result<ReadAnswer, Error> {
        let mut looks = 0;
        loop {
            if self.is_late() {
                return Err(self.late(0));
            }
            let party = self.party()?;
            let ballot = (LOOKS <= looks).then(|| self.next_ballot());
            let Some(mut quorum) = self.quorum(party, ballot).await? else { continue };
            if ballot.is_none() {
                if !quorum.is_open() && quorum.is_of_one_mind() {
                    return Ok(quorum.promises.swap_remove(0).1.rows);
                }
                // Whoever is at work may be done in a moment; who takes part in it would hold it up.
                looks = if quorum.pending().is_some() { LOOKS } else { looks + 1 };
                if looks < LOOKS {
                    self.give_way().await;
                }
                continue;
            }
            if quorum.has_pending_write() {
                self.finish(&quorum, self.level_of_scope()).await?;
                looks = 0;
                continue;
            }
            if !self.bring_up(&mut quorum).await? {
                continue;
            }
            let differ = !quorum.is_of_one_mind();
            let is_settled = !differ && !quorum.is_open();
            let planned = self.planned(&quorum.party.view);
            if !self.fence(&quorum, planned, is_settled).await? {
                continue;
            }
            if differ {
                self.mend_rows();
            }
            match self.rows(&mut quorum)? {
                Some(answer) => return Ok(answer),
                // A limit has cut short what replicas do not agree on: again, when they do.
                None => self.pause().await,
            }
            looks = 0;
        }
    }

    /// Has replicas whose rows differ get what they lack, so that the next reads need one round. Nobody waits for it.
    fn mend_rows(&self) {
        let (coordinator, command, until) = (self.coordinator.clone(), self.command.clone(), self.until);
        drop(runtime::spawn(Group::QUERY, async move {
            let left = until.saturating_duration_since(runtime::now());
            // Not everybody may be there: then another read does.
            let _repaired = coordinator.read(&command, Consistency::All, left).await;
        }));
    }
}

/// Looks without a promise at a partition that somebody is at work on.
const LOOKS: u32 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_whose_tombstones_may_be_gone_are_not_written_again() {
        let (hour, days) = (3_600, 10 * 86_400);
        assert_eq!(again_at(days - 1, days), Again::Rows);
        assert_eq!(again_at(days, days), Again::Never);
        assert_eq!(again_at(-5, 0), Again::Rows, "of a clock that is ahead");
        assert_eq!(again_at(0, 0), Again::Later, "a round that is under way needs them");
        assert_eq!(again_at(2 * hour, hour), Again::Later);
        assert_eq!(again_at(3 * hour, hour), Again::Never);
    }
}
