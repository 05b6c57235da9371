//! Values in statements: an expression typed by what receives it, ready to be evaluated with bound values.

use crate::aggregate::AggregateKind;
use crate::arithmetic;
use crate::ast::{Arithmetic, Expr};
use crate::error::{Error, Result, invalid, syntax};
use crate::expr_text::{text_of, value_text};
use crate::from_json::{self, Json};
use crate::function::{self, Argument, Function};
use crate::names;
use crate::value::{BindContext, BindSpec, BoundValue, Val, no_ticks, normalize, sort_elements, sort_pairs};
use schema::{Keyspace, Table};
use std::borrow::Cow;
use std::sync::Arc;
use types::{CqlType, UdtType, collection, literal};

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
    /// Two values with their types and an operator between.
    Arithmetic(Arithmetic, Box<[(CqlType, Term); 2]>),
    /// A number of a type with the other sign.
    Negate(CqlType, Box<Term>),
    /// A value of a type, written as JSON.
    Json(CqlType, Box<Term>),
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
        self.bind_values(marker, name, ty, false);
    }

    /// As [`Scope::bind`]; `nulls`: whether elements of a list may be null.
    pub fn bind_values(&mut self, marker: usize, name: &str, ty: &CqlType, nulls: bool) {
        let own = self.marker_names.get(marker).and_then(|n| n.as_deref());
        let spec = BindSpec {
            name: own.unwrap_or(name).into(),
            ty: ty.clone(),
            keyspace: self.table.keyspace.clone(),
            table: self.table.name.clone(),
            nulls,
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
                    return invalid(format!("Cannot assign value {} to {name} of type {ty}", text_of(expr)));
                }
                if is_literal(inner) && !may_be(inner, &hinted) {
                    return invalid(format!("Cannot cast value {} to type {hinted}", text_of(inner)));
                }
                self.typed(inner, name, &hinted)
            }
            Expr::Call { function, arguments } => self.call(&function.name, arguments, name, ty),
            Expr::Cast(inner, to) => self.cast(inner, to, name, ty),
            Expr::Arithmetic(operator, left, right) => self.arithmetic(*operator, [left, right], name, ty),
            Expr::Negate(inner) => {
                if arithmetic::negated_type(ty.unfrozen()).is_none() {
                    return arithmetic::no_negation();
                }
                Ok(Term::Negate(ty.clone(), Box::new(self.typed(inner, "arg0(system._negate)", ty)?)))
            }
            Expr::Column(column) => {
                syntax(format!("no viable alternative at input '{column}': a value was expected"))
            }
            Expr::CountRows | Expr::Field(..) | Expr::Element(..) | Expr::Slice(..) => {
                invalid(format!("a value was expected for {name}, not a selector"))
            }
        }
    }

    /// `from_json(text)`: a value of whatever receives it.
    fn json(&mut self, arguments: &[Expr], ty: &CqlType) -> Result<Term> {
        let [argument] = arguments else {
            return invalid(format!(
                "Invalid number of arguments in call to function system.from_json: 1 required but {} provided",
                arguments.len()
            ));
        };
        let known = self.known_type(argument).or_else(|| preferred_type(argument));
        if let Some(other) = known.filter(|ty| !matches!(ty, CqlType::Text | CqlType::Ascii)) {
            return invalid(format!(
                "Function system.from_json requires an argument of type text, but found argument {} of type {other}",
                text_of(argument)
            ));
        }
        let text = self.typed(argument, "arg0(system.from_json)", &CqlType::Text)?;
        Ok(Term::Json(ty.clone(), Box::new(text)))
    }

    fn call(&mut self, function: &str, arguments: &[Expr], name: &str, ty: &CqlType) -> Result<Term> {
        if function == "from_json" || function == "fromjson" {
            return self.json(arguments, ty);
        }
        let function = self.resolve_for(function, arguments, Some(ty))?;
        if !function::accepts(ty, &function.returns) {
            return invalid(format!(
                "Type error: cannot assign result of function system.{} (type {}) to {name} (type {ty})",
                function.name, function.returns
            ));
        }
        let types = function.arguments.clone();
        let mut terms = Vec::with_capacity(arguments.len());
        for (index, (argument, ty)) in arguments.iter().zip(&types).enumerate() {
            terms.push(self.typed(argument, &format!("arg{index}(system.{})", function.name), ty)?);
        }
        Ok(Term::Call(Box::new(function), terms))
    }

    fn cast(&mut self, inner: &Expr, to: &crate::ast::TypeName, name: &str, ty: &CqlType) -> Result<Term> {
        let to = names::resolve_type(to, self.keyspace)?;
        let Some(from) = self.known_type(inner).or_else(|| preferred_type(inner)) else {
            return invalid(format!("Ambiguous cast of {} to {to}: use a type hint", text_of(inner)));
        };
        let function = function::cast(&from, &to, &text_of(inner))?;
        if !function::accepts(ty, &to) {
            return invalid(format!(
                "Type error: cannot assign result of function system.{} (type {to}) to {name} (type {ty})",
                function.name
            ));
        }
        let inner = self.typed(inner, &format!("arg0(system.{})", function.name), &from)?;
        Ok(Term::Call(Box::new(function), vec![inner]))
    }

    /// Types both sides of an operator by the type that must come out.
    fn arithmetic(
        &mut self,
        operator: Arithmetic,
        sides: [&Expr; 2],
        name: &str,
        ty: &CqlType,
    ) -> Result<Term> {
        let wanted = ty.unfrozen();
        let choices = sides.map(|side| match self.known_type(side) {
            Some(known) => vec![known],
            None => OPERANDS.iter().filter(|ty| may_be(side, ty)).cloned().collect(),
        });
        let mut found: Vec<[CqlType; 2]> = Vec::new();
        for left in &choices[0] {
            for right in &choices[1] {
                let result = arithmetic::result_type(operator, left, right);
                if result.is_some_and(|result| function::accepts(wanted, &result)) {
                    found.push([left.clone(), right.clone()]);
                }
            }
        }
        let symbol = arithmetic::symbol(operator);
        let texts = sides.map(text_of);
        let markers = sides.iter().any(|side| matches!(side, Expr::Marker(_)));
        let types = match &found[..] {
            [] => {
                return invalid(format!(
                    "the '{symbol}' operation is not supported between {} and {}",
                    texts[0], texts[1]
                ));
            }
            [only] => only.clone(),
            several => match several.iter().find(|pair| !markers && pair.iter().all(|ty| ty == wanted)) {
                Some(same) => same.clone(),
                None => {
                    return invalid(format!(
                        "Ambiguous '{symbol}' operation with args {} and {}: use type hint to disambiguate, example \
                         '(int) ?'",
                        texts[0], texts[1]
                    ));
                }
            },
        };
        let [left_type, right_type] = types;
        let left = self.typed(sides[0], name, &left_type)?;
        let right = self.typed(sides[1], name, &right_type)?;
        Ok(Term::Arithmetic(operator, Box::new([(left_type, left), (right_type, right)])))
    }

    fn resolve(&self, function: &str, arguments: &[Expr]) -> Result<Function> {
        self.resolve_for(function, arguments, None)
    }

    /// `receiver`: the type of what takes the result.
    fn resolve_for(
        &self,
        function: &str,
        arguments: &[Expr],
        receiver: Option<&CqlType>,
    ) -> Result<Function> {
        let known: Vec<Option<CqlType>> = arguments.iter().map(|a| self.known_type(a)).collect();
        let facts: Vec<Argument<'_>> =
            arguments.iter().zip(&known).map(|(expr, ty)| Argument { expr, ty: ty.as_ref() }).collect();
        if AggregateKind::of_name(function).is_some() {
            return function::refuse_aggregate(function, &facts);
        }
        function::resolve(function, &facts, self.table, receiver)
    }

    /// The type an expression has by itself.
    fn known_type(&self, expr: &Expr) -> Option<CqlType> {
        match expr {
            Expr::Cast(_, to) => names::resolve_type(to, self.keyspace).ok(),
            Expr::Arithmetic(operator, left, right) => {
                arithmetic::result_type(*operator, &self.known_type(left)?, &self.known_type(right)?)
            }
            Expr::Negate(inner) => self.known_type(inner),
            Expr::TypeHint(written, _) => names::resolve_type(written, self.keyspace).ok(),
            Expr::Call { function, arguments } => {
                self.resolve(&function.name, arguments).ok().map(|f| f.returns)
            }
            _ => None,
        }
    }

    /// `kind` is what the literal is called in errors.
    fn items(&mut self, items: &[Expr], name: &str, ty: &CqlType, kind: &str) -> Result<Vec<Term>> {
        let item_name = format!("value({name})");
        items
            .iter()
            .map(|item| {
                if *item == Expr::Null {
                    let inside = if kind == "vector" { "vectors" } else { "collections" };
                    return invalid(format!("null is not supported inside {inside}"));
                }
                if !self.may_take(item, ty)? {
                    return invalid(format!(
                        "Invalid {kind} literal for {name}: value {} is not of type {ty}",
                        value_text(item)
                    ));
                }
                match self.typed(item, &item_name, ty)? {
                    Term::Null => invalid("null is not supported inside collections"),
                    term => Ok(term),
                }
            })
            .collect()
    }

    fn list_literal(&mut self, items: &[Expr], name: &str, ty: &CqlType) -> Result<Term> {
        match ty.unfrozen() {
            CqlType::List(element) => self.items(items, name, element, "list").map(Term::List),
            CqlType::Vector(element, dimension) => {
                if items.len() != *dimension as usize {
                    return invalid(format!(
                        "Invalid vector literal for {name} of type {ty}; expected {dimension} elements, but given {}",
                        items.len()
                    ));
                }
                Ok(Term::Vector((**element).clone(), self.items(items, name, element, "vector")?))
            }
            _ => no_list(ty),
        }
    }

    fn set_literal(&mut self, items: &[Expr], name: &str, ty: &CqlType) -> Result<Term> {
        match ty.unfrozen() {
            CqlType::Set(element) => {
                Ok(Term::Set((**element).clone(), self.items(items, name, element, "set")?))
            }
            CqlType::Map(key, _) if items.is_empty() => Ok(Term::Map((**key).clone(), Vec::new())),
            _ => invalid(format!("Invalid set literal for {name} of type {ty}")),
        }
    }

    fn map_literal(&mut self, pairs: &[(Expr, Expr)], name: &str, ty: &CqlType) -> Result<Term> {
        let CqlType::Map(key_type, value_type) = ty.unfrozen() else {
            return invalid(format!("Invalid map literal for {name} of type {ty}"));
        };
        let mut terms = Vec::with_capacity(pairs.len());
        for (key, value) in pairs {
            if *key == Expr::Null || *value == Expr::Null {
                return invalid("null is not supported inside collections");
            }
            for (word, item, ty) in [("key", key, key_type), ("value", value, value_type)] {
                if !self.may_take(item, ty)? {
                    return invalid(format!(
                        "Invalid map literal for {name}: {word} {} is not of type {ty}",
                        value_text(item)
                    ));
                }
            }
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
        known_fields(udt, fields)?;
        let mut terms = Vec::with_capacity(udt.fields.len());
        for (field, field_type) in &udt.fields {
            // Of a field written twice the last counts.
            let written = fields.iter().rev().find(|(f, _)| **f == **field);
            terms.push(match written {
                Some((_, expr)) if !self.may_take(expr, field_type)? => {
                    return invalid(format!(
                        "Invalid user type literal for {name}: field {field} is not of type {field_type}"
                    ));
                }
                Some((_, expr)) => self.typed(expr, &format!("{name}.{field}"), field_type)?,
                None => Term::Null,
            });
        }
        Ok(Term::Tuple(terms))
    }

    /// Whether an expression may be a value of a type, as far as its form tells: what a literal asks of its items before
    /// it looks into them. Errors: literals that no type of their kind takes.
    fn may_take(&self, expr: &Expr, ty: &CqlType) -> Result<bool> {
        let bare = ty.unfrozen();
        let mut all = true;
        match (expr, bare) {
            (Expr::List(items), CqlType::List(element) | CqlType::Vector(element, _)) => {
                for item in items {
                    all = all && self.may_take(item, element)?;
                }
            }
            (Expr::List(_), _) => return no_list(ty),
            (Expr::Set(items), CqlType::Set(element)) => {
                for item in items {
                    all = all && self.may_take(item, element)?;
                }
            }
            (Expr::Set(items), CqlType::Map(..)) => return Ok(items.is_empty()),
            (Expr::Map(pairs), CqlType::Map(key, value)) => {
                for (k, v) in pairs {
                    all = all && self.may_take(k, key)? && self.may_take(v, value)?;
                }
            }
            (Expr::Udt(fields), CqlType::Udt(udt)) => {
                known_fields(udt, fields)?;
                for (name, field_type) in &udt.fields {
                    if let Some((_, item)) = fields.iter().rev().find(|(field, _)| **field == **name) {
                        all = all && self.may_take(item, field_type)?;
                    }
                }
            }
            (Expr::Tuple(items), CqlType::Tuple(types)) => {
                all = items.len() <= types.len();
                for (item, ty) in items.iter().zip(types.iter()) {
                    all = all && self.may_take(item, ty)?;
                }
            }
            (Expr::Tuple(items), _) if items.len() == 1 => return self.may_take(&items[0], ty),
            (Expr::Set(_) | Expr::Map(_) | Expr::Udt(_) | Expr::Tuple(_), _) => return Ok(false),
            (Expr::TypeHint(written, _) | Expr::Cast(_, written), _) => {
                return Ok(function::accepts(ty, &names::resolve_type(written, self.keyspace)?));
            }
            (Expr::Call { function, .. }, _) if matches!(&*function.name, "from_json" | "fromjson") => {}
            (Expr::Call { function, arguments }, _) => {
                let function = self.resolve_for(&function.name, arguments, Some(ty))?;
                return Ok(function::accepts(ty, &function.returns));
            }
            _ if is_literal(expr) => return Ok(takes_literal(expr, bare)),
            _ => {}
        }
        Ok(all)
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
        for (index, (item, ty)) in items.iter().zip(fields.iter()).enumerate() {
            if !self.may_take(item, ty)? {
                return invalid(format!(
                    "Invalid tuple literal for {name}: component {index} is not of type {ty}"
                ));
            }
        }
        let typed = items.iter().zip(fields.iter()).enumerate();
        let terms: Result<Vec<_>> =
            typed.map(|(index, (item, ty))| self.typed(item, &format!("{name}[{index}]"), ty)).collect();
        terms.map(Term::Tuple)
    }
}

fn no_list<T>(ty: &CqlType) -> Result<T> {
    invalid(format!("Unexpected receiver type '{ty}'; only list and vector are expected"))
}

/// Errors: a field that the type has not.
fn known_fields(udt: &UdtType, fields: &[(String, Expr)]) -> Result<()> {
    match fields.iter().find(|(field, _)| !udt.fields.iter().any(|(name, _)| **name == **field)) {
        Some((unknown, _)) => {
            invalid(format!("Unknown field '{unknown}' in value of user defined type {}", udt.name))
        }
        None => Ok(()),
    }
}

/// What may stand beside an operator.
pub(crate) const OPERANDS: [CqlType; 14] = [
    CqlType::Tinyint,
    CqlType::Smallint,
    CqlType::Int,
    CqlType::Bigint,
    CqlType::Counter,
    CqlType::Varint,
    CqlType::Float,
    CqlType::Double,
    CqlType::Decimal,
    CqlType::Timestamp,
    CqlType::Date,
    CqlType::Duration,
    CqlType::Ascii,
    CqlType::Text,
];

pub(crate) fn is_literal(expr: &Expr) -> bool {
    matches!(
        expr,
        Expr::Boolean(_)
            | Expr::Integer(_)
            | Expr::Float(_)
            | Expr::Text(_)
            | Expr::Uuid(_)
            | Expr::Hex(_)
            | Expr::Duration(_)
    )
}

/// Whether a literal may be a value of a type.
pub(crate) fn literal_fits(expr: &Expr, ty: &CqlType) -> bool {
    takes_literal(expr, ty.unfrozen())
}

/// Whether an expression without a type of its own may have this one.
pub(crate) fn may_be(expr: &Expr, ty: &CqlType) -> bool {
    match expr {
        Expr::Arithmetic(_, left, right) => may_be(left, ty) || may_be(right, ty),
        Expr::Negate(inner) => arithmetic::negated_type(ty).is_some() && may_be(inner, ty),
        _ if is_literal(expr) => literal_fits(expr, ty),
        _ => true,
    }
}

/// The type a literal has where nothing asks for another.
pub(crate) fn preferred_type(expr: &Expr) -> Option<CqlType> {
    Some(match expr {
        Expr::Boolean(_) => CqlType::Boolean,
        Expr::Integer(digits) if digits.parse::<i32>().is_ok() => CqlType::Int,
        Expr::Integer(digits) if digits.parse::<i64>().is_ok() => CqlType::Bigint,
        Expr::Integer(_) => CqlType::Varint,
        Expr::Float(_) => CqlType::Double,
        Expr::Text(_) => CqlType::Text,
        Expr::Uuid(_) => CqlType::Uuid,
        Expr::Hex(_) => CqlType::Blob,
        Expr::Duration(_) => CqlType::Duration,
        Expr::Negate(inner) => preferred_type(inner)?,
        Expr::Arithmetic(operator, left, right) => {
            arithmetic::result_type(*operator, &preferred_type(left)?, &preferred_type(right)?)?
        }
        _ => return None,
    })
}

/// The wire form of a scalar literal.
fn scalar(expr: &Expr, name: &str, ty: &CqlType) -> Result<Vec<u8>> {
    let bare = ty.unfrozen();
    let (kind, text, fits) = literal_kind(expr, bare)?;
    if let (CqlType::LexicalUuid, Expr::Hex(digits)) = (bare, expr) {
        let wire = types::text::parse_hex(digits).unwrap_or_default();
        bare.validate(&wire)?;
        return Ok(wire);
    }
    if !fits {
        return invalid(format!("Invalid {kind} constant ({text}) for \"{name}\" of type {ty}"));
    }
    let parsed = match (expr, bare) {
        // The bytes of a whole tuple.
        (Expr::Hex(digits), CqlType::Tuple(_)) => literal::from_text(&CqlType::Blob, digits),
        _ => literal::from_text(bare, &text),
    };
    let wire = match parsed {
        Ok(wire) => wire,
        Err(error) => return literal_error(bare, &text, &error.to_string()),
    };
    bare.validate(&wire)?;
    if matches!(expr, Expr::Integer(_) | Expr::Float(_)) && is_infinite(bare, &wire) && names_a_number(&text)
    {
        return invalid(format!("{text} is out of range for \"{name}\" of type {ty}"));
    }
    Ok(wire)
}

/// What is wrong with a literal, in Cassandra's words where they depend on how it is written.
fn literal_error<T>(ty: &CqlType, text: &str, error: &str) -> Result<T> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let number = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    invalid(match ty {
        CqlType::Date if number => format!("Unable to make unsigned int (for date) from: '{text}'"),
        CqlType::Time if number => format!("Unable to make long (for time) from: '{text}'"),
        CqlType::Timestamp if number => format!("Unable to make long (for date) from: '{text}'"),
        CqlType::Timeuuid => "TimeUUID supports only version 1 UUIDs".to_owned(),
        CqlType::Ascii => "Invalid ASCII character in string literal: \
             java.nio.charset.UnmappableCharacterException: Input length = 1"
            .to_owned(),
        _ => error.to_owned(),
    })
}

/// Cassandra's word for a literal, its text, and whether it may be a value of the type.
fn literal_kind(expr: &Expr, bare: &CqlType) -> Result<(&'static str, String, bool)> {
    let (kind, text) = match expr {
        Expr::Boolean(b) => ("BOOLEAN", b.to_string()),
        Expr::Integer(n) => ("INTEGER", n.clone()),
        Expr::Float(n) => ("FLOAT", n.clone()),
        Expr::Text(text) => ("STRING", text.clone()),
        Expr::Uuid(uuid) => ("UUID", uuid::Uuid::from_u128(*uuid).to_string()),
        Expr::Hex(digits) => ("HEX", format!("0x{digits}")),
        Expr::Duration(text) => ("DURATION", text.clone()),
        _ => return invalid("a value was expected"),
    };
    Ok((kind, text, takes_literal(expr, bare)))
}

/// Whether a literal may be a value of the type.
fn takes_literal(expr: &Expr, bare: &CqlType) -> bool {
    use CqlType as T;
    // Types that CQL has no name for take every literal, as text or as bytes; tuples take the text of their fields.
    if matches!(bare, T::LexicalUuid | T::Tuple(_)) {
        return is_literal(expr);
    }
    match expr {
        Expr::Boolean(_) => *bare == T::Boolean,
        Expr::Integer(_) => matches!(
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
        ),
        Expr::Float(_) => matches!(bare, T::Decimal | T::Double | T::Float),
        Expr::Text(_) => matches!(bare, T::Ascii | T::Text | T::Inet | T::Date | T::Time | T::Timestamp),
        Expr::Uuid(_) => matches!(bare, T::Uuid | T::Timeuuid),
        Expr::Hex(_) => matches!(bare, T::Blob | T::Custom(_)),
        Expr::Duration(_) => *bare == T::Duration,
        _ => false,
    }
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
        Term::Arithmetic(_, sides) => sides.iter().all(|(_, term)| is_constant(term)),
        Term::Negate(_, inner) | Term::Json(_, inner) => is_constant(inner),
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
                if let Some(index) = fields.iter().position(|field| *field == Val::Unset) {
                    return invalid(format!("Invalid unset value for tuple field number {index}"));
                }
                collection::build_tuple(fields.iter().map(Val::bytes))
            }
            Term::Vector(element, items) => vector(element, items, env)?,
            Term::Call(function, arguments) => {
                let arguments: Result<Vec<Val<'_>>> = arguments.iter().map(|a| a.eval(env)).collect();
                return function.call(env.table, &arguments?, env.context);
            }
            Term::Arithmetic(operator, sides) => {
                let [(left_type, left), (right_type, right)] = &**sides;
                let (left, right) = (operand(left.eval(env)?)?, operand(right.eval(env)?)?);
                let (Some(left), Some(right)) = (left, right) else { return Ok(Val::Null) };
                let sides = ((left_type, &*left), (right_type, &*right));
                match arithmetic::apply(*operator, sides.0, sides.1)? {
                    Some(bytes) => bytes,
                    None => return Ok(Val::Null),
                }
            }
            Term::Json(ty, text) => match operand(text.eval(env)?)? {
                None => return Ok(Val::Null),
                Some(text) => match decoded_json(ty, &text)? {
                    Some(bytes) => bytes,
                    None => return Ok(Val::Null),
                },
            },
            Term::Negate(ty, inner) => match operand(inner.eval(env)?)? {
                None => return Ok(Val::Null),
                Some(value) => match arithmetic::negate(ty, &value)? {
                    Some(bytes) => bytes,
                    None => return Ok(Val::Null),
                },
            },
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

fn decoded_json(ty: &CqlType, text: &[u8]) -> Result<Option<Vec<u8>>> {
    let failed = |text: String| Error::Function {
        name: "from_json".to_string(),
        arguments: vec!["text".to_string()],
        text: format!("execution of 'system.from_json[text]' failed: {text}"),
    };
    let text = std::str::from_utf8(text).map_err(|_| failed("String didn't validate.".to_string()))?;
    let json = Json::parse(text)
        .map_err(|error| failed(format!("Could not decode JSON string '{text}': {error}")))?;
    from_json::wire(ty, &json).map_err(|error| failed(error.to_string()))
}

/// The value of one side of an operator; `None` for null.
fn operand(value: Val<'_>) -> Result<Option<Cow<'_, [u8]>>> {
    match value {
        Val::Bytes(bytes) => Ok(Some(bytes)),
        Val::Null => Ok(None),
        Val::Unset => invalid("Invalid unset value for argument in call to function"),
    }
}

fn vector(element: &CqlType, items: &[Term], env: &Env<'_, '_>) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    for item in items {
        match item.eval(env)? {
            Val::Bytes(bytes) => collection::put_vector_element(element, &bytes, &mut out),
            Val::Null => return invalid("null is not supported inside vectors"),
            Val::Unset => return invalid("unset is not supported inside collections"),
        }
    }
    Ok(out)
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
