//! The types of CQL.
//!
//! `Frozen` marks a list, set, map or user type stored as one value; everything inside a frozen type is frozen too, and
//! [`CqlType::frozen`] makes it so. Tuples and vectors are always one value and never carry the mark.

use std::fmt;
use std::sync::Arc;

/// A CQL type. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum CqlType {
    /// Text of bytes below 128.
    Ascii,
    /// 64-bit signed integer.
    Bigint,
    /// Any bytes.
    Blob,
    /// True or false.
    Boolean,
    /// A counter; its value on the wire is a 64-bit integer.
    Counter,
    /// Decimal number of any precision.
    Decimal,
    /// 64-bit floating point.
    Double,
    /// 32-bit floating point.
    Float,
    /// 32-bit signed integer.
    Int,
    /// UTF-8 text.
    Text,
    /// Milliseconds since the Unix epoch.
    Timestamp,
    /// Any UUID.
    Uuid,
    /// Integer of any size.
    Varint,
    /// A version 1 UUID, ordered by its time.
    Timeuuid,
    /// IPv4 or IPv6 address.
    Inet,
    /// Days, 2^31 being 1970-01-01.
    Date,
    /// Nanoseconds since midnight.
    Time,
    /// 16-bit signed integer.
    Smallint,
    /// 8-bit signed integer.
    Tinyint,
    /// Months, days and nanoseconds.
    Duration,
    /// The type with one value of no bytes.
    Empty,
    /// Ordered elements.
    List(Arc<CqlType>),
    /// Distinct elements in their order.
    Set(Arc<CqlType>),
    /// Values by key.
    Map(Arc<CqlType>, Arc<CqlType>),
    /// A fixed sequence of fields.
    Tuple(Arc<[CqlType]>),
    /// Named fields.
    Udt(Arc<UdtType>),
    /// Exactly so many elements.
    Vector(Arc<CqlType>, u32),
    /// The type inside, stored as one value.
    Frozen(Arc<CqlType>),
    /// Any UUID, ordered as two signed numbers; CQL has no name for it but its class.
    LexicalUuid,
    /// A class this node does not know; its values are bytes.
    Custom(Arc<str>),
}

/// A user-defined type.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct UdtType {
    /// The keyspace that holds the type.
    pub keyspace: Arc<str>,
    /// The type's name, unquoted.
    pub name: Arc<str>,
    /// Field names (unquoted) and types, in order.
    pub fields: Vec<(Arc<str>, CqlType)>,
}

/// The scalar types with their CQL names.
pub(crate) const SCALARS: [(CqlType, &str); 21] = [
    (CqlType::Ascii, "ascii"),
    (CqlType::Bigint, "bigint"),
    (CqlType::Blob, "blob"),
    (CqlType::Boolean, "boolean"),
    (CqlType::Counter, "counter"),
    (CqlType::Decimal, "decimal"),
    (CqlType::Double, "double"),
    (CqlType::Float, "float"),
    (CqlType::Int, "int"),
    (CqlType::Text, "text"),
    (CqlType::Timestamp, "timestamp"),
    (CqlType::Uuid, "uuid"),
    (CqlType::Varint, "varint"),
    (CqlType::Timeuuid, "timeuuid"),
    (CqlType::Inet, "inet"),
    (CqlType::Date, "date"),
    (CqlType::Time, "time"),
    (CqlType::Smallint, "smallint"),
    (CqlType::Tinyint, "tinyint"),
    (CqlType::Duration, "duration"),
    (CqlType::Empty, "empty"),
];

impl CqlType {
    /// A list of this element, not frozen.
    pub fn list(element: CqlType) -> CqlType {
        CqlType::List(Arc::new(element))
    }

    /// A set of this element, not frozen.
    pub fn set(element: CqlType) -> CqlType {
        CqlType::Set(Arc::new(element))
    }

    /// A map, not frozen.
    pub fn map(key: CqlType, value: CqlType) -> CqlType {
        CqlType::Map(Arc::new(key), Arc::new(value))
    }

    /// A tuple of these fields.
    pub fn tuple(fields: Vec<CqlType>) -> CqlType {
        CqlType::Tuple(fields.into())
    }

    /// The same type stored as one value, and everything inside it too. Scalars, tuples and vectors come back without a mark.
    pub fn frozen(&self) -> CqlType {
        match self {
            CqlType::List(e) => CqlType::Frozen(Arc::new(CqlType::list(e.frozen()))),
            CqlType::Set(e) => CqlType::Frozen(Arc::new(CqlType::set(e.frozen()))),
            CqlType::Map(k, v) => CqlType::Frozen(Arc::new(CqlType::map(k.frozen(), v.frozen()))),
            CqlType::Tuple(fields) => CqlType::tuple(fields.iter().map(CqlType::frozen).collect()),
            CqlType::Vector(e, n) => CqlType::Vector(Arc::new(e.frozen()), *n),
            CqlType::Udt(_) => CqlType::Frozen(Arc::new(self.clone())),
            CqlType::Frozen(inner) => inner.frozen(),
            _ => self.clone(),
        }
    }

    /// The type without the frozen mark on its outside.
    pub fn unfrozen(&self) -> &CqlType {
        match self {
            CqlType::Frozen(inner) => inner.unfrozen(),
            other => other,
        }
    }

    /// True for a list, set, map or user type stored as one cell per element or field.
    pub fn is_multi_cell(&self) -> bool {
        matches!(self, CqlType::List(_) | CqlType::Set(_) | CqlType::Map(_, _) | CqlType::Udt(_))
    }

    /// True for a list, set or map, frozen or not.
    pub fn is_collection(&self) -> bool {
        matches!(self.unfrozen(), CqlType::List(_) | CqlType::Set(_) | CqlType::Map(_, _))
    }

    /// True for counters.
    pub fn is_counter(&self) -> bool {
        matches!(self, CqlType::Counter)
    }

    /// True when a column of this type may be part of a key.
    pub fn is_orderable(&self) -> bool {
        match self {
            CqlType::Duration | CqlType::Counter => false,
            CqlType::List(e) | CqlType::Set(e) => e.is_orderable(),
            CqlType::Map(k, v) => k.is_orderable() && v.is_orderable(),
            CqlType::Tuple(fields) => fields.iter().all(CqlType::is_orderable),
            CqlType::Udt(udt) => udt.fields.iter().all(|(_, ty)| ty.is_orderable()),
            CqlType::Frozen(inner) => inner.is_orderable(),
            _ => true,
        }
    }

    /// The type of the path of one cell: timeuuid for a list, the element of a set, the key of a map, the place of a
    /// user type's field as smallint.
    pub fn cell_path_type(&self) -> Option<CqlType> {
        match self.unfrozen() {
            CqlType::List(_) => Some(CqlType::Timeuuid),
            CqlType::Set(element) => Some((**element).clone()),
            CqlType::Map(key, _) => Some((**key).clone()),
            CqlType::Udt(_) => Some(CqlType::Smallint),
            _ => None,
        }
    }

    /// The element of a list, set or vector, the value of a map.
    pub fn element_type(&self) -> Option<&CqlType> {
        match self.unfrozen() {
            CqlType::List(e) | CqlType::Set(e) | CqlType::Vector(e, _) | CqlType::Map(_, e) => Some(e),
            _ => None,
        }
    }

    /// The length of every value on disk, for the types whose values carry no length there. Note that tinyint, smallint, date and time do.
    pub fn fixed_len(&self) -> Option<usize> {
        match self {
            CqlType::Empty => Some(0),
            CqlType::Boolean => Some(1),
            CqlType::Int | CqlType::Float => Some(4),
            CqlType::Bigint | CqlType::Double | CqlType::Timestamp => Some(8),
            CqlType::Uuid | CqlType::Timeuuid | CqlType::LexicalUuid => Some(16),
            CqlType::Vector(e, n) => e.fixed_len().map(|len| len.saturating_mul(*n as usize)),
            CqlType::Frozen(inner) => inner.fixed_len(),
            _ => None,
        }
    }

    /// Whether a value of no bytes stands for "no value": true for all but the types that are byte strings.
    pub fn empty_is_no_value(&self) -> bool {
        !matches!(
            self.unfrozen(),
            CqlType::Ascii
                | CqlType::Text
                | CqlType::Blob
                | CqlType::Inet
                | CqlType::Duration
                | CqlType::Custom(_)
        )
    }

    /// The type with every mention of a user type replaced by its new definition; user types that use it are followed.
    pub fn with_udt(&self, new: &Arc<UdtType>) -> CqlType {
        let inside = |ty: &CqlType| Arc::new(ty.with_udt(new));
        match self {
            CqlType::List(e) => CqlType::List(inside(e)),
            CqlType::Set(e) => CqlType::Set(inside(e)),
            CqlType::Vector(e, n) => CqlType::Vector(inside(e), *n),
            CqlType::Map(k, v) => CqlType::Map(inside(k), inside(v)),
            CqlType::Tuple(fields) => CqlType::tuple(fields.iter().map(|ty| ty.with_udt(new)).collect()),
            CqlType::Udt(udt) if udt.keyspace == new.keyspace && udt.name == new.name => {
                CqlType::Udt(new.clone())
            }
            CqlType::Udt(udt) => {
                let fields = udt.fields.iter().map(|(name, ty)| (name.clone(), ty.with_udt(new))).collect();
                let (keyspace, name) = (udt.keyspace.clone(), udt.name.clone());
                CqlType::Udt(Arc::new(UdtType { keyspace, name, fields }))
            }
            CqlType::Frozen(inner) => CqlType::Frozen(inside(inner)),
            other => other.clone(),
        }
    }

    /// The type with tuples in place of user types, whose values have the same bytes. A user type of many cells stays.
    pub fn with_tuples(&self) -> CqlType {
        let inside = |ty: &CqlType| Arc::new(ty.with_tuples_inside());
        match self {
            CqlType::List(e) => CqlType::List(inside(e)),
            CqlType::Set(e) => CqlType::Set(inside(e)),
            CqlType::Vector(e, n) => CqlType::Vector(inside(e), *n),
            CqlType::Map(k, v) => CqlType::Map(inside(k), inside(v)),
            CqlType::Tuple(fields) => {
                CqlType::tuple(fields.iter().map(CqlType::with_tuples_inside).collect())
            }
            CqlType::Frozen(inner) => CqlType::Frozen(inside(inner)),
            other => other.clone(),
        }
    }

    /// As [`CqlType::with_tuples`] where everything is one value.
    fn with_tuples_inside(&self) -> CqlType {
        match self {
            CqlType::Udt(udt) => {
                CqlType::tuple(udt.fields.iter().map(|(_, ty)| ty.with_tuples_inside().frozen()).collect())
            }
            other => other.with_tuples(),
        }
    }

    /// True when values of `old` bytes can be read as values of this type without a change of their form on disk:
    /// what a dropped column may come back as.
    pub fn reads_bytes_of(&self, old: &CqlType) -> bool {
        self.is_multi_cell() == old.is_multi_cell() && self.reads_form_of(old)
    }

    /// Whether values are the same bytes, and elements of lists and values of maps are, which have a form of their own.
    fn reads_form_of(&self, old: &CqlType) -> bool {
        use CqlType as T;
        let elements = match (self.unfrozen(), old.unfrozen()) {
            (T::List(new), T::List(old)) | (T::Map(_, new), T::Map(_, old)) => new.reads_form_of(old),
            (T::Vector(new, _), T::Vector(old, _)) => new.is_same_bytes(old),
            _ => true,
        };
        elements && self.fixed_len() == old.fixed_len() && self.reads_values_of(old)
    }

    fn reads_values_of(&self, old: &CqlType) -> bool {
        use CqlType as T;
        let fields = |new: &[&CqlType], old: &[&CqlType]| {
            new.len() >= old.len() && old.iter().zip(new).all(|(old, new)| new.reads_values_of(old))
        };
        match (self, old) {
            (new, old) if new == old => true,
            // What a counter counted is in its shards.
            // Of a class that is not known, nor is whether its values have lengths.
            (T::Blob, old) => !old.is_multi_cell() && !matches!(old, T::Counter | T::Custom(_)),
            (T::Text, T::Ascii)
            | (T::Uuid, T::Timeuuid)
            | (T::Varint, T::Int | T::Bigint | T::Timestamp)
            | (T::Bigint, T::Timestamp)
            | (T::Timestamp, T::Bigint) => true,
            (T::List(new), T::List(old)) => new.reads_values_of(old),
            // The order of cells is the order of their paths.
            (T::Set(new), T::Set(old)) => new.is_kept_as(old),
            (T::Map(k, v), T::Map(old_k, old_v)) => k.is_kept_as(old_k) && v.reads_values_of(old_v),
            (T::Tuple(new), T::Tuple(old)) => {
                fields(&new.iter().collect::<Vec<_>>(), &old.iter().collect::<Vec<_>>())
            }
            // As a dropped column's is kept.
            (T::Tuple(new), T::Udt(old)) => fields(
                &new.iter().collect::<Vec<_>>(),
                &old.fields.iter().map(|(_, ty)| ty).collect::<Vec<_>>(),
            ),
            (T::Udt(new), T::Udt(old)) => {
                let types = |udt: &UdtType| udt.fields.iter().map(|(_, ty)| ty.clone()).collect::<Vec<_>>();
                let (new_types, old_types) = (types(new), types(old));
                new.name == old.name
                    && fields(&new_types.iter().collect::<Vec<_>>(), &old_types.iter().collect::<Vec<_>>())
            }
            // Elements have lengths or have none.
            (T::Vector(new, n), T::Vector(old, m)) => {
                n == m && new.fixed_len() == old.fixed_len() && new.reads_values_of(old)
            }
            // Inside of a frozen type the mark is often left out, and says nothing.
            (T::Frozen(new), old) => new.reads_values_of(old),
            (new, T::Frozen(old)) => new.reads_values_of(old),
            _ => false,
        }
    }

    /// Whether values of `other` are values of this type, too, in the same order: whatever is marked as frozen, whose
    /// keyspace a user type is of.
    fn is_kept_as(&self, other: &CqlType) -> bool {
        use CqlType as T;
        match (self.unfrozen(), other.unfrozen()) {
            (T::List(a), T::List(b)) | (T::Set(a), T::Set(b)) => a.is_kept_as(b),
            (T::Map(k, v), T::Map(k2, v2)) => k.is_kept_as(k2) && v.is_kept_as(v2),
            // Fields more are null in older values.
            (T::Tuple(a), T::Tuple(b)) => {
                a.len() >= b.len() && a.iter().zip(b.iter()).all(|(a, b)| a.is_kept_as(b))
            }
            (T::Udt(a), T::Tuple(b)) => {
                a.fields.len() >= b.len() && a.fields.iter().zip(b.iter()).all(|((_, a), b)| a.is_kept_as(b))
            }
            (T::Tuple(a), T::Udt(b)) => {
                let fields = || b.fields.iter().map(|(_, ty)| ty);
                a.len() >= b.fields.len() && a.iter().zip(fields()).all(|(a, b)| a.is_kept_as(b))
            }
            (T::Udt(a), T::Udt(b)) => {
                let pairs = || a.fields.iter().zip(&b.fields);
                a.name == b.name
                    && a.fields.len() == b.fields.len()
                    && pairs().all(|(a, b)| a.1.is_kept_as(&b.1))
            }
            (T::Vector(a, n), T::Vector(b, m)) => n == m && a.is_kept_as(b),
            (T::Blob, T::Text | T::Ascii) | (T::Text, T::Ascii) => true,
            (a, b) => a == b,
        }
    }

    /// Whether values are the same bytes and nothing else: whatever is marked as frozen.
    fn is_same_bytes(&self, other: &CqlType) -> bool {
        self.is_kept_as(other) && other.is_kept_as(self)
    }

    /// True when the type or a type inside it is this user type.
    pub fn mentions(&self, keyspace: &str, name: &str) -> bool {
        match self {
            CqlType::List(e) | CqlType::Set(e) | CqlType::Vector(e, _) => e.mentions(keyspace, name),
            CqlType::Map(k, v) => k.mentions(keyspace, name) || v.mentions(keyspace, name),
            CqlType::Tuple(fields) => fields.iter().any(|ty| ty.mentions(keyspace, name)),
            CqlType::Udt(udt) => {
                (&*udt.keyspace == keyspace && &*udt.name == name)
                    || udt.fields.iter().any(|(_, ty)| ty.mentions(keyspace, name))
            }
            CqlType::Frozen(inner) => inner.mentions(keyspace, name),
            _ => false,
        }
    }
}

/// A name as CQL writes it: quoted unless it is lower case, digits and underscores, starting with a letter.
pub fn quoted(name: &str) -> String {
    let plain = name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    if plain { name.to_owned() } else { crate::text::quote_name(name) }
}

impl fmt::Display for CqlType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((_, name)) = SCALARS.iter().find(|(ty, _)| ty == self) {
            return f.write_str(name);
        }
        match self {
            CqlType::List(e) => write!(f, "list<{e}>"),
            CqlType::Set(e) => write!(f, "set<{e}>"),
            CqlType::Map(k, v) => write!(f, "map<{k}, {v}>"),
            CqlType::Vector(e, n) => write!(f, "vector<{e}, {n}>"),
            CqlType::Udt(udt) => f.write_str(&quoted(&udt.name)),
            CqlType::LexicalUuid => write!(f, "'{}'", self.class_name()),
            CqlType::Custom(class) => write!(f, "'{class}'"),
            CqlType::Frozen(inner) => match &**inner {
                CqlType::Tuple(_) | CqlType::Frozen(_) => inner.fmt(f),
                _ => write!(f, "frozen<{inner}>"),
            },
            CqlType::Tuple(fields) => {
                f.write_str("frozen<tuple<")?;
                for (i, field) in fields.iter().enumerate() {
                    let comma = if i == 0 { "" } else { ", " };
                    write!(f, "{comma}{field}")?;
                }
                f.write_str(">>")
            }
            _ => unreachable!("the table of scalars holds every other type"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn udt(name: &str, fields: &[(&str, CqlType)]) -> Arc<UdtType> {
        let fields = fields.iter().map(|(name, ty)| ((*name).into(), ty.clone())).collect();
        Arc::new(UdtType { keyspace: "ks".into(), name: name.into(), fields })
    }

    #[test]
    fn a_changed_user_type_is_changed_wherever_it_is_used() {
        let old = udt("a", &[("x", CqlType::Int)]);
        let new = udt("a", &[("x", CqlType::Int), ("y", CqlType::Text)]);
        let used = |a: &Arc<UdtType>| {
            let a = CqlType::Udt(a.clone());
            let outer = CqlType::Udt(udt("b", &[("n", a.frozen()), ("m", CqlType::Int)]));
            vec![
                a.clone(),
                CqlType::list(a.frozen()),
                CqlType::map(CqlType::Text, CqlType::set(a.frozen()).frozen()),
                CqlType::tuple(vec![a.frozen(), CqlType::Int]),
                CqlType::Vector(Arc::new(a), 3),
                outer.frozen(),
            ]
        };
        for (before, after) in used(&old).iter().zip(used(&new)) {
            assert_eq!(before.with_udt(&new), after);
        }
        let other = udt("c", &[]);
        assert_eq!(used(&old)[5].with_udt(&other), used(&old)[5]);
    }

    #[test]
    fn what_a_dropped_column_may_come_back_as() {
        let ty = |text: &str| CqlType::parse(text).expect(text);
        for (new, old) in [
            ("text", "ascii"),
            ("blob", "text"),
            ("uuid", "timeuuid"),
            ("timestamp", "bigint"),
            ("list<text>", "list<ascii>"),
            ("frozen<list<blob>>", "frozen<list<text>>"),
            ("tuple<int, text>", "tuple<int>"),
            ("tuple<blob>", "tuple<int>"),
            ("list<blob>", "list<text>"),
            ("list<frozen<tuple<blob>>>", "list<frozen<tuple<int>>>"),
            ("set<blob>", "set<text>"),
            ("set<text>", "set<ascii>"),
            ("set<frozen<tuple<int, int>>>", "set<frozen<tuple<int>>>"),
            ("set<frozen<list<blob>>>", "set<frozen<list<text>>>"),
            ("map<text, blob>", "map<ascii, text>"),
            ("blob", "frozen<list<int>>"),
            ("blob", "vector<text, 3>"),
        ] {
            assert!(ty(new).reads_bytes_of(&ty(old)), "{new} reads {old}");
        }
        for (new, old) in [
            ("ascii", "text"),
            ("text", "int"),
            ("bigint", "int"),
            ("varint", "int"),
            ("blob", "int"),
            ("list<int>", "frozen<list<int>>"),
            ("set<int>", "list<int>"),
            ("set<text>", "set<blob>"),
            ("set<uuid>", "set<timeuuid>"),
            ("set<bigint>", "set<timestamp>"),
            ("list<bigint>", "list<int>"),
            ("list<blob>", "list<int>"),
            ("frozen<list<blob>>", "frozen<list<int>>"),
            ("list<frozen<list<blob>>>", "list<frozen<list<int>>>"),
            ("map<int, blob>", "map<int, int>"),
            ("map<int, frozen<map<int, blob>>>", "map<int, frozen<map<int, int>>>"),
            ("vector<text, 2>", "vector<ascii, 2>"),
            ("blob", "vector<int, 3>"),
            ("tuple<int>", "tuple<int, text>"),
            ("vector<int, 2>", "vector<int, 3>"),
            ("list<frozen<vector<varint, 2>>>", "list<frozen<vector<int, 2>>>"),
            ("tuple<vector<blob, 2>>", "tuple<vector<int, 2>>"),
            ("blob", "counter"),
        ] {
            assert!(!ty(new).reads_bytes_of(&ty(old)), "{new} must not read {old}");
        }
    }

    #[test]
    fn frozen_marks_inside_of_frozen_types_and_keyspaces_of_user_types_do_not_matter() {
        let of = |keyspace: &str, tags: CqlType| {
            let fields = vec![("tags".into(), tags)];
            CqlType::Udt(Arc::new(UdtType { keyspace: keyspace.into(), name: "place".into(), fields }))
        };
        let tags = || CqlType::set(CqlType::list(CqlType::Text).frozen());
        let live = of("ks", tags().frozen()).frozen();
        // As a header of Cassandra's says it.
        let unmarked = CqlType::set(CqlType::list(CqlType::Text));
        for other in [of("ks", unmarked.clone()).frozen(), of("other", unmarked).frozen()] {
            assert!(live.reads_bytes_of(&other) && other.reads_bytes_of(&live));
            let maps = [&live, &other].map(|key| CqlType::map(key.clone(), CqlType::Int));
            assert!(maps[0].reads_bytes_of(&maps[1]));
        }
        let another = of("ks", CqlType::set(CqlType::Blob)).frozen();
        assert!(!live.reads_bytes_of(&another));
    }

    #[test]
    fn many_elements_of_no_bytes_cost_nothing() {
        let ty = CqlType::Vector(Arc::new(CqlType::Empty), i32::MAX as u32);
        assert_eq!(ty.validate(&[]), Ok(()));
        let nested =
            CqlType::Vector(Arc::new(CqlType::Vector(Arc::new(CqlType::Double), u32::MAX)), u32::MAX);
        assert!(nested.validate(&[0; 64]).is_err());
        assert!(nested.fixed_len().is_some());
    }
}
