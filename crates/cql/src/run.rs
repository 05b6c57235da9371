//! A SELECT being run: asks for reads, takes answers, gives rows, remembers where a page ends.
//!
//! ```text
//! start ─► next ─► (somebody reads) ─► feed ─► next ─► … ─► None ─► finish
//! ```
//! No I/O here: the caller does the reading between `next` and `feed`. Rows go out through a callback, one call per row
//! with borrowed values; selecting plain columns copies and allocates nothing per row.

use crate::aggregate::Running;
use crate::error::{Error, Result, invalid};
use crate::limits;
use crate::restriction::{BoundFilter, for_each_key, token_range};
use crate::row::{COLUMNS_INLINE, RowValues};
use crate::select::SelectPlan;
use crate::term::{Env, Term, eval_int};
use crate::to_json;
use crate::value::{BindContext, BoundValue, check_values, no_ticks};
use crate::write::eval_timeout;
use base::ByteReader;
use core::time::Duration;
use mutation::{Item, Key, Keys, MutationView, ReadAnswer, ReadCommand, Resume, Scope, Slice, Slices};
use schema::{CompactStorage, Position};
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
    /// With so many tombstones met, a page that the client can continue ends with what it has, be it nothing.
    pub tombstones: u32,
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

    /// Reads what a client sent back; any bytes may come. Rows beyond the largest limit count no further, so that whoever
    /// counts on from there does not overflow.
    fn decode(bytes: &[u8]) -> Result<PagingState> {
        let mut reader = ByteReader::new(bytes);
        let state = (|| {
            if reader.u8().ok()? != STATE_FORMAT {
                return None;
            }
            let limit_left = reader.u32().ok()?;
            let partition_rows = reader.u32().ok()?.min(i32::MAX as u32);
            let rows_taken = reader.u32().ok()?.min(i32::MAX as u32);
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
    bound: Bound,
    command: ReadCommand,
    filters: Vec<BoundFilter>,
    running: Vec<Running>,
    /// The group being read.
    group: Option<Box<Group>>,
    /// Rows that are given out when all are there, if they must be sorted.
    sorted: Option<Box<Sorted>>,
    /// Rows of the next read where not every row read is given out: few at first, four times as many with each.
    step_rows: u32,
    page_rows: Option<u32>,
    page_left: u32,
    limit_left: u32,
    partition_limit: u32,
    /// The partition the last row came from, and rows given out of it.
    partition: Option<(Box<[u8]>, u32)>,
    steps: u32,
    live_rows: u32,
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
    ) -> Result<Box<SelectRun>> {
        check_values(&self.binds, values)?;
        let env = Env { values, context, table: &self.table };
        let limit = self.limit.as_ref().map_or(Ok(u32::MAX), |term| positive(term, &env))?;
        let partition_limit =
            self.partition_limit.as_ref().map_or(Ok(u32::MAX), |term| positive(term, &env))?;
        let aggregate = self.is_aggregate();
        let scope = self.scope(&env, page.rows.is_some())?;
        let statics_only = self.table.compact == CompactStorage::Static && !self.distinct;
        let slices = if self.distinct {
            smallvec![Slice::all()]
        } else if statics_only {
            // What rows there are is not seen.
            Slices::new()
        } else {
            self.clustering.slices(&self.table, &env)?
        };
        let mut filters = Vec::with_capacity(self.filters.len());
        for (place, filter) in &self.filters {
            filters.push(filter.bind(*place, &env)?);
        }
        let nothing = scope.is_none() || (slices.is_empty() && !statics_only);
        let counted_here = (!filters.is_empty() || aggregate) && !self.distinct;
        let of_partition = if self.distinct { 1 } else { partition_limit };
        let sorts = !self.sort.is_empty() && matches!(&scope, Some(Scope::Keys(keys)) if keys.len() > 1);
        let one_row = self.is_one_row();
        let paged = page.rows.filter(|_| !one_row);
        // Boxed: it is handed up through several floors, and large.
        let mut run = Box::new(SelectRun {
            plan: self.clone(),
            bound: Bound {
                values: if self.evaluates_terms { kept(values) } else { Vec::new() },
                timestamp: context.timestamp,
                now_micros: context.now_micros,
                now_s: context.now_s,
                random_state: std::cell::Cell::new((context.random)()),
            },
            command: ReadCommand {
                table: self.table.id,
                scope: scope.unwrap_or(Scope::Keys(Keys::new())),
                slices,
                reversed: self.reversed,
                static_counts: self.static_counts,
                row_limit: u32::MAX,
                partition_row_limit: match (counted_here, sorts) {
                    (true, _) => u32::MAX,
                    (false, true) => of_partition.min(limit),
                    (false, false) => of_partition,
                },
                byte_limit: mutation::ByteLimit::near(page.bytes.into()),
                now_s: context.now_s,
                resume: None,
                digest_only: false,
                tombstones: 0,
                // Who does not page gets all or an error; each read of a group may meet as many as one page.
                tombstone_limit: if paged.is_some() || aggregate { page.tombstones } else { u32::MAX },
            },
            filters,
            // Most statements have none; then there is nothing to make a pattern of.
            running: if aggregate { vec![Running::new(); self.aggregates.len()] } else { Vec::new() },
            group: None,
            sorted: (sorts && !one_row).then(|| Box::new(Sorted { rows: Vec::new(), bytes: 0, limit })),
            step_rows: match one_row {
                true => limits::ROWS_PER_STEP,
                false => first_step(paged.unwrap_or(u32::MAX).min(limit)),
            },
            page_rows: paged,
            page_left: paged.unwrap_or(u32::MAX),
            limit_left: if one_row || sorts { u32::MAX } else { limit },
            partition_limit: if counted_here && !one_row { of_partition } else { u32::MAX },
            partition: None,
            steps: 0,
            live_rows: 0,
            done: nothing,
            stopped: None,
        });
        if let Some(state) = &page.state
            && !one_row
        {
            run.resume(PagingState::decode(state)?)?;
        }
        Ok(run)
    }

    /// The time the client allows, if the statement says.
    pub fn timeout(&self, values: &[BoundValue<'_>]) -> Result<Option<Duration>> {
        eval_timeout(self.timeout.as_ref(), values, &self.table)
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
        let mut keys = found;
        if !self.tokens.is_empty() {
            let range = token_range(&self.tokens, env)?;
            keys.retain(|key| range.is_some_and(|range| range.contains(key.token)));
        }
        if keys.len() > 1 && !self.sort.is_empty() && paged {
            return invalid(
                "Cannot page queries with both ORDER BY and a IN restriction on the partition key; you must either \
                 remove the ORDER BY or the IN and sort client side, or disable paging for this query",
            );
        }
        if keys.is_empty() {
            return Ok(None);
        }
        Ok(Some(Scope::Keys(keys)))
    }
}

/// Copies of bound values, for a run that outlives the request's buffer.
fn kept(values: &[BoundValue<'_>]) -> Vec<Option<Option<Vec<u8>>>> {
    values
        .iter()
        .map(|value| match value {
            BoundValue::Bytes(bytes) => Some(Some(bytes.to_vec())),
            BoundValue::Null => Some(None),
            BoundValue::Unset => None,
        })
        .collect()
}

/// The value of LIMIT or PER PARTITION LIMIT, which Cassandra words alike.
fn positive(term: &Term, env: &Env<'_, '_>) -> Result<u32> {
    if matches!(term.eval(env)?, crate::value::Val::Unset) {
        return Ok(u32::MAX);
    }
    match eval_int(term, env, "limit")? {
        None => invalid("Invalid null value of limit"),
        Some(limit) if limit <= 0 => invalid("LIMIT must be strictly positive"),
        Some(limit) => Ok(limit as u32),
    }
}

/// Rows of the first read for so many rows or groups wanted: as few as may do, since each page begins again.
fn first_step(wanted: u32) -> u32 {
    wanted.saturating_add(1).clamp(limits::ROWS_OF_FIRST_STEP, limits::ROWS_PER_STEP)
}

/// Reads of one page before a filter that passes nothing hands back an empty page, so that no request runs for ever. Tombstones end
/// a page as well: a client that asks for page after page gets through any number of them.
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
        self.command.row_limit = if many { self.step_rows } else { wanted };
        if let Some(stopped) = self.stopped.take() {
            self.command.resume = Some(stopped);
        }
        Some(&self.command)
    }

    /// Takes the answer to the last read and gives out its rows.
    /// Errors: an answer that does not fit the table. Rows given out before it stay given out.
    pub fn feed(&mut self, answer: &ReadAnswer, sink: &mut RowSink<'_>) -> Result<()> {
        self.steps += 1;
        self.command.tombstones = answer.tombstones;
        self.live_rows = self.live_rows.saturating_add(answer.live_rows);
        let before = self.page_left;
        let overflow = self.give_rows(answer, sink)?;
        self.stopped = overflow.or_else(|| answer.stopped.clone());
        if self.stopped.is_none() {
            self.done = true;
            return Ok(());
        }
        let paged = self.page_rows.is_some();
        let gave = self.page_left < before;
        let tired = self.steps >= STEPS_PER_PAGE || self.command.is_tired_by(answer.tombstones);
        self.step_rows = self.step_rows.saturating_mul(4).min(limits::ROWS_PER_STEP);
        // A group is not cut: its page ends where the next group begins. Each of its reads may meet as many tombstones as
        // one page, for nobody can ask for it in smaller ones.
        if self.plan.is_aggregate() {
            self.command.tombstones = 0;
            return Ok(());
        }
        if paged && ((gave && self.filters.is_empty()) || tired) {
            self.page_left = 0;
        }
        Ok(())
    }

    /// What was read last, with the tombstones that the page has met, and how many live rows it has.
    pub fn met(&self) -> (&ReadCommand, u32) {
        (&self.command, self.live_rows)
    }

    /// Ends the page: gives out the last group and rows that were to be sorted; returns the state with which the next
    /// page starts, if there is one.
    pub fn finish(&mut self, sink: &mut RowSink<'_>) -> Result<Option<Vec<u8>>> {
        if self.plan.is_aggregate() || self.sorted.is_some() {
            self.give_gathered(sink)?;
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

    /// Gives out the last group, which of an aggregate without groups may have no rows, and what was to be sorted.
    fn give_gathered(&mut self, sink: &mut RowSink<'_>) -> Result<()> {
        let plan = self.plan.clone();
        if plan.is_one_row() && self.group.is_none() {
            let row = RowValues::new(&plan.fetches, self.command.now_s);
            self.group = Some(Box::new(Group { row, key: Vec::new() }));
        }
        if self.limit_left > 0 && self.page_left > 0 {
            self.close_group(&plan, sink)?;
        }
        // One row, or rows that were sorted, are the whole answer.
        self.done |= plan.is_one_row() || self.sorted.is_some();
        if let Some(sorted) = self.sorted.take() {
            sorted.give(&plan, sink);
        }
        Ok(())
    }

    /// Whether a client that pages gets no more than this one row.
    pub fn is_aggregate(&self) -> bool {
        self.plan.is_one_row()
    }

    fn give_rows(&mut self, answer: &ReadAnswer, sink: &mut RowSink<'_>) -> Result<Option<Resume>> {
        let plan = self.plan.clone();
        let mut row = RowValues::without_places(self.command.now_s);
        row.make_places(&plan.fetches);
        let mut out: SmallVec<[Option<&[u8]>; COLUMNS_INLINE]> =
            SmallVec::with_capacity(plan.selectors.len());
        let direct = !plan.is_aggregate()
            && self.sorted.is_none()
            && plan.json.is_none()
            && plan.fetches.is_simple()
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
                match self.admit(&plan, &row, (view.key, clustering), &mut given, sink)? {
                    Admitted::Full => return self.overflow(answer, &view, last, taken, given).map(Some),
                    Admitted::No => {}
                    Admitted::Yes => {
                        if direct {
                            out.clear();
                            for selector in &plan.selectors {
                                out.push(selector.fetched().and_then(|index| row.borrowed(index)));
                            }
                            sink(&out);
                        } else {
                            self.give_row(&plan, &row, sink)?;
                        }
                        given = given.saturating_add(1);
                        self.count_row();
                    }
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

    /// Whether a row is given out. One of a group joins it instead; groups are counted in `given` as they begin.
    #[inline]
    fn admit(
        &mut self,
        plan: &SelectPlan,
        row: &RowValues<'_>,
        (key, clustering): (&[u8], Option<&[u8]>),
        given: &mut u32,
        sink: &mut RowSink<'_>,
    ) -> Result<Admitted> {
        let aggregates = plan.is_aggregate();
        if !aggregates && *given >= self.partition_limit {
            return Ok(Admitted::No);
        }
        if !self.filters.iter().all(|f| f.passes(row.value(f.fetch))) {
            return Ok(Admitted::No);
        }
        if !aggregates {
            let full = self.page_left == 0 || self.limit_left == 0;
            return Ok(if full { Admitted::Full } else { Admitted::Yes });
        }
        let begun = self.begins_group(plan, row, key, clustering)?;
        if begun.is_some() {
            self.close_group(plan, sink)?;
            // Rows behind a partition's last group are passed over.
            if *given >= self.partition_limit {
                return Ok(Admitted::No);
            }
            if self.page_left == 0 || self.limit_left == 0 {
                return Ok(Admitted::Full);
            }
            *given = given.saturating_add(1);
        }
        self.join_group(plan, row, begun)?;
        Ok(Admitted::No)
    }

    /// Counts a row given out against page and limit; what is to be sorted is not given out yet.
    fn count_row(&mut self) {
        if self.sorted.is_none() {
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

    /// What a row and those of its group agree in, if it is the first of one.
    fn begins_group(
        &mut self,
        plan: &SelectPlan,
        row: &RowValues<'_>,
        key: &[u8],
        clustering: Option<&[u8]>,
    ) -> Result<Option<Vec<u8>>> {
        let Some(grouping) = &plan.grouping else {
            return Ok(self.group.is_none().then(Vec::new));
        };
        let mut agree = Vec::with_capacity(key.len() + 16);
        schema::push_component(&mut agree, Some(key));
        let components = clustering.map(schema::clustering_components).into_iter().flatten();
        for component in components.take(grouping.columns) {
            schema::push_component(&mut agree, component.map_err(corrupt)?);
        }
        if let (Some(function), Some(_)) = (&grouping.function, clustering) {
            let value = self
                .bound
                .with_env(plan, |env| function.eval(row, env).map(|value| value.map(Cow::into_owned)))?;
            schema::push_component(&mut agree, value.as_deref());
        }
        let same = self.group.as_ref().is_some_and(|group| group.key == agree);
        Ok((!same).then_some(agree))
    }

    /// Adds a row to the group being read, or begins one with it that agrees in `begun`.
    fn join_group(&mut self, plan: &SelectPlan, row: &RowValues<'_>, begun: Option<Vec<u8>>) -> Result<()> {
        if let Some(key) = begun {
            self.group = Some(Box::new(Group { row: row.kept(), key }));
        }
        let running = &mut self.running;
        self.bound.with_env(plan, |env| {
            for (aggregate, running) in plan.aggregates.iter().zip(running) {
                match &aggregate.argument {
                    Some(argument) => running.add(aggregate, argument.eval(row, env)?.as_deref()),
                    None => running.add(aggregate, None),
                }
            }
            Ok(())
        })
    }

    /// Gives out the group that is being read, if there is one, and starts anew.
    fn close_group(&mut self, plan: &SelectPlan, sink: &mut RowSink<'_>) -> Result<()> {
        let Some(group) = self.group.take() else { return Ok(()) };
        let mut row = group.row;
        let results =
            plan.aggregates.iter().zip(&self.running).map(|(a, running)| running.result(a)).collect();
        row.set_aggregates(results);
        self.running.fill(Running::new());
        self.give_row(plan, &row, sink)?;
        self.count_row();
        Ok(())
    }

    fn give_row(&mut self, plan: &SelectPlan, row: &RowValues<'_>, sink: &mut RowSink<'_>) -> Result<()> {
        let sorted = &mut self.sorted;
        self.bound.with_env(plan, |env| {
            let cells: Result<Vec<Option<Cow<'_, [u8]>>>> =
                plan.selectors.iter().map(|s| s.eval(row, env)).collect();
            let mut cells = cells?;
            if let Some(columns) = &plan.json {
                let fields = columns.iter().zip(&cells).map(|(c, cell)| (&*c.name, &c.ty, cell.as_deref()));
                let object = to_json::row(fields)?;
                cells = vec![Some(Cow::Owned(object.into_bytes()))];
            }
            if let Some(sorted) = sorted {
                return sorted.add(plan, row, &cells);
            }
            let out: SmallVec<[Option<&[u8]>; COLUMNS_INLINE]> = cells.iter().map(Option::as_deref).collect();
            sink(&out);
            Ok(())
        })
    }
}

/// A group: its first row, which stands for it, and what its rows agree in.
struct Group {
    row: RowValues<'static>,
    key: Vec<u8>,
}

/// What becomes of a row that was read.
enum Admitted {
    /// It is given out.
    Yes,
    /// It is not, or as part of its group.
    No,
    /// It would be, but the page ended before it.
    Full,
}

/// What was bound when the run started, for functions and terms among the selectors.
struct Bound {
    /// Values as the client sent them; the second `None` is null.
    values: Vec<Option<Option<Vec<u8>>>>,
    timestamp: i64,
    now_micros: i64,
    now_s: u32,
    random_state: std::cell::Cell<u64>,
}

impl Bound {
    fn with_env<T>(&self, plan: &SelectPlan, body: impl FnOnce(&Env<'_, '_>) -> T) -> T {
        let random = || next_random(&self.random_state);
        let context = BindContext {
            timestamp: self.timestamp,
            now_micros: self.now_micros,
            now_s: self.now_s,
            random: &random,
            ticks: &no_ticks,
        };
        let values: SmallVec<[BoundValue<'_>; 4]> = self
            .values
            .iter()
            .map(|v| match v {
                Some(Some(bytes)) => BoundValue::Bytes(bytes),
                Some(None) => BoundValue::Null,
                None => BoundValue::Unset,
            })
            .collect();
        body(&Env { values: &values, context: &context, table: &plan.table })
    }
}

/// Rows of several partitions that are given out in one order, each with what it is sorted by.
struct Sorted {
    rows: Vec<(Vec<Cell>, Vec<Cell>)>,
    bytes: usize,
    limit: u32,
}

type Cell = Option<Vec<u8>>;

impl Sorted {
    /// Errors: more than a node should hold for one request.
    fn add(&mut self, plan: &SelectPlan, row: &RowValues<'_>, cells: &[Option<Cow<'_, [u8]>>]) -> Result<()> {
        let by: Vec<Cell> = plan.sort.iter().map(|c| row.value(c.fetch).map(<[u8]>::to_vec)).collect();
        let cells: Vec<Cell> = cells.iter().map(|c| c.as_deref().map(<[u8]>::to_vec)).collect();
        let size = |cells: &[Cell]| cells.iter().flatten().map(Vec::len).sum::<usize>() + 32 * cells.len();
        self.bytes += size(&by) + size(&cells);
        if self.bytes > limits::SORTED_BYTES {
            return invalid(format!(
                "ORDER BY with IN on the partition key would sort more than {} bytes",
                limits::SORTED_BYTES
            ));
        }
        self.rows.push((by, cells));
        Ok(())
    }

    /// Rows that compare equal stay in the order of their partitions; null comes first.
    fn give(mut self, plan: &SelectPlan, sink: &mut RowSink<'_>) {
        self.rows.sort_by(|(a, _), (b, _)| {
            let mut order = core::cmp::Ordering::Equal;
            for (column, (a, b)) in plan.sort.iter().zip(a.iter().zip(b)) {
                order = match (a, b) {
                    (Some(a), Some(b)) => column.ty.compare(a, b),
                    (a, b) => a.is_some().cmp(&b.is_some()),
                };
                if column.descending {
                    order = order.reverse();
                }
                if order.is_ne() {
                    break;
                }
            }
            order
        });
        for (_, cells) in self.rows.iter().take(self.limit as usize) {
            let out: Vec<Option<&[u8]>> = cells.iter().map(Option::as_deref).collect();
            sink(&out);
        }
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
mod tests;
