//! A SELECT being run: asks for reads, takes answers, gives rows, remembers where a page ends.
//!
//! ```text
//! start ─► next ─► (somebody reads) ─► feed ─► next ─► … ─► None ─► finish
//! ```
//! No I/O here: the caller does the reading between `next` and `feed`. Rows go out through a callback, one call per row
//! with borrowed values; selecting plain columns copies and allocates nothing per row.

use crate::error::{Error, Result, invalid, unsupported};
use crate::limits;
use crate::restriction::{BoundFilter, for_each_key, token_range};
use crate::row::{COLUMNS_INLINE, RowValues};
use crate::select::SelectPlan;
use crate::selector::{Running, Selector};
use crate::term::{Env, Term, eval_int};
use crate::value::{BindContext, BoundValue, check_values, no_ticks};
use crate::write::eval_timeout;
use base::ByteReader;
use core::time::Duration;
use mutation::{Item, Key, Keys, MutationView, ReadAnswer, ReadCommand, Resume, Scope, Slice};
use schema::Position;
use smallvec::{SmallVec, smallvec};
use std::borrow::Cow;
use std::sync::Arc;

/// Receives one row: a value or null for each result column.
pub type RowSink<'s> = dyn FnMut(&[Option<&[u8]>]) + 's;

/// The page a client asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// Most rows; `None`: everything.
    pub rows: Option<u32>,
    /// An answer of one replica stops soon after this many bytes.
    pub bytes: u32,
    /// Where the last page ended, as its client sends it back.
    pub state: Option<Vec<u8>>,
}

/// The end of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
struct PagingState {
    resume: Resume,
    /// Rows LIMIT still allows.
    limit_left: u32,
    /// Rows given out of the partition it stopped in.
    partition_rows: u32,
}

const STATE_FORMAT: u8 = 1;

impl PagingState {
    fn encode(&self) -> Vec<u8> {
        let mut out = vec![STATE_FORMAT];
        for number in
            [self.limit_left, self.partition_rows, self.resume.rows_taken, self.resume.key.bytes.len() as u32]
        {
            out.extend_from_slice(&number.to_be_bytes());
        }
        out.extend_from_slice(&self.resume.key.bytes);
        if let Some(after) = &self.resume.after {
            out.push(1);
            out.extend_from_slice(after.as_bytes());
        }
        out
    }

    /// Reads what a client sent back; any bytes may come.
    fn decode(bytes: &[u8]) -> Result<PagingState> {
        let mut reader = ByteReader::new(bytes);
        let state = (|| {
            if reader.u8().ok()? != STATE_FORMAT {
                return None;
            }
            let limit_left = reader.u32().ok()?;
            let partition_rows = reader.u32().ok()?;
            let rows_taken = reader.u32().ok()?;
            let length = reader.u32().ok()? as usize;
            let key = Key::new(reader.bytes(length).ok()?);
            let after = if reader.is_empty() {
                None
            } else if reader.u8().ok()? == 1 {
                Some(Position::from_bytes(reader.bytes(reader.remaining()).ok()?))
            } else {
                return None;
            };
            Some(PagingState { resume: Resume { key, after, rows_taken }, limit_left, partition_rows })
        })();
        state.ok_or_else(bad_state)
    }
}

fn bad_state() -> Error {
    Error::Protocol { text: "Invalid value for the paging state".to_string() }
}

/// A SELECT with its values, somewhere between its first and last read.
pub struct SelectRun {
    plan: Arc<SelectPlan>,
    /// Values as the client sent them, for functions and terms among the selectors.
    values: Vec<Option<Vec<u8>>>,
    timestamp: i64,
    now_micros: i64,
    command: ReadCommand,
    filters: Vec<BoundFilter>,
    running: Vec<Running>,
    /// The values of plain selectors for an aggregate's only row.
    first_row: Option<Vec<Option<Vec<u8>>>>,
    page_rows: Option<u32>,
    page_left: u32,
    limit_left: u32,
    partition_limit: u32,
    /// The partition the last row came from, and rows given out of it.
    partition: Option<(Box<[u8]>, u32)>,
    random_state: u64,
    steps: u32,
    done: bool,
    stopped: Option<Resume>,
}

impl SelectPlan {
    /// Binds values and starts a page.
    /// Errors: values that are none of their type, null or oversized keys, bad limits, a paging state that is not ours.
    pub fn start(
        self: &Arc<Self>,
        values: &[BoundValue<'_>],
        context: &BindContext<'_>,
        page: Page,
    ) -> Result<SelectRun> {
        check_values(&self.binds, values)?;
        let env = Env { values, context, table: &self.table };
        let limit = positive(self.limit.as_ref(), &env, "LIMIT", "limit")?;
        let partition_limit = positive(self.partition_limit.as_ref(), &env, "LIMIT", "per partition limit")?;
        let aggregate = self.is_aggregate();
        let scope = self.scope(&env, page.rows.is_some())?;
        let slices = if self.distinct {
            smallvec![Slice::all()]
        } else {
            self.clustering.slices(&self.table, &env)?
        };
        let filters: Result<Vec<_>> = self.filters.iter().map(|(place, f)| f.bind(*place, &env)).collect();
        let filters = filters?;
        let nothing = scope.is_none() || slices.is_empty();
        let counted_here = !filters.is_empty() || aggregate;
        let of_partition = if self.distinct { 1 } else { partition_limit };
        let mut run = SelectRun {
            plan: self.clone(),
            values: if self.evaluates_terms() { kept(values) } else { Vec::new() },
            timestamp: context.timestamp,
            now_micros: context.now_micros,
            command: ReadCommand {
                table: self.table.id,
                scope: scope.unwrap_or(Scope::Keys(Keys::new())),
                slices,
                reversed: self.reversed,
                static_counts: self.static_counts,
                row_limit: u32::MAX,
                partition_row_limit: if counted_here { u32::MAX } else { of_partition },
                byte_limit: page.bytes.max(1),
                now_s: context.now_s,
                resume: None,
                digest_only: false,
            },
            filters,
            running: vec![Running::new(); self.aggregates.len()],
            first_row: None,
            page_rows: page.rows.filter(|_| !aggregate),
            page_left: page.rows.filter(|_| !aggregate).unwrap_or(u32::MAX),
            limit_left: if aggregate { u32::MAX } else { limit },
            partition_limit: if counted_here && !aggregate { of_partition } else { u32::MAX },
            partition: None,
            random_state: (context.random)(),
            steps: 0,
            done: nothing,
            stopped: None,
        };
        if let Some(state) = &page.state
            && !aggregate
        {
            run.resume(PagingState::decode(state)?)?;
        }
        Ok(run)
    }

    /// The time the client allows, if the statement says.
    pub fn timeout(&self, values: &[BoundValue<'_>]) -> Result<Option<Duration>> {
        eval_timeout(self.timeout.as_ref(), values, &self.table)
    }

    /// Whether rows need more than the fetched values.
    fn evaluates_terms(&self) -> bool {
        let plain = |s: &Selector| matches!(s, Selector::Fetch(_) | Selector::Aggregate(_));
        !self.selectors.iter().all(plain)
            || !self.aggregates.iter().all(|a| a.argument.as_ref().is_none_or(plain))
    }

    fn scope(&self, env: &Env<'_, '_>, paged: bool) -> Result<Option<Scope>> {
        let Some(keys) = &self.keys else {
            return Ok(token_range(&self.tokens, env)?.map(Scope::Range));
        };
        let mut found = Keys::new();
        for_each_key(&self.table, keys, env, |key| {
            found.push(Key::new(key));
            Ok(())
        })?;
        let keys = found;
        if keys.len() > 1 && self.ordered {
            if paged {
                return invalid(
                    "Cannot page queries with both ORDER BY and a IN restriction on the partition key; you must either \
                     remove the ORDER BY or the IN and sort client side, or disable paging for this query",
                );
            }
            return unsupported("ORDER BY together with IN on the partition key");
        }
        if keys.is_empty() {
            return Ok(None);
        }
        Ok(Some(Scope::Keys(keys)))
    }
}

/// Copies of bound values, for a run that outlives the request's buffer.
fn kept(values: &[BoundValue<'_>]) -> Vec<Option<Vec<u8>>> {
    values
        .iter()
        .map(|v| if let BoundValue::Bytes(bytes) = v { Some(bytes.to_vec()) } else { None })
        .collect()
}

fn positive(term: Option<&Term>, env: &Env<'_, '_>, name: &str, what: &str) -> Result<u32> {
    let Some(term) = term else { return Ok(u32::MAX) };
    if matches!(term.eval(env)?, crate::value::Val::Unset) {
        return Ok(u32::MAX);
    }
    match eval_int(term, env, what)? {
        None => invalid(format!("Invalid null value of {what}")),
        Some(limit) if limit <= 0 => invalid(format!("{name} must be strictly positive")),
        Some(limit) => Ok(limit as u32),
    }
}

/// Reads of one page before a filter that passes nothing hands back an empty page, so that no request runs for ever.
const STEPS_PER_PAGE: u32 = 64;

impl SelectRun {
    fn resume(&mut self, state: PagingState) -> Result<()> {
        let known = match &self.command.scope {
            Scope::Keys(keys) => keys.contains(&state.resume.key),
            Scope::Range(range) => range.contains(state.resume.key.token),
        };
        if !known || state.limit_left == 0 {
            return Err(bad_state());
        }
        self.limit_left = self.limit_left.min(state.limit_left);
        self.partition = Some((state.resume.key.bytes.clone(), state.partition_rows));
        self.command.resume = Some(state.resume);
        Ok(())
    }

    /// What is run.
    pub fn plan(&self) -> &Arc<SelectPlan> {
        &self.plan
    }

    /// What to read next; `None` when the page is complete. Answer with [`SelectRun::feed`]; asked again before that, it
    /// says the same.
    #[allow(clippy::should_implement_trait, reason = "it lends the command, which an iterator cannot")]
    pub fn next(&mut self) -> Option<&ReadCommand> {
        if self.done || self.page_left == 0 || self.limit_left == 0 {
            return None;
        }
        let wanted = self.page_left.min(self.limit_left);
        let many = !self.filters.is_empty() || self.plan.is_aggregate();
        self.command.row_limit = if many { limits::ROWS_PER_STEP } else { wanted };
        if let Some(stopped) = self.stopped.take() {
            self.command.resume = Some(stopped);
        }
        Some(&self.command)
    }

    /// Takes the answer to the last read and gives out its rows.
    /// Errors: an answer that does not fit the table. Rows given out before it stay given out.
    pub fn feed(&mut self, answer: &ReadAnswer, sink: &mut RowSink<'_>) -> Result<()> {
        self.steps += 1;
        let before = self.page_left;
        let overflow = self.give_rows(answer, sink)?;
        self.stopped = overflow.or_else(|| answer.stopped.clone());
        if self.stopped.is_none() {
            self.done = true;
            return Ok(());
        }
        let paged = self.page_rows.is_some();
        let gave = self.page_left < before;
        let tired = self.steps >= STEPS_PER_PAGE;
        if paged && ((gave && self.filters.is_empty()) || tired) {
            self.page_left = 0;
        }
        Ok(())
    }

    /// Ends the page: gives out an aggregate's row; returns the state with which the next page starts, if there is one.
    pub fn finish(&mut self, sink: &mut RowSink<'_>) -> Result<Option<Vec<u8>>> {
        if self.plan.is_aggregate() {
            self.give_aggregate(sink);
            return Ok(None);
        }
        if self.done || self.limit_left == 0 {
            return Ok(None);
        }
        let Some(resume) = self.stopped.take() else { return Ok(None) };
        let partition_rows = match &self.partition {
            Some((key, rows)) if *key == resume.key.bytes => *rows,
            _ => 0,
        };
        Ok(Some(PagingState { resume, limit_left: self.limit_left, partition_rows }.encode()))
    }

    /// Whether a client that pages gets no more than this one row.
    pub fn is_aggregate(&self) -> bool {
        self.plan.is_aggregate()
    }

    fn give_rows(&mut self, answer: &ReadAnswer, sink: &mut RowSink<'_>) -> Result<Option<Resume>> {
        let plan = self.plan.clone();
        let mut row = RowValues::new(&plan.fetches, self.command.now_s);
        let mut out: SmallVec<[Option<&[u8]>; COLUMNS_INLINE]> =
            SmallVec::with_capacity(plan.selectors.len());
        let direct = plan.fetches.is_simple()
            && self.filters.is_empty()
            && plan.selectors.iter().all(|s| s.fetched().is_some());
        for mutation in &answer.partitions {
            let view = mutation.view();
            let resumed = self.command.resume.as_ref().filter(|r| *r.key.bytes == *view.key);
            let mut taken = resumed.map_or(0, |r| r.rows_taken);
            let cut_here =
                answer.stopped.as_ref().is_some_and(|s| s.after.is_some() && *s.key.bytes == *view.key);
            let mut given = match &self.partition {
                Some((key, rows)) if **key == *view.key => *rows,
                _ => 0,
            };
            let static_live = row
                .start_partition(&plan.fetches, &plan.table, view.key, view.static_row, view.deletion)
                .map_err(corrupt)?;
            let mut last: Option<&[u8]> = None;
            let mut items = view.items();
            loop {
                let (clustering, body) = match items.next() {
                    Some(Item::Row { clustering, body }) => (Some(clustering), body),
                    Some(Item::Range { .. }) => continue,
                    None if only_static(&plan, static_live, taken, cut_here) => (None, &[][..]),
                    None => break,
                };
                match clustering {
                    Some(clustering) => {
                        if !mutation::row_is_live(body, view.deletion, self.command.now_s) {
                            continue;
                        }
                        row.start_row(&plan.fetches, clustering, body, view.deletion).map_err(corrupt)?;
                    }
                    None => row.clear_row(&plan.fetches),
                }
                let passes =
                    given < self.partition_limit && self.filters.iter().all(|f| f.passes(row.value(f.fetch)));
                if passes && (self.page_left == 0 || self.limit_left == 0) {
                    return self.overflow(answer, &view, last, taken, given).map(Some);
                }
                if passes {
                    if direct {
                        out.clear();
                        out.extend(
                            plan.selectors.iter().map(|s| s.fetched().and_then(|index| row.borrowed(index))),
                        );
                        sink(&out);
                    } else {
                        self.give_row(&plan, &row, sink)?;
                    }
                    given += 1;
                    self.count_row();
                }
                taken = taken.saturating_add(1);
                last = clustering;
                if clustering.is_none() {
                    break;
                }
            }
            if given > 0 && self.partition_limit != u32::MAX {
                self.partition = Some((view.key.into(), given));
            }
        }
        Ok(None)
    }

    /// Counts a row given out against page and limit; an aggregate's rows are not given out.
    fn count_row(&mut self) {
        if !self.plan.is_aggregate() {
            self.page_left = self.page_left.saturating_sub(1);
            self.limit_left = self.limit_left.saturating_sub(1);
        }
    }

    /// A full page with a row too many: the next one starts behind the row given out last.
    fn overflow(
        &mut self,
        answer: &ReadAnswer,
        view: &MutationView<'_>,
        last: Option<&[u8]>,
        taken: u32,
        given: u32,
    ) -> Result<Resume> {
        if let Some(clustering) = last {
            self.partition = Some((view.key.into(), given));
            let after = Some(self.plan.table.position(clustering).map_err(corrupt)?);
            let key = Key::with_token(view.token, view.key);
            return Ok(Resume { key, after, rows_taken: taken });
        }
        // Nothing of this partition was dealt with: the page ended with the one before, or where this read began.
        let index = answer.partitions.iter().position(|p| p.view().key == view.key).unwrap_or(0);
        match index.checked_sub(1).and_then(|i| answer.partitions.get(i)) {
            Some(previous) => {
                let previous = previous.view();
                let key = Key::with_token(previous.token, previous.key);
                Ok(Resume { key, after: None, rows_taken: 0 })
            }
            None => self.command.resume.clone().ok_or_else(|| Error::Corrupt {
                text: "an answer holds more rows than were asked for".to_string(),
            }),
        }
    }

    fn give_row(&mut self, plan: &SelectPlan, row: &RowValues<'_>, sink: &mut RowSink<'_>) -> Result<()> {
        let state = std::cell::Cell::new(self.random_state);
        let random = || next_random(&state);
        let context = BindContext {
            timestamp: self.timestamp,
            now_micros: self.now_micros,
            now_s: self.command.now_s,
            random: &random,
            ticks: &no_ticks,
        };
        let values: Vec<BoundValue<'_>> =
            self.values.iter().map(|v| v.as_deref().map_or(BoundValue::Null, BoundValue::Bytes)).collect();
        let env = Env { values: &values, context: &context, table: &plan.table };
        for (aggregate, running) in plan.aggregates.iter().zip(&mut self.running) {
            match &aggregate.argument {
                Some(argument) => running.add(aggregate, argument.eval(row, &env)?.as_deref()),
                None => running.add(aggregate, None),
            }
        }
        if plan.is_aggregate() && self.first_row.is_some() {
            return Ok(());
        }
        let cells: Result<Vec<Option<Cow<'_, [u8]>>>> =
            plan.selectors.iter().map(|s| s.eval(row, &env)).collect();
        let cells = cells?;
        if plan.is_aggregate() {
            self.first_row = Some(cells.into_iter().map(|c| c.map(Cow::into_owned)).collect());
        } else {
            let out: Vec<Option<&[u8]>> = cells.iter().map(Option::as_deref).collect();
            sink(&out);
        }
        self.random_state = state.get();
        Ok(())
    }

    fn give_aggregate(&mut self, sink: &mut RowSink<'_>) {
        let mut cells = self.first_row.take().unwrap_or_else(|| vec![None; self.plan.selectors.len()]);
        for (selector, cell) in self.plan.selectors.iter().zip(&mut cells) {
            if let Selector::Aggregate(index) = selector {
                *cell = self.running[*index].result(&self.plan.aggregates[*index]);
            }
        }
        let out: Vec<Option<&[u8]>> = cells.iter().map(Option::as_deref).collect();
        sink(&out);
    }
}

/// Whether a partition's static row stands as a row of its own; the same rule by which replicas count it.
/// `taken`: live rows of this partition so far, on earlier pages too.
fn only_static(plan: &SelectPlan, live: bool, taken: u32, cut_here: bool) -> bool {
    plan.static_counts && live && taken == 0 && !cut_here
}

/// A step of splitmix64: fresh bits per row from one draw per request.
fn next_random(state: &std::cell::Cell<u64>) -> u64 {
    let next = state.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
    state.set(next);
    let mixed = (next ^ next >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

fn corrupt(error: schema::Error) -> Error {
    Error::Corrupt { text: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Plan, parse, prepare};
    use mutation::{Cell, Deletion, Liveness, Mutation, MutationBuilder, RowWriter};
    use schema::{Keyspace, Order, Replication, Schema, Table, TableBuilder, TableId};
    use std::collections::BTreeMap;
    use types::CqlType;

    fn table() -> Table {
        TableBuilder::new("ks", "t", TableId(1))
            .partition_key("k", CqlType::Int)
            .clustering("c", CqlType::Int, Order::Ascending)
            .static_column("s", CqlType::Int)
            .regular("v", CqlType::Int)
            .build()
            .expect("a valid table")
    }

    fn plan_of(table: &Table) -> Arc<SelectPlan> {
        let mut keyspace = Keyspace::new("ks", Replication::Simple { factor: 1 });
        keyspace.tables.insert(table.name.clone(), Arc::new(table.clone()));
        let schema = Schema::new(1, BTreeMap::from([(keyspace.name.clone(), Arc::new(keyspace))]));
        let statement = parse("SELECT * FROM t WHERE k = 1").expect("parses");
        match prepare(&schema, Some("ks"), statement).expect("prepares").plan {
            Plan::Select(plan) => plan,
            _ => panic!("a SELECT"),
        }
    }

    fn key() -> Key {
        Key::new(&1i32.to_be_bytes())
    }

    /// A run that continues where `state` says, at the last read of its page.
    fn run_of(plan: &Arc<SelectPlan>, state: Option<Vec<u8>>) -> SelectRun {
        let command = ReadCommand {
            table: TableId(1),
            scope: Scope::Keys(smallvec![key()]),
            slices: smallvec![Slice::all()],
            reversed: false,
            static_counts: true,
            row_limit: u32::MAX,
            partition_row_limit: u32::MAX,
            byte_limit: 1,
            now_s: 60,
            resume: None,
            digest_only: false,
        };
        let mut run = SelectRun {
            plan: plan.clone(),
            values: Vec::new(),
            timestamp: 0,
            now_micros: 0,
            command,
            filters: Vec::new(),
            running: Vec::new(),
            first_row: None,
            page_rows: Some(10),
            page_left: 10,
            limit_left: u32::MAX,
            partition_limit: u32::MAX,
            partition: None,
            random_state: 0,
            steps: STEPS_PER_PAGE - 1,
            done: false,
            stopped: None,
        };
        if let Some(state) = state {
            run.resume(PagingState::decode(&state).expect("ours")).expect("fits");
        }
        run
    }

    /// The partition's static row, and one row, live or dead.
    fn part(row: Option<(&[u8], bool)>) -> Mutation {
        let key = key();
        let mut builder = MutationBuilder::new(TableId(1), key.token, &key.bytes);
        builder.static_row_with(|out| {
            let mut row = RowWriter::new(out, Liveness::NONE, Deletion::LIVE);
            row.simple(0, Cell::live(1, &7i32.to_be_bytes()));
        });
        if let Some((clustering, live)) = row {
            let (liveness, deletion) = match live {
                true => (Liveness::at(1), Deletion::LIVE),
                false => (Liveness::NONE, Deletion { timestamp: 1, local_time: 1 }),
            };
            builder.write_row(clustering, liveness, deletion, |_| {});
        }
        builder.finish()
    }

    #[test]
    fn a_static_row_stands_for_its_partition_behind_pages_of_dead_rows_only() {
        let table = table();
        let plan = plan_of(&table);
        let mut clustering = Vec::new();
        schema::push_component(&mut clustering, Some(&5i32.to_be_bytes()));
        let after = table.position(&clustering).expect("a position");
        for live in [false, true] {
            let rows_taken = u32::from(live);
            let mut run = run_of(&plan, None);
            assert!(run.next().is_some());
            let stopped = Some(Resume { key: key(), after: Some(after.clone()), rows_taken });
            let partitions = vec![part(Some((&clustering, live)))];
            let answer = ReadAnswer { partitions, live_rows: rows_taken, stopped, digest: None };
            let mut rows = 0;
            run.feed(&answer, &mut |_| rows += 1).expect("fits");
            assert_eq!(rows, rows_taken, "the page ends inside the partition");
            let state = run.finish(&mut |_| {}).expect("ends").expect("there is more");

            let mut run = run_of(&plan, Some(state));
            assert!(run.next().is_some());
            let partitions = vec![part(None)];
            let answer = ReadAnswer { partitions, live_rows: 1 - rows_taken, stopped: None, digest: None };
            run.feed(&answer, &mut |_| rows += 1).expect("fits");
            assert_eq!(rows, 1, "live: {live}");
        }
    }
}
