//! INSERT, UPDATE and DELETE: analysed into what is written where, bound into mutations.

use crate::assignment::{Operations, assigned, counter_assignments, deleted, refuse_many, target_name};
use crate::ast::{Delete, Expr, Insert, Relation, Update, Using};
use crate::condition::{self, Conditions};
use crate::error::{Result, invalid, syntax};
use crate::from_json;
use crate::limits;
use crate::prior::{Prior, PriorRow};
use crate::restriction::{Clustering, Prefix, Prefixes, Values, for_each_key};
use crate::select::text_of;
use crate::term::{Env, Scope, Term};
use crate::value::{BindContext, BindSpec, BoundValue, Val, check_values};
use crate::where_clause::{self, Where};
use crate::write::{Content, Moment, Operation, Operator, Times};
use base::{HashSet, Token};
use core::time::Duration;
use mutation::limits::MUTATION_BYTES_MAX;
use mutation::{
    Deletion, Key, Keys, Liveness, Mutation, MutationBuilder, RangeTombstone, ReadCommand, Slices,
};
use schema::{Column, ColumnKind, CompactStorage, Table};
use std::sync::Arc;
use types::CqlType;

/// Where a modification writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// Whole rows or columns of rows.
    Rows,
    /// Static columns only.
    Statics,
    /// DELETE of whole partitions.
    Partitions,
    /// DELETE of ranges of rows.
    Ranges,
}

/// An INSERT, UPDATE or DELETE, ready to be bound.
#[derive(Debug, Clone, PartialEq)]
pub struct ModifyPlan {
    table: Arc<Table>,
    binds: Arc<[BindSpec]>,
    reach: Reach,
    /// INSERT leaves a row liveness, but for COMPACT STORAGE.
    insert: bool,
    /// DELETE of whole rows.
    delete_rows: bool,
    keys: Vec<Values>,
    clustering: Clustering,
    statics: Vec<Operation>,
    regulars: Vec<Operation>,
    using: Times,
    /// INSERT JSON: what the markers behind those of the statement stand for.
    json: Option<Box<JsonSource>>,
    /// IF.
    pub(crate) conditions: Conditions,
    /// Whether it is a DELETE.
    deletes: bool,
}

/// Where a conditional statement, or one beside it in a batch, writes.
pub(crate) enum Spot {
    /// The static row, or the whole partition.
    Partition,
    /// A row.
    Row(Vec<u8>),
    /// Ranges of rows: nothing is compared there.
    Ranges,
}

/// The text of an INSERT JSON. Each column's value is a marker numbered behind those of the statement; the text is read
/// once per execution and gives their values.
#[derive(Debug, Clone, PartialEq)]
struct JsonSource {
    text: Term,
    /// DEFAULT UNSET: columns that are not named keep what they hold.
    unset: bool,
    /// Markers of the statement itself.
    markers: usize,
}

impl JsonSource {
    /// The values of the table's columns, in their order.
    fn values(&self, env: &Env<'_, '_>) -> Result<Vec<BoundJson>> {
        let text = match self.text.eval(env)? {
            Val::Bytes(bytes) => bytes,
            Val::Null => return invalid("Got null for INSERT JSON values"),
            Val::Unset => return invalid("Cannot use bind variable with unset value in JSON INSERT"),
        };
        let Ok(text) = std::str::from_utf8(&text) else { return invalid("String didn't validate.") };
        let given = from_json::columns(text)?;
        if let Some((unknown, _)) = given.iter().find(|(name, _)| env.table.column(name).is_none()) {
            return invalid(format!("JSON values map contains unrecognized column: {unknown}"));
        }
        let mut values = Vec::new();
        for column in env.table.columns() {
            values.push(match given.iter().rev().find(|(name, _)| **name == *column.name) {
                None if self.unset && !column.is_key() => BoundJson::Unset,
                None => BoundJson::Null,
                Some((_, json)) => match from_json::wire(&column.ty, json) {
                    Ok(Some(bytes)) => BoundJson::Bytes(bytes),
                    Ok(None) => BoundJson::Null,
                    Err(error) => {
                        return invalid(format!("Error decoding JSON value for {}: {error}", column.name));
                    }
                },
            });
        }
        Ok(values)
    }
}

enum BoundJson {
    Null,
    Unset,
    Bytes(Vec<u8>),
}

impl ModifyPlan {
    /// The table written to.
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// The mutations with these values: one per partition named. For writes without [`ModifyPlan::needs_prior`].
    /// Errors: values that are none of their type, null or oversized keys, bad ttl or timestamp. Nothing happens then.
    pub fn bind(&self, values: &[BoundValue<'_>], context: &BindContext<'_>) -> Result<Vec<Mutation>> {
        let mut out = Vec::with_capacity(1);
        self.bind_into(values, context, &Prior::default(), &mut out)?;
        Ok(out)
    }

    /// As [`ModifyPlan::bind`], knowing what [`ModifyPlan::prior_read`] found.
    pub fn bind_into(
        &self,
        values: &[BoundValue<'_>],
        context: &BindContext<'_>,
        prior: &Prior,
        out: &mut Vec<Mutation>,
    ) -> Result<()> {
        check_values(&self.binds, values)?;
        let env = Env { values, context, table: &self.table };
        self.write_into(&env, prior, Moment::Statement(None), out)
    }

    /// Whether lists must be read before elements of theirs can be written.
    pub fn needs_prior(&self) -> bool {
        self.statics.iter().chain(&self.regulars).any(|o| o.operator.needs_prior())
    }

    /// What to read before the write; `None` when nothing.
    pub fn prior_read(
        &self,
        values: &[BoundValue<'_>],
        context: &BindContext<'_>,
    ) -> Result<Option<ReadCommand>> {
        if !self.needs_prior() {
            return Ok(None);
        }
        check_values(&self.binds, values)?;
        let env = Env { values, context, table: &self.table };
        let mut keys = Keys::new();
        for_each_key(&self.table, &self.keys, &env, |key| {
            keys.push(Key::new(key));
            Ok(())
        })?;
        let slices = if self.reach == Reach::Rows {
            self.clustering.slices(&self.table, &env)?
        } else {
            Slices::new()
        };
        Ok((!keys.is_empty()).then(|| ReadCommand {
            table: self.table.id,
            scope: mutation::Scope::Keys(keys),
            slices,
            reversed: false,
            static_counts: true,
            row_limit: limits::ROWS_PER_STEP,
            partition_row_limit: u32::MAX,
            byte_limit: limits::PRIOR_BYTES_PER_STEP,
            now_s: context.now_s,
            resume: None,
            digest_only: false,
            tombstones: 0,
            tombstone_limit: u32::MAX,
        }))
    }

    /// The time the client allows, if the statement says.
    pub fn timeout(&self, values: &[BoundValue<'_>]) -> Result<Option<Duration>> {
        self.using.timeout(values, &self.table)
    }

    /// Marker numbers of the partition key's components; empty unless each is a marker.
    pub(crate) fn key_markers(&self) -> Vec<u16> {
        if self.json.is_some() {
            return Vec::new();
        }
        key_markers(&self.keys)
    }

    pub(crate) fn write_into(
        &self,
        env: &Env<'_, '_>,
        prior: &Prior,
        moment: Moment,
        out: &mut Vec<Mutation>,
    ) -> Result<()> {
        self.with_json(env, |env| self.write_values(env, prior, moment, out))
    }

    /// Calls `with` with the values of an INSERT JSON behind those of the statement; of all others with what there is.
    fn with_json<T>(&self, env: &Env<'_, '_>, with: impl FnOnce(&Env<'_, '_>) -> Result<T>) -> Result<T> {
        let Some(json) = &self.json else { return with(env) };
        let decoded = json.values(env)?;
        // In a batch there may be more values than this statement's text was numbered behind.
        let mut values: Vec<BoundValue<'_>> = env.values.iter().take(json.markers).copied().collect();
        values.resize(json.markers, BoundValue::Null);
        values.extend(decoded.iter().map(|value| match value {
            BoundJson::Null => BoundValue::Null,
            BoundJson::Unset => BoundValue::Unset,
            BoundJson::Bytes(bytes) => BoundValue::Bytes(bytes),
        }));
        with(&Env { values: &values, context: env.context, table: env.table })
    }

    /// Whether it has an IF.
    pub fn is_conditional(&self) -> bool {
        self.conditions.is_some()
    }

    /// The checked markers.
    pub(crate) fn binds(&self) -> &[BindSpec] {
        &self.binds
    }

    /// Whether its operations reach static columns.
    pub(crate) fn writes_statics(&self) -> bool {
        !self.statics.is_empty()
    }

    /// Whether it names rows, not only the partition.
    pub(crate) fn names_rows(&self) -> bool {
        self.table.clustering.is_empty() || !self.clustering.is_empty()
    }

    /// Static columns that must be read before they are written.
    pub(crate) fn prior_statics(&self) -> impl Iterator<Item = u16> {
        self.statics.iter().filter(|o| o.operator.needs_prior()).map(|o| o.ordinal)
    }

    /// The partition key and the place that a statement of a conditional request is about.
    /// Errors: null, unset and oversized keys; several keys or rows.
    pub(crate) fn spot(&self, env: &Env<'_, '_>, in_batch: bool) -> Result<(Vec<u8>, Spot)> {
        self.with_json(env, |env| {
            let mut keys = Vec::new();
            for_each_key(&self.table, &self.keys, env, |key| {
                keys.push(key.to_vec());
                Ok(())
            })?;
            let kind = if self.deletes { "deletions" } else { "updates" };
            if self.keys.iter().any(|values| !matches!(values, Values::One(_))) && keys.len() != 1 {
                return invalid(if in_batch {
                    "Batch with conditions cannot span multiple partitions (you cannot use IN on the partition key)"
                        .to_owned()
                } else {
                    format!("IN on the partition key is not supported with conditional {kind}")
                });
            }
            let Some(key) = keys.pop() else { return invalid("Key may not be empty") };
            let spot = match self.reach {
                Reach::Statics | Reach::Partitions => Spot::Partition,
                Reach::Ranges => Spot::Ranges,
                Reach::Rows => {
                    let mut rows = self.clustering.rows(&self.table, env)?;
                    match (rows.pop(), rows.is_empty()) {
                        (Some(row), true) => Spot::Row(row),
                        _ => {
                            return invalid(format!(
                                "IN on the clustering key columns is not supported with conditional {kind}"
                            ));
                        }
                    }
                }
            };
            Ok((key, spot))
        })
    }

    /// Adds the mutation that a decision at this time comes to.
    pub(crate) fn decided(
        &self,
        env: &Env<'_, '_>,
        prior: &Prior,
        at: i64,
        out: &mut Vec<Mutation>,
    ) -> Result<()> {
        self.write_into(env, prior, Moment::Decision(at), out)
    }

    fn write_values(
        &self,
        env: &Env<'_, '_>,
        prior: &Prior,
        moment: Moment,
        out: &mut Vec<Mutation>,
    ) -> Result<()> {
        let written = self.using.eval(env, moment)?;
        // The same for every row, unless it depends on what the row holds.
        let common = match self.needs_prior() {
            true => None,
            false => Some((
                Content::eval(&self.statics, env, &written, PriorRow::NONE)?,
                Content::eval(&self.regulars, env, &written, PriorRow::NONE)?,
            )),
        };
        let table = self.table.id;
        let prefixes =
            if self.reach == Reach::Rows { self.clustering.rows(&self.table, env)? } else { Prefixes::new() };
        let spans =
            if self.reach == Reach::Ranges { self.clustering.ranges(&self.table, env)? } else { Vec::new() };
        if self.reach == Reach::Rows && !self.deletes && self.regulars.is_empty() && self.table.is_compact() {
            let value = self.table.regulars.first().map_or("", |column| &column.name);
            return invalid(format!("Column {value} is mandatory for this COMPACT STORAGE table"));
        }
        let deletion = Deletion { timestamp: written.timestamp, local_time: written.now_s };
        // What else the batch of a decision writes at this time stays.
        let wide = match moment {
            Moment::Statement(_) => deletion,
            Moment::Decision(at) => Deletion { timestamp: at.saturating_sub(1), ..deletion },
        };
        for_each_key(&self.table, &self.keys, env, |key| {
            let mut builder = MutationBuilder::new(table, Token::of_key(key), key);
            if self.reach == Reach::Partitions {
                builder.deletion(wide);
            }
            match &common {
                Some((statics, _)) => statics.write_static(&mut builder),
                None => {
                    let row = prior.static_row(table, key);
                    Content::eval(&self.statics, env, &written, row)?.write_static(&mut builder);
                }
            }
            for clustering in &prefixes {
                match &common {
                    Some((_, regulars)) => self.write_row(clustering, regulars, deletion, &mut builder),
                    None => {
                        let row = prior.row(table, key, clustering);
                        let regulars = Content::eval(&self.regulars, env, &written, row)?;
                        self.write_row(clustering, &regulars, deletion, &mut builder);
                    }
                }
            }
            for span in &spans {
                let (start, end) = (span.start.clone(), span.end.clone());
                builder.range(&RangeTombstone { start, end, deletion: wide });
            }
            refuse_large(&builder)?;
            if !builder.is_empty() {
                out.push(builder.finish());
            }
            Ok(())
        })
    }

    fn write_row(
        &self,
        clustering: &[u8],
        regulars: &Content<'_>,
        deletion: Deletion,
        builder: &mut MutationBuilder,
    ) {
        let row_deletion = if self.delete_rows { deletion } else { Deletion::LIVE };
        let liveness = if self.insert && !self.table.is_compact() {
            regulars.written().liveness()
        } else {
            Liveness::NONE
        };
        if liveness.is_none() && row_deletion.is_live() && regulars.is_empty() {
            return;
        }
        builder.write_row(clustering, liveness, row_deletion, |row| regulars.write(row));
    }
}

/// Refuses a mutation that no log takes.
pub(crate) fn refuse_large(builder: &MutationBuilder) -> Result<()> {
    if builder.len() > MUTATION_BYTES_MAX {
        return invalid(format!(
            "Mutation of {} bytes is too large for the maximum size of {MUTATION_BYTES_MAX}",
            builder.len()
        ));
    }
    Ok(())
}

/// Marker numbers when every component is one marker.
pub(crate) fn key_markers(keys: &[Values]) -> Vec<u16> {
    let markers: Option<Vec<u16>> =
        keys.iter().map(|v| v.as_marker().and_then(|m| u16::try_from(m).ok())).collect();
    markers.unwrap_or_default()
}

impl ModifyPlan {
    /// Whether it says USING TIMESTAMP.
    pub(crate) fn has_timestamp(&self) -> bool {
        self.using.timestamp.is_some()
    }

    pub(crate) fn set_binds(&mut self, binds: &Arc<[BindSpec]>) {
        self.binds = binds.clone();
    }
}

fn analyse_using(scope: &mut Scope<'_>, using: &Using) -> Result<Times> {
    let mut term = |expr: &Option<Expr>, name: &str, ty: CqlType| -> Result<Option<Term>> {
        expr.as_ref().map(|e| scope.term(e, name, &ty)).transpose()
    };
    Ok(Times {
        timestamp: term(&using.timestamp, "[timestamp]", CqlType::Bigint)?,
        ttl: term(&using.ttl, "[ttl]", CqlType::Int)?,
        timeout: term(&using.timeout, "[timeout]", CqlType::Duration)?,
    })
}

/// What is wrong with a conditional statement once the rest of it is right.
fn refuse_conditional(table: &Table, using: &Using, conditions: &Conditions) -> Result<()> {
    if conditions.is_some() && table.counter {
        return invalid("Conditional updates are not supported on counter tables");
    }
    if conditions.is_some() && using.timestamp.is_some() {
        return condition::no_timestamp();
    }
    Ok(())
}

fn refuse_counters(table: &Table, using: &Using) -> Result<()> {
    if table.counter && using.ttl.is_some() {
        return invalid("Cannot provide custom TTL for counter updates");
    }
    if table.counter && using.timestamp.is_some() {
        return invalid("Cannot provide custom timestamp for counter updates");
    }
    Ok(())
}

/// Analyses INSERT.
pub(crate) fn insert(scope: &mut Scope<'_>, insert: &Insert) -> Result<ModifyPlan> {
    let conditions = condition::analyse(scope, &insert.condition, insert.using.timestamp.is_some())?;
    let table = scope.table.clone();
    if table.counter {
        return invalid("INSERT statements are not allowed on counter tables, use UPDATE instead");
    }
    if let Some((text, unset)) = &insert.json {
        return insert_json(scope, insert, text, *unset, conditions);
    }
    if insert.columns.len() != insert.values.len() {
        return invalid("Unmatched column names/values");
    }
    let mut keys: Vec<Option<Values>> = vec![None; table.partition_key.len()];
    let mut clustering: Vec<Option<Term>> = vec![None; table.clustering.len()];
    let mut operations = Operations::default();
    let mut names = HashSet::default();
    for (name, expr) in insert.columns.iter().zip(&insert.values) {
        let column = where_clause::column(&table, name)?;
        if !names.insert(name) {
            return invalid("The column names contains duplicates");
        }
        let term = scope.term(expr, name, &column.ty)?;
        match column.kind {
            ColumnKind::PartitionKey => keys[column.position as usize] = Some(Values::One(term)),
            ColumnKind::Clustering => clustering[column.position as usize] = Some(term),
            ColumnKind::Static | ColumnKind::Regular => operations.add(column, Operator::Set(term))?,
        }
    }
    let keys = whole_key(&table, keys)?;
    let statics_only = operations.are_static() && clustering.iter().all(Option::is_none);
    let mut prefix = Vec::with_capacity(clustering.len());
    if !statics_only {
        check_missing(&table, &clustering)?;
        if let Some(value) = table.empty_value() {
            operations.add(value, Operator::Set(Term::Value(Box::default())))?;
        }
        prefix.extend(clustering.into_iter().flatten().map(|term| Prefix::Column(Values::One(term))));
    }
    let using = analyse_using(scope, &insert.using)?;
    refuse_conditional(&table, &insert.using, &conditions)?;
    let (statics, regulars) = operations.sorted();
    Ok(ModifyPlan {
        table,
        binds: Arc::new([]),
        reach: if statics_only { Reach::Statics } else { Reach::Rows },
        insert: !statics_only,
        delete_rows: false,
        keys,
        clustering: Clustering { prefix, bounds: Vec::new() },
        statics,
        regulars,
        using,
        json: None,
        conditions,
        deletes: false,
    })
}

fn insert_json(
    scope: &mut Scope<'_>,
    insert: &Insert,
    text: &Expr,
    unset: bool,
    conditions: Conditions,
) -> Result<ModifyPlan> {
    if !matches!(text, Expr::Text(_) | Expr::Marker(_)) {
        return syntax(format!(
            "no viable alternative at input '{}': a JSON string was expected",
            text_of(text)
        ));
    }
    let table = scope.table.clone();
    if let (CompactStorage::Static, Some(hidden)) = (table.compact, table.clustering.first()) {
        // Cassandra looks for all columns by name, and does not find those that it hides.
        where_clause::column(&table, &hidden.name)?;
    }
    let text = scope.term(text, "[json]", &CqlType::Text)?;
    let using = analyse_using(scope, &insert.using)?;
    refuse_conditional(&table, &insert.using, &conditions)?;
    let markers = scope.binds.len();
    let mut keys = Vec::new();
    let mut prefix = Vec::new();
    let mut operations = Operations::default();
    for (index, column) in table.columns().enumerate() {
        let term = Term::Marker(markers + index, None);
        match column.kind {
            ColumnKind::PartitionKey => keys.push(Values::One(term)),
            ColumnKind::Clustering => prefix.push(Prefix::Column(Values::One(term))),
            ColumnKind::Static | ColumnKind::Regular => operations.add(column, Operator::Set(term))?,
        }
    }
    let (statics, regulars) = operations.sorted();
    let json = Some(Box::new(JsonSource { text, unset, markers }));
    Ok(ModifyPlan {
        table,
        binds: Arc::new([]),
        reach: Reach::Rows,
        insert: true,
        delete_rows: false,
        keys,
        clustering: Clustering { prefix, bounds: Vec::new() },
        statics,
        regulars,
        using,
        json,
        conditions,
        deletes: false,
    })
}

/// A row's clustering columns have values, all of them or, where Cassandra's old tables have them, the first ones.
fn check_missing(table: &Table, clustering: &[Option<Term>]) -> Result<()> {
    let missing: Vec<&str> = missing_names(&table.clustering, clustering);
    let given = clustering.len() - missing.len();
    if missing.is_empty() {
        return Ok(());
    }
    if table.compact != CompactStorage::Dense || given == 0 {
        return invalid(format!("Some clustering keys are missing: {}", missing.join(", ")));
    }
    let is_gap = |at: &usize| clustering[*at].is_none() && clustering[at + 1..].iter().any(Option::is_some);
    let Some(gap) = (0..clustering.len()).find(is_gap) else { return Ok(()) };
    let behind = (gap..clustering.len()).find(|at| clustering[*at].is_some()).unwrap_or(gap);
    invalid(format!(
        "PRIMARY KEY column \"{}\" cannot be restricted as preceding column \"{}\" is not restricted",
        table.clustering[behind].name, table.clustering[gap].name
    ))
}

fn missing_names<'c, T>(columns: &'c [Column], given: &[Option<T>]) -> Vec<&'c str> {
    columns.iter().zip(given).filter(|(_, g)| g.is_none()).map(|(c, _)| &*c.name).collect()
}

fn whole_key(table: &Table, keys: Vec<Option<Values>>) -> Result<Vec<Values>> {
    let missing = missing_names(&table.partition_key, &keys);
    if !missing.is_empty() {
        return invalid(format!("Some partition key parts are missing: {}", missing.join(", ")));
    }
    Ok(keys.into_iter().flatten().collect())
}

/// Rows to write are named, not looked for.
fn refuse_contains(relations: &[Relation], statement: &str) -> Result<()> {
    relations.iter().try_for_each(|relation| match relation.operator {
        crate::ast::Operator::Contains => invalid(format!("Cannot use {statement} with CONTAINS")),
        crate::ast::Operator::ContainsKey => invalid(format!("Cannot use {statement} with CONTAINS KEY")),
        _ => Ok(()),
    })
}

/// Checks the WHERE of a modification and takes its key.
fn modification_key(table: &Table, clause: &Where, statement: &str) -> Result<Vec<Values>> {
    if !clause.tokens.is_empty() {
        return invalid(format!(
            "The token function cannot be used in WHERE clauses for {statement} statements"
        ));
    }
    let key_filter = clause.filters.iter().any(|f| f.column.kind == ColumnKind::PartitionKey);
    if key_filter {
        return invalid(format!(
            "Only EQ and IN relation are supported on the partition key (unless you use the token() function) for \
             {statement} statements"
        ));
    }
    let keys = whole_key(table, clause.keys.clone())?;
    let others: Vec<&str> =
        clause.filters.iter().filter(|f| !f.column.is_key()).map(|f| &*f.column.name).collect();
    if !others.is_empty() {
        // With Cassandra's blank at the end.
        return invalid(format!("Non PRIMARY KEY columns found in where clause: {} ", others.join(", ")));
    }
    if let Some(gap) = &clause.gap {
        return invalid(gap.clone());
    }
    if let Some(filter) = clause.filters.first() {
        return invalid(format!("Invalid restriction on clustering column {}", filter.column.name));
    }
    Ok(keys)
}

/// The reach of a statement that writes columns.
fn columns_reach(
    table: &Table,
    clause: &Where,
    operations: &Operations,
    statement: &str,
    conditions: &Conditions,
) -> Result<Reach> {
    let compares_rows = conditions.compares(ColumnKind::Regular);
    if operations.are_static() && !compares_rows {
        if !clause.clustering.is_empty() {
            return invalid(format!(
                "Invalid restrictions on clustering columns since the {statement} statement modifies only static columns"
            ));
        }
        return Ok(Reach::Statics);
    }
    if !clause.clustering.bounds.is_empty() {
        return invalid(if statement == "DELETE" {
            "Range deletions are not supported for specific columns".to_string()
        } else {
            "Slice restrictions are not supported on the clustering columns in UPDATE statements".to_string()
        });
    }
    let fixed = clause.clustering.prefix_columns();
    let may_end = statement == "UPDATE" && table.compact == CompactStorage::Dense && fixed > 0;
    if fixed < table.clustering.len() && !may_end {
        if statement == "DELETE" {
            return invalid("Range deletions are not supported for specific columns");
        }
        let missing: Vec<&str> = table.clustering[fixed..].iter().map(|c| &*c.name).collect();
        return invalid(format!("Some clustering keys are missing: {}", missing.join(", ")));
    }
    Ok(Reach::Rows)
}

/// A conditional DELETE is about one row, or about static columns alone.
fn refuse_part_of_key(
    table: &Table,
    clause: &Where,
    operations: &Operations,
    conditions: &Conditions,
) -> Result<()> {
    let whole =
        clause.clustering.bounds.is_empty() && clause.clustering.prefix_columns() == table.clustering.len();
    let statics_only = operations.are_static();
    if whole || (statics_only && !clause.clustering.is_empty()) {
        return Ok(());
    }
    let rule = "DELETE statements must restrict all PRIMARY KEY columns with equality relations in order to";
    if !statics_only {
        return invalid(format!("{rule} delete non static columns"));
    }
    if conditions.compares(ColumnKind::Regular) {
        return invalid(format!("{rule} use IF condition on non static columns"));
    }
    Ok(())
}

/// Analyses UPDATE.
pub(crate) fn update(scope: &mut Scope<'_>, update: &Update) -> Result<ModifyPlan> {
    refuse_many(update.assignments.len())?;
    let conditions = condition::analyse(scope, &update.condition, update.using.timestamp.is_some())?;
    let table = scope.table.clone();
    if table.counter {
        counter_assignments(scope, &update.assignments)?;
    }
    refuse_conditional(&table, &Using::default(), &conditions)?;
    refuse_counters(&table, &update.using)?;
    let using = analyse_using(scope, &update.using)?;
    let mut operations = Operations::default();
    for assignment in &update.assignments {
        let name = target_name(&assignment.target);
        let column = where_clause::column(&table, name)?.clone();
        if column.is_key() {
            return invalid(format!("PRIMARY KEY part {name} found in SET part"));
        }
        let operator = assigned(scope, &column, assignment, conditions.is_some())?;
        operations.add(&column, operator)?;
    }
    refuse_contains(&update.relations, "UPDATE")?;
    let clause = where_clause::analyse(scope, &update.relations)?;
    let keys = modification_key(&table, &clause, "UPDATE")?;
    let reach = columns_reach(&table, &clause, &operations, "UPDATE", &conditions)?;
    refuse_conditional(&table, &update.using, &conditions)?;
    let (statics, regulars) = operations.sorted();
    Ok(ModifyPlan {
        table,
        binds: Arc::new([]),
        reach,
        insert: false,
        delete_rows: false,
        keys,
        clustering: clause.clustering,
        statics,
        regulars,
        using,
        json: None,
        conditions,
        deletes: false,
    })
}

/// Analyses DELETE.
pub(crate) fn delete(scope: &mut Scope<'_>, delete: &Delete) -> Result<ModifyPlan> {
    refuse_many(delete.targets.len())?;
    let conditions = condition::analyse(scope, &delete.condition, delete.using.timestamp.is_some())?;
    let table = scope.table.clone();
    refuse_conditional(&table, &Using::default(), &conditions)?;
    refuse_counters(&table, &delete.using)?;
    if delete.using.ttl.is_some() {
        return invalid("TTL cannot be used in DELETE statements");
    }
    let mut operations = Operations::default();
    for target in &delete.targets {
        let name = target_name(target);
        let column = where_clause::column(&table, name)?.clone();
        if column.is_key() {
            return invalid(format!(
                "Invalid identifier {name} for deletion (should not be a PRIMARY KEY part)"
            ));
        }
        let operator = deleted(scope, &column, target)?;
        operations.add(&column, operator)?;
    }
    let using = analyse_using(scope, &delete.using)?;
    refuse_contains(&delete.relations, "DELETE")?;
    let clause = where_clause::analyse(scope, &delete.relations)?;
    let keys = modification_key(&table, &clause, "DELETE")?;
    let whole_rows = delete.targets.is_empty();
    refuse_conditional(&table, &delete.using, &conditions)?;
    if conditions.is_some() {
        refuse_part_of_key(&table, &clause, &operations, &conditions)?;
    }
    let reach = if !whole_rows {
        columns_reach(&table, &clause, &operations, "DELETE", &conditions)?
    } else if clause.clustering.is_empty() {
        Reach::Partitions
    } else if clause.clustering.bounds.is_empty()
        && clause.clustering.prefix_columns() == table.clustering.len()
    {
        Reach::Rows
    } else {
        Reach::Ranges
    };
    let (statics, regulars) = operations.sorted();
    Ok(ModifyPlan {
        table,
        binds: Arc::new([]),
        reach,
        insert: false,
        delete_rows: whole_rows && reach == Reach::Rows,
        keys,
        clustering: clause.clustering,
        statics,
        regulars,
        using,
        json: None,
        conditions,
        deletes: true,
    })
}
