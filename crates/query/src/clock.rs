//! Timestamps for writes that bring none, and ticks for list elements: strictly ascending on a shard, so that two
//! statements of one client that reach the same shard in order cannot take effect in the wrong order.

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
