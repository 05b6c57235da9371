//! SELECT, analysed: what is read, how rows pass, in which groups and order they come, what is returned.

use crate::aggregate::Aggregate;
use crate::ast::Operator;
use crate::ast::{Expr, OrderTarget, Select};
use crate::error::{Result, invalid};
use crate::restriction::{Clustering, Filter, Test, TokenBound, Values};
use crate::row::Fetches;
use crate::select_clause::{Clause, grouping_function};
use crate::selector::Selector;
use crate::term::{Scope, Term};
use crate::value::BindSpec;
use crate::where_clause::{self, NEEDS_FILTERING, Where};
use base::HashMap;
use schema::{Column, ColumnKind, Order, Table};
use std::sync::Arc;
use types::CqlType;

pub(crate) use crate::expr_text::text_of;

/// One column of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResultColumn {
    /// Keyspace of the table.
    pub keyspace: Arc<str>,
    /// Table.
    pub table: Arc<str>,
    /// The alias, the column or the text of the expression.
    pub name: Arc<str>,
    /// Type of its values.
    pub ty: CqlType,
}

/// GROUP BY: rows of one partition that agree in what follows are one group.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Grouping {
    /// How many clustering columns from the first on.
    pub columns: usize,
    /// A function of the column behind them.
    pub function: Option<Selector>,
}

/// One column that rows of several partitions are sorted by.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SortColumn {
    /// Its place in what is fetched.
    pub fetch: usize,
    pub ty: CqlType,
    pub descending: bool,
}

/// A SELECT, ready to be bound. [`SelectPlan::start`] runs it.
#[derive(Debug, Clone, PartialEq)]
pub struct SelectPlan {
    pub(crate) table: Arc<Table>,
    pub(crate) binds: Arc<[BindSpec]>,
    pub(crate) columns: Arc<[ResultColumn]>,
    /// SELECT JSON: the columns that each row's object is made of.
    pub(crate) json: Option<Vec<ResultColumn>>,
    pub(crate) fetches: Fetches,
    pub(crate) selectors: Vec<Selector>,
    pub(crate) aggregates: Vec<Aggregate>,
    pub(crate) grouping: Option<Grouping>,
    /// Values of the whole partition key; otherwise a scan of `tokens`.
    pub(crate) keys: Option<Vec<Values>>,
    pub(crate) tokens: Vec<TokenBound>,
    /// Whether some component of the partition key, or the token, is restricted.
    pub(crate) restricts_partition: bool,
    pub(crate) clustering: Clustering,
    /// With the places of their columns.
    pub(crate) filters: Vec<(usize, Filter)>,
    pub(crate) reversed: bool,
    /// ORDER BY with IN on the partition key: what rows of several partitions are sorted by.
    pub(crate) sort: Vec<SortColumn>,
    pub(crate) distinct: bool,
    pub(crate) static_counts: bool,
    pub(crate) limit: Option<Term>,
    pub(crate) partition_limit: Option<Term>,
    pub(crate) timeout: Option<Term>,
    /// Whether rows need more than the fetched values.
    pub(crate) evaluates_terms: bool,
}

impl SelectPlan {
    /// The table read.
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// What each row holds.
    pub fn columns(&self) -> &Arc<[ResultColumn]> {
        &self.columns
    }

    /// Whether it reads by partition key rather than scanning a token range.
    pub fn is_by_key(&self) -> bool {
        self.keys.is_some()
    }

    /// Whether IN stands on a component of the partition key.
    pub fn is_by_several_keys(&self) -> bool {
        self.keys.iter().flatten().any(|values| !matches!(values, Values::One(_)))
    }

    /// Whether WHERE says something about the partition key or its token.
    pub fn restricts_partition(&self) -> bool {
        self.restricts_partition
    }

    /// Whether rows of the answer stand for many rows read: aggregates, GROUP BY.
    pub fn is_aggregate(&self) -> bool {
        !self.aggregates.is_empty() || self.grouping.is_some()
    }

    /// Whether the answer is one row over all rows read.
    pub(crate) fn is_one_row(&self) -> bool {
        !self.aggregates.is_empty() && self.grouping.is_none()
    }

    pub(crate) fn set_binds(&mut self, binds: &Arc<[BindSpec]>) {
        self.binds = binds.clone();
    }

    pub(crate) fn key_markers(&self) -> Vec<u16> {
        self.keys.as_deref().map(crate::modify::key_markers).unwrap_or_default()
    }
}

/// Analyses SELECT.
pub(crate) fn select(scope: &mut Scope<'_>, select: &Select) -> Result<SelectPlan> {
    let table = scope.table.clone();
    let mut fetches = Fetches::new(&table);
    let clause_of = Clause::analyse(scope, &mut fetches, select)?;
    let clause = where_clause::analyse(scope, &select.relations)?;
    let restricted = clause.restricts_clustering;
    if restricted && selects_only_statics(&clause_of) {
        if clause.has_partial_key() && !select.allow_filtering {
            return invalid(NEEDS_FILTERING);
        }
        return invalid("Cannot restrict clustering columns when selecting only static columns");
    }
    let by_key = clause.keys.iter().all(Option::is_some);
    let grouping = grouping(scope, &mut fetches, select, &clause)?;
    let (reversed, order) = ordering(&table, select, by_key, &clause)?;
    if select.distinct {
        check_distinct(&table, select, &clause_of, &clause, by_key)?;
    }
    if select.per_partition_limit.is_some() && !clause_of.aggregates.is_empty() && grouping.is_none() {
        return invalid("PER PARTITION LIMIT is not allowed with aggregate queries.");
    }
    check_filtering(select, &clause, by_key)?;
    let (keys, filters) = split_filters(&table, &clause, by_key);
    let filters = filters.into_iter().map(|f| (fetches.place(&f.column), f)).collect();
    let several = keys.iter().flatten().any(|values| !matches!(values, Values::One(_)));
    let sort = if several { sort_columns(&mut fetches, order) } else { Vec::new() };
    let mut int = |expr: &Option<Expr>, name: &str| -> Result<Option<Term>> {
        expr.as_ref().map(|e| scope.term(e, name, &CqlType::Int)).transpose()
    };
    let partition_limit = int(&select.per_partition_limit, "[per_partition_limit]")?;
    let limit = int(&select.limit, "[limit]")?;
    if select.using.timestamp.is_some() || select.using.ttl.is_some() {
        return invalid("only TIMEOUT may stand after USING in SELECT");
    }
    let timeout = &select.using.timeout;
    let timeout = timeout.as_ref().map(|e| scope.term(e, "[timeout]", &CqlType::Duration)).transpose()?;
    let restricts_partition = !clause.tokens.is_empty() || clause.keys.iter().any(Option::is_some);
    let (columns, json) = result_columns(&table, select.json, clause_of.columns);
    let evaluates_terms = !clause_of.selectors.iter().all(is_plain)
        || grouping.as_ref().is_some_and(|grouping| grouping.function.is_some())
        || !clause_of.aggregates.iter().all(|aggregate| aggregate.argument.as_ref().is_none_or(is_plain));
    Ok(SelectPlan {
        evaluates_terms,
        binds: Arc::new([]),
        columns,
        json,
        fetches,
        selectors: clause_of.selectors,
        aggregates: clause_of.aggregates,
        grouping,
        keys,
        tokens: clause.tokens,
        restricts_partition,
        clustering: clause.clustering,
        filters,
        reversed,
        sort,
        distinct: select.distinct,
        static_counts: !table.statics.is_empty() && !restricted,
        limit,
        partition_limit,
        timeout,
        table,
    })
}

/// Whether all of what is selected belongs to whole partitions, some of it in static columns.
fn selects_only_statics(clause: &Clause) -> bool {
    let of = |kind| clause.selected.iter().any(|column: &Column| column.kind == kind);
    of(ColumnKind::Static) && !of(ColumnKind::Clustering) && !of(ColumnKind::Regular)
}

/// Whether what is selected is a fetched value or what an aggregate came to.
fn is_plain(selector: &Selector) -> bool {
    matches!(selector, Selector::Fetch(_) | Selector::Aggregate(_))
}

/// The columns of the result and, for SELECT JSON, those that its only column is made of.
fn result_columns(
    table: &Table,
    json: bool,
    columns: Vec<ResultColumn>,
) -> (Arc<[ResultColumn]>, Option<Vec<ResultColumn>>) {
    if !json {
        return (columns.into(), None);
    }
    let (keyspace, table) = (table.keyspace.clone(), table.name.clone());
    let only = ResultColumn { keyspace, table, name: "[json]".into(), ty: CqlType::Text };
    (Arc::new([only]), Some(columns))
}

/// Whether what is asked for can be read without passing over what is not.
fn check_filtering(select: &Select, clause: &Where, by_key: bool) -> Result<()> {
    if select.allow_filtering {
        return clause.no_filter.map_or(Ok(()), invalid);
    }
    if clause.has_partial_key() || clause.filters.iter().any(|f| f.column.kind != ColumnKind::Clustering) {
        return invalid(NEEDS_FILTERING);
    }
    let contains = |filter: &Filter| matches!(filter.test, Test::Contains(_) | Test::ContainsKey(_));
    if clause.filters.iter().any(contains) {
        return invalid(
            "Clustering columns can only be restricted with CONTAINS with a secondary index or filtering",
        );
    }
    if let Some(gap) = &clause.gap {
        return invalid(gap.clone());
    }
    if !clause.filters.is_empty() || (clause.restricts_clustering && !by_key) {
        return invalid(NEEDS_FILTERING);
    }
    Ok(())
}

/// The keys to read, or, when not every component is known, filters that stand for those that are.
fn split_filters(table: &Table, clause: &Where, by_key: bool) -> (Option<Vec<Values>>, Vec<Filter>) {
    let mut filters = clause.filters.clone();
    if by_key {
        return (clause.whole_key(), filters);
    }
    for (column, values) in table.partition_key.iter().zip(&clause.keys) {
        let test = match values {
            None => continue,
            Some(Values::One(term)) => Test::Compare(Operator::Equal, term.clone()),
            Some(values) => Test::In(values.clone()),
        };
        filters.push(Filter { column: column.clone(), test });
    }
    (None, filters)
}

/// What GROUP BY says: columns of the primary key in their order, those that are fixed left out or not; a function last.
fn grouping(
    scope: &mut Scope<'_>,
    fetches: &mut Fetches,
    select: &Select,
    clause: &Where,
) -> Result<Option<Grouping>> {
    if select.group_by.is_empty() {
        return Ok(None);
    }
    let table = scope.table.clone();
    let keys = table.partition_key.len();
    let fixed = |at: usize| match at.checked_sub(keys) {
        None => matches!(clause.keys[at], Some(Values::One(_))),
        Some(at) => clause.fixes_one(at),
    };
    let mut grouping = Grouping::default();
    let mut next = 0;
    for expr in &select.group_by {
        if grouping.function.is_some() {
            return invalid("Functions are only supported on the last element of the GROUP BY clause");
        }
        let column = match expr {
            Expr::Column(name) => where_clause::column(&table, name)?.clone(),
            Expr::Call { .. } => {
                let (selector, column) = grouped_by_function(scope, fetches, expr)?;
                grouping.function = Some(selector);
                column
            }
            other => return not_a_key(&text_of(other)),
        };
        let at = match column.kind {
            ColumnKind::PartitionKey => column.position as usize,
            ColumnKind::Clustering => keys + column.position as usize,
            ColumnKind::Static | ColumnKind::Regular => return not_a_key(&column.name),
        };
        while next < at && fixed(next) {
            next += 1;
        }
        if next != at {
            return invalid(
                "Group by currently only support groups of columns following their declared order in the PRIMARY KEY",
            );
        }
        next += 1;
    }
    if next < keys {
        return invalid("Group by is not supported on only a part of the partition key");
    }
    if select.distinct && next > keys {
        return invalid("Grouping on clustering columns is not allowed for SELECT DISTINCT queries");
    }
    grouping.columns = next - keys - usize::from(grouping.function.is_some());
    Ok(Some(grouping))
}

fn not_a_key<T>(what: &str) -> Result<T> {
    invalid(format!("Group by is currently only supported on the columns of the PRIMARY KEY, got {what}"))
}

/// A function in GROUP BY and the clustering column it is of.
fn grouped_by_function(
    scope: &mut Scope<'_>,
    fetches: &mut Fetches,
    expr: &Expr,
) -> Result<(Selector, Column)> {
    let (selector, mut columns) = grouping_function(scope, fetches, expr)?;
    columns.dedup();
    match &columns[..] {
        [column] if column.kind == ColumnKind::Clustering => Ok((selector, column.clone())),
        _ => {
            let names: Vec<&str> = columns.iter().map(|c| &*c.name).collect();
            invalid(format!(
                "Group by functions are only supported on clustering columns, got {}",
                names.join(", ")
            ))
        }
    }
}

/// Whether rows come in reverse, and the columns an order was asked for, with whether each descends.
fn ordering<'t>(
    table: &'t Table,
    select: &Select,
    by_key: bool,
    clause: &Where,
) -> Result<(bool, Vec<(&'t Column, bool)>)> {
    let mut reversed = None;
    let mut next = 0;
    let mut order: Vec<(&Column, bool)> = Vec::new();
    // Of a column named twice the last direction counts, at the place of the first.
    let mut named: Vec<(&OrderTarget, bool)> = Vec::new();
    let mut places: HashMap<&str, usize> = HashMap::default();
    for (target, descending) in &select.order_by {
        let (OrderTarget::Column(name) | OrderTarget::Nearest(name, _)) = target;
        match places.get(name.as_str()) {
            Some(place) => named[*place] = (target, *descending),
            None => {
                places.insert(name, named.len());
                named.push((target, *descending));
            }
        }
    }
    for (target, descending) in &named {
        let name = match target {
            OrderTarget::Column(name) => name,
            OrderTarget::Nearest(name, _) => {
                let column = where_clause::column(table, name)?;
                return invalid(match column.ty {
                    CqlType::Vector(..) => {
                        "ANN ordering by vector requires the column to be indexed".to_string()
                    }
                    _ => format!("ANN ordering is only supported on float vector indexes, got {name}"),
                });
            }
        };
        let column = where_clause::column(table, name)?;
        if !by_key {
            return invalid(
                "ORDER BY is only supported when the partition key is restricted by an EQ or an IN.",
            );
        }
        if column.kind != ColumnKind::Clustering {
            return invalid(format!(
                "Order by is currently only supported on the clustered columns of the PRIMARY KEY, got {name}"
            ));
        }
        // Columns that can have one value only may be left out.
        while next < column.position as usize && clause.fixes_one(next) {
            next += 1;
        }
        if column.position as usize != next {
            return invalid(
                "Order by currently only supports the ordering of columns following their declared order in the PRIMARY KEY",
            );
        }
        let against = *descending != (column.order == Order::Descending);
        if reversed.is_some_and(|r| r != against) {
            return invalid("Unsupported order by relation");
        }
        reversed = Some(against);
        order.push((column, *descending));
        next += 1;
    }
    Ok((reversed.unwrap_or(false), order))
}

fn sort_columns(fetches: &mut Fetches, order: Vec<(&Column, bool)>) -> Vec<SortColumn> {
    let place = |(column, descending): (&Column, bool)| SortColumn {
        fetch: fetches.place(column),
        ty: column.ty.clone(),
        descending,
    };
    order.into_iter().map(place).collect()
}

fn check_distinct(
    table: &Table,
    select: &Select,
    clause_of: &Clause,
    clause: &Where,
    by_key: bool,
) -> Result<()> {
    if select.per_partition_limit.is_some() {
        return invalid("PER PARTITION LIMIT is not allowed with SELECT DISTINCT queries");
    }
    if clause.restricts_clustering || clause.filters.iter().any(|f| f.column.kind == ColumnKind::Regular) {
        return invalid(
            "SELECT DISTINCT with WHERE clause only supports restriction by partition key and/or static columns.",
        );
    }
    let plain = |c: &&Column| matches!(c.kind, ColumnKind::PartitionKey | ColumnKind::Static);
    if let Some(other) = clause_of.selected.iter().find(|c| !plain(c)) {
        return invalid(format!(
            "SELECT DISTINCT queries must only request partition key columns and/or static columns (not {})",
            other.name
        ));
    }
    // Partitions that WHERE names are told apart already.
    for column in table.partition_key.iter().filter(|_| !by_key) {
        if !clause_of.selected.iter().any(|c| c.name == column.name) {
            return invalid(format!(
                "SELECT DISTINCT queries must request all the partition key columns (missing {})",
                column.name
            ));
        }
    }
    Ok(())
}
