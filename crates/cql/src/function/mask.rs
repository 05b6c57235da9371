//! Functions that hide values: dynamic data masking's, usable in any SELECT.

use super::Function;
use crate::error::{Error, Result, invalid};
use crate::limits;
use crate::value::Val;
use md5::Md5;
use sha2::{Digest, Sha224, Sha256, Sha384, Sha512, Sha512_224, Sha512_256};
use std::borrow::Cow;
use types::{CqlType, collection};

/// How a value is hidden.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mask {
    /// By null.
    Null,
    /// By a fixed value of its type.
    Default,
    /// By another value.
    Replace,
    /// All but the ends.
    Inner,
    /// The ends.
    Outer,
    /// By a hash of it.
    Hash,
}

/// What stands for a hidden character.
const PADDING: char = '*';

impl Mask {
    /// By its function's name.
    pub fn of_name(name: &str) -> Option<Mask> {
        Some(match name {
            "mask_null" => Mask::Null,
            "mask_default" => Mask::Default,
            "mask_replace" => Mask::Replace,
            "mask_inner" => Mask::Inner,
            "mask_outer" => Mask::Outer,
            "mask_hash" => Mask::Hash,
            _ => return None,
        })
    }

    /// Cassandra's words for its arguments, and how few and many they are.
    pub fn signature(self) -> (&'static str, std::ops::RangeInclusive<usize>) {
        match self {
            Mask::Null | Mask::Default => ("any", 1..=1),
            Mask::Replace => ("any, any", 2..=2),
            Mask::Inner | Mask::Outer => ("[text|varchar|ascii], int, int, [text]", 3..=4),
            Mask::Hash => ("any, [text]", 1..=2),
        }
    }

    /// Hides a value. Errors: paddings that are not one character, hashes that are not known.
    pub fn call<'v>(self, function: &Function, arguments: &[Val<'v>]) -> Result<Val<'v>> {
        let ty = &function.arguments[0];
        let given = |index: usize| arguments.get(index).and_then(|v| v.bytes());
        let bytes = match self {
            Mask::Null => return Ok(Val::Null),
            Mask::Default => match default_of(ty) {
                Some(bytes) => bytes,
                None => {
                    let text =
                        format!("The default value of its type has more than {} bytes", limits::VALUE_BYTES);
                    return Err(Error::Function {
                        name: function.name.clone(),
                        arguments: vec![ty.to_string()],
                        text,
                    });
                }
            },
            Mask::Replace => match given(1) {
                Some(bytes) => bytes.to_vec(),
                None => return Ok(Val::Null),
            },
            Mask::Hash => {
                let algorithm = given(1).map_or("SHA-256".into(), String::from_utf8_lossy);
                let Some(hashed) = hash(&algorithm, given(0)) else {
                    return invalid(format!("Hash algorithm not found: {algorithm}"));
                };
                match hashed {
                    Some(bytes) => bytes,
                    None => return Ok(Val::Null),
                }
            }
            Mask::Inner | Mask::Outer => {
                let padding = padding(function, given(3))?;
                let Some(value) = given(0) else { return Ok(Val::Null) };
                let end = |index: usize| {
                    let bytes = given(index).and_then(|v| <[u8; 4]>::try_from(v).ok());
                    bytes.map_or(0, |bytes| i32::from_be_bytes(bytes).max(0) as usize)
                };
                hidden(self, &String::from_utf8_lossy(value), end(1), end(2), padding).into_bytes()
            }
        };
        Ok(Val::Bytes(Cow::Owned(bytes)))
    }
}

fn padding(function: &Function, given: Option<&[u8]>) -> Result<char> {
    let Some(bytes) = given else { return Ok(PADDING) };
    let text = String::from_utf8_lossy(bytes);
    let mut chars = text.chars();
    match (chars.next(), chars.next()) {
        (Some(only), None) => Ok(only),
        _ => invalid(format!(
            "The padding argument for function system.{} should be single-character, but '{text}' has {} characters.",
            function.name,
            text.chars().count()
        )),
    }
}

fn hidden(mask: Mask, text: &str, begin: usize, end: usize, padding: char) -> String {
    let count = text.chars().count();
    let last = count.saturating_sub(end);
    text.chars()
        .enumerate()
        .map(|(index, c)| {
            let inside = begin <= index && index < last;
            if inside == (mask == Mask::Inner) { padding } else { c }
        })
        .collect()
}

/// `None`: not known; `Some(None)`: null stays null.
fn hash(algorithm: &str, value: Option<&[u8]>) -> Option<Option<Vec<u8>>> {
    let of: fn(&[u8]) -> Vec<u8> = match algorithm.to_ascii_uppercase().as_str() {
        "MD5" => |bytes| Md5::digest(bytes).to_vec(),
        "SHA-224" => |bytes| Sha224::digest(bytes).to_vec(),
        "SHA-256" => |bytes| Sha256::digest(bytes).to_vec(),
        "SHA-384" => |bytes| Sha384::digest(bytes).to_vec(),
        "SHA-512" => |bytes| Sha512::digest(bytes).to_vec(),
        "SHA-512/224" => |bytes| Sha512_224::digest(bytes).to_vec(),
        "SHA-512/256" => |bytes| Sha512_256::digest(bytes).to_vec(),
        _ => return None,
    };
    Some(value.map(of))
}

/// The value that stands for all values of a type; `None` if it is too large.
fn default_of(ty: &CqlType) -> Option<Vec<u8>> {
    use CqlType as T;
    Some(match ty.unfrozen() {
        T::Ascii | T::Text => b"****".to_vec(),
        T::Blob | T::Custom(_) | T::Empty => Vec::new(),
        T::Boolean | T::Tinyint | T::Varint => vec![0],
        T::Smallint => vec![0; 2],
        T::Int | T::Float | T::Inet => vec![0; 4],
        T::Bigint | T::Counter | T::Double | T::Timestamp | T::Time => vec![0; 8],
        T::Date => types::datetime::EPOCH_DAY.to_be_bytes().to_vec(),
        T::Decimal => vec![0; 5],
        T::Duration => vec![0; 3],
        T::Uuid | T::LexicalUuid => vec![0; 16],
        T::Timeuuid => types::timeuuid::min_of_ms(0)?.as_bytes().to_vec(),
        T::List(_) | T::Set(_) | T::Map(..) => collection::build([]),
        T::Tuple(fields) => default_fields(fields.iter())?,
        T::Udt(udt) => default_fields(udt.fields.iter().map(|(_, ty)| ty))?,
        T::Vector(element, count) => {
            let mut out = Vec::new();
            let value = default_of(element)?;
            if value.len().max(1).saturating_mul(*count as usize) > limits::VALUE_BYTES {
                return None;
            }
            (0..*count).for_each(|_| collection::put_vector_element(element, &value, &mut out));
            out
        }
        T::Frozen(inner) => default_of(inner)?,
    })
}

fn default_fields<'t>(types: impl Iterator<Item = &'t CqlType>) -> Option<Vec<u8>> {
    let mut fields = Vec::new();
    let mut bytes = 0;
    for ty in types {
        let field = default_of(ty)?;
        bytes += field.len();
        if bytes > limits::VALUE_BYTES {
            return None;
        }
        fields.push(field);
    }
    Some(collection::build_tuple(fields.iter().map(|f| Some(&f[..]))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_and_middles_are_hidden() {
        assert_eq!(hidden(Mask::Inner, "héllo", 1, 2, '*'), "h**lo");
        assert_eq!(hidden(Mask::Outer, "héllo", 1, 2, '*'), "*él**");
        assert_eq!(hidden(Mask::Inner, "héllo", 10, 10, '*'), "héllo");
        assert_eq!(hidden(Mask::Outer, "héllo", 10, 10, '#'), "#####");
        assert_eq!(hash("sha-256", Some(b"a")).flatten().map(|h| h.len()), Some(32));
        assert_eq!(hash("SHA-512", None), Some(None));
        assert_eq!(hash("CRC", Some(b"a")), None);
    }

    #[test]
    fn every_default_is_valid() {
        for name in
            ["ascii", "blob", "boolean", "decimal", "duration", "inet", "timeuuid", "varint", "date", "time"]
        {
            let ty = crate::names::native_type(name).expect("a type");
            assert!(ty.validate(&default_of(&ty).expect("a value")).is_ok(), "{name}");
        }
        let nested = CqlType::tuple(vec![CqlType::Int, CqlType::Vector(CqlType::Text.into(), 2)]);
        assert!(nested.validate(&default_of(&nested).expect("a value")).is_ok());
        let vector = |dimension| CqlType::Vector(CqlType::Float.into(), dimension);
        assert_eq!(default_of(&vector(i32::MAX as u32)), None);
        assert_eq!(default_of(&CqlType::tuple(vec![vector(1 << 20); 1000])), None);
    }
}
