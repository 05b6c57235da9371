//! Version 5 segments: checksummed carriers of envelopes. The one little-endian part of the protocol.
//!
//! ```text
//! plain  length:17 self_contained:1 zero:6                    | crc24 | payload | crc32
//! lz4    length:17 uncompressed:17 self_contained:1 zero:5    | crc24 | payload | crc32
//! ```

use crate::checksum::{crc24, payload_crc32};
use crate::compression::{Compression, compress_block, decompress_block};
use crate::error::Error;
use crate::limits::{HEADER_BYTES, SEGMENT_PAYLOAD_MAX};

const LENGTH_MASK: u64 = SEGMENT_PAYLOAD_MAX as u64;
const TRAILER_BYTES: usize = 4;

/// What [`read`] took from the front of the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Bytes of the whole segment, to be skipped.
    pub total: usize,
    /// Whether the payload is a whole number of envelopes.
    pub self_contained: bool,
}

fn header_bytes(compression: Compression) -> usize {
    match compression {
        // Snappy is refused for version 5 at STARTUP.
        Compression::None | Compression::Snappy => 3,
        Compression::Lz4 => 5,
    }
}

fn broken(text: String) -> Error {
    Error::Frame { stream: 0, text }
}

/// Reads one segment from the front of `bytes` and appends its (decompressed) payload to `out`; `None` when more bytes are needed.
pub fn read(bytes: &[u8], compression: Compression, out: &mut Vec<u8>) -> Result<Option<Segment>, Error> {
    let data_len = header_bytes(compression);
    let Some(header) = bytes.get(..data_len + 3) else {
        return Ok(None);
    };
    let (data, crc) = header.split_at(data_len);
    let stored = u32::from_le_bytes([crc[0], crc[1], crc[2], 0]);
    let computed = crc24(data);
    if stored != computed {
        return Err(broken(format!(
            "unrecoverable CRC mismatch detected in frame header. Read {stored}, Computed {computed}"
        )));
    }
    let mut word = [0u8; 8];
    word[..data_len].copy_from_slice(data);
    let word = u64::from_le_bytes(word);
    let length = (word & LENGTH_MASK) as usize;
    let (uncompressed, self_contained) = match compression {
        Compression::None | Compression::Snappy => (0, word >> 17 & 1 == 1),
        Compression::Lz4 => ((word >> 17 & LENGTH_MASK) as usize, word >> 34 & 1 == 1),
    };
    let total = header.len() + length + TRAILER_BYTES;
    let Some(rest) = bytes.get(header.len()..total) else {
        return Ok(None);
    };
    let (payload, trailer) = rest.split_at(length);
    let stored = u32::from_le_bytes([trailer[0], trailer[1], trailer[2], trailer[3]]);
    let computed = payload_crc32(payload);
    if stored != computed {
        return Err(broken(format!(
            "unrecoverable CRC mismatch detected in frame body. Read {stored}, Computed {computed}"
        )));
    }
    if uncompressed == 0 {
        out.extend_from_slice(payload);
    } else {
        decompress_block(payload, uncompressed, out).map_err(|e| broken(e.to_string()))?;
    }
    Ok(Some(Segment { total, self_contained }))
}

/// Appends one segment that carries `payload`, at most [`SEGMENT_PAYLOAD_MAX`] bytes.
pub fn write(payload: &[u8], self_contained: bool, compression: Compression, out: &mut Vec<u8>) {
    assert!(payload.len() <= SEGMENT_PAYLOAD_MAX, "the length field has 17 bits");
    let data_len = header_bytes(compression);
    let start = out.len();
    out.resize(start + data_len + 3, 0);
    let body = out.len();
    let mut word = match compression {
        Compression::None | Compression::Snappy => (payload.len() as u64) | u64::from(self_contained) << 17,
        Compression::Lz4 => {
            compress_block(payload, out);
            let packed = out.len() - body;
            let flag = u64::from(self_contained) << 34;
            if packed < payload.len() {
                packed as u64 | (payload.len() as u64) << 17 | flag
            } else {
                out.truncate(body);
                payload.len() as u64 | flag
            }
        }
    };
    if out.len() == body {
        out.extend_from_slice(payload);
    }
    for byte in &mut out[start..start + data_len] {
        *byte = word as u8;
        word >>= 8;
    }
    let crc = crc24(&out[start..start + data_len]).to_le_bytes();
    out[start + data_len..body].copy_from_slice(&crc[..3]);
    let crc = payload_crc32(&out[body..]);
    out.extend_from_slice(&crc.to_le_bytes());
}

/// Puts whole envelopes, one after another in `envelopes`, into segments: small ones share a segment, one larger than a segment is cut.
pub fn write_envelopes(envelopes: &[u8], compression: Compression, out: &mut Vec<u8>) {
    let mut start = 0;
    let mut end = 0;
    while end < envelopes.len() {
        let length = envelope_len(&envelopes[end..]);
        if end + length - start <= SEGMENT_PAYLOAD_MAX {
            end += length;
            continue;
        }
        if start < end {
            write(&envelopes[start..end], true, compression, out);
            start = end;
            continue;
        }
        for slice in envelopes[end..end + length].chunks(SEGMENT_PAYLOAD_MAX) {
            write(slice, false, compression, out);
        }
        end += length;
        start = end;
    }
    if start < end {
        write(&envelopes[start..end], true, compression, out);
    }
}

/// Bytes of the envelope at the front; everything when the header is not whole (our own bytes always are).
fn envelope_len(bytes: &[u8]) -> usize {
    match bytes.first_chunk::<HEADER_BYTES>() {
        Some(header) => {
            let body = u32::from_be_bytes([header[5], header[6], header[7], header[8]]) as usize;
            (HEADER_BYTES + body).min(bytes.len())
        }
        None => bytes.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_known_bytes() {
        let mut out = Vec::new();
        write(&[5, 0, 0, 0, 5, 0, 0, 0, 0], true, Compression::None, &mut out);
        let want = [9, 0, 2, 0xA4, 0xC8, 0xC1, 5, 0, 0, 0, 5, 0, 0, 0, 0, 0x10, 0x86, 0x28, 0x4D];
        assert_eq!(out, want);
        out.clear();
        write(&[5, 0, 0, 0, 5, 0, 0, 0, 0], true, Compression::Lz4, &mut out);
        assert_eq!(out[..8], [9, 0, 0, 0, 4, 0xC2, 0xB8, 0x95]);
    }

    #[test]
    fn damage_is_found() {
        let mut wire = Vec::new();
        write(b"payload", true, Compression::None, &mut wire);
        for at in 0..wire.len() {
            let mut damaged = wire.clone();
            damaged[at] ^= 0x10;
            let mut out = Vec::new();
            assert!(!matches!(read(&damaged, Compression::None, &mut out), Ok(Some(_))), "{at}");
        }
    }

    proptest! {
        #[test]
        fn payloads_round_trip(payload in proptest::collection::vec(0u8..4, 0..5000), lz4: bool, contained: bool) {
            let compression = if lz4 { Compression::Lz4 } else { Compression::None };
            let (mut wire, mut back) = (Vec::new(), Vec::new());
            write(&payload, contained, compression, &mut wire);
            for cut in [0, wire.len() / 2, wire.len() - 1] {
                prop_assert_eq!(read(&wire[..cut], compression, &mut back), Ok(None));
            }
            let segment = read(&wire, compression, &mut back).expect("intact").expect("whole");
            prop_assert_eq!(segment, Segment { total: wire.len(), self_contained: contained });
            prop_assert_eq!(back, payload);
        }

        #[test]
        fn any_bytes_are_safe(bytes in proptest::collection::vec(any::<u8>(), 0..64), lz4: bool) {
            let compression = if lz4 { Compression::Lz4 } else { Compression::None };
            let _ = read(&bytes, compression, &mut Vec::new());
        }
    }
}
