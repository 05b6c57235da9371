//! Levels: every level but the lowest holds sstables of one size whose tokens do not overlap, and ten times as much as the one
//! before.
//!
//! ```text
//! L0  as flushed, overlapping     four of them, or enough for one sstable: merged with what they overlap of L1
//! L1  10 sstables                 too much: the one that overlaps least of the next level for its size goes there
//! L2  100 sstables …
//! ```
//! An sstable whose level says that it is alone there while it is not (the table had another strategy meanwhile) counts as L0.

use super::options::{Map, flag, number};
use super::size_tiered::SizeTiers;
use super::{Candidate, Scene, Shape, Split, Task, meet};
use base::Token;

/// Sstables of L0 in one compaction; with more of them L0 is compacted in tiers first, so that reads do not drown.
const L0_MAX: usize = 32;
/// Sstables of L0 that start a compaction however small they are.
const L0_MIN: usize = 4;
/// The highest level; a thousand terabytes.
const LEVEL_MAX: u32 = 8;
/// Share of its size above which a level is too large, as in Cassandra: not for a byte more.
const FULL: f64 = 1.001;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Leveled {
    sstable_bytes: u64,
    fanout: u64,
    tiers: SizeTiers,
    /// Whether an sstable that overlaps nothing of the next level goes there without being written anew.
    moves: bool,
}

impl Leveled {
    pub(super) fn of(map: &Map) -> Leveled {
        Leveled {
            sstable_bytes: number(map, "sstable_size_in_mb", 160u64).clamp(1, 1 << 30) << 20,
            fanout: number(map, "fanout_size", 10).max(2),
            tiers: SizeTiers::of(map),
            moves: flag(map, "single_sstable_uplevel", true),
        }
    }

    pub(super) fn next(&self, scene: Scene<'_>) -> Option<Task> {
        let levels = levels(scene.sstables);
        let drowning = levels[0].len() > L0_MAX;
        let too_full = (1..levels.len()).rev().filter(|level| {
            let bytes: u64 = levels[*level].iter().map(|index| scene.sstables[*index].bytes).sum();
            bytes as f64 > self.most_bytes(*level as u32) as f64 * FULL
        });
        for level in too_full {
            // Before the rest, as long as reads of L0 are the worse evil.
            if drowning && let Some(task) = self.tier(scene, &levels[0]) {
                return Some(task);
            }
            if let Some(task) = self.down(scene, &levels, level) {
                return Some(task);
            }
        }
        self.lowest_down(scene, &levels)
            .or_else(|| if drowning { self.tier(scene, &levels[0]) } else { None })
    }

    /// Where all sstables go together: the lowest level that has room for them.
    pub(super) fn shape_of_all(&self, scene: Scene<'_>) -> Shape {
        let bytes: u64 = scene.sstables.iter().map(|sstable| sstable.bytes).sum();
        let level = (1..LEVEL_MAX).find(|level| bytes <= self.most_bytes(*level)).unwrap_or(LEVEL_MAX);
        Shape { level, split: Split::Bytes(self.sstable_bytes) }
    }

    fn most_bytes(&self, level: u32) -> u64 {
        self.sstable_bytes.saturating_mul(self.fanout.saturating_pow(level))
    }

    fn tier(&self, scene: Scene<'_>, l0: &[usize]) -> Option<Task> {
        let free = l0.iter().copied().filter(|index| !scene.sstables[*index].busy);
        let picked = self.tiers.pick(scene, free.collect());
        (!picked.is_empty()).then(|| Task::merge(picked, Shape::ONE))
    }

    /// One sstable of a level goes to the next, with what it overlaps there.
    fn down(&self, scene: Scene<'_>, levels: &[Vec<usize>], level: usize) -> Option<Task> {
        let sstables = scene.sstables;
        let target = (level as u32 + 1).min(LEVEL_MAX);
        let empty = Vec::new();
        let next = levels.get(level + 1).unwrap_or(&empty);
        if target as usize == level {
            return None;
        }
        let cost = |index: usize| {
            let over = overlapping(sstables, next, sstables[index].range());
            let bytes: u64 = over.iter().map(|index| sstables[*index].bytes).sum();
            let free = over.iter().all(|index| !sstables[*index].busy);
            free.then(|| (bytes as f64 / sstables[index].bytes.max(1) as f64, over))
        };
        let free = levels[level].iter().filter(|index| !sstables[**index].busy);
        let costs = free.filter_map(|index| cost(*index).map(|(share, over)| (share, *index, over)));
        let (_, index, mut inputs) = costs.min_by(|a, b| {
            let older = sstables[a.1].generation.cmp(&sstables[b.1].generation);
            a.0.total_cmp(&b.0).then(older)
        })?;
        let moves = self.moves && inputs.is_empty() && sstables[index].level as usize == level;
        inputs.push(index);
        let shape = Shape { level: target, split: Split::Bytes(self.sstable_bytes) };
        Some(Task { inputs, shape, moves })
    }

    /// The oldest sstables of L0 go to L1, with what they overlap there; while they are too small for that, into one of L0.
    fn lowest_down(&self, scene: Scene<'_>, levels: &[Vec<usize>]) -> Option<Task> {
        let sstables = scene.sstables;
        let (mut inputs, busy): (Vec<usize>, Vec<usize>) =
            levels[0].iter().partition(|index| !sstables[**index].busy);
        inputs.sort_by_key(|index| sstables[*index].generation);
        inputs.truncate(L0_MAX);
        let bytes: u64 = inputs.iter().map(|index| sstables[*index].bytes).sum();
        let large = bytes >= self.sstable_bytes;
        if inputs.is_empty() || !(inputs.len() >= L0_MIN || large) {
            return None;
        }
        let span = span(sstables, &inputs)?;
        // What others write to L1 there now must not overlap what this would write.
        if busy.iter().any(|index| meet(sstables[*index].range(), span)) {
            return None;
        }
        if !large {
            return Some(Task::merge(inputs, Shape::ONE));
        }
        let empty = Vec::new();
        let over = overlapping(sstables, levels.get(1).unwrap_or(&empty), span);
        if over.iter().any(|index| sstables[*index].busy) {
            return None;
        }
        inputs.extend(over);
        Some(Task::merge(inputs, Shape { level: 1, split: Split::Bytes(self.sstable_bytes) }))
    }
}

/// Sstables by level; those of a level above 0 do not overlap.
fn levels(sstables: &[Candidate]) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..sstables.len()).collect();
    order.sort_by_key(|index| (sstables[*index].first, sstables[*index].last, sstables[*index].generation));
    let mut levels: Vec<Vec<usize>> = vec![Vec::new()];
    let mut ends: Vec<Option<Token>> = vec![None];
    for index in order {
        let sstable = &sstables[index];
        let level = sstable.level.min(LEVEL_MAX) as usize;
        if levels.len() <= level {
            levels.resize(level + 1, Vec::new());
            ends.resize(level + 1, None);
        }
        let apart = ends[level].is_none_or(|end| end < sstable.first);
        if level > 0 && apart {
            ends[level] = Some(sstable.last);
            levels[level].push(index);
        } else {
            levels[0].push(index);
        }
    }
    levels
}

fn overlapping(sstables: &[Candidate], among: &[usize], range: (Token, Token)) -> Vec<usize> {
    among.iter().copied().filter(|index| meet(sstables[*index].range(), range)).collect()
}

fn span(sstables: &[Candidate], of: &[usize]) -> Option<(Token, Token)> {
    let first = of.iter().map(|index| sstables[*index].first).min()?;
    let last = of.iter().map(|index| sstables[*index].last).max()?;
    Some((first, last))
}
