//! Expressions written back as Cassandra writes them: the names of result columns, and parts of error texts.

use crate::arithmetic::symbol;
use crate::ast::{Expr, TypeName};

/// How Cassandra names a result column.
pub(crate) fn text_of(expr: &Expr) -> String {
    text(expr, "system.")
}

/// How Cassandra writes back a value of a statement: names of functions as they were written.
pub(crate) fn value_text(expr: &Expr) -> String {
    text(expr, "")
}

/// `native`: what stands in front of the names of native functions.
fn text(expr: &Expr, native: &str) -> String {
    let text_of = |expr: &Expr| text(expr, native);
    let list = |items: &[Expr]| items.iter().map(text_of).collect::<Vec<_>>().join(", ");
    match expr {
        Expr::Column(name) => name.clone(),
        Expr::CountRows => "count".to_string(),
        Expr::Call { function, arguments } => {
            let special = matches!(function.name.as_str(), "writetime" | "ttl" | "maxwritetime");
            let name = &function.name;
            let prefix = match &function.keyspace {
                Some(keyspace) => format!("{keyspace}."),
                None if special => String::new(),
                None => native.to_string(),
            };
            format!("{prefix}{name}({})", list(arguments))
        }
        Expr::Cast(inner, ty) => format!("cast({} as {})", text_of(inner), type_text(ty)),
        Expr::TypeHint(ty, inner) => format!("({}){}", type_text(ty), text_of(inner)),
        Expr::Field(inner, field) => format!("{}.{field}", text_of(inner)),
        Expr::Element(inner, key) => format!("{}[{}]", text_of(inner), value_text(key)),
        Expr::Text(text) => types::text::quote(text),
        Expr::Integer(text) | Expr::Float(text) | Expr::Duration(text) => text.clone(),
        Expr::Boolean(value) => value.to_string(),
        Expr::Uuid(value) => uuid::Uuid::from_u128(*value).to_string(),
        Expr::Hex(digits) => format!("0x{digits}"),
        Expr::Null => "NULL".to_string(),
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
        Expr::Slice(inner, from, to) => {
            let end = |end: &Option<Box<Expr>>| end.as_deref().map(value_text).unwrap_or_default();
            format!("{}[{}..{}]", text_of(inner), end(from), end(to))
        }
        Expr::Arithmetic(operator, left, right) => {
            format!("{} {} {}", text_of(left), symbol(*operator), text_of(right))
        }
        Expr::Negate(inner) => format!("-{}", text_of(inner)),
    }
}

/// A type as it was written.
pub fn type_text(ty: &TypeName) -> String {
    let list = |items: &[TypeName]| items.iter().map(type_text).collect::<Vec<_>>().join(", ");
    match ty {
        TypeName::Named { keyspace: Some(keyspace), name, .. } => format!("{keyspace}.{name}"),
        TypeName::Named { name, .. } => name.clone(),
        TypeName::Frozen(inner) => format!("frozen<{}>", type_text(inner)),
        TypeName::List(inner) => format!("list<{}>", type_text(inner)),
        TypeName::Set(inner) => format!("set<{}>", type_text(inner)),
        TypeName::Map(key, value) => format!("map<{}, {}>", type_text(key), type_text(value)),
        TypeName::Tuple(items) => format!("tuple<{}>", list(items)),
        TypeName::Vector(inner, count) => format!("vector<{}, {count}>", type_text(inner)),
        TypeName::Custom(class) => format!("'{class}'"),
    }
}
