//! What a coordinator does with a traced request: its own events, and those that replicas send along with their answers.
//!
//! ```text
//! coordinator ── id, ticks, the request as ever ──▶ replica          request   u128 trace   u64 ticks of 100 ns since it came   the plain request
//!      ◀── events, the answer as ever ──────────────┘                answer    u16 count  event*   the plain answer
//!                                                                    event     u64 ticks  u32 µs  u16 shard  u16 length  UTF-8
//! ```
//! A replica whose hello does not say [`FEATURE_TRACES`] is sent the plain request, and has no events. The number of a call says whether its answer
//! brings any: see [`TRACED`]. Nothing here may fail a request: events that do not decode fail their answer alone, as any other damage does.

use crate::coordinator::Coordinator;
use crate::view::View;
use base::{ByteReader, HostId};
use replica::VERB_TRACE;
use rpc::{CallError, Outgoing};
use runtime::tracing::{Event, Trace};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use topology::Snapshot;

/// The bit of hellos that says: this node knows the verbs of traces.
pub const FEATURE_TRACES: u64 = 1 << 32;
/// Added to the number of a call whose answer brings events; of a write only while fewer parts than this are on their way.
pub(crate) const TRACED: u16 = 1 << 14;
/// No events: what is put before the answer of a replica that does not know of traces.
pub(crate) const NO_EVENTS: [u8; 2] = [0; 2];
/// Events that one answer may bring.
const EVENTS_MAX: usize = 256;

/// Appends what comes before the request.
pub(crate) fn encode_header(trace: &Trace, out: &mut Vec<u8>) {
    out.extend_from_slice(&trace.id().to_be_bytes());
    out.extend_from_slice(&trace.ticks().to_be_bytes());
}

/// Begins this node's part of a trace. `None`: the message is cut. Behind it is the plain request.
pub(crate) fn begin_part(body: &[u8]) -> Option<(Rc<Trace>, &[u8])> {
    let mut input = ByteReader::new(body);
    let id = u128::from_be_bytes(input.array().ok()?);
    let ticks = input.u64().ok()?;
    Some((Trace::begin(id, ticks), input.rest()))
}

/// Appends events; of more than [`EVENTS_MAX`] those in the middle are left out, where the fewest tell how it went.
pub(crate) fn encode_events(events: &[Event], out: &mut Vec<u8>) {
    let all = events.len();
    let (first, last) = match all <= EVENTS_MAX {
        true => (events, &events[all..]),
        false => (&events[..EVENTS_MAX / 2], &events[all - EVENTS_MAX / 2..]),
    };
    let events = || first.iter().chain(last);
    out.extend_from_slice(&(events().count() as u16).to_be_bytes());
    for event in events() {
        out.extend_from_slice(&event.at.to_be_bytes());
        out.extend_from_slice(&event.elapsed_us.to_be_bytes());
        out.extend_from_slice(&event.shard.to_be_bytes());
        let text = event.activity.as_bytes();
        let text = &text[..text.len().min(usize::from(u16::MAX))];
        out.extend_from_slice(&(text.len() as u16).to_be_bytes());
        out.extend_from_slice(text);
    }
}

/// The events before an answer, and the answer. `None`: they are cut, or too many.
pub(crate) fn decode_events(bytes: &[u8]) -> Option<(Vec<Event>, &[u8])> {
    let mut input = ByteReader::new(bytes);
    let count = usize::from(input.u16().ok()?);
    if EVENTS_MAX < count {
        return None;
    }
    let mut events = Vec::with_capacity(count);
    for _ in 0..count {
        let (at, elapsed_us, shard) = (input.u64().ok()?, input.u32().ok()?, input.u16().ok()?);
        let length = usize::from(input.u16().ok()?);
        let activity = String::from_utf8_lossy(input.bytes(length).ok()?).into_owned();
        events.push(Event { at, elapsed_us, shard, source: None, activity });
    }
    Some((events, input.rest()))
}

/// A traced request at its coordinator.
#[derive(Clone)]
pub(crate) struct Tracer {
    pub(crate) trace: Rc<Trace>,
    snapshot: Arc<Snapshot>,
}

impl Tracer {
    /// That of the request that is worked on, if it is traced.
    pub(crate) fn of(view: &View) -> Option<Tracer> {
        runtime::tracing::current().map(|trace| Tracer { trace, snapshot: view.snapshot.clone() })
    }

    /// That of a trace that is known.
    pub(crate) fn on(trace: &Rc<Trace>, view: &View) -> Tracer {
        Tracer { trace: trace.clone(), snapshot: view.snapshot.clone() }
    }

    /// A node as traces name it: `/10.0.0.2:7000`.
    pub(crate) fn name(&self, host: HostId) -> String {
        name_of(&self.snapshot, host)
    }

    /// Several nodes, named.
    pub(crate) fn names(&self, hosts: impl Iterator<Item = HostId>) -> String {
        hosts.map(|host| self.name(host)).collect::<Vec<_>>().join(", ")
    }

    /// Takes the events of an answer of another node, if it may bring any, and notes that it came. What is left is the plain answer.
    pub(crate) fn heard<'a>(
        &self,
        host: HostId,
        verb: &str,
        has_events: bool,
        answer: Result<&'a [u8], CallError>,
    ) -> Result<&'a [u8], CallError> {
        match answer {
            Ok(bytes) => {
                let plain = if has_events { self.taken(host, bytes) } else { bytes };
                self.trace.note(format!("{verb}_RSP message received from {}", self.name(host)));
                Ok(plain)
            }
            Err(error) => {
                self.trace.note(format!("No answer to {verb}_REQ from {}: {error}", self.name(host)));
                Err(error)
            }
        }
    }

    /// An answer without its events; nothing, which is no answer, where they are cut.
    fn taken<'a>(&self, host: HostId, bytes: &'a [u8]) -> &'a [u8] {
        let Some((events, plain)) = decode_events(bytes) else { return &[] };
        self.trace.absorb(address_of(&self.snapshot, host), events);
        plain
    }
}

fn address_of(snapshot: &Snapshot, host: HostId) -> Option<SocketAddr> {
    snapshot.member(host).map(|member| member.internode)
}

/// A node as traces name it.
pub(crate) fn name_of(snapshot: &Snapshot, host: HostId) -> String {
    match address_of(snapshot, host) {
        Some(address) => format!("/{address}"),
        None => host.to_string(),
    }
}

impl Coordinator {
    /// Whether another node knows the verbs of traces.
    pub(crate) fn traces_there(&self, host: HostId) -> bool {
        self.pool().knows(host, FEATURE_TRACES)
    }

    /// What another node has kept of a traced request that it coordinated; nothing, if it does not answer, has none, or does not know of traces.
    pub async fn fetch_trace(&self, host: HostId, id: u128, timeout: Duration) -> Vec<u8> {
        if !self.traces_there(host) {
            return Vec::new();
        }
        let outgoing = Outgoing { verb: VERB_TRACE, version: 0, timeout };
        let encode = |out: &mut Vec<u8>| out.extend_from_slice(&id.to_be_bytes());
        self.pool().call(host, 0, outgoing, encode).await.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_read_back_and_are_never_read_from_less() {
        let event = |at: u64, text: &str| Event {
            at,
            elapsed_us: 7,
            shard: 3,
            source: None,
            activity: text.to_owned(),
        };
        let events = [event(1, "Sending"), event(1 << 40, "")];
        let mut bytes = Vec::new();
        encode_events(&events, &mut bytes);
        let header = bytes.len();
        bytes.extend_from_slice(b"answer");
        assert_eq!(decode_events(&bytes), Some((events.to_vec(), &b"answer"[..])));
        for cut in 0..header {
            assert_eq!(decode_events(&bytes[..cut]), None, "cut at {cut}");
        }
        let many = vec![event(1, "x"); EVENTS_MAX + 1];
        let mut bytes = Vec::new();
        encode_events(&many, &mut bytes);
        assert_eq!(decode_events(&bytes), Some((many[..EVENTS_MAX].to_vec(), &b""[..])));
        assert_eq!(decode_events(&[1, 1]), None, "too many");
        assert_eq!(decode_events(&NO_EVENTS), Some((Vec::new(), &b""[..])));
    }
}
