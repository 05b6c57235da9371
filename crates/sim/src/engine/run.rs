//! Plays operations against a machine, and against what its tables must hold.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use base::{Instant, shard_of};
use mutation::Mutation;
use runtime::Bug;
use runtime::sim::{SimConfig, World};
use schema::TableId;
use storage::{CommitlogSync, Durability, Error, Store};

use super::change::{Change, Op, Part, Trouble, Upkeep, Write, WriteOp};
use super::limits::{GHOSTS_MAX, PERIODIC_SLACK, RECOVERY};
use super::machine::{self, Machine, everywhere, on_shard, schema_of};
use super::plan::Plan;
use super::shape::{REGULARS, STATICS, Shape, compaction, key_of};
use super::truth::Known;
use super::upkeep;

/// What the writes of a whole run share: a key nobody draws, to see whether writes are accepted.
const PROBE_KEY: u16 = 0x7fff;
/// Timestamps from which coarse ones count; half of the seeds take those around 1970, before which not every format can tell
/// all deletions.
const COARSE_STARTS: [i64; 2] = [1_500_000_000_000_000, -20];

/// A run under way.
pub(super) struct Run {
    pub(super) machine: Machine,
    pub(super) shapes: Vec<Rc<Shape>>,
    /// By table and key.
    pub(super) truth: Vec<BTreeMap<u16, Known>>,
    /// Acknowledged writes may be lost for so long.
    pub(super) lossy: Option<Duration>,
    pub(super) trouble: Option<Trouble>,
    /// Since when the disk may have been in the way of the log, in this life.
    pub(super) doubt: Option<Instant>,
    /// A sync has failed, and only a restart helps.
    pub(super) broken: bool,
    coarse: Option<i64>,
    capacity: u64,
    /// Numbers of writes, to tell their timestamps apart.
    pub(super) writes: i64,
    next_id: u128,
}

/// What a compaction says that finds less room than the settings want to be left.
const NO_ROOM: &str = "may be taken";

/// How long a log in periodic mode may take until an entry is on the disk.
fn certain_after(period: Duration, disk: &SimConfig) -> Duration {
    let round = 2 * disk.disk_sync.1 + 4 * disk.disk_write.1 + 4 * disk.disk_read.1;
    let times = if disk.disk_spikes > 0.0 { 61 } else { 1 };
    period + PERIODIC_SLACK + 2 * times * round
}

impl Run {
    pub(super) fn new(world: &mut World, plan: &Plan, planted: Option<Bug>) -> Run {
        let mut rng = base::Prng::new(plan.seed ^ 0x6d61_6368);
        let machine = Machine::new(world, machine::settings(plan.sync, &mut rng), planted);
        let lossy = match plan.sync {
            CommitlogSync::Periodic { period_ms } => {
                Some(certain_after(Duration::from_millis(period_ms), &SimConfig::drawn(plan.seed)))
            }
            CommitlogSync::Batch | CommitlogSync::Group { .. } => None,
        };
        let capacity = world.free_space(machine.node);
        Run {
            machine,
            shapes: plan.shapes.iter().cloned().map(Rc::new).collect(),
            truth: vec![BTreeMap::new(); plan.shapes.len()],
            lossy,
            trouble: None,
            doubt: None,
            broken: false,
            coarse: plan.coarse.then(|| COARSE_STARTS[(plan.seed % 2) as usize]),
            capacity,
            writes: 0,
            next_id: 0x8000,
        }
    }

    /// Plays one operation. Errors: what is wrong.
    pub(super) fn play(&mut self, world: &mut World, op: &Op) -> Result<(), String> {
        match op {
            Op::Write(write) => self.write(world, std::slice::from_ref(write)),
            Op::Batch(writes) => self.write(world, writes),
            Op::Read(read) => self.read(world, read),
            Op::Race { read, reads, writes, with } => self.race(world, read, *reads, writes, *with),
            Op::Cold { table } => self.cold(world, *table),
            Op::Flush { table } => self.flush(world, *table),
            Op::Compact { table } => self.compact(world, *table),
            Op::Wait(time) => {
                world.run_for(*time);
                Ok(())
            }
            // What several shards do is not whole where one may fail.
            _ if self.is_troubled() && op.is_of_all_shards() => Ok(()),
            Op::Truncate { table } => self.truncate(world, *table),
            Op::Again { table, same_id } => self.again(world, *table, *same_id),
            Op::DropColumn { table, fixed, ordinal } => self.drop_column(world, *table, *fixed, *ordinal),
            Op::AddColumn { table, fixed, ordinal } => self.add_column(world, *table, *fixed, *ordinal),
            Op::Alter { table, choice } => {
                let change = |builder: &mut schema::TableBuilder| compaction(builder.options_mut(), *choice);
                Rc::make_mut(&mut self.shapes[*table]).with(change);
                self.publish(world)
            }
            Op::Snapshot { table } => self.snapshot(world, *table),
            Op::Upkeep { table, how } => self.upkeep(world, *table, *how),
            Op::Import { table, emptied } => self.import(world, *table, *emptied),
            Op::Slow(time) => {
                world.slow_disk(self.machine.node, (Duration::from_micros(10), *time));
                if let Some(certain) = &mut self.lossy {
                    *certain = (*certain).max(PERIODIC_SLACK + 61 * 24 * *time);
                }
                Ok(())
            }
            Op::Trouble(trouble) => {
                self.begin_trouble(world, *trouble);
                Ok(())
            }
            Op::Calm => self.calm(world),
            Op::Rot(flip) => self.rot(world, *flip),
            Op::Restart(restart) => self.restart(world, restart),
        }
    }

    pub(super) fn is_troubled(&self) -> bool {
        self.trouble.is_some() || self.broken
    }

    /// Whether a refusal may still be told: what rests after a failure tries again, but not at once.
    pub(super) fn was_troubled(&self) -> bool {
        self.is_troubled() || self.doubt.is_some()
    }

    pub(super) fn known(&mut self, table: usize, key: u16) -> &mut Known {
        self.truth[table].entry(key).or_insert_with(|| Known::new(REGULARS, STATICS))
    }

    // ---- writes --------------------------------------------------------------------------------------------------

    /// The write as it can be made now; `None` when nothing is left of it.
    pub(super) fn admitted(&mut self, op: &WriteOp) -> Option<WriteOp> {
        if self.known(op.table, op.key).ghosts() >= GHOSTS_MAX {
            return None;
        }
        let gone = &self.shapes[op.table].gone;
        let mut op = op.clone();
        let is_there = |fixed: bool, set: &mut Vec<(u16, Change)>| {
            set.retain(|(ordinal, _)| !gone.contains(&(fixed, *ordinal)));
            !set.is_empty()
        };
        op.parts.retain_mut(|part| match part {
            Part::Row { mark, set, .. } => is_there(false, set) || *mark,
            Part::Static { set } => is_there(true, set),
            Part::DeleteRow { .. } | Part::DeleteRange { .. } | Part::DeletePartition => true,
        });
        (!op.parts.is_empty()).then_some(op)
    }

    /// The timestamp of a write that is made at `micros`; different for each unless they are coarse.
    pub(super) fn timer(&mut self, op: &WriteOp) -> impl Fn(i64) -> i64 + use<> {
        self.writes += 1;
        let (coarse, back, number) = (self.coarse, op.back, self.writes % 1000);
        move |micros| coarse.map_or((micros - back) / 1000 * 1000 + number, |start| start + back)
    }

    /// A future that makes a write and says what it was and how it went.
    pub(super) fn writing(
        &mut self,
        op: &WriteOp,
    ) -> Option<impl Future<Output = (Rc<Write>, Result<(), Error>)> + use<>> {
        let op = self.admitted(op)?;
        let timestamp = self.timer(&op);
        let shape = self.shapes[op.table].clone();
        Some(async move {
            let write = Rc::new(timed(op, &timestamp));
            let result = apply(vec![shape.mutation(&write)], Durability::Mode).await;
            (write, result)
        })
    }

    fn write(&mut self, world: &mut World, ops: &[WriteOp]) -> Result<(), String> {
        let mut groups: BTreeMap<u16, Vec<Ready>> = BTreeMap::new();
        for op in ops {
            if let Some(op) = self.admitted(op) {
                let shard = shard_of(key_of(op.key).token, self.machine.shards);
                let timestamp = self.timer(&op);
                let shape = self.shapes[op.table].clone();
                groups.entry(shard).or_default().push((op, shape, Box::new(timestamp)));
            }
        }
        for group in groups.into_values() {
            let writing = async move {
                let mut writes = Vec::new();
                let mut mutations = Vec::new();
                for (op, shape, timestamp) in group {
                    let write = timed(op, &timestamp);
                    mutations.push(shape.mutation(&write));
                    writes.push(Rc::new(write));
                }
                let result = apply(mutations, Durability::Mode).await;
                (writes, result, runtime::now())
            };
            let (writes, result, at) = self.machine.run(world, "a write", writing)?;
            for write in writes {
                self.note(write, &result, at)?;
            }
        }
        Ok(())
    }

    /// Takes note of a write that was told to have happened, or refused.
    pub(super) fn note(
        &mut self,
        write: Rc<Write>,
        result: &Result<(), Error>,
        at: Instant,
    ) -> Result<(), String> {
        let (troubled, lossy) = (self.was_troubled(), self.lossy.is_some());
        let known = self.known(write.table, write.key);
        match result {
            Ok(()) => known.told(write, at, lossy),
            // Larger than half a segment of the log: nothing has happened.
            Err(Error::TooLarge { .. }) => {}
            Err(error) if troubled => known.refused(write, Some(error)),
            Err(error) => return Err(format!("a write is refused on a good disk: {error}")),
        }
        Ok(())
    }

    // ---- what operators do ---------------------------------------------------------------------------------------

    fn flush(&mut self, world: &mut World, table: usize) -> Result<(), String> {
        let id = self.shapes[table].table.id;
        let flushing = everywhere(move |store| async move { store.flush(Some(id)).await });
        match self.machine.run(world, "a flush", flushing)? {
            Ok(()) => self.truth[table].values_mut().for_each(Known::settle),
            Err(_) if self.was_troubled() => {}
            Err(error) => return Err(format!("a flush fails on a good disk: {error}")),
        }
        Ok(())
    }

    fn compact(&mut self, world: &mut World, table: usize) -> Result<(), String> {
        let id = self.shapes[table].table.id;
        let compacting = everywhere(move |store| async move { store.compact(id).await });
        match self.machine.run(world, "a compaction", compacting)? {
            Err(error) if !self.was_troubled() && !error.to_string().contains(NO_ROOM) => {
                Err(format!("a compaction fails on a good disk: {error}"))
            }
            _ => Ok(()),
        }
    }

    fn truncate(&mut self, world: &mut World, table: usize) -> Result<(), String> {
        let id = self.shapes[table].table.id;
        let work = everywhere(move |store| async move {
            let at = store.next_time(i64::MIN);
            store.truncate(id, at).await
        });
        self.machine
            .run(world, "a truncation", work)?
            .map_err(|error| format!("a truncation fails: {error}"))?;
        self.truth[table].clear();
        Ok(())
    }

    /// Shows every shard the schema as it is now.
    fn publish(&mut self, world: &mut World) -> Result<(), String> {
        let shapes: Vec<Shape> = self.shapes.iter().map(|shape| (**shape).clone()).collect();
        self.publish_these(world, &shapes)
    }

    fn publish_these(&mut self, world: &mut World, shapes: &[Shape]) -> Result<(), String> {
        let schema = schema_of(shapes);
        let work = everywhere(move |store| {
            store.set_schema(&schema);
            async { Ok(()) }
        });
        self.machine.run(world, "a schema", work)?.map_err(|error| format!("a schema fails: {error}"))
    }

    fn again(&mut self, world: &mut World, table: usize, same_id: bool) -> Result<(), String> {
        let mut without: Vec<Shape> = self.shapes.iter().map(|shape| (**shape).clone()).collect();
        let id = without.remove(table).table.id;
        self.publish_these(world, &without)?;
        let recorded = everywhere(move |store| async move { store.drops_recorded(&[id]).await });
        self.machine
            .run(world, "a drop", recorded)?
            .map_err(|error| format!("a drop is not recorded: {error}"))?;
        if !same_id {
            self.next_id += 1;
            Rc::make_mut(&mut self.shapes[table]).set_id(TableId(self.next_id));
        }
        self.truth[table].clear();
        self.publish(world)
    }

    fn drop_column(
        &mut self,
        world: &mut World,
        table: usize,
        fixed: bool,
        ordinal: u16,
    ) -> Result<(), String> {
        let at = self.machine.run(world, "a look at the clock", async { machine::micros() })? + 1_000;
        if Rc::make_mut(&mut self.shapes[table]).drop_column(fixed, ordinal, at) {
            self.publish(world)?;
        }
        Ok(())
    }

    fn add_column(
        &mut self,
        world: &mut World,
        table: usize,
        fixed: bool,
        ordinal: u16,
    ) -> Result<(), String> {
        let shape = Rc::make_mut(&mut self.shapes[table]);
        let at =
            shape.table.dropped_by_ordinal(fixed, ordinal).map_or(i64::MIN, |dropped| dropped.dropped_at);
        if shape.add_column(fixed, ordinal, at) {
            self.publish(world)?;
        }
        Ok(())
    }

    fn snapshot(&mut self, world: &mut World, table: usize) -> Result<(), String> {
        let id = self.shapes[table].table.id;
        let tag = self.tag();
        let work = async move {
            let dir = upkeep::snapshot(id, &tag).await?;
            storage::snapshot::clear_snapshot(&dir, &tag).await
        };
        let done: Result<(), Error> = self.machine.run(world, "a snapshot", work)?;
        done.map_err(|error| format!("a snapshot fails: {error}"))
    }

    fn tag(&mut self) -> String {
        self.writes += 1;
        format!("tag{}", self.writes)
    }

    fn upkeep(&mut self, world: &mut World, table: usize, how: Upkeep) -> Result<(), String> {
        let id = self.shapes[table].table.id;
        let done = self.machine.run(world, "upkeep", upkeep::keep_up(id, how))?;
        match done {
            Err(error) if !self.was_troubled() && !error.to_string().contains(NO_ROOM) => {
                Err(format!("{how:?} fails: {error}"))
            }
            _ => Ok(()),
        }
    }

    fn import(&mut self, world: &mut World, table: usize, emptied: bool) -> Result<(), String> {
        // One that fails after its table was emptied is no fault of ours.
        if self.was_troubled() {
            return Ok(());
        }
        let id = self.shapes[table].table.id;
        let work = upkeep::import(id, self.tag(), emptied);
        let done = self.machine.run(world, "an import", work)?;
        done.map_err(|error| format!("an import fails: {error}"))?;
        // The snapshot flushed all of it.
        self.truth[table].values_mut().for_each(Known::settle);
        Ok(())
    }

    // ---- the disk ------------------------------------------------------------------------------------------------

    fn begin_trouble(&mut self, world: &mut World, trouble: Trouble) {
        if self.is_troubled() {
            return;
        }
        let node = self.machine.node;
        self.doubt.get_or_insert(world.now());
        match trouble {
            Trouble::Full(bytes) => {
                let used = self.capacity - world.free_space(node).min(self.capacity);
                world.set_capacity(node, used + bytes);
            }
            Trouble::Syncs(count) => {
                world.fail_next_syncs(node, count);
                self.broken = true;
            }
            Trouble::Reads(count) => world.fail_reads(node, count),
        }
        self.trouble = Some(trouble);
    }

    /// Ends what is wrong with the disk.
    pub(super) fn mend(&mut self, world: &mut World) {
        let node = self.machine.node;
        world.set_capacity(node, self.capacity);
        world.fail_next_syncs(node, 0);
        world.fail_reads(node, 0);
        self.trouble = None;
    }

    /// The disk is well, and writes must soon be accepted, unless a sync has failed.
    pub(super) fn calm(&mut self, world: &mut World) -> Result<(), String> {
        if self.trouble.is_none() {
            return Ok(());
        }
        self.mend(world);
        if self.broken {
            return Ok(());
        }
        let until = world.now() + RECOVERY;
        let mut accepted = vec![false; usize::from(self.machine.shards)];
        while world.now() < until {
            let mut refused = None;
            for key in PROBE_KEY - 200..PROBE_KEY {
                let shard = usize::from(shard_of(key_of(key).token, self.machine.shards));
                if accepted[shard] {
                    continue;
                }
                let place = self.shapes[0].place(std::iter::repeat_n(0, self.shapes[0].depth()));
                let parts = vec![Part::Row { place, mark: true, set: Vec::new() }];
                let op = WriteOp { table: 0, key, back: 0, ttl: 0, parts };
                let Some(writing) = self.writing(&op) else { continue };
                let (write, result) = self.machine.run(world, "a write", writing)?;
                let (at, lossy) = (world.now(), self.lossy.is_some());
                match result {
                    Ok(()) => {
                        accepted[shard] = true;
                        self.known(0, key).told(write, at, lossy);
                    }
                    Err(error) => {
                        self.known(0, key).refused(write, Some(&error));
                        refused = Some(error);
                        break;
                    }
                }
            }
            if refused.is_none() {
                return Ok(());
            }
            world.run_for(Duration::from_millis(200));
        }
        Err(format!("writes are refused {RECOVERY:?} after the disk is well again"))
    }
}

/// A write that can be made: of which table, and with which timestamp when the clock says so.
type Ready = (WriteOp, Rc<Shape>, Box<dyn Fn(i64) -> i64>);

impl Op {
    /// Whether all shards must do it for it to have happened.
    fn is_of_all_shards(&self) -> bool {
        !matches!(self, Op::Slow(_) | Op::Trouble(_) | Op::Calm | Op::Rot(_) | Op::Restart(_))
    }
}

pub(super) fn timed(op: WriteOp, timestamp: &dyn Fn(i64) -> i64) -> Write {
    let timestamp = timestamp(machine::micros());
    let WriteOp { table, key, ttl, parts, .. } = op;
    Write { table, key, timestamp, second: machine::second(), ttl, parts }
}

/// Applies one atomic write on the shard of its first mutation, half of them in one step where that is possible.
pub(super) async fn apply(mutations: Vec<Mutation>, durability: Durability) -> Result<(), Error> {
    let shard = shard_of(mutations[0].token(), runtime::shard_count());
    let work = move |store: Rc<Store>| async move {
        let in_one_step = mutations[0].token().0 & 1 == 0;
        match in_one_step.then(|| store.apply_now(&mutations, durability)).flatten() {
            Some((applied, _)) => applied,
            None => store.apply(mutations, durability).await,
        }
    };
    on_shard(shard, work).await
}
