//! Which sstables to merge: each strategy is a pure function of facts about sstables. No I/O, no clock, no chance.
//!
//! A strategy is asked again and again: each time it names one set of sstables none of which is busy, or nothing. Sizes are
//! those of the data as stored; tokens are those of this shard.

/// Levels of disjoint sstables of one size.
mod leveled;
/// What a table's options say.
mod options;
/// Tiers of sstables of about one size.
mod size_tiered;
#[cfg(test)]
mod tests;
/// Windows of time.
mod time_window;
/// Levels by density, from tiers to levels by one parameter.
mod unified;

use base::Token;
use leveled::Leveled;
use mutation::TokenRange;
pub(crate) use options::Common;
use schema::TableOptions;
use size_tiered::SizeTiers;
use time_window::TimeWindow;
use unified::Unified;

/// What a strategy knows of an sstable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) generation: u64,
    /// Stored bytes of its data.
    pub(crate) bytes: u64,
    pub(crate) first: Token,
    pub(crate) last: Token,
    pub(crate) level: u32,
    /// As written by clients; microseconds unless they think otherwise.
    pub(crate) max_timestamp: i64,
    /// Being compacted now: never to be picked.
    pub(crate) busy: bool,
}

/// What a strategy looks at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scene<'a> {
    pub(crate) sstables: &'a [Candidate],
    /// The tokens of this shard.
    pub(crate) interval: TokenRange,
    /// Bytes of what flushes of the table make, about; 0 when not known.
    pub(crate) flush_bytes: u64,
}

/// Where the result of a compaction is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Split {
    /// Nowhere.
    Whole,
    /// After so many stored bytes.
    Bytes(u64),
    /// Where so many equal parts of the shard's tokens meet.
    Parts(u32),
    /// Into a half, a quarter, an eighth and so on of all bytes.
    Halves,
}

/// What a compaction makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) level: u32,
    pub(crate) split: Split,
}

impl Shape {
    /// One sstable of no level.
    pub(crate) const ONE: Shape = Shape { level: 0, split: Split::Whole };
}

/// One compaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Task {
    /// Places among the sstables of the scene, each once.
    pub(crate) inputs: Vec<usize>,
    pub(crate) shape: Shape,
    /// The one input gets the level without being written anew.
    pub(crate) moves: bool,
}

impl Task {
    fn merge(inputs: Vec<usize>, shape: Shape) -> Task {
        Task { inputs, shape, moves: false }
    }
}

/// What compactions that are due will do.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Pending {
    pub(crate) compactions: usize,
    /// Stored bytes that they read.
    pub(crate) bytes: u64,
    /// As [`spared`], for all of them.
    pub(crate) spared: f64,
}

/// A table's strategy.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Strategy {
    SizeTiered(SizeTiers),
    Leveled(Leveled),
    TimeWindow(TimeWindow),
    Unified(Unified),
}

impl Strategy {
    /// Reads the options; values that make no sense count as not given, and a class that nobody knows as Cassandra's default.
    pub(crate) fn of(options: &TableOptions) -> Strategy {
        let map = &options.compaction;
        let class = map.get("class").map_or("", String::as_str);
        match class.rsplit('.').next().unwrap_or(class) {
            "LeveledCompactionStrategy" => Strategy::Leveled(Leveled::of(map)),
            "TimeWindowCompactionStrategy" => Strategy::TimeWindow(TimeWindow::of(map)),
            "UnifiedCompactionStrategy" => Strategy::Unified(Unified::of(map)),
            "IncrementalCompactionStrategy" => Strategy::Unified(Unified::incremental(map)),
            _ => Strategy::SizeTiered(SizeTiers::of(map)),
        }
    }

    /// The compaction that is most wanted now; `None`: none is. O(n log n) of the sstables.
    pub(crate) fn next(&self, scene: Scene<'_>) -> Option<Task> {
        let task = match self {
            Strategy::SizeTiered(tiers) => tiers.next(scene),
            Strategy::Leveled(leveled) => leveled.next(scene),
            Strategy::TimeWindow(windows) => windows.next(scene),
            Strategy::Unified(unified) => unified.next(scene),
        };
        debug_assert!(task.iter().all(|task| task.inputs.iter().all(|index| !scene.sstables[*index].busy)));
        task
    }

    /// What an operator's compaction of all these sstables makes of them, as compactions on disjoint sets.
    /// `halves`: into sstables of halving sizes, where the strategy would make one.
    pub(crate) fn whole(&self, scene: Scene<'_>, halves: bool) -> Vec<Task> {
        let all: Vec<usize> = (0..scene.sstables.len()).collect();
        if all.is_empty() {
            return Vec::new();
        }
        match self {
            Strategy::SizeTiered(_) => {
                let split = if halves { Split::Halves } else { Split::Whole };
                vec![Task::merge(all, Shape { level: 0, split })]
            }
            Strategy::Leveled(leveled) => vec![Task::merge(all, leveled.shape_of_all(scene))],
            Strategy::TimeWindow(windows) => windows.whole(scene),
            Strategy::Unified(unified) => {
                let shape = unified.shape_of(scene, &all);
                vec![Task::merge(all, shape)]
            }
        }
    }

    /// What one sstable becomes when it is written anew for its own sake.
    pub(crate) fn alone(&self, scene: Scene<'_>, index: usize) -> Shape {
        match self {
            Strategy::SizeTiered(_) | Strategy::TimeWindow(_) => Shape::ONE,
            Strategy::Leveled(_) => Shape { level: scene.sstables[index].level, split: Split::Whole },
            Strategy::Unified(unified) => unified.shape_of(scene, &[index]),
        }
    }

    /// The compactions that are due, each picked from what those before leave.
    pub(crate) fn pending(&self, scene: Scene<'_>) -> Pending {
        let mut sstables = scene.sstables.to_vec();
        let mut pending = Pending::default();
        while let Some(task) = self.next(Scene { sstables: &sstables, ..scene }) {
            pending.compactions += 1;
            pending.spared +=
                spared(scene.interval, task.inputs.iter().map(|index| sstables[*index].range()));
            for index in task.inputs {
                let bytes_in = if task.moves { 0 } else { sstables[index].bytes };
                pending.bytes = pending.bytes.saturating_add(bytes_in);
                sstables[index].busy = true;
            }
        }
        pending
    }
}

/// How many sstables fewer lie over a token when these are one; on average over the shard's tokens.
pub(crate) fn spared(interval: TokenRange, ranges: impl Iterator<Item = (Token, Token)>) -> f64 {
    let inside = |(first, last)| interval.intersect(TokenRange::new(first, last));
    let (mut sum, mut all) = (0.0, None);
    for range in ranges.filter_map(inside) {
        sum += width(range);
        let (first, last) = all.map_or((range.first, range.last), |all: TokenRange| {
            (all.first.min(range.first), all.last.max(range.last))
        });
        all = Some(TokenRange::new(first, last));
    }
    ((sum - all.map_or(0.0, width)) / width(interval).max(1.0)).max(0.0)
}

/// How many tokens a range has, about.
fn width(range: TokenRange) -> f64 {
    range.last.0 as f64 - range.first.0 as f64
}

/// Whether two token ranges meet.
fn meet(a: (Token, Token), b: (Token, Token)) -> bool {
    a.0 <= b.1 && b.0 <= a.1
}

impl Candidate {
    fn range(&self) -> (Token, Token) {
        (self.first, self.last)
    }
}
