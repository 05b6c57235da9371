//! ALTER TABLE: columns come, go and are called otherwise; options change.

use crate::ast::{AlterTable, ColumnDefinition, TableChange, TableProperties};
use crate::ddl::{
    Applied, ChangeContext, ChangeKind, SchemaChange, column_type, definition_error, with_table,
};
use crate::error::{Result, configuration, invalid, unsupported};
use crate::limits;
use crate::options;
use base::HashSet;
use schema::{Column, ColumnKind, Keyspace, Schema, Table, TableBuilder};
use types::CqlType;

/// Applies ALTER TABLE.
pub(crate) fn alter_table(
    schema: &Schema,
    change: &SchemaChange,
    alter: &AlterTable,
    context: &ChangeContext,
) -> Result<Option<Applied>> {
    let found =
        schema.keyspace(change.keyspace()).and_then(|k| Some((k, k.tables.get(alter.table.name.as_str())?)));
    let Some((keyspace, table)) = found else {
        let text = format!("Table '{}.{}' doesn't exist", change.keyspace(), alter.table.name);
        return if alter.if_exists { Ok(None) } else { invalid(text) };
    };
    let mut builder = table.to_builder();
    match &alter.change {
        TableChange::Add { if_not_exists, columns } => {
            let count = table.columns().count() + columns.len();
            if count > limits::COLUMNS {
                return too_many(table);
            }
            let mut names = HashSet::default();
            for column in columns {
                if !names.insert(&column.name) {
                    return invalid(format!("Column with name '{}' already exists", column.name));
                }
                add_column(&mut builder, keyspace, table, column, *if_not_exists)?;
            }
        }
        TableChange::Drop { if_exists, columns, timestamp } => {
            let at = timestamp.unwrap_or(context.now_micros);
            if columns.len() > limits::COLUMNS {
                return too_many(table);
            }
            let mut names = HashSet::default();
            for column in columns {
                if !names.insert(column) {
                    return invalid(format!(
                        "Column {column} was not found in table '{}'",
                        table.qualified_name()
                    ));
                }
                drop_column(&mut builder, table, column, *if_exists, at)?;
            }
        }
        TableChange::Rename { if_exists, renames } => {
            if renames.len() > limits::COLUMNS {
                return too_many(table);
            }
            for (from, to) in renames {
                rename_column(&mut builder, table, from, to, *if_exists)?;
            }
        }
        TableChange::Retype { .. } => return invalid("Altering column types is no longer supported"),
        TableChange::Mask => return unsupported("dynamic data masking"),
        TableChange::DropCompactStorage => {
            if !context.drop_compact_storage {
                return invalid("DROP COMPACT STORAGE is disabled. Enable in cassandra.yaml to use.");
            }
            if !table.is_compact() {
                return invalid("Cannot DROP COMPACT STORAGE on table without COMPACT STORAGE");
            }
            builder.drop_compact_storage();
        }
        TableChange::With(with) => alter_options(&mut builder, table, with)?,
    }
    let altered = builder.build().map_err(definition_error)?;
    if altered == **table {
        return Ok(None);
    }
    Ok(Some(with_table(schema, keyspace, altered, ChangeKind::Updated, context.version)))
}

fn too_many<T>(table: &Table) -> Result<T> {
    invalid(format!("table {} has more than {} columns", table.qualified_name(), limits::COLUMNS))
}

fn alter_options(builder: &mut TableBuilder, table: &Table, with: &TableProperties) -> Result<()> {
    if with.id.is_some() {
        return configuration("Cannot alter table id.");
    }
    options::apply_properties(builder.options_mut(), &with.properties)?;
    if table.counter && builder.options_mut().default_time_to_live > 0 {
        return invalid("Cannot set default_time_to_live on a table with counters");
    }
    Ok(())
}

fn add_column(
    builder: &mut TableBuilder,
    keyspace: &Keyspace,
    table: &Table,
    column: &ColumnDefinition,
    if_not_exists: bool,
) -> Result<()> {
    let name = &column.name;
    if table.column(name).is_some() {
        return if if_not_exists {
            Ok(())
        } else {
            invalid(format!("Column with name '{name}' already exists"))
        };
    }
    if table.is_compact() {
        return invalid("Cannot add new column to a COMPACT STORAGE table");
    }
    if column.primary_key {
        return invalid(format!("Cannot add PRIMARY KEY column '{name}' to an existing table"));
    }
    let ty = column_type(column, keyspace, &format!(" for column {name}"))?;
    if column.is_static && table.clustering.is_empty() {
        return invalid(
            "Static columns are only useful (and thus allowed) if the table has at least one clustering column",
        );
    }
    comes_back(table, column, &ty)?;
    if ty == CqlType::Counter && !table.counter {
        return configuration(format!(
            "{}: Cannot have a counter column (\"{name}\") in a non counter table",
            table.qualified_name()
        ));
    }
    if ty != CqlType::Counter && table.counter {
        return configuration(format!(
            "{}: Cannot have a non counter column (\"{name}\") in a counter table",
            table.qualified_name()
        ));
    }
    builder.add(name, if column.is_static { ColumnKind::Static } else { ColumnKind::Regular }, ty);
    Ok(())
}

/// Checks a column that has the name of one dropped earlier: its old cells must stay readable, hidden as they are.
fn comes_back(table: &Table, column: &ColumnDefinition, ty: &CqlType) -> Result<()> {
    let name = &column.name;
    let Some(earlier) = table.dropped.iter().rev().find(|d| *d.name == **name) else { return Ok(()) };
    // Columns that were dropped by a version that kept the names of user types.
    let before = if earlier.ty.is_multi_cell() { earlier.ty.clone() } else { earlier.ty.with_tuples() };
    if !ty.reads_bytes_of(&before) {
        return invalid(format!(
            "Cannot re-add previously dropped column '{name}' of type {ty}, incompatible with previous type {before}"
        ));
    }
    let word = |is_static| if is_static { "STATIC" } else { "REGULAR" };
    let was_static = earlier.kind == ColumnKind::Static;
    if was_static != column.is_static {
        return invalid(format!(
            "Cannot re-add previously dropped column '{name}' of kind {}, incompatible with previous kind {}",
            word(column.is_static),
            word(was_static)
        ));
    }
    if table.counter {
        return invalid(format!("Cannot re-add previously dropped counter column {name}"));
    }
    Ok(())
}

fn drop_column(
    builder: &mut TableBuilder,
    table: &Table,
    name: &str,
    if_exists: bool,
    at: i64,
) -> Result<()> {
    match table.column(name) {
        None if if_exists => Ok(()),
        None => invalid(format!("Column {name} was not found in table '{}'", table.qualified_name())),
        Some(column) if column.is_key() => invalid(format!("Cannot drop PRIMARY KEY column {name}")),
        // Its cells have the numbers of its fields: without the type nothing tells what is in them.
        Some(Column { ty: CqlType::Udt(udt), .. }) => {
            invalid(format!("Cannot drop non-frozen column {name} of user type {}", udt.name))
        }
        // There, Cassandra ends in a Java exception.
        Some(Column { kind: ColumnKind::Regular, .. }) if table.is_compact() => {
            invalid(format!("Cannot drop the value column {name} of a COMPACT STORAGE table"))
        }
        Some(_) => {
            builder.drop_column(name, at);
            Ok(())
        }
    }
}

fn rename_column(
    builder: &mut TableBuilder,
    table: &Table,
    from: &str,
    to: &str,
    if_exists: bool,
) -> Result<()> {
    let undefined = || invalid(format!("Undefined column name {from} in table {}", table.qualified_name()));
    match table.column(from) {
        None if if_exists => return Ok(()),
        None => return undefined(),
        Some(column) if table.is_hidden(column) => return undefined(),
        Some(column) if !column.is_key() => {
            return invalid(format!("Cannot rename non PRIMARY KEY column {from}"));
        }
        Some(_) => {}
    }
    if table.column(to).is_some() {
        return invalid(format!(
            "Cannot rename column {from} to {to} in table '{}'; another column with that name already exists",
            table.qualified_name()
        ));
    }
    builder.rename_key(from, to);
    Ok(())
}
