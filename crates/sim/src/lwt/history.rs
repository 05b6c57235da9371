//! Whether what clients saw of one register could have happened one after the other, each between its request and its answer.
//!
//! The search goes through the history in the order of time and keeps every world that explains it so far: what the register holds, and which of the requests
//! that are open have happened. An answer leaves the worlds in which its request has happened; a request without one may happen at any later time, or never.

use base::Instant;
use std::collections::{BTreeMap, BTreeSet};

/// What the register holds; `None`: there is no row.
pub(crate) type Value = Option<i64>;

/// Worlds that are kept at most; a history that needs more is given up as not decided, which no run here comes near.
const WORLDS_MAX: usize = 200_000;

/// What was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Op {
    /// It showed this.
    Read(Value),
    /// From this to that, if it held the former; `None`: nobody knows what came of it.
    Swap { old: Value, new: Value, applied: Option<bool> },
    /// What was said to have had no effect.
    Nothing,
}

/// One request: when it was sent, when it was answered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Call {
    pub(crate) start: Instant,
    pub(crate) end: Option<Instant>,
    pub(crate) op: Op,
}

impl Op {
    /// What the register holds after this; `None`: it cannot happen to what it holds.
    fn on(self, holds: Value) -> Option<Value> {
        match self {
            Op::Nothing => Some(holds),
            Op::Read(shown) => (shown == holds).then_some(holds),
            Op::Swap { old, new, applied } => match (old == holds, applied) {
                (true, Some(true) | None) => Some(new),
                (false, Some(false) | None) => Some(holds),
                (true, Some(false)) | (false, Some(true)) => None,
            },
        }
    }
}

/// A world: what the register holds, and which open requests have happened.
type World = (Value, BTreeSet<usize>);

/// Errors: no order explains the calls; says where it ends.
pub(crate) fn linearizable(calls: &[Call]) -> Result<(), String> {
    // Answers before requests of the same instant would make two calls follow each other that may have met.
    let mut events: Vec<(Instant, bool, usize)> = Vec::new();
    // What did not happen explains nothing, wherever it stands.
    for (index, call) in calls.iter().enumerate().filter(|(_, call)| !matches!(call.op, Op::Nothing)) {
        events.push((call.start, false, index));
        events.extend(call.end.map(|end| (end, true, index)));
    }
    events.sort();
    let mut open: BTreeSet<usize> = BTreeSet::new();
    let mut worlds: BTreeSet<World> = [(None, BTreeSet::new())].into();
    for (at, is_answer, index) in events {
        if !is_answer {
            open.insert(index);
            continue;
        }
        let mut explained: BTreeSet<World> = BTreeSet::new();
        let mut seen: BTreeSet<World> = BTreeSet::new();
        let mut left: Vec<World> = worlds.iter().cloned().collect();
        while let Some((holds, happened)) = left.pop() {
            if !seen.insert((holds, happened.clone())) {
                continue;
            }
            if WORLDS_MAX < seen.len() {
                return Err(format!("more than {WORLDS_MAX} worlds at {at:?}: not decided"));
            }
            if happened.contains(&index) {
                let mut happened = happened;
                happened.remove(&index);
                explained.insert((holds, happened));
                continue;
            }
            for next in open.iter().filter(|next| !happened.contains(next)) {
                let call = &calls[*next];
                let Some(then) = call.op.on(holds) else { continue };
                // One without an answer need not happen where it changes nothing.
                if call.end.is_some() || then != holds {
                    let mut happened = happened.clone();
                    happened.insert(*next);
                    left.push((then, happened));
                }
            }
        }
        open.remove(&index);
        if explained.is_empty() {
            return Err(format!(
                "no order explains call {index}, {:?}; before it the register held one of {:?}:\n{}",
                calls[index],
                worlds.iter().map(|(holds, _)| *holds).collect::<BTreeSet<_>>(),
                told(calls)
            ));
        }
        worlds = most_open(explained, calls);
    }
    Ok(())
}

/// Without the worlds of which another one has the same answers and less behind it that nobody answered: what it may still do, that one may as well.
fn most_open(worlds: BTreeSet<World>, calls: &[Call]) -> BTreeSet<World> {
    let mut kept: BTreeMap<(Value, Vec<usize>), Vec<BTreeSet<usize>>> = BTreeMap::new();
    let mut by_size: Vec<World> = worlds.into_iter().collect();
    by_size.sort_by_key(|(_, happened)| happened.len());
    for (holds, happened) in by_size {
        let (answered, unknown): (Vec<usize>, Vec<usize>) =
            happened.into_iter().partition(|index| calls[*index].end.is_some());
        let unknown: BTreeSet<usize> = unknown.into_iter().collect();
        let alike = kept.entry((holds, answered)).or_default();
        if !alike.iter().any(|less| less.is_subset(&unknown)) {
            alike.push(unknown);
        }
    }
    let whole = |((holds, answered), alike): ((Value, Vec<usize>), Vec<BTreeSet<usize>>)| {
        alike.into_iter().map(move |unknown| (holds, answered.iter().copied().chain(unknown).collect()))
    };
    kept.into_iter().flat_map(whole).collect()
}

/// A call as other checkers read it: JSON in one line, times in nanoseconds. `None`: what asked for nothing is no call to them.
pub(crate) fn exported(key: u64, call: &Call) -> Option<String> {
    let shown = |value: Value| value.map_or("null".to_owned(), |value| value.to_string());
    let what = match call.op {
        Op::Nothing => return None,
        Op::Read(seen) => format!("\"op\":\"read\",\"seen\":{}", shown(seen)),
        Op::Swap { old, new, applied } => {
            let applied = applied.map_or("null".to_owned(), |applied| applied.to_string());
            let (old, new) = (shown(old), shown(new));
            format!("\"op\":\"swap\",\"old\":{old},\"new\":{new},\"applied\":{applied}")
        }
    };
    let (start, end) = (call.start.0, shown(call.end.map(|end| end.0 as i64)));
    Some(format!("{{\"key\":{key},\"start\":{start},\"end\":{end},{what}}}"))
}

fn told(calls: &[Call]) -> String {
    calls.iter().enumerate().map(|(index, call)| format!("  {index}: {call:?}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(start: u64, end: u64, op: Op) -> Call {
        Call { start: Instant(start), end: (end != 0).then_some(Instant(end)), op }
    }

    fn swap(old: Value, new: Value, applied: Option<bool>) -> Op {
        Op::Swap { old, new, applied }
    }

    #[test]
    fn one_after_the_other() {
        let first = call(1, 2, swap(None, Some(1), Some(true)));
        assert!(linearizable(&[first, call(3, 4, Op::Read(Some(1)))]).is_ok());
        assert!(linearizable(&[first, call(3, 4, Op::Read(None))]).is_err());
        let again = swap(None, Some(2), Some(true));
        assert!(linearizable(&[first, call(3, 4, again)]).is_err(), "two winners");
        assert!(linearizable(&[first, call(3, 4, swap(None, Some(2), Some(false)))]).is_ok());
    }

    #[test]
    fn what_meets_may_happen_in_either_order() {
        let (a, b) = (swap(None, Some(1), Some(true)), swap(Some(1), Some(2), Some(true)));
        assert!(linearizable(&[call(1, 9, b), call(2, 8, a)]).is_ok());
        assert!(linearizable(&[call(1, 3, b), call(4, 8, a)]).is_err());
    }

    #[test]
    fn an_unknown_one_happens_once_or_never_but_not_twice() {
        let unknown = call(1, 0, swap(None, Some(1), None));
        assert!(linearizable(&[unknown, call(2, 3, Op::Read(None)), call(4, 5, Op::Read(Some(1)))]).is_ok());
        assert!(linearizable(&[unknown, call(2, 3, Op::Read(Some(1))), call(4, 5, Op::Read(None))]).is_err());
        assert!(linearizable(&[unknown, call(2, 3, Op::Read(None)), call(4, 5, Op::Read(None))]).is_ok());
        let next = call(6, 7, swap(Some(1), Some(5), Some(true)));
        let back = call(8, 9, Op::Read(Some(1)));
        assert!(linearizable(&[unknown, next, back]).is_err());
    }
}
