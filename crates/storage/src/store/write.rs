//! The way of a write: what it passes, where it is logged, and when it is visible.
//!
//! ```text
//! apply ─► budget ─► log.append ─(same step)─► memtable            periodic: answered now
//!                              └(sync)──────► memtable            batch, group, synced: answered after the sync
//! ```

use super::Store;
use crate::commitlog::{Appended, Commitlog, Held, LogPosition};
use crate::floors::Point;
use crate::limits::{ADMISSION_LOOK, ENTRY_MUTATIONS_MAX};
use crate::pressure::{Reserved, Verdict};
use crate::table::TableStore;
use crate::table_metrics::micros_since;
use crate::{CommitlogSync, Durability, Error};
use base::histogram::Placed;
use mutation::{Mutation, MutationView};
use schema::{Table, TableId};
use smallvec::SmallVec;
use std::rc::Rc;

/// Partitions named of a write that is too large.
const TOP_KEYS: usize = 8;
/// Characters shown of one value of their keys.
const KEY_CHARS_SHOWN: usize = 64;

/// What a write passes before it has its place in the log, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Gate {
    /// A table that was dropped and made again with its id is not open yet.
    Open,
    /// Memory runs low.
    Memory,
    /// The log is behind.
    Log,
}

/// How a write is made that has passed all gates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Its keyspace has no durable writes.
    Unlogged,
    /// Answered in the step that appends it: its entry outlives the process.
    Logged,
    /// Answered when its entry is synced.
    Synced,
}

impl Store {
    /// Makes mutations durable and visible, all or none of them, as one entry of the log.
    /// Shape:  all for tokens of this shard; for one partition they become visible in one step.
    /// Errors: nothing was applied, except that one whose sync failed may appear after a restart, and one that found the disk
    ///         full once there is room; each whole.
    /// Yields: in periodic mode below the memory budget only for a sync that is late.
    pub async fn apply(&self, mutations: Vec<Mutation>, durability: Durability) -> Result<(), Error> {
        self.apply_planned(mutations, durability, Point::NOW).await
    }

    /// As [`Store::apply`], for what was planned on a point in the cluster's history.
    /// Errors: also [`Error::Overtaken`], and nothing was applied.
    pub async fn apply_planned(
        &self,
        mutations: Vec<Mutation>,
        durability: Durability,
        on: Point,
    ) -> Result<(), Error> {
        let start = runtime::ticks();
        let tables: SmallVec<[TableId; 4]> = mutations.iter().map(Mutation::table).collect();
        let applied = self.apply_timed(mutations, durability, on).await;
        self.count_writes(tables.into_iter(), micros_since(start));
        applied
    }

    async fn apply_timed(
        &self,
        mutations: Vec<Mutation>,
        durability: Durability,
        on: Point,
    ) -> Result<(), Error> {
        if mutations.is_empty() {
            return Ok(());
        }
        let mut passed = None;
        loop {
            let gate = self.admit(&mutations, passed)?;
            match gate {
                Some(Gate::Open) => {
                    for mutation in &mutations {
                        self.opened(mutation.table()).await?;
                    }
                }
                Some(Gate::Memory) => self.slow_down(entry_bytes(&mutations)).await?,
                // Behind whoever waits there already.
                Some(Gate::Log) | None => break self.log.room().await?,
            }
            passed = gate;
        }
        self.metrics.writes.inc();
        let durable = self.is_durable(&mutations, durability)?;
        match self.way(durable, durability, entry_bytes(&mutations))? {
            Way::Unlogged => self.apply_unlogged(&mutations, on),
            Way::Logged => self.log_and_apply(&mutations, on),
            Way::Synced => self.apply_synced(mutations, on).await,
        }
    }

    /// The first gate behind `passed` that a write has to wait at; `None`: it may be applied in this step.
    /// Errors: no waiting helps.
    fn admit(&self, mutations: &[Mutation], passed: Option<Gate>) -> Result<Option<Gate>, Error> {
        if self.drained.get() {
            return Err(Error::Drained);
        }
        if mutations.len() > ENTRY_MUTATIONS_MAX {
            let (value, limit) = (mutations.len() as u64, ENTRY_MUTATIONS_MAX as u64);
            return Err(Error::OutOfNumbers { what: "mutations of one write", value, limit });
        }
        let ahead = |gate| passed < Some(gate);
        Ok(if ahead(Gate::Open) && mutations.iter().any(|mutation| !self.is_open(mutation.table())) {
            Some(Gate::Open)
        } else if ahead(Gate::Memory) && self.pressure.is_on() {
            Some(Gate::Memory)
        } else if ahead(Gate::Log) && !self.log.has_room() {
            Some(Gate::Log)
        } else {
            None
        })
    }

    /// How a write of `entry_bytes` that was admitted is made.
    /// Errors: the log must not grow.
    fn way(&self, durable: bool, durability: Durability, entry_bytes: usize) -> Result<Way, Error> {
        if !durable {
            return Ok(Way::Unlogged);
        }
        if let Some(error) = self.log_refusal() {
            return Err(error);
        }
        let periodic =
            durability == Durability::Mode && matches!(self.settings.sync, CommitlogSync::Periodic { .. });
        Ok(if periodic && self.log.keeps(entry_bytes) { Way::Logged } else { Way::Synced })
    }

    /// As [`Store::apply`] when nothing has to be waited for. One step.
    /// `None`: nothing has happened, and `apply` says more. Also says how many microseconds it took.
    pub fn apply_now(
        &self,
        mutations: &[Mutation],
        durability: Durability,
    ) -> Option<(Result<(), Error>, Placed)> {
        self.apply_planned_now(mutations, durability, Point::NOW)
    }

    /// As [`Store::apply_planned`], as [`Store::apply_now`].
    pub fn apply_planned_now(
        &self,
        mutations: &[Mutation],
        durability: Durability,
        on: Point,
    ) -> Option<(Result<(), Error>, Placed)> {
        let start = runtime::ticks();
        if mutations.is_empty() || !matches!(self.admit(mutations, None), Ok(None)) {
            return None;
        }
        // Most writes are one mutation, whose table is looked up once.
        let one = match mutations {
            [mutation] => Some((self.table(mutation.table()).ok()?, mutation)),
            _ => None,
        };
        let durable = match &one {
            Some((table, _)) => table.durable.get() || durability == Durability::Synced,
            None => self.is_durable(mutations, durability).ok()?,
        };
        let way = self.way(durable, durability, entry_bytes(mutations)).ok()?;
        if way == Way::Synced {
            return None;
        }
        self.metrics.writes.inc();
        let applied = self.floors.admit(mutations, on).and_then(|()| match (way, &one) {
            (Way::Unlogged, _) => self.apply_unlogged(mutations, on),
            (_, Some((table, mutation))) => self.log_and_apply_one(table, mutation),
            (_, None) => self.log_and_apply(mutations, on),
        });
        let micros = micros_since(start);
        match &one {
            Some((table, _)) => table.metrics.writes.record_placed(micros),
            None => self.count_writes(mutations.iter().map(Mutation::table), micros),
        }
        Some((applied, micros))
    }

    /// Counts mutations that took this long together.
    fn count_writes(&self, tables: impl Iterator<Item = TableId>, micros: Placed) {
        let known = self.tables.borrow();
        tables.filter_map(|id| known.get(&id)).for_each(|table| table.metrics.writes.record_placed(micros));
    }

    /// Logs and applies in one step, so the order of the two does not matter: nobody sees one without the other.
    fn log_and_apply(&self, mutations: &[Mutation], on: Point) -> Result<(), Error> {
        self.floors.admit(mutations, on)?;
        if let [mutation] = mutations {
            return self.log_and_apply_one(&*self.table(mutation.table())?, mutation);
        }
        let tables = self.check(mutations)?;
        let position =
            append_entry(&self.log, mutations).map_err(|error| self.oversized(error, mutations))?.position;
        let applied = self.apply_in_memory(mutations, &tables, Some(position));
        if applied.is_err() {
            tables.iter().for_each(|table| table.replayable.given_up(position));
        }
        self.look_at_log(position.segment);
        applied
    }

    /// One mutation is applied whole or not at all, which saves checking it before.
    fn log_and_apply_one(&self, table: &TableStore, mutation: &Mutation) -> Result<(), Error> {
        let mutations = std::slice::from_ref(mutation);
        self.log.accepts(entry_bytes(mutations)).map_err(|error| self.oversized(error, mutations))?;
        self.apply_one(table, mutation, None)?;
        let position =
            append_entry(&self.log, mutations).map_err(|error| self.oversized(error, mutations))?.position;
        table.with_version(|version, _| version.active.note(position));
        self.look_at_log(position.segment);
        Ok(())
    }

    /// Says of an entry that is too large whose it is.
    #[cold]
    fn oversized(&self, error: Error, mutations: &[Mutation]) -> Error {
        let Error::TooLarge { bytes, limit, .. } = error else { return error };
        let mut largest: Vec<&Mutation> = mutations.iter().collect();
        largest.sort_by_key(|mutation| std::cmp::Reverse(mutation.as_bytes().len()));
        let (mut keyspace, mut keys) = (String::new(), Vec::new());
        for mutation in largest.into_iter().take(TOP_KEYS) {
            let Ok(table) = self.table(mutation.table()) else { continue };
            let definition = table.definition();
            if keyspace.is_empty() {
                keyspace = definition.keyspace.to_string();
            }
            keys.push(format!("{}.{}", definition.name, key_text(&definition, mutation.view().key)));
        }
        Error::TooLarge { bytes, limit, keyspace, keys: keys.join(", ") }
    }

    async fn apply_synced(&self, mutations: Vec<Mutation>, on: Point) -> Result<(), Error> {
        let tables = loop {
            let tables = self.check(&mutations)?;
            let Some(paused) = tables.iter().find(|table| table.is_paused()) else { break tables };
            paused.settled.wait().await;
        };
        self.floors.admit(&mutations, on)?;
        let Appended { position, number } =
            append_entry(&self.log, &mutations).map_err(|error| self.oversized(error, &mutations))?;
        // Until it is applied the flush positions of all tables stay below it.
        let held = self.log.hold(position);
        let room = self.pressure.reserve(entry_bytes(&mutations));
        let write = LoggedWrite::new(mutations, tables, position, number, (held, room));
        let mut waiting = Waiting { store: self, write: Some(write) };
        let synced = self.log.synced(number).await;
        if let Err(Error::NoSpace(_) | Error::CommitlogFailed(_)) = synced
            && self.log.fate(number).is_none()
        {
            // Its entry stays with the log, and it with the store: no flush of one of its tables may pass it, or a restart would
            // bring the others' part alone.
            return synced;
        }
        let write = waiting.write.take().expect("only a drop takes it before");
        self.adopt();
        synced?;
        let applied = self.apply_in_memory(&write.mutations, &write.tables, Some(position));
        write.settle(&applied);
        self.look_at_log(position.segment);
        applied
    }

    /// Applies writes whose callers gave up waiting, or were refused as the disk was full, once their entries are synced: what is
    /// in the log becomes visible before a restart, too.
    pub(crate) fn adopt(&self) {
        while let Some((write, is_synced)) = self.next_to_adopt() {
            if !is_synced {
                continue;
            }
            let applied = self.apply_in_memory(&write.mutations, &write.tables, Some(write.position));
            if let Err(error) = &applied {
                runtime::error!("a write whose caller went away was not applied completely: {error}");
            }
            write.settle(&applied);
        }
    }

    /// The oldest write without a caller, and whether its entry is synced or lost, if that is known.
    fn next_to_adopt(&self) -> Option<(LoggedWrite, bool)> {
        let mut given_up = self.given_up.borrow_mut();
        let oldest = given_up.first_entry()?;
        let is_synced = self.log.fate(*oldest.key())?;
        let is_held = oldest.get().tables.iter().any(|table| table.is_truncating.get());
        (!is_held).then(|| (oldest.remove(), is_synced))
    }

    fn apply_unlogged(&self, mutations: &[Mutation], on: Point) -> Result<(), Error> {
        self.floors.admit(mutations, on)?;
        let tables = self.check(mutations)?;
        self.apply_in_memory(mutations, &tables, None)
    }

    /// Refuses what cannot be applied, before any of it is logged; returns the table of each mutation.
    fn check(&self, mutations: &[Mutation]) -> Result<Vec<Rc<TableStore>>, Error> {
        let check = |mutation: &Mutation| {
            let table = self.table(mutation.table())?;
            table.with_version(|_, definition| mutation::check_positions(definition, &mutation.view()))?;
            Ok(table)
        };
        mutations.iter().map(check).collect()
    }

    /// Applies each mutation to its table, but for tables that were dropped while the write waited: there is nothing to be
    /// visible in. What is in the log is applied as far as it can be.
    /// Errors: the first; everything else was applied.
    fn apply_in_memory(
        &self,
        mutations: &[Mutation],
        tables: &[Rc<TableStore>],
        position: Option<LogPosition>,
    ) -> Result<(), Error> {
        assert!(mutations.len() == tables.len(), "every mutation has its table");
        let mut result = Ok(());
        for (mutation, table) in mutations.iter().zip(tables) {
            if !table.dropped.get() {
                result = result.and(self.apply_one(table, mutation, position));
            }
        }
        result
    }

    fn apply_one(
        &self,
        table: &TableStore,
        mutation: &Mutation,
        position: Option<LogPosition>,
    ) -> Result<(), Error> {
        let grown = table.with_version(|version, definition| {
            let grown = version.active.apply(definition, &mutation.view())?;
            if let Some(position) = position {
                version.active.note(position);
            }
            Ok::<isize, Error>(grown)
        })?;
        if self.pressure.grew(grown) {
            self.flush_wanted.notify();
            self.memtables_moved.notify();
        }
        Ok(())
    }

    fn is_durable(&self, mutations: &[Mutation], durability: Durability) -> Result<bool, Error> {
        if durability == Durability::Synced {
            return Ok(true);
        }
        let tables = self.tables.borrow();
        for mutation in mutations {
            let table = tables.get(&mutation.table()).ok_or(Error::UnknownTable(mutation.table()))?;
            if table.durable.get() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Makes a write wait for its turn while memory runs low.
    async fn slow_down(&self, bytes: usize) -> Result<(), Error> {
        self.flush_wanted.notify();
        self.metrics.slowed_writes.inc();
        let _turn = self.pressure.queue().lock().await;
        let mut blocked = false;
        loop {
            if self.stopping.get() {
                return Err(Error::Stopping);
            }
            // Writes that were refused take memory until there is room for their entries: no flush frees that.
            if let Some(error) = self.log.refused() {
                return Err(error);
            }
            self.adopt();
            match self.pressure.admit(bytes, runtime::now()) {
                Verdict::Admitted => return Ok(()),
                Verdict::Wait(time) => runtime::sleep(time).await,
                Verdict::Stopped => {
                    if let Some(error) = self.flush_refusal() {
                        return Err(error);
                    }
                    if !std::mem::replace(&mut blocked, true) {
                        self.metrics.blocked_writes.inc();
                    }
                    // Elapsed is a reason to look, too: a flush may have come further without ending.
                    let _ = runtime::timeout(ADMISSION_LOOK, self.flushed.wait()).await;
                }
            }
        }
    }

    /// Asks for a flush when the log has grown beyond its share; cheap unless a new segment has begun.
    fn look_at_log(&self, segment: u32) {
        if self.last_segment.replace(segment) != segment && self.log.size() > self.settings.commitlog_bytes {
            self.flush_wanted.notify();
        }
    }

    /// How many mutations of writes without callers a table has.
    pub(super) fn given_up_of(&self, table: &TableStore) -> usize {
        let given_up = self.given_up.borrow();
        let tables = given_up.values().flat_map(|write| &write.tables);
        tables.filter(|of| std::ptr::eq(&***of, table)).count()
    }

    /// Takes a table out of the writes without callers that were logged before a place.
    pub(crate) fn give_up(&self, table: &TableStore, before: LogPosition) {
        let mut given_up = self.given_up.borrow_mut();
        let earlier = given_up.values_mut().filter(|write| write.position < before);
        earlier.for_each(|write| write.leave(table));
        given_up.retain(|_, write| !write.mutations.is_empty());
    }
}

/// A write that is in the log and not yet in memory.
pub(crate) struct LoggedWrite {
    mutations: Vec<Mutation>,
    /// The table of each mutation, as it was when the write was logged.
    tables: Vec<Rc<TableStore>>,
    position: LogPosition,
    number: u64,
    _held: (Held, Reserved),
}

impl LoggedWrite {
    fn new(
        mutations: Vec<Mutation>,
        tables: Vec<Rc<TableStore>>,
        position: LogPosition,
        number: u64,
        held: (Held, Reserved),
    ) -> LoggedWrite {
        assert!(mutations.len() == tables.len(), "every mutation has its table");
        tables.iter().for_each(|table| table.unsettled.set(table.unsettled.get() + 1));
        LoggedWrite { mutations, tables, position, number, _held: held }
    }

    /// Leaves out what it would write to a table.
    fn leave(&mut self, table: &TableStore) {
        for index in (0..self.tables.len()).rev() {
            if std::ptr::eq(&*self.tables[index], table) {
                self.mutations.remove(index);
                let table = self.tables.remove(index);
                self.abandon(&table);
            }
        }
    }

    /// It is in memory, if this is well.
    fn settle(mut self, applied: &Result<(), Error>) {
        if applied.is_ok() {
            std::mem::take(&mut self.tables).iter().for_each(|table| table.settle_one());
        }
    }

    /// What it would write to a table is in the log alone from now on.
    fn abandon(&self, table: &TableStore) {
        table.replayable.given_up(self.position);
        table.settle_one();
    }
}

impl Drop for LoggedWrite {
    fn drop(&mut self) {
        std::mem::take(&mut self.tables).iter().for_each(|table| self.abandon(table));
    }
}

/// A caller waiting for its write; when it goes away, the write stays with the store.
struct Waiting<'a> {
    store: &'a Store,
    write: Option<LoggedWrite>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if let Some(write) = self.write.take() {
            self.store.given_up.borrow_mut().insert(write.number, write);
            self.store.adopt();
        }
    }
}

/// A key for people: its values with colons between them.
fn key_text(table: &Table, key: &[u8]) -> String {
    let Ok(values) = table.split_key(key) else { return "?".to_string() };
    let text = |(column, value): (&schema::Column, &[u8])| {
        let shown = types::Value::decode(&column.ty, value).map_or("?".to_string(), |value| value.to_cql());
        let shown = shown.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\'')).unwrap_or(&shown);
        shown.chars().take(KEY_CHARS_SHOWN).collect::<String>()
    };
    table.partition_key.iter().zip(values).map(text).collect::<Vec<_>>().join(":")
}

/// Bytes of the payload of an entry of mutations.
fn entry_bytes(mutations: &[Mutation]) -> usize {
    4 + mutations.iter().map(|mutation| 4 + mutation.as_bytes().len()).sum::<usize>()
}

/// Entry payload: u32 count, then per mutation u32 length and bytes.
fn append_entry(log: &Commitlog, mutations: &[Mutation]) -> Result<Appended, Error> {
    if let [mutation] = mutations {
        let bytes = mutation.as_bytes();
        let mut head = [0; 8];
        head[..4].copy_from_slice(&1u32.to_be_bytes());
        head[4..].copy_from_slice(&(bytes.len() as u32).to_be_bytes());
        return log.append(&[&head, bytes]);
    }
    let mut payload = (mutations.len() as u32).to_be_bytes().to_vec();
    for mutation in mutations {
        payload.extend_from_slice(&(mutation.as_bytes().len() as u32).to_be_bytes());
        payload.extend_from_slice(mutation.as_bytes());
    }
    log.append(&[&payload])
}

/// The mutations of an entry, read where they lie, in place of what is in `out`. Errors: what is wrong with the payload, for the
/// message that names file and offset.
pub(crate) fn read_entry<'a>(payload: &'a [u8], out: &mut Vec<MutationView<'a>>) -> Result<(), String> {
    out.clear();
    let mut input = base::ByteReader::new(payload);
    let truncated = |error: base::Truncated| error.to_string();
    let count = input.u32().map_err(truncated)?;
    for _ in 0..count {
        let len = input.u32().map_err(truncated)?;
        let bytes = input.bytes(len as usize).map_err(truncated)?;
        out.push(MutationView::from_bytes(bytes).map_err(|error| error.to_string())?);
    }
    if input.is_empty() { Ok(()) } else { Err(format!("{} bytes too many", input.remaining())) }
}
