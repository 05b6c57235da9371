//! Conditional writes of a range: what is open is finished or fenced off, and a member that is filled learns the ballots of those who hold the range.
//! Why, and why a quorum is enough: `docs/mechanisms/paxos.md`, "Changes of members".

use super::page::{Begun, Page, PageError, PageOf, Rest, done};
use super::party::Whom;
use crate::coordinator::Coordinator;
use crate::error::Error;
use crate::limits::REPAIR_PAGE_WITHIN;
use base::{HashMap, HostId};
use mutation::{Key, Mutation, ReadAnswer, TokenRange};
use paxos::{Records, State};
use runtime::Bug;
use schema::TableId;
use std::rc::Rc;
use std::sync::Arc;
use types::Consistency;

impl Coordinator {
    /// Settles the open rounds of the first page of what is left of a range, or sweeps what is at rest in it, of any of `tables`, which are of one
    /// replication.
    pub(super) async fn repair_rounds(
        self: Rc<Self>,
        tables: Arc<[TableId]>,
        rest: Rest,
        whom: Arc<Whom>,
    ) -> Result<Page, PageError> {
        let view = self.view();
        // Tables that are gone need nothing.
        let Some(placed) = tables.iter().find_map(|table| view.placed(*table)) else {
            return Ok(Page::default());
        };
        match PageOf::begin(self, view, placed, &rest, &whom)? {
            Begun::Done(page) => Ok(page),
            Begun::Part(page, part, behind) => match &*whom {
                Whom::AtRest(before) => page.sweep(&tables, *before, &rest, part, behind).await,
                Whom::Holders(_) | Whom::Onto(_) => page.rounds(&tables, &whom, &rest, part, behind).await,
            },
        }
    }
}

impl PageOf {
    async fn rounds(
        &self,
        tables: &[TableId],
        whom: &Whom,
        rest: &Rest,
        part: TokenRange,
        behind: Option<Rest>,
    ) -> Result<Page, PageError> {
        let Some(table) = self.view.schema.table_by_id(paxos::TABLE) else { return Ok(Page::default()) };
        if matches!(whom, Whom::Onto(_)) && runtime::planted(Bug::ReplaceWithoutBallots) {
            return Ok(Page::default());
        }
        let command = self.bounded(Records::all(part, self.now_s), rest);
        let (merged, answers) = self.gather(table, &command, rest.differs).await?;
        let states = self.states(&merged)?;
        let ours = || states.iter().filter(|(table, _, _)| tables.contains(table));
        if let Whom::Onto(host) = whom {
            if rest.resume.is_none() {
                self.tell_floor(*host, part).await?;
            }
            self.tell_known(*host, ours(), &answers).await?;
        }
        for (table, key, state) in ours() {
            if let Some(ballot) = state.open() {
                runtime::debug!(
                    "repair: the conditional write {ballot:?} of table {table:?} is finished or fenced off"
                );
                self.settle(*table, key, matches!(whom, Whom::Onto(_))).await?;
            }
        }
        Ok(done(rest, behind, merged.stopped, !answers.is_empty(), (0, 0)))
    }

    pub(super) fn states(&self, answer: &ReadAnswer) -> Result<Vec<(TableId, Key, State)>, PageError> {
        Records::states(answer).map_err(|error| self.here(&error))
    }

    /// ⚔ A new holder must not be part of a quorum that knows nothing of what was agreed on with the one that it replaces.
    async fn tell_known<'s>(
        &self,
        host: HostId,
        states: impl Iterator<Item = &'s (TableId, Key, State)>,
        answers: &[(HostId, ReadAnswer)],
    ) -> Result<(), PageError> {
        // All the same: there is nothing that it lacks.
        let Some((_, own)) = answers.iter().find(|(one, _)| *one == host) else { return Ok(()) };
        let own = self.states(own)?;
        let known =
            |(table, key, state): &(TableId, Key, State)| self.coordinator.records.known(*table, key, state);
        let has: HashMap<(TableId, &Key), Mutation> =
            own.iter().map(|own| ((own.0, &own.1), known(own))).collect();
        let lacks = |one: &(TableId, Key, State)| {
            let known = known(one);
            (has.get(&(one.0, &one.1)) != Some(&known)).then_some(known)
        };
        let known: Vec<Mutation> = states.filter_map(lacks).collect();
        if known.is_empty() {
            return Ok(());
        }
        self.judged(host, self.write(host, known).await).await.map(drop)
    }

    pub(super) async fn settle(&self, table: TableId, key: &Key, is_filling: bool) -> Result<(), PageError> {
        let settle = |serial| self.coordinator.settle(table, key.clone(), serial, REPAIR_PAGE_WITHIN);
        // ⚔ With a quorum of each datacenter: what one of them has agreed on by itself a quorum of all may not have met, and it would be fenced off.
        let all = if self.view.spans_dcs { Consistency::EachQuorum } else { Consistency::Serial };
        let mut outcome = settle(all).await;
        // Who fills a node may be without another datacenter, where nothing is agreed on then. What its own has agreed on first.
        if self.view.spans_dcs && is_filling && matches!(outcome, Err(Error::Unavailable { .. })) {
            outcome = settle(Consistency::LocalSerial).await;
            if outcome.is_ok() {
                outcome = settle(Consistency::Serial).await;
            }
        }
        outcome.map_err(|error| {
            let text = format!("a conditional write that is on its way could not be finished: {error}");
            PageError::Replica(self.view.snapshot.local().broadcast(), text)
        })
    }
}
