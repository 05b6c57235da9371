//! openraft's messages over the caller's transport.
//!
//! ```text
//! message = u64 epoch, body              answer = u8 0, body | u8 1, why not, as text
//! ```
//! A message of another epoch is refused: it is of a history that the other side does not share.

use std::future::Future;
use std::rc::Rc;
use std::time::Duration;

use base::HostId;
use futures_util::future::{Either, select};
use openraft::errors::{RPCError, ReplicationClosed, StreamingError, Unreachable};
use openraft::network::{RPCOption, RaftNetworkFactory};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, TransferLeaderRequest,
    TransferLeaderResponse, VoteRequest, VoteResponse,
};
use openraft::{EmptyNode, OptionalSend, RaftNetworkV2};

use crate::codec::{self, DecodeError, In};
use crate::limits::{SNAPSHOT_CHUNK_BYTES, SNAPSHOT_CHUNK_WAIT};
use crate::seam::{SendError, Transport};
use crate::store::LogStore;
use crate::types::{Snapshot, SnapshotBytes, Types, Vote};

/// What a message asks; the numbers are the wire's and never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// Entries for a follower.
    Append = 1,
    /// A vote.
    Vote = 2,
    /// Would you vote?
    PreVote = 3,
    /// A part of a snapshot.
    Snapshot = 4,
    /// A command for the leader.
    Propose = 5,
    /// Up to where must a read have applied?
    Barrier = 6,
    /// A change of members for the leader.
    Change = 7,
    /// Entries, or a snapshot, for one who is behind.
    Pull = 8,
    /// Become the leader.
    Transfer = 9,
}

impl Kind {
    pub(crate) fn of(byte: u8) -> Option<Kind> {
        use Kind::*;
        [Append, Vote, PreVote, Snapshot, Propose, Barrier, Change, Pull, Transfer]
            .into_iter()
            .find(|kind| *kind as u8 == byte)
    }
}

/// The way to other members, with the epoch on every message.
#[derive(Clone)]
pub(crate) struct Network {
    pub(crate) transport: Rc<dyn Transport>,
    pub(crate) log: LogStore,
}

impl Network {
    /// Sends a message and returns the body of its answer. `NotSent` also when the other side refused it before it did anything.
    pub(crate) async fn ask(
        &self,
        to: HostId,
        kind: Kind,
        body: &[u8],
        timeout: Duration,
    ) -> Result<Vec<u8>, SendError> {
        let mut message = self.log.epoch().to_be_bytes().to_vec();
        message.extend(body);
        let sending = self.transport.send(to, kind as u8, message, timeout);
        let answer = match runtime::timeout(timeout, sending).await {
            Ok(answer) => answer?,
            Err(late) => return Err(SendError::NoAnswer(late.to_string())),
        };
        match answer.split_first() {
            Some((0, body)) => Ok(body.to_vec()),
            Some((_, text)) => Err(SendError::NotSent(String::from_utf8_lossy(text).into_owned())),
            None => Err(SendError::NoAnswer("an empty answer".to_string())),
        }
    }
}

/// The body of a message, if it is of this epoch, or this member is still of none.
pub(crate) async fn opened<'a>(message: &'a [u8], log: &LogStore) -> Result<In<'a>, String> {
    let mut input = In::new(message);
    let theirs = input.u64().map_err(|_| "message is cut short".to_string())?;
    let own = log.epoch();
    if theirs == own || log.join_epoch(theirs).await.map_err(|error| error.to_string())? {
        return Ok(input);
    }
    Err(format!("message of epoch {theirs}, this is epoch {own}"))
}

pub(crate) fn answered(result: Result<Vec<u8>, String>) -> Vec<u8> {
    let (tag, body) = match result {
        Ok(body) => (0, body),
        Err(text) => (1, text.into_bytes()),
    };
    let mut answer = Vec::with_capacity(1 + body.len());
    answer.push(tag);
    answer.extend(body);
    answer
}

impl RaftNetworkFactory<Types> for Network {
    type Network = Peer;

    async fn new_client(&mut self, target: HostId, _node: &EmptyNode) -> Peer {
        Peer { to: target, network: self.clone() }
    }
}

/// A client of one other member.
pub(crate) struct Peer {
    to: HostId,
    network: Network,
}

fn parsed<T>(result: Result<T, DecodeError>) -> Result<T, Unreachable<Types>> {
    result.map_err(|error| Unreachable::new(&error))
}

impl Peer {
    async fn ask(&self, kind: Kind, body: &[u8], timeout: Duration) -> Result<Vec<u8>, Unreachable<Types>> {
        self.network.ask(self.to, kind, body, timeout).await.map_err(|error| Unreachable::new(&error))
    }

    /// Part after part; the answer says from where to go on, so a transfer that broke off is continued.
    async fn send_snapshot(&self, vote: &Vote, snapshot: &Snapshot) -> Result<Vote, Unreachable<Types>> {
        let bytes = &snapshot.snapshot;
        let mut offset = 0;
        loop {
            let end = bytes.len().min(offset + SNAPSHOT_CHUNK_BYTES);
            let part = codec::Part {
                vote: *vote,
                meta: snapshot.meta.clone(),
                total: bytes.len() as u64,
                offset: offset as u64,
                bytes: bytes[offset..end].to_vec(),
            };
            let mut body = Vec::new();
            codec::put_part(&mut body, &part);
            let answer = self.ask(Kind::Snapshot, &body, SNAPSHOT_CHUNK_WAIT).await?;
            let reply = parsed(codec::part_answer(&mut In::new(&answer)))?;
            match reply.next {
                Some(next) if next <= part.total => offset = next as usize,
                Some(next) => {
                    let text = format!("a request for byte {next} of {}", part.total);
                    return Err(Unreachable::new(&SendError::NoAnswer(text)));
                }
                None => return Ok(reply.vote),
            }
        }
    }
}

impl RaftNetworkV2<Types> for Peer {
    type SnapshotData = SnapshotBytes;

    async fn append_entries(
        &mut self,
        rpc: AppendEntriesRequest<Types>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<Types>, RPCError<Types>> {
        let mut body = Vec::new();
        codec::put_append(&mut body, &rpc);
        let answer = self.ask(Kind::Append, &body, option.hard_ttl()).await?;
        Ok(parsed(codec::append_answer(&mut In::new(&answer)))?)
    }

    async fn vote(
        &mut self,
        rpc: VoteRequest<Types>,
        option: RPCOption,
    ) -> Result<VoteResponse<Types>, RPCError<Types>> {
        let mut body = Vec::new();
        codec::put_ballot(&mut body, &rpc);
        let answer = self.ask(Kind::Vote, &body, option.hard_ttl()).await?;
        Ok(parsed(codec::ballot_answer(&mut In::new(&answer)))?)
    }

    async fn pre_vote(
        &mut self,
        rpc: VoteRequest<Types>,
        option: RPCOption,
    ) -> Result<VoteResponse<Types>, RPCError<Types>> {
        let mut body = Vec::new();
        codec::put_ballot(&mut body, &rpc);
        let answer = self.ask(Kind::PreVote, &body, option.hard_ttl()).await?;
        Ok(parsed(codec::ballot_answer(&mut In::new(&answer)))?)
    }

    async fn full_snapshot(
        &mut self,
        vote: Vote,
        snapshot: Snapshot,
        cancel: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
        _option: RPCOption,
    ) -> Result<SnapshotResponse<Types>, StreamingError<Types>> {
        let sending = Box::pin(self.send_snapshot(&vote, &snapshot));
        match select(sending, Box::pin(cancel)).await {
            Either::Left((sent, _)) => Ok(SnapshotResponse::new(sent?)),
            Either::Right((closed, _)) => Err(StreamingError::Closed(closed)),
        }
    }

    async fn transfer_leader(
        &mut self,
        request: TransferLeaderRequest<Types>,
        option: RPCOption,
    ) -> Result<TransferLeaderResponse<Types>, RPCError<Types>> {
        let mut body = Vec::new();
        codec::put_transfer(&mut body, &request);
        let answer = self.ask(Kind::Transfer, &body, option.hard_ttl()).await?;
        Ok(parsed(codec::transfer_answer(&mut In::new(&answer)))?)
    }
}
