//! Values in statements: an expression typed by what receives it, ready to be evaluated with bound values.

use crate::ast::Expr;
use crate::error::{Error, Result, invalid, unsupported};
use crate::function::{self, Function};
use crate::names;
use crate::value::{BindContext, BindSpec, BoundValue, Val, no_ticks, normalize, sort_elements, sort_pairs};
use schema::{Keyspace, Table};
use std::borrow::Cow;
use std::sync::Arc;
use types::{CqlType, collection, literal};

/// A typed value. Literals are bytes already.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Term {
    /// Null.
    Null,
    /// A literal's wire form.
    Value(Box<[u8]>),
    /// A marker; with its type if bound values must be put in order.
    Marker(usize, Option<CqlType>),
    /// A list.
    List(Vec<Term>),
    /// A set of an element type.
    Set(CqlType, Vec<Term>),
    /// A map of a key type.
    Map(CqlType, Vec<(Term, Term)>),
    /// A tuple or user type; absent fields are null.
    Tuple(Vec<Term>),
    /// A vector of an element type.
    Vector(CqlType, Vec<Term>),
    /// A function call.
    Call(Box<Function>, Vec<Term>),
}

/// What analysis of one statement knows and collects.
pub(crate) struct Scope<'s> {
    /// Where types are looked up.
    pub keyspace: &'s Keyspace,
    /// The table of the statement.
    pub table: &'s Arc<Table>,
    /// What each marker turned out to be.
    pub binds: &'s mut Vec<Option<BindSpec>>,
    /// Names the markers have of their own.
    pub marker_names: &'s [Option<String>],
}

impl Scope<'_> {
    /// Says what a marker is.
    pub fn bind(&mut self, marker: usize, name: &str, ty: &CqlType) {
        let own = self.marker_names.get(marker).and_then(|n| n.as_deref());
        let spec = BindSpec {
            name: own.unwrap_or(name).into(),
            ty: ty.clone(),
            keyspace: self.table.keyspace.clone(),
            table: self.table.name.clone(),
        };
        if let Some(slot) = self.binds.get_mut(marker) {
            *slot = Some(spec);
        }
    }

    /// Types an expression by what receives it. `name` is the receiver's, for errors and markers.
    pub fn term(&mut self, expr: &Expr, name: &str, ty: &CqlType) -> Result<Term> {
        let term = self.typed(expr, name, ty)?;
        fold(term, self.table)
    }

    fn typed(&mut self, expr: &Expr, name: &str, ty: &CqlType) -> Result<Term> {
        match expr {
            Expr::Null => Ok(Term::Null),
            Expr::Marker(index) => {
                self.bind(*index, name, ty);
                let orders = matches!(ty.unfrozen(), CqlType::Set(_) | CqlType::Map(..) | CqlType::List(_));
                Ok(Term::Marker(*index, orders.then(|| ty.clone())))
            }
            Expr::Boolean(_)
            | Expr::Integer(_)
            | Expr::Float(_)
            | Expr::Text(_)
            | Expr::Uuid(_)
            | Expr::Hex(_)
            | Expr::Duration(_) => scalar(expr, name, ty).map(|bytes| Term::Value(bytes.into())),
            Expr::List(items) => self.list_literal(items, name, ty),
            Expr::Set(items) => self.set_literal(items, name, ty),
            Expr::Map(pairs) => self.map_literal(pairs, name, ty),
            Expr::Udt(fields) => self.udt_literal(fields, name, ty),
            Expr::Tuple(items) => self.tuple_literal(items, name, ty),
            Expr::TypeHint(written, inner) => {
                let hinted = names::resolve_type(written, self.keyspace)?;
                if !function::accepts(ty, &hinted) {
                    return invalid(format!("Cannot assign value of type {hinted} to {name} of type {ty}"));
                }
                self.typed(inner, name, &hinted)
            }
            Expr::Call { function, arguments } => self.call(&function.name, arguments, name, ty),
            Expr::Cast(..) => unsupported("cast outside of SELECT"),
            Expr::Arithmetic(..) | Expr::Negate(_) => unsupported("arithmetic"),
            Expr::Column(column) => invalid(format!("Invalid identifier {column}: a value was expected")),
            Expr::CountRows | Expr::Field(..) | Expr::Element(..) | Expr::Slice(..) => {
                invalid(format!("a value was expected for {name}, not a selector"))
            }
        }
    }

    fn call(&mut self, function: &str, arguments: &[Expr], name: &str, ty: &CqlType) -> Result<Term> {
        let known: Vec<Option<CqlType>> = arguments.iter().map(|a| self.known_type(a)).collect();
        let function = function::resolve(function, &known, self.table)?;
        if !function::accepts(ty, &function.returns) {
            return invalid(format!(
                "Type error: cannot assign result of function system.{} (type {}) to {name} (type {ty})",
                function.name, function.returns
            ));
        }
        let types = function.arguments.clone();
        let mut terms = Vec::with_capacity(arguments.len());
        for (index, (argument, ty)) in arguments.iter().zip(&types).enumerate() {
            terms.push(self.typed(argument, &format!("arg{index}({})", function.name), ty)?);
        }
        Ok(Term::Call(Box::new(function), terms))
    }

    /// The type an expression has by itself.
    fn known_type(&self, expr: &Expr) -> Option<CqlType> {
        match expr {
            Expr::TypeHint(written, _) => names::resolve_type(written, self.keyspace).ok(),
            Expr::Call { function, arguments } => {
                let known: Vec<_> = arguments.iter().map(|a| self.known_type(a)).collect();
                function::resolve(&function.name, &known, self.table).ok().map(|f| f.returns)
            }
            _ => None,
        }
    }

    fn items(&mut self, items: &[Expr], name: &str, ty: &CqlType) -> Result<Vec<Term>> {
        let name = format!("value({name})");
        items
            .iter()
            .map(|item| match self.typed(item, &name, ty)? {
                Term::Null => invalid("null is not supported inside collections"),
                term => Ok(term),
            })
            .collect()
    }

    fn list_literal(&mut self, items: &[Expr], name: &str, ty: &CqlType) -> Result<Term> {
        match ty.unfrozen() {
            CqlType::List(element) => self.items(items, name, element).map(Term::List),
            CqlType::Vector(element, dimension) => {
                if items.len() != *dimension as usize {
                    return invalid(format!(
                        "Invalid vector literal for {name} of type {ty}; expected {dimension} elements, but given {}",
                        items.len()
                    ));
                }
                Ok(Term::Vector((**element).clone(), self.items(items, name, element)?))
            }
            _ => invalid(format!("Invalid list literal for {name} of type {ty}")),
        }
    }

    fn set_literal(&mut self, items: &[Expr], name: &str, ty: &CqlType) -> Result<Term> {
        match ty.unfrozen() {
            CqlType::Set(element) => Ok(Term::Set((**element).clone(), self.items(items, name, element)?)),
            CqlType::Map(key, _) if items.is_empty() => Ok(Term::Map((**key).clone(), Vec::new())),
            CqlType::Udt(udt) if items.is_empty() => Ok(Term::Tuple(vec![Term::Null; udt.fields.len()])),
            _ => invalid(format!("Invalid set literal for {name} of type {ty}")),
        }
    }

    fn map_literal(&mut self, pairs: &[(Expr, Expr)], name: &str, ty: &CqlType) -> Result<Term> {
        let CqlType::Map(key_type, value_type) = ty.unfrozen() else {
            return invalid(format!("Invalid map literal for {name} of type {ty}"));
        };
        let mut terms = Vec::with_capacity(pairs.len());
        for (key, value) in pairs {
            let key = self.typed(key, &format!("key({name})"), key_type)?;
            let value = self.typed(value, &format!("value({name})"), value_type)?;
            if key == Term::Null || value == Term::Null {
                return invalid("null is not supported inside collections");
            }
            terms.push((key, value));
        }
        Ok(Term::Map((**key_type).clone(), terms))
    }

    fn udt_literal(&mut self, fields: &[(String, Expr)], name: &str, ty: &CqlType) -> Result<Term> {
        let CqlType::Udt(udt) = ty.unfrozen() else {
            return invalid(format!("Invalid user type literal for {name} of type {ty}"));
        };
        if let Some((unknown, _)) = fields.iter().find(|(f, _)| !udt.fields.iter().any(|(n, _)| **n == **f)) {
            return invalid(format!("Unknown field '{unknown}' in value of user defined type {}", udt.name));
        }
        let mut terms = Vec::with_capacity(udt.fields.len());
        for (field, field_type) in &udt.fields {
            let written = fields.iter().find(|(f, _)| **f == **field);
            terms.push(match written {
                Some((_, expr)) => self.typed(expr, &format!("{name}.{field}"), field_type)?,
                None => Term::Null,
            });
        }
        Ok(Term::Tuple(terms))
    }

    fn tuple_literal(&mut self, items: &[Expr], name: &str, ty: &CqlType) -> Result<Term> {
        let CqlType::Tuple(fields) = ty.unfrozen() else {
            return match items {
                [only] => self.typed(only, name, ty),
                _ => invalid(format!("Invalid tuple type literal for {name} of type {ty}")),
            };
        };
        if items.len() > fields.len() {
            return invalid(format!(
                "Invalid tuple literal for {name}: too many elements. Type {ty} expects {} but got {}",
                fields.len(),
                items.len()
            ));
        }
        let typed = items.iter().zip(fields.iter()).enumerate();
        let terms: Result<Vec<_>> =
            typed.map(|(index, (item, ty))| self.typed(item, &format!("{name}[{index}]"), ty)).collect();
        terms.map(Term::Tuple)
    }
}

/// The wire form of a scalar literal.
fn scalar(expr: &Expr, name: &str, ty: &CqlType) -> Result<Vec<u8>> {
    use CqlType as T;
    let bare = ty.unfrozen();
    let custom = matches!(bare, T::Custom(_));
    let (kind, text, fits) = match expr {
        Expr::Boolean(b) => ("BOOLEAN", b.to_string(), *bare == T::Boolean),
        Expr::Integer(n) => {
            let fits = matches!(
                bare,
                T::Bigint
                    | T::Counter
                    | T::Date
                    | T::Decimal
                    | T::Double
                    | T::Duration
                    | T::Float
                    | T::Int
                    | T::Smallint
                    | T::Time
                    | T::Timestamp
                    | T::Tinyint
                    | T::Varint
            );
            ("INTEGER", n.clone(), fits)
        }
        Expr::Float(n) => ("FLOAT", n.clone(), matches!(bare, T::Decimal | T::Double | T::Float)),
        Expr::Text(text) => {
            let fits = matches!(bare, T::Ascii | T::Text | T::Inet | T::Date | T::Time | T::Timestamp);
            ("STRING", text.clone(), fits)
        }
        Expr::Uuid(uuid) => {
            ("UUID", uuid::Uuid::from_u128(*uuid).to_string(), matches!(bare, T::Uuid | T::Timeuuid))
        }
        Expr::Hex(digits) => ("HEX", format!("0x{digits}"), *bare == T::Blob || custom),
        Expr::Duration(text) => ("DURATION", text.clone(), *bare == T::Duration),
        _ => return invalid(format!("a value was expected for {name}")),
    };
    if !fits {
        return invalid(format!("Invalid {kind} constant ({text}) for \"{name}\" of type {ty}"));
    }
    let wire = literal::from_text(bare, &text)?;
    if matches!(expr, Expr::Integer(_) | Expr::Float(_)) && is_infinite(bare, &wire) && names_a_number(&text)
    {
        return invalid(format!("{text} is out of range for \"{name}\" of type {ty}"));
    }
    Ok(wire)
}

fn is_infinite(ty: &CqlType, wire: &[u8]) -> bool {
    match ty {
        CqlType::Float => wire.try_into().is_ok_and(|b| f32::from_be_bytes(b).is_infinite()),
        CqlType::Double => wire.try_into().is_ok_and(|b| f64::from_be_bytes(b).is_infinite()),
        _ => false,
    }
}

/// Not `Infinity`.
fn names_a_number(text: &str) -> bool {
    text.bytes().any(|b| b.is_ascii_digit())
}

/// Computes what holds no marker and no volatile function.
fn fold(term: Term, table: &Table) -> Result<Term> {
    if matches!(term, Term::Null | Term::Value(_) | Term::Marker(..)) || !is_constant(&term) {
        return Ok(term);
    }
    let random = || 0;
    let context = BindContext { timestamp: 0, now_micros: 0, now_s: 0, random: &random, ticks: &no_ticks };
    let value = term.eval(&Env { values: &[], context: &context, table })?;
    Ok(match value {
        Val::Bytes(bytes) => Term::Value(bytes.into_owned().into()),
        Val::Null | Val::Unset => Term::Null,
    })
}

fn is_constant(term: &Term) -> bool {
    match term {
        Term::Null | Term::Value(_) => true,
        Term::Marker(..) => false,
        Term::List(items) | Term::Set(_, items) | Term::Tuple(items) | Term::Vector(_, items) => {
            items.iter().all(is_constant)
        }
        Term::Map(_, pairs) => pairs.iter().all(|(k, v)| is_constant(k) && is_constant(v)),
        Term::Call(function, arguments) => !function.is_volatile() && arguments.iter().all(is_constant),
    }
}

/// What evaluation needs.
#[derive(Clone, Copy)]
pub(crate) struct Env<'v, 'c> {
    /// Checked bound values.
    pub values: &'c [BoundValue<'v>],
    /// Clock and chance.
    pub context: &'c BindContext<'c>,
    /// The statement's table.
    pub table: &'c Table,
}

impl Term {
    /// The value with these bound values. Borrows from them and from literals where it can.
    pub fn eval<'t, 'v: 't>(&'t self, env: &Env<'v, '_>) -> Result<Val<'t>> {
        let built = match self {
            Term::Null => return Ok(Val::Null),
            Term::Value(bytes) => return Ok(Val::Bytes(Cow::Borrowed(bytes))),
            Term::Marker(index, orders) => {
                let Some(value) = env.values.get(*index) else {
                    return invalid("fewer bound values than markers");
                };
                return match (Val::from(*value), orders) {
                    (Val::Bytes(bytes), Some(ty)) => normalize(ty, bytes).map(Val::Bytes),
                    (value, _) => Ok(value),
                };
            }
            Term::List(items) => {
                let items = elements(items, env)?;
                collection::build(items.iter().map(|i| &**i))
            }
            Term::Set(element, items) => {
                let items = sort_elements(element, elements(items, env)?);
                collection::build(items.iter().map(|i| &**i))
            }
            Term::Map(key_type, pairs) => {
                let mut built = Vec::with_capacity(pairs.len());
                for (key, value) in pairs {
                    built.push((element(key, env)?, element(value, env)?));
                }
                let built = sort_pairs(key_type, built);
                collection::build_map(built.iter().map(|(k, v)| (&**k, &**v)))
            }
            Term::Tuple(items) => {
                let fields: Result<Vec<Val<'_>>> = items.iter().map(|item| item.eval(env)).collect();
                let fields = fields?;
                if fields.contains(&Val::Unset) {
                    return invalid("Invalid unset value for tuple field");
                }
                collection::build_tuple(fields.iter().map(Val::bytes))
            }
            Term::Vector(element, items) => {
                let mut out = Vec::new();
                for item in elements(items, env)? {
                    collection::put_vector_element(element, &item, &mut out);
                }
                out
            }
            Term::Call(function, arguments) => {
                let arguments: Result<Vec<Val<'_>>> = arguments.iter().map(|a| a.eval(env)).collect();
                return function.call(env.table, &arguments?, env.context);
            }
        };
        Ok(Val::Bytes(Cow::Owned(built)))
    }

    /// The marker, if the whole term is one.
    pub fn as_marker(&self) -> Option<usize> {
        match self {
            Term::Marker(index, _) => Some(*index),
            _ => None,
        }
    }
}

fn element<'t, 'v: 't>(item: &'t Term, env: &Env<'v, '_>) -> Result<Cow<'t, [u8]>> {
    match item.eval(env)? {
        Val::Bytes(bytes) => Ok(bytes),
        Val::Null => invalid("null is not supported inside collections"),
        Val::Unset => invalid("unset is not supported inside collections"),
    }
}

fn elements<'t, 'v: 't>(items: &'t [Term], env: &Env<'v, '_>) -> Result<Vec<Cow<'t, [u8]>>> {
    items.iter().map(|item| element(item, env)).collect()
}

/// Evaluates a term that must be a 32-bit integer. `Ok(None)` for null and not set.
pub(crate) fn eval_int(term: &Term, env: &Env<'_, '_>, what: &str) -> Result<Option<i32>> {
    let value = term.eval(env)?;
    let Some(bytes) = value.bytes() else {
        return Ok(None);
    };
    match bytes.try_into() {
        Ok(array) => Ok(Some(i32::from_be_bytes(array))),
        Err(_) => Err(Error::Invalid { text: format!("Invalid {what} value") }),
    }
}
