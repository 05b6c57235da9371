//! What each command does to the state.
//!
//! ```text
//!   an entry: applied before? ─▶ id remembered? ─▶ every member has the features? ─▶ kind known? ─▶ base not moved? ─▶ allowed? ─▶ done
//! ```
//! Each step depends on the state and the bytes alone, so that all nodes take the same. Only "kind known" depends on the release of the
//! node, and it stops the node.

mod members;
mod roles;
mod schema;

use crate::{Change, Command, Header, Outcome, State, Stop, Truncation};
use ::schema::TableId;
use std::sync::Arc;
use topology::Version;

pub use members::removal_refusal;

/// Why something may not be.
pub(crate) struct Refusal(String);

pub(crate) fn refuse<T>(text: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal(text.into()))
}

impl State {
    /// Applies an entry of the log. The answer goes to the proposer, as [`Outcome::encode`] gives it.
    /// Errors: the node cannot know what the others did with it and must stop.
    pub fn apply_entry(&self, version: Version, bytes: &[u8]) -> Result<(State, Outcome), Stop> {
        let stop = |source| Stop { version, source };
        let header = Header::decode(bytes).map_err(stop)?;
        if let Some(known) = self.known(version, header.id) {
            return Ok(known);
        }
        // Before the body is read: this is what a node says whose release knows nothing of the kind.
        if let Some(refusal) = self.lacking(header.needs) {
            return Ok(self.remember(version, header.id, Outcome::refused(refusal)));
        }
        match Command::decode(bytes) {
            Ok(command) => Ok(self.apply(version, &command)),
            Err(error) => Err(stop(error)),
        }
    }

    /// Applies a command that is known here. Total: whatever is wrong with it ends as an [`Outcome`].
    pub fn apply(&self, version: Version, command: &Command) -> (State, Outcome) {
        if let Some(known) = self.known(version, command.id) {
            return known;
        }
        let needs = command.change.needs();
        if let Some(refusal) = self.lacking(needs) {
            return self.remember(version, command.id, Outcome::refused(refusal));
        }
        if command.base < self.base(command.change.scope()) || self.version < command.base {
            return self.remember(version, command.id, Outcome::Moved);
        }
        let mut next = State { version, ..self.clone() };
        match next.change(&command.change) {
            Ok(()) => {
                next.features |= needs;
                next.remember(version, command.id, Outcome::Done(version))
            }
            Err(Refusal(text)) => self.remember(version, command.id, Outcome::refused(text)),
        }
    }

    /// What to say of an entry that was applied before, or whose command was.
    fn known(&self, version: Version, id: u128) -> Option<(State, Outcome)> {
        let outcome = self.remembered.get(id).cloned();
        if version <= self.version {
            return Some((self.clone(), outcome.unwrap_or(Outcome::Moved)));
        }
        Some((State { version, ..self.clone() }, outcome?))
    }

    fn remember(&self, version: Version, id: u128, outcome: Outcome) -> (State, Outcome) {
        let mut next = State { version, ..self.clone() };
        Arc::make_mut(&mut next.remembered).push(id, outcome.clone());
        (next, outcome)
    }

    /// Who lacks features, in words.
    fn lacking(&self, needs: u64) -> Option<String> {
        let member = self.counted().find(|member| needs & !member.features != 0)?;
        Some(format!(
            "{} ({}) runs release {}, which does not know this: upgrade it first",
            member.broadcast(),
            member.host_id,
            member.release
        ))
    }

    fn change(&mut self, change: &Change) -> Result<(), Refusal> {
        if self.cluster.is_none() && !matches!(change, Change::Found(_)) {
            return refuse("the cluster is not founded yet");
        }
        match change {
            Change::Found(founding) => self.found(founding),
            Change::Schema(changes) => self.change_schema(changes),
            Change::Join(applicant) => self.join(applicant),
            Change::FinishJoin(host) => self.finish_join(*host),
            Change::Replace { old, new } => self.replace(*old, new),
            Change::FinishReplace(host) => self.finish_replace(*host),
            Change::Abort(host) => self.abort(*host),
            Change::Update(updates) => self.update(updates),
            Change::Ban(host) => self.ban(*host),
            Change::Truncate { table, at } => self.truncate(*table, *at),
            Change::Role(change) => self.change_role(change),
        }
    }

    fn truncate(&mut self, table: TableId, at: i64) -> Result<(), Refusal> {
        if self.schema.table_by_id(table).is_none() {
            return refuse(format!("there is no table with id {table}"));
        }
        let before = self.truncation(table).map_or(i64::MIN, |last| last.at);
        let truncation = Truncation { version: self.version, at: at.max(before) };
        Arc::make_mut(&mut self.truncations).insert(table, truncation);
        Ok(())
    }
}
