//! What acceptors are asked, and what they answer.
//!
//! ```text
//! ask    u8 1 prepare  uuid ballot   read command             key and table are those of the command
//!        u8 2 look                   read command
//!        u8 3 accept   uuid ballot   u128 table   u32 length, key   proposal
//!        u8 4 swap     as accept, then uuid expected before the proposal
//! reply  u8 1 promise  uuid newest, uuid open, uuid committed, uuid accepted, u32 length, accepted proposal, u32 length, committed proposal, read answer
//!        u8 2 accepted
//!        u8 3 refused  uuid promised
//!        u8 4 promise of an acceptor that has a floor: i64 floor in microseconds, then as a promise
//! ```
//! Big endian; a ballot of zeros is none, a length of 0 no proposal. On the wire between releases: kinds are only ever added. Commits, releases and prunings
//! are writes of rows as [`crate::Records`] makes them.

use crate::{Ballot, Error, Proposal, State};
use base::ByteReader;
use mutation::{Key, ReadAnswer, ReadCommand, Scope};
use schema::TableId;

/// What an acceptor of a partition is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ask {
    /// Promise a round, then say what was known before it and read.
    Prepare {
        /// The round.
        ballot: Ballot,
        /// Of one key.
        command: ReadCommand,
    },
    /// Say what is known, and read.
    Look {
        /// Of one key.
        command: ReadCommand,
    },
    /// Accept what a round proposes.
    Accept {
        /// The table.
        table: TableId,
        /// The partition.
        key: Key,
        /// The round.
        ballot: Ballot,
        /// What it proposes.
        proposal: Proposal,
    },
    /// To the only holder of a partition: if nothing was promised or committed since it was looked at, commit this.
    Swap {
        /// The table.
        table: TableId,
        /// The partition.
        key: Key,
        /// The newest that was promised or committed when it was looked at.
        expected: Ballot,
        /// The round.
        ballot: Ballot,
        /// What it commits.
        proposal: Proposal,
    },
}

/// What it answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// To [`Ask::Prepare`], when it has promised, and to [`Ask::Look`].
    Promise(Box<Promise>),
    /// To [`Ask::Accept`].
    Accepted,
    /// A round of this time or later was promised or committed.
    Refused(Ballot),
}

/// What an acceptor knew before it promised, and the rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Promise {
    /// The newest round that was promised or committed.
    pub newest: Ballot,
    /// The newest round that may have proposed something, is not known to be committed, and was not given up.
    pub open: Option<Ballot>,
    /// What was accepted last and is not known to be committed.
    pub accepted: Option<(Ballot, Proposal)>,
    /// The newest round known to be committed.
    pub committed: Ballot,
    /// What it proposed, as long as somebody may lack it.
    pub committed_proposal: Option<Proposal>,
    /// The acceptor takes part in no round up to this.
    pub floor: Ballot,
    /// The rows, read behind all this.
    pub rows: ReadAnswer,
}

fn malformed(what: &str) -> Error {
    Error::Malformed(format!("a message: {what}"))
}

/// The one key of a command. Errors: it is about more than one.
fn key_of(command: &ReadCommand) -> Result<&Key, Error> {
    match &command.scope {
        Scope::Keys(keys) if keys.len() == 1 => Ok(&keys[0]),
        Scope::Keys(_) | Scope::Range(_) => Err(malformed("not about one partition")),
    }
}

impl Ask {
    /// The partition it is about.
    pub fn key(&self) -> &Key {
        match self {
            Ask::Prepare { command, .. } | Ask::Look { command } => {
                key_of(command).expect("checked when it was made")
            }
            Ask::Accept { key, .. } | Ask::Swap { key, .. } => key,
        }
    }

    /// The table it is about.
    pub fn table(&self) -> TableId {
        match self {
            Ask::Prepare { command, .. } | Ask::Look { command } => command.table,
            Ask::Accept { table, .. } | Ask::Swap { table, .. } => *table,
        }
    }

    /// The name of the message in traces.
    pub fn name(&self) -> &'static str {
        match self {
            Ask::Prepare { .. } => "PAXOS_PREPARE",
            Ask::Look { .. } => "PAXOS_READ",
            Ask::Accept { .. } | Ask::Swap { .. } => "PAXOS_PROPOSE",
        }
    }

    /// Appends it as bytes.
    pub fn encode_to(&self, out: &mut Vec<u8>) {
        match self {
            Ask::Prepare { ballot, command } => {
                out.push(1);
                out.extend_from_slice(&ballot.to_bytes());
                command.encode(out);
            }
            Ask::Look { command } => {
                out.push(2);
                command.encode(out);
            }
            Ask::Accept { table, key, ballot, proposal } => {
                put_head(3, *ballot, *table, key, out);
                proposal.encode_to(out);
            }
            Ask::Swap { table, key, expected, ballot, proposal } => {
                put_head(4, *ballot, *table, key, out);
                out.extend_from_slice(&expected.to_bytes());
                proposal.encode_to(out);
            }
        }
    }

    /// Reads what [`Ask::encode_to`] wrote.
    pub fn decode(bytes: &[u8]) -> Result<Ask, Error> {
        let cut = |_| malformed("cut");
        let mut input = ByteReader::new(bytes);
        let kind = input.u8().map_err(cut)?;
        let command = |input: &mut ByteReader<'_>| {
            let rest = input.bytes(input.remaining()).map_err(cut)?;
            let command = ReadCommand::decode(rest).map_err(|error| malformed(&error.to_string()))?;
            key_of(&command)?;
            Ok(command)
        };
        match kind {
            1 => {
                let ballot = Ballot::from_bytes(input.array().map_err(cut)?);
                Ok(Ask::Prepare { ballot, command: command(&mut input)? })
            }
            2 => Ok(Ask::Look { command: command(&mut input)? }),
            3 | 4 => {
                let ballot = Ballot::from_bytes(input.array().map_err(cut)?);
                let table = TableId(u128::from_be_bytes(input.array().map_err(cut)?));
                let length = input.u32().map_err(cut)? as usize;
                let key = Key::new(input.bytes(length).map_err(cut)?);
                let expected = match kind {
                    4 => Some(Ballot::from_bytes(input.array().map_err(cut)?)),
                    _ => None,
                };
                let proposal = Proposal::decode(input.bytes(input.remaining()).map_err(cut)?)?;
                Ok(match expected {
                    Some(expected) => Ask::Swap { table, key, expected, ballot, proposal },
                    None => Ask::Accept { table, key, ballot, proposal },
                })
            }
            _ => Err(malformed("unknown kind")),
        }
    }
}

impl Promise {
    /// What a state says, with rows that were read behind it.
    pub fn of(state: State, rows: ReadAnswer) -> Promise {
        let (newest, open, committed) = (state.newest(), state.open(), state.committed);
        let (committed_proposal, floor) = (state.committed_proposal, state.floor);
        let accepted = state.accepted.filter(|(ballot, _)| ballot.is_later_than(committed));
        Promise { newest, open, accepted, committed, committed_proposal, floor, rows }
    }
}

fn put_head(kind: u8, ballot: Ballot, table: TableId, key: &Key, out: &mut Vec<u8>) {
    out.push(kind);
    out.extend_from_slice(&ballot.to_bytes());
    out.extend_from_slice(&table.0.to_be_bytes());
    out.extend_from_slice(&(key.bytes.len() as u32).to_be_bytes());
    out.extend_from_slice(&key.bytes);
}

fn put_proposal(proposal: Option<&Proposal>, out: &mut Vec<u8>) {
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    if let Some(proposal) = proposal {
        proposal.encode_to(out);
    }
    let length = (out.len() - at - 4) as u32;
    out[at..at + 4].copy_from_slice(&length.to_be_bytes());
}

fn proposal(input: &mut ByteReader<'_>) -> Result<Option<Proposal>, Error> {
    let cut = |_| malformed("a reply is cut");
    match input.u32().map_err(cut)? {
        0 => Ok(None),
        length => Proposal::decode(input.bytes(length as usize).map_err(cut)?).map(Some),
    }
}

impl Reply {
    /// Appends it as bytes.
    pub fn encode_to(&self, out: &mut Vec<u8>) {
        match self {
            Reply::Promise(promise) => {
                if promise.floor.is_none() {
                    out.push(1);
                } else {
                    out.push(4);
                    out.extend_from_slice(&promise.floor.micros().to_be_bytes());
                }
                let accepted = promise.accepted.as_ref();
                let ballots = [
                    promise.newest,
                    promise.open.unwrap_or_default(),
                    promise.committed,
                    accepted.map(|(ballot, _)| *ballot).unwrap_or_default(),
                ];
                for ballot in ballots {
                    out.extend_from_slice(&ballot.to_bytes());
                }
                put_proposal(accepted.map(|(_, proposal)| proposal), out);
                put_proposal(promise.committed_proposal.as_ref(), out);
                promise.rows.encode(out);
            }
            Reply::Accepted => out.push(2),
            Reply::Refused(ballot) => {
                out.push(3);
                out.extend_from_slice(&ballot.to_bytes());
            }
        }
    }

    /// Reads what [`Reply::encode_to`] wrote.
    pub fn decode(bytes: &[u8]) -> Result<Reply, Error> {
        let cut = |_| malformed("a reply is cut");
        let mut input = ByteReader::new(bytes);
        match input.u8().map_err(cut)? {
            kind @ (1 | 4) => {
                let floor = match kind {
                    4 => Ballot::floor(input.i64().map_err(cut)?),
                    _ => Ballot::NONE,
                };
                let mut ballot = || Ok(Ballot::from_bytes(input.array().map_err(cut)?));
                let (newest, open): (Ballot, Ballot) = (ballot()?, ballot()?);
                let (committed, accepted): (Ballot, Ballot) = (ballot()?, ballot()?);
                let accepted_proposal = proposal(&mut input)?;
                let committed_proposal = proposal(&mut input)?;
                let rest = input.bytes(input.remaining()).map_err(cut)?;
                let rows = ReadAnswer::decode(rest).map_err(|error| malformed(&error.to_string()))?;
                Ok(Reply::Promise(Box::new(Promise {
                    newest,
                    open: (!open.is_none()).then_some(open),
                    accepted: accepted_proposal.map(|proposal| (accepted, proposal)),
                    committed,
                    committed_proposal,
                    floor,
                    rows,
                })))
            }
            2 => Ok(Reply::Accepted),
            3 => Ok(Reply::Refused(Ballot::from_bytes(input.array().map_err(cut)?))),
            _ => Err(malformed("a reply of unknown kind")),
        }
    }
}
