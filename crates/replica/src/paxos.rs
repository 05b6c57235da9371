//! This shard as an acceptor of lightweight transactions: loads the state of a partition, decides, makes the change durable, reads, answers. One message
//! of a partition at a time; the rules are in the crate `paxos`, and why they hold in `docs/mechanisms/paxos.md`.

use crate::Error;
use crate::shard::Shard;
use mutation::{Key, ReadAnswer};
use paxos::{Ask, Ballot, Promise, Records, Reply, State, Superseded};
use runtime::Bug;
use schema::TableId;
use std::time::Duration;
use storage::{Durability, Planned, Point};

/// Rounds further ahead of this node's clock are refused: a partition would be closed until then. Twice what the clocks of two nodes that talk to each other
/// may be apart.
const AHEAD_MAX: Duration = Duration::from_secs(10);
/// A round this much later than the newest one of its partition only follows it, in microseconds.
const FOLLOWS_MICROS: i64 = 1_000;

impl Shard {
    /// Answers a message of a lightweight transaction about a partition of this shard.
    /// `on`: what its sender knew of the cluster when it planned it.
    /// Errors: nothing is promised or accepted, as far as this node will say after a restart; [`Error::Overtaken`] when the table was truncated since.
    pub async fn paxos(&self, ask: Ask, on: Point) -> Result<Reply, Error> {
        let whose = ask.key().clone();
        let place = self.turns().place(ask.table(), whose.clone());
        let _held = place.lock().lock().await;
        let _at_work = self.floor().begin();
        match ask {
            Ask::Prepare { ballot, command } => {
                let before = self.paxos_state(command.table, &whose).await?;
                refuse_far_ahead(ballot, before.newest(), before.floor)?;
                let mut state = before.clone();
                if let Err(Superseded(newest)) = state.prepare(ballot) {
                    return Ok(Reply::Refused(newest));
                }
                let promise = self.records().promised(command.table, &whose, ballot);
                self.store().apply_planned(vec![promise], durability(), on).await?;
                let rows = self.read(&command).await?;
                Ok(promise_of(before, rows))
            }
            Ask::Look { command } => {
                let state = self.paxos_state(command.table, &whose).await?;
                let rows = self.read(&command).await?;
                Ok(promise_of(state, rows))
            }
            Ask::Accept { table, key, ballot, proposal } => {
                let mut state = self.paxos_state(table, &key).await?;
                let accepted = self.records().accepted(table, &key, ballot, &proposal);
                let (planned, newest, floor) = (proposal.planned, state.newest(), state.floor);
                let refused = state.accept(ballot, proposal);
                if let Err(Superseded(newest)) = refused
                    && !runtime::planted(Bug::AcceptUnfenced)
                {
                    return Ok(Reply::Refused(newest));
                }
                if ballot != newest {
                    refuse_far_ahead(ballot, newest, floor)?;
                }
                self.refuse_overtaken(table, planned, on).await?;
                self.store().apply_planned(vec![accepted], durability(), on).await?;
                Ok(Reply::Accepted)
            }
            Ask::Swap { table, key, expected, ballot, proposal } => {
                let state = self.paxos_state(table, &key).await?;
                let newest = state.newest();
                if newest != expected || !ballot.is_later_than(newest) {
                    return Ok(Reply::Refused(newest));
                }
                refuse_far_ahead(ballot, newest, state.floor)?;
                self.refuse_overtaken(table, proposal.planned, on).await?;
                let committed = self.records().committed(table, &key, ballot, None);
                let together = proposal.mutation.into_iter().chain([committed]).collect();
                self.store().apply_planned(together, Durability::Synced, on).await?;
                Ok(Reply::Accepted)
            }
        }
    }

    /// ⚔ Errors: what is proposed was planned before the table was truncated.
    async fn refuse_overtaken(
        &self,
        table: TableId,
        planned: paxos::Planned,
        on: Point,
    ) -> Result<(), Error> {
        match self.store().is_overtaken(table, planned_of(planned)).await {
            true => Err(Error::Overtaken(on.1)),
            false => Ok(()),
        }
    }

    /// The state of a partition. ⚔ What was proposed before a truncation of its table is not in it.
    async fn paxos_state(&self, table: TableId, key: &Key) -> Result<State, Error> {
        let now_s = runtime::unix_seconds();
        let command = self.records().command(table, key, now_s);
        let answer = match self.store().read_now(&command) {
            Some((answer, _)) => answer,
            None => self.read(&command).await?,
        };
        let mut state = Records::state(&answer).map_err(|error| Error::Failed(error.to_string()))?;
        state.floor = self.floor().at();
        if let Some((_, proposal)) = &state.accepted
            && self.store().is_overtaken(table, planned_of(proposal.planned)).await
        {
            state.truncate_accepted();
        }
        if let Some(proposal) = &state.committed_proposal
            && self.store().is_overtaken(table, planned_of(proposal.planned)).await
        {
            state.truncate_committed();
        }
        Ok(state)
    }
}

/// ⚔ A round far ahead of this node's clock would close the partition until then. One that only follows what the partition has is let in, or it would be closed
/// when clocks go back; so are those that follow the floor, which all partitions have.
fn refuse_far_ahead(ballot: Ballot, newest: Ballot, floor: Ballot) -> Result<(), Error> {
    let limit = runtime::unix_micros().max(floor.micros()) + AHEAD_MAX.as_micros() as i64;
    let follows = newest.micros().saturating_add(FOLLOWS_MICROS);
    if limit.max(follows) < ballot.micros() {
        return Err(Error::Refused("the clock of the coordinator is too far ahead".into()));
    }
    Ok(())
}

/// ⚔ Whatever the table's mode: what is promised and accepted outlives a loss of power.
fn durability() -> Durability {
    if runtime::planted(Bug::PromiseNotDurable) { Durability::Mode } else { Durability::Synced }
}

/// When a proposal was planned, as stores compare it.
pub fn planned_of(planned: paxos::Planned) -> Planned {
    Planned { on: Point(planned.on.0, planned.on.1), at: planned.at }
}

fn promise_of(state: State, rows: ReadAnswer) -> Reply {
    Reply::Promise(Box::new(Promise::of(state, rows)))
}
