//! What a tool prints, handed on in large pieces.

use crate::error::Error;
use crate::limits::OUTPUT_BYTES;
use std::io::Write;

/// A writer with a buffer of bounded size.
pub struct Output<'w> {
    buffer: Vec<u8>,
    to: &'w mut dyn Write,
}

impl<'w> Output<'w> {
    /// Prints to a writer.
    pub fn new(to: &'w mut dyn Write) -> Output<'w> {
        Output { buffer: Vec::with_capacity(OUTPUT_BYTES + 4096), to }
    }

    /// Where text is appended; what is large enough is handed on by [`Output::pass`].
    pub(crate) fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }

    /// Adds one line.
    pub(crate) fn line(&mut self, text: impl std::fmt::Display) -> Result<(), Error> {
        self.buffer.extend_from_slice(format!("{text}\n").as_bytes());
        self.pass()
    }

    /// Hands on what has gathered, if it is much.
    pub(crate) fn pass(&mut self) -> Result<(), Error> {
        if self.buffer.len() >= OUTPUT_BYTES { self.flush() } else { Ok(()) }
    }

    /// Hands on what has gathered. Errors: `Closed` when nobody reads it.
    pub fn flush(&mut self) -> Result<(), Error> {
        let written = self.to.write_all(&self.buffer).and_then(|()| self.to.flush());
        self.buffer.clear();
        written.map_err(|_| Error::Closed)
    }
}
