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

#[derive(Clone, Debug)]
struct Write {
    /// None is a deletion.
    value: Option<String>,
    level: Consistency,
    acked: Option<Instant>,
}

/// One register: every write by its timestamp, and the newest that reads have shown.
#[derive(Clone, Debug, Default)]
pub(crate) struct Register {
    writes: BTreeMap<i64, Write>,
    /// End of a majority read and the timestamp it showed.
    shown: Vec<(Instant, i64)>,
}

impl Register {
    pub(crate) fn issue(&mut self, timestamp: i64, value: Option<String>, level: Consistency) {
        self.writes.insert(timestamp, Write { value, level, acked: None });
    }

    pub(crate) fn ack(&mut self, timestamp: i64, at: Instant) {
        if let Some(write) = self.writes.get_mut(&timestamp) {
            write.acked = Some(at);
        }
    }

    /// The oldest timestamp that a read from `start` at `level` may show; 0 is the empty register.
    fn floor(&self, start: Instant, level: Consistency) -> i64 {
        let asked = waits_for(level);
        let met = |write: &Write| {
            write.acked.is_some_and(|at| at < start) && waits_for(write.level) + asked > REPLICAS
        };
        let written =
            self.writes.iter().rev().find(|(_, write)| met(write)).map_or(0, |(timestamp, _)| *timestamp);
        let majority = |(end, _): &&(Instant, i64)| *end < start && asked + 2 > REPLICAS;
        let read = self.shown.iter().filter(majority).map(|(_, timestamp)| *timestamp).max().unwrap_or(0);
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
        let explains = |write: &Write| write.value.as_deref() == seen;
        // The newest write that explains it; the empty register explains nothing seen.
        let newest =
            self.writes.iter().rev().find(|(_, write)| explains(write)).map(|(timestamp, _)| *timestamp);
        let shown = match (newest, seen) {
            (Some(timestamp), _) => timestamp,
            (None, None) => 0,
            (None, Some(value)) => return Err(format!("shows {value:?}, which was never written")),
        };
        if shown < floor {
            return Err(format!(
                "a read at {level} shows {seen:?} of {shown}, but must show {floor} or newer:\n{}",
                self.story()
            ));
        }
        // A value is written once, so it names its write; nothing seen may be any deletion.
        if waits_for(level) >= 2 && seen.is_some() {
            self.shown.push((end, shown));
        }
        Ok(())
    }

    fn story(&self) -> String {
        self.writes.iter().map(|(timestamp, write)| format!("  {timestamp}: {write:?}\n")).collect()
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
        register.issue(10, Some("a".into()), Q);
        register.ack(10, Instant(5));
        let times = (Instant(6), Instant(7));
        assert!(register.check(times, Q, None).is_err());
        assert!(register.check(times, ONE, None).is_ok());
        assert!(register.check(times, Q, Some("a")).is_ok());
        assert!(register.check(times, Q, Some("b")).is_err(), "a phantom");
        register.issue(20, Some("b".into()), ONE);
        assert!(register.check(times, Q, Some("b")).is_ok(), "unknown writes may show");
        assert!(register.check((Instant(8), Instant(9)), Q, Some("a")).is_err(), "and then stay");
        register.issue(30, None, Consistency::All);
        register.ack(30, Instant(10));
        assert!(register.check((Instant(11), Instant(12)), ONE, Some("b")).is_err());
        assert!(register.check((Instant(11), Instant(12)), ONE, None).is_ok());
    }
}
