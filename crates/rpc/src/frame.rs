//! Frames after the hello: all messages that waited when a connection was flushed, under one checksum.
//!
//! Layout: docs/mechanisms/wire.md. Big-endian. On the wire between releases: changes need a new protocol.

use crate::error::Malformed;
use crate::fields::{FieldReader, FieldWriter};
use crate::limits::{BODY_BYTES_MAX, FRAME_BYTES_MAX};
use base::crc32;

/// Checksum and length.
pub const FRAME_HEADER_BYTES: usize = 8;
const MESSAGE_HEADER_BYTES: usize = 16;
/// Version and time left of a request.
const REQUEST_BYTES: usize = 12;

/// What a message is for. Numbers on the wire; never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Asks; wants a response with the same call id.
    Request,
    /// Answers; its verb is a status.
    Response,
    /// Asks whether the other side lives.
    Ping,
    /// It does.
    Pong,
    /// The sender is about to stop.
    Goodbye,
}

impl Kind {
    pub(crate) fn code(self) -> u8 {
        match self {
            Kind::Request => 1,
            Kind::Response => 2,
            Kind::Ping => 3,
            Kind::Pong => 4,
            Kind::Goodbye => 5,
        }
    }
}

/// The status of a response. Numbers on the wire; never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// The body is the answer.
    Answered,
    /// The verb is unknown.
    UnknownVerb,
    /// Too much is under way; the call was not begun.
    Overloaded,
    /// The handler ended without an answer.
    GivenUp,
}

impl Status {
    pub(crate) fn code(self) -> u8 {
        match self {
            Status::Answered => 0,
            Status::UnknownVerb => 1,
            Status::Overloaded => 2,
            Status::GivenUp => 3,
        }
    }

    /// A status of a newer release is a failure whose reason is not known here.
    pub(crate) fn from_code(code: u8) -> Status {
        match code {
            0 => Status::Answered,
            1 => Status::UnknownVerb,
            2 => Status::Overloaded,
            _ => Status::GivenUp,
        }
    }
}

/// One message, its body borrowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message<'a> {
    /// What it is for.
    pub kind: Kind,
    /// The verb of a request, the status of a response, else 0.
    pub verb: u8,
    /// Pairs responses with requests; the number of a ping.
    pub call: u64,
    /// Requests: the version of metadata that the sender acted on.
    pub version: u64,
    /// Requests: milliseconds until the caller stops waiting.
    pub time_left_ms: u32,
    /// The rest.
    pub body: &'a [u8],
}

/// Appends the header of a message whose body follows; [`end_message`] fills in its length.
pub(crate) fn begin_message(message: &Message<'_>, out: &mut Vec<u8>) {
    let mut header = [0; MESSAGE_HEADER_BYTES + REQUEST_BYTES];
    header[0] = message.kind.code();
    header[1] = message.verb;
    header[8..16].copy_from_slice(&message.call.to_be_bytes());
    let size = if message.kind == Kind::Request {
        header[16..24].copy_from_slice(&message.version.to_be_bytes());
        header[24..28].copy_from_slice(&message.time_left_ms.to_be_bytes());
        MESSAGE_HEADER_BYTES + REQUEST_BYTES
    } else {
        MESSAGE_HEADER_BYTES
    };
    out.extend_from_slice(&header[..size]);
}

/// Fills in the length of the message that begins at `start` and has its body from `body` to the end.
pub(crate) fn end_message(start: usize, body: usize, out: &mut [u8]) {
    let length = (out.len() - body) as u32;
    out[start + 4..start + 8].copy_from_slice(&length.to_be_bytes());
}

/// Appends a message to an open frame.
pub fn encode_message(message: &Message<'_>, out: &mut Vec<u8>) {
    assert!(message.body.len() <= BODY_BYTES_MAX, "callers bound their messages");
    let start = out.len();
    begin_message(message, out);
    let body = out.len();
    out.extend_from_slice(message.body);
    end_message(start, body, out);
}

/// Fills in the header of the frame that begins at `start` and goes to the end.
pub fn seal_frame(start: usize, checksum: bool, out: &mut [u8]) {
    let frame = &mut out[start..];
    let length = (frame.len() - FRAME_HEADER_BYTES) as u32;
    frame[4..8].copy_from_slice(&length.to_be_bytes());
    let sum = if checksum { crc32(&frame[4..]) } else { 0 };
    frame[..4].copy_from_slice(&sum.to_be_bytes());
}

/// Takes one frame from the front of `bytes`: its payload, and how many bytes the frame has; `None` when more must arrive first.
/// Errors: the bytes are no frame; the connection cannot go on.
pub fn split_frame(bytes: &[u8], checksum: bool) -> Result<Option<(&[u8], usize)>, Malformed> {
    let Some(header) = bytes.first_chunk::<FRAME_HEADER_BYTES>() else {
        return Ok(None);
    };
    let [s0, s1, s2, s3, l0, l1, l2, l3] = *header;
    let length = u32::from_be_bytes([l0, l1, l2, l3]) as usize;
    if length > FRAME_BYTES_MAX {
        return Err(Malformed::new("frame", "too long"));
    }
    let size = FRAME_HEADER_BYTES + length;
    let Some(payload) = bytes.get(FRAME_HEADER_BYTES..size) else {
        return Ok(None);
    };
    if checksum && crc32(&bytes[4..size]) != u32::from_be_bytes([s0, s1, s2, s3]) {
        return Err(Malformed::new("frame", "checksum differs"));
    }
    Ok(Some((payload, size)))
}

/// Takes one message from the front of a frame's payload; `None` at its end.
pub fn next_message<'a>(payload: &mut &'a [u8]) -> Result<Option<Message<'a>>, Malformed> {
    if payload.is_empty() {
        return Ok(None);
    }
    let wrong = |reason| Malformed::new("message", reason);
    let (header, mut rest) =
        payload.split_first_chunk::<MESSAGE_HEADER_BYTES>().ok_or(wrong("header is cut"))?;
    let kind = match header[0] {
        1 => Kind::Request,
        2 => Kind::Response,
        3 => Kind::Ping,
        4 => Kind::Pong,
        5 => Kind::Goodbye,
        _ => return Err(wrong("unknown kind")),
    };
    let length = u32::from_be_bytes([header[4], header[5], header[6], header[7]]) as usize;
    let [.., c0, c1, c2, c3, c4, c5, c6, c7] = *header;
    let call = u64::from_be_bytes([c0, c1, c2, c3, c4, c5, c6, c7]);
    let (mut version, mut time_left_ms) = (0, 0);
    if kind == Kind::Request {
        let (more, behind) = rest.split_first_chunk::<REQUEST_BYTES>().ok_or(wrong("request is cut"))?;
        let [v0, v1, v2, v3, v4, v5, v6, v7, t0, t1, t2, t3] = *more;
        version = u64::from_be_bytes([v0, v1, v2, v3, v4, v5, v6, v7]);
        time_left_ms = u32::from_be_bytes([t0, t1, t2, t3]);
        rest = behind;
    }
    let (body, behind) = rest.split_at_checked(length).ok_or(wrong("body is cut"))?;
    *payload = behind;
    Ok(Some(Message { kind, verb: header[1], call, version, time_left_ms, body }))
}

/// What pings and pongs say of their sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Facts {
    /// How often the node was started.
    pub starts: u64,
    /// The last version of metadata it has applied.
    pub applied_version: u64,
    /// Whether its port for clients is open.
    pub native_open: bool,
    /// How busy it is, in the caller's measure.
    pub load: u64,
    /// The version of the schema that it shows to clients; 0 when it does not say.
    pub schema_version: u128,
    /// When its process started, seconds since the epoch; 0 when it does not say.
    pub started_at_s: u64,
}

impl Facts {
    /// Appends the body of a ping or pong.
    pub fn encode(&self, out: &mut Vec<u8>) {
        FieldWriter::new(out)
            .u64(self.starts)
            .u64(self.applied_version)
            .u64(self.native_open.into())
            .u64(self.load)
            .u128(self.schema_version)
            .u64(self.started_at_s);
    }

    /// Reads the body of a ping or pong.
    pub fn decode(body: &[u8]) -> Result<Facts, Malformed> {
        let mut fields = FieldReader::new("ping", body);
        Ok(Facts {
            starts: fields.u64()?,
            applied_version: fields.u64()?,
            native_open: fields.u64()? != 0,
            load: fields.u64()?,
            schema_version: fields.u128()?,
            started_at_s: fields.u64()?,
        })
    }
}

#[cfg(test)]
mod tests {
    //! Frames read back whole, wait when cut, and are refused when damaged.
    use super::*;

    fn messages() -> [Message<'static>; 3] {
        let message =
            |kind, verb, call, body| Message { kind, verb, call, version: 0, time_left_ms: 0, body };
        [
            Message { version: 9, time_left_ms: 1000, ..message(Kind::Request, 3, 77, b"some body") },
            message(Kind::Response, 0, 78, b""),
            message(Kind::Goodbye, 0, 0, b""),
        ]
    }

    fn sample(checksum: bool) -> Vec<u8> {
        let mut bytes = vec![0; FRAME_HEADER_BYTES];
        messages().iter().for_each(|message| encode_message(message, &mut bytes));
        seal_frame(0, checksum, &mut bytes);
        bytes
    }

    #[test]
    fn reads_back() {
        for checksum in [true, false] {
            let bytes = sample(checksum);
            let (mut payload, size) = split_frame(&bytes, checksum).expect("sound").expect("whole");
            assert_eq!(size, bytes.len());
            for message in messages() {
                assert_eq!(next_message(&mut payload), Ok(Some(message)));
            }
            assert_eq!(next_message(&mut payload), Ok(None));
            for cut in 0..bytes.len() {
                assert_eq!(split_frame(&bytes[..cut], checksum), Ok(None), "cut at {cut}");
            }
        }
    }

    #[test]
    fn any_damaged_byte_is_noticed() {
        let bytes = sample(true);
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x10;
            let read = split_frame(&damaged, true);
            assert!(!matches!(read, Ok(Some(_))), "byte {at} gave {read:?}");
        }
    }

    #[test]
    fn messages_that_are_cut_are_named() {
        let bytes = sample(true);
        let whole = &bytes[FRAME_HEADER_BYTES..];
        for (cut, reason) in [(3, "header is cut"), (20, "request is cut"), (30, "body is cut")] {
            assert_eq!(next_message(&mut &whole[..cut]), Err(Malformed::new("message", reason)));
        }
        assert_eq!(next_message(&mut &[9; 16][..]), Err(Malformed::new("message", "unknown kind")));
    }

    #[test]
    fn facts_read_back() {
        let facts = Facts {
            starts: 3,
            applied_version: 1 << 40,
            native_open: true,
            load: 17,
            schema_version: 1 << 100,
            started_at_s: 1 << 31,
        };
        let mut bytes = Vec::new();
        facts.encode(&mut bytes);
        assert_eq!(Facts::decode(&bytes), Ok(facts));
        assert_eq!(Facts::decode(&[]), Ok(Facts::default()));
    }
}
