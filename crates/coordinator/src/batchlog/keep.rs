//! Storing a batch at its keepers, and what a keeper does with it.

use super::entry::{Entry, Message, batches, owner};
use super::keepers::{self, KEEPERS, NoKeepers};
use crate::coordinator::Coordinator;
use crate::error::{Error, WriteKind};
use crate::replicas::{Silence, done_or_failed};
use crate::view::View;
use crate::write::judge_one;
use base::{HostId, Instant};
use mutation::{Key, Mutation};
use replica::Response;
use rpc::{CallError, Gather, LocalFuture, Outgoing, Responder, Serve};
use runtime::{Bug, Group};
use std::rc::Rc;
use storage::{Durability, Planned, Point};
use topology::Shortfall;
use types::Consistency;

/// The verb of [`Message`]. Must never change.
pub(crate) const VERB_BATCH: u8 = 40;

/// Who keeps one batch.
pub(super) struct Keepers {
    /// Those that are to have it, or have it.
    chosen: Vec<HostId>,
    /// All that were asked, and may have it.
    asked: Vec<HostId>,
}

impl Keepers {
    /// The level that their answers are reported at, and how many it needs.
    pub(super) fn level(&self) -> (Consistency, usize) {
        match self.chosen.len() {
            0 | 1 => (Consistency::One, 1),
            _ => (Consistency::Two, KEEPERS),
        }
    }
}

/// How a keeper answered.
enum Heard {
    Kept,
    /// Its release does not know how.
    Older,
    /// It may have it, and there is no time left.
    Late,
    Failed(Silence),
}

impl Coordinator {
    /// Who is to keep a batch. Errors: nobody can.
    pub(super) fn first_keepers(&self, view: &View, consistency: Consistency) -> Result<Keepers, Error> {
        // The mistake that the checker of batches must notice.
        let chosen = match runtime::planted(Bug::BatchlogOnlyHere) {
            true => Ok(vec![view.snapshot.local_id()]),
            false => keepers::first(&view.snapshot, consistency, runtime::random_u64),
        };
        match chosen {
            Ok(chosen) => Ok(Keepers { chosen, asked: Vec::new() }),
            Err(NoKeepers) => {
                let short = Shortfall { required: KEEPERS, alive: 0, dc: None };
                Err(self.unavailable(Consistency::Two, short))
            }
        }
    }

    /// Returns when the keepers have the batch durably, in place of what they have of it. One that cannot is replaced by another.
    /// Errors: one may have it or none.
    pub(super) async fn keep(
        self: &Rc<Self>,
        view: &View,
        entry: &Entry,
        mutations: &Rc<[Mutation]>,
        keepers: &mut Keepers,
        until: Instant,
    ) -> Result<(), Error> {
        let (level, required) = keepers.level();
        let (mut have, mut refused, mut last) = (Vec::new(), Vec::new(), Silence::Unheard);
        let mut wanted = std::mem::take(&mut keepers.chosen);
        while !wanted.is_empty() {
            keepers
                .asked
                .extend(wanted.iter().filter(|host| !keepers.asked.contains(host)).collect::<Vec<_>>());
            let mut asking = Vec::with_capacity(wanted.len());
            for host in wanted.drain(..) {
                let (this, entry, mutations) = (self.clone(), entry.clone(), mutations.clone());
                let work = async move { this.store_at(host, &entry, &mutations, until).await };
                asking.push((host, runtime::spawn_now(Group::QUERY, work)));
            }
            let mut is_older = false;
            for (host, answer) in asking {
                match answer.await {
                    Heard::Kept => have.push(host),
                    Heard::Late => {
                        keepers.chosen = have;
                        return Err(timed_out(keepers.chosen.len(), (level, required)));
                    }
                    Heard::Older => {
                        is_older = true;
                        refused.push(host);
                    }
                    Heard::Failed(why) => {
                        last = why;
                        refused.push(host);
                    }
                }
            }
            wanted = keepers::more(&view.snapshot, &have, &refused, runtime::random_u64);
            let here = view.snapshot.local_id();
            if is_older && have.len() + wanted.len() < KEEPERS && !have.contains(&here) {
                wanted.push(here);
            }
            if have.contains(&here) {
                // It keeps the batch itself only where no other can besides.
                break;
            }
        }
        keepers.chosen = have;
        match keepers.chosen.is_empty() {
            false => Ok(()),
            true => {
                let asked = keepers
                    .asked
                    .last()
                    .map_or(view.snapshot.local().broadcast(), |host| view.address_of(*host));
                judge_one(Err(last), asked, required, level, WriteKind::BatchLog)
            }
        }
    }

    async fn store_at(
        self: &Rc<Self>,
        host: HostId,
        entry: &Entry,
        mutations: &[Mutation],
        until: Instant,
    ) -> Heard {
        if host == self.topology().local_id() {
            return match self.keep_here(entry, mutations).await {
                Ok(()) => Heard::Kept,
                Err(error) => Heard::Failed(Silence::Failed(error)),
            };
        }
        let timeout = until.saturating_duration_since(runtime::now());
        let outgoing = Outgoing { verb: VERB_BATCH, version: entry.planned.on.1, timeout };
        let shard = self.shard_there(host, Some(entry.key.token));
        let encode = |out: &mut Vec<u8>| Message::encode_store(entry, mutations, out);
        match self.pool().call(host, shard, outgoing, encode).await {
            Ok(answer) => match Response::decode(&answer).map_err(Silence::Failed).and_then(done_or_failed) {
                Ok(_) => Heard::Kept,
                Err(why) => Heard::Failed(why),
            },
            Err(CallError::Unsupported { .. }) => Heard::Older,
            Err(CallError::TimedOut { .. }) => Heard::Late,
            Err(error @ CallError::TooLarge { .. }) => {
                Heard::Failed(Silence::Failed(replica::Error::TooLarge(error.to_string())))
            }
            Err(CallError::Unreachable { .. } | CallError::Overloaded { .. } | CallError::Failed { .. }) => {
                Heard::Failed(Silence::Unheard)
            }
        }
    }

    /// Tells everyone who may have the batch that it is written. They find out by themselves if they do not hear it.
    pub(super) fn let_go(self: &Rc<Self>, entry: &Entry, keepers: &Keepers) {
        for host in &keepers.asked {
            if *host == self.topology().local_id() {
                let (this, entry) = (self.clone(), entry.clone());
                drop(runtime::spawn(Group::QUERY, async move { this.remove_here(&entry).await }));
                continue;
            }
            let outgoing =
                Outgoing { verb: VERB_BATCH, version: entry.planned.on.1, timeout: self.batch_age() };
            let shard = self.shard_there(*host, Some(entry.key.token));
            let encode = |out: &mut Vec<u8>| Message::encode_remove(entry, out);
            let _best_effort = self.pool().send(*host, shard, outgoing, (Rc::new(NobodyListens), 0), encode);
        }
    }

    /// Keeps a batch in this node's table. To be called on the shard that owns its id.
    async fn keep_here(self: &Rc<Self>, entry: &Entry, mutations: &[Mutation]) -> Result<(), replica::Error> {
        // Before it is there: whoever asks what this shard holds must not miss it.
        self.see_to(&entry.key, self.batch_age());
        self.metrics.batches_kept.inc();
        let put = entry.put(mutations.iter().map(Mutation::as_bytes));
        self.local().write(vec![put], Durability::Mode, Point::NOW).await
    }

    /// Forgets a batch of this node's table. To be called on the shard that owns its id.
    pub(super) async fn remove_here(&self, entry: &Entry) -> Result<(), replica::Error> {
        self.local().write(vec![entry.removal()], Durability::Mode, Point::NOW).await?;
        self.kept.forget(&entry.key);
        Ok(())
    }

    /// Does what another node asks of this one as a keeper, on the shard that owns the batch's id.
    async fn keep_for(self: &Rc<Self>, message: Message) -> Result<(), replica::Error> {
        let unknown = |_| replica::Error::UnknownTable("system.batches".to_string());
        let table = batches(&self.schema()).map_err(unknown)?;
        match message {
            Message::Store { key, planned, mutations } => {
                self.keep_here(&Entry::known(table, key, planned), &mutations).await
            }
            Message::Remove { key, at } => {
                let planned = Planned { at, on: Point::NOW };
                self.remove_here(&Entry::known(table, key, planned)).await
            }
        }
    }
}

fn timed_out(received: usize, (consistency, required): (Consistency, usize)) -> Error {
    Error::Timeout { consistency, received, required, data_present: false, write: Some(WriteKind::BatchLog) }
}

/// Whether a batch was forgotten matters to nobody.
struct NobodyListens;

impl Gather for NobodyListens {
    fn answered(&self, _index: u16, _answer: Result<&[u8], CallError>) {}
}

/// Batches of other coordinators.
pub(crate) struct Batches;

impl Serve for Batches {
    fn begin(&self, request: &rpc::Request<'_>, answer: Responder) -> LocalFuture {
        let message = Message::decode(request.body);
        let (from, version) = (request.from.host, request.version);
        Box::pin(async move {
            let done = match (message, runtime::try_local::<Coordinator>()) {
                (Some(message), Some(coordinator)) => {
                    if let Message::Store { planned, .. } = &message {
                        // ⚔ A table that is not known here must not be taken for a dropped one at a replay.
                        coordinator.catch_up(from, version, answer.until()).await;
                        if coordinator.view_point() < planned.on {
                            return;
                        }
                    }
                    on_owner(message).await
                }
                (None, _) => Err(replica::Error::Malformed("malformed batch to keep".to_string())),
                // It starts or stops: the caller learns that there is no answer.
                (Some(_), None) => return,
            };
            answer.send(|out| Response::of(done).encode_to(out));
        })
    }
}

async fn on_owner(message: Message) -> Result<(), replica::Error> {
    let (Message::Store { key, .. } | Message::Remove { key, .. }) = &message;
    let shard = owner(Key::new(&key.bytes).token);
    let work = move || async move { runtime::local::<Coordinator>().keep_for(message).await };
    if shard == runtime::shard() {
        return work().await;
    }
    runtime::submit_to(shard, Group::QUERY, work).await
}
