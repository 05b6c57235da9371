//! Cassandra's class names of types, as sstables and custom types of the native protocol spell them:
//! `org.apache.cassandra.db.marshal.MapType(org.apache.cassandra.db.marshal.UTF8Type,org.apache.cassandra.db.marshal.Int32Type)`.

use crate::cql_type::{CqlType, UdtType};
use crate::error::TypeError;
use crate::limits::{FIELDS_MAX, TYPE_DEPTH_MAX, TYPE_TEXT_BYTES_MAX, VECTOR_DIMENSION_MAX};
use std::sync::Arc;

/// Before every class name.
pub const PREFIX: &str = "org.apache.cassandra.db.marshal.";

const CLASSES: [(CqlType, &str); 22] = [
    (CqlType::Ascii, "AsciiType"),
    (CqlType::Bigint, "LongType"),
    (CqlType::Blob, "BytesType"),
    (CqlType::Boolean, "BooleanType"),
    (CqlType::Counter, "CounterColumnType"),
    (CqlType::Decimal, "DecimalType"),
    (CqlType::Double, "DoubleType"),
    (CqlType::Float, "FloatType"),
    (CqlType::Int, "Int32Type"),
    (CqlType::Text, "UTF8Type"),
    (CqlType::Timestamp, "TimestampType"),
    (CqlType::Uuid, "UUIDType"),
    (CqlType::Varint, "IntegerType"),
    (CqlType::Timeuuid, "TimeUUIDType"),
    (CqlType::Inet, "InetAddressType"),
    (CqlType::Date, "SimpleDateType"),
    (CqlType::Time, "TimeType"),
    (CqlType::Smallint, "ShortType"),
    (CqlType::Tinyint, "ByteType"),
    (CqlType::Duration, "DurationType"),
    (CqlType::Empty, "EmptyType"),
    (CqlType::LexicalUuid, "LexicalUUIDType"),
];

/// Classes of before there were better ones, with the types that Cassandra takes them for: its schema keeps their names of CQL, so that
/// they are gone when it starts again. Where rows are ordered by the first, dates before 1970 come last: see
/// [`is_ordered_otherwise`].
const OLDER_CLASSES: [(CqlType, &str); 2] =
    [(CqlType::Timestamp, "DateType"), (CqlType::Timeuuid, "LegacyTimeUUIDType")];

/// Whether the values of a class that is read as a type have another order than the type's.
pub fn is_ordered_otherwise(class: &str) -> bool {
    class.split(['(', ')', ',', ' ']).any(|word| word.strip_prefix(PREFIX).unwrap_or(word) == "DateType")
}

impl CqlType {
    /// Cassandra's full class name.
    pub fn class_name(&self) -> String {
        let mut out = String::new();
        put(self, false, &mut out);
        out
    }

    /// Whether the class name reads back as what it was made of: it is neither too long nor nested too deeply. Types that
    /// do not must not come into a schema, which is kept by class names.
    /// Cost: bounded by the limits, however large the type is.
    pub fn is_readable(&self) -> bool {
        let mut left = TYPE_TEXT_BYTES_MAX;
        if !fits(self, 0, &mut left) {
            return false;
        }
        let name = self.class_name();
        CqlType::parse_class(&name).is_ok_and(|read| read.class_name() == name)
    }

    /// Parses a class name, full or short. `ReversedType(x)` gives `x`; unknown classes become [`CqlType::Custom`].
    pub fn parse_class(text: &str) -> Result<CqlType, TypeError> {
        Ok(CqlType::parse_class_reversed(text)?.0)
    }

    /// Parses a class name and tells whether it was wrapped in `ReversedType`.
    pub fn parse_class_reversed(text: &str) -> Result<(CqlType, bool), TypeError> {
        if text.len() > TYPE_TEXT_BYTES_MAX {
            return Err(TypeError::Name("type class name too long".into()));
        }
        let mut parser = Parser { rest: text, text };
        let parsed = parser.ty(0)?;
        if parser.rest.trim().is_empty() { Ok(parsed) } else { Err(parser.bad()) }
    }
}

/// Takes from `left` what a class name has at least; false when there is not enough. User types share their definitions,
/// so that a name may be exponentially longer than what it took to define it.
fn fits(ty: &CqlType, depth: usize, left: &mut usize) -> bool {
    // A frozen mark may be left out of the name, but is a level here.
    if depth > 2 * TYPE_DEPTH_MAX {
        return false;
    }
    let own = match ty {
        CqlType::Custom(class) => class.len(),
        CqlType::Frozen(_) => 0,
        _ => PREFIX.len(),
    };
    let Some(rest) = left.checked_sub(own) else { return false };
    *left = rest;
    match ty {
        CqlType::List(e) | CqlType::Set(e) | CqlType::Vector(e, _) | CqlType::Frozen(e) => {
            fits(e, depth + 1, left)
        }
        CqlType::Map(key, value) => fits(key, depth + 1, left) && fits(value, depth + 1, left),
        CqlType::Tuple(fields) => fields.iter().all(|field| fits(field, depth + 1, left)),
        CqlType::Udt(udt) => udt.fields.iter().all(|(_, field)| fits(field, depth + 1, left)),
        _ => true,
    }
}

/// Inside a frozen type the marks of the types within are left out, as Cassandra does.
fn put(ty: &CqlType, in_frozen: bool, out: &mut String) {
    match ty {
        CqlType::Custom(class) => return out.push_str(class),
        CqlType::Frozen(inner) if in_frozen || matches!(**inner, CqlType::Tuple(_)) => {
            return put(inner, true, out);
        }
        _ => out.push_str(PREFIX),
    }
    if let Some((_, name)) = CLASSES.iter().find(|(scalar, _)| scalar == ty) {
        return out.push_str(name);
    }
    match ty {
        CqlType::List(e) => put_list("ListType(", [&**e], in_frozen, out),
        CqlType::Set(e) => put_list("SetType(", [&**e], in_frozen, out),
        CqlType::Map(k, v) => put_list("MapType(", [&**k, &**v], in_frozen, out),
        CqlType::Tuple(fields) => put_list("TupleType(", fields.iter(), true, out),
        CqlType::Frozen(inner) => put_list("FrozenType(", [&**inner], true, out),
        CqlType::Vector(e, n) => {
            out.push_str("VectorType(");
            put(e, in_frozen, out);
            out.push_str(&format!(" , {n})"));
        }
        CqlType::Udt(udt) => {
            out.push_str(&format!("UserType({},{}", udt.keyspace, hex(&udt.name)));
            for (name, ty) in &udt.fields {
                out.push_str(&format!(",{}:", hex(name)));
                put(ty, in_frozen, out);
            }
            out.push(')');
        }
        _ => unreachable!("scalars and custom types were handled"),
    }
}

fn put_list<'t>(open: &str, types: impl IntoIterator<Item = &'t CqlType>, in_frozen: bool, out: &mut String) {
    out.push_str(open);
    for (i, ty) in types.into_iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        put(ty, in_frozen, out);
    }
    out.push(')');
}

fn hex(text: &str) -> String {
    text.bytes().map(|b| format!("{b:02x}")).collect()
}

struct Parser<'t> {
    rest: &'t str,
    text: &'t str,
}

impl<'t> Parser<'t> {
    fn bad(&self) -> TypeError {
        TypeError::Name(format!("Unable to parse type class '{}'", self.text))
    }

    fn take(&mut self, symbol: char) -> bool {
        self.rest = self.rest.trim_start();
        match self.rest.strip_prefix(symbol) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, symbol: char) -> Result<(), TypeError> {
        if self.take(symbol) { Ok(()) } else { Err(self.bad()) }
    }

    fn word(&mut self) -> Result<&'t str, TypeError> {
        self.rest = self.rest.trim_start();
        let end = self.rest.find(|c: char| "(),:=> ".contains(c)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        if word.is_empty() { Err(self.bad()) } else { Ok(word) }
    }

    fn hex_word(&mut self) -> Result<Arc<str>, TypeError> {
        let word = self.word()?;
        let bytes = crate::text::parse_hex(word).ok_or_else(|| self.bad())?;
        let name = String::from_utf8(bytes).map_err(|_| self.bad())?;
        Ok(name.into())
    }

    fn ty(&mut self, depth: usize) -> Result<(CqlType, bool), TypeError> {
        if depth > TYPE_DEPTH_MAX {
            return Err(TypeError::Name("type nested too deeply".into()));
        }
        self.rest = self.rest.trim_start();
        let start = self.rest;
        let word = self.word()?;
        let name = word.strip_prefix(PREFIX).unwrap_or(word);
        if let Some((ty, _)) = CLASSES.iter().chain(&OLDER_CLASSES).find(|(_, n)| *n == name) {
            return Ok((ty.clone(), false));
        }
        let known = [
            "ReversedType",
            "FrozenType",
            "ListType",
            "SetType",
            "MapType",
            "TupleType",
            "UserType",
            "VectorType",
        ];
        if !known.contains(&name) || !self.take('(') {
            self.skip_parameters()?;
            let used = start.len() - self.rest.len();
            return Ok((CqlType::Custom(start[..used].into()), false));
        }
        if name == "UserType" {
            let ty = self.user_type(depth)?;
            self.expect(')')?;
            return Ok((ty, false));
        }
        let first = self.ty(depth + 1)?.0;
        let ty = match name {
            "ReversedType" => {
                self.expect(')')?;
                return Ok((first, true));
            }
            "FrozenType" => first.frozen(),
            "ListType" => CqlType::list(first),
            "SetType" => CqlType::set(first),
            "MapType" => {
                self.expect(',')?;
                CqlType::map(first, self.ty(depth + 1)?.0)
            }
            "VectorType" => {
                self.expect(',')?;
                match self.word()?.parse::<u32>() {
                    Ok(n) if 0 < n && n <= VECTOR_DIMENSION_MAX => CqlType::Vector(Arc::new(first), n),
                    _ => return Err(self.bad()),
                }
            }
            _ => {
                let mut fields = vec![first];
                while self.take(',') {
                    fields.push(self.ty(depth + 1)?.0);
                }
                self.check_fields(fields.len())?;
                CqlType::tuple(fields).frozen()
            }
        };
        self.expect(')')?;
        Ok((ty, false))
    }

    fn check_fields(&self, count: usize) -> Result<(), TypeError> {
        if count <= FIELDS_MAX { Ok(()) } else { Err(TypeError::Name("type has too many fields".into())) }
    }

    fn user_type(&mut self, depth: usize) -> Result<CqlType, TypeError> {
        let keyspace: Arc<str> = self.word()?.into();
        self.expect(',')?;
        let name = self.hex_word()?;
        let mut fields = Vec::new();
        while self.take(',') {
            let field = self.hex_word()?;
            self.expect(':')?;
            fields.push((field, self.ty(depth + 1)?.0));
        }
        self.check_fields(fields.len())?;
        Ok(CqlType::Udt(Arc::new(UdtType { keyspace, name, fields })))
    }

    /// Skips the parenthesised parameters of a class nobody here knows.
    fn skip_parameters(&mut self) -> Result<(), TypeError> {
        if !self.rest.starts_with('(') {
            return Ok(());
        }
        let mut open = 0usize;
        for (at, c) in self.rest.char_indices() {
            match c {
                '(' => open += 1,
                ')' => open -= 1,
                _ => {}
            }
            if open == 0 {
                self.rest = &self.rest[at + 1..];
                return Ok(());
            }
        }
        Err(self.bad())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full(short: &str) -> String {
        // Every word that ends in "Type" gets the prefix.
        let mut out = String::new();
        let mut word = String::new();
        for c in short.chars().chain(['\n']) {
            if c.is_ascii_alphanumeric() {
                word.push(c);
                continue;
            }
            if word.ends_with("Type") {
                out.push_str(PREFIX);
            }
            out.push_str(&word);
            word.clear();
            if c != '\n' {
                out.push(c);
            }
        }
        out
    }

    #[test]
    fn names_as_cassandra_writes_them() {
        for (cql, class) in [
            ("int", "Int32Type"),
            ("list<int>", "ListType(Int32Type)"),
            ("frozen<list<int>>", "FrozenType(ListType(Int32Type))"),
            ("frozen<list<frozen<set<int>>>>", "FrozenType(ListType(SetType(Int32Type)))"),
            ("map<text, frozen<list<int>>>", "MapType(UTF8Type,FrozenType(ListType(Int32Type)))"),
            ("frozen<tuple<int, frozen<list<int>>>>", "TupleType(Int32Type,ListType(Int32Type))"),
            ("vector<float, 3>", "VectorType(FloatType , 3)"),
        ] {
            let ty = CqlType::parse(cql).expect(cql);
            assert_eq!(ty.class_name(), full(class));
            assert_eq!(CqlType::parse_class(&full(class)), Ok(ty), "{class}");
        }
    }

    #[test]
    fn user_types_and_reversed_types() {
        let udt = CqlType::Udt(Arc::new(UdtType {
            keyspace: "ks".into(),
            name: "addr".into(),
            fields: vec![("a".into(), CqlType::Text), ("b".into(), CqlType::set(CqlType::Int))],
        }));
        let class = full("UserType(ks,61646472,61:UTF8Type,62:SetType(Int32Type))");
        assert_eq!(udt.class_name(), class);
        assert_eq!(CqlType::parse_class(&class), Ok(udt.clone()));
        let frozen = udt.frozen();
        assert_eq!(
            frozen.class_name(),
            full("FrozenType(UserType(ks,61646472,61:UTF8Type,62:SetType(Int32Type)))")
        );
        let reversed = full("ReversedType(LongType)");
        assert_eq!(CqlType::parse_class_reversed(&reversed), Ok((CqlType::Bigint, true)));
    }

    #[test]
    fn types_too_large_or_deep_for_a_name() {
        let nested = |levels: usize| (0..levels).fold(CqlType::Int, |ty, _| CqlType::list(ty).frozen());
        assert!(nested(20).is_readable());
        assert!(!nested(40).is_readable() && !nested(200).is_readable());
        let user = |name: String, ty: CqlType, fields: usize| {
            let fields = (0..fields).map(|field| (format!("f{field}").into(), ty.clone())).collect();
            CqlType::Udt(Arc::new(UdtType { keyspace: "ks".into(), name: name.into(), fields })).frozen()
        };
        assert!(user("u".into(), CqlType::Text, 1000).is_readable());
        assert!(!user("u".into(), CqlType::Text, 1025).is_readable());
        // Thirty levels of ten fields each: 10^30 fields in all.
        let wide = (0..30).fold(CqlType::Int, |ty, level| user(format!("u{level}"), ty, 10));
        assert!(!wide.is_readable());
        let frozen_inside = user("u".into(), CqlType::set(CqlType::Int).frozen(), 2);
        assert!(frozen_inside.is_readable());
    }

    #[test]
    fn classes_of_before_there_were_better_ones() {
        let lexical = full("LexicalUUIDType");
        assert_eq!(CqlType::parse_class("LexicalUUIDType"), Ok(CqlType::LexicalUuid));
        assert_eq!(CqlType::LexicalUuid.class_name(), lexical);
        let text = CqlType::set(CqlType::LexicalUuid).frozen().to_string();
        assert_eq!(text, format!("frozen<set<'{lexical}'>>"));
        assert_eq!(CqlType::parse_class(&full("DateType")), Ok(CqlType::Timestamp));
        assert_eq!(CqlType::parse_class(&full("LegacyTimeUUIDType")), Ok(CqlType::Timeuuid));
        assert_eq!(CqlType::parse_class(&full("FrozenType(Int32Type)")), Ok(CqlType::Int));
        for class in ["DateType", "ReversedType(DateType)", "SetType(DateType)"] {
            assert!(is_ordered_otherwise(class) && is_ordered_otherwise(&full(class)), "{class}");
        }
        assert!(!is_ordered_otherwise(&full("ListType(SimpleDateType)")));
    }

    #[test]
    fn unknown_and_damaged_names() {
        assert_eq!(
            CqlType::parse_class("org.example.Odd(a,b(c))"),
            Ok(CqlType::Custom("org.example.Odd(a,b(c))".into()))
        );
        for bad in [
            "",
            "ListType(",
            "ListType()",
            "ListType(Int32Type",
            "Odd(((",
            "Int32Type)",
            "VectorType(Int32Type , x)",
            "UserType(ks,zz)",
        ] {
            assert!(CqlType::parse_class(bad).is_err(), "{bad}");
        }
        assert!(CqlType::parse_class(&"FrozenType(".repeat(1000)).is_err());
    }
}
