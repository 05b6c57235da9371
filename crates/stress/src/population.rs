//! Which partitions are visited, in which order: numbers from which keys and values follow.

use crate::distribution::Sampler;
use crate::settings::{Population, Visited};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

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
                (*wrap || at < *count).then(|| first + (at % count) as i64)
            }
        }
    }

    /// The partition of the next read.
    pub fn for_read(&self) -> Option<i64> {
        let Kind::Sequence { first, count, wrap, look_back: Some(look_back), .. } = &self.kind else {
            return self.for_write();
        };
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
    fn a_drawn_population_never_ends() {
        let visited = Visited::Drawn(Distribution::uniform(1, 10));
        let seeds = Seeds::new(&Population { visited, order: Order::Arbitrary }, 1);
        assert!((0..100).all(|_| seeds.for_read().is_some_and(|partition| (1..=10).contains(&partition))));
    }
}
