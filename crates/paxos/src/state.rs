//! One partition at one acceptor.
//!
//! ```text
//! Prepare b ─▶ promised = b                    refused, unless b is later than all that was promised and committed
//! Accept b  ─▶ promised = b, accepted = b      refused, if a later round was promised or committed
//! Commit b  ─▶ committed = b                   never refused
//! Release b ─▶ promised = b is no longer open  its proposer has given it up before it proposed
//! ```
//! Whoever changes a state makes it durable before it answers.
//!
//! A node takes part in no round up to its floor, of any partition: that stands in for the ballots of partitions that were swept.

use crate::{Ballot, Proposal};

/// What an acceptor knows of a partition.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct State {
    /// No round that is not later than this begins any more.
    pub promised: Ballot,
    /// The promised round that its proposer has given up.
    pub released: Ballot,
    /// What was accepted last, and in which round.
    pub accepted: Option<(Ballot, Proposal)>,
    /// The newest round that is known to be committed.
    pub committed: Ballot,
    /// What was committed in it, unless it is forgotten.
    pub committed_proposal: Option<Proposal>,
    /// That of the acceptor: no round that is not later than this begins or goes on. Not a part of the row.
    pub floor: Ballot,
}

/// A round comes too late: a round of this time was promised or committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Superseded(pub Ballot);

impl State {
    /// The newest round that was promised or committed, or the floor.
    pub fn newest(&self) -> Ballot {
        self.promised.max(self.committed).max(self.floor)
    }

    /// The newest round that any of it is about.
    pub fn last(&self) -> Ballot {
        let accepted = self.accepted.as_ref().map_or(Ballot::NONE, |(ballot, _)| *ballot);
        self.promised.max(self.committed).max(self.released).max(accepted)
    }

    /// The newest round that may have proposed something and is not known to be committed: one that was accepted, or promised and not given up.
    pub fn open(&self) -> Option<Ballot> {
        let accepted = self.pending().map(|(ballot, _)| *ballot);
        let promised = (self.promised != self.released && self.promised.is_later_than(self.committed))
            .then_some(self.promised);
        accepted.max(promised)
    }

    /// What was accepted and is not known to be committed.
    pub fn pending(&self) -> Option<&(Ballot, Proposal)> {
        self.accepted.as_ref().filter(|(ballot, _)| ballot.is_later_than(self.committed))
    }

    /// Promises a round.
    pub fn prepare(&mut self, ballot: Ballot) -> Result<(), Superseded> {
        let newest = self.newest();
        if !ballot.is_later_than(newest) {
            return Err(Superseded(newest));
        }
        self.promised = ballot;
        Ok(())
    }

    /// Accepts what a round proposes.
    pub fn accept(&mut self, ballot: Ballot, proposal: Proposal) -> Result<(), Superseded> {
        let newest = self.newest();
        if ballot != newest && !ballot.is_later_than(newest) {
            return Err(Superseded(newest));
        }
        self.promised = ballot;
        self.accepted = Some((ballot, proposal));
        Ok(())
    }

    /// Learns that a round is committed. `false`: a newer one is known already.
    pub fn commit(&mut self, ballot: Ballot, proposal: Option<Proposal>) -> bool {
        if ballot <= self.committed {
            return false;
        }
        self.committed = ballot;
        self.promised = self.promised.max(ballot);
        self.committed_proposal = match &self.accepted {
            Some((accepted, proposal)) if *accepted == ballot => Some(proposal.clone()),
            _ => proposal,
        };
        true
    }

    /// Learns that a round was given up before it proposed. `false`: it is not the last that was promised.
    pub fn release(&mut self, ballot: Ballot) -> bool {
        let last = self.promised == ballot && self.released != ballot;
        if last {
            self.released = ballot;
        }
        last
    }

    /// Forgets what was accepted, because the table was truncated since: it is nothing now. Its round stays.
    pub fn truncate_accepted(&mut self) {
        if let Some((_, proposal)) = &mut self.accepted {
            proposal.mutation = None;
        }
    }

    /// The same of what was committed.
    pub fn truncate_committed(&mut self) {
        if let Some(proposal) = &mut self.committed_proposal {
            proposal.mutation = None;
        }
    }

    /// Forgets what was proposed up to a round that every holder has committed.
    pub fn prune(&mut self, ballot: Ballot) {
        if self.committed < ballot {
            return;
        }
        self.accepted.take_if(|(accepted, _)| *accepted <= ballot);
        if self.committed <= ballot {
            self.committed_proposal = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Planned;

    fn ballot(micros: i64) -> Ballot {
        Ballot::new(micros, 1)
    }

    fn nothing(micros: i64) -> Proposal {
        Proposal { origin: ballot(micros), planned: Planned { on: (0, 0), at: micros }, mutation: None }
    }

    #[test]
    fn a_round_is_promised_only_behind_all_others() {
        let mut state = State::default();
        assert_eq!(state.prepare(ballot(5)), Ok(()));
        assert_eq!(state.prepare(ballot(5)), Err(Superseded(ballot(5))), "the same again");
        assert_eq!(
            state.prepare(Ballot::new(5, 9)),
            Err(Superseded(ballot(5))),
            "another one of the same time"
        );
        assert_eq!(state.prepare(ballot(4)), Err(Superseded(ballot(5))));
        assert!(state.commit(ballot(9), None));
        assert_eq!(state.prepare(ballot(7)), Err(Superseded(ballot(9))), "committed fences as well");
        assert_eq!(state.prepare(ballot(10)), Ok(()));
    }

    #[test]
    fn what_was_fenced_is_not_accepted() {
        let mut state = State::default();
        state.prepare(ballot(5)).unwrap();
        assert!(state.accept(Ballot::new(5, 9), nothing(5)).is_err(), "another proposer's of the same time");
        assert!(state.accept(ballot(4), nothing(4)).is_err());
        assert_eq!(state.accept(ballot(5), nothing(5)), Ok(()));
        assert_eq!(
            state.accept(ballot(8), nothing(8)),
            Ok(()),
            "without a promise here, with those of a quorum"
        );
        assert_eq!(state.pending().map(|(ballot, _)| *ballot), Some(ballot(8)));
        assert!(state.commit(ballot(8), None));
        assert_eq!(state.pending(), None);
        assert_eq!(state.committed_proposal, Some(nothing(8)), "taken from what was accepted");
        assert!(state.accept(ballot(7), nothing(7)).is_err());
    }

    #[test]
    fn nothing_begins_or_goes_on_at_a_floor_and_what_was_accepted_below_it_stays_to_be_finished() {
        let mut state = State::default();
        state.prepare(ballot(5)).unwrap();
        state.floor = ballot(7);
        assert_eq!(state.newest(), ballot(7));
        assert_eq!(state.accept(ballot(5), nothing(5)), Err(Superseded(ballot(7))), "it was promised before");
        assert_eq!(state.prepare(ballot(7)), Err(Superseded(ballot(7))));
        assert_eq!(state.open(), Some(ballot(5)), "elsewhere it may go on");
        assert_eq!(state.prepare(ballot(8)), Ok(()));
        let mut state = State { floor: ballot(7), ..State::default() };
        state.accepted = Some((ballot(5), nothing(5)));
        assert_eq!(state.pending().map(|(ballot, _)| *ballot), Some(ballot(5)));
        assert_eq!(state.last(), ballot(5), "of the row alone");
    }

    #[test]
    fn open_is_what_may_still_propose() {
        let mut state = State::default();
        assert_eq!(state.open(), None);
        state.prepare(ballot(5)).unwrap();
        assert_eq!(state.open(), Some(ballot(5)));
        assert!(!state.release(ballot(4)), "not the last");
        assert!(state.release(ballot(5)));
        assert_eq!(state.open(), None);
        assert!(state.accept(ballot(4), nothing(4)).is_err(), "a fence stays one");
        state.prepare(ballot(6)).unwrap();
        assert_eq!(state.open(), Some(ballot(6)));
        state.commit(ballot(6), Some(nothing(6)));
        assert_eq!(state.open(), None);
    }

    #[test]
    fn pruning_keeps_ballots_and_what_is_newer() {
        let mut state = State::default();
        state.accept(ballot(5), nothing(5)).unwrap();
        state.prune(ballot(5));
        assert!(state.accepted.is_some(), "not committed here");
        state.commit(ballot(5), None);
        state.accept(ballot(8), nothing(8)).unwrap();
        state.prune(ballot(5));
        assert_eq!(state.accepted.as_ref().map(|(ballot, _)| *ballot), Some(ballot(8)));
        assert_eq!((state.committed, state.committed_proposal.clone()), (ballot(5), None));
        assert!(state.accept(ballot(4), nothing(4)).is_err());
    }
}
