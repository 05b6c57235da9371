//! From values to work: what a statement will do, owned and ready to run.

use crate::conditional::{Cas, owned};
use crate::engine::Engine;
use crate::error::Error;
use crate::outcome::{Announce, Answer, Rows};
use crate::statement::{Analysed, Statement};
use coordinator::WriteKind;
use core::time::Duration;
use cql::{
    BindContext, BindSpec, BoundValue, CasStatements, OwnedValue, Page, Plan, Prior, SelectPlan, SelectRun,
};
use mutation::Mutation;
use protocol::request::Parameters;
use protocol::values::Values;
use protocol::wire::RawValue;
use smallvec::SmallVec;
use std::rc::Rc;
use std::sync::Arc;
use types::Consistency;

/// A statement with its values.
pub struct Bound {
    pub(crate) work: Work,
}

/// How far an EXECUTE came within one step.
pub enum Executed {
    /// To its end.
    Done(Result<Answer, Error>),
    /// It has to wait for something: [`Engine::run`] goes on.
    Waits(Bound),
}

/// What is to be done.
pub(crate) enum Work {
    /// Rows to be read.
    Select(Box<Select>),
    /// Mutations to be written.
    Write(Write),
    /// A write that depends on what is there.
    ReadThenWrite(Box<ReadThenWrite>),
    /// A write that is made if conditions hold.
    Cas(Box<Cas>),
    /// Schema changes, USE, TRUNCATE, DESCRIBE.
    Other(Rc<Analysed>, Box<Page>),
}

/// Rows to be read.
pub(crate) struct Select {
    pub(crate) run: Box<SelectRun>,
    /// Whether its table is the server's own.
    pub(crate) of_system: bool,
    /// The rows so far.
    pub(crate) rows: Rows,
    pub(crate) consistency: Consistency,
    pub(crate) timeout: Duration,
}

/// Mutations to be written.
pub(crate) struct Write {
    pub(crate) mutations: Vec<Mutation>,
    pub(crate) kind: WriteKind,
    pub(crate) consistency: Consistency,
    pub(crate) timeout: Duration,
    pub(crate) warnings: Vec<String>,
}

/// A write to lists by place or value: they are read before it can be bound.
pub(crate) struct ReadThenWrite {
    pub(crate) analysed: Rc<Analysed>,
    pub(crate) values: Vec<OwnedValue>,
    pub(crate) context: BindContext<'static>,
    pub(crate) consistency: Consistency,
    pub(crate) timeout: Duration,
}

/// The mutations of one INSERT, UPDATE or DELETE as a write.
pub(crate) fn modification(
    mutations: Vec<Mutation>,
    counts: bool,
    consistency: Consistency,
    timeout: Duration,
) -> Write {
    let kind = match mutations.len() {
        _ if counts => WriteKind::Counter,
        0 | 1 => WriteKind::Simple,
        _ => WriteKind::UnloggedBatch,
    };
    Write { mutations, kind, consistency, timeout, warnings: Vec::new() }
}

/// A counter is not changed at ANY, but in a batch.
fn refuse_any(table: &str, consistency: Consistency) -> Result<(), Error> {
    match consistency {
        Consistency::Any => Err(Error::Invalid(format!(
            "Consistency level ANY is not yet supported for counter table {table}"
        ))),
        _ => Ok(()),
    }
}

/// Nor at a serial level, in a batch or not.
pub(crate) fn refuse_serial_counters(consistency: Consistency) -> Result<(), Error> {
    match consistency.is_serial() {
        true => Err(Error::Invalid("Counter operations are inherently non-serializable".into())),
        false => Ok(()),
    }
}

/// Values up to this many are bound without allocating a list of them.
const INLINE_VALUES: usize = 16;

impl Engine {
    /// Binds the values of `parameters` to an analysed statement.
    pub(crate) fn bind_analysed(
        &self,
        analysed: &Rc<Analysed>,
        announce: Announce,
        parameters: &Parameters<'_>,
        miscount: Miscount,
    ) -> Result<Bound, Error> {
        with_values(&analysed.binds, &parameters.values, miscount, |values| {
            self.bind_values(analysed, announce, parameters, values)
        })
    }

    /// As [`Engine::bind_analysed`], and runs it as far as that goes without waiting.
    pub(crate) fn begin_analysed(
        &self,
        analysed: &Rc<Analysed>,
        announce: Announce,
        parameters: &Parameters<'_>,
    ) -> Result<Executed, Error> {
        with_values(&analysed.binds, &parameters.values, miscount_of_execute, |values| {
            if let Plan::Select(plan) = &analysed.plan {
                // It runs where it was bound: moving it about would cost as much as reading a row.
                let mut select = self.bind_select(plan, analysed, values, announce, parameters)?;
                return Ok(match self.select_now(&mut select) {
                    Some(result) => {
                        self.metrics.selects.inc();
                        Executed::Done(result)
                    }
                    None => Executed::Waits(Bound { work: Work::Select(Box::new(select)) }),
                });
            }
            let mut bound = self.bind_values(analysed, announce, parameters, values)?;
            if let Work::Write(write) = &mut bound.work
                && !self.writes_roles(write)
                && let Some(result) = self.write_now(write)
            {
                self.metrics.writes.inc();
                return Ok(Executed::Done(result));
            }
            Ok(Executed::Waits(bound))
        })
    }

    fn bind_values(
        &self,
        analysed: &Rc<Analysed>,
        announce: Announce,
        parameters: &Parameters<'_>,
        values: &[BoundValue<'_>],
    ) -> Result<Bound, Error> {
        let work = match &analysed.plan {
            Plan::Select(plan) => {
                Work::Select(Box::new(self.bind_select(plan, analysed, values, announce, parameters)?))
            }
            Plan::Modify(plan) => {
                if analysed.of_system {
                    self.refuse_modification(plan)?;
                }
                let counts = plan.table().counter;
                let standard = self.write_timeout(counts);
                let timeout = plan.timeout(values)?.unwrap_or(standard);
                if plan.is_conditional() {
                    let statement = CasStatements::One(plan.clone());
                    self.bind_cas(statement, vec![owned(values)], parameters, timeout)?
                } else if plan.needs_prior() {
                    Work::ReadThenWrite(self.later(analysed, values, parameters, timeout))
                } else {
                    let mutations = plan.bind(values, &self.context(parameters))?;
                    if counts {
                        refuse_any(&plan.table().name, parameters.consistency)?;
                        refuse_serial_counters(parameters.consistency)?;
                    }
                    Work::Write(modification(mutations, counts, parameters.consistency, timeout))
                }
            }
            Plan::Batch(plan) => {
                if analysed.of_system {
                    plan.statements.iter().try_for_each(|part| self.refuse_modification(part))?;
                }
                if plan.is_conditional() {
                    let timeout = plan.timeout(values)?.unwrap_or(self.settings.write_timeout);
                    let statements = CasStatements::Batch(plan.clone());
                    self.bind_cas(statements, vec![owned(values)], parameters, timeout)?
                } else if plan.needs_prior() {
                    Work::ReadThenWrite(self.later(analysed, values, parameters, self.settings.write_timeout))
                } else {
                    let mutations = plan.bind(values, &self.context(parameters), &Prior::default())?;
                    Work::Write(self.batch_write(
                        mutations,
                        plan.logged,
                        plan.counts(),
                        parameters.consistency,
                    )?)
                }
            }
            _ => {
                cql::check_values(&analysed.binds, values)?;
                Work::Other(analysed.clone(), Box::new(self.page_of(parameters)))
            }
        };
        Ok(Bound { work })
    }

    /// How long a write may take that says nothing else.
    pub(crate) fn write_timeout(&self, counts: bool) -> Duration {
        if counts { self.settings.counter_write_timeout } else { self.settings.write_timeout }
    }

    /// Keeps the values of a write that has to read first.
    fn later(
        &self,
        analysed: &Rc<Analysed>,
        values: &[BoundValue<'_>],
        parameters: &Parameters<'_>,
        timeout: Duration,
    ) -> Box<ReadThenWrite> {
        Box::new(ReadThenWrite {
            analysed: analysed.clone(),
            values: owned(values),
            context: self.context(parameters),
            consistency: parameters.consistency,
            timeout,
        })
    }

    /// The part of a result that is asked for.
    fn page_of(&self, parameters: &Parameters<'_>) -> Page {
        Page {
            rows: parameters.page_size,
            bytes: self.settings.page_bytes,
            tombstones: self.settings.page_tombstones,
            state: parameters.paging_state.map(<[u8]>::to_vec),
        }
    }

    fn bind_select(
        &self,
        plan: &Arc<SelectPlan>,
        analysed: &Analysed,
        values: &[BoundValue<'_>],
        announce: Announce,
        parameters: &Parameters<'_>,
    ) -> Result<Select, Error> {
        match check_read_consistency(parameters.consistency) {
            Err(error) if !analysed.of_system => return Err(error),
            _ => {}
        }
        let run = plan.start(values, &read_context(parameters), self.page_of(parameters))?;
        let standard =
            if plan.is_by_key() { self.settings.read_timeout } else { self.settings.range_timeout };
        let metadata = analysed.metadata.clone();
        let metadata = metadata.ok_or_else(|| Error::Server("a SELECT without columns".into()))?;
        Ok(Select {
            run,
            of_system: analysed.of_system,
            rows: Rows { content: self.room(), ..Rows::new(metadata, announce) },
            consistency: parameters.consistency,
            timeout: plan.timeout(values)?.unwrap_or(standard),
        })
    }

    /// The next timestamp of this shard; the machine's clock says `now_micros`.
    pub(crate) fn next_timestamp(&self, now_micros: i64) -> i64 {
        self.timestamps.next(self.clock.time(now_micros))
    }

    /// The clock as a write sees it.
    pub(crate) fn context(&self, parameters: &Parameters<'_>) -> BindContext<'static> {
        let now_micros = runtime::unix_micros();
        let timestamp = parameters.timestamp.unwrap_or_else(|| self.next_timestamp(now_micros));
        let now_s = parameters.now_s.map_or((now_micros / 1_000_000) as u32, |s| s as u32);
        BindContext { timestamp, now_micros, now_s, random: &runtime::random_u64, ticks: &next_tick }
    }
}

/// The clock as a SELECT sees it: nothing it gives has to be later than what was given before.
fn read_context(parameters: &Parameters<'_>) -> BindContext<'static> {
    let now_micros = runtime::unix_micros();
    let timestamp = parameters.timestamp.unwrap_or(now_micros);
    let now_s = parameters.now_s.map_or((now_micros / 1_000_000) as u32, |s| s as u32);
    BindContext { timestamp, now_micros, now_s, random: &runtime::random_u64, ticks: &next_tick }
}

/// The next tick of this shard, for list elements and traces.
pub(crate) fn next_tick() -> i64 {
    let engine = runtime::local::<Engine>();
    engine.ticks.next(engine.clock.time(runtime::unix_micros()).saturating_mul(10))
}

/// Says that there are so many markers but so many values: each kind of request has its own words.
pub(crate) type Miscount = fn(usize, usize) -> String;

/// The words of QUERY.
pub(crate) fn miscount_of_query(_markers: usize, _values: usize) -> String {
    "Invalid amount of bind variables".into()
}

/// The words of EXECUTE.
pub(crate) fn miscount_of_execute(markers: usize, values: usize) -> String {
    format!("there were {markers} markers(?) in CQL but {values} bound variables")
}

/// The words of BATCH.
pub(crate) fn miscount_of_batch(markers: usize, values: usize) -> String {
    format!("There were {markers} markers(?) in CQL but {values} bound variables")
}

/// Calls `with` with the request's values in the order of the markers.
pub(crate) fn with_values<T>(
    binds: &[BindSpec],
    values: &Values<'_>,
    miscount: Miscount,
    with: impl FnOnce(&[BoundValue<'_>]) -> Result<T, Error>,
) -> Result<T, Error> {
    if values.is_named() {
        let named: Vec<(&str, BoundValue<'_>)> =
            values.iter().filter_map(|(name, value)| Some((name?, bound_value(value)))).collect();
        return with(&cql::by_name(binds, &named)?);
    }
    if values.len() != binds.len() {
        return Err(Error::Invalid(miscount(binds.len(), values.len())));
    }
    let mut bound: SmallVec<[BoundValue<'_>; INLINE_VALUES]> = SmallVec::new();
    for value in values.positional() {
        bound.push(bound_value(value));
    }
    with(&bound)
}

fn bound_value(value: RawValue<'_>) -> BoundValue<'_> {
    match value {
        RawValue::Null => BoundValue::Null,
        RawValue::Unset => BoundValue::Unset,
        RawValue::Bytes(bytes) => BoundValue::Bytes(bytes),
    }
}

pub(crate) fn check_read_consistency(consistency: Consistency) -> Result<(), Error> {
    match consistency {
        Consistency::Any => Err(Error::Invalid("ANY ConsistencyLevel is only supported for writes".into())),
        _ => Ok(()),
    }
}

impl Statement {
    /// How much of the result's metadata a client needs that says what it has.
    pub(crate) fn announce(&self, analysed: &Analysed, known_id: Option<&[u8]>, skip: bool) -> Announce {
        let current = analysed.metadata.as_ref().map(|m| &m.id[..]);
        match (known_id, current) {
            // v5: the id says what the client has.
            (Some(known), Some(current)) if known != current => Announce::Changed,
            // v4: nothing says it, so a result whose columns ever changed is always described.
            (None, _) if self.columns_changed() => Announce::Columns,
            _ if skip => Announce::Skip,
            _ => Announce::Columns,
        }
    }
}
