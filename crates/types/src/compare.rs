//! The order of values, equal to the memcmp order of [`order`](crate::order).

use crate::cql_type::CqlType;
use crate::order;
use std::cmp::Ordering;

impl CqlType {
    /// Orders two wire values. Empty values sort first; bytes that are no value of the type have some order and never panic.
    pub fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        match self {
            CqlType::Ascii
            | CqlType::Text
            | CqlType::Blob
            | CqlType::Inet
            | CqlType::Date
            | CqlType::Time => a.cmp(b),
            CqlType::Int
            | CqlType::Bigint
            | CqlType::Timestamp
            | CqlType::Smallint
            | CqlType::Tinyint
            | CqlType::Counter
                if a.len() == b.len() && !a.is_empty() =>
            {
                (a[0] ^ 0x80).cmp(&(b[0] ^ 0x80)).then_with(|| a[1..].cmp(&b[1..]))
            }
            CqlType::Uuid if a.len() == 16 && b.len() == 16 => order::uuid_key(a).cmp(&order::uuid_key(b)),
            CqlType::Timeuuid if a.len() == 16 && b.len() == 16 => {
                order::timeuuid_key(a).cmp(&order::timeuuid_key(b))
            }
            CqlType::Frozen(inner) => inner.compare(a, b),
            _ => {
                let (mut left, mut right) = (Vec::new(), Vec::new());
                order::encode_component(self, Some(a), false, &mut left);
                order::encode_component(self, Some(b), false, &mut right);
                left.cmp(&right)
            }
        }
    }

    /// Orders two optional values: null first.
    pub fn compare_nullable(&self, a: Option<&[u8]>, b: Option<&[u8]>) -> Ordering {
        match (a, b) {
            (Some(a), Some(b)) => self.compare(a, b),
            (a, b) => a.is_some().cmp(&b.is_some()),
        }
    }
}
