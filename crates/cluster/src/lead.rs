//! What the leader of group 0 sees to: who listens, who votes, and that a join comes to its end.
//!
//! All of it follows from the applied state, so that the next leader goes on where this one stopped.

use crate::error::Error;
use crate::fill::Filling;
use crate::group::Group0;
use crate::wire::ask_applied;
use base::HostId;
use core::time::Duration;
use group0::{Action, Event, Holdings, Joining, Operation, State};
use std::collections::{BTreeMap, BTreeSet};
use topology::{Member, Version};

/// How often a leader looks when nothing changes: members may have come up.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Longest wait for a change of those who listen and vote.
const CHANGE_WITHIN: Duration = Duration::from_secs(10);
/// Longest wait for one member to have applied a version.
const APPLIED_WITHIN: Duration = Duration::from_secs(5);

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
        self.joining.set(Some(joining));
        done
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
                    for host in hosts {
                        self.ask_held(host, version).await?;
                        events.push(Event::Passed(host, version));
                    }
                }
                Action::AskHoldings(hosts, version) => {
                    for host in hosts {
                        events.push(Event::Held(host, version, self.ask_held(host, version).await?));
                    }
                }
                Action::Repair(host, version) => match self.ask_fill(host, version).await? {
                    Filling::Done => events.push(Event::Repaired(version)),
                    Filling::Running(text) => {
                        runtime::debug!("cluster: {host} gets what it must hold: {text}");
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
