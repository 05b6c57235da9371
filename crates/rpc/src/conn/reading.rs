//! What comes by one connection: requests, responses, pings.

use super::Conn;
use crate::error::{CallError, Malformed};
use crate::frame::{FRAME_HEADER_BYTES, Facts, Kind, Message, Status, next_message, split_frame};
use crate::limits::{ANSWER_BYTES_MAX, BUFFER_KEPT_BYTES, CALLS_IN_FLIGHT_MAX, LARGE_FRAME_BYTES};
use crate::load::{add, take};
use crate::outbox::Appended;
use crate::verbs::{AnswerPath, Origin, Request, Responder};
use base::{HostId, Instant};
use runtime::net::TcpStream;
use std::rc::Rc;
use std::time::Duration;

impl Conn {
    pub(super) async fn read(self: Rc<Self>, stream: TcpStream, plain: Vec<u8>) {
        let mut partial = Vec::new();
        let mut memory = None;
        let mut ended = self.take_in(&plain, true, &mut partial);
        while ended.is_ok() && !self.is_closed() {
            while self.is_full() && !self.is_closed() {
                self.freed.wait().await;
            }
            runtime::yield_if_needed().await;
            let awaited = awaited(&partial);
            if awaited < LARGE_FRAME_BYTES {
                memory = None;
            } else if memory.is_none() {
                memory = Some(self.setup.load.unfinished.acquire(awaited).await);
            }
            let part = match stream.recv().await {
                Ok(part) if !part.is_empty() => part,
                Ok(_) => return self.close("the connection was closed"),
                Err(error) => return self.close(&format!("the connection broke: {error}")),
            };
            self.heard.set(runtime::now());
            self.traffic.received(part.len());
            ended = self.take_in(&part, false, &mut partial);
        }
        if let Err(error) = ended {
            if !self.is_closed() {
                runtime::warn!("rpc: closing the connection to {}: {error}", self.setup.peer);
            }
            self.close(&error);
        }
    }

    /// Whether the other side should wait: it asks more than is answered, or does not read its answers.
    fn is_full(&self) -> bool {
        self.serving.get() >= CALLS_IN_FLIGHT_MAX || self.unsent.get() >= ANSWER_BYTES_MAX
    }

    /// Acts on received bytes; what is no whole frame is kept in `partial`.
    fn take_in(self: &Rc<Self>, bytes: &[u8], is_plain: bool, partial: &mut Vec<u8>) -> Result<(), String> {
        self.reading.set(true);
        let taken = if self.is_encrypted.get() && !is_plain {
            self.decrypt(bytes, partial)
        } else if partial.is_empty() {
            // The usual case: whole frames, acted on where they lie.
            let taken = self.consume(bytes).map_err(|error| error.to_string());
            taken.map(|taken| partial.extend_from_slice(&bytes[taken..]))
        } else {
            partial.extend_from_slice(bytes);
            self.consume_partial(partial)
        };
        self.reading.set(false);
        self.flush();
        taken
    }

    fn consume_partial(self: &Rc<Self>, partial: &mut Vec<u8>) -> Result<(), String> {
        let taken = self.consume(partial).map_err(|error| error.to_string())?;
        partial.drain(..taken);
        if partial.is_empty() {
            partial.shrink_to(BUFFER_KEPT_BYTES);
        }
        Ok(())
    }

    fn decrypt(self: &Rc<Self>, bytes: &[u8], partial: &mut Vec<u8>) -> Result<(), String> {
        let mut guard = self.session.borrow_mut();
        let Some(session) = guard.as_mut() else { return Ok(()) };
        let received = session.receive(bytes, |plain| partial.extend_from_slice(plain));
        drop(guard);
        self.consume_partial(partial)?;
        match received {
            Ok(received) if received.closed => Err("the connection was closed".into()),
            Ok(_) => Ok(()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Acts on the whole frames at the front; how many bytes they have.
    fn consume(self: &Rc<Self>, bytes: &[u8]) -> Result<usize, Malformed> {
        let origin = self.origin.borrow().clone();
        let Some(origin) = origin else { return Ok(0) };
        let arrived = self.heard.get();
        let mut taken = 0;
        while let Some((mut payload, size)) = split_frame(&bytes[taken..], !self.is_encrypted.get())? {
            while let Some(message) = next_message(&mut payload)? {
                self.act(&message, &origin, arrived)?;
                if self.is_closed() {
                    return Ok(taken);
                }
            }
            taken += size;
        }
        Ok(taken)
    }

    fn act(
        self: &Rc<Self>,
        message: &Message<'_>,
        origin: &Origin,
        arrived: Instant,
    ) -> Result<(), Malformed> {
        let peer = self.setup.peer;
        match message.kind {
            Kind::Request => self.serve(message, origin, arrived),
            Kind::Response => {
                if let Some(standing) = &self.setup.standing {
                    standing.prove(arrived);
                }
                self.deliver(message.call, answer_of(message, peer));
            }
            Kind::Ping => {
                if let Some(hooks) = self.hooks() {
                    hooks.heard(peer, &Facts::decode(message.body)?, None);
                }
                self.signal(Kind::Pong, message.call);
            }
            Kind::Pong => {
                if let Some(hooks) = self.hooks() {
                    hooks.heard(peer, &Facts::decode(message.body)?, Some(message.call));
                }
            }
            Kind::Goodbye => {
                if let Some(hooks) = self.hooks() {
                    hooks.goodbye(peer);
                }
            }
        }
        Ok(())
    }

    /// Sends a ping, a pong or a goodbye.
    pub(crate) fn signal(self: &Rc<Self>, kind: Kind, call: u64) {
        let message = Message { kind, verb: 0, call, version: 0, time_left_ms: 0, body: &[] };
        self.append(&message, |out| {
            if let Some(hooks) = self.hooks().filter(|_| kind != Kind::Goodbye) {
                hooks.facts().encode(out);
            }
            true
        });
        self.flush_soon();
    }

    fn serve(self: &Rc<Self>, message: &Message<'_>, origin: &Origin, arrived: Instant) {
        let Message { verb, call, version, body, .. } = *message;
        if message.time_left_ms == 0 {
            return self.setup.load.metrics.expired.inc();
        }
        let until = arrived + Duration::from_millis(u64::from(message.time_left_ms));
        let Some((group, handler)) = self.setup.verbs.find(verb) else {
            return self.respond(Status::UnknownVerb, call);
        };
        let request = Request { verb, version, until, body, from: origin };
        let answered = self.append(&response(Status::Answered, call), |out| handler.now(&request, out));
        match answered {
            Appended::Bytes(_) => return,
            Appended::TooLarge(size) => return self.too_large(verb, call, size),
            Appended::Nothing => {}
        }
        if until <= runtime::now() {
            return self.setup.load.metrics.expired.inc();
        }
        if !self.setup.load.serves(body.len()) {
            return self.respond(Status::Overloaded, call);
        }
        add(&self.serving, 1);
        add(&self.setup.load.served, body.len());
        let responder = Responder::new(self.clone(), call, until, body.len());
        runtime::spawn_detached_now(*group, handler.begin(&request, responder));
    }

    fn respond(self: &Rc<Self>, status: Status, call: u64) {
        self.append(&response(status, call), |_| true);
        self.flush_soon();
    }

    fn too_large(self: &Rc<Self>, verb: u8, call: u64, size: usize) {
        runtime::warn!("rpc: an answer of {size} bytes to verb {verb} is too large to be sent");
        self.respond(Status::GivenUp, call);
    }
}

/// Bytes of the frame that has begun to arrive; 0 when none has.
fn awaited(partial: &[u8]) -> usize {
    let Some([_, _, _, _, a, b, c, d]) = partial.first_chunk::<FRAME_HEADER_BYTES>() else { return 0 };
    u32::from_be_bytes([*a, *b, *c, *d]) as usize
}

fn response(status: Status, call: u64) -> Message<'static> {
    Message { kind: Kind::Response, verb: status.code(), call, version: 0, time_left_ms: 0, body: &[] }
}

fn answer_of<'a>(message: &Message<'a>, peer: HostId) -> Result<&'a [u8], CallError> {
    match Status::from_code(message.verb) {
        Status::Answered => Ok(message.body),
        Status::UnknownVerb => Err(CallError::Unsupported { peer }),
        Status::Overloaded => Err(CallError::Overloaded { peer }),
        Status::GivenUp => Err(CallError::Failed { peer }),
    }
}

impl AnswerPath for Conn {
    fn answer(self: Rc<Self>, call: u64, write: &mut dyn FnMut(&mut Vec<u8>)) {
        let appended = self.append(&response(Status::Answered, call), |out| {
            write(out);
            true
        });
        match appended {
            Appended::TooLarge(size) => self.too_large(0, call, size),
            Appended::Bytes(_) | Appended::Nothing => self.flush_soon(),
        }
    }

    fn ended(self: Rc<Self>, call: u64, bytes: usize, answered: bool) {
        take(&self.serving, 1);
        take(&self.setup.load.served, bytes);
        if !answered {
            self.respond(Status::GivenUp, call);
        }
        self.freed.notify_each();
    }

    fn give_up(self: Rc<Self>, call: u64) {
        self.respond(Status::GivenUp, call);
    }

    fn expired(&self) {
        self.setup.load.metrics.expired.inc();
    }
}
