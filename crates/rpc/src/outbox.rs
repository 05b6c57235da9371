//! Messages of one connection that wait for its socket, already in frames.

use crate::frame::{FRAME_HEADER_BYTES, Message, begin_message, end_message, seal_frame};
use crate::limits::{BODY_BYTES_MAX, FRAME_BYTES};
use std::cell::{Cell, RefCell};

/// No frame is open.
const NONE: usize = usize::MAX;

/// A growing buffer of frames, the last of which may be open.
pub(crate) struct Outbox {
    bytes: RefCell<Vec<u8>>,
    /// Where the open frame begins, or [`NONE`].
    open: Cell<usize>,
    checksum: Cell<bool>,
}

/// What became of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Appended {
    /// It waits, with so many bytes in all.
    Bytes(usize),
    /// Its writer wanted none.
    Nothing,
    /// Its body is larger than one may be.
    TooLarge(usize),
}

impl Outbox {
    pub(crate) fn new() -> Outbox {
        Outbox { bytes: RefCell::default(), open: Cell::new(NONE), checksum: Cell::new(true) }
    }

    /// Nothing is appended yet, or everything will be sealed with the other setting.
    pub(crate) fn set_checksum(&self, on: bool) {
        self.checksum.set(on);
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.borrow().len()
    }

    /// Appends a message whose body `write` appends; nothing when that says no. `write` may append to this outbox: what it does goes behind.
    pub(crate) fn append(&self, message: &Message<'_>, write: impl FnOnce(&mut Vec<u8>) -> bool) -> Appended {
        let mut bytes = self.bytes.take();
        let open = self.open.replace(NONE);
        let before = bytes.len();
        let frame = if open == NONE {
            bytes.extend_from_slice(&[0; FRAME_HEADER_BYTES]);
            before
        } else {
            open
        };
        let start = bytes.len();
        begin_message(message, &mut bytes);
        let body = bytes.len();
        let wanted = write(&mut bytes);
        let nested = self.take(Vec::new());
        let size = bytes.len() - body;
        let appended = if !wanted || size > BODY_BYTES_MAX {
            bytes.truncate(before);
            self.open.set(open);
            if wanted { Appended::TooLarge(size) } else { Appended::Nothing }
        } else {
            end_message(start, body, &mut bytes);
            self.open.set(frame);
            Appended::Bytes(bytes.len() - before)
        };
        let is_full = self.open.get() != NONE && bytes.len() - self.open.get() >= FRAME_BYTES;
        if is_full || !nested.is_empty() {
            self.seal(&mut bytes);
            bytes.extend_from_slice(&nested);
        }
        *self.bytes.borrow_mut() = bytes;
        appended
    }

    fn seal(&self, bytes: &mut [u8]) {
        let open = self.open.replace(NONE);
        if open != NONE {
            seal_frame(open, self.checksum.get(), bytes);
        }
    }

    /// Everything that waits, sealed, in exchange for an empty buffer.
    pub(crate) fn take(&self, spare: Vec<u8>) -> Vec<u8> {
        let mut bytes = self.bytes.replace(spare);
        self.seal(&mut bytes);
        bytes
    }
}

#[cfg(test)]
mod tests {
    //! Many messages share a frame, large ones close it, and what is appended while another is written comes behind.
    use super::*;
    use crate::frame::{Kind, next_message, split_frame};

    fn message(call: u64) -> Message<'static> {
        Message { kind: Kind::Response, verb: 0, call, version: 0, time_left_ms: 0, body: &[] }
    }

    /// The calls of each frame.
    fn frames(outbox: &Outbox) -> Vec<Vec<u64>> {
        let bytes = outbox.take(Vec::new());
        let mut rest = &bytes[..];
        let mut frames = Vec::new();
        while let Some((mut payload, size)) = split_frame(rest, true).expect("sound") {
            let mut calls = Vec::new();
            while let Some(message) = next_message(&mut payload).expect("sound") {
                calls.push(message.call);
            }
            frames.push(calls);
            rest = &rest[size..];
        }
        assert!(rest.is_empty(), "{} bytes are no frame", rest.len());
        frames
    }

    fn body(size: usize) -> impl FnOnce(&mut Vec<u8>) -> bool {
        move |out| {
            out.resize(out.len() + size, 7);
            true
        }
    }

    #[test]
    fn messages_share_a_frame_until_it_is_full() {
        let outbox = Outbox::new();
        for call in 0..4 {
            assert!(matches!(outbox.append(&message(call), body(FRAME_BYTES / 3)), Appended::Bytes(_)));
        }
        assert_eq!(outbox.append(&message(9), |_| false), Appended::Nothing);
        let too_large = outbox.append(&message(9), body(BODY_BYTES_MAX + 1));
        assert_eq!(too_large, Appended::TooLarge(BODY_BYTES_MAX + 1));
        assert!(matches!(outbox.append(&message(4), body(1)), Appended::Bytes(_)));
        assert_eq!(frames(&outbox), [vec![0, 1, 2], vec![3, 4]]);
        assert_eq!((outbox.len(), frames(&outbox).len()), (0, 0));
    }

    #[test]
    fn what_is_appended_meanwhile_comes_behind() {
        for (inner, size) in [(1, 5), (3, FRAME_BYTES), (2, FRAME_BYTES / 2)] {
            let outbox = Outbox::new();
            outbox.append(&message(0), body(1));
            outbox.append(&message(1), |out| {
                for call in 10..10 + inner {
                    outbox.append(&message(call), body(size));
                }
                out.push(1);
                true
            });
            outbox.append(&message(2), body(1));
            let frames = frames(&outbox);
            let expected: Vec<u64> = [0, 1].into_iter().chain(10..10 + inner).chain([2]).collect();
            assert_eq!(frames.concat(), expected, "{inner} of {size} bytes");
        }
        let outbox = Outbox::new();
        outbox.append(&message(1), |_| {
            outbox.append(&message(7), body(1));
            false
        });
        assert_eq!(frames(&outbox), [[7]]);
    }
}
