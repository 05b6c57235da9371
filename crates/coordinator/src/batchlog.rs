//! Logged batches of several shards or nodes: all of one is written in the end, or none of it ever.
//!
//! ```text
//!   system.batches ◀─ 1 the whole batch, and in the same entry of the log what this shard owns of it
//!   other shards   ◀─ 2 their parts
//!   system.batches ◀─ 3 the batch is gone
//! ```
//! Whoever dies between 1 and 3 finds the batch at the next start, before clients come, and writes it again with the
//! timestamps it had. A batch whose parts failed in a living process is written again after twice its timeout.
//!
//! Nothing is written again that may have been deleted and forgotten since: a batch older than the shortest
//! `gc_grace_seconds` of its tables is let go, and so is what a truncation or a drop has taken away.
//! A batch that goes to one shard of this node alone needs none of this: it is one entry of that shard's log.
//!
//! All of that is as durable as the log is. With `commitlog_sync: periodic` a power cut takes the last moments of each
//! shard's log: it may take 1 and leave some of 2, or leave 3 and take some of 2, and then half of a batch is there.

use crate::coordinator::Coordinator;
use crate::error::{Error, WriteKind};
use crate::limits::{BATCHES_UNFINISHED_MAX, REPLAY_AGAIN_AFTER, REPLAY_PAGE_BYTES, REPLAY_TIMEOUT};
use crate::replicas::Silence;
use crate::view::View;
use crate::write::judge_one;
use crate::writing::{Ended, Writing};
use base::{Instant, Token, shard_of};
use mutation::{
    Cell, ColumnView, Deletion, Key, Liveness, Mutation, MutationBuilder, ReadAnswer, ReadCommand, RowView,
    Scope, TokenRange,
};
use runtime::{Bug, Group, ShardId};
use schema::Table;
use std::cell::{Cell as StdCell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use storage::{Durability, Planned, Point};
use types::Consistency;

/// How the mutations of a batch are encoded: the first element of the list is the point that the batch was planned on, u64 epoch and u64
/// index; each other one is a mutation. On disk: a batch of another version is let go, but for [`VERSION_ALONE`].
const VERSION: i32 = 2;
/// Each element is a mutation; the node was alone.
const VERSION_ALONE: i32 = 1;
/// Columns of `system.batches`, in the order of their names.
const MUTATIONS: u16 = 0;
const VERSION_COLUMN: u16 = 1;

/// Batches of this shard whose parts failed: when to write them again, and their keys, each once.
#[derive(Default)]
pub(crate) struct Unfinished {
    due: RefCell<BTreeSet<(Instant, Box<[u8]>)>>,
    task: StdCell<bool>,
}

impl Unfinished {
    pub(crate) fn len(&self) -> usize {
        self.due.borrow().len()
    }
}

/// A batch on its way through the table.
struct Entry {
    table: Arc<Table>,
    key: Key,
    /// Microseconds since the Unix epoch, of the clock that tells truncations, too.
    written_at: i64,
    /// The point that its mutations were planned on.
    on: Point,
}

/// A batch as it was found in the table.
struct Found {
    key: Key,
    planned: Planned,
    version: i32,
    mutations: Vec<Vec<u8>>,
}

impl Coordinator {
    /// Whether a logged batch is more than one entry of one log.
    pub(crate) fn needs_batchlog(&self, mutations: &[Mutation]) -> bool {
        let view = self.view();
        let alone = mutations.iter().all(|mutation| view.is_only_here(mutation));
        let apart = |pair: &[Mutation]| {
            let (a, b) = (pair[0].token(), pair[1].token());
            if alone { owner(a) != owner(b) } else { a != b }
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
        let view = self.view();
        self.check_levels(&view, &mutations, consistency)?;
        let batches = view.schema.table("system", "batches").ok_or(Error::UnknownTable)?.clone();
        let entry = Entry::drawn(batches, self.local().next_time(i64::MIN), view.point());
        let coordinator = self.clone();
        let kept = Rc::new(StdCell::new(false));
        let told = kept.clone();
        // In a task of its own: once begun, a write is never dropped half way.
        let work = runtime::spawn_now(Group::QUERY, async move {
            coordinator.write_entry(view, entry, mutations, consistency, timeout, &told).await
        });
        match runtime::timeout(timeout, work).await {
            Ok(outcome) => outcome,
            Err(_) => {
                let kind = if kept.get() { WriteKind::Batch } else { WriteKind::BatchLog };
                self.judge(Err(Silence::Unheard), consistency, kind)
            }
        }
    }

    /// As above. `kept`: set when the batch is in the table.
    async fn write_entry(
        self: Rc<Self>,
        mut view: Rc<View>,
        mut entry: Entry,
        mutations: Vec<Mutation>,
        consistency: Consistency,
        timeout: Duration,
        kept: &StdCell<bool>,
    ) -> Result<(), Error> {
        let until = runtime::now() + timeout;
        let (alone, rest) = loop {
            let alone = mutations.iter().all(|mutation| view.is_only_here(mutation));
            let here = runtime::shard();
            let (mut first, rest): (Vec<_>, Vec<_>) =
                mutations.iter().cloned().partition(|mutation| alone && owner(mutation.token()) == here);
            if !runtime::planted(Bug::SkipBatchlog) {
                first.push(entry.put(&mutations));
            }
            match self.local().write(first, Durability::Mode, entry.on).await {
                Ok(()) => break (alone, rest),
                // Nothing was written: the whole batch comes behind the truncation.
                Err(replica::Error::Overtaken(version)) if runtime::now() < until => {
                    self.catch_up(view.snapshot.local_id(), version, until).await;
                    view = self.view();
                    entry.on = view.point();
                }
                Err(error) => {
                    // It may be on the disk all the same.
                    self.write_again_later(&entry, timeout);
                    return self.judge(Err(Silence::Failed(error)), consistency, WriteKind::BatchLog);
                }
            }
        };
        drop(mutations);
        kept.set(true);
        let outcome = if alone {
            self.write_shards(rest, entry.on, consistency).await
        } else {
            let planned = Planned { on: entry.on, at: entry.written_at };
            self.write_parts(view, rest, planned, consistency, WriteKind::Batch, timeout).await
        };
        match &outcome {
            Ok(()) => {
                let local = self.local().clone();
                drop(runtime::spawn(Group::QUERY, async move {
                    // Whoever is told nothing of a failure finds the batch again at the next start, to no effect.
                    let _unheard = local.write(vec![entry.removal()], Durability::Mode, Point::NOW).await;
                }));
            }
            Err(_) => self.write_again_later(&entry, timeout),
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
        self.judge(outcome.map_err(Silence::Failed), consistency, WriteKind::Batch)
    }

    /// What this node's answer means, when no other was asked.
    fn judge(
        &self,
        answer: Result<(), Silence>,
        consistency: Consistency,
        kind: WriteKind,
    ) -> Result<(), Error> {
        let here = self.topology().local().broadcast();
        judge_one(answer, here, 1, consistency, kind)
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

    fn write_again_later(self: &Rc<Self>, entry: &Entry, timeout: Duration) {
        self.retry(&entry.key, 2 * timeout);
    }

    fn retry(self: &Rc<Self>, key: &Key, pause: Duration) {
        let unfinished = &self.unfinished;
        let mut due = unfinished.due.borrow_mut();
        if due.len() >= BATCHES_UNFINISHED_MAX {
            runtime::error!("too many unfinished batches: some wait for the next start");
            return;
        }
        due.insert((runtime::now() + pause, key.bytes.clone()));
        if !unfinished.task.replace(true) {
            let coordinator = self.clone();
            drop(runtime::spawn(Group::RPC, async move { coordinator.write_unfinished().await }));
        }
    }

    /// Writes unfinished batches again, each when it is due, until there are none.
    async fn write_unfinished(self: Rc<Self>) {
        loop {
            let first = self.unfinished.due.borrow().first().map(|(at, _)| *at);
            let Some(at) = first.filter(|_| !self.is_closed()) else {
                self.unfinished.task.set(false);
                return;
            };
            if runtime::now() < at {
                runtime::sleep(at - runtime::now()).await;
            }
            // Perhaps another one by now, that is due even earlier.
            let Some((_, key)) = self.unfinished.due.borrow_mut().pop_first() else { continue };
            let key = Key::new(&key);
            let scope = Scope::Keys(std::iter::once(key.clone()).collect());
            match self.find_batches(scope, None).await {
                // What it cannot write is due again.
                Ok(answer) => {
                    self.write_found(&answer).await;
                }
                Err(error) => {
                    runtime::warn!("an unfinished batch cannot be read: {error}");
                    self.retry(&key, REPLAY_AGAIN_AFTER);
                }
            }
        }
    }

    /// Writes every batch again that an earlier life of this node has left. What cannot be written is tried again later.
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
        let schema = self.schema();
        let Some(table) = schema.table("system", "batches") else {
            return Err(replica::Error::UnknownTable("system.batches".to_string()));
        };
        let command = ReadCommand {
            byte_limit: REPLAY_PAGE_BYTES,
            resume,
            ..ReadCommand::everything(table.id, scope, (runtime::unix_micros() / 1_000_000) as u32)
        };
        self.local().read(&command).await
    }

    async fn write_found(self: &Rc<Self>, answer: &ReadAnswer) -> Replayed {
        let mut replayed = Replayed::default();
        for found in answer.partitions.iter().filter_map(Found::read) {
            // Should the clock have been set back meanwhile: what is truncated from now on is later than this batch.
            self.local().next_time(found.planned.at);
            match self.write_one(&found).await {
                Ok(()) => replayed.written += 1,
                Err(error) => {
                    runtime::warn!("a logged batch cannot be written again yet: {error}");
                    replayed.failed += 1;
                    self.retry(&found.key, REPLAY_AGAIN_AFTER);
                }
            }
            runtime::yield_if_needed().await;
        }
        replayed
    }

    /// Writes what is left of a batch, then removes it.
    async fn write_one(self: &Rc<Self>, found: &Found) -> Result<(), Error> {
        // ⚔ The view first: what is truncated behind it makes replicas refuse what is left.
        let view = self.view();
        let mutations = self.what_is_left(found).await;
        if !mutations.is_empty() {
            if mutations.iter().all(|mutation| view.is_only_here(mutation)) {
                let written = self.local().write(mutations, Durability::Mode, view.point()).await;
                self.judge(written.map_err(Silence::Failed), Consistency::One, WriteKind::Batch)?;
            } else {
                let level = Consistency::Quorum;
                let until = runtime::now() + REPLAY_TIMEOUT;
                let planned = Planned { on: view.point(), at: found.planned.at };
                let writing = Writing::plan(self, &view, mutations.into(), planned, level, WriteKind::Batch)?;
                match writing.run(until).await {
                    Ended::Told(outcome) => outcome?,
                    // ⚔ Not planned again as it is: what was truncated meanwhile must be left out.
                    Ended::Behind { host, version, .. } => {
                        self.catch_up(host, version, until).await;
                        return self.judge(Err(Silence::Behind(version)), level, WriteKind::Batch);
                    }
                }
            }
        }
        let schema = self.schema();
        let table = schema.table("system", "batches").ok_or(Error::UnknownTable)?.clone();
        let Planned { at: written_at, on } = found.planned;
        let entry = Entry { table, key: found.key.clone(), written_at, on };
        let removed = self.local().write(vec![entry.removal()], Durability::Mode, Point::NOW).await;
        self.judge(removed.map_err(Silence::Failed), Consistency::One, WriteKind::BatchLog)
    }

    /// The mutations of a batch whose tables are still there and still hold what was in them then.
    async fn what_is_left(&self, found: &Found) -> Vec<Mutation> {
        let mut left = Vec::with_capacity(found.mutations.len());
        if found.version != VERSION && found.version != VERSION_ALONE {
            runtime::error!("a logged batch of version {} is let go: it cannot be read", found.version);
            return left;
        }
        let schema = self.schema();
        let now_s = runtime::unix_micros() / 1_000_000;
        for bytes in &found.mutations {
            let mutation = match Mutation::from_bytes(bytes.clone()) {
                Ok(mutation) => mutation,
                Err(error) => {
                    runtime::error!("a mutation of a logged batch is let go: {error}");
                    continue;
                }
            };
            let Some(table) = schema.table_by_id(mutation.table()) else { continue };
            if found.planned.at / 1_000_000 + i64::from(table.options.gc_grace_seconds) <= now_s {
                runtime::info!("a logged batch is older than the tombstones of {} and let go", table.name);
                return Vec::new();
            }
            if !self.local().is_overtaken(table.id, found.planned).await {
                left.push(mutation);
            }
        }
        left
    }
}

#[derive(Clone, Copy, Default)]
struct Replayed {
    written: usize,
    failed: usize,
}

impl Entry {
    /// An id whose token this shard owns, so that writing it is no message.
    fn drawn(table: Arc<Table>, written_at: i64, on: Point) -> Entry {
        let here = runtime::shard();
        loop {
            let id = types::timeuuid::from_ticks(written_at.saturating_mul(10), runtime::random_u64());
            let key = Key::new(id.as_bytes());
            if owner(key.token) == here {
                return Entry { table, key, written_at, on };
            }
        }
    }

    /// The row that holds the batch.
    fn put(&self, mutations: &[Mutation]) -> Mutation {
        let at = self.written_at;
        let mut builder = MutationBuilder::new(self.table.id, self.key.token, &self.key.bytes);
        builder.write_row(&[], Liveness::at(at), Deletion::LIVE, |row| {
            row.complex_start(MUTATIONS, Deletion::LIVE);
            let point = [self.on.0.to_be_bytes(), self.on.1.to_be_bytes()].concat();
            let elements = std::iter::once(&*point).chain(mutations.iter().map(Mutation::as_bytes));
            for (index, element) in elements.enumerate() {
                // Paths of a list are timeuuids, here those of the batch's time and of the place.
                let path = types::timeuuid::from_ticks(at.saturating_mul(10) + index as i64, 0);
                row.complex_cell(path.as_bytes(), Cell::live(at, element));
            }
            row.complex_end();
            row.simple(VERSION_COLUMN, Cell::live(at, &VERSION.to_be_bytes()));
        });
        builder.finish()
    }

    /// What takes the row away again.
    fn removal(&self) -> Mutation {
        let local_time = (runtime::unix_micros() / 1_000_000) as u32;
        let mut builder = MutationBuilder::new(self.table.id, self.key.token, &self.key.bytes);
        builder.deletion(Deletion { timestamp: self.written_at, local_time });
        builder.finish()
    }
}

impl Found {
    /// The batch of a partition; `None`: it is gone.
    fn read(partition: &Mutation) -> Option<Found> {
        let view = partition.view();
        let (_, body) = view.rows().next()?;
        let row = RowView::new(body);
        let Some(ColumnView::Complex(list)) = row.column(MUTATIONS) else { return None };
        let Some(ColumnView::Simple(version)) = row.column(VERSION_COLUMN) else { return None };
        let version = i32::from_be_bytes(version.value?.try_into().ok()?);
        let mut elements = list.cells().filter_map(|(_, cell)| cell.value);
        let on = if version == VERSION { point_of_element(elements.next()?) } else { Some(Point::ALONE) };
        Some(Found {
            key: Key::with_token(view.token, view.key),
            planned: Planned { on: on?, at: row.liveness().timestamp },
            version,
            mutations: elements.map(<[u8]>::to_vec).collect(),
        })
    }
}

/// The point that a batch was planned on.
fn point_of_element(bytes: &[u8]) -> Option<Point> {
    let (epoch, index) = bytes.split_at_checked(8)?;
    Some(Point(u64::from_be_bytes(epoch.try_into().ok()?), u64::from_be_bytes(index.try_into().ok()?)))
}

fn owner(token: Token) -> ShardId {
    ShardId(shard_of(token, runtime::shard_count()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use schema::{TableBuilder, TableId};
    use types::CqlType;

    fn batches() -> Arc<Table> {
        let builder = TableBuilder::new("system", "batches", TableId(7))
            .partition_key("id", CqlType::Timeuuid)
            .regular("mutations", CqlType::list(CqlType::Blob))
            .regular("version", CqlType::Int);
        Arc::new(builder.build().expect("a good table"))
    }

    #[test]
    fn a_batch_is_read_back_in_its_order_until_it_is_removed() {
        let table = batches();
        let key = Key::new(&[3; 16]);
        let on = Point(1, 77);
        let entry = Entry { table: table.clone(), key: key.clone(), written_at: 1_000_000, on };
        let mutation = |n: u8| {
            let mut builder = MutationBuilder::new(TableId(9), Token(i64::from(n)), &[n]);
            builder.write_row(&[], Liveness::at(5), Deletion::LIVE, |_| {});
            builder.finish()
        };
        let mutations: Vec<Mutation> = (0..40).map(mutation).collect();
        let put = entry.put(&mutations);
        let found = Found::read(&put).expect("it is there");
        assert_eq!((found.key, found.version), (key, VERSION));
        assert_eq!(found.planned, Planned { on, at: 1_000_000 });
        let expected: Vec<Vec<u8>> = mutations.iter().map(|m| m.as_bytes().to_vec()).collect();
        assert_eq!(found.mutations, expected);
        let ordinals = |name| table.regulars.iter().find(|c| &*c.name == name).map(|c| c.ordinal);
        assert_eq!(ordinals("mutations"), Some(MUTATIONS));
        assert_eq!(ordinals("version"), Some(VERSION_COLUMN));
    }
}
