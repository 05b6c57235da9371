//! Agreeing on keys, before the first request: a task of its own per connection, computing on helper threads.
//!
//! A handshake costs a millisecond of computing or more. It never runs on the shard's core, and few of one shard's run at
//! once, so that a storm of new connections delays itself and nobody else.

use crate::connection::Connection;
use base::Instant;
use std::rc::Rc;
use tls::{Encryption, Session};

/// The first byte of a TLS connection: a handshake record. No protocol version is written this way.
const HANDSHAKE_RECORD: u8 = 22;

/// Does what the connection's port asks for.
/// Shape:  the plain bytes that have arrived meanwhile; `None` when the connection is to end.
pub(crate) async fn begin(connection: &Rc<Connection>, deadline: Instant) -> Option<Vec<u8>> {
    if connection.encryption == Encryption::None {
        return Some(Vec::new());
    }
    let first = receive(connection, deadline).await?;
    let is_plain = first.first() != Some(&HANDSHAKE_RECORD);
    if connection.encryption == Encryption::Optional && is_plain {
        return Some(first);
    }
    // Plain text on an encrypted port is answered with an alert, which makes drivers fail at once.
    shake(connection, first, deadline).await
}

async fn receive(connection: &Connection, deadline: Instant) -> Option<Vec<u8>> {
    match runtime::timeout_at(deadline, connection.stream().recv()).await {
        Ok(Ok(bytes)) if !bytes.is_empty() => Some(bytes.to_vec()),
        _ => None,
    }
}

/// What one step of a handshake gave.
struct Step {
    session: Box<Session>,
    plain: Vec<u8>,
    wire: Vec<u8>,
    /// Whether the client has said goodbye already.
    outcome: Result<bool, tls::Error>,
}

fn step(mut session: Box<Session>, bytes: &[u8]) -> Step {
    let (mut plain, mut wire) = (Vec::new(), Vec::new());
    let received = session.receive(bytes, |piece| plain.extend_from_slice(piece));
    let sent = session.output(&mut wire);
    Step { session, plain, wire, outcome: sent.and(received).map(|received| received.closed) }
}

async fn shake(connection: &Rc<Connection>, mut bytes: Vec<u8>, deadline: Instant) -> Option<Vec<u8>> {
    let shard = &connection.shard;
    let mut session = Box::new(shard.tls()?.session().ok()?);
    loop {
        let permit = runtime::timeout_at(deadline, shard.handshakes.acquire(1)).await.ok()?;
        let Step { session: stepped, plain, wire, outcome } =
            runtime::compute(move || step(session, &bytes)).await;
        drop(permit);
        session = stepped;
        if !wire.is_empty() {
            runtime::timeout_at(deadline, connection.stream().send_all(wire)).await.ok()?.ok()?;
        }
        match outcome {
            Ok(closed) => connection.ended.set(closed),
            Err(error) => {
                runtime::debug!("transport: no TLS with {}: {error}", connection.peer);
                shard.metrics.handshakes_failed.inc();
                return None;
            }
        }
        if !session.is_handshaking() {
            shard.metrics.handshakes.inc();
            connection.secure(session);
            return Some(plain);
        }
        if connection.ended.get() {
            return None;
        }
        bytes = receive(connection, deadline).await?;
    }
}
