//! What SELECT returns: columns, functions of them, aggregates.

use crate::error::{Result, invalid};
use crate::function::{Function, Number, number_of, number_to};
use crate::row::RowValues;
use crate::term::{Env, Term};
use crate::value::Val;
use num_bigint::BigInt;
use std::borrow::Cow;
use types::{CqlType, collection};

/// One expression of a SELECT clause. Numbers are places in what the statement fetches.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Selector {
    /// A column.
    Fetch(usize),
    /// The timestamp of a column's cell.
    Writetime(usize),
    /// The seconds a column's cell has left.
    Ttl(usize),
    /// A value.
    Term(Term),
    /// A function of other selectors.
    Call(Box<Function>, Vec<Selector>),
    /// A field of a user type.
    Field(Box<Selector>, usize),
    /// A map's value at a key, by the map's type; or a set's element itself.
    Element(Box<Selector>, CqlType, Term),
    /// An aggregate, by its place.
    Aggregate(usize),
}

impl Selector {
    /// The place of the column, if that is all it is.
    pub fn fetched(&self) -> Option<usize> {
        match self {
            Selector::Fetch(index) => Some(*index),
            _ => None,
        }
    }

    /// The value for a row.
    pub fn eval<'r>(&'r self, row: &'r RowValues<'_>, env: &Env<'_, 'r>) -> Result<Option<Cow<'r, [u8]>>> {
        Ok(match self {
            Selector::Fetch(index) => row.value(*index).map(Cow::Borrowed),
            Selector::Writetime(index) => {
                row.times(*index).map(|t| Cow::Owned(t.timestamp.to_be_bytes().to_vec()))
            }
            Selector::Ttl(index) => {
                let left = row.times(*index).filter(|t| t.ttl != 0);
                left.map(|t| {
                    Cow::Owned((t.local_time.saturating_sub(row.now_s()) as i32).to_be_bytes().to_vec())
                })
            }
            Selector::Term(term) => term.eval(env)?.bytes().map(|b| Cow::Owned(b.to_vec())),
            Selector::Call(function, arguments) => {
                let mut values = Vec::with_capacity(arguments.len());
                for argument in arguments {
                    values.push(argument.eval(row, env)?.map_or(Val::Null, Val::Bytes));
                }
                match function.call(env.table, &values, env.context)? {
                    Val::Bytes(bytes) => Some(Cow::Owned(bytes.into_owned())),
                    Val::Null | Val::Unset => None,
                }
            }
            Selector::Field(of, index) => match of.eval(row, env)? {
                Some(bytes) => {
                    let field = collection::Fields::new(&bytes).nth(*index).transpose()?;
                    field.flatten().map(|f| Cow::Owned(f.to_vec()))
                }
                None => None,
            },
            Selector::Element(of, ty, key) => match (of.eval(row, env)?, key.eval(env)?.bytes()) {
                (Some(bytes), Some(key)) => element(&bytes, ty, key)?,
                _ => None,
            },
            Selector::Aggregate(_) => None,
        })
    }
}

fn element<'r>(bytes: &[u8], ty: &CqlType, key: &[u8]) -> Result<Option<Cow<'r, [u8]>>> {
    match ty.unfrozen() {
        CqlType::Map(key_type, _) => {
            for entry in collection::entries(bytes) {
                let (k, v) = entry?;
                if key_type.compare(k, key).is_eq() {
                    return Ok(Some(Cow::Owned(v.to_vec())));
                }
            }
            Ok(None)
        }
        CqlType::Set(element) => {
            for item in collection::elements(bytes) {
                if item?.is_some_and(|i| element.compare(i, key).is_eq()) {
                    return Ok(Some(Cow::Owned(key.to_vec())));
                }
            }
            Ok(None)
        }
        _ => Ok(None),
    }
}

/// Aggregate functions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AggregateKind {
    /// Rows.
    CountRows,
    /// Values that are not null.
    Count,
    Min,
    Max,
    Sum,
    Avg,
}

impl AggregateKind {
    /// The aggregate of a name.
    pub fn of_name(name: &str) -> Option<AggregateKind> {
        Some(match name {
            "count" => AggregateKind::Count,
            "min" => AggregateKind::Min,
            "max" => AggregateKind::Max,
            "sum" => AggregateKind::Sum,
            "avg" => AggregateKind::Avg,
            _ => return None,
        })
    }

    /// The type of its result for values of a type.
    pub fn result_type(self, name: &str, of: &CqlType) -> Result<CqlType> {
        match self {
            AggregateKind::CountRows | AggregateKind::Count => Ok(CqlType::Bigint),
            AggregateKind::Min | AggregateKind::Max => Ok(of.clone()),
            AggregateKind::Sum | AggregateKind::Avg if crate::function::is_number(of) => Ok(match of {
                CqlType::Counter => CqlType::Bigint,
                other => other.clone(),
            }),
            AggregateKind::Sum | AggregateKind::Avg => invalid(format!(
                "Invalid call to function {name}, none of its type signatures match (known type signatures: numbers, not {of})"
            )),
        }
    }
}

/// An aggregate of a SELECT clause.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Aggregate {
    pub kind: AggregateKind,
    /// What it looks at; `None` counts rows.
    pub argument: Option<Selector>,
    /// The argument's type.
    pub ty: CqlType,
}

/// An aggregate on its way.
#[derive(Debug, Clone)]
pub(crate) struct Running {
    count: i64,
    best: Option<Vec<u8>>,
    integer: BigInt,
    float: f64,
    scale: i32,
}

impl Running {
    /// Before the first row.
    pub fn new() -> Running {
        Running { count: 0, best: None, integer: BigInt::ZERO, float: 0.0, scale: 0 }
    }

    /// Takes one value in; null changes nothing.
    pub fn add(&mut self, aggregate: &Aggregate, value: Option<&[u8]>) {
        if aggregate.kind == AggregateKind::CountRows {
            self.count += 1;
            return;
        }
        let Some(value) = value else { return };
        match aggregate.kind {
            AggregateKind::CountRows | AggregateKind::Count => self.count += 1,
            AggregateKind::Min | AggregateKind::Max => {
                let wins = |best: &Vec<u8>| {
                    let order = aggregate.ty.compare(value, best);
                    if aggregate.kind == AggregateKind::Min { order.is_lt() } else { order.is_gt() }
                };
                if self.best.as_ref().is_none_or(wins) {
                    self.best = Some(value.to_vec());
                }
            }
            AggregateKind::Sum | AggregateKind::Avg => self.add_number(&aggregate.ty, value),
        }
    }

    fn add_number(&mut self, ty: &CqlType, value: &[u8]) {
        let Some(number) = number_of(ty, value) else { return };
        self.count += 1;
        match number {
            Number::Integer(n) => self.integer += n,
            Number::Float(n) => self.float += n,
            Number::Decimal(scale, unscaled) => {
                let common = scale.max(self.scale).min(MAX_SCALE);
                let grow =
                    |from: i32| BigInt::from(10).pow(common.saturating_sub(from).clamp(0, MAX_SCALE) as u32);
                self.integer = &self.integer * grow(self.scale) + unscaled * grow(scale);
                self.scale = common;
            }
        }
    }

    /// The result over all rows.
    pub fn result(&self, aggregate: &Aggregate) -> Option<Vec<u8>> {
        let divide = aggregate.kind == AggregateKind::Avg && self.count > 0;
        match aggregate.kind {
            AggregateKind::CountRows | AggregateKind::Count => Some(self.count.to_be_bytes().to_vec()),
            AggregateKind::Min | AggregateKind::Max => self.best.clone(),
            AggregateKind::Sum | AggregateKind::Avg => {
                let ty = if aggregate.ty == CqlType::Counter { &CqlType::Bigint } else { &aggregate.ty };
                let number = match ty {
                    CqlType::Float | CqlType::Double if divide => {
                        Number::Float(self.float / self.count as f64)
                    }
                    CqlType::Float | CqlType::Double => Number::Float(self.float),
                    CqlType::Decimal if divide => Number::Decimal(self.scale, &self.integer / self.count),
                    CqlType::Decimal => Number::Decimal(self.scale, self.integer.clone()),
                    _ if divide => Number::Integer(&self.integer / self.count),
                    _ => Number::Integer(self.integer.clone()),
                };
                number_to(ty, &number)
            }
        }
    }
}

/// Decimal digits behind the point beyond which sums are cut; larger scales would cost memory by a client's wish.
const MAX_SCALE: i32 = 4096;
