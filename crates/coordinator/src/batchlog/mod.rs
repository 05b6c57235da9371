//! Logged batches of several shards or nodes: all of one is written in the end, or none of it ever. How, and what comes of each failure:
//! `docs/mechanisms/batchlog.md`.
//!
//! ```text
//!   system.batches of two other nodes ◀─ 1 the whole batch        of this node, where every part goes to it alone: in the same entry of the
//!   replicas                          ◀─ 2 their parts            log what this shard owns of it
//!   system.batches                    ◀─ 3 the batch is gone
//! ```
//! Whoever keeps a batch that is not removed in time writes it again with the timestamps it had.
//!
//! Nothing is written again that may have been deleted and forgotten since: a batch older than the shortest
//! `gc_grace_seconds` of its tables is let go, and so is what a truncation or a drop has taken away.
//! A batch that goes to one shard of this node alone needs none of this: it is one entry of that shard's log.
//!
//! All of that is as durable as the log is. With `commitlog_sync: periodic` a power cut takes the last moments of each
//! shard's log: of a node alone it may take 1 and leave some of 2, or leave 3 and take some of 2, and then half of a batch is there.

mod entry;
mod kept;
mod keepers;
mod keep;
mod replay;

pub(crate) use keep::{Batches, VERB_BATCH};
pub(crate) use kept::Kept;

use crate::coordinator::Coordinator;
use crate::error::{Error, WriteKind};
use crate::replicas::Silence;
use crate::view::View;
use crate::write::{Asked, Once, judge_one};
use entry::{Entry, batches, owner};
use keep::Keepers;
use mutation::Mutation;
use runtime::{Bug, Group};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use storage::{Durability, Point};
use types::Consistency;

impl Coordinator {
    /// Whether a logged batch is more than one entry of one log.
    pub(crate) fn needs_batchlog(&self, mutations: &[Mutation]) -> bool {
        let view = self.view();
        let alone = mutations.iter().all(|mutation| view.is_only_here(mutation));
        let keyspace =
            |mutation: &Mutation| view.placed(mutation.table()).map(|placed| placed.keyspace.name.clone());
        let apart = |pair: &[Mutation]| {
            let (a, b) = (pair[0].token(), pair[1].token());
            match alone {
                true => owner(a) != owner(b),
                // Keyspaces may have other replicas for the same key.
                false => {
                    a != b || pair[0].table() != pair[1].table() && keyspace(&pair[0]) != keyspace(&pair[1])
                }
            }
        };
        mutations.windows(2).any(apart)
    }

    /// Writes a logged batch; see the head of this file.
    /// Errors: `BatchLog` says that it is not known whether the batch was kept: all of it will be written, or nothing;
    /// `Batch` that it was, and will be written in the end.
    pub(crate) async fn write_logged(
        self: &Rc<Self>,
        mutations: Vec<Mutation>,
        consistency: Consistency,
        timeout: Duration,
    ) -> Result<(), Error> {
        let asked = Asked::now(consistency, WriteKind::Batch, timeout);
        let view = self.view();
        self.check_levels(&view, &mutations, consistency)?;
        let entry = Entry::drawn(batches(&view.schema)?, self.plan_now(&view));
        let is_alone = mutations.iter().all(|mutation| view.is_only_here(mutation));
        let keepers = if is_alone { None } else { Some(self.first_keepers(&view, consistency)?) };
        let late = keepers.as_ref().map_or((consistency, 1), Keepers::level);
        let coordinator = self.clone();
        let kept = Rc::new(Cell::new(false));
        let told = kept.clone();
        // In a task of its own: once begun, a write is never dropped half way.
        let work = runtime::tracing::carry(async move {
            match keepers {
                None => coordinator.write_here(view, entry, mutations, asked, &told).await,
                Some(keepers) => {
                    coordinator.write_kept(view, entry, mutations.into(), asked, keepers, &told).await
                }
            }
        });
        let work = runtime::spawn_now(Group::QUERY, work);
        match runtime::timeout(timeout, work).await {
            Ok(outcome) => outcome,
            Err(_) if kept.get() => self.judge(Err(Silence::Unheard), (consistency, 1), WriteKind::Batch),
            Err(_) => self.judge(Err(Silence::Unheard), late, WriteKind::BatchLog),
        }
    }

    /// Writes a batch that keepers are to have first. `kept`: set when they do.
    async fn write_kept(
        self: Rc<Self>,
        mut view: Rc<View>,
        mut entry: Entry,
        mutations: Rc<[Mutation]>,
        asked: Asked,
        mut keepers: Keepers,
        kept: &Cell<bool>,
    ) -> Result<(), Error> {
        let mut required = 0;
        let outcome = loop {
            // The mistake that the checkers of crashes must notice.
            if !runtime::planted(Bug::SkipBatchlog)
                && let Err(error) = self.keep(&view, &entry, &mutations, &mut keepers, asked.until).await
            {
                // ⚔ Once parts went out, what was stored before stands, and so does what the client is told.
                break Err(if kept.get() { asked.late(required) } else { error });
            }
            kept.set(true);
            match self.write_once(&view, &mutations, entry.planned, asked).await {
                Once::Told(Err(Error::Unavailable { .. })) if required > 0 => break Err(asked.late(required)),
                Once::Told(outcome) => break outcome,
                Once::Moved { needs } => required = needs,
            }
            if asked.until <= runtime::now() {
                break Err(asked.late(required));
            }
            // ⚔ It comes behind what this node has just learned of. A replay would leave that out, were the batch kept as it was.
            view = self.view();
            entry.planned = self.plan_now(&view);
        };
        if outcome.is_ok() {
            self.let_go(&entry, &keepers);
        }
        outcome
    }

    /// Writes a batch of which every part goes to this node alone. `kept`: set when the batch is in the table.
    async fn write_here(
        self: Rc<Self>,
        mut view: Rc<View>,
        mut entry: Entry,
        mutations: Vec<Mutation>,
        asked: Asked,
        kept: &Cell<bool>,
    ) -> Result<(), Error> {
        let level = (asked.consistency, 1);
        let rest = loop {
            let here = runtime::shard();
            let (mut first, rest): (Vec<_>, Vec<_>) =
                mutations.iter().cloned().partition(|mutation| owner(mutation.token()) == here);
            if !runtime::planted(Bug::SkipBatchlog) {
                first.push(entry.put(mutations.iter().map(Mutation::as_bytes)));
            }
            match self.local().write(first, Durability::Mode, entry.planned.on).await {
                Ok(()) => break rest,
                // Nothing was written: the whole batch comes behind the truncation.
                Err(replica::Error::Overtaken(version)) if runtime::now() < asked.until => {
                    self.catch_up(view.snapshot.local_id(), version, asked.until).await;
                    view = self.view();
                    if !mutations.iter().all(|mutation| view.is_only_here(mutation)) {
                        // ⚔ Others hold them since: a join or a new replication came meanwhile.
                        entry.planned = self.plan_now(&view);
                        let keepers = self.first_keepers(&view, asked.consistency)?;
                        return self.write_kept(view, entry, mutations.into(), asked, keepers, kept).await;
                    }
                    entry.planned.on = view.point();
                }
                Err(error) => {
                    // It may be on the disk all the same.
                    self.see_to(&entry.key, self.batch_age());
                    return self.judge(Err(Silence::Failed(error)), level, WriteKind::BatchLog);
                }
            }
        };
        kept.set(true);
        let outcome = self.write_shards(rest, entry.planned.on, asked.consistency).await;
        match &outcome {
            Ok(()) => {
                let local = self.local().clone();
                drop(runtime::spawn(Group::QUERY, async move {
                    // Whoever is told nothing of a failure finds the batch again at the next start, to no effect.
                    let _unheard = local.write(vec![entry.removal()], Durability::Mode, Point::NOW).await;
                }));
            }
            Err(_) => self.see_to(&entry.key, self.batch_age()),
        }
        outcome
    }

    /// Writes what other shards of this node own, all at once.
    async fn write_shards(
        &self,
        mutations: Vec<Mutation>,
        on: Point,
        consistency: Consistency,
    ) -> Result<(), Error> {
        let mut parts: BTreeMap<u16, Vec<Mutation>> = BTreeMap::new();
        for mutation in mutations {
            parts.entry(owner(mutation.token()).0).or_default().push(mutation);
        }
        let begin = |part: Vec<Mutation>| {
            let local = self.local().clone();
            runtime::spawn(Group::QUERY, async move { local.write(part, Durability::Mode, on).await })
        };
        let tasks: Vec<_> = parts.into_values().map(begin).collect();
        let mut outcome = Ok(());
        for task in tasks {
            outcome = outcome.and(task.await);
        }
        self.judge(outcome.map_err(Silence::Failed), (consistency, 1), WriteKind::Batch)
    }

    /// What this node's answer means, or that of keepers, at a level that needs so many.
    fn judge(
        &self,
        answer: Result<(), Silence>,
        (consistency, required): (Consistency, usize),
        kind: WriteKind,
    ) -> Result<(), Error> {
        let here = self.topology().local().broadcast();
        judge_one(answer, here, required, consistency, kind)
    }

    /// Whether enough replicas of every mutation live, before anything is written.
    fn check_levels(
        &self,
        view: &View,
        mutations: &[Mutation],
        consistency: Consistency,
    ) -> Result<(), Error> {
        for mutation in mutations {
            self.plan_write(view, mutation, consistency)?;
        }
        Ok(())
    }
}
