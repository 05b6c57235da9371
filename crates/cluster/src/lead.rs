//! What the leader of group 0 sees to: who listens, who votes, and that a join comes to its end.
//!
//! All of it follows from the applied state, so that the next leader goes on where this one stopped.

use crate::error::Error;
use crate::fill::Filling;
use crate::group::Group0;
use crate::wire::ask_applied;
use base::{HostId, Instant};
use core::time::Duration;
use group0::{Action, Event, Holdings, Joining, Operation, OperationKind, State};
use std::collections::{BTreeMap, BTreeSet};
use topology::{Member, Version};

/// How often a leader looks when nothing changes: members may have come up.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Longest wait for a change of those who listen and vote.
const CHANGE_WITHIN: Duration = Duration::from_secs(10);
/// How often it is said for whom a join waits.
const SAY_EVERY: Duration = Duration::from_secs(60);
/// Longest wait for one member to have applied a version.
const APPLIED_WITHIN: Duration = Duration::from_secs(5);

/// What a leader says of an operation that does not get on.
#[derive(Default)]
pub(crate) struct Stuck {
    since: Version,
    /// When it was said last; at first when it was seen first.
    said_at: Option<Instant>,
    /// For whom and what it waits.
    why: String,
    /// What a node said that fetches what it must hold.
    filling: String,
}

impl Group0 {
    pub(crate) async fn lead(&self) {
        while !self.is_stopped() {
            if self.group().is_leader()
                && self.machine.state().cluster().is_some()
                && let Err(error) = self.see_to_it().await
            {
                runtime::debug!("cluster: {error}");
            }
            let _changed_or_late = runtime::timeout(LOOK_EVERY, self.machine.changed().wait()).await;
        }
    }

    async fn see_to_it(&self) -> Result<(), Error> {
        let state = self.machine.state();
        self.see_to_listeners(&state).await?;
        if let Some(operation) = state.operation() {
            self.see_to_join(operation).await?;
        }
        self.see_to_voters(&self.machine.state()).await
    }

    /// Every member listens; who is none any more does not.
    async fn see_to_listeners(&self, state: &State) -> Result<(), Error> {
        let status = self.group().status();
        let listed = |host: &HostId| status.voters.contains(host) || status.learners.contains(host);
        for member in state.counted().filter(|member| !listed(&member.host_id)) {
            self.group().change(raft::Change::AddLearner(member.host_id), CHANGE_WITHIN).await?;
        }
        let is_member = |host: &HostId| state.counted().any(|member| member.host_id == *host);
        for host in status.learners.iter().filter(|host| !is_member(host)) {
            self.group().change(raft::Change::Remove(*host), CHANGE_WITHIN).await?;
        }
        Ok(())
    }

    /// One, three or five vote: those who do already as long as they are members, then others that answer, in racks without a voter first.
    async fn see_to_voters(&self, state: &State) -> Result<(), Error> {
        let status = self.group().status();
        let serving: Vec<&Member> = state.counted().filter(|member| state.serves(member.host_id)).collect();
        let is_up = |host: HostId| host == self.local_id() || self.links.is_up(host);
        let wanted = voters(&serving, &status.voters, is_up);
        if status.settled && wanted != status.voters {
            self.group().change(raft::Change::SetVoters(wanted), CHANGE_WITHIN).await?;
        }
        Ok(())
    }

    /// ⚔ A new member is read from only when it is proven that it misses nothing: see [`Joining`].
    async fn see_to_join(&self, operation: Operation) -> Result<(), Error> {
        let mut joining = match self.joining.take() {
            Some(joining) if joining.operation() == operation => joining,
            _ => match Joining::resume(&self.machine.state()) {
                Some(joining) => joining,
                None => return Ok(()),
            },
        };
        let done = self.step(&mut joining).await;
        self.say_stuck(&joining, done.as_ref().err());
        self.joining.set(Some(joining));
        done
    }

    /// Says once a minute what keeps an operation from going on.
    fn say_stuck(&self, joining: &Joining, error: Option<&Error>) {
        let state = self.machine.state();
        let (operation, now) = (joining.operation(), runtime::now());
        let mut stuck = self.stuck.borrow_mut();
        if state.operation() != Some(operation) {
            *stuck = None;
            return;
        }
        let before = stuck.take().filter(|stuck| stuck.since == operation.since);
        let is_up = |host: HostId| host == self.local_id() || self.links.is_up(host);
        let live = state.counted().map(|member| member.host_id).filter(|host| is_up(*host)).collect();
        let waiting = joining.waiting(&state, &live);
        let whom: Vec<String> = waiting.whom.iter().map(|host| self.with_reason(*host)).collect();
        let mut why = format!("for {}: {}", whom.join(", "), waiting.what);
        let filling = before.as_ref().map(|stuck| &stuck.filling).filter(|text| !text.is_empty());
        match error {
            Some(error) => why += &format!(" ({error})"),
            None => why += &filling.map(|text| format!(" ({text})")).unwrap_or_default(),
        }
        let mut next = before.unwrap_or_else(|| Stuck { since: operation.since, ..Stuck::default() });
        next.why = why;
        let said_at = *next.said_at.get_or_insert(now);
        if SAY_EVERY <= now - said_at {
            next.said_at = Some(now);
            runtime::warn!("cluster: {} waits {}", self.named(&state, operation), next.why);
        }
        *stuck = Some(next);
    }

    fn named(&self, state: &State, operation: Operation) -> String {
        let shown = |host: HostId| match state.members().get(host) {
            Some(member) => format!("{} ({host})", member.broadcast()),
            None => host.to_string(),
        };
        match operation.kind {
            OperationKind::Join => format!("the join of {}", shown(operation.host)),
            OperationKind::Replace(old) => {
                format!("the replacement of {} by {}", shown(old), shown(operation.host))
            }
        }
    }

    /// A member, and why it does not answer if it does not.
    fn with_reason(&self, host: HostId) -> String {
        let shown = self.shown(host).unwrap_or_else(|| host.to_string());
        if host == self.local_id() || self.links.is_up(host) {
            return shown;
        }
        let reason = self.links.reason(host).map(|reason| format!(": {reason}")).unwrap_or_default();
        format!("{shown}, which does not answer{reason}")
    }

    /// What an operation waits for, as far as this node knows: the leader knows best.
    pub(crate) fn waits_for(&self, state: &State, operation: Operation) -> String {
        let stuck = self.stuck.borrow();
        if self.group().is_leader()
            && let Some(stuck) = stuck.as_ref().filter(|stuck| stuck.since == operation.since)
        {
            return format!("it waits {}", stuck.why);
        }
        let is_down = |host: &HostId| *host != self.local_id() && !self.links.is_up(*host);
        let down: Vec<String> = state
            .counted()
            .map(|member| member.host_id)
            .filter(is_down)
            .map(|host| self.with_reason(host))
            .collect();
        match (down.is_empty(), self.group().status().leader) {
            (false, _) => format!("it waits for {}", down.join(", ")),
            (true, Some(leader)) => format!("the log of {}, which leads, says why", self.with_reason(leader)),
            (true, None) => "no majority of the voters answers".to_owned(),
        }
    }

    async fn step(&self, joining: &mut Joining) -> Result<(), Error> {
        let up = |host: &HostId| *host == self.local_id() || self.links.is_up(*host);
        let mut events = Vec::new();
        loop {
            let state = self.machine.state();
            let live = state.counted().map(|member| member.host_id).filter(up).collect();
            match joining.step(&state, &live, events.pop()) {
                _ if !events.is_empty() => {}
                Action::AskPassed(hosts, version) => {
                    let held = self.ask_all(hosts, version).await?;
                    events.extend(held.into_iter().map(|(host, _)| Event::Passed(host, version)));
                }
                Action::AskHoldings(hosts, version) => {
                    let held = self.ask_all(hosts, version).await?;
                    events.extend(held.into_iter().map(|(host, held)| Event::Held(host, version, held)));
                }
                Action::Repair(host, version) => match self.ask_fill(host, version).await? {
                    Filling::Done => events.push(Event::Repaired(version)),
                    Filling::Running(text) => {
                        runtime::debug!("cluster: {host} gets what it must hold: {text}");
                        if let Some(stuck) = self.stuck.borrow_mut().as_mut() {
                            stuck.filling = text;
                        }
                        return Ok(());
                    }
                    Filling::None => return Ok(()),
                },
                Action::Nothing => return Ok(()),
                Action::Propose(change, text) => {
                    self.propose(&state, change).await?;
                    runtime::info!("cluster: {text}");
                    return Ok(());
                }
            }
        }
    }

    /// What each of them holds that says so. Errors: none does.
    async fn ask_all(&self, hosts: Vec<HostId>, version: Version) -> Result<Vec<(HostId, Holdings)>, Error> {
        let (mut held, mut failed) = (Vec::new(), None);
        for host in hosts {
            match self.ask_held(host, version).await {
                Ok(holdings) => held.push((host, holdings)),
                Err(error) => failed = Some(error),
            }
        }
        match failed {
            Some(error) if held.is_empty() => Err(error),
            _ => Ok(held),
        }
    }

    async fn ask_held(&self, host: HostId, version: Version) -> Result<Holdings, Error> {
        if host == self.local_id() {
            let until = runtime::now() + APPLIED_WITHIN;
            let late = || Error::Consensus(format!("{host} still runs requests from before {version}"));
            return self.held(version, until).await.ok_or_else(late);
        }
        ask_applied(&self.links, host, version, APPLIED_WITHIN).await
    }
}

/// Who votes.
fn voters(serving: &[&Member], now: &BTreeSet<HostId>, is_up: impl Fn(HostId) -> bool) -> BTreeSet<HostId> {
    let mut chosen: BTreeSet<HostId> =
        serving.iter().map(|member| member.host_id).filter(|host| now.contains(host)).collect();
    let count = |candidates: usize| match candidates {
        0..3 => 1,
        3..5 => 3,
        _ => 5,
    };
    let candidates =
        serving.iter().filter(|member| is_up(member.host_id) || now.contains(&member.host_id)).count();
    let wanted = count(candidates.min(serving.len()));
    let mut places: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for member in serving.iter().filter(|member| chosen.contains(&member.host_id)) {
        *places.entry((&member.dc, &member.rack)).or_default() += 1;
    }
    while chosen.len() < wanted {
        let left = serving.iter().filter(|member| !chosen.contains(&member.host_id) && is_up(member.host_id));
        let crowd = |member: &&&Member| places.get(&(&*member.dc, &*member.rack)).copied().unwrap_or(0);
        let Some(next) = left.min_by_key(crowd) else { break };
        *places.entry((&next.dc, &next.rack)).or_default() += 1;
        chosen.insert(next.host_id);
    }
    // Never two or four: a majority of two is both.
    while chosen.len() > wanted || chosen.len().is_multiple_of(2) && chosen.len() > 1 {
        let leaves = chosen.iter().copied().find(|host| !is_up(*host)).or_else(|| chosen.last().copied());
        match leaves {
            Some(host) => chosen.remove(&host),
            None => break,
        };
    }
    if chosen.is_empty() { now.clone() } else { chosen }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Token;
    use topology::MemberState;

    fn member(n: u128, rack: &str) -> Member {
        let ip = core::net::IpAddr::from([127, 0, 0, n as u8]);
        Member {
            host_id: HostId(n),
            internode: (ip, 7000).into(),
            native: (ip, 9042).into(),
            dc: "dc".into(),
            rack: rack.into(),
            tokens: vec![Token(n as i64)],
            shards: 1,
            ignore_msb: 0,
            state: MemberState::Normal,
            features: 0,
            release: "test".into(),
        }
    }

    fn chosen(racks: &[&str], now: &[u128], down: &[u128]) -> Vec<u128> {
        let members: Vec<Member> =
            racks.iter().enumerate().map(|(n, rack)| member(n as u128 + 1, rack)).collect();
        let serving: Vec<&Member> = members.iter().collect();
        let now = now.iter().copied().map(HostId).collect();
        voters(&serving, &now, |host| !down.contains(&host.0)).into_iter().map(|host| host.0).collect()
    }

    #[test]
    fn one_three_or_five_vote_and_never_two_or_four() {
        assert_eq!(chosen(&["a"], &[1], &[]), [1]);
        assert_eq!(chosen(&["a", "a"], &[1], &[]), [1]);
        assert_eq!(chosen(&["a"; 3], &[1], &[]), [1, 2, 3]);
        assert_eq!(chosen(&["a"; 4], &[1], &[]), [1, 2, 3]);
        assert_eq!(chosen(&["a"; 7], &[1, 2, 3], &[]), [1, 2, 3, 4, 5]);
        assert_eq!(chosen(&["a"; 3], &[1], &[3]), [1], "a third that does not answer cannot be made a voter");
        assert_eq!(chosen(&["a"; 3], &[1, 2, 3], &[3]), [1, 2, 3], "who votes goes on when it is down");
        assert_eq!(chosen(&["a", "a", "b", "c"], &[1], &[]), [1, 3, 4], "racks without a voter first");
        assert_eq!(chosen(&["a"; 3], &[1, 2, 3, 9, 10], &[]), [1, 2, 3], "who is no member does not vote");
    }
}
