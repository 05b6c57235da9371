//! Registers that the last writer by timestamp wins, and what a read of one may show in real time.
//!
//! ```text
//! write confirmed by w, read asks r, of n replicas:   w + r > n everywhere, or in one datacenter  ⇒  they meet
//! LOCAL_QUORUM of one datacenter, then of another:    never                                       ⇒  nothing is asked for
//! ```
//! A read that meets a write shows it or a newer one. A read of a quorum, of whatever scope, that has shown a value leaves it on that quorum,
//! so no later read that meets it goes back.

use std::collections::{BTreeMap, BTreeSet};

use base::Instant;
use types::Consistency;

/// Datacenters that a scenario has at most.
pub(crate) const DATACENTERS: usize = 2;

/// How many replicas a keyspace has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Factors {
    total: u32,
    /// In each datacenter; None: they lie wherever the ring says.
    by_dc: Option<[u32; DATACENTERS]>,
}

impl Factors {
    /// Of a SimpleStrategy.
    pub(crate) fn simple(factor: u32) -> Factors {
        Factors { total: factor, by_dc: None }
    }

    /// Of a NetworkTopologyStrategy.
    pub(crate) fn by_dc(factors: [u32; DATACENTERS]) -> Factors {
        Factors { total: factors.iter().sum(), by_dc: Some(factors) }
    }

    /// In each datacenter; of a SimpleStrategy, which names none, nothing.
    pub(crate) fn by_datacenter(self) -> [u32; DATACENTERS] {
        self.by_dc.unwrap_or_default()
    }

    /// How many replicas confirm a request at a level, at least, and where.
    fn reach(self, At { level, dc }: At) -> Reach {
        let quorum = |factor: u32| if factor == 0 { 0 } else { factor / 2 + 1 };
        let anywhere = |total| Reach { total, by_dc: [0; DATACENTERS] };
        let each = |by_dc: [u32; DATACENTERS]| Reach { total: by_dc.iter().sum(), by_dc };
        let here = |count: u32| {
            let mut by_dc = [0; DATACENTERS];
            by_dc[dc] = count;
            each(by_dc)
        };
        match (level, self.by_dc) {
            // A hint is no replica.
            (Consistency::Any, _) => anywhere(0),
            (Consistency::All, Some(factors)) => each(factors),
            (Consistency::All, None) => anywhere(self.total),
            (Consistency::EachQuorum, Some(factors)) => each(factors.map(quorum)),
            (Consistency::LocalQuorum, Some(factors)) => here(quorum(factors[dc])),
            (Consistency::LocalOne, Some(_)) => here(1),
            (Consistency::Quorum | Consistency::EachQuorum | Consistency::LocalQuorum, _) => {
                anywhere(quorum(self.total))
            }
            _ => anywhere(1),
        }
    }

    fn meet(self, written: Reach, read: Reach) -> bool {
        let in_one = |factors: [u32; DATACENTERS]| {
            (0..DATACENTERS).any(|dc| written.by_dc[dc] + read.by_dc[dc] > factors[dc])
        };
        written.total + read.total > self.total || self.by_dc.is_some_and(in_one)
    }
}

impl Default for Factors {
    /// Three replicas in one datacenter.
    fn default() -> Factors {
        Factors::simple(3)
    }
}

/// How many replicas have confirmed, at least.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Reach {
    total: u32,
    by_dc: [u32; DATACENTERS],
}

/// A level, and the datacenter of the node that was asked.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct At {
    pub(crate) level: Consistency,
    pub(crate) dc: usize,
}

impl From<Consistency> for At {
    fn from(level: Consistency) -> At {
        At { level, dc: 0 }
    }
}

impl std::fmt::Debug for At {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} in datacenter {}", self.level, self.dc)
    }
}

/// Whether a read at a level leaves what it shows on so many replicas that others meet them.
fn is_quorum(level: Consistency) -> bool {
    use Consistency::{All, EachQuorum, LocalQuorum, Quorum};
    matches!(level, All | EachQuorum | LocalQuorum | Quorum)
}

/// What decides which of two writes wins: the later timestamp; of the same, the deletion; of two values, the larger.
type Version = (i64, bool, String);

fn version(timestamp: i64, value: Option<&str>) -> Version {
    (timestamp, value.is_none(), value.unwrap_or_default().to_string())
}

/// What is known to be on the replicas of one level, from when on: a later entry has a newer version.
#[derive(Clone, Debug, Default)]
struct Known(Vec<(Instant, Version)>);

impl Known {
    fn add(&mut self, end: Instant, version: &Version) {
        let place = self.0.partition_point(|(known, _)| *known <= end);
        if place > 0 && self.0[place - 1].1 >= *version {
            return;
        }
        let older = self.0[place..].iter().take_while(|(_, later)| later <= version).count();
        self.0.splice(place..place + older, [(end, version.clone())]);
    }

    /// The newest version that was there before `start`.
    fn before(&self, start: Instant) -> Option<&Version> {
        let place = self.0.partition_point(|(end, _)| *end < start);
        self.0[..place].last().map(|(_, version)| version)
    }
}

/// One register: every write by what decides, and the newest that was confirmed or shown by reads of a quorum.
#[derive(Clone, Debug, Default)]
pub(crate) struct Register {
    factors: Factors,
    /// Two deletions with one timestamp are one version.
    writes: BTreeSet<Version>,
    known: BTreeMap<At, Known>,
}

impl Register {
    /// With so many replicas; the usual ones are three.
    pub(crate) fn of(factors: Factors) -> Register {
        Register { factors, ..Register::default() }
    }

    /// One replica has lost everything for good, and gets it from the others: what it alone had confirmed is gone.
    pub(crate) fn lose_one(&mut self) {
        let factors = self.factors;
        self.known.retain(|at, _| factors.reach(*at).total > 1);
    }

    /// Notes a write that is about to be sent; None is a deletion. Values are written once.
    pub(crate) fn issue(&mut self, timestamp: i64, value: Option<&str>) {
        self.writes.insert(version(timestamp, value));
    }

    pub(crate) fn ack(&mut self, timestamp: i64, value: Option<&str>, level: impl Into<At>, at: Instant) {
        let version = version(timestamp, value);
        self.known.entry(level.into()).or_default().add(at, &version);
        self.writes.insert(version);
    }

    /// The oldest version that a read from `start` at `level` may show; None is the empty register.
    fn floor(&self, start: Instant, read: At) -> Option<&Version> {
        let read = self.factors.reach(read);
        let met = self.known.iter().filter(|(at, _)| self.factors.meet(self.factors.reach(**at), read));
        met.filter_map(|(_, known)| known.before(start)).max()
    }

    /// Judges one read; notes what it showed.
    pub(crate) fn check(
        &mut self,
        (start, end): (Instant, Instant),
        level: impl Into<At>,
        seen: Option<&str>,
    ) -> Result<(), String> {
        let at = level.into();
        let floor = self.floor(start, at);
        let explains =
            |(_, deleted, value): &Version| seen.map_or(*deleted, |seen| !deleted && seen == value);
        // The newest write that explains it; the empty register explains nothing seen.
        let shown = self.writes.iter().rev().find(|version| explains(version));
        if let (None, Some(value)) = (shown, seen) {
            return Err(format!("shows {value:?}, which was never written"));
        }
        if shown < floor {
            return Err(format!(
                "a read at {at:?} from {start:?} to {end:?} shows {seen:?}, {shown:?}, but must show {floor:?} or \
                 newer:\n{}",
                self.story()
            ));
        }
        // A value is written once, so it names its write; nothing seen may be any deletion.
        if let Some(shown) = shown.filter(|_| is_quorum(at.level) && seen.is_some()) {
            self.known.entry(at).or_default().add(end, shown);
        }
        Ok(())
    }

    /// Whether a value was ever written; nothing else is asked of a read.
    pub(crate) fn knows(&self, value: &str) -> bool {
        self.writes.iter().any(|(_, deleted, known)| !deleted && known == value)
    }

    fn story(&self) -> String {
        let writes = self.writes.iter().map(|version| format!("  {version:?}\n"));
        let known = self.known.iter().map(|(at, known)| format!("  known at {at:?}: {:?}\n", known.0));
        writes.chain(known).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const Q: Consistency = Consistency::Quorum;
    const ONE: Consistency = Consistency::One;

    #[test]
    fn majorities_meet_and_single_replicas_do_not() {
        let mut register = Register::default();
        register.issue(10, Some("a"));
        register.ack(10, Some("a"), Q, Instant(5));
        let times = (Instant(6), Instant(7));
        assert!(register.check(times, Q, None).is_err());
        assert!(register.check(times, ONE, None).is_ok());
        assert!(register.check(times, Q, Some("a")).is_ok());
        assert!(register.check(times, Q, Some("b")).is_err(), "a phantom");
        register.issue(20, Some("b"));
        assert!(register.check(times, Q, Some("b")).is_ok(), "unknown writes may show");
        assert!(register.check((Instant(8), Instant(9)), Q, Some("a")).is_err(), "and then stay");
        register.issue(30, None);
        register.ack(30, None, Consistency::All, Instant(10));
        assert!(register.check((Instant(11), Instant(12)), ONE, Some("b")).is_err());
        assert!(register.check((Instant(11), Instant(12)), ONE, None).is_ok());
    }

    #[test]
    fn of_one_timestamp_the_larger_value_wins_and_a_deletion_over_both() {
        let mut register = Register::default();
        for value in ["b", "a"] {
            register.issue(10, Some(value));
            register.ack(10, Some(value), Q, Instant(5));
        }
        let times = (Instant(6), Instant(7));
        assert!(register.check(times, Q, Some("a")).is_err());
        assert!(register.check(times, Q, Some("b")).is_ok());
        register.issue(10, None);
        assert!(register.check(times, Q, None).is_ok(), "it may have happened");
        register.ack(10, None, Q, Instant(8));
        assert!(register.check((Instant(9), Instant(9)), Q, Some("b")).is_err());
    }

    #[test]
    fn a_deletion_confirmed_by_a_majority_is_not_taken_for_its_twin_that_asks_for_all() {
        let mut register = Register::default();
        register.issue(5, Some("a"));
        register.issue(10, None);
        register.ack(10, None, Q, Instant(5));
        register.issue(10, None);
        let times = (Instant(6), Instant(7));
        assert!(register.check(times, ONE, Some("a")).is_ok(), "the one at ALL is on its way");
        register.ack(10, None, Consistency::All, Instant(8));
        assert!(register.check((Instant(9), Instant(9)), ONE, Some("a")).is_err());
    }

    #[test]
    fn quorums_of_datacenters_meet_in_a_datacenter_or_everywhere() {
        let factors = Factors::by_dc([3, 3]);
        let meet = |(write, there): (Consistency, usize), (read, here): (Consistency, usize)| {
            let reach = |level, dc| factors.reach(At { level, dc });
            factors.meet(reach(write, there), reach(read, here))
        };
        let (local, each, any) = (Consistency::LocalQuorum, Consistency::EachQuorum, Consistency::Any);
        assert!(meet((local, 0), (local, 0)));
        assert!(!meet((local, 0), (local, 1)), "two quorums of two datacenters");
        assert!(meet((each, 0), (local, 1)));
        assert!(meet((local, 1), (each, 0)));
        assert!(!meet((Q, 0), (local, 0)), "four of six may be three there and one here");
        assert!(meet((Q, 0), (Q, 1)));
        assert!(meet((each, 0), (Q, 1)), "two of each leave two, and four are asked");
        assert!(!meet((local, 0), (Q, 0)), "two here, and four others");
        assert!(meet((ONE, 0), (Consistency::All, 1)));
        assert!(!meet((any, 0), (Consistency::All, 0)));
    }

    #[test]
    fn what_is_known_grows_with_time_whatever_the_order_in_which_it_is_heard() {
        let of = |timestamp| version(timestamp, Some("a"));
        let mut known = Known::default();
        for (end, timestamp) in [(10, 5), (30, 7), (20, 6), (25, 6), (15, 8), (40, 8), (5, 1)] {
            known.add(Instant(end), &of(timestamp));
        }
        assert_eq!(known.0, [(5, 1), (10, 5), (15, 8)].map(|(end, timestamp)| (Instant(end), of(timestamp))));
        assert_eq!(known.before(Instant(5)), None);
        assert_eq!(known.before(Instant(10)), Some(&of(1)));
        assert_eq!(known.before(Instant(100)), Some(&of(8)));
    }

    #[test]
    fn what_a_lost_replica_alone_had_confirmed_is_not_asked_for() {
        let mut register = Register::default();
        register.issue(10, Some("a"));
        register.ack(10, Some("a"), Q, Instant(5));
        register.issue(20, Some("b"));
        register.ack(20, Some("b"), ONE, Instant(5));
        let times = (Instant(6), Instant(7));
        assert!(register.check(times, Consistency::All, Some("a")).is_err());
        register.lose_one();
        assert!(register.check(times, Consistency::All, Some("a")).is_ok());
        assert!(register.check(times, Consistency::All, None).is_err());
    }
}
