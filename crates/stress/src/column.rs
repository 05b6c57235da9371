//! Makes the values of a column of any table: which ones follows from a seed, the column's name and its type.
//!
//! ```text
//!  seed ^ salt ──► draw of the population ──┬─► number, date, uuid, …
//!                                           └─► seeds the size and the bytes of texts and blobs
//! ```
//! A value folds into a seed as well: so the values of a row follow from its key. None of this may ever change: what the Java tool
//! loads this one validates.

use crate::distribution::{Distribution, Sampler};
use crate::generate::{Fast, VALUE_BYTES_MAX, salt};
use crate::profile::ColumnSpec;
use std::cmp::Ordering;
use types::{CqlType, collection, timeuuid};

/// What the names of columns are salted with.
const SALT_PREFIX: &str = "seed for stress";
/// Draws of values are uniform over `1..=IDENTITY_MAX` by default.
const IDENTITY_MAX: i64 = 100_000_000_000;
/// Milliseconds of the latest date by default: fifty years.
const DATE_MAX: i64 = 50 * 365 * 24 * 3_600 * 1_000;
/// Bytes, letters or elements of a value by default.
const SIZE: (i64, i64) = (4, 8);
/// Elements of a collection: what the protocol can count.
const ELEMENTS_MAX: usize = 65_535;
/// Added to days before they are written: the day of the epoch is in the middle.
const DATE_MIDDLE: u32 = 1 << 31;

/// How a draw becomes a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Make {
    Text,
    Blob,
    Long,
    Int,
    Short,
    Byte,
    Date,
    True,
    Double,
    Float,
    Varint,
    Decimal,
    Uuid,
    Timeuuid,
    Inet,
    List,
    Set,
}

impl Make {
    /// `None` for types of which no values are made.
    fn of(ty: &CqlType) -> Option<Make> {
        Some(match ty.unfrozen() {
            CqlType::Ascii | CqlType::Text => Make::Text,
            CqlType::Blob => Make::Blob,
            CqlType::Bigint | CqlType::Counter | CqlType::Time | CqlType::Timestamp => Make::Long,
            CqlType::Int => Make::Int,
            CqlType::Smallint => Make::Short,
            CqlType::Tinyint => Make::Byte,
            CqlType::Date => Make::Date,
            CqlType::Boolean => Make::True,
            CqlType::Double => Make::Double,
            CqlType::Float => Make::Float,
            CqlType::Varint => Make::Varint,
            CqlType::Decimal => Make::Decimal,
            CqlType::Uuid => Make::Uuid,
            CqlType::Timeuuid => Make::Timeuuid,
            CqlType::Inet => Make::Inet,
            CqlType::List(_) => Make::List,
            CqlType::Set(_) => Make::Set,
            CqlType::Duration
            | CqlType::Empty
            | CqlType::Map(..)
            | CqlType::Tuple(_)
            | CqlType::Udt(_)
            | CqlType::Vector(..)
            | CqlType::Frozen(_)
            | CqlType::LexicalUuid
            | CqlType::Custom(_) => return None,
        })
    }
}

/// Makes the values of one column.
#[derive(Clone, Debug)]
pub struct Column {
    name: String,
    ty: CqlType,
    make: Make,
    salt: i64,
    identity: Sampler,
    size: Sampler,
    cluster: Sampler,
    element: Option<Box<Column>>,
    /// Element bytes of the collection that is made.
    scratch: Vec<Vec<u8>>,
}

impl Column {
    /// For a column as it is described; `None` when no values of its type can be made.
    pub fn new(name: &str, ty: &CqlType, spec: &ColumnSpec) -> Option<Column> {
        let make = Make::of(ty)?;
        let element = match ty.unfrozen() {
            CqlType::List(element) | CqlType::Set(element) => {
                let element = Column::new(name, element, spec)?;
                // A collection of collections has no sizes of its own.
                (element.element.is_none()).then_some(Some(Box::new(element)))?
            }
            _ => None,
        };
        let most = match make {
            Make::Timeuuid => DATE_MAX,
            _ if *ty == CqlType::Timestamp => DATE_MAX,
            _ => IDENTITY_MAX,
        };
        let sampler =
            |said: &Option<Distribution>, default: Distribution| said.clone().unwrap_or(default).sampler(0);
        Some(Column {
            name: name.to_owned(),
            ty: ty.clone(),
            make,
            salt: salt(&format!("{SALT_PREFIX}{name}")),
            identity: sampler(&spec.population, Distribution::uniform(1, most)),
            size: sampler(&spec.size, Distribution::uniform(SIZE.0, SIZE.1)),
            cluster: sampler(&spec.cluster, Distribution::fixed(1)),
            element,
            scratch: Vec::new(),
        })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its type.
    pub fn ty(&self) -> &CqlType {
        &self.ty
    }

    /// Values in a partition, of a clustering column.
    pub fn cluster(&self) -> &Distribution {
        self.cluster.distribution()
    }

    /// Draws from now on follow from a seed.
    pub fn seed(&mut self, seed: i64) {
        self.identity.set_seed(seed ^ self.salt);
        self.cluster.set_seed(seed ^ !self.salt);
        if let Some(element) = &mut self.element {
            element.seed(seed.wrapping_mul(31));
            self.size.set_seed(seed ^ self.salt);
        }
    }

    /// How many values this one has in a partition.
    pub fn count(&mut self) -> u64 {
        self.cluster.draw().max(1) as u64
    }

    /// Appends the next value as it is sent.
    pub fn put(&mut self, out: &mut Vec<u8>) {
        match self.make {
            Make::Double => out.extend_from_slice(&self.identity.next_double().to_be_bytes()),
            Make::Float => out.extend_from_slice(&(self.identity.next_double() as f32).to_be_bytes()),
            Make::List | Make::Set => self.put_elements(out),
            Make::Text
            | Make::Blob
            | Make::Long
            | Make::Int
            | Make::Short
            | Make::Byte
            | Make::Date
            | Make::True
            | Make::Varint
            | Make::Decimal
            | Make::Uuid
            | Make::Timeuuid
            | Make::Inet => {
                let draw = self.identity.draw();
                self.put_of(draw, out);
            }
        }
    }

    /// Appends the value of a draw.
    fn put_of(&mut self, draw: i64, out: &mut Vec<u8>) {
        match self.make {
            Make::Text | Make::Blob => {
                self.size.set_seed(draw);
                let size = usize::try_from(self.size.draw()).unwrap_or(0).min(VALUE_BYTES_MAX);
                let start = out.len();
                out.resize(start + size, 0);
                Fast::new(!draw).fill(&mut out[start..]);
                if self.make == Make::Text {
                    // Seven bits, moved by a space: letters, digits, and what comes before them.
                    out[start..].iter_mut().for_each(|byte| *byte = (*byte & 0x7f).wrapping_add(0x20) & 0x7f);
                }
            }
            Make::Long => out.extend_from_slice(&draw.to_be_bytes()),
            Make::Int | Make::Inet => out.extend_from_slice(&(draw as i32).to_be_bytes()),
            Make::Short => out.extend_from_slice(&(draw as i16).to_be_bytes()),
            Make::Byte => out.push(draw as u8),
            Make::Date => out.extend_from_slice(&(draw as u32).wrapping_add(DATE_MIDDLE).to_be_bytes()),
            Make::True => out.push(1),
            Make::Varint => put_shortest(draw, out),
            Make::Decimal => {
                out.extend_from_slice(&[0; 4]);
                put_shortest(draw, out);
            }
            Make::Uuid => {
                out.extend_from_slice(&draw.to_be_bytes());
                out.extend_from_slice(&draw.to_be_bytes());
            }
            Make::Timeuuid => {
                let id = timeuuid::from_ticks(draw.wrapping_mul(10_000), 0);
                out.extend_from_slice(&id.as_bytes()[..8]);
                out.extend_from_slice(&self.salt.to_be_bytes());
            }
            // They are not made of one draw.
            Make::Double | Make::Float | Make::List | Make::Set => {}
        }
    }

    fn put_elements(&mut self, out: &mut Vec<u8>) {
        let Some(element) = &mut self.element else { return };
        let count = usize::try_from(self.size.draw()).unwrap_or(0).min(ELEMENTS_MAX);
        self.scratch.clear();
        for _ in 0..count {
            let mut bytes = Vec::new();
            element.put(&mut bytes);
            self.scratch.push(bytes);
        }
        if self.make == Make::Set {
            let ty = element.ty.clone();
            self.scratch.sort_by(|a, b| ty.compare(a, b));
            self.scratch.dedup();
        }
        out.extend_from_slice(&collection::build(self.scratch.iter().map(Vec::as_slice)));
    }

    /// Folds one of its values into a seed.
    pub fn fold(&self, seed: i64, value: &[u8]) -> i64 {
        let number = |number: i64| seed.wrapping_mul(31).wrapping_add(number);
        match self.make {
            Make::Text | Make::Blob | Make::Inet | Make::True | Make::List | Make::Set => {
                crate::generate::fold(seed, value)
            }
            // To Java a date is no number: its bytes count.
            Make::Long if self.ty == CqlType::Timestamp => crate::generate::fold(seed, value),
            Make::Long | Make::Int | Make::Short | Make::Byte | Make::Varint => number(signed(value)),
            Make::Decimal => number(signed(value.get(4..).unwrap_or_default())),
            Make::Date => number(i64::from((signed(value) as u32).wrapping_sub(DATE_MIDDLE) as i32)),
            Make::Double => number(f64::from_bits(signed(value) as u64) as i64),
            Make::Float => number(f32::from_bits(signed(value) as u32) as i64),
            Make::Uuid | Make::Timeuuid => {
                let (high, low) = value.split_at(value.len() / 2);
                number(signed(low) ^ signed(high))
            }
        }
    }

    /// The order in which Java sorts its values; `None` for those that it does not sort.
    pub fn java_order(&self, a: &[u8], b: &[u8]) -> Option<Ordering> {
        Some(match self.make {
            Make::Text | Make::True => a.cmp(b),
            Make::Blob => a.iter().map(|byte| *byte as i8).cmp(b.iter().map(|byte| *byte as i8)),
            Make::Long | Make::Int | Make::Short | Make::Byte | Make::Varint => signed(a).cmp(&signed(b)),
            Make::Date => a.cmp(b),
            Make::Decimal | Make::Double | Make::Float => self.ty.compare(a, b),
            Make::Uuid | Make::Timeuuid => {
                let halves = |id: &[u8]| (signed(&id[..id.len() / 2]), signed(&id[id.len() / 2..]));
                halves(a).cmp(&halves(b))
            }
            Make::Inet | Make::List | Make::Set => return None,
        })
    }
}

/// The whole number of these bytes, the high one first, signed; of more than eight bytes the low ones.
fn signed(bytes: &[u8]) -> i64 {
    let first = bytes.first().map_or(0, |byte| i64::from(*byte as i8) >> 7);
    bytes.iter().fold(first, |number, byte| number << 8 | i64::from(*byte))
}

/// As few bytes as tell the number and its sign.
fn put_shortest(number: i64, out: &mut Vec<u8>) {
    let bytes = number.to_be_bytes();
    let sign = (number >> 63) as u8;
    let spare = |at: usize| bytes[at] == sign && (bytes[at + 1] ^ sign) & 0x80 == 0;
    let first = (0..7).find(|at| !spare(*at)).unwrap_or(7);
    out.extend_from_slice(&bytes[first..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(ty: &CqlType, spec: &ColumnSpec) -> Column {
        Column::new("c", ty, spec).expect("values of this type are made")
    }

    fn value(ty: &CqlType, seed: i64) -> Vec<u8> {
        let mut column = column(ty, &ColumnSpec::default());
        column.seed(seed);
        let mut out = Vec::new();
        column.put(&mut out);
        out
    }

    #[test]
    fn every_type_has_values_of_its_own() {
        let types = [
            CqlType::Ascii,
            CqlType::Bigint,
            CqlType::Blob,
            CqlType::Boolean,
            CqlType::Counter,
            CqlType::Decimal,
            CqlType::Double,
            CqlType::Float,
            CqlType::Int,
            CqlType::Text,
            CqlType::Timestamp,
            CqlType::Uuid,
            CqlType::Varint,
            CqlType::Timeuuid,
            CqlType::Inet,
            CqlType::Date,
            CqlType::Smallint,
            CqlType::Tinyint,
            CqlType::list(CqlType::Int),
            CqlType::set(CqlType::Text),
            CqlType::set(CqlType::Uuid).frozen(),
        ];
        for ty in types {
            for seed in [1, -7, 123_456_789] {
                let value = value(&ty, seed);
                assert!(ty.validate(&value).is_ok(), "{ty:?}: {value:?}");
            }
            assert!(
                ty == CqlType::Boolean || (1..20).any(|seed| value(&ty, seed) != value(&ty, seed + 1)),
                "{ty:?}"
            );
            assert_eq!(value(&ty, 5), value(&ty, 5), "{ty:?}");
        }
        for ty in [
            CqlType::Duration,
            CqlType::map(CqlType::Int, CqlType::Int),
            CqlType::list(CqlType::list(CqlType::Int)),
        ] {
            assert!(Column::new("c", &ty, &ColumnSpec::default()).is_none(), "{ty:?}");
        }
    }

    #[test]
    fn numbers_fold_as_numbers_and_other_values_as_bytes() {
        let fold = |ty: &CqlType, value: &[u8]| column(ty, &ColumnSpec::default()).fold(2, value);
        assert_eq!(fold(&CqlType::Int, &(-5i32).to_be_bytes()), 62 - 5);
        assert_eq!(fold(&CqlType::Tinyint, &[0xff]), 62 - 1);
        assert_eq!(fold(&CqlType::Varint, &[0x01, 0x00]), 62 + 256);
        assert_eq!(fold(&CqlType::Decimal, &[0, 0, 0, 0, 7]), 62 + 7);
        assert_eq!(fold(&CqlType::Double, &(-2.9f64).to_be_bytes()), 62 - 2);
        assert_eq!(fold(&CqlType::Float, &3.9f32.to_be_bytes()), 62 + 3);
        assert_eq!(fold(&CqlType::Date, &(DATE_MIDDLE + 3).to_be_bytes()), 62 + 3);
        assert_eq!(fold(&CqlType::Text, b"ab"), (62 + 97) * 31 + 98);
        assert_eq!(fold(&CqlType::Blob, &[0xff]), 62 - 1);
        assert_eq!(fold(&CqlType::Boolean, &[1]), 62 + 1);
        let mut id = 6i64.to_be_bytes().to_vec();
        id.extend_from_slice(&3i64.to_be_bytes());
        assert_eq!(fold(&CqlType::Uuid, &id), 62 + (6 ^ 3));
    }

    #[test]
    fn whole_numbers_are_written_in_as_few_bytes_as_can_be() {
        for (number, bytes) in
            [(0, 1), (127, 1), (128, 2), (-128, 1), (-129, 2), (i64::MAX, 8), (i64::MIN, 8)]
        {
            let mut out = Vec::new();
            put_shortest(number, &mut out);
            assert_eq!((out.len(), signed(&out)), (bytes, number));
        }
    }

    #[test]
    fn a_population_bounds_what_is_drawn() {
        let spec = ColumnSpec { population: Some(Distribution::uniform(5, 7)), ..ColumnSpec::default() };
        let mut column = column(&CqlType::Int, &spec);
        for seed in 0..50 {
            column.seed(seed);
            let mut out = Vec::new();
            column.put(&mut out);
            assert!((5..=7).contains(&signed(&out)));
        }
    }
}
