//! Joining and replacing, driven.

use super::fixture::{Log, applicant, host};
use crate::{Action, Change, Event, Fill, Holdings, Joining};
use base::HostId;
use std::collections::BTreeSet;

fn live(octets: &[u8]) -> BTreeSet<HostId> {
    octets.iter().map(|octet| host(*octet)).collect()
}

const NOTHING: Holdings = Holdings { tables: 0, hints: 0, batches: 0 };

struct Driven {
    log: Log,
    joining: Joining,
    live: BTreeSet<HostId>,
}

impl Driven {
    /// Node 3 joins 1 and 2.
    fn join(fill: Fill) -> Driven {
        let mut log = Log::of(&[2]);
        let mut third = applicant(3);
        third.fill = fill;
        log.done(Change::Join(third));
        let joining = Joining::resume(&log.state).expect("an operation runs");
        Driven { log, joining, live: live(&[1, 2, 3]) }
    }

    fn step(&mut self, event: Event) -> Action {
        self.joining.step(&self.log.state, &self.live, Some(event))
    }

    fn passed(&mut self, octets: &[u8]) -> Action {
        let since = self.joining.operation().since;
        let mut action = Action::Nothing;
        for octet in octets {
            action = self.step(Event::Passed(host(*octet), since));
        }
        action
    }

    fn held(&mut self, octet: u8, holdings: Holdings) -> Action {
        let since = self.joining.operation().since;
        self.step(Event::Held(host(octet), since, holdings))
    }
}

fn finishes(action: &Action, octet: u8) -> bool {
    matches!(action, Action::Propose(Change::FinishJoin(done) | Change::FinishReplace(done), _) if *done == host(octet))
}

fn aborts(action: &Action, octet: u8, text: &str) -> bool {
    matches!(action, Action::Propose(Change::Abort(done), why) if *done == host(octet) && why.contains(text))
}

#[test]
fn a_node_joins_when_all_have_passed_and_nobody_held_anything() {
    let mut driven = Driven::join(Fill::Proven);
    let since = driven.joining.operation().since;
    assert_eq!(driven.passed(&[1]), Action::AskPassed(vec![host(2), host(3)], since));
    assert_eq!(driven.passed(&[2, 3]), Action::AskHoldings(vec![host(1), host(2), host(3)], since));
    driven.held(1, NOTHING);
    assert_eq!(driven.held(3, NOTHING), Action::AskHoldings(vec![host(2)], since));
    let action = driven.held(2, NOTHING);
    assert!(finishes(&action, 3), "{action:?}");
    driven.log.done(Change::FinishJoin(host(3)));
    assert_eq!(driven.passed(&[1]), Action::Nothing);
}

/// ⚔ Abort with a clear text.
#[test]
fn data_anywhere_ends_the_join() {
    for holdings in [
        Holdings { tables: 2, ..NOTHING },
        Holdings { hints: 1, ..NOTHING },
        Holdings { batches: 1, ..NOTHING },
    ] {
        let mut driven = Driven::join(Fill::Proven);
        driven.passed(&[1, 2, 3]);
        let action = driven.held(2, holdings);
        assert!(aborts(&action, 3, "holds data"), "{action:?}");
    }
}

/// ⚔ What was said before the barrier does not count: a request planned before may write behind the answer.
#[test]
fn an_answer_before_the_barrier_is_not_believed() {
    let mut driven = Driven::join(Fill::Proven);
    driven.passed(&[1, 2]);
    for octet in [1, 2, 3] {
        driven.held(octet, NOTHING);
    }
    let since = driven.joining.operation().since;
    assert_eq!(driven.passed(&[3]), Action::AskHoldings(vec![host(1), host(2), host(3)], since));
    // Nor does an answer about another version.
    let other = driven.log.state.version_at(1);
    assert!(
        matches!(driven.step(Event::Held(host(1), other, NOTHING)), Action::AskHoldings(silent, _) if silent.len() == 3)
    );
    assert!(matches!(driven.step(Event::Passed(host(1), other)), Action::AskHoldings(..)));
}

/// ⚔ It may hold rows that the new node would hide; only a ban ends the wait.
#[test]
fn a_member_that_is_down_is_waited_for_until_it_is_banned() {
    let mut driven = Driven::join(Fill::Proven);
    driven.live = live(&[1, 3]);
    let since = driven.joining.operation().since;
    driven.passed(&[1, 3]);
    driven.held(1, NOTHING);
    assert_eq!(driven.held(3, NOTHING), Action::AskHoldings(vec![host(2)], since));
    let mut late = Driven { log: Log { state: driven.log.state.clone(), index: driven.log.index }, ..driven };
    let action = late.step(Event::TimeUp);
    assert!(aborts(&action, 3, &host(2).to_string()), "{action:?}");
    let mut joining = Joining::resume(&late.log.state).expect("it runs");
    late.log.done(Change::Ban(host(2)));
    for octet in [1, 3] {
        joining.step(&late.log.state, &late.live, Some(Event::Passed(host(octet), since)));
    }
    joining.step(&late.log.state, &late.live, Some(Event::Held(host(1), since, NOTHING)));
    let action = joining.step(&late.log.state, &late.live, Some(Event::Held(host(3), since, NOTHING)));
    assert!(finishes(&action, 3), "{action:?}");
}

#[test]
fn without_auto_bootstrap_nothing_is_proven_but_the_barrier_stands() {
    let mut driven = Driven::join(Fill::Skipped);
    assert!(matches!(driven.passed(&[1, 2]), Action::AskPassed(behind, _) if behind == [host(3)]));
    let action = driven.passed(&[3]);
    assert!(finishes(&action, 3), "{action:?}");
}

#[test]
fn another_leader_goes_on_from_the_state_alone() {
    let mut driven = Driven::join(Fill::Proven);
    driven.passed(&[1, 2, 3]);
    driven.held(1, NOTHING);
    let snapshot = crate::State::decode(&driven.log.state.encode()).expect("as written");
    driven.joining = Joining::resume(&snapshot).expect("it runs");
    assert!(matches!(driven.passed(&[1, 2, 3]), Action::AskHoldings(silent, _) if silent.len() == 3));
    for octet in [1, 2] {
        driven.held(octet, NOTHING);
    }
    let action = driven.held(3, NOTHING);
    assert!(finishes(&action, 3), "{action:?}");
}

#[test]
fn a_dead_node_is_replaced_when_its_ranges_were_repaired() {
    let mut log = Log::of(&[2]);
    log.done(Change::Replace { old: host(2), new: applicant(3) });
    let joining = Joining::resume(&log.state).expect("it runs");
    let mut driven = Driven { log, joining, live: live(&[1, 3]) };
    let since = driven.joining.operation().since;
    assert_eq!(driven.passed(&[1]), Action::AskPassed(vec![host(3)], since), "nobody waits for the dead one");
    assert!(matches!(driven.step(Event::Repaired(since)), Action::AskPassed(..)), "not before the barrier");
    assert_eq!(driven.passed(&[3]), Action::Repair(host(3), since));
    let action = driven.step(Event::Repaired(since));
    assert!(finishes(&action, 3), "{action:?}");
    assert!(aborts(
        &driven.joining.clone().step(&driven.log.state, &driven.live, Some(Event::Cancelled)),
        3,
        "operator"
    ));
}
