//! The state of a partition as a row of `system.paxos`.
//!
//! The partition key of the row is that of the partition, so that both belong to one shard and are written in one entry of its log; the clustering key is the
//! table's id. Every cell has the time of the ballot it speaks of: rows merge as states do, and what comes late loses.

use crate::{Ballot, Error, Proposal, State};
use mutation::{
    Cell, ColumnView, Deletion, Key, Liveness, Mutation, MutationBuilder, ReadAnswer, ReadCommand, RowView,
    RowWriter, Scope, Slice, TokenRange,
};
use schema::{Order, Table, TableBuilder, TableId, clustering_components, push_component};
use std::sync::Arc;
use types::CqlType;

/// `system.paxos`: the id that Cassandra gives it.
pub const TABLE: TableId = TableId(0xb7b7_f0c2_fd0a_3410_8c05_3ef6_14bb_7c2d);

/// Where a node keeps its floor: the promise of a partition of no table.
const FLOOR: (TableId, &[u8]) = (TableId(0), b"floor");

/// Columns of `system.paxos`, in the order of their names. On disk.
const PROMISED: u16 = 0;
const RELEASED: u16 = 1;
const COMMIT: u16 = 2;
const COMMITTED: u16 = 3;
const PROPOSAL: u16 = 5;
const ACCEPTED: u16 = 6;

/// Makes and reads rows of the table that holds states.
#[derive(Clone)]
pub struct Records {
    table: Arc<Table>,
}

impl Default for Records {
    fn default() -> Records {
        Records::new()
    }
}

impl Records {
    /// Knows how rows of the table are found.
    pub fn new() -> Records {
        let table = TableBuilder::new("system", "paxos", TABLE)
            .partition_key("row_key", CqlType::Blob)
            .clustering("cf_id", CqlType::Uuid, Order::Ascending)
            .build()
            .expect("a constant, and the tests build it");
        Records { table: Arc::new(table) }
    }

    /// What to read for the state of a partition.
    pub fn command(&self, table: TableId, key: &Key, now_s: u32) -> ReadCommand {
        let start = self.table.position(&clustering(table)).expect("one UUID");
        let end = start.successor();
        let scope = Scope::Keys(std::iter::once(key.clone()).collect());
        let everything = ReadCommand::everything(self.table.id, scope, now_s);
        ReadCommand { slices: std::iter::once(Slice { start, end }).collect(), ..everything }
    }

    /// The state in what [`Records::command`] has read. Errors: the row is not one that was written here.
    pub fn state(answer: &ReadAnswer) -> Result<State, Error> {
        let mut state = State::default();
        for partition in &answer.partitions {
            if let Some((_, body)) = partition.view().rows().next() {
                state = state_of(&RowView::new(body))?;
            }
        }
        Ok(state)
    }

    /// What to read for the floor of a node.
    pub fn floor_command(&self, now_s: u32) -> ReadCommand {
        self.command(FLOOR.0, &Key::new(FLOOR.1), now_s)
    }

    /// A floor.
    pub fn floor(&self, floor: Ballot) -> Mutation {
        self.promised(FLOOR.0, &Key::new(FLOOR.1), floor)
    }

    /// The floor in what [`Records::floor_command`] has read. Errors: as of [`Records::state`].
    pub fn floor_in(answer: &ReadAnswer) -> Result<Ballot, Error> {
        Ok(Records::state(answer)?.promised)
    }

    /// That a partition is at rest everywhere, up to a round: all that is known of it up to that one is forgotten.
    pub fn swept(&self, table: TableId, key: &Key, last: Ballot) -> Mutation {
        let local_time = (last.micros() / 1_000_000) as u32;
        let deletion = Deletion { timestamp: last.micros(), local_time };
        let mut builder = MutationBuilder::new(self.table.id, key.token, &key.bytes);
        builder.write_row(&clustering(table), Liveness::NONE, deletion, |_| {});
        builder.finish()
    }

    /// What to read for the states of all partitions in a range.
    pub fn all(range: TokenRange, now_s: u32) -> ReadCommand {
        ReadCommand::everything(TABLE, Scope::Range(range), now_s)
    }

    /// The states in what [`Records::all`] has read, with the table and the partition of each. The floor is none of them.
    /// Errors: a row is not one that was written here.
    pub fn states(answer: &ReadAnswer) -> Result<Vec<(TableId, Key, State)>, Error> {
        let mut states = Vec::new();
        for partition in &answer.partitions {
            let view = partition.view();
            for (clustering, body) in view.rows() {
                let id = clustering_components(clustering).next().and_then(Result::ok).flatten();
                let Some(id) = id.and_then(|id| <[u8; 16]>::try_from(id).ok()) else {
                    return Err(Error::Malformed("the id of a table is no UUID".into()));
                };
                let table = TableId(u128::from_be_bytes(id));
                if table == FLOOR.0 {
                    continue;
                }
                states.push((table, Key::new(view.key), state_of(&RowView::new(body))?));
            }
        }
        Ok(states)
    }

    /// What a new holder must know of the state of another: what was promised and committed. Not what was accepted: it has not accepted it.
    pub fn known(&self, table: TableId, key: &Key, state: &State) -> Mutation {
        self.row(table, key, |row| {
            for (column, ballot) in [(PROMISED, state.promised), (RELEASED, state.released)] {
                if !ballot.is_none() {
                    put(row, column, ballot, &ballot.to_bytes());
                }
            }
            if !state.committed.is_none() {
                if let Some(proposal) = &state.committed_proposal {
                    put(row, COMMIT, state.committed, &proposal.encode());
                }
                put(row, COMMITTED, state.committed, &state.committed.to_bytes());
            }
        })
    }

    /// A promise.
    pub fn promised(&self, table: TableId, key: &Key, ballot: Ballot) -> Mutation {
        self.row(table, key, |row| put(row, PROMISED, ballot, &ballot.to_bytes()))
    }

    /// What was accepted.
    pub fn accepted(&self, table: TableId, key: &Key, ballot: Ballot, proposal: &Proposal) -> Mutation {
        let id = ballot.to_bytes();
        self.row(table, key, |row| {
            put(row, PROMISED, ballot, &id);
            put(row, PROPOSAL, ballot, &proposal.encode());
            put(row, ACCEPTED, ballot, &id);
        })
    }

    /// That a round is committed, with what it proposed for a replica that has not accepted it.
    pub fn committed(
        &self,
        table: TableId,
        key: &Key,
        ballot: Ballot,
        proposal: Option<&Proposal>,
    ) -> Mutation {
        self.row(table, key, |row| {
            if let Some(proposal) = proposal {
                put(row, COMMIT, ballot, &proposal.encode());
            }
            put(row, COMMITTED, ballot, &ballot.to_bytes());
        })
    }

    /// That a round was given up before it proposed.
    pub fn released(&self, table: TableId, key: &Key, ballot: Ballot) -> Mutation {
        self.row(table, key, |row| put(row, RELEASED, ballot, &ballot.to_bytes()))
    }

    /// That every holder has committed a round: what was proposed up to it is forgotten, its ballots stay.
    pub fn pruned(&self, table: TableId, key: &Key, ballot: Ballot) -> Mutation {
        let gone = Cell::tombstone(ballot.micros(), (ballot.micros() / 1_000_000) as u32);
        self.row(table, key, |row| {
            row.simple(COMMIT, gone);
            row.simple(PROPOSAL, gone);
        })
    }

    fn row(&self, table: TableId, key: &Key, write: impl FnOnce(&mut RowWriter<'_>)) -> Mutation {
        let mut builder = MutationBuilder::new(self.table.id, key.token, &key.bytes);
        builder.write_row(&clustering(table), Liveness::NONE, Deletion::LIVE, write);
        builder.finish()
    }
}

fn clustering(table: TableId) -> Vec<u8> {
    let mut wire = Vec::with_capacity(20);
    push_component(&mut wire, Some(&table.0.to_be_bytes()));
    wire
}

fn put(row: &mut RowWriter<'_>, column: u16, ballot: Ballot, value: &[u8]) {
    row.simple(column, Cell::live(ballot.micros(), value));
}

fn state_of(row: &RowView<'_>) -> Result<State, Error> {
    let value = |column| match row.column(column) {
        Some(ColumnView::Simple(cell)) if !cell.is_tombstone() => cell.value,
        _ => None,
    };
    let ballot = |column| match value(column) {
        Some(bytes) => {
            let bytes = bytes.try_into().map_err(|_| Error::Malformed("a ballot is no UUID".into()))?;
            Ok(Ballot::from_bytes(bytes))
        }
        None => Ok(Ballot::NONE),
    };
    let proposal = |column| value(column).map(Proposal::decode).transpose();
    let accepted = match (ballot(ACCEPTED)?, proposal(PROPOSAL)?) {
        (accepted, Some(proposal)) if !accepted.is_none() => Some((accepted, proposal)),
        _ => None,
    };
    let committed = ballot(COMMITTED)?;
    let committed_proposal = match &accepted {
        Some((ballot, proposal)) if *ballot == committed => Some(proposal.clone()),
        _ => proposal(COMMIT)?,
    };
    let promised = ballot(PROMISED)?.max(ballot(ACCEPTED)?);
    let (released, floor) = (ballot(RELEASED)?, Ballot::NONE);
    Ok(State { promised, released, accepted, committed, committed_proposal, floor })
}
