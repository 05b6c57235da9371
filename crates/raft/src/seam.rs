//! What the caller brings: the state machine and the way to other members.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::time::Duration;

use base::HostId;
use openraft::impls::leader_id_adv::LeaderId;

use crate::codec::DecodeError;
use crate::types::LogId;

/// A future of this shard.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// A place in the history of the group. (epoch, index) is the version of the state that has applied everything up to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// Grows when the group is recovered after the loss of its majority.
    pub epoch: u64,
    /// Of the entry, counted from 0.
    pub index: u64,
    /// Of the leader that wrote the entry.
    pub term: u64,
    /// That leader.
    pub leader: HostId,
}

impl Position {
    /// Size of its bytes.
    pub const BYTES: usize = 40;

    /// Its bytes, to be kept in one record with the state.
    pub fn to_bytes(self) -> [u8; Position::BYTES] {
        let mut bytes = [0; Position::BYTES];
        bytes[..8].copy_from_slice(&self.epoch.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.index.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.term.to_be_bytes());
        bytes[24..].copy_from_slice(&self.leader.to_bytes());
        bytes
    }

    /// The position that [`Position::to_bytes`] gave.
    pub fn from_bytes(bytes: &[u8]) -> Result<Position, DecodeError> {
        let mut input = base::ByteReader::new(bytes);
        let position = Position {
            epoch: input.u64()?,
            index: input.u64()?,
            term: input.u64()?,
            leader: crate::codec::host(&mut input)?,
        };
        if input.remaining() > 0 { Err(DecodeError::Long) } else { Ok(position) }
    }

    pub(crate) fn new(epoch: u64, id: &LogId) -> Position {
        Position { epoch, index: id.index, term: id.leader_id.term, leader: id.leader_id.node_id }
    }

    pub(crate) fn log_id(&self) -> LogId {
        LogId { leader_id: LeaderId { term: self.term, node_id: self.leader }, index: self.index }
    }
}

/// The state that the group agrees on. One task calls it, one call at a time.
pub trait StateMachine: 'static {
    /// What the state covers, as it is kept durably: `None` when it is empty or kept in memory alone, and then the last snapshot and
    /// the log behind it are applied again when the group is opened. A state that is kept durably must have its position in the same record.
    fn position(&self) -> Option<Position>;

    /// Applies a committed command and returns what its proposer is told. Positions grow from call to call, not by one: the group has
    /// entries of its own. When this returns, the command counts as applied here: a durable state is durable by then, and what
    /// has to happen on other shards has happened. A command that makes no sense is answered, not refused: all members must agree.
    /// Errors end this member: the disk failed.
    fn apply<'a>(&'a self, at: Position, command: &'a [u8]) -> BoxFuture<'a, io::Result<Vec<u8>>>;

    /// The state as of the last call of `apply` or `restore`.
    fn snapshot(&self) -> Vec<u8>;

    /// Takes the state of a snapshot instead of its own, as of `at`: local effects are the difference of the two. Bytes that are no state are an
    /// error, which ends this member.
    fn restore<'a>(&'a self, at: Position, snapshot: &'a [u8]) -> BoxFuture<'a, io::Result<()>>;
}

/// Why a message has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// Nothing was sent: the peer has not seen the message and will not.
    #[error("not sent: {0}")]
    NotSent(String),
    /// The message may have arrived.
    #[error("no answer: {0}")]
    NoAnswer(String),
}

/// The way to other members.
pub trait Transport: 'static {
    /// Sends a message to a member and waits for what its [`Group::handle`](crate::Group::handle) returns, for `timeout` at most. The message may be lost,
    /// doubled or late.
    fn send(
        &self,
        to: HostId,
        kind: u8,
        body: Vec<u8>,
        timeout: Duration,
    ) -> BoxFuture<'_, Result<Vec<u8>, SendError>>;
}
