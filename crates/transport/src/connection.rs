//! One client connection: what is being served, what waits to be sent.
//!
//! ```text
//! reader task ──decode──▶ dispatch ──▶ requests (0..n in flight) ──answers──▶ out ──flush──▶ socket
//!      ▲                                                                      │
//!      └──────────── stops reading while too much is in flight or unsent ◀────┘
//! ```
//! Answers collect in `out` and leave once per turn: the reader flushes after each received piece, the shard's flusher
//! whatever ended later. What the socket does not take goes to a writer task, which gives the client a bounded time.
//! Owned by one shard for life.

use crate::dispatch::Agreed;
use crate::limits;
use crate::outbound::Outbound;
use crate::shard::Shard;
use crate::slots::Slot;
use base::Instant;
use core::net::SocketAddr;
use protocol::assembler::Assembler;
use runtime::Group;
use runtime::net::TcpStream;
use runtime::sync::{Event, Flag};
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use tls::{Encryption, Session};

/// Where a connection is in the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Only OPTIONS and STARTUP are legal.
    Startup,
    /// AUTHENTICATE was sent: only OPTIONS and AUTH_RESPONSE are legal.
    Authenticating,
    /// Everything but a second STARTUP is legal.
    Ready,
}

/// What a client said about itself.
#[derive(Debug, Clone, Default)]
pub struct Greeting {
    /// The keys and values of STARTUP.
    pub options: BTreeMap<String, String>,
}

/// Kinds of events a connection asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Registered {
    /// TOPOLOGY_CHANGE.
    pub topology: bool,
    /// STATUS_CHANGE.
    pub status: bool,
    /// SCHEMA_CHANGE.
    pub schema: bool,
}

/// One client connection.
pub struct Connection {
    /// The shard that serves it.
    pub shard: Rc<Shard>,
    /// The client's end.
    pub peer: SocketAddr,
    /// What its port asks for.
    pub encryption: Encryption,
    /// The version of its frames; 0 until the first.
    pub version: Cell<u8>,
    /// Where it is in the protocol.
    pub phase: Cell<Phase>,
    /// Who has logged in.
    pub user: OnceCell<Rc<str>>,
    /// Until when it must have introduced itself.
    pub(crate) startup_deadline: Instant,
    /// A login is being checked; nothing more is served until that has ended.
    pub(crate) logging_in: Cell<bool>,
    /// The keyspace in use.
    pub keyspace: RefCell<Option<Arc<str>>>,
    /// What it said in STARTUP.
    pub greeting: RefCell<Greeting>,
    /// The events it asked for.
    pub registered: Cell<Registered>,
    /// Requests answered.
    pub answered: Cell<u64>,
    /// Whether it wants to hear of overload instead of being read more slowly.
    pub throws_on_overload: Cell<bool>,
    /// The client has said that it is done.
    pub(crate) ended: Cell<bool>,
    /// The server is done with it: what is being served ends, nothing more is read.
    pub(crate) leaving: Cell<bool>,
    agreed: Cell<Option<Agreed>>,
    pub(crate) out: RefCell<Outbound>,
    stream: TcpStream,
    unsent: RefCell<Vec<u8>>,
    /// Bytes at the front of `unsent` that are sent or being sent; below its length unless both are 0.
    unsent_from: Cell<usize>,
    spare: RefCell<Vec<u8>>,
    /// Whether everything goes through `session`.
    encrypted: Cell<bool>,
    session: RefCell<Option<Box<Session>>>,
    /// Encrypted bytes that the socket did not take; they go before anything else.
    sealed: RefCell<Vec<u8>>,
    sending: Cell<bool>,
    flush_asked: Cell<bool>,
    reading: Cell<bool>,
    requests: Cell<u32>,
    request_bytes: Cell<usize>,
    /// The reader waits here, and whoever drains the connection.
    freed: Event,
    /// Pieces of answers that the socket took late.
    late_sends: Cell<u64>,
    closed: Flag,
    _slot: Slot,
}

impl Connection {
    pub(crate) fn new(
        shard: Rc<Shard>,
        stream: TcpStream,
        encryption: Encryption,
        slot: Slot,
    ) -> std::io::Result<Rc<Connection>> {
        Ok(Rc::new(Connection {
            throws_on_overload: Cell::new(shard.settings.throw_on_overload),
            shard,
            peer: stream.peer_addr()?,
            encryption,
            ended: Cell::new(false),
            leaving: Cell::new(false),
            encrypted: Cell::new(false),
            session: RefCell::new(None),
            sealed: RefCell::default(),
            version: Cell::new(0),
            phase: Cell::new(Phase::Startup),
            user: OnceCell::new(),
            startup_deadline: runtime::now() + limits::STARTUP_TIMEOUT,
            logging_in: Cell::new(false),
            keyspace: RefCell::new(None),
            greeting: RefCell::default(),
            registered: Cell::default(),
            answered: Cell::new(0),
            agreed: Cell::new(None),
            out: RefCell::default(),
            stream,
            unsent: RefCell::default(),
            unsent_from: Cell::new(0),
            spare: RefCell::default(),
            sending: Cell::new(false),
            flush_asked: Cell::new(false),
            reading: Cell::new(false),
            requests: Cell::new(0),
            request_bytes: Cell::new(0),
            freed: Event::new(),
            late_sends: Cell::new(0),
            closed: Flag::new(),
            _slot: slot,
        }))
    }

    /// What STARTUP agreed on, once.
    pub(crate) fn agreed(&self) -> Option<Agreed> {
        self.agreed.get()
    }

    pub(crate) fn agree(&self, agreed: Agreed) {
        self.agreed.set(Some(agreed));
    }

    pub(crate) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Whether the connection has ended or is to end now.
    pub fn is_closed(&self) -> bool {
        self.closed.is_set()
    }

    /// From now on everything is encrypted.
    pub(crate) fn secure(&self, session: Box<Session>) {
        *self.session.borrow_mut() = Some(session);
        self.encrypted.set(true);
    }

    /// The version and cipher suite of its encryption, in Java's words.
    pub fn cipher(&self) -> Option<(&'static str, String)> {
        let session = self.session.borrow();
        let session = session.as_ref()?;
        Some((session.protocol()?, session.cipher_suite()?))
    }

    /// Takes received bytes. Errors: they are no TLS; the connection is to end.
    pub(crate) fn take_in(self: &Rc<Self>, bytes: &[u8], inbound: &mut Assembler) -> Result<(), tls::Error> {
        if !self.encrypted.get() {
            inbound.push(bytes);
            return Ok(());
        }
        let mut guard = self.session.borrow_mut();
        let Some(session) = guard.as_mut() else { return Ok(()) };
        let received = session.receive(bytes, |plain| inbound.push(plain));
        let owes = session.has_output();
        drop(guard);
        if owes && !self.sending.get() {
            self.send_sealed(&[]);
        }
        self.ended.set(received?.closed);
        Ok(())
    }

    /// Ends the connection: nothing more is read or sent.
    pub fn cut(&self) {
        if !self.closed.is_set() {
            self.say_goodbye();
            self.closed.set();
            self.freed.notify_each();
            self.stream.shutdown();
        }
    }

    /// Takes note of a request until the guard is dropped.
    /// A weight above 1 is for requests that may cost far more than others.
    pub(crate) fn enter(self: &Rc<Self>, bytes: usize, weight: u32) -> InFlight {
        self.requests.set(self.requests.get() + weight);
        self.request_bytes.set(self.request_bytes.get() + bytes);
        self.shard.enter(&self.peer, bytes);
        InFlight { connection: self.clone(), bytes, weight }
    }

    /// Whether nothing more should be read for now.
    pub(crate) fn is_full(&self) -> bool {
        self.requests.get() >= limits::REQUESTS_PER_CONNECTION
            || self.request_bytes.get() >= limits::REQUEST_BYTES_PER_CONNECTION
            || self.out_bytes() >= limits::OUT_BYTES_STOP
    }

    /// Waits until a request has ended, bytes were sent or the connection is closed.
    pub(crate) async fn wait_freed(&self) {
        self.freed.wait().await;
    }

    /// Bytes of answers that have not reached the socket.
    fn out_bytes(&self) -> usize {
        let sealed = self.sealed.borrow().len();
        self.out.borrow().len() + self.unsent.borrow().len() - self.unsent_from.get() + sealed
    }

    /// Says that the reader is at work and will flush by itself.
    pub(crate) fn set_reading(&self, reading: bool) {
        self.reading.set(reading);
    }

    /// Has what is in `out` sent before the shard turns to other work.
    pub(crate) fn flush_later(self: &Rc<Self>) {
        if !self.reading.get() && !self.sending.get() && !self.flush_asked.replace(true) {
            self.shard.ask_flush(self.clone());
        }
    }

    /// Sends what is in `out` as far as the socket takes it.
    pub(crate) fn flush(self: &Rc<Self>) {
        self.flush_asked.set(false);
        if self.sending.get() || self.closed.is_set() || self.out.borrow().is_empty() {
            return;
        }
        let mut wire = self.spare.take();
        self.out.borrow_mut().seal(&mut wire);
        if self.encrypted.get() {
            return self.flush_encrypted(wire);
        }
        match self.stream.try_send(&wire) {
            Ok(sent) if sent == wire.len() => self.keep_spare(wire),
            Ok(sent) => self.hand_to_writer(wire, sent),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => self.hand_to_writer(wire, 0),
            Err(_) => self.cut(),
        }
    }

    /// Encrypts and sends what is short; the writer does the same piece by piece with what is long.
    fn flush_encrypted(self: &Rc<Self>, wire: Vec<u8>) {
        if limits::SEND_PIECE_BYTES < wire.len() {
            return self.hand_to_writer(wire, 0);
        }
        self.send_sealed(&wire);
        self.keep_spare(wire);
    }

    /// Encrypts `plain` and sends it, and what the session had to say anyway. Nothing else may be on its way.
    fn send_sealed(self: &Rc<Self>, plain: &[u8]) {
        let mut sealed = self.sealed.take();
        if self.seal(plain, &mut sealed).is_err() {
            return self.cut();
        }
        let sent = match self.stream.try_send(&sealed) {
            Ok(sent) => sent,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => 0,
            Err(_) => return self.cut(),
        };
        let left = sent < sealed.len();
        if left {
            sealed.drain(..sent);
        } else {
            sealed.clear();
            sealed.shrink_to(limits::BUFFER_KEPT_BYTES);
        }
        *self.sealed.borrow_mut() = sealed;
        if left {
            self.hand_to_writer(Vec::new(), 0);
        }
    }

    /// Appends to `wire` what says `plain`.
    fn seal(&self, plain: &[u8], wire: &mut Vec<u8>) -> Result<(), tls::Error> {
        match self.session.borrow_mut().as_mut() {
            Some(session) => session.send(plain, wire),
            None => Ok(()),
        }
    }

    /// Tells the client that nothing more will come, as far as the socket takes it.
    fn say_goodbye(&self) {
        if self.sending.get() {
            return;
        }
        let mut wire = Vec::new();
        if let Ok(mut guard) = self.session.try_borrow_mut()
            && let Some(session) = guard.as_mut()
            && session.goodbye(&mut wire).is_ok()
        {
            // The client may have gone already.
            let _unsent = self.stream.try_send(&wire);
        }
    }

    fn keep_spare(&self, mut wire: Vec<u8>) {
        wire.clear();
        wire.shrink_to(limits::BUFFER_KEPT_BYTES);
        *self.spare.borrow_mut() = wire;
    }

    fn hand_to_writer(self: &Rc<Self>, wire: Vec<u8>, sent: usize) {
        *self.unsent.borrow_mut() = wire;
        self.unsent_from.set(sent);
        self.sending.set(true);
        let connection = self.clone();
        drop(runtime::spawn(Group::QUERY, async move { connection.write_unsent().await }));
    }

    /// Sends what the socket did not take at once, and what comes meanwhile.
    async fn write_unsent(self: Rc<Self>) {
        while !self.closed.is_set() {
            if self.unsent.borrow().is_empty() && self.sealed.borrow().is_empty() {
                let mut wire = Vec::new();
                self.out.borrow_mut().seal(&mut wire);
                if wire.is_empty() {
                    break;
                }
                *self.unsent.borrow_mut() = wire;
                self.unsent_from.set(0);
            }
            let Ok(piece) = self.next_piece() else {
                self.cut();
                break;
            };
            let sent = runtime::timeout(limits::SEND_TIMEOUT, self.stream.send_all(piece)).await;
            match sent {
                Ok(Ok(_)) => {
                    self.late_sends.set(self.late_sends.get() + 1);
                    self.freed.notify_each();
                }
                Ok(Err(_)) => self.cut(),
                Err(_) => {
                    runtime::info!("transport: {} does not read its answers, closing it", self.peer);
                    self.shard.metrics.cut_slow.inc();
                    self.cut();
                }
            }
            if self.out_bytes() > limits::OUT_BYTES_CUT {
                runtime::warn!("transport: {} leaves too many answers unread, closing it", self.peer);
                self.cut();
            }
            // A socket that takes every piece at once would keep the core for a large answer.
            runtime::yield_if_needed().await;
        }
        self.sending.set(false);
        self.freed.notify_each();
    }

    /// The next bytes for the socket: one piece is encrypted at a time, however long the answer is.
    fn next_piece(&self) -> Result<Vec<u8>, tls::Error> {
        if !self.encrypted.get() {
            return Ok(self.next_plain_piece());
        }
        let sealed = self.sealed.take();
        if !sealed.is_empty() {
            return Ok(sealed);
        }
        let plain = self.next_plain_piece();
        let mut wire = Vec::with_capacity(plain.len() + plain.len() / 64 + 64);
        self.seal(&plain, &mut wire)?;
        Ok(wire)
    }

    fn next_plain_piece(&self) -> Vec<u8> {
        let mut unsent = self.unsent.borrow_mut();
        let from = self.unsent_from.get();
        let end = unsent.len().min(from + limits::SEND_PIECE_BYTES);
        if from == 0 && end == unsent.len() {
            return std::mem::take(&mut unsent);
        }
        let piece = unsent[from..end].to_vec();
        if end == unsent.len() {
            *unsent = Vec::new();
            self.unsent_from.set(0);
        } else if end >= unsent.len() / 2 {
            // What was sent gives its memory back by halves: a slow reader does not hold all of a large answer, and each
            // byte is moved twice at most on average.
            unsent.drain(..end);
            unsent.shrink_to_fit();
            self.unsent_from.set(0);
        } else {
            self.unsent_from.set(end);
        }
        piece
    }

    /// Whether requests are being served or answers are on their way.
    pub(crate) fn is_busy(&self) -> bool {
        0 < self.requests.get() || 0 < self.out_bytes()
    }

    /// Changes whenever something was done for the client, be it slowly.
    pub(crate) fn progress(&self) -> u64 {
        self.answered.get() + self.late_sends.get()
    }

    /// Waits until every request has ended and every answer has reached the socket, or the connection is closed.
    pub(crate) async fn drain(self: &Rc<Self>) {
        loop {
            self.flush();
            let idle = self.requests.get() == 0 && !self.sending.get() && self.out.borrow().is_empty();
            if idle || self.closed.is_set() {
                return;
            }
            self.freed.wait().await;
        }
    }
}

/// A request being served; dropping it makes room for the next.
pub(crate) struct InFlight {
    pub(crate) connection: Rc<Connection>,
    bytes: usize,
    weight: u32,
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let connection = &self.connection;
        connection.requests.set(connection.requests.get() - self.weight);
        connection.request_bytes.set(connection.request_bytes.get() - self.bytes);
        connection.answered.set(connection.answered.get() + 1);
        connection.shard.leave(&connection.peer, self.bytes);
        connection.freed.notify_each();
    }
}
