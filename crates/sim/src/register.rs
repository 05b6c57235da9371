//! Registers that the last writer by timestamp wins, and what a read of one may show in real time.
//!
//! With `w` replicas confirming a write and `r` asked by a read, `w + r > 3` means that they meet: the read shows that
//! write or a newer one. A read at QUORUM or ALL that has shown a value leaves it on a majority, so no later one goes back.

use std::collections::BTreeMap;

use base::Instant;
use types::Consistency;

/// Replicas of every register.
const REPLICAS: u32 = 3;

/// How many replicas a level waits for.
pub(crate) fn waits_for(level: Consistency) -> u32 {
    match level {
        Consistency::All => REPLICAS,
        Consistency::Quorum => 2,
        _ => 1,
    }
}

/// What decides which of two writes wins: the later timestamp; of the same, the deletion; of two values, the larger.
type Version = (i64, bool, String);

fn version(timestamp: i64, value: Option<&str>) -> Version {
    (timestamp, value.is_none(), value.unwrap_or_default().to_string())
}

/// When writes of a version were confirmed, and at which level. Two deletions with one timestamp are one version.
#[derive(Clone, Debug, Default)]
struct Write {
    acked: Vec<(Consistency, Instant)>,
}

/// One register: every write by what decides, and the newest that reads have shown.
#[derive(Clone, Debug, Default)]
pub(crate) struct Register {
    writes: BTreeMap<Version, Write>,
    /// End of a majority read and the version it showed.
    shown: Vec<(Instant, Version)>,
}

impl Register {
    /// Notes a write that is about to be sent; None is a deletion. Values are written once.
    pub(crate) fn issue(&mut self, timestamp: i64, value: Option<&str>) {
        self.writes.entry(version(timestamp, value)).or_default();
    }

    pub(crate) fn ack(&mut self, timestamp: i64, value: Option<&str>, level: Consistency, at: Instant) {
        self.writes.entry(version(timestamp, value)).or_default().acked.push((level, at));
    }

    /// The oldest version that a read from `start` at `level` may show; None is the empty register.
    fn floor(&self, start: Instant, level: Consistency) -> Option<&Version> {
        let asked = waits_for(level);
        let meets =
            |(level, at): &(Consistency, Instant)| *at < start && waits_for(*level) + asked > REPLICAS;
        let met = |write: &Write| write.acked.iter().any(meets);
        let written = self.writes.iter().rev().find(|(_, write)| met(write)).map(|(version, _)| version);
        let majority = |(end, _): &&(Instant, Version)| *end < start && asked + 2 > REPLICAS;
        let read = self.shown.iter().filter(majority).map(|(_, version)| version).max();
        written.max(read)
    }

    /// Judges one read; notes what it showed.
    pub(crate) fn check(
        &mut self,
        (start, end): (Instant, Instant),
        level: Consistency,
        seen: Option<&str>,
    ) -> Result<(), String> {
        let floor = self.floor(start, level);
        let explains =
            |(_, deleted, value): &Version| seen.map_or(*deleted, |seen| !deleted && seen == value);
        // The newest write that explains it; the empty register explains nothing seen.
        let shown = self.writes.keys().rev().find(|version| explains(version));
        if let (None, Some(value)) = (shown, seen) {
            return Err(format!("shows {value:?}, which was never written"));
        }
        if shown < floor {
            return Err(format!(
                "a read at {level} from {start:?} to {end:?} shows {seen:?}, {shown:?}, but must show {floor:?} or \
                 newer:\n{}",
                self.story()
            ));
        }
        // A value is written once, so it names its write; nothing seen may be any deletion.
        if let Some(shown) = shown.filter(|_| waits_for(level) >= 2 && seen.is_some()) {
            self.shown.push((end, shown.clone()));
        }
        Ok(())
    }

    fn story(&self) -> String {
        let writes = self.writes.iter().map(|(version, write)| format!("  {version:?}: {write:?}\n"));
        writes
            .chain(self.shown.iter().map(|(end, version)| format!("  shown {end:?}: {version:?}\n")))
            .collect()
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
}
