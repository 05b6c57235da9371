//! Bytes waiting to be sent on one connection: appended by many tasks, sent by one.

use runtime::net::TcpStream;
use runtime::sync::Event;
use std::cell::{Cell, RefCell};

/// A growing buffer and the wish to have it sent.
#[derive(Default)]
pub(crate) struct Outbox {
    bytes: RefCell<Vec<u8>>,
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

    /// Throws away what was not sent: the connection it was meant for is gone.
    pub(crate) fn clear(&self) {
        self.bytes.borrow_mut().clear();
    }

    /// Makes [`Outbox::send_all`] return.
    pub(crate) fn close(&self) {
        self.closed.set(true);
        self.ready.notify();
    }

    pub(crate) fn reopen(&self) {
        self.closed.set(false);
    }

    /// Sends what is appended until closed or the connection breaks. One buffer travels while the other fills.
    pub(crate) async fn send_all(&self, stream: &TcpStream) {
        let mut spare = Vec::new();
        while !self.closed.get() {
            if self.len() == 0 {
                self.ready.wait().await;
                continue;
            }
            let batch = self.bytes.replace(std::mem::take(&mut spare));
            match stream.send_all(batch).await {
                Ok(mut sent) => {
                    sent.clear();
                    spare = sent;
                }
                Err(_) => return,
            }
        }
    }
}
