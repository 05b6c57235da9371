//! Batches that were not removed in time are written again by who keeps them.

use super::entry::{Entry, Found, VERSION, VERSION_ALONE, batches};
use crate::coordinator::{Coordinator, Ticket};
use crate::limits::{
    BATCH_PAUSE_MAX, BATCHES_AT_ONCE, BATCHES_UNKNOWN_PAUSE, REPLAY_AGAIN_AFTER, REPLAY_PAGE_BYTES,
    REPLAY_TIMEOUT,
};
use crate::replicas::Silence;
use crate::view::View;
use base::{HostId, Instant, shard_interval};
use mutation::{Key, Mutation, ReadAnswer, ReadCommand, Scope, TokenRange};
use replica::Request;
use runtime::Group;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use storage::{Durability, Planned};

#[derive(Clone, Copy, Default)]
struct Replayed {
    written: usize,
    failed: usize,
}

impl Coordinator {
    /// How long a batch is kept before it is written again: its coordinator has given it up by then.
    pub(super) fn batch_age(&self) -> Duration {
        2 * self.write_timeout.get()
    }

    /// Has this shard look after so long what has become of a batch of its part of the table, which may be there from now on.
    pub(super) fn see_to(self: &Rc<Self>, key: &Key, after: Duration) {
        self.kept.insert(key.clone(), runtime::now() + after);
        self.begin_seeing();
    }

    fn begin_seeing(self: &Rc<Self>) {
        if !self.kept.task.replace(true) {
            let coordinator = self.clone();
            drop(runtime::spawn(Group::RPC, async move { coordinator.see_to_kept().await }));
        }
    }

    /// Finds out which batches this shard keeps from an earlier life of the node, in the background. To be called on every shard once its store
    /// is open.
    pub fn read_batches(self: &Rc<Self>) {
        self.begin_seeing();
    }

    /// Writes what this shard keeps again when it is due. To be called on every shard once what was truncated is known here, and other nodes
    /// can be asked.
    pub fn begin_batches(self: &Rc<Self>) {
        self.kept.may_write.set(true);
        self.begin_seeing();
    }

    /// Logged batches that this shard may keep and that may not be written to the end: 0 only when there is none for sure. Waits until the table
    /// was read, which takes a moment behind a start.
    pub async fn unfinished_batches(&self, until: Instant) -> usize {
        while self.kept.is_unknown() && runtime::now() < until {
            runtime::sleep(BATCHES_UNKNOWN_PAUSE).await;
        }
        self.kept.len()
    }

    /// Sees to what this shard keeps until there is nothing.
    async fn see_to_kept(self: Rc<Self>) {
        while !self.is_closed() {
            let now = runtime::now();
            let may_write = self.kept.may_write.get();
            let at_once = if may_write { BATCHES_AT_ONCE } else { 0 };
            let due: Vec<Key> = (0..at_once).map_while(|_| self.kept.take_due(now)).collect();
            if !due.is_empty() {
                let write = |key: Key| {
                    let this = self.clone();
                    runtime::spawn(Group::RPC, async move {
                        this.write_key(&key).await;
                        this.kept.done();
                    })
                };
                let writing: Vec<_> = due.into_iter().map(write).collect();
                for written in writing {
                    written.await;
                }
                continue;
            }
            match self.kept.next().filter(|_| may_write) {
                // At times it looks again: one may have come that is due earlier.
                Some(at) => runtime::sleep((at - now).min(BATCH_PAUSE_MAX)).await,
                None if self.kept.begin_reading() => {
                    self.read_kept().await;
                    if self.kept.is_unread() {
                        // More than are remembered: those that are go first.
                        runtime::sleep(BATCH_PAUSE_MAX).await;
                    }
                }
                None => break,
            }
        }
        self.kept.task.set(false);
    }

    /// Reads which batches this shard's part of the table holds.
    async fn read_kept(self: &Rc<Self>) {
        let (first, last) = shard_interval(runtime::shard().0, runtime::shard_count());
        let mut resume = None;
        loop {
            match self.find_batches(Scope::Range(TokenRange::new(first, last)), resume).await {
                Ok(answer) => {
                    for found in answer.partitions.iter().filter_map(Found::read) {
                        if !self.kept.has(&found.key) {
                            self.kept.insert(found.key, runtime::now() + self.left_of(found.planned));
                        }
                    }
                    resume = answer.stopped;
                }
                Err(error) => {
                    runtime::error!("logged batches cannot be read: {error}");
                    self.kept.end_reading(false);
                    return runtime::sleep(REPLAY_AGAIN_AFTER).await;
                }
            }
            if resume.is_none() || self.kept.is_unread() {
                return self.kept.end_reading(true);
            }
        }
    }

    /// How long it is until a batch is due, by the clock of this node.
    fn left_of(&self, planned: Planned) -> Duration {
        let age = (runtime::unix_micros()).saturating_sub(planned.at).max(0);
        self.batch_age().saturating_sub(Duration::from_micros(age.unsigned_abs()))
    }

    /// Writes a batch that is due, if it is still there.
    async fn write_key(self: &Rc<Self>, key: &Key) {
        let scope = Scope::Keys(std::iter::once(key.clone()).collect());
        match self.find_batches(scope, None).await {
            // What it cannot write is due again.
            Ok(answer) => {
                self.write_found(&answer).await;
            }
            Err(error) => {
                runtime::warn!("an unfinished batch cannot be read: {error}");
                self.see_to(key, REPLAY_AGAIN_AFTER);
            }
        }
    }

    /// Writes every batch again that an earlier life of this node has left, which has no others. What cannot be written is tried again later.
    /// Errors: the batches cannot be read; the file is named. Serving clients would show them half of one.
    /// Cost: one read of a table that is empty but after a crash. Call it before clients come.
    pub async fn replay_batches(self: &Rc<Self>) -> Result<(), replica::Error> {
        let mut resume = None;
        let mut all = Replayed::default();
        loop {
            let answer = self.find_batches(Scope::Range(TokenRange::ALL), resume).await?;
            let some = self.write_found(&answer).await;
            all = Replayed { written: all.written + some.written, failed: all.failed + some.failed };
            resume = answer.stopped;
            if resume.is_none() {
                break;
            }
        }
        if all.written + all.failed > 0 {
            let Replayed { written, failed } = all;
            runtime::info!("wrote {written} logged batches again, {failed} are tried again later");
        }
        Ok(())
    }

    async fn find_batches(
        &self,
        scope: Scope,
        resume: Option<mutation::Resume>,
    ) -> Result<ReadAnswer, replica::Error> {
        let unknown = |_| replica::Error::UnknownTable("system.batches".to_string());
        let table = batches(&self.schema()).map_err(unknown)?;
        let command = ReadCommand {
            byte_limit: REPLAY_PAGE_BYTES,
            resume,
            ..ReadCommand::everything(table.id, scope, runtime::unix_seconds())
        };
        self.local().read(&command).await
    }

    async fn write_found(self: &Rc<Self>, answer: &ReadAnswer) -> Replayed {
        let mut replayed = Replayed::default();
        for found in answer.partitions.iter().filter_map(Found::read) {
            // Should the clock have been set back meanwhile: what is truncated from now on is later than this batch.
            self.local().next_time(found.planned.at);
            match self.write_one(&found).await {
                Ok(()) => {
                    self.metrics.batches_replayed.inc();
                    replayed.written += 1;
                }
                Err(why) => {
                    runtime::warn!("a logged batch cannot be written again yet: {why}");
                    replayed.failed += 1;
                    self.see_to(&found.key, REPLAY_AGAIN_AFTER);
                }
            }
            runtime::yield_if_needed().await;
        }
        replayed
    }

    /// Writes what is left of a batch, then removes it. Errors: why it must be tried again.
    async fn write_one(self: &Rc<Self>, found: &Found) -> Result<(), String> {
        // ⚔ The view first: what is truncated behind it makes replicas refuse what is left.
        let view = self.view();
        if view.point() < found.planned.on {
            // ⚔ A table that is not known here may be new, not dropped.
            return Err("this node does not know yet what it was planned on".to_string());
        }
        let left = self.what_is_left(found, &view).await;
        if left.iter().all(|mutation| view.is_only_here(mutation)) {
            let written = self.local().write(left, Durability::Mode, view.point()).await;
            written.map_err(|error| error.to_string())?;
        } else {
            self.write_everywhere(&view, left, found.planned).await?;
        }
        let table = batches(&view.schema).map_err(|error| error.to_string())?;
        let entry = Entry::known(table, found.key.clone(), found.planned);
        self.remove_here(&entry).await.map_err(|error| error.to_string())
    }

    /// The mutations of a batch whose tables are still there and still hold what was in them then.
    async fn what_is_left(&self, found: &Found, view: &View) -> Vec<Mutation> {
        let mut left = Vec::with_capacity(found.mutations.len());
        if found.version != VERSION && found.version != VERSION_ALONE {
            runtime::error!("dropping a logged batch of version {}, which cannot be read", found.version);
            return left;
        }
        let now_s = runtime::unix_micros() / 1_000_000;
        for bytes in &found.mutations {
            let mutation = match Mutation::from_bytes(bytes.clone()) {
                Ok(mutation) => mutation,
                Err(error) => {
                    runtime::error!("dropping a mutation of a logged batch: {error}");
                    continue;
                }
            };
            let Some(table) = view.schema.table_by_id(mutation.table()) else { continue };
            if found.planned.at / 1_000_000 + i64::from(table.options.gc_grace_seconds) <= now_s {
                runtime::info!(
                    "dropping a logged batch that is older than gc_grace_seconds of {}",
                    table.name
                );
                return Vec::new();
            }
            if !self.local().is_overtaken(table.id, found.planned).await {
                left.push(mutation);
            }
        }
        left
    }

    /// Writes mutations to all who hold them. Errors: a part is neither written nor hinted where it must be.
    async fn write_everywhere(
        self: &Rc<Self>,
        view: &Rc<View>,
        mutations: Vec<Mutation>,
        planned: Planned,
    ) -> Result<(), String> {
        let mut parts: BTreeMap<HostId, Vec<usize>> = BTreeMap::new();
        for (index, mutation) in mutations.iter().enumerate() {
            for host in view.holders_of(mutation).unwrap_or_default() {
                parts.entry(host).or_default().push(index);
            }
        }
        let until = runtime::now() + REPLAY_TIMEOUT;
        let mut asking = Vec::with_capacity(parts.len());
        for (host, part) in parts {
            let picked: Vec<Mutation> = part.iter().map(|index| mutations[*index].clone()).collect();
            let answer = view.snapshot.is_alive(host).then(|| {
                let request = Request::Write { mutations: picked.clone(), durability: Durability::Mode };
                runtime::spawn_now(Group::RPC, self.clone().ask(host, request, view.point(), REPLAY_TIMEOUT))
            });
            asking.push((host, part, picked, answer));
        }
        let mut written: Vec<Vec<HostId>> = vec![Vec::new(); mutations.len()];
        let mut hinted: Vec<(HostId, Vec<usize>, Ticket)> = Vec::new();
        let mut behind = None;
        for (host, part, picked, answer) in asking {
            let heard = match answer {
                Some(answer) => answer.await.map(drop),
                None => Err(Silence::Unheard),
            };
            match heard {
                Ok(()) => part.iter().for_each(|index| written[*index].push(host)),
                Err(Silence::Behind(version)) => behind = Some((host, version)),
                Err(Silence::Unheard | Silence::Failed(_)) => {
                    hinted
                        .extend(self.tell_missed(host, &picked, planned).map(|ticket| (host, part, ticket)));
                }
            }
        }
        // ⚔ Not planned again as it is: what was truncated meanwhile must be left out.
        if let Some((host, version)) = behind {
            self.catch_up(host, version, until).await;
            return Err(format!("{host} knows a newer version"));
        }
        let mut will_have = written.clone();
        for (host, part, ticket) in hinted {
            if runtime::timeout_at(until, self.is_durable(&[ticket])).await.unwrap_or(false) {
                part.iter().for_each(|index| will_have[*index].push(host));
            }
        }
        let is_over = |(index, mutation): (usize, &Mutation)| {
            let holders = view.holders_of(mutation).unwrap_or_default();
            // ⚔ Those that are read from: a node that is to hold it may be given up, and what it has with it.
            let is_quorum = view.placed(mutation.table()).is_none_or(|placed| {
                let read = &placed.placements.at(mutation.token()).read;
                let having = read.iter().filter(|host| written[index].contains(host)).count();
                read.len() / 2 < having
            });
            holders.iter().all(|host| will_have[index].contains(host)) || is_quorum
        };
        match mutations.iter().enumerate().all(is_over) {
            true => Ok(()),
            false => Err("a part has too few replicas that answer, and no hints are kept of it".to_string()),
        }
    }
}
