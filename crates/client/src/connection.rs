//! One connection with many requests in flight.
//!
//! ```text
//!  request ── stream id, slot ──► pending ──► writer task ──► socket
//!     ▲                                                         │
//!     └────── slot of the stream id ◄── reader task ◄───────────┘
//! ```
//! A request that is given up (its future dropped, or too late) keeps its stream id until the answer arrives, so that a late answer never
//! meets another request. Dropping the last handle closes the connection. One task looks for requests that are too late, a few times
//! within the time that each has: a timer for each of them would cost more than the rest of it.

use crate::error::Error;
use crate::handshake::{self, Opened};
use crate::limits::{
    CONNECT_TIMEOUT, EVENTS_MAX, IN_FLIGHT, LOOKS, PREPARES_MAX, SEND_BUFFER_KEPT, STREAMS_MAX,
};
use crate::outcome::{Answer, Outcome};
use crate::statement::Statement;
use crate::wire::Wire;
use protocol::assembler::Assembler;
use protocol::compression::Compression;
use protocol::envelope::{Direction, Header, Version};
use protocol::event::{Event, EventType};
use protocol::limits::RESPONSE_BODY_BYTES_MAX;
use protocol::outgoing::Outgoing;
use protocol::request::{Batch, BatchSource, Execute, Parameters, Prepare, Query, Request};
use protocol::response::{EVENT_STREAM, Response};
use protocol::supported::{Sharding, sharding_of};
use runtime::net::TcpStream;
use runtime::sync::{Event as Signal, Permit, Queue, Semaphore};
use runtime::{Group, timeout};
use smallvec::SmallVec;
use std::cell::RefCell;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, Waker};
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
    /// How long a request has at least, and about a sixteenth more while the shard keeps up; `None` waits as long as the connection
    /// lives.
    pub request_timeout: Option<Duration>,
    /// The local address; its port chooses the shard on the shard-aware port.
    pub local: Option<SocketAddr>,
    /// Most requests in flight, those whose answers nobody has taken yet among them; further ones wait.
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

/// What a stream id stands for.
enum Slot {
    Free,
    /// Sent, at the look of this number; who waits for the answer, once it does.
    Waiting {
        since: u32,
        waker: Option<Waker>,
    },
    /// Here is the answer.
    Answered(Answer),
    /// No answer came in time; who waits has been told, or will be.
    Late,
    /// Nobody waits any more.
    GivenUp,
}

#[derive(Default)]
struct State {
    slots: Vec<Slot>,
    /// One for each that is not free.
    permits: Vec<Option<Permit>>,
    free: Vec<u16>,
    /// How often requests that are too late were looked for, and whether somebody does.
    looks: u32,
    is_looked_at: bool,
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

    /// Whether both are handles to the same connection.
    pub(crate) fn is(&self, other: &Connection) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }

    /// True once the connection has ended.
    pub fn is_closed(&self) -> bool {
        self.inner().state.borrow().closed.is_some()
    }

    /// Requests sent whose answers were not taken yet.
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
        if let Some(sent) = self.send_now(request) {
            return sent?.await;
        }
        let inner = self.inner();
        let exchange = async {
            let permit = inner.permits.acquire(1).await;
            self.submit(request, permit)?.await
        };
        match inner.request_timeout {
            Some(limit) => timeout(limit, exchange).await.unwrap_or(Err(Error::Timeout)),
            None => exchange.await,
        }
    }

    /// Encodes a request at once: what it borrows may change then. `None` when as many are in flight as may be.
    /// Errors: the connection has ended.
    pub fn send_now(&self, request: &Request<'_>) -> Option<Result<Sent, Error>> {
        let permit = self.inner().permits.try_acquire(1)?;
        Some(self.submit(request, permit))
    }

    /// Queues a request under a free stream id.
    fn submit(&self, request: &Request<'_>, permit: Permit) -> Result<Sent, Error> {
        let inner = self.inner();
        let mut state = inner.state.borrow_mut();
        if let Some(reason) = &state.closed {
            return Err(Error::Closed(reason.clone()));
        }
        // A permit per slot keeps the number below the limit of stream ids.
        let stream = state.free.pop().unwrap_or(state.slots.len() as u16);
        let at = usize::from(stream);
        if at == state.slots.len() {
            state.slots.push(Slot::Free);
            state.permits.push(None);
        }
        state.slots[at] = Slot::Waiting { since: state.looks, waker: None };
        state.permits[at] = Some(permit);
        request.encode(&mut state.pending, inner.outgoing.version, stream as i16);
        if let Some(limit) = inner.request_timeout
            && !state.is_looked_at
        {
            state.is_looked_at = true;
            runtime::spawn(Group::QUERY, look_loop(Rc::downgrade(inner), limit / LOOKS));
        }
        drop(state);
        inner.wake_writer.notify();
        Ok(Sent { connection: self.clone(), stream })
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
        let result_id = self.result_id(statement);
        self.request(&Request::Execute(execute(statement, result_id.as_deref(), parameters))).await
    }

    /// As [`send_now`](Self::send_now), a prepared statement.
    pub fn execute_now(
        &self,
        statement: &Statement,
        parameters: Parameters<'_>,
    ) -> Option<Result<Sent, Error>> {
        let result_id = self.result_id(statement);
        self.send_now(&Request::Execute(execute(statement, result_id.as_deref(), parameters)))
    }

    /// What only the newest protocol is told with an EXECUTE.
    fn result_id(&self, statement: &Statement) -> Option<Rc<[u8]>> {
        (self.inner().outgoing.version == Version::V5).then(|| statement.result_id())
    }

    /// Runs a prepared statement and gives the answer undecoded: for load generators. Prepares it again when this node does not know
    /// it.
    pub async fn execute_undecoded(
        &self,
        statement: &Statement,
        parameters: Parameters<'_>,
    ) -> Result<Answer, Error> {
        let mut answer = self.execute_raw(statement, parameters).await?;
        for _ in 0..PREPARES_MAX {
            if !answer.is_unprepared() {
                break;
            }
            self.prepare_again(statement).await?;
            answer = self.execute_raw(statement, parameters).await?;
        }
        Ok(answer)
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

    /// Prepares a statement on this node; its id must be the one it had, its columns may be others.
    pub async fn prepare_again(&self, statement: &Statement) -> Result<(), Error> {
        let again = self.prepare_in(statement.text(), statement.keyspace()).await?;
        if again.id() != statement.id() {
            return Err(Error::Unexpected("PREPARE: the id has changed"));
        }
        statement.follow(&again);
        Ok(())
    }

    /// Runs a batch. A prepared statement in it that the node does not know is an error with its id; `statements` are those that may
    /// be prepared again then.
    pub async fn batch(&self, batch: Batch<'_>, statements: &[&Statement]) -> Result<Outcome, Error> {
        let request = Request::Batch(batch);
        let mut answer = self.request(&request).await?;
        for _ in 0..PREPARES_MAX {
            if !answer.is_unprepared() {
                break;
            }
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

fn execute<'a>(
    statement: &'a Statement,
    result_metadata_id: Option<&'a [u8]>,
    parameters: Parameters<'a>,
) -> Execute<'a> {
    Execute { id: statement.id(), result_metadata_id, parameters }
}

/// A request on its way: a future of its answer. Dropping it gives the request up; until then it is a handle to the connection.
#[must_use = "dropping it gives the request up"]
pub struct Sent {
    connection: Connection,
    stream: u16,
}

impl Future for Sent {
    type Output = Result<Answer, Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.connection.inner().state.borrow_mut();
        let State { slots, closed, .. } = &mut *state;
        let slot = &mut slots[usize::from(self.stream)];
        match slot {
            Slot::Waiting { waker, .. } => {
                if let Some(reason) = closed {
                    return Poll::Ready(Err(Error::Closed(reason.clone())));
                }
                match waker {
                    Some(waker) => waker.clone_from(context.waker()),
                    None => *waker = Some(context.waker().clone()),
                }
                Poll::Pending
            }
            Slot::Late => Poll::Ready(Err(Error::Timeout)),
            slot => match std::mem::replace(slot, Slot::Free) {
                Slot::Answered(answer) => Poll::Ready(Ok(answer)),
                _ => Poll::Ready(Err(Error::Unexpected("nobody: the answer was taken"))),
            },
        }
    }
}

impl Drop for Sent {
    fn drop(&mut self) {
        let mut state = self.connection.inner().state.borrow_mut();
        let slot = &mut state.slots[usize::from(self.stream)];
        let permit = match slot {
            Slot::Free | Slot::Answered(_) => {
                *slot = Slot::Free;
                state.release(self.stream)
            }
            Slot::Waiting { .. } | Slot::Late | Slot::GivenUp => {
                *slot = Slot::GivenUp;
                None
            }
        };
        drop(state);
        // Gives somebody else a turn, who may look at the state.
        drop(permit);
    }
}

impl State {
    /// A stream id may stand for another request; what let it be sent comes back.
    fn release(&mut self, stream: u16) -> Option<Permit> {
        self.free.push(stream);
        self.permits[usize::from(stream)].take()
    }
}

impl Inner {
    fn close(&self, reason: &str) {
        let mut state = self.state.borrow_mut();
        if state.closed.is_some() {
            return;
        }
        state.closed = Some(reason.to_owned());
        state.pending.clear();
        let waiting = |slot: &mut Slot| match slot {
            Slot::Waiting { waker, .. } => waker.take(),
            Slot::Free | Slot::Answered(_) | Slot::Late | Slot::GivenUp => None,
        };
        let wakers: Vec<Waker> = state.slots.iter_mut().filter_map(waiting).collect();
        let permits = std::mem::take(&mut state.permits);
        state.permits.resize_with(permits.len(), || None);
        drop(state);
        // Who waits for an answer or for its turn is told.
        wakers.into_iter().for_each(Waker::wake);
        drop(permits);
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
        let mut state = self.state.borrow_mut();
        let index = usize::try_from(header.stream).unwrap_or(usize::MAX);
        let answered = |slot: &mut Slot| {
            std::mem::replace(slot, Slot::Answered(Answer { header, body: SmallVec::from_slice(body) }))
        };
        match state.slots.get_mut(index) {
            Some(slot @ (Slot::Waiting { .. } | Slot::Late)) => {
                let before = answered(slot);
                drop(state);
                if let Slot::Waiting { waker: Some(waker), .. } = before {
                    waker.wake();
                }
                Ok(())
            }
            Some(slot @ Slot::GivenUp) => {
                *slot = Slot::Free;
                let permit = state.release(index as u16);
                drop(state);
                drop(permit);
                Ok(())
            }
            Some(Slot::Free | Slot::Answered(_)) | None => {
                Err(Error::Unexpected("no request: unknown stream id"))
            }
        }
    }
}

/// Tells requests that are too late, as long as any waits.
async fn look_loop(inner: Weak<Inner>, step: Duration) {
    loop {
        runtime::sleep(step).await;
        let Some(inner) = inner.upgrade() else { return };
        let mut state = inner.state.borrow_mut();
        state.looks = state.looks.wrapping_add(1);
        let (now, mut late, mut any) = (state.looks, Vec::new(), false);
        for slot in &mut state.slots {
            let Slot::Waiting { since, waker } = slot else { continue };
            // It was sent some time after the look of its number.
            if now.wrapping_sub(*since) <= LOOKS {
                any = true;
                continue;
            }
            late.extend(waker.take());
            *slot = Slot::Late;
        }
        let goes_on = any && state.closed.is_none();
        state.is_looked_at = goes_on;
        drop(state);
        late.into_iter().for_each(Waker::wake);
        if !goes_on {
            return;
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
