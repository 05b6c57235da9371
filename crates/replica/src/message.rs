//! Messages to and from a replica, and their bytes.
//!
//! ```text
//! request   u8 1 read      the read command
//!           u8 2 write     u8 durability (0 as configured, 1 synced), u32 count, (u32 length + mutation)*
//!           u8 3 truncate  u128 table id, i64 microseconds
//!           u8 4 paxos     a message to an acceptor, as the crate `paxos` lays it out
//!           u8 5 floor     u8 1 to raise it or 0 to say whether it may be, i64 microseconds, u128 table id, i64 first token, i64 last token
//! response  u8 0 done   u8 1 answer + read answer   u8 2..7 error kind + UTF-8 text   u8 8 behind + u64 version   u8 9 paxos + reply
//!           u8 10 floor + i64 microseconds
//! ```
//! On the wire between versions: kinds are only ever added.

use crate::Error;
use base::{ByteReader, Token};
use mutation::{Mutation, ReadAnswer, ReadCommand, TokenRange};
use paxos::{Ask, Reply};
use schema::TableId;
use storage::Durability;

/// The rpc verb that carries these messages. Must never change.
pub const VERB_REPLICA: u8 = 1;
/// A message to write that is to be handed to other replicas, too; its layout is the coordinator's. Must never change.
pub const VERB_FORWARD: u8 = 32;
/// The same messages for a request whose client wants it traced; what is around them is the coordinator's. Must never change.
pub const VERB_TRACED: u8 = 33;
/// As [`VERB_FORWARD`] for a request whose client wants it traced. Must never change.
pub const VERB_TRACED_FORWARD: u8 = 34;
/// Asks for what a member has kept of a traced request that it coordinated. Must never change.
pub const VERB_TRACE: u8 = 35;
/// The same messages where nobody waits for them: the replica answers below requests of clients. Must never change.
pub const VERB_BACKGROUND: u8 = 16;

/// What a replica is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// Read part of a table.
    Read(ReadCommand),
    /// Apply mutations; those of one shard become visible and durable together.
    Write {
        /// What to apply.
        mutations: Vec<Mutation>,
        /// Whether to wait for the disk whatever the configured mode.
        durability: Durability,
    },
    /// Forget everything in a table up to a time in microseconds.
    Truncate {
        /// The table.
        table: TableId,
        /// Microseconds since the Unix epoch.
        at: i64,
    },
    /// Part of a lightweight transaction.
    Paxos(Ask),
    /// About up to when no part is taken in rounds of lightweight transactions.
    Floor(FloorAsked),
}

/// That no part is taken in rounds of lightweight transactions up to a time, or whether that can be: see [`crate::Local::raise_floor`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FloorAsked {
    /// Whether to do so, or only to say whether it can be done.
    pub raises: bool,
    /// Microseconds since the Unix epoch; [`crate::NO_FLOOR`]: only say up to when none is taken already.
    pub at: i64,
    /// The table and the range for which it is asked: who holds them must be what the sender knows.
    pub of: (TableId, TokenRange),
}

/// What it answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Response {
    /// Done, durable as asked.
    Done,
    /// What was read.
    Answer(ReadAnswer),
    /// To [`Request::Paxos`].
    Paxos(Reply),
    /// To [`Request::Floor`]: up to when it takes part in none.
    Floor(i64),
    /// It could not.
    Failed(Error),
    /// Who holds what was asked has changed, at this version of the cluster's log, after the one it was planned on. Nothing was done: catch up and
    /// plan again.
    Behind(u64),
}

fn malformed(what: &str) -> Error {
    Error::Malformed(format!("malformed replica message: {what}"))
}

impl Request {
    /// The token of the first partition it is about, if it names any.
    pub fn token(&self) -> Option<Token> {
        match self {
            Request::Read(command) => command.scope.first_token(),
            Request::Write { mutations, .. } => mutations.first().map(Mutation::token),
            Request::Truncate { .. } | Request::Floor(_) => None,
            Request::Paxos(ask) => Some(ask.key().token),
        }
    }

    /// The message as bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.encode_to(&mut out);
        out
    }

    /// Appends the message as bytes.
    pub fn encode_to(&self, out: &mut Vec<u8>) {
        match self {
            Request::Read(command) => encode_read_to(command, out),
            Request::Write { mutations, durability } => encode_write_to(mutations.iter(), *durability, out),
            Request::Truncate { table, at } => {
                out.push(3);
                out.extend_from_slice(&table.0.to_be_bytes());
                out.extend_from_slice(&at.to_be_bytes());
            }
            Request::Paxos(ask) => {
                out.push(4);
                ask.encode_to(out);
            }
            Request::Floor(FloorAsked { raises, at, of: (table, range) }) => {
                out.extend_from_slice(&[5, u8::from(*raises)]);
                out.extend_from_slice(&at.to_be_bytes());
                out.extend_from_slice(&table.0.to_be_bytes());
                out.extend_from_slice(&range.first.0.to_be_bytes());
                out.extend_from_slice(&range.last.0.to_be_bytes());
            }
        }
    }

    /// Reads what [`Request::encode`] wrote.
    pub fn decode(bytes: &[u8]) -> Result<Request, Error> {
        let (kind, rest) = bytes.split_first().ok_or_else(|| malformed("empty"))?;
        match kind {
            1 => {
                let command = ReadCommand::decode(rest).map_err(|e| malformed(&e.to_string()))?;
                Ok(Request::Read(command))
            }
            2 => decode_write(rest),
            3 => {
                let mut input = ByteReader::new(rest);
                let table = input.array().map_err(|_| malformed("truncate"))?;
                let at = input.i64().map_err(|_| malformed("truncate"))?;
                Ok(Request::Truncate { table: TableId(u128::from_be_bytes(table)), at })
            }
            4 => Ok(Request::Paxos(Ask::decode(rest).map_err(|e| malformed(&e.to_string()))?)),
            5 => decode_floor(rest).map_err(|_| malformed("floor")),
            _ => Err(malformed("unknown kind")),
        }
    }
}

/// Appends a request to read, as [`Request::encode_to`] does, without owning it.
pub fn encode_read_to(command: &ReadCommand, out: &mut Vec<u8>) {
    out.push(1);
    command.encode(out);
}

/// Appends a request to write these mutations, as [`Request::encode_to`] does, without owning them.
pub fn encode_write_to<'m>(
    mutations: impl Iterator<Item = &'m Mutation> + Clone,
    durability: Durability,
    out: &mut Vec<u8>,
) {
    let (mut size, mut count) = (0, 0u32);
    for mutation in mutations.clone() {
        size += mutation.as_bytes().len() + 4;
        count += 1;
    }
    out.reserve(size + 6);
    out.push(2);
    out.push(match durability {
        Durability::Mode => 0,
        Durability::Synced => 1,
    });
    out.extend_from_slice(&count.to_be_bytes());
    for mutation in mutations {
        out.extend_from_slice(&(mutation.as_bytes().len() as u32).to_be_bytes());
        out.extend_from_slice(mutation.as_bytes());
    }
}

fn decode_floor(bytes: &[u8]) -> Result<Request, base::Truncated> {
    let mut input = ByteReader::new(bytes);
    let (raises, at) = (input.u8()? == 1, input.i64()?);
    let table = TableId(u128::from_be_bytes(input.array()?));
    let range = TokenRange::new(Token(input.i64()?), Token(input.i64()?));
    Ok(Request::Floor(FloorAsked { raises, at, of: (table, range) }))
}

fn decode_write(bytes: &[u8]) -> Result<Request, Error> {
    let cut = |_| malformed("write is cut");
    let mut input = ByteReader::new(bytes);
    let durability = match input.u8().map_err(cut)? {
        0 => Durability::Mode,
        1 => Durability::Synced,
        _ => return Err(malformed("unknown durability")),
    };
    let count = input.u32().map_err(cut)?;
    let mut mutations = Vec::new();
    for _ in 0..count {
        let len = input.u32().map_err(cut)? as usize;
        let bytes = input.bytes(len).map_err(cut)?;
        mutations.push(Mutation::from_bytes(bytes.to_vec()).map_err(|e| malformed(&e.to_string()))?);
    }
    Ok(Request::Write { mutations, durability })
}

impl Response {
    /// The answer to a write that ended so.
    pub fn of(written: Result<(), Error>) -> Response {
        match written {
            Ok(()) => Response::Done,
            Err(Error::Overtaken(version)) => Response::Behind(version),
            Err(error) => Response::Failed(error),
        }
    }

    /// Appends the message as bytes.
    pub fn encode_to(&self, out: &mut Vec<u8>) {
        match self {
            Response::Done => out.push(0),
            Response::Answer(answer) => {
                out.push(1);
                answer.encode(out);
            }
            Response::Paxos(reply) => {
                out.push(9);
                reply.encode_to(out);
            }
            Response::Floor(micros) => {
                out.push(10);
                out.extend_from_slice(&micros.to_be_bytes());
            }
            Response::Behind(version) | Response::Failed(Error::Overtaken(version)) => {
                out.push(8);
                out.extend_from_slice(&version.to_be_bytes());
            }
            Response::Failed(error) => {
                let kind = match error {
                    Error::UnknownTable(_) => 2,
                    Error::Refused(_) => 3,
                    Error::TooLarge(_) => 4,
                    Error::Failed(_) | Error::Overtaken(_) => 5,
                    Error::Malformed(_) => 6,
                    Error::TooManyTombstones(_) => 7,
                };
                out.push(kind);
                out.extend_from_slice(error.to_string().as_bytes());
            }
        }
    }

    /// Reads what [`Response::encode`] wrote.
    pub fn decode(bytes: &[u8]) -> Result<Response, Error> {
        let (kind, rest) = bytes.split_first().ok_or_else(|| malformed("empty"))?;
        let text = || String::from_utf8_lossy(rest).into_owned();
        let error = match kind {
            0 => return Ok(Response::Done),
            1 => {
                let answer = ReadAnswer::decode(rest).map_err(|e| malformed(&e.to_string()))?;
                return Ok(Response::Answer(answer));
            }
            2 => Error::UnknownTable(text()),
            3 => Error::Refused(text()),
            4 => Error::TooLarge(text()),
            5 => Error::Failed(text()),
            6 => Error::Malformed(text()),
            7 => Error::TooManyTombstones(text()),
            8 => {
                let version = ByteReader::new(rest).u64().map_err(|_| malformed("behind is cut"))?;
                return Ok(Response::Behind(version));
            }
            9 => {
                let reply = Reply::decode(rest).map_err(|e| malformed(&e.to_string()))?;
                return Ok(Response::Paxos(reply));
            }
            10 => {
                let micros = ByteReader::new(rest).i64().map_err(|_| malformed("floor is cut"))?;
                return Ok(Response::Floor(micros));
            }
            _ => return Err(malformed("unknown kind")),
        };
        Ok(Response::Failed(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floors_are_asked_for_and_answered() {
        let of = (TableId(7), TokenRange::new(Token(-5), Token(9)));
        for raises in [false, true] {
            let asked = Request::Floor(FloorAsked { raises, at: -3, of });
            let bytes = asked.encode();
            assert_eq!(Request::decode(&bytes), Ok(asked));
            assert!(Request::decode(&bytes[..bytes.len() - 1]).is_err(), "cut");
        }
        let mut bytes = Vec::new();
        Response::Floor(-3).encode_to(&mut bytes);
        assert_eq!(Response::decode(&bytes), Ok(Response::Floor(-3)));
        assert!(Response::decode(&bytes[..8]).is_err(), "cut");
    }

    #[test]
    fn what_was_overtaken_is_answered_with_the_version_to_catch_up_with() {
        let mut bytes = Vec::new();
        Response::of(Err(Error::Overtaken(77))).encode_to(&mut bytes);
        assert_eq!(bytes, [8, 0, 0, 0, 0, 0, 0, 0, 77]);
        assert_eq!(Response::decode(&bytes), Ok(Response::Behind(77)));
        assert!(Response::decode(&bytes[..8]).is_err(), "cut");
    }
}
