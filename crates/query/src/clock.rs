//! Timestamps for writes that bring none, and ticks for list elements: strictly ascending on a shard, so that two
//! statements of one client that reach the same shard in order cannot take effect in the wrong order; and never earlier
//! because somebody set the machine's clock back, on whichever shard the next statement arrives.

use crate::limits::{CLOCK_ANCHOR_MICROS, CLOCK_DOUBT_MICROS, CLOCK_STEP_MICROS, CLOCK_WARN_EVERY};
use base::Instant;
use runtime::log::Sparse;
use std::cell::Cell;

/// Gives out times since the epoch, each once, in the unit it is asked in.
#[derive(Debug, Default)]
pub struct Ascending {
    last: Cell<i64>,
}

impl Ascending {
    /// The time `now`, or one more than the last given out, whichever is later.
    pub fn next(&self, now: i64) -> i64 {
        let next = now.max(self.last.get().saturating_add(1));
        self.last.set(next);
        next
    }
}

/// The time of day as timestamps see it: it follows the machine's clock forwards, at once, and not back.
///
/// The clock that measures durations is the same on all shards and cannot be set. While the time of day is behind where
/// that clock says it must be, time goes on from where it was; so shards agree without asking each other, except about a
/// clock that was set forwards and back while one of them gave no time.
#[derive(Debug)]
pub struct Steady {
    anchor: Cell<Anchor>,
    warning: Sparse,
}

/// A time of day and when it was.
#[derive(Clone, Copy, Debug)]
struct Anchor {
    unix_micros: i64,
    at: Instant,
    /// On the cheap clock, which is only good enough for a doubt.
    ticks: Instant,
}

impl Steady {
    /// From now on.
    pub fn new() -> Steady {
        let anchor =
            Anchor { unix_micros: runtime::unix_micros(), at: runtime::now(), ticks: runtime::ticks() };
        Steady { anchor: Cell::new(anchor), warning: Sparse::new(CLOCK_WARN_EVERY) }
    }

    /// The machine's clock says `now_micros`: what is the time?
    #[inline]
    pub fn time(&self, now_micros: i64) -> i64 {
        let anchor = self.anchor.get();
        let passed = micros(anchor.ticks, runtime::ticks());
        let behind = anchor.unix_micros.saturating_add(passed).saturating_sub(now_micros);
        if passed < CLOCK_ANCHOR_MICROS && behind.abs() < CLOCK_DOUBT_MICROS {
            return now_micros;
        }
        self.look(now_micros)
    }

    #[cold]
    fn look(&self, now_micros: i64) -> i64 {
        let (anchor, at) = (self.anchor.get(), runtime::now());
        let due = anchor.unix_micros.saturating_add(micros(anchor.at, at));
        let behind = due.saturating_sub(now_micros);
        let unix_micros = if behind < CLOCK_STEP_MICROS { now_micros } else { due };
        if behind >= CLOCK_STEP_MICROS && self.warning.take() {
            runtime::warn!(
                "the machine's clock was set back by {} ms: timestamps go on from where they were",
                behind / 1000
            );
        }
        self.anchor.set(Anchor { unix_micros, at, ticks: runtime::ticks() });
        unix_micros
    }
}

fn micros(from: Instant, to: Instant) -> i64 {
    (to.0.saturating_sub(from.0) / 1000) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_the_same_and_never_back() {
        let clock = Ascending::default();
        let given: Vec<i64> = [100, 100, 90, 105, 105].map(|now| clock.next(now)).to_vec();
        assert_eq!(given, [100, 101, 102, 105, 106]);
    }
}
