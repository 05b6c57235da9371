//! Every strategy on random sstables, with several compactions at once: it comes to rest, never picks what is busy or the same
//! sstable twice, writes a bounded number of bytes, and keeps what it promises: levels disjoint, windows apart, few overlaps.

use super::*;
use base::Prng;
use std::collections::BTreeSet;

pub(super) fn scene(sstables: &[Candidate]) -> Scene<'_> {
    Scene { sstables, interval: TokenRange::ALL, flush_bytes: 0 }
}

fn candidate(generation: u64, bytes: u64, first: i64, last: i64) -> Candidate {
    let (first, last) = (Token(first), Token(last));
    Candidate { generation, bytes, first, last, level: 0, max_timestamp: 0, busy: false }
}

pub(super) fn of_sizes(sizes: &[u64]) -> Vec<Candidate> {
    let each = |(index, bytes): (usize, &u64)| candidate(index as u64, *bytes, i64::MIN, i64::MAX);
    sizes.iter().enumerate().map(each).collect()
}

pub(super) fn of_ranges(ranges: &[(i64, i64)]) -> Vec<Candidate> {
    let each = |(index, range): (usize, &(i64, i64))| candidate(index as u64, 100, range.0, range.1);
    ranges.iter().enumerate().map(each).collect()
}

/// Bytes of one partition in these tests: large ones, so that few of them fill an sstable.
const PARTITION: u64 = 4 << 20;
const KEYS: u64 = 1 << 12;

fn token(key: u64) -> Token {
    Token(i64::MIN.wrapping_add((key * (u64::MAX / KEYS)) as i64))
}

/// An sstable that is there: which keys it has.
#[derive(Clone)]
struct Held {
    keys: BTreeSet<u64>,
    level: u32,
    generation: u64,
    max_timestamp: i64,
    busy: bool,
}

impl Held {
    fn seen(&self) -> Candidate {
        Candidate {
            generation: self.generation,
            bytes: self.keys.len() as u64 * PARTITION,
            first: token(*self.keys.first().expect("not empty")),
            last: token(*self.keys.last().expect("not empty")),
            level: self.level,
            max_timestamp: self.max_timestamp,
            busy: self.busy,
        }
    }
}

/// A table whose compactions only move keys about.
struct Played {
    strategy: Strategy,
    sstables: Vec<Held>,
    running: Vec<(Vec<u64>, Shape)>,
    next: u64,
    written: u64,
    flushed: u64,
}

impl Played {
    fn new(options: &[(&str, &str)]) -> Played {
        let mut table = TableOptions::cassandra();
        table.compaction = options.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        Played {
            strategy: Strategy::of(&table),
            sstables: Vec::new(),
            running: Vec::new(),
            next: 1,
            written: 0,
            flushed: 0,
        }
    }

    fn add(&mut self, keys: BTreeSet<u64>, level: u32, max_timestamp: i64) {
        if !keys.is_empty() {
            let generation = self.next;
            self.next += 1;
            self.sstables.push(Held { keys, level, generation, max_timestamp, busy: false });
        }
    }

    fn flush(&mut self, prng: &mut Prng, timestamp: i64) {
        let count = 1 + prng.below(24);
        let keys: BTreeSet<u64> = (0..count).map(|_| prng.below(KEYS)).collect();
        self.flushed += keys.len() as u64 * PARTITION;
        self.add(keys, 0, timestamp);
    }

    fn seen(&self) -> Vec<Candidate> {
        self.sstables.iter().map(Held::seen).collect()
    }

    /// Begins the next compaction; false when none is wanted.
    fn begin(&mut self) -> bool {
        let seen = self.seen();
        let Some(task) = self.strategy.next(scene(&seen)) else { return false };
        assert!(!task.inputs.is_empty());
        let distinct: BTreeSet<usize> = task.inputs.iter().copied().collect();
        assert_eq!(distinct.len(), task.inputs.len(), "an sstable is picked once");
        for index in &task.inputs {
            assert!(!self.sstables[*index].busy, "what is busy is left alone");
            self.sstables[*index].busy = true;
        }
        if task.moves {
            assert_eq!(task.inputs.len(), 1);
            let moved = &mut self.sstables[task.inputs[0]];
            assert!(moved.level < task.shape.level);
            moved.level = task.shape.level;
            moved.busy = false;
            return true;
        }
        let inputs = task.inputs.iter().map(|index| self.sstables[*index].generation).collect();
        self.running.push((inputs, task.shape));
        true
    }

    /// Ends one of those that run.
    fn end(&mut self, which: usize) {
        let (inputs, shape) = self.running.swap_remove(which);
        let mut keys = BTreeSet::new();
        let mut max_timestamp = i64::MIN;
        self.sstables.retain(|held| {
            let is_input = inputs.contains(&held.generation);
            if is_input {
                keys.extend(held.keys.iter().copied());
                max_timestamp = max_timestamp.max(held.max_timestamp);
            }
            !is_input
        });
        self.written += keys.len() as u64 * PARTITION;
        let mut part = BTreeSet::new();
        let mut place = None;
        for key in keys {
            let now = match shape.split {
                Split::Whole | Split::Halves => 0,
                Split::Bytes(bytes) if part.len() as u64 * PARTITION >= bytes => key + 1,
                Split::Bytes(_) => place.unwrap_or(0),
                Split::Parts(parts) => key * u64::from(parts) / KEYS,
            };
            if place.is_some_and(|place| place != now) {
                self.add(std::mem::take(&mut part), shape.level, max_timestamp);
            }
            place = Some(now);
            part.insert(key);
        }
        self.add(part, shape.level, max_timestamp);
    }

    /// Runs everything that is wanted, up to three at once.
    fn settle(&mut self, prng: &mut Prng, check: &impl Fn(&Played)) {
        for step in 0.. {
            assert!(step < 5_000, "it comes to rest");
            let begun = self.running.len() < 3 && self.begin();
            check(self);
            if begun && prng.chance(0.6) {
                continue;
            }
            if self.running.is_empty() {
                if !begun {
                    return;
                }
                continue;
            }
            let which = prng.below(self.running.len() as u64) as usize;
            self.end(which);
            check(self);
        }
    }
}

fn play(options: &[(&str, &str)], seeds: u64, check: impl Fn(&Played)) -> Vec<Played> {
    (0..seeds)
        .map(|seed| {
            let mut prng = Prng::new(seed);
            let mut played = Played::new(options);
            for round in 0..60 {
                for _ in 0..1 + prng.below(6) {
                    let late = if prng.chance(0.1) { prng.below(5) as i64 } else { 0 };
                    played.flush(&mut prng, (round / 6 - late) * 86_400_000_000);
                }
                played.settle(&mut prng, &check);
            }
            let seen = played.seen();
            assert_eq!(played.strategy.pending(scene(&seen)), Pending::default());
            played
        })
        .collect()
}

/// How many of these sstables share a token, at most.
fn most_overlaps<'a>(sstables: impl Iterator<Item = &'a Held> + Clone) -> usize {
    let over = |key: u64| {
        sstables
            .clone()
            .filter(|held| held.keys.first() <= Some(&key) && Some(&key) <= held.keys.last())
            .count()
    };
    (0..KEYS).step_by(16).map(over).max().unwrap_or(0)
}

#[test]
fn tiers_come_to_rest() {
    for played in play(&[("class", "SizeTieredCompactionStrategy")], 12, |_| {}) {
        assert!(played.sstables.len() <= 16, "{}", played.sstables.len());
        assert!(played.written < played.flushed * 6, "{} of {}", played.written, played.flushed);
    }
}

#[test]
fn levels_stay_disjoint_while_several_compactions_run() {
    let disjoint = |played: &Played| {
        for level in 1..=8 {
            let members: Vec<&Held> = played.sstables.iter().filter(|held| held.level == level).collect();
            for (index, a) in members.iter().enumerate() {
                for b in &members[..index] {
                    let apart = a.keys.last() < b.keys.first() || b.keys.last() < a.keys.first();
                    assert!(apart, "level {level}");
                }
            }
        }
    };
    let options =
        [("class", "LeveledCompactionStrategy"), ("sstable_size_in_mb", "64"), ("fanout_size", "4")];
    for moves in ["true", "false"] {
        for played in
            play(&[options[0], options[1], options[2], ("single_sstable_uplevel", moves)], 8, disjoint)
        {
            let l0 = played.sstables.iter().filter(|held| held.level == 0).count();
            assert!(l0 < 4, "{l0} are left in the lowest level");
            assert!(played.written < played.flushed * 24, "{} of {}", played.written, played.flushed);
            assert!(played.sstables.iter().any(|held| held.level >= 2));
            assert!(most_overlaps(played.sstables.iter()) <= 3 + 4);
        }
    }
}

#[test]
fn levels_left_by_another_strategy_are_set_right() {
    let mut prng = Prng::new(7);
    let mut played = Played::new(&[("class", "LeveledCompactionStrategy"), ("sstable_size_in_mb", "16")]);
    for _ in 0..30 {
        let keys: BTreeSet<u64> = (0..10).map(|_| prng.below(KEYS)).collect();
        played.add(keys, prng.below(4) as u32, 1);
    }
    played.settle(&mut prng, &|_| {});
    let seen = played.seen();
    assert!(most_overlaps(played.sstables.iter()) <= 7, "{seen:?}");
}

#[test]
fn windows_are_not_mixed_and_old_ones_become_one_sstable() {
    let options = [("class", "TimeWindowCompactionStrategy")];
    let apart = |played: &Played| {
        for (inputs, _) in &played.running {
            let inputs = played.sstables.iter().filter(|held| inputs.contains(&held.generation));
            let windows: BTreeSet<i64> = inputs.map(|held| held.max_timestamp).collect();
            assert_eq!(windows.len(), 1);
        }
    };
    for played in play(&options, 12, apart) {
        let newest = played.sstables.iter().map(|held| held.max_timestamp).max();
        let mut old: Vec<i64> =
            played.sstables.iter().map(|held| held.max_timestamp).filter(|at| Some(*at) != newest).collect();
        let count = old.len();
        old.sort_unstable();
        old.dedup();
        assert_eq!(old.len(), count, "one of each window");
        assert!(count >= 9);
    }
}

#[test]
fn densities_keep_overlaps_below_their_thresholds() {
    for (scaling, threshold, amplification) in [("T4", 4, 8), ("N", 2, 14), ("L8", 2, 40), ("T8,N,L4", 8, 14)]
    {
        let options = [
            ("class", "UnifiedCompactionStrategy"),
            ("scaling_parameters", scaling),
            ("target_sstable_size", "32MiB"),
            ("min_sstable_size", "8MiB"),
        ];
        for played in play(&options, 6, |_| {}) {
            assert!(
                played.written < played.flushed * amplification,
                "{scaling}: {} of {}",
                played.written,
                played.flushed
            );
            // Every level has fewer overlaps than its threshold, and the levels are few.
            let overlaps = most_overlaps(played.sstables.iter());
            assert!(overlaps <= (threshold - 1) * 8, "{scaling}: {overlaps}");
            assert!(played.sstables.iter().any(|held| held.seen().bytes < 256 << 20), "runs are cut");
        }
    }
}

#[test]
fn the_incremental_name_makes_runs_of_tiers() {
    let options = [("class", "IncrementalCompactionStrategy"), ("sstable_size_in_mb", "32")];
    for played in play(&options, 4, |_| {}) {
        assert!(played.written < played.flushed * 8, "{} of {}", played.written, played.flushed);
        let largest = played.sstables.iter().map(|held| held.seen().bytes).max().expect("some");
        assert!(largest <= 256 << 20, "{largest}");
    }
}

#[test]
fn an_operators_compaction_takes_every_sstable_once() {
    for class in ["SizeTiered", "Leveled", "TimeWindow", "Unified", "Incremental"] {
        let mut table = TableOptions::cassandra();
        table.compaction.insert("class".into(), format!("{class}CompactionStrategy"));
        let strategy = Strategy::of(&table);
        let mut prng = Prng::new(3);
        let mut played = Played::new(&[]);
        for day in 0..20 {
            played.flush(&mut prng, day / 5 * 86_400_000_000);
        }
        let seen = played.seen();
        let tasks = strategy.whole(scene(&seen), false);
        let mut inputs: Vec<usize> = tasks.iter().flat_map(|task| task.inputs.clone()).collect();
        inputs.sort_unstable();
        assert_eq!(inputs, (0..20).collect::<Vec<_>>(), "{class}");
        assert_eq!(tasks.len(), if class == "TimeWindow" { 4 } else { 1 });
    }
}
