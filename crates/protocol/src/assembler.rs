//! Bytes in, envelopes out: one per connection and direction.
//!
//! Versions 3 and 4 are a plain sequence of envelopes, version 5 too until the answer to STARTUP; then it is segments. The side that owns the
//! connection says when to switch ([`Assembler::set_compression`], [`Assembler::use_segments`]), and nothing is parsed ahead of
//! [`Assembler::next`], so bytes that already arrived are read the new way.
//!
//! Memory: at most one envelope and one segment beyond what the caller pushed.

use crate::compression::{Compression, decompress_body};
use crate::envelope::{Direction, Header, Version, flag};
use crate::error::Error;
use crate::limits::{BUFFER_KEPT_BYTES, HEADER_BYTES};
use crate::segment;

/// One whole envelope; its body is decompressed and lives in the assembler until the next call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope<'a> {
    /// The header. Its length and compression flag tell of the wire, not of `body`.
    pub header: Header,
    /// The body.
    pub body: &'a [u8],
}

/// A queue of bytes with a consumed front.
#[derive(Debug, Default)]
struct Buffer {
    bytes: Vec<u8>,
    start: usize,
}

impl Buffer {
    fn pending(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    fn consume(&mut self, n: usize) {
        self.start += n;
    }

    /// Makes room by dropping what was consumed; moves at most as many bytes as were consumed, so the cost per byte is constant.
    fn compact(&mut self) {
        let left = self.bytes.len() - self.start;
        if left <= self.start {
            self.bytes.copy_within(self.start.., 0);
            self.bytes.truncate(left);
            self.start = 0;
        }
        shrink(&mut self.bytes);
    }
}

/// Gives back what a large message needed, once it is gone.
fn shrink(bytes: &mut Vec<u8>) {
    if bytes.len() < BUFFER_KEPT_BYTES && bytes.capacity() > 4 * BUFFER_KEPT_BYTES {
        bytes.shrink_to(BUFFER_KEPT_BYTES);
    }
}

/// Assembles the envelopes of one direction of one connection.
#[derive(Debug)]
pub struct Assembler {
    direction: Direction,
    body_max: usize,
    version: Option<Version>,
    compression: Compression,
    segmented: bool,
    /// Bytes as they came.
    wire: Buffer,
    /// Payloads of segments.
    inner: Buffer,
    /// The last segment was a slice: only one envelope may be gathered until it is whole.
    slicing: bool,
    scratch: Vec<u8>,
}

impl Assembler {
    /// An assembler of bare envelopes with bodies up to `body_max` bytes.
    pub fn new(direction: Direction, body_max: usize) -> Assembler {
        Assembler {
            direction,
            body_max,
            version: None,
            compression: Compression::None,
            segmented: false,
            wire: Buffer::default(),
            inner: Buffer::default(),
            slicing: false,
            scratch: Vec::new(),
        }
    }

    /// From now on bodies (v3, v4) or segments (v5) are compressed this way.
    pub fn set_compression(&mut self, compression: Compression) {
        self.compression = compression;
    }

    /// From now on bodies up to `body_max` bytes are taken.
    pub fn set_body_max(&mut self, body_max: usize) {
        self.body_max = body_max;
    }

    /// From now on envelopes come in v5 segments.
    pub fn use_segments(&mut self) {
        self.segmented = true;
    }

    /// The version of the connection: that of its first envelope.
    pub fn version(&self) -> Option<Version> {
        self.version
    }

    /// Bytes of memory held, used or not.
    pub fn capacity(&self) -> usize {
        self.wire.bytes.capacity() + self.inner.bytes.capacity() + self.scratch.capacity()
    }

    /// Bytes held that are no whole envelope yet (or were not asked for).
    pub fn buffered(&self) -> usize {
        self.wire.pending().len() + self.inner.pending().len()
    }

    /// The whole length of the envelope that has begun to arrive, in bytes of the wire without segments; 0 between two, and
    /// until its header is whole. Say it after [`Assembler::next`] gave nothing.
    pub fn awaited(&self) -> usize {
        let source = if self.segmented { &self.inner } else { &self.wire };
        let Ok(Some(header)) = Header::parse(source.pending(), self.direction) else { return 0 };
        HEADER_BYTES + header.length as usize
    }

    /// Adds bytes from the connection.
    pub fn push(&mut self, bytes: &[u8]) {
        self.wire.compact();
        self.wire.bytes.extend_from_slice(bytes);
    }

    /// The next whole envelope, or `None` when more bytes are needed. After an error that closes the connection, do not call again;
    /// after a [`Error::Message`] the envelope was skipped and the next call goes on.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<Option<Envelope<'_>>, Error> {
        if !self.scratch.is_empty() {
            // The body before this one: few bytes of the wire may have become many.
            self.scratch.clear();
            shrink(&mut self.scratch);
        }
        if self.segmented {
            self.inner.compact();
            while !self.inner_has_envelope()? {
                if !self.take_segment()? {
                    self.wire.compact();
                    return Ok(None);
                }
            }
        }
        if !self.segmented && self.wire.pending().is_empty() {
            self.wire.compact();
        }
        let source = if self.segmented { &self.inner } else { &self.wire };
        let Some(header) = Header::parse(source.pending(), self.direction)? else {
            return Ok(None);
        };
        self.check(&header)?;
        let total = HEADER_BYTES + header.length as usize;
        if source.pending().len() < total {
            return Ok(None);
        }
        self.version = Some(header.version);
        let body_start = source.start + HEADER_BYTES;
        let body_end = source.start + total;
        if self.segmented {
            self.inner.consume(total);
            return Ok(Some(Envelope { header, body: &self.inner.bytes[body_start..body_end] }));
        }
        self.wire.consume(total);
        let body = &self.wire.bytes[body_start..body_end];
        if !header.has(flag::COMPRESSED) || Version::V5 <= header.version {
            return Ok(Some(Envelope { header, body }));
        }
        let fatal = |text: String| Error::Frame { stream: header.stream, text };
        if self.compression == Compression::None {
            return Err(fatal("Compressed frame received without negotiated compression".into()));
        }
        decompress_body(self.compression, body, self.body_max, &mut self.scratch)
            .map_err(|e| fatal(e.to_string()))?;
        Ok(Some(Envelope { header, body: &self.scratch }))
    }

    /// An envelope that has arrived whole and not been given yet, with where the one behind it begins: `at` bytes behind the next
    /// one. For whoever looks ahead: nothing of it was checked, and it is not always there when it could be.
    pub fn peek(&self, at: usize) -> Option<(Envelope<'_>, usize)> {
        let source = if self.segmented { &self.inner } else { &self.wire };
        let bytes = source.pending().get(at..)?;
        let header = Header::parse(bytes, self.direction).ok()??;
        let total = HEADER_BYTES + header.length as usize;
        let body = bytes.get(HEADER_BYTES..total)?;
        Some((Envelope { header, body }, at + total))
    }

    fn check(&self, header: &Header) -> Result<(), Error> {
        let fatal = |text: String| Error::Frame { stream: header.stream, text };
        if self.body_max < header.length as usize {
            return Err(fatal(format!(
                "Request is too big: length {} exceeds maximum allowed length {}",
                header.length, self.body_max
            )));
        }
        match self.version {
            // A server that refuses a version answers in its own.
            Some(version) if version != header.version && self.direction == Direction::Requests => {
                Err(fatal(format!(
                    "Invalid message version. Got {}/v{0} but previous messages on this connection had version {}/v{1}",
                    header.version as u8, version as u8
                )))
            }
            _ => Ok(()),
        }
    }

    /// Whether the payloads gathered so far hold a whole envelope; checks its header as soon as it is there.
    fn inner_has_envelope(&self) -> Result<bool, Error> {
        match Header::parse(self.inner.pending(), self.direction)? {
            Some(header) => {
                self.check(&header)?;
                Ok(HEADER_BYTES + header.length as usize <= self.inner.pending().len())
            }
            None => Ok(false),
        }
    }

    /// Moves one segment's payload over; false when it is not whole yet.
    fn take_segment(&mut self) -> Result<bool, Error> {
        let fatal = |text: &str| Error::Frame { stream: 0, text: text.to_owned() };
        let gathered = self.inner.pending().len();
        let Some(taken) = segment::read(self.wire.pending(), self.compression, &mut self.inner.bytes)? else {
            return Ok(false);
        };
        self.wire.consume(taken.total);
        if taken.self_contained {
            if self.slicing || gathered > 0 {
                return Err(fatal("Self-contained segment inside a large message"));
            }
            self.check_whole()?;
            return Ok(true);
        }
        if self.inner.pending().len() == gathered {
            return Err(fatal("Empty segment of a large message"));
        }
        self.slicing = true;
        if self.inner_has_envelope()? {
            self.slicing = false;
            self.check_whole()?;
        }
        Ok(true)
    }

    /// The gathered payload must be a whole number of envelopes.
    fn check_whole(&self) -> Result<(), Error> {
        let mut rest = self.inner.pending();
        while !rest.is_empty() {
            let total = match Header::parse(rest, self.direction)? {
                Some(header) => {
                    self.check(&header)?;
                    HEADER_BYTES + header.length as usize
                }
                None => usize::MAX,
            };
            rest = rest.get(total..).ok_or_else(|| Error::Frame {
                stream: 0,
                text: "Segment does not hold a whole number of messages".into(),
            })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
