//! DESCRIBE: definitions as CQL text in Cassandra 5.0's layout, and the rows that carry them.

use crate::ast::{Describe, DescribeTarget, TableName};
use crate::ddl::is_system_keyspace;
use crate::error::{Error, Result, invalid};
use crate::names::{self, quoted};
use crate::options::java_double;
use crate::run::Page;
use crate::select::ResultColumn;
use schema::{
    Column, ColumnKind, DroppedColumn, Keyspace, Order, Replication, Schema, TOMBSTONE_GC, Table,
    TableOptions, row_order,
};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;
use types::{CqlType, UdtType, collection, text::quote};

/// What DESCRIBE CLUSTER tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterFacts {
    /// Cluster name.
    pub name: String,
    /// `Murmur3Partitioner`.
    pub partitioner: String,
    /// Such as `DynamicEndpointSnitch`.
    pub snitch: String,
    /// End token of each range and the endpoints that own it.
    pub ranges: Vec<(String, Vec<String>)>,
}

/// A DESCRIBE, ready to be run.
#[derive(Debug, Clone, PartialEq)]
pub struct DescribePlan {
    describe: Describe,
    keyspace: Option<String>,
    columns: Arc<[ResultColumn]>,
}

/// One row: a value or null for each column.
pub type DescribedRow = Vec<Option<Vec<u8>>>;

impl DescribePlan {
    pub(crate) fn new(describe: Describe, in_use: Option<&str>) -> DescribePlan {
        let mut columns = match &describe.what {
            DescribeTarget::Cluster => {
                vec![("cluster", CqlType::Text), ("partitioner", CqlType::Text), ("snitch", CqlType::Text)]
            }
            _ => vec![("keyspace_name", CqlType::Text), ("type", CqlType::Text), ("name", CqlType::Text)],
        };
        let in_use = in_use.map(str::to_string);
        match &describe.what {
            DescribeTarget::Keyspaces
            | DescribeTarget::Tables
            | DescribeTarget::Types
            | DescribeTarget::Functions
            | DescribeTarget::Aggregates => {}
            DescribeTarget::Cluster => {
                if in_use.as_deref().is_some_and(|k| !is_system_keyspace(k)) {
                    let ranges = CqlType::map(CqlType::Text, CqlType::list(CqlType::Text).frozen());
                    columns.push(("range_ownership", ranges));
                }
            }
            _ => columns.push(("create_statement", CqlType::Text)),
        }
        let column = |(name, ty): (&str, CqlType)| ResultColumn {
            keyspace: "system".into(),
            table: "describe".into(),
            name: name.into(),
            ty,
        };
        let columns: Vec<ResultColumn> = columns.into_iter().map(column).collect();
        DescribePlan { describe, keyspace: in_use, columns: columns.into() }
    }

    /// What each row holds.
    pub fn columns(&self) -> &Arc<[ResultColumn]> {
        &self.columns
    }

    /// All rows. Errors: objects that do not exist.
    pub fn rows(&self, schema: &Schema, cluster: &ClusterFacts) -> Result<Vec<DescribedRow>> {
        let internals = self.describe.internals;
        let keyspaces = || self.listed_keyspaces(schema);
        let mut rows = Vec::new();
        match &self.describe.what {
            DescribeTarget::Cluster => rows.push(self.cluster_row(cluster)),
            DescribeTarget::Keyspaces => {
                rows.extend(schema.keyspaces.values().map(|k| listed(&k.name, "keyspace", &k.name)));
            }
            DescribeTarget::Tables => {
                for k in keyspaces() {
                    rows.extend(k.tables.keys().map(|t| listed(&k.name, "table", t)));
                }
            }
            DescribeTarget::Types => {
                for k in keyspaces() {
                    rows.extend(k.types.keys().map(|t| listed(&k.name, "type", t)));
                }
            }
            DescribeTarget::Functions | DescribeTarget::Aggregates => {}
            DescribeTarget::Schema { full } => {
                for k in schema.keyspaces.values().filter(|k| *full || !is_system_keyspace(&k.name)) {
                    keyspace_rows(k, false, internals, &mut rows);
                }
            }
            DescribeTarget::Keyspace { name, only } => {
                let Some(name) = name.as_deref().or(self.keyspace.as_deref()) else {
                    return invalid("No keyspace specified and no current keyspace");
                };
                match schema.keyspace(name) {
                    Some(keyspace) => keyspace_rows(keyspace, *only, internals, &mut rows),
                    None => return invalid(format!("'{name}' not found in keyspaces")),
                }
            }
            DescribeTarget::Table(name) => {
                let (keyspace, found) = self.table(schema, name)?;
                match found {
                    Some(table) => rows.push(table_row(table, internals)),
                    None => {
                        return invalid(format!("Table '{}' not found in keyspace '{keyspace}'", name.name));
                    }
                }
            }
            DescribeTarget::Type(name) => {
                let keyspace = self.keyspace_of(schema, name)?;
                match keyspace.types.get(name.name.as_str()) {
                    Some(ty) => rows.push(type_row(ty)),
                    None => {
                        return invalid(format!(
                            "User defined type '{}' not found in '{}'",
                            name.name, keyspace.name
                        ));
                    }
                }
            }
            // None of these can be made yet, so none is there.
            DescribeTarget::Index(name) => return self.missing(schema, "Table for existing index", name),
            DescribeTarget::View(name) => return self.missing(schema, "Materialized view", name),
            DescribeTarget::Function(name) => return self.missing(schema, "User defined function", name),
            DescribeTarget::Aggregate(name) => return self.missing(schema, "User defined aggregate", name),
            DescribeTarget::Any(name) => self.any(schema, name, &mut rows)?,
        }
        Ok(rows)
    }

    /// One page of [`DescribePlan::rows`], and where the next one begins.
    /// Errors: a foreign paging state, or one of another schema: the rows may have moved.
    pub fn page(
        &self,
        schema: &Schema,
        cluster: &ClusterFacts,
        page: &Page,
    ) -> Result<(Vec<DescribedRow>, Option<Vec<u8>>)> {
        let first = match &page.state {
            Some(state) => offset_of(state, schema.version)?,
            None => 0,
        };
        let mut rows = self.rows(schema, cluster)?;
        rows.drain(..first.min(rows.len()));
        let most = page.rows.filter(|most| *most > 0).map_or(usize::MAX, |most| most as usize);
        let state = (rows.len() > most).then(|| paging_state(schema.version, first + most));
        rows.truncate(most);
        Ok((rows, state))
    }

    fn listed_keyspaces<'s>(&self, schema: &'s Schema) -> Vec<&'s Arc<Keyspace>> {
        let in_use = self.keyspace.as_deref();
        schema.keyspaces.values().filter(|k| in_use.is_none_or(|name| *k.name == *name)).collect()
    }

    fn cluster_row(&self, cluster: &ClusterFacts) -> DescribedRow {
        let mut row: DescribedRow = [&cluster.name, &cluster.partitioner, &cluster.snitch]
            .map(|text| Some(text.as_bytes().to_vec()))
            .to_vec();
        if self.columns.len() > row.len() {
            let entries: Vec<(&[u8], Vec<u8>)> = cluster
                .ranges
                .iter()
                .map(|(token, owners)| {
                    (token.as_bytes(), collection::build(owners.iter().map(String::as_bytes)))
                })
                .collect();
            row.push(Some(collection::build_map(
                entries.iter().map(|(token, owners)| (*token, &owners[..])),
            )));
        }
        row
    }

    fn keyspace_of<'s>(&self, schema: &'s Schema, name: &TableName) -> Result<&'s Arc<Keyspace>> {
        let keyspace = names::keyspace_name(name.keyspace.as_deref(), self.keyspace.as_deref())?;
        match schema.keyspace(keyspace) {
            Some(keyspace) => Ok(keyspace),
            None => invalid(format!("'{keyspace}' not found in keyspaces")),
        }
    }

    fn table<'s>(&self, schema: &'s Schema, name: &TableName) -> Result<(&'s str, Option<&'s Arc<Table>>)> {
        let keyspace = self.keyspace_of(schema, name)?;
        Ok((&keyspace.name, keyspace.tables.get(name.name.as_str())))
    }

    fn missing<T>(&self, schema: &Schema, what: &str, name: &TableName) -> Result<T> {
        let keyspace = self.keyspace_of(schema, name)?;
        invalid(format!("{what} '{}' not found in '{}'", name.name, keyspace.name))
    }

    /// `DESC name`: a keyspace of that name, otherwise a table of the keyspace in use.
    fn any(&self, schema: &Schema, name: &TableName, rows: &mut Vec<DescribedRow>) -> Result<()> {
        if name.keyspace.is_none()
            && let Some(keyspace) = schema.keyspace(&name.name)
        {
            keyspace_rows(keyspace, false, self.describe.internals, rows);
            return Ok(());
        }
        if name.keyspace.is_none() && self.keyspace.is_none() {
            return invalid(format!("'{}' not found in keyspaces", name.name));
        }
        match self.table(schema, name)? {
            (_, Some(table)) => rows.push(table_row(table, self.describe.internals)),
            (keyspace, None) => {
                return invalid(format!("'{}' not found in keyspace '{keyspace}'", name.name));
            }
        }
        Ok(())
    }
}

/// The version of the schema and how many rows have been told. Sent to clients: states of other versions are refused.
fn paging_state(version: u128, told: usize) -> Vec<u8> {
    let mut state = version.to_be_bytes().to_vec();
    state.extend_from_slice(&(told as u64).to_be_bytes());
    state
}

fn offset_of(state: &[u8], version: u128) -> Result<usize> {
    let foreign = || Error::Protocol { text: "Invalid value for the paging state".to_string() };
    let (of, told) = state.split_first_chunk::<16>().ok_or_else(foreign)?;
    let told: [u8; 8] = told.try_into().map_err(|_| foreign())?;
    if u128::from_be_bytes(*of) != version {
        return invalid(
            "The schema has changed since the previous page of the DESCRIBE statement result. Please retry the \
             DESCRIBE statement.",
        );
    }
    usize::try_from(u64::from_be_bytes(told)).map_err(|_| foreign())
}

fn listed(keyspace: &str, kind: &str, name: &str) -> DescribedRow {
    [quoted(keyspace), kind.to_string(), quoted(name)].map(|text| Some(text.into_bytes())).to_vec()
}

fn described(keyspace: &str, kind: &str, name: &str, statement: String) -> DescribedRow {
    let mut row = listed(keyspace, kind, name);
    row.push(Some(statement.into_bytes()));
    row
}

fn keyspace_rows(keyspace: &Keyspace, only: bool, internals: bool, rows: &mut Vec<DescribedRow>) {
    rows.push(described(&keyspace.name, "keyspace", &keyspace.name, create_keyspace(keyspace)));
    if only {
        return;
    }
    rows.extend(types_in_order(keyspace).into_iter().map(|t| type_row(t)));
    rows.extend(keyspace.tables.values().map(|t| table_row(t, internals)));
}

/// Types after those they use.
fn types_in_order(keyspace: &Keyspace) -> Vec<&Arc<UdtType>> {
    let mut left: Vec<&Arc<UdtType>> = keyspace.types.values().collect();
    let mut out = Vec::with_capacity(left.len());
    while !left.is_empty() {
        let free = |t: &&Arc<UdtType>, left: &[&Arc<UdtType>]| {
            !left.iter().any(|other| {
                other.name != t.name
                    && t.fields.iter().any(|(_, ty)| ty.mentions(&keyspace.name, &other.name))
            })
        };
        let index = left.iter().position(|t| free(t, &left)).unwrap_or(0);
        out.push(left.remove(index));
    }
    out
}

fn type_row(ty: &UdtType) -> DescribedRow {
    described(&ty.keyspace, "type", &ty.name, create_type(ty))
}

fn table_row(table: &Table, internals: bool) -> DescribedRow {
    let mut text = create_table(table, internals);
    if table.is_compact() {
        let name = format!("{}.{}", quoted(&table.keyspace), quoted(&table.name));
        text = format!(
            "/*\nWarning: Table {name} omitted because it has constructs not compatible with CQL (was created via legacy \
             API).\nApproximate structure, for reference:\n(this should not be used to reproduce this schema)\n\n{text}\n*/"
        );
    }
    described(&table.keyspace, "table", &table.name, text)
}

/// `CREATE KEYSPACE`, as Cassandra prints it: two spaces before AND.
pub fn create_keyspace(keyspace: &Keyspace) -> String {
    let mut options = String::new();
    let class = match &keyspace.replication {
        Replication::Local => "LocalStrategy",
        Replication::Simple { factor } => {
            let _ = write!(options, ", 'replication_factor': '{factor}'");
            "SimpleStrategy"
        }
        Replication::NetworkTopology { factors } => {
            for (dc, factor) in factors {
                let _ = write!(options, ", {}: '{factor}'", quote(dc));
            }
            "NetworkTopologyStrategy"
        }
    };
    format!(
        "CREATE KEYSPACE {} WITH replication = {{'class': '{class}'{options}}}  AND durable_writes = {};",
        quoted(&keyspace.name),
        keyspace.durable_writes
    )
}

/// `CREATE TYPE`.
pub fn create_type(ty: &UdtType) -> String {
    let fields: Vec<String> =
        ty.fields.iter().map(|(name, ty)| format!("    {} {ty}", quoted(name))).collect();
    format!("CREATE TYPE {}.{} (\n{}\n);", quoted(&ty.keyspace), quoted(&ty.name), fields.join(",\n"))
}

/// The statements that make a table again where it is not there, as in `schema.cql` of a snapshot: the user types it is made
/// of, each behind those inside of it, and the table with its id and its dropped columns.
pub fn create_table_again(table: &Table) -> String {
    let mut types = Vec::new();
    table.columns().for_each(|column| types_inside(&column.ty, &mut types));
    let missing = |text: String, what: &str| text.replacen(what, &format!("{what}IF NOT EXISTS "), 1);
    let mut parts: Vec<String> = types.iter().map(|ty| missing(create_type(ty), "CREATE TYPE ")).collect();
    parts.push(missing(statement_of(table, true, Form::Run), "CREATE TABLE "));
    parts.join("\n")
}

/// Adds the user types of a type, innermost first, each once.
fn types_inside(ty: &CqlType, found: &mut Vec<Arc<UdtType>>) {
    match ty {
        CqlType::Udt(udt) => {
            udt.fields.iter().for_each(|(_, field)| types_inside(field, found));
            if !found.contains(udt) {
                found.push(udt.clone());
            }
        }
        CqlType::Tuple(fields) => fields.iter().for_each(|field| types_inside(field, found)),
        CqlType::Map(keys, values) => {
            types_inside(keys, found);
            types_inside(values, found);
        }
        CqlType::List(inner) | CqlType::Set(inner) | CqlType::Vector(inner, _) | CqlType::Frozen(inner) => {
            types_inside(inner, found);
        }
        _ => {}
    }
}

/// `CREATE TABLE` with all options; with internals also the id and the dropped columns.
pub fn create_table(table: &Table, internals: bool) -> String {
    statement_of(table, internals, Form::Described)
}

/// What a statement is for. They differ where no statement can name what COMPACT STORAGE hides.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// To be read: as Cassandra has it.
    Described,
    /// To be run.
    Run,
}

fn statement_of(table: &Table, internals: bool, form: Form) -> String {
    let is_virtual = matches!(&*table.keyspace, "system_views" | "system_virtual_schema");
    let name = format!("{}.{}", quoted(&table.keyspace), quoted(&table.name));
    let mut out = String::new();
    if is_virtual {
        let _ = write!(
            out,
            "/*\nWarning: Table {name} is a virtual table and cannot be recreated with CQL.\nStructure, for reference:\nVIRTUAL TABLE {name} (\n"
        );
    } else {
        let _ = writeln!(out, "CREATE TABLE {name} (");
    }
    let gone: Vec<&DroppedColumn> = if internals { lost_columns(table) } else { Vec::new() };
    out.push_str(&column_lines(table, &gone, form));
    out.push_str("\n) WITH ");
    let mut clauses = Vec::new();
    if table.is_compact() {
        clauses.push("COMPACT STORAGE".to_owned());
    }
    if internals {
        clauses.push(format!("ID = {}", table.id));
    }
    let is_ordered = |column: &&Column| form == Form::Described || !table.is_hidden(column);
    let orders: Vec<String> = table.clustering.iter().filter(is_ordered).map(order_text).collect();
    if !orders.is_empty() {
        clauses.push(format!("CLUSTERING ORDER BY ({})", orders.join(", ")));
    }
    if is_virtual {
        clauses.push(format!("comment = {}", quote(&table.options.comment)));
    } else {
        clauses.extend(option_clauses(&table.options));
    }
    out.push_str(&clauses.join("\n    AND "));
    out.push(';');
    if is_virtual {
        out.push_str("\n*/");
    }
    for column in &gone {
        let quoted_name = quoted(&column.name);
        let _ = write!(out, "\nALTER TABLE {name} DROP {quoted_name} USING TIMESTAMP {};", column.dropped_at);
        if let Some(back) = table.column(&column.name) {
            let suffix = if back.kind == ColumnKind::Static { " static" } else { "" };
            let _ = write!(out, "\nALTER TABLE {name} ADD {quoted_name} {}{suffix};", back.ty);
        }
    }
    out
}

/// Dropped columns, those that came back too; of each name the latest.
fn lost_columns(table: &Table) -> Vec<&DroppedColumn> {
    let mut latest: BTreeMap<&str, &DroppedColumn> = BTreeMap::new();
    for column in &table.dropped {
        latest.insert(&column.name, column);
    }
    latest.into_values().collect()
}

fn order_text(column: &Column) -> String {
    let order = match column.order {
        Order::Ascending => "ASC",
        Order::Descending => "DESC",
    };
    format!("{} {order}", quoted(&column.name))
}

fn column_lines(table: &Table, gone: &[&DroppedColumn], form: Form) -> String {
    let is_visible = |column: &&Column| !table.is_hidden(column);
    let single = table.partition_key.len() == 1 && table.clustering.is_empty();
    let mut lines = Vec::new();
    // As Cassandra has them: those that are no key as they stand in rows.
    let mut columns: Vec<&Column> = table.visible_columns().collect();
    columns.sort_by(|a, b| {
        let by_name = || row_order((a.is_complex(), &a.name), (b.is_complex(), &b.name));
        a.kind.cmp(&b.kind).then_with(|| if a.is_key() { Ordering::Equal } else { by_name() })
    });
    // What was dropped and came back is dropped and added again below, with its time.
    for column in columns.into_iter().filter(|c| c.is_key() || !gone.iter().any(|d| d.name == c.name)) {
        let suffix = match column.kind {
            ColumnKind::Static if !table.is_compact() => " static",
            ColumnKind::PartitionKey if single => " PRIMARY KEY",
            _ => "",
        };
        lines.push(format!("    {} {}{suffix}", quoted(&column.name), column.ty));
    }
    for column in gone {
        let is_static = column.kind == ColumnKind::Static;
        let suffix = if is_static && !(table.is_compact() && form == Form::Run) { " static" } else { "" };
        lines.push(format!("    {} {}{suffix}", quoted(&column.name), column.ty));
    }
    if !single {
        let names = |columns: &[Column]| {
            columns.iter().filter(is_visible).map(|c| quoted(&c.name)).collect::<Vec<_>>().join(", ")
        };
        let partition = names(&table.partition_key);
        let partition = if table.partition_key.len() > 1 { format!("({partition})") } else { partition };
        let clustering = names(&table.clustering);
        let comma = if clustering.is_empty() { "" } else { ", " };
        lines.push(format!("    PRIMARY KEY ({partition}{comma}{clustering})"));
    }
    lines.join(",\n")
}

fn map_text(map: &BTreeMap<String, String>) -> String {
    let pairs: Vec<String> = map.iter().map(|(k, v)| format!("{}: {}", quote(k), quote(v))).collect();
    format!("{{{}}}", pairs.join(", "))
}

/// In the order in which Cassandra 5.0 prints them.
fn option_clauses(options: &TableOptions) -> Vec<String> {
    let extensions: Vec<String> = options
        .extensions
        .iter()
        .filter(|(name, _)| *name != TOMBSTONE_GC)
        .map(|(k, v)| format!("{}: 0x{}", quote(k), types::text::format_hex(v)))
        .collect();
    let mut clauses = vec![
        format!("additional_write_policy = {}", quote(&options.additional_write_policy)),
        format!("allow_auto_snapshot = {}", options.allow_auto_snapshot),
        format!("bloom_filter_fp_chance = {}", java_double(options.bloom_filter_fp_chance)),
        format!("caching = {}", map_text(&options.caching)),
        format!("cdc = {}", options.cdc.unwrap_or(false)),
        format!("comment = {}", quote(&options.comment)),
        format!("compaction = {}", map_text(&options.compaction)),
        format!("compression = {}", map_text(&options.compression)),
        format!("memtable = {}", quote(options.memtable.as_deref().unwrap_or("default"))),
        format!("crc_check_chance = {}", java_double(options.crc_check_chance)),
        format!("default_time_to_live = {}", options.default_time_to_live),
        format!("extensions = {{{}}}", extensions.join(", ")),
        format!("gc_grace_seconds = {}", options.gc_grace_seconds),
        format!("incremental_backups = {}", options.incremental_backups),
        format!("max_index_interval = {}", options.max_index_interval),
        format!("memtable_flush_period_in_ms = {}", options.memtable_flush_period_in_ms),
        format!("min_index_interval = {}", options.min_index_interval),
        format!("read_repair = {}", quote(&options.read_repair)),
        format!("speculative_retry = {}", quote(&options.speculative_retry)),
    ];
    // Only where it was asked for: Cassandra knows no such property.
    if let Some(text) = options.extensions.get(TOMBSTONE_GC) {
        let text = String::from_utf8_lossy(text);
        let pairs = text.split(',').filter_map(|pair| pair.split_once('='));
        let map = pairs.map(|(key, value)| (key.to_string(), value.to_string())).collect();
        clauses.push(format!("tombstone_gc = {}", map_text(&map)));
    }
    clauses
}
