//! What nodes say to each other about the cluster, over control connections and first contacts.

use crate::error::Error;
use base::{ByteReader, HostId};
use core::cell::OnceCell;
use core::time::Duration;
use group0::Holdings;
use raft::{BoxFuture, SendError, Transport};
use rpc::{CallError, Links, Outgoing};
use std::rc::{Rc, Weak};
use topology::Version;

/// Messages of consensus: u8 kind, the message. Verbs must never change.
pub(crate) const VERB_RAFT: u8 = 2;
/// What a node without a cluster asks a seed: nothing. Answer: see [`crate::enter`].
pub(crate) const VERB_ASK: u8 = 3;
/// A node asks to become a member: an encoded [`group0::Command`]. Answer: the outcome.
pub(crate) const VERB_JOIN: u8 = 4;
/// Whether a node has applied a version, and what it held then: u64 epoch, u64 index. Answer: u64 tables, u64 hints, u64 batches; or nothing: not yet.
pub(crate) const VERB_APPLIED: u8 = 5;

/// A node asks to take the place of another: a text, the address or host id of that one, and an encoded [`group0::Command`] to join. Answer: the
/// outcome.
pub(crate) const VERB_REPLACE: u8 = 17;
/// How far a node is with getting what it must hold: u64 epoch, u64 index of the operation. Answer: u8 0 none, 1 at it and a text, 2 done; or nothing: it
/// has not started.
pub(crate) const VERB_FILL: u8 = 18;

/// The member of the group, once it is open. Until then messages of consensus have no answer.
pub(crate) type Slot = Rc<OnceCell<Rc<raft::Group>>>;

/// Consensus over the control connections, whose verbs hold consensus.
pub(crate) struct OverLinks(pub(crate) Weak<Links>);

impl Transport for OverLinks {
    fn send(
        &self,
        to: HostId,
        kind: u8,
        body: Vec<u8>,
        timeout: Duration,
    ) -> BoxFuture<'_, Result<Vec<u8>, SendError>> {
        Box::pin(async move {
            let Some(links) = self.0.upgrade() else {
                return Err(SendError::NotSent("this node stops".to_owned()));
            };
            if !links.is_up(to) {
                return Err(SendError::NotSent(format!("{to} is down")));
            }
            let outgoing = Outgoing { verb: VERB_RAFT, version: 0, timeout };
            let answer = links.call(to, outgoing, |out| {
                out.push(kind);
                out.extend_from_slice(&body);
            });
            match answer.await {
                Ok(answer) if answer.is_empty() => {
                    Err(SendError::NotSent(format!("{to} has not started yet")))
                }
                Ok(answer) => Ok(answer),
                Err(
                    error @ (CallError::Overloaded { .. }
                    | CallError::TooLarge { .. }
                    | CallError::Unsupported { .. }),
                ) => Err(SendError::NotSent(error.to_string())),
                Err(error) => Err(SendError::NoAnswer(error.to_string())),
            }
        })
    }
}

/// Answers a message of consensus; nothing before the group is open.
pub(crate) async fn answer_raft(slot: Slot, message: Vec<u8>) -> Vec<u8> {
    match (slot.get(), message.split_first()) {
        (Some(group), Some((kind, rest))) => group.handle(*kind, rest).await,
        _ => Vec::new(),
    }
}

/// Asks a member to answer when it has applied a version and runs nothing from before, and what it holds then. Errors: it did not answer in
/// time, or not that it has.
pub(crate) async fn ask_applied(
    links: &Links,
    host: HostId,
    version: Version,
    timeout: Duration,
) -> Result<Holdings, Error> {
    let outgoing = Outgoing { verb: VERB_APPLIED, version: version.index, timeout };
    let answer = links.call(host, outgoing, |out| {
        out.extend_from_slice(&version.epoch.to_be_bytes());
        out.extend_from_slice(&version.index.to_be_bytes());
    });
    let answer = answer.await.map_err(|error| Error::Consensus(error.to_string()))?;
    let mut input = ByteReader::new(&answer);
    match (input.u64(), input.u64(), input.u64()) {
        (Ok(tables), Ok(hints), Ok(batches)) => Ok(Holdings { tables, hints, batches }),
        _ => Err(Error::Consensus(format!("{host} has not applied {version} yet"))),
    }
}
