//! What leaves by one connection, and looking after it.

use super::{Conn, Side};
use crate::frame::{Kind, Message};
use crate::hello::Class;
use crate::limits::{
    BUFFER_KEPT_BYTES, DATA_IDLE_MAX, DATA_IDLE_PING, DATA_LOOK_EVERY, DATA_PING_AFTER, DATA_SILENCE_MAX,
    OWN_PAUSE_MIN, SEND_PIECE_BYTES, SEND_STALL_MAX,
};
use crate::load::{Flush, add, take};
use crate::outbox::Appended;
use base::Instant;
use runtime::net::TcpStream;
use std::rc::Rc;

impl Conn {
    pub(super) fn append(&self, message: &Message<'_>, write: impl FnOnce(&mut Vec<u8>) -> bool) -> Appended {
        if self.is_closed() {
            return Appended::Nothing;
        }
        let appended = self.out.append(message, write);
        if let Appended::Bytes(bytes) = appended {
            self.traffic.message(bytes);
        }
        self.count();
        appended
    }

    /// Brings the sums up to date with what waits.
    pub(super) fn count(&self) {
        if self.is_closed() {
            drop(self.out.take(Vec::new()));
        }
        let unsent = self.leaving.get() + self.out.len();
        let counted = self.unsent.replace(unsent);
        let sum = &self.setup.load.unsent;
        sum.set((sum.get() + unsent).saturating_sub(counted));
    }

    pub(super) fn flush_soon(self: &Rc<Self>) {
        if self.reading.get() || self.sending.get() || self.flush_asked.get() {
            return;
        }
        if self.setup.class != Class::Data {
            return self.flush();
        }
        self.flush_asked.set(true);
        let this = Rc::downgrade(self);
        self.setup.load.flush_soon(this);
    }

    /// Sends what waits, as far as the socket takes it at once; a task sends the rest.
    pub(super) fn flush(self: &Rc<Self>) {
        self.flush_asked.set(false);
        if self.sending.get() || self.is_closed() || self.out.len() == 0 {
            return;
        }
        let Some(stream) = self.stream.borrow().clone() else { return };
        let wire = self.out.take(self.spare.take());
        add(&self.leaving, wire.len());
        let mut unsent = Unsent { wire, from: 0, sealed: Vec::new(), sealed_plain: 0 };
        if self.is_encrypted.get()
            && unsent.wire.len() <= SEND_PIECE_BYTES
            && let Err(error) = self.seal_piece(&mut unsent)
        {
            return self.close(&error.to_string());
        }
        let is_sealed = !unsent.sealed.is_empty();
        if self.is_encrypted.get() && !is_sealed {
            return self.hand_to_writer(stream, unsent);
        }
        match stream.try_send(if is_sealed { &unsent.sealed } else { &unsent.wire }) {
            Ok(sent) if is_sealed && sent == unsent.sealed.len() => {
                self.sent(unsent.sealed_plain);
                self.keep_spare(unsent.wire);
            }
            Ok(sent) if is_sealed => {
                unsent.sealed.drain(..sent);
                self.hand_to_writer(stream, unsent);
            }
            Ok(sent) if sent == unsent.wire.len() => {
                self.sent(sent);
                self.keep_spare(unsent.wire);
            }
            Ok(sent) => {
                self.sent(sent);
                unsent.from = sent;
                self.hand_to_writer(stream, unsent);
            }
            Err(error) => self.close(&format!("the connection broke: {error}")),
        }
    }

    fn keep_spare(&self, mut wire: Vec<u8>) {
        wire.clear();
        wire.shrink_to(BUFFER_KEPT_BYTES);
        *self.spare.borrow_mut() = wire;
    }

    /// The socket has taken so many bytes, as they were before encryption.
    fn sent(&self, bytes: usize) {
        self.traffic.sent(bytes);
        if !self.is_closed() {
            take(&self.leaving, bytes);
            self.count();
            self.freed.notify_each();
        }
    }

    fn hand_to_writer(self: &Rc<Self>, stream: TcpStream, unsent: Unsent) {
        self.sending.set(true);
        let writer = self.clone();
        drop(runtime::spawn(self.group(), async move { writer.write(stream, unsent).await }));
    }

    /// Sends what the socket did not take at once, and what comes meanwhile.
    async fn write(self: Rc<Self>, stream: TcpStream, mut unsent: Unsent) {
        while !self.is_closed() {
            let (piece, plain) = match self.next_piece(&mut unsent) {
                Ok(next) => next,
                Err(error) => {
                    self.close(&error.to_string());
                    break;
                }
            };
            if piece.is_empty() {
                break;
            }
            match runtime::timeout(SEND_STALL_MAX, stream.send_all(piece)).await {
                Ok(Ok(_)) => self.progressed(plain),
                Ok(Err(error)) => self.close(&format!("the connection broke: {error}")),
                Err(_) => self.stalled(),
            }
            // A socket that takes every piece at once would keep the core.
            runtime::yield_if_needed().await;
        }
        self.sending.set(false);
        self.freed.notify_each();
    }

    /// The next bytes for the socket, and how many they are before encryption; none when nothing waits.
    fn next_piece(&self, unsent: &mut Unsent) -> Result<(Vec<u8>, usize), tls::Error> {
        if unsent.sealed.is_empty() {
            if unsent.from == unsent.wire.len() {
                (unsent.wire, unsent.from) = (self.out.take(Vec::new()), 0);
                add(&self.leaving, unsent.wire.len());
            }
            self.seal_piece(unsent)?;
        }
        if !unsent.sealed.is_empty() {
            return Ok((std::mem::take(&mut unsent.sealed), unsent.sealed_plain));
        }
        let (from, end) = unsent.piece();
        unsent.from = end;
        if from == 0 && end == unsent.wire.len() {
            unsent.from = 0;
            return Ok((std::mem::take(&mut unsent.wire), end));
        }
        Ok((unsent.wire[from..end].to_vec(), end - from))
    }

    /// Encrypts the next piece, if the connection is encrypted.
    fn seal_piece(&self, unsent: &mut Unsent) -> Result<(), tls::Error> {
        let mut session = self.session.borrow_mut();
        let Some(session) = session.as_mut() else { return Ok(()) };
        let (from, end) = unsent.piece();
        if from < end {
            session.send(&unsent.wire[from..end], &mut unsent.sealed)?;
        }
        (unsent.from, unsent.sealed_plain) = (end, end - from);
        Ok(())
    }

    fn progressed(&self, bytes: usize) {
        // Smaller pieces fit into the kernel's buffers, whether the peer reads or not.
        if let Some(standing) = self.setup.standing.as_ref().filter(|_| bytes == SEND_PIECE_BYTES) {
            standing.prove(runtime::now());
        }
        self.sent(bytes);
    }

    fn stalled(&self) {
        let peer = self.setup.peer;
        runtime::warn!("rpc: {peer} does not read what it is sent, closing its connection");
        self.setup.load.metrics.stalled.inc();
        self.close("it does not read what it is sent");
    }

    /// A data connection may die alone, while its peer lives: looks now and then, and has something sent.
    pub(super) async fn look_after(self: Rc<Self>) {
        let mut pinged_at: Option<Instant> = None;
        let mut last_look = runtime::now();
        while !self.is_closed() {
            if runtime::timeout(DATA_LOOK_EVERY, self.closed.wait()).await.is_ok() {
                return;
            }
            let now = runtime::now();
            let was_stopped = DATA_LOOK_EVERY + OWN_PAUSE_MIN < now - std::mem::replace(&mut last_look, now);
            if was_stopped {
                // What came meanwhile was not received yet.
                pinged_at = pinged_at.map(|_| now);
                continue;
            }
            let silence = now - self.heard.get();
            if self.side() == Side::Accepted {
                if DATA_IDLE_MAX < silence {
                    self.close("it was silent for too long");
                }
                continue;
            }
            pinged_at = pinged_at.filter(|at| self.heard.get() < *at);
            match pinged_at {
                Some(at) if DATA_SILENCE_MAX < now - at => self.close("this connection is silent"),
                Some(_) => {}
                None => {
                    let is_waiting = 0 < self.calls.borrow().len();
                    if (if is_waiting { DATA_PING_AFTER } else { DATA_IDLE_PING }) < silence {
                        pinged_at = Some(now);
                        self.signal(Kind::Ping, 0);
                    }
                }
            }
        }
    }
}

/// What was taken from the outbox and has not left.
struct Unsent {
    wire: Vec<u8>,
    /// What of it is sent, or encrypted.
    from: usize,
    /// Encrypted and not sent; goes first.
    sealed: Vec<u8>,
    /// How many bytes that was before.
    sealed_plain: usize,
}

impl Unsent {
    /// Where the next piece begins and ends.
    fn piece(&self) -> (usize, usize) {
        (self.from, self.wire.len().min(self.from + SEND_PIECE_BYTES))
    }
}

impl Flush for Conn {
    fn flush_now(self: Rc<Self>) {
        self.flush();
    }
}
