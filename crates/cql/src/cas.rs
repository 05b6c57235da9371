//! A conditional statement or batch, bound: what to read, whether it applies, what it writes, what the client is shown.
//!
//! ```text
//! CasRun::new(values) ─► command ─► (one partition is read) ─► decide(answer, at) ─► a mutation, or none
//!                                                            └► rows(answer): what the conditions met
//! ```
//! All conditions see the partition as it stood before. Which of it is shown follows Apache Cassandra 5.0.6 to the column:
//! a static column only if a condition compares it or a conditional statement writes to one.

use crate::batch::{BatchPlan, refuse_several_tables};
use crate::condition::{BoundCondition, Conditions};
use crate::error::{Error, Result, invalid};
use crate::modify::{ModifyPlan, Spot, refuse_large};
use crate::prior::Prior;
use crate::row::{Fetches, RowValues};
use crate::run::RowSink;
use crate::select::ResultColumn;
use crate::term::Env;
use crate::value::{BindContext, BoundValue, OwnedValue, check_values};
use base::Token;
use mutation::{
    Item, Key, Mutation, MutationBuilder, MutationView, Partition, ReadAnswer, ReadCommand, Scope, Slice,
    Slices,
};
use schema::{Column, ColumnKind, Position, Table};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;
use types::CqlType;

/// The statements of a conditional request.
#[derive(Debug, Clone, PartialEq)]
pub enum CasStatements {
    /// One.
    One(Arc<ModifyPlan>),
    /// A batch by its text; its values are numbered through all statements.
    Batch(Arc<BatchPlan>),
    /// A BATCH message; each statement has values of its own.
    Message(Vec<Arc<ModifyPlan>>),
}

impl CasStatements {
    fn plans(&self) -> Vec<&ModifyPlan> {
        match self {
            CasStatements::One(plan) => vec![plan],
            CasStatements::Batch(batch) => batch.statements.iter().collect(),
            CasStatements::Message(plans) => plans.iter().map(|plan| &**plan).collect(),
        }
    }
}

/// What must be true of one row, or of the static one.
#[derive(Debug, Clone, PartialEq)]
enum RowCondition {
    Exists,
    NotExists,
    Columns(Vec<(Column, BoundCondition)>),
}

/// Which columns a client is shown when conditions do not hold.
#[derive(Debug, Clone, PartialEq)]
struct Shown {
    /// All, as of `SELECT *`, or those of the conditions behind the key of a batch.
    columns: Vec<Column>,
    /// Whether all static columns are read; otherwise those with these ordinals.
    all_statics: bool,
    statics: Vec<u16>,
    /// Whether a statement names a row: otherwise no column of rows is read.
    regulars: bool,
}

/// A conditional request with its values.
pub struct CasRun {
    statements: CasStatements,
    /// By statement of a message; otherwise one for all.
    values: Vec<Vec<OwnedValue>>,
    table: Arc<Table>,
    key: Vec<u8>,
    command: ReadCommand,
    statics: Option<RowCondition>,
    rows: BTreeMap<Position, RowCondition>,
    shown: Shown,
    context: BindContext<'static>,
}

impl CasRun {
    /// Binds. `values` are those of each statement of a message, otherwise one list for all.
    /// Errors: values that are none of their type, keys that are not one, conditions that exclude each other.
    pub fn new(
        statements: CasStatements,
        values: Vec<Vec<OwnedValue>>,
        context: BindContext<'static>,
    ) -> Result<CasRun> {
        let plans = statements.plans();
        let Some(first) = plans.first() else { return invalid("a batch without statements") };
        refuse_several_tables(plans.iter().copied())?;
        let table = first.table().clone();
        let in_batch = !matches!(statements, CasStatements::One(_));
        let mut gathered = Gathered::default();
        for (index, plan) in plans.iter().enumerate() {
            let lent = lent(&values, index);
            check_values(plan.binds(), &lent)?;
            let env = Env { values: &lent, context: &context, table: &table };
            gathered.add(plan, &env, in_batch)?;
        }
        let shown = shown(&plans, &table, in_batch);
        let Gathered { key, statics, rows, spots, .. } = gathered;
        let key = key.unwrap_or_default();
        let command = command(&table, &key, &rows, spots, context.now_s)?;
        Ok(CasRun { statements, values, table, key, command, statics, rows, shown, context })
    }

    /// The table.
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// What must be read of the partition.
    pub fn command(&self) -> &ReadCommand {
        &self.command
    }

    /// What to write at `at` if the conditions hold of what was read; `None`: they do not.
    /// Shape:  one mutation of the partition. Cells, and deletions of rows and columns, are of the time `at`; deletions of
    ///         ranges and of the whole partition of the microsecond before, so that what the same batch writes outlives them:
    ///         decisions about one partition must be a microsecond apart.
    /// Errors: comparisons with null that have no answer, places that a list has not.
    pub fn decide(&self, answer: &ReadAnswer, at: i64) -> Result<Option<Mutation>> {
        if !self.holds(answer)? {
            return Ok(None);
        }
        let mut prior = Prior::default();
        prior.add(answer.clone());
        // Keys of elements follow from the time of the decision, in the order of the statements.
        let next = Cell::new(at.saturating_mul(10));
        let ticks = || next.replace(next.get() + 1);
        let context = BindContext {
            timestamp: at,
            now_micros: self.context.now_micros,
            now_s: self.context.now_s,
            random: self.context.random,
            ticks: &ticks,
        };
        let mut parts = Vec::new();
        for (index, plan) in self.statements.plans().into_iter().enumerate() {
            let lent = lent(&self.values, index);
            let env = Env { values: &lent, context: &context, table: &self.table };
            plan.decided(&env, &prior, at, &mut parts)?;
        }
        self.joined(parts).map(Some)
    }

    fn joined(&self, mut parts: Vec<Mutation>) -> Result<Mutation> {
        if parts.len() == 1 {
            return Ok(parts.remove(0));
        }
        let mut partition = Partition::new();
        for part in &parts {
            partition.apply(&self.table, &part.view()).map_err(corrupt)?;
        }
        let mut builder = MutationBuilder::new(self.table.id, Token::of_key(&self.key), &self.key);
        builder.deletion(partition.deletion);
        if let Some(body) = &partition.static_row {
            builder.static_row(body);
        }
        for (_, row) in partition.rows() {
            builder.row(row.clustering(), row.body());
        }
        for range in partition.ranges.iter() {
            builder.range(&range);
        }
        refuse_large(&builder)?;
        Ok(builder.finish())
    }

    fn holds(&self, answer: &ReadAnswer) -> Result<bool> {
        let fetches = self.fetches();
        let mut found = Found::of(self, &fetches, answer)?;
        if let Some(condition) = &self.statics {
            let exists = found.statics_live;
            found.values.clear_row(&fetches);
            if !condition.holds(exists, &fetches, &found.values)? {
                return Ok(false);
            }
        }
        for (position, condition) in &self.rows {
            let exists = found.start(&fetches, position)?;
            if !condition.holds(exists, &fetches, &found.values)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Every column, in the order of `SELECT *`.
    fn fetches(&self) -> Fetches {
        let mut fetches = Fetches::new(&self.table);
        self.table.columns().for_each(|column| {
            fetches.place(column);
        });
        fetches
    }

    /// The columns of [`CasRun::rows`], behind `[applied]`; none when there is nothing to show.
    pub fn columns(&self, applied: bool, rows: usize) -> Vec<ResultColumn> {
        let column = |name: Arc<str>, ty: CqlType| ResultColumn {
            keyspace: self.table.keyspace.clone(),
            table: self.table.name.clone(),
            name,
            ty,
        };
        let mut columns = vec![column("[applied]".into(), CqlType::Boolean)];
        if !applied && rows > 0 {
            columns.extend(self.shown.columns.iter().map(|c| column(c.name.clone(), c.ty.clone())));
        }
        columns
    }

    /// Gives out what conditions that did not hold have met: the rows they are about, or of static columns alone the
    /// first row; the static columns where there is no row. Returns how many rows that is.
    pub fn rows(&self, answer: &ReadAnswer, sink: &mut RowSink<'_>) -> Result<usize> {
        let fetches = self.fetches();
        let mut found = Found::of(self, &fetches, answer)?;
        let positions: Vec<Position> = if self.rows.is_empty() {
            found.live().next().into_iter().collect()
        } else {
            self.rows.keys().filter(|position| found.is_live(position)).cloned().collect()
        };
        for position in &positions {
            found.start(&fetches, position)?;
            self.show(&fetches, &found.values, sink);
        }
        if positions.is_empty() && found.statics_live {
            found.values.clear_row(&fetches);
            self.show(&fetches, &found.values, sink);
            return Ok(1);
        }
        Ok(positions.len())
    }

    fn show(&self, fetches: &Fetches, values: &RowValues<'_>, sink: &mut RowSink<'_>) {
        let mut fetches = fetches.clone();
        let row: Vec<Option<&[u8]>> = self
            .shown
            .columns
            .iter()
            .map(|column| values.value(fetches.place(column)).filter(|_| self.is_read(column)))
            .collect();
        sink(&row);
    }

    /// Whether a column is read for its own sake.
    fn is_read(&self, column: &Column) -> bool {
        match column.kind {
            ColumnKind::Static => self.shown.all_statics || self.shown.statics.contains(&column.ordinal),
            ColumnKind::Regular => self.shown.regulars,
            ColumnKind::PartitionKey | ColumnKind::Clustering => true,
        }
    }
}

fn lent(values: &[Vec<OwnedValue>], statement: usize) -> Vec<BoundValue<'_>> {
    let own = values.get(statement).or(values.first());
    own.map(|own| own.iter().map(OwnedValue::lent).collect()).unwrap_or_default()
}

fn corrupt(error: impl std::fmt::Display) -> Error {
    Error::Corrupt { text: error.to_string() }
}

/// What the statements come to, one after the other.
#[derive(Default)]
struct Gathered {
    key: Option<Vec<u8>>,
    statics: Option<RowCondition>,
    rows: BTreeMap<Position, RowCondition>,
    /// Rows that are looked at: those of conditions, and those with lists to be changed by place or value.
    spots: BTreeMap<Position, Vec<u8>>,
}

impl Gathered {
    fn add(&mut self, plan: &ModifyPlan, env: &Env<'_, '_>, in_batch: bool) -> Result<()> {
        let (key, spot) = plan.spot(env, in_batch)?;
        match &self.key {
            Some(other) if *other != key => {
                return invalid("Batch with conditions cannot span multiple partitions");
            }
            _ => self.key = Some(key),
        }
        let row = match spot {
            Spot::Row(clustering) => Some(clustering),
            // Of a table without clustering columns the partition is its row.
            Spot::Partition if env.table.clustering.is_empty() => Some(Vec::new()),
            Spot::Partition | Spot::Ranges => None,
        };
        let position = match &row {
            Some(clustering) => Some(env.table.position(clustering).map_err(corrupt)?),
            None => None,
        };
        if let (Some(position), Some(clustering), true) = (&position, row, plan.needs_prior()) {
            self.spots.insert(position.clone(), clustering);
        }
        match &plan.conditions {
            Conditions::None => {}
            Conditions::Exists => self.add_existence(position, RowCondition::Exists)?,
            Conditions::NotExists => self.add_existence(position, RowCondition::NotExists)?,
            Conditions::Columns(columns) => {
                for condition in columns {
                    let is_static = condition.column.kind == ColumnKind::Static;
                    let at = position.clone().filter(|_| !is_static);
                    self.add_comparison(at, condition.column.clone(), condition.bind(env)?)?;
                }
            }
        }
        Ok(())
    }

    fn slot(&mut self, position: Option<Position>) -> Slot<'_> {
        match position {
            None => Slot::Static(&mut self.statics),
            Some(position) => Slot::Row(self.rows.entry(position)),
        }
    }

    fn add_existence(&mut self, position: Option<Position>, condition: RowCondition) -> Result<()> {
        let exists = condition == RowCondition::Exists;
        match self.slot(position).get_or_insert(condition.clone()) {
            same if *same == condition => Ok(()),
            RowCondition::Columns(_) => invalid(format!(
                "Cannot mix IF conditions and IF {}EXISTS for the same row",
                if exists { "" } else { "NOT " }
            )),
            _ => invalid("Cannot mix IF EXISTS and IF NOT EXISTS conditions for the same row"),
        }
    }

    fn add_comparison(
        &mut self,
        position: Option<Position>,
        column: Column,
        condition: BoundCondition,
    ) -> Result<()> {
        match self.slot(position).get_or_insert(RowCondition::Columns(Vec::new())) {
            RowCondition::Columns(columns) => {
                columns.push((column, condition));
                Ok(())
            }
            RowCondition::Exists | RowCondition::NotExists => {
                invalid("Cannot mix IF conditions and IF NOT EXISTS for the same row")
            }
        }
    }
}

/// Where the condition of a row is kept.
enum Slot<'g> {
    Static(&'g mut Option<RowCondition>),
    Row(std::collections::btree_map::Entry<'g, Position, RowCondition>),
}

impl<'g> Slot<'g> {
    fn get_or_insert(self, condition: RowCondition) -> &'g mut RowCondition {
        match self {
            Slot::Static(slot) => slot.get_or_insert(condition),
            Slot::Row(entry) => entry.or_insert(condition),
        }
    }
}

/// One read of one partition: the rows of the conditions, or its first live row if they are about static columns alone.
fn command(
    table: &Table,
    key: &[u8],
    rows: &BTreeMap<Position, RowCondition>,
    mut spots: BTreeMap<Position, Vec<u8>>,
    now_s: u32,
) -> Result<ReadCommand> {
    let scope = Scope::Keys(std::iter::once(Key::new(key)).collect());
    let mut command = ReadCommand::everything(table.id, scope, now_s);
    command.static_counts = true;
    if rows.is_empty() {
        command.row_limit = 1;
        command.slices = std::iter::once(Slice::all()).collect();
        // Lists of other rows are read beside it.
        if !spots.is_empty() {
            command.row_limit = u32::MAX;
        }
        return Ok(command);
    }
    for position in rows.keys() {
        spots.entry(position.clone()).or_default();
    }
    let mut slices = Slices::new();
    for position in spots.into_keys() {
        slices.push(slice_of(position));
    }
    command.slices = slices;
    Ok(command)
}

/// The slice that holds one row.
fn slice_of(position: Position) -> Slice {
    let end = position.successor();
    Slice { start: position, end }
}

fn shown(plans: &[&ModifyPlan], table: &Table, in_batch: bool) -> Shown {
    let conditional = || plans.iter().filter(|plan| plan.is_conditional());
    let whole =
        conditional().any(|plan| matches!(plan.conditions, Conditions::Exists | Conditions::NotExists));
    let mut columns: Vec<Column> = Vec::new();
    if whole {
        columns = table.visible_columns().cloned().collect();
    } else {
        if in_batch {
            columns.extend(table.partition_key.iter().chain(&table.clustering).cloned());
        }
        for plan in conditional() {
            let compared = plan.conditions.columns().iter().map(|condition| &condition.column);
            let mut compared: Vec<&Column> = compared.collect();
            // Of each statement the columns of rows come before static ones.
            compared.sort_by_key(|column| column.kind == ColumnKind::Static);
            for column in compared {
                if columns.iter().all(|known| known.name != column.name) {
                    columns.push(column.clone());
                }
            }
        }
    }
    let compared = conditional().flat_map(|plan| plan.conditions.columns());
    let mut statics: Vec<u16> = compared
        .filter(|condition| condition.column.kind == ColumnKind::Static)
        .map(|condition| condition.column.ordinal)
        .collect();
    conditional().for_each(|plan| statics.extend(plan.prior_statics()));
    let all_statics = conditional().any(|plan| plan.writes_statics());
    Shown { columns, all_statics, statics, regulars: plans.iter().any(|plan| plan.names_rows()) }
}

/// A partition as it was read.
struct Found<'a> {
    values: RowValues<'a>,
    view: Option<MutationView<'a>>,
    rows: BTreeMap<Position, (&'a [u8], &'a [u8])>,
    /// Whether static columns that are read for their own sake have values.
    statics_live: bool,
    now_s: u32,
}

impl<'a> Found<'a> {
    fn of(run: &CasRun, fetches: &Fetches, answer: &'a ReadAnswer) -> Result<Found<'a>> {
        let now_s = run.command.now_s;
        let mut found = Found {
            values: RowValues::new(fetches, now_s),
            view: None,
            rows: BTreeMap::new(),
            statics_live: false,
            now_s,
        };
        let Some(partition) = answer.partitions.first() else { return Ok(found) };
        let view = partition.view();
        found
            .values
            .start_partition(fetches, &run.table, view.key, view.static_row, view.deletion)
            .map_err(corrupt)?;
        let mut places = fetches.clone();
        let read = run.table.statics.iter().filter(|column| run.is_read(column));
        found.statics_live =
            read.into_iter().any(|column| found.values.value(places.place(column)).is_some());
        for item in view.items() {
            if let Item::Row { clustering, body } = item
                && mutation::row_is_live(body, view.deletion, now_s)
            {
                found.rows.insert(run.table.position(clustering).map_err(corrupt)?, (clustering, body));
            }
        }
        found.view = Some(view);
        Ok(found)
    }

    fn live(&self) -> impl Iterator<Item = Position> {
        self.rows.keys().cloned()
    }

    fn is_live(&self, position: &Position) -> bool {
        self.rows.contains_key(position)
    }

    /// Moves to a row; whether it exists. Of one that does not the columns are null.
    fn start(&mut self, fetches: &Fetches, position: &Position) -> Result<bool> {
        debug_assert!(self.now_s == self.values.now_s());
        match (self.rows.get(position), &self.view) {
            (Some((clustering, body)), Some(view)) => {
                self.values.start_row(fetches, clustering, body, view.deletion).map_err(corrupt)?;
                Ok(true)
            }
            _ => {
                self.values.clear_row(fetches);
                Ok(false)
            }
        }
    }
}

impl RowCondition {
    /// Whether it holds of a row, or of no row.
    fn holds(&self, exists: bool, fetches: &Fetches, values: &RowValues<'_>) -> Result<bool> {
        match self {
            RowCondition::Exists => Ok(exists),
            RowCondition::NotExists => Ok(!exists),
            RowCondition::Columns(columns) => {
                let mut places = fetches.clone();
                for (column, condition) in columns {
                    if !condition.holds(values.value(places.place(column)))? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
        }
    }
}
