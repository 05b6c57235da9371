//! Answers of one connection on their way out: envelopes collect, and leave in the connection's framing.

use crate::limits;
use protocol::compression::Compression;
use protocol::envelope::Version;
use protocol::outgoing::Outgoing;

/// Whole envelopes that have not been handed to the socket.
#[derive(Debug, Default)]
pub struct Outbound {
    envelopes: Vec<u8>,
    /// Bytes at the front that leave as they are although later ones are dressed: the answer to STARTUP.
    bare: usize,
    dress: Option<Outgoing>,
}

impl Outbound {
    /// Bytes waiting, before they are dressed.
    pub fn len(&self) -> usize {
        self.envelopes.len()
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.envelopes.is_empty()
    }

    /// From the next envelope on: v5 puts envelopes into segments, v4 compresses bodies.
    pub fn negotiated(&mut self, version: Version, compression: Compression) {
        let dress = Outgoing { version, compression, segmented: version == Version::V5 };
        self.bare = self.envelopes.len();
        self.dress = (!dress.is_plain()).then_some(dress);
    }

    /// Where whole envelopes are appended.
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.envelopes
    }

    /// Moves everything that waits to the end of `wire`, in the connection's dress.
    pub fn seal(&mut self, wire: &mut Vec<u8>) {
        let Some(dress) = self.dress else {
            if wire.is_empty() {
                std::mem::swap(wire, &mut self.envelopes);
            } else {
                wire.append(&mut self.envelopes);
            }
            return;
        };
        let (bare, dressed) = self.envelopes.split_at(self.bare);
        wire.extend_from_slice(bare);
        dress.write(dressed, wire);
        self.envelopes.clear();
        self.envelopes.shrink_to(limits::BUFFER_KEPT_BYTES);
        self.bare = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::envelope::flag;
    use protocol::segment;

    /// A void result on a stream.
    fn void(out: &mut Outbound, version: Version, stream: u8) {
        out.buffer().extend_from_slice(&[0x80 | version as u8, 0, 0, stream, 8, 0, 0, 0, 4, 0, 0, 0, 1]);
    }

    #[test]
    fn v4_leaves_as_written() {
        let mut out = Outbound::default();
        void(&mut out, Version::V4, 3);
        let mut wire = Vec::new();
        out.seal(&mut wire);
        assert_eq!(wire, [0x84, 0, 0, 3, 8, 0, 0, 0, 4, 0, 0, 0, 1]);
        assert!(out.is_empty());
    }

    #[test]
    fn the_answer_to_startup_stays_bare_in_v5() {
        let mut out = Outbound::default();
        out.buffer().extend_from_slice(&[0x85, 0, 0, 1, 2, 0, 0, 0, 0]);
        out.negotiated(Version::V5, Compression::None);
        void(&mut out, Version::V5, 2);
        void(&mut out, Version::V5, 3);
        let mut wire = Vec::new();
        out.seal(&mut wire);
        assert_eq!(wire[..9], [0x85, 0, 0, 1, 2, 0, 0, 0, 0]);
        let mut payload = Vec::new();
        let read = segment::read(&wire[9..], Compression::None, &mut payload).unwrap().unwrap();
        assert!(read.self_contained);
        assert_eq!(read.total, wire.len() - 9);
        assert_eq!(payload.len(), 2 * 13);
    }

    #[test]
    fn large_v4_bodies_are_compressed() {
        let mut out = Outbound::default();
        out.negotiated(Version::V4, Compression::Lz4);
        out.buffer().extend_from_slice(&[0x84, 0, 0, 1, 8, 0, 0, 0x20, 0]);
        out.buffer().resize(9 + 0x2000, 7);
        void(&mut out, Version::V4, 2);
        let mut wire = Vec::new();
        out.seal(&mut wire);
        assert_eq!(wire[1], flag::COMPRESSED);
        assert!(wire.len() < 1000);
        assert_eq!(wire[wire.len() - 13..], [0x84, 0, 0, 2, 8, 0, 0, 0, 4, 0, 0, 0, 1]);
    }
}
