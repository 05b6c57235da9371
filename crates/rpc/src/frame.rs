//! Frames between nodes.
//!
//! ```text
//! u32 magic "MSN1"  u8 kind  u8 verb  u16 zero  u64 call id  u64 topology epoch  u32 time left (ms)
//! u32 body length   u32 CRC-32 of the body      u32 CRC-32 of the 36 bytes before     body
//! ```
//! Big-endian. On the wire between versions: it changes only with the magic.

use crate::Error;
use crate::limits::BODY_BYTES_MAX;
use base::crc32;

const MAGIC: u32 = u32::from_be_bytes(*b"MSN1");
const HEADER_BYTES: usize = 40;

/// What a frame is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameKind {
    /// Asks; wants an answer with the same call id.
    Request,
    /// Answers.
    Response,
    /// Asks whether the other side lives.
    Ping,
    /// It does.
    Pong,
}

impl FrameKind {
    fn code(self) -> u8 {
        match self {
            FrameKind::Request => 1,
            FrameKind::Response => 2,
            FrameKind::Ping => 3,
            FrameKind::Pong => 4,
        }
    }

    fn from_code(code: u8) -> Option<FrameKind> {
        [FrameKind::Request, FrameKind::Response, FrameKind::Ping, FrameKind::Pong]
            .into_iter()
            .find(|k| k.code() == code)
    }
}

/// One frame, its body borrowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// What it is for.
    pub kind: FrameKind,
    /// What is asked; the floors above number them.
    pub verb: u8,
    /// Pairs answers with requests on one connection.
    pub call: u64,
    /// Topology version the sender acted under.
    pub epoch: u64,
    /// Milliseconds until nobody waits for the answer any more.
    pub time_left_ms: u32,
    /// The rest.
    pub body: &'a [u8],
}

/// Appends a frame.
pub fn encode_frame(frame: &Frame<'_>, out: &mut Vec<u8>) {
    assert!(frame.body.len() <= BODY_BYTES_MAX, "callers bound their messages");
    let start = out.len();
    out.extend_from_slice(&MAGIC.to_be_bytes());
    out.extend_from_slice(&[frame.kind.code(), frame.verb, 0, 0]);
    out.extend_from_slice(&frame.call.to_be_bytes());
    out.extend_from_slice(&frame.epoch.to_be_bytes());
    out.extend_from_slice(&frame.time_left_ms.to_be_bytes());
    out.extend_from_slice(&(frame.body.len() as u32).to_be_bytes());
    out.extend_from_slice(&crc32(frame.body).to_be_bytes());
    let header = crc32(&out[start..]);
    out.extend_from_slice(&header.to_be_bytes());
    out.extend_from_slice(frame.body);
}

/// Takes one frame from the front of `bytes`: the frame and how many bytes it took; `None` when more must arrive first.
/// Errors: the bytes are not a frame; the connection cannot go on.
pub fn decode_frame(bytes: &[u8]) -> Result<Option<(Frame<'_>, usize)>, Error> {
    let Some((header, rest)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
        return Ok(None);
    };
    let u32_at = |at: usize| u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    let u64_at = |at: usize| u64::from(u32_at(at)) << 32 | u64::from(u32_at(at + 4));
    if u32_at(0) != MAGIC {
        return Err(Error::Malformed { reason: "wrong magic" });
    }
    if u32_at(36) != crc32(&header[..36]) {
        return Err(Error::Malformed { reason: "header checksum differs" });
    }
    let kind = FrameKind::from_code(header[4]).ok_or(Error::Malformed { reason: "unknown kind" })?;
    let len = u32_at(28) as usize;
    if len > BODY_BYTES_MAX {
        return Err(Error::Malformed { reason: "body is too long" });
    }
    let Some(body) = rest.get(..len) else {
        return Ok(None);
    };
    if u32_at(32) != crc32(body) {
        return Err(Error::Malformed { reason: "body checksum differs" });
    }
    let frame =
        Frame { kind, verb: header[5], call: u64_at(8), epoch: u64_at(16), time_left_ms: u32_at(24), body };
    Ok(Some((frame, HEADER_BYTES + len)))
}

#[cfg(test)]
mod tests {
    //! Frames read back whole, wait when cut, and are refused when damaged.
    use super::*;

    fn sample() -> (Vec<u8>, Frame<'static>) {
        let frame = Frame {
            kind: FrameKind::Request,
            verb: 3,
            call: 77,
            epoch: 9,
            time_left_ms: 1000,
            body: b"some body",
        };
        let mut bytes = Vec::new();
        encode_frame(&frame, &mut bytes);
        (bytes, frame)
    }

    #[test]
    fn reads_back() {
        let (bytes, frame) = sample();
        assert_eq!(decode_frame(&bytes), Ok(Some((frame, bytes.len()))));
        for cut in 0..bytes.len() {
            assert_eq!(decode_frame(&bytes[..cut]), Ok(None), "cut at {cut}");
        }
    }

    #[test]
    fn any_damaged_byte_is_noticed() {
        let (bytes, frame) = sample();
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x10;
            let read = decode_frame(&damaged);
            assert!(read.is_err(), "byte {at} of {frame:?} gave {read:?}");
        }
    }
}
