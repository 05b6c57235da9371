//! Text of blobs, UUIDs and addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use uuid::Uuid;

/// The bytes of pairs of hexadecimal digits.
pub fn parse_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |b: u8| (b as char).to_digit(16).map(|d| d as u8);
    let bytes = text.as_bytes();
    if !bytes.len().is_multiple_of(2) {
        return None;
    }
    bytes.chunks_exact(2).map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?)).collect()
}

/// Lower-case hexadecimal digits.
pub fn format_hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut out = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        out.push(DIGITS[usize::from(byte >> 4)] as char);
        out.push(DIGITS[usize::from(byte & 15)] as char);
    }
    out
}

/// A UUID in its hyphenated form only.
pub fn parse_uuid(text: &str) -> Option<Uuid> {
    let hyphens_right = text.len() == 36
        && text.bytes().enumerate().all(|(i, b)| (b == b'-') == [8, 13, 18, 23].contains(&i));
    if hyphens_right { Uuid::parse_str(text).ok() } else { None }
}

/// An IPv4 or IPv6 address; no host names. An IPv4 address in the form of an IPv6 one is the IPv4 address. As Cassandra
/// takes them: IPv4 of fewer than four numbers, the last of which fills what is left (`127.1`), leading zeros; IPv6 in
/// brackets, or with a zone that is a number.
pub fn parse_inet(text: &str) -> Option<IpAddr> {
    if let Some(v4) = parse_ipv4(text) {
        return Some(v4.into());
    }
    let bare = text.strip_prefix('[').map_or(Some(text), |rest| rest.strip_suffix(']'))?;
    let address = match bare.split_once('%') {
        Some((_, zone)) if zone.is_empty() || !zone.bytes().all(|b| b.is_ascii_digit()) => return None,
        Some((address, _)) => address,
        None => bare,
    };
    let v6: Ipv6Addr = address.parse().ok()?;
    Some(IpAddr::from(v6).to_canonical())
}

fn parse_ipv4(text: &str) -> Option<Ipv4Addr> {
    const LONGEST: usize = "255.255.255.255".len();
    if text.len() > LONGEST {
        return None;
    }
    let mut parts = Vec::new();
    for part in text.split('.') {
        if part.is_empty() || !part.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        parts.push(part.parse::<u64>().ok()?);
    }
    let (last, first) = parts.split_last()?;
    if first.len() > 3 || first.iter().any(|byte| *byte > 255) {
        return None;
    }
    let left_bits = 32 - 8 * first.len() as u32;
    if *last >= 1 << left_bits {
        return None;
    }
    let head = first.iter().fold(0, |all, byte| all << 8 | byte);
    Some(Ipv4Addr::from((head << left_bits | last) as u32))
}

/// An address as Java writes it: the groups of an IPv6 one all there, without leading zeros; an IPv4 one in the form of an
/// IPv6 one is that.
pub fn format_inet(address: &IpAddr) -> String {
    match address.to_canonical() {
        IpAddr::V4(v4) => v4.to_string(),
        IpAddr::V6(v6) => v6.segments().map(|group| format!("{group:x}")).join(":"),
    }
}

/// The bytes of an address: 4 or 16.
pub fn inet_bytes(address: &IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    }
}

/// The address of 4 or 16 bytes.
pub fn inet_of(bytes: &[u8]) -> Option<IpAddr> {
    if let Ok(v4) = <[u8; 4]>::try_from(bytes) {
        return Some(IpAddr::from(v4));
    }
    <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from)
}

/// A string between single quotes, quotes inside doubled.
pub fn quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// A name between double quotes, quotes inside doubled: itself as an identifier, whatever it is, also of a reserved word.
pub fn quote_name(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_and_uuid() {
        assert_eq!(parse_hex("00fF"), Some(vec![0, 255]));
        assert_eq!(parse_hex("0"), None);
        assert_eq!(parse_hex("0g"), None);
        assert_eq!(parse_hex("é0"), None);
        assert_eq!(format_hex(&[0, 255]), "00ff");
        let text = "123e4567-e89b-12d3-a456-426614174000";
        assert_eq!(parse_uuid(text).map(|u| u.to_string()), Some(text.into()));
        assert_eq!(parse_uuid("123e4567e89b12d3a456426614174000"), None);
        assert_eq!(quote("it's"), "'it''s'");
        assert!(parse_inet("localhost").is_none());
    }

    #[test]
    fn addresses_as_java_takes_and_writes_them() {
        for (text, written) in [
            ("::1", "0:0:0:0:0:0:0:1"),
            ("1:0:0:2::3", "1:0:0:2:0:0:0:3"),
            ("[FE80::ABCD]", "fe80:0:0:0:0:0:0:abcd"),
            ("::1%1", "0:0:0:0:0:0:0:1"),
            ("::ffff:1.2.3.4", "1.2.3.4"),
            ("::1.2.3.4", "0:0:0:0:0:0:102:304"),
            ("127.1", "127.0.0.1"),
            ("1.2.3", "1.2.0.3"),
            ("010.0.0.1", "10.0.0.1"),
            ("4294967295", "255.255.255.255"),
        ] {
            assert_eq!(parse_inet(text).map(|a| format_inet(&a)).as_deref(), Some(written), "{text}");
        }
        for bad in
            ["", "4294967296", "1.16777216", "256.1", "1.2.3.4.5", "::1%lo", "[::1", "1.2.3.4 ", "-1", "1..2"]
        {
            assert_eq!(parse_inet(bad), None, "{bad}");
        }
    }
}
