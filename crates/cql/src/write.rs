//! What a modification puts into a row: operations on columns, evaluated once and written into any number of rows.

use crate::arithmetic;
use crate::ast::Arithmetic;
use crate::error::{Error, Result, invalid};
use crate::limits;
use crate::prior::PriorRow;
use crate::term::{Env, Term, eval_int};
use crate::value::{BindContext, BoundValue, Val, no_ticks};
use core::time::Duration;
use mutation::{Cell, Deletion, Liveness, MutationBuilder, NO_TIME, RowWriter};
use schema::Table;
use std::borrow::Cow;
use std::sync::Arc;
use types::{CqlType, collection};

/// USING.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Times {
    pub timestamp: Option<Term>,
    pub ttl: Option<Term>,
    pub timeout: Option<Term>,
}

/// When a statement writes and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Written {
    /// Microseconds since the Unix epoch.
    pub timestamp: i64,
    /// Seconds; 0 for ever.
    pub ttl: u32,
    /// The second of the deletion, and from which the ttl counts.
    pub now_s: u32,
}

/// What says when a statement writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    /// The statement, then its batch, if they do; otherwise the request.
    Statement(Option<i64>),
    /// The decision that it is part of, whatever the statement says.
    Decision(i64),
}

impl Times {
    /// Evaluates timestamp and ttl.
    pub fn eval(&self, env: &Env<'_, '_>, moment: Moment) -> Result<Written> {
        let own = match &self.timestamp {
            Some(term) => eval_timestamp(term, env)?,
            None => None,
        };
        let timestamp = match moment {
            Moment::Statement(batch) => own.or(batch).unwrap_or(env.context.timestamp),
            Moment::Decision(at) => at,
        };
        if timestamp == i64::MIN {
            return invalid("Out of bound timestamp, must be in [-9223372036854775807, 9223372036854775807]");
        }
        Ok(Written { timestamp, ttl: eval_ttl(self.ttl.as_ref(), env)?, now_s: env.context.now_s })
    }

    /// USING TIMEOUT.
    pub fn timeout(&self, values: &[BoundValue<'_>], table: &Table) -> Result<Option<Duration>> {
        eval_timeout(self.timeout.as_ref(), values, table)
    }
}

impl Written {
    fn expires_at(&self) -> u32 {
        self.now_s.saturating_add(self.ttl).min(NO_TIME - 1)
    }

    /// The mark of an INSERT.
    pub fn liveness(&self) -> Liveness {
        if self.ttl == 0 {
            Liveness::at(self.timestamp)
        } else {
            Liveness::expiring(self.timestamp, self.ttl, self.expires_at())
        }
    }

    fn cell<'v>(&self, value: Option<&'v [u8]>) -> Cell<'v> {
        match value {
            None => Cell::tombstone(self.timestamp, self.now_s),
            Some(value) if self.ttl == 0 => Cell::live(self.timestamp, value),
            Some(value) => Cell::expiring(self.timestamp, self.ttl, self.expires_at(), value),
        }
    }
}

/// A timestamp of USING; `None` when not set.
pub(crate) fn eval_timestamp(term: &Term, env: &Env<'_, '_>) -> Result<Option<i64>> {
    match term.eval(env)? {
        Val::Unset => Ok(None),
        Val::Null => invalid("Invalid null value of timestamp"),
        Val::Bytes(bytes) => match <[u8; 8]>::try_from(&*bytes).map(i64::from_be_bytes) {
            Ok(i64::MIN) => {
                invalid("Out of bound timestamp, must be in [-9223372036854775807, 9223372036854775807]")
            }
            Ok(timestamp) => Ok(Some(timestamp)),
            Err(_) => invalid("Invalid timestamp value"),
        },
    }
}

/// The ttl in seconds: the statement's, otherwise the table's.
pub(crate) fn eval_ttl(term: Option<&Term>, env: &Env<'_, '_>) -> Result<u32> {
    let default = env.table.options.default_time_to_live.max(0) as u32;
    let Some(term) = term else { return Ok(default) };
    if matches!(term.eval(env)?, Val::Unset) {
        return Ok(default);
    }
    let ttl = i64::from(eval_int(term, env, "ttl")?.unwrap_or(0));
    if ttl < 0 {
        return invalid(format!("A TTL must be greater or equal to 0, but was {ttl}"));
    }
    if ttl > limits::TTL_SECONDS {
        return invalid(format!("ttl is too large. requested ({ttl}) maximum ({})", limits::TTL_SECONDS));
    }
    Ok(ttl as u32)
}

/// A USING TIMEOUT as a duration.
pub(crate) fn eval_timeout(
    term: Option<&Term>,
    values: &[BoundValue<'_>],
    table: &Table,
) -> Result<Option<Duration>> {
    let Some(term) = term else { return Ok(None) };
    let random = || 0;
    let context = BindContext { timestamp: 0, now_micros: 0, now_s: 0, random: &random, ticks: &no_ticks };
    let value = term.eval(&Env { values, context: &context, table })?;
    let Some(bytes) = value.bytes() else {
        return Ok(None);
    };
    let duration = types::duration::Duration::decode(bytes)?;
    let bad = || Error::Invalid {
        text: "Timeout duration must be positive and not contain months or days".to_string(),
    };
    if duration.months != 0 || duration.days != 0 {
        return Err(bad());
    }
    let nanos = u64::try_from(duration.nanos).map_err(|_| bad())?;
    Ok(Some(Duration::from_nanos(nanos)))
}

/// One change to one column.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Operation {
    pub ordinal: u16,
    pub name: Arc<str>,
    pub ty: CqlType,
    pub operator: Operator,
}

/// How a column changes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Operator {
    /// Overwrites the whole column.
    Set(Term),
    /// Deletes the whole column.
    Delete,
    /// Adds elements at the end of a list, or to a set or map.
    Append(Term),
    /// Adds elements at the front of a list.
    Prepend(Term),
    /// Removes elements of a set or keys of a map.
    Remove(Term),
    /// Puts a map's value at a key.
    Put(Term, Term),
    /// Removes one element of a set or key of a map.
    DeleteElement(Term),
    /// Overwrites a field of a user type.
    SetField(u16, Term),
    /// Deletes a field of a user type.
    DeleteField(u16),
    /// Overwrites the list element at a place.
    PutAt(Term, Term),
    /// Removes the list element at a place.
    DeleteAt(Term),
    /// Removes the list elements equal to any of these.
    RemoveEqual(Term),
    /// Adds to a number, or to the end of a text; null stays null.
    Increase(Term),
    /// Adds to a counter.
    Count(Term),
    /// Takes from a counter.
    CountDown(Term),
}

impl Operator {
    /// Whether it must know the list as it stands.
    pub fn needs_prior(&self) -> bool {
        matches!(
            self,
            Operator::PutAt(..) | Operator::DeleteAt(_) | Operator::RemoveEqual(_) | Operator::Increase(_)
        )
    }
}

type ElementCell<'t> = (Cow<'t, [u8]>, Option<Cow<'t, [u8]>>);

enum Change<'t> {
    Simple(Option<Cow<'t, [u8]>>),
    Complex(Deletion, Vec<ElementCell<'t>>),
}

/// The evaluated changes of one row, ordinals ascending.
pub(crate) struct Content<'t> {
    changes: Vec<(u16, Change<'t>)>,
    written: Written,
}

impl<'t> Content<'t> {
    /// Evaluates operations, which are in order of ordinals. Unset values change nothing. `prior` is
    /// the row as it stands.
    pub fn eval<'v: 't>(
        operations: &'t [Operation],
        env: &Env<'v, '_>,
        written: &Written,
        prior: PriorRow<'_>,
    ) -> Result<Content<'t>> {
        let mut changes = Vec::with_capacity(operations.len());
        for (index, operation) in operations.iter().enumerate() {
            if operation.ty.is_multi_cell() {
                complex(operation, env, written, prior, &mut changes)?;
                if operations.get(index + 1).is_none_or(|next| next.ordinal != operation.ordinal) {
                    put_in_order(operation, &mut changes);
                }
                continue;
            }
            match &operation.operator {
                Operator::Set(term) => match term.eval(env)? {
                    Val::Bytes(bytes) => changes.push((operation.ordinal, Change::Simple(Some(bytes)))),
                    Val::Null => changes.push((operation.ordinal, Change::Simple(None))),
                    Val::Unset => {}
                },
                Operator::Increase(term) => {
                    let by = match term.eval(env)? {
                        Val::Bytes(bytes) => bytes,
                        Val::Null => {
                            return invalid(format!("Invalid null value for column {}", operation.name));
                        }
                        Val::Unset => continue,
                    };
                    if let Some(value) = prior.value(operation.ordinal, env.context.now_s) {
                        let value = increased(&operation.ty, value, &by)?;
                        changes.push((operation.ordinal, Change::Simple(value.map(Cow::Owned))));
                    }
                }
                Operator::Count(term) | Operator::CountDown(term) => {
                    let down = matches!(operation.operator, Operator::CountDown(_));
                    let Some(by) = increment(term, down, env)? else { continue };
                    match &mut changes[..] {
                        // Several of one counter are one.
                        [.., (ordinal, Change::Simple(Some(sum)))] if *ordinal == operation.ordinal => {
                            *sum = Cow::Owned(sum_of(sum, &by));
                        }
                        _ => changes.push((operation.ordinal, Change::Simple(Some(Cow::Owned(by))))),
                    }
                }
                _ => changes.push((operation.ordinal, Change::Simple(None))),
            }
        }
        Ok(Content { changes, written: *written })
    }

    /// Whether nothing changes.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// When and for how long it is written.
    pub fn written(&self) -> &Written {
        &self.written
    }

    /// Writes a partition's static row, if anything changes.
    pub fn write_static(&self, builder: &mut MutationBuilder) {
        if !self.is_empty() {
            builder.static_row_with(|bytes| {
                self.write(&mut RowWriter::new(bytes, Liveness::NONE, Deletion::LIVE));
            });
        }
    }

    /// Writes the columns of one row.
    pub fn write(&self, row: &mut RowWriter<'_>) {
        for (ordinal, change) in &self.changes {
            match change {
                Change::Simple(value) => row.simple(*ordinal, self.written.cell(value.as_deref())),
                Change::Complex(deletion, cells) => {
                    row.complex_start(*ordinal, *deletion);
                    for (path, value) in cells {
                        row.complex_cell(path, self.written.cell(value.as_deref()));
                    }
                    row.complex_end();
                }
            }
        }
    }
}

/// What is to be added to a counter; `None`: nothing is said.
fn increment(term: &Term, down: bool, env: &Env<'_, '_>) -> Result<Option<Vec<u8>>> {
    let by = match term.eval(env)? {
        Val::Bytes(bytes) => <[u8; 8]>::try_from(&*bytes).map(i64::from_be_bytes),
        Val::Null => return invalid("Invalid null value for counter increment"),
        Val::Unset => return Ok(None),
    };
    let Ok(by) = by else { return invalid("Invalid value for counter increment") };
    let by = match by.checked_neg() {
        _ if !down => by,
        Some(taken) => taken,
        None => {
            return invalid(format!(
                "The negation of {by} overflows supported counter precision (signed 8 bytes integer)"
            ));
        }
    };
    Ok(Some(by.to_be_bytes().to_vec()))
}

/// What two changes of a counter come to.
fn sum_of(left: &[u8], right: &[u8]) -> Vec<u8> {
    let number = |bytes: &[u8]| bytes.try_into().map_or(0, i64::from_be_bytes);
    number(left).wrapping_add(number(right)).to_be_bytes().to_vec()
}

/// A number or text with another behind it.
fn increased(ty: &CqlType, value: &[u8], by: &[u8]) -> Result<Option<Vec<u8>>> {
    if matches!(ty, CqlType::Text | CqlType::Ascii) {
        return Ok(Some([value, by].concat()));
    }
    arithmetic::apply(Arithmetic::Add, (ty, value), (ty, by))
}

/// Adds one operation on a collection to the changes, joining it with one just before on the same column.
fn complex<'t, 'v: 't>(
    operation: &'t Operation,
    env: &Env<'v, '_>,
    written: &Written,
    prior: PriorRow<'_>,
    changes: &mut Vec<(u16, Change<'t>)>,
) -> Result<()> {
    let deletion_at = |timestamp| Deletion { timestamp, local_time: written.now_s };
    let mut deletion = Deletion::LIVE;
    let mut cells = Vec::new();
    match &operation.operator {
        Operator::Delete => deletion = deletion_at(written.timestamp),
        Operator::Set(term) => match term.eval(env)? {
            Val::Unset => return Ok(()),
            Val::Null => deletion = deletion_at(written.timestamp.saturating_sub(1)),
            Val::Bytes(bytes) => {
                deletion = deletion_at(written.timestamp.saturating_sub(1));
                cells = element_cells(operation, &bytes, env)?;
            }
        },
        Operator::Append(term) => match term.eval(env)? {
            Val::Bytes(bytes) => cells = element_cells(operation, &bytes, env)?,
            Val::Null | Val::Unset => return Ok(()),
        },
        Operator::Prepend(term) => match term.eval(env)? {
            Val::Bytes(bytes) => cells = prepended(operation, &bytes, env)?,
            Val::Null | Val::Unset => return Ok(()),
        },
        Operator::Remove(term) => match term.eval(env)? {
            Val::Bytes(bytes) => {
                for item in collection::elements(&bytes) {
                    cells.push((checked_path(item?)?, None));
                }
            }
            Val::Null | Val::Unset => return Ok(()),
        },
        Operator::Put(key, value) => {
            let path = path(operation, key.eval(env)?)?;
            match value.eval(env)? {
                Val::Bytes(bytes) => cells.push((path, Some(bytes))),
                Val::Null => cells.push((path, None)),
                Val::Unset => return Ok(()),
            }
        }
        Operator::SetField(field, value) => {
            let path = Cow::Owned(field.to_be_bytes().to_vec());
            match value.eval(env)? {
                Val::Bytes(bytes) => cells.push((path, Some(bytes))),
                Val::Null => cells.push((path, None)),
                Val::Unset => return Ok(()),
            }
        }
        Operator::DeleteField(field) => cells.push((Cow::Owned(field.to_be_bytes().to_vec()), None)),
        Operator::DeleteElement(key) => cells.push((path(operation, key.eval(env)?)?, None)),
        // Of columns of one cell alone.
        Operator::Increase(_) | Operator::Count(_) | Operator::CountDown(_) => return Ok(()),
        Operator::PutAt(..) | Operator::DeleteAt(_) | Operator::RemoveEqual(_) => {
            cells = list_cells(operation, env, prior)?;
        }
    }
    join(operation, deletion, cells, changes);
    Ok(())
}

/// Brings the cells of a column into order once all its operations have given theirs: of equal paths the last one stays.
fn put_in_order(operation: &Operation, changes: &mut [(u16, Change<'_>)]) {
    let Some((ordinal, Change::Complex(_, cells))) = changes.last_mut() else { return };
    let Some(path_type) = operation.ty.cell_path_type().filter(|_| *ordinal == operation.ordinal) else {
        return;
    };
    cells.sort_by(|a, b| path_type.compare(&a.0, &b.0));
    cells.dedup_by(|later, earlier| {
        let same = path_type.compare(&later.0, &earlier.0).is_eq();
        if same {
            std::mem::swap(later, earlier);
        }
        same
    });
}

/// The cells that an operation on the list as it stands writes.
fn list_cells<'t, 'v: 't>(
    operation: &'t Operation,
    env: &Env<'v, '_>,
    prior: PriorRow<'_>,
) -> Result<Vec<ElementCell<'t>>> {
    let list = prior.list(operation.ordinal, env.context.now_s);
    match &operation.operator {
        Operator::PutAt(index, value) => {
            let (index, value) = (index.eval(env)?, value.eval(env)?);
            let path = list_path(&index, &list, "Attempted to set an element on a list which is null")?;
            Ok(match value {
                Val::Bytes(bytes) => vec![(path, Some(bytes))],
                Val::Null => vec![(path, None)],
                Val::Unset => Vec::new(),
            })
        }
        Operator::DeleteAt(index) => match index.eval(env)? {
            Val::Unset => Ok(Vec::new()),
            index => {
                let empty = "Attempted to delete an element from a list which is null";
                Ok(vec![(list_path(&index, &list, empty)?, None)])
            }
        },
        Operator::RemoveEqual(term) => {
            let Val::Bytes(unwanted) = term.eval(env)? else { return Ok(Vec::new()) };
            let mut cells = Vec::new();
            for item in collection::elements(&unwanted) {
                let item = item?.unwrap_or(&[]);
                let equal = list.iter().filter(|(_, value)| *value == item);
                cells.extend(equal.map(|(path, _)| (Cow::Owned(path.to_vec()), None)));
            }
            Ok(cells)
        }
        _ => Ok(Vec::new()),
    }
}

/// The path of the element at an index.
fn list_path<'t>(index: &Val<'_>, list: &[(&[u8], &[u8])], empty: &str) -> Result<Cow<'t, [u8]>> {
    let bytes = match index {
        Val::Bytes(bytes) => bytes,
        Val::Null => return invalid("Invalid null value for list index"),
        Val::Unset => return invalid("Invalid unset value for list index"),
    };
    let Ok(index) = <[u8; 4]>::try_from(&**bytes).map(i32::from_be_bytes) else {
        return invalid("Invalid list index: 4 bytes expected");
    };
    if list.is_empty() {
        return invalid(empty);
    }
    match usize::try_from(index).ok().and_then(|i| list.get(i)) {
        Some((path, _)) => Ok(Cow::Owned(path.to_vec())),
        None => invalid(format!("List index {index} out of bound, list has size {}", list.len())),
    }
}

fn join<'t>(
    operation: &Operation,
    deletion: Deletion,
    mut cells: Vec<ElementCell<'t>>,
    changes: &mut Vec<(u16, Change<'t>)>,
) {
    let earlier = changes.pop_if(|(ordinal, _)| *ordinal == operation.ordinal);
    let mut all_deletion = deletion;
    let mut all = Vec::new();
    if let Some((_, Change::Complex(deletion, cells))) = earlier {
        all_deletion = all_deletion.max(deletion);
        all = cells;
    }
    all.append(&mut cells);
    if all.is_empty() && all_deletion.is_live() {
        return;
    }
    changes.push((operation.ordinal, Change::Complex(all_deletion, all)));
}

/// The cells of a whole collection value. List elements get paths that grow within the statement.
fn element_cells<'t>(operation: &Operation, bytes: &[u8], env: &Env<'_, '_>) -> Result<Vec<ElementCell<'t>>> {
    if matches!(operation.ty, CqlType::Udt(_)) {
        return field_cells(bytes);
    }
    let mut cells = Vec::with_capacity(collection::count(bytes)?.min(bytes.len() / 4));
    match &operation.ty {
        CqlType::Map(..) => {
            for entry in collection::entries(bytes) {
                let (key, value) = entry?;
                cells.push((checked_path(Some(key))?, Some(Cow::Owned(value.to_vec()))));
            }
        }
        CqlType::Set(_) => {
            for item in collection::elements(bytes) {
                cells.push((checked_path(item?)?, Some(Cow::Borrowed(&[][..]))));
            }
        }
        _ => {
            for item in collection::elements(bytes) {
                let Some(item) = item? else {
                    return invalid("null is not supported inside collections");
                };
                let path = list_element_path((env.context.ticks)(), env);
                cells.push((path, Some(Cow::Owned(item.to_vec()))));
            }
        }
    }
    Ok(cells)
}

/// The cells of a whole user type value: one for each field that is not null.
fn field_cells<'t>(bytes: &[u8]) -> Result<Vec<ElementCell<'t>>> {
    let mut cells = Vec::new();
    for (index, field) in collection::Fields::new(bytes).enumerate() {
        if let Some(value) = field? {
            let path = (index as u16).to_be_bytes().to_vec();
            cells.push((Cow::Owned(path), Some(Cow::Owned(value.to_vec()))));
        }
    }
    Ok(cells)
}

/// Milliseconds since the Unix epoch of 2010-01-01: elements put in front get paths mirrored at this time.
/// It must never change: paths on disk were made with it. Source: Cassandra 5.0, `Lists.PrecisionTime`.
const MIRROR_MS: i64 = 1_262_304_000_000;

fn prepended<'t>(operation: &Operation, bytes: &[u8], env: &Env<'_, '_>) -> Result<Vec<ElementCell<'t>>> {
    let mut cells = element_cells(operation, bytes, env)?;
    let mirror_ticks = MIRROR_MS * 10_000;
    // Behind the ticks that the elements took just now: mirrored, they come before all that was put in front earlier.
    let now_ticks = (env.context.ticks)();
    let base = mirror_ticks.saturating_sub(now_ticks.saturating_sub(mirror_ticks));
    for (index, cell) in cells.iter_mut().enumerate() {
        cell.0 = list_element_path(base.saturating_add(index as i64), env);
    }
    Ok(cells)
}

/// A timeuuid with random node bits, so that two coordinators do not make the same.
fn list_element_path<'t>(ticks: i64, env: &Env<'_, '_>) -> Cow<'t, [u8]> {
    Cow::Owned(types::timeuuid::from_ticks(ticks, (env.context.random)()).as_bytes().to_vec())
}

fn path<'t>(operation: &Operation, key: Val<'t>) -> Result<Cow<'t, [u8]>> {
    let kind = if matches!(operation.ty, CqlType::Map(..)) { "map key" } else { "set element" };
    match key {
        Val::Null => invalid(format!("Invalid null {kind}")),
        Val::Unset => invalid(format!("Invalid unset {kind}")),
        Val::Bytes(bytes) => Ok(bytes),
    }
}

fn checked_path<'t>(key: Option<&[u8]>) -> Result<Cow<'t, [u8]>> {
    match key {
        None => invalid("null is not supported inside collections"),
        Some(key) => Ok(Cow::Owned(key.to_vec())),
    }
}
