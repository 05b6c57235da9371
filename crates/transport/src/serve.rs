//! A connection's reader: bytes in, requests out to `dispatch`, until the client leaves or must be cut.
//!
//! Between two requests nothing is awaited unless the connection has too much in flight, so a pipelined batch is
//! served in one turn and answered with one write.

use crate::connection::{Connection, Phase};
use crate::dispatch;
use crate::limits;
use crate::secure;
use base::Instant;
use core::time::Duration;
use protocol::assembler::Assembler;
use protocol::envelope::{Direction, Header, Opcode, Version};
use protocol::error::Error as ProtocolError;
use protocol::response::refusal;
use query::PREFETCH_STEPS;
use runtime::net::RecvBuf;
use runtime::sync::Permit;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

/// Requests served in one go before other connections get their turn.
const BURST: u32 = 64;
/// Requests that are looked at before their turn: a request enters, memory brings what it needs, and one has room to run.
const AHEAD: usize = PREFETCH_STEPS + 1;

/// Serves one connection until it ends.
pub(crate) async fn serve(connection: Rc<Connection>) {
    let shard = connection.shard.clone();
    let id = shard.add(&connection);
    let deadline = connection.startup_deadline;
    if let Some(first) = secure::begin(&connection, deadline).await {
        read_all(&connection, &first, deadline).await;
    }
    if !connection.is_closed() {
        answer_all(&connection).await;
        connection.cut();
    }
    shard.remove(id);
}

/// A client that ends its side still gets the answers to what it asked, however long, as long as it takes them.
async fn answer_all(connection: &Rc<Connection>) {
    let mut drained = pin!(connection.drain());
    loop {
        let before = connection.progress();
        if runtime::timeout(limits::SEND_TIMEOUT, drained.as_mut()).await.is_ok() {
            return;
        }
        if connection.progress() == before {
            return runtime::debug!("transport: {} left with requests in flight", connection.peer);
        }
    }
}

async fn read_all(connection: &Rc<Connection>, first: &[u8], deadline: Instant) {
    let mut inbound = Assembler::new(Direction::Requests, limits::FIRST_FRAME_BYTES_MAX);
    inbound.push(first);
    let mut opened = false;
    let mut large = None;
    while !connection.is_closed() && !connection.leaving.get() {
        if !opened && connection.phase.get() == Phase::Ready {
            inbound.set_body_max(connection.shard.settings.frame_bytes_max);
            opened = true;
        }
        connection.set_reading(true);
        let more = serve_buffered(connection, &mut inbound, &mut large);
        connection.set_reading(false);
        connection.flush();
        match more {
            Next::Stop => return,
            Next::Turn => runtime::yield_now().await,
            Next::Room if connection.logging_in.get() => {
                if wait_login(connection, &mut inbound).await.is_err() {
                    return;
                }
            }
            Next::Room => connection.wait_freed().await,
            Next::Pause(pause) => {
                connection.shard.metrics.paused.inc();
                runtime::sleep(pause).await;
            }
            Next::Bytes if connection.ended.get() => return,
            Next::Bytes if !make_room(connection, &inbound, &mut large).await => return,
            Next::Bytes => match receive(connection, deadline, large.as_ref()).await {
                Some(Ok(bytes)) if !bytes.is_empty() => {
                    if let Err(error) = connection.take_in(&bytes, &mut inbound) {
                        runtime::debug!("transport: {} breaks its encryption: {error}", connection.peer);
                        return;
                    }
                }
                Some(_) | None => return,
            },
        }
    }
}

/// Nothing is served while a login is checked. Who leaves meanwhile is noticed, so that no password is hashed for nobody;
/// who sends more is asked to wait.
async fn wait_login(connection: &Rc<Connection>, inbound: &mut Assembler) -> Result<(), tls::Error> {
    let (mut freed, mut received) = (pin!(connection.wait_freed()), pin!(connection.stream().recv()));
    let came = poll_fn(|context| match freed.as_mut().poll(context) {
        Poll::Ready(()) => Poll::Ready(None),
        Poll::Pending => received.as_mut().poll(context).map(Some),
    });
    match came.await {
        Some(Ok(bytes)) if !bytes.is_empty() => connection.take_in(&bytes, inbound)?,
        Some(_) => connection.ended.set(true),
        None => return Ok(()),
    }
    while connection.logging_in.get() && !connection.is_closed() {
        connection.wait_freed().await;
    }
    Ok(())
}

/// The next bytes; `None` when the client has been silent for too long.
async fn receive(
    connection: &Rc<Connection>,
    deadline: Instant,
    large: Option<&LargeFrame>,
) -> Option<std::io::Result<RecvBuf>> {
    if let Some(large) = large {
        return receive_large(connection, large).await;
    }
    let stream = connection.stream();
    if connection.phase.get() != Phase::Ready {
        return runtime::timeout_at(deadline, stream.recv()).await.ok();
    }
    let Some(patience) = connection.shard.settings.idle_timeout else { return Some(stream.recv().await) };
    let mut received = pin!(stream.recv());
    loop {
        let before = connection.progress();
        if let Ok(received) = runtime::timeout(patience, received.as_mut()).await {
            return Some(received);
        }
        // Who waits for an answer is not idle.
        if !connection.is_busy() && connection.progress() == before {
            runtime::info!("transport: {} was idle for too long, closing it", connection.peer);
            return None;
        }
    }
}

/// A frame that is too large to be kept without asking, while it arrives.
struct LargeFrame {
    deadline: Instant,
    _memory: Permit,
}

/// Has memory for what has begun to arrive; without it nothing more is read. Cuts the connection when there is none for too
/// long, or the frame takes too long.
async fn make_room(connection: &Connection, inbound: &Assembler, large: &mut Option<LargeFrame>) -> bool {
    let awaited = inbound.awaited();
    if awaited < limits::LARGE_FRAME_BYTES || connection.phase.get() != Phase::Ready {
        *large = None;
        return true;
    }
    if large.is_none() {
        let memory = connection.shard.unfinished.acquire(awaited);
        let Ok(memory) = runtime::timeout(limits::LARGE_FRAME_WAIT, memory).await else {
            runtime::info!("transport: no memory for a request of {}, closing it", connection.peer);
            return false;
        };
        *large = Some(LargeFrame { deadline: runtime::now() + limits::LARGE_FRAME_TIMEOUT, _memory: memory });
    }
    true
}

/// The next bytes of a large frame.
async fn receive_large(connection: &Connection, large: &LargeFrame) -> Option<std::io::Result<RecvBuf>> {
    let received = runtime::timeout_at(large.deadline, connection.stream().recv()).await.ok();
    if received.is_none() {
        runtime::info!("transport: a request of {} does not end, closing it", connection.peer);
    }
    received
}

/// What the reader needs before it can go on.
enum Next {
    /// More bytes from the client.
    Bytes,
    /// Requests to end or answers to be sent.
    Room,
    /// A turn for others.
    Turn,
    /// Some time, because the node is overloaded.
    Pause(Duration),
    /// Nothing: the connection is to end.
    Stop,
}

/// Serves the requests whose bytes have arrived.
fn serve_buffered(
    connection: &Rc<Connection>,
    inbound: &mut Assembler,
    large: &mut Option<LargeFrame>,
) -> Next {
    // The answer to a login says how to go on; what was read meanwhile waits for it.
    if connection.logging_in.get() {
        return Next::Room;
    }
    let mut ahead = Ahead::new(connection);
    for served in 0..BURST {
        if connection.is_full() {
            return Next::Room;
        }
        if served > 0 && runtime::need_preempt() {
            return Next::Turn;
        }
        if let Some(pause) = connection.shard.pause(connection) {
            return Next::Pause(pause);
        }
        let before = connection.phase.get();
        ahead.look(connection, inbound);
        let next = inbound.next();
        if large.is_some() && !matches!(next, Ok(None)) {
            // It has arrived; what follows is another one.
            *large = None;
        }
        match next {
            Ok(None) => return Next::Bytes,
            Ok(Some(envelope)) if !is_served(connection, envelope.header.version) => {
                refuse(connection, Some(envelope.header.version), &rejected(&envelope.header));
                return Next::Stop;
            }
            Ok(Some(envelope)) => {
                connection.version.set(envelope.header.version as u8);
                dispatch::dispatch(connection, &envelope.header, envelope.body);
            }
            Err(error) => {
                connection.shard.metrics.protocol_errors.inc();
                refuse(connection, inbound.version(), &error);
                if error.closes_connection() {
                    return Next::Stop;
                }
            }
        }
        if before != Phase::Ready {
            if before == Phase::Startup
                && let Some(agreed) = connection.agreed()
            {
                inbound.set_compression(agreed.compression);
                if agreed.version == Version::V5 {
                    inbound.use_segments();
                }
            }
            if connection.phase.get() == Phase::Ready {
                inbound.set_body_max(connection.shard.settings.frame_bytes_max);
            }
            if connection.logging_in.get() {
                return Next::Room;
            }
        }
        if connection.is_closed() {
            return Next::Stop;
        }
    }
    Next::Turn
}

/// How far requests that have arrived were looked at before their turn.
struct Ahead {
    /// How many envelopes, the one whose turn is next among them; `None`: it is not worth it.
    seen: Option<usize>,
    /// Where the first one that was not looked at begins, in bytes from the one whose turn is next.
    at: usize,
}

impl Ahead {
    fn new(connection: &Connection) -> Ahead {
        let is_worth =
            connection.phase.get() == Phase::Ready && connection.shard.engine.is_looking_ahead_worth();
        Ahead { seen: is_worth.then_some(0), at: 0 }
    }

    /// Looks at what is near enough, before an envelope gets its turn.
    fn look(&mut self, connection: &Connection, inbound: &Assembler) {
        let Some(seen) = &mut self.seen else { return };
        let engine = &connection.shard.engine;
        let mut was_last = true;
        while *seen < AHEAD {
            let Some((envelope, next)) = inbound.peek(self.at) else { break };
            let Header { version, flags, opcode, .. } = envelope.header;
            if opcode == Opcode::Execute as u8 && flags == 0 {
                engine.look_ahead(version, envelope.body);
            } else {
                engine.look_on();
            }
            (*seen, self.at, was_last) = (*seen + 1, next, false);
        }
        if was_last {
            engine.look_on();
        }
        // What is looked at next begins behind the envelope whose turn it is.
        *seen = seen.saturating_sub(1);
        let own = inbound.peek(0).map_or(self.at, |(_, own)| own);
        self.at = self.at.saturating_sub(own);
    }
}

/// Whether the version may be spoken; looked at once per connection.
fn is_served(connection: &Connection, version: Version) -> bool {
    connection.version.get() != 0 || connection.shard.settings.older_versions || version == Version::HIGHEST
}

/// The words of Cassandra, which clients look for.
fn rejected(header: &Header) -> ProtocolError {
    let (got, least) = (header.version as u8, Version::HIGHEST as u8);
    ProtocolError::Frame {
        stream: header.stream,
        text: format!("Rejecting Protocol Version {got}/v{got} < {least}/v{least}."),
    }
}

/// Tells the client what is wrong with its bytes.
fn refuse(connection: &Rc<Connection>, version: Option<Version>, error: &ProtocolError) {
    connection.out.borrow_mut().buffer().extend_from_slice(&refusal(error, version));
}
