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

    /// True for a list, set or map stored as one cell per element.
    pub fn is_multi_cell(&self) -> bool {
        matches!(self, CqlType::List(_) | CqlType::Set(_) | CqlType::Map(_, _))
    }

    /// True for a list, set or map, frozen or not.
    pub fn is_collection(&self) -> bool {
        self.unfrozen().is_multi_cell()
    }

    /// True for counters.
    pub fn is_counter(&self) -> bool {
        matches!(self, CqlType::Counter)
    }

    /// True when a column of this type may be part of a key.
    pub fn is_orderable(&self) -> bool {
        match self {
            CqlType::Duration | CqlType::Counter => false,
            CqlType::List(e) | CqlType::Set(e) | CqlType::Vector(e, _) => e.is_orderable(),
            CqlType::Map(k, v) => k.is_orderable() && v.is_orderable(),
            CqlType::Tuple(fields) => fields.iter().all(CqlType::is_orderable),
            CqlType::Udt(udt) => udt.fields.iter().all(|(_, ty)| ty.is_orderable()),
            CqlType::Frozen(inner) => inner.is_orderable(),
            _ => true,
        }
    }

    /// The type of the path of one cell of a collection: timeuuid for a list, the element of a set, the key of a map.
    pub fn cell_path_type(&self) -> Option<CqlType> {
        match self.unfrozen() {
            CqlType::List(_) => Some(CqlType::Timeuuid),
            CqlType::Set(element) => Some((**element).clone()),
            CqlType::Map(key, _) => Some((**key).clone()),
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
            CqlType::Uuid | CqlType::Timeuuid => Some(16),
            CqlType::Vector(e, n) => e.fixed_len().map(|len| len * *n as usize),
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
    if plain { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
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
