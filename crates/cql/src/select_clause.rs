//! The SELECT clause, analysed: what each expression is, typed from its columns upwards.
//!
//! Columns, calls and casts have types by themselves; literals and markers take theirs from what receives them: a
//! function's argument, the other side of an operator, a type in front.

use crate::aggregate::{Aggregate, AggregateKind};
use crate::arithmetic;
use crate::ast::{Arithmetic, Expr, Select, TableName, TypeName};
use crate::error::{Result, invalid, syntax};
use crate::expr_text::text_of;
use crate::function::{self, Argument, Fit, FunctionKind, literal_fit};
use crate::names;
use crate::row::Fetches;
use crate::select::ResultColumn;
use crate::selector::{Part, PartOf, Selector, Times, TimesKind};
use crate::term::{OPERANDS, Scope};
use crate::where_clause;
use schema::{Column, Table};
use std::sync::Arc;
use types::CqlType;

/// Where markers in the SELECT clause are said to stand.
const MARKER: &str = "[selection]";

/// The SELECT clause, analysed.
pub(crate) struct Clause {
    pub columns: Vec<ResultColumn>,
    pub selectors: Vec<Selector>,
    pub aggregates: Vec<Aggregate>,
    /// Columns any selector looks at.
    pub selected: Vec<Column>,
}

/// An expression as far as its type is known.
enum Piece<'e> {
    Typed(Selector, CqlType),
    /// A literal, a marker, or a collection of nothing else.
    Untyped(&'e Expr),
}

/// What analysing one clause needs and collects.
struct Analysis<'a, 's> {
    scope: &'a mut Scope<'s>,
    table: &'a Arc<Table>,
    fetches: &'a mut Fetches,
    clause: Clause,
    in_aggregate: bool,
}

impl Clause {
    /// Analyses the selectors of a statement.
    /// Errors: unknown columns and functions, types that do not fit.
    pub fn analyse(scope: &mut Scope<'_>, fetches: &mut Fetches, select: &Select) -> Result<Clause> {
        let table = scope.table.clone();
        let clause = Clause {
            columns: Vec::new(),
            selectors: Vec::new(),
            aggregates: Vec::new(),
            selected: Vec::new(),
        };
        let mut analysis = Analysis { scope, table: &table, fetches, clause, in_aggregate: false };
        if select.selectors.is_empty() {
            for column in table.visible_columns() {
                let selector = Selector::Fetch(analysis.fetches.place(column));
                analysis.push(&column.name, column.ty.clone(), selector);
                analysis.clause.selected.push(column.clone());
            }
        }
        for (expr, alias) in &select.selectors {
            let (selector, ty) = analysis.typed(expr)?;
            let name = alias.clone().unwrap_or_else(|| column_name(expr, &selector));
            analysis.push(&name, ty, selector);
        }
        Ok(analysis.clause)
    }
}

/// A function of clustering columns in GROUP BY, with the columns it looks at.
pub(crate) fn grouping_function(
    scope: &mut Scope<'_>,
    fetches: &mut Fetches,
    expr: &Expr,
) -> Result<(Selector, Vec<Column>)> {
    let table = scope.table.clone();
    let clause =
        Clause { columns: Vec::new(), selectors: Vec::new(), aggregates: Vec::new(), selected: Vec::new() };
    let mut analysis = Analysis { scope, table: &table, fetches, clause, in_aggregate: true };
    let (selector, _) = analysis.typed(expr)?;
    Ok((selector, analysis.clause.selected))
}

/// The name of a column without an alias. A cast to the type that a value has already is not there.
fn column_name(expr: &Expr, selector: &Selector) -> String {
    let Expr::Cast(inner, to) = expr else { return text_of(expr) };
    match (selector, &**inner) {
        (Selector::Call(function, _), Expr::Cast(_, from)) if function.kind == FunctionKind::Cast => {
            if from == to { column_name(inner, selector) } else { text_of(expr) }
        }
        (Selector::Call(function, _), _) if function.kind == FunctionKind::Cast => text_of(expr),
        _ => column_name(inner, selector),
    }
}

/// Parentheses around one expression are only parentheses where a value is computed from it.
fn inside(expr: &Expr) -> &Expr {
    match expr {
        Expr::Tuple(items) if items.len() == 1 => inside(&items[0]),
        other => other,
    }
}

/// Whether an expression is made of literals and markers only.
fn is_value(expr: &Expr) -> bool {
    match expr {
        Expr::List(items) | Expr::Set(items) | Expr::Tuple(items) => items.iter().all(is_value),
        Expr::Map(pairs) => pairs.iter().all(|(k, v)| is_value(k) && is_value(v)),
        Expr::Udt(fields) => fields.iter().all(|(_, v)| is_value(v)),
        Expr::Arithmetic(_, left, right) => is_value(left) && is_value(right),
        Expr::Negate(inner) => is_value(inner),
        Expr::Null
        | Expr::Boolean(_)
        | Expr::Integer(_)
        | Expr::Float(_)
        | Expr::Text(_)
        | Expr::Uuid(_)
        | Expr::Hex(_)
        | Expr::Duration(_)
        | Expr::Marker(_) => true,
        _ => false,
    }
}

impl Analysis<'_, '_> {
    fn push(&mut self, name: &str, ty: CqlType, selector: Selector) {
        let (keyspace, table) = (self.table.keyspace.clone(), self.table.name.clone());
        self.clause.columns.push(ResultColumn { keyspace, table, name: name.into(), ty });
        self.clause.selectors.push(selector);
    }

    /// An expression that must have a type by itself.
    fn typed(&mut self, expr: &Expr) -> Result<(Selector, CqlType)> {
        match self.piece(expr)? {
            Piece::Typed(selector, ty) => Ok((selector, ty)),
            Piece::Untyped(_) => invalid(format!(
                "Cannot infer type for term {} in selection clause (try using a cast to force a type)",
                text_of(expr)
            )),
        }
    }

    fn piece<'e>(&mut self, expr: &'e Expr) -> Result<Piece<'e>> {
        let (selector, ty) = match expr {
            Expr::Column(name) => {
                let column = where_clause::column(self.table, name)?;
                self.clause.selected.push(column.clone());
                (Selector::Fetch(self.fetches.place(column)), column.ty.clone())
            }
            Expr::CountRows => self.aggregate(AggregateKind::CountRows, None, CqlType::Bigint)?,
            Expr::Call { function, arguments } => self.call(function, arguments)?,
            Expr::Cast(inner, written) => self.cast(expr, inner, written)?,
            Expr::TypeHint(written, inner) => self.hinted(expr, written, inner)?,
            Expr::Field(inner, field) => self.field(inner, field)?,
            Expr::Element(inner, key) => self.element(expr, inner, key)?,
            Expr::Slice(inner, from, to) => self.slice(inner, [from.as_deref(), to.as_deref()])?,
            Expr::Arithmetic(operator, left, right) => self.arithmetic(*operator, [left, right])?,
            Expr::Negate(inner) => self.negate(inner)?,
            Expr::List(items) | Expr::Set(items) if !items.iter().all(is_value) => {
                self.collection_of(expr, items)?
            }
            Expr::Tuple(items) if items.len() > 1 && !items.iter().all(is_value) => {
                let mut types = Vec::with_capacity(items.len());
                let mut selectors = Vec::with_capacity(items.len());
                for item in items {
                    let Piece::Typed(selector, ty) = self.piece(item)? else {
                        return Ok(Piece::Untyped(expr));
                    };
                    selectors.push(selector);
                    types.push(ty);
                }
                let ty = CqlType::tuple(types);
                (Selector::Build(ty.clone(), selectors), ty)
            }
            _ => return Ok(Piece::Untyped(expr)),
        };
        Ok(Piece::Typed(selector, ty))
    }

    /// `[a, 1]`, `{a, 1}`: of the type of the first item that has one.
    fn collection_of(&mut self, expr: &Expr, items: &[Expr]) -> Result<(Selector, CqlType)> {
        let mut pieces = Vec::with_capacity(items.len());
        for item in items {
            pieces.push(self.piece(item)?);
        }
        let element = pieces.iter().find_map(|piece| match piece {
            Piece::Typed(_, ty) => Some(ty.clone()),
            Piece::Untyped(_) => None,
        });
        let Some(element) = element else {
            return invalid(format!(
                "Cannot infer type for term {} in selection clause (try using a cast to force a type)",
                text_of(expr)
            ));
        };
        let frozen = element.frozen();
        let ty = if matches!(expr, Expr::Set(_)) { CqlType::set(frozen) } else { CqlType::list(frozen) };
        let mut selectors = Vec::with_capacity(pieces.len());
        for (piece, item) in pieces.into_iter().zip(items) {
            selectors.push(self.receive(piece, item, &element)?);
        }
        Ok((Selector::Build(ty.clone(), selectors), ty))
    }

    /// A piece as a value of a type. Errors: it cannot be one.
    fn receive(&mut self, piece: Piece<'_>, expr: &Expr, ty: &CqlType) -> Result<Selector> {
        match piece {
            Piece::Typed(selector, given) if function::accepts(ty, &given) => Ok(selector),
            Piece::Untyped(literal) if literal_fit(literal, ty) != Fit::No => {
                Ok(Selector::Term(self.scope.term(literal, MARKER, ty)?))
            }
            _ => {
                let text = text_of(expr);
                invalid(format!("Cannot assign value {text} to {text} of type {ty}"))
            }
        }
    }

    /// An expression as a value of a type that is known.
    fn received(&mut self, expr: &Expr, ty: &CqlType, whole: &Expr) -> Result<Selector> {
        if is_value(expr) {
            return self.receive(Piece::Untyped(expr), whole, ty);
        }
        let refused = || {
            let text = text_of(whole);
            invalid(format!("Cannot assign value {text} to {text} of type {ty}"))
        };
        let mut items = Vec::new();
        match (expr, ty.unfrozen()) {
            (Expr::List(written), CqlType::List(element)) | (Expr::Set(written), CqlType::Set(element)) => {
                for item in written {
                    items.push(self.received(item, element, whole)?);
                }
            }
            (Expr::List(written), CqlType::Vector(element, count)) if written.len() == *count as usize => {
                for item in written {
                    items.push(self.received(item, element, whole)?);
                }
            }
            (Expr::Map(pairs), CqlType::Map(key, value)) => {
                for (k, v) in pairs {
                    items.push(self.received(k, key, whole)?);
                    items.push(self.received(v, value, whole)?);
                }
            }
            // Names in front of a colon are columns where a map is wanted.
            (Expr::Udt(pairs), CqlType::Map(key, value)) => {
                for (name, v) in pairs {
                    items.push(self.received(&Expr::Column(name.clone()), key, whole)?);
                    items.push(self.received(v, value, whole)?);
                }
            }
            (Expr::Tuple(written), CqlType::Tuple(types)) if written.len() == types.len() => {
                for (item, ty) in written.iter().zip(types.iter()) {
                    items.push(self.received(item, ty, whole)?);
                }
            }
            (Expr::Udt(written), CqlType::Udt(udt)) => {
                for (name, ty) in &udt.fields {
                    items.push(match written.iter().find(|(field, _)| **field == **name) {
                        Some((_, item)) => self.received(item, ty, whole)?,
                        None => Selector::Term(crate::term::Term::Null),
                    });
                }
            }
            _ => {
                let piece = self.piece(inside(expr))?;
                return match piece {
                    Piece::Typed(selector, given) if function::accepts(ty, &given) => Ok(selector),
                    _ => refused(),
                };
            }
        }
        Ok(Selector::Build(ty.clone(), items))
    }

    fn hinted(&mut self, whole: &Expr, written: &TypeName, inner: &Expr) -> Result<(Selector, CqlType)> {
        let ty = names::resolve_type(written, self.scope.keyspace)?;
        Ok((self.received(inner, &ty, whole)?, ty))
    }

    fn cast(&mut self, whole: &Expr, inner: &Expr, written: &TypeName) -> Result<(Selector, CqlType)> {
        let (TypeName::Named { name, keyspace: None, .. }, true) = (written, names::is_native(written))
        else {
            return syntax(format!("no viable alternative at the type of {}", text_of(whole)));
        };
        let (selector, from) = self.typed(inside(inner))?;
        if name == "varchar" {
            return invalid(format!("{} cannot be cast to varchar", text_of(inner)));
        }
        let to = names::resolve_type(written, self.scope.keyspace)?;
        if from == to {
            return Ok((selector, to));
        }
        let function = function::cast(&from, &to, &text_of(inner))?;
        Ok((Selector::Call(Box::new(function), vec![selector]), to))
    }

    fn arithmetic(&mut self, operator: Arithmetic, sides: [&Expr; 2]) -> Result<(Selector, CqlType)> {
        let sides = sides.map(inside);
        let pieces = [self.piece(sides[0])?, self.piece(sides[1])?];
        let choices = |piece: &Piece<'_>| -> Vec<(CqlType, Fit)> {
            match piece {
                Piece::Typed(_, ty) => {
                    let ty = ty.unfrozen();
                    let others = OPERANDS.iter().filter(|other| *other != ty && **other != CqlType::Counter);
                    let weak = others.filter(|other| function::accepts(other, ty));
                    [(ty.clone(), Fit::Exact)]
                        .into_iter()
                        .chain(weak.map(|other| (other.clone(), Fit::Weak)))
                        .collect()
                }
                Piece::Untyped(expr) => {
                    let fits = OPERANDS.iter().map(|ty| (ty.clone(), literal_fit(expr, ty)));
                    fits.filter(|(_, fit)| *fit != Fit::No).collect()
                }
            }
        };
        let (symbol, texts) = (arithmetic::symbol(operator), sides.map(text_of));
        let (lefts, rights) = (choices(&pieces[0]), choices(&pieces[1]));
        let mut weak = Vec::new();
        let mut exact = None;
        for (left, left_fit) in &lefts {
            for (right, right_fit) in &rights {
                let Some(result) = arithmetic::result_type(operator, left, right) else { continue };
                let found = (left.clone(), right.clone(), result);
                match left_fit.min(right_fit) {
                    Fit::Exact => exact = Some(found),
                    _ => weak.push(found),
                }
            }
        }
        let several = weak.len() > 1;
        let Some((left_type, right_type, result)) = exact.or_else(|| if several { None } else { weak.pop() })
        else {
            return invalid(match several {
                true => format!(
                    "Ambiguous '{symbol}' operation with args {} and {}: use type hint to disambiguate, example '(int) ?'",
                    texts[0], texts[1]
                ),
                false => {
                    format!("the '{symbol}' operation is not supported between {} and {}", texts[0], texts[1])
                }
            });
        };
        let [left, right] = pieces;
        let left = self.receive(left, sides[0], &left_type)?;
        let right = self.receive(right, sides[1], &right_type)?;
        Ok((Selector::Arithmetic(operator, Box::new([(left_type, left), (right_type, right)])), result))
    }

    fn negate(&mut self, inner: &Expr) -> Result<(Selector, CqlType)> {
        let (selector, ty) = self.typed(inside(inner))?;
        match arithmetic::negated_type(&ty) {
            Some(negated) => Ok((Selector::Negate(ty, Box::new(selector)), negated)),
            None => arithmetic::no_negation(),
        }
    }

    fn field(&mut self, of: &Expr, field: &str) -> Result<(Selector, CqlType)> {
        let (inner, ty) = self.typed(of)?;
        let CqlType::Udt(udt) = ty.unfrozen() else {
            return invalid(format!(
                "Invalid field selection: {} of type {} is not a user type",
                text_of(of),
                shown_type(&ty)
            ));
        };
        match udt.fields.iter().position(|(name, _)| **name == *field) {
            Some(index) => {
                let field_type = udt.fields[index].1.clone();
                Ok((Selector::Field(Box::new(inner), index), field_type))
            }
            None => invalid(format!("{} of type {} has no field {field}", text_of(of), udt.name)),
        }
    }

    fn element(&mut self, _whole: &Expr, of: &Expr, key: &Expr) -> Result<(Selector, CqlType)> {
        let (inner, ty) = self.typed(of)?;
        let part = Part::Element(self.key_of(of, &ty, key, "Element")?);
        let value = ty.element_type().cloned().unwrap_or(CqlType::Blob);
        Ok((Selector::Part(Box::new(PartOf { of: inner, ty, part, text: text_of(of) })), value))
    }

    fn slice(&mut self, of: &Expr, ends: [Option<&Expr>; 2]) -> Result<(Selector, CqlType)> {
        let (inner, ty) = self.typed(of)?;
        let part = self.slice_of(of, &ty, ends)?;
        let result = ty.clone();
        Ok((Selector::Part(Box::new(PartOf { of: inner, ty, part, text: text_of(of) })), result))
    }

    fn slice_of(&mut self, of: &Expr, ty: &CqlType, ends: [Option<&Expr>; 2]) -> Result<Part> {
        let mut terms = [None, None];
        for (term, end) in terms.iter_mut().zip(ends) {
            if let Some(end) = end {
                *term = Some(self.key_of(of, ty, end, "Slice")?);
            }
        }
        let [from, to] = terms;
        Ok(Part::Slice(from, to))
    }

    /// The key of a map or the element of a set that stands in brackets.
    fn key_of(&mut self, of: &Expr, ty: &CqlType, key: &Expr, what: &str) -> Result<crate::term::Term> {
        let of = text_of(of);
        match ty.unfrozen() {
            CqlType::Map(key_type, _) => self.scope.term(key, &format!("key({of})"), key_type),
            CqlType::Set(element) => self.scope.term(key, &format!("value({of})"), element),
            CqlType::List(_) => {
                invalid(format!("{what} selection is only allowed on sets and maps, but {of} is a list"))
            }
            _ => {
                let is = if what == "Slice" { "" } else { "is " };
                invalid(format!(
                    "Invalid {} selection: {of} {is}of type {} is not a collection",
                    what.to_lowercase(),
                    shown_type(ty)
                ))
            }
        }
    }

    fn aggregate(
        &mut self,
        kind: AggregateKind,
        argument: Option<Selector>,
        ty: CqlType,
    ) -> Result<(Selector, CqlType)> {
        if self.in_aggregate {
            return invalid("aggregate functions cannot be used as arguments of aggregate functions");
        }
        self.clause.aggregates.push(Aggregate { kind, argument, ty });
        Ok((Selector::Aggregate(self.clause.aggregates.len() - 1), CqlType::Bigint))
    }

    fn call(&mut self, function: &TableName, arguments: &[Expr]) -> Result<(Selector, CqlType)> {
        let name = &*function.name;
        if let Some(keyspace) = function.keyspace.as_deref().filter(|keyspace| *keyspace != "system") {
            return invalid(format!("Unknown function '{keyspace}.{name}'"));
        }
        match name {
            "writetime" => return self.times(TimesKind::Writetime, name, arguments),
            "maxwritetime" => return self.times(TimesKind::MaxWritetime, name, arguments),
            "ttl" => return self.times(TimesKind::Ttl, name, arguments),
            "fromjson" | "from_json" => {
                return invalid(format!(
                    "{name}() cannot be used in the selection clause of a SELECT statement"
                ));
            }
            _ => {}
        }
        if let Some(kind) = AggregateKind::of_name(name) {
            return self.aggregate_call(kind, name, arguments);
        }
        let mut pieces = Vec::with_capacity(arguments.len());
        for argument in arguments {
            pieces.push(self.piece(inside(argument))?);
        }
        let facts: Vec<Argument<'_>> = pieces
            .iter()
            .zip(arguments)
            .map(|(piece, expr)| match piece {
                Piece::Typed(_, ty) => Argument { expr, ty: Some(ty) },
                Piece::Untyped(literal) => Argument { expr: literal, ty: None },
            })
            .collect();
        let function = function::resolve(name, &facts, self.table, None)?;
        drop(facts);
        let mut selectors = Vec::with_capacity(pieces.len());
        for ((piece, expr), ty) in pieces.into_iter().zip(arguments).zip(&function.arguments) {
            selectors.push(self.receive(piece, expr, ty)?);
        }
        let ty = function.returns.clone();
        Ok((Selector::Call(Box::new(function), selectors), ty))
    }

    fn aggregate_call(
        &mut self,
        kind: AggregateKind,
        name: &str,
        arguments: &[Expr],
    ) -> Result<(Selector, CqlType)> {
        let [argument] = arguments else {
            return match kind {
                AggregateKind::Sum | AggregateKind::Avg => {
                    kind.result_type(name, &CqlType::Empty).map(|ty| (Selector::Aggregate(0), ty))
                }
                _ => invalid(format!(
                    "Invalid number of arguments in call to function system.{name}: 1 required but {} provided",
                    arguments.len()
                )),
            };
        };
        let nested = std::mem::replace(&mut self.in_aggregate, true);
        let piece = self.piece(inside(argument));
        self.in_aggregate = nested;
        let (selector, ty) = match piece? {
            Piece::Typed(selector, ty) => (selector, ty),
            Piece::Untyped(marker @ Expr::Marker(_)) if kind == AggregateKind::Count => {
                (Selector::Term(self.scope.term(marker, MARKER, &CqlType::Blob)?), CqlType::Blob)
            }
            Piece::Untyped(literal) => match crate::term::preferred_type(literal) {
                Some(ty) => (Selector::Term(self.scope.term(literal, MARKER, &ty)?), ty),
                None => {
                    return invalid(format!(
                        "Cannot infer type of argument {} in call to function system.{name}: use type casts to \
                         disambiguate",
                        text_of(argument)
                    ));
                }
            },
        };
        let result = kind.result_type(name, &ty)?;
        let (selector, _) = self.aggregate(kind, Some(selector), ty)?;
        Ok((selector, result))
    }

    /// Of a column, or of a part of one that is stored in many cells.
    fn times(&mut self, kind: TimesKind, name: &str, arguments: &[Expr]) -> Result<(Selector, CqlType)> {
        let [of] = arguments else {
            return syntax(format!("mismatched input: {name} takes one column"));
        };
        // From the column outwards.
        let mut chain = Vec::new();
        let mut base = of;
        while let Expr::Field(inner, _) | Expr::Element(inner, _) | Expr::Slice(inner, ..) = base {
            chain.push(base);
            base = inner;
        }
        chain.reverse();
        let Expr::Column(column) = base else {
            return syntax(format!("no viable alternative: {name} takes a column, not {}", text_of(of)));
        };
        let column = where_clause::column(self.table, column)?.clone();
        if column.is_key() {
            return invalid(format!(
                "Cannot use selection function {name} on PRIMARY KEY part {}",
                column.name
            ));
        }
        // Checks the parts, and types the keys in them.
        self.typed(of)?;
        let mut parts = Vec::new();
        for part in chain {
            parts.push(match part {
                Expr::Slice(inner, from, to) => {
                    self.slice_of(inner, &column.ty, [from.as_deref(), to.as_deref()])?
                }
                // The parts of an element or a field were written with it.
                Expr::Element(inner, key) => {
                    parts.push(Part::Element(self.key_of(inner, &column.ty, key, "Element")?));
                    break;
                }
                Expr::Field(_, field) => {
                    let CqlType::Udt(udt) = column.ty.unfrozen() else {
                        return syntax("a user type was expected");
                    };
                    let at = udt.fields.iter().position(|(name, _)| **name == **field).unwrap_or_default();
                    parts.push(Part::Field(at));
                    break;
                }
                _ => break,
            });
        }
        self.clause.selected.push(column.clone());
        let fetch = self.fetches.place(&column);
        self.fetches.watch_times();
        let many = column.ty.is_multi_cell();
        if many {
            self.fetches.watch_cells(fetch);
        }
        let one = if kind == TimesKind::Ttl { CqlType::Int } else { CqlType::Bigint };
        let one_cell = matches!(parts.last(), Some(Part::Element(_) | Part::Field(_)));
        let lists = many && kind != TimesKind::MaxWritetime && !one_cell;
        let ty = if lists { CqlType::list(one) } else { one };
        Ok((Selector::Times(Box::new(Times { kind, fetch, ty: column.ty, parts })), ty))
    }
}

/// A type in an error: user types by their names.
fn shown_type(ty: &CqlType) -> String {
    match ty {
        CqlType::Udt(udt) => udt.name.to_string(),
        ty => ty.to_string(),
    }
}
