//! One connection after both verdicts: frames in and out, calls both ways, pings.
//!
//! ```text
//! socket ─▶ read ─▶ frames ─┬─ request ─▶ handler: in this step, or a future ─▶ outbox ─▶ flush ─▶ socket
//!                           ├─ response ─▶ the task or object that waits
//!                           └─ ping, pong, goodbye ─▶ Hooks
//! ```
//! What requests are answered while a batch is read leaves with one send at its end; calls that tasks make leave at the end of the turn. The
//! socket is tried at once; only what it does not take has a task. Owned by one shard.

/// Calls of this node.
mod calling;
/// What comes.
mod reading;
/// What leaves.
mod sending;

pub use calling::Outgoing;

use crate::calls::Calls;
use crate::error::CallError;
use crate::frame::Facts;
use crate::hello::Class;
use crate::load::Load;
use crate::outbox::Outbox;
use crate::standing::Standing;
use crate::traffic::Traffic;
use crate::verbs::{Origin, Registry};
use base::{HostId, Instant};
use runtime::Group;
use runtime::net::TcpStream;
use runtime::sync::{Event, Flag};
use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;
use tls::Session;

/// What a control connection reports to its owner.
pub(crate) trait Hooks {
    /// What pings and pongs say of this node now.
    fn facts(&self) -> Facts;
    /// The peer's facts came, with the number of the ping they answer if it is a pong.
    fn heard(&self, peer: HostId, facts: &Facts, pong: Option<u64>);
    /// The peer is about to stop.
    fn goodbye(&self, peer: HostId);
    /// The connection has ended.
    fn ended(&self, peer: HostId);
}

/// A socket whose greeting is over, on the shard that will use it.
pub(crate) struct Link {
    pub(crate) stream: TcpStream,
    pub(crate) session: Option<Box<Session>>,
    /// What came behind the greeting already.
    pub(crate) plain: Vec<u8>,
    pub(crate) origin: Origin,
}

/// Which end of a connection this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Dialed,
    Accepted,
}

/// What a connection is made with, before there is a socket.
pub(crate) struct Setup {
    pub(crate) peer: HostId,
    pub(crate) class: Class,
    pub(crate) side: Side,
    pub(crate) verbs: Rc<Registry>,
    pub(crate) load: Rc<Load>,
    pub(crate) standing: Option<Arc<Standing>>,
    /// Its owner, which holds the connection.
    pub(crate) hooks: Option<Weak<dyn Hooks>>,
}

/// One connection.
pub(crate) struct Conn {
    setup: Setup,
    traffic: Rc<Traffic>,
    /// The standing's generation it was made under.
    generation: u32,
    origin: RefCell<Option<Rc<Origin>>>,
    stream: RefCell<Option<TcpStream>>,
    session: RefCell<Option<Box<Session>>>,
    is_encrypted: Cell<bool>,
    out: Outbox,
    /// Bytes taken from the outbox that the socket has not taken, before encryption.
    leaving: Cell<usize>,
    /// Bytes not sent, as they count in the shard's sum.
    unsent: Cell<usize>,
    spare: RefCell<Vec<u8>>,
    /// A task is sending.
    sending: Cell<bool>,
    /// The reader is at work and will flush by itself.
    reading: Cell<bool>,
    flush_asked: Cell<bool>,
    closed: Flag,
    reason: RefCell<String>,
    calls: RefCell<Calls>,
    unanswered: Cell<usize>,
    /// Calls of the other side that handlers work on.
    serving: Cell<usize>,
    freed: Event,
    heard: Cell<Instant>,
    sweeping: Cell<bool>,
}

/// Held by whoever opens or reads a connection: ends with the shard, and then the connection's calls are forgotten, as who waits for them
/// may hold the connection.
pub(crate) struct Ends(Option<Rc<Conn>>);

impl Ends {
    pub(crate) fn with(conn: &Rc<Conn>) -> Ends {
        Ends(Some(conn.clone()))
    }

    /// Somebody else has the connection from now on.
    pub(crate) fn pass(mut self) {
        self.0 = None;
    }
}

impl Drop for Ends {
    fn drop(&mut self) {
        // Whoever closes a connection answers its calls.
        if let Some(conn) = self.0.take().filter(|conn| !conn.is_closed()) {
            drop(conn.calls.take());
        }
    }
}

impl Conn {
    pub(crate) fn new(setup: Setup) -> Rc<Conn> {
        let generation = setup.standing.as_ref().map_or(0, |standing| standing.generation());
        // Whoever is met for one conversation is no peer.
        let is_counted = setup.class != Class::Contact;
        let traffic = if is_counted { setup.load.traffic.of(setup.peer) } else { Rc::default() };
        traffic.opened();
        Rc::new(Conn {
            setup,
            traffic,
            generation,
            origin: RefCell::default(),
            stream: RefCell::default(),
            session: RefCell::default(),
            is_encrypted: Cell::new(false),
            out: Outbox::new(),
            leaving: Cell::new(0),
            unsent: Cell::new(0),
            spare: RefCell::default(),
            sending: Cell::new(false),
            reading: Cell::new(false),
            flush_asked: Cell::new(false),
            closed: Flag::new(),
            reason: RefCell::default(),
            calls: RefCell::default(),
            unanswered: Cell::new(0),
            serving: Cell::new(0),
            freed: Event::new(),
            heard: Cell::new(runtime::now()),
            sweeping: Cell::new(false),
        })
    }

    /// Begins to use a socket: what waits is sent.
    pub(crate) fn open(self: &Rc<Self>, link: Link) {
        let Link { stream, session, plain, origin } = link;
        if self.is_closed() {
            return stream.shutdown();
        }
        self.is_encrypted.set(session.is_some());
        self.out.set_checksum(session.is_none());
        *self.session.borrow_mut() = session;
        *self.origin.borrow_mut() = Some(Rc::new(origin));
        *self.stream.borrow_mut() = Some(stream.clone());
        self.heard.set(runtime::now());
        // Made here: a task that ends before it began has no variables of its own.
        let (reader, ends) = (self.clone(), Ends::with(self));
        drop(runtime::spawn(self.group(), async move {
            reader.read(stream, plain).await;
            drop(ends);
        }));
        if self.setup.class == Class::Data || self.side() == Side::Accepted {
            let keeper = self.clone();
            drop(runtime::spawn(Group::RPC, async move { keeper.look_after().await }));
        }
        self.flush();
    }

    fn group(&self) -> Group {
        match self.setup.class {
            Class::Control | Class::Contact => Group::CONTROL,
            Class::Data => Group::RPC,
        }
    }

    pub(crate) fn side(&self) -> Side {
        self.setup.side
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.is_set()
    }

    pub(crate) fn is_open(&self) -> bool {
        !self.is_closed() && self.stream.borrow().is_some()
    }

    /// Whether what is known of the peer now makes the connection worthless.
    pub(crate) fn is_stale(&self) -> bool {
        self.setup.standing.as_ref().is_some_and(|standing| standing.generation() != self.generation)
    }

    /// Whether nothing was received for longer than this.
    pub(crate) fn is_silent(&self, limit: Duration) -> bool {
        limit < runtime::now() - self.heard.get()
    }

    #[cfg(test)]
    pub(crate) fn calls_in_flight(&self) -> usize {
        self.calls.borrow().len()
    }

    /// Waits until everything appended so far has left, or the connection has ended.
    pub(crate) async fn drained(&self) {
        while !self.is_closed() && 0 < self.unsent.get() {
            self.freed.wait().await;
        }
    }

    /// Ends the connection; calls in flight fail.
    pub(crate) fn close(&self, reason: &str) {
        if self.is_closed() {
            return;
        }
        reason.clone_into(&mut self.reason.borrow_mut());
        self.closed.set();
        self.traffic.closed();
        if let Some(stream) = self.stream.take() {
            stream.shutdown();
        }
        drop(self.out.take(Vec::new()));
        self.leaving.set(0);
        self.count();
        let waiting = self.calls.borrow().waiting();
        for call in waiting {
            self.deliver(call, Err(self.unreachable()));
        }
        self.freed.notify_each();
        if let Some(hooks) = self.hooks() {
            hooks.ended(self.setup.peer);
        }
    }

    fn hooks(&self) -> Option<Rc<dyn Hooks>> {
        self.setup.hooks.as_ref().and_then(Weak::upgrade)
    }

    fn unreachable(&self) -> CallError {
        CallError::Unreachable { peer: self.setup.peer, reason: self.reason.borrow().clone() }
    }
}
