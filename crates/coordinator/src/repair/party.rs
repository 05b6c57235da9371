//! Who takes part in the repair of a page: decided on one snapshot, before anything is sent.

use base::HostId;
use schema::Replication;
use topology::{Holders, MemberState, Snapshot};

/// Whom a repair brings what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Whom {
    /// Everybody who holds a range or will: all are made equal.
    Holders(Among),
    /// One member, which is to hold what those have that are read.
    Onto(HostId),
    /// All who hold a range, where they answer and nobody else is to: what is at rest among them since this time, in microseconds since the Unix epoch,
    /// is swept.
    AtRest(i64),
}

/// Which of the holders.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Among {
    /// Only members of these datacenters; none: of all.
    pub dcs: Vec<String>,
    /// Only these members; none: all.
    pub hosts: Vec<HostId>,
    /// Whether a holder that does not answer is left out; otherwise nothing is repaired without it.
    pub without_down: bool,
}

/// Those who take part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Party {
    /// Who is asked, the nearest first.
    pub(crate) read: Vec<HostId>,
    /// Those of them that get what they lack.
    pub(crate) written: Vec<HostId>,
}

/// What is to be done for some holders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Task {
    /// This.
    Compare(Party),
    /// Nothing: there is nobody to compare with.
    Nothing,
    /// Nothing can be: the only holder was the one that is gone.
    Lost,
}

/// Too few holders answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Absent {
    /// Who does not.
    pub(crate) hosts: Vec<HostId>,
}

impl Among {
    fn has(&self, snapshot: &Snapshot, host: HostId) -> bool {
        let in_dcs =
            self.dcs.is_empty() || snapshot.dc_of(host).is_some_and(|dc| self.dcs.iter().any(|d| d == dc));
        in_dcs && (self.hosts.is_empty() || self.hosts.contains(&host))
    }
}

/// Who takes part for these holders. Errors: holders that are needed do not answer.
pub(crate) fn task(
    snapshot: &Snapshot,
    replication: &Replication,
    holders: &Holders,
    whom: &Whom,
) -> Result<Task, Absent> {
    match whom {
        Whom::Holders(among) => among_holders(snapshot, holders, among),
        Whom::Onto(host) => onto(snapshot, replication, holders, *host),
        Whom::AtRest(_) => Ok(at_rest(snapshot, holders)),
    }
}

fn nearest_first(snapshot: &Snapshot, hosts: &mut [HostId]) {
    hosts.sort_by_key(|host| snapshot.distance(*host));
}

fn among_holders(snapshot: &Snapshot, holders: &Holders, among: &Among) -> Result<Task, Absent> {
    // Who will hold the range gets what is found, too: it may have been given its part already.
    let all = holders.read.iter().chain(&holders.pending).copied();
    let mut read: Vec<HostId> = all.filter(|host| among.has(snapshot, *host)).collect();
    let down: Vec<HostId> = read.iter().copied().filter(|host| !snapshot.is_alive(*host)).collect();
    if !down.is_empty() && !among.without_down {
        return Err(Absent { hosts: down });
    }
    read.retain(|host| !down.contains(host));
    if read.len() < 2 {
        return Ok(Task::Nothing);
    }
    nearest_first(snapshot, &mut read);
    Ok(Task::Compare(Party { written: read.clone(), read }))
}

fn at_rest(snapshot: &Snapshot, holders: &Holders) -> Task {
    if !holders.pending.is_empty() || !holders.read.iter().all(|host| snapshot.is_alive(*host)) {
        return Task::Nothing;
    }
    let mut read = holders.read.to_vec();
    nearest_first(snapshot, &mut read);
    Task::Compare(Party { written: read.clone(), read })
}

/// ⚔ As many are read as meet every set of holders that can have confirmed a write at a quorum: see `docs/mechanisms/repair.md`. All that answer are
/// read, and there must be so many.
fn onto(
    snapshot: &Snapshot,
    replication: &Replication,
    holders: &Holders,
    host: HostId,
) -> Result<Task, Absent> {
    if !holders.read.contains(&host) && !holders.pending.contains(&host) {
        return Ok(Task::Nothing);
    }
    let replaced = match snapshot.member(host).map(|member| member.state) {
        Some(MemberState::Replacing(other)) => Some(other),
        _ => None,
    };
    let others: Vec<HostId> =
        holders.read.iter().copied().filter(|other| *other != host && Some(*other) != replaced).collect();
    if others.is_empty() {
        return Ok(if replaced.is_some_and(|gone| holders.read.contains(&gone)) {
            Task::Lost
        } else {
            Task::Nothing
        });
    }
    let mut read: Vec<HostId> = others.iter().copied().filter(|other| snapshot.is_alive(*other)).collect();
    let dc = snapshot.dc_of(host);
    let is_near = |other: &HostId| snapshot.dc_of(*other) == dc;
    let near = |hosts: &[HostId]| hosts.iter().filter(|other| is_near(other)).count();
    let (all, local) = factors(replication, dc.unwrap_or_default());
    let enough = meeting(holders.read.len(), all).min(others.len());
    let enough_near = meeting(near(&holders.read), local).min(near(&others));
    if read.len() < enough || near(&read) < enough_near {
        return Err(Absent { hosts: others.into_iter().filter(|other| !read.contains(other)).collect() });
    }
    nearest_first(snapshot, &mut read);
    read.push(host);
    Ok(Task::Compare(Party { read, written: vec![host] }))
}

/// Replicas of each token in all, and in a datacenter where levels count those alone.
fn factors(replication: &Replication, dc: &str) -> (usize, usize) {
    match replication {
        Replication::Local => (1, 0),
        Replication::Simple { factor } => (*factor as usize, 0),
        Replication::NetworkTopology { factors } => (
            factors.values().map(|factor| *factor as usize).sum(),
            factors.get(dc).map_or(0, |factor| *factor as usize),
        ),
    }
}

/// How many of so many holders meet every quorum of a replication factor.
fn meeting(holders: usize, factor: usize) -> usize {
    if factor == 0 {
        return 0;
    }
    let quorum = factor / 2 + 1;
    (holders + 1).saturating_sub(quorum).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::member;
    use topology::{Liveness, Member, Members, Version};

    /// Members 1 to 3 of `a` and 4 to 6 of `b`, of which these answer; 9 takes the place of 3.
    fn snapshot(alive: &[u8], is_replaced: bool) -> Snapshot {
        let mut all: Vec<Member> = (1..=6).map(|n| member(n, if n <= 3 { "a" } else { "b" })).collect();
        if is_replaced {
            let state = MemberState::Replacing(HostId(3));
            all.push(Member { state, tokens: all[2].tokens.clone(), ..member(9, "a") });
        }
        let liveness = Liveness::of(alive.iter().map(|n| HostId(u128::from(*n))));
        Snapshot::new(HostId(1), Members::new(Version::ZERO, all), &[]).with_liveness(liveness)
    }

    fn named(hosts: &[HostId]) -> Vec<u128> {
        let mut ids: Vec<u128> = hosts.iter().map(|host| host.0).collect();
        ids.sort_unstable();
        ids
    }

    fn holders(read: &[u128], pending: &[u128]) -> Holders {
        let ids = |ids: &[u128]| ids.iter().copied().map(HostId).collect();
        Holders { end: base::Token(0), read: ids(read), pending: ids(pending), changed: Version::ZERO }
    }

    fn shown(task: Result<Task, Absent>) -> (Vec<u128>, Vec<u128>) {
        match task {
            Ok(Task::Compare(party)) => (named(&party.read), named(&party.written)),
            Ok(Task::Nothing) => (vec![], vec![]),
            Ok(Task::Lost) => (vec![], vec![0]),
            Err(absent) => (vec![0], named(&absent.hosts)),
        }
    }

    #[test]
    fn everybody_who_holds_a_range_or_will_is_made_equal_and_nobody_is_left_out_in_silence() {
        let replication = Replication::Simple { factor: 3 };
        let of = |alive: &[u8], pending: &[u128], among: Among| {
            let holders = holders(&[1, 2, 4], pending);
            shown(task(&snapshot(alive, true), &replication, &holders, &Whom::Holders(among)))
        };
        assert_eq!(of(&[2, 4, 9], &[], Among::default()), (vec![1, 2, 4], vec![1, 2, 4]));
        assert_eq!(of(&[2, 4, 9], &[9], Among::default()), (vec![1, 2, 4, 9], vec![1, 2, 4, 9]));
        assert_eq!(of(&[2], &[9], Among::default()), (vec![0], vec![4, 9]), "those that are down by name");
        let force = Among { without_down: true, ..Among::default() };
        assert_eq!(of(&[2], &[9], force.clone()), (vec![1, 2], vec![1, 2]));
        assert_eq!(of(&[], &[], force), (vec![], vec![]), "nobody is left to compare with");
        let here = Among { dcs: vec!["a".into()], ..Among::default() };
        assert_eq!(of(&[2], &[], here), (vec![1, 2], vec![1, 2]), "who is elsewhere may be down");
        let two = Among { hosts: vec![HostId(1), HostId(4)], ..Among::default() };
        assert_eq!(of(&[4], &[], two), (vec![1, 4], vec![1, 4]));
    }

    #[test]
    fn a_new_node_reads_as_many_as_meet_every_quorum() {
        let simple = |factor| Replication::Simple { factor };
        let of = |alive: &[u8], replication: Replication, read: &[u128]| {
            let whom = Whom::Onto(HostId(9));
            shown(task(&snapshot(alive, true), &replication, &holders(read, &[9]), &whom))
        };
        let onto = |read: Vec<u128>| (read, vec![9]);
        assert_eq!(of(&[2, 9], simple(3), &[1, 2, 3]), onto(vec![1, 2, 9]));
        assert_eq!(of(&[9], simple(3), &[1, 2, 3]), (vec![0], vec![2]), "2 may have what 1 missed");
        assert_eq!(of(&[9], simple(2), &[1, 3]), onto(vec![1, 9]), "every quorum of two has both");
        assert_eq!(of(&[2, 4, 9], simple(5), &[1, 2, 3, 4, 5]), onto(vec![1, 2, 4, 9]));
        assert_eq!(of(&[2, 9], simple(5), &[1, 2, 3, 4, 5]), (vec![0], vec![4, 5]));
        assert_eq!(of(&[9], simple(3), &[1, 3]), onto(vec![1, 9]), "fewer nodes than the factor");
        assert_eq!(of(&[9], simple(1), &[3]), (vec![], vec![0]), "nobody else had it");
        let two = Replication::NetworkTopology { factors: [("a".into(), 3), ("b".into(), 3)].into() };
        let all = [1, 2, 3, 4, 5, 6];
        assert_eq!(of(&[2, 4, 9], two.clone(), &all), onto(vec![1, 2, 4, 9]));
        assert_eq!(
            of(&[4, 5, 6, 9], two.clone(), &all),
            (vec![0], vec![2]),
            "enough in all, and too few for LOCAL_QUORUM"
        );
        assert_eq!(of(&[2, 9], two, &all), (vec![0], vec![4, 5, 6]));
        let elsewhere =
            task(&snapshot(&[2], true), &simple(3), &holders(&[1, 2, 4], &[]), &Whom::Onto(HostId(9)));
        assert_eq!(elsewhere, Ok(Task::Nothing));
    }
}
