//! The range tombstones of one partition: who deletes what, however they overlap.
//!
//! ```text
//! runs   [a────b)[b──c)   [d─e)          each sorted, disjoint, touching intervals of one deletion joined
//!            [f──────────g)              runs overlap each other; each is at least twice as long as the next
//!        [h─)
//! ```
//! A new tombstone is a run of its own, or goes on with one; runs of like length are swept into one, so adding costs O(log n) on
//! average whatever the order, O(1) in order, and nothing a newer deletion hides is kept for long. Readers sweep over all runs, of one or of several
//! partitions, with one open interval per run: what they see is disjoint, ascending and of one form, however it came about.

use crate::deletion::Deletion;
use crate::error::Error;
use schema::{BoundSide, Position, Table};
use smallvec::SmallVec;

/// Prefixes up to this many bytes are kept in the bound itself: two numbers, or one and a half.
const PREFIX_BYTES: usize = 16;

/// One end of a range tombstone as written: a clustering prefix (wire form) and a side.
/// A start on side `Before` is inclusive, on `After` exclusive; an end the other way round. No components: open.
#[derive(Debug, PartialEq, Eq)]
pub struct Bound {
    /// Clustering prefix in wire form.
    pub prefix: SmallVec<[u8; PREFIX_BYTES]>,
    /// Side of everything that extends the prefix.
    pub side: BoundSide,
}

impl Clone for Bound {
    // A copy of bytes; the list's own goes byte by byte.
    fn clone(&self) -> Bound {
        Bound::new(&self.prefix, self.side)
    }
}

impl Bound {
    /// A bound from its parts.
    pub fn new(prefix: &[u8], side: BoundSide) -> Bound {
        Bound { prefix: SmallVec::from_slice(prefix), side }
    }

    /// Bytes it keeps outside of itself.
    fn heap_bytes(&self) -> usize {
        if self.prefix.spilled() { self.prefix.len() } else { 0 }
    }

    /// Where it sorts.
    pub fn position(&self, table: &Table) -> Result<Position, Error> {
        Ok(table.bound_position(&self.prefix, self.side)?)
    }
}

/// Deletes every row of its partition between two bounds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RangeTombstone {
    /// First bound.
    pub start: Bound,
    /// Last bound.
    pub end: Bound,
    /// What it deletes.
    pub deletion: Deletion,
}

#[derive(Debug, Clone)]
struct Interval {
    start_at: Position,
    start: Bound,
    end_at: Position,
    end: Bound,
    deletion: Deletion,
}

/// A range tombstone where it lies, between the positions of its ends.
#[derive(Debug, Clone, Copy)]
pub struct RangeRef<'a> {
    /// Where it begins.
    pub start_at: &'a Position,
    /// First bound.
    pub start: &'a Bound,
    /// Where it ends.
    pub end_at: &'a Position,
    /// Last bound.
    pub end: &'a Bound,
    /// What it deletes.
    pub deletion: Deletion,
}

impl Interval {
    fn memory_bytes(&self) -> usize {
        let ends = [(&self.start, &self.start_at), (&self.end, &self.end_at)];
        let kept_apart = ends.map(|(bound, at)| bound.heap_bytes() + at.heap_bytes());
        size_of::<Interval>() + kept_apart[0] + kept_apart[1]
    }
}

fn bytes_of(run: &[Interval]) -> usize {
    run.iter().map(Interval::memory_bytes).sum()
}

impl RangeRef<'_> {
    /// An owned copy.
    pub fn to_tombstone(self) -> RangeTombstone {
        RangeTombstone { start: self.start.clone(), end: self.end.clone(), deletion: self.deletion }
    }

    fn to_interval(self) -> Interval {
        Interval {
            start_at: self.start_at.clone(),
            start: self.start.clone(),
            end_at: self.end_at.clone(),
            end: self.end.clone(),
            deletion: self.deletion,
        }
    }
}

/// The range tombstones of one partition. Adding one O(log n) on average, lookup O(log² n).
/// Two are equal when they delete the same, however they came about.
#[derive(Debug, Clone, Default)]
pub struct RangeTombstones {
    runs: Vec<Vec<Interval>>,
    memory_bytes: usize,
}

/// A run that is longer than this many times its successor is left alone.
const RUN_RATIO: usize = 2;

impl RangeTombstones {
    /// None yet.
    pub const fn new() -> RangeTombstones {
        RangeTombstones { runs: Vec::new(), memory_bytes: 0 }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// How many intervals are kept: at least the disjoint ones there are.
    pub fn len(&self) -> usize {
        self.runs.iter().map(Vec::len).sum()
    }

    /// Bytes of memory its intervals take. O(1).
    pub fn memory_bytes(&self) -> usize {
        self.memory_bytes
    }

    /// Adds one. Where it overlaps others the superseding deletion stays. An empty or inverted range adds nothing.
    /// Errors when a bound does not fit the table.
    pub fn add(&mut self, table: &Table, tombstone: RangeTombstone) -> Result<(), Error> {
        let start_at = tombstone.start.position(table)?;
        let end_at = tombstone.end.position(table)?;
        if start_at < end_at && !tombstone.deletion.is_live() {
            let RangeTombstone { start, end, deletion } = tombstone;
            self.insert(Interval { start_at, start, end_at, end, deletion });
        }
        Ok(())
    }

    /// Adds all of another.
    pub fn merge(&mut self, other: &RangeTombstones) {
        for run in &other.runs {
            match &run[..] {
                [one] => self.insert(one.clone()),
                _ => {
                    self.memory_bytes += bytes_of(run);
                    self.runs.push(run.clone());
                    self.runs.sort_by_key(|run| std::cmp::Reverse(run.len()));
                    self.settle();
                }
            }
        }
    }

    fn runs(&self) -> impl Iterator<Item = &[Interval]> {
        self.runs.iter().map(Vec::as_slice)
    }

    fn insert(&mut self, interval: Interval) {
        // In order, as files and queues bring them, they need no sweep: behind all of the longest run, or of the one begun last.
        let follows = |run: &Vec<Interval>| run.last().is_some_and(|last| last.end_at <= interval.start_at);
        let longest = self.runs.first().is_some_and(follows);
        let run =
            if longest { self.runs.first_mut() } else { self.runs.last_mut().filter(|run| follows(run)) };
        match run {
            None => {
                self.memory_bytes += interval.memory_bytes();
                self.runs.push(vec![interval]);
            }
            Some(run) => match run.last_mut() {
                Some(last) if last.end_at == interval.start_at && last.deletion == interval.deletion => {
                    self.memory_bytes -= last.memory_bytes();
                    (last.end_at, last.end) = (interval.end_at, interval.end);
                    self.memory_bytes += last.memory_bytes();
                }
                _ => {
                    self.memory_bytes += interval.memory_bytes();
                    run.push(interval);
                }
            },
        }
        self.settle();
    }

    fn settle(&mut self) {
        let too_alike = |pair: &[Vec<Interval>]| pair[0].len() < RUN_RATIO * pair[1].len();
        while let Some(at) = self.runs.windows(2).rposition(too_alike) {
            let (longer, shorter) = (&self.runs[at], &self.runs[at + 1]);
            let swept = Sweep::of_runs([&longer[..], &shorter[..]].into_iter());
            let swept: Vec<Interval> = swept.map(RangeRef::to_interval).collect();
            self.memory_bytes -= bytes_of(longer) + bytes_of(shorter);
            self.memory_bytes += bytes_of(&swept);
            self.runs.remove(at + 1);
            self.runs[at] = swept;
        }
    }

    /// The deletion that covers a row's position; LIVE when none does.
    pub fn covering(&self, position: &[u8]) -> Deletion {
        let of_run = |run: &[Interval]| {
            let next = run.partition_point(|i| i.end_at.as_bytes() <= position);
            let covers = run.get(next).filter(|i| i.start_at.as_bytes() <= position);
            covers.map_or(Deletion::LIVE, |i| i.deletion)
        };
        self.runs().map(of_run).fold(Deletion::LIVE, Deletion::max)
    }

    /// All of them in order, disjoint.
    pub fn iter(&self) -> impl Iterator<Item = RangeTombstone> + '_ {
        self.refs().map(RangeRef::to_tombstone)
    }

    /// All of them in order, disjoint, where they lie.
    pub fn refs(&self) -> impl Iterator<Item = RangeRef<'_>> {
        Sweep::of_runs(self.runs())
    }

    /// Those that overlap `start <= p < end`, in order, with their positions: (start, end, tombstone).
    pub fn overlapping(
        &self,
        start: &[u8],
        end: &[u8],
    ) -> impl Iterator<Item = (Position, Position, RangeTombstone)> + '_ {
        let (start, end) = (Position::from_bytes(start), Position::from_bytes(end));
        let found = Sweep::between([self].into_iter(), &start, &end);
        found.map(|range| (range.start_at.clone(), range.end_at.clone(), range.to_tombstone()))
    }
}

#[cfg(test)]
impl RangeTombstones {
    /// What [`RangeTombstones::memory_bytes`] must say.
    pub(crate) fn counted_bytes(&self) -> usize {
        self.runs().map(bytes_of).sum()
    }
}

impl PartialEq for RangeTombstones {
    fn eq(&self, other: &RangeTombstones) -> bool {
        let same = |(a, b): (RangeRef<'_>, RangeRef<'_>)| {
            (a.start, a.end, a.deletion) == (b.start, b.end, b.deletion)
        };
        let (mut mine, mut theirs) = (self.refs(), other.refs());
        loop {
            match (mine.next(), theirs.next()) {
                (None, None) => return true,
                (Some(a), Some(b)) if same((a, b)) => {}
                _ => return false,
            }
        }
    }
}

impl Eq for RangeTombstones {}

/// One end of an interval.
#[derive(Clone, Copy)]
struct End<'a> {
    at: &'a Position,
    bound: &'a Bound,
}

impl Interval {
    fn first(&self) -> End<'_> {
        End { at: &self.start_at, bound: &self.start }
    }

    fn last(&self) -> End<'_> {
        End { at: &self.end_at, bound: &self.end }
    }
}

impl<'a> End<'a> {
    /// The smaller one. Equal places can have several byte forms: always the same of them.
    fn min(self, other: End<'a>) -> End<'a> {
        let forms = || other.bound.prefix.cmp(&self.bound.prefix).reverse();
        if other.at.cmp(self.at).then_with(forms).is_lt() { other } else { self }
    }

    fn max(self, other: End<'a>) -> End<'a> {
        let forms = || other.bound.prefix.cmp(&self.bound.prefix);
        if other.at.cmp(self.at).then_with(forms).is_gt() { other } else { self }
    }
}

type Runs<'a> = SmallVec<[&'a [Interval]; 4]>;

fn runs_of<'a>(sources: impl Iterator<Item = &'a RangeTombstones>) -> Runs<'a> {
    sources.flat_map(RangeTombstones::runs).collect()
}

/// What several runs together say, ascending, disjoint and joined.
/// Cost: O(runs) for each interval, and for each end on the way that newer deletions hide.
pub struct Sweep<'a> {
    /// What of each run is not behind.
    runs: Runs<'a>,
    at: Option<End<'a>>,
    /// The first, when it is found already.
    first: Option<RangeRef<'a>>,
    /// Found already, and not joined with what follows.
    ahead: Option<RangeRef<'a>>,
    /// Nothing that begins here or behind is wanted.
    stop: Option<Position>,
}

impl<'a> Sweep<'a> {
    fn of_runs(runs: impl Iterator<Item = &'a [Interval]>) -> Sweep<'a> {
        Sweep { runs: runs.collect(), at: None, first: None, ahead: None, stop: None }
    }

    /// What the tombstones of several partitions together say about `start <= p < end`. The first and the last interval may
    /// reach beyond: they are whole, so that equal content has one form whatever is asked for. O(log n) to begin.
    pub fn between(
        sources: impl Iterator<Item = &'a RangeTombstones>,
        start: &Position,
        end: &Position,
    ) -> Sweep<'a> {
        let mut runs = runs_of(sources);
        if end <= start {
            runs.clear();
        }
        // What reaches over the start begins further back.
        let at = left_end(&runs, start);
        let from = at.map_or(start, |end| end.at);
        for run in &mut runs {
            *run = &run[run.partition_point(|i| i.end_at <= *from)..];
        }
        let mut sweep = Sweep { runs, at, first: None, ahead: None, stop: None };
        // One that only touches the start is not asked for.
        sweep.first = sweep.next().filter(|first| *first.end_at > *start);
        sweep.stop = Some(end.clone());
        sweep
    }

    /// The deletion from a place on, and where that ends; `None`: there is nothing from there on.
    fn step(&mut self, from: &Position) -> Option<(Deletion, End<'a>)> {
        let (mut deletion, mut to) = (Deletion::LIVE, None);
        for run in &mut self.runs {
            while let Some((first, rest)) = run.split_first()
                && first.end_at <= *from
            {
                *run = rest;
            }
            let Some(first) = run.first() else { continue };
            let end = if first.start_at <= *from {
                deletion = deletion.max(first.deletion);
                first.last()
            } else {
                first.first()
            };
            to = Some(to.map_or(end, |to: End<'a>| to.min(end)));
        }
        Some((deletion, to?))
    }

    fn piece(&mut self) -> Option<RangeRef<'a>> {
        loop {
            let heads = || self.runs.iter().filter_map(|run| run.first());
            let from = self.at.or_else(|| heads().map(Interval::first).reduce(End::min))?;
            let (deletion, to) = self.step(from.at)?;
            self.at = Some(to);
            if !deletion.is_live() {
                let (start_at, start) = (from.at, from.bound);
                return Some(RangeRef { start_at, start, end_at: to.at, end: to.bound, deletion });
            }
        }
    }

    fn joined(&mut self) -> Option<RangeRef<'a>> {
        let mut range = match self.ahead.take() {
            Some(ahead) => ahead,
            None => self.piece()?,
        };
        while let Some(piece) = self.piece() {
            if piece.start_at != range.end_at || piece.deletion != range.deletion {
                self.ahead = Some(piece);
                break;
            }
            (range.end_at, range.end) = (piece.end_at, piece.end);
        }
        Some(range)
    }
}

impl<'a> Iterator for Sweep<'a> {
    type Item = RangeRef<'a>;

    fn next(&mut self) -> Option<RangeRef<'a>> {
        let joined = match self.first.take() {
            Some(first) => first,
            None => self.joined()?,
        };
        let wanted = self.stop.as_ref().is_none_or(|stop| joined.start_at < stop);
        wanted.then_some(joined)
    }
}

/// As [`Sweep`], descending.
pub struct SweepBack<'a> {
    runs: Runs<'a>,
    at: Option<End<'a>>,
    first: Option<RangeRef<'a>>,
    ahead: Option<RangeRef<'a>>,
    /// Nothing that ends here or before is wanted.
    stop: Option<Position>,
}

impl<'a> SweepBack<'a> {
    /// As [`Sweep::between`], descending.
    pub fn between(
        sources: impl Iterator<Item = &'a RangeTombstones>,
        start: &Position,
        end: &Position,
    ) -> SweepBack<'a> {
        let mut runs = runs_of(sources);
        if end <= start {
            runs.clear();
        }
        let at = right_end(&runs, end);
        let from = at.map_or(end, |end| end.at);
        for run in &mut runs {
            *run = &run[..run.partition_point(|i| i.start_at < *from)];
        }
        let mut sweep = SweepBack { runs, at, first: None, ahead: None, stop: None };
        sweep.first = sweep.next().filter(|last| *last.start_at < *end);
        sweep.stop = Some(start.clone());
        sweep
    }

    /// The deletion directly before a place, and where that begins.
    fn step(&mut self, from: &Position) -> Option<(Deletion, End<'a>)> {
        let (mut deletion, mut to) = (Deletion::LIVE, None);
        for run in &mut self.runs {
            while let Some((last, rest)) = run.split_last()
                && last.start_at >= *from
            {
                *run = rest;
            }
            let Some(last) = run.last() else { continue };
            let end = if last.end_at >= *from {
                deletion = deletion.max(last.deletion);
                last.first()
            } else {
                last.last()
            };
            to = Some(to.map_or(end, |to: End<'a>| to.max(end)));
        }
        Some((deletion, to?))
    }

    fn piece(&mut self) -> Option<RangeRef<'a>> {
        loop {
            let tails = || self.runs.iter().filter_map(|run| run.last());
            let from = self.at.or_else(|| tails().map(Interval::last).reduce(End::max))?;
            let (deletion, to) = self.step(from.at)?;
            self.at = Some(to);
            if !deletion.is_live() {
                let (end_at, end) = (from.at, from.bound);
                return Some(RangeRef { start_at: to.at, start: to.bound, end_at, end, deletion });
            }
        }
    }

    fn joined(&mut self) -> Option<RangeRef<'a>> {
        let mut range = match self.ahead.take() {
            Some(ahead) => ahead,
            None => self.piece()?,
        };
        while let Some(piece) = self.piece() {
            if piece.end_at != range.start_at || piece.deletion != range.deletion {
                self.ahead = Some(piece);
                break;
            }
            (range.start_at, range.start) = (piece.start_at, piece.start);
        }
        Some(range)
    }
}

impl<'a> Iterator for SweepBack<'a> {
    type Item = RangeRef<'a>;

    fn next(&mut self) -> Option<RangeRef<'a>> {
        let joined = match self.first.take() {
            Some(first) => first,
            None => self.joined()?,
        };
        let wanted = self.stop.as_ref().is_none_or(|stop| joined.end_at > stop);
        wanted.then_some(joined)
    }
}

/// Where the deletion directly before a place begins; `None` when there is none.
fn left_end<'a>(runs: &Runs<'a>, place: &Position) -> Option<End<'a>> {
    let before = runs.iter().map(|run| &run[..run.partition_point(|i| i.start_at < *place)]);
    let mut back = SweepBack { runs: before.collect(), at: None, first: None, ahead: None, stop: None };
    let (deletion, mut to) = back.step(place)?;
    if deletion.is_live() {
        return None;
    }
    while let Some((same, next)) = back.step(to.at)
        && same == deletion
    {
        to = next;
    }
    Some(to)
}

/// Where the deletion from a place on ends; `None` when there is none.
fn right_end<'a>(runs: &Runs<'a>, place: &Position) -> Option<End<'a>> {
    let behind = runs.iter().map(|run| &run[run.partition_point(|i| i.end_at <= *place)..]);
    let mut forth = Sweep { runs: behind.collect(), at: None, first: None, ahead: None, stop: None };
    let (deletion, mut to) = forth.step(place)?;
    if deletion.is_live() {
        return None;
    }
    while let Some((same, next)) = forth.step(to.at)
        && same == deletion
    {
        to = next;
    }
    Some(to)
}
