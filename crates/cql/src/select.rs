//! SELECT, analysed: what is read, how rows pass, what is returned.

use crate::ast::Operator;
use crate::ast::{Expr, OrderTarget, Select};
use crate::error::{Result, invalid, unsupported};
use crate::function;
use crate::names;
use crate::restriction::{Clustering, Filter, Test, TokenBound, Values};
use crate::row::Fetches;
use crate::selector::{Aggregate, AggregateKind, Selector};
use crate::term::{Scope, Term};
use crate::value::BindSpec;
use crate::where_clause::{self, NEEDS_FILTERING, Where};
use schema::{Column, ColumnKind, Order, Table};
use std::sync::Arc;
use types::CqlType;

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

/// A SELECT, ready to be bound. [`SelectPlan::start`] runs it.
#[derive(Debug, Clone, PartialEq)]
pub struct SelectPlan {
    pub(crate) table: Arc<Table>,
    pub(crate) binds: Arc<[BindSpec]>,
    pub(crate) columns: Arc<[ResultColumn]>,
    pub(crate) fetches: Fetches,
    pub(crate) selectors: Vec<Selector>,
    pub(crate) aggregates: Vec<Aggregate>,
    /// Values of the whole partition key; otherwise a scan of `tokens`.
    pub(crate) keys: Option<Vec<Values>>,
    pub(crate) tokens: Vec<TokenBound>,
    pub(crate) clustering: Clustering,
    /// With the places of their columns.
    pub(crate) filters: Vec<(usize, Filter)>,
    pub(crate) reversed: bool,
    pub(crate) ordered: bool,
    pub(crate) distinct: bool,
    pub(crate) static_counts: bool,
    pub(crate) limit: Option<Term>,
    pub(crate) partition_limit: Option<Term>,
    pub(crate) timeout: Option<Term>,
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

    /// Whether the answer is one row over all rows read.
    pub fn is_aggregate(&self) -> bool {
        !self.aggregates.is_empty()
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
    if select.json {
        return unsupported("SELECT JSON");
    }
    if !select.group_by.is_empty() {
        return unsupported("GROUP BY");
    }
    let table = scope.table.clone();
    let mut fetches = Fetches::new(&table);
    let clause_of = Clause::analyse(scope, &table, &mut fetches, select)?;
    let clause = where_clause::analyse(scope, &select.relations)?;
    let restricted = clause.restricts_clustering;
    let by_key = clause.keys.iter().all(Option::is_some);
    let (reversed, ordered) = ordering(&table, select, by_key, &clause.clustering)?;
    if select.distinct {
        check_distinct(&table, &clause_of, &clause)?;
    }
    check_filtering(select, &clause, by_key)?;
    let (keys, filters) = split_filters(&table, &clause, by_key);
    let filters = filters.into_iter().map(|f| (fetches.place(&f.column), f)).collect();
    let mut int = |expr: &Option<Expr>, name: &str| -> Result<Option<Term>> {
        expr.as_ref().map(|e| scope.term(e, name, &CqlType::Int)).transpose()
    };
    let partition_limit = int(&select.per_partition_limit, "[per_partition_limit]")?;
    let limit = int(&select.limit, "[limit]")?;
    if select.distinct && partition_limit.is_some() {
        return invalid("PER PARTITION LIMIT is not allowed with SELECT DISTINCT queries");
    }
    if select.using.timestamp.is_some() || select.using.ttl.is_some() {
        return invalid("only TIMEOUT may stand after USING in SELECT");
    }
    let timeout = &select.using.timeout;
    let timeout = timeout.as_ref().map(|e| scope.term(e, "[timeout]", &CqlType::Duration)).transpose()?;
    Ok(SelectPlan {
        binds: Arc::new([]),
        columns: clause_of.columns.into(),
        fetches,
        selectors: clause_of.selectors,
        aggregates: clause_of.aggregates,
        keys,
        tokens: clause.tokens,
        clustering: clause.clustering,
        filters,
        reversed,
        ordered,
        distinct: select.distinct,
        static_counts: !table.statics.is_empty() && !restricted,
        limit,
        partition_limit,
        timeout,
        table,
    })
}

/// Whether what is asked for can be read without passing over what is not.
fn check_filtering(select: &Select, clause: &Where, by_key: bool) -> Result<()> {
    if select.allow_filtering {
        return Ok(());
    }
    if clause.has_partial_key() || clause.filters.iter().any(|f| f.column.kind != ColumnKind::Clustering) {
        return invalid(NEEDS_FILTERING);
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

/// Whether rows come in reverse, and whether an order was asked for.
fn ordering(table: &Table, select: &Select, by_key: bool, clustering: &Clustering) -> Result<(bool, bool)> {
    let mut reversed = None;
    let mut next = 0;
    for (target, descending) in &select.order_by {
        let name = match target {
            OrderTarget::Column(name) => name,
            OrderTarget::Nearest(..) => return unsupported("ORDER BY … ANN OF"),
        };
        if !by_key {
            return invalid(
                "ORDER BY is only supported when the partition key is restricted by an EQ or an IN.",
            );
        }
        let column = where_clause::column(table, name)?;
        if column.kind != ColumnKind::Clustering {
            return invalid(format!(
                "Order by is currently only supported on the clustered columns of the PRIMARY KEY, got {name}"
            ));
        }
        // Columns that can have one value only may be left out.
        while next < column.position as usize && clustering.fixes_one(next) {
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
        next += 1;
    }
    if select.distinct && reversed.is_some() {
        return invalid("ORDER BY is not allowed with SELECT DISTINCT queries");
    }
    Ok((reversed.unwrap_or(false), reversed.is_some()))
}

fn check_distinct(table: &Table, clause_of: &Clause, clause: &Where) -> Result<()> {
    if clause.restricts_clustering || clause.filters.iter().any(|f| f.column.kind == ColumnKind::Regular) {
        return invalid(
            "SELECT DISTINCT with WHERE clause only supports restriction by partition key and/or static columns.",
        );
    }
    if !clause_of.aggregates.is_empty() {
        return unsupported("aggregates with SELECT DISTINCT");
    }
    let plain = |c: &&Column| matches!(c.kind, ColumnKind::PartitionKey | ColumnKind::Static);
    if let Some(other) = clause_of.selected.iter().find(|c| !plain(c)) {
        return invalid(format!(
            "SELECT DISTINCT queries must only request partition key columns and/or static columns (not {})",
            other.name
        ));
    }
    for column in &table.partition_key {
        if !clause_of.selected.iter().any(|c| c.name == column.name) {
            return invalid(format!(
                "SELECT DISTINCT queries must request all the partition key columns (missing {})",
                column.name
            ));
        }
    }
    Ok(())
}

/// The SELECT clause, analysed.
struct Clause {
    columns: Vec<ResultColumn>,
    selectors: Vec<Selector>,
    aggregates: Vec<Aggregate>,
    /// Columns any selector looks at.
    selected: Vec<Column>,
}

impl Clause {
    fn analyse(
        scope: &mut Scope<'_>,
        table: &Table,
        fetches: &mut Fetches,
        select: &Select,
    ) -> Result<Clause> {
        let mut clause = Clause {
            columns: Vec::new(),
            selectors: Vec::new(),
            aggregates: Vec::new(),
            selected: Vec::new(),
        };
        if select.selectors.is_empty() {
            for column in table.columns() {
                let selector = Selector::Fetch(fetches.place(column));
                clause.push(table, &column.name, column.ty.clone(), selector);
                clause.selected.push(column.clone());
            }
            return Ok(clause);
        }
        for (expr, alias) in &select.selectors {
            let (selector, ty) = clause.selector(scope, table, fetches, expr)?;
            let name = alias.clone().unwrap_or_else(|| text_of(expr));
            clause.push(table, &name, ty, selector);
        }
        Ok(clause)
    }

    fn push(&mut self, table: &Table, name: &str, ty: CqlType, selector: Selector) {
        let (keyspace, table) = (table.keyspace.clone(), table.name.clone());
        self.columns.push(ResultColumn { keyspace, table, name: name.into(), ty });
        self.selectors.push(selector);
    }

    fn selector(
        &mut self,
        scope: &mut Scope<'_>,
        table: &Table,
        fetches: &mut Fetches,
        expr: &Expr,
    ) -> Result<(Selector, CqlType)> {
        match expr {
            Expr::Column(name) => {
                let column = where_clause::column(table, name)?;
                self.selected.push(column.clone());
                Ok((Selector::Fetch(fetches.place(column)), column.ty.clone()))
            }
            Expr::CountRows => {
                let ty = CqlType::Bigint;
                Ok((self.aggregate(AggregateKind::CountRows, None, ty.clone()), ty))
            }
            Expr::Call { function, arguments } => self.call(scope, table, fetches, &function.name, arguments),
            Expr::Cast(inner, written) => {
                let (inner, from) = self.plain_selector(scope, table, fetches, inner)?;
                let to = names::resolve_type(written, scope.keyspace)?;
                let function = function::cast(&from, &to)?;
                Ok((Selector::Call(Box::new(function), vec![inner]), to))
            }
            Expr::Field(inner, field) => self.field(scope, table, fetches, (inner, field)),
            Expr::Element(inner, key) => self.element(scope, table, fetches, (inner, key)),
            Expr::TypeHint(_, inner) if matches!(**inner, Expr::Column(_)) => {
                unsupported("a type in front of a column in SELECT")
            }
            Expr::TypeHint(written, inner) => {
                let ty = names::resolve_type(written, scope.keyspace)?;
                let term = scope.term(inner, &text_of(inner), &ty)?;
                Ok((Selector::Term(term), ty))
            }
            Expr::Slice(..) => unsupported("collection slices in SELECT"),
            Expr::Arithmetic(..) | Expr::Negate(_) => unsupported("arithmetic"),
            Expr::Null
            | Expr::Boolean(_)
            | Expr::Integer(_)
            | Expr::Float(_)
            | Expr::Text(_)
            | Expr::Uuid(_)
            | Expr::Hex(_)
            | Expr::Duration(_)
            | Expr::Marker(_)
            | Expr::List(_)
            | Expr::Set(_)
            | Expr::Map(_)
            | Expr::Udt(_)
            | Expr::Tuple(_) => invalid(format!(
                "Cannot infer type for term {} in selection clause (try using a cast to force a type)",
                text_of(expr)
            )),
        }
    }

    fn field(
        &mut self,
        scope: &mut Scope<'_>,
        table: &Table,
        fetches: &mut Fetches,
        (of, field): (&Expr, &str),
    ) -> Result<(Selector, CqlType)> {
        let (inner, ty) = self.plain_selector(scope, table, fetches, of)?;
        let CqlType::Udt(udt) = ty.unfrozen() else {
            return invalid(format!(
                "Invalid field selection: {} of type {ty} is not a user type",
                text_of(of)
            ));
        };
        match udt.fields.iter().position(|(name, _)| **name == *field) {
            Some(index) => {
                let field_type = udt.fields[index].1.clone();
                Ok((Selector::Field(Box::new(inner), index), field_type))
            }
            None => invalid(format!("{} of type {ty} has no field {field}", text_of(of))),
        }
    }

    fn element(
        &mut self,
        scope: &mut Scope<'_>,
        table: &Table,
        fetches: &mut Fetches,
        (of, key): (&Expr, &Expr),
    ) -> Result<(Selector, CqlType)> {
        let (inner, ty) = self.plain_selector(scope, table, fetches, of)?;
        let (key_type, value_type) = match ty.unfrozen() {
            CqlType::Map(k, v) => ((**k).clone(), (**v).clone()),
            CqlType::Set(e) => ((**e).clone(), (**e).clone()),
            _ => {
                return invalid(format!(
                    "Invalid element selection: {} is of type {ty} is not a collection",
                    text_of(of)
                ));
            }
        };
        let key = scope.term(key, &format!("key({})", text_of(of)), &key_type)?;
        Ok((Selector::Element(Box::new(inner), ty, key), value_type))
    }

    /// A selector that something else is computed from, which an aggregate cannot be yet.
    fn plain_selector(
        &mut self,
        scope: &mut Scope<'_>,
        table: &Table,
        fetches: &mut Fetches,
        expr: &Expr,
    ) -> Result<(Selector, CqlType)> {
        let before = self.aggregates.len();
        let found = self.selector(scope, table, fetches, expr)?;
        if self.aggregates.len() != before {
            return unsupported("functions of aggregates");
        }
        Ok(found)
    }

    fn aggregate(&mut self, kind: AggregateKind, argument: Option<Selector>, ty: CqlType) -> Selector {
        self.aggregates.push(Aggregate { kind, argument, ty });
        Selector::Aggregate(self.aggregates.len() - 1)
    }

    fn call(
        &mut self,
        scope: &mut Scope<'_>,
        table: &Table,
        fetches: &mut Fetches,
        name: &str,
        arguments: &[Expr],
    ) -> Result<(Selector, CqlType)> {
        if matches!(name, "writetime" | "ttl" | "maxwritetime") {
            return self.cell_times(table, fetches, name, arguments);
        }
        if let (Some(kind), [argument]) = (AggregateKind::of_name(name), arguments) {
            let before = self.aggregates.len();
            let (argument, ty) = self.selector(scope, table, fetches, argument)?;
            if self.aggregates.len() != before {
                return invalid("aggregate functions cannot be used as arguments of aggregate functions");
            }
            let result = kind.result_type(name, &ty)?;
            return Ok((self.aggregate(kind, Some(argument), ty), result));
        }
        let mut selectors = Vec::with_capacity(arguments.len());
        let mut known = Vec::with_capacity(arguments.len());
        let before = self.aggregates.len();
        let literals = function::resolve(name, &vec![None; arguments.len()], table).ok();
        for (index, argument) in arguments.iter().enumerate() {
            let wanted = literals.as_ref().and_then(|f| f.arguments.get(index));
            let is_value = !matches!(
                argument,
                Expr::Column(_)
                    | Expr::Call { .. }
                    | Expr::Cast(..)
                    | Expr::Field(..)
                    | Expr::Element(..)
                    | Expr::TypeHint(..)
            );
            if let (true, Some(ty)) = (is_value, wanted) {
                selectors.push(Selector::Term(scope.term(argument, &format!("arg{index}({name})"), ty)?));
                known.push(Some(ty.clone()));
                continue;
            }
            let (selector, ty) = self.selector(scope, table, fetches, argument)?;
            selectors.push(selector);
            known.push(Some(ty));
        }
        if self.aggregates.len() != before {
            return unsupported("functions of aggregates");
        }
        let function = function::resolve(name, &known, table)?;
        let ty = function.returns.clone();
        Ok((Selector::Call(Box::new(function), selectors), ty))
    }

    fn cell_times(
        &mut self,
        table: &Table,
        fetches: &mut Fetches,
        name: &str,
        arguments: &[Expr],
    ) -> Result<(Selector, CqlType)> {
        let [Expr::Column(column)] = arguments else {
            return invalid(format!("Cannot use selection function {name} on anything but a column"));
        };
        let column = where_clause::column(table, column)?;
        if column.is_key() {
            return invalid(format!(
                "Cannot use selection function {name} on PRIMARY KEY part {}",
                column.name
            ));
        }
        if column.is_complex() {
            return unsupported("writetime and ttl of non-frozen collections");
        }
        self.selected.push(column.clone());
        let index = fetches.place(column);
        Ok(match name {
            "ttl" => (Selector::Ttl(index), CqlType::Int),
            _ => (Selector::Writetime(index), CqlType::Bigint),
        })
    }
}

/// How Cassandra names a result column.
fn text_of(expr: &Expr) -> String {
    let list = |items: &[Expr]| items.iter().map(text_of).collect::<Vec<_>>().join(", ");
    match expr {
        Expr::Column(name) => name.clone(),
        Expr::CountRows => "count".to_string(),
        Expr::Call { function, arguments } => {
            let special = matches!(function.name.as_str(), "writetime" | "ttl" | "maxwritetime");
            let prefix = match &function.keyspace {
                Some(keyspace) => format!("{keyspace}."),
                None if special => String::new(),
                None => "system.".to_string(),
            };
            format!("{prefix}{}({})", function.name, list(arguments))
        }
        Expr::Cast(inner, ty) => format!("cast({} as {})", text_of(inner), type_text(ty)),
        Expr::TypeHint(ty, inner) => format!("({}){}", type_text(ty), text_of(inner)),
        Expr::Field(inner, field) => format!("{}.{field}", text_of(inner)),
        Expr::Element(inner, key) => format!("{}[{}]", text_of(inner), text_of(key)),
        Expr::Text(text) => types::text::quote(text),
        Expr::Integer(text) | Expr::Float(text) | Expr::Duration(text) => text.clone(),
        Expr::Boolean(value) => value.to_string(),
        Expr::Uuid(value) => uuid::Uuid::from_u128(*value).to_string(),
        Expr::Hex(digits) => format!("0x{digits}"),
        Expr::Null => "null".to_string(),
        Expr::Marker(_) => "?".to_string(),
        Expr::List(items) => format!("[{}]", list(items)),
        Expr::Set(items) => format!("{{{}}}", list(items)),
        Expr::Tuple(items) => format!("({})", list(items)),
        Expr::Map(pairs) => {
            let pairs: Vec<String> =
                pairs.iter().map(|(k, v)| format!("{}: {}", text_of(k), text_of(v))).collect();
            format!("{{{}}}", pairs.join(", "))
        }
        Expr::Udt(fields) => {
            let fields: Vec<String> = fields.iter().map(|(k, v)| format!("{k}: {}", text_of(v))).collect();
            format!("{{{}}}", fields.join(", "))
        }
        Expr::Slice(inner, ..) => format!("{}[..]", text_of(inner)),
        Expr::Arithmetic(_, left, right) => format!("{} ? {}", text_of(left), text_of(right)),
        Expr::Negate(inner) => format!("-{}", text_of(inner)),
    }
}

fn type_text(ty: &crate::ast::TypeName) -> String {
    match ty {
        crate::ast::TypeName::Named { name, .. } => name.clone(),
        _ => "type".to_string(),
    }
}
