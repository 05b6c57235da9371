//! Joining and replacing, step by step, driven by whoever leads: the state says what runs, and all else is asked again.
//!
//! ```text
//!   pending ─▶ barrier: every live node has applied `since` and runs no older request
//!           ─▶ proof    join: every member says that user tables, hints and batchlog were empty at `since`      ─▶ Finish
//!                       replace: the ranges were repaired onto the new node
//!                       Fill::Skipped: none
//!           ─▶ Abort, with a text, when something is there, the new node is gone, or time is up
//! ```
//! Nothing is kept outside the state: a new leader makes a [`Joining`] from it and asks again. What a node answered to the old leader
//! would still be true, because the proof is about one version and is asked for only behind a barrier at it.
//!
//! ⚔ Behind the barrier nobody writes without the new node, so what is empty at `since` on every node stays provable: whoever cannot say
//! for sure that what it holds was written later says that it holds something. A member that is down is waited for: it may hold rows that
//! the new node would hide. Only a ban ends that.

use crate::state::{Fill, Operation, OperationKind};
use crate::{Change, State};
use base::HostId;
use std::collections::{BTreeMap, BTreeSet};
use topology::Version;

/// What a node held when it had applied the operation's version, of what was planned before it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Holdings {
    /// Tables of users with any row.
    pub tables: u64,
    /// Hints not delivered.
    pub hints: u64,
    /// Batches not replayed.
    pub batches: u64,
}

/// What the driver learns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A node has applied this version, and runs no request that was planned before it.
    Passed(HostId, Version),
    /// A node's answer to [`Action::AskHoldings`] of this version.
    Held(HostId, Version, Holdings),
    /// Every range of the new node was repaired onto it since this version.
    Repaired(Version),
    /// The time for the operation is up.
    TimeUp,
    /// An operator gives it up.
    Cancelled,
}

/// What the driver must do next. Everything may be done again.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Ask these nodes to say when they have passed this version.
    AskPassed(Vec<HostId>, Version),
    /// Ask these nodes what they held at this version. Only behind the barrier.
    AskHoldings(Vec<HostId>, Version),
    /// Repair the ranges of this node onto it, with writes going on; then [`Event::Repaired`]. Only behind the barrier.
    Repair(HostId, Version),
    /// Propose this and log the text.
    Propose(Change, String),
    /// There is no operation any more.
    Nothing,
}

/// What is being waited for, in words for logs and operators.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// For whom.
    pub whom: Vec<HostId>,
    /// For what.
    pub what: &'static str,
}

/// The driver's memory of one operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Joining {
    operation: Operation,
    passed: BTreeSet<HostId>,
    held: BTreeMap<HostId, Holdings>,
    repaired: bool,
    given_up: Option<&'static str>,
}

impl Joining {
    /// For the operation that runs, by whoever leads now.
    pub fn resume(state: &State) -> Option<Joining> {
        let operation = state.operation()?;
        Some(Joining {
            operation,
            passed: BTreeSet::new(),
            held: BTreeMap::new(),
            repaired: false,
            given_up: None,
        })
    }

    /// The operation it drives.
    pub fn operation(&self) -> Operation {
        self.operation
    }

    /// Takes what was learned, and says what to do next. `live`: who answers at the moment, this node among them.
    pub fn step(&mut self, state: &State, live: &BTreeSet<HostId>, event: Option<Event>) -> Action {
        if state.operation() != Some(self.operation) {
            return Action::Nothing;
        }
        if let Some(event) = event {
            self.learn(state, live, event);
        }
        self.next(state, live)
    }

    fn learn(&mut self, state: &State, live: &BTreeSet<HostId>, event: Event) {
        let since = self.operation.since;
        match event {
            Event::Passed(host, version) if since <= version => {
                self.passed.insert(host);
            }
            // ⚔ What was said before the barrier does not count: an older request may have written behind the answer.
            Event::Held(host, version, holdings)
                if version == since && self.barrier(state, live).is_empty() =>
            {
                self.held.insert(host, holdings);
            }
            Event::Repaired(version) if version == since && self.barrier(state, live).is_empty() => {
                self.repaired = true;
            }
            Event::TimeUp => self.given_up = Some("it took too long"),
            Event::Cancelled => self.given_up = Some("an operator gave it up"),
            Event::Passed(..) | Event::Held(..) | Event::Repaired(_) => {}
        }
    }

    fn next(&self, state: &State, live: &BTreeSet<HostId>) -> Action {
        let (host, since) = (self.operation.host, self.operation.since);
        if let Some((holder, holdings)) =
            self.held.iter().find(|(host, held)| self.matters(state, **host, held))
        {
            return self.abort(format!(
                "{holder} holds data: {} tables with rows, {} hints, {} batches. Streaming is not supported yet: a node can join only \
                 while nothing is stored, or with auto_bootstrap: false and a repair behind it",
                holdings.tables, holdings.hints, holdings.batches
            ));
        }
        if let Some(why) = self.given_up {
            let waiting = self.waiting(state, live);
            let whom: Vec<String> = waiting.whom.iter().map(HostId::to_string).collect();
            return self.abort(format!("{why}; it waited for {}: {}", whom.join(", "), waiting.what));
        }
        let behind = self.barrier(state, live);
        if !behind.is_empty() {
            return Action::AskPassed(behind, since);
        }
        if self.operation.fill == Fill::Skipped || self.repaired {
            return self.finish("what it must hold is brought by repair");
        }
        match self.operation.kind {
            OperationKind::Replace(_) => Action::Repair(host, since),
            OperationKind::Join => {
                let silent = self.silent(state);
                if silent.is_empty() {
                    return self.finish("nothing was stored anywhere that it could miss");
                }
                Action::AskHoldings(silent, since)
            }
        }
    }

    /// A hint, a batch or a row at a node that was banned since does not count: nobody will ever see it.
    fn matters(&self, state: &State, host: HostId, held: &Holdings) -> bool {
        *held != Holdings::default() && state.counted().any(|member| member.host_id == host)
    }

    /// Who has not passed yet: those that answer, and the new node, which has to be there.
    fn barrier(&self, state: &State, live: &BTreeSet<HostId>) -> Vec<HostId> {
        let asked = |host: &HostId| live.contains(host) || *host == self.operation.host;
        let all = state.counted().map(|member| member.host_id);
        all.filter(asked).filter(|host| !self.passed.contains(host)).collect()
    }

    /// Who has not said what it held: every member, alive or not.
    fn silent(&self, state: &State) -> Vec<HostId> {
        let all = state.counted().map(|member| member.host_id);
        all.filter(|host| !self.held.contains_key(host)).collect()
    }

    /// What keeps it from going on.
    pub fn waiting(&self, state: &State, live: &BTreeSet<HostId>) -> Waiting {
        let behind = self.barrier(state, live);
        if !behind.is_empty() {
            return Waiting { whom: behind, what: "to apply the change and end older requests" };
        }
        match (self.operation.fill, self.operation.kind) {
            (Fill::Proven, OperationKind::Join) => {
                Waiting { whom: self.silent(state), what: "to say that they held nothing" }
            }
            (Fill::Proven, OperationKind::Replace(_)) => {
                Waiting { whom: vec![self.operation.host], what: "the repair of its ranges" }
            }
            (Fill::Skipped, _) => Waiting { whom: Vec::new(), what: "nothing" },
        }
    }

    fn finish(&self, why: &str) -> Action {
        let host = self.operation.host;
        match self.operation.kind {
            OperationKind::Join => {
                Action::Propose(Change::FinishJoin(host), format!("{host} has joined: {why}"))
            }
            OperationKind::Replace(old) => {
                Action::Propose(Change::FinishReplace(host), format!("{host} has replaced {old}: {why}"))
            }
        }
    }

    fn abort(&self, why: String) -> Action {
        let host = self.operation.host;
        Action::Propose(Change::Abort(host), format!("{host} does not become a member: {why}"))
    }
}
