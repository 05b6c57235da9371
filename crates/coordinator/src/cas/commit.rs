//! The commit of what is agreed on: sent to every replica, now or by a hint.

use super::Transaction;
use super::votes::Votes;
use crate::coordinator::Coordinator;
use crate::error::{Error, WriteKind};
use crate::replicas::Silence;
use crate::view::View;
use crate::writing::Progress;
use base::Instant;
use mutation::{Key, Mutation};
use paxos::{Ballot, Proposal};
use replica::Request;
use runtime::Group;
use runtime::sync::oneshot;
use schema::TableId;
use std::rc::Rc;
use storage::{Durability, Planned};
use topology::WritePlan;
use types::Consistency;

/// One commit on its way.
struct Commit {
    coordinator: Rc<Coordinator>,
    table: TableId,
    key: Key,
    ballot: Ballot,
    proposal: Proposal,
    level: Consistency,
    until: Instant,
}

impl Transaction<'_> {
    /// P7: sends a round that is agreed on to every replica, and waits for as many as the level wants. What a replica does not confirm is kept for it.
    /// Errors: too few have confirmed it in time. It is agreed on all the same.
    pub(super) async fn commit(
        &self,
        ballot: Ballot,
        proposal: Proposal,
        level: Consistency,
    ) -> Result<(), Error> {
        let commit = Commit {
            coordinator: self.coordinator.clone(),
            table: self.table,
            key: self.key.clone(),
            ballot,
            proposal,
            level,
            until: self.until,
        };
        let (told, outcome) = oneshot::channel();
        // In a task of its own: it goes on when the client has its answer.
        drop(runtime::spawn_now(Group::QUERY, runtime::tracing::carry(commit.run(told))));
        outcome.await.unwrap_or_else(|_| Err(self.late(0)))
    }
}

/// How a commit went on one plan.
enum Went {
    /// Every replica has confirmed it.
    Whole,
    /// Some have not; it is kept for them.
    InPart,
    /// The plan is old.
    Moved,
}

impl Commit {
    async fn run(self, told: oneshot::Sender<Result<(), Error>>) {
        let mut told = Some(told);
        loop {
            let view = self.coordinator.view();
            let planned = replica::planned_of(self.proposal.planned);
            // ⚔ Asked after the view was taken: what is truncated from here on is refused by replicas.
            if self.coordinator.local().is_overtaken(self.table, planned).await {
                return tell(&mut told, Ok(()));
            }
            match self.once(&view, planned, &mut told).await {
                Went::Whole => return self.prune(&view),
                Went::InPart if runtime::planted(runtime::Bug::PruneEarly) => return self.prune(&view),
                Went::InPart => return,
                Went::Moved if self.until <= runtime::now() => {
                    return tell(&mut told, Err(self.late(1)));
                }
                Went::Moved => {}
            }
        }
    }

    fn late(&self, required: usize) -> Error {
        let (consistency, write) = (self.level, Some(WriteKind::Simple));
        Error::Timeout { consistency, received: 0, required, data_present: false, write }
    }

    fn plan(&self, view: &View, level: Consistency) -> Option<Result<WritePlan, topology::Shortfall>> {
        let placed = view.placed(self.table)?;
        let holders = placed.placements.at(self.key.token);
        Some(view.snapshot.plan_write(&placed.keyspace.replication, holders, level))
    }

    async fn once(
        &self,
        view: &Rc<View>,
        planned: Planned,
        told: &mut Option<oneshot::Sender<Result<(), Error>>>,
    ) -> Went {
        let Some(plan) = self.plan(view, self.level) else {
            tell(told, Ok(()));
            return Went::InPart;
        };
        let plan = match plan {
            Ok(plan) => plan,
            Err(short) => {
                // ⚔ Never Unavailable: it is agreed on. Everybody alive gets it all the same.
                tell(told, Err(self.late(short.required)));
                match self.plan(view, Consistency::Any) {
                    Some(Ok(plan)) => plan,
                    Some(Err(_)) | None => return Went::InPart,
                }
            }
        };
        let state =
            |proposal| self.coordinator.records.committed(self.table, &self.key, self.ballot, proposal);
        let mut mutations: Vec<Mutation> = self.proposal.mutation.iter().cloned().collect();
        let rows = mutations.clone();
        mutations.push(state(Some(&self.proposal)));
        let missed = |host| {
            if !rows.is_empty() {
                self.coordinator.tell_missed(host, &rows, planned);
            }
        };
        plan.missed.iter().copied().for_each(missed);
        let mut whole = plan.missed.is_empty();
        let mut progress = Progress::new(&plan);
        let mut said = String::new();
        // ⚔ Synced: what everybody has confirmed is forgotten by `prune`, and a quorum must have it whatever happens.
        let request = Request::Write { mutations, durability: Durability::Synced };
        let votes = Votes::ask(&self.coordinator, view, &plan.targets, &request, self.until);
        let mut silent: Vec<_> = plan.targets.iter().map(|target| target.host).collect();
        let mut moved = false;
        while !silent.is_empty() {
            let Some((target, vote)) = votes.next().await else { break };
            silent.retain(|host| *host != target.host);
            let vote = vote.map(drop);
            if let Err(Silence::Behind(version)) = &vote {
                self.coordinator.catch_up(target.host, *version, self.until).await;
                moved = true;
                continue;
            }
            if vote.is_err() {
                whole = false;
                missed(target.host);
            }
            progress.note(target.need, view.address_of(target.host), &vote, &mut said);
            if progress.is_done() {
                tell(told, Ok(()));
            } else if progress.is_lost() && !moved {
                tell(told, Err(progress.error(self.level, WriteKind::Simple, &said)));
            }
        }
        if moved {
            return Went::Moved;
        }
        if !silent.is_empty() {
            whole = false;
            silent.into_iter().for_each(missed);
            tell(told, Err(progress.error(self.level, WriteKind::Simple, &said)));
        }
        if whole { Went::Whole } else { Went::InPart }
    }

    /// ⚔ Everybody has it: nobody will ask for the mutation any more. Ballots stay.
    fn prune(&self, view: &View) {
        let Some(Ok(plan)) = self.plan(view, Consistency::Any) else { return };
        let state = self.coordinator.records.pruned(self.table, &self.key, self.ballot);
        let request = Request::Write { mutations: vec![state], durability: Durability::Mode };
        self.coordinator.metrics.cas_prunes.inc();
        drop(Votes::ask(&self.coordinator, view, &plan.targets, &request, self.until));
    }
}

fn tell(told: &mut Option<oneshot::Sender<Result<(), Error>>>, outcome: Result<(), Error>) {
    if let Some(told) = told.take() {
        // Nobody may wait any more.
        let _unheard = told.send(outcome);
    }
}
