//! What SELECT returns: columns, parts and functions of them, aggregates; evaluated row by row.

use crate::arithmetic;
use crate::ast::Arithmetic;
use crate::error::{Result, invalid};
use crate::function::Function;
use crate::row::{CellTimes, RowValues};
use crate::term::{Env, Term};
use crate::value::{Val, sort_elements, sort_pairs};
use std::borrow::Cow;
use types::{CqlType, collection};

/// One expression of a SELECT clause. Numbers are places in what the statement fetches.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Selector {
    /// A column.
    Fetch(usize),
    /// When a column's cells were written, or how long they stay.
    Times(Box<Times>),
    /// A value.
    Term(Term),
    /// A function of other selectors.
    Call(Box<Function>, Vec<Selector>),
    /// Two values with their types and an operator between.
    Arithmetic(Arithmetic, Box<[(CqlType, Selector); 2]>),
    /// A number of a type with the other sign.
    Negate(CqlType, Box<Selector>),
    /// A field of a user type.
    Field(Box<Selector>, usize),
    /// An element or several of a set or map.
    Part(Box<PartOf>),
    /// A list, set, map (keys and values in turns), tuple or user type of other selectors.
    Build(CqlType, Vec<Selector>),
    /// An aggregate, by its place.
    Aggregate(usize),
}

/// `writetime(c)`, `maxwritetime(c)`, `ttl(c)`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Times {
    /// Which of them.
    pub kind: TimesKind,
    /// The column's place.
    pub fetch: usize,
    /// The column's type.
    pub ty: CqlType,
    /// Which of its cells, if it has many: slices of slices, an element or a field last; all when there are none.
    pub parts: Vec<Part>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TimesKind {
    Writetime,
    MaxWritetime,
    Ttl,
}

/// A part of a collection or user type.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Part {
    /// A field of a user type.
    Field(usize),
    /// A set's element, or a map's value at a key.
    Element(Term),
    /// What lies between two elements or keys, both included.
    Slice(Option<Term>, Option<Term>),
}

/// A part of a set or map.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PartOf {
    /// The set or map.
    pub of: Selector,
    /// Its type; where it has many cells, a slice of none is null.
    pub ty: CqlType,
    /// An element or a slice.
    pub part: Part,
    /// How it is written, for errors.
    pub text: String,
}

type Value<'r> = Option<Cow<'r, [u8]>>;

impl Selector {
    /// The place of the column, if that is all it is.
    pub fn fetched(&self) -> Option<usize> {
        match self {
            Selector::Fetch(index) => Some(*index),
            _ => None,
        }
    }

    /// The value for a row.
    pub fn eval<'r>(&'r self, row: &'r RowValues<'_>, env: &Env<'_, 'r>) -> Result<Value<'r>> {
        Ok(match self {
            Selector::Fetch(index) => row.value(*index).map(Cow::Borrowed),
            Selector::Times(times) => times.eval(row, env)?.map(Cow::Owned),
            // Not set is no value, as Cassandra shows it; what must not be null refuses it by itself.
            Selector::Term(term) => match term.eval(env)? {
                Val::Bytes(bytes) => Some(Cow::Owned(bytes.into_owned())),
                Val::Null => None,
                Val::Unset => Some(Cow::Owned(Vec::new())),
            },
            Selector::Call(function, arguments) => call(function, arguments, row, env)?,
            Selector::Arithmetic(operator, sides) => {
                let [(left_type, left), (right_type, right)] = &**sides;
                match (left.eval(row, env)?, right.eval(row, env)?) {
                    (Some(left), Some(right)) => {
                        arithmetic::apply(*operator, (left_type, &left), (right_type, &right))?
                            .map(Cow::Owned)
                    }
                    _ => None,
                }
            }
            Selector::Negate(ty, inner) => match inner.eval(row, env)? {
                Some(value) => arithmetic::negate(ty, &value)?.map(Cow::Owned),
                None => None,
            },
            Selector::Field(of, index) => match of.eval(row, env)? {
                Some(bytes) => {
                    let field = collection::Fields::new(&bytes).nth(*index).transpose()?;
                    field.flatten().map(|f| Cow::Owned(f.to_vec()))
                }
                None => None,
            },
            Selector::Part(part) => part.eval(row, env)?.map(Cow::Owned),
            Selector::Build(ty, items) => built(ty, items, row, env)?.map(Cow::Owned),
            Selector::Aggregate(index) => row.aggregate(*index).map(Cow::Borrowed),
        })
    }
}

fn call<'r>(
    function: &'r Function,
    arguments: &'r [Selector],
    row: &'r RowValues<'_>,
    env: &Env<'_, 'r>,
) -> Result<Value<'r>> {
    let mut values = Vec::with_capacity(arguments.len());
    for argument in arguments {
        values.push(match argument {
            Selector::Term(term) => term.eval(env)?,
            other => other.eval(row, env)?.map_or(Val::Null, Val::Bytes),
        });
    }
    Ok(match function.call(env.table, &values, env.context)? {
        Val::Bytes(bytes) => Some(Cow::Owned(bytes.into_owned())),
        Val::Null | Val::Unset => None,
    })
}

fn built(
    ty: &CqlType,
    items: &[Selector],
    row: &RowValues<'_>,
    env: &Env<'_, '_>,
) -> Result<Option<Vec<u8>>> {
    let mut values = Vec::with_capacity(items.len());
    for item in items {
        values.push(item.eval(row, env)?);
    }
    if let CqlType::Tuple(_) | CqlType::Udt(_) = ty.unfrozen() {
        return Ok(Some(collection::build_tuple(values.iter().map(Option::as_deref))));
    }
    let Some(values) = values.into_iter().collect::<Option<Vec<Cow<'_, [u8]>>>>() else {
        return invalid("null is not supported inside collections");
    };
    Ok(Some(match ty.unfrozen() {
        CqlType::Set(element) => collection::build(sort_elements(element, values).iter().map(|v| &**v)),
        CqlType::Map(key, _) => {
            let mut values = values.into_iter();
            let mut pairs = Vec::new();
            while let (Some(k), Some(v)) = (values.next(), values.next()) {
                pairs.push((k, v));
            }
            let pairs = sort_pairs(key, pairs);
            collection::build_map(pairs.iter().map(|(k, v)| (&**k, &**v)))
        }
        CqlType::Vector(element, _) => {
            let mut out = Vec::new();
            values.iter().for_each(|v| collection::put_vector_element(element, v, &mut out));
            out
        }
        _ => collection::build(values.iter().map(|v| &**v)),
    }))
}

/// A bound of a part; not set leaves a slice open. Errors: null, and not set where one element is named.
fn bound<'t>(term: &'t Term, env: &Env<'_, 't>, what: &str, of: &str) -> Result<Option<Cow<'t, [u8]>>> {
    match term.eval(env)? {
        Val::Bytes(bytes) => Ok(Some(Cow::Owned(bytes.into_owned()))),
        Val::Unset if what == "slice" => Ok(None),
        Val::Null => invalid(format!("Invalid null value for {what} selection on {of}")),
        Val::Unset => invalid(format!("Invalid unset value for {what} selection on {of}")),
    }
}

/// Whether a key or element lies in a part.
struct Span<'t> {
    ty: CqlType,
    from: Option<Cow<'t, [u8]>>,
    to: Option<Cow<'t, [u8]>>,
}

impl<'t> Span<'t> {
    fn new(ty: &CqlType, part: &'t Part, env: &Env<'_, 't>, of: &str) -> Result<Span<'t>> {
        let ty = ty.cell_path_type().unwrap_or(CqlType::Blob);
        let (from, to) = match part {
            Part::Element(key) => {
                let key = bound(key, env, "element", of)?;
                (key.clone(), key)
            }
            Part::Slice(from, to) => {
                let end = |end: &'t Option<Term>| match end {
                    Some(term) => bound(term, env, "slice", of),
                    None => Ok(None),
                };
                (end(from)?, end(to)?)
            }
            Part::Field(_) => (None, None),
        };
        Ok(Span { ty, from, to })
    }

    fn holds(&self, key: &[u8]) -> bool {
        self.from.as_ref().is_none_or(|from| self.ty.compare(key, from).is_ge())
            && self.to.as_ref().is_none_or(|to| self.ty.compare(key, to).is_le())
    }
}

impl PartOf {
    fn eval(&self, row: &RowValues<'_>, env: &Env<'_, '_>) -> Result<Option<Vec<u8>>> {
        let span = Span::new(&self.ty, &self.part, env, &self.text)?;
        let Some(bytes) = self.of.eval(row, env)? else { return Ok(None) };
        let one = matches!(self.part, Part::Element(_));
        let found = match self.ty.unfrozen() {
            CqlType::Map(..) => {
                let mut found = Vec::new();
                for entry in collection::entries(&bytes) {
                    let (key, value) = entry?;
                    if span.holds(key) {
                        if one {
                            return Ok(Some(value.to_vec()));
                        }
                        found.push((key, value));
                    }
                }
                (found.len(), collection::build_map(found))
            }
            _ => {
                let mut found = Vec::new();
                for item in collection::elements(&bytes) {
                    let Some(item) = item?.filter(|item| span.holds(item)) else { continue };
                    if one {
                        return Ok(Some(item.to_vec()));
                    }
                    found.push(item);
                }
                (found.len(), collection::build(found))
            }
        };
        let nothing = one || (found.0 == 0 && self.ty.is_multi_cell());
        Ok((!nothing).then_some(found.1))
    }
}

impl Times {
    fn eval(&self, row: &RowValues<'_>, env: &Env<'_, '_>) -> Result<Option<Vec<u8>>> {
        let now_s = row.now_s();
        if !self.ty.is_multi_cell() {
            return Ok(row.times(self.fetch).and_then(|times| self.one(times, now_s)));
        }
        if let CqlType::Udt(udt) = self.ty.unfrozen() {
            let of = |field: usize| {
                let path = (field as u16).to_be_bytes();
                row.cells(self.fetch).find(|(at, _)| *at == path).map(|(_, times)| times)
            };
            return Ok(match self.parts.last() {
                Some(Part::Field(field)) => of(*field).and_then(|times| self.one(times, now_s)),
                _ => self.all((0..udt.fields.len()).map(of), now_s),
            });
        }
        let spans: Result<Vec<Span<'_>>> =
            self.parts.iter().map(|part| Span::new(&self.ty, part, env, "a column")).collect();
        let spans = spans?;
        let held = row.cells(self.fetch).filter(|(path, _)| spans.iter().all(|span| span.holds(path)));
        let mut held = held.map(|(_, times)| times);
        Ok(match self.parts.last() {
            Some(Part::Element(_)) => held.next().and_then(|times| self.one(times, now_s)),
            _ => self.all(held.map(Some), now_s),
        })
    }

    fn one(&self, times: CellTimes, now_s: u32) -> Option<Vec<u8>> {
        match self.kind {
            TimesKind::Writetime | TimesKind::MaxWritetime => Some(times.timestamp.to_be_bytes().to_vec()),
            TimesKind::Ttl => {
                let left = times.local_time.saturating_sub(now_s) as i32;
                (times.ttl != 0).then(|| left.to_be_bytes().to_vec())
            }
        }
    }

    /// Of many cells: the latest, or a list; null when there are none.
    fn all(&self, cells: impl Iterator<Item = Option<CellTimes>>, now_s: u32) -> Option<Vec<u8>> {
        let cells: Vec<Option<CellTimes>> = cells.collect();
        let latest = cells.iter().flatten().map(|times| times.timestamp).max()?;
        if self.kind == TimesKind::MaxWritetime {
            return Some(latest.to_be_bytes().to_vec());
        }
        let mut out = (cells.len() as i32).to_be_bytes().to_vec();
        for cell in cells {
            let value = cell.and_then(|times| self.one(times, now_s));
            collection::put_element(&mut out, value.as_deref());
        }
        Some(out)
    }
}
