//! The native protocol by hand, no more than the raw tests need. Written from the specification and on its own, so that
//! the server's codec is not checked against itself.
//!
//! Envelope: version u8, flags u8, stream i16, opcode u8, body length u32, body.
//! v5 segment, uncompressed: 3-byte little-endian header (17 bits payload length, 1 bit self-contained), CRC24 of it,
//! payload, CRC32 of the payload (seeded with FA 2D 55 CA), little-endian.

/// Opcodes of requests.
pub const STARTUP: u8 = 0x01;
/// Asks for SUPPORTED.
pub const OPTIONS: u8 = 0x05;
/// A statement as text.
pub const QUERY: u8 = 0x07;
/// Text to a statement id.
pub const PREPARE: u8 = 0x09;
/// A statement by its id.
pub const EXECUTE: u8 = 0x0A;
/// Asks for events.
pub const REGISTER: u8 = 0x0B;
/// Several statements.
pub const BATCH: u8 = 0x0D;
/// Opcodes of responses.
pub const ERROR: u8 = 0x00;
/// The node is ready for statements.
pub const READY: u8 = 0x02;
/// Answer to OPTIONS.
pub const SUPPORTED: u8 = 0x06;
/// Answer to statements.
pub const RESULT: u8 = 0x08;
/// What nobody asked for just now.
pub const EVENT: u8 = 0x0C;
/// Flag of an envelope whose body begins with a custom payload.
pub const CUSTOM_PAYLOAD: u8 = 0x04;

/// Flag of an envelope whose body begins with warnings.
pub const WARNING: u8 = 0x08;

/// One response envelope.
#[derive(Debug)]
pub struct Response {
    /// The stream it answers.
    pub stream: i16,
    /// What it is.
    pub opcode: u8,
    /// Its body.
    pub body: Vec<u8>,
}

impl Response {
    /// Error code and text, when it is an ERROR.
    pub fn error(&self) -> Option<(u32, String)> {
        if self.opcode != ERROR || self.body.len() < 6 {
            return None;
        }
        let code = u32::from_be_bytes(self.body[..4].try_into().expect("four bytes"));
        let len = usize::from(u16::from_be_bytes([self.body[4], self.body[5]]));
        let text = self.body.get(6..6 + len)?;
        Some((code, String::from_utf8_lossy(text).into_owned()))
    }
}

/// A request envelope on one stream.
pub fn request(version: u8, opcode: u8, stream: i16, body: &[u8]) -> Vec<u8> {
    let mut out = vec![version, 0];
    out.extend_from_slice(&stream.to_be_bytes());
    out.push(opcode);
    out.extend_from_slice(&(body.len() as u32).to_be_bytes());
    out.extend_from_slice(body);
    out
}

/// Body of STARTUP.
pub const AUTHENTICATE: u8 = 0x03;
/// A client's answer to it.
pub const AUTH_RESPONSE: u8 = 0x0f;
/// What lets it in.
pub const AUTH_SUCCESS: u8 = 0x10;

/// The body of STARTUP.
pub fn startup_body() -> Vec<u8> {
    let mut out = vec![0, 1];
    string(&mut out, b"CQL_VERSION");
    string(&mut out, b"3.0.0");
    out
}

/// Body of QUERY at consistency ONE without values; v5 has 4 bytes of flags.
pub fn query_body(version: u8, text: &[u8]) -> Vec<u8> {
    let mut out = (text.len() as u32).to_be_bytes().to_vec();
    out.extend_from_slice(text);
    out.extend_from_slice(&1u16.to_be_bytes());
    out.extend_from_slice(if version >= 5 { &[0, 0, 0, 0] } else { &[0] });
    out
}

/// `[string]`.
pub fn string(out: &mut Vec<u8>, text: &[u8]) {
    out.extend_from_slice(&(text.len() as u16).to_be_bytes());
    out.extend_from_slice(text);
}

/// One uncompressed, self-contained v5 segment.
pub fn segment(payload: &[u8]) -> Vec<u8> {
    part(payload, 1 << 17)
}

/// One envelope of any length as v5 segments, uncompressed.
pub fn segments(envelope: &[u8]) -> Vec<u8> {
    const MAX: usize = (1 << 17) - 1;
    match envelope.len() {
        0..=MAX => segment(envelope),
        _ => envelope.chunks(MAX).flat_map(|chunk| part(chunk, 0)).collect(),
    }
}

fn part(payload: &[u8], self_contained: u32) -> Vec<u8> {
    let header = payload.len() as u32 | self_contained;
    let mut out = header.to_le_bytes()[..3].to_vec();
    out.extend_from_slice(&crc24(&out).to_le_bytes()[..3]);
    out.extend_from_slice(payload);
    out.extend_from_slice(&crc32(payload).to_le_bytes());
    out
}

/// CRC24 of the segment header: initial 875060h, polynomial 1974F0Bh.
pub fn crc24(bytes: &[u8]) -> u32 {
    let mut crc = 0x0087_5060u32;
    for &byte in bytes {
        crc ^= u32::from(byte) << 16;
        for _ in 0..8 {
            crc <<= 1;
            if crc & 0x0100_0000 != 0 {
                crc ^= 0x0197_4F0B;
            }
        }
    }
    crc & 0x00FF_FFFF
}

/// CRC32 (IEEE) over FA 2D 55 CA and the payload.
pub fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for &byte in [0xFA, 0x2D, 0x55, 0xCA].iter().chain(bytes) {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            crc = if crc & 1 != 0 { crc >> 1 ^ 0xEDB8_8320 } else { crc >> 1 };
        }
    }
    !crc
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_is_its_parts() {
        let bytes = segment(b"abc");
        assert_eq!(bytes.len(), 6 + 3 + 4);
        assert_eq!(&bytes[..3], &[3, 0, 2]);
        assert_eq!(&bytes[6..9], b"abc");
    }

    #[test]
    fn a_long_envelope_takes_several_segments() {
        let bytes = segments(&vec![7; 131_072]);
        assert_eq!(bytes.len(), 131_072 + 2 * 10);
        assert_eq!(&bytes[..3], &[0xFF, 0xFF, 1]);
        assert_eq!(&bytes[131_071 + 10..][..3], &[1, 0, 0]);
    }
}
