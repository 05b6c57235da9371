//! Which partitions are visited, in which order, and how many: numbers from which keys and values follow.

use crate::distribution::Sampler;
use crate::ranked::Ranked;
use crate::settings::{Insert, Population, Visited};
use runtime::sync::Flag;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// One of several loaders that share a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Which, from 0.
    pub number: u32,
    /// Of how many.
    pub of: u32,
}

impl Part {
    /// The only one.
    pub const WHOLE: Part = Part { number: 0, of: 1 };

    /// Its share of so many; the shares of all make them up.
    pub fn share(self, whole: u64) -> u64 {
        self.before(whole, 1) - self.before(whole, 0)
    }

    /// The shares of those before it, and of so many more.
    fn before(self, whole: u64, more: u32) -> u64 {
        (u128::from(whole) * u128::from(self.number + more) / u128::from(self.of.max(1))) as u64
    }

    /// Its share of a population: some of a sequence, all of what is drawn.
    pub fn population(self, population: &Population) -> Population {
        let mut part = population.clone();
        if let Visited::Sequence { first, last, .. } = &mut part.visited {
            let (start, count) = (*first, (*last - *first + 1) as u64);
            *first = start + self.before(count, 0) as i64;
            *last = start + self.before(count, 1) as i64 - 1;
        }
        part
    }
}

/// Partitions that may still be visited, and whether the run goes on.
pub struct Tickets {
    /// `None` for any number.
    left: Cell<Option<u64>>,
    /// No operation begins any more, and none is tried again.
    pub stopped: Flag,
}

impl Tickets {
    /// So many, or any number.
    pub fn new(left: Option<u64>) -> Tickets {
        Tickets { left: Cell::new(left), stopped: Flag::new() }
    }

    /// Takes up to so many; none when the run ends.
    pub fn take(&self, wanted: u64) -> u64 {
        if self.stopped.is_set() {
            return 0;
        }
        match self.left.get() {
            None => wanted,
            Some(left) => {
                let taken = left.min(wanted);
                self.left.set(Some(left - taken));
                taken
            }
        }
    }
}

/// A partition whose rows are written in several visits.
#[derive(Debug)]
pub struct Open {
    /// Its number.
    pub seed: i64,
    visits: u64,
    /// Rows that have been handed out.
    handed: Cell<u64>,
    /// Where it stands among those that are open.
    slot: Cell<Option<usize>>,
}

/// Some rows of a partition, from one to before another.
#[derive(Clone, Debug)]
pub struct Visit {
    open: Rc<Open>,
    /// The first.
    pub from: u64,
    /// After the last.
    pub to: u64,
}

/// Hands out partitions to be written, those that were begun before others, as often as they are to be visited.
pub struct Visits {
    visits: RefCell<Sampler>,
    /// Counted from the least value, inverted: which of those that are open comes next, if there are so many.
    revisit: RefCell<Sampler>,
    open_max: usize,
    open: RefCell<Ranked<Rc<Open>>>,
    by_seed: RefCell<BTreeMap<i64, Rc<Open>>>,
}

impl Visits {
    /// As `-insert` says; `seed` is where draws begin.
    pub fn new(insert: &Insert, seed: i64) -> Visits {
        let (min, max) = (insert.revisit.min(), insert.revisit.max());
        Visits {
            visits: RefCell::new(insert.visits.sampler(seed)),
            revisit: RefCell::new(insert.revisit.sampler(!seed)),
            open_max: usize::try_from(max.saturating_sub(min).saturating_add(1)).unwrap_or(usize::MAX),
            open: RefCell::default(),
            by_seed: RefCell::default(),
        }
    }

    /// The next partition; `None` when the population ends.
    pub fn next(&self, seeds: &Seeds) -> Option<Rc<Open>> {
        let mut open = self.open.borrow_mut();
        if !open.is_empty() {
            let mut revisit = self.revisit.borrow_mut();
            let draw = revisit.draw();
            let distribution = revisit.distribution();
            // The later they were begun the sooner they come again.
            let at = usize::try_from(distribution.max() - draw).unwrap_or(0);
            let is_full = open.len() >= self.open_max;
            let at = if is_full { at % open.len() } else { at };
            if let Some(known) = open.at(at) {
                return Some(known.clone());
            }
        }
        let Some(seed) = seeds.for_write() else {
            // What was begun is finished.
            return open.at(0).cloned();
        };
        let visits = self.visits.borrow_mut().draw().max(1) as u64;
        if visits == 1 {
            return Some(Rc::new(Open { seed, visits, handed: Cell::new(0), slot: Cell::new(None) }));
        }
        let mut by_seed = self.by_seed.borrow_mut();
        if let Some(known) = by_seed.get(&seed) {
            return Some(known.clone());
        }
        let new = Rc::new(Open { seed, visits, handed: Cell::new(0), slot: Cell::new(None) });
        if open.is_sparse() {
            open.compact(|open, slot| open.slot.set(Some(slot)));
        }
        new.slot.set(Some(open.push(new.clone())));
        by_seed.insert(seed, new.clone());
        Some(new)
    }

    /// The rows of the next visit of a partition with so many; `None` when others have them all.
    pub fn begin(&self, open: &Rc<Open>, rows: u64) -> Option<Visit> {
        let from = open.handed.get();
        if from >= rows {
            return None;
        }
        let count = (rows / open.visits).max(1);
        // What does not divide is left to the last visit.
        let to = if from / count + 1 >= open.visits { rows } else { from + count };
        open.handed.set(to);
        if to >= rows
            && let Some(slot) = open.slot.take()
        {
            self.open.borrow_mut().remove(slot);
            self.by_seed.borrow_mut().remove(&open.seed);
        }
        Some(Visit { open: open.clone(), from, to })
    }

    /// A visit has ended.
    pub fn end(&self, visit: &Visit, seeds: &Seeds) {
        if visit.from == 0 {
            seeds.written(visit.open.seed);
        }
    }
}

/// Hands out the numbers of partitions to all workers of a run.
///
/// A sequence hands out each number of its range once, and again when it wraps; whoever asks next, reader or writer, gets the next. With a look
/// back readers visit what was written a drawn number of partitions ago, of those written without a gap.
pub struct Seeds {
    kind: Kind,
}

enum Kind {
    Sequence { first: i64, count: u64, wrap: bool, next: Cell<u64>, look_back: Option<LookBack> },
    Drawn(RefCell<Sampler>),
}

struct LookBack {
    draws: RefCell<Sampler>,
    /// Writes from the first on that have ended, without a gap.
    written: Cell<u64>,
    /// Those that ended after a gap.
    later: RefCell<BTreeSet<u64>>,
}

impl Seeds {
    /// For a population; `seed` is where draws begin.
    pub fn new(population: &Population, seed: i64) -> Seeds {
        let kind = match &population.visited {
            Visited::Drawn(distribution) => Kind::Drawn(RefCell::new(distribution.sampler(seed))),
            Visited::Sequence { first, last, wrap, look_back } => Kind::Sequence {
                first: *first,
                count: (last - first + 1) as u64,
                wrap: *wrap,
                next: Cell::new(0),
                look_back: look_back.as_ref().map(|look_back| LookBack {
                    draws: RefCell::new(look_back.sampler(seed)),
                    written: Cell::new(0),
                    later: RefCell::default(),
                }),
            },
        };
        Seeds { kind }
    }

    /// The partition of the next write; `None` when the range has been visited and does not wrap.
    pub fn for_write(&self) -> Option<i64> {
        match &self.kind {
            Kind::Drawn(sampler) => Some(sampler.borrow_mut().draw()),
            Kind::Sequence { first, count, wrap, next, .. } => {
                let at = next.replace(next.get() + 1);
                (*count > 0 && (*wrap || at < *count)).then(|| first + (at % count) as i64)
            }
        }
    }

    /// The partition of the next read.
    pub fn for_read(&self) -> Option<i64> {
        let Kind::Sequence { first, count, wrap, look_back: Some(look_back), .. } = &self.kind else {
            return self.for_write();
        };
        if *count == 0 {
            return None;
        }
        let back = look_back.draws.borrow_mut().draw().max(0) as u64;
        let written = look_back.written.get();
        let at = match written.checked_sub(back) {
            Some(at) => at,
            None if written == *count && !wrap => return None,
            None if written == 0 => 0,
            None => back % written,
        };
        Some(first + (at % count) as i64)
    }

    /// A write of a partition has ended.
    pub fn written(&self, partition: i64) {
        let Kind::Sequence { first, look_back: Some(look_back), .. } = &self.kind else { return };
        let at = (partition - first) as u64;
        let mut written = look_back.written.get();
        if at < written {
            return;
        }
        let mut later = look_back.later.borrow_mut();
        later.insert(at);
        while later.remove(&written) {
            written += 1;
        }
        look_back.written.set(written);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distribution::Distribution;
    use crate::settings::Order;

    fn seeds(first: i64, last: i64, wrap: bool, look_back: Option<&str>) -> Seeds {
        let look_back = look_back.map(|text| Distribution::parse(text).expect("a distribution"));
        let visited = Visited::Sequence { first, last, wrap, look_back };
        Seeds::new(&Population { visited, order: Order::Arbitrary }, 1)
    }

    #[test]
    fn a_sequence_visits_each_once_and_wraps() {
        let once = seeds(5, 7, false, None);
        let all: Vec<i64> = std::iter::from_fn(|| once.for_write()).collect();
        assert_eq!(all, [5, 6, 7]);
        let again = seeds(5, 7, true, None);
        assert_eq!([0; 5].map(|_| again.for_read().expect("wraps")), [5, 6, 7, 5, 6]);
    }

    #[test]
    fn readers_look_back_at_what_was_written_without_a_gap() {
        let seeds = seeds(100, 199, false, Some("fixed(3)"));
        assert_eq!(seeds.for_read(), Some(100), "nothing is there yet: the first");
        let written: Vec<i64> = (0..6).filter_map(|_| seeds.for_write()).collect();
        for partition in [100, 101, 102, 103, 105] {
            seeds.written(partition);
        }
        assert_eq!(seeds.for_read(), Some(101), "104 is not there: four are without a gap");
        seeds.written(104);
        assert_eq!(seeds.for_read(), Some(103));
        seeds.written(104);
        assert_eq!((written.last(), seeds.for_read()), (Some(&105), Some(103)));
    }

    #[test]
    fn parts_make_up_the_whole() {
        for of in [1, 3, 7] {
            let parts: Vec<Part> = (0..of).map(|number| Part { number, of }).collect();
            for whole in [0, 1, 7, 1_000_003, u64::MAX] {
                assert_eq!(parts.iter().map(|part| part.share(whole)).sum::<u64>(), whole);
            }
            for last in [6, 104] {
                let whole = Population {
                    visited: Visited::Sequence { first: 5, last, wrap: true, look_back: None },
                    order: Order::Arbitrary,
                };
                let mut all = Vec::new();
                for part in &parts {
                    let seeds = Seeds::new(&part.population(&whole), 1);
                    let share = part.share((last - 4) as u64) as usize;
                    all.extend(std::iter::from_fn(|| seeds.for_write()).take(share));
                }
                assert_eq!(all, (5..=last).collect::<Vec<i64>>());
            }
        }
    }

    #[test]
    fn tickets_are_taken_until_there_are_none() {
        let tickets = Tickets::new(Some(5));
        assert_eq!([3, 3, 3].map(|wanted| tickets.take(wanted)), [3, 2, 0]);
        let endless = Tickets::new(None);
        assert_eq!(endless.take(7), 7);
        endless.stopped.set();
        assert_eq!(endless.take(7), 0);
    }

    /// Every row of every partition is handed out once, whoever takes which visit.
    #[test]
    fn visits_divide_the_rows_of_partitions() {
        let insert = |visits: &str, revisit: &str| Insert {
            revisit: Distribution::parse(revisit).expect("a distribution"),
            visits: Distribution::parse(visits).expect("a distribution"),
            partitions: None,
            batch: None,
            select: None,
            row_population: crate::grammar::Ratio::parse("fixed(1)/1").expect("a ratio"),
        };
        for (visits, revisit) in
            [("fixed(1)", "uniform(1..1M)"), ("fixed(4)", "uniform(1..8)"), ("uniform(1..9)", "exp(1..30)")]
        {
            let seeds = seeds(1, 20, false, Some("fixed(1)"));
            let handing = Visits::new(&insert(visits, revisit), 3);
            let mut rows: BTreeMap<i64, Vec<u64>> = BTreeMap::new();
            while let Some(open) = handing.next(&seeds) {
                if let Some(visit) = handing.begin(&open, 10) {
                    rows.entry(open.seed).or_default().extend(visit.from..visit.to);
                    handing.end(&visit, &seeds);
                }
            }
            assert_eq!(rows.len(), 20, "{visits} {revisit}");
            assert!(
                rows.values().all(|rows| *rows == (0..10).collect::<Vec<_>>()),
                "{visits} {revisit}: {rows:?}"
            );
            assert!(handing.open.borrow().is_empty() && handing.by_seed.borrow().is_empty());
        }
    }

    #[test]
    fn a_drawn_population_never_ends() {
        let visited = Visited::Drawn(Distribution::uniform(1, 10));
        let seeds = Seeds::new(&Population { visited, order: Order::Arbitrary }, 1);
        assert!((0..100).all(|_| seeds.for_read().is_some_and(|partition| (1..=10).contains(&partition))));
    }
}
