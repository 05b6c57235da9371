//! Values as the wire has them, written from the protocol's specification.

/// The shortest two's complement.
pub fn varint(n: i128) -> Vec<u8> {
    let bytes = n.to_be_bytes();
    let redundant = bytes
        .windows(2)
        .take_while(|pair| (pair[0] == 0 && pair[1] < 0x80) || (pair[0] == 0xff && pair[1] >= 0x80));
    let skip = redundant.count();
    bytes[skip..].to_vec()
}

/// Scale, then the unscaled number.
pub fn decimal(scale: i32, unscaled: i128) -> Vec<u8> {
    [&scale.to_be_bytes()[..], &varint(unscaled)].concat()
}

/// Three integers of variable length with the sign in the lowest bit.
pub fn duration(months: i64, days: i64, nanos: i64) -> Vec<u8> {
    [months, days, nanos].iter().flat_map(|n| unsigned_vint((n << 1 ^ n >> 63) as u64)).collect()
}

/// As many leading ones in the first byte as bytes follow it.
fn unsigned_vint(value: u64) -> Vec<u8> {
    let bits = 64 - (value | 1).leading_zeros();
    // Each further byte takes one bit of the first for its mark.
    let extra = (bits.saturating_sub(1) / 7).min(8);
    let mut bytes = value.to_be_bytes()[8 - extra as usize..].to_vec();
    if extra == 8 {
        bytes.insert(0, 0xff);
        return bytes;
    }
    let marks = !(0xffu32 >> extra) as u8;
    let first = (value >> (8 * extra)) as u8;
    bytes.insert(0, marks | first);
    bytes
}

/// Each value behind its length, -1 for null.
pub fn with_lengths(items: &[Option<Vec<u8>>]) -> Vec<u8> {
    let mut out = Vec::new();
    for item in items {
        match item {
            None => out.extend_from_slice(&(-1i32).to_be_bytes()),
            Some(bytes) => {
                out.extend_from_slice(&(bytes.len() as i32).to_be_bytes());
                out.extend_from_slice(bytes);
            }
        }
    }
    out
}

/// A tuple or user type.
pub fn fields(items: &[Option<Vec<u8>>]) -> Vec<u8> {
    with_lengths(items)
}

/// A list or set.
pub fn list(items: &[Option<Vec<u8>>]) -> Vec<u8> {
    [&(items.len() as i32).to_be_bytes()[..], &with_lengths(items)].concat()
}

/// Lower-case digits behind `0x`.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::from("0x"), |out, byte| out + &format!("{byte:02x}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_take_as_few_bytes_as_they_need() {
        assert_eq!((varint(0), varint(-1), varint(127)), (vec![0], vec![0xff], vec![0x7f]));
        assert_eq!((varint(128), varint(-129)), (vec![0, 0x80], vec![0xff, 0x7f]));
        assert_eq!(duration(1, -1, 0), [2, 1, 0]);
        assert_eq!(duration(64, 0, 0), [0x80, 0x80, 0, 0]);
        assert_eq!(duration(0, 0, i64::MIN)[2..], [0xff; 9]);
    }
}
