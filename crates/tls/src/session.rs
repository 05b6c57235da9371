//! One conversation: either side, from the first byte to the goodbye.

use crate::error::Error;
use crate::limits::RECORD_BYTES;
use rustls::{Connection, ProtocolVersion, SupportedCipherSuite};
use std::io::{BufRead, Write};

/// What [`Session::receive`] found besides plain bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Received {
    /// The other side has said goodbye: nothing more will come.
    pub closed: bool,
}

/// One side of a conversation. Memory: a record or two beyond what the caller holds.
#[derive(Debug)]
pub struct Session {
    inner: Connection,
}

impl Session {
    pub(crate) fn new(inner: Connection) -> Session {
        Session { inner }
    }

    /// Whether the sides are still agreeing on keys: nothing can be sent, and a step may cost a millisecond of computing.
    pub fn is_handshaking(&self) -> bool {
        self.inner.is_handshaking()
    }

    /// Whether [`output`](Session::output) has something.
    pub fn has_output(&self) -> bool {
        self.inner.wants_write()
    }

    /// Takes bytes of the wire; `plain` gets what they say, piece by piece.
    /// Errors: send what [`output`](Session::output) gives, then close.
    pub fn receive(&mut self, mut bytes: &[u8], mut plain: impl FnMut(&[u8])) -> Result<Received, Error> {
        while !bytes.is_empty() {
            // A slice gives bytes without waiting; what is refused is more than a record without progress.
            let taken = self.inner.read_tls(&mut bytes).map_err(|error| Error::Session(error.to_string()))?;
            let state = self.inner.process_new_packets()?;
            self.drain(&mut plain)?;
            if state.peer_has_closed() || taken == 0 {
                return Ok(Received { closed: true });
            }
        }
        Ok(Received { closed: false })
    }

    fn drain(&mut self, plain: &mut impl FnMut(&[u8])) -> Result<(), Error> {
        loop {
            let mut reader = self.inner.reader();
            match reader.fill_buf() {
                Ok([]) => return Ok(()),
                Ok(bytes) => {
                    let length = bytes.len();
                    plain(bytes);
                    reader.consume(length);
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(Error::Session(error.to_string())),
            }
        }
    }

    /// Appends to `wire` what says `plain`, after whatever waited to be sent. The handshake must be over.
    pub fn send(&mut self, plain: &[u8], wire: &mut Vec<u8>) -> Result<(), Error> {
        self.output(wire)?;
        for piece in plain.chunks(RECORD_BYTES) {
            self.inner.writer().write_all(piece).map_err(|error| Error::Session(error.to_string()))?;
            self.output(wire)?;
        }
        Ok(())
    }

    /// Appends to `wire` what waits to be sent: handshake messages, alerts.
    pub fn output(&mut self, wire: &mut Vec<u8>) -> Result<(), Error> {
        while self.inner.wants_write() {
            self.inner.write_tls(wire).map_err(|error| Error::Session(error.to_string()))?;
        }
        Ok(())
    }

    /// Appends the goodbye to `wire`: nothing can be sent after it.
    pub fn goodbye(&mut self, wire: &mut Vec<u8>) -> Result<(), Error> {
        self.inner.send_close_notify();
        self.output(wire)
    }

    /// Java's name of the version agreed on.
    pub fn protocol(&self) -> Option<&'static str> {
        self.inner.protocol_version().and_then(protocol_name)
    }

    /// Java's name of the cipher suite agreed on.
    pub fn cipher_suite(&self) -> Option<String> {
        self.inner.negotiated_cipher_suite().map(suite_name)
    }
}

pub(crate) fn protocol_name(version: ProtocolVersion) -> Option<&'static str> {
    match version {
        ProtocolVersion::TLSv1_2 => Some("TLSv1.2"),
        ProtocolVersion::TLSv1_3 => Some("TLSv1.3"),
        _ => None,
    }
}

pub(crate) fn suite_name(suite: SupportedCipherSuite) -> String {
    format!("{:?}", suite.suite()).replace("TLS13_", "TLS_")
}
