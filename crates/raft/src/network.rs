//! Messages between members over the runtime's TCP: one question at a time per connection.
//!
//! ```text
//! question = u32 length of the rest, u8 kind, body          answer = u32 length of the rest, u8 0 ok | 1 no, body
//! ```
//! A connection whose question was cut short (deadline, dropped future) is closed, never reused.

use std::future::Future;
use std::io;
use std::net::SocketAddr;

use openraft::errors::{RPCError, ReplicationClosed, StreamingError, Unreachable};
use openraft::network::{RPCOption, RaftNetworkFactory};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, VoteRequest, VoteResponse,
};
use openraft::{BasicNode, OptionalSend, RaftNetworkV2};
use runtime::net::TcpStream;

use crate::codec::{self, DecodeError, In};
use crate::limits::{CONNECT, FRAME_BYTES};
use crate::{Snapshot, Types, Vote};

/// What a question asks; the numbers are the wire's and never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Entries for a follower.
    Append = 1,
    /// A vote.
    Vote = 2,
    /// Would you vote?
    PreVote = 3,
    /// A whole snapshot.
    Snapshot = 4,
    /// A client's command.
    Write = 5,
    /// All applied commands, after a read barrier.
    Read = 6,
}

impl Kind {
    pub(crate) fn of(byte: u8) -> Option<Kind> {
        [Kind::Append, Kind::Vote, Kind::PreVote, Kind::Snapshot, Kind::Write, Kind::Read]
            .into_iter()
            .find(|kind| *kind as u8 == byte)
    }
}

/// A connection that carries frames.
pub struct Wire {
    stream: TcpStream,
    received: Vec<u8>,
}

impl Wire {
    /// A wire over a connection.
    pub fn new(stream: TcpStream) -> Wire {
        Wire { stream, received: Vec::new() }
    }

    /// Connects within a bound.
    pub async fn connect(to: SocketAddr) -> io::Result<Wire> {
        match runtime::timeout(CONNECT, TcpStream::connect(to, None)).await {
            Ok(stream) => Ok(Wire::new(stream?)),
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        }
    }

    /// Sends one frame.
    pub async fn send(&mut self, tag: u8, body: &[u8]) -> io::Result<()> {
        let mut frame = Vec::with_capacity(5 + body.len());
        frame.extend((1 + body.len() as u32).to_be_bytes());
        frame.push(tag);
        frame.extend(body);
        self.stream.send_all(frame).await.map(|_| ())
    }

    /// The next frame: its tag and body. `UnexpectedEof` at the end of the stream.
    pub async fn recv(&mut self) -> io::Result<(u8, Vec<u8>)> {
        loop {
            if let Some(header) = self.received.get(..4) {
                let len = u32::from_be_bytes(header.try_into().expect("four bytes")) as usize;
                if len == 0 || FRAME_BYTES < len {
                    return Err(io::Error::new(io::ErrorKind::InvalidData, format!("frame of {len} bytes")));
                }
                if 4 + len <= self.received.len() {
                    let frame: Vec<u8> = self.received.drain(..4 + len).collect();
                    return Ok((frame[4], frame[5..].to_vec()));
                }
            }
            let bytes = self.stream.recv().await?;
            if bytes.is_empty() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.received.extend_from_slice(&bytes);
        }
    }

    /// Asks and waits for the answer; an answer of "no" is an error with its text.
    pub async fn ask(&mut self, kind: Kind, body: &[u8]) -> io::Result<Vec<u8>> {
        self.send(kind as u8, body).await?;
        let (status, answer) = self.recv().await?;
        if status == 0 {
            Ok(answer)
        } else {
            Err(io::Error::other(String::from_utf8_lossy(&answer).into_owned()))
        }
    }
}

/// Makes clients for other members.
#[derive(Clone, Copy, Debug)]
pub struct Network;

impl RaftNetworkFactory<Types> for Network {
    type Network = Peer;

    async fn new_client(&mut self, _target: u64, node: &BasicNode) -> Peer {
        Peer { address: node.addr.parse().ok(), wire: None }
    }
}

/// A client of one other member.
pub struct Peer {
    address: Option<SocketAddr>,
    wire: Option<Wire>,
}

fn bad(error: DecodeError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

impl Peer {
    async fn ask(
        &mut self,
        kind: Kind,
        body: Vec<u8>,
        option: &RPCOption,
    ) -> Result<Vec<u8>, Unreachable<Types>> {
        // Taken out while in use: if this future is dropped half way, the connection goes with it.
        let wire = self.wire.take();
        let address = self.address;
        let work = async move {
            let mut wire = match wire {
                Some(wire) => wire,
                None => Wire::connect(address.ok_or(io::ErrorKind::AddrNotAvailable)?).await?,
            };
            let answer = wire.ask(kind, &body).await?;
            Ok::<_, io::Error>((wire, answer))
        };
        match runtime::timeout(option.hard_ttl(), work).await {
            Ok(Ok((wire, answer))) => {
                self.wire = Some(wire);
                Ok(answer)
            }
            Ok(Err(error)) => Err(Unreachable::new(&error)),
            Err(late) => Err(Unreachable::new(&late)),
        }
    }
}

fn parsed<T>(result: Result<T, DecodeError>) -> Result<T, Unreachable<Types>> {
    result.map_err(|error| Unreachable::new(&bad(error)))
}

impl RaftNetworkV2<Types> for Peer {
    type SnapshotData = Vec<u8>;

    async fn append_entries(
        &mut self,
        rpc: AppendEntriesRequest<Types>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<Types>, RPCError<Types>> {
        let mut body = Vec::new();
        codec::put_append(&mut body, &rpc);
        let answer = self.ask(Kind::Append, body, &option).await?;
        Ok(parsed(codec::append_answer(&mut In::new(&answer)))?)
    }

    async fn vote(
        &mut self,
        rpc: VoteRequest<Types>,
        option: RPCOption,
    ) -> Result<VoteResponse<Types>, RPCError<Types>> {
        let mut body = Vec::new();
        codec::put_ballot(&mut body, &rpc);
        let answer = self.ask(Kind::Vote, body, &option).await?;
        Ok(parsed(codec::ballot_answer(&mut In::new(&answer)))?)
    }

    async fn pre_vote(
        &mut self,
        rpc: VoteRequest<Types>,
        option: RPCOption,
    ) -> Result<VoteResponse<Types>, RPCError<Types>> {
        let mut body = Vec::new();
        codec::put_ballot(&mut body, &rpc);
        let answer = self.ask(Kind::PreVote, body, &option).await?;
        Ok(parsed(codec::ballot_answer(&mut In::new(&answer)))?)
    }

    async fn full_snapshot(
        &mut self,
        vote: Vote,
        snapshot: Snapshot,
        _cancel: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
        option: RPCOption,
    ) -> Result<SnapshotResponse<Types>, StreamingError<Types>> {
        let mut body = Vec::new();
        codec::put_vote(&mut body, &vote);
        codec::put_meta(&mut body, &snapshot.meta);
        body.extend(&snapshot.snapshot);
        let answer = self.ask(Kind::Snapshot, body, &option).await?;
        Ok(SnapshotResponse::new(parsed(codec::vote(&mut In::new(&answer)))?))
    }
}
