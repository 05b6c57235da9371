//! What is compacted without anybody asking: one task looks for work, and each compaction is a task of its own.

use super::claim::Claim;
use super::merge::{Merge, Merged, Work};
use super::progress::{CompactionKind, Ended};
use super::proof::{Proof, lonely_share};
use super::strategy::{Common, Scene, Shape, Strategy};
use crate::Error;
use crate::manifest::{Edit, SstableEntry};
use crate::store::Store;
use crate::table::{Replacement, Sstable, TableStore};
use runtime::Group;
use std::rc::Rc;
use std::time::Duration;

/// Time between two looks at files that somebody still reads.
const REAP: Duration = Duration::from_secs(1);
/// Longest time between two looks for work that only the clock makes due.
const LOOK: Duration = Duration::from_secs(60);
/// Compactions of one shard at once when the operator says nothing: while a long one runs, short ones go on.
const AT_ONCE: usize = 2;
/// Seconds between two looks for sstables that have expired, unless the table says otherwise; as in Cassandra.
const EXPIRED_LOOK_S: u64 = 600;
/// The fewest, whatever the table says. A look that finds nothing to drop ends as all work does, with a wish for another: one that was
/// followed at once by the next would never let the compactor sleep, nor ask the strategy.
const EXPIRED_LOOK_S_MIN: u64 = 1;

/// Something to do for a table.
enum Job {
    /// To record what may not be recorded.
    Record,
    /// To drop those of the claimed that have expired, if that can be proven.
    Expire,
    /// To merge what is claimed.
    Merge(Work),
    /// To give the claimed one a level.
    Move(u32),
}

impl Store {
    /// The task that compacts in the background and removes files. Ends when the store stops and its compactions have.
    pub(crate) async fn run_compactor(self: Rc<Self>) {
        let mut last = None;
        while !self.stopping.get() {
            self.reap().await;
            self.begin_due(&mut last);
            let resting = self.all_tables().into_iter();
            let due = resting.filter_map(|table| table.compaction_backoff.rests_until()).min();
            let rest = due.map(|due| due.saturating_duration_since(runtime::now()));
            let read = (!self.doomed.borrow().is_empty()).then_some(REAP);
            let pause = rest.into_iter().chain(read).min().unwrap_or(LOOK).min(LOOK);
            // Elapsed is what it waits for; a wish for compaction wakes it early.
            let _ = runtime::timeout(pause, self.compaction_wanted.wait()).await;
        }
        while self.compactions.background.get() > 0 {
            self.compaction_wanted.wait().await;
        }
    }

    /// Compactions of this shard that may run at once.
    pub fn concurrent_compactions(&self) -> usize {
        match self.settings.concurrent_compactors {
            None => AT_ONCE,
            Some(of_node) => (of_node as usize).div_ceil(usize::from(runtime::shard_count())).max(1),
        }
    }

    /// Begins what is due as long as there is room, one table after the other. `last`: the table that had its turn last.
    fn begin_due(self: &Rc<Self>, last: &mut Option<schema::TableId>) {
        let mut tables = self.all_tables();
        let first = tables.partition_point(|table| last.is_some_and(|last| table.id <= last));
        tables.rotate_left(first);
        loop {
            let mut any = false;
            for table in &tables {
                if self.stopping.get() || self.compactions.background.get() >= self.concurrent_compactions() {
                    return;
                }
                if let Some((job, claim)) = self.due(table) {
                    *last = Some(table.id);
                    any = true;
                    self.begin(table.clone(), job, claim);
                }
            }
            if !any {
                return;
            }
        }
    }

    fn begin(self: &Rc<Self>, table: Rc<TableStore>, job: Job, claim: Claim) {
        let store = self.clone();
        let count = &self.compactions.background;
        count.set(count.get() + 1);
        let failures = table.compaction_backoff.failures();
        drop(runtime::spawn(Group::COMPACTION, async move {
            let outcome = store.work(&table, &job, &claim).await;
            store.rest_after(&table, failures, outcome);
            let count = &store.compactions.background;
            count.set(count.get() - 1);
            drop(claim);
        }));
    }

    /// A table where a compaction failed rests. `failures`: how often when this one began; `outcome`: as of [`Store::work`].
    fn rest_after(&self, table: &TableStore, failures: u32, outcome: Result<bool, Error>) {
        match outcome {
            // One that went well says nothing about another that failed meanwhile.
            Ok(true) if table.compaction_backoff.failures() == failures => {
                table.compaction_backoff.succeeded()
            }
            Ok(_) | Err(Error::Stopping | Error::UnknownTable(_) | Error::Interrupted { .. }) => {}
            Err(error) => {
                self.note_fault(&error);
                if table.compaction_backoff.failed(error.clone()) {
                    let id = table.id;
                    runtime::error!("compaction of table {id} failed, it will be tried again: {error}");
                }
            }
        }
    }

    /// What is due for a table, with the sstables it needs; one step.
    fn due(&self, table: &Rc<TableStore>) -> Option<(Job, Claim)> {
        if !table.compaction_backoff.is_due() || !table.auto_compaction.get() || table.dropped.get() {
            return None;
        }
        let definition = table.definition();
        let common = Common::of(&definition.options);
        // Somebody else compacts it: that says nothing about what failed before.
        let turn = table.compaction.try_lock();
        if !common.enabled || turn.is_none() {
            return None;
        }
        if table.compacting.recording.get() {
            return None;
        }
        if !table.unrecorded.borrow().is_empty() {
            table.compacting.recording.set(true);
            return Some((Job::Record, self.claim(table, Vec::new())));
        }
        let candidates = self.candidates(table);
        if candidates.is_empty() {
            return None;
        }
        let scene = self.scene(table, &candidates);
        let sstables = table.version().sstables.clone();
        if let Some(expired) = self.expired(table, &sstables) {
            return Some((Job::Expire, self.claim(table, expired)));
        }
        let strategy = Strategy::of(&definition.options);
        let alone = |index: usize, kind: CompactionKind| {
            let shape: Shape = strategy.alone(scene, index);
            Some((Job::Merge(Work::plain(kind, shape)), self.claim(table, vec![sstables[index].clone()])))
        };
        // One that several shards share is rewritten, so that each shard has its own: every other time, or as long as the strategy
        // wants something the table would purge nothing.
        let free = |index: &usize| !candidates[*index].busy;
        let shared = (0..sstables.len()).filter(free).find(|index| sstables[*index].is_shared());
        if let Some(index) = shared
            && table.compacting.takes_shared_turn()
        {
            return alone(index, CompactionKind::Background);
        }
        if let Some(task) = strategy.next(scene) {
            let picked = task.inputs.iter().map(|index| sstables[*index].clone()).collect();
            let job = match task.moves {
                true => Job::Move(task.shape.level),
                false => Job::Merge(Work::plain(CompactionKind::Background, task.shape)),
            };
            return Some((job, self.claim(table, picked)));
        }
        if let Some(index) = shared {
            return alone(index, CompactionKind::Background);
        }
        let index = self.full_of_tombstones(table, &common, scene, &sstables)?;
        alone(index, CompactionKind::Tombstones)
    }

    /// Sstables that have expired, if it is time to look for them.
    fn expired(&self, table: &TableStore, sstables: &[Rc<Sstable>]) -> Option<Vec<Rc<Sstable>>> {
        let definition = table.definition();
        let now = runtime::now();
        let every = definition.options.compaction.get("expired_sstable_check_frequency_seconds");
        let every =
            every.and_then(|text| text.parse().ok()).unwrap_or(EXPIRED_LOOK_S).max(EXPIRED_LOOK_S_MIN);
        let state = &table.compacting;
        let looked = state.expired_looked.get();
        if looked.is_some_and(|looked| now < looked + Duration::from_secs(every)) {
            return None;
        }
        let proof = Proof::new(self, table, &definition);
        let expired = sstables.iter().filter(|sstable| !sstable.busy.get() && proof.has_expired(sstable));
        let expired: Vec<Rc<Sstable>> = expired.cloned().collect();
        state.expired_looked.set(Some(now));
        (!expired.is_empty()).then_some(expired)
    }

    /// An sstable that is worth compacting alone for the tombstones that would go.
    fn full_of_tombstones(
        &self,
        table: &TableStore,
        common: &Common,
        scene: Scene<'_>,
        sstables: &[Rc<Sstable>],
    ) -> Option<usize> {
        let threshold = common.tombstone_threshold?;
        let definition = table.definition();
        // Where nothing may go it would be rewritten in vain, and not looked at again for long.
        let gc_before = Proof::with(self, table, &definition, common).gc_before()?;
        let (version, oldest) = (table.version(), table.replayable.oldest());
        let worth = |index: &usize| {
            let sstable = &sstables[*index];
            if scene.sstables[*index].busy || !sstable.entry.meta.has_tombstones() {
                return false;
            }
            // Nothing would go that is not older than what the log alone has.
            if oldest <= sstable.entry.meta.min_timestamp {
                return false;
            }
            // Whether one that an earlier start left is old enough is not known: it is tried once.
            let old = sstable.made_at.get().is_none_or(|made| {
                Duration::from_secs(common.tombstone_interval_s)
                    <= runtime::now().saturating_duration_since(made)
            });
            if !old || common.only_repaired && sstable.entry.meta.repaired_at == 0 {
                return false;
            }
            let cells = &sstable.reader.footprint().partition_cells;
            let cells = cells.mean().unwrap_or(0.0) * cells.count() as f64;
            let droppable = sstable.reader.tombstones().count_before(gc_before) as f64 / cells.max(1.0);
            let share = if common.unchecked { 1.0 } else { lonely_share(sstable, &version) };
            threshold < droppable * share
        };
        (0..sstables.len()).find(worth)
    }

    /// Does it. False: there was nothing to do, which says nothing about what failed before.
    async fn work(&self, table: &Rc<TableStore>, job: &Job, claim: &Claim) -> Result<bool, Error> {
        match job {
            Job::Record => {
                let recorded = self.record_unrecorded(table).await;
                table.compacting.recording.set(false);
                recorded
            }
            Job::Expire => self.expire(table, claim).await,
            Job::Merge(work) => self.merge(table, work, claim).await.map(|_| true),
            Job::Move(level) => self.move_to(table, claim, *level).await.map(|()| true),
        }
    }

    async fn expire(&self, table: &Rc<TableStore>, claim: &Claim) -> Result<bool, Error> {
        let proof = Proof::new(self, table, &table.definition());
        let expired = proof.droppable(table, &claim.sstables()).await;
        if expired.is_empty() {
            return Ok(false);
        }
        let listed = self.compactions.begin(CompactionKind::Background, table, self.interval, &expired);
        let replacement = Replacement { inputs: expired.clone(), outputs: Vec::new(), lossy: false };
        self.replace(table, replacement).await?;
        runtime::info!("table {}: {} sstables had expired whole", table.id, expired.len());
        self.metrics.compactions.inc();
        self.compactions.ended(&listed.running, Ended::Well(0));
        claim.forget(&expired);
        Ok(true)
    }

    /// Merges what is claimed, or what of it fits the disk. What was recorded of it counts, whatever comes afterwards.
    pub(super) async fn merge(
        &self,
        table: &Rc<TableStore>,
        work: &Work,
        claim: &Claim,
    ) -> Result<Merged, Error> {
        self.fit(table, work, claim).await?;
        let listed = self.compactions.begin(work.kind, table, self.interval, &claim.sstables());
        let log_all = Common::of(&table.definition().options).log_all;
        if log_all {
            tell_inputs(table, work, claim);
        }
        let merged = Merge::new(self, table, work, claim, &listed.running).run().await;
        if log_all {
            tell_end(table, work, &merged);
        }
        match &merged {
            Ok(merged) => {
                self.metrics.compactions.inc();
                self.compactions.ended(&listed.running, Ended::Well(merged.bytes_out));
            }
            Err(Error::Stopping | Error::UnknownTable(_)) => {}
            Err(Error::Interrupted { .. }) => self.compactions.ended(&listed.running, Ended::Stopped),
            Err(_) => self.compactions.ended(&listed.running, Ended::Failed),
        }
        merged
    }

    /// Gives one sstable another level, which only the manifest has to know.
    async fn move_to(&self, table: &TableStore, claim: &Claim, level: u32) -> Result<(), Error> {
        for sstable in claim.sstables() {
            let entry = &sstable.entry;
            let meta = sstable::Meta { level, ..entry.meta.clone() };
            let moved = SstableEntry { meta, ranges: entry.ranges.clone() };
            let mut manifest = self.manifest.lock().await;
            if manifest.state().sstables.contains_key(&(table.id, sstable.generation())) {
                manifest.commit(&Edit { add: vec![(table.id, moved)], ..Edit::default() }).await?;
                sstable.level.set(level);
            }
        }
        Ok(())
    }
}

/// With `log_all` of a table: what a compaction begins with.
fn tell_inputs(table: &TableStore, work: &Work, claim: &Claim) {
    let name = table.definition().qualified_name();
    let sstables = claim.sstables();
    let input = |sstable: &Rc<Sstable>| {
        let bytes = sstable.reader.footprint().stored_bytes;
        format!("{} (level {}, {bytes} bytes)", sstable.generation(), sstable.level.get())
    };
    let inputs: Vec<String> = sstables.iter().map(input).collect();
    runtime::info!("{} of {name} begins with sstables {}", work.kind.name(), inputs.join(", "));
}

/// And what came of it.
fn tell_end(table: &TableStore, work: &Work, merged: &Result<Merged, Error>) {
    let (kind, name) = (work.kind.name(), table.definition().qualified_name());
    match merged {
        Ok(merged) => runtime::info!("{kind} of {name} has ended with {} bytes", merged.bytes_out),
        Err(error) => runtime::info!("{kind} of {name} has ended: {error}"),
    }
}
