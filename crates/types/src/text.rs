//! Text of blobs, UUIDs and addresses.

use std::net::IpAddr;
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

/// An IPv4 or IPv6 address; no host names. An IPv4 address in the form of an IPv6 one is the IPv4 address.
pub fn parse_inet(text: &str) -> Option<IpAddr> {
    text.parse::<IpAddr>().ok().map(|address| address.to_canonical())
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
}
