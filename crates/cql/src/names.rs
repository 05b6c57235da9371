//! Names and types against the schema: quoting, and what a written type means in a keyspace.

use crate::ast::TypeName;
use crate::error::{Result, invalid, unsupported};
use crate::expr_text::type_text;
use crate::limits;
use crate::parse::is_reserved;
use schema::{Keyspace, Schema, Table};
use std::sync::Arc;
use types::{CqlType, UdtType};

/// A name as CQL text: quoted if it is not plain lower case or is a reserved word.
pub fn quoted(name: &str) -> String {
    if is_reserved(name) { format!("\"{name}\"") } else { types::cql_type::quoted(name) }
}

/// The keyspace a statement means: the written one, otherwise the one in use.
pub(crate) fn keyspace_name<'a>(written: Option<&'a str>, in_use: Option<&'a str>) -> Result<&'a str> {
    match written.or(in_use) {
        Some(name) => Ok(name),
        None => invalid(
            "No keyspace has been specified. USE a keyspace, or explicitly specify keyspace.tablename",
        ),
    }
}

/// A table by its names, or the error of a statement that means it.
pub fn find_table<'s>(schema: &'s Schema, keyspace: &str, name: &str) -> Result<&'s Arc<Table>> {
    let Some(keyspace) = schema.keyspace(keyspace) else {
        return invalid(format!("keyspace {keyspace} does not exist"));
    };
    match keyspace.tables.get(name) {
        Some(table) => Ok(table),
        None => invalid(format!("table {name} does not exist")),
    }
}

/// The table a statement means.
pub(crate) fn table<'s>(
    schema: &'s Schema,
    in_use: Option<&str>,
    name: &crate::ast::TableName,
) -> Result<&'s Arc<Table>> {
    find_table(schema, keyspace_name(name.keyspace.as_deref(), in_use)?, &name.name)
}

/// Whether a type is written as a native one.
pub(crate) fn is_native(ty: &crate::ast::TypeName) -> bool {
    match ty {
        crate::ast::TypeName::Named { keyspace: None, name, quoted: false } => native_type(name).is_some(),
        _ => false,
    }
}

/// The native type of a plain name.
pub(crate) fn native_type(name: &str) -> Option<CqlType> {
    Some(match name {
        "ascii" => CqlType::Ascii,
        "bigint" => CqlType::Bigint,
        "blob" => CqlType::Blob,
        "boolean" => CqlType::Boolean,
        "counter" => CqlType::Counter,
        "date" => CqlType::Date,
        "decimal" => CqlType::Decimal,
        "double" => CqlType::Double,
        "duration" => CqlType::Duration,
        "float" => CqlType::Float,
        "inet" => CqlType::Inet,
        "int" => CqlType::Int,
        "smallint" => CqlType::Smallint,
        "text" | "varchar" => CqlType::Text,
        "time" => CqlType::Time,
        "timestamp" => CqlType::Timestamp,
        "timeuuid" => CqlType::Timeuuid,
        "tinyint" => CqlType::Tinyint,
        "uuid" => CqlType::Uuid,
        "varint" => CqlType::Varint,
        _ => return None,
    })
}

/// The type that `written` means for a table or type of `keyspace`.
/// Errors: unknown user types, collections that must be frozen, counters and durations where they may not stand.
pub(crate) fn resolve_type(written: &TypeName, keyspace: &Keyspace) -> Result<CqlType> {
    let ty = match written {
        TypeName::Named { keyspace: of, name, quoted } => {
            if of.is_none()
                && !quoted
                && let Some(native) = native_type(name)
            {
                return Ok(native);
            }
            return user_type(of.as_deref(), name, keyspace).map(CqlType::Udt);
        }
        TypeName::Frozen(inner) => {
            // A class says itself whether it is frozen.
            let named = !matches!(**inner, TypeName::Custom(_));
            let inner = resolve_type_inside(inner, keyspace)?;
            if !named {
                return frozen_of_class(&inner);
            }
            if matches!(
                inner.frozen(),
                CqlType::Frozen(_) | CqlType::Tuple(_) | CqlType::Udt(_) | CqlType::Vector(..)
            ) {
                return Ok(inner.frozen());
            }
            return Err(crate::error::Error::Syntax {
                text: format!(
                    "frozen<> is only allowed on collections, tuples, and user-defined types (got {inner})"
                ),
            });
        }
        TypeName::List(element) => CqlType::list(element_type(element, keyspace, written)?),
        TypeName::Set(element) => {
            let ty = CqlType::set(element_type(element, keyspace, written)?);
            refuse_durations(&ty)?;
            ty
        }
        TypeName::Map(key, value) => {
            let key = element_type(key, keyspace, written)?;
            let value = element_type(value, keyspace, written)?;
            let ty = CqlType::map(key, value);
            refuse_durations(&ty)?;
            ty
        }
        TypeName::Tuple(fields) => {
            let fields: Result<Vec<_>> = fields.iter().map(|f| resolve_type_inside(f, keyspace)).collect();
            let fields = fields?;
            if fields.contains(&CqlType::Counter) {
                return invalid("Counters are not allowed inside tuples");
            }
            CqlType::tuple(fields).frozen()
        }
        TypeName::Vector(element, dimension) => {
            let count = u32::try_from(*dimension).unwrap_or(0);
            if !(1..=types::limits::VECTOR_DIMENSION_MAX).contains(&count) {
                return invalid(format!("vectors may only have positive dimensions; given {dimension}"));
            }
            let element = match resolve_type(element, keyspace)? {
                CqlType::Counter => return invalid("Counters are not allowed inside vectors"),
                element => element,
            };
            let ty = CqlType::Vector(Arc::new(element), count);
            refuse_huge_vector(&ty)?;
            ty
        }
        TypeName::Custom(class) => of_class(class)?.0,
    };
    Ok(ty)
}

/// Whether a type has a class in it of which nothing is known.
fn has_unknown_class(ty: &CqlType) -> bool {
    match ty {
        CqlType::Custom(_) => true,
        CqlType::Vector(element, _)
        | CqlType::List(element)
        | CqlType::Set(element)
        | CqlType::Frozen(element) => has_unknown_class(element),
        CqlType::Map(key, value) => has_unknown_class(key) || has_unknown_class(value),
        CqlType::Tuple(fields) => fields.iter().any(has_unknown_class),
        CqlType::Udt(udt) => udt.fields.iter().any(|(_, field)| has_unknown_class(field)),
        _ => false,
    }
}

fn frozen_of_class(ty: &CqlType) -> Result<CqlType> {
    crate::error::syntax(format!(
        "frozen<> is only allowed on collections, tuples, and user-defined types (got '{}')",
        ty.class_name()
    ))
}

/// Classes of Cassandra's that are no types here.
const UNSUPPORTED: [&str; 3] = ["CompositeType", "DynamicCompositeType", "PartitionerDefinedOrder"];

/// The type that a class stands for, and whether rows are ordered by it the other way round. No name at all is that of bytes.
pub(crate) fn of_class(class: &str) -> Result<(CqlType, bool)> {
    let written = class.trim();
    if written.is_empty() {
        return Ok((CqlType::Blob, false));
    }
    let Ok((ty, reversed)) = CqlType::parse_class_reversed(written) else {
        return crate::error::syntax(format!("Cannot parse type {class}: Syntax error parsing '{class}'"));
    };
    let name = |class: &str| {
        let class = class.split('(').next().unwrap_or_default().trim_end().to_owned();
        if class.contains('.') { class } else { format!("{}{class}", types::class::PREFIX) }
    };
    if let CqlType::Custom(unknown) = &ty {
        let unknown = name(unknown);
        if unknown.strip_prefix(types::class::PREFIX).is_some_and(|class| UNSUPPORTED.contains(&class)) {
            return unsupported("types of several components or of the partitioner's order by their class");
        }
        return crate::error::syntax(format!(
            "Error setting type {class}: Unable to find abstract-type class '{unknown}'"
        ));
    }
    if has_unknown_class(&ty) {
        let outermost = name(written);
        return crate::error::syntax(format!(
            "Error setting type {class}: Invalid definition for comparator {outermost}."
        ));
    }
    refuse_huge(&ty)?;
    Ok((ty, reversed))
}

/// Refuses a vector of which no value could ever be written.
fn refuse_huge_vector(ty: &CqlType) -> Result<()> {
    let least = least_bytes(ty);
    if least > limits::VALUE_BYTES {
        return invalid(format!(
            "a vector has {least} bytes at least, more than the maximum of {}",
            limits::VALUE_BYTES
        ));
    }
    Ok(())
}

/// As [`refuse_huge_vector`], for every vector within a type.
fn refuse_huge(ty: &CqlType) -> Result<()> {
    match ty {
        CqlType::Vector(element, _) => refuse_huge_vector(ty).and_then(|()| refuse_huge(element)),
        CqlType::List(element) | CqlType::Set(element) | CqlType::Frozen(element) => refuse_huge(element),
        CqlType::Map(key, value) => refuse_huge(key).and_then(|()| refuse_huge(value)),
        CqlType::Tuple(fields) => fields.iter().try_for_each(refuse_huge),
        CqlType::Udt(udt) => udt.fields.iter().try_for_each(|(_, field)| refuse_huge(field)),
        _ => Ok(()),
    }
}

/// Bytes of the shortest element or vector; an element of no fixed length has at least one that says its length.
fn least_bytes(ty: &CqlType) -> usize {
    match ty.unfrozen() {
        CqlType::Vector(element, dimension) => {
            let each = element.fixed_len().unwrap_or_else(|| least_bytes(element).saturating_add(1));
            each.max(1).saturating_mul(*dimension as usize)
        }
        _ => 0,
    }
}

/// As [`resolve_type`] inside `frozen<…>`, a tuple or a vector, where nested collections are frozen by position.
fn resolve_type_inside(written: &TypeName, keyspace: &Keyspace) -> Result<CqlType> {
    let inside = |ty: &TypeName| match resolve_type_inside(ty, keyspace)? {
        CqlType::Counter => {
            invalid(format!("Counters are not allowed inside collections: {}<counter>", kind_name(written)))
        }
        ty => Ok(ty.frozen()),
    };
    let ty = match written {
        TypeName::List(element) => CqlType::list(inside(element)?),
        TypeName::Set(element) => CqlType::set(inside(element)?),
        TypeName::Map(key, value) => CqlType::map(inside(key)?, inside(value)?),
        _ => return resolve_type(written, keyspace),
    };
    refuse_durations(&ty.frozen())?;
    Ok(ty)
}

/// Durations have no order, which elements of sets and keys of maps are kept in.
fn refuse_durations(ty: &CqlType) -> Result<()> {
    match ty.unfrozen() {
        CqlType::Set(element) if **element == CqlType::Duration => {
            invalid(format!("Durations are not allowed inside sets: {ty}"))
        }
        CqlType::Map(key, _) if **key == CqlType::Duration => {
            invalid(format!("Durations are not allowed as map keys: {ty}"))
        }
        _ => Ok(()),
    }
}

fn element_type(written: &TypeName, keyspace: &Keyspace, whole: &TypeName) -> Result<CqlType> {
    // Whatever is no native type is one of the user's, known or not.
    if matches!(written, TypeName::Named { .. }) && !is_native(written) {
        return invalid(format!("Non-frozen UDTs are not allowed inside collections: {}", type_text(whole)));
    }
    if matches!(written, TypeName::List(_) | TypeName::Set(_) | TypeName::Map(..)) {
        return invalid(format!(
            "Non-frozen collections are not allowed inside collections: {}",
            type_text(whole)
        ));
    }
    let ty = resolve_type(written, keyspace)?;
    if ty == CqlType::Counter {
        return invalid(format!("Counters are not allowed inside collections: {}", type_text(whole)));
    }
    Ok(ty)
}

fn kind_name(ty: &TypeName) -> &'static str {
    match ty {
        TypeName::List(_) => "list",
        TypeName::Set(_) => "set",
        _ => "map",
    }
}

fn user_type(of: Option<&str>, name: &str, keyspace: &Keyspace) -> Result<Arc<UdtType>> {
    if let Some(of) = of
        && of != &*keyspace.name
    {
        return invalid(format!(
            "Statement on keyspace {} cannot refer to a user type in keyspace {of}; user types can only be used in \
             the keyspace they are defined in",
            keyspace.name
        ));
    }
    match keyspace.types.get(name) {
        Some(udt) => Ok(udt.clone()),
        None => invalid(format!("Unknown type {}.{name}", keyspace.name)),
    }
}
