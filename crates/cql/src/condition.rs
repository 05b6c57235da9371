//! Conditions of lightweight transactions: IF EXISTS, IF NOT EXISTS and IF with comparisons, analysed, bound, evaluated.
//!
//! A comparison is never unknown: a column without a value is null, null equals null alone, and is neither less nor
//! greater than a value. Only `=`, `!=` and IN take null on their right side. A collection of many cells without cells is
//! null and empty at once. Source: Apache Cassandra 5.0.6, asked by `crates/compat/cql/cas*.cql`.

use crate::ast::{Condition, Expr, Operand, Operator, Relation, Subject};
use crate::error::{Result, invalid};
use crate::term::{Env, Scope, Term};
use crate::value::Val;
use crate::where_clause::{self, symbol};
use schema::{Column, ColumnKind};
use types::{CqlType, collection};

/// The IF of a statement.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Conditions {
    /// There is none.
    None,
    /// IF EXISTS
    Exists,
    /// IF NOT EXISTS
    NotExists,
    /// Comparisons that must all hold.
    Columns(Vec<ColumnCondition>),
}

impl Conditions {
    /// Whether the statement is conditional.
    pub fn is_some(&self) -> bool {
        *self != Conditions::None
    }

    /// The comparisons.
    pub fn columns(&self) -> &[ColumnCondition] {
        match self {
            Conditions::Columns(columns) => columns,
            Conditions::None | Conditions::Exists | Conditions::NotExists => &[],
        }
    }

    /// Whether a column of that kind is compared.
    pub fn compares(&self, kind: ColumnKind) -> bool {
        self.columns().iter().any(|condition| condition.column.kind == kind)
    }
}

/// A comparison of a column, or of a part of its value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ColumnCondition {
    /// The column, which is in no key.
    pub column: Column,
    part: Part,
    operator: Operator,
    values: Compared,
}

/// What of a column's value is compared.
#[derive(Debug, Clone, PartialEq)]
enum Part {
    Whole,
    /// The value at a map's key or a list's index.
    Element(Term),
    /// A field of a user type, by its place.
    Field(usize),
}

/// With what it is compared.
#[derive(Debug, Clone, PartialEq)]
enum Compared {
    /// Any of these; all operators but IN have one.
    Each(Vec<Term>),
    /// The elements of a list that a marker holds.
    Whole(Term),
}

/// Analyses IF, before anything else of the statement but USING.
/// Errors: unknown columns, columns of the key, values that are not of the type, comparisons that the type has not.
pub(crate) fn analyse(
    scope: &mut Scope<'_>,
    condition: &Condition,
    has_timestamp: bool,
) -> Result<Conditions> {
    let relations = match condition {
        Condition::None => return Ok(Conditions::None),
        Condition::Exists => return Ok(Conditions::Exists),
        Condition::NotExists => return Ok(Conditions::NotExists),
        Condition::Relations(relations) => relations,
    };
    if has_timestamp {
        return no_timestamp();
    }
    if relations.len() > crate::limits::RELATIONS {
        return invalid(format!("IF has more than {} conditions", crate::limits::RELATIONS));
    }
    let mut columns = Vec::with_capacity(relations.len());
    for relation in relations {
        columns.push(column_condition(scope, relation)?);
    }
    Ok(Conditions::Columns(columns))
}

/// Refuses USING TIMESTAMP: the time of a conditional write is that of its decision.
pub(crate) fn no_timestamp<T>() -> Result<T> {
    invalid("Cannot provide custom timestamp for conditional updates")
}

fn column_condition(scope: &mut Scope<'_>, relation: &Relation) -> Result<ColumnCondition> {
    let name = match &relation.subject {
        Subject::Column(name) | Subject::Element(name, _) | Subject::Field(name, _) => name,
        Subject::Token(_) | Subject::Tuple(_) | Subject::Custom(_) => {
            return invalid("conditions compare columns, their elements or their fields");
        }
    };
    let table = scope.table.clone();
    let column = where_clause::column(&table, name)?.clone();
    let operator = relation.operator;
    if column.ty == CqlType::Counter {
        return invalid("Conditions on counters are not supported");
    }
    let (part, receiver, ty) = part(scope, &column, &relation.subject)?;
    refuse_durations(&ty, operator)?;
    let values = compared(scope, &receiver, &ty, operator, &relation.object)?;
    if column.is_key() {
        return invalid(format!("PRIMARY KEY column '{name}' cannot have IF conditions"));
    }
    Ok(ColumnCondition { column, part, operator, values })
}

/// What is compared, what it is called in errors and markers, and its type.
fn part(scope: &mut Scope<'_>, column: &Column, subject: &Subject) -> Result<(Part, String, CqlType)> {
    let name = &*column.name;
    match subject {
        Subject::Element(_, key) => match column.ty.unfrozen().clone() {
            CqlType::List(element) => {
                let value = (*element).clone();
                Ok((element_at(scope, key, &format!("idx({name})"), &CqlType::Int)?, in_value(name), value))
            }
            CqlType::Map(key_type, value) => {
                let part = element_at(scope, key, &format!("key({name})"), &key_type)?;
                Ok((part, in_value(name), (*value).clone()))
            }
            CqlType::Set(_) => invalid(format!("Invalid element access syntax for set column {name}")),
            _ => invalid(format!("Invalid element access syntax for non-collection column {name}")),
        },
        Subject::Field(_, field) => {
            let CqlType::Udt(udt) = column.ty.unfrozen() else {
                return invalid(format!("Invalid field access syntax for non-UDT column {name}"));
            };
            match udt.fields.iter().position(|(other, _)| **other == **field) {
                Some(index) => {
                    let ty = udt.fields[index].1.clone();
                    Ok((Part::Field(index), format!("{name}.{field}"), ty))
                }
                None => invalid(format!("Unknown field {field} for column {name}")),
            }
        }
        _ => Ok((Part::Whole, name.to_owned(), column.ty.clone())),
    }
}

fn in_value(name: &str) -> String {
    format!("value({name})")
}

fn element_at(scope: &mut Scope<'_>, key: &Expr, name: &str, ty: &CqlType) -> Result<Part> {
    Ok(Part::Element(scope.term(key, name, ty)?))
}

fn compared(
    scope: &mut Scope<'_>,
    receiver: &str,
    ty: &CqlType,
    operator: Operator,
    object: &Operand,
) -> Result<Compared> {
    let (receiver, ty) = match operator {
        Operator::Contains => match ty.element_type() {
            Some(element) if ty.is_collection() => (format!("value({receiver})"), element.clone()),
            _ => return invalid(format!("Cannot use CONTAINS on non-collection column {receiver}")),
        },
        Operator::ContainsKey => match ty.unfrozen() {
            CqlType::Map(key, _) => (format!("key({receiver})"), (**key).clone()),
            _ => return invalid(format!("Cannot use CONTAINS KEY on non-map column {receiver}")),
        },
        _ => (receiver.to_owned(), ty.clone()),
    };
    match object {
        Operand::One(expr) if operator == Operator::In => {
            let list = CqlType::list(ty.clone());
            let name = format!("in({receiver})");
            let term = scope.term(expr, &name, &list)?;
            if let Some(marker) = term.as_marker() {
                scope.bind_values(marker, &name, &list, true);
            }
            Ok(Compared::Whole(term))
        }
        Operand::One(expr) => Ok(Compared::Each(vec![scope.term(expr, &receiver, &ty)?])),
        Operand::Many(items) => {
            let terms: Result<Vec<Term>> =
                items.iter().map(|item| scope.term(item, &receiver, &ty)).collect();
            terms.map(Compared::Each)
        }
        Operand::Nothing => invalid("a value was expected behind an operator"),
    }
}

fn is_slice(operator: Operator) -> bool {
    matches!(operator, Operator::Less | Operator::LessOrEqual | Operator::Greater | Operator::GreaterOrEqual)
}

/// Durations have no order, so nothing with one in it is less or greater.
fn refuse_durations(ty: &CqlType, operator: Operator) -> Result<()> {
    if !is_slice(operator) || ty.is_orderable() {
        return Ok(());
    }
    invalid(match ty.unfrozen() {
        CqlType::Duration => {
            format!("Slice conditions ( {} ) are not supported on durations", symbol(operator))
        }
        CqlType::Tuple(_) => "Slice conditions are not supported on tuples containing durations".to_owned(),
        CqlType::Udt(_) => "Slice conditions are not supported on UDTs containing durations".to_owned(),
        _ => "Slice conditions are not supported on collections containing durations".to_owned(),
    })
}

/// A comparison with its values.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct BoundCondition {
    part: BoundPart,
    operator: Operator,
    /// Null is among them where it may be.
    values: Vec<Option<Vec<u8>>>,
    /// Of the column.
    column: CqlType,
    /// Of what is compared.
    ty: CqlType,
}

#[derive(Debug, Clone, PartialEq)]
enum BoundPart {
    Whole,
    Element(Vec<u8>),
    Field(usize),
    /// The element of a map at a key that is not set, or `CONTAINS` of what is not set: nothing, which meets no condition.
    Nowhere,
}

const UNSET: &str = "Invalid 'unset' value in condition";

impl ColumnCondition {
    /// Evaluates the values.
    /// Errors: not set where a value must be, null as a list, a key or an index.
    pub fn bind(&self, env: &Env<'_, '_>) -> Result<BoundCondition> {
        let column = &self.column.ty;
        let (values, has_object) = self.values.eval(self.operator, env)?;
        let (part, ty) = match &self.part {
            // Of a frozen collection it is a mistake, as in Cassandra.
            Part::Whole if !has_object && !column.is_multi_cell() => return invalid(UNSET),
            Part::Whole if !has_object => (BoundPart::Nowhere, column.clone()),
            Part::Whole => (BoundPart::Whole, column.clone()),
            Part::Field(index) => {
                let CqlType::Udt(udt) = column.unfrozen() else { return invalid(UNSET) };
                (BoundPart::Field(*index), udt.fields[*index].1.clone())
            }
            Part::Element(key) => {
                let is_map = matches!(column.unfrozen(), CqlType::Map(..));
                let part = match key.eval(env)? {
                    Val::Bytes(bytes) => BoundPart::Element(bytes.into_owned()),
                    Val::Unset if is_map => BoundPart::Nowhere,
                    Val::Null => {
                        let kind = if is_map { "map" } else { "list" };
                        return invalid(format!("Invalid null value for {kind} element access"));
                    }
                    Val::Unset => return invalid(UNSET),
                };
                let Some(ty) = column.element_type() else { return invalid(UNSET) };
                (part, ty.clone())
            }
        };
        Ok(BoundCondition { part, operator: self.operator, values, column: column.clone(), ty })
    }
}

impl Compared {
    /// The values, and whether there is anything to compare with: not where what must be contained is not set.
    fn eval(&self, operator: Operator, env: &Env<'_, '_>) -> Result<(Vec<Option<Vec<u8>>>, bool)> {
        let mut out = Vec::new();
        match self {
            Compared::Each(terms) => {
                for term in terms {
                    match term.eval(env)? {
                        Val::Bytes(bytes) => out.push(Some(bytes.into_owned())),
                        Val::Null => out.push(None),
                        // What is not set is no value of a list of values.
                        Val::Unset if operator == Operator::In => {}
                        Val::Unset if matches!(operator, Operator::Contains | Operator::ContainsKey) => {
                            return Ok((out, false));
                        }
                        Val::Unset => return invalid(UNSET),
                    }
                }
            }
            Compared::Whole(term) => match term.eval(env)? {
                Val::Bytes(bytes) => {
                    for item in collection::elements(&bytes) {
                        out.push(item?.map(<[u8]>::to_vec));
                    }
                }
                Val::Null => return invalid("Invalid null list in IN condition"),
                Val::Unset => return invalid(UNSET),
            },
        }
        Ok((out, true))
    }
}

impl BoundCondition {
    /// Whether it holds for the column's value, null where it has none.
    /// Errors: comparisons that null does not have.
    pub fn holds(&self, value: Option<&[u8]>) -> Result<bool> {
        let value = match &self.part {
            BoundPart::Nowhere => return Ok(false),
            BoundPart::Whole => value,
            BoundPart::Field(index) => match value {
                Some(value) => collection::Fields::new(value).nth(*index).transpose()?.flatten(),
                None => None,
            },
            BoundPart::Element(key) => self.element(key, value)?,
        };
        for wanted in &self.values {
            if self.is_met(wanted.as_deref(), value)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn element<'v>(&self, key: &[u8], value: Option<&'v [u8]>) -> Result<Option<&'v [u8]>> {
        if let CqlType::Map(key_type, _) = self.column.unfrozen() {
            let Some(value) = value else { return Ok(None) };
            for entry in collection::entries(value) {
                let (other, found) = entry?;
                if key_type.compare(other, key).is_eq() {
                    return Ok(Some(found));
                }
            }
            return Ok(None);
        }
        let Ok(index) = <[u8; 4]>::try_from(key).map(i32::from_be_bytes) else {
            return invalid("Invalid list index: 4 bytes expected");
        };
        // Of a frozen list that is null Cassandra does not look at the index.
        if value.is_none() && !self.column.is_multi_cell() {
            return Ok(None);
        }
        let Ok(index) = usize::try_from(index) else {
            return invalid(format!("Invalid negative list index {index}"));
        };
        let Some(value) = value else { return Ok(None) };
        Ok(collection::elements(value).nth(index).transpose()?.flatten())
    }

    fn is_met(&self, wanted: Option<&[u8]>, value: Option<&[u8]>) -> Result<bool> {
        let operator = match self.operator {
            Operator::In => Operator::Equal,
            operator => operator,
        };
        // Without elements a collection of many cells is null.
        let cells =
            self.part == BoundPart::Whole && self.column.is_multi_cell() && self.column.is_collection();
        let contains = matches!(operator, Operator::Contains | Operator::ContainsKey);
        let empty = match wanted {
            Some(wanted) if cells && !contains => collection::count(wanted)? == 0,
            _ => false,
        };
        let Some(wanted) = wanted.filter(|_| !empty) else {
            return match operator {
                Operator::Equal => Ok(value.is_none()),
                Operator::NotEqual => Ok(value.is_some()),
                _ => {
                    let what = if empty { self.empty_name() } else { "null" };
                    let symbol = symbol(operator);
                    invalid(format!("Invalid comparison with {what} for operator \"{symbol}\""))
                }
            };
        };
        let Some(value) = value else { return Ok(operator == Operator::NotEqual) };
        let order = || self.ty.unfrozen().compare(value, wanted);
        Ok(match operator {
            Operator::Equal => order().is_eq(),
            Operator::NotEqual => order().is_ne(),
            Operator::Less => order().is_lt(),
            Operator::LessOrEqual => order().is_le(),
            Operator::Greater => order().is_gt(),
            Operator::GreaterOrEqual => order().is_ge(),
            Operator::Contains | Operator::ContainsKey => return self.contains(operator, value, wanted),
            Operator::In | Operator::Like | Operator::IsNotNull => false,
        })
    }

    fn contains(&self, operator: Operator, value: &[u8], wanted: &[u8]) -> Result<bool> {
        if let CqlType::Map(key_type, value_type) = self.ty.unfrozen() {
            for entry in collection::entries(value) {
                let (key, value) = entry?;
                let found = match operator {
                    Operator::ContainsKey => key_type.compare(key, wanted),
                    _ => value_type.compare(value, wanted),
                };
                if found.is_eq() {
                    return Ok(true);
                }
            }
            return Ok(false);
        }
        let Some(element) = self.ty.element_type() else { return Ok(false) };
        for item in collection::elements(value) {
            if item?.is_some_and(|item| element.compare(item, wanted).is_eq()) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn empty_name(&self) -> &'static str {
        match self.column.unfrozen() {
            CqlType::Set(_) => "an empty set",
            CqlType::Map(..) => "an empty map",
            _ => "an empty list",
        }
    }
}

#[cfg(test)]
mod tests {
    //! Which comparisons hold: by operator, by null on either side, by what is compared.
    use super::*;
    use Operator::*;

    fn int(value: i32) -> Vec<u8> {
        value.to_be_bytes().to_vec()
    }

    fn list(values: &[i32]) -> Vec<u8> {
        let values: Vec<Vec<u8>> = values.iter().map(|value| int(*value)).collect();
        collection::build(values.iter().map(|value| &value[..]))
    }

    fn map(pairs: &[(i32, i32)]) -> Vec<u8> {
        let pairs: Vec<(Vec<u8>, Vec<u8>)> = pairs.iter().map(|(k, v)| (int(*k), int(*v))).collect();
        collection::build_map(pairs.iter().map(|(k, v)| (&k[..], &v[..])))
    }

    fn condition(
        column: &CqlType,
        part: BoundPart,
        operator: Operator,
        values: &[Option<Vec<u8>>],
    ) -> BoundCondition {
        let ty = match part {
            BoundPart::Whole => column.clone(),
            _ => column.element_type().expect("a collection").clone(),
        };
        BoundCondition { part, operator, values: values.to_vec(), column: column.clone(), ty }
    }

    /// What comes of comparing a column's value; `None`: there is no such comparison.
    fn compare(
        ty: &CqlType,
        value: Option<Vec<u8>>,
        operator: Operator,
        wanted: Option<Vec<u8>>,
    ) -> Option<bool> {
        condition(ty, BoundPart::Whole, operator, &[wanted]).holds(value.as_deref()).ok()
    }

    #[test]
    fn values_compare_by_their_order() {
        let table = [
            (Equal, [false, true, false]),
            (NotEqual, [true, false, true]),
            (Less, [true, false, false]),
            (LessOrEqual, [true, true, false]),
            (Greater, [false, false, true]),
            (GreaterOrEqual, [false, true, true]),
            (In, [false, true, false]),
        ];
        for (operator, outcomes) in table {
            for (value, outcome) in [-1, 0, 1].into_iter().zip(outcomes) {
                let found = compare(&CqlType::Int, Some(int(value)), operator, Some(int(0)));
                assert_eq!(found, Some(outcome), "{value} {operator:?} 0");
            }
        }
    }

    #[test]
    fn null_equals_null_alone_and_is_not_less_than_anything() {
        for operator in [Equal, NotEqual, Less, LessOrEqual, Greater, GreaterOrEqual, In] {
            let column_null = compare(&CqlType::Int, None, operator, Some(int(0)));
            assert_eq!(column_null, Some(operator == NotEqual), "null {operator:?} 0");
            let (of_value, of_null) = match operator {
                Equal | In => (Some(false), Some(true)),
                NotEqual => (Some(true), Some(false)),
                _ => (None, None),
            };
            assert_eq!(compare(&CqlType::Int, Some(int(0)), operator, None), of_value, "0 {operator:?} null");
            assert_eq!(compare(&CqlType::Int, None, operator, None), of_null, "null {operator:?} null");
        }
        let error =
            condition(&CqlType::Int, BoundPart::Whole, Less, &[None]).holds(None).expect_err("refused");
        assert_eq!(error.to_string(), "Invalid comparison with null for operator \"<\"");
    }

    #[test]
    fn in_holds_if_one_value_does_and_never_of_none() {
        let holds = |values: &[Option<Vec<u8>>], value: Option<Vec<u8>>| {
            condition(&CqlType::Int, BoundPart::Whole, In, values)
                .holds(value.as_deref())
                .expect("is answered")
        };
        assert!(holds(&[None, Some(int(1))], Some(int(1))));
        assert!(holds(&[Some(int(1)), None], None));
        assert!(!holds(&[Some(int(1)), None], Some(int(2))));
        assert!(!holds(&[], Some(int(1))));
        assert!(!holds(&[], None));
    }

    #[test]
    fn a_collection_of_cells_is_null_when_it_is_empty_and_a_frozen_one_is_not() {
        let cells = CqlType::list(CqlType::Int);
        let frozen = CqlType::Frozen(cells.clone().into());
        let empty = Some(list(&[]));
        assert_eq!(compare(&cells, None, Equal, empty.clone()), Some(true));
        assert_eq!(compare(&cells, Some(list(&[1])), NotEqual, empty.clone()), Some(true));
        assert_eq!(compare(&cells, Some(list(&[1])), Greater, empty.clone()), None);
        assert_eq!(compare(&frozen, None, Equal, empty.clone()), Some(false));
        assert_eq!(compare(&frozen, empty.clone(), Equal, empty.clone()), Some(true));
        assert_eq!(compare(&frozen, Some(list(&[1])), Greater, empty), Some(true));
    }

    #[test]
    fn collections_compare_element_by_element() {
        for ty in [CqlType::list(CqlType::Int), CqlType::set(CqlType::Int)] {
            let order = |left: &[i32], operator, right: &[i32]| {
                compare(&ty, Some(list(left)), operator, Some(list(right))).expect("is answered")
            };
            assert!(order(&[1, 2], Less, &[1, 3]));
            assert!(order(&[1, 2], Less, &[1, 2, 3]));
            assert!(order(&[2], Greater, &[1, 9]));
            assert!(order(&[1, 2], Equal, &[1, 2]));
        }
        let ty = CqlType::map(CqlType::Int, CqlType::Int);
        let order = |left: &[(i32, i32)], operator, right: &[(i32, i32)]| {
            compare(&ty, Some(map(left)), operator, Some(map(right))).expect("is answered")
        };
        assert!(order(&[(1, 1)], Less, &[(1, 2)]));
        assert!(order(&[(2, 0)], Greater, &[(1, 9)]));
        assert!(order(&[(1, 1)], LessOrEqual, &[(1, 1), (2, 2)]));
    }

    #[test]
    fn elements_are_found_by_index_and_key() {
        let ty = CqlType::list(CqlType::Int);
        let at = |index: i32, operator, wanted: Option<Vec<u8>>, value: Option<Vec<u8>>| {
            condition(&ty, BoundPart::Element(int(index)), operator, &[wanted]).holds(value.as_deref())
        };
        let value = Some(list(&[5, 6]));
        assert_eq!(at(1, Equal, Some(int(6)), value.clone()), Ok(true));
        assert_eq!(at(2, Equal, None, value.clone()), Ok(true), "behind the end there is null");
        assert_eq!(at(0, Equal, None, None), Ok(true));
        assert_eq!(at(0, Greater, Some(int(4)), value.clone()), Ok(true));
        let error = at(-1, Equal, Some(int(5)), value).expect_err("refused");
        assert_eq!(error.to_string(), "Invalid negative list index -1");
        let ty = CqlType::map(CqlType::Int, CqlType::Int);
        let at = |key: i32, wanted: Option<Vec<u8>>| {
            let value = map(&[(1, 10)]);
            condition(&ty, BoundPart::Element(int(key)), Equal, &[wanted]).holds(Some(&value))
        };
        assert_eq!(at(1, Some(int(10))), Ok(true));
        assert_eq!(at(2, Some(int(10))), Ok(false));
        assert_eq!(at(2, None), Ok(true));
    }

    #[test]
    fn contains_looks_at_elements_keys_and_values() {
        let set = CqlType::set(CqlType::Int);
        assert_eq!(compare(&set, Some(list(&[1, 2])), Contains, Some(int(2))), Some(true));
        assert_eq!(compare(&set, Some(list(&[1, 2])), Contains, Some(int(3))), Some(false));
        assert_eq!(compare(&set, None, Contains, Some(int(3))), Some(false));
        assert_eq!(compare(&set, None, Contains, None), None);
        let ty = CqlType::map(CqlType::Int, CqlType::Int);
        let value = Some(map(&[(1, 10)]));
        assert_eq!(compare(&ty, value.clone(), Contains, Some(int(10))), Some(true));
        assert_eq!(compare(&ty, value.clone(), Contains, Some(int(1))), Some(false));
        assert_eq!(compare(&ty, value.clone(), ContainsKey, Some(int(1))), Some(true));
        assert_eq!(compare(&ty, value, ContainsKey, Some(int(10))), Some(false));
    }
}
