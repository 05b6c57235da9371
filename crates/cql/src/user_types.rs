//! CREATE, ALTER and DROP TYPE. A changed type is changed in everything that uses it: other types, columns, dropped
//! columns, so that whoever holds a schema sees one definition of each type.

use crate::ast::{AlterType, CreateType, TypeName};
use crate::ddl::{
    Applied, ChangeContext, ChangeKind, ChangeTarget, SchemaChange, SchemaEvent, check_readable,
};
use crate::error::{Result, invalid};
use crate::names;
use schema::{Keyspace, Schema};
use std::collections::BTreeMap;
use std::sync::Arc;
use types::limits::FIELDS_MAX;
use types::{CqlType, UdtType};

fn type_event(change: ChangeKind, keyspace: &str, name: &str) -> SchemaEvent {
    SchemaEvent { change, target: ChangeTarget::Type, keyspace: keyspace.to_string(), name: name.to_string() }
}

/// Applies CREATE TYPE.
pub(crate) fn create_type(
    schema: &Schema,
    change: &SchemaChange,
    create: &CreateType,
    context: &ChangeContext,
) -> Result<Option<Applied>> {
    let name = &create.name.name;
    let of = change.keyspace();
    let Some(keyspace) = schema.keyspace(of) else {
        return invalid(format!("Keyspace '{of}' doesn't exist"));
    };
    if keyspace.types.contains_key(name.as_str()) {
        let text = format!("A user type with name '{name}' already exists");
        return if create.if_not_exists { Ok(None) } else { invalid(text) };
    }
    if create.fields.len() > FIELDS_MAX {
        return invalid(format!("type {name} has more than {FIELDS_MAX} fields"));
    }
    let mut fields: Vec<(Arc<str>, CqlType)> = Vec::with_capacity(create.fields.len());
    for (field, written) in &create.fields {
        if fields.iter().any(|(f, _)| **f == **field) {
            return invalid(format!("Duplicate field name '{field}' in type '{name}'"));
        }
        fields.push((field.as_str().into(), field_type(written, keyspace)?));
    }
    let mut keyspace = Keyspace::clone(keyspace);
    let udt = UdtType { keyspace: of.into(), name: name.as_str().into(), fields };
    keyspace.types.insert(name.as_str().into(), Arc::new(udt));
    let event = type_event(ChangeKind::Created, of, name);
    Ok(Some(Applied { schema: schema.with_keyspace(context.version, keyspace), event }))
}

fn field_type(written: &TypeName, keyspace: &Keyspace) -> Result<CqlType> {
    // Whatever is no native type is one of the user's, known or not.
    if matches!(written, TypeName::Named { .. }) && !names::is_native(written) {
        return invalid("A user type cannot contain non-frozen UDTs");
    }
    match names::resolve_type(written, keyspace)? {
        CqlType::Counter => invalid("A user type cannot contain counters"),
        ty => Ok(ty),
    }
}

/// Applies ALTER TYPE: one field more, or fields under other names.
pub(crate) fn alter_type(
    schema: &Schema,
    change: &SchemaChange,
    alter: &AlterType,
    context: &ChangeContext,
) -> Result<Option<Applied>> {
    let name = alter.name.name.as_str();
    let of = change.keyspace();
    let Some((keyspace, udt)) = schema.keyspace(of).and_then(|k| Some((k, k.types.get(name)?))) else {
        let text = format!("Type {of}.{name} doesn't exist");
        return if alter.if_exists { Ok(None) } else { invalid(text) };
    };
    if alter.retype {
        return invalid("Altering field types is no longer supported");
    }
    let changed = match &alter.add {
        Some((field, written)) => added_field(keyspace, udt, field, written, alter.if_field)?,
        None => renamed_fields(udt, &alter.renames, alter.if_field)?,
    };
    let Some(changed) = changed else { return Ok(None) };
    let changed = Arc::new(changed);
    // Before it is put into whatever uses it, which multiplies it.
    check_readable(&CqlType::Udt(changed.clone()), &format!("type {of}.{name}"))?;
    let keyspace = with_type(keyspace, changed)?;
    let event = type_event(ChangeKind::Updated, of, name);
    Ok(Some(Applied { schema: schema.with_keyspace(context.version, keyspace), event }))
}

fn added_field(
    keyspace: &Keyspace,
    udt: &UdtType,
    field: &str,
    written: &TypeName,
    if_not_exists: bool,
) -> Result<Option<UdtType>> {
    let full = format!("{}.{}", udt.keyspace, udt.name);
    if udt.fields.iter().any(|(known, _)| **known == *field) {
        let text =
            format!("Cannot add field {field} to type {full}: a field with name {field} already exists");
        return if if_not_exists { Ok(None) } else { invalid(text) };
    }
    let ty = field_type(written, keyspace)?;
    let shown = written.to_cql(&udt.keyspace);
    if ty.mentions(&udt.keyspace, &udt.name) {
        return invalid(format!(
            "Cannot add new field {field} of type {shown} to user type {full} as it would create a circular reference"
        ));
    }
    let in_key = keyspace.tables.values().filter(|table| {
        table.partition_key.iter().any(|column| column.ty.mentions(&udt.keyspace, &udt.name))
    });
    let tables: Vec<String> = in_key.map(|table| table.qualified_name()).collect();
    if !tables.is_empty() {
        return invalid(format!(
            "Cannot add new field {field} of type {shown} to user type {full} as the type is being used in partition \
             key by the following tables: {}",
            tables.join(", ")
        ));
    }
    if udt.fields.len() >= FIELDS_MAX {
        return invalid(format!("type {full} cannot have more than {FIELDS_MAX} fields"));
    }
    let mut changed = udt.clone();
    changed.fields.push((field.into(), ty));
    Ok(Some(changed))
}

fn renamed_fields(udt: &UdtType, renames: &[(String, String)], if_exists: bool) -> Result<Option<UdtType>> {
    if renames.len() > FIELDS_MAX {
        return invalid(format!("type {}.{} has no more than {FIELDS_MAX} fields", udt.keyspace, udt.name));
    }
    let mut changed = udt.clone();
    let mut any = false;
    for (from, to) in renames {
        match udt.fields.iter().position(|(field, _)| **field == **from) {
            Some(index) => {
                changed.fields[index].0 = to.as_str().into();
                any = true;
            }
            None if if_exists => {}
            None => {
                return invalid(format!("Unkown field {from} in user type {}.{}", udt.keyspace, udt.name));
            }
        }
    }
    let mut names: Vec<&str> = changed.fields.iter().map(|(field, _)| &**field).collect();
    names.sort_unstable();
    if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        return invalid(format!("Duplicate field name {} in type {}", twice[0], udt.keyspace));
    }
    Ok(any.then_some(changed))
}

/// The keyspace with a type replaced in all its types and tables.
fn with_type(keyspace: &Keyspace, changed: Arc<UdtType>) -> Result<Keyspace> {
    let mut next = keyspace.clone();
    let mut types = BTreeMap::new();
    for (name, udt) in &keyspace.types {
        let udt = match CqlType::Udt(udt.clone()).with_udt(&changed) {
            CqlType::Udt(followed) => followed,
            _ => udt.clone(),
        };
        types.insert(name.clone(), udt);
    }
    next.types = types;
    for (name, table) in &keyspace.tables {
        let uses = |ty: &CqlType| ty.mentions(&changed.keyspace, &changed.name);
        if !table.columns().any(|c| uses(&c.ty)) && !table.dropped.iter().any(|d| uses(&d.ty)) {
            continue;
        }
        let mut builder = table.to_builder();
        builder.change_types(|ty| ty.with_udt(&changed));
        let table = builder.build().map_err(crate::ddl::definition_error)?;
        next.tables.insert(name.clone(), Arc::new(table));
    }
    Ok(next)
}

/// Applies DROP TYPE: refused while anything uses the type.
pub(crate) fn drop_type(
    schema: &Schema,
    change: &SchemaChange,
    name: &str,
    if_exists: bool,
    context: &ChangeContext,
) -> Result<Option<Applied>> {
    let of = change.keyspace();
    let found = schema.keyspace(of).filter(|k| k.types.contains_key(name));
    let Some(keyspace) = found else {
        let text = format!("Type '{of}.{name}' doesn't exist");
        return if if_exists { Ok(None) } else { invalid(text) };
    };
    let uses = |ty: &CqlType| ty.mentions(of, name);
    let types: Vec<&str> = keyspace
        .types
        .values()
        .filter(|t| *t.name != *name && t.fields.iter().any(|(_, ty)| uses(ty)))
        .map(|t| &*t.name)
        .collect();
    if !types.is_empty() {
        let users = types.join(", ");
        return invalid(format!(
            "Cannot drop user type '{of}.{name}' as it is still used by user types {users}"
        ));
    }
    let used = |t: &&Arc<schema::Table>| t.columns().any(|c| uses(&c.ty));
    let tables: Vec<&str> = keyspace.tables.values().filter(used).map(|t| &*t.name).collect();
    if !tables.is_empty() {
        let users = tables.join(", ");
        return invalid(format!("Cannot drop user type '{of}.{name}' as it is still used by tables {users}"));
    }
    let mut keyspace = Keyspace::clone(keyspace);
    keyspace.types.remove(name);
    let event = type_event(ChangeKind::Dropped, of, name);
    Ok(Some(Applied { schema: schema.with_keyspace(context.version, keyspace), event }))
}
