//! One connection with many requests in flight.
//!
//! ```text
//!  request ── stream id, slot ──► pending ──► writer task ──► socket
//!     ▲                                                         │
//!     └────── slot of the stream id ◄── reader task ◄───────────┘
//! ```
//! A request that is given up (its future dropped) keeps its stream id until the answer arrives, so that a late answer never meets another
//! request. Dropping the last handle closes the connection.

use crate::error::Error;
use crate::handshake::{self, Opened};
use crate::limits::{CONNECT_TIMEOUT, EVENTS_MAX, IN_FLIGHT, SEND_BUFFER_KEPT, STREAMS_MAX};
use crate::outcome::{Answer, Outcome};
use crate::statement::Statement;
use crate::wire::Wire;
use protocol::assembler::Assembler;
use protocol::compression::Compression;
use protocol::envelope::{Direction, Header, Version};
use protocol::event::{Event, EventType};
use protocol::failure::FailureKind;
use protocol::limits::RESPONSE_BODY_BYTES_MAX;
use protocol::outgoing::Outgoing;
use protocol::request::{Batch, BatchSource, Execute, Parameters, Prepare, Query, Request};
use protocol::response::{EVENT_STREAM, Response};
use protocol::supported::{Sharding, sharding_of};
use runtime::net::TcpStream;
use runtime::sync::{Event as Signal, Permit, Queue, Semaphore, oneshot};
use runtime::{Group, timeout};
use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;
use tls::Connector;

/// How to connect.
#[derive(Clone, Debug)]
pub struct Options {
    /// The protocol version.
    pub version: Version,
    /// Whether to ask for compression.
    pub compression: Compression,
    /// User and password, when the server wants them.
    pub credentials: Option<(String, String)>,
    /// How long connecting and the handshake may take.
    pub connect_timeout: Duration,
    /// How long a request may take; `None` waits as long as the connection lives.
    pub request_timeout: Option<Duration>,
    /// The local address; its port chooses the shard on the shard-aware port.
    pub local: Option<SocketAddr>,
    /// Most requests in flight; further ones wait.
    pub in_flight: usize,
    /// Encrypts the connection.
    pub tls: Option<Connector>,
    /// The keyspace of statements that name none.
    pub keyspace: Option<String>,
}

impl Options {
    /// Plain options for a version.
    pub fn new(version: Version) -> Options {
        Options {
            version,
            compression: Compression::None,
            credentials: None,
            connect_timeout: CONNECT_TIMEOUT,
            request_timeout: Some(Duration::from_secs(10)),
            local: None,
            in_flight: IN_FLIGHT,
            tls: None,
            keyspace: None,
        }
    }
}

struct Slot {
    sender: oneshot::Sender<Answer>,
    _permit: Permit,
}

#[derive(Default)]
struct State {
    slots: Vec<Option<Slot>>,
    free: Vec<u16>,
    /// Whole envelopes waiting for the writer.
    pending: Vec<u8>,
    /// Memory for the next `pending`.
    spare: Vec<u8>,
    closed: Option<String>,
}

struct Inner {
    wire: Wire,
    outgoing: Outgoing,
    supported: Vec<(String, Vec<String>)>,
    request_timeout: Option<Duration>,
    permits: Semaphore,
    state: RefCell<State>,
    wake_writer: Signal,
    events: Queue<Event>,
}

/// What only the caller's handles share: when it goes, the connection closes.
struct Handle(Rc<Inner>);

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.close("by this client");
    }
}

/// A connection; clones are handles to the same one.
#[derive(Clone)]
pub struct Connection(Rc<Handle>);

impl Connection {
    /// Connects and opens the conversation.
    pub async fn connect(address: SocketAddr, options: &Options) -> Result<Connection, Error> {
        let connecting = async {
            let stream = TcpStream::connect(address, options.local)
                .await
                .map_err(|e| Error::Connect { address, reason: e.to_string() })?;
            let wire = match &options.tls {
                None => Wire::plain(stream),
                Some(connector) => Wire::encrypted(stream, connector).await?,
            };
            let opened = handshake::open(&wire, options).await?;
            Ok(Connection::start(wire, opened, options))
        };
        match timeout(options.connect_timeout, connecting).await {
            Ok(result) => result,
            Err(elapsed) => Err(Error::Connect { address, reason: elapsed.to_string() }),
        }
    }

    /// Connects to a server that says back what it hears: every request is its own answer. For measuring the loader and the runtime.
    pub async fn connect_echo(address: SocketAddr, options: &Options) -> Result<Connection, Error> {
        let stream = TcpStream::connect(address, options.local)
            .await
            .map_err(|e| Error::Connect { address, reason: e.to_string() })?;
        let opened = Opened {
            assembler: Assembler::new(Direction::Requests, RESPONSE_BODY_BYTES_MAX),
            outgoing: Outgoing::bare(options.version),
            supported: Vec::new(),
        };
        Ok(Connection::start(Wire::plain(stream), opened, options))
    }

    fn start(wire: Wire, opened: Opened, options: &Options) -> Connection {
        let inner = Rc::new(Inner {
            wire,
            outgoing: opened.outgoing,
            supported: opened.supported,
            request_timeout: options.request_timeout,
            permits: Semaphore::new(options.in_flight.clamp(1, STREAMS_MAX)),
            state: RefCell::default(),
            wake_writer: Signal::new(),
            events: Queue::new(EVENTS_MAX),
        });
        runtime::spawn(Group::QUERY, write_loop(inner.clone()));
        runtime::spawn(Group::QUERY, read_loop(inner.clone(), opened.assembler));
        Connection(Rc::new(Handle(inner)))
    }

    fn inner(&self) -> &Rc<Inner> {
        &self.0.0
    }

    /// What the server said it supports.
    pub fn supported(&self) -> &[(String, Vec<String>)] {
        &self.inner().supported
    }

    /// The shard that serves this connection, and how many there are, when the server says so.
    pub fn sharding(&self) -> Option<Sharding> {
        sharding_of(&self.inner().supported)
    }

    /// True once the connection has ended.
    pub fn is_closed(&self) -> bool {
        self.inner().state.borrow().closed.is_some()
    }

    /// Requests sent and not yet answered.
    pub fn in_flight(&self) -> usize {
        let state = self.inner().state.borrow();
        state.slots.len().saturating_sub(state.free.len())
    }

    /// Ends the connection; requests in flight fail.
    pub fn close(&self) {
        self.inner().close("by this client");
    }

    /// Sends a request and waits for its answer, within the request timeout.
    pub async fn request(&self, request: &Request<'_>) -> Result<Answer, Error> {
        let inner = self.inner();
        match inner.request_timeout {
            Some(limit) => timeout(limit, inner.exchange(request)).await.unwrap_or(Err(Error::Timeout)),
            None => inner.exchange(request).await,
        }
    }

    /// Runs a statement's text.
    pub async fn query(&self, text: &str, parameters: Parameters<'_>) -> Result<Outcome, Error> {
        let query = Query { query: text, parameters };
        let answer = self.request(&Request::Query(query)).await?;
        Outcome::of(&answer, None)
    }

    /// Prepares a statement.
    pub async fn prepare(&self, text: &str) -> Result<Statement, Error> {
        self.prepare_in(text, None).await
    }

    /// Prepares a statement in a keyspace (v5).
    pub async fn prepare_in(&self, text: &str, keyspace: Option<&str>) -> Result<Statement, Error> {
        let prepare = Prepare { query: text, keyspace };
        let answer = self.request(&Request::Prepare(prepare)).await?;
        match answer.response()? {
            Response::Prepared(prepared) => Ok(Statement::new(text, keyspace, prepared)),
            _ => Err(Error::Unexpected("PREPARE")),
        }
    }

    /// Runs a prepared statement and gives the answer undecoded, also when this node does not know the statement.
    pub async fn execute_raw(
        &self,
        statement: &Statement,
        parameters: Parameters<'_>,
    ) -> Result<Answer, Error> {
        let result_id = statement.result_id();
        let v5 = self.inner().outgoing.version == Version::V5;
        let execute =
            Execute { id: statement.id(), result_metadata_id: v5.then_some(&*result_id), parameters };
        self.request(&Request::Execute(execute)).await
    }

    /// Runs a prepared statement and gives the answer undecoded: for load generators. Prepares it again when this node does not know
    /// it.
    pub async fn execute_undecoded(
        &self,
        statement: &Statement,
        parameters: Parameters<'_>,
    ) -> Result<Answer, Error> {
        let answer = self.execute_raw(statement, parameters).await?;
        if answer.is_result() || !is_unprepared(&answer) {
            return Ok(answer);
        }
        self.prepare_again(statement).await?;
        self.execute_raw(statement, parameters).await
    }

    /// Runs a prepared statement; prepares it again when this node does not know it.
    pub async fn execute(&self, statement: &Statement, parameters: Parameters<'_>) -> Result<Outcome, Error> {
        let answer = self.execute_undecoded(statement, parameters).await?;
        if let Response::Rows(rows) = answer.response()?
            && let Some(id) = rows.metadata.new_metadata_id
        {
            statement.set_result(id, rows.metadata.columns.clone());
        }
        Outcome::of(&answer, statement.columns())
    }

    /// Prepares a statement on this node; its id must be the one it had.
    pub async fn prepare_again(&self, statement: &Statement) -> Result<(), Error> {
        let again = self.prepare_in(statement.text(), statement.keyspace()).await?;
        if again.id() == statement.id() {
            Ok(())
        } else {
            Err(Error::Unexpected("PREPARE: the id has changed"))
        }
    }

    /// Runs a batch. A prepared statement in it that the node does not know is an error with its id; `statements` are those that may
    /// be prepared again then.
    pub async fn batch(&self, batch: Batch<'_>, statements: &[&Statement]) -> Result<Outcome, Error> {
        let request = Request::Batch(batch);
        let mut answer = self.request(&request).await?;
        if is_unprepared(&answer) {
            let Request::Batch(batch) = &request else {
                return Err(Error::Unexpected("BATCH"));
            };
            for statement in statements {
                let used = |s: &protocol::request::BatchStatement<'_>| {
                    s.source == BatchSource::Prepared(statement.id())
                };
                if batch.statements.iter().any(used) {
                    self.prepare_again(statement).await?;
                }
            }
            answer = self.request(&request).await?;
        }
        Outcome::of(&answer, None)
    }

    /// Subscribes to events.
    pub async fn register(&self, kinds: &[EventType]) -> Result<(), Error> {
        let answer = self.request(&Request::Register(kinds.to_vec())).await?;
        match answer.response()? {
            Response::Ready => Ok(()),
            _ => Err(Error::Unexpected("REGISTER")),
        }
    }

    /// The next event; `None` once the connection has ended.
    pub async fn next_event(&self) -> Option<Event> {
        self.inner().events.pop().await
    }
}

fn is_unprepared(answer: &Answer) -> bool {
    matches!(
        answer.response(),
        Err(Error::Failure(failure)) if matches!(failure.kind, FailureKind::Unprepared { .. })
    )
}

impl Inner {
    async fn exchange(&self, request: &Request<'_>) -> Result<Answer, Error> {
        let permit = self.permits.acquire(1).await;
        let receiver = self.submit(request, permit)?;
        match receiver.await {
            Ok(answer) => Ok(answer),
            Err(_closed) => Err(self.closed_error()),
        }
    }

    fn closed_error(&self) -> Error {
        let state = self.state.borrow();
        Error::Closed(state.closed.clone().unwrap_or_else(|| "request dropped".into()))
    }

    /// Queues a request under a free stream id.
    fn submit(&self, request: &Request<'_>, permit: Permit) -> Result<oneshot::Receiver<Answer>, Error> {
        let (sender, receiver) = oneshot::channel();
        let slot = Some(Slot { sender, _permit: permit });
        let mut state = self.state.borrow_mut();
        if let Some(reason) = &state.closed {
            return Err(Error::Closed(reason.clone()));
        }
        let stream = match state.free.pop() {
            Some(stream) => {
                state.slots[usize::from(stream)] = slot;
                stream
            }
            None => {
                // A permit per slot keeps the number below the limit of stream ids.
                let stream = state.slots.len() as u16;
                state.slots.push(slot);
                stream
            }
        };
        request.encode(&mut state.pending, self.outgoing.version, stream as i16);
        drop(state);
        self.wake_writer.notify();
        Ok(receiver)
    }

    fn close(&self, reason: &str) {
        let slots = {
            let mut state = self.state.borrow_mut();
            if state.closed.is_some() {
                return;
            }
            state.closed = Some(reason.to_owned());
            state.pending.clear();
            std::mem::take(&mut state.slots)
        };
        // Dropping the senders tells every waiting request.
        drop(slots);
        self.wire.shutdown();
        self.events.close();
        self.wake_writer.notify();
    }

    /// Hands an answer to its request; `Err` when no such request exists.
    fn deliver(&self, header: Header, body: &[u8]) -> Result<(), Error> {
        if header.stream == EVENT_STREAM {
            if let Response::Event(event) = Response::decode(&header, body)? {
                if self.events.is_full() {
                    self.events.try_pop();
                }
                // A closed queue means that the connection is closing.
                let _refused = self.events.try_push(event);
            }
            return Ok(());
        }
        let slot = {
            let mut state = self.state.borrow_mut();
            let index = usize::try_from(header.stream).unwrap_or(usize::MAX);
            let slot = state.slots.get_mut(index).and_then(Option::take);
            if slot.is_some() {
                state.free.push(header.stream as u16);
            }
            slot
        };
        match slot {
            Some(slot) => {
                let body = body.to_vec();
                // The request was given up: nobody wants the answer.
                let _unwanted = slot.sender.send(Answer { header, body });
                Ok(())
            }
            None => Err(Error::Unexpected("no request: unknown stream id")),
        }
    }
}

async fn write_loop(inner: Rc<Inner>) {
    let mut wire = Vec::new();
    loop {
        let pending = {
            let mut state = inner.state.borrow_mut();
            if state.closed.is_some() {
                return;
            }
            let spare = std::mem::take(&mut state.spare);
            std::mem::replace(&mut state.pending, spare)
        };
        if pending.is_empty() {
            inner.state.borrow_mut().spare = pending;
            inner.wake_writer.wait().await;
            continue;
        }
        let sent = if inner.outgoing.is_plain() {
            inner.wire.send_all(pending).await
        } else {
            wire.clear();
            inner.outgoing.write(&pending, &mut wire);
            let result = inner.wire.send_all(std::mem::take(&mut wire)).await;
            result.map(|buffer| {
                wire = buffer;
                pending
            })
        };
        match sent {
            Ok(mut buffer) => {
                buffer.clear();
                if buffer.capacity() <= SEND_BUFFER_KEPT {
                    inner.state.borrow_mut().spare = buffer;
                }
            }
            Err(error) => return inner.close(&error.to_string()),
        }
    }
}

async fn read_loop(inner: Rc<Inner>, mut assembler: Assembler) {
    let reason = loop {
        let goes_on = match inner.wire.receive(&mut assembler).await {
            Ok(goes_on) => goes_on,
            Err(error) => break error.to_string(),
        };
        let failed = loop {
            match assembler.next() {
                Ok(None) => break None,
                Ok(Some(envelope)) => {
                    if let Err(error) = inner.deliver(envelope.header, envelope.body) {
                        break Some(error.to_string());
                    }
                }
                Err(error) => break Some(error.to_string()),
            }
        };
        if let Some(reason) = failed {
            break reason;
        }
        if !goes_on {
            break "by the server".to_owned();
        }
    };
    inner.close(&reason);
}
