//! Schema changes as pure functions: a schema and a change give the next schema and what to tell the world.
//!
//! A change is checked when it is applied, not when it is prepared, because the schema may have moved between. Ordinals
//! of columns are given by the schema crate; that of a dropped column, which is remembered with its time, only the column
//! itself gets again.

use crate::alter::alter_table;
use crate::ast::{
    ColumnDefinition, CreateIndex, CreateTable, Object, Statement, StatementKind, TableName, TableProperties,
    TypeName,
};
use crate::error::{Error, Result, configuration, invalid, unsupported};
use crate::limits;
use crate::names;
use crate::options;
use crate::user_types::{alter_type, create_type, drop_type};
use crate::where_clause;
use base::{HashMap, HashSet};
use schema::{ColumnKind, Keyspace, Order, Schema, Table, TableBuilder, TableId};
use std::collections::BTreeMap;
use std::sync::Arc;
use types::CqlType;
use types::limits::{FIELDS_MAX, TYPE_DEPTH_MAX, TYPE_TEXT_BYTES_MAX};

/// A schema change with its names resolved, to be applied where the schema lives. Send, cheap.
#[derive(Debug, Clone, PartialEq)]
pub struct SchemaChange {
    statement: StatementKind,
    keyspace: String,
}

impl SchemaChange {
    /// The keyspace it is about.
    pub fn keyspace(&self) -> &str {
        &self.keyspace
    }

    /// What it does to what, as far as a permission is wanted for it; `None` where what it names can never be there.
    pub fn touches(&self) -> Option<(ChangeKind, Touched<'_>)> {
        use ChangeKind::{Created, Dropped, Updated};
        Some(match &self.statement {
            StatementKind::CreateKeyspace(_) => (Created, Touched::AllKeyspaces),
            StatementKind::AlterKeyspace { .. } => (Updated, Touched::Keyspace),
            StatementKind::DropKeyspace { .. } => (Dropped, Touched::Keyspace),
            StatementKind::CreateTable(_) | StatementKind::CreateType(_) => (Created, Touched::AllTables),
            StatementKind::AlterType(_) => (Updated, Touched::AllTables),
            StatementKind::DropObject { object: Object::Type, .. } => (Dropped, Touched::AllTables),
            StatementKind::AlterTable(alter) => (Updated, Touched::Table(&alter.table.name)),
            StatementKind::DropTable { table, .. } => (Dropped, Touched::Table(&table.name)),
            // Indexes and views are of a table, and change it.
            StatementKind::CreateIndex(create) => (Updated, Touched::Table(&create.table.name)),
            StatementKind::CreateView(create) => (Updated, Touched::Table(&create.select.table.name)),
            StatementKind::CreateFunction(_) | StatementKind::CreateAggregate(_) => {
                (Created, Touched::Functions)
            }
            StatementKind::CreateTrigger { .. } => (Created, Touched::Triggers),
            StatementKind::DropObject { object: Object::Trigger, .. } => (Dropped, Touched::Triggers),
            _ => return None,
        })
    }

    /// A statement that makes what is not there yet, unchecked: whether it may be made is said before that it cannot be.
    pub fn not_made_yet(statement: Statement, in_use: Option<&str>) -> Option<SchemaChange> {
        let name = match &statement.kind {
            StatementKind::CreateIndex(create) => &create.table,
            StatementKind::CreateView(create) => &create.name,
            StatementKind::CreateFunction(create) => &create.name,
            StatementKind::CreateAggregate(create) => &create.name,
            StatementKind::CreateTrigger { table, .. } => table,
            _ => return None,
        };
        let keyspace = name.keyspace.as_deref().or(in_use)?.to_owned();
        Some(SchemaChange { statement: statement.kind, keyspace })
    }

    /// The table that it makes, if it makes one.
    pub fn made_table(&self) -> Option<&str> {
        match &self.statement {
            StatementKind::CreateTable(create) => Some(&create.table.name),
            _ => None,
        }
    }

    /// Whether it makes or alters the keyspace itself.
    pub fn is_of_keyspace(&self) -> bool {
        matches!(self.statement, StatementKind::CreateKeyspace(_) | StatementKind::AlterKeyspace { .. })
    }
}

/// What a change is made to: a permission on it is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Touched<'a> {
    /// Every keyspace: a new one is made.
    AllKeyspaces,
    /// The change's keyspace.
    Keyspace,
    /// Every table of the keyspace: a table is made, or a type is changed.
    AllTables,
    /// A table of the keyspace.
    Table(&'a str),
    /// Every function of the keyspace: one is made.
    Functions,
    /// Code of the server: for superusers alone.
    Triggers,
}

/// What applying a change needs from outside: identities, the clock, the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeContext {
    /// The next schema's version.
    pub version: u128,
    /// The id a new table gets unless the statement names one.
    pub table_id: u128,
    /// Microseconds since the Unix epoch, for dropped columns.
    pub now_micros: i64,
    /// Data centres of the cluster; empty when unknown.
    pub datacenters: Vec<String>,
    /// `compaction` of a table that says nothing of it; `None`: Cassandra's own.
    pub default_compaction: Option<BTreeMap<String, String>>,
    /// Whether ALTER TABLE … DROP COMPACT STORAGE is allowed.
    pub drop_compact_storage: bool,
}

/// What kind of change happened, in the native protocol's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeKind {
    /// `CREATED`
    Created,
    /// `UPDATED`
    Updated,
    /// `DROPPED`
    Dropped,
}

impl ChangeKind {
    /// The protocol's word.
    pub fn name(self) -> &'static str {
        match self {
            ChangeKind::Created => "CREATED",
            ChangeKind::Updated => "UPDATED",
            ChangeKind::Dropped => "DROPPED",
        }
    }
}

/// What changed, in the native protocol's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeTarget {
    /// `KEYSPACE`
    Keyspace,
    /// `TABLE`
    Table,
    /// `TYPE`
    Type,
}

impl ChangeTarget {
    /// The protocol's word.
    pub fn name(self) -> &'static str {
        match self {
            ChangeTarget::Keyspace => "KEYSPACE",
            ChangeTarget::Table => "TABLE",
            ChangeTarget::Type => "TYPE",
        }
    }
}

/// What to answer the client and to tell every registered connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchemaEvent {
    /// Created, updated or dropped.
    pub change: ChangeKind,
    /// Keyspace, table or type.
    pub target: ChangeTarget,
    /// The keyspace.
    pub keyspace: String,
    /// The table or type; empty for a keyspace.
    pub name: String,
}

/// The outcome of a change.
#[derive(Debug, Clone)]
pub struct Applied {
    /// The next schema.
    pub schema: Schema,
    /// What happened: the answer.
    pub event: SchemaEvent,
}

impl Applied {
    /// All that registered connections are told, in order: what was in a dropped keyspace before the keyspace, what uses a
    /// changed type behind the type. `before`: the schema that the change was applied to.
    pub fn events(&self, before: &Schema) -> Vec<SchemaEvent> {
        let event =
            |target, name: &Arc<str>| SchemaEvent { target, name: name.to_string(), ..self.event.clone() };
        let Some(old) = before.keyspace(&self.event.keyspace) else { return vec![self.event.clone()] };
        let mut told = Vec::new();
        match (self.event.target, self.event.change, self.schema.keyspace(&self.event.keyspace)) {
            (ChangeTarget::Keyspace, ChangeKind::Dropped, _) => {
                told.extend(old.tables.keys().map(|name| event(ChangeTarget::Table, name)));
                told.extend(old.types.keys().map(|name| event(ChangeTarget::Type, name)));
                told.push(self.event.clone());
            }
            (ChangeTarget::Type, ChangeKind::Updated, Some(new)) => {
                told.push(self.event.clone());
                let types = new
                    .types
                    .iter()
                    .filter(|(name, udt)| ***name != *self.event.name && old.types.get(*name) != Some(*udt));
                told.extend(types.map(|(name, _)| event(ChangeTarget::Type, name)));
                let tables = new.tables.iter().filter(|(name, table)| old.tables.get(*name) != Some(*table));
                told.extend(tables.map(|(name, _)| event(ChangeTarget::Table, name)));
            }
            _ => told.push(self.event.clone()),
        }
        told
    }
}

/// Keyspaces no client may change.
pub(crate) const SYSTEM_KEYSPACES: [&str; 7] = [
    "system",
    "system_auth",
    "system_distributed",
    "system_schema",
    "system_traces",
    "system_views",
    "system_virtual_schema",
];

/// Whether a keyspace belongs to the server.
pub fn is_system_keyspace(name: &str) -> bool {
    SYSTEM_KEYSPACES.contains(&name)
}

/// What is wrong with an index whether or not indexes are there.
fn check_index(schema: &Schema, in_use: Option<&str>, create: &CreateIndex) -> Result<()> {
    let keyspace = names::keyspace_name(create.table.keyspace.as_deref(), in_use)?;
    let name = &create.table.name;
    let Some(table) = schema.keyspace(keyspace).and_then(|keyspace| keyspace.tables.get(name.as_str()))
    else {
        return invalid(format!("Table '{name}' doesn't exist"));
    };
    for (_, target) in &create.targets {
        let column = where_clause::column(table, target)?;
        if table.is_compact() && column.is_key() {
            return invalid(
                "Secondary indexes are not supported on PRIMARY KEY columns in COMPACT STORAGE tables",
            );
        }
        if column.kind == ColumnKind::PartitionKey && table.partition_key.len() == 1 {
            return invalid(format!(
                "Cannot create secondary index on the only partition key column {target}"
            ));
        }
        if table.is_compact() && column.kind == ColumnKind::Regular {
            return invalid(
                "Secondary indexes are not supported on compact value column of COMPACT STORAGE tables",
            );
        }
    }
    Ok(())
}

/// Resolves the keyspace of a schema statement.
/// Errors: features that are not there yet, no keyspace in use, the server's own keyspaces.
pub(crate) fn schema_change(
    schema: &Schema,
    statement: StatementKind,
    in_use: Option<&str>,
) -> Result<SchemaChange> {
    let of = |name: &TableName| names::keyspace_name(name.keyspace.as_deref(), in_use).map(str::to_string);
    let keyspace = match &statement {
        StatementKind::CreateKeyspace(create) => create.name.clone(),
        StatementKind::AlterKeyspace { name, .. } | StatementKind::DropKeyspace { name, .. } => name.clone(),
        StatementKind::CreateTable(create) => of(&create.table)?,
        StatementKind::AlterTable(alter) => of(&alter.table)?,
        StatementKind::DropTable { table, .. } => of(table)?,
        StatementKind::CreateType(create) => of(&create.name)?,
        StatementKind::AlterType(alter) => of(&alter.name)?,
        StatementKind::DropObject {
            object: Object::Type | Object::Index | Object::View | Object::Trigger,
            name,
            ..
        }
        | StatementKind::DropRoutine { name, .. } => of(name)?,
        StatementKind::CreateIndex(create) => {
            check_index(schema, in_use, create)?;
            return unsupported("secondary indexes");
        }
        StatementKind::CreateView(_) | StatementKind::AlterView { .. } => {
            return unsupported("materialized views");
        }
        // There is no class that could be loaded.
        StatementKind::CreateTrigger { class, .. } => {
            return invalid(format!("Trigger class '{class}' couldn't be loaded"));
        }
        StatementKind::CreateFunction(_) => return unsupported("user-defined functions"),
        StatementKind::CreateAggregate(_) => return unsupported("user-defined aggregates"),
        _ => return unsupported("roles and permissions"),
    };
    // Where roles are kept is for the operator to say.
    let roles_move = keyspace == "system_auth" && matches!(statement, StatementKind::AlterKeyspace { .. });
    if is_system_keyspace(&keyspace) && !roles_move {
        return match &statement {
            StatementKind::CreateKeyspace(_) => {
                invalid(format!("System keyspace '{keyspace}' is not user-modifiable"))
            }
            _ => Err(Error::Unauthorized { text: fixed(&statement, &keyspace) }),
        };
    }
    Ok(SchemaChange { statement, keyspace })
}

/// Why a statement cannot change one of the server's keyspaces, as Cassandra words it.
fn fixed(statement: &StatementKind, keyspace: &str) -> String {
    let local = !matches!(keyspace, "system_auth" | "system_distributed" | "system_traces");
    match statement {
        _ if local => format!("{keyspace} keyspace is not user-modifiable."),
        StatementKind::DropKeyspace { .. } => format!("Cannot DROP <keyspace {keyspace}>"),
        StatementKind::AlterKeyspace { .. } => format!("Cannot ALTER <keyspace {keyspace}>"),
        StatementKind::CreateTable(_) => format!("Cannot CREATE <all tables in {keyspace}>"),
        StatementKind::AlterTable(alter) => format!("Cannot ALTER <table {keyspace}.{}>", alter.table.name),
        StatementKind::DropTable { table, .. } => format!("Cannot DROP <table {keyspace}.{}>", table.name),
        _ => format!("{keyspace} keyspace is not user-modifiable."),
    }
}

/// Applies a change. `None`: IF [NOT] EXISTS held, nothing changes and nobody is told.
/// Errors: names taken or unknown, options out of range, definitions that cannot stand. The schema stays as it was.
pub fn apply(schema: &Schema, change: &SchemaChange, context: &ChangeContext) -> Result<Option<Applied>> {
    let applied = changed(schema, change, context)?;
    if let Some(applied) = &applied {
        refuse_unreadable(schema, applied)?;
    }
    Ok(applied)
}

/// Refuses types that the schema log could not give back: a node with one would not start again.
fn refuse_unreadable(before: &Schema, applied: &Applied) -> Result<()> {
    let name = &applied.event.keyspace;
    let Some(after) = applied.schema.keyspace(name) else { return Ok(()) };
    let before = before.keyspace(name);
    for (name, udt) in &after.types {
        let known = before.and_then(|keyspace| keyspace.types.get(name));
        if known != Some(udt) {
            check_readable(&CqlType::Udt(udt.clone()), &format!("type {}.{name}", after.name))?;
        }
    }
    for (name, table) in &after.tables {
        let known = before.and_then(|keyspace| keyspace.tables.get(name));
        if known.is_some_and(|known| Arc::ptr_eq(known, table)) {
            continue;
        }
        let dropped = table.dropped.iter().map(|column| (&column.name, &column.ty));
        for (column, ty) in table.columns().map(|column| (&column.name, &column.ty)).chain(dropped) {
            check_readable(ty, &format!("the type of column {column} of {}", table.qualified_name()))?;
        }
    }
    Ok(())
}

pub(crate) fn check_readable(ty: &CqlType, what: &str) -> Result<()> {
    if ty.is_readable() {
        return Ok(());
    }
    invalid(format!(
        "{what} is too large: with all types in it, it may have {TYPE_DEPTH_MAX} levels, {FIELDS_MAX} fields each, and a \
         class name of {TYPE_TEXT_BYTES_MAX} bytes"
    ))
}

fn changed(schema: &Schema, change: &SchemaChange, context: &ChangeContext) -> Result<Option<Applied>> {
    match &change.statement {
        StatementKind::CreateKeyspace(create) => {
            let (name, if_not_exists) = (&create.name, create.if_not_exists);
            check_keyspace_name(name)?;
            if schema.keyspace(name).is_some() {
                let error = Error::AlreadyExists { keyspace: name.clone(), table: String::new() };
                return if if_not_exists { Ok(None) } else { Err(error) };
            }
            let settings = options::keyspace_settings(name, &create.properties, &context.datacenters, None)?;
            let Some(replication) = settings.replication else {
                return invalid("Missing mandatory option 'replication'");
            };
            let mut keyspace = Keyspace::new(name, replication);
            keyspace.durable_writes = settings.durable_writes.unwrap_or(true);
            let event = keyspace_event(ChangeKind::Created, name);
            Ok(Some(Applied { schema: schema.with_keyspace(context.version, keyspace), event }))
        }
        StatementKind::AlterKeyspace { name, if_exists, properties } => {
            let Some(keyspace) = existing_keyspace(schema, name, *if_exists)? else { return Ok(None) };
            let before = Some(&keyspace.replication);
            let settings = options::keyspace_settings(name, properties, &context.datacenters, before)?;
            let mut keyspace = Keyspace::clone(keyspace);
            keyspace.replication = settings.replication.unwrap_or(keyspace.replication);
            keyspace.durable_writes = settings.durable_writes.unwrap_or(keyspace.durable_writes);
            let event = keyspace_event(ChangeKind::Updated, name);
            Ok(Some(Applied { schema: schema.with_keyspace(context.version, keyspace), event }))
        }
        StatementKind::DropKeyspace { name, if_exists } => {
            if existing_keyspace(schema, name, *if_exists)?.is_none() {
                return Ok(None);
            }
            let event = keyspace_event(ChangeKind::Dropped, name);
            Ok(Some(Applied { schema: schema.without_keyspace(context.version, name), event }))
        }
        StatementKind::CreateTable(create) => create_table(schema, change, create, context),
        StatementKind::AlterTable(alter) => alter_table(schema, change, alter, context),
        StatementKind::DropTable { table, if_exists } => {
            drop_table(schema, change, &table.name, *if_exists, context)
        }
        StatementKind::CreateType(create) => create_type(schema, change, create, context),
        StatementKind::AlterType(alter) => alter_type(schema, change, alter, context),
        StatementKind::DropObject { object: Object::Type, name, if_exists, .. } => {
            drop_type(schema, change, &name.name, *if_exists, context)
        }
        StatementKind::DropObject { if_exists: true, .. }
        | StatementKind::DropRoutine { if_exists: true, .. } => Ok(None),
        StatementKind::DropObject { object, name, on, .. } => {
            nothing_to_drop(change, *object, name, on.as_ref())
        }
        StatementKind::DropRoutine { aggregate, name, .. } => {
            let what = if *aggregate { "Aggregate" } else { "Function" };
            invalid(format!("{what} '{}.{}' doesn't exist", change.keyspace, name.name))
        }
        _ => unsupported("this schema change"),
    }
}

/// Nothing of these kinds can be made yet, so nothing is there.
fn nothing_to_drop(
    change: &SchemaChange,
    object: Object,
    name: &TableName,
    on: Option<&TableName>,
) -> Result<Option<Applied>> {
    let full = format!("{}.{}", change.keyspace, name.name);
    match (object, on) {
        // With the quote too many that Cassandra has.
        (Object::Index, _) => invalid(format!("Index '{full}' doesn't exist'")),
        (Object::View, _) => invalid(format!("Materialized view '{full}' doesn't exist")),
        (Object::Trigger, Some(table)) => {
            invalid(format!("Trigger '{}' on '{}.{}' doesn't exist", name.name, change.keyspace, table.name))
        }
        _ => unsupported("this schema change"),
    }
}

fn keyspace_event(change: ChangeKind, keyspace: &str) -> SchemaEvent {
    SchemaEvent {
        change,
        target: ChangeTarget::Keyspace,
        keyspace: keyspace.to_string(),
        name: String::new(),
    }
}

fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// What is wrong with the length of a name, if anything is.
fn too_long(what: &str, name: &str, most: usize) -> Option<String> {
    let count = name.chars().count();
    (count > most).then(|| {
        format!(
            "{what} name must not be more than {most} characters long (got {count} characters for \"{name}\")"
        )
    })
}

fn check_keyspace_name(name: &str) -> Result<()> {
    if !is_plain(name) {
        return invalid(format!(
            "Keyspace name must not be empty and must contain alphanumeric or underscore characters only (got \"{name}\")"
        ));
    }
    too_long("Keyspace", name, limits::KEYSPACE_NAME_CHARS).map_or(Ok(()), invalid)
}

fn check_table_name(keyspace: &str, name: &str) -> Result<()> {
    if !is_plain(name) {
        return configuration(format!(
            "{keyspace}.{name}: Table name must not be empty or not contain non-alphanumeric-underscore characters \
             (got \"{name}\")"
        ));
    }
    // Another code than for a keyspace's name, as in Cassandra.
    match too_long("Table", name, limits::TABLE_NAME_CHARS) {
        Some(text) => configuration(format!("{keyspace}.{name}: {text}")),
        None => Ok(()),
    }
}

fn existing_keyspace<'s>(
    schema: &'s Schema,
    name: &str,
    if_exists: bool,
) -> Result<Option<&'s Arc<Keyspace>>> {
    match schema.keyspace(name) {
        Some(keyspace) => Ok(Some(keyspace)),
        None if if_exists => Ok(None),
        None => invalid(format!("Keyspace '{name}' doesn't exist")),
    }
}

/// The next schema with one table put into its keyspace.
pub(crate) fn with_table(
    schema: &Schema,
    keyspace: &Arc<Keyspace>,
    table: Table,
    change: ChangeKind,
    version: u128,
) -> Applied {
    let event = SchemaEvent {
        change,
        target: ChangeTarget::Table,
        keyspace: keyspace.name.to_string(),
        name: table.name.to_string(),
    };
    let mut keyspace = Keyspace::clone(keyspace);
    keyspace.tables.insert(table.name.clone(), Arc::new(table));
    Applied { schema: schema.with_keyspace(version, keyspace), event }
}

pub(crate) fn definition_error(error: schema::Error) -> Error {
    Error::Invalid { text: error.to_string() }
}

fn create_table(
    schema: &Schema,
    change: &SchemaChange,
    create: &CreateTable,
    context: &ChangeContext,
) -> Result<Option<Applied>> {
    let name = &create.table.name;
    let Some(keyspace) = schema.keyspace(&change.keyspace) else {
        return invalid(format!("Keyspace '{}' doesn't exist", change.keyspace));
    };
    check_table_name(&change.keyspace, name)?;
    if keyspace.tables.contains_key(name.as_str()) {
        let error = Error::AlreadyExists { keyspace: change.keyspace.clone(), table: name.clone() };
        return if create.if_not_exists { Ok(None) } else { Err(error) };
    }
    let id = TableId(create.with.id.unwrap_or(context.table_id));
    if let Some(other) = schema.table_by_id(id) {
        return invalid(format!("Table id {id} is already in use by {}", other.qualified_name()));
    }
    let table = build_table(keyspace, create, id, context.default_compaction.as_ref())?;
    Ok(Some(with_table(schema, keyspace, table, ChangeKind::Created, context.version)))
}

fn build_table(
    keyspace: &Keyspace,
    create: &CreateTable,
    id: TableId,
    compaction: Option<&BTreeMap<String, String>>,
) -> Result<Table> {
    let name = &create.table.name;
    let full = format!("{}.{name}", keyspace.name);
    if create.columns.len() > limits::COLUMNS {
        return invalid(format!("table {full} has more than {} columns", limits::COLUMNS));
    }
    let (partition, clustering) = primary_key(create)?;
    let mut columns = HashMap::default();
    for column in &create.columns {
        if columns.insert(&*column.name, column).is_some() {
            return invalid(format!("Duplicate column '{}' declaration for table '{name}'", column.name));
        }
        if column.masked {
            return unsupported("dynamic data masking");
        }
    }
    let orders = clustering_orders(name, &clustering, &create.with)?;
    let key_type = |key: &String| -> Result<CqlType> {
        match columns.get(key.as_str()) {
            Some(column) if column.is_static => {
                invalid(format!("Static column '{key}' cannot be part of the PRIMARY KEY"))
            }
            Some(column) => key_column_type(key, names::resolve_type(&column.ty, keyspace)?),
            None => invalid(format!("Unknown column '{key}' referenced in PRIMARY KEY for table '{name}'")),
        }
    };
    let mut builder = TableBuilder::new(&keyspace.name, name, id);
    for key in &partition {
        builder = builder.partition_key(key, key_type(key)?);
    }
    for (key, order) in clustering.iter().zip(orders) {
        let reversed = match columns.get(key.as_str()).map(|column| &column.ty) {
            Some(TypeName::Custom(class)) => names::of_class(class)?.1,
            _ => false,
        };
        let order = if reversed { Order::Descending } else { order };
        builder = builder.clustering(key, key_type(key)?, order);
    }
    let keys: HashSet<&String> = partition.iter().chain(&clustering).collect();
    let mut others = Vec::new();
    for column in create.columns.iter().filter(|c| !keys.contains(&c.name)) {
        others.push((column, column_type(column, keyspace, "")?));
    }
    if create.with.compact_storage {
        check_compact_storage(&others, !clustering.is_empty())?;
    }
    for (column, ty) in others {
        if let (TypeName::Custom(_), CqlType::Counter) = (&column.ty, &ty) {
            return crate::error::configuration(format!(
                "{}.{name}: Cannot have a counter column (\"{}\") in a non counter table",
                keyspace.name, column.name
            ));
        }
        let kind = if column.is_static { ColumnKind::Static } else { ColumnKind::Regular };
        builder.add(&column.name, kind, ty);
    }
    if let Some(compaction) = compaction {
        builder.options_mut().compaction.clone_from(compaction);
    }
    options::apply_properties(builder.options_mut(), &create.with.properties)?;
    if create.with.compact_storage {
        builder.make_compact();
    }
    let table = builder.build().map_err(definition_error)?;
    if table.counter && table.options.default_time_to_live > 0 {
        return invalid("Cannot set default_time_to_live on a table with counters");
    }
    Ok(table)
}

/// What of the columns that are no key COMPACT STORAGE does not go with.
fn check_compact_storage(columns: &[(&ColumnDefinition, CqlType)], is_dense: bool) -> Result<()> {
    if columns.iter().any(|(_, ty)| ty.is_multi_cell()) {
        return invalid("Non-frozen collections and UDTs are not supported with COMPACT STORAGE");
    }
    if columns.iter().any(|(column, _)| column.is_static) {
        return invalid("Static columns are not supported in COMPACT STORAGE tables");
    }
    if columns.is_empty() && !is_dense {
        return invalid("No definition found that is not part of the PRIMARY KEY");
    }
    if columns.len() > 1 && is_dense {
        let mut names: Vec<&str> = columns.iter().map(|(column, _)| &*column.name).collect();
        names.sort_unstable();
        return invalid(format!(
            "COMPACT STORAGE with composite PRIMARY KEY allows no more than one column not part of the PRIMARY KEY \
             (got: {})",
            names.join(", ")
        ));
    }
    Ok(())
}

fn primary_key(create: &CreateTable) -> Result<(Vec<String>, Vec<String>)> {
    let table = &create.table.name;
    let inline: Vec<&ColumnDefinition> = create.columns.iter().filter(|c| c.primary_key).collect();
    let (partition, clustering) = match (&inline[..], &create.primary_keys[..]) {
        ([], []) => {
            return invalid(format!("No PRIMARY KEY specifed for table '{table}' (exactly one required)"));
        }
        ([only], []) => (vec![only.name.clone()], Vec::new()),
        ([], [(partition, clustering)]) => (partition.clone(), clustering.clone()),
        _ => {
            return invalid(format!(
                "Multiple PRIMARY KEY specified for table '{table}' (exactly one required)"
            ));
        }
    };
    let mut names = HashSet::default();
    if let Some(twice) = partition.iter().chain(&clustering).find(|name| !names.insert(*name)) {
        return invalid(format!("Duplicate column '{twice}' in PRIMARY KEY clause for table '{table}'"));
    }
    drop(names);
    Ok((partition, clustering))
}

fn clustering_orders(table: &str, clustering: &[String], with: &TableProperties) -> Result<Vec<Order>> {
    if with.clustering_order.is_empty() {
        return Ok(vec![Order::Ascending; clustering.len()]);
    }
    let known: HashSet<&str> = clustering.iter().map(String::as_str).collect();
    let mut ordered: HashSet<&str> = HashSet::default();
    if let Some((name, _)) = with.clustering_order.iter().find(|(name, _)| !ordered.insert(name)) {
        return invalid(format!(
            "Duplicate column '{name}' in CLUSTERING ORDER BY clause for table '{table}'"
        ));
    }
    let names = with.clustering_order.iter().map(|(name, _)| name.as_str());
    let strangers: Vec<&str> = names.filter(|name| !known.contains(name)).collect();
    if !strangers.is_empty() {
        return invalid(format!(
            "Only clustering key columns can be defined in CLUSTERING ORDER directive: [{}] are not clustering columns",
            strangers.join(", ")
        ));
    }
    let mut out = vec![Order::Ascending; clustering.len()];
    for (index, (name, descending)) in with.clustering_order.iter().enumerate() {
        let expected = &clustering[index.min(clustering.len() - 1)];
        if !ordered.contains(expected.as_str()) {
            return invalid(format!("Missing CLUSTERING ORDER for column {expected}"));
        }
        if name != expected {
            return invalid(format!(
                "The order of columns in the CLUSTERING ORDER directive must match that of the clustering columns \
                 ({expected} must appear before {name})"
            ));
        }
        if *descending {
            out[index] = Order::Descending;
        }
    }
    Ok(out)
}

fn key_column_type(name: &str, ty: CqlType) -> Result<CqlType> {
    match &ty {
        CqlType::Counter => invalid(format!("counter type is not supported for PRIMARY KEY column '{name}'")),
        ty if !ty.is_orderable() => {
            invalid(format!("duration type is not supported for PRIMARY KEY column '{name}'"))
        }
        CqlType::Udt(udt) => invalid(format!(
            "Invalid non-frozen user-defined type \"{}.{}\" for PRIMARY KEY column '{name}'",
            udt.keyspace, udt.name
        )),
        ty if ty.is_multi_cell() => {
            invalid(format!("Invalid non-frozen collection type {ty} for PRIMARY KEY column '{name}'"))
        }
        _ => Ok(ty),
    }
}

/// The type of a column that is no key. `of` ends an error's text.
pub(crate) fn column_type(column: &ColumnDefinition, keyspace: &Keyspace, of: &str) -> Result<CqlType> {
    if column.masked {
        return unsupported("dynamic data masking");
    }
    let ty = names::resolve_type(&column.ty, keyspace)?;
    if let CqlType::Udt(udt) = &ty
        && udt.fields.iter().any(|(_, field)| field.is_multi_cell())
    {
        return invalid(format!("Non-frozen UDTs with nested non-frozen collections are not supported{of}"));
    }
    Ok(ty)
}

fn drop_table(
    schema: &Schema,
    change: &SchemaChange,
    name: &str,
    if_exists: bool,
    context: &ChangeContext,
) -> Result<Option<Applied>> {
    let found = schema.keyspace(&change.keyspace).filter(|k| k.tables.contains_key(name));
    let Some(keyspace) = found else {
        let text = format!("Table '{}.{name}' doesn't exist", change.keyspace);
        return if if_exists { Ok(None) } else { invalid(text) };
    };
    let mut keyspace = Keyspace::clone(keyspace);
    keyspace.tables.remove(name);
    let event = SchemaEvent {
        change: ChangeKind::Dropped,
        target: ChangeTarget::Table,
        keyspace: change.keyspace.clone(),
        name: name.to_string(),
    };
    Ok(Some(Applied { schema: schema.with_keyspace(context.version, keyspace), event }))
}
