//! Bytes waiting to be sent on one connection: appended by many tasks, sent by one.

use crate::limits::SEND_PIECE_BYTES;
use runtime::net::TcpStream;
use runtime::sync::{Event, Permit};
use std::cell::{Cell, RefCell};
use std::time::Duration;

/// A growing buffer and the wish to have it sent.
#[derive(Default)]
pub(crate) struct Outbox {
    bytes: RefCell<Vec<u8>>,
    /// Given back once the socket has taken the bytes above.
    permits: RefCell<Vec<Permit>>,
    ready: Event,
    closed: Cell<bool>,
}

impl Outbox {
    pub(crate) fn len(&self) -> usize {
        self.bytes.borrow().len()
    }

    pub(crate) fn append(&self, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.bytes.borrow_mut());
        self.ready.notify();
    }

    /// As [`Outbox::append`]; the permits are kept until the bytes are sent or thrown away.
    /// A closed outbox throws both away.
    pub(crate) fn append_with<const N: usize>(&self, permits: [Permit; N], write: impl FnOnce(&mut Vec<u8>)) {
        if !self.closed.get() {
            self.permits.borrow_mut().extend(permits);
            self.append(write);
        }
    }

    /// Throws away what was not sent: the connection it was meant for is gone.
    pub(crate) fn clear(&self) {
        self.bytes.borrow_mut().clear();
        drop(self.permits.take());
    }

    /// Makes [`Outbox::send_all`] return.
    pub(crate) fn close(&self) {
        self.closed.set(true);
        self.ready.notify();
    }

    pub(crate) fn reopen(&self) {
        self.closed.set(false);
    }

    /// Sends what is appended until closed, the connection breaks, or the socket takes longer than `stall` for a piece
    /// of [`SEND_PIECE_BYTES`]. One buffer travels while the other fills.
    pub(crate) async fn send_all(&self, stream: &TcpStream, stall: Duration) {
        let mut spare = Vec::new();
        while !self.closed.get() {
            if self.len() == 0 {
                self.ready.wait().await;
                continue;
            }
            let batch = self.bytes.replace(std::mem::take(&mut spare));
            let permits = self.permits.take();
            match self.send_batch(stream, stall, batch).await {
                Some(mut sent) => {
                    sent.clear();
                    spare = sent;
                }
                None => return,
            }
            drop(permits);
        }
    }

    /// Sends a batch and gives its buffer back; `None` when it cannot be sent, or not be sent any more.
    async fn send_batch(&self, stream: &TcpStream, stall: Duration, batch: Vec<u8>) -> Option<Vec<u8>> {
        if batch.len() <= SEND_PIECE_BYTES {
            return runtime::timeout(stall, stream.send_all(batch)).await.ok()?.ok();
        }
        let mut piece = Vec::with_capacity(SEND_PIECE_BYTES);
        for part in batch.chunks(SEND_PIECE_BYTES) {
            if self.closed.get() {
                return None;
            }
            piece.clear();
            piece.extend_from_slice(part);
            piece = runtime::timeout(stall, stream.send_all(piece)).await.ok()?.ok()?;
        }
        Some(batch)
    }
}
