//! Messages to and from a replica, and their bytes.
//!
//! ```text
//! request   u8 1 read      the read command
//!           u8 2 write     u8 durability (0 as configured, 1 synced), u32 count, (u32 length + mutation)*
//!           u8 3 truncate  u128 table id, i64 microseconds
//! response  u8 0 done   u8 1 answer + read answer   u8 2.. error kind + UTF-8 text
//! ```
//! On the wire between versions: kinds are only ever added.

use crate::Error;
use base::ByteReader;
use mutation::{Mutation, ReadAnswer, ReadCommand};
use schema::TableId;
use storage::Durability;

/// The rpc verb that carries these messages. Must never change.
pub const VERB_REPLICA: u8 = 1;

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
}

/// What it answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Response {
    /// Done, durable as asked.
    Done,
    /// What was read.
    Answer(ReadAnswer),
    /// It could not.
    Failed(Error),
}

fn malformed(what: &str) -> Error {
    Error::Malformed(format!("malformed replica message: {what}"))
}

impl Request {
    /// The message as bytes.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Request::Read(command) => {
                let mut out = vec![1];
                command.encode(&mut out);
                out
            }
            Request::Write { mutations, durability } => encode_write(mutations, *durability),
            Request::Truncate { table, at } => {
                let mut out = vec![3];
                out.extend_from_slice(&table.0.to_be_bytes());
                out.extend_from_slice(&at.to_be_bytes());
                out
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
            _ => Err(malformed("unknown kind")),
        }
    }
}

fn encode_write(mutations: &[Mutation], durability: Durability) -> Vec<u8> {
    let size: usize = mutations.iter().map(|m| m.as_bytes().len() + 4).sum();
    let mut out = Vec::with_capacity(size + 6);
    out.push(2);
    out.push(match durability {
        Durability::Mode => 0,
        Durability::Synced => 1,
    });
    out.extend_from_slice(&(mutations.len() as u32).to_be_bytes());
    for mutation in mutations {
        out.extend_from_slice(&(mutation.as_bytes().len() as u32).to_be_bytes());
        out.extend_from_slice(mutation.as_bytes());
    }
    out
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
    /// The message as bytes.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Response::Done => vec![0],
            Response::Answer(answer) => {
                let mut out = vec![1];
                answer.encode(&mut out);
                out
            }
            Response::Failed(error) => {
                let kind = match error {
                    Error::UnknownTable(_) => 2,
                    Error::Refused(_) => 3,
                    Error::TooLarge(_) => 4,
                    Error::Failed(_) => 5,
                    Error::Malformed(_) => 6,
                    Error::TooManyTombstones(_) => 7,
                };
                let mut out = vec![kind];
                out.extend_from_slice(error.to_string().as_bytes());
                out
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
            _ => return Err(malformed("unknown kind")),
        };
        Ok(Response::Failed(error))
    }
}
