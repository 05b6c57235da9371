//! The envelope header: version, flags, stream, opcode, body length; nine bytes.
//!
//! ```text
//! 0 version (bit 7: response)  1 flags  2..4 stream  4 opcode  5..9 body length
//! ```

use crate::error::Error;
use crate::limits::HEADER_BYTES;

/// The protocol versions spoken here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// Version 3: no unset values, warnings, payloads and failure codes.
    V3 = 3,
    /// Version 4.
    V4 = 4,
    /// Version 5: segments after STARTUP.
    V5 = 5,
}

impl Version {
    /// The highest version spoken here.
    pub const HIGHEST: Version = Version::V5;

    /// The version with this number.
    pub fn from_number(number: u8) -> Option<Version> {
        match number {
            3 => Some(Version::V3),
            4 => Some(Version::V4),
            5 => Some(Version::V5),
            _ => None,
        }
    }
}

/// Header flags.
pub mod flag {
    /// The body is compressed (v3 and v4).
    pub const COMPRESSED: u8 = 0x01;
    /// Request: trace it. Response: a trace id comes first.
    pub const TRACING: u8 = 0x02;
    /// A custom payload comes before the message.
    pub const CUSTOM_PAYLOAD: u8 = 0x04;
    /// Warnings come before the message.
    pub const WARNING: u8 = 0x08;
    /// The client accepts beta versions.
    pub const USE_BETA: u8 = 0x10;
}

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Opcode {
    /// Response: something failed.
    Error = 0x00,
    /// Request: opens the conversation.
    Startup = 0x01,
    /// Response: ready for queries.
    Ready = 0x02,
    /// Response: log in first.
    Authenticate = 0x03,
    /// Request: what is supported.
    Options = 0x05,
    /// Response: that.
    Supported = 0x06,
    /// Request: runs a statement's text.
    Query = 0x07,
    /// Response: what a request gave.
    Result = 0x08,
    /// Request: prepares a statement.
    Prepare = 0x09,
    /// Request: runs a prepared statement.
    Execute = 0x0A,
    /// Request: subscribes to events.
    Register = 0x0B,
    /// Response on stream -1: something happened.
    Event = 0x0C,
    /// Request: runs several modifications.
    Batch = 0x0D,
    /// Response: the login goes on.
    AuthChallenge = 0x0E,
    /// Request: a login token.
    AuthResponse = 0x0F,
    /// Response: logged in.
    AuthSuccess = 0x10,
}

impl Opcode {
    /// The opcode with this number.
    pub fn from_number(number: u8) -> Option<Opcode> {
        Some(match number {
            0x00 => Opcode::Error,
            0x01 => Opcode::Startup,
            0x02 => Opcode::Ready,
            0x03 => Opcode::Authenticate,
            0x05 => Opcode::Options,
            0x06 => Opcode::Supported,
            0x07 => Opcode::Query,
            0x08 => Opcode::Result,
            0x09 => Opcode::Prepare,
            0x0A => Opcode::Execute,
            0x0B => Opcode::Register,
            0x0C => Opcode::Event,
            0x0D => Opcode::Batch,
            0x0E => Opcode::AuthChallenge,
            0x0F => Opcode::AuthResponse,
            0x10 => Opcode::AuthSuccess,
            _ => return None,
        })
    }

    /// The name used in error texts.
    pub fn name(self) -> &'static str {
        match self {
            Opcode::Error => "ERROR",
            Opcode::Startup => "STARTUP",
            Opcode::Ready => "READY",
            Opcode::Authenticate => "AUTHENTICATE",
            Opcode::Options => "OPTIONS",
            Opcode::Supported => "SUPPORTED",
            Opcode::Query => "QUERY",
            Opcode::Result => "RESULT",
            Opcode::Prepare => "PREPARE",
            Opcode::Execute => "EXECUTE",
            Opcode::Register => "REGISTER",
            Opcode::Event => "EVENT",
            Opcode::Batch => "BATCH",
            Opcode::AuthChallenge => "AUTH_CHALLENGE",
            Opcode::AuthResponse => "AUTH_RESPONSE",
            Opcode::AuthSuccess => "AUTH_SUCCESS",
        }
    }
}

/// Which way the messages read by one side go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Client to server: what a server reads.
    Requests,
    /// Server to client: what a client reads.
    Responses,
}

/// A parsed envelope header. The opcode is kept as a number so that an unknown one can be answered on its stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The version.
    pub version: Version,
    /// Bits of [`flag`].
    pub flags: u8,
    /// Which request a response belongs to; -1 for events.
    pub stream: i16,
    /// The opcode's number.
    pub opcode: u8,
    /// Bytes of the body that follows.
    pub length: u32,
}

impl Header {
    /// Reads a header from the front of `bytes`; `None` when more bytes are needed. An unsupported version is found as soon as
    /// its first byte (and, if it comes, its stream) is there.
    pub fn parse(bytes: &[u8], direction: Direction) -> Result<Option<Header>, Error> {
        let Some(first) = bytes.first() else {
            return Ok(None);
        };
        let number = first & 0x7F;
        let Some(version) = Version::from_number(number) else {
            // Versions 1 and 2 have a stream of one byte.
            let stream = match (number, bytes) {
                (1 | 2, [_, _, stream, ..]) => i16::from(*stream as i8),
                (_, [_, _, high, low, ..]) => i16::from_be_bytes([*high, *low]),
                _ => 0,
            };
            return Err(Error::UnsupportedVersion { version: number, stream });
        };
        let Some(header) = bytes.first_chunk::<HEADER_BYTES>() else {
            return Ok(None);
        };
        let stream = i16::from_be_bytes([header[2], header[3]]);
        let is_response = first & 0x80 != 0;
        if is_response != (direction == Direction::Responses) {
            return Err(Error::Frame {
                stream,
                text: format!(
                    "Wrong protocol direction: got a {}",
                    if is_response { "response" } else { "request" }
                ),
            });
        }
        Ok(Some(Header {
            version,
            flags: header[1],
            stream,
            opcode: header[4],
            length: u32::from_be_bytes([header[5], header[6], header[7], header[8]]),
        }))
    }

    /// True when a flag is set.
    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// The opcode, or the error that names its number.
    pub fn known_opcode(&self) -> Result<Opcode, Error> {
        Opcode::from_number(self.opcode)
            .ok_or_else(|| Error::Message(format!("Unknown opcode {}", self.opcode)))
    }
}

/// Where an envelope begun in a buffer starts: give it to [`finish`].
#[derive(Debug)]
#[must_use]
pub struct Begun(usize);

/// Appends the header of an envelope of unknown length; the body follows in the same buffer.
pub fn begin(
    out: &mut Vec<u8>,
    direction: Direction,
    version: Version,
    stream: i16,
    opcode: Opcode,
    flags: u8,
) -> Begun {
    let start = out.len();
    let response = match direction {
        Direction::Requests => 0,
        Direction::Responses => 0x80,
    };
    let [high, low] = stream.to_be_bytes();
    out.extend_from_slice(&[version as u8 | response, flags, high, low, opcode as u8, 0, 0, 0, 0]);
    Begun(start)
}

/// Writes the length of everything appended since [`begin`] into the header.
pub fn finish(out: &mut [u8], begun: Begun) {
    let start = begun.0;
    let length = (out.len() - start - HEADER_BYTES) as u32;
    out[start + 5..start + HEADER_BYTES].copy_from_slice(&length.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_the_examples() {
        let options = [4, 0, 0, 0, 5, 0, 0, 0, 0];
        let header = Header::parse(&options, Direction::Requests).expect("well formed").expect("whole");
        assert_eq!((header.version, header.stream, header.length), (Version::V4, 0, 0));
        assert_eq!(header.known_opcode(), Ok(Opcode::Options));
        assert_eq!(Header::parse(&options[..8], Direction::Requests), Ok(None));
        assert!(Header::parse(&options, Direction::Responses).is_err());
        let mut out = Vec::new();
        let begun = begin(&mut out, Direction::Responses, Version::V4, 2, Opcode::Result, 0);
        out.extend_from_slice(&[0, 0, 0, 1]);
        finish(&mut out, begun);
        assert_eq!(out, [0x84, 0, 0, 2, 8, 0, 0, 0, 4, 0, 0, 0, 1]);
    }

    #[test]
    fn unknown_versions_are_found_early() {
        for (bytes, version, stream) in [
            (&[0x42][..], 0x42, 0),
            (&[7, 0, 0, 7, 1, 0, 0, 0, 0], 7, 7),
            (&[2, 0, 5, 1, 0, 0, 0, 0], 2, 5),
            (&[0x06, 0x10, 0, 1], 6, 1),
        ] {
            assert_eq!(
                Header::parse(bytes, Direction::Requests),
                Err(Error::UnsupportedVersion { version, stream })
            );
        }
    }
}
