//! What members applied and what clients saw, and what of it may not be.

use std::collections::{BTreeMap, BTreeSet};

use base::{HostId, Instant};
use raft::Position;

/// What every member has applied, by index; a second, different command at one index is a violation.
#[derive(Default)]
pub(super) struct Applied {
    pub(super) commands: BTreeMap<u64, (u64, u64)>,
    pub(super) violation: Option<String>,
}

impl Applied {
    pub(super) fn apply(&mut self, member: HostId, at: Position, command: u64) {
        let Position { index, term, .. } = at;
        let known = *self.commands.entry(index).or_insert((term, command));
        if known != (term, command) && self.violation.is_none() {
            self.violation = Some(format!(
                "member {member} applied {command} of term {term} at index {index}, another applied {} of term {}",
                known.1, known.0
            ));
        }
    }
}

/// What the clients saw.
#[derive(Default)]
pub(super) struct History {
    pub(super) next: u64,
    /// Commands and when they were acknowledged, if they were.
    pub(super) written: BTreeMap<u64, Option<Instant>>,
    /// The longest list any finished read has seen, and when that read ended.
    pub(super) longest: Vec<u64>,
    pub(super) violation: Option<String>,
    /// Commands that were said not to be done.
    pub(super) refused: BTreeSet<u64>,
    pub(super) acknowledged: u64,
    pub(super) reads: u64,
    /// Times a member took entries from one that need not lead.
    pub(super) pulled: u64,
}

impl History {
    pub(super) fn check(&self, start: Instant, before: &[u64], list: &[u64]) -> Result<(), String> {
        if !list.starts_with(before) {
            return Err(format!(
                "a read of {} commands does not extend an earlier one of {}",
                list.len(),
                before.len()
            ));
        }
        let mut seen = BTreeSet::new();
        for command in list {
            if !self.written.contains_key(command) {
                return Err(format!("command {command} was never written"));
            }
            if self.refused.contains(command) {
                return Err(format!("command {command} was said not to be done and was applied"));
            }
            if !seen.insert(*command) {
                return Err(format!("command {command} was applied twice"));
            }
        }
        let missing =
            self.written.iter().find(|(c, at)| at.is_some_and(|at| at < start) && !seen.contains(c));
        match missing {
            Some((command, _)) => {
                Err(format!("command {command} was acknowledged and is not in a later read"))
            }
            None => Ok(()),
        }
    }
}
