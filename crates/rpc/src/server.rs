//! The answering end: frames in, a handler's answers out, in any order.

use crate::error::Error;
use crate::frame::{Frame, FrameKind, decode_frame, encode_frame};
use crate::limits::{BODY_BYTES_MAX, CALLS_IN_FLIGHT_MAX};
use crate::outbox::Outbox;
use runtime::Group;
use runtime::net::TcpStream;
use runtime::sync::Semaphore;
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

/// Serves one connection until it ends. At most [`CALLS_IN_FLIGHT_MAX`] calls run at once; then reading stops.
/// Errors: the bytes were no frames. A connection that merely ends is no error.
pub async fn serve(stream: TcpStream, handler: Handler) -> Result<(), Error> {
    let outbox = Rc::new(Outbox::default());
    let (sender, sending) = (outbox.clone(), stream.clone());
    let sending = runtime::spawn(Group::RPC, async move {
        sender.send_all(&sending).await;
        sending.shutdown();
    });
    let served = read_requests(&stream, &outbox, &handler).await;
    outbox.close();
    sending.await;
    served
}

async fn read_requests(stream: &TcpStream, outbox: &Rc<Outbox>, handler: &Handler) -> Result<(), Error> {
    let permits = Semaphore::new(CALLS_IN_FLIGHT_MAX);
    let mut bytes: Vec<u8> = Vec::new();
    loop {
        match stream.recv().await {
            Ok(part) if !part.is_empty() => bytes.extend_from_slice(&part),
            Ok(_) | Err(_) => return Ok(()),
        }
        let mut taken = 0;
        while let Some((frame, size)) = decode_frame(&bytes[taken..])? {
            taken += size;
            match frame.kind {
                FrameKind::Ping => {
                    outbox.append(|out| encode_frame(&Frame { kind: FrameKind::Pong, ..frame }, out))
                }
                FrameKind::Request => {
                    let permit = permits.acquire(1).await;
                    let answer = answer(&frame, handler, outbox.clone());
                    drop(runtime::spawn(Group::RPC, async move {
                        answer.await;
                        drop(permit);
                    }));
                }
                FrameKind::Response | FrameKind::Pong => {}
            }
        }
        bytes.drain(..taken);
    }
}

fn answer(frame: &Frame<'_>, handler: &Handler, outbox: Rc<Outbox>) -> impl Future<Output = ()> + use<> {
    let incoming = Incoming {
        verb: frame.verb,
        epoch: frame.epoch,
        patience: Duration::from_millis(u64::from(frame.time_left_ms)),
        body: frame.body.to_vec(),
    };
    let (verb, call, epoch) = (frame.verb, frame.call, frame.epoch);
    let answer = handler(incoming);
    async move {
        let body = answer.await;
        if body.len() > BODY_BYTES_MAX {
            // The other side's deadline ends the call.
            return runtime::warn!("an answer of {} bytes is too large to be sent", body.len());
        }
        let frame = Frame { kind: FrameKind::Response, verb, call, epoch, time_left_ms: 0, body: &body };
        outbox.append(|out| encode_frame(&frame, out));
    }
}
