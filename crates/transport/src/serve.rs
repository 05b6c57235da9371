//! A connection's reader: bytes in, requests out to `dispatch`, until the client leaves or must be cut.
//!
//! Between two requests nothing is awaited unless the connection has too much in flight, so a pipelined batch is
//! served in one turn and answered with one write.

use crate::connection::{Connection, Phase};
use crate::dispatch;
use crate::limits;
use protocol::assembler::Assembler;
use protocol::envelope::{Direction, Version};
use protocol::error::Error as ProtocolError;
use protocol::response::refusal;
use std::rc::Rc;

/// Requests served in one go before other connections get their turn.
const BURST: u32 = 64;

/// Serves one connection until it ends.
pub(crate) async fn serve(connection: Rc<Connection>) {
    let shard = connection.shard.clone();
    let id = shard.add(&connection);
    read_all(&connection).await;
    if !connection.is_closed() {
        // A client that ends its side still gets the answers to what it asked.
        if runtime::timeout(limits::DRAIN_TIMEOUT, connection.drain()).await.is_err() {
            runtime::debug!("transport: {} left with requests in flight", connection.peer);
        }
        connection.cut();
    }
    shard.remove(id);
}

async fn read_all(connection: &Rc<Connection>) {
    let mut inbound = Assembler::new(Direction::Requests, limits::FIRST_FRAME_BYTES_MAX);
    let deadline = runtime::now() + limits::STARTUP_TIMEOUT;
    while !connection.is_closed() && !connection.shard.draining.is_set() {
        connection.set_reading(true);
        let more = serve_buffered(connection, &mut inbound);
        connection.set_reading(false);
        connection.flush();
        match more {
            Next::Stop => return,
            Next::Turn => runtime::yield_now().await,
            Next::Room => connection.wait_freed().await,
            Next::Bytes => {
                let received = match connection.phase.get() {
                    Phase::Ready => connection.stream().recv().await,
                    Phase::Startup => {
                        let patience =
                            if runtime::now() < deadline { deadline - runtime::now() } else { return };
                        match runtime::timeout(patience, connection.stream().recv()).await {
                            Ok(received) => received,
                            Err(_) => return,
                        }
                    }
                };
                match received {
                    Ok(bytes) if !bytes.is_empty() => inbound.push(&bytes),
                    Ok(_) | Err(_) => return,
                }
            }
        }
    }
}

/// What the reader needs before it can go on.
enum Next {
    /// More bytes from the client.
    Bytes,
    /// Requests to end or answers to be sent.
    Room,
    /// A turn for others.
    Turn,
    /// Nothing: the connection is to end.
    Stop,
}

/// Serves the requests whose bytes have arrived.
fn serve_buffered(connection: &Rc<Connection>, inbound: &mut Assembler) -> Next {
    for served in 0..BURST {
        if connection.is_full() {
            return Next::Room;
        }
        if served > 0 && runtime::need_preempt() {
            return Next::Turn;
        }
        let was_ready = connection.phase.get() == Phase::Ready;
        match inbound.next() {
            Ok(None) => return Next::Bytes,
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
        if !was_ready && let Some(agreed) = connection.agreed() {
            inbound.set_body_max(connection.shard.settings.frame_bytes_max);
            inbound.set_compression(agreed.compression);
            if agreed.version == Version::V5 {
                inbound.use_segments();
            }
        }
        if connection.is_closed() {
            return Next::Stop;
        }
    }
    Next::Turn
}

/// Tells the client what is wrong with its bytes.
fn refuse(connection: &Rc<Connection>, version: Option<Version>, error: &ProtocolError) {
    connection.out.borrow_mut().buffer().extend_from_slice(&refusal(error, version));
}
