//! One shard's door to one other node.
//!
//! A background task keeps the connection: it connects, pings, gives up on silence, fails what was in flight, and tries
//! again. Callers only see whether the peer is reachable and what became of their call. Owned by one shard.

use crate::error::Error;
use crate::frame::{Frame, FrameKind, decode_frame, encode_frame};
use crate::limits::{
    BODY_BYTES_MAX, CALLS_IN_FLIGHT_MAX, CONNECT_TIMEOUT, OUTBOX_BYTES_MAX, PING_PAUSE, RECONNECT_PAUSE,
    SEND_STALL_MAX, SILENCE_MAX, START_GRACE,
};
use crate::outbox::Outbox;
use base::{HashMap, Instant};
use runtime::Group;
use runtime::net::TcpStream;
use runtime::sync::{Event, oneshot};
use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

/// Calls in flight by number, each with the way to its caller.
type Pending = HashMap<u64, oneshot::Sender<Result<Vec<u8>, Error>>>;

/// A connection to another node that keeps itself.
#[derive(Clone)]
pub struct Peer(Rc<Inner>);

struct Inner {
    address: SocketAddr,
    outbox: Outbox,
    pending: RefCell<Pending>,
    next_call: Cell<u64>,
    connected: Cell<bool>,
    /// False after a failure until a connection stands again; true while it is starting.
    reachable: Cell<bool>,
    /// Until when it counts as starting; `None` once it was reached or given up.
    starting_until: Cell<Option<Instant>>,
    heard_at: Cell<Instant>,
    wanted: Event,
    closed: Cell<bool>,
}

impl Peer {
    /// Starts the background task, which connects at once. Until the first connection stands, calls wait for it, at most
    /// for [`START_GRACE`]; later, calls to a peer that is not connected fail at once.
    pub fn new(address: SocketAddr) -> Peer {
        let inner = Rc::new(Inner {
            address,
            outbox: Outbox::default(),
            pending: RefCell::default(),
            next_call: Cell::new(1),
            connected: Cell::new(false),
            reachable: Cell::new(true),
            starting_until: Cell::new(Some(runtime::now() + START_GRACE)),
            heard_at: Cell::new(runtime::now()),
            wanted: Event::new(),
            closed: Cell::new(false),
        });
        let task = inner.clone();
        drop(runtime::spawn(Group::RPC, async move { task.keep_connected().await }));
        Peer(inner)
    }

    /// Whether the last thing known of the peer is that it answers.
    pub fn is_reachable(&self) -> bool {
        self.0.reachable.get()
    }

    /// The peer's address.
    pub fn address(&self) -> SocketAddr {
        self.0.address
    }

    /// Asks and waits for the answer at most for `patience`. See [`Error`] for what a failure means.
    pub async fn call(
        &self,
        verb: u8,
        epoch: u64,
        body: &[u8],
        patience: Duration,
    ) -> Result<Vec<u8>, Error> {
        let inner = &self.0;
        if inner.closed.get() || !inner.reachable.get() {
            return Err(Error::Unreachable { peer: inner.address });
        }
        if body.len() > BODY_BYTES_MAX {
            return Err(Error::TooLarge { peer: inner.address, bytes: body.len() });
        }
        let busy =
            inner.pending.borrow().len() >= CALLS_IN_FLIGHT_MAX || inner.outbox.len() >= OUTBOX_BYTES_MAX;
        if busy {
            return Err(Error::Overloaded { peer: inner.address });
        }
        let call = inner.next_call.get();
        inner.next_call.set(call + 1);
        let (sender, receiver) = oneshot::channel();
        inner.pending.borrow_mut().insert(call, sender);
        // Whoever stops waiting takes the call with it: its answer may never come.
        let _in_flight = InFlight { inner, call };
        // Rounded up: nothing is late for the other side before it is late here.
        let time_left_ms = u32::try_from(patience.as_micros().div_ceil(1000)).unwrap_or(u32::MAX);
        let frame = Frame { kind: FrameKind::Request, verb, call, epoch, time_left_ms, body };
        inner.outbox.append(|out| encode_frame(&frame, out));
        inner.wanted.notify();
        match runtime::timeout(patience, receiver).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(Error::Unreachable { peer: inner.address }),
            Err(_) => Err(Error::TimedOut { peer: inner.address }),
        }
    }

    #[cfg(test)]
    pub(crate) fn in_flight(&self) -> usize {
        self.0.pending.borrow().len()
    }

    /// Ends the background task and fails what is in flight.
    pub fn close(&self) {
        self.0.closed.set(true);
        self.0.fail_pending();
        self.0.outbox.close();
        self.0.wanted.notify();
    }
}

/// A call that somebody waits for.
struct InFlight<'a> {
    inner: &'a Inner,
    call: u64,
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.inner.pending.borrow_mut().remove(&self.call);
    }
}

impl Inner {
    async fn keep_connected(self: Rc<Inner>) {
        while !self.closed.get() {
            match runtime::timeout(CONNECT_TIMEOUT, TcpStream::connect(self.address, None)).await {
                Ok(Ok(stream)) => self.clone().use_connection(stream).await,
                Ok(Err(_)) | Err(_) if self.is_starting() => {}
                Ok(Err(_)) | Err(_) => self.give_up(),
            }
            if !self.closed.get() {
                runtime::sleep(RECONNECT_PAUSE).await;
            }
        }
    }

    /// Whether it was never reached and is not expected to be by now.
    fn is_starting(&self) -> bool {
        self.starting_until.get().is_some_and(|until| runtime::now() < until)
    }

    /// Fails the calls in flight and all to come until a connection stands again.
    fn give_up(&self) {
        self.starting_until.set(None);
        self.reachable.set(false);
        self.fail_pending();
        self.outbox.clear();
    }

    async fn use_connection(self: Rc<Inner>, stream: TcpStream) {
        self.outbox.reopen();
        self.heard_at.set(runtime::now());
        self.connected.set(true);
        self.reachable.set(true);
        self.starting_until.set(None);
        let (reader, pinger) = (self.clone(), self.clone());
        let (reading, pinged) = (stream.clone(), stream.clone());
        let reading = runtime::spawn(Group::RPC, async move { reader.read_answers(&reading).await });
        let pinging = runtime::spawn(Group::RPC, async move { pinger.ping(&pinged).await });
        self.outbox.send_all(&stream, SEND_STALL_MAX).await;
        self.connected.set(false);
        self.outbox.close();
        stream.shutdown();
        self.give_up();
        reading.await;
        pinging.await;
    }

    async fn read_answers(&self, stream: &TcpStream) {
        let mut bytes: Vec<u8> = Vec::new();
        loop {
            match stream.recv().await {
                Ok(part) if !part.is_empty() => bytes.extend_from_slice(&part),
                Ok(_) | Err(_) => break,
            }
            self.heard_at.set(runtime::now());
            let mut taken = 0;
            loop {
                match decode_frame(&bytes[taken..]) {
                    Ok(Some((frame, size))) => {
                        self.answered(&frame);
                        taken += size;
                    }
                    Ok(None) => break,
                    Err(error) => {
                        runtime::warn!("closing the connection to {}: {error}", self.address);
                        return self.end(stream);
                    }
                }
            }
            bytes.drain(..taken);
        }
        self.end(stream);
    }

    fn answered(&self, frame: &Frame<'_>) {
        if frame.kind != FrameKind::Response {
            return;
        }
        if let Some(sender) = self.pending.borrow_mut().remove(&frame.call) {
            // Nobody waiting any more is the caller's timeout, which it already knows.
            let _unwanted = sender.send(Ok(frame.body.to_vec()));
        }
    }

    /// Ends a connection that nothing more is expected of, even while its socket takes nothing: what is in flight fails.
    fn end(&self, stream: &TcpStream) {
        self.outbox.close();
        stream.shutdown();
    }

    async fn ping(&self, stream: &TcpStream) {
        while self.connected.get() && !self.closed.get() {
            let frame =
                Frame { kind: FrameKind::Ping, verb: 0, call: 0, epoch: 0, time_left_ms: 0, body: &[] };
            self.outbox.append(|out| encode_frame(&frame, out));
            runtime::sleep(PING_PAUSE).await;
            if runtime::now() - self.heard_at.get() > SILENCE_MAX {
                self.reachable.set(false);
                return self.end(stream);
            }
        }
    }

    fn fail_pending(&self) {
        let pending = std::mem::take(&mut *self.pending.borrow_mut());
        for sender in pending.into_values() {
            let _unwanted = sender.send(Err(Error::Unreachable { peer: self.address }));
        }
    }
}
