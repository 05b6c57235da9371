//! Byte-comparable order: bytes whose memcmp order is the type's order.
//!
//! The form is Cassandra 5.0's (`OSS50`), kept in trie indexes and, here, in every clustering position: it must never change.
//! One component's bytes are prefix-free against the separators that follow it (0x20..=0x60), so components can be put one after another:
//!
//! | separator | before |
//! |---|---|
//! | 0x40 | a component with a value |
//! | 0x3F | nothing: an empty value of a type whose empty form means "no value" (0x41 when reversed) |
//! | 0x3E | nothing: a null |
//! | 0x38 | the end of a complete sequence |
//! | 0x20, 0x60 | the end of a bound before, after everything it is a prefix of |

use crate::collection::{self, Fields};
use crate::cql_type::CqlType;
use crate::number;
use base::put_uvint;
use num_bigint::BigInt;

/// Before a component that has a value.
pub const NEXT: u8 = 0x40;
/// In place of a component whose value is empty and means nothing.
pub const EMPTY: u8 = 0x3F;
/// The same under descending order.
pub const EMPTY_REVERSED: u8 = 0x41;
/// In place of a null component.
pub const NULL: u8 = 0x3E;
/// After the last component of a complete sequence.
pub const END: u8 = 0x38;
/// After the last component of a bound that sorts before its extensions.
pub const BEFORE: u8 = 0x20;
/// After the last component of a bound that sorts after its extensions.
pub const AFTER: u8 = 0x60;

/// Appends the order bytes of one value, without separators. An empty value of a number appends nothing, so
/// it must be told apart by its separator: see [`encode_component`]. Bytes that are no value of the type give some
/// order and never a panic.
pub fn encode(ty: &CqlType, wire: &[u8], out: &mut Vec<u8>) {
    if wire.is_empty() && ty.empty_is_no_value() {
        return;
    }
    match ty {
        CqlType::Ascii
        | CqlType::Text
        | CqlType::Blob
        | CqlType::Inet
        | CqlType::Duration
        | CqlType::Custom(_) => put_escaped(wire, out),
        CqlType::Boolean => out.push(u8::from(wire.iter().any(|b| *b != 0))),
        CqlType::Tinyint | CqlType::Smallint | CqlType::Int | CqlType::Timestamp => {
            put_sign_flipped(wire, out);
        }
        CqlType::Bigint | CqlType::Counter => put_bigint(wire, out),
        CqlType::Float | CqlType::Double => put_float(wire, out),
        CqlType::Date | CqlType::Time => out.extend_from_slice(wire),
        CqlType::Uuid => put_key(uuid_key(wire), wire, out),
        CqlType::LexicalUuid => put_key(lexical_key(wire), wire, out),
        CqlType::Timeuuid => put_key(timeuuid_key(wire), wire, out),
        CqlType::Varint => put_varint(wire, out),
        CqlType::Decimal => put_decimal(wire, out),
        CqlType::Empty => {}
        CqlType::List(e) | CqlType::Set(e) => {
            for element in collection::elements(wire).flatten() {
                encode_component(e, element, false, out);
            }
            out.push(END);
        }
        CqlType::Map(k, v) => {
            for (key, value) in collection::entries(wire).flatten() {
                encode_component(k, Some(key), false, out);
                encode_component(v, Some(value), false, out);
            }
            out.push(END);
        }
        CqlType::Tuple(fields) => put_fields(fields.iter(), wire, out),
        CqlType::Udt(udt) => put_fields(udt.fields.iter().map(|(_, ty)| ty), wire, out),
        CqlType::Vector(e, n) => {
            for element in collection::vector_elements(e, *n, wire).flatten() {
                encode_component(e, Some(element), false, out);
            }
            out.push(END);
        }
        CqlType::Frozen(inner) => encode(inner, wire, out),
    }
}

/// Appends the order bytes of one value under descending order: every byte inverted.
pub fn encode_reversed(ty: &CqlType, wire: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    encode(ty, wire, out);
    for byte in &mut out[start..] {
        *byte = !*byte;
    }
}

/// Appends one component of a sequence with its separator: 0x40 and the bytes, or the mark of an empty or null value alone.
pub fn encode_component(ty: &CqlType, wire: Option<&[u8]>, reversed: bool, out: &mut Vec<u8>) {
    match wire {
        None => out.push(NULL),
        Some([]) if ty.empty_is_no_value() => out.push(if reversed { EMPTY_REVERSED } else { EMPTY }),
        Some(bytes) => {
            out.push(NEXT);
            if reversed {
                encode_reversed(ty, bytes, out);
            } else {
                encode(ty, bytes, out);
            }
        }
    }
}

/// Appends a byte string so that it sorts before its extensions whatever separator follows: each run of k zeros becomes
/// `00 FE*(k-1) FF`; a string that ends in zeros ends in FE instead of FF, any other ends in 00.
pub fn put_escaped(bytes: &[u8], out: &mut Vec<u8>) {
    let mut rest = bytes;
    while let Some(plain) = rest.iter().position(|byte| *byte == 0) {
        let (head, tail) = rest.split_at(plain);
        let zeros = tail.iter().take_while(|byte| **byte == 0).count();
        out.extend_from_slice(head);
        out.push(0);
        out.resize(out.len() + zeros - 1, 0xFE);
        rest = &tail[zeros..];
        if rest.is_empty() {
            out.push(0xFE);
            return;
        }
        out.push(0xFF);
    }
    out.extend_from_slice(rest);
    out.push(0);
}

fn put_sign_flipped(wire: &[u8], out: &mut Vec<u8>) {
    if let Some((first, rest)) = wire.split_first() {
        out.push(first ^ 0x80);
        out.extend_from_slice(rest);
    }
}

fn put_bigint(wire: &[u8], out: &mut Vec<u8>) {
    match <[u8; 8]>::try_from(wire) {
        Ok(bytes) => put_i64(i64::from_be_bytes(bytes), out),
        Err(_) => put_escaped(wire, out),
    }
}

/// The variable-length form of a signed integer, in 1 to 9 bytes.
pub fn put_i64(value: i64, out: &mut Vec<u8>) {
    let flip = if value < 0 { 0xFF } else { 0 };
    let magnitude = if value < 0 { !value } else { value } as u64;
    let bits = 64 - magnitude.leading_zeros() as usize;
    let start = out.len();
    // Of n bytes the first has n ones (the sign is the first of them) and a zero; so 7n - 1 bits are left for the value.
    let len = bits / 7 + 1;
    if len >= 9 {
        out.push(0xFF);
        out.extend_from_slice(&(magnitude | 1 << 63).to_be_bytes());
    } else {
        out.extend_from_slice(&magnitude.to_be_bytes()[8 - len..]);
        out[start] |= !(0xFFu16 >> len) as u8;
    }
    for byte in &mut out[start..] {
        *byte ^= flip;
    }
}

fn put_float(wire: &[u8], out: &mut Vec<u8>) {
    if wire.first().is_some_and(|b| *b >= 0x80) {
        out.extend(wire.iter().map(|b| !b));
    } else {
        put_sign_flipped(wire, out);
    }
}

/// The high half of a version 1 UUID with its time in order: version and high bits, middle, low.
pub fn time_order(high: u64) -> u64 {
    high << 48 | (high << 16) & 0xFFFF_0000_0000 | high >> 32
}

fn halves(wire: &[u8]) -> Option<(u64, u64)> {
    let value = u128::from_be_bytes(wire.try_into().ok()?);
    Some(((value >> 64) as u64, value as u64))
}

/// The order of a UUID as one number: version, then time for version 1 or all other bits, then the low half.
/// `None` when the bytes are no UUID.
pub fn uuid_key(wire: &[u8]) -> Option<u128> {
    let (high, low) = halves(wire)?;
    let version = high >> 12 & 0xF;
    let high = if version == 1 {
        time_order(high)
    } else {
        version << 60 | high >> 4 & 0x0FFF_FFFF_FFFF_F000 | high & 0xFFF
    };
    Some(u128::from(high) << 64 | u128::from(low))
}

/// The order of a version 1 UUID as one number: time, then the low half with each byte signed. `None` when the bytes are no UUID.
pub fn timeuuid_key(wire: &[u8]) -> Option<u128> {
    let (high, low) = halves(wire)?;
    Some(u128::from(time_order(high)) << 64 | u128::from(low ^ 0x8080_8080_8080_8080))
}

/// The order of two signed numbers as one number. `None` when the bytes are no UUID.
pub fn lexical_key(wire: &[u8]) -> Option<u128> {
    let (high, low) = halves(wire)?;
    Some(u128::from(high ^ 1 << 63) << 64 | u128::from(low ^ 1 << 63))
}

fn put_key(key: Option<u128>, wire: &[u8], out: &mut Vec<u8>) {
    match key {
        Some(key) => out.extend_from_slice(&key.to_be_bytes()),
        None => put_escaped(wire, out),
    }
}

fn put_varint(wire: &[u8], out: &mut Vec<u8>) {
    let sign: u8 = if wire[0] & 0x80 == 0 { 0 } else { 0xFF };
    // Leading bytes that only repeat the sign do not count, but the last byte always does.
    let skip = wire[..wire.len() - 1].iter().take_while(|b| **b == sign).count();
    let digits = &wire[skip..];
    if digits.len() < 7 {
        let value = digits.iter().fold(i64::from(sign as i8), |v, b| v << 8 | i64::from(*b));
        put_i64(value, out);
        return;
    }
    out.push(!sign);
    let start = out.len();
    put_uvint(out, (digits.len() - 7) as u64);
    for byte in &mut out[start..] {
        *byte ^= sign;
    }
    out.extend_from_slice(digits);
}

/// Sign and exponent of base 100, then one byte per base-100 digit, then 00. Equal numbers of different scale give equal bytes.
fn put_decimal(wire: &[u8], out: &mut Vec<u8>) {
    let Some((scale, unscaled)) = number::decode_decimal(wire) else {
        return put_escaped(wire, out);
    };
    if unscaled == BigInt::ZERO {
        out.push(0x80);
        return;
    }
    let negative = unscaled < BigInt::ZERO;
    let text = unscaled.magnitude().to_str_radix(10);
    let digits = text.trim_end_matches('0').as_bytes();
    // The value is 0.d1d2d3.. * 10^point; an even power of ten makes it 0.D1D2.. * 100^exponent with D in 0..100.
    let point = text.len() as i64 - i64::from(scale);
    let exponent = (point + (point & 1)) / 2;
    let mut pairs: Vec<u8> = Vec::with_capacity(digits.len() / 2 + 1);
    let lead = (point & 1) as usize;
    let digit = |i: usize| digits.get(i).map_or(0, |b| b - b'0');
    let count = (digits.len() + lead).div_ceil(2);
    for i in 0..count {
        let low = digit(2 * i + 1 - lead);
        let high = if i == 0 && lead == 1 { 0 } else { digit(2 * i - lead) };
        pairs.push(high * 10 + low);
    }
    let modulated = if negative { -exponent } else { exponent };
    let size = 4 - (modulated.unsigned_abs() as u32).leading_zeros() as i64 / 8;
    let header = 0x40 + if modulated < 0 { -size } else { size } + if negative { 0 } else { 0x80 };
    out.push(header as u8);
    out.extend_from_slice(&(modulated as i32).to_be_bytes()[4 - size as usize..]);
    if negative {
        // Floor digits: every digit but the last is 99 - d after one was borrowed, the last is 100 - d; the first is below zero.
        for (i, pair) in pairs.iter().enumerate() {
            let last = i + 1 == pairs.len();
            let floor = i32::from(!last) + i32::from(*pair);
            let digit = if i == 0 { -floor } else { 100 - floor };
            out.push((digit + 0x80) as u8);
        }
    } else {
        out.extend(pairs.iter().map(|pair| pair + 0x80));
    }
    out.push(0);
}

fn put_fields<'t>(types: impl Iterator<Item = &'t CqlType>, wire: &[u8], out: &mut Vec<u8>) {
    let values: Vec<Option<&[u8]>> = Fields::new(wire).map_while(Result::ok).collect();
    let used = values.iter().rposition(Option::is_some).map_or(0, |i| i + 1);
    for (ty, value) in types.zip(&values[..used]) {
        encode_component(ty, *value, false, out);
    }
    out.push(END);
}

#[cfg(test)]
mod tests;
