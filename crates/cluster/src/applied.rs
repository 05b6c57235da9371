//! What this node has applied of the cluster's log, on disk: state and position in one record.
//!
//! ```text
//! journal "group0.applied"      u8 1 state   position   the state's bytes        the first record, and after a snapshot
//!                               u8 2 entry   position   the command's bytes      what was applied to it
//!                               u8 3 starts  u64                                 how often this folder was started, the last one counts
//!                               u8 4 asked   u128                                the cluster that this node has asked to take it
//! ```
//! Big endian; kinds are only ever added. A record is durable before anything that follows from it is done.

use crate::Error;
use group0::State;
use journal::Journal;
use raft::Position;
use std::path::Path;
use topology::Version;

/// Entries after which the journal is written anew as one state: replay stays short, writing anew stays rare.
const ENTRIES_MAX: usize = 512;

const STATE: u8 = 1;
const ENTRY: u8 = 2;
const STARTS: u8 = 3;
const ASKED: u8 = 4;

/// The journal. Owned by shard 0.
pub(crate) struct Applied {
    journal: Journal,
    entries: usize,
    starts: u64,
    asked: Option<u128>,
}

/// What a journal said.
pub(crate) struct Known {
    pub(crate) state: State,
    pub(crate) position: Option<Position>,
    pub(crate) asked: Option<u128>,
}

/// The version of the state that has applied everything up to a position.
pub(crate) fn version_of(at: Position) -> Version {
    Version { epoch: at.epoch, index: at.index }
}

impl Applied {
    /// Opens or makes the journal, and counts this start.
    pub(crate) async fn open(path: &Path) -> Result<(Applied, Known), Error> {
        let (mut journal, records) = Journal::open(path).await?;
        let mut known = Known { state: State::default(), position: None, asked: None };
        let (mut entries, mut starts) = (0, 0);
        for (index, record) in records.iter().enumerate() {
            let bad = |reason: String| Error::Applied { index, reason };
            let (kind, rest) = record.split_first().ok_or_else(|| bad("it is empty".into()))?;
            if *kind == STARTS {
                let bytes: [u8; 8] = rest.try_into().map_err(|_| bad("it is cut short".into()))?;
                starts = u64::from_be_bytes(bytes);
                continue;
            }
            if *kind == ASKED {
                let bytes: [u8; 16] = rest.try_into().map_err(|_| bad("it is cut short".into()))?;
                known.asked = Some(u128::from_be_bytes(bytes));
                continue;
            }
            let (at, payload) =
                rest.split_at_checked(Position::BYTES).ok_or_else(|| bad("it is cut short".into()))?;
            let at = Position::from_bytes(at).map_err(|error| bad(error.to_string()))?;
            match *kind {
                STATE => {
                    known.state = State::decode(payload).map_err(|error| bad(error.to_string()))?;
                    entries = 0;
                }
                ENTRY => {
                    let applied = known.state.apply_entry(version_of(at), payload);
                    known.state = applied.map_err(|error| bad(error.to_string()))?.0;
                    entries += 1;
                }
                other => return Err(bad(format!("it is of kind {other}, which a later release wrote"))),
            }
            known.position = Some(at);
        }
        starts += 1;
        journal.append(&starts_record(starts)).await?;
        let asked = known.asked;
        Ok((Applied { journal, entries, starts, asked }, known))
    }

    /// How often this folder was started, this time included.
    pub(crate) fn starts(&self) -> u64 {
        self.starts
    }

    /// Makes an applied command durable; `state` is what it made.
    pub(crate) async fn append(&mut self, at: Position, command: &[u8], state: &State) -> Result<(), Error> {
        if self.entries >= ENTRIES_MAX || self.journal.failed() {
            return self.replace(at, state).await;
        }
        self.journal.append(&record(ENTRY, at, command)).await?;
        self.entries += 1;
        Ok(())
    }

    /// Makes durable which cluster this node has asked to take it.
    pub(crate) async fn note_asked(&mut self, cluster: u128) -> Result<(), Error> {
        if self.asked != Some(cluster) {
            self.journal.append(&asked_record(cluster)).await?;
            self.asked = Some(cluster);
        }
        Ok(())
    }

    /// Makes a whole state durable.
    pub(crate) async fn replace(&mut self, at: Position, state: &State) -> Result<(), Error> {
        let mut records = vec![starts_record(self.starts), record(STATE, at, &state.encode())];
        records.extend(self.asked.map(asked_record));
        self.journal.rewrite(&records).await?;
        self.entries = 0;
        Ok(())
    }
}

fn asked_record(cluster: u128) -> Vec<u8> {
    let mut record = vec![ASKED];
    record.extend_from_slice(&cluster.to_be_bytes());
    record
}

fn starts_record(starts: u64) -> Vec<u8> {
    let mut record = vec![STARTS];
    record.extend_from_slice(&starts.to_be_bytes());
    record
}

fn record(kind: u8, at: Position, payload: &[u8]) -> Vec<u8> {
    let mut record = Vec::with_capacity(1 + Position::BYTES + payload.len());
    record.push(kind);
    record.extend_from_slice(&at.to_bytes());
    record.extend_from_slice(payload);
    record
}
