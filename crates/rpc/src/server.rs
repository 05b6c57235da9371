//! The answering end: frames in, a handler's answers out, in any order.

use crate::error::Error;
use crate::frame::{Frame, FrameKind, decode_frame, encode_frame};
use crate::limits::{ANSWER_BYTES_MAX, BODY_BYTES_MAX, CALLS_IN_FLIGHT_MAX, SEND_STALL_MAX};
use crate::outbox::Outbox;
use base::Instant;
use runtime::Group;
use runtime::metrics::Counter;
use runtime::net::TcpStream;
use runtime::sync::{Permit, Semaphore};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

/// A request from another node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Incoming {
    /// What is asked.
    pub verb: u8,
    /// Topology version of the sender.
    pub epoch: u64,
    /// How long anybody waits for the answer.
    pub patience: Duration,
    /// The rest.
    pub body: Vec<u8>,
}

/// Turns a request into the bytes of its answer; failures are part of those bytes.
pub type Handler = Rc<dyn Fn(Incoming) -> Pin<Box<dyn Future<Output = Vec<u8>>>>>;

/// Serves one connection until it ends.
/// Bounds:  at most [`CALLS_IN_FLIGHT_MAX`] calls run or wait for the socket to take their answers; then reading stops.
///          At most [`ANSWER_BYTES_MAX`] of encoded answers wait for the socket, and a larger one only alone. While so
///          many do, no call is begun; those begun before end with their answers outside this bound, until there is
///          room or nobody waits for them. One pong waits. A connection that takes nothing for long is closed.
/// Late:    a call whose caller has stopped waiting is not begun, and one that ends too late is not answered.
/// Errors:  the bytes were no frames, or a ping carried a body. A connection that merely ends is no error.
pub async fn serve(stream: TcpStream, handler: Handler) -> Result<(), Error> {
    let connection = Rc::new(Connection::new(handler));
    let (sender, sending) = (connection.clone(), stream.clone());
    let sending = runtime::spawn(Group::RPC, async move {
        sender.outbox.send_all(&sending, SEND_STALL_MAX).await;
        // Whoever waits for room must see that there will be none, or that it is not needed any more.
        sender.outbox.close();
        sender.outbox.clear();
        sending.shutdown();
    });
    let served = connection.read_requests(&stream).await;
    connection.outbox.close();
    sending.await;
    served
}

struct Connection {
    handler: Handler,
    outbox: Outbox,
    /// Calls until the socket has taken their answers.
    calls: Semaphore,
    /// Bytes of answers until the socket has taken them.
    bytes: Semaphore,
    /// Pongs until the socket has taken them.
    pongs: Semaphore,
    /// Calls not begun or not answered because nobody waited any more.
    expired: Counter,
}

impl Connection {
    fn new(handler: Handler) -> Connection {
        let help = "Calls of other nodes not begun or not answered because nobody waited any more.";
        Connection {
            handler,
            outbox: Outbox::default(),
            calls: Semaphore::new(CALLS_IN_FLIGHT_MAX),
            bytes: Semaphore::new(ANSWER_BYTES_MAX),
            pongs: Semaphore::new(1),
            expired: runtime::metrics::counter("messina_rpc_expired_calls_total", help, &[]),
        }
    }

    async fn read_requests(self: &Rc<Self>, stream: &TcpStream) -> Result<(), Error> {
        let mut bytes: Vec<u8> = Vec::new();
        loop {
            match stream.recv().await {
                Ok(part) if !part.is_empty() => bytes.extend_from_slice(&part),
                Ok(_) | Err(_) => return Ok(()),
            }
            let arrived = runtime::now();
            let mut taken = 0;
            while let Some((frame, size)) = decode_frame(&bytes[taken..])? {
                taken += size;
                match frame.kind {
                    FrameKind::Ping => self.pong(&frame)?,
                    FrameKind::Request => {
                        // Its answer would have to wait outside.
                        drop(self.bytes.acquire(1).await);
                        let permit = self.calls.acquire(1).await;
                        let until = arrived + Duration::from_millis(u64::from(frame.time_left_ms));
                        self.begin(&frame, until, permit);
                    }
                    FrameKind::Response | FrameKind::Pong => {}
                }
            }
            bytes.drain(..taken);
        }
    }

    /// Answers a ping at once, whatever waits; not when a pong is still on its way, which says the same.
    fn pong(&self, ping: &Frame<'_>) -> Result<(), Error> {
        if !ping.body.is_empty() {
            return Err(Error::Malformed { reason: "a ping with a body" });
        }
        if let Some(room) = self.pongs.try_acquire(1) {
            let pong = Frame { kind: FrameKind::Pong, ..*ping };
            self.outbox.append_with([room], |out| encode_frame(&pong, out));
        }
        Ok(())
    }

    fn begin(self: &Rc<Self>, frame: &Frame<'_>, until: Instant, permit: Permit) {
        let patience = until.saturating_duration_since(runtime::now());
        if patience.is_zero() {
            return self.expired.inc();
        }
        let (verb, call, epoch) = (frame.verb, frame.call, frame.epoch);
        let answer = (self.handler)(Incoming { verb, epoch, patience, body: frame.body.to_vec() });
        let connection = self.clone();
        drop(runtime::spawn(Group::RPC, async move {
            let body = answer.await;
            let frame = Frame { kind: FrameKind::Response, verb, call, epoch, time_left_ms: 0, body: &body };
            connection.answer(&frame, until, permit).await;
        }));
    }

    async fn answer(&self, frame: &Frame<'_>, until: Instant, permit: Permit) {
        let size = frame.body.len();
        if size > BODY_BYTES_MAX {
            // The other side's deadline ends the call.
            return runtime::warn!("an answer of {size} bytes is too large to be sent");
        }
        if until <= runtime::now() {
            return self.expired.inc();
        }
        match runtime::timeout_at(until, self.bytes.acquire(size)).await {
            Ok(room) => self.outbox.append_with([permit, room], |out| encode_frame(frame, out)),
            Err(_) => self.expired.inc(),
        }
    }
}
