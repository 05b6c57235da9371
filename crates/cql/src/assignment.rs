//! What UPDATE and INSERT set and DELETE names: assignments and targets become operations on columns.

use crate::arithmetic::symbol;
use crate::ast::{Arithmetic, Assign, Assignment, Expr, Target};
use crate::error::{Result, invalid, syntax};
use crate::limits;
use crate::select::text_of;
use crate::term::{Scope, Term};
use crate::where_clause;
use crate::write::{Operation, Operator};
use base::{HashMap, HashSet};
use schema::{Column, ColumnKind};
use types::CqlType;

/// Operations by kind of column.
#[derive(Default)]
pub(crate) struct Operations {
    statics: Vec<Operation>,
    regulars: Vec<Operation>,
    /// Columns that have operations, by kind and ordinal, with whether one of them is about all of it.
    columns: HashMap<(ColumnKind, u16), bool>,
    /// Fields that have operations.
    fields: HashSet<(ColumnKind, u16, u16)>,
}

impl Operations {
    pub(crate) fn add(&mut self, column: &Column, operator: Operator) -> Result<()> {
        let list = if column.kind == ColumnKind::Static { &mut self.statics } else { &mut self.regulars };
        let whole = matches!(operator, Operator::Set(_) | Operator::Delete);
        let same_field = match operator {
            Operator::SetField(index, _) | Operator::DeleteField(index) => {
                !self.fields.insert((column.kind, column.ordinal, index))
            }
            _ => false,
        };
        let earlier = self.columns.insert((column.kind, column.ordinal), whole);
        let counts = matches!(operator, Operator::Count(_) | Operator::CountDown(_));
        // Several changes of one counter add up.
        if !counts
            && earlier.is_some_and(|had_whole| !column.is_complex() || had_whole || whole || same_field)
        {
            return syntax(format!("Multiple incompatible setting of column {}", column.name));
        }
        list.push(Operation {
            ordinal: column.ordinal,
            name: column.name.clone(),
            ty: column.ty.clone(),
            operator,
        });
        Ok(())
    }

    /// Whether static columns are changed, and no others.
    pub(crate) fn are_static(&self) -> bool {
        self.regulars.is_empty() && !self.statics.is_empty()
    }

    /// By ordinal, as packed rows want them.
    pub(crate) fn sorted(mut self) -> (Vec<Operation>, Vec<Operation>) {
        self.statics.sort_by_key(|o| o.ordinal);
        self.regulars.sort_by_key(|o| o.ordinal);
        (self.statics, self.regulars)
    }
}

/// What of the assignments no counter takes.
pub(crate) fn counter_assignments(scope: &mut Scope<'_>, assignments: &[Assignment]) -> Result<()> {
    let table = scope.table.clone();
    for assignment in assignments {
        let Target::Column(name) = &assignment.target else { continue };
        let value = &assignment.value;
        let column = where_clause::column(&table, name)?;
        let is_self = |expr: &Expr| matches!(expr, Expr::Column(other) if other == name);
        match (assignment.assign, value) {
            (Assign::Set, Expr::Arithmetic(_, left, right)) if is_self(left) => {
                increment(scope, column, right)?;
            }
            (Assign::Set, _) => {}
            (Assign::Add | Assign::Subtract, value) => {
                increment(scope, column, value)?;
            }
        }
        if assignment.assign != Assign::Set {
            continue;
        }
        if !column.is_key() && !matches!(value, Expr::Arithmetic(..)) {
            refuse_no_increment(value)?;
            scope.term(value, name, &column.ty)?;
            return invalid(format!(
                "Cannot set the value of counter column {name} (counters can only be incremented/decremented, not set)"
            ));
        }
    }
    Ok(())
}

pub(crate) fn refuse_many(assignments: usize) -> Result<()> {
    if assignments > limits::ASSIGNMENTS {
        return invalid(format!(
            "a statement changes no more than {} columns or elements",
            limits::ASSIGNMENTS
        ));
    }
    Ok(())
}

pub(crate) fn target_name(target: &Target) -> &str {
    match target {
        Target::Column(name) | Target::Element(name, _) | Target::Field(name, _) => name,
    }
}

pub(crate) fn assigned(
    scope: &mut Scope<'_>,
    column: &Column,
    assignment: &Assignment,
    conditional: bool,
) -> Result<Operator> {
    let name = &*column.name;
    let is_self = |expr: &Expr| matches!(expr, Expr::Column(other) if other == name);
    let shown = |operator: char| match (assignment.assign, &assignment.value) {
        (Assign::Set, value) => format!("{name} = {}", text_of(value)),
        (_, value) => format!("{name} = {name} {operator} {}", text_of(value)),
    };
    if conditional && let Some(value) = increased(column, assignment) {
        return Ok(Operator::Increase(scope.term(value, name, &column.ty)?));
    }
    match (&assignment.target, assignment.assign, &assignment.value) {
        (Target::Field(_, field), Assign::Set, value) => {
            let (index, ty) = user_type_field(column, field, &|kind| {
                format!("Invalid operation ({name}.{field} = {}) for {kind} column {name}", text_of(value))
            })?;
            Ok(Operator::SetField(index, scope.term(value, &format!("{name}.{field}"), &ty)?))
        }
        (Target::Field(..), _, _) => syntax(format!("a field of column {name} can only be set")),
        (Target::Element(_, key), Assign::Set, value) => put_element(scope, column, key, value),
        (Target::Element(..), _, _) => invalid(format!("Invalid operation on an element of column {name}")),
        (Target::Column(_), Assign::Add, value) => add(scope, column, value, false, &shown('+')),
        (Target::Column(_), Assign::Subtract, value) => subtract(scope, column, value, &shown('-')),
        (Target::Column(_), Assign::Set, Expr::Arithmetic(Arithmetic::Add, left, right)) if is_self(left) => {
            add(scope, column, right, false, &shown('+'))
        }
        (Target::Column(_), Assign::Set, Expr::Arithmetic(Arithmetic::Add, left, right))
            if is_self(right) =>
        {
            add(scope, column, left, true, &shown('+'))
        }
        (Target::Column(_), Assign::Set, Expr::Arithmetic(Arithmetic::Subtract, left, right))
            if is_self(left) =>
        {
            subtract(scope, column, right, &shown('-'))
        }
        (Target::Column(_), Assign::Set, Expr::Arithmetic(operator, left, right))
            if matches!(operator, Arithmetic::Add | Arithmetic::Subtract)
                && [left, right].iter().any(|side| matches!(***side, Expr::Column(_))) =>
        {
            syntax(match **left {
                Expr::Column(_) => "Only expressions of the form X = X +<value> are supported.",
                _ => "Only expressions of the form X = <value> + X are supported.",
            })
        }
        (Target::Column(_), Assign::Set, value) => Ok(Operator::Set(scope.term(value, name, &column.ty)?)),
    }
}

/// `v = v + 1` and the like on numbers and texts, which only conditional statements know: they read what they write to.
fn increased<'a>(column: &Column, assignment: &'a Assignment) -> Option<&'a Expr> {
    let Target::Column(name) = &assignment.target else { return None };
    let is_text = matches!(column.ty, CqlType::Text | CqlType::Ascii);
    let is_number = matches!(
        column.ty,
        CqlType::Tinyint
            | CqlType::Smallint
            | CqlType::Int
            | CqlType::Bigint
            | CqlType::Varint
            | CqlType::Float
            | CqlType::Double
            | CqlType::Decimal
    );
    let value = match (assignment.assign, &assignment.value) {
        (Assign::Add, value) => value,
        (Assign::Set, Expr::Arithmetic(Arithmetic::Add, left, right)) if matches!(&**left, Expr::Column(other) if other == name) => {
            &**right
        }
        (Assign::Set | Assign::Subtract, _) => return None,
    };
    (is_number || is_text).then_some(value)
}

/// The place and type of a field of a column's user type. `refusal` says what is wrong with another kind of column.
fn user_type_field(column: &Column, field: &str, refusal: &dyn Fn(&str) -> String) -> Result<(u16, CqlType)> {
    let udt = match &column.ty {
        CqlType::Udt(udt) => udt,
        ty if matches!(ty.unfrozen(), CqlType::Udt(_)) => return invalid(refusal("frozen UDT")),
        _ => return invalid(refusal("non-UDT")),
    };
    match udt.fields.iter().position(|(name, _)| **name == *field) {
        Some(index) => Ok((index as u16, udt.fields[index].1.clone())),
        None => invalid(format!("UDT column {} does not have a field named {field}", column.name)),
    }
}

/// `shown` is the assignment, for errors.
fn must_be_collection(column: &Column, shown: &str) -> Result<()> {
    let kind = match column.ty.unfrozen() {
        CqlType::Udt(_) | CqlType::Tuple(_) => "tuple",
        _ if column.is_complex() => return Ok(()),
        ty if ty.is_collection() => "frozen collection",
        _ => "non counter",
    };
    invalid(format!("Invalid operation ({shown}) for {kind} column {}", column.name))
}

fn add(
    scope: &mut Scope<'_>,
    column: &Column,
    value: &Expr,
    in_front: bool,
    shown: &str,
) -> Result<Operator> {
    if in_front {
        let term = scope.term(value, &column.name, &column.ty)?;
        // As Cassandra writes it back, with a minus.
        let shown = format!("{} = {} - {}", column.name, text_of(value), column.name);
        return match &column.ty {
            CqlType::List(_) => Ok(Operator::Prepend(term)),
            ty if matches!(ty.unfrozen(), CqlType::List(_)) => {
                invalid(format!("Invalid operation ({shown}) for frozen list column {}", column.name))
            }
            _ => invalid(format!("Invalid operation ({shown}) for non list column {}", column.name)),
        };
    }
    if column.ty == CqlType::Counter {
        return Ok(Operator::Count(increment(scope, column, value)?));
    }
    must_be_collection(column, shown)?;
    let term = scope.term(value, &column.name, &column.ty);
    Ok(Operator::Append(match &column.ty {
        CqlType::Map(..) => term.or_else(|_| {
            invalid(format!("Value for a map addition has to be a map, but was: '{}'", text_of(value)))
        })?,
        _ => term?,
    }))
}

/// What is added to a counter or taken from it: one number.
fn increment(scope: &mut Scope<'_>, column: &Column, value: &Expr) -> Result<Term> {
    refuse_no_increment(value)?;
    scope.term(value, &column.name, &column.ty)
}

fn refuse_no_increment(value: &Expr) -> Result<()> {
    match value {
        Expr::Null => invalid("Invalid null value for counter increment/decrement"),
        Expr::Arithmetic(operator, left, right) => {
            refuse_no_increment(left)?;
            let (left, right) = (text_of(left), text_of(right));
            invalid(format!(
                "the '{}' operation is not supported between {left} and {right}",
                symbol(*operator)
            ))
        }
        _ => Ok(()),
    }
}

fn subtract(scope: &mut Scope<'_>, column: &Column, value: &Expr, shown: &str) -> Result<Operator> {
    if column.ty == CqlType::Counter {
        return Ok(Operator::CountDown(increment(scope, column, value)?));
    }
    must_be_collection(column, shown)?;
    match &column.ty {
        CqlType::Map(key, _) => {
            let keys = CqlType::Set(key.clone());
            scope.term(value, &column.name, &keys).map(Operator::Remove).or_else(|_| {
                invalid(format!(
                    "Value for a map substraction has to be a set, but was: '{}'",
                    text_of(value)
                ))
            })
        }
        CqlType::Set(_) => Ok(Operator::Remove(scope.term(value, &column.name, &column.ty)?)),
        _ => Ok(Operator::RemoveEqual(scope.term(value, &column.name, &column.ty)?)),
    }
}

fn put_element(scope: &mut Scope<'_>, column: &Column, key: &Expr, value: &Expr) -> Result<Operator> {
    let name = &*column.name;
    let shown = format!("{name}[{}] = {}", text_of(key), text_of(value));
    if !column.ty.is_collection() {
        return invalid(format!("Invalid operation ({shown}) for non collection column {name}"));
    }
    must_be_collection(column, &shown)?;
    match &column.ty {
        CqlType::Map(key_type, value_type) => {
            let key = scope.term(key, &format!("key({name})"), key_type)?;
            Ok(Operator::Put(key, scope.term(value, &format!("value({name})"), value_type)?))
        }
        CqlType::List(element) => {
            let index = scope.term(key, &format!("idx({name})"), &CqlType::Int)?;
            Ok(Operator::PutAt(index, scope.term(value, &format!("value({name})"), element)?))
        }
        _ => invalid(format!("Invalid operation ({shown}) for set column {name}")),
    }
}

pub(crate) fn deleted(scope: &mut Scope<'_>, column: &Column, target: &Target) -> Result<Operator> {
    let name = &*column.name;
    match target {
        Target::Column(_) => Ok(Operator::Delete),
        Target::Field(_, field) => {
            let (index, _) = user_type_field(column, field, &|kind| match kind {
                "frozen UDT" => format!("Frozen UDT column {name} does not support field deletions"),
                _ => format!("Invalid field deletion operation for non-UDT column {name}"),
            })?;
            Ok(Operator::DeleteField(index))
        }
        Target::Element(..) if column.ty.is_collection() && !column.is_complex() => {
            invalid(format!("Invalid deletion operation for frozen collection column {name}"))
        }
        Target::Element(_, key) => match &column.ty {
            CqlType::Map(key_type, _) => {
                Ok(Operator::DeleteElement(scope.term(key, &format!("key({name})"), key_type)?))
            }
            CqlType::Set(element) => {
                Ok(Operator::DeleteElement(scope.term(key, &format!("value({name})"), element)?))
            }
            CqlType::List(_) => {
                Ok(Operator::DeleteAt(scope.term(key, &format!("idx({name})"), &CqlType::Int)?))
            }
            _ => invalid(format!("Invalid deletion operation for non collection column {name}")),
        },
    }
}
