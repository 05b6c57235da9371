//! WHERE, analysed: each relation finds the key component, the slice or the filter it stands for.

use crate::ast::{Expr, Operand, Operator, Relation, Subject};
use crate::error::{Result, invalid};
use crate::expr_text::text_of;
use crate::limits;
use crate::names::quoted;
use crate::restriction::{Bound, Clustering, Filter, Nulls, Prefix, Row, Test, TokenBound, Values};
use crate::term::{Scope, Term};
use schema::{Column, ColumnKind, Table};
use types::CqlType;

/// Cassandra's text when a query would read more than it returns.
pub(crate) const NEEDS_FILTERING: &str = "Cannot execute this query as it might involve data filtering and thus may \
    have unpredictable performance. If you want to execute this query despite the performance unpredictability, use \
    ALLOW FILTERING";

/// What the relations of a statement come down to.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Where {
    /// Values of the partition key's components, `None` where free.
    pub keys: Vec<Option<Values>>,
    /// Bounds on the token.
    pub tokens: Vec<TokenBound>,
    /// Restrictions on clustering columns that form slices.
    pub clustering: Clustering,
    /// Everything else.
    pub filters: Vec<Filter>,
    /// Whether any clustering column is restricted, by slices or filters.
    pub restricts_clustering: bool,
    /// Name of a clustering column that is restricted behind a gap, with what is wrong.
    pub gap: Option<String>,
    /// What cannot be a filter either, with what is wrong.
    pub no_filter: Option<&'static str>,
}

impl Where {
    /// The whole partition key's values, if every component has one.
    pub fn whole_key(&self) -> Option<Vec<Values>> {
        self.keys.iter().cloned().collect()
    }

    /// Whether a clustering column can have one value only, in a slice or behind a filter.
    pub fn fixes_one(&self, column: usize) -> bool {
        self.clustering.fixes_one(column)
            || self.filters.iter().any(|filter| {
                filter.column.kind == ColumnKind::Clustering
                    && usize::from(filter.column.position) == column
                    && matches!(filter.test, Test::Compare(Operator::Equal, _) | Test::FieldEqual(..))
            })
    }

    /// Whether some but not all components of the partition key have values.
    pub fn has_partial_key(&self) -> bool {
        self.keys.iter().any(Option::is_some) && self.keys.iter().any(Option::is_none)
    }
}

/// One relation on one clustering column or several neighbours, before they are put in order.
struct OnClustering {
    first: usize,
    count: usize,
    what: What,
    /// How it would be tested as a filter, if it is about one column.
    filter: Option<Test>,
}

enum What {
    Fixed(Prefix),
    Bound(Bound),
    Other,
}

/// Analyses all relations of a statement.
/// Errors: unknown columns, operators a column's type does not take, restrictions that cannot stand together.
pub(crate) fn analyse(scope: &mut Scope<'_>, relations: &[Relation]) -> Result<Where> {
    let table = scope.table.clone();
    if relations.len() > limits::RELATIONS {
        return invalid(format!("WHERE has more than {} relations", limits::RELATIONS));
    }
    check_repeated(&table, relations)?;
    let mut out = Where { keys: vec![None; table.partition_key.len()], ..Where::default() };
    let mut clustering = Vec::new();
    for relation in relations {
        match &relation.subject {
            Subject::Column(name) => on_column(scope, &table, name, relation, &mut out, &mut clustering)?,
            Subject::Token(names) => out.tokens.push(on_token(scope, &table, names, relation)?),
            Subject::Tuple(names) => clustering.push(on_tuple(scope, &table, names, relation)?),
            Subject::Field(name, field) => {
                return invalid(format!("field {field} of column {name} cannot be restricted"));
            }
            Subject::Element(name, key) => out.filters.push(on_element(scope, &table, name, key, relation)?),
            Subject::Custom(index) => return invalid(format!("Index {} not found", index.name)),
        }
    }
    out.restricts_clustering = !clustering.is_empty();
    order_clustering(&table, clustering, &mut out)?;
    Ok(out)
}

/// A column may be compared for equality once, or bounded once from each side.
fn check_repeated(table: &Table, relations: &[Relation]) -> Result<()> {
    let tokens = table.partition_key.iter().map(|c| &*c.name).collect::<Vec<_>>().join(", ");
    for (index, later) in relations.iter().enumerate() {
        let earlier = relations[..index].iter();
        let (name, same): (&str, Vec<&Relation>) = match &later.subject {
            Subject::Column(name) if !is_clustering(table, name) => {
                (name, earlier.filter(|r| r.subject == later.subject).collect())
            }
            Subject::Token(_) => {
                (&tokens, earlier.filter(|r| matches!(r.subject, Subject::Token(_))).collect())
            }
            _ => continue,
        };
        let contains = |r: &Relation| matches!(r.operator, Operator::Contains | Operator::ContainsKey);
        let bounds = |r: &Relation| is_range(r.operator);
        for other in same {
            if contains(later) && contains(other) {
                continue;
            }
            if contains(later) || contains(other) {
                return only_contains(name);
            }
            if matches!(later.subject, Subject::Token(_)) && bounds(later) != bounds(other) {
                return invalid(format!(
                    "Columns \"{name}\" cannot be restricted by both an equality and an inequality relation"
                ));
            }
            if !bounds(later) || !bounds(other) {
                return invalid(format!(
                    "{name} cannot be restricted by more than one relation if it includes an Equal"
                ));
            }
            let lower = |r: &Relation| matches!(r.operator, Operator::Greater | Operator::GreaterOrEqual);
            if lower(later) == lower(other) {
                let side = if lower(later) { "start" } else { "end" };
                return invalid(format!(
                    "More than one restriction was found for the {side} bound on {name}"
                ));
            }
        }
    }
    Ok(())
}

fn only_contains(name: &str) -> Result<()> {
    invalid(format!(
        "Collection column {name} can only be restricted by CONTAINS, CONTAINS KEY, or map-entry equality"
    ))
}

fn is_clustering(table: &Table, name: &str) -> bool {
    table.column(name).is_some_and(|column| column.kind == ColumnKind::Clustering)
}

/// A relation written back.
fn relation_text(subject: &str, relation: &Relation) -> String {
    let object = match &relation.object {
        Operand::One(expr) => text_of(expr),
        Operand::Many(items) => format!("({})", items.iter().map(text_of).collect::<Vec<_>>().join(", ")),
        Operand::Nothing => String::new(),
    };
    format!("{subject} {} {object}", symbol(relation.operator))
}

/// The column of a name, or Cassandra's error.
pub(crate) fn column<'t>(table: &'t Table, name: &str) -> Result<&'t Column> {
    match table.column(name).filter(|column| !table.is_hidden(column)) {
        Some(column) => Ok(column),
        None => invalid(format!(
            "Undefined column name {name} in table {}.{}",
            quoted(&table.keyspace),
            quoted(&table.name)
        )),
    }
}

pub(crate) fn symbol(operator: Operator) -> &'static str {
    match operator {
        Operator::Equal => "=",
        Operator::NotEqual => "!=",
        Operator::Less => "<",
        Operator::LessOrEqual => "<=",
        Operator::Greater => ">",
        Operator::GreaterOrEqual => ">=",
        Operator::In => "IN",
        Operator::Contains => "CONTAINS",
        Operator::ContainsKey => "CONTAINS KEY",
        Operator::Like => "LIKE",
        Operator::IsNotNull => "IS NOT NULL",
    }
}

fn is_range(operator: Operator) -> bool {
    matches!(operator, Operator::Less | Operator::LessOrEqual | Operator::Greater | Operator::GreaterOrEqual)
}

fn on_column(
    scope: &mut Scope<'_>,
    table: &Table,
    name: &str,
    relation: &Relation,
    out: &mut Where,
    clustering: &mut Vec<OnClustering>,
) -> Result<()> {
    let column = column(table, name)?;
    let test = column_test(scope, column, relation)?;
    match column.kind {
        ColumnKind::PartitionKey => {
            let values = match test {
                Test::Compare(Operator::Equal, term) => Values::One(term),
                Test::In(values) => values,
                test => {
                    out.filters.push(Filter { column: column.clone(), test });
                    return Ok(());
                }
            };
            let slot = &mut out.keys[column.position as usize];
            if slot.is_some() {
                return invalid(format!(
                    "{name} cannot be restricted by more than one relation if it includes an Equal"
                ));
            }
            *slot = Some(values);
        }
        ColumnKind::Clustering => {
            let what = match &test {
                Test::Compare(Operator::Equal, term) => {
                    What::Fixed(Prefix::Column(Values::One(term.clone())))
                }
                Test::In(values) => What::Fixed(Prefix::Column(values.clone())),
                Test::Compare(operator, term) => {
                    What::Bound(Bound { operator: *operator, row: Row::One(term.clone()) })
                }
                Test::Contains(_) | Test::ContainsKey(_) | Test::Entry(..) | Test::FieldEqual(..) => {
                    What::Other
                }
            };
            let first = column.position as usize;
            clustering.push(OnClustering { first, count: 1, what, filter: Some(test) });
        }
        ColumnKind::Static | ColumnKind::Regular => out.filters.push(Filter { column: column.clone(), test }),
    }
    Ok(())
}

fn column_test(scope: &mut Scope<'_>, column: &Column, relation: &Relation) -> Result<Test> {
    let name = &*column.name;
    let operator = relation.operator;
    let collection = column.ty.is_collection();
    if is_range(operator) {
        refuse_durations(&column.ty)?;
    }
    if column.is_complex()
        && let CqlType::Udt(udt) = &column.ty
    {
        return invalid(format!(
            "Non-frozen UDT column '{name}' ({}) cannot be restricted by any relation",
            udt.name
        ));
    }
    if column.is_complex() && (is_range(operator) || matches!(operator, Operator::Equal | Operator::In)) {
        return invalid(format!(
            "Collection column '{name}' ({}) cannot be restricted by a '{}' relation",
            column.ty,
            symbol(operator)
        ));
    }
    match operator {
        Operator::Equal
        | Operator::Less
        | Operator::LessOrEqual
        | Operator::Greater
        | Operator::GreaterOrEqual => {
            Ok(Test::Compare(operator, scope.term(one(relation)?, name, &column.ty)?))
        }
        Operator::In => Ok(match values(scope, &relation.object, name, &column.ty)? {
            Values::One(term) => Test::Compare(Operator::Equal, term),
            values => Test::In(values),
        }),
        Operator::Contains => match column.ty.element_type() {
            Some(element) if collection => {
                let element = element.clone();
                Ok(Test::Contains(scope.term(one(relation)?, &format!("value({name})"), &element)?))
            }
            _ => invalid(format!("Cannot use CONTAINS on non-collection column {name}")),
        },
        Operator::ContainsKey => match column.ty.unfrozen() {
            CqlType::Map(key, _) => {
                let key = (**key).clone();
                Ok(Test::ContainsKey(scope.term(one(relation)?, &format!("key({name})"), &key)?))
            }
            _ => invalid(format!("Cannot use CONTAINS KEY on non-map column {name}")),
        },
        Operator::NotEqual => {
            invalid(format!("Unsupported \"!=\" relation: {}", relation_text(name, relation)))
        }
        Operator::Like => {
            scope.term(one(relation)?, name, &column.ty)?;
            invalid(format!(
                "LIKE restriction is only supported on properly indexed columns. {} is not valid.",
                relation_text(name, relation)
            ))
        }
        Operator::IsNotNull => invalid(format!("Unsupported restriction: {name} IS NOT NULL")),
    }
}

/// Durations have no order, so nothing with one in it is less or greater.
fn refuse_durations(ty: &CqlType) -> Result<()> {
    if ty.is_orderable() || *ty == CqlType::Counter {
        return Ok(());
    }
    invalid(match ty.unfrozen() {
        CqlType::Duration => "Slice restrictions are not supported on duration columns",
        CqlType::Tuple(_) => "Slice restrictions are not supported on tuples containing durations",
        CqlType::Udt(_) => "Slice restrictions are not supported on UDTs containing durations",
        _ => "Slice restrictions are not supported on collections containing durations",
    })
}

fn one(relation: &Relation) -> Result<&Expr> {
    match &relation.object {
        Operand::One(expr) => Ok(expr),
        Operand::Many(_) | Operand::Nothing => invalid("one value was expected on the right of a relation"),
    }
}

fn values(scope: &mut Scope<'_>, operand: &Operand, name: &str, ty: &CqlType) -> Result<Values> {
    match operand {
        Operand::Many(items) => {
            let terms: Result<Vec<Term>> = items.iter().map(|item| scope.term(item, name, ty)).collect();
            // IN with one value is =, as far as anything depends on it.
            terms.map(|mut terms| match terms.len() {
                1 => Values::One(terms.remove(0)),
                _ => Values::Each(terms),
            })
        }
        Operand::One(expr) => {
            let list = CqlType::list(ty.clone());
            let name = format!("in({name})");
            let term = scope.term(expr, &name, &list)?;
            if let Some(marker) = term.as_marker() {
                scope.bind_values(marker, &name, &list, !ty.is_collection());
            }
            // Elements without an order of their own stay as they come, nulls too: what reads them knows about them.
            Ok(Values::Whole(match term {
                Term::Marker(index, _) if !ty.is_collection() => Term::Marker(index, None),
                term => term,
            }))
        }
        Operand::Nothing => invalid("values were expected after IN"),
    }
}

fn on_token(
    scope: &mut Scope<'_>,
    table: &Table,
    names: &[String],
    relation: &Relation,
) -> Result<TokenBound> {
    let mut columns = Vec::with_capacity(names.len().min(limits::COLUMNS));
    for name in names.iter().take(limits::COLUMNS) {
        columns.push(column(table, name)?);
    }
    let subject = format!("token({})", names.join(", "));
    if relation.operator == Operator::NotEqual {
        return invalid(format!("Unsupported \"!=\" relation: {}", relation_text(&subject, relation)));
    }
    let key: Vec<&str> = table.partition_key.iter().map(|c| &*c.name).collect();
    if key.iter().any(|key| !names.iter().any(|name| name == key)) {
        return invalid(
            "The token() function must be applied to all partition key components or none of them",
        );
    }
    if columns.iter().any(|column| column.kind != ColumnKind::PartitionKey) {
        return invalid("The token() function must contains only partition key components");
    }
    if names.iter().ne(&key) {
        return invalid(format!(
            "The token function arguments must be in the partition key order: {}",
            key.join(", ")
        ));
    }
    let value = scope.term(one(relation)?, "partition key token", &CqlType::Bigint)?;
    Ok(TokenBound { operator: relation.operator, value })
}

fn on_element(
    scope: &mut Scope<'_>,
    table: &Table,
    name: &str,
    key: &Expr,
    relation: &Relation,
) -> Result<Filter> {
    let column = column(table, name)?;
    if relation.operator == Operator::NotEqual {
        let subject = format!("{name}[{}]", text_of(key));
        return invalid(format!("Unsupported \"!=\" relation: {}", relation_text(&subject, relation)));
    }
    let CqlType::Map(key_type, value_type) = column.ty.unfrozen().clone() else {
        return match column.ty.unfrozen() {
            CqlType::List(_) => {
                invalid("Indexes on list entries (l[index] = value) are not currently supported.")
            }
            _ => invalid(format!("Column {name} cannot be used as a map")),
        };
    };
    if !column.is_complex() {
        return invalid(format!(
            "Map-entry equality predicates on frozen map column {name} are not supported"
        ));
    }
    if relation.operator != Operator::Equal {
        return invalid("Only EQ relations are supported on map entries");
    }
    let key = scope.term(key, &format!("key({name})"), &key_type)?;
    let value = scope.term(one(relation)?, &format!("value({name})"), &value_type)?;
    Ok(Filter { column: column.clone(), test: Test::Entry(key, value) })
}

fn on_tuple(
    scope: &mut Scope<'_>,
    table: &Table,
    names: &[String],
    relation: &Relation,
) -> Result<OnClustering> {
    let mut columns: Vec<&Column> = Vec::with_capacity(names.len());
    let spaced = format!("({})", names.join(", "));
    for name in names {
        let column = column(table, name)?;
        if column.kind != ColumnKind::Clustering {
            return invalid(format!(
                "Multi-column relations can only be applied to clustering columns but was applied to: {name}"
            ));
        }
        if columns.iter().any(|c| c.name == column.name) {
            return invalid(format!(
                "Column \"{name}\" appeared twice in a relation: {}",
                relation_text(&spaced, relation)
            ));
        }
        if columns.last().is_some_and(|previous| column.position != previous.position + 1) {
            return invalid(format!(
                "Clustering columns must appear in the PRIMARY KEY order in multi-column relations: {}",
                relation_text(&spaced, relation)
            ));
        }
        columns.push(column);
    }
    let first = columns[0].position as usize;
    let joined = format!("({})", names.join(","));
    let what = match relation.operator {
        Operator::Equal => {
            let row = row(scope, one(relation)?, &columns, &joined)?;
            What::Fixed(Prefix::Columns(columns.len(), vec![row], Nulls::Value))
        }
        Operator::In => match &relation.object {
            Operand::Many(items) => {
                let rows: Result<Vec<Row>> = items.iter().map(|i| row(scope, i, &columns, &joined)).collect();
                let nulls = if items.len() == 1 { Nulls::Value } else { Nulls::Row };
                What::Fixed(Prefix::Columns(columns.len(), rows?, nulls))
            }
            _ => {
                let list = CqlType::list(tuple_type(&columns));
                let term = scope.term(one(relation)?, &format!("in{joined}"), &list)?;
                What::Fixed(Prefix::WholeColumns(columns.len(), term))
            }
        },
        operator if is_range(operator) => {
            What::Bound(Bound { operator, row: row(scope, one(relation)?, &columns, &joined)? })
        }
        Operator::NotEqual => {
            return invalid(format!("Unsupported \"!=\" relation: {}", relation_text(&spaced, relation)));
        }
        operator => {
            return invalid(format!("{} cannot be used with several columns", symbol(operator)));
        }
    };
    Ok(OnClustering { first, count: names.len(), what, filter: None })
}

fn tuple_type(columns: &[&Column]) -> CqlType {
    CqlType::tuple(columns.iter().map(|c| c.ty.clone()).collect())
}

fn row(scope: &mut Scope<'_>, expr: &Expr, columns: &[&Column], joined: &str) -> Result<Row> {
    match expr {
        Expr::Tuple(items) => {
            if items.len() != columns.len() {
                return invalid(format!(
                    "Expected {} elements in value tuple, but got {}: {}",
                    columns.len(),
                    items.len(),
                    text_of(expr)
                ));
            }
            let terms: Result<Vec<Term>> = items
                .iter()
                .zip(columns)
                .map(|(item, column)| scope.term(item, &column.name, &column.ty))
                .collect();
            terms.map(Row::Terms)
        }
        Expr::Marker(_) => Ok(Row::Marker(scope.term(expr, joined, &tuple_type(columns))?, columns.len())),
        _ => invalid(format!("a tuple of {} values was expected, not {}", columns.len(), text_of(expr))),
    }
}

/// Puts clustering restrictions in column order: a prefix of equalities, then inequalities; the rest become filters.
fn order_clustering(table: &Table, mut restrictions: Vec<OnClustering>, out: &mut Where) -> Result<()> {
    restrictions.sort_by_key(|r| r.first);
    check_duplicates(table, &restrictions)?;
    let mut next = 0;
    let mut bounded_at = None;
    for restriction in restrictions {
        let name = &table.clustering[restriction.first].name;
        let usable = match (&restriction.what, bounded_at) {
            (What::Fixed(_), None) => restriction.first == next,
            (What::Bound(_), None) => restriction.first == next,
            (What::Bound(_), Some(at)) => restriction.first == at,
            (What::Fixed(_), Some(_)) | (What::Other, _) => false,
        };
        if usable {
            match restriction.what {
                What::Fixed(prefix) => {
                    next += restriction.count;
                    out.clustering.prefix.push(prefix);
                }
                What::Bound(bound) => {
                    bounded_at = Some(restriction.first);
                    out.clustering.bounds.push(bound);
                }
                What::Other => {}
            }
            continue;
        }
        let Some(test) = restriction.filter else {
            if bounded_at.is_some() && matches!(restriction.what, What::Bound(_)) {
                return two_starts(name);
            }
            if out.gap.is_none() {
                out.gap = Some(gap_text(table, name, restriction.first, next, bounded_at));
            }
            filter_columns(table, &restriction, out);
            continue;
        };
        let bounds_differ = matches!(restriction.what, What::Bound(_))
            && out.clustering.bounds.iter().any(|b| b.row.columns() > 1)
            && bounded_at.is_some_and(|at| at < restriction.first);
        if bounds_differ && overlaps_bound(&out.clustering.bounds, bounded_at, restriction.first) {
            return two_starts(name);
        }
        let is_gap = !matches!(restriction.what, What::Other);
        if is_gap && out.gap.is_none() {
            out.gap = Some(gap_text(table, name, restriction.first, next, bounded_at));
        }
        out.filters.push(Filter { column: table.clustering[restriction.first].clone(), test });
    }
    Ok(())
}

fn two_starts(name: &str) -> Result<()> {
    invalid(format!(
        "Column \"{name}\" cannot be restricted by two inequalities not starting with the same column"
    ))
}

/// Whether a bound of several columns reaches as far as a column.
fn overlaps_bound(bounds: &[Bound], bounded_at: Option<usize>, column: usize) -> bool {
    bounds.iter().any(|bound| bounded_at.is_some_and(|at| column < at + bound.row.columns()))
}

/// A relation of several columns that no slice serves: equality is one filter for each of them, the rest cannot be.
fn filter_columns(table: &Table, restriction: &OnClustering, out: &mut Where) {
    let columns = &table.clustering[restriction.first..restriction.first + restriction.count];
    let rows = match &restriction.what {
        What::Fixed(Prefix::Columns(_, rows, _)) => &rows[..],
        What::Fixed(_) => &[],
        What::Bound(_) | What::Other => {
            out.no_filter = Some("Multi-column slice restrictions cannot be used for filtering.");
            return;
        }
    };
    let [row] = rows else {
        out.no_filter = Some("Multicolumn IN filters are not supported");
        return;
    };
    for (index, column) in columns.iter().enumerate() {
        let test = match row {
            Row::One(term) => Test::Compare(Operator::Equal, term.clone()),
            Row::Terms(terms) => Test::Compare(Operator::Equal, terms[index].clone()),
            Row::Marker(term, _) => Test::FieldEqual(term.clone(), index),
        };
        out.filters.push(Filter { column: column.clone(), test });
    }
}

fn gap_text(table: &Table, name: &str, index: usize, next: usize, bounded_at: Option<usize>) -> String {
    match bounded_at {
        Some(at) if index > at => format!(
            "Clustering column \"{name}\" cannot be restricted (preceding column \"{}\" is restricted by a non-EQ relation)",
            table.clustering[at].name
        ),
        _ => format!(
            "PRIMARY KEY column \"{name}\" cannot be restricted as preceding column \"{}\" is not restricted",
            table.clustering[next.min(table.clustering.len() - 1)].name
        ),
    }
}

fn check_duplicates(table: &Table, restrictions: &[OnClustering]) -> Result<()> {
    for (index, a) in restrictions.iter().enumerate() {
        for b in &restrictions[index + 1..] {
            let overlap = b.first < a.first + a.count && a.first < b.first + b.count;
            if !overlap {
                continue;
            }
            let name = &table.clustering[b.first].name;
            match (&a.what, &b.what) {
                (What::Other, What::Other) => {}
                (What::Other, _) | (_, What::Other) => return only_contains(name),
                (What::Fixed(_), _) | (_, What::Fixed(_)) => {
                    return invalid(format!(
                        "{name} cannot be restricted by more than one relation if it includes an Equal"
                    ));
                }
                (What::Bound(x), What::Bound(y)) => {
                    let lower =
                        |b: &Bound| matches!(b.operator, Operator::Greater | Operator::GreaterOrEqual);
                    if lower(x) == lower(y) {
                        let side = if lower(x) { "start" } else { "end" };
                        return invalid(format!(
                            "More than one restriction was found for the {side} bound on {name}"
                        ));
                    }
                }
            }
        }
    }
    Ok(())
}
