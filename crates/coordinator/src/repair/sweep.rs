//! Ballots of partitions that are at rest are forgotten, by all holders. Rules and why they hold: `docs/mechanisms/paxos.md`, "What is kept, and for how long".

use super::job::Repair;
use super::page::{Page, PageError, PageOf, Rest, done};
use super::plan::sweeping;
use crate::cas::{Again, again};
use crate::coordinator::Coordinator;
use crate::limits::{CONFIRM_WITHIN, SWEEP_AGE, SWEEP_EVERY};
use crate::replicas::Silence;
use base::{HashMap, HostId, Token};
use mutation::{Key, Mutation, TokenRange};
use paxos::{Ballot, Proposal, Records, State};
use replica::{FloorAsked, NO_FLOOR, Request, Response};
use runtime::{Bug, Group};
use schema::TableId;
use std::rc::Rc;
use std::time::Duration;
use topology::FEATURE_FLOORS;

impl Coordinator {
    /// Sweeps every few hours, until this coordinator closes. On one shard of a node.
    pub fn begin_sweeps(self: &Rc<Self>) {
        let this = Rc::downgrade(self);
        drop(runtime::spawn(Group::STREAMING, async move {
            loop {
                // Nodes do it at different times, also those that were started together.
                let spread = runtime::random_u64() % SWEEP_EVERY.as_millis() as u64;
                runtime::sleep(SWEEP_EVERY / 2 + Duration::from_millis(spread)).await;
                let Some(this) = this.upgrade().filter(|this| !this.is_closed()) else { return };
                if runtime::shutdown_is_requested() {
                    return;
                }
                match this.sweep(SWEEP_AGE).await {
                    Ok(0) => {}
                    Ok(count) => runtime::info!(
                        "lightweight transactions: ballots of {count} partitions are forgotten"
                    ),
                    Err(error) => {
                        runtime::warn!("lightweight transactions: ballots are not all forgotten: {error}")
                    }
                }
            }
        }));
    }

    /// Has the ballots of conditional writes forgotten by all holders, for the ranges of which this node is the first one, of partitions that were at
    /// rest for so long. Ranges with a holder that does not answer, and partitions that cannot be settled, are left for another time. Returns how many
    /// partitions there were. Errors: some ranges could not be looked at, the first with its reason.
    pub async fn sweep(self: &Rc<Self>, age: Duration) -> Result<u64, String> {
        let before = runtime::unix_micros() - age.as_micros() as i64;
        self.refuse_unconfirmed(before).await?;
        let plans = {
            let view = self.view();
            sweeping(&view.snapshot, &view.schema, before)
        };
        let (mut swept, mut outcome) = (0, Ok(()));
        for (keyspaces, plan) in plans {
            let (count, one) = Repair::sweep(&keyspaces, plan).await;
            swept += count;
            outcome = outcome.and(one);
        }
        outcome.map(|()| swept)
    }

    /// ⚔ A floor is for good, and one that is still to come closes every partition of its node until then: who has others does not take its own clock's
    /// word for it. And members that do not know floors could not read what is answered from then on.
    async fn refuse_unconfirmed(self: &Rc<Self>, before: i64) -> Result<(), String> {
        let view = self.view();
        let members = || view.snapshot.members().iter().filter(|member| member.state.is_in());
        if let Some(old) = members().find(|member| member.features & FEATURE_FLOORS == 0) {
            return Err(format!("{} runs a release that does not know how", old.broadcast()));
        }
        let whole = TokenRange::new(Token(i64::MIN), Token(i64::MAX));
        let asked = Request::Floor(FloorAsked { raises: false, at: before, of: (TableId(0), whole) });
        let others: Vec<HostId> = view.snapshot.others().map(|member| member.host_id).collect();
        let ask = |host: &HostId| {
            let asking = self.clone().ask_in_background(view.clone(), *host, asked.clone(), CONFIRM_WITHIN);
            runtime::spawn(Group::STREAMING, asking)
        };
        let asked: Vec<_> = others.iter().filter(|host| view.snapshot.is_alive(**host)).map(ask).collect();
        // A request in flight would hold up a barrier.
        drop(view);
        let mut is_confirmed = others.is_empty();
        for answer in asked {
            match answer.await {
                Ok(Response::Floor(_)) => is_confirmed = true,
                Err(Silence::Failed(replica::Error::Refused(text))) => return Err(text),
                Ok(_) | Err(_) => {}
            }
        }
        if is_confirmed { Ok(()) } else { Err("no other member answers".to_owned()) }
    }
}

/// One partition and what is known of it.
type Known = (TableId, Key, State);

/// What each holder has of some partitions.
struct Each<'a> {
    hosts: &'a [HostId],
    /// By host; none of it where all have the same.
    own: Vec<(HostId, HashMap<(TableId, &'a Key), &'a State>)>,
}

impl<'a> Each<'a> {
    fn new(hosts: &'a [HostId], answers: &'a [(HostId, Vec<Known>)]) -> Each<'a> {
        let by_key = |states: &'a [Known]| states.iter().map(|own| ((own.0, &own.1), &own.2)).collect();
        Each { hosts, own: answers.iter().map(|(host, states)| (*host, by_key(states))).collect() }
    }

    /// The hosts with what each has; `None`: nothing.
    fn of<'s>(&'s self, merged: &'s Known) -> impl Iterator<Item = (HostId, Option<&'s State>)> {
        self.hosts.iter().map(|host| {
            let own = self.own.iter().find(|(one, _)| one == host);
            (*host, own.map_or(Some(&merged.2), |(_, own)| own.get(&(merged.0, &merged.1)).copied()))
        })
    }
}

/// Mutations for each of some hosts.
type ByHost = HashMap<HostId, Vec<Mutation>>;

impl PageOf {
    /// Sweeps as much as one page has of a range, of any of `tables`.
    pub(super) async fn sweep(
        &self,
        tables: &[TableId],
        before: i64,
        rest: &Rest,
        part: TokenRange,
        behind: Option<Rest>,
    ) -> Result<Page, PageError> {
        let Some(table) = self.view.schema.table_by_id(paxos::TABLE) else { return Ok(Page::default()) };
        let floor = Ballot::floor(before);
        // Also where a tombstone is all that is left of it.
        let is_at_rest = |known: &Known| tables.contains(&known.0) && known.2.last() <= floor;
        let command = self.bounded(Records::all(part, self.now_s), rest);
        let (merged, answers) = self.gather(table, &command, rest.differs).await?;
        let differs = !answers.is_empty();
        let is_left = |known: &Known| is_at_rest(known) && (differs || !known.2.last().is_none());
        if !self.states(&merged)?.iter().any(is_left) {
            return Ok(done(rest, behind, merged.stopped, differs, (0, 0)));
        }
        drop((merged, answers));
        if !runtime::planted(Bug::SweepWithoutFloor) {
            self.raise_floors(before, part).await?;
        }
        // ⚔ Only now: before all floors are raised a holder may still accept a round of that time.
        let (merged, answers) = self.gather(table, &command, differs).await?;
        let mut states = self.states(&merged)?;
        states.retain(is_at_rest);
        let mut own = Vec::with_capacity(answers.len());
        for (host, answer) in &answers {
            own.push((*host, self.states(answer)?));
        }
        let each = Each::new(&self.party.read, &own);
        let settled = self.all_have_the_newest(&states, &each).await?;
        let mut gone = ByHost::default();
        let mut forget = |host: HostId, (table, key, _): &Known, last: Ballot| {
            gone.entry(host).or_default().push(self.coordinator.records.swept(*table, key, last));
        };
        for known in &settled {
            // Who had nothing has the newest commit by now.
            let has = |own: Option<&State>| own.is_some() || !known.2.committed.is_none();
            each.of(known)
                .filter(|(_, own)| has(*own))
                .for_each(|(host, _)| forget(host, known, known.2.last()));
        }
        // Where an earlier sweep did not get to: a tombstone of another holder hides it in what all have together.
        for known in states.iter().filter(|known| known.2.last().is_none()) {
            let lasts = each.of(known).filter_map(|(host, own)| Some((host, own?.last())));
            lasts
                .filter(|(_, last)| !last.is_none() && *last <= floor)
                .for_each(|(host, last)| forget(host, known, last));
        }
        self.write_all(gone).await?;
        let count = settled.len() as u64;
        self.coordinator.metrics.cas_swept.add(count);
        Ok(done(rest, behind, merged.stopped, differs, (count, 0)))
    }

    /// Has every holder know the newest commit, with its rows. Returns the partitions of which they do; others are settled, and swept another time.
    async fn all_have_the_newest<'s>(
        &self,
        states: &'s [Known],
        each: &Each<'_>,
    ) -> Result<Vec<&'s Known>, PageError> {
        let (mut settled, mut lacking) = (Vec::new(), ByHost::default());
        for known in states.iter().filter(|known| !known.2.last().is_none()) {
            let (table, key, state) = known;
            if runtime::planted(Bug::SweepUnsettled) {
                settled.push(known);
                continue;
            }
            if state.pending().is_some() {
                // A holder may have died, or another proposer may be at work: the next sweep tries again.
                if let Err(error) = self.settle(*table, key, false).await {
                    runtime::debug!("sweep: a partition of table {table:?} is left: {error:?}");
                }
                continue;
            }
            let lacks = |own: Option<&State>| own.is_none_or(|own| own.committed != state.committed);
            let lack: Vec<HostId> =
                each.of(known).filter(|(_, own)| lacks(*own)).map(|(host, _)| host).collect();
            // ⚔ What they know of it may not be durable where nothing was written, and what they have accepted before it is.
            let unsure = each
                .of(known)
                .filter(|(_, own)| own.is_some_and(|own| !lacks(Some(own)) && own.accepted.is_some()));
            let unsure: Vec<HostId> = unsure.map(|(host, _)| host).collect();
            if state.committed.is_none() || (lack.is_empty() && unsure.is_empty()) {
                settled.push(known);
                continue;
            }
            let rows = match state.committed_proposal.as_ref().filter(|_| !lack.is_empty()) {
                None => None,
                // ⚔ Asked after the view was taken: what is truncated from here on is refused by replicas.
                Some(proposal) if self.is_overtaken(*table, proposal).await => None,
                Some(proposal) => match self.view.placed(*table).map(|placed| again(&placed.table, proposal))
                {
                    Some(Again::Rows) => proposal.mutation.clone(),
                    Some(Again::Never) => None,
                    // A repair may be on its way, or is to come.
                    Some(Again::Later) | None => continue,
                },
            };
            settled.push(known);
            let committed = self.coordinator.records.committed(*table, key, state.committed, None);
            for host in lack {
                // ⚔ The rows first: they may be cut into two messages.
                lacking.entry(host).or_default().extend(rows.iter().cloned().chain([committed.clone()]));
            }
            for host in unsure {
                lacking.entry(host).or_default().push(committed.clone());
            }
        }
        self.write_all(lacking).await?;
        Ok(settled)
    }

    async fn is_overtaken(&self, table: TableId, proposal: &Proposal) -> bool {
        self.coordinator.local().is_overtaken(table, replica::planned_of(proposal.planned)).await
    }

    async fn write_all(&self, mutations: ByHost) -> Result<(), PageError> {
        let writing = mutations.into_iter().map(|(host, mutations)| (host, self.write(host, mutations)));
        self.written(writing.collect()).await
    }

    /// Has every holder take part in no round up to a time. ⚔ None of them before all have said that they can: it is for good.
    async fn raise_floors(&self, at: i64, part: TokenRange) -> Result<(), PageError> {
        let of = (self.placed.table.id, part);
        for raises in [false, true] {
            for host in &self.party.read {
                self.floor(*host, FloorAsked { raises, at, of }).await?;
            }
        }
        Ok(())
    }

    async fn floor(&self, host: HostId, asked: FloorAsked) -> Result<i64, PageError> {
        match self.judged(host, self.ask(host, Request::Floor(asked)).await).await? {
            Response::Floor(at) if asked.at <= at => Ok(at),
            _ => Err(self.strange(host)),
        }
    }

    /// ⚔ S4: who takes another's place takes part in no round that those it is filled from refuse.
    pub(super) async fn tell_floor(&self, host: HostId, part: TokenRange) -> Result<(), PageError> {
        let of = (self.placed.table.id, part);
        let mut at = NO_FLOOR;
        // Who does not know floors has none.
        let knows = |other: &HostId| {
            self.view.snapshot.member(*other).is_some_and(|member| member.features & FEATURE_FLOORS != 0)
        };
        for other in self.party.read.iter().filter(|other| **other != host && knows(other)) {
            at = at.max(self.floor(*other, FloorAsked { raises: false, at: NO_FLOOR, of }).await?);
        }
        self.floor(host, FloorAsked { raises: true, at, of }).await.map(drop)
    }
}
