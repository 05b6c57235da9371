//! Whole envelopes out: as they are, compressed one by one (v3, v4) or put into segments (v5).

use crate::compression::{Compression, compress_body};
use crate::envelope::{Version, flag};
use crate::limits::{COMPRESS_BYTES_MIN, HEADER_BYTES};
use crate::segment;

/// How one connection's outgoing envelopes are dressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// The version of the connection.
    pub version: Version,
    /// What STARTUP agreed on.
    pub compression: Compression,
    /// Version 5, after the answer to STARTUP.
    pub segmented: bool,
}

impl Outgoing {
    /// Bare envelopes: the state before STARTUP is answered.
    pub fn bare(version: Version) -> Outgoing {
        Outgoing { version, compression: Compression::None, segmented: false }
    }

    /// True when envelopes go out as they are, so that [`write`](Outgoing::write) need not be called.
    pub fn is_plain(&self) -> bool {
        !self.segmented && self.compression == Compression::None
    }

    /// Appends to `out` what goes over the wire for these whole envelopes, one after another in `envelopes`.
    pub fn write(&self, envelopes: &[u8], out: &mut Vec<u8>) {
        if self.segmented {
            segment::write_envelopes(envelopes, self.compression, out);
            return;
        }
        if self.is_plain() || Version::V5 <= self.version {
            out.extend_from_slice(envelopes);
            return;
        }
        let mut rest = envelopes;
        while let Some((header, tail)) = rest.split_first_chunk::<HEADER_BYTES>() {
            let length = u32::from_be_bytes([header[5], header[6], header[7], header[8]]) as usize;
            let (body, tail) = tail.split_at(length.min(tail.len()));
            let start = out.len();
            out.extend_from_slice(header);
            if body.len() < COMPRESS_BYTES_MIN {
                out.extend_from_slice(body);
            } else {
                compress_body(self.compression, body, out);
                let packed = (out.len() - start - HEADER_BYTES) as u32;
                out[start + 1] |= flag::COMPRESSED;
                out[start + 5..start + HEADER_BYTES].copy_from_slice(&packed.to_be_bytes());
            }
            rest = tail;
        }
    }
}
