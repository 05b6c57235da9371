//! A write goes to another datacenter once: one replica there hands it to the others.
//!
//! ```text
//! coordinator ── one message ──▶ forwarder ── the write, as it came ──▶ other replicas of its datacenter
//!      ◀── an answer for each replica ──┘ ◀──────── answers ────────────┘
//!
//! message   u8 count   (u128 host id, u64 call)*   a request to write, as replicas get it
//! ```
//! Each call is one of the coordinator's, and what the replica answers is its answer: late, failed and broken are what they are for calls that the
//! coordinator makes itself. The version that the write was planned on travels along, so a replica refuses it or catches up as ever. On the wire between
//! releases: an older one does not know the verb, and is sent plain writes.

use crate::coordinator::Coordinator;
use crate::tracing::{NO_EVENTS, TRACED, Tracer};
use crate::view::View;
use base::{ByteReader, HostId, Token, shard_of};
use rpc::{Beside, CallError, Gather, Responder};
use runtime::tracing::Trace;
use std::cell::RefCell;
use std::rc::Rc;

/// Replicas that one message may name, besides the one that it is sent to.
pub(crate) const NAMED_MAX: usize = u8::MAX as usize;

/// Replicas, each with the call that its answer belongs to.
pub(crate) type Names = Vec<(HostId, u64)>;

/// Appends the names of those it is to be handed to, each with the call that its answer belongs to. The write comes behind.
pub(crate) fn encode_names(names: impl ExactSizeIterator<Item = (HostId, u64)>, out: &mut Vec<u8>) {
    assert!(names.len() <= NAMED_MAX, "groups are cut before");
    out.push(names.len() as u8);
    for (host, call) in names {
        out.extend_from_slice(&host.0.to_be_bytes());
        out.extend_from_slice(&call.to_be_bytes());
    }
}

/// The names of a message, and the write behind them. `None`: it is cut.
pub(crate) fn decode_names(body: &[u8]) -> Option<(Names, &[u8])> {
    let mut input = ByteReader::new(body);
    let count = input.u8().ok()?;
    let mut names = Names::with_capacity(usize::from(count));
    for _ in 0..count {
        let host = u128::from_be_bytes(input.array().ok()?);
        names.push((HostId(host), input.u64().ok()?));
    }
    Some((names, input.rest()))
}

/// Answers on their way through this node.
struct Relay {
    ways: RefCell<Vec<Option<Beside>>>,
    /// The coordinator looks for events before each answer.
    traced: bool,
    /// ⚔ Kept to the end: what this node handed on is a request of its, for which a barrier waits.
    _view: Rc<View>,
}

impl Gather for Relay {
    fn answered(&self, index: u16, answer: Result<&[u8], CallError>) {
        let way = self.ways.borrow_mut()[usize::from(index & !TRACED)].take();
        let lacks_events = self.traced && index & TRACED == 0;
        // Without an answer the way back is dropped, and the coordinator learns that there is none.
        if let (Some(way), Ok(answer)) = (way, answer) {
            way.send(|out| {
                if lacks_events {
                    out.extend_from_slice(&NO_EVENTS);
                }
                out.extend_from_slice(answer);
            });
        }
    }
}

impl Coordinator {
    /// The shard of another node that owns a token; any, without one.
    pub(crate) fn shard_there(&self, host: HostId, token: Option<Token>) -> u16 {
        let shards = self.pool().shards(host);
        token.filter(|_| shards > 0).map_or(0, |token| shard_of(token, shards))
    }

    /// Hands a write of another coordinator to replicas near this node. `trace`: this node's part of it, where the coordinator wants it traced.
    pub(crate) fn hand_on(
        &self,
        request: &rpc::Request<'_>,
        names: &[(HostId, u64)],
        (write, token): (&[u8], Option<Token>),
        answer: &Responder,
        trace: Option<&Rc<Trace>>,
    ) {
        let ways = names.iter().map(|(_, call)| Some(answer.beside(*call))).collect();
        let view = self.view();
        let tracer = trace.map(|trace| Tracer::on(trace, &view));
        let relay = Rc::new(Relay { ways: RefCell::new(ways), traced: trace.is_some(), _view: view });
        for (index, (host, _)) in names.iter().enumerate() {
            if let Some(tracer) = &tracer {
                tracer.trace.note(format!("Forwarding MUTATION_REQ message to {}", tracer.name(*host)));
            }
            let gather = relay.clone() as Rc<dyn Gather>;
            let encode = |out: &mut Vec<u8>| out.extend_from_slice(write);
            let (version, until) = (request.version, answer.until());
            let sent = self.send_there(
                version,
                (*host, token),
                until,
                (gather, index as u16),
                tracer.as_ref(),
                encode,
            );
            if let Err(error) = sent {
                relay.answered(index as u16, Err(error));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back_and_are_never_read_from_less() {
        let names = [(HostId(1 << 100), 7), (HostId(2), u64::MAX)];
        let mut bytes = Vec::new();
        encode_names(names.iter().copied(), &mut bytes);
        let header = bytes.len();
        bytes.extend_from_slice(b"write");
        assert_eq!(decode_names(&bytes), Some((names.to_vec(), &b"write"[..])));
        for cut in 0..header {
            assert_eq!(decode_names(&bytes[..cut]), None, "cut at {cut}");
        }
    }
}
